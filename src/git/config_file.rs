//! The repository's own config file: read in-process, written durably by one rename under git's own lock.
//!
//! git reads this file in every command, so what we keep there is short. The lock file is a hard link to a file in our
//! directory: after a kill, equal inodes prove that a left-over `config.lock` is ours, and only then is it removed.

use super::{Error, Result};
use crate::runtime::files::{self, because};
use gix::bstr::BStr;
use gix::config::File as ConfigFile;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The parsed common config file, without includes: what other files say about us does not count.
pub struct Config {
    file: ConfigFile,
    lines: Vec<Vec<u8>>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Config")
    }
}

/// Reads `<common dir>/config`.
pub fn read(common_dir: &Path) -> Result<Config> {
    let path = common_dir.join("config");
    let bytes = files::read_limited(&path, 64 << 20)?.unwrap_or_default();
    parse(&path, &bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Config> {
    let meta = gix::config::file::Metadata::from(gix::config::Source::Local);
    let file = ConfigFile::from_bytes_no_includes(bytes, meta, Default::default()).map_err(|e| Error::Damaged {
        what: format!("'{}'", crate::model::text::shown_path(path)),
        why: e.to_string(),
    })?;
    Ok(Config { file, lines: bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect() })
}

impl Config {
    /// One value as text.
    pub fn value(&self, section: &str, subsection: Option<&str>, key: &str) -> Option<String> {
        self.file.raw_value_by(section, subsection.map(BStr::new), key).ok().map(|v| v.to_string())
    }

    /// One value as git's yes or no; missing is no.
    pub fn flag(&self, section: &str, subsection: Option<&str>, key: &str) -> bool {
        self.value(section, subsection, key)
            .is_some_and(|v| matches!(v.to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1" | ""))
    }

    /// Whether it includes other files, which are not read here.
    pub fn has_includes(&self) -> bool {
        let mut names = self.file.sections().map(|s| s.header().name().to_string().to_ascii_lowercase());
        names.any(|n| n == "include" || n == "includeif")
    }

    /// The names of all subsections of `section`, in the file's order, each once.
    pub fn subsections(&self, section: &str) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for s in self.file.sections_by_name(section).into_iter().flatten() {
            if let Some(sub) = s.header().subsection_name() {
                let sub = sub.to_string();
                if !out.contains(&sub) {
                    out.push(sub);
                }
            }
        }
        out
    }

    /// Sets one value of a section of ours, made where there is none. Every other line keeps its bytes.
    pub fn set(&mut self, section: &str, subsection: &str, key: &str, value: &str) {
        let line = format!("\t{key} = {}", quote(value)).into_bytes();
        let header = header(section, subsection);
        let Some((start, end)) = self.blocks(&header).pop() else {
            if self.lines.last().is_some_and(|l| !l.is_empty()) {
                self.lines.push(Vec::new());
            }
            let at = self.lines.len().saturating_sub(1);
            self.lines.splice(at..at, [header, line]);
            return;
        };
        match (start + 1..end).find(|i| is_key(&self.lines[*i], key)) {
            Some(i) => self.lines[i] = line,
            None => {
                // After its last own line: what follows (blank lines, comments) belongs to the next section.
                let own = (start + 1..end).rev().find(|i| self.lines[*i].contains(&b'=')).map_or(start + 1, |i| i + 1);
                self.lines.insert(own, line);
            }
        }
    }

    /// Removes one value; nothing where it is missing.
    pub fn unset(&mut self, section: &str, subsection: &str, key: &str) {
        for (start, end) in self.blocks(&header(section, subsection)).into_iter().rev() {
            for i in (start + 1..end).rev().filter(|i| is_key(&self.lines[*i], key)).collect::<Vec<_>>() {
                self.lines.remove(i);
            }
        }
    }

    /// Removes all sections of that name and subsection.
    pub fn remove(&mut self, section: &str, subsection: &str) {
        for (start, end) in self.blocks(&header(section, subsection)).into_iter().rev() {
            let own = (start..end).rev().find(|i| *i == start || self.lines[*i].contains(&b'=')).unwrap_or(start);
            self.lines.drain(start..=own);
        }
    }

    /// The line ranges of the sections with this header.
    fn blocks(&self, header: &[u8]) -> Vec<(usize, usize)> {
        let begins = |l: &Vec<u8>| l.trim_ascii_start().starts_with(b"[");
        let mut out = Vec::new();
        for (i, _) in self.lines.iter().enumerate().filter(|(_, l)| l.trim_ascii_start().starts_with(header)) {
            let end = self.lines[i + 1..].iter().position(begins).map_or(self.lines.len(), |n| i + 1 + n);
            out.push((i, end));
        }
        out
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.lines.join(&b'\n')
    }
}

fn header(section: &str, subsection: &str) -> Vec<u8> {
    format!("[{section} \"{}\"]", subsection.replace('\\', "\\\\").replace('"', "\\\"")).into_bytes()
}

fn quote(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/._-:@+".contains(&b);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t"))
}

fn is_key(line: &[u8], key: &str) -> bool {
    let name = line.split(|b| *b == b'=').next().unwrap_or_default().trim_ascii();
    name.eq_ignore_ascii_case(key.as_bytes())
}

/// The user's own settings that decide how a worktree is read; found once a process, by the program only where a file
/// includes others.
#[derive(Debug, Default)]
pub struct UserSettings {
    /// `core.excludesFile`, or the default place.
    pub excludes: PathBuf,
    /// Line endings or attributes are converted by something the user has set.
    pub converts: bool,
}

/// See [`UserSettings`].
pub fn user_settings() -> &'static UserSettings {
    static FOUND: std::sync::OnceLock<UserSettings> = std::sync::OnceLock::new();
    FOUND.get_or_init(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let xdg = std::env::var_os("XDG_CONFIG_HOME")
            .filter(|v| !v.is_empty())
            .map_or_else(|| home.join(".config"), PathBuf::from);
        let mut paths = Vec::new();
        if std::env::var_os("GIT_CONFIG_NOSYSTEM").is_none() {
            paths.push(
                std::env::var_os("GIT_CONFIG_SYSTEM").map_or_else(|| PathBuf::from("/etc/gitconfig"), PathBuf::from),
            );
            // Builds with another prefix (Homebrew, /usr/local) read theirs instead.
            paths.push(PathBuf::from("/usr/local/etc/gitconfig"));
            paths.push(PathBuf::from("/opt/homebrew/etc/gitconfig"));
        }
        match std::env::var_os("GIT_CONFIG_GLOBAL") {
            Some(g) => paths.push(PathBuf::from(g)),
            None => paths.extend([xdg.join("git/config"), home.join(".gitconfig")]),
        }
        let mut found =
            UserSettings { excludes: xdg.join("git/ignore"), converts: xdg.join("git/attributes").exists() };
        for p in paths {
            let Ok(Some(bytes)) = files::read_limited(&p, 4 << 20) else { continue };
            let Ok(config) = parse(&p, &bytes) else { continue };
            if config.has_includes() {
                return ask_user_settings(found);
            }
            if let Some(e) = config.value("core", None, "excludesfile") {
                found.excludes = expand_home(&e);
            }
            let set = |k: &str, v: &[&str]| config.value("core", None, k).is_some_and(|x| !v.contains(&x.as_str()));
            found.converts |=
                set("autocrlf", &["false"]) || set("eol", &["lf", "native"]) || set("attributesfile", &[]);
        }
        found.converts |= Path::new("/etc/gitattributes").exists();
        found
    })
}

