//! `rm`: what removing things has cost users of comparable tools.

use crate::support::kill::Target;
use crate::support::tree::Tree;
use crate::support::{Before, Env, Out, Repo, assert_same_tree, repo_invariants, tree_state};
use serde_json::Value;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// One with a commit of its own.
#[track_caller]
pub fn agent_with_commit<'e>(repo: &Repo<'e>, name: &str) -> Repo<'e> {
    let at = repo.agent(name);
    at.write(format!("{name}.txt"), format!("made by {name}\n"));
    at.commit(&format!("Made by {name}"));
    at
}

pub fn names(repo: &Repo<'_>) -> Vec<String> {
    repo.status()["agents"].as_array().unwrap().iter().map(|a| a["name"].as_str().unwrap().to_owned()).collect()
}

/// The only tree in the trash.
#[track_caller]
pub fn only_tree(repo: &Repo<'_>) -> PathBuf {
    let all: Vec<PathBuf> = std::fs::read_dir(repo.join(".git/agents/trash"))
        .unwrap()
        .map(|e| e.unwrap().path().join("tree"))
        .filter(|p| p.is_dir())
        .collect();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].clone()
}

/// Everything below `code`, but for what a holder of the lock leaves in it, the folder for judging and what is known of
/// commits.
pub fn everything(env: &Env) -> Tree {
    let mut tree = tree_state(&env.root().join("code"));
    let expendable = |path: &[u8]| path.windows(13).any(|w| w == b"/agents/cache");
    tree.retain(|path, _| !path.ends_with(b"/agents/lock") && !path.ends_with(b"/agents/sterile") && !expendable(path));
    tree
}

#[track_caller]
pub fn refused(out: Out, words: &[&str]) -> Out {
    let out = out.code(128);
    for w in words {
        assert!(out.stderr.contains(w), "'{w}' is not said\n{out}");
    }
    out
}

#[test]
fn only_the_files_of_a_dirty_tree_that_had_landed_were_lost() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "t");
    repo.git(&["merge", "--quiet", "t"]);
    at.write("src/a.txt", "edit\n");
    at.write("new.txt", "new\n");
    let tree = tree_state(at.path());
    let out = repo.agents(&["rm", "t"]).ok();
    assert!(out.stderr.contains("new.txt") && out.stderr.contains("src/a.txt"), "{out}");
    assert_same_tree(&tree, &tree_state(&only_tree(&repo)));
    repo.agents(&["restore", "t"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
}

#[test]
fn files_that_git_was_told_not_to_show_were_taken_for_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "status.showUntrackedFiles", "no"]);
    std::fs::write(repo.join(".git/info/exclude"), "*.note\n").unwrap();
    for (name, hide) in [("assumed", "--assume-unchanged"), ("skipped", "--skip-worktree")] {
        let at = repo.agent(name);
        at.git(&["update-index", hide, "src/a.txt"]);
        at.write("src/a.txt", "hidden edit\n");
        assert_eq!(at.git(&["status", "--porcelain"]), "");
        let out = repo.agents(&["rm", name]).ok();
        assert!(out.stderr.contains("src/a.txt") && out.stderr.contains("its branch stays"), "{out}");
    }
    let at = repo.agent("excluded");
    at.write("a.note", "excluded by a file that nobody else has\n");
    let out = repo.agents(&["rm", "excluded"]).ok();
    assert!(out.stderr.contains("a.note"), "{out}");
    let at = repo.agent("untracked");
    at.write("plain.txt", "untracked\n");
    let out = repo.agents(&["rm", "untracked"]).ok();
    assert!(out.stderr.contains("plain.txt"), "{out}");
    repo.agents(&["restore", "untracked"]).ok();
    assert_eq!(at.read("plain.txt"), "untracked\n");
}

