//! Rebasing an agent's branch on where its base is now, in its own worktree: tried first, then done, nothing half.
//!
//! Refuses: whoever is at work there, what is in the middle of anything, what conflicts, what has landed. Uncommitted work
//! keeps an agent where it is, or is carried along through a capture; git's stash is never used.

mod step;
mod target;

use super::inventory::{Agent, Inventory};
use super::overlap::Round;
use super::safe::{self, Facts};
use super::trial::{Trial, rebase_trial};
use super::{Context, Error, Result, identity, repair, unfinished};
use crate::git::state::Registration;
use crate::git::status::{self, Place};
use crate::git::{endings, merging, sterile, worktree};
use crate::model::agent::{Oid, Origin, RunState};
use crate::model::task::short_ref;
use crate::model::text::{safe_line, safe_path, shell_word, shown_path};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
pub(super) use step::{finish_cut_short, is_under_way};
use target::Target;
pub(in crate::ops) use target::another;

/// How to sync.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The commit to rebase on, where that is not the one its base stands on.
    pub onto: Option<Oid>,
    /// Another base, which it has from then on: a full name, or a commit's id.
    pub base: Option<String>,
    /// Uncommitted work goes along.
    pub carry: bool,
    /// Only say what would happen.
    pub dry_run: bool,
    /// Nobody asked for this one: it happens only where nobody is near.
    pub unasked: bool,
    /// Untracked files that are not work.
    pub throw_away: Vec<String>,
    /// Bytes a captured file may have.
    pub capture_max_file: u64,
}

/// What became of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It sits on its base as that is now.
    Synced(Synced),
    /// It did before.
    Standing {
        /// The name of what it sits on.
        on: String,
        /// The command that brings the old base back, where it has another one now.
        undo: Option<String>,
    },
    /// Nothing was touched.
    Kept(Kept),
    /// git did not do what the trial had said; everything is as it was before.
    Failed(Kept),
}

/// One that was rebased, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// What it sits on now, for people.
    pub on: String,
    /// The commit of that.
    pub onto: Oid,
    /// Its tip before.
    pub from: Oid,
    /// Its tip now; none where it was only tried.
    pub to: Option<Oid>,
    /// How many commits it has on top.
    pub commits: usize,
    /// How many files with uncommitted work went along.
    pub carried: usize,
    /// The command that brings the old tip back.
    pub undo: Option<String>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Why, paths named.
    pub why: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Kept {
    fn new(why: impl Into<String>, hint: impl Into<String>) -> Kept {
        Kept { why: why.into(), hint: Some(hint.into()) }
    }
}

impl From<Error> for Kept {
    fn from(e: Error) -> Kept {
        Kept { why: e.words(), hint: e.hint() }
    }
}

/// The best order: whoever comes after another one of `names` after that one, else as it is.
pub fn order(inv: &Inventory, names: Vec<String>) -> Vec<String> {
    let mut left = names;
    let mut out = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |name: &String| {
            let after = inv.find(name).map(|a| a.task.after.as_slice()).unwrap_or_default();
            left.iter().any(|other| other != name && inv.find(other).is_some_and(|o| after.contains(&o.reg.id)))
        };
        // A circle cannot be registered; were there one, the order would be anybody's.
        let next = left.iter().position(|n| !waits(n)).unwrap_or(0);
        out.push(left.remove(next));
    }
    out
}

