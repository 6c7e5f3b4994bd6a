//! Who takes part in a comparison, and where each is found.

use super::answer::Question;
use super::{Look, Round};
use crate::git::status::Place;
use crate::git::worktree::{self, Link};
use crate::model::agent::Oid;
use crate::model::overlap::{Side, SideKind};
use crate::model::task::short_ref;
use crate::model::text::shown_path;
use crate::ops::inventory::{Agent, Inventory, head_commit, in_parallel};
use crate::ops::{Context, Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A party with what it is compared against.
pub(super) struct Party {
    pub(super) name: String,
    pub(super) kind: SideKind,
    pub(super) group: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) tip: Option<Oid>,
    /// Full name of its base.
    pub(super) base: Option<String>,
    place: std::result::Result<Option<Where>, String>,
    /// Names of those it was begun on top of.
    after: Vec<String>,
}

/// A worktree.
#[derive(Debug, PartialEq, Eq)]
struct Where {
    tree: PathBuf,
    admin: PathBuf,
    head: Option<Oid>,
}

/// All who take part, compared.
pub struct Compared {
    pub(super) parties: Vec<Party>,
    /// One each.
    pub sides: Vec<Side>,
    /// Checkouts without changes.
    resting: Vec<(Party, Side)>,
    /// Where the branches land whose attributes count.
    pub(super) base: Option<(String, Oid)>,
}

impl Compared {
    /// Takes snapshots of everybody who takes part.
    pub fn read(ctx: &Context, inv: &Inventory, round: &Round<'_>, question: &Question) -> Result<Compared> {
        Compared::read_again(ctx, inv, round, question, None)
    }

    /// The same; a party that was read `before` in the same round is read again only where it has moved or its tree is
    /// one of those that changed.
    pub(super) fn read_again(
        ctx: &Context,
        inv: &Inventory,
        round: &Round<'_>,
        question: &Question,
        before: Option<(&Compared, &BTreeSet<PathBuf>)>,
    ) -> Result<Compared> {
        let base = base(ctx, inv);
        let parties = parties(ctx, inv, question, base.as_ref())?;
        let known = |p: &Party| -> Option<Side> {
            let (before, changed) = before?;
            let place = p.place.as_ref().ok()?.as_ref();
            let all = before.parties.iter().zip(&before.sides).chain(before.resting.iter().map(|(p, s)| (p, s)));
            let (_, side) = all.into_iter().find(|(q, _)| q.name == p.name && q.tip == p.tip && q.place == p.place)?;
            place.is_none_or(|w| !changed.contains(&w.tree)).then(|| side.clone())
        };
        let mut sides: Vec<Option<Side>> = parties.iter().map(known).collect();
        let open: Vec<usize> =
            (0..parties.len()).filter(|i| sides[*i].is_none() && parties[*i].place.is_ok()).collect();
        let looks: Vec<Look<'_>> = open.iter().map(|i| parties[*i].look()).collect();
        for (i, side) in open.into_iter().zip(round.sides(&looks)) {
            sides[i] = Some(side);
        }
        let unread = |p: &Party| {
            let why = p.place.as_ref().err().map_or("it was not read", String::as_str);
            Side::unknown(&p.name, p.kind, p.group.clone(), why)
        };
        let mut out = Compared { parties: Vec::new(), sides: Vec::new(), resting: Vec::new(), base };
        for (p, side) in parties.into_iter().zip(sides) {
            let side = side.unwrap_or_else(|| unread(&p));
            // A checkout of nobody's is a party once something in it is changed.
            if p.kind == SideKind::Checkout && !side.dirty && side.commit.is_ok() {
                out.resting.push((p, side));
            } else {
                out.parties.push(p);
                out.sides.push(side);
            }
        }
        Ok(out)
    }

    /// The party at `top`, a checkout without changes too.
    pub(super) fn wake(&mut self, top: &Path) -> Option<usize> {
        let at = |p: &Party| matches!(&p.place, Ok(Some(w)) if w.tree == top);
        if let Some(i) = self.parties.iter().position(at) {
            return Some(i);
        }
        let (party, side) = self.resting.swap_remove(self.resting.iter().position(|(p, _)| at(p))?);
        self.parties.push(party);
        self.sides.push(side);
        Some(self.sides.len() - 1)
    }

