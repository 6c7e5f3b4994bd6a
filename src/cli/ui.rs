//! Standard output is the answer, standard error the narration. Nothing reaches a terminal unsanitised.

use super::error::CliError;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use unicode_width::UnicodeWidthStr as _;

/// What a piece of text is; colours are chosen in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Something good.
    Good,
    /// Something that wants a look.
    Warn,
    /// Something bad.
    Bad,
    /// Secondary.
    Dim,
    /// A heading or a name.
    Strong,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The two streams of one command.
#[derive(Debug, Clone)]
pub struct Ui {
    /// No narration but errors.
    pub quiet: bool,
    /// Standard output is a terminal.
    pub out_tty: bool,
    /// Standard error is a terminal.
    pub err_tty: bool,
    out: Wish,
    err: Wish,
    /// Where git is asked for `color.agents`, once, and only when something is to be painted on a terminal.
    dir: Option<PathBuf>,
    git: OnceLock<bool>,
}

/// Whether a stream is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Yes,
    No,
    /// As `color.agents`, else `color.ui` says.
    AsGitSays,
}

impl Ui {
    /// As the flags and the environment say. `dir` is where git's configuration is asked, if it must be.
    pub fn new(quiet: bool, choice: Option<ColorChoice>, dir: Option<&Path>) -> Ui {
        let (out_tty, err_tty) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        let set = |v: &str| std::env::var_os(v).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let wish = |tty: bool| match choice {
            Some(ColorChoice::Always) => Wish::Yes,
            Some(ColorChoice::Never) => Wish::No,
            Some(ColorChoice::Auto) | None => {
                if set("NO_COLOR") {
                    Wish::No
                } else if std::env::var("CLICOLOR_FORCE").is_ok_and(|v| !v.is_empty() && v != "0") {
                    Wish::Yes
                } else if tty && !dumb {
                    Wish::AsGitSays
                } else {
                    Wish::No
                }
            }
        };
        let (out, err) = (wish(out_tty || set("GIT_PAGER_IN_USE")), wish(err_tty));
        Ui { quiet, out_tty, err_tty, out, err, dir: dir.map(Path::to_owned), git: OnceLock::new() }
    }

    fn colored(&self, wish: Wish) -> bool {
        match wish {
            Wish::Yes => true,
            Wish::No => false,
            Wish::AsGitSays => *self.git.get_or_init(|| {
                let Some(dir) = &self.dir else { return true };
                let asked = ["config", "--get-colorbool", "color.agents", "true"];
                let call = crate::git::command::Call::user_visible(dir, asked).with_inherited_location();
                call.text().map_or(true, |answer| answer != "false")
            }),
        }
    }

