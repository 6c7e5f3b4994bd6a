//! Names for new agents, their branches and directories: checked before anything is made.

use super::base::Base;
use super::{Context, Error, Result};
use crate::config::template;
use crate::git::command::Call;
use crate::git::refs;
use crate::model::agent::Slug;
use crate::model::tasks::check_name;
use crate::model::text::shown_path;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What stands in the way of new names: read once, asked many times.
#[derive(Debug)]
pub struct Taken {
    names: BTreeSet<String>,
    slugs: BTreeSet<String>,
    branches: BTreeSet<String>,
    remote: BTreeSet<String>,
    remotes: BTreeSet<String>,
}

impl Taken {
    /// Reads names of agents and of branches.
    pub fn read(ctx: &Context) -> Result<Taken> {
        let (registered, damaged) = ctx.state.registrations()?;
        let mut names: BTreeSet<String> = registered.iter().map(|r| r.name.0.clone()).collect();
        names.extend(damaged);
        let refs = refs::list(ctx.repo(), &["refs/heads/", "refs/remotes/"])?;
        let branches = refs.keys().filter_map(|r| r.strip_prefix("refs/heads/")).map(str::to_owned).collect();
        let remote = refs
            .keys()
            .filter_map(|r| r.strip_prefix("refs/remotes/"))
            .filter_map(|r| r.split_once('/').map(|(_, b)| b.to_owned()))
            .filter(|b| b != "HEAD")
            .collect();
        let mut remotes: BTreeSet<String> =
            refs.keys().filter_map(|r| Some(r.strip_prefix("refs/remotes/")?.split_once('/')?.0.to_owned())).collect();
        remotes.extend(crate::git::config_file::read(&ctx.repo().common_dir)?.subsections("remote"));
        let slugs = names.iter().map(|n| Slug::of(n).0).collect();
        Ok(Taken { names, slugs, branches, remote, remotes })
    }

    /// Why `branch` (short) cannot be made for an agent called `name`; `None` where it can.
    pub fn obstacle(&self, name: &str, branch: &str) -> Option<String> {
        let slug = Slug::of(name);
        let twin = self.names.iter().find(|n| n.eq_ignore_ascii_case(name));
        let twin = twin.or_else(|| self.names.iter().find(|n| self.slugs.contains(&slug.0) && Slug::of(n) == slug));
        if let Some(twin) = twin {
            let why = if twin == name { "" } else { ", and some systems take the two for one" };
            return Some(format!("an agent named '{twin}' exists already{why}"));
        }
        let of = |remote: &&String| branch.strip_prefix(remote.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if let Some(remote) = self.remotes.iter().find(of) {
            return Some(format!("'{branch}' is what a branch of the remote '{remote}' is called"));
        }
        for (kind, set) in [("branch", &self.branches), ("remote branch", &self.remote)] {
            for b in set {
                if b.eq_ignore_ascii_case(branch) {
                    return Some(format!("a {kind} named '{b}' exists already"));
                }
                let clash = branch.strip_prefix(b.as_str()).is_some_and(|r| r.starts_with('/'))
                    || b.strip_prefix(branch).is_some_and(|r| r.starts_with('/'));
                if clash {
                    return Some(format!(
                        "the {kind} '{b}' stands in the way of '{branch}' (a name cannot be a folder too)"
                    ));
                }
            }
        }
        None
    }

    /// From now on these are taken too.
    pub fn take(&mut self, name: &str, branch: &str) {
        self.names.insert(name.to_owned());
        self.slugs.insert(Slug::of(name).0);
        self.branches.insert(branch.to_owned());
    }

    /// A free name like `name`, with the branch it would get.
    pub fn free_like(&self, name: &str, prefix: &str) -> (String, String) {
        let candidates =
            std::iter::once(name.to_owned()).chain((2..).map(|i| format!("{}-{i}", name.replace('/', "-"))));
        for c in candidates {
            let branch = format!("{prefix}{c}");
            if check_name(&c).is_ok() && self.obstacle(&c, &branch).is_none() {
                return (c, branch);
            }
        }
        unreachable!("there are infinitely many names")
    }
}

/// What is to be decided for one environment.
#[derive(Debug)]
pub struct Wish<'a> {
    /// The handle.
    pub name: &'a str,
    /// The branch, short.
    pub branch: &'a str,
    /// The base.
    pub base: &'a Base,
    /// The directory template.
    pub dir: &'a str,
    /// The batch.
    pub batch: Option<u64>,
}

