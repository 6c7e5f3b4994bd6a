//! The typed events of a run: one JSON object a line, in bounded space.
//!
//! `events.jsonl` is renamed to `events.1.jsonl` when it is full, over the one before. As with the output, the
//! writer never fails its caller; a line that was torn by a crash is skipped by readers.

use super::open_append;
use serde::{Serialize, de::DeserializeOwned};
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Where a file is full: 8 MiB, so that two are 16.
const FULL: u64 = 8 << 20;

/// The writer.
#[derive(Debug)]
pub struct EventLog {
    path: PathBuf,
    file: File,
    used: u64,
    full: u64,
    torn: bool,
    dropped: u64,
}

impl EventLog {
    /// Opens `path` and goes on at its end.
    ///
    /// # Errors
    /// When it cannot be created, is a link, or is no plain file.
    pub fn open(path: &Path) -> io::Result<EventLog> {
        Self::open_with(path, FULL)
    }

    fn open_with(path: &Path, full: u64) -> io::Result<EventLog> {
        let (file, used) = open_append(path)?;
        let mut last = [b'\n'];
        if used > 0 {
            let mut reader = File::open(path)?;
            reader.seek(SeekFrom::End(-1))?;
            reader.read_exact(&mut last)?;
        }
        Ok(EventLog { path: path.to_owned(), file, used, full, torn: last != *b"\n", dropped: 0 })
    }

    /// Appends one event. Never fails: one that cannot be stored is counted.
    pub fn append<T: Serialize>(&mut self, event: &T) {
        if self.store(event).is_err() {
            self.dropped += 1;
        }
    }

    /// Events that could not be stored.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn store<T: Serialize>(&mut self, event: &T) -> io::Result<()> {
        let mut line = serde_json::to_vec(event)?;
        line.push(b'\n');
        if self.used > 0 && self.used + line.len() as u64 > self.full {
            std::fs::rename(&self.path, older(&self.path))?;
            (self.file, self.used) = open_append(&self.path)?;
            self.torn = false;
        }
        if self.torn {
            line.insert(0, b'\n');
        }
        // In one call, so that a reader sees whole lines; half of one is ended before the next.
        self.torn = true;
        self.file.write_all(&line)?;
        self.torn = false;
        self.used += line.len() as u64;
        Ok(())
    }
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

/// All events that are kept, oldest first; lines that are none are skipped. A log that does not exist is empty.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn read_events<T: DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let mut follower = EventFollower::new(path);
    let mut out = Vec::new();
    follower.poll(|event| out.push(event))?;
    Ok(out)
}

/// Reads events as they are added, across a rename.
#[derive(Debug)]
pub struct EventFollower {
    path: PathBuf,
    file: Option<(File, u64)>,
    /// A line that has only begun.
    rest: Vec<u8>,
}

impl EventFollower {
    /// From the oldest event of `path`, which need not exist yet.
    pub fn new(path: &Path) -> EventFollower {
        EventFollower { path: path.to_owned(), file: None, rest: Vec::new() }
    }

    /// Hands out the events that came since the last call.
    ///
    /// # Errors
    /// When a file that is there cannot be read.
    pub fn poll<T: DeserializeOwned>(&mut self, mut sink: impl FnMut(T)) -> io::Result<()> {
        if self.file.is_none() {
            self.file = match open(&older(&self.path))? {
                Some(file) => Some(file),
                None => open(&self.path)?,
            };
        }
        while let Some((file, inode)) = &mut self.file {
            // Looked up before reading: once another file has the name, this one gets nothing more.
            let current = open(&self.path)?;
            let mut new = Vec::new();
            file.read_to_end(&mut new)?;
            self.rest.extend_from_slice(&new);
            let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |p| p + 1);
            for line in self.rest[..whole].split(|b| *b == b'\n') {
                if let Ok(event) = serde_json::from_slice(line) {
                    sink(event);
                }
            }
            self.rest.drain(..whole);
            match current {
                Some(newest) if newest.1 != *inode => {
                    // Two renames since the last call: there is one between.
                    let between = open(&older(&self.path))?.filter(|(_, other)| other != inode);
                    self.rest.clear();
                    self.file = Some(between.unwrap_or(newest));
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }
}

fn open(path: &Path) -> io::Result<Option<(File, u64)>> {
    match File::open(path) {
        Ok(file) => {
            let inode = file.metadata()?.ino();
            Ok(Some((file, inode)))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_dropped_and_a_follower_sees_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        assert!(read_events::<u32>(&path).unwrap().is_empty());
        let mut follower = EventFollower::new(&path);
        let mut log = EventLog::open_with(&path, 1000).unwrap();
        let mut seen = Vec::new();
        for i in 0..1000_u32 {
            log.append(&i);
            if i % 400 == 0 {
                follower.poll(|n: u32| seen.push(n)).unwrap();
            }
        }
        follower.poll(|n: u32| seen.push(n)).unwrap();
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        let kept = read_events::<u32>(&path).unwrap();
        assert!(kept.len() > 250 && kept.len() <= 500, "{}", kept.len());
        assert_eq!(kept, (1000 - kept.len() as u32..1000).collect::<Vec<_>>());
        assert!(path.metadata().unwrap().len() <= 1000);
    }

    #[test]
    fn a_torn_line_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        EventLog::open(&path).unwrap().append(&1);
        open_append(&path).unwrap().0.write_all(b"[\"torn").unwrap();
        let mut log = EventLog::open(&path).unwrap();
        log.append(&2);
        log.append(&3);
        assert_eq!(read_events::<u32>(&path).unwrap(), [1, 2, 3]);
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn an_unfinished_line_waits_for_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        let mut file = open_append(&path).unwrap().0;
        let mut follower = EventFollower::new(&path);
        let mut seen: Vec<String> = Vec::new();
        file.write_all(b"\"a\"\n\"b").unwrap();
        follower.poll(|s| seen.push(s)).unwrap();
        assert_eq!(seen, ["a"]);
        file.write_all(b"c\"\n").unwrap();
        follower.poll(|s| seen.push(s)).unwrap();
        assert_eq!(seen, ["a", "bc"]);
    }
}
