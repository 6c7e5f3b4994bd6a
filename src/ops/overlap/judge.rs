//! The verdict on each pair: known ones from the cache, candidates by git's merge, the rest is free.

use super::Round;
use super::found::Found;
use super::levels::Lines;
use crate::git::merge::{self, Merge};
use crate::git::objects::digest;
use crate::git::status::is_attributes;
use crate::git::{attributes, changes};
use crate::model::agent::Oid;
use crate::model::meet::{self, ChangeSet, Touch, Twins};
use crate::model::overlap::{Kind, Pair, Side};
use crate::model::text::safe_path;
use crate::ops::inventory::in_parallel;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Counts up when the answers mean something else.
const FORM: &str = "overlap 3";

/// Pairs that are decided between two looks at the clock.
const PORTION: usize = 64;
/// Why somebody in a hurry knows nothing of a pair.
pub(super) const PENDING: &str = "not compared yet";

type Sets = HashMap<(Oid, Oid), Result<Arc<ChangeSet>, String>>;
type Programs = Result<BTreeMap<Vec<u8>, String>, String>;

/// One pair on its way.
#[derive(Debug)]
pub(super) struct Task {
    /// Position in what was asked for.
    at: usize,
    /// The sides, the one with the smaller tree first: so the answer is the same both ways round.
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) bases: Vec<Oid>,
    key: Option<String>,
}

/// What a candidate changes on both sides.
pub(super) struct Candidate<'t> {
    pub(super) task: &'t Task,
    pub(super) x: Arc<ChangeSet>,
    pub(super) y: Arc<ChangeSet>,
    touch: Option<Touch>,
    twins: Twins,
}

/// What git's merge stops on; nothing where it combines. An error says why nobody knows.
pub(super) type Verdict = Result<BTreeMap<Vec<u8>, Kind>, String>;

