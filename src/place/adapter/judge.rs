//! How a run ended.
//!
//! An exit code lies both ways: several assistants exit 0 when their permissions kept them from doing anything, or
//! say "success" beside an error. So all signs must agree, and what git shows has the last word on success.

use super::Adapter;
use crate::model::agent::RunState;

/// Which of the assistant's own signs must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum VerdictBy {
    /// The exit code is its word; an event may only add a "no".
    ExitCode,
    /// It always reports its end; an end without that report is a failure, whatever the exit code.
    Event,
}

/// What is known when the process is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// `None` when a signal ended it, or it never started.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The `ok` of its last [`Activity::Finished`](super::Activity::Finished).
    pub finished: Option<bool>,
    /// Own commits on the branch.
    pub own_commits: bool,
    /// The worktree differs from the base, known leftovers aside; uncommitted work counts.
    pub changed: bool,
}

/// The state that follows from `facts`, and the reason where it is not success. What the supervisor itself decided
/// (stopped, timed out, stalled, needs input) is not asked here.
pub fn judge(adapter: &Adapter, facts: &Facts) -> (RunState, Option<String>) {
    let name = &adapter.name;
    let failed = |why: String| (RunState::Failed, Some(why));
    match *facts {
        Facts { signal: Some(n), .. } => failed(format!("{name} was ended by signal {n}")),
        Facts { exit_code: None, .. } => failed(format!("how {name} ended is not known")),
        // The shell's words for what could not be started.
        Facts { exit_code: Some(127), finished: None, .. } => {
            failed(format!("{name} exited with 127: a command was not found"))
        }
        Facts { exit_code: Some(n), .. } if n != 0 => {
            let meaning = adapter.exits.iter().find(|(code, _)| *code == n).map(|(_, words)| format!(": {words}"));
            failed(format!("{name} exited with {n}{}", meaning.unwrap_or_default()))
        }
        Facts { finished: Some(false), .. } => failed(format!("{name} reported that it did not succeed")),
        Facts { finished: None, .. } if adapter.verdict == VerdictBy::Event => {
            failed(format!("{name} ended without reporting a result"))
        }
        Facts { own_commits: false, changed: false, .. } => {
            (RunState::Unchanged, Some(format!("{name} finished and changed nothing")))
        }
        _ => (RunState::Succeeded, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::adapter::{Program, built_in};

    fn state(verdict: VerdictBy, facts: Facts) -> RunState {
        let mut row = built_in("scripted").unwrap();
        row.program = Program::Shell("x".into());
        row.verdict = verdict;
        let (state, reason) = judge(&row, &facts);
        assert_eq!(reason.is_none(), state == RunState::Succeeded);
        state
    }

    #[test]
    fn every_sign_can_say_no_and_git_decides_last() {
        use RunState::*;
        use VerdictBy::*;
        let good = Facts { exit_code: Some(0), signal: None, finished: Some(true), own_commits: true, changed: true };
        let cases = [
            (good, ExitCode, Succeeded),
            (Facts { finished: None, ..good }, ExitCode, Succeeded),
            (Facts { finished: None, ..good }, Event, Failed),
            (Facts { finished: Some(false), ..good }, ExitCode, Failed),
            (Facts { finished: Some(false), ..good }, Event, Failed),
            (Facts { exit_code: Some(3), ..good }, Event, Failed),
            (Facts { exit_code: None, signal: Some(9), ..good }, ExitCode, Failed),
            (Facts { exit_code: None, ..good }, ExitCode, Failed),
            (Facts { own_commits: false, ..good }, ExitCode, Succeeded),
            (Facts { changed: false, ..good }, ExitCode, Succeeded),
            (Facts { own_commits: false, changed: false, ..good }, Event, Unchanged),
            (Facts { own_commits: false, changed: false, exit_code: Some(1), ..good }, Event, Failed),
        ];
        for (facts, verdict, expected) in cases {
            assert_eq!(state(verdict, facts), expected, "{facts:?} by {verdict:?}");
        }
    }
}
