//! Files whose stored bytes git's conversions decide: hashed by git itself, one process for all of them.

use super::Edits;
use crate::git::attributes::{self, Attributes};
use crate::git::command::Call;
use crate::git::status::{Place, RelPath, Seen, is_attributes};
use crate::git::store::Store;
use crate::git::{Error, Result};
use gix::bstr::BStr;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Puts what git makes of `paths` into `edits`.
pub(super) fn convert(
    store: &Store,
    place: &Place<'_>,
    seen: &Seen,
    paths: &[&RelPath],
    edits: &mut Edits,
    doubtful: &mut BTreeMap<RelPath, String>,
) -> Result<()> {
    let why = |e: &dyn std::fmt::Display| Error::Object(e.to_string());
    let filters = if filters_are_named(store, place, seen)? {
        Filters::of(store, place, paths.iter().copied())?
    } else {
        Filters::default()
    };
    doubtful.extend(filters.doubtful.clone());
    let paths: Vec<&&RelPath> = paths.iter().filter(|p| !filters.doubtful.contains_key(**p)).collect();
    if paths.is_empty() {
        return Ok(());
    }
    // An index of these paths alone, as they are tracked: whether line endings are converted depends on what is there.
    let file = store.new_path("index");
    let mut state = gix::index::State::new(store.objects().local().object_hash());
    for path in &paths {
        if let Some(e) = seen.index.entry_by_path(BStr::new(path))
            && !e.flags.contains(gix::index::entry::Flags::INTENT_TO_ADD)
        {
            let (stat, flags) = (Default::default(), gix::index::entry::Flags::empty());
            state.dangerously_push_entry(stat, e.id, flags, e.mode, BStr::new(path));
        }
    }
    state.sort_entries();
    gix::index::File::from_state(state, &file).write(Default::default()).map_err(|e| why(&e))?;
    let input: Vec<u8> = paths.iter().flat_map(|p| p.iter().copied().chain([0])).collect();
    let args = ["-c", "core.safecrlf=false", "update-index", "--add", "-z", "--stdin"];
    let call = store.call(place.worktree, &args).env("GIT_INDEX_FILE", &file);
    filters.allow(call).input(input).run()?;
    let kind = store.objects().local().object_hash();
    let index = gix::index::File::at(&file, kind, true, Default::default()).map_err(|e| why(&e))?;
    for path in paths {
        let found = index.entry_by_path(BStr::new(path)).and_then(|e| Some((super::kind_of(e.mode)?, e.id)));
        edits.insert(path.to_vec(), found);
    }
    Ok(())
}

fn filters_are_named(store: &Store, place: &Place<'_>, seen: &Seen) -> Result<bool> {
    const WORD: &[u8] = b"filter";
    let repo = store.repo();
    if Attributes::read(repo, repo.settings()?).mention(WORD) {
        return Ok(true);
    }
    let tracked: BTreeSet<&[u8]> = seen.index.entries().iter().map(|e| &**e.path(&seen.index)).collect();
    let all = tracked.into_iter().chain(seen.changes.untracked.iter().map(Vec::as_slice)).filter(|p| is_attributes(p));
    for path in all {
        let on_disk = std::fs::read(place.worktree.join(OsStr::from_bytes(path)));
        match on_disk {
            Ok(bytes) if !attributes::contains(&bytes, WORD) => {}
            // One that is not on disk counts as it is in the index: rather asked once too often.
            _ => return Ok(true),
        }
    }
    Ok(false)
}

/// Programs that convert files, and the paths they are named for.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// Key and value of what the user's own settings say of them.
    allowed: Vec<(String, String)>,
    /// Paths with a program that only the repository defines.
    pub(super) doubtful: BTreeMap<RelPath, String>,
}

impl Filters {
    pub(super) fn of<'p>(
        store: &Store,
        place: &Place<'_>,
        paths: impl IntoIterator<Item = &'p RelPath>,
    ) -> Result<Filters> {
        let settings = store.repo().settings()?;
        let mut filters = Filters::default();
        let mut names = BTreeSet::new();
        for (path, driver) in attributes::check(store, place.worktree, "filter", paths)? {
            if matches!(driver.as_str(), "unspecified" | "set" | "unset") {
                continue;
            }
            let runs = |(_, k, _): &&(String, String, String)| {
                k == &format!("filter.{driver}.clean") || k == &format!("filter.{driver}.process")
            };
            let defined: Vec<_> = settings.iter().filter(runs).collect();
            if defined.iter().any(|(scope, _, _)| is_the_users(scope)) {
                names.insert(driver);
            } else if !defined.is_empty() {
                let why = format!("it is converted by the program '{driver}' of the repository, which is not run");
                filters.doubtful.insert(path, why);
            }
        }
        for (_, key, value) in settings.iter().filter(|(scope, _, _)| is_the_users(scope)) {
            let name = key.strip_prefix("filter.").and_then(|k| k.rsplit_once('.')).map(|(n, _)| n);
            if name.is_some_and(|n| names.contains(n)) {
                filters.allowed.push((key.clone(), value.clone()));
            }
        }
        Ok(filters)
    }

    /// `call` with the user's own programs. They find the user's home, not ours.
    pub(super) fn allow(&self, mut call: Call) -> Call {
        if self.allowed.is_empty() {
            return call;
        }
        call = self.allowed.iter().fold(call, |call, (key, value)| call.set(key, value));
        match std::env::var_os("HOME") {
            Some(home) => call.env("HOME", home),
            None => call,
        }
    }
}

fn is_the_users(scope: &str) -> bool {
    matches!(scope, "system" | "global")
}
