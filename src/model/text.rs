//! Text from elsewhere, made fit for a terminal.
//!
//! What assistants print, what files, branches and authors are called is hostile: it may move the cursor, set the
//! clipboard, paint a fake answer, or reorder what a person reads. Everything that reaches a terminal goes through
//! here, and what comes out has no control character but the newline that was asked for, no escape sequence, and
//! nothing that is invisible or changes direction. It is for showing, never for comparing or storing.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// More marks on one character than any script uses; what follows is there to disturb.
const MARKS: usize = 8;

/// One line: line breaks and tabs become spaces, one break at the end is dropped.
pub fn safe_line(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    clean(bytes.strip_suffix(b"\r").unwrap_or(bytes), ' ')
}

/// The same, but `\n` stays, and every other kind of line break becomes one.
pub fn safe_text(bytes: &[u8]) -> String {
    clean(bytes, '\n')
}

/// Where the scanner stands within an escape sequence.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Ground,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte (character sets and the like).
    Intermediate,
    /// In a control sequence, up to its final byte.
    Csi,
    /// In a string (OSC, DCS, APC, PM, SOS), up to its terminator.
    String,
}

fn clean(bytes: &[u8], line_break: char) -> String {
    let mut out = Cleaner { out: String::with_capacity(bytes.len()), at: At::Ground, cr: false, marks: 0, line_break };
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| out.push(c));
        match chunk.invalid() {
            [] => {}
            // A terminal in an 8-bit mode takes these for the C1 controls.
            [b @ 0x80..=0x9f] => out.push(char::from(*b)),
            _ => out.push(char::REPLACEMENT_CHARACTER),
        }
    }
    out.out
}

struct Cleaner {
    out: String,
    at: At,
    /// The last character was a carriage return, shown as a break: a newline right after it belongs to it.
    cr: bool,
    marks: usize,
    line_break: char,
}

