//! How badly two sides meet on each path.

use super::lines::{self, Hunk};
use super::symbols::Symbols;
use crate::git::objects::Objects;
use crate::model::agent::Oid;
use crate::model::meet::{ChangeSet, Delta, Entry};
use crate::model::overlap::{Kind, Level, Meeting};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

type Known = Option<Arc<Change>>;
/// Between which blobs; `None` for a file that is not there.
type Versions = (Option<Oid>, Oid);

/// What happened to one text.
#[derive(Debug)]
struct Change {
    hunks: Vec<Hunk>,
    /// Nothing but line endings.
    endings: bool,
}

/// The changes by line that have been worked out: many pairs ask for the same ones.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    objects: &'a Objects,
    known: Mutex<HashMap<Versions, Known>>,
    symbols: Symbols<'a>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(objects: &'a Objects) -> Lines<'a> {
        Lines { objects, known: Mutex::new(HashMap::new()), symbols: Symbols::new(objects) }
    }

    /// What a delta changes by line; `None` where that says nothing: gone, binary, a link, or an object that is missing.
    fn of(&self, delta: &Delta) -> Known {
        let is_text = |e: &Entry| e.mode & 0o170_000 == 0o100_000;
        let new = delta.new.as_ref().filter(|e| is_text(e))?;
        let old = delta.old.as_ref().filter(|e| is_text(e)).map(|e| e.id.clone());
        let versions = (old, new.id.clone());
        if let Some(found) = self.known.lock().ok()?.get(&versions) {
            return found.clone();
        }
        let read = |id: &Oid| self.objects.blob(id).ok().flatten();
        let change = || -> Option<Change> {
            let old = versions.0.as_ref().map_or(Some(Vec::new()), read)?;
            let new = read(&versions.1)?;
            let endings = versions.0.is_some() && lines::only_endings(&old, &new);
            Some(Change { hunks: lines::hunks(&old, &new)?, endings })
        };
        let found = change().map(Arc::new);
        self.known.lock().ok()?.insert(versions, found.clone());
        found
    }

    /// The lines of the new version that a delta changes; empty where lines say nothing.
    pub(super) fn changed(&self, delta: &Delta) -> Vec<crate::model::overlap::Lines> {
        self.of(delta).map(|c| lines::lines(&c.hunks)).unwrap_or_default()
    }

    /// Where the two meet, sorted by path. `conflicts` are what git's merge stops on.
    pub(super) fn meetings(&self, a: &ChangeSet, b: &ChangeSet, conflicts: &BTreeMap<Vec<u8>, Kind>) -> Vec<Meeting> {
        let both: BTreeSet<&Vec<u8>> = a.both(b).map(|(p, _, _)| p).collect();
        let paths: BTreeSet<&Vec<u8>> = both.iter().copied().chain(conflicts.keys()).collect();
        let meeting = |path: &Vec<u8>| self.meeting(path, a, b, conflicts.get(path).copied());
        let mut out: Vec<Meeting> = paths.into_iter().map(meeting).collect();
        out.extend(self.symbols.across(a, b));
        out.sort_by(|x, y| (&x.path, y.level, &x.symbol).cmp(&(&y.path, x.level, &y.symbol)));
        out
    }

    fn meeting(&self, path: &[u8], a: &ChangeSet, b: &ChangeSet, kind: Option<Kind>) -> Meeting {
        let all = |hunks: Option<&[Hunk]>| lines::lines(hunks.into_iter().flatten());
        let (of_a, of_b) = (a.files.get(path), b.files.get(path));
        let (by_a, by_b) = (of_a.and_then(|d| self.of(d)), of_b.and_then(|d| self.of(d)));
        let (in_a, in_b) = (by_a.as_deref().map(|c| c.hunks.as_slice()), by_b.as_deref().map(|c| c.hunks.as_slice()));
        let (near_a, near_b) = match (in_a, in_b) {
            (Some(a), Some(b)) => lines::near(a, b),
            _ => Default::default(),
        };
        let is_near = !near_a.is_empty();
        let symbol = match (of_a.zip(of_b), in_a.zip(in_b)) {
            (Some(deltas), Some(hunks)) => self.symbols.both(path, deltas, hunks),
            _ => None,
        };
        let level = match (kind, &symbol, is_near) {
            (Some(_), ..) => Level::Conflict,
            (None, Some(_), _) => Level::Symbol,
            (None, None, true) => Level::Near,
            (None, None, false) => Level::File,
        };
        let (a_lines, b_lines) = match &symbol {
            _ if is_near => (lines::lines(near_a), lines::lines(near_b)),
            Some((_, x, y)) => (lines::lines(x.iter().copied()), lines::lines(y.iter().copied())),
            None => (all(in_a), all(in_b)),
        };
        let symbol = symbol.map(|(name, ..)| name);
        let endings = [&by_a, &by_b].into_iter().flatten().any(|c| c.endings);
        Meeting { path: path.to_vec(), level, kind, a_lines, b_lines, symbol, other: None, endings }
    }
}
