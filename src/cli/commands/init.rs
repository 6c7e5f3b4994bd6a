//! `git agents init`.

use super::refuse_assistant;
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::table;
use crate::model::text::{safe_line, safe_text, shown_path};
use crate::ops::hooks::Step;
use crate::ops::init::{FilePlan, Options, Proposal, apply, propose};
use crate::ops::skills::{self, Hook};

/// Look at the project and propose its .git-agents.toml and the git hooks: one page, one question, nothing overwritten
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do what the page says without asking; what it runs is approved by that
    #[arg(long)]
    yes: bool,
    /// Leave the git hooks alone
    #[arg(long)]
    no_hooks: bool,
    /// Write no skills for the assistants in use here
    #[arg(long)]
    no_skills: bool,
    /// Let 'git log' show which task made a commit (notes.displayRef of this repository)
    #[arg(long)]
    notes: bool,
    /// Put the file inside .git, for you alone; it overlays the versioned one
    #[arg(long)]
    local: bool,
    /// Show the page and do nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    refuse_assistant("init")?;
    let ctx = s.context()?;
    let options = Options { local: args.local, hooks: !args.no_hooks, skills: !args.no_skills, notes: args.notes };
    let p = propose(&ctx, options)?;
    s.ui.out(&safe_text(page(&p).as_bytes()))?;
    if !p.acts() || args.dry_run {
        if !p.acts() {
            s.ui.say("nothing to do");
        }
        if p.unapproved {
            s.ui.hint("'git agents trust' approves what the file runs");
        }
        return Ok(code::DONE);
    }
    if !args.yes {
        match s.ui.ask("do all of this?") {
            Some(true) => {}
            Some(false) => return Ok(code::NO),
            None => {
                return Err(CliError::refused(
                    "nobody is here to ask, nothing was done",
                    "'git agents init --yes' does what the page says",
                ));
            }
        }
    }
    let done = apply(&ctx, &p)?;
    for line in &done.did {
        s.ui.say(line);
    }
    for line in &done.failed {
        s.ui.err(&format!("error: {}", safe_line(line.as_bytes())));
    }
    if let FilePlan::New { path, .. } = &p.file
        && !args.local
    {
        s.ui.hint(&format!("commit '{}', so that it counts for everybody", shown_path(path)));
    }
    if done.to_approve {
        s.ui.hint("'git agents trust' approves what the file runs");
    }
    Ok(if done.failed.is_empty() { code::DONE } else { code::FATAL })
}

/// All of it.
fn page(p: &Proposal) -> String {
    let kinds = if p.detected.kinds.is_empty() { "nothing known".to_owned() } else { p.detected.kinds.join(", ") };
    let mut rows: Vec<(&str, String)> = vec![("project", kinds)];
    let sections = |sections: &[(&str, Vec<String>)]| -> Vec<String> {
        sections.iter().map(|(table, lines)| format!("  [{table}]\n  {}", lines.join("\n  "))).collect()
    };
    match &p.file {
        FilePlan::New { path, text } => {
            rows.push(("file", format!("'{}' would be written:", shown_path(path))));
            let body = text.lines().filter(|l| !l.is_empty()).skip(1);
            rows.extend(body.map(|l| ("", format!("  {l}"))));
        }
        FilePlan::There { path, lacks } if lacks.is_empty() => {
            rows.push(("file", format!("'{}' is there", shown_path(path))));
        }
        FilePlan::There { path, lacks } => {
            rows.push(("file", format!("'{}' is there and stays as it is; it could say:", shown_path(path))));
            rows.extend(sections(lacks).iter().flat_map(|t| t.lines().map(|l| ("", l.to_owned())).collect::<Vec<_>>()));
        }
    }
    if let Some((survey, steps)) = &p.hooks {
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        let dir = shown_path(&survey.dir);
        for (file, step) in survey.files.iter().zip(steps) {
            let line = match step {
                Step::Write => format!("would be written in '{dir}'"),
                Step::Insert => format!("would be extended in '{dir}': our lines first, then what is there"),
                Step::Leave { why, .. } => format!("stay out, {why}: 'git agents hooks install' says what to add"),
                _ => format!("as they should be in '{dir}'"),
            };
            match lines.iter_mut().find(|(l, _)| *l == line) {
                Some((_, events)) => events.push(file.event.word()),
                None => lines.push((line, vec![file.event.word()])),
            }
        }
        rows.extend(lines.into_iter().map(|(line, events)| ("hooks", format!("{} {line}", events.join(", ")))));
    }
    if let Some((survey, steps)) = &p.skills {
        let written = |(_, step): &(_, &skills::Step)| **step == skills::Step::Write;
        let mut files: Vec<String> =
            survey.files.iter().zip(steps).filter(written).map(|(f, _)| format!("'{}'", shown_path(&f.path))).collect();
        if let (true, Some((path, _))) = (p.warns(), &survey.settings) {
            files.push(format!("'{}': {}", shown_path(path), Hook::Check.about()));
        }
        rows.extend(files.into_iter().map(|f| ("skills", format!("would be written to {f}"))));
    }
    if p.notes {
        rows.push(("notes", "'git log' would show which task made a commit".to_owned()));
    }
    rows.extend(p.detected.noticed.iter().map(|n| ("noticed", n.clone())));
    let mut cells: Vec<Vec<String>> = Vec::new();
    let mut last = "";
    for (head, text) in rows {
        let shown = if head == last { "" } else { head };
        last = if head.is_empty() { last } else { head };
        cells.push(vec![shown.to_owned(), text]);
    }
    table(&cells, |_, _, cell| cell.to_owned())
}
