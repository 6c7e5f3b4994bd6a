//! Who meets whom: the one function that judges pairs. Report, status and demo only read its answer.
//!
//! Candidates by meeting paths, the verdict by git's own merge of the two commits in the sterile dir. Levels between
//! `file` and `conflict` are not told apart here. What cannot be told is *unknown*, which is never "free": a missing
//! object, no common history, a path that a program of the repository's merges, an answer that depends on attributes
//! one of the two changes.

use super::Context;
use crate::git::attributes;
use crate::git::objects::Change;
use crate::git::sterile::{self, Merge};
use crate::model::agent::Oid;
use crate::model::overlap::{Level, Pair, Side};
use crate::model::text::safe_path;
use std::collections::{BTreeMap, BTreeSet};

type Paths = BTreeSet<Vec<u8>>;

/// The pairs with a level above `none`, or that could not be told. Pairs inside a group are left out. `base` gives the
/// attributes.
pub fn verdicts(ctx: &Context, base: &Oid, sides: &[Side]) -> Vec<Pair> {
    let changed = changes(ctx, base, sides);
    let unknown = |a, b, why: String| Pair { a, b, level: None, paths: Vec::new(), unknown: Some(why) };
    let mut pairs = Vec::new();
    let mut asked: Vec<(usize, usize, Paths)> = Vec::new();
    for a in 0..sides.len() {
        for b in a + 1..sides.len() {
            if sides[a].group.is_some() && sides[a].group == sides[b].group {
                continue;
            }
            match (&changed[a], &changed[b]) {
                (Ok(x), Ok(y)) if x.meet(y) => match stacked(ctx, &sides[a], &sides[b]) {
                    // One builds on the other: landing both is landing the later one.
                    Ok(true) => {}
                    Ok(false) => asked.push((a, b, x.paths.intersection(&y.paths).cloned().collect())),
                    Err(e) => pairs.push(unknown(a, b, e.to_string())),
                },
                (Ok(_), Ok(_)) => {}
                (Err(why), _) | (_, Err(why)) => pairs.push(unknown(a, b, why.clone())),
            }
        }
    }
    let drivers = drivers(ctx, base, asked.iter().flat_map(|(_, _, p)| p).cloned().collect());
    let commits: Vec<(Oid, Oid)> =
        asked.iter().map(|(a, b, _)| (sides[*a].commit.clone(), sides[*b].commit.clone())).collect();
    let mut merges = judged(ctx, base, &commits);
    doubt_attributes(ctx, sides, &changed, &asked, &mut merges);
    for ((a, b, paths), merge) in asked.into_iter().zip(merges) {
        match without_programs(merge, &paths, &drivers) {
            Merge::Conflict(paths) => pairs.push(Pair { a, b, level: Some(Level::Conflict), paths, unknown: None }),
            Merge::Unknown(why) => pairs.push(unknown(a, b, why)),
            Merge::Clean(_) if paths.is_empty() => {}
            Merge::Clean(_) => {
                pairs.push(Pair { a, b, level: Some(Level::File), paths: paths.into_iter().collect(), unknown: None });
            }
        }
    }
    pairs.sort_by(|x, y| {
        let rank = |p: &Pair| std::cmp::Reverse(p.level);
        (rank(x), &x.paths, x.a, x.b).cmp(&(rank(y), &y.paths, y.a, y.b))
    });
    pairs
}

/// The verdict of merging each side into the base as it is now.
pub fn with_base(ctx: &Context, base: &Oid, sides: &[Side]) -> Vec<Merge> {
    let commits: Vec<(Oid, Oid)> = sides.iter().map(|s| (base.clone(), s.commit.clone())).collect();
    let merges = judged(ctx, base, &commits);
    let changed = changes(ctx, base, sides);
    let drivers = drivers(ctx, base, changed.iter().flatten().flat_map(|c| &c.paths).cloned().collect());
    let with = merges.into_iter().zip(sides).zip(&changed).map(|((merge, side), changed)| {
        if matches!(drivers.as_ref(), Ok(d) if d.is_empty()) {
            return merge;
        }
        let on_base = paths_since(ctx, &side.commit, base);
        match (changed, on_base) {
            (Ok(x), Ok(y)) => without_programs(merge, &x.paths.intersection(&y.paths).cloned().collect(), &drivers),
            (Err(why), _) => Merge::Unknown(why.clone()),
            (_, Err(why)) => Merge::Unknown(why),
        }
    });
    with.collect()
}

/// git's merges, with the attributes of `attributes`.
fn judged(ctx: &Context, attributes: &Oid, pairs: &[(Oid, Oid)]) -> Vec<Merge> {
    let merges = sterile::merges(ctx.repo(), &ctx.state.objects, Some(attributes), pairs);
    let merges = merges.unwrap_or_else(|e| vec![Merge::Unknown(e.to_string()); pairs.len()]);
    let words = |(m, (a, b)): (Merge, &(Oid, Oid))| match m {
        Merge::Unknown(why) if why.contains("unrelated histories") => Merge::Unknown(no_common(ctx)),
        Merge::Conflict(paths) => {
            let paths: Paths = paths.into_iter().map(|p| without_side(p, a, b)).collect();
            Merge::Conflict(paths.into_iter().collect())
        }
        m => m,
    };
    merges.into_iter().zip(pairs).map(words).collect()
}

