//! The end of what was removed: not before its time, not by a clock that jumps, never past a link; and what the capture
//! alone gives back afterwards.

use crate::remove::agent_with_commit;
use crate::support::{Before, Env, Repo, repo_invariants};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

/// The folders of the trash.
pub fn folders(repo: &Repo<'_>) -> Vec<PathBuf> {
    let top = repo.common_dir().join("agents/trash");
    std::fs::read_dir(top).into_iter().flatten().map(|e| e.unwrap().path()).collect()
}

fn time(days_ago: i64) -> String {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * days_ago);
    then.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()
}

/// Everything in the trash was removed so many days ago, its captures too.
pub fn backdate(repo: &Repo<'_>, days: i64) {
    let stamp = time(days);
    let label_time = stamp[..19].replace(['-', ':'], "").to_lowercase() + "z";
    for dir in folders(repo) {
        let file = dir.join("entry.json");
        let mut entry: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let label = dir.file_name().unwrap().to_str().unwrap().to_owned();
        let new = format!("{label_time}{}", &label[label.find('-').unwrap()..]);
        entry["at"] = stamp.clone().into();
        if let Some(old) = entry["capture"].as_str().map(str::to_owned) {
            let name = format!("refs/agents/removed/{new}");
            repo.git(&["update-ref", &name, &old]);
            if old != name {
                repo.git(&["update-ref", "-d", &old]);
            }
            entry["capture"] = name.into();
        }
        std::fs::write(&file, serde_json::to_vec(&entry).unwrap()).unwrap();
        std::fs::rename(&dir, dir.with_file_name(new)).unwrap();
    }
}

/// What was found due was found so two days ago, in another boot.
pub fn a_day_passes(repo: &Repo<'_>) {
    let file = repo.common_dir().join("agents/cache/due");
    let mut marks: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    marks["looked"] = time(2).into();
    for mark in marks["due"].as_object_mut().unwrap().values_mut() {
        mark["at"] = time(2).into();
        mark["boot"] = "another".into();
    }
    std::fs::write(&file, serde_json::to_vec(&marks).unwrap()).unwrap();
}

/// Its capture is all there is of what was removed.
pub fn to_the_capture(repo: &Repo<'_>) {
    backdate(repo, 20);
    repo.agents(&["clean"]).ok();
    a_day_passes(repo);
    repo.agents(&["clean"]).ok();
    assert!(folders(repo).is_empty());
}

#[test]
fn the_trash_was_emptied_by_a_clock_that_jumped() {
    let env = Env::new();
    let repo = env.repo("x");
    agent_with_commit(&repo, "k");
    repo.agents(&["rm", "k"]).ok();
    backdate(&repo, 13);
    repo.agents(&["clean"]).ok();
    a_day_passes(&repo);
    repo.agents(&["clean"]).ok();
    assert_eq!(folders(&repo).len(), 1, "before its time");
    backdate(&repo, 4000);
    let out = repo.agents(&["clean"]).ok();
    assert!(folders(&repo).len() == 1 && !out.stderr.contains("deleted"), "at the first look: {out}");
    repo.agents(&["clean"]).ok();
    assert_eq!(folders(&repo).len(), 1, "a moment later");
    // Ahead once, and now behind what it showed then.
    let file = repo.common_dir().join("agents/cache/due");
    a_day_passes(&repo);
    let text = std::fs::read_to_string(&file).unwrap();
    let mut marks: Value = serde_json::from_str(&text).unwrap();
    marks["looked"] = time(-300).into();
    std::fs::write(&file, marks.to_string()).unwrap();
    repo.agents(&["clean"]).ok();
    assert_eq!(folders(&repo).len(), 1, "by a clock that went back");
    repo.git(&["config", "agents.trashKeep", "off"]);
    std::fs::write(&file, &text).unwrap();
    repo.agents(&["clean"]).ok();
    assert_eq!(folders(&repo).len(), 1, "although it was to be kept");
    repo.git(&["config", "agents.trashKeep", "14d"]);
    std::fs::write(&file, &text).unwrap();
    let out = repo.agents(&["clean"]).ok();
    assert!(folders(&repo).is_empty() && out.stderr.contains("deleted from the trash"), "{out}");
    repo_invariants(&repo);
}

