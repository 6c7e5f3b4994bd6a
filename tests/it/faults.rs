//! State that somebody else damaged, moved or half deleted: said as it is, with the command that mends it.

use crate::support::env::run;
use crate::support::{Env, Repo, assert_same_tree, repo_invariants, tree_state};
use serde_json::Value;
use std::path::Path;

fn agent<'e>(repo: &Repo<'e>, name: &str) -> Repo<'e> {
    let at = repo.agent(name);
    at.write("made.txt", "made\n");
    at.commit("Made");
    at.write("made.txt", "edited\n");
    at.write("left.txt", "left\n");
    at
}

fn only(repo: &Repo<'_>) -> Value {
    let agents = repo.status()["agents"].as_array().unwrap().clone();
    assert_eq!(agents.len(), 1, "{agents:?}");
    agents[0].clone()
}

/// Runs a hint as a person would.
fn type_in(env: &Env, dir: &Path, line: &str) {
    let mut sh = env.command("sh", dir);
    sh.args(["-e", "-c", line]);
    run(sh, b"").ok();
}

/// What is quoted between `start` and the next quote that ends a word.
fn quoted_command(text: &str, start: &str) -> String {
    let from = text.find(start).unwrap_or_else(|| panic!("no '{start}' in: {text}"));
    let rest = &text[from..];
    rest[..rest.find("' mends").unwrap_or_else(|| rest.find('\n').unwrap_or(rest.len()))].to_owned()
}

#[test]
fn a_tree_that_stayed_was_said_to_be_in_the_trash() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent(&repo, "t");
    let before = tree_state(at.path());
    std::fs::remove_dir_all(repo.join(".git/worktrees/t")).unwrap();
    let a = only(&repo);
    assert_eq!(a["zombie"], "missing", "{a}");
    assert!(a["findings"][0].as_str().unwrap().contains(&at.path().display().to_string()), "{a}");
    assert!(repo.agents(&["rm", "--dry-run", "t"]).ok().stderr.contains("stand at"));
    let out = repo.agents(&["rm", "t"]).ok();
    assert!(!out.stderr.contains("trash") && out.stderr.contains("its branch stays"), "{out}");
    let place = at.path().display().to_string();
    assert!(out.stderr.contains(&format!("stand at '{place}'")), "{out}");
    assert!(out.stderr.contains("git agents restore t") && out.stderr.contains(&format!("rm -r {place}")), "{out}");
    assert_same_tree(&before, &tree_state(at.path()));
    repo.agents(&["restore", "t"]).ok();
    assert_same_tree(&before, &tree_state(at.path()));
    assert_eq!(at.git(&["status", "--porcelain"]), " M made.txt\n?? left.txt");
    let a = only(&repo);
    assert_eq!((&a["findings"], &a["zombie"], &a["ahead"]), (&serde_json::json!([]), &Value::Null, &1.into()), "{a}");
    repo_invariants(&repo);
    // And from there all the way.
    repo.agents(&["rm", "t"]).ok();
    assert!(!at.path().exists());
    repo.agents(&["restore", "t"]).ok();
    assert_same_tree(&before, &tree_state(at.path()));
}

#[test]
fn with_its_branch_deleted_a_tree_that_stayed_comes_back_too() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent(&repo, "t");
    let before = tree_state(at.path());
    std::fs::remove_dir_all(repo.join(".git/worktrees/t")).unwrap();
    repo.agents(&["rm", "-D", "t"]).ok();
    assert!(!repo.has("refs/heads/t") && at.join("left.txt").exists());
    repo.agents(&["restore", "t"]).ok();
    assert_same_tree(&before, &tree_state(at.path()));
    assert_eq!(at.git(&["status", "--porcelain"]), " M made.txt\n?? left.txt");
    // Its files were deleted meanwhile: what there is comes back, and that is said.
    std::fs::remove_dir_all(repo.join(".git/worktrees/t")).unwrap();
    repo.agents(&["rm", "t"]).ok();
    std::fs::remove_dir_all(at.path()).unwrap();
    let out = repo.agents(&["restore", "t"]).ok();
    assert!(out.stderr.contains("no longer at"), "{out}");
    assert_eq!(only(&repo)["ahead"], 1);
}

