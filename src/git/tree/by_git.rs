//! The snapshot by git itself, with a copy of the index: for sparse and split indexes and whatever else is not plain.

use super::convert::Filters;
use crate::git::status::{self, Place, RelPath};
use crate::git::sterile::{self, Rules};
use crate::git::store::Store;
use crate::git::{Result, command};
use crate::model::agent::Oid;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// The tree; `None` while paths are unmerged.
pub(super) fn tree(store: &Store, place: &Place<'_>, doubtful: &mut BTreeMap<RelPath, String>) -> Result<Option<Oid>> {
    let changes = sterile::status(store.repo(), place, Rules::AsUserSees)?;
    if !changes.conflicted.is_empty() {
        return Ok(None);
    }
    let index = store.new_path("index");
    store.sterile().copy_index(store.repo(), place, &index)?;
    let call = |args: &[&str]| store.call(place.worktree, args).env("GIT_INDEX_FILE", &index);
    let changed = || changes.modified.iter().chain(&changes.untracked);
    let filters = Filters::of(store, place, changed())?;
    doubtful.extend(filters.doubtful.clone());
    // git says so on standard error alone and leaves it out.
    let unread = changed().filter_map(|p| Some((p.clone(), not_read(&place.worktree.join(OsStr::from_bytes(p)))?)));
    doubtful.extend(unread.collect::<Vec<_>>());
    // git would start itself in each submodule to see whether it is dirty, with that repository's settings.
    let listed = call(&["ls-files", "-s", "-z"]).run()?;
    let submodules: Vec<(Oid, RelPath)> = listed.split(|b| *b == 0).filter_map(submodule).collect();
    let mut excludes = OsString::from("core.excludesFile=");
    excludes.push(sterile::excludes_file(store.repo())?);
    let mut add = call(&["-c", "core.safecrlf=false", "-c", "advice.addEmbeddedRepo=false", "-c"]);
    add.arg(excludes);
    for a in ["add", "-A", "--ignore-errors", "--", "."] {
        add.arg(a);
    }
    for path in doubtful.keys().chain(submodules.iter().map(|(_, p)| p)) {
        add.arg(OsString::from_vec([b":(top,exclude,literal)", path.as_slice()].concat()));
    }
    let out = filters.allow(add).output()?;
    // 1: some file could not be added, and git has said which; the others were.
    if !matches!(out.status.code(), Some(0 | 1)) {
        return Err(command::failed("add -A", &out, Some(&store.repo().common_dir)));
    }
    let mut lines: Vec<u8> = Vec::new();
    for (id, path) in &submodules {
        let on_disk = place.worktree.join(OsStr::from_bytes(path));
        match std::fs::symlink_metadata(&on_disk) {
            Ok(m) if m.is_dir() => {
                if let Some(now) = status::checked_out(&on_disk).filter(|now| now != id) {
                    lines.extend([format!("160000 {now}\t").as_bytes(), path, b"\0"].concat());
                }
            }
            Ok(_) => drop(doubtful.insert(path.clone(), "a file stands where a submodule was".into())),
            Err(_) => lines.extend([format!("0 {}\t", id.zero_like()).as_bytes(), path, b"\0"].concat()),
        }
    }
    if !lines.is_empty() {
        call(&["update-index", "-z", "--index-info"]).input(lines).run()?;
    }
    Ok(Oid::parse(&call(&["write-tree", "--missing-ok"]).text()?))
}

/// Why nobody looks into the file.
fn not_read(file: &Path) -> Option<String> {
    let meta = file.symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
    if meta.len() > super::LARGEST {
        return Some("it is too large to look into".into());
    }
    std::fs::File::open(file).err().map(|e| format!("it cannot be read: {e}"))
}

/// `160000 <id> <stage>\t<path>`.
fn submodule(line: &[u8]) -> Option<(Oid, RelPath)> {
    let rest = line.strip_prefix(b"160000 ")?;
    let tab = rest.iter().position(|b| *b == b'\t')?;
    let id = std::str::from_utf8(&rest[..tab]).ok()?.split(' ').next().and_then(Oid::parse)?;
    Some((id, rest[tab + 1..].to_vec()))
}
