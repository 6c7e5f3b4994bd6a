//! From accepted to settled: waits, prepares, runs attempts, decides, writes how it ended.

use super::slots::{self, Turn};
use super::{Agent, attempt, capture, notify, say, tests};
use crate::git::state::event;
use crate::git::{merge, refs};
use crate::model::agent::{Oid, RunState};
use crate::model::event::Kind;
use crate::ops::commands::Commands;
use crate::ops::create::{self, Step};
use crate::ops::hold::{self, Hold};
use crate::ops::record::{Proven, RunDir, to_event};
use crate::ops::{Error, Result, executable, identity, inbox, plan, start};
use crate::place::job::{Happening, Stop};
use crate::place::log::CAP;
use crate::runtime::lock::Lock;
use crate::runtime::signals::Wake;
use crate::runtime::{clock, files};
use serde_json::json;
use std::time::Duration;

/// Where the provider says no more than that it refuses: until then it is not asked again.
const UNKNOWN_RESET: Duration = Duration::from_secs(300);

/// The whole life of a supervised agent.
pub fn live(agent: &mut Agent) {
    loop {
        let (state, reason) = match run(agent) {
            Ok(end) => end,
            Err(e) => {
                let words = e.words();
                say(&format!("error: {words}"));
                let hint = e.hint().map(|h| format!("; {h}")).unwrap_or_default();
                (RunState::Failed, Some(format!("{words}{hint}")))
            }
        };
        if state == RunState::Stopped && !agent.run.file("stop").exists() {
            // Nobody asked for this through us: the machine goes down, or somebody ends processes. No verdict, so that
            // `retry --interrupted` finds it.
            say("ended by a signal; 'git agents retry' goes on");
            return;
        }
        let door = agent.run.inbox_door().map_err(|e| say(&format!("warning: {e}"))).ok();
        let listens = matches!(state, RunState::Succeeded | RunState::Unchanged | RunState::NeedsInput);
        if listens && !inbox::messages(&agent.run).is_empty() {
            continue;
        }
        settle(agent, state, reason, door);
        return;
    }
}

pub(super) type End = (RunState, Option<String>);

/// Whether what git runs or trusts has changed is a warning for later; no run ends by it. What has.
pub(super) fn note_git(found: crate::ops::Result<Vec<String>>) -> Vec<String> {
    match &found {
        Ok(changed) if changed.is_empty() => {}
        Ok(changed) => say(&format!("warning: {}", executable::words(changed))),
        Err(e) => say(&format!("warning: what git runs here could not be compared: {}", e.words())),
    }
    found.unwrap_or_default()
}

fn run(agent: &mut Agent) -> Result<End> {
    let mut back_off = Duration::from_secs(1);
    let mut refused: u32 = 0;
    loop {
        // What was asked before is answered, or of no use any more.
        agent.record.question = None;
        if let Some(end) = agent.record.proven.clone() {
            return tests::after(agent, end);
        }
        let tips = match slots::parents(agent)? {
            Turn::Yes(tips) => tips,
            Turn::Stopped => return Ok((RunState::Stopped, None)),
            Turn::Never(state, why) => return Ok((state, Some(why))),
        };
        let permit = match slots::turn(agent)? {
            Turn::Yes(p) => p,
            Turn::Stopped => return Ok((RunState::Stopped, None)),
            Turn::Never(state, why) => return Ok((state, Some(why))),
        };
        agent.record.state = RunState::Preparing;
        agent.publish();
        if let Some(end) = prepare(agent, tips)? {
            if let (RunState::Failed, Some(why)) = (&end.0, &end.1) {
                hold::note_start(&agent.ctx, agent.assistant(), Some(why))?;
            }
            return Ok(end);
        }
        let before = note_git(executable::begin(&agent.ctx, Some(&agent.reg.id)));
        let done = attempt::run(agent);
        let changed = note_git(executable::end(&agent.ctx)).into_iter().filter(|c| !before.contains(c));
        agent.record.git_changed.extend(changed);
        agent.record.git_changed.dedup();
        let done = done?;
        // What it has cost, and that its assistant is held, is known before the next one may start.
        agent.publish();
        if let attempt::Done::RateLimited(until) = &done {
            let hold = Hold {
                assistant: agent.assistant().to_owned(),
                reason: "rate limit".into(),
                until: Some(reset(until.as_deref(), refused)),
            };
            hold::set(&agent.ctx, &hold)?;
            refused = refused.saturating_add(1);
        }
        drop(permit);
        match done {
            attempt::Done::Final(state, reason) => return tests::after(agent, Proven { state, reason }),
            attempt::Done::Again => {}
            attempt::Done::RateLimited(_) => {
                // Its attempt is not counted; everyone with this assistant waits.
                agent.record.attempt = agent.record.attempt.saturating_sub(1);
                notify::notify(agent, "hold", Some("rate limit"));
            }
            attempt::Done::Failed(state, reason) => {
                if agent.record.attempts_left == 0 {
                    return Ok((state, reason));
                }
                agent.record.attempts_left -= 1;
                capture::take(agent, "before a retry");
                agent.record.state = RunState::Waiting;
                agent.record.reason = Some(format!("tries again: {}", reason.unwrap_or_default()));
                agent.publish();
                if pause(agent, back_off) {
                    return Ok((RunState::Stopped, None));
                }
                back_off = (back_off * 2).min(Duration::from_secs(60));
            }
        }
    }
}

