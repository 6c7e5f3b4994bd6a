//! The full screen of `status --watch`: agents, who meets whom, the last lines of one; keys that act on it.
//!
//! The terminal is put back whatever ends it: a key, a signal, an error, a panic.

use super::error::CliError;
use super::follow::line_of;
use super::watch::Input;
use crate::model::agent::RunState;
use crate::model::overlap::Level;
use crate::model::text::{one_line, safe_line};
use crate::ops::answer::{AgentAnswer, StatusAnswer};
use crate::ops::overlap::summary::Summary;
use crate::place::log::read_events;
use crate::place::watch::Happening;
use crate::supervisor::attempt::Logged;
use ratatui::DefaultTerminal;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More agents than these make no matrix that fits.
const MATRIX: usize = 20;

/// The screen while it is open.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    cwd: PathBuf,
    colour: bool,
    answer: Option<StatusAnswer>,
    met: Summary,
    /// Looks every few seconds, for nothing tells what changes.
    polls: bool,
    chosen: TableState,
    /// Said in the last line until the next key.
    note: Option<String>,
    /// What a key asked for and waits for a yes.
    question: Option<(&'static str, String)>,
    left: bool,
    /// Whoever has it reads the terminal.
    reader: Arc<Mutex<()>>,
    /// Somebody else has the terminal, or is about to: our reader of keys stands back.
    lent: Arc<AtomicBool>,
}

impl Screen {
    /// Takes the terminal. Keys and the signals that `ended` waits for go to `to`.
    pub(super) fn open(
        cwd: &Path,
        to: Sender<Happening<Input>>,
        mut ended: impl FnMut() -> i32 + Send + 'static,
    ) -> Result<Screen, CliError> {
        let trouble =
            |e: std::io::Error| CliError::refused(format!("the terminal cannot be used: {e}"), "git agents status");
        let terminal = ratatui::try_init().map_err(trouble)?;
        let (reader, lent) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (reads, stands_back, is_lent, keys) = (reader.clone(), lent.clone(), lent.clone(), to.clone());
        std::thread::spawn(move || {
            loop {
                // Waits here while the terminal is lent.
                let reading = alone(&reads);
                // Not for ever: somebody may want the terminal for himself.
                while !stands_back.load(Ordering::SeqCst) {
                    match event::poll(Duration::from_millis(100)) {
                        Ok(true) if !stands_back.load(Ordering::SeqCst) => {
                            let Ok(e) = event::read() else { return };
                            if keys.send(Happening::Other(Input::Terminal(e))).is_err() {
                                return;
                            }
                        }
                        Ok(_) => {}
                        Err(_) => return,
                    }
                }
                drop(reading);
                std::thread::yield_now();
            }
        });
        std::thread::spawn(move || {
            loop {
                let signal = ended();
                // Ctrl-C while somebody else has the terminal is meant for him.
                let theirs = signal == nix::libc::SIGINT && is_lent.load(Ordering::SeqCst);
                if !theirs && to.send(Happening::Other(Input::End(signal))).is_err() {
                    return;
                }
            }
        });
        Ok(Screen {
            terminal,
            cwd: cwd.to_owned(),
            colour: std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            answer: None,
            met: Summary::default(),
            polls: false,
            chosen: TableState::new().with_selected(0),
            note: None,
            question: None,
            left: false,
            reader,
            lent,
        })
    }

    /// Shows what there is now.
    pub(super) fn show(&mut self, answer: &StatusAnswer, met: Summary, polls: bool) -> Result<(), CliError> {
        let last = answer.agents.len().saturating_sub(1);
        self.chosen.select(Some(self.chosen.selected().unwrap_or(0).min(last)));
        self.answer = Some(answer.clone());
        self.met = met;
        self.polls = polls;
        self.draw()
    }

    /// Whether somebody else had the terminal since the last call.
    pub(super) fn was_left(&mut self) -> bool {
        std::mem::take(&mut self.left)
    }

    fn agent(&self) -> Option<&AgentAnswer> {
        self.answer.as_ref()?.agents.get(self.chosen.selected()?)
    }

