//! Giving back: the two renames the other way round, then the branch and the registration.

use super::identity;
use super::naming::Taken;
use super::remove::{Entry, drop_entry, entries};
use super::{Context, Error, Result};
use crate::git::state::{Held, Registration, event};
use crate::git::{refs, worktree};
use crate::model::agent::Name;
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::runtime::files;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What was given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Under which name.
    pub name: String,
    /// Where the tree is.
    pub path: Option<PathBuf>,
    /// What is not as it was, in words.
    pub notes: Vec<String>,
}

/// What can be given back, newest first.
pub fn list(ctx: &Context) -> Vec<Entry> {
    entries(ctx).into_iter().rev().map(|(_, e)| e).filter(|e| e.complete).collect()
}

/// Gives back the newest removed agent called `name`, or the one removed last.
pub fn restore(ctx: &Context, name: Option<&str>) -> Result<Restored> {
    let held = ctx.state.lock()?;
    super::repair::repair(ctx, &held)?;
    let wanted = entries(ctx).into_iter().rev().find(|(_, e)| {
        e.complete
            && name.is_none_or(|n| e.name == n || short_ref(&e.branch) == n || e.id.0.starts_with(n) && n.len() >= 7)
    });
    let Some((dir, mut entry)) = wanted else {
        let what = name.map_or("nothing was removed that could be given back".to_owned(), |n| {
            format!("no removed agent is named '{n}'")
        });
        return Err(Error::refused(what, "git agents restore --list"));
    };
    let mut notes = Vec::new();
    let taken = Taken::read(ctx)?;
    if ctx.state.registrations()?.0.iter().any(|r| r.name.0 == entry.name) {
        let (free, _) = taken.free_like(&entry.name, "");
        notes.push(format!("'{}' is taken; it is called '{free}' now", entry.name));
        entry.name = free;
    }
    // The branch first: refuse before anything moves.
    let now = refs::read(ctx.repo(), &entry.branch)?;
    let holder =
        worktree::list(ctx.repo())?.into_iter().find(|e| e.head == worktree::Head::Branch(entry.branch.clone()));
    if let Some(h) = holder {
        return Err(Error::refused(
            format!("branch '{}' is checked out at '{}' now", short_ref(&entry.branch), h.path.display()),
            "switch that worktree to another branch, then try again",
        ));
    }
    match (&now, &entry.tip) {
        (Some(now), Some(tip)) if now != tip => notes.push(format!(
            "branch '{}' moved from {} to {} meanwhile; it was left there",
            short_ref(&entry.branch),
            tip.short(),
            now.short()
        )),
        _ => {}
    }
    if let Some(path) = &entry.path
        && path.symlink_metadata().is_ok()
    {
        let free = free_path(path);
        notes.push(format!("'{}' exists; it is at '{}' now", path.display(), free.display()));
        entry.path = Some(free);
    }
    if let Some(id) = &entry.worktree
        && ctx.repo().common_dir.join("worktrees").join(id).symlink_metadata().is_ok()
    {
        let free =
            (2..).map(|i| format!("{id}{i}")).find(|n| !ctx.repo().common_dir.join("worktrees").join(n).exists());
        entry.worktree = free;
    }
    let reg = Registration {
        name: Name(entry.name.clone()),
        id: entry.id.clone(),
        branch: entry.branch.clone(),
        base: entry.base.clone(),
        fork: entry.fork.clone(),
        ahead: entry.ahead.clone(),
        worktree: entry.worktree.clone(),
        doing: Some("restore".into()),
        path: entry.path.clone(),
    };
    entry.complete = false;
    super::remove::write_entry(&dir, &entry)?;
    ctx.state.register(&held, &reg)?;
    finish(ctx, &held, reg, &dir, &entry)?;
    Ok(Restored { name: entry.name, path: entry.path, notes })
}

fn free_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (2..)
        .map(|i| path.with_file_name(format!("{name}-{i}")))
        .find(|p| p.symlink_metadata().is_err())
        .expect("numbers do not end")
}

/// From the registration on: also what [`super::repair`] does after a kill. Every step may have happened already.
pub(super) fn finish(ctx: &Context, held: &Held, mut reg: Registration, dir: &Path, entry: &Entry) -> Result<()> {
    let repo = ctx.repo();
    if let Some(tip) = &entry.tip
        && entry.branch_deleted
        && refs::read(repo, &entry.branch)?.is_none()
    {
        refs::update(repo, &entry.branch, tip, None)?;
    }
    if let (Some(id), Some(path)) = (&entry.worktree, &entry.path) {
        let admin = repo.common_dir.join("worktrees").join(id);
        let kept = dir.join("admin");
        if kept.symlink_metadata().is_ok() && admin.symlink_metadata().is_err() {
            let link = path.join(".git");
            let gitdir = files::read_limited(&kept.join("gitdir"), 1 << 16)?.unwrap_or_default();
            use std::os::unix::ffi::OsStrExt as _;
            let before = gitdir.trim_ascii_end().to_vec();
            if before != link.as_os_str().as_bytes() && !before.starts_with(b".") {
                files::write_atomic(&kept.join("gitdir"), &[link.as_os_str().as_bytes(), b"\n"].concat())?;
            }
            if let Some(parent) = admin.parent() {
                std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
            }
            files::rename_new(&kept, &admin)?;
            files::sync_dir(dir)?;
            files::sync_dir(&repo.common_dir.join("worktrees"))?;
        }
        if entry.tree.symlink_metadata().is_ok() && path.symlink_metadata().is_err() {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(files::because("create", parent))?;
            }
            let points = worktree::points_to(&entry.tree);
            if points.is_some_and(|p| p != admin && p.is_absolute() && p.starts_with(&repo.common_dir)) {
                files::write_atomic(&entry.tree.join(".git"), format!("gitdir: {}\n", admin.display()).as_bytes())?;
            }
            files::rename_new(&entry.tree, path)?;
            for p in [path.parent(), entry.tree.parent()].into_iter().flatten() {
                files::sync_dir(p)?;
            }
        }
    }
    if let Some(e) = identity::entry_of(ctx, &reg)? {
        // The lock is the one removal wrote.
        worktree::unlock(&e, |r| identity::parse_lock_reason(r).is_some_and(|(id, _)| id == reg.id))?;
    }
    ctx.state.append(held, &[event(&reg.id, Kind::Restored, json!({ "tip": entry.tip }))])?;
    reg.doing = None;
    reg.path = None;
    ctx.state.register(held, &reg)?;
    drop_entry(dir)
}
