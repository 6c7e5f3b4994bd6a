//! `init`: looks at the project, proposes, and does what was confirmed. What is there already is never written over, so
//! a second time nothing happens. Nothing of the project is run.

use super::hooks::{self, Allowed, Step, Survey};
use super::skills::{self, Hook, Scope};
use super::{Context, Error, Result, plan};
use crate::config::{Approval, Project, project};
use crate::git::command::Call;
use crate::model::detect::{self, Detected, Seen};
use crate::model::text::shown_path;
use crate::runtime::files;
use crate::runtime::user::{Approvals, UserState};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// What is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The file goes where nobody else sees it, and overlays the versioned one.
    pub local: bool,
    /// The git hooks too.
    pub hooks: bool,
    /// What assistants in use here read, in the user's own directories.
    pub skills: bool,
    /// `git log` shows the notes by itself.
    pub notes: bool,
}

/// What would be done.
#[derive(Debug)]
pub struct Proposal {
    /// What the project is.
    pub detected: Detected,
    /// The file.
    pub file: FilePlan,
    /// What the file that is there runs, and nobody has approved.
    pub unapproved: bool,
    /// The hooks, where they are wanted.
    pub hooks: Option<(Survey, Vec<Step>)>,
    /// What assistants read, where that is wanted and one of them is in use here.
    pub skills: Option<(skills::Survey, Vec<skills::Step>)>,
    /// Whether git is told to show the notes.
    pub notes: bool,
}

/// What becomes of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlan {
    /// It is written.
    New {
        /// Where.
        path: PathBuf,
        /// All of it.
        text: String,
    },
    /// It is there, and stays as it is.
    There {
        /// Where.
        path: PathBuf,
        /// What it could say as well, tables and lines.
        lacks: Vec<(&'static str, Vec<String>)>,
    },
}

impl Proposal {
    /// Whether claude is given the hook that warns before an edit.
    pub fn warns(&self) -> bool {
        let settings = self.skills.as_ref().and_then(|(survey, _)| survey.settings.as_ref());
        settings.is_some_and(|(_, there)| !there.contains(&Hook::Check))
    }

    /// Whether there is anything to do.
    pub fn acts(&self) -> bool {
        let write = |t: &Step| matches!(t, Step::Write | Step::Insert);
        matches!(self.file, FilePlan::New { .. })
            || self.notes
            || self.skills.as_ref().is_some_and(|(_, steps)| steps.contains(&skills::Step::Write))
            || self.warns()
            || self.hooks.as_ref().is_some_and(|(_, steps)| steps.iter().any(write))
    }
}

/// Looks, and says what would be done.
pub fn propose(ctx: &Context, o: Options) -> Result<Proposal> {
    let top = match (&ctx.repo().toplevel, ctx.here()?) {
        (Some(top), None) => top.clone(),
        _ => ctx.repo().main_worktree.clone().ok_or_else(|| {
            Error::refused("this is a bare repository: it has no checkout to look at", "git agents -C <worktree> init")
        })?,
    };
    let detected = detect::detect(&see(&top)?);
    let versioned = top.join(project::FILE_NAME);
    let overlay = ctx.repo().agents_dir().join("config.toml");
    let path = if o.local { overlay.clone() } else { versioned.clone() };
    let mut said = project::load(&versioned)?;
    if let Some(over) = project::load(&overlay)? {
        said = Some(said.unwrap_or_default().overlaid(over));
    }
    let lacks = lacking(&detected, said.as_ref());
    let there = path.symlink_metadata().is_ok();
    let file = if there || (said.is_some() && lacks.is_empty()) {
        FilePlan::There { path: if there { path } else { versioned }, lacks }
    } else {
        FilePlan::New { path, text: text(&lacks) }
    };
    let unapproved = match &said {
        Some(p) => matches!(plan::approval(ctx, p)?, Approval::Needed { .. }),
        None => false,
    };
    let hooks = match o.hooks {
        true => {
            let survey = hooks::survey(ctx)?;
            let steps = hooks::plan(&survey, Allowed::default());
            Some((survey, steps))
        }
        false => None,
    };
    // None of them in use here is no mistake of this command's.
    let skills = o.skills.then(|| skills::survey(&Scope::User, &[]).ok()).flatten().map(|survey| {
        let steps = survey.files.iter().map(|f| skills::step(f, false)).collect();
        (survey, steps)
    });
    Ok(Proposal { detected, file, unapproved, hooks, skills, notes: o.notes && !shows_notes(ctx)? })
}

fn shows_notes(ctx: &Context) -> Result<bool> {
    let shown = |v: &str| v == "refs/notes/agents" || v == "refs/notes/*";
    Ok(ctx.repo().settings()?.iter().any(|(_, k, v)| k == "notes.displayref" && shown(v)))
}

/// What a checkout shows at its top: names, the text of a few files, what git ignores. Bounded, links not followed.
fn see(top: &Path) -> Result<Seen> {
    let mut seen = Seen::default();
    let entries = std::fs::read_dir(top).map_err(files::because("read", top))?;
    seen.names.extend(entries.flatten().take(10_000).filter_map(|e| e.file_name().into_string().ok()));
    let nextest = ".config/nextest.toml";
    seen.names.extend(top.join(nextest).is_file().then(|| nextest.to_owned()));
    for name in detect::READ {
        if let Some(text) = read(&top.join(name)) {
            seen.texts.insert((*name).to_owned(), text);
        }
    }
    let asked = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z", "--"];
    let paths = [
        ":(glob).env*",
        ":(glob)*/.env*",
        ":(glob)*/*/.env*",
        "config/master.key",
        "local.properties",
        ".npmrc",
        "node_modules",
        "target",
        ".venv",
        "vendor",
        "vendor/bundle",
    ];
    let call = Call::new(top, asked.iter().chain(&paths));
    let listed = call.within(std::time::Duration::from_secs(20)).run()?;
    let words = listed.split(|b| *b == 0).filter_map(|p| std::str::from_utf8(p).ok()).filter(|p| !p.is_empty());
    seen.ignored.extend(words.take(10_000).map(str::to_owned));
    Ok(seen)
}

