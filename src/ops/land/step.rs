//! One landing, once it is known what comes in: what stands in its way, its test, and git's own merge with what is noted
//! before and after it.

use super::intent::{self, Intent};
use super::plan::{self, Planned, Why};
use super::{End, Landed, Options, Progress, Tell, interrupted};
use crate::config::ApprovedPlan;
use crate::config::settings::LandStyle;
use crate::git::merging::{At, How, forward_unchecked_out};
use crate::git::{refs, store::Store};
use crate::model::agent::Oid;
use crate::model::meet::ChangeSet;
use crate::model::task::short_ref;
use crate::model::text::{safe_path, shell_word, shown_path};
use crate::ops::create::Step as Making;
use crate::ops::overlap::Round;
use crate::ops::scratch::{self, Scratch};
use crate::ops::verify::{At as Tree, Check, Patience, verify};
use crate::ops::{Context, Error, Loaded, Result, base, endings, naming};
use crate::place::job::TOKEN;
use crate::runtime::files;
use crate::runtime::signals::Signals;
use std::collections::BTreeSet;

/// What a landing is about, once all of it is known.
pub(super) struct Landing<'a> {
    pub(super) ctx: &'a Context,
    pub(super) step: &'a Planned,
    /// Where its base stands.
    pub(super) old: Oid,
    /// What comes in.
    pub(super) tip: Oid,
    /// Where the base is checked out.
    pub(super) at: Option<At>,
    /// What the result changes there.
    pub(super) changes: ChangeSet,
    /// The private store that knows the result.
    pub(super) store: Store,
}

/// Tests what landing `step` comes to; why it does not go.
pub(super) fn test(
    ctx: &Context,
    step: &Planned,
    check: &Check,
    at: Tree<'_>,
    signals: &Signals,
    tell: &mut Tell<'_>,
) -> Result<Option<End>> {
    let name = &step.name.0;
    tell(Progress::Testing(name));
    let tested = verify(ctx, check, at, &Patience::of_a_person(signals), &mut |m| {
        if let Making::Warning(w) = m {
            tell(Progress::Warning(&w));
        }
    })?;
    if tested.passed == Some(true) {
        return Ok(None);
    }
    let reason = tested.reason.map(|r| format!(": {r}")).unwrap_or_default();
    let log = tested.log.map(|l| format!("'{}' is what it printed", shown_path(&l)));
    let did = if tested.passed.is_some() { "does not pass" } else { "cannot be told to pass" };
    let command = crate::model::text::one_line(&check.shown(), 80);
    let why = format!("'{name}' on '{}' {did} '{command}'{reason}", short_ref(&step.base));
    Ok(Some(End::Kept(Why::new(why, log))))
}

