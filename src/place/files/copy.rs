//! Single files: found by patterns, copied one by one.

use super::beneath::{self, Kind};
use super::clone::finish;
use super::manifest::{Entry, RelPath};
use super::patterns::Patterns;
use super::{Error, LeftOut, Options, Reason, Taken, looks_like_production_secret};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Each level holds a descriptor, and deeper is a mistake or an attack.
pub(super) const DEEPEST: usize = 100;

pub(super) struct Walk<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) patterns: Patterns,
    pub(super) from: &'a OwnedFd,
    pub(super) to: &'a OwnedFd,
    /// The new worktree may be below the checkout.
    pub(super) to_identity: (u64, u64),
    pub(super) taken: &'a mut Taken,
}

impl Walk<'_> {
    /// Looks at all entries of a directory. `top`: how many components of `path` are the uppermost ignored directory.
    pub(super) fn directory(&mut self, at: &OwnedFd, path: &Path, top: Option<usize>) -> Result<(), Error> {
        let names = match names(&self.options.from.join(path)) {
            Ok(names) => names,
            Err(e) if path.as_os_str().is_empty() => return Err(Error::at(self.options.from, path)(e)),
            Err(e) => return self.leave(path, Reason::Unreadable(e.to_string())),
        };
        for name in names.iter().filter(|n| !n.eq_ignore_ascii_case(".git")) {
            let path = path.join(name);
            match beneath::stat(at, name) {
                Ok(Some(stat)) if stat.kind == Kind::Directory => {
                    if stat.identity != self.to_identity {
                        self.below(at, name, &path, top)?;
                    }
                }
                Ok(Some(stat)) => {
                    let wanted = self.patterns.matches(&path, false);
                    if wanted && (top.is_some() || (self.options.ignored)(&path, false)) {
                        self.take(at, name, &path, &stat)?;
                    }
                }
                // Gone since it was listed.
                Ok(None) => {}
                Err(e) => self.leave(&path, Reason::Unreadable(e.to_string()))?,
            }
        }
        Ok(())
    }

    fn below(&mut self, at: &OwnedFd, name: &OsStr, path: &Path, top: Option<usize>) -> Result<(), Error> {
        if self.taken.cloned.iter().any(|c| &*c.path == path) {
            return Ok(());
        }
        let depth = path.iter().count();
        let top = top.or_else(|| (self.options.ignored)(path, true).then_some(depth));
        if let Some(top) = top
            && !self.patterns.lead_into(path, top)
        {
            if self.patterns.matches(path, true) {
                return self.leave(path, Reason::NotNamed);
            }
            return Ok(());
        }
        let inside = match beneath::directory(at, name) {
            Ok(inside) => inside,
            Err(e) => return self.leave(path, Reason::Unreadable(e.to_string())),
        };
        if repository(&inside) {
            // Submodules and worktrees that nobody asked for are not worth a word.
            if top.is_some() {
                return self.leave(path, Reason::Repository);
            }
            return Ok(());
        }
        // `.env` is also a customary name of these, and they contain their own path.
        if top.is_some() && matches!(beneath::stat(&inside, OsStr::new("pyvenv.cfg")), Ok(Some(_))) {
            return self.leave(path, Reason::VirtualEnvironment);
        }
        if depth >= DEEPEST {
            return self.leave(path, Reason::TooDeep);
        }
        self.directory(&inside, path, top)
    }

    fn take(&mut self, at: &OwnedFd, name: &OsStr, path: &Path, stat: &beneath::Stat) -> Result<(), Error> {
        if !self.options.copy_secrets && looks_like_production_secret(name) {
            return self.leave(path, Reason::Secret);
        }
        if !matches!(stat.kind, Kind::File | Kind::Link) {
            return self.leave(path, Reason::Special(kind_word(stat.kind).to_owned()));
        }
        let parents: Vec<&OsStr> = path.parent().map(|p| p.iter().collect()).unwrap_or_default();
        let wrong = Error::at(self.options.to, path);
        // Opened before anything is made: what cannot be read leaves no empty directory.
        let source = match stat.kind {
            Kind::Link => beneath::link_target(at, name).map(Source::Link),
            _ => beneath::file(at, name).map(Source::File),
        };
        let source = match source {
            Ok(source) => source,
            Err(e) => return self.leave(path, Reason::Unreadable(e.to_string())),
        };
        let directory = match destination(self.from, self.to, &parents).map_err(&wrong)? {
            Ok(directory) => directory,
            Err(reason) => return self.leave(path, reason),
        };
        if beneath::stat(&directory, name).map_err(&wrong)?.is_some() {
            return self.leave(path, Reason::Exists);
        }
        let copied = match source {
            Source::Link(target) => {
                beneath::create_link(&target, &directory, name).and_then(|()| Entry::link(&target, path))
            }
            Source::File(file) => match copy(file, &directory, name, path) {
                Ok(entry) => Ok(entry),
                Err(Failed::Read(e)) => return self.leave(path, Reason::Unreadable(e.to_string())),
                Err(Failed::Write(e)) => Err(e),
            },
        };
        match copied {
            Ok(entry) => {
                self.taken.copied.push(entry);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => self.leave(path, Reason::Exists),
            Err(e) => Err(wrong(e)),
        }
    }

    /// An outcome and no error, so that it can be returned.
    fn leave(&mut self, path: &Path, reason: Reason) -> Result<(), Error> {
        self.taken.left_out.push(LeftOut { path: RelPath(path.into()), reason });
        Ok(())
    }
}

