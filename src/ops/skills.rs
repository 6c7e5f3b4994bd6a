//! The skills and the pre-edit hook: where each assistant looks for them, what stands there, what is written and taken out.
//!
//! Every path is a place that the assistant's own documentation names, or where its requests showed that it looks. What
//! somebody else wrote is never written over; what we wrote is known by its mark, and a list in the user's state says
//! which directories were made for it.

use super::{Error, Result};
use crate::git::objects::digest;
use crate::model::json_edit;
use crate::model::skill::{CommandFile, Found, SKILLS, look, marked};
use crate::model::text::shown_path;
use crate::runtime::files;
use crate::runtime::user::{Made, UserState};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Where one assistant looks.
#[derive(Debug, Clone, Copy)]
struct Reader {
    name: &'static str,
    /// Its program.
    program: &'static str,
    /// For the user: below which directory, and where there.
    user: (Base, &'static str),
    /// In a project.
    project: &'static str,
    /// Command files, where skills do not become commands: how, for the user, in a project.
    commands: Option<(CommandFile, (Base, &'static str), &'static str)>,
    /// The directory that shows that it is in use here.
    sign: (Base, &'static str),
}

#[derive(Debug, Clone, Copy)]
enum Base {
    Home,
    /// `$XDG_CONFIG_HOME`, or `~/.config`.
    Config,
    /// `$CLAUDE_CONFIG_DIR`, or `~/.claude`.
    Claude,
}

const fn reader(name: &'static str, program: &'static str, sign: &'static str) -> Reader {
    Reader {
        name,
        program,
        user: (Base::Home, ".agents/skills"),
        project: ".agents/skills",
        commands: None,
        sign: (Base::Home, sign),
    }
}

/// The assistants that read skills. `.agents/skills` is the directory they agreed on; claude, amp and goose look
/// elsewhere for those of the user.
const READERS: [Reader; 9] = [
    Reader {
        user: (Base::Claude, "skills"),
        project: ".claude/skills",
        sign: (Base::Claude, ""),
        ..reader("claude", "claude", "")
    },
    reader("codex", "codex", ".codex"),
    Reader {
        commands: Some((CommandFile::Toml, (Base::Home, ".gemini/commands"), ".gemini/commands")),
        ..reader("gemini", "gemini", ".gemini")
    },
    Reader {
        commands: Some((CommandFile::Markdown, (Base::Config, "opencode/commands"), ".opencode/commands")),
        sign: (Base::Config, "opencode"),
        ..reader("opencode", "opencode", "")
    },
    reader("qwen", "qwen", ".qwen"),
    reader("copilot", "copilot", ".copilot"),
    reader("cursor", "cursor-agent", ".cursor"),
    Reader { user: (Base::Config, "agents/skills"), sign: (Base::Config, "amp"), ..reader("amp", "amp", "") },
    Reader { user: (Base::Config, "agents/skills"), sign: (Base::Config, "goose"), ..reader("goose", "goose", "") },
];

/// The names of all that read skills.
pub fn readers() -> impl Iterator<Item = &'static str> {
    READERS.iter().map(|r| r.name)
}

/// For whom.
#[derive(Debug, Clone)]
pub enum Scope {
    /// The user, everywhere.
    User,
    /// Everybody who works on the project whose checkout is here.
    Project(PathBuf),
}

/// The hooks that claude is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// Asks before each edit whether others work there.
    Check,
    /// Makes the worktrees of `claude --worktree`.
    Worktree,
}

impl Hook {
    /// Both.
    pub const ALL: [Hook; 2] = [Hook::Check, Hook::Worktree];

    /// What it is, for people.
    pub fn about(self) -> &'static str {
        match self {
            Hook::Check => "the hook before edits",
            Hook::Worktree => "the hook for 'claude --worktree'",
        }
    }

    fn path(self) -> [&'static str; 2] {
        match self {
            Hook::Check => ["hooks", "PreToolUse"],
            Hook::Worktree => ["hooks", "WorktreeCreate"],
        }
    }

