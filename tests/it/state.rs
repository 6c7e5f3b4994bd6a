//! What is kept in a repository, and what it survives: other writers, git's own tidying, damage, moves and copies.

use crate::support::env::run;
use crate::support::{Before, Env, Out, Repo, assert_same_tree, repo_invariants, tree_state};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

pub fn agents(repo: &Repo<'_>) -> BTreeMap<String, Value> {
    let all = repo.status();
    all["agents"].as_array().unwrap().iter().map(|a| (a["name"].as_str().unwrap().to_owned(), a.clone())).collect()
}

/// Runs one task of the scripted assistant to its end; the agent's name.
#[track_caller]
fn run_task(repo: &Repo<'_>, task: &str) -> String {
    let before: BTreeSet<String> = agents(repo).into_keys().collect();
    repo.agents(&["run", "-a", "scripted", task]).ok();
    agents(repo).into_keys().find(|n| !before.contains(n)).unwrap()
}

/// What of an agent's answer must survive the loss of everything expendable.
fn records(a: &Value) -> Value {
    let run = &a["run"];
    serde_json::json!({
        "state": run["state"], "attempt": run["attempt"], "session": run["session"], "cost": run["cost_usd"],
        "started": run["started"], "ended": run["ended"], "code": run["exit_code"], "reason": run["reason"],
        "branch": a["branch_state"], "ahead": a["ahead"], "dirty": a["dirty"], "title": a["title"], "zombie": a["zombie"],
    })
}

/// Every line of the journal.
fn events(repo: &Repo<'_>) -> Vec<Value> {
    let list = repo.try_git(&["notes", "--ref=agents-journal", "list"]);
    let blobs: Vec<String> = list.stdout.lines().map(|l| l.split(' ').next().unwrap().to_owned()).collect();
    let lines = |b: &String| repo.git(&["cat-file", "blob", b]).lines().map(str::to_owned).collect::<Vec<_>>();
    blobs.iter().flat_map(lines).map(|l| serde_json::from_str(&l).unwrap()).collect()
}

fn ids(events: &[Value]) -> BTreeSet<String> {
    events.iter().map(|e| e["id"].as_str().unwrap().to_owned()).collect()
}

mod parallel {
    use super::*;

    /// `count` new agents at once, of names that `name` gives.
    fn race(env: &Env, repo: &Repo<'_>, count: usize, name: impl Fn(usize) -> String) -> Vec<Out> {
        let started: Vec<_> = (0..count).map(|i| repo.spawn(&["new", &name(i)])).collect();
        started.into_iter().map(|b| b.finish(env)).collect()
    }

    fn distinct(count: usize) {
        let env = Env::new();
        let repo = env.repo("x");
        let before = Before::of(&repo);
        // Someone else writes settings all the while.
        let stop = env.root().join("stop");
        let script = env.script(
            "config-writer",
            "#!/bin/sh\ni=0\nwhile [ ! -e \"$1\" ]; do i=$((i+1)); git config other.key $i; done\n",
        );
        let mut command = env.command(&script, repo.path());
        command.arg(&stop);
        let writer = crate::support::env::Background::start(&env, command);
        for out in race(&env, &repo, count, |i| format!("a{i}")) {
            out.ok();
        }
        std::fs::write(&stop, "").unwrap();
        writer.finish(&env);
        let _ = repo.try_git(&["config", "--unset-all", "other.key"]);
        let _ = repo.try_git(&["config", "--remove-section", "other"]);
        let all = agents(&repo);
        assert_eq!(all.len(), count);
        for a in all.values() {
            assert_eq!(
                (&a["zombie"], &a["findings"], &a["locked"]),
                (&Value::Null, &serde_json::json!([]), &Value::Null)
            );
            assert!(Path::new(a["worktree"].as_str().unwrap()).join("src/a.txt").exists());
        }
        let created = events(&repo).iter().filter(|e| e["kind"] == "created").count();
        assert_eq!(created, count, "every acknowledged event is there");
        before.still_holds(&repo);
    }

