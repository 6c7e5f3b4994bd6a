//! The manual: made from what there is, found by man, gone again without a trace.

use crate::support::env::run;
use crate::support::{Env, Out, Repo, tree_state};
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn pages(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    all.sort();
    all
}

/// Whether `program` is here; `tests/run` sees to it that it is.
fn has(env: &Env, program: &str) -> bool {
    let here = std::env::split_paths(env.path()).any(|d| d.join(program).is_file());
    assert!(here || std::env::var_os("CI").is_none(), "{program} is missing");
    here
}

#[test]
fn the_pages_in_the_repository_are_those_that_are_made_now() {
    let env = Env::new();
    let made = env.root().join("man");
    let repo = env.repo("x");
    repo.agents(&["manual", "--install", made.to_str().unwrap()]).ok();
    let text = |dir: &Path| -> Vec<(String, String)> {
        let one =
            |p: PathBuf| (p.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read_to_string(p).unwrap());
        pages(dir).into_iter().map(one).collect()
    };
    let (made, kept) = (text(&made.join("man1")), text(&root().join("man/man1")));
    let names = |all: &[(String, String)]| all.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
    assert_eq!(names(&made), names(&kept), "'git agents manual --install man' in the project brings them up to date");
    for (made, kept) in made.iter().zip(&kept) {
        assert!(made == kept, "man/man1/{} is not up to date: 'git agents manual --install man'", kept.0);
    }
}

#[test]
fn no_formatter_has_anything_to_say_about_them() {
    let env = Env::new();
    let all = pages(&root().join("man/man1"));
    assert!(all.len() > 25);
    if has(&env, "mandoc") {
        let mut lint = env.command("mandoc", env.root());
        lint.args(["-T", "lint"]).args(&all);
        let out = run(lint, b"");
        assert!(out.status == 0 && out.stdout.is_empty(), "{out}");
    }
    if has(&env, "man") && has(&env, "groff") {
        for page in &all {
            let mut man = env.command("man", env.root());
            man.args(["--warnings", "-l"]).arg(page).env("MANPAGER", "cat").env("MANWIDTH", "80");
            let out = run(man, b"").ok();
            assert!(out.stderr.is_empty(), "{out}");
            assert!(out.stdout.contains("EXAMPLES") && out.stdout.contains("EXIT STATUS"), "{out}");
        }
    }
}

/// The program as it lies in a directory `bin` on `PATH`; what `git ARGS` says there.
fn installed(env: &Env, repo: &Repo<'_>, args: &[&str]) -> Out {
    let bin = env.root().join("prefix/bin");
    if !bin.exists() {
        std::fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_git-agents"), bin.join("git-agents")).unwrap();
    }
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(env.path()))).unwrap();
    let mut git = env.command("git", repo.path());
    git.args(args).env("PATH", path).env("MANPAGER", "cat").env("MANWIDTH", "80");
    run(git, b"")
}

#[test]
fn git_agents_help_is_answered_once_it_is_installed_and_not_after() {
    let env = Env::new();
    let repo = env.repo("x");
    if !has(&env, "man") || !has(&env, "groff") {
        return;
    }
    let git = |args: &[&str]| installed(&env, &repo, args);
    assert!(git(&["agents", "--help"]).status != 0, "somebody else's page is found");
    let before = tree_state(env.root());
    git(&["agents", "manual", "--install", "--dry-run"]).ok();
    assert_eq!(tree_state(env.root()), before);
    let out = git(&["agents", "manual", "--install"]).ok();
    assert!(out.stderr.contains("undo: git agents manual --uninstall"), "{out}");
    assert!(env.root().join("prefix/share/man/man1/git-agents.1").is_file());
    let help = git(&["agents", "--help"]).ok();
    assert!(help.stdout.starts_with("GIT-AGENTS(1)") && help.stdout.contains("agents.parallel"), "{help}");
    let run = git(&["agents", "manual", "run"]).ok();
    assert!(run.stdout.contains("git agents run [options] [TASK]..."), "{run}");
    let after = tree_state(env.root());
    let again = git(&["agents", "manual", "--install"]).ok();
    assert!(again.stderr.contains("as they should be"), "{again}");
    assert_eq!(tree_state(env.root()), after);
    git(&["agents", "manual", "--uninstall"]).ok();
    assert!(pages(&env.root().join("prefix/share/man/man1")).is_empty());
}

#[test]
fn pages_of_others_are_neither_replaced_nor_taken_out() {
    let env = Env::new();
    let repo = env.repo("x");
    let dir = env.root().join("man/man1");
    std::fs::create_dir_all(&dir).unwrap();
    for name in ["git-agents-run.1", "git-agents-mine.1", "git.1"] {
        std::fs::write(dir.join(name), ".TH X 1\n").unwrap();
    }
    std::os::unix::fs::symlink("git.1", dir.join("git-agents.1")).unwrap();
    let out = repo.agents(&["manual", "--install", "../../man"]).code(1);
    assert!(out.stderr.contains("git-agents-run.1' is not ours"), "{out}");
    assert!(pages(&dir).len() > 25);
    repo.agents(&["manual", "--uninstall", "../../man"]).ok();
    let left: Vec<PathBuf> = pages(&dir);
    assert_eq!(left.len(), 4, "{left:?}");
    assert_eq!(std::fs::read_to_string(dir.join("git-agents-run.1")).unwrap(), ".TH X 1\n");
}

#[test]
fn without_a_place_beside_the_binary_the_pages_go_to_the_home() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["manual", "--install"]).ok();
    assert!(env.home().join(".local/share/man/man1/git-agents-rm.1").is_file());
    repo.agents(&["manual", "nonsense"]).code(129);
    let mut shown = env.agents_command(repo.path(), &["manual", "rm"]);
    shown.env("MANPAGER", "cat");
    assert!(run(shown, b"").ok().stdout.contains("remove environments"));
    assert_eq!(std::fs::read_dir(env.root().join("tmp")).unwrap().count(), 0, "a page was left behind");
}
