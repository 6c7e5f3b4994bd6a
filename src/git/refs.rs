//! References: full names everywhere, every change with its expected old value.
//!
//! References of our own (`refs/agents/*`, `refs/notes/agents*`) are written in-process in a files repository: the lock
//! file is a hard link to a file in our directory, so that after a kill equal inodes prove it is ours, and the file and
//! its directory are synced, which git itself does not do. Everything else, and reftable, goes through the program.

use super::locks::Mark;
use super::repo::Repo;
use super::{Error, Result};
use crate::model::agent::Oid;
use crate::runtime::files::{self, because};
use crate::runtime::process;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// All references below the given prefixes (`refs/heads/`, …), with the objects they name.
pub fn list(repo: &Repo, prefixes: &[&str]) -> Result<BTreeMap<String, Oid>> {
    if !repo.reftable {
        return list_files(repo, prefixes);
    }
    let mut call = repo.call(["for-each-ref", "--format=%(objectname) %(refname)"]);
    for p in prefixes {
        call.arg(p);
    }
    let out = call.run()?;
    let mut refs = BTreeMap::new();
    for line in out.split(|b| *b == b'\n') {
        let line = String::from_utf8_lossy(line);
        if let Some((id, name)) = line.split_once(' ') {
            refs.insert(name.to_owned(), Oid(id.to_owned()));
        }
    }
    Ok(refs)
}

/// The object a full name stands for; `None` where there is no such reference.
pub fn read(repo: &Repo, name: &str) -> Result<Option<Oid>> {
    if !repo.reftable && name.starts_with("refs/") && !name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return read_files(repo, name);
    }
    // Not `rev-parse`, which reads what it does not find as a shorter name: a branch called 'refs/heads/x' is not 'x'.
    Ok(list(repo, &[name])?.remove(name))
}

/// The commit that `rev` means, as git reads revisions; `None` where it means none.
pub fn resolve_commit(repo: &Repo, rev: &str) -> Result<Option<Oid>> {
    if !repo.reftable && rev.starts_with("refs/heads/") {
        return read(repo, rev);
    }
    let spec = format!("{rev}^{{commit}}");
    let out = repo.call(["rev-parse", "--verify", "--quiet", "--end-of-options", &spec]).output()?;
    if out.status.code().is_none() {
        // A git that was killed has not said no.
        return Err(super::command::failed(&format!("rev-parse {spec}"), &out, None));
    }
    Ok(String::from_utf8_lossy(&out.stdout).lines().find_map(Oid::parse).filter(|_| out.status.success()))
}

/// The files of a repository that keeps references in files: packed ones first, loose ones win.
fn list_files(repo: &Repo, prefixes: &[&str]) -> Result<BTreeMap<String, Oid>> {
    let mut refs = BTreeMap::new();
    let packed = files::read_limited(&repo.common_dir.join("packed-refs"), 1 << 30)?.unwrap_or_default();
    for line in packed.split(|b| *b == b'\n').filter(|l| !matches!(l.first(), None | Some(b'#' | b'^'))) {
        let line = String::from_utf8_lossy(line);
        if let Some((id, name)) = line.split_once(' ')
            && prefixes.iter().any(|p| name.starts_with(p))
            && let Some(id) = Oid::parse(id)
        {
            refs.insert(name.to_owned(), id);
        }
    }
    let mut todo: Vec<String> = prefixes.iter().map(|p| p.trim_end_matches('/').to_owned()).collect();
    while let Some(dir) = todo.pop() {
        let path = repo.common_dir.join(&dir);
        let entries = match std::fs::read_dir(&path) {
            Ok(e) => e,
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => continue,
            Err(e) => return Err(because("read", &path)(e).into()),
        };
        for e in entries.filter_map(std::result::Result::ok) {
            // A name that is not text is no name of ours, and git itself shows it lossily.
            let name = format!("{dir}/{}", e.file_name().to_string_lossy());
            if e.file_type().is_ok_and(|t| t.is_dir()) {
                todo.push(name);
            } else if !name.ends_with(".lock")
                && let Ok(Some(id)) = read_files(repo, &name)
            {
                refs.insert(name, id);
            }
        }
    }
    Ok(refs)
}

fn is_ours(name: &str) -> bool {
    name.starts_with("refs/agents/") || name.starts_with("refs/notes/agents")
}

