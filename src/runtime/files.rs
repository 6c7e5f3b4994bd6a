//! Files that survive: written to a temporary beside the target, synced, renamed, the directory synced.
//! Directories of ours are 0700, files 0600, owned by us, never reached through a link.

use super::process;
use crate::model::text::shown_path;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// A file or directory that could not be used, and which.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system said no.
    #[error("could not {what} '{}'", shown_path(path))]
    Io {
        /// The verb: "write", "open", …
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Not ours to trust.
    #[error("'{}' {why}", shown_path(path))]
    Untrusted {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl Error {
    /// The kind of the system's answer, where there is one.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Io { source, .. } => Some(source.kind()),
            Error::Untrusted { .. } => None,
        }
    }

    /// Whether there was no room: the disk, or what this user may take of it, is full.
    pub fn is_disk_full(&self) -> bool {
        matches!(self.kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }
}

/// Wraps an I/O error with what was tried on which path.
pub fn because<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Error + 'a {
    move |source| Error::Io { what, path: path.to_owned(), source }
}

/// Makes `dir` (not its parents) 0700 if it is missing; refuses a link, another owner, or anyone else's write access.
pub fn ensure_private_dir(dir: &Path) -> Result<(), Error> {
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {
            if let Some(parent) = dir.parent() {
                sync_dir(parent)?;
            }
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(because("create", dir)(e)),
    }
    let meta = fs::symlink_metadata(dir).map_err(because("read", dir))?;
    let refuse = |why: &str| Err(Error::Untrusted { path: dir.to_owned(), why: why.to_owned() });
    if meta.file_type().is_symlink() || !meta.is_dir() {
        return refuse("is not a directory of ours (a link or a file stands there)");
    }
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return refuse("belongs to another user");
    }
    if meta.mode() & 0o077 != 0 {
        // Ours, but open to others: narrow it before anything is put there.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(because("narrow", dir))?;
    }
    Ok(())
}

/// Opens a file of ours, creating it 0600; never through a link, never another owner's.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> Result<File, Error> {
    let file = options.mode(0o600).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_CLOEXEC).open(path);
    let file = file.map_err(because("open", path))?;
    let meta = file.metadata().map_err(because("read", path))?;
    if meta.uid() != nix::unistd::geteuid().as_raw() {
        return Err(Error::Untrusted { path: path.to_owned(), why: "belongs to another user".into() });
    }
    Ok(file)
}

/// Replaces `path` by `bytes`, 0600, durable when it returns.
pub fn write_durable(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace(path, bytes, &|tmp| open_private(tmp, OpenOptions::new().write(true).create_new(true)))
}

/// The same for a file of the user's: as open to others as it is, or as theirs are. What is no file (a pipe, a terminal)
/// is written to.
pub fn write_for_user(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    // A link stays one.
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    heal_beside(path);
    let there = fs::metadata(path).ok();
    if there.as_ref().is_some_and(|m| !m.is_file() && !m.is_dir()) {
        let open = OpenOptions::new().write(true).open(path);
        return open.and_then(|mut f| f.write_all(bytes)).map_err(because("write", path));
    }
    replace(path, bytes, &|tmp| {
        let made = OpenOptions::new().write(true).create_new(true).custom_flags(nix::libc::O_CLOEXEC).open(tmp);
        let made = made.map_err(because("write", path))?;
        if let Some(m) = &there {
            made.set_permissions(m.permissions()).map_err(because("write", path))?;
        }
        Ok(made)
    })
}

/// Whether [`write_for_user`] would find room for a file beside `path`, or something to write to.
pub fn probe(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return OpenOptions::new().write(true).open(path).map(drop);
    }
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let tmp = temporary_beside(&path);
    OpenOptions::new().write(true).create_new(true).open(&tmp)?;
    fs::remove_file(&tmp)
}

fn replace(path: &Path, bytes: &[u8], make: &dyn Fn(&Path) -> Result<File, Error>) -> Result<(), Error> {
    let tmp = temporary_beside(path);
    let result = (|| {
        let mut f = make(&tmp)?;
        f.write_all(bytes).map_err(because("write", path))?;
        f.sync_all().map_err(because("sync", path))?;
        fs::rename(&tmp, path).map_err(because("replace", path))
    })();
    if result.is_err() {
        let _ = fs::remove_file(&tmp);
    }
    result?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

/// The same, not synced: for records that are expendable while nothing runs.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let tmp = temporary_beside(path);
    let mut f = open_private(&tmp, OpenOptions::new().write(true).create_new(true))?;
    let result = f
        .write_all(bytes)
        .map_err(because("write", &tmp))
        .and_then(|()| fs::rename(&tmp, path).map_err(because("replace", path)));
    if result.is_err() {
        let _ = fs::remove_file(&tmp);
    }
    result
}

