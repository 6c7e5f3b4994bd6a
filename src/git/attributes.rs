//! Attributes for judging merges: those of the place where landing happens, wherever the question is asked.

use super::Result;
use super::objects::{Objects, from_gix, to_gix};
use super::repo::{Repo, Setting};
use super::sterile::Sterile;
use super::store::Store;
use crate::model::agent::Oid;
use crate::runtime::files::{self, because};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The attribute files of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files(Vec<(Vec<u8>, Oid)>);

impl Files {
    /// They decide a merge: two commits with equal ones merge the same.
    pub fn digest(&self) -> String {
        format!("{:?}", self.0)
    }

    pub(super) fn write(&self, objects: &Objects, dir: &Path) -> Result<()> {
        for (path, id) in &self.0 {
            // A missing one (a partial clone) is an error: without it the answer would be another.
            let bytes = objects.blob(id)?.ok_or_else(|| super::Error::Object(format!("object {id} is missing")))?;
            let path = dir.join(std::ffi::OsStr::from_bytes(path));
            let parent = path.parent().unwrap_or(dir);
            std::fs::create_dir_all(parent).map_err(because("create", parent))?;
            files::write_atomic(&path, &bytes)?;
        }
        Ok(())
    }

    fn mention(&self, objects: &Objects, word: &[u8]) -> Result<bool> {
        for (_, id) in &self.0 {
            if objects.blob(id)?.is_none_or(|b| contains(&b, word)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The `.gitattributes` files of a commit.
pub(super) fn files_of(objects: &Objects, commit: &Oid) -> Result<Files> {
    let why = |e: &dyn std::fmt::Display| super::Error::Object(e.to_string());
    let repo = objects.local();
    let top = repo.find_object(to_gix(commit)?).map_err(|e| why(&e))?.peel_to_tree().map_err(|e| why(&e))?.id;
    let mut todo = vec![(Vec::new(), top)];
    let mut out = Vec::new();
    while let Some((dir, id)) = todo.pop() {
        let tree = repo.find_tree(id).map_err(|e| why(&e))?;
        for e in tree.iter() {
            let e = e.map_err(|e| why(&e))?;
            let name: &[u8] = e.filename();
            if e.mode().is_tree() {
                todo.push(([&dir, name, b"/"].concat(), e.object_id()));
            } else if name == b".gitattributes" && e.mode().is_blob() {
                out.push(([&dir, name].concat(), from_gix(e.object_id())));
            }
        }
    }
    out.sort();
    Ok(Files(out))
}

/// Which of `paths` are merged by a program of the user's or the repository's own: path and driver. Such a program is
/// never run here, so nobody can tell what it would make of them.
pub fn custom_drivers(store: &Store, base: &Oid, paths: &BTreeSet<Vec<u8>>) -> Result<BTreeMap<Vec<u8>, String>> {
    let settings = store.repo().settings()?;
    let default = settings.iter().rev().find(|(_, k, _)| k == "merge.default").map(|(_, _, v)| v.as_str());
    let default = default.filter(|v| !is_built_in(v));
    let named = || -> Result<bool> {
        let shared = Attributes::read(store.repo(), settings);
        Ok(shared.mention(b"merge=") || store.files_of(base)?.mention(store.objects(), b"merge=")?)
    };
    if paths.is_empty() || (default.is_none() && !named()?) {
        return Ok(BTreeMap::new());
    }
    let mut found = BTreeMap::new();
    for (path, driver) in check(store, &store.attributes_of(Some(base))?, "merge", paths)? {
        match (driver.as_str(), default) {
            ("unspecified", Some(d)) => drop(found.insert(path, d.to_owned())),
            ("unspecified" | "set" | "unset", _) => {}
            (d, _) if is_built_in(d) => {}
            _ => drop(found.insert(path, driver)),
        }
    }
    Ok(found)
}

/// Which of `paths` a program makes from others, as `linguist-generated` in the attributes of `base` says.
pub fn generated(store: &Store, base: &Oid, paths: &BTreeSet<Vec<u8>>) -> Result<BTreeSet<Vec<u8>>> {
    const NAME: &str = "linguist-generated";
    let word = NAME.as_bytes();
    let shared = Attributes::read(store.repo(), store.repo().settings()?);
    if paths.is_empty() || !(shared.mention(word) || store.files_of(base)?.mention(store.objects(), word)?) {
        return Ok(BTreeSet::new());
    }
    let all = check(store, &store.attributes_of(Some(base))?, NAME, paths)?;
    Ok(all.into_iter().filter(|(_, v)| v == "set" || v == "true").map(|(p, _)| p).collect())
}

/// The value of one attribute for each of `paths`, as git sees it from `worktree`.
pub(super) fn check<'a>(
    store: &Store,
    worktree: &Path,
    attribute: &str,
    paths: impl IntoIterator<Item = &'a Vec<u8>>,
) -> Result<Vec<(Vec<u8>, String)>> {
    let input: Vec<u8> = paths.into_iter().flat_map(|p| p.iter().copied().chain([0])).collect();
    let out = store.call(worktree, &["check-attr", "-z", "--stdin", attribute]).input(input).run()?;
    let fields: Vec<&[u8]> = out.split(|b| *b == 0).collect();
    Ok(fields.chunks_exact(3).map(|f| (f[0].to_vec(), String::from_utf8_lossy(f[2]).into_owned())).collect())
}

fn is_built_in(driver: &str) -> bool {
    matches!(driver, "text" | "binary" | "union")
}

/// Whether `bytes` hold `word`.
pub(super) fn contains(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|w| w == word)
}

/// The attributes that count everywhere: those of `info/attributes`, and the user's.
#[derive(Debug)]
pub(super) struct Attributes {
    info: Vec<u8>,
    user: Vec<u8>,
}

impl Attributes {
    pub(super) fn read(repo: &Repo, settings: &[Setting]) -> Attributes {
        // A repository's own configuration could name a pipe, or a file that is nobody's business.
        let named = settings.iter().rev().find(|(scope, k, _)| k == "core.attributesfile" && !is_repository(scope));
        let user = named.map_or_else(default_file, |(_, _, v)| super::config_file::expand_home(v));
        let read = |path: &Path| files::read_limited(path, 1 << 20).ok().flatten().unwrap_or_default();
        Attributes { info: read(&repo.common_dir.join("info/attributes")), user: read(&user) }
    }

    pub(super) fn mention(&self, word: &[u8]) -> bool {
        contains(&self.info, word) || contains(&self.user, word)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.info.is_empty() && self.user.is_empty()
    }

    /// Puts them where git looks for them.
    pub(super) fn write_for_all(&self, sterile: &Sterile) -> Result<()> {
        files::write_atomic(&sterile.dir().join("info/attributes"), &self.info)?;
        files::ensure_private_dir(&sterile.dir().join("git"))?;
        Ok(files::write_atomic(&sterile.dir().join("git/attributes"), &self.user)?)
    }
}

pub(super) fn is_repository(scope: &str) -> bool {
    matches!(scope, "local" | "worktree")
}

fn default_file() -> PathBuf {
    let set = |v: &str| std::env::var_os(v).filter(|v| !v.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    config.unwrap_or_default().join("git/attributes")
}