    /// Acts on a key; whether the view is to be ended.
    pub(super) fn input(&mut self, event: &Event) -> Result<bool, CliError> {
        let Event::Key(key) = event else {
            self.draw()?;
            return Ok(false);
        };
        if key.kind == KeyEventKind::Release {
            return Ok(false);
        }
        self.note = None;
        if let Some((verb, name)) = self.question.take() {
            if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                self.leave(&[verb, &name], true)?;
            }
            self.draw()?;
            return Ok(false);
        }
        let ctrl_c = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        match key.code {
            _ if ctrl_c => return Ok(true),
            KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
            KeyCode::Down | KeyCode::Char('j') => self.chosen.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.chosen.select_previous(),
            KeyCode::Home | KeyCode::Char('g') => self.chosen.select_first(),
            KeyCode::End | KeyCode::Char('G') => self.chosen.select_last(),
            KeyCode::Char(c) => {
                let Some((name, tree)) = self.agent().map(|a| (a.name.0.clone(), a.worktree.as_ref().map(|w| w.raw())))
                else {
                    return Ok(false);
                };
                match c {
                    'd' => {
                        if let (Some(tree), Some(from)) = (tree, self.agent().map(|a| a.base_commit.clone())) {
                            use std::os::unix::ffi::OsStrExt as _;
                            let tree = PathBuf::from(std::ffi::OsStr::from_bytes(&tree));
                            self.away(false, || {
                                // Without `-q` of less a short diff would be gone before it is seen.
                                let call = crate::git::command::Call::user_visible(
                                    &tree,
                                    ["-c", "core.pager=less -R -+F", "diff"],
                                );
                                let mut call = call;
                                call.arg(&from.0);
                                call.in_terminal().map(drop).map_err(|e| e.to_string())
                            })?;
                        }
                    }
                    'l' => {
                        let live = self.agent().is_some_and(|a| a.run.state.is_some_and(RunState::is_live));
                        if live {
                            self.leave(&["logs", "-f", &name], false)?
                        } else {
                            self.leave(&["logs", &name], true)?
                        }
                    }
                    'a' => self.leave(&["attach", &name], false)?,
                    'o' => match self.agent().and_then(|a| a.url.clone()) {
                        // git's own way to the user's browser: `browser.<tool>`, `web.browser`, or what is there.
                        Some(url) => {
                            let cwd = self.cwd.clone();
                            self.away(false, || {
                                let call = crate::git::command::Call::user_visible(&cwd, ["web--browse", &url]);
                                call.in_terminal().map(drop).map_err(|e| e.to_string())
                            })?;
                        }
                        None => self.note = Some(format!("'{}' serves nothing", shown(&name))),
                    },
                    's' => self.question = Some(("stop", name)),
                    'r' => self.question = Some(("retry", name)),
                    _ => {}
                }
            }
            _ => return Ok(false),
        }
        // The table itself keeps the selection within its rows when it is drawn.
        self.draw()?;
        Ok(false)
    }

    /// Runs one of our own commands in the terminal; with `stay` what it says stays until somebody has read it.
    fn leave(&mut self, args: &[&str], stay: bool) -> Result<(), CliError> {
        let cwd = self.cwd.clone();
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        self.away(stay, || run_ours(&cwd, &args))
    }

    /// Gives the terminal away while `f` runs.
    fn away(&mut self, stay: bool, f: impl FnOnce() -> Result<(), String>) -> Result<(), CliError> {
        self.lent.store(true, Ordering::SeqCst);
        let reader = self.reader.clone();
        let ours = alone(&reader);
        ratatui::restore();
        let done = f();
        let mut out = std::io::stderr();
        if let Err(why) = &done {
            let _ = writeln!(out, "error: {}", safe_line(why.as_bytes()));
        }
        if stay || done.is_err() {
            let _ = writeln!(out, "-- enter goes back --");
            let _ = std::io::stdin().read_line(&mut String::new());
        }
        self.terminal = ratatui::try_init()
            .map_err(|e| CliError::refused(format!("the terminal cannot be used: {e}"), "git agents status"))?;
        self.lent.store(false, Ordering::SeqCst);
        drop(ours);
        self.left = true;
        Ok(())
    }

    fn draw(&mut self) -> Result<(), CliError> {
        let Some(answer) = &self.answer else { return Ok(()) };
        let chosen = &mut self.chosen;
        let log = answer.agents.get(chosen.selected().unwrap_or(0)).map(last_lines).unwrap_or_default();
        let view = View {
            answer,
            met: &self.met,
            polls: self.polls,
            log: &log,
            note: self.note.as_deref(),
            question: self.question.as_ref(),
            colour: self.colour,
        };
        self.terminal.draw(|f| frame(f, &view, chosen)).map(drop).map_err(CliError::output)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// The right to read the terminal. It guards no data that a panic could leave half-done.
fn alone(reader: &Mutex<()>) -> MutexGuard<'_, ()> {
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::disallowed_methods, reason = "our own program, in the user's terminal")]
fn run_ours(cwd: &Path, args: &[String]) -> Result<(), String> {
    let me = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = std::process::Command::new(me);
    command.args(args).current_dir(cwd);
    crate::runtime::process::unblock_signals(&mut command);
    let status = command.status().map_err(|e| e.to_string())?;
    // Ended by its own Ctrl-C is how a log is left.
    if status.success() || status.code().is_none_or(|c| c > 128) {
        return Ok(());
    }
    Err(format!("'git agents {}' did not succeed", args.join(" ")))
}

