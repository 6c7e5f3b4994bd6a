//! What we keep in a repository: registrations, task objects, the journal, notes for people.
//!
//! Order of truth: lock held → registration → facts of git → journal. Everything that changes something here is called
//! with the repository's lock held, for which [`State::lock`] is the only door; taking it also heals what a kill left.

use super::objects::{self, Objects};
use super::repo::Repo;
use super::{Error, Result, config_file, locks, refs};
use crate::model::agent::{AgentId, Name, Oid};
use crate::model::event::{Event, Journal};
use crate::model::task::Task;
use crate::model::verdict::{self, Verdict};
use crate::runtime::files;
use crate::runtime::lock::{self, Lock};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// The journal's reference: one note an agent, on its task object.
pub const JOURNAL: &str = "refs/notes/agents-journal";
/// Notes for people: one line on each own commit.
pub const PEOPLE: &str = "refs/notes/agents";
/// What test commands said of trees.
pub const TESTS: &str = "refs/notes/agents-tests";
/// Task objects are kept alive below this.
pub const TASKS: &str = "refs/agents/task/";

/// What `.git/config` says of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The handle.
    pub name: Name,
    /// The task object.
    pub id: AgentId,
    /// Full name of the branch.
    pub branch: String,
    /// Full name of the base, or an id.
    pub base: String,
    /// The base commit the branch sits on now.
    pub fork: Oid,
    /// The last own tip seen.
    pub ahead: Option<Oid>,
    /// Git's id of the worktree; none before it is made.
    pub worktree: Option<String>,
    /// The step of a multi-step change under way.
    pub doing: Option<String>,
    /// Where the tree will be; only until it is made.
    pub path: Option<PathBuf>,
}

/// The state of one repository.
#[derive(Debug, Clone)]
pub struct State {
    /// Whose.
    pub repo: Repo,
    /// Its objects.
    pub objects: Objects,
}

/// The repository's lock, held. Whatever changes shared state asks for a reference to it.
#[derive(Debug)]
pub struct Held {
    _lock: Lock,
}

impl State {
    /// Opens what is there; writes nothing.
    pub fn open(repo: Repo) -> Result<State> {
        Ok(State { objects: Objects::open(&repo)?, repo })
    }

    /// `<common dir>/agents`, made private where it is missing, with the folders in it.
    pub fn ensure_dirs(&self) -> Result<PathBuf> {
        let dir = self.repo.agents_dir();
        let fresh = !dir.exists();
        files::ensure_private_dir(&dir)?;
        for sub in ["run", "slots", "trash"] {
            files::ensure_private_dir(&dir.join(sub))?;
        }
        if fresh && let Err(why) = lock::probe(&dir) {
            files::write_durable(&dir.join("no-locks"), why.as_bytes())?;
        }
        Ok(dir)
    }

