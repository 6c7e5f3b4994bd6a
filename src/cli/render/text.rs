//! The report as text, for a terminal or a file.

use super::words;
use crate::cli::ui::{Label, Ui, table};
use crate::model::text::{one_line, safe_line, safe_text};
use crate::ops::answer::JsonPath;
use crate::ops::merged::Merged;
use crate::ops::report::{AgentReport, Report, Verdict};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Names of tests that are shown.
const NAMES: usize = 10;
/// Files that are shown.
const FILES: usize = 8;

pub(super) fn render(ui: &Ui, r: &Report) -> String {
    let mut out = format!("{}\n", ui.paint(Label::Strong, &words::head(r)));
    for a in &r.agents {
        out.push('\n');
        one(ui, a, &mut out);
    }
    for group in words::rivals(r) {
        out.push_str(&format!("\nrivals for: {}\n", one_line(&group[0].title, 60)));
        let head = std::iter::once(String::new()).chain(group.iter().map(|a| a.name.0.clone())).collect();
        let rows = words::compared(&group).into_iter().map(|(what, cells)| {
            std::iter::once(what.to_owned())
                .chain(cells.into_iter().map(|c| if c.is_empty() { "-".into() } else { c }))
                .collect::<Vec<String>>()
        });
        let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
        for line in table(&rows, |_, _, cell| cell.to_owned()).lines() {
            out.push_str(&format!("  {line}\n"));
        }
    }
    let meetings = words::meetings(r);
    if !meetings.is_empty() {
        out.push_str("\nmeeting each other\n");
        for m in meetings {
            let place = match m.level {
                Some(level) => format!("{} in {}", level.word(), m.place),
                None => format!("unknown ({})", m.place),
            };
            out.push_str(&format!("  {} and {}: {place}\n", m.a, m.b));
        }
    }
    let (last, first): (Vec<_>, Vec<_>) = r.order.iter().partition(|o| o.not_yet.is_some());
    if r.order.len() > 1 {
        let names: Vec<&str> = first.iter().map(|o| o.name.0.as_str()).collect();
        out.push_str(&if names.is_empty() {
            "\n".to_owned()
        } else {
            format!("\nland in this order: {}\n", names.join(", "))
        });
        for o in r.order.iter().filter(|o| !o.conflicts_with_landed.is_empty()) {
            let with: Vec<&str> = o.conflicts_with_landed.iter().map(|n| n.0.as_str()).collect();
            out.push_str(&format!("  {} will stop on {}\n", o.name, with.join(", ")));
        }
        for (o, why) in last.iter().filter_map(|o| Some((o, o.not_yet.as_ref()?))) {
            out.push_str(&format!("not as it is: {} ({})\n", o.name, safe_line(why.as_bytes())));
        }
    }
    for o in r.order.iter().filter(|o| !o.instead_of.is_empty()) {
        let rivals: Vec<&str> = o.instead_of.iter().map(|n| n.0.as_str()).collect();
        out.push_str(&format!("of rivals one lands: {}, not {}\n", o.name, rivals.join(", ")));
    }
    if let Some(m) = &r.merged {
        merged(ui, m, &mut out);
    }
    out
}

fn merged(ui: &Ui, m: &Merged, out: &mut String) {
    out.push_str(&format!("\nmerged on {}: {} (tree {:.12})\n", m.base, words::landed(m), m.tree.0));
    for l in &m.left_out {
        let paths = if l.paths.is_empty() { String::new() } else { format!(" in {}", words::paths(&l.paths)) };
        out.push_str(&format!("  left out: {}: {}{paths}\n", l.name, safe_line(l.reason.as_bytes())));
    }
    let (Some(t), Some((label, said))) = (&m.tests, words::merged(m)) else { return };
    out.push_str(&format!("  {}\n", ui.paint(label, &said)));
    names(&t.newly_failing, "    newly failing: ", out);
    if t.reused {
        let forget = format!("git notes --ref=agents-tests remove {}", m.tree);
        out.push_str(&format!("  known from an earlier run; '{forget}' forgets it\n"));
    }
    if let Some(log) = t.log.as_ref().filter(|_| t.passed != Some(true)) {
        tail(ui, log, out);
    }
}

fn names(all: &[String], before: &str, out: &mut String) {
    for n in all.iter().take(NAMES) {
        out.push_str(&format!("{before}{}\n", safe_line(n.as_bytes())));
    }
    if all.len() > NAMES {
        let indent = before.len() - before.trim_start().len();
        out.push_str(&format!("{:indent$}and {} more\n", "", all.len() - NAMES));
    }
}

fn tail(ui: &Ui, log: &JsonPath, out: &mut String) {
    let raw = log.raw();
    let last = crate::place::log::tail(Path::new(std::ffi::OsStr::from_bytes(&raw)), 6).unwrap_or_default();
    for line in safe_text(&last).lines() {
        out.push_str(&format!("  {}\n", ui.paint(Label::Dim, &format!("| {line}"))));
    }
    out.push_str(&format!("  log: {}\n", log.shown()));
}

fn one(ui: &Ui, a: &AgentReport, out: &mut String) {
    let number = a.number.map(|n| format!("{n}. ")).unwrap_or_default();
    let (name, verdict) = (ui.paint(Label::Strong, &a.name.0), ui.paint(words::label(a.verdict), a.verdict.word()));
    out.push_str(&format!("{number}{name}  {verdict}  {}\n", one_line(&a.title, 80)));
    for r in &a.reasons {
        out.push_str(&format!("   {}\n", safe_line(r.as_bytes())));
    }
    for f in &a.flags {
        out.push_str(&format!("   flag: {}\n", safe_line(f.text.as_bytes())));
    }
    if let Some(c) = &a.claim {
        out.push_str(&format!("   says: {}\n", one_line(c, 200)));
    }
    out.push_str(&format!("   {}\n", words::facts(a).join(", ")));
    for f in a.files.iter().take(FILES) {
        let lines = match (f.added, f.removed) {
            (Some(x), Some(y)) => format!("+{x} -{y}"),
            _ => "binary".to_owned(),
        };
        out.push_str(&format!("     {} {}\n", f.path.shown(), ui.paint(Label::Dim, &lines)));
    }
    if a.files.len() > FILES {
        out.push_str(&format!("     and {} more\n", a.files.len() - FILES));
    }
    if let Some(said) = words::cases(a) {
        out.push_str(&format!("   test cases: {said}\n"));
    }
    if let Some(t) = &a.tests {
        out.push_str(&format!("   tests: {}\n", ui.paint(words::verdict(t).0, &t.line())));
        if let Some(log) = t.log.as_ref().filter(|_| t.now != "pass") {
            out.push_str(&format!("   log: {}\n", log.shown()));
        }
    }
    if let Some(t) = &a.earlier_tests {
        out.push_str(&format!("   tests: of an earlier commit: {}\n", t.line()));
    }
    if let Some(url) = words::href(a) {
        out.push_str(&format!("   open: {url}\n"));
    }
    out.push_str(&format!("   look: {}\n", a.commands.look));
    match (a.verdict, &a.commands.take) {
        (Verdict::Ready | Verdict::Look, Some(t)) if !a.commits.is_empty() => out.push_str(&format!("   take: {t}\n")),
        _ => {}
    }
    out.push_str(&format!("   drop: {}\n", a.commands.drop));
}
