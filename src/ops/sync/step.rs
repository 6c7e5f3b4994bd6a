//! The doing of a sync, and what brings one that was killed to one side.
//!
//! Steps: `doing = sync …` in the registration, which names all that is needed to end it → the old tip (and uncommitted
//! work that goes along, as a capture) under a reference of ours → that work out of the way → `git rebase` → the work back
//! → event → fork, and nothing doing. The run's lock is held all the time: by us, and by git for as long as it lives, so
//! that nobody takes for dead what goes on without us. Where the branch has not moved yet everything goes back, where it
//! has, forward.

use super::{Kept, Options, Outcome, Plan, uncommitted};
use crate::git::capture::{self, Work};
use crate::git::merging::At;
use crate::git::rebase::Tree;
use crate::git::state::{Held, Registration, event, event_with_id};
use crate::git::status::Place;
use crate::git::{self, objects, refs, sterile, worktree};
use crate::model::agent::{Oid, Slug};
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::model::text::{safe_line, shell_word};
use crate::ops::inventory::Agent;
use crate::ops::record::RunDir;
use crate::ops::{Context, Error, Result, endings, identity, trial};
use crate::runtime::{clock, files, lock::Lock};
use serde_json::json;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

const WORD: &str = "sync";

/// What `doing` says.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    /// What the branch goes on.
    onto: Oid,
    /// Where it was.
    tip: Oid,
    /// The reference that keeps that.
    kept: String,
    /// It is a capture, whose uncommitted work goes along.
    carries: bool,
    /// The base it has from then on.
    base: Option<String>,
}

impl Step {
    fn text(&self) -> String {
        let carries = if self.carries { " carry" } else { "" };
        let base = self.base.as_ref().map(|b| format!(" base {b}")).unwrap_or_default();
        format!("{WORD} {} {} {}{carries}{base}", self.onto, self.tip, self.kept)
    }

    fn parse(doing: &str) -> Option<Step> {
        let mut words = doing.split(' ');
        let (WORD, onto, tip, kept) = (words.next()?, words.next()?, words.next()?, words.next()?) else { return None };
        let kept = Some(kept).filter(|k| k.starts_with("refs/agents/removed/"))?.to_owned();
        let more: Vec<&str> = words.collect();
        let base = more.iter().position(|w| *w == "base").and_then(|n| more.get(n + 1)).map(|b| (*b).to_owned());
        let carries = more.first() == Some(&"carry");
        Some(Step { onto: Oid::parse(onto)?, tip: Oid::parse(tip)?, kept, carries, base })
    }
}

/// Whether the registration says that a sync is under way, or was.
pub(in crate::ops) fn is_under_way(reg: &Registration) -> bool {
    reg.doing.as_deref().and_then(|d| d.split(' ').next()) == Some(WORD)
}

/// Notes that the branch, at `tip`, sits on `onto` already, and which base it has.
pub(super) fn note_fork(ctx: &Context, reg: &Registration, base: &str, onto: &Oid, tip: &Oid) -> Result<()> {
    let held = ctx.state.lock()?;
    let now = ctx.state.registrations()?.0.into_iter().find(|r| r.id == reg.id && r.doing.is_none());
    let Some(now) = now else { return Ok(()) };
    if now.base != base {
        let more = json!({ "from": tip, "to": tip, "fork": now.fork, "onto": onto, "base": base });
        ctx.state.append(&held, &[event(&reg.id, Kind::Synced, more)])?;
    }
    Ok(ctx.state.register(&held, &Registration { fork: onto.clone(), base: base.to_owned(), ..now })?)
}

/// The command that brings back the base of `was`, where `base` is another one.
pub(super) fn base_back(was: &Registration, base: &str, entry: &worktree::Entry) -> Option<String> {
    let path = entry.path.to_string_lossy();
    let key = format!("agent.{}.base", was.name);
    (was.base != base)
        .then(|| format!("git -C {} config {} {}", shell_word(&path), shell_word(&key), shell_word(&was.base)))
}