    /// Why locks cannot be trusted on this file system; `None` where they can.
    pub fn lock_trouble(&self) -> Option<String> {
        let bytes = files::read_limited(&self.repo.agents_dir().join("no-locks"), 1 << 10).ok()??;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Takes the repository's lock and heals what a killed process of ours left.
    pub fn lock(&self) -> Result<Held> {
        let dir = self.ensure_dirs()?;
        let path = dir.join("lock");
        let Some(mut lock) = Lock::queue_for(&path, Duration::from_secs(60))? else {
            return Err(Error::Locked { path, age_s: 60 });
        };
        lock.note(&format!("{}\n", std::process::id()));
        config_file::heal(&self.repo.common_dir);
        refs::heal(&self.repo);
        locks::heal(&self.repo);
        objects::heal(&self.repo);
        files::heal(&dir);
        Ok(Held { _lock: lock })
    }

    /// All registrations, in the order of the file. One that is damaged is left out and named in the second list.
    pub fn registrations(&self) -> Result<(Vec<Registration>, Vec<String>)> {
        let config = config_file::read(&self.repo.common_dir)?;
        let (mut good, mut damaged) = (Vec::new(), Vec::new());
        for name in config.subsections("agent") {
            let get = |k: &str| config.value("agent", Some(&name), k);
            let parsed = (|| {
                Some(Registration {
                    name: Name(name.clone()),
                    id: AgentId(Oid::parse(&get("id")?)?.0),
                    branch: get("branch").filter(|b| b.starts_with("refs/heads/"))?,
                    base: get("base")?,
                    fork: Oid::parse(&get("fork")?)?,
                    ahead: get("ahead").and_then(|a| Oid::parse(&a)),
                    worktree: get("worktree").filter(|w| !w.is_empty() && !w.contains('/') && w != ".."),
                    doing: get("doing"),
                    path: get("path").map(PathBuf::from),
                })
            })();
            match parsed {
                Some(r) => good.push(r),
                None => damaged.push(name.clone()),
            }
        }
        Ok((good, damaged))
    }

    /// The keys and values that stand under `[agent "name"]`, sound or not.
    pub fn registration_values(&self, name: &str) -> Result<Vec<(String, String)>> {
        let config = config_file::read(&self.repo.common_dir)?;
        let keys = ["id", "branch", "base", "fork", "ahead", "worktree", "doing", "path"];
        Ok(keys.iter().filter_map(|k| Some(((*k).to_owned(), config.value("agent", Some(name), k)?))).collect())
    }

    /// Writes a registration as it now is, durably.
    pub fn register(&self, held: &Held, r: &Registration) -> Result<()> {
        self.register_all(held, std::slice::from_ref(r))
    }

    /// Writes several registrations in one durable step.
    pub fn register_all(&self, _held: &Held, all: &[Registration]) -> Result<()> {
        config_file::edit(&self.repo.common_dir, |c| {
            for r in all {
                let mut put = |key: &str, value: Option<&str>| match value {
                    Some(v) => c.set("agent", &r.name.0, key, v),
                    None => c.unset("agent", &r.name.0, key),
                };
                put("id", Some(&r.id.0));
                put("branch", Some(&r.branch));
                put("base", Some(&r.base));
                put("fork", Some(&r.fork.0));
                put("ahead", r.ahead.as_ref().map(|a| a.0.as_str()));
                put("worktree", r.worktree.as_deref());
                put("doing", r.doing.as_deref());
                put("path", r.path.as_ref().and_then(|p| p.to_str()));
            }
        })
    }

    /// Removes a registration, durably.
    pub fn unregister(&self, _held: &Held, name: &Name) -> Result<()> {
        config_file::edit(&self.repo.common_dir, |c| c.remove("agent", &name.0))
    }

    /// Writes a task object and the reference that keeps it, durably. The id of the agent is the object's.
    pub fn write_task(&self, _held: &Held, task: &Task) -> Result<AgentId> {
        let id = self.objects.write_blob(&task.to_bytes())?;
        refs::update_ours(&self.repo, &format!("{TASKS}{id}"), &id, None)?;
        Ok(AgentId(id.0))
    }

    /// Reads a task object.
    pub fn task(&self, id: &AgentId) -> Result<Task> {
        let damaged = |why: String| Error::Damaged { what: format!("task object {}", id.short()), why };
        let bytes = self.objects.blob(&Oid(id.0.clone()))?.ok_or_else(|| damaged("it is missing".into()))?;
        Task::parse(&bytes).map_err(damaged)
    }

    /// All task objects there ever were, by id; unreadable ones are left out.
    pub fn tasks(&self) -> Result<Vec<(AgentId, Task)>> {
        let refs = refs::list(&self.repo, &[TASKS])?;
        let ids = refs.into_values().map(|o| AgentId(o.0));
        Ok(ids.filter_map(|id| self.task(&id).ok().map(|t| (id, t))).collect())
    }

    /// The whole journal, by agent; empty where there is none.
    pub fn journal(&self) -> Result<Journals> {
        let (_, tip) = self.notes_tip(JOURNAL)?;
        let notes = tip.map_or(Ok(BTreeMap::new()), |tip| self.notes(&tip))?;
        let unread = |(key, blob)| (AgentId(key), (blob, OnceLock::new()));
        Ok(Journals { objects: self.objects.clone(), notes: notes.into_iter().map(unread).collect() })
    }

    /// One agent's journal.
    pub fn journal_of(&self, id: &AgentId) -> Result<Journal> {
        let (_, Some(tip)) = self.notes_tip(JOURNAL)? else { return Ok(Journal::default()) };
        let note = self.objects.note(&tip, &id.0)?;
        let bytes = note.map(|b| self.objects.blob(&b)).transpose()?.flatten().unwrap_or_default();
        Ok(Journal::parse(&bytes))
    }

    /// Adds events to the journal: acknowledged when this returns, and durable then.
    pub fn append(&self, held: &Held, events: &[Event]) -> Result<()> {
        let mut by_agent: BTreeMap<&AgentId, Vec<Event>> = BTreeMap::new();
        for e in events {
            by_agent.entry(&e.agent).or_default().push(e.clone());
        }
        let edits: Vec<(String, Box<Edit<'_>>)> = by_agent
            .into_iter()
            .map(|(id, events)| {
                let edit: Box<Edit<'_>> = Box::new(move |note: &[u8]| Journal::append(note, &events));
                (id.0.clone(), edit)
            })
            .collect();
        self.edit_notes(held, JOURNAL, &edits)
    }

    /// Adds a line for people to commits: the line that begins with the same agent's name is replaced.
    pub fn note_for_people(&self, held: &Held, lines: &[(Oid, String)]) -> Result<()> {
        let edits: Vec<(String, Box<Edit<'_>>)> = lines
            .iter()
            .map(|(commit, line)| {
                let edit: Box<Edit<'_>> = Box::new(move |note: &[u8]| {
                    let key =
                        line.split('\t').next().unwrap_or_default().split(':').next().unwrap_or_default().to_owned()
                            + ":";
                    let mut out = Vec::new();
                    for l in note.split(|b| *b == b'\n').filter(|l| !l.is_empty() && !l.starts_with(key.as_bytes())) {
                        out.extend_from_slice(l);
                        out.push(b'\n');
                    }
                    out.extend_from_slice(line.as_bytes());
                    out.push(b'\n');
                    out
                });
                (commit.0.clone(), edit)
            })
            .collect();
        self.edit_notes(held, PEOPLE, &edits)
    }

    /// The lines for people on a commit.
    pub fn people_say(&self, commit: &Oid) -> Result<String> {
        let (_, Some(tip)) = self.notes_tip(PEOPLE)? else { return Ok(String::new()) };
        let note = self.objects.note(&tip, &commit.0)?;
        let bytes = note.map(|b| self.objects.blob(&b)).transpose()?.flatten().unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What is known of a tree that was tested in the way `digest` says.
    pub fn verdict(&self, tree: &Oid, digest: &str) -> Result<Option<Verdict>> {
        let (_, Some(tip)) = self.notes_tip(TESTS)? else { return Ok(None) };
        // Lost is tested again, and so is damaged.
        let note = self.objects.note(&tip, &tree.0).unwrap_or_default();
        let bytes = note.and_then(|b| self.objects.blob(&b).ok().flatten()).unwrap_or_default();
        Ok(verdict::find(&bytes, digest))
    }

    /// Notes a verdict on a tree, durably.
    pub fn note_verdict(&self, held: &Held, tree: &Oid, verdict: &Verdict) -> Result<()> {
        let edit: Box<Edit<'_>> = Box::new(move |note: &[u8]| verdict::put(note, verdict));
        self.edit_notes(held, TESTS, &[(tree.0.clone(), edit)])
    }

    /// The value of a notes reference, and the same where it is a commit that can be read. Whatever else stands there
    /// (nothing, no id, another object) is like no notes: they are history, and what matters of it is built again.
    fn notes_tip(&self, reference: &str) -> Result<(Option<Oid>, Option<Oid>)> {
        let tip = match refs::read(&self.repo, reference) {
            Err(Error::Damaged { .. }) => None,
            other => other?,
        };
        let readable = tip.clone().filter(|t| matches!(self.objects.commit(t), Ok(Some(_))));
        Ok((tip, readable))
    }

    /// All notes below a notes commit: annotated id → blob. Any fan-out; a tree that cannot be read has none.
    fn notes(&self, tip: &Oid) -> Result<BTreeMap<String, Oid>> {
        let mut out = BTreeMap::new();
        let mut todo = vec![(String::new(), tip.clone())];
        while let Some((prefix, tree)) = todo.pop() {
            for e in self.objects.tree(&tree).unwrap_or_default() {
                let Ok(name) = String::from_utf8(e.name) else { continue };
                let key = format!("{prefix}{name}");
                if e.is_tree {
                    todo.push((key, e.id));
                } else if key.len() == self.repo.hex_len() {
                    out.insert(key, e.id);
                }
            }
        }
        Ok(out)
    }

    fn edit_notes(&self, _held: &Held, reference: &str, edits: &[(String, Box<Edit<'_>>)]) -> Result<()> {
        for _ in 0..20 {
            let (old, readable) = self.notes_tip(reference)?;
            if let (Some(odd), None) = (&old, &readable) {
                // Not ours, and nobody knows what it is: it goes on to exist under another name.
                let kept = format!("refs/agents/replaced/{}-{odd}", reference.trim_start_matches("refs/notes/"));
                if self.objects.has(odd) && refs::read(&self.repo, &kept)?.is_none() {
                    tracing::warn!(reference, %kept, "no notes were there; what was is kept");
                    refs::update_ours(&self.repo, &kept, odd, None)?;
                }
            }
            let readable = readable.as_ref();
            let mut written = Vec::new();
            for (key, edit) in edits {
                let there = readable.map_or(Ok(None), |tip| self.objects.note(tip, key))?;
                let before = there.map_or(Ok(None), |b| self.objects.blob(&b))?.unwrap_or_default();
                let after = edit(&before);
                if after != before {
                    written.push((key.clone(), after));
                }
            }
            if written.is_empty() {
                return Ok(());
            }
            let new = self.objects.write_notes(readable, &written, "agents\n")?;
            match refs::update_ours(&self.repo, reference, &new, old.as_ref()) {
                // Only a foreign writer can have been faster: we hold the lock.
                Err(Error::Moved { .. }) => {}
                other => return other,
            }
        }
        Err(Error::Moved { name: reference.to_owned() })
    }

    /// The folder of an agent's run: locks, records, logs.
    pub fn run_dir(&self, id: &AgentId) -> PathBuf {
        self.repo.agents_dir().join("run").join(&id.0)
    }
}

/// The journals of all agents as they were at one moment, each read when it is first asked for.
#[derive(Debug)]
pub struct Journals {
    objects: Objects,
    notes: HashMap<AgentId, (Oid, OnceLock<Option<Journal>>)>,
}

impl Journals {
    /// That of one agent; `None` where there is none, or none that can be read.
    pub fn get(&self, id: &AgentId) -> Option<&Journal> {
        let (blob, read) = self.notes.get(id)?;
        read.get_or_init(|| Some(Journal::parse(&self.objects.blob(blob).ok()??))).as_ref()
    }
}

type Edit<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

/// A new event, now, with a random id.
pub fn event(agent: &AgentId, kind: crate::model::event::Kind, more: serde_json::Value) -> Event {
    event_with_id(agent, kind, crate::runtime::clock::random_hex(8), more)
}

/// A new event with an id of the caller's: the same for all who may notice the same fact.
pub fn event_with_id(agent: &AgentId, kind: crate::model::event::Kind, id: String, more: serde_json::Value) -> Event {
    let more = match more {
        serde_json::Value::Object(m) => m,
        _ => serde_json::Map::new(),
    };
    Event::new(crate::runtime::clock::now(), id, agent.clone(), kind, more)
}
