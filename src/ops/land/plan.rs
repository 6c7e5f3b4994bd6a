//! What will land, in which order, and why the rest does not: facts in, a value out.

use super::message;
use crate::config::settings::LandStyle;
use crate::git::merging::At;
use crate::git::status::{self, Place};
use crate::git::worktree::{self, Head, Link};
use crate::model::agent::{AgentId, Name, Oid, RunState};
use crate::model::overlap::{Side, SideKind};
use crate::model::task::short_ref;
use crate::model::text::{safe_path, shell_word, shown_path};
use crate::ops::inventory::{Agent, Inventory, head_commit, own_commits};
use crate::ops::overlap::Round;
use crate::ops::{Context, Loaded, Result, base, landed, report, safe, sync, unfinished};
use std::collections::BTreeMap;

/// Why something does not happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    /// In words, subject named.
    pub why: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Why {
    /// Both.
    pub fn new(why: impl Into<String>, hint: Option<String>) -> Why {
        Why { why: why.into(), hint }
    }
}

impl From<sync::Kept> for Why {
    fn from(k: sync::Kept) -> Why {
        Why { why: k.why, hint: k.hint }
    }
}

/// One that will land.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub name: Name,
    /// Its task.
    pub id: AgentId,
    /// Full name of its base.
    pub base: String,
    /// What the commit will say, where it makes one.
    pub message: String,
    /// What people will read on the landed commit.
    pub note: String,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In this order.
    pub steps: Vec<Planned>,
    /// What is in its base already.
    pub already: Vec<Name>,
    /// What does not land.
    pub kept: Vec<(Name, Why)>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// What decides whether a branch may land, beside what merging says.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Somebody works on it.
    pub live: bool,
    /// It was never finished.
    pub unmade: bool,
    /// The branch is gone.
    pub branch_gone: bool,
    /// It has no commit of its own.
    pub fresh: bool,
    /// The operation its worktree is in the middle of.
    pub operation: Option<String>,
    /// Short name of the base, and whether that is a branch here.
    pub base: (String, bool),
    /// There is no such reference any more.
    pub base_gone: bool,
    /// What is wrong with where the base is checked out.
    pub checkout: Option<Why>,
}

/// The rule.
pub fn why_not(name: &str, f: &Facts) -> Option<Why> {
    let why = |why: String, hint: String| Some(Why::new(why, Some(hint)));
    let word = shell_word(name);
    if f.unmade {
        return why(format!("'{name}' was never finished"), format!("git agents show {word}"));
    }
    if f.live {
        return why(format!("'{name}' is running"), format!("git agents wait {word}"));
    }
    if f.branch_gone {
        return why(format!("the branch of '{name}' is gone"), format!("git agents show {word}"));
    }
    if let Some(op) = &f.operation {
        return why(format!("'{name}' is in the middle of a {op}"), "finish it, or give it up".into());
    }
    if f.fresh {
        return why(format!("'{name}' has no commit of its own"), format!("git agents show {word}"));
    }
    if f.base_gone {
        let hint = format!("'git agents sync --onto BASE {word}' gives it another base");
        return why(format!("'{}', the base of '{name}', is gone", f.base.0), hint);
    }
    if !f.base.1 {
        let push = format!("git agents push {word}");
        return why(format!("'{}', the base of '{name}', is no branch of this repository", f.base.0), push);
    }
    f.checkout.clone()
}

