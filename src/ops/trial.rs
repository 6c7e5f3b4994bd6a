//! The trial of a rebase: pick by pick in the private store, before anything is touched.
//!
//! A merge of the two tips does not predict it: where a merge is clean, a rebase may stop. Merges are left out and what is
//! in the base already is left out, as `git rebase` does.

use super::overlap::Round;
use super::{Context, Error, Result};
use crate::git::merge::Merge;
use crate::model::agent::Oid;

/// What a rebase would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// Every commit can be picked.
    Clean {
        /// The result: a commit of the round's private store, on which the next trial of the round may stand.
        tip: Oid,
        /// Its tree, which is the one that the rebase will come to.
        tree: Oid,
        /// The commits that are picked, oldest first; those that would become empty left out.
        picked: Vec<Oid>,
    },
    /// It would stop.
    Conflict {
        /// At this commit.
        commit: Oid,
        /// On these paths, exact bytes.
        paths: Vec<Vec<u8>>,
    },
    /// It could not be told; never to be taken for clean.
    Unknown {
        /// Why.
        why: String,
    },
}

/// What a rebase of `tip`, whose own commits begin after `fork`, onto `onto` would come to.
pub fn rebase_trial(ctx: &Context, round: &Round<'_>, tip: &Oid, fork: &Oid, onto: &Oid) -> Trial {
    try_it(ctx, round, tip, fork, onto).unwrap_or_else(|e| Trial::Unknown { why: e.words() })
}

/// What a rebase onto `onto` leaves below: the fork; where `onto` has that in it, all of `onto`, for the branch may have
/// taken some of it by itself.
pub fn upstream(ctx: &Context, fork: &Oid, onto: &Oid) -> Result<Oid> {
    if !ctx.state.objects.has(fork) {
        return Err(Error::refused(format!("the commit it sits on, {}, is missing", fork.short()), "git fsck"));
    }
    Ok(if ctx.state.objects.is_ancestor(fork, onto)? { onto.clone() } else { fork.clone() })
}

fn try_it(ctx: &Context, round: &Round<'_>, tip: &Oid, fork: &Oid, onto: &Oid) -> Result<Trial> {
    let objects = &ctx.state.objects;
    let unknown = |why: String| Ok(Trial::Unknown { why });
    let is_real = objects.has(onto);
    if is_real && objects.merge_bases(tip, onto)?.is_empty() {
        return unknown(super::overlap::no_common(ctx));
    }
    let upstream = if is_real { upstream(ctx, fork, onto)? } else { onto.clone() };
    let mut at = onto.clone();
    let (mut tree, mut picked) = (round.tree(onto)?, Vec::new());
    for commit in round.picks(&upstream, tip)? {
        match round.pick(onto, &at, &commit)? {
            (Merge::Clean(now), Some(next)) => {
                // One that was empty from the start stays.
                if now != tree || round.is_empty(&commit)? {
                    (at, tree) = (next, now);
                    picked.push(commit);
                }
            }
            (Merge::Clean(_), None) => return unknown("its result could not be written".into()),
            (Merge::Conflict(paths), _) => return Ok(Trial::Conflict { commit, paths: paths.into_keys().collect() }),
            (Merge::Unknown(why), _) => return unknown(why),
        }
    }
    Ok(Trial::Clean { tip: at, tree, picked })
}
