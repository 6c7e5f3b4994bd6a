//! Source text with comments and the contents of strings blanked, byte for byte at the same place: a test that stands in
//! either is none.

use super::Language;

/// Where something that is not code begins and how much of it stays.
struct Span {
    open: usize,
    len: usize,
    close: usize,
}

/// The code of `text`, with the line breaks and offsets of `text`.
pub(super) fn code(text: &str, l: Language) -> String {
    let b = text.as_bytes();
    let mut out = b.to_vec();
    let mut i = 0;
    while i < b.len() {
        let Some(s) = comment(b, i, l).or_else(|| string(b, i, l)) else {
            i += 1;
            continue;
        };
        let end = (i + s.len).min(b.len());
        for x in out.iter_mut().take(end.saturating_sub(s.close)).skip(i + s.open).filter(|x| **x != b'\n') {
            *x = b' ';
        }
        i = end.max(i + 1);
    }
    // Only whole characters between ASCII ones were replaced.
    String::from_utf8(out).unwrap_or_else(|_| " ".repeat(text.len()))
}

fn comment(b: &[u8], i: usize, l: Language) -> Option<Span> {
    let rest = &b[i..];
    let line = || Span { open: 0, len: rest.iter().position(|c| *c == b'\n').unwrap_or(rest.len()), close: 0 };
    let slashes = !matches!(l, Language::Python | Language::Ruby);
    let hashes = matches!(l, Language::Python | Language::Ruby | Language::Php);
    if slashes && rest.starts_with(b"//") {
        return Some(line());
    }
    if slashes && rest.starts_with(b"/*") {
        return Some(Span { open: 0, len: block(rest, l == Language::Rust), close: 0 });
    }
    if hashes && rest[0] == b'#' && !(l == Language::Php && rest.starts_with(b"#[")) {
        return Some(line());
    }
    if l == Language::Ruby && rest.starts_with(b"=begin") && (i == 0 || b[i - 1] == b'\n') {
        return Some(Span { open: 0, len: find(rest, b"\n=end").map_or(rest.len(), |n| n + 5), close: 0 });
    }
    None
}

/// The length of a block comment; Rust's are nested.
fn block(rest: &[u8], nested: bool) -> usize {
    let (mut depth, mut i) = (0usize, 0);
    while i < rest.len() {
        if rest[i..].starts_with(b"/*") && (nested || depth == 0) {
            (depth, i) = (depth + 1, i + 2);
        } else if rest[i..].starts_with(b"*/") {
            (depth, i) = (depth - 1, i + 2);
            if depth == 0 {
                return i;
            }
        } else {
            i += 1;
        }
    }
    rest.len()
}

fn string(b: &[u8], i: usize, l: Language) -> Option<Span> {
    use Language::{C, Go, Java, JavaScript, Php, Python, Ruby, Rust};
    let rest = &b[i..];
    let before = i.checked_sub(1).map(|p| b[p]);
    let in_word = before.is_some_and(|c| c.is_ascii_alphanumeric() || c == b'_');
    let until = |open: usize, end: &[u8]| {
        let found = find(&rest[open..], end);
        let (len, close) = found.map_or((rest.len(), 0), |n| (open + n + end.len(), end.len()));
        Span { open, len, close }
    };
    match rest[0] {
        b'r' if l == Rust && !in_word || l == Rust && rest[0] == b'r' && before == Some(b'b') => {
            let hashes = rest[1..].iter().take_while(|c| **c == b'#').count();
            let quoted = rest.get(1 + hashes) == Some(&b'"');
            quoted.then(|| until(2 + hashes, &[b"\"".as_slice(), &vec![b'#'; hashes]].concat()))
        }
        b'R' if l == C && !in_word && rest.starts_with(b"R\"") => {
            let mark = rest[2..].iter().take(17).position(|c| *c == b'(')?;
            Some(until(3 + mark, &[b")", &rest[2..2 + mark], b"\""].concat()))
        }
        b'"' if matches!(l, Python | Java) && rest.starts_with(b"\"\"\"") => Some(until(3, b"\"\"\"")),
        b'\'' if l == Python && rest.starts_with(b"'''") => Some(until(3, b"'''")),
        b'`' if l == Go => Some(until(1, b"`")),
        b'`' if l == JavaScript => Some(quoted(rest, b'`', true)),
        b'"' => Some(quoted(rest, b'"', matches!(l, Rust | Php))),
        b'\'' if l == Rust => {
            let text = std::str::from_utf8(&rest[1..rest.len().min(6)]);
            let first = text.unwrap_or_else(|e| std::str::from_utf8(&rest[1..=e.valid_up_to()]).unwrap_or_default());
            let first = first.chars().next()?;
            let is_literal = first == '\\' || rest.get(1 + first.len_utf8()) == Some(&b'\'');
            is_literal.then(|| quoted(rest, b'\'', false))
        }
        // 1'000 in C++.
        b'\'' if l == C && before.is_some_and(|c| c.is_ascii_hexdigit()) => None,
        b'\'' if matches!(l, JavaScript | Python | Ruby | Php | C | Java | Go) => {
            Some(quoted(rest, b'\'', matches!(l, Php)))
        }
        b'/' if l == JavaScript && begins_regex(b, i) => {
            let s = quoted(rest, b'/', false);
            // A division is no expression.
            (s.close > 0).then_some(s)
        }
        _ => None,
    }
}

