//! Publishing branches: `git push -u` as the user would type it, and their own command that opens a request.
//!
//! One branch by its full name and nothing else goes: no note, no reference of ours, never by force.

use super::inventory::{Agent, Inventory};
use super::land::message;
use super::land::plan::{self, Why};
use super::{Context, Error, Loaded, Result, report, typed};
use crate::git::command::{Call, failed};
use crate::git::{locks, refs};
use crate::model::agent::Oid;
use crate::model::task::short_ref;
use crate::model::text::{one_line, shell_word};
use crate::runtime::files;
use std::path::{Path, PathBuf};

/// How to push.
#[derive(Debug)]
pub struct Options<'a> {
    /// Where, if not where the branch or the settings say.
    pub remote: Option<&'a str>,
    /// A request is opened.
    pub request: bool,
    /// Settings.
    pub loaded: &'a Loaded,
}

/// One that will be pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Which agent.
    pub name: String,
    /// Full name of its branch.
    pub branch: String,
    /// Where it stands.
    pub tip: Oid,
    /// Where to.
    pub remote: String,
    /// Files that are not committed.
    pub not_pushed: Vec<String>,
    /// The request to open.
    pub request: Option<Request>,
}

/// A request of a forge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// What is run.
    pub command: Program,
    /// Short name of the base.
    pub base: String,
    /// Its title.
    pub title: String,
    /// Its text.
    pub body: String,
}

/// What opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// The user's own line for the shell.
    Shell(String),
    /// A program that is known.
    Argv(Vec<String>),
}

impl Program {
    /// For people.
    pub fn shown(&self) -> String {
        match self {
            Program::Shell(line) => one_line(line, 200),
            Program::Argv(argv) => argv.iter().map(|w| shell_word(w)).collect::<Vec<_>>().join(" "),
        }
    }
}

/// What came of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is there; what the command that opens a request printed.
    Pushed(String),
    /// Nothing was done.
    Kept(Why),
    /// The remote, a hook or the command said no.
    Failed(Why),
}

/// Decides for one agent; an error inside says why it stays here.
pub fn plan(ctx: &Context, inv: &Inventory, a: &Agent, o: &Options<'_>) -> Result<std::result::Result<Planned, Why>> {
    let name = &a.reg.name.0;
    let word = shell_word(name);
    let facts = plan::facts(ctx, inv, a)?;
    // Where it lands is the forge's concern, and so is what goes on there.
    let facts = plan::Facts { base: (facts.base.0, true), checkout: None, ..facts };
    if let Some(why) = plan::why_not(name, &facts) {
        return Ok(Err(why));
    }
    let Some(tip) = a.tip.clone() else {
        return Ok(Err(Why::new(format!("the branch of '{name}' is gone"), Some(format!("git agents show {word}")))));
    };
    let remote = remote(ctx, short_ref(&a.reg.branch), o.remote)?;
    let request = match o.request {
        false => None,
        true => {
            let report = report::of(ctx, inv, a)?;
            let (title, body) = (message::title(a, &report), message::request(a, &report));
            let base = a.reg.base.strip_prefix(&format!("refs/remotes/{remote}/")).unwrap_or(short_ref(&a.reg.base));
            let command = program(ctx, o.loaded, &remote, short_ref(&a.reg.branch), base, &title)?;
            Some(Request { command, base: base.to_owned(), title, body })
        }
    };
    let not_pushed = plan::not_committed(ctx, inv, a).unwrap_or_default();
    Ok(Ok(Planned { name: name.clone(), branch: a.reg.branch.clone(), tip, remote, not_pushed, request }))
}