enum Source {
    File(File),
    Link(OsString),
}

enum Failed {
    Read(io::Error),
    Write(io::Error),
}

/// A file under a name that is not its own yet, gone when it goes out of scope.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: OsString,
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure here, and the name says whose it is.
        let _ = beneath::unlink(self.directory, &self.name);
    }
}

/// Writes the copy under another name and gives it its own, which must be free, when it is complete.
fn copy(mut from: File, directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<Entry, Failed> {
    let stat = beneath::stat_open(&from).map_err(Failed::Read)?;
    let time = from.metadata().and_then(|m| m.modified()).ok();
    let temporary = Temporary { directory, name: beneath::temporary_name().map_err(Failed::Write)? };
    let mut to = beneath::create(directory, &temporary.name).map_err(Failed::Write)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let n = match from.read(&mut buffer) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            n => n.map_err(Failed::Read)?,
        };
        if n == 0 {
            break;
        }
        to.write_all(&buffer[..n]).map_err(Failed::Write)?;
    }
    let mut complete = || -> io::Result<Entry> {
        finish(&to, stat.mode, time)?;
        to.rewind()?;
        let entry = Entry::file(&mut to, path)?;
        match beneath::second_name(directory, &temporary.name, name) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => copy_in_place(&mut to, directory, name)?,
            named => named?,
        }
        Ok(entry)
    };
    complete().map_err(Failed::Write)
}

/// For a file system without second names. A half-written file can be seen here for a moment, but does not stay.
fn copy_in_place(from: &mut File, directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let mut to = beneath::create(directory, name)?;
    let incomplete = Temporary { directory, name: name.to_owned() };
    from.rewind()?;
    io::copy(from, &mut to)?;
    finish(&to, beneath::stat_open(from)?.mode, from.metadata()?.modified().ok())?;
    std::mem::forget(incomplete);
    Ok(())
}

/// The directory `parents` in the new worktree, made where it is missing with the modes it has in the checkout; or
/// why there can be none. A link on the way is not followed: it leads out of the worktree, or into another part of it.
pub(super) fn destination(from: &OwnedFd, to: &OwnedFd, parents: &[&OsStr]) -> io::Result<Result<OwnedFd, Reason>> {
    let mut at = to.try_clone()?;
    // Only for modes; a directory that has gone meanwhile has none.
    let mut origin = from.try_clone().ok();
    for (i, name) in parents.iter().enumerate() {
        let here = || RelPath(parents[..=i].iter().collect());
        origin = origin.and_then(|o| beneath::directory(&o, name).ok());
        at = match beneath::stat(&at, name)?.map(|s| s.kind) {
            Some(Kind::Directory) => match beneath::directory(&at, name) {
                Ok(below) if repository(&below) => return Ok(Err(Reason::Repository)),
                below => below?,
            },
            Some(Kind::Link) => return Ok(Err(Reason::LinkInTheWay(here()))),
            Some(_) => return Ok(Err(Reason::FileInTheWay(here()))),
            None => {
                let made = File::from(beneath::create_directory(&at, name)?);
                // We still have to write into it.
                let mode = origin.as_ref().and_then(|o| beneath::stat_open(o).ok()).map_or(0o755, |s| s.mode);
                finish(&made, mode | 0o700, None)?;
                made.into()
            }
        };
    }
    Ok(Ok(at))
}

/// Whether a directory is a repository or worktree of its own, bare ones too.
pub(super) fn repository(at: &OwnedFd) -> bool {
    let has = |name: &str| matches!(beneath::stat(at, OsStr::new(name)), Ok(Some(_)));
    has(".git") || (has("HEAD") && has("objects") && has("refs"))
}

/// The names in a directory, sorted: the same outcome every time.
pub(super) fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    let mut names: Vec<OsString> =
        std::fs::read_dir(directory)?.map(|e| Ok(e?.file_name())).collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}

pub(super) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Pipe => "pipe",
        Kind::Socket => "socket",
        Kind::Device => "device",
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_copy_without_second_names_is_exclusive_and_complete() {
        let dir = tempfile::tempdir().unwrap();
        let at = beneath::root(dir.path()).unwrap();
        let mut from = beneath::create(&at, OsStr::new("a")).unwrap();
        from.write_all(b"text").unwrap();
        finish(&from, 0o640, None).unwrap();
        copy_in_place(&mut from, &at, OsStr::new("b")).unwrap();
        assert_eq!(std::fs::read(dir.path().join("b")).unwrap(), b"text");
        assert_eq!(std::fs::metadata(dir.path().join("b")).unwrap().permissions().mode() & 0o7777, 0o640);
        let again = copy_in_place(&mut from, &at, OsStr::new("b")).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(dir.path().join("b").exists(), "what was there is not taken for an incomplete copy");
    }
}
