//! A snapshot is the tree that `git add -A && git write-tree` writes, and leaves nothing behind.

use super::Ask;
use crate::restore::{Random, disorder, to_clash_with};
use crate::support::wait::files;
use crate::support::{Env, Repo, tree_state};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

/// What git itself makes of a worktree; `None` while paths are unmerged.
fn by_git(at: &Repo<'_>) -> Option<String> {
    if !at.git(&["ls-files", "--unmerged"]).is_empty() {
        return None;
    }
    let dir = tempfile::tempdir_in(at.env.root()).unwrap();
    let admin = PathBuf::from(at.git(&["rev-parse", "--absolute-git-dir"]));
    let objects = at.common_dir().join("objects");
    std::fs::create_dir(dir.path().join("objects")).unwrap();
    if admin.join("index").exists() {
        std::fs::copy(admin.join("index"), dir.path().join("index")).unwrap();
        // Its time is part of what it says.
        let written = admin.join("index").metadata().unwrap().modified().unwrap();
        let copy = std::fs::File::options().write(true).open(dir.path().join("index")).unwrap();
        copy.set_modified(written).unwrap();
    }
    let git = |args: &[&str]| {
        let mut command = at.env.command("git", at.path());
        command.env("GIT_INDEX_FILE", dir.path().join("index"));
        command.env("GIT_OBJECT_DIRECTORY", dir.path().join("objects"));
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", &objects).args(args);
        crate::support::env::run(command, b"")
    };
    // 1 where a repository inside has no commit: the rest is added. Work outside a sparse checkout is work.
    let out = git(&["add", "-A", "--ignore-errors", "--sparse"]);
    assert!(out.status <= 1, "{out}");
    Some(git(&["write-tree"]).ok().stdout.trim().to_owned())
}

/// Everything a reader could have left: all files of the repository but what is ours and expendable.
fn left(repo: &Repo<'_>) -> Vec<PathBuf> {
    let mut all = files(&repo.common_dir(), &|_| false);
    all.retain(|f| !f.components().any(|c| c.as_os_str() == "agents"));
    all.sort();
    all
}

/// Compares snapshots of all worktrees with git's; how many differ from their commit.
#[track_caller]
fn compare(repo: &Repo<'_>, places: &[(Repo<'_>, String)]) -> usize {
    let truth: Vec<Option<String>> = places.iter().map(|(at, _)| by_git(at)).collect();
    let before =
        (left(repo), tree_state(&repo.common_dir().join("worktrees")), tree_state(&repo.common_dir().join("refs")));
    let ask = places.iter().enumerate().fold(Ask::new(repo), |ask, (i, (at, _))| ask.place(&i.to_string(), at.path()));
    let answer = ask.run();
    let after =
        (left(repo), tree_state(&repo.common_dir().join("worktrees")), tree_state(&repo.common_dir().join("refs")));
    assert!(before == after, "a snapshot left something behind");
    let (mut wrong, mut dirty) = (Vec::new(), 0);
    for ((side, truth), (at, what)) in answer["sides"].as_array().unwrap().iter().zip(&truth).zip(places) {
        match truth {
            None => assert!(side["unmerged"] == true && side["dirty"] == true, "{what}: {side:#}"),
            Some(tree) if side["tree"] != *tree || side["unmerged"] == true || !side["unknown"].is_null() => {
                wrong.push(format!("{what}\n  git: {tree}, we: {side}\n{}", at.try_git(&["status", "--short"]).stdout));
            }
            Some(_) => dirty += usize::from(side["dirty"] == true),
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), places.len(), wrong.join("\n"));
    dirty
}

