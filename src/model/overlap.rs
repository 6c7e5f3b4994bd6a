//! Who meets whom, and how badly.

use super::agent::Oid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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

/// Why a merge stops on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the words say it; the manual has the table")]
pub enum Kind {
    Content,
    AddAdd,
    ModifyDelete,
    RenameRename,
    RenameDelete,
    /// One side renamed a directory, the other has something new in it.
    DirectoryRename,
    DirectoryFile,
    Mode,
    Binary,
    Submodule,
    Symlink,
}

impl Kind {
    /// The public word.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Content => "content",
            Kind::AddAdd => "add-add",
            Kind::ModifyDelete => "modify-delete",
            Kind::RenameRename => "rename-rename",
            Kind::RenameDelete => "rename-delete",
            Kind::DirectoryRename => "directory-rename",
            Kind::DirectoryFile => "directory-file",
            Kind::Mode => "mode",
            Kind::Binary => "binary",
            Kind::Submodule => "submodule",
            Kind::Symlink => "symlink",
        }
    }
}

/// What a side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SideKind {
    /// An agent.
    Agent,
    /// A checkout that no agent has: the main one, the user's own.
    Checkout,
    /// A remote-tracking branch.
    Remote,
    /// A branch.
    Branch,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// For people; unique among the sides that are compared.
    pub name: String,
    /// What it is.
    pub kind: SideKind,
    /// Rivals share one; no alarm inside it.
    pub group: Option<String>,
    /// The commit it stands on, where there is one.
    pub tip: Option<Oid>,
    /// What is compared: the tip, or uncommitted work wrapped in a commit. An error says why there is nothing.
    pub commit: Result<Oid, String>,
    /// Something is not committed.
    pub dirty: bool,
    /// It is resolving a conflict: compared by its tip, for markers are no work.
    pub unmerged: bool,
    /// Paths whose content could not be told, with the reason.
    pub doubtful: BTreeMap<Vec<u8>, String>,
    /// Names of those whose work it was begun on top of.
    pub after: Vec<String>,
    /// How many paths are modified, untracked and in conflict, where somebody counted.
    pub counts: Option<(usize, usize, usize)>,
}

impl Side {
    /// A side by its commit alone.
    pub fn at(name: impl Into<String>, kind: SideKind, group: Option<String>, tip: Oid) -> Side {
        Side {
            name: name.into(),
            kind,
            group,
            tip: Some(tip.clone()),
            commit: Ok(tip),
            dirty: false,
            unmerged: false,
            doubtful: BTreeMap::new(),
            after: Vec::new(),
            counts: None,
        }
    }

    /// A side there is nothing to compare of.
    pub fn unknown(name: impl Into<String>, kind: SideKind, group: Option<String>, why: impl Into<String>) -> Side {
        let why = why.into();
        Side {
            name: name.into(),
            kind,
            group,
            tip: None,
            commit: Err(why),
            dirty: false,
            unmerged: false,
            doubtful: BTreeMap::new(),
            after: Vec::new(),
            counts: None,
        }
    }
}

/// Lines of a file, first and last, counted from 1.
pub type Lines = (u32, u32);

/// A path two sides meet on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meeting {
    /// Exact bytes.
    pub path: Vec<u8>,
    /// How badly.
    pub level: Level,
    /// Why a merge stops, where it does.
    pub kind: Option<Kind>,
    /// Where, in the one side's version; empty where lines say nothing (binary, deleted, renamed).
    pub a_lines: Vec<Lines>,
    /// The same in the other's.
    pub b_lines: Vec<Lines>,
    /// The definition both changed, or the one side changed and the other begins to use.
    pub symbol: Option<String>,
    /// The other side's path, where it is another one.
    pub other: Option<Vec<u8>>,
    /// One side changes nothing here but line endings.
    pub endings: bool,
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
    /// Where they meet, sorted by path; only the conflicted paths of a conflict have a kind.
    pub meetings: Vec<Meeting>,
    /// Names that some file systems cannot keep apart: they differ in case or in Unicode form only. No conflict.
    pub twins: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why it could not be told, of all or (with a level) of some. Never to be read as free of overlap.
    pub unknown: Option<String>,
    /// The paths that `unknown` is about; all of them where there is none.
    pub doubts: Vec<Vec<u8>>,
}

impl Pair {
    /// Two that do not meet.
    pub fn free(a: usize, b: usize) -> Pair {
        Pair {
            a,
            b,
            level: Some(Level::None),
            meetings: Vec::new(),
            twins: Vec::new(),
            unknown: None,
            doubts: Vec::new(),
        }
    }

    /// The paths of the worst level.
    pub fn paths(&self) -> Vec<&[u8]> {
        self.meetings.iter().filter(|m| Some(m.level) == self.level).map(|m| m.path.as_slice()).collect()
    }

    /// Whether a merge would stop.
    pub fn conflicts(&self) -> bool {
        self.level == Some(Level::Conflict)
    }

    /// The same, asked the other way round.
    pub fn swapped(mut self) -> Pair {
        for m in &mut self.meetings {
            std::mem::swap(&mut m.a_lines, &mut m.b_lines);
            if let Some(other) = &mut m.other {
                std::mem::swap(&mut m.path, other);
            }
        }
        for t in &mut self.twins {
            std::mem::swap(&mut t.0, &mut t.1);
        }
        self
    }
}