impl Round<'_> {
    /// The pairs that there is something to say of, in their order; the others are free.
    pub(super) fn judge(&self, base: &Oid, sides: &[Side], pairs: &[(usize, usize)]) -> Vec<Pair> {
        let trees = self.trees_of(sides);
        let attributes = self.attributes(base);
        let common = self.common(base, sides, &trees, pairs);
        let mut out: BTreeMap<usize, Pair> = BTreeMap::new();
        let mut set = |at: usize, found: Found| {
            if found != Found::default() {
                out.insert(at, found.pair(pairs[at]));
            }
        };
        let mut tasks = Vec::new();
        for (at, ((a, b), common)) in pairs.iter().copied().zip(common).enumerate() {
            let (one, other, attributes) = match (&trees[a], &trees[b], &attributes) {
                (Ok(one), Ok(other), Ok(attributes)) => (one, other, attributes),
                (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => {
                    set(at, Found::unknown(why.clone()));
                    continue;
                }
            };
            let certain = sides[a].doubtful.is_empty() && sides[b].doubtful.is_empty();
            let bases = match &*common {
                Err(why) => {
                    set(at, Found::unknown(why.clone()));
                    continue;
                }
                // Where one has changed nothing the other cannot meet it.
                Ok(bases) if certain && bases.len() == 1 && [&one.0, &other.0].contains(&&bases[0]) => continue,
                Ok(bases) => bases,
            };
            if let Some(found) = self.remembered(base, sides, (a, b)) {
                set(at, found);
                continue;
            }
            let (x, y) = if one.1 <= other.1 { (a, b) } else { (b, a) };
            let key = certain.then(|| {
                let bases: String = bases.iter().map(|b| b.0.as_str()).collect();
                let (x, y) = if x == a { (&one.1, &other.1) } else { (&other.1, &one.1) };
                digest(&[FORM, &self.rules, attributes, &bases, &x.0, &y.0])
            });
            match key.as_ref().and_then(|k| self.cache().find::<Option<Found>>(k)) {
                Some(found) => {
                    let found = found.unwrap_or_default().turned(x != a);
                    self.remember(base, sides, (a, b), &found);
                    set(at, found);
                }
                None => tasks.push(Task { at, x, y, bases: bases.clone(), key }),
            }
        }
        // In one go; for somebody in a hurry in portions, between which there is a look at the clock.
        let portion = if self.until.is_some() { PORTION } else { tasks.len().max(1) };
        let decided = tasks.chunks(portion).flat_map(|part| {
            if self.is_late() {
                return part.iter().map(|t| (t, Found::unknown(PENDING.into()))).collect();
            }
            self.decide(base, sides, &trees, part)
        });
        for (task, found) in decided {
            if let (Some(key), true) = (&task.key, found.lasts()) {
                let short = (found != Found::default()).then_some(&found);
                self.cache().keep(key, &short);
            }
            let lasts = found.lasts();
            let found = found.turned(task.x != pairs[task.at].0);
            if lasts {
                self.remember(base, sides, pairs[task.at], &found);
            }
            set(task.at, found);
        }
        out.into_values().collect()
    }

    /// Where the two of each pair parted, in the order of `pairs`; an error says why nobody knows. Asked once for all
    /// who stand on the same two commits.
    fn common(
        &self,
        base: &Oid,
        sides: &[Side],
        trees: &[Result<(Oid, Oid), String>],
        pairs: &[(usize, usize)],
    ) -> Vec<Rc<Result<Vec<Oid>, String>>> {
        let mut numbers: HashMap<&Oid, usize> = HashMap::from([(base, 0)]);
        let mut commits = vec![base];
        let of_side: Vec<usize> = trees
            .iter()
            .map(|t| {
                let Ok((commit, _)) = t else { return 0 };
                *numbers.entry(commit).or_insert_with(|| {
                    commits.push(commit);
                    commits.len() - 1
                })
            })
            .collect();
        let mut places: HashMap<(usize, usize, bool), usize> = HashMap::new();
        let mut asked: Vec<(Oid, Oid)> = Vec::new();
        let of_pair: Vec<usize> = pairs
            .iter()
            .map(|(a, b)| {
                let (x, y) = (of_side[*a], of_side[*b]);
                // The same commit on both sides is the same work done twice, not work on top of the other's: it is
                // compared since both left the base.
                let twice = x == y && !stacked(&sides[*a], &sides[*b]);
                *places.entry((x, y, twice)).or_insert_with(|| {
                    asked.push((commits[if twice { 0 } else { x }].clone(), commits[y].clone()));
                    asked.len() - 1
                })
            })
            .collect();
        let found = self.merge_bases(&asked);
        let of_place = |((_, y, twice), place): ((usize, usize, bool), usize)| {
            let bases = match &found[place] {
                // Where the base has nothing to do with it, one commit is no overlap with itself.
                Ok(b) if b.is_empty() && twice => Ok(vec![commits[y].clone()]),
                Ok(b) if b.is_empty() => Err(super::no_common(self.ctx)),
                other => other.clone(),
            };
            (place, Rc::new(bases))
        };
        let known: HashMap<usize, Rc<Result<Vec<Oid>, String>>> = places.into_iter().map(of_place).collect();
        of_pair.iter().map(|place| known[place].clone()).collect()
    }

    /// The merge bases of pairs of commits, in their order. No pair is asked about twice in a round.
    pub(super) fn merge_bases(&self, pairs: &[(Oid, Oid)]) -> Vec<Result<Vec<Oid>, String>> {
        let mut known = self.bases.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let open: BTreeSet<&(Oid, Oid)> = pairs.iter().filter(|p| !known.contains_key(p)).collect();
        let open: Vec<(Oid, Oid)> = open.into_iter().cloned().collect();
        let mut failed = HashMap::new();
        if !open.is_empty() {
            match self.store.objects().merge_bases_of(&open) {
                Ok(found) => {
                    for (pair, found) in open.into_iter().zip(found) {
                        match found {
                            Ok(bases) => drop(known.insert(pair, bases)),
                            Err(e) => drop(failed.insert(pair, e.to_string())),
                        }
                    }
                }
                Err(e) => failed.extend(open.into_iter().map(|p| (p, e.to_string()))),
            }
        }
        let missing = || "its history was not read".to_owned();
        let of = |p| known.get(p).cloned().ok_or_else(|| failed.get(p).cloned().unwrap_or_else(missing));
        pairs.iter().map(of).collect()
    }

    /// Who watches asks for the same pairs again and again.
    fn remember(&self, base: &Oid, sides: &[Side], (a, b): (usize, usize), found: &Found) {
        if let (Some(key), Ok(mut known)) = (memory(base, sides, a, b), self.known.lock()) {
            known.insert(key, found.clone());
        }
    }

    fn remembered(&self, base: &Oid, sides: &[Side], (a, b): (usize, usize)) -> Option<Found> {
        let known = self.known.lock().ok().filter(|k| !k.is_empty())?;
        known.get(&memory(base, sides, a, b)?).cloned()
    }

    /// Commit and tree of what is compared, one each.
    fn trees_of(&self, sides: &[Side]) -> Vec<Result<(Oid, Oid), String>> {
        let mut known: HashMap<&Oid, Result<(Oid, Oid), String>> = HashMap::new();
        let mut out = Vec::with_capacity(sides.len());
        for side in sides {
            out.push(match &side.commit {
                Ok(commit) => known.entry(commit).or_insert_with(|| self.tree_of(side)).clone(),
                Err(why) => Err(why.clone()),
            });
        }
        out
    }

    /// Commit and tree of what is compared.
    pub(super) fn tree_of(&self, side: &Side) -> Result<(Oid, Oid), String> {
        let commit = side.commit.clone()?;
        match self.store.objects().commit(&commit) {
            Ok(Some(c)) => Ok((commit, c.tree)),
            Ok(None) => Err(format!("commit {commit} is missing")),
            Err(e) => Err(e.to_string()),
        }
    }

    /// A digest of the attributes of `base`.
    fn attributes(&self, base: &Oid) -> Result<String, String> {
        let key = digest(&["attributes", &base.0]);
        if let Some(known) = self.cache().find(&key) {
            return Ok(known);
        }
        let found = self.store.files_of(base).map_err(|e| e.to_string())?.digest();
        self.cache().keep(&key, &found);
        Ok(found)
    }

    /// git's merges, with the attributes of `attributes`.
    pub(super) fn ask(&self, attributes: &Oid, pairs: &[(Oid, Oid)]) -> Vec<Merge> {
        let merges = merge::all(&self.store, Some(attributes), pairs);
        let merges = merges.unwrap_or_else(|e| vec![Merge::Unknown(e.to_string()); pairs.len()]);
        let words = |m| match m {
            Merge::Unknown(why) if why.contains("unrelated histories") => Merge::Unknown(super::no_common(self.ctx)),
            m => m,
        };
        merges.into_iter().map(words).collect()
    }

    fn decide<'t>(
        &self,
        base: &Oid,
        sides: &[Side],
        trees: &[Result<(Oid, Oid), String>],
        tasks: &'t [Task],
    ) -> Vec<(&'t Task, Found)> {
        let mut out = Vec::new();
        let mut candidates = Vec::new();
        let sets = self.change_sets(trees, tasks);
        let mut rounds: BTreeMap<&[Oid], Vec<&Task>> = BTreeMap::new();
        for t in tasks {
            rounds.entry(&t.bases).or_default().push(t);
        }
        for (bases, tasks) in rounds {
            let set_of = |i: usize| joined(&sets, bases, trees[i].as_ref().ok().map(|(_, t)| t));
            let members: BTreeSet<usize> = tasks.iter().flat_map(|t| [t.x, t.y]).collect();
            let found: BTreeMap<usize, Result<Arc<ChangeSet>, String>> =
                members.into_iter().map(|i| (i, set_of(i))).collect();
            let good: Vec<(usize, &Arc<ChangeSet>)> =
                found.iter().filter_map(|(i, s)| Some((*i, s.as_ref().ok()?))).collect();
            let only: Vec<&ChangeSet> = good.iter().map(|(_, s)| &***s).collect();
            let place: HashMap<usize, usize> = good.iter().enumerate().map(|(n, (i, _))| (*i, n)).collect();
            let (touching, mut twins) = (meet::touching(&only), meet::twins(&only));
            for task in tasks {
                let (x, y) = match (&found[&task.x], &found[&task.y]) {
                    (Err(why), _) | (_, Err(why)) => {
                        out.push((task, Found::unknown(why.clone())));
                        continue;
                    }
                    (Ok(x), Ok(y)) => (x.clone(), y.clone()),
                };
                let (n, m) = (place[&task.x], place[&task.y]);
                let pair = (n.min(m), n.max(m));
                let mut touch = touching.get(&pair).copied();
                if bases.len() > 1 && !x.files.is_empty() && !y.files.is_empty() {
                    // What the bases make of each other is git's alone to say.
                    touch = Some(Touch::Ask);
                }
                let mut twins = twins.remove(&pair).unwrap_or_default();
                if n > m {
                    twins.iter_mut().for_each(|t| std::mem::swap(&mut t.0, &mut t.1));
                }
                candidates.push(Candidate { task, x, y, touch, twins });
            }
        }
        let (asked, free): (Vec<Candidate<'_>>, Vec<Candidate<'_>>) =
            candidates.into_iter().partition(|c| c.touch == Some(Touch::Ask));
        let commit = |i: usize| trees[i].as_ref().map(|(c, _)| c.clone()).unwrap_or_else(|_| base.clone());
        let commits: Vec<(Oid, Oid)> = asked.iter().map(|c| (commit(c.task.x), commit(c.task.y))).collect();
        let programs = self.programs(base, asked.iter());
        let mut merges = self.merges(base, sides, &asked, &commits);
        self.doubt_attributes(sides, &asked, &commits, &mut merges);
        let none = free.iter().map(|_| None);
        let all: Vec<(&Candidate<'_>, Option<Verdict>)> =
            asked.iter().zip(merges.into_iter().map(Some)).chain(free.iter().zip(none)).collect();
        let lines = Lines::new(self.store.objects());
        let found = in_parallel(&all, |(c, merge)| {
            let (merge, doubt) = match merge.clone().map(|m| without_programs(m, c, &programs)) {
                Some((m, doubt)) => (Some(m), doubt),
                None => (None, None),
            };
            let mut found = found(c, merge, &lines);
            if let Some((path, why)) = doubt {
                found.doubt(&path, why);
            }
            doubt_contents(&mut found, c, sides);
            Ok(found)
        });
        let found = found.unwrap_or_else(|e| all.iter().map(|_| Found::unknown(e.to_string())).collect());
        out.extend(all.iter().map(|(c, _)| c.task).zip(found));
        out
    }

    /// What every side changes since every merge base that is asked about.
    fn change_sets(&self, trees: &[Result<(Oid, Oid), String>], tasks: &[Task]) -> Sets {
        let mut wanted: BTreeSet<(Oid, Oid)> = BTreeSet::new();
        for t in tasks {
            for (_, tree) in [t.x, t.y].iter().filter_map(|i| trees[*i].as_ref().ok()) {
                wanted.extend(t.bases.iter().map(|b| (b.clone(), tree.clone())));
            }
        }
        let mut known = self.sets.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut out: Sets = wanted.iter().filter_map(|w| Some((w.clone(), Ok(known.get(w)?.clone())))).collect();
        let wanted: Vec<(Oid, Oid)> = wanted.into_iter().filter(|w| !out.contains_key(w)).collect();
        let found = in_parallel(&wanted, |(base, tree)| {
            Ok(changes::between(self.store.objects(), base, tree).map(Arc::new).map_err(|e| e.to_string()))
        });
        match found {
            Ok(found) => out.extend(wanted.into_iter().zip(found)),
            Err(e) => out.extend(wanted.into_iter().map(|w| (w, Err(e.to_string())))),
        }
        known.extend(out.iter().filter_map(|(key, set)| Some((key.clone(), set.clone().ok()?))));
        out
    }

    /// Landing a side brings its attributes along: where one changes them, the pair is judged with its attributes as
    /// well, and a difference is unknown.
    fn doubt_attributes(
        &self,
        sides: &[Side],
        asked: &[Candidate<'_>],
        commits: &[(Oid, Oid)],
        merges: &mut [Verdict],
    ) {
        let mut again: BTreeMap<&Oid, Vec<(usize, String)>> = BTreeMap::new();
        for (n, c) in asked.iter().enumerate() {
            for (set, commit, side) in [(&c.x, &commits[n].0, c.task.x), (&c.y, &commits[n].1, c.task.y)] {
                if let Some(path) = set.files.keys().find(|p| is_attributes(p)) {
                    let why = format!("it depends on '{}', which '{}' changes", safe_path(path), sides[side].name);
                    again.entry(commit).or_default().push((n, why));
                }
            }
        }
        for (commit, list) in again {
            let pairs: Vec<(Oid, Oid)> = list.iter().map(|(n, _)| commits[*n].clone()).collect();
            let programs = self.programs(commit, list.iter().map(|(n, _)| &asked[*n]));
            for ((n, why), other) in list.into_iter().zip(self.ask(commit, &pairs)) {
                let (other, _) = without_programs(verdict(other), &asked[n], &programs);
                let stops = |v: &Verdict| v.as_ref().is_ok_and(|paths| !paths.is_empty());
                let same = merges[n].is_ok() == other.is_ok() && stops(&merges[n]) == stops(&other);
                if !same && merges[n].is_ok() {
                    merges[n] = Err(why);
                }
            }
        }
    }

    /// The paths of these candidates that a program merges where the attributes are those of `commit`.
    fn programs<'c, 't: 'c>(&self, commit: &Oid, of: impl Iterator<Item = &'c Candidate<'t>>) -> Programs {
        let paths = of.flat_map(|c| c.x.files.keys().chain(c.y.files.keys())).cloned().collect();
        attributes::custom_drivers(&self.store, commit, &paths).map_err(|e| e.to_string())
    }
}

