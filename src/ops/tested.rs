//! What the journal says of an agent's tests, for status and report.

use super::Context;
use super::answer::TestsAnswer;
use super::inventory::{Agent, Inventory};
use super::report::TestsReport;
use crate::model::agent::RunState;
use crate::model::event::{Journal, Kind};
use crate::model::text::one_line;
use crate::model::units::count;
use crate::model::verdict::{Compared, Word};

/// Names that are shown of each kind.
const NAMES: usize = 5;

/// What was said last, and whether it was said of the tree that the tip has now.
fn last(ctx: &Context, inv: &Inventory, a: &Agent) -> Option<(Compared, bool)> {
    let compared = read(inv.journal.get(&a.reg.id)?)?;
    let tree = a.tip.as_ref().and_then(|tip| ctx.state.objects.commit(tip).ok()?).map(|c| c.tree);
    let now = tree.as_ref() == Some(&compared.tree);
    Some((compared, now))
}

fn read(journal: &Journal) -> Option<Compared> {
    let event = journal.last(&Kind::Tested)?;
    serde_json::from_value(serde_json::Value::Object(event.more().clone())).ok()
}

/// For `status`.
pub(super) fn answer(ctx: &Context, inv: &Inventory, a: &Agent) -> TestsAnswer {
    let none = |state| TestsAnswer { state, verdict: None, newly_failing: 0, tree: None };
    match (a.state(), a.record.as_ref().and_then(|r| r.reason.as_deref())) {
        (Some(RunState::Verifying), Some(_)) => return none("queued"),
        (Some(RunState::Verifying), None) => return none("running"),
        _ => {}
    }
    match last(ctx, inv, a) {
        Some((c, true)) => TestsAnswer {
            state: "done",
            verdict: Some(c.now.word().to_owned()),
            newly_failing: c.newly(),
            tree: Some(c.tree),
        },
        // Nobody shall take what they said for a verdict on what is there now.
        Some((c, false)) if a.tip.is_some() => TestsAnswer { tree: Some(c.tree), ..none("stale") },
        _ => none("none"),
    }
}

/// For the report.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// What they say of the tip.
    pub(super) tests: Option<TestsReport>,
    /// What they said of an earlier one, where nobody has asked since.
    pub(super) earlier: Option<TestsReport>,
    /// Why it is not ready.
    pub(super) reason: Option<String>,
    /// The tip does worse than its base.
    pub(super) breaks: bool,
}

/// For the report: the figures, and the reasons for which it is not ready.
pub(super) fn report(ctx: &Context, inv: &Inventory, a: &Agent) -> Said {
    let Some((c, now)) = last(ctx, inv, a) else { return Said::default() };
    if !now {
        // What it broke may be mended since, and nobody has looked.
        let broke = c.breaks.then(|| "its tests failed before its last change, and were not run since".to_owned());
        let earlier = a.tip.is_some().then(|| figures(a, c));
        return Said { earlier, reason: broke, ..Said::default() };
    }
    let why = c.reason.as_deref().map(|r| format!(": {r}")).unwrap_or_default();
    let reason = match (c.now, c.baseline) {
        _ if c.breaks && c.newly_failing.is_empty() => Some(format!("breaks '{}'{why}", one_line(&c.command, 80))),
        _ if c.breaks => Some(format!("breaks {}: {}", count(c.newly_failing.len(), "test"), names(&c.newly_failing))),
        (Word::Unknown, _) => Some(format!("whether its tests pass is unknown{why}")),
        (Word::Fail, Word::Unknown) => Some(format!("its tests fail{why}; whether its base passes is unknown")),
        _ => None,
    };
    let breaks = c.breaks;
    Said { tests: Some(figures(a, c)), earlier: None, reason, breaks }
}

fn figures(a: &Agent, c: Compared) -> TestsReport {
    let log = Some(a.run.file("test.log")).filter(|p| p.exists());
    TestsReport {
        command: c.command,
        baseline: c.baseline.word(),
        now: c.now.word(),
        newly_failing: c.newly_failing,
        still_failing: c.still_failing,
        fixed: c.fixed,
        flaky: c.flaky,
        left_behind: c.left_behind,
        tree: Some(c.tree),
        method: if c.by_name { "names" } else { "exit-code" },
        reason: c.reason,
        log: log.map(|p| p.as_path().into()),
        duration_s: c.seconds,
    }
}

fn names(of: &[String]) -> String {
    let shown: Vec<String> = of.iter().take(NAMES).map(|n| one_line(n, 100)).collect();
    let more = if of.len() > NAMES { format!(" and {} more", of.len() - NAMES) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

impl TestsReport {
    /// One line for people, safe for a terminal: how they went beside the base, which ones, and how that is known.
    pub fn line(&self) -> String {
        // How it is known matters where something is wrong.
        let method = match (self.now, self.method) {
            ("pass", _) => "",
            (_, "names") => ", by name",
            _ => ", by exit code",
        };
        let how = format!("({}{method})", one_line(&self.command, 60));
        let newly = &self.newly_failing;
        let mut parts = vec![match (self.now, self.baseline) {
            _ if !newly.is_empty() => format!("{} newly failing {how}: {}", newly.len(), names(newly)),
            ("fail", "pass") => format!("fail, and pass on its base {how}"),
            ("fail", "fail") if self.still_failing.is_empty() => format!("fail, on its base too {how}"),
            ("fail", "fail") => format!("nothing newly failing {how}"),
            ("fail", _) => format!("fail {how}, its base is unknown"),
            ("unknown", _) => format!("unknown {how}"),
            (_, "fail") => format!("pass, and fail on its base {how}"),
            (_, "unknown") => format!("pass {how}, its base is unknown"),
            _ => format!("pass {how}"),
        }];
        for (of, word) in [(&self.still_failing, "still failing"), (&self.fixed, "fixed"), (&self.flaky, "flaky")] {
            if !of.is_empty() {
                parts.push(format!("{} {word}: {}", of.len(), names(of)));
            }
        }
        if self.now == "flaky" && self.flaky.is_empty() {
            parts.push("flaky: failed once, passed when asked again".to_owned());
        }
        if !self.left_behind.is_empty() {
            parts.push(format!("leaves files: {}", names(&self.left_behind)));
        }
        if let Some(reason) = self.reason.as_ref().filter(|_| self.now == "unknown" || self.baseline == "unknown") {
            parts.push(one_line(reason, 200));
        }
        parts.join("; ")
    }
}