/// What one did last, for a person.
fn last_lines(a: &AgentAnswer) -> Vec<String> {
    use std::os::unix::ffi::OsStrExt as _;
    let Some(path) = a.logs.transcript.as_ref().map(|p| p.raw()) else { return Vec::new() };
    let events: Vec<Logged> = read_events(Path::new(std::ffi::OsStr::from_bytes(&path))).unwrap_or_default();
    let mut lines: Vec<String> = events.iter().rev().filter_map(|e| line_of(&e.activity)).take(12).collect();
    lines.reverse();
    lines
}

/// What is on the screen.
struct View<'a> {
    answer: &'a StatusAnswer,
    met: &'a Summary,
    polls: bool,
    log: &'a [String],
    note: Option<&'a str>,
    question: Option<&'a (&'static str, String)>,
    colour: bool,
}

fn frame(f: &mut Frame<'_>, view: &View<'_>, chosen: &mut TableState) {
    let View { answer, met, polls, log, note, question, colour } = *view;
    let area = f.area();
    let log_height = u16::try_from(log.len() + 2).unwrap_or(14).min(area.height / 3);
    let rows = [Constraint::Length(1), Constraint::Min(3), Constraint::Length(log_height), Constraint::Length(1)];
    let [head, middle, below, foot] = Layout::vertical(rows).areas(area);
    let paint = |c: Color| if colour { Style::default().fg(c) } else { Style::default() };
    let polled = if polls { " (looking every few seconds)" } else { "" };
    let title = format!("{}{polled}", headline(answer));
    f.render_widget(Paragraph::new(title).style(Style::default().add_modifier(Modifier::BOLD)), head);
    let n = answer.agents.len();
    let matrix = u16::try_from(n.min(MATRIX) * 2 + 4).unwrap_or(44);
    let (left, right) = if (2..=MATRIX).contains(&n) && middle.width > 70 + matrix {
        let [left, right] = Layout::horizontal([Constraint::Min(60), Constraint::Length(matrix)]).areas(middle);
        (left, Some(right))
    } else {
        (middle, None)
    };
    agents(f, left, answer, chosen, &paint);
    if let Some(right) = right {
        meetings(f, right, answer, met, &paint);
    }
    let name = answer.agents.get(chosen.selected().unwrap_or(0)).map_or(String::new(), |a| shown(&a.name.0));
    let lines: Vec<Line<'_>> = log.iter().map(|l| Line::raw(l.as_str())).collect();
    let block = Block::new().borders(Borders::TOP).title(format!(" {name} "));
    f.render_widget(Paragraph::new(lines).block(block), below);
    let keys = match (question, note) {
        (Some((verb, name)), _) => format!("{verb} '{}'? y/n", shown(name)),
        (None, Some(note)) => note.to_owned(),
        (None, None) => "q quit  \u{2191}\u{2193} choose  d diff  l log  o URL  a attach  s stop  r retry".to_owned(),
    };
    f.render_widget(Paragraph::new(keys).style(Style::default().add_modifier(Modifier::DIM)), foot);
}

fn shown(text: &str) -> String {
    safe_line(text.as_bytes())
}

fn headline(answer: &StatusAnswer) -> String {
    let count = |f: &dyn Fn(&AgentAnswer) -> bool| answer.agents.iter().filter(|a| f(a)).count();
    let live = count(&|a| a.run.state.is_some_and(RunState::is_live));
    let need = count(&|a| a.run.state == Some(RunState::NeedsInput));
    let meet = count(&|a| a.overlap.as_ref().is_some_and(|o| o.level == Some(Level::Conflict)));
    let base = answer.base.as_deref().map(|b| format!(" on {}", shown(b))).unwrap_or_default();
    let words = crate::model::units::count(answer.agents.len(), "agent");
    format!("{words}{base}: {live} at work, {need} asking, {meet} in conflict")
}

