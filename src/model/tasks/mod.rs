//! The task list: what `run` is given, and what it means.
//!
//! Two notations, [`parse_markdown`] and [`parse_toml`], give a [`RawList`]; [`resolve`] gives it names, one task for
//! each assistant, and the order. All mistakes are collected, over all steps, and said at once with their lines;
//! with one mistake nothing is started. An argument is never searched for attributes: see [`arguments`].

mod attrs;
mod graph;
mod markdown;
mod name;
mod toml;

pub use attrs::{Attrs, KEYS, parse_assistants};
pub use graph::resolve;
pub use markdown::parse_markdown;
pub use name::{check_name, from_title};
pub use toml::parse_toml;

use super::agent::{Name, fnv64};

/// A list is at most this long, in bytes.
pub const MOST_BYTES: usize = 1 << 20;
/// A list has at most this many tasks, one for each assistant counted.
pub const MOST_TASKS: usize = 1000;
/// A prompt is at most this long, in bytes, the preamble included.
pub const MOST_PROMPT: usize = 64 << 10;

const NOT_UTF8: &str = "not UTF-8";

/// One task, ready to become an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSpec {
    /// Where it stands in the list, from 1.
    pub line: usize,
    /// Its number as written; the members of a group share it.
    pub number: u32,
    /// Its first line, in one line of at most 200 characters.
    pub title: String,
    /// All that the assistant is told: the preamble, then the task's own text.
    pub prompt: String,
    /// Unique in the list and among the names taken.
    pub name: Name,
    /// The rest. `assistant` has at most one entry here; `after` is as written, see [`TaskSpec::after`].
    pub attrs: Attrs,
    /// The name that the tasks share which one item with several assistants made.
    pub group: Option<String>,
    /// The tasks whose work it starts from, as indices into [`TaskList::tasks`].
    pub after: Vec<usize>,
    /// The agent that an earlier run of the same list made of it: nothing to start.
    pub started: Option<Name>,
}

/// A list without a mistake.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskList {
    /// In the order of the list.
    pub tasks: Vec<TaskSpec>,
    /// Items with `[x]`, which are skipped.
    pub done: usize,
}

/// What is wrong with a list, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// From 1.
    pub line: usize,
    /// Lower case, no full stop.
    pub message: String,
}

impl Mistake {
    /// What a list says is quoted in messages, and lists are written by anybody: nothing a terminal would obey.
    fn new(line: usize, message: impl Into<String>) -> Mistake {
        let message: String = message.into();
        Mistake { line, message: message.replace(|c: char| c.is_control() || name::invisible(c), "\u{fffd}") }
    }
}

impl std::fmt::Display for Mistake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// A list as written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawList {
    /// The text before the first item, which goes in front of every prompt.
    pub preamble: String,
    /// The items, done ones too.
    pub items: Vec<RawItem>,
    /// What could not be read.
    pub mistakes: Vec<Mistake>,
}

/// An item as written.
#[derive(Debug, Clone, PartialEq)]
pub struct RawItem {
    /// From 1.
    pub line: usize,
    /// As written.
    pub number: u32,
    /// `[x]`.
    pub done: bool,
    /// Its first line.
    pub title: String,
    /// Its own text.
    pub prompt: String,
    /// What it asks for.
    pub attrs: Attrs,
}

/// The notation of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A numbered list.
    Markdown,
    /// `[[task]]` tables.
    Toml,
}

impl Format {
    /// By the ending of the file's name; without a name (standard input) by how the text begins.
    pub fn of(file_name: Option<&str>, text: &[u8]) -> Format {
        let toml = match file_name {
            Some(name) => name.to_ascii_lowercase().ends_with(".toml"),
            None => {
                let first = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).find(|l| !l.is_empty() && l[0] != b'#');
                first.is_some_and(|l| l.starts_with(b"[[task]]") || l.starts_with(b"preamble ") && l.contains(&b'='))
            }
        };
        if toml { Format::Toml } else { Format::Markdown }
    }
}

/// What the repository knows, as far as a list depends on it.
pub struct Known<'a> {
    /// Whether an agent or a branch has this name.
    pub taken: &'a dyn Fn(&str) -> bool,
    /// The agent that was made of the same task before and is neither landed nor removed; see [`digest`]. The
    /// task's name is only a wish when this is asked.
    pub started: &'a dyn Fn(&TaskSpec) -> Option<Name>,
    /// The assistants for tasks that name none; more than one make a group.
    pub assistants: &'a [String],
}

