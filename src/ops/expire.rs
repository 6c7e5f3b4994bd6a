//! The end of what was removed, and of what its tools make again: the only deleting of anything that was somebody's.
//!
//! An entry of the trash goes after `agents.trashKeep`, a capture after thirty days and never before its entry, and each
//! only when two looks a day apart both found it due: a clock that jumped for an hour deletes nothing. What is deleted is
//! first moved out of sight in one step, then deleted by descriptor, with no link followed and no mount crossed. What
//! cannot be read, is damaged or is not finished stays.

use super::remove::{self, Entry, entries};
use super::{Context, Result, safe, trash, unfinished};
use crate::config::Flags;
use crate::git::capture::back;
use crate::git::status::Place;
use crate::git::{refs, sterile};
use crate::model::units::{count, format_size};
use crate::runtime::{clock, files, process};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

const DAY: i64 = 24 * 3600;
/// How long a capture is kept.
const CAPTURE: i64 = 30 * DAY;
/// So many captures of a living agent's runs are kept.
const AUTO: usize = 5;

/// Directories that a tool makes again from what is committed, and the file that proves it made them, where it leaves one.
const REGENERABLE: [(&str, Option<&str>); 14] = [
    ("node_modules", None),
    ("target", Some("CACHEDIR.TAG")),
    (".venv", Some("pyvenv.cfg")),
    ("venv", Some("pyvenv.cfg")),
    ("__pycache__", None),
    (".next", None),
    (".nuxt", None),
    (".turbo", None),
    (".svelte-kit", None),
    (".parcel-cache", None),
    (".pytest_cache", Some("CACHEDIR.TAG")),
    (".mypy_cache", Some("CACHEDIR.TAG")),
    (".ruff_cache", Some("CACHEDIR.TAG")),
    (".gradle", None),
];

/// What was deleted for good.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Names of entries of the trash.
    pub entries: Vec<String>,
    /// How many captures.
    pub captures: usize,
    /// Bytes of what can be made again.
    pub emptied: u64,
}

impl Expired {
    /// What to say of it.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        if !self.entries.is_empty() {
            let names = self.entries.iter().map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
            out.push(format!("deleted from the trash, where it had been long enough: {names}"));
        }
        if self.captures > 0 {
            out.push(format!("{} let go", count(self.captures, "old capture")));
        }
        if self.emptied > 0 {
            let size = format_size(self.emptied);
            out.push(format!("the trash was full: {size} of what can be made again deleted from it"));
        }
        out
    }
}

/// When something was found due first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Mark {
    at: String,
    boot: String,
    /// Seconds since that boot.
    up: u64,
}

impl Mark {
    fn now() -> Mark {
        let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let up = text.split('.').next().and_then(|s| s.parse().ok()).unwrap_or(0);
        Mark { at: clock::now(), boot: process::boot_id(), up }
    }

    /// Whether a day lies between: by the clock that nobody sets where it is the same boot.
    fn is_a_day_before(&self, now: &Mark) -> bool {
        let wall = clock::seconds_between(&self.at, &now.at).unwrap_or(0) as i64;
        let up = now.up.saturating_sub(self.up) as i64;
        let measured = self.boot != now.boot || now.up == 0 || up >= DAY;
        wall >= DAY && measured
    }
}

/// What is due, and when anybody looked last. Expendable: without it everything stays a day longer.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Marks {
    looked: String,
    due: BTreeMap<String, Mark>,
}

fn marks_file(ctx: &Context) -> PathBuf {
    ctx.repo().agents_dir().join("cache").join("due")
}

fn marks(ctx: &Context) -> Marks {
    let bytes = files::read_limited(&marks_file(ctx), 4 << 20).ok().flatten();
    bytes.and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default()
}

fn keep(ctx: &Context) -> Option<i64> {
    let wanted = ctx.settings(&Flags::default()).ok()?.settings.trash_keep_s?;
    i64::try_from(wanted).ok()
}

