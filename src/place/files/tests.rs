#![allow(clippy::disallowed_methods, reason = "fixtures need neither atomicity nor durability")]

use super::*;
use nix::sys::stat::Mode;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A checkout, a new worktree, and what is ignored: names and paths that begin with `ignored` or are listed.
struct Place {
    dir: tempfile::TempDir,
    to: PathBuf,
    ignored: BTreeSet<&'static str>,
}

impl Place {
    fn new(files: &[&str]) -> Place {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("wt");
        let place = Place {
            dir,
            to,
            ignored: [".env", "node_modules", "target", "secrets", "x.key", ".env.production"].into(),
        };
        fs::create_dir_all(place.to()).unwrap();
        fs::create_dir_all(place.from()).unwrap();
        files.iter().for_each(|f| place.file(f, f));
        place
    }

    fn from(&self) -> PathBuf {
        self.dir.path().join("main")
    }

    fn to(&self) -> PathBuf {
        self.to.clone()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.from().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn take(&self, copy: &[&str], clone: &[&str], change: impl FnOnce(&mut Options<'_>)) -> Taken {
        let copy: Vec<String> = copy.iter().map(ToString::to_string).collect();
        let clone: Vec<String> = clone.iter().map(ToString::to_string).collect();
        let ignored = |p: &Path, _: bool| {
            let name = p.file_name().unwrap();
            name.as_bytes().starts_with(b"ignored") || name.to_str().is_some_and(|n| self.ignored.contains(n))
        };
        let (from, to) = (self.from(), self.to());
        let mut options = Options {
            from: &from,
            to: &to,
            ignored: &ignored,
            copy: &copy,
            include_file: None,
            clone: &clone,
            clone_fallback_copy: false,
            clone_limit: 1 << 30,
            copy_secrets: false,
        };
        change(&mut options);
        take_along(&options).unwrap()
    }

    /// All there is in the new worktree but directories.
    fn there(&self) -> Vec<String> {
        fn walk(root: &Path, at: &Path, out: &mut Vec<String>) {
            for entry in fs::read_dir(at).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    walk(root, &entry.path(), out);
                } else {
                    out.push(entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        let mut out = Vec::new();
        walk(&self.to(), &self.to(), &mut out);
        out.sort();
        out
    }

    fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.to().join(path)).unwrap().permissions().mode() & 0o7777
    }
}

fn reasons(taken: &Taken) -> Vec<(String, Reason)> {
    taken.left_out.iter().map(|l| (l.path.display().to_string(), l.reason.clone())).collect()
}

fn left_out(path: &str, reason: Reason) -> Vec<(String, Reason)> {
    vec![(path.to_owned(), reason)]
}

#[test]
fn only_ignored_files_that_a_pattern_means_at_every_depth() {
    let place = Place::new(&[
        ".env",
        "apps/api/.env",
        "apps/api/.env.example",
        "apps/api/ignored",
        "node_modules/x/.env",
        "src/x",
    ]);
    let taken = place.take(&[".env*"], &[], |_| {});
    assert_eq!(place.there(), [".env", "apps/api/.env"]);
    assert_eq!(taken.copied.iter().map(|e| e.path.to_str().unwrap()).collect::<Vec<_>>(), [".env", "apps/api/.env"]);
    assert_eq!(taken.left_out, []);
    assert_eq!(taken.copied[0].digest, "2eea525d885d5148108f6f3a9a8613863f783d36", "as git hash-object says");
}

#[test]
fn ignored_directories_are_searched_when_they_are_named() {
    let place = Place::new(&["secrets/a", "secrets/deep/b", "node_modules/p/x.key", "apps/ignored-1/x.key"]);
    let taken = place.take(&["secrets/", "*.key", "ignored*"], &[], |_| {});
    assert_eq!(place.there(), ["secrets/a", "secrets/deep/b"]);
    assert_eq!(reasons(&taken), left_out("apps/ignored-1", Reason::NotNamed));
    place.take(&[], &[], |o| o.include_file = Some("# deps\nnode_modules/p/*.key\r\n".to_owned()));
    assert!(place.to().join("node_modules/p/x.key").exists());
}

#[test]
fn nothing_that_exists_is_overwritten() {
    let place = Place::new(&[".env", "a/.env"]);
    fs::write(place.to().join(".env"), "mine").unwrap();
    fs::create_dir(place.to().join("a")).unwrap();
    symlink("/nowhere", place.to().join("a/.env")).unwrap();
    let taken = place.take(&[".env"], &[], |_| {});
    assert_eq!(reasons(&taken), [(".env".to_owned(), Reason::Exists), ("a/.env".to_owned(), Reason::Exists)]);
    assert_eq!(fs::read(place.to().join(".env")).unwrap(), b"mine");
    assert!(!Path::new("/nowhere").exists() && taken.copied.is_empty());
}

#[test]
fn links_are_copied_as_links_and_followed_in_neither_tree() {
    let place = Place::new(&["real/.env"]);
    symlink("../outside", place.from().join("x.key")).unwrap();
    symlink("real", place.from().join("ignored-dir")).unwrap();
    symlink("real", place.from().join("plain-dir")).unwrap();
    let outside = place.dir.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, place.to().join("real")).unwrap();
    let taken = place.take(&["*.key", "ignored*", ".env"], &[], |_| {});
    assert_eq!(fs::read_link(place.to().join("x.key")).unwrap(), Path::new("../outside"));
    assert_eq!(fs::read_link(place.to().join("ignored-dir")).unwrap(), Path::new("real"));
    assert_eq!(reasons(&taken), left_out("real/.env", Reason::LinkInTheWay(RelPath("real".into()))));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "nothing is written through a link");
    assert!(taken.copied.iter().all(|e| unchanged(&place.to(), e)));
}

