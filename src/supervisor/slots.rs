//! Waiting for one's turn: parents, holds, room on the disk, a slot. In the order of the list, at next to no cost.
//!
//! A queue is a folder of tickets, each locked by its waiter; the name says the order. The first waiter tries the slots;
//! everyone else sleeps on the lock of the ticket before its own. A killed waiter or holder frees its lock at once. A
//! ticket is drawn before an agent is accepted, and the one for the next queue before the last is given up, so nobody
//! overtakes. Who is held back parks his ticket beside the queue, where nobody waits for it as long as the hold lasts.

use super::{Agent, say};
use crate::model::agent::{AgentId, RunState, Slug};
use crate::ops::hold::{self, Hold};
use crate::ops::record::{RunDir, stand};
use crate::ops::{Error, Result};
use crate::runtime::files;
use crate::runtime::lock::Lock;
use crate::runtime::signals::pipe;
use nix::poll::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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

/// A place in a queue; given up when dropped.
#[derive(Debug)]
pub struct Ticket(Option<Lock>);

impl Ticket {
    fn draw(path: &Path) -> Result<Ticket> {
        Ok(Ticket(Some(Lock::take(path)?)))
    }

    fn is_lost(&self) -> bool {
        self.0.as_ref().is_some_and(|lock| !lock.is_there())
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(lock) = self.0.take() {
            lock.remove();
        }
    }
}

/// A thread that waits for somebody's lock to be free, and the pipe by which it tells.
#[derive(Debug)]
pub struct Waiter {
    path: PathBuf,
    free: OwnedFd,
}

/// Draws the first ticket: the order of the list is that of these.
pub fn line_up(agent: &mut Agent) -> Result<()> {
    if agent.ticket.is_none() {
        let queue = Queue::open(agent, agent.first_queue())?;
        agent.ticket = Some(Ticket::draw(&queue.ticket(agent))?);
    }
    Ok(())
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
    let state = stand(&run, || Some(&journal), true)?.map(|r| r.state);
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
        line_up(agent)?;
        match gates(agent)? {
            Turn::Yes(()) => {}
            Turn::Stopped => return Ok(Turn::Stopped),
            Turn::Never(state, why) => return Ok(Turn::Never(state, why)),
        }
        let batch = match agent.task.parallel {
            Some(n) => {
                let Some(slot) = slot(agent, Which::Batch, Some(n))? else { return Ok(Turn::Stopped) };
                let next = Queue::open(agent, Which::Repository)?;
                agent.ticket = Some(Ticket::draw(&next.ticket(agent))?);
                Some(slot)
            }
            None => None,
        };
        let Some(repository) = slot(agent, Which::Repository, None)? else { return Ok(Turn::Stopped) };
        agent.ticket = None;
        // A hold may have come while we waited, or the time has passed: then others go first.
        if matches!(gate(agent)?, Gate::Open) {
            agent.record.reason = None;
            agent.record.resume_at = None;
            return Ok(Turn::Yes(Permit { _repository: repository, _batch: batch }));
        }
    }
}

/// What stands between an agent and the queue.
enum Gate {
    Open,
    Held(Hold),
    NoRoom,
    Never(RunState, String),
}

fn gate(agent: &Agent) -> Result<Gate> {
    if !agent.plan.asked_by_person
        && let Some(until) = &agent.task.until
        && crate::runtime::clock::parse(until).is_some_and(|t| t <= jiff::Timestamp::now())
    {
        return Ok(Gate::Never(
            RunState::OverBudget,
            format!("no start after {}", crate::runtime::clock::local(until)),
        ));
    }
    if let (Some(limit), None) = (agent.task.total_cost_usd, agent.plan.cost_override) {
        let spent = spent(agent)?;
        if spent >= limit {
            let why = format!("the batch has cost {spent:.2} of {limit:.2} USD");
            return Ok(Gate::Never(RunState::OverBudget, why));
        }
    }
    if let Some(hold) = hold::hold(&agent.ctx, agent.assistant()) {
        return Ok(Gate::Held(hold));
    }
    if files::free_space(&agent.plan.path).is_some_and(|f| f < agent.plan.min_free) {
        return Ok(Gate::NoRoom);
    }
    Ok(Gate::Open)
}