/// The time in a name of ours, `20260101t120000z-…`; seconds since then.
fn age_of_label(label: &str) -> Option<i64> {
    let time = label.split('-').next()?.to_uppercase();
    let (d, t) = time.strip_suffix('Z')?.split_once('T')?;
    let at = |s: &str, r: std::ops::Range<usize>| s.get(r).map(str::to_owned);
    let text = format!(
        "{}-{}-{}T{}:{}:{}Z",
        at(d, 0..4)?,
        at(d, 4..6)?,
        at(d, 6..8)?,
        at(t, 0..2)?,
        at(t, 2..4)?,
        at(t, 4..6)?
    );
    Some(Timestamp::now().duration_since(clock::parse(&text)?).as_secs())
}

/// Whether a look is worth its while: something is old by its name, and nobody looked today.
pub fn is_due(ctx: &Context) -> bool {
    let names = |dir: PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(std::result::Result::ok);
        entries.filter_map(|e| age_of_label(e.file_name().to_str()?)).max().unwrap_or(0)
    };
    let trash = names(ctx.repo().agents_dir().join("trash"));
    let captures = names(ctx.repo().common_dir.join("refs/agents/removed"));
    if trash <= DAY && captures <= CAPTURE {
        return false;
    }
    let old = keep(ctx).is_some_and(|keep| trash > keep) || captures > CAPTURE;
    let today = clock::seconds_between(&marks(ctx).looked, &clock::now()).is_some_and(|s| (s as i64) < DAY);
    old && !today
}

/// Deletes what has been kept long enough.
pub fn run(ctx: &Context) -> Result<Expired> {
    if !ctx.repo().agents_dir().is_dir() {
        return Ok(Expired::default());
    }
    let held = ctx.state.lock()?;
    let _ = super::repair::repair(ctx, &held)?;
    let before = marks(ctx);
    let now = Mark::now();
    if before.looked > now.at {
        // The clock was ahead then, or is behind now: nobody knows how old anything is.
        return Ok(Expired::default());
    }
    let mut out = Expired::default();
    let mut due = BTreeMap::new();
    let mut is_over = |key: &str| {
        let mark = before.due.get(key).cloned().unwrap_or_else(|| now.clone());
        let over = mark.is_a_day_before(&now);
        due.insert(key.to_owned(), mark);
        over
    };
    let all = entries(ctx);
    let mut gone: Vec<PathBuf> = Vec::new();
    let mut kept: Vec<String> = Vec::new();
    for (dir, entry) in &all {
        let label = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let old = age_of(&entry.at).zip(keep(ctx)).is_some_and(|(age, keep)| age > keep);
        let over = old && entry.complete && entry.damaged.is_none() && is_over(&label);
        if over && let Some(aside) = out_of_sight(ctx, dir, entry)? {
            gone.push(aside);
            out.entries.push(entry.name.clone());
            continue;
        }
        kept.push(label);
    }
    for (name, id) in refs::list(ctx.repo(), &["refs/agents/removed/"])? {
        let label = name.rsplit('/').next().unwrap_or_default();
        let old = age_of_label(label).is_some_and(|age| age > CAPTURE) && !kept.iter().any(|k| k == label);
        if old && is_over(&name) {
            refs::delete(ctx.repo(), &name, &id)?;
            out.captures += 1;
        }
    }
    out.captures += old_captures_of_runs(ctx, &mut is_over)?;
    ctx.state.ensure_dirs()?;
    let file = marks_file(ctx);
    files::ensure_private_dir(file.parent().expect("it is in the folder of caches"))?;
    let text = serde_json::to_vec(&Marks { looked: now.at.clone(), due }).unwrap_or_default();
    files::write_atomic(&file, &text)?;
    // From here on it is in nobody's way, and a kill leaves it to whoever clears that folder.
    drop(held);
    for aside in gone {
        let _ = unfinished::remove(&aside);
    }
    out.emptied = make_room(ctx)?;
    Ok(out)
}

fn age_of(at: &str) -> Option<i64> {
    Some(Timestamp::now().duration_since(clock::parse(at)?).as_secs())
}

