//! What is known of commits, on disk: what has not changed costs nothing. Expendable, and never believed without its digest.
//!
//! One file of lines `<key> <digest> <answer>`, read at once and replaced by one rename. The key is a digest of all that
//! decides the answer, so an entry is never wrong, only no longer asked for; a line that does not match its own digest
//! is ignored. Two writers at once lose each other's new lines and nothing else.

use crate::git::objects::digest;
use crate::git::repo::Repo;
use crate::runtime::files;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// More lines are not kept; those that were not asked for go first.
const MOST: usize = 40_000;
/// Nor more bytes.
const LARGEST: usize = 16 << 20;

/// One cache of a repository.
#[derive(Debug)]
pub(super) struct Cache {
    /// `None` where nothing of ours may be kept.
    path: Option<PathBuf>,
    /// Key to the rest of its line.
    stored: HashMap<String, String>,
    asked: BTreeMap<String, String>,
    is_new: bool,
}

impl Cache {
    /// Reads the one called `name`; empty where it is missing or damaged.
    pub(super) fn read(repo: &Repo, name: &str) -> Cache {
        let agents = repo.agents_dir();
        // A reader in a repository that has no state of ours leaves none behind.
        let path = agents.is_dir().then(|| agents.join("cache").join(name));
        let bytes = path.as_ref().and_then(|p| files::read_limited(p, 2 * LARGEST as u64).ok().flatten());
        let text = String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
        let line = |l: &str| l.split_once(' ').map(|(k, rest)| (k.to_owned(), rest.to_owned()));
        Cache { path, stored: text.lines().filter_map(line).collect(), asked: BTreeMap::new(), is_new: false }
    }

    /// The answer for `key`, where there is one that is whole.
    pub(super) fn find<T: DeserializeOwned>(&mut self, key: &str) -> Option<T> {
        let rest = self.asked.get(key).or_else(|| self.stored.get(key))?.clone();
        let (sum, json) = rest.split_once(' ')?;
        if sum != check(key, json) {
            return None;
        }
        let found = serde_json::from_str(json).ok()?;
        self.asked.insert(key.to_owned(), rest);
        Some(found)
    }

    /// Keeps an answer.
    pub(super) fn keep(&mut self, key: &str, answer: &impl Serialize) {
        let Ok(json) = serde_json::to_string(answer) else { return };
        self.is_new = true;
        self.asked.insert(key.to_owned(), format!("{} {json}", check(key, &json)));
    }

    /// Writes it where something is new. A failure is no failure: it is asked again next time.
    pub(super) fn write(&mut self) {
        let Some(path) = self.path.as_ref().filter(|_| self.is_new) else { return };
        let rest = self.stored.iter().filter(|(k, _)| !self.asked.contains_key(*k));
        let mut text = String::new();
        for (key, line) in self.asked.iter().chain(rest).take(MOST) {
            if text.len() + key.len() + line.len() > LARGEST {
                break;
            }
            text.extend([key, " ", line, "\n"]);
        }
        let dir = path.parent().map(files::ensure_private_dir);
        if let Some(Err(e)) = dir {
            tracing::debug!(%e, "no place for the cache");
            return;
        }
        match files::write_atomic(path, text.as_bytes()) {
            Ok(()) => self.is_new = false,
            Err(e) => tracing::debug!(%e, "the cache was not written"),
        }
    }
}

fn check(key: &str, json: &str) -> String {
    digest(&[key, json]).chars().take(12).collect()
}
