//! Reading a capped log, while it is written or afterwards.

use super::segment_path;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// More than that is not read for the last lines, however long they are.
const TAIL_MAX: usize = 4 << 20;
const BLOCK: u64 = 64 << 10;

/// The numbers of the segments that exist, ascending; the beginning is not among them.
pub(super) fn segments(path: &Path) -> io::Result<Vec<u64>> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned() + ".";
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|n| n.strip_prefix(&stem)?.strip_suffix(".log")?.parse::<u64>().ok());
        out.extend(number.filter(|n| *n > 0));
    }
    out.sort_unstable();
    Ok(out)
}

/// What is at hand, oldest first: the open files, and a note where some between them are gone. What is removed while
/// it is read stays readable.
fn open_parts(path: &Path) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    parts.extend(open(path)?.map(Part::File));
    let mut next = 1;
    for number in segments(path)? {
        let Some(file) = open(&segment_path(path, number))? else { continue };
        if number > next {
            // All segments but the last are filled to the same size.
            parts.push(Part::Gap(gap_note((number - next) * file.metadata()?.len())));
        }
        next = number + 1;
        parts.push(Part::File(file));
    }
    Ok(parts)
}

enum Part {
    File(File),
    Gap(Vec<u8>),
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn gap_note(bytes: u64) -> Vec<u8> {
    let bytes = crate::model::units::count(bytes as usize, "byte");
    format!("\n[git-agents: {bytes} of output left out here]\n").into_bytes()
}

/// All that is kept of the log that begins at `path`, in order, with a line where something was left out. A log that
/// does not exist is empty.
///
/// # Errors
/// When a file that is there cannot be opened.
pub fn read_all(path: &Path) -> io::Result<impl Read + use<>> {
    let parts = open_parts(path)?.into_iter().map(|p| match p {
        Part::File(file) => Box::new(file) as Box<dyn Read>,
        Part::Gap(note) => Box::new(io::Cursor::new(note)),
    });
    Ok(Chain(parts.collect()))
}

/// Whether nothing of it was left out.
///
/// # Errors
/// As [`read_all`].
pub fn is_whole(path: &Path) -> io::Result<bool> {
    Ok(!open_parts(path)?.iter().any(|p| matches!(p, Part::Gap(_))))
}

struct Chain(VecDeque<Box<dyn Read>>);

impl Read for Chain {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while let Some(first) = self.0.front_mut() {
            match first.read(buf)? {
                0 if !buf.is_empty() => drop(self.0.pop_front()),
                n => return Ok(n),
            }
        }
        Ok(0)
    }
}

/// The last `lines` lines (an unfinished one counts), at most 4 MiB of them. A log that does not exist is empty.
///
/// # Errors
/// When a file that is there cannot be read.
pub fn tail(path: &Path, lines: usize) -> io::Result<Vec<u8>> {
    if lines == 0 {
        return Ok(Vec::new());
    }
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let (mut size, mut ends) = (0, 0);
    let mut at_end = true;
    'parts: for part in open_parts(path)?.into_iter().rev() {
        let mut part = match part {
            Part::File(file) => Backwards::new(file)?,
            Part::Gap(note) => Backwards { file: None, left: 0, ready: Some(note) },
        };
        while let Some(mut block) = part.next_block()? {
            // The newline at the very end ends the last line and begins none.
            let last = block.len() - usize::from(at_end && block.ends_with(b"\n"));
            at_end &= block.is_empty();
            for i in (0..last).rev().filter(|i| block[*i] == b'\n').collect::<Vec<_>>() {
                ends += 1;
                if ends == lines {
                    block.drain(..=i);
                    blocks.push(block);
                    break 'parts;
                }
            }
            size += block.len();
            blocks.push(block);
            if size >= TAIL_MAX {
                break 'parts;
            }
        }
    }
    blocks.reverse();
    let all = blocks.concat();
    Ok(all[all.len().saturating_sub(TAIL_MAX)..].to_vec())
}

struct Backwards {
    file: Option<File>,
    left: u64,
    ready: Option<Vec<u8>>,
}

impl Backwards {
    fn new(file: File) -> io::Result<Self> {
        let left = file.metadata()?.len();
        Ok(Backwards { file: Some(file), left, ready: None })
    }

    fn next_block(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.ready.is_some() {
            return Ok(self.ready.take());
        }
        let Some(file) = self.file.as_mut().filter(|_| self.left > 0) else { return Ok(None) };
        let from = (self.left - 1) / BLOCK * BLOCK;
        let mut block = vec![0; usize::try_from(self.left - from).unwrap_or(0)];
        file.seek(SeekFrom::Start(from))?;
        file.read_exact(&mut block)?;
        self.left = from;
        Ok(Some(block))
    }
}

/// Reads what is added, file after file.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    number: u64,
    file: Option<File>,
}

