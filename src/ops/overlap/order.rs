//! The order in which landing stops least, tried by real merges: each on the result of those before.

use super::Round;
use crate::git::merge::{self, Merge};
use crate::git::merging::At;
use crate::git::objects::Commit;
use crate::model::agent::Oid;
use crate::model::meet::ChangeSet;
use crate::model::overlap::{LAST, Pair, Side, SideKind, Step, landing_order, same_group};
use crate::ops::{Error, Result};

/// So often a side that stops though it merges with each of the others is tried before them.
const TRIES: usize = 4;

impl Round<'_> {
    /// The steps of landing on `base`, one of each group: the one with the lowest `rank` that stops least. A side that
    /// stops is left out of what the later ones are tried on: what a person makes of it is not known.
    pub fn order(&self, base: &Oid, sides: &[Side], pairs: &[Pair], rank: &dyn Fn(usize) -> u8) -> Vec<Step> {
        let mut order = landing_order(sides, pairs, rank);
        let mut steps = self.sequence(base, sides, pairs, &order);
        let stops = |steps: &[Step]| steps.iter().filter(|s| !s.stops.is_empty()).count();
        for _ in 0..TRIES {
            let unexplained = |s: &&Step| {
                !s.stops.is_empty()
                    && s.side != order[0]
                    && rank(s.side) < LAST
                    && !pairs.iter().any(|p| p.conflicts() && (p.a == s.side || p.b == s.side))
            };
            let Some(first) = steps.iter().find(unexplained).map(|s| s.side) else { break };
            order.retain(|i| *i != first);
            order.insert(0, first);
            let other = self.sequence(base, sides, pairs, &order);
            if stops(&other) >= stops(&steps) {
                break;
            }
            steps = other;
        }
        // What could not be read is no less there: nobody may take the rest for all.
        for (i, side) in sides.iter().enumerate() {
            if let Err(why) = &side.commit {
                steps.push(Step { unknown: Some(why.clone()), instead_of: Vec::new(), ..step(sides, i) });
            }
        }
        steps
    }

    fn sequence(&self, base: &Oid, sides: &[Side], pairs: &[Pair], order: &[usize]) -> Vec<Step> {
        let conflicts = |i: usize, j: usize| pairs.iter().any(|p| p.conflicts() && (p.a, p.b) == (i.min(j), i.max(j)));
        let mut landed = Side::at("landed", SideKind::Branch, None, base.clone());
        let (mut steps, mut stopped): (Vec<Step>, Vec<Step>) = (Vec::new(), Vec::new());
        for &i in order {
            let Ok(commit) = &sides[i].commit else { continue };
            let mut step = step(sides, i);
            match self.land(base, &landed, &sides[i], commit) {
                (Merge::Clean(tree), Some(next)) => {
                    landed.commit = Ok(next);
                    // What is not known of it is not known of all that lands on it.
                    landed.doubtful.extend(sides[i].doubtful.clone());
                    step.tree = Some(tree);
                    steps.push(step);
                    continue;
                }
                (Merge::Clean(_), None) => step.unknown = Some("its result could not be written".into()),
                (Merge::Conflict(paths), _) => step.stops = paths.into_keys().collect(),
                (Merge::Unknown(why), _) => step.unknown = Some(why),
            }
            stopped.push(step);
        }
        for mut step in stopped {
            step.conflicts_with_landed = steps.iter().map(|s| s.side).filter(|l| conflicts(*l, step.side)).collect();
            if step.conflicts_with_landed.is_empty() && !step.stops.is_empty() {
                // Each pair merges, all together do not: those that touch where it stops.
                step.conflicts_with_landed =
                    steps.iter().map(|s| s.side).filter(|l| touches(pairs, *l, &step)).collect();
            }
            steps.push(step);
        }
        steps
    }

    /// Puts a tree of an order into the repository, as the tree of a commit on `parents`, for a worktree to stand on.
    /// Nobody lands it: no reference names it.
    pub fn give(&self, tree: &Oid, parents: &[Oid]) -> Result<Oid> {
        Ok(self.store.give(&self.ctx.state.objects, tree, parents)?)
    }

    /// What picking `commit` onto `at` says, with the attributes of `onto`; where it is clean, the commit it would make,
    /// on `at`. All of it in the private store.
    pub(in crate::ops) fn pick(&self, onto: &Oid, at: &Oid, commit: &Oid) -> Result<(Merge, Option<Oid>)> {
        let (at, commit) = (self.read_commit(at)?, self.read_commit(commit)?);
        let Some(parent) = commit.parents.first() else {
            return Ok((Merge::Unknown("it begins a history of its own".into()), None));
        };
        let parent = self.read_commit(parent)?.tree;
        if parent == at.tree {
            // Nothing to combine: git takes it as it is.
            let next = self.store.commit(&commit.tree, std::slice::from_ref(&at.id))?;
            return Ok((Merge::Clean(commit.tree), Some(next)));
        }
        // The three trees as commits of their own: git 2.39 takes no merge base from outside.
        let below = self.store.commit(&parent, &[])?;
        let ours = self.store.commit(&at.tree, std::slice::from_ref(&below))?;
        let theirs = self.store.commit(&commit.tree, &[below])?;
        let both = [("the base", &ours), ("it", &theirs)].map(|(n, c)| Side::at(n, SideKind::Branch, None, c.clone()));
        let merge = self.ask(onto, &[(ours, theirs)]).pop().unwrap_or(Merge::Unknown("it was not asked".into()));
        let Merge::Clean(tree) = &merge else { return Ok((merge, None)) };
        if let Some(why) = self.judge(onto, &both, &[(0, 1)]).pop().and_then(|p| p.unknown) {
            return Ok((Merge::Unknown(why), None));
        }
        let next = self.store.commit(tree, std::slice::from_ref(&at.id))?;
        Ok((merge, Some(next)))
    }

    /// The tree of a commit, of the repository or of the round.
    pub(in crate::ops) fn tree(&self, commit: &Oid) -> Result<Oid> {
        Ok(self.read_commit(commit)?.tree)
    }

    /// Whether a commit changes nothing.
    pub(in crate::ops) fn is_empty(&self, commit: &Oid) -> Result<bool> {
        let commit = self.read_commit(commit)?;
        commit.parents.first().map_or(Ok(false), |p| Ok(self.tree(p)? == commit.tree))
    }

    /// Paths that differ between two commits, of the repository or of the round.
    pub(in crate::ops) fn changed_paths(&self, from: &Oid, to: &Oid) -> Result<Vec<Vec<u8>>> {
        Ok(self.store.objects().changed_paths(from, to)?)
    }

    /// The same with what is there.
    pub(in crate::ops) fn changes(&self, from: &Oid, to: &Oid) -> Result<ChangeSet> {
        Ok(crate::git::changes::between(self.store.objects(), from, to)?)
    }

    /// The first parent of a commit, of the repository or of the round.
    pub(in crate::ops) fn parent(&self, commit: &Oid) -> Result<Option<Oid>> {
        Ok(self.read_commit(commit)?.parents.into_iter().next())
    }

    /// See [`At::in_the_way`].
    pub(in crate::ops) fn in_the_way(&self, at: &At, changes: &ChangeSet) -> Vec<Vec<u8>> {
        at.in_the_way(self.store.objects(), changes)
    }

    fn read_commit(&self, id: &Oid) -> Result<Commit> {
        let missing = || Error::refused(format!("commit {} is missing", id.short()), "git fsck");
        self.store.objects().commit(id)?.ok_or_else(missing)
    }

    /// The commits that a rebase of `tip` would pick.
    pub(in crate::ops) fn picks(&self, upstream: &Oid, tip: &Oid) -> Result<Vec<Oid>> {
        Ok(merge::picks(&self.store, upstream, tip)?)
    }

    /// The merge, and the commit that landing would make.
    fn land(&self, base: &Oid, landed: &Side, side: &Side, commit: &Oid) -> (Merge, Option<Oid>) {
        let at = match &landed.commit {
            Ok(at) => at.clone(),
            Err(why) => return (Merge::Unknown(why.clone()), None),
        };
        let merge = self.ask(base, &[(at.clone(), commit.clone())]).pop();
        let merge = merge.unwrap_or(Merge::Unknown("it was not asked".into()));
        let Merge::Clean(tree) = &merge else { return (merge, None) };
        // What git's merge alone does not know: programs that are not run, attributes, files that could not be read.
        let both = [landed.clone(), side.clone()];
        if let Some(why) = self.judge(base, &both, &[(0, 1)]).pop().and_then(|p| p.unknown) {
            return (Merge::Unknown(why), None);
        }
        let next = self.store.commit(tree, &[at, commit.clone()]).ok();
        (merge, next)
    }
}

/// A step of which nothing is known yet.
fn step(sides: &[Side], i: usize) -> Step {
    let instead_of = (0..sides.len()).filter(|o| *o != i && same_group(&sides[i], &sides[*o])).collect();
    Step { side: i, conflicts_with_landed: Vec::new(), instead_of, stops: Vec::new(), unknown: None, tree: None }
}

fn touches(pairs: &[Pair], landed: usize, step: &Step) -> bool {
    let pair = pairs.iter().find(|p| (p.a, p.b) == (landed.min(step.side), landed.max(step.side)));
    pair.is_some_and(|p| p.meetings.iter().any(|m| step.stops.contains(&m.path)))
}