#[test]
fn a_directory_that_was_gone_was_said_to_be_in_the_trash() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent(&repo, "t");
    std::fs::remove_dir_all(at.path()).unwrap();
    let out = repo.agents(&["rm", "t"]).ok();
    assert!(!out.stderr.contains("trash") && out.stderr.contains("gone already"), "{out}");
}

#[test]
fn after_a_move_of_the_repository_every_agent_was_a_zombie() {
    for both in [true, false] {
        let env = Env::new();
        let repo = env.repo("x");
        let trees: Vec<_> = ["one", "two two"].map(|n| n.replace(' ', "-")).iter().map(|n| agent(&repo, n)).collect();
        let before: Vec<_> = trees.iter().map(|t| tree_state(&t.join("src"))).collect();
        let (old, new) = (env.root().join("code"), env.root().join("it's moved"));
        let (moved, folder) = if both {
            std::fs::rename(&old, &new).unwrap();
            (new.join("x"), new.join("x.agents"))
        } else {
            std::fs::create_dir(&new).unwrap();
            std::fs::rename(old.join("x"), new.join("x")).unwrap();
            (new.join("x"), old.join("x.agents"))
        };
        let repo = Repo::at(&env, &moved);
        let status = repo.status();
        for a in status["agents"].as_array().unwrap() {
            assert_eq!(a["zombie"], Value::Null, "{a}");
            assert!(a["findings"][0].as_str().unwrap().contains("worktree repair"), "{a}");
        }
        let out = repo.agents(&["rm", "one"]);
        assert!(out.status != 0 && out.stderr.contains("hint: git -C "), "{out}");
        assert!(folder.join("one/left.txt").exists() && !moved.join(".git/agents/trash/x").exists());
        // One command mends all of them, as it is printed.
        let shown = repo.agents(&["status"]).ok();
        let hint = quoted_command(&shown.stderr, "git -C ");
        assert!(hint.contains("one") && hint.contains("two-two"), "{shown}");
        type_in(&env, env.root(), &hint);
        for (name, before) in ["one", "two-two"].iter().zip(&before) {
            let at = Repo::at(&env, folder.join(name));
            assert_same_tree(before, &tree_state(&at.join("src")));
            assert_eq!(at.git(&["status", "--porcelain"]), " M made.txt\n?? left.txt");
        }
        let status = repo.status();
        for a in status["agents"].as_array().unwrap() {
            assert_eq!((&a["zombie"], &a["findings"]), (&Value::Null, &serde_json::json!([])), "{a}");
        }
        repo.agents(&["rm", "one"]).ok();
    }
}

/// The trash's only folder.
fn trash(repo: &Repo<'_>) -> std::path::PathBuf {
    let mut all = std::fs::read_dir(repo.join(".git/agents/trash")).unwrap();
    let one = all.next().unwrap().unwrap().path();
    assert!(all.next().is_none());
    one
}

