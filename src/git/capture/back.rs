//! A worktree filled again from its capture alone: nothing that stands there already is replaced.

use super::super::changes;
use super::super::command::Call;
use super::super::objects::Objects;
use super::super::repo::Repo;
use super::super::{Error, Result};
use crate::model::agent::Oid;
use crate::model::meet::Entry;
use crate::runtime::files::{self, because};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What a capture says of itself; `None` where `commit` is none of ours.
pub fn about(objects: &Objects, commit: &Oid) -> Option<serde_json::Value> {
    let said: serde_json::Value = serde_json::from_str(&objects.commit(commit).ok()??.subject).ok()?;
    said["agent"].is_string().then_some(said)
}

/// The commits that hold the index, by stage.
fn index_of(objects: &Objects, commit: &Oid) -> Result<Vec<Oid>> {
    let parents = objects.commit(commit)?.map(|c| c.parents).unwrap_or_default();
    let mut out = Vec::new();
    for p in parents {
        let subject = objects.commit(&p)?.map(|c| c.subject).unwrap_or_default();
        if subject == format!("index, stage {}", out.len()) {
            out.push(p);
        }
    }
    Ok(out)
}

/// Gives the index at `admin` what was staged, conflicts too.
pub fn stage(repo: &Repo, objects: &Objects, commit: &Oid, admin: &Path, path: &Path) -> Result<()> {
    let stages = index_of(objects, commit)?;
    let Some((first, others)) = stages.split_first() else { return Ok(()) };
    repo.call_in(path, admin, ["read-tree", &first.0]).run()?;
    let mut lines = Vec::new();
    for (n, other) in others.iter().enumerate() {
        // A path of a conflict is in no version of the index itself.
        for (p, d) in changes::between(objects, first, other)?.files {
            if let (None, Some(Entry { mode, id })) = (d.old, d.new) {
                lines.extend(format!("{mode:06o} {id} {}\t", n + 1).into_bytes());
                lines.extend(p);
                lines.push(0);
            }
        }
    }
    if !lines.is_empty() {
        repo.call_in(path, admin, ["update-index", "-z", "--index-info"]).input(lines).run()?;
    }
    Ok(())
}

/// Fills `path` with the files of the capture: those that were as in the index by git's own checkout, with the user's
/// filters, all others byte for byte.
pub fn fill(repo: &Repo, objects: &Objects, commit: &Oid, admin: &Path, path: &Path) -> Result<()> {
    let Some(about) = about(objects, commit) else { return fill_from_index(repo, admin, path, None) };
    let index = index_of(objects, commit)?;
    let from = match index.first() {
        Some(index) => index.clone(),
        None => match objects.commit(commit)?.and_then(|c| c.parents.first().cloned()) {
            Some(tip) => tip,
            None => return fill_from_index(repo, admin, path, None),
        },
    };
    // Of one that was killed in the middle of this.
    files::heal(path);
    let other = changes::between(objects, &from, commit)?.files;
    for (p, delta) in &other {
        if let Some(new) = &delta.new {
            write(objects, new, path, &path.join(OsStr::from_bytes(p)))?;
        }
    }
    fill_from_index(repo, admin, path, Some(&other.into_keys().collect()))?;
    for m in about["modes"].as_array().into_iter().flatten() {
        let (Some(p), Some(mode)) = (m[0].as_str(), m[1].as_str().and_then(|m| u32::from_str_radix(m, 8).ok())) else {
            continue;
        };
        let file = path.join(p);
        if file.symlink_metadata().is_ok_and(|m| m.is_file()) {
            let set = std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode & 0o7777));
            set.map_err(because("set the mode of", &file))?;
        }
    }
    Ok(())
}

/// One file of the tree at `top` where there is none.
fn write(objects: &Objects, entry: &Entry, top: &Path, file: &Path) -> Result<()> {
    let parent = file.parent().unwrap_or(file);
    std::fs::create_dir_all(parent).map_err(because("create", parent))?;
    // Another repository was there: its files were never in the capture.
    if entry.mode == 0o160_000 || file.symlink_metadata().is_ok() {
        return Ok(());
    }
    let missing = || Error::Object(format!("object {} is missing", entry.id));
    let bytes = objects.blob(&entry.id)?.ok_or_else(missing)?;
    let beside = files::temporary_beside(&top.join("x"));
    if entry.mode == 0o120_000 {
        std::os::unix::fs::symlink(OsStr::from_bytes(&bytes), &beside).map_err(because("link", &beside))?;
    } else {
        files::write_durable(&beside, &bytes)?;
        let mode = if entry.mode & 0o100 != 0 { 0o755 } else { 0o644 };
        let set = std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(mode));
        set.map_err(because("set the mode of", &beside))?;
    }
    Ok(files::rename_new(&beside, file)?)
}

/// Checks out what the index has and `without` does not name, where nothing stands.
fn fill_from_index(repo: &Repo, admin: &Path, path: &Path, without: Option<&BTreeSet<Vec<u8>>>) -> Result<()> {
    let listed = repo.call_in(path, admin, ["ls-files", "-z"]).run()?;
    let mut names = Vec::new();
    for p in listed.split(|b| *b == 0).filter(|p| !p.is_empty() && without.is_none_or(|w| !w.contains(*p))) {
        names.extend(p);
        names.push(0);
    }
    let args = ["-c", "core.fsmonitor=false", "checkout-index", "--quiet", "-z", "--stdin"];
    let call = Call::user_visible(path, args)
        .without_hooks(&repo.configured_hooks())
        .env("GIT_DIR", admin)
        .env("GIT_COMMON_DIR", &repo.common_dir)
        .env("GIT_WORK_TREE", path)
        .input(names);
    // It ends with 1 where a file is there, or has no single version to take.
    match call.output()?.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(Error::Object(format!("'{}' could not be filled again", crate::model::text::shown_path(path)))),
    }
}
