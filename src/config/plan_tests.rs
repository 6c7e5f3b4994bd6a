//! What needs approval, what counts as a change, and that nothing unapproved gets through.

use super::super::named::paths_in;
use super::*;
use crate::config::project::parse;
use crate::runtime::user::UserState;

const FILE: &str = r#"
base = "main"
[worktree]
submodules = "recursive"
copy = [".env"]
[setup]
run = ["sh scripts/setup.sh && npm ci", ["./tools/x", "--config={{ main }}/conf.json"]]
[assistants.mine]
command = ["./agent", "{{ prompt_file }}"]
env = { NODE_OPTIONS = "--require ./hook.js" }
[cleanup]
throw-away = ["*.log"]
"#;

fn project(text: &str) -> Project {
    parse(text.as_bytes(), "test").unwrap()
}

/// A checkout of these files.
fn tree(files: &[(&'static str, &'static str)]) -> impl Fn(&str) -> Option<Vec<u8>> + use<> {
    let files: BTreeMap<_, _> = files.iter().copied().collect();
    move |path: &str| files.get(path).map(|s| s.as_bytes().to_vec())
}

const TREE: &[(&str, &str)] = &[
    ("scripts/setup.sh", "echo setup"),
    ("tools/x", "x"),
    ("conf.json", "{}"),
    ("agent", "a"),
    ("hook.js", "h"),
    ("README", "r"),
];

fn state() -> (tempfile::TempDir, UserState) {
    let dir = tempfile::tempdir().unwrap();
    let state = UserState::at(dir.path().join("git-agents"));
    (dir, state)
}

fn plan_of(approval: Approval) -> ApprovedPlan {
    match approval {
        Approval::Approved(plan) => plan,
        Approval::Needed { wanted, .. } => panic!("not approved:\n{}", wanted.text()),
    }
}

#[test]
fn everything_that_runs_or_gives_away_is_listed_with_its_scripts() {
    let wanted = wanted(&project(FILE), &tree(TREE));
    let digest = |path: &str| sha256(TREE.iter().find(|(p, _)| *p == path).unwrap().1.as_bytes());
    let expected = format!(
        r#"setup.run[0] = "sh scripts/setup.sh && npm ci"
  scripts/setup.sh sha256:{}
setup.run[1] = ["./tools/x", "--config={{{{ main }}}}/conf.json"]
  conf.json sha256:{}
  tools/x sha256:{}
assistants.mine.command = ["./agent", "{{{{ prompt_file }}}}"]
  agent sha256:{}
assistants.mine.env.NODE_OPTIONS = "--require ./hook.js"
  hook.js sha256:{}
cleanup.throw-away = ["*.log"]
worktree.submodules = "recursive"
"#,
        digest("scripts/setup.sh"),
        digest("conf.json"),
        digest("tools/x"),
        digest("agent"),
        digest("hook.js"),
    );
    assert_eq!(wanted.text(), expected);
}

#[test]
fn a_file_that_runs_nothing_needs_nobody() {
    let harmless =
        project("base = 'main'\n[worktree]\ncopy = ['.env']\nsubmodules = 'none'\n[setup]\nrun = []\n[assistants.x]\n");
    let wanted = wanted(&harmless, &|_| panic!("nothing to read"));
    assert!(wanted.is_empty());
    let plan = plan_of(approve(wanted, &Approvals::default(), "repo"));
    assert_eq!(plan, ApprovedPlan::nothing());
    assert_eq!((plan.setup(), plan.throw_away(), plan.submodules()), (&[][..], &[][..], Submodules::None));
    assert_eq!(plan.assistants().count(), 0);
}

#[test]
fn approved_is_what_was_shown_in_this_repository_and_nothing_else() {
    let (_dir, state) = state();
    let project = project(FILE);
    let first = wanted(&project, &tree(TREE));
    let none = approve(first.clone(), &Approvals::load(&state).unwrap(), "repo");
    assert!(matches!(none, Approval::Needed { changed: None, .. }));

    Approvals::approve(&state, "repo", &first.digest(), &first.text()).unwrap();
    let approvals = Approvals::load(&state).unwrap();
    let plan = plan_of(approve(first.clone(), &approvals, "repo"));
    assert_eq!(plan.setup(), project.setup.as_deref().unwrap());
    assert_eq!(plan.assistant("mine"), Some(&project.assistants["mine"]));
    assert_eq!(plan.throw_away(), ["*.log"]);
    assert_eq!(plan.submodules(), Submodules::Recursive);
    assert_eq!(plan.digest(), first.digest());
    // The same text in another repository was never approved.
    assert!(matches!(approve(first, &approvals, "other"), Approval::Needed { changed: None, .. }));
}

