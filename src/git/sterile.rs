//! The sterile git dir: where a repository is judged without any of its programs being run.
//!
//! A private git directory with an empty config (or an allow-list copied by value), the repository's objects as its
//! alternate and a private object directory for what judging writes. No hook, filter, driver, textconv, fsmonitor, lazy
//! fetch or nested repository's config can run: none of them is configured here.

use super::command::Call;
use super::repo::Repo;
use super::status::{Changes, Place};
use super::{Error, Result};
use crate::runtime::files::{self, because};
use crate::runtime::lock::Lock;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A private git directory, deleted when dropped.
#[derive(Debug)]
pub struct Sterile {
    dir: PathBuf,
    /// Beside the directory; says that its owner lives.
    lock: Option<Lock>,
}

/// Which of the user's settings count in a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// What `git status` would show: the user's line-ending rules and ignore files count.
    AsUserSees,
    /// For removal: only `.gitignore` files in the tree hide anything, and nothing is taken on trust.
    Strict,
}

impl Sterile {
    /// Makes one. `config` are lines of a git config file.
    pub fn new(repo: &Repo, config: &str) -> Result<Sterile> {
        let agents = repo.agents_dir();
        // A reader in a repository that has no state of ours, or is read-only, leaves none behind.
        let own = agents.is_dir().then(|| agents.join("sterile")).filter(|d| files::ensure_private_dir(d).is_ok());
        let made =
            own.and_then(|top| Sterile::begin(&top).ok()).map_or_else(|| Sterile::begin(&std::env::temp_dir()), Ok);
        made?.furnished(repo, config)
    }

    /// The same in memory where there is room for it: judging writes many small objects that nobody keeps.
    pub fn in_memory(repo: &Repo, config: &str) -> Result<Sterile> {
        let Some(top) = memory() else { return Sterile::new(repo, config) };
        sweep(&top);
        match Sterile::begin(&top).and_then(|s| s.furnished(repo, config)) {
            Ok(sterile) => Ok(sterile),
            Err(e) => {
                tracing::debug!(%e, "no place in memory");
                Sterile::new(repo, config)
            }
        }
    }

    fn furnished(self, repo: &Repo, config: &str) -> Result<Sterile> {
        let sterile = self;
        let dir = &sterile.dir;
        for sub in ["objects", "objects/info", "refs", "info"] {
            std::fs::create_dir(dir.join(sub)).map_err(because("create", dir))?;
        }
        let mut alternate = quote_alternate(&repo.common_dir.join("objects"));
        alternate.push(b'\n');
        files::write_atomic(&dir.join("objects/info/alternates"), &alternate)?;
        let format = if repo.object_format == "sha256" {
            "[core]\nrepositoryformatversion = 1\nbare = false\n[extensions]\nobjectformat = sha256\n"
        } else {
            "[core]\nrepositoryformatversion = 0\nbare = false\n"
        };
        files::write_atomic(&dir.join("config"), format!("{format}{config}").as_bytes())?;
        files::write_atomic(&dir.join("HEAD"), b"ref: refs/heads/none\n")?;
        if repo.shallow {
            copy(&repo.common_dir.join("shallow"), &dir.join("shallow"))?;
        }
        let replaced = replacements(repo)?;
        if !replaced.is_empty() {
            let lines: String = replaced.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
            files::write_atomic(&dir.join("packed-refs"), lines.as_bytes())?;
        }
        Ok(sterile)
    }

    /// An empty directory in `top`.
    fn begin(top: &Path) -> Result<Sterile> {
        let dir = top.join(format!("git-agents-{}", crate::runtime::clock::random_hex(8)));
        // Before the directory: one without a held lock is what a kill left.
        let lock = Lock::take(&dir.with_extension("lock"))?;
        let sterile = Sterile { dir, lock: Some(lock) };
        files::ensure_private_dir(&sterile.dir)?;
        Ok(sterile)
    }

    /// Its path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes over the index of `place`, with what a split one refers to.
    pub(super) fn copy_index(&self, repo: &Repo, place: &Place<'_>, to: &Path) -> Result<()> {
        let index = place.admin.join("index");
        // Its time is part of what it says: a file no older than its index may have changed after it was hashed.
        let written = std::fs::metadata(&index).and_then(|m| m.modified());
        copy(&index, to)?;
        if let Ok(written) = written {
            let file = std::fs::File::options().write(true).open(to).map_err(because("open", to))?;
            file.set_modified(written).map_err(because("date", to))?;
        }
        for dir in [place.admin, repo.common_dir.as_path()] {
            for e in std::fs::read_dir(dir).into_iter().flatten().filter_map(std::result::Result::ok) {
                if e.file_name().as_bytes().starts_with(b"sharedindex.") {
                    copy(&e.path(), &self.dir.join(e.file_name()))?;
                }
            }
        }
        Ok(())
    }