#[test]
fn deleting_for_good_followed_a_link_and_took_what_was_no_entry() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "k");
    let precious = env.root().join("precious");
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("file"), "mine").unwrap();
    symlink(&precious, at.join("ignored")).unwrap();
    at.write("read-only/sub/f", "x");
    std::fs::set_permissions(at.join("read-only/sub"), PermissionsExt::from_mode(0o500)).unwrap();
    agent_with_commit(&repo, "damaged");
    for name in ["k", "damaged"] {
        repo.agents(&["rm", name]).ok();
    }
    backdate(&repo, 4000);
    let damaged = folders(&repo).into_iter().find(|d| d.to_string_lossy().contains("damaged")).unwrap();
    std::fs::write(damaged.join("entry.json"), "{").unwrap();
    let foreign = repo.common_dir().join("agents/trash/somebody-elses");
    std::fs::create_dir(&foreign).unwrap();
    repo.agents(&["clean"]).ok();
    a_day_passes(&repo);
    repo.agents(&["clean"]).ok();
    assert_eq!(std::fs::read_to_string(precious.join("file")).unwrap(), "mine");
    let mut left = folders(&repo);
    left.sort();
    assert_eq!(left, [damaged, foreign]);
    assert_eq!(std::fs::read_dir(repo.common_dir().join("agents/sterile")).unwrap().count(), 0);
}

#[test]
fn after_its_time_in_the_trash_all_of_it_was_lost() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.captureMaxFile", "100kB"]);
    repo.write(".gitattributes", "*.crlf text eol=crlf\n");
    repo.write("t.crlf", "one\ntwo\n");
    repo.commit("endings");
    let at = agent_with_commit(&repo, "k");
    let tip = at.tip("HEAD");
    at.write("src/a.txt", "staged\n");
    at.git(&["add", "src/a.txt"]);
    at.write("src/a.txt", "staged, and changed\r\n");
    at.git(&["rm", "--quiet", "--cached", "src/b.txt"]);
    std::fs::remove_file(at.join("README.md")).unwrap();
    at.write("untracked/deep.bin", [0, 159, 255]);
    at.write("run.sh", "#!/bin/sh\n");
    std::fs::set_permissions(at.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    at.write("key.pem", "s3cret");
    std::fs::set_permissions(at.join("key.pem"), PermissionsExt::from_mode(0o600)).unwrap();
    symlink("src/a.txt", at.join("link")).unwrap();
    at.write("ignored/cache", "gone then");
    at.write("large.bin", vec![7; 200_000]);
    let state = |at: &Repo<'_>| {
        let mut tree = crate::support::tree_state(at.path());
        tree.retain(|p, _| !p.starts_with(b"ignored") && p != b"large.bin" && p != b".git");
        let status = at.git(&["status", "--porcelain=v2", "--branch", "--untracked-files=all"]);
        let status: Vec<String> = status.lines().filter(|l| !l.contains("large.bin")).map(str::to_owned).collect();
        (tree, status, at.git(&["ls-files", "--stage"]))
    };
    let before = state(&at);
    let held = Before::of(&repo);
    repo.agents(&["rm", "-D", "k"]).ok();
    to_the_capture(&repo);
    let list = repo.agents(&["restore", "--list", "--json"]).ok().json();
    assert_eq!((&list["removed"][0]["name"], &list["removed"][0]["kept_as"]), (&"k".into(), &"capture".into()));
    assert!(list["removed"][0]["age_s"].is_u64());
    repo.git(&["gc", "--quiet", "--prune=now"]);
    let out = repo.agents(&["restore", "k"]).ok();
    for word in ["ignored files", "large.bin (larger than", "its time in the trash was over"] {
        assert!(out.stderr.contains(word), "{word}: {out}");
    }
    assert_eq!(repo.tip("k"), tip);
    let after = state(&at);
    crate::support::assert_same_tree(&before.0, &after.0);
    assert_eq!((before.1, before.2), (after.1, after.2));
    held.still_holds(&repo);
    assert!(repo.agents(&["restore", "--list"]).ok().stdout.contains("nothing was removed"));
}

#[test]
fn one_that_was_removed_twice_was_listed_twice() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "k");
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["restore", "k"]).ok();
    let listed = || repo.agents(&["restore", "--list", "--json"]).ok().json()["removed"].as_array().unwrap().len();
    assert_eq!(listed(), 0);
    at.write("second.txt", "second");
    repo.agents(&["rm", "k"]).ok();
    assert_eq!(listed(), 1);
    to_the_capture(&repo);
    assert_eq!(listed(), 1);
    repo.agents(&["restore", "k"]).ok();
    assert!(at.join("second.txt").exists(), "the last one counts");
}