/// Where a file meets a directory git moves one of them aside, to `path~<side>`; we ask by commits, so that is an id.
fn without_side(mut path: Vec<u8>, a: &Oid, b: &Oid) -> Vec<u8> {
    for id in [a, b] {
        if path.strip_suffix(id.0.as_bytes()).is_some_and(|p| p.ends_with(b"~")) {
            path.truncate(path.len() - id.0.len() - 1);
        }
    }
    path
}

/// Why two histories cannot be compared.
pub fn no_common(ctx: &Context) -> String {
    if ctx.repo().shallow {
        "the history here is shallow; 'git fetch --unshallow' brings the rest".into()
    } else {
        "not comparable: no common history".into()
    }
}

/// Landing a side brings its attributes along: where one changes them, the pair is judged with its attributes as well,
/// and a difference is unknown.
fn doubt_attributes(
    ctx: &Context,
    sides: &[Side],
    changed: &[Result<Changes, String>],
    asked: &[(usize, usize, Paths)],
    merges: &mut [Merge],
) {
    let is_file = |p: &Vec<u8>| p == b".gitattributes" || p.ends_with(b"/.gitattributes");
    for (s, side) in sides.iter().enumerate() {
        if !changed[s].as_ref().is_ok_and(|c| c.paths.iter().any(is_file)) {
            continue;
        }
        let of_side: Vec<usize> = (0..asked.len()).filter(|i| asked[*i].0 == s || asked[*i].1 == s).collect();
        let commits: Vec<(Oid, Oid)> =
            of_side.iter().map(|i| (sides[asked[*i].0].commit.clone(), sides[asked[*i].1].commit.clone())).collect();
        for (i, other) in of_side.into_iter().zip(judged(ctx, &side.commit, &commits)) {
            let same = std::mem::discriminant(&merges[i]) == std::mem::discriminant(&other);
            if !same && !matches!(merges[i], Merge::Unknown(_)) {
                merges[i] = Merge::Unknown(format!("it depends on '.gitattributes', which '{}' changes", side.name));
            }
        }
    }
}

/// The paths that a program merges, with its name.
fn drivers(ctx: &Context, base: &Oid, paths: Paths) -> Result<BTreeMap<Vec<u8>, String>, String> {
    attributes::custom_drivers(ctx.repo(), &ctx.state.objects, base, &paths).map_err(|e| e.to_string())
}

/// `merge` where no program would have been asked; else a conflict elsewhere still is one, and the rest is unknown.
fn without_programs(merge: Merge, both: &Paths, drivers: &Result<BTreeMap<Vec<u8>, String>, String>) -> Merge {
    let drivers = match drivers {
        Ok(d) => d,
        Err(why) => return Merge::Unknown(why.clone()),
    };
    let Some((path, driver)) = both.iter().find_map(|p| drivers.get_key_value(p)) else { return merge };
    match merge {
        Merge::Conflict(paths) if paths.iter().any(|p| !drivers.contains_key(p)) => Merge::Conflict(paths),
        Merge::Unknown(why) => Merge::Unknown(why),
        _ => Merge::Unknown(format!("'{}' is merged by the program '{driver}', which is not run", safe_path(path))),
    }
}

fn stacked(ctx: &Context, a: &Side, b: &Side) -> super::Result<bool> {
    let o = &ctx.state.objects;
    Ok(o.is_ancestor(&a.commit, &b.commit)? || o.is_ancestor(&b.commit, &a.commit)?)
}

/// What each side changes, or why that cannot be told.
fn changes(ctx: &Context, base: &Oid, sides: &[Side]) -> Vec<Result<Changes, String>> {
    let found = super::inventory::in_parallel(sides, |s| Ok(paths_since(ctx, base, &s.commit)));
    found.unwrap_or_else(|e| sides.iter().map(|_| Err(e.to_string())).collect())
}

/// What differs between the merge base and the commit. No rename is followed: source and destination are both there.
fn paths_since(ctx: &Context, base: &Oid, commit: &Oid) -> Result<Changes, String> {
    let objects = &ctx.state.objects;
    let from = objects.merge_bases(base, commit).map_err(|e| e.to_string())?;
    if from.is_empty() {
        return Err(no_common(ctx));
    }
    let mut out = Changes::default();
    for m in &from {
        for (path, change) in objects.changes(m, commit).map_err(|e| e.to_string())? {
            let parents: Vec<Vec<u8>> = parents(&path).map(<[u8]>::to_vec).collect();
            match change {
                Change::Added => out.added_in.extend(parents),
                Change::Deleted => out.deleted_in.extend(parents),
                Change::Modified => {}
            }
            out.paths.insert(path);
        }
    }
    Ok(out)
}

/// What one side changes.
#[derive(Debug, Default)]
struct Changes {
    paths: Paths,
    /// The directories, at every height, that something was added below.
    added_in: Paths,
    /// The same for what was deleted.
    deleted_in: Paths,
}

impl Changes {
    /// Whether two may interact: the same path, a file where the other has a directory, or something new below a
    /// directory that the other has taken something from, for it may have been renamed. Never too few.
    fn meet(&self, other: &Changes) -> bool {
        let one_way = |x: &Changes, y: &Changes| {
            x.deleted_in.intersection(&y.added_in).next().is_some()
                || y.paths.iter().any(|p| parents(p).any(|dir| x.paths.contains(dir)))
        };
        self.paths.intersection(&other.paths).next().is_some() || one_way(self, other) || one_way(other, self)
    }
}

/// The directories above `path`, the top (an empty path) first.
fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::once(&path[..0]).chain(path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| &path[..i]))
}
