//! Whether a tree passes a test command: run once on its files in a worktree of its own, with the project's setup before
//! it, and noted on the tree.
//!
//! Seam: [`Check`] is how trees are tested, decided and approved once; [`verify`] is the only function that tests one.
//! What counts is the tree and the digest of the check, so whoever asks again, for whatever branch, gets the same
//! verdict without a run. Only an end of the command's own is noted: a limit, a signal, a setup that failed may end
//! otherwise next time. A limit counts for those who began before it was met.
//!
//! Why never in an agent's own worktree: what lies there ignored (an old build, a file that only this assistant made, a
//! server on its ports) would have a say in a verdict that is noted on a tree and compared with the base's; and nothing
//! that a test writes can be taken for somebody's work. The price is the setup again, which `worktree.clone` makes cheap.

mod junit;
mod limits;
mod runner;
mod turn;

use super::create::Step;
use super::naming::{self, Wish};
use super::plan::{self, RunPlan, TestPlan};
use super::scratch::{self, Scratch};
use super::{Context, Error, Loaded, Result, base};
use crate::config::{ApprovedPlan, project::Submodules};
use crate::git::objects::digest;
use crate::model::agent::Oid;
use crate::model::verdict::{Outcome, Verdict};
use crate::runtime::signals::{Signals, Wake};
use crate::runtime::{clock, files, process};
use nix::sys::signal::Signal;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes that are kept of what one printed.
const LOG_CAP: u64 = 8 << 20;
/// Logs that are kept.
const LOGS: usize = 50;

/// How trees are tested.
#[derive(Debug, Clone)]
pub struct Check {
    test: TestPlan,
    plan: RunPlan,
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
    /// Where it fails, it is asked once more, to tell what is flaky.
    pub again: bool,
    /// A log that gets what it prints as well.
    pub log: Option<&'a Path>,
    /// A time limit that was met since then is an answer too.
    pub since: Option<std::time::SystemTime>,
}

/// How long one waits, and for what.
pub struct Patience<'a> {
    /// One that ends a process is the end of the test with everything it started.
    pub signals: &'a Signals,
    /// Asked about once a second: whether it shall end, as by a signal.
    pub enough: &'a dyn Fn() -> bool,
    /// Whether room on the disk is waited for; an error where not.
    pub waits_for_room: bool,
}

