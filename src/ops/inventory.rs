//! Everything there is, as it is now: agents, checkouts, batches, holds. Reading only; nothing is repaired here.

use super::answer::*;
use super::identity;
use super::landed::{self, Bases, Landing};
use super::overlap::summary::{self, Summary};
use super::record::{Record, RunDir, is_creation, stand};
use super::{Context, Result, create};
use crate::git::state::{Journals, Registration};
use crate::git::status::{self, Place};
use crate::git::{refs, worktree};
use crate::model::agent::{BranchState, Oid, Origin, RunState, Zombie};
use crate::model::event::{Journal, Kind};
use crate::model::task::{Task, short_ref};
use crate::model::text::shown_path;
use crate::model::units::count;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// One agent with everything known about it.
#[derive(Debug, Clone)]
pub struct Agent {
    /// The registration.
    pub reg: Registration,
    /// The task object; a damaged one is stood in for by what the registration says.
    pub task: Task,
    /// Whether the task object could not be read.
    pub damaged: Option<String>,
    /// The worktree's entry.
    pub entry: Option<worktree::Entry>,
    /// Where the run stands.
    pub record: Option<Record>,
    /// Its run folder.
    pub run: RunDir,
    /// Where its branch is.
    pub tip: Option<Oid>,
}

impl Agent {
    /// The state, where an assistant was started.
    pub fn state(&self) -> Option<RunState> {
        self.record.as_ref().map(|r| r.state)
    }

    /// Who works on it, or would.
    pub fn assistant(&self) -> Option<&str> {
        self.record.as_ref().and_then(|r| r.assistant.as_deref()).or(self.task.assistant.as_deref())
    }

    /// The directory.
    pub fn path(&self) -> Option<&Path> {
        self.entry.as_ref().map(|e| e.path.as_path()).or(self.reg.path.as_deref())
    }
}

/// Everything, read once.
#[derive(Debug)]
pub struct Inventory {
    /// In the order of registration.
    pub agents: Vec<Agent>,
    /// Registrations that could not be read.
    pub damaged: Vec<String>,
    /// All branches, remote-tracking ones too.
    pub refs: BTreeMap<String, Oid>,
    /// All worktree entries.
    pub worktrees: Vec<worktree::Entry>,
    /// The journal.
    pub journal: Journals,
}

impl Inventory {
    /// Reads it.
    pub fn read(ctx: &Context) -> Result<Inventory> {
        let (registrations, mut damaged) = ctx.state.registrations()?;
        let (refs, rest) = std::thread::scope(|s| {
            let refs = s.spawn(|| refs::list(ctx.repo(), &["refs/heads/", "refs/remotes/"]));
            let rest = (|| -> Result<_> { Ok((worktree::list(ctx.repo())?, ctx.state.journal()?)) })();
            (refs.join(), rest)
        });
        let refs = refs.map_err(|_| super::Error::refused("reading references failed", "try again"))??;
        let (worktrees, journal) = rest?;
        let by_id: HashMap<&str, &worktree::Entry> = worktrees.iter().map(|e| (e.id.as_str(), e)).collect();
        let found = in_parallel(&registrations, |reg| {
            let named = reg.worktree.as_deref().and_then(|id| by_id.get(id));
            let entry = named.filter(|e| identity::has_token(e, reg)).map(|e| (*e).clone());
            if named.is_some() && entry.is_none() && identity::owner_of_named(ctx, reg, &registrations).is_some() {
                // Nothing that is said of it may touch another one's worktree.
                return Ok(None);
            }
            let reg = reg.clone();
            let (task, damaged) = match ctx.state.task(&reg.id) {
                Ok(t) => (t, None),
                Err(e) => (stand_in(&reg), Some(e.to_string())),
            };
            let run = RunDir::of(&ctx.state, &reg.id);
            // Its lock is held by a sync then, which is no run.
            let record = match super::sync::is_under_way(&reg) {
                true => run.exit(),
                false => stand(&run, || journal.get(&reg.id), task.assistant.is_some())?,
            };
            // `branch -m`: what the registered worktree has checked out counts when the recorded name is gone.
            let mut branch = reg.branch.clone();
            if !refs.contains_key(&branch)
                && let Some(worktree::Head::Branch(b)) = entry.as_ref().map(|e| &e.head)
            {
                branch.clone_from(b);
            }
            let tip = refs.get(&branch).cloned();
            Ok(Some(Agent { reg: Registration { branch, ..reg }, task, damaged, entry, record, run, tip }))
        })?;
        let others = registrations.iter().zip(&found).filter(|(_, a)| a.is_none()).map(|(r, _)| r.name.0.clone());
        damaged.extend(others);
        let mut agents: Vec<Agent> = found.into_iter().flatten().collect();
        // A batch in the order of its list; everything else as it was registered.
        agents.sort_by_key(|a| (a.task.batch.is_some(), a.task.batch, a.task.number));
        Ok(Inventory { agents, damaged, refs, worktrees, journal })
    }

