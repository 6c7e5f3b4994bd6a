//! Trash entries whose description is damaged: what the capture, the folder and the journal still say of them.

use super::Context;
use super::remove::Entry;
use crate::git::{refs, worktree};
use crate::model::agent::{AgentId, Oid};
use crate::model::event::Kind;
use crate::place::files::RelPath as AnyPath;
use crate::runtime::{clock, files};
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The entry in `dir` as far as it can be told; `why`: what is wrong with its description. An entry of nobody knows whom
/// has no id.
pub(super) fn rebuilt(ctx: &Context, dir: &Path, why: String) -> Entry {
    let label = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let reference = format!("refs/agents/removed/{label}");
    let capture = refs::read(ctx.repo(), &reference).ok().flatten();
    let commit = capture.as_ref().and_then(|c| ctx.state.objects.commit(c).ok().flatten());
    let about: Value = commit.as_ref().and_then(|c| serde_json::from_str(&c.subject).ok()).unwrap_or_default();
    let text = |key: &str| about[key].as_str().map(str::to_owned);
    let admin = dir.join("admin");
    let line = |name: &str| {
        let bytes = files::read_limited(&admin.join(name), 1 << 12).ok()??;
        Some(bytes.trim_ascii().to_vec()).filter(|b| !b.is_empty())
    };
    let word = |name: &str| line(name).and_then(|b| String::from_utf8(b).ok());
    let id = text("agent").or_else(|| word("agents-token")).filter(|i| Oid::parse(i).is_some()).unwrap_or_default();
    let id = AgentId(id);
    let task = ctx.state.task(&id).ok();
    let task = task.as_ref();
    let path = line("gitdir").and_then(|b| Some(Path::new(OsStr::from_bytes(&b)).parent()?.to_owned()));
    let path = path.filter(|p| is_place(ctx, p));
    let tree =
        [Some(dir.join("tree")), path.as_ref().and_then(|p| Some(p.parent()?.join(".git-agents-trash").join(&label)))];
    let tree = tree.into_iter().flatten().find(|t| t.symlink_metadata().is_ok());
    let branch = text("branch")
        .or_else(|| word("HEAD").and_then(|h| Some(h.strip_prefix("ref:")?.trim().to_owned())))
        .or_else(|| task.map(|t| t.branch.clone()))
        .filter(|b| is_ref(b, "refs/heads/"));
    let now = branch.as_ref().and_then(|b| refs::read(ctx.repo(), b).ok().flatten());
    let journal = ctx.state.journal_of(&id).unwrap_or_default();
    let noted = journal.last(&Kind::Removed);
    // A capture's first parent is the tip, or the capture is the tip itself where there was no tree.
    let of_capture =
        commit.as_ref().and_then(|c| if about.is_null() { Some(c.id.clone()) } else { c.parents.first().cloned() });
    let tip = noted.and_then(|e| e.text("tip")).and_then(Oid::parse).or(of_capture).or_else(|| now.clone());
    let at = text("at").filter(|at| clock::parse(at).is_some()).or_else(|| noted.map(|e| e.at.clone()));
    let under_way = ctx.state.registrations().is_ok_and(|(all, _)| all.iter().any(|r| r.id == id && r.doing.is_some()));
    Entry {
        version: 1,
        name: text("name")
            .filter(|n| is_word(n))
            .or_else(|| task.map(|t| t.name.0.clone()))
            .unwrap_or_else(|| slug_of(&label)),
        at: at.unwrap_or_else(|| label.split('-').next().unwrap_or_default().to_owned()),
        branch_deleted: now.is_none() && tip.is_some() && branch.is_some(),
        branch: branch.unwrap_or_default(),
        base: text("base").filter(|b| is_word(b)).or_else(|| task.map(|t| t.base.clone())).unwrap_or_default(),
        fork: text("fork")
            .and_then(|f| Oid::parse(&f))
            .or_else(|| Some(task?.base_commit.clone()))
            .unwrap_or_else(|| Oid(String::new())),
        ahead: journal.last(&Kind::Commit).is_some().then(|| tip.clone()).flatten(),
        tip,
        worktree: tree
            .as_deref()
            .and_then(worktree::points_to)
            .and_then(|t| Some(t.file_name()?.to_str()?.to_owned()).filter(|id| is_plain(id))),
        missing: tree.is_none(),
        stands: false,
        tree: AnyPath(tree.unwrap_or_else(|| PathBuf::from("tree"))),
        path: path.map(AnyPath),
        repository: AnyPath(ctx.repo().common_dir.clone()),
        capture: capture.map(|_| reference),
        emptied: Vec::new(),
        complete: !under_way,
        expired: false,
        damaged: Some(why),
        id,
    }
}

