//! Which files of the checkout a command names: those it could mean, and those it runs or reads as a script.

use super::template;
use std::collections::BTreeSet;

/// The paths that a part of the project's file names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Named {
    /// All it could mean. What one of these holds when it is approved is approved with it.
    pub all: BTreeSet<String>,
    /// Those it runs or reads as a script: one that appears later was approved by nobody.
    pub run: BTreeSet<String>,
}

impl Named {
    /// A shell line. What it only redirects its output to is not named.
    pub(super) fn line(line: &str) -> Named {
        let line = without_targets(line);
        Named { run: paths_in(&run_part(&line), false), all: paths_in(&line, false) }
    }

    /// A program with its arguments.
    pub(super) fn argv(argv: &[String]) -> Named {
        let all = argv.iter().flat_map(|a| paths_in(a, true)).collect();
        let words: Vec<&str> = argv.iter().flat_map(|a| a.split(separates)).collect();
        let reads_all = words.iter().any(|w| runs_its_arguments(w));
        let mut run = BTreeSet::new();
        for (i, element) in argv.iter().enumerate() {
            if i == 0 || reads_all || reads_script(element) || reads_script(&argv[i - 1]) {
                run.extend(paths_in(element, true));
            }
        }
        Named { all, run }
    }

    /// Texts that the program they are for may read as it likes: arguments and variables of an assistant.
    pub(super) fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Named {
        let all: BTreeSet<String> = texts.into_iter().flat_map(|t| paths_in(t, true)).collect();
        Named { run: all.clone(), all }
    }
}

/// `line` without the words that are only written to (`> out.txt`, `2>>log`). What stands in quotes stays.
fn without_targets(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line.chars().peekable();
    let (mut quote, mut before) = (None, ' ');
    while let Some(c) = rest.next() {
        out.push(c);
        match (quote, c) {
            (Some('"') | None, '\\') => out.extend(rest.next()),
            (Some(q), _) if q == c => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            // `<>` opens for reading too.
            (None, '>') if before != '<' => {
                while let Some(c) = rest.next_if(|c| matches!(c, '>' | '|' | '&' | ' ' | '\t')) {
                    out.push(c);
                }
                let (mut inside, mut target) = (None, String::new());
                while let Some(c) = rest.next_if(|c| inside.is_some() || !(c.is_whitespace() || is_operator(*c))) {
                    target.push(c);
                    match inside {
                        Some(q) if q == c => inside = None,
                        None if matches!(c, '"' | '\'') => inside = Some(c),
                        _ => {}
                    }
                }
                // The shell runs what is in there.
                if target.contains(['`', '$']) {
                    out.push_str(&target);
                }
            }
            _ => {}
        }
        before = c;
    }
    out
}

/// What of a shell line is run or read as a script: each command's own word, all the words where that is a program which
/// runs what it is given, and the values of variables and of options that name scripts.
fn run_part(line: &str) -> String {
    let bare: String = line.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    let mut out = String::new();
    for command in bare.split(is_operator_or_newline) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let own = words.iter().position(|w| !w.contains('=')).unwrap_or(words.len());
        let all = words.iter().any(|w| runs_its_arguments(w));
        for (i, word) in words.iter().enumerate() {
            if all || i <= own || reads_script(word) || reads_script(words[i - 1]) {
                out.push_str(word);
                out.push(' ');
            }
        }
        out.push(';');
    }
    // `sh < x`, `$(<x)`: what a program reads on its standard input may be a script.
    for (at, _) in bare.match_indices('<') {
        out.push_str(
            bare[at + 1..].trim_start().split(|c: char| c.is_whitespace() || is_operator(c)).next().unwrap_or(""),
        );
        out.push(';');
    }
    out
}