#[test]
fn a_lock_of_a_dead_owner_kept_its_tree_for_ever() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("dead");
    let id = repo.git(&["config", "agent.dead.id"]);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let reason = |pid: u32, boot: &str| format!("git-agents {id} {} {pid}:1", boot.trim());
    let lock = |text: &str| std::fs::write(repo.join(".git/worktrees/dead/locked"), text).unwrap();
    // Ours, but of another agent, and in a form that is nearly ours: a person's.
    for text in ["added with --lock", "git-agents pid=999999 start=1", "git-agents 0123 x 1:1"] {
        lock(text);
        refused(repo.agents(&["rm", "dead"]), &["locked"]);
    }
    lock(&reason(999_999, &boot));
    let out = repo.agents(&["rm", "dead"]).ok();
    assert!(out.stderr.contains("released from the lock"), "{out}");
    assert!(!at.path().exists());
    repo.agents(&["restore", "dead"]).ok();
    // An owner of an earlier boot is as dead.
    lock(&reason(1, "00000000-0000-0000-0000-000000000000"));
    repo.agents(&["rm", "dead"]).ok();
}

#[test]
fn a_locked_tree_on_an_absent_disk_was_pruned() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "disk");
    repo.git(&["worktree", "lock", "--reason", "portable disk", at.path().to_str().unwrap()]);
    let away = env.root().join("away");
    std::fs::rename(at.path(), &away).unwrap();
    let out = refused(repo.agents(&["rm", "-D", "--force", "disk"]), &["portable disk"]);
    assert!(out.stderr.contains("git worktree unlock"), "{out}");
    std::fs::rename(&away, at.path()).unwrap();
    assert_eq!(at.git(&["log", "-1", "--format=%s"]), "Made by disk");
}

#[test]
fn trees_made_by_hand_in_the_same_folder_were_swept_away() {
    let env = Env::new();
    let repo = env.repo("x");
    let done = repo.agent("done");
    let other = agent_with_commit(&repo, "other");
    let hand = done.path().with_file_name("hand-made");
    repo.git(&["worktree", "add", "--quiet", "-b", "mine", hand.to_str().unwrap()]);
    repo.git(&["merge", "--quiet", "other"]);
    std::fs::write(hand.join("f"), "mine\n").unwrap();
    let (mine, others) = (tree_state(&hand), tree_state(other.path()));
    repo.agents(&["rm", "done"]).ok();
    refused(repo.agents(&["rm", "mine"]), &["mine"]);
    refused(repo.agents(&["rm", "hand-made"]), &["hand-made"]);
    assert_same_tree(&mine, &tree_state(&hand));
    assert_same_tree(&others, &tree_state(other.path()));
    let status = repo.status();
    assert_eq!(status["unmanaged"][0]["branch"], "mine");
    assert_eq!(names(&repo), ["other"]);
}

#[test]
fn the_repository_had_moved_to_where_a_worktree_used_to_be() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "dev");
    let tip = at.tip("HEAD");
    std::fs::remove_dir_all(at.path()).unwrap();
    std::fs::rename(repo.path(), at.path()).unwrap();
    let moved = at;
    moved.write("mine.txt", "not committed\n");
    let files = || {
        let mut tree = tree_state(moved.path());
        tree.retain(|path, _| !path.starts_with(b".git/"));
        tree
    };
    let before = files();
    let words = "the repository itself stands where its worktree was";
    assert!(moved.status_of("dev")["findings"][0].as_str().unwrap().starts_with(words));
    let out = moved.agents(&["doctor"]).code(1);
    assert!(out.stdout.contains(words) && out.stdout.contains("mend: git agents rm dev"), "{out}");
    moved.agents(&["doctor", "--fix"]).code(1);
    moved.agents(&["clean"]).ok();
    let out = moved.agents(&["rm", "--dry-run", "dev"]).ok();
    assert!(out.stderr.contains("its directory was gone already") && !out.stderr.contains("you are in it"), "{out}");
    assert_eq!(names(&moved), ["dev"]);
    // Killed on the way it comes to its end, and the files stay where they are.
    let target = Target::agents(&moved, &["rm", "-D", "--force", "dev"]);
    crate::kill::copy(&env.root().join("code"), &env.root().join("template"));
    let points = target.points();
    for point in points.iter().skip(3).step_by(points.len() / 3) {
        std::fs::remove_dir_all(env.root().join("code")).unwrap();
        crate::kill::copy(&env.root().join("template"), &env.root().join("code"));
        target.kill_before(point);
        assert_same_tree(&before, &files());
        moved.repair();
        moved.agents(&["rm", "-D", "--force", "dev"]);
        assert!(names(&moved).is_empty() && !moved.has("refs/heads/dev"), "killed before {point}");
        assert_same_tree(&before, &files());
        assert_eq!(moved.git(&["worktree", "list", "--porcelain"]).matches("worktree ").count(), 1);
    }
    // It comes back beside what has its place.
    moved.agents(&["restore", "dev"]).ok();
    assert_same_tree(&before, &files());
    assert_eq!(moved.worktree("dev").tip("HEAD"), tip);
    moved.git(&["fsck", "--strict"]);
}