/// Moves an entry out of the trash, in one step; `None` where its tree stands elsewhere and could not go.
fn out_of_sight(ctx: &Context, dir: &Path, entry: &Entry) -> Result<Option<PathBuf>> {
    let tree = entry.tree_in(dir);
    if !tree.starts_with(dir) && tree.symlink_metadata().is_ok() {
        // On another file system: beside where it was, under a name that no entry has.
        let aside = tree.with_extension("expired");
        if files::rename_new(&tree, &aside).is_err() {
            return Ok(None);
        }
        unfinished::remove(&aside)?;
    }
    aside(ctx, dir).map(Some)
}

fn aside(ctx: &Context, dir: &Path) -> Result<PathBuf> {
    let top = ctx.repo().agents_dir().join("sterile");
    files::ensure_private_dir(&top)?;
    let to = top.join(format!("expired-{}", clock::random_hex(8)));
    files::rename_new(dir, &to)?;
    for d in [dir.parent(), Some(top.as_path())].into_iter().flatten() {
        files::sync_dir(d)?;
    }
    Ok(to)
}

/// Deletes a directory that can be made again: out of sight first, so that nobody ever finds half of it.
pub(super) fn delete(ctx: &Context, dir: &Path) -> Result<()> {
    match aside(ctx, dir) {
        // What cannot be deleted now is deleted by whoever clears that folder.
        Ok(to) => drop(unfinished::remove(&to)),
        // Another file system.
        Err(_) => unfinished::remove(dir)?,
    }
    Ok(())
}

/// Captures of runs: the last few of an agent that is there, those of thirty days of one that is gone.
fn old_captures_of_runs(ctx: &Context, is_over: &mut dyn FnMut(&str) -> bool) -> Result<usize> {
    let living: Vec<String> = ctx.state.registrations()?.0.into_iter().map(|r| r.id.0).collect();
    let mut of: BTreeMap<String, Vec<(u64, String, crate::model::agent::Oid)>> = BTreeMap::new();
    for (name, id) in refs::list(ctx.repo(), &["refs/agents/auto/"])? {
        let Some((agent, n)) = name.strip_prefix("refs/agents/auto/").and_then(|r| r.split_once('/')) else { continue };
        let Ok(n) = n.parse() else { continue };
        of.entry(agent.to_owned()).or_default().push((n, name.clone(), id));
    }
    let mut done = 0;
    for (agent, mut captures) in of {
        captures.sort();
        let alive = living.contains(&agent);
        let surplus = captures.len().saturating_sub(AUTO);
        for (i, (_, name, id)) in captures.into_iter().enumerate() {
            let time = ctx.state.objects.commit(&id)?.map(|c| c.time);
            let old = || time.is_some_and(|t| Timestamp::now().as_second() - t > CAPTURE);
            if i < surplus || (!alive && old() && is_over(&name)) {
                refs::delete(ctx.repo(), &name, &id)?;
                done += 1;
            }
        }
    }
    Ok(done)
}

/// Where the trash holds too much: deletes what can be made again from its entries, the oldest first.
fn make_room(ctx: &Context) -> Result<u64> {
    let Ok(loaded) = ctx.settings(&Flags::default()) else { return Ok(0) };
    let limit = loaded.settings.trash_room;
    let all = entries(ctx);
    let mut taken: u64 = all.iter().map(|(dir, _)| files::size_of(dir)).sum();
    let mut freed = 0;
    for (dir, entry) in all.iter().filter(|(_, e)| e.complete && e.damaged.is_none()) {
        if taken <= limit {
            break;
        }
        let _held = ctx.state.lock()?;
        if trash::is_there(ctx, dir).is_none() {
            continue;
        }
        let tree = entry.tree_in(dir);
        let found = regenerable_in_trash(ctx, &tree, entry)?;
        let mut said = entry.clone();
        said.emptied
            .extend(found.iter().filter_map(|p| Some(p.strip_prefix(&tree).ok()?.to_string_lossy().into_owned())));
        remove::write_entry(dir, &said)?;
        for path in found {
            let bytes = files::size_of(&path);
            delete(ctx, &path)?;
            freed += bytes;
            taken = taken.saturating_sub(bytes);
        }
    }
    Ok(freed)
}

