//! The README says what is there: its settings, its examples and its commands are tried.

use crate::support::{Env, env::run};
use git_agents::config::project;
use git_agents::config::table::{SettingDoc, table};
use std::path::Path;

const README: &str = include_str!("../../README.md");

/// The fenced blocks of one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let mut parts = README.split("\n```");
    parts.next();
    let mut out = Vec::new();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        let (head, body) = block.split_once('\n').unwrap();
        if head == language {
            out.push(body);
        }
    }
    out
}

#[test]
fn the_settings_are_those_there_are() {
    let row = |s: &SettingDoc| {
        let star = if s.protected { " *" } else { "" };
        let file = s.file.map(|f| format!("`{f}`")).unwrap_or_default();
        let default = s.default.map(|d| format!("`{d}`")).unwrap_or_default();
        format!("| `{}`{star} | {file} | {default} | {} |\n", s.config, s.help)
    };
    let rows: String = table().iter().map(row).collect();
    let (_, rest) = README.split_once("| git config | file | default | |\n| --- | --- | --- | --- |\n").unwrap();
    let there = &rest[..rest.find("\n\n").unwrap() + 1];
    assert_eq!(there, rows, "the table of settings in README.md should be:\n{rows}");
}

#[test]
fn the_example_files_are_read_and_name_every_table() {
    let examples = blocks("toml");
    for example in &examples {
        project::parse(example.as_bytes(), "README.md").unwrap();
    }
    let all = examples.concat();
    for table in ["[worktree]", "[setup]", "[test]", "[limits]", "[assistants.", "[cleanup]"] {
        assert!(all.contains(table), "{table}");
    }
}

#[test]
fn the_first_batch_works_as_it_is_written() {
    let env = Env::new();
    let repo = env.repo("shop");
    // An assistant of that name, which reads its task and tells what it does.
    env.script(
        "codex",
        r#"#!/bin/sh
case "$*" in
*help*) echo '--json --skip-git-repo-check -c --dangerously-bypass-approvals-and-sandbox --model'; exit ;;
'login status') exit ;;
*network_access=true*) ;;
*) exit 9 ;;
esac
read -r first
case $first in 'Use the style'*) ;; *) exit 8 ;; esac
echo '{"type":"thread.started","thread_id":"t"}'
mkdir -p docs
echo "$AGENTS_NAME" >"docs/$AGENTS_NAME.txt"
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'
"#,
    );
    repo.write(".git-agents.toml", blocks("toml")[0]);
    repo.write("tasks.md", blocks("text")[0]);
    repo.commit("set up");
    let script = blocks("sh")[2];
    assert!(script.lines().count() == 12, "{script}");
    let mut sh = env.command("sh", repo.path());
    sh.args(["-e", "-c", &script.replace("trust ", "trust --yes ")]).env("GIT_PAGER", "cat");
    let out = run(sh, b"").ok();
    // The third merges what the first two made, and one of its files is not where it was asked to stay.
    assert!(
        out.stdout.contains("batch 1: 2 of 3 agents ready") && out.stdout.contains("flag: changed outside"),
        "{out}"
    );
    assert!(repo.join("docs/pagination.txt").exists());
    assert_eq!(repo.agents(&["status", "--names"]).ok().stdout.lines().count(), 2);
}

#[test]
fn what_it_names_exists() {
    let env = Env::new();
    let repo = env.repo("x");
    let mut seen = 0;
    for rest in README.split("git agents ").skip(1) {
        let word: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        if word.is_empty() || word.starts_with('-') {
            continue;
        }
        let help = repo.agents(&[word.as_str(), "-h"]);
        assert!(help.status == 0, "README.md names 'git agents {word}'\n{help}");
        seen += 1;
    }
    assert!(seen > 10, "{seen}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for program in ["demo", "tests/run"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(root.join(program)).unwrap().permissions().mode();
        assert!(mode & 0o111 != 0 && README.contains(program), "{program}");
    }
    assert!(std::fs::read_to_string(root.join("demo")).unwrap().contains("cargo run --quiet"));
}