#[test]
fn the_recorded_branch_was_deleted_while_another_one_was_checked_out() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "task-a");
    let tip = at.tip("HEAD");
    at.git(&["switch", "--quiet", "-c", "other", "main"]);
    at.write("o.txt", "other\n");
    let other = at.commit("On the other");
    let before = Before::of(&repo);
    let out = repo.agents(&["rm", "task-a"]).ok();
    assert!(out.stderr.contains("'other' checked out") && out.stderr.contains("its branch stays"), "{out}");
    assert_eq!((repo.tip("refs/heads/task-a"), repo.tip("refs/heads/other")), (tip.clone(), other.clone()));
    repo.agents(&["restore", "task-a"]).ok();
    // By explicit order the recorded one goes, the other does not, and no commit is lost.
    repo.agents(&["rm", "-D", "task-a"]).ok();
    assert!(!repo.has("refs/heads/task-a"));
    assert_eq!(repo.tip("refs/heads/other"), other);
    before.still_holds(&repo);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    before.still_holds(&repo);
    repo.agents(&["restore", "task-a"]).ok();
    assert_eq!(repo.tip("refs/heads/task-a"), tip);
    assert_eq!(at.git(&["branch", "--show-current"]), "other");
}

#[test]
fn commits_on_no_branch_were_lost_with_the_tree() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("loose");
    at.git(&["switch", "--quiet", "--detach"]);
    at.write("d.txt", "detached\n");
    let detached = at.commit("Detached");
    at.git(&["reset", "--quiet", "--hard", "main"]);
    at.write("e.txt", "another\n");
    let second = at.commit("Another");
    at.git(&["update-ref", "refs/worktree/mine", &detached]);
    at.git(&["switch", "--quiet", "loose"]);
    let before = Before::of(&repo);
    repo.agents(&["rm", "-D", "loose"]).ok();
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["gc", "--quiet", "--prune=now"]);
    before.still_holds(&repo);
    for c in [&detached, &second] {
        assert!(repo.has(&format!("{c}^{{commit}}")), "{c}");
    }
    repo.agents(&["restore", "loose"]).ok();
    assert_eq!(at.tip("refs/worktree/mine"), detached);
    assert!(at.git(&["reflog", "HEAD"]).contains("Another"));
    repo_invariants(&repo);
}

