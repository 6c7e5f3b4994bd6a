//! What `fast-import` is told.

use crate::git::status::{Changes, RelPath};
use crate::git::sterile::quote_c;
use crate::model::agent::Oid;
use gix::index::entry::{Flags, Mode};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// What is sent, in pieces.
pub(super) struct Stream {
    /// Not yet sent.
    pub(super) out: Vec<u8>,
    next_mark: u32,
}

/// A blob that an index names.
pub(super) struct Named {
    pub(super) mode: String,
    pub(super) id: String,
    /// The stage it once had, or the mark it has.
    pub(super) why: String,
    pub(super) path: RelPath,
}

/// What stands at a path.
pub(super) enum Blob {
    Data { mode: &'static str, mark: u32 },
    Directory,
    Gone,
}

const WHO: &str = "git-agents <git-agents@localhost>";

impl Stream {
    pub(super) fn new() -> Stream {
        Stream { out: Vec::new(), next_mark: 0 }
    }

    pub(super) fn line(&mut self, text: String) {
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(b'\n');
    }

    /// `M mode id path`, with the path's exact bytes.
    fn entry(&mut self, mode: &str, id: &str, path: &[u8]) {
        self.out.extend([format!("M {mode} {id} ").as_bytes(), &quote_c(path), b"\n"].concat());
    }

    /// A commit whose tree is `tree`, to keep it.
    pub(super) fn keep_tree(&mut self, reference: &str, tree: &Oid) -> u32 {
        let mark = self.commit_head(reference, b"tree\n");
        self.entry("040000", &tree.0, b"");
        self.line(String::new());
        mark
    }

    /// A commit that keeps blobs which an index names beside the versions of its files.
    pub(super) fn keep_blobs(&mut self, reference: &str, found: &[Named]) -> u32 {
        let mark = self.commit_head(reference, b"index, the rest\n");
        for n in found {
            self.entry(&n.mode, &n.id, &[n.why.as_bytes(), b"/", n.path.as_slice()].concat());
        }
        self.line(String::new());
        mark
    }

    fn data(&mut self, bytes: &[u8]) {
        self.line(format!("data {}", bytes.len()));
        self.out.extend_from_slice(bytes);
        self.out.push(b'\n');
    }

    /// Begins a commit without history of its own on `reference`; its mark.
    pub(super) fn commit_head(&mut self, reference: &str, message: &[u8]) -> u32 {
        self.line(format!("reset {reference}"));
        self.line(String::new());
        self.line(format!("commit {reference}"));
        self.next_mark += 1;
        let mark = self.next_mark;
        self.line(format!("mark :{mark}"));
        let now = jiff::Timestamp::now().as_second();
        self.line(format!("committer {WHO} {now} +0000"));
        self.data(message);
        mark
    }

    /// The index as commits: one, or one for each stage.
    pub(super) fn index_commits(
        &mut self,
        reference: &str,
        index: Option<&gix::index::File>,
        changes: &Changes,
        head: Option<&Oid>,
    ) -> Vec<u32> {
        let Some(index) = index else { return Vec::new() };
        let stages: &[u32] = if changes.conflicted.is_empty() { &[0] } else { &[0, 1, 2, 3] };
        let mut marks = Vec::new();
        for stage in stages {
            let mark = self.commit_head(reference, format!("index, stage {stage}\n").as_bytes());
            if let Some(head) = head {
                self.line(format!("from {head}"));
            }
            let touched: BTreeSet<&RelPath> = changes.modified.iter().chain(&changes.conflicted).collect();
            let mut found = Vec::new();
            for e in index.entries() {
                let path = e.path(index).to_vec();
                if e.stage_raw() == *stage && touched.contains(&path) && !e.flags.contains(Flags::INTENT_TO_ADD) {
                    found.push((path, e.mode, e.id.to_hex().to_string()));
                }
            }
            for path in touched.iter().filter(|p| !found.iter().any(|(f, _, _)| f == **p)) {
                self.out.extend([b"D ", quote_c(path).as_slice(), b"\n"].concat());
            }
            for (path, mode, id) in found {
                let mode = match mode {
                    Mode::FILE_EXECUTABLE => "100755",
                    Mode::SYMLINK => "120000",
                    Mode::COMMIT => "160000",
                    _ => "100644",
                };
                self.entry(mode, &id, &path);
            }
            self.line(String::new());
            marks.push(mark);
        }
        marks
    }

    pub(super) fn blob(&mut self, file: &Path, max: u64) -> std::result::Result<Blob, String> {
        let meta = match std::fs::symlink_metadata(file) {
            Ok(m) => m,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
                return Ok(Blob::Gone);
            }
            Err(e) => return Err(e.to_string()),
        };
        let (mode, bytes) = if meta.file_type().is_symlink() {
            ("120000", std::fs::read_link(file).map_err(|e| e.to_string())?.as_os_str().as_bytes().to_vec())
        } else if meta.is_dir() {
            return Ok(Blob::Directory);
        } else if !meta.is_file() {
            return Err("not a file".into());
        } else if meta.len() > max {
            return Err(format!("larger than {max} bytes"));
        } else {
            let mode = if meta.permissions().mode() & 0o100 != 0 { "100755" } else { "100644" };
            (mode, std::fs::read(file).map_err(|e| e.to_string())?)
        };
        self.line("blob".into());
        self.next_mark += 1;
        let mark = self.next_mark;
        self.line(format!("mark :{mark}"));
        self.data(&bytes);
        Ok(Blob::Data { mode, mark })
    }
}