    fn same(count: usize) {
        let env = Env::new();
        let repo = env.repo("x");
        let outs = race(&env, &repo, count, |_| "same".into());
        let won: Vec<&Out> = outs.iter().filter(|o| o.status == 0).collect();
        assert_eq!(won.len(), 1, "{outs:#?}");
        for o in outs.iter().filter(|o| o.status != 0) {
            assert!(o.status == 128 && o.stderr.contains("exist"), "{o}");
        }
        let at = Repo::at(&env, won[0].stdout.trim_end());
        assert_eq!(at.git(&["status", "--porcelain"]), "");
        assert_eq!(
            repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads"]),
            "refs/heads/main\nrefs/heads/same"
        );
        assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 2);
        assert_eq!(repo.git(&["for-each-ref", "refs/agents/task"]).lines().count(), 1);
        repo_invariants(&repo);
    }

    #[test]
    fn starts_failed_on_the_lock_of_the_configuration() {
        distinct(20);
    }

    #[test]
    fn the_loser_of_a_race_removed_the_winners_directory() {
        same(12);
    }

    #[test]
    #[ignore = "nightly"]
    fn nightly_fifty_at_once() {
        for _ in 0..5 {
            distinct(50);
            same(50);
        }
        eprintln!("5 rounds of 50 distinct names: all made; 5 rounds of 50 equal names: one winner each");
    }

    #[test]
    fn creating_removing_and_restoring_at_once() {
        let env = Env::new();
        let repo = env.repo("x");
        for i in 0..6 {
            repo.agent(&format!("old{i}")).write("f.txt", "x\n");
        }
        let mut started = Vec::new();
        for i in 0..6 {
            started.push(repo.spawn(&["rm", &format!("old{i}")]));
            started.push(repo.spawn(&["new", &format!("new{i}")]));
            started.push(repo.spawn(&["status", "--json"]));
        }
        for b in started {
            b.finish(&env).ok();
        }
        let started: Vec<_> = (0..6).map(|i| repo.spawn(&["restore", &format!("old{i}")])).collect();
        for b in started {
            b.finish(&env).ok();
        }
        assert_eq!(agents(&repo).len(), 12);
        let (removed, restored) = events(&repo).iter().fold((0, 0), |(a, b), e| {
            (a + usize::from(e["kind"] == "removed"), b + usize::from(e["kind"] == "restored"))
        });
        assert_eq!((removed, restored), (6, 6));
        repo_invariants(&repo);
    }
}

mod journal {
    use super::*;

    #[test]
    fn without_its_records_every_tree_was_an_orphan_to_be_deleted() {
        let env = Env::new();
        let repo = env.repo("x");
        let name = run_task(&repo, "WRITE: made.txt: x\nSESSION: s-1\nCOMMIT: Made\nSAY: all done\nWRITE: left.txt: y");
        repo.agent("quiet").write("work.txt", "x\n");
        let before = agents(&repo);
        let places = tree_state(&env.root().join("code/x.agents"));
        let all = ids(&events(&repo));
        let blob = repo.git(&["rev-parse", "HEAD:README.md"]);
        let older = repo.git(&["commit-tree", "HEAD^{tree}", "-m", "not a journal"]);
        let reference = repo.join(".git/refs/notes/agents-journal");
        let damage: [(&str, &dyn Fn()); 6] = [
            ("deleted", &|| drop(repo.git(&["update-ref", "-d", "refs/notes/agents-journal"]))),
            ("a blob", &|| std::fs::write(&reference, format!("{blob}\n")).unwrap()),
            ("another commit", &|| std::fs::write(&reference, format!("{older}\n")).unwrap()),
            ("an object that is missing", &|| std::fs::write(&reference, format!("{}\n", "1".repeat(40))).unwrap()),
            ("garbage", &|| std::fs::write(&reference, "{\"por").unwrap()),
            ("empty", &|| std::fs::write(&reference, "").unwrap()),
        ];
        for (what, damage) in damage {
            damage();
            let now = agents(&repo);
            assert_eq!(now.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>(), "{what}");
            for (name, a) in &now {
                assert_eq!(records(a), records(&before[name]), "{what}");
            }
            // Rebuilt, and nothing is removed for it.
            repo.repair();
            assert_same_tree(&places, &tree_state(&env.root().join("code/x.agents")));
            let rebuilt = events(&repo);
            let kinds = |k: &str| rebuilt.iter().filter(|e| e["kind"] == k).count();
            assert_eq!((kinds("created"), kinds("exited")), (2, 1), "{what}: {rebuilt:#?}");
            repo.repair();
            assert_eq!(ids(&events(&repo)), ids(&rebuilt), "{what}: rebuilding again changes nothing");
            assert_eq!(records(&agents(&repo)[&name]), records(&before[&name]), "{what}");
            repo_invariants(&repo);
        }
        assert!(ids(&events(&repo)).intersection(&all).count() >= 1, "the end of the run has the id it had");
    }

