//! Walking a parsed TOML document: types, unknown keys and lines, with all mistakes collected.

use super::project::{CommandSpec, LARGEST, Mistake, Project};
use super::{keys, template, value};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The deepest brackets and dotted keys. The file has three levels; what is deeper is an attack on the parser.
const DEEPEST: usize = 16;

/// The longest single text. What is approved is read by a person first.
const LONGEST: usize = 4096;

/// Collects the mistakes of one file.
pub(super) struct Reader {
    origin: String,
    line_starts: Vec<usize>,
    mistakes: Vec<Mistake>,
}

impl Reader {
    pub(super) fn new(text: &[u8], origin: &str) -> Reader {
        let after_newlines = text.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1);
        let line_starts = std::iter::once(0).chain(after_newlines).collect();
        Reader { origin: value::shown(origin), line_starts, mistakes: Vec::new() }
    }

    /// The document, or what keeps it from being one.
    pub(super) fn document<'t>(&mut self, text: &'t [u8]) -> Result<DeTable<'t>, Vec<Mistake>> {
        if text.len() > LARGEST {
            return Err(vec![self.mistake(None, "", "the file is larger than 64 KiB".to_owned(), None)]);
        }
        if let Some(at) = text.iter().position(|b| *b == 0) {
            return Err(vec![self.mistake(Some(at), "", "the file contains a NUL byte".to_owned(), None)]);
        }
        let text = match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(e) => {
                return Err(vec![self.mistake(Some(e.valid_up_to()), "", "this is not UTF-8".to_owned(), None)]);
            }
        };
        if let Some(at) = too_deep(text) {
            let message = format!("nested more than {DEEPEST} levels deep");
            return Err(vec![self.mistake(Some(at), "", message, None)]);
        }
        let (root, errors) = DeTable::parse_recoverable(text);
        if errors.is_empty() {
            return Ok(root.into_inner());
        }
        // What was recovered from a broken file would only make mistakes that are none.
        let mut found: Vec<Mistake> = errors
            .iter()
            .map(|e| self.mistake(e.span().map(|s| s.start), "", value::shown(&e.message().replace('\n', ", ")), None))
            .collect();
        found.sort_by_key(|m| m.line);
        found.dedup();
        Err(found)
    }

    pub(super) fn section<'r, 't>(&'r mut self, path: &str, table: &'r DeTable<'t>) -> Section<'r, 't> {
        Section { reader: self, path: path.to_owned(), table, seen: BTreeSet::new() }
    }

    pub(super) fn finish(mut self, project: Project) -> Result<Project, Vec<Mistake>> {
        if self.mistakes.is_empty() {
            return Ok(project);
        }
        self.mistakes.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
        Err(self.mistakes)
    }

    fn mistake(&self, at: Option<usize>, key: &str, message: String, hint: Option<String>) -> Mistake {
        let line = at.map(|at| self.line_starts.partition_point(|start| *start <= at));
        Mistake { origin: self.origin.clone(), line, key: value::shown(key), message, hint }
    }

    fn push(&mut self, at: usize, key: &str, message: String, hint: Option<String>) {
        let mistake = self.mistake(Some(at), key, message, hint);
        self.mistakes.push(mistake);
    }
}

/// One table of the file, with the keys that were asked for.
pub(super) struct Section<'r, 't> {
    reader: &'r mut Reader,
    path: String,
    table: &'r DeTable<'t>,
    seen: BTreeSet<String>,
}

