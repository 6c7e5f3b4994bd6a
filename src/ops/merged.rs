//! What there would be if everything landed: the branches that merge clean, in the order of landing, as one tree; and
//! whether that passes the project's test, or after which branch it no longer does.

use super::answer::JsonPath;
use super::create::Step;
use super::inventory::{Agent, Inventory};
use super::overlap::Round;
use super::verify::{self, At, Check, Patience, Tested, verify};
use super::{Context, Result, report};
use crate::model::agent::{Name, Oid};
use crate::model::task::short_ref;
use crate::runtime::signals::Signals;
use schemars::JsonSchema;
use serde::Serialize;

/// The merged result.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Merged {
    pub base: String,
    pub base_commit: Oid,
    /// The tree of all that landed; it is in the repository only while it is tested.
    pub tree: Oid,
    /// In this order.
    pub landed: Vec<Name>,
    pub left_out: Vec<LeftOut>,
    /// `null` where there is no test command.
    pub tests: Option<MergedTests>,
}

/// A branch that is no part of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct LeftOut {
    pub name: Name,
    /// Where merging it stops.
    pub paths: Vec<JsonPath>,
    pub reason: String,
}

/// What the test command says of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct MergedTests {
    pub command: String,
    /// `null` where it could not be told; `reason` says why.
    pub passed: Option<bool>,
    pub exit_code: Option<i32>,
    pub reason: Option<String>,
    /// The first branch with which it does not pass; without it, it does.
    pub breaks_after: Option<Name>,
    /// The tests that fail then and not on the base alone, where the output names them.
    pub newly_failing: Vec<String>,
    /// Whether the base alone passes; `null` where nobody had to ask.
    pub base_passed: Option<bool>,
    /// What was printed, of the run that tells most.
    pub log: Option<JsonPath>,
    pub duration_s: u64,
    /// Known from an earlier run.
    pub reused: bool,
}

/// What lands on one base, with the trees on the way.
#[derive(Debug)]
pub(super) struct Chain {
    /// Full name.
    pub(super) base_name: String,
    pub(super) base: Oid,
    pub(super) landed: Vec<Landed>,
    pub(super) left_out: Vec<LeftOut>,
}

/// One that lands.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) name: Name,
    pub(super) tip: Oid,
    /// What there is then.
    pub(super) tree: Oid,
}

