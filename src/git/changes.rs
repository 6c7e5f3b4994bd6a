//! What differs between two trees, file by file: raw, no rename followed.

use super::objects::{Objects, from_gix, to_gix};
use super::{Error, Result};
use crate::model::agent::Oid;
use crate::model::meet::{ChangeSet, Delta, Entry};
use gix::ObjectId;

struct Item {
    name: Vec<u8>,
    mode: u16,
    is_tree: bool,
    id: ObjectId,
}

/// What has to be done to the tree (or commit) `from` to get `to`.
pub fn between(objects: &Objects, from: &Oid, to: &Oid) -> Result<ChangeSet> {
    let mut walk = Walk { repo: objects.local(), path: Vec::new(), out: ChangeSet::default() };
    walk.trees(Some(to_gix(from)?), Some(to_gix(to)?))?;
    Ok(walk.out)
}

struct Walk {
    repo: gix::Repository,
    path: Vec<u8>,
    out: ChangeSet,
}

impl Walk {
    fn items(&self, id: Option<ObjectId>) -> Result<Vec<Item>> {
        let why = |e: &dyn std::fmt::Display| Error::Object(e.to_string());
        let Some(id) = id else { return Ok(Vec::new()) };
        let tree = self.repo.find_object(id).map_err(|e| why(&e))?.peel_to_tree().map_err(|e| why(&e))?;
        let decoded = tree.decode().map_err(|e| why(&e))?;
        let item = |e: &gix::objs::tree::EntryRef<'_>| Item {
            name: e.filename.to_vec(),
            mode: e.mode.value(),
            is_tree: e.mode.is_tree(),
            id: e.oid.to_owned(),
        };
        let mut items: Vec<Item> = decoded.entries.iter().map(item).collect();
        // git sorts directories as if their names ended in a slash.
        items.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(items)
    }

    fn trees(&mut self, from: Option<ObjectId>, to: Option<ObjectId>) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let (old, new) = (self.items(from)?, self.items(to)?);
        let (mut a, mut b) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let order = match (a.peek(), b.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(x), Some(y)) => x.name.cmp(&y.name),
            };
            let x = if order.is_le() { a.next() } else { None };
            let y = if order.is_ge() { b.next() } else { None };
            self.item(x, y)?;
        }
    }

    fn item(&mut self, x: Option<&Item>, y: Option<&Item>) -> Result<()> {
        if let (Some(x), Some(y)) = (x, y)
            && x.id == y.id
            && x.mode == y.mode
        {
            return Ok(());
        }
        let before = self.path.len();
        self.path.extend_from_slice(x.or(y).map_or(&[], |i| &i.name));
        let file = |i: Option<&Item>| i.filter(|i| !i.is_tree).map(|i| Entry { mode: i.mode, id: from_gix(i.id) });
        let (old, new) = (file(x), file(y));
        if old.is_some() || new.is_some() {
            self.out.files.insert(self.path.clone(), Delta { old, new });
        }
        let tree = |i: Option<&Item>| i.filter(|i| i.is_tree).map(|i| i.id);
        let (from, to) = (tree(x), tree(y));
        if from.is_some() && to.is_none() {
            self.out.gone.insert(self.path.clone());
        }
        if from.is_some() || to.is_some() {
            self.path.push(b'/');
            self.trees(from, to)?;
        }
        self.path.truncate(before);
        Ok(())
    }
}
