//! After an attempt that succeeded: the project's tests on the tip, and on the commit it started from.
//!
//! The run's slot is free by then; tests have slots of their own. That only they are left is in the record before they
//! begin, so whatever ends them (a kill, `stop`, the machine) leaves a run that `retry` completes by the tests alone. They
//! change nothing about how the run ended: what they say is an event of the journal, and the report judges by it.

use super::life::{End, note_git};
use super::{Agent, say};
use crate::git::refs;
use crate::git::state::event;
use crate::model::agent::{Oid, RunState};
use crate::model::event::Kind;
use crate::model::verdict::Compared;
use crate::ops::create::Step;
use crate::ops::record::Proven;
use crate::ops::verify::{At, Check, Patience, Tested, verify};
use crate::ops::{Error, Result, executable, inbox};
use crate::place::log::{CappedLog, HEAD};
use std::cell::RefCell;
use std::path::Path;
use std::time::SystemTime;

/// Bytes of `test.log`, all attempts together.
const CAP: u64 = 16 << 20;

/// Tests what an attempt left, and says how the run ended.
pub(super) fn after(agent: &mut Agent, end: Proven) -> Result<End> {
    let checks = (end.state == RunState::Succeeded).then(|| Check::of(&agent.plan)).flatten();
    let tip = refs::read(agent.ctx.repo(), &agent.reg.branch)?;
    let (Some(check), Some(tip)) = (checks, tip) else {
        agent.record.proven = None;
        return Ok((end.state, end.reason));
    };
    // Its place in the queue for a run is nobody's.
    agent.ticket = None;
    agent.record.proven = Some(end.clone());
    agent.record.state = RunState::Verifying;
    agent.record.reason = None;
    agent.publish();
    // They are what assistants wrote, and run like these.
    let before = note_git(executable::begin(&agent.ctx, Some(&agent.reg.id)));
    let tested = compare(agent, &check, &tip).and_then(|compared| note(agent, &compared));
    let changed = note_git(executable::end(&agent.ctx)).into_iter().filter(|c| !before.contains(c));
    agent.record.git_changed.extend(changed);
    agent.record.git_changed.dedup();
    match tested {
        Ok(()) => {}
        // A message: what it says is worked on first, and then tested.
        Err(Error::Interrupted(_)) if !agent.stopping(&[]) && !inbox::messages(&agent.run).is_empty() => {}
        Err(Error::Interrupted(_)) => {
            agent.asked_to_stop = true;
            return Ok((RunState::Stopped, Some("while its tests ran; 'git agents retry' runs only them".into())));
        }
        // They are not the run: it ended as it did.
        Err(e) => {
            let words = e.words();
            say(&format!("error: its tests could not be run: {words}"));
            let reason = format!("its tests could not be run: {words}");
            agent.record.proven = None;
            return Ok((end.state, Some(end.reason.map_or(reason.clone(), |r| format!("{r}; {reason}")))));
        }
    }
    agent.record.proven = None;
    Ok((end.state, end.reason))
}

fn compare(agent: &mut Agent, check: &Check, tip: &Oid) -> Result<Compared> {
    let base = start_of(agent, tip)?;
    let at_tip = test(agent, check, tip, "its tip", None)?;
    let at_base = test(agent, check, &base, "its base", Some(agent.begun))?;
    let tree = tree_of(agent, tip)?;
    let mut out = Compared::of(check.shown(), tree, base, &at_tip.outcome(), &at_base.outcome());
    out.seconds = at_tip.seconds;
    out.left_behind.clone_from(&at_tip.left_behind);
    out.reason = match (at_tip.passed, at_base.passed) {
        (Some(true), None) => at_base.reason.map(|r| format!("the base: {r}")),
        _ => at_tip.reason,
    };
    Ok(out)
}

/// What the tip is compared with: where the branch started, or where the base was when it was last merged in.
fn start_of(agent: &Agent, tip: &Oid) -> Result<Oid> {
    let objects = &agent.ctx.state.objects;
    let fork = agent.reg.fork.clone();
    let Some(base) = refs::read(agent.ctx.repo(), &agent.reg.base)? else { return Ok(fork) };
    let met = objects.merge_bases(&base, tip)?.into_iter().next();
    Ok(match met {
        Some(met) if met != *tip && objects.is_ancestor(&fork, &met)? => met,
        _ => fork,
    })
}

fn tree_of(agent: &Agent, commit: &Oid) -> Result<Oid> {
    let gone = || Error::refused(format!("commit {} is gone", commit.short()), "git agents retry");
    Ok(agent.ctx.state.objects.commit(commit)?.ok_or_else(gone)?.tree)
}

fn test(agent: &mut Agent, check: &Check, commit: &Oid, what: &str, since: Option<SystemTime>) -> Result<Tested> {
    let tree = tree_of(agent, commit)?;
    let path = agent.run.file("test.log");
    let line = |text: &str| {
        if let Ok(mut log) = CappedLog::open(&path, HEAD, CAP) {
            log.write(format!("== {what}, {}: {text}\n", commit.short()).as_bytes());
            log.finish();
        }
    };
    line(&check.shown());
    let run = agent.run.clone();
    let signals = std::mem::replace(&mut agent.signals, crate::runtime::signals::Signals::none());
    let base = agent.reg.base.clone();
    let ctx = agent.ctx.clone();
    let told = RefCell::new(agent);
    let tested = verify(
        &ctx,
        check,
        At { tree: &tree, base: &base, commit: &|| Ok(commit.clone()), again: true, log: Some(&path), since },
        &Patience {
            signals: &signals,
            enough: &|| {
                told.borrow_mut().mend_folder();
                run.file("stop").exists() || !inbox::messages(&run).is_empty()
            },
            waits_for_room: true,
        },
        &mut |step| match step {
            Step::Waits(why) => stands(&mut told.borrow_mut(), Some(format!("waits {why}"))),
            Step::Tests => stands(&mut told.borrow_mut(), None),
            Step::Warning(w) => say(&format!("warning: {w}")),
            Step::Files(_) | Step::Worktree(_) => {}
        },
    );
    told.into_inner().signals = signals;
    let tested = tested?;
    match (tested.reused, &tested.log) {
        (true, _) if tested.too_long => {
            line(&format!("{}, as seen by another of this run", tested.reason.as_deref().unwrap_or("failed")));
        }
        (true, Some(log)) => line(&format!("{}, known from an earlier run: '{}'", word(&tested), shown(log))),
        (true, None) => line(&format!("{}, known from an earlier run", word(&tested))),
        (false, _) => line(word(&tested)),
    }
    Ok(tested)
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}

fn word(tested: &Tested) -> &'static str {
    match tested.passed {
        Some(true) if tested.again => "failed, and passed when asked again",
        Some(true) => "passed",
        Some(false) => "failed",
        None => "could not be told",
    }
}

fn stands(agent: &mut Agent, reason: Option<String>) {
    if agent.record.reason != reason {
        agent.record.reason = reason;
        agent.publish();
    }
}

fn note(agent: &mut Agent, compared: &Compared) -> Result<()> {
    let what = serde_json::to_value(compared).expect("plain JSON");
    let held = agent.ctx.state.lock()?;
    Ok(agent.ctx.state.append(&held, &[event(&agent.reg.id, Kind::Tested, what)])?)
}