    /// A call in it with `worktree` as its tree.
    pub fn call<I: AsRef<std::ffi::OsStr>>(&self, worktree: &Path, args: impl IntoIterator<Item = I>) -> Call {
        Call::new(worktree, args)
            .env("GIT_DIR", &self.dir)
            .env("GIT_WORK_TREE", worktree)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("HOME", &self.dir)
            .env("XDG_CONFIG_HOME", &self.dir)
    }
}

impl Drop for Sterile {
    fn drop(&mut self) {
        if let Ok(meta) = std::fs::symlink_metadata(&self.dir) {
            use std::os::unix::fs::MetadataExt as _;
            // Expendable by definition; what cannot be deleted now is in the way of nothing.
            let _ = files::remove_tree(&self.dir, meta.dev());
        }
        if let Some(lock) = self.lock.take() {
            lock.remove();
        }
    }
}

/// What `git replace` has put in other objects' places: it counts for every question about history.
pub(super) fn replacements(repo: &Repo) -> Result<std::collections::BTreeMap<String, crate::model::agent::Oid>> {
    let packed = || {
        let bytes = files::read_limited(&repo.common_dir.join("packed-refs"), u64::MAX).ok().flatten();
        bytes.is_some_and(|b| b.windows(13).any(|w| w == b"refs/replace/"))
    };
    if !repo.reftable && !repo.common_dir.join("refs/replace").exists() && !packed() {
        return Ok(Default::default());
    }
    super::refs::list(repo, &["refs/replace/"])
}

/// Our directory on a file system in memory, where there is one with room.
#[cfg(target_os = "linux")]
fn memory() -> Option<PathBuf> {
    const ROOM: u64 = 256 << 20;
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute());
    let usable = |top: &PathBuf| {
        nix::sys::statfs::statfs(top.as_path()).is_ok_and(|s| {
            let room = s.blocks_available() * u64::try_from(s.block_size()).unwrap_or(0);
            s.filesystem_type() == nix::sys::statfs::TMPFS_MAGIC && room >= ROOM
        })
    };
    let top = runtime.into_iter().chain([PathBuf::from("/dev/shm")]).find(usable)?;
    // Others may write in the directory above: ours is private, and refused where somebody else has made it.
    let ours = top.join(format!("git-agents-{}", nix::unistd::geteuid()));
    files::ensure_private_dir(&ours).is_ok().then_some(ours)
}

#[cfg(not(target_os = "linux"))]
fn memory() -> Option<PathBuf> {
    None
}

/// Removes the private git dirs of processes that are gone.
pub fn heal(repo: &Repo) {
    sweep(&repo.agents_dir().join("sterile"));
}

fn sweep(top: &Path) {
    for e in std::fs::read_dir(top).into_iter().flatten().filter_map(std::result::Result::ok) {
        let dir = e.path().with_extension("");
        if let Ok(Some(lock)) = Lock::try_take(&dir.with_extension("lock")) {
            if let Ok(meta) = dir.symlink_metadata() {
                use std::os::unix::fs::MetadataExt as _;
                let _ = files::remove_tree(&dir, meta.dev());
            }
            lock.remove();
        }
    }
}

fn quote_alternate(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.first() != Some(&b'"') && !bytes.contains(&b'\n') {
        return bytes.to_vec();
    }
    quote_c(bytes)
}

/// A path in git's C quoting, always quoted.
pub fn quote_c(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for b in bytes {
        match b {
            b'"' | b'\\' => out.extend([b'\\', *b]),
            0..=31 | 127.. => out.extend(format!("\\{b:03o}").bytes()),
            _ => out.push(*b),
        }
    }
    out.push(b'"');
    out
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(bytes) = files::read_limited(from, u64::MAX)? {
        files::write_atomic(to, &bytes)?;
    }
    Ok(())
}

/// The ignore file of the user that counts here.
pub(super) fn excludes_file(repo: &Repo) -> Result<PathBuf> {
    let named = repo.settings()?.iter().rev().find(|(_, k, _)| k == "core.excludesfile");
    Ok(named.map_or_else(
        || super::config_file::user_settings().excludes.clone(),
        |(_, _, e)| super::config_file::expand_home(e),
    ))
}

