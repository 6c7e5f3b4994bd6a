//! Locks of the kernel (`flock`): released the moment their holder dies, whatever killed it.
//!
//! Order, to be kept everywhere: the repository's lock before an agent's; a batch's slot before the repository's slot.
//! The repository's lock is held for milliseconds, never across a user's command, a checkout or the network.

use super::files::{self, Error, because};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A lock that is held until this is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at `path` without waiting; `None` where somebody holds it.
    pub fn try_take(path: &Path) -> Result<Option<Lock>, Error> {
        loop {
            let file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(e)) => return Err(because("lock", path)(e)),
            }
            if is_current(&file, path) {
                return Ok(Some(Lock { file, path: path.to_owned() }));
            }
        }
    }

    /// Takes the lock, asking again for at most `limit`; `None` when the time is up.
    pub fn take_within(path: &Path, limit: Duration) -> Result<Option<Lock>, Error> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(lock) = Lock::try_take(path)? {
                return Ok(Some(lock));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The same for a lock that many want and nobody asks about: a thread waits in the kernel. One that comes too late
    /// has the lock for a moment, so this is not for a lock that says who is alive.
    pub fn queue_for(path: &Path, limit: Duration) -> Result<Option<Lock>, Error> {
        if let Some(lock) = Lock::try_take(path)? {
            return Ok(Some(lock));
        }
        let (to, from) = std::sync::mpsc::channel();
        let waited = path.to_owned();
        std::thread::Builder::new().spawn(move || to.send(Lock::take(&waited))).map_err(because("wait for", path))?;
        from.recv_timeout(limit).ok().transpose()
    }

    /// Takes the lock however long it takes.
    pub fn take(path: &Path) -> Result<Lock, Error> {
        loop {
            let file = open(path)?;
            match file.lock() {
                Ok(()) if is_current(&file, path) => return Ok(Lock { file, path: path.to_owned() }),
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(because("lock", path)(e)),
            }
        }
    }

    /// Waits until nobody holds the lock at `path` exclusively, holding nothing afterwards; at once where it is missing.
    pub fn wait_free(path: &Path) -> Result<(), Error> {
        let file = match File::open(path) {
            Ok(f) => f,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(because("open", path)(e)),
        };
        file.lock_shared().map_err(because("lock", path))
    }

    /// Whether somebody holds the lock at `path` now. A missing file is a free lock.
    pub fn is_held(path: &Path) -> Result<bool, Error> {
        let file = match File::open(path) {
            Ok(f) => f,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(because("open", path)(e)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(e)) => Err(because("lock", path)(e)),
        }
    }

    /// Leaves `text` in the lock file, for messages that name the holder.
    pub fn note(&mut self, text: &str) {
        // A note is for messages alone; the lock holds without it.
        let _ = self.file.set_len(0);
        let _ = (&self.file).write_all(text.as_bytes());
    }

    /// The locked file, to be handed to a child; the child then holds the lock too.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Takes over a descriptor that already carries the lock of `path` (handed down by our parent).
    pub fn adopt(file: File, path: &Path) -> Result<Option<Lock>, Error> {
        match file.try_lock() {
            Ok(()) if is_current(&file, path) => Ok(Some(Lock { file, path: path.to_owned() })),
            Ok(()) | Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(because("lock", path)(e)),
        }
    }

    /// Whether the file that is locked is still the one of that name: somebody may have deleted it.
    pub fn is_there(&self) -> bool {
        is_current(&self.file, &self.path)
    }

    /// The path that is locked.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the lock file while it is held: nobody can be waiting for the next holder's file then.
    pub fn remove(self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn open(path: &Path) -> Result<File, Error> {
    files::open_private(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// A holder that removed the file before us leaves us with a lock on a name that is gone.
fn is_current(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::symlink_metadata(path)) {
        (Ok(a), Ok(b)) => a.ino() == b.ino() && a.dev() == b.dev(),
        _ => false,
    }
}

/// What this file system can do, tried once in `dir`: `flock` that excludes, rename that is atomic enough.
pub fn probe(dir: &Path) -> Result<(), String> {
    let p = files::temporary_beside(&dir.join("x"));
    let q = files::temporary_beside(&dir.join("x"));
    let result = (|| {
        let a = Lock::try_take(&p).map_err(|e| format!("file locks do not work here: {e}"))?;
        let b = Lock::try_take(&p).map_err(|e| format!("file locks do not work here: {e}"))?;
        if a.is_none() || b.is_some() {
            return Err("file locks exclude nobody on this file system".to_owned());
        }
        std::fs::rename(&p, &q).map_err(|e| format!("rename does not work on this file system: {e}"))
    })();
    let _ = std::fs::remove_file(&p);
    let _ = std::fs::remove_file(&q);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time_and_free_when_dropped() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("l");
        let a = Lock::try_take(&p).unwrap().unwrap();
        assert!(Lock::try_take(&p).unwrap().is_none());
        assert!(Lock::is_held(&p).unwrap());
        assert!(Lock::take_within(&p, Duration::from_millis(5)).unwrap().is_none());
        drop(a);
        assert!(!Lock::is_held(&p).unwrap());
        assert!(Lock::try_take(&p).unwrap().is_some());
    }

    #[test]
    fn a_waiter_gets_it_when_it_is_free_and_one_whose_time_is_up_keeps_nothing() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("l");
        let a = Lock::try_take(&p).unwrap().unwrap();
        assert!(Lock::queue_for(&p, Duration::ZERO).unwrap().is_none());
        std::thread::scope(|s| {
            let waiter = s.spawn(|| Lock::queue_for(&p, Duration::from_secs(60)).unwrap().is_some());
            drop(a);
            assert!(waiter.join().unwrap());
        });
        // The late waiter of above lets go at once, whenever it comes.
        drop(Lock::take(&p).unwrap());
    }

    #[test]
    fn a_removed_lock_file_is_no_lock() {
        let d = tempfile::tempdir().unwrap();
        let p = d.path().join("l");
        let a = Lock::try_take(&p).unwrap().unwrap();
        std::fs::remove_file(&p).unwrap();
        let b = Lock::try_take(&p).unwrap();
        assert!(b.is_some(), "the name is free again");
        drop(a);
    }

    #[test]
    fn the_probe_accepts_this_machine() {
        let d = tempfile::tempdir().unwrap();
        probe(d.path()).unwrap();
        assert_eq!(std::fs::read_dir(d.path()).unwrap().count(), 0);
    }
}
