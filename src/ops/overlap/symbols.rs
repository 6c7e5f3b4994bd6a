//! What two sides do to definitions: both change the same one, or one changes what the other begins to use.

use super::lines::Hunk;
use crate::git::objects::Objects;
use crate::model::agent::Oid;
use crate::model::flags::migration_number;
use crate::model::meet::{ChangeSet, Delta};
use crate::model::overlap::{Level, Meeting};
use crate::model::symbols::Outline;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

/// Names that everybody uses: that one changed and another uses it says nothing.
const EVERYWHERE: [&str; 22] = [
    "__init__",
    "call",
    "clone",
    "close",
    "constructor",
    "default",
    "equals",
    "from",
    "handle",
    "hashCode",
    "index",
    "init",
    "into",
    "main",
    "name",
    "open",
    "render",
    "self",
    "setUp",
    "string",
    "test",
    "toString",
];
/// Nor do names as short as these.
const SHORTEST: usize = 4;
/// More changed files than these are a rewrite: nobody reads a list of all names.
const MOST_FILES: usize = 400;

/// What one side does to names that others may care about.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Definitions that were there and look another way to their users now, with their file.
    changed: BTreeMap<String, Vec<u8>>,
    /// Names that are used where they were not, with the file.
    used: BTreeMap<String, Vec<u8>>,
    /// New migrations by directory and number.
    migrations: BTreeMap<(String, String), Vec<u8>>,
}

/// Outlines that have been made: many pairs ask for the same ones.
#[derive(Debug)]
pub(super) struct Symbols<'a> {
    objects: &'a Objects,
    texts: Mutex<Texts>,
    names: Mutex<HashMap<usize, Arc<Names>>>,
}

/// By content and by path, which says the language.
type Texts = HashMap<(Oid, Vec<u8>), Option<Arc<Text>>>;

/// A version of a file.
#[derive(Debug)]
struct Text {
    outline: Outline,
    /// Lines (from 0) with nothing on them.
    blank: BTreeSet<usize>,
}

impl<'a> Symbols<'a> {
    pub(super) fn new(objects: &'a Objects) -> Symbols<'a> {
        Symbols { objects, texts: Mutex::default(), names: Mutex::default() }
    }

    fn text(&self, path: &[u8], id: Option<&Oid>) -> Option<Arc<Text>> {
        let key = (id?.clone(), path.to_vec());
        if let Some(known) = self.texts.lock().ok()?.get(&key) {
            return known.clone();
        }
        let read = || {
            let bytes = self.objects.blob(&key.0).ok().flatten()?;
            let outline = Outline::of(path, &bytes)?;
            let lines = bytes.split(|b| *b == b'\n').enumerate();
            let blank = lines.filter(|(_, l)| l.trim_ascii().is_empty()).map(|(n, _)| n).collect();
            Some(Arc::new(Text { outline, blank }))
        };
        let made = read();
        self.texts.lock().ok()?.insert(key, made.clone());
        made
    }

    /// The first definition of `path` that both sides touch, with the hunks that do.
    pub(super) fn both<'h>(
        &self,
        path: &[u8],
        (a, b): (&Delta, &Delta),
        (in_a, in_b): (&'h [Hunk], &'h [Hunk]),
    ) -> Option<(String, Vec<&'h Hunk>, Vec<&'h Hunk>)> {
        let touched = |d: &Delta, hunks: &'h [Hunk]| -> Option<BTreeMap<String, Vec<&'h Hunk>>> {
            let new = self.text(path, d.new.as_ref().map(|e| &e.id))?;
            let old = self.text(path, d.old.as_ref().map(|e| &e.id));
            let mut out: BTreeMap<String, Vec<&'h Hunk>> = BTreeMap::new();
            for h in hunks {
                let now = names_in(&new, h.new.clone());
                let then = old.as_deref().map(|t| names_in(t, h.old.clone())).unwrap_or_default();
                for name in now.union(&then) {
                    out.entry(name.clone()).or_default().push(h);
                }
            }
            Some(out)
        };
        let (x, mut y) = (touched(a, in_a)?, touched(b, in_b)?);
        x.into_iter().find_map(|(name, hunks)| Some((name.clone(), hunks, y.remove(&name)?)))
    }

