//! The base: the branch an agent will land on, looked up once a command.

use super::{Context, Error, Result};
use crate::git::{refs, worktree};
use crate::model::agent::Oid;

/// A base, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// Full name of the branch, or the commit's id where it is none.
    pub name: String,
    /// Where it stands.
    pub commit: Oid,
    /// What was decided that the user did not say.
    pub note: Option<String>,
}

/// The base for `asked` (`--base`, a task's attribute, a setting), else the current branch. `@` is the current branch.
/// Where its upstream is strictly ahead, the upstream's commit is taken, and that is said.
pub fn resolve(ctx: &Context, asked: Option<&str>) -> Result<Base> {
    let repo = ctx.repo();
    let asked = asked.filter(|a| *a != "@");
    let current = match worktree::head(repo, &repo.git_dir) {
        worktree::Head::Branch(b) => Some(b),
        _ => None,
    };
    let (name, commit) = match asked {
        Some(rev) => {
            if rev.starts_with('-') {
                return Err(Error::refused(format!("'{rev}' is not a revision"), "name a branch, a tag or a commit"));
            }
            let mut found = None;
            for full in [rev.to_owned(), format!("refs/heads/{rev}"), format!("refs/remotes/{rev}")] {
                if full.starts_with("refs/")
                    && let Some(id) = refs::resolve_commit(repo, &full)?
                {
                    found = Some((full, id));
                    break;
                }
            }
            match found {
                Some(f) => f,
                None => match refs::resolve_commit(repo, rev)? {
                    Some(id) => (id.0.clone(), id),
                    None => {
                        return Err(Error::refused(
                            format!("base '{rev}' is not a branch or commit of this repository"),
                            "name one that 'git branch -a' lists",
                        ));
                    }
                },
            }
        }
        None => {
            let name = current.clone().unwrap_or_else(|| "HEAD".to_owned());
            let id = if name == "HEAD" {
                let admin = worktree::head(repo, &repo.git_dir);
                match admin {
                    worktree::Head::Detached(id) => Some(id),
                    _ => None,
                }
            } else {
                refs::resolve_commit(repo, &name)?
            };
            let Some(id) = id else {
                return Err(Error::refused("the repository has no commit yet", "make a first commit, then try again"));
            };
            if name == "HEAD" { (id.0.clone(), id) } else { (name, id) }
        }
    };
    // An agent's own branch as a base of the next one is fine; its upstream is not asked.
    if name.starts_with("refs/heads/")
        && let Some((upstream, ahead)) = upstream_ahead(ctx, &name, &commit)?
    {
        let note = format!(
            "'{}' is behind '{}'; starting from the latter",
            crate::model::task::short_ref(&name),
            crate::model::task::short_ref(&upstream)
        );
        return Ok(Base { name, commit: ahead, note: Some(note) });
    }
    Ok(Base { name, commit, note: None })
}

/// The upstream of a branch and its commit, where that is strictly ahead of `commit`.
pub(super) fn upstream_ahead(ctx: &Context, branch: &str, commit: &Oid) -> Result<Option<(String, Oid)>> {
    let repo = ctx.repo();
    let short = crate::model::task::short_ref(branch);
    if crate::git::config_file::read(&repo.common_dir)?.value("branch", Some(short), "merge").is_none() {
        return Ok(None);
    }
    let out = repo.call(["for-each-ref", "--format=%(upstream)", branch]).text()?;
    let upstream = out.lines().next().unwrap_or_default().to_owned();
    if !upstream.starts_with("refs/remotes/") {
        return Ok(None);
    }
    let Some(tip) = refs::resolve_commit(repo, &upstream)? else { return Ok(None) };
    if tip != *commit && ctx.state.objects.is_ancestor(commit, &tip)? {
        return Ok(Some((upstream, tip)));
    }
    Ok(None)
}
