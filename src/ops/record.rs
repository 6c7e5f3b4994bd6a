//! The records of a run: small files in the agent's run folder, replaced atomically, expendable while nothing runs.
//!
//! The lock in the same folder says whether anybody is alive; these say what that somebody was doing.

use crate::git::state::State;
use crate::model::agent::{AgentId, RunState};
use crate::model::event::{Event, Journal, Kind};
use crate::model::text::shown_path;
use crate::place::job::LeftOver;
use crate::runtime::files;
use crate::runtime::lock::Lock;
use crate::runtime::process::{self, Identity};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Where a run stands, or how it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The state.
    pub state: RunState,
    /// Of which attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Retries that are left.
    pub attempts_left: u32,
    /// Why it is in this state, one line.
    #[serde(default)]
    pub reason: Option<String>,
    /// What the assistant asked.
    #[serde(default)]
    pub question: Option<String>,
    /// When a hold ends (RFC 3339).
    #[serde(default)]
    pub resume_at: Option<String>,
    /// Refused permissions so far.
    #[serde(default)]
    pub denied: u32,
    /// The assistant's own session.
    #[serde(default)]
    pub session: Option<String>,
    /// US dollars so far, over all attempts.
    #[serde(default)]
    pub cost_usd: Option<f64>,
    /// Tokens so far, over all attempts.
    #[serde(default)]
    pub tokens: Option<u64>,
    /// The assistant's last words.
    #[serde(default)]
    pub claim: Option<String>,
    /// When the first attempt started (RFC 3339).
    #[serde(default)]
    pub started: Option<String>,
    /// When it ended.
    #[serde(default)]
    pub ended: Option<String>,
    /// The assistant's exit code.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that ended the assistant.
    #[serde(default)]
    pub signal: Option<i32>,
    /// When it last printed anything.
    #[serde(default)]
    pub last_output: Option<String>,
    /// The boot this was written in.
    pub boot: String,
    /// The id of the journal's event that says the same; set when final.
    #[serde(default)]
    pub event: Option<String>,
    /// Processes of the run that could not be ended.
    #[serde(default)]
    pub survivors: Vec<String>,
    /// What git runs or trusts here and changed while it worked, by name.
    #[serde(default)]
    pub git_changed: Vec<String>,
    /// Whether the environment has been set up.
    #[serde(default)]
    pub setup_done: bool,
    /// Who works, where that is not the task's own assistant.
    #[serde(default)]
    pub assistant: Option<String>,
    /// US dollars it may cost, where that is not the task's own limit.
    #[serde(default)]
    pub cost_limit: Option<f64>,
    /// How the last attempt ended, while its tests run: what is left of this run are they alone.
    #[serde(default)]
    pub proven: Option<Proven>,
    /// What the next prompt shall say about the end of this attempt.
    #[serde(default)]
    pub hand_on: Option<String>,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    /// The state.
    pub state: RunState,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Record {
    /// A record at the start of a run.
    pub fn new(state: RunState, attempts_left: u32) -> Record {
        Record {
            state,
            attempt: 0,
            attempts_left,
            reason: None,
            question: None,
            resume_at: None,
            denied: 0,
            session: None,
            cost_usd: None,
            tokens: None,
            claim: None,
            started: None,
            ended: None,
            exit_code: None,
            signal: None,
            last_output: None,
            boot: process::boot_id(),
            event: None,
            survivors: Vec::new(),
            git_changed: Vec::new(),
            setup_done: false,
            assistant: None,
            cost_limit: None,
            proven: None,
            hand_on: None,
        }
    }
}

/// Whom to signal, and by what everything of the run is recognised. An address, never a proof of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The supervisor (or the person's `attach`).
    pub supervisor: Identity,
    /// The assistant, leader of its group.
    pub assistant: Option<Identity>,
    /// The value of `AGENTS_RUN` in every process of the run.
    pub token: String,
    /// The folder it was written in, set by [`RunDir::write_address`]: in a copy of the repository it is nobody's address.
    #[serde(default)]
    pub home: Option<Home>,
}

/// One folder of a run, told apart from its copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// Its path, for messages: it moves with its repository.
    pub path: String,
    /// Its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

impl Home {
    fn of(dir: &Path) -> Option<Home> {
        use std::os::unix::fs::MetadataExt as _;
        let meta = std::fs::metadata(dir).ok()?;
        Some(Home { path: dir.to_string_lossy().into_owned(), device: meta.dev(), inode: meta.ino() })
    }

