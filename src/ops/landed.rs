//! Whether an agent's work is in its base: as it stands there, as it stood there once, and whether it was taken back.
//!
//! Only what is proven counts, and only an agent with a commit of its own is asked about: a fresh branch, moved along
//! with its base, looks like a landed one to every test of ancestry. The proofs, cheapest first: the tip is in the
//! history of the base; a commit there has every path as the tip has it; git's own merge into a commit there adds
//! nothing; one commit there is the whole difference, by its verbatim patch id. Then nothing later may have undone it.
//!
//! Over 600 lines: the proofs share what they know of a history, and are read as one argument.

use super::cache::Cache;
use super::inventory::{Agent, Inventory};
use super::safe::{has_own_commit, made_on};
use super::{Context, Result};
use crate::git::config_file::{self, Config};
use crate::git::landing::{self, Trials};
use crate::git::objects::digest;
use crate::git::{self, changes};
use crate::model::agent::Oid;
use crate::model::event::Kind;
use crate::model::meet::ChangeSet;
use crate::model::task::short_ref;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Mutex;

/// Commits of a base that are tried for one agent at most, newest first.
const TRIED: usize = 500;
/// Commits of a base that are looked at for one agent at most.
const SEEN: usize = 5_000;

/// How it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The tip is in the history of the base.
    Ancestor,
    /// At that commit of the base every file that the branch changed was as the branch has it.
    Same,
    /// Merging the branch into that commit of the base adds nothing.
    AddsNothing,
    /// That commit of the base is the branch as one patch.
    Patch,
}

impl Proof {
    /// For a listing.
    pub fn words(self) -> &'static str {
        match self {
            Proof::Ancestor => "merged",
            Proof::Same => "its files are there",
            Proof::AddsNothing => "merging it adds nothing",
            Proof::Patch => "the same patch",
        }
    }
}

/// Where an agent's work stands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Landing {
    /// Not proven to be in the base.
    #[default]
    Open,
    /// In the base.
    In {
        /// Since this commit there.
        at: Oid,
        /// How that is known.
        proof: Proof,
    },
    /// It was in the base, and is not any more.
    TakenBack {
        /// Since this commit it was.
        at: Oid,
        /// This one took it back.
        by: Oid,
    },
}

impl Landing {
    /// The commit it landed as, where it is in the base.
    pub fn commit(&self) -> Option<&Oid> {
        match self {
            Landing::In { at, .. } => Some(at),
            Landing::Open | Landing::TakenBack { .. } => None,
        }
    }
}

/// A reference that an agent is compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Full name; the commit's id where the base is none.
    pub reference: String,
    /// Where it stands.
    pub tip: Oid,
    /// The base of the agent, where that is gone and this is the base of it.
    pub instead_of: Option<String>,
}

/// What agents are compared with, each base looked up once.
#[derive(Debug)]
pub struct Bases<'a> {
    ctx: &'a Context,
    inv: &'a Inventory,
    config: Option<Config>,
    known: Mutex<HashMap<String, Vec<(String, Oid)>>>,
}

