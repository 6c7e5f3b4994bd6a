//! What was taken along, written down: so that an unchanged copy is known to be no work.

use super::beneath::{self, Kind};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The mode of a link; its permission bits mean nothing.
pub(super) const LINK: u32 = 0o120000;
pub(super) const FILE: u32 = 0o100000;

/// A path relative to the worktree. Serialised as a string where it is UTF-8, else as `{"bytes": "<hex>"}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(pub PathBuf);

impl std::ops::Deref for RelPath {
    type Target = Path;
    fn deref(&self) -> &Path {
        &self.0
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Bytes { bytes: String },
}

impl Serialize for RelPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match self.0.to_str() {
            Some(text) => Written::Text(text.to_owned()),
            None => {
                Written::Bytes { bytes: self.0.as_os_str().as_bytes().iter().map(|b| format!("{b:02x}")).collect() }
            }
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match Written::deserialize(deserializer)? {
            Written::Text(text) => text.into_bytes(),
            Written::Bytes { bytes: hex } => {
                let digits = hex.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).ok().filter(|t| t.len() == 2));
                let bytes: Option<Vec<u8>> = digits.map(|two| u8::from_str_radix(two?, 16).ok()).collect();
                bytes.ok_or_else(|| serde::de::Error::custom("'bytes' is not hex"))?
            }
        };
        Ok(RelPath(OsString::from_vec(bytes).into()))
    }
}

/// One file or link that was copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub path: RelPath,
    /// Git's SHA-1 blob id of the content, or of a link's target: what `git hash-object` says.
    pub digest: String,
    /// Bytes.
    pub size: u64,
    /// The type bits, and the permission bits of a file.
    pub mode: u32,
}

impl Entry {
    /// What is at `path` below `root` now; links are not followed, not even on the way.
    pub fn of(root: &Path, path: &Path) -> io::Result<Entry> {
        let names = beneath::components(path).ok_or_else(|| io::Error::other("not a path inside the worktree"))?;
        let (name, parents) = names.split_last().expect("has at least one component");
        Entry::at(&beneath::descend(&beneath::root(root)?, parents)?, name, path)
    }

    fn at(directory: &OwnedFd, name: &OsStr, path: &Path) -> io::Result<Entry> {
        let stat = beneath::stat(directory, name)?.ok_or(io::ErrorKind::NotFound)?;
        match stat.kind {
            Kind::Link => Entry::link(&beneath::link_target(directory, name)?, path),
            Kind::File => Entry::file(&mut beneath::file(directory, name)?, path),
            _ => Err(io::Error::other("neither a file nor a link")),
        }
    }

    pub(super) fn link(target: &OsStr, path: &Path) -> io::Result<Entry> {
        let size = target.len() as u64;
        Ok(Entry { path: RelPath(path.into()), digest: blob_id(&mut target.as_bytes(), size)?, size, mode: LINK })
    }

    /// Reads `file` from where it stands.
    pub(super) fn file(file: &mut File, path: &Path) -> io::Result<Entry> {
        let stat = beneath::stat_open(file)?;
        let digest = blob_id(file, stat.size)?;
        Ok(Entry { path: RelPath(path.into()), digest, size: stat.size, mode: FILE | stat.mode })
    }
}

/// Whether what `entry` speaks of is still there below `root`, of the same kind, mode and content. Whatever cannot
/// be read counts as changed.
pub fn unchanged(root: &Path, entry: &Entry) -> bool {
    let Some(names) = beneath::components(&entry.path) else { return false };
    let (name, parents) = names.split_last().expect("has at least one component");
    let look = || -> io::Result<bool> {
        let directory = beneath::descend(&beneath::root(root)?, parents)?;
        // The size is known without reading.
        let stat = beneath::stat(&directory, name)?.filter(|s| s.size == entry.size);
        Ok(stat.is_some() && Entry::at(&directory, name, &entry.path)? == *entry)
    };
    look().unwrap_or(false)
}

fn blob_id(content: &mut dyn Read, size: u64) -> io::Result<String> {
    crate::git::objects::hash_stream(content, size)
}
