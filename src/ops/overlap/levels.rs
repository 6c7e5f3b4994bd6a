//! How badly two sides meet on each path.

use super::lines::{self, Hunk};
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
}

impl<'a> Lines<'a> {
    pub(super) fn new(objects: &'a Objects) -> Lines<'a> {
        Lines { objects, known: Mutex::new(HashMap::new()) }
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

    /// Where the two meet, sorted by path. `conflicts` are what git's merge stops on.
    pub(super) fn meetings(&self, a: &ChangeSet, b: &ChangeSet, conflicts: &BTreeMap<Vec<u8>, Kind>) -> Vec<Meeting> {
        let both: BTreeSet<&Vec<u8>> = a.both(b).map(|(p, _, _)| p).collect();
        let paths: BTreeSet<&Vec<u8>> = both.iter().copied().chain(conflicts.keys()).collect();
        let meeting = |path: &Vec<u8>| {
            let at = |s: &ChangeSet| s.files.get(path).and_then(|d| self.of(d));
            self.meeting(path, at(a).as_deref(), at(b).as_deref(), conflicts.get(path).copied())
        };
        paths.into_iter().map(meeting).collect()
    }

    fn meeting(&self, path: &[u8], a: Option<&Vec<Hunk>>, b: Option<&Vec<Hunk>>, kind: Option<Kind>) -> Meeting {
        let all = |hunks: Option<&Vec<Hunk>>| lines::lines(hunks.into_iter().flatten());
        let (near_a, near_b) = match (a, b) {
            (Some(a), Some(b)) => lines::near(a, b),
            _ => Default::default(),
        };
        let is_near = !near_a.is_empty();
        let (a_lines, b_lines) = if is_near { (lines::lines(near_a), lines::lines(near_b)) } else { (all(a), all(b)) };
        // Between `near` and `conflict`: whether both touch one definition is asked here, of the two versions and hunks.
        let level = match (kind, is_near) {
            (Some(_), _) => Level::Conflict,
            (None, true) => Level::Near,
            (None, false) => Level::File,
        };
        Meeting { path: path.to_vec(), level, kind, a_lines, b_lines, symbol: None }
    }
}