impl Follower {
    /// From the beginning of the log that begins at `path`; it need not exist yet.
    pub fn from_start(path: &Path) -> Follower {
        Follower { path: path.to_owned(), number: 0, file: None }
    }

    /// From where it ends now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn from_end(path: &Path) -> io::Result<Follower> {
        let number = segments(path)?.last().copied().unwrap_or(0);
        let mut file = open(&segment_path(path, number))?;
        if let Some(file) = &mut file {
            file.seek(SeekFrom::End(0))?;
        }
        Ok(Follower { path: path.to_owned(), number, file })
    }

    /// Hands out all that came since the last call; `false` when there was nothing. What was dropped before it could
    /// be read is noted in its place.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn poll(&mut self, mut sink: impl FnMut(&[u8])) -> io::Result<bool> {
        let mut any = false;
        let mut block = vec![0; BLOCK as usize];
        loop {
            // Looked up before reading: when a next one exists, this one has all it will ever get.
            let next = segments(&self.path)?.into_iter().find(|n| *n > self.number);
            if self.file.is_none() {
                self.file = open(&segment_path(&self.path, self.number))?;
            }
            if let Some(file) = &mut self.file {
                loop {
                    let n = file.read(&mut block)?;
                    if n == 0 {
                        break;
                    }
                    any = true;
                    sink(&block[..n]);
                }
            }
            let Some(next) = next else { return Ok(any) };
            let file = open(&segment_path(&self.path, next))?;
            if next > self.number + 1 {
                let len = file.as_ref().and_then(|f| f.metadata().ok()).map_or(0, |m| m.len());
                any = true;
                sink(&gap_note((next - self.number - 1) * len));
            }
            (self.number, self.file) = (next, file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::CappedLog;
    use super::*;

    fn log(dir: &Path, cap: u64) -> (PathBuf, CappedLog) {
        let path = dir.join("output.log");
        let log = CappedLog::open(&path, 1000, cap).unwrap();
        (path, log)
    }

    #[test]
    fn the_last_lines_over_files() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut log) = log(dir.path(), 1 << 20);
        assert_eq!(tail(&path, 3).unwrap(), b"");
        let all: String = (0..30_000).map(|i| format!("line {i}\n")).collect();
        log.write(all.as_bytes());
        assert!(segments(&path).unwrap().len() > 1);
        let lines: Vec<_> = all.lines().collect();
        for n in [0, 1, 2, 100, 20_000, 30_000, 40_000] {
            let want: String = lines[lines.len().saturating_sub(n)..].iter().map(|l| format!("{l}\n")).collect();
            assert!(tail(&path, n).unwrap() == want.as_bytes(), "{n}");
        }
        log.write(b"unfinished");
        assert_eq!(tail(&path, 2).unwrap(), b"line 29999\nunfinished");
        assert_eq!(tail(&dir.path().join("none.log"), 2).unwrap(), b"");
    }

    #[test]
    fn the_last_lines_tell_of_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut log) = log(dir.path(), 1);
        log.write(&b"0123456\n".repeat(20_000));
        let text = String::from_utf8(tail(&path, 100_000).unwrap()).unwrap();
        assert!(text.contains(&format!("[git-agents: {} bytes of output left out here]", log.dropped())), "{text}");
    }

    #[test]
    fn a_line_without_end_is_read_in_part() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut log) = log(dir.path(), super::super::CAP);
        log.write(&vec![b'x'; 9 << 20]);
        assert_eq!(tail(&path, 1).unwrap().len(), TAIL_MAX);
    }

    #[test]
    fn a_follower_sees_every_byte_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("output.log");
        let (mut seen, mut late) = (Vec::new(), Vec::new());
        let mut follower = Follower::from_start(&path);
        assert!(!follower.poll(|_| unreachable!()).unwrap());
        let (path, mut log) = log(dir.path(), 1);
        let all: Vec<u8> = (0..20_000_u32).flat_map(|i| format!("{i}\n").into_bytes()).collect();
        let mut end = None;
        for part in all.chunks(3001) {
            log.write(part);
            assert!(follower.poll(|b| seen.extend_from_slice(b)).unwrap());
            let end = end.get_or_insert_with(|| Follower::from_end(&path).unwrap());
            end.poll(|b| late.extend_from_slice(b)).unwrap();
        }
        assert!(seen == all && late == all[3001..]);
        assert!(!follower.poll(|_| unreachable!()).unwrap());
    }

    #[test]
    fn a_slow_follower_is_told_what_it_missed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, mut log) = log(dir.path(), 1);
        let mut follower = Follower::from_start(&path);
        log.write(&[b'x'; 100_000]);
        let mut seen = Vec::new();
        follower.poll(|b| seen.extend_from_slice(b)).unwrap();
        let text = String::from_utf8(seen).unwrap();
        assert!(text.contains(&format!("{} bytes of output left out", log.dropped())));
        assert_eq!(text.matches('x').count() as u64, 100_000 - log.dropped());
    }
}