impl<'r, 't> Section<'r, 't> {
    fn full(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The keys of this table.
    pub(super) fn names(&self) -> Vec<String> {
        self.table.keys().map(|k| k.get_ref().to_string()).collect()
    }

    /// A mistake about `key`'s value.
    pub(super) fn wrong(&mut self, key: &str, message: &str) {
        let at = self.table.get(key).map_or(0, |v| v.span().start);
        let full = self.full(key);
        self.reader.push(at, &full, format!("'{}': {message}", value::shown(&full)), None);
    }

    fn mistyped(&mut self, key: &str, at: usize, expected: &str, found: &DeValue<'_>, hint: Option<&str>) {
        let full = self.full(key);
        let message = format!("'{}' must be {expected}, not {}", value::shown(&full), kind(found));
        self.reader.push(at, &full, message, hint.map(str::to_owned));
    }

    fn value(&mut self, key: &str) -> Option<&'r Spanned<DeValue<'t>>> {
        self.seen.insert(key.to_owned());
        self.table.get(key)
    }

    pub(super) fn child(&mut self, key: &str) -> Option<Section<'_, 't>> {
        let spanned = self.value(key)?;
        let full = self.full(key);
        match spanned.get_ref() {
            DeValue::Table(inner) => Some(self.reader.section(&full, inner)),
            other => {
                self.mistyped(key, spanned.span().start, "a table", other, None);
                None
            }
        }
    }

    pub(super) fn text<T>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let spanned = self.value(key)?;
        match spanned.get_ref() {
            DeValue::String(s) => self.parsed(key, spanned.span().start, s, false, parse),
            other => {
                let number = matches!(other, DeValue::Integer(_));
                let hint = number.then_some("write the unit too, in quotes");
                self.mistyped(key, spanned.span().start, "a string", other, hint.filter(|_| has_unit(key)));
                None
            }
        }
    }

