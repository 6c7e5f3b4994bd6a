//! A landing under way: noted before git starts, and brought to one side where that was cut short.
//!
//! `doing = land` in the registration says that there is one; `landing/intent.json` what it is about; the lock beside it
//! whether its command lives; a variable in the environment of its git whether that still works. Which side: the base has
//! the work, then that is noted; it has not, then the base's checkout goes back to what it was.

use super::step::Landing;
use crate::config::settings::LandStyle;
use crate::git::merge::Merge;
use crate::git::merging::At;
use crate::git::state::{Held, Registration, event_with_id};
use crate::git::worktree::{self, Head};
use crate::git::{changes, merge, refs, store::Store};
use crate::model::agent::{AgentId, Oid};
use crate::model::event::Kind;
use crate::model::task::short_ref;
use crate::model::text::shell_word;
use crate::ops::record::{Address, RunDir, read_json};
use crate::ops::{Context, Error, Result, safe};
use crate::place::files::RelPath as AnyPath;
use crate::runtime::lock::Lock;
use crate::runtime::{clock, files, process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// How the registration says it.
pub const DOING: &str = "land";
/// So many commits of the base are looked through for the landing.
const MANY: usize = 1000;

/// What is noted of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Intent {
    agent: AgentId,
    /// Full name of the base.
    base: String,
    /// Where it stood.
    old: Oid,
    /// What comes in.
    tip: Oid,
    style: LandStyle,
    /// Where the base is checked out: tree and git directory.
    at: Option<(AnyPath, AnyPath)>,
    /// What was not committed there.
    keep: BTreeSet<Vec<u8>>,
    /// The id of the event that will say it; `None` where nothing lands yet.
    event: Option<String>,
    /// The line for people.
    note: String,
}

fn run(ctx: &Context) -> RunDir {
    RunDir { dir: ctx.repo().agents_dir().join("landing") }
}

fn file(ctx: &Context) -> PathBuf {
    run(ctx).file("intent.json")
}

/// Where the message of the commit is written for git to read.
pub(super) fn message_file(ctx: &Context) -> PathBuf {
    run(ctx).file("message")
}

/// Ends what a git that was killed left running.
pub(super) fn end_left_over(ctx: &Context) {
    run(ctx).end_left_over(Duration::from_secs(2));
}

/// Whether a landing is under way now.
pub fn is_under_way(ctx: &Context) -> bool {
    run(ctx).is_alive().unwrap_or(true)
}

/// The lock of landing: one at a time.
pub(super) fn alone(ctx: &Context) -> Result<Lock> {
    ctx.state.ensure_dirs()?;
    let run = run(ctx);
    files::ensure_private_dir(&run.dir)?;
    let lock = Lock::take_within(&run.lock_path(), Duration::from_secs(10))?;
    lock.ok_or_else(|| {
        Error::refused("another 'git agents land' is at work in this repository", "try again when it is done")
    })
}

impl Intent {
    /// Notes it. With the value that marks every process of it.
    pub(super) fn begin(
        ctx: &Context,
        landing: &Landing<'_>,
        style: LandStyle,
        lands: bool,
        keep: &BTreeSet<Vec<u8>>,
    ) -> Result<(Intent, String)> {
        let step = landing.step;
        let intent = Intent {
            agent: step.id.clone(),
            base: step.base.clone(),
            old: landing.old.clone(),
            tip: landing.tip.clone(),
            style,
            at: landing.at.as_ref().map(|at| (AnyPath(at.path.clone()), AnyPath(at.admin.clone()))),
            keep: keep.intersection(&landing.changes.files.keys().cloned().collect()).cloned().collect(),
            event: lands.then(|| clock::random_hex(8)),
            note: step.note.clone(),
        };
        let token = clock::random_hex(16);
        let held = ctx.state.lock()?;
        let address = Address { supervisor: process::me(), assistant: None, token: token.clone(), home: None };
        run(ctx).write_address(&address)?;
        files::write_durable(&file(ctx), &serde_json::to_vec(&intent).expect("plain JSON"))?;
        intent.note_doing(ctx, &held, Some(DOING))?;
        Ok((intent, token))
    }

    /// As the registration is now: somebody else may have changed the rest meanwhile, or taken it away.
    fn note_doing(&self, ctx: &Context, held: &Held, doing: Option<&str>) -> Result<()> {
        let Some(now) = ctx.state.registrations()?.0.into_iter().find(|r| r.id == self.agent) else { return Ok(()) };
        Ok(ctx.state.register(held, &Registration { doing: doing.map(str::to_owned), ..now })?)
    }

