//! A directory as a value, to tell whether anything in it has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hasher as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Directory,
    /// Its length and a hash of its bytes.
    File(u64, u64),
    /// Where it leads.
    Link(Vec<u8>),
    /// A pipe, a socket, a device.
    Other,
}

/// Mode and kind by path below the directory.
pub type Tree = BTreeMap<Vec<u8>, (u32, Kind)>;

/// Everything below `dir`, empty directories too. A `.git` directory at its top is left out; a `.git` file is not.
pub fn tree_state(dir: &Path) -> Tree {
    let (mut out, mut left) = (Tree::new(), vec![dir.to_owned()]);
    while let Some(at) = left.pop() {
        let entries = std::fs::read_dir(&at).unwrap_or_else(|e| panic!("{}: {e}", at.display()));
        for entry in entries {
            let path = entry.unwrap().path();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                if path == dir.join(".git") {
                    continue;
                }
                left.push(path.clone());
            }
            let name = path.strip_prefix(dir).unwrap().as_os_str().as_bytes().to_vec();
            // A link's own mode says nothing.
            let mode = if meta.is_symlink() { 0 } else { meta.mode() & 0o7777 };
            out.insert(name, (mode, kind(&path, &meta)));
        }
    }
    out
}

fn kind(path: &Path, meta: &Metadata) -> Kind {
    let t = meta.file_type();
    if t.is_dir() {
        Kind::Directory
    } else if t.is_symlink() {
        Kind::Link(std::fs::read_link(path).unwrap().into_os_string().into_vec())
    } else if t.is_fifo() || t.is_socket() || t.is_char_device() || t.is_block_device() {
        Kind::Other
    } else {
        let bytes = std::fs::read(path).unwrap();
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        Kind::File(bytes.len() as u64, hasher.finish())
    }
}

/// Fails with the paths that differ.
#[track_caller]
pub fn assert_same_tree(before: &Tree, after: &Tree) {
    let found = differences(before, after);
    assert!(found.is_empty(), "the trees differ:\n  {}", found.join("\n  "));
}

fn differences(before: &Tree, after: &Tree) -> Vec<String> {
    let told = |w: Option<&(u32, Kind)>| w.map_or("nothing".into(), |(mode, kind)| format!("{mode:o} {kind:?}"));
    let paths: BTreeSet<&Vec<u8>> = before.keys().chain(after.keys()).collect();
    let changed = paths.into_iter().map(|p| (p, before.get(p), after.get(p))).filter(|(_, a, b)| a != b);
    changed.map(|(p, a, b)| format!("{}: {} -> {}", String::from_utf8_lossy(p), told(a), told(b))).collect()
}

#[test]
fn every_change_is_a_difference() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |p: &str| dir.path().join(p);
    std::fs::create_dir_all(at("a/empty")).unwrap();
    std::fs::create_dir_all(at(".git")).unwrap();
    std::fs::write(at("a/f"), "x").unwrap();
    symlink("f", at("a/l")).unwrap();
    let first = tree_state(dir.path());
    assert_eq!(first.keys().map(|k| String::from_utf8_lossy(k)).collect::<Vec<_>>(), ["a", "a/empty", "a/f", "a/l"]);
    std::fs::write(at(".git/x"), "not looked at").unwrap();
    assert!(differences(&first, &tree_state(dir.path())).is_empty());

    let changed = |change: &dyn Fn()| {
        let before = tree_state(dir.path());
        change();
        differences(&before, &tree_state(dir.path())).len()
    };
    assert_eq!(changed(&|| std::fs::write(at("a/f"), "y").unwrap()), 1, "bytes");
    assert_eq!(changed(&|| std::fs::set_permissions(at("a/f"), PermissionsExt::from_mode(0o755)).unwrap()), 1, "mode");
    assert_eq!(changed(&|| std::fs::remove_dir(at("a/empty")).unwrap()), 1, "an empty directory");
    assert_eq!(
        changed(&|| {
            std::fs::remove_file(at("a/l")).unwrap();
            symlink("g", at("a/l")).unwrap();
        }),
        1,
        "where a link leads"
    );
}
