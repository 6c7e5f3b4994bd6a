//! How badly two sides meet on each path.

use super::lines::{self, Hunk};
use super::symbols::Symbols;
use crate::git::objects::Objects;
use crate::model::agent::Oid;
use crate::model::meet::{ChangeSet, Delta, Entry};
use crate::model::overlap::{Kind, Level, Meeting};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

type Hunks = Option<Arc<Vec<Hunk>>>;
/// Between which blobs; `None` for a file that is not there.
type Versions = (Option<Oid>, Oid);

/// The changes by line that have been worked out: many pairs ask for the same ones.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    objects: &'a Objects,
    known: Mutex<HashMap<Versions, Hunks>>,
    symbols: Symbols<'a>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(objects: &'a Objects) -> Lines<'a> {
        Lines { objects, known: Mutex::new(HashMap::new()), symbols: Symbols::new(objects) }
    }

    /// What a delta changes by line; `None` where that says nothing: gone, binary, a link, or an object that is missing.
    fn of(&self, delta: &Delta) -> Hunks {
        let is_text = |e: &Entry| e.mode & 0o170_000 == 0o100_000;
        let new = delta.new.as_ref().filter(|e| is_text(e))?;
        let old = delta.old.as_ref().filter(|e| is_text(e)).map(|e| e.id.clone());
        let versions = (old, new.id.clone());
        if let Some(found) = self.known.lock().ok()?.get(&versions) {
            return found.clone();
        }
        let read = |id: &Oid| self.objects.blob(id).ok().flatten();
        let hunks = || -> Option<Vec<Hunk>> {
            let old = versions.0.as_ref().map_or(Some(Vec::new()), read)?;
            lines::hunks(&old, &read(&versions.1)?)
        };
        let found = hunks().map(Arc::new);
        self.known.lock().ok()?.insert(versions, found.clone());
        found
    }

    /// The lines of the new version that a delta changes; empty where lines say nothing.
    pub(super) fn changed(&self, delta: &Delta) -> Vec<crate::model::overlap::Lines> {
        self.of(delta).map(|hunks| lines::lines(hunks.iter())).unwrap_or_default()
    }

    /// Whether both versions are the same text but for its line endings.
    fn only_endings(&self, delta: &Delta) -> bool {
        let read = |e: &Option<Entry>| self.objects.blob(&e.as_ref()?.id).ok().flatten();
        let (Some(old), Some(new)) = (read(&delta.old), read(&delta.new)) else { return false };
        let plain = |b: &[u8]| -> Vec<u8> {
            b.split(|c| *c == b'\n').flat_map(|l| [l.strip_suffix(b"\r").unwrap_or(l), b"\n"].concat()).collect()
        };
        old != new && old.len().abs_diff(new.len()) <= old.len().max(new.len()) / 2 + 2 && plain(&old) == plain(&new)
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
        let (in_a, in_b) = (of_a.and_then(|d| self.of(d)), of_b.and_then(|d| self.of(d)));
        let (in_a, in_b) = (in_a.as_deref().map(Vec::as_slice), in_b.as_deref().map(Vec::as_slice));
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
        let endings = [of_a, of_b].into_iter().flatten().any(|d| self.only_endings(d));
        Meeting { path: path.to_vec(), level, kind, a_lines, b_lines, symbol, other: None, endings }
    }
}