/// Whether `dir` is called and looks as what its tool makes, holds no repository and is no link.
fn is_made_by_a_tool(dir: &Path) -> bool {
    let name = dir.file_name().unwrap_or_default();
    let known = REGENERABLE.iter().find(|(n, _)| name == *n);
    known.is_some_and(|(_, proof)| proof.is_none_or(|p| dir.join(p).is_file()))
        && dir.symlink_metadata().is_ok_and(|m| m.is_dir())
        && safe::nested(dir).is_none()
}

/// Directories of the worktree at `place` that git ignores as a whole and a tool makes again.
pub(super) fn regenerable(ctx: &Context, place: &Place<'_>) -> Result<Vec<PathBuf>> {
    let ignored = sterile::ignored_directories(ctx.repo(), place)?;
    let paths = ignored.iter().map(|p| place.worktree.join(OsStr::from_bytes(p.strip_suffix(b"/").unwrap_or(p))));
    Ok(paths.filter(|p| is_made_by_a_tool(p)).collect())
}

/// The same in the trash, where the capture tells what was no ignored file.
fn regenerable_in_trash(ctx: &Context, tree: &Path, entry: &Entry) -> Result<Vec<PathBuf>> {
    let Some(capture) = entry.capture.as_ref() else { return Ok(Vec::new()) };
    let Some(capture) = refs::read(ctx.repo(), capture)? else { return Ok(Vec::new()) };
    // Too large for the capture, or another repository: not in it, and work all the same.
    let Some(about) = back::about(&ctx.state.objects, &capture) else { return Ok(Vec::new()) };
    let skipped: Vec<&Path> = about["skipped"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| Some(Path::new(s["path"].as_str()?)))
        .collect();
    let holds_work = |dir: &Path| {
        let inside = dir.strip_prefix(tree).unwrap_or(dir).to_string_lossy().into_owned();
        skipped.iter().any(|s| s.starts_with(&inside))
    };
    let mut out = Vec::new();
    // Each directory with the tree that the capture has of it: below one that it has none of everything is ignored.
    let mut todo = vec![(tree.to_owned(), Some(capture))];
    while let Some((dir, kept)) = todo.pop() {
        let known = kept.as_ref().map(|k| ctx.state.objects.tree(k)).transpose()?.unwrap_or_default();
        for e in std::fs::read_dir(&dir).map_err(files::because("read", &dir))?.filter_map(std::result::Result::ok) {
            if !e.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            let below = known.iter().find(|k| k.name == e.file_name().as_bytes());
            match below {
                None if is_made_by_a_tool(&e.path()) && !holds_work(&e.path()) => out.push(e.path()),
                Some(k) if k.is_tree => todo.push((e.path(), Some(k.id.clone()))),
                _ => {}
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_makes_nothing_a_day_older() {
        let mark = |at: &str, boot: &str, up| Mark { at: at.into(), boot: boot.into(), up };
        let first = mark("2026-01-01T00:00:00Z", "a", 100);
        for (now, over) in [
            (mark("2036-01-01T00:00:00Z", "a", 200), false),
            (mark("2026-01-02T01:00:00Z", "a", 100 + 90_000), true),
            (mark("2026-01-02T01:00:00Z", "b", 10), true),
            (mark("2026-01-01T01:00:00Z", "b", 10), false),
            (mark("2025-01-01T00:00:00Z", "a", 100 + 900_000), false),
        ] {
            assert_eq!(first.is_a_day_before(&now), over, "{now:?}");
        }
    }

    #[test]
    fn a_label_tells_its_age() {
        let label = format!("{}-csv-0a1b2c3d", clock::compact().to_lowercase());
        assert!(age_of_label(&label).is_some_and(|age| (0..60).contains(&age)));
        assert!(age_of_label("20200101t000000z-x-0a1b2c3d").is_some_and(|age| age > CAPTURE));
        assert_eq!(age_of_label("odd"), None);
    }
}
