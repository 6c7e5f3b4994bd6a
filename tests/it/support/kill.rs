//! A program killed at every point where it changes something, by `strace`.
//!
//! `strace` kills right *before* the n-th call of [`CHANGES`], so the states between two calls are all seen when n runs
//! from 1 until nothing is hit. It counts per process (and per thread): [`Target::kill_at`] follows only the main thread
//! of the program itself, its children run on untouched, and [`Target::kill_child_at`] puts one of its calls of git under
//! the knife, with all that this git starts.

use super::env::{Background, Env, run};
use super::out::{Out, code};
use super::repo::Repo;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Calls that change a file system, start a process or signal one. `?`: not every machine has it.
pub const CHANGES: &str = "?rename,?renameat,renameat2,?link,linkat,?unlink,unlinkat,?mkdir,mkdirat,?rmdir,?symlink,\
symlinkat,write,writev,pwrite64,truncate,ftruncate,fsync,fdatasync,?chmod,fchmod,fchmodat,utimensat,copy_file_range,\
sendfile,?fork,?vfork,clone,?clone3,kill,?pidfd_send_signal";

/// What came of one run under the knife.
#[derive(Debug)]
pub struct Fault {
    /// Whether anything was killed. When not, the program ran to its end.
    pub hit: bool,
    pub out: Out,
}

/// A program to be killed: our binary itself, for `strace` follows no child.
#[derive(Debug)]
pub struct Target<'e> {
    env: &'e Env,
    dir: PathBuf,
    program: PathBuf,
    args: Vec<OsString>,
}

impl<'e> Target<'e> {
    /// `git-agents ARGS` in `repo`.
    pub fn agents<A: AsRef<OsStr>>(repo: &Repo<'e>, args: &[A]) -> Target<'e> {
        Target::program(repo.env, repo.path(), Path::new(env!("CARGO_BIN_EXE_git-agents")), args)
    }

    pub fn program<A: AsRef<OsStr>>(env: &'e Env, dir: &Path, program: &Path, args: &[A]) -> Target<'e> {
        let args = args.iter().map(|a| a.as_ref().to_owned()).collect();
        Target { env, dir: dir.to_owned(), program: program.to_owned(), args }
    }

    /// Runs it unharmed.
    pub fn run(&self) -> Out {
        let mut command = self.env.command(&self.program, &self.dir);
        command.args(&self.args);
        run(command, b"")
    }

    /// Runs it to its end: how many calls of [`CHANGES`] it made itself, in its main thread.
    #[track_caller]
    pub fn mutating_calls(&self) -> usize {
        let log = self.file("count");
        let out = run(self.traced(&log, None), b"");
        assert!(out.status != 127 && log.exists(), "strace did not run\n{out}");
        let text = std::fs::read(&log).unwrap();
        String::from_utf8_lossy(&text).lines().filter(|l| !l.starts_with("---") && !l.starts_with("+++")).count()
    }

    /// Runs it and kills it right before its `n`-th call, counted from 1.
    #[track_caller]
    pub fn kill_at(&self, n: usize) -> Fault {
        let log = self.file("kill");
        let out = run(self.traced(&log, Some(n)), b"");
        Fault { hit: killed(&log), out }
    }

    /// Runs it to its end: how often it called git.
    #[track_caller]
    pub fn git_children(&self) -> usize {
        let wrapped = self.wrapped(0, 0);
        run(wrapped.command, b"");
        std::fs::read_dir(wrapped.calls).unwrap().count()
    }

    /// Runs it and kills its `j`-th git, or what that git starts, whichever makes its `n`-th call (both from 1).
    #[track_caller]
    pub fn kill_child_at(&self, j: usize, n: usize) -> Fault {
        let wrapped = self.wrapped(j, n);
        let out = run(wrapped.command, b"");
        Fault { hit: killed(&wrapped.log), out }
    }

    /// Runs it in a process group of its own and kills the group after `share` of `full`, the time it takes unharmed.
    /// What left the group lives on, as it would in a closed terminal.
    #[track_caller]
    pub fn random_kill(&self, full: Duration, share: f64) -> Fault {
        let mut command = self.env.command(&self.program, &self.dir);
        command.args(&self.args).process_group(0);
        let deadline = Instant::now() + full.mul_f64(share);
        let mut background = Background::start(self.env, command);
        // Finer than `Env::until`: a whole command may take 10 ms.
        while background.child.try_wait().unwrap().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(200));
        }
        // The leader is not reaped yet, so its number is still its own.
        let hit = background.child.try_wait().unwrap().is_none();
        if hit {
            let _ = killpg(Pid::from_raw(background.pid()), Signal::SIGKILL);
        }
        Fault { hit, out: background.finish(self.env) }
    }

    /// How long it takes unharmed, and what it said.
    pub fn timed(&self) -> (Duration, Out) {
        let start = Instant::now();
        let out = self.run();
        (start.elapsed(), out)
    }

    fn traced(&self, log: &Path, kill_at: Option<usize>) -> Command {
        let mut command = self.env.command("strace", &self.dir);
        command.arg("-q").arg("-o").arg(log).args(filter(kill_at));
        command.arg("--").arg(&self.program).args(&self.args);
        command
    }