    /// The trees in which uncommitted paths were counted on the way.
    pub(super) fn counted(&self) -> impl Iterator<Item = (PathBuf, (usize, usize, usize))> {
        let all = self.parties.iter().zip(&self.sides).chain(self.resting.iter().map(|(p, s)| (p, s)));
        all.filter_map(|(p, s)| Some((p.place.as_ref().ok()?.as_ref()?.tree.clone(), s.counts?)))
    }

    /// The top of the tree of a party.
    pub(super) fn tree_of(&self, i: usize) -> Option<PathBuf> {
        Some(self.parties[i].place.as_ref().ok()?.as_ref()?.tree.clone())
    }

    /// Where landing happens, for what needs one place for all.
    pub fn base_commit(&self) -> Option<&Oid> {
        self.base.as_ref().map(|(_, c)| c)
    }
}

impl Party {
    fn look(&self) -> Look<'_> {
        let place = self.place.as_ref().ok().and_then(Option::as_ref);
        Look {
            name: self.name.clone(),
            kind: self.kind,
            group: self.group.clone(),
            after: self.after.clone(),
            tip: self.tip.clone(),
            place: place.map(|w| Place { worktree: &w.tree, admin: &w.admin, head: w.head.as_ref() }),
        }
    }
}

/// The base for what needs one for all: as set, else the branch of the main checkout, else that of the first agent.
fn base(ctx: &Context, inv: &Inventory) -> Option<(String, Oid)> {
    let set = ctx.settings(&crate::config::Flags::default()).ok().and_then(|l| l.settings.base).filter(|b| b != "@");
    let of_main = || match worktree::head(ctx.repo(), &ctx.repo().common_dir) {
        worktree::Head::Branch(b) => Some(b),
        worktree::Head::Detached(id) => Some(id.0),
        worktree::Head::Unknown => None,
    };
    let full = set.map(|b| {
        let names = [b.clone(), format!("refs/heads/{b}"), format!("refs/remotes/{b}")];
        names.into_iter().find(|n| inv.refs.contains_key(n)).unwrap_or(b)
    });
    let first = inv.agents.iter().map(|a| a.reg.base.clone()).find(|b| base_tip(inv, b).is_some());
    [
        full,
        first.filter(|_| inv.agents.iter().all(|a| Some(&a.reg.base) == inv.agents.first().map(|f| &f.reg.base))),
        of_main(),
    ]
    .into_iter()
    .flatten()
    .chain(inv.agents.iter().map(|a| a.reg.base.clone()))
    .find_map(|b| Some((b.clone(), base_tip(inv, &b)?)))
}