#[test]
fn a_damaged_trash_entry_was_left_out_without_a_word() {
    for damage in ["{\"version\": 1, \"id", "", "not there"] {
        let env = Env::new();
        let repo = env.repo("x");
        let at = agent(&repo, "feat/t");
        let (before, tip) = (tree_state(at.path()), at.tip("HEAD"));
        repo.agents(&["rm", "-D", "feat/t"]).ok();
        let file = trash(&repo).join("entry.json");
        if damage == "not there" {
            std::fs::remove_file(&file).unwrap();
        } else {
            std::fs::write(&file, damage).unwrap();
        }
        let list = repo.agents(&["restore", "--list"]).ok();
        assert!(list.stdout.contains("feat/t") && list.stderr.contains("is damaged"), "{list}");
        assert!(list.stderr.contains("entry.json") && list.stderr.contains("refs/agents/removed/"), "{list}");
        let json = repo.agents(&["restore", "--list", "--json"]).ok().json()["removed"][0].clone();
        assert_eq!(
            (&json["name"], &json["branch"], &json["tip"]),
            (&"feat/t".into(), &"feat/t".into(), &tip.clone().into())
        );
        assert!(json["damaged"].is_string() && json["path"].is_string(), "{json}");
        let out = repo.agents(&["restore", "feat/t"]).ok();
        assert!(out.stderr.contains("damaged"), "{out}");
        assert_same_tree(&before, &tree_state(at.path()));
        assert_eq!((at.tip("HEAD"), at.git(&["status", "--porcelain"])), (tip, " M made.txt\n?? left.txt".into()));
        let a = only(&repo);
        assert_eq!(
            (&a["findings"], &a["zombie"], &a["ahead"]),
            (&serde_json::json!([]), &Value::Null, &1.into()),
            "{a}"
        );
        repo_invariants(&repo);
    }
}

#[test]
fn of_a_trash_entry_that_lost_everything_only_the_branch_came_back() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent(&repo, "t");
    let tip = at.tip("HEAD");
    repo.agents(&["rm", "-D", "t"]).ok();
    let dir = trash(&repo);
    for what in ["tree", "admin"] {
        std::fs::remove_dir_all(dir.join(what)).unwrap();
    }
    std::fs::write(dir.join("entry.json"), "\0").unwrap();
    let out = repo.agents(&["restore", "t"]).ok();
    assert!(out.stderr.contains("it comes from its capture") && out.stderr.contains("ignored files"), "{out}");
    assert_eq!(repo.tip("t"), tip);
    assert_eq!((at.read("left.txt"), at.read("made.txt")), ("left\n".to_owned(), "edited\n".to_owned()));
    at.git(&["status", "--porcelain"]);
}

#[test]
fn a_damaged_registration_was_a_dead_end() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent(&repo, "feat/t");
    repo.agents(&["run", "-a", "scripted", "1. Run {name=ran}\n   - WRITE: a.txt: a\n   - COMMIT: A"]);
    let config = |name: &str| {
        let lines = repo.git(&["config", "--get-regexp", &format!("^agent\\.{}\\.", name.replace('/', "."))]);
        lines.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let before = (config("feat/t"), tree_state(at.path()));
    let spoilt = [("id", "{\"por"), ("branch", "main"), ("fork", "zz"), ("id", ""), ("base", "\0"), ("worktree", "..")];
    for (key, value) in spoilt {
        let full = format!("agent.feat/t.{key}");
        if value == "\0" {
            repo.git(&["config", "--unset", &full]);
        } else {
            repo.git(&["config", &full, value]);
        }
        if key != "worktree" {
            for args in [&["rm", "feat/t"][..], &["retry", "feat/t"], &["show", "feat/t"]] {
                let out = repo.agents(args).code(128);
                assert!(out.stderr.contains(&format!("'{key}' is")), "{out}");
                assert!(out.stderr.contains("hint: git agents adopt feat/t"), "{out}");
            }
            let status = repo.agents(&["status"]).ok();
            assert!(status.stderr.contains("damaged") && status.stderr.contains("git agents adopt feat/t"), "{status}");
            let json = repo.status()["damaged"].clone();
            assert_eq!((&json[0]["name"], &json[0]["mend"]), (&"feat/t".into(), &"git agents adopt feat/t".into()));
            let out = repo.agents(&["adopt", "feat/t"]).ok();
            assert!(out.stderr.contains(&at.path().display().to_string()), "{out}");
            assert_eq!(config("feat/t"), before.0, "{key}");
        } else {
            repo.git(&["config", &full, "feat-t"]);
            repo.git(&["config", "--unset", &full]);
            repo.git(&["config", "--unset", "agent.feat/t.id"]);
            repo.agents(&["adopt", "feat/t"]).ok();
        }
        assert_same_tree(&before.1, &tree_state(at.path()));
    }
    // All of it gone but the section: the newest task of that name is it.
    for key in ["id", "branch", "base", "fork", "worktree"] {
        let _ = repo.try_git(&["config", "--unset", &format!("agent.feat/t.{key}")]);
    }
    repo.git(&["config", "agent.feat/t.id", "x"]);
    repo.agents(&["adopt", "feat/t"]).ok();
    let a = repo.status()["agents"].as_array().unwrap().iter().find(|a| a["name"] == "feat/t").cloned().unwrap();
    assert_eq!((&a["findings"], &a["zombie"], &a["ahead"]), (&serde_json::json!([]), &Value::Null, &1.into()), "{a}");
    repo.agents(&["rm", "feat/t"]).ok();
    // Nothing tells of it: the way out is git's.
    repo.git(&["config", "agent.ghost o'x.id", "x"]);
    let out = repo.agents(&["adopt", "ghost o'x"]).code(128);
    let line = quoted_command(&out.stderr, "git config --remove-section");
    let line = line.split_once("' takes").unwrap().0.to_owned();
    type_in(&env, repo.path(), &line);
    assert_eq!(repo.status()["damaged"], serde_json::json!([]));
}