impl Landing<'_> {
    fn name(&self) -> &str {
        &self.step.name.0
    }

    fn base(&self) -> &str {
        short_ref(&self.step.base)
    }

    /// What git refuses too, for uncommitted work; and what it would do without a word. It is not left to git: refusing a
    /// merge, that resets the checkout and applies a stash of what was there, and a kill between the two would lose it.
    pub(super) fn obstacle(&self, style: LandStyle) -> Result<Option<End>> {
        let Some(at) = &self.at else { return Ok(None) };
        let place = shown_path(&at.path);
        let kept = |what: String, hint: &str| {
            let why = format!("'{}' does not land: {what}", self.name());
            Ok(Some(End::Kept(Why::new(why, Some(hint.to_owned())))))
        };
        if matches!(style, LandStyle::Squash | LandStyle::Merge) && at.has_staged(self.ctx.repo())? {
            return kept(format!("something is staged in '{place}'"), "commit it, or take it out of the index");
        }
        let shown = |files: &[Vec<u8>]| plan::list(&files.iter().map(|f| safe_path(f)).collect::<Vec<_>>());
        let dirty = at.dirty(self.ctx.repo(), &self.ctx.state.objects, &self.old)?;
        let changed: Vec<Vec<u8>> = dirty.into_iter().filter(|p| self.changes.files.contains_key(p)).collect();
        if !changed.is_empty() {
            return kept(format!("not committed in '{place}': {}", shown(&changed)), "commit or move them first");
        }
        let files = at.in_the_way(self.store.objects(), &self.changes);
        if !files.is_empty() {
            return kept(format!("untracked in '{place}' and in its way: {}", shown(&files)), "move them away first");
        }
        Ok(None)
    }

    /// Tests the result, unless that is what was `tested` before; why it does not go.
    pub(super) fn test(
        &self,
        check: &Check,
        style: LandStyle,
        tested: Option<&Oid>,
        signals: &Signals,
        tell: &mut Tell<'_>,
    ) -> Result<Option<End>> {
        let round = Round::begin(self.ctx)?;
        let forward = matches!(style, LandStyle::FfOnly | LandStyle::Rebase);
        let tree = if forward {
            self.ctx.state.objects.commit(&self.tip)?.map(|c| c.tree)
        } else {
            let side = plan::side(self.name(), &self.tip);
            round.order(&self.old, std::slice::from_ref(&side), &[], &|_| 0).pop().and_then(|s| s.tree)
        };
        let Some(tree) = tree else {
            return Ok(Some(End::Kept(Why::new(
                format!("'{}' cannot be tested: its tree is unknown", self.name()),
                None,
            ))));
        };
        if tested == Some(&tree) {
            return Ok(None);
        }
        let commit =
            || if forward { Ok(self.tip.clone()) } else { round.give(&tree, &[self.old.clone(), self.tip.clone()]) };
        let at = Tree { tree: &tree, base: &self.step.base, commit: &commit, again: false, log: None, since: None };
        test(self.ctx, self.step, check, at, signals, tell)
    }

    /// Does it.
    pub(super) fn go(&self, o: &Options<'_>, signals: &Signals, tell: &mut Tell<'_>, lands: bool) -> Result<End> {
        tell(Progress::Landing(self.name()));
        Ok(match self.act(o.style, Some(o.loaded), signals, tell, lands)? {
            Ok(commit) => {
                let undo = match &self.at {
                    Some(at) => {
                        let path = at.path.to_string_lossy();
                        format!("git -C {} reset --keep {:.12}", shell_word(&path), self.old.0)
                    }
                    None => {
                        format!("git update-ref {} {:.12} {:.12}", shell_word(&self.step.base), self.old.0, commit.0)
                    }
                };
                let base = self.base().to_owned();
                End::Landed(Landed { base, commit, undo, removed: false, stays: None })
            }
            Err(why) => End::Failed(why),
        })
    }

    /// Notes it, has git do it, and notes what came of it; or brings the checkout back. The base's new commit.
    pub(super) fn act(
        &self,
        style: LandStyle,
        loaded: Option<&Loaded>,
        signals: &Signals,
        tell: &mut Tell<'_>,
        lands: bool,
    ) -> Result<std::result::Result<Oid, Why>> {
        let ctx = self.ctx;
        let before = match &self.at {
            Some(at) => at.dirty(ctx.repo(), &ctx.state.objects, &self.old)?,
            None => BTreeSet::new(),
        };
        let (intent, token) = Intent::begin(ctx, self, style, lands, &before)?;
        let told = self.by_git(style, loaded, &token, tell);
        if let Err(Error::Git(crate::git::Error::Failed { code: None, .. })) = &told {
            // Ended by a signal: what its hooks go on with has no end to serve any more.
            intent::end_left_over(ctx);
        }
        let held = ctx.state.lock()?;
        let now = refs::read(ctx.repo(), &self.step.base)?;
        if let Some(commit) = intent.landed(ctx, now.as_ref(), told.is_ok())? {
            intent.finish(ctx, &held, &commit)?;
            return Ok(Ok(commit));
        }
        let (mut words, hint) = match told {
            Err(e) => match endings::explain(&e, self.base(), |p| before.contains(p)) {
                Some((why, hint)) => (why, Some(hint)),
                None => (e.words(), None),
            },
            Ok(()) => (format!("git said that it merged, and '{}' is where it was", self.base()), None),
        };
        if let Some(at) = self.at.as_ref().filter(|_| now.as_ref() == Some(&self.old)) {
            let aside = at.back(ctx.repo(), self.store.objects(), &self.old, &self.changes, &before, true)?;
            if matches!(style, LandStyle::Squash | LandStyle::Merge) {
                // Nothing was staged before.
                at.unstage(ctx.repo(), &before)?;
            }
            if let Some(aside) = aside {
                words += &format!("; what its files had become by then is kept: git show {:.12}", aside.0);
            }
            if at.operation().is_some() || at.dirty(ctx.repo(), &ctx.state.objects, &self.old)? != before {
                words += &format!("; 'git -C {} status' shows what is left of it", shown_path(&at.path));
            }
        }
        intent.give_up(ctx, &held)?;
        drop(held);
        interrupted(signals)?;
        Ok(Err(Why::new(format!("'{}' did not land: {words}", self.name()), hint)))
    }

    fn by_git(&self, style: LandStyle, loaded: Option<&Loaded>, token: &str, tell: &mut Tell<'_>) -> Result<()> {
        let repo = self.ctx.repo();
        let message = intent::message_file(self.ctx);
        files::write_atomic(&message, self.step.message.as_bytes())?;
        let how = match style {
            LandStyle::Merge => How::Merge(&message),
            LandStyle::Squash => How::Squash(&message),
            LandStyle::Rebase | LandStyle::FfOnly => How::Forward,
        };
        let mut run = |at: &At| {
            let at = At { mark: Some((TOKEN, token.to_owned())), ..at.clone() };
            let (said, result) = at.merge(repo, how, &self.tip);
            for line in said.lines().filter(|_| result.is_ok()) {
                tell(Progress::Said(line));
            }
            result
        };
        match (&self.at, how, loaded) {
            (Some(at), ..) => Ok(run(at)?),
            (None, How::Forward, _) | (None, _, None) => Ok(forward_unchecked_out(repo, &self.step.base, &self.tip)?),
            (None, _, Some(loaded)) => {
                // Nobody has it checked out: a worktree that stands for this merge alone.
                let name = scratch::new_name();
                let base = base::Base { name: self.step.base.clone(), commit: self.old.clone(), note: None };
                let dir = &loaded.settings.worktree_dir;
                let wish = naming::Wish { name: &name, branch: &name, base: &base, dir, batch: None };
                let path = naming::place(self.ctx, &wish)?;
                let plan = crate::ops::plan::run_plan(self.ctx, loaded, &ApprovedPlan::nothing(), path.clone(), None)?;
                let scratch = Scratch::make(self.ctx, &name, path, &plan, &|| Ok(self.old.clone()), &mut |_| {})?;
                let at =
                    At { path: scratch.path().to_owned(), admin: scratch.admin()?, branch: "HEAD".into(), mark: None };
                run(&at)?;
                Ok(forward_unchecked_out(repo, &self.step.base, &at.head(repo)?)?)
            }
        }
    }
}