impl<'a> Bases<'a> {
    /// For the agents of `inv`.
    pub fn of(ctx: &'a Context, inv: &'a Inventory) -> Bases<'a> {
        Bases { ctx, inv, config: config_file::read(&ctx.repo().common_dir).ok(), known: Mutex::default() }
    }

    /// Of which they are agents.
    pub fn inventory(&self) -> &'a Inventory {
        self.inv
    }

    /// What `a` is compared with: its base, or its remote-tracking branch where that is ahead; both where each has commits
    /// of its own. Where the base is gone, the base that it had itself.
    pub fn compared(&self, a: &Agent) -> Vec<Compared> {
        let mut name = a.reg.base.clone();
        let mut instead_of = None;
        let mut seen = HashSet::new();
        loop {
            let found = self.at(&name);
            if !found.is_empty() {
                let compared = |(reference, tip)| Compared { reference, tip, instead_of: instead_of.clone() };
                return found.into_iter().map(compared).collect();
            }
            // Another agent's branch, gone with it: what that one was to land on.
            let tasks = self.ctx.state.tasks().unwrap_or_default();
            let of_it = tasks.into_iter().map(|(_, t)| t).filter(|t| t.branch == name && t.base != name);
            let parent = of_it.max_by(|a, b| a.created.cmp(&b.created));
            let Some(parent) = parent.filter(|_| seen.insert(name.clone())) else { return Vec::new() };
            instead_of.get_or_insert_with(|| short_ref(&a.reg.base).to_owned());
            name = parent.base;
        }
    }

    fn at(&self, name: &str) -> Vec<(String, Oid)> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        known.entry(name.to_owned()).or_insert_with(|| self.find(name)).clone()
    }

    fn find(&self, name: &str) -> Vec<(String, Oid)> {
        let refs = &self.inv.refs;
        let local = refs.get(name).cloned().or_else(|| Oid::parse(name)).map(|tip| (name.to_owned(), tip));
        let same_name = || Some(format!("refs/remotes/origin/{}", name.strip_prefix("refs/heads/")?));
        let remote = self.upstream(name).or_else(same_name);
        let remote = remote.and_then(|r| Some((r.clone(), refs.get(&r)?.clone())));
        match (local, remote) {
            (Some(l), Some(r)) if l.1 != r.1 => {
                let in_it = |a: &Oid, b: &Oid| self.ctx.state.objects.is_ancestor(a, b).unwrap_or(false);
                match (in_it(&l.1, &r.1), in_it(&r.1, &l.1)) {
                    (true, _) => vec![r],
                    (_, true) => vec![l],
                    _ => vec![l, r],
                }
            }
            (local, remote) => local.or(remote).into_iter().collect(),
        }
    }

    /// The remote-tracking branch that git is told `branch` goes with, whether it is there or not.
    pub fn upstream(&self, branch: &str) -> Option<String> {
        let short = branch.strip_prefix("refs/heads/")?;
        let value = |key: &str| self.config.as_ref()?.value("branch", Some(short), key);
        let (remote, merge) = (value("remote")?, value("merge")?);
        // A local branch is nobody's proof: it goes with whoever made it.
        let theirs = merge.strip_prefix("refs/heads/").filter(|_| remote != ".")?;
        Some(format!("refs/remotes/{remote}/{theirs}"))
    }
}

/// The standing of each; what is expensive to find out is kept on disk.
pub fn all(ctx: &Context, inv: &Inventory, agents: &[&Agent]) -> Result<Vec<Landing>> {
    all_with(ctx, inv, agents, &Bases::of(ctx, inv))
}

/// The same with bases that were looked up before.
pub fn all_with(ctx: &Context, inv: &Inventory, agents: &[&Agent], of: &Bases<'_>) -> Result<Vec<Landing>> {
    let mut cache = Cache::read(ctx.repo(), "landed");
    let rules = landing::rules(ctx.repo())?;
    let mut answers: Vec<Vec<Landing>> = vec![Vec::new(); agents.len()];
    let mut open: Vec<(usize, String, Question)> = Vec::new();
    for (i, a) in agents.iter().enumerate() {
        let Some(tip) = &a.tip else { continue };
        // Nothing happened on the base since the fork: then nothing can have landed.
        let bases: Vec<Oid> = of
            .compared(a)
            .into_iter()
            .map(|c| c.tip)
            .filter(|b| *b != a.reg.fork && *b != a.task.base_commit)
            .collect();
        if bases.is_empty() || !has_own_commit(ctx, inv, a) {
            continue;
        }
        for base in bases {
            let mut noted = noted(inv, a);
            let mut parts = vec!["landed 3", &tip.0, &base.0, &a.reg.fork.0, &rules];
            parts.extend(noted.iter().map(|n| n.0.as_str()));
            let key = digest(&parts);
            match cache.find(&key) {
                Some(known) => answers[i].push(known),
                None => {
                    noted.extend(made_on(ctx, inv, a));
                    open.push((i, key, Question { tip: tip.clone(), base, fork: a.reg.fork.clone(), noted }));
                }
            }
        }
    }
    if !open.is_empty() {
        let questions: Vec<&Question> = open.iter().map(|(_, _, q)| q).collect();
        let found = Judge::new(ctx, &rules, &mut cache).judge(&questions)?;
        for ((i, key, _), answer) in open.into_iter().zip(found) {
            // Damaged history proves nothing, and does not keep the others from being judged.
            let Ok((answer, sure)) = answer else { continue };
            if sure {
                cache.keep(&key, &answer);
            }
            answers[i].push(answer);
        }
        cache.write();
    }
    // Taken back anywhere is not landed.
    let rank = |l: &Landing| match l {
        Landing::TakenBack { .. } => 0,
        Landing::In { .. } => 1,
        Landing::Open => 2,
    };
    Ok(answers.into_iter().map(|of| of.into_iter().min_by_key(rank).unwrap_or_default()).collect())
}