/// A string that begins and ends with `quote`, with escapes; one that is not closed ends with its line.
fn quoted(rest: &[u8], quote: u8, lines: bool) -> Span {
    let mut i = 1;
    while i < rest.len() {
        match rest[i] {
            b'\\' => i += 1,
            b'\n' if !lines => return Span { open: 1, len: i, close: 0 },
            c if c == quote => return Span { open: 1, len: i + 1, close: 1 },
            _ => {}
        }
        i += 1;
    }
    Span { open: 1, len: rest.len(), close: 0 }
}

/// Whether a slash can only begin a regular expression: what stands before it is no value.
fn begins_regex(b: &[u8], i: usize) -> bool {
    let before = b[..i].iter().rev().find(|c| !c.is_ascii_whitespace());
    before.is_none_or(|c| b"(,=:[!&|?{};+".contains(c))
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Language; 8] = [
        Language::Rust,
        Language::Python,
        Language::JavaScript,
        Language::Go,
        Language::Java,
        Language::Ruby,
        Language::Php,
        Language::C,
    ];

    #[test]
    fn comments_and_strings_are_no_code() {
        for (l, text, shown) in [
            (Language::Rust, "a /* x /* y */ z */ b", "a                   b"),
            (Language::Rust, "'a'; f::<'a>(\"x\\\"y\") r#\"z\"z\"#", "' '; f::<'a>(\"    \") r#\"   \"#"),
            (Language::Rust, "let r = \"a\nb\";", "let r = \" \n \";"),
            (Language::Python, "x = '''a\nb''' # c", "x = ''' \n '''    "),
            (Language::JavaScript, "a(/\"'/, `b\n'`) / 2 / 3", "a(/  /, ` \n `) / 2 / 3"),
            (Language::Go, "a := `\\` + \"b\"", "a := ` ` + \" \""),
            (Language::Php, "#[A] # b\n'c'", "#[A]    \n' '"),
            (Language::Ruby, "=begin\nit\n=end\nit", "      \n  \n    \nit"),
            (Language::C, "1'000 R\"x(a)\")x\" 'b'", "1'000 R\"x(   )x\" ' '"),
            (Language::Java, "\"\"\"\n\" \"\"\"; '\"'", "\"\"\"\n  \"\"\"; ' '"),
            (Language::JavaScript, "'not closed\nit", "'          \nit"),
        ] {
            assert_eq!(code(text, l), shown, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_line_stays_where_it_is(text in "([a-z/*#'\"`\\\\rR(é=]|\n)*") {
            for l in ALL {
                let code = code(&text, l);
                prop_assert_eq!(code.len(), text.len());
                let breaks = |s: &str| s.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i).collect::<Vec<_>>();
                prop_assert_eq!(breaks(&code), breaks(&text));
            }
        }
    }
}
