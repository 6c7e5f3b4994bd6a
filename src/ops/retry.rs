//! A run again, and its end: what a person does to one agent that was started before.

use super::inventory::{Agent, Inventory};
use super::plan;
use super::record::{Record, RunDir, to_event};
use super::start::hand_over_locked;
use super::{Context, Error, Loaded, Result, identity, inbox, unfinished};
use crate::config::ApprovedPlan;
use crate::git::locks::Mark;
use crate::git::state::Registration;
use crate::model::agent::RunState;
use crate::model::text::shell_word;
use crate::model::units::count;
use crate::runtime::{clock, files};
use std::os::unix::ffi::OsStrExt as _;

/// How `retry` goes on.
#[derive(Debug, Clone, Default)]
pub struct Retry {
    /// Another assistant.
    pub assistant: Option<String>,
    /// A new limit of cost.
    pub cost: Option<f64>,
    /// From the base: the old tip is kept under a reference of ours.
    pub fresh: bool,
    /// One more message for its session.
    pub message: Option<String>,
}

/// Starts the run of an agent again, keeping what is there.
pub fn retry(ctx: &Context, loaded: &Loaded, approved: &ApprovedPlan, name: &str, how: &Retry) -> Result<()> {
    super::repair::repair(ctx, &ctx.state.lock()?)?.check(name)?;
    let inv = Inventory::read(ctx)?;
    let a = inv
        .find(name)
        .ok_or_else(|| Error::refused(format!("there is no agent named '{name}'"), "git agents status"))?;
    let (reg, task) = (a.reg.clone(), a.task.clone());
    let run = RunDir::of(&ctx.state, &reg.id);
    run.ensure()?;
    // From here to the end nobody else starts it: what follows changes its worktree.
    let Some(lock) = run.seize()? else {
        return Err(Error::refused(
            format!("'{name}' is running"),
            "'git agents send' gives it a message, 'stop' ends it",
        ));
    };
    identity::check_alone(ctx, &reg)?;
    let previous = run.exit().or_else(|| run.live()).or_else(|| a.record.clone());
    // What a killed supervisor left running must not work beside the new run.
    let left = run.end_left_over(grace_of(&run));
    if !left.is_empty() {
        return Err(Error::refused(
            format!("{} of the last run of '{name}' cannot be ended", count(left.len(), "process")),
            "end them by hand",
        ));
    }
    unfinished::heal_after_run(ctx, &reg, previous.as_ref().and_then(|p| p.ended.as_deref()))?;
    let assistant = how
        .assistant
        .clone()
        .or_else(|| previous.as_ref().and_then(|p| p.assistant.clone()))
        .or_else(|| task.assistant.clone());
    let Some(assistant) = assistant else {
        return Err(Error::refused(format!("'{name}' has no task"), format!("git agents attach {}", shell_word(name))));
    };
    let path = match identity::entry_of(ctx, &reg)? {
        Some(e) => e.path,
        None => match (&reg.path, &reg.doing) {
            (Some(p), Some(_)) => p.clone(),
            _ => {
                return Err(Error::refused(
                    format!("the worktree of '{name}' is gone"),
                    format!("git agents rm {}", shell_word(name)),
                ));
            }
        },
    };
    if reg.doing.is_none() {
        identity::check_place(ctx, &reg)?;
    }
    let mut plan = plan::run_plan(ctx, loaded, approved, path, Some(&assistant))?;
    plan.test = plan::TestPlan::of(loaded, approved, task.test.as_deref());
    if let Some(adapter) = &plan.adapter {
        super::assistant::check(adapter, ctx, plan.env_allow.as_ref())?;
    }
    plan.cost_override = how.cost.or_else(|| plan::read(&run).and_then(|p| p.cost_override));
    plan.asked_by_person = true;
    let limit = plan.cost_override.or(task.cost_usd);
    if let (Some(limit), Some(cost)) = (limit, previous.as_ref().and_then(|p| p.cost_usd))
        && cost >= limit
    {
        return Err(Error::refused(
            format!("'{name}' has cost {cost:.2} of {limit:.2} USD"),
            format!("git agents retry --cost USD {}", shell_word(name)),
        ));
    }
    if how.fresh {
        start_fresh(ctx, &reg, plan.capture_max_file)?;
    }
    if let Some(m) = &how.message {
        inbox::leave(&run, m)?;
    }
    let mut begin = Record::new(RunState::Preparing, task.retries);
    begin.assistant = how.assistant.clone().or_else(|| previous.as_ref().and_then(|p| p.assistant.clone()));
    begin.cost_limit = plan.cost_override;
    if let Some(p) = previous {
        let who = |r: &Record| r.assistant.clone().or_else(|| task.assistant.clone());
        let same = who(&begin) == who(&p);
        begin.attempt = p.attempt;
        begin.session = p.session.filter(|_| !how.fresh && same);
        begin.cost_usd = p.cost_usd;
        begin.tokens = p.tokens;
        begin.started = p.started;
        begin.setup_done = p.setup_done;
        begin.hand_on = p.hand_on.filter(|_| !how.fresh);
        // Where only the tests were left they are all that is done.
        begin.proven = p.proven.filter(|_| !how.fresh && same && inbox::messages(&run).is_empty());
    }
    hand_over_locked(ctx, &reg.id, lock, &plan, begin)
        .map_err(|e| Error::Refused { what: format!("'{name}': {e}"), hint: e.hint() })
}