/// Worktrees in random states, `rules` set first in some of them.
fn random(seed: u64, count: u64) -> usize {
    let env = Env::new();
    let repo = env.repo("x");
    to_clash_with(&repo);
    repo.write("crlf.txt", "one\r\ntwo\r\n");
    repo.commit("Stored with carriage returns");
    let places: Vec<(Repo<'_>, String)> = (seed..seed + count)
        .map(|seed| {
            let path = env.root().join(format!("code/w{seed}"));
            repo.git(&["worktree", "add", "--quiet", "-b", &format!("w{seed}"), path.to_str().unwrap()]);
            let at = Repo::at(&env, path);
            let mut random = Random::new(seed);
            let rules =
                ["", "", "* text=auto\n", "*.txt text eol=crlf\n", "*.txt ident\n*.md -text\n"][random.below(5)];
            let mut what = format!("rules {rules:?}, {}", disorder(&at, seed));
            if !rules.is_empty() {
                at.write(".gitattributes", rules);
            }
            for _ in 0..random.below(4) {
                what = format!("{what}, {}", more(&at, &mut random));
            }
            // Whether git looks again at a file of the same second as its index depends on how git was built.
            if let Ok(file) = std::fs::File::options().write(true).open(at.join("crlf.txt")) {
                let hour = std::time::Duration::from_secs(3600);
                file.set_modified(std::time::SystemTime::now() - hour).unwrap();
            }
            (at, what)
        })
        .collect();
    compare(&repo, &places)
}

/// What `disorder` does not do.
fn more(at: &Repo<'_>, random: &mut Random) -> &'static str {
    match random.below(8) {
        0 => {
            at.write("crlf.txt", "one\r\nchanged\r\n");
            "edited with carriage returns"
        }
        1 => {
            at.write("mixed.txt", "one\r\ntwo\n$Id$\n");
            "mixed endings"
        }
        2 => {
            let _ = std::fs::remove_dir_all(at.join("src"));
            at.write("src", "a file\n");
            "a file instead of a directory"
        }
        3 => {
            let _ = std::fs::remove_file(at.join("README.md"));
            let _ = std::fs::create_dir(at.join("README.md"));
            let _ = std::fs::write(at.join("README.md/x"), "x\n");
            "a directory instead of a file"
        }
        4 => {
            let _ = std::fs::rename(at.join("src"), at.join("sources"));
            let _ = symlink("sources", at.join("src"));
            "a link instead of a directory"
        }
        5 => {
            at.git(&["init", "--quiet", "inner"]);
            let inner = Repo::at(at.env, at.join("inner"));
            inner.write("f", "f\n");
            inner.commit("inside");
            "a repository with a commit inside"
        }
        6 => {
            let _ = std::fs::set_permissions(at.join("README.md"), std::fs::Permissions::from_mode(0o755));
            "executable"
        }
        _ => {
            let _ = std::process::Command::new("touch").arg(at.join("crlf.txt")).status();
            "touched"
        }
    }
}

mod older_git {
    use super::*;

    #[test]
    fn random_worktrees_had_another_tree() {
        let dirty = random(1, 25);
        assert!(dirty >= 10, "only {dirty} of 25 differ from their commit");
    }

    #[test]
    fn indexes_of_another_form() {
        let env = Env::new();
        let repo = env.repo("x");
        let place = |name: &str| {
            let path = env.root().join("code").join(name);
            repo.git(&["worktree", "add", "--quiet", "-b", name, path.to_str().unwrap()]);
            Repo::at(&env, path)
        };
        let split = place("split");
        split.git(&["update-index", "--split-index"]);
        let sparse = place("sparse");
        sparse.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "docs"]);
        let old = place("version-4");
        old.git(&["update-index", "--index-version", "4"]);
        let mut places = vec![(split, "split".into()), (sparse, "sparse".into()), (old, "version 4".into())];
        // Nothing changed, then something.
        compare(&repo, &places);
        for (at, _) in &places {
            at.write("README.md", "edited\n");
            at.write("new/file.txt", "new\n");
        }
        assert_eq!(compare(&repo, &places), 3);
        for (at, _) in &places {
            at.git(&["add", "--sparse", "-A"]);
            std::fs::remove_file(at.join("new/file.txt")).unwrap();
        }
        places.push((repo.clone(), "the main checkout".into()));
        repo.write("README.md", "main\n");
        assert_eq!(compare(&repo, &places), 4);
    }
}

#[test]
#[ignore = "nightly"]
fn nightly_random_worktrees_had_another_tree() {
    let dirty: usize = (1000..1400).step_by(25).map(|seed| random(seed, 25)).sum();
    eprintln!("400 random worktrees, {dirty} of them dirty: every snapshot has git's tree");
}

