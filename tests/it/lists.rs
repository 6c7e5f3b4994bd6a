//! Task lists end to end: from a file, standard input, arguments and an editor to agents that work.

use crate::support::hostile::{TEXTS, assert_no_canary, names};
use crate::support::{Env, Repo, env::run};
use serde_json::Value;

const LIST: &str = "\
Use the style that is there.

# Nightly
1. Greet people
   WRITE: greet.txt: hello
   COMMIT: greet
2. Count things {name=counting files=\"count/**\"}
   WRITE: count/a.txt: 1
   COMMIT: count
3. [x] was done yesterday
4. Greet louder {after=1}
   APPEND: greet.txt: HELLO
   COMMIT: louder
";

fn names_of(repo: &Repo<'_>) -> Vec<String> {
    repo.agents(&["status", "--names"]).ok().stdout.lines().map(str::to_owned).collect()
}

#[track_caller]
fn nothing_started(repo: &Repo<'_>) {
    assert!(names_of(repo).is_empty());
    let refs = repo.git(&["for-each-ref", "--format=%(refname)"]);
    assert!(!refs.contains("refs/agents") && !refs.contains("heads/agents"), "{refs}");
    assert_eq!(repo.git(&["worktree", "list"]).lines().count(), 1);
    let place = format!("{}.agents", repo.path().display());
    assert!(!std::path::Path::new(&place).exists());
    assert!(!repo.git(&["config", "--list", "--local"]).contains("agent."));
}

#[test]
fn a_list_becomes_agents_in_its_order_with_its_attributes() {
    let env = Env::new();
    let repo = env.repo("x");
    std::fs::write(env.root().join("code/nightly.md"), LIST).unwrap();
    let out = repo.agents(&["run", "-a", "scripted", "-f", "../nightly.md"]).ok();
    assert!(out.stderr.contains("1 item of the list is done already ([x])"), "{out}");
    assert_eq!(names_of(&repo), ["greet-people", "counting", "greet-louder"]);
    let status = repo.agents(&["status", "--json"]).ok().json();
    let agent = |i: usize| &status["agents"][i];
    assert_eq!(agent(0)["number"], 1);
    assert_eq!(agent(2)["number"], 4);
    assert_eq!(agent(2)["after"], serde_json::json!(["greet-people"]));
    assert_eq!(status["batches"][0]["list"], "../nightly.md");
    // Who comes after starts from the other's work.
    let text = repo.git(&["show", "agents/greet-louder:greet.txt"]);
    assert_eq!(text, "hello\nHELLO");
    let prompt = repo.agents(&["show", "1", "--prompt"]).ok().stdout;
    assert!(prompt.contains("Use the style that is there.") && prompt.contains("WRITE: greet.txt"), "{prompt}");
    assert!(!prompt.contains("Count things"), "it knows another's task: {prompt}");
    assert_eq!(std::fs::read_to_string(env.root().join("code/nightly.md")).unwrap(), LIST, "the file is never written");
    // The same list again starts only what is new.
    let out = repo.agents(&["run", "-a", "scripted", "-f", "../nightly.md"]).ok();
    assert!(out.stderr.contains("started before as 'counting'") && out.stderr.contains("nothing new"), "{out}");
    assert_eq!(names_of(&repo).len(), 3);
    let more = format!("{LIST}5. Another one\n   WRITE: b.txt: b\n");
    std::fs::write(env.root().join("code/nightly.md"), more).unwrap();
    repo.agents(&["run", "-q", "-a", "scripted", "-f", "../nightly.md"]).ok();
    assert_eq!(names_of(&repo).last().unwrap(), "another-one");
    assert_eq!(names_of(&repo).len(), 4);
    // Landed or removed is new again.
    repo.agents(&["rm", "-q", "-D", "another-one"]).ok();
    repo.agents(&["run", "-q", "-a", "scripted", "-f", "../nightly.md"]).ok();
    assert_eq!(names_of(&repo).len(), 4);
    let again = repo.agents(&["run", "--again", "-q", "-a", "scripted", "-f", "../nightly.md"]).code(128);
    assert!(again.stderr.contains("counting"), "a name of the list's own is taken: {again}");
    let plain = LIST.replace("name=counting ", "");
    repo.agents_input(&["run", "--again", "-q", "-a", "scripted"], plain).ok();
    assert_eq!(names_of(&repo).len(), 7);
}

#[test]
fn tasks_come_from_arguments_a_file_standard_input_and_the_editor() {
    let env = Env::new();
    let repo = env.repo("x");
    let title = |name: &str| {
        let shown = repo.agents(&["show", name, "--json"]).ok().json();
        shown["agents"][0]["title"].as_str().unwrap().to_owned()
    };
    // An argument is taken verbatim: no list, no attributes.
    repo.agents(&["run", "-q", "-a", "scripted", "1. Not a list {name=x}\nWRITE: a.txt: 1"]).ok();
    assert_eq!(title("1"), "1. Not a list {name=x}");
    // A whole file is one task.
    repo.write("../one.md", "# The one\n\n1. WRITE: a.txt: 2\n2. WRITE: b.txt: 2\n");
    repo.agents(&["run", "-q", "-a", "scripted", "-F", "../one.md"]).ok();
    assert_eq!(title("1"), "The one");
    assert_eq!(repo.git(&["diff", "--name-only", "main...agents/the-one"]), "a.txt\nb.txt");
    // So is all of standard input, where that is asked for.
    repo.agents_input(&["run", "-q", "-a", "scripted", "-F", "-"], "An issue\n\n1. WRITE: e.txt: 1\n2. not a task\n")
        .ok();
    assert_eq!((title("1").as_str(), repo.has("agents/an-issue:e.txt")), ("An issue", true));
    repo.agents(&["rm", "-q", "-D", "1"]).ok();
    // Standard input as a list, asked for or not.
    for args in [&["run", "-q", "-a", "scripted"][..], &["run", "-q", "-a", "scripted", "-f", "-"]] {
        repo.agents_input(args, "1. From a pipe\n   WRITE: c.txt: 3\n2. Also\n   WRITE: d.txt: 4\n").ok();
        assert_eq!(title("2"), "Also");
        repo.agents(&["rm", "-q", "-D", "1", "2"]).ok();
    }
    // The editor.
    let edit = |script: &str| {
        env.script("edit", script);
        let mut command = env.agents_command(repo.path(), &["run", "-a", "scripted", "-e"]);
        command.env("GIT_EDITOR", "edit");
        run(command, b"")
    };
    edit("#!/bin/sh\nprintf '1. Written by hand\\n   WRITE: e.txt: 5\\n' >\"$1\"\n").ok();
    assert_eq!(title("1"), "Written by hand");
    let before = names_of(&repo);
    assert!(edit("#!/bin/sh\n: >\"$1\"\n").ok().stderr.contains("no task"));
    assert!(edit("#!/bin/sh\necho '1. x' >\"$1\"; exit 1\n").code(128).stderr.contains("failed"));
    assert_eq!(names_of(&repo), before);
    // git's own setting.
    env.script("edit", "#!/bin/sh\nprintf '1. By core.editor\\n   WRITE: f.txt: 6\\n' >\"$1\"\n");
    repo.git(&["config", "--global", "core.editor", "edit"]);
    repo.agents(&["run", "-q", "-a", "scripted", "-e"]).ok();
    assert_eq!(title("1"), "By core.editor");
    // TOML.
    let toml = "preamble = 'All of you'\n[[task]]\nprompt = \"Tabled\\nWRITE: g.txt: 7\"\nname = 'tabled'\n";
    repo.write("../t.toml", toml);
    repo.agents(&["run", "-q", "-a", "scripted", "-f", "../t.toml"]).ok();
    assert_eq!(names_of(&repo).last().unwrap(), "tabled");
    assert_eq!(repo.git(&["show", "agents/tabled:g.txt"]), "7");
    let left = std::fs::read_dir(repo.join(".git/agents")).unwrap().filter_map(Result::ok);
    assert!(!left.into_iter().any(|e| e.file_name().to_string_lossy().starts_with("TASKS")), "the editor's file stays");
}

#[test]
fn all_mistakes_are_said_at_once_and_nothing_is_started() {
    let env = Env::new();
    let repo = env.repo("x");
    let list = "1. One {asistant=scripted}\n2. Two {after=9}\n3. Three {name=12}\n4. Four {time=5}\n5. Five {name=same}\n6. Six {name=same}\n7. Seven {after=8}\n8. Eight {after=7}\n";
    let out = repo.agents_input(&["run", "-a", "scripted"], list).code(128);
    for (line, words) in
        [(1, "did you mean 'assistant'?"), (2, "9"), (3, "a number alone"), (4, "no unit"), (6, "same"), (7, "8")]
    {
        let said = out.stderr.lines().find(|l| l.contains(&format!("line {line}: ")));
        assert!(said.is_some_and(|s| s.contains(words)), "line {line}, {words}\n{out}");
    }
    assert!(out.stdout.is_empty() && out.stderr.contains("nothing was started"), "{out}");
    nothing_started(&repo);
    for (args, input, words) in [
        (&["run", "-a", "nobody", "x"][..], "", "'nobody' is not an assistant"),
        (&["run", "-a", "nobody,scripted"], "1. a\n2. b\n", "tasks 1, 2: 'nobody'"),
        (&["run", "x", "y", "z"], "", "tasks 1, 2, 3: no assistant is chosen"),
        (&["run", "-a", "scripted", "--base", "nowhere", "x"], "", "'nowhere' is not a branch"),
        (&["run", "-a", "scripted", "--base=-x", "x"], "", "not a revision"),
        (&["run", "-a", "scripted"], "1. a {base=nowhere}\n2. b {base=main}\n", "task 1: base 'nowhere'"),
        (&["run", "-a", "scripted", "--model", "big", "x"], "", "takes no model"),
        (&["run", "-a", "scripted", "-f", "no.md"], "", "'no.md' does not exist"),
        (&["run", "-a", "scripted", "-f", "src"], "", "is a directory"),
        (&["run", "-a", "scripted"], "no list at all\n", "there is no task"),
        (&["run", "-a", "scripted", ""], "", "no text"),
        (&["run", "-a", "scripted"], "1. a\u{1b}[2Jb\n", "control character"),
    ] {
        let out = repo.agents_input(args, input).code(128);
        assert!(out.stdout.is_empty() && out.stderr.contains(words), "wanted {words}\n{out}");
        nothing_started(&repo);
    }
    let mut bytes = b"1. fine\n2. caf".to_vec();
    bytes.extend(b"\xe9\n");
    assert!(repo.agents_input(&["run", "-a", "scripted"], bytes).code(128).stderr.contains("line 2: not UTF-8"));
    // A program that is not there.
    repo.write(".git-agents.toml", "[assistants.mine]\ncommand = ['no-such-program', '{{ prompt_file }}']\n");
    repo.agents(&["trust", "--yes"]).ok();
    let out = repo.agents(&["run", "-a", "mine", "x"]).code(128);
    assert!(out.stderr.contains("the program 'no-such-program' of assistant 'mine' is not there"), "{out}");
    nothing_started(&repo);
    // Nobody to commit as.
    std::fs::write(env.home().join(".gitconfig"), "[user]\n\tuseConfigOnly = true\n").unwrap();
    let out = repo.agents(&["run", "-a", "scripted", "x"]).code(128);
    assert!(out.stderr.contains("does not know who you are"), "{out}");
    nothing_started(&repo);
}

#[test]
fn several_assistants_make_rivals_of_each_task() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.write(".git-agents.toml", "[assistants.other]\ncommand = ['cp', '{{ prompt_file }}', 'done.txt']\n");
    repo.agents(&["trust", "--yes"]).ok();
    repo.agents(&["run", "-q", "-a", "scripted*2,other", "WRITE: done.txt: mine"]).ok();
    let status = repo.agents(&["status", "--json"]).ok().json();
    let agents = status["agents"].as_array().unwrap();
    let of = |key: &str| -> Vec<&Value> { agents.iter().map(|a| &a[key]).collect() };
    assert_eq!(of("assistant"), ["scripted", "scripted", "other"]);
    assert_eq!(of("number"), [1, 1, 1]);
    assert!(agents[0]["group"].is_string() && of("group").iter().all(|g| **g == agents[0]["group"]), "{agents:#?}");
    // Rivals are no alarm to each other.
    let report = repo.agents(&["report", "--json"]).ok().json();
    for agent in report["agents"].as_array().unwrap() {
        assert_eq!(agent["conflicts"]["with_agents"], serde_json::json!([]), "{agent:#}");
    }
    let out = repo.agents(&["path", "1"]).code(128);
    assert!(out.stderr.contains("several agents"), "{out}");
    let list = "1. A {assistant=scripted*2}\n   WRITE: a.txt: a\n2. B {assistant=other}\n";
    repo.agents_input(&["run", "-q"], list).ok();
    let status = repo.agents(&["status", "--json", "--batch", "2"]).ok().json();
    assert_eq!(status["agents"].as_array().unwrap().len(), 3);
}