/// What a tree changes since a commit: base and tree.
pub(super) type Changed = HashMap<(Oid, Oid), Arc<ChangeSet>>;

/// What two sides are to each other within one round; `None` where more than their commits decides it.
pub(super) type Memory = HashMap<(Oid, Oid, Oid, bool), Found>;

fn memory(base: &Oid, sides: &[Side], a: usize, b: usize) -> Option<(Oid, Oid, Oid, bool)> {
    let (x, y) = (&sides[a], &sides[b]);
    let plain = x.doubtful.is_empty() && y.doubtful.is_empty();
    plain.then(|| Some((base.clone(), x.commit.clone().ok()?, y.commit.clone().ok()?, stacked(x, y)))).flatten()
}

/// Whether the one was begun on top of the other's work.
fn stacked(x: &Side, y: &Side) -> bool {
    x.after.contains(&y.name) || y.after.contains(&x.name)
}

/// Merge bases of pairs of commits.
pub(super) type MergeBases = HashMap<(Oid, Oid), Vec<Oid>>;

/// What a tree changes since any of `bases`.
fn joined(sets: &Sets, bases: &[Oid], tree: Option<&Oid>) -> Result<Arc<ChangeSet>, String> {
    let one = |base: &Oid| -> Result<Arc<ChangeSet>, String> {
        let tree = tree.ok_or("it was not read")?;
        sets.get(&(base.clone(), tree.clone())).cloned().unwrap_or_else(|| Err("it was not compared".into()))
    };
    let mut bases = bases.iter().map(one);
    let first = bases.next().unwrap_or_else(|| Err("no common history".into()))?;
    let mut rest = bases.collect::<Result<Vec<_>, _>>()?;
    if rest.is_empty() {
        return Ok(first);
    }
    let mut all = (*first).clone();
    rest.drain(..).for_each(|s| all.join(&s));
    Ok(Arc::new(all))
}