/// Does what was planned.
pub(super) fn run(ctx: &Context, a: &Agent, was: &Registration, plan: Plan, options: &Options) -> Result<Outcome> {
    let name = &a.reg.name;
    a.run.ensure()?;
    let Some(lock) = a.run.seize()? else {
        let hint = format!("'git agents wait {}', then try again", name.typed());
        return Ok(Outcome::Kept(Kept::new(format!("'{name}' is running"), hint)));
    };
    identity::check_alone(ctx, &a.reg)?;
    let label = format!("{}-{}-{}", clock::compact().to_lowercase(), Slug::of(&name.0), clock::random_hex(4));
    let kept = format!("refs/agents/removed/{label}");
    let base = Some(a.reg.base.clone()).filter(|base| *base != was.base);
    let step = Step { onto: plan.target.onto.clone(), tip: plan.tip.clone(), kept, carries: plan.carried > 0, base };
    let reg = {
        let held = ctx.state.lock()?;
        let now = ctx.state.registrations()?.0.into_iter().find(|r| r.id == a.reg.id);
        let same = now.filter(|r| r.doing.is_none() && r.fork == a.reg.fork && r.branch == a.reg.branch);
        let moved = refs::read(ctx.repo(), &a.reg.branch)?.as_ref() != Some(&step.tip);
        let Some(reg) = same.filter(|_| !moved) else {
            return Ok(Outcome::Kept(Kept::new(format!("'{name}' has moved meanwhile"), "try again")));
        };
        let reg = Registration { doing: Some(step.text()), ..reg };
        ctx.state.register(&held, &reg)?;
        reg
    };
    let tree = Tree { repo: ctx.repo(), entry: &plan.entry, branch: &reg.branch };
    let done = begin(ctx, &reg, &plan, &step, options).and_then(|()| {
        let upstream = trial::upstream(ctx, &reg.fork, &step.onto)?;
        Ok(tree.rebase(&upstream, &step.onto, lock.file())?)
    });
    // One that was killed leaves what it was at half written.
    let came = match &done {
        Err(Error::Git(git::Error::Failed { code: None, .. })) => Came::Later,
        _ => Came::Here,
    };
    let side = to_one_side(ctx, &reg, &plan.entry, &step, came)?;
    let held = ctx.state.lock()?;
    settle(ctx, &held, &reg, &step, &side, &plan.picked)?;
    match (side, done) {
        // It is rebased, and nobody knows whether that is on the disk.
        (Side::New(_), Err(e @ Error::Git(git::Error::Files(_)))) => Err(e),
        (Side::New(to), _) => {
            let base = base_back(was, &a.reg.base, &plan.entry).map(|b| format!(" && {b}")).unwrap_or_default();
            let undo = undo(ctx, &plan.entry, &step)? + &base;
            Ok(Outcome::Synced(plan.synced(Some(to), Some(undo))))
        }
        (side, done) => {
            // Work that goes along meets nothing that would change: that was looked at.
            let base = short_ref(&a.reg.base);
            let explained = done.as_ref().err().and_then(|e| endings::explain(e, base, |_| false));
            let words = match (&explained, &done) {
                (Some((why, _)), _) => why.clone(),
                (None, Err(e)) => said(&e.words()),
                (None, Ok(())) => "git says that it was".to_owned(),
            };
            let hint = match side {
                Side::Elsewhere => {
                    let again = format!("'git agents sync {}' tries again", name.typed());
                    format!("somebody else moved it meanwhile; what there was is in '{}'; {again}", step.kept)
                }
                _ => explained
                    .map(|e| e.1)
                    .or_else(|| done.err()?.hint())
                    .unwrap_or_else(|| "it is as it was before".into()),
            };
            let aside = put_aside_of(ctx, &step)?;
            let hint = match aside.as_slice() {
                [] => hint,
                all => format!("{hint}; what was in its worktree by then is in '{}'", all.join("', '")),
            };
            Ok(Outcome::Failed(Kept::new(format!("'{name}' could not be rebased: {words}"), hint)))
        }
    }
}