#[test]
fn what_was_written_between_the_check_and_the_removal_was_destroyed() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "busy");
    // Writes and commits as fast as it can, and keeps count elsewhere; it is in the tree, wherever that goes.
    let script = env.script(
        "busy-writer",
        "#!/bin/sh\ni=0; count=$1; stop=$2\nwhile [ ! -e \"$stop\" ]; do\n i=$((i+1)); echo $i >f-$i && echo $i >>\"$count\"\ndone\n",
    );
    let (count, stop) = (env.root().join("count"), env.root().join("stop"));
    let mut command = env.command(&script, at.path());
    command.arg(&count).arg(&stop);
    let writer = crate::support::env::Background::start(&env, command);
    let lines = || std::fs::read_to_string(&count).unwrap_or_default().lines().count();
    env.until("it writes", || lines() > 20);
    let out = repo.agents(&["rm", "-D", "busy"]).ok();
    assert!(out.stderr.contains("still working in its directory"), "{out}");
    let then = lines();
    env.until("it writes on", || lines() > then + 20);
    std::fs::write(&stop, "").unwrap();
    writer.finish(&env).ok();
    let tree = only_tree(&repo);
    let lost: Vec<usize> = (1..=lines()).filter(|i| !tree.join(format!("f-{i}")).exists()).collect();
    assert!(lost.is_empty(), "{lost:?} of {}", lines());
    assert!(!at.path().exists(), "nothing was left half removed");
}

#[test]
fn a_commit_that_arrived_late_was_deleted_with_its_branch() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("late");
    // A git that commits on the branch right after the capture was taken and before the branch is deleted.
    let real = env.git_program();
    env.script(
        "git",
        &format!(
            "#!/bin/sh\ncase \" $* \" in *' update-ref --no-deref -d refs/heads/late '*)\n  new=$({real} --git-dir={g} commit-tree -p refs/heads/late -m Late refs/heads/late^{{tree}})\n  {real} --git-dir={g} update-ref refs/heads/late $new ;;\nesac\nexec {real} \"$@\"\n",
            real = real.display(),
            g = repo.join(".git").display()
        ),
    );
    // Not through git: that would put its own directory of programs in front.
    let mut command = env.command(env!("CARGO_BIN_EXE_git-agents"), repo.path());
    let path = std::iter::once(env.root().join("bin")).chain(std::env::split_paths(env.path()));
    command.args(["rm", "late"]).env("PATH", std::env::join_paths(path).unwrap());
    crate::support::env::run(command, b"").ok();
    std::fs::remove_file(env.root().join("bin/git")).unwrap();
    assert!(!at.path().exists());
    assert_eq!(repo.git(&["log", "-1", "--format=%s", "refs/heads/late"]), "Late", "the branch had moved: it stays");
}

#[test]
fn half_of_it_was_gone_and_every_retry_failed() {
    let env = Env::new();
    let repo = env.repo("x");
    let one = agent_with_commit(&repo, "no-entry");
    let two = agent_with_commit(&repo, "no-tree");
    std::fs::remove_dir_all(repo.join(".git/worktrees/no-entry")).unwrap();
    std::fs::remove_dir_all(two.path()).unwrap();
    let states = repo.status();
    for a in states["agents"].as_array().unwrap() {
        assert_eq!(a["zombie"], "missing", "{a}");
    }
    let left = tree_state(one.path());
    repo.agents(&["rm", "no-entry", "no-tree"]).ok();
    assert!(names(&repo).is_empty());
    // Not landed: the branches stay; the directory that belongs to nobody is not touched.
    assert!(repo.has("refs/heads/no-entry") && repo.has("refs/heads/no-tree"));
    assert_same_tree(&left, &tree_state(one.path()));
    repo.agents(&["new", "again", "--base", "no-entry"]).ok();
}

