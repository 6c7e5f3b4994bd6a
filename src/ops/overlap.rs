//! Who meets whom: the one function that judges pairs. Report, status and demo only read its answer.
//!
//! Candidates by meeting paths, the verdict by git's own merge of the two commits in the sterile dir. Levels between
//! `file` and `conflict` are not told apart here.

use super::{Context, Result};
use crate::git::sterile::{self, Merge};
use crate::model::agent::Oid;
use crate::model::overlap::{Level, Pair, Side};
use std::collections::BTreeSet;

/// The pairs with a level above `none`, or that could not be told. Pairs inside a group are left out. `base` gives the
/// attributes.
pub fn verdicts(ctx: &Context, base: &Oid, sides: &[Side]) -> Result<Vec<Pair>> {
    let changed: Vec<std::result::Result<BTreeSet<Vec<u8>>, String>> =
        super::inventory::in_parallel(sides, |s| Ok(changed_paths(ctx, base, &s.commit).map_err(|e| e.to_string())))?;
    let mut pairs = Vec::new();
    let mut asked: Vec<(usize, usize)> = Vec::new();
    for a in 0..sides.len() {
        for b in a + 1..sides.len() {
            if sides[a].group.is_some() && sides[a].group == sides[b].group {
                continue;
            }
            match (&changed[a], &changed[b]) {
                // One builds on the other: landing both is landing the later one.
                (Ok(x), Ok(y)) if meet(x, y) && stacked(ctx, &sides[a], &sides[b])? => {}
                (Ok(x), Ok(y)) if meet(x, y) => asked.push((a, b)),
                (Ok(_), Ok(_)) => {}
                (Err(why), _) | (_, Err(why)) => {
                    pairs.push(Pair { a, b, level: None, paths: Vec::new(), unknown: Some(why.clone()) });
                }
            }
        }
    }
    let commits: Vec<(Oid, Oid)> =
        asked.iter().map(|(a, b)| (sides[*a].commit.clone(), sides[*b].commit.clone())).collect();
    let merges = sterile::merges(ctx.repo(), &ctx.state.objects, Some(base), &commits)?;
    for ((a, b), merge) in asked.into_iter().zip(merges) {
        match merge {
            Merge::Conflict(paths) => pairs.push(Pair { a, b, level: Some(Level::Conflict), paths, unknown: None }),
            Merge::Unknown(why) => pairs.push(Pair { a, b, level: None, paths: Vec::new(), unknown: Some(why) }),
            Merge::Clean(_) => {
                if let (Ok(x), Ok(y)) = (&changed[a], &changed[b]) {
                    let paths: Vec<Vec<u8>> = x.intersection(y).cloned().collect();
                    if !paths.is_empty() {
                        pairs.push(Pair { a, b, level: Some(Level::File), paths, unknown: None });
                    }
                }
            }
        }
    }
    pairs.sort_by(|x, y| {
        let rank = |p: &Pair| std::cmp::Reverse(p.level);
        (rank(x), &x.paths, x.a, x.b).cmp(&(rank(y), &y.paths, y.a, y.b))
    });
    Ok(pairs)
}

fn stacked(ctx: &Context, a: &Side, b: &Side) -> Result<bool> {
    let o = &ctx.state.objects;
    Ok(o.is_ancestor(&a.commit, &b.commit)? || o.is_ancestor(&b.commit, &a.commit)?)
}

/// The verdict of merging each side into the base as it is now: `None` clean, else the pair's words.
pub fn with_base(ctx: &Context, base: &Oid, sides: &[Side]) -> Result<Vec<Merge>> {
    let pairs: Vec<(Oid, Oid)> = sides.iter().map(|s| (base.clone(), s.commit.clone())).collect();
    Ok(sterile::merges(ctx.repo(), &ctx.state.objects, Some(base), &pairs)?)
}

/// Paths that differ between the merge base and the commit. No rename is followed: source and destination are both there.
fn changed_paths(ctx: &Context, base: &Oid, commit: &Oid) -> Result<BTreeSet<Vec<u8>>> {
    let from = ctx.state.objects.merge_bases(base, commit)?;
    let mut out = BTreeSet::new();
    for m in &from {
        out.extend(ctx.state.objects.changed_paths(m, commit)?);
    }
    if from.is_empty() {
        return Err(super::Error::Refused { what: "no common history with the base".into(), hint: None });
    }
    Ok(out)
}

/// Whether two change sets may interact: the same path, a file where the other has a directory, or something below a
/// directory the other took away (every path of which is in its set). Never too few.
fn meet(x: &BTreeSet<Vec<u8>>, y: &BTreeSet<Vec<u8>>) -> bool {
    let dirs = |set: &BTreeSet<Vec<u8>>| -> BTreeSet<Vec<u8>> {
        set.iter().flat_map(|p| parents(p).map(<[u8]>::to_vec).collect::<Vec<_>>()).collect()
    };
    if x.intersection(y).next().is_some() {
        return true;
    }
    // A directory that both touch: an addition there may meet a rename of the directory.
    dirs(x).intersection(&dirs(y)).next().is_some()
        || dirs(x).intersection(y).next().is_some()
        || dirs(y).intersection(x).next().is_some()
}

fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| &path[..i])
}
