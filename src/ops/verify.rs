//! Whether a tree passes a test command: run once on its files in a worktree of its own, with the project's setup before
//! it, and noted on the tree.
//!
//! Seam: [`Check`] is how trees are tested, decided and approved once; [`verify`] is the only function that tests one.
//! What counts is the tree and the digest of the check, so whoever asks again, for whatever branch, gets the same
//! verdict without a run. Only an end of the command's own is noted: a limit, a signal, a setup that failed may end
//! otherwise next time.

use super::commands::{Broken, Commands};
use super::create::Step;
use super::naming::{self, Wish};
use super::plan::{self, RunPlan};
use super::scratch::{self, Scratch};
use super::{Context, Error, Loaded, Result, base};
use crate::config::{ApprovedPlan, CommandSpec, project::Submodules};
use crate::git::objects::digest;
use crate::model::agent::Oid;
use crate::model::testlog;
use crate::model::verdict::Verdict;
use crate::place::job::{Happening, Stop};
use crate::runtime::signals::{Signals, Wake};
use crate::runtime::{clock, files, process};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where nothing is said, a test may take so long.
const TIMEOUT_S: u64 = 30 * 60;
/// Bytes that are kept of what one printed.
const LOG_CAP: u64 = 8 << 20;
/// Logs that are kept.
const LOGS: usize = 50;

/// How trees are tested.
#[derive(Debug, Clone)]
pub struct Check {
    command: CommandSpec,
    scripts: BTreeMap<String, Option<String>>,
    limit_s: Option<u64>,
    plan: RunPlan,
    /// Where worktrees are made, a template.
    dir: String,
}

/// What is tested.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// The tree.
    pub tree: &'a Oid,
    /// The base, for variables and templates: its full name.
    pub base: &'a str,
    /// A commit of that tree in the repository; asked for under its lock, and only where a test has to run.
    pub commit: &'a dyn Fn() -> Result<Oid>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tested {
    /// Whether it passed; `None` where it could not be told.
    pub passed: Option<bool>,
    /// The exit code of the test command.
    pub exit_code: Option<i32>,
    /// The tests that failed, where the output names them.
    pub failing: Vec<String>,
    /// Why it did not pass.
    pub reason: Option<String>,
    /// What setup and test printed, as long as that is kept.
    pub log: Option<PathBuf>,
    /// How long setup and test took.
    pub seconds: u64,
    /// Known from an earlier run.
    pub reused: bool,
}

impl Check {
    /// The check with the user's `own` command, which needs no approval, or with that of `[test]`; `None` where there is
    /// neither. What else of the project's file runs has to be approved.
    pub fn decide(ctx: &Context, loaded: &Loaded, own: Option<&str>) -> Result<Option<Check>> {
        let project = &loaded.project;
        if own.is_none() && project.test.command.is_none() {
            return Ok(None);
        }
        let runs = own.is_none()
            || project.setup.as_ref().is_some_and(|s| !s.is_empty())
            || project.worktree.submodules.is_some_and(|s| s != Submodules::None);
        let approved = if runs { plan::approved(ctx, project)? } else { ApprovedPlan::nothing() };
        let (command, scripts) = match (own, approved.test()) {
            (Some(line), _) => (CommandSpec::Shell(line.to_owned()), BTreeMap::new()),
            (None, Some(command)) => (command.clone(), approved.test_scripts()),
            (None, None) => return Ok(None),
        };
        let limit_s = project.test.timeout.map_or(Some(TIMEOUT_S), |limit| limit.0);
        let plan = plan::run_plan(ctx, loaded, &approved, PathBuf::new(), None)?;
        Ok(Some(Check { command, scripts, limit_s, plan, dir: loaded.settings.worktree_dir.clone() }))
    }

    /// The command, for people.
    pub fn shown(&self) -> String {
        match &self.command {
            CommandSpec::Shell(line) => line.clone(),
            CommandSpec::Argv(argv) => argv.join(" "),
        }
    }

