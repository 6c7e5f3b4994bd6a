//! Who meets whom: the one place that judges pairs. Report, status and the commands only read its answer.
//!
//! Seam: a [`Round`] is one comparison. [`Round::sides`] takes snapshots of worktrees into the round's private store,
//! [`Round::verdicts`] judges all pairs, [`Round::with_base`] each side against the base, [`Round::order`] the sequence of
//! landing. Nothing of it writes state; answers are kept in an expendable cache when the round ends. Who watches keeps
//! the round, takes new sides for what has changed and asks again: what is known is not judged twice.
//!
//! Candidates come from an index of paths (`model::meet`), the verdict from git's own merge of the two commits
//! (`git::merge`), levels below `conflict` from the changed lines (`levels`). What cannot be told is *unknown*, which is
//! never "free": a missing object, no common history, a path that a program merges or converts, an answer that depends
//! on attributes one of the two changes.

mod again;
pub mod answer;
pub mod check;
mod judge;
mod levels;
mod lines;
pub mod live;
mod order;
mod own;
pub mod parties;
pub mod summary;
mod symbols;

use super::cache::Cache;
use super::inventory::in_parallel;
use super::{Context, Result};
use crate::git::objects::digest;
use crate::git::status::Place;
use crate::git::store::Store;
use crate::git::tree;
use crate::model::agent::Oid;
use crate::model::overlap::{Pair, Pairs, Side, SideFacts, SideKind, same_group};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One comparison, with a private store that goes when it ends.
#[derive(Debug)]
pub struct Round<'c> {
    ctx: &'c Context,
    store: Store,
    /// Answers of this round.
    known: Mutex<judge::Memory>,
    /// What trees change, of this round.
    sets: Mutex<judge::Changed>,
    /// Where histories part, of this round.
    bases: Mutex<judge::MergeBases>,
    /// What git said of two sides last, of this round.
    before: Mutex<again::Before>,
    /// No merge is asked for after this.
    until: Option<Instant>,
    cache: Mutex<Cache>,
    rules: String,
}

/// A path that a side changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched {
    /// Exact bytes, from the top of the tree.
    pub path: Vec<u8>,
    /// Where, as the file is now; empty where lines say nothing.
    pub lines: Vec<crate::model::overlap::Lines>,
    /// Nothing of it is uncommitted.
    pub committed: bool,
}

/// Where a side is to be found.
#[derive(Debug, Clone)]
pub struct Look<'a> {
    /// For people.
    pub name: String,
    /// What it is.
    pub kind: SideKind,
    /// Its rivals.
    pub group: Option<String>,
    /// Those whose work it was begun on top of.
    pub after: Vec<String>,
    /// The tip of its branch.
    pub tip: Option<Oid>,
    /// Its worktree, where it has one that can be read.
    pub place: Option<Place<'a>>,
}

