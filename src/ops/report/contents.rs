//! What is in the files a branch changed: tests that came and went, and what nobody means to commit. Bounded: a file that
//! is too large to be written by hand is not read.

use super::answer::TestsCount;
use crate::git::changes;
use crate::model::agent::Oid;
use crate::model::flags;
use crate::model::meet::Entry;
use crate::model::testcases::{self, Case, File, Language, Named};
use crate::ops::answer::JsonPath;
use crate::ops::{Context, Result};
use std::collections::BTreeSet;

/// A larger file is not read.
const LARGEST: u64 = 1 << 20;
/// Nor is more than this of one branch; then nobody has counted its tests.
const MOST: usize = 64 << 20;
/// Names that are listed.
const NAMES: usize = 1000;

/// What was found.
#[derive(Debug, Default)]
pub(in crate::ops) struct Contents {
    /// Tests; `None` where they could not be counted.
    pub(in crate::ops) added: Option<TestsCount>,
    pub(in crate::ops) removed: Option<TestsCount>,
    pub(in crate::ops) skipped: Option<TestsCount>,
    /// Files by the kind of flag that they give reason for.
    pub(in crate::ops) found: Vec<(&'static str, JsonPath)>,
}

/// Reads what differs between two commits.
pub(super) fn read(ctx: &Context, from: &Oid, to: &Oid) -> Result<Contents> {
    let objects = &ctx.state.objects;
    let mut left = MOST;
    let mut text = |entry: Option<&Entry>| -> Result<Option<String>> {
        let Some(entry) = entry.filter(|e| is_file(e) || is_link(e)) else { return Ok(None) };
        let bytes = objects.small_blob(&entry.id, LARGEST.min(left as u64))?;
        left = left.saturating_sub(bytes.as_ref().map_or(0, Vec::len));
        Ok(bytes.and_then(|b| String::from_utf8(b).ok()))
    };
    let mut out = Contents::default();
    let mut tests: Vec<File> = Vec::new();
    for (path, delta) in &changes::between(objects, from, to)?.files {
        let mut note = |kind| out.found.push((kind, JsonPath::from(path.as_slice())));
        let (old, new) = (delta.old.as_ref(), delta.new.as_ref());
        if [old, new].into_iter().flatten().any(|e| e.mode == 0o160_000) {
            note("submodule");
        }
        let named = new.is_some_and(is_file) && flags::is_secret_name(path);
        let after = text(new)?;
        if new.is_some_and(is_link) {
            if after.as_deref().is_some_and(|target| flags::leads_outside(path, target)) {
                note("link-outside");
            }
            continue;
        }
        let language = std::str::from_utf8(path).ok().and_then(Language::of);
        let marks = after.as_deref().map_or((0, 0), |t| (flags::private_keys(t), flags::conflict_markers(t)));
        // What was there before is read only where it decides.
        let before = if language.is_some() || marks != (0, 0) { text(old)? } else { None };
        let had = before.as_deref().map_or((0, 0), |t| (flags::private_keys(t), flags::conflict_markers(t)));
        if named || marks.0 > had.0 {
            note("secret");
        }
        if marks.1 > had.1 {
            note("conflict-markers");
        }
        if let Some(language) = language {
            let cases =
                |t: Option<&String>| -> Vec<Case> { t.map(|t| testcases::cases(language, t)).unwrap_or_default() };
            tests.push(File {
                path: crate::model::text::safe_path(path),
                language,
                there: (old.is_some(), new.is_some()),
                before: cases(before.as_ref()),
                after: cases(after.as_ref()),
            });
        }
    }
    if left > 0 {
        let found = testcases::difference(&tests);
        let count = |named: &[Named]| Some(counted(&tests, named));
        (out.added, out.removed, out.skipped) = (count(&found.added), count(&found.removed), count(&found.skipped));
    }
    Ok(out)
}

fn counted(files: &[File], named: &[Named]) -> TestsCount {
    let mut out = TestsCount { cases: named.len(), ..TestsCount::default() };
    out.files = named.iter().map(|n| n.file).collect::<BTreeSet<usize>>().len();
    out.names = named.iter().take(NAMES).map(|n| n.name.clone()).collect();
    for n in named {
        *out.by_language.entry(files[n.file].language.word().to_owned()).or_default() += 1;
    }
    out
}

fn is_file(e: &Entry) -> bool {
    e.mode & 0o170_000 == 0o100_000
}

fn is_link(e: &Entry) -> bool {
    e.mode == 0o120_000
}
