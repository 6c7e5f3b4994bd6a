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

/// One step of the order of landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landing {
    /// The side.
    pub side: usize,
    /// The sides before it that it conflicts with.
    pub conflicts: Vec<usize>,
    /// Its rivals, which stay out because this one lands.
    pub instead_of: Vec<usize>,
}

/// The order in which landing stops least, by what is known of pairs: fewest conflicts first, then the given order. Of
/// the rivals of a group one lands: of those with the lowest `rank` the one that stops least.
pub fn landing_order(sides: &[Side], pairs: &[Pair], rank: impl Fn(usize) -> u8) -> Vec<Landing> {
    let rivals = |i: usize, j: usize| i != j && sides[i].group.is_some() && sides[i].group == sides[j].group;
    let conflicts = |i: usize, j: usize| {
        pairs.iter().any(|p| p.level == Some(Level::Conflict) && (p.a, p.b) == (i.min(j), i.max(j)))
    };
    let all = || 0..sides.len();
    let mut left: Vec<usize> = all().filter(|i| !all().any(|j| rivals(*i, j) && rank(j) < rank(*i))).collect();
    let mut out: Vec<Landing> = Vec::new();
    while !left.is_empty() {
        let cost = |i: usize| {
            let with_landed = out.iter().filter(|l| conflicts(l.side, i)).count();
            let with_left = left.iter().filter(|o| **o != i && conflicts(**o, i)).count();
            (with_landed, with_left)
        };
        let best = left.iter().copied().min_by_key(|i| cost(*i)).expect("not empty");
        let met = out.iter().map(|l| l.side).filter(|l| conflicts(*l, best)).collect();
        out.push(Landing { side: best, conflicts: met, instead_of: all().filter(|i| rivals(best, *i)).collect() });
        left.retain(|i| *i != best && !rivals(best, *i));
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
        let order = landing_order(&sides("..."), &[conflict(0, 1), conflict(0, 2)], |_| 0);
        let order: Vec<_> = order.into_iter().map(|l| (l.side, l.conflicts)).collect();
        assert_eq!(order, [(1, vec![]), (2, vec![]), (0, vec![1, 2])]);
    }

    /// One side a letter; a dot is in no group.
    fn sides(groups: &str) -> Vec<Side> {
        let side = |c: char| Side {
            name: String::new(),
            commit: Oid::parse(&"1".repeat(40)).unwrap(),
            group: (c != '.').then(|| c.to_string()),
        };
        groups.chars().map(side).collect()
    }

    #[test]
    fn of_rivals_one_lands_the_best_of_them_and_of_those_the_one_that_stops_least() {
        let order = |pairs: &[Pair], ranks: [u8; 4]| {
            let order = landing_order(&sides("a.aa"), pairs, |i| ranks[i]);
            order.into_iter().map(|l| (l.side, l.instead_of)).collect::<Vec<_>>()
        };
        assert_eq!(order(&[], [0; 4]), [(0, vec![2, 3]), (1, vec![])]);
        assert_eq!(order(&[conflict(0, 1)], [0; 4]), [(2, vec![0, 3]), (1, vec![])]);
        assert_eq!(order(&[conflict(0, 1)], [0, 0, 1, 1]), [(0, vec![2, 3]), (1, vec![])]);
        assert_eq!(order(&[], [2, 0, 1, 0]), [(1, vec![]), (3, vec![0, 2])]);
    }
}