/// Replaces `path` by `bytes`, durable, in the room of the file at `reserve`, which is used up: nothing is allocated.
pub fn write_reserved(reserve: &Path, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut f = open_private(reserve, OpenOptions::new().write(true))?;
    let room = f.metadata().map_err(because("read", reserve))?.len();
    if (bytes.len() as u64) > room {
        return Err(because("write", path)(io::ErrorKind::StorageFull.into()));
    }
    f.write_all(bytes).map_err(because("write", reserve))?;
    f.set_len(bytes.len() as u64).map_err(because("write", reserve))?;
    f.sync_all().map_err(because("sync", reserve))?;
    fs::rename(reserve, path).map_err(because("replace", path))?;
    sync_dir(path.parent().unwrap_or(Path::new("/")))
}

/// Bytes that the user may still write where `path` is, or would be.
pub fn free_space(path: &Path) -> Option<u64> {
    let mut dir = path;
    while !dir.exists() {
        dir = dir.parent()?;
    }
    let v = nix::sys::statvfs::statvfs(dir).ok()?;
    #[cfg(target_os = "linux")]
    let blocks = v.blocks_available();
    #[cfg(not(target_os = "linux"))]
    let blocks = u64::from(v.blocks_available());
    Some(blocks.saturating_mul(v.fragment_size()))
}

/// The same file by the plain way: no link and no `..` in what leads to it; as it is where that cannot be told.
pub fn plain(path: &Path) -> PathBuf {
    let dir = path.parent().and_then(|dir| dir.canonicalize().ok());
    dir.zip(path.file_name()).map_or_else(|| path.to_owned(), |(dir, name)| dir.join(name))
}

/// A new name in the same directory that nobody else uses, and that tells who does.
pub fn temporary_beside(path: &Path) -> PathBuf {
    static ME: std::sync::OnceLock<(i32, u64)> = std::sync::OnceLock::new();
    let (pid, start) = ME.get_or_init(|| {
        let me = process::me();
        (me.pid, me.start)
    });
    path.with_file_name(format!("{TEMPORARY}{pid}-{start}-{}", super::clock::random_hex(4)))
}

const TEMPORARY: &str = ".tmp-";

/// A file in `dir` that has no name any more: for what a program prints that may leave others behind, which would hold a
/// pipe open.
pub fn unnamed(dir: &Path) -> Result<File, Error> {
    let path = temporary_beside(&dir.join("x"));
    let file = open_private(&path, OpenOptions::new().read(true).write(true).create_new(true))?;
    fs::remove_file(&path).map_err(because("remove", &path))?;
    Ok(file)
}

/// The same with something to read in it.
pub fn unnamed_with(dir: &Path, bytes: &[u8]) -> Result<File, Error> {
    use std::io::Seek as _;
    let mut file = unnamed(dir)?;
    file.write_all(bytes).and_then(|()| file.rewind()).map_err(because("write", dir))?;
    Ok(file)
}

/// All that is in a file of [`unnamed`] by now.
pub fn read_all(mut file: &File) -> Vec<u8> {
    use std::io::{Read as _, Seek as _};
    let mut out = Vec::new();
    if file.rewind().is_ok() {
        let _ = file.read_to_end(&mut out);
    }
    out
}

/// Removes the temporary files in `dir` whose writers are gone.
pub fn heal(dir: &Path) {
    for e in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        let name = e.file_name();
        let Some(owner) = name.to_str().and_then(|n| n.strip_prefix(TEMPORARY)) else { continue };
        let mut numbers = owner.split('-');
        if let (Some(Ok(pid)), Some(Ok(start))) = (numbers.next().map(str::parse), numbers.next().map(str::parse))
            && pid > 1
            && !(process::Identity { pid, start, boot: process::boot_id() }).is_alive()
        {
            let _ = fs::remove_file(e.path());
        }
    }
}

/// What a kill left of a write to `path`.
pub fn heal_beside(path: &Path) {
    let dir = path.parent().filter(|d| !d.as_os_str().is_empty());
    heal(dir.unwrap_or(Path::new(".")));
}

