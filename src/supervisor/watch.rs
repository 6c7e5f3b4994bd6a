//! The clock of an attempt: its limits, whether it still gets anywhere, when to capture what it did.
//!
//! Quiet is not stalled: only when there is no progress event *and* the whole tree of processes uses less than one
//! hundredth of a core *and* no file changes, all for the stall limit. Time asleep (a closed lid) does not count.

use super::{Agent, attempt};
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
    sample: Option<(Instant, u64, u64)>,
    asked: Option<Instant>,
    stalled: bool,
    next_capture: Instant,
    capture_gap: Duration,
    captured: u64,
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
            question_grace: Duration::from_secs(60),
            pid: 0,
            last_progress: now,
            sample: None,
            asked: None,
            stalled: false,
            next_capture: now + Duration::from_secs(60),
            capture_gap: Duration::from_secs(60),
            captured: 0,
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
        if now >= self.next_capture {
            // At doubling intervals, and only when the tree has changed since.
            let mark = fingerprint(agent, entry);
            if mark != self.captured && mark != 0 {
                attempt::capture(agent, "during the run");
                self.captured = mark;
            }
            self.capture_gap = (self.capture_gap * 2).min(Duration::from_secs(3600));
            self.next_capture = Instant::now() + self.capture_gap;
        }
    }

    fn check_stall(&mut self, agent: &Agent, entry: &Entry, now: Instant) {
        let Some(limit) = self.stall_limit else { return };
        if self.asked.is_some() || now.duration_since(self.last_progress) < limit / 2 {
            return;
        }
        match self.sample {
            None => self.sample = Some((now, cpu(self.pid), fingerprint(agent, entry))),
            Some((at, ticks, mark))
                if now.duration_since(at) >= limit.div_f32(2.0) && now.duration_since(self.last_progress) >= limit =>
            {
                let used = cpu(self.pid).saturating_sub(ticks);
                let allowed = now.duration_since(at).as_secs().max(1) * process::ticks_per_second() / 100;
                let changed = fingerprint(agent, entry) != mark;
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

/// A number that changes when files of the worktree or its branch do; 0 where nothing differs from the commit.
fn fingerprint(agent: &Agent, entry: &Entry) -> u64 {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::MetadataExt as _;
    let head = crate::git::refs::read(agent.ctx.repo(), &agent.reg.branch).ok().flatten();
    let place = Place { worktree: &entry.path, admin: &entry.admin, head: head.as_ref() };
    let Ok(changes) = status::changes(agent.ctx.repo(), &agent.ctx.state.objects, &place) else { return 0 };
    if changes.is_empty() {
        return 0;
    }
    let mut bytes: Vec<u8> = head.map(|h| h.0.into_bytes()).unwrap_or_default();
    for p in changes.all() {
        bytes.extend_from_slice(p);
        if let Ok(m) = std::fs::symlink_metadata(entry.path.join(std::ffi::OsStr::from_bytes(p))) {
            bytes.extend(format!("{}.{}.{}", m.mtime(), m.mtime_nsec(), m.size()).bytes());
        }
    }
    crate::model::agent::fnv64(&bytes).max(1)
}
