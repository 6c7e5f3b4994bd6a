//! `overlap`, `check` and the overlap of `status`, as their users see them.

use crate::support::env::Background;
use crate::support::{Env, Repo, tree_state};
use serde_json::{Value, json};

const PARSER: &str = "\
fn parse(a: u8) -> u8 {
    let x = a;
    let y = x;
    let z = y;
    let w = z;
    let v = w;
    let u = v;
    let t = u;
    t
}

fn far() {}
fn away() {}
fn from() {}
fn it() {}
fn ours() {}
fn all() {}
";

/// A repository with `src/a.rs` and environments of these names.
fn repo<'e>(env: &'e Env, names: &[&str]) -> Repo<'e> {
    let repo = env.repo("shop");
    repo.write("src/a.rs", PARSER);
    repo.write("src/b.rs", "fn main() {}\n");
    repo.write("Cargo.lock", "# lock\n");
    repo.commit("base");
    for n in names {
        repo.agent(n);
    }
    repo
}

/// Replaces text in a file of an environment.
fn edit(repo: &Repo<'_>, name: &str, path: &str, from: &str, to: &str) {
    let tree = repo.worktree(name);
    let text = tree.read(path);
    assert!(text.contains(from), "{text}");
    tree.write(path, text.replacen(from, to, 1));
}

fn overlap(repo: &Repo<'_>, args: &[&str]) -> Value {
    let args: Vec<&str> = ["overlap", "--json"].iter().chain(args).copied().collect();
    repo.agents(&args).ok().json()
}

/// `a b level` of each pair.
fn pairs(answer: &Value) -> Vec<String> {
    let word = |v: &Value| v.as_str().unwrap_or("unknown").to_owned();
    let all = answer["pairs"].as_array().unwrap();
    all.iter().map(|p| format!("{} {} {}", word(&p["a"]), word(&p["b"]), word(&p["level"]))).collect()
}

#[test]
fn each_level_has_its_name_before_anything_is_committed() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two", "three", "four", "five"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "    t\n", "    t + 1\n");
    edit(&repo, "three", "src/a.rs", "let x = a;", "let x = a + 2;");
    edit(&repo, "four", "src/a.rs", "fn far() {}", "fn far() { 1 }");
    edit(&repo, "five", "src/a.rs", "fn all() {}", "fn all() { 1 }");
    let answer = overlap(&repo, &[]);
    let expected = [
        "one three conflict",
        "one two symbol",
        "two three symbol",
        "two four near",
        "four five file",
        "one five file",
        "one four file",
        "three five file",
        "three four file",
        "two five file",
    ];
    assert_eq!(pairs(&answer), expected, "{answer:#}");
    let worst = &answer["pairs"][0]["paths"][0];
    assert_eq!(
        (&worst["path"], &worst["kind"], &worst["a_lines"], &worst["b_lines"], &worst["symbol"]),
        (&json!("src/a.rs"), &json!("content"), &json!([[2, 2]]), &json!([[2, 2]]), &json!("parse"))
    );
    let text = repo.agents(&["overlap", "one"]).ok().stdout;
    assert!(text.starts_with("conflict one and three\n  src/a.rs:2 and :2  conflict content 'parse'\n"), "{text}");
    assert!(!text.contains("four and five"), "{text}");
    let lines = repo.agents(&["overlap", "--porcelain", "four", "five"]).ok().stdout;
    assert_eq!(lines, "file\t-\tfour\tfive\tsrc/a.rs\n");
    repo.agents(&["overlap", "--exit-code"]).code(1);
    repo.agents(&["overlap", "four", "five", "--fail-on", "near"]).ok();
    repo.agents(&["overlap", "four", "five", "--fail-on", "file"]).code(1);
    repo.agents(&["overlap", "--exit-code", "--", "src/b.rs"]).ok();
    repo.agents(&["overlap", "nobody"]).code(128);
    repo.agents(&["overlap", "--fail-on", "none"]).code(129);
}