#[test]
fn a_deleted_folder_blocked_its_own_recreation() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "t");
    let other = agent_with_commit(&repo, "away");
    let tip = at.tip("HEAD");
    std::fs::remove_dir_all(at.path()).unwrap();
    std::fs::rename(other.path(), env.root().join("away")).unwrap();
    repo.agents(&["rm", "t"]).ok();
    repo.agents(&["adopt", "t"]).ok();
    assert_eq!(at.tip("HEAD"), tip);
    assert_eq!(at.read("t.txt"), "made by t\n");
    // No other entry went with it.
    std::fs::rename(env.root().join("away"), other.path()).unwrap();
    assert_eq!(other.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_removed_one_whose_folder_was_gone_comes_back_with_its_committed_files() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "t");
    let tree = tree_state(at.path());
    std::fs::remove_dir_all(at.path()).unwrap();
    repo.agents(&["rm", "-D", "t"]).ok();
    assert!(!repo.has("refs/heads/t"));
    repo.agents(&["restore", "t"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
    assert_eq!(at.git(&["status", "--porcelain"]), "");
    assert_eq!(at.git(&["log", "-1", "--format=%s"]), "Made by t");
}

#[test]
fn collecting_garbage_pruned_the_tree_of_a_running_agent() {
    let env = Env::new();
    let repo = env.repo("x");
    let go = env.root().join("go");
    let task = format!("WRITE: half.txt: half\nWAITFILE: {}", go.display());
    repo.agents(&["run", "-d", "-a", "scripted", &task]).ok();
    let path = PathBuf::from(repo.status()["agents"][0]["worktree"].as_str().unwrap());
    env.until("it has begun", || path.join("half.txt").exists());
    let away = path.with_extension("away");
    std::fs::rename(&path, &away).unwrap();
    repo.git(&["-c", "gc.worktreePruneExpire=now", "gc", "--quiet"]);
    repo.git(&["worktree", "prune", "--expire=now"]);
    std::fs::rename(&away, &path).unwrap();
    assert_eq!(Repo::at(&env, &path).git(&["status", "--porcelain"]), "?? half.txt");
    std::fs::write(&go, "").unwrap();
    repo.agents(&["wait"]);
}

#[test]
fn deleting_followed_a_link_out_of_the_tree() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("ignored/shared/lib.js", "shared\n");
    let at = repo.agent("links");
    symlink(repo.join("ignored"), at.join("ignored")).unwrap();
    symlink("/", at.join("root")).unwrap();
    let before = tree_state(&repo.join("ignored"));
    repo.agents(&["rm", "links"]).ok();
    assert_same_tree(&before, &tree_state(&repo.join("ignored")));
    repo.agents(&["restore", "links"]).ok();
    assert_eq!(std::fs::read_link(at.join("ignored")).unwrap(), repo.join("ignored"));
}

#[test]
fn the_registered_path_had_become_a_link_to_another_tree() {
    let env = Env::new();
    let repo = env.repo("x");
    let (a, b) = (repo.agent("a"), agent_with_commit(&repo, "b"));
    std::fs::remove_dir_all(a.path()).unwrap();
    symlink("b", a.path()).unwrap();
    let before = tree_state(b.path());
    for flags in [&[][..], &["-D"], &["--force"]] {
        refused(repo.agents(&[&["rm", "a"], flags].concat()), &["link"]);
    }
    assert_same_tree(&before, &tree_state(b.path()));
    assert_eq!(names(&repo), ["a", "b"]);
    assert_eq!(b.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_tree_that_belongs_to_another_repository_now_was_removed() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    let other = env.repo("y");
    std::fs::remove_dir_all(at.path()).unwrap();
    other.git(&["worktree", "add", "--quiet", "-b", "theirs", at.path().to_str().unwrap()]);
    let before = tree_state(at.path());
    refused(repo.agents(&["rm", "-D", "--force", "k"]), &["belongs to"]);
    assert_same_tree(&before, &tree_state(at.path()));
    assert_eq!(at.git(&["branch", "--show-current"]), "theirs");
}

#[test]
fn another_worktree_below_went_with_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("outer");
    let inner = at.join("ignored/inner");
    repo.git(&["worktree", "add", "--quiet", "-b", "inner", inner.to_str().unwrap()]);
    let before = everything(&env);
    refused(repo.agents(&["rm", "-D", "--force", "outer"]), &["inner"]);
    assert_same_tree(&before, &everything(&env));
    assert_eq!(Repo::at(&env, inner).git(&["status", "--porcelain"]), "");
}