    pub(super) fn texts(&mut self, key: &str, parse: impl Fn(&str) -> Result<String, String>) -> Option<Vec<String>> {
        let spanned = self.value(key)?;
        let DeValue::Array(items) = spanned.get_ref() else {
            self.mistyped(key, spanned.span().start, "an array of strings", spanned.get_ref(), None);
            return None;
        };
        let mut found = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let element = format!("{key}[{n}]");
            match item.get_ref() {
                DeValue::String(s) => {
                    let lines = key == "args";
                    found.extend(self.parsed(&element, item.span().start, s, lines, &parse));
                }
                other => self.mistyped(&element, item.span().start, "a string", other, None),
            }
        }
        Some(found)
    }

    pub(super) fn integer<T>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let spanned = self.value(key)?;
        match spanned.get_ref() {
            DeValue::Integer(n) => {
                // A number that fits no i128 is out of every range, and is shown as it was written.
                let text =
                    i128::from_str_radix(n.as_str(), n.radix()).map_or_else(|_| n.to_string(), |n| n.to_string());
                self.parsed(key, spanned.span().start, &text, false, parse)
            }
            other => {
                self.mistyped(key, spanned.span().start, "a whole number", other, None);
                None
            }
        }
    }

    pub(super) fn number<T>(&mut self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let spanned = self.value(key)?;
        match spanned.get_ref() {
            DeValue::Integer(n) => self.parsed(key, spanned.span().start, n.as_str(), false, parse),
            DeValue::Float(n) => self.parsed(key, spanned.span().start, n.as_str(), false, parse),
            other => {
                self.mistyped(key, spanned.span().start, "a number", other, None);
                None
            }
        }
    }

    pub(super) fn command(&mut self, key: &str, names: &[&'static str]) -> Option<CommandSpec> {
        let spanned = self.value(key)?;
        self.command_value(key, spanned, names)
    }

    pub(super) fn commands(&mut self, key: &str) -> Option<Vec<CommandSpec>> {
        let spanned = self.value(key)?;
        let DeValue::Array(items) = spanned.get_ref() else {
            let hint = Some("a single command is an array of one: [\"npm ci\"]");
            self.mistyped(key, spanned.span().start, "an array of commands", spanned.get_ref(), hint);
            return None;
        };
        Some(
            items
                .iter()
                .enumerate()
                .filter_map(|(n, one)| self.command_value(&format!("{key}[{n}]"), one, template::NAMES))
                .collect(),
        )
    }

    fn command_value(
        &mut self,
        key: &str,
        spanned: &Spanned<DeValue<'t>>,
        names: &[&'static str],
    ) -> Option<CommandSpec> {
        let at = spanned.span().start;
        match spanned.get_ref() {
            DeValue::String(line) => self.parsed(key, at, line, true, |line| {
                if line.trim().is_empty() {
                    Err("the command is empty".to_owned())
                } else if line.contains('\n') {
                    Err("a shell command is one line; put more into a script".to_owned())
                } else if template::uses_any(line, template::NAMES) {
                    let message =
                        "a shell line is not a template; use \"$AGENTS_NAME\" or write the command as an array";
                    Err(message.to_owned())
                } else {
                    Ok(CommandSpec::Shell(line.to_owned()))
                }
            }),
            DeValue::Array(items) => {
                let mut argv = Vec::new();
                for (n, item) in items.iter().enumerate() {
                    let element = format!("{key}[{n}]");
                    match item.get_ref() {
                        DeValue::String(s) => argv.extend(self.parsed(&element, item.span().start, s, true, |s| {
                            if n == 0 && s.trim().is_empty() {
                                return Err("the command is empty".to_owned());
                            }
                            template::check(s, names).map(|()| s.to_owned()).map_err(|e| e.to_string())
                        })),
                        other => self.mistyped(&element, item.span().start, "a string", other, None),
                    }
                }
                if items.is_empty() {
                    let full = self.full(key);
                    self.reader.push(at, &full, format!("'{}': the command is empty", value::shown(&full)), None);
                }
                Some(CommandSpec::Argv(argv))
            }
            other => {
                self.mistyped(key, at, "a command (a string or an array of strings)", other, None);
                None
            }
        }
    }

    pub(super) fn variables(&mut self, key: &str) -> BTreeMap<String, String> {
        let Some(mut section) = self.child(key) else { return BTreeMap::new() };
        let mut found = BTreeMap::new();
        for name in section.names() {
            let text = section.text(&name, |s| {
                template::check(s, template::ASSISTANT_NAMES).map(|()| s.to_owned()).map_err(|e| e.to_string())
            });
            if let Err(message) = keys::variable_name(&name) {
                section.wrong(&name, &message);
            } else if let Some(text) = text {
                found.insert(name, text);
            }
        }
        found
    }

    /// A string without invisible characters, through `parse`.
    fn parsed<T>(
        &mut self,
        key: &str,
        at: usize,
        text: &str,
        lines: bool,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let hidden = value::invisible(text).or_else(|| text.chars().find(|c| !lines && matches!(c, '\n' | '\t')));
        let result = match hidden {
            _ if text.len() > LONGEST => Err(format!("the text is longer than {LONGEST} bytes; put it into a script")),
            Some('\0') => Err("the text contains a NUL".to_owned()),
            Some(c) => Err(format!("the text contains the invisible character U+{:04X}", u32::from(c))),
            None => parse(text),
        };
        match result {
            Ok(found) => Some(found),
            Err(message) => {
                let full = self.full(key);
                self.reader.push(at, &full, format!("'{}': {message}", value::shown(&full)), None);
                None
            }
        }
    }

    /// Every key that nobody asked for is a mistake.
    pub(super) fn done(&mut self) {
        for key in self.table.keys() {
            if self.seen.contains(key.get_ref().as_ref()) {
                continue;
            }
            let full = self.full(key.get_ref());
            let (message, hint) = keys::unknown(&full, &self.path);
            self.reader.push(key.span().start, &full, message, hint);
        }
    }
}

/// Whether the values of `key` have a unit, so that a bare number is a likely slip.
fn has_unit(key: &str) -> bool {
    matches!(key, "time" | "stall" | "min-free" | "clone-limit")
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Where brackets or the dots of a key go deeper than [`DEEPEST`]. Text in quotes and comments does not count; what
/// this misreads is for the parser, which has a limit of its own.
fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut dots, mut i) = (0usize, 0usize, 0usize);
    while i < bytes.len() {
        match bytes[i] {
            b'#' => {
                i += bytes[i..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - i);
                continue;
            }
            quote @ (b'"' | b'\'') => {
                i = after_string(bytes, i, quote);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'.' => dots += 1,
            b'\n' | b',' | b'=' => dots = 0,
            _ => {}
        }
        if depth > DEEPEST || dots > DEEPEST {
            return Some(i);
        }
        i += 1;
    }
    None
}

/// Past the string that begins at `i`.
fn after_string(bytes: &[u8], i: usize, quote: u8) -> usize {
    let three = [quote; 3];
    let long = bytes[i..].starts_with(&three);
    let mut at = i + if long { 3 } else { 1 };
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !long => return at,
            b if b == quote && !long => return at + 1,
            _ if long && bytes[at..].starts_with(&three) => return at + 3,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}
