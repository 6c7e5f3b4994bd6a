//! Opening below a directory, one component at a time, without ever following a link.
//!
//! A path is only a hope: between looking and opening, a component can become a link to somewhere else. A descriptor
//! stays what it was.

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, linkat, symlinkat, unlinkat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// The kind of an entry, links not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    Pipe,
    Socket,
    Device,
}

pub(super) struct Stat {
    pub(super) kind: Kind,
    /// Permission bits, without set-id and sticky: a copy never gives more power than was meant for the original.
    pub(super) mode: u32,
    pub(super) size: u64,
    /// Device and inode.
    pub(super) identity: (u64, u64),
}

#[expect(clippy::unnecessary_cast, reason = "the field types differ between systems")]
fn from_raw(raw: &FileStat) -> Stat {
    let kind = match SFlag::from_bits_truncate(raw.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => Kind::File,
        SFlag::S_IFDIR => Kind::Directory,
        SFlag::S_IFLNK => Kind::Link,
        SFlag::S_IFIFO => Kind::Pipe,
        SFlag::S_IFSOCK => Kind::Socket,
        _ => Kind::Device,
    };
    Stat {
        kind,
        mode: raw.st_mode as u32 & 0o777,
        size: raw.st_size as u64,
        identity: (raw.st_dev as u64, raw.st_ino as u64),
    }
}

/// Opens the directory everything else is below; a link here is the user's own way of writing it.
pub(super) fn root(path: &Path) -> io::Result<OwnedFd> {
    Ok(File::options()
        .read(true)
        .open(path)
        .and_then(|f| if f.metadata()?.is_dir() { Ok(f) } else { Err(Errno::ENOTDIR.into()) })?
        .into())
}

pub(super) fn directory(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// Opens for reading. What turns out to be a pipe does not block; the caller looks at what it got.
pub(super) fn file(at: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let file = File::from(openat(at, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no longer a regular file")) }
}

/// Creates a file that was not there, readable by nobody else yet.
pub(super) fn create(at: &OwnedFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(File::from(openat(at, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?))
}

/// Creates a directory that was not there, for nobody else yet, and opens it.
pub(super) fn create_directory(at: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    mkdirat(at, name, Mode::S_IRWXU)?;
    directory(at, name)
}

/// `None` when there is nothing of that name.
pub(super) fn stat(at: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match fstatat(at, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(raw) => Ok(Some(from_raw(&raw))),
        Err(Errno::ENOENT) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn stat_open(fd: &impl AsFd) -> io::Result<Stat> {
    Ok(from_raw(&nix::sys::stat::fstat(fd)?))
}

pub(super) fn link_target(at: &OwnedFd, name: &OsStr) -> io::Result<OsString> {
    Ok(readlinkat(at, name)?)
}

pub(super) fn create_link(target: &OsStr, at: &OwnedFd, name: &OsStr) -> io::Result<()> {
    Ok(symlinkat(target, at, name)?)
}

/// Gives a file a second name, which must be free.
pub(super) fn second_name(at: &OwnedFd, name: &OsStr, second: &OsStr) -> io::Result<()> {
    Ok(linkat(at, name, at, second, AtFlags::empty())?)
}

pub(super) fn unlink(at: &OwnedFd, name: &OsStr) -> io::Result<()> {
    Ok(unlinkat(at, name, UnlinkatFlags::NoRemoveDir)?)
}

/// The components of a path that leads strictly inside; `None` for any other.
pub(super) fn components(path: &Path) -> Option<Vec<&OsStr>> {
    // A name with NUL cannot come from the file system, only from a damaged manifest.
    let plain = |c: Component<'_>| matches!(c, Component::Normal(name) if !name.as_encoded_bytes().contains(&0));
    let names: Vec<&OsStr> = path.iter().collect();
    (!names.is_empty() && path.components().all(plain)).then_some(names)
}

/// The directory `names` below `at`.
pub(super) fn descend(at: &OwnedFd, names: &[&OsStr]) -> io::Result<OwnedFd> {
    let mut fd = at.try_clone()?;
    for name in names {
        fd = directory(&fd, name)?;
    }
    Ok(fd)
}

/// A name nobody else has, for what is not complete yet.
pub(super) fn temporary_name() -> io::Result<OsString> {
    let random = getrandom::u64().map_err(|e| io::Error::other(e.to_string()))?;
    Ok(format!(".git-agents-{random:016x}.tmp").into())
}