#[test]
fn a_dry_run_prints_the_plan_and_starts_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    let out = repo.agents_input(&["run", "--dry-run", "-a", "scripted", "--cost", "2.5"], LIST).ok();
    for words in
        ["greet-people", "counting", "greet-louder", "scripted", "edit", "main", "<= 2.50", "nothing was started"]
    {
        assert!(out.stdout.contains(words), "{words}\n{out}");
    }
    let out = repo.agents_input(&["run", "--dry-run", "--json", "-a", "scripted"], LIST).ok().json();
    let would = out["would_start"].as_array().unwrap();
    assert_eq!(would.len(), 3);
    assert_eq!(would[2]["after"], serde_json::json!(["greet-people"]));
    assert_eq!(would[1]["branch"], "agents/counting");
    assert_eq!(would[0]["base_commit"], repo.tip("main"));
    assert_eq!(would[0]["worktree"], env.root().join("code/x.agents/greet-people").to_str().unwrap());
    assert_eq!((&out["batch"], &out["done"]), (&1.into(), &1.into()));
    nothing_started(&repo);
    assert!(!repo.join(".git/agents/run").exists());
}

#[test]
fn a_base_whose_upstream_is_ahead_is_said_and_taken() {
    let env = Env::new();
    let origin = env.repo("origin");
    let clone = env.root().join("code/x");
    origin.git(&["clone", "-q", ".", clone.to_str().unwrap()]);
    let repo = Repo::at(&env, &clone);
    let theirs = origin.commit("theirs");
    let out = repo.agents(&["new", "before"]).ok();
    assert!(!out.stderr.contains("behind"), "{out}");
    let out = repo.agents(&["new", "--fetch", "feature"]).ok();
    assert!(out.stderr.contains("'main' is behind 'origin/main'; starting from the latter"), "{out}");
    assert_eq!(repo.tip("feature"), theirs);
    let out = repo.agents(&["run", "-a", "scripted", "WRITE: a.txt: a"]).ok();
    assert!(out.stderr.contains("is behind 'origin/main'"), "{out}");
    assert_eq!(repo.tip("agents/write-a-txt-a~1"), theirs);
    // It still lands on the branch, not on the remote one.
    let status = repo.agents(&["status", "--json"]).ok().json();
    assert!(status["agents"].as_array().unwrap().iter().all(|a| a["base"] == "main"), "{status:#}");
    // Where both have moved, ours counts.
    let ours = repo.commit("ours");
    let out = repo.agents(&["new", "mine"]).ok();
    assert!(!out.stderr.contains("'main' is behind") && repo.tip("mine") == ours, "{out}");
}

