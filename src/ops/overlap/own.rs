//! What of a meeting is the base's doing: where one of two began after the other had left the base, all that the base
//! got in between is on its side too. That the other meets, but that is said of it and the base, not of the two.

use super::Round;
use crate::git::changes;
use crate::model::agent::Oid;
use crate::model::overlap::{Level, Pair, Side, SideKind};
use std::collections::{BTreeMap, BTreeSet};

impl Round<'_> {
    /// Takes from `pairs` what a side brings from the base alone: it is not among the side's own changes, and the commit
    /// where the side left the base meets the other there already. What cannot be told stays.
    pub(super) fn only_own(&self, base: &Oid, sides: &[Side], pairs: &mut [Pair]) {
        if pairs.iter().all(|p| p.meetings.is_empty()) {
            return;
        }
        // Where that is one commit.
        let one = |(i, mut bases): (usize, Vec<Oid>)| (bases.len() == 1).then(|| (i, bases.remove(0)));
        let forks: BTreeMap<usize, Oid> = self.forks(base, sides).into_iter().filter_map(one).collect();
        let differ = |p: &Pair| {
            let both = forks.get(&p.a).zip(forks.get(&p.b));
            !p.meetings.is_empty() && both.is_some_and(|(a, b)| a != b)
        };
        let ask: Vec<(usize, usize)> =
            pairs.iter().filter(|p| differ(p)).flat_map(|p| [(p.a, p.b), (p.b, p.a)]).collect();
        if ask.is_empty() {
            return;
        }
        // Each fork as a side of its own, behind the others.
        let mut all = sides.to_vec();
        let mut at: BTreeMap<&Oid, usize> = BTreeMap::new();
        // What each changes itself, once for all the pairs it is in.
        let mut own: BTreeMap<usize, Option<BTreeSet<Vec<u8>>>> = BTreeMap::new();
        for (x, _) in &ask {
            let f = &forks[x];
            at.entry(f).or_insert_with(|| {
                all.push(Side::at("base", SideKind::Branch, None, f.clone()));
                all.len() - 1
            });
            own.entry(*x).or_insert_with(|| self.own(f, &sides[*x]));
        }
        let wanted: BTreeSet<(usize, usize)> = ask.iter().map(|(x, y)| (*y, at[&forks[x]])).collect();
        let wanted: Vec<(usize, usize)> = wanted.into_iter().collect();
        let found: BTreeMap<(usize, usize), Pair> =
            self.judge(base, &all, &wanted).into_iter().map(|p| ((p.a, p.b), p)).collect();
        for pair in pairs.iter_mut().filter(|p| differ(p)) {
            for (x, y) in [(pair.a, pair.b), (pair.b, pair.a)] {
                // Without one nothing comes from there.
                let Some(of_base) = found.get(&(y, at[&forks[&x]])) else { continue };
                let Some(own) = &own[&x] else { continue };
                let base_meets =
                    |p: &[u8]| of_base.meetings.iter().any(|m| m.path == p || m.other.as_deref() == Some(p));
                pair.meetings.retain(|m| {
                    let paths = || std::iter::once(m.path.as_slice()).chain(m.other.as_deref());
                    paths().any(|p| own.contains(p)) || !paths().any(base_meets)
                });
            }
            let worst = pair.meetings.iter().map(|m| m.level).max().unwrap_or(Level::None);
            pair.level = (pair.unknown.is_none() || worst == Level::Conflict).then_some(worst);
        }
    }

    /// Where each side left the base, by position; none where that cannot be told.
    pub(super) fn forks(&self, base: &Oid, sides: &[Side]) -> BTreeMap<usize, Vec<Oid>> {
        let known = sides.iter().enumerate().filter_map(|(i, s)| Some((i, s.commit.clone().ok()?)));
        let (places, asked): (Vec<usize>, Vec<(Oid, Oid)>) = known.map(|(i, c)| (i, (base.clone(), c))).unzip();
        places.into_iter().zip(self.merge_bases(&asked)).filter_map(|(i, bases)| Some((i, bases.ok()?))).collect()
    }

    /// The paths that a side itself changes since it left the base.
    fn own(&self, fork: &Oid, side: &Side) -> Option<BTreeSet<Vec<u8>>> {
        let (_, tree) = self.tree_of(side).ok()?;
        let set = changes::between(self.store.objects(), fork, &tree).ok()?;
        Some(set.files.into_keys().collect())
    }
}
