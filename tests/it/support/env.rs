//! A machine of one test: a home, state, a `PATH`, and nothing of the person who runs the tests.

use super::out::Out;
use super::processes;
use super::repo::Repo;
use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The variable by which every process of a test is found again.
pub const MARKER: &str = "AGENTS_TEST_ENV";

/// Everything below one directory, which goes away with it, after every process that carries its marker.
#[derive(Debug)]
pub struct Env {
    /// `None` once deleted.
    dir: Option<TempDir>,
    root: PathBuf,
    home: PathBuf,
    /// Deleted too; only where it stands elsewhere.
    other_home: Option<TempDir>,
    path: OsString,
    marker: String,
    /// Numbers the files of background programs.
    pub(super) counter: Cell<u32>,
}

impl Env {
    pub fn new() -> Env {
        Env::build(None)
    }

    /// With HOME in a new directory below `parent`, for programs that refuse one in the directory for temporary files.
    pub fn with_home(parent: &Path) -> Env {
        let home = tempfile::Builder::new().prefix("home-").tempdir_in(parent).unwrap();
        Env::build(Some(home))
    }

    fn build(other_home: Option<TempDir>) -> Env {
        static DEFAULTS: std::sync::Once = std::sync::Once::new();
        DEFAULTS.call_once(default_signals);
        let dir = tempfile::Builder::new().prefix("agents-").tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let home = other_home.as_ref().map_or_else(|| root.join("home"), |h| h.path().canonicalize().unwrap());
        for d in [&home, &root.join("code"), &root.join("bin"), &root.join("tmp"), &root.join("state")] {
            std::fs::create_dir_all(d).unwrap();
        }
        std::fs::write(
            home.join(".gitconfig"),
            "[user]\n\tname = A Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n",
        )
        .unwrap();
        let binary = Path::new(env!("CARGO_BIN_EXE_git-agents")).parent().unwrap();
        let mut path = vec![root.join("bin"), binary.to_owned()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
        if let Some(git) = std::env::var_os("GIT_AGENTS_TEST_GIT") {
            let only = root.join("git");
            std::fs::create_dir(&only).unwrap();
            std::os::unix::fs::symlink(git, only.join("git")).unwrap();
            path.insert(0, only);
        }
        let random = root.file_name().unwrap().to_string_lossy().into_owned();
        let marker = format!("{random}-{}", std::process::id());
        let path = std::env::join_paths(path).unwrap();
        Env { dir: Some(dir), root, home, other_home, path, marker, counter: Cell::new(0) }
    }

    /// The directory of everything: repositories are in `code`, programs of the test may be put into `bin`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Where `PATH` leads, the git of this test first.
    pub fn path(&self) -> &OsStr {
        &self.path
    }

    /// The git of this test.
    pub fn git_program(&self) -> PathBuf {
        std::env::split_paths(&self.path).map(|d| d.join("git")).find(|p| p.is_file()).expect("git is on PATH")
    }

    /// `AGENTS_TEST_ENV=…`, which every process of this test carries unless it cleared its environment.
    pub fn marker(&self) -> String {
        format!("{MARKER}={}", self.marker)
    }

    /// What still runs, with its command lines.
    pub fn processes(&self) -> Vec<(i32, String)> {
        processes::marked(&self.marker())
    }

    /// A new repository with a few commits.
    pub fn repo(&self, name: &str) -> Repo<'_> {
        Repo::new(self, name)
    }

