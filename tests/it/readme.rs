//! The README says what is there: its settings, its examples and its commands are tried.

use crate::support::{Env, env::run};
use git_agents::config::{project, table::table};
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
    let rows: String = table()
        .iter()
        .map(|s| {
            let file = s.file.map(|f| format!("`{f}`")).unwrap_or_default();
            let default = s.default.map(|d| format!("`{d}`")).unwrap_or_default();
            let yours = if s.protected { " (yours)" } else { "" };
            format!("| `{}` | {file} | {default} | {}{yours} |\n", s.config, s.help)
        })
        .collect();
    let (_, rest) = README.split_once("| git config | file | default | |\n| --- | --- | --- | --- |\n").unwrap();
    let there = &rest[..rest.find("\n\n").unwrap() + 1];
    assert_eq!(there, rows, "the table of settings in README.md should be:\n{rows}");
}

#[test]
fn the_example_file_is_read_and_has_every_key() {
    let examples = blocks("toml");
    assert_eq!(examples.len(), 2);
    for example in &examples {
        project::parse(example.as_bytes(), "README.md").unwrap();
    }
    for setting in table() {
        let Some(file) = setting.file else { continue };
        let key = file.rsplit('.').next().unwrap();
        assert!(
            examples[1].contains(&format!("\n{key} = ")) || examples[1].starts_with(&format!("{key} = ")),
            "{file}"
        );
    }
}

#[test]
fn the_first_batch_works_as_it_is_written() {
    let env = Env::new();
    let repo = env.repo("shop");
    // An assistant of that name, which takes its last argument for its task.
    env.script(
        "codex",
        "#!/bin/sh\n[ \"$1 $2 $3\" = 'exec --sandbox workspace-write' ] || exit 9\nmkdir -p docs\n\
         echo \"$AGENTS_NAME\" >\"docs/$AGENTS_NAME.txt\"\ncase $4 in 'Use the style'*) ;; *) exit 8 ;; esac\n",
    );
    repo.write(".git-agents.toml", blocks("toml")[0]);
    repo.write("tasks.md", blocks("")[0]);
    repo.commit("set up");
    repo.agents(&["trust", "--yes"]).ok();
    let script = blocks("sh")[1];
    assert!(script.lines().count() == 6, "{script}");
    let mut sh = env.command("sh", repo.path());
    sh.args(["-e", "-c", script]).env("GIT_PAGER", "cat");
    let out = run(sh, b"").ok();
    assert!(out.stdout.contains("batch 1: 3 of 3 agents ready") && out.stdout.contains("+docs"), "{out}");
    assert!(repo.join("docs/docs.txt").exists() && repo.join("docs/greet-customers-by-name.txt").exists());
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
    assert!(std::fs::read_to_string(root.join("demo")).unwrap().contains("cargo run --quiet -- demo"));
}