    #[test]
    fn rewound_to_an_earlier_state() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("one");
        let early = repo.git(&["rev-parse", "refs/notes/agents-journal"]);
        repo.agent("two");
        repo.git(&["update-ref", "refs/notes/agents-journal", &early]);
        assert_eq!(agents(&repo).len(), 2);
        repo.repair();
        let created: BTreeSet<String> = events(&repo).iter().map(|e| e["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(created, ["one", "two"].map(str::to_owned).into());
    }

    #[test]
    fn a_damaged_line_took_the_others_with_it() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("k");
        let id = repo.git(&["config", "agent.k.id"]);
        let mut note = repo.git(&["notes", "--ref=agents-journal", "show", &id]).into_bytes();
        let unknown = format!(r#"{{"at":"2030-01-01T00:00:00Z","id":"f1","agent":"{id}","kind":"teleported","v":9}}"#);
        note.extend([b"\n{\"por\n\0\xff\r\n".as_slice(), unknown.as_bytes(), b"\nlast"].concat());
        let write = |bytes: &[u8]| {
            std::fs::write(env.root().join("note"), bytes).unwrap();
            let blob = repo.git(&["hash-object", "-w", env.root().join("note").to_str().unwrap()]);
            repo.git(&["notes", "--ref=agents-journal", "add", "-f", "-C", &blob, &id]);
        };
        write(&note);
        assert_eq!(agents(&repo)["k"]["findings"], serde_json::json!([]));
        repo.agents(&["rm", "k"]).ok();
        repo.agents(&["restore", "k"]).ok();
        let mut command = env.command("git", repo.path());
        command.args(["notes", "--ref=agents-journal", "show", &id]);
        let now = run(command, b"").ok().bytes;
        assert!(now.starts_with(&note), "every byte that was there is kept");
        let text = String::from_utf8_lossy(&now[note.len()..]).into_owned();
        assert!(text.contains("\"removed\"") && text.contains("\"restored\""), "{text}");
    }

    #[test]
    fn it_was_not_found_after_refs_were_packed() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("one");
        let first = ids(&events(&repo));
        for round in 0..3 {
            repo.git(&["pack-refs", "--all", "--prune"]);
            repo.git(&["gc", "--quiet", "--prune=now"]);
            assert!(!repo.join(".git/refs/notes/agents-journal").exists(), "the set-up is as meant");
            let at = repo.agent(&format!("again{round}"));
            at.write("f.txt", "x\n");
            assert_eq!(agents(&repo).len(), 2 + round);
            assert!(first.is_subset(&ids(&events(&repo))));
        }
        repo.git(&["pack-refs", "--all", "--prune"]);
        repo.agents(&["rm", "again1"]).ok();
        repo.git(&["pack-refs", "--all", "--prune"]);
        repo.git(&["gc", "--quiet", "--prune=now"]);
        repo.agents(&["restore", "again1"]).ok();
        repo_invariants(&repo);
    }

