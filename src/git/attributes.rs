//! Attributes for judging merges: those of the place where landing happens, wherever the question is asked.

use super::Result;
use super::objects::Objects;
use super::repo::Repo;
use super::sterile::Sterile;
use crate::model::agent::Oid;
use crate::runtime::files::{self, because};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Which of `paths` are merged by a program of the user's or the repository's own: path and driver. Such a program is
/// never run here, so nobody can tell what it would make of them.
pub fn custom_drivers(
    repo: &Repo,
    objects: &Objects,
    base: &Oid,
    paths: &BTreeSet<Vec<u8>>,
) -> Result<BTreeMap<Vec<u8>, String>> {
    let settings = repo.settings()?;
    let attributes = Attributes::read(repo, objects, Some(base), settings)?;
    let default = settings.iter().rev().find(|(_, k, _)| k == "merge.default").map(|(_, _, v)| v.as_str());
    let default = default.filter(|v| !is_built_in(v));
    if paths.is_empty() || (default.is_none() && !attributes.may_name_a_driver()) {
        return Ok(BTreeMap::new());
    }
    let sterile = Sterile::new(repo, "")?;
    let tree = attributes.write(&sterile)?;
    let input: Vec<u8> = paths.iter().flat_map(|p| p.iter().copied().chain([0])).collect();
    let out = sterile.call(&tree, ["check-attr", "-z", "--stdin", "merge"]).input(input).run()?;
    let fields: Vec<&[u8]> = out.split(|b| *b == 0).collect();
    let mut found = BTreeMap::new();
    for answer in fields.chunks_exact(3) {
        let driver = String::from_utf8_lossy(answer[2]).into_owned();
        match (driver.as_str(), default) {
            ("unspecified", Some(d)) => drop(found.insert(answer[0].to_vec(), d.to_owned())),
            ("unspecified" | "set" | "unset", _) => {}
            (d, _) if is_built_in(d) => {}
            _ => drop(found.insert(answer[0].to_vec(), driver)),
        }
    }
    Ok(found)
}

fn is_built_in(driver: &str) -> bool {
    matches!(driver, "text" | "binary" | "union")
}

/// The attributes that count where landing happens: those of the base's files, of `info/attributes`, and the user's.
#[derive(Debug)]
pub(super) struct Attributes {
    /// Path below the top, and bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
    info: Vec<u8>,
    user: Vec<u8>,
}

impl Attributes {
    pub(super) fn read(
        repo: &Repo,
        objects: &Objects,
        base: Option<&Oid>,
        settings: &[(String, String, String)],
    ) -> Result<Attributes> {
        // A repository's own configuration could name a pipe, or a file that is nobody's business.
        let named = settings.iter().rev().find(|(scope, k, _)| k == "core.attributesfile" && !is_repository(scope));
        let user = named.map_or_else(default_file, |(_, _, v)| super::config_file::expand_home(v));
        let read = |path: &Path| files::read_limited(path, 1 << 20).ok().flatten().unwrap_or_default();
        Ok(Attributes {
            files: base.map(|b| attributes_of(objects, b)).transpose()?.unwrap_or_default(),
            info: read(&repo.common_dir.join("info/attributes")),
            user: read(&user),
        })
    }

    fn may_name_a_driver(&self) -> bool {
        let all = self.files.iter().map(|(_, b)| b).chain([&self.info, &self.user]);
        all.into_iter().any(|b| b.windows(6).any(|w| w == b"merge="))
    }

    /// Puts them where git looks for them; the tree to work in.
    pub(super) fn write(&self, sterile: &Sterile) -> Result<PathBuf> {
        let tree = sterile.dir().join("tree");
        files::ensure_private_dir(&tree)?;
        for (path, bytes) in &self.files {
            let path = tree.join(path);
            let dir = path.parent().unwrap_or(&tree);
            std::fs::create_dir_all(dir).map_err(because("create", dir))?;
            files::write_atomic(&path, bytes)?;
        }
        files::write_atomic(&sterile.dir().join("info/attributes"), &self.info)?;
        files::ensure_private_dir(&sterile.dir().join("git"))?;
        files::write_atomic(&sterile.dir().join("git/attributes"), &self.user)?;
        Ok(tree)
    }
}

fn is_repository(scope: &str) -> bool {
    matches!(scope, "local" | "worktree")
}

fn default_file() -> PathBuf {
    let set = |v: &str| std::env::var_os(v).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    config.unwrap_or_default().join("git/attributes")
}

/// The `.gitattributes` files of a commit.
fn attributes_of(objects: &Objects, commit: &Oid) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut todo = vec![(PathBuf::new(), commit.clone())];
    let mut out = Vec::new();
    while let Some((dir, id)) = todo.pop() {
        for e in objects.tree(&id)? {
            let path = dir.join(std::ffi::OsStr::from_bytes(&e.name));
            if e.is_tree {
                todo.push((path, e.id));
            } else if e.name == b".gitattributes"
                && let Some(bytes) = objects.blob(&e.id)?
            {
                out.push((path, bytes));
            }
        }
    }
    Ok(out)
}