/// What the captures of removals tell whose entries are gone from the trash, the last one of each agent; `there`: the
/// entries that are not.
pub(super) fn expired(ctx: &Context, there: &[(PathBuf, Entry)]) -> Vec<(PathBuf, Entry)> {
    let prefix = "refs/agents/removed/";
    let captures = refs::list(ctx.repo(), &[prefix]).unwrap_or_default().into_iter();
    let top = ctx.repo().agents_dir().join("trash");
    // One that was given back since, and may have been removed again, is no capture of anything that is gone.
    let living = ctx.state.registrations().map(|(all, _)| all).unwrap_or_default().into_iter().map(|r| r.id);
    let living: HashSet<AgentId> = living.chain(there.iter().map(|(_, e)| e.id.clone())).collect();
    let entry = |(name, _): (String, Oid)| {
        let label = name.strip_prefix(prefix)?;
        let dir = top.join(label);
        if !is_label(OsStr::new(label)) || dir.symlink_metadata().is_ok() {
            return None;
        }
        let entry = Entry { damaged: None, expired: true, ..rebuilt(ctx, &dir, String::new()) };
        (is_whole(&entry) && !living.contains(&entry.id)).then_some((dir, entry))
    };
    let mut out: BTreeMap<String, (PathBuf, Entry)> = BTreeMap::new();
    for (dir, entry) in captures.filter_map(entry) {
        if out.get(&entry.id.0).is_none_or(|(_, known)| known.at <= entry.at) {
            out.insert(entry.id.0.clone(), (dir, entry));
        }
    }
    out.into_values().collect()
}

/// Whether a folder is called as entries of ours are, `20260101t120000z-<slug>-<hex>`: anything else in the trash is
/// somebody else's, and neither touched nor in the way.
pub(super) fn is_label(name: &OsStr) -> bool {
    let Some((time, rest)) = name.to_str().and_then(|n| n.split_once('-')) else { return false };
    let digits = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| b.is_ascii_digit());
    let is_time = time
        .strip_suffix('z')
        .and_then(|t| t.split_once('t'))
        .is_some_and(|(day, hour)| digits(day, 8) && digits(hour, 6));
    is_time
        && rest.rsplit_once('-').is_some_and(|(_, hex)| hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The folders of the trash that are ours by their name.
pub(super) fn folders(ctx: &Context) -> Vec<PathBuf> {
    let top = ctx.repo().agents_dir().join("trash");
    let all = std::fs::read_dir(top).into_iter().flatten().filter_map(std::result::Result::ok);
    all.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()) && is_label(&e.file_name())).map(|e| e.path()).collect()
}

/// `dir`, where it still is an entry of the trash: somebody may have given it back meanwhile.
pub(super) fn is_there<'a>(ctx: &Context, dir: &'a Path) -> Option<&'a Path> {
    folders(ctx).iter().any(|d| d == dir).then_some(dir).filter(|d| d.join("entry.json").is_file())
}

/// The slug in such a name.
fn slug_of(label: &str) -> String {
    let rest = label.split_once('-').map_or(label, |(_, r)| r);
    rest.rsplit_once('-').map_or(rest, |(slug, _)| slug).to_owned()
}

/// The first key of `entry` that no removal would have written: what it says becomes paths, references and words on a
/// terminal.
pub(super) fn wrong(ctx: &Context, dir: &Path, entry: &Entry) -> Option<&'static str> {
    let id = |o: &Oid| Oid::parse(&o.0).is_some();
    let tree = &*entry.tree;
    let beside = tree.is_absolute()
        && is_straight(tree)
        && tree.file_name() == dir.file_name()
        && tree.parent().and_then(Path::file_name).is_some_and(|n| n == ".git-agents-trash");
    let sound = [
        ("id", Oid::parse(&entry.id.0).is_some()),
        ("name", is_word(&entry.name)),
        ("at", clock::parse(&entry.at).is_some()),
        ("branch", is_ref(&entry.branch, "refs/heads/")),
        ("tip", entry.tip.as_ref().is_none_or(id)),
        ("base", is_word(&entry.base)),
        ("fork", id(&entry.fork)),
        ("ahead", entry.ahead.as_ref().is_none_or(id)),
        ("worktree", entry.worktree.as_deref().is_none_or(is_plain)),
        ("path", entry.path.as_ref().is_none_or(|p| is_place(ctx, p))),
        ("tree", tree == Path::new("tree") || beside),
        ("capture", entry.capture.as_deref().is_none_or(|c| is_ref(c, "refs/agents/"))),
    ];
    sound.into_iter().find(|(_, sound)| !sound).map(|(key, _)| key)
}

/// One line of what is seen.
fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(['\n', '\t']) && crate::model::text::invisible(text).is_none()
}

/// The name of one file.
fn is_plain(name: &str) -> bool {
    is_word(name) && !name.contains('/') && name != "." && name != ".."
}

fn is_ref(name: &str, below: &str) -> bool {
    name.strip_prefix(below).is_some_and(|rest| rest.split('/').all(|part| is_plain(part) && !part.starts_with('.')))
}

fn is_straight(path: &Path) -> bool {
    path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
}

/// Where a tree may stand: anywhere but where git keeps its own. Below a bare repository people do have worktrees.
fn is_place(ctx: &Context, path: &Path) -> bool {
    let gits = ["hooks", "info", "objects", "refs", "logs", "worktrees", "modules", "agents"];
    let inside = path.strip_prefix(&ctx.repo().common_dir).is_ok_and(|rest| {
        let first = rest.components().next().and_then(|c| c.as_os_str().to_str());
        ctx.repo().main_worktree.is_some() || first.is_none_or(|f| gits.contains(&f))
    });
    path.is_absolute() && is_straight(path) && !inside
}

/// Whether enough is known of `entry` to give it back.
pub(super) fn is_whole(entry: &Entry) -> bool {
    !entry.id.0.is_empty() && !entry.branch.is_empty() && !entry.fork.0.is_empty()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_folder_names_its_agent() {
        assert_eq!(super::slug_of("20260101t120000z-csv-export-0a1b2c3d"), "csv-export");
        assert_eq!(super::slug_of("odd"), "odd");
    }
}
