//! Approvals on a real file system, in a directory of the test's own.

use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

const FILE: &str = "git-agents/approvals.json";

fn state() -> (tempfile::TempDir, UserState) {
    let dir = tempfile::tempdir().unwrap();
    let state = UserState::at(dir.path().join("git-agents"));
    (dir, state)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn put(path: &Path, text: &str, mode: u32) {
    let mut file = std::fs::OpenOptions::new().create(true).truncate(true).write(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Approvals {
    /// Whether exactly this was approved in this repository.
    fn contains(&self, repo_identity: &str, digest: &str) -> bool {
        self.all(repo_identity).iter().any(|one| one.digest == digest)
    }
}

#[test]
fn approvals_survive_and_are_the_users_alone() {
    let (dir, state) = state();
    Approvals::approve(&state, "/a/.git 1:2", "d1", "text 1").unwrap();
    Approvals::approve(&state, "/a/.git 1:2", "d2", "text 2").unwrap();
    Approvals::approve(&state, "/b/.git 1:3", "d3", "text 3").unwrap();
    let again = Approvals::load(&UserState::at(state.path())).unwrap();
    assert_eq!(again.find("/a/.git 1:2").map(|e| (e.digest.as_str(), e.items.as_str())), Some(("d2", "text 2")));
    assert!(again.find("/a/.git 1:2").unwrap().at.parse::<jiff::Timestamp>().is_ok());
    assert!(again.contains("/a/.git 1:2", "d1") && again.contains("/b/.git 1:3", "d3"));
    assert!(!again.contains("/b/.git 1:3", "d1"), "an approval of another repository");
    assert_eq!(mode(state.path()), 0o700);
    assert_eq!(mode(&dir.path().join(FILE)), 0o600);
    let names: Vec<_> = std::fs::read_dir(state.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the file and its lock: {names:?}");
}

#[test]
fn looking_makes_nothing() {
    let (_dir, state) = state();
    assert_eq!(Approvals::load(&state).unwrap(), Approvals::default());
    assert_eq!(Approvals::revoke(&state, "repo").unwrap(), Approvals::default());
    assert!(!state.path().exists());
}

#[test]
fn revoking_forgets_one_repository() {
    let (_dir, state) = state();
    Approvals::approve(&state, "a", "d1", "").unwrap();
    Approvals::approve(&state, "a", "d2", "").unwrap();
    Approvals::approve(&state, "b", "d1", "").unwrap();
    Approvals::revoke(&state, "a").unwrap();
    let left = Approvals::load(&state).unwrap();
    assert!(left.find("a").is_none() && !left.contains("a", "d1") && left.contains("b", "d1"));
}

#[test]
fn the_last_approvals_of_a_repository_are_kept() {
    let (_dir, state) = state();
    for n in 0..KEPT + 3 {
        Approvals::approve(&state, "a", &format!("d{n}"), "").unwrap();
    }
    let all = Approvals::approve(&state, "a", "d5", "again").unwrap();
    assert!(!all.contains("a", "d2") && all.contains("a", "d4"));
    assert_eq!(all.find("a").map(|e| e.items.as_str()), Some("again"));
    assert_eq!(all.repositories["a"].len(), KEPT);
}

#[test]
fn a_linked_directory_is_refused() {
    let (dir, state) = state();
    let elsewhere = dir.path().join("elsewhere");
    DirBuilder::new().mode(0o700).create(&elsewhere).unwrap();
    symlink(&elsewhere, state.path()).unwrap();
    for result in [Approvals::load(&state), Approvals::approve(&state, "a", "d", "")] {
        let e = result.unwrap_err().to_string();
        assert!(e.ends_with("is a symbolic link, not a directory"), "{e}");
    }
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    std::fs::remove_file(state.path()).unwrap();
    put(state.path(), "", 0o600);
    let e = Approvals::approve(&state, "a", "d", "").unwrap_err().to_string();
    assert!(e.ends_with("is not a directory"), "{e}");
}

#[test]
fn a_directory_others_can_enter_is_refused() {
    let (_dir, state) = state();
    Approvals::approve(&state, "a", "d", "").unwrap();
    for bits in [0o755, 0o770, 0o702] {
        std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(bits)).unwrap();
        let e = Approvals::load(&state).unwrap_err();
        assert!(matches!(e, Error::Open { mode, .. } if mode == bits), "{e}");
        assert!(e.hint().unwrap().contains("chmod 700"));
    }
}

#[test]
fn a_file_others_can_read_or_write_is_refused_and_stays() {
    let (dir, state) = state();
    Approvals::approve(&state, "a", "d", "").unwrap();
    let path = dir.path().join(FILE);
    for bits in [0o644, 0o660, 0o602] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(bits)).unwrap();
        let before = std::fs::read(&path).unwrap();
        for result in
            [Approvals::load(&state), Approvals::approve(&state, "a", "e", ""), Approvals::revoke(&state, "a")]
        {
            let e = result.unwrap_err();
            assert!(e.to_string().contains(&format!("is open to others (mode {bits:04o})")), "{e}");
            assert!(e.hint().unwrap().contains("chmod 600"));
        }
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    std::fs::remove_file(&path).unwrap();
    put(&dir.path().join("git-agents/approvals.lock"), "", 0o666);
    assert!(matches!(Approvals::approve(&state, "a", "d", ""), Err(Error::Open { .. })));
}

#[test]
fn a_linked_file_is_refused_and_its_target_untouched() {
    let (dir, state) = state();
    Approvals::approve(&state, "a", "d", "").unwrap();
    let path = dir.path().join(FILE);
    let target = dir.path().join("target");
    std::fs::rename(&path, &target).unwrap();
    let before = std::fs::read(&target).unwrap();
    symlink(&target, &path).unwrap();
    for result in [Approvals::load(&state), Approvals::approve(&state, "a", "e", "")] {
        let e = result.unwrap_err().to_string();
        assert!(e.ends_with("is a symbolic link, not a file"), "{e}");
    }
    assert_eq!(std::fs::read(&target).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let e = Approvals::load(&state).unwrap_err().to_string();
    assert!(e.ends_with("is not a regular file"), "{e}");
}

#[test]
fn a_link_in_place_of_what_a_crash_left_is_replaced_not_followed() {
    let (dir, state) = state();
    Approvals::approve(&state, "a", "d", "").unwrap();
    let target = dir.path().join("target");
    put(&target, "precious", 0o600);
    symlink(&target, dir.path().join("git-agents").join(NEXT)).unwrap();
    Approvals::approve(&state, "a", "e", "").unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    assert!(Approvals::load(&state).unwrap().contains("a", "e"));
}

#[test]
fn a_damaged_file_is_named_and_never_emptied() {
    let (dir, state) = state();
    Approvals::approve(&state, "a", "d", "").unwrap();
    let path = dir.path().join(FILE);
    for text in [
        "",
        "{",
        "[]",
        "null",
        "{}",
        r#"{"version":"1","repositories":{}}"#,
        r#"{"version":1}"#,
        r#"{"version":1,"repositories":[]}"#,
        r#"{"version":1,"repositories":{"a":7}}"#,
        r#"{"version":1,"repositories":{"a":{"approved":[{"digest":1}]}}}"#,
        r#"{"version":1,"repositories":{"b":{"approved":{}}}}"#,
    ] {
        put(&path, text, 0o600);
        for result in
            [Approvals::load(&state), Approvals::approve(&state, "a", "e", ""), Approvals::revoke(&state, "a")]
        {
            let e = result.expect_err(text);
            assert!(matches!(e, Error::Damaged { .. }), "{text}: {e}");
            assert!(e.to_string().contains("approvals.json") && e.hint().is_some());
        }
        assert_eq!(std::fs::read(&path).unwrap(), text.as_bytes());
    }
    put(&path, r#"{"version":2,"repositories":{}}"#, 0o600);
    assert!(matches!(Approvals::approve(&state, "a", "e", ""), Err(Error::Later { .. })));
}

#[test]
fn what_a_later_version_added_is_kept() {
    let (dir, state) = state();
    Approvals::approve(&state, "a", "d", "").unwrap();
    let path = dir.path().join(FILE);
    let text = r#"{"version":1,"new":{"x":[1]},"repositories":{"b":{"approved":[{"digest":"q","items":"","at":"t","by":"me"}],"note":"n"}}}"#;
    put(&path, text, 0o600);
    Approvals::approve(&state, "b", "e", "").unwrap();
    Approvals::approve(&state, "a", "e", "").unwrap();
    let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(document["new"]["x"][0], 1);
    assert_eq!(document["repositories"]["b"]["note"], "n");
    assert_eq!(document["repositories"]["b"]["approved"][0]["by"], "me");
    assert_eq!(document["repositories"]["b"]["approved"][1]["digest"], "e");
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let (_dir, state) = state();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let state = &state;
            scope.spawn(move || {
                for n in 0..8 {
                    Approvals::approve(state, &format!("repo {n}"), &format!("d{writer}"), "").unwrap();
                    // A reader in between sees a whole file.
                    assert!(Approvals::load(state).unwrap().contains(&format!("repo {n}"), &format!("d{writer}")));
                }
            });
        }
    });
    let all = Approvals::load(&state).unwrap();
    for writer in 0..4 {
        for n in 0..8 {
            assert!(all.contains(&format!("repo {n}"), &format!("d{writer}")), "{writer} {n}");
        }
    }
}

#[test]
fn the_environment_says_where() {
    let from = |xdg: Option<&str>, home: Option<&str>| {
        let state = UserState::from_env(|name| match name {
            "XDG_STATE_HOME" => xdg.map(PathBuf::from),
            "HOME" => home.map(PathBuf::from),
            _ => None,
        });
        state.map(|s| s.path).map_err(|e| e.to_string())
    };
    assert_eq!(from(Some("/x"), None), Ok(PathBuf::from("/x/git-agents")));
    assert_eq!(from(None, Some("/h")), Ok(PathBuf::from("/h/.local/state/git-agents")));
    assert_eq!(from(Some("rel"), Some("/h")), Ok(PathBuf::from("/h/.local/state/git-agents")));
    assert_eq!(from(Some(""), Some("")), Err("HOME is not set, so there is no place for approvals".to_owned()));
    assert_eq!(from(None, Some("home")), Err("HOME is not a full path, so there is no place for approvals".to_owned()));
    let e = Approvals::load(&UserState::at("relative")).unwrap_err();
    assert_eq!(e.to_string(), "'relative' is not a full path");
}
