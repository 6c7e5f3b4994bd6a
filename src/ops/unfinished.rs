//! Creations that a kill or an error cut short: told apart from finished ones, and taken back.
//!
//! What git had begun is deleted, for nobody was ever given it. Files that git did not put there are not: they stop it.

use super::identity::{has_token, parse_lock_reason};
use super::{Context, Error, Result};
use crate::git::state::{Held, Registration, event};
use crate::git::{refs, worktree};
use crate::model::event::Kind;
use crate::model::text::shown_path;
use crate::runtime::{clock, files, process};
use serde_json::json;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Whether the registration says that a creation is under way, or was.
pub fn is_unfinished(reg: &Registration) -> bool {
    matches!(reg.doing.as_deref(), Some("create" | "checkout" | "adopt"))
}

/// Whether all files are in the tree: git writes the index after the last of them.
pub fn is_checked_out(entry: &worktree::Entry) -> bool {
    entry.link() == worktree::Link::Good && entry.admin.join("index").exists()
}

/// Who may have been in the tree since it was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Nobody: it was made by this very command.
    Now,
    /// Anybody: an earlier command made it.
    Earlier,
}

/// Takes back what was made; the registration stays. A branch of ours goes if it is still where we made it, an adopted
/// one stays.
pub fn undo(ctx: &Context, _held: &Held, reg: &Registration, since: Since) -> Result<()> {
    debug_assert!(is_unfinished(reg));
    let repo = ctx.repo();
    let top = repo.common_dir.join("worktrees");
    let admins = admins(ctx, reg)?;
    let path = match &reg.path {
        Some(p) => Some(p.clone()),
        None => reg.worktree.as_deref().map(|id| worktree::read(repo, id)).transpose()?.flatten().map(|e| e.path),
    };
    let made = path.filter(|p| p.symlink_metadata().is_ok_and(|m| m.is_dir())).filter(|p| {
        // The place was free when this was registered: git had not begun there yet, had begun its link, or had linked it.
        let link = worktree::points_to(p);
        holds_nothing(p) || link.is_some_and(|l| admins.contains(&l) || l.starts_with(&top) && !l.exists())
    });
    if let (Since::Earlier, Some(p)) = (since, &made) {
        if admins.iter().any(|a| a.join("index").exists()) {
            let what = format!("'{}' has all its files; it is not taken back", shown_path(p));
            return Err(Error::refused(what, "git worktree list"));
        }
        check_foreign(ctx, reg, p)?;
    }
    heal_locks(ctx, reg)?;
    // A kill in the middle of this must leave what is left as recognisable as it was: the link to git goes last, and the
    // admin directory, by which the tree is known, in one step after it.
    if let Some(p) = &made {
        empty(p)?;
        remove(p)?;
    }
    for admin in &admins {
        put_aside(ctx, admin)?;
    }
    if reg.doing.as_deref() != Some("adopt")
        && let Some(tip) = refs::read(repo, &reg.branch)?
    {
        let elsewhere = worktree::list(repo)?.iter().any(|e| e.head == worktree::Head::Branch(reg.branch.clone()));
        if tip == reg.fork && !elsewhere {
            refs::delete(repo, &reg.branch, &tip)?;
        }
    }
    Ok(())
}

/// Deletes everything in the tree at `dir` but its link to git.
pub(super) fn empty(dir: &Path) -> Result<()> {
    for e in std::fs::read_dir(dir).map_err(files::because("read", dir))? {
        let e = e.map_err(files::because("read", dir))?;
        if e.file_name() != ".git" {
            remove(&e.path())?;
        }
    }
    Ok(())
}

/// [`undo`], and the registration goes too.
pub fn give_up(ctx: &Context, held: &Held, reg: &Registration, since: Since) -> Result<()> {
    undo(ctx, held, reg, since)?;
    ctx.state.append(held, &[event(&reg.id, Kind::Removed, json!({ "unfinished": true }))])?;
    Ok(ctx.state.unregister(held, &reg.name)?)
}

/// Removes the locks that a killed git left in the admin directories of `reg`, which nobody was ever given. The caller
/// holds the repository's lock and the run's: nobody else works for it.
pub fn heal_locks(ctx: &Context, reg: &Registration) -> Result<()> {
    let mut locks = Vec::new();
    if is_unfinished(reg) {
        for admin in admins(ctx, reg)? {
            locks.extend(["HEAD.lock", "ORIG_HEAD.lock", "index.lock"].map(|n| admin.join(n)));
        }
    }
    for lock in locks.iter().filter(|l| l.symlink_metadata().is_ok() && !process::is_open_anywhere(l)) {
        std::fs::remove_file(lock).map_err(files::because("unlock", lock))?;
    }
    Ok(())
}

