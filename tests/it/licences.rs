//! Every dependency may be used the way this project is: its licence expression is made of the list below.
//!
//! What this platform builds is looked at; on another platform its own run looks at its own.

use serde_json::Value;
use std::process::Command;

/// Permissive ones, and one with a condition we meet.
const WELCOME: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    // Its copyleft ends at its own files, which we use unchanged (`uluru`, a cache inside gix).
    "MPL-2.0",
];

#[test]
fn every_dependency_has_a_welcome_licence() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let mut seen = 0;
    let mut refused = Vec::new();
    for package in packages.iter().filter(|p| !p["source"].is_null()) {
        seen += 1;
        let licence = package["license"].as_str().unwrap_or("none stated");
        if !welcome(licence) {
            refused.push(format!("{} {}: {licence}", package["name"], package["version"]));
        }
    }
    assert!(seen > 20, "only {seen} dependencies seen: the question was wrong");
    assert!(refused.is_empty(), "licences that are not on the list:\n  {}", refused.join("\n  "));
}

#[test]
fn an_expression_needs_one_side_of_or_and_both_of_and() {
    for yes in
        ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR GPL-2.0) AND BSD-3-Clause", "GPL-2.0 AND MIT OR ISC"]
    {
        assert!(welcome(yes), "{yes}");
    }
    for no in
        ["GPL-3.0", "", "MIT AND GPL-3.0", "(MIT OR ISC) AND AGPL-3.0", "none stated", "Apache-2.0 WITH other", "(MIT"]
    {
        assert!(!welcome(no), "{no}");
    }
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let version = Command::new(&cargo).arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version.lines().find_map(|l| l.strip_prefix("host: ")).expect("cargo tells its host");
    let out = Command::new(&cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", host])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn welcome(expression: &str) -> bool {
    // `/` is the old way to write OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any(&mut rest) == Some(true) && rest.is_empty()
}

/// `a OR b …`; `None` where it is not an expression.
fn any(words: &mut &[&str]) -> Option<bool> {
    let mut ok = all(words)?;
    while take(words, "OR") {
        ok |= all(words)?;
    }
    Some(ok)
}

fn all(words: &mut &[&str]) -> Option<bool> {
    let mut ok = one(words)?;
    while take(words, "AND") {
        ok &= one(words)?;
    }
    Some(ok)
}

fn one(words: &mut &[&str]) -> Option<bool> {
    if take(words, "(") {
        let ok = any(words)?;
        return take(words, ")").then_some(ok);
    }
    let (first, rest) = words.split_first()?;
    *words = rest;
    let mut licence = (*first).to_owned();
    if take(words, "WITH") {
        let (exception, rest) = words.split_first()?;
        *words = rest;
        licence = format!("{licence} WITH {exception}");
    }
    Some(WELCOME.contains(&licence.as_str()))
}

fn take(words: &mut &[&str], word: &str) -> bool {
    let found = words.first() == Some(&word);
    if found {
        *words = &words[1..];
    }
    found
}