/// Checks a name for `new`: clear refusals, and a free name proposed.
pub fn check_new_name(taken: &Taken, name: &str) -> Result<()> {
    check_name(name).map_err(|why| Error::Refused {
        what: why,
        hint: Some("choose letters, digits, '-', '_', '.' and '/'".into()),
    })?;
    if let Some(why) = taken.obstacle(name, name) {
        let hint = if taken.branches.contains(name) && !taken.names.contains(name) {
            format!(
                "'git agents adopt {name}' takes the branch as it is; a free name would be '{}'",
                taken.free_like(name, "").0
            )
        } else {
            format!("a free name would be '{}'", taken.free_like(name, "").0)
        };
        return Err(Error::refused(why, hint));
    }
    Ok(())
}

/// Where the tree of `name` goes: absolute, free, outside every worktree and git directory.
pub fn place(ctx: &Context, wish: &Wish<'_>) -> Result<PathBuf> {
    let repo = ctx.repo();
    let slug = Slug::of(wish.name);
    let mut values: BTreeMap<&'static str, String> = BTreeMap::new();
    values.insert("name", wish.name.to_owned());
    values.insert("slug", slug.0);
    values.insert("branch", wish.branch.to_owned());
    values.insert("base", crate::model::task::short_ref(&wish.base.name).to_owned());
    values.insert("repo", repo.label());
    values.insert("batch", wish.batch.map(|b| b.to_string()).unwrap_or_default());
    values.insert("id", String::new());
    values.insert("main", repo.main_worktree.as_ref().map(|p| p.display().to_string()).unwrap_or_default());
    let rendered = template::render(wish.dir, &values)
        .map_err(|e| Error::refused(e.to_string(), "see 'worktree.dir' in the manual"))?;
    let mut path = crate::git::worktree::normalize(&repo.anchor().join(&rendered));
    if let Some(outermost) = superproject(ctx)?.filter(|s| path.starts_with(s)) {
        // As if the submodule stood beside it: in there its files would be the superproject's.
        path = crate::git::worktree::normalize(&outermost.with_file_name(repo.label()).join(&rendered));
        if path.starts_with(&outermost) {
            let what =
                format!("'{}' is in the checkout of the superproject '{}'", shown_path(&path), shown_path(&outermost));
            return Err(Error::refused(what, "set 'worktree.dir' to a place outside of it"));
        }
    }
    let name = path.file_name().map_or(0, |n| n.len());
    if name > 200 || path.as_os_str().len() > 3500 {
        return Err(Error::refused(
            format!("the path '{}' would be too long", shown_path(&path)),
            "choose a shorter name, or set 'worktree.dir'",
        ));
    }
    if path.to_str().is_none_or(|p| p.contains('\n') || p.contains('\r')) {
        return Err(Error::refused(
            "the worktree's path would not be plain text",
            "set 'worktree.dir' to another place",
        ));
    }
    Ok(path)
}

/// The checkout of the outermost superproject, where this repository is a submodule.
pub fn superproject(ctx: &Context) -> Result<Option<PathBuf>> {
    let mut outermost: Option<PathBuf> = None;
    while let Some(at) = outermost.as_ref().or(ctx.repo().main_worktree.as_ref()) {
        // Git is asked only where there is something to ask about.
        if !at.ancestors().skip(1).any(|dir| dir.join(".git").symlink_metadata().is_ok()) {
            break;
        }
        match Call::new(at, ["rev-parse", "--show-superproject-working-tree"]).text()? {
            above if above.is_empty() || !at.starts_with(&above) || at == Path::new(&above) => break,
            above => outermost = Some(above.into()),
        }
    }
    Ok(outermost)
}

/// Refuses a directory that exists: empty, an old worktree, or foreign.
pub fn check_free(path: &Path) -> Result<()> {
    let Ok(meta) = std::fs::symlink_metadata(path) else { return Ok(()) };
    let what = if !meta.is_dir() {
        "a file"
    } else if std::fs::read_dir(path).is_ok_and(|mut d| d.next().is_none()) {
        "an empty directory"
    } else if path.join(".git").symlink_metadata().is_ok() {
        "an old worktree or another repository"
    } else {
        "a directory with files of someone else"
    };
    Err(Error::refused(
        format!("'{}' exists already ({what})", shown_path(path)),
        "move it away or choose another name; nothing was changed",
    ))
}