/// Where the branch stood when it was landed, as the journal has it.
fn noted(inv: &Inventory, a: &Agent) -> Vec<Oid> {
    let journal = inv.journal.get(&a.reg.id);
    let all = journal.into_iter().flat_map(|j| j.all(&Kind::Landed)).filter_map(|e| Oid::parse(e.text("tip")?));
    all.collect()
}

/// One agent and one base.
struct Question {
    tip: Oid,
    base: Oid,
    fork: Oid,
    /// Earlier tips that were landed, and commits that were made on the branch: where the base was moved forward by hand
    /// nothing else tells them from commits of the base that the branch took in.
    noted: Vec<Oid>,
}

/// What a question is answered from.
struct Work {
    /// Where the branch's own work begins.
    start: Oid,
    /// What it changes since.
    changed: Rc<ChangeSet>,
    /// Commits of the base to try, oldest first.
    tries: Vec<Oid>,
    found: Option<(Oid, Proof)>,
    /// Up to this commit of the base everything was tried before, and nothing held.
    since: Oid,
    /// Whether everything that was asked could be told.
    sure: bool,
}

/// What is known of histories while many questions about few bases are answered.
struct Judge<'c> {
    ctx: &'c Context,
    rules: &'c str,
    cache: &'c mut Cache,
    deltas: HashMap<(Oid, Oid), Rc<ChangeSet>>,
    parents: HashMap<Oid, Rc<[Oid]>>,
    beyond: HashMap<(Oid, Oid), Rc<Vec<Oid>>>,
    reverts: HashMap<Oid, Vec<Oid>>,
    trials: Option<Trials>,
}

type Answer<T> = git::Result<T>;

