//! What `doctor` says about what is around the program: whether git, man and the shell find it. Reading only.

use super::manual;
use crate::model::text::{shell_word, shown_path};
use crate::ops::doctor::{Finding, Severity};
use crate::runtime::files;
use std::path::{Path, PathBuf};

/// All of it.
pub(super) fn findings() -> Vec<Finding> {
    [program(), pages(), shell()].into_iter().flatten().collect()
}

fn note(about: &str, what: String, mend: &str) -> Option<Finding> {
    Some(Finding { severity: Severity::Note, about: about.to_owned(), what, mend: Some(mend.to_owned()) })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file())
}

/// Hooks and assistants call what is on `PATH`.
fn program() -> Option<Finding> {
    let own = std::env::current_exe().ok()?.canonicalize().ok()?;
    match on_path("git-agents") {
        None => note(
            "program",
            "no 'git-agents' is on PATH: git, hooks and assistants do not find it".to_owned(),
            &format!("put {} on PATH", shell_word(&own.parent()?.to_string_lossy())),
        ),
        Some(found) if found.canonicalize().ok()? != own => note(
            "program",
            format!("this is '{}', and git, hooks and assistants run '{}'", shown_path(&own), shown_path(&found)),
            "remove one of them",
        ),
        Some(_) => None,
    }
}

/// `git agents --help` is answered by git, with man.
fn pages() -> Option<Finding> {
    on_path("man")?;
    let install = "git agents manual --install";
    let Some(page) = where_man_finds("git-agents") else {
        return note("manual", "man does not find 'git-agents': 'git agents --help' has no answer".to_owned(), install);
    };
    let text = files::read_limited(&page, 4 << 20).ok()??;
    // A package may have packed it.
    let is_plain = text.starts_with(manual::MARK.as_bytes());
    (is_plain && manual::page("git-agents")?.as_bytes() != text)
        .then(|| note("manual", format!("'{}' is of another version", shown_path(&page)), install))
        .flatten()
}

#[expect(clippy::disallowed_methods, reason = "the user's own man")]
fn where_man_finds(page: &str) -> Option<PathBuf> {
    let out = std::process::Command::new("man").args(["-w", page]).stdin(std::process::Stdio::null()).output().ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    (out.status.success() && text.starts_with('/')).then(|| PathBuf::from(text.trim_end()))
}

/// Whether the user's shell is told about us: by a line in one of its files, or by a file of a package.
fn shell() -> Option<Finding> {
    let home = PathBuf::from(std::env::var_os("HOME")?);
    let name = PathBuf::from(std::env::var_os("SHELL")?).file_name()?.to_str()?.to_owned();
    let variable = |name: &str, or: &str| std::env::var_os(name).map_or_else(|| home.join(or), PathBuf::from);
    let data = variable("XDG_DATA_HOME", ".local/share");
    let (config, command) = (variable("XDG_CONFIG_HOME", ".config"), format!("git agents shell-init {name}"));
    let shared = ["/usr/share", "/usr/local/share", "/opt/homebrew/share"].map(PathBuf::from);
    let shared = || shared.iter().cloned().chain([data.clone()]);
    let (lines, packed, mend): (Vec<PathBuf>, Vec<PathBuf>, String) = match name.as_str() {
        "bash" => (
            [".bashrc", ".bash_profile", ".profile", ".bash_completion"].map(|f| home.join(f)).into(),
            shared().map(|d| d.join("bash-completion/completions/git-agents")).collect(),
            format!("add to ~/.bashrc: eval \"$({command})\""),
        ),
        "zsh" => {
            let dir = std::env::var_os("ZDOTDIR").map_or_else(|| home.clone(), PathBuf::from);
            (
                [".zshrc", ".zprofile", ".zshenv"].map(|f| dir.join(f)).into(),
                shared()
                    .flat_map(|d| {
                        ["zsh/site-functions", "zsh/vendor-completions"].map(|f| d.join(f).join("_git-agents"))
                    })
                    .collect(),
                format!("add to ~/.zshrc, behind compinit: eval \"$({command})\""),
            )
        }
        "fish" => (
            vec![config.join("fish/config.fish"), config.join("fish/conf.d/git-agents.fish")],
            shared()
                .map(|d| d.join("fish/vendor_completions.d/git-agents.fish"))
                .chain([config.join("fish/completions/git-agents.fish")])
                .collect(),
            format!("add to ~/.config/fish/config.fish: {command} | source"),
        ),
        _ => return None,
    };
    let says = |file: &PathBuf| {
        file.is_file()
            && files::read_limited(file, 1 << 20)
                .is_ok_and(|t| t.is_some_and(|t| String::from_utf8_lossy(&t).contains("agents shell-init")))
    };
    if lines.iter().any(says) || packed.iter().any(|p: &PathBuf| Path::exists(p)) {
        return None;
    }
    note("shell", format!("{name} does not complete 'git agents', and there is no 'agents cd'"), &mend)
}
