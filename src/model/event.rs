//! The journal's lines and what they add up to.
//!
//! One line is one event, one JSON object. Unknown kinds and keys are kept byte for byte and shown as unknown;
//! a line that is not an event is kept and counted. Events are a set: order in the file means nothing, `id` names
//! one, folding sorts by time and then id.

use super::agent::AgentId;
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// What happened. A closed list, with one door for what later versions write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Kind {
    /// The agent was registered.
    Created,
    /// An attempt began.
    Attempt,
    /// An own commit.
    Commit,
    /// The supervisor settled.
    Exited,
    /// Tests ran.
    Tested,
    /// A report was made.
    Report,
    /// The branch was rebased on its base.
    Synced,
    /// The branch has another name.
    Renamed,
    /// The work is in the base.
    Landed,
    /// The environment went to the trash.
    Removed,
    /// It came back.
    Restored,
    /// A database was made or dropped.
    Database,
    /// Written by a later version: kept, shown, otherwise ignored.
    Other(String),
}

/// The words in the journal.
const KINDS: [(&str, Kind); 12] = [
    ("created", Kind::Created),
    ("attempt", Kind::Attempt),
    ("commit", Kind::Commit),
    ("exited", Kind::Exited),
    ("tested", Kind::Tested),
    ("report", Kind::Report),
    ("synced", Kind::Synced),
    ("renamed", Kind::Renamed),
    ("landed", Kind::Landed),
    ("removed", Kind::Removed),
    ("restored", Kind::Restored),
    ("database", Kind::Database),
];

impl Kind {
    /// The word in the journal.
    pub fn word(&self) -> &str {
        match self {
            Kind::Other(word) => word,
            known => KINDS.iter().find(|(_, k)| k == known).map_or("", |(word, _)| word),
        }
    }
}

impl From<String> for Kind {
    fn from(word: String) -> Kind {
        match KINDS.iter().find(|(w, _)| *w == word) {
            Some((_, kind)) => kind.clone(),
            None => Kind::Other(word),
        }
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> String {
        kind.word().to_owned()
    }
}

/// One line of the journal.
#[derive(Debug, Clone)]
pub struct Event {
    /// RFC 3339, UTC.
    pub at: String,
    /// Unique; a deterministic one where several may notice the same fact.
    pub id: String,
    /// Whose.
    pub agent: AgentId,
    /// What.
    pub kind: Kind,
    /// Its note, and where it is there: of most lines of a journal nobody wants the rest.
    line: (Arc<[u8]>, Range<usize>),
    more: OnceLock<Map<String, Value>>,
}

/// What every event has.
#[derive(Deserialize)]
struct Head {
    at: String,
    id: String,
    agent: AgentId,
    kind: Kind,
}

impl Event {
    /// A new one. Of `more` nothing is a path, pid, port or secret.
    pub fn new(at: String, id: String, agent: AgentId, kind: Kind, more: Map<String, Value>) -> Event {
        Event { at, id, agent, kind, line: (Arc::default(), 0..0), more: OnceLock::from(more) }
    }

    /// Reads a line of a note; `None` where it is no event.
    fn parse(note: &Arc<[u8]>, line: Range<usize>) -> Option<Event> {
        let bytes = &note[line.clone()];
        let Head { at, id, agent, kind } = serde_json::from_slice(bytes).ok()?;
        // A struct is read from a list as well.
        let is_object = bytes.trim_ascii_start().starts_with(b"{");
        is_object.then(|| Event { at, id, agent, kind, line: (note.clone(), line), more: OnceLock::new() })
    }

    /// The rest, by kind.
    pub fn more(&self) -> &Map<String, Value> {
        self.more.get_or_init(|| {
            let (note, line) = &self.line;
            let mut all: Map<String, Value> = serde_json::from_slice(&note[line.clone()]).unwrap_or_default();
            ["at", "id", "agent", "kind"].iter().for_each(|key| drop(all.shift_remove(*key)));
            all
        })
    }

