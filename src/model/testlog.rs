//! Which tests failed, read from what a test command printed.
//!
//! The formats are told apart by their own marks, so a log with several (a makefile that runs two runners) gives the
//! names of all. What is not recognised gives no name: then the exit code is all there is.

use super::text::clip_bytes;
use super::verdict::all_or_none;
use std::collections::BTreeSet;

/// Bytes of a name.
const LONGEST: usize = 300;

/// The names that one format gives, from the lines.
type Reader = fn(&[&str]) -> Vec<String>;

/// The names of the tests that failed, sorted; none where the output names none, or too many.
pub fn failing(log: &str) -> Vec<String> {
    let log = without_colour(log);
    let lines: Vec<&str> = log.lines().collect();
    let readers: [Reader; 12] = [cargo, nextest, pytest, go, jest, vitest, tap, node, mocha, rspec, phpunit, java];
    let found = readers.iter().flat_map(|read| read(&lines)).filter(|n| !n.is_empty());
    all_or_none(found.map(|n| clip_bytes(n, LONGEST)).collect())
}

/// The names of tests that passed, where the runner says so of each: cargo test, and pytest with `-v` or `-rA`.
pub fn passing(log: &str) -> BTreeSet<String> {
    let one = |l: &str| {
        let cargo = l.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... ok"));
        let pytest = || l.strip_prefix("PASSED ").or_else(|| Some(l.split_once(" PASSED")?.0));
        cargo.or_else(pytest).map(|n| clip_bytes(n.to_owned(), LONGEST))
    };
    without_colour(log).lines().filter_map(one).collect()
}