#[test]
fn the_base_is_the_branch_that_was_meant() {
    let env = Env::new();
    let repo = env.repo("x");
    let main = repo.tip("main");
    repo.git(&["switch", "-q", "-c", "develop"]);
    let develop = repo.commit("on develop");
    repo.git(&["config", "agents.base", "main"]);
    let base_of = |name: &str| {
        let shown = repo.agents(&["show", name, "--json"]).ok().json();
        (shown["agents"][0]["base"].as_str().unwrap().to_owned(), repo.tip(name))
    };
    repo.agents(&["new", "-q", "set"]).ok();
    assert_eq!(base_of("set"), ("main".into(), main.clone()));
    repo.agents(&["new", "-q", "--base", "@", "here"]).ok();
    assert_eq!(base_of("here"), ("develop".into(), develop.clone()));
    repo.git(&["config", "--unset", "agents.base"]);
    // A tag of the same name is not the branch.
    repo.git(&["tag", "develop", "main"]);
    repo.agents(&["new", "-q", "--base", "develop", "tagged"]).ok();
    assert_eq!(base_of("tagged"), ("develop".into(), develop.clone()));
    repo.agents(&["new", "-q", "current"]).ok();
    assert_eq!(base_of("current"), ("develop".into(), develop.clone()));
    repo.agents(&["new", "-q", "--base", "refs/tags/develop", "by-tag"]).ok();
    assert_eq!(repo.tip("by-tag"), main);
    // Branches that look like something else.
    for name in ["HEAD", "origin/main", "refs/heads/main", "main~1"] {
        if repo.try_git(&["update-ref", &format!("refs/heads/{name}"), &develop]).status != 0 {
            continue;
        }
        let meant = |base: &str, agent: &str| {
            repo.agents(&["new", "-q", "--base", base, agent]).ok();
            repo.tip(&format!("refs/heads/{agent}"))
        };
        let agent = format!("of-{}", name.replace(['/', '~'], "-"));
        assert_eq!(meant(&format!("refs/heads/{name}"), &agent), develop, "{name}");
    }
    repo.agents(&["new", "-q", "--base", "main", "still"]).ok();
    assert_eq!(repo.tip("still"), main, "'main' means the branch main");
    for name in ["HEAD", "refs/heads/x", "@", "-x", "12"] {
        let out = repo.agents(&["new", "--", name]).code(128);
        assert!(out.stderr.contains("not a name"), "{out}");
    }
    // Adopting such a branch is refused, and it is not touched.
    let out = repo.agents(&["adopt", "refs/heads/HEAD"]).code(128);
    assert!(out.stderr.contains("git branch -m"), "{out}");
    repo.agents(&["status"]).ok();
}

