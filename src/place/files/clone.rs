//! Whole directories, copy-on-write: `node_modules`, `target`. Never linked: a link would make two agents write into
//! one directory, and its removal could empty both.

use super::beneath::{self, Kind};
use super::copy::{self, destination};
use super::manifest::RelPath;
use super::{Cloned, Error, LeftOut, Options, Reason, Taken, looks_like_production_secret};
use nix::errno::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Clones `directory` or says why not. The new directory appears complete or not at all.
pub(super) fn clone(
    o: &Options<'_>,
    from: &OwnedFd,
    to: &OwnedFd,
    directory: &str,
    taken: &mut Taken,
) -> Result<(), Error> {
    let path = PathBuf::from(directory.strip_prefix("./").unwrap_or(directory).trim_end_matches('/'));
    let mut leave = |reason| {
        taken.left_out.push(LeftOut { path: RelPath(path.clone()), reason });
        Ok(())
    };
    let names = match beneath::components(&path) {
        Some(names) if !names.iter().any(|n| n.eq_ignore_ascii_case(".git")) => names,
        _ => return leave(Reason::Outside),
    };
    let (name, parents) = names.split_last().expect("has at least one component");
    let source = match beneath::descend(from, parents).and_then(|at| Ok((beneath::stat(&at, name)?, at))) {
        Ok((Some(stat), at)) if stat.kind == Kind::Directory => beneath::directory(&at, name),
        Ok((Some(stat), _)) => return leave(Reason::NoDirectory { link: stat.kind == Kind::Link }),
        // Not built yet in the user's own checkout: nothing to take, nothing to say.
        Ok((None, _)) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => Err(e),
    };
    let source = match source {
        Ok(source) => source,
        Err(e) => return leave(Reason::Unreadable(e.to_string())),
    };
    if !path.ancestors().any(|p| !p.as_os_str().is_empty() && (o.ignored)(p, true)) {
        return leave(Reason::NotIgnored);
    }
    if copy::repository(&source) {
        return leave(Reason::Repository);
    }
    let parent = match destination(from, to, parents).map_err(Error::at(o.to, &path))? {
        Ok(parent) => parent,
        Err(reason) => return leave(reason),
    };
    if beneath::stat(&parent, name).map_err(Error::at(o.to, &path))?.is_some() {
        return leave(Reason::Exists);
    }

    let to_identity = beneath::stat_open(to).map_err(Error::at(o.to, &path))?.identity;
    let mut plain = false;
    loop {
        let mut tree = Tree {
            o,
            path: &path,
            to_identity,
            plain,
            files: 0,
            bytes: 0,
            left_out: Vec::new(),
            directories: Vec::new(),
        };
        match tree.make(&source, &parent, name) {
            Ok(()) => {
                let Tree { files, bytes, left_out, .. } = tree;
                taken.left_out.extend(left_out);
                taken.cloned.push(Cloned { path: RelPath(path), files, bytes, copied: plain });
                return Ok(());
            }
            Err(e) if !plain && unsupported(&e) => {
                let size = size(o, &source, &path, 0);
                let reason = match o.clone_fallback_copy {
                    false => Reason::CannotClone,
                    true if size > o.clone_limit => Reason::TooLarge { bytes: size, limit: o.clone_limit },
                    true => {
                        plain = true;
                        continue;
                    }
                };
                taken.left_out.push(LeftOut { path: RelPath(path), reason });
                return Ok(());
            }
            Err(e) => return Err(Error::at(o.to, &path)(e)),
        }
    }
}

/// What a file system says that has no copy-on-write, not between these two places, or not for this file.
fn unsupported(e: &io::Error) -> bool {
    const NO: &[Errno] =
        &[Errno::EOPNOTSUPP, Errno::ENOTSUP, Errno::EXDEV, Errno::EINVAL, Errno::ENOTTY, Errno::ENOSYS, Errno::EPERM];
    e.kind() == io::ErrorKind::Unsupported || e.raw_os_error().is_some_and(|code| NO.contains(&Errno::from_raw(code)))
}

/// Bytes of all files below; what cannot be read counts nothing, it will not be copied either.
fn size(o: &Options<'_>, at: &OwnedFd, path: &Path, depth: usize) -> u64 {
    let mut total = 0u64;
    for name in copy::names(&o.from.join(path)).unwrap_or_default() {
        total += match beneath::stat(at, &name) {
            Ok(Some(s)) if s.kind == Kind::File => s.size,
            Ok(Some(s)) if s.kind == Kind::Directory && depth < copy::DEEPEST => {
                beneath::directory(at, &name).map_or(0, |below| size(o, &below, &path.join(&name), depth + 1))
            }
            _ => 0,
        };
    }
    total
}

struct Tree<'a> {
    o: &'a Options<'a>,
    path: &'a Path,
    /// The new worktree itself, which must not be copied into itself.
    to_identity: (u64, u64),
    /// Copy instead of clone.
    plain: bool,
    files: u64,
    bytes: u64,
    left_out: Vec<LeftOut>,
    /// Below the new tree, with modes and times to set last: a directory that is read-only too early cannot be
    /// filled, and not be taken away again.
    directories: Vec<(PathBuf, u32, Option<SystemTime>)>,
}