#[test]
fn a_worktree_whose_name_is_no_text_was_not_listed() {
    use std::os::unix::ffi::OsStrExt as _;
    let env = Env::new();
    let repo = env.repo("x");
    let path = env.root().join("code").join(std::ffi::OsStr::from_bytes(b"odd-\xff\xfe"));
    let mut args: Vec<&std::ffi::OsStr> = ["worktree", "add", "-q", "-b", "odd"].map(std::ffi::OsStr::new).to_vec();
    args.push(path.as_os_str());
    repo.git(&args);
    let status = repo.status();
    let listed = status["unmanaged"][0].clone();
    assert_eq!(listed["branch"], "odd", "{status}");
    let bytes = listed["worktree"]["bytes"].as_str().unwrap_or_else(|| panic!("{listed}"));
    assert!(!bytes.is_empty());
    repo.agents(&["status"]).ok();
    let out = repo.agents(&["adopt", "odd"]).code(128);
    assert!(out.stderr.contains("not plain text"), "{out}");
    assert_eq!(repo.status()["agents"], serde_json::json!([]));
}

/// Whether `rm` finds nothing left over in `at`, which has no commit of its own: then the branch goes as well.
fn nothing_left_over(repo: &Repo<'_>, name: &str) -> bool {
    let out = repo.agents(&["rm", "--dry-run", name]).ok();
    out.stderr.contains("with its branch")
}

fn modified(repo: &Repo<'_>, name: &str) -> Value {
    let all = repo.status();
    all["agents"].as_array().unwrap().iter().find(|a| a["name"] == name).unwrap()["dirty"]["modified"].clone()
}

