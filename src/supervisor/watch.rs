//! The clock of an attempt: its limits, whether it still gets anywhere, when to capture what it did.
//!
//! Quiet is not stalled: only when there is no progress event *and* the whole tree of processes uses less than one
//! hundredth of a core *and* no file changes, all for the stall limit. Time asleep (a closed lid) does not count.

use super::{Agent, capture};
use crate::git::status::{self, Place};
use crate::git::worktree::Entry;
use crate::place::job::Stop;
use crate::runtime::{clock, process};
use std::time::{Duration, Instant};

/// Watches one attempt.
#[derive(Debug)]
pub struct Watch {
    begun: Instant,
    time_limit: Option<Duration>,
    stall_limit: Option<Duration>,
    question_grace: Duration,
    pid: i32,
    last_progress: Instant,
    /// The last sample of a quiet stretch: when, CPU ticks, fingerprint of the tree.
    sample: Option<(Instant, u64, Option<Mark>)>,
    asked: Option<Instant>,
    stalled: bool,
    next_capture: Option<Instant>,
    capture_gap: Duration,
    captured: Option<Mark>,
    published: Instant,
    dirty_record: bool,
}

impl Watch {
    /// For an attempt that begins now.
    pub fn new(agent: &Agent) -> Watch {
        let now = Instant::now();
        Watch {
            begun: now,
            time_limit: agent.task.time_s.map(Duration::from_secs),
            stall_limit: agent.task.stall_s.map(Duration::from_secs),
            question_grace: Duration::from_secs(agent.plan.question_grace_s),
            pid: 0,
            last_progress: now,
            sample: None,
            asked: None,
            stalled: false,
            next_capture: agent.plan.capture_interval_s.map(|s| now + Duration::from_secs(s)),
            capture_gap: Duration::from_secs(agent.plan.capture_interval_s.unwrap_or(0)),
            captured: None,
            published: now,
            dirty_record: false,
        }
    }

    /// The assistant's process.
    pub fn started(&mut self, pid: i32) {
        self.pid = pid;
    }

    /// It printed something; whether that was progress is another matter.
    pub fn printed(&mut self) {
        self.dirty_record = true;
    }

    /// It got somewhere.
    pub fn progressed(&mut self) {
        self.last_progress = Instant::now();
        self.sample = None;
        // What it says after a question is an answer to somebody else.
        self.asked = None;
    }

    /// It asked a person.
    pub fn asked(&mut self) {
        self.asked.get_or_insert_with(Instant::now);
    }

    /// Whether it waits for an answer.
    pub fn has_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// About once a second.
    pub fn tick(&mut self, agent: &mut Agent, entry: &Entry) {
        let now = Instant::now();
        if self.dirty_record && now.duration_since(self.published) >= Duration::from_secs(1) {
            agent.record.last_output = Some(clock::now());
            agent.publish();
            self.published = now;
            self.dirty_record = false;
        }
        self.check_stall(agent, entry, now);
        if self.next_capture.is_some_and(|t| now >= t) {
            // At doubling intervals, and only when there is something, and other than last time.
            let mark = Mark::of(agent, entry).filter(|m| m.uncommitted);
            if mark.is_some() && mark != self.captured {
                capture::take(agent, "during the run");
                self.captured = mark;
            }
            self.capture_gap = (self.capture_gap * 2).min(Duration::from_secs(3600));
            self.next_capture = Some(Instant::now() + self.capture_gap);
        }
    }

    fn check_stall(&mut self, agent: &Agent, entry: &Entry, now: Instant) {
        let Some(limit) = self.stall_limit else { return };
        if self.asked.is_some() || now.duration_since(self.last_progress) < limit / 2 {
            return;
        }
        match self.sample {
            None => self.sample = Some((now, cpu(self.pid), Mark::of(agent, entry))),
            Some((at, ticks, mark))
                if now.duration_since(at) >= limit.div_f32(2.0) && now.duration_since(self.last_progress) >= limit =>
            {
                let used = cpu(self.pid).saturating_sub(ticks);
                let allowed = now.duration_since(at).as_secs().max(1) * process::ticks_per_second() / 100;
                let changed = Mark::of(agent, entry) != mark;
                if used > allowed || changed {
                    // Alive after all: the stretch begins anew.
                    self.last_progress = now;
                    self.sample = None;
                } else {
                    self.stalled = true;
                }
            }
            Some(_) => {}
        }
    }

    /// Whether it must end now.
    pub fn verdict(&self) -> Option<Stop> {
        if self.time_limit.is_some_and(|l| self.begun.elapsed() >= l) {
            return Some(Stop::Time);
        }
        if self.asked.is_some_and(|a| a.elapsed() >= self.question_grace) {
            return Some(Stop::Question);
        }
        self.stalled.then_some(Stop::Stall)
    }
}

/// CPU ticks that the whole tree of `pid` has used.
fn cpu(pid: i32) -> u64 {
    process::descendants(pid).into_iter().filter_map(process::stat).map(|s| s.cpu).sum()
}

/// What changes when files of the worktree do, or its branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    hash: u64,
    /// Whether anything differs from the commit.
    uncommitted: bool,
}

impl Mark {
    /// `None` where it could not be told.
    fn of(agent: &Agent, entry: &Entry) -> Option<Mark> {
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::fs::MetadataExt as _;
        let head = crate::git::refs::read(agent.ctx.repo(), &agent.reg.branch).ok().flatten();
        let place = Place { worktree: &entry.path, admin: &entry.admin, head: head.as_ref() };
        let changes = status::changes(agent.ctx.repo(), &agent.ctx.state.objects, &place).ok()?;
        let mut bytes: Vec<u8> = head.map(|h| h.0.into_bytes()).unwrap_or_default();
        for p in changes.all() {
            bytes.extend_from_slice(p);
            if let Ok(m) = std::fs::symlink_metadata(entry.path.join(std::ffi::OsStr::from_bytes(p))) {
                bytes.extend(format!("{}.{}.{}", m.mtime(), m.mtime_nsec(), m.size()).bytes());
            }
        }
        Some(Mark { hash: crate::model::agent::fnv64(&bytes), uncommitted: !changes.is_empty() })
    }
}
