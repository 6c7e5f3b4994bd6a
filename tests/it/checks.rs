//! `check` and the pre-edit hook where what is asked about is not the path on which git would stop.

use crate::support::{Env, Repo};
use serde_json::{Value, json};

/// Lines that tell files apart, so that a rename is seen as one.
fn text(name: &str) -> String {
    (1..=12).map(|i| format!("{name} {i}\n")).collect()
}

fn repo<'e>(env: &'e Env, names: &[&str]) -> Repo<'e> {
    let repo = env.repo("shop");
    for path in ["src/a.txt", "src/b.txt", "src/c.txt", "old.txt", "plain.txt"] {
        repo.write(path, text(path));
    }
    repo.commit("base");
    for n in names {
        repo.agent(n);
    }
    repo
}

/// What the hook answers to a tool with this input, in this directory.
fn hook(at: &Repo<'_>, cwd: &str, input: Value) -> Value {
    let call = json!({ "tool_name": "Edit", "cwd": cwd, "tool_input": input });
    let out = at.agents_input(&["check", "--hook", "claude"], call.to_string()).ok().stdout;
    if out.is_empty() {
        Value::Null
    } else {
        serde_json::from_str::<Value>(&out).unwrap()["hookSpecificOutput"].clone()
    }
}

fn here(at: &Repo<'_>) -> String {
    at.path().to_str().unwrap().to_owned()
}