/// What is known of one side after the comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideFacts {
    /// The tree that was compared.
    pub tree: Option<Oid>,
    /// Where it left the base; `None` where it has nothing in common with it.
    pub merge_base: Option<Oid>,
    /// How many paths it changes since then; `None` where nobody had to look.
    pub paths: Option<usize>,
    /// Why it could not be compared at all.
    pub unknown: Option<String>,
}

/// The answer about all pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    /// Pairs with a level above `none`, with a warning, or that could not be told; worst first, then path, then names.
    pub pairs: Vec<Pair>,
    /// One for each side, in their order.
    pub sides: Vec<SideFacts>,
}

/// One step of landing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The side that lands.
    pub side: usize,
    /// Those before it that it conflicts with.
    pub conflicts_with_landed: Vec<usize>,
    /// Its rivals, which stay out because this one lands.
    pub instead_of: Vec<usize>,
    /// Where landing it on what has landed before stops; empty where it does not.
    pub stops: Vec<Vec<u8>>,
    /// Why that could not be told.
    pub unknown: Option<String>,
    /// What there is when it has landed; `None` where it stops.
    pub tree: Option<Oid>,
}

/// From this rank on a side lands after all others, whatever it meets: nobody wants it as it is.
pub const LAST: u8 = 3;

/// The order to try, by what is known of pairs: what meets fewest first, then the lowest `rank`, then the given order;
/// [`LAST`] comes last. Of the rivals of a group one lands: of those with the lowest `rank` the one that stops least.
pub fn landing_order(sides: &[Side], pairs: &[Pair], rank: &dyn Fn(usize) -> u8) -> Vec<usize> {
    let mut meets = vec![std::collections::BTreeSet::new(); sides.len()];
    for p in pairs.iter().filter(|p| p.conflicts()) {
        meets[p.a].insert(p.b);
        meets[p.b].insert(p.a);
    }
    let known: Vec<usize> = (0..sides.len()).filter(|i| sides[*i].commit.is_ok()).collect();
    let better = |i: usize, j: usize| i != j && same_group(&sides[i], &sides[j]) && rank(j) < rank(i);
    let mut left: Vec<usize> = known.iter().copied().filter(|i| !known.iter().any(|j| better(*i, *j))).collect();
    let mut out: Vec<usize> = Vec::new();
    while !left.is_empty() {
        let cost = |i: &usize| {
            let with_landed = out.iter().filter(|l| meets[*i].contains(l)).count();
            let with_left = left.iter().filter(|o| meets[*i].contains(o) && rank(**o) < LAST).count();
            (rank(*i) >= LAST, with_landed, with_left, rank(*i))
        };
        let best = left.iter().copied().min_by_key(cost).expect("not empty");
        out.push(best);
        left.retain(|i| *i != best && !same_group(&sides[*i], &sides[best]));
    }
    out
}

/// Whether two are rivals for one task.
pub fn same_group(a: &Side, b: &Side) -> bool {
    a.group.is_some() && a.group == b.group
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conflict(a: usize, b: usize) -> Pair {
        Pair { a, b, level: Some(Level::Conflict), meetings: vec![], twins: vec![], unknown: None, doubts: vec![] }
    }

    fn sides(groups: &[Option<&str>]) -> Vec<Side> {
        let side = |(i, g): (usize, &Option<&str>)| {
            Side::at(i.to_string(), SideKind::Agent, g.map(str::to_owned), Oid("0".repeat(40)))
        };
        groups.iter().enumerate().map(side).collect()
    }

    #[test]
    fn what_meets_nobody_lands_first_and_the_one_that_meets_all_last() {
        let order = landing_order(&sides(&[None, None, None]), &[conflict(0, 1), conflict(0, 2)], &|_| 0);
        assert_eq!(order, [1, 2, 0]);
        // Of two that only stop on each other the one that is ready.
        let order = landing_order(&sides(&[None, None]), &[conflict(0, 1)], &|i| 1 - i as u8);
        assert_eq!(order, [1, 0]);
        // What nobody wants is in nobody's way, whatever the others meet.
        let order = landing_order(&sides(&[None, None, None]), &[conflict(1, 2)], &|i| [LAST, 1, 2][i]);
        assert_eq!(order, [1, 2, 0]);
        let order = landing_order(&sides(&[None, None, None]), &[conflict(0, 1)], &|i| [LAST, 1, 2][i]);
        assert_eq!(order, [1, 2, 0]);
    }

    #[test]
    fn of_rivals_one_lands_the_best_of_them_and_of_those_the_one_that_stops_least() {
        let sides = sides(&[Some("g"), None, Some("g"), Some("g")]);
        let order = |pairs: &[Pair], ranks: [u8; 4]| landing_order(&sides, pairs, &|i| ranks[i]);
        assert_eq!(order(&[], [0; 4]), [0, 1]);
        assert_eq!(order(&[conflict(0, 1)], [0; 4]), [2, 1]);
        assert_eq!(order(&[conflict(0, 1)], [0, 0, 1, 1]), [0, 1]);
        assert_eq!(order(&[], [2, 0, 1, 0]), [1, 3]);
    }
}
