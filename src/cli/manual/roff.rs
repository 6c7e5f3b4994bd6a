//! A page of the man macros, from plain text with three marks: `` `code` `` is bold, `<value>` is italic, a line
//! `- term :: text` is an item. Indented lines stay as they are.

use std::fmt::Write as _;

/// Changes with the text, not with the day it is made on.
const DATE: &str = "2026-11-30";

/// A page being written.
pub(super) struct Roff {
    out: String,
    /// Behind a heading no `.PP` is wanted.
    fresh: bool,
}

impl Roff {
    pub(super) fn page(name: &str, brief: &str) -> Roff {
        let title = escaped(&name.to_uppercase(), true);
        let version = env!("CARGO_PKG_VERSION");
        let mut out = Roff { out: format!("{}\n", super::MARK), fresh: true };
        let _ = writeln!(out.out, ".TH {title} 1 {DATE} \"git agents {version}\" \"Git Agents\"");
        out.section("NAME");
        out.wrapped(&format!("{} \\- {}", escaped(name, true), escaped(brief, false)));
        out
    }

    pub(super) fn section(&mut self, head: &str) {
        let quoted = if head.contains(' ') && !head.starts_with('"') { format!("\"{head}\"") } else { head.to_owned() };
        let _ = writeln!(self.out, ".SH {quoted}");
        self.fresh = true;
    }

    pub(super) fn subsection(&mut self, head: &str) {
        let _ = writeln!(self.out, ".SS \"{}\"", escaped(head, true));
        self.fresh = true;
    }

    /// `git agents rm [options] [AGENT]...`: literal words bold, the rest as it is.
    pub(super) fn synopsis(&mut self, usage: &str, again: bool) {
        if again {
            self.out.push_str(".br\n");
        }
        let words = usage.split(' ').map(|w| {
            let literal = w.starts_with(|c: char| c.is_ascii_lowercase());
            if literal { format!("\\fB{}\\fR", escaped(w, true)) } else { escaped(w, true) }
        });
        let words: Vec<String> = words.collect();
        self.wrapped(&words.join(" "));
        self.fresh = false;
    }

    /// An item whose term and text have marks.
    pub(super) fn item(&mut self, term: &str, text: &str) {
        let _ = writeln!(self.out, ".TP\n{}", marked(term));
        self.wrapped(&marked(text));
        self.fresh = false;
    }

    /// An item whose term is another page.
    pub(super) fn item_of(&mut self, page: &str, text: &str) {
        self.item(&format!("`{page}`(1)"), text);
    }

    pub(super) fn prose(&mut self, text: &str) {
        let mut paragraph: Vec<&str> = Vec::new();
        let mut lines = text.lines().chain([""]).peekable();
        while let Some(line) = lines.next() {
            if let Some(code) = line.strip_prefix("    ") {
                self.paragraph(&mut paragraph);
                self.out.push_str(if self.fresh { "" } else { ".PP\n" });
                self.out.push_str(".RS 4\n.nf\n");
                let _ = writeln!(self.out, "{}", guarded(&escaped(code, true)));
                while let Some(more) = lines.next_if(|l| l.starts_with("    ")) {
                    let _ = writeln!(self.out, "{}", guarded(&escaped(&more[4..], true)));
                }
                self.out.push_str(".fi\n.RE\n");
                self.fresh = false;
            } else if let Some((term, text)) = line.strip_prefix("- ").and_then(|l| l.split_once(" :: ")) {
                self.paragraph(&mut paragraph);
                let mut all = text.to_owned();
                while let Some(more) = lines.next_if(|l| l.starts_with("  ") && !l.starts_with("    ")) {
                    all.push(' ');
                    all.push_str(more.trim());
                }
                self.item(term, &all);
            } else if line.trim().is_empty() {
                self.paragraph(&mut paragraph);
            } else {
                paragraph.push(line.trim());
            }
        }
    }

    fn paragraph(&mut self, lines: &mut Vec<&str>) {
        if lines.is_empty() {
            return;
        }
        self.out.push_str(if self.fresh { "" } else { ".PP\n" });
        self.wrapped(&marked(&lines.join(" ")));
        self.fresh = false;
        lines.clear();
    }

    /// No input line longer than 78 bytes, where words allow.
    fn wrapped(&mut self, text: &str) {
        let mut line = String::new();
        for word in text.split(' ').filter(|w| !w.is_empty()) {
            if !line.is_empty() && line.len() + 1 + word.len() > 78 {
                let _ = writeln!(self.out, "{}", guarded(&line));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        if !line.is_empty() {
            let _ = writeln!(self.out, "{}", guarded(&line));
        }
    }

    pub(super) fn finish(self) -> String {
        self.out
    }
}

/// A line that begins with a control character is a request.
fn guarded(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

/// Text with its marks.
fn marked(text: &str) -> String {
    let mut out = String::new();
    for (n, part) in text.split('`').enumerate() {
        if n % 2 == 1 {
            let _ = write!(out, "\\fB{}\\fR", escaped(part, true));
            continue;
        }
        let mut rest = part;
        while let Some((before, after)) = rest.split_once('<') {
            let Some((value, after)) = after.split_once('>') else { break };
            let _ = write!(out, "{}\\fI{}\\fR", escaped(before, false), escaped(value, true));
            rest = after;
        }
        out.push_str(&escaped(rest, false));
    }
    out
}

/// No character is read as something else. In code a hyphen is a minus, which can be copied.
fn escaped(text: &str, code: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\e"),
            '-' if code => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            // Terminals of the C locale have none.
            '…' => out.push_str("..."),
            '~' => out.push_str("\\(ti"),
            '^' => out.push_str("\\(ha"),
            c if c.is_ascii() => out.push(c),
            c => {
                let _ = write!(out, "\\[u{:04X}]", u32::from(c));
            }
        }
    }
    out
}