impl<'c> Judge<'c> {
    fn new(ctx: &'c Context, rules: &'c str, cache: &'c mut Cache) -> Judge<'c> {
        Judge {
            ctx,
            rules,
            cache,
            deltas: HashMap::new(),
            parents: HashMap::new(),
            beyond: HashMap::new(),
            reverts: HashMap::new(),
            trials: None,
        }
    }

    /// The answers, and whether each is for good.
    fn judge(&mut self, questions: &[&Question]) -> Result<Vec<Answer<(Landing, bool)>>> {
        let mut works: Vec<Answer<Option<Work>>> = questions.iter().map(|q| self.look(q)).collect();
        // One process of git for all of them.
        let mut asked: Vec<(usize, Oid)> = Vec::new();
        for (i, work) in works.iter().enumerate() {
            let Ok(Some(w)) = work else { continue };
            asked.extend(w.tries.iter().filter(|_| w.found.is_none()).map(|x| (i, x.clone())));
        }
        if !asked.is_empty() {
            let pairs: Vec<(Oid, Oid)> =
                asked.iter().map(|(i, into)| (into.clone(), questions[*i].tip.clone())).collect();
            let nothing = self.trials()?.adds_nothing(&pairs)?;
            for ((i, into), nothing) in asked.into_iter().zip(nothing) {
                let Ok(Some(w)) = &mut works[i] else { continue };
                match nothing {
                    Some(true) => drop(w.found.get_or_insert((into, Proof::AddsNothing))),
                    Some(false) => {}
                    None => w.sure = false,
                }
            }
        }
        Ok(questions.iter().zip(works).map(|(q, w)| w.and_then(|w| self.conclude(q, w))).collect())
    }

    fn trials(&mut self) -> git::Result<&Trials> {
        if self.trials.is_none() {
            self.trials = Some(Trials::open(self.ctx.repo())?);
        }
        Ok(self.trials.as_ref().expect("just made"))
    }

    /// All that can be told without git's merge; `None` where there is nothing that could have landed.
    fn look(&mut self, q: &Question) -> Answer<Option<Work>> {
        let objects = self.ctx.state.objects.clone();
        let bases = objects.merge_bases(&q.tip, &q.base)?;
        if bases.contains(&q.tip) {
            let at = self.landed_at(q)?;
            let start = self.start(q, &at)?;
            let changed = self.delta(&start, &q.tip)?;
            let found = Some((at, Proof::Ancestor));
            return Ok(Some(Work { since: start.clone(), start, changed, tries: Vec::new(), found, sure: true }));
        }
        let Some(m) = bases.first() else { return Ok(None) };
        let changed = self.delta(m, &q.tip)?;
        if changed.files.is_empty() {
            return Ok(None);
        }
        let key = self.tried_key(q, m);
        let before: Option<Oid> = self.cache.find(&key);
        let mut since = before.filter(|c| self.ctx.state.objects.has(c)).unwrap_or_else(|| m.clone());
        let (mut chain, mut reaches) = self.chain(q, &since)?;
        if !reaches && since != *m {
            // The base was rewritten since.
            since.clone_from(m);
            (chain, reaches) = self.chain(q, m)?;
        }
        let mut work = Work {
            start: m.clone(),
            changed: changed.clone(),
            tries: Vec::new(),
            found: None,
            since: since.clone(),
            sure: true,
        };
        if bases.len() > 1 || !reaches {
            work.tries = chain.into_iter().rev().take(TRIED).rev().collect();
            return Ok(Some(work));
        }
        // Whoever has a changed path as it was before cannot have the change: a merge would bring it. That leaves few.
        let there = self.delta(m, &since)?;
        let mut now: HashMap<&Vec<u8>, Option<&crate::model::meet::Entry>> = changed
            .files
            .iter()
            .map(|(p, d)| (p, there.files.get(p).map_or(d.old.as_ref(), |moved| moved.new.as_ref())))
            .collect();
        let mut last = None;
        let deltas = std::iter::once(&since).chain(&chain).zip(&chain).map(|(a, b)| self.delta(a, b));
        let deltas = deltas.collect::<git::Result<Vec<_>>>()?;
        for (x, delta) in chain.iter().zip(&deltas) {
            let mut moved = false;
            for (path, d) in &delta.files {
                if let Some((path, _)) = changed.files.get_key_value(path) {
                    now.insert(path, d.new.as_ref());
                    moved = true;
                }
            }
            let all = |test: &dyn Fn(&crate::model::meet::Delta, Option<&crate::model::meet::Entry>) -> bool| {
                changed.files.iter().all(|(p, d)| test(d, now[p]))
            };
            if all(&|d, now| now == d.new.as_ref()) {
                work.found = Some((x.clone(), Proof::Same));
                return Ok(Some(work));
            }
            if !all(&|d, now| now != d.old.as_ref()) {
                last = None;
                continue;
            }
            // Nothing of it moved since the last trial, and nothing is hidden behind another name: the same answer.
            let visible = all(&|d, now| now.is_some() || d.old.is_none());
            if moved || last.is_none() || !visible {
                work.tries.push(x.clone());
            }
            last = Some(x);
        }
        let surplus = work.tries.len().saturating_sub(TRIED);
        work.tries.drain(..surplus);
        Ok(Some(work))
    }

    fn tried_key(&self, q: &Question, m: &Oid) -> String {
        digest(&["tried 1", &q.tip.0, &m.0, self.rules])
    }

    fn conclude(&mut self, q: &Question, work: Option<Work>) -> Answer<(Landing, bool)> {
        let Some(mut work) = work else { return Ok((Landing::Open, true)) };
        if work.found.is_none() {
            work.found = self.as_one_patch(q, &work)?.map(|c| (c, Proof::Patch));
        }
        let Some((at, proof)) = work.found.clone() else {
            if work.sure {
                let key = self.tried_key(q, &work.start);
                self.cache.keep(&key, &q.base);
            }
            return Ok((Landing::Open, work.sure));
        };
        let landing = match self.taken_back(q, &work, &at)? {
            Some(by) => Landing::TakenBack { at, by },
            None => match self.taken_back_before(q, &work.start)? {
                Some((at, by)) => Landing::TakenBack { at, by },
                None => Landing::In { at, proof },
            },
        };
        Ok((landing, work.sure))
    }

    /// The commit of the base, any commit, that is the branch as one patch.
    fn as_one_patch(&mut self, q: &Question, work: &Work) -> Answer<Option<Oid>> {
        let mut same = Vec::new();
        for c in self.beyond(&q.base, &work.since)?.iter() {
            if let [parent] = &*self.parents(c)?
                && same_paths(self.delta(parent, c)?.as_ref(), &work.changed)
            {
                same.push((c.clone(), parent.clone()));
            }
        }
        if same.is_empty() {
            return Ok(None);
        }
        let mut trees = vec![self.trees(&work.start, &q.tip)?];
        for (c, parent) in &same {
            trees.push(self.trees(parent, c)?);
        }
        let ids = self.trials()?.patch_ids(&trees)?;
        // Newest first, as they came: the oldest is where it landed.
        Ok(same.into_iter().zip(&ids[1..]).filter(|(_, id)| **id == ids[0]).map(|((c, _), _)| c).next_back())
    }

    /// The commit that undid the work after it had landed `at` that commit, where one did and nothing brought it again.
    fn taken_back(&mut self, q: &Question, work: &Work, at: &Oid) -> Answer<Option<Oid>> {
        let later = self.beyond(&q.base, at)?;
        if later.is_empty() || work.changed.files.is_empty() {
            return Ok(None);
        }
        let there = self.delta(&work.start, &q.base)?;
        let now = |p: &Vec<u8>| there.files.get(p).map(|d| d.new.as_ref());
        if work.changed.files.iter().all(|(p, d)| now(p) == Some(d.new.as_ref())) {
            return Ok(None);
        }
        // What git says of itself. From the newest on, so that a revert that was reverted says nothing.
        let mut undone: HashMap<Oid, Oid> = HashMap::new();
        for c in later.iter() {
            if !undone.contains_key(c) {
                for gone in self.reverts(c)? {
                    undone.insert(gone, c.clone());
                }
            }
        }
        let parts = self.parts(q, work, at)?;
        if let Some(by) = parts.iter().find_map(|c| undone.get(c)) {
            return Ok(Some(by.clone()));
        }
        // The patch the other way round: of all of it, or of one commit of it.
        let mut patches = vec![(work.start.clone(), q.tip.clone())];
        for c in &parts {
            if let [parent] = &*self.parents(c)? {
                patches.push((parent.clone(), c.clone()));
            }
        }
        let mut asked: Vec<(Oid, usize, (Oid, Oid))> = Vec::new();
        for c in later.iter().filter(|c| !undone.contains_key(*c)) {
            let [parent] = &*self.parents(c)? else { continue };
            let parent = parent.clone();
            let delta = self.delta(&parent, c)?;
            for (i, (from, to)) in patches.iter().enumerate() {
                if !delta.files.is_empty() && same_paths(self.delta(from, to)?.as_ref(), &delta) {
                    asked.push((c.clone(), i, self.trees(c, &parent)?));
                }
            }
        }
        if !asked.is_empty() {
            let mut trees = Vec::new();
            for (_, i, back) in &asked {
                trees.extend([self.trees(&patches[*i].0, &patches[*i].1)?, back.clone()]);
            }
            let ids = self.trials()?.patch_ids(&trees)?;
            let found = asked.iter().zip(ids.chunks(2)).find(|(_, pair)| pair[0] == pair[1]);
            if let Some(((by, ..), _)) = found {
                return Ok(Some(by.clone()));
            }
        }
        // Without a word: a file is again as it was before, or nothing of it is left.
        let restored = |p: &Vec<u8>| now(p).is_none();
        let one = work.changed.files.iter().find(|(p, d)| d.old.is_some() && restored(p));
        let path = match one {
            Some((p, _)) => p,
            None if work.changed.files.keys().all(restored) => {
                let Some(p) = work.changed.files.keys().next() else { return Ok(None) };
                p
            }
            None => return Ok(None),
        };
        for c in later.iter() {
            let Some(parent) = self.parents(c)?.first().cloned() else { continue };
            if self.delta(&parent, c)?.files.contains_key(path) {
                // A file of the branch that has another name now is not gone.
                let all_new = one.is_none();
                let gone = !all_new || self.trials()?.really_deleted(&parent, c)?.contains(path);
                return Ok(gone.then(|| c.clone()));
            }
        }
        Ok(None)
    }

    /// Where the branch landed before, up to `start`, and that was taken back: a merge of what came since does not bring it
    /// again. The commit it landed as, and the one that undid it.
    fn taken_back_before(&mut self, q: &Question, start: &Oid) -> Answer<Option<(Oid, Oid)>> {
        let objects = self.ctx.state.objects.clone();
        if [&q.fork, &q.tip].contains(&start) || !objects.is_ancestor(&q.fork, start)? {
            return Ok(None);
        }
        if !self.is_own(q, start)? {
            return Ok(None);
        }
        let (whole, there) = (self.delta(&q.fork, &q.tip)?, self.delta(&q.fork, &q.base)?);
        let now = |p: &Vec<u8>| there.files.get(p).map(|d| d.new.as_ref());
        if whole.files.iter().all(|(p, d)| now(p) == Some(d.new.as_ref())) {
            return Ok(None);
        }
        let before =
            Question { tip: start.clone(), base: q.base.clone(), fork: q.fork.clone(), noted: q.noted.clone() };
        let work = self.look(&before)?;
        Ok(match self.conclude(&before, work)? {
            // Whoever has the undoing in the branch went on from there.
            (Landing::TakenBack { at, by }, _) if !objects.is_ancestor(&by, &q.tip)? => Some((at, by)),
            _ => None,
        })
    }

    /// Whether `commit` is where the branch stood when it landed before, not a commit of the base that it took in.
    fn is_own(&mut self, q: &Question, commit: &Oid) -> Answer<bool> {
        if q.noted.contains(commit) {
            return Ok(true);
        }
        if self.chain(q, &q.fork)?.0.contains(commit) {
            return Ok(false);
        }
        let mut now = q.tip.clone();
        for _ in 0..SEEN {
            if now == *commit {
                return Ok(true);
            }
            match self.parents(&now)?.first() {
                Some(first) if now != q.fork => now = first.clone(),
                _ => break,
            }
        }
        Ok(false)
    }

    /// The commits, on the branch and on the base, that are the work: whoever reverts one of them takes it back.
    fn parts(&mut self, q: &Question, work: &Work, at: &Oid) -> Answer<BTreeSet<Oid>> {
        let own = self.ctx.state.objects.commits_beyond(&q.tip, std::slice::from_ref(&work.start), SEEN)?;
        let mut out: BTreeSet<Oid> = own.into_iter().chain([at.clone()]).collect();
        for c in self.beyond(at, &work.start)?.iter() {
            let Some(parent) = self.parents(c)?.first().cloned() else { continue };
            let delta = self.delta(&parent, c)?;
            if !delta.files.is_empty() && delta.files.keys().all(|p| work.changed.files.contains_key(p)) {
                out.insert(c.clone());
            }
        }
        Ok(out)
    }

    /// The oldest commit in the base's own line that has the tip in its history.
    fn landed_at(&mut self, q: &Question) -> Answer<Oid> {
        let beyond = self.beyond(&q.base, &q.tip)?;
        let without: HashSet<&Oid> = beyond.iter().collect();
        let mut has = HashSet::from([q.tip.clone()]);
        // Parents come after their children, as a rule of clocks: so from the end, and again while that finds more.
        let mut before = 0;
        while before < has.len() {
            before = has.len();
            for c in beyond.iter().rev() {
                if self.parents(c)?.iter().any(|p| has.contains(p)) {
                    has.insert(c.clone());
                }
            }
        }
        let (mut at, mut now) = (q.tip.clone(), q.base.clone());
        while without.contains(&now) && has.contains(&now) {
            at.clone_from(&now);
            let Some(first) = self.parents(&now)?.first().cloned() else { break };
            now = first;
        }
        // In its own line by itself: it was moved forward to the tip.
        Ok(if now == q.tip { now } else { at })
    }

    /// Where the work of a branch that is in its base's history began.
    fn start(&mut self, q: &Question, at: &Oid) -> Answer<Oid> {
        let objects = &self.ctx.state.objects;
        if *at != q.tip
            && let Some(first) = self.parents(at)?.first().cloned()
            && let [m] = objects.merge_bases(&first, &q.tip)?.as_slice()
            && *m != q.tip
        {
            return Ok(m.clone());
        }
        if q.fork != q.tip && objects.is_ancestor(&q.fork, &q.tip)? {
            return Ok(q.fork.clone());
        }
        Ok(self.parents(&q.tip)?.first().cloned().unwrap_or_else(|| q.tip.clone()))
    }

    /// The base's own line down to `m`, oldest first and without it; whether it comes there.
    fn chain(&mut self, q: &Question, m: &Oid) -> Answer<(Vec<Oid>, bool)> {
        let beyond = self.beyond(&q.base, m)?;
        let since: HashSet<&Oid> = beyond.iter().collect();
        let (mut out, mut now) = (Vec::new(), q.base.clone());
        while since.contains(&now) && out.len() < SEEN {
            out.push(now.clone());
            match self.parents(&now)?.first() {
                Some(first) => now = first.clone(),
                None => break,
            }
        }
        out.reverse();
        Ok((out, now == *m))
    }

    /// What is in `tip` and not in `hidden`, newest first.
    fn beyond(&mut self, tip: &Oid, hidden: &Oid) -> Answer<Rc<Vec<Oid>>> {
        let key = (tip.clone(), hidden.clone());
        if let Some(known) = self.beyond.get(&key) {
            return Ok(known.clone());
        }
        let found = Rc::new(self.ctx.state.objects.commits_beyond(tip, std::slice::from_ref(hidden), SEEN)?);
        self.beyond.insert(key, found.clone());
        Ok(found)
    }

    fn parents(&mut self, c: &Oid) -> Answer<Rc<[Oid]>> {
        if let Some(known) = self.parents.get(c) {
            return Ok(known.clone());
        }
        let found: Rc<[Oid]> = self.ctx.state.objects.commit(c)?.map(|c| c.parents).unwrap_or_default().into();
        self.parents.insert(c.clone(), found.clone());
        Ok(found)
    }

    fn delta(&mut self, from: &Oid, to: &Oid) -> Answer<Rc<ChangeSet>> {
        let key = (from.clone(), to.clone());
        if let Some(known) = self.deltas.get(&key) {
            return Ok(known.clone());
        }
        let found = Rc::new(changes::between(&self.ctx.state.objects, from, to)?);
        self.deltas.insert(key, found.clone());
        Ok(found)
    }

    fn trees(&self, from: &Oid, to: &Oid) -> Answer<(Oid, Oid)> {
        let tree = |c: &Oid| -> Answer<Oid> {
            let missing = || git::Error::Object(format!("commit {c} is missing"));
            Ok(self.ctx.state.objects.commit(c)?.ok_or_else(missing)?.tree)
        };
        Ok((tree(from)?, tree(to)?))
    }

    /// What `c` says it reverts, in git's own words.
    fn reverts(&mut self, c: &Oid) -> Answer<Vec<Oid>> {
        if let Some(known) = self.reverts.get(c) {
            return Ok(known.clone());
        }
        let message = self.ctx.state.objects.message(c)?;
        let words = message.split("This reverts commit ").skip(1);
        let id = |rest: &str| Oid::parse(rest.split(|c: char| !c.is_ascii_hexdigit()).next().unwrap_or_default());
        let found: Vec<Oid> = words.filter_map(id).collect();
        self.reverts.insert(c.clone(), found.clone());
        Ok(found)
    }
}

fn same_paths(a: &ChangeSet, b: &ChangeSet) -> bool {
    a.files.len() == b.files.len() && a.files.keys().eq(b.files.keys())
}
