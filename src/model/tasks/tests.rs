//! The list as a whole: names, groups, order, and every mistake at once.

use super::*;
use proptest::prelude::*;

fn free(_: &str) -> bool {
    false
}

fn markdown(text: &str) -> Result<TaskList, Vec<Mistake>> {
    read(text, Format::Markdown, &Known::taken(&free))
}

fn names(text: &str) -> Vec<String> {
    markdown(text).unwrap().tasks.into_iter().map(|t| t.name.0).collect()
}

fn wrong(text: &str) -> String {
    let all: Vec<_> = markdown(text).unwrap_err().iter().map(ToString::to_string).collect();
    all.join("\n")
}

#[test]
fn the_preamble_goes_to_every_task() {
    let list = markdown("Be brief.\n\n# Label\n1. a\n2. [x] b\n3. c\n   d\n").unwrap();
    let prompts: Vec<_> = list.tasks.iter().map(|t| t.prompt.as_str()).collect();
    assert_eq!(prompts, ["Be brief.\n\na", "Be brief.\n\nc\nd"]);
    assert_eq!(list.done, 1);
}

#[test]
fn names_are_unique_and_explicit_ones_win() {
    assert_eq!(
        names("1. fix it\n2. fix it\n3. b {name=fix-it}\n4. Fix it!"),
        ["fix-it-2", "fix-it-3", "fix-it", "fix-it-4"]
    );
    assert_eq!(names("1. a\n2. b {name=a/b}"), ["a-2", "a/b"], "a branch cannot be another's directory");
    let long = "add a very long export of all brands";
    assert_eq!(
        names(&format!("1. {long}\n2. {long}")),
        ["add-a-very-long-export-of-all", "add-a-very-long-export-of-2"]
    );
    let list = read("1. a\n2. b", Format::Markdown, &Known::taken(&|n| n == "a" || n == "a-2")).unwrap();
    assert_eq!(list.tasks[0].name.0, "a-3");
}

#[test]
fn explicit_names_that_are_taken_are_said() {
    let all = read("1. a {name=x}\n2. b {name=y}", Format::Markdown, &Known::taken(&|n| n == "x")).unwrap_err();
    assert_eq!(all, [Mistake::new(1, "name 'x' is taken")]);
    assert_eq!(wrong("1. a {name=x}\n2. b {name=X}"), "line 2: name 'X' cannot stand beside another of this list");
    let never = read("1. a", Format::Markdown, &Known::taken(&|_| true)).unwrap_err();
    assert!(never[0].message.ends_with("is taken"));
}

#[test]
fn several_assistants_make_a_group() {
    let list = markdown("1. try it {assistant=claude,codex}\n2. b {assistant=claude*2 name=x after=try-it-codex}\n3. c {assistant=claude*2,Co.dex}").unwrap();
    let seen: Vec<_> = list
        .tasks
        .iter()
        .map(|t| (t.name.0.as_str(), t.group.as_deref(), t.attrs.assistant[0].as_str(), t.after.clone()))
        .collect();
    assert_eq!(
        seen,
        [
            ("try-it-claude", Some("try-it"), "claude", vec![]),
            ("try-it-codex", Some("try-it"), "codex", vec![]),
            ("x-1", Some("x"), "claude", vec![1]),
            ("x-2", Some("x"), "claude", vec![1]),
            ("c-claude-1", Some("c"), "claude", vec![]),
            ("c-claude-2", Some("c"), "claude", vec![]),
            ("c-co-dex", Some("c"), "Co.dex", vec![]),
        ]
    );
    let long = markdown("1. add a very long export of all brands {assistant=claude,opencode}").unwrap();
    assert!(long.tasks.iter().all(|t| t.name.0.len() <= 30 && t.name.0.starts_with("add-a-very-long")), "{long:?}");
}

#[test]
fn groups_of_equal_titles_stay_apart() {
    let list = markdown("1. a {assistant=x*2}\n2. a {assistant=x*2}").unwrap();
    let groups: Vec<_> = list.tasks.iter().map(|t| t.group.as_deref().unwrap()).collect();
    assert_eq!(groups, ["a", "a", "a-3", "a-3"], "'a-2' is a member of the first");
}

#[test]
fn assistants_for_tasks_that_name_none() {
    let assistants = ["claude".to_owned(), "codex".to_owned()];
    let known = Known { assistants: &assistants, ..Known::taken(&free) };
    let list = read("1. a\n2. b {assistant=amp}", Format::Markdown, &known).unwrap();
    let seen: Vec<_> = list.tasks.iter().map(|t| (t.name.0.as_str(), t.attrs.assistant[0].as_str())).collect();
    assert_eq!(seen, [("a-claude", "claude"), ("a-codex", "codex"), ("b", "amp")]);
}

