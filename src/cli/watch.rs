//! `status --watch`: JSON lines, or a full screen on a terminal, or the table again after each change.

use super::Session;
use super::error::{CliError, code};
use super::lines::{Change, Line, Snapshot, SnapshotKind, StatusLine};
use super::screen::Screen;
use crate::ops::Context;
use crate::ops::answer::{AgentAnswer, StatusAnswer};
use crate::ops::inventory::{Agent, status_with};
use crate::ops::overlap::answer::Question;
use crate::ops::overlap::live::Follow;
use crate::place::watch::Happening;
use crate::runtime::signals::{Signals, Wake};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What wakes it beside files.
#[derive(Debug)]
pub(super) enum Input {
    /// A key, or another size of the terminal.
    Terminal(ratatui::crossterm::event::Event),
    /// Asked to end.
    End(i32),
}

/// How it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A full screen.
    Screen,
    /// The table again.
    Text,
    /// JSON lines.
    Json,
}

/// A running agent's clock moves on though no file does.
const TICK: Duration = Duration::from_secs(30);

/// Shows the agents that `only` chooses until it is ended.
pub(super) fn watch(
    s: &Session,
    ctx: &Context,
    form: Form,
    only: &dyn Fn(&Agent) -> bool,
    text: &dyn Fn(&StatusAnswer) -> String,
) -> Result<i32, CliError> {
    // Before any thread starts: an ended view puts the terminal back and leaves no private store.
    let signals = super::follow::catch()?;
    let mut follow: Follow<'_, Input> = Follow::begin(ctx, Question::default(), true)?;
    let mut changed = BTreeSet::new();
    let (sender, mut end) = (follow.sender(), end_of(signals));
    let mut screen = None;
    if form == Form::Screen {
        screen = Some(Screen::open(&s.cwd, sender, end)?);
    } else {
        std::thread::spawn(move || sender.send(Happening::Other(Input::End(end()))));
    }
    let mut before: Option<StatusAnswer> = None;
    let (mut look, mut told) = (true, false);
    loop {
        if look {
            let (inv, summary) = follow.summary(&changed)?;
            let polls = follow.polls_because();
            if screen.is_none() {
                say_polls(s, polls, &mut told);
            }
            let base = super::commands::base_name(ctx);
            let answer = status_with(ctx, &inv, only, base, &summary)?;
            match (&mut screen, form) {
                (Some(screen), _) => screen.show(&answer, summary, polls.is_some())?,
                (None, Form::Json) => tell(s, before.as_ref(), &answer)?,
                (None, _) if before.as_ref() != Some(&answer) => {
                    let gap = if before.is_some() { "\n" } else { "" };
                    s.ui.out(&format!("{gap}{}", text(&answer)))?;
                }
                (None, _) => {}
            }
            before = Some(answer);
        }
        let woken = follow.wait(Some(TICK));
        look = woken.beside || !woken.trees.is_empty() || (screen.is_some() && woken.others.is_empty());
        changed = woken.trees;
        for input in woken.others {
            match (input, &mut screen) {
                (Input::End(signal), _) => return Ok(128 + signal),
                (Input::Terminal(_), None) => {}
                (Input::Terminal(event), Some(screen)) => {
                    if screen.input(&event)? {
                        return Ok(code::DONE);
                    }
                    // What was typed there may have changed everything.
                    look |= screen.was_left();
                }
            }
        }
    }
}

/// Says once that nothing tells what changes: at the limit of the system that may come late.
pub(super) fn say_polls(s: &Session, polls_because: Option<&str>, told: &mut bool) {
    if let (Some(why), false) = (polls_because, *told) {
        s.ui.warn(&format!("looking every few seconds, for {why}"));
        *told = true;
    }
}

/// Waits for a signal that ends the view.
pub(super) fn end_of(signals: Signals) -> impl FnMut() -> i32 + Send + 'static {
    move || loop {
        signals.wait(60_000);
        for w in signals.take() {
            if let Wake::End(signal) = w {
                return signal as i32;
            }
        }
    }
}

/// A whole answer first, then those that changed.
fn tell(s: &Session, before: Option<&StatusAnswer>, now: &StatusAnswer) -> Result<(), CliError> {
    let Some(before) = before else {
        return s.ui.json(&StatusLine::Snapshot(Snapshot { answer: now.clone(), kind: SnapshotKind::Snapshot }));
    };
    fn by_id(a: &StatusAnswer) -> BTreeMap<&str, &AgentAnswer> {
        a.agents.iter().map(|a| (a.id.as_str(), a)).collect()
    }
    let (then, here) = (by_id(before), by_id(now));
    let changed: Vec<&AgentAnswer> =
        now.agents.iter().filter(|a| then.get(a.id.as_str()).is_none_or(|b| *b != *a)).collect();
    let gone: Vec<String> =
        before.agents.iter().filter(|a| !here.contains_key(a.id.as_str())).map(|a| a.name.0.clone()).collect();
    let rest = before.checkouts != now.checkouts || before.holds != now.holds || before.batches != now.batches;
    if changed.is_empty() && gone.is_empty() && !rest {
        return Ok(());
    }
    s.ui.json(&StatusLine::Change(Line::of(Change::Change {
        agents: changed.into_iter().cloned().collect(),
        gone,
        checkouts: now.checkouts.clone(),
        batches: now.batches.clone(),
        holds: now.holds.clone(),
    })))
}
