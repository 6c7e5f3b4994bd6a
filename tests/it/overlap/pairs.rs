//! Pairs: uncommitted work, what cannot be told, what only warns, and that nothing else decides the answer.

use super::agreement::by_git;
use super::cases::Random;
use super::{Ask, level, pair, stops};
use crate::support::env::run;
use crate::support::hostile::assert_no_canary;
use crate::support::wait::files;
use crate::support::{Env, Repo};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A branch of `repo` at `from` with what `script` does to it.
fn branch(repo: &Repo<'_>, name: &str, from: &str, script: &str) {
    let dir = tempfile::tempdir_in(repo.env.root()).unwrap();
    let path = dir.path().join("w");
    repo.git(&["worktree", "add", "--quiet", "-b", name, path.to_str().unwrap(), from]);
    let at = Repo::at(repo.env, &path);
    let mut sh = repo.env.command("sh", &path);
    sh.args(["-ec", script]);
    run(sh, b"").ok();
    at.commit(name);
    repo.git(&["worktree", "remove", "--force", path.to_str().unwrap()]);
}

/// Something that somebody may do in a worktree of [`crowd`].
pub fn edit(at: &Path, r: &mut Random, tag: &str) {
    let file = format!("d{0}/f{1}.txt", r.below(3), r.below(12));
    let path = at.join(&file);
    let write = |file: &str, text: &str| {
        std::fs::create_dir_all(at.join(file).parent().unwrap()).unwrap();
        std::fs::write(at.join(file), text).unwrap();
    };
    match r.below(12) {
        0 if path.is_file() => std::fs::remove_file(&path).unwrap(),
        1 if path.is_file() && at.join("d0").is_dir() => {
            std::fs::rename(&path, at.join(format!("d0/{tag}.txt"))).unwrap();
        }
        2 => write(&format!("new/{}.txt", r.below(4)), &format!("{tag}\n")),
        3 if at.join("d2").is_dir() && !at.join("e2").exists() => {
            std::fs::rename(at.join("d2"), at.join("e2")).unwrap();
        }
        4 => write(&format!("d2/{tag}.txt"), &format!("{tag}\n")),
        _ if path.is_file() => {
            let text = std::fs::read_to_string(&path).unwrap();
            let n = r.below(30);
            let edited: Vec<&str> = text.lines().enumerate().map(|(i, l)| if i == n { tag } else { l }).collect();
            write(&file, &(edited.join("\n") + "\n"));
        }
        _ => {}
    }
}

/// Sides of a repository of some files, each in a worktree with commits and without.
fn crowd<'e>(repo: &Repo<'e>, seed: usize, count: usize) -> Vec<Repo<'e>> {
    let mut r = Random::new(&format!("crowd {seed}"));
    for i in 0..12 {
        let lines: String = (0..30).map(|n| format!("file {i} line {n}\n")).collect();
        repo.write(format!("d{}/f{i}.txt", i % 3), lines);
    }
    repo.commit("files");
    let mut change = |at: &Repo<'_>, tag: &str| edit(at.path(), &mut r, tag);
    let mut places = Vec::new();
    for i in 0..count {
        let path = repo.env.root().join(format!("code/w{i}"));
        repo.git(&["worktree", "add", "--quiet", "-b", &format!("w{i}"), path.to_str().unwrap(), "main"]);
        let at = Repo::at(repo.env, path);
        (0..3).for_each(|n| change(&at, &format!("w{i}-{n}")));
        if i % 3 != 2 {
            at.commit("committed");
        }
        if i % 4 != 3 {
            (3..6).for_each(|n| change(&at, &format!("w{i}-{n}")));
        }
        if i == 2 {
            // The base goes on under some of them.
            repo.write("d1/f1.txt", "the base has moved\n");
            repo.commit("moved");
        }
        places.push(at);
    }
    places
}

