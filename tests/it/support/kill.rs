//! A program killed at every point where it changes something, by `strace`.
//!
//! `strace` kills right *before* a call, so the states between two changes are all seen when every [`Point`] that
//! [`Target::points`] lists is hit once. It counts for each kind of call by itself, and per process (and thread):
//! [`Target::kill_before`] follows only the main thread of the program itself, its children run on untouched, and
//! [`Target::kill_child_before`] puts one of its calls of git under the knife, with all that this git starts.

use super::env::{Background, Env, run};
use super::out::{Out, code};
use super::repo::Repo;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
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
    /// The call that was refused, as strace shows it.
    pub refused: String,
}

/// One change of a program: the `nth` call, from 1, of one kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub call: String,
    pub nth: usize,
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.call, self.nth)
    }
}

/// A program to be killed: our binary itself, for `strace` follows no child.
#[derive(Debug)]
pub struct Target<'e> {
    env: &'e Env,
    dir: PathBuf,
    program: PathBuf,
    args: Vec<OsString>,
    more: Vec<(&'static str, &'static str)>,
}

impl<'e> Target<'e> {
    /// `git-agents ARGS` in `repo`.
    pub fn agents<A: AsRef<OsStr>>(repo: &Repo<'e>, args: &[A]) -> Target<'e> {
        Target::program(repo.env, repo.path(), Path::new(env!("CARGO_BIN_EXE_git-agents")), args)
    }

    pub fn program<A: AsRef<OsStr>>(env: &'e Env, dir: &Path, program: &Path, args: &[A]) -> Target<'e> {
        let args = args.iter().map(|a| a.as_ref().to_owned()).collect();
        Target { env, dir: dir.to_owned(), program: program.to_owned(), args, more: Vec::new() }
    }

    /// With one more variable.
    pub fn with(mut self, key: &'static str, value: &'static str) -> Target<'e> {
        self.more.push((key, value));
        self
    }

    /// Runs it unharmed.
    pub fn run(&self) -> Out {
        let mut command = self.env.command(&self.program, &self.dir);
        command.args(&self.args);
        run(command, b"")
    }

    /// Runs it to its end: every change it made itself, in its main thread, in order.
    #[track_caller]
    pub fn points(&self) -> Vec<Point> {
        let log = self.file("count");
        let out = run(self.traced(&log, None), b"");
        assert!(out.status != 127 && log.exists(), "strace did not run\n{out}");
        points(&log).into_values().flatten().collect()
    }

    /// Runs it and kills it right before `point`.
    #[track_caller]
    pub fn kill_before(&self, point: &Point) -> Fault {
        let log = self.file("kill");
        let out = run(self.traced(&log, Some((point, KILL))), b"");
        Fault { hit: killed(&log), out, refused: String::new() }
    }

    /// Runs it with `point` refused by the system: `errno` is what it is told, as `EIO`.
    #[track_caller]
    pub fn fail_at(&self, point: &Point, errno: &str) -> Fault {
        let log = self.file("fail");
        let out = run(self.traced(&log, Some((point, &format!("error={errno}")))), b"");
        let refused = injected(&log);
        Fault { hit: !refused.is_empty(), out, refused }
    }

    /// The same for its `j`-th git (from 1), and what that starts.
    #[track_caller]
    pub fn fail_child_at(&self, j: usize, point: &Point, errno: &str) -> Fault {
        let wrapped = self.wrapped(Some((j, point, &format!("error={errno}"))));
        let out = run(wrapped.command, b"");
        let refused = injected(&wrapped.log);
        Fault { hit: !refused.is_empty(), out, refused }
    }

    /// Runs it and all that it starts, each of them refused its calls `calls` with `errno`: every one, or the `nth`.
    #[track_caller]
    pub fn refuse(&self, calls: &str, errno: &str, nth: Option<usize>) -> Fault {
        let log = self.file("refuse");
        let when = nth.map(|n| format!(":when={n}")).unwrap_or_default();
        let mut command = self.env.command("strace", &self.dir);
        command.arg("-f").arg("-q").arg("-y").arg("-o").arg(&log);
        command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:error={errno}{when}")]);
        command.arg("--").arg(&self.program).args(&self.args);
        let out = run(command, b"");
        let refused = injected(&log);
        Fault { hit: !refused.is_empty(), out, refused }
    }

    /// Runs it to its end: for each call of git, in order, the changes of that git and of what it started. A change of
    /// two of those processes is listed once.
    #[track_caller]
    pub fn git_children(&self) -> Vec<Vec<Point>> {
        let wrapped = self.wrapped(None);
        run(wrapped.command, b"");
        let mut calls: Vec<usize> = std::fs::read_dir(wrapped.calls)
            .unwrap()
            .map(|e| e.unwrap().file_name().to_str().unwrap().parse().unwrap())
            .collect();
        calls.sort_unstable();
        let logs = calls.iter().map(|n| PathBuf::from(format!("{}.{n}", wrapped.log.display())));
        let all = logs.map(|log| points(&log).into_values().flatten().collect::<BTreeSet<Point>>());
        all.map(|set| set.into_iter().collect()).collect()
    }

    /// Runs it and kills its `j`-th git (from 1), or what that git starts, right before whichever comes to `point`.
    #[track_caller]
    pub fn kill_child_before(&self, j: usize, point: &Point) -> Fault {
        let wrapped = self.wrapped(Some((j, point, KILL)));
        let out = run(wrapped.command, b"");
        Fault { hit: killed(&wrapped.log), out, refused: String::new() }
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
        Fault { hit, out: background.finish(self.env), refused: String::new() }
    }

    /// How long it takes unharmed, and what it said.
    pub fn timed(&self) -> (Duration, Out) {
        let start = Instant::now();
        let out = self.run();
        (start.elapsed(), out)
    }

    fn traced(&self, log: &Path, fault: Option<(&Point, &str)>) -> Command {
        let mut command = self.env.command("strace", &self.dir);
        command.envs(self.more.iter().copied());
        command.arg("-q").arg("-y").arg("-o").arg(log).args(filter(fault));
        command.arg("--").arg(&self.program).args(&self.args);
        command
    }

    /// The program with a `git` on its `PATH` that counts its calls and has a fault in one of them; in none: each is traced.
    fn wrapped(&self, fault: Option<(usize, &Point, &str)>) -> Wrapped {
        let dir = self.file("git");
        let (calls, log) = (dir.join("calls"), dir.join("log"));
        std::fs::create_dir_all(&calls).unwrap();
        let script = format!(
            "#!/bin/sh\n\
             set -C; n=1\n\
             while ! {{ true >{calls}/$n; }} 2>/dev/null; do n=$((n+1)); done\n\
             {choose}\n\
             exec strace -f -q -o {log}{each} {filter} -- {git} \"$@\"\n",
            calls = quoted(&calls),
            choose = fault
                .map(|(j, _, _)| format!("[ $n = {j} ] || exec {} \"$@\"", quoted(&self.env.git_program())))
                .unwrap_or_default(),
            log = quoted(&log),
            each = if fault.is_none() { ".$n" } else { "" },
            git = quoted(&self.env.git_program()),
            filter = filter(fault.map(|(_, p, what)| (p, what))).join(" "),
        );
        self.env.script_at(&dir.join("git"), &script);
        let mut path = vec![dir];
        path.extend(std::env::split_paths(self.env.path()));
        let mut command = self.env.command(&self.program, &self.dir);
        command.args(&self.args).envs(self.more.iter().copied());
        command.env("PATH", std::env::join_paths(path).unwrap());
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

const KILL: &str = "signal=SIGKILL";

fn filter(fault: Option<(&Point, &str)>) -> Vec<String> {
    let mut out = vec!["-e".into(), format!("trace={CHANGES}")];
    if let Some((Point { call, nth }, what)) = fault {
        out.extend(["-e".into(), format!("inject={call}:{what}:when={nth}")]);
    }
    out
}

/// The calls in a log of strace's by process (one, 0, where it names none).
fn points(log: &Path) -> BTreeMap<u32, Vec<Point>> {
    let text = std::fs::read(log).unwrap_or_default();
    let mut out: BTreeMap<u32, Vec<Point>> = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        // With -f a line begins with the process; a call that another one interrupted is resumed in a second line.
        let digits = line.bytes().take_while(u8::is_ascii_digit).count();
        let (pid, rest) = (line[..digits].parse().unwrap_or(0), line[digits..].trim_start());
        let Some((call, _)) = rest.split_once('(') else { continue };
        if call.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_') {
            let of = out.entry(pid).or_default();
            let nth = 1 + of.iter().filter(|p| p.call == call).count();
            of.push(Point { call: call.to_owned(), nth });
        }
    }
    out
}

fn killed(log: &Path) -> bool {
    let text = std::fs::read(log).unwrap_or_default();
    String::from_utf8_lossy(&text).contains("+++ killed by SIGKILL")
}

/// The line of the call that was refused; empty where none was.
fn injected(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().find(|l| l.contains("(INJECTED)")).unwrap_or_default().to_owned()
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
    fn a_program_is_killed_before_each_of_its_changes() {
        let env = Env::new();
        let dir = env.root().join("tmp");
        let target = Target::program(&env, &dir, Path::new("/bin/sh"), &["-c", "mkdir a; echo x; : >b; mkdir c"]);
        // A shell that starts programs: `clone` and `write` of its own, in this order.
        let calls = target.points();
        assert!(calls.len() >= 3 && calls.iter().any(|p| p.call == "write"), "{calls:?}");
        let made =
            || ["a", "b", "c"].map(|n| std::fs::remove_dir(dir.join(n)).or(std::fs::remove_file(dir.join(n))).is_ok());
        assert_eq!(made(), [true; 3]);
        let mut seen = Vec::new();
        for point in &calls {
            let fault = target.kill_before(point);
            assert!(fault.hit && fault.out.status == 137, "{point}: {}", fault.out);
            env.until("its children are gone", || env.processes().is_empty());
            seen.push(made());
        }
        assert!(seen.is_sorted() && seen[0] == [false; 3] && seen[seen.len() - 1] == [true, true, false], "{seen:?}");
        let fault = target.kill_before(&Point { call: "write".into(), nth: 99 });
        assert!(!fault.hit);
        fault.out.ok();
        assert_eq!(made(), [true; 3]);
    }

    #[test]
    fn one_git_of_several_is_killed() {
        let env = Env::new();
        let repo = env.repo("x");
        let script = env.script("twice", "#!/bin/sh\ngit update-ref refs/x/1 HEAD\ngit update-ref refs/x/2 HEAD\n");
        let target = Target::program(&env, repo.path(), &script, &[""; 0]);
        let reset = || ["refs/x/1", "refs/x/2"].map(|name| drop(repo.git(&["update-ref", "-d", name])));
        let children = target.git_children();
        assert_eq!(children.len(), 2);
        let mut torn = 0;
        for point in &children[1] {
            reset();
            let fault = target.kill_child_before(2, point);
            assert!(fault.hit && fault.out.status == 137, "{point}: {}", fault.out);
            assert!(repo.has("refs/x/1"), "the first git was not to be touched\n{}", fault.out);
            usable(&repo);
            torn += usize::from(std::fs::remove_file(repo.join(".git/refs/x/2.lock")).is_ok());
        }
        assert!(torn > 0, "no point of {:?} left a lock", children[1]);
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