fn found(c: &Candidate<'_>, merge: Option<Verdict>, lines: &Lines<'_>) -> Found {
    let (conflicts, unknown) = match merge {
        Some(Err(why)) => (BTreeMap::new(), Some(why)),
        Some(Ok(paths)) => (paths, None),
        None => (BTreeMap::new(), None),
    };
    Found::new(lines.meetings(&c.x, &c.y, &conflicts), &c.twins, unknown)
}

/// A file that could not be read, or that a program converts, may hold anything: the other side's change of it is not
/// known to merge.
fn doubt_contents(found: &mut Found, c: &Candidate<'_>, sides: &[Side]) {
    let (x, y) = (&sides[c.task.x].doubtful, &sides[c.task.y].doubtful);
    for (doubtful, other, theirs) in [(x, &c.y, y), (y, &c.x, x)] {
        for (path, why) in doubtful.iter().filter(|(p, _)| other.files.contains_key(*p) || theirs.contains_key(*p)) {
            found.doubt(path, format!("'{}': {why}", safe_path(path)));
        }
    }
}

/// `merge` where no program would have been asked; else a conflict elsewhere still is one, and the rest is unknown: the
/// path that a program merges, and why that is not known.
fn without_programs(merge: Verdict, c: &Candidate<'_>, programs: &Programs) -> (Verdict, Option<(Vec<u8>, String)>) {
    let programs = match programs {
        Ok(p) if p.is_empty() => return (merge, None),
        Ok(p) => p,
        Err(why) => return (Err(why.clone()), None),
    };
    // A path changed on both sides, or a new one that may be the other name of a file the other side changes.
    let renamed = |x: &ChangeSet, y: &ChangeSet| {
        x.files.iter().any(|(p, d)| d.new.is_none() && y.files.get(p).is_some_and(|d| d.new.is_some()))
    };
    let of = |x: &ChangeSet, y: &ChangeSet| {
        let added = renamed(x, y);
        let hit = |(p, d): &(&Vec<u8>, &meet::Delta)| {
            programs.contains_key(*p) && (y.files.contains_key(*p) || (added && d.old.is_none()))
        };
        x.files.iter().find(hit).map(|(p, _)| p.clone())
    };
    let Some(path) = of(&c.x, &c.y).or_else(|| of(&c.y, &c.x)) else { return (merge, None) };
    let program = programs.get(&path).map_or("", String::as_str);
    let why = format!("'{}' is merged by the program '{program}', which is not run", safe_path(&path));
    match merge {
        Ok(paths) if paths.keys().any(|p| !programs.contains_key(p)) => {
            // What git says of a path that a program merges is not what would come of it.
            let paths = paths.into_iter().filter(|(p, _)| !programs.contains_key(p)).collect();
            (Ok(paths), Some((path, why)))
        }
        Ok(_) => (Err(why), None),
        Err(why) => (Err(why), None),
    }
}

/// What matters of a merge here.
pub(super) fn verdict(merge: Merge) -> Verdict {
    match merge {
        Merge::Clean(_) => Ok(BTreeMap::new()),
        Merge::Conflict(paths) => Ok(paths),
        Merge::Unknown(why) => Err(why),
    }
}