#[test]
fn a_conflict_came_back_from_its_capture_as_resolved() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("src/b.txt", "one\nmine\nthree\n");
    at.commit("mine");
    repo.write("src/b.txt", "one\ntheirs\nthree\n");
    repo.commit("theirs");
    at.try_git(&["merge", "main"]);
    at.write("other.txt", "staged");
    at.git(&["add", "other.txt"]);
    let before = (at.git(&["ls-files", "--stage"]), at.read("src/b.txt"));
    repo.agents(&["rm", "--force", "k"]).ok();
    to_the_capture(&repo);
    let out = repo.agents(&["restore", "k"]).ok();
    assert!(out.stderr.contains("an operation in progress"), "{out}");
    assert_eq!(before, (at.git(&["ls-files", "--stage"]), at.read("src/b.txt")));
}

#[test]
fn captures_were_kept_for_ever_or_went_before_their_entry() {
    let env = Env::new();
    let repo = env.repo("x");
    agent_with_commit(&repo, "k");
    repo.agents(&["rm", "k"]).ok();
    repo.git(&["config", "agents.trashKeep", "off"]);
    let captures = || repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed", "refs/agents/auto"]);
    let look = || {
        repo.agents(&["clean"]).ok();
        a_day_passes(&repo);
        repo.agents(&["clean"]).ok()
    };
    backdate(&repo, 40);
    look();
    assert_eq!(captures().lines().count(), 1, "its entry is there");
    repo.git(&["config", "agents.trashKeep", "14d"]);
    look();
    let out = look();
    assert!(captures().is_empty(), "{}\n{out}", captures());
    // Of runs: the last five of who is there; thirty days of who is gone.
    let here = agent_with_commit(&repo, "here");
    let id = repo.status_of("here")["id"].as_str().unwrap().to_owned();
    for n in 1..=8 {
        repo.git(&["update-ref", &format!("refs/agents/auto/{id}/{n}"), &here.tip("HEAD")]);
    }
    let old = repo.tip("main~2");
    repo.git(&["update-ref", &format!("refs/agents/auto/{}/1", "0".repeat(40)), &old]);
    look();
    let left = captures();
    assert_eq!(left.lines().count(), 5, "{left}");
    assert!(!left.contains("/3\n") && left.contains(&format!("{id}/4")), "{left}");
}

#[test]
fn a_full_trash_loses_first_what_tools_make_again() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".gitignore", "node_modules/\n.env\n");
    repo.commit("ignore");
    let at = agent_with_commit(&repo, "k");
    at.write("node_modules/a.js", "x".repeat(50_000));
    at.write("kept/node_modules/own.js", "committed");
    at.git(&["add", "-f", "kept"]);
    at.git(&["commit", "--quiet", "-m", "own"]);
    at.write(".env", "SECRET=1");
    repo.agents(&["rm", "k"]).ok();
    repo.agents(&["clean"]).ok();
    let tree = folders(&repo)[0].join("tree");
    assert!(tree.join("node_modules").exists());
    repo.git(&["config", "agents.trashRoom", "10kB"]);
    let out = repo.agents(&["clean"]).ok();
    assert!(out.stderr.contains("the trash was full"), "{out}");
    assert!(
        !tree.join("node_modules").exists()
            && tree.join(".env").exists()
            && tree.join("kept/node_modules/own.js").exists()
    );
    let out = repo.agents(&["restore", "k"]).ok();
    assert!(out.stderr.contains("for its tools to make again: node_modules"), "{out}");
}

#[test]
fn a_file_too_large_for_the_capture_was_taken_for_what_tools_make_again() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.captureMaxFile", "10kB"]);
    let at = agent_with_commit(&repo, "k");
    // Ignored by nobody.
    at.write("node_modules/mine.bin", "x".repeat(50_000));
    repo.agents(&["rm", "k"]).ok();
    repo.git(&["config", "agents.trashRoom", "10kB"]);
    repo.agents(&["clean"]).ok();
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(at.read("node_modules/mine.bin").len(), 50_000);
}

#[test]
fn a_command_that_writes_looks_at_what_is_old_and_no_other_does() {
    let env = Env::new();
    let repo = env.repo("x");
    agent_with_commit(&repo, "k");
    repo.agents(&["rm", "k"]).ok();
    backdate(&repo, 40);
    repo.agents(&["status"]).ok();
    assert!(!repo.common_dir().join("agents/cache/due").exists());
    repo.agents(&["new", "other"]).ok();
    env.until("it was looked at", || repo.common_dir().join("agents/cache/due").exists());
    env.until("the worker is done", || env.processes().is_empty());
    a_day_passes(&repo);
    repo.agents(&["rm", "other"]).ok();
    env.until("it is gone", || folders(&repo).len() == 1);
    env.until("the worker is done", || env.processes().is_empty());
}
