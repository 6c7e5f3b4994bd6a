//! One file a command: arguments whose doc comments are the help, the call, the rendering.

pub mod adopt;
pub mod attach;
pub mod check;
pub mod clean;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod exec;
pub mod history;
pub mod hooks;
pub mod init;
pub mod land;
pub mod logs;
pub mod manual;
pub mod new;
pub mod overlap;
pub mod path;
pub mod push;
pub mod report;
pub mod restore;
pub mod retry;
pub mod rm;
pub mod run;
pub mod send;
pub mod shell_init;
pub mod show;
pub mod skills;
pub mod status;
pub mod stop;
pub mod sync;
pub mod trust;
pub mod wait;

use super::Session;
use super::error::{CliError, code};
use crate::git::command::Call;
use crate::ops::answer::StatusAnswer;
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Error};
use schemars::JsonSchema;
use serde::Serialize;

/// What became of one thing that was asked for by name.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// `done`, `kept`, `refused` or `failed`.
    pub outcome: &'static str,
    /// Why not.
    pub reason: Option<String>,
    /// How to take it back.
    pub undo: Option<String>,
}

/// The answer of a command that acts.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Results {
    /// Of this format.
    pub version: u32,
    /// Each.
    pub results: Vec<Outcome>,
}

/// Prints outcomes; the exit code that goes with them.
pub fn finish(s: &Session, json: bool, results: Vec<Outcome>, hints: &[String]) -> Result<i32, CliError> {
    let worst = results.iter().map(|r| match r.outcome {
        "done" => code::DONE,
        "kept" => code::NO,
        _ => code::FATAL,
    });
    let code = worst.max().unwrap_or(code::DONE);
    if json {
        s.ui.json(&Results { version: 1, results })?;
        return Ok(code);
    }
    for r in &results {
        if let (true, Some(why)) = (r.outcome != "done", &r.reason) {
            s.ui.err(&format!("error: {}", crate::model::text::safe_line(why.as_bytes())));
        }
    }
    for h in hints {
        s.ui.hint(h);
    }
    for r in &results {
        if let Some(undo) = &r.undo {
            s.ui.undo(undo);
        }
    }
    Ok(code)
}

/// The commands with an answer in JSON, and the options that make it another one.
pub const SCHEMAS: &[&str] = &[
    "adopt",
    "check",
    "clean",
    "doctor",
    "history",
    "hooks",
    "land",
    "new",
    "overlap",
    "overlap --watch",
    "push",
    "report",
    "restore",
    "restore --list",
    "retry",
    "rm",
    "run",
    "run --dry-run",
    "send",
    "send --wait",
    "show",
    "skills",
    "status",
    "status --watch",
    "stop",
    "sync",
    "wait",
];

/// A line for the shell, of a flag: one of blanks alone would run nothing, and pass.
pub fn shell_line(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() { Err("the command is empty") } else { Ok(text.to_owned()) }
}

/// The JSON schema of a command's answer, or of each line of it.
pub fn schema(s: &Session, command: &str) -> Result<i32, CliError> {
    use super::lines::{Line, OverlapLine, Removed, RunLine, StatusLine, WouldRun};
    let schema = match command {
        "status" | "show" | "new" => schemars::schema_for!(StatusAnswer),
        "status --watch" => schemars::schema_for!(StatusLine),
        "overlap" => schemars::schema_for!(crate::ops::overlap::answer::Overlaps),
        "overlap --watch" => schemars::schema_for!(Line<OverlapLine>),
        "run" | "wait" | "send --wait" => schemars::schema_for!(Line<RunLine>),
        "run --dry-run" => schemars::schema_for!(WouldRun),
        "clean" => schemars::schema_for!(crate::ops::clean::Cleaned),
        "doctor" => schemars::schema_for!(crate::ops::doctor::Diagnosis),
        "check" => schemars::schema_for!(crate::ops::overlap::check::Checked),
        "history" => schemars::schema_for!(crate::ops::history::History),
        "report" => schemars::schema_for!(crate::ops::report::Report),
        "restore --list" => schemars::schema_for!(Removed),
        _ if SCHEMAS.contains(&command) => schemars::schema_for!(Results),
        other => {
            let hint = format!("these have: {}", SCHEMAS.join(", "));
            return Err(CliError::Usage(format!("'{other}' has no JSON answer; {hint}")));
        }
    };
    let text = serde_json::to_string_pretty(&schema).expect("a schema is plain JSON");
    s.ui.out(&(text + "\n"))?;
    Ok(code::DONE)
}

