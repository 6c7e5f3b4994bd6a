//! Giving back: the two renames the other way round, then the branch and the registration.

use super::base::Base;
use super::identity;
use super::naming::{self, Taken, Wish};
use super::remove::{Entry, drop_entry, entries};
use super::{Context, Error, Result};
use crate::git::capture::back;
use crate::git::state::{Held, Registration, event};
use crate::git::{locks, refs, worktree};
use crate::model::agent::{Name, Oid, Slug};
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::model::text::shown_path;
use crate::place::files::RelPath as AnyPath;
use crate::runtime::{files, process};
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

/// What can be given back, newest first: from the trash, or, where its time there is over, from its capture.
pub fn list(ctx: &Context) -> Vec<Entry> {
    all(ctx).into_iter().rev().map(|(_, e)| e).filter(|e| e.complete).collect()
}

/// Entries of the trash and what captures tell of those that are gone from it, oldest first.
fn all(ctx: &Context) -> Vec<(PathBuf, Entry)> {
    let mut out = entries(ctx);
    let expired = super::trash::expired(ctx, &out);
    out.extend(expired);
    out.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    out
}

/// Gives back the newest removed agent called `name`, or the one removed last.
pub fn restore(ctx: &Context, name: Option<&str>) -> Result<Restored> {
    let held = ctx.state.lock()?;
    let stuck = super::repair::repair(ctx, &held)?;
    let wanted = all(ctx).into_iter().rev().find(|(_, e)| {
        e.complete
            && name.is_none_or(|n| e.name == n || short_ref(&e.branch) == n || e.id.0.starts_with(n) && n.len() >= 7)
    });
    let Some((dir, mut entry)) = wanted else {
        let what = name.map_or("nothing was removed that could be given back".to_owned(), |n| {
            format!("no removed agent is named '{n}'")
        });
        return Err(Error::refused(what, "git agents restore --list"));
    };
    stuck.check(&entry.name)?;
    let mut notes = Vec::new();
    if let Some(why) = &entry.damaged {
        if !super::trash::is_whole(&entry) {
            return Err(Error::refused(
                format!("what was removed as '{}' has a damaged description: {why}", entry.name),
                format!("its files are in '{}'", shown_path(&entry.tree_in(&dir))),
            ));
        }
        notes.push(format!("its description was damaged ({why}); the rest tells this much of it"));
    }
    let lost = !entry.missing && !entry.stands && entry.tree_in(&dir).symlink_metadata().is_err();
    if lost {
        entry.missing = true;
        notes.push("its files are gone from the trash".to_owned());
    }
    let about = captured(ctx, &entry)?.and_then(|c| back::about(&ctx.state.objects, &c));
    match about.filter(|_| entry.missing) {
        Some(about) => notes.extend(lost_with_the_tree(&about, entry.expired)),
        None if entry.missing && entry.path.is_some() => notes.push(
            "its directory was gone already when it was removed: what was committed or staged is back".to_owned(),
        ),
        None => {}
    }
    if !entry.emptied.is_empty() {
        notes.push(format!("deleted early, for its tools to make again: {}", entry.emptied.join(", ")));
    }
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
            format!("branch '{}' is checked out at '{}' now", short_ref(&entry.branch), shown_path(&h.path)),
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
    if entry.path.is_some() && *entry.repository != ctx.repo().common_dir {
        let path = place_anew(ctx, &entry, &dir)?;
        notes.push(format!("the repository is another, or elsewhere now: it is at '{}'", shown_path(&path)));
        entry.path = Some(AnyPath(path));
    }
    if entry.stands {
        stands_again(ctx, &mut entry, &dir, &mut notes)?;
    }
    if let Some(path) = &entry.path
        && !entry.stands
        && path.symlink_metadata().is_ok()
    {
        let free = free_path(path);
        notes.push(format!("'{}' exists; it is at '{}' now", shown_path(path), shown_path(&free)));
        entry.path = Some(AnyPath(free));
    }
    if !entry.stands && !entry.missing && entry.tree_in(&dir).is_dir() {
        admin_anew(ctx, &mut entry, &dir, &mut notes)?;
    } else if entry.missing && captured(ctx, &entry)?.is_some() {
        from_capture(ctx, &mut entry, &dir)?;
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
        path: entry.path.as_ref().map(|p| p.0.clone()),
    };
    // What was chosen anew is in the registration; the entry stays as it is until all of it is given back.
    ctx.state.register(&held, &reg)?;
    finish(ctx, &held, reg, &dir, &entry)?;
    Ok(Restored { name: entry.name, path: entry.path.map(|p| p.0), notes })
}