/// The plain way, kept to compare with: everything added and committed by git, one merge a pair.
fn plainly(repo: &Repo<'_>, places: &[Repo<'_>]) -> Vec<(usize, usize, Option<Vec<String>>)> {
    let commits: Vec<String> = places
        .iter()
        .map(|at| {
            let index = repo.env.root().join("plain-index");
            std::fs::copy(at.git(&["rev-parse", "--absolute-git-dir"]) + "/index", &index).unwrap();
            let git = |args: &[&str]| {
                let mut git = repo.env.command("git", at.path());
                git.args(args).env("GIT_INDEX_FILE", &index);
                run(git, b"").ok().stdout.trim().to_owned()
            };
            git(&["add", "-A"]);
            let tree = git(&["write-tree"]);
            git(&["commit-tree", "-p", "HEAD", "-m", "plain", &tree])
        })
        .collect();
    let all = (0..places.len()).flat_map(|a| (a + 1..places.len()).map(move |b| (a, b)));
    let pairs: Vec<(usize, usize)> = all.collect();
    let truth =
        by_git(repo, &pairs.iter().map(|(a, b)| (commits[*a].clone(), commits[*b].clone())).collect::<Vec<_>>());
    pairs.into_iter().zip(truth).map(|((a, b), t)| (a, b, t)).collect()
}

fn ask_all<'e>(repo: &Repo<'e>, places: &[Repo<'e>]) -> Ask<'e> {
    places.iter().enumerate().fold(Ask::new(repo), |ask, (i, at)| ask.place(&i.to_string(), at.path()))
}

fn wrong(answer: &Value, truth: &[(usize, usize, Option<Vec<String>>)]) -> Vec<String> {
    let mut out = Vec::new();
    for (a, b, git) in truth {
        let (a, b) = (a.to_string(), b.to_string());
        let found = level(answer, &a, &b);
        let p = pair(answer, &a, &b);
        if (found == "conflict").then(|| stops(&p)) != *git || found == "unknown" {
            out.push(format!("{a} and {b}: git {git:?}, we {found} {p}"));
        }
    }
    out
}

#[test]
fn uncommitted_work_was_not_compared() {
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::create_dir(repo.join(".git/agents")).unwrap();
    let places = crowd(&repo, 1, 12);
    let before = files(&repo.join(".git/objects"), &|_| false);
    let ask = ask_all(&repo, &places);
    let answer = ask.run();
    assert_eq!(files(&repo.join(".git/objects"), &|_| false), before, "objects were written into the repository");
    let truth = plainly(&repo, &places);
    let bad = wrong(&answer, &truth);
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), truth.len(), bad.join("\n"));
    let conflicts = truth.iter().filter(|t| t.2.is_some()).count();
    assert!(conflicts >= 8 && conflicts < truth.len() - 8, "{conflicts} of {}", truth.len());
    // Each lists where it meets; the worst first.
    let levels: Vec<&str> = answer["pairs"].as_array().unwrap().iter().map(|p| p["level"].as_str().unwrap()).collect();
    let rank = |l: &str| ["conflict", "symbol", "near", "file", "none"].iter().position(|x| *x == l).unwrap();
    assert!(levels.is_sorted_by_key(|l| rank(l)) && levels.contains(&"file"), "{levels:?}");

    // Again, from what is kept; with the kept lines damaged; and without them: the same.
    let cache = repo.join(".git/agents/cache/overlap");
    let kept = std::fs::read_to_string(&cache).unwrap();
    assert_eq!(ask.run(), answer);
    assert_eq!(std::fs::read_to_string(&cache).unwrap(), kept, "nothing new, nothing written");
    let damages: [fn(&str) -> String; 4] = [
        |s| s.replace("conflict", "file"),
        |s| s[..s.len() / 2].to_owned(),
        |s| s.replace("null", "{}").replace('{', "["),
        |_| "\u{0}\u{1}garbage\n x\n".into(),
    ];
    for damage in damages {
        std::fs::write(&cache, damage(&kept)).unwrap();
        assert_eq!(ask.run(), answer);
    }
    std::fs::remove_file(&cache).unwrap();
    std::fs::create_dir(&cache).unwrap();
    assert_eq!(ask.run(), answer);
    std::fs::remove_dir(&cache).unwrap();
    // Asked the other way round it is the same, turned.
    let mut turned = ask_all(&repo, &places);
    turned.sides.reverse();
    let turned = turned.run();
    for p in answer["pairs"].as_array().unwrap() {
        let other = pair(&turned, p["a"].as_str().unwrap(), p["b"].as_str().unwrap());
        assert_eq!((&other["level"], &other["a"]), (&p["level"], &p["b"]));
        for (m, o) in p["meetings"].as_array().unwrap().iter().zip(other["meetings"].as_array().unwrap()) {
            assert_eq!((&m["path"], &m["kind"], &m["a_lines"]), (&o["path"], &o["kind"], &o["b_lines"]));
        }
    }
}