    #[test]
    fn it_is_not_shown_and_does_not_travel() {
        let env = Env::new();
        let repo = env.repo("x");
        let name = run_task(&repo, "WRITE: made.txt: x\nCOMMIT: Made");
        let branch = agents(&repo)[&name]["branch"].as_str().unwrap().to_owned();
        let log = repo.git(&["log", "--all", "--format=%s%n%N", "--branches"]);
        assert!(!log.contains("\"kind\"") && !log.contains("[scripted"), "{log}");
        let asked = repo.git(&["log", "-1", "--notes=agents", "--format=%N", &branch]);
        assert!(asked.contains(&name) && asked.contains("scripted"), "{asked}");
        let root = env.root().display().to_string();
        for e in events(&repo) {
            let text = e.to_string();
            assert!(!text.contains(&root) && e.get("pid").is_none() && e.get("port").is_none(), "{text}");
        }
        repo.git(&["clone", "--quiet", ".", "../clone"]);
        let clone = Repo::at(&env, env.root().join("code/clone"));
        assert_eq!(clone.git(&["for-each-ref", "refs/notes", "refs/agents"]), "");
        assert_eq!(clone.status()["agents"], serde_json::json!([]));
        // The README's words about '--all' and mirrors.
        let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
        let args = ["log", "--exclude=refs/agents/*", "--exclude=refs/notes/agents*", "--all", "--format=%H"];
        let quoted = "git log --exclude='refs/agents/*' --exclude='refs/notes/agents*' --all";
        assert!(readme.contains(quoted) && readme.contains("uploadpack.hideRefs refs/agents"));
        repo.agents(&["rm", &name]).ok();
        assert_eq!(repo.git(&args), repo.git(&["log", "--branches", "--format=%H"]));
        assert!(repo.git(&["log", "--all", "--format=%H"]).lines().count() > repo.git(&args).lines().count());
        repo.git(&["config", "uploadpack.hideRefs", "refs/agents"]);
        let hidden = repo.git(&["ls-remote", "."]);
        repo.git(&["config", "--unset", "uploadpack.hideRefs"]);
        assert!(!hidden.contains("refs/agents/") && repo.git(&["ls-remote", "."]).contains("refs/agents/removed/"));
        repo.agents(&["restore", &name]).ok();
        // A mirror has them: for display, and no agent is made of it.
        repo.git(&["clone", "--quiet", "--mirror", ".", "../mirror.git"]);
        let mirror = Repo::at(&env, env.root().join("code/mirror.git"));
        assert_eq!(mirror.status()["agents"], serde_json::json!([]));
    }
}

mod expendable {
    use super::*;

    #[test]
    fn state_was_lost_with_folders_that_are_expendable() {
        let env = Env::new();
        let repo = env.repo("x");
        let done = run_task(
            &repo,
            "WRITE: made.txt: x\nSESSION: s-42\nUSAGE: 0.25 1000\nCOMMIT: Made\nSAY: it is all done\nWRITE: left.txt: y",
        );
        repo.agents(&["run", "-a", "scripted", "SAY: no\nFAIL: could not"]).code(1);
        repo.agent("plain");
        let before = agents(&repo);
        let report = repo.agents(&["report", "--all", "--json"]).json();
        let show = repo.agents(&["show", &done, "--json"]).ok().json();
        for dir in ["run", "slots", "cache", "sterile", "incoming"] {
            let _ = std::fs::remove_dir_all(repo.join(".git/agents").join(dir));
        }
        for _ in 0..2 {
            let after = agents(&repo);
            assert_eq!(after.len(), 3);
            for (name, a) in &after {
                assert_eq!(records(a), records(&before[name]), "{name}");
            }
            let now = repo.agents(&["report", "--all", "--json"]).json();
            let of = |r: &Value| {
                let all = r["agents"].as_array().unwrap().clone();
                all.iter()
                    .map(|a| {
                        let keys =
                            ["verdict", "reasons", "claim", "commits", "files", "duration_s", "attempts", "cost_usd"];
                        keys.map(|k| a[k].clone()).to_vec()
                    })
                    .collect::<Vec<_>>()
            };
            assert_eq!(of(&now), of(&report));
            let shown = repo.agents(&["show", &done, "--json"]).ok().json();
            assert_eq!(records(&shown["agents"][0]), records(&show["agents"][0]));
            repo.repair();
        }
        // And it goes on from there.
        repo.agents(&["retry", &done]).ok();
        repo.agents(&["wait", &done]).ok();
        assert_eq!(agents(&repo)[&done]["run"]["attempt"], before[&done]["run"]["attempt"].as_u64().unwrap() + 1);
    }
}