#[test]
fn a_fresh_tree_could_never_be_clean_for_its_line_endings() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("doc.md", "a\r\nb\r\n");
    repo.write("mixed.txt", "a\r\nb\n");
    repo.write("bin.dat", "a\r\n\0b\n");
    repo.commit("CRLF stored");
    repo.write(".gitattributes", "*.md text eol=lf\nmixed.txt text eol=crlf\n");
    repo.git(&["add", ".gitattributes"]);
    repo.git(&["commit", "-q", "-m", "And a rule against it"]);
    let at = repo.agent("k");
    // Looked at anew, as after the second in which it was written.
    let again = |path: &str, text: &str| at.write(path, text);
    let fresh = |path: &str| std::fs::read_to_string(at.join(path)).unwrap();
    let (doc, mixed) = (fresh("doc.md"), fresh("mixed.txt"));
    again("doc.md", &doc);
    again("mixed.txt", &mixed);
    assert_eq!(at.git(&["status", "--porcelain"]), " M doc.md\n M mixed.txt", "the set-up is as reported");
    assert_eq!(modified(&repo, "k"), 0);
    assert!(nothing_left_over(&repo, "k"));
    // git agrees: nothing but line endings would be committed.
    assert_eq!(at.git(&["diff", "--ignore-cr-at-eol", "--stat"]), "");
    // Each real change counts, line endings of one's own as well.
    let was = std::fs::metadata(at.join("doc.md")).unwrap().permissions();
    for (path, text) in [
        ("doc.md", "a\r\nB\r\n"),
        ("doc.md", "a\nb\n"),
        ("doc.md", "a\r\nb\r\n\r\n"),
        ("doc.md", "a\r\nb"),
        ("mixed.txt", "a\r\nc\r\n"),
        ("bin.dat", "a\n\0b\n"),
        ("src/b.txt", "one\r\ntwo\r\nthree\r\n"),
    ] {
        let before = std::fs::read(at.join(path)).unwrap();
        again(path, text);
        assert!(!nothing_left_over(&repo, "k"), "{path}: {text:?}");
        assert_eq!(modified(&repo, "k"), 1, "{path}: {text:?}");
        at.write(path, before);
        assert!(nothing_left_over(&repo, "k"), "{path} again as it was");
    }
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(at.join("doc.md"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(!nothing_left_over(&repo, "k"));
    std::fs::set_permissions(at.join("doc.md"), was).unwrap();
    // What is staged is work.
    at.git(&["add", "--renormalize", "doc.md"]);
    assert!(!nothing_left_over(&repo, "k"));
    at.git(&["reset", "-q"]);
    let tree = tree_state(at.path());
    repo.agents(&["rm", "k"]).ok();
    assert!(!repo.has("refs/heads/k"));
    repo.agents(&["restore", "k"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
}

#[test]
fn a_setting_of_the_users_made_every_file_look_like_work() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "core.autocrlf", "true"]);
    let at = repo.agent("k");
    assert_eq!(at.read("src/b.txt"), "one\r\ntwo\r\nthree\r\n", "the set-up");
    at.write("src/b.txt", "one\r\ntwo\r\nthree\r\n");
    at.write("README.md", "# A project\n");
    // git itself calls it modified until it is added, which changes nothing.
    assert_eq!(at.git(&["status", "--porcelain"]), " M README.md");
    assert_eq!(modified(&repo, "k"), 0);
    assert!(nothing_left_over(&repo, "k"));
    at.write("src/b.txt", "one\r\nTWO\r\nthree\r\n");
    assert!(!nothing_left_over(&repo, "k"));
    assert_eq!(modified(&repo, "k"), 1);
}

/// An agent `k` with a commit, all references packed: deleting its branch rewrites the file of all of them.
fn packed<'e>(repo: &Repo<'e>) -> Repo<'e> {
    let at = agent(repo, "k");
    repo.git(&["pack-refs", "--all", "--prune"]);
    at
}

#[test]
fn a_killed_git_of_ours_locked_all_references_for_ever() {
    use crate::support::kill::Target;
    let env = Env::new();
    let repo = env.repo("x");
    packed(&repo);
    let template = env.root().join("template");
    let copy = |from: &Path, to: &Path| {
        let _ = std::fs::remove_dir_all(to);
        let mut cp = env.command("cp", env.root());
        cp.arg("-a").arg(from).arg(to);
        run(cp, b"").ok();
    };
    let code = env.root().join("code");
    copy(&code, &template);
    let target = Target::agents(&repo, &["rm", "-D", "k"]);
    let children = target.git_children();
    // The one that deletes the branch renames the file of packed references into place.
    let (j, points) = children
        .iter()
        .enumerate()
        .rev()
        .find(|(_, p)| p.iter().filter(|p| p.call == "rename").count() > 0)
        .unwrap_or_else(|| panic!("no git deletes: {children:?}"));
    let chosen: Vec<_> =
        points.iter().filter(|p| ["rename", "unlink", "unlinkat"].contains(&p.call.as_str())).collect();
    let mut left = 0;
    for point in chosen {
        copy(&template, &code);
        let fault = target.kill_child_before(j + 1, point);
        assert!(fault.hit, "{point}");
        left += 1;
        // Our own program went on, and did what it was asked.
        assert_eq!(fault.out.status, 0, "{point}: {}", fault.out);
        assert!(!repo.has("refs/heads/k"), "{point}: {}", fault.out);
        repo.git(&["branch", "other"]);
        repo.git(&["branch", "-D", "other"]);
        repo_invariants(&repo);
        repo.agents(&["restore", "k"]).ok();
    }
    assert!(left > 0);
}

