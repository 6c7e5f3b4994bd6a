//! Removal is a move: captured, locked, then two renames into the trash. The only file that moves or deletes.
//!
//! Steps, each recorded before it is taken: `doing = remove` in the registration → capture → `entry.json` in the trash
//! → tree → admin directory → branch (only at its expected tip) → event → registration gone. What a kill leaves is
//! brought to one side by [`super::repair`]: back where the tree has not moved yet, forward where it has.

use super::identity;
use super::inventory::{Agent, Inventory};
use super::safe::{self, Allowed, BranchFate, Verdict};
use super::unfinished::{self, Since};
use super::{Context, Error, Result};
use crate::git::state::{Held, Registration, event};
use crate::git::{capture, locks, refs, worktree};
use crate::model::agent::{AgentId, Oid};
use crate::model::event::Kind;
use crate::model::text::shown_path;
use crate::place::files::RelPath as AnyPath;
use crate::runtime::{clock, files, lock::Lock};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What a trash entry says of itself: everything needed to give it back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// Of this format.
    pub version: u32,
    /// The agent.
    pub id: AgentId,
    /// Its name.
    pub name: String,
    /// When it was removed.
    pub at: String,
    /// Full name of the branch.
    pub branch: String,
    /// Its tip then.
    pub tip: Option<Oid>,
    /// Whether the branch was deleted with it.
    pub branch_deleted: bool,
    /// The base.
    pub base: String,
    /// The fork.
    pub fork: Oid,
    /// The last own tip.
    pub ahead: Option<Oid>,
    /// Git's id of the worktree.
    pub worktree: Option<String>,
    /// Where the tree was.
    pub path: Option<AnyPath>,
    /// Where the tree is now: in the entry's folder, or, on another file system, a whole path.
    pub tree: AnyPath,
    /// The repository it was removed from.
    pub repository: AnyPath,
    /// The tree was not there when it was removed.
    #[serde(default)]
    pub missing: bool,
    /// Git's entry of it was not there: the tree stayed where it is.
    #[serde(default)]
    pub stands: bool,
    /// The reference of the capture.
    pub capture: Option<String>,
    /// Directories that were deleted early, since their tools make them again.
    #[serde(default)]
    pub emptied: Vec<String>,
    /// Whether everything is in place.
    pub complete: bool,
    /// The entry is gone from the trash: this is what its capture tells.
    #[serde(skip)]
    pub expired: bool,
    /// What is wrong with its description; the rest is then what else tells of it.
    #[serde(skip)]
    pub damaged: Option<String>,
}

impl Entry {
    /// Where the tree is, in an entry whose folder is `dir`.
    pub(super) fn tree_in(&self, dir: &Path) -> PathBuf {
        dir.join(&*self.tree)
    }
}

/// How to remove.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What the user allowed.
    pub allowed: Allowed,
    /// Untracked files that are not work.
    pub throw_away: Vec<String>,
    /// Bytes a captured file may have.
    pub capture_max_file: u64,
    /// Only say what would happen.
    pub dry_run: bool,
    /// Nobody asked for this one: it goes only where that is safe.
    pub unasked: bool,
    /// Nor was anything else asked for: what somebody has restored stays.
    pub by_itself: bool,
    /// Seconds an unasked one must have been quiet; see [`safe::kept`].
    pub min_age: Option<u64>,
}

/// What became of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Its creation had never come to an end; what there was of it is gone.
    Undone,
    /// Nobody asked for it, and it is not safe.
    Kept {
        /// Everything that keeps it.
        reasons: Vec<String>,
    },
    /// In the trash.
    Removed {
        /// The branch is gone too.
        branch_deleted: bool,
        /// Why the branch stayed.
        because: Vec<String>,
        /// Who still works in the directory.
        visitors: Vec<String>,
        /// Whether the caller stands in it.
        standing_in: bool,
        /// Whether a lock of ours stood on it whose owner is gone.
        stale_lock: bool,
        /// What became of the tree.
        tree: Tree,
        /// Why the last steps are left to the next command.
        pending: Option<String>,
    },
    /// No longer managed; worktree and branch stay.
    Released,
    /// Nothing was touched.
    Refused {
        /// Why.
        why: String,
        /// What to do.
        hint: String,
    },
}

/// A removal whose last steps are left to the next command, `why`, in words.
pub fn not_noted(why: &str) -> String {
    format!("not all of it is noted yet: {why}; the next command goes on with it")
}

/// What a removal did with the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// They are in the trash.
    Moved,
    /// There were none.
    Missing,
    /// They stand where they stood: git's entry of the worktree was gone.
    Stands(PathBuf),
}

