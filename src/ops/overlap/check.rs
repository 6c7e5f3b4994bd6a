//! Who else touches a path: what an assistant asks before it edits.

use super::answer::Question;
use super::parties::Compared;
use super::{Round, Touched};
use crate::model::agent::Name;
use crate::model::meet::is_below;
use crate::model::overlap::{Level, Lines, Meeting, Pair, Side, SideKind};
use crate::ops::answer::JsonPath;
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Somebody who touches a path.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct TouchAnswer {
    pub agent: String,
    pub level: Level,
    pub lines: Vec<Lines>,
    pub committed: bool,
}

/// A path that was asked about.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct CheckedPath {
    pub path: JsonPath,
    pub touched_by: Vec<TouchAnswer>,
    /// Agents of which it could not be told, and why.
    pub unknown: BTreeMap<String, String>,
}

/// `check --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Checked {
    /// Of this format.
    pub version: u32,
    /// Who asks; `null` where nobody's worktree is stood in.
    pub agent: Option<Name>,
    /// In the order they were asked.
    pub paths: Vec<CheckedPath>,
}

/// A file that is about to be written.
#[derive(Debug, Clone, Copy)]
pub struct Edit<'a> {
    /// All of it, as it is on disk; `None` where it is new.
    pub now: Option<&'a [u8]>,
    /// All of it, as it will be.
    pub text: &'a [u8],
}

/// Who else touches `paths` (from the top of the tree; a directory means what is below it), for the agent `me`, or for
/// whoever works in this checkout. With an `edit` the first of them is judged as it is going to be.
pub fn check(
    ctx: &Context,
    inv: &Inventory,
    me: Option<&Name>,
    paths: &[Vec<u8>],
    edit: Option<Edit<'_>>,
) -> Result<Checked> {
    let round = Round::begin(ctx)?;
    let mut c = Compared::read(ctx, inv, &round, &Question::default())?;
    let mine = me.and_then(|m| c.sides.iter().position(|s| s.kind == SideKind::Agent && s.name == m.0));
    let mine = mine.or_else(|| c.wake(ctx.repo().toplevel.as_deref()?));
    // Where it cannot be judged as it will be, it is as it is.
    if let (Some(edit), Some(path), Some(m)) = (edit, paths.first(), mine)
        && let Ok(side) = round.edited(&c.sides[m], path, edit)
    {
        c.sides[m] = side;
    }
    let c = c;
    let mut out: Vec<CheckedPath> = paths
        .iter()
        .map(|p| CheckedPath { path: JsonPath::from(p.as_slice()), touched_by: Vec::new(), unknown: BTreeMap::new() })
        .collect();
    let Some(base) = c.base_commit() else { return Ok(Checked { version: 1, agent: me.cloned(), paths: out }) };
    let others: Vec<usize> = (0..c.sides.len())
        .filter(|i| Some(*i) != mine)
        .filter(|i| mine.is_none_or(|m| !crate::model::overlap::same_group(&c.sides[m], &c.sides[*i])))
        .collect();
    let pairs = match mine {
        Some(m) => {
            let pairs: Vec<(usize, usize)> = others.iter().map(|o| (m.min(*o), m.max(*o))).collect();
            round.pairs(base, &c.sides, &pairs)
        }
        None => Vec::new(),
    };
    // What I change myself; where that is not known, as if it were nothing.
    let own = mine.and_then(|m| round.touched(base, &c.sides[m]).ok()).unwrap_or_default();
    let own: BTreeSet<&[u8]> = own.iter().map(|t| t.path.as_slice()).collect();
    for other in others {
        let side = &c.sides[other];
        let pair = mine.and_then(|m| pairs.iter().find(|p| (p.a, p.b) == (m.min(other), m.max(other))));
        let touched = round.touched(base, side);
        for (path, answer) in paths.iter().zip(&mut out) {
            let below = |p: &[u8]| is_below(p, path);
            let theirs = match &touched {
                Ok(t) => t,
                Err(why) => {
                    answer.unknown.insert(side.name.clone(), why.clone());
                    continue;
                }
            };
            let hits: Vec<&Touched> = theirs.iter().filter(|t| below(&t.path)).collect();
            // What I changed there myself says how badly.
            let about = |m: &&Meeting| {
                below(&m.path)
                    || m.other.as_deref().is_some_and(below)
                    || (m.kind.is_some() && (is_below(path, &m.path) || round.carried(m, path, &own, side, theirs)))
            };
            let met: Vec<&Meeting> = pair.iter().flat_map(|p| &p.meetings).filter(about).collect();
            if hits.is_empty() && met.is_empty() {
                continue;
            }
            let worst = met.iter().map(|m| m.level).max().unwrap_or(Level::File);
            let of_pair = met
                .iter()
                .filter(|m| m.level == worst)
                .flat_map(|m| if pair.is_some_and(|p| p.a == other) { m.a_lines.clone() } else { m.b_lines.clone() });
            let mut lines: Vec<Lines> = of_pair.collect();
            if lines.is_empty() && hits.len() == 1 {
                lines.clone_from(&hits[0].lines);
            }
            let about = |p: &Pair| p.doubts.is_empty() || p.doubts.iter().any(|d| below(d));
            if let Some(why) = pair.filter(|p| about(p)).and_then(|p| p.unknown.clone()) {
                answer.unknown.insert(side.name.clone(), why);
            }
            answer.touched_by.push(TouchAnswer {
                agent: side.name.clone(),
                level: worst,
                lines,
                committed: if hits.is_empty() { !side.dirty } else { hits.iter().all(|t| t.committed) },
            });
        }
    }
    for p in &mut out {
        p.touched_by.sort_by(|a, b| (b.level, &a.agent).cmp(&(a.level, &b.agent)));
    }
    Ok(Checked { version: 1, agent: me.cloned(), paths: out })
}