/// Rebases one agent by name.
pub fn sync(ctx: &Context, name: &str, options: &Options) -> Result<Outcome> {
    if !options.dry_run {
        repair::repair(ctx, &ctx.state.lock()?)?.check(name)?;
    }
    let inv = Inventory::read(ctx)?;
    let Some(a) = inv.find(name) else {
        return Err(Error::refused(format!("there is no agent named '{name}'"), "git agents status"));
    };
    if !options.dry_run
        && a.run.dir.is_dir()
        && let Some(_lock) = a.run.seize()?
    {
        unfinished::heal_after_run(ctx, &a.reg, a.record.as_ref().and_then(|r| r.ended.as_deref()))?;
    }
    let as_if = options.base.as_ref().map(|base| {
        let reg = Registration { base: base.clone(), ..a.reg.clone() };
        Agent { reg, ..a.clone() }
    });
    let (was, a) = (&a.reg, as_if.as_ref().unwrap_or(a));
    let facts = safe::facts(ctx, &inv, a, &options.throw_away)?;
    if let Some(kept) = judge(&inv, a, &facts, options) {
        return Ok(Outcome::Kept(kept));
    }
    let (entry, tip) = match (identity::check_place(ctx, &a.reg), &a.tip) {
        (Ok(entry), Some(tip)) => (entry, tip.clone()),
        (Err(e), _) => return Ok(Outcome::Kept(e.into())),
        (_, None) => return Ok(Outcome::Kept(Kept::new(format!("the branch of '{name}' is gone"), "git branch -a"))),
    };
    let target = match target::of(ctx, &inv, a, options)? {
        Ok(t) => t,
        Err(kept) => return Ok(Outcome::Kept(kept)),
    };
    if ctx.state.objects.is_ancestor(&target.onto, &tip)? {
        let undo = step::base_back(was, &a.reg.base, &entry);
        if !options.dry_run && (target.onto != a.reg.fork || undo.is_some()) {
            step::note_fork(ctx, was, &a.reg.base, &target.onto, &tip)?;
        }
        return Ok(Outcome::Standing { on: target.on, undo: undo.filter(|_| !options.dry_run) });
    }
    let round = Round::begin(ctx)?;
    let (result, picked) = match rebase_trial(ctx, &round, &tip, &a.reg.fork, &target.onto) {
        Trial::Clean { tip, picked, .. } => (tip, picked),
        Trial::Conflict { commit, paths } => {
            return Ok(Outcome::Kept(conflict(ctx, a, &entry, &target, &commit, &paths)));
        }
        Trial::Unknown { why } => {
            let why = format!("whether '{name}' can be rebased on '{}' could not be told: {why}", target.on);
            return Ok(Outcome::Kept(Kept::new(why, by_hand(&entry, &target))));
        }
    };
    if picked.is_empty() && safe::has_own_commit(ctx, &inv, a) {
        let why = format!("everything on '{name}' is in '{}' already", target.on);
        return Ok(Outcome::Kept(Kept::new(why, format!("git agents rm {}", shell_word(name)))));
    }
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: Some(&tip) };
    let work = uncommitted(ctx, &place)?;
    if options.carry
        && let Some(kept) = cannot_go_along(ctx, name, &place, &work, &round.changed_paths(&tip, &result)?)?
    {
        return Ok(Outcome::Kept(kept));
    }
    if let Some(kept) = in_the_way(&round, a, &entry, &tip, &target.onto, &result)? {
        return Ok(Outcome::Kept(kept));
    }
    let notes = target.note.iter().cloned().chain(published(&inv, a, picked.len())).collect();
    let plan = Plan { target, entry, tip, picked, carried: if options.carry { work.len() } else { 0 }, notes };
    if options.dry_run {
        return Ok(Outcome::Synced(plan.synced(None, None)));
    }
    step::run(ctx, a, was, plan, options)
}

/// What is to be done with one, tried.
#[derive(Debug)]
struct Plan {
    target: Target,
    entry: worktree::Entry,
    tip: Oid,
    /// Its commits that will be there again, oldest first.
    picked: Vec<Oid>,
    /// Files with uncommitted work that go along.
    carried: usize,
    notes: Vec<String>,
}

impl Plan {
    fn synced(&self, to: Option<Oid>, undo: Option<String>) -> Synced {
        Synced {
            on: self.target.on.clone(),
            onto: self.target.onto.clone(),
            from: self.tip.clone(),
            to,
            commits: self.picked.len(),
            carried: self.carried,
            undo,
            notes: self.notes.clone(),
        }
    }
}

