//! Names and texts that somebody hopes will be run, printed or resolved.

use super::Env;
use super::wait::files;
use std::path::PathBuf;

/// The file that appears where a name was run as a command.
pub const CANARY: &str = "pwned";

/// Names for branches, agents, tasks and assistants. Some of them git accepts, some it does not; none may run, escape
/// its directory or be taken for an option.
pub const NAMES: &[&str] = &[
    // Options.
    "-",
    "--",
    "-D",
    "--all",
    "--upload-pack=touch pwned",
    "-c core.pager=touch pwned",
    // Shells.
    "$(touch pwned)",
    "`touch pwned`",
    "a;touch pwned",
    "a&&touch pwned",
    "a|touch pwned",
    "a&touch pwned",
    "a>pwned",
    "a\ntouch pwned",
    "a$(touch${IFS}pwned)",
    "a`touch${IFS}pwned`",
    "${HOME}",
    "$HOME",
    "%s%n",
    "it's",
    "say \"hi\"",
    "a'\"$(touch pwned)\"'",
    "!!",
    "a\\",
    "#a",
    "a b",
    " a",
    "*",
    "[a]",
    "a?",
    // Templates, configuration sections, headers.
    "{{ name }}",
    "{% raw %}",
    "a\"]\n[core]\n\tsshCommand = touch pwned",
    "a.b",
    "a = b",
    "a\r\nSet-Cookie: x=y",
    // Paths.
    "..",
    ".",
    "../../pwned-outside",
    "/etc/passwd",
    "a/../b",
    "a//b",
    "/a",
    "a/",
    "a.",
    ".a",
    "a/.git",
    ".git",
    ".GIT",
    "git~1",
    "C:\\a",
    "a.lock",
    "a.lock/b",
    "con",
    "nul.txt",
    // What git itself reads as something else.
    "HEAD",
    "FETCH_HEAD",
    "@",
    "@{-1}",
    "@{u}",
    "a@{1}",
    "refs/heads/x",
    "heads/main",
    "main",
    "main~1",
    "main^",
    "a..b",
    ":/fix",
    "0123456789abcdef0123456789abcdef01234567",
    "stash",
    "1",
    "12",
    // Terminals and readers.
    "\u{1b}[2J",
    "\u{1b}]0;title\u{7}",
    "\u{9b}31m",
    "a\tb",
    "a\rb",
    "a\u{8}b",
    "a\u{7f}",
    "\u{202e}txt.exe",
    "\u{200b}",
    "a\u{200d}b",
    "\u{feff}a",
    "🚀",
    "日本語",
    "e\u{301}",
    "İ",
    "ſ",
    "",
];

/// Texts for prompts, messages and output: longer, and allowed to hold anything but a NUL.
pub const TEXTS: &[&str] = &[
    "$(touch pwned) `touch pwned` ; touch pwned\ntouch pwned\n",
    "'\"'; touch pwned; \"'\"",
    "EOF\ntouch pwned\nEOF\n",
    "--dangerously-skip-permissions -p pwned",
    "\u{1b}]52;c;cHduZWQ=\u{7}\u{1b}[8mhidden\u{1b}[0m",
    "\u{1b}]8;;file:///etc/passwd\u{1b}\\a link\u{1b}]8;;\u{1b}\\",
    "fine\r\u{1b}[Kerror: not fine",
    "{{ worktree }}{% for i in range(999999) %}x{% endfor %}",
    "1. a task\n2. another {name=x after=x}\n```\n",
    "subject\n\nCo-authored-by: a <b@c>\nRefs: HEAD..main\n# a comment\n",
];

/// Names that are too long to write down.
pub fn long_names() -> Vec<String> {
    vec!["x".repeat(300), format!("{}/b", "y".repeat(256)), "é".repeat(128), "a/".repeat(200) + "z"]
}

/// Every name.
pub fn names() -> Vec<String> {
    NAMES.iter().map(|n| (*n).to_owned()).chain(long_names()).collect()
}

/// Every file named [`CANARY`] that has appeared: below the test's directory, in its HOME, or where the tests run.
pub fn canaries(env: &Env) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = [env.root(), env.home()].iter().flat_map(|d| files(d, &|_| false)).collect();
    found.push(std::env::current_dir().unwrap().join(CANARY));
    found.retain(|f| f.file_name().is_some_and(|n| n == CANARY) && f.exists());
    found.sort();
    found.dedup();
    found
}

/// Fails where a name was run; `what` was done with it.
#[track_caller]
pub fn assert_no_canary(env: &Env, what: &str) {
    let found = canaries(env);
    assert!(found.is_empty(), "{what}: ran what it was only to name: {found:?}");
}

/// Whether `text` would do something to a terminal: control characters but tab and newline, and direction overrides.
pub fn is_unsafe_on_a_terminal(text: &str) -> bool {
    let steers = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || steers(c))
}

#[test]
fn a_canary_is_seen_where_a_shell_runs_a_name() {
    let env = Env::new();
    assert_no_canary(&env, "nothing");
    for name in names() {
        // The right way: the name is an argument.
        let mut quoted = env.command("sh", env.root());
        quoted.args(["-c", "printf %s \"$1\" >/dev/null", "sh", &name]);
        super::env::run(quoted, b"").ok();
    }
    assert_no_canary(&env, "quoted");
    let mut naive = env.command("sh", env.home());
    naive.args(["-c", &format!("echo {}", NAMES.iter().find(|n| n.starts_with("$(touch")).unwrap())]);
    super::env::run(naive, b"").ok();
    assert_eq!(canaries(&env), [env.home().join(CANARY)]);
}

#[test]
fn the_names_are_many_and_different() {
    let all: std::collections::BTreeSet<String> = names().into_iter().collect();
    assert_eq!(all.len(), names().len());
    assert!(all.len() >= 40);
    assert!(!all.iter().any(|n| n.split('/').any(|part| part == CANARY)), "a name that looks like the canary");
    assert!(
        is_unsafe_on_a_terminal("\u{1b}[2J")
            && is_unsafe_on_a_terminal("\u{9b}31m")
            && !is_unsafe_on_a_terminal("a\tb\n")
    );
}