/// When a rate limit is over. A time that has passed already, again and again, must not become a loop: each refusal in a
/// row doubles the least that is waited.
fn reset(told: Option<&str>, refused: u32) -> String {
    let told = told.and_then(clock::parse);
    let least = match told {
        Some(_) => Duration::from_secs(1 << refused.min(8)),
        None => UNKNOWN_RESET,
    };
    let least = jiff::Timestamp::now() + least;
    clock::stamp(told.map_or(least, |t| t.max(least)))
}

/// Waits `long`, a fifth more or less, unless stopped.
fn pause(agent: &mut Agent, long: Duration) -> bool {
    let ms = u64::try_from(long.as_millis()).unwrap_or(60_000);
    let jitter = crate::model::agent::fnv64(agent.reg.id.0.as_bytes()) % (ms / 5 * 2 + 1);
    let deadline = std::time::Instant::now() + Duration::from_millis(ms - ms / 5 + jitter);
    while std::time::Instant::now() < deadline {
        agent.signals.wait(200);
        let woken = agent.signals.take();
        if agent.stopping(&woken) {
            return true;
        }
    }
    false
}

/// Makes the environment and sets it up. `Some` where that is the end of it.
fn prepare(agent: &mut Agent, tips: Vec<(String, Oid)>) -> Result<Option<End>> {
    if agent.reg.doing.as_deref() == Some("create")
        && !tips.is_empty()
        && let Some(end) = start_from(agent, &tips)?
    {
        return Ok(Some(end));
    }
    let mut told = Vec::new();
    let entry = {
        let Agent { ctx, reg, plan, .. } = agent;
        create::materialize(ctx, reg, plan, &mut |step| told.push(step))?
    };
    for step in told {
        match step {
            Step::Warning(w) => say(&format!("warning: {w}")),
            Step::Files(t) => {
                for l in t.left_out {
                    say(&format!("left out: {}: {}", crate::model::text::shown_path(&l.path), l.reason));
                }
            }
            Step::Worktree(_) | Step::Waits(_) | Step::Tests => {}
        }
    }
    identity::lock_worktree(&agent.ctx, &agent.reg)?;
    if agent.record.setup_done {
        return Ok(None);
    }
    let env = attempt::variables(agent, &entry.path);
    agent.run.ensure()?;
    let log = agent.run.file("setup.log");
    let setup = Commands {
        commands: &agent.plan.setup,
        scripts: &agent.plan.scripts,
        cwd: &entry.path,
        env,
        values: attempt::values(agent, &entry),
        env_allow: &agent.plan.env_allow,
        token: &agent.address.token,
        grace: agent.plan.grace(),
        limit_s: agent.plan.setup_time_s,
        limit_of: ("setup", "agents.setupTime"),
        log: &log,
        log_cap: CAP,
        also: None,
    };
    let mut stopped = false;
    let outcome = setup.run(&agent.signals, &mut |h| {
        let Happening::Tick(woken) = h else { return None };
        stopped |= woken.iter().any(|w| matches!(w, Wake::End(_))) || agent.run.file("stop").exists();
        stopped.then_some(Stop::Asked)
    })?;
    if stopped {
        agent.asked_to_stop = true;
        return Ok(Some((RunState::Stopped, None)));
    }
    match outcome {
        Ok(()) => {
            agent.record.setup_done = true;
            agent.publish();
            Ok(None)
        }
        Err(why) => Ok(Some((RunState::Failed, Some(format!("setup: {why}"))))),
    }
}