/// `test a::b ... FAILED`
fn cargo(lines: &[&str]) -> Vec<String> {
    let one = |l: &&str| Some(l.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    lines.iter().filter_map(one).collect()
}

/// `        FAIL [   0.005s] (3/9) crate::bin a::b`
fn nextest(lines: &[&str]) -> Vec<String> {
    let one = |l: &&str| {
        let l = l.trim_start();
        let mark = ["FAIL [", "TIMEOUT [", "ABORT [", "SIGSEGV [", "SIGABRT ["].iter().find(|m| l.contains(**m))?;
        let (before, rest) = l.split_once(*mark)?;
        let (time, rest) = rest.split_once(']')?;
        let known = (before.is_empty() || before.starts_with("TRY ")) && time.trim().ends_with('s');
        let rest = rest.trim_start();
        let name = rest.strip_prefix('(').and_then(|r| Some(r.split_once(')')?.1)).unwrap_or(rest);
        known.then(|| name.trim().to_owned())
    };
    lines.iter().filter_map(one).collect()
}

/// The short summary: `FAILED tests/test_a.py::test_b - AssertionError`
fn pytest(lines: &[&str]) -> Vec<String> {
    let summary = lines.iter().skip_while(|l| !l.contains(" short test summary info "));
    let one = |l: &&str| {
        let name = l.strip_prefix("FAILED ").or_else(|| l.strip_prefix("ERROR "))?;
        Some(name.split(" - ").next().unwrap_or(name).to_owned())
    };
    summary.filter_map(one).collect()
}

/// `--- FAIL: TestA/b (0.00s)` and, below, `FAIL`, package and time between tabs; or the lines of `-json`.
fn go(lines: &[&str]) -> Vec<String> {
    let (mut out, mut waiting) = (Vec::new(), Vec::new());
    for l in lines {
        if let Some(name) = l.trim_start().strip_prefix("--- FAIL: ") {
            waiting.push(name.split(" (").next().unwrap_or(name).to_owned());
        } else if let Some(rest) = l.strip_prefix("FAIL\t") {
            let package = rest.split('\t').next().unwrap_or(rest);
            if waiting.is_empty() {
                out.push(package.to_owned());
            }
            out.extend(waiting.drain(..).map(|n| format!("{package} {n}")));
        } else if l.starts_with('{') && l.contains("\"Action\":\"fail\"") {
            let event: serde_json::Value = serde_json::from_str(l).unwrap_or_default();
            if let (Some(package), Some(test)) = (event["Package"].as_str(), event["Test"].as_str()) {
                out.push(format!("{package} {test}"));
            }
        }
    }
    out.extend(waiting);
    without_parents(out, "/")
}

/// `FAIL a.test.js`, then `  ● suite › test`.
fn jest(lines: &[&str]) -> Vec<String> {
    let (mut out, mut file) = (Vec::new(), None);
    for l in lines {
        if let Some(rest) = l.strip_prefix("FAIL ") {
            file = rest.split_whitespace().next();
        } else if let (Some(name), Some(file)) = (l.strip_prefix("  ● "), file) {
            match name {
                "Console" => {}
                "Test suite failed to run" => out.push(file.to_owned()),
                _ => out.push(format!("{file} › {name}")),
            }
        }
    }
    out
}

/// ` FAIL  a.test.ts > suite > test`
fn vitest(lines: &[&str]) -> Vec<String> {
    let one = |l: &&str| Some(l.strip_prefix(" FAIL  ")?.trim().to_owned());
    lines.iter().filter_map(one).collect()
}

/// `not ok 2 - name`, nested by four blanks below `# Subtest: suite`.
fn tap(lines: &[&str]) -> Vec<String> {
    let (mut out, mut suites): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for l in lines {
        let text = l.trim_start();
        let depth = (l.len() - text.len()) / 4;
        if let Some(name) = text.strip_prefix("# Subtest: ") {
            suites.truncate(depth);
            suites.push(name);
        } else if let Some(rest) = text.strip_prefix("not ok ")
            && !["# TODO", "# SKIP"].iter().any(|m| rest.to_ascii_uppercase().contains(m))
        {
            let number = rest.split(' ').next().unwrap_or_default();
            let name = rest[number.len()..].trim_start().trim_start_matches("- ");
            let name = if name.is_empty() { number } else { name };
            let above = &suites[..depth.min(suites.len())];
            out.push(above.iter().copied().chain([name]).collect::<Vec<_>>().join(" > "));
        }
    }
    without_parents(out, " > ")
}

/// `  ✖ name (1.2ms)` below `▶ suite`.
fn node(lines: &[&str]) -> Vec<String> {
    let (mut out, mut suites): (Vec<String>, Vec<&str>) = (Vec::new(), Vec::new());
    for l in lines.iter().take_while(|l| **l != "✖ failing tests:") {
        let text = l.trim_start();
        let depth = (l.len() - text.len()) / 2;
        if let Some(name) = text.strip_prefix("▶ ") {
            suites.truncate(depth);
            suites.push(name);
        } else if let Some((name, time)) = text.strip_prefix("✖ ").and_then(|t| t.rsplit_once(" ("))
            && time.contains("ms)")
        {
            let above = &suites[..depth.min(suites.len())];
            out.push(above.iter().copied().chain([name]).collect::<Vec<_>>().join(" > "));
        }
    }
    without_parents(out, " > ")
}

/// After `  2 failing`: `  1) suite`, deeper titles below it, the last with a colon.
fn mocha(lines: &[&str]) -> Vec<String> {
    let is_count = |l: &str| {
        l.trim().strip_suffix(" failing").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut out = Vec::new();
    let mut lines = lines.iter().skip_while(|l| !is_count(l)).skip(1);
    while let Some(l) = lines.next() {
        let Some((number, first)) = l.trim_start().split_once(") ") else { continue };
        if !l.starts_with("  ") || number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let mut titles = vec![first.trim()];
        while !titles.last().is_some_and(|t| t.ends_with(':')) {
            match lines.next().map(|l| l.trim()) {
                Some(title) if !title.is_empty() => titles.push(title),
                _ => break,
            }
        }
        out.push(titles.join(" > ").trim_end_matches(':').to_owned());
    }
    out
}

/// `rspec ./spec/a_spec.rb:12 # thing does it`
fn rspec(lines: &[&str]) -> Vec<String> {
    let one = |l: &&str| {
        let (place, name) = l.strip_prefix("rspec ")?.split_once(" # ")?;
        // Lines move with every edit.
        let file = place.split(['[', ':']).next().unwrap_or(place);
        Some(format!("{file} {name}"))
    };
    lines.iter().filter_map(one).collect()
}

/// After `There was 1 failure:`, `1) Tests\A::testB`.
fn phpunit(lines: &[&str]) -> Vec<String> {
    let says = |l: &&&str| (l.starts_with("There was ") || l.starts_with("There were ")) && l.ends_with(':');
    let one = |l: &&str| {
        let (number, name) = l.split_once(") ")?;
        let name = name.trim();
        (!number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) && name.contains("::"))
            .then(|| name.to_owned())
    };
    lines.iter().skip_while(|l| !says(l)).filter_map(one).collect()
}

/// Surefire's `[ERROR] a.B.test -- Time elapsed: 0.1 s <<< FAILURE!`, Gradle's `BTest > test() FAILED`.
fn java(lines: &[&str]) -> Vec<String> {
    let one = |l: &&str| {
        if let Some(name) = l.strip_suffix(" FAILED").filter(|n| n.contains(" > ") && !n.starts_with(['>', ' '])) {
            return Some(name.to_owned());
        }
        let l = l.strip_suffix("<<< FAILURE!").or_else(|| l.strip_suffix("<<< ERROR!"))?;
        let l = l.strip_prefix("[ERROR]").unwrap_or(l).trim();
        let name = l.split(" -- Time elapsed").next()?.split("  Time elapsed").next()?.trim();
        if name.starts_with("Tests run:") {
            return None;
        }
        match name.strip_suffix(')').and_then(|n| n.split_once('(')) {
            // The older form: `test(a.B)`.
            Some((test, class)) if class.contains('.') => Some(format!("{class}.{test}")),
            _ => Some(name.to_owned()),
        }
    };
    lines.iter().filter_map(one).collect()
}

/// A suite fails with its tests: only these are named.
fn without_parents(names: Vec<String>, between: &str) -> Vec<String> {
    let is_parent =
        |n: &String| names.iter().any(|o| o.strip_prefix(n.as_str()).is_some_and(|r| r.starts_with(between)));
    names.iter().filter(|n| !is_parent(n)).cloned().collect()
}

/// Without the escape sequences of a terminal.
fn without_colour(log: &str) -> String {
    let mut out = String::with_capacity(log.len());
    let mut chars = log.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
        } else if chars.as_str().starts_with('[') {
            chars.by_ref().skip(1).find(|c| ('@'..='~').contains(c));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::verdict::MOST;

    #[test]
    fn each_runner_names_what_failed() {
        let cases: [(&str, &[&str]); 15] = [
            (
                "test a::fine ... ok\ntest a::broken ... FAILED\ntest src/lib.rs - f (line 3) ... FAILED\n\ntest result: FAILED. 1 passed",
                &["a::broken", "src/lib.rs - f (line 3)"],
            ),
            (
                "        PASS [   0.012s] app a::fine\n        FAIL [   0.005s] (2/3) app a::broken\n  TRY 2 FAIL [   0.005s] app::it b",
                &["app a::broken", "app::it b"],
            ),
            (
                "p/test_a.py .F.FE\n===== short test summary info =====\nFAILED p/test_a.py::test_par[2] - assert 2 == 1\nFAILED p/test_a.py::TestC::test_m - ValueError: a - b\nERROR p/test_a.py::test_err - RuntimeError: no\n== 2 failed in 0.1s ==",
                &["p/test_a.py::TestC::test_m", "p/test_a.py::test_err", "p/test_a.py::test_par[2]"],
            ),
            (
                "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/deep (0.00s)\n        a_test.go:9: no\nFAIL\nFAIL\texample.com/x\t0.01s\nFAIL\texample.com/y [build failed]\nok  \texample.com/z\t0.01s",
                &["example.com/x TestA/deep", "example.com/y [build failed]"],
            ),
            (
                "{\"Action\":\"fail\",\"Package\":\"x\",\"Test\":\"TestA\"}\n{\"Action\":\"fail\",\"Package\":\"x\"}\n{\"Action\":\"pass\",\"Package\":\"x\",\"Test\":\"TestB\"}",
                &["x TestA"],
            ),
            (
                "FAIL j/a.test.js\n  ✕ top level\n  math\n    ✓ adds (8 ms)\n\n  ● math › subtracts well\n\n    expect(received)\n\n  ● top level\n\n    x\nFAIL j/b.test.js\n  ● Test suite failed to run\n",
                &["j/a.test.js › math › subtracts well", "j/a.test.js › top level", "j/b.test.js"],
            ),
            (
                " ❯ v/a.test.js (3 tests | 2 failed) 11ms\n   × top level 1ms\n\n FAIL  v/a.test.js > math > subtracts well\nAssertionError: x\n FAIL  v/a.test.js > top level\n",
                &["v/a.test.js > math > subtracts well", "v/a.test.js > top level"],
            ),
            (
                "TAP version 13\n# Subtest: math\n    # Subtest: adds\n    ok 1 - adds\n    # Subtest: subtracts well\n    not ok 2 - subtracts well\n      ---\n      ...\n    1..2\nnot ok 1 - math\n# Subtest: top level\nnot ok 2 - top level\nnot ok 3 - later # TODO\n",
                &["math > subtracts well", "top level"],
            ),
            (
                "▶ math\n  ✔ adds (1.1ms)\n  ✖ subtracts well (7.9ms)\n    AssertionError\n\n✖ math (67.9ms)\n✖ top level (0.3ms)\n﹣ todo (0.1ms) # SKIP\n✖ failing tests:\n\n✖ subtracts well (7.9ms)\n",
                &["math > subtracts well", "top level"],
            ),
            (
                "  1) top level\n  math\n    ✔ adds\n    deep\n      2) subtracts well\n\n\n  1 passing (12ms)\n  2 failing\n\n  1) top level:\n     Error: x\n      at m/a.js:2\n\n  2) math\n       deep\n         subtracts well:\n\n      AssertionError\n",
                &["math > deep > subtracts well", "top level"],
            ),
            (
                "Failed examples:\n\nrspec ./spec/a_spec.rb:12 # Thing does it\nrspec './spec/b_spec.rb[1:2]' # Other is\n",
                &["'./spec/b_spec.rb Other is", "./spec/a_spec.rb Thing does it"],
            ),
            (
                "There were 2 failures:\n\n1) Tests\\ATest::testB\nFailed asserting\n\n2) Tests\\ATest::testC with data set #0\n",
                &["Tests\\ATest::testB", "Tests\\ATest::testC with data set #0"],
            ),
            (
                "[ERROR] Tests run: 2, Failures: 1 <<< FAILURE!\n[ERROR] com.x.FooTest.bar -- Time elapsed: 0.01 s <<< FAILURE!\n[ERROR] baz(com.x.FooTest)  Time elapsed: 0 s  <<< ERROR!\n",
                &["com.x.FooTest.bar", "com.x.FooTest.baz"],
            ),
            ("FooTest > bar() FAILED\n    java.lang.AssertionError\n> Task :test FAILED\n", &["FooTest > bar()"]),
            ("\u{1b}[31mtest a ... FAILED\u{1b}[0m\nmake: *** [test] Error 1\n1) not a title\n", &["a"]),
        ];
        for (log, names) in cases {
            assert_eq!(failing(log), names, "{log}");
        }
    }

    #[test]
    fn what_passed_is_named_where_the_runner_says_so() {
        let said = passing(
            "$ x a b\ntest a::b ... ok\ntest c ... FAILED\nt.py::test_a PASSED   [ 50%]\nPASSED t.py::test_b\n1 passed",
        );
        assert_eq!(said.into_iter().collect::<Vec<_>>(), ["a::b", "t.py::test_a", "t.py::test_b"]);
    }

    #[test]
    fn a_log_of_anything_gives_names_that_are_bounded() {
        assert!(failing("all is well\n\u{1b}[").is_empty());
        let long = format!("test {} ... FAILED\n", "é".repeat(1000));
        assert!(failing(&long)[0].len() <= LONGEST);
        let many = |n: usize| failing(&(0..n).map(|i| format!("test t{i} ... FAILED\n")).collect::<String>()).len();
        assert_eq!((many(MOST), many(MOST + 1)), (MOST, 0));
    }
}
