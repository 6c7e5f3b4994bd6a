//! `restore`: what was removed comes back byte for byte, whatever state it was in, and whatever git tidied up meanwhile.

use crate::support::kill::shares;
use crate::support::tree::Tree;
use crate::support::{Before, Env, Repo, assert_same_tree, repo_invariants, tree_state};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// A worktree's state as a value: files with modes and times, index, operations, references, what git says.
#[derive(Debug, PartialEq)]
struct State {
    tree: Tree,
    times: BTreeMap<PathBuf, (i64, i64)>,
    admin: Tree,
    said: String,
}

fn state(at: &Repo<'_>) -> State {
    let admin = PathBuf::from(at.git(&["rev-parse", "--absolute-git-dir"]));
    let read = |args: &[&str]| {
        let mut command = at.env.command("git", at.path());
        // Reading must not refresh the index: its bytes are compared.
        command.env("GIT_OPTIONAL_LOCKS", "0").args(args);
        let out = crate::support::env::run(command, b"");
        format!("{args:?} {}\n{}{}", out.status, out.stdout, out.stderr)
    };
    let said = [
        &["status", "--porcelain=v2", "--branch", "--ignored", "--untracked-files=all"][..],
        &["status"],
        &["ls-files", "--stage", "-v"],
        &["ls-files", "--resolve-undo"],
        &["reflog", "HEAD"],
        &["for-each-ref", "refs/worktree", "refs/bisect"],
        &["diff", "--binary"],
        &["diff", "--binary", "--cached"],
    ]
    .map(read)
    .concat();
    let tree = tree_state(at.path());
    let times = tree
        .keys()
        .map(|path| {
            let path = at.join(OsStr::from_bytes(path));
            let meta = path.symlink_metadata().unwrap();
            (path, (meta.mtime(), meta.mtime_nsec()))
        })
        .collect();
    let mut files = tree_state(&admin);
    files.remove(b"locked".as_slice());
    State { tree, times, admin: files, said }
}

#[track_caller]
fn assert_same_state(before: &State, after: &State, what: &str) {
    assert_same_tree(&before.tree, &after.tree);
    assert_same_tree(&before.admin, &after.admin);
    for (path, time) in &before.times {
        assert_eq!(Some(time), after.times.get(path), "{what}: the time of {}", path.display());
    }
    assert!(before.said == after.said, "{what}\n--- before\n{}\n--- after\n{}", before.said, after.said);
}

/// Everything that git may throw away, it throws away.
fn collect_garbage(repo: &Repo<'_>) {
    repo.git(&["reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all"]);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    repo.git(&["worktree", "prune", "--expire=now"]);
}

/// A small generator: the same seed, the same choices.
pub struct Random(Box<dyn Iterator<Item = f64>>);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Box::new(shares(seed)))
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a small number"
    )]
    pub fn below(&mut self, n: usize) -> usize {
        ((self.0.next().unwrap() / 1.1 * n as f64) as usize).min(n - 1)
    }
}