/// A path as settings write it: `~/` is the user's home.
pub fn expand_home(value: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    value.strip_prefix("~/").map_or_else(|| PathBuf::from(value), |rest| home.join(rest))
}

fn ask_user_settings(mut found: UserSettings) -> UserSettings {
    let ask = |key: &str, kind: &str| {
        let call = super::command::Call::user_visible(
            Path::new("/"),
            ["config", "--global", "--includes", kind, "--get", key],
        );
        call.text().ok().filter(|v| !v.is_empty())
    };
    if let Some(e) = ask("core.excludesFile", "--type=path") {
        found.excludes = PathBuf::from(e);
    }
    // What includes say about conversion is not worth more questions: the program reads the worktree then.
    found.converts = true;
    found
}

/// Changes the common config file by `edit`: nothing is written where it changes no byte. The caller holds the
/// repository's lock. A foreign holder of `config.lock` is waited for, at most five seconds.
pub fn edit(common_dir: &Path, edit: impl Fn(&mut Config)) -> Result<()> {
    let Files { path, lock, ours } = Files::of(common_dir);
    heal(common_dir);
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let before = files::read_limited(&path, 64 << 20)?.unwrap_or_default();
        let mode = std::fs::metadata(&path).map_or(0o644, |m| m.mode() & 0o777);
        let mut config = parse(&path, &before)?;
        edit(&mut config);
        let after = config.to_bytes();
        if after == before {
            return Ok(());
        }
        // What git would read back must be what was meant, before it is in place.
        parse(&path, &after)?;
        let _ = std::fs::remove_file(&ours);
        files::write_durable(&ours, &after)?;
        std::fs::set_permissions(&ours, std::fs::Permissions::from_mode(mode)).map_err(because("write", &ours))?;
        match std::fs::hard_link(&ours, &lock) {
            Ok(()) => {
                // Now nobody else writes: what we edited must still be what is there.
                if files::read_limited(&path, 64 << 20)?.unwrap_or_default() != before {
                    let _ = std::fs::remove_file(&lock);
                    continue;
                }
                std::fs::rename(&lock, &path).map_err(because("replace", &path))?;
                files::sync_dir(path.parent().unwrap_or(common_dir))?;
                let _ = std::fs::remove_file(&ours);
                return Ok(());
            }
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                if Instant::now() >= deadline {
                    let _ = std::fs::remove_file(&ours);
                    let age =
                        std::fs::metadata(&lock).ok().and_then(|m| m.modified().ok()).and_then(|t| t.elapsed().ok());
                    return Err(Error::Locked { path: lock, age_s: age.map_or(0, |a| a.as_secs()) });
                }
                let jitter = u64::from(std::process::id() % 17);
                std::thread::sleep(Duration::from_millis(10 + jitter));
            }
            Err(e) => {
                let _ = std::fs::remove_file(&ours);
                return Err(because("lock", &lock)(e).into());
            }
        }
    }
}