#[test]
fn after_takes_numbers_and_names() {
    let list = markdown("5. a\n6. [x] done it\n7. b {after=5,done-it,6}\n8. c {after='a, 7' name=z}\n9. a {after=z,8}")
        .unwrap();
    let seen: Vec<_> = list.tasks.iter().map(|t| t.after.clone()).collect();
    assert_eq!(seen, [vec![], vec![0], vec![0, 1], vec![2]]);
    let known = Known::taken(&|n| n == "a");
    let list = read("1. a\n2. b {after=a}", Format::Markdown, &known).unwrap();
    assert_eq!((list.tasks[0].name.0.as_str(), &list.tasks[1].after[..]), ("a-2", &[0][..]));
}

#[test]
fn what_after_cannot_mean() {
    assert_eq!(wrong("1. a {after=1}"), "line 1: task 1 waits for itself");
    assert_eq!(wrong("1. a {after=a}"), "line 1: task 1 waits for itself");
    assert_eq!(wrong("1. a {assistant=x*2 after=a}"), "line 1: task 1 waits for itself");
    assert_eq!(wrong("1. a {assistant=x*2 after=a-2}"), "line 1: task 1 waits for itself");
    assert_eq!(
        wrong("1. a {after=2,nobody}"),
        "line 1: 'after=2' is no task of this list\nline 1: 'after=nobody' is no task of this list"
    );
    let group = "line 2: 'after=1' means several agents; name one: 'a-x', 'a-y'";
    assert_eq!(wrong("1. a {assistant=x,y}\n2. b {after=1}"), group);
    assert_eq!(wrong("1. a {assistant=x,y}\n2. b {after=a}"), group.replace("=1", "=a"));
    let two = "1. a\n2. a\n3. c {after=a}";
    assert_eq!(markdown(two).unwrap().tasks[2].after, [0], "the first has that very name");
}

#[test]
fn cycles_are_shown_with_the_way_around() {
    assert_eq!(
        wrong("1. a {after=3}\n2. b {after=1}\n3. c {after=2}\n4. d {after=3}"),
        "line 1: tasks wait for each other: 1 after 3 after 2 after 1"
    );
    assert_eq!(
        wrong("1. a {after=2}\n2. b {after=1}\n3. c {after=4}\n4. d {after=3,1}"),
        "line 1: tasks wait for each other: 1 after 2 after 1\nline 3: tasks wait for each other: 3 after 4 after 3"
    );
    assert_eq!(
        wrong("1. a {assistant=x,y after=2}\n2. b {after=a-y}"),
        "line 1: tasks wait for each other: 1 after 2 after 1"
    );
}

