//! Commands for a person to copy: each name in them is one word for a shell and means one thing to git.

use super::{Context, Result};
use crate::git::refs;
use crate::model::task::short_ref;
use crate::model::text::shell_word;
use std::collections::BTreeSet;

/// What a short name could mean in this repository.
#[derive(Debug)]
pub struct Typed {
    refs: BTreeSet<String>,
    remote: Option<String>,
}

impl Typed {
    /// Reads references and remotes.
    pub fn read(ctx: &Context) -> Result<Typed> {
        let refs = refs::list(ctx.repo(), &["refs/heads/", "refs/tags/", "refs/remotes/"])?.into_keys().collect();
        Ok(Typed { refs, remote: remotes(ctx)?.and_then(std::result::Result::ok) })
    }

    /// A branch by its short name, or by its full one where the short one means something else as well.
    pub fn rev(&self, full: &str) -> String {
        let short = short_ref(full);
        // The order in which git looks a name up.
        let others = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
        let taken = others.iter().map(|o| format!("{o}{short}")).any(|r| r != full && self.refs.contains(&r));
        let is_own_of_git = !short.is_empty() && short.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
        let ambiguous = taken || is_own_of_git || short.starts_with(['-', '@']) || looks_like_an_id(short);
        shell_word(if ambiguous { full } else { short }).into_owned()
    }

    /// Where branches are pushed to: `origin`, or the only remote there is.
    pub fn remote(&self) -> Option<String> {
        self.remote.as_deref().map(|r| shell_word(r).into_owned())
    }
}

/// `origin`, or the only remote there is; several others as an error that lists them. `None` where there is none.
pub fn remotes(ctx: &Context) -> Result<Option<std::result::Result<String, Vec<String>>>> {
    let settings = ctx.repo().settings()?;
    let named = settings.iter().filter_map(|(_, k, _)| k.strip_prefix("remote.")?.strip_suffix(".url"));
    let names: BTreeSet<&str> = named.collect();
    Ok(match (names.contains("origin"), names.len()) {
        (true, _) => Some(Ok("origin".to_owned())),
        (false, 0) => None,
        (false, 1) => names.first().map(|only| Ok((*only).to_owned())),
        _ => Some(Err(names.into_iter().map(str::to_owned).collect())),
    })
}

fn looks_like_an_id(short: &str) -> bool {
    (4..=64).contains(&short.len()) && short.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(refs: &[&str]) -> Typed {
        Typed { refs: refs.iter().map(|r| (*r).to_owned()).collect(), remote: None }
    }

    #[test]
    fn a_short_name_that_means_two_things_is_written_in_full() {
        let plain = with(&["refs/heads/a/x", "refs/heads/main"]);
        assert_eq!(plain.rev("refs/heads/a/x"), "a/x");
        let tagged = with(&["refs/heads/a/x", "refs/tags/a/x"]);
        assert_eq!(tagged.rev("refs/heads/a/x"), "refs/heads/a/x");
        let remote = with(&["refs/heads/origin/main", "refs/remotes/origin/main"]);
        assert_eq!(remote.rev("refs/remotes/origin/main"), "refs/remotes/origin/main");
        let nested = with(&["refs/heads/refs/heads/main", "refs/heads/main"]);
        assert_eq!(nested.rev("refs/heads/refs/heads/main"), "refs/heads/refs/heads/main");
        assert_eq!(plain.rev("refs/heads/HEAD"), "refs/heads/HEAD");
        assert_eq!(plain.rev("refs/heads/-x"), "refs/heads/-x");
        assert_eq!(plain.rev("refs/heads/cafe"), "refs/heads/cafe");
        assert_eq!(plain.rev("refs/heads/a;b"), "'a;b'");
    }
}