#[test]
fn the_branch_was_gone_when_its_session_was_over() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["config", "agents.uncommitted", "keep"]);
    let task = "WRITE: made.txt: made\nCOMMIT: Made\nWRITE: left.txt: not committed";
    repo.agents(&["run", "-a", "scripted", task]).ok();
    let a = repo.status()["agents"][0].clone();
    assert_eq!(a["run"]["state"], "succeeded");
    assert_eq!((&a["ahead"], &a["dirty"]["untracked"]), (&1.into(), &1.into()));
    let (name, branch) = (a["name"].as_str().unwrap(), a["branch"].as_str().unwrap());
    let tip = repo.tip(branch);
    let out = repo.agents(&["rm", name]).ok();
    assert!(out.stderr.contains("not landed") && out.stderr.contains("left.txt"), "{out}");
    assert_eq!(repo.tip(branch), tip);
    assert_eq!(std::fs::read_to_string(only_tree(&repo).join("left.txt")).unwrap(), "not committed\n");
}

#[test]
fn a_tree_with_foreign_line_endings_could_never_be_removed() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("doc.md", "a\r\nb\r\n");
    repo.commit("CRLF stored");
    repo.write(".gitattributes", "*.md text eol=lf\n");
    repo.commit("And a rule against it");
    let at = repo.agent("eol");
    // Looked at anew, it is another file than the one that was checked out a moment ago.
    at.write("doc.md", "a\r\nb\r\n");
    assert!(at.git(&["status", "--porcelain"]).contains("doc.md"), "the set-up is as reported");
    let tree = tree_state(at.path());
    repo.agents(&["rm", "eol"]).ok();
    repo.agents(&["restore", "eol"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
}

#[test]
fn the_folder_of_an_entry_was_guessed_from_its_name() {
    let env = Env::new();
    let repo = env.repo("x");
    // Takes the id that git would give to the agent's entry.
    repo.git(&["worktree", "add", "--quiet", "-b", "a", "../elsewhere/api"]);
    let at = repo.agent("api");
    assert!(repo.join(".git/worktrees/api1").is_dir());
    let before = tree_state(&env.root().join("code/elsewhere/api"));
    repo.agents(&["rm", "-D", "api"]).ok();
    assert!(!at.path().exists() && repo.join(".git/worktrees/api").is_dir());
    assert_same_tree(&before, &tree_state(&env.root().join("code/elsewhere/api")));
    repo.agents(&["restore", "api"]).ok();
    assert_eq!(at.git(&["branch", "--show-current"]), "api");
}

#[test]
fn links_written_relatively_were_taken_for_dead() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = agent_with_commit(&repo, "rel");
    let entry = repo.join(".git/worktrees/rel");
    std::fs::write(at.join(".git"), "gitdir: ../../x/.git/worktrees/rel\n").unwrap();
    std::fs::write(entry.join("gitdir"), "../../../../x.agents/rel/.git\n").unwrap();
    let a = repo.status()["agents"][0].clone();
    assert_eq!((a["zombie"].clone(), a["ahead"].clone()), (Value::Null, 1.into()));
    at.write("new.txt", "new\n");
    let tree = tree_state(at.path());
    repo.agents(&["rm", "rel"]).ok();
    assert!(!at.path().exists() && !entry.exists());
    repo.agents(&["restore", "rel"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
    assert_eq!(at.git(&["status", "--porcelain"]), "?? new.txt");
    // And where its place is taken, both links follow.
    repo.agents(&["rm", "rel"]).ok();
    std::fs::create_dir(at.path()).unwrap();
    repo.agents(&["restore", "rel"]).ok();
    let moved = PathBuf::from(repo.status()["agents"][0]["worktree"].as_str().unwrap());
    assert_ne!(moved, at.path());
    assert_eq!(Repo::at(&env, &moved).git(&["status", "--porcelain"]), "?? new.txt");
}

#[test]
fn removing_many_stopped_at_the_first_that_was_refused() {
    let env = Env::new();
    let repo = env.repo("x");
    let locked = repo.agent("locked");
    repo.agent("free");
    repo.git(&["worktree", "lock", locked.path().to_str().unwrap()]);
    let out = repo.agents(&["rm", "--json", "locked", "free"]).code(128);
    let results = out.json()["results"].clone();
    assert_eq!((&results[0]["outcome"], &results[1]["outcome"]), (&"refused".into(), &"done".into()));
    assert_eq!(names(&repo), ["locked"]);
    refused(repo.agents(&["rm", "nobody"]), &["nobody"]);
    repo.agents(&["rm"]).code(129);
}

#[test]
fn a_tree_on_another_file_system_goes_into_a_folder_beside_it() {
    let shm = Path::new("/dev/shm");
    let env = Env::new();
    let repo = env.repo("x");
    use std::os::unix::fs::MetadataExt as _;
    let Ok(there) = tempfile::tempdir_in(shm) else { return };
    if std::fs::metadata(shm).unwrap().dev() == std::fs::metadata(repo.path()).unwrap().dev() {
        return;
    }
    let dir = there.path().canonicalize().unwrap();
    repo.git(&["config", "agents.worktreeDir", &format!("{}/{{{{ slug }}}}", dir.display())]);
    let at = agent_with_commit(&repo, "far");
    assert!(at.path().starts_with(&dir), "{}", at.path().display());
    at.write("ignored/key", "k\n");
    let tree = tree_state(at.path());
    repo.agents(&["rm", "far"]).ok();
    assert!(!at.path().exists());
    repo.agents(&["restore", "far"]).ok();
    assert_same_tree(&tree, &tree_state(at.path()));
    repo_invariants(&repo);
}

#[test]
fn a_git_at_work_lost_its_worktree_and_its_lock_came_back_with_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("k");
    let lock = repo.join(".git/worktrees/k/index.lock");
    std::fs::write(&lock, "").unwrap();
    for args in [&["rm", "k"][..], &["rm", "--force", "k"], &["rm", "-D", "k"]] {
        let out = repo.agents(args).code(128);
        assert!(out.stderr.contains("worktrees/k/index.lock' stands (") && out.stderr.contains(" s old)"), "{out}");
    }
    assert!(lock.exists());
    // One that goes by itself is waited for.
    let rm = repo.spawn(&["rm", "k"]);
    std::fs::remove_file(&lock).unwrap();
    rm.finish(&env).ok();
    // One that a git left which died in the trash.
    let trash = repo.common_dir().join("agents/trash");
    let entry = std::fs::read_dir(trash).unwrap().next().unwrap().unwrap().path();
    std::fs::write(entry.join("admin/index.lock"), "").unwrap();
    repo.agents(&["restore", "k"]).ok();
    assert!(!lock.exists());
    repo.worktree("k").commit("It works");
}

#[test]
fn a_removal_whose_last_step_had_to_wait_was_called_an_error() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    at.write("a", "a");
    let lock = repo.join(".git/refs/notes/agents-journal.lock");
    std::fs::write(&lock, "").unwrap();
    let out = repo.agents(&["rm", "k"]).ok();
    assert!(out.stderr.contains("'k' moved to the trash") && out.stderr.contains("agents-journal.lock"), "{out}");
    assert!(out.stderr.contains("the next command goes on with it"), "{out}");
    assert!(out.stderr.contains("undo: git agents restore k"), "{out}");
    std::fs::remove_file(&lock).unwrap();
    repo.agents(&["restore", "k"]).ok();
    assert_eq!(at.read("a"), "a");
}

