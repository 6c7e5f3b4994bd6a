//! Rebasing an agent's branch on where its base is now, in its own worktree.

use super::{Context, Error, Result};
use crate::model::agent::Oid;

/// How to sync.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The commit to rebase on, where that is not the one its base stands on.
    pub onto: Option<Oid>,
    /// Uncommitted work goes along.
    pub carry: bool,
    /// Only say what would happen.
    pub dry_run: bool,
    /// Nobody asked for this one: it happens only where nobody is near.
    pub unasked: bool,
    /// Untracked files that are not work.
    pub throw_away: Vec<String>,
    /// Bytes a captured file may have.
    pub capture_max_file: u64,
}

/// What became of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It sits on its base as that is now.
    Synced(Synced),
    /// It did before; the name of what it sits on.
    Standing(String),
    /// Nothing was touched.
    Kept {
        /// Why, paths named.
        why: String,
        /// What to do.
        hint: Option<String>,
    },
    /// git did not do what the trial had said; everything is as it was before.
    Failed {
        /// Why.
        why: String,
    },
}

/// One that was rebased, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Synced {
    /// What it sits on now, for people.
    pub on: String,
    /// The commit of that.
    pub onto: Oid,
    /// Its tip before.
    pub from: Oid,
    /// Its tip now; none where it was only tried.
    pub to: Option<Oid>,
    /// How many commits it has on top.
    pub commits: usize,
    /// How many files with uncommitted work went along.
    pub carried: usize,
    /// The reference that keeps the old tip.
    pub kept: Option<String>,
    /// What was decided that the user did not say.
    pub note: Option<String>,
}

/// Rebases one agent by name: tried first, then done in its worktree, nothing half.
pub fn sync(_ctx: &Context, name: &str, _options: &Options) -> Result<Outcome> {
    Err(Error::refused(format!("'{name}' cannot be synced yet"), "git rebase"))
}