fn agents(
    f: &mut Frame<'_>,
    area: Rect,
    answer: &StatusAnswer,
    chosen: &mut TableState,
    paint: &dyn Fn(Color) -> Style,
) {
    let rows = answer.agents.iter().enumerate().map(|(i, a)| {
        let state = a.run.state.map_or("-", RunState::word);
        let style = match a.run.state {
            Some(RunState::Succeeded) => paint(Color::Green),
            Some(RunState::NeedsInput | RunState::Unchanged) => paint(Color::Yellow),
            Some(s) if s.is_final() => paint(Color::Red),
            Some(s) if s.is_live() => paint(Color::Cyan),
            _ => Style::default(),
        };
        let changed = a.dirty.as_ref().map_or(0, |d| d.modified + d.untracked + d.conflicted);
        let work = format!("{}+{changed}", a.ahead.map_or("-".to_owned(), |n| n.to_string()));
        let meets = a.overlap.as_ref().map_or(("-", Style::default()), |o| level(o.level, paint));
        let text = a.run.question.as_ref().or(a.run.reason.as_ref()).map_or(&a.title, |t| t);
        Row::new([
            Cell::from(mark(i)),
            Cell::from(shown(&a.name.0)),
            Cell::from(Span::styled(state, style)),
            Cell::from(work),
            Cell::from(Span::styled(meets.0, meets.1)),
            Cell::from(one_line(text, 200)),
        ])
    });
    let widths = [
        Constraint::Length(2),
        Constraint::Max(30),
        Constraint::Length(11),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Min(10),
    ];
    let head =
        Row::new(["", "NAME", "STATE", "WORK", "OVERLAP", "TASK"]).style(Style::default().add_modifier(Modifier::DIM));
    let table =
        Table::new(rows, widths).header(head).row_highlight_style(Style::default().add_modifier(Modifier::REVERSED));
    f.render_stateful_widget(table, area, chosen);
}

fn level(level: Option<Level>, paint: &dyn Fn(Color) -> Style) -> (&'static str, Style) {
    match level {
        Some(Level::Conflict) => ("conflict", paint(Color::Red)),
        Some(Level::Symbol) => ("symbol", paint(Color::Yellow)),
        Some(Level::Near) => ("near", paint(Color::Yellow)),
        Some(l) => (l.word(), Style::default()),
        None => ("unknown", paint(Color::Yellow)),
    }
}

/// A letter for a row and a column of the matrix.
fn mark(i: usize) -> String {
    u8::try_from(i).ok().filter(|i| *i < 26).map_or(String::new(), |i| char::from(b'a' + i).to_string())
}

/// Who meets whom: `C` conflict, `s` symbol, `n` near, `f` file, `?` unknown.
fn meetings(f: &mut Frame<'_>, area: Rect, answer: &StatusAnswer, met: &Summary, paint: &dyn Fn(Color) -> Style) {
    let agents = &answer.agents;
    let between = |a: &AgentAnswer, b: &AgentAnswer| -> (char, Style) {
        let key = |x: &AgentAnswer, y: &AgentAnswer| (x.name.0.clone(), y.name.0.clone());
        match met.pairs.get(&key(a, b)).or_else(|| met.pairs.get(&key(b, a))) {
            Some(None) => ('?', paint(Color::Yellow)),
            Some(Some(Level::Conflict)) => ('C', paint(Color::Red)),
            Some(Some(Level::Symbol)) => ('s', paint(Color::Yellow)),
            Some(Some(Level::Near)) => ('n', paint(Color::Yellow)),
            Some(Some(Level::File)) => ('f', Style::default()),
            Some(Some(Level::None)) | None => ('\u{b7}', Style::default().add_modifier(Modifier::DIM)),
        }
    };
    let mut lines = vec![Line::raw(format!("   {}", (0..agents.len()).map(|i| mark(i) + " ").collect::<String>()))];
    for (i, a) in agents.iter().enumerate() {
        let mut spans = vec![Span::raw(format!("{:2} ", mark(i)))];
        for (j, b) in agents.iter().enumerate() {
            let (c, style) = if i == j { (' ', Style::default()) } else { between(a, b) };
            spans.push(Span::styled(format!("{c} "), style));
        }
        lines.push(Line::from(spans));
    }
    f.render_widget(Paragraph::new(lines), area);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Started by the test below in a terminal of its own.
    #[test]
    #[ignore = "takes the terminal and panics"]
    fn panics_with_the_terminal_taken() {
        let (to, _from) = std::sync::mpsc::channel();
        let mut screen = Screen::open(Path::new("/"), to, || {
            loop {
                std::thread::park()
            }
        })
        .ok()
        .unwrap();
        screen.terminal.draw(|_| panic!("on the screen")).unwrap();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a terminal of its own for this very program")]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let me = std::env::current_exe().unwrap();
        let child = "cli::screen::tests::panics_with_the_terminal_taken";
        let line = format!("stty -a; '{}' --ignored --exact {child} --nocapture; stty -a", me.display());
        let out = std::process::Command::new("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
        let out = String::from_utf8_lossy(&out.stdout).into_owned();
        let (before, rest) = out.split_once("running 1 test").unwrap();
        assert!(rest.contains("on the screen"), "{out}");
        let (taken, back) = (rest.find("\x1b[?1049h").unwrap(), rest.rfind("\x1b[?1049l").unwrap());
        assert!(taken < back, "{out}");
        assert!(rest.trim_end().ends_with(before.trim()), "{out}");
    }
}
