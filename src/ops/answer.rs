//! The public shapes of `status --json`: documented, versioned, only ever added to.

use crate::model::agent::{BranchState, Name, Oid, Origin, Permission, RunState, Zombie};
use crate::model::overlap::Level;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// A path in JSON: text, or its bytes where it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum JsonPath {
    /// Plain text.
    Text(String),
    /// `{"bytes": "<base64>"}`.
    Bytes {
        /// Base64 of the exact bytes.
        bytes: String,
    },
}

impl From<&[u8]> for JsonPath {
    fn from(b: &[u8]) -> JsonPath {
        match std::str::from_utf8(b) {
            Ok(s) => JsonPath::Text(s.to_owned()),
            Err(_) => JsonPath::Bytes { bytes: base64(b) },
        }
    }
}

impl From<&Path> for JsonPath {
    fn from(p: &Path) -> JsonPath {
        use std::os::unix::ffi::OsStrExt as _;
        p.as_os_str().as_bytes().into()
    }
}

impl JsonPath {
    /// Its bytes.
    pub fn raw(&self) -> Vec<u8> {
        match self {
            JsonPath::Text(s) => s.clone().into_bytes(),
            JsonPath::Bytes { bytes } => from_base64(bytes),
        }
    }

    /// For people, safe for a terminal: as git shows it.
    pub fn shown(&self) -> String {
        crate::model::text::safe_path(&self.raw())
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let n = chunk.iter().fold(0u32, |a, b| a << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(char::from(ALPHABET[(n >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

fn from_base64(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for six in text.bytes().filter_map(|b| ALPHABET.iter().position(|a| *a == b)) {
        bits = bits << 6 | six as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

/// How many paths differ from what is checked out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Dirty {
    /// Tracked and changed.
    pub modified: usize,
    /// Neither tracked nor ignored.
    pub untracked: usize,
    /// Unmerged.
    pub conflicted: usize,
}

impl Dirty {
    /// Nothing differs.
    pub fn is_clean(&self) -> bool {
        *self == Dirty::default()
    }
}

/// Limits of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Limits {
    /// Seconds an attempt may take.
    pub time_s: Option<u64>,
    /// Seconds without progress.
    pub stall_s: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

/// Where a run stands.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RunAnswer {
    /// One of the words; `null` where no assistant was ever started.
    pub state: Option<RunState>,
    /// Of which attempt.
    pub attempt: u32,
    /// Retries left.
    pub attempts_left: u32,
    /// The supervisor's process, while it lives.
    pub pid: Option<i32>,
    /// When it started.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// The assistant's exit code.
    pub exit_code: Option<i32>,
    /// Why it is in this state.
    pub reason: Option<String>,
    /// What the assistant asked.
    pub question: Option<String>,
    /// When a hold ends.
    pub resume_at: Option<String>,
    /// Refused permissions.
    pub denied: u32,
    /// The assistant's own session.
    pub session: Option<String>,
    /// When it last printed something.
    pub last_output: Option<String>,
    /// US dollars so far.
    pub cost_usd: Option<f64>,
    /// Tokens so far.
    pub tokens: Option<u64>,
    /// Its limits.
    pub limits: Limits,
}

/// Tests of an agent; `none` until tests are run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct TestsAnswer {
    /// `none`, `queued`, `running`, `done`, or `stale`: they were of an earlier commit, the tip has changed since.
    pub state: &'static str,
    /// `pass`, `fail`, `flaky` or `unknown`.
    pub verdict: Option<String>,
    /// How many fail that did not fail on the base.
    pub newly_failing: usize,
    /// The tree they ran on.
    pub tree: Option<Oid>,
}

/// Where the logs are.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Logs {
    /// Typed events, JSON lines.
    pub transcript: Option<JsonPath>,
    /// What it printed, byte for byte.
    pub raw: Option<JsonPath>,
    /// Of the setup commands.
    pub setup: Option<JsonPath>,
    /// Of the tests.
    pub test: Option<JsonPath>,
    /// Of the app.
    pub app: Option<JsonPath>,
}

/// The worst overlap of a party.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct OverlapAnswer {
    /// The level; `null` where nobody's is known.
    pub level: Option<Level>,
    /// With whom it is at that level.
    pub with: Vec<String>,
    /// Those of whom it could not be told, or not in time: never to be read as free.
    pub unknown: Vec<String>,
}

/// One agent in `status --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct AgentAnswer {
    pub name: Name,
    pub id: String,
    pub branch: String,
    pub slug: String,
    pub title: String,
    pub origin: Origin,
    pub batch: Option<u64>,
    pub number: Option<u32>,
    pub group: Option<String>,
    pub after: Vec<String>,
    pub worktree: Option<JsonPath>,
    pub isolation: &'static str,
    pub assistant: Option<String>,
    pub model: Option<String>,
    pub permission: Permission,
    pub base: String,
    pub base_commit: Oid,
    pub tip: Option<Oid>,
    pub created: String,
    pub run: RunAnswer,
    pub branch_state: Option<BranchState>,
    pub ahead: Option<usize>,
    pub behind: Option<usize>,
    pub landed_as: Option<Oid>,
    pub upstream: Option<String>,
    pub dirty: Option<Dirty>,
    pub operation: Option<String>,
    pub locked: Option<String>,
    pub tests: TestsAnswer,
    pub ports: BTreeMap<String, u16>,
    pub url: Option<String>,
    pub direct_url: Option<String>,
    pub serving: Option<bool>,
    pub databases: BTreeMap<String, String>,
    pub env_files: Vec<JsonPath>,
    pub logs: Logs,
    pub overlap: Option<OverlapAnswer>,
    pub zombie: Option<Zombie>,
    pub disk: Option<u64>,
    pub findings: Vec<String>,
}

/// A checkout that is no agent's but has changes: you are a party.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct CheckoutAnswer {
    pub worktree: JsonPath,
    pub branch: Option<String>,
    pub dirty: Option<Dirty>,
    pub overlap: Option<OverlapAnswer>,
}

/// A worktree of nobody's here.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct UnmanagedAnswer {
    pub worktree: JsonPath,
    pub branch: Option<String>,
}

/// A registration that cannot be read.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct DamagedAnswer {
    pub name: String,
    pub reason: String,
    /// The command that writes it anew.
    pub mend: Option<String>,
}