/// Removes the locks that a git of a run left in the worktree of `reg`, where the run `ended` before (or, where nobody
/// noted when, ten seconds ago): its processes are gone, and nobody else works there. The caller holds the run's lock.
pub fn heal_after_run(ctx: &Context, reg: &Registration, ended: Option<&str>) -> Result<()> {
    let Some(entry) = super::identity::entry_of(ctx, reg)? else { return Ok(()) };
    let ended = ended.and_then(clock::parse).map(std::time::SystemTime::from);
    let limit = ended.or_else(|| std::time::SystemTime::now().checked_sub(std::time::Duration::from_secs(10)));
    for lock in ["index.lock", "HEAD.lock"].map(|n| entry.admin.join(n)) {
        let made = lock.symlink_metadata().and_then(|m| m.modified()).ok();
        let is_left = made.is_some() && made <= limit && process::standing_in(&entry.path).is_empty();
        if is_left && !process::is_open_anywhere(&lock) {
            std::fs::remove_file(&lock).map_err(files::because("unlock", &lock))?;
        }
    }
    Ok(())
}

/// Admin directories that were begun for `reg`: by their lock, by their token, or with nothing in them under the name
/// git chose.
fn admins(ctx: &Context, reg: &Registration) -> Result<BTreeSet<PathBuf>> {
    let stem = reg.path.as_ref().and_then(|p| p.file_name()).map(|n| n.as_bytes().to_vec());
    let mut out = BTreeSet::new();
    for e in std::fs::read_dir(ctx.repo().common_dir.join("worktrees")).into_iter().flatten() {
        let Ok(e) = e else { continue };
        let admin = e.path();
        let locked = files::read_limited(&admin.join("locked"), 1 << 12)?.unwrap_or_default();
        let ours = parse_lock_reason(String::from_utf8_lossy(&locked).trim()).is_some_and(|(id, _)| id == reg.id)
            || e.file_name()
                .to_str()
                .is_some_and(|id| worktree::read(ctx.repo(), id).is_ok_and(|e| e.is_some_and(|e| has_token(&e, reg))));
        let begun = || {
            let name = e.file_name();
            let rest = stem.as_ref().and_then(|s| name.as_bytes().strip_prefix(s.as_slice()));
            rest.is_some_and(|r| r.iter().all(u8::is_ascii_digit)) && holds_nothing(&admin)
        };
        if ours || begun() {
            out.insert(admin);
        }
    }
    Ok(out)
}

/// Whether git had got no further in `dir` than to open its first file: nothing is there, or one file without a byte.
fn holds_nothing(dir: &Path) -> bool {
    let of_git = |e: &std::fs::DirEntry| {
        (e.file_name() == ".git" || e.file_name() == "locked")
            && e.metadata().is_ok_and(|m| m.is_file() && m.len() == 0)
    };
    std::fs::read_dir(dir).is_ok_and(|d| d.filter_map(std::result::Result::ok).all(|e| of_git(&e)))
}

/// Refuses where the tree holds anything that a checkout of the fork would not have put there.
fn check_foreign(ctx: &Context, reg: &Registration, path: &Path) -> Result<()> {
    let listed = ctx.repo().call(["ls-tree", "-r", "-z", "--name-only", &reg.fork.0]).run()?;
    let known: BTreeSet<&[u8]> = listed.split(|b| *b == 0).collect();
    let mut foreign = Vec::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(dir) = todo.pop() {
        let at = path.join(&dir);
        for e in std::fs::read_dir(&at).map_err(files::because("read", &at))? {
            let e = e.map_err(files::because("read", &at))?;
            let rel = dir.join(e.file_name());
            let bytes = rel.as_os_str().as_bytes();
            if bytes == b".git" || known.contains(bytes) {
                continue;
            }
            if e.file_type().is_ok_and(|t| t.is_dir()) {
                todo.push(rel);
            } else {
                foreign.push(crate::model::text::safe_path(bytes));
            }
        }
    }
    foreign.sort();
    match foreign.as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            Err(Error::refused(
                format!("'{}' was never finished, and holds files of someone's: {first}{more}", shown_path(path)),
                "move them away, then try again; nothing was touched",
            ))
        }
    }
}

/// What git knows of the creation `reg` out of its sight: for a tree that is recognised without it.
pub(super) fn put_admins_aside(ctx: &Context, reg: &Registration) -> Result<()> {
    admins(ctx, reg)?.iter().try_for_each(|admin| put_aside(ctx, admin))
}

/// Out of git's sight in one step, then away; what a kill leaves of it is cleared with the private git dirs.
fn put_aside(ctx: &Context, admin: &Path) -> Result<()> {
    let top = ctx.repo().agents_dir().join("sterile");
    files::ensure_private_dir(&top)?;
    let aside = top.join(format!("undone-{}", clock::random_hex(8)));
    files::rename_new(admin, &aside)?;
    remove(&aside)
}

pub(super) fn remove(dir: &Path) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(dir).map_err(files::because("read", dir))?;
    Ok(files::remove_tree(dir, meta.dev())?)
}
