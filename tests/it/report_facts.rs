//! What the report reads in changed files: tests that came and went, and what nobody means to commit.

use crate::support::Env;
use serde_json::{Value, json};

fn flags(it: &Value) -> Vec<String> {
    let flags = it["flags"].as_array().unwrap();
    flags.iter().map(|f| format!("{}: {}", f["kind"].as_str().unwrap(), f["text"].as_str().unwrap())).collect()
}

#[test]
fn a_test_that_was_deleted_or_switched_off_to_get_green_is_a_flag() {
    let env = Env::new();
    let repo = env.repo("x");
    let rust = |names: &[&str]| -> String {
        let one = |n: &&str| format!("#[test]\nfn {n}() {{\n    assert_eq!(answer_of(\"{n}\"), 42);\n}}\n");
        names.iter().map(one).collect()
    };
    repo.write("src/lib.rs", rust(&["stays", "goes", "sleeps"]));
    repo.write("tests/moved.rs", rust(&["moves", "moves_too"]));
    repo.write("web/a.test.js", "it('adds', () => { expect(add(1, 2)).toBe(3) })\n");
    repo.commit("tests");
    repo.git(&["branch", "-q", "agents/none"]);
    let after = rust(&["stays", "sleeps"]).replace("fn sleeps", "#[ignore]\nfn sleeps").replace('\n', "\\n");
    let task = format!(
        "WRITE: src/lib.rs: {after}\n\
         RUN: git mv tests/moved.rs tests/elsewhere.rs\n\
         RUN: printf \"it.skip('new', () => {{}})\\nit('more', () => {{}})\\n\" >>web/a.test.js\n\
         WRITE: py/test_a.py: def test_one():\\n    assert True\n\
         COMMIT: all green"
    );
    repo.agents(&["run", "-q", "-a", "scripted", &task]).ok();
    let it = repo.agents(&["report", "--json"]).ok().json()["agents"][0].clone();
    let names = |key: &str| it[key]["names"].clone();
    assert_eq!(names("tests_removed"), json!(["goes"]), "{it:#}");
    assert_eq!(names("tests_skipped"), json!(["sleeps", "new"]));
    assert_eq!(names("tests_added"), json!(["test_one", "new", "more"]));
    assert_eq!(it["tests_added"]["by_language"], json!({ "JavaScript": 2, "Python": 1 }));
    assert_eq!((&it["tests_added"]["files"], &it["tests_added"]["cases"]), (&json!(2), &json!(3)));
    assert_eq!(flags(&it), ["tests-removed: removed 1 test: goes", "tests-skipped: switched off 2 tests: sleeps, new"]);
    assert_eq!(it["verdict"], "look");
    let text = repo.agents(&["report"]).ok().stdout;
    assert!(text.contains("test cases: +3 (JavaScript 2, Python 1) -1, 2 switched off"), "{text}");
    assert!(text.contains("flag: removed 1 test: goes"), "{text}");
    // Without work there is nothing to count.
    repo.agents(&["adopt", "-q", "agents/none"]).ok();
    assert_eq!(repo.reported("agents/none")["tests_added"], Value::Null);
}

#[test]
fn what_nobody_means_to_commit_is_a_flag() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write("docs/key.md", "-----BEGIN PRIVATE KEY-----\nan example\n");
    repo.write("src/parse.txt", "\"-----BEGIN RSA PRIVATE KEY-----\"\n");
    repo.commit("before");
    let task = "\
        WRITE: .env: TOKEN=x
        WRITE: web/.env.example: TOKEN=
        WRITE: deploy/key.txt: -----BEGIN OPENSSH PRIVATE KEY-----\\nx
        APPEND: docs/key.md: more of the same
        APPEND: src/parse.txt: \"-----BEGIN EC PRIVATE KEY-----\"
        WRITE: src/merge.txt: <<<<<<< HEAD\\na\\n=======\\nb\\n>>>>>>> theirs
        RUN: ln -s /etc/passwd out; ln -s src/a.txt in
        RUN: git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),lib; mkdir lib
        RUN: git config alias.st '!true'
        COMMIT: everything";
    repo.agents(&["run", "-q", "-a", "scripted", "-j", "1", task, "WRITE: a.txt: a\nCOMMIT: a"]).ok();
    let both = repo.agents(&["report", "--json"]).ok().json();
    assert_eq!(
        flags(&both["agents"][0]),
        [
            "git-settings: what git runs or trusts changed while it worked: alias.st",
            "secret: committed what looks like a secret: .env, deploy/key.txt",
            "conflict-markers: left conflict markers: src/merge.txt",
            "submodule: changed submodules: lib",
            "link-outside: added links that lead out of the repository: out",
        ]
    );
    assert_eq!(flags(&both["agents"][1]), [""; 0], "it is the other's doing");
    assert_eq!(both["agents"][1]["verdict"], "ready");
}
