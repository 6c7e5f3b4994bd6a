//! Completion in real shells: through git's own, for the program and for the function.

use crate::support::env::run;
use crate::support::{Env, Out, Repo, tree_state};
use std::path::{Path, PathBuf};

const GITS_OWN: &str = "/usr/share/bash-completion/completions/git";

/// Whether `shell` is here; `tests/run` sees to it that it is.
fn has(env: &Env, shell: &str) -> bool {
    let here = std::env::split_paths(env.path()).any(|d| d.join(shell).is_file());
    assert!(here || std::env::var_os("CI").is_none(), "{shell} is missing");
    here
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_git-agents"))
}

/// A repository with three agents, and an alias.
fn repo(env: &Env) -> Repo<'_> {
    let repo = env.repo("shop");
    for name in ["first", "second", "feat/third"] {
        repo.agents(&["new", "-q", name]).ok();
    }
    repo.git(&["config", "alias.ag", "agents"]);
    repo.git(&["branch", "topic"]);
    repo
}

/// What bash offers for each command line, candidates in angle brackets.
fn in_bash(repo: &Repo<'_>, dir: &Path, lines: &[&[&str]]) -> Out {
    let env = repo.env;
    let init = env.root().join("init.bash");
    std::fs::write(&init, repo.agents(&["shell-init", "bash"]).ok().stdout).unwrap();
    let mut script = format!(
        ". /usr/share/bash-completion/bash_completion\n. {GITS_OWN}\n. '{}'\n{}",
        init.display(),
        r#"try() {
    COMP_LINE="$*"; COMP_LINE=${COMP_LINE// = /=}; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_POINT=${#COMP_LINE}; COMPREPLY=()
    local by; by=$(complete -p "$1"); by=${by##*-F }
    "${by%% *}" "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"
    printf '<%s>' "${COMPREPLY[@]}"; echo
}
"#
    );
    for line in lines {
        let words: Vec<String> = line.iter().map(|w| format!("'{w}'")).collect();
        script.push_str(&format!("try {}\n", words.join(" ")));
    }
    let mut bash = env.command("bash", dir);
    bash.args(["--norc", "-c", &script]);
    run(bash, b"").ok()
}

#[test]
fn bash_offers_agents_behind_git_its_options_and_its_aliases() {
    let env = Env::new();
    let repo = repo(&env);
    if !has(&env, "bash") || !Path::new(GITS_OWN).exists() {
        return;
    }
    let at = repo.path().to_str().unwrap();
    let out = in_bash(
        &repo,
        env.root(),
        &[
            &["git", "-C", at, "agents", "rm", ""],
            &["git", "-C", at, "agents", "-C", "..", "rm", "--st"],
            &["git", "-C", at, "ag", "show", "fe"],
            &["git-agents", "-C", at, "path", "s"],
            &["agents", "-C", at, "rm", "first", "f"],
        ],
    );
    let wanted = "<first ><second ><feat/third >\n<--stop >\n<feat/third >\n<second >\n<feat/third >\n";
    assert_eq!((out.stdout.as_str(), out.stderr.as_str()), (wanted, ""), "{out}");
    let out = in_bash(
        &repo,
        repo.path(),
        &[
            &["git", "age"],
            &["git", "agents", "sho"],
            &["git", "agents", "rm", "--dr"],
            &["git", "agents", "report", "--format", "=", "js"],
            &["git", "agents", "run", "--base", "to"],
            &["git", "agents", "adopt", "to"],
            &["git", "agents", "hooks", "un"],
            &["git", "agents", "status", "--state", "needs"],
            &["agents", "cd", "sec"],
            &["git", "agents", "nonsense", ""],
        ],
    );
    let wanted =
        "<agents >\n<show >\n<--dry-run >\n<json >\n<topic >\n<topic >\n<uninstall >\n<needs-input >\n<second >\n";
    assert!(out.stdout.starts_with(wanted) && out.stderr.is_empty(), "{out}");
}

#[test]
fn zsh_offers_agents_behind_git_its_options_and_its_aliases() {
    let env = Env::new();
    let repo = repo(&env);
    if !has(&env, "zsh") {
        return;
    }
    let at = repo.path().display();
    let lines = [
        ("git agents rm sec", "git agents rm second "),
        (&format!("cd /; git -C {at} agents rm fir"), &format!("cd /; git -C {at} agents rm first ")),
        ("git ag show fe", "git ag show feat/third "),
        ("git-agents path sec", "git-agents path second "),
        ("agents cd sec", "agents cd second "),
        ("git age", "git agents "),
        ("git agents report --format=js", "git agents report --format=json "),
        ("git agents rm first f", "git agents rm first feat/third "),
    ];
    // The widget writes what the line has become into a pipe that the other side waits at.
    std::fs::write(
        env.root().join("init.zsh"),
        "autoload -U compinit; compinit -u -D\neval \"$(git agents shell-init zsh)\"\n\
         tell() { print -r -- \"$BUFFER\" >$PIPE; BUFFER= }\nzle -N tell; bindkey '^Xd' tell\nprint ready >$PIPE\n",
    )
    .unwrap();
    let mut script = "zmodload zsh/zpty; export PIPE=$TMPDIR/pipe; mkfifo $PIPE; exec {p}<>$PIPE\nzpty z zsh -f -i\n\
                      zpty -w z \". '$1'\"; read -r -u $p line\n"
        .to_owned();
    for (typed, _) in &lines {
        script
            .push_str(&format!("zpty -w -n z '{typed}'$'\\t\\x18d'; IFS= read -r -u $p line; print -r -- \"$line\"\n"));
    }
    script.push_str("zpty -d z\n");
    let mut zsh = env.command("timeout", repo.path());
    zsh.args(["30", "zsh", "-f", "-c", &script, "zsh"]).arg(env.root().join("init.zsh")).env("TERM", "xterm");
    let out = run(zsh, b"").ok();
    let wanted: String = lines.iter().map(|(_, became)| format!("{became}\n")).collect();
    assert_eq!(out.stdout, wanted, "{out}");
}

#[test]
fn fish_offers_agents_behind_git_its_options_and_its_aliases() {
    let env = Env::new();
    let repo = repo(&env);
    if !has(&env, "fish") {
        return;
    }
    let at = repo.path().display();
    let lines = [
        ("git agents rm sec", "second"),
        (&format!("git -C {at} agents rm fir"), "first"),
        ("git ag show fe", "feat/third"),
        ("git-agents path sec", "second"),
        ("agents cd sec", "second"),
        ("git age", "agents"),
        ("git agents sho", "show"),
        ("git agents report --format=js", "--format=json"),
    ];
    let mut script = "git agents shell-init fish | source\n".to_owned();
    for (typed, _) in &lines {
        script.push_str(&format!("complete -C '{typed}' | string replace -r '\\t.*' ''\n"));
    }
    script.push_str("true\n");
    let mut fish = env.command("fish", repo.path());
    fish.args(["-c", &script]);
    let out = run(fish, b"").ok();
    let wanted: String = lines.iter().map(|(_, offered)| format!("{offered}\n")).collect();
    assert_eq!((out.stdout.as_str(), out.stderr.as_str()), (wanted.as_str(), ""), "{out}");
}

#[test]
fn a_branch_with_shell_in_its_name_is_typed_as_a_name() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.git(&["branch", "a$(touch${IFS}pwned);b'c"]);
    let out = ask(&repo, repo.path(), &["bash", "3", "agents", "run", "--base", "a"]);
    let typed = out.stdout.trim_end_matches('\n');
    let mut sh = env.command("bash", repo.path());
    sh.args(["--norc", "-c", &format!("printf '%s|' {typed}")]);
    assert_eq!(run(sh, b"").ok().stdout, "a$(touch${IFS}pwned);b'c|", "{out}");
    assert!(!repo.join("pwned").exists());
}

