//! `git agents history`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::{Label, table};
use crate::model::agent::RunState;
use crate::model::text::one_line;
use crate::ops::history::{self, Became, PastAgent};
use crate::runtime::clock;

/// Every agent there ever was: task, assistant, how it ended, what became of it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    let history = history::history(&ctx)?;
    if args.json {
        s.ui.json(&history)?;
        return Ok(code::DONE);
    }
    if history.agents.is_empty() {
        s.ui.say("there has been no agent yet");
        return Ok(code::DONE);
    }
    let head = ["CREATED", "NAME", "ASSISTANT", "STATE", "NOW", "TASK"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(history.agents.iter().map(row)).collect();
    let painted = table(&rows, |row, column, cell| {
        let state = row.checked_sub(1).and_then(|r| history.agents[r].state).filter(|_| column == 3);
        match state {
            Some(RunState::Succeeded) => s.ui.paint(Label::Good, cell),
            Some(st) if st.is_final() => s.ui.paint(Label::Warn, cell),
            _ => cell.to_owned(),
        }
    });
    s.ui.page(&painted)?;
    Ok(code::DONE)
}

fn row(a: &PastAgent) -> Vec<String> {
    let minute = |at: &str| clock::local(at).get(..16).unwrap_or(at).to_owned();
    vec![
        minute(&a.created),
        a.name.0.clone(),
        a.assistant.as_deref().map_or_else(|| "-".into(), |x| one_line(x, 20)),
        a.state.map_or("-", RunState::word).to_owned(),
        became(a),
        one_line(&a.title, 60),
    ]
}

fn became(a: &PastAgent) -> String {
    let landed = a.landed.as_ref().map(|l| match &l.commit {
        Some(c) => format!("landed in {} as {}", l.base, c.short()),
        None => format!("landed in {}", l.base),
    });
    let now = match (a.became, &a.removed, &a.restored) {
        (Became::Here, _, Some(_)) => Some("restored".to_owned()),
        (Became::Here, ..) => landed.is_none().then(|| "here".to_owned()),
        (Became::Removed, Some(at), _) => Some(format!("removed {}", at.get(..10).unwrap_or(at))),
        _ => Some("gone".to_owned()),
    };
    landed.into_iter().chain(now).collect::<Vec<_>>().join(", ")
}
