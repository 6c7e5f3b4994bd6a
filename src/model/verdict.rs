//! What a test command said of a tree: a line of the note on the tree. It holds for that tree and for a command run in
//! the same way, which the digest says; on which branch or in which worktree the tree was does not matter.
//!
//! And what two such say together: of a tip, beside the commit it started from.

use super::agent::Oid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Names of tests that failed, in one run: they are noted, and the journal is read by everyone.
pub const MOST: usize = 500;

/// The names of one run; none where there are more than are kept. Of a list that was cut nobody can say what passed: what
/// is missing there would look as if it failed newly, were flaky or fixed.
pub fn all_or_none(names: BTreeSet<String>) -> Vec<String> {
    if names.len() > MOST { Vec::new() } else { names.into_iter().collect() }
}

/// One verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// When (RFC 3339, UTC).
    pub at: String,
    /// Of the command, the setup before it and the names of the variables it got.
    pub digest: String,
    /// The command, for people.
    pub command: String,
    /// Whether it passed.
    pub passed: bool,
    /// Its exit code.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The tests that failed, where they have names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
    /// Those that failed once and passed once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flaky: Vec<String>,
    /// It failed, and was asked once more: the rest is what both said together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    /// Files that it left, not ignored, as they are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_behind: Vec<String>,
    /// How long it took.
    pub seconds: u64,
}

/// The verdict with `digest` in a note.
pub fn find(note: &[u8], digest: &str) -> Option<Verdict> {
    note.split(|b| *b == b'\n').rev().find_map(|l| read(l).filter(|v| v.digest == digest))
}

/// The note with this verdict in the place of an older one with its digest; every other line stays as it is.
pub fn put(note: &[u8], verdict: &Verdict) -> Vec<u8> {
    let stays = |l: &&[u8]| !l.is_empty() && read(l).is_none_or(|v| v.digest != verdict.digest);
    let line = serde_json::to_vec(verdict).expect("a verdict is plain JSON");
    let lines = note.split(|b| *b == b'\n').filter(stays).chain([line.as_slice()]);
    lines.flat_map(|l| [l, b"\n"].concat()).collect()
}

/// What one tree's test came to, for a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether it passed, flaky or not; `None` where it could not be told.
    pub passed: Option<bool>,
    /// It failed first.
    pub again: bool,
    /// Names.
    pub failing: Vec<String>,
    /// Names.
    pub flaky: Vec<String>,
}

impl Outcome {
    fn word(&self) -> Word {
        match self.passed {
            None => Word::Unknown,
            Some(false) => Word::Fail,
            Some(true) if self.again => Word::Flaky,
            Some(true) => Word::Pass,
        }
    }
}

/// How a test went, as `--json` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words say it")]
pub enum Word {
    Pass,
    Fail,
    Flaky,
    Unknown,
}

impl Word {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Word::Pass => "pass",
            Word::Fail => "fail",
            Word::Flaky => "flaky",
            Word::Unknown => "unknown",
        }
    }
}

/// A tip beside its base: what the journal's `tested` event holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// The command, for people.
    pub command: String,
    /// The tree of the tip.
    pub tree: Oid,
    /// The commit it is compared with.
    pub base: Oid,
    /// How that went.
    pub baseline: Word,
    /// How the tip went.
    pub now: Word,
    /// The tip does worse than its base, named or not.
    pub breaks: bool,
    /// Fail on the tip and not on the base.
    #[serde(default)]
    pub newly_failing: Vec<String>,
    /// Fail on both.
    #[serde(default)]
    pub still_failing: Vec<String>,
    /// Failed on the base and not on the tip.
    #[serde(default)]
    pub fixed: Vec<String>,
    /// Failed and passed on the tip.
    #[serde(default)]
    pub flaky: Vec<String>,
    /// Whether tests were told apart by name, and not by the exit code alone.
    pub by_name: bool,
    /// Why it did not pass, or is unknown.
    #[serde(default)]
    pub reason: Option<String>,
    /// Files that it left on the tip, not ignored, as they are shown.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// Of the tip.
    pub seconds: u64,
}

