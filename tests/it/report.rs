//! The report: figures that are git's own, verdicts by one rule, conflicts that git would stop on.

use crate::support::{Env, Repo, env::run};
use serde_json::Value;
use std::collections::BTreeMap;

fn report(repo: &Repo<'_>, args: &[&str]) -> Value {
    repo.agents(&[&["report", "--json"], args].concat()).ok().json()
}

fn agent<'v>(report: &'v Value, name: &str) -> &'v Value {
    let agents = report["agents"].as_array().unwrap();
    agents.iter().find(|a| a["name"] == name).unwrap_or_else(|| panic!("no '{name}' in {report:#}"))
}

/// A branch off `base` on which `script` was run and everything committed.
fn branch(repo: &Repo<'_>, name: &str, base: &str, script: &str) {
    let mut sh = repo.env.command("sh", repo.path());
    let all = format!(
        "set -e; git switch -q -c \"$1\" \"$2\"; {script}\ngit add -A; git commit -q -m \"$1\"; git switch -q -"
    );
    sh.args(["-c", &all, "sh", name, base]);
    run(sh, b"").ok();
}

#[test]
fn every_figure_is_gits_own() {
    let env = Env::new();
    let repo = env.repo("x");
    let task = "\
        REPLACE: src/a.txt: line 7 => line seven\\nand a half
        COMMIT: one
        WRITE: src/binary: \\x00\\x01
        WRITE: ünï \"q\".txt: x
        RUN: printf 'a\\n' >\"$(printf 'tab\\there')\"
        RUN: git mv src/b.txt src/renamed.txt
        COMMIT: two
        DELETE: README.md
        COMMIT: three
        USAGE: 0.25 1200
        SAY: all of it is done";
    repo.agents(&["run", "-q", "-a", "scripted", task]).ok();
    repo.commit("the base goes on");
    let shown = report(&repo, &[]);
    let it = &shown["agents"][0];
    let branch = it["branch"].as_str().unwrap();
    let range = format!("main..{branch}");
    let subjects: Vec<&str> =
        it["commits"].as_array().unwrap().iter().map(|c| c["subject"].as_str().unwrap()).collect();
    assert_eq!(subjects.join("\n"), repo.git(&["log", "--reverse", "--format=%s", &range]));
    assert_eq!(it["commits"].as_array().unwrap().len().to_string(), repo.git(&["rev-list", "--count", &range]));
    let number = |v: &Value| v.as_u64().map_or("-".into(), |n| n.to_string());
    let files = it["files"].as_array().unwrap().iter();
    let lines: String = files
        .map(|f| format!("{}\t{}\t{}\0", number(&f["added"]), number(&f["removed"]), f["path"].as_str().unwrap()))
        .collect();
    assert_eq!(lines, repo.git(&["diff", "--numstat", "-z", "--no-renames", &format!("main...{branch}")]));
    assert!(lines.contains("-\t-\tsrc/binary\0") && lines.contains("tab\there"), "{lines:?}");
    assert_eq!((&it["cost_usd"], &it["tokens"], &it["attempts"]), (&0.25.into(), &1200.into(), &1.into()));
    assert_eq!(it["claim"], "all of it is done");
    assert_eq!(it["tip"], repo.tip(branch));
    // What was merged in from the base since is not its own.
    let place = Repo::at(&env, it["worktree"].as_str().unwrap());
    repo.write("base.txt", "base\n");
    repo.commit("the base has one more file");
    place.git(&["merge", "-q", "--no-edit", "main"]);
    let after = report(&repo, &[]);
    assert_eq!(after["agents"][0]["files"], it["files"]);
}

#[test]
fn the_verdict_follows_one_rule() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.uncommitted", "keep"]);
    let list = "\
1. Ready {name=ready}
   WRITE: ready.txt: x
   COMMIT: ready
2. Left over {name=left}
   WRITE: left.txt: x
   COMMIT: left
   WRITE: more.txt: x
3. Failed {name=failed}
   WRITE: failed.txt: x
   COMMIT: failed
   FAIL: it went wrong
4. Nothing {name=nothing}
   SAY: nothing to do
5. Skipped {name=skipped after=failed}
   WRITE: skipped.txt: x
