//! One tree in its worktree: setup, the test command, and what failed asked once more.

use super::{At, Check, LOG_CAP, Patience, Tested, failed, junit, variables};
use crate::config::{CommandSpec, template};
use crate::git::status::{self, Place};
use crate::model::testlog;
use crate::model::text::safe_path;
use crate::ops::commands::{Broken, Commands};
use crate::ops::scratch::Scratch;
use crate::ops::{Context, Error, Result};
use crate::place::job::{Happening, Stop};
use crate::place::log;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

/// What a limit is of, and its setting.
const LIMIT_OF: (&str, &str) = ("a test", "timeout of [test]");
/// More than that are not asked alone.
const ALONE: usize = 100;
/// Files left behind that are named.
const LEFT: usize = 20;

/// One tree in its worktree.
pub(super) struct Runner<'a, 'c> {
    pub(super) ctx: &'c Context,
    pub(super) check: &'a Check,
    pub(super) at: At<'a>,
    pub(super) patience: &'a Patience<'a>,
    pub(super) scratch: &'a Scratch<'c>,
    pub(super) name: &'a str,
    pub(super) log: &'a Path,
}

/// One run of the test command.
struct Once {
    ended: std::result::Result<(), Broken>,
    failing: Vec<String>,
}

impl Runner<'_, '_> {
    /// Setup, the test command, and where that fails once more.
    pub(super) fn all(&self) -> Result<Tested> {
        let plan = &self.check.plan;
        let mut out = Tested { passed: Some(true), exit_code: Some(0), ..Tested::default() };
        let limit_of = ("setup", "agents.setupTime");
        if let Err(broken) = self.run(&plan.setup, &plan.scripts, plan.setup_time_s, limit_of)? {
            out.passed = matches!(broken, Broken::Failed { .. } | Broken::TooLong { .. }).then_some(false);
            out.too_long = matches!(broken, Broken::TooLong { .. });
            (out.exit_code, out.reason) = (None, Some(format!("setup: {}", broken.words())));
            return Ok(out);
        }
        let before = self.changes();
        let first = self.once(&self.check.test.scripts)?;
        out.left_behind = self.changes().difference(&before).take(LEFT).cloned().collect();
        let broken = match first.ended {
            Ok(()) => return Ok(out),
            Err(Broken::Failed { code: Some(code), why }) if self.at.again => {
                out.again = true;
                match self.alone(&first.failing)? {
                    Some((failing, flaky)) => {
                        (out.failing, out.flaky) = (failing, flaky);
                        Err(Broken::Failed { code: Some(code), why })
                    }
                    None => {
                        // What it names by now may be what the first run wrote.
                        let second = self.once(&BTreeMap::new())?;
                        if second.ended.is_ok() {
                            out.flaky = first.failing;
                            return Ok(out);
                        }
                        // A runner that stops at its first failure names another one each time: only what both saw
                        // tells that the rest passed.
                        let both = |n: &String| second.failing.contains(n);
                        (out.failing, out.flaky) = match first.failing.iter().any(both) {
                            true => first.failing.into_iter().partition(both),
                            false => ([first.failing, second.failing].concat(), Vec::new()),
                        };
                        second.ended
                    }
                }
            }
            broken => {
                out.failing = first.failing;
                broken
            }
        };
        match broken {
            Ok(()) => {}
            Err(Broken::NotApproved(why)) => {
                (out.passed, out.exit_code) = (None, None);
                out.reason = Some(format!("{why}; '--test CMD' is your own word"));
            }
            Err(Broken::Failed { code: Some(code), .. }) => {
                (out.passed, out.exit_code, out.reason) = (Some(false), Some(code), Some(failed(Some(code))));
            }
            Err(broken) => {
                out.passed = matches!(broken, Broken::Failed { .. } | Broken::TooLong { .. }).then_some(false);
                out.too_long = matches!(broken, Broken::TooLong { .. });
                (out.exit_code, out.reason) = (None, Some(broken.words().to_owned()));
            }
        }
        Ok(out)
    }

    /// What is not as the commit has it and not ignored.
    fn changes(&self) -> BTreeSet<String> {
        let changes = self.scratch.admin().and_then(|admin| {
            let place = Place { worktree: self.scratch.path(), admin: &admin, head: Some(self.scratch.commit()) };
            Ok(status::changes(self.ctx.repo(), &self.ctx.state.objects, &place)?)
        });
        changes.map(|c| c.all().map(|p| safe_path(p)).collect()).unwrap_or_default()
    }