impl Round<'_> {
    /// `side` as it is after `edit`.
    fn edited(&self, side: &Side, path: &[u8], edit: Edit<'_>) -> std::result::Result<Side, String> {
        if let Some(why) = side.doubtful.get(path) {
            return Err(why.clone());
        }
        let commit = side.commit.clone()?;
        let stored = self.store.objects().blob_at(&commit, path).map_err(|e| e.to_string())?;
        let Some((stored, now)) = stored.as_deref().zip(edit.now) else {
            return self.with_file(side, path, edit.text);
        };
        // The one was just read from the other: where they differ, git converts between them.
        if stored == now {
            self.with_file(side, path, edit.text)
        } else if stored == without_returns(now) {
            self.with_file(side, path, &without_returns(edit.text))
        } else {
            Err("it is converted, or somebody else writes it".into())
        }
    }

    /// Whether git carried something of mine at or below `path` to where `met` stops, after a file or a directory that
    /// `other`, who touches `theirs`, renamed.
    fn carried(&self, met: &Meeting, path: &[u8], own: &BTreeSet<&[u8]>, other: &Side, theirs: &[Touched]) -> bool {
        let (false, Ok(commit)) = (own.contains(met.path.as_slice()), &other.commit) else { return false };
        fn name(path: &[u8]) -> Option<&[u8]> {
            path.rsplit(|b| *b == b'/').next()
        }
        let gone = |p: &[u8]| matches!(self.store.objects().blob_at(commit, p), Ok(None));
        // A directory takes the names along: what still has its name elsewhere did not become another one.
        let elsewhere = |p: &[u8]| theirs.iter().any(|t| t.path != p && name(&t.path) == name(p) && !gone(&t.path));
        let same = own.iter().any(|p| name(p) == name(&met.path) && gone(p));
        let is_it = |p: &[u8]| name(p) == name(&met.path) || !(same || elsewhere(p));
        own.iter().any(|p| is_below(p, path) && is_it(p) && gone(p))
    }
}

fn without_returns(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let next = text.iter().skip(1).map(Some).chain([None]);
    out.extend(text.iter().zip(next).filter(|(b, next)| **b != b'\r' || *next != Some(&b'\n')).map(|(b, _)| *b));
    out
}