#[test]
fn a_save_was_answered_from_what_was_said_before_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let places = crowd(&repo, 2, 6);
    Ask { saves: 12, ..ask_all(&repo, &places) }.run();
}

#[test]
#[ignore = "nightly"]
fn nightly_a_save_was_answered_from_what_was_said_before_it() {
    for seed in 30..40 {
        let env = Env::new();
        let repo = env.repo("x");
        let places = crowd(&repo, seed, 12);
        Ask { saves: 100, ..ask_all(&repo, &places) }.run();
    }
    eprintln!("1,000 saves among 12 worktrees: 0 answers differ from those of a new round");
}

#[test]
#[ignore = "nightly"]
fn nightly_uncommitted_work_was_not_compared() {
    let (mut asked, mut conflicts) = (0, 0);
    for seed in 10..20 {
        let env = Env::new();
        let repo = env.repo("x");
        let places = crowd(&repo, seed, 20);
        let answer = ask_all(&repo, &places).run();
        let truth = plainly(&repo, &places);
        let bad = wrong(&answer, &truth);
        assert!(bad.is_empty(), "seed {seed}, {} of {}:\n{}", bad.len(), truth.len(), bad.join("\n"));
        asked += truth.len();
        conflicts += truth.iter().filter(|t| t.2.is_some()).count();
    }
    eprintln!("{asked} pairs of worktrees with uncommitted work, {conflicts} conflicts: 0 differ from git");
}

#[test]
fn directory_language_and_settings_of_the_user_changed_the_answer() {
    let env = Env::new();
    let repo = env.repo("x");
    let places = crowd(&repo, 2, 5);
    let ask = ask_all(&repo, &places);
    let answer = ask.run();
    let config = "[user]\n\tuseConfigOnly = true\n[diff]\n\tnoprefix = true\n\texternal = false\n[merge]\n\tconflictStyle = zdiff3\n\
                  \tff = only\n\tverbosity = 5\n[core]\n\tquotePath = true\n\tabbrev = 4\n\tcompression = 9\n[status]\n\
                  \tshowUntrackedFiles = no\n\trelativePaths = true\n[color]\n\tui = always\n[index]\n\tsparse = true\n";
    std::fs::write(env.home().join(".gitconfig"), config).unwrap();
    for dir in [places[1].path().to_owned(), repo.join(".git"), repo.join("src")] {
        let mut ask = ask_all(&repo, &places);
        ask.dir = dir;
        ask.variables =
            vec![("LC_ALL", "de_DE.UTF-8".into()), ("GIT_MERGE_VERBOSITY", "5".into()), ("TZ", "Asia/Tokyo".into())];
        assert_eq!(ask.run(), answer);
    }
}

