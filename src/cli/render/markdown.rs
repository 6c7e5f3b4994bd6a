//! The report as Markdown, as forges and editors show it. What others chose is text or code in it, never a mark.

use super::words;
use crate::model::text::{one_line, safe_line, safe_text};
use crate::model::units::count;
use crate::ops::report::{AgentReport, Report, TestsCount, Verdict};
use std::fmt::Write as _;

/// Items of a list that are shown.
const LISTED: usize = 30;

pub(super) fn render(r: &Report) -> String {
    let mut out = format!("# {}\n\n", plain(&words::head(r)));
    out.push_str("| | agent | verdict | changes | task |\n| --- | --- | --- | --- | --- |\n");
    for a in &r.agents {
        let (added, removed) = words::lines(a);
        let number = a.number.map(|n| n.to_string()).unwrap_or_default();
        let changes = format!("{}, +{added} −{removed}", count(a.files.len(), "file"));
        let title = cell(&plain(&one_line(&a.title, 80)));
        let _ = writeln!(out, "| {number} | {} | {} | {changes} | {title} |", cell(&code(&a.name.0)), a.verdict.word());
    }
    if let Some(land) = &r.land {
        let _ = write!(out, "\nLand all that is ready:\n\n{}", block(land));
    }
    for group in words::rivals(r) {
        let _ = writeln!(out, "\n## Rivals: {}\n", plain(&one_line(&group[0].title, 80)));
        let names: Vec<String> = group.iter().map(|a| cell(&code(&a.name.0))).collect();
        let _ = writeln!(out, "| | {} |\n| --- |{}", names.join(" | "), " --- |".repeat(group.len()));
        for (what, cells) in words::compared(&group) {
            let cells: Vec<String> = cells.iter().map(|c| cell(&plain(c))).collect();
            let _ = writeln!(out, "| {what} | {} |", cells.join(" | "));
        }
    }
    order(r, &mut out);
    if let Some(m) = &r.merged {
        let _ = writeln!(out, "\n## Merged on {}\n\n{}", code(&m.base), plain(&words::landed(m)));
        if let Some((_, said)) = words::merged(m) {
            let _ = writeln!(out, "\n{}", plain(&said));
        }
        out.push('\n');
        for l in &m.left_out {
            let place = if l.paths.is_empty() { String::new() } else { format!(" in {}", words::paths(&l.paths)) };
            let _ = writeln!(out, "- left out: {}: {}", code(&l.name.0), plain(&format!("{}{place}", l.reason)));
        }
        let failing = m.tests.as_ref().map(|t| t.newly_failing.as_slice()).unwrap_or_default();
        list(&mut out, failing.iter().map(|n| format!("newly failing: {}", code(n))));
    }
    for a in &r.agents {
        one(a, &mut out);
    }
    out
}

fn order(r: &Report, out: &mut String) {
    let meetings = words::meetings(r);
    if !meetings.is_empty() {
        out.push_str("\n## Meeting each other\n\n");
        list(
            out,
            meetings.iter().map(|m| {
                let level = m.level.map_or("unknown", |l| l.word());
                format!("{} and {}: **{level}** {}", code(&m.a), code(&m.b), plain(&m.place))
            }),
        );
    }
    if r.order.len() > 1 {
        out.push_str("\n## Land in this order\n\n");
        for (n, o) in r.order.iter().enumerate() {
            let names = |of: &[crate::model::agent::Name]| of.iter().map(|n| code(&n.0)).collect::<Vec<_>>().join(", ");
            let mut line = code(&o.name.0);
            if !o.conflicts_with_landed.is_empty() {
                let _ = write!(line, ": will stop on {}", names(&o.conflicts_with_landed));
            }
            if !o.instead_of.is_empty() {
                let _ = write!(line, ": instead of {}", names(&o.instead_of));
            }
            if let Some(why) = &o.not_yet {
                let _ = write!(line, ": not as it is, {}", plain(why));
            }
            let _ = writeln!(out, "{}. {line}", n + 1);
        }
    }
}