#[test]
fn asking_left_traces() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    let state = || {
        let mut all = tree_state(&repo.common_dir());
        all.retain(|p, _| !String::from_utf8_lossy(p).contains("agents/cache"));
        (all, tree_state(repo.worktree("one").path()), repo.git(&["count-objects", "-v"]))
    };
    let before = state();
    assert_eq!(pairs(&overlap(&repo, &["--order"])), ["one two conflict"]);
    repo.agents(&["check", "src"]).code(1);
    repo.status();
    assert_eq!(before, state());
}

#[test]
fn changing_what_another_begins_to_use_is_seen_across_files() {
    let env = Env::new();
    let repo = repo(&env, &["changes", "uses", "neither"]);
    edit(&repo, "changes", "src/a.rs", "a: u8", "a: u16");
    edit(&repo, "uses", "src/b.rs", "fn main() {}", "fn main() { parse(1); }");
    repo.worktree("neither").write("src/c.rs", "fn other() { far() }\n");
    let answer = overlap(&repo, &[]);
    assert_eq!(pairs(&answer), ["changes uses symbol"]);
    let path = &answer["pairs"][0]["paths"][0];
    assert_eq!(
        (&path["path"], &path["other_path"], &path["symbol"]),
        (&json!("src/a.rs"), &json!("src/b.rs"), &json!("parse"))
    );
    // By name it decides no exit code but that of its own level.
    repo.agents(&["overlap", "--fail-on", "conflict"]).ok();
}

#[test]
fn lock_files_and_migrations_come_with_what_to_do() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    for (name, n) in [("one", "1"), ("two", "2")] {
        let tree = repo.worktree(name);
        tree.write("Cargo.lock", format!("# lock {n}\n"));
        tree.write(format!("app/migrations/0007_add_{name}.py"), n);
    }
    let answer = overlap(&repo, &[]);
    let hints: Vec<&str> =
        answer["pairs"][0]["paths"].as_array().unwrap().iter().filter_map(|p| p["hint"].as_str()).collect();
    assert_eq!(hints.len(), 2, "{answer:#}");
    assert!(hints.iter().any(|h| h.contains("'cargo update --workspace' writes it again")), "{hints:?}");
    assert!(hints.iter().any(|h| h.contains("migration number 7")), "{hints:?}");
}

#[test]
fn generated_files_and_line_endings_come_with_what_they_are() {
    let env = Env::new();
    let repo = repo(&env, &[]);
    repo.write(".gitattributes", "api.pb.rs linguist-generated\n");
    repo.write("api.pb.rs", "1\n2\n3\n");
    repo.write("text.txt", "a\nb\nc\n");
    repo.commit("more");
    for name in ["one", "two"] {
        repo.agent(name).write("api.pb.rs", format!("1\n{name}\n3\n"));
    }
    repo.worktree("one").write("text.txt", "a\r\nb\r\nc\r\n");
    repo.worktree("two").write("text.txt", "a\nB\nc\n");
    let answer = overlap(&repo, &[]);
    let hint = |path: &str| {
        let all = answer["pairs"][0]["paths"].as_array().unwrap();
        all.iter().find(|p| p["path"] == path).unwrap()["hint"].as_str().unwrap_or_default().to_owned()
    };
    assert!(hint("api.pb.rs").contains("a generated file"), "{answer:#}");
    assert_eq!(hint("text.txt"), "one side changes line endings only");
}