    /// Everything beside the tree that decides a verdict: command, setup, files taken along, names of variables.
    fn digest(&self) -> String {
        let variables: Vec<String> = variables("", Path::new("")).into_iter().map(|(name, _)| name).collect();
        let p = &self.plan;
        let all = (&self.command, &p.setup, &p.copy, &p.clone, &p.submodules, &p.env_allow, &variables);
        digest(&["test 1", &serde_json::to_string(&all).expect("plain JSON")])
    }
}

/// Tests a tree, or says what is known of it. A signal ends the test with everything it started, and is the error.
pub fn verify(
    ctx: &Context,
    check: &Check,
    at: At<'_>,
    signals: &Signals,
    tell: &mut dyn FnMut(Step),
) -> Result<Tested> {
    let digest = check.digest();
    let label = format!("{:.12}-{:.12}", at.tree.0, digest);
    if let Some(v) = ctx.state.verdict(at.tree, &digest)? {
        return Ok(Tested {
            passed: Some(v.passed),
            exit_code: v.exit_code,
            failing: v.failing,
            reason: (!v.passed).then(|| failed(v.exit_code)),
            log: logs(ctx)
                .into_iter()
                .rev()
                .find(|p| name_of(p).starts_with(&label) && name_of(p).matches('.').count() == 1),
            seconds: v.seconds,
            reused: true,
        });
    }
    interrupted(&signals.take())?;
    let name = scratch::new_name();
    let short = crate::model::task::short_ref(at.base);
    let base = base::Base { name: at.base.to_owned(), commit: at.tree.clone(), note: None };
    let path = naming::place(ctx, &Wish { name: &name, branch: &name, base: &base, dir: &check.dir, batch: None })?;
    let scratch = Scratch::make(ctx, &name, path, &check.plan, at.commit, tell)?;
    interrupted(&signals.take())?;
    let log = new_log(ctx, &label)?;
    let begun = Instant::now();
    // What a command leaves behind comes to us.
    process::become_subreaper();
    let mut by = None;
    let mut run = |commands: &[CommandSpec], scripts: &BTreeMap<String, Option<String>>, limit_s, limit_of| {
        let commands = Commands {
            commands,
            scripts,
            cwd: scratch.path(),
            env: variables(short, scratch.path()),
            values: values(ctx, check, &name, short, scratch.path()),
            env_allow: &check.plan.env_allow,
            token: &scratch.token,
            grace: check.plan.grace(),
            limit_s,
            limit_of,
            log: &log,
            log_cap: LOG_CAP,
        };
        let ran = commands.run(signals, &mut |h| {
            match h {
                // Without this note what it starts is still found by its token.
                Happening::Started(leader) => drop(scratch.write_address(Some(leader))),
                Happening::Tick(woken) => by = by.or(signal(woken)),
                Happening::Output(_) => {}
            }
            by.map(|_| Stop::Asked)
        })?;
        match by {
            Some(signal) => Err(Error::Interrupted(signal)),
            None => Ok(ran),
        }
    };
    let setup = run(&check.plan.setup, &check.plan.scripts, check.plan.setup_time_s, ("setup", "agents.setupTime"))?;
    let tested = match &setup {
        Err(_) => Ok(()),
        Ok(()) => {
            run(std::slice::from_ref(&check.command), &check.scripts, check.limit_s, ("a test", "timeout of [test]"))?
        }
    };
    let seconds = begun.elapsed().as_secs();
    let mut out = Tested {
        passed: Some(true),
        exit_code: None,
        failing: Vec::new(),
        reason: None,
        log: None,
        seconds,
        reused: false,
    };
    out.log = log.exists().then_some(log);
    match (setup, tested) {
        (Err(broken), _) => {
            out.passed = matches!(broken, Broken::Failed { .. } | Broken::TooLong(_)).then_some(false);
            out.reason = Some(format!("setup: {broken}"));
        }
        (Ok(()), Err(Broken::NotApproved(why))) => {
            (out.passed, out.reason) = (None, Some(format!("{why}; '--test CMD' is your own word")));
        }
        (Ok(()), Err(Broken::Failed { code: Some(code), .. })) => {
            (out.passed, out.exit_code, out.reason) = (Some(false), Some(code), Some(failed(Some(code))));
            let said = out.log.as_deref().and_then(|log| files::read_limited(log, 2 * LOG_CAP).ok().flatten());
            out.failing = testlog::failing(&String::from_utf8_lossy(&said.unwrap_or_default()));
        }
        (Ok(()), Err(broken)) => {
            out.passed = matches!(broken, Broken::Failed { .. } | Broken::TooLong(_)).then_some(false);
            out.reason = Some(broken.to_string());
        }
        (Ok(()), Ok(())) => out.exit_code = Some(0),
    }
    drop(scratch);
    if let (Some(passed), Some(_)) = (out.passed, out.exit_code) {
        let (exit_code, failing) = (out.exit_code, out.failing.clone());
        let verdict = Verdict { at: clock::now(), digest, command: check.shown(), passed, exit_code, failing, seconds };
        let held = ctx.state.lock()?;
        ctx.state.note_verdict(&held, at.tree, &verdict)?;
    }
    Ok(out)
}