#[test]
fn a_registration_that_names_anothers_worktree_led_to_its_deletion() {
    let env = Env::new();
    let repo = env.repo("x");
    let (a, b) = (repo.agent("a"), repo.agent("b"));
    for at in [&a, &b] {
        at.write("work", "mine");
    }
    repo.set("agent.b.worktree", "a");
    let all = repo.agents(&["status"]);
    assert!(!all.stdout.contains("its files stand at") && !all.stderr.contains("its files stand at"), "{all}");
    let out = repo.agents(&["rm", "b"]).code(128);
    assert!(out.stderr.contains("is damaged: 'worktree' names that of 'a'"), "{out}");
    assert!(!out.stderr.contains("rm -r") && out.stderr.contains("git agents adopt b"), "{out}");
    assert_eq!(a.agents(&["path"]).ok().stdout, a.agents(&["path", "a"]).ok().stdout);
    repo.agents(&["adopt", "b"]).ok();
    assert_eq!(repo.git(&["config", "agent.b.worktree"]), "b");
    repo.agents(&["rm", "b"]).ok();
    assert_eq!(a.read("work"), "mine");
    assert!(!b.path().exists());
}

#[test]
fn one_who_stood_in_the_worktree_was_warned_about_themselves() {
    let env = Env::new();
    let repo = env.repo("x");
    let at = repo.agent("k");
    let out = at.agents(&["rm", "@"]).ok();
    assert!(!out.stderr.contains("still working") && out.stderr.contains("you are in it: cd "), "{out}");
}