/// One of many things that happen to a worktree.
fn step(at: &Repo<'_>, random: &mut Random, i: usize) -> &'static str {
    let file = ["src/a.txt", "src/b.txt", "README.md"][random.below(3)];
    let exists = |f: &str| at.join(f).symlink_metadata().is_ok();
    let set_mode = |f: &str, mode: u32| std::fs::set_permissions(at.join(f), PermissionsExt::from_mode(mode)).unwrap();
    match random.below(20) {
        0 => {
            at.write(file, format!("edit {i}\n"));
            "edited"
        }
        1 => {
            at.write(file, format!("staged {i}\n"));
            at.try_git(&["add", file]);
            at.write(file, format!("and edited {i}\n"));
            "staged, then edited"
        }
        2 if exists(file) => {
            std::fs::remove_file(at.join(file)).unwrap();
            "deleted"
        }
        3 => {
            at.try_git(&["rm", "--quiet", "--cached", "--", file]);
            "no longer tracked"
        }
        4 if exists(file) => {
            at.try_git(&["mv", "-f", file, &format!("moved-{i}.txt")]);
            "renamed"
        }
        5 if at.join(file).is_file() => {
            set_mode(file, [0o600, 0o755, 0o444, 0o640][random.below(4)]);
            "another mode"
        }
        6 => {
            let _ = std::fs::remove_file(at.join(file));
            std::fs::create_dir_all(at.join(file).parent().unwrap()).unwrap();
            symlink("nowhere", at.join(file)).unwrap();
            "a link instead of a file"
        }
        7 => {
            let name = [&b"caf\xc3\xa9"[..], b"\xff\xfe", b"a\nb", b"-x", b"sp ace", b"\"q\""][random.below(6)];
            let path = at.join("odd").join(OsStr::from_bytes(name));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, [0, 255, b'\r', b'\n']).unwrap();
            if random.below(2) == 0 {
                at.git(&[OsStr::new("add"), OsStr::new("--"), path.as_os_str()]);
            }
            "an odd name"
        }
        8 => {
            at.write("ignored/cache.bin", vec![7; 1000]);
            at.write("key.secret", format!("secret {i}"));
            set_mode("key.secret", 0o600);
            "ignored files"
        }
        9 => {
            at.write(format!("later-{i}.txt"), "to be added\n");
            at.try_git(&["add", "--intent-to-add", &format!("later-{i}.txt")]);
            "meant to be added"
        }
        10 => {
            std::fs::create_dir_all(at.join(format!("empty-{i}/deeper"))).unwrap();
            "empty directories"
        }
        11 => {
            let _ = nix::unistd::mkfifo(&at.join(format!("fifo-{i}")), nix::sys::stat::Mode::S_IRUSR);
            "a pipe"
        }
        12 => {
            at.write("made.txt", format!("committed {i}\n"));
            at.try_git(&["add", "made.txt"]);
            at.try_git(&["commit", "--quiet", "-m", &format!("Step {i}")]);
            "a commit"
        }
        13 => {
            at.try_git(&["commit", "--quiet", "--amend", "--allow-empty", "-m", &format!("Amended {i}")]);
            "amended"
        }
        14 => {
            at.try_git(&["update-index", ["--assume-unchanged", "--skip-worktree"][random.below(2)], file]);
            "hidden from status"
        }
        15 => {
            at.try_git(&["stash", "push", "--quiet"]);
            at.try_git(&["reset", "--quiet", "--hard", "HEAD"]);
            "back to the commit"
        }
        16 => {
            at.try_git(&["switch", "--quiet", "--detach"]);
            "detached"
        }
        17 => {
            at.git(&["init", "--quiet", "nested"]);
            at.write("nested/inner.txt", "inner\n");
            "a repository inside"
        }
        18 => {
            at.git(&["update-ref", &format!("refs/worktree/r{i}"), "HEAD"]);
            "a reference of its own"
        }
        _ => {
            at.try_git(&["write-tree"]);
            "a tree from the index"
        }
    }
}