impl Tree<'_> {
    fn make(&mut self, source: &OwnedFd, parent: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let temporary = beneath::temporary_name()?;
        let root = beneath::create_directory(parent, &temporary)?;
        let place = self.o.to.join(self.path).with_file_name(&temporary);
        let made = self.fill(source, &root, Path::new(""), &place).and_then(|()| {
            for (below, mode, time) in self.directories.drain(..).rev() {
                let at = beneath::descend(&root, &below.iter().collect::<Vec<_>>())?;
                finish(&File::from(at), mode, time)?;
            }
            // Renaming a directory replaces nothing but an empty directory.
            Ok(nix::fcntl::renameat(parent, temporary.as_os_str(), parent, name)?)
        });
        if made.is_err() {
            remove(&place);
        }
        made
    }

    fn fill(&mut self, source: &OwnedFd, target: &OwnedFd, below: &Path, place: &Path) -> io::Result<()> {
        let here = self.path.join(below);
        let names = match copy::names(&self.o.from.join(&here)) {
            Ok(names) => names,
            Err(e) => return self.leave(&here, Reason::Unreadable(e.to_string())),
        };
        let stat = beneath::stat_open(source)?;
        let time = File::from(source.try_clone()?).metadata()?.modified().ok();
        self.directories.push((below.to_owned(), stat.mode, time));
        for name in names {
            self.entry(source, target, below, place, &name)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        below: &Path,
        place: &Path,
        name: &OsString,
    ) -> io::Result<()> {
        let path = self.path.join(below).join(name);
        let stat = match beneath::stat(source, name) {
            Ok(Some(stat)) => stat,
            Ok(None) => return Ok(()),
            Err(e) => return self.leave(&path, Reason::Unreadable(e.to_string())),
        };
        match stat.kind {
            Kind::Directory => {
                let from = match beneath::directory(source, name) {
                    Ok(from) => from,
                    Err(e) => return self.leave(&path, Reason::Unreadable(e.to_string())),
                };
                if copy::repository(&from) || stat.identity == self.to_identity {
                    return self.leave(&path, Reason::Repository);
                }
                if below.iter().count() >= copy::DEEPEST {
                    return self.leave(&path, Reason::TooDeep);
                }
                let to = beneath::create_directory(target, name)?;
                self.fill(&from, &to, &below.join(name), &place.join(name))
            }
            Kind::Link => match beneath::link_target(source, name) {
                Ok(to) => beneath::create_link(&to, target, name),
                Err(e) => self.leave(&path, Reason::Unreadable(e.to_string())),
            },
            Kind::File if !self.o.copy_secrets && looks_like_production_secret(name) => {
                self.leave(&path, Reason::Secret)
            }
            Kind::File => {
                let mut from = match beneath::file(source, name) {
                    Ok(from) => from,
                    Err(e) => return self.leave(&path, Reason::Unreadable(e.to_string())),
                };
                let to = if self.plain || stat.size == 0 {
                    let mut to = beneath::create(target, name)?;
                    io::copy(&mut from, &mut to)?;
                    to
                } else {
                    reflink(&from, target, name, &place.join(name))?
                };
                // Build tools compare times.
                finish(&to, stat.mode, from.metadata()?.modified().ok())?;
                self.files += 1;
                self.bytes += stat.size;
                Ok(())
            }
            kind => self.leave(&path, Reason::Special(copy::kind_word(kind).to_owned())),
        }
    }

    fn leave(&mut self, path: &Path, reason: Reason) -> io::Result<()> {
        self.left_out.push(LeftOut { path: RelPath(path.into()), reason });
        Ok(())
    }
}

/// Sets mode and time of what is complete.
pub(super) fn finish(file: &File, mode: u32, time: Option<SystemTime>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    if let Some(time) = time {
        file.set_modified(time)?;
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode))
}

#[cfg(target_os = "linux")]
fn reflink(from: &File, at: &OwnedFd, name: &OsStr, _place: &Path) -> io::Result<File> {
    let to = beneath::create(at, name)?;
    reflink_copy::reflink_file(from, &to)?;
    Ok(to)
}

/// Elsewhere only a path can be cloned to; it leads into a directory that we made a moment ago under a random name.
#[cfg(not(target_os = "linux"))]
fn reflink(from: &File, at: &OwnedFd, name: &OsStr, place: &Path) -> io::Result<File> {
    reflink_copy::reflink_file_to_path(from, place)?;
    beneath::file(at, name)
}

#[expect(
    clippy::disallowed_methods,
    reason = "our own incomplete tree under a random name; std unlinks links and follows none"
)]
fn remove(place: &Path) {
    if let Err(e) = std::fs::remove_dir_all(place) {
        tracing::warn!(path = %place.display(), error = %e, "an incomplete copy stays");
    }
}