    /// A program that is gone keeps nobody from an edit; without the worktree that was asked for there is nothing to do.
    fn command(self) -> &'static str {
        match self {
            Hook::Check => "if command -v git-agents >/dev/null 2>&1; then git-agents check --hook claude; fi",
            Hook::Worktree => "git-agents new --hook claude",
        }
    }

    fn entry(self) -> Value {
        match self {
            Hook::Check => json!({
                "matcher": "Edit|MultiEdit|Write|NotebookEdit",
                "hooks": [{ "type": "command", "command": self.command(), "timeout": 10 }],
            }),
            // Setup commands may take their time.
            Hook::Worktree => json!({ "hooks": [{ "type": "command", "command": self.command(), "timeout": 600 }] }),
        }
    }

    fn is_ours(self, entry: &Value) -> bool {
        let hooks = entry["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        !hooks.is_empty() && hooks.iter().all(|h| h["command"] == self.command())
    }
}

/// One file that is ours, or would be.
#[derive(Debug, Clone)]
pub struct File {
    /// Where.
    pub path: PathBuf,
    /// What typing `/NAME` does.
    pub skill: &'static str,
    /// All that read it here, whether asked for or not.
    pub read_by: Vec<&'static str>,
    /// The text of this version.
    text: String,
    /// What stands there.
    pub found: Found,
    /// What it is below: nothing above is made or removed.
    base: PathBuf,
}

/// What is there, and what could be.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Files, those of one assistant together.
    pub files: Vec<File>,
    /// claude's settings, where claude is meant, with the hooks that are in it.
    pub settings: Option<(PathBuf, Vec<Hook>)>,
    /// For whom.
    pub names: Vec<&'static str>,
    base: Option<PathBuf>,
}

struct Bases {
    home: PathBuf,
}

impl Bases {
    fn open() -> Result<Bases> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|h| h.is_absolute());
        let none = || Error::refused("HOME is not set, so there is no place for skills", "set it, or use --project");
        Ok(Bases { home: home.ok_or_else(none)? })
    }

    /// The full path; `None` where a variable moves the base and the path is not below it.
    fn path(&self, (base, rest): (Base, &str)) -> PathBuf {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let dir = match base {
            Base::Home => self.home.clone(),
            Base::Config => variable("XDG_CONFIG_HOME").unwrap_or_else(|| self.home.join(".config")),
            Base::Claude => variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| self.home.join(".claude")),
        };
        if rest.is_empty() { dir } else { dir.join(rest) }
    }
}

/// Looks. `named`: for these; with none, for the user those that are in use here, for a project all.
///
/// # Errors
/// A name that reads no skills; nothing in use here; no home; in a project a link on the way, which could lead anywhere.
pub fn survey(scope: &Scope, named: &[String]) -> Result<Survey> {
    let bases = match scope {
        Scope::User => Some(Bases::open()?),
        Scope::Project(_) => None,
    };
    for name in named {
        if name == "aider" {
            return Err(Error::refused(
                "'aider' reads no skills",
                "it works as an assistant all the same: git agents run -a aider",
            ));
        }
        if !readers().any(|r| r == name) {
            let known: Vec<&str> = readers().collect();
            return Err(Error::refused(
                format!("'{name}' is no assistant that reads skills"),
                format!("there are '{}'", known.join("', '")),
            ));
        }
    }
    let meant = |r: &&Reader| match (&bases, named) {
        (None, []) => true,
        (Some(b), []) => in_use(b, r),
        (_, named) => named.iter().any(|n| n == r.name),
    };
    let chosen: Vec<&Reader> = READERS.iter().filter(meant).collect();
    if chosen.is_empty() {
        return Err(Error::refused(
            "no assistant that reads skills was found here",
            "name them: git agents skills install --for claude,codex",
        ));
    }
    let mut files: Vec<File> = Vec::new();
    for r in &chosen {
        for skill in &SKILLS {
            let dir = place(scope, bases.as_ref(), r.user, r.project).join(skill.name);
            add(&mut files, scope, bases.as_ref(), skill.name, dir.join("SKILL.md"), skill.text)?;
            if let Some((how, user, project)) = r.commands {
                let path = place(scope, bases.as_ref(), user, project).join(how.file_name(skill));
                add(&mut files, scope, bases.as_ref(), skill.name, path, &how.text(skill))?;
            }
        }
    }
    for file in &mut files {
        let reads = |r: &&Reader| {
            let dirs = [
                Some(place(scope, bases.as_ref(), r.user, r.project)),
                r.commands.map(|(_, u, p)| place(scope, bases.as_ref(), u, p)),
            ];
            dirs.into_iter().flatten().any(|d| file.path.starts_with(d))
        };
        file.read_by = READERS.iter().filter(reads).map(|r| r.name).collect();
    }
    let claude = chosen.iter().any(|r| r.name == "claude");
    let settings = claude.then(|| match (scope, &bases) {
        (Scope::Project(top), _) => top.join(".claude/settings.json"),
        (Scope::User, Some(b)) => b.path((Base::Claude, "settings.json")),
        (Scope::User, None) => PathBuf::from("settings.json"),
    });
    let settings = match settings {
        Some(path) => {
            check_links(scope, &path)?;
            let text = read(&path)?;
            let has = |h: &Hook| json_edit::remove(&text, &h.path(), &|e| h.is_ours(e)).is_ok_and(|r| r.is_some());
            let there = Hook::ALL.into_iter().filter(has).collect();
            Some((path, there))
        }
        None => None,
    };
    let base = base(scope, bases.as_ref());
    Ok(Survey { files, settings, names: chosen.iter().map(|r| r.name).collect(), base: Some(base) })
}