    /// One agent by its exact name.
    pub fn find(&self, name: &str) -> Option<&Agent> {
        self.agents.iter().find(|a| a.reg.name.0 == name)
    }

    /// The last batch there is an agent of.
    pub fn last_batch(&self) -> Option<u64> {
        self.agents.iter().filter_map(|a| a.task.batch).max()
    }

    /// Where the base of `a` stands now.
    pub fn base_tip(&self, a: &Agent) -> Option<Oid> {
        self.refs.get(&a.reg.base).cloned().or_else(|| Oid::parse(&a.reg.base))
    }
}

/// The little that a registration says of its task, for a task object that cannot be read.
fn stand_in(reg: &Registration) -> Task {
    let base = super::base::Base { name: reg.base.clone(), commit: reg.fork.clone(), note: None };
    let mut t = create::task_skeleton(&reg.name.0, short_ref(&reg.branch), &base, Origin::Adopt);
    t.created = String::new();
    t.title = "(its task object cannot be read)".into();
    t
}

/// Own commits of an agent: those the journal notes, else those on the branch beyond fork and base that the branch's
/// worktree made. Newest first.
pub fn own_commits(ctx: &Context, inv: &Inventory, a: &Agent) -> Result<Vec<Oid>> {
    let Some(tip) = &a.tip else { return Ok(Vec::new()) };
    let parents = a.task.after.iter().filter_map(|p| inv.agents.iter().find(|x| x.reg.id == *p)?.tip.clone());
    let start = start_commit(inv.journal.get(&a.reg.id));
    beyond(ctx, tip, [Some(a.reg.fork.clone()), inv.base_tip(a), start].into_iter().flatten().chain(parents))
}

/// The same for one agent without reading about all the others.
pub fn own_commits_of(
    ctx: &Context,
    reg: &Registration,
    task: &Task,
    journal: &Journal,
    tip: &Oid,
) -> Result<Vec<Oid>> {
    let mut hidden = vec![reg.fork.clone()];
    hidden.extend(refs::read(ctx.repo(), &reg.base)?.or_else(|| Oid::parse(&reg.base)));
    hidden.extend(start_commit(Some(journal)));
    if !task.after.is_empty() {
        for r in ctx.state.registrations()?.0.iter().filter(|r| task.after.contains(&r.id)) {
            hidden.extend(refs::read(ctx.repo(), &r.branch)?);
        }
    }
    beyond(ctx, tip, hidden.into_iter())
}

/// Commits of `tip` that none of `hidden` reaches: base, start and parents' work, which is merged in at the start.
fn beyond(ctx: &Context, tip: &Oid, hidden: impl Iterator<Item = Oid>) -> Result<Vec<Oid>> {
    let hidden: Vec<Oid> = hidden.filter(|h| ctx.state.objects.has(h)).collect();
    Ok(ctx.state.objects.commits_beyond(tip, &hidden, 10_000)?)
}

/// Where the branch stood when the first attempt began (after parents were merged in).
pub fn start_commit(journal: Option<&Journal>) -> Option<Oid> {
    journal?.all(&Kind::Attempt).next()?.text("start").and_then(Oid::parse)
}

/// The full answer of `status`.
pub fn status(
    ctx: &Context,
    inv: &Inventory,
    only: &dyn Fn(&Agent) -> bool,
    base: Option<String>,
) -> Result<StatusAnswer> {
    // What is wrong with comparing keeps nobody from a listing.
    let met = summary::summary(ctx, inv).unwrap_or_else(|e| {
        tracing::debug!(%e, "no overlap");
        Default::default()
    });
    status_with(ctx, inv, only, base, &met)
}

