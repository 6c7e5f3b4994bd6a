//! Overlap that is kept up to date: one round that stays open, in which only what was touched is looked at again.

use super::Round;
use super::answer::{PairAnswer, Question, compose};
use super::parties::Compared;
use super::summary::{Summary, summed};
use crate::git::ignore;
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Result};
use crate::place::watch::{Happening, Tree, Watcher, Woken};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Snapshots are kept as long as the round; after this many a new one begins.
const MOST_TURNS: usize = 500;
/// The same after so many bytes: the store is in memory, and a large file may be saved again and again.
const MOST_BYTES: u64 = 64 << 20;

/// Looks again whenever something happened; `T` is what others than the file system have to say.
pub struct Follow<'c, T> {
    ctx: &'c Context,
    question: Question,
    round: Round<'c>,
    compared: Option<Compared>,
    turns: usize,
    /// What its first snapshots took.
    first: u64,
    watcher: Watcher<T>,
    /// The folders of runs count as well.
    runs: bool,
}

impl<'c, T: Send + 'static> Follow<'c, T> {
    /// Begins to watch; nothing is compared yet. With `runs` what runs write down wakes too.
    pub fn begin(ctx: &'c Context, question: Question, runs: bool) -> Result<Follow<'c, T>> {
        let (repo, objects) = (ctx.repo().clone(), ctx.state.objects.clone());
        let lister = move |top: &Path| {
            let admin = crate::git::worktree::points_to(top).unwrap_or_else(|| repo.common_dir.clone());
            ignore::directories(&repo, &objects, top, &admin).unwrap_or_else(|_| vec![top.to_owned()])
        };
        let poll = ctx.settings(&crate::config::Flags::default()).is_ok_and(|l| l.settings.watch_poll);
        let watcher = Watcher::new(Box::new(lister), poll);
        Ok(Follow { ctx, question, round: Round::begin(ctx)?, compared: None, turns: 0, first: 0, watcher, runs })
    }

    /// Why it polls; `None` where the system tells.
    pub fn polls_because(&self) -> Option<&str> {
        self.watcher.polls_because()
    }

    /// For whoever else may wake the one that waits.
    pub fn sender(&self) -> Sender<Happening<T>> {
        self.watcher.sender()
    }

    /// Waits until something happened, at most `limit`.
    pub fn wait(&mut self, limit: Option<Duration>) -> Woken<T> {
        self.watcher.wait(limit)
    }

    /// Everybody as they are now, with only `changed` trees (and whoever has another tip) read anew.
    fn look(&mut self, changed: &BTreeSet<PathBuf>) -> Result<(Inventory, &Round<'c>, &Compared)> {
        self.turns += 1;
        let since = self.round.written().saturating_sub(self.first);
        if self.turns > MOST_TURNS || (self.compared.is_some() && since > MOST_BYTES.max(self.first)) {
            self.round = Round::begin(self.ctx)?;
            (self.compared, self.turns) = (None, 0);
        }
        let inv = Inventory::read(self.ctx)?;
        let (trees, mut beside) = watched(self.ctx, &inv);
        if self.runs {
            beside.extend(inv.agents.iter().map(|a| a.run.dir.clone()).filter(|d| d.is_dir()));
        }
        // Before anybody looks: what changes from here on wakes us again.
        self.watcher.set(&trees, &beside);
        let before = self.compared.take();
        let again = before.as_ref().map(|b| (b, changed));
        let compared = Compared::read_again(self.ctx, &inv, &self.round, &self.question, again)?;
        if again.is_none() {
            self.first = self.round.written();
        }
        Ok((inv, &self.round, self.compared.insert(compared)))
    }

    /// What a listing says of everybody now.
    pub fn summary(&mut self, changed: &BTreeSet<PathBuf>) -> Result<(Inventory, Summary)> {
        let (inv, round, compared) = self.look(changed)?;
        let summary = summed(round, compared);
        Ok((inv, summary))
    }
}

/// What changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A pair that is new or another one now.
    Pair(PairAnswer),
    /// Two that meet no more.
    Gone(String, String),
    /// Nothing more comes: this signal asked to end.
    End(i32),
}

/// Pairs that follow what happens.
pub struct Live<'c> {
    follow: Follow<'c, i32>,
    told: BTreeMap<(String, String), PairAnswer>,
}

impl<'c> Live<'c> {
    /// Begins to watch; nothing is compared yet.
    pub fn begin(ctx: &'c Context, question: Question) -> Result<Live<'c>> {
        Ok(Live { follow: Follow::begin(ctx, question, false)?, told: BTreeMap::new() })
    }

    /// Why it polls; `None` where the system tells.
    pub fn polls_because(&self) -> Option<&str> {
        self.follow.polls_because()
    }

    /// For whoever hears of a signal that ends it.
    pub fn sender(&self) -> Sender<Happening<i32>> {
        self.follow.sender()
    }

    /// Waits until something changed (not with `now`) and says how the answer differs from the one before.
    pub fn next(&mut self, now: bool) -> Result<Vec<Turn>> {
        let mut changed = BTreeSet::new();
        if !now {
            let woken = self.follow.wait(None);
            if let Some(signal) = woken.others.first() {
                return Ok(vec![Turn::End(*signal)]);
            }
            changed = woken.trees;
        }
        let question = self.follow.question.clone();
        let (inv, round, compared) = self.follow.look(&changed)?;
        let found = compose(round, &inv, compared, &question)?;
        let now: BTreeMap<(String, String), PairAnswer> =
            found.pairs.into_iter().map(|p| ((p.a.clone(), p.b.clone()), p)).collect();
        let mut out: Vec<Turn> =
            now.iter().filter(|(k, p)| self.told.get(*k) != Some(p)).map(|(_, p)| Turn::Pair(p.clone())).collect();
        let gone = self.told.keys().filter(|k| !now.contains_key(*k));
        out.extend(gone.map(|(a, b)| Turn::Gone(a.clone(), b.clone())));
        self.told = now;
        Ok(out)
    }
}

/// The trees that take part, and the directories whose files say where branches and worktrees stand.
fn watched(ctx: &Context, inv: &Inventory) -> (Vec<Tree>, Vec<PathBuf>) {
    let common = &ctx.repo().common_dir;
    let tree = |top: &PathBuf, admin: &PathBuf| Tree { top: top.clone(), admin: Some(admin.clone()) };
    let mut trees: Vec<Tree> = inv.worktrees.iter().map(|e| tree(&e.path, &e.admin)).collect();
    trees.extend(ctx.repo().main_worktree.as_ref().map(|top| tree(top, common)));
    let mut beside = vec![common.clone(), common.join("worktrees"), common.join("info")];
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