fn in_use(bases: &Bases, r: &Reader) -> bool {
    let on_path = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.is_absolute() && dir.join(r.program).is_file()));
    on_path || bases.path(r.sign).is_dir()
}

fn place(scope: &Scope, bases: Option<&Bases>, user: (Base, &str), project: &str) -> PathBuf {
    match (scope, bases) {
        (Scope::Project(top), _) => top.join(project),
        (Scope::User, Some(b)) => b.path(user),
        (Scope::User, None) => PathBuf::from(project),
    }
}

fn base(scope: &Scope, bases: Option<&Bases>) -> PathBuf {
    match (scope, bases) {
        (Scope::Project(top), _) => top.clone(),
        (Scope::User, Some(b)) => b.home.clone(),
        (Scope::User, None) => PathBuf::new(),
    }
}

fn add(
    files: &mut Vec<File>,
    scope: &Scope,
    bases: Option<&Bases>,
    skill: &'static str,
    path: PathBuf,
    text: &str,
) -> Result<()> {
    if files.iter().any(|f| f.path == path) {
        return Ok(());
    }
    check_links(scope, &path)?;
    let text = marked(text, |t| digest(&[t]));
    // A link is a person's way to keep the file elsewhere: theirs.
    let found = match path.symlink_metadata() {
        Ok(m) if !m.is_file() => Found::Foreign,
        Ok(_) => look(files::read_limited(&path, 1 << 20)?.as_deref(), &text, |t| digest(&[t])),
        Err(_) => Found::Absent,
    };
    files.push(File { path, skill, read_by: Vec::new(), text, found, base: base(scope, bases) });
    Ok(())
}

/// In a project a link can have been committed by anybody, and lead anywhere.
fn check_links(scope: &Scope, path: &Path) -> Result<()> {
    let Scope::Project(top) = scope else { return Ok(()) };
    let on_the_way = path.ancestors().take_while(|p| p.starts_with(top) && *p != top);
    match on_the_way.filter(|p| p.is_symlink()).last() {
        Some(link) => Err(Error::refused(
            format!("'{}' is a symbolic link; nothing is written through it", shown_path(link)),
            "make it a directory, or leave out --project",
        )),
        None => Ok(()),
    }
}

/// What is done with one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All is as it should be.
    Nothing,
    /// It is written.
    Write,
    /// It is written; what is there is kept beside it, with `.orig` behind its name.
    Replace,
    /// It goes.
    Delete,
    /// It is left alone.
    Leave(&'static str),
}

/// What `install` does with a file.
pub fn step(file: &File, force: bool) -> Step {
    match file.found {
        Found::Current => Step::Nothing,
        Found::Absent | Found::OtherVersion => Step::Write,
        Found::Edited | Found::Foreign if force => Step::Replace,
        Found::Edited => Step::Leave("you changed it"),
        Found::Foreign => Step::Leave("it is not ours"),
    }
}

