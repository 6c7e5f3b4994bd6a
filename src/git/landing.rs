//! Whether work is in a base: git's own merges and patch ids, asked where neither a setting nor an attribute counts.
//!
//! `git cherry` is not asked: it calls a change that differs in white space alone the same (measured).

use super::merge::{self, Merge};
use super::repo::Repo;
use super::store::Store;
use super::{Error, Result, sterile};
use crate::model::agent::Oid;

/// Where trials are made; gone when dropped.
#[derive(Debug)]
pub struct Trials {
    store: Store,
}

/// All but the commits that decides an answer: for a cache.
pub fn rules(repo: &Repo) -> Result<String> {
    Ok(format!("{} {:?}", repo.version, sterile::replacements(repo)?))
}

impl Trials {
    /// A new, empty place.
    pub fn open(repo: &Repo) -> Result<Trials> {
        Ok(Trials { store: Store::plain(repo)? })
    }

    /// For each `(into, tip)`: whether merging `tip` is clean and adds nothing; `None` where that could not be told.
    pub fn adds_nothing(&self, pairs: &[(Oid, Oid)]) -> Result<Vec<Option<bool>>> {
        let merges = merge::all(&self.store, None, pairs)?;
        let same = |(m, (into, _)): (Merge, &(Oid, Oid))| match m {
            Merge::Clean(tree) => Ok(self.store.objects().commit(into)?.map(|c| c.tree == tree)),
            Merge::Conflict(_) => Ok(Some(false)),
            Merge::Unknown(_) => Ok(None),
        };
        merges.into_iter().zip(pairs).map(same).collect()
    }

    /// The verbatim patch id of the whole difference of each two trees, which must differ.
    pub fn patch_ids(&self, trees: &[(Oid, Oid)]) -> Result<Vec<String>> {
        if trees.is_empty() {
            return Ok(Vec::new());
        }
        let dir = self.store.attributes_of(None)?;
        let lines: String = trees.iter().map(|(a, b)| format!("{a} {b}\n")).collect();
        let how = ["diff-tree", "--stdin", "-r", "-p", "--full-index", "--binary", "--no-renames"];
        let patches = self.store.call(&dir, &how).input(lines).run()?;
        let ids = self.store.call(&dir, &["patch-id", "--verbatim"]).input(patches).text()?;
        let ids: Vec<(&str, &str)> = ids.lines().filter_map(|l| l.split_once(' ')).collect();
        let whole = ids.len() == trees.len() && ids.iter().zip(trees).all(|((_, of), (a, _))| *of == a.0);
        match whole {
            true => Ok(ids.into_iter().map(|(id, _)| id.to_owned()).collect()),
            false => Err(Error::Object("git patch-id gave an answer of another form".into())),
        }
    }

    /// Of the paths that `to` lacks and its parent `from` had, those that another path did not take over.
    pub fn really_deleted(&self, from: &Oid, to: &Oid) -> Result<Vec<Vec<u8>>> {
        let dir = self.store.attributes_of(None)?;
        let how = ["diff-tree", "-r", "-z", "-M", "--name-only", "--diff-filter=D", &from.0, &to.0];
        let out = self.store.call(&dir, &how).run()?;
        Ok(out.split(|b| *b == 0).filter(|p| !p.is_empty()).map(<[u8]>::to_vec).collect())
    }
}
