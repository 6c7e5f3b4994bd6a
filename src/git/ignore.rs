//! What git ignores in a worktree, read in-process: the index, `.gitignore` files, `info/exclude` and the user's file.

use super::objects::Objects;
use super::repo::Repo;
use super::{Error, Result};
use gix::bstr::{BStr, ByteSlice as _};
use gix::index::entry::Mode;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Answers for paths of one worktree; quickest when asked for them in the order of a walk.
pub(super) struct Ignores {
    stack: gix::worktree::Stack,
    objects: gix::Repository,
}

impl Ignores {
    /// For the worktree at `top` with this index.
    pub(super) fn new(repo: &Repo, objects: &Objects, top: &Path, index: &gix::index::File) -> Result<Ignores> {
        use gix::worktree::stack::{State, state};
        let parse = gix::ignore::search::Ignore::default();
        let mut buf = Vec::with_capacity(512);
        let user = super::config_file::user_settings();
        let excludes = repo.excludes.clone().unwrap_or_else(|| user.excludes.clone());
        let globals = gix::ignore::Search::from_git_dir(&repo.common_dir, Some(excludes), &mut buf, parse)
            .map_err(|e| Error::Object(e.to_string()))?;
        let source = state::ignore::Source::WorktreeThenIdMappingIfNotSkipped;
        let ignore = state::Ignore::new(Default::default(), globals, None, source, parse);
        let case = gix::glob::pattern::Case::Sensitive;
        let state = State::IgnoreStack(ignore);
        let mappings = state.id_mappings_from_index(index, index.path_backing(), case);
        let stack = gix::worktree::Stack::new(top, state, case, buf, mappings);
        Ok(Ignores { stack, objects: objects.local() })
    }

    /// Whether `path` (from the top, no slash at its end) is ignored.
    pub(super) fn is_ignored(&mut self, path: &[u8], is_dir: bool) -> Result<bool> {
        let mode = if is_dir { Mode::DIR } else { Mode::FILE };
        let platform = self.stack.at_entry(BStr::new(path), Some(mode), &self.objects.objects);
        Ok(platform.map_err(|e| Error::Object(e.to_string()))?.is_excluded())
    }
}

/// The directories of the worktree at `top` that are not ignored, `top` first: those where a file that git would look at
/// can appear. Other repositories inside are left out, links are not followed.
pub fn directories(repo: &Repo, objects: &Objects, top: &Path, admin: &Path) -> Result<Vec<PathBuf>> {
    let hash = if repo.object_format == "sha256" { gix::hash::Kind::Sha256 } else { gix::hash::Kind::Sha1 };
    let index = admin.join("index");
    let index = if index.exists() {
        gix::index::File::at(index, hash, true, Default::default()).map_err(|e| Error::Object(e.to_string()))?
    } else {
        gix::index::File::from_state(gix::index::State::new(hash), index)
    };
    let tracked = |dir: &[u8]| {
        let dir = [dir, b"/"].concat();
        let at = index.entries().partition_point(|e| e.path(&index).as_bytes() < dir.as_slice());
        index.entries().get(at).is_some_and(|e| e.path(&index).starts_with(&dir))
    };
    let mut ignores = Ignores::new(repo, objects, top, &index)?;
    let mut out = Vec::new();
    let mut todo: Vec<Vec<u8>> = vec![Vec::new()];
    while let Some(dir) = todo.pop() {
        let on_disk = top.join(std::ffi::OsStr::from_bytes(&dir));
        let Ok(entries) = std::fs::read_dir(&on_disk) else { continue };
        out.push(on_disk.clone());
        for e in entries.filter_map(std::result::Result::ok) {
            let name = e.file_name();
            if name == ".git" || !e.file_type().is_ok_and(|t| t.is_dir()) {
                continue;
            }
            let slash: &[u8] = if dir.is_empty() { b"" } else { b"/" };
            let path = [dir.as_slice(), slash, name.as_bytes()].concat();
            let foreign = on_disk.join(&name).join(".git").symlink_metadata().is_ok();
            if !foreign && (tracked(&path) || !ignores.is_ignored(&path, true)?) {
                todo.push(path);
            }
        }
    }
    Ok(out)
}
