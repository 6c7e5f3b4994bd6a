//! Bringing branches into their base: tried first, then done by git itself where the base is checked out, one after the
//! other, nothing half.
//!
//! The plan is a value; the doing takes only that, and tries each once more on what the base is by then. One landing at
//! a time in a repository. What is under way is noted before git starts ([`intent`]), so that a kill is brought to one
//! side by whoever takes the repository's lock next: landed and noted, or the checkout as it was.

pub mod intent;
pub mod message;
pub mod plan;
mod step;

use super::inventory::{Agent, Inventory};
use super::overlap::Round;
use super::trial::{Trial, rebase_trial};
use super::verify::{self, Check};
use super::{Context, Error, Loaded, Result, clean, repair, sync};
use crate::config::settings::LandStyle;
use crate::git::merge::Merge;
use crate::git::{changes, merge, store::Store};
use crate::model::agent::Oid;
use crate::model::task::short_ref;
use crate::model::text::shell_word;
use crate::runtime::signals::{Signals, Wake};
use plan::{Plan, Planned, Why};
use step::Landing;

/// How to land.
#[derive(Debug)]
pub struct Options<'a> {
    /// How branches come in.
    pub style: LandStyle,
    /// How the result is tested first.
    pub check: Option<&'a Check>,
    /// The base is brought forward to its upstream first.
    pub forward: bool,
    /// For a worktree that stands for a merge alone.
    pub loaded: &'a Loaded,
}

/// What is going on.
#[derive(Debug)]
pub enum Progress<'a> {
    /// This one is tested on its base.
    Testing(&'a str),
    /// This one is merged.
    Landing(&'a str),
    /// What git or a hook said.
    Said(&'a str),
    /// Something the user should know.
    Warning(&'a str),
}

type Tell<'a> = dyn FnMut(Progress<'_>) + 'a;

/// What became of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What.
    pub end: End,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is in its base.
    Landed(Landed),
    /// It was before.
    Already {
        /// Its environment is in the trash now.
        removed: bool,
        /// Why it is not.
        stays: Option<String>,
    },
    /// It would land (where nothing was to be done).
    Would,
    /// Nothing of it was touched.
    Kept(Why),
    /// git did not do it; the base and its checkout are as before.
    Failed(Why),
}

/// One that landed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landed {
    /// Short name of the base.
    pub base: String,
    /// The commit of the base that has it.
    pub commit: Oid,
    /// The command that takes it back.
    pub undo: String,
    /// Its environment is in the trash.
    pub removed: bool,
    /// Why it is not.
    pub stays: Option<String>,
}

/// Lands what is planned, in its order; stops at the first that does not go. What landed before stays landed.
pub fn land(
    ctx: &Context,
    plan: Plan,
    o: &Options<'_>,
    signals: &Signals,
    tell: &mut Tell<'_>,
) -> Result<Vec<Outcome>> {
    let _alone = intent::alone(ctx)?;
    intent::heal_alone(ctx)?;
    let mut out: Vec<Outcome> = Vec::new();
    let mut stopped: Option<String> = None;
    for step in &plan.steps {
        let name = step.name.0.clone();
        let end = match &stopped {
            Some(at) => End::Kept(Why::new(format!("'{name}' was not tried: '{at}' did not land"), None)),
            None => match one(ctx, step, o, signals, tell) {
                Err(Error::Interrupted(signal)) => {
                    let done = out.iter().filter(|o| matches!(o.end, End::Landed(_))).map(|o| o.name.clone());
                    let done: Vec<String> = done.collect();
                    if !done.is_empty() {
                        tell(Progress::Warning(&format!("interrupted; landed before: {}", done.join(", "))));
                    }
                    return Err(Error::Interrupted(signal));
                }
                // What landed before is told and tidied up all the same.
                Err(e) => End::Failed(Why::new(e.words(), e.hint())),
                Ok(end) => end,
            },
        };
        if matches!(end, End::Kept(_) | End::Failed(_)) && stopped.is_none() {
            stopped = Some(name.clone());
        }
        out.push(Outcome { name, end });
    }
    out.extend(plan.already.into_iter().map(|name| {
        let end = End::Already { removed: false, stays: None };
        Outcome { name: name.0, end }
    }));
    out.extend(plan.kept.into_iter().map(|(name, why)| Outcome { name: name.0, end: End::Kept(why) }));
    if out.iter().any(|o| matches!(o.end, End::Landed(_) | End::Already { .. })) {
        clean_up(ctx, &mut out, tell)?;
    }
    Ok(out)
}