#[test]
fn modes_and_times_stay_and_set_id_does_not() {
    let place = Place::new(&["secrets/a", ".env", "x.key"]);
    let set =
        |path: &str, mode| fs::set_permissions(place.from().join(path), fs::Permissions::from_mode(mode)).unwrap();
    set(".env", 0o600);
    set("x.key", 0o4755);
    set("secrets", 0o700);
    place.take(&[".env", "secrets/", "*.key"], &[], |_| {});
    assert_eq!((place.mode(".env"), place.mode("x.key"), place.mode("secrets")), (0o600, 0o755, 0o700));
    let time = |root: PathBuf| fs::metadata(root.join(".env")).unwrap().modified().unwrap();
    assert_eq!(time(place.from()), time(place.to()));
}

#[test]
fn pipes_and_sockets_are_left_out_with_the_reason() {
    let place = Place::new(&["ignored-a"]);
    nix::unistd::mkfifo(&place.from().join("ignored-pipe"), Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(place.from().join("ignored-socket")).unwrap();
    let taken = place.take(&["ignored*"], &[], |_| {});
    assert_eq!(place.there(), ["ignored-a"]);
    let words: Vec<_> = taken.left_out.iter().map(|l| l.reason.to_string()).collect();
    assert_eq!(words, ["a pipe", "a socket"]);
}

#[test]
fn secrets_of_production_need_a_word() {
    let place = Place::new(&[".env.production", ".env"]);
    let taken = place.take(&[".env*"], &[], |_| {});
    assert_eq!(reasons(&taken), left_out(".env.production", Reason::Secret));
    assert_eq!(place.there(), [".env"]);
    place.take(&[".env*"], &[], |o| o.copy_secrets = true);
    assert_eq!(place.there(), [".env", ".env.production"]);
}

#[test]
fn what_looks_like_a_secret() {
    let secret = |name: &str| looks_like_production_secret(OsStr::new(name));
    for name in [
        ".env.production",
        ".env.production.local",
        ".env.prod-eu",
        ".env.prod",
        "a.production.env",
        ".ENV.PROD",
        "prod.env",
        ".env-production",
    ] {
        assert!(secret(name), "{name}");
    }
    for name in [
        ".env",
        ".env.local",
        ".env.development",
        ".env.production.example",
        ".env.prod.sample",
        "production.log",
        "production",
    ] {
        assert!(!secret(name), "{name}");
    }
}

#[test]
fn repositories_inside_are_not_entered() {
    let place = Place::new(&[
        "sub/.git",
        "sub/.env",
        "ignored/repo/.git/HEAD",
        "ignored/repo/.env",
        "ignored/.env",
        ".git/.env",
    ]);
    let taken = place.take(&[".env", "ignored/"], &[], |_| {});
    assert_eq!(place.there(), ["ignored/.env"]);
    assert_eq!(reasons(&taken), left_out("ignored/repo", Reason::Repository));
}

#[test]
fn a_worktree_below_the_checkout_is_not_copied_into_itself() {
    let mut place = Place::new(&[".env"]);
    let to = place.from().join("ignored/wt");
    fs::create_dir_all(&to).unwrap();
    place.to = to.clone();
    let taken = place.take(&[".env", "ignored/"], &["ignored"], |o| o.clone_fallback_copy = true);
    assert_eq!(taken.copied.len(), 1);
    assert!(!to.join("ignored/wt").exists());
}

#[test]
fn a_python_environment_named_env_is_no_env_file() {
    let place = Place::new(&[".env/pyvenv.cfg", ".env/bin/python"]);
    assert_eq!(reasons(&place.take(&[".env"], &[], |_| {})), left_out(".env", Reason::VirtualEnvironment));
    assert_eq!(reasons(&place.take(&[".env*"], &[], |_| {})), left_out(".env", Reason::NotNamed));
}

#[test]
fn names_that_are_not_utf8_survive_and_are_written_down() {
    let place = Place::new(&[]);
    let name = OsStr::from_bytes(b"ignored-\xff\n");
    fs::write(place.from().join(name), "x").unwrap();
    let taken = place.take(&["ignored*"], &[], |_| {});
    assert_eq!(fs::read(place.to().join(name)).unwrap(), b"x");
    let json = serde_json::to_string(&taken).unwrap();
    assert!(json.contains(r#"{"bytes":"69676e6f7265642dff0a"}"#), "{json}");
    assert_eq!(serde_json::from_str::<Taken>(&json).unwrap(), taken);
    assert!(serde_json::from_str::<RelPath>(r#"{"bytes":"0"}"#).is_err());
}

#[test]
fn a_manifest_tells_what_was_changed() {
    let place = Place::new(&[".env", "secrets/a"]);
    symlink("x", place.from().join("x.key")).unwrap();
    let taken = place.take(&[".env", "secrets/", "*.key"], &[], |_| {});
    let all = |wanted: [bool; 3]| {
        assert_eq!(taken.copied.iter().map(|e| unchanged(&place.to(), e)).collect::<Vec<_>>(), wanted);
    };
    all([true; 3]);
    fs::write(place.to().join(".env"), ".enW").unwrap();
    fs::rename(place.to().join("secrets"), place.to().join("s")).unwrap();
    symlink("s", place.to().join("secrets")).unwrap();
    fs::remove_file(place.to().join("x.key")).unwrap();
    symlink("y", place.to().join("x.key")).unwrap();
    all([false; 3]);
    let now = Entry::of(&place.to(), Path::new(".env")).unwrap();
    assert!(unchanged(&place.to(), &now) && now != taken.copied[0]);
    for path in ["../wt/.env", "/etc/passwd", "", "a\0b"] {
        assert!(!unchanged(&place.to(), &Entry { path: RelPath(path.into()), ..now.clone() }), "{path:?}");
    }
}

#[test]
fn unreadable_files_are_said_and_the_rest_is_taken() {
    let place = Place::new(&["ignored-a", "ignored-b"]);
    fs::set_permissions(place.from().join("ignored-a"), fs::Permissions::from_mode(0o000)).unwrap();
    let taken = place.take(&["ignored*"], &[], |_| {});
    // Root reads everything.
    if !nix::unistd::geteuid().is_root() {
        assert!(matches!(taken.left_out[0].reason, Reason::Unreadable(_)));
    }
    assert!(place.to().join("ignored-b").exists());
}

#[test]
fn a_wrong_pattern_is_an_error_before_anything_is_done() {
    let place = Place::new(&[".env"]);
    let (from, to, copy) = (place.from(), place.to(), [".env".to_owned(), "[".to_owned()]);
    let options = Options {
        from: &from,
        to: &to,
        ignored: &|_, _| true,
        copy: &copy,
        include_file: None,
        clone: &[],
        clone_fallback_copy: false,
        clone_limit: 0,
        copy_secrets: false,
    };
    assert!(take_along(&options).unwrap_err().to_string().starts_with("'[' in copy is not a pattern"));
    assert_eq!(place.there(), [] as [String; 0]);
}

#[test]
fn a_directory_is_cloned_or_not_at_all() {
    let place = Place::new(&["node_modules/a/x", "node_modules/b"]);
    let clone = ["node_modules/", "target"];
    let taken = place.take(&[], &clone, |_| {});
    if let [cloned] = &taken.cloned[..] {
        assert_eq!((cloned.files, cloned.copied, &taken.left_out[..]), (2, false, &[][..]));
        assert_eq!(place.there(), ["node_modules/a/x", "node_modules/b"]);
    } else {
        assert_eq!(reasons(&taken), left_out("node_modules", Reason::CannotClone));
        assert_eq!(fs::read_dir(place.to()).unwrap().count(), 0, "nothing incomplete stays");
    }
}

#[test]
fn a_directory_is_copied_where_that_is_insisted_on() {
    let place = Place::new(&["node_modules/a/x", "node_modules/ro/y", "node_modules/r/.git", "apps/node_modules/z"]);
    fs::set_permissions(place.from().join("node_modules/ro"), fs::Permissions::from_mode(0o555)).unwrap();
    symlink("../a/x", place.from().join("node_modules/link")).unwrap();
    let clone = ["node_modules", "apps/node_modules"];
    let taken = place.take(&["node_modules/a/x"], &clone, |o| o.clone_fallback_copy = true);
    assert_eq!(place.there(), ["apps/node_modules/z", "node_modules/a/x", "node_modules/link", "node_modules/ro/y"]);
    assert_eq!(fs::read_link(place.to().join("node_modules/link")).unwrap(), Path::new("../a/x"));
    assert_eq!(place.mode("node_modules/ro"), 0o555);
    assert_eq!(reasons(&taken), left_out("node_modules/r", Reason::Repository));
    assert_eq!((taken.cloned[0].files, taken.cloned[0].bytes, taken.copied.len()), (2, 33, 0));
    let time = |root: PathBuf| fs::metadata(root.join("node_modules/a")).unwrap().modified().unwrap();
    assert_eq!(time(place.from()), time(place.to()));
    let again = place.take(&[], &clone, |o| o.clone_fallback_copy = true);
    assert!(again.cloned.is_empty() && again.left_out.iter().all(|l| l.reason == Reason::Exists));
}

#[test]
fn a_directory_over_the_limit_is_not_copied() {
    let place = Place::new(&["node_modules/0123456789"]);
    let clone = ["node_modules"];
    let taken = place.take(&[], &clone, |o| (o.clone_fallback_copy, o.clone_limit) = (true, 10));
    if taken.cloned.is_empty() {
        assert_eq!(reasons(&taken), left_out("node_modules", Reason::TooLarge { bytes: 23, limit: 10 }));
        assert_eq!(place.there(), [] as [String; 0]);
    }
}

#[test]
fn what_cannot_be_cloned_is_said() {
    let place = Place::new(&["plain/x", "target"]);
    symlink("plain", place.from().join("node_modules")).unwrap();
    let clone = ["plain", "target", "node_modules", "../x", "/etc", ".git", ""];
    let taken = place.take(&[], &clone, |_| {});
    let got: Vec<_> = taken.left_out.iter().map(|l| l.reason.clone()).collect();
    let outside = || Reason::Outside;
    let wanted = [
        Reason::NotIgnored,
        Reason::NoDirectory { link: false },
        Reason::NoDirectory { link: true },
        outside(),
        outside(),
        outside(),
        outside(),
    ];
    assert_eq!(got, wanted);
    assert_eq!(place.there(), [] as [String; 0]);
}