/// Git's entry for a tree that stayed when its agent was removed, made anew in the trash entry, from where it goes the way
/// of the others. A tree that is no longer there, or belongs to another entry by now, is let go.
fn stands_again(ctx: &Context, entry: &mut Entry, dir: &Path, notes: &mut Vec<String>) -> Result<()> {
    let (Some(path), Some(id)) = (&entry.path, &entry.worktree) else { return Ok(()) };
    let admin = ctx.repo().common_dir.join("worktrees").join(id);
    if worktree::points_to(path) != Some(admin.clone()) || admin.symlink_metadata().is_ok() {
        notes.push(format!("its files are no longer at '{}'", shown_path(path)));
        (entry.stands, entry.path, entry.worktree) = (false, None, None);
        return Ok(());
    }
    if let (Some(tip), None) = (&entry.tip, refs::read(ctx.repo(), &entry.branch)?) {
        refs::update(ctx.repo(), &entry.branch, tip, None)?;
    }
    worktree::rebuild(ctx.repo(), &dir.join("admin"), path, &entry.branch, &entry.id.0)?;
    notes.push("git's entry of it was made anew: what was staged is as uncommitted as the rest".to_owned());
    Ok(())
}

/// Git's entry for a tree in the trash that has lost it: without one it would come back as files that no git knows.
fn admin_anew(ctx: &Context, entry: &mut Entry, dir: &Path, notes: &mut Vec<String>) -> Result<()> {
    let admin = dir.join("admin");
    let whole = ["HEAD", "commondir", "gitdir"].iter().all(|n| admin.join(n).is_file());
    if entry.path.is_none() {
        let place = place_anew(ctx, entry, dir)?;
        let place = if place.symlink_metadata().is_ok() { free_path(&place) } else { place };
        notes.push(format!("nothing tells where it was; it is at '{}' now", shown_path(&place)));
        entry.path = Some(AnyPath(place));
    }
    entry.worktree.get_or_insert_with(|| Slug::of(&entry.name).0);
    if whole {
        return Ok(());
    }
    if let (Some(tip), None) = (&entry.tip, refs::read(ctx.repo(), &entry.branch)?) {
        refs::update(ctx.repo(), &entry.branch, tip, None)?;
    }
    worktree::rebuild(ctx.repo(), &admin, &entry.tree_in(dir), &entry.branch, &entry.id.0)?;
    notes.push("git's entry of it was gone, and made anew: what was staged is as uncommitted as the rest".to_owned());
    Ok(())
}

/// The commit of its capture.
fn captured(ctx: &Context, entry: &Entry) -> Result<Option<Oid>> {
    Ok(entry.capture.as_ref().map(|c| refs::read(ctx.repo(), c)).transpose()?.flatten())
}

/// What a capture cannot bring back.
fn lost_with_the_tree(about: &serde_json::Value, expired: bool) -> Vec<String> {
    let why = if expired { "its time in the trash was over" } else { "its tree is not in the trash" };
    let what = "ignored files, empty directories and an operation in progress are not";
    let mut out = vec![format!("{why}: it comes from its capture, and {what}")];
    let skipped = about["skipped"].as_array().into_iter().flatten();
    out.extend(
        skipped.filter_map(|s| Some(format!("not in the capture: {} ({})", s["path"].as_str()?, s["why"].as_str()?))),
    );
    out
}

