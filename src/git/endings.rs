//! Files that git calls modified and that nobody touched: only their line endings are other than the rules would have
//! them, as where CRLF is stored under a rule for LF.

use super::Result;
use super::repo::Repo;
use super::status::{Place, RelPath};
use super::sterile::{self, Rules};
use crate::runtime::files;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Those of `modified` that are no change under the user's rules for line endings: a checkout of the index would write
/// the same bytes, or adding what stands there would not change the index. Nothing that is staged, gone or conflicted.
pub fn phantoms(repo: &Repo, place: &Place<'_>, modified: &BTreeSet<RelPath>) -> Result<BTreeSet<RelPath>> {
    let Some(head) = place.head.filter(|_| !modified.is_empty()) else { return Ok(BTreeSet::new()) };
    // A private index and private objects: what is tried here is seen by nobody.
    let sterile = sterile::for_status(repo, place, Rules::AsUserSees)?;
    let differing = || -> Result<BTreeSet<RelPath>> {
        let args = ["diff-index", "--cached", "--name-only", "-z", "--no-renames", &head.0, "--"];
        let out = sterile.call(place.worktree, args).run()?;
        Ok(out.split(|b| *b == 0).filter(|p| !p.is_empty()).map(<[u8]>::to_vec).collect())
    };
    let staged = differing()?;
    let on_disk = |p: &RelPath| place.worktree.join(OsStr::from_bytes(p)).symlink_metadata().is_ok_and(|m| m.is_file());
    let asked: Vec<&RelPath> = modified.iter().filter(|p| !staged.contains(*p) && on_disk(p)).collect();
    if asked.is_empty() {
        return Ok(BTreeSet::new());
    }
    let input: Vec<u8> = asked.iter().flat_map(|p| p.iter().copied().chain([0])).collect();
    let fresh = sterile.dir().join("fresh");
    files::ensure_private_dir(&fresh)?;
    let mut prefix = std::ffi::OsString::from("--prefix=");
    prefix.push(&fresh);
    prefix.push("/");
    let args = [OsStr::new("checkout-index"), OsStr::new("-z"), OsStr::new("--stdin"), OsStr::new("--quiet"), &prefix];
    // Whatever it cannot write is not there to compare with.
    sterile.call(place.worktree, args).input(input.clone()).output()?;
    let add =
        ["--literal-pathspecs", "add", "--update", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul"];
    sterile.call(place.worktree, add).input(input).output()?;
    // Where adding failed for one, nothing was added: all that the status still shows is a change.
    let mut changed = differing()?;
    changed.extend(sterile::ask_status(&sterile, place)?.all().cloned());
    let same = |p: &RelPath| {
        let rel = Path::new(OsStr::from_bytes(p));
        !changed.contains(p) || same_file(&place.worktree.join(rel), &fresh.join(rel))
    };
    Ok(asked.into_iter().filter(|p| same(p)).cloned().collect())
}

/// Whether both are plain files of the same bytes, and both may be run or neither.
fn same_file(a: &Path, b: &Path) -> bool {
    let meta = |p: &Path| std::fs::symlink_metadata(p).ok().filter(std::fs::Metadata::is_file);
    let (Some(x), Some(y)) = (meta(a), meta(b)) else { return false };
    if x.len() != y.len() || (x.mode() & 0o100) != (y.mode() & 0o100) {
        return false;
    }
    let len = x.len();
    let (Ok(a), Ok(b)) = (std::fs::File::open(a), std::fs::File::open(b)) else { return false };
    let (mut a, mut b) = (std::io::BufReader::new(a), std::io::BufReader::new(b));
    let (mut x, mut y) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut left = len;
    while left > 0 {
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(x.len());
        if a.read_exact(&mut x[..n]).is_err() || b.read_exact(&mut y[..n]).is_err() || x[..n] != y[..n] {
            return false;
        }
        left -= n as u64;
    }
    true
}