impl<'c> Round<'c> {
    /// A new one.
    pub fn begin(ctx: &'c Context) -> Result<Round<'c>> {
        let store = Store::open(ctx.repo())?;
        let rules = store.rules()?;
        let cache = Mutex::new(Cache::read(ctx.repo(), "overlap"));
        let (known, sets, bases, before) = Default::default();
        Ok(Round { ctx, store, known, sets, bases, before, until: None, cache, rules })
    }

    /// The same for somebody who does not wait: what is not known after `limit` is unknown this time.
    pub fn begin_within(ctx: &'c Context, limit: Duration) -> Result<Round<'c>> {
        let mut round = Round::begin(ctx)?;
        round.until = Some(Instant::now() + limit);
        Ok(round)
    }

    fn is_late(&self) -> bool {
        self.until.is_some_and(|u| Instant::now() >= u)
    }

    /// The sides with their uncommitted work, read in parallel. What cannot be read is a side that is unknown.
    pub fn sides(&self, looks: &[Look<'_>]) -> Vec<Side> {
        let found = in_parallel(looks, |l| Ok(self.side(l)));
        found.unwrap_or_else(|e| {
            looks.iter().map(|l| Side::unknown(&l.name, l.kind, l.group.clone(), e.to_string())).collect()
        })
    }

    fn side(&self, look: &Look<'_>) -> Side {
        Side { after: look.after.clone(), ..self.read(look) }
    }

    fn read(&self, look: &Look<'_>) -> Side {
        // It had a commit when it was made.
        if look.kind == SideKind::Agent && look.place.as_ref().is_some_and(|p| p.head.is_none()) {
            return Side::unknown(&look.name, look.kind, look.group.clone(), "its branch is gone");
        }
        let unknown = |why: String| Side::unknown(&look.name, look.kind, look.group.clone(), why);
        let Some(place) = &look.place else {
            return match &look.tip {
                Some(tip) => Side::at(&look.name, look.kind, look.group.clone(), tip.clone()),
                None => unknown("it has no commit yet".into()),
            };
        };
        match tree::take(&self.store, place) {
            Ok(s) => {
                // In the middle of a conflict HEAD may stand anywhere: the branch is what was said to be its work.
                let commit = if s.unmerged { look.tip.clone().unwrap_or(s.commit) } else { s.commit };
                let mut side = Side::at(&look.name, look.kind, look.group.clone(), commit);
                side.tip = look.tip.clone().or_else(|| place.head.cloned());
                (side.dirty, side.unmerged, side.doubtful) = (s.dirty, s.unmerged, s.doubtful);
                side.counts = s.changes.map(|c| (c.modified.len(), c.untracked.len(), c.conflicted.len()));
                side
            }
            Err(e) => unknown(e.to_string()),
        }
    }

    /// All pairs but those inside a group. `base` is where landing happens: its attributes count.
    pub fn verdicts(&self, base: &Oid, sides: &[Side]) -> Pairs {
        let pairs = pairs_of(sides);
        let mut found = self.pairs(base, sides, &pairs);
        found.retain(|p| p.unknown.is_some() || !p.meetings.is_empty() || !p.twins.is_empty() || p.conflicts());
        let rank = |p: &Pair| std::cmp::Reverse(p.level);
        let path = |p: &Pair| p.paths().first().map(|p| p.to_vec());
        found.sort_by_cached_key(|p| (rank(p), path(p), sides[p.a].name.clone(), sides[p.b].name.clone()));
        Pairs { pairs: found, sides: self.facts(base, sides) }
    }

    /// Each side against the base as it is now. The indices of a pair are both the side's; `a_lines` are the base's.
    pub fn with_base(&self, base: &Oid, sides: &[Side]) -> Vec<Pair> {
        let of_base = Side::at("base", SideKind::Branch, None, base.clone());
        let all: Vec<Side> = std::iter::once(of_base).chain(sides.iter().cloned()).collect();
        let pairs: Vec<(usize, usize)> = (1..all.len()).map(|i| (0, i)).collect();
        let mut found = self.judge(base, &all, &pairs).into_iter().peekable();
        let of_side = |i: usize| match found.next_if(|p| p.b == i + 1) {
            Some(p) => Pair { a: i, b: i, ..p },
            None => Pair::free(i, i),
        };
        (0..sides.len()).map(of_side).collect()
    }

    /// `side` with `text` as the content of `path`, for what somebody is about to write.
    pub fn with_file(&self, side: &Side, path: &[u8], text: &[u8]) -> std::result::Result<Side, String> {
        let (commit, tree) = self.tree_of(side)?;
        let tree = tree::with_file(&self.store, &tree, path, text).map_err(|e| e.to_string())?;
        let parent = side.tip.clone().unwrap_or(commit);
        let commit = self.store.commit(&tree, &[parent]).map_err(|e| e.to_string())?;
        let mut doubtful = side.doubtful.clone();
        doubtful.remove(path);
        Ok(Side { commit: Ok(commit), dirty: true, doubtful, ..side.clone() })
    }

    /// Which of `paths` are made by a program from others: to be made again, not merged. None where that cannot be told.
    pub fn generated(&self, base: &Oid, paths: &BTreeSet<Vec<u8>>) -> BTreeSet<Vec<u8>> {
        crate::git::attributes::generated(&self.store, base, paths).unwrap_or_default()
    }

    /// The verdicts on `pairs` alone, in their order; those that are free are left out.
    pub fn pairs(&self, base: &Oid, sides: &[Side], pairs: &[(usize, usize)]) -> Vec<Pair> {
        let mut found = self.judge(base, sides, pairs);
        self.only_own(base, sides, &mut found);
        found
    }

    /// The paths a side changes since it left `base`, with the lines as they are now; an error says why nobody knows.
    pub fn touched(&self, base: &Oid, side: &Side) -> std::result::Result<Vec<Touched>, String> {
        let objects = self.store.objects();
        let commit = side.commit.clone()?;
        let from = objects.merge_bases(base, &commit).map_err(|e| e.to_string())?;
        let from = from.first().ok_or_else(|| no_common(self.ctx))?;
        let between = |to: &Oid| crate::git::changes::between(objects, from, to).map_err(|e| e.to_string());
        let now = between(&commit)?;
        let committed = match side.tip.as_ref().filter(|t| **t != commit) {
            Some(tip) => between(tip)?,
            None => now.clone(),
        };
        let lines = levels::Lines::new(objects);
        let one = |(path, delta): (&Vec<u8>, &crate::model::meet::Delta)| Touched {
            lines: lines.changed(delta),
            committed: committed.files.get(path) == Some(delta),
            path: path.clone(),
        };
        let doubtful = side.doubtful.keys().filter(|p| !now.files.contains_key(*p));
        let doubtful = doubtful.map(|p| Touched { path: p.clone(), lines: Vec::new(), committed: false });
        Ok(now.files.iter().map(one).chain(doubtful).collect())
    }

    fn facts(&self, base: &Oid, sides: &[Side]) -> Vec<SideFacts> {
        let objects = self.store.objects();
        let forks = self.forks(base, sides);
        let looked: Vec<(&Side, Option<Oid>)> =
            sides.iter().enumerate().map(|(i, s)| (s, forks.get(&i).and_then(|b| b.first().cloned()))).collect();
        let one = |side: &Side, merge_base: Option<Oid>| -> std::result::Result<SideFacts, String> {
            let (_, tree) = self.tree_of(side)?;
            let count = merge_base.as_ref().and_then(|m| {
                let key = digest(&["paths", &m.0, &tree.0]);
                if let Some(known) = self.cache().find(&key) {
                    return Some(known);
                }
                let n = crate::git::changes::between(objects, m, &tree).ok()?.files.len();
                self.cache().keep(&key, &n);
                Some(n)
            });
            Ok(SideFacts { tree: Some(tree), merge_base, paths: count, unknown: None })
        };
        let found = in_parallel(&looked, |(side, merge_base)| {
            let found = one(side, merge_base.clone());
            Ok(found.unwrap_or_else(|why| SideFacts { unknown: Some(why), ..SideFacts::default() }))
        });
        found.unwrap_or_default()
    }

    /// `call`, which then finds the snapshots of this round.
    pub fn lend(&self, call: crate::git::command::Call) -> crate::git::command::Call {
        self.store.lend(call)
    }

    /// How many bytes its snapshots have taken, about.
    pub fn written(&self) -> u64 {
        self.store.written()
    }

    /// Keeps what has been found so far for the next one who asks; done at the end as well.
    pub fn save(&self) {
        self.cache().write();
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.save();
    }
}

/// All pairs but those inside a group.
fn pairs_of(sides: &[Side]) -> Vec<(usize, usize)> {
    (0..sides.len())
        .flat_map(|a| (a + 1..sides.len()).map(move |b| (a, b)))
        .filter(|(a, b)| !same_group(&sides[*a], &sides[*b]))
        .collect()
}

/// Why two histories cannot be compared.
pub fn no_common(ctx: &Context) -> String {
    if ctx.repo().shallow {
        "the history here is shallow; 'git fetch --unshallow' brings the rest".into()
    } else {
        "not comparable: no common history".into()
    }
}