/// What landing `plan` would come to; nothing is touched.
pub fn would(ctx: &Context, plan: &Plan, style: LandStyle, loaded: &Loaded) -> Result<Vec<Outcome>> {
    let inv = Inventory::read(ctx)?;
    let mut out = Vec::new();
    for step in &plan.steps {
        let name = step.name.0.clone();
        let (Some(a), Some(old)) = (inv.find(&name), inv.refs.get(&step.base)) else { continue };
        let Some(tip) = &a.tip else { continue };
        let tried = match style {
            LandStyle::Rebase => {
                let how = sync::Options { onto: Some(old.clone()), dry_run: true, ..plan::sync_options(loaded) };
                match sync::sync(ctx, &name, &how)? {
                    sync::Outcome::Kept(why) => Some(End::Kept(why.into())),
                    _ => None,
                }
            }
            // One alone meets its base as it is; of several the plan has tried each on those before.
            _ if plan.steps.len() == 1 => trial(ctx, step, &inv, a, old, tip, style, &mut |_| {})?.err(),
            _ => None,
        };
        out.push(Outcome { name, end: tried.unwrap_or(End::Would) });
    }
    out.extend(plan.kept.iter().map(|(name, why)| Outcome { name: name.0.clone(), end: End::Kept(why.clone()) }));
    let stays = || Some("nothing was done".to_owned());
    let already = plan
        .already
        .iter()
        .map(|name| Outcome { name: name.0.clone(), end: End::Already { removed: false, stays: stays() } });
    out.extend(already);
    Ok(out)
}

/// What has landed goes by the same pass as after a merge by hand.
fn clean_up(ctx: &Context, all: &mut [Outcome], tell: &mut Tell<'_>) -> Result<()> {
    let done = |o: &&mut Outcome| matches!(o.end, End::Landed(_) | End::Already { .. });
    let only = all.iter_mut().filter(done).map(|o| o.name.clone()).collect();
    let cleaned = clean::pass(ctx, &clean::How { only: Some(only), explain: true, ..clean::How::default() });
    for warning in cleaned.iter().flat_map(|c| c.removed.iter().filter_map(clean::Removed::warning)) {
        tell(Progress::Warning(&warning));
    }
    for o in all.iter_mut() {
        let (gone, why) = match &cleaned {
            Ok(c) => (
                c.removed.iter().any(|r| r.name == o.name),
                c.kept.iter().find(|k| k.name == o.name).map(|k| k.reasons.join("; ")).or_else(|| c.hint.clone()),
            ),
            Err(e) => (false, Some(e.words())),
        };
        match &mut o.end {
            End::Landed(l) => {
                if gone {
                    l.undo += &format!(" && git agents restore {}", shell_word(&o.name));
                }
                (l.removed, l.stays) = (gone, why);
            }
            End::Already { removed, stays } => (*removed, *stays) = (gone, why),
            _ => {}
        }
    }
    Ok(())
}