    /// The program with a `git` on its `PATH` that counts its calls and kills in the `j`-th.
    fn wrapped(&self, j: usize, n: usize) -> Wrapped {
        let dir = self.file("git");
        let (calls, log) = (dir.join("calls"), dir.join("log"));
        std::fs::create_dir_all(&calls).unwrap();
        let script = format!(
            "#!/bin/sh\n\
             set -C; n=1\n\
             while ! {{ true >{calls}/$n; }} 2>/dev/null; do n=$((n+1)); done\n\
             [ $n = {j} ] || exec {git} \"$@\"\n\
             exec strace -f -q -o {log} {filter} -- {git} \"$@\"\n",
            calls = quoted(&calls),
            log = quoted(&log),
            git = quoted(&self.env.git_program()),
            filter = filter(Some(n.max(1))).join(" "),
        );
        self.env.script_at(&dir.join("git"), &script);
        let mut path = vec![dir];
        path.extend(std::env::split_paths(self.env.path()));
        let mut command = self.env.command(&self.program, &self.dir);
        command.args(&self.args).env("PATH", std::env::join_paths(path).unwrap());
        Wrapped { command, calls, log }
    }

    fn file(&self, kind: &str) -> PathBuf {
        let n = self.env.counter.replace(self.env.counter.get() + 1);
        self.env.root().join(format!("{kind}-{n}"))
    }
}

struct Wrapped {
    command: Command,
    calls: PathBuf,
    log: PathBuf,
}

fn filter(kill_at: Option<usize>) -> Vec<String> {
    let mut out = vec!["-e".into(), format!("trace={CHANGES}")];
    if let Some(n) = kill_at {
        out.extend(["-e".into(), format!("inject={CHANGES}:signal=SIGKILL:when={n}")]);
    }
    out
}

fn killed(log: &Path) -> bool {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("+++ killed by SIGKILL")
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_str().unwrap().replace('\'', "'\\''"))
}

/// Shares for [`Target::random_kill`], from 0 to a little more than the whole; the same seed gives the same ones.
pub fn shares(seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        // splitmix64
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        f64::from(u32::try_from(z >> 32).unwrap()) / f64::from(u32::MAX) * 1.1
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::invariants::usable;

    #[test]
    fn a_program_is_killed_before_each_of_its_changes_and_not_after_the_last() {
        let env = Env::new();
        let dir = env.root().join("tmp");
        let target = Target::program(&env, &dir, Path::new("/bin/mkdir"), &["a", "b", "c"]);
        let made = || ["a", "b", "c"].iter().filter(|d| std::fs::remove_dir(dir.join(d)).is_ok()).count();
        let calls = target.mutating_calls();
        assert_eq!((calls, made()), (3, 3));
        for n in 1..=calls {
            let fault = target.kill_at(n);
            assert!(fault.hit && fault.out.status == 137, "{}", fault.out);
            assert_eq!(made(), n - 1);
        }
        let fault = target.kill_at(calls + 1);
        assert!(!fault.hit);
        fault.out.ok();
        assert_eq!(made(), 3);
    }

    #[test]
    fn one_git_of_several_is_killed() {
        let env = Env::new();
        let repo = env.repo("x");
        let script = env.script("twice", "#!/bin/sh\ngit update-ref refs/x/1 HEAD\ngit update-ref refs/x/2 HEAD\n");
        let target = Target::program(&env, repo.path(), &script, &[""; 0]);
        assert_eq!(target.git_children(), 2);
        let (mut n, mut torn) = (0, 0);
        loop {
            n += 1;
            for name in ["refs/x/1", "refs/x/2"] {
                repo.git(&["update-ref", "-d", name]);
            }
            let fault = target.kill_child_at(2, n);
            assert!(repo.has("refs/x/1"), "the first git was not to be touched\n{}", fault.out);
            usable(&repo);
            if !fault.hit {
                break;
            }
            assert_eq!(fault.out.status, 137, "{}", fault.out);
            torn += usize::from(std::fs::remove_file(repo.join(".git/refs/x/2.lock")).is_ok());
        }
        assert!(torn > 0 && repo.has("refs/x/2"), "{torn} of {n} points left a lock");
    }

    #[test]
    fn a_group_is_killed_in_the_middle() {
        let env = Env::new();
        let script = env.script("slow", "#!/bin/sh\ntouch begun\nsleep 1000 & wait\ntouch ended\n");
        let dir = env.root().join("tmp");
        let target = Target::program(&env, &dir, &script, &[""; 0]);
        let fault = target.random_kill(Duration::from_millis(400), 0.5);
        assert!(fault.hit);
        assert_eq!(fault.out.status, code(std::os::unix::process::ExitStatusExt::from_raw(9)), "{}", fault.out);
        env.until("the whole group is gone", || env.processes().is_empty());
        assert!(!dir.join("ended").exists());
        let some: Vec<f64> = shares(7).take(100).collect();
        assert!(some.iter().all(|s| (0.0..=1.1).contains(s)) && some.iter().any(|s| *s > 0.9) && some[0] < 1.1);
        assert_eq!(some, shares(7).take(100).collect::<Vec<_>>());
    }
}
