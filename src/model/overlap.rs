//! Who meets whom, and how badly.

use super::agent::Oid;
use serde::{Deserialize, Serialize};

/// How two sides meet, weakest first. `unknown` is no level: see [`Pair::unknown`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Not at all.
    None,
    /// The same file.
    File,
    /// The same hunk, or within three lines.
    Near,
    /// The same definition.
    Symbol,
    /// A merge cannot combine them.
    Conflict,
}

impl Level {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Level::None => "none",
            Level::File => "file",
            Level::Near => "near",
            Level::Symbol => "symbol",
            Level::Conflict => "conflict",
        }
    }
}

/// One side of a comparison: a commit with a name for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// For people.
    pub name: String,
    /// What is compared.
    pub commit: Oid,
    /// Rivals share one; no alarm inside it.
    pub group: Option<String>,
}

/// What two sides are to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Index of the one side; smaller than `b`.
    pub a: usize,
    /// Index of the other.
    pub b: usize,
    /// The worst level; `None` where it is unknown.
    pub level: Option<Level>,
    /// Where they meet, exact bytes, sorted; the conflicted paths of a conflict.
    pub paths: Vec<Vec<u8>>,
    /// Why it could not be told. Never to be read as free of overlap.
    pub unknown: Option<String>,
}

/// The order in which landing stops least, by what is known of pairs: fewest conflicts first, then the given order. Each
/// entry: index, and the indices before it that it conflicts with.
pub fn landing_order(count: usize, pairs: &[Pair]) -> Vec<(usize, Vec<usize>)> {
    let conflicts = |i: usize, j: usize| {
        pairs.iter().any(|p| p.level == Some(Level::Conflict) && (p.a, p.b) == (i.min(j), i.max(j)))
    };
    let mut left: Vec<usize> = (0..count).collect();
    let mut out: Vec<(usize, Vec<usize>)> = Vec::new();
    while !left.is_empty() {
        let cost = |i: usize| {
            let with_landed = out.iter().filter(|(l, _)| conflicts(*l, i)).count();
            let with_left = left.iter().filter(|o| **o != i && conflicts(**o, i)).count();
            (with_landed, with_left)
        };
        let best = left.iter().copied().min_by_key(|i| cost(*i)).expect("not empty");
        let met = out.iter().map(|(l, _)| *l).filter(|l| conflicts(*l, best)).collect();
        out.push((best, met));
        left.retain(|i| *i != best);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(a: usize, b: usize) -> Pair {
        Pair { a, b, level: Some(Level::Conflict), paths: vec![], unknown: None }
    }

    #[test]
    fn what_meets_nobody_lands_first_and_the_one_that_meets_all_last() {
        let order = landing_order(3, &[conflict(0, 1), conflict(0, 2)]);
        assert_eq!(order, [(1, vec![]), (2, vec![]), (0, vec![1, 2])]);
    }
}
