//! Names, identities and states of an agent.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An agent's handle in one repository, as chosen at creation. Never derived again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Name(pub String);

impl Name {
    /// As a word of a command that a person may copy.
    pub fn typed(&self) -> std::borrow::Cow<'_, str> {
        super::text::shell_word(&self.0)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(s: &str) -> Self {
        Name(s.to_owned())
    }
}

/// The object id of an agent's task object, in full lower-case hex (40 or 64 digits).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct AgentId(pub String);

impl AgentId {
    /// The first 12 digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An object id of git in full lower-case hex: 40 digits (SHA-1) or 64 (SHA-256).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Oid(pub String);

impl Oid {
    /// `s` as an object id, where it is one in full.
    pub fn parse(s: &str) -> Option<Oid> {
        let ok = matches!(s.len(), 40 | 64) && s.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        ok.then(|| Oid(s.to_owned()))
    }

    /// The id that means "nothing" beside this one: as many zeros.
    pub fn zero_like(&self) -> Oid {
        Oid("0".repeat(self.0.len()))
    }

    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name made safe for paths, hosts and databases: `[a-z0-9-]`, at most 40 bytes, no hyphen at either end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Slug(pub String);

impl Slug {
    /// The slug of `name`. Whenever characters are folded, dropped or cut, six hex digits of a hash of the
    /// exact name are added, so that `feat/foo`, `feat-foo` and `Feat/Foo` stay apart.
    pub fn of(name: &str) -> Slug {
        let mut out = String::new();
        for c in name.chars() {
            let c = if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { c.to_ascii_lowercase() };
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                out.push(c);
            } else if !out.ends_with('-') && !out.is_empty() {
                out.push('-');
            }
        }
        let trimmed = out.trim_matches('-');
        if trimmed == name && trimmed.len() <= 40 && !trimmed.is_empty() && !reserved(trimmed) {
            return Slug(trimmed.to_owned());
        }
        let mut head: String = trimmed.chars().take(33).collect();
        while head.ends_with('-') {
            head.pop();
        }
        if head.is_empty() {
            head.push('x');
        }
        Slug(format!("{head}-{:06x}", fnv64(name.as_bytes()) & 0xff_ffff))
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names that mean something else as a directory, host or entry of ours.
fn reserved(s: &str) -> bool {
    matches!(
        s,
        "con"
            | "nul"
            | "prn"
            | "aux"
            | "head"
            | "trash"
            | "localhost"
            | "agents"
            | "run"
            | "slots"
            | "cache"
            | "sterile"
    )
}

/// FNV-1a, 64 bits: a stable, documented hash for folded names; not for security.
pub fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// How an agent came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// `run`: made from a task.
    Run,
    /// `new`: an environment first.
    New,
    /// `adopt`: somebody else's worktree or branch; never deleted by `clean`, hooks or plain `rm`.
    Adopt,
}

/// What an assistant may do without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Permission {
    /// Edit, test, commit.
    Edit,
    /// Everything the user can do.
    Full,
}

impl std::str::FromStr for Permission {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "edit" => Ok(Permission::Edit),
            "full" => Ok(Permission::Full),
            _ => Err(format!("'{s}' is not a permission; 'edit' and 'full' are")),
        }
    }
}

/// Where a run stands. The words are those of the manual and of `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// The environment is being made.
    Preparing,
    /// For `after`, a slot, a hold or disk; the reason says which.
    Waiting,
    /// The assistant works.
    Running,
    /// A person sits there.
    Attached,
    /// The tests run.
    Verifying,
    /// It asked a question and was ended; `send` or `attach` goes on.
    NeedsInput,
    /// Its own verdict and git agree.
    Succeeded,
    /// Finished without an own commit or any difference.
    Unchanged,
    /// Did not succeed; the reason says why.
    Failed,
    /// No progress for the stall limit.
    Stalled,
    /// The time limit passed.
    TimedOut,
    /// The cost limit was reached.
    OverBudget,
    /// Its `after` parent failed.
    Skipped,
    /// Ended by `stop`.
    Stopped,
    /// Recorded as live, but nobody holds its lock.
    Dead,
    /// The same, after a reboot.
    Interrupted,
}

impl RunState {
    /// All of them.
    pub const ALL: &[RunState] = &[
        RunState::Preparing,
        RunState::Waiting,
        RunState::Running,
        RunState::Attached,
        RunState::Verifying,
        RunState::NeedsInput,
        RunState::Succeeded,
        RunState::Unchanged,
        RunState::Failed,
        RunState::Stalled,
        RunState::TimedOut,
        RunState::OverBudget,
        RunState::Skipped,
        RunState::Stopped,
        RunState::Dead,
        RunState::Interrupted,
    ];
    /// No attempt is left and nothing will happen by itself.
    pub fn is_final(self) -> bool {
        use RunState::*;
        matches!(
            self,
            Succeeded | Unchanged | Failed | Stalled | TimedOut | OverBudget | Skipped | Stopped | Dead | Interrupted
        )
    }

    /// Final, or waiting for a person with its slot free.
    pub fn is_settled(self) -> bool {
        self.is_final() || self == RunState::NeedsInput
    }

    /// A supervisor (or a person's `attach`) holds its lock in this state.
    pub fn is_live(self) -> bool {
        use RunState::*;
        matches!(self, Preparing | Waiting | Running | Attached | Verifying)
    }

    /// The public word.
    pub fn word(self) -> &'static str {
        use RunState::*;
        match self {
            Preparing => "preparing",
            Waiting => "waiting",
            Running => "running",
            Attached => "attached",
            Verifying => "verifying",
            NeedsInput => "needs-input",
            Succeeded => "succeeded",
            Unchanged => "unchanged",
            Failed => "failed",
            Stalled => "stalled",
            TimedOut => "timed-out",
            OverBudget => "over-budget",
            Skipped => "skipped",
            Stopped => "stopped",
            Dead => "dead",
            Interrupted => "interrupted",
        }
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How a branch stands to its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BranchState {
    /// No own commit, wherever it points.
    Fresh,
    /// Own commits on the base as it is.
    Ahead,
    /// Own commits, and the base has moved too.
    Diverged,
    /// Its work is in the base.
    Landed,
}

/// Why a worktree has no reason to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Zombie {
    /// Its work is in the base.
    Landed,
    /// The branch is gone.
    BranchGone,
    /// The upstream is gone.
    UpstreamGone,
    /// The directory is gone.
    Missing,
    /// A removal was cut short.
    HalfRemoved,
}

impl Zombie {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Zombie::Landed => "landed",
            Zombie::BranchGone => "branch-gone",
            Zombie::UpstreamGone => "upstream-gone",
            Zombie::Missing => "missing",
            Zombie::HalfRemoved => "half-removed",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_fold_alike_get_different_slugs() {
        let slugs: Vec<_> = ["feat/foo", "feat-foo", "Feat/Foo", "FEAT-FOO"].iter().map(|n| Slug::of(n)).collect();
        for (i, a) in slugs.iter().enumerate() {
            for b in &slugs[i + 1..] {
                assert_ne!(a, b);
            }
        }
        assert_eq!(Slug::of("feat-foo").0, "feat-foo");
    }

    proptest! {
        #[test]
        fn every_slug_is_a_safe_label(name in "\\PC{0,80}") {
            let s = Slug::of(&name).0;
            prop_assert!(!s.is_empty() && s.len() <= 40);
            prop_assert!(s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
            prop_assert!(!s.starts_with('-') && !s.ends_with('-'));
        }
    }
}
