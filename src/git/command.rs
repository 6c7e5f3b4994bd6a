//! The git program: one way to start it, with an environment that nobody else decides.
//!
//! Every child loses git's local variables (a hook's `GIT_DIR` would point it at another repository) and gets: no
//! prompt, no editor, no pager, no advice, untranslated messages, no fetch of missing objects. Calls of ours run no
//! hook, no fsmonitor and sign nothing, unless [`Call::user_visible`] says that the user would expect it.

use super::{Error, Result};
use crate::runtime::files;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// What `git rev-parse --local-env-vars` prints (2.47), and what else would steer a child.
pub const LOCAL_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NAMESPACE",
    "GIT_QUARANTINE_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_DEFAULT_HASH",
    "GIT_DEFAULT_REF_FORMAT",
    "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_REDIRECT_STDOUT",
    "GIT_REDIRECT_STDERR",
    "GIT_TRACE2_PARENT_SID",
    "GIT_TRACE2_PARENT_NAME",
];

/// The shell of gemini hides what its user has set in git from every command: no identity, no `agents.*`, and nothing
/// could be started there. Where that is so, this process begins again without it. What that shell puts on top, no
/// hooks and no credentials, stays.
#[expect(clippy::disallowed_methods, reason = "ourselves once more, nobody's child")]
pub fn unhide_settings() {
    let hidden = |v: &&str| std::env::var_os(v).is_some_and(|to| to == "/dev/null");
    if std::env::var_os("GEMINI_CLI").is_none() || !["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].iter().any(hidden) {
        return;
    }
    let Ok(us) = std::env::current_exe() else { return };
    let mut again = Command::new(us);
    again.args(std::env::args_os().skip(1));
    for v in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"] {
        again.env_remove(v);
    }
    // It comes back only where it failed, and then all is as it was.
    let _ = again.exec();
}

/// Removes git's local variables from what `command` inherits.
pub fn scrub(command: &mut Command) {
    for v in LOCAL_VARIABLES {
        command.env_remove(v);
    }
    for (k, _) in std::env::vars_os() {
        let k = k.to_string_lossy().into_owned();
        if k.starts_with("GIT_CONFIG_KEY_") || k.starts_with("GIT_CONFIG_VALUE_") {
            command.env_remove(k);
        }
    }
}

/// `PATH` without git's own exec directory, which git puts in front when it starts an extension: a child's `git` must
/// be the one its user would get.
pub fn plain_path() -> Option<OsString> {
    let path = std::env::var_os("PATH")?;
    let Some(exec) = std::env::var_os("GIT_EXEC_PATH") else { return Some(path) };
    std::env::join_paths(std::env::split_paths(&path).filter(|p| p.as_os_str() != exec)).ok()
}

/// One call of the git program.
#[derive(Debug)]
pub struct Call {
    command: Command,
    shown: String,
    input: Option<Vec<u8>>,
    limit: Option<Duration>,
    settings: usize,
}

/// Events at which git would run something of the user's in a call of ours.
const EVENTS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-rewrite",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "prepare-commit-msg",
    "reference-transaction",
];

/// The first git that runs hooks from its configuration.
pub const CONFIGURED_HOOKS: (u32, u32) = (2, 54);

/// Options that keep a call of ours from running anything of the repository's.
const NEUTRAL: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "-c",
    "commit.gpgSign=false",
    "-c",
    "tag.gpgSign=false",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    "-c",
    "core.fsync=committed",
    "-c",
    "submodule.recurse=false",
    "-c",
    "transfer.bundleURI=false",
];