/// A batch.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct BatchAnswer {
    pub batch: u64,
    pub started: String,
    pub list: Option<String>,
    pub settled: bool,
    pub cost_usd: Option<f64>,
    pub cost_unknown: usize,
}

/// A hold.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct HoldAnswer {
    pub assistant: String,
    pub reason: String,
    pub until: Option<String>,
    pub waiting: usize,
}

/// `status --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of status fields")]
pub struct StatusAnswer {
    pub version: u32,
    pub repository: JsonPath,
    pub base: Option<String>,
    pub agents: Vec<AgentAnswer>,
    pub checkouts: Vec<CheckoutAnswer>,
    pub unmanaged: Vec<UnmanagedAnswer>,
    pub damaged: Vec<DamagedAnswer>,
    pub batches: Vec<BatchAnswer>,
    pub holds: Vec<HoldAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_text_keeps_its_bytes() {
        for bytes in [&b"a\xff"[..], b"\xff\xfe\xfd", b"plain", b"", b"\x80", b"a/\xc3(/b\n"] {
            let path = JsonPath::from(bytes);
            assert_eq!(path.raw(), bytes);
            assert_eq!(std::str::from_utf8(bytes).is_ok(), matches!(path, JsonPath::Text(_)));
        }
        // As `base64` prints it.
        assert_eq!(JsonPath::from(&b"a\xff"[..]), JsonPath::Bytes { bytes: "Yf8=".into() });
        assert_eq!(JsonPath::from(&b"a\xff"[..]).shown(), "\"a\\377\"");
    }
}