/// The same with what was compared before: the trees that were looked at for it are not looked at again.
pub fn status_with(
    ctx: &Context,
    inv: &Inventory,
    only: &dyn Fn(&Agent) -> bool,
    base: Option<String>,
    met: &Summary,
) -> Result<StatusAnswer> {
    let chosen: Vec<&Agent> = inv.agents.iter().filter(|a| only(a)).collect();
    let bases = landed::Bases::of(ctx, inv);
    let landings = landed::all_with(ctx, inv, &chosen, &bases)?;
    let with_landing: Vec<(&Agent, Landing)> = chosen.into_iter().zip(landings).collect();
    let agents = in_parallel(&with_landing, |(a, landing)| answer(ctx, &bases, a, landing, met))?;
    let managed: HashSet<&OsStr> = inv.agents.iter().filter_map(Agent::path).map(Path::as_os_str).collect();
    let mut checkouts = Vec::new();
    if let Some(main) = &ctx.repo().main_worktree {
        let head = worktree::head(ctx.repo(), &ctx.repo().common_dir);
        let (branch, commit) = head_commit(inv, &head);
        let place = Place { worktree: main, admin: &ctx.repo().common_dir, head: commit.as_ref() };
        checkouts.push(CheckoutAnswer {
            worktree: main.as_path().into(),
            branch,
            dirty: dirty(ctx, &place, met).ok(),
            overlap: met.checkouts.get(main.as_path()).cloned(),
        });
    }
    let unmanaged = inv
        .worktrees
        .iter()
        .filter(|e| !managed.contains(e.path.as_os_str()))
        .map(|e| UnmanagedAnswer { worktree: e.path.as_path().into(), branch: head_commit(inv, &e.head).0 })
        .collect();
    Ok(StatusAnswer {
        version: 1,
        repository: ctx.repo().common_dir.as_path().into(),
        base,
        agents,
        checkouts,
        unmanaged,
        damaged: inv.damaged.iter().map(|name| damaged(ctx, name)).collect(),
        batches: batches(inv),
        holds: super::hold::answers(ctx, inv),
    })
}

fn damaged(ctx: &Context, name: &str) -> DamagedAnswer {
    let refusal = super::rebuild::refusal(ctx, name);
    DamagedAnswer { name: name.to_owned(), reason: refusal.to_string(), mend: refusal.hint() }
}

/// The branch that is checked out, as people write it, and the commit.
pub(super) fn head_commit(inv: &Inventory, head: &worktree::Head) -> (Option<String>, Option<Oid>) {
    match head {
        worktree::Head::Branch(b) => (Some(short_ref(b).to_owned()), inv.refs.get(b).cloned()),
        worktree::Head::Detached(id) => (None, Some(id.clone())),
        worktree::Head::Unknown => (None, None),
    }
}

/// Runs `f` over `items` on as many threads as there are cores, keeping the order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(items.len());
    if threads < 2 {
        return items.iter().map(f).collect();
    }
    let next = std::sync::atomic::AtomicUsize::new(0);
    let mut found: Vec<(usize, Result<R>)> = std::thread::scope(|s| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                s.spawn(|| {
                    let mut mine = Vec::new();
                    loop {
                        let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(item) = items.get(i) else { return mine };
                        mine.push((i, f(item)));
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|w| w.join().unwrap_or_default()).collect()
    });
    found.sort_by_key(|(i, _)| *i);
    if found.len() != items.len() {
        return Err(super::Error::refused("a part of the work failed unexpectedly", "try again with -v"));
    }
    found.into_iter().map(|(_, r)| r).collect()
}

fn dirty(ctx: &Context, place: &Place<'_>, met: &Summary) -> Result<Dirty> {
    if let Some(counted) = met.dirty.get(place.worktree)
        && (counted.modified == 0 || !status::may_convert(ctx.repo(), place))
    {
        return Ok(counted.clone());
    }
    let mut c = status::changes(ctx.repo(), &ctx.state.objects, place)?;
    if !c.modified.is_empty() && status::may_convert(ctx.repo(), place) {
        let phantoms = crate::git::endings::phantoms(ctx.repo(), place, &c.modified)?;
        c.modified.retain(|p| !phantoms.contains(p));
    }
    Ok(Dirty { modified: c.modified.len(), untracked: c.untracked.len(), conflicted: c.conflicted.len() })
}

