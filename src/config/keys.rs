//! The keys of the project's file: those there are, those there will be, and what to say about all others.

use super::{table, value};

/// Every key there is, to suggest from.
pub(super) const KEYS: &[&str] = &[
    "base",
    "assistant",
    "branch-prefix",
    "worktree",
    "worktree.dir",
    "worktree.copy",
    "worktree.clone",
    "worktree.clone-fallback",
    "worktree.clone-limit",
    "worktree.submodules",
    "setup",
    "setup.run",
    "test",
    "test.command",
    "test.timeout",
    "test.junit",
    "test.again",
    "limits",
    "limits.parallel",
    "limits.time",
    "limits.stall",
    "limits.setup",
    "limits.retries",
    "limits.cost",
    "limits.total-cost",
    "limits.min-free",
    "limits.tests",
    "assistants",
    "cleanup",
    "cleanup.throw-away",
];

/// Keys of the format that this version has nothing behind.
const LATER: &[&str] = &["ports", "env", "database", "app", "land", "cleanup.auto", "worktree.lfs", "worktree.sparse"];

/// What to say about a key that this version does not read.
pub(super) fn unknown(full: &str, path: &str) -> (String, Option<String>) {
    let quoted = value::shown(full);
    let last = full.rsplit('.').next().unwrap_or(full);
    if LATER.contains(&full) {
        return (format!("'{quoted}' is not supported by this version"), None);
    }
    let power = format!("'{quoted}' cannot be set in a file of the repository");
    match (last, table::find(last)) {
        ("trust", _) => return (power, Some("'git agents trust' approves what this file runs".to_owned())),
        ("loopback", _) => return (power, Some("git config --global agents.loopback <value>".to_owned())),
        (_, Some(doc)) if doc.protected && last != "throw-away" => {
            return (power, Some(format!("git config --global {} <value>", doc.config)));
        }
        (_, Some(doc)) if doc.file.is_none() && !doc.protected => {
            return (
                format!("'{quoted}' is not a key of this file"),
                Some(format!("git config {} <value>", doc.config)),
            );
        }
        _ => {}
    }
    let hint = suggestion(last, path).map(|k| format!("did you mean '{k}'?"));
    (format!("'{quoted}' is not a key of this file"), hint)
}

/// The key that was most likely meant. The right word in the wrong table is likelier than another word in this one.
fn suggestion(word: &str, path: &str) -> Option<String> {
    if path.starts_with("assistants.") {
        return value::closest(word, ["command", "args", "env"]).map(|k| format!("{path}.{k}"));
    }
    let last = |k: &'static str| k.rsplit('.').next().unwrap_or(k);
    let here = |k: &&&str| k.rsplit_once('.').map_or("", |(parent, _)| parent) == path;
    let nearest = |keys: Vec<&'static str>| {
        let found = value::closest(word, keys.iter().map(|k| last(k)))?;
        keys.into_iter().find(|k| last(k) == found)
    };
    let moved = || KEYS.iter().find(|k| last(k) == word).copied();
    let near = || nearest(KEYS.iter().filter(here).copied().collect());
    moved().or_else(near).or_else(|| nearest(KEYS.to_vec())).map(str::to_owned)
}

/// Variables that an assistant may be given. Git's own would point it at another repository, and ours say who it is.
pub(super) fn variable_name(name: &str) -> Result<(), String> {
    let head = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !head || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("this cannot be the name of an environment variable".to_owned());
    }
    let git = ["GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"];
    if git.contains(&name) || name == "GIT_ALTERNATE_OBJECT_DIRECTORIES" {
        return Err("git itself sets this variable".to_owned());
    }
    if name.starts_with("AGENTS_") || name.starts_with("GIT_AGENTS_") {
        return Err("git agents itself sets this variable".to_owned());
    }
    Ok(())
}
