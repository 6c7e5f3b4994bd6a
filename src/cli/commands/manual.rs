//! `git agents manual`.

use crate::cli::error::{CliError, code};
use crate::cli::ui::Ui;
use crate::cli::{Session, manual};
use crate::model::text::shown_path;
use crate::runtime::files;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Show a page of the manual, or put all of them where man finds them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The page of COMMAND; without it the one of the whole
    #[arg(value_name = "COMMAND", conflicts_with_all = ["install", "uninstall"])]
    command: Option<String>,
    /// Write them below DIR (man1/*.1); without it beside the binary, in ../share/man, or in ~/.local/share/man
    #[arg(long, value_name = "DIR", conflicts_with = "uninstall")]
    install: Option<Option<PathBuf>>,
    /// Take those that were written there out again
    #[arg(long, value_name = "DIR")]
    uninstall: Option<Option<PathBuf>>,
    /// Say what would be written or taken out
    #[arg(long)]
    dry_run: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    match (&args.install, &args.uninstall) {
        (Some(dir), _) => install(s, dir.as_deref(), args.dry_run),
        (_, Some(dir)) => uninstall(s, dir.as_deref(), args.dry_run),
        _ if args.dry_run => Err(CliError::Usage("'--dry-run' goes with '--install' or '--uninstall'".into())),
        _ => {
            let command = args.command.as_deref().unwrap_or_default();
            let page = match command.trim_start_matches("git-agents-") {
                "" | "git-agents" => "git-agents".to_owned(),
                c => format!("git-agents-{c}"),
            };
            if !manual::names().contains(&page) {
                return Err(CliError::Usage(format!("there is no page for '{command}'")));
            }
            show(&s.ui, &page).map(|()| code::DONE)
        }
    }
}

/// Shows the page: by man on a terminal, as text anywhere else.
pub(in crate::cli) fn show(ui: &Ui, page: &str) -> Result<(), CliError> {
    let text = manual::text(page).unwrap_or_default();
    if !ui.out_tty {
        return ui.out(&text);
    }
    let dir = std::env::temp_dir().join(format!("git-agents-man-{}", crate::runtime::clock::random_hex(6)));
    files::ensure_private_dir(&dir)?;
    let file = dir.join(format!("{page}.1"));
    files::write_atomic(&file, manual::page(page).unwrap_or_default().as_bytes())?;
    let shown = by_man(&file);
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_dir(&dir);
    match shown {
        Ok(status) if status.success() => Ok(()),
        // No man here, or one without its formatter.
        _ => ui.page(&text),
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's own man")]
fn by_man(file: &Path) -> std::io::Result<std::process::ExitStatus> {
    std::process::Command::new("man").arg(file).status()
}

/// The directories of manuals that are tried: what is beside the binary as `PATH` leads to it, then the user's own.
fn places(asked: Option<&Path>, s: &Session) -> Vec<PathBuf> {
    if let Some(dir) = asked {
        return vec![files::plain(&s.cwd.join(dir))];
    }
    let exe = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ours = |dir: &PathBuf| exe.is_some() && std::fs::canonicalize(dir.join("git-agents")).ok() == exe;
    let beside = std::env::split_paths(&path).find(ours).filter(|d| d.file_name().is_some_and(|n| n == "bin"));
    let mut out: Vec<PathBuf> = beside.and_then(|d| Some(d.parent()?.join("share/man"))).into_iter().collect();
    out.extend(std::env::var_os("HOME").map(|h| PathBuf::from(h).join(".local/share/man")));
    out
}

fn install(s: &Session, asked: Option<&Path>, dry_run: bool) -> Result<i32, CliError> {
    let places = places(asked, s);
    let mut refused = None;
    for place in &places {
        let dir = place.join("man1");
        match write_all(s, &dir, dry_run) {
            Ok((written, kept)) => {
                if written > 0 && !dry_run {
                    s.ui.undo(&undo(asked));
                }
                return Ok(if kept { code::NO } else { code::DONE });
            }
            Err(e) => refused = Some(e),
        }
    }
    match refused {
        Some(e) => Err(e.into()),
        None => Err(CliError::refused("there is no home to put the pages into", "git agents manual --install DIR")),
    }
}

fn undo(asked: Option<&Path>) -> String {
    let word = |dir: &Path| format!(" {}", crate::model::text::shell_word(&dir.to_string_lossy()));
    let dir = asked.map(word).unwrap_or_default();
    format!("git agents manual --uninstall{dir}")
}

/// Whether a file of somebody else's was kept.
/// How many were written, and whether something else was kept.
fn write_all(s: &Session, dir: &Path, dry_run: bool) -> Result<(usize, bool), files::Error> {
    if !dry_run {
        std::fs::create_dir_all(dir).map_err(files::because("create", dir))?;
    }
    let (mut written, mut kept) = (0, false);
    for name in manual::names() {
        let Some(text) = manual::page(&name) else { continue };
        let path = dir.join(format!("{name}.1"));
        match what_is_there(&path)? {
            Some(there) if there == text.as_bytes() => continue,
            Some(there) if !is_ours(&there) => {
                s.ui.warn(&format!("'{}' is not ours and stays", shown_path(&path)));
                kept = true;
                continue;
            }
            _ => written += 1,
        }
        if !dry_run {
            write(&path, text.as_bytes())?;
        }
    }
    let would = if dry_run { "would be " } else { "" };
    match written {
        0 if !kept => s.ui.say(&format!("the pages in '{}' are as they should be", shown_path(dir))),
        n => s.ui.say(&format!("{} {would}written to '{}'", crate::model::units::count(n, "page"), shown_path(dir))),
    }
    Ok((written, kept))
}

fn what_is_there(path: &Path) -> Result<Option<Vec<u8>>, files::Error> {
    match path.symlink_metadata() {
        Ok(m) if m.is_file() => files::read_limited(path, 4 << 20),
        // Whatever it is, it is none of ours.
        Ok(_) => Ok(Some(Vec::new())),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(files::because("read", path)(e)),
    }
}

fn is_ours(text: &[u8]) -> bool {
    text.starts_with(manual::MARK.as_bytes())
}

/// Replaces it in one step: somebody may be reading.
fn write(path: &Path, bytes: &[u8]) -> Result<(), files::Error> {
    let tmp = files::temporary_beside(path);
    let mut file = files::open_private(&tmp, std::fs::OpenOptions::new().write(true).create_new(true))?;
    let done = file
        .write_all(bytes)
        .and_then(|()| file.set_permissions(std::fs::Permissions::from_mode(0o644)))
        .and_then(|()| std::fs::rename(&tmp, path));
    if done.is_err() {
        let _ = std::fs::remove_file(&tmp);
    }
    done.map_err(files::because("write", path))
}

fn uninstall(s: &Session, asked: Option<&Path>, dry_run: bool) -> Result<i32, CliError> {
    let mut gone = 0;
    for dir in places(asked, s).iter().map(|p| p.join("man1")) {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for path in entries.flatten().map(|e| e.path()) {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            let named = name == "git-agents.1" || (name.starts_with("git-agents-") && name.ends_with(".1"));
            if !named || !what_is_there(&path)?.is_some_and(|text| is_ours(&text)) {
                continue;
            }
            if !dry_run {
                std::fs::remove_file(&path).map_err(files::because("delete", &path))?;
            }
            gone += 1;
        }
    }
    let would = if dry_run { "would be " } else { "" };
    s.ui.say(&format!("{} {would}taken out", crate::model::units::count(gone, "page")));
    Ok(code::DONE)
}