fn is_operator(c: char) -> bool {
    matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

fn is_operator_or_newline(c: char) -> bool {
    is_operator(c) || matches!(c, '\n' | '`' | '{' | '}')
}

/// Shells, interpreters, programs that start others, and those that go on in another directory.
fn runs_its_arguments(word: &str) -> bool {
    const RUN: &[&str] = &[
        ".", "source", "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "busybox", "pwsh", "node", "deno", "bun",
        "bunx", "npx", "pnpx", "tsx", "python", "pypy", "uv", "uvx", "ruby", "perl", "php", "lua", "luajit", "Rscript",
        "julia", "java", "groovy", "elixir", "escript", "awk", "gawk", "mawk", "sed", "make", "gmake", "ninja", "just",
        "task", "cmake", "rake", "env", "exec", "eval", "command", "builtin", "sudo", "doas", "nice", "ionice",
        "nohup", "setsid", "time", "timeout", "stdbuf", "xargs", "parallel", "find", "watch", "unshare", "chroot",
        "strace", "script", "run", "trap", "test", "cd", "pushd", "then", "do", "else", "if", "while", "until", "elif",
        "!",
    ];
    let name = word.rsplit('/').next().unwrap_or(word);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    RUN.contains(&name) || RUN.contains(&plain)
}

/// Options whose value is read as a script or as settings, and every `--option=value` but those that name an output.
fn reads_script(word: &str) -> bool {
    let option = word.split('=').next().unwrap_or(word);
    let reads = [
        "-f",
        "-c",
        "-e",
        "-r",
        "-C",
        "--file",
        "--require",
        "--import",
        "--loader",
        "--preload",
        "--config",
        "--rcfile",
        "--init-file",
        "--script",
        "--makefile",
        "--env-file",
        "--prefix",
        "--cwd",
        "--eval",
        "--plugin",
    ];
    let is_output = ["out", "log", "report", "dest", "target", "cache", "prefix"].iter().any(|o| option.contains(o));
    reads.contains(&option) || (word.starts_with('-') && word.contains('=') && !is_output)
}

/// Every path of the checkout that `text` could name. Too many rather than too few: a path where nothing stands costs
/// nothing, one that is missed lets a script change unseen.
pub(super) fn paths_in(text: &str, is_template: bool) -> BTreeSet<String> {
    let rendered = if is_template {
        // Both lead to the root of the checkout; the other names lead nowhere in it.
        let value = |name: &str| if matches!(name, "worktree" | "main") { "." } else { "\u{1}" };
        let values = template::ASSISTANT_NAMES.iter().map(|name| (*name, value(name).to_owned())).collect();
        template::render(text, &values).unwrap_or_else(|_| text.to_owned())
    } else {
        text.to_owned()
    };
    let bare: String = rendered.chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
    let mut words: Vec<&str> = vec![&rendered];
    words.extend(rendered.split(|c: char| separates(c) || matches!(c, '"' | '\'')));
    words.extend(bare.split(char::is_whitespace));
    words.extend(bare.split(separates));
    let mut found: BTreeSet<String> = words.into_iter().filter_map(|w| inside(without_variable(w))).collect();
    // After `cd a`, `x` may be `a/x`; after another `cd b` it may be `a/b/x` or, behind a subshell, `b/x`.
    let mut directories: Vec<String> = Vec::new();
    let mut enters = false;
    for word in bare.split(separates).filter(|w| !w.is_empty()) {
        let word = without_variable(word);
        let joined = |dir: &String| inside(&format!("{dir}/{word}")).filter(|_| !word.starts_with('/'));
        if enters {
            let deeper = directories.first().and_then(joined);
            directories = deeper.into_iter().chain(inside(word)).collect();
        } else {
            found.extend(directories.iter().filter_map(joined));
        }
        enters = matches!(word, "cd" | "pushd" | "-C" | "--prefix" | "--cwd");
    }
    found
}

fn separates(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '&' | '|' | '(' | ')' | '<' | '>' | '=' | ',' | ':' | '`' | '{' | '}')
}

/// `$PWD/x` and `${AGENTS_WORKTREE}/x` without the variable, which may well be the root.
fn without_variable(word: &str) -> &str {
    match (word.strip_prefix('$'), word.split_once('/')) {
        (Some(_), Some((_, rest))) => rest,
        _ => word,
    }
}

/// `path` in its shortest form, if it is a relative one that stays below the root.
fn inside(path: &str) -> Option<String> {
    if path.starts_with('/') || path.len() > 4096 || path.contains(['\0', '\u{1}']) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}
