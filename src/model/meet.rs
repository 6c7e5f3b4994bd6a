//! Which sides may interact at all, from what each changes. Never too few: what is left out here merges without a
//! question. Cost grows with what really meets, not with the number of pairs.

use super::agent::Oid;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A file as a tree has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// As git writes it.
    pub mode: u16,
    /// Its object.
    pub id: Oid,
}

/// What happened to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// Before; `None` for a new one.
    pub old: Option<Entry>,
    /// After; `None` for one that is gone.
    pub new: Option<Entry>,
}

/// What one side changes since a merge base. A rename is a file gone and a file added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Files, links and submodules.
    pub files: BTreeMap<Vec<u8>, Delta>,
    /// Directories that are there no more.
    pub gone: BTreeSet<Vec<u8>>,
}

impl ChangeSet {
    /// What differs in either. For several merge bases.
    pub fn join(&mut self, other: &ChangeSet) {
        for (path, delta) in &other.files {
            self.files.entry(path.clone()).or_insert_with(|| delta.clone());
        }
        self.gone.extend(other.gone.iter().cloned());
    }

    /// The paths changed in both, however.
    pub fn both<'a>(&'a self, other: &'a ChangeSet) -> impl Iterator<Item = (&'a Vec<u8>, &'a Delta, &'a Delta)> {
        let swap = other.files.len() < self.files.len();
        let (few, many) = if swap { (other, self) } else { (self, other) };
        few.files.iter().filter_map(move |(path, x)| {
            let y = many.files.get(path)?;
            Some(if swap { (path, y, x) } else { (path, x, y) })
        })
    }
}

/// What may come of two that touch the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touch {
    /// The same change in both: nothing to merge, but the same work twice.
    Same,
    /// Only a merge tells.
    Ask,
}

/// The pairs (smaller index first) that touch: the same path with different results, or one that is added or gone on
/// both; a file where the other has a new directory; something new below a directory that is gone on the other side.
pub fn touching(sides: &[&ChangeSet]) -> BTreeMap<(usize, usize), Touch> {
    let mut found: BTreeMap<(usize, usize), Touch> = BTreeMap::new();
    let mut note = |i: usize, j: usize, touch: Touch| {
        if i != j {
            let known = found.entry((i.min(j), i.max(j))).or_insert(touch);
            *known = touch.max(*known);
        }
    };
    let mut by_path: HashMap<&[u8], Vec<(usize, &Delta)>> = HashMap::new();
    // Directories, at every height, that something was added below.
    let mut added_below: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (i, side) in sides.iter().enumerate() {
        for (path, delta) in &side.files {
            by_path.entry(path).or_default().push((i, delta));
            if delta.old.is_none() {
                for dir in parents(path) {
                    let list = added_below.entry(dir).or_default();
                    if list.last() != Some(&i) {
                        list.push(i);
                    }
                }
            }
        }
    }
    for (path, list) in &by_path {
        for (n, (i, x)) in list.iter().enumerate() {
            for (j, y) in &list[n + 1..] {
                let ask = x.new != y.new || x.old.is_none() || x.new.is_none();
                note(*i, *j, if ask { Touch::Ask } else { Touch::Same });
            }
        }
        if let Some(below) = added_below.get(path) {
            for (i, _) in list.iter().filter(|(_, d)| d.new.is_some()) {
                below.iter().for_each(|j| note(*i, *j, Touch::Ask));
            }
        }
    }
    for (i, side) in sides.iter().enumerate() {
        for dir in &side.gone {
            for j in added_below.get(dir.as_slice()).into_iter().flatten() {
                note(i, *j, Touch::Ask);
            }
        }
    }
    found
}

/// Whether `path` is `dir` or below it; the top is an empty path.
pub fn is_below(path: &[u8], dir: &[u8]) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| dir.is_empty() || matches!(rest.first(), None | Some(b'/')))
}

/// The directories above `path`, the topmost first.
pub fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(i, _)| &path[..i])
}

/// Names that two sides add and that some file systems cannot keep apart.
pub type Twins = Vec<(Vec<u8>, Vec<u8>)>;

