//! What a test command said of a tree: a line of the note on the tree. It holds for that tree and for a command run in
//! the same way, which the digest says; on which branch or in which worktree the tree was does not matter.

use serde::{Deserialize, Serialize};

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
    /// The tests that failed, where the output names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing: Vec<String>,
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
            seconds: 3,
        }
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