/// The command that takes it back. Of a capture the first parent is the old tip, the second what was staged.
fn undo(ctx: &Context, entry: &worktree::Entry, step: &Step) -> Result<String> {
    let (path, kept) = (entry.path.to_string_lossy(), &step.kept);
    let git = format!("git -C {}", shell_word(&path));
    if !step.carries {
        return Ok(format!("{git} reset --keep {}", shell_word(kept)));
    }
    let (tip, index) = (format!("{kept}^1"), format!("{kept}^2"));
    let tree = |rev: &str| -> Result<Option<Oid>> {
        let Some(commit) = refs::resolve_commit(ctx.repo(), rev)? else { return Ok(None) };
        Ok(ctx.state.objects.commit(&commit)?.map(|c| c.tree))
    };
    let back = format!("{git} reset --keep {}", shell_word(&tip));
    // That takes everything out of the index.
    Ok(match tree(&tip)? == tree(&index)? {
        true => back,
        false => format!("{back} && {git} read-tree {}", shell_word(&index)),
    })
}

/// What git said, as one line.
fn said(words: &str) -> String {
    let lines = words.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with("hint:"));
    safe_line(lines.collect::<Vec<_>>().join("; ").as_bytes())
}

/// Keeps the old tip, and takes the work that goes along out of the way.
fn begin(ctx: &Context, reg: &Registration, plan: &Plan, step: &Step, options: &Options) -> Result<()> {
    if !step.carries {
        return Ok(refs::update_ours(ctx.repo(), &step.kept, &step.tip, None)?);
    }
    let taken = keep(ctx, reg, &plan.entry, &step.kept, &step.tip, options.capture_max_file)?;
    let place = Place { worktree: &plan.entry.path, admin: &plan.entry.admin, head: Some(&step.tip) };
    let changes = sterile::status(ctx.repo(), &place, sterile::Rules::Strict)?;
    // What is untracked stays where it is: only what would be reset must be in the capture.
    let lost: Vec<String> = taken
        .skipped
        .iter()
        .filter(|(p, _)| changes.modified.contains(p))
        .map(|(p, why)| format!("{} ({why})", crate::model::text::safe_path(p)))
        .collect();
    if !lost.is_empty() {
        return Err(Error::refused(
            format!("uncommitted files cannot be taken along: {}", lost.join(", ")),
            "commit them first, or see 'agents.captureMaxFile'",
        ));
    }
    Ok(Tree { repo: ctx.repo(), entry: &plan.entry, branch: &reg.branch }.reset()?)
}

fn keep(
    ctx: &Context,
    reg: &Registration,
    entry: &worktree::Entry,
    reference: &str,
    tip: &Oid,
    max_file: u64,
) -> Result<capture::Capture> {
    let about = json!({ "agent": reg.id, "name": reg.name, "branch": reg.branch, "why": WORD, "at": clock::now() });
    let wanted = capture::Options { reference, about, max_file, also: std::slice::from_ref(tip) };
    let head = match &entry.head {
        worktree::Head::Detached(id) => Some(id.clone()),
        _ => Some(tip.clone()),
    };
    Ok(capture::take(ctx.repo(), &ctx.state.objects, entry, head.as_ref(), &wanted)?)
}

/// Where it came to.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    /// As it was.
    Old,
    /// Rebased; the tip.
    New(Oid),
    /// Somebody else has moved it since.
    Elsewhere,
}

/// Who looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Who did it, a moment ago, where git has come to an end by itself.
    Here,
    /// After a kill: anything may be half written, and anybody may have been in the tree since.
    Later,
}