/// An assistant that keeps what it was told, byte for byte, as a commit of its own.
const RECORDER: &str = "[assistants.recorder]\ncommand = ['recorder', '{{ prompt_file }}']\n";

/// What a task is refused for: nothing to read, or something a terminal would obey.
fn is_refused(text: &str) -> bool {
    let line = |l: &str| l.strip_suffix('\r').unwrap_or(l).chars().any(|c| c.is_control() && c != '\t');
    text.trim().is_empty() || text.split('\n').any(line)
}

#[test]
fn titles_and_prompts_never_reach_a_shell_or_a_path() {
    let env = Env::new();
    let repo = env.repo("x");
    let out_dir = env.root().join("recorded");
    std::fs::create_dir(&out_dir).unwrap();
    env.script("recorder", &format!("#!/bin/sh\ncp \"$1\" '{}'/\"$AGENTS_ID\"\n", out_dir.display()));
    repo.write(".git-agents.toml", RECORDER);
    repo.agents(&["trust", "--yes"]).ok();
    let texts: Vec<String> = names().into_iter().chain(TEXTS.iter().map(|t| (*t).to_owned())).collect();
    let (refused, clean): (Vec<&String>, Vec<&String>) = texts.iter().partition(|t| is_refused(t));
    for text in &refused {
        let out = repo.agents(&["run", "-a", "recorder", "--", text]).code(128);
        assert!(out.stderr.contains("nothing was started"), "{text:?}: {out}");
    }
    nothing_started(&repo);
    // Each as a title: names, branches and places are plain.
    let run = |tasks: &[&str], more: &[&str]| repo.agents(&[&["run", "-a", "recorder"], more, &["--"], tasks].concat());
    let all: Vec<&str> = clean.iter().map(|t| t.as_str()).collect();
    let plan = run(&all, &["--dry-run", "--json"]).ok().json();
    let would = plan["would_start"].as_array().unwrap();
    assert_eq!(would.len(), clean.len());
    let mut places = std::collections::BTreeSet::new();
    for (agent, text) in would.iter().zip(&all) {
        let place = std::path::Path::new(agent["worktree"].as_str().unwrap());
        assert_eq!(place.parent().unwrap(), env.root().join("code/x.agents"), "{text:?}");
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(place.file_name().unwrap().to_str().unwrap().chars().all(plain), "{text:?}: {}", place.display());
        assert!(places.insert(place.to_owned()), "{} twice", place.display());
        let branch = agent["branch"].as_str().unwrap();
        repo.git(&["check-ref-format", &format!("refs/heads/{branch}")]);
    }
    // A few at a time as what is told: byte for byte.
    let told: Vec<String> = all.chunks(8).map(|c| c.join("\n")).collect();
    let told: Vec<&str> = told.iter().map(String::as_str).collect();
    run(&told, &["-q", "--retries", "0"]).code(1);
    let status = repo.agents(&["status", "--json"]).ok().json();
    let agents = status["agents"].as_array().unwrap();
    assert_eq!(agents.len(), told.len());
    for (agent, text) in agents.iter().zip(&told) {
        let heard = std::fs::read(out_dir.join(agent["id"].as_str().unwrap())).unwrap();
        let heard = String::from_utf8(heard).unwrap();
        assert!(heard.contains(text.trim_end_matches('\n')), "{text:?} became {heard:?}");
    }
    assert_no_canary(&env, "tasks");
    repo.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
}