    /// The commit by which the work came into the base, which stands on `now`; `None` where it did not. `done`: git said so;
    /// a hook may have made something else of one commit.
    pub(super) fn landed(&self, ctx: &Context, now: Option<&Oid>, done: bool) -> Result<Option<Oid>> {
        let Some(mut at) = now.cloned() else { return Ok(None) };
        let objects = &ctx.state.objects;
        if matches!(self.style, LandStyle::FfOnly | LandStyle::Rebase) {
            let there = at != self.old && objects.is_ancestor(&self.tip, &at)?;
            return Ok(there.then(|| self.tip.clone()));
        }
        for _ in 0..MANY {
            let Some(commit) = objects.commit(&at)?.filter(|_| at != self.old) else { return Ok(None) };
            match commit.parents.as_slice() {
                [first, rest @ ..] if *first == self.old => {
                    let is_it = match self.style {
                        LandStyle::Squash => {
                            let task = format!("\nTask: {}\n", self.agent.short());
                            rest.is_empty()
                                && (done
                                    || objects.message(&at)?.contains(&task)
                                    || self.result(ctx)?.is_some_and(|(_, tree)| tree == commit.tree))
                        }
                        _ => rest == std::slice::from_ref(&self.tip),
                    };
                    return Ok(is_it.then_some(at));
                }
                [first, ..] => at = first.clone(),
                [] => return Ok(None),
            }
        }
        Ok(None)
    }

    /// What it comes to, tried again: the tree, and the store that knows it.
    fn result(&self, ctx: &Context) -> Result<Option<(Store, Oid)>> {
        let store = Store::open(ctx.repo())?;
        if matches!(self.style, LandStyle::FfOnly | LandStyle::Rebase) {
            let tree = ctx.state.objects.commit(&self.tip)?.map(|c| c.tree);
            return Ok(tree.map(|t| (store, t)));
        }
        let found = merge::all(&store, Some(&self.old), &[(self.old.clone(), self.tip.clone())])?.pop();
        Ok(match found {
            Some(Merge::Clean(tree)) => Some((store, tree)),
            _ => None,
        })
    }

    /// The work is in `commit`: noted, durably, once.
    pub(super) fn finish(&self, ctx: &Context, held: &Held, commit: &Oid) -> Result<()> {
        if let Some(id) = &self.event {
            // git syncs neither its commits nor the directory of the branch.
            files::sync_all_beside(&ctx.repo().common_dir)?;
            refs::sync(ctx.repo(), &self.base)?;
            let more = json!({ "base": self.base, "commit": commit, "tip": self.tip, "style": self.style.word() });
            ctx.state.append(held, &[event_with_id(&self.agent, Kind::Landed, id.clone(), more)])?;
            ctx.state.note_for_people(held, &[(commit.clone(), self.note.clone())])?;
        }
        self.give_up(ctx, held)
    }

    /// Nothing of it is under way any more.
    pub(super) fn give_up(&self, ctx: &Context, held: &Held) -> Result<()> {
        // The registration last: as long as it speaks of a landing, the next command looks for what is left of one.
        for gone in [message_file(ctx), run(ctx).file("pid.json"), file(ctx)] {
            let _ = std::fs::remove_file(gone);
        }
        self.note_doing(ctx, held, None)
    }
}

/// Brings a landing that was cut short to one side. One that is still under way is left alone.
pub fn heal(ctx: &Context, held: &Held, reg: &Registration) -> Result<()> {
    let run = run(ctx);
    files::ensure_private_dir(&run.dir)?;
    let lock = Lock::try_take(&run.lock_path())?;
    let intent = read_json::<Intent>(&file(ctx)).filter(|i| i.agent == reg.id);
    let Some(_lock) = lock else {
        return match intent {
            None => Ok(()),
            Some(_) => Err(Error::refused("its landing is under way", "try again when that is done")),
        };
    };
    match intent {
        None => Ok(ctx.state.register(held, &Registration { doing: None, ..reg.clone() })?),
        Some(intent) => intent.settle(ctx, held),
    }
}

/// The same for whoever has the lock of landing already.
pub(super) fn heal_alone(ctx: &Context) -> Result<()> {
    let Some(intent) = read_json::<Intent>(&file(ctx)) else { return Ok(()) };
    let held = ctx.state.lock()?;
    intent.settle(ctx, &held)
}

impl Intent {
    /// Its command is gone: to one side or the other.
    fn settle(&self, ctx: &Context, held: &Held) -> Result<()> {
        if let Some(git) = run(ctx).left_over().first() {
            let what =
                format!("the git of a landing on '{}' is still at work: {}", short_ref(&self.base), safe::shown(git));
            return Err(Error::refused(what, "wait for it, or end it"));
        }
        let now = refs::read(ctx.repo(), &self.base)?;
        if let Some(commit) = self.landed(ctx, now.as_ref(), false)? {
            return self.finish(ctx, held, &commit);
        }
        if let (Some((path, admin)), true) = (&self.at, now.as_ref() == Some(&self.old)) {
            let at = At { path: path.0.clone(), admin: admin.0.clone(), branch: self.base.clone(), mark: None };
            at.sweep();
            let is_there = worktree::head(ctx.repo(), &at.admin) == Head::Branch(self.base.clone()) && at.path.is_dir();
            if let Some((store, tree)) = self.result(ctx)?.filter(|_| is_there) {
                let changes = changes::between(store.objects(), &self.old, &tree)?;
                at.back(ctx.repo(), store.objects(), &self.old, &changes, &self.keep, false).map_err(|e| {
                    let place = at.path.to_string_lossy();
                    let hint = format!("git -C {} status", shell_word(&place));
                    Error::refused(format!("a landing on '{}' was cut short: {e}", short_ref(&self.base)), hint)
                })?;
            }
        }
        self.give_up(ctx, held)
    }
}