/// Own commits, where there is a branch, and the number of commits of the base that are not on it.
fn ahead_and_behind(
    ctx: &Context,
    inv: &Inventory,
    a: &Agent,
    base: Option<&Oid>,
) -> Result<(Option<Vec<Oid>>, Option<usize>)> {
    let Some(tip) = &a.tip else { return Ok((None, None)) };
    let own = own_commits(ctx, inv, a)?;
    let behind = base.map(|b| ctx.state.objects.commits_beyond(b, std::slice::from_ref(tip), 10_000)).transpose()?;
    Ok((Some(own), behind.map(|b| b.len())))
}

/// Everything about one agent.
pub fn answer(ctx: &Context, bases: &Bases<'_>, a: &Agent, landing: &Landing, met: &Summary) -> Result<AgentAnswer> {
    let inv = bases.inventory();
    let mut findings = Vec::new();
    if let Some(why) = &a.damaged {
        findings.push(why.clone());
    }
    let link = a.entry.as_ref().map(worktree::Entry::link);
    let mut zombie = None;
    let live = a.run.is_alive()?;
    if !live && a.state() == Some(RunState::Dead) {
        let left: Vec<String> = a.run.left_over().iter().map(super::safe::shown).collect();
        if !left.is_empty() {
            findings.push(format!(
                "{} of its run still {}: {}; 'git agents stop {}' ends what is left",
                count(left.len(), "process"),
                if left.len() == 1 { "works" } else { "work" },
                left.join(", "),
                a.reg.name.typed()
            ));
        }
    }
    let stale = link.as_ref().filter(|l| **l != worktree::Link::Good).and_then(|_| super::moved::stale(ctx, a));
    match (&a.entry, &link) {
        (Some(_), _) if stale.is_some() => {
            let tree = stale.unwrap_or_default();
            let mend = super::moved::command(ctx, std::slice::from_ref(&tree));
            findings.push(format!(
                "it was moved, or its repository was: it is at '{}'; '{mend}' mends that",
                shown_path(&tree)
            ));
        }
        (Some(e), Some(worktree::Link::Missing)) if super::moved::all_missing(inv) => findings.push(format!(
            "'{}' is missing, as all the others are; where they were moved, 'git worktree repair' takes the new paths",
            shown_path(&e.path)
        )),
        (Some(_), Some(worktree::Link::Missing)) => zombie = Some(Zombie::Missing),
        (Some(e), Some(worktree::Link::Broken(_))) if super::identity::is_taken(ctx, e) => {
            zombie = Some(Zombie::Missing);
            findings.push(format!("the repository itself stands where its worktree was, at '{}'", shown_path(&e.path)));
        }
        (Some(e), Some(worktree::Link::Broken(why))) => findings.push(format!("'{}' {why}", shown_path(&e.path))),
        (None, _) if a.reg.doing.is_none() && a.reg.worktree.is_some() => {
            zombie = Some(Zombie::Missing);
            if let Some(tree) = super::moved::tree(ctx, &a.reg, None) {
                findings.push(format!(
                    "git's entry of its worktree is gone, its files stand at '{}'; 'git agents rm {name}', then 'git agents \
                     restore {name}' make it a worktree again",
                    shown_path(&tree),
                    name = a.reg.name.typed()
                ));
            }
        }
        _ => {}
    }
    match a.reg.doing.as_deref() {
        Some("remove") => zombie = Some(Zombie::HalfRemoved),
        Some("create" | "checkout") if !live => {
            let name = a.reg.name.typed();
            let on =
                if a.task.assistant.is_some() { format!("'git agents retry {name}' goes on, ") } else { String::new() };
            let what = match a.state() {
                Some(RunState::OverBudget | RunState::Skipped | RunState::Stopped) => "it was never started",
                _ => "its creation was cut short",
            };
            findings.push(format!("{what}; {on}'git agents rm {name}' takes it back"));
        }
        Some("adopt") if !live => {
            let name = a.reg.name.typed();
            findings.push(format!(
                "its adoption was cut short; 'git agents adopt' again goes on, 'git agents rm {name}' takes it back"
            ));
        }
        Some(super::land::intent::DOING) if !super::land::intent::is_under_way(ctx) => {
            findings.push("its landing was cut short; the next command that writes brings it to one side".to_owned())
        }
        Some(_) if !live && super::sync::is_under_way(&a.reg) => {
            findings.push("its sync was cut short; the next command that changes anything brings it to an end".into());
        }
        None if !live && a.record.is_none() && setup_cut_short(a) => {
            let name = a.reg.name.typed();
            findings.push(format!(
                "its setup was cut short, its worktree stands; 'git agents logs --setup {name}' shows how far it came, \
                 'git agents rm {name}' takes it away"
            ));
        }
        _ => {}
    }
    if a.tip.is_none() && a.reg.doing.is_none() {
        zombie = zombie.or(Some(Zombie::BranchGone));
    }
    let good = link == Some(worktree::Link::Good);
    let head = a.entry.as_ref().map(|e| head_commit(inv, &e.head));
    if let (true, Some((Some(branch), _))) = (good, &head)
        && branch != short_ref(&a.reg.branch)
    {
        findings.push(format!("its worktree has '{branch}' checked out"));
    }
    let dirty = match (&a.entry, good) {
        (Some(e), true) => {
            let commit = head.as_ref().and_then(|(_, c)| c.as_ref());
            match dirty(ctx, &Place { worktree: &e.path, admin: &e.admin, head: commit }, met) {
                Ok(d) => Some(d),
                Err(err) => {
                    findings.push(format!("its changes cannot be read: {err}"));
                    None
                }
            }
        }
        _ => None,
    };
    let base_tip = inv.base_tip(a);
    let counted = ahead_and_behind(ctx, inv, a, base_tip.as_ref());
    // Damaged history is a finding about this one; the others are answered all the same.
    let (own, behind) = counted.unwrap_or_else(|e| {
        findings.push(format!("its history cannot be read: {e}"));
        (None, None)
    });
    // What came onto the branch since is not in the base.
    let noted = inv.journal.get(&a.reg.id).and_then(|j| j.last(&Kind::Landed));
    let noted = noted.is_some_and(|e| e.text("tip").is_none_or(|t| a.tip.as_ref().is_some_and(|tip| tip.0 == t)));
    let branch_state = own.as_ref().map(|own| {
        if landing.commit().is_some() || (noted && *landing == Landing::Open) {
            BranchState::Landed
        } else if own.is_empty() && (a.tip.as_ref() == Some(&a.reg.fork) || !super::safe::has_own_commit(ctx, inv, a)) {
            BranchState::Fresh
        } else if behind.unwrap_or(0) > 0 {
            BranchState::Diverged
        } else {
            BranchState::Ahead
        }
    });
    if branch_state == Some(BranchState::Landed) {
        zombie = zombie.or(Some(Zombie::Landed));
    }
    if let Landing::TakenBack { at, by } = landing {
        findings.push(format!("it landed as {} and was taken back by {}; its branch is kept", at.short(), by.short()));
    }
    if base_tip.is_none() {
        let other = bases.compared(a).first().map(|c| format!("; it is compared with '{}'", short_ref(&c.reference)));
        let (gone, other) = (short_ref(&a.reg.base), other.unwrap_or_default());
        findings.push(format!("its base '{gone}' is gone{other}; {}", super::sync::another(a)));
    }
    // A sign of what a server did, never a proof.
    let upstream = bases.upstream(&a.reg.branch);
    if upstream.as_ref().is_some_and(|u| !inv.refs.contains_key(u)) {
        zombie = zombie.or(Some(Zombie::UpstreamGone));
    }
    let file = |name: &str| Some(a.run.file(name)).filter(|p| p.exists()).map(|p| JsonPath::from(p.as_path()));
    let record = a.record.as_ref();
    Ok(AgentAnswer {
        name: a.reg.name.clone(),
        id: a.reg.id.0.clone(),
        branch: short_ref(&a.reg.branch).to_owned(),
        slug: a.task.slug.0.clone(),
        title: a.task.title.clone(),
        origin: a.task.origin,
        batch: a.task.batch,
        number: a.task.number,
        group: a.task.group.clone(),
        after: a.task.after.iter().map(|id| name_of(inv, id)).collect(),
        worktree: a.path().map(JsonPath::from),
        isolation: "worktree",
        assistant: a.assistant().map(str::to_owned),
        model: a.task.model.clone(),
        permission: a.task.permission,
        base: short_ref(&a.reg.base).to_owned(),
        base_commit: a.task.base_commit.clone(),
        tip: a.tip.clone(),
        created: a.task.created.clone(),
        run: RunAnswer {
            state: a.state(),
            attempt: record.map_or(0, |r| r.attempt),
            attempts_left: record.map_or(0, |r| r.attempts_left),
            pid: if record.is_some_and(|r| r.state.is_live()) {
                a.run.address().map(|x| x.supervisor.pid).filter(|p| *p > 1)
            } else {
                None
            },
            started: record.and_then(|r| r.started.clone()),
            ended: record.and_then(|r| r.ended.clone()),
            exit_code: record.and_then(|r| r.exit_code),
            reason: record.and_then(|r| r.reason.clone()),
            question: record.and_then(|r| r.question.clone()).filter(|_| asks(a)),
            resume_at: record.and_then(|r| r.resume_at.clone()),
            denied: record.map_or(0, |r| r.denied),
            session: record.and_then(|r| r.session.clone()),
            last_output: record.and_then(|r| r.last_output.clone()),
            cost_usd: record.and_then(|r| r.cost_usd),
            tokens: record.and_then(|r| r.tokens),
            limits: Limits {
                time_s: a.task.time_s,
                stall_s: a.task.stall_s,
                cost_usd: record.and_then(|r| r.cost_limit).or(a.task.cost_usd),
            },
        },
        branch_state,
        ahead: own.map(|own| own.len()),
        behind,
        landed_as: landing.commit().cloned(),
        upstream: upstream.as_deref().map(|u| short_ref(u).to_owned()),
        dirty,
        operation: a.entry.as_ref().and_then(worktree::Entry::operation),
        locked: a.entry.as_ref().and_then(|e| e.locked.clone()),
        tests: super::tested::answer(ctx, inv, a),
        ports: BTreeMap::new(),
        url: None,
        direct_url: None,
        serving: None,
        databases: BTreeMap::new(),
        env_files: Vec::new(),
        logs: Logs {
            transcript: file("events.jsonl"),
            raw: file("output.log"),
            setup: file("setup.log"),
            test: file("test.log"),
            app: None,
        },
        overlap: met.agents.get(&a.reg.name.0).cloned(),
        zombie,
        disk: None,
        findings,
    })
}

