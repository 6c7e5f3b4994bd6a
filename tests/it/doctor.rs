//! What `doctor` finds, what it mends, and what it leaves to a person with the command.

use crate::support::agents::list;
use crate::support::{Env, Repo};
use serde_json::Value;

fn findings(repo: &Repo<'_>, args: &[&str]) -> Vec<(String, String, String)> {
    let args: Vec<&str> = ["doctor", "--json"].iter().chain(args).copied().collect();
    let answer = repo.agents(&args).json();
    let word = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let all = answer["findings"].as_array().unwrap();
    // Whether man finds the pages is no question of a repository.
    all.iter()
        .filter(|f| f["about"] != "manual")
        .map(|f| (word(&f["about"]), word(&f["what"]), word(&f["mend"])))
        .collect()
}

/// Without what is no fault of a repository's: names below `localhost` that do not resolve, pages that are not installed.
fn without_names(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for note in ["note set-up: 'x.localhost' ", "note manual: "] {
        if let Some(n) = lines.iter().position(|l| l.starts_with(note)) {
            lines.drain(n..n + 2);
        }
    }
    if lines.is_empty() { "nothing is wrong\n".to_owned() } else { lines.join("\n") + "\n" }
}

#[test]
fn a_sound_repository_has_nothing_wrong() {
    let env = Env::new();
    let repo = env.repo("x");
    let sound = |args: &[&str]| assert_eq!(without_names(&repo.agents(args).ok().stdout), "nothing is wrong\n");
    sound(&["doctor"]);
    repo.agent("one");
    repo.run(&[("two", "WRITE: a.txt: a\nCOMMIT: a")], &[]).ok();
    sound(&["doctor"]);
    sound(&["doctor", "--fix"]);
}

#[test]
fn names_below_localhost_that_lead_nowhere_were_not_said() {
    let env = Env::new();
    let repo = env.repo("x");
    let with = |hosts: &str| {
        let file = env.root().join("hosts");
        std::fs::write(&file, format!("127.0.0.1 localhost\n{hosts}\n")).unwrap();
        std::fs::write(env.root().join("nsswitch"), "hosts: files\n").unwrap();
        let root = env.root().display();
        let mount = format!(
            "mount --bind {root}/hosts /etc/hosts && mount --bind {root}/nsswitch /etc/nsswitch.conf && exec git agents doctor"
        );
        let mut command = env.command("unshare", repo.path());
        command.args(["--mount", "sh", "-c", &mount]);
        let out = crate::support::env::run(command, b"");
        (out.status == 0).then_some(out)
    };
    let Some(out) = with("") else {
        eprintln!("no mount namespaces here: not tried");
        return;
    };
    assert!(out.stdout.contains("note set-up: 'x.localhost' does not resolve"), "{out}");
    assert!(out.stdout.contains("mend: install libnss-myhostname"), "{out}");
    let out = with("127.0.0.1 x.localhost\n::1 x.localhost").unwrap();
    assert!(!out.stdout.contains("x.localhost"), "{out}");
    let out = with("192.0.2.7 x.localhost").unwrap();
    assert!(out.stdout.contains("'x.localhost' leads to 192.0.2.7"), "{out}");
}

#[test]
fn without_a_home_it_says_what_it_cannot_check_and_checks_the_rest() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("one");
    repo.git(&["config", "agent.one.fork", "nonsense"]);
    let mut command = env.agents_command(repo.path(), &["doctor", "--json"]);
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let out = crate::support::env::run(command, b"").code(1);
    for words in ["not checked whether what git runs or trusts changed: HOME is not set", "'one' is damaged"] {
        assert!(out.stdout.contains(words), "{out}");
    }
    assert!(out.stdout.contains("set HOME to your home directory"), "{out}");
}

#[test]
fn each_finding_names_the_command_that_mends_it() {
    let env = Env::new();
    let repo = env.repo("x");
    for name in ["damaged", "moved", "gone", "there"] {
        repo.agent(name);
    }
    let tree = repo.worktree("moved").path().to_owned();
    std::fs::rename(&tree, tree.with_file_name("elsewhere")).unwrap();
    std::fs::rename(repo.worktree("gone").path(), repo.join("../aside")).unwrap();
    std::fs::remove_file(repo.join("../aside/.git")).unwrap();
    repo.git(&["config", "agent.damaged.fork", "nonsense"]);
    repo.git(&["config", "--global", "agents.minFree", "900TiB"]);
    repo.git(&["config", "--global", "agents.assistant", "mine"]);
    repo.custom(&["no-such-program"]);
    let lock = repo.common_dir().join("packed-refs.lock");
    std::fs::write(&lock, "").unwrap();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options().write(true).open(&lock).unwrap().set_modified(old).unwrap();
    let out = repo.agents(&["doctor"]).code(1);
    let all = findings(&repo, &[]);
    let mend = |about: &str, what: &str| {
        let hit = all.iter().find(|(a, w, _)| a == about && w.contains(what));
        hit.map(|(_, _, m)| m.clone()).unwrap_or_else(|| panic!("'{about}' '{what}' is not among\n{out}"))
    };
    assert_eq!(mend("damaged", "is damaged"), "git agents adopt damaged");
    assert!(
        mend("git", "were moved").ends_with("worktree repair ../x.agents/elsewhere")
            || mend("git", "were moved").contains("elsewhere")
    );
    assert_eq!(mend("gone", "missing"), "git agents rm gone");
    assert!(mend("git", "packed-refs.lock' stands for 2h").contains("make sure that no git runs"));
    assert!(mend("set-up", "of disk are free").is_empty());
    mend("set-up", "no-such-program");
    // What it offers helps.
    repo.agents(&["adopt", "damaged"]).ok();
    assert!(!findings(&repo, &[]).iter().any(|(a, ..)| a == "damaged"));
    assert!(lock.exists(), "nothing of somebody else's is removed");
}