#[test]
fn each_kind_of_conflict_is_named_with_its_lines() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("bin", b"\0\x01");
    repo.write("run.sh", "#!/bin/sh\ntrue\n");
    repo.write("old/one", "1\n2\n3\n4\n5\n");
    repo.commit("more");
    branch(
        &repo,
        "a",
        "main",
        "sed -i '5s/.*/a/; 40s/.*/a/' src/a.txt; echo a >new; rm src/b.txt; printf '\\0a' >bin; echo f >thing; ln -s a link; \
         git mv old ours; echo a >>README.md; git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,sub",
    );
    branch(
        &repo,
        "b",
        "main",
        "sed -i '5s/.*/b/; 43s/.*/b/' src/a.txt; echo b >new; echo b >>src/b.txt; printf '\\0b' >bin; mkdir thing; echo x >thing/x; \
         ln -s b link; echo 6 >old/two; git update-index --add --cacheinfo 160000,2222222222222222222222222222222222222222,sub",
    );
    let answer = Ask::new(&repo).branch(&repo, "a").branch(&repo, "b").run();
    let p = pair(&answer, "a", "b");
    let kinds: Vec<(&str, &str)> = p["meetings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["path"].as_str().unwrap(), m["kind"].as_str().unwrap_or("-")))
        .collect();
    // A submodule that is in nobody's .gitmodules is added by index alone, which `commit -a` then drops again.
    let expected = [
        ("bin", "binary"),
        ("link", "symlink"),
        ("new", "add-add"),
        ("ours/two", "directory-rename"),
        ("src/a.txt", "content"),
        ("src/b.txt", "modify-delete"),
        ("thing", "directory-file"),
    ];
    assert_eq!(kinds.into_iter().filter(|(p, _)| *p != "sub").collect::<Vec<_>>(), expected, "{p:#}");
    let at = |path: &str| p["meetings"].as_array().unwrap().iter().find(|m| m["path"] == path).unwrap().clone();
    assert_eq!(
        (&at("src/a.txt")["a_lines"], &at("src/a.txt")["b_lines"]),
        (&json!([[5, 5], [40, 40]]), &json!([[5, 5], [43, 43]]))
    );
    assert_eq!(at("bin")["a_lines"], json!([]));
}

#[test]
fn near_and_far_are_told_apart() {
    let env = Env::new();
    let repo = env.repo("x");
    for (name, script) in [
        ("top", "sed -i '10s/.*/top/' src/a.txt"),
        ("close", "sed -i '14s/.*/close/' src/a.txt"),
        ("far", "sed -i '40s/.*/far/' src/a.txt"),
        ("same", "sed -i '10s/.*/top/' src/a.txt"),
        ("other", "echo x >other"),
        ("on-top", "true"),
    ] {
        branch(&repo, name, if name == "on-top" { "top" } else { "main" }, script);
    }
    let names = ["top", "close", "far", "same", "other", "on-top"];
    let answer = names.iter().fold(Ask::new(&repo), |ask, n| ask.branch(&repo, n)).run();
    let found = |a, b| level(&answer, a, b);
    assert_eq!(found("top", "close"), "near", "{answer:#}");
    assert_eq!(found("top", "far"), "file");
    assert_eq!(found("top", "same"), "near", "the same change twice");
    assert_eq!(found("top", "other"), "none");
    assert_eq!(found("top", "on-top"), "none", "one builds on the other");
    assert_eq!(answer["with_base"].as_array().unwrap().len(), 6);
    assert!(answer["with_base"].as_array().unwrap().iter().all(|p| p["level"] == "none"), "{answer:#}");
    assert_eq!(answer["sides"][0]["paths"], 1);
}