fn one(a: &AgentReport, out: &mut String) {
    let number = a.number.map(|n| format!("{n}. ")).unwrap_or_default();
    let _ = writeln!(out, "\n## {number}{} — {}\n", code(&a.name.0), a.verdict.word());
    let _ = writeln!(out, "{}\n", plain(&one_line(&a.title, 200)));
    list(out, a.reasons.iter().map(|r| plain(r)));
    list(out, a.flags.iter().map(|f| format!("flag: {}", plain(&f.text))));
    let by = a.assistant.as_deref().map(|x| format!("{}, ", plain(&one_line(x, 40)))).unwrap_or_default();
    let _ = writeln!(out, "- {by}{}", plain(&words::facts(a).join(", ")));
    if let Some(said) = words::cases(a) {
        let _ = writeln!(out, "- test cases: {}", plain(&said));
    }
    if let Some(t) = &a.earlier_tests {
        let _ = writeln!(out, "- tests of an earlier commit: {}", plain(&words::verdict(t).1));
    }
    if let Some(t) = &a.tests {
        let _ = writeln!(out, "- tests: {}", plain(&words::verdict(t).1));
        list(out, t.newly_failing.iter().map(|n| format!("newly failing: {}", code(n))));
    }
    if let Some(url) = words::href(a) {
        let _ = writeln!(out, "- open: <{url}>");
    }
    if let Some(claim) = &a.claim {
        out.push_str("\nIt says:\n\n");
        for line in safe_text(claim.as_bytes()).lines().take(40) {
            let _ = writeln!(out, "> {}", plain(line));
        }
    }
    if !a.files.is_empty() {
        out.push_str("\nFiles:\n\n");
        list(
            out,
            a.files.iter().map(|f| match (f.added, f.removed) {
                (Some(x), Some(y)) => format!("{} +{x} −{y}", code(&f.path.shown())),
                _ => format!("{} binary", code(&f.path.shown())),
            }),
        );
    }
    for (what, found) in [("added", &a.tests_added), ("removed", &a.tests_removed), ("switched off", &a.tests_skipped)]
    {
        if let Some(TestsCount { names, .. }) = found.as_ref().filter(|t| t.cases > 0) {
            let _ = writeln!(out, "\nTests {what}:\n");
            list(out, names.iter().map(|n| code(n)));
        }
    }
    if !a.commits.is_empty() {
        out.push_str("\nCommits:\n\n");
        list(out, a.commits.iter().map(|c| format!("{} {}", code(c.id.short()), code(&c.subject))));
    }
    let take = a.commands.take.iter().filter(|_| matches!(a.verdict, Verdict::Ready | Verdict::Look));
    let commands: Vec<&str> = std::iter::once(&a.commands.look)
        .chain(take.filter(|_| !a.commits.is_empty()))
        .chain(std::iter::once(&a.commands.drop))
        .map(String::as_str)
        .collect();
    let _ = write!(out, "\n{}", block(&commands.join("\n")));
}

fn list(out: &mut String, items: impl ExactSizeIterator<Item = String>) {
    let more = items.len().saturating_sub(LISTED);
    for i in items.take(LISTED) {
        let _ = writeln!(out, "- {i}");
    }
    if more > 0 {
        let _ = writeln!(out, "- and {more} more");
    }
}

/// Text that is text: every mark escaped, and nobody is called by it.
fn plain(text: &str) -> String {
    let text = safe_line(text.as_bytes());
    let text = text.trim();
    // What begins a list, a heading or a line across does so only here.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mut out = String::new();
    for (i, c) in text.char_indices() {
        let begins = i == digits && c.is_ascii_punctuation() && !matches!(c, '\'' | '"' | '(' | '/');
        if begins || "\\`*_[]<>#&~|@$".contains(c) {
            out.push('\\');
        }
        out.push(c);
        if c == '@' {
            out.push('\u{200b}');
        }
    }
    out
}

/// Text as code: between more backticks than it has in a row.
fn code(text: &str) -> String {
    let text = safe_line(text.as_bytes());
    let fence = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with(['`', ' ']) || text.ends_with(['`', ' ']) || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// Lines as a block of code.
fn block(lines: &str) -> String {
    let fence = "`".repeat(longest_run(lines).max(2) + 1);
    format!("{fence}sh\n{}\n{fence}\n", safe_text(lines.as_bytes()))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// In a table, where a bar ends the cell, in code too.
fn cell(text: &str) -> String {
    let mut out = String::new();
    let mut escaped = false;
    for c in text.chars() {
        if c == '|' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_others_mark_nothing() {
        assert_eq!(plain("# a *b* [c](d) <e>\nf"), "\\# a \\*b\\* \\[c\\](d) \\<e\\> f");
        assert_eq!(plain("  1. @team | x"), "1\\. \\@\u{200b}team \\| x");
        for (text, shown) in [("- a", "\\- a"), ("2) a", "2\\) a"), ("a-b = 1.5", "a-b = 1.5"), ("=====", "\\=====")] {
            assert_eq!(plain(text), shown);
        }
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`"), "`` ` ``");
        assert_eq!(code("a\n```\nb"), "````a ``` b````");
        assert_eq!(cell("`a|b` c\\|d"), "`a\\|b` c\\|d");
        assert_eq!(block("a\n````"), "`````sh\na\n````\n`````\n");
    }
}