mod registration {
    use super::*;

    #[test]
    fn one_damaged_registration_hid_all_others() {
        let env = Env::new();
        let repo = env.repo("x");
        let (good, bad) = (repo.agent("good"), repo.agent("bad"));
        bad.write("work.txt", "x\n");
        let tree = tree_state(bad.path());
        for (key, value) in [("id", "{\"por"), ("branch", "main"), ("fork", "zz")] {
            let was = repo.git(&["config", &format!("agent.bad.{key}")]);
            repo.git(&["config", &format!("agent.bad.{key}"), value]);
            let all = repo.status();
            assert_eq!(all["agents"][0]["name"], "good");
            assert_eq!(all["agents"][0]["findings"], serde_json::json!([]));
            let text = repo.agents(&["status"]).ok();
            assert!(format!("{}{}", text.stdout, text.stderr).contains("bad"), "it is not said\n{text}");
            let out = repo.agents(&["rm", "-D", "--force", "bad"]);
            assert_eq!(out.status, 128, "{out}");
            assert_same_tree(&tree, &tree_state(bad.path()));
            repo.agents(&["new", "bad"]).code(128);
            repo.git(&["config", &format!("agent.bad.{key}"), &was]);
        }
        assert_eq!(agents(&repo).len(), 2);
        repo.agents(&["rm", "good"]).ok();
        assert!(!good.path().exists());
    }