/// Gathers them.
pub(in crate::ops) fn facts(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<Facts> {
    let base = inv.refs.contains_key(&a.reg.base) && a.reg.base.starts_with("refs/heads/");
    Ok(Facts {
        live: a.run.is_alive()? || a.state().is_some_and(RunState::is_live),
        unmade: unfinished::is_unfinished(&a.reg),
        branch_gone: a.tip.is_none(),
        fresh: own_commits(ctx, inv, a)?.is_empty() && !safe::has_own_commit(ctx, inv, a),
        operation: a.entry.as_ref().and_then(worktree::Entry::operation),
        base: (short_ref(&a.reg.base).to_owned(), base),
        base_gone: inv.base_tip(a).is_none(),
        checkout: if base { place_of_base(ctx, inv, a)?.err() } else { None },
    })
}

/// Where the base of `a` is checked out; or why nothing may be merged there.
pub(super) fn place_of_base(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<std::result::Result<Option<At>, Why>> {
    let (repo, base) = (ctx.repo(), &a.reg.base);
    let has_it = Head::Branch(base.clone());
    let at = |path: &std::path::Path, admin: &std::path::Path| At {
        path: path.to_owned(),
        admin: admin.to_owned(),
        branch: base.clone(),
        mark: None,
    };
    let short = short_ref(base);
    let mut found = None;
    if let Some(main) = repo.main_worktree.as_ref().filter(|_| worktree::head(repo, &repo.common_dir) == has_it) {
        found = Some(at(main, &repo.common_dir));
    }
    for e in inv.worktrees.iter().filter(|e| e.head == has_it) {
        let path = shown_path(&e.path);
        if let Some(first) = &found {
            // git moves the branch under the second one, which then looks as if all of it were to be taken back.
            let why = format!("'{short}' is checked out twice, at '{}' and '{path}'", shown_path(&first.path));
            let hint = "'git switch --detach' in one of them";
            return Ok(Err(Why::new(why, Some(hint.into()))));
        }
        match e.link() {
            Link::Good => {}
            Link::Missing => {
                return Ok(Err(Why::new(
                    format!("'{short}' is checked out at '{path}', which is missing"),
                    Some("git worktree list".into()),
                )));
            }
            Link::Broken(why) => {
                let why = format!("'{short}' is checked out at '{path}', which {why}");
                return Ok(Err(Why::new(why, Some("git worktree list".into()))));
            }
        }
        let owner = inv.agents.iter().find(|o| o.entry.as_ref().is_some_and(|x| x.id == e.id));
        if let Some(owner) = owner
            && owner.run.is_alive()?
        {
            let why = format!("'{}' is running on '{short}', the base of '{}'", owner.reg.name, a.reg.name);
            return Ok(Err(Why::new(why, Some(format!("git agents wait {}", owner.reg.name.typed())))));
        }
        found = Some(at(&e.path, &e.admin));
    }
    if let Some(at) = &found
        && let Some(op) = at.operation()
    {
        let why =
            format!("'{}' is in the middle of a {op}; '{}' does not land on it", shown_path(&at.path), a.reg.name);
        return Ok(Err(Why::new(why, Some("finish it, or give it up".into()))));
    }
    Ok(Ok(found))
}

/// Files of its worktree that are not committed.
pub(in crate::ops) fn not_committed(ctx: &Context, inv: &Inventory, a: &Agent) -> Option<Vec<String>> {
    let e = a.entry.as_ref().filter(|e| e.link() == Link::Good)?;
    let head = head_commit(inv, &e.head).1;
    let place = Place { worktree: &e.path, admin: &e.admin, head: head.as_ref() };
    let changes = status::changes(ctx.repo(), &ctx.state.objects, &place).ok()?;
    Some(changes.all().map(|p| safe_path(p)).collect::<Vec<_>>()).filter(|all| !all.is_empty())
}

/// The first three of many.
pub fn list(all: &[String]) -> String {
    let more = if all.len() > 3 { format!(" and {} more", all.len() - 3) } else { String::new() };
    format!("{}{more}", all.iter().take(3).cloned().collect::<Vec<_>>().join(", "))
}

/// One commit to be compared.
pub(super) fn side(name: &str, tip: &Oid) -> Side {
    // No group: who names two rivals wants both.
    Side::at(name, SideKind::Agent, None, tip.clone())
}

/// Why `tip` cannot be merged into `old`, or cannot be told to.
pub(super) fn stops(ctx: &Context, name: &str, base: &str, old: &Oid, tip: &Oid) -> Result<Option<Why>> {
    let round = Round::begin(ctx)?;
    let step = round.order(old, &[side(name, tip)], &[], &|_| 0).pop();
    Ok(step.and_then(|s| {
        if let Some(why) = s.unknown {
            let hint = "merge it yourself; what has landed goes all the same".to_owned();
            return Some(Why::new(format!("whether '{name}' merges with '{base}' is unknown: {why}"), Some(hint)));
        }
        let paths: Vec<String> = s.stops.iter().map(|p| safe_path(p)).collect();
        (!paths.is_empty()).then(|| conflict(name, &format!("'{base}'"), &paths))
    }))
}

fn conflict(name: &str, with: &str, paths: &[String]) -> Why {
    let hint = format!("git agents attach {}", shell_word(name));
    Why::new(format!("'{name}' conflicts with {with} in {}", list(paths)), Some(hint))
}

/// Why git has nothing to merge.
pub(super) fn taken_back(name: &str, base: &str) -> Why {
    Why::new(
        format!("the commits of '{name}' are in '{base}', and what they changed was taken back since"),
        Some("revert the revert, or rebase the branch".into()),
    )
}

/// Why it is no fast-forward.
pub(super) fn not_forward(name: &str, base: &str) -> Why {
    Why::new(
        format!("'{name}' is not ahead of '{base}': they have diverged"),
        Some(format!("git agents sync {}", shell_word(name))),
    )
}

/// The upstream of a base that is strictly ahead of it, with its commit.
pub(super) fn upstream_of_base(ctx: &Context, base: &str, tip: &Oid) -> Result<Option<(String, Oid)>> {
    base::upstream_ahead(ctx, base, tip)
}

/// What counts when a branch is rebased on the way.
pub(super) fn sync_options(loaded: &Loaded) -> sync::Options {
    sync::Options { capture_max_file: loaded.settings.capture_max_file, ..sync::Options::default() }
}

/// Decides. `messages`: what the user wants the commit to say. `forward`: bases are brought to their upstream first.
pub fn plan(
    ctx: &Context,
    inv: &Inventory,
    agents: &[&Agent],
    style: LandStyle,
    said: Option<&str>,
    forward: bool,
) -> Result<Plan> {
    let mut out = Plan::default();
    let landed = landed::all(ctx, inv, agents)?;
    let mut by_base: BTreeMap<&str, Vec<&Agent>> = BTreeMap::new();
    for (a, landed) in agents.iter().copied().zip(landed) {
        if landed.commit().is_some() {
            out.already.push(a.reg.name.clone());
        } else if let Some(why) = why_not(&a.reg.name.0, &facts(ctx, inv, a)?) {
            out.kept.push((a.reg.name.clone(), why));
        } else {
            by_base.entry(&a.reg.base).or_default().push(a);
        }
    }
    for (name, members) in by_base {
        let Some(mut at) = inv.refs.get(name).cloned() else { continue };
        if let Some((upstream, ahead)) = upstream_of_base(ctx, name, &at)? {
            let (base, upstream) = (short_ref(name), short_ref(&upstream));
            if forward {
                at = ahead;
            } else {
                out.warnings.push(format!("'{base}' is behind '{upstream}'; '--fetch' brings it forward first"));
            }
        }
        for a in in_order(ctx, inv, &at, &members, style, &mut out)? {
            let report = report::of(ctx, inv, a)?;
            out.steps.push(Planned {
                name: a.reg.name.clone(),
                id: a.reg.id.clone(),
                base: a.reg.base.clone(),
                message: said.map_or_else(|| message::commit(a, &report, style), |m| format!("{}\n", m.trim_end())),
                note: message::note(a, &report, style),
            });
        }
    }
    Ok(out)
}

/// Those that go, parents before what was begun on top of them; the others into `out`.
fn in_order<'a>(
    ctx: &Context,
    inv: &Inventory,
    at: &Oid,
    members: &[&'a Agent],
    style: LandStyle,
    out: &mut Plan,
) -> Result<Vec<&'a Agent>> {
    let sides: Vec<Side> = members.iter().filter_map(|a| Some(side(&a.reg.name.0, a.tip.as_ref()?))).collect();
    let base = short_ref(&members[0].reg.base);
    let mut going: Vec<&Agent> = Vec::new();
    if style == LandStyle::FfOnly {
        let mut at = at.clone();
        for a in members {
            let Some(tip) = &a.tip else { continue };
            if ctx.state.objects.is_ancestor(&at, tip)? {
                at = tip.clone();
                going.push(a);
            } else {
                out.kept.push((a.reg.name.clone(), not_forward(&a.reg.name.0, base)));
            }
        }
        return Ok(going);
    }
    let round = Round::begin(ctx)?;
    let pairs = if sides.len() > 1 { round.verdicts(at, &sides).pairs } else { Vec::new() };
    let steps = round.order(at, &sides, &pairs, &|_| 0);
    for step in &steps {
        let (a, name) = (members[step.side], &members[step.side].reg.name.0);
        if style == LandStyle::Rebase || step.tree.is_some() {
            going.push(a);
            continue;
        }
        let before: Vec<String> = step.conflicts_with_landed.iter().map(|i| format!("'{}'", sides[*i].name)).collect();
        let paths: Vec<String> = step.stops.iter().map(|p| safe_path(p)).collect();
        let why = match &step.unknown {
            Some(_) => stops(ctx, name, base, at, a.tip.as_ref().unwrap_or(at))?,
            None => None,
        };
        let with = if before.is_empty() { format!("'{base}'") } else { before.join(", ") };
        out.kept.push((a.reg.name.clone(), why.unwrap_or_else(|| conflict(name, &with, &paths))));
    }
    let names = sync::order(inv, going.iter().map(|a| a.reg.name.0.clone()).collect());
    Ok(names.iter().filter_map(|n| going.iter().find(|a| a.reg.name.0 == *n).copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_works_and_whatever_is_half_does_not_land() {
        let good = Facts { base: ("main".into(), true), ..Facts::default() };
        assert_eq!(why_not("x", &good), None);
        let says = |f: Facts, words: &str| {
            let why = why_not("x", &f).unwrap();
            assert!(why.why.contains(words) && why.hint.is_some(), "{why:?}");
        };
        says(Facts { live: true, ..good.clone() }, "is running");
        says(Facts { unmade: true, live: true, ..good.clone() }, "never finished");
        says(Facts { branch_gone: true, ..good.clone() }, "is gone");
        says(Facts { fresh: true, ..good.clone() }, "no commit of its own");
        says(Facts { operation: Some("rebase".into()), ..good.clone() }, "middle of a rebase");
        says(Facts { base: ("origin/main".into(), false), ..good.clone() }, "'origin/main', the base of 'x'");
        let checkout = Some(Why::new("'main' is in the middle of a merge", Some("finish it".into())));
        says(Facts { checkout, ..good }, "middle of a merge");
    }
}
