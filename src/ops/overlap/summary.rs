//! Overlap for a listing: the worst of each party, within a time that nobody notices.

use super::Round;
use super::answer::Question;
use super::parties::Compared;
use crate::model::overlap::{Level, SideKind};
use crate::ops::answer::{Dirty, OverlapAnswer};
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// What takes longer is shown as not known yet, never waited for.
const LIMIT: Duration = Duration::from_millis(300);

/// What a listing says of everybody.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// The level of each pair that has one, by names; `None` where it could not be told.
    pub pairs: BTreeMap<(String, String), Option<Level>>,
    /// By agent.
    pub agents: BTreeMap<String, OverlapAnswer>,
    /// By the top of the tree of a checkout that takes part.
    pub checkouts: BTreeMap<PathBuf, OverlapAnswer>,
    /// What is not committed, by the top of a tree, where it was counted on the way.
    pub dirty: BTreeMap<PathBuf, Dirty>,
}

/// Compares everybody.
pub fn summary(ctx: &Context, inv: &Inventory) -> Result<Summary> {
    let round = Round::begin_within(ctx, LIMIT)?;
    let compared = Compared::read(ctx, inv, &round, &Question::default())?;
    Ok(summed(&round, &compared))
}

/// The worst of each of those who were compared.
pub(super) fn summed(round: &Round<'_>, c: &Compared) -> Summary {
    let mut out = Summary::default();
    for (tree, counts) in c.counted() {
        let (modified, untracked, conflicted) = counts;
        out.dirty.insert(tree, Dirty { modified, untracked, conflicted });
    }
    let Some(base) = c.base_commit() else { return out };
    let pairs = super::pairs_of(&c.sides);
    let found = round.pairs(base, &c.sides, &pairs);
    let free = OverlapAnswer { level: Some(Level::None), ..OverlapAnswer::default() };
    let mut answers = vec![free; c.sides.len()];
    for p in found.iter().filter(|p| p.level != Some(Level::None)) {
        out.pairs.insert((c.sides[p.a].name.clone(), c.sides[p.b].name.clone()), p.level);
        for (i, other) in [(p.a, p.b), (p.b, p.a)] {
            let (answer, other) = (&mut answers[i], c.sides[other].name.clone());
            match p.level {
                None => answer.unknown.push(other),
                worse if worse > answer.level => (answer.level, answer.with) = (worse, vec![other]),
                same if same == answer.level => answer.with.push(other),
                Some(_) => {}
            }
        }
    }
    for (i, (side, mut answer)) in c.sides.iter().zip(answers).enumerate() {
        if side.commit.is_err() || (answer.level == Some(Level::None) && !answer.unknown.is_empty()) {
            answer.level = None;
        }
        match side.kind {
            SideKind::Agent => drop(out.agents.insert(side.name.clone(), answer)),
            _ => drop(c.tree_of(i).map(|t| out.checkouts.insert(t, answer))),
        }
    }
    out
}