/// Makes renames and creations in `dir` durable.
pub fn sync_dir(dir: &Path) -> Result<(), Error> {
    File::open(dir).and_then(|f| f.sync_all()).map_err(because("sync", dir))
}

/// Makes all that was written to the file system of `dir` durable: what other programs wrote, file by file nobody knows.
pub fn sync_all_beside(dir: &Path) -> Result<(), Error> {
    let f = File::open(dir).map_err(because("open", dir))?;
    #[cfg(target_os = "linux")]
    nix::unistd::syncfs(&f).map_err(|e| because("sync", dir)(e.into()))?;
    #[cfg(not(target_os = "linux"))]
    {
        // It only begins to write; the second one waits for the disk, and for what came before.
        nix::unistd::sync();
        f.sync_all().map_err(because("sync", dir))?;
    }
    Ok(())
}

/// Reads a file, at most `limit` bytes of it; `None` where it does not exist. A pipe in its place, which might never have
/// an end, is an error.
pub fn read_limited(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, Error> {
    use std::io::Read as _;
    use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
    // Opening a pipe that nobody writes to would wait for ever.
    match File::options().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path) {
        Ok(f) => {
            if f.metadata().is_ok_and(|m| m.file_type().is_fifo()) {
                return Err(because("read", path)(io::Error::new(io::ErrorKind::InvalidInput, "it is a pipe")));
            }
            let mut out = Vec::new();
            f.take(limit).read_to_end(&mut out).map_err(because("read", path))?;
            Ok(Some(out))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(because("read", path)(e)),
    }
}

/// `rename` that is not satisfied with replacing: fails where `to` exists.
pub fn rename_new(from: &Path, to: &Path) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    {
        use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
        match renameat2(AT_FDCWD, from, AT_FDCWD, to, RenameFlags::RENAME_NOREPLACE) {
            Ok(()) => return Ok(()),
            // Some file systems lack the flag: the check below is then all there is.
            Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOSYS) => {}
            Err(e) => return Err(because("move to", to)(e.into())),
        }
    }
    if fs::symlink_metadata(to).is_ok() {
        return Err(because("move to", to)(io::ErrorKind::AlreadyExists.into()));
    }
    fs::rename(from, to).map_err(because("move to", to))
}

/// Where file systems are mounted, as far as this system tells.
pub fn mounts() -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let points = text.split(|b| *b == b'\n').filter_map(|l| l.split(|b| *b == b' ').nth(4));
    points.map(|p| std::ffi::OsString::from_vec(unescape(p)).into()).collect()
}