#[test]
fn what_landed_and_was_reverted_since_lost_its_branch() {
    let env = Env::new();
    let repo = env.repo("x");
    let one = repo.agent("one");
    one.write("new.txt", "work\n");
    let tip = one.commit("work");
    repo.git(&["merge", "-q", "--no-ff", "-m", "landed", "one"]);
    assert_eq!(repo.status_of("one")["branch_state"], "landed");
    repo.git(&["revert", "--no-edit", "-m", "1", "HEAD"]);
    assert_eq!(repo.status_of("one")["branch_state"], "diverged", "it is not in the base any more");
    let out = repo.agents(&["rm", "one"]).ok();
    assert_eq!(repo.tip("one"), tip, "the branch is all there is of it: {out}");
    // Landed again and built upon: nothing is lost with it.
    repo.agents(&["restore", "one"]).ok();
    repo.git(&["revert", "--no-edit", "HEAD"]);
    repo.write("new.txt", "work, and more\n");
    repo.commit("more");
    assert_eq!(repo.status_of("one")["branch_state"], "landed");
}

#[test]
fn advice_about_a_link_in_the_place_of_a_worktree_went_in_a_circle() {
    let env = Env::new();
    let repo = env.repo("x");
    let (a, b) = (repo.agent("a"), repo.agent("b"));
    a.write("a.txt", "a\n");
    a.commit("A");
    repo.git(&["merge", "--quiet", "--no-ff", "-m", "In", "a"]);
    b.write("b.txt", "not committed\n");
    std::fs::remove_dir_all(a.path()).unwrap();
    std::os::unix::fs::symlink(b.path(), a.path()).unwrap();
    let out = repo.agents(&["rm", "a"]).code(128);
    let command = format!("rm {}", a.path().display());
    assert!(out.stderr.contains(&format!("hint: {command}")), "{out}");
    assert!(repo.agents(&["doctor"]).to_string().contains(&command));
    std::fs::remove_file(a.path()).unwrap();
    repo.agents(&["rm", "a"]).ok();
    assert_eq!(b.read("b.txt"), "not committed\n");
}

#[test]
fn git_s_own_watcher_of_a_worktree_outlived_it() {
    let env = Env::new();
    let repo = env.repo("x");
    let (k, other) = (repo.agent("k"), repo.agent("other"));
    std::fs::write(repo.join(".git/worktrees/k/fsmonitor--daemon.ipc"), "").unwrap();
    let (git, stopped) = (env.git_program(), env.root().join("stopped"));
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" fsmonitor--daemon stop \"*) pwd >>'{}'; exit ;; esac\nexec '{}' \"$@\"\n",
        stopped.display(),
        git.display()
    );
    env.script("git", &script);
    for args in [&["rm", "--dry-run", "k"][..], &["rm", "other"], &["rm", "k"]] {
        assert!(!stopped.exists(), "before {args:?}");
        // Not through git: the real one would put itself in front.
        let mut command = env.command("git-agents", repo.path());
        command.args(args);
        crate::support::env::run(command, b"").ok();
    }
    assert_eq!(std::fs::read_to_string(stopped).unwrap().trim_end(), k.path().to_str().unwrap());
    assert!(!k.path().exists() && !other.path().exists());
}
