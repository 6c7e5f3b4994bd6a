//! The command line: arguments, calls, rendering. It decides nothing.

pub mod commands;
mod complete;
mod equipment;
pub mod error;
pub mod follow;
mod hook;
mod lines;
mod manual;
mod moved;
pub mod render;
mod screen;
pub mod ui;
mod watch;

use crate::model::text::shown_path;
use clap::{Parser, Subcommand};
use error::{CliError, code};
use std::path::PathBuf;
use ui::{ColorChoice, Ui};

/// Several AI coding assistants on one repository at once.
#[derive(Debug, Parser)]
#[command(name = "git agents", bin_name = "git agents", version, about, disable_help_subcommand = true, disable_help_flag = true, override_help = HELP, infer_subcommands = false)]
pub struct Cli {
    /// Act as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, help_heading = "Everywhere")]
    dir: Option<PathBuf>,
    /// No narration but errors
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    quiet: bool,
    /// Say what git is asked (-vv: more)
    #[arg(short, long, action = clap::ArgAction::Count, global = true, help_heading = "Everywhere")]
    verbose: u8,
    /// When to colour
    #[arg(long, value_name = "WHEN", global = true, help_heading = "Everywhere")]
    color: Option<ColorChoice>,
    /// Print the JSON schema of COMMAND's answer
    #[arg(long, value_name = "COMMAND", global = true, help_heading = "Everywhere")]
    json_schema: Option<String>,
    /// Print this
    #[arg(short = 'h', action = clap::ArgAction::HelpShort, global = true, help_heading = "Everywhere")]
    help: Option<bool>,
    /// Show the page of the manual
    #[arg(long = "help", action = clap::ArgAction::HelpLong, global = true, help_heading = "Everywhere")]
    manual: Option<bool>,
    #[command(subcommand)]
    command: Option<Command>,
}

const HELP: &str = "\
usage: git agents [-C DIR] [-q] [-v] [--color WHEN] COMMAND

start      init, demo   sets a project up; the whole journey on a throw-away one
           new, adopt   one environment, new or of what exists; no assistant
           run          tasks become agents working side by side; the report
meanwhile  status       who does what, who needs you (also plain 'git agents')
           show, logs   everything about one; a readable transcript
           attach, send   sit down in its place; one more message to its session
           wait         look on until all are settled
           stop, retry  end runs; run tasks again
           overlap      who changes things that meet, and how badly
its place  path, exec   its directory; a command, or a shell, in it
decide     report, diff   what came out; what one changed, uncommitted work too
           sync, land, push   rebases on the base; brings into it; publishes
tidy up    rm, restore  removes environments, into the trash; brings them back
           clean, history   removes what has landed; every agent there ever was
set up     doctor       what is wrong, and what mends it
           hooks, skills   after a merge, tidies up and reminds; for assistants
           trust        approves the commands of .git-agents.toml
           manual       its pages; '--install' puts them where man finds them
           shell-init   completion, and a function 'agents'; bash, zsh, fish

AGENT is a name, a branch, a number of the last batch, or '@' (here).
'git agents COMMAND -h' tells more about each, '--help' all.
";

#[derive(Debug, Subcommand)]
enum Command {
    Init(commands::init::Args),
    Demo(commands::demo::Args),
    #[command(alias = "add", alias = "create")]
    New(commands::new::Args),
    Run(commands::run::Args),
    Adopt(commands::adopt::Args),
    #[command(alias = "list", alias = "ls", alias = "ps")]
    Status(commands::status::Args),
    Show(commands::show::Args),
    Logs(commands::logs::Args),
    #[command(alias = "resume", alias = "enter")]
    Attach(commands::attach::Args),
    Send(commands::send::Args),
    Wait(commands::wait::Args),
    #[command(alias = "kill")]
    Stop(commands::stop::Args),
    Retry(commands::retry::Args),
    Overlap(commands::overlap::Args),
    #[command(hide = true)]
    Check(commands::check::Args),
    Path(commands::path::Args),
    Exec(commands::exec::Args),
    Report(commands::report::Args),
    Diff(commands::diff::Args),
    #[command(alias = "merge")]
    Land(commands::land::Args),
    Push(commands::push::Args),
    #[command(alias = "rebase")]
    Sync(commands::sync::Args),
    #[command(alias = "remove", alias = "delete")]
    Rm(commands::rm::Args),
    Clean(commands::clean::Args),
    Restore(commands::restore::Args),
    #[command(hide = true)]
    Undo(commands::restore::UndoArgs),
    History(commands::history::Args),
    Doctor(commands::doctor::Args),
    Hooks(commands::hooks::Args),
    Manual(commands::manual::Args),
    Skills(commands::skills::Args),
    Trust(commands::trust::Args),
    ShellInit(commands::shell_init::Args),
    #[command(hide = true)]
    Completions(commands::shell_init::StubArgs),
    #[command(hide = true, alias = "switch")]
    Cd(commands::shell_init::CdArgs),
    #[command(hide = true)]
    Supervise {
        id: String,
    },
    #[command(hide = true)]
    ScriptedAssistant {
        prompt: PathBuf,
    },
}

