//! Which lines a side changed, and whether two sides' lines are close. It decides no conflict: git does.

use crate::model::overlap::Lines;
use std::ops::Range;
use std::time::{Duration, Instant};

/// What is closer than this many unchanged lines counts as the same place.
const NEAR: usize = 3;
/// Longer files are not compared by line.
const LARGEST: usize = 4 << 20;
/// More ranges of one file are of no use to anybody.
const MOST: usize = 50;

/// One change: lines of the old version, replaced by lines of the new one. Counted from 0, the end excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// In the old version.
    pub(super) old: Range<usize>,
    /// In the new version.
    pub(super) new: Range<usize>,
}

/// The changes from `old` to `new`; `None` for what has no lines.
pub(super) fn hunks(old: &[u8], new: &[u8]) -> Option<Vec<Hunk>> {
    let binary = |b: &[u8]| b.len() > LARGEST || b[..b.len().min(8000)].contains(&0);
    if binary(old) || binary(new) {
        return None;
    }
    let (a, b) = (split(old), split(new));
    // The deadline makes the answer coarser, never wrong: a coarse change covers a fine one.
    let deadline = Some(Instant::now() + Duration::from_millis(200));
    let ops = similar::capture_diff_slices_deadline(similar::Algorithm::Myers, &a, &b, deadline);
    let mut out: Vec<Hunk> = Vec::new();
    for op in ops.iter().filter(|o| o.tag() != similar::DiffTag::Equal) {
        let (old, new) = (op.old_range(), op.new_range());
        match out.last_mut() {
            Some(last) if last.old.end == old.start && last.new.end == new.start => {
                (last.old.end, last.new.end) = (old.end, new.end);
            }
            _ => out.push(Hunk { old, new }),
        }
    }
    Some(out)
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|b| *b == b'\n').collect()
}

/// Whether both are the same text but for its line endings.
pub(super) fn only_endings(old: &[u8], new: &[u8]) -> bool {
    let plain = |b: &[u8]| -> Vec<u8> {
        b.split(|c| *c == b'\n').flat_map(|l| [l.strip_suffix(b"\r").unwrap_or(l), b"\n"].concat()).collect()
    };
    // Without one of them there is nothing to tell, and no copy to make.
    let returns = |b: &[u8]| b.contains(&b'\r');
    old != new
        && (returns(old) || returns(new))
        && old.len().abs_diff(new.len()) <= old.len().max(new.len()) / 2 + 2
        && plain(old) == plain(new)
}

/// The changes of each side that are near one of the other's; both empty where none is.
pub(super) fn near<'a>(a: &'a [Hunk], b: &'a [Hunk]) -> (Vec<&'a Hunk>, Vec<&'a Hunk>) {
    let close = |x: &Hunk, y: &Hunk| x.old.start.max(y.old.start) <= x.old.end.min(y.old.end) + NEAR;
    let of = |these: &'a [Hunk], those: &[Hunk]| these.iter().filter(|x| those.iter().any(|y| close(x, y))).collect();
    (of(a, b), of(b, a))
}

/// Where in the new version; a pure deletion is where the lines were.
pub(super) fn lines<'a>(hunks: impl IntoIterator<Item = &'a Hunk>) -> Vec<Lines> {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let one = |h: &Hunk| (number(h.new.start + 1), number(h.new.end.max(h.new.start + 1)));
    hunks.into_iter().take(MOST).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> Vec<u8> {
        lines.iter().flat_map(|l| l.bytes().chain([b'\n'])).collect()
    }

    #[test]
    fn lines_are_counted_in_the_new_version() {
        let old = text(&["a", "b", "c", "d"]);
        let found = hunks(&old, &text(&["a", "x", "y", "c"])).unwrap();
        assert_eq!(lines(&found), [(2, 3), (5, 5)]);
        assert_eq!(hunks(&old, b"\0"), None);
        assert_eq!(hunks(&old, &old), Some(vec![]));
    }

    #[test]
    fn three_lines_between_are_near_and_four_are_not() {
        let hunk = |at: usize| Hunk { old: at..at + 1, new: at..at + 1 };
        for (other, is) in [(10, true), (13, true), (14, true), (15, false), (6, true), (5, false)] {
            assert_eq!(!near(&[hunk(10)], &[hunk(other)]).0.is_empty(), is, "{other}");
        }
    }
}
