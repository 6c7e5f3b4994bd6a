//! What git runs or trusts here: settings, hooks and files that a program which may write the repository could change.

use super::Result;
use super::objects::digest;
use super::repo::{Repo, Setting};
use crate::runtime::files;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Larger hooks and attribute files are told apart by size and time.
const LARGEST: u64 = 1 << 20;

/// Everything of that kind as it is now, by name (`core.hooksPath`, `hook 'post-commit'`, `file 'info/attributes'`), with
/// a digest of its value: values may hold secrets.
pub fn items(repo: &Repo) -> Result<BTreeMap<String, String>> {
    let settings = repo.settings_now()?;
    let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (scope, key, value) in settings.iter().filter(|(scope, key, _)| scope != "command" && counts(key)) {
        values.entry(key.clone()).or_default().extend([scope.as_str(), value.as_str()]);
    }
    let mut out: BTreeMap<String, String> = values.into_iter().map(|(k, v)| (k, digest(&v))).collect();
    let names = std::fs::read_dir(hooks(repo, &settings)).into_iter().flatten().flatten();
    for entry in names.filter(|e| e.path().extension().is_none_or(|x| x != "sample")).take(1000) {
        if let Some(found) = file(&entry.path()) {
            out.insert(format!("hook '{}'", entry.file_name().to_string_lossy()), found);
        }
    }
    for name in ["info/attributes", "info/exclude", "objects/info/alternates", "objects/info/http-alternates"] {
        if let Some(found) = file(&repo.common_dir.join(name)) {
            out.insert(format!("file '{name}'"), found);
        }
    }
    Ok(out)
}

/// A digest of a file; `None` for what is none.
fn file(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok().filter(|m| m.is_file())?;
    let mode = meta.permissions().mode().to_string();
    let link = std::fs::read_link(path).ok().map(|l| l.to_string_lossy().into_owned()).unwrap_or_default();
    let bytes = files::read_limited(path, LARGEST).ok().flatten();
    let content = match &bytes {
        Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        None => format!("{} {:?}", meta.len(), meta.modified().ok()),
    };
    Some(digest(&[&mode, &link, &content]))
}

/// Where git looks for hooks: `core.hooksPath`, from the top of the main worktree where it is relative.
fn hooks(repo: &Repo, settings: &[Setting]) -> PathBuf {
    let set = settings.iter().rev().find(|(_, key, _)| key == "core.hookspath").map(|(.., v)| v.as_str());
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match set.filter(|v| !v.is_empty()) {
        None => repo.common_dir.join("hooks"),
        Some(v) => match (v.strip_prefix("~/"), home()) {
            (Some(below), Some(home)) => home.join(below),
            _ => repo.main_worktree.as_ref().unwrap_or(&repo.common_dir).join(v),
        },
    }
}

/// Whether a setting (as git lists it: section and name in lower case) runs a program, says who is trusted, or where
/// something is sent.
fn counts(key: &str) -> bool {
    let Some((section, rest)) = key.split_once('.') else { return false };
    let name = rest.rsplit('.').next().unwrap_or(rest);
    match section {
        "alias" | "pager" | "credential" | "remote" | "url" | "user" | "author" | "committer" | "include"
        | "includeif" | "hook" | "http" | "https" | "protocol" | "extensions" | "trailer" | "uploadpack"
        | "receive" | "safe" | "gpg" | "maintenance" | "browser" | "web" | "ssh" => true,
        "core" => matches!(
            name,
            "hookspath"
                | "fsmonitor"
                | "sshcommand"
                | "editor"
                | "pager"
                | "askpass"
                | "gitproxy"
                | "attributesfile"
                | "excludesfile"
                | "worktree"
                | "bare"
                | "alternaterefscommand"
                | "sharedrepository"
                | "symlinks"
        ),
        "filter" => matches!(name, "clean" | "smudge" | "process" | "required"),
        "diff" => matches!(name, "external" | "command" | "textconv"),
        "merge" => name == "driver",
        "difftool" | "mergetool" | "guitool" => matches!(name, "cmd" | "path"),
        "submodule" => matches!(name, "update" | "url"),
        "sequence" | "interactive" | "init" | "sendemail" | "imap" => {
            matches!(
                name,
                "editor" | "difffilter" | "templatedir" | "sendmailcmd" | "tocmd" | "cccmd" | "smtpserver" | "tunnel"
            )
        }
        "commit" | "tag" | "push" => matches!(name, "gpgsign" | "template"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_or_is_trusted_counts_and_the_rest_does_not() {
        for key in [
            "core.hookspath",
            "core.fsmonitor",
            "core.sshcommand",
            "alias.st",
            "filter.lfs.smudge",
            "diff.external",
            "diff.word.textconv",
            "merge.x.driver",
            "remote.origin.url",
            "url.https://x/.insteadof",
            "user.email",
            "include.path",
            "includeif.gitdir:/x/.path",
            "hook.lint.command",
            "credential.helper",
            "sequence.editor",
            "submodule.lib.update",
            "gpg.program",
            "extensions.worktreeconfig",
        ] {
            assert!(counts(key), "{key}");
        }
        for key in
            ["agent.x.fork", "agents.parallel", "branch.main.merge", "diff.algorithm", "core.filemode", "merge.renames"]
        {
            assert!(!counts(key), "{key}");
        }
    }
}
