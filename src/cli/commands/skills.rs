//! `git agents skills`.

use super::{Outcome, finish};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::table;
use crate::model::skill::Found;
use crate::model::text::{safe_text, shown_path};
use crate::ops::skills::{self, File, Hook, Scope, Step, Survey};
use std::path::Path;

/// What assistants read to use git agents: /worktree, /parallel, and a hook that warns before an edit
#[derive(Debug, clap::Args)]
#[command(disable_help_subcommand = true)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Args)]
struct Which {
    /// For these alone: claude, codex, gemini, opencode, qwen, copilot, cursor, amp, goose
    #[arg(long = "for", value_name = "A,...", value_delimiter = ',')]
    named: Vec<String>,
    /// Into the checkout, to be committed, instead of the user's own directories
    #[arg(long)]
    project: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Write them for the assistants that are in use here
    Install {
        #[command(flatten)]
        which: Which,
        /// Leave claude's settings alone: no hook before edits
        #[arg(long, conflicts_with = "worktree_hook")]
        no_hook: bool,
        /// Also make an agent of each worktree of 'claude --worktree' and of its isolated subagents
        #[arg(long)]
        worktree_hook: bool,
        /// Also in the place of what is not ours, which is kept beside it as *.orig
        #[arg(long)]
        force: bool,
        /// Say what would be written
        #[arg(long)]
        dry_run: bool,
    },
    /// Take out what was written, and nothing else
    Uninstall {
        #[command(flatten)]
        which: Which,
        /// Also what was changed since, and what others read too
        #[arg(long)]
        force: bool,
        /// Say what would be taken out
        #[arg(long)]
        dry_run: bool,
    },
    /// What is there: exit 0 where all is as this version writes it, 1 where not
    Status {
        #[command(flatten)]
        which: Which,
    },
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    match &args.what {
        What::Install { which, no_hook, worktree_hook, force, dry_run } => {
            super::refuse_assistant("skills install")?;
            let survey = survey(s, which)?;
            let steps = survey.files.iter().map(|f| skills::step(f, *force)).collect::<Vec<_>>();
            let wanted = [(Hook::Check, !no_hook), (Hook::Worktree, *worktree_hook)];
            let hooks: Vec<(Hook, bool)> = wanted.into_iter().filter(|(_, w)| *w).collect();
            let act = Act { s, survey: &survey, dry_run: *dry_run, json: which.json };
            let (code, changed) = act.run(&steps, &hooks)?;
            if changed && !which.json {
                for said in clashes(&survey) {
                    s.ui.say(said);
                }
                let project = if which.project { " --project" } else { "" };
                if !dry_run {
                    s.ui.undo(&format!("git agents skills uninstall{project}{}", for_names(which)));
                }
            }
            Ok(code)
        }
        What::Uninstall { which, force, dry_run } => {
            super::refuse_assistant("skills uninstall")?;
            let survey = match which.named.is_empty() {
                // What was written goes, also for an assistant that is gone by now.
                true => survey_of(s, &skills::readers().map(str::to_owned).collect::<Vec<_>>(), which.project)?,
                false => survey(s, which)?,
            };
            let steps = survey.files.iter().map(|f| skills::removal(f, &survey.names, *force)).collect::<Vec<_>>();
            let act = Act { s, survey: &survey, dry_run: *dry_run, json: which.json };
            Ok(act.run(&steps, &Hook::ALL.map(|h| (h, false)))?.0)
        }
        What::Status { which } => status(s, &survey(s, which)?, which.json),
    }
}

fn for_names(which: &Which) -> String {
    if which.named.is_empty() { String::new() } else { format!(" --for {}", which.named.join(",")) }
}

fn survey(s: &Session, which: &Which) -> Result<Survey, CliError> {
    survey_of(s, &which.named, which.project)
}

fn survey_of(s: &Session, named: &[String], project: bool) -> Result<Survey, CliError> {
    let scope = match project {
        true => Scope::Project(s.context()?.repo().toplevel.clone().ok_or_else(|| {
            CliError::refused(
                "there is no checkout here to put skills into",
                "cd to a checkout, or leave out --project",
            )
        })?),
        false => Scope::User,
    };
    Ok(skills::survey(&scope, named)?)
}

/// Where a name means something else already.
fn clashes(survey: &Survey) -> Vec<&'static str> {
    let mut out = Vec::new();
    if survey.names.contains(&"copilot") {
        out.push("copilot has a '/worktree' of its own; there, ask for the skill 'worktree' by its name");
    }
    if survey.names.contains(&"codex") {
        out.push("codex calls a skill by '$worktree' and '$parallel', or chooses it by itself");
    }
    out
}

struct Act<'a> {
    s: &'a Session,
    survey: &'a Survey,
    dry_run: bool,
    json: bool,
}