/// The branch starts from the parents: one tip, or their merge where that is clean.
fn start_from(agent: &mut Agent, tips: &[(String, Oid)]) -> Result<Option<End>> {
    let repo = &agent.ctx.state.repo;
    let mut at = tips[0].1.clone();
    let mut merged = vec![tips[0].0.clone()];
    for (name, tip) in &tips[1..] {
        if agent.ctx.state.objects.is_ancestor(tip, &at)? {
            continue;
        }
        if agent.ctx.state.objects.is_ancestor(&at, tip)? {
            at = tip.clone();
            continue;
        }
        let verdict = merge::once(repo, Some(&at), &[(at.clone(), tip.clone())])?;
        match verdict.into_iter().next() {
            Some(merge::Merge::Clean(_)) => {}
            Some(merge::Merge::Conflict(paths)) => {
                let paths: Vec<String> = paths.keys().map(|p| crate::model::text::safe_path(p)).collect();
                return Ok(Some((
                    RunState::Failed,
                    Some(format!("'{name}' does not merge with '{}': {}", merged.join("', '"), paths.join(", "))),
                )));
            }
            other => {
                return Ok(Some((
                    RunState::Failed,
                    Some(format!("whether '{name}' merges could not be told: {other:?}")),
                )));
            }
        }
        // The same merge again, this time into the repository: its objects are needed there.
        let tree = repo.call(["merge-tree", "--write-tree", "--no-messages", &at.0, &tip.0]).text()?;
        let tree = tree
            .lines()
            .next()
            .and_then(Oid::parse)
            .ok_or_else(|| Error::refused("git merge-tree gave no tree", "git agents retry"))?;
        let message = format!("Merge '{name}' into the start of '{}'\n", agent.reg.name);
        let commit = repo.call(["commit-tree", &tree.0, "-p", &at.0, "-p", &tip.0, "-m", &message]).text()?;
        at = Oid::parse(&commit).ok_or_else(|| Error::refused("git commit-tree gave no commit", "git agents retry"))?;
        merged.push(name.clone());
    }
    agent.reg.fork = at;
    let held = agent.ctx.state.lock()?;
    agent.ctx.state.register(&held, &agent.reg)?;
    Ok(None)
}

/// Writes how it ended: the record, then the journal, then what follows from it. `door`: of the inbox, open again once
/// the record says that no message is read any more.
pub fn settle(agent: &mut Agent, state: RunState, reason: Option<String>, door: Option<Lock>) {
    agent.ticket = None;
    agent.mend_folder();
    let reason = if state == RunState::Failed { because_of_the_disk(agent, reason) } else { reason };
    agent.record.state = state;
    agent.record.reason = reason;
    agent.record.ended = Some(clock::now());
    agent.record.event = Some(clock::random_hex(8));
    agent.record.boot = crate::runtime::process::boot_id();
    if state != RunState::NeedsInput {
        agent.record.question = None;
    }
    let _ = std::fs::remove_file(agent.run.file("stop"));
    if let Err(e) = agent.run.write_exit(&agent.record) {
        say(&format!("error: how it ended could not be written: {e}"));
    }
    drop(door);
    if let Err(e) = journal(agent) {
        // The next command that takes the lock completes it from the exit record.
        say(&format!("error: the journal could not be written: {e}"));
    }
    if let Err(e) = identity::unlock_worktree(&agent.ctx, &agent.reg) {
        say(&format!("error: the worktree's lock could not be released: {e}"));
    }
    if state != RunState::Stopped && state != RunState::Skipped {
        notify::notify(agent, state.word(), agent.record.reason.clone().as_deref());
    }
    if matches!(state, RunState::Succeeded | RunState::Unchanged) {
        revive_children(agent);
    }
}