    fn style(label: Label) -> &'static str {
        match label {
            Label::Good => "\x1b[32m",
            Label::Warn => "\x1b[33m",
            Label::Bad => "\x1b[31m",
            Label::Dim => "\x1b[2m",
            Label::Strong => "\x1b[1m",
        }
    }

    /// `text` labelled for standard output.
    pub fn paint(&self, label: Label, text: &str) -> String {
        if self.colored(self.out) { format!("{}{text}\x1b[m", Self::style(label)) } else { text.to_owned() }
    }

    /// `text` labelled for standard error.
    pub fn paint_err(&self, label: Label, text: &str) -> String {
        if self.colored(self.err) { format!("{}{text}\x1b[m", Self::style(label)) } else { text.to_owned() }
    }

    /// Writes a path as an answer: its bytes for a program, safe to look at for a person.
    pub fn out_path(&self, path: &Path) -> Result<(), CliError> {
        use std::os::unix::ffi::OsStrExt as _;
        let bytes = path.as_os_str().as_bytes();
        let mut line = if self.out_tty { crate::model::text::safe_path(bytes).into_bytes() } else { bytes.to_owned() };
        line.push(b'\n');
        self.out_bytes(&line)
    }

    /// Writes an answer for a program.
    pub fn out_bytes(&self, bytes: &[u8]) -> Result<(), CliError> {
        let mut o = std::io::stdout().lock();
        o.write_all(bytes).and_then(|()| o.flush()).map_err(CliError::output)
    }

    /// Writes the answer. Text in it is clean already.
    pub fn out(&self, text: &str) -> Result<(), CliError> {
        self.out_bytes(text.as_bytes())
    }

    /// Writes a long answer, through git's pager where that is a person's wish.
    pub fn page(&self, text: &str) -> Result<(), CliError> {
        let height = usize::from(terminal_size().1);
        if !self.out_tty || std::env::var_os("GIT_PAGER_IN_USE").is_some() || text.lines().count() < height {
            return self.out(text);
        }
        let pager = match std::env::var("GIT_PAGER") {
            Ok(p) => p,
            Err(_) => crate::git::command::Call::users_program("GIT_PAGER").text().unwrap_or_default(),
        };
        if pager.is_empty() || pager == "cat" {
            return self.out(text);
        }
        page_through(&pager, text).or_else(|_| self.out(text))
    }

    /// Writes one JSON object.
    pub fn json<T: serde::Serialize>(&self, value: &T) -> Result<(), CliError> {
        let text = serde_json::to_string(value).expect("answers are plain JSON");
        self.out(&(text + "\n"))
    }

    /// A line of narration.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            self.err(&crate::model::text::safe_text(text.as_bytes()));
        }
    }

    /// A warning.
    pub fn warn(&self, text: &str) {
        let head = self.paint_err(Label::Warn, "warning:");
        self.err(&format!("{head} {}", crate::model::text::safe_line(text.as_bytes())));
    }

    /// The next command.
    pub fn hint(&self, text: &str) {
        if !self.quiet {
            let head = self.paint_err(Label::Dim, "hint:");
            self.err(&format!("{head} {}", crate::model::text::safe_line(text.as_bytes())));
        }
    }

    /// How to take it back.
    pub fn undo(&self, command: &str) {
        if !self.quiet {
            self.err(&format!("undo: {}", crate::model::text::safe_line(command.as_bytes())));
        }
    }

    /// The terminal's bell.
    pub fn ring(&self) {
        let _ = std::io::stderr().lock().write_all(b"\x07");
    }

    /// A line on standard error, as it is.
    pub fn err(&self, text: &str) {
        let mut e = std::io::stderr().lock();
        let _ = writeln!(e, "{text}");
    }

    /// A question with a yes or no; `None` without a terminal.
    pub fn ask(&self, question: &str) -> Option<bool> {
        if !std::io::stdin().is_terminal() || !self.err_tty {
            return None;
        }
        let mut e = std::io::stderr().lock();
        let _ = write!(e, "{question} [y/N] ");
        let _ = e.flush();
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).ok()?;
        Some(matches!(line.trim(), "y" | "Y" | "yes"))
    }
}

#[expect(clippy::disallowed_methods, reason = "the user's own pager")]
fn page_through(pager: &str, text: &str) -> std::io::Result<()> {
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", pager]).stdin(std::process::Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(text.as_bytes());
    }
    child.wait().map(drop)
}

/// Columns and lines of the terminal; 80 × 24 where it does not say.
pub fn terminal_size() -> (u16, u16) {
    let from = |v: &str| std::env::var(v).ok().and_then(|v| v.parse().ok());
    let asked = crate::runtime::process::terminal_size(&std::io::stderr());
    (from("COLUMNS").or(asked.map(|s| s.0)).unwrap_or(80), from("LINES").or(asked.map(|s| s.1)).unwrap_or(24))
}

/// Columns, each as wide as its widest cell, two spaces apart; the last is not padded.
pub fn table(rows: &[Vec<String>], painted: impl Fn(usize, usize, &str) -> String) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.as_str().width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut out = String::new();
    for (i, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (c, cell) in row.iter().enumerate() {
            line.push_str(&painted(i, c, cell));
            if c + 1 < row.len() {
                line.push_str(&" ".repeat(widths[c] - cell.as_str().width() + 2));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}