#[test]
fn what_cannot_be_told_is_unknown_and_never_free() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("package.lock", "1\n");
    repo.write(".gitattributes", "*.lock merge=lock\n");
    repo.commit("a driver");
    branch(&repo, "a", "main", "echo a >package.lock; sed -i '5s/.*/a/' src/a.txt");
    branch(&repo, "b", "main", "echo b >package.lock");
    branch(&repo, "c", "main", "sed -i '50s/.*/c/' src/a.txt");
    // Its own attributes name the program.
    branch(&repo, "d", "main", "echo 'src/a.txt merge=lock' >>.gitattributes; sed -i '30s/.*/d/' src/a.txt");
    run(
        {
            let mut sh = env.command("sh", repo.path());
            sh.args([
                "-ec",
                "git switch -q --orphan pages; echo p >page; git add page; git commit -q -m pages; git switch -q main",
            ]);
            sh
        },
        b"",
    )
    .ok();
    let empty = env.root().join("code/empty");
    repo.git(&["worktree", "add", "--quiet", "--detach", empty.to_str().unwrap()]);
    Repo::at(&env, &empty).git(&["switch", "--quiet", "--orphan", "unborn"]);
    let names = ["a", "b", "c", "d", "pages"];
    let ask = || names.iter().fold(Ask::new(&repo), |ask, n| ask.branch(&repo, n)).place("unborn", &empty);
    let answer = ask().run();
    let why = |a: &str, b: &str| pair(&answer, a, b)["unknown"].as_str().unwrap_or_default().to_owned();
    assert!(why("a", "b").contains("merged by the program 'lock'"), "{answer:#}");
    assert!(why("c", "d").contains("'.gitattributes', which 'd' changes"), "{answer:#}");
    assert_eq!(level(&answer, "a", "c"), "file");
    for n in ["a", "b", "c", "d"] {
        assert!(why(n, "pages").contains("no common history"), "{answer:#}");
        assert!(why(n, "unborn").contains("its branch is gone"), "{answer:#}");
    }
    assert_eq!(answer["sides"][5]["unknown"], "its branch is gone", "{answer:#}");
    // A blob that only a merge needs is gone: that pair is unknown, the rest is told.
    let blob = repo.git(&["rev-parse", "c:src/a.txt"]);
    std::fs::remove_file(repo.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]))).unwrap();
    let answer = ask().run();
    assert_eq!(level(&answer, "a", "c"), "unknown", "{answer:#}");
    assert_eq!(level(&answer, "b", "c"), "none");
}

#[test]
fn a_partial_clone_was_asked_to_fetch() {
    let env = Env::new();
    let origin = env.repo("origin");
    branch(&origin, "a", "main", "sed -i '5s/.*/a/' src/a.txt");
    branch(&origin, "b", "main", "sed -i '50s/.*/b/' src/a.txt");
    branch(&origin, "c", "main", "echo c >c");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let path = env.root().join("code/x");
    let url = format!("file://{}", origin.path().display());
    origin.git(&["clone", "-q", "--no-checkout", "--filter=blob:none", &url, path.to_str().unwrap()]);
    let repo = Repo::at(&env, &path);
    repo.git(&["remote", "set-url", "origin", "ext::touch pwned"]);
    repo.git(&["config", "protocol.ext.allow", "always"]);
    let ask = ["origin/a", "origin/b", "origin/c"].iter().fold(Ask::new(&repo), |ask, n| ask.branch(&repo, n));
    let answer = ask.run();
    assert_eq!(level(&answer, "origin/a", "origin/b"), "unknown", "{answer:#}");
    assert_eq!(level(&answer, "origin/a", "origin/c"), "none", "trees are enough: {answer:#}");
    assert_no_canary(&env, "offline");
}

#[test]
fn names_that_some_disks_fold_only_warn() {
    let env = Env::new();
    let repo = env.repo("x");
    branch(&repo, "a", "main", "echo a >Readme; echo a >\"$(printf 'caf\\303\\251')\"");
    branch(&repo, "b", "main", "echo b >README; echo b >\"$(printf 'cafe\\314\\201')\"");
    let p = pair(&Ask::new(&repo).branch(&repo, "a").branch(&repo, "b").run(), "a", "b");
    assert_eq!(p["level"], "none");
    assert_eq!(p["twins"], json!([["café", "cafe\u{301}"], ["Readme", "README"]]), "{p:#}");
}

