//! `git agents hooks`.

use super::{Outcome, Results, finish};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::table;
use crate::model::hook_file::Found;
use crate::model::text::shown_path;
use crate::ops::hooks::{self, Allowed, HookFile, Standing, Step, Survey};

/// The git hooks that tidy up what has landed, and remind of what is behind, after a merge, checkout or rebase
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Write them; hooks that are there stay, and run after ours
    Install {
        /// Do not ask before lines go into a hook you wrote
        #[arg(long)]
        yes: bool,
        /// Also into the hook files of husky, lefthook, pre-commit or git-lfs
        #[arg(long)]
        force: bool,
        /// Say what would be written
        #[arg(long)]
        dry_run: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Take them out again; every other byte stays as it was
    Uninstall {
        /// Say what would be taken out
        #[arg(long)]
        dry_run: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Prove by an event that they fire: exit 0 where all do, 1 where not
    Status {
        /// Also where what others have there runs along
        #[arg(long)]
        force: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let survey = hooks::survey(&ctx)?;
    match args.what {
        What::Install { yes, force, dry_run, json } => {
            let steps = hooks::plan(&survey, Allowed { force });
            if !dry_run {
                agreed(s, &survey, &steps, yes)?;
            }
            act(s, &survey, &steps, dry_run, json)
        }
        What::Uninstall { dry_run, json } => act(s, &survey, &hooks::plan_removal(&survey), dry_run, json),
        What::Status { force, json } => status(s, &ctx, &survey, force, json),
    }
}

/// Asks before somebody's own hook is written to.
fn agreed(s: &Session, survey: &Survey, steps: &[Step], yes: bool) -> Result<(), CliError> {
    let theirs: Vec<String> = survey
        .files
        .iter()
        .zip(steps)
        .filter(|(_, t)| **t == Step::Insert)
        .map(|(f, _)| format!("'{}'", shown_path(&f.path)))
        .collect();
    if theirs.is_empty() || yes {
        return Ok(());
    }
    match s.ui.ask(&format!("add three lines to {}?", theirs.join(", "))) {
        Some(true) => Ok(()),
        Some(false) => Err(CliError::refused("nothing was written", "git agents hooks install --dry-run")),
        None => Err(CliError::refused(
            format!("hooks that you wrote are there: {}", theirs.join(", ")),
            "'git agents hooks install --yes' adds three lines to each; 'uninstall' takes them out again",
        )),
    }
}

fn act(s: &Session, survey: &Survey, steps: &[Step], dry_run: bool, json: bool) -> Result<i32, CliError> {
    let mut results = Vec::new();
    let mut undo = None;
    for (f, step) in survey.files.iter().zip(steps) {
        let mut one = Outcome { name: f.event.word().to_owned(), outcome: "done", reason: None, undo: None };
        match step {
            Step::Leave { why, lines } => {
                one.outcome = "kept";
                let by_hand = lines.as_ref().map(|(place, text)| format!("; add to {place}:\n{text}"));
                one.reason = Some(format!("{why}{}", by_hand.unwrap_or_default()));
            }
            _ if dry_run => s.ui.say(&words(f, step, "would be ")),
            _ => match hooks::apply(f, step) {
                Ok(()) => {
                    s.ui.say(&words(f, step, ""));
                    if matches!(step, Step::Write | Step::Insert) {
                        undo = Some("git agents hooks uninstall");
                        one.undo = undo.map(str::to_owned);
                    }
                }
                Err(e) => (one.outcome, one.reason) = ("failed", Some(e.with_hint())),
            },
        }
        results.push(one);
    }
    if json {
        return finish(s, true, results, &[]);
    }
    let kept = |r: &Outcome| (r.outcome == "kept").then(|| r.reason.clone()).flatten();
    let mut last = None;
    for why in results.iter().filter_map(kept) {
        let (why, lines) = why.split_once("; add to ").map_or((why.as_str(), None), |(w, l)| (w, Some(l)));
        if last.as_deref() != Some(why) {
            s.ui.warn(why);
            last = Some(why.to_owned());
        }
        if let Some(lines) = lines {
            s.ui.out(&crate::model::text::safe_text(format!("# add to {lines}\n").as_bytes()))?;
        }
    }
    let code = finish(s, false, results.into_iter().filter(|r| r.outcome == "failed").collect(), &[])?;
    // One command for all of them.
    if let Some(undo) = undo {
        s.ui.undo(undo);
    }
    Ok(if code == code::DONE && last.is_some() { code::NO } else { code })
}

fn words(f: &HookFile, step: &Step, would: &str) -> String {
    let path = shown_path(&f.path);
    match step {
        Step::Nothing if f.found.is_in_place() => format!("'{path}' is as it should be"),
        Step::Nothing | Step::Leave { .. } => format!("'{path}': nothing to do"),
        Step::Write if f.found == Found::OldBlock => format!("'{path}' {would}brought up to date"),
        Step::Write => format!("'{path}' {would}written"),
        Step::Insert => format!("'{path}' {would}extended: our lines first, then what is there"),
        Step::TakeOut => format!("'{path}' {would}as it was before"),
        Step::Delete => format!("'{path}' {would}deleted"),
    }
}

fn status(s: &Session, ctx: &crate::ops::Context, survey: &Survey, force: bool, json: bool) -> Result<i32, CliError> {
    let standings = hooks::standings(ctx, survey, force)?;
    let all = standings.iter().all(|t| *t == Standing::Fires);
    let said = |t: &Standing| match t {
        Standing::Fires => ("done", "fires".to_owned()),
        Standing::MainOnly => ("kept", "fires in the main worktree alone: core.hooksPath is relative".to_owned()),
        Standing::Silent(why) => ("failed", format!("does not fire: {why}")),
        Standing::Missing => ("kept", "not installed".to_owned()),
        Standing::Untried(why) => ("kept", format!("not tried: {why}")),
    };
    if json {
        let one = |(f, t): (&HookFile, &Standing)| {
            let (outcome, reason) = said(t);
            Outcome {
                name: f.event.word().to_owned(),
                outcome,
                reason: (outcome != "done").then_some(reason),
                undo: None,
            }
        };
        let results = survey.files.iter().zip(&standings).map(one).collect();
        s.ui.json(&Results { version: 1, results })?;
    } else {
        let row = |(f, t): (&HookFile, &Standing)| vec![f.event.word().to_owned(), said(t).1];
        let rows: Vec<Vec<String>> = survey.files.iter().zip(&standings).map(row).collect();
        s.ui.out(&crate::model::text::safe_text(table(&rows, |_, _, c| c.to_owned()).as_bytes()))?;
        if standings.contains(&Standing::Missing) {
            s.ui.hint("git agents hooks install");
        } else if standings.iter().any(|t| matches!(t, Standing::Untried(_))) {
            s.ui.hint("'git agents hooks status --force' tries; what others have there runs too");
        }
    }
    Ok(if all { code::DONE } else { code::NO })
}