    /// Meetings of two sides in different files.
    pub(super) fn across(&self, a: &ChangeSet, b: &ChangeSet) -> Vec<Meeting> {
        let (x, y) = (self.names(a), self.names(b));
        let meeting = |path: &[u8], level, symbol: Option<String>, other: &[u8]| Meeting {
            path: path.to_vec(),
            level,
            kind: None,
            a_lines: Vec::new(),
            b_lines: Vec::new(),
            symbol,
            other: (path != other).then(|| other.to_vec()),
            endings: false,
        };
        let mut out = Vec::new();
        for (number, path) in &x.migrations {
            if let Some(other) = y.migrations.get(number).filter(|o| *o != path) {
                out.push(meeting(path, Level::File, None, other));
            }
        }
        for (one, two, turned) in [(&x, &y, false), (&y, &x, true)] {
            for (name, path) in &one.changed {
                // Two that changed it meet in its file; one that defines it anew means its own.
                if let Some(other) = two.used.get(name).filter(|_| !two.changed.contains_key(name)) {
                    let (path, other) = if turned { (other, path) } else { (path, other) };
                    out.push(meeting(path, Level::Symbol, Some(name.clone()), other));
                }
            }
        }
        out
    }

    fn names(&self, set: &ChangeSet) -> Arc<Names> {
        let key = std::ptr::from_ref(set) as usize;
        if let Some(known) = self.names.lock().ok().and_then(|n| n.get(&key).cloned()) {
            return known;
        }
        let mut out = Names::default();
        for (path, delta) in &set.files {
            if delta.old.is_none()
                && let Some((dir, number)) = migration_number(path)
            {
                out.migrations.insert((dir.to_owned(), number.to_owned()), path.clone());
            }
        }
        let is_file = |e: &crate::model::meet::Entry| e.mode & 0o170_000 == 0o100_000;
        for (path, delta) in set.files.iter().take(MOST_FILES) {
            let id = |e: &Option<crate::model::meet::Entry>| e.as_ref().filter(|e| is_file(e)).map(|e| e.id.clone());
            let (old, new) = (self.text(path, id(&delta.old).as_ref()), self.text(path, id(&delta.new).as_ref()));
            let empty = Outline::default();
            let (then, now) =
                (old.as_deref().map_or(&empty, |t| &t.outline), new.as_deref().map_or(&empty, |t| &t.outline));
            let telling = |n: &str| n.len() >= SHORTEST && !EVERYWHERE.contains(&n);
            for name in now.changed_signatures(then).into_iter().filter(|n| telling(n)) {
                out.changed.entry(name).or_insert_with(|| path.clone());
            }
            for name in now.newly_used(then).into_iter().filter(|n| telling(n)) {
                out.used.entry(name.to_owned()).or_insert_with(|| path.clone());
            }
        }
        let out = Arc::new(out);
        if let Ok(mut names) = self.names.lock() {
            names.insert(key, out.clone());
        }
        out
    }
}

/// The definitions that lines (from 0) with something on them touch; modules and the like are not told apart by that.
fn names_in(text: &Text, lines: std::ops::Range<usize>) -> BTreeSet<String> {
    let number = |n: usize| u32::try_from(n + 1).unwrap_or(u32::MAX);
    let ranges: Vec<(u32, u32)> =
        lines.take(5000).filter(|n| !text.blank.contains(n)).map(|n| (number(n), number(n))).collect();
    let touched = text.outline.touched(&ranges);
    let parsed = !text.outline.uses.is_empty();
    touched.into_iter().filter(|d| !parsed || d.signature.is_some()).map(|d| d.name.clone()).collect()
}
