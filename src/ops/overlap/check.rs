//! Who else touches a path: what an assistant asks before it edits.

use super::Round;
use super::answer::Question;
use super::parties::Compared;
use crate::model::agent::Name;
use crate::model::meet::is_below;
use crate::model::overlap::{Level, Lines, Meeting, Pair, SideKind};
use crate::ops::answer::JsonPath;
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

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
    /// The top of the tree it is in.
    pub top: &'a Path,
    /// All of it, as it will be.
    pub text: &'a [u8],
}

/// Who else touches `paths` (from the top of the tree; a directory means what is below it), for the agent `me`. With an
/// `edit` the first of them is judged as it is going to be.
pub fn check(
    ctx: &Context,
    inv: &Inventory,
    me: Option<&Name>,
    paths: &[Vec<u8>],
    edit: Option<Edit<'_>>,
) -> Result<Checked> {
    let round = Round::begin(ctx)?;
    let mut c = Compared::read(ctx, inv, &round, &Question::default())?;
    let mut mine = me.and_then(|m| c.sides.iter().position(|s| s.kind == SideKind::Agent && s.name == m.0));
    if let (Some(edit), Some(path)) = (edit, paths.first()) {
        mine = mine.or_else(|| c.wake(edit.top));
        // Where it cannot be judged as it will be, it is as it is.
        if let Some(m) = mine
            && let Ok(side) = round.with_file(&c.sides[m], path, edit.text)
        {
            c.sides[m] = side;
        }
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
    for other in others {
        let side = &c.sides[other];
        let pair = mine.and_then(|m| pairs.iter().find(|p| (p.a, p.b) == (m.min(other), m.max(other))));
        let touched = round.touched(base, side);
        for (path, answer) in paths.iter().zip(&mut out) {
            let below = |p: &[u8]| is_below(p, path);
            let hits = match &touched {
                Ok(t) => t.iter().filter(|t| below(&t.path)).collect::<Vec<_>>(),
                Err(why) => {
                    answer.unknown.insert(side.name.clone(), why.clone());
                    continue;
                }
            };
            if hits.is_empty() {
                continue;
            }
            // What I changed there myself says how badly.
            let met: Vec<&Meeting> = pair.iter().flat_map(|p| &p.meetings).filter(|m| below(&m.path)).collect();
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
                committed: hits.iter().all(|t| t.committed),
            });
        }
    }
    for p in &mut out {
        p.touched_by.sort_by(|a, b| (b.level, &a.agent).cmp(&(a.level, &b.agent)));
    }
    Ok(Checked { version: 1, agent: me.cloned(), paths: out })
}