/// In the end, perhaps, the middle of something.
fn operation(at: &Repo<'_>, random: &mut Random) -> &'static str {
    let choice = random.below(8);
    if choice > 5 {
        return "nothing";
    }
    at.try_git(&["reset", "--quiet", "--hard"]);
    at.write("src/b.txt", "ours\n");
    at.try_git(&["add", "src/b.txt"]);
    at.try_git(&["commit", "--quiet", "-m", "Ours"]);
    match choice {
        0 => drop(at.try_git(&["merge", "theirs"])),
        1 => drop(at.try_git(&["rebase", "theirs"])),
        2 => drop(at.try_git(&["cherry-pick", "theirs"])),
        3 => {
            at.try_git(&["merge", "theirs"]);
            at.write("src/b.txt", "resolved\n");
            at.try_git(&["add", "src/b.txt"]);
        }
        4 => {
            at.write("README.md", "put aside by the rebase\n");
            at.try_git(&["rebase", "--autostash", "theirs"]);
        }
        _ => {
            at.try_git(&["-c", "rerere.enabled=true", "rebase", "--apply", "theirs"]);
        }
    }
    ["merge", "rebase", "cherry-pick", "resolved merge", "rebase with autostash", "rebase by patches"][choice]
}

/// A commit that only a branch of the main checkout has.
pub fn to_clash_with(repo: &Repo<'_>) {
    repo.git(&["switch", "--quiet", "-c", "theirs"]);
    repo.write("src/b.txt", "theirs\n");
    repo.commit("Theirs");
    repo.git(&["switch", "--quiet", "main"]);
}

/// Many things happen to a worktree, the same ones for the same seed; which.
pub fn disorder(at: &Repo<'_>, seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut did = vec![format!("seed {seed}")];
    for i in 0..random.below(12) {
        did.push(step(at, &mut random, i).to_owned());
    }
    did.push(operation(at, &mut random).to_owned());
    for i in 0..random.below(4) {
        did.push(step(at, &mut random, 20 + i).to_owned());
    }
    did.join(", ")
}

/// Removes and restores `count` worktrees in random states, from `seed` on.
pub fn random_states(seed: u64, count: u64) {
    let env = Env::new();
    let repo = env.repo("x");
    to_clash_with(&repo);
    let made: Vec<(Repo<'_>, String, String, State)> = (seed..seed + count)
        .map(|seed| {
            let name = format!("s{seed}");
            let at = repo.agent(&name);
            let did = disorder(&at, seed);
            at.try_git(&["status"]);
            let before = state(&at);
            (at, name, did, before)
        })
        .collect();
    let kept = Before::of(&repo);
    for (i, (at, name, what, _)) in made.iter().enumerate() {
        let branch = if i % 2 == 0 { &["-D"][..] } else { &[] };
        let out = repo.agents(&[&["rm", "--force", name.as_str()], branch].concat());
        assert!(out.status == 0 && !at.path().exists(), "{what}\n{out}");
    }
    collect_garbage(&repo);
    kept.still_holds(&repo);
    for (at, name, what, before) in &made {
        let out = repo.agents(&["restore", name]);
        assert_eq!(out.status, 0, "{what}\n{out}");
        assert_same_state(before, &state(at), what);
    }
    kept.still_holds(&repo);
}

#[test]
fn random_worktrees_came_back_different() {
    random_states(1, 30);
}

#[test]
#[ignore = "nightly"]
fn nightly_random_worktrees_came_back_different() {
    for seed in (1000..1300).step_by(30) {
        random_states(seed, 30);
    }
    eprintln!("300 random worktrees removed, garbage collected, restored: 0 differences");
}

#[test]
fn a_capture_held_what_git_would_store_and_not_what_was_there() {
    let env = Env::new();
    let repo = env.repo("x");
    let canary = env.root().join("pwned");
    repo.git(&["config", "filter.up.clean", &format!("touch {}; tr a-z A-Z", canary.display())]);
    repo.git(&["config", "filter.up.smudge", "tr A-Z a-z"]);
    repo.git(&["config", "core.autocrlf", "input"]);
    repo.write(".gitattributes", "*.crlf text eol=crlf\n*.up filter=up\n");
    repo.write("a.crlf", "one\ntwo\n");
    repo.write("a.up", "text\n");
    repo.commit("Rules");
    let at = repo.agent("bytes");
    assert_eq!(at.read("a.crlf"), "one\r\ntwo\r\n");
    let files: [(&str, &[u8]); 5] = [
        ("a.crlf", b"one\r\nchanged\r\nmixed\n"),
        ("a.up", b"lower\n"),
        ("new.up", b"untracked\r\n"),
        ("new.bin", &[0, 255, 13, 10, 10]),
        ("staged.crlf", b"second\n"),
    ];
    at.write("staged.crlf", "first\r\n");
    at.git(&["add", "staged.crlf"]);
    for (path, bytes) in files {
        at.write(path, bytes);
    }
    at.write("key.secret", "ignored: never an object\n");
    std::fs::set_permissions(at.join("new.bin"), PermissionsExt::from_mode(0o755)).unwrap();
    let staged = at.git(&["rev-parse", ":staged.crlf"]);
    let _ = std::fs::remove_file(&canary);
    repo.agents(&["rm", "-D", "bytes"]).ok();
    assert!(!canary.exists(), "a filter of the repository was run");

    let capture = repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed"]);
    let blob = |rev: String| {
        let mut command = env.command("git", repo.path());
        command.args(["cat-file", "blob", &rev]);
        crate::support::env::run(command, b"").ok().bytes
    };
    for (path, bytes) in files {
        assert_eq!(blob(format!("{capture}:{path}")), bytes, "{path}");
    }
    assert!(repo.git(&["ls-tree", &capture, "new.bin"]).starts_with("100755"));
    assert_eq!(repo.git(&["rev-parse", &format!("{capture}^2:staged.crlf")]), staged);
    assert!(!repo.has(&format!("{capture}:key.secret")));
    let about: serde_json::Value = serde_json::from_str(&repo.git(&["log", "-1", "--format=%B", &capture])).unwrap();
    assert_eq!(about["name"], "bytes");
}

#[test]
fn a_large_file_filled_the_object_store() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.captureMaxFile", "100k"]);
    let at = repo.agent("big");
    at.write("big.bin", vec![3; 200_000]);
    let tree = tree_state(at.path());
    repo.agents(&["rm", "big"]).ok();
    let capture = repo.git(&["for-each-ref", "--format=%(refname)", "refs/agents/removed"]);
    assert!(!repo.has(&format!("{capture}:big.bin")));
    assert!(repo.git(&["log", "-1", "--format=%B", &capture]).contains("big.bin"), "it is listed");
    repo.agents(&["restore", "big"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
}

#[test]
fn what_was_resolved_could_not_be_looked_up_any_more() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("resolved");
    at.git(&["switch", "--quiet", "-c", "theirs"]);
    at.write("src/b.txt", "theirs\n");
    at.commit("Theirs");
    at.git(&["switch", "--quiet", "resolved"]);
    at.write("src/b.txt", "ours\n");
    at.commit("Ours");
    at.try_git(&["merge", "theirs"]).code(1);
    // A blob that is in no commit, on one side of a conflict that was resolved.
    let mut command = env.command("git", at.path());
    command.args(["hash-object", "-w", "--stdin"]);
    let blob = crate::support::env::run(command, b"only the index knows\n").ok().stdout.trim_end().to_owned();
    let mut command = env.command("git", at.path());
    command.args(["update-index", "--index-info"]);
    let lines = format!("0 {} 0\tx.txt\n100644 {blob} 2\tx.txt\n100644 {blob} 3\tx.txt\n", "0".repeat(40));
    crate::support::env::run(command, lines.as_bytes()).ok();
    at.write("src/b.txt", "resolved\n");
    at.write("x.txt", "resolved\n");
    at.git(&["add", "src/b.txt", "x.txt"]);
    assert!(at.git(&["ls-files", "--resolve-undo"]).contains(&blob), "the set-up is as meant");
    let before = state(&at);
    repo.agents(&["rm", "--force", "resolved"]).ok();
    collect_garbage(&repo);
    repo.agents(&["restore", "resolved"]).ok();
    assert_same_state(&before, &state(&at), "resolved");
    repo_invariants(&repo);
    at.git(&["checkout", "--quiet", "--merge", "x.txt"]);
}

#[test]
fn its_place_its_name_or_its_entry_was_taken_meanwhile() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("first.txt", "first\n");
    let tree = tree_state(at.path());
    repo.agents(&["rm", "-D", "k"]).ok();
    let second = repo.agent("k");
    second.write("second.txt", "second\n");
    let seconds = tree_state(second.path());
    // The branch is checked out in the second one: nothing moves.
    let out = repo.agents(&["restore", "k"]).code(128);
    assert!(out.stderr.contains("checked out at"), "{out}");
    assert_same_tree(&seconds, &tree_state(second.path()));
    second.git(&["switch", "--quiet", "--detach"]);
    let out = repo.agents(&["restore", "k"]).ok();
    assert!(out.stderr.contains("'k' is taken"), "{out}");
    let status = repo.status();
    let found: Vec<(String, PathBuf)> = status["agents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|a| (a["name"].as_str().unwrap().to_owned(), PathBuf::from(a["worktree"].as_str().unwrap())))
        .collect();
    assert_eq!(found.len(), 2);
    let restored = &found.iter().find(|(n, _)| n != "k").unwrap().1;
    let mut now = tree_state(restored);
    let mut was = tree.clone();
    was.remove(b".git".as_slice());
    now.remove(b".git".as_slice());
    assert_same_tree(&was, &now);
    assert_same_tree(&seconds, &tree_state(second.path()));
    assert_eq!(Repo::at(&env, restored).git(&["status", "--porcelain"]), "?? first.txt");
    repo_invariants(&repo);
}

#[test]
fn the_last_one_was_not_the_last_one() {
    let env = Env::new();
    let repo = env.repo("x");
    for name in ["one", "two", "three"] {
        repo.agents(&["new", name]).ok();
    }
    repo.agents(&["rm", "two", "one", "three"]).ok();
    let list = repo.agents(&["restore", "--list", "--json"]).ok().json();
    let names: Vec<&str> = list["removed"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["three", "one", "two"]);
    for expected in ["three", "one", "two"] {
        let back = repo.agents(&["restore", "--last", "--json"]).ok().json();
        assert_eq!(back["results"][0]["name"], expected);
    }
    repo.agents(&["undo"]).code(128);
}

#[test]
fn the_parent_folder_was_gone() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    repo.agents(&["rm", "k"]).ok();
    std::fs::remove_dir(at.path().parent().unwrap()).unwrap();
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(at.git(&["status", "--porcelain"]), "");
    assert!(Path::new(at.path()).is_dir());
}

#[test]
fn a_stray_file_in_the_trash_blocked_every_command() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("k");
    repo.agents(&["rm", "k"]).ok();
    let trash = repo.common_dir().join("agents/trash");
    let label = "20260101t120000z-mine-0a1b2c3d";
    std::fs::write(trash.join(".DS_Store"), "x").unwrap();
    std::fs::create_dir(trash.join("empty")).unwrap();
    std::fs::create_dir_all(trash.join("full/folder")).unwrap();
    std::fs::create_dir_all(trash.join(label).join("folder")).unwrap();
    std::fs::write(trash.join("20260101t120000z-file-0a1b2c3d"), "x").unwrap();
    symlink(repo.path(), trash.join("20260101t120000z-link-0a1b2c3d")).unwrap();
    let before = tree_state(&trash);
    repo.agent("other");
    repo.agents(&["restore", "--list"]).ok();
    assert_same_tree(&before, &tree_state(&trash));
    repo.agents(&["restore", "k"]).ok();
    repo.agents(&["rm", "other"]).ok();
    for stays in [".DS_Store", "empty", "full/folder", label, "20260101t120000z-link-0a1b2c3d"] {
        assert!(trash.join(stays).symlink_metadata().is_ok(), "{stays}");
    }
}

