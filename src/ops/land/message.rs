//! What a landed commit says, what people read on it, and what a request of a forge is opened with: all from the task and
//! the report, nothing of it from what an assistant claims.

use crate::config::settings::LandStyle;
use crate::model::task::short_ref;
use crate::model::text::{one_line, safe_path};
use crate::model::units::count;
use crate::ops::inventory::Agent;
use crate::ops::report::AgentReport;
use std::fmt::Write as _;

/// Commits and files that are listed.
const LISTED: usize = 20;

/// What it is about, in one line: the title of its task, or, where it has none of its own, of its first commit.
pub fn title(a: &Agent, r: &AgentReport) -> String {
    let own = !a.task.prompt.trim().is_empty() || r.commits.is_empty();
    let title = if own { &a.task.title } else { &r.commits[0].subject };
    one_line(title, 72)
}

fn figures(r: &AgentReport) -> String {
    let added: usize = r.files.iter().filter_map(|f| f.added).sum();
    let removed: usize = r.files.iter().filter_map(|f| f.removed).sum();
    format!("{}, {} +{added} -{removed}", count(r.commits.len(), "commit"), count(r.files.len(), "file"))
}

/// The message of the commit that brings it in.
pub fn commit(a: &Agent, r: &AgentReport, style: LandStyle) -> String {
    let title = title(a, r);
    let mut out = if style == LandStyle::Squash || title == a.reg.name.0 {
        let begin = if style == LandStyle::Squash { "" } else { "Merge " };
        format!("{begin}{title}\n\n")
    } else {
        format!("Merge {}: {title}\n\n", a.reg.name)
    };
    for c in r.commits.iter().take(LISTED) {
        let _ = writeln!(out, "* {}", one_line(&c.subject, 100));
    }
    if r.commits.len() > LISTED {
        let _ = writeln!(out, "* and {} more", r.commits.len() - LISTED);
    }
    let _ = write!(out, "\n{}\n\nAgent: {}\n", figures(r), a.reg.name);
    if let Some(assistant) = a.assistant() {
        let _ = writeln!(out, "Assistant: {}", one_line(assistant, 60));
    }
    let _ = writeln!(out, "Task: {}", a.reg.id.short());
    out
}

/// The line on the landed commit.
pub fn note(a: &Agent, r: &AgentReport, style: LandStyle) -> String {
    let by = a.assistant().map(|x| format!("{}, ", one_line(x, 60))).unwrap_or_default();
    let state = a.state().map(|s| format!("{s}, ")).unwrap_or_default();
    let base = short_ref(&a.reg.base);
    format!("{}: {} [{by}{state}{}; landed in {base} by {}]", a.reg.name, title(a, r), figures(r), style.word())
}

/// The body of a request, in Markdown.
pub fn request(a: &Agent, r: &AgentReport) -> String {
    let code = |s: &str| format!("`{}`", s.replace('`', "'"));
    let mut out = String::new();
    if let Some(claim) = &r.claim {
        for line in claim.lines().take(40) {
            let _ = writeln!(out, "> {line}");
        }
        out.push('\n');
    }
    let _ = writeln!(out, "{}\n", figures(r));
    for c in r.commits.iter().take(LISTED) {
        let _ = writeln!(out, "- {}", code(&one_line(&c.subject, 100)));
    }
    out.push('\n');
    for f in r.files.iter().take(LISTED) {
        let lines = match (f.added, f.removed) {
            (Some(x), Some(y)) => format!("+{x} -{y}"),
            _ => "binary".to_owned(),
        };
        let _ = writeln!(out, "- {} {lines}", code(&safe_path(&f.path.raw())));
    }
    if r.files.len() > LISTED {
        let _ = writeln!(out, "- and {} more", r.files.len() - LISTED);
    }
    if !r.flags.is_empty() {
        out.push_str("\nLook at:\n\n");
        for f in &r.flags {
            let _ = writeln!(out, "- {}", one_line(&f.text, 200));
        }
    }
    let assistant = a.assistant().map(|x| format!(" by {}", one_line(x, 60))).unwrap_or_default();
    let _ = writeln!(out, "\nAgent `{}`{assistant}, task {}.", a.reg.name, a.reg.id.short());
    out
}
