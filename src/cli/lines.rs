//! JSON lines, and answers that one command alone gives: what is written and what `--json-schema` prints are one type.

use crate::model::agent::{AgentId, RunState};
use crate::ops::answer::{AgentAnswer, BatchAnswer, CheckoutAnswer, HoldAnswer, JsonPath, StatusAnswer};
use crate::ops::merged::Merged;
use crate::ops::overlap::answer::PairAnswer;
use crate::place::adapter::Activity;
use schemars::JsonSchema;
use serde::Serialize;

/// One line of several: `version` first, then `kind`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Line<K> {
    /// Of this format.
    version: u32,
    #[serde(flatten)]
    what: K,
}

impl<K> Line<K> {
    pub(super) fn of(what: K) -> Line<K> {
        Line { version: 1, what }
    }
}

/// A line of `run`, `wait` and `send --wait`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum RunLine {
    /// One that is looked at, first.
    Agent {
        name: String,
        id: AgentId,
        batch: Option<u64>,
        /// Whether its supervisor took it: of `run -d` alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        accepted: Option<bool>,
    },
    /// It is in another state.
    State(NewState),
    /// It is settled.
    End(NewState),
    /// What the assistant said or did.
    Activity {
        name: String,
        /// RFC 3339.
        at: String,
        attempt: u32,
        activity: Activity,
    },
    /// The last line of looking on.
    Settled {
        /// Whether not all are settled.
        timed_out: bool,
        agents: Vec<SettledAgent>,
    },
    /// Of `run --merged`.
    Merged { merged: Option<Merged> },
}

/// A state that was come to.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NewState {
    pub(super) name: String,
    pub(super) state: Option<RunState>,
    pub(super) reason: Option<String>,
    pub(super) attempt: Option<u32>,
    pub(super) question: Option<String>,
    pub(super) exit_code: Option<i32>,
}

/// Where one stands at the end.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SettledAgent {
    pub(super) name: String,
    pub(super) state: Option<RunState>,
    pub(super) reason: Option<String>,
    pub(super) attempt: Option<u32>,
}

/// `run --dry-run`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WouldRun {
    /// Of this format.
    pub(super) version: u32,
    pub(super) batch: u64,
    pub(super) would_start: Vec<WouldStart>,
    /// Items that are marked as done.
    pub(super) done: usize,
}

/// One of them.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WouldStart {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) branch: String,
    pub(super) base: String,
    pub(super) base_commit: String,
    pub(super) assistant: Option<String>,
    pub(super) permission: crate::model::agent::Permission,
    pub(super) test: Option<String>,
    pub(super) worktree: JsonPath,
    pub(super) after: Vec<String>,
}

/// A line of `status --watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum StatusLine {
    Snapshot(Snapshot),
    Change(Line<Change>),
}

/// All there is, first.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Snapshot {
    #[serde(flatten)]
    pub(super) answer: StatusAnswer,
    pub(super) kind: SnapshotKind,
}

/// `snapshot`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum SnapshotKind {
    Snapshot,
}

/// What is different now.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Change {
    Change {
        agents: Vec<AgentAnswer>,
        /// Names of those that are no more.
        gone: Vec<String>,
        checkouts: Vec<CheckoutAnswer>,
        batches: Vec<BatchAnswer>,
        holds: Vec<HoldAnswer>,
    },
}

/// A line of `overlap --watch`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum OverlapLine {
    /// Two that meet, new or in another way.
    Pair(PairAnswer),
    /// Two that meet no more.
    Gone { a: String, b: String },
}

/// `restore --list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Removed {
    /// Of this format.
    pub(super) version: u32,
    pub(super) removed: Vec<RemovedAgent>,
}

/// What can be brought back.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct RemovedAgent {
    pub(super) name: String,
    pub(super) id: AgentId,
    pub(super) branch: String,
    pub(super) tip: Option<String>,
    /// RFC 3339.
    pub(super) removed: String,
    pub(super) path: Option<JsonPath>,
    pub(super) capture: Option<String>,
    /// `trash`: all of it; `capture`: without ignored files; `entry`, `branch`: there was no more.
    pub(super) kept_as: &'static str,
    pub(super) age_s: Option<u64>,
    pub(super) damaged: Option<String>,
}
