//! Every answer in JSON has a schema, and real answers are as their schema says.

use crate::support::{Env, Repo};
use serde_json::Value;

/// What is wrong with `value`; as much of JSON Schema as the schemas use, and a keyword beyond that is an error.
fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(words) = schema.as_object() else {
        return if schema == &Value::Bool(true) { Ok(()) } else { Err(format!("{at}: nothing may be here")) };
    };
    let kind = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        other => panic!("type {other}"),
    };
    let each = |all: &Value| -> Vec<Result<(), String>> {
        all.as_array().unwrap().iter().map(|s| check(root, s, value, at)).collect()
    };
    let all_of = |results: Vec<Result<(), String>>| results.into_iter().collect::<Result<Vec<()>, String>>().map(drop);
    for (word, says) in words {
        match word.as_str() {
            "$ref" => {
                let name = says.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                check(root, &root["$defs"][name], value, at)?;
            }
            "type" => {
                let fits = match says {
                    Value::String(one) => kind(one),
                    _ => says.as_array().unwrap().iter().any(|one| kind(one.as_str().unwrap())),
                };
                if !fits {
                    return Err(format!("{at}: {value} is not of type {says}"));
                }
            }
            "const" if value != says => return Err(format!("{at}: {value} is not {says}")),
            "enum" if !says.as_array().unwrap().contains(value) => {
                return Err(format!("{at}: {value} is none of {says}"));
            }
            "required" => {
                for name in says.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        return Err(format!("{at}: {name} is missing in {value}"));
                    }
                }
            }
            "properties" => {
                for (name, schema) in says.as_object().unwrap() {
                    if let Some(field) = value.get(name) {
                        check(root, schema, field, &format!("{at}.{name}"))?;
                    }
                }
                // Where all fields are said in one place, one that is not said is a mistake.
                let open = ["$ref", "allOf", "anyOf", "oneOf", "additionalProperties"];
                if std::ptr::eq(root, schema) && !open.iter().any(|w| words.contains_key(*w)) {
                    let known = says.as_object().unwrap();
                    if let Some(extra) = value.as_object().unwrap().keys().find(|k| !known.contains_key(*k)) {
                        return Err(format!("{at}: the schema does not name '{extra}'"));
                    }
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, says, item, &format!("{at}[{i}]"))?;
                }
            }
            "prefixItems" => {
                for (schema, item) in says.as_array().unwrap().iter().zip(value.as_array().into_iter().flatten()) {
                    check(root, schema, item, at)?;
                }
            }
            "additionalProperties" => {
                let named = |k: &str| words.get("properties").is_some_and(|p| p.get(k).is_some());
                for (k, field) in value.as_object().into_iter().flatten().filter(|(k, _)| !named(k)) {
                    check(root, says, field, &format!("{at}.{k}"))?;
                }
            }
            "allOf" => all_of(each(says))?,
            "anyOf" | "oneOf" => {
                let results = each(says);
                let fit = results.iter().filter(|r| r.is_ok()).count();
                if fit == 0 || (word == "oneOf" && fit > 1) {
                    return Err(format!("{at}: {value} fits {fit} of {word}: {results:?}"));
                }
            }
            "const" | "enum" | "$schema" | "$defs" | "title" | "description" | "format" | "minimum" | "maximum"
            | "minItems" | "maxItems" | "default" => {}
            other => panic!("this test does not know the keyword '{other}'"),
        }
    }
    Ok(())
}

/// The schema that is printed for `command`.
fn schema(repo: &Repo<'_>, command: &str) -> Value {
    serde_json::from_str(&repo.agents(&["--json-schema", command]).ok().stdout).unwrap()
}

#[track_caller]
fn fits(repo: &Repo<'_>, command: &str, lines: &[Value]) {
    let schema = schema(repo, command);
    assert!(!lines.is_empty(), "'{command}' said nothing");
    for line in lines {
        if let Err(why) = check(&schema, &schema, line, "") {
            panic!("'{command}': {why}\n{line:#}");
        }
    }
}