#[test]
fn each_pair_merged_and_the_sequence_did_not() {
    let env = Env::new();
    let repo = env.repo("x");
    branch(&repo, "a", "main", "sed -i '5s/.*/a/' src/a.txt");
    branch(&repo, "b", "main", "sed -i '5s/.*/b/' src/a.txt");
    branch(&repo, "c", "main", "sed -i '40s/.*/c/' src/a.txt");
    branch(&repo, "rival", "main", "sed -i '40s/.*/rival/' src/a.txt");
    let mut ask = ["a", "b", "c", "rival"].iter().fold(Ask::new(&repo), |ask, n| ask.branch(&repo, n));
    ask.order = true;
    for i in [2, 3] {
        ask.sides[i].3 = "group".into();
    }
    let answer = ask.run();
    assert_eq!(pair(&answer, "c", "rival"), Value::Null, "rivals raise no alarm");
    let steps: Vec<(&str, &Value)> =
        answer["order"].as_array().unwrap().iter().map(|s| (s["name"].as_str().unwrap(), &s["with"])).collect();
    assert_eq!(steps, [("c", &json!([])), ("a", &json!([])), ("b", &json!(["a"]))], "{answer:#}");
    assert_eq!(answer["order"][2]["stops"], json!(["src/a.txt"]));

    // Two move a half of a directory each, a third adds to it: every pair merges, and the third after both is stopped by
    // a directory that has gone. Before them it is not.
    let repo = env.repo("y");
    repo.write("old/a", "a\n1\n2\n");
    repo.write("old/b", "b\n3\n4\n");
    repo.commit("a directory");
    branch(&repo, "p", "main", "mkdir new; git mv old/a new/a");
    branch(&repo, "q", "main", "mkdir new; git mv old/b new/b");
    branch(&repo, "r", "main", "echo c >old/c");
    let three: Vec<(String, String)> = vec![(repo.tip("p"), repo.tip("q"))];
    assert_eq!(by_git(&repo, &three), [None]);
    repo.git(&["switch", "--quiet", "--detach", "p"]);
    repo.git(&["merge", "--quiet", "q", "-m", "both"]);
    assert!(by_git(&repo, &[(repo.tip("HEAD"), repo.tip("r"))])[0].is_some(), "the third one stops");
    repo.git(&["switch", "--quiet", "main"]);
    let mut ask = ["p", "q", "r"].iter().fold(Ask::new(&repo), |ask, n| ask.branch(&repo, n));
    ask.order = true;
    let answer = ask.run();
    assert!(answer["pairs"].as_array().unwrap().iter().all(|p| p["level"] != "conflict"), "{answer:#}");
    let steps: Vec<&str> = answer["order"].as_array().unwrap().iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(steps, ["r", "p", "q"], "{answer:#}");
    assert!(answer["order"].as_array().unwrap().iter().all(|s| s["stops"] == json!([])), "{answer:#}");
}

