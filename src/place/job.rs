//! One program run to its end, with everything it starts: assistants, setup commands, whatever else.
//!
//! The program gets a process group of its own, a scrubbed environment, no terminal, and a token in its environment by
//! which every process it leaves can be found again. Whatever ends it ends the whole group: TERM, a grace, KILL, then
//! what escaped, found as children of ours (we are their sub-reaper) or by the token. Nothing unproven is signalled.

use crate::git::command::{plain_path, scrub};
use crate::runtime::process::{self, Identity};
use crate::runtime::signals::{Signals, Wake, pipe};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The variable that marks every process of a run.
pub const TOKEN: &str = "AGENTS_RUN";

/// What to run, and where.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Added to the scrubbed environment of ours.
    pub env: Vec<(String, OsString)>,
    /// If set, the only variables of ours that are handed on (beside the few every program needs).
    pub env_allow: Option<Vec<String>>,
    /// Its directory.
    pub cwd: PathBuf,
    /// What it reads; nothing where `None`.
    pub stdin: Option<PathBuf>,
    /// `AGENTS_RUN=…`, unique for this run.
    pub token: String,
    /// Between TERM and KILL.
    pub grace: Duration,
}

/// Why it was ended before it ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked.
    Asked,
    /// The time limit.
    Time,
    /// No progress.
    Stall,
    /// The cost limit.
    Budget,
    /// A message is to be read now.
    Message,
    /// It asked a question that nobody answers here.
    Question,
    /// A rate limit: no use in waiting inside.
    RateLimit,
}

