//! The public shapes of `report --json`: documented, versioned, only ever added to.

use crate::model::agent::{Name, Oid, RunState};
use crate::model::overlap::Level;
use crate::ops::answer::JsonPath;
use crate::ops::merged::Merged;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a person should do about an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Succeeded, nothing newly failing, merges clean with the base now, nothing left over, no flag.
    Ready,
    /// Something wants a person's eye; the reasons say what.
    Look,
    /// It did not succeed.
    Failed,
    /// It changed nothing.
    Nothing,
    /// Its parent failed.
    Skipped,
}

impl Verdict {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Ready => "ready",
            Verdict::Look => "look",
            Verdict::Failed => "failed",
            Verdict::Nothing => "nothing",
            Verdict::Skipped => "skipped",
        }
    }
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct FileAnswer {
    pub path: JsonPath,
    /// `null` for a binary file.
    pub added: Option<usize>,
    pub removed: Option<usize>,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct CommitAnswer {
    pub id: Oid,
    pub subject: String,
}

/// Something about a branch that a person should know.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Flag {
    pub kind: &'static str,
    pub text: String,
}

/// Where landing would stop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Conflicts {
    /// The base: conflicted paths, empty where it merges clean, `null` where it could not be told.
    pub with_base: Option<Vec<JsonPath>>,
    /// Other agents of the report.
    pub with_agents: Vec<WithAgent>,
}

/// One other agent it meets.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct WithAgent {
    pub agent: Name,
    /// `null` where it could not be told; `unknown` says why.
    pub level: Option<Level>,
    pub paths: Vec<JsonPath>,
    pub unknown: Option<String>,
}

/// What to type.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Commands {
    pub look: String,
    pub take: Option<String>,
    pub push: Option<String>,
    pub drop: String,
}

/// Tests that a branch adds, removes or skips, read from the files it changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct TestsCount {
    /// Test files.
    pub files: usize,
    /// Test cases.
    pub cases: usize,
    /// Their names, as the language writes them, in the order of paths; at most 1,000.
    pub names: Vec<String>,
    /// Test cases by language.
    pub by_language: BTreeMap<String, usize>,
}

/// What the test command says of a branch, beside its base commit.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestsReport {
    /// The command, for people.
    pub command: String,
    /// On the base commit: `pass`, `fail` or `unknown`.
    pub baseline: &'static str,
    /// On the tip: `pass`, `fail`, `flaky` or `unknown`.
    pub now: &'static str,
    /// Fail on the tip and not on the base commit.
    pub newly_failing: Vec<String>,
    /// Fail on both.
    pub still_failing: Vec<String>,
    /// Failed on the base commit and not on the tip.
    pub fixed: Vec<String>,
    /// Failed on the tip, and passed when they were asked once more.
    pub flaky: Vec<String>,
    /// Files that it left on the tip, not ignored: whoever runs it has them too.
    pub left_behind: Vec<String>,
    /// Of the tip, which the verdict is noted on.
    pub tree: Option<Oid>,
    /// `names` where the output names tests, else `exit-code`.
    pub method: &'static str,
    /// Why it did not pass, or is unknown.
    pub reason: Option<String>,
    /// What was printed, as long as that is kept.
    pub log: Option<JsonPath>,
    /// How long setup and tests took on the tip.
    pub duration_s: u64,
}

/// One agent in the report.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct AgentReport {
    pub name: Name,
    pub title: String,
    pub number: Option<u32>,
    pub group: Option<String>,
    pub branch: String,
    pub base: String,
    pub tip: Option<Oid>,
    pub assistant: Option<String>,
    pub state: Option<RunState>,
    pub verdict: Verdict,
    pub reasons: Vec<String>,
    pub claim: Option<String>,
    pub commits: Vec<CommitAnswer>,
    pub files: Vec<FileAnswer>,
    pub left_over: Vec<JsonPath>,
    pub tests_added: Option<TestsCount>,
    pub tests_removed: Option<TestsCount>,
    pub tests_skipped: Option<TestsCount>,
    /// `null` where there is no test command, or it has not been run on the tip.
    pub tests: Option<TestsReport>,
    /// What it said of an earlier commit, where the tip has changed since (by a commit, or by `sync`).
    pub earlier_tests: Option<TestsReport>,
    /// The tip does worse than its base: it is to land last.
    #[serde(skip)]
    pub breaks: bool,
    pub flags: Vec<Flag>,
    pub url: Option<serde_json::Value>,
    pub conflicts: Conflicts,
    pub cost_usd: Option<f64>,
    pub tokens: Option<u64>,
    pub duration_s: Option<u64>,
    pub attempts: u32,
    pub worktree: Option<JsonPath>,
    pub commands: Commands,
}

/// One step of the landing order.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct OrderAnswer {
    pub name: Name,
    pub conflicts_with_landed: Vec<Name>,
    /// Its rivals, of which it is the one to land.
    pub instead_of: Vec<Name>,
    /// Why it should not land as it is: it breaks tests, or did not succeed. Those come last.
    pub not_yet: Option<String>,
}

/// `report --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of report fields")]
pub struct Report {
    pub version: u32,
    pub batch: Option<u64>,
    pub base: Option<String>,
    pub agents: Vec<AgentReport>,
    pub order: Vec<OrderAnswer>,
    pub merged: Option<Merged>,
    pub land: Option<String>,
    pub push: Option<String>,
}