impl Cleaner {
    fn push(&mut self, c: char) {
        // A newline ends every sequence: an unterminated one hides the rest of its line, not of the log.
        if self.at != At::Ground && matches!(c, '\n' | '\r' | '\u{18}' | '\u{1a}' | '\u{9c}') {
            self.at = At::Ground;
        }
        self.at = match (self.at, c) {
            (_, '\u{1b}') => At::Escape,
            (_, '\u{9b}') => At::Csi,
            (_, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => At::String,
            (At::Escape, '[') => At::Csi,
            (At::Escape, 'P' | 'X' | '^' | '_' | ']') => At::String,
            (At::Escape | At::Intermediate, ' '..='/') => At::Intermediate,
            (At::Escape | At::Intermediate, '0'..='~') => At::Ground,
            (At::Csi, ' '..='?') => At::Csi,
            (At::Csi, '@'..='~') => At::Ground,
            (At::Escape | At::Intermediate | At::Csi, c) if c < ' ' => self.at,
            (At::String, '\u{7}') => At::Ground,
            (At::String, _) => At::String,
            (_, c) => {
                self.show(c);
                At::Ground
            }
        };
    }

    fn show(&mut self, c: char) {
        let after_cr = std::mem::replace(&mut self.cr, c == '\r');
        match c {
            '\n' if after_cr => {}
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => self.out.push(self.line_break),
            '\t' => self.out.push(' '),
            c if c.is_control() || is_invisible(c) => {}
            c if c.is_ascii() => {
                self.marks = 0;
                self.out.push(c);
            }
            c => {
                self.marks = if c.width() == Some(0) { self.marks + 1 } else { 0 };
                if self.marks <= MARKS {
                    self.out.push(c);
                }
            }
        }
    }
}

/// Characters without a shape of their own: direction, joining, fillers, variation selectors, tags, annotations.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The first character that a person would not see, or that changes how the rest is shown. Text that is approved by
/// reading it must not contain any.
pub fn invisible(s: &str) -> Option<char> {
    s.chars().find(|c| (c.is_control() && !matches!(c, '\t' | '\n')) || is_invisible(*c))
}

/// `s` for a message about a value: one line, what is invisible escaped, cut after 80 characters.
pub fn shown(s: &str) -> String {
    let mut out = String::new();
    for (n, c) in s.chars().enumerate() {
        if n == 80 {
            out.push('…');
            break;
        }
        if c.is_control() || is_invisible(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// One word of a command for a person to copy: as it is where no shell reads anything into it, else in single quotes.
pub fn shell_word(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_alphanumeric() || "_./@%+=:,-".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('=') {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', "'\\''")))
}

/// At most `columns` columns of a terminal; what was cut is shown by '…', which counts. Expects clean text.
pub fn clip(text: &str, columns: usize) -> Cow<'_, str> {
    if text.width() <= columns {
        return Cow::Borrowed(text);
    }
    let mut used = 0;
    let mut out: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used < columns
        })
        .collect();
    // A character may be wider beside its neighbour than alone.
    while !out.is_empty() && out.width() >= columns {
        out.pop();
    }
    if columns > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// At most `max` bytes and whole characters; what was cut is shown by '…', which counts.
pub fn clip_bytes(mut text: String, max: usize) -> String {
    if text.len() > max {
        text.truncate(text.floor_char_boundary(max.saturating_sub('…'.len_utf8())));
        if max >= '…'.len_utf8() {
            text.push('…');
        }
    }
    text
}

/// A path as git shows it with `core.quotePath=false`: as it is, or C-quoted when it holds a quote, a backslash, a
/// control or invisible character, or bytes that are not UTF-8.
pub fn safe_path(path: &[u8]) -> String {
    let plain = std::str::from_utf8(path).ok().filter(|p| !p.chars().any(needs_quoting));
    if let Some(plain) = plain {
        return plain.to_owned();
    }
    let mut out = String::from("\"");
    for chunk in path.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\u{7}' => out.push_str("\\a"),
                '\u{8}' => out.push_str("\\b"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\u{b}' => out.push_str("\\v"),
                '\u{c}' => out.push_str("\\f"),
                '\r' => out.push_str("\\r"),
                c if needs_quoting(c) => octal(&mut out, c.encode_utf8(&mut [0; 4]).as_bytes()),
                c => out.push(c),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out
}

/// A path within words for a person: [`safe_path`].
pub fn shown_path(path: &std::path::Path) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    safe_path(path.as_os_str().as_bytes())
}

fn needs_quoting(c: char) -> bool {
    c.is_control() || c == '"' || c == '\\' || is_invisible(c)
}

fn octal(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        out.extend(['\\', char::from(b'0' + (b >> 6)), char::from(b'0' + (b >> 3 & 7)), char::from(b'0' + (b & 7))]);
    }
}

/// All of `text` on one line: cleaned, white space folded, at most `max` columns.
pub fn one_line(text: &str, max: usize) -> String {
    let clean = safe_line(text.as_bytes());
    let folded = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    clip(&folded, max).into_owned()
}

/// The first sentence of `text`, or its first paragraph where none ends: without the marks of a heading, item or
/// quotation before it, cleaned, at most `max` columns.
pub fn first_sentence(text: &str, max: usize) -> String {
    let clean = safe_text(text.as_bytes());
    let paragraph = clean
        .lines()
        .map(|l| l.trim().trim_start_matches(['#', '>', '-', '*', ' ']))
        .skip_while(|l| l.is_empty())
        .take_while(|l| !l.is_empty())
        .collect::<Vec<_>>()
        .join(" ");
    let mut words = Vec::new();
    for word in paragraph.split_whitespace() {
        words.push(word);
        if ends_sentence(word) {
            break;
        }
    }
    clip(&words.join(" "), max).into_owned()
}

fn ends_sentence(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '\'', ')', '*', '`', '_']);
    match word.strip_suffix(['.', '!', '?', '。']) {
        // "e.g." and initials end no sentence.
        Some(stem) => !(word.ends_with('.') && (stem.chars().count() == 1 || stem.contains('.') && stem.len() <= 4)),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_shows_what_is_hidden() {
        assert_eq!(shown("a\u{202e}b\u{1b}[2J\n"), "a\\u{202e}b\\u{1b}[2J\\n");
        assert_eq!(shown(&"x".repeat(200)).chars().count(), 81);
    }

    #[test]
    fn a_word_for_a_shell_is_that_word() {
        for plain in ["x", "agents/csv-export", "a.b_c@1", "日本語"] {
            assert_eq!(shell_word(plain), plain);
        }
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        for hostile in ["$(x)", "a;b", "a b", "~", "=ls", "a`b`", "!!", "#a", "{a,b}", "a\\"] {
            assert_eq!(shell_word(hostile), format!("'{hostile}'"));
        }
    }

    fn assert_safe(s: &str, input: &[u8]) {
        for c in s.chars() {
            assert!(c == '\n' || !c.is_control(), "{c:?} out of {input:?}");
            assert!(!is_invisible(c), "{c:?} out of {input:?}");
        }
    }

    /// What is hostile, and what a person shall see of it (as one text).
    const CORPUS: &[(&[u8], &str)] = &[
        (b"plain", "plain"),
        // CSI
        (b"a\x1b[31mred\x1b[0mb", "aredb"),
        (b"a\x1b[2Jb", "ab"),
        (b"a\x1b[1;1Hb", "ab"),
        (b"a\x1b[1A\x1b[2Kb", "ab"),
        (b"a\x1b[?1049hb", "ab"),
        (b"a\x1b[?25lb", "ab"),
        (b"a\x1b[38;2;1;2;3mb", "ab"),
        (b"a\x1b[38:2::1:2:3mb", "ab"),
        (b"a\x1b[>4;2mb", "ab"),
        (b"a\x1b[!pb", "ab"),
        (b"a\x1b[6nb", "ab"),
        (b"a\x1b[200~b\x1b[201~c", "abc"),
        (b"a\x1b[1$rb", "ab"),
        (b"a\x1b[3\x0731mb", "ab"),
        (b"a\x1b[\x1b[31mb", "ab"),
        (b"a\x1b[8mhidden\x1b[28mb", "ahiddenb"),
        (b"a\x1b[31", "a"),
        (b"a\x1b[31\nb", "a\nb"),
        (b"a\x1b[\xc3\xa9", "aé"),
        // Other escapes
        (b"a\x1bcb", "ab"),
        (b"a\x1b7b\x1b8c", "abc"),
        (b"a\x1b(0b", "ab"),
        (b"a\x1b%Gb", "ab"),
        (b"a\x1b#8b", "ab"),
        (b"a\x1b=b\x1b>c", "abc"),
        (b"a\x1b", "a"),
        (b"a\x1b\x1b\x1b[mb", "ab"),
        (b"a\x1b\nb", "a\nb"),
        (b"a\x1b\xe2\x82\xacb", "a€b"),
        // OSC
        (b"a\x1b]0;title\x07b", "ab"),
        (b"a\x1b]0;title\x1b\\b", "ab"),
        (b"a\x1b]2;title\x07b", "ab"),
        (b"a\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
        (b"a\x1b]52;c;ZXZpbA==\x07b", "ab"),
        (b"a\x1b]9;done\x07b", "ab"),
        (b"a\x1b]9;4;1;50\x07b", "ab"),
        (b"a\x1b]777;notify;t;b\x07b", "ab"),
        (b"a\x1b]1337;File=inline=1:AAAA\x07b", "ab"),
        (b"a\x1b]4;1;?\x07b", "ab"),
        (b"a\x1b]133;A\x07b", "ab"),
        (b"a\x1b]0;t\xc3\xbctle\x07b", "ab"),
        (b"a\x1b]0;title\xc2\x9cb", "ab"),
        (b"a\x1b]0;title\x18b", "ab"),
        (b"a\x1b]0;\x1b[31mb", "ab"),
        (b"a\x1b]0;never ends", "a"),
        (b"a\x1b]0;never ends\nb", "a\nb"),
        // DCS, APC, PM, SOS
        (b"a\x1bP$qm\x1b\\b", "ab"),
        (b"a\x1bPq#0;2;0;0;0#0~~\x1b\\b", "ab"),
        (b"a\x1bP+q544e\x1b\\b", "ab"),
        (b"a\x1b_Gf=24,s=1;AAAA\x1b\\b", "ab"),
        (b"a\x1b^private\x1b\\b", "ab"),
        (b"a\x1bXstart\x1b\\b", "ab"),
        (b"a\x1bPnever ends", "a"),
        (b"a\x1b_never ends", "a"),
        // C1, in UTF-8 and as bytes
        (b"a\xc2\x9b31mb", "ab"),
        (b"a\x9b31mb", "ab"),
        (b"a\xc2\x9d0;t\x07b", "ab"),
        (b"a\x9d52;c;AAAA\x9cb", "ab"),
        (b"a\x90q\x9cb", "ab"),
        (b"a\x9fG\x9cb", "ab"),
        (b"a\x9ex\x9cb", "ab"),
        (b"a\x98x\x9cb", "ab"),
        (b"a\x84\x88\x8d\x9ab", "ab"),
        (b"a\xc2\x85b", "a\nb"),
        // Controls
        (b"a\0\x01\x05\x07\x08\x0e\x0f\x7fb", "ab"),
        (b"rm -rf /\rls", "rm -rf /\nls"),
        (b"a\r\nb", "a\nb"),
        (b"a\tb\x0bc\x0cd", "a b\nc\nd"),
        // Not UTF-8, or not to its end
        (b"a\xff\xfeb", "a\u{fffd}\u{fffd}b"),
        (b"a\xe2\x82", "a\u{fffd}"),
        (b"a\xe2\x1b[31m\x82b", "a\u{fffd}b"),
        // An overlong form: its second byte is a C1 control to an 8-bit terminal, and so to us.
        (b"a\xc0\x9bb", "a\u{fffd}"),
        (b"a\xed\xa0\x80b", "a\u{fffd}\u{fffd}b"),
        // Direction, invisible
        (b"a\xe2\x80\xaeb\xe2\x80\xacc", "abc"),
        (b"a\xe2\x81\xa6b\xe2\x81\xa9", "ab"),
        (b"a\xe2\x80\x8e\xe2\x80\x8f\xd8\x9cb", "ab"),
        (b"a\xe2\x80\x8b\xe2\x80\x8d\xe2\x81\xa0b", "ab"),
        (b"a\xe2\x80\xa8b\xe2\x80\xa9c", "a\nb\nc"),
        (b"\xef\xbb\xbfa", "a"),
        (b"a\xf3\xa0\x81\x81\xf3\xa0\x84\x80b", "ab"),
        (b"a\xef\xbf\xb9b", "ab"),
        ("naïve 日本 🎉".as_bytes(), "naïve 日本 🎉"),
    ];

    #[test]
    fn nothing_hostile_is_left_and_nothing_else_is_lost() {
        assert!(CORPUS.len() >= 60);
        for (input, seen) in CORPUS {
            let text = safe_text(input);
            assert_safe(&text, input);
            assert_eq!(text, *seen, "{:?}", String::from_utf8_lossy(input));
            let line = safe_line(input);
            assert!(!line.contains('\n'));
            assert_eq!(line, seen.replace('\n', " "));
        }
    }

    #[test]
    fn a_line_loses_its_own_end_only() {
        assert_eq!(safe_line(b"a\r\n"), "a");
        assert_eq!(safe_line(b"a\n\n"), "a ");
        assert_eq!(safe_text(b"a\n\nb\n"), "a\n\nb\n");
    }

    #[test]
    fn marks_do_not_pile_up() {
        let zalgo = format!("e{}x", "\u{301}".repeat(500));
        assert_eq!(safe_line(zalgo.as_bytes()).chars().count(), 2 + MARKS);
    }

    #[test]
    fn clipping_counts_columns() {
        assert_eq!(clip("abc", 3), "abc");
        assert_eq!(clip("abcd", 3), "ab…");
        assert_eq!(clip("日本語", 5), "日本…");
        assert_eq!(clip("日本語", 4), "日…");
        assert_eq!(clip("abc", 0), "");
        assert_eq!(clip_bytes("日本語".into(), 8), "日…");
        assert_eq!(clip_bytes("abc".into(), 3), "abc");
    }

    #[test]
    fn paths_are_quoted_as_git_does() {
        assert_eq!(safe_path(b"src/a b.rs"), "src/a b.rs");
        assert_eq!(safe_path("sch\u{f6}n".as_bytes()), "sch\u{f6}n");
        assert_eq!(safe_path(b"a\nb\"c\\\x1b\x7f"), r#""a\nb\"c\\\033\177""#);
        assert_eq!(safe_path(b"a\xff"), r#""a\377""#);
        assert_eq!(safe_path("a\u{202e}".as_bytes()), r#""a\342\200\256""#);
    }

    #[test]
    fn sentences() {
        assert_eq!(first_sentence("\n## Done. More\nof it", 80), "Done.");
        assert_eq!(
            first_sentence("Added it, e.g. in v1.2 of x\nand tested. Next", 80),
            "Added it, e.g. in v1.2 of x and tested."
        );
        assert_eq!(first_sentence("no end\n\nsecond", 80), "no end");
        assert_eq!(first_sentence("", 80), "");
        assert_eq!(one_line("  a\n\n b\x1b[31m c ", 80), "a b c");
        assert_eq!(one_line("one two", 5), "one …");
    }

    proptest! {
        #[test]
        fn any_bytes_come_out_safe(bytes in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(0x1b), Just(0xc2), Just(0xe2), Just(0x80), Just(b']'), Just(b'[')], 0..200)
        ) {
            assert_safe(&safe_text(&bytes), &bytes);
            let line = safe_line(&bytes);
            prop_assert!(!line.contains('\n'));
            assert_safe(&line, &bytes);
            assert_safe(&safe_path(&bytes), &bytes);
            prop_assert_eq!(safe_text(safe_text(&bytes).as_bytes()), safe_text(&bytes));
        }

        #[test]
        fn clipping_never_exceeds(text in "\\PC{0,40}", columns in 0usize..20) {
            prop_assert!(clip(&text, columns).width() <= columns);
            prop_assert!(clip_bytes(text, columns).len() <= columns);
        }

        #[test]
        fn text_that_was_printable_stays(text in "[a-zA-Z0-9 äß日本.,]{0,60}") {
            prop_assert_eq!(safe_text(text.as_bytes()), text);
        }
    }
}