impl<'a> Known<'a> {
    /// Only names are known.
    pub fn taken(taken: &'a dyn Fn(&str) -> bool) -> Known<'a> {
        Known { taken, started: &|_| None, assistants: &[] }
    }
}

/// Reads a list: everything there is to be said against it, or the tasks.
pub fn read(text: &str, format: Format, known: &Known<'_>) -> Result<TaskList, Vec<Mistake>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MOST_BYTES {
        return Err(vec![Mistake::new(1, format!("a task list is at most {} KiB long", MOST_BYTES >> 10))]);
    }
    let mut raw = match format {
        Format::Markdown => parse_markdown(text),
        Format::Toml => parse_toml(text),
    };
    match format {
        Format::Markdown => raw.mistakes.extend(control_characters(text, 1)),
        // The text itself has none, or it is no TOML; an escape can stand for one.
        Format::Toml => {
            let parts = raw.items.iter().map(|i| (i.line, &i.prompt)).chain([(1, &raw.preamble)]);
            let wrong: Vec<_> =
                parts.filter_map(|(line, p)| Some(Mistake { line, ..control_characters(p, 1).pop()? })).collect();
            raw.mistakes.extend(wrong);
        }
    }
    resolve(raw, known)
}

/// [`read`] for the bytes of a file.
pub fn read_bytes(bytes: &[u8], format: Format, known: &Known<'_>) -> Result<TaskList, Vec<Mistake>> {
    let mut mistakes = match text_of(bytes) {
        Ok(text) => return read(text, format, known),
        Err(mistakes) => mistakes,
    };
    if mistakes.iter().all(|m| m.message == NOT_UTF8) {
        let text = String::from_utf8_lossy(bytes);
        mistakes.extend(read(&text, format, known).err().unwrap_or_default());
    }
    mistakes.sort();
    Err(mistakes)
}

/// The text of a file, without the mark of its encoding; or every line that is not UTF-8.
pub fn text_of(bytes: &[u8]) -> Result<&str, Vec<Mistake>> {
    if bytes.len() > MOST_BYTES {
        return Err(vec![Mistake::new(1, format!("more than {} KiB are no task list", MOST_BYTES >> 10))]);
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(vec![Mistake::new(1, "the text is UTF-16; save it as UTF-8")]);
    }
    let wrong = |(i, line): (usize, &[u8])| std::str::from_utf8(line).err().map(|_| Mistake::new(i + 1, NOT_UTF8));
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.strip_prefix('\u{feff}').unwrap_or(text)),
        Err(_) => Err(bytes.split(|b| *b == b'\n').enumerate().filter_map(wrong).collect()),
    }
}

/// Tasks given as arguments (or, for `-F`, the text of a file): each is one prompt, taken as it is; no list, no
/// attributes. They are numbered from 1.
pub fn arguments<S: AsRef<str>>(texts: &[S], known: &Known<'_>) -> Result<TaskList, Vec<Mistake>> {
    let mut raw = RawList::default();
    for (i, text) in texts.iter().enumerate() {
        let (prompt, number) = (text.as_ref().to_owned(), i as u32 + 1);
        raw.mistakes.extend(control_characters(&prompt, 1));
        if prompt.trim().is_empty() {
            raw.mistakes.push(Mistake::new(1, format!("task {number} has no text")));
        }
        raw.items.push(RawItem {
            line: 1,
            number,
            done: false,
            title: title_of(&prompt),
            prompt,
            attrs: Attrs::default(),
        });
    }
    resolve(raw, known)
}

/// [`arguments`] for one text and one assistant.
pub fn single(text: &str, taken: &dyn Fn(&str) -> bool) -> Result<TaskSpec, Vec<Mistake>> {
    let mut list = arguments(&[text], &Known::taken(taken))?;
    list.tasks.pop().ok_or_else(|| vec![Mistake::new(1, "there is no task")])
}

/// What tells whether a task is new when the same list is given again: 16 hex digits of its prompt and base.
pub fn digest(prompt: &str, base: &str) -> String {
    let first = fnv64(&[base.as_bytes(), b"\0", prompt.as_bytes()].concat());
    // A second pass that depends on the first spreads the last bytes over all digits.
    format!("{:016x}", fnv64(&[&first.to_le_bytes()[..], prompt.as_bytes(), &first.to_be_bytes()[..]].concat()))
}

/// Characters that no prompt has: a terminal or a program would obey them.
fn control_characters(text: &str, from: usize) -> Vec<Mistake> {
    let lines = text.split('\n').map(|l| l.strip_suffix('\r').unwrap_or(l)).enumerate();
    let wrong = lines.filter_map(|(i, l)| l.chars().find(|c| c.is_control() && *c != '\t').map(|c| (i, c)));
    wrong.map(|(i, c)| Mistake::new(from + i, format!("control character U+{:04X}", u32::from(c)))).collect()
}

/// The first line with words, as one line: no marker of a heading or list, no fence.
fn title_of(prompt: &str) -> String {
    let bare = |line: &str| {
        let mut words = line.split_whitespace().peekable();
        while words.peek().is_some_and(|w| matches!(*w, "-" | "*" | "+" | ">") || w.bytes().all(|b| b == b'#')) {
            words.next();
        }
        words.collect::<Vec<_>>().join(" ")
    };
    let lines = prompt.lines().filter(|l| markdown::fence(l.trim(), 0).is_none());
    let title = lines.map(bare).find(|t| !t.is_empty()).unwrap_or_default();
    match title.char_indices().nth(200) {
        Some((i, _)) => format!("{}…", title[..i].trim_end()),
        None => title,
    }
}

#[cfg(test)]
mod tests;