/// What the program does, as it does it.
#[derive(Debug)]
pub enum Happening<'a> {
    /// It started.
    Started(&'a Identity),
    /// It printed these bytes (both streams, in order).
    Output(&'a [u8]),
    /// About once a second, and on every signal.
    Tick(&'a [Wake]),
}

/// How it ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why we ended it, if we did.
    pub stopped: Option<Stop>,
    /// Processes that could not be ended: pid and command.
    pub survivors: Vec<(i32, String)>,
}

/// Runs `job` to the end. `watch` sees everything and says when to end it.
///
/// # Errors
/// The program could not be started.
pub fn run(
    job: &Job,
    signals: &Signals,
    mut watch: impl FnMut(Happening<'_>) -> Option<Stop>,
) -> std::io::Result<Ended> {
    // What runs below us already is none of its.
    let own = std::process::id().cast_signed();
    let before: Vec<Identity> =
        process::descendants(own).into_iter().filter(|p| *p != own).filter_map(process::identify).collect();
    let (mut child, output) = start(job)?;
    let pid = child.id().cast_signed();
    let leader = process::identify(pid).unwrap_or(Identity { pid, start: 0, boot: process::boot_id() });
    let mut stop = watch(Happening::Started(&leader));
    let mut output = Some(output);
    let mut buf = vec![0u8; 32 << 10];
    let mut status = None;
    let mut next_tick = Instant::now() + Duration::from_secs(1);
    while stop.is_none() && status.is_none() {
        read_for(&mut output, signals, next_tick.saturating_duration_since(Instant::now()), &mut buf, &mut |b| {
            stop = stop.or(watch(Happening::Output(b)));
        });
        let woken = signals.take();
        if !woken.is_empty() || Instant::now() >= next_tick {
            stop = stop.or(watch(Happening::Tick(&woken)));
            next_tick = Instant::now() + Duration::from_secs(1);
        }
        status = child.try_wait()?;
    }
    let ended_itself = status.is_some();
    if status.is_none() {
        status = end(job, &leader, &mut child, signals, &mut output, &mut buf, &mut |b| {
            let _ = watch(Happening::Output(b));
        })?;
    }
    // What it leaves behind gets a moment to finish by itself, then goes the same way.
    let deadline = Instant::now() + if ended_itself { Duration::from_secs(2) } else { Duration::ZERO };
    loop {
        let pause = Duration::from_millis(if output.is_some() { 20 } else { 0 });
        read_for(&mut output, signals, pause, &mut buf, &mut |b| {
            let _ = watch(Happening::Output(b));
        });
        if strays(job, pid, &before).is_empty() || Instant::now() >= deadline {
            break;
        }
        if output.is_none() {
            signals.wait(20);
        }
        for w in signals.take() {
            if let Wake::End(_) = w {
                let _ = watch(Happening::Tick(&[w]));
            }
        }
    }
    let survivors = end_strays(job, pid, &before, signals);
    // The pipe may still hold what they printed last.
    while output.is_some() {
        let mut got = false;
        read_for(&mut output, signals, Duration::ZERO, &mut buf, &mut |b| {
            got = true;
            let _ = watch(Happening::Output(b));
        });
        if !got {
            break;
        }
    }
    let status = status.unwrap_or_default();
    Ok(Ended { code: status.code(), signal: status.signal(), stopped: stop.filter(|_| !ended_itself), survivors })
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts the user's programs")]
fn start(job: &Job) -> std::io::Result<(Child, OwnedFd)> {
    let (read, write) = pipe()?;
    let (program, args) = job.argv.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(args).current_dir(&job.cwd).process_group(0);
    environment(&mut command, job);
    command.stdin(match &job.stdin {
        Some(path) => Stdio::from(std::fs::File::open(path)?),
        None => Stdio::null(),
    });
    command.stdout(Stdio::from(write.try_clone()?)).stderr(Stdio::from(write));
    process::unblock_signals(&mut command);
    Ok((command.spawn()?, read))
}

/// The environment of a program of the user's: ours without git's local variables and git's exec path, git told that
/// nobody is there to answer, the job's variables on top.
pub fn environment(command: &mut Command, job: &Job) {
    if let Some(allow) = &job.env_allow {
        let needed =
            ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ", "XDG_RUNTIME_DIR"];
        command.env_clear();
        for (k, v) in std::env::vars_os() {
            if k.to_str().is_some_and(|k| needed.contains(&k) || allow.iter().any(|a| matches(a, k))) {
                command.env(k, v);
            }
        }
    }
    scrub(command);
    for v in ["GIT_EXEC_PATH", "GIT_AGENTS_INNER", "GIT_AGENTS_COMMON_DIR"] {
        command.env_remove(v);
    }
    if let Some(path) = plain_path() {
        command.env("PATH", path);
    }
    for (k, v) in [
        ("GIT_EDITOR", "true"),
        ("GIT_SEQUENCE_EDITOR", "true"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_ASKPASS", "true"),
        ("SSH_ASKPASS_REQUIRE", "never"),
    ] {
        command.env(k, v);
    }
    command.env(TOKEN, &job.token);
    for (k, v) in &job.env {
        command.env(k, v);
    }
}

/// Whether `name` is what `pattern` says; `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Waits at most `limit` for output or a signal and hands on all output there is.
fn read_for(
    output: &mut Option<OwnedFd>,
    signals: &Signals,
    limit: Duration,
    buf: &mut [u8],
    sink: &mut dyn FnMut(&[u8]),
) {
    let ms = u16::try_from(limit.as_millis().min(1000)).unwrap_or(1000);
    let Some(fd) = output.as_ref() else {
        signals.wait(ms);
        return;
    };
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN), PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
    let _ = poll(&mut fds, ms);
    // Bounded: a program that floods must not keep us from the clock.
    for _ in 0..64 {
        match nix::unistd::read(fd, buf) {
            Ok(0) => {
                *output = None;
                return;
            }
            Ok(n) => sink(&buf[..n]),
            Err(nix::errno::Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// TERM to the whole group, the grace, KILL; the status of the leader.
fn end(
    job: &Job,
    leader: &Identity,
    child: &mut Child,
    signals: &Signals,
    output: &mut Option<OwnedFd>,
    buf: &mut [u8],
    sink: &mut dyn FnMut(&[u8]),
) -> std::io::Result<Option<std::process::ExitStatus>> {
    leader.signal_group(Signal::SIGTERM);
    let deadline = Instant::now() + job.grace;
    loop {
        // Keep draining: a program that blocks on a full pipe cannot end.
        read_for(output, signals, Duration::from_millis(50), buf, sink);
        signals.take();
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            break;
        }
    }
    // While it is our unreaped child its number cannot be reused.
    if !leader.signal_group(Signal::SIGKILL) {
        child.kill()?;
    }
    child.wait().map(Some)
}

/// Living processes of this run other than the leader: every descendant of ours where we are the sub-reaper (a caller
/// starts nothing else meanwhile) but those from `before` it and what they start, and elsewhere every process that
/// carries the token.
fn strays(job: &Job, leader: i32, before: &[Identity]) -> Vec<Identity> {
    let own = std::process::id().cast_signed();
    if !cfg!(target_os = "linux") {
        return process::marked(&format!("{TOKEN}={}", job.token)).into_iter().filter(|i| i.pid != leader).collect();
    }
    let mut out = Vec::new();
    let others: Vec<i32> = before.iter().filter(|i| i.is_alive()).flat_map(|i| process::descendants(i.pid)).collect();
    for pid in process::descendants(own).into_iter().filter(|p| *p != own && *p != leader && !others.contains(p)) {
        match process::stat(pid) {
            Some(s) if s.state == 'Z' && s.parent == own => process::reap(pid),
            Some(s) if s.state != 'Z' => out.extend(process::identify(pid)),
            _ => {}
        }
    }
    out
}

/// Ends what is left of a run, each process by itself; returns those that would not go.
fn end_strays(job: &Job, leader: i32, before: &[Identity], signals: &Signals) -> Vec<(i32, String)> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let left = strays(job, leader, before);
        if left.is_empty() {
            return Vec::new();
        }
        for id in &left {
            id.signal(signal);
        }
        let deadline = Instant::now()
            + if signal == Signal::SIGTERM { job.grace.min(Duration::from_secs(5)) } else { Duration::from_secs(2) };
        while !strays(job, leader, before).is_empty() && Instant::now() < deadline {
            signals.wait(20);
            signals.take();
        }
    }
    strays(job, leader, before).into_iter().map(|id| (id.pid, process::command_line(id.pid))).collect()
}

/// What a run whose supervisor is gone may have left: by token, and by the group of its assistant.
#[derive(Debug, Clone, Copy)]
pub struct LeftOver<'a> {
    /// The value of [`TOKEN`].
    pub token: &'a str,
    /// The boot it ran in.
    pub boot: &'a str,
    /// The leader of its group.
    pub leader: Option<&'a Identity>,
}

impl LeftOver<'_> {
    /// The living ones. Those with a terminal of their own are spared: a person sits there. After a restart of the
    /// machine there is none, whatever a record says.
    pub fn find(&self) -> Vec<Identity> {
        if self.boot.is_empty() || self.boot != process::boot_id() {
            return Vec::new();
        }
        let mut found = process::marked(&format!("{TOKEN}={}", self.token));
        // While its leader lives, the group's number is its own.
        if let Some(leader) = self.leader.filter(|l| l.is_alive()) {
            let own = std::process::id().cast_signed();
            let member = |pid: &i32| *pid != own && process::stat(*pid).is_some_and(|s| s.group == leader.pid);
            found.extend(process::all().into_iter().filter(member).filter_map(process::identify));
            found.sort_by_key(|i| i.pid);
            found.dedup();
        }
        found.retain(|i| process::stat(i.pid).is_some_and(|s| s.tty == 0));
        found
    }

    /// Ends them: TERM, `grace`, KILL. Returns those that would not go.
    pub fn end(&self, grace: Duration) -> Vec<Identity> {
        for (signal, limit) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, Duration::from_secs(2))] {
            let left = self.find();
            if left.is_empty() {
                return left;
            }
            for id in left {
                id.signal(signal);
            }
            let deadline = Instant::now() + limit;
            while !self.find().is_empty() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        self.find()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_an_allowed_name_stands_for_anything() {
        for (pattern, name, yes) in [
            ("LC_*", "LC_ALL", true),
            ("LC_*", "XLC_ALL", false),
            ("*_TOKEN", "A_TOKEN", true),
            ("*_TOKEN", "A_TOKENS", false),
            ("A*B*C", "AxBxBxC", true),
            ("A*B*C", "AxCxB", false),
            ("*", "", true),
            ("HOME", "HOME", true),
            ("HOME", "HOMES", false),
            ("A*A", "A", false),
        ] {
            assert_eq!(matches(pattern, name), yes, "{pattern} {name}");
        }
    }

    #[test]
    fn nothing_of_another_boot_is_found() {
        let me = process::me();
        let token = "no such token";
        let here = LeftOver { token, boot: &me.boot, leader: None };
        assert!(here.find().is_empty());
        // Our own group leads to ourselves, which a restart must not.
        let then = LeftOver { token, boot: "an earlier one", leader: Some(&me) };
        assert!(then.find().is_empty());
    }
}
