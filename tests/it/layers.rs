//! The rules of the code's shape, read from the source: what may import what, and where the sharp tools are.
//!
//! A small reader of tokens, not a parser: it knows comments, strings, paths and inline modules, which is all that the
//! rules speak of.

use crate::support::tokens::{Token, tokens};
use std::path::{Path, PathBuf};

/// Lowest first.
const LAYERS: &[&str] = &["model", "runtime", "git", "config", "place", "ops", "supervisor", "proxy", "cli"];
/// More lines than this want a reason.
const LONG: usize = 600;

struct Source {
    /// Below `src`.
    path: PathBuf,
    text: String,
    tokens: Vec<Token>,
}

impl Source {
    fn new(path: &str, text: &str) -> Source {
        Source { path: path.into(), text: text.to_owned(), tokens: tokens(text) }
    }

    /// `None` for `lib.rs` and `main.rs`, which stand above all.
    fn layer(&self) -> Option<usize> {
        let first = self.path.iter().next()?;
        let name = Path::new(first).file_stem()?.to_str()?;
        LAYERS.iter().position(|l| *l == name)
    }

    /// How many names its module's path has: `ops/mod.rs` 1, `ops/base.rs` 2.
    fn depth(&self) -> usize {
        self.path.components().count() - usize::from(self.path.ends_with("mod.rs"))
    }

    fn line(&self, token: &Token) -> String {
        format!("src/{}:{}", self.path.display(), token.line)
    }
}

#[test]
fn a_module_imports_only_what_stands_below_it() {
    complain(&sources(), imports_from_above);
}

#[test]
fn only_git_knows_gix() {
    complain(&sources(), |s| {
        let allowed = s.path.starts_with("git");
        let hits = s.tokens.iter().filter(|t| !allowed && t.is_ident("gix"));
        hits.map(|t| format!("{}: gix outside src/git", s.line(t))).collect()
    });
}

#[test]
fn git_is_started_in_one_place() {
    complain(&sources(), starts_git);
}

#[test]
fn unsafe_code_is_in_one_file() {
    complain(&sources(), |s| {
        let allowed = s.path == Path::new("runtime/process.rs");
        let hits = s.tokens.iter().filter(|t| !allowed && t.is_ident("unsafe"));
        hits.map(|t| format!("{}: unsafe code", s.line(t))).collect()
    });
}

#[test]
fn a_long_file_says_why() {
    complain(&sources(), too_long);
}

#[test]
fn the_rules_see_what_they_forbid() {
    let upward = |path: &str, text: &str| imports_from_above(&Source::new(path, text)).len();
    assert_eq!(upward("git/refs.rs", "use crate::ops::Context;"), 1);
    assert_eq!(upward("git/refs.rs", "use crate::{model, ops::{a, config}, cli};"), 2);
    assert_eq!(upward("git/refs.rs", "#[cfg(test)] mod tests { fn f() { crate::place::x() } }"), 1);
    assert_eq!(upward("git/refs.rs", "use super::super::ops::Context;"), 1);
    assert_eq!(upward("git/mod.rs", "mod tests { use super::super::ops; }"), 1);
    assert_eq!(upward("git/mod.rs", "fn f() { super::ops::g() }"), 1);
    assert_eq!(upward("config/mod.rs", "mod a { mod b { use super::super::place; } }"), 0, "its own module 'place'");
    assert_eq!(
        upward("git/refs.rs", "// crate::ops\n/* crate::cli */ const A: &str = \"crate::ops\"; use crate::git::x;"),
        0
    );
    assert_eq!(upward("cli/mod.rs", "use crate::{model, ops::{git}, supervisor}; use super::model;"), 0);
    assert_eq!(upward("git/refs.rs", "use git_agents::ops::Context;"), 1);

    let git = |text: &str| starts_git(&Source::new("ops/base.rs", text)).len();
    assert_eq!(git("let c = std::process::Command::new(\"git\");"), 1);
    assert_eq!(git("Command::new(\"/usr/bin/git\")"), 1);
    assert_eq!(git("Command::new(program); let a = \"git\";"), 0);

    let line = "//! Over 600 lines: one table.\n";
    let long = "fn f() {}\n".repeat(LONG + 1);
    assert_eq!(too_long(&Source::new("a.rs", &long)).len(), 1);
    assert_eq!(too_long(&Source::new("a.rs", &format!("{line}{long}"))).len(), 0);
    assert_eq!(too_long(&Source::new("a.rs", &format!("{long}{line}"))).len(), 1, "the reason stands first");
}