/// Removes one agent by name. The judgement and the move happen under the repository's lock.
pub fn remove(ctx: &Context, name: &str, options: &Options) -> Result<Outcome> {
    await_git(ctx, name)?;
    let held = ctx.state.lock()?;
    if !options.dry_run {
        super::repair::repair(ctx, &held)?.check(name)?;
    }
    let inv = Inventory::read(ctx)?;
    let Some(a) = inv.find(name) else {
        return Err(Error::refused(format!("there is no agent named '{name}'"), "git agents status"));
    };
    if !options.unasked
        && unfinished::is_unfinished(&a.reg)
        && !a.entry.as_ref().is_some_and(unfinished::is_checked_out)
    {
        return undo_creation(ctx, &held, a, options);
    }
    if let (false, Some(record), Ok(Some(_lock))) = (options.dry_run, &a.record, keep_from_starting(a)?) {
        // What a killed git of a run that is over left there is nobody's.
        unfinished::heal_after_run(ctx, &a.reg, record.ended.as_deref())?;
    }
    if let (false, Some(entry)) = (options.dry_run, &a.entry) {
        worktree::stop_monitor(ctx.repo(), entry);
    }
    let facts = match options.unasked {
        true => safe::facts_unasked(ctx, &inv, a, &options.throw_away, None)?,
        false => safe::facts(ctx, &inv, a, &options.throw_away)?,
    };
    if options.unasked {
        let reasons = kept(ctx, &inv, a, &facts, options);
        if !reasons.is_empty() {
            return Ok(Outcome::Kept { reasons });
        }
    }
    let (branch, because) = match safe::judge(name, &facts, options.allowed) {
        Verdict::Refuse { why, hint } => return Ok(Outcome::Refused { why, hint }),
        Verdict::Release => {
            if !options.dry_run {
                release(ctx, &held, a)?;
            }
            return Ok(Outcome::Released);
        }
        Verdict::Remove { branch, because } => (branch, because),
    };
    let tree = match (&facts.stands, facts.missing) {
        (Some(path), _) => Tree::Stands(path.clone()),
        (None, true) => Tree::Missing,
        (None, false) => Tree::Moved,
    };
    // Who asks for it knows where they are.
    let own = crate::runtime::process::ancestors();
    let others = facts.visitors.iter().filter(|id| !own.contains(&id.pid));
    let visitors: Vec<String> = others.map(safe::shown).collect();
    let standing_in = tree == Tree::Moved && a.path().is_some_and(|p| ctx.cwd.starts_with(p));
    let outcome = |branch_deleted: bool, because: Vec<String>, pending: Option<String>| Outcome::Removed {
        pending,
        branch_deleted,
        because,
        visitors: visitors.clone(),
        standing_in,
        // One of a person's, or of somebody alive, was a reason to refuse.
        stale_lock: a.entry.as_ref().is_some_and(|e| e.locked.is_some()),
        tree: tree.clone(),
    };
    let wanted = branch == BranchFate::Delete;
    if options.dry_run {
        return Ok(outcome(wanted, because, None));
    }
    let Ok(_run_lock) = keep_from_starting(a)? else { return Ok(is_running(name)) };
    if unfinished::is_unfinished(&a.reg) {
        unfinished::heal_locks(ctx, &a.reg)?;
    }
    let gone = match take_away(ctx, &held, a, branch, options, facts.stands.as_deref())? {
        Ok(gone) => gone,
        Err(reasons) => return Ok(Outcome::Kept { reasons }),
    };
    let Gone { branch_deleted, stays, pending } = gone;
    let because = match stays {
        _ if branch_deleted || !wanted => because,
        None if pending.is_some() => Vec::new(),
        why => vec![why.unwrap_or_else(|| "it moved, or is in use".to_owned())],
    };
    Ok(outcome(branch_deleted, because, pending))
}

/// Everything that keeps an agent whose removal nobody asked for; see [`safe::kept`].
pub(super) fn kept(ctx: &Context, inv: &Inventory, a: &Agent, facts: &safe::Facts, options: &Options) -> Vec<String> {
    let mut out = safe::kept(facts, options.min_age);
    if options.by_itself && was_restored(ctx, inv, a, facts).unwrap_or(true) {
        out.push("it was restored; 'git agents clean' takes it away".to_owned());
    }
    out
}