/// The text of a plain file, as far as it counts.
fn read(path: &Path) -> Option<String> {
    let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(detect::LARGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The lines of the proposal for which `said` has nothing.
fn lacking(detected: &Detected, said: Option<&Project>) -> Vec<(&'static str, Vec<String>)> {
    let is_said = |table: &str, line: &str| {
        said.is_some_and(|p| match (table, line.split(' ').next().unwrap_or_default()) {
            ("worktree", "copy") => p.worktree.copy.is_some(),
            ("worktree", "clone") => p.worktree.clone.is_some(),
            ("worktree", "submodules") => p.worktree.submodules.is_some(),
            ("setup", "run") => p.setup.is_some(),
            ("test", "command") => p.test.command.is_some(),
            _ => false,
        })
    };
    let mut out = detected.sections();
    for (table, lines) in &mut out {
        lines.retain(|l| !is_said(table, l));
    }
    out.retain(|(_, lines)| !lines.is_empty());
    out
}

fn text(sections: &[(&'static str, Vec<String>)]) -> String {
    let mut out =
        "# git agents in this repository: 'git agents manual' lists every key. Commands count once they are approved.\n"
            .to_owned();
    if sections.is_empty() {
        out.push_str(
            "\n# [setup]\n# run = [\"make deps\"] # in every new worktree\n\n# [test]\n# command = \"make test\"\n",
        );
    }
    for (table, lines) in sections {
        out.push_str(&format!("\n[{table}]\n{}\n", lines.join("\n")));
    }
    out
}

/// What was done.
#[derive(Debug, Default)]
pub struct Done {
    /// In words, in order.
    pub did: Vec<String>,
    /// What went wrong with a part; the others were done.
    pub failed: Vec<String>,
    /// Whether something has to be approved still.
    pub to_approve: bool,
}

/// Does what was proposed and confirmed.
pub fn apply(ctx: &Context, p: &Proposal) -> Result<Done> {
    let mut done = Done { to_approve: p.unapproved, ..Done::default() };
    if let FilePlan::New { path, text } = &p.file {
        write(ctx, path, text)?;
        done.did.push(format!("'{}' written", shown_path(path)));
        done.to_approve = !approve(ctx, text, &mut done.did)?;
    }
    if let Some((survey, steps)) = &p.hooks {
        for (file, step) in survey.files.iter().zip(steps).filter(|(_, s)| matches!(s, Step::Write | Step::Insert)) {
            match hooks::apply(file, step) {
                Ok(()) => done.did.push(format!("'{}' written", shown_path(&file.path))),
                Err(e) => done.failed.push(e.with_hint()),
            }
        }
    }
    if let Some((survey, steps)) = &p.skills {
        for (file, step) in survey.files.iter().zip(steps).filter(|(_, s)| **s == skills::Step::Write) {
            match skills::apply(file, *step) {
                Ok(()) => done.did.push(format!("'{}' written", shown_path(&file.path))),
                Err(e) => done.failed.push(e.with_hint()),
            }
        }
        if p.warns() {
            match survey.set_hook(Hook::Check, true) {
                Ok(_) => done.did.push(format!("{} is in claude's settings", Hook::Check.about())),
                Err(e) => done.failed.push(e.with_hint()),
            }
        }
    }
    if p.notes {
        ctx.repo().call(["config", "--local", "--add", "notes.displayRef", "refs/notes/agents"]).run()?;
        done.did.push("notes.displayRef = refs/notes/agents".into());
    }
    Ok(done)
}

/// The whole file at once, and only where none is.
fn write(ctx: &Context, path: &Path, text: &str) -> Result<()> {
    let local = path.starts_with(&ctx.repo().common_dir);
    if local {
        ctx.state.ensure_dirs()?;
    }
    let tmp = files::temporary_beside(path);
    let written = (|| {
        let mut file = files::open_private(&tmp, std::fs::OpenOptions::new().write(true).create_new(true))?;
        let mode = if local { 0o600 } else { 0o644 };
        let filled = file
            .write_all(text.as_bytes())
            .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(mode)))
            .and_then(|()| file.sync_all());
        filled.map_err(files::because("write", path))?;
        files::rename_new(&tmp, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&tmp);
    }
    Ok(written?)
}

/// Approves what was on the page and nothing else. `false` where something else would be run as well.
fn approve(ctx: &Context, text: &str, did: &mut Vec<String>) -> Result<bool> {
    let loaded = ctx.settings(&crate::config::Flags::default())?;
    let Approval::Needed { wanted, .. } = plan::approval(ctx, &loaded.project)? else { return Ok(true) };
    let shown = project::parse(text.as_bytes(), project::FILE_NAME)
        .map_err(|mistakes| crate::config::Error::Project { mistakes })?;
    if plan::wanted(ctx, &shown).digest() != wanted.digest() {
        return Ok(false);
    }
    Approvals::approve(&UserState::open()?, &ctx.repo().identity()?, &wanted.digest(), &wanted.text())?;
    did.push("what it runs is approved".into());
    Ok(true)
}