#[test]
fn fixing_ends_what_a_killed_supervisor_left() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents_input(&["run", "-q", "-d", "-a", "scripted", "-f", "-"], list(&[("dead", "SLEEP: 600")])).ok();
    repo.reaches("dead", "running");
    let (supervisor, assistant) = repo.pids("dead");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), nix::sys::signal::Signal::SIGKILL).unwrap();
    repo.becomes("dead", "dead");
    assert!(findings(&repo, &[]).iter().any(|(a, _, m)| a == "dead" && m == "git agents retry dead"));
    let after = findings(&repo, &["--fix"]);
    assert!(after.iter().any(|(a, _, m)| a == "dead" && m == "git agents retry dead"), "{after:?}");
    assert!(!after.iter().any(|(_, w, _)| w.contains("locked by a run that is gone")), "{after:?}");
    let gone = || !std::path::Path::new(&format!("/proc/{}", assistant.unwrap())).exists();
    env.until("the assistant is ended", gone);
}

#[test]
fn a_bare_flag_beside_a_checkout_is_seen_where_git_itself_refuses() {
    let env = Env::new();
    let repo = env.repo("x");
    let one = repo.agent("one");
    repo.git(&["config", "core.bare", "true"]);
    let out = one.agents(&["doctor"]).code(1).stdout;
    assert!(
        out.contains("core.bare is set though there is a checkout") && out.contains("git config core.bare false"),
        "{out}"
    );
}

#[test]
fn a_hook_that_an_assistant_wrote_ran_when_its_user_committed() {
    let env = Env::new();
    let repo = env.repo("x");
    let line = "git config alias.st '!evil'; echo '#!/bin/sh' > \"$(git rev-parse --git-path hooks)/post-commit\"";
    repo.custom(&["sh", "-c", line]);
    // What its user does while nobody works is his own.
    repo.run(&[("first", "WRITE: a: x\nCOMMIT: a")], &[]).ok();
    repo.git(&["config", "alias.mine", "log"]);
    repo.agents(&["run", "-a", "mine", "second"]).code(1);
    repo.git(&["config", "alias.mine", "log -1"]);
    let found = findings(&repo, &[]);
    let what = "what git runs or trusts changed while agents worked: alias.st, hook 'post-commit'";
    let third = repo.run(&[("third", "WRITE: b: x\nCOMMIT: b")], &[]);
    assert!(third.stderr.contains(what) && third.stderr.contains("doctor --accept"), "{third}");
    assert!(found[0].1.starts_with("what git runs or trusts changed while agents worked: alias.st, hook"), "{found:?}");
    let accepted = repo.agents(&["doctor", "--accept"]).ok();
    assert!(accepted.stderr.contains("accepted: hook 'post-commit'"), "{accepted}");
    assert!(!repo.run(&[("fourth", "WRITE: c: x\nCOMMIT: c")], &[]).stderr.contains("changed while"));
    repo.agents(&["doctor"]).ok();
    // Values may be secrets: they are not kept.
    assert!(!std::fs::read_to_string(env.root().join("state/git-agents/approvals.json")).unwrap().contains("log -1"));
}

#[test]
fn a_hook_that_no_longer_fires_is_told() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["hooks", "install", "--yes"]).ok();
    repo.agents(&["doctor"]).ok();
    let hook = repo.common_dir().join("hooks/post-merge");
    let text = std::fs::read_to_string(&hook).unwrap();
    std::fs::remove_file(&hook).unwrap();
    let all = findings(&repo, &[]);
    assert_eq!(all[0].0, "hook post-merge");
    assert_eq!(all[0].2, "git agents hooks install");
    // There, and not executable.
    std::fs::write(&hook, text).unwrap();
    let all = findings(&repo, &[]);
    assert!(all[0].0 == "hook post-merge" && all[0].1.starts_with("it does not fire"), "{all:?}");
}

#[test]
fn a_manual_and_a_shell_that_were_never_told_of_it_are_said_until_they_are() {
    let env = Env::new();
    let repo = env.repo("x");
    let bin = env.root().join("prefix/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_git-agents"), bin.join("git-agents")).unwrap();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(env.path()))).unwrap();
    let said = |shell: &str, args: &[&str]| {
        let mut command = env.agents_command(repo.path(), args);
        command.env("PATH", &path).env("SHELL", shell);
        crate::support::env::run(command, b"").ok().stdout
    };
    let rc = [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/config.fish")];
    for (shell, file) in rc {
        let before = said(&format!("/bin/{shell}"), &["doctor"]);
        assert!(before.contains(&format!("note shell: {shell} does not complete")), "{before}");
        let file = env.home().join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, format!("git agents shell-init {shell} | source\n")).unwrap();
        assert!(!said(&format!("/bin/{shell}"), &["doctor"]).contains("note shell"));
    }
    if !std::env::split_paths(env.path()).any(|d| d.join("man").is_file()) {
        return;
    }
    let before = said("/bin/sh", &["doctor"]);
    assert!(before.contains("note manual: man does not find") && before.contains("manual --install"), "{before}");
    said("/bin/sh", &["manual", "--install"]);
    assert!(!said("/bin/sh", &["doctor"]).contains("note manual"));
    let page = env.root().join("prefix/share/man/man1/git-agents.1");
    let text = std::fs::read_to_string(&page).unwrap();
    std::fs::write(&page, text.replace("AI coding", "clever")).unwrap();
    assert!(said("/bin/sh", &["doctor"]).contains("of another version"));
}
