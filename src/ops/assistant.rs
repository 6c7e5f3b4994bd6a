//! Whether an assistant can work at all: asked before anything starts, and by `doctor`.
//!
//! Its program must be there, know the flags that it will be given, and be logged in. Flags are read from its own help,
//! and that is kept as long as the program is the same file. What cannot be told is no obstacle: a start that fails
//! says why, and three of them hold the assistant.

use super::{Context, Error, Result};
use crate::place::adapter::{Adapter, Login, Program, SessionBy};
use crate::place::job::{Job, environment};
use crate::runtime::user::UserState;
use crate::runtime::{clock, files, process};
use nix::sys::signal::Signal;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// One that does not answer `--help` in that time is not asked again in vain: nothing is known then.
const PATIENCE: Duration = Duration::from_secs(20);

/// Refuses an assistant that cannot work. `env_allow` as for its run.
pub fn check(adapter: &Adapter, ctx: &Context, env_allow: Option<&Vec<String>>) -> Result<()> {
    let Program::Argv(argv) = &adapter.program else { return Ok(()) };
    let Some(program) = argv.first().filter(|p| !p.contains("{{")) else { return Ok(()) };
    let Some(path) = find(program, ctx) else {
        let install = &adapter.needs.install;
        let hint = if install.is_empty() { "install it, or correct its command".to_owned() } else { install.clone() };
        return Err(Error::refused(
            format!("the program '{program}' of assistant '{}' is not there", adapter.name),
            format!("{hint}; nothing was started"),
        ));
    };
    let cwd = ctx.repo().common_dir.clone();
    let checkout =
        ctx.repo().toplevel.clone().or_else(|| ctx.repo().main_worktree.clone()).unwrap_or_else(|| cwd.clone());
    let asker = Asker { program: path, env_allow: env_allow.cloned(), cwd, checkout };
    flags(adapter, program, &asker)?;
    match &adapter.needs.login {
        Some(login) if !is_logged_in(login, &asker) => Err(Error::refused(
            format!("'{}' is not logged in", adapter.name),
            format!("{}; nothing was started", login.hint),
        )),
        _ => Ok(()),
    }
}

/// The program's file. Relative to the worktree, which has what the commit has, it is asked of the checkout at hand.
fn find(program: &str, ctx: &Context) -> Option<PathBuf> {
    if program.contains('/') {
        let top = ctx.repo().toplevel.clone().or_else(|| ctx.repo().main_worktree.clone());
        let path = Path::new(program);
        let place = if path.is_relative() { top.map(|t| t.join(path)) } else { None };
        let place = place.filter(|p| p.exists()).or_else(|| path.exists().then(|| path.to_owned()));
        // A relative one of a repository without a checkout cannot be told.
        return place.or_else(|| {
            let bare = ctx.repo().toplevel.is_none() && ctx.repo().main_worktree.is_none();
            (path.is_relative() && bare).then(|| path.to_owned())
        });
    }
    let path = crate::git::command::plain_path().unwrap_or_default();
    std::env::split_paths(&path)
        .map(|d| d.join(program))
        .find(|p| std::fs::metadata(p).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0))
}

/// Refuses an assistant whose help does not name what it will be given.
fn flags(adapter: &Adapter, program: &str, asker: &Asker) -> Result<()> {
    if adapter.needs.help.is_empty() {
        return Ok(());
    }
    let Some(help) = help(adapter, asker) else { return Ok(()) };
    let unknown: Vec<String> = wanted(adapter).into_iter().filter(|f| !names(&help, f)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Error::refused(
        format!("'{program}' does not know {}", unknown.join(", ")),
        format!("another version of it does: {}; nothing was started", adapter.needs.install),
    ))
}

/// The flags of all the commands of the row, which the user's own arguments are not part of.
fn wanted(adapter: &Adapter) -> Vec<String> {
    let program: &[String] = if let Program::Argv(argv) = &adapter.program { argv } else { &[] };
    let session: &[String] = if let SessionBy::Chosen(args) = &adapter.session { args } else { &[] };
    let parts = [
        program,
        &adapter.resume,
        &adapter.permission.edit,
        &adapter.permission.full,
        &adapter.model,
        session,
        &adapter.budget,
    ];
    let mut out: Vec<String> = parts.concat();
    out.retain(|w| w.starts_with('-') && w.len() > 1);
    for flag in &mut out {
        if let Some((name, _)) = flag.split_once('=') {
            *flag = name.to_owned();
        }
    }
    out.sort();
    out.dedup();
    out
}

/// Whether `flag` is a word of `help`.
fn names(help: &str, flag: &str) -> bool {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    help.match_indices(flag).any(|(at, _)| {
        let before = help[..at].chars().next_back().is_none_or(|c| !part(c));
        before && help[at + flag.len()..].chars().next().is_none_or(|c| !part(c))
    })
}