/// What `uninstall` does with a file; `names` are those it is meant for.
pub fn removal(file: &File, names: &[&'static str], force: bool) -> Step {
    let by_others = file.read_by.iter().any(|r| !names.contains(r)) && !force;
    match file.found {
        Found::Absent | Found::Foreign => Step::Nothing,
        Found::Edited if !force => Step::Leave("you changed it"),
        _ if by_others => Step::Leave("others read it too"),
        _ => Step::Delete,
    }
}

/// Does it.
///
/// # Errors
/// What the file system says.
pub fn apply(file: &File, step: Step) -> Result<()> {
    match step {
        Step::Nothing | Step::Leave(_) => Ok(()),
        Step::Write => write(&file.base, &file.path, file.text.as_bytes()),
        Step::Replace => {
            let mut aside = file.path.clone().into_os_string();
            aside.push(".orig");
            files::rename_new(&file.path, Path::new(&aside))?;
            write(&file.base, &file.path, file.text.as_bytes())
        }
        Step::Delete => delete(&file.path),
    }
}

impl Survey {
    /// Puts a hook into claude's settings, or takes it out. `false`: nothing had to be done.
    ///
    /// # Errors
    /// Where the settings are no JSON or of another shape: nothing is changed.
    pub fn set_hook(&self, hook: Hook, wanted: bool) -> Result<bool> {
        let Some((path, there)) = &self.settings else { return Ok(false) };
        if there.contains(&hook) == wanted {
            return Ok(false);
        }
        let text = read(path)?;
        let edited = if wanted {
            json_edit::insert(&text, &hook.path(), &hook.entry().to_string()).map(Some)
        } else {
            json_edit::remove(&text, &hook.path(), &|e| hook.is_ours(e))
        };
        let by_hand = if wanted {
            format!("put this into '{}' yourself: {}", hook.path().join("."), hook.entry())
        } else {
            "take its entry out yourself".to_owned()
        };
        let Some(edited) =
            edited.map_err(|e| Error::refused(format!("'{}' cannot be changed: {e}", shown_path(path)), by_hand))?
        else {
            return Ok(false);
        };
        let state = UserState::open()?;
        if !wanted && edited.trim() == "{}" && Made::load(&state)?.contains(path) {
            delete(path)?;
        } else {
            let base = self.base.clone().unwrap_or_default();
            write(&base, path, edited.as_bytes())?;
        }
        Ok(true)
    }
}

/// The settings, or those of a file that is not there.
fn read(path: &Path) -> Result<String> {
    let bytes = files::read_limited(path, 4 << 20)?;
    let text = bytes.map_or(Ok("{}\n".to_owned()), String::from_utf8);
    text.map_err(|_| Error::refused(format!("'{}' is not UTF-8", shown_path(path)), "mend it, then try again"))
}

/// Writes a file, noting first which directories are made for it, and whether it is new.
fn write(base: &Path, path: &Path, bytes: &[u8]) -> Result<()> {
    let missing: Vec<PathBuf> =
        path.ancestors().take_while(|p| p.starts_with(base) && *p != base && !p.exists()).map(Path::to_owned).collect();
    let state = UserState::open()?;
    Made::add(&state, &missing)?;
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(files::because("create", dir))?;
    }
    // A link to settings that are kept elsewhere stays a link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    files::heal_beside(&target);
    let mode = std::fs::metadata(&target).map_or(0o644, |m| m.permissions().mode() & 0o777);
    files::write_durable(&target, bytes)?;
    let allowed = std::fs::Permissions::from_mode(mode);
    Ok(std::fs::set_permissions(&target, allowed).map_err(files::because("open to readers", &target))?)
}

/// Deletes a file, and the directories that were made for it and hold nothing else now.
fn delete(path: &Path) -> Result<()> {
    files::heal_beside(path);
    std::fs::remove_file(path).map_err(files::because("delete", path))?;
    let state = UserState::open()?;
    let made = Made::load(&state)?;
    let mut gone = vec![path.to_owned()];
    for dir in path.ancestors().skip(1).take_while(|d| made.contains(d)) {
        match std::fs::remove_dir(dir) {
            Ok(()) => gone.push(dir.to_owned()),
            Err(_) => break,
        }
    }
    Made::forget(&state, &gone)?;
    Ok(())
}
