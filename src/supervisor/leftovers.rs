//! Commits what an assistant left uncommitted: its work, under the user's name, with a trailer that says who did it.
//!
//! The repository's own hooks run, and its filters: so it is a job like the assistant's, which `stop` can end and which
//! leaves no process behind. A hook that refuses has the last word; its words go to the next prompt.

use super::attempt;
use super::{Agent, say};
use crate::git::{status, worktree};
use crate::ops::Result;
use crate::place::adapter::Adapter;
use crate::place::job::{self, Ended, Happening, Job, Stop};
use crate::runtime::{files, signals::Signals};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// A hook that takes longer waits for somebody.
const LIMIT: Duration = Duration::from_secs(600);
/// So much of what a hook says is kept.
const WORDS: usize = 8 << 10;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commit {
    /// Committed, or there was nothing to commit after all.
    Done,
    /// Somebody asked for the end.
    Stopped,
    /// Why not.
    Refused(String),
}

/// Commits it.
pub fn commit(agent: &mut Agent, entry: &worktree::Entry, row: &Adapter, changes: &status::Changes) -> Result<Commit> {
    if !changes.conflicted.is_empty() {
        return Ok(Commit::Refused("it left a merge in conflict".into()));
    }
    let mut add: Vec<OsString> = ["add", "--all", "--", "."].map(Into::into).into();
    add.extend(row.leftovers.iter().chain(&agent.plan.throw_away).map(|p| format!(":(exclude,glob){p}").into()));
    let (ended, words) = git(agent, entry, add)?;
    if let Some(end) = verdict(agent, &ended, &words) {
        return Ok(end);
    }
    let quiet = ["diff", "--cached", "--quiet", "--no-ext-diff", "--ignore-submodules=none"];
    if agent.ctx.repo().call_in(&entry.path, &entry.admin, quiet).yes_no()? {
        return Ok(Commit::Done);
    }
    let title = crate::model::text::one_line(&agent.task.title, 72);
    let message = agent.run.file("commit-message");
    let text = format!("{title}\n\nAssisted-by: {} ({})\n", agent.reg.name, row.name);
    files::write_atomic(&message, text.as_bytes())?;
    // A title that begins with a comment sign is a title.
    let mut commit: Vec<OsString> = ["commit", "--quiet", "--cleanup=whitespace", "-F"].map(Into::into).into();
    commit.push(message.into());
    if !agent.plan.sign {
        commit.push("--no-gpg-sign".into());
    }
    let (ended, words) = git(agent, entry, commit)?;
    Ok(verdict(agent, &ended, &words).unwrap_or(Commit::Done))
}

/// `None` where git did it.
fn verdict(agent: &mut Agent, ended: &Ended, words: &str) -> Option<Commit> {
    let why = match ended {
        Ended { stopped: Some(Stop::Asked), .. } => return Some(Commit::Stopped),
        Ended { stopped: Some(_), .. } => format!("it took longer than {} minutes", LIMIT.as_secs() / 60),
        Ended { code: Some(0), .. } => return None,
        Ended { code, signal, .. } if words.is_empty() => match code {
            Some(n) => format!("git exited with {n}"),
            None => format!("git was ended by signal {}", signal.unwrap_or(0)),
        },
        _ => crate::model::text::one_line(words, 400),
    };
    let head = "what it left could not be committed";
    say(&format!("{head}: {words}"));
    agent.record.hand_on = Some(format!(
        "The work in the worktree is not committed yet: committing it was refused. Mend what is wrong and commit it.\n\n{}",
        if words.is_empty() { &why } else { words }
    ));
    Some(Commit::Refused(format!("{head}: {why}")))
}

/// One git with the repository's hooks and filters, in the environment of the assistant, and what it said.
fn git(agent: &mut Agent, entry: &worktree::Entry, args: Vec<OsString>) -> Result<(Ended, String)> {
    let mut env = attempt::variables(agent, &entry.path);
    env.extend([
        ("GIT_DIR".to_owned(), entry.admin.clone().into()),
        ("GIT_COMMON_DIR".to_owned(), agent.ctx.repo().common_dir.clone().into()),
        ("GIT_WORK_TREE".to_owned(), entry.path.clone().into()),
        ("LC_ALL".to_owned(), "C".into()),
    ]);
    let job = Job {
        argv: std::iter::once(OsString::from("git")).chain(args).collect(),
        env,
        env_allow: agent.plan.env_allow.clone(),
        cwd: entry.path.clone(),
        stdin: None,
        token: agent.address.token.clone(),
        grace: agent.plan.grace(),
    };
    let (mut words, begun) = (Vec::new(), Instant::now());
    let signals = std::mem::replace(&mut agent.signals, Signals::none());
    let ended = job::run(&job, &signals, |happening| match happening {
        Happening::Output(bytes) => {
            words.extend_from_slice(&bytes[..bytes.len().min(WORDS - words.len())]);
            None
        }
        Happening::Tick(woken) if agent.stopping(woken) => Some(Stop::Asked),
        Happening::Tick(_) if begun.elapsed() >= LIMIT => Some(Stop::Time),
        _ => None,
    });
    agent.signals = signals;
    let ended = ended.map_err(files::because("start", std::path::Path::new("git")))?;
    Ok((ended, crate::model::text::safe_text(&words).trim().to_owned()))
}