#[test]
fn you_are_a_party_and_so_is_a_worktree_of_nobody() {
    let env = Env::new();
    let repo = repo(&env, &["one"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    assert_eq!(pairs(&overlap(&repo, &[])), [""; 0]);
    repo.write("src/a.rs", PARSER.replace("let x = a;", "let x = a + 9;"));
    repo.git(&["worktree", "add", "-q", "-b", "mine", "../mine"]);
    let mine = Repo::at(&env, repo.path().parent().unwrap().join("mine"));
    assert_eq!(pairs(&overlap(&repo, &[])), ["one checkout:shop conflict"]);
    mine.write("src/a.rs", PARSER.replace("    t\n", "    t - 1\n"));
    let answer = overlap(&repo, &[]);
    assert!(pairs(&answer).contains(&"one checkout:mine symbol".to_owned()), "{answer:#}");
    assert_eq!(repo.status()["checkouts"][0]["overlap"]["level"], "conflict");
}

#[test]
fn the_work_of_colleagues_counts_where_it_is_asked_for() {
    let env = Env::new();
    let repo = repo(&env, &["one"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    repo.git(&["switch", "-q", "-c", "theirs"]);
    repo.write("src/a.rs", PARSER.replace("let x = a;", "let x = 9;"));
    let tip = repo.commit("theirs");
    repo.git(&["update-ref", "refs/remotes/origin/theirs", &tip]);
    repo.git(&["update-ref", "refs/remotes/origin/main", "main"]);
    repo.git(&["switch", "-q", "main"]);
    assert_eq!(pairs(&overlap(&repo, &[])), [""; 0]);
    let answer = overlap(&repo, &["--remotes"]);
    assert_eq!(pairs(&answer), ["one origin/theirs conflict"]);
    assert!(answer["agents"].as_array().unwrap().iter().all(|a| a["name"] != "origin/main"), "{answer:#}");
    assert_eq!(pairs(&overlap(&repo, &["theirs"])), ["one theirs conflict"], "a branch is named");
    repo.agents(&["overlap", "theirs", "--fail-on", "conflict"]).code(1);
}

#[test]
fn rivals_raise_no_alarm_and_one_of_them_lands() {
    let env = Env::new();
    let repo = repo(&env, &[]);
    let edit = "RUN: sed -i 's/let x = a;/let x = 7;/' src/a.rs\nCOMMIT: changed";
    repo.agents(&["run", "-q", "-a", "scripted*2", edit]).code(0);
    let answer = overlap(&repo, &["--order"]);
    assert_eq!(pairs(&answer), [""; 0], "{answer:#}");
    let order = answer["order"].as_array().unwrap();
    assert_eq!((order.len(), order[0]["instead_of"].as_array().unwrap().len()), (1, 1), "{answer:#}");
}

#[test]
fn landing_on_the_base_as_it_is_now_is_judged_too() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/b.rs", "fn main() {}", "fn main() { 1 }");
    repo.write("src/a.rs", PARSER.replace("let x = a;", "let x = 3;"));
    repo.commit("the base moved on");
    let answer = overlap(&repo, &[]);
    let with_base: Vec<(&str, &str)> = answer["with_base"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| (w["agent"].as_str().unwrap(), w["level"].as_str().unwrap()))
        .collect();
    assert_eq!(with_base, [("one", "conflict"), ("two", "none")]);
    let text = repo.agents(&["overlap", "--fail-on", "conflict"]).code(1).stdout;
    assert_eq!(text, "one with main: conflict in src/a.rs\n");
    // One that stops on the base alone looked like one that another order helps.
    edit(&repo, "one", "src/a.rs", "fn all() {}", "fn all() { 1 }");
    edit(&repo, "two", "src/a.rs", "fn all() {}", "fn all() { 2 }");
    let text = repo.agents(&["overlap", "--order"]).ok().stdout;
    assert!(text.ends_with("  1. two\n  2. one  stops on the base, and after two\n"), "{text}");
}

#[test]
fn what_cannot_be_read_was_called_free() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two", "three"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    // Larger than anybody holds in memory for a listing.
    for name in ["one", "two"] {
        let file = std::fs::File::create(repo.worktree(name).join("big.bin")).unwrap();
        file.set_len((16 << 20) + 1).unwrap();
    }
    std::fs::remove_file(repo.worktree("three").join(".git")).unwrap();
    // Where git itself is asked, it is no less large.
    repo.worktree("two").git(&["sparse-checkout", "set", "--sparse-index", "src"]);
    let answer = overlap(&repo, &[]);
    let all = pairs(&answer);
    assert!(all.contains(&"one two unknown".to_owned()), "{answer:#}");
    let three = answer["agents"].as_array().unwrap().iter().find(|a| a["name"] == "three").unwrap();
    assert!(three["unknown"].is_string(), "{answer:#}");
    // Nor is it known what comes of landing them: the second after the first, and what nobody can read.
    let order = overlap(&repo, &["--order"])["order"].clone();
    let order = order.as_array().unwrap().iter().map(|s| (s["name"].as_str().unwrap(), s["unknown"].is_string()));
    assert_eq!(order.collect::<Vec<_>>(), [("one", false), ("two", true), ("three", true)]);
    repo.agents(&["overlap", "one", "two", "--fail-on", "conflict"]).code(1);
    assert_eq!(repo.status_of("two")["overlap"], json!({ "level": null, "with": [], "unknown": ["one", "three"] }));
    // What was deleted is not what never was.
    repo.git(&["update-ref", "-d", "refs/heads/two"]);
    assert_eq!(overlap(&repo, &[])["agents"][1]["unknown"], "its branch is gone");
    // What is damaged has its name.
    std::fs::write(repo.common_dir().join("worktrees/one/index"), "junk").unwrap();
    let why = overlap(&repo, &[])["agents"][0]["unknown"].clone();
    assert!(why.as_str().unwrap().contains("/worktrees/one/index: index file smaller than expected"), "{why}");
}

#[test]
fn an_assistant_asks_before_it_edits() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two", "three"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    repo.worktree("two").commit("done");
    edit(&repo, "three", "src/b.rs", "fn main() {}", "fn main() { 1 }");
    let one = repo.worktree("one");
    let answer = one.agents(&["check", "--json", "src/a.rs", "src/b.rs", "src/new.rs"]).code(1).json();
    assert_eq!(answer["agent"], "one");
    let touched = |i: usize| answer["paths"][i]["touched_by"].clone();
    assert_eq!(touched(0), json!([{ "agent": "two", "level": "conflict", "lines": [[2, 2]], "committed": true }]));
    assert_eq!(touched(1), json!([{ "agent": "three", "level": "file", "lines": [[1, 1]], "committed": false }]));
    assert_eq!(touched(2), json!([]));
    one.agents(&["check", "src/new.rs"]).ok();
    one.agents(&["check", "--fail-on", "near", "src/b.rs"]).ok();
    let below = one.agents_in(&one.join("src"), &["check", "b.rs"]).code(1).stdout;
    assert_eq!(below, "src/b.rs: file, three at lines 1, not committed yet\n");
    one.agents(&["check", "../../elsewhere"]).code(128);
}

#[test]
fn the_hook_of_claude_asks_denies_tells_and_never_stands_in_the_way() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two", "three"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    edit(&repo, "three", "src/b.rs", "fn main() {}", "fn main() { 1 }");
    let one = repo.worktree("one");
    let ask = |file: &str| {
        let call = json!({ "tool_name": "Edit", "cwd": one.path(), "tool_input": { "file_path": one.join(file) } });
        one.agents_input(&["check", "--hook", "claude"], call.to_string()).ok()
    };
    let decision = |file: &str| {
        let answer: Value = serde_json::from_str(&ask(file).stdout).unwrap();
        answer["hookSpecificOutput"].clone()
    };
    assert_eq!(decision("src/a.rs")["permissionDecision"], "ask");
    assert!(decision("src/a.rs")["permissionDecisionReason"].as_str().unwrap().contains("conflict, two at lines 2"));
    for (how, word) in [("deny", json!("deny")), ("tell", Value::Null)] {
        repo.git(&["config", "--global", "agents.checkConflict", how]);
        assert_eq!(decision("src/a.rs")["permissionDecision"], word);
    }
    let near = decision("src/b.rs");
    assert_eq!(near["permissionDecision"], Value::Null);
    assert!(near["additionalContext"].as_str().unwrap().contains("three"), "{near}");
    assert_eq!(ask("src/new.rs").stdout, "");
    for input in ["", "{", "[]", r#"{"tool_input":{"file_path":"/etc/passwd"}}"#, r#"{"tool_input":{"command":"ls"}}"#]
    {
        assert_eq!(one.agents_input(&["check", "--hook", "claude"], input).ok().stdout, "", "{input}");
    }
    std::fs::write(repo.common_dir().join("HEAD"), "garbage").unwrap();
    ask("src/a.rs");
}

#[test]
fn one_save_is_told_once_when_it_comes_and_when_it_goes() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    let watch = repo.spawn(&["overlap", "--watch", "--json"]);
    let lines = |n: usize| {
        env.until(&format!("{n} lines"), || {
            let text = watch.stdout();
            let all: Vec<Value> = text.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
            (all.len() >= n).then_some(all)
        })
    };
    // Somebody begins to look before the others begin to change: the first answer has no pair and prints nothing.
    env.until("the watches", || {
        let is_told = |pid: &i32| {
            let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            fds.into_iter().any(|f| std::fs::read_link(f.path()).is_ok_and(|l| l.to_string_lossy().contains("inotify")))
        };
        env.processes().iter().any(|(pid, _)| is_told(pid))
    });
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    let first = lines(1);
    assert_eq!(
        (&first[0]["version"], &first[0]["kind"], &first[0]["level"]),
        (&json!(1), &json!("pair"), &json!("conflict"))
    );
    // A new environment takes part without anybody starting anew.
    repo.agent("late");
    edit(&repo, "late", "src/a.rs", "    t\n", "    t + 1\n");
    let then = lines(3);
    assert!(then[1..].iter().all(|l| l["level"] == "symbol" && l["b"] == "late"), "{then:#?}");
    repo.worktree("two").write("src/a.rs", PARSER);
    let gone = lines(5);
    let names: Vec<_> = gone[3..].iter().map(|l| (l["kind"].as_str().unwrap(), l["a"].as_str().unwrap())).collect();
    assert_eq!(names.len(), 2, "{gone:#?}");
    assert!(names.contains(&("gone", "one")) && names.contains(&("gone", "two")), "{gone:#?}");
    watch.signal(nix::sys::signal::Signal::SIGTERM);
    watch.finish(&env).code(143);
}