/// Lands one. Its repository's lock is held for moments only: tests and hooks take their time.
fn one(ctx: &Context, step: &Planned, o: &Options<'_>, signals: &Signals, tell: &mut Tell<'_>) -> Result<End> {
    let name = &step.name.0;
    interrupted(signals)?;
    {
        let held = ctx.state.lock()?;
        repair::repair(ctx, &held)?.check(name)?;
    }
    let inv = Inventory::read(ctx)?;
    let Some(a) = inv.find(name) else {
        return Err(Error::refused(format!("there is no agent named '{name}'"), "git agents status"));
    };
    if let Some(why) = plan::why_not(name, &plan::facts(ctx, &inv, a)?) {
        return Ok(End::Kept(why));
    }
    let (mut tip, base) = match (&a.tip, inv.refs.get(&a.reg.base)) {
        (Some(tip), Some(base)) => (tip.clone(), base.clone()),
        _ => return Ok(End::Kept(Why::new(format!("the branch of '{name}' or its base is gone"), None))),
    };
    let mut old = base;
    if let Some(ahead) = o.forward.then(|| plan::upstream_of_base(ctx, &a.reg.base, &old)).transpose()?.flatten() {
        match forward(ctx, step, &inv, a, &old, ahead.1, signals, tell)? {
            Ok(now) => old = now,
            Err(end) => return Ok(end),
        }
    }
    let mut tested = None;
    if o.style == LandStyle::Rebase {
        if let Some(end) = rebase_obstacle(ctx, step, &inv, a, &old, &tip)? {
            return Ok(end);
        }
        let how = sync::Options { onto: Some(old.clone()), ..plan::sync_options(o.loaded) };
        if let Some(check) = o.check {
            // The branch moves when what it comes to passes, not before.
            match rebased(ctx, name, a, &tip, &old, &how)? {
                Ok(Some((round, tree))) => {
                    let commit = || round.give(&tree, std::slice::from_ref(&old));
                    let at = verify::At {
                        tree: &tree,
                        base: &step.base,
                        commit: &commit,
                        again: false,
                        log: None,
                        since: None,
                    };
                    if let Some(end) = step::test(ctx, step, check, at, signals, tell)? {
                        return Ok(end);
                    }
                    tested = Some(tree);
                }
                Ok(None) => {}
                Err(end) => return Ok(end),
            }
        }
        match sync::sync(ctx, name, &how)? {
            sync::Outcome::Synced(s) => {
                tell(Progress::Said(&format!("'{name}' is rebased on '{}'", s.on)));
                tip = s.to.unwrap_or(tip);
            }
            sync::Outcome::Standing { .. } => {}
            sync::Outcome::Kept(why) => return Ok(End::Kept(why.into())),
            sync::Outcome::Failed(why) => return Ok(End::Failed(why.into())),
        }
    }
    let landing = match trial(ctx, step, &inv, a, &old, &tip, o.style, tell)? {
        Ok(landing) => landing,
        Err(end) => return Ok(end),
    };
    if let Some(check) = o.check
        && let Some(end) = landing.test(check, o.style, tested.as_ref(), signals, tell)?
    {
        return Ok(end);
    }
    landing.go(o, signals, tell, true)
}

/// The tree that rebasing comes to, and the round that knows it; nothing where the branch sits on its base already.
fn rebased<'c>(
    ctx: &'c Context,
    name: &str,
    a: &Agent,
    tip: &Oid,
    onto: &Oid,
    how: &sync::Options,
) -> Result<std::result::Result<Option<(Round<'c>, Oid)>, End>> {
    match sync::sync(ctx, name, &sync::Options { dry_run: true, ..how.clone() })? {
        sync::Outcome::Synced(_) => {}
        sync::Outcome::Standing { .. } => return Ok(Ok(None)),
        sync::Outcome::Kept(why) => return Ok(Err(End::Kept(why.into()))),
        sync::Outcome::Failed(why) => return Ok(Err(End::Failed(why.into()))),
    }
    let round = Round::begin(ctx)?;
    match rebase_trial(ctx, &round, tip, &a.reg.fork, onto) {
        Trial::Clean { tree, .. } => Ok(Ok(Some((round, tree)))),
        Trial::Conflict { .. } => Ok(Err(End::Kept(Why::new(format!("'{name}' has moved meanwhile"), None)))),
        Trial::Unknown { why } => Ok(Err(End::Kept(Why::new(format!("'{name}' cannot be tested: {why}"), None)))),
    }
}

