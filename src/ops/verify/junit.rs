//! The JUnit files that a test run left in its worktree. What wrote them is not trusted: links are not followed, and
//! there are limits to how much is looked at and read.

use crate::model::junit;
use crate::model::verdict::all_or_none;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Entries of directories that are looked at.
const ENTRIES: usize = 200_000;
/// Files that are read.
const FILES: usize = 2_000;
/// Bytes that are read of all together.
const BYTES: u64 = 64 << 20;

/// By what a file that was written again is recognised.
type Stamp = (u64, i64, i64, u64);

/// Those that were there before the run: they say nothing of it.
#[derive(Debug)]
pub(super) struct Files<'a> {
    top: &'a Path,
    matcher: ignore::gitignore::Gitignore,
    before: BTreeMap<PathBuf, Stamp>,
}

impl<'a> Files<'a> {
    /// Looks at `top`, where the command is about to run.
    pub(super) fn before(top: &'a Path, pattern: &str) -> Files<'a> {
        let mut builder = ignore::gitignore::GitignoreBuilder::new("");
        // It was read once as a pattern: one that cannot be read matches nothing.
        let _ = builder.add_line(None, pattern);
        let matcher = builder.build().unwrap_or_else(|_| ignore::gitignore::Gitignore::empty());
        let mut files = Files { top, matcher, before: BTreeMap::new() };
        files.before = files.found();
        files
    }

    /// The tests that failed by the files that are new; none where there is more than is read, or one was cut off.
    pub(super) fn failing(&self) -> Vec<String> {
        let (mut left, mut failing, mut cut) = (BYTES, BTreeSet::new(), false);
        let mut new = self.found().into_iter().filter(|(path, stamp)| self.before.get(path) != Some(stamp));
        for (path, _) in new.by_ref().take(FILES) {
            let Some(text) = read(&self.top.join(path), left) else { continue };
            left = left.saturating_sub(text.len() as u64);
            cut |= !text.trim_end().ends_with('>');
            failing.extend(junit::failing(&text));
        }
        if cut || left == 0 || new.next().is_some() { Vec::new() } else { all_or_none(failing) }
    }

    fn found(&self) -> BTreeMap<PathBuf, Stamp> {
        let (mut out, mut looked) = (BTreeMap::new(), 0);
        let mut todo = vec![PathBuf::new()];
        while let Some(dir) = todo.pop() {
            for e in std::fs::read_dir(self.top.join(&dir)).into_iter().flatten().filter_map(Result::ok) {
                looked += 1;
                if looked > ENTRIES {
                    return out;
                }
                let path = dir.join(e.file_name());
                let Ok(kind) = e.file_type() else { continue };
                if kind.is_dir() && e.file_name() != ".git" {
                    todo.push(path);
                } else if kind.is_file()
                    && self.matcher.matched_path_or_any_parents(&path, false).is_ignore()
                    && let Ok(m) = e.metadata()
                {
                    out.insert(path, (m.ino(), m.mtime(), m.mtime_nsec(), m.len()));
                }
            }
        }
        out
    }
}

fn read(path: &Path, limit: u64) -> Option<String> {
    let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