/// Whether somebody brought it back as it is now, with everything that speaks for its removal true already then.
fn was_restored(ctx: &Context, inv: &Inventory, a: &Agent, facts: &safe::Facts) -> Result<bool> {
    let Some(restored) = inv.journal.get(&a.reg.id).and_then(|j| j.last(&Kind::Restored)) else { return Ok(false) };
    if restored.text("tip") != a.tip.as_ref().map(|t| t.0.as_str()) {
        return Ok(false);
    }
    let Some(landed) = facts.landing.commit() else { return Ok(true) };
    let landed = ctx.state.objects.commit(landed)?.map(|c| c.time);
    Ok(landed.zip(clock::parse(&restored.at)).is_none_or(|(landed, restored)| landed <= restored.as_second()))
}

/// Waits a moment for a git that is at work in the worktree of `name`, before any lock of ours is taken.
fn await_git(ctx: &Context, name: &str) -> Result<()> {
    let Some(reg) = ctx.state.registrations()?.0.into_iter().find(|r| r.name.0 == name) else { return Ok(()) };
    let Some(entry) = identity::entry_of(ctx, &reg)? else { return Ok(()) };
    let deadline = Instant::now() + Duration::from_secs(1);
    while !locks::standing(&entry.admin).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The lock of its run, so that nobody starts it meanwhile; an error inside where somebody has.
fn keep_from_starting(a: &Agent) -> Result<std::result::Result<Option<Lock>, ()>> {
    if !a.run.dir.is_dir() {
        return Ok(Ok(None));
    }
    Ok(a.run.seize()?.map(Some).ok_or(()))
}

fn is_running(name: &str) -> Outcome {
    Outcome::Refused {
        why: format!("'{name}' is running"),
        hint: format!("git agents rm --stop {}", crate::model::text::shell_word(name)),
    }
}

fn undo_creation(ctx: &Context, held: &Held, a: &Agent, options: &Options) -> Result<Outcome> {
    let Ok(_run_lock) = keep_from_starting(a)? else { return Ok(is_running(&a.reg.name.0)) };
    if !options.dry_run {
        unfinished::give_up(ctx, held, &a.reg, Since::Earlier)?;
    }
    Ok(Outcome::Undone)
}

/// An adopted agent, or one whose tree is somebody else's: our keys and files go, nothing of theirs does.
fn release(ctx: &Context, held: &Held, a: &Agent) -> Result<()> {
    if let Some(entry) = &a.entry {
        for name in ["agents-token", "agents-manifest.json"] {
            let _ = std::fs::remove_file(entry.admin.join(name));
        }
        identity::unlock_worktree(ctx, &a.reg)?;
    }
    ctx.state.append(held, &[event(&a.reg.id, Kind::Removed, json!({ "released": true, "tip": a.tip }))])?;
    ctx.state.unregister(held, &a.reg.name)?;
    Ok(())
}

/// What was taken away.
struct Gone {
    /// The branch too.
    branch_deleted: bool,
    /// Why it could not be deleted.
    stays: Option<String>,
    /// Why not all of it is noted yet.
    pending: Option<String>,
}

/// Everything that keeps `a` by now.
fn judged_again(ctx: &Context, a: &Agent, options: &Options) -> Result<Vec<String>> {
    let inv = Inventory::read(ctx)?;
    let Some(now) = inv.find(&a.reg.name.0) else { return Ok(vec!["it is gone".to_owned()]) };
    // Its registration says by now that we are at it, and its run's lock is ours, which looks like a run.
    let mut now = now.clone();
    now.reg.doing.clone_from(&a.reg.doing);
    now.record.clone_from(&a.record);
    let mut facts = safe::facts_unasked(ctx, &inv, &now, &options.throw_away, None)?;
    facts.live = false;
    Ok(safe::kept(&facts, options.min_age))
}

/// The move. Inside: what keeps it, where that was seen at the last moment.
fn take_away(
    ctx: &Context,
    held: &Held,
    a: &Agent,
    branch: BranchFate,
    options: &Options,
    stands: Option<&Path>,
) -> Result<std::result::Result<Gone, Vec<String>>> {
    let mut reg = a.reg.clone();
    reg.doing = Some("remove".into());
    ctx.state.register(held, &reg)?;
    let label = format!("{}-{}-{}", clock::compact().to_lowercase(), a.task.slug, clock::random_hex(4));
    let there = a.entry.as_ref().filter(|e| e.link() == worktree::Link::Good);
    let undo = |why: Error| {
        let mut back = reg.clone();
        back.doing = None;
        ctx.state.register(held, &back)?;
        Err(why)
    };
    let capture = match there {
        Some(entry) => {
            let reference = format!("refs/agents/removed/{label}");
            let about = json!({ "agent": reg.id, "name": reg.name, "branch": reg.branch, "base": reg.base, "fork": reg.fork, "at": clock::now() });
            let head = match &entry.head {
                worktree::Head::Branch(b) => refs::read(ctx.repo(), b)?,
                worktree::Head::Detached(id) => Some(id.clone()),
                worktree::Head::Unknown => None,
            };
            let wanted = capture::Options {
                reference: &reference,
                about,
                max_file: options.capture_max_file,
                also: a.tip.as_slice(),
            };
            match capture::take(ctx.repo(), &ctx.state.objects, entry, head.as_ref(), &wanted) {
                Ok(c) => Some(c.reference),
                Err(e) => return undo(e.into()),
            }
        }
        None => {
            // No tree to capture: the tip alone, so that the branch can be given back.
            match &a.tip {
                Some(tip) if branch == BranchFate::Delete => {
                    let reference = format!("refs/agents/removed/{label}");
                    refs::update_ours(ctx.repo(), &reference, tip, None)?;
                    Some(reference)
                }
                _ => None,
            }
        }
    };
    if options.unasked {
        // Writing the capture took its time; nobody who came meanwhile is overlooked.
        let reasons = judged_again(ctx, a, options).unwrap_or_else(|e| vec![e.words()]);
        if !reasons.is_empty() {
            if let Some(reference) = &capture
                && let Some(id) = refs::read(ctx.repo(), reference)?
            {
                refs::delete(ctx.repo(), reference, &id)?;
            }
            let mut back = reg.clone();
            back.doing = None;
            ctx.state.register(held, &back)?;
            return Ok(Err(reasons));
        }
    }
    let dir = ctx.repo().agents_dir().join("trash").join(&label);
    files::ensure_private_dir(&dir)?;
    let tree = match there {
        Some(entry) => tree_place(&dir, &entry.path, &label)?,
        None => PathBuf::from("tree"),
    };
    let mut record = Entry {
        version: 1,
        id: reg.id.clone(),
        name: reg.name.0.clone(),
        at: clock::now(),
        branch: reg.branch.clone(),
        tip: a.tip.clone(),
        branch_deleted: branch == BranchFate::Delete,
        base: reg.base.clone(),
        fork: reg.fork.clone(),
        ahead: reg.ahead.clone(),
        worktree: reg.worktree.clone(),
        path: a.entry.as_ref().map(|e| e.path.as_path()).or(stands).map(|p| AnyPath(p.to_owned())),
        tree: AnyPath(tree),
        repository: AnyPath(ctx.repo().common_dir.clone()),
        missing: there.is_none() && stands.is_none(),
        stands: stands.is_some(),
        capture,
        emptied: Vec::new(),
        complete: false,
        expired: false,
        damaged: None,
    };
    write_entry(&dir, &record)?;
    if let Some(entry) = there {
        worktree::lock(entry, &identity::lock_reason(&reg.id))?;
    }
    match finish(ctx, held, &reg, &dir, &mut record) {
        Ok(stays) => Ok(Ok(Gone { branch_deleted: record.branch_deleted, stays, pending: None })),
        // From the move on there is no way but forward, and the next command goes it.
        Err(e) if there.is_some() && record.tree_in(&dir).symlink_metadata().is_ok() => {
            let branch_deleted = record.branch_deleted && refs::read(ctx.repo(), &record.branch)?.is_none();
            Ok(Ok(Gone { branch_deleted, stays: None, pending: Some(e.with_hint()) }))
        }
        Err(e) => Err(e),
    }
}

/// From `entry.json` on: also what [`super::repair`] does after a kill. Every step may have happened already. Why the
/// branch could not be deleted, where that was to be.
pub(super) fn finish(
    ctx: &Context,
    held: &Held,
    reg: &Registration,
    dir: &Path,
    record: &mut Entry,
) -> Result<Option<String>> {
    let repo = ctx.repo();
    let mut stays = None;
    let tree = record.tree_in(dir);
    // What stands where nothing stood then is somebody's.
    if !record.stands
        && !record.missing
        && let Some(path) =
            record.path.as_ref().filter(|p| p.symlink_metadata().is_ok() && tree.symlink_metadata().is_err())
    {
        let entry = record.worktree.as_deref().map(|id| worktree::read(repo, id)).transpose()?.flatten();
        if !entry.is_some_and(|e| e.path == **path && e.link() == worktree::Link::Good) {
            let what = format!("'{}' was replaced while it was being removed", shown_path(path));
            return Err(Error::refused(what, "nothing was moved; see 'git worktree list'"));
        }
        files::rename_new(path, &tree)?;
        for p in [path.parent(), tree.parent()].into_iter().flatten() {
            files::sync_dir(p)?;
        }
    }
    if let Some(id) = &record.worktree {
        let (from, to) = (admin(ctx, id), dir.join("admin"));
        let ours = worktree::read(repo, id)?.is_some_and(|e| identity::has_token(&e, reg));
        if ours && to.symlink_metadata().is_err() {
            files::rename_new(&from, &to)?;
            files::sync_dir(dir)?;
            files::sync_dir(&repo.common_dir.join("worktrees"))?;
        }
    }
    if record.branch_deleted
        && let Some(tip) = &record.tip
    {
        let elsewhere = worktree::list(repo)?.iter().any(|e| e.head == worktree::Head::Branch(record.branch.clone()))
            || worktree::head(repo, &repo.common_dir) == worktree::Head::Branch(record.branch.clone());
        let delete = || refs::delete(repo, &record.branch, tip);
        let mut result = if elsewhere { Ok(()) } else { delete() };
        if result.is_err() && refs::read(repo, &record.branch)?.as_ref() == Some(tip) {
            // That git may have been killed. Once more; after that it is said that the branch stays.
            result = delete();
        }
        if refs::read(repo, &record.branch)?.is_some() {
            record.branch_deleted = false;
            stays = result.err().map(|e| Error::from(e).with_hint());
        }
    }
    record.complete = true;
    write_entry(dir, record)?;
    let removed = event(
        &reg.id,
        Kind::Removed,
        json!({ "tip": record.tip, "branch_deleted": record.branch_deleted, "capture": record.capture }),
    );
    ctx.state.append(held, &[removed])?;
    ctx.state.unregister(held, &reg.name)?;
    Ok(stays)
}

fn admin(ctx: &Context, id: &str) -> PathBuf {
    ctx.repo().common_dir.join("worktrees").join(id)
}

/// Where a tree goes: into the entry, or, where that is another file system, into a folder of ours beside it, so that
/// removal stays one rename.
fn tree_place(dir: &Path, path: &Path, label: &str) -> Result<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;
    let dev = |p: &Path| std::fs::metadata(p).map(|m| m.dev()).map_err(files::because("read", p));
    let parent = path.parent().unwrap_or(path);
    if dev(dir)? == dev(path)? {
        return Ok(PathBuf::from("tree"));
    }
    if dev(parent)? != dev(path)? {
        return Err(Error::refused(
            format!("'{}' is a mount point; it cannot be moved", shown_path(path)),
            "unmount it first",
        ));
    }
    let beside = parent.join(".git-agents-trash");
    files::ensure_private_dir(&beside)?;
    Ok(beside.join(label))
}

