//! Overlap that is kept up to date: one round that stays open, in which only what was touched is looked at again.

use super::Round;
use super::answer::{Overlaps, PairAnswer, Question, compose};
use super::parties::Compared;
use crate::git::ignore;
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Result};
use crate::place::watch::{Watcher, Woken};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Snapshots are kept as long as the round; after this many a new one begins.
const MOST_TURNS: usize = 500;

/// What changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A pair that is new or another one now.
    Pair(PairAnswer),
    /// Two that meet no more.
    Gone(String, String),
}

/// Overlap that follows what happens.
pub struct Live<'c> {
    ctx: &'c Context,
    question: Question,
    round: Round<'c>,
    compared: Option<Compared>,
    turns: usize,
    watcher: Watcher<()>,
    told: BTreeMap<(String, String), PairAnswer>,
}

impl<'c> Live<'c> {
    /// Begins to watch; nothing is compared yet.
    pub fn begin(ctx: &'c Context, question: Question) -> Result<Live<'c>> {
        let (repo, objects) = (ctx.repo().clone(), ctx.state.objects.clone());
        let lister = move |top: &Path| {
            let admin = admin_of(&repo.common_dir, top);
            ignore::directories(&repo, &objects, top, &admin).unwrap_or_else(|_| vec![top.to_owned()])
        };
        let poll = ctx.settings(&crate::config::Flags::default()).is_ok_and(|l| l.settings.watch_poll);
        Ok(Live {
            ctx,
            question,
            round: Round::begin(ctx)?,
            compared: None,
            turns: 0,
            watcher: Watcher::new(Box::new(lister), poll),
            told: BTreeMap::new(),
        })
    }

    /// Why it polls; `None` where the system tells.
    pub fn polls_because(&self) -> Option<&str> {
        self.watcher.polls_because()
    }

    /// Waits until something changed (not with `now`) and says how the answer differs from the one before.
    pub fn next(&mut self, now: bool) -> Result<Vec<Turn>> {
        let woken = if now {
            Woken { trees: BTreeSet::new(), beside: true, others: Vec::new() }
        } else {
            self.watcher.wait(None)
        };
        let found = self.look(&woken.trees)?;
        let now: BTreeMap<(String, String), PairAnswer> =
            found.pairs.into_iter().map(|p| ((p.a.clone(), p.b.clone()), p)).collect();
        let mut out: Vec<Turn> =
            now.iter().filter(|(k, p)| self.told.get(*k) != Some(p)).map(|(_, p)| Turn::Pair(p.clone())).collect();
        let gone = self.told.keys().filter(|k| !now.contains_key(*k));
        out.extend(gone.map(|(a, b)| Turn::Gone(a.clone(), b.clone())));
        self.told = now;
        Ok(out)
    }

    /// The answer now, with only `changed` trees (and whoever has a new tip) read anew.
    fn look(&mut self, changed: &BTreeSet<PathBuf>) -> Result<Overlaps> {
        self.turns += 1;
        if self.turns > MOST_TURNS {
            self.round = Round::begin(self.ctx)?;
            (self.compared, self.turns) = (None, 0);
        }
        let inv = Inventory::read(self.ctx)?;
        let (trees, beside) = watched(self.ctx, &inv);
        // Before anybody looks: what changes from here on wakes us again.
        self.watcher.set(&trees, &beside);
        let before = self.compared.take();
        let compared =
            Compared::read_again(self.ctx, &inv, &self.round, &self.question, before.as_ref().map(|b| (b, changed)))?;
        let found = compose(&self.round, &inv, &compared, &self.question);
        self.compared = Some(compared);
        found
    }
}

/// The admin directory of the worktree at `top`.
fn admin_of(common_dir: &Path, top: &Path) -> PathBuf {
    crate::git::worktree::points_to(top).unwrap_or_else(|| common_dir.to_owned())
}

/// The trees that take part, and the directories whose files say where branches and worktrees stand.
pub fn watched(ctx: &Context, inv: &Inventory) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let common = &ctx.repo().common_dir;
    let mut trees: Vec<PathBuf> = inv.worktrees.iter().map(|e| e.path.clone()).filter(|p| p.is_dir()).collect();
    trees.extend(ctx.repo().main_worktree.clone());
    let mut beside = vec![common.clone(), common.join("worktrees")];
    beside.extend(inv.worktrees.iter().map(|e| e.admin.clone()));
    let mut todo = vec![common.join("refs/heads"), common.join("refs/remotes")];
    while let Some(dir) = todo.pop() {
        let below = std::fs::read_dir(&dir).into_iter().flatten().filter_map(std::result::Result::ok);
        todo.extend(below.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()));
        beside.push(dir);
    }
    beside.push(common.join("reftable"));
    beside.retain(|d| d.is_dir());
    (trees, beside)
}