/// `git status` of a worktree, asked of the program with nothing of the repository's running.
pub fn status(repo: &Repo, place: &Place<'_>, rules: Rules) -> Result<Changes> {
    ask_status(&for_status(repo, place, rules)?, place)
}

/// Directories of `place` that are ignored as a whole, by what the user ignores; each with a slash at its end.
pub fn ignored_directories(repo: &Repo, place: &Place<'_>) -> Result<Vec<super::status::RelPath>> {
    let sterile = for_status(repo, place, Rules::AsUserSees)?;
    let args = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
    let out = sterile.call(place.worktree, args).within(Duration::from_secs(120)).run()?;
    Ok(out.split(|b| *b == 0).filter(|p| p.ends_with(b"/")).map(<[u8]>::to_vec).collect())
}

/// A sterile dir in which `place` is looked at under `rules`.
pub(super) fn for_status(repo: &Repo, place: &Place<'_>, rules: Rules) -> Result<Sterile> {
    let mut config = String::from("[core]\nfsmonitor = false\nuntrackedCache = false\n");
    let common = super::config_file::read(&repo.common_dir)?;
    if common.value("core", None, "filemode").is_some_and(|v| v == "false") {
        config.push_str("fileMode = false\n");
    }
    if common.flag("core", None, "ignorecase") {
        config.push_str("ignoreCase = true\n");
    }
    let mut excludes = None;
    if rules == Rules::AsUserSees {
        let settings = repo.settings()?;
        let last = |key: &str| settings.iter().rev().find(|(_, k, _)| k == key).map(|(_, _, v)| v.clone());
        for key in ["core.autocrlf", "core.eol"] {
            if let Some(v) = last(key).filter(|v| v.bytes().all(|b| b.is_ascii_alphanumeric())) {
                config.push_str(&format!("{} = {v}\n", &key[5..]));
            }
        }
        excludes = Some(excludes_file(repo)?);
    }
    let sterile = Sterile::new(repo, &config)?;
    if let Some(head) = place.head {
        files::write_atomic(&sterile.dir.join("HEAD"), format!("{head}\n").as_bytes())?;
    }
    sterile.copy_index(repo, place, &sterile.dir.join("index"))?;
    if let Some(excludes) = excludes {
        // Where git looks by itself.
        files::ensure_private_dir(&sterile.dir.join("git"))?;
        copy(&excludes, &sterile.dir.join("git/ignore"))?;
        copy(&repo.common_dir.join("info/exclude"), &sterile.dir.join("info/exclude"))?;
        copy(&repo.common_dir.join("info/attributes"), &sterile.dir.join("info/attributes"))?;
        copy(&repo.common_dir.join("info/sparse-checkout"), &sterile.dir.join("info/sparse-checkout"))?;
    }
    Ok(sterile)
}

/// The status of `place` in a dir that was made for it.
pub(super) fn ask_status(sterile: &Sterile, place: &Place<'_>) -> Result<Changes> {
    let args = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignore-submodules=all", "--no-renames"];
    let call = sterile.call(place.worktree, args);
    let found = call.within(Duration::from_secs(120)).run().map_err(|e| match e {
        // The index it complains of is a copy.
        Error::Failed { args, code, stderr } => {
            let stderr = stderr.replace(&*sterile.dir.to_string_lossy(), &place.admin.to_string_lossy());
            Error::Failed { args, code, stderr }
        }
        e => e,
    });
    parse_status(&found?)
}

fn parse_status(out: &[u8]) -> Result<Changes> {
    let mut changes = Changes::default();
    let field = |line: &[u8], n: usize| line.splitn(n + 1, |b| *b == b' ').nth(n).map(<[u8]>::to_vec);
    for line in out.split(|b| *b == 0).filter(|l| !l.is_empty()) {
        let damaged = || Error::Damaged { what: "git status".into(), why: String::from_utf8_lossy(line).into_owned() };
        match line[0] {
            b'1' => drop(changes.modified.insert(field(line, 8).ok_or_else(damaged)?)),
            b'2' => drop(changes.modified.insert(field(line, 9).ok_or_else(damaged)?)),
            b'u' => drop(changes.conflicted.insert(field(line, 10).ok_or_else(damaged)?)),
            b'?' => drop(changes.untracked.insert(line[2..].to_vec())),
            b'#' | b'!' => {}
            _ => return Err(damaged()),
        }
    }
    Ok(changes)
}
