//! Waiting for one's turn: parents, holds, room on the disk, a slot. In queue order, at no cost while nothing changes.
//!
//! A queue is a folder of tickets, each locked by its waiter; the name says the order. The first waiter tries the slots;
//! everyone else sleeps on the lock of the ticket before its own. A killed waiter or holder frees its lock at once.

use super::{Agent, say};
use crate::model::agent::{AgentId, RunState};
use crate::ops::record::{RunDir, stand};
use crate::ops::{Error, Result, start};
use crate::runtime::files;
use crate::runtime::lock::Lock;
use nix::poll::{PollFd, PollFlags, poll};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// The permits of one run, released when dropped.
#[derive(Debug)]
pub struct Permit {
    _repository: Lock,
    _batch: Option<Lock>,
}

/// Why waiting ended without a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn<T> {
    /// It is our turn.
    Yes(T),
    /// Somebody asked for the end.
    Stopped,
    /// It will never be: the final state and why.
    Never(RunState, String),
}

/// Waits until every parent has settled well; says which commits they are at.
pub fn parents(agent: &mut Agent) -> Result<Turn<Vec<(String, crate::model::agent::Oid)>>> {
    let mut tips = Vec::new();
    for id in agent.task.after.clone() {
        loop {
            let woken = agent.signals.take();
            if agent.stopping(&woken) {
                return Ok(Turn::Stopped);
            }
            let (name, state) = parent(agent, &id)?;
            match state {
                Some(RunState::Succeeded | RunState::Unchanged) => {
                    if let Some(tip) = tip_of(agent, &id)? {
                        tips.push((name, tip));
                    }
                    break;
                }
                Some(s) if s.is_final() => return Ok(Turn::Never(RunState::Skipped, format!("'{name}' is {s}"))),
                None => return Ok(Turn::Never(RunState::Skipped, format!("'{name}' is gone"))),
                Some(s) => {
                    wait_state(agent, format!("after '{name}'"));
                    if s == RunState::NeedsInput {
                        agent.signals.wait(1000);
                    } else {
                        sleep_on(agent, &RunDir::of(&agent.ctx.state, &id).lock_path())?;
                    }
                }
            }
        }
    }
    Ok(Turn::Yes(tips))
}

fn parent(agent: &Agent, id: &AgentId) -> Result<(String, Option<RunState>)> {
    let run = RunDir::of(&agent.ctx.state, id);
    let (registrations, _) = agent.ctx.state.registrations()?;
    let name = registrations.iter().find(|r| r.id == *id).map(|r| r.name.0.clone());
    let journal = agent.ctx.state.journal_of(id)?;
    let state = stand(&run, Some(&journal), true)?.map(|r| r.state);
    Ok((name.unwrap_or_else(|| id.short().to_owned()), state))
}

fn tip_of(agent: &Agent, id: &AgentId) -> Result<Option<crate::model::agent::Oid>> {
    let (registrations, _) = agent.ctx.state.registrations()?;
    match registrations.iter().find(|r| r.id == *id) {
        Some(r) => Ok(crate::git::refs::read(&agent.ctx.state.repo, &r.branch)?),
        None => Ok(None),
    }
}

fn wait_state(agent: &mut Agent, reason: String) {
    if agent.record.state != RunState::Waiting || agent.record.reason.as_deref() != Some(reason.as_str()) {
        agent.record.state = RunState::Waiting;
        agent.record.reason = Some(reason);
        agent.publish();
    }
}

/// Waits until the assistant is not held, it is not too late, and there is room; then for a slot.
pub fn turn(agent: &mut Agent) -> Result<Turn<Permit>> {
    loop {
        if let Some(no) = gates(agent)? {
            return Ok(no);
        }
        let batch = match agent.task.parallel {
            Some(n) => match queue(agent, &format!("batch-{}", agent.task.batch.unwrap_or(0)), Some(n))? {
                Some(lock) => Some(lock),
                None => return Ok(Turn::Stopped),
            },
            None => None,
        };
        let Some(repository) = queue(agent, "all", None)? else { return Ok(Turn::Stopped) };
        let permit = Permit { _repository: repository, _batch: batch };
        // A hold may have come while we waited: then others go first.
        if held(agent).is_none() {
            agent.record.reason = None;
            agent.record.resume_at = None;
            return Ok(Turn::Yes(permit));
        }
    }
}

fn held(agent: &Agent) -> Option<start::Hold> {
    agent.task.assistant.as_deref().and_then(|a| start::hold(&agent.ctx, a))
}

