//! `git agents restore`, `git agents undo`.

use super::{Outcome, finish};
use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::lines::{Removed, RemovedAgent};
use crate::cli::ui::table;
use crate::model::text::{safe_line, shown_path};
use crate::model::units::format_duration;
use crate::ops::remove::Entry;
use crate::ops::restore;
use crate::runtime::clock;

/// Bring a removed environment back: branch, files, index, registration
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which: its name, branch or id
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// The one that was removed last
    #[arg(long, conflicts_with = "agent")]
    last: bool,
    /// What can be brought back
    #[arg(long, conflicts_with_all = ["agent", "last"])]
    list: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// The same as 'restore --last'
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs `undo`.
pub fn undo(s: &Session, args: &UndoArgs) -> Result<i32, CliError> {
    run(s, &Args { agent: None, last: true, list: false, json: args.json })
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    if args.list {
        let entries = restore::list(&ctx);
        for (e, why) in entries.iter().filter_map(|e| Some((e, e.damaged.as_ref()?))) {
            let capture = e.capture.as_ref().map(|c| format!("; its capture is '{c}'")).unwrap_or_default();
            s.ui.warn(&format!("the description of '{}' is damaged: {why}{capture}", e.name));
        }
        if args.json {
            let one = |e: &Entry| RemovedAgent {
                name: e.name.clone(),
                id: e.id.clone(),
                branch: crate::model::task::short_ref(&e.branch).to_owned(),
                tip: e.tip.as_ref().map(|t| t.0.clone()),
                removed: e.at.clone(),
                path: e.path.as_ref().map(|p| p.0.as_path().into()),
                capture: e.capture.clone(),
                kept_as: kept_as(e),
                age_s: age(e),
                damaged: e.damaged.clone(),
            };
            s.ui.json(&Removed { version: 1, removed: entries.iter().map(one).collect() })?;
            return Ok(code::DONE);
        }
        let mut rows = vec![["NAME", "REMOVED", "KEPT AS", "BRANCH", "WAS AT"].map(str::to_owned).to_vec()];
        for e in &entries {
            let branch =
                crate::model::task::short_ref(&e.branch).to_owned() + if e.branch_deleted { " (deleted)" } else { "" };
            let path = e.path.as_ref().map(|p| shown_path(p)).unwrap_or_default();
            let age = age(e).map_or_else(|| e.at.clone(), |s| format!("{} ago", format_duration(s)));
            rows.push([&e.name, &age, kept_as(e), &branch, &path].map(|cell| safe_line(cell.as_bytes())).to_vec());
        }
        s.ui.out(&if entries.is_empty() {
            "nothing was removed\n".to_owned()
        } else {
            table(&rows, |_, _, c| c.to_owned())
        })?;
        return Ok(code::DONE);
    }
    if args.agent.is_none() && !args.last {
        return Err(CliError::Usage("name which, or --last; --list shows what there is".into()));
    }
    let back = restore::restore(&ctx, args.agent.as_deref())?;
    for n in &back.notes {
        s.ui.say(n);
    }
    let place = back.path.as_ref().map(|p| format!(" at '{}'", shown_path(p))).unwrap_or_default();
    s.ui.say(&format!("'{}' is back{place}", back.name));
    let undo = Some(format!("git agents rm {}", crate::model::text::shell_word(&back.name)));
    finish(s, args.json, vec![Outcome { name: back.name, outcome: "done", reason: None, undo }], &[])
}

/// What of it there is: all of it, its capture without ignored files, or git's entry of files that never moved.
fn kept_as(e: &Entry) -> &'static str {
    match (e.expired, e.stands, e.missing) {
        (true, ..) => "capture",
        (_, true, _) => "entry",
        (_, _, true) => "branch",
        _ => "trash",
    }
}

fn age(e: &Entry) -> Option<u64> {
    clock::seconds_between(&e.at, &clock::now())
}
