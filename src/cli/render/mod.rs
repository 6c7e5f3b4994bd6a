//! The report for people and programs: text, Markdown, JSON, and one page of HTML that stands for itself.
//!
//! Everything in it that an assistant can choose (names, titles, claims, paths, subjects, tests, words of errors) is
//! hostile: cleaned for a terminal, escaped for Markdown and HTML.

mod html;
mod markdown;
mod text;
mod words;

use super::ui::{ColorChoice, Ui};
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::report::{self, Report};
use crate::ops::{Context, Result, wanted};
use crate::runtime::{clock, files};
use std::path::{Path, PathBuf};

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Format {
    Text,
    #[value(alias = "md")]
    Markdown,
    Json,
    Html,
}

impl Format {
    /// What the name of a file asks for.
    pub fn of(path: &Path) -> Option<Format> {
        let ext = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match ext.as_str() {
            "txt" => Format::Text,
            "md" | "markdown" => Format::Markdown,
            "json" => Format::Json,
            "html" | "htm" => Format::Html,
            _ => return None,
        })
    }

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::Markdown => "markdown",
            Format::Json => "json",
            Format::Html => "html",
        }
    }
}

/// The report for a terminal.
pub fn text(ui: &Ui, r: &Report) -> String {
    text::render(ui, r)
}

/// The report for a file.
pub fn file(r: &Report, format: Format) -> String {
    match format {
        Format::Text => text::render(&Ui::new(true, Some(ColorChoice::Never), None), r),
        Format::Markdown => markdown::render(r),
        Format::Json => serde_json::to_string_pretty(r).expect("a report is plain JSON") + "\n",
        // Whoever gets the page may live by another clock.
        Format::Html => html::render(r, &format!("{} UTC", clock::now()[..16].replace('T', " "))),
    }
}

/// Writes the report to a file, in one step.
pub fn write(path: &Path, r: &Report, format: Option<Format>) -> Result<()> {
    let text = file(r, format.or(Format::of(path)).unwrap_or(Format::Text));
    Ok(files::write_for_user(path, text.as_bytes())?)
}

/// Writes the reports that are wanted of batches that have settled: where they are, and what went wrong.
pub fn wanted(ctx: &Context) -> Result<(Vec<PathBuf>, Vec<String>)> {
    let (mut done, mut wrong) = (Vec::new(), Vec::new());
    if !wanted::is_any(&ctx.repo().common_dir) {
        return Ok((done, wrong));
    }
    let inv = Inventory::read(ctx)?;
    for due in wanted::due(ctx, &inv) {
        let agents: Vec<&Agent> = inv.agents.iter().filter(|a| a.task.batch == Some(due.batch)).collect();
        let made = report::report(ctx, &inv, &agents, Some(due.batch)).and_then(|r| write(&due.path, &r, None));
        match made.and_then(|()| wanted::written(ctx, &due)) {
            Ok(()) => done.push(due.path),
            Err(e) => wrong.push(format!("the report of batch {} could not be written: {}", due.batch, e.words())),
        }
    }
    Ok((done, wrong))
}
