//! `git agents land`.

use super::{Outcome, chosen, finish, loaded, refuse_assistant};
use crate::cli::Session;
use crate::cli::error::CliError;
use crate::cli::follow;
use crate::config::Flags;
use crate::config::settings::LandStyle;
use crate::model::task::short_ref;
use crate::model::text::{safe_line, shell_word};
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::land::{self, End, Options, Progress};
use crate::ops::select::Match;
use crate::ops::{Context, merged, repair};
use clap::builder::NonEmptyStringValueParser;

/// Bring branches into their base: tried first, then merged where the base is checked out
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Several land in the order that stops least; the first that does not go ends it, what landed before \
stays. An environment with nothing left over goes to the trash then. 'agents.landStyle' sets how, 'merge' without it."
)]
pub struct Args {
    /// Which agents
    #[arg(value_name = "AGENT", required = true)]
    agents: Vec<String>,
    /// With a merge commit
    #[arg(long, group = "style")]
    merge: bool,
    /// As one commit
    #[arg(long, group = "style")]
    squash: bool,
    /// Rebased on the base first, then forward
    #[arg(long, group = "style")]
    rebase: bool,
    /// Only where the base just moves forward
    #[arg(long, group = "style")]
    ff_only: bool,
    /// What the commit says, instead of task and report; several are paragraphs
    #[arg(short = 'm', value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    message: Vec<String>,
    /// Edit what the commit says
    #[arg(short = 'e', long)]
    edit: bool,
    /// Only what passes CMD, a line for the shell, on the merged result
    #[arg(long, value_name = "CMD", value_parser = super::shell_line)]
    test: Option<String>,
    /// Fetch, and bring the base forward to its upstream first
    #[arg(long)]
    fetch: bool,
    /// Say what would happen
    #[arg(long)]
    dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn style(&self) -> Option<LandStyle> {
        let all = [
            (self.merge, LandStyle::Merge),
            (self.squash, LandStyle::Squash),
            (self.rebase, LandStyle::Rebase),
            (self.ff_only, LandStyle::FfOnly),
        ];
        all.into_iter().find(|(given, _)| *given).map(|(_, style)| style)
    }
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    refuse_assistant("land")?;
    let ctx = s.context()?;
    let loaded = loaded(s, &ctx, &Flags::default())?;
    let style = args.style().unwrap_or(loaded.settings.land_style);
    let makes_none = matches!(style, LandStyle::Rebase | LandStyle::FfOnly);
    if makes_none && (args.edit || !args.message.is_empty()) {
        let what = format!("'{}' makes no commit that -m or --edit could be about", style.word());
        return Err(CliError::Usage(what));
    }
    if args.fetch {
        super::new::fetch(s, &ctx)?;
    }
    // What a kill has left is brought to one side first: a landing that came to its end has landed.
    repair::if_needed(&ctx)?;
    let inv = Inventory::read(&ctx)?;
    let names = chosen(&ctx, &inv, &args.agents, None, false, Match::Whole)?;
    if names.len() > 1 && !args.message.is_empty() {
        return Err(CliError::Usage("-m says what one commit says; '--edit' asks for each".into()));
    }
    let agents: Vec<&Agent> = names.iter().filter_map(|n| inv.find(n)).collect();
    let said = args.message.join("\n\n");
    let said = (!said.is_empty()).then_some(said.as_str());
    let mut plan = land::plan::plan(&ctx, &inv, &agents, style, said, args.fetch)?;
    plan.warnings.iter().for_each(|w| s.ui.warn(w));
    if args.dry_run {
        return dry_run(s, &ctx, args, &plan, style, &loaded);
    }
    if args.edit {
        for step in &mut plan.steps {
            step.message = super::run::edit(&ctx, &step.message)?;
            if step.message.trim().is_empty() {
                return Err(CliError::refused(
                    format!("nothing to say about '{}'; nothing landed", step.name),
                    "-m TEXT",
                ));
            }
        }
    }
    let check = match &args.test {
        Some(line) => merged::check(&ctx, &loaded, &[], Some(line))?,
        None => None,
    };
    let options = Options { style, check: check.as_ref(), forward: args.fetch, loaded: &loaded };
    // From here on a signal ends what is under way, and the base stays where it was.
    let signals = follow::catch()?;
    let ends = land::land(&ctx, plan, &options, &signals, &mut |p| match p {
        Progress::Testing(name) => s.ui.say(&format!("testing '{name}' on its base")),
        Progress::Landing(name) => s.ui.say(&format!("landing '{name}'")),
        Progress::Said(line) => s.ui.say(&safe_line(line.as_bytes())),
        Progress::Warning(text) => s.ui.warn(text),
    })?;
    let mut hints = Vec::new();
    let results = ends.into_iter().map(|o| one(s, o, style, &mut hints)).collect();
    hints.dedup();
    finish(s, args.json, results, &hints)
}

fn one(s: &Session, o: land::Outcome, style: LandStyle, hints: &mut Vec<String>) -> Outcome {
    let name = o.name;
    let place = |removed: bool, stays: Option<String>| match (removed, stays) {
        (true, _) => "its environment is in the trash".to_owned(),
        (false, why) => format!(
            "its environment stays ({}); 'git agents rm {}' takes it away",
            why.unwrap_or_else(|| "nobody can tell that it may go".into()),
            shell_word(&name)
        ),
    };
    let (outcome, reason, undo) = match o.end {
        End::Landed(l) => {
            let what = place(l.removed, l.stays);
            s.ui.say(&format!("'{name}' landed in '{}' ({}, {:.12}); {what}", l.base, style.word(), l.commit.0));
            ("done", None, Some(l.undo))
        }
        End::Already { removed, stays } => {
            s.ui.say(&format!("'{name}' had landed before; {}", place(removed, stays)));
            ("done", None, removed.then(|| format!("git agents restore {}", shell_word(&name))))
        }
        End::Would => ("done", None, None),
        End::Kept(why) => {
            hints.extend(why.hint);
            ("kept", Some(why.why), None)
        }
        End::Failed(why) => {
            hints.extend(why.hint);
            ("failed", Some(why.why), None)
        }
    };
    Outcome { name, outcome, reason, undo }
}

fn dry_run(
    s: &Session,
    ctx: &Context,
    args: &Args,
    plan: &land::plan::Plan,
    style: LandStyle,
    loaded: &crate::ops::Loaded,
) -> Result<i32, CliError> {
    let mut hints = Vec::new();
    let mut results = Vec::new();
    for o in land::would(ctx, plan, style, loaded)? {
        if let (End::Would, Some(step)) = (&o.end, plan.steps.iter().find(|p| p.name.0 == o.name)) {
            s.ui.say(&format!("'{}' would land in '{}' ({})", o.name, short_ref(&step.base), style.word()));
        }
        results.push(one(s, o, style, &mut hints));
    }
    hints.dedup();
    finish(s, args.json, results, &hints)
}