/// Where a change goes through.
struct Files {
    path: PathBuf,
    lock: PathBuf,
    ours: PathBuf,
}

impl Files {
    fn of(common_dir: &Path) -> Files {
        let path = common_dir.join("config");
        // As git does it: a link stays one, and is locked where it leads.
        match std::fs::read_link(&path).and_then(|_| std::fs::canonicalize(&path)) {
            Ok(real) => {
                let beside = |end: &str| {
                    let mut name = real.as_os_str().to_owned();
                    name.push(end);
                    PathBuf::from(name)
                };
                Files { lock: beside(".lock"), ours: beside(".git-agents-new"), path: real }
            }
            Err(_) => {
                Files { lock: common_dir.join("config.lock"), ours: common_dir.join("agents").join("config.new"), path }
            }
        }
    }
}

/// Removes what a kill left: our copy, and `config.lock` where it is the same file. The caller holds the repository's
/// lock, so no living process of ours is in the middle of it.
pub fn heal(common_dir: &Path) {
    let Files { lock, ours, .. } = Files::of(common_dir);
    let Ok(o) = std::fs::symlink_metadata(&ours) else { return };
    if let Ok(l) = std::fs::symlink_metadata(&lock)
        && (l.ino(), l.dev()) == (o.ino(), o.dev())
    {
        let _ = std::fs::remove_file(&lock);
    }
    let _ = std::fs::remove_file(&ours);
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "test fixtures")]
mod tests {
    use super::*;

    fn repo(text: &str) -> tempfile::TempDir {
        let d = tempfile::tempdir().unwrap();
        std::fs::create_dir(d.path().join("agents")).unwrap();
        std::fs::write(d.path().join("config"), text).unwrap();
        d
    }