/// Brings branch, index and files to one side, and the work that goes along back.
fn to_one_side(ctx: &Context, reg: &Registration, entry: &worktree::Entry, step: &Step, came: Came) -> Result<Side> {
    let tree = Tree { repo: ctx.repo(), entry, branch: &reg.branch };
    let side = side(ctx, reg, step)?;
    let Some(target) = refs::read(ctx.repo(), &reg.branch)? else { return Ok(Side::Elsewhere) };
    let read = || worktree::read(ctx.repo(), &entry.id);
    let now = read()?.ok_or_else(|| gone(reg))?;
    let operation = now.operation();
    let of_somebody = operation.as_deref().is_some_and(|op| op != "rebase")
        || operation.is_some() && tree.onto().is_some_and(|onto| onto != step.onto);
    let other_branch = matches!(&now.head, worktree::Head::Branch(b) if *b != reg.branch);
    if of_somebody || other_branch {
        return Ok(Side::Elsewhere);
    }
    // With the branch checked out and no rebase under way git has not begun, or is done: what differs is somebody's.
    let half = operation.is_some() || now.head != worktree::Head::Branch(reg.branch.clone());
    // Somebody's commit came in between: git, which was to move the branch, leaves the tree beside it.
    if half && side == Side::Elsewhere && operation.is_none() {
        return Ok(side);
    }
    if half {
        // Somebody may have written there while git was at it: going back resets everything.
        if came == Came::Later || !is_untouched(ctx, &now)? {
            put_aside(ctx, reg, &now, step)?;
        }
        // Refused where its notes are half written; the rest does without. It would move the branch from where somebody
        // else has put it.
        if side == Side::Old {
            let _ = tree.abort();
        }
        if read()?.is_some_and(|e| e.operation().is_some()) {
            tree.forget()?;
        }
        let whole = |e: worktree::Entry| {
            e.head == worktree::Head::Branch(reg.branch.clone()) && is_clean(ctx, &e, &target).unwrap_or(false)
        };
        let is_whole = read()?.is_some_and(whole);
        if !is_whole {
            tree.reset()?;
        }
        // Also where git went back by itself: one that died in a checkout does not know what it had made.
        clear(ctx, reg, entry, step, &target)?;
    }
    if !half && side == Side::Old {
        checkout_back(ctx, reg, &now, step, came)?;
    }
    if step.carries
        && let Some(commit) = refs::read(ctx.repo(), &step.kept)?
    {
        let work = Work::of(ctx.repo(), &ctx.state.objects, &commit)?;
        if !half {
            let torn = torn(ctx, entry, &target, &work)?;
            if came == Came::Later && !(torn.is_empty() && work.is_in_place(&ctx.state.objects, entry)) {
                put_aside(ctx, reg, &now, step)?;
            }
            tree.take(&target, &torn)?;
        }
        let moved = ctx.state.objects.changed_paths(&step.tip, &target)?;
        work.put_back(ctx.repo(), &ctx.state.objects, entry, &|p| moved.iter().any(|m| m.as_slice() == p))?;
    }
    if refs::read(ctx.repo(), &reg.branch)?.as_ref() != Some(&target) {
        return Ok(Side::Elsewhere);
    }
    Ok(side)
}

/// Where git cannot check out what the branch goes on (a full disk, a file that cannot be replaced), it says so, forgets
/// its rebase and leaves what it had begun to write and to delete; where it cannot write down that it has, all of it.
fn checkout_back(ctx: &Context, reg: &Registration, entry: &worktree::Entry, step: &Step, came: Came) -> Result<()> {
    let objects = &ctx.state.objects;
    let changes = git::changes::between(objects, &step.tip, &step.onto)?;
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: Some(&step.tip) };
    if !uncommitted(ctx, &place)?.iter().any(|p| changes.files.contains_key(p)) {
        return Ok(());
    }
    if step.carries && refs::read(ctx.repo(), &step.kept)?.is_none() {
        // The work was not yet taken out of its way, so git has not begun: what differs is that work.
        return Ok(());
    }
    let at = At::of(entry, &reg.branch);
    let nobodys = BTreeSet::new();
    let back = |insist| at.back(ctx.repo(), objects, &step.tip, &changes, &nobodys, insist).map(drop);
    if came == Came::Later {
        put_aside(ctx, reg, entry, step)?;
        // Somebody may have worked there since: only what is git's for certain goes back.
        return match back(false) {
            Err(_) => Ok(at.files_back(ctx.repo(), objects, &changes, &nobodys)?),
            done => Ok(done?),
        };
    }
    if back(false).is_err() {
        put_aside(ctx, reg, entry, step)?;
        back(true)?;
    }
    Ok(())
}

fn gone(reg: &Registration) -> Error {
    Error::refused(format!("the worktree of '{}' is gone", reg.name), "git worktree list")
}

fn side(ctx: &Context, reg: &Registration, step: &Step) -> Result<Side> {
    Ok(match refs::read(ctx.repo(), &reg.branch)? {
        Some(now) if now == step.tip => Side::Old,
        Some(now) if ctx.state.objects.is_ancestor(&step.onto, &now)? => Side::New(now),
        _ => Side::Elsewhere,
    })
}