/// What every command gets.
#[derive(Debug)]
pub struct Session {
    /// The streams.
    pub ui: Ui,
    /// Where it was started, after `-C`.
    pub cwd: PathBuf,
}

impl Session {
    /// The repository of the directory.
    pub fn context(&self) -> Result<crate::ops::Context, CliError> {
        Ok(crate::ops::Context::open(&self.cwd)?)
    }

    /// The same for a command that starts an assistant: says first what changed under the last ones.
    fn context_to_start(&self) -> Result<crate::ops::Context, CliError> {
        let ctx = self.context()?;
        let changed = crate::ops::executable::changed(&ctx)?;
        if !changed.is_empty() {
            self.ui.warn(&crate::ops::executable::words(&changed));
            self.ui.hint("git agents doctor --accept, when you have looked at them");
        }
        Ok(ctx)
    }
}

/// The program: parses, calls, renders. Its exit code.
pub fn main() -> i32 {
    crate::git::command::unhide_settings();
    let args: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // The processes that are started by the dozen do without the command line's own machinery.
    if let [_, command, argument] = args.as_slice() {
        match command.to_str() {
            Some("supervise") => {
                let code = crate::supervisor::main(&argument.to_string_lossy());
                hook::after_run();
                return code;
            }
            Some("scripted-assistant") => return scripted(std::path::Path::new(argument)),
            Some("hook-worker") => return hook::worker(std::path::Path::new(argument)),
            Some("report-worker") => return hook::report_worker(std::path::Path::new(argument)),
            Some("expire-worker") => return hook::expire_worker(std::path::Path::new(argument)),
            _ => {}
        }
    }
    if let [_, command, rest @ ..] = args.as_slice()
        && command == "hook"
    {
        return hook::main(rest);
    }
    if let [_, command, rest @ ..] = args.as_slice()
        && command == "complete"
        && rest.len() > 2
    {
        return complete::main(rest);
    }
    if let [_, only] = args.as_slice()
        && (only == "--version" || only == "-V")
    {
        // Asked by scripts and prompts: not worth building the whole command line first.
        let ui = Ui::new(false, None, None);
        return match ui.out(&format!("git agents {}\n", env!("CARGO_PKG_VERSION"))) {
            Ok(()) => code::DONE,
            Err(e) => fail(&ui, &e),
        };
    }
    let cli = match Cli::try_parse_from(&args) {
        Ok(c) => c,
        Err(e) => return usage(&e, &args),
    };
    if cli.verbose > 0 {
        let level = if cli.verbose > 1 { tracing::Level::TRACE } else { tracing::Level::DEBUG };
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    }
    match cli.command {
        Some(Command::Supervise { id }) => return crate::supervisor::main(&id),
        Some(Command::ScriptedAssistant { prompt }) => return scripted(&prompt),
        _ => {}
    }
    let cwd = match directory(cli.dir.as_deref()) {
        Ok(d) => d,
        Err(e) => return fail(&Ui::new(cli.quiet, cli.color, None), &e),
    };
    let session = Session { ui: Ui::new(cli.quiet, cli.color, Some(&cwd)), cwd };
    let result = match &cli.json_schema {
        Some(command) => commands::schema(&session, command),
        None => {
            let command = cli.command.unwrap_or_else(|| Command::Status(commands::status::Args::default()));
            let part = moved::part(&command);
            let result = dispatch(&session, command);
            moved::say(&session, part, result.as_ref().is_ok_and(|c| *c == code::DONE));
            result
        }
    };
    match result {
        Ok(code) => code,
        Err(e) => fail(&session.ui, &e),
    }
}

fn fail(ui: &Ui, e: &CliError) -> i32 {
    let (text, code) = e.render();
    if !text.is_empty() {
        ui.err(text.trim_end());
    }
    code
}