/// As git decides where a branch is pushed to: what was asked for, `branch.<name>.pushRemote`, `remote.pushDefault`,
/// `branch.<name>.remote`, `origin`, the only one there is.
fn remote(ctx: &Context, branch: &str, asked: Option<&str>) -> Result<String> {
    let settings = ctx.repo().settings()?;
    let last = |key: &str| settings.iter().rev().find(|(_, k, _)| k == key).map(|(_, _, v)| v.clone());
    let names: Vec<&str> =
        settings.iter().filter_map(|(_, k, _)| k.strip_prefix("remote.")?.strip_suffix(".url")).collect();
    if let Some(asked) = asked {
        return match names.contains(&asked) {
            true => Ok(asked.to_owned()),
            false => Err(Error::refused(format!("there is no remote '{asked}'"), "git remote -v")),
        };
    }
    let set = [format!("branch.{branch}.pushremote"), "remote.pushdefault".into(), format!("branch.{branch}.remote")];
    if let Some(remote) = set.iter().filter_map(|key| last(key)).find(|r| names.contains(&r.as_str())) {
        return Ok(remote);
    }
    match typed::remotes(ctx)? {
        Some(Ok(remote)) => Ok(remote),
        Some(Err(several)) => {
            Err(Error::refused(format!("there are several remotes: {}", several.join(", ")), "--remote names one"))
        }
        None => Err(Error::refused("there is no remote to push to", "git remote add origin URL")),
    }
}

/// The user's command, else the program of the forge that the remote's address names, else whichever is there.
fn program(ctx: &Context, loaded: &Loaded, remote: &str, branch: &str, base: &str, title: &str) -> Result<Program> {
    if let Some(line) = &loaded.settings.pr_command {
        return Ok(Program::Shell(line.clone()));
    }
    let url = ctx.repo().settings()?.iter().rev().find(|(_, k, _)| *k == format!("remote.{remote}.url"));
    let url = url.map(|(_, _, v)| v.clone()).unwrap_or_default();
    let known = if url.contains("gitlab") { ["glab", "gh"] } else { ["gh", "glab"] };
    let found = known.into_iter().find(|name| is_on_path(name));
    let argv: &[&str] = match found {
        Some("gh") => &["gh", "pr", "create", "--head", branch, "--base", base, "--title", title, "--body-file", "-"],
        Some(_) => {
            &["glab", "mr", "create", "--yes", "--source-branch", branch, "--target-branch", base, "--title", title]
        }
        None => {
            return Err(Error::refused(
                "neither 'gh' nor 'glab' is there to open a request",
                "git config --global agents.prCommand <line for the shell>",
            ));
        }
    };
    Ok(Program::Argv(argv.iter().map(|w| (*w).to_owned()).collect()))
}