fn gates(agent: &mut Agent) -> Result<Turn<()>> {
    let mut parked: Option<Ticket> = None;
    loop {
        let woken = agent.signals.take();
        if agent.stopping(&woken) {
            return Ok(Turn::Stopped);
        }
        let gate = gate(agent)?;
        if parked.is_none() && !matches!(gate, Gate::Open) {
            let queue = Queue::open(agent, agent.first_queue())?;
            let held = if let Gate::Held(h) = &gate { Slug::of(&h.assistant).0 } else { String::new() };
            parked = Some(Ticket::draw(&queue.parked(agent, &held))?);
            agent.ticket = None;
        }
        match gate {
            Gate::Open => {
                // The place in the queue first: those behind look for one or the other.
                line_up(agent)?;
                return Ok(Turn::Yes(()));
            }
            Gate::Never(state, why) => return Ok(Turn::Never(state, why)),
            Gate::Held(hold) => {
                agent.record.resume_at.clone_from(&hold.until);
                wait_state(agent, hold::waits(&hold));
                agent.signals.wait(pause_until(&hold));
            }
            Gate::NoRoom => {
                let size = crate::model::units::format_size(agent.plan.min_free);
                wait_state(agent, format!("less than {size} of disk space is free"));
                agent.signals.wait(2000);
            }
        }
    }
}

/// Milliseconds until a hold is looked at again: it may be lifted before its time.
fn pause_until(hold: &Hold) -> u16 {
    let left = hold.until.as_deref().and_then(crate::runtime::clock::parse);
    let left = left.map(|t| t.duration_since(jiff::Timestamp::now()).as_millis());
    u16::try_from(left.unwrap_or(500).clamp(5, 500)).unwrap_or(500)
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

/// Whose slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those of a `run -j`.
    Batch,
    /// All of `agents.parallel`.
    Repository,
}

struct Queue {
    dir: PathBuf,
}

impl Queue {
    fn open(agent: &Agent, which: Which) -> Result<Queue> {
        let name = match which {
            Which::Batch => format!("batch-{}", agent.task.batch.unwrap_or(0)),
            Which::Repository => "all".to_owned(),
        };
        let dir = agent.ctx.state.ensure_dirs()?.join("slots").join(name);
        for d in [dir.clone(), dir.join("queue"), dir.join("parked")] {
            files::ensure_private_dir(&d)?;
        }
        Ok(Queue { dir })
    }

    fn ticket(&self, agent: &Agent) -> PathBuf {
        self.dir.join("queue").join(agent.place())
    }

    fn parked(&self, agent: &Agent, held: &str) -> PathBuf {
        self.dir.join("parked").join(format!("{}@{held}", agent.place()))
    }

    /// The living entry of `folder` right before `mine` that `counts`; dead ones are taken away.
    fn before(&self, folder: &str, mine: &str, counts: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
        let dir = self.dir.join(folder);
        let mut earlier: Vec<String> = std::fs::read_dir(&dir)
            .map_err(files::because("read", &dir))?
            .filter_map(std::result::Result::ok)
            .filter_map(|e| e.file_name().into_string().ok())
            .filter(|n| n.split('@').next().is_some_and(|n| n < mine) && counts(n))
            .collect();
        earlier.sort();
        while let Some(last) = earlier.pop() {
            let path = dir.join(&last);
            match Lock::try_take(&path)? {
                Some(dead) => dead.remove(),
                None => return Ok(Some(path)),
            }
        }
        Ok(None)
    }
}

