//! Rust source as words: identifiers, strings and single punctuation marks. Comments, numbers' insides, character
//! literals and lifetimes say nothing to a rule and are left out.

/// One word of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Counted from 1.
    pub line: usize,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Ident(String),
    Text(String),
    Mark(char),
}

impl Token {
    pub fn is_ident(&self, name: &str) -> bool {
        matches!(&self.kind, Kind::Ident(i) if i == name)
    }

    /// Whether it is this punctuation mark.
    pub fn is(&self, mark: &str) -> bool {
        matches!(&self.kind, Kind::Mark(c) if mark.chars().eq([*c]))
    }

    /// What a string literal holds, escapes left as they are written.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(s) => Some(s),
            _ => None,
        }
    }
}

/// Reads `source`, which compiles.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut reader = Reader { rest: source, line: 1 };
    let mut out = Vec::new();
    while !reader.rest.is_empty() {
        let line = reader.line;
        if let Some(kind) = reader.next() {
            out.push(Token { line, kind });
        }
    }
    out
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn next(&mut self) -> Option<Kind> {
        let c = self.rest.chars().next()?;
        if self.rest.starts_with("//") {
            self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            return None;
        }
        if self.rest.starts_with("/*") {
            self.block_comment();
            return None;
        }
        if let Some(hashes) = raw_string(self.rest) {
            return Some(self.raw(hashes));
        }
        if let Some(start) = ["\"", "b\"", "c\""].iter().find(|s| self.rest.starts_with(**s)) {
            self.take(start.len());
            return Some(self.string());
        }
        if c == '\'' {
            self.quote();
            return None;
        }
        if c == '_' || c.is_alphanumeric() {
            let end = self.rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(self.rest.len());
            let word = self.take(end);
            return (!c.is_ascii_digit()).then(|| Kind::Ident(word.to_owned()));
        }
        self.take(c.len_utf8());
        (!c.is_whitespace()).then_some(Kind::Mark(c))
    }

    /// They nest.
    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
            } else if let Some(c) = self.rest.chars().next() {
                self.take(c.len_utf8());
            }
            if depth == 0 || self.rest.is_empty() {
                return;
            }
        }
    }

    fn raw(&mut self, hashes: usize) -> Kind {
        self.take(self.rest.find('"').unwrap_or(0) + 1);
        let close = format!("\"{}", "#".repeat(hashes));
        let text = self.take(self.rest.find(&close).unwrap_or(self.rest.len()));
        self.take(close.len().min(self.rest.len()));
        Kind::Text(text.to_owned())
    }

    fn string(&mut self) -> Kind {
        let mut end = 0;
        let bytes = self.rest.as_bytes();
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let text = self.take(end.min(bytes.len())).to_owned();
        self.take(self.rest.len().min(1));
        Kind::Text(text)
    }

    /// A character or a lifetime: `'x'`, `'\''`, `'a`.
    fn quote(&mut self) {
        self.take(1);
        let mut chars = self.rest.char_indices();
        let Some((_, first)) = chars.next() else { return };
        if first == '\\' {
            // The escaped one may itself be a quote.
            let end = self.rest[2..].find('\'').map_or(self.rest.len(), |e| e + 3);
            self.take(end);
        } else if let Some((at, '\'')) = chars.next() {
            self.take(at + 1);
        }
    }
}

/// The number of `#` where a raw string begins.
fn raw_string(rest: &str) -> Option<usize> {
    let after = ["r", "br", "cr"].iter().find_map(|p| rest.strip_prefix(*p))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    after[hashes..].starts_with('"').then_some(hashes)
}

#[test]
fn strings_comments_and_quotes_hide_what_is_in_them() {
    let text = r##"// a
        /* b /* c */ d */ "e \" f" r#"g "h""# b"i" 'j' '\'' '\u{6b}' 'l x::y 1_000u8 'm: n"##;
    let seen: Vec<String> = tokens(text)
        .iter()
        .map(|t| match &t.kind {
            Kind::Ident(s) => s.clone(),
            Kind::Text(s) => format!("<{s}>"),
            Kind::Mark(c) => c.to_string(),
        })
        .collect();
    assert_eq!(seen, [r#"<e \" f>"#, "<g \"h\">", "<i>", "l", "x", ":", ":", "y", "m", ":", "n"]);
    assert!(tokens(text).iter().all(|t| t.line == 2));
}
