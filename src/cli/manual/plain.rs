//! A page as text, for a pipe and for machines without man. It reads the requests that `roff` writes, and no others.

use std::fmt::Write as _;

const WIDTH: usize = 80;
/// As man indents them.
const BODY: usize = 7;
const ITEM: usize = 14;

/// The text of a page, at most 80 columns wide where its words allow.
pub(super) fn text(roff: &str) -> String {
    let mut page = Plain { out: String::new(), words: Vec::new(), indent: BODY, verbatim: false };
    let mut term = false;
    for line in roff.lines() {
        let (request, rest) = line.split_once(' ').unwrap_or((line, ""));
        if std::mem::take(&mut term) {
            page.line(BODY, &unescaped(line));
            page.indent = ITEM;
            continue;
        }
        match request {
            ".\\\"" => {}
            ".TH" => {
                let name = rest.split(' ').next().unwrap_or_default();
                page.line(0, &format!("{}(1)", unescaped(name)));
            }
            ".SH" | ".SS" => {
                page.gap();
                let head = unescaped(rest.trim_matches('"'));
                page.line(if request == ".SH" { 0 } else { 3 }, &head);
                page.indent = BODY;
            }
            ".PP" | ".TP" => {
                page.gap();
                page.indent = BODY;
                term = request == ".TP";
            }
            ".br" => page.flush(),
            ".nf" | ".fi" => {
                page.flush();
                page.verbatim = request == ".nf";
            }
            // They enclose what is verbatim.
            ".RS" | ".RE" => {}
            _ if page.verbatim => page.line(BODY + 4, &unescaped(line)),
            _ => page.words.extend(unescaped(line).split(' ').map(str::to_owned)),
        }
    }
    page.flush();
    page.out
}

struct Plain {
    out: String,
    words: Vec<String>,
    indent: usize,
    verbatim: bool,
}

impl Plain {
    fn line(&mut self, indent: usize, text: &str) {
        let _ = writeln!(self.out, "{:indent$}{text}", "");
    }

    /// An empty line, but none behind a heading.
    fn gap(&mut self) {
        self.flush();
        let last = self.out.lines().next_back().unwrap_or_default();
        let heading = last.starts_with(|c: char| c != ' ') && !last.ends_with("(1)");
        if !heading && !last.is_empty() {
            self.out.push('\n');
        }
    }

    /// Writes the words that are waiting, filled.
    fn flush(&mut self) {
        let mut line = String::new();
        for word in std::mem::take(&mut self.words) {
            if !line.is_empty() && self.indent + line.chars().count() + 1 + word.chars().count() > WIDTH {
                self.line(self.indent, &std::mem::take(&mut line));
            }
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(&word);
        }
        if !line.is_empty() {
            self.line(self.indent, &line);
        }
    }
}

/// Without fonts, and every character as itself.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('\\');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (said, rest) = match part.as_bytes() {
            [b'f', _, ..] => (String::new(), &part[2..]),
            [b'(', ..] => (of_name(part.get(1..3).unwrap_or_default()), part.get(3..).unwrap_or_default()),
            [b'[', ..] => {
                let (code, rest) = part[1..].split_once(']').unwrap_or((part, ""));
                let c = u32::from_str_radix(code.trim_start_matches('u'), 16).ok().and_then(char::from_u32);
                (c.map(String::from).unwrap_or_default(), rest)
            }
            [b'&', ..] => (String::new(), &part[1..]),
            [b'e', ..] => ("\\".to_owned(), &part[1..]),
            _ => (String::new(), part),
        };
        out.push_str(&said);
        out.push_str(rest);
    }
    out
}

fn of_name(name: &str) -> String {
    match name {
        "aq" => "'",
        "ti" => "~",
        "ha" => "^",
        _ => "",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::{names, page};
    use super::*;

    #[test]
    fn no_page_leaves_a_request_or_an_escape_in_its_text() {
        for name in names() {
            let text = text(&page(&name).unwrap());
            assert!(text.starts_with(&format!("{}(1)\n\nNAME\n       {name} - ", name.to_uppercase())), "{text}");
            let requests = [".\\\"", ".TH", ".SH", ".SS", ".PP", ".TP", ".br", ".nf", ".fi", ".RS", ".RE"];
            let first = |l: &str| l.split_whitespace().next().unwrap_or_default().to_owned();
            assert!(!text.lines().any(|l| requests.contains(&first(l).as_str())), "{text}");
            for left in ["\\f", "\\-", "\\(", "\\[", "\\&", "\\e", "\n\n\n"] {
                assert!(!text.contains(left), "{left:?} in {name}\n{text}");
            }
            for head in ["SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO"] {
                assert!(text.contains(&format!("\n\n{head}\n       ")), "{name} has no {head}\n{text}");
            }
        }
    }

    #[test]
    fn characters_and_verbatim_lines_are_as_they_were_written() {
        let mut roff = super::super::Roff::page("x", "y");
        roff.section("A B");
        roff.prose("It's `a-b\\c` <file> ~^ é\n\n    .verbatim   line\n      'more'\n\nafter\n- `--x` :: text");
        let text = text(&roff.finish());
        let body = text.split("A B\n").nth(1).unwrap();
        let wanted = "       It's a-b\\c file ~^ é\n\n           .verbatim   line\n             'more'\n\n       after\n\n       --x\n              text\n";
        assert_eq!(body, wanted, "{body}");
    }
}