fn parties(ctx: &Context, inv: &Inventory, q: &Question, base: Option<&(String, Oid)>) -> Result<Vec<Party>> {
    let there: Vec<&Agent> = inv.agents.iter().filter(|a| a.tip.is_some() || a.entry.is_some()).collect();
    let mut out: Vec<Party> = in_parallel(&there, |a| Ok(agent(inv, a)))?;
    let base_name = base.map(|(name, _)| name.clone());
    let checkout = |tree: &Path, admin: &Path, head: &worktree::Head| {
        let dir = tree.file_name().unwrap_or_default().to_string_lossy();
        let (branch, tip) = head_commit(inv, head);
        Party {
            // No agent's name has a colon.
            name: format!("checkout:{dir}"),
            kind: SideKind::Checkout,
            group: None,
            branch,
            tip: tip.clone(),
            base: base_name.clone(),
            place: Ok(Some(Where { tree: tree.to_owned(), admin: admin.to_owned(), head: tip })),
            after: Vec::new(),
        }
    };
    if let Some(main) = &ctx.repo().main_worktree {
        let head = worktree::head(ctx.repo(), &ctx.repo().common_dir);
        let party = checkout(main, &ctx.repo().common_dir, &head);
        if party.tip.is_some() {
            out.push(party);
        }
    }
    let managed: BTreeSet<&str> = inv.agents.iter().filter_map(|a| Some(a.entry.as_ref()?.id.as_str())).collect();
    // One that we are making, or were when we were killed, is nobody's work.
    let half_made = |e: &worktree::Entry| {
        e.locked.as_deref().is_some_and(|r| crate::ops::identity::parse_lock_reason(r).is_some())
            || inv.agents.iter().any(|a| a.reg.path.as_ref() == Some(&e.path))
    };
    let nobodys = |e: &&worktree::Entry| !managed.contains(e.id.as_str()) && e.link() == Link::Good && !half_made(e);
    for e in inv.worktrees.iter().filter(nobodys) {
        let party = checkout(&e.path, &e.admin, &e.head);
        if party.tip.is_some() && !out.iter().any(|p| p.name == party.name) {
            out.push(party);
        }
    }
    let branch = |full: &str, tip: &Oid, kind| Party {
        name: short_ref(full).to_owned(),
        kind,
        group: None,
        branch: Some(short_ref(full).to_owned()),
        tip: Some(tip.clone()),
        base: base_name.clone(),
        place: Ok(None),
        after: Vec::new(),
    };
    for name in &q.names {
        if out.iter().any(|p| p.name == *name) {
            continue;
        }
        let full = [format!("refs/heads/{name}"), format!("refs/remotes/{name}"), name.clone()];
        let Some((full, tip)) = full.iter().find_map(|f| inv.refs.get_key_value(f)) else {
            return Err(Error::refused(
                format!("there is no agent or branch named '{name}'"),
                "git agents status --names",
            ));
        };
        let kind = if full.starts_with("refs/remotes/") { SideKind::Remote } else { SideKind::Branch };
        let mut party = branch(full, tip, kind);
        party.name.clone_from(name);
        out.push(party);
    }
    if q.remotes {
        let tips: BTreeSet<&Oid> = out.iter().filter_map(|p| p.tip.as_ref()).collect();
        let candidates: Vec<(&String, &Oid)> = inv
            .refs
            .iter()
            .filter(|(n, tip)| n.starts_with("refs/remotes/") && !n.ends_with("/HEAD") && !tips.contains(tip))
            .collect();
        let mut theirs = Vec::new();
        for (full, tip) in candidates {
            // What an agent has pushed and gone on from is its own past, what the base has is nobody's news.
            let mut known: Vec<&Oid> =
                out.iter().filter(|p| p.kind == SideKind::Agent).filter_map(|p| p.tip.as_ref()).collect();
            known.extend(base.map(|(_, c)| c));
            let mut news = true;
            for k in known {
                news &= !ctx.state.objects.is_ancestor(tip, k)?;
            }
            if news {
                theirs.push(branch(full, tip, SideKind::Remote));
            }
        }
        theirs.retain(|t| !out.iter().any(|p| p.name == t.name));
        out.extend(theirs);
    }
    Ok(out)
}

fn agent(inv: &Inventory, a: &Agent) -> Party {
    let place = match &a.entry {
        // Being made, or waiting for it: there is nothing that is not committed yet.
        _ if matches!(a.reg.doing.as_deref(), Some("create" | "checkout" | "adopt")) => Ok(None),
        None if a.reg.worktree.is_some() => Err("git's entry of its worktree is gone".into()),
        None => Ok(None),
        Some(e) => match e.link() {
            Link::Good => {
                let (_, head) = head_commit(inv, &e.head);
                Ok(Some(Where { tree: e.path.clone(), admin: e.admin.clone(), head }))
            }
            // It may have been moved, with work in it.
            Link::Missing => Err(format!("its directory is missing: '{}'", shown_path(&e.path))),
            Link::Broken(why) => Err(format!("its directory {why}")),
        },
    };
    Party {
        name: a.reg.name.0.clone(),
        kind: SideKind::Agent,
        group: a.task.group.clone(),
        branch: Some(short_ref(&a.reg.branch).to_owned()),
        tip: a.tip.clone(),
        base: Some(a.reg.base.clone()),
        place,
        after: a
            .task
            .after
            .iter()
            .filter_map(|id| inv.agents.iter().find(|x| x.reg.id == *id))
            .map(|x| x.reg.name.0.clone())
            .collect(),
    }
}

/// Where the base with this full name stands.
pub(super) fn base_tip(inv: &Inventory, name: &str) -> Option<Oid> {
    inv.refs.get(name).cloned().or_else(|| Oid::parse(name))
}