#[test]
fn a_command_that_answers_in_json_has_a_schema_and_no_other_has() {
    let env = Env::new();
    let repo = env.repo("x");
    let mut complete = env.command(env!("CARGO_BIN_EXE_git-agents"), repo.path());
    complete.args(["complete", "bash", "1", "agents", ""]);
    let commands = crate::support::env::run(complete, b"").ok().stdout;
    let mut with = Vec::new();
    for command in commands.lines().map(str::trim).chain(["check"]) {
        let help = |words: &[&str]| repo.agents(&[words, &["-h"]].concat()).ok().stdout;
        let first = help(&[command]);
        let answers = match command {
            "hooks" | "skills" => help(&[command, "status"]).contains("--json"),
            _ => first.lines().any(|l| l.split_whitespace().take(2).any(|w| w == "--json")),
        };
        let said = repo.agents(&["--json-schema", command]);
        assert_eq!(said.status == 0, answers, "{command}: {said}");
        with.extend(answers.then_some(command));
    }
    assert!(with.len() > 15, "{with:?}");
}

#[test]
fn real_answers_are_as_their_schema_says() {
    let env = Env::new();
    let repo = env.repo("x");
    let one = |command: &str, args: &[&str]| fits(&repo, command, &[repo.agents(args).json()]);
    let tasks = ["WRITE: a.txt: a\nCOMMIT: a", "WRITE: a.txt: b\nSAY: done"];
    one("run --dry-run", &["run", "--dry-run", "--json", "-a", "scripted", tasks[0], tasks[1]]);
    let lines = repo.agents(&["run", "--json", "--merged", "--test", "true", "-a", "scripted", tasks[0], tasks[1]]);
    fits(&repo, "run", &lines.json_lines());
    fits(&repo, "wait", &repo.agents(&["wait", "--json"]).ok().json_lines());
    fits(&repo, "run", &repo.agents(&["run", "-d", "--json", "-a", "scripted", "SAY: nothing"]).json_lines());
    fits(&repo, "wait", &repo.agents(&["wait", "--json"]).json_lines());
    one("new", &["new", "--json", "feature"]);
    one("status", &["status", "--json"]);
    one("show", &["show", "--json", "feature"]);
    one("overlap", &["overlap", "--json", "--order"]);
    one("check", &["check", "--json", "a.txt"]);
    one("report", &["report", "--json", "--all"]);
    one("doctor", &["doctor", "--json"]);
    one("history", &["history", "--json"]);
    one("clean", &["clean", "--json", "--dry-run"]);
    one("hooks", &["hooks", "status", "--json"]);
    one("sync", &["sync", "--json", "--all"]);
    one("land", &["land", "--json", "--dry-run", "feature"]);
    one("stop", &["stop", "--json", "--all"]);
    one("rm", &["rm", "--json", "feature"]);
    one("restore --list", &["restore", "--list", "--json"]);
    one("restore", &["restore", "--json", "--last"]);
    repo.git(&["branch", "topic"]);
    one("adopt", &["adopt", "--json", "topic"]);
    for (command, first) in [("status", "snapshot"), ("overlap", "pair")] {
        let watch = repo.spawn(&[command, "--watch", "--json"]);
        let line = env.until("the first line", || {
            watch.stdout().lines().next().map(str::to_owned).filter(|_| watch.stdout().contains('\n'))
        });
        watch.signal(nix::sys::signal::Signal::SIGTERM);
        watch.finish(&env);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["kind"], first);
        fits(&repo, &format!("{command} --watch"), &[line]);
    }
}

#[test]
fn the_check_of_these_tests_finds_what_is_wrong() {
    let schema = serde_json::json!({
        "type": "object", "properties": { "a": { "type": ["integer", "null"] }, "b": { "$ref": "#/$defs/B" } },
        "required": ["a"], "$defs": { "B": { "enum": ["x", "y"] } }
    });
    let wrong = |value: Value| check(&schema, &schema, &value, "").is_err();
    assert!(!wrong(serde_json::json!({ "a": null, "b": "x" })));
    for value in [r#"{}"#, r#"{"a": "1"}"#, r#"{"a": 1, "b": "z"}"#, r#"{"a": 1, "c": 1}"#, "[]"] {
        assert!(wrong(serde_json::from_str(value).unwrap()), "{value}");
    }
}