impl<'a> Patience<'a> {
    /// That of a person who looks on.
    pub fn of_a_person(signals: &'a Signals) -> Patience<'a> {
        Patience { signals, enough: &|| false, waits_for_room: false }
    }

    fn ended_by(&self, woken: &[Wake]) -> Option<i32> {
        let signal = woken.iter().find_map(|w| match w {
            Wake::End(signal) => Some(*signal as i32),
            _ => None,
        });
        signal.or_else(|| (self.enough)().then_some(Signal::SIGTERM as i32))
    }

    fn check(&self) -> Result<()> {
        self.ended_by(&self.signals.take()).map_or(Ok(()), |signal| Err(Error::Interrupted(signal)))
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tested {
    /// Whether it passed; `None` where it could not be told.
    pub passed: Option<bool>,
    /// The exit code of the test command.
    pub exit_code: Option<i32>,
    /// The tests that failed, where they have names.
    pub failing: Vec<String>,
    /// Those that failed once and passed once.
    pub flaky: Vec<String>,
    /// It failed, and was asked once more.
    pub again: bool,
    /// Files that the test left, not ignored, as they are shown.
    pub left_behind: Vec<String>,
    /// It, or the setup, ran into its time limit.
    pub too_long: bool,
    /// Why it did not pass.
    pub reason: Option<String>,
    /// What setup and test printed, as long as that is kept.
    pub log: Option<PathBuf>,
    /// How long setup and test took.
    pub seconds: u64,
    /// Known from an earlier run.
    pub reused: bool,
}

impl Tested {
    /// For a comparison.
    pub fn outcome(&self) -> Outcome {
        Outcome { passed: self.passed, again: self.again, failing: self.failing.clone(), flaky: self.flaky.clone() }
    }
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
        let Some(test) = TestPlan::of(loaded, &approved, own) else { return Ok(None) };
        let plan = plan::run_plan(ctx, loaded, &approved, PathBuf::new(), None)?;
        Ok(Some(Check { test, plan }))
    }

    /// The check an agent was planned with.
    pub fn of(plan: &RunPlan) -> Option<Check> {
        Some(Check { test: plan.test.clone()?, plan: plan.clone() })
    }

    /// The command, for people.
    pub fn shown(&self) -> String {
        self.test.command.shown()
    }

    /// Everything beside the tree that decides a verdict: command, setup, files taken along, names of variables.
    fn digest(&self) -> String {
        let variables: Vec<String> = variables("", Path::new("")).into_iter().map(|(name, _)| name).collect();
        let (t, p) = (&self.test, &self.plan);
        let all =
            (&t.command, &t.junit, &t.again, &p.setup, &p.copy, &p.clone, &p.submodules, &p.env_allow, &variables);
        digest(&["test 2", &serde_json::to_string(&all).expect("plain JSON")])
    }

    /// What is tested and how, short.
    fn label(&self, tree: &Oid) -> String {
        format!("{:.12}-{:.12}", tree.0, self.digest())
    }
}

/// Tests a tree, or says what is known of it. A signal ends the test with everything it started, and is the error.
pub fn verify(
    ctx: &Context,
    check: &Check,
    at: At<'_>,
    patience: &Patience<'_>,
    tell: &mut dyn FnMut(Step),
) -> Result<Tested> {
    let label = check.label(at.tree);
    if let Some(known) = known(ctx, check, at)? {
        return Ok(known);
    }
    patience.check()?;
    let _only = turn::alone(ctx, &label, patience, tell)?;
    // Somebody may have been faster.
    if let Some(known) = known(ctx, check, at)? {
        return Ok(known);
    }
    let name = scratch::new_name();
    let base = base::Base { name: at.base.to_owned(), commit: at.tree.clone(), note: None };
    let wish = Wish { name: &name, branch: &name, base: &base, dir: &check.test.dir, batch: None };
    let path = naming::place(ctx, &wish)?;
    let _slot = turn::slot(ctx, check, &path, patience, tell)?;
    tell(Step::Tests);
    let begun = Instant::now();
    let scratch = Scratch::make(ctx, &name, path, &check.plan, at.commit, tell)?;
    patience.check()?;
    let log = new_log(ctx, &label)?;
    // What a command leaves behind comes to us.
    process::become_subreaper();
    let runner = runner::Runner { ctx, check, at, patience, scratch: &scratch, name: &name, log: &log };
    let mut out = runner.all()?;
    out.log = log.exists().then_some(log);
    drop(scratch);
    out.seconds = begun.elapsed().as_secs();
    if let (Some(passed), Some(_)) = (out.passed, out.exit_code) {
        let verdict = Verdict {
            at: clock::now(),
            digest: check.digest(),
            command: check.shown(),
            passed,
            exit_code: out.exit_code,
            failing: out.failing.clone(),
            flaky: out.flaky.clone(),
            again: out.again,
            left_behind: out.left_behind.clone(),
            seconds: out.seconds,
        };
        let held = ctx.state.lock()?;
        ctx.state.note_verdict(&held, at.tree, &verdict)?;
    } else if out.too_long {
        limits::note(ctx, check, at, &out)?;
    }
    Ok(out)
}

/// What is noted, where that answers what is asked: a failure that was not asked again does not say what is flaky.
fn known(ctx: &Context, check: &Check, at: At<'_>) -> Result<Option<Tested>> {
    let Some(v) = ctx.state.verdict(at.tree, &check.digest())? else { return Ok(limits::known(ctx, check, at)) };
    if at.again && !v.passed && !v.again {
        return Ok(limits::known(ctx, check, at));
    }
    let label = check.label(at.tree);
    let log = logs(ctx).into_iter().rev();
    Ok(Some(Tested {
        passed: Some(v.passed),
        exit_code: v.exit_code,
        failing: v.failing,
        flaky: v.flaky,
        again: v.again,
        left_behind: v.left_behind,
        too_long: false,
        reason: (!v.passed).then(|| failed(v.exit_code)),
        log: log.into_iter().find(|p| name_of(p).starts_with(&label) && name_of(p).matches('.').count() == 1),
        seconds: v.seconds,
        reused: true,
    }))
}

fn failed(code: Option<i32>) -> String {
    code.map_or_else(|| "it failed".to_owned(), |c| format!("it exited with {c}"))
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