#[test]
fn a_lock_of_a_dead_git_of_ours_is_healed_and_somebody_elses_is_named() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = packed(&repo);
    let lock = repo.join(".git/packed-refs.lock");
    // Somebody else's: named with its age, and nothing is removed of it.
    std::fs::write(&lock, "").unwrap();
    let out = repo.agents(&["rm", "-D", "k"]).ok();
    assert!(
        out.stderr.contains("packed-refs.lock' is held by another git process (") && out.stderr.contains(" s old)"),
        "{out}"
    );
    assert!(out.stderr.contains("remove '") && out.stderr.contains("its branch stays"), "{out}");
    assert!(lock.exists() && repo.has("refs/heads/k"));
    std::fs::remove_file(&lock).unwrap();
    repo.agents(&["restore", "k"]).ok();
    // One that a mark of a dead process of ours names, made after the mark.
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    let pid = gone.id();
    gone.wait().unwrap();
    let mark = repo.join(format!(".git/agents/git-{pid}-1-abcd"));
    let branch = repo.join(".git/refs/heads/k.lock");
    std::fs::create_dir_all(branch.parent().unwrap()).unwrap();
    let early = repo.join(".git/HEAD.lock");
    std::fs::write(&early, "").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(60);
    std::fs::File::open(&early).unwrap().set_modified(old).unwrap();
    std::fs::write(
        &mark,
        [lock.to_str().unwrap(), branch.to_str().unwrap(), early.to_str().unwrap(), "/etc/passwd"].join("\0"),
    )
    .unwrap();
    for l in [&lock, &branch] {
        std::fs::write(l, "").unwrap();
    }
    repo.repair();
    assert!(
        !lock.exists() && !branch.exists() && !mark.exists(),
        "{:?}",
        std::fs::read_dir(repo.join(".git/agents")).unwrap().collect::<Vec<_>>()
    );
    assert!(early.exists() && Path::new("/etc/passwd").exists(), "older than the mark, or elsewhere");
    std::fs::remove_file(&early).unwrap();
    // One that somebody has open stays, and so does the mark.
    std::fs::write(&mark, lock.to_str().unwrap()).unwrap();
    let open = std::fs::File::create(&lock).unwrap();
    repo.repair();
    assert!(lock.exists() && mark.exists());
    drop(open);
    repo.repair();
    assert!(!lock.exists() && !mark.exists());
    repo.agents(&["rm", "-D", "k"]).ok();
    assert!(!at.path().exists() && !repo.has("refs/heads/k"));
    repo_invariants(&repo);
}

#[test]
fn a_lock_on_a_reference_is_named_with_its_age() {
    let env = Env::new();
    let repo = env.repo("x");
    let lock = repo.join(".git/refs/heads/k.lock");
    std::fs::write(&lock, "").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(90);
    std::fs::File::open(&lock).unwrap().set_modified(old).unwrap();
    let out = repo.agents(&["new", "k"]).code(128);
    assert!(out.stderr.contains("k.lock' is held by another git process (9"), "{out}");
    assert!(out.stderr.contains("hint: if no git process is running, remove '"), "{out}");
    assert!(lock.exists());
    std::fs::remove_file(&lock).unwrap();
    repo.agents(&["new", "k"]).ok();
}