impl Call {
    /// `git ARGS`, neutral, in `dir`: for what is asked before a repository is known, or of none.
    pub fn new<I: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = I>) -> Call {
        Call::neutral(dir, &[], args)
    }

    /// `git ARGS`, neutral, in `dir`; `hooks` as for [`Call::without_hooks`].
    pub fn neutral<I: AsRef<OsStr>>(dir: &Path, hooks: &[&str], args: impl IntoIterator<Item = I>) -> Call {
        let mut call = Call::bare(dir).without_hooks(hooks);
        call.command.args(NEUTRAL);
        for a in args {
            call.arg(a);
        }
        call
    }

    /// `git ARGS` as the user would run it: their hooks run, their settings count. For what the user asked for by
    /// name and what must run hooks and filters.
    pub fn user_visible<I: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = I>) -> Call {
        let mut call = Call::bare(dir);
        // Hooks and filters of the user's run below it, and a supervisor has blocked what would end them.
        crate::runtime::process::unblock_signals(&mut call.command);
        for a in args {
            call.arg(a);
        }
        call
    }

    /// As from the caller's own shell: its language for what hooks print, its ways to ask for a password, objects that are
    /// fetched on demand, `-c` options. git itself still speaks English, and nobody is asked for a message.
    pub fn as_person(mut self) -> Call {
        for v in
            ["GIT_TERMINAL_PROMPT", "GIT_ASKPASS", "SSH_ASKPASS_REQUIRE", "GIT_OPTIONAL_LOCKS", "GIT_NO_LAZY_FETCH"]
        {
            match std::env::var_os(v) {
                Some(value) => self.command.env(v, value),
                None => self.command.env_remove(v),
            };
        }
        if let Some(all) = std::env::var_os("LC_ALL") {
            self.command.env("LANG", all);
        }
        self.command.env_remove("LC_ALL").env("LC_MESSAGES", "C");
        self.with_inherited_config()
    }

    /// `git var NAME` as the user's own settings and the command line have it. The repository's do not count: what is
    /// named there runs, and an assistant can write there.
    pub fn users_program(name: &str) -> Call {
        Call::user_visible(Path::new("/"), ["var", name]).with_inherited_config().env_remove(name)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that starts git")]
    fn bare(dir: &Path) -> Call {
        let mut command = Command::new("git");
        scrub(&mut command);
        command
            .current_dir(dir)
            .env("LC_ALL", "C")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_EDITOR", "true")
            .env("GIT_SEQUENCE_EDITOR", "true")
            .env("GIT_MERGE_AUTOEDIT", "no")
            .env("GIT_PAGER", "cat")
            .env("GIT_ADVICE", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_ASKPASS", "true")
            .env("SSH_ASKPASS_REQUIRE", "never")
            .env("GIT_AGENTS_INNER", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Call { command, shown: String::new(), input: None, limit: None, settings: 0 }
    }

    /// Keeps it from running hooks, those in files and those in git's configuration. The latter have a switch each since
    /// 2.54: `hooks` are their names. 2.55 has one for each event too, which counts for names that nobody told us: of
    /// a worktree's own configuration, or added a moment ago.
    pub fn without_hooks(self, hooks: &[&str]) -> Call {
        let call = self.set("core.hooksPath", "/dev/null");
        let off = |call: Call, name: &&str| call.set(format!("hook.{name}.enabled"), "false");
        EVENTS.iter().chain(hooks).fold(call, off)
    }

    /// One more setting, in its environment: after `-c` a name cannot hold every character.
    pub fn set(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Call {
        self.command.env(format!("GIT_CONFIG_KEY_{}", self.settings), key);
        self.command.env(format!("GIT_CONFIG_VALUE_{}", self.settings), value);
        self.settings += 1;
        self.command.env("GIT_CONFIG_COUNT", self.settings.to_string());
        self
    }

    /// One more argument.
    pub fn arg(&mut self, a: impl AsRef<OsStr>) -> &mut Call {
        if self.shown.len() < 200 {
            if !self.shown.is_empty() {
                self.shown.push(' ');
            }
            self.shown.push_str(&a.as_ref().to_string_lossy());
        }
        self.command.arg(a);
        self
    }

    /// One more variable.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Call {
        self.command.env(key, value);
        self
    }

    /// One variable less.
    pub fn env_remove(mut self, key: &str) -> Call {
        self.command.env_remove(key);
        self
    }

    /// What it reads on standard input.
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Call {
        self.input = Some(bytes.into());
        self
    }

    /// Ended, with an error, after `limit`.
    pub fn within(mut self, limit: Duration) -> Call {
        self.limit = Some(limit);
        self
    }

    /// Runs it in the environment of the caller: for discovery alone, where a hook's `GIT_DIR` is the question.
    pub fn with_inherited_location(mut self) -> Call {
        for v in ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR"] {
            if let Some(value) = std::env::var_os(v) {
                self.command.env(v, value);
            }
        }
        self.with_inherited_config()
    }

    /// `git -c key=value agents …`: those parameters count for settings.
    pub fn with_inherited_config(mut self) -> Call {
        if let Some(value) = std::env::var_os("GIT_CONFIG_PARAMETERS") {
            self.command.env("GIT_CONFIG_PARAMETERS", value);
        }
        let count = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|n| n.parse::<usize>().ok());
        let numbered = |what: &str, i: usize| std::env::var_os(format!("GIT_CONFIG_{what}_{i}"));
        let pairs = (0..count.unwrap_or(0)).map_while(|i| numbered("KEY", i).zip(numbered("VALUE", i)));
        pairs.fold(self, |call, (key, value)| call.set(key, value))
    }

    /// With `file` as its standard input, which it does not read: a lock that it holds for as long as it lives, however
    /// long we do.
    pub fn holding(mut self, file: &std::fs::File) -> Result<Call> {
        let file = file.try_clone().map_err(Error::NoGit)?;
        self.command.stdin(Stdio::from(file));
        Ok(self)
    }

    /// Runs to the end; whatever the exit code.
    pub fn output(mut self) -> Result<Output> {
        tracing::debug!(args = %self.shown, "git");
        if self.input.is_some() {
            self.command.stdin(Stdio::piped());
        }
        let mut child = self.command.spawn().map_err(not_started(&self.command))?;
        let writer = self.input.take().map(|bytes| {
            let mut stdin = child.stdin.take().expect("stdin is piped");
            // A thread: git may fill its output before it has read all input. A closed pipe shows in its status.
            std::thread::spawn(move || {
                let _ = stdin.write_all(&bytes);
            })
        });
        let output = match self.limit {
            None => child.wait_with_output().map_err(Error::NoGit)?,
            Some(limit) => wait_within(child, limit, &self.shown)?,
        };
        if let Some(w) = writer {
            let _ = w.join();
        }
        Ok(output)
    }

    /// Runs until git itself has ended. What hooks leave running holds nobody up: their words go into files, in `dir`, and
    /// not through pipes.
    pub fn output_alone(mut self, dir: &Path) -> Result<Output> {
        tracing::debug!(args = %self.shown, "git");
        let [stdout, stderr] = [files::unnamed(dir)?, files::unnamed(dir)?];
        let twin = |f: &std::fs::File| f.try_clone().map_err(files::because("open", dir));
        if let Some(bytes) = self.input.take() {
            self.command.stdin(files::unnamed_with(dir, &bytes)?);
        }
        self.command.stdout(twin(&stdout)?).stderr(twin(&stderr)?);
        let status = self.command.status().map_err(not_started(&self.command))?;
        Ok(Output { status, stdout: files::read_all(&stdout), stderr: files::read_all(&stderr) })
    }

    /// Standard output of a run that ended with 0; anything else is an error with git's words.
    pub fn run(self) -> Result<Vec<u8>> {
        let (shown, dir) = (self.shown.clone(), self.command.get_current_dir().map(Path::to_owned));
        let out = self.output()?;
        if out.status.success() {
            return Ok(out.stdout);
        }
        Err(failed(&shown, &out, dir.as_deref()))
    }

    /// The same as text without the last newline.
    pub fn text(self) -> Result<String> {
        let out = self.run()?;
        Ok(String::from_utf8_lossy(&out).trim_end_matches('\n').to_owned())
    }

    /// `true` for 0, `false` for 1, an error for anything else: git's own manner of yes and no.
    pub fn yes_no(self) -> Result<bool> {
        let (shown, dir) = (self.shown.clone(), self.command.get_current_dir().map(Path::to_owned));
        let out = self.output()?;
        match out.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed(&shown, &out, dir.as_deref())),
        }
    }

    /// Started, with pipes, for a conversation.
    pub fn spawn(mut self) -> Result<Child> {
        self.command.stdin(Stdio::piped());
        self.command.spawn().map_err(not_started(&self.command))
    }

    /// With the terminal of the caller, waited for; its exit code (128+n for a signal).
    pub fn in_terminal(mut self) -> Result<i32> {
        self.command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        for v in ["GIT_PAGER", "GIT_EDITOR", "LC_ALL", "GIT_ADVICE"] {
            match std::env::var_os(v) {
                Some(value) => self.command.env(v, value),
                None => self.command.env_remove(v),
            };
        }
        let status = self.command.status().map_err(not_started(&self.command))?;
        Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }
}