/// What its helps say, from the cache where its file is the same. `None` where it cannot be told.
fn help(adapter: &Adapter, asker: &Asker) -> Option<String> {
    // Through the link that a package manager puts on the path.
    let real = asker.program.canonicalize().ok()?;
    let meta = std::fs::metadata(&real).ok()?;
    let key = format!("{} {}.{} {}", real.display(), meta.mtime(), meta.mtime_nsec(), meta.size());
    let cache = UserState::open().ok()?.path().join("help").join(format!("{}.json", adapter.name));
    let known: Option<(String, String)> = super::record::read_json(&cache);
    if let Some((of, help)) = known
        && of == key
    {
        return Some(help);
    }
    let mut all = String::new();
    for args in &adapter.needs.help {
        let (code, said) = asker.ask(args)?;
        if code != Some(0) {
            return None;
        }
        all.push_str(&said);
        all.push('\n');
    }
    // A cache: where it cannot be kept, it is asked again.
    if let Some(dir) = cache.parent()
        && dir.parent().is_some_and(|state| files::ensure_private_dir(state).is_ok())
        && files::ensure_private_dir(dir).is_ok()
    {
        let _ = files::write_atomic(&cache, &serde_json::to_vec(&(key, &all)).unwrap_or_default());
    }
    Some(all)
}

/// Whether there is any sign of a log-in.
fn is_logged_in(login: &Login, asker: &Asker) -> bool {
    let env = asker.env();
    if login.env.iter().any(|v| env.get(OsStr::new(v)).is_some_and(|v| !v.is_empty())) {
        return true;
    }
    let Some(home) = env.get(OsStr::new("HOME")).map(PathBuf::from) else { return true };
    // Some look for a '.env' from their directory upwards too.
    let places: Vec<&Path> = std::iter::once(home.as_path()).chain(asker.checkout.ancestors()).collect();
    let sign = |file: &String| {
        let (file, word) = file.split_once(':').unwrap_or((file, ""));
        places.iter().map(|d| d.join(file)).any(|p| if word.is_empty() { p.exists() } else { holds(&p, word) })
    };
    if login.files.iter().any(sign) {
        return true;
    }
    if login.status.is_empty() {
        return false;
    }
    // Only its own plain "no" counts: a version without that question exits with another code, or says so.
    asker.ask(&login.status).is_none_or(|(code, said)| {
        let said = said.to_ascii_lowercase();
        let unknown = ["usage", "unknown", "unrecognized", "invalid", "error:"].iter().any(|w| said.contains(w));
        code != Some(1) || unknown
    })
}

fn holds(path: &Path, word: &str) -> bool {
    let text = files::read_limited(path, 1 << 20).ok().flatten().unwrap_or_default();
    String::from_utf8_lossy(&text).contains(word)
}

/// Runs the program as a run would, to ask it something.
struct Asker {
    program: PathBuf,
    env_allow: Option<Vec<String>>,
    cwd: PathBuf,
    checkout: PathBuf,
}

impl Asker {
    fn job(&self) -> Job {
        Job {
            argv: Vec::new(),
            env: Vec::new(),
            env_allow: self.env_allow.clone(),
            cwd: self.cwd.clone(),
            stdin: None,
            token: clock::random_hex(16),
            grace: Duration::from_secs(1),
        }
    }

    /// Its exit code and what it printed; `None` where it could not be asked, or did not answer.
    #[expect(clippy::disallowed_methods, reason = "a program of the user's, asked what it is")]
    fn ask(&self, args: &[String]) -> Option<(Option<i32>, String)> {
        let mut command = std::process::Command::new(&self.program);
        command.args(args).current_dir(&self.cwd).process_group(0);
        environment(&mut command, &self.job());
        // A file and no pipe: nobody has to read it while it is written.
        let said = files::unnamed(&std::env::temp_dir()).ok()?;
        command.stdin(Stdio::null()).stdout(said.try_clone().ok()?).stderr(said.try_clone().ok()?);
        process::unblock_signals(&mut command);
        let (begun, mut child) = (Instant::now(), command.spawn().ok()?);
        loop {
            if let Some(status) = child.try_wait().ok()? {
                return Some((status.code(), String::from_utf8_lossy(&files::read_all(&said)).into_owned()));
            }
            if begun.elapsed() > PATIENCE {
                process::identify(child.id().cast_signed())?.signal_group(Signal::SIGKILL);
                let _ = child.wait();
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The environment it would have.
    #[expect(clippy::disallowed_methods, reason = "nothing is started: it only holds the environment")]
    fn env(&self) -> BTreeMap<OsString, OsString> {
        let mut command = std::process::Command::new(&self.program);
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        let job = self.job();
        environment(&mut command, &job);
        if job.env_allow.is_some() {
            env.clear();
        }
        for (k, v) in command.get_envs() {
            match v {
                Some(v) => env.insert(k.to_owned(), v.to_owned()),
                None => env.remove(k),
            };
        }
        env
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::adapter::{BUILT_IN, built_in};

    #[test]
    fn a_flag_is_a_word_of_the_help() {
        let help = "  -o, --output-format <F>\n  --resume[=ID]  `-p`";
        for flag in ["-o", "--output-format", "--resume", "-p"] {
            assert!(names(help, flag), "{flag}");
        }
        for flag in ["--output", "-f", "--res", "--json"] {
            assert!(!names(help, flag), "{flag}");
        }
    }

    #[test]
    fn every_row_says_what_to_look_for() {
        for name in BUILT_IN.iter().filter(|n| **n != "scripted") {
            let row = built_in(name).unwrap();
            let flags = wanted(&row);
            assert!(
                !flags.is_empty() && flags.iter().all(|f| !f.contains('=') && !f.contains('{')),
                "{name}: {flags:?}"
            );
            assert!(!row.needs.help.is_empty() && !row.needs.install.is_empty(), "{name}");
        }
    }
}