    fn is(&self, dir: &Path) -> bool {
        Home::of(dir).is_some_and(|h| (h.device, h.inode) == (self.device, self.inode))
    }

    /// The repository that the folder is in: `…/agents/run/<id>`.
    pub fn repository(&self) -> &Path {
        let path = Path::new(&self.path);
        path.ancestors().nth(3).unwrap_or(path)
    }
}

impl Address {
    /// What the run may have left running.
    pub fn left_over(&self) -> LeftOver<'_> {
        LeftOver { token: &self.token, boot: &self.supervisor.boot, leader: self.assistant.as_ref() }
    }
}

/// The files of one run.
#[derive(Debug, Clone)]
pub struct RunDir {
    /// The folder.
    pub dir: PathBuf,
}

impl RunDir {
    /// The folder of `id`; not made.
    pub fn of(state: &State, id: &AgentId) -> RunDir {
        RunDir { dir: state.run_dir(id) }
    }

    /// Makes the folder.
    pub fn ensure(&self) -> Result<(), files::Error> {
        if let Some(parent) = self.dir.parent() {
            if let Some(agents) = parent.parent() {
                files::ensure_private_dir(agents)?;
            }
            files::ensure_private_dir(parent)?;
        }
        files::ensure_private_dir(&self.dir)
    }

    /// One file of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// The lock that says who is alive.
    pub fn lock_path(&self) -> PathBuf {
        self.file("lock")
    }

    /// Takes the lock of a run that nobody holds; `None` where somebody does. Readers hold it for an instant too, and
    /// must not be taken for a run: hence the patience.
    pub fn seize(&self) -> Result<Option<Lock>, files::Error> {
        Lock::take_within(&self.lock_path(), std::time::Duration::from_millis(300))
    }

    /// The door of the inbox: who holds it has the last word on whether a message still reaches this run.
    pub fn inbox_door(&self) -> Result<Lock, files::Error> {
        Lock::take(&self.file("door"))
    }

    /// Ends what a run without a supervisor left; the processes that would not go.
    pub fn end_left_over(&self, grace: std::time::Duration) -> Vec<Identity> {
        self.address().map(|a| a.left_over().end(grace)).unwrap_or_default()
    }

    /// Whether somebody holds the lock.
    pub fn is_alive(&self) -> Result<bool, files::Error> {
        Lock::is_held(&self.lock_path())
    }

    /// The record of a run under way.
    pub fn live(&self) -> Option<Record> {
        read_json(&self.file("state.json"))
    }

    /// The record of how it ended.
    pub fn exit(&self) -> Option<Record> {
        read_json(&self.file("exit.json"))
    }

    /// Whom to signal. Nobody in a copy of the repository: those processes are the original's.
    pub fn address(&self) -> Option<Address> {
        read_json(&self.file("pid.json")).filter(|a: &Address| a.home.as_ref().is_some_and(|h| h.is(&self.dir)))
    }

    /// Processes that an earlier supervisor of this run left at work.
    pub fn left_over(&self) -> Vec<Identity> {
        self.address().map(|a| a.left_over().find()).unwrap_or_default()
    }

    /// The repository whose live run this folder is a copy of.
    pub fn copied_from(&self) -> Option<PathBuf> {
        let address: Address = read_json(&self.file("pid.json"))?;
        let home = address.home.as_ref().filter(|h| !h.is(&self.dir))?;
        let lives = address.supervisor.is_alive() || !address.left_over().find().is_empty();
        lives.then(|| home.repository().to_owned())
    }

    /// Writes the record of a run under way.
    pub fn write_live(&self, r: &Record) -> Result<(), files::Error> {
        files::write_atomic(&self.file("state.json"), &json(r))
    }

    /// Writes how it ended, durably; from now on this counts. On a full disk into the room that was reserved for it.
    pub fn write_exit(&self, r: &Record) -> Result<(), files::Error> {
        let path = self.file("exit.json");
        match files::write_durable(&path, &json(r)) {
            Err(e) if e.is_disk_full() => {
                let mut bytes = json(r);
                if bytes.len() > RESERVED {
                    bytes = json(&Record { claim: None, hand_on: None, survivors: Vec::new(), ..r.clone() });
                }
                files::write_reserved(&self.file("reserve"), &path, &bytes).map_err(|_| e)
            }
            other => other,
        }
    }

    /// Takes room on the disk for the record of the end: a full disk must not leave a run without a reason.
    pub fn reserve(&self) -> Result<(), files::Error> {
        let path = self.file("reserve");
        if std::fs::metadata(&path).is_ok_and(|m| m.len() == RESERVED as u64) {
            return Ok(());
        }
        files::write_durable(&path, &[b' '; RESERVED])
    }

