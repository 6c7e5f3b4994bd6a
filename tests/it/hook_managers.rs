//! Our hooks beside the real hook managers, set up as their users do: `tests/run` puts them into `target/tools`.

use crate::hooks::{EVENTS, all_fire_forced, commit_in, files};
use crate::support::env::run;
use crate::support::{Env, Repo};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A part of `target/tools`; where it is missing, that is a fault in CI and said elsewhere.
fn tool(part: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools").join(part);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "missing: {}; 'tests/run' installs it", path.display());
    eprintln!("left out: '{}' is not there; 'tests/run' installs it", path.display());
    None
}

/// `program ARGS` in the repository, as its user would type it.
#[track_caller]
fn call(repo: &Repo<'_>, program: &Path, args: &[&str]) {
    let mut command = repo.env.command(program, repo.path());
    // What npm tells the scripts of packages.
    command.args(args).env("INIT_CWD", repo.path()).env("npm_config_user_agent", "npm/10");
    run(command, b"").ok();
}

/// Puts the printed lines where they are said to go, sets the tool up with them, and sees them work. `take`: from the
/// printed lines, without those that say where.
fn works(repo: &Repo<'_>, take: &dyn Fn(&str)) {
    let hooks = || (files(&repo.join(".git/hooks")), files(&repo.join(".husky")), repo.read(".git/config"));
    let before = hooks();
    let out = repo.agents(&["hooks", "install", "--yes"]).code(1);
    assert!(hooks() == before, "something was written\n{out}");
    let lines: Vec<&str> = out.stdout.lines().filter(|l| !l.starts_with('#')).collect();
    take(&lines.join("\n"));
    repo.git(&["add", "--all"]);
    repo.git(&["commit", "--quiet", "-m", "Hooks"]);
    let status = repo.agents(&["hooks", "status"]).code(1);
    assert_eq!(status.stdout.matches("not tried").count(), EVENTS.len(), "{status}");
    all_fire_forced(repo);
    // A real merge: what has landed goes by itself.
    let landed = commit_in(repo, "landed", "landed.txt", "x");
    repo.git(&["merge", "--quiet", "--no-ff", "--no-edit", "landed"]);
    repo.env.until("the landed one is gone", || {
        !landed.exists() && repo.status()["agents"].as_array().unwrap().is_empty() && repo.env.processes().is_empty()
    });
    let before = hooks();
    repo.agents(&["hooks", "uninstall"]).ok();
    assert!(hooks() == before, "what is not ours was taken out");
    // Into their files, asked for, and out again.
    repo.agents(&["hooks", "install", "--yes", "--force"]).ok();
    assert!(hooks() != before);
    let status = repo.agents(&["hooks", "status"]).ok();
    assert_eq!(status.stdout.matches("fires").count(), EVENTS.len(), "{status}");
    repo.agents(&["hooks", "uninstall"]).ok();
    assert!(hooks() == before, "not every byte is as it was");
}

#[test]
fn the_line_for_lefthook_was_no_yaml() {
    let Some(lefthook) = tool("npm/node_modules/.bin/lefthook") else { return };
    let env = Env::new();
    symlink(&lefthook, env.root().join("bin/lefthook")).unwrap();
    let repo = env.repo("x");
    repo.write("lefthook.yml", "pre-push:\n  commands:\n    theirs:\n      run: exit 0\n");
    call(&repo, &lefthook, &["install"]);
    works(&repo, &|lines| {
        repo.write("lefthook.yml", format!("{}{lines}\n", repo.read("lefthook.yml")));
        call(&repo, &lefthook, &["install"]);
    });
}

#[test]
fn pre_commit_shows_nothing_of_what_went_well_and_the_hook_was_said_not_to_fire() {
    let Some(pre_commit) = tool("pre-commit/bin/pre-commit") else { return };
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".pre-commit-config.yaml", "repos: []\n");
    let types: Vec<String> = EVENTS.iter().map(|e| format!("--hook-type={e}")).collect();
    let args: Vec<&str> = std::iter::once("install").chain(types.iter().map(String::as_str)).collect();
    call(&repo, &pre_commit, &args);
    works(&repo, &|lines| repo.write(".pre-commit-config.yaml", format!("repos:\n{lines}\n")));
}

#[test]
fn the_lines_for_husky_4_fire() {
    let Some(husky) = tool("npm/node_modules/husky4") else { return };
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::create_dir_all(repo.join("node_modules/.bin")).unwrap();
    symlink(&husky, repo.join("node_modules/husky")).unwrap();
    symlink("../husky/bin/run.js", repo.join("node_modules/.bin/husky-run")).unwrap();
    repo.write(".gitignore", "node_modules\n");
    repo.write("package.json", "{ \"name\": \"x\" }\n");
    call(&repo, Path::new("node"), &["node_modules/husky/husky.js", "install"]);
    works(&repo, &|lines| {
        let hooks = lines.lines().collect::<Vec<_>>().join(",\n");
        repo.write("package.json", format!("{{ \"name\": \"x\", \"husky\": {{ \"hooks\": {{\n{hooks}\n}} }} }}\n"));
    });
}

#[test]
fn the_lines_for_husky_9_fire() {
    let Some(husky) = tool("npm/node_modules/husky") else { return };
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::create_dir_all(repo.join("node_modules")).unwrap();
    symlink(&husky, repo.join("node_modules/husky")).unwrap();
    repo.write(".gitignore", "node_modules\n");
    repo.write("package.json", "{ \"name\": \"x\" }\n");
    call(&repo, Path::new("node"), &["node_modules/husky/bin.js"]);
    works(&repo, &|lines| {
        for (event, line) in EVENTS.iter().zip(lines.lines()) {
            repo.write(format!(".husky/{event}"), format!("{line}\n"));
        }
    });
}