/// The directory to act in: the current one, or what `-C` names from there.
fn directory(asked: Option<&std::path::Path>) -> Result<PathBuf, CliError> {
    let here = std::env::current_dir();
    let dir = match (asked, here) {
        (Some(d), _) if d.is_absolute() => d.to_owned(),
        (Some(d), Ok(h)) => h.join(d),
        (None, Ok(h)) => h,
        (_, Err(_)) => {
            return Err(CliError::refused("the current directory does not exist any more", "cd to another one"));
        }
    };
    let usable = std::fs::metadata(&dir).and_then(|m| if m.is_dir() { Ok(()) } else { Err(not_a_directory()) });
    match usable {
        // As the current directory of a process is told: the words shall not have '..' in their paths.
        Ok(()) if asked.is_some() => Ok(dir.canonicalize().unwrap_or(dir)),
        Ok(()) => Ok(dir),
        Err(e) => {
            let why = e.to_string();
            let why = why.split(" (os error").next().unwrap_or(&why);
            Err(CliError::refused(
                format!("cannot change to '{}': {why}", shown_path(&dir)),
                "name a directory after -C",
            ))
        }
    }
}

fn not_a_directory() -> std::io::Error {
    std::io::Error::from(std::io::ErrorKind::NotADirectory)
}

fn dispatch(s: &Session, command: Command) -> Result<i32, CliError> {
    match command {
        Command::Init(a) => commands::init::run(s, &a),
        Command::Demo(a) => commands::demo::run(s, &a),
        Command::New(a) => commands::new::run(s, &a),
        Command::Run(a) => commands::run::run(s, &a),
        Command::Adopt(a) => commands::adopt::run(s, &a),
        Command::Status(a) => commands::status::run(s, &a),
        Command::Show(a) => commands::show::run(s, &a),
        Command::Logs(a) => commands::logs::run(s, &a),
        Command::Attach(a) => commands::attach::run(s, &a),
        Command::Send(a) => commands::send::run(s, &a),
        Command::Wait(a) => commands::wait::run(s, &a),
        Command::Stop(a) => commands::stop::run(s, &a),
        Command::Retry(a) => commands::retry::run(s, &a),
        Command::Overlap(a) => commands::overlap::run(s, &a),
        Command::Check(a) => commands::check::run(s, &a),
        Command::Path(a) => commands::path::run(s, &a),
        Command::Exec(a) => commands::exec::run(s, &a),
        Command::Report(a) => commands::report::run(s, &a),
        Command::Diff(a) => commands::diff::run(s, &a),
        Command::Land(a) => commands::land::run(s, &a),
        Command::Push(a) => commands::push::run(s, &a),
        Command::Sync(a) => commands::sync::run(s, &a),
        Command::Rm(a) => commands::rm::run(s, &a),
        Command::Clean(a) => commands::clean::run(s, &a),
        Command::Restore(a) => commands::restore::run(s, &a),
        Command::Undo(a) => commands::restore::undo(s, &a),
        Command::History(a) => commands::history::run(s, &a),
        Command::Doctor(a) => commands::doctor::run(s, &a),
        Command::Hooks(a) => commands::hooks::run(s, &a),
        Command::Manual(a) => commands::manual::run(s, &a),
        Command::Skills(a) => commands::skills::run(s, &a),
        Command::Trust(a) => commands::trust::run(s, &a),
        Command::ShellInit(a) => commands::shell_init::run(s, &a),
        Command::Completions(a) => commands::shell_init::stub(s, &a),
        Command::Cd(a) => commands::shell_init::cd(s, &a),
        Command::Supervise { .. } | Command::ScriptedAssistant { .. } => Ok(code::DONE),
    }
}

/// Help goes to standard output; what is wrong, in git's manner, to standard error.
fn usage(e: &clap::Error, args: &[std::ffi::OsString]) -> i32 {
    use clap::error::ErrorKind;
    let ui = Ui::new(false, Some(ColorChoice::Never), None);
    let text = e.render().to_string();
    if matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let shown = match manual::asked(args) {
            Some(page) => commands::manual::show(&ui, &page),
            None => ui.out(&text),
        };
        return match shown {
            Ok(()) => code::DONE,
            Err(e) => fail(&ui, &e),
        };
    }
    let mut out = String::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        let line = match line.trim_start().split_once(": ") {
            Some(("tip", rest)) => format!("hint: {rest}"),
            Some(("Usage", rest)) => format!("usage: {rest}"),
            _ if line.starts_with("For more information") => continue,
            _ => line.to_owned(),
        };
        out.push_str(&line);
        out.push('\n');
    }
    out.push_str("hint: 'git agents -h' lists the commands, 'git agents COMMAND -h' tells more about each");
    ui.err(&crate::model::text::safe_text(out.as_bytes()));
    code::USAGE
}

fn scripted(prompt: &std::path::Path) -> i32 {
    let text = match std::fs::read(prompt) {
        Ok(b) => String::from_utf8_lossy(&b).into_owned(),
        Err(e) => {
            let ui = Ui::new(false, None, None);
            ui.err(&format!("error: could not read '{}': {e}", shown_path(prompt)));
            return code::FATAL;
        }
    };
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    crate::place::adapter::scripted::run(&text, &cwd, &mut std::io::stdout())
}