/// Captures the tree as it is: after a kill nobody knows what a person did there meanwhile.
fn put_aside(ctx: &Context, reg: &Registration, entry: &worktree::Entry, step: &Step) -> Result<()> {
    let reference = format!("{}-{}", step.kept, clock::random_hex(4));
    keep(ctx, reg, entry, &reference, &step.tip, u64::MAX).map(drop)
}

/// References that [`put_aside`] made.
fn put_aside_of(ctx: &Context, step: &Step) -> Result<Vec<String>> {
    let all = refs::list(ctx.repo(), &["refs/agents/removed/"])?;
    let ours = |name: &String| name.strip_prefix(&step.kept).is_some_and(|rest| rest.starts_with('-'));
    Ok(all.into_keys().filter(ours).collect())
}

/// Whether all is as in the commit that is checked out.
fn is_untouched(ctx: &Context, entry: &worktree::Entry) -> Result<bool> {
    let head = match &entry.head {
        worktree::Head::Branch(b) => refs::read(ctx.repo(), b)?,
        worktree::Head::Detached(id) => Some(id.clone()),
        worktree::Head::Unknown => None,
    };
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: head.as_ref() };
    Ok(head.is_some() && uncommitted(ctx, &place)?.is_empty())
}

fn is_clean(ctx: &Context, entry: &worktree::Entry, tip: &Oid) -> Result<bool> {
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: Some(tip) };
    let changes = sterile::status(ctx.repo(), &place, sterile::Rules::Strict)?;
    let phantoms = crate::git::endings::phantoms(ctx.repo(), &place, &changes.modified)?;
    Ok(changes.conflicted.is_empty() && changes.modified.is_subset(&phantoms))
}

/// Files that are no uncommitted work, and that a reset which was cut short had begun to write anew: it does so with any
/// whose times it does not know.
fn torn(ctx: &Context, entry: &worktree::Entry, tip: &Oid, work: &Work) -> Result<Vec<Vec<u8>>> {
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: Some(tip) };
    let mut out = sterile::status(ctx.repo(), &place, sterile::Rules::Strict)?.modified;
    out.retain(|path| {
        let file = entry.path.join(std::ffi::OsStr::from_bytes(path));
        let there = files::read_limited(&file, 1 << 30).map(Option::unwrap_or_default);
        let whole = ctx.state.objects.blob_at(tip, path).ok().flatten();
        let begun = matches!((there, whole), (Ok(there), Some(whole)) if whole.starts_with(&there));
        begun && !work.has(path)
    });
    Ok(out.into_iter().collect())
}

/// Takes away files that a killed git had begun to check out: each is, as far as it goes, the file of that path in a commit
/// that was on its way.
fn clear(ctx: &Context, reg: &Registration, entry: &worktree::Entry, step: &Step, target: &Oid) -> Result<()> {
    let objects = &ctx.state.objects;
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: Some(target) };
    let mut left = uncommitted(ctx, &place)?;
    if step.carries
        && let Some(commit) = refs::read(ctx.repo(), &step.kept)?
    {
        let work = Work::of(ctx.repo(), objects, &commit)?;
        left.retain(|p| !work.has(p));
    }
    if left.is_empty() {
        return Ok(());
    }
    let upstream = trial::upstream(ctx, &reg.fork, &step.onto)?;
    let mut on_the_way = vec![step.onto.clone(), step.tip.clone()];
    on_the_way.extend(objects.commits_beyond(&step.tip, &[upstream], 1000)?);
    for path in left {
        let file = entry.path.join(std::ffi::OsStr::from_bytes(&path));
        let link = std::fs::read_link(&file).map(|t| t.into_os_string().into_encoded_bytes());
        let Ok(Some(bytes)) = link.map(Some).or_else(|_| files::read_limited(&file, 1 << 30)) else { continue };
        let is_of = |commit: &Oid| {
            let blob = objects.blob_at(commit, &path).ok().flatten();
            blob.is_some_and(|b| b.starts_with(&bytes))
        };
        if on_the_way.iter().any(is_of) {
            std::fs::remove_file(&file).map_err(files::because("remove", &file))?;
            remove_empty(&entry.path, file.parent());
        }
    }
    Ok(())
}

/// Takes empty directories away, upwards.
fn remove_empty(top: &Path, mut dir: Option<&Path>) {
    while let Some(d) = dir.filter(|d| *d != top && d.starts_with(top)) {
        if std::fs::remove_dir(d).is_err() {
            return;
        }
        dir = d.parent();
    }
}

