//! Bytes into lines, in bounded memory.

use bstr::ByteSlice as _;

/// The longest line for people: longer ones come in pieces.
pub const LINE_MAX: usize = 64 << 10;
/// The longest line that is read as one event.
pub const EVENT_MAX: usize = 4 << 20;

/// Splits a stream at `\n`, `\r\n` and lone `\r` (a progress bar draws its lines with it). A line longer than the
/// limit is handed out in pieces of at most that size, none of which ends within a UTF-8 character.
#[derive(Debug)]
pub struct LineSplitter {
    rest: Vec<u8>,
    limit: usize,
    after_cr: bool,
}

impl Default for LineSplitter {
    fn default() -> Self {
        LineSplitter::new(LINE_MAX)
    }
}

impl LineSplitter {
    /// With pieces of at most `limit` bytes, at least 4. Formats with one JSON object a line need a large one.
    pub fn new(limit: usize) -> LineSplitter {
        LineSplitter { rest: Vec::new(), limit: limit.max(4), after_cr: false }
    }

    /// Hands out the lines that `bytes` completes, without their ends.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.find_byteset(b"\r\n");
            let take = end.unwrap_or(bytes.len());
            if self.rest.is_empty() && end.is_some() && take <= self.limit {
                line(&bytes[..take]);
            } else {
                self.hold(&bytes[..take], &mut line);
                if end.is_some() {
                    line(&self.rest);
                    self.rest.clear();
                }
            }
            self.after_cr = end.is_some_and(|e| bytes[e] == b'\r');
            bytes = &bytes[take + usize::from(end.is_some())..];
        }
    }

    /// Hands out what came after the last line end.
    pub fn finish(&mut self, mut line: impl FnMut(&[u8])) {
        if !self.rest.is_empty() {
            line(&self.rest);
            self.rest.clear();
        }
    }

    fn hold(&mut self, mut bytes: &[u8], line: &mut impl FnMut(&[u8])) {
        while self.rest.len() + bytes.len() > self.limit {
            let (now, later) = bytes.split_at(self.limit - self.rest.len());
            self.rest.extend_from_slice(now);
            let cut = char_boundary(&self.rest);
            line(&self.rest[..cut]);
            self.rest.drain(..cut);
            bytes = later;
        }
        self.rest.extend_from_slice(bytes);
    }
}

/// The length without a character that has only begun.
fn char_boundary(bytes: &[u8]) -> usize {
    let start = bytes.iter().rev().take(3).position(|b| b & 0xc0 != 0x80);
    let Some(back) = start.map(|p| p + 1) else { return bytes.len() };
    let needs = match bytes[bytes.len() - back] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if needs > back { bytes.len() - back } else { bytes.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(limit: usize, parts: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut splitter = LineSplitter::new(limit);
        for part in parts {
            splitter.push(part, |l| out.push(l.to_vec()));
        }
        splitter.finish(|l| out.push(l.to_vec()));
        out
    }

    #[test]
    fn every_kind_of_line_end_counts_once() {
        assert_eq!(split(99, &[b"a\nb\r\nc\r10%\r20%\n\nd"]), [&b"a"[..], b"b", b"c", b"10%", b"20%", b"", b"d"]);
        assert_eq!(split(99, &[b"a\r", b"\nb\r", b"c\n"]), [b"a", b"b", b"c"]);
    }

    #[test]
    fn a_line_of_100_mb_costs_one_piece() {
        let mut splitter = LineSplitter::default();
        let (block, mut longest, mut sum) = (vec![b'x'; 1 << 20], 0, 0);
        for _ in 0..100 {
            splitter.push(&block, |l| {
                longest = longest.max(l.len());
                sum += l.len();
            });
            assert!(splitter.rest.capacity() <= 2 * LINE_MAX);
        }
        splitter.finish(|l| sum += l.len());
        assert_eq!((longest, sum), (LINE_MAX, 100 << 20));
    }

    #[test]
    fn a_piece_ends_at_a_character() {
        let pieces = split(10, &["日本語日本語".as_bytes()]);
        assert!(pieces.iter().all(|p| std::str::from_utf8(p).is_ok() && p.len() <= 10), "{pieces:?}");
        assert_eq!(split(4, &[&[0x80; 9]]).concat(), [0x80; 9]);
    }

    proptest! {
        #[test]
        fn how_it_was_cut_up_on_the_way_does_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..200),
            size in 1usize..20, limit in 4usize..30,
        ) {
            let whole = split(limit, &[&bytes]);
            prop_assert_eq!(&whole, &split(limit, &bytes.chunks(size).collect::<Vec<_>>()));
            prop_assert!(whole.iter().all(|l| l.len() <= limit));
            let kept: Vec<u8> = bytes.iter().copied().filter(|b| !b"\r\n".contains(b)).collect();
            prop_assert_eq!(whole.concat(), kept);
        }
    }
}
