//! What git said of two sides before, where it must still hold: who saves a file that the other does not touch is
//! answered without a merge.
//!
//! A merge takes such a file from the side that changed it, whatever is in it: it has the same path on all three, so it
//! is no part of a rename, of a directory that moved, or of a file in a directory's place. So of two sides of which only
//! such files differ from what they were, git stops on the same paths as it did. All else is asked again.

use super::Round;
use super::judge::{Candidate, Verdict, verdict};
use crate::git::status::is_attributes;
use crate::model::agent::Oid;
use crate::model::meet::ChangeSet;
use crate::model::overlap::Side;
use std::collections::HashMap;
use std::sync::Arc;

/// By the names of the two.
pub(super) type Before = HashMap<(String, String), Said>;

/// What git said, and of what.
#[derive(Debug)]
pub(super) struct Said {
    /// Whose attributes counted.
    base: Oid,
    bases: Vec<Oid>,
    x: Arc<ChangeSet>,
    y: Arc<ChangeSet>,
    verdict: Verdict,
}

impl Round<'_> {
    /// git's merges of candidates, of which `commits` are the commits, with the attributes of `base`.
    pub(super) fn merges(
        &self,
        base: &Oid,
        sides: &[Side],
        candidates: &[Candidate<'_>],
        commits: &[(Oid, Oid)],
    ) -> Vec<Verdict> {
        let mut before = self.before.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let key = |c: &Candidate<'_>| {
            let (x, y) = (&sides[c.task.x].name, &sides[c.task.y].name);
            if x < y { (x.clone(), y.clone()) } else { (y.clone(), x.clone()) }
        };
        let mut out: Vec<Option<Verdict>> = candidates
            .iter()
            .map(|c| before.get(&key(c)).filter(|s| s.holds(base, c)).map(|s| s.verdict.clone()))
            .collect();
        let open: Vec<usize> = (0..out.len()).filter(|i| out[*i].is_none()).collect();
        let ask: Vec<(Oid, Oid)> = open.iter().map(|i| commits[*i].clone()).collect();
        for (i, merge) in open.into_iter().zip(self.ask(base, &ask)) {
            let (c, verdict) = (&candidates[i], verdict(merge));
            if verdict.is_ok() {
                let (bases, x, y) = (c.task.bases.clone(), c.x.clone(), c.y.clone());
                before.insert(key(c), Said { base: base.clone(), bases, x, y, verdict: verdict.clone() });
            }
            out[i] = Some(verdict);
        }
        out.into_iter().map(|v| v.unwrap_or_else(|| Err("git merge-tree gave no answer".into()))).collect()
    }
}

impl Said {
    fn holds(&self, base: &Oid, c: &Candidate<'_>) -> bool {
        if self.base != *base || self.bases != c.task.bases || self.bases.len() != 1 {
            return false;
        }
        // Which of the two comes first may be another now.
        let (x, y) = (&self.x, &self.y);
        let as_then = aside(x, &c.x, [y, &c.y]) && aside(y, &c.y, [x, &c.x]);
        as_then || (aside(x, &c.y, [y, &c.x]) && aside(y, &c.x, [x, &c.y]))
    }
}

/// Whether two changes of one side differ in nothing but the content of files that the other side has as they were.
fn aside(then: &Arc<ChangeSet>, now: &Arc<ChangeSet>, others: [&ChangeSet; 2]) -> bool {
    if Arc::ptr_eq(then, now) {
        return true;
    }
    let differs = |(x, y): (&ChangeSet, &ChangeSet)| -> Vec<Vec<u8>> {
        x.files.iter().filter(|(p, d)| y.files.get(*p) != Some(d)).map(|(p, _)| p.clone()).collect()
    };
    let stays = |set: &ChangeSet, path: &[u8]| {
        set.files.get(path).is_none_or(|d| d.old.as_ref().zip(d.new.as_ref()).is_some_and(|(o, n)| o.mode == n.mode))
    };
    let paths = differs((then, now)).into_iter().chain(differs((now, then)));
    then.gone == now.gone
        && paths.into_iter().all(|p| {
            let alone = others.iter().all(|o| !o.files.contains_key(&p));
            alone && !is_attributes(&p) && stays(then, &p) && stays(now, &p)
        })
}