    #[test]
    fn a_missing_task_object_affects_its_agent_only() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("good");
        let bad = repo.agent("bad");
        let id = repo.git(&["config", "agent.bad.id"]);
        repo.git(&["update-ref", "-d", &format!("refs/agents/task/{id}")]);
        std::fs::remove_file(repo.join(format!(".git/objects/{}/{}", &id[..2], &id[2..]))).unwrap();
        let all = agents(&repo);
        assert_eq!(all["good"]["findings"], serde_json::json!([]));
        assert!(all["bad"]["findings"][0].as_str().unwrap().contains("task object"), "{}", all["bad"]);
        assert_eq!(all["bad"]["worktree"].as_str().map(Path::new), Some(bad.path()));
        repo.repair();
        assert!(bad.path().exists());
    }

    #[test]
    fn every_foreign_byte_of_the_configuration_stays() {
        let env = Env::new();
        let repo = env.repo("x");
        let config = repo.join(".git/config");
        let mut text = std::fs::read(&config).unwrap();
        text.extend_from_slice(
            b"# a comment ; with [brackets]\n[alias]\n\tst = \"status # not a comment\" ; but this is\n\
              [a] [other \"Sub.Section\"] key=1\n\n[agents]\n\tparallel = 3\n[branch \"agent\"]\n\tx = a\\\n  b\n\
              [include]\n\tpath = nowhere\n[Agent]\n\tnot = ours\r\n; the end, without a newline",
        );
        std::fs::write(&config, &text).unwrap();
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o640)).unwrap();
        repo.agent("one");
        repo.agent("feat/two.x");
        repo.agents(&["rm", "one", "feat/two.x"]).ok();
        let now = std::fs::read(&config).unwrap();
        assert_eq!(String::from_utf8_lossy(&now).trim_end(), String::from_utf8_lossy(&text).trim_end());
        assert_eq!(std::fs::metadata(&config).unwrap().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_linked_configuration_became_a_file() {
        let env = Env::new();
        let repo = env.repo("x");
        let real = env.root().join("real-config");
        std::fs::rename(repo.join(".git/config"), &real).unwrap();
        symlink(&real, repo.join(".git/config")).unwrap();
        repo.agent("k");
        assert!(repo.join(".git/config").symlink_metadata().unwrap().is_symlink());
        assert!(std::fs::read_to_string(&real).unwrap().contains("[agent \"k\"]"));
        repo_invariants(&repo);
    }

    #[test]
    fn a_branch_renamed_in_its_worktree_was_lost() {
        let env = Env::new();
        let repo = env.repo("x");
        let at = repo.agent("old-name");
        at.write("f.txt", "x\n");
        at.commit("Work");
        at.git(&["branch", "-m", "new-name"]);
        let a = agents(&repo)["old-name"].clone();
        assert_eq!((&a["branch"], &a["zombie"], &a["ahead"]), (&"new-name".into(), &Value::Null, &1.into()));
        repo.repair();
        assert_eq!(repo.git(&["config", "agent.old-name.branch"]), "refs/heads/new-name");
        let renamed: Vec<Value> = events(&repo).into_iter().filter(|e| e["kind"] == "renamed").collect();
        assert_eq!(renamed.len(), 1);
        assert_eq!(
            (&renamed[0]["from"], &renamed[0]["to"]),
            (&"refs/heads/old-name".into(), &"refs/heads/new-name".into())
        );
        repo.repair();
        assert_eq!(events(&repo).iter().filter(|e| e["kind"] == "renamed").count(), 1);
        // By either word it is found, and its branch is the one that goes.
        repo.agents(&["rm", "-D", "new-name"]).ok();
        assert!(!repo.has("refs/heads/new-name"));
    }
}

mod locks {
    use super::*;