#[test]
fn every_part_that_changes_asks_again_and_is_shown() {
    let (_dir, state) = state();
    let first = wanted(&project(FILE), &tree(TREE));
    let approvals = Approvals::approve(&state, "repo", &first.digest(), &first.text()).unwrap();
    for (old, new) in [
        ("npm ci", "npm ci; curl evil"),
        ("./agent", "./agent2"),
        ("--require", "--import"),
        ("*.log", "*.rs"),
        ("recursive", "local"),
        ("\"--config={{ main }}/conf.json\"", "\"--config={{ main }}/conf.json\", \"x\""),
    ] {
        let changed = wanted(&project(&FILE.replace(old, new)), &tree(TREE));
        match approve(changed, &approvals, "repo") {
            Approval::Needed { changed: Some(diff), .. } => {
                assert!(diff.lines().any(|l| l.starts_with('-') && l.contains(old)), "{diff}");
                assert!(diff.lines().any(|l| l.starts_with('+') && l.contains(new)), "{diff}");
            }
            other => panic!("{old} → {new}: {other:?}"),
        }
    }
    // What grants nothing asks nobody.
    let other_base = wanted(&project(&FILE.replace("\"main\"", "\"dev\"")), &tree(TREE));
    assert!(matches!(approve(other_base, &approvals, "repo"), Approval::Approved(_)));
}

#[test]
fn a_changed_missing_or_new_script_asks_again() {
    let (_dir, state) = state();
    let project = project(FILE);
    let first = wanted(&project, &tree(TREE));
    let approvals = Approvals::approve(&state, "repo", &first.digest(), &first.text()).unwrap();
    let plan = plan_of(approve(first, &approvals, "repo"));
    assert_eq!(plan.changed_scripts(&tree(TREE)), Vec::<String>::new());
    for path in ["scripts/setup.sh", "tools/x", "conf.json", "agent", "hook.js"] {
        let edited: Vec<_> = TREE.iter().map(|(p, s)| (*p, if *p == path { "evil" } else { *s })).collect();
        let gone: Vec<_> = TREE.iter().copied().filter(|(p, _)| *p != path).collect();
        for files in [edited, gone] {
            let again = approve(wanted(&project, &tree(&files)), &approvals, "repo");
            assert!(matches!(again, Approval::Needed { changed: Some(_), .. }), "{path}");
            assert_eq!(plan.changed_scripts(&tree(&files)), [path], "between the check and the run");
        }
    }
    let mut more = TREE.to_vec();
    more.push(("npm", "evil"));
    assert_eq!(plan.changed_scripts(&tree(&more)), ["npm"]);
    let unrelated: Vec<_> = TREE.iter().map(|(p, s)| (*p, if *p == "README" { "new" } else { *s })).collect();
    assert!(matches!(approve(wanted(&project, &tree(&unrelated)), &approvals, "repo"), Approval::Approved(_)));
}

#[test]
fn what_a_command_only_writes_is_never_asked_about() {
    let (_dir, state) = state();
    let text =
        "[setup]\nrun = ['make-it in.txt >out.txt 2>> \"log.txt\" --to made.txt', ['gen', 'src.x', 'gen.txt']]\n";
    let before = [("in.txt", "i"), ("src.x", "s")];
    let first = wanted(&project(text), &tree(&before));
    let approvals = Approvals::approve(&state, "repo", &first.digest(), &first.text()).unwrap();
    let with = |more: &[(&'static str, &'static str)]| {
        let files: Vec<_> = before.iter().copied().filter(|(p, _)| more.iter().all(|(q, _)| p != q)).collect();
        tree(&[files.as_slice(), more].concat())
    };
    let approved =
        |more: &[(&'static str, &'static str)]| approve(wanted(&project(text), &with(more)), &approvals, "repo");
    let plan = plan_of(approved(&[]));
    for made in ["out.txt", "log.txt", "made.txt", "gen.txt"] {
        assert_eq!(plan_of(approved(&[(made, "made")])), plan, "{made}");
        assert_eq!(plan.changed_scripts(&with(&[(made, "made")])), Vec::<String>::new());
    }
    // What was there and what is run still count.
    for (path, text) in [("in.txt", "other"), ("src.x", "other"), ("make-it", "new"), ("gen", "new")] {
        assert!(matches!(approved(&[(path, text)]), Approval::Needed { .. }), "{path}");
        assert_eq!(plan.changed_scripts(&with(&[(path, text)])), [path]);
    }
}

#[test]
fn a_script_that_appears_where_a_command_runs_it_asks_again() {
    for line in [
        "./s.sh",
        "sh s.sh",
        "cd a; cd ..; sh s.sh",
        "true && . ./s.sh",
        "FOO=1 ./s.sh",
        "BASH_ENV=s.sh true",
        "sudo -u me ./s.sh",
        "if true; then ./s.sh; fi",
        "tool --config=s.sh",
        "tool --config s.sh",
        "poetry run s.sh",
        "tool < s.sh",
        "tool > `./s.sh`",
        "tool > out $(./s.sh)",
        "tool >(./s.sh)",
        "tool 1<>s.sh; sh <s.sh",
        "python3.11 s.sh >out",
        "echo '>' ; ./s.sh",
        "tool >s.sh; sh s.sh",
        "sh -c 'tool >s.sh; ./s.sh'",
        "tool >o./s.sh\n./s.sh",
    ] {
        let project = Project { setup: Some(vec![CommandSpec::Shell(line.into())]), ..Project::default() };
        let plan = wanted(&project, &|_| None);
        assert!(plan.paths.named.contains_key("s.sh"), "{line}: {:?}", plan.paths);
    }
    for (line, named) in [("tool s.txt", false), ("touch s.txt", false), ("tool >s.txt", false), ("node s.txt", true)] {
        let project = Project { setup: Some(vec![CommandSpec::Shell(line.into())]), ..Project::default() };
        assert_eq!(wanted(&project, &|_| None).paths.named.contains_key("s.txt"), named, "{line}");
    }
}