fn read_direct(repo: &Repo, name: &str) -> Result<Option<Oid>> {
    let loose = files::read_limited(&repo.common_dir.join(name), 1 << 12).unwrap_or_default();
    match loose.and_then(|b| Oid::parse(String::from_utf8_lossy(&b).trim())) {
        Some(id) => Ok(Some(id)),
        None => read_packed(repo, name),
    }
}

fn read_files(repo: &Repo, name: &str) -> Result<Option<Oid>> {
    let path = repo.common_dir.join(name);
    match files::read_limited(&path, 1 << 12) {
        Ok(Some(bytes)) => {
            let text = String::from_utf8_lossy(&bytes).trim().to_owned();
            if let Some(target) = text.strip_prefix("ref:").map(str::trim).filter(|t| *t != name) {
                // Only `origin/HEAD` and the like; a chain of them is nobody's habit.
                return if target.starts_with("refs/") { read_direct(repo, target) } else { Ok(None) };
            }
            return match Oid::parse(&text) {
                Some(id) => Ok(Some(id)),
                None => {
                    Err(Error::Damaged { what: format!("reference '{name}'"), why: "it holds no object id".into() })
                }
            };
        }
        Ok(None) => {}
        // A directory of that name, or below a file: no such loose reference.
        Err(e) if matches!(e.kind(), Some(std::io::ErrorKind::IsADirectory | std::io::ErrorKind::NotADirectory)) => {}
        Err(e) => return Err(e.into()),
    }
    read_packed(repo, name)
}

fn read_packed(repo: &Repo, name: &str) -> Result<Option<Oid>> {
    let packed = files::read_limited(&repo.common_dir.join("packed-refs"), 1 << 30)?.unwrap_or_default();
    let wanted = name.as_bytes();
    for line in packed.split(|b| *b == b'\n') {
        if let Some(at) = line.iter().position(|b| *b == b' ')
            && &line[at + 1..] == wanted
        {
            return Ok(Oid::parse(&String::from_utf8_lossy(&line[..at])));
        }
    }
    Ok(None)
}

/// Sets `name` to `new` if it is `old` now (`None`: if it does not exist). Durable when it returns. For references of
/// our own; the caller holds the repository's lock, or the name is nobody else's (a capture).
pub fn update_ours(repo: &Repo, name: &str, new: &Oid, old: Option<&Oid>) -> Result<()> {
    debug_assert!(is_ours(name));
    if repo.reftable {
        return update(repo, name, new, old);
    }
    let target = repo.common_dir.join(name);
    let lock = repo.common_dir.join(format!("{name}.lock"));
    let me = process::me();
    let ours = repo.agents_dir().join(format!("{MARK}{}-{}-{}", me.pid, me.start, encode(name)));
    files::write_durable(&ours, format!("{new}\n").as_bytes())?;
    let made = (|| {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let parent = target.parent().expect("a reference has a directory");
            make_dirs(&repo.common_dir, parent)?;
            match std::fs::hard_link(&ours, &lock) {
                Ok(()) => break,
                // `pack-refs` takes empty directories away.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound && Instant::now() < deadline => {}
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                    heal_foreign_form(&lock);
                    if Instant::now() >= deadline {
                        return Err(Error::Locked { age_s: age(&lock), path: lock.clone() });
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(e) => return Err(because("lock", &lock)(e).into()),
            }
        }
        let now = match read_files(repo, name) {
            // No id stands there: nothing that anybody could expect.
            Err(Error::Damaged { .. }) => None,
            other => other?,
        };
        if now.as_ref() != old {
            let _ = std::fs::remove_file(&lock);
            return Err(Error::Moved { name: name.to_owned() });
        }
        std::fs::rename(&lock, &target).map_err(because("replace", &target))?;
        files::sync_dir(target.parent().expect("a reference has a directory"))?;
        Ok(())
    })();
    if made.is_err() {
        unlock(&ours, &lock);
    }
    let _ = std::fs::remove_file(&ours);
    made
}

/// Removes `lock` where it is the same file as `ours`.
fn unlock(ours: &Path, lock: &Path) {
    if let (Ok(o), Ok(l)) = (ours.symlink_metadata(), lock.symlink_metadata())
        && (l.ino(), l.dev()) == (o.ino(), o.dev())
    {
        let _ = std::fs::remove_file(lock);
    }
}