    /// A string among the rest.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.more().get(key).and_then(Value::as_str)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        let head = (&self.at, &self.id, &self.agent, &self.kind);
        head == (&other.at, &other.id, &other.agent, &other.kind) && self.more() == other.more()
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("at", &self.at)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("agent", &self.agent)?;
        map.serialize_entry("kind", &self.kind)?;
        for (key, value) in self.more() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The events of one note, and the lines that are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Journal {
    /// Sorted by time and id, each id once.
    pub events: Vec<Event>,
    /// Lines that are no event, verbatim, kept on every rewrite.
    pub damaged: Vec<Vec<u8>>,
}

impl Journal {
    /// Reads a note. Never fails: what cannot be read is counted and kept.
    pub fn parse(bytes: &[u8]) -> Journal {
        let mut out = Journal::default();
        let note: Arc<[u8]> = bytes.into();
        let mut at = 0;
        for line in bytes.split(|b| *b == b'\n') {
            let range = at..at + line.len();
            at = range.end + 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            match Event::parse(&note, range) {
                Some(e) => out.events.push(e),
                None => out.damaged.push(line.to_vec()),
            }
        }
        out.sort();
        out
    }

    fn sort(&mut self) {
        self.events.sort_by(|a, b| (&a.at, &a.id).cmp(&(&b.at, &b.id)));
        let mut seen = std::collections::HashSet::with_capacity(self.events.len());
        let mut first = self.events.iter().map(|e| seen.insert(e.id.as_str())).collect::<Vec<_>>().into_iter();
        self.events.retain(|_| first.next() == Some(true));
    }

    /// `note` with `events` added: every line of `note` stays as it is, events already there are not added again.
    /// The union of two notes is the same with the other's lines.
    pub fn append(note: &[u8], events: &[Event]) -> Vec<u8> {
        let known: std::collections::HashSet<String> = Journal::parse(note).events.into_iter().map(|e| e.id).collect();
        let mut out = note.to_vec();
        for e in events.iter().filter(|e| !known.contains(&e.id)) {
            if !out.is_empty() && !out.ends_with(b"\n") {
                out.push(b'\n');
            }
            out.extend(serde_json::to_vec(e).expect("an event is plain JSON"));
            out.push(b'\n');
        }
        out
    }

    /// The last event of `kind`.
    pub fn last(&self, kind: &Kind) -> Option<&Event> {
        self.events.iter().rev().find(|e| &e.kind == kind)
    }

    /// All events of `kind`, oldest first.
    pub fn all<'a>(&'a self, kind: &'a Kind) -> impl Iterator<Item = &'a Event> {
        self.events.iter().filter(move |e| &e.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(id: &str, kind: &str) -> String {
        format!(r#"{{"at":"2026-01-01T00:00:00Z","id":"{id}","agent":"ab","kind":"{kind}","v":7,"x":{{"y":[1]}}}}"#)
    }

    #[test]
    fn a_later_versions_kind_survives_a_round_trip() {
        let line = event("1", "teleported");
        let j = Journal::parse(line.as_bytes());
        let list = Journal::parse(b"[\"2026-01-01T00:00:00Z\",\"1\",\"ab\",\"created\"]");
        assert_eq!((list.events.len(), list.damaged.len()), (0, 1));
        assert_eq!(j.events[0].kind, Kind::Other("teleported".into()));
        assert_eq!(serde_json::to_string(&j.events[0]).unwrap(), line);
    }

    #[test]
    fn damaged_lines_are_kept_and_the_rest_is_read() {
        let note = format!(
            "{{\"por\n{}\r\n\0\0\n\u{fffd}\n{}\n{}",
            event("1", "created"),
            event("2", "exited"),
            event("1", "created")
        );
        let j = Journal::parse(note.as_bytes());
        assert_eq!((j.events.len(), j.damaged.len()), (2, 3));
        let more = Journal::append(note.as_bytes(), &j.events);
        assert_eq!(more, note.as_bytes(), "nothing new, so not a byte changes");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_and_kept(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let good = event("z", "created");
            let e = Journal::parse(good.as_bytes()).events.remove(0);
            let out = Journal::append(&bytes, std::slice::from_ref(&e));
            prop_assert!(out.starts_with(&bytes));
            prop_assert!(Journal::parse(&out).events.iter().any(|x| x.id == "z"));
            prop_assert_eq!(Journal::append(&out, &[e]), out);
        }

        #[test]
        fn folding_is_a_union(order in Just((0..6).collect::<Vec<i32>>()).prop_shuffle()) {
            let note: String = order.iter().map(|i| event(&i.to_string(), "commit") + "\n").collect();
            let ids: Vec<_> = Journal::parse(note.as_bytes()).events.into_iter().map(|e| e.id).collect();
            prop_assert_eq!(ids, ["0", "1", "2", "3", "4", "5"]);
        }
    }
}
