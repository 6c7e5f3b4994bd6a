//! Uncommitted work out of a capture back into its worktree, byte for byte, after the branch has moved below it.

use super::{Oid, on_disk};
use crate::git::repo::Repo;
use crate::git::status::RelPath;
use crate::git::worktree::Entry;
use crate::git::{Error, Result, objects::Objects};
use crate::runtime::files::{self, because};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

/// One path as a tree has it: octal mode and object; `None` where it has not.
type Slot = Option<(String, Oid)>;

/// Uncommitted work that can be put back.
#[derive(Debug)]
pub struct Work {
    /// Of the files, as they were.
    files: BTreeMap<RelPath, Slot>,
    /// Of the index.
    index: BTreeMap<RelPath, Slot>,
    /// Octal modes git cannot keep, by path.
    modes: BTreeMap<RelPath, u32>,
}

impl Work {
    /// What the capture `commit` holds beside the commit it was taken on.
    pub fn of(repo: &Repo, objects: &Objects, commit: &Oid) -> Result<Work> {
        let damaged = |why: &str| Error::Damaged { what: format!("capture {}", commit.short()), why: why.into() };
        let parents = objects.commit(commit)?.ok_or_else(|| damaged("it is missing"))?.parents;
        let [tip, index, ..] = parents.as_slice() else { return Err(damaged("it has no index")) };
        let text = repo.call(["log", "-1", "--no-show-signature", "--format=%B", &commit.0]).text()?;
        let about: serde_json::Value = serde_json::from_str(&text).map_err(|e| damaged(&e.to_string()))?;
        let modes = about["modes"].as_array().into_iter().flatten().filter_map(|m| {
            let mode = u32::from_str_radix(m[1].as_str()?, 8).ok()?;
            Some((m[0].as_str()?.as_bytes().to_vec(), mode))
        });
        Ok(Work { files: diff(repo, tip, commit)?, index: diff(repo, tip, index)?, modes: modes.collect() })
    }

    /// How many paths it is.
    pub fn len(&self) -> usize {
        self.files.keys().chain(self.index.keys()).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `path` is uncommitted work.
    pub fn has(&self, path: &[u8]) -> bool {
        self.files.contains_key(path)
    }

    /// Whether every file is as it was.
    pub fn is_in_place(&self, objects: &Objects, entry: &Entry) -> bool {
        self.files.iter().all(|(path, slot)| self.stands(objects, &on_disk(&entry.path, path), path, slot))
    }

    /// Puts all of it back. A path that `moved` names has changed below it, and is left alone.
    pub fn put_back(&self, repo: &Repo, objects: &Objects, entry: &Entry, moved: &dyn Fn(&[u8]) -> bool) -> Result<()> {
        for (path, slot) in self.files.iter().filter(|(p, _)| !moved(p)) {
            let file = on_disk(&entry.path, path);
            // Of one that was killed in the middle of this.
            file.parent().into_iter().for_each(files::heal);
            if !self.stands(objects, &file, path, slot) {
                self.write(objects, &entry.path, &file, path, slot)?;
            }
        }
        let mut input = Vec::new();
        for (path, slot) in self.index.iter().filter(|(p, _)| !moved(p)) {
            let line = match slot {
                Some((mode, id)) => format!("{mode} {id}\t"),
                None => format!("0 {}\t", "0".repeat(repo.hex_len())),
            };
            input.extend([line.as_bytes(), path, b"\0"].concat());
        }
        let git = |args: &[&str]| repo.call_in(&entry.path, &entry.admin, args);
        let mark = crate::git::locks::Mark::of_worktree(repo, &entry.admin, "HEAD");
        let update = git(&["update-index", "-z", "--index-info"]).input(input).run();
        // 1: some are other than in the index.
        let result = update.and_then(|_| git(&["update-index", "-q", "--refresh"]).yes_no()).map(drop);
        mark.end(&result);
        result
    }

    fn stands(&self, objects: &Objects, file: &Path, path: &[u8], slot: &Slot) -> bool {
        let meta = file.symlink_metadata();
        match slot {
            None => meta.is_err() || meta.is_ok_and(|m| m.is_dir()),
            // Another repository: it was never touched.
            Some((mode, _)) if mode == "160000" => true,
            Some((mode, id)) => meta.is_ok_and(|m| {
                let same_kind = m.file_type().is_symlink() == (mode == "120000");
                let same_mode = mode == "120000" || m.mode() & 0o7777 == self.mode(path, mode);
                same_kind && same_mode && !m.is_dir() && objects.is_blob_of_file(id, file)
            }),
        }
    }

    fn mode(&self, path: &[u8], mode: &str) -> u32 {
        self.modes.get(path).copied().unwrap_or(if mode == "100755" { 0o755 } else { 0o644 })
    }

    fn write(&self, objects: &Objects, top: &Path, file: &Path, path: &[u8], slot: &Slot) -> Result<()> {
        let Some((mode, id)) = slot else {
            return match std::fs::remove_file(file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(because("remove", file)(e).into()),
                _ => Ok(()),
            };
        };
        let missing = || Error::Damaged { what: format!("blob {}", id.short()), why: "it is missing".into() };
        let bytes = objects.blob(id)?.ok_or_else(missing)?;
        make_dirs(top, file.parent().unwrap_or(top))?;
        if mode == "120000" {
            let beside = files::temporary_beside(file);
            std::os::unix::fs::symlink(OsStr::from_bytes(&bytes), &beside).map_err(because("link", file))?;
            return std::fs::rename(&beside, file).map_err(|e| because("replace", file)(e).into());
        }
        files::write_durable(file, &bytes)?;
        let mode = std::fs::Permissions::from_mode(self.mode(path, mode));
        std::fs::set_permissions(file, mode).map_err(|e| because("write", file)(e).into())
    }
}

/// Makes the directories from `top` down to `dir`; a link on the way leads elsewhere, and is refused.
fn make_dirs(top: &Path, dir: &Path) -> Result<()> {
    if dir == top {
        return Ok(());
    }
    make_dirs(top, dir.parent().unwrap_or(top))?;
    match dir.symlink_metadata() {
        Ok(m) if m.is_dir() => Ok(()),
        Ok(_) => Err(Error::Damaged {
            what: format!("'{}'", crate::model::text::shown_path(dir)),
            why: "it is no directory".into(),
        }),
        Err(_) => std::fs::create_dir(dir).map_err(|e| because("create", dir)(e).into()),
    }
}

/// The paths by which two trees differ, as the second has them.
fn diff(repo: &Repo, from: &Oid, to: &Oid) -> Result<BTreeMap<RelPath, Slot>> {
    let out = repo.call(["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", &from.0, &to.0]).run()?;
    let mut fields = out.split(|b| *b == 0);
    let mut found = BTreeMap::new();
    while let (Some(head), Some(path)) = (fields.next().filter(|f| !f.is_empty()), fields.next()) {
        let words: Vec<&str> = std::str::from_utf8(head).unwrap_or_default().split(' ').collect();
        let [_, mode, _, id, _] = words.as_slice() else { continue };
        let slot = Oid::parse(id).filter(|_| *mode != "000000").map(|id| ((*mode).to_owned(), id));
        found.insert(path.to_vec(), slot);
    }
    Ok(found)
}
