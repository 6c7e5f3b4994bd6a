//! `git agents report`.

use super::{chosen, last_batch, loaded};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::render::{self, Format};
use crate::config::Flags;
use crate::model::text::shown_path;
use crate::ops::create::Step;
use crate::ops::inventory::{Agent, Inventory};
use crate::ops::merged::{self, Progress};
use crate::ops::report::Report;
use crate::ops::select::Match;
use crate::ops::{Context, Loaded};
use crate::runtime::signals::Signals;
use std::path::PathBuf;

/// What came out, by default of the last batch
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only these
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Those of batch N
    #[arg(long, value_name = "N")]
    batch: Option<u64>,
    /// All agents there are
    #[arg(long)]
    all: bool,
    /// Also merge all that merges clean, run setup and tests on the result, and tell after which branch it breaks
    #[arg(long)]
    merged: bool,
    /// The test command, a line for the shell; without it that of the tasks, or of '[test]' in .git-agents.toml
    #[arg(long, value_name = "CMD", requires = "merged", value_parser = super::shell_line)]
    test: Option<String>,
    /// text, markdown, json or html; without it as the name of FILE ends, else text
    #[arg(long, value_name = "F", hide_possible_values = true)]
    format: Option<Format>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Write it to FILE (.md, .json, .html; anything else is text)
    #[arg(short = 'o', value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    write_wanted(s, &ctx)?;
    let inv = Inventory::read(&ctx)?;
    let mut batch = args.batch;
    if args.agents.is_empty() && !args.all && batch.is_none() {
        batch = Some(last_batch(&inv)?);
    }
    let names = chosen(&ctx, &inv, &args.agents, batch, args.all, Match::Prefix)?;
    let agents: Vec<&Agent> = names.iter().filter_map(|n| inv.find(n)).collect();
    let report = if args.merged {
        let loaded = loaded(s, &ctx, &Flags::default())?;
        // From here on a signal ends the test and takes its worktree away.
        let signals = crate::cli::follow::catch()?;
        merged(s, &ctx, &loaded, &inv, &agents, batch, args.test.as_deref(), &signals)?
    } else {
        crate::ops::report::report(&ctx, &inv, &agents, batch)?
    };
    let format = if args.json { Some(Format::Json) } else { args.format };
    if let Some(file) = &args.output {
        render::write(&crate::runtime::files::plain(&s.cwd.join(file)), &report, format)?;
    } else {
        match format {
            Some(Format::Json) => s.ui.json(&report)?,
            None | Some(Format::Text) if args.merged => s.ui.out(&render::text(&s.ui, &report))?,
            None | Some(Format::Text) => s.ui.page(&render::text(&s.ui, &report))?,
            Some(other) => s.ui.out(&render::file(&report, other))?,
        }
    }
    Ok(if breaks(&report) { code::NO } else { code::DONE })
}

/// The report with the merged result, its tests narrated.
#[expect(clippy::too_many_arguments, reason = "what a report is about, and how it is tested")]
pub fn merged(
    s: &Session,
    ctx: &Context,
    loaded: &Loaded,
    inv: &Inventory,
    agents: &[&Agent],
    batch: Option<u64>,
    test: Option<&str>,
    signals: &Signals,
) -> Result<Report, CliError> {
    let check = merged::check(ctx, loaded, agents, test)?;
    let report = merged::report(ctx, inv, agents, batch, check.as_ref(), signals, &mut |p| match p {
        Progress::Testing(base, with) => {
            let with: Vec<&str> = with.iter().map(|n| n.0.as_str()).collect();
            let with = if with.is_empty() { "alone".to_owned() } else { format!("with {}", with.join(", ")) };
            s.ui.say(&format!("testing '{base}' {with}"));
        }
        Progress::Step(Step::Warning(w)) => s.ui.warn(&w),
        Progress::Step(Step::Waits(w)) => s.ui.say(&format!("waiting {w}")),
        Progress::Step(_) => {}
    })?;
    if check.is_none() {
        s.ui.hint("no test command: '--test CMD' gives one, or 'command' of [test] in '.git-agents.toml'");
    }
    Ok(report)
}

/// Whether the merged result was tested and did not pass.
pub fn breaks(report: &Report) -> bool {
    report.merged.as_ref().and_then(|m| m.tests.as_ref()).is_some_and(|t| t.passed != Some(true))
}

/// Writes what `run -o` wants of batches that have settled, where nobody has yet.
pub fn write_wanted(s: &Session, ctx: &Context) -> Result<(), CliError> {
    let (done, wrong) = render::wanted(ctx)?;
    done.iter().for_each(|path| s.ui.say(&format!("the report is in '{}'", shown_path(path))));
    for why in wrong {
        s.ui.warn(&why);
        s.ui.hint("git agents report -o FILE");
    }
    Ok(())
}