fn gates(agent: &mut Agent) -> Result<Option<Turn<Permit>>> {
    loop {
        let woken = agent.signals.take();
        if agent.stopping(&woken) {
            return Ok(Some(Turn::Stopped));
        }
        if let Some(until) = &agent.task.until
            && crate::runtime::clock::parse(until).is_some_and(|t| t <= jiff::Timestamp::now())
        {
            return Ok(Some(Turn::Never(RunState::OverBudget, format!("no start after {until}"))));
        }
        if let Some(limit) = agent.task.total_cost_usd {
            let spent = spent(agent)?;
            if spent >= limit {
                return Ok(Some(Turn::Never(
                    RunState::OverBudget,
                    format!("the batch has cost {spent:.2} of {limit:.2} USD"),
                )));
            }
        }
        if let Some(hold) = held(agent) {
            agent.record.resume_at.clone_from(&hold.until);
            let when = hold.until.map(|u| format!(" until {u}")).unwrap_or_default();
            wait_state(
                agent,
                format!("{} is held: {}{when}", agent.task.assistant.as_deref().unwrap_or("it"), hold.reason),
            );
            agent.signals.wait(500);
            continue;
        }
        let free = free_bytes(agent);
        if free.is_some_and(|f| f < agent.plan.min_free) {
            wait_state(
                agent,
                format!("less than {} of disk space is free", crate::model::units::format_size(agent.plan.min_free)),
            );
            agent.signals.wait(2000);
            continue;
        }
        return Ok(None);
    }
}

/// What the batch has cost so far, as far as it is known.
pub fn spent(agent: &Agent) -> Result<f64> {
    let mut sum = 0.0;
    for (id, task) in agent.ctx.state.tasks()? {
        if task.batch == agent.task.batch {
            let run = RunDir::of(&agent.ctx.state, &id);
            sum += run.exit().or_else(|| run.live()).and_then(|r| r.cost_usd).unwrap_or(0.0);
        }
    }
    Ok(sum)
}

fn free_bytes(agent: &Agent) -> Option<u64> {
    let mut dir = agent.plan.path.as_path();
    while !dir.exists() {
        dir = dir.parent()?;
    }
    let v = nix::sys::statvfs::statvfs(dir).ok()?;
    Some(v.blocks_available().saturating_mul(v.fragment_size()))
}

/// Waits in the queue `name` for one of its slots; `None` when stopped. `limit`: how many slots, else as set now.
fn queue(agent: &mut Agent, name: &str, limit: Option<usize>) -> Result<Option<Lock>> {
    let dir = agent.ctx.state.ensure_dirs()?.join("slots").join(name);
    files::ensure_private_dir(&dir)?;
    let tickets = dir.join("queue");
    files::ensure_private_dir(&tickets)?;
    let mine = format!(
        "{:010}-{:06}-{}",
        agent.task.batch.unwrap_or(u64::from(u32::MAX)),
        agent.task.number.unwrap_or(0),
        agent.reg.id.short()
    );
    let ticket = Lock::take(&tickets.join(&mine))?;
    loop {
        let woken = agent.signals.take();
        if agent.stopping(&woken) {
            ticket.remove();
            return Ok(None);
        }
        if let Some(before) = before(&tickets, &mine)? {
            wait_state(agent, "for a slot".into());
            sleep_on(agent, &before)?;
            continue;
        }
        for n in 1..=limit.unwrap_or_else(|| parallel(agent)).max(1) {
            if let Some(slot) = Lock::try_take(&dir.join(format!("{n}.lock")))? {
                ticket.remove();
                return Ok(Some(slot));
            }
        }
        wait_state(agent, "for a slot".into());
        agent.signals.wait(10);
    }
}

/// The living ticket right before ours; dead ones are taken away.
fn before(tickets: &Path, mine: &str) -> Result<Option<PathBuf>> {
    let mut earlier: Vec<String> = std::fs::read_dir(tickets)
        .map_err(files::because("read", tickets))?
        .filter_map(std::result::Result::ok)
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|n| n.as_str() < mine)
        .collect();
    earlier.sort();
    while let Some(last) = earlier.pop() {
        let path = tickets.join(&last);
        if let Some(dead) = Lock::try_take(&path)? {
            dead.remove();
        } else {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// `agents.parallel`, read anew: what the repository's own config says now, else what the run was planned with.
fn parallel(agent: &Agent) -> usize {
    let set = crate::git::config_file::read(&agent.ctx.state.repo.common_dir)
        .ok()
        .and_then(|c| c.value("agents", None, "parallel"));
    set.and_then(|v| v.parse().ok()).unwrap_or(agent.plan.parallel)
}

/// Sleeps until the lock at `path` is free, or a signal arrives.
fn sleep_on(agent: &Agent, path: &Path) -> Result<()> {
    let (read, write) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
        .map_err(|e| Error::refused(format!("no pipe: {e}"), "git agents retry"))?;
    let path = path.to_owned();
    let waiter = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
        if let Err(e) = Lock::wait_free(&path) {
            say(&format!("waiting failed: {e}"));
        }
        let _ = nix::unistd::write(&write, b"x");
    });
    if waiter.is_err() {
        agent.signals.wait(200);
        return Ok(());
    }
    let mut fds = [PollFd::new(read.as_fd(), PollFlags::POLLIN), PollFd::new(agent.signals.as_fd(), PollFlags::POLLIN)];
    // A minute at most: whatever we wait for is looked at again then.
    let _ = poll(&mut fds, 60_000u16);
    Ok(())
}