    #[test]
    fn foreign_lines_keep_every_byte() {
        let text = "# mine\n[core]\n\tbare = false ; yes\n[a] [b]\n\tx = \"1 \\\" 2\"\n";
        let d = repo(text);
        edit(d.path(), |c| c.set("agent", "feat/x.y", "branch", "refs/heads/feat/x.y")).unwrap();
        let now = std::fs::read_to_string(d.path().join("config")).unwrap();
        assert!(now.starts_with(text), "{now}");
        assert_eq!(read(d.path()).unwrap().value("agent", Some("feat/x.y"), "branch").unwrap(), "refs/heads/feat/x.y");
        edit(d.path(), |c| c.remove("agent", "feat/x.y")).unwrap();
        assert_eq!(std::fs::read_to_string(d.path().join("config")).unwrap(), text);
        assert!(!d.path().join("config.lock").exists());
    }

    #[test]
    fn our_lock_left_by_a_kill_is_healed_and_a_foreign_one_is_not() {
        let d = repo("");
        std::fs::write(d.path().join("agents/config.new"), "x").unwrap();
        std::fs::hard_link(d.path().join("agents/config.new"), d.path().join("config.lock")).unwrap();
        heal(d.path());
        assert!(!d.path().join("config.lock").exists() && !d.path().join("agents/config.new").exists());
        std::fs::write(d.path().join("config.lock"), "").unwrap();
        heal(d.path());
        assert!(d.path().join("config.lock").exists(), "not ours");
    }

    /// Writers of ours (one at a time, as the repository's lock makes them) and git itself, readers all the while: who is
    /// registered is seen by each reader each time, and nothing anybody wrote is lost.
    #[test]
    fn one_that_was_registered_was_missing_for_a_moment() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let d = repo("[core]\n\tbare = false\n");
        let git = |n: usize| {
            let args = ["config", "--file", "config", "foreign.n", &n.to_string()];
            crate::git::command::Call::new(d.path(), args).run().is_ok()
        };
        edit(d.path(), |c| (0..30).for_each(|i| c.set("agent", &format!("a{i}"), "id", "x"))).unwrap();
        let done = AtomicBool::new(false);
        let foreign = std::thread::scope(|s| {
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(|| {
                        let mut looks = 0u32;
                        while !done.load(Ordering::Relaxed) || looks == 0 {
                            let names = read(d.path()).unwrap().subsections("agent");
                            let there = |i: usize| names.iter().any(|n| *n == format!("a{i}"));
                            assert!((0..30).all(there), "{names:?}");
                            looks += 1;
                        }
                    })
                })
                .collect();
            // git gives up where a lock stands in its way; what it said it did must be there.
            let foreign = s.spawn(|| (0..30).filter(|n| git(*n)).max());
            for n in 0..80 {
                edit(d.path(), |c| c.set("agent", &format!("b{}", n % 7), "doing", &n.to_string())).unwrap();
                if n % 3 == 0 {
                    edit(d.path(), |c| c.remove("agent", &format!("b{}", n % 5))).unwrap();
                }
            }
            let foreign = foreign.join().unwrap();
            done.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|r| r.join().unwrap());
            foreign
        });
        let now = read(d.path()).unwrap().value("foreign", None, "n");
        assert_eq!(now, foreign.map(|n| n.to_string()));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn git_reads_back_what_was_set(name in "[ -~]{1,12}", value in "[ -~\\t]{0,20}", before in "([#;][ -~]{0,9}\n|\\[x\\]\n|\ty = 1\n){0,4}") {
            prop_assume!(before.is_empty() || before.starts_with('#') || before.starts_with(';') || before.starts_with('['));
            let d = repo(&before);
            edit(d.path(), |c| {
                c.set("agent", &name, "id", "old");
                c.set("agent", &name, "branch", "b");
                c.set("agent", &name, "id", &value);
            })
            .unwrap();
            let now = read(d.path()).unwrap();
            prop_assert_eq!(now.value("agent", Some(&name), "id").unwrap(), value);
            edit(d.path(), |c| c.remove("agent", &name)).unwrap();
            let after = std::fs::read_to_string(d.path().join("config")).unwrap();
            prop_assert_eq!(after.trim_end(), before.trim_end());
        }
    }
}