/// How long processes of a run have to end, as it was planned.
fn grace_of(run: &RunDir) -> std::time::Duration {
    plan::read(run).map_or(std::time::Duration::from_secs(10), |p| p.grace())
}

/// Back to the base, with everything kept: tree and index in a capture, the old tip among its parents.
fn start_fresh(ctx: &Context, reg: &Registration, max_file: u64) -> Result<()> {
    if reg.doing.is_some() {
        return Ok(());
    }
    let entry = identity::check_place(ctx, reg)?;
    let tip = crate::git::refs::read(ctx.repo(), &reg.branch)?;
    let label = format!(
        "{}-{}-{}",
        clock::compact().to_lowercase(),
        crate::model::agent::Slug::of(&reg.name.0),
        clock::random_hex(4)
    );
    let about = serde_json::json!({ "agent": reg.id, "name": reg.name, "branch": reg.branch, "why": "retry --fresh" });
    let reference = format!("refs/agents/removed/{label}");
    let wanted = crate::git::capture::Options { reference: &reference, about, max_file, also: &[] };
    let kept = crate::git::capture::take(ctx.repo(), &ctx.state.objects, &entry, tip.as_ref(), &wanted)?;
    let git = |args: &[&str]| {
        crate::git::command::Call::user_visible(&entry.path, args)
            .without_hooks(&ctx.repo().configured_hooks())
            .env("GIT_DIR", &entry.admin)
            .env("GIT_COMMON_DIR", &ctx.repo().common_dir)
            .env("GIT_WORK_TREE", &entry.path)
            .env_remove("GIT_OPTIONAL_LOCKS")
    };
    // What is untracked goes with the rest once git knows it; what the capture could not take stays.
    let mut add = git(&["add", "--all", "--", "."]);
    for (path, _) in &kept.skipped {
        let mut but = std::ffi::OsString::from(":(exclude,literal)");
        but.push(std::ffi::OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)));
        add.arg(but);
    }
    let mark = Mark::of_worktree(ctx.repo(), &entry.admin, &reg.branch);
    let result = add.run().and_then(|_| git(&["reset", "--hard", "--quiet", &reg.fork.0]).run());
    mark.end(&result);
    Ok(result.map(drop)?)
}

/// Ends the run of an agent: asked of its supervisor, or, where that is gone, done to what it left. Whether there was
/// anything to end.
pub fn stop(ctx: &Context, a: &Agent) -> Result<bool> {
    if super::sync::is_under_way(&a.reg) && a.run.is_alive()? {
        return Err(Error::refused(format!("'{}' is being synced", a.reg.name), "wait a moment, then try again"));
    }
    if a.run.is_alive()? {
        files::write_atomic(&a.run.file("stop"), b"stop\n")?;
        if let Some(address) = &a.run.address() {
            address.supervisor.signal(nix::sys::signal::Signal::SIGTERM);
        }
        return Ok(true);
    }
    if !a.run.dir.is_dir() {
        return Ok(false);
    }
    identity::check_original(&a.run, &a.reg)?;
    let Some(_lock) = a.run.seize()? else {
        return Err(Error::refused(format!("'{}' is being started by somebody else", a.reg.name), "git agents status"));
    };
    let had_left = !a.run.left_over().is_empty();
    let left = a.run.end_left_over(grace_of(&a.run));
    if !left.is_empty() {
        return Err(Error::refused(
            format!("{} of '{}' cannot be ended", count(left.len(), "process"), a.reg.name),
            "end them by hand",
        ));
    }
    let Some(record) = a.record.as_ref().filter(|r| matches!(r.state, RunState::Dead | RunState::Interrupted)) else {
        let cut_short = a.record.is_none() && a.run.live().is_some();
        if cut_short && a.reg.doing.is_none() {
            identity::unlock_worktree(ctx, &a.reg)?;
            let _ = std::fs::remove_file(a.run.file("state.json"));
        }
        return Ok(had_left || cut_short);
    };
    let mut record = record.clone();
    record.state = RunState::Stopped;
    record.ended = Some(clock::now());
    record.event = Some(clock::random_hex(8));
    a.run.write_exit(&record)?;
    let held = ctx.state.lock()?;
    // Its tests have a place and a token of their own.
    super::scratch::heal(ctx, &held);
    ctx.state.append(&held, &[to_event(&a.reg.id, &record, serde_json::json!({ "tip": a.tip }))])?;
    identity::unlock_worktree(ctx, &a.reg)?;
    Ok(true)
}