/// What keeps an agent where it is, whatever its commits are.
fn judge(inv: &Inventory, a: &Agent, f: &Facts, options: &Options) -> Option<Kept> {
    let name = &a.reg.name;
    let typed = name.typed();
    let kept = |why: String, hint: String| Some(Kept::new(why, hint));
    if f.live {
        return kept(format!("'{name}' is running"), format!("'git agents wait {typed}', then try again"));
    }
    if !f.at_work.is_empty() {
        let who = f.at_work.join(", ");
        return kept(format!("processes of the run of '{name}' are alive: {who}"), format!("git agents stop {typed}"));
    }
    if a.reg.doing.is_some() {
        return kept(format!("what was begun with '{name}' is not finished"), format!("git agents show {typed}"));
    }
    if f.landing.commit().is_some() {
        return kept(format!("'{name}' has landed"), format!("git agents rm {typed}"));
    }
    if let Some(reason) = &f.locked_by_person {
        let because = if reason.is_empty() { String::new() } else { format!(" ({})", safe_line(reason.as_bytes())) };
        return kept(
            format!("the worktree of '{name}' is locked{because}"),
            "'git worktree unlock' releases it".into(),
        );
    }
    if let Some(lock) = &f.git_lock {
        let hint = "wait for it; if no git process is running, remove that file and try again";
        return kept(format!("a git process may be at work in '{name}': {lock}"), hint.into());
    }
    if let Some(op) = &f.operation {
        return kept(format!("'{name}' is in the middle of a {op}"), format!("git agents attach {typed}"));
    }
    if let Some(why) = f.unknown.as_ref().or(f.broken_link.as_ref()) {
        return kept(format!("'{name}' cannot be judged: {why}"), format!("git agents show {typed}"));
    }
    if options.unasked {
        let settled = a.state().is_none_or(RunState::is_final) && a.damaged.is_none();
        let theirs = f.adopted || a.task.origin == Origin::Adopt || !f.visitors.is_empty();
        if !settled || theirs || published(inv, a, 1).is_some() {
            return kept(format!("'{name}' is not synced by itself"), format!("git agents sync {typed}"));
        }
    }
    if !f.left_over.is_empty() && !options.carry {
        let why = format!("'{name}' has uncommitted work: {}", some(&f.left_over));
        return kept(why, format!("commit it, or 'git agents sync --carry {typed}' takes it along"));
    }
    None
}

fn conflict(ctx: &Context, a: &Agent, entry: &worktree::Entry, target: &Target, at: &Oid, paths: &[Vec<u8>]) -> Kept {
    let subject = ctx.state.objects.commit(at).ok().flatten().map(|c| c.subject).unwrap_or_default();
    let paths: Vec<String> = paths.iter().map(|p| safe_path(p)).collect();
    let why = format!(
        "'{}' conflicts with '{}' in {} (commit {}, '{}')",
        a.reg.name,
        target.on,
        some(&paths),
        at.short(),
        safe_line(subject.as_bytes())
    );
    Kept::new(why, by_hand(entry, target))
}

fn by_hand(entry: &worktree::Entry, target: &Target) -> String {
    format!("'git -C {} rebase {}' does it by hand", shell_word(&entry.path.to_string_lossy()), shell_word(&target.on))
}

/// The first few of a list.
fn some(all: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if all.len() > SHOWN { format!("{shown} and {} more", all.len() - SHOWN) } else { shown }
}

/// What has to be said of a branch whose commits others may have.
fn published(inv: &Inventory, a: &Agent, commits: usize) -> Option<String> {
    let short = short_ref(&a.reg.branch);
    let is_it =
        |r: &&String| r.strip_prefix("refs/remotes/").and_then(|r| r.split_once('/')).is_some_and(|r| r.1 == short);
    let remote = inv.refs.keys().find(is_it).filter(|_| commits > 0)?;
    let remote = short_ref(remote);
    Some(format!("'{remote}' has the old commits; 'git push --force-with-lease' from its worktree replaces them"))
}

