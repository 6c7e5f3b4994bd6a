//! Signals as bytes on a pipe, so that one `poll` waits for output, children and signals alike.
//!
//! The signals are blocked in every thread and taken by one thread that waits for them; nothing runs in a handler.
//! Children inherit that: who starts a program of the user's calls `process::unblock_signals`.
//!
//! What a person did not want to end us stays ignored: HUP under nohup, INT and QUIT in the background of a script. Where
//! such a signal were blocked, Linux would hand it over all the same.

use super::process;
use nix::sys::signal::{SigSet, Signal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// A child changed state.
    Child,
    /// Asked to end: by TERM, INT or HUP.
    End(Signal),
    /// Somebody left a message (USR1).
    Message,
}

/// The reading end.
#[derive(Debug)]
pub struct Signals {
    pipe: OwnedFd,
}

const CAUGHT: [Signal; 6] =
    [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGQUIT];
/// Of these, what may have been ignored on purpose.
const LEFT: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];

/// A pipe whose end for reading does not block; no program that is started inherits either.
pub fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = std::io::pipe()?;
    nix::fcntl::fcntl(&read, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok((read.into(), write.into()))
}

impl Signals {
    /// Starts catching. Once a process, before other threads start.
    pub fn catch() -> std::io::Result<Signals> {
        let caught = |s: &Signal| !(LEFT.contains(s) && process::is_ignored(*s));
        let set: SigSet = CAUGHT.into_iter().filter(caught).collect();
        set.thread_block()?;
        crate::runtime::process::keep_child_signals();
        let (read, write) = pipe()?;
        std::thread::Builder::new().stack_size(64 << 10).name("signals".into()).spawn(move || {
            while let Ok(signal) = set.wait() {
                // The pipe can only be closed when the process ends.
                if nix::unistd::write(&write, &[signal as u8]).is_err() {
                    return;
                }
            }
        })?;
        Ok(Signals { pipe: read })
    }

    /// Catches nothing: for a foreground process that leaves signals to the terminal, and as a stand-in.
    pub fn none() -> Signals {
        let (read, _) = pipe().expect("a pipe can be made at the start of a command");
        Signals { pipe: read }
    }

    /// Everything that has arrived since the last call.
    pub fn take(&self) -> Vec<Wake> {
        let mut out = Vec::new();
        let mut buf = [0u8; 64];
        while let Ok(n) = nix::unistd::read(&self.pipe, &mut buf) {
            if n == 0 {
                break;
            }
            for b in &buf[..n] {
                out.push(match Signal::try_from(i32::from(*b)) {
                    Ok(Signal::SIGCHLD) => Wake::Child,
                    Ok(Signal::SIGUSR1) => Wake::Message,
                    Ok(s) => Wake::End(s),
                    Err(_) => continue,
                });
            }
        }
        out
    }

    /// Waits at most `ms` milliseconds for one to arrive.
    pub fn wait(&self, ms: u16) {
        let mut fds = [nix::poll::PollFd::new(self.pipe.as_fd(), nix::poll::PollFlags::POLLIN)];
        let _ = nix::poll::poll(&mut fds, ms);
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