/// Creates the directories from `top` down to `dir`, each synced into its parent.
fn make_dirs(top: &Path, dir: &Path) -> Result<()> {
    if dir.is_dir() || dir == top {
        return Ok(());
    }
    let parent = dir.parent().unwrap_or(top);
    make_dirs(top, parent)?;
    match std::fs::create_dir(dir) {
        Ok(()) => Ok(files::sync_dir(parent)?),
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(because("create", dir)(e).into()),
    }
}

/// The same for any reference, through the program, hooks off. Refuses a branch that is checked out anywhere only by
/// the caller's own check: git does not.
pub fn update(repo: &Repo, name: &str, new: &Oid, old: Option<&Oid>) -> Result<()> {
    let zero = new.zero_like();
    let mark = Mark::of_ref(repo, name);
    let result = repo
        .call(["update-ref", "--no-deref", name, &new.0, &old.unwrap_or(&zero).0])
        .within(Duration::from_secs(20))
        .run();
    mark.end(&result);
    if let Err(e) = result {
        let now = read(repo, name)?;
        return if now.as_ref() == old { Err(e) } else { Err(Error::Moved { name: name.to_owned() }) };
    }
    sync(repo, name)
}

/// Deletes `name` if it is `old` now; nothing where it is gone already.
pub fn delete(repo: &Repo, name: &str, old: &Oid) -> Result<()> {
    let mark = Mark::of_ref(repo, name);
    let result = repo.call(["update-ref", "--no-deref", "-d", name, &old.0]).within(Duration::from_secs(20)).run();
    mark.end(&result);
    match result {
        Ok(_) => Ok(()),
        Err(e) => match read(repo, name)? {
            None => Ok(()),
            Some(now) if now == *old => Err(e),
            Some(_) => Err(Error::Moved { name: name.to_owned() }),
        },
    }
}

/// Makes the last change of `name` durable: git syncs the file it renames, never the directory.
pub fn sync(repo: &Repo, name: &str) -> Result<()> {
    if repo.reftable {
        return Ok(files::sync_dir(&repo.common_dir.join("reftable"))?);
    }
    let path = repo.common_dir.join(name);
    if let Ok(f) = std::fs::File::open(&path) {
        f.sync_all().map_err(because("sync", &path))?;
    }
    let _: () = match path.parent() {
        Some(dir) if dir.is_dir() => files::sync_dir(dir)?,
        _ => (),
    };
    Ok(())
}

const MARK: &str = "ref.new-";

fn encode(name: &str) -> String {
    name.bytes().map(|b| format!("{b:02x}")).collect()
}

fn decode(hex: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> =
        (0..hex.len() / 2).map(|i| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok()).collect();
    String::from_utf8(bytes?).ok()
}

/// Removes what kills left: our copies, and the lock files that are the same inode. The caller holds the repository's
/// lock, so nobody of ours is in the middle of it.
pub fn heal(repo: &Repo) {
    let Ok(dir) = std::fs::read_dir(repo.agents_dir()) else { return };
    for entry in dir.filter_map(std::result::Result::ok) {
        let file_name = entry.file_name();
        let Some(rest) = file_name.to_str().and_then(|n| n.strip_prefix(MARK)) else { continue };
        // Captures are taken without the repository's lock: whoever lives is at work with his own.
        let mut parts = rest.splitn(3, '-');
        let owner = (parts.next().and_then(|p| p.parse().ok()), parts.next().and_then(|s| s.parse().ok()));
        let hex = parts.next().unwrap_or(rest);
        if let (Some(pid), Some(start)) = owner
            && (process::Identity { pid, start, boot: process::boot_id() }).is_alive()
        {
            continue;
        }
        if let Some(name) = decode(hex) {
            unlock(&entry.path(), &repo.common_dir.join(format!("{name}.lock")));
        }
        let _ = std::fs::remove_file(entry.path());
    }
}

/// A lock that a killed program left on a reference of ours: removed once it is
/// older than ten seconds, no process has it open, it holds at most one id, and we hold the repository's lock.
fn heal_foreign_form(lock: &Path) {
    let Ok(meta) = lock.symlink_metadata() else { return };
    if meta.is_file()
        && matches!(meta.len(), 0 | 41 | 65)
        && age(lock) >= 10
        && !crate::runtime::process::is_open_anywhere(lock)
    {
        let _ = std::fs::remove_file(lock);
    }
}

fn age(path: &Path) -> u64 {
    std::fs::metadata(path)
        .ok()
        .and_then(|m| m.modified().ok())
        .and_then(|t| t.elapsed().ok())
        .map_or(0, |d| d.as_secs())
}