/// Paths with uncommitted work, tracked or not.
fn uncommitted(ctx: &Context, place: &Place<'_>) -> Result<BTreeSet<Vec<u8>>> {
    let changes = sterile::status(ctx.repo(), place, sterile::Rules::Strict)?;
    let phantoms = endings::phantoms(ctx.repo(), place, &changes.modified)?;
    Ok(changes.all().filter(|p| !phantoms.contains(*p)).cloned().collect())
}

/// Files that git does not know, where any step from `tip` over `onto` to `result` puts something: git overwrites ignored
/// ones without a word, and takes away what a later commit does not have any more.
fn in_the_way(
    round: &Round<'_>,
    a: &Agent,
    entry: &worktree::Entry,
    tip: &Oid,
    onto: &Oid,
    result: &Oid,
) -> Result<Option<Kept>> {
    let at = merging::At::of(entry, &a.reg.branch);
    let last = round.changes(tip, result)?;
    let mut files: BTreeSet<Vec<u8>> = round.in_the_way(&at, &last).into_iter().collect();
    let mut step = result.clone();
    while step != *onto {
        let Some(before) = round.parent(&step)? else { break };
        step = before;
        let changes = round.changes(tip, &step)?;
        files.extend(round.in_the_way(&at, &changes));
        // What is there for a moment only would be gone afterwards, whatever is in the file.
        let made = changes.files.iter().filter(|(_, d)| d.old.is_none() && d.new.is_some()).map(|(p, _)| p);
        let is_there =
            |p: &&Vec<u8>| entry.path.join(OsStr::from_bytes(p)).symlink_metadata().is_ok_and(|m| !m.is_dir());
        files.extend(made.filter(|p| !last.files.contains_key(*p)).filter(is_there).cloned());
    }
    Ok((!files.is_empty()).then(|| {
        let name = &a.reg.name;
        let shown = some(&files.iter().map(|p| safe_path(p)).collect::<Vec<_>>());
        let why = format!("untracked or ignored in '{}' and in the way of '{name}': {shown}", shown_path(&entry.path));
        Kept::new(why, "move them away first")
    }))
}

/// Why uncommitted work cannot be put back as it is once the branch has moved.
fn cannot_go_along(
    ctx: &Context,
    name: &str,
    place: &Place<'_>,
    work: &BTreeSet<Vec<u8>>,
    moved: &[Vec<u8>],
) -> Result<Option<Kept>> {
    let changes = sterile::status(ctx.repo(), place, sterile::Rules::Strict)?;
    let shown = |paths: Vec<&Vec<u8>>| some(&paths.into_iter().map(|p| safe_path(p)).collect::<Vec<_>>());
    if !changes.conflicted.is_empty() {
        let why = format!("'{name}' has unmerged files: {}", shown(changes.conflicted.iter().collect()));
        return Ok(Some(Kept::new(why, "resolve and commit them first")));
    }
    let hidden = status::hidden(ctx.repo(), place)?;
    let differs = |(path, id): &&(Vec<u8>, Oid)| {
        let file = place.worktree.join(OsStr::from_bytes(path));
        file.symlink_metadata().is_ok() && !ctx.state.objects.is_blob_of_file(id, &file)
    };
    let hidden: Vec<&Vec<u8>> = hidden.iter().filter(differs).map(|(p, _)| p).collect();
    if !hidden.is_empty() {
        let why = format!("'{name}' has changes that git is told not to see: {}", shown(hidden));
        return Ok(Some(Kept::new(why, "'git update-index --no-assume-unchanged --no-skip-worktree' shows them")));
    }
    let below = |a: &[u8], b: &[u8]| {
        a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || b.ends_with(b"/") || rest[0] == b'/')
    };
    let meet: Vec<&Vec<u8>> = work.iter().filter(|w| moved.iter().any(|m| below(w, m) || below(m, w))).collect();
    Ok((!meet.is_empty()).then(|| {
        let why = format!("the uncommitted work of '{name}' is in files that would change: {}", shown(meet));
        Kept::new(why, "commit it first, so that it is combined with them")
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_paths_ends() {
        let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        assert_eq!(some(&names[..2]), "0, 1");
        assert!(some(&names).ends_with("9 and 2 more"));
    }
}