/// Writes down where it came to.
fn settle(ctx: &Context, held: &Held, reg: &Registration, step: &Step, side: &Side, picked: &[Oid]) -> Result<()> {
    let mut now = Registration { doing: None, ..reg.clone() };
    match side {
        Side::New(to) => {
            refs::sync(ctx.repo(), &reg.branch)?;
            let mut more = json!({ "from": step.tip, "to": to, "fork": reg.fork, "onto": step.onto });
            if let Some(base) = &step.base {
                more["base"] = json!(base);
                now.base.clone_from(base);
            }
            // One event, whoever comes to its end.
            let id = objects::digest(&[WORD, &step.kept])[..16].to_owned();
            ctx.state.append(held, &[event_with_id(&reg.id, Kind::Synced, id, more)])?;
            tell_people(ctx, held, reg, step, to, picked)?;
            now.fork = step.onto.clone();
            now.ahead = now.ahead.map(|_| to.clone());
        }
        Side::Old if !step.carries => {
            if refs::read(ctx.repo(), &step.kept)?.as_ref() == Some(&step.tip) {
                refs::delete(ctx.repo(), &step.kept, &step.tip)?;
            }
        }
        Side::Old | Side::Elsewhere => {}
    }
    Ok(ctx.state.register(held, &now)?)
}

/// The lines for people go to the commits that took the place of theirs.
fn tell_people(ctx: &Context, held: &Held, reg: &Registration, step: &Step, to: &Oid, picked: &[Oid]) -> Result<()> {
    let mut new = ctx.state.objects.commits_beyond(to, std::slice::from_ref(&step.onto), 10_000)?;
    new.reverse();
    if new.len() != picked.len() {
        return Ok(());
    }
    let mut lines = Vec::new();
    let mark = format!("{}:", reg.name);
    for (old, new) in picked.iter().zip(new) {
        let said = ctx.state.people_say(old)?;
        lines.extend(said.lines().filter(|l| l.starts_with(&mark)).map(|l| (new.clone(), l.to_owned())));
    }
    if lines.is_empty() { Ok(()) } else { Ok(ctx.state.note_for_people(held, &lines)?) }
}

/// Brings a sync that was cut short to one side; nothing where it is still under way.
pub(in crate::ops) fn finish_cut_short(ctx: &Context, held: &Held, reg: &Registration) -> Result<()> {
    let run = RunDir::of(&ctx.state, &reg.id);
    run.ensure()?;
    // Held by whoever does it, and by the git of one that was killed: that one goes on.
    let patience = std::time::Duration::from_millis(20);
    let Some(_lock) = Lock::take_within(&run.lock_path(), patience)? else { return Ok(()) };
    let back = |reg: &Registration| Registration { doing: None, ..reg.clone() };
    let Some(step) = reg.doing.as_deref().and_then(Step::parse) else {
        return Ok(ctx.state.register(held, &back(reg))?);
    };
    let entry = identity::entry_of(ctx, reg)?.filter(|e| e.link() == worktree::Link::Good);
    let side = match &entry {
        Some(entry) => to_one_side(ctx, reg, entry, &step, Came::Later)?,
        None => side(ctx, reg, &step)?,
    };
    let picked = match trial::upstream(ctx, &reg.fork, &step.onto) {
        Ok(upstream) => {
            let mut own = ctx.state.objects.commits_beyond(&step.tip, &[upstream], 10_000)?;
            own.reverse();
            own
        }
        Err(_) => Vec::new(),
    };
    settle(ctx, held, reg, &step, &side, &picked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_done_is_read_as_it_was_written() {
        let id = |c: &str| Oid(c.repeat(40));
        let kept = "refs/agents/removed/x".to_owned();
        for carries in [false, true] {
            for base in [None, Some("refs/heads/carry".to_owned()), Some("refs/heads/base".to_owned())] {
                let step = Step { onto: id("a"), tip: id("b"), kept: kept.clone(), carries, base };
                assert_eq!(Step::parse(&step.text()), Some(step));
            }
        }
        for other in ["remove", "sync", "sync a b c", "create"] {
            assert_eq!(Step::parse(other), None, "{other}");
        }
    }
}