impl Agent {
    /// The name of its tickets: the order of batches, then of the list.
    fn place(&self) -> String {
        let batch = self.task.batch.unwrap_or(u64::from(u32::MAX));
        format!("{batch:010}-{:06}-{}", self.task.number.unwrap_or(0), self.reg.id.short())
    }

    fn first_queue(&self) -> Which {
        if self.task.parallel.is_some() { Which::Batch } else { Which::Repository }
    }
}

/// Waits in a queue, where our ticket lies, for one of its slots; `None` when stopped. `limit`: how many slots, else as
/// set now.
fn slot(agent: &mut Agent, which: Which, limit: Option<usize>) -> Result<Option<Lock>> {
    let queue = Queue::open(agent, which)?;
    let mine = agent.place();
    let begun = Instant::now();
    loop {
        let woken = agent.signals.take();
        if agent.stopping(&woken) {
            return Ok(None);
        }
        if agent.ticket.as_ref().is_some_and(Ticket::is_lost) {
            // Somebody deleted our folder, and the queue with it: everyone lines up anew, in the same order.
            agent.ticket = None;
            agent.ticket = Some(Ticket::draw(&Queue::open(agent, which)?.ticket(agent))?);
        }
        if let Some(before) = queue.before("queue", &mine, |_| true)? {
            wait_state(agent, "for a slot".into());
            sleep_on(agent, &before)?;
            continue;
        }
        // A hold that has just ended: those it kept back come first, as they did before.
        let free_again = |name: &str| {
            let held = name.split('@').nth(1).unwrap_or_default();
            !held.is_empty() && !hold::all(&agent.ctx).iter().any(|h| Slug::of(&h.assistant).0 == held)
        };
        if queue.before("parked", &mine, free_again)?.is_some() {
            wait_state(agent, "for a slot".into());
            agent.signals.wait(10);
            continue;
        }
        for n in 1..=limit.unwrap_or_else(|| parallel(agent)).max(1) {
            if let Some(slot) = Lock::try_take(&queue.dir.join(format!("{n}.lock")))? {
                return Ok(Some(slot));
            }
        }
        wait_state(agent, "for a slot".into());
        // Only the first of a queue comes here. It is quick at first, for short runs, and then unhurried.
        agent.signals.wait(if begun.elapsed() < Duration::from_secs(2) { 10 } else { 100 });
    }
}

/// `agents.parallel`, read anew: what the repository's own config says now, else what the run was planned with.
fn parallel(agent: &Agent) -> usize {
    let set = crate::git::config_file::read(&agent.ctx.state.repo.common_dir)
        .ok()
        .and_then(|c| c.value("agents", None, "parallel"));
    set.and_then(|v| v.parse().ok()).unwrap_or(agent.plan.parallel)
}

/// Sleeps until the lock at `path` is free, a signal arrives, or it is time to look at the rest again.
fn sleep_on(agent: &mut Agent, path: &Path) -> Result<()> {
    if agent.waiter.as_ref().is_none_or(|w| w.path != path) {
        crate::runtime::process::release_code();
        agent.waiter = Some(wait_for(path)?);
    }
    let Some(waiter) = &agent.waiter else { return Ok(()) };
    let mut fds =
        [PollFd::new(waiter.free.as_fd(), PollFlags::POLLIN), PollFd::new(agent.signals.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut fds, 5_000u16);
    if fds[0].any() == Some(true) {
        agent.waiter = None;
    }
    Ok(())
}

fn wait_for(path: &Path) -> Result<Waiter> {
    let (free, write) = pipe().map_err(|e| Error::refused(format!("no pipe: {e}"), "git agents retry"))?;
    let awaited = path.to_owned();
    // Where no thread can be had its end of the pipe closes, which wakes as well.
    let _ = std::thread::Builder::new().stack_size(64 << 10).spawn(move || {
        if let Err(e) = Lock::wait_free(&awaited) {
            say(&format!("waiting failed: {e}"));
        }
        let _ = nix::unistd::write(&write, b"x");
    });
    Ok(Waiter { path: path.to_owned(), free })
}
