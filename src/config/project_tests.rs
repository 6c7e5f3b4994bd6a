//! Good files, and a corpus of bad ones with what is said about each.

use super::*;

const O: &str = ".git-agents.toml";

fn mistakes(text: &[u8]) -> Vec<Mistake> {
    parse(text, O).expect_err(&String::from_utf8_lossy(text))
}

const FULL: &str = r#"
base = "main"
assistant = "claude,codex*2"
branch-prefix = "agents/"

[worktree]
dir = "../{{ repo }}.agents/{{ slug }}"
copy = [".env*", "config/master.key"]
clone = ["node_modules", "target"]
clone-fallback = "copy"
clone-limit = "2GiB"
submodules = "local"

[setup]
run = ["npm ci", ["./scripts/setup", "{{ name }}"]]

[limits]
parallel = 6
time = "1h30m"
stall = "off"
setup = "10m"
retries = 0
cost = 5
total-cost = 100.5
min-free = "5GiB"
tests = 2

[assistants.claude]
args = ["--model", "opus"]

[assistants.mine]
command = ["./scripts/agent", "{{ prompt_file }}"]
env = { TOKEN_FILE = "{{ main }}/.token" }

[cleanup]
throw-away = ["*.log", "coverage/**"]
"#;

#[test]
fn every_key_is_read() {
    let project = parse(FULL.as_bytes(), O).unwrap();
    let strings = |s: &[&str]| s.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    assert_eq!(project.base.as_deref(), Some("main"));
    assert_eq!(project.assistant.as_deref(), Some("claude,codex*2"));
    assert_eq!(project.branch_prefix.as_deref(), Some("agents/"));
    assert_eq!(project.worktree.dir.as_deref(), Some("../{{ repo }}.agents/{{ slug }}"));
    assert_eq!(project.worktree.copy, Some(strings(&[".env*", "config/master.key"])));
    assert_eq!(project.worktree.clone, Some(strings(&["node_modules", "target"])));
    assert_eq!(project.worktree.clone_fallback, Some(CloneFallback::Copy));
    assert_eq!(project.worktree.clone_limit, Some(2 << 30));
    assert_eq!(project.worktree.submodules, Some(Submodules::Local));
    assert_eq!(
        project.setup,
        Some(vec![CommandSpec::Shell("npm ci".into()), CommandSpec::Argv(strings(&["./scripts/setup", "{{ name }}"]))])
    );
    let limits = Limits {
        parallel: Some(6),
        time: Some(Limit(Some(5_400))),
        stall: Some(Limit(None)),
        setup: Some(Limit(Some(600))),
        retries: Some(0),
        cost: Some(5.0),
        total_cost: Some(100.5),
        min_free: Some(5 << 30),
        tests: Some(2),
    };
    assert_eq!(project.limits, limits);
    assert_eq!(project.assistants["claude"].args, Some(strings(&["--model", "opus"])));
    assert_eq!(
        project.assistants["mine"].command,
        Some(CommandSpec::Argv(strings(&["./scripts/agent", "{{ prompt_file }}"])))
    );
    assert_eq!(project.assistants["mine"].env["TOKEN_FILE"], "{{ main }}/.token");
    assert_eq!(project.throw_away, Some(strings(&["*.log", "coverage/**"])));
}

#[test]
fn braces_of_other_programs_are_left_alone_in_a_shell_line() {
    for line in [
        "docker ps --format '{{.Names}}'",
        "docker inspect -f '{{ json .State }}' x",
        "git log --format=%h{{%",
        "a {b,c}",
    ] {
        let text = format!("[setup]\nrun = [\"{line}\"]");
        assert_eq!(parse(text.as_bytes(), O).unwrap().setup, Some(vec![CommandSpec::Shell(line.to_owned())]));
    }
}

#[test]
fn an_empty_file_says_nothing_and_line_ends_do_not_matter() {
    assert_eq!(parse(b"", O), Ok(Project::default()));
    assert_eq!(parse("\u{feff}# only a comment\r\n".as_bytes(), O), Ok(Project::default()));
    assert_eq!(parse(FULL.replace('\n', "\r\n").as_bytes(), O), parse(FULL.as_bytes(), O));
}