#[test]
fn judging_ran_a_program_of_the_repository() {
    let env = Env::new();
    let repo = env.repo("x");
    let places = crowd(&repo, 3, 4);
    places[3].git(&["update-index", "--split-index"]);
    let canary = env.root().join("pwned");
    let touch = format!("touch '{}'; cat; false", canary.display());
    let script = env.script("evil", &format!("#!/bin/sh\ntouch '{}'\nexit 1\n", canary.display()));
    let script = script.to_str().unwrap();
    std::fs::write(repo.join(".git/info/attributes"), "* filter=evil merge=evil diff=evil\n").unwrap();
    let hooks = env.root().join("hooks");
    for hook in ["post-index-change", "reference-transaction", "pre-commit", "post-checkout", "fsmonitor-watchman"] {
        std::fs::create_dir_all(&hooks).unwrap();
        env.script_at(&hooks.join(hook), &format!("#!/bin/sh\ntouch '{}'\n", canary.display()));
        env.script_at(&repo.join(".git/hooks").join(hook), &format!("#!/bin/sh\ntouch '{}'\n", canary.display()));
    }
    for (key, value) in [
        ("core.hooksPath", hooks.to_str().unwrap()),
        ("core.fsmonitor", script),
        ("core.sshCommand", script),
        ("core.pager", script),
        ("core.editor", script),
        ("core.attributesFile", "/nowhere"),
        ("core.alternateRefsCommand", script),
        ("filter.evil.clean", &touch),
        ("filter.evil.smudge", &touch),
        ("filter.evil.required", "true"),
        ("merge.evil.driver", &touch),
        ("merge.default", "evil"),
        ("merge.tool", "evil"),
        ("diff.evil.command", script),
        ("diff.evil.textconv", script),
        ("diff.external", script),
        ("uploadpack.packObjectsHook", script),
        ("gpg.program", script),
        ("commit.gpgSign", "true"),
        ("credential.helper", script),
        ("alias.merge-tree", "!evil"),
    ] {
        repo.git(&["config", key, value]);
    }
    std::fs::remove_file(&canary).unwrap_or_default();
    let mut ask = ask_all(&repo, &places);
    ask.order = true;
    let answer = ask.run();
    assert_no_canary(&env, "judging");
    // All of it would be converted and merged by that program: nothing of what both touch is known.
    let known: Vec<&Value> = answer["pairs"].as_array().unwrap().iter().filter(|p| p["unknown"].is_null()).collect();
    assert!(known.iter().all(|p| p["level"] != "file" && p["level"] != "near"), "{known:#?}");
    // A pipe where a file is read, a link that leads out.
    let at = &places[3];
    std::os::unix::fs::symlink("/etc", at.join("out")).unwrap();
    nix::unistd::mkfifo(&at.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::remove_file(&canary).unwrap_or_default();
    ask_all(&repo, &places).run();
    assert_no_canary(&env, "judging odd files");
}

#[test]
fn a_round_left_its_store_behind() {
    let env = Env::new();
    let repo = env.repo("x");
    let places = crowd(&repo, 4, 3);
    let runtime = env.root().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    let mine = || -> Vec<PathBuf> {
        let dirs = [env.root().join("tmp"), repo.join(".git/agents"), runtime.clone()];
        dirs.iter().filter(|d| d.exists()).flat_map(|d| files(d, &|_| false)).collect()
    };
    let before = mine();
    ask_all(&repo, &places).run();
    assert_eq!(mine(), before);
    assert!(!repo.join(".git/agents").exists(), "a reader made a folder of ours");
}

#[test]
fn repositories_of_another_form_were_not_judged() {
    let env = Env::new();
    for form in ["--object-format=sha256", "--ref-format=reftable", "--bare"] {
        let name = form.trim_start_matches('-').replace('=', "-");
        let at = env.root().join("code").join(&name);
        let mut init = env.command("git", env.root());
        init.args(["init", "--quiet", form]).arg(&at);
        if run(init, b"").status != 0 {
            // Older versions have no reftables.
            assert_eq!(form, "--ref-format=reftable");
            continue;
        }
        let repo = Repo::at(&env, &at);
        let tree = |name: &str| env.root().join(format!("code/{}-{name}", form.len()));
        if form == "--bare" {
            let path = tree("main");
            repo.git(&["worktree", "add", "--quiet", "--orphan", "-b", "main", path.to_str().unwrap()]);
        }
        let main = if form == "--bare" { Repo::at(&env, tree("main")) } else { repo.clone() };
        main.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        main.commit("base");
        let mut ask = Ask::new(&repo);
        for (name, line) in [("a", "1"), ("b", "1"), ("c", "9")] {
            let path = tree(name);
            repo.git(&["worktree", "add", "--quiet", "-b", name, path.to_str().unwrap(), "main"]);
            let text = main.read("f").replace(&format!("{line}\n"), &format!("{name}\n"));
            Repo::at(&env, &path).write("f", text);
            ask = ask.place(name, &path);
        }
        let answer = ask.run();
        assert_eq!(level(&answer, "a", "b"), "conflict", "{form}: {answer:#}");
        assert_eq!(level(&answer, "a", "c"), "file", "{form}: {answer:#}");
    }
}