    /// The tests that failed and fail again on their own, and those that passed then. `None` where that cannot be asked,
    /// or does not settle it: that they pass alone does not say that all of the command would, it may have stopped at
    /// them.
    fn alone(&self, failing: &[String]) -> Result<Option<(Vec<String>, Vec<String>)>> {
        let Some(CommandSpec::Argv(argv)) = &self.check.test.again else { return Ok(None) };
        // They come from what was tested: one must not become an option of the runner's, or a template.
        let is_odd = |n: &String| n.starts_with('-') || n.contains('{') || n.contains(char::is_control);
        if failing.is_empty() || failing.len() > ALONE || failing.iter().any(is_odd) {
            return Ok(None);
        }
        let words = argv.iter().flat_map(|word| match template::is_tests(word) {
            true => failing.to_vec(),
            false => vec![word.clone()],
        });
        let command = CommandSpec::Argv(words.collect());
        let test = &self.check.test;
        let before = size(self.log);
        let ended = self.run(std::slice::from_ref(&command), &BTreeMap::new(), test.limit_s, LIMIT_OF)?;
        let Err(Broken::Failed { code: Some(_), .. }) = ended else { return Ok(None) };
        let said = printed(self.log, before);
        let (failed, passed) = (testlog::failing(&said), testlog::passing(&said));
        if !failing.iter().any(|n| failed.contains(n)) {
            return Ok(None);
        }
        Ok(Some(failing.iter().cloned().partition(|n| failed.contains(n) || !passed.contains(n))))
    }

    /// The test command, and the tests that failed by its JUnit files, else by what it printed.
    fn once(&self, scripts: &BTreeMap<String, Option<String>>) -> Result<Once> {
        let test = &self.check.test;
        let before = size(self.log);
        let files = test.junit.as_deref().map(|pattern| junit::Files::before(self.scratch.path(), pattern));
        let ended = self.run(std::slice::from_ref(&test.command), scripts, test.limit_s, LIMIT_OF)?;
        let failing = match &ended {
            Ok(()) => Vec::new(),
            Err(_) => {
                let named = files.map(|f| f.failing()).unwrap_or_default();
                if named.is_empty() { testlog::failing(&printed(self.log, before)) } else { named }
            }
        };
        Ok(Once { ended, failing })
    }

    fn run(
        &self,
        commands: &[CommandSpec],
        scripts: &BTreeMap<String, Option<String>>,
        limit_s: Option<u64>,
        limit_of: (&'static str, &'static str),
    ) -> Result<std::result::Result<(), Broken>> {
        let short = crate::model::task::short_ref(self.at.base);
        let commands = Commands {
            commands,
            scripts,
            cwd: self.scratch.path(),
            env: variables(short, self.scratch.path()),
            values: values(self.ctx, self.check, self.name, short, self.scratch.path()),
            env_allow: &self.check.plan.env_allow,
            token: &self.scratch.token,
            grace: self.check.plan.grace(),
            limit_s,
            limit_of,
            log: self.log,
            log_cap: LOG_CAP,
            also: self.at.log,
        };
        let mut by = None;
        let ran = commands.run(self.patience.signals, &mut |h| {
            match h {
                // Without this note what it starts is still found by its token.
                Happening::Started(leader) => drop(self.scratch.write_address(Some(leader))),
                Happening::Tick(woken) => by = by.or_else(|| self.patience.ended_by(woken)),
                Happening::Output(_) => {}
            }
            by.map(|_| Stop::Asked)
        })?;
        by.map_or(Ok(ran), |signal| Err(Error::Interrupted(signal)))
    }
}

/// How much a log holds.
fn size(path: &Path) -> u64 {
    log::read_all(path).ok().and_then(|mut r| std::io::copy(&mut r, &mut std::io::sink()).ok()).unwrap_or(0)
}

/// What a log holds beyond its first `before` bytes; nothing where some was left out, for a name that is missing there
/// would look like a test that passed.
fn printed(path: &Path, before: u64) -> String {
    let mut bytes = Vec::new();
    if !log::is_whole(path).unwrap_or(false) {
        return String::new();
    }
    if let Ok(reader) = log::read_all(path) {
        let _ = reader.take(2 * LOG_CAP).read_to_end(&mut bytes);
    }
    let from = usize::try_from(before).unwrap_or(usize::MAX).min(bytes.len());
    String::from_utf8_lossy(&bytes[from..]).into_owned()
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