/// Writes `entry.json`.
pub(super) fn write_entry(dir: &Path, record: &Entry) -> Result<()> {
    Ok(files::write_durable(&dir.join("entry.json"), &serde_json::to_vec_pretty(record).expect("plain JSON"))?)
}

/// All trash entries, oldest first, with their folders; damaged ones as far as they can be told.
pub fn entries(ctx: &Context) -> Vec<(PathBuf, Entry)> {
    let folders = super::trash::folders(ctx).into_iter();
    let mut out: Vec<(PathBuf, Entry)> = folders.filter_map(|dir| Some((dir.clone(), entry(ctx, &dir)?))).collect();
    out.sort_by(|a, b| a.1.at.cmp(&b.1.at));
    out
}

/// The entry in `dir`; `None` where a kill left nothing but the folder.
fn entry(ctx: &Context, dir: &Path) -> Option<Entry> {
    let file = dir.join("entry.json");
    let why = match files::read_limited(&file, 4 << 20) {
        Ok(Some(bytes)) => match serde_json::from_slice::<Entry>(&bytes) {
            Ok(entry) => match super::trash::wrong(ctx, dir, &entry) {
                None => return Some(entry),
                Some(key) => format!("'{key}' is nothing that a removal writes"),
            },
            Err(e) => e.to_string(),
        },
        Ok(None) if is_empty(dir) => return None,
        Ok(None) => "it is missing".to_owned(),
        Err(e) => e.to_string(),
    };
    Some(super::trash::rebuilt(ctx, dir, format!("'{}': {why}", shown_path(&file))))
}

fn is_empty(dir: &Path) -> bool {
    dir.join("tree").symlink_metadata().is_err() && dir.join("admin").symlink_metadata().is_err()
}

/// Gives up a folder of the trash that holds nothing any more.
pub(super) fn drop_entry(dir: &Path) -> Result<()> {
    if !is_empty(dir) {
        return Ok(());
    }
    files::heal(dir);
    let _ = std::fs::remove_file(dir.join("entry.json"));
    match std::fs::remove_dir(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(files::because("remove", dir)(e).into()),
        _ => Ok(()),
    }
}