/// Whether an environment without a run was still being set up: the lock of the command that made it is still there.
fn setup_cut_short(a: &Agent) -> bool {
    let ours = |e: &worktree::Entry| e.locked.as_deref().and_then(identity::parse_lock_reason).is_some();
    a.entry.as_ref().is_some_and(ours)
        && a.run.live().is_some_and(|r| is_creation(&r, false))
        && super::plan::read(&a.run).is_some_and(|p| !p.setup.is_empty())
}

/// Whether somebody still waits for an answer: not once it is given, and not where nobody is left to read it.
fn asks(a: &Agent) -> bool {
    matches!(a.state(), Some(RunState::Running | RunState::NeedsInput)) && super::inbox::messages(&a.run).is_empty()
}

/// The name of an agent by its id; the short id where it is gone.
pub fn name_of(inv: &Inventory, id: &crate::model::agent::AgentId) -> String {
    inv.agents.iter().find(|a| a.reg.id == *id).map_or_else(|| id.short().to_owned(), |a| a.reg.name.0.clone())
}

fn batches(inv: &Inventory) -> Vec<BatchAnswer> {
    let mut out: BTreeMap<u64, BatchAnswer> = BTreeMap::new();
    for a in &inv.agents {
        let Some(batch) = a.task.batch else { continue };
        let b = out.entry(batch).or_insert_with(|| BatchAnswer {
            batch,
            started: a.task.created.clone(),
            list: a.task.list.clone(),
            settled: true,
            cost_usd: None,
            cost_unknown: 0,
        });
        b.settled &= a.state().is_none_or(RunState::is_settled);
        match a.record.as_ref().and_then(|r| r.cost_usd) {
            Some(c) => b.cost_usd = Some(b.cost_usd.unwrap_or(0.0) + c),
            None => b.cost_unknown += 1,
        }
    }
    out.into_values().collect()
}

/// Where an agent's tree is, or will be.
pub fn place_of(a: &Agent) -> Option<PathBuf> {
    a.path().map(Path::to_owned)
}