#[test]
fn submodules_are_pointers_and_nothing_of_theirs_runs() {
    let env = Env::new();
    let repo = env.repo("x");
    let inner = env.repo("inner");
    repo.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        inner.path().to_str().unwrap(),
        "sub",
    ]);
    repo.commit("a submodule");
    let sub = Repo::at(&env, repo.join("sub"));
    let canary = env.root().join("pwned");
    sub.git(&["config", "core.fsmonitor", &format!("touch {}; false", canary.display())]);
    sub.git(&["config", "filter.x.clean", &format!("touch {}; cat", canary.display())]);
    sub.write(".gitattributes", "* filter=x\n");
    sub.write("README.md", "dirty inside\n");
    std::fs::remove_file(&canary).unwrap_or_default();
    let look = || {
        let answer = Ask::new(&repo).place("main", repo.path()).run();
        assert!(!canary.exists(), "something of the submodule ran");
        answer["sides"][0].clone()
    };
    // Its own dirt is its own business.
    let side = look();
    assert_eq!((side["dirty"].as_bool(), &side["tip"]), (Some(false), &side["commit"]), "{side:#}");
    std::fs::write(sub.path().join("more"), "more\n").unwrap();
    sub.git(&["-c", "core.fsmonitor=false", "-c", "filter.x.clean=cat", "add", "more"]);
    sub.git(&["-c", "core.fsmonitor=false", "-c", "filter.x.clean=cat", "commit", "--quiet", "-m", "moved"]);
    let _ = std::fs::remove_file(&canary);
    // The same by the program, as a split index wants it.
    for split in [false, true] {
        if split {
            repo.git(&["-c", "core.splitIndex=true", "update-index", "--split-index"]);
            let _ = std::fs::remove_file(&canary);
        }
        let side = look();
        let tree = side["tree"].as_str().unwrap().to_owned();
        // Its objects are gone with the store: the same change, made by git.
        assert_eq!(side["dirty"], true);
        let mut git = env.command("git", repo.path());
        git.env("GIT_INDEX_FILE", env.root().join("index"));
        git.args(["read-tree", "HEAD"]);
        crate::support::env::run(git, b"").ok();
        let mut git = env.command("git", repo.path());
        git.env("GIT_INDEX_FILE", env.root().join("index"));
        git.args([
            "update-index",
            "--cacheinfo",
            &format!("160000,{},sub", sub.git(&["-c", "core.fsmonitor=false", "rev-parse", "HEAD"])),
        ]);
        crate::support::env::run(git, b"").ok();
        let mut git = env.command("git", repo.path());
        git.env("GIT_INDEX_FILE", env.root().join("index")).arg("write-tree");
        assert_eq!(crate::support::env::run(git, b"").ok().stdout.trim(), tree);
        let _ = std::fs::remove_file(&canary);
    }
}

#[test]
fn filters_of_the_user_run_and_those_of_the_repository_do_not() {
    let env = Env::new();
    let repo = env.repo("x");
    let canary = env.root().join("pwned");
    repo.git(&["config", "--global", "filter.up.clean", "tr a-z A-Z"]);
    repo.write(".gitattributes", "*.up filter=up\n*.evil filter=evil\n*.none filter=none\n");
    repo.write("a.up", "text\n");
    repo.write("a.evil", "text\n");
    repo.commit("Rules");
    repo.git(&["config", "filter.evil.clean", &format!("touch {}; cat", canary.display())]);
    repo.git(&["branch", "other"]);
    for f in ["a.up", "new.up", "a.none"] {
        repo.write(f, "changed\n");
    }
    let side = |answer: &Value| answer["sides"][0].clone();
    let answer = Ask::new(&repo).place("main", repo.path()).run();
    assert_eq!(side(&answer)["tree"], by_git(&repo).unwrap().as_str());
    assert_eq!(side(&answer)["doubtful"], serde_json::json!({}));
    repo.write("a.evil", "changed\n");
    let _ = std::fs::remove_file(&canary);
    repo.git(&["branch", "far", "other"]);
    let path = env.root().join("code/near");
    repo.git(&[
        "-c",
        "filter.evil.clean=cat",
        "worktree",
        "add",
        "--quiet",
        "-b",
        "near",
        path.to_str().unwrap(),
        "other",
    ]);
    let near = Repo::at(&env, &path);
    near.write("a.evil", "theirs\n");
    near.git(&["-c", "filter.evil.clean=cat", "commit", "--quiet", "-am", "theirs"]);
    let _ = std::fs::remove_file(&canary);
    let answer = Ask::new(&repo).place("main", repo.path()).branch(&repo, "near").branch(&repo, "far").run();
    assert!(!canary.exists(), "a filter of the repository ran");
    assert!(side(&answer)["doubtful"]["a.evil"].as_str().unwrap().contains("'evil'"), "{answer:#}");
    assert_eq!(super::level(&answer, "main", "near"), "unknown", "{answer:#}");
    assert_eq!(super::level(&answer, "main", "far"), "none", "{answer:#}");
}

#[test]
fn a_conflict_that_is_being_resolved_is_compared_by_its_tip() {
    let env = Env::new();
    let repo = env.repo("x");
    to_clash_with(&repo);
    let path = env.root().join("code/w");
    repo.git(&["worktree", "add", "--quiet", "-b", "w", path.to_str().unwrap()]);
    let at = Repo::at(&env, &path);
    at.write("src/b.txt", "ours\n");
    let tip = at.commit("Ours");
    at.try_git(&["merge", "theirs"]);
    let side = Ask::new(&repo).place("w", &path).run()["sides"][0].clone();
    assert_eq!((&side["unmerged"], &side["commit"]), (&true.into(), &tip.as_str().into()), "{side:#}");
    // Resolved, not committed: it stands on both.
    at.write("src/b.txt", "resolved\n");
    at.git(&["add", "src/b.txt"]);
    let answer = Ask::new(&repo).place("w", &path).branch(&repo, "theirs").run();
    assert_eq!(answer["sides"][0]["unmerged"], false);
    assert_eq!(super::level(&answer, "w", "theirs"), "none", "what is merged is no conflict any more: {answer:#}");
}
