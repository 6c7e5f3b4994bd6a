//! A person sits down in an assistant's place: its session, interactive, in this terminal, in its worktree.
//!
//! The agent's lock is held by this foreground process; the child inherits the terminal. No pty of ours.

use super::{Agent, attempt, capture, life, take_over};
use crate::config::template;
use crate::git::refs;
use crate::git::state::event;
use crate::model::agent::{AgentId, Oid, RunState};
use crate::model::event::Kind;
use crate::model::units::count;
use crate::ops::plan::{self, RunPlan};
use crate::ops::record::{Proven, RunDir};
use crate::ops::{Context, Error, Result, executable, identity, start};
use crate::place::adapter::{self, CallInput};
use crate::place::job::{Job, environment};
use crate::runtime::signals::{Signals, Wake};
use crate::runtime::{clock, files};
use nix::sys::signal::Signal;
use serde_json::json;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

/// Runs the interactive form in the worktree of `id`, or the user's shell where there is none. Its exit code.
pub fn attach(ctx: &Context, id: &AgentId, plan: &RunPlan, fresh: bool) -> Result<i32> {
    let run = RunDir::of(&ctx.state, id);
    run.ensure()?;
    let lock = run.seize()?.ok_or_else(|| Error::refused("it is running", "'git agents stop' ends it, then attach"))?;
    if let Some(reg) = ctx.state.registrations()?.0.iter().find(|r| r.id == *id) {
        identity::check_alone(ctx, reg)?;
    }
    let previous = run.exit().or_else(|| run.live());
    let left = run.end_left_over(plan.grace());
    if !left.is_empty() {
        let what = format!("{} of its last run cannot be ended", count(left.len(), "process"));
        return Err(Error::refused(what, "end them by hand"));
    }
    plan::write(&run, plan)?;
    // The keys of the terminal are for the child; what ends a session is survived to write down how it ended.
    let signals = Signals::catch().map_err(files::because("catch", Path::new("signals")))?;
    let mut agent: Agent = take_over(ctx.clone(), id, lock, signals, clock::random_hex(16))?;
    if let Some(p) = previous {
        agent.record = p;
    }
    let entry = identity::check_place(&agent.ctx, &agent.reg)?;
    identity::lock_worktree(&agent.ctx, &agent.reg)?;
    capture::take(&agent, "before a person sat down");
    if fresh {
        agent.record.session = None;
    }
    let asked = agent.record.question.clone().filter(|_| agent.record.state == RunState::NeedsInput);
    agent.record.state = RunState::Attached;
    agent.record.reason = None;
    agent.record.question = None;
    agent.record.started.get_or_insert_with(clock::now);
    agent.record.boot = crate::runtime::process::boot_id();
    run.clear_exit()?;
    agent.publish_address();
    agent.publish();
    let begin = refs::read(ctx.repo(), &agent.reg.branch)?;
    let held = ctx.state.lock()?;
    let what = json!({ "attempt": agent.record.attempt, "start": begin, "attached": true });
    ctx.state.append(&held, &[event(id, Kind::Attempt, what)])?;
    drop(held);
    let changes = |tip: Option<&Oid>| {
        let place = crate::git::status::Place { worktree: &entry.path, admin: &entry.admin, head: tip };
        crate::git::status::changes(ctx.repo(), &ctx.state.objects, &place).ok()
    };
    let before = changes(begin.as_ref());
    let (argv, env) = interactive(&agent, &entry)?;
    let job = Job {
        argv,
        env,
        env_allow: agent.plan.env_allow.clone(),
        cwd: entry.path.clone(),
        stdin: None,
        token: agent.address.token.clone(),
        grace: agent.plan.grace(),
    };
    super::life::note_git(executable::begin(ctx, Some(id)));
    let code = sit(&job, &agent.signals);
    super::life::note_git(executable::end(ctx));
    let code = code?;
    agent.record.exit_code = Some(code);
    let after = refs::read(ctx.repo(), &agent.reg.branch)?;
    let now = changes(after.as_ref());
    let dirty = now.as_ref().is_some_and(|c| !c.is_empty());
    let inv = crate::ops::inventory::Inventory::read(ctx)?;
    let own = inv
        .agents
        .iter()
        .find(|a| a.reg.id == *id)
        .map(|a| crate::ops::inventory::own_commits(ctx, &inv, a))
        .transpose()?;
    let nothing = own.is_none_or(|o| o.is_empty()) && !dirty;
    let (state, reason) = match (code, nothing) {
        _ if run.file("stop").exists() => (RunState::Stopped, None),
        // Who only looked, or could not even begin, has answered nothing.
        _ if asked.is_some() && begin == after && before == now => (RunState::NeedsInput, None),
        (0, false) => (RunState::Succeeded, None),
        (0, true) => (RunState::Unchanged, Some("nothing was changed".to_owned())),
        (c, _) => (RunState::Failed, Some(format!("the interactive session exited with {c}"))),
    };
    agent.record.question = asked.filter(|_| state == RunState::NeedsInput);
    if state == RunState::Succeeded && plan.test.is_some() {
        // The terminal is the person's again: a supervisor tests, and settles it.
        agent.record.proven = Some(Proven { state, reason });
        agent.record.state = RunState::Verifying;
        start::hand_over_locked(ctx, id, agent.lock, plan, agent.record)?;
        return Ok(code);
    }
    let door = agent.run.inbox_door().ok();
    life::settle(&mut agent, state, reason, door);
    Ok(code)
}

