//! `git agents clean`.

use super::ask_remotes;
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::model::text::safe_line;
use crate::model::units::{format_duration, format_size};
use crate::ops::clean::{self, Cleaned, How, Removed};
use crate::ops::expire;
use crate::runtime::clock;

/// Remove what has landed and has nothing left over; say why the rest stays
#[derive(Debug, clap::Args)]
#[command(after_help = "What is removed goes to the trash; 'restore' brings it back.")]
pub struct Args {
    /// Say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Ask the remotes first (git fetch --all --prune)
    #[arg(long)]
    fetch: bool,
    /// Keep every worktree and empty what its tools make again: node_modules, target, .venv, …
    #[arg(long, conflicts_with = "fetch")]
    caches: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Whether anything is to happen.
    pub fn acts(&self) -> bool {
        !self.dry_run
    }
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    if args.fetch {
        ask_remotes(s, &ctx)?;
    }
    let answer = if args.caches {
        clean::caches(&ctx, args.dry_run)?
    } else {
        clean::pass(&ctx, &How { dry_run: args.dry_run, explain: true, ..How::default() })?
    };
    if !args.dry_run {
        match expire::run(&ctx) {
            Ok(done) => done.lines().iter().for_each(|l| s.ui.say(l)),
            Err(e) => s.ui.warn(&format!("the trash was not looked at: {}", e.with_hint())),
        }
    }
    if args.json {
        s.ui.json(&answer)?;
        return Ok(code::DONE);
    }
    s.ui.page(&text(&answer, args))?;
    answer.removed.iter().filter_map(Removed::warning).for_each(|w| s.ui.warn(&w));
    if let Some(hint) = &answer.hint {
        s.ui.hint(hint);
    }
    for r in answer.removed.iter().filter_map(|r| r.undo.as_ref()) {
        s.ui.undo(r);
    }
    Ok(code::DONE)
}

fn text(answer: &Cleaned, args: &Args) -> String {
    let would = if args.dry_run { "would be " } else { "" };
    let mut lines = Vec::new();
    for r in &answer.removed {
        let why = match &r.landed {
            Some(landed) => format!("landed as {}", short(landed)),
            None => r.reason.word().to_owned(),
        };
        lines.push(format!("'{}' {would}moved to the trash ({why})", r.name));
    }
    for c in &answer.caches {
        lines.push(format!("'{}': {} {would}emptied ({})", c.name, c.path.shown(), format_size(c.bytes)));
    }
    for k in &answer.kept {
        lines.push(format!("'{}' stays: {}", k.name, k.reasons.join("; ")));
    }
    if lines.is_empty() {
        lines.push(if args.caches { "nothing to empty" } else { "nothing to clean" }.to_owned());
    }
    for b in &answer.bases {
        let instead = b.instead_of.as_ref().map(|gone| format!(", as '{gone}' is gone")).unwrap_or_default();
        lines.push(format!("compared with '{}' ({}){instead}", b.name, b.tip.short()));
    }
    if !args.caches && answer.has_remote {
        let age = answer.remote_checked.as_deref().and_then(|at| clock::seconds_between(at, &clock::now()));
        lines.push(match age {
            Some(age) => format!("the remotes were asked {} ago; '--fetch' asks them now", format_duration(age)),
            None => "the remotes were not asked; '--fetch' asks them".to_owned(),
        });
    }
    lines.iter().map(|l| safe_line(l.as_bytes()) + "\n").collect()
}

/// A commit's id in front, cut.
fn short(landed: &str) -> String {
    let (id, rest) = landed.split_once(' ').unwrap_or((landed, ""));
    format!("{} {rest}", id.get(..12).unwrap_or(id))
}