#[test]
fn all_mistakes_of_all_steps_in_the_order_of_lines() {
    let text = "1. a {after=9}\n1. b {nam=x}\n3.\n4. c\u{1b}[2J {name=12}\n   ```\n";
    insta::assert_snapshot!(wrong(text), @r"
    line 1: 'after=9' is no task of this list
    line 2: number 1 is in line 1 already; each number names one task
    line 2: unknown attribute 'nam'; did you mean 'name'?
    line 3: task 3 has no text
    line 4: '12' is not a name: a number alone means a task of the last batch
    line 4: control character U+001B
    line 5: this code block is never closed
    ");
    assert_eq!(wrong(""), "line 1: there is no task; tasks are numbered, '1. …'");
    assert_eq!(wrong("- a\n- b"), "line 1: there is no task; tasks are numbered, '1. …'");
    assert_eq!(markdown("1. [x] a").unwrap(), TaskList { tasks: vec![], done: 1 });
}

#[test]
fn limits() {
    let many = |n: usize| (1..=n).map(|i| format!("{i}. a\n")).collect::<String>();
    assert_eq!(markdown(&many(MOST_TASKS)).unwrap().tasks.len(), MOST_TASKS);
    assert_eq!(wrong(&many(MOST_TASKS + 1)), "line 1: 1001 tasks are more than the 1000 of a list");
    let long = "a".repeat(MOST_PROMPT);
    assert!(markdown(&format!("1. {long}")).is_ok());
    assert_eq!(wrong(&format!("b\n1. {long}")), "line 2: the prompt of task 1 is longer than 64 KiB");
    let file = vec![b'a'; MOST_BYTES + 1];
    assert_eq!(read_bytes(&file, Format::Markdown, &Known::taken(&free)).unwrap_err()[0].line, 1);
}

#[test]
fn bytes_that_are_no_text() {
    let known = Known::taken(&free);
    let bom = read_bytes(b"\xef\xbb\xbf1. a\r\n", Format::Markdown, &known).unwrap();
    assert_eq!(bom.tasks[0].prompt, "a");
    let all = read_bytes(b"1. a\n2. \xff\n3. b {nam=x}\n\xe3\n", Format::Markdown, &known).unwrap_err();
    assert_eq!(all.iter().map(|m| m.line).collect::<Vec<_>>(), [2, 3, 4]);
    let all = read_bytes(b"\xff\xfe1\0.\0", Format::Markdown, &known).unwrap_err();
    assert_eq!(all, [Mistake::new(1, "the text is UTF-16; save it as UTF-8")]);
}

#[test]
fn control_characters_are_refused_wherever_they_stand() {
    assert_eq!(
        wrong("a\0\n1. b\n   \u{9b}1m\tx\n"),
        "line 1: control character U+0000\nline 3: control character U+009B"
    );
    assert_eq!(wrong("1. a\rb"), "line 1: control character U+000D");
    let shown = wrong("1. a {time=\u{1b}[2J\u{202e}}");
    assert!(shown.contains("is not a duration") && !shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    let toml = read("[[task]]\nprompt = \"a\"\n[[task]]\nprompt = \"a\\u0000\"", Format::Toml, &Known::taken(&free))
        .unwrap_err();
    assert_eq!(toml, [Mistake::new(3, "control character U+0000")]);
    assert_eq!(single("a\n\u{8}", &free).unwrap_err(), [Mistake::new(2, "control character U+0008")]);
}

#[test]
fn an_argument_is_taken_verbatim() {
    let text = "# Fix\t{name=x}\n1. [x] a\n   {model=y}\n";
    let task = single(text, &free).unwrap();
    assert_eq!((task.prompt.as_str(), task.title.as_str(), task.name.0.as_str()), (text, "Fix {name=x}", "fix-name-x"));
    assert_eq!(task.attrs, Attrs::default());
    assert_eq!(single("a", &|n| n == "a").unwrap().name.0, "a-2");
    assert!(single(" \n", &free).is_err());
    let two = arguments(&["a", "a"], &Known::taken(&free)).unwrap();
    assert_eq!(two.tasks.iter().map(|t| (t.number, t.name.0.as_str())).collect::<Vec<_>>(), [(1, "a"), (2, "a-2")]);
}

#[test]
fn the_same_list_again_keeps_what_was_started() {
    let text = "1. a {name=x}\n2. b {after=x}\n3. c {assistant=p,q}";
    let before = digest("a", "main");
    let started = |t: &TaskSpec| match t.attrs.base.as_deref().unwrap_or("main") {
        base if digest(&t.prompt, base) == before => Some(Name::from("x")),
        _ if t.name.0 == "c-q" => Some(Name::from("old")),
        _ => None,
    };
    let known = Known { taken: &|n| n == "x" || n == "old", started: &started, assistants: &[] };
    let list = read(text, Format::Markdown, &known).unwrap();
    let seen: Vec<_> = list.tasks.iter().map(|t| (t.name.0.as_str(), t.started.is_some(), t.after.clone())).collect();
    assert_eq!(seen, [("x", true, vec![]), ("b", false, vec![0]), ("c-p", false, vec![]), ("old", true, vec![])]);
}

#[test]
fn titles_are_one_short_line() {
    assert_eq!(title_of("\n```\n## a   b\tc"), "a b c");
    assert_eq!(title_of("- **bold** -1"), "**bold** -1");
    assert_eq!(title_of(&"é".repeat(300)).chars().count(), 201);
}

#[test]
fn notations_are_told_apart() {
    assert_eq!(Format::of(Some("a.TOML"), b"1. a"), Format::Toml);
    assert_eq!(Format::of(Some("a.md"), b"[[task]]"), Format::Markdown);
    assert_eq!(Format::of(None, b"# x\n\n[[task]]\n"), Format::Toml);
    assert_eq!(Format::of(None, b"# x\npreamble and more\n1. a"), Format::Markdown);
}

#[test]
fn digests_are_stable_and_depend_on_both() {
    assert_eq!(digest("a", "main"), digest("a", "main"));
    let all = [digest("a", "main"), digest("a", "b"), digest("b", "main"), digest("", "amain"), digest("amain", "")];
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 5);
    assert!(all.iter().all(|d| d.len() == 16));
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200), toml: bool) {
        let format = if toml { Format::Toml } else { Format::Markdown };
        if let Err(all) = read_bytes(&bytes, format, &Known::taken(&free)) {
            prop_assert!(!all.is_empty() && all.is_sorted() && all.iter().all(|m| m.line > 0));
        }
    }

    #[test]
    fn any_text_is_answered(text in "([1-4]\\. |[ab\n] ?|\\{after=[1-4a]\\}|\\{name=[a-c]\\}|\\{assistant=x\\*2\\}|```|\\[x\\] ){0,30}") {
        if let Ok(list) = markdown(&text) {
            let mut seen = std::collections::BTreeSet::new();
            prop_assert!(list.tasks.iter().all(|t| seen.insert(t.name.0.clone()) && check_name(&t.name.0).is_ok()));
        }
    }

    #[test]
    fn cycles_are_always_refused(edges in proptest::collection::vec((0usize..8, 0usize..8), 0..14)) {
        let text: String = (0..8).map(|i| {
            let after: Vec<_> = edges.iter().filter(|(from, _)| *from == i).map(|(_, to)| to.to_string()).collect();
            if after.is_empty() { format!("{i}. a\n") } else { format!("{i}. a {{after={}}}\n", after.join(",")) }
        }).collect();
        let mut reach = [[false; 8]; 8];
        edges.iter().for_each(|(a, b)| reach[*a][*b] = true);
        for k in 0..8 { for i in 0..8 { for j in 0..8 { reach[i][j] |= reach[i][k] && reach[k][j]; } } }
        prop_assert_eq!(markdown(&text).is_err(), (0..8).any(|i| reach[i][i]), "{}", text);
    }
}
