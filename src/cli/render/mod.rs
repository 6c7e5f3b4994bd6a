//! The report for people and programs: text, Markdown, JSON, and one page of HTML that stands for itself.
//!
//! Everything in it that an assistant can choose (names, titles, claims, paths, subjects, tests, words of errors) is
//! hostile: cleaned for a terminal, escaped for Markdown and HTML.

mod html;
mod markdown;
mod text;
mod words;

use super::ui::{ColorChoice, Ui};
use crate::ops::report::Report;
use std::path::Path;

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
        Format::Html => html::render(r, &crate::runtime::clock::now()),
    }
}