/// A full disk makes everything fail in its own words; the first of them must be that.
fn because_of_the_disk(agent: &Agent, reason: Option<String>) -> Option<String> {
    const LEAST: u64 = 256 << 10;
    let said = reason.as_deref().is_some_and(|r| r.contains("No space left on device") || r.contains("uota exceeded"));
    let places = [&agent.ctx.repo().common_dir, &agent.plan.path];
    let full = places.into_iter().find(|p| files::free_space(p).is_some_and(|free| free < LEAST));
    if !said && full.is_none() {
        return reason;
    }
    let place = full.map(|p| format!(" at '{}'", crate::model::text::shown_path(p))).unwrap_or_default();
    let name = agent.reg.name.typed();
    let was = reason.map(|r| format!(" ({r})")).unwrap_or_default();
    Some(format!("the disk is full{place}; make room, then 'git agents retry {name}' goes on{was}"))
}

/// The journal's events and the notes for people about what this run made.
fn journal(agent: &mut Agent) -> Result<()> {
    let tip = refs::read(&agent.ctx.state.repo, &agent.reg.branch)?;
    let journal = agent.ctx.state.journal_of(&agent.reg.id)?;
    let own = match &tip {
        Some(tip) => crate::ops::inventory::own_commits_of(&agent.ctx, &agent.reg, &agent.task, &journal, tip)?,
        None => Vec::new(),
    };
    let noted: std::collections::BTreeSet<String> =
        journal.all(&Kind::Commit).filter_map(|e| e.text("commit").map(str::to_owned)).collect();
    let assistant = agent.assistant().to_owned();
    let mut events = Vec::new();
    let mut lines = Vec::new();
    let verdict = agent.record.state;
    for c in own.iter().rev() {
        if !noted.contains(&c.0) {
            events.push(event(&agent.reg.id, Kind::Commit, json!({ "commit": c, "attempt": agent.record.attempt })));
        }
        let title = crate::model::text::one_line(&agent.task.title, 120);
        lines.push((c.clone(), format!("{}: {title} [{assistant}, {verdict}]", agent.reg.name)));
    }
    events.push(to_event(&agent.reg.id, &agent.record, json!({ "tip": tip, "commits": own.len() })));
    if events.len() > 1 {
        // The assistant's commits, before it is said that they are there: git syncs neither them nor their branch.
        crate::runtime::files::sync_all_beside(&agent.ctx.repo().common_dir)?;
    }
    let held = agent.ctx.state.lock()?;
    agent.ctx.state.append(&held, &events)?;
    if !own.is_empty() && agent.reg.ahead != tip {
        // As it is now: somebody else may have changed the rest meanwhile.
        let (registrations, _) = agent.ctx.state.registrations()?;
        if let Some(mut now) = registrations.into_iter().find(|r| r.id == agent.reg.id) {
            now.ahead = tip;
            agent.ctx.state.register(&held, &now)?;
            agent.reg = now;
        }
    }
    agent.ctx.state.note_for_people(&held, &lines).map_err(Into::into)
}

/// Agents that were skipped because of this one wait again.
fn revive_children(agent: &Agent) {
    let Ok((registrations, _)) = agent.ctx.state.registrations() else { return };
    for r in registrations {
        let run = RunDir::of(&agent.ctx.state, &r.id);
        // Few were skipped, and there may be hundreds: their tasks are read last.
        if run.exit().is_some_and(|e| e.state == RunState::Skipped)
            && let Ok(task) = agent.ctx.state.task(&r.id)
            && task.after.contains(&agent.reg.id)
            && let Some(plan) = plan::read(&run)
        {
            let begin = crate::ops::record::Record::new(RunState::Preparing, task.retries);
            if let Err(e) = start::hand_over(&agent.ctx, &r.id, &plan, begin) {
                say(&format!("'{}' could not be started again: {e}", r.name));
            }
        }
    }
}