#[test]
fn hostile_names_are_names_or_clean_refusals() {
    let env = Env::new();
    let repo = env.repo("x");
    let before = repo.git(&["config", "--list", "--local"]);
    let mut taken = 0;
    for name in names() {
        let out = repo.agents(&["new", "-q", "--", &name]);
        if out.status == 0 {
            taken += 1;
            assert_eq!(repo.agents(&["show", "--json", "--", &name]).ok().json()["agents"][0]["name"], name.as_str());
            repo.agents(&["rm", "-q", "--", &name]).ok();
        } else {
            assert!(matches!(out.status, 128 | 129) && out.stdout.is_empty(), "{name:?}: {out}");
            assert!(!crate::support::hostile::is_unsafe_on_a_terminal(&out.stderr), "{name:?}: {out}");
        }
    }
    assert!(taken >= 10, "{taken}");
    assert_no_canary(&env, "names");
    assert_eq!(names_of(&repo), Vec::<String>::new());
    let after: Vec<String> = repo
        .git(&["config", "--list", "--local"])
        .lines()
        .filter(|l| !l.starts_with("agents."))
        .map(Into::into)
        .collect();
    assert_eq!(after.join("\n"), before);
}

#[test]
fn a_slip_in_the_braces_was_part_of_the_prompt() {
    let env = Env::new();
    let repo = env.repo("x");
    let list = "1. One {name=\"unclosed}\n2. Two {id}\n   f(x) {a, b}\n3. Three {x=1 y}\n4. Four\n   {after=1 base }\n5. Five {model=opus\n";
    let out = repo.agents_input(&["run", "-a", "scripted"], list).code(128);
    for line in [1, 6, 7] {
        assert!(out.stderr.contains(&format!("line {line}: these attributes cannot be read")), "{line}: {out}");
    }
    assert!(out.stderr.contains("3 mistakes"), "{out}");
    nothing_started(&repo);
}

#[test]
fn nul_was_taken_without_anything_it_could_end() {
    let env = Env::new();
    let repo = env.repo("x");
    let out = repo.agents(&["status", "-z"]).code(129);
    assert!(out.stderr.contains("-z goes with --porcelain or --names"), "{out}");
    repo.agents(&["status", "-z", "--names"]).ok();
}

#[test]
fn logs_of_one_where_a_person_sat_were_called_deleted() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("k");
    repo.agents(&["attach", "k"]).ok();
    let out = repo.agents(&["logs", "k"]);
    assert!(!out.stderr.contains("deleted"), "{out}");
}

#[test]
fn what_stood_in_the_place_of_the_journal_was_replaced_without_a_trace() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agent("k");
    let blob = repo.git(&["rev-parse", "HEAD:README.md"]);
    repo.git(&["update-ref", "refs/notes/agents-journal", &blob]);
    repo.agent("other");
    assert_eq!(repo.git(&["rev-parse", &format!("refs/agents/replaced/agents-journal-{blob}")]), blob);
}