fn complain(sources: &[Source], rule: impl Fn(&Source) -> Vec<String>) {
    assert!(sources.len() > 10, "only {} files found", sources.len());
    let found: Vec<String> = sources.iter().flat_map(rule).collect();
    assert!(found.is_empty(), "\n  {}", found.join("\n  "));
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut out = Vec::new();
    let mut left = vec![root.clone()];
    while let Some(dir) = left.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                out.push(Source::new(path.strip_prefix(&root).unwrap().to_str().unwrap(), &text));
            }
        }
    }
    out.sort_by(|a, b| a.path.cmp(&b.path));
    out
}

fn imports_from_above(source: &Source) -> Vec<String> {
    let Some(own) = source.layer() else { return Vec::new() };
    let mut out = Vec::new();
    for token in reached(source) {
        if let Some(other) = LAYERS.iter().position(|l| token.is_ident(l)).filter(|other| *other > own) {
            out.push(format!("{}: '{}' imports '{}'", source.line(token), LAYERS[own], LAYERS[other]));
        }
    }
    out
}

/// The names that paths of this file reach in the crate's root: by `crate::`, by the crate's name, by enough `super::`.
fn reached(source: &Source) -> Vec<&Token> {
    let tokens = &source.tokens;
    let mut out = Vec::new();
    // For each open brace, whether it is an inline module's.
    let mut braces: Vec<bool> = Vec::new();
    let mut i = 0;
    while i < tokens.len() {
        let inline = braces.iter().filter(|m| **m).count();
        let mut at = None;
        match &tokens[i] {
            t if t.is("{") => braces.push(i >= 2 && tokens[i - 2].is_ident("mod")),
            t if t.is("}") => drop(braces.pop()),
            t if t.is_ident("crate") || t.is_ident("git_agents") => at = after_colons(tokens, i + 1),
            t if t.is_ident("super") => {
                let mut ups = 1;
                at = after_colons(tokens, i + 1);
                while let Some(next) = at.filter(|n| tokens.get(*n).is_some_and(|t| t.is_ident("super"))) {
                    ups += 1;
                    i = next;
                    at = after_colons(tokens, i + 1);
                }
                at = at.filter(|_| ups >= source.depth() + inline);
            }
            _ => {}
        }
        if let Some(at) = at {
            out.extend(first_names(&tokens[at..]));
        }
        i += 1;
    }
    out
}

fn after_colons(tokens: &[Token], i: usize) -> Option<usize> {
    (tokens.get(i)?.is(":") && tokens.get(i + 1)?.is(":")).then_some(i + 2)
}

/// `a` of `a::b`, `a` and `c` of `{a::b, c::{d}}`.
fn first_names(tokens: &[Token]) -> Vec<&Token> {
    let Some(first) = tokens.first() else { return Vec::new() };
    if !first.is("{") {
        return vec![first];
    }
    let (mut out, mut depth) = (Vec::new(), 0);
    for pair in tokens.windows(2) {
        match &pair[0] {
            t if t.is("{") => depth += 1,
            t if t.is("}") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && (pair[0].is("{") || pair[0].is(",")) {
            out.push(&pair[1]);
        }
    }
    out
}

fn starts_git(source: &Source) -> Vec<String> {
    if source.path == Path::new("git/command.rs") {
        return Vec::new();
    }
    let hits = source.tokens.windows(6).filter(|w| {
        w[0].is_ident("Command")
            && w[1].is(":")
            && w[3].is_ident("new")
            && w[5].text().is_some_and(|s| s == "git" || s.ends_with("/git"))
    });
    hits.map(|w| format!("{}: starts git outside src/git/command.rs", source.line(&w[0]))).collect()
}

fn too_long(source: &Source) -> Vec<String> {
    let lines = source.text.lines().count();
    let opening = source.text.lines().take_while(|l| l.starts_with("//"));
    let reason = opening.into_iter().any(|l| l.to_lowercase().contains(&format!("over {LONG} lines")));
    if lines <= LONG || reason {
        return Vec::new();
    }
    vec![format!("src/{}: {lines} lines, and no reason in its first comment", source.path.display())]
}

/// A file that nobody names is compiled by nobody: its tests are not run, and nothing says so.
#[test]
fn every_file_of_tests_is_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let named = std::fs::read_to_string(dir.join("main.rs")).unwrap();
    let files = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path().file_stem().unwrap().to_owned());
    let names = files.map(|f| f.into_string().unwrap()).filter(|f| f != "main" && f != "schemas");
    let left_out: Vec<String> = names.filter(|f| !named.contains(&format!("mod {f};"))).collect();
    assert!(left_out.is_empty(), "{left_out:?}");
}