/// Refuses what an assistant must not do: start more of its kind.
pub fn refuse_inside(nested: bool, what: &str) -> Result<(), CliError> {
    if !nested && std::env::var_os("AGENTS_NAME").is_some() {
        return Err(CliError::refused(
            format!("'{what}' was called inside an agent"),
            "'--nested' does it all the same",
        ));
    }
    Ok(())
}

/// Refuses what only a person decides.
pub fn refuse_assistant(what: &str) -> Result<(), CliError> {
    match std::env::var_os("AGENTS_NAME") {
        None => Ok(()),
        Some(_) => Err(CliError::refused(
            format!("'{what}' was called inside an agent"),
            "a person decides that, from their own checkout",
        )),
    }
}

/// The names that `words` mean; with none: those of `batch`, of `all`, or an error.
pub fn chosen(
    ctx: &Context,
    inv: &Inventory,
    words: &[String],
    batch: Option<u64>,
    all: bool,
    how: crate::ops::select::Match,
) -> Result<Vec<String>, CliError> {
    let mut names = crate::ops::select::many(ctx, inv, words, how)?;
    if let Some(b) = batch {
        let of: Vec<String> =
            inv.agents.iter().filter(|a| a.task.batch == Some(b)).map(|a| a.reg.name.0.clone()).collect();
        if of.is_empty() {
            return Err(CliError::refused(format!("there is no batch {b}"), "git agents status"));
        }
        names.extend(of);
    }
    if all {
        names.extend(inv.agents.iter().map(|a| a.reg.name.0.clone()));
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|n| seen.insert(n.clone()));
    Ok(names)
}

/// Asks every remote, and forgets the branches that are gone there.
pub fn ask_remotes(s: &Session, ctx: &Context) -> Result<(), CliError> {
    s.ui.say("fetching");
    let call = Call::user_visible(&ctx.repo().common_dir, ["fetch", "--quiet", "--all", "--prune"]);
    call.env_remove("GIT_NO_LAZY_FETCH").run().map_err(Error::from)?;
    Ok(())
}

/// The last batch, or an error that says there is none.
pub fn last_batch(inv: &Inventory) -> Result<u64, CliError> {
    inv.last_batch()
        .ok_or_else(|| CliError::Ops(Error::refused("there is no batch yet", "git agents run 'what shall be done'")))
}

/// The base of agents that are started now, for an answer: as set, else the branch of the main checkout.
pub fn base_name(ctx: &Context) -> Option<String> {
    let set = ctx.settings(&crate::config::Flags::default()).ok().and_then(|l| l.settings.base);
    set.filter(|b| b != "@").or_else(|| match crate::git::worktree::head(ctx.repo(), &ctx.repo().common_dir) {
        crate::git::worktree::Head::Branch(b) => Some(crate::model::task::short_ref(&b).to_owned()),
        _ => None,
    })
}

/// Settings loaded, their warnings said.
pub fn loaded(s: &Session, ctx: &Context, flags: &crate::config::Flags) -> Result<crate::ops::Loaded, CliError> {
    let loaded = ctx.settings(flags)?;
    for w in &loaded.warnings {
        s.ui.warn(&w.message);
        s.ui.hint(&w.hint);
    }
    Ok(loaded)
}