/// The folder of the only entry in the trash.
fn only_entry(repo: &Repo<'_>) -> PathBuf {
    let trash = repo.common_dir().join("agents/trash");
    std::fs::read_dir(trash).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn what_an_entry_said_led_out_of_its_folder_and_onto_the_terminal() {
    let env = Env::new();
    let repo = env.repo("x");
    let hooks = tree_state(&repo.join(".git/hooks"));
    let bad: [(&str, serde_json::Value); 8] = [
        ("worktree", "../../hooks".into()),
        ("worktree", "..".into()),
        ("tree", "../../../hooks".into()),
        ("path", repo.join(".git/hooks/k").to_str().unwrap().into()),
        ("branch", "refs/heads/../../hooks/k".into()),
        ("capture", "refs/heads/main".into()),
        ("name", "k\u{1b}[2J\u{1b}]0;owned\u{7}".into()),
        ("name", "k\nall is well".into()),
    ];
    repo.agent("k").write("kept", "kept");
    for (key, value) in bad {
        repo.agents(&["rm", "k"]).ok();
        let file = only_entry(&repo).join("entry.json");
        let mut entry: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        entry[key] = value.clone();
        std::fs::write(&file, entry.to_string()).unwrap();
        let list = repo.agents(&["restore", "--list"]).ok();
        assert!(list.stderr.contains(&format!("'{key}' is nothing that a removal writes")), "{list}");
        assert!(!list.stdout.contains('\u{1b}') && !list.stdout.contains("all is well"), "{list}");
        let out = repo.agents(&["restore", "k"]).ok();
        assert_eq!(repo.worktree("k").read("kept"), "kept", "{key} {value} {out}");
        assert_eq!(repo.worktree("k").git(&["status", "--porcelain"]), "?? kept");
        assert_same_tree(&hooks, &tree_state(&repo.join(".git/hooks")));
    }
}

#[test]
fn one_whose_admin_directory_was_gone_came_back_as_no_worktree() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("src/a.txt", "changed");
    at.commit("Own");
    at.write("kept", "kept");
    for damaged in [false, true] {
        repo.agents(&["rm", "k"]).ok();
        let entry = only_entry(&repo);
        std::fs::remove_dir_all(entry.join("admin")).unwrap();
        if damaged {
            std::fs::write(entry.join("entry.json"), "{").unwrap();
            std::fs::remove_file(entry.join("tree/.git")).unwrap();
        }
        let out = repo.agents(&["restore", "k"]).ok();
        assert!(out.stderr.contains("git's entry of it was gone, and made anew"), "{out}");
        let back = repo.worktree("k");
        assert_eq!(back.git(&["status", "--porcelain", "--branch"]), "## k\n?? kept", "{out}");
        assert_eq!(back.read("src/a.txt"), "changed");
        assert_eq!(back.agents(&["path"]).ok().stdout.trim_end(), back.path().to_str().unwrap());
    }
}
