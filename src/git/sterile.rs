//! The sterile git dir: where a repository is judged without any of its programs being run.
//!
//! A private git directory with an empty config (or an allow-list copied by value), the repository's objects as its
//! alternate and a private object directory for what judging writes. No hook, filter, driver, textconv, fsmonitor, lazy
//! fetch or nested repository's config can run: none of them is configured here.

use super::attributes::Attributes;
use super::command::Call;
use super::objects::Objects;
use super::repo::Repo;
use super::status::{Changes, Place};
use super::{Error, Result};
use crate::model::agent::Oid;
use crate::runtime::files::{self, because};
use crate::runtime::lock::Lock;
use std::io::{BufReader, Write as _};
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
        let sterile = made?;
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

/// Removes the private git dirs of processes that are gone.
pub fn heal(repo: &Repo) {
    let top = repo.agents_dir().join("sterile");
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

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(bytes) = files::read_limited(from, u64::MAX)? {
        files::write_atomic(to, &bytes)?;
    }
    Ok(())
}

/// `git status` of a worktree, asked of the program with nothing of the repository's running.
pub fn status(repo: &Repo, place: &Place<'_>, rules: Rules) -> Result<Changes> {
    ask_status(&for_status(repo, place, rules)?, place)
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
    let mut excludes_file = None;
    if rules == Rules::AsUserSees {
        let settings = repo.settings()?;
        let last = |key: &str| settings.iter().rev().find(|(_, k, _)| k == key).map(|(_, _, v)| v.clone());
        for key in ["core.autocrlf", "core.eol"] {
            if let Some(v) = last(key).filter(|v| v.bytes().all(|b| b.is_ascii_alphanumeric())) {
                config.push_str(&format!("{} = {v}\n", &key[5..]));
            }
        }
        let excludes = last("core.excludesfile").map_or_else(
            || super::config_file::user_settings().excludes.clone(),
            |e| super::config_file::expand_home(&e),
        );
        excludes_file = Some(excludes);
    }
    let sterile = Sterile::new(repo, &config)?;
    if let Some(head) = place.head {
        files::write_atomic(&sterile.dir.join("HEAD"), format!("{head}\n").as_bytes())?;
    }
    copy(&place.admin.join("index"), &sterile.dir.join("index"))?;
    // By the index's own time git tells which files may have changed after it looked at them: a younger copy would have
    // it trust what it must not.
    let time = std::fs::metadata(place.admin.join("index")).and_then(|m| m.modified());
    let opened = std::fs::File::options().write(true).open(sterile.dir.join("index"));
    if let (Ok(time), Ok(file)) = (time, opened) {
        file.set_modified(time).map_err(because("write", &sterile.dir))?;
    }
    for dir in [place.admin, repo.common_dir.as_path()] {
        for e in std::fs::read_dir(dir).into_iter().flatten().filter_map(std::result::Result::ok) {
            if e.file_name().as_bytes().starts_with(b"sharedindex.") {
                copy(&e.path(), &sterile.dir.join(e.file_name()))?;
            }
        }
    }
    if let Some(excludes) = excludes_file {
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
    parse_status(&call.within(Duration::from_secs(120)).run()?)
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

/// What git's own merge of two commits says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// It combines; the tree.
    Clean(Oid),
    /// It stops on these paths.
    Conflict(Vec<Vec<u8>>),
    /// It could not be told; why. Never to be read as clean.
    Unknown(String),
}

/// Merges each pair of commits by `git merge-tree`, without touching the repository. `base` gives the attributes: they
/// are those of the place where landing happens.
pub fn merges(repo: &Repo, objects: &Objects, base: Option<&Oid>, pairs: &[(Oid, Oid)]) -> Result<Vec<Merge>> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let settings = repo.settings()?;
    let sterile = Sterile::new(repo, &merge_settings(settings))?;
    let tree = Attributes::read(repo, objects, base, settings)?.write(&sterile)?;
    let mut verdicts = Vec::with_capacity(pairs.len());
    while verdicts.len() < pairs.len() {
        let rest = &pairs[verdicts.len()..];
        let before = verdicts.len();
        let why = batch(repo, &sterile, &tree, rest, &mut verdicts)?;
        if verdicts.len() < pairs.len() {
            // The process died on the pair after the last answer; the others get a process of their own.
            verdicts.push(Merge::Unknown(if why.is_empty() { "git merge-tree gave no answer".into() } else { why }));
        } else if verdicts.len() == before {
            break;
        }
    }
    Ok(verdicts)
}

fn batch(repo: &Repo, sterile: &Sterile, tree: &Path, pairs: &[(Oid, Oid)], out: &mut Vec<Merge>) -> Result<String> {
    let args = ["merge-tree", "--write-tree", "-z", "--no-messages", "--stdin"];
    let mut child =
        sterile.call(tree, args).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", repo.common_dir.join("objects")).spawn()?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let input: String = pairs.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
    // From a thread: git writes answers while it still reads, and both pipes are small.
    let writer = std::thread::spawn(move || {
        let _ = stdin.write_all(input.as_bytes());
    });
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let words = std::thread::spawn(move || {
        let mut s = String::new();
        let _ = std::io::Read::read_to_string(&mut stderr, &mut s);
        s
    });
    let mut reader = BufReader::new(child.stdout.take().expect("stdout is piped"));
    for _ in pairs {
        match record(&mut reader) {
            Some(m) => out.push(m),
            None => break,
        }
    }
    let _ = writer.join();
    let _ = child.wait();
    let words = words.join().unwrap_or_default();
    Ok(words
        .lines()
        .map(|l| l.trim_start_matches("fatal: ").trim_start_matches("error: "))
        .next()
        .unwrap_or_default()
        .to_owned())
}

/// One record: status, tree, conflicted entries, an empty field.
fn record(reader: &mut impl std::io::BufRead) -> Option<Merge> {
    let mut next = || {
        let mut f = Vec::new();
        let n = reader.read_until(0, &mut f).ok()?;
        (n > 0 && f.pop() == Some(0)).then_some(f)
    };
    let status = next()?;
    let tree = Oid::parse(std::str::from_utf8(&next()?).ok()?)?;
    let mut paths = std::collections::BTreeSet::new();
    loop {
        let f = next()?;
        if f.is_empty() {
            break;
        }
        let tab = f.iter().position(|b| *b == b'\t')?;
        paths.insert(f[tab + 1..].to_vec());
    }
    match status.as_slice() {
        b"1" => Some(Merge::Clean(tree)),
        b"0" if !paths.is_empty() => Some(Merge::Conflict(paths.into_iter().collect())),
        _ => Some(Merge::Unknown("git merge-tree gave an answer of another form".into())),
    }
}

/// The settings of the user that decide how git merges, by value; nothing that runs a program.
fn merge_settings(settings: &[(String, String, String)]) -> String {
    let allowed = [
        "merge.default",
        "merge.renames",
        "merge.renamelimit",
        "merge.directoryrenames",
        "merge.renormalize",
        "diff.renames",
        "diff.renamelimit",
        "diff.algorithm",
        "core.autocrlf",
        "core.eol",
        "core.ignorecase",
        "core.precomposeunicode",
    ];
    let mut out = String::new();
    for (_, key, value) in settings {
        if allowed.contains(&key.as_str())
            && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && let Some((section, name)) = key.split_once('.')
        {
            out.push_str(&format!("[{section}]\n{name} = {value}\n"));
        }
    }
    out
}