    /// `program` in `dir` with the environment of this machine and nothing else.
    pub fn command(&self, program: impl AsRef<OsStr>, dir: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(dir)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .env("XDG_STATE_HOME", self.root.join("state"))
            .env("TMPDIR", self.root.join("tmp"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C")
            .env("TERM", "dumb")
            .env("SHELL", "/bin/sh")
            .env(MARKER, &self.marker);
        for name in ["USER", "LOGNAME", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
    }

    /// `git agents ARGS` in `dir`, not started yet.
    pub fn agents_command<A: AsRef<OsStr>>(&self, dir: &Path, args: &[A]) -> Command {
        let mut command = self.command("git", dir);
        command.arg("agents").args(args);
        command
    }

    /// Puts an executable script into `bin`, which is on `PATH`; its path.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.join("bin").join(name);
        self.script_at(&path, text);
        path
    }

    /// An executable script anywhere.
    pub fn script_at(&self, path: &Path, text: &str) {
        // Written by a child: a descriptor of ours, open for writing, could be inherited by what another test starts at
        // this moment, and the script would be "text file busy".
        let mut sh = self.command("sh", &self.root);
        sh.args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(path);
        run(sh, text.as_bytes()).ok();
    }
}

/// Runs `command` to its end with `input`.
pub fn run(mut command: Command, input: &[u8]) -> Out {
    let shown = shown(&command);
    // A file and no pipe: a program that does not read it blocks nobody.
    let mut stdin = tempfile::tempfile().unwrap();
    stdin.write_all(input).unwrap();
    stdin.seek(SeekFrom::Start(0)).unwrap();
    let output = command.stdin(stdin).output().unwrap_or_else(|e| panic!("could not run {shown}: {e}"));
    Out::new(&shown, output)
}

/// The words of `command`.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|w| w.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

impl Drop for Env {
    fn drop(&mut self) {
        let left = processes::end_marked(&self.marker());
        if std::env::var_os("GIT_AGENTS_TEST_KEEP").is_some() {
            let homes = self.other_home.take().map(TempDir::keep);
            eprintln!("kept: {:?} {homes:?}", self.dir.take().map(TempDir::keep));
            return;
        }
        for dir in [self.dir.take(), self.other_home.take()].into_iter().flatten() {
            // Only root may delete from a directory without the write bit.
            let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(dir.path()).stderr(Stdio::null()).status();
            let _ = dir.close();
        }
        // Not while failing already: a second panic would hide the first.
        assert!(left.is_empty() || std::thread::panicking(), "these could not be ended: {left:?}");
    }
}

/// A program that goes on while the test does. Its streams go to files, so that nobody has to read them.
#[derive(Debug)]
pub struct Background {
    pub child: Child,
    shown: String,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Background {
    pub fn start(env: &Env, mut command: Command) -> Background {
        let n = env.counter.replace(env.counter.get() + 1);
        let file = |kind: &str| env.root().join(format!("background-{n}.{kind}"));
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        let create = |p: &Path| std::fs::File::create(p).unwrap();
        let shown = shown(&command);
        command.stdin(Stdio::null()).stdout(create(&stdout)).stderr(create(&stderr));
        let child = command.spawn().unwrap_or_else(|e| panic!("could not run {shown}: {e}"));
        Background { child, shown, stdout, stderr }
    }

    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.stdout).unwrap()).into_owned()
    }

    /// What it has said so far.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.stderr).unwrap()).into_owned()
    }

    /// Waits for its end, as long as [`Env::until`] does.
    #[track_caller]
    pub fn finish(mut self, env: &Env) -> Out {
        let what = format!("the end of '{}'", self.shown);
        let status = env.until(&what, || self.child.try_wait().unwrap());
        let read = |p: &Path| std::fs::read(p).unwrap();
        let output = std::process::Output { status, stdout: read(&self.stdout), stderr: read(&self.stderr) };
        Out::new(&self.shown, output)
    }
}

/// What a shell ignores for what it puts in the background, the programs under test would have to ignore too.
#[expect(unsafe_code, reason = "nix cannot know that no handler is replaced")]
fn default_signals() {
    use nix::sys::signal::{SigHandler, Signal, signal};
    for s in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT] {
        // SAFETY: the default action is no handler, and nobody here has one.
        unsafe { signal(s, SigHandler::SigDfl) }.unwrap();
    }
}

#[test]
fn what_a_test_leaves_running_ends_with_it_and_nothing_else_does() {
    let (one, other) = (Env::new(), Env::with_home(Path::new(env!("CARGO_TARGET_TMPDIR"))));
    let (root, home) = (one.root().to_owned(), other.home().to_owned());
    // A session of its own, whose parent is gone at once.
    let leave = |env: &Env| {
        let mut command = env.command("sh", env.home());
        command.args(["-c", "setsid sleep 1000 </dev/null >/dev/null 2>&1 &"]);
        run(command, b"").ok();
        env.until("it has started", || env.processes().iter().any(|(_, line)| line == "sleep 1000"));
    };
    leave(&one);
    leave(&other);
    let marker = one.marker();
    drop(one);
    assert!(processes::marked(&marker).is_empty() && !root.exists());
    assert_eq!(other.processes().len(), 1);
    drop(other);
    assert!(!home.exists());
}