6. Outside {name=outside files=\"src/** *.md\"}
   WRITE: src/inside.txt: x
   WRITE: docs/outside.txt: x
   COMMIT: outside
7. Refused {name=refused}
   DENY: rm -rf /
   WRITE: refused.txt: x
   COMMIT: refused
8. Conflicts with what the base has become {name=conflict}
   REPLACE: src/a.txt: line 30 => mine
   COMMIT: conflict
9. Inside {name=inside files=\"src/**\"}
   WRITE: src/only.txt: x
   COMMIT: inside
";
    repo.agents_input(&["run", "-q", "-a", "scripted", "--retries", "0"], list).code(1);
    repo.write("src/a.txt", repo.read("src/a.txt").replace("line 30\n", "theirs\n"));
    repo.commit("the base has moved");
    let shown = report(&repo, &[]);
    for (name, verdict, reason) in [
        ("ready", "ready", ""),
        ("left", "look", "not committed: more.txt"),
        ("failed", "failed", "failed: "),
        ("nothing", "nothing", "unchanged"),
        ("skipped", "skipped", "skipped"),
        ("outside", "look", ""),
        ("refused", "look", ""),
        ("conflict", "look", "conflicts with 'main' in src/a.txt"),
        ("inside", "ready", ""),
    ] {
        let it = agent(&shown, name);
        assert_eq!(it["verdict"], verdict, "{it:#}");
        let reasons: Vec<&str> = it["reasons"].as_array().unwrap().iter().map(|r| r.as_str().unwrap()).collect();
        assert!(reasons.iter().any(|r| r.contains(reason)) || reason.is_empty() && reasons.is_empty(), "{it:#}");
    }
    let flags = |name: &str| -> Vec<String> {
        let flags = agent(&shown, name)["flags"].as_array().unwrap().clone();
        flags.iter().map(|f| format!("{}: {}", f["kind"].as_str().unwrap(), f["text"].as_str().unwrap())).collect()
    };
    assert_eq!(flags("outside"), ["outside-files: changed outside 'src/** *.md': docs/outside.txt"]);
    assert!(flags("refused")[0].starts_with("denied: "), "{:?}", flags("refused"));
    assert_eq!(flags("ready"), [""; 0]);
    assert_eq!(agent(&shown, "left")["left_over"], serde_json::json!(["more.txt"]));
    assert_eq!(agent(&shown, "conflict")["conflicts"]["with_base"], serde_json::json!(["src/a.txt"]));
    assert_eq!(agent(&shown, "ready")["conflicts"]["with_base"], serde_json::json!([]));
    // The text says the same.
    let text = repo.agents(&["report"]).ok().stdout;
    assert!(text.starts_with("batch 1: 2 of 9 agents ready\n"), "{text}");
    for words in
        ["1. ready  ready  Ready", "flag: changed outside", "not committed: more.txt", "drop: git agents rm -D left"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
    // One line lands all that is ready.
    let land = shown["land"].as_str().unwrap().to_owned();
    assert_eq!(shown["push"], Value::Null, "there is no remote");
    let mut sh = env.command("sh", repo.path());
    sh.args(["-c", &land]);
    run(sh, b"").ok();
    assert!(repo.join("ready.txt").exists() && repo.join("src/only.txt").exists() && !repo.join("left.txt").exists());
    assert!(repo.agents(&["status", "ready"]).code(128).stderr.contains("no agent named"));
    repo.agents(&["restore", "ready"]).ok();
    let status = repo.agents(&["status", "--json"]).ok().json();
    assert_eq!(agent(&status, "ready")["branch_state"], "landed");
    // Landed work keeps its figures.
    assert_eq!(agent(&report(&repo, &[]), "ready")["files"], agent(&shown, "ready")["files"]);
}

/// What branches do to the same base; together every kind of meeting.
const SIDES: &[(&str, &str)] = &[
    ("top", "sed -i '5s/.*/A/' src/a.txt"),
    ("top-too", "sed -i '5s/.*/B/' src/a.txt"),
    ("top-same", "sed -i '5s/.*/A/' src/a.txt"),
    ("bottom", "sed -i '55s/.*/A/' src/a.txt"),
    ("crlf", "sed -i 's/$/\\r/' src/a.txt"),
    ("delete", "git rm -q src/a.txt"),
    ("rename", "git mv src/a.txt src/renamed.txt"),
    ("rename-too", "git mv src/a.txt src/other.txt"),
    ("onto", "git mv src/b.txt src/renamed.txt"),
    ("add", "echo 1 >src/new.txt"),
    ("add-too", "echo 2 >src/new.txt"),
    ("move-dir", "git mv dir moved"),
    ("move-dir-too", "git mv dir gone"),
    ("into-dir", "echo three >dir/three"),
    ("rename-into-dir", "git mv src/b.txt dir/b.txt"),
    ("mode", "chmod +x run.sh"),
    ("mode-edit", "echo more >>run.sh"),
    ("link", "ln -sf README.md run.sh"),
    ("binary", "printf '\\0\\2' >data.bin"),
    ("binary-too", "printf '\\0\\3' >data.bin"),
    ("file-to-dir", "git rm -q x; mkdir x; echo 1 >x/1"),
    ("edit-x", "echo more >>x"),
    ("a-file", "echo f >y"),
    ("a-dir", "mkdir y; echo 1 >y/1"),
    ("submodule", "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),s; mkdir -p s"),
    ("submodule-too", "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD~1),s; mkdir -p s"),
    ("all-below", "mkdir sub; git mv README.md run.sh data.bin x dir src sub"),
    ("at-the-top", "echo top >top.txt"),
];

/// Asked of both versions of git.
mod older_git {
    use super::*;

    #[test]
    fn conflicts_are_those_that_git_merge_tree_stops_on() {
        let env = Env::new();
        let repo = env.repo("x");
        repo.write("dir/one", "one\n1\n2\n3\n");
        repo.write("dir/two", "two\n4\n5\n6\n");
        repo.write("run.sh", "#!/bin/sh\ntrue\n");
        repo.write("data.bin", b"\0\x01");
        repo.write("x", "x\nx\nx\n");
        repo.commit("a base with everything");
        // Submodules are links to commits that nobody has here.
        for (name, script) in SIDES {
            branch(&repo, name, "main", script);
        }
        // Quicker than a worktree each: registered without one, by what `adopt` does for a worktree that exists.
        for (name, _) in SIDES {
            repo.agents(&["adopt", "-q", name]).ok();
        }
        let pairs: String = (0..SIDES.len())
            .flat_map(|a| (a + 1..SIDES.len()).map(move |b| format!("{} {}\n", SIDES[a].0, SIDES[b].0)))
            .chain(SIDES.iter().map(|(n, _)| format!("main {n}\n")))
            .collect();
        let mut sh = env.command("sh", repo.path());
        let each = "while read -r a b; do out=$(git merge-tree --write-tree --name-only --no-messages \"$a\" \"$b\" 2>&1); \
                    code=$?; printf '%s' \"$out\" | tail -n +2 | tr '\\n' ' '; echo \"= $code $a $b\"; done";
        sh.args(["-c", each]);
        let truth = run(sh, pairs.as_bytes()).ok().stdout;
        let shown = report(&repo, &["--all"]);
        let mut wrong = Vec::new();
        let (mut conflicts, mut asked) = (0, 0);
        for line in truth.lines() {
            let (paths, rest) = line.split_once("= ").unwrap();
            // A file that is in a directory's way is `y~side` to git; we name the place.
            let mut paths: Vec<&str> = paths.split_whitespace().map(|p| p.split('~').next().unwrap()).collect();
            paths.sort_unstable();
            paths.dedup();
            let [code, a, b] = rest.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            let found: Option<Vec<&str>> = if a == "main" {
                let list = &agent(&shown, b)["conflicts"]["with_base"];
                Some(list.as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect())
            } else {
                let with = agent(&shown, a)["conflicts"]["with_agents"].as_array().unwrap();
                let pair = with.iter().find(|w| w["agent"] == b);
                assert!(pair.is_none_or(|p| p["unknown"].is_null()), "{pair:?}");
                let conflict = pair.filter(|p| p["level"] == "conflict");
                Some(conflict.map_or(Vec::new(), |p| {
                    p["paths"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect()
                }))
            };
            asked += 1;
            conflicts += usize::from(code == "1");
            if found.as_deref() != Some(if code == "1" { &paths[..] } else { &[] }) {
                wrong.push(format!("{a} and {b}: git says {code} {paths:?}, we say {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{} of {asked}:\n{}", wrong.len(), wrong.join("\n"));
        assert!(conflicts >= 35, "only {conflicts} of {asked} are conflicts");
        // The order says of each who of those before it stops it.
        let order = shown["order"].as_array().unwrap();
        assert_eq!(order.len(), SIDES.len());
        let mut landed: Vec<&str> = Vec::new();
        for step in order {
            let name = step["name"].as_str().unwrap();
            let with = agent(&shown, name)["conflicts"]["with_agents"].as_array().unwrap();
            let stops: Vec<&str> =
                with.iter().filter(|w| w["level"] == "conflict").map(|w| w["agent"].as_str().unwrap()).collect();
            let wanted: Vec<&&str> = landed.iter().filter(|l| stops.contains(l)).collect();
            let said = step["conflicts_with_landed"].as_array().unwrap();
            assert_eq!(
                said.iter().map(|s| s.as_str().unwrap()).collect::<Vec<_>>(),
                wanted.into_iter().copied().collect::<Vec<_>>()
            );
            landed.push(name);
        }
        assert_eq!(order[0]["conflicts_with_landed"], serde_json::json!([]));
    }
}

/// Level and reason of the first two agents.
fn pair(repo: &Repo<'_>, dir: &std::path::Path) -> (Value, String) {
    let shown = repo.agents_in(dir, &["report", "--all", "--json"]).ok().json();
    let with = &shown["agents"][0]["conflicts"]["with_agents"][0];
    (with["level"].clone(), with["unknown"].as_str().unwrap_or_default().to_owned())
}

fn two(repo: &Repo<'_>, a: &str, b: &str) {
    branch(repo, "a", "main", a);
    branch(repo, "b", "main", b);
    repo.agents(&["adopt", "-q", "a"]).ok();
    repo.agents(&["adopt", "-q", "b"]).ok();
}

#[test]
fn the_answer_is_the_same_wherever_it_is_asked() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("CHANGES", "one\n");
    repo.commit("changes");
    two(&repo, "sed -i '1s/.*/a/' CHANGES; sed -i '5s/.*/a/' src/a.txt", "sed -i '1s/.*/b/' CHANGES");
    // Attributes that only lie about in a checkout change nothing.
    let places = [
        repo.path().to_owned(),
        env.root().join("code/x.agents/a"),
        env.root().join("code/x.agents/b"),
        repo.join(".git"),
    ];
    for place in &places[..3] {
        std::fs::write(place.join(".gitattributes"), "* merge=union\n").unwrap();
    }
    for place in &places {
        assert_eq!(pair(&repo, place), ("conflict".into(), String::new()), "{}", place.display());
    }
    // Those of the base count, for everybody.
    repo.write(".gitattributes", "CHANGES merge=union\n");
    repo.git(&["add", ".gitattributes"]);
    repo.git(&["commit", "-q", "-m", "union"]);
    for place in &places {
        assert_eq!(pair(&repo, place).0, "near", "{}", place.display());
    }
    // So do the user's own.
    std::fs::create_dir_all(env.home().join(".config/git")).unwrap();
    repo.git(&["rm", "-q", "--cached", ".gitattributes"]);
    repo.git(&["commit", "-q", "-m", "no union"]);
    assert_eq!(pair(&repo, repo.path()).0, "conflict");
    std::fs::write(env.home().join(".config/git/attributes"), "CHANGES merge=union\n").unwrap();
    assert_eq!(pair(&repo, repo.path()).0, "near");
}

#[test]
fn files_that_need_a_second_look_are_flagged() {
    let env = Env::new();
    let repo = env.repo("x");
    let task = "WRITE: web/package-lock.json: {}\nWRITE: .github/workflows/ci.yml: x\nWRITE: db/migrations/1.sql: x\n\
                RUN: head -c 1100000 /dev/zero >big.bin; printf '\\0' >small.bin\nWRITE: src/main.rs: x\nCOMMIT: all";
    repo.agents(&["run", "-q", "-a", "scripted", task]).ok();
    let shown = report(&repo, &[]);
    let it = &shown["agents"][0];
    let flags: Vec<(&str, &str)> = it["flags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["kind"].as_str().unwrap(), f["text"].as_str().unwrap()))
        .collect();
    let kinds: Vec<&str> = flags.iter().map(|f| f.0).collect();
    assert_eq!(kinds, ["lock-file", "ci-or-hook", "migration", "large-binary"], "{flags:?}");
    assert!(flags[0].1.ends_with(": web/package-lock.json") && flags[3].1.ends_with(": big.bin"), "{flags:?}");
    assert_eq!(it["verdict"], "look");
}

#[test]
fn a_merge_that_stopped_is_said_and_not_called_ready() {
    let env = Env::new();
    let repo = env.repo("x");
    let rewrite = |line: &str| format!("REPLACE: src/a.txt: line 30 => {line}\nCOMMIT: {line}");
    repo.agents(&["run", "-q", "-a", "scripted", &rewrite("mine")]).ok();
    repo.write("src/a.txt", repo.read("src/a.txt").replace("line 30\n", "theirs\n"));
    repo.commit("theirs");
    let place = Repo::at(&env, report(&repo, &[])["agents"][0]["worktree"].as_str().unwrap());
    assert_eq!(place.try_git(&["rebase", "main"]).status, 1);
    let status = repo.agents(&["status", "--json"]).ok().json();
    let it = &status["agents"][0];
    assert_eq!((it["operation"].as_str(), it["dirty"]["conflicted"].as_u64()), (Some("rebase"), Some(1)), "{it:#}");
    let text = repo.agents(&["status"]).ok().stdout;
    assert!(text.contains("in the middle of a rebase") && text.contains("1 in conflict"), "{text}");
    let shown = report(&repo, &[]);
    let it = &shown["agents"][0];
    assert!(it["verdict"] == "look" && it["reasons"].to_string().contains("in the middle of a rebase"), "{it:#}");
    // It is compared by its tip: markers are no work.
    assert_eq!(it["conflicts"]["with_base"], serde_json::json!(["src/a.txt"]));
}

#[test]
fn a_side_that_changes_the_attributes_makes_the_answer_unknown() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("CHANGES", "one\n");
    repo.commit("changes");
    two(&repo, "echo a >CHANGES; echo 'CHANGES merge=union' >.gitattributes", "echo b >CHANGES");
    let (level, why) = pair(&repo, repo.path());
    assert!(level.is_null() && why.contains("'.gitattributes', which 'a' changes"), "{level} {why}");
    let text = repo.agents(&["report", "--all"]).ok().stdout;
    assert!(text.contains("a and b: unknown ("), "{text}");
}

#[test]
fn a_merge_driver_is_never_run_and_its_paths_are_unknown() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("package.lock", "1\n");
    repo.write(".gitattributes", "*.lock merge=lock\n");
    repo.commit("a driver");
    let canary = env.root().join("ran");
    // The user's own one is not run either: a report is no merge.
    repo.git(&["config", "--global", "merge.lock.driver", &format!("touch '{}'; exit 0", canary.display())]);
    two(&repo, "echo a >package.lock", "echo b >package.lock");
    let (level, why) = pair(&repo, repo.path());
    assert!(level.is_null() && why.contains("'package.lock' is merged by the program 'lock'"), "{level} {why}");
    // A conflict elsewhere is one, whatever the driver would do.
    branch(&repo, "c", "a", "sed -i '5s/.*/c/' src/a.txt");
    branch(&repo, "d", "b", "sed -i '5s/.*/d/' src/a.txt");
    repo.agents(&["adopt", "-q", "c"]).ok();
    repo.agents(&["adopt", "-q", "d"]).ok();
    let shown = report(&repo, &["c", "d"]);
    assert_eq!(shown["agents"][0]["conflicts"]["with_agents"][0]["level"], "conflict", "{shown:#}");
    // And so for the base.
    repo.write("package.lock", "base\n");
    repo.commit("the base has moved");
    let shown = report(&repo, &["a"]);
    assert!(shown["agents"][0]["conflicts"]["with_base"].is_null(), "{shown:#}");
    assert!(shown["agents"][0]["reasons"].to_string().contains("merged by the program"), "{shown:#}");
    assert!(!canary.exists());
}

#[test]
fn what_cannot_be_told_is_unknown_and_the_rest_is_told() {
    let env = Env::new();
    let repo = env.repo("x");
    two(&repo, "sed -i '5s/.*/a/' src/a.txt", "sed -i '5s/.*/b/' src/a.txt");
    // Histories that have nothing in common.
    run({ let mut sh = env.command("sh", repo.path()); sh.args(["-c", "set -e; git switch -q --orphan pages; echo p >page; git add page; git commit -q -m pages; git switch -q main"]); sh }, b"").ok();
    repo.agents(&["adopt", "-q", "pages"]).ok();
    let shown = report(&repo, &["--all"]);
    let pages = agent(&shown, "pages");
    assert!(pages["conflicts"]["with_base"].is_null() && pages["verdict"] != "ready", "{pages:#}");
    let with = pages["conflicts"]["with_agents"].as_array().unwrap();
    assert_eq!(with.len(), 2, "{pages:#}");
    assert!(with.iter().all(|w| w["level"].is_null() && w["unknown"].as_str().unwrap().contains("no common history")));
    let a = agent(&shown, "a")["conflicts"]["with_agents"].as_array().unwrap();
    assert!(a.iter().any(|w| w["agent"] == "b" && w["level"] == "conflict"), "{a:#?}");
    // A branch whose commit is not there any more.
    branch(&repo, "broken", "main", "echo x >broken.txt");
    repo.agents(&["adopt", "-q", "broken"]).ok();
    let tip = repo.tip("broken");
    let object = repo.join(format!(".git/objects/{}/{}", &tip[..2], &tip[2..]));
    let kept = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    let shown = report(&repo, &["--all"]);
    let broken = agent(&shown, "broken");
    assert_eq!(broken["verdict"], "look", "{broken:#}");
    assert!(broken["reasons"].to_string().contains("cannot be read"), "{broken:#}");
    let with = broken["conflicts"]["with_agents"].as_array().unwrap();
    assert!(with.len() == 3 && with.iter().all(|w| w["level"].is_null()), "{with:#?}");
    let a = agent(&shown, "a")["conflicts"]["with_agents"].as_array().unwrap();
    assert!(a.iter().any(|w| w["agent"] == "b" && w["level"] == "conflict"), "{a:#?}");
    let status = repo.agents(&["status", "--json"]).ok().json();
    assert!(agent(&status, "broken")["findings"].to_string().contains("cannot be read"), "{status:#}");
    assert!(agent(&status, "broken")["branch_state"].is_null());
    std::fs::write(&object, kept).unwrap();
    // A blob that only a merge would need; what was told of it before is not asked again.
    std::fs::remove_dir_all(repo.join(".git/agents/cache")).unwrap();
    let blob = repo.git(&["rev-parse", "a:src/a.txt"]);
    std::fs::remove_file(repo.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
    let shown = report(&repo, &["--all"]);
    let a = agent(&shown, "a")["conflicts"]["with_agents"].as_array().unwrap();
    let with_b = a.iter().find(|w| w["agent"] == "b").unwrap();
    assert!(with_b["level"].is_null() && with_b["unknown"].is_string(), "{with_b:#}");
    // The base is gone.
    repo.git(&["branch", "-q", "-m", "main", "trunk"]);
    let shown = report(&repo, &["b"]);
    assert!(shown["agents"][0]["reasons"].to_string().contains("its base 'main' is gone"), "{shown:#}");
    assert!(shown["agents"][0]["verdict"] != "ready");
}

#[test]
fn a_shallow_history_is_said_and_not_called_a_conflict() {
    let env = Env::new();
    let origin = env.repo("origin");
    branch(&origin, "a", "main", "sed -i '5s/.*/a/' src/a.txt");
    branch(&origin, "b", "main", "sed -i '50s/.*/b/' src/a.txt");
    origin.commit("more");
    let path = env.root().join("code/x");
    let url = format!("file://{}", origin.path().display());
    origin.git(&["clone", "-q", "--depth", "1", "--no-single-branch", &url, path.to_str().unwrap()]);
    let repo = Repo::at(&env, &path);
    for name in ["origin/a", "origin/b"] {
        repo.agents(&["adopt", "-q", name]).ok();
    }
    let shown = report(&repo, &["--all"]);
    for agent in shown["agents"].as_array().unwrap() {
        assert!(agent["conflicts"]["with_base"].is_null(), "{agent:#}");
        let text = agent.to_string();
        assert!(
            text.contains("shallow") && text.contains("--unshallow") && !text.contains("\"conflict\""),
            "{agent:#}"
        );
    }
    repo.git(&["fetch", "-q", "--unshallow"]);
    let shown = report(&repo, &["--all"]);
    assert_eq!(shown["agents"][0]["conflicts"]["with_base"], serde_json::json!([]), "{shown:#}");
    assert_eq!(shown["agents"][0]["conflicts"]["with_agents"][0]["level"], "file", "{shown:#}");
}

#[test]
fn neither_identity_nor_language_nor_settings_of_the_user_change_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("dir/one", "one\n1\n2\n3\n");
    repo.write("dir/two", "two\n4\n5\n6\n");
    repo.commit("a directory");
    two(&repo, "sed -i '5s/.*/a/' src/a.txt; git mv dir 'ü'", "sed -i '5s/.*/b/' src/a.txt; echo b >dir/three");
    let before = report(&repo, &["--all"]);
    let text = repo.agents(&["report", "--all"]).ok().stdout;
    let config = "[user]\n\tuseConfigOnly = true\n[color]\n\tui = always\n[core]\n\tquotePath = true\n\tpager = false\n\tabbrev = 40\n[diff]\n\
                  \tnoprefix = true\n\tmnemonicPrefix = true\n\texternal = false\n\tcolorMoved = zebra\n\tstatGraphWidth = 3\n[merge]\n\
                  \tconflictStyle = zdiff3\n\tff = only\n[log]\n\tshowSignature = true\n\tdecorate = full\n[status]\n\
                  \tshowUntrackedFiles = no\n[gc]\n\tauto = 1\n[commit]\n\tgpgSign = true\n[alias]\n\tdiff-tree = status\n";
    std::fs::write(env.home().join(".gitconfig"), config).unwrap();
    let mut command = env.agents_command(repo.path(), &["report", "--all", "--json"]);
    command
        .env("LC_ALL", "de_DE.UTF-8")
        .env("LANGUAGE", "de")
        .env("TZ", "Pacific/Kiritimati")
        .env("GIT_PAGER", "false");
    assert_eq!(run(command, b"").ok().json(), before);
    assert_eq!(repo.agents(&["report", "--all"]).ok().stdout, text);
    // What decides a merge does count: whether what is new in a directory follows it.
    let paths = |r: &Value| r["agents"][0]["conflicts"]["with_agents"][0]["paths"].clone();
    assert_eq!(paths(&before), serde_json::json!(["src/a.txt", "ü/three"]));
    std::fs::write(env.home().join(".gitconfig"), "[merge]\n\tdirectoryRenames = true\n").unwrap();
    assert_eq!(paths(&report(&repo, &["--all"])), serde_json::json!(["src/a.txt"]));
}

#[test]
fn the_commands_it_names_mean_that_branch_and_no_other() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a\nCOMMIT: a"]).ok();
    let main = repo.tip("main");
    // A tag with the branch's name, and a branch whose name a shell would run.
    repo.git(&["tag", "agents/write-a-txt-a", "main"]);
    repo.git(&["tag", "main", "main~1"]);
    let hostile = "it's;touch${IFS}pwned";
    branch(&repo, "odd", "refs/heads/main", "echo o >odd.txt");
    repo.git(&["update-ref", &format!("refs/heads/{hostile}"), "refs/heads/odd"]);
    repo.agents(&["adopt", "-q", &format!("refs/heads/{hostile}")]).ok();
    repo.git(&["remote", "add", "upstream", "../nowhere"]);
    let shown = report(&repo, &["--all"]);
    let sh = |line: &str| {
        let mut sh = env.command("sh", repo.path());
        sh.args(["-c", line]);
        run(sh, b"").ok()
    };
    for it in shown["agents"].as_array().unwrap() {
        let commands = &it["commands"];
        let look = sh(commands["look"].as_str().unwrap());
        assert!(look.stdout.contains("+++ b/") && !look.stderr.contains("ambiguous"), "{look}");
        let before = repo.tip("refs/heads/main");
        let take = sh(commands["take"].as_str().unwrap());
        assert!(repo.tip("refs/heads/main") != before, "{take}");
        assert!(commands["push"].as_str().unwrap().starts_with("git agents push "), "{commands}");
        // The environment is gone with it, unless it was adopted.
        if repo.agents(&["status", "--names"]).ok().stdout.lines().any(|l| Some(l) == it["name"].as_str()) {
            sh(commands["drop"].as_str().unwrap());
        }
    }
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout, "");
    assert!(repo.join("a.txt").exists() && repo.join("odd.txt").exists() && repo.tip("refs/heads/main") != main);
    crate::support::hostile::assert_no_canary(&env, "the report's commands");
}

#[test]
fn a_report_is_of_the_last_batch_of_another_or_of_all_and_goes_to_a_file() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a", "WRITE: b.txt: b"]).ok();
    let out = repo.agents(&["run", "-q", "-a", "scripted", "-o", "../out.txt", "WRITE: c.txt: c"]).ok();
    assert_eq!(std::fs::read_to_string(repo.join("../out.txt")).unwrap(), out.stdout);
    repo.agents(&["new", "-q", "feature"]).ok();
    let names = |args: &[&str]| -> Vec<String> {
        report(&repo, args)["agents"]
            .as_array()
            .unwrap()
            .iter()
            .map(|a| a["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&[]), ["write-c-txt-c"]);
    assert_eq!(names(&["--batch", "1"]), ["write-a-txt-a", "write-b-txt-b"]);
    assert_eq!(names(&["--all"]).len(), 4);
    assert_eq!(names(&["write-b", "1"]), ["write-b-txt-b", "write-c-txt-c"]);
    assert!(repo.agents(&["report", "--batch", "9"]).code(128).stderr.contains("no batch 9"));
    let out = repo.agents(&["report", "-o", "../r.json"]).ok();
    assert!(out.stdout.is_empty());
    let written: Value = serde_json::from_str(&std::fs::read_to_string(repo.join("../r.json")).unwrap()).unwrap();
    assert_eq!(written, report(&repo, &[]));
    repo.agents(&["report", "--color", "always", "-o", "../r.txt"]).ok();
    let text = std::fs::read_to_string(repo.join("../r.txt")).unwrap();
    assert!(text.starts_with("batch 2: 1 of 1 agent ready\n") && !text.contains('\u{1b}'), "{text}");
    assert_eq!(repo.agents(&["report", "-o", "/no/such/dir/r.txt"]).status, 128);
}

#[test]
fn rivals_of_one_attempt_had_none() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["run", "-q", "-a", "scripted*2", "WRITE: a.txt: a\nCOMMIT: a"]).code(0);
    assert!(!repo.agents(&["report"]).ok().stdout.contains("attempts"));
    // One of them needs two.
    let script = "RUN: ! mkdir ../once 2>/dev/null\nWRITE: b.txt: b\nCOMMIT: b";
    repo.agents(&["run", "-q", "-a", "scripted*2", "--retries", "1", script]).code(0);
    let text = repo.agents(&["report"]).ok().stdout;
    let row = text.lines().find_map(|l| l.strip_prefix("  attempts ")).unwrap_or_else(|| panic!("{text}"));
    let mut cells: Vec<&str> = row.split_whitespace().collect();
    cells.sort_unstable();
    assert_eq!(cells, ["1", "2"], "{text}");
}

#[test]
fn a_report_was_said_to_be_behind_dots() {
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::create_dir(repo.join("sub")).unwrap();
    let code = env.root().join("code");
    let run = |args: &[&str]| repo.agents(&[&["run", "-a", "scripted", "-o", "../night.html"], args].concat()).ok();
    let out = run(&["WRITE: a.txt: a\nCOMMIT: a"]);
    assert!(out.stderr.contains(&format!("the report is in '{}/night.html'", code.display())), "{out}");
    let out = repo.agents(&["-C", "sub/..", "manual", "--install", "sub/../../man"]).ok();
    assert!(out.stderr.contains(&format!("written to '{}/man/man1'", code.display())), "{out}");
    let out = repo.agents(&["-C", "sub/../sub/..", "init", "--dry-run"]).ok();
    assert!(out.stdout.contains(&format!("'{}/x/.git-agents.toml' would be written", code.display())), "{out}");
}

/// The files below a directory.
fn left(dir: &std::path::Path) -> BTreeMap<Vec<u8>, (u32, crate::support::tree::Kind)> {
    crate::support::tree_state(dir)
}

#[test]
fn the_demo_shows_the_journey_and_leaves_nothing() {
    let env = Env::new();
    let demo = |args: &[&str]| run(env.agents_command(env.home(), &[&["demo"], args].concat()), b"").ok();
    let home = left(env.home());
    // Nothing of the user's is needed: no identity, no settings.
    let config = std::fs::read(env.home().join(".gitconfig")).unwrap();
    std::fs::write(env.home().join(".gitconfig"), "[user]\n\tuseConfigOnly = true\n").unwrap();
    let out = demo(&[]);
    assert!(out.stdout.starts_with("batch 1: 3 of 3 agents ready\n"), "{out}");
    for words in [
        "greet-customers-by-name and give-the-shop-a-better-title: conflict in src/shop.txt",
        "land in this order: write-down-the-opening-hours, ",
        "will stop on",
        "says: Customers are greeted by name",
    ] {
        assert!(out.stdout.contains(words), "{words}\n{out}");
    }
    assert!(out.stderr.contains("three agents at the same time") && out.stderr.contains("--keep"), "{out}");
    assert!(left(&env.root().join("tmp")).is_empty(), "{:?}", left(&env.root().join("tmp")).keys());
    std::fs::write(env.home().join(".gitconfig"), config).unwrap();
    assert_eq!(left(env.home()), home);
    env.until("nothing of it runs", || env.processes().is_empty());
    let out = demo(&["--keep"]);
    let place = out.stderr.lines().find_map(|l| l.strip_prefix("kept: cd ")).unwrap().to_owned();
    let shop = Repo::at(&env, place);
    assert_eq!(shop.agents(&["status", "--names"]).ok().stdout.lines().count(), 3);
    shop.git(&["merge", "-q", "--no-edit", "agents/write-down-the-opening-hours"]);
    crate::support::invariants::usable(&shop);
    // A directory for temporary files that cannot be used is said.
    let mut command = env.agents_command(env.home(), &["demo"]);
    command.env("TMPDIR", "/no/such/place");
    let out = run(command, b"").code(128);
    assert!(out.stderr.contains("/no/such/place"), "{out}");
}