fn failed(code: Option<i32>) -> String {
    code.map_or_else(|| "it failed".to_owned(), |c| format!("it exited with {c}"))
}

fn signal(woken: &[Wake]) -> Option<i32> {
    woken.iter().find_map(|w| match w {
        Wake::End(signal) => Some(*signal as i32),
        _ => None,
    })
}

fn interrupted(woken: &[Wake]) -> Result<()> {
    signal(woken).map_or(Ok(()), |signal| Err(Error::Interrupted(signal)))
}

/// The variables of a test.
fn variables(base: &str, worktree: &Path) -> Vec<(String, OsString)> {
    vec![
        // It runs what assistants wrote: inside of an agent for all that asks.
        ("AGENTS_NAME".into(), "merged".into()),
        ("AGENTS_BASE".into(), base.into()),
        ("AGENTS_WORKTREE".into(), worktree.into()),
        ("HOST".into(), "127.0.0.1".into()),
    ]
}

/// The values of templates.
fn values(ctx: &Context, check: &Check, name: &str, base: &str, worktree: &Path) -> BTreeMap<&'static str, String> {
    let main = ctx.repo().main_worktree.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    BTreeMap::from([
        ("name", name.to_owned()),
        ("slug", name.to_owned()),
        ("id", name.to_owned()),
        ("branch", String::new()),
        ("base", base.to_owned()),
        ("repo", check.plan.repo.clone()),
        ("worktree", worktree.display().to_string()),
        ("main", main),
        ("batch", String::new()),
    ])
}

fn logs_dir(ctx: &Context) -> PathBuf {
    ctx.repo().agents_dir().join("cache/tests")
}

/// The logs that are kept, oldest first.
fn logs(ctx: &Context) -> Vec<PathBuf> {
    let found = std::fs::read_dir(logs_dir(ctx)).into_iter().flatten().filter_map(std::result::Result::ok);
    let mut found: Vec<_> = found.filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path()))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Where the next one prints to; the oldest go.
fn new_log(ctx: &Context, label: &str) -> Result<PathBuf> {
    let dir = logs_dir(ctx);
    if let Some(cache) = dir.parent() {
        files::ensure_private_dir(cache)?;
    }
    files::ensure_private_dir(&dir)?;
    let kept = logs(ctx);
    for old in &kept[..kept.len().saturating_sub(LOGS)] {
        let _ = std::fs::remove_file(old);
    }
    Ok(dir.join(format!("{label}-{}.log", clock::random_hex(4))))
}