#[test]
fn a_killed_assistants_lock_on_its_index_blocked_every_retry() {
    let env = Env::new();
    let repo = env.repo("x");
    let list = "1. Make it {name=k}\n   - WRITE: made.txt: made\n   - COMMIT: Made\n";
    repo.agents_input(&["run", "-a", "scripted", "-f", "-"], list).ok();
    let lock = repo.join(".git/worktrees/k/index.lock");
    let main = repo.join(".git/index.lock");
    for l in [&lock, &main] {
        std::fs::write(l, "").unwrap();
        // Younger than the end of the run: whose it is nobody knows.
    }
    repo.agents(&["retry", "k"]);
    repo.agents(&["wait", "k"]);
    assert!(lock.exists(), "taken though it was made after the run");
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::open(&lock).unwrap().set_modified(old).unwrap();
    repo.agents(&["retry", "k"]).ok();
    repo.agents(&["wait", "k"]).ok();
    assert!(!lock.exists() && main.exists());
}

#[test]
fn a_change_in_the_second_of_gits_last_look_was_not_seen() {
    use std::os::unix::fs::MetadataExt as _;
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "core.autocrlf", "true"]);
    let at = repo.agent("k");
    let seconds = |p: &Path| std::fs::metadata(p).unwrap().mtime();
    let file = at.join("src/b.txt");
    let second = env.until("all of it happened in one second", || {
        at.write("src/b.txt", "one\r\ntwo\r\nthree\r\n");
        let first = seconds(&file);
        at.git(&["status", "--porcelain"]);
        at.write("src/b.txt", "one\r\nTWO\r\nthree\r\n");
        (first == seconds(&file) && first == seconds(&repo.join(".git/worktrees/k/index"))).then_some(first)
    });
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    env.until("that second is over", || now() > u64::try_from(second).unwrap());
    assert!(!nothing_left_over(&repo, "k"));
    assert_eq!(modified(&repo, "k"), 1);
    // And what is kept of it is what was there.
    repo.agents(&["rm", "k"]).ok();
    let capture = repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed"]);
    assert_eq!(repo.git(&["cat-file", "blob", &format!("{capture}:src/b.txt")]), "one\r\nTWO\r\nthree\r");
}

#[test]
fn when_every_directory_is_missing_nobody_is_a_zombie() {
    let env = Env::new();
    let repo = env.repo("x");
    for n in ["one", "two"] {
        agent(&repo, n);
    }
    let folder = env.root().join("code/x.agents");
    std::fs::rename(&folder, env.root().join("unplugged")).unwrap();
    for a in repo.status()["agents"].as_array().unwrap() {
        assert_eq!(a["zombie"], Value::Null, "{a}");
        assert!(a["findings"][0].as_str().unwrap().contains("as all the others are"), "{a}");
    }
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(env.root().join("unplugged/one"), folder.join("one")).unwrap();
    let status = repo.status();
    let of = |n: &str| status["agents"].as_array().unwrap().iter().find(|a| a["name"] == n).unwrap()["zombie"].clone();
    assert_eq!((of("one"), of("two")), (Value::Null, "missing".into()));
}

#[test]
fn the_branch_of_a_killed_creation_was_locked_for_ever() {
    use crate::support::kill::{Point, Target};
    let env = Env::new();
    let repo = env.repo("x");
    let target = Target::agents(&repo, &["new", "k"]);
    let children = target.git_children();
    repo.agents(&["rm", "-D", "k"]).ok();
    // 'git worktree add' has a git of its own make the branch: that one is killed, and its parent only fails.
    let point = Point { call: "fsync".into(), nth: 1 };
    let j = children.iter().position(|c| c.contains(&point)).unwrap();
    let fault = target.kill_child_before(j + 1, &point);
    assert!(fault.hit && fault.out.status == 128, "{}", fault.out);
    repo.agents(&["new", "k"]).ok();
    repo_invariants(&repo);
}