/// New names that differ in case or in Unicode form only, by pair (smaller index first).
pub fn twins(sides: &[&ChangeSet]) -> BTreeMap<(usize, usize), Twins> {
    let mut by_fold: BTreeMap<String, Vec<(usize, &Vec<u8>)>> = BTreeMap::new();
    for (i, side) in sides.iter().enumerate() {
        for (path, _) in side.files.iter().filter(|(_, d)| d.old.is_none() && d.new.is_some()) {
            if let Some(folded) = fold(path) {
                by_fold.entry(folded).or_default().push((i, path));
            }
        }
    }
    let mut out: BTreeMap<(usize, usize), Twins> = BTreeMap::new();
    for list in by_fold.into_values() {
        for (n, (i, x)) in list.iter().enumerate() {
            for (j, y) in list[n + 1..].iter().filter(|(j, y)| j != i && y != x) {
                out.entry((*i, *j)).or_default().push(((*x).clone(), (*y).clone()));
            }
        }
    }
    out
}

/// As a file system that folds names would have it; `None` for what is not UTF-8.
fn fold(path: &[u8]) -> Option<String> {
    use unicode_normalization::UnicodeNormalization as _;
    let text = std::str::from_utf8(path).ok()?;
    if text.is_ascii() {
        return Some(text.to_ascii_lowercase());
    }
    Some(text.nfd().flat_map(char::to_lowercase).nfc().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(n: u8) -> Option<Entry> {
        (n > 0).then(|| Entry { mode: 0o100_644, id: Oid(format!("{n:040}")) })
    }

    /// `path old new`, 0 for none; `gone/` for a directory that is gone.
    fn set(lines: &[&str]) -> ChangeSet {
        let mut out = ChangeSet::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                [dir] => drop(out.gone.insert(dir.trim_end_matches('/').into())),
                [path, old, new] => {
                    let delta = Delta { old: file(old.parse().unwrap()), new: file(new.parse().unwrap()) };
                    out.files.insert(path.into(), delta);
                }
                _ => panic!("{line}"),
            }
        }
        out
    }

    #[test]
    fn the_rules() {
        let cases: &[(&[&str], &[&str], Option<Touch>)] = &[
            (&["a 1 2"], &["b 1 2"], None),
            (&["a 1 2"], &["a 1 3"], Some(Touch::Ask)),
            (&["a 1 2"], &["a 1 2"], Some(Touch::Same)),
            (&["a 1 0"], &["a 1 0"], Some(Touch::Ask)),
            (&["a 0 2"], &["a 0 2"], Some(Touch::Ask)),
            (&["a 1 2", "b 1 2"], &["a 1 2", "b 1 3"], Some(Touch::Ask)),
            (&["a 0 1"], &["a/b 0 1"], Some(Touch::Ask)),
            (&["a 0 1"], &["ab/b 0 1"], None),
            (&["d/x 1 0", "e/x 0 1", "d/"], &["d/y 0 1"], Some(Touch::Ask)),
            (&["d/x 1 0", "e/x 0 1", "d/"], &["d/s/y 0 1"], Some(Touch::Ask)),
            (&["d/x 1 0", "e/x 0 1"], &["d/y 0 1"], None),
            (&["d/x 1 0", "d/"], &["dd/y 0 1"], None),
        ];
        for (a, b, expected) in cases {
            let (a, b) = (set(a), set(b));
            assert_eq!(touching(&[&a, &b]).get(&(0, 1)).copied(), *expected, "{a:?} {b:?}");
            assert_eq!(touching(&[&b, &a]).get(&(0, 1)).copied(), *expected, "{b:?} {a:?}");
        }
    }

    #[test]
    fn names_that_differ_in_case_or_form_are_twins() {
        let (a, b) = (set(&["Readme 0 1", "caf\u{e9} 0 1", "x 0 1"]), set(&["README 0 1", "cafe\u{301} 0 1", "x 0 2"]));
        let twins = twins(&[&a, &b]).remove(&(0, 1)).unwrap();
        let found: Vec<(&str, &str)> =
            twins.iter().map(|(x, y)| (std::str::from_utf8(x).unwrap(), std::str::from_utf8(y).unwrap())).collect();
        assert_eq!(found, [("caf\u{e9}", "cafe\u{301}"), ("Readme", "README")]);
    }
}
