//! Whether what git runs or trusts here changed while agents worked.
//!
//! An assistant can do what its user can: a hook that it writes runs when the user commits. That cannot be prevented
//! without isolation, but it is seen. What changes while nobody works is the user's own doing. The record lies outside
//! the repository. It is a warning, no wall: who may write the repository may write the record.

use super::record::RunDir;
use super::{Context, Result};
use crate::git::executable::items;
use crate::model::agent::{AgentId, RunState};
use crate::runtime::user::{Trusted, UserState};
use std::collections::{BTreeMap, BTreeSet};

/// Before an agent is started: what waits for a yes of the user. Where nothing does and nobody works, what is there now
/// is the user's own.
pub fn begin(ctx: &Context, me: Option<&AgentId>) -> Result<Vec<String>> {
    let quiet = !somebody_works(ctx, me)?;
    record(ctx, |known| known.is_none_or(|t| quiet && t.changed.is_empty()))
}

/// After somebody worked: what waits for a yes of the user.
pub fn end(ctx: &Context) -> Result<Vec<String>> {
    record(ctx, |known| known.is_none())
}

/// What waits for a yes of the user, as last recorded.
pub fn changed(ctx: &Context) -> Result<Vec<String>> {
    let known = Trusted::load(&UserState::open()?, &ctx.repo().identity()?)?;
    Ok(known.map(|t| t.changed).unwrap_or_default())
}

/// The user has seen it: what is there now is what shall be. Says what had changed.
pub fn accept(ctx: &Context) -> Result<Vec<String>> {
    let before = end(ctx)?;
    record(ctx, |_| true)?;
    Ok(before)
}

/// In words, for a warning.
pub fn words(changed: &[String]) -> String {
    let (shown, more) = changed.split_at(changed.len().min(5));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    format!("what git runs or trusts changed while agents worked: {}{more}", shown.join(", "))
}

/// Compares with what is recorded, or takes what is there now as the user's own.
fn record(ctx: &Context, take: impl FnOnce(Option<&Trusted>) -> bool) -> Result<Vec<String>> {
    let (state, identity) = (UserState::open()?, ctx.repo().identity()?);
    let known = Trusted::load(&state, &identity)?;
    let now = items(ctx.repo())?;
    let next = match &known {
        Some(t) if !take(known.as_ref()) => Trusted { changed: differing(&t.items, &now), items: t.items.clone() },
        _ => Trusted { items: now, changed: Vec::new() },
    };
    if known.as_ref() != Some(&next) {
        next.keep(&state, &identity)?;
    }
    Ok(next.changed)
}

fn differing(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    names.into_iter().filter(|n| before.get(*n) != now.get(*n)).cloned().collect()
}

fn somebody_works(ctx: &Context, me: Option<&AgentId>) -> Result<bool> {
    let (registrations, _) = ctx.state.registrations()?;
    let works = |id: &AgentId| {
        let run = RunDir::of(&ctx.state, id);
        let state = run.live().filter(|_| run.is_alive().unwrap_or(true)).map(|r| r.state);
        matches!(state, Some(RunState::Preparing | RunState::Running | RunState::Attached | RunState::Verifying))
    };
    Ok(registrations.iter().any(|r| Some(&r.id) != me && works(&r.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_went_or_differs_is_named() {
        let map = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let (a, b) = (map(&[("x", "1"), ("y", "1"), ("z", "1")]), map(&[("x", "1"), ("y", "2"), ("n", "1")]));
        assert_eq!(differing(&a, &b), ["n", "y", "z"]);
        assert!(differing(&a, &a).is_empty());
        let many: Vec<String> = (0..7).map(|i| i.to_string()).collect();
        assert!(words(&many).ends_with("0, 1, 2, 3, 4 and 2 more"));
    }
}