#[test]
fn a_look_that_was_ended_left_its_store_in_memory() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    let memory = std::path::Path::new("/dev/shm");
    let runtime = tempfile::tempdir_in(if memory.is_dir() { memory } else { env.root() }).unwrap();
    for args in [["overlap", "--watch"], ["status", "--watch"]] {
        let mut command = env.agents_command(repo.path(), &args);
        command.env("XDG_RUNTIME_DIR", runtime.path());
        let watch = Background::start(&env, command);
        env.until("an answer", || watch.stdout().contains("conflict"));
        watch.signal(nix::sys::signal::Signal::SIGINT);
        watch.finish(&env).code(130);
        let left = [runtime.path().to_owned(), repo.join(".git/agents/sterile")];
        let left: Vec<_> = left.iter().flat_map(|d| crate::support::wait::files(d, &|_| false)).collect();
        assert!(left.is_empty(), "{args:?}: {left:?}");
    }
}

#[test]
fn where_there_are_no_events_it_looks_by_itself_and_says_so() {
    let env = Env::new();
    let repo = repo(&env, &["one"]);
    repo.git(&["config", "--global", "agents.watchPoll", "true"]);
    let watch = repo.spawn(&["status", "--watch", "--json"]);
    env.until("a snapshot", || watch.stdout().contains(r#""kind":"snapshot""#));
    assert!(watch.stderr().contains("looking every few seconds"), "{}", watch.stderr());
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    env.until("a change", || watch.stdout().contains(r#""kind":"change""#));
    watch.signal(nix::sys::signal::Signal::SIGINT);
    watch.finish(&env).code(130);
}

#[test]
fn at_the_limit_of_the_system_it_polls_and_says_so() {
    let env = Env::new();
    let repo = repo(&env, &["one"]);
    // Limits of a user namespace are its own.
    let line = "echo 2 > /proc/sys/user/max_inotify_watches && exec git-agents status --watch --json";
    let mut command = env.command("unshare", repo.path());
    command.args(["-U", "-r", "sh", "-c", line]);
    let watch = Background::start(&env, command);
    env.until("a snapshot", || watch.stdout().contains(r#""kind":"snapshot""#));
    assert!(watch.stderr().contains("looking every few seconds, for"), "{}", watch.stderr());
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    env.until("a change", || watch.stdout().contains(r#""kind":"change""#));
    watch.signal(nix::sys::signal::Signal::SIGINT);
    watch.finish(&env).code(130);
}

#[test]
fn the_full_screen_shows_who_meets_whom_and_leaves_the_terminal_as_it_was() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    let session = format!("git-agents-test-{}", std::process::id());
    let tmux = |args: &[&str]| {
        let mut c = env.command("tmux", repo.path());
        c.args(["-L", &session, "-f", "/dev/null"]).args(args);
        crate::support::env::run(c, b"")
    };
    let line = "stty -a > before; git agents status --watch; echo \"ended $?\"; stty -a > after; sleep 60";
    tmux(&["new-session", "-d", "-x", "120", "-y", "24", line]).ok();
    let screen = || tmux(&["capture-pane", "-p"]).ok().stdout;
    env.until("the agents", || screen().contains("2 agents on main") && screen().contains("conflict"));
    tmux(&["send-keys", "j", "s"]).ok();
    env.until("a question", || screen().contains("stop 'two'? y/n"));
    tmux(&["send-keys", "n"]).ok();
    env.until("no question", || !screen().contains("y/n"));
    tmux(&["send-keys", "o"]).ok();
    env.until("an answer", || screen().contains("'two' serves nothing"));
    // The terminal is lent and comes back.
    tmux(&["send-keys", "d"]).ok();
    env.until("a diff", || screen().contains("+    let x = a + 2;"));
    tmux(&["send-keys", "q"]).ok();
    env.until("the screen again", || screen().contains("2 agents on main"));
    tmux(&["send-keys", "q"]).ok();
    env.until("the end", || screen().contains("ended 0"));
    assert!(!screen().contains("q quit"), "{}", screen());
    env.until("both", || repo.join("after").exists() && !repo.read("after").is_empty());
    assert_eq!(repo.read("before"), repo.read("after"));
    tmux(&["kill-server"]).ok();
}

#[test]
fn a_conflict_elsewhere_hid_that_a_path_was_unknown() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    for name in ["one", "two"] {
        let tree = repo.worktree(name);
        std::fs::File::create(tree.join("big.bin")).unwrap().set_len((16 << 20) + 1).unwrap();
        tree.write("new.txt", name);
    }
    let answer = overlap(&repo, &[]);
    assert_eq!(pairs(&answer), ["one two conflict"]);
    assert!(answer["pairs"][0]["unknown"].as_str().unwrap().contains("big.bin"), "{answer:#}");
    assert_eq!(pairs(&overlap(&repo, &["--", "big.bin"])), ["one two unknown"]);
    repo.agents(&["overlap", "--fail-on", "conflict", "--", "big.bin"]).code(1);
    repo.agents(&["overlap", "--fail-on", "conflict", "--", "src"]).ok();
    repo.worktree("one").agents(&["check", "--fail-on", "conflict", "big.bin"]).code(1);
}

#[test]
fn a_worktree_that_was_moved_counted_as_free() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two", "three"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    std::fs::rename(repo.worktree("one").path(), repo.join("../moved")).unwrap();
    std::fs::remove_dir_all(repo.common_dir().join("worktrees/three")).unwrap();
    let answer = overlap(&repo, &[]);
    let unknown = |name: &str| {
        let all = answer["agents"].as_array().unwrap();
        all.iter().find(|a| a["name"] == name).unwrap()["unknown"].is_string()
    };
    assert!(unknown("one") && unknown("three") && !unknown("two"), "{answer:#}");
    repo.agents(&["overlap", "--exit-code", "one", "two"]).code(1);
}

#[test]
fn the_same_work_twice_was_called_no_overlap() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    for name in ["one", "two"] {
        edit(&repo, name, "src/a.rs", "let x = a;", "let x = a + 1;");
    }
    assert_eq!(pairs(&overlap(&repo, &[])), ["one two symbol"]);
    repo.worktree("one").commit("same");
    repo.worktree("two").git(&["reset", "-q", "--hard", "one"]);
    assert_eq!(repo.tip("one"), repo.tip("two"));
    assert_eq!(pairs(&overlap(&repo, &[])), ["one two symbol"]);
}

#[test]
fn work_begun_on_top_of_anothers_is_no_overlap_with_it() {
    let env = Env::new();
    let repo = repo(&env, &[]);
    let list = "1. RUN: sed -i 's/let x = a;/let x = 7;/' src/a.rs {name=first}\n   COMMIT: changed\n\
                2. WRITE: new.txt: n {name=second after=1}\n   COMMIT: more\n";
    repo.agents_input(&["run", "-q", "-a", "scripted", "-f", "-"], list).ok();
    assert_eq!(pairs(&overlap(&repo, &[])), [""; 0]);
    repo.git(&["-C", repo.worktree("second").path().to_str().unwrap(), "reset", "-q", "--hard", "HEAD^"]);
    assert_eq!(repo.tip("agents/first"), repo.tip("agents/second"));
    assert_eq!(pairs(&overlap(&repo, &[])), [""; 0]);
}

#[test]
fn a_worktree_that_is_being_made_looked_like_one_that_deletes_everything() {
    let env = Env::new();
    let repo = repo(&env, &["one"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    // As a killed `new` leaves it: git's entry with our lock, and no files yet.
    let id = repo.tip("HEAD");
    let reason = format!("git-agents {id} 00000000-0000-0000-0000-000000000000 4242:1");
    repo.git(&["worktree", "add", "-q", "--no-checkout", "--lock", "--reason", &reason, "-b", "half", "../half"]);
    assert_eq!(pairs(&overlap(&repo, &[])), [""; 0]);
    repo.agents(&["check", "src/b.rs"]).ok();
    // As `git worktree add` has it while it checks out.
    repo.git(&["worktree", "add", "-q", "--no-checkout", "-b", "theirs", "../theirs"]);
    std::fs::write(repo.common_dir().join("worktrees/theirs/locked"), "initializing\n").unwrap();
    let answer = overlap(&repo, &[]);
    assert_eq!(pairs(&answer), ["one checkout:theirs unknown"]);
    assert!(answer.to_string().contains("git is still making it"), "{answer:#}");
}

#[test]
fn the_hook_judged_what_was_on_disk_and_not_the_edit() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    edit(&repo, "one", "src/a.rs", "let x = a;", "let x = a + 1;");
    let two = repo.worktree("two");
    let decide = |at: &Repo<'_>, input: Value| {
        let mut input = input;
        input["file_path"] = json!(at.join("src/a.rs"));
        let call = json!({ "tool_name": "Edit", "cwd": at.path(), "tool_input": input });
        let out = at.agents_input(&["check", "--hook", "claude"], call.to_string()).ok().stdout;
        serde_json::from_str::<Value>(&out).unwrap()["hookSpecificOutput"]["permissionDecision"].clone()
    };
    let meets = json!({ "old_string": "let x = a;", "new_string": "let x = a + 2;" });
    let apart = json!({ "old_string": "fn all() {}", "new_string": "fn all() { 1 }" });
    assert_eq!(decide(&two, meets.clone()), "ask");
    assert_eq!(decide(&two, apart.clone()), Value::Null);
    assert_eq!(decide(&two, json!({ "edits": [apart, meets.clone()] })), "ask");
    assert_eq!(decide(&two, json!({ "content": PARSER.replace("let x = a;", "let x = 5;") })), "ask");
    assert_eq!(decide(&two, json!({ "content": PARSER.replace("let x = a;", "let x = a + 1;") })), Value::Null);
    // Somebody in his own checkout, which has no change yet, is asked too.
    assert_eq!(decide(&repo, meets), "ask");
    // What takes a conflict away again is not asked about.
    edit(&repo, "two", "src/a.rs", "let x = a;", "let x = a + 2;");
    assert_eq!(decide(&two, json!({ "old_string": "let x = a + 2;", "new_string": "let x = a + 1;" })), Value::Null);
}

#[test]
fn what_landed_in_between_was_taken_for_the_work_of_those_who_began_after_it() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("shared", "1\n2\n3\n");
    repo.write("other", "1\n");
    repo.commit("shared");
    for name in ["early", "landed"] {
        let agent = repo.agent(name);
        agent.write("shared", format!("{name}\n2\n3\n"));
        agent.commit(name);
    }
    repo.git(&["merge", "--quiet", "--no-edit", "landed"]);
    // One that has done nothing, one that works elsewhere, one that works there too.
    for (name, path) in [("idle", ""), ("elsewhere", "other"), ("there", "shared")] {
        let agent = repo.agent(name);
        if !path.is_empty() {
            agent.write(path, format!("{name}\n"));
        }
    }
    repo.worktree("early").write("other", "early\n");
    let overlap = repo.agents(&["overlap", "--json"]).ok().json();
    let pairs: Vec<String> = overlap["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|p| {
            let path = |m: &serde_json::Value| format!("{} {} {} {}", p["a"], p["b"], m["level"], m["path"]);
            p["paths"].as_array().unwrap().iter().map(path).collect::<Vec<_>>()
        })
        .map(|line| line.replace('"', ""))
        .collect();
    let has = |a: &str, b: &str| pairs.iter().any(|p| p.contains(a) && p.contains(b));
    assert!(!pairs.iter().any(|p| p.contains("idle")), "{pairs:#?}");
    assert!(
        has("early", "elsewhere") && !pairs.iter().any(|p| p.contains("elsewhere") && p.ends_with("shared")),
        "{pairs:#?}"
    );
    assert!(pairs.iter().any(|p| p.contains("early") && p.contains("there conflict shared")), "{pairs:#?}");
    // That it meets the base is said of it and the base.
    let with_base = &overlap["with_base"];
    let early = with_base.as_array().unwrap().iter().find(|w| w["agent"] == "early").unwrap();
    assert_eq!(early["level"], "conflict", "{with_base}");
    // A listing says the same, and so does who asks before an edit.
    let status = repo.agents(&["status", "idle", "--json"]).ok().json();
    assert_eq!(status["agents"][0]["overlap"], json!({ "level": "none", "with": [], "unknown": [] }));
    let asked = repo.worktree("elsewhere").agents(&["check", "--json", "shared"]).json();
    let early = asked["paths"][0]["touched_by"].as_array().unwrap().iter().find(|t| t["agent"] == "early").unwrap();
    assert_eq!(early["level"], "file", "{asked}");
}