/// Text, line, key, what the message contains.
type Bad = (&'static str, usize, &'static str, &'static str);

#[rustfmt::skip]
const BAD: &[Bad] = &[
    // Syntax.
    ("base = ", 1, "", "string values must be quoted"),
    ("base = main", 1, "", "string values must be quoted"),
    ("\n\nbase = \"main", 3, "", "invalid basic string"),
    ("[worktree\ndir = 'x'", 1, "", "unclosed table"),
    ("base = 'a'\nbase = 'b'", 2, "", "duplicate key"),
    ("[limits]\n[limits]", 2, "", "duplicate key"),
    ("base 'main'", 1, "", "key with no value"),
    ("= 1", 1, "", "unquoted keys cannot be empty"),
    // Keys.
    ("parallel = 4", 1, "parallel", "'parallel' is not a key of this file"),
    ("[limits]\nparalel = 4", 2, "limits.paralel", "'limits.paralel' is not a key of this file"),
    ("[worktree]\nclone_limit = '1GiB'", 2, "worktree.clone_limit", "is not a key of this file"),
    ("[limit]\ntime = '2h'", 1, "limit", "'limit' is not a key of this file"),
    ("[assistants.x]\nargz = []", 2, "assistants.x.argz", "'assistants.x.argz' is not a key of this file"),
    ("zebra = 1", 1, "zebra", "'zebra' is not a key of this file"),
    ("uncommitted = 'keep'", 1, "uncommitted", "'uncommitted' is not a key of this file"),
    ("\"a\\u001bb\" = 1", 1, "a\\u{1b}b", "'a\\u{1b}b' is not a key of this file"),
    ("setup.x.y = 1", 1, "setup.x", "'setup.x' is not a key of this file"),
    // Later.
    ("[ports]\nweb = 'PORT'", 1, "ports", "'ports' is not supported by this version"),
    ("[[env]]\nfile = '.env.local'", 1, "env", "'env' is not supported by this version"),
    ("[database.main]\nkind = 'sqlite'", 1, "database", "'database' is not supported by this version"),
    ("[app.web]\ncommand = 'x'", 1, "app", "'app' is not supported by this version"),
    ("[test]\nagain = 'cargo test'", 2, "test.again", "'test.again': write an array in which '{{ tests }}' is one element"),
    ("[test]\nagain = ['x', '--only={{ tests }}']", 2, "test.again", "write an array in which '{{ tests }}' is one element"),
    ("[test]\njunit = '!x.xml'", 2, "test.junit", "'!x.xml' matches nothing"),
    ("[test]\njunit = '['", 2, "test.junit", "'[' is not a pattern: unclosed character class"),
    ("[test]\njunit = 'x/[a'", 2, "test.junit", "'x/[a' is not a pattern: unclosed character class"),
    ("[test]\njunit = 'x/{a'", 2, "test.junit", "'x/{a' is not a pattern: unclosed alternate group"),
    ("[test]\njunit = '../x.xml'", 2, "test.junit", "'../x.xml' leaves the checkout"),
    ("[test]\ncommand = 1", 2, "test.command", "must be a command (a string or an array of strings), not a whole number"),
    ("[test]\ntimeout = '5'", 2, "test.timeout", "has no unit"),
    ("[land]\nmode = 'merge'", 1, "land", "'land' is not supported by this version"),
    ("[cleanup]\nauto = true", 2, "cleanup.auto", "'cleanup.auto' is not supported by this version"),
    ("[worktree]\nlfs = 'local'", 2, "worktree.lfs", "'worktree.lfs' is not supported by this version"),
    ("[worktree]\nsparse = 'inherit'", 2, "worktree.sparse", "'worktree.sparse' is not supported by this version"),
    // Power.
    ("permission = 'full'", 1, "permission", "'permission' cannot be set in a file of the repository"),
    ("[limits]\npermission = 'full'", 2, "limits.permission", "cannot be set in a file of the repository"),
    ("[assistants.claude]\npermission = 'full'", 2, "assistants.claude.permission", "cannot be set in a file"),
    ("notify = 'curl x'", 1, "notify", "'notify' cannot be set in a file of the repository"),
    ("trust = true", 1, "trust", "'trust' cannot be set in a file of the repository"),
    ("loopback = false", 1, "loopback", "'loopback' cannot be set in a file of the repository"),
    ("env-allow = ['*']", 1, "env-allow", "'env-allow' cannot be set in a file of the repository"),
    ("copySecrets = true", 1, "copySecrets", "'copySecrets' cannot be set in a file of the repository"),
    ("sign = false", 1, "sign", "'sign' cannot be set in a file of the repository"),
    // Types.
    ("base = 1", 1, "base", "'base' must be a string, not a whole number"),
    ("base = ['main']", 1, "base", "'base' must be a string, not an array"),
    ("assistant = true", 1, "assistant", "'assistant' must be a string, not true or false"),
    ("worktree = 'x'", 1, "worktree", "'worktree' must be a table, not a string"),
    ("[[worktree]]\ndir = 'x'", 1, "worktree", "'worktree' must be a table, not an array"),
    ("[worktree]\ncopy = '.env'", 2, "worktree.copy", "'worktree.copy' must be an array of strings, not a string"),
    ("[worktree]\ncopy = [\n1]", 3, "worktree.copy[0]", "'worktree.copy[0]' must be a string, not a whole number"),
    ("[limits]\nparallel = '4'", 2, "limits.parallel", "'limits.parallel' must be a whole number, not a string"),
    ("[limits]\nparallel = 4.0", 2, "limits.parallel", "must be a whole number, not a fraction"),
    ("[limits]\ntime = 7200", 2, "limits.time", "'limits.time' must be a string, not a whole number"),
    ("[limits]\ntime = 07:32:00", 2, "limits.time", "'limits.time' must be a string, not a date"),
    ("[limits]\ncost = '5'", 2, "limits.cost", "'limits.cost' must be a number, not a string"),
    ("[setup]\nrun = 'npm ci'", 2, "setup.run", "'setup.run' must be an array of commands, not a string"),
    ("[setup]\nrun = [1]", 2, "setup.run[0]", "must be a command (a string or an array of strings), not a whole number"),
    ("[setup]\nrun = [['a', 1]]", 2, "setup.run[0][1]", "'setup.run[0][1]' must be a string, not a whole number"),
    ("[assistants]\nx = 'y'", 2, "assistants.x", "'assistants.x' must be a table, not a string"),
    ("[assistants.x]\nenv = ['A=b']", 2, "assistants.x.env", "'assistants.x.env' must be a table, not an array"),
    ("[assistants.x.env]\nA = 1", 2, "assistants.x.env.A", "'assistants.x.env.A' must be a string, not a whole number"),
    // Values.
    ("base = ''", 1, "base", "'' cannot be a revision"),
    ("base = '--upload-pack=x'", 1, "base", "'--upload-pack=x' cannot be a revision"),
    ("base = 'a b'", 1, "base", "'a b' cannot be a revision"),
    ("assistant = 'Claude'", 1, "assistant", "'Claude' cannot be an assistant's name"),
    ("assistant = 'claude,'", 1, "assistant", "'' cannot be an assistant's name"),
    ("assistant = 'claude*0'", 1, "assistant", "'0' is not a number from 1 to 256"),
    ("branch-prefix = '-x/'", 1, "branch-prefix", "'-x/' cannot begin a branch name"),
    ("branch-prefix = 'a..b/'", 1, "branch-prefix", "'a..b/' cannot begin a branch name"),
    ("[worktree]\nclone-fallback = 'link'", 2, "worktree.clone-fallback", "'link' is neither 'copy' nor 'none'"),
    ("[worktree]\nclone-limit = '1'", 2, "worktree.clone-limit", "'1' is not a size"),
    ("[worktree]\nsubmodules = 'all'", 2, "worktree.submodules", "'all' is none of 'none', 'local' and 'recursive'"),
    ("[limits]\nparallel = 0", 2, "limits.parallel", "'0' is not a number from 1 to 256"),
    ("[limits]\nparallel = 0xffff", 2, "limits.parallel", "'65535' is not a number from 1 to 256"),
    ("[limits]\ntests = 0", 2, "limits.tests", "'0' is not a number from 1 to 256"),
    ("[limits]\nparallel = -1", 2, "limits.parallel", "'-1' is not a number from 1 to 256"),
    ("[limits]\ntime = '2 hours'", 2, "limits.time", "'2 hours' is not a duration"),
    ("[limits]\nstall = '0m'", 2, "limits.stall", "'off' is no limit"),
    ("[limits]\nretries = 101", 2, "limits.retries", "'101' is not a number from 0 to 100"),
    ("[limits]\ncost = nan", 2, "limits.cost", "'nan' is not an amount of US dollars"),
    ("[limits]\ntotal-cost = -1", 2, "limits.total-cost", "'-1' is not an amount of US dollars"),
    ("[limits]\nmin-free = '5 XiB'", 2, "limits.min-free", "'5 XiB' is not a size"),
    // Places.
    ("[worktree]\ndir = '/tmp/{{ slug }}'", 2, "worktree.dir", "'/tmp/{{ slug }}' is not a relative path"),
    ("[worktree]\ndir = '~/{{ slug }}'", 2, "worktree.dir", "is not a relative path"),
    ("[worktree]\ndir = '../x/../../{{ slug }}'", 2, "worktree.dir", "has '..' in its middle"),
    ("[worktree]\ndir = \"x/{{ '../' }}/{{ slug }}\"", 2, "worktree.dir", "has '..' in its middle"),
    ("[worktree]\ndir = '.git/{{ slug }}'", 2, "worktree.dir", "is inside git's own directory"),
    ("[worktree]\ndir = '../agents'", 2, "worktree.dir", "is the same directory for all agents"),
    ("[worktree]\ndir = '../{{ slag }}'", 2, "worktree.dir", "there is no 'slag' for '../{{ slag }}'; there are name, slug"),
    ("[worktree]\ndir = '{{ worktree }}/{{ slug }}'", 2, "worktree.dir", "there is no 'worktree'"),
    ("[worktree]\ndir = '{% if slug %}'", 2, "worktree.dir", "only '{{ name }}' can be used"),
    ("[worktree]\ndir = '{{ slug'", 2, "worktree.dir", "cannot be read"),
    ("[worktree]\ncopy = ['/etc/passwd']", 2, "worktree.copy[0]", "'/etc/passwd' is not relative"),
    ("[worktree]\ncopy = ['ok', '../secret']", 2, "worktree.copy[1]", "'../secret' leaves the checkout"),
    ("[worktree]\ncopy = ['a/../../b']", 2, "worktree.copy[0]", "leaves the checkout"),
    ("[worktree]\nclone = ['.git/objects']", 2, "worktree.clone[0]", "names git's own directory"),
    ("[worktree]\nclone = ['[z-a]']", 2, "worktree.clone[0]", "'[z-a]' is not a pattern: invalid range"),
    ("[worktree]\nclone = ['[']", 2, "worktree.clone[0]", "'[' is not a pattern: unclosed character class"),
    ("[worktree]\ncopy = ['.env', '[a']", 2, "worktree.copy[1]", "'[a' is not a pattern: unclosed character class"),
    ("[cleanup]\nthrow-away = ['[']", 2, "cleanup.throw-away[0]", "'[' is not a pattern: unclosed character class"),
    ("[worktree]\ncopy = ['']", 2, "worktree.copy[0]", "'' matches nothing"),
    ("[cleanup]\nthrow-away = ['**']", 2, "cleanup.throw-away[0]", "'**' would throw away every file"),
    // Commands.
    ("[setup]\nrun = ['']", 2, "setup.run[0]", "the command is empty"),
    ("[setup]\nrun = ['  ']", 2, "setup.run[0]", "the command is empty"),
    ("[setup]\nrun = [[]]", 2, "setup.run[0]", "the command is empty"),
    ("[setup]\nrun = [['', 'x']]", 2, "setup.run[0][0]", "the command is empty"),
    ("[setup]\nrun = ['''a\nb''']", 2, "setup.run[0]", "a shell command is one line"),
    ("[setup]\nrun = [\"a\\u0000b\"]", 2, "setup.run[0]", "the text contains a NUL"),
    ("[setup]\nrun = [\"a\\u202eb\"]", 2, "setup.run[0]", "the text contains the invisible character U+202E"),
    ("[setup]\nrun = [\"a\\u001b[2K\"]", 2, "setup.run[0]", "the text contains the invisible character U+001B"),
    ("[setup]\nrun = ['echo {{ slug }}']", 2, "setup.run[0]", "a shell line is not a template"),
    ("[setup]\nrun = [['x', '{{ prompt }}']]", 2, "setup.run[0][1]", "there is no 'prompt'"),
    ("[assistants.x]\ncommand = []", 2, "assistants.x.command", "the command is empty"),
    ("[assistants.x]\ncommand = 'x'\nargs = ['y']", 3, "assistants.x.args", "takes no arguments"),
    ("[assistants.x]\nargs = ['{{ nope }}']", 2, "assistants.x.args[0]", "there is no 'nope'"),
    ("[assistants.'a b']\nargs = []", 1, "assistants.a b", "'a b' cannot be an assistant's name"),
    ("[assistants.x.env]\n'A B' = 'x'", 2, "assistants.x.env.A B", "cannot be the name of an environment variable"),
    ("[assistants.x.env]\nGIT_DIR = 'x'", 2, "assistants.x.env.GIT_DIR", "git itself sets this variable"),
    ("[assistants.x.env]\nAGENTS_NAME = 'x'", 2, "assistants.x.env.AGENTS_NAME", "git agents itself sets this variable"),
];

#[test]
fn every_bad_file_is_refused_with_its_line_and_key() {
    assert!(BAD.len() >= 60);
    let mut wrong = Vec::new();
    for (text, line, key, message) in BAD {
        match parse(text.as_bytes(), O) {
            Ok(_) => wrong.push(format!("{text:?} was taken")),
            Err(found) => {
                let [only] = found.as_slice() else {
                    wrong.push(format!("{text:?} has {} mistakes: {found:#?}", found.len()));
                    continue;
                };
                if only.line != Some(*line) || only.key != *key || !only.message.contains(message) {
                    wrong.push(format!("{text:?}: {only:?}"));
                }
                if only.to_string().contains('\n') {
                    wrong.push(format!("{text:?}: more than one line"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hints_name_the_next_step() {
    for (text, hint) in [
        ("parallel = 4", "did you mean 'limits.parallel'?"),
        ("[limits]\nparalel = 4", "did you mean 'limits.parallel'?"),
        ("[limits]\nbase = 'x'", "did you mean 'base'?"),
        ("[worktree]\nclone_limit = '1GiB'", "did you mean 'worktree.clone-limit'?"),
        ("throw-away = []", "did you mean 'cleanup.throw-away'?"),
        ("[limit]\ntime = '2h'", "did you mean 'limits'?"),
        ("asistant = 'x'", "did you mean 'assistant'?"),
        ("[assistants.x]\nargz = []", "did you mean 'assistants.x.args'?"),
        ("permission = 'full'", "git config --global agents.permission <value>"),
        ("[limits]\nenv_allow = []", "git config --global agents.envAllow <value>"),
        ("notify = 'x'", "git config --global agents.notify <value>"),
        ("loopback = false", "git config --global agents.loopback <value>"),
        ("trust = true", "'git agents trust' approves what this file runs"),
        ("uncommitted = 'keep'", "git config agents.uncommitted <value>"),
        ("[limits]\ntime = 7200", "write the unit too, in quotes"),
        ("[setup]\nrun = 'npm ci'", "a single command is an array of one: [\"npm ci\"]"),
    ] {
        assert_eq!(mistakes(text.as_bytes())[0].hint.as_deref(), Some(hint), "{text}");
    }
    assert_eq!(mistakes(b"zebra = 1")[0].hint, None);
}

#[test]
fn all_mistakes_at_once_in_the_order_of_the_lines() {
    let text = "zebra = 1\nbase = 7\n[limits]\nparallel = 0\ntime = 'x'\n[setup]\nrun = ['', 'ok', '']\n";
    let lines: Vec<String> = mistakes(text.as_bytes()).iter().map(Mistake::to_string).collect();
    assert_eq!(
        lines,
        [
            ".git-agents.toml:1: 'zebra' is not a key of this file",
            ".git-agents.toml:2: 'base' must be a string, not a whole number",
            ".git-agents.toml:4: 'limits.parallel': '0' is not a number from 1 to 256",
            ".git-agents.toml:5: 'limits.time': 'x' is not a duration; write it as '90s', '30m', '2h' or '1h30m'",
            ".git-agents.toml:7: 'setup.run[0]': the command is empty",
            ".git-agents.toml:7: 'setup.run[2]': the command is empty",
        ]
    );
}

#[test]
fn a_file_made_to_hurt_the_parser_is_refused_at_once() {
    let large = vec![b'#'; LARGEST + 1];
    assert_eq!(mistakes(&large)[0].message, "the file is larger than 64 KiB");
    assert!(parse(&vec![b'#'; LARGEST], O).is_ok());
    assert_eq!(mistakes(b"base = 'a'\n\0")[0].to_string(), ".git-agents.toml:2: the file contains a NUL byte");
    assert_eq!(mistakes(b"\n\nbase = '\xff'")[0].to_string(), ".git-agents.toml:3: this is not UTF-8");
    let deep = [
        format!("base = {}", "[".repeat(30_000)),
        format!("base = {}", "{a=".repeat(20_000)),
        format!("{} = 1", "a.".repeat(30_000) + "a"),
        format!("[{}]", "a.".repeat(30_000) + "a"),
        format!("a = {{ {} = 1 }}", "a.".repeat(30_000) + "a"),
    ];
    for text in deep {
        assert_eq!(mistakes(text.as_bytes())[0].message, "nested more than 16 levels deep", "{}", &text[..20]);
    }
    let long = format!("[setup]\nrun = ['{}', '{}']", "x".repeat(4096), "x".repeat(4097));
    assert_eq!(mistakes(long.as_bytes()).len(), 1);
    assert!(mistakes(long.as_bytes())[0].message.ends_with("the text is longer than 4096 bytes; put it into a script"));
    let quoted = format!("base = \"{}\"\n# {}", "[.".repeat(40), "[".repeat(40));
    assert!(parse(quoted.as_bytes(), O).is_ok(), "brackets in text and comments are no nesting");
    // A quoted key may hide dots from the count; the parser's own limit still holds.
    assert!(parse(format!("{}a = 1", "'a'.'b'.".repeat(5_000)).as_bytes(), O).is_err());
    assert!(parse(format!("{}\na = 1", "[\"a\".\n".repeat(5_000)).as_bytes(), O).is_err());
}

#[test]
fn the_overlay_replaces_what_it_says_and_nothing_else() {
    let under = parse(FULL.as_bytes(), O).unwrap();
    let over = "[setup]\nrun = []\n[limits]\nparallel = 2\n[assistants.mine]\ncommand = ['./other']\n\
                [assistants.claude.env]\nA = 'b'\n";
    let both = under.clone().overlaid(parse(over.as_bytes(), O).unwrap());
    assert_eq!(both.setup, Some(Vec::new()));
    assert_eq!(both.limits, Limits { parallel: Some(2), ..under.limits.clone() });
    assert_eq!(both.assistants["mine"].command, Some(CommandSpec::Argv(vec!["./other".into()])));
    assert_eq!(both.assistants["claude"].args, under.assistants["claude"].args);
    assert_eq!(both.assistants["claude"].env["A"], "b");
    assert_eq!(both.worktree, under.worktree);
    assert_eq!(under.clone().overlaid(Project::default()), under);
}

#[test]
fn the_file_is_read_and_never_through_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    assert_eq!(load(&path).unwrap(), None);
    let real = dir.path().join("real");
    std::fs::File::create(&real).and_then(|mut f| std::io::Write::write_all(&mut f, b"base = 7")).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    assert!(matches!(load(&path), Err(crate::config::Error::NotAFile { .. })));
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(&real, &path).unwrap();
    let e = load(&path).unwrap_err();
    assert_eq!(e.to_string(), ".git-agents.toml:1: 'base' must be a string, not a whole number");
    std::fs::remove_file(&path).unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(matches!(load(&path), Err(crate::config::Error::NotAFile { .. })), "a pipe would never end");
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_a_file_or_mistakes_with_lines(bytes in proptest::collection::vec(0u8..=255, 0..200)) {
        if let Err(found) = parse(&bytes, O) {
            proptest::prop_assert!(!found.is_empty());
        }
    }

    #[test]
    fn any_toml_like_text_is_a_file_or_mistakes(text in "(\\[(limits|setup|a)\\]\n|(base|run|time|x) = |['\"\\[\\]{},.=\n]|[0-9]{1,3}){0,24}") {
        if let Err(found) = parse(text.as_bytes(), O) {
            let lines = text.matches('\n').count() + 1;
            proptest::prop_assert!(found.iter().all(|m| m.line.is_none_or(|l| (1..=lines).contains(&l))), "{:?}", found);
        }
    }
}