#[test]
fn a_conflict_at_the_other_name_of_a_file_was_not_asked_about() {
    let env = Env::new();
    let repo = repo(&env, &["mover", "editor"]);
    let (mover, editor) = (repo.worktree("mover"), repo.worktree("editor"));
    mover.git(&["mv", "src", "lib"]);
    mover.git(&["mv", "old.txt", "new.txt"]);
    mover.write("new.txt", text("old.txt").replace("txt 3\n", "txt three\n"));
    let ask = |path: &str, input: Value| {
        let mut input = input;
        input["file_path"] = json!(editor.join(path));
        hook(&editor, &here(&editor), input)["permissionDecision"].clone()
    };
    // Beside what they changed under the new name, and in a directory that is another one now.
    assert_eq!(ask("old.txt", json!({ "old_string": "txt 3\n", "new_string": "txt III\n" })), "ask");
    assert_eq!(ask("src/more.txt", json!({ "content": "more\n" })), "ask");
    // What git carries along without a question, and what has nothing to do with it.
    assert_eq!(ask("old.txt", json!({ "old_string": "txt 11\n", "new_string": "txt XI\n" })), Value::Null);
    assert_eq!(ask("src/a.txt", json!({ "old_string": "txt 3\n", "new_string": "txt III\n" })), Value::Null);
    assert_eq!(ask("more.txt", json!({ "content": "more\n" })), Value::Null);
    // Done in spite of it: each is told of its own file, on both sides.
    editor.write("old.txt", text("old.txt").replace("txt 3\n", "txt III\n"));
    editor.write("src/more.txt", "more\n");
    editor.write("src/b.txt", text("src/b.txt").replace("txt 3\n", "txt III\n"));
    let levels = |at: &Repo<'_>, path: &str| {
        let all = at.agents(&["check", "--json", path]).json()["paths"][0]["touched_by"].clone();
        all.as_array().unwrap().iter().map(|t| t["level"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for (at, path, level) in [
        (&editor, "old.txt", "conflict"),
        (&editor, "src/more.txt", "conflict"),
        (&editor, "src/b.txt", "file"),
        (&mover, "new.txt", "conflict"),
    ] {
        assert_eq!(levels(at, path), [level], "{path}");
    }
    // A file where they make a directory.
    mover.write("docs/x", "1\n");
    assert_eq!(ask("docs", json!({ "content": "a file\n" })), "ask");
    editor.write("notes", "1\n");
    let input = json!({ "file_path": mover.join("notes/x"), "content": "1\n" });
    assert_eq!(hook(&mover, &here(&mover), input)["permissionDecision"], "ask");
}

#[test]
fn the_hook_judged_another_file_than_the_one_that_is_written() {
    let env = Env::new();
    let repo = repo(&env, &["one", "two"]);
    let (one, two) = (repo.worktree("one"), repo.worktree("two"));
    one.write("plain.txt", text("plain.txt").replace("txt 3\n", "txt three\n"));
    let meets = json!({ "old_string": "txt 3\n", "new_string": "txt III\n" });
    let ask = |cwd: &str, path: &str| {
        let mut input = meets.clone();
        input["file_path"] = json!(path);
        hook(&two, cwd, input)["permissionDecision"].clone()
    };
    // Through a link, which stays what it is.
    std::os::unix::fs::symlink("plain.txt", two.join("link")).unwrap();
    std::os::unix::fs::symlink(two.path(), env.root().join("way")).unwrap();
    let way = env.root().join("way/plain.txt");
    let there = here(&two);
    for path in [two.join("link").to_str().unwrap(), way.to_str().unwrap(), "plain.txt", "link"] {
        assert_eq!(ask(&there, path), "ask", "{path}");
    }
    // The directory of the tool counts, not ours; a file in a directory that is to be made, with the tool elsewhere.
    let src = two.join("src");
    assert_eq!(ask(src.to_str().unwrap(), "../plain.txt"), "ask");
    one.write("made/by/one", "1\n");
    let input = json!({ "file_path": two.join("made/by/one"), "content": "2\n" });
    assert_eq!(hook(&two, "/", input)["permissionDecision"], "ask");
    // No name is no file; nobody waits for a pipe.
    assert_eq!(hook(&two, &there, json!({ "file_path": "", "content": "2\n" })), Value::Null);
    nix::unistd::mkfifo(&two.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(hook(&two, &there, json!({ "file_path": "pipe", "content": "2\n" })), Value::Null);
    // What is too much to be read is not taken for free.
    let told = hook(&two, &there, json!({ "file_path": "plain.txt", "content": "x\n".repeat(9 << 20) }));
    assert!(told["additionalContext"].as_str().unwrap().contains("could not check"), "{told}");
}

#[test]
fn line_endings_that_git_converts_looked_like_a_change_of_every_line() {
    let env = Env::new();
    let repo = env.repo("shop");
    repo.write(".gitattributes", "*.bat text eol=crlf\n*.secret filter=secret\n");
    repo.git(&["config", "filter.secret.clean", "tr a-y b-z"]);
    repo.write("x.bat", text("bat").replace('\n', "\r\n"));
    repo.write("x.secret", text("secret"));
    repo.commit("base");
    for name in ["one", "two"] {
        repo.agent(name);
    }
    let (one, two) = (repo.worktree("one"), repo.worktree("two"));
    one.write("x.bat", text("bat").replace("bat 3\n", "bat three\n").replace('\n', "\r\n"));
    one.write("x.secret", text("secret").replace("secret 3\n", "secret three\n"));
    let ask = |path: &str, from: &str, to: &str| {
        let input = json!({ "file_path": two.join(path), "old_string": from, "new_string": to });
        hook(&two, &here(&two), input)
    };
    assert_eq!(ask("x.bat", "bat 11\r\n", "bat eleven\r\n")["permissionDecision"], Value::Null);
    assert_eq!(ask("x.bat", "bat 3\r\n", "bat III\r\n")["permissionDecision"], "ask");
    // What a program makes of a file is known to nobody who does not run it.
    assert_eq!(ask("x.secret", "secret 11\n", "secret eleven\n")["permissionDecision"], Value::Null);
}

#[test]
fn in_the_main_checkout_one_was_told_of_oneself() {
    let env = Env::new();
    let repo = repo(&env, &["one"]);
    repo.write("plain.txt", text("plain.txt").replace("txt 3\n", "txt three\n"));
    assert_eq!(repo.agents(&["check", "plain.txt"]).ok().stdout, "plain.txt: nobody else\n");
    repo.worktree("one").write("plain.txt", text("plain.txt").replace("txt 3\n", "txt III\n"));
    let told = repo.agents(&["check", "plain.txt"]).code(1).stdout;
    assert_eq!(told, "plain.txt: conflict, one at lines 3, not committed yet\n");
}