/// A command and its variables.
type Command = (Vec<OsString>, Vec<(String, OsString)>);

fn interactive(agent: &Agent, entry: &crate::git::worktree::Entry) -> Result<Command> {
    let mut env = attempt::variables(agent, &entry.path);
    let row = agent.plan.adapter.as_ref().filter(|r| !r.interactive.is_empty());
    let Some(row) = row else {
        let shell = std::env::var_os("SHELL").filter(|s| !s.is_empty()).unwrap_or_else(|| "/bin/sh".into());
        return Ok((vec![shell], env));
    };
    let exe = std::env::current_exe().map_err(files::because("find", Path::new("git-agents")))?;
    let prompt_file = agent.run.file("prompt.md");
    files::write_atomic(&prompt_file, agent.task.prompt.as_bytes())?;
    let values = attempt::values(agent, entry);
    let input = CallInput {
        prompt: &agent.task.prompt,
        prompt_file: &prompt_file,
        model: agent.task.model.as_deref(),
        permission: agent.task.permission,
        session: agent.record.session.as_deref(),
        resume: agent.record.session.is_some(),
        cost_usd: None,
        values: &values,
        self_exe: &exe,
    };
    let call = adapter::interactive(row, &input, &|t, v| template::render(t, v).map_err(|e| e.to_string()))
        .map_err(|e| Error::Place(e.into()))?;
    env.extend(attempt::author(agent, row)?);
    env.extend(call.env);
    Ok((call.argv, env))
}

/// Runs a command with the caller's terminal in the environment of an agent; its exit code, 128+n for a signal.
pub fn in_terminal(job: &Job) -> Result<i32> {
    let (mut command, program) = command(job)?;
    let status = command.status().map_err(files::because("start", Path::new(&program)))?;
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// The same with signals caught: the terminal sends its own to the child as well, and the others are passed on.
fn sit(job: &Job, signals: &Signals) -> Result<i32> {
    let (mut command, program) = command(job)?;
    let mut child = command.spawn().map_err(files::because("start", Path::new(&program)))?;
    let id = crate::runtime::process::identify(child.id().cast_signed());
    loop {
        if let Some(status) = child.try_wait().map_err(files::because("wait for", Path::new(&program)))? {
            return Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
        }
        signals.wait(1000);
        for woken in signals.take() {
            if let (Wake::End(Signal::SIGTERM | Signal::SIGHUP), Some(id)) = (woken, &id) {
                // A shell at a terminal ignores the first and takes the second for a closed terminal.
                id.signal(Signal::SIGTERM);
                id.signal(Signal::SIGHUP);
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a person's own command, in this terminal")]
fn command(job: &Job) -> Result<(std::process::Command, OsString)> {
    let (program, args) = job.argv.split_first().ok_or_else(|| Error::refused("no command", "name one"))?;
    let mut command = std::process::Command::new(program);
    command.args(args).current_dir(&job.cwd);
    environment(&mut command, job);
    crate::runtime::process::unblock_signals(&mut command);
    for v in
        ["GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_TERMINAL_PROMPT", "GIT_PAGER", "GIT_ASKPASS", "SSH_ASKPASS_REQUIRE"]
    {
        command.env_remove(v);
    }
    Ok((command, program.clone()))
}