/// The system says "not found" for a missing program and for a missing directory alike.
fn not_started(command: &Command) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let gone = command.get_current_dir().filter(|d| !d.exists()).map(Path::to_owned);
    move |e| match gone {
        Some(path) if e.kind() == std::io::ErrorKind::NotFound => Error::Gone { path },
        _ => Error::NoGit(e),
    }
}

/// How an error begins that came of a full disk.
pub const FULL_WORDS: &str = "the disk is full";

/// Less than this is a full disk: git's own words do not always say why it could not write.
const FULL: u64 = 1 << 20;

/// The error for `out` of a git that ran in `dir`.
pub fn failed(shown: &str, out: &Output, dir: Option<&Path>) -> Error {
    let mut stderr = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    let code = out.status.code();
    let says = ["No space left on device", "Disk quota exceeded"].iter().any(|words| stderr.contains(words));
    let free = dir.and_then(crate::runtime::files::free_space);
    if says || free.is_some_and(|free| free < FULL) {
        stderr = format!("{FULL_WORDS}\n{stderr}");
    }
    match super::locks::named_in(&stderr).filter(|_| code.is_some()) {
        Some(locked) => locked,
        None => Error::Failed { args: shown.to_owned(), code, stderr },
    }
}

/// Reads what it prints until both pipes are closed and it has ended; kills it at the deadline.
fn wait_within(mut child: Child, limit: Duration, shown: &str) -> Result<Output> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::io::Read as _;
    use std::os::fd::{AsFd as _, OwnedFd};
    let deadline = Instant::now() + limit;
    let pipe = |fd: Option<OwnedFd>| (fd.map(std::fs::File::from), Vec::new());
    let mut pipes = [pipe(child.stdout.take().map(Into::into)), pipe(child.stderr.take().map(Into::into))];
    let mut buffer = vec![0; 1 << 16];
    let mut timed_out = false;
    while !timed_out && pipes.iter().any(|(p, _)| p.is_some()) {
        let left = deadline.saturating_duration_since(Instant::now());
        timed_out = left.is_zero();
        let open: Vec<usize> = (0..2).filter(|i| pipes[*i].0.is_some()).collect();
        let mut fds: Vec<PollFd<'_>> =
            pipes.iter().filter_map(|(p, _)| p.as_ref()).map(|p| PollFd::new(p.as_fd(), PollFlags::POLLIN)).collect();
        // Rounded up, so that the last wait does not turn into many of no length.
        let wait = u16::try_from(left.as_millis() + 1).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(wait)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(Error::NoGit(e.into())),
        }
        let ready: Vec<usize> =
            open.into_iter().zip(&fds).filter(|(_, f)| f.any().unwrap_or(false)).map(|(i, _)| i).collect();
        for i in ready {
            let (pipe, bytes) = &mut pipes[i];
            match pipe.as_mut().map(|p| p.read(&mut buffer)) {
                Some(Ok(n)) if n > 0 => bytes.extend_from_slice(&buffer[..n]),
                Some(Err(e)) if e.kind() == std::io::ErrorKind::Interrupted => {}
                _ => *pipe = None,
            }
        }
    }
    // It ends within moments of closing its output; one that does not is held to the deadline.
    while !timed_out {
        if let Some(status) = child.try_wait().map_err(Error::NoGit)? {
            let [(_, stdout), (_, stderr)] = pipes;
            return Ok(Output { status, stdout, stderr });
        }
        timed_out = Instant::now() >= deadline;
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(Error::TimedOut { args: shown.to_owned(), seconds: limit.as_secs() })
}

/// The oldest git this works with: `merge-tree --stdin` came with it.
pub const MINIMUM: (u32, u32) = (2, 39);

/// The version of the git program, checked against [`MINIMUM`].
pub fn version(dir: &Path) -> Result<String> {
    let text = Call::user_visible(dir, ["--version"]).text()?;
    let version = text.split(' ').nth(2).unwrap_or_default().to_owned();
    if number(&version) < MINIMUM {
        return Err(Error::TooOld { found: version });
    }
    Ok(version)
}

/// The first two numbers of a version.
pub fn number(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|p| p.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}