fn is_on_path(name: &str) -> bool {
    let path = crate::git::command::plain_path().unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

/// Pushes one. `said`: what git and the remote say meanwhile.
pub fn push(ctx: &Context, p: &Planned, said: &mut dyn FnMut(&str)) -> Result<End> {
    let dir = directory(ctx);
    let spec = format!("{0}:{0}", p.branch);
    let args = ["push", "--set-upstream", "--no-recurse-submodules", "--", &p.remote, &spec];
    let locks = vec![ctx.repo().common_dir.join("config.lock")];
    let mark = locks::Mark::set(ctx.repo(), locks);
    let agents = ctx.state.ensure_dirs()?;
    let out = Call::user_visible(&dir, args).as_person().output_alone(&agents);
    let result = match &out {
        Ok(o) if o.status.success() => Ok(()),
        Ok(o) => Err(failed("push", o, Some(&dir))),
        Err(_) => Err(crate::git::Error::Failed { args: "push".into(), code: None, stderr: String::new() }),
    };
    mark.end(&result);
    let out = out?;
    if let Err(e) = result {
        return Ok(End::Failed(refused(ctx, p, &String::from_utf8_lossy(&out.stderr), &Error::from(e).words())?));
    }
    String::from_utf8_lossy(&out.stderr).lines().for_each(&mut *said);
    match &p.request {
        None => Ok(End::Pushed(String::new())),
        Some(request) => open(p, request, &dir, &agents, said),
    }
}

/// Why it was not taken. A branch that was rebased since is no longer what the remote has.
fn refused(ctx: &Context, p: &Planned, stderr: &str, words: &str) -> Result<Why> {
    let short = short_ref(&p.branch);
    let there = refs::read(ctx.repo(), &format!("refs/remotes/{}/{short}", p.remote))?;
    let behind = ["non-fast-forward", "fetch first"].iter().any(|w| stderr.contains(w));
    let hint = there.filter(|_| behind).map(|there| {
        let lease = format!("--force-with-lease={short}:{:.12}", there.0);
        format!(
            "where it was rebased: 'git push {} {} {}'",
            shell_word(&lease),
            shell_word(&p.remote),
            shell_word(short)
        )
    });
    Ok(Why::new(format!("'{}' was not pushed: {words}", p.name), hint))
}

/// Runs the command that opens the request, with its text on standard input.
#[expect(clippy::disallowed_methods, reason = "the user's own command, or the one program of their forge")]
fn open(p: &Planned, request: &Request, dir: &Path, agents: &Path, said: &mut dyn FnMut(&str)) -> Result<End> {
    use std::process::Command;
    let mut command = match &request.command {
        Program::Shell(line) => {
            let mut sh = Command::new("/bin/sh");
            sh.arg("-c").arg(line);
            sh
        }
        Program::Argv(argv) => {
            let mut command = Command::new(&argv[0]);
            command.args(&argv[1..]);
            if argv[0] == "glab" {
                command.arg("--description").arg(&request.body);
            }
            command
        }
    };
    crate::git::command::scrub(&mut command);
    if let Some(path) = crate::git::command::plain_path() {
        command.env("PATH", path);
    }
    command.env("AGENTS_BRANCH", short_ref(&p.branch)).env("AGENTS_BASE", &request.base);
    command.env("AGENTS_TITLE", &request.title).env("AGENTS_REMOTE", &p.remote);
    // It may leave a browser behind: what it prints goes into files, which nobody holds open.
    let [stdout, stderr] = [files::unnamed(agents)?, files::unnamed(agents)?];
    let twin = |f: &std::fs::File| f.try_clone().map_err(files::because("open", agents));
    let stdin = files::unnamed_with(agents, request.body.as_bytes())?;
    command.current_dir(dir).stdin(stdin).stdout(twin(&stdout)?).stderr(twin(&stderr)?);
    let pushed = format!("'{}' is pushed; the request was not opened: '{}'", p.name, request.command.shown());
    let status = match command.status() {
        Ok(status) => status,
        Err(e) => return Ok(End::Failed(Why::new(format!("{pushed} could not be started: {e}"), None))),
    };
    let stderr = String::from_utf8_lossy(&files::read_all(&stderr)).into_owned();
    if status.success() {
        stderr.lines().for_each(said);
        return Ok(End::Pushed(String::from_utf8_lossy(&files::read_all(&stdout)).into_owned()));
    }
    if matches!(request.command, Program::Argv(_)) && stderr.contains("already exists") {
        // It has the new commits by the push.
        stderr.lines().for_each(said);
        return Ok(End::Pushed(String::new()));
    }
    let code = status.code().map_or("was ended by a signal".to_owned(), |c| format!("exited with {c}"));
    let words = stderr.lines().rev().find(|l| !l.trim().is_empty()).map(|l| format!(": {}", one_line(l, 200)));
    Ok(End::Failed(Why::new(format!("{pushed} {code}{}", words.unwrap_or_default()), None)))
}

fn directory(ctx: &Context) -> PathBuf {
    let repo = ctx.repo();
    let own = repo.toplevel.clone().filter(|_| ctx.here().is_ok_and(|agent| agent.is_none()));
    own.or_else(|| repo.main_worktree.clone()).unwrap_or_else(|| repo.common_dir.clone())
}