    /// Takes the record of an earlier end away: a new run begins.
    pub fn clear_exit(&self) -> Result<(), files::Error> {
        match std::fs::remove_file(self.file("exit.json")) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(files::because("remove", &self.file("exit.json"))(e))
            }
            _ => Ok(()),
        }
    }

    /// Writes whom to signal.
    pub fn write_address(&self, a: &Address) -> Result<(), files::Error> {
        files::write_atomic(&self.file("pid.json"), &json(&Address { home: Home::of(&self.dir), ..a.clone() }))
    }
}

/// Bytes that are kept free for the record of the end.
const RESERVED: usize = 16 << 10;

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("records are plain JSON")
}

/// Reads a JSON file; a damaged one is like a missing one (it is expendable).
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = files::read_limited(path, 4 << 20).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// Where the run of an agent stands, from lock, records and journal, in that order of truth. `None` where no assistant
/// was ever started. `expected`: a task with an assistant was handed to a supervisor.
pub fn stand<'j>(
    run: &RunDir,
    journal: impl FnOnce() -> Option<&'j Journal>,
    expected: bool,
) -> Result<Option<Record>, files::Error> {
    if run.is_alive()? {
        return Ok(Some(
            run.live().filter(|r| r.state.is_live()).unwrap_or_else(|| Record::new(RunState::Preparing, 0)),
        ));
    }
    if let Some(exit) = run.exit() {
        return Ok(Some(exit));
    }
    let gone = |mut r: Record| {
        let rebooted = r.boot != process::boot_id();
        r.reason = Some(match (r.state, run.copied_from()) {
            (_, Some(original)) => format!("this repository is a copy; it runs in '{}'", shown_path(&original)),
            _ if rebooted => "the machine was restarted".to_owned(),
            (RunState::Attached, _) => "the session of the person in its place was killed".to_owned(),
            _ => "its supervisor was killed".to_owned(),
        });
        r.state = if rebooted { RunState::Interrupted } else { RunState::Dead };
        r
    };
    match run.live() {
        // An environment that was being made, without anybody to work in it: no run at all.
        Some(live) if is_creation(&live, expected) => return Ok(None),
        Some(live) => return Ok(Some(gone(live))),
        None => {}
    }
    // The run folder is gone: the journal tells what became of it.
    let last = journal().and_then(|j| j.events.iter().rev().find(|e| matches!(e.kind, Kind::Attempt | Kind::Exited)));
    Ok(match last {
        Some(e) if e.kind == Kind::Exited => from_event(e),
        Some(e) => {
            let mut r = Record::new(RunState::Dead, 0);
            r.attempt = number(e, "attempt").unwrap_or(1);
            r.started = Some(e.at.clone());
            r.reason = Some(match run.dir.is_dir() {
                true => "its supervisor is gone, and so is the record of what it did".into(),
                false => format!("the folder of its run, '{}', was deleted; {LOOK}", shown_path(&run.dir)),
            });
            Some(r)
        }
        None if expected => {
            let mut r = Record::new(RunState::Dead, 0);
            r.reason = Some(match run.dir.is_dir() {
                true => "it was never started".into(),
                false => format!("it was never started, or the folder of its run was deleted; {LOOK}"),
            });
            Some(r)
        }
        None => None,
    })
}

const LOOK: &str = "'git agents retry' goes on with what is in its worktree";

/// Whether this is what the making of an environment noted, where nobody was to work in it yet.
pub fn is_creation(live: &Record, expected: bool) -> bool {
    !expected && live.state == RunState::Preparing && live.attempt == 0 && live.assistant.is_none()
}

fn number(e: &Event, key: &str) -> Option<u32> {
    e.more().get(key)?.as_u64()?.try_into().ok()
}

/// The record an `exited` event holds.
pub fn from_event(e: &Event) -> Option<Record> {
    serde_json::from_value(e.more().get("record")?.clone()).ok()
}

/// The `exited` event for `r`: the same id whoever notices.
pub fn to_event(agent: &AgentId, r: &Record, facts: serde_json::Value) -> Event {
    let id = r.event.clone().unwrap_or_else(|| crate::runtime::clock::random_hex(8));
    let mut more = serde_json::json!({ "record": r });
    if let (Some(m), serde_json::Value::Object(f)) = (more.as_object_mut(), facts) {
        m.extend(f);
    }
    crate::git::state::event_with_id(agent, Kind::Exited, id, more)
}