/// An entry whose files are in its capture alone, made whole in the trash but for them: from there it goes the way of the
/// others, and [`finish`] fills it.
fn from_capture(ctx: &Context, entry: &mut Entry, dir: &Path) -> Result<()> {
    let Some(capture) = captured(ctx, entry)? else { return Ok(()) };
    if back::about(&ctx.state.objects, &capture).is_none() {
        return Ok(());
    }
    if entry.path.is_none() {
        let place = place_anew(ctx, entry, dir)?;
        entry.path = Some(AnyPath(if place.symlink_metadata().is_ok() { free_path(&place) } else { place }));
    }
    entry.worktree.get_or_insert_with(|| Slug::of(&entry.name).0);
    let admin = dir.join("admin");
    if ["HEAD", "commondir", "gitdir", "index"].iter().all(|n| admin.join(n).is_file()) {
        return Ok(());
    }
    files::ensure_private_dir(dir)?;
    // A kill in the middle of this leaves an entry that says all of it, and an admin directory only when it is whole.
    super::remove::write_entry(dir, entry)?;
    if let (Some(tip), None) = (&entry.tip, refs::read(ctx.repo(), &entry.branch)?) {
        refs::update(ctx.repo(), &entry.branch, tip, None)?;
    }
    // What there is of the one that was removed is added to, not replaced.
    let is_new = admin.symlink_metadata().is_err();
    let made = if is_new { dir.join("admin-begun") } else { admin.clone() };
    if is_new && made.symlink_metadata().is_ok() {
        super::unfinished::remove(&made)?;
    }
    worktree::rebuild(ctx.repo(), &made, dir, &entry.branch, &entry.id.0)?;
    back::stage(ctx.repo(), &ctx.state.objects, &capture, &made, dir)?;
    if is_new {
        files::rename_new(&made, &admin)?;
        files::sync_dir(dir)?;
    }
    Ok(())
}

/// A place by the settings of this repository, for what was removed from one that was copied or moved since: the old
/// place may be another's by now.
fn place_anew(ctx: &Context, entry: &Entry, dir: &Path) -> Result<PathBuf> {
    let tree = entry.tree_in(dir);
    if !tree.starts_with(dir) && entry.repository.exists() {
        return Err(Error::refused(
            format!("the files of '{}' belong to the repository at '{}'", entry.name, shown_path(&entry.repository)),
            "give it back there",
        ));
    }
    let settings = ctx.settings(&crate::config::Flags::default())?.settings;
    let base = Base { name: entry.base.clone(), commit: entry.fork.clone(), note: None };
    let branch = short_ref(&entry.branch);
    let wish = Wish { name: &entry.name, branch, base: &base, dir: &settings.worktree_dir, batch: None };
    naming::place(ctx, &wish)
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
    // A path that is not UTF-8 is in the entry alone.
    let path = reg.path.clone().or_else(|| entry.path.as_ref().map(|p| p.0.clone()));
    if let (Some(id), Some(path)) = (&reg.worktree, &path) {
        let admin = repo.common_dir.join("worktrees").join(id);
        let (kept, tree) = (dir.join("admin"), entry.tree_in(dir));
        worktree::relink(&kept, &admin, &tree, path)?;
        let beside = |p: &Path| -> Result<()> {
            let parent = p.parent().unwrap_or(p);
            Ok(std::fs::create_dir_all(parent).map_err(files::because("create", parent))?)
        };
        let moved = |from: &Path, to: &Path| -> Result<()> {
            beside(to)?;
            files::rename_new(from, to)?;
            for p in [from.parent(), to.parent()].into_iter().flatten() {
                files::sync_dir(p)?;
            }
            Ok(())
        };
        for lock in locks::standing(&kept).iter().filter(|l| !process::is_open_anywhere(l)) {
            // Of a git that died in the trash: nobody else would ever take it away.
            std::fs::remove_file(lock).map_err(files::because("unlock", lock))?;
        }
        if kept.symlink_metadata().is_ok() && admin.symlink_metadata().is_err() {
            moved(&kept, &admin)?;
        }
        if tree.symlink_metadata().is_ok() && path.symlink_metadata().is_err() {
            moved(&tree, path)?;
        }
        if entry.missing && admin.is_dir() {
            beside(&path.join(".git"))?;
            worktree::relink(Path::new(""), &admin, path, path)?;
            let capture = captured(ctx, entry)?.or_else(|| entry.tip.clone());
            let Some(capture) = capture else { return Err(Error::refused("nothing tells what was in it", "git fsck")) };
            back::fill(repo, &ctx.state.objects, &capture, &admin, path)?;
        }
    }
    if let Some(e) = identity::entry_of(ctx, &reg)? {
        // The lock is the one removal wrote.
        worktree::unlock(&e, |r| identity::parse_lock_reason(r).is_some_and(|(id, _)| id == reg.id))?;
    }
    ctx.state.append(held, &[event(&reg.id, Kind::Restored, json!({ "tip": entry.tip }))])?;
    // The entry first: one that outlived its agent's return would be given back again, empty.
    drop_entry(dir)?;
    reg.doing = None;
    reg.path = None;
    Ok(ctx.state.register(held, &reg)?)
}