/// Bytes of all files below `dir`, as the disk counts them; no link followed, what cannot be read left out.
pub fn size_of(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let (mut sum, mut todo) = (0, vec![dir.to_owned()]);
    while let Some(dir) = todo.pop() {
        for e in fs::read_dir(&dir).into_iter().flatten().filter_map(Result::ok) {
            match e.metadata() {
                Ok(m) if m.is_dir() => todo.push(e.path()),
                Ok(m) => sum += m.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    sum
}

/// `\040` and the like.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let [first, after @ ..] = rest {
        let digits = after.get(..3).and_then(|d| std::str::from_utf8(d).ok()).filter(|_| *first == b'\\');
        match digits.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(b) => {
                out.push(b);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// Deletes the tree at `dir`: by descriptor, no link followed, no file system crossed. The only recursive delete.
///
/// `dir` must be on the device `dev`, else nothing is touched: a mount that appeared there is not ours.
pub fn remove_tree(dir: &Path, dev: u64) -> Result<(), Error> {
    let parent = dir.parent().unwrap_or(Path::new("/"));
    let parent_fd = File::open(parent).map_err(because("open", parent))?;
    let name = dir.file_name().unwrap_or_default();
    remove_at(parent_fd.as_fd(), name, dev, dir)
}

#[cfg(target_os = "linux")]
fn device(st: &nix::sys::stat::FileStat) -> u64 {
    st.st_dev
}

#[cfg(not(target_os = "linux"))]
fn device(st: &nix::sys::stat::FileStat) -> u64 {
    // As the standard library has it.
    i64::from(st.st_dev).cast_unsigned()
}

fn remove_at(parent: std::os::fd::BorrowedFd<'_>, name: &std::ffi::OsStr, dev: u64, shown: &Path) -> Result<(), Error> {
    let st = match fstatat(parent, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(st) => st,
        Err(nix::errno::Errno::ENOENT) => return Ok(()),
        Err(e) => return Err(because("read", shown)(e.into())),
    };
    if SFlag::from_bits_truncate(st.st_mode & SFlag::S_IFMT.bits()) != SFlag::S_IFDIR {
        return unlinkat(parent, name, UnlinkatFlags::NoRemoveDir).map_err(|e| because("delete", shown)(e.into()));
    }
    if device(&st) != dev {
        return Err(Error::Untrusted {
            path: shown.to_owned(),
            why: "is on another file system; nothing below it was deleted".into(),
        });
    }
    let open = || {
        openat(parent, name, OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
    };
    let fd: OwnedFd = match open() {
        Err(nix::errno::Errno::EACCES) => {
            // A read-only directory (a Go module cache, say) is ours to open up before it goes.
            let _ = nix::sys::stat::fchmodat(parent, name, Mode::S_IRWXU, nix::sys::stat::FchmodatFlags::FollowSymlink);
            open().map_err(|e| because("open", shown)(e.into()))?
        }
        other => other.map_err(|e| because("open", shown)(e.into()))?,
    };
    let _ = nix::sys::stat::fchmod(&fd, Mode::S_IRWXU);
    let mut dir = nix::dir::Dir::from_fd(fd).map_err(|e| because("open", shown)(e.into()))?;
    let names: Vec<std::ffi::CString> = dir
        .iter()
        .filter_map(Result::ok)
        .map(|e| e.file_name().to_owned())
        .filter(|n| n.as_bytes() != b"." && n.as_bytes() != b"..")
        .collect();
    for n in names {
        use std::os::unix::ffi::OsStrExt as _;
        let n = std::ffi::OsStr::from_bytes(n.as_bytes());
        remove_at(dir.as_fd(), n, dev, &shown.join(n))?;
    }
    drop(dir);
    unlinkat(parent, name, UnlinkatFlags::RemoveDir).map_err(|e| because("delete", shown)(e.into()))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "test fixtures")]
mod tests {
    use super::*;

    #[test]
    fn deleting_a_tree_unlinks_links_and_follows_none() {
        let d = tempfile::tempdir().unwrap();
        let outside = d.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("keep"), "x").unwrap();
        let t = d.path().join("t");
        fs::create_dir_all(t.join("a/b")).unwrap();
        fs::write(t.join("a/b/f"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, t.join("a/link")).unwrap();
        fs::set_permissions(t.join("a/b"), fs::Permissions::from_mode(0o500)).unwrap();
        remove_tree(&t, fs::metadata(&t).unwrap().dev()).unwrap();
        assert!(!t.exists() && outside.join("keep").exists());
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_held_us_for_ever() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("p");
        nix::unistd::mkfifo(&p, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_limited(&p, 9).is_err());
        assert_eq!(read_limited(Path::new("/dev/null"), 9).unwrap(), Some(Vec::new()));
    }

    #[test]
    fn a_tree_on_another_device_is_not_touched() {
        let d = tempfile::tempdir().unwrap();
        let t = d.path().join("t");
        fs::create_dir(&t).unwrap();
        assert!(remove_tree(&t, 0).is_err());
        assert!(t.exists());
    }

    #[test]
    fn a_link_in_place_of_our_directory_is_refused() {
        let d = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/tmp", d.path().join("agents")).unwrap();
        assert!(matches!(ensure_private_dir(&d.path().join("agents")), Err(Error::Untrusted { .. })));
    }

    #[test]
    fn a_temporary_goes_with_its_writer_and_not_before() {
        let d = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        let (pid, me) = (gone.id(), process::me());
        gone.wait().unwrap();
        let names =
            [format!(".tmp-{pid}-1-ab"), format!(".tmp-{}-{}-ab", me.pid, me.start), ".tmp-x".into(), "f".into()];
        for n in &names {
            fs::write(d.path().join(n), "").unwrap();
        }
        heal(d.path());
        assert_eq!(names.map(|n| d.path().join(n).exists()), [false, true, true, true]);
        let mine = temporary_beside(&d.path().join("f"));
        fs::write(&mine, "").unwrap();
        heal(d.path());
        assert!(mine.exists());
    }

    #[test]
    fn renaming_never_replaces() {
        let d = tempfile::tempdir().unwrap();
        fs::create_dir(d.path().join("a")).unwrap();
        fs::create_dir(d.path().join("b")).unwrap();
        assert!(rename_new(&d.path().join("a"), &d.path().join("b")).is_err());
        rename_new(&d.path().join("a"), &d.path().join("c")).unwrap();
    }
}