/// What is going on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// The base with these branches is tested.
    Testing(&'a str, &'a [&'a Name]),
    /// Its worktree is made.
    Step(Step),
}

/// The report over `agents` with the merged result. `check`: how that is tested. A signal is an error, with everything
/// taken away.
pub fn report(
    ctx: &Context,
    inv: &Inventory,
    agents: &[&Agent],
    batch: Option<u64>,
    check: Option<&Check>,
    signals: &Signals,
    tell: &mut dyn FnMut(Progress<'_>),
) -> Result<report::Report> {
    let (mut report, round, mut chains) = report::with_chains(ctx, inv, agents, batch)?;
    // What lands on another base than most is no part of it.
    chains.sort_by_key(|c| std::cmp::Reverse(c.landed.len()));
    let mut chains = chains.into_iter();
    let Some(mut chain) = chains.next() else { return Ok(report) };
    for other in chains {
        let reason = format!("it lands on '{}'", short_ref(&other.base_name));
        let names = other.landed.into_iter().map(|l| l.name).chain(other.left_out.into_iter().map(|l| l.name));
        chain.left_out.extend(names.map(|name| LeftOut { name, paths: Vec::new(), reason: reason.clone() }));
    }
    let Some(base) = ctx.state.objects.commit(&chain.base)? else { return Ok(report) };
    let trees: Vec<Oid> = std::iter::once(base.tree).chain(chain.landed.iter().map(|l| l.tree.clone())).collect();
    let tests = match check {
        Some(check) => {
            Some(Bisection { ctx, round: &round, chain: &chain, trees: &trees, check, signals, tell }.run()?)
        }
        None => None,
    };
    report.merged = Some(Merged {
        base: short_ref(&chain.base_name).to_owned(),
        base_commit: chain.base,
        tree: trees.last().cloned().unwrap_or(base.id),
        landed: chain.landed.into_iter().map(|l| l.name).collect(),
        left_out: chain.left_out,
        tests,
    });
    Ok(report)
}

struct Bisection<'a, 'c> {
    ctx: &'a Context,
    round: &'a Round<'c>,
    chain: &'a Chain,
    /// That of the base, and those after each that lands.
    trees: &'a [Oid],
    check: &'a Check,
    signals: &'a Signals,
    tell: &'a mut dyn FnMut(Progress<'_>),
}

impl Bisection<'_, '_> {
    /// All of it; where that fails the base alone, and then halves.
    fn run(mut self) -> Result<MergedTests> {
        let all = self.trees.len() - 1;
        let whole = self.test(all)?;
        let mut out = MergedTests {
            command: self.check.shown(),
            passed: whole.passed,
            exit_code: whole.exit_code,
            reason: whole.reason.clone(),
            breaks_after: None,
            newly_failing: Vec::new(),
            base_passed: None,
            log: None,
            duration_s: whole.seconds,
            reused: whole.reused,
        };
        let mut worst = whole;
        if worst.passed == Some(false) {
            let alone = if all == 0 { worst.clone() } else { self.test(0)? };
            out.base_passed = alone.passed;
            // On a base that is broken already only what is broken beside that counts, and only where it has a name.
            let news = |t: &Tested| -> Vec<String> {
                t.failing.iter().filter(|n| !alone.failing.contains(n)).cloned().collect()
            };
            let breaks = |t: &Tested| match alone.passed {
                Some(true) => t.passed.map(|passed| !passed),
                _ => t.passed.map(|passed| !passed && !alone.failing.is_empty() && !news(t).is_empty()),
            };
            if alone.passed.is_some() && breaks(&worst) == Some(true) {
                let (mut sound, mut broken) = (0, all);
                while broken - sound > 1 {
                    let middle = sound + (broken - sound) / 2;
                    let tested = self.test(middle)?;
                    match breaks(&tested) {
                        Some(false) => sound = middle,
                        Some(true) => (broken, worst) = (middle, tested),
                        None => break,
                    }
                }
                if broken - sound == 1 {
                    out.breaks_after = Some(self.chain.landed[sound].name.clone());
                }
                out.newly_failing = news(&worst);
            } else if alone.passed == Some(false) {
                worst = alone;
            }
        }
        out.log = worst.log.as_deref().map(JsonPath::from);
        Ok(out)
    }

    /// The base with the first `n`.
    fn test(&mut self, n: usize) -> Result<Tested> {
        let Chain { base, base_name, landed, .. } = self.chain;
        let with: Vec<&Name> = landed[..n].iter().map(|l| &l.name).collect();
        (self.tell)(Progress::Testing(short_ref(base_name), &with));
        let tree = &self.trees[n];
        let commit = || match n {
            0 => Ok(base.clone()),
            _ => {
                let parents: Vec<Oid> =
                    std::iter::once(base).chain(landed[..n].iter().map(|l| &l.tip)).cloned().collect();
                self.round.give(tree, &parents)
            }
        };
        let tell = &mut *self.tell;
        // A tree that nobody asked about before is asked once: what breaks is looked for by halves.
        let at = At { tree, base: base_name, commit: &commit, again: false, log: None, since: None };
        let patience = Patience::of_a_person(self.signals);
        verify(self.ctx, self.check, at, &patience, &mut |step| tell(Progress::Step(step)))
    }
}

/// The test command to use: the user's `own`, else the one that all tasks of the agents name, else that of the project.
pub fn check(
    ctx: &Context,
    loaded: &super::Loaded,
    agents: &[&Agent],
    own: Option<&str>,
) -> Result<Option<verify::Check>> {
    let of_tasks = agents.first().and_then(|a| a.task.test.as_deref());
    let of_tasks = of_tasks.filter(|t| agents.iter().all(|a| a.task.test.as_deref() == Some(t)));
    Check::decide(ctx, loaded, own.or(of_tasks))
}