/// What stands in the way where the base is checked out, as far as a merge tells before the branch is rebased.
fn rebase_obstacle(
    ctx: &Context,
    step: &Planned,
    inv: &Inventory,
    a: &Agent,
    old: &Oid,
    tip: &Oid,
) -> Result<Option<End>> {
    let Ok(at) = plan::place_of_base(ctx, inv, a)? else { return Ok(None) };
    let store = Store::open(ctx.repo())?;
    let merged = merge::all(&store, Some(old), &[(old.clone(), tip.clone())])?.pop();
    let Some(Merge::Clean(tree)) = merged else { return Ok(None) };
    let changes = changes::between(store.objects(), old, &tree)?;
    Landing { ctx, step, old: old.clone(), tip: tip.clone(), at, changes, store }.obstacle(LandStyle::Rebase)
}

/// Brings the base forward to its upstream.
#[expect(clippy::too_many_arguments, reason = "a step of landing, with all that landing is about")]
fn forward(
    ctx: &Context,
    step: &Planned,
    inv: &Inventory,
    a: &Agent,
    old: &Oid,
    to: Oid,
    signals: &Signals,
    tell: &mut Tell<'_>,
) -> Result<std::result::Result<Oid, End>> {
    let at = match plan::place_of_base(ctx, inv, a)? {
        Ok(at) => at,
        Err(why) => return Ok(Err(End::Kept(why))),
    };
    let store = Store::open(ctx.repo())?;
    let changes = changes::between(store.objects(), old, &to)?;
    let landing = Landing { ctx, step, old: old.clone(), tip: to, at, changes, store };
    if let Some(end) = landing.obstacle(LandStyle::FfOnly)? {
        return Ok(Err(end));
    }
    match landing.act(LandStyle::FfOnly, None, signals, tell, false)? {
        Ok(now) => Ok(Ok(now)),
        Err(why) => Ok(Err(End::Failed(why))),
    }
}

/// What it would come to, where the base is now; or why it does not go.
#[expect(clippy::too_many_arguments, reason = "a step of landing, with all that landing is about")]
fn trial<'a>(
    ctx: &'a Context,
    step: &'a Planned,
    inv: &Inventory,
    a: &Agent,
    old: &Oid,
    tip: &Oid,
    style: LandStyle,
    tell: &mut Tell<'_>,
) -> Result<std::result::Result<Landing<'a>, End>> {
    let (name, base) = (&step.name.0, short_ref(&step.base));
    let at = match plan::place_of_base(ctx, inv, a)? {
        Ok(at) => at,
        Err(why) => return Ok(Err(End::Kept(why))),
    };
    if ctx.state.objects.is_ancestor(tip, old)? {
        return Ok(Err(End::Kept(plan::taken_back(name, base))));
    }
    let store = Store::open(ctx.repo())?;
    let result = if matches!(style, LandStyle::FfOnly | LandStyle::Rebase) {
        if !ctx.state.objects.is_ancestor(old, tip)? {
            return Ok(Err(End::Kept(plan::not_forward(name, base))));
        }
        tip.clone()
    } else {
        // Whether it may be told at all is the round's to say: programs, attributes, files that cannot be read.
        if let Some(why) = plan::stops(ctx, name, base, old, tip)? {
            return Ok(Err(End::Kept(why)));
        }
        match merge::all(&store, Some(old), &[(old.clone(), tip.clone())])?.pop() {
            Some(Merge::Clean(tree)) => tree,
            _ => {
                return Ok(Err(End::Kept(Why::new(format!("whether '{name}' merges with '{base}' is unknown"), None))));
            }
        }
    };
    let changes = changes::between(store.objects(), old, &result)?;
    if let Some(files) = plan::not_committed(ctx, inv, a) {
        tell(Progress::Warning(&format!("of '{name}' is not committed and does not land: {}", plan::list(&files))));
    }
    let landing = Landing { ctx, step, old: old.clone(), tip: tip.clone(), at, changes, store };
    Ok(match landing.obstacle(style)? {
        Some(end) => Err(end),
        None => Ok(landing),
    })
}

fn interrupted(signals: &Signals) -> Result<()> {
    let signal = signals.take().into_iter().find_map(|w| match w {
        Wake::End(signal) => Some(signal as i32),
        _ => None,
    });
    signal.map_or(Ok(()), |s| Err(Error::Interrupted(s)))
}
