//! What a process printed, byte for byte, in bounded space.
//!
//! The first part is kept for ever (how it began is what one looks for), then a ring of segments holds the latest.
//! `output.log` is the beginning, `output.1.log`, `output.2.log` and so on are the segments; a number is never used
//! again and a file never renamed, so a reader follows by going on to the next number. The writer is one process, and
//! its caller never waits for or fails because of a full disk: what cannot be stored is counted, and a line in the
//! log says so as soon as there is room. The bytes are hostile; whoever shows them goes through
//! [`crate::model::text`].

mod events;
mod lines;
mod read;

pub use events::{EventFollower, EventLog, read_events};
pub use lines::{EVENT_MAX, LINE_MAX, LineSplitter};
pub use read::{Follower, is_whole, read_all, tail};

use crate::model::units::count;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Kept for ever: 1 MiB.
pub const HEAD: u64 = 1 << 20;
/// All of one run: 64 MiB.
pub const CAP: u64 = 64 << 20;

/// Segments in the ring; one of them is partly filled, so a little less than the cap is at hand.
const SEGMENTS: u64 = 8;
/// Smaller segments would be all overhead.
const SEGMENT_MIN: u64 = 4 << 10;

type Opener = Box<dyn Fn(&Path) -> io::Result<(Box<dyn Write + Send>, u64)> + Send>;

/// The writer.
pub struct CappedLog {
    path: PathBuf,
    head: u64,
    segment: u64,
    opener: Opener,
    file: Box<dyn Write + Send>,
    /// 0 is the head.
    number: u64,
    used: u64,
    /// Not stored since the last marker.
    lost: u64,
    lost_before: u64,
    rotated_out: u64,
}

impl std::fmt::Debug for CappedLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CappedLog").field("path", &self.path).field("number", &self.number).finish_non_exhaustive()
    }
}

impl CappedLog {
    /// Opens the log whose beginning is `path`, and goes on where it ended. At most `cap` bytes are kept, `head` of
    /// them for ever; a cap too small for a ring is raised to the least that works.
    ///
    /// # Errors
    /// When a file cannot be created, is a link, or is no plain file.
    pub fn open(path: &Path, head: u64, cap: u64) -> io::Result<CappedLog> {
        Self::open_with(path, head, cap, Box::new(|p| open_append(p).map(|(f, len)| (Box::new(f) as _, len))))
    }

    fn open_with(path: &Path, head: u64, cap: u64, opener: Opener) -> io::Result<CappedLog> {
        let head = head.min(cap);
        let segment = ((cap - head) / SEGMENTS).max(SEGMENT_MIN);
        let number = read::segments(path)?.last().copied().unwrap_or(0);
        let (file, used) = opener(&segment_path(path, number))?;
        Ok(CappedLog {
            path: path.to_owned(),
            head,
            segment,
            opener,
            file,
            number,
            used,
            lost: 0,
            lost_before: 0,
            rotated_out: 0,
        })
    }

    /// Appends. Never fails: what cannot be stored is counted.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.store(bytes) {
                Ok(n) if n > 0 => bytes = &bytes[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => {
                    self.lost += bytes.len() as u64;
                    return;
                }
            }
        }
    }

    /// Bytes that are not in the log any more, or never were, since it was opened.
    pub fn dropped(&self) -> u64 {
        self.lost_before + self.lost + self.rotated_out
    }

    /// Writes the marker for what was lost at the very end, if there is room by now.
    pub fn finish(&mut self) {
        if self.lost > 0 {
            let _ = self.mark();
        }
    }

    fn store(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.lost > 0 {
            self.mark()?;
        }
        if self.room() == 0 {
            self.next_segment()?;
        }
        let n = usize::try_from(self.room()).map_or(bytes.len(), |room| room.min(bytes.len()));
        let n = self.file.write(&bytes[..n])?;
        self.used += n as u64;
        Ok(n)
    }

    fn mark(&mut self) -> io::Result<()> {
        let marker = format!("\n[git-agents: {} of output could not be stored]\n", count(self.lost as usize, "byte"));
        if self.room() < marker.len() as u64 {
            self.next_segment()?;
        }
        let mut rest = marker.as_bytes();
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    self.used += n as u64;
                    rest = &rest[n..];
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        self.lost_before += std::mem::take(&mut self.lost);
        Ok(())
    }

    fn room(&self) -> u64 {
        (if self.number == 0 { self.head } else { self.segment }).saturating_sub(self.used)
    }

    /// The oldest goes before the next comes: on a full disk that may be what makes room.
    fn next_segment(&mut self) -> io::Result<()> {
        let segments = read::segments(&self.path)?;
        let too_many = (segments.len() as u64 + 1).saturating_sub(SEGMENTS) as usize;
        for n in &segments[..too_many.min(segments.len())] {
            let old = segment_path(&self.path, *n);
            let len = std::fs::symlink_metadata(&old)?.len();
            std::fs::remove_file(&old)?;
            self.rotated_out += len;
        }
        let (file, used) = (self.opener)(&segment_path(&self.path, self.number + 1))?;
        (self.file, self.used, self.number) = (file, used, self.number + 1);
        Ok(())
    }
}