impl Compared {
    /// Compares. What cannot be told apart by name is told by the exit code: a tip that fails beside a base that passes
    /// is worse, beside one that fails it is not; a tip that names nothing beside a base that does (it does not even
    /// build) is.
    pub fn of(command: String, tree: Oid, base: Oid, tip: &Outcome, at_base: &Outcome) -> Compared {
        let minus = |a: &[String], b: &[String]| a.iter().filter(|n| !b.contains(n)).cloned().collect::<Vec<String>>();
        let (mut newly, mut still, mut fixed, mut breaks) = (Vec::new(), Vec::new(), Vec::new(), false);
        match (tip.passed, at_base.passed) {
            (Some(false), Some(true)) => (newly, breaks) = (tip.failing.clone(), true),
            (Some(false), Some(false)) if !at_base.failing.is_empty() => {
                newly = minus(&tip.failing, &at_base.failing);
                still = minus(&tip.failing, &newly);
                breaks = !newly.is_empty() || tip.failing.is_empty();
                if !tip.failing.is_empty() {
                    fixed = minus(&minus(&at_base.failing, &tip.failing), &tip.flaky);
                }
            }
            (Some(true), Some(false)) => fixed = minus(&at_base.failing, &tip.flaky),
            _ => {}
        }
        let flaky = tip.flaky.clone();
        let by_name = [&newly, &still, &fixed, &flaky].iter().any(|names| !names.is_empty());
        Compared {
            command,
            tree,
            base,
            baseline: at_base.word(),
            now: tip.word(),
            breaks,
            newly_failing: newly,
            still_failing: still,
            fixed,
            flaky,
            by_name,
            reason: None,
            left_behind: Vec::new(),
            seconds: 0,
        }
    }

    /// How many fail that did not fail on the base; one where they have no names.
    pub fn newly(&self) -> usize {
        self.newly_failing.len().max(usize::from(self.breaks))
    }
}

fn read(line: &[u8]) -> Option<Verdict> {
    serde_json::from_slice(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(digest: &str, passed: bool) -> Verdict {
        let (at, command) = ("2026-01-01T00:00:00Z".into(), "make test".into());
        Verdict {
            at,
            digest: digest.into(),
            command,
            passed,
            exit_code: Some(i32::from(!passed)),
            failing: Vec::new(),
            flaky: Vec::new(),
            again: false,
            left_behind: Vec::new(),
            seconds: 3,
        }
    }

    fn outcome(passed: bool, failing: &[&str], flaky: &[&str]) -> Outcome {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        Outcome { passed: Some(passed), again: !flaky.is_empty(), failing: owned(failing), flaky: owned(flaky) }
    }

    #[test]
    fn newly_failing_still_failing_fixed_and_flaky_are_told_apart() {
        let oid = Oid("0".repeat(40));
        let of = |tip: &Outcome, base: &Outcome| {
            let c = Compared::of("t".into(), oid.clone(), oid.clone(), tip, base);
            let names = [&c.newly_failing, &c.still_failing, &c.fixed, &c.flaky].map(|n| n.join(" ")).join("|");
            (c.now.word(), c.baseline.word(), names, c.newly(), c.by_name)
        };
        let pass = outcome(true, &[], &[]);
        let fails = outcome(false, &[], &[]);
        let (ab, bc) = (outcome(false, &["a", "b"], &[]), outcome(false, &["b", "c"], &[]));
        assert_eq!(of(&pass, &pass), ("pass", "pass", "|||".into(), 0, false));
        assert_eq!(of(&bc, &ab), ("fail", "fail", "c|b|a|".into(), 1, true));
        assert_eq!(of(&bc, &pass), ("fail", "pass", "b c|||".into(), 2, true));
        assert_eq!(of(&pass, &ab), ("pass", "fail", "||a b|".into(), 0, true));
        assert_eq!(of(&ab, &ab), ("fail", "fail", "|a b||".into(), 0, true));
        // By the exit code alone.
        assert_eq!(of(&fails, &pass), ("fail", "pass", "|||".into(), 1, false));
        assert_eq!(of(&fails, &fails), ("fail", "fail", "|||".into(), 0, false));
        assert_eq!(of(&pass, &fails), ("pass", "fail", "|||".into(), 0, false));
        // Names on one side: what does not even build is worse than what names three; the other way nobody knows.
        assert_eq!(of(&fails, &ab), ("fail", "fail", "|||".into(), 1, false));
        assert_eq!(of(&ab, &fails), ("fail", "fail", "|||".into(), 0, false));
        // Flaky is no failure, and nothing that was fixed.
        assert_eq!(of(&outcome(true, &[], &["a"]), &ab), ("flaky", "fail", "||b|a".into(), 0, true));
        let unknown = Outcome::default();
        assert_eq!(of(&unknown, &pass), ("unknown", "pass", "|||".into(), 0, false));
        assert_eq!(of(&ab, &unknown), ("fail", "unknown", "|||".into(), 0, false));
    }

    #[test]
    fn another_way_to_run_is_another_verdict_and_foreign_lines_stay() {
        let note = put(&put(b"somebody's line", &verdict("a", false)), &verdict("b", true));
        assert_eq!((find(&note, "a"), find(&note, "b")), (Some(verdict("a", false)), Some(verdict("b", true))));
        assert_eq!(find(&note, "c"), None);
        let again = put(&note, &verdict("a", true));
        assert_eq!(find(&again, "a"), Some(verdict("a", true)));
        assert_eq!(again.split(|b| *b == b'\n').filter(|l| !l.is_empty()).count(), 3);
        assert!(again.starts_with(b"somebody's line\n"));
    }
}