/// The program itself, where no git is found.
fn ask(repo: &Repo<'_>, dir: &Path, args: &[&str]) -> Out {
    let mut command = repo.env.command(program(), dir);
    command.arg("complete").args(args).env("PATH", "/nonexistent");
    run(command, b"").ok()
}

#[test]
fn it_starts_no_git_writes_nothing_and_complains_about_nothing() {
    let env = Env::new();
    let repo = repo(&env);
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: c.txt: x"]).ok();
    let before = tree_state(&repo.common_dir());
    let words = |args: &[&str]| ask(&repo, repo.path(), args).stdout;
    assert_eq!(words(&["bash", "2", "agents", "rm", "s"]), "second \n");
    assert_eq!(words(&["bash", "3", "agents", "status", "--batch", ""]), "1 \n");
    assert_eq!(words(&["bash", "2", "agents", "show", "1"]), "1 \n");
    assert_eq!(words(&["bash", "3", "agents", "run", "-a", "scr"]), "scripted \n");
    // In an agent's own worktree too.
    let place = PathBuf::from(repo.agents(&["path", "second"]).ok().stdout.trim_end());
    assert_eq!(ask(&repo, &place, &["fish", "2", "agents", "rm", "sec"]).stdout, "second\tsecond\n");
    for nonsense in [&["bash", "9", "agents", ""][..], &["bash", "x", "agents", ""], &["tcsh", "1", "agents", ""]] {
        assert_eq!(words(nonsense), "");
    }
    assert_eq!(tree_state(&repo.common_dir()), before);
    assert!(ask(&repo, env.root(), &["bash", "2", "agents", "rm", ""]).stdout.starts_with("-"));
    repo.write(".git/config", "[agent \"x\"\n\tid=\n\0\n");
    repo.write(".git-agents.toml", "[[[");
    for at in ["rm", "adopt", "restore", "push"] {
        let out = ask(&repo, repo.path(), &["zsh", "2", "agents", at, ""]);
        assert!(out.stderr.is_empty(), "{out}");
    }
}

#[test]
fn a_hundred_agents_are_listed_before_anybody_notices() {
    let env = Env::new();
    let repo = repo(&env);
    let config = repo.read(".git/config");
    let (_, one) = config.split_once("[agent \"first\"]").unwrap();
    let one = one.split("\n[").next().unwrap();
    let more: String = (0..100).map(|n| format!("[agent \"more-{n}\"]{one}\n")).collect();
    repo.write(".git/config", format!("{config}\n{more}"));
    // The best of some: others work beside this, in a build that is not optimised.
    for (shell, limit) in [("bash", 50), ("zsh", 400)] {
        let took = |_| {
            let start = std::time::Instant::now();
            let out = ask(&repo, repo.path(), &[shell, "2", "agents", "rm", "m"]);
            assert_eq!(out.stdout.lines().count(), 100, "{out}");
            start.elapsed()
        };
        let best = (0..10).map(took).min().unwrap();
        assert!(best.as_millis() < limit, "{shell}: {best:?}");
    }
}
