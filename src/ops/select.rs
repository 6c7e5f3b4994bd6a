//! Which agents are meant: a name, a branch, a number of the last batch, `@` for here.

use super::inventory::{Agent, Inventory};
use super::{Context, Error, Result};
use crate::model::task::short_ref;

/// Whether unambiguous beginnings count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// For commands that only read.
    Prefix,
    /// For what moves something: whole names, numbers or `@`.
    Whole,
}

/// The name of the agent that `word` means.
pub fn one(ctx: &Context, inv: &Inventory, word: &str, how: Match) -> Result<String> {
    if word == "@" {
        return match ctx.here()? {
            Some(r) => Ok(r.name.0),
            None => Err(Error::refused("'@' means the agent of this directory, and this is none", "git agents status")),
        };
    }
    // A name counts before any branch that is called so.
    let by_branch = |a: &&Agent| short_ref(&a.reg.branch) == word || a.reg.branch == word;
    if let Some(a) = inv.find(word).or_else(|| inv.agents.iter().find(by_branch)) {
        return Ok(a.reg.name.0.clone());
    }
    if let Ok(number) = word.parse::<u32>() {
        // The last batch there ever was: a number must not slide to an earlier one when that has been removed.
        let tasks = ctx.state.tasks()?;
        let Some(batch) = tasks.iter().filter_map(|(_, t)| t.batch).max() else {
            return Err(Error::refused(format!("there is no batch yet, so no task {number}"), "git agents run"));
        };
        let found: Vec<&Agent> =
            inv.agents.iter().filter(|a| a.task.batch == Some(batch) && a.task.number == Some(number)).collect();
        return match found.as_slice() {
            [a] => Ok(a.reg.name.0.clone()),
            [] => Err(match tasks.iter().find(|(_, t)| t.batch == Some(batch) && t.number == Some(number)) {
                Some((_, gone)) => Error::refused(
                    format!("task {number} of batch {batch}, '{}', was removed", gone.name),
                    format!("git agents restore {}", gone.name.typed()),
                ),
                None => Error::refused(format!("batch {batch} has no task {number}"), "git agents status"),
            }),
            many => {
                let names: Vec<&str> = many.iter().map(|a| a.reg.name.0.as_str()).collect();
                Err(Error::refused(
                    format!("task {number} of batch {batch} has several agents: {}", names.join(", ")),
                    "name one of them",
                ))
            }
        };
    }
    if how == Match::Prefix {
        let found: Vec<&Agent> = inv.agents.iter().filter(|a| a.reg.name.0.starts_with(word)).collect();
        match found.as_slice() {
            [a] => return Ok(a.reg.name.0.clone()),
            [] => {}
            many => {
                let names: Vec<&str> = many.iter().map(|a| a.reg.name.0.as_str()).collect();
                return Err(Error::refused(
                    format!("'{word}' begins several names: {}", names.join(", ")),
                    "type more of it",
                ));
            }
        }
    }
    if inv.damaged.iter().any(|d| d == word) {
        return Err(super::rebuild::refusal(ctx, word));
    }
    let close = inv
        .agents
        .iter()
        .map(|a| (strsim::jaro_winkler(&a.reg.name.0, word), &a.reg.name.0))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = match close {
        Some((_, name)) => format!("did you mean '{name}'?"),
        None => "git agents status".into(),
    };
    Err(Error::refused(format!("there is no agent named '{}'", crate::model::text::safe_line(word.as_bytes())), hint))
}

/// The names that `words` mean, all mistakes at once, each name once, in the given order.
pub fn many(ctx: &Context, inv: &Inventory, words: &[String], how: Match) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    let mut wrong: Vec<Error> = Vec::new();
    for w in words {
        match one(ctx, inv, w, how) {
            Ok(n) if names.contains(&n) => {}
            Ok(n) => names.push(n),
            Err(e) => wrong.push(e),
        }
    }
    match wrong.len() {
        0 => Ok(names),
        1 => Err(wrong.remove(0)),
        _ => Err(Error::Many {
            what: "some of these are no agents".into(),
            items: wrong.iter().map(ToString::to_string).collect(),
            hint: Some("git agents status".into()),
        }),
    }
}

/// The reading commands' default: what was named, else the agent of this directory.
pub fn one_or_here(ctx: &Context, inv: &Inventory, word: Option<&str>) -> Result<String> {
    one(ctx, inv, word.unwrap_or("@"), Match::Prefix)
}