#[test]
fn however_a_script_is_named_it_is_found() {
    for line in [
        "scripts/x.sh",
        "./scripts/x.sh --flag",
        "sh scripts/x.sh",
        "sh 'scripts/x.sh'",
        "sh \"scripts/x.sh\";true",
        "a&&scripts/x.sh",
        "(scripts/x.sh)",
        "$PWD/scripts/x.sh",
        "\"$PWD\"/scripts/x.sh",
        "${AGENTS_WORKTREE}/scripts/x.sh",
        "env A=1 B=scripts/x.sh tool --config=scripts/x.sh",
        "echo `scripts/x.sh`",
        "cat <scripts/x.sh",
        "./scripts//../scripts/./x.sh",
        "scr\\ipts/x.sh",
        "cd scripts && ./x.sh",
        "cd scripts; sh x.sh",
        "make -C scripts x.sh",
        "cd a && cd ../scripts && ./x.sh",
        "(cd a && ./y); (cd scripts && ./x.sh)",
    ] {
        assert!(paths_in(line, false).contains("scripts/x.sh"), "{line}: {:?}", paths_in(line, false));
    }
    for element in
        ["scripts/x.sh", "{{ worktree }}/scripts/x.sh", "--file={{main}}/scripts/x.sh", "{{ 'scripts' ~ '/x.sh' }}"]
    {
        assert!(paths_in(element, true).contains("scripts/x.sh"), "{element}: {:?}", paths_in(element, true));
    }
    assert!(paths_in("my script.sh", true).contains("my script.sh"), "an argument with a blank");
    for outside in
        ["/scripts/x.sh", "../scripts/x.sh", "a/../../scripts/x.sh", "~/scripts/x.sh", "{{ name }}/scripts/x.sh"]
    {
        assert!(!paths_in(outside, true).contains("scripts/x.sh"), "{outside}");
    }
}

#[test]
fn the_paths_of_a_line_grow_with_the_line_and_not_with_its_square() {
    let paths = |n: usize| paths_in(&(0..n).map(|n| format!("cd d{n:03};x{n:03};")).collect::<String>(), false).len();
    let (some, twice) = (paths(100), paths(200));
    assert!(twice <= 2 * some + 10, "{some}, then {twice}");
}

#[test]
fn a_shell_line_that_looks_like_an_argv_is_another_approval() {
    let argv = wanted(&project("[setup]\nrun = [['a', 'b']]"), &|_| None);
    let line = wanted(&project("[setup]\nrun = ['[\"a\", \"b\"]']"), &|_| None);
    assert_ne!(argv.digest(), line.digest());
    let two = wanted(&project("[setup]\nrun = ['a', 'b']"), &|_| None);
    let one = wanted(&project("[setup]\nrun = ['a\" = \"b']"), &|_| None);
    assert_ne!(two.digest(), one.digest());
}

#[test]
fn a_revoked_approval_is_none() {
    let (_dir, state) = state();
    let first = wanted(&project(FILE), &tree(TREE));
    Approvals::approve(&state, "repo", &first.digest(), &first.text()).unwrap();
    let approvals = Approvals::revoke(&state, "repo").unwrap();
    assert!(matches!(approve(first, &approvals, "repo"), Approval::Needed { changed: None, .. }));
}

#[test]
fn a_difference_says_each_line_once() {
    assert_eq!(difference("a\nb\nc\n", "a\nx\nc\nd\n"), " a\n-b\n+x\n c\n+d\n");
    assert_eq!(difference("", "a\n"), "+a\n");
    assert_eq!(difference("a\n", ""), "-a\n");
}

proptest::proptest! {
    #[test]
    fn a_difference_holds_both_texts(old in "([ab]\n){0,8}", new in "([ab]\n){0,8}") {
        let diff = difference(&old, &new);
        let side = |skip: char| diff.lines().filter(|l| !l.starts_with(skip)).map(|l| format!("{}\n", &l[1..])).collect::<String>();
        proptest::prop_assert_eq!(side('+'), old);
        proptest::prop_assert_eq!(side('-'), new);
    }

    #[test]
    fn no_path_leaves_the_checkout(text in "([./~$a{}' =;]|\\.\\./){0,24}") {
        for path in paths_in(&text, false) {
            proptest::prop_assert!(!path.starts_with('/') && path.split('/').all(|p| !matches!(p, "" | "." | "..")), "{}", path);
        }
    }
}