impl Act<'_> {
    /// The exit code, and whether anything was written or taken out.
    fn run(&self, steps: &[Step], hooks: &[(Hook, bool)]) -> Result<(i32, bool), CliError> {
        let ui = &self.s.ui;
        let mut results = Vec::new();
        let mut changed = false;
        let would = if self.dry_run { "would be " } else { "" };
        for (f, step) in self.survey.files.iter().zip(steps) {
            let shown = shown_path(&f.path);
            let mut one = outcome(&f.path);
            match step {
                Step::Leave(why) => {
                    (one.outcome, one.reason) = ("kept", Some(format!("'{shown}' was left alone: {why}")));
                }
                Step::Nothing => {}
                _ => {
                    if !self.dry_run
                        && let Err(e) = skills::apply(f, *step)
                    {
                        (one.outcome, one.reason) = ("failed", Some(e.with_hint()));
                    } else {
                        changed = true;
                        ui.say(&words(f, *step, would));
                    }
                }
            }
            results.push(one);
        }
        if let Some((path, there)) = &self.survey.settings {
            let shown = shown_path(path);
            for (hook, wanted) in hooks.iter().filter(|(h, w)| there.contains(h) != *w) {
                let mut one = outcome(path);
                let done = if *wanted { "put into" } else { "taken out of" };
                match if self.dry_run { Ok(true) } else { self.survey.set_hook(*hook, *wanted) } {
                    Ok(true) => {
                        changed = true;
                        ui.say(&format!("{} {would}{done} '{shown}'", hook.about()));
                    }
                    Ok(false) => {}
                    Err(e) => (one.outcome, one.reason) = ("failed", Some(e.with_hint())),
                }
                results.push(one);
            }
        }
        let kept = results.iter().any(|r| r.outcome == "kept");
        if self.json {
            return Ok((finish(self.s, true, results, &[])?, changed));
        }
        if !changed && !kept && results.iter().all(|r| r.outcome == "done") {
            ui.say("all is as it should be");
        }
        for why in results.iter().filter(|r| r.outcome == "kept").filter_map(|r| r.reason.as_deref()) {
            ui.warn(why);
        }
        if kept {
            ui.hint("--force does it all the same");
        }
        let failed: Vec<Outcome> = results.into_iter().filter(|r| r.outcome == "failed").collect();
        let code = finish(self.s, false, failed, &[])?;
        Ok((if code == code::DONE && kept { code::NO } else { code }, changed))
    }
}

fn outcome(path: &Path) -> Outcome {
    Outcome { name: path.display().to_string(), outcome: "done", reason: None, undo: None }
}

fn words(f: &File, step: Step, would: &str) -> String {
    let shown = shown_path(&f.path);
    let readers = f.read_by.join(", ");
    match step {
        Step::Write if f.found == Found::OtherVersion => format!("'{shown}' {would}brought up to date ({readers})"),
        Step::Write => format!("'{shown}' {would}written ({readers})"),
        Step::Replace => format!("'{shown}' {would}written ({readers}); what was there is '{shown}.orig'"),
        Step::Delete => format!("'{shown}' {would}deleted"),
        Step::Nothing | Step::Leave(_) => format!("'{shown}': nothing to do"),
    }
}

fn status(s: &Session, survey: &Survey, json: bool) -> Result<i32, CliError> {
    let said = |f: &File| match f.found {
        Found::Current => ("done", "installed"),
        Found::OtherVersion => ("kept", "of another version"),
        Found::Edited => ("kept", "changed by you"),
        Found::Foreign => ("kept", "not ours"),
        Found::Absent => ("kept", "not installed"),
    };
    let all = survey.files.iter().all(|f| f.found == Found::Current);
    let code = if all { code::DONE } else { code::NO };
    if json {
        let one = |f: &File| {
            let (outcome, why) = said(f);
            Outcome { outcome, reason: (outcome != "done").then(|| why.to_owned()), ..self::outcome(&f.path) }
        };
        s.ui.json(&super::Results { version: 1, results: survey.files.iter().map(one).collect() })?;
        return Ok(code);
    }
    let row = |f: &File| vec![f.skill.to_owned(), said(f).1.to_owned(), shown_path(&f.path), f.read_by.join(", ")];
    let mut rows: Vec<Vec<String>> = survey.files.iter().map(row).collect();
    if let Some((path, there)) = &survey.settings {
        for hook in Hook::ALL {
            let is = if there.contains(&hook) { "installed" } else { "not installed" };
            rows.push(vec![hook.about().to_owned(), is.to_owned(), shown_path(path), "claude".to_owned()]);
        }
    }
    s.ui.out(&safe_text(table(&rows, |_, _, c| c.to_owned()).as_bytes()))?;
    if !all {
        s.ui.hint("git agents skills install");
    }
    Ok(code)
}