    #[test]
    fn a_lock_that_nobody_held_was_deleted_or_waited_for_without_end() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("before");
        let lock = repo.join(".git/config.lock");
        std::fs::write(&lock, "someone's half-written configuration").unwrap();
        let start = Instant::now();
        let out = repo.agents(&["new", "k"]).code(128);
        assert!(
            start.elapsed() < Duration::from_secs(9) && start.elapsed() > Duration::from_secs(4),
            "{:?}",
            start.elapsed()
        );
        assert!(out.stderr.contains("config.lock") && out.stderr.contains("s old"), "{out}");
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), "someone's half-written configuration");
        assert!(!repo.has("refs/heads/k"));
        assert_eq!(repo.status()["agents"].as_array().unwrap().len(), 1);
        std::fs::remove_file(&lock).unwrap();
        repo.agent("k");
        repo_invariants(&repo);
    }

    #[test]
    fn a_short_wait_for_another_writer() {
        let env = Env::new();
        let repo = env.repo("x");
        let lock = repo.join(".git/config.lock");
        std::fs::write(&lock, "").unwrap();
        let waiting = repo.spawn(&["new", "k"]);
        // It has come as far as the lock of the configuration.
        env.until("it waits", || repo.git(&["for-each-ref", "refs/agents/task"]).lines().count() == 1);
        std::fs::remove_file(&lock).unwrap();
        waiting.finish(&env).ok();
    }

    #[test]
    fn our_own_locks_left_by_a_kill_are_healed() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("k");
        let (git, ours) = (repo.join(".git"), repo.join(".git/agents"));
        std::fs::write(ours.join("config.new"), "half").unwrap();
        std::fs::hard_link(ours.join("config.new"), git.join("config.lock")).unwrap();
        let name: String = b"refs/notes/agents-journal".iter().map(|b| format!("{b:02x}")).collect();
        std::fs::write(ours.join(format!("ref.new-{name}")), "half").unwrap();
        std::fs::hard_link(ours.join(format!("ref.new-{name}")), git.join("refs/notes/agents-journal.lock")).unwrap();
        let start = Instant::now();
        repo.agent("y");
        assert!(start.elapsed() < Duration::from_secs(3));
        repo_invariants(&repo);
    }

    #[test]
    fn a_capture_under_way_lost_its_lock_to_the_next_command() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("k");
        let ours = repo.join(".git/agents");
        let name: String = b"refs/agents/removed/x".iter().map(|b| format!("{b:02x}")).collect();
        // As somebody who lives has it, and somebody who does not: process and start ticks say who.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
        let living = ours.join(format!("ref.new-{}-{start}-{name}", std::process::id()));
        let dead = ours.join(format!("ref.new-{}-{}-{name}", std::process::id(), start.parse::<u64>().unwrap() - 1));
        for mark in [&living, &dead] {
            std::fs::write(mark, "half").unwrap();
        }
        repo.agent("y");
        assert!(living.exists() && !dead.exists());
    }

    #[test]
    fn a_reference_lock_of_a_killed_git_froze_the_journal() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("k");
        let lock = repo.join(".git/refs/notes/agents-journal.lock");
        // Young: somebody may be at it. Waited for, named, left alone.
        std::fs::write(&lock, "").unwrap();
        let out = repo.agents(&["new", "young"]).code(128);
        assert!(out.stderr.contains("agents-journal.lock"), "{out}");
        assert!(lock.exists());
        // Old, and open in nobody's hands.
        let mut touch = env.command("touch", repo.path());
        touch.args(["-d", "1 minute ago"]).arg(&lock);
        run(touch, b"").ok();
        let all = agents(&repo);
        for name in all.keys().filter(|n| *n != "k") {
            repo.agents(&["rm", name]).ok();
        }
        repo.agent("old");
        repo_invariants(&repo);
    }

    #[test]
    fn no_file_locks_here_is_said() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.agent("k");
        std::fs::write(repo.join(".git/agents/no-locks"), "file locks exclude nobody on this file system").unwrap();
        let out = repo.agents(&["status"]).ok();
        assert!(format!("{}{}", out.stdout, out.stderr).contains("file locks exclude nobody"), "{out}");
    }
}

mod users {
    use super::*;

    #[test]
    fn other_users_could_read_prompts_and_logs() {
        let env = Env::new();
        let repo = env.repo("x");
        let mut command = env.command("sh", repo.path());
        command.args(["-c", "umask 000; git agents run -a scripted 'WRITE: f: x'; git agents new k; git agents rm k"]);
        run(command, b"").ok();
        let mut todo = vec![repo.join(".git/agents"), env.root().join("state/git-agents")];
        let mut seen = 0;
        while let Some(path) = todo.pop() {
            let Ok(meta) = path.symlink_metadata() else { continue };
            // What was the user's own keeps its modes.
            if path.ends_with("tree") || path.ends_with("admin") {
                continue;
            }
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.mode() & 0o777 & !wanted, 0, "{}: {:o}", path.display(), meta.mode());
            seen += 1;
            if meta.is_dir() {
                todo.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            }
        }
        assert!(seen > 10, "{seen}");
    }

    #[test]
    fn a_link_in_place_of_our_folder_was_followed() {
        let env = Env::new();
        let repo = env.repo("x");
        let elsewhere = env.root().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, repo.join(".git/agents")).unwrap();
        let out = repo.agents(&["new", "k"]).code(128);
        assert!(out.stderr.contains("agents'"), "{out}");
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
        assert!(!repo.has("refs/heads/k"));
        // One folder deeper.
        std::fs::remove_file(repo.join(".git/agents")).unwrap();
        repo.agent("k");
        std::fs::remove_dir_all(repo.join(".git/agents/trash")).unwrap();
        symlink(&elsewhere, repo.join(".git/agents/trash")).unwrap();
        repo.agents(&["rm", "k"]).code(128);
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