/// `output.log` and 3 are `output.3.log`; 0 is the beginning itself.
fn segment_path(path: &Path, number: u64) -> PathBuf {
    if number == 0 { path.to_owned() } else { path.with_extension(format!("{number}.log")) }
}

/// For appending, created for the user alone, never through a link and never waiting at a pipe; and its length.
fn open_append(path: &Path) -> io::Result<(File, u64)> {
    use nix::fcntl::OFlag;
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags.bits()).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("'{}' is no plain file", crate::model::text::shown_path(path)),
        ));
    }
    Ok((file, meta.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::{Arc, Mutex};

    fn stored(path: &Path) -> Vec<u8> {
        let mut out = Vec::new();
        read_all(path).unwrap().read_to_end(&mut out).unwrap();
        out
    }

    fn size(dir: &Path) -> u64 {
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn a_flood_of_200_mb_stays_under_the_cap() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let mut log = CappedLog::open(&path, HEAD, CAP).unwrap();
        let mut block = vec![b'x'; 1 << 20];
        for i in 0..200_u32 {
            block[..4].copy_from_slice(&i.to_be_bytes());
            log.write(&block);
            if i % 20 == 0 {
                assert!(size(dir.path()) <= CAP);
            }
        }
        assert!(size(dir.path()) <= CAP && size(dir.path()) > CAP / 5 * 4);
        assert_eq!(log.dropped() + size(dir.path()), 200 << 20);
        let mut read = read_all(&path).unwrap();
        let mut first = vec![0; 1 << 20];
        read.read_exact(&mut first).unwrap();
        assert_eq!(first[..5], [0, 0, 0, 0, b'x']);
        let mut gap = vec![0; 200];
        read.read_exact(&mut gap).unwrap();
        let told = format!("\n[git-agents: {} bytes of output left out here]\n", log.dropped());
        assert!(gap.starts_with(told.as_bytes()), "{}", String::from_utf8_lossy(&gap));
    }

    #[test]
    fn bytes_come_back_as_they_were_over_files_and_starts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let all: Vec<u8> = (0..30_000_u32).map(|i| (i % 251) as u8 | 0x80).collect();
        for part in all.chunks(7_001) {
            CappedLog::open(&path, 100, 40_000).unwrap().write(part);
        }
        assert_eq!(stored(&path), all);
        assert_eq!(path.metadata().unwrap().len(), 100);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(dir.path().join("output.1.log").exists());
    }

    #[test]
    fn links_and_pipes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link.log");
        std::os::unix::fs::symlink("/dev/full", &link).unwrap();
        assert!(CappedLog::open(&link, 1, 1).is_err());
        let pipe = dir.path().join("pipe.log");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(CappedLog::open(&pipe, 1, 1).is_err());
    }

    /// A disk with so much room.
    struct Disk(Arc<Mutex<usize>>, File);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut room = self.0.lock().unwrap();
            match bytes.len().min(*room) {
                0 => Err(io::Error::from_raw_os_error(nix::libc::ENOSPC)),
                n => {
                    *room -= n;
                    self.1.write(&bytes[..n])
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_counted_and_told_when_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let room = Arc::new(Mutex::new(10));
        let disk = room.clone();
        let opener: Opener = Box::new(move |p| open_append(p).map(|(f, n)| (Box::new(Disk(disk.clone(), f)) as _, n)));
        let mut log = CappedLog::open_with(&path, HEAD, CAP, opener).unwrap();
        log.write(b"0123456789abc");
        log.write(b"de");
        assert_eq!(log.dropped(), 5);
        assert_eq!(stored(&path), b"0123456789");
        *room.lock().unwrap() = 1000;
        log.write(b"after");
        assert_eq!(stored(&path), b"0123456789\n[git-agents: 5 bytes of output could not be stored]\nafter");
        assert_eq!(log.dropped(), 5);
        *room.lock().unwrap() = 0;
        log.write(b"xyz");
        *room.lock().unwrap() = 1000;
        log.finish();
        assert!(stored(&path).ends_with(b"after\n[git-agents: 3 bytes of output could not be stored]\n"));
    }

    #[test]
    fn the_kernels_own_full_device_fails_no_caller() {
        let opener: Opener = Box::new(|_| Ok((Box::new(OpenOptions::new().write(true).open("/dev/full")?) as _, 0)));
        if !Path::new("/dev/full").exists() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut log = CappedLog::open_with(&dir.path().join("output.log"), HEAD, CAP, opener).unwrap();
        log.write(&[b'x'; 5000]);
        assert_eq!(log.dropped(), 5000);
    }
}
