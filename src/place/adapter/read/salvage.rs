//! The objects of a line that is more, or less, than one.

use super::Fields;
use bstr::ByteSlice as _;
use serde_json::Value;
use std::borrow::Cow;

/// Beginnings of objects in a line that turn out to be none: who prints more (a value that is nested without end, each
/// level read anew to the limit of depth) keeps the supervisor from everything else.
const FALSE_STARTS: usize = 200;

/// The objects with a `type` in `line`, and the text beside them.
///
/// An object that was cut off is completed as far as it came, so that its first fields are not lost with its last.
pub(super) fn objects(line: &[u8]) -> (Vec<Fields>, Vec<u8>) {
    let line = &*readable(line);
    let (mut found, mut beside, mut rest) = (Vec::new(), Vec::new(), line);
    let mut left = FALSE_STARTS;
    while let Some(at) = rest.find(b"{\"").filter(|_| left > 0) {
        beside.extend_from_slice(&rest[..at]);
        let here = &rest[at..];
        let mut stream = serde_json::Deserializer::from_slice(here).into_iter::<Value>();
        let (value, used) = match stream.next() {
            Some(Ok(value)) => (Some(value), stream.byte_offset()),
            Some(Err(e)) if e.is_eof() => (completed(here), here.len()),
            _ => {
                left -= 1;
                (None, 1)
            }
        };
        match value {
            Some(Value::Object(fields)) if fields.get("type").is_some_and(Value::is_string) => found.push(fields),
            _ => beside.extend_from_slice(&here[..used]),
        }
        rest = &here[used..];
    }
    beside.extend_from_slice(rest);
    (found, beside)
}

/// The line with a mark where a character was cut in two, which assistants do to long texts: bytes that are no UTF-8, and
/// one half of a pair of surrogates. A reader of JSON refuses the whole event for either.
fn readable(line: &[u8]) -> Cow<'_, [u8]> {
    let line = match String::from_utf8_lossy(line) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(mended) => Cow::Owned(mended.into_bytes()),
    };
    let mut halves = Vec::new();
    let mut i = 0;
    while let Some(at) = line[i..].find_byte(b'\\') {
        i += at;
        i += match (surrogate(&line[i..]), line.get(i + 6..).and_then(surrogate)) {
            (Some(Half::First), Some(Half::Second)) => 12,
            (Some(_), _) => {
                halves.push(i);
                6
            }
            (None, _) => 2,
        };
        i = i.min(line.len());
    }
    if halves.is_empty() {
        return line;
    }
    let mut mended = line.into_owned();
    halves.into_iter().for_each(|i| mended[i + 2..i + 6].copy_from_slice(b"fffd"));
    Cow::Owned(mended)
}

enum Half {
    First,
    Second,
}

/// Which half of a pair is written at the start.
fn surrogate(text: &[u8]) -> Option<Half> {
    let digits = std::str::from_utf8(text.strip_prefix(b"\\u")?.get(..4)?).ok()?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

/// `cut` up to the last value that is whole, with what is open closed.
fn completed(cut: &[u8]) -> Option<Value> {
    let (mut open, mut quoted, mut escaped) = (Vec::new(), false, false);
    let mut whole: Option<(usize, Vec<u8>)> = None;
    for (i, &b) in cut.iter().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' => open.push(b'}'),
            b'[' => open.push(b']'),
            b'}' | b']' => drop(open.pop()),
            b',' => whole = Some((i, open.clone())),
            _ => {}
        }
    }
    let (end, open) = whole?;
    let mut text = cut[..end].to_vec();
    text.extend(open.iter().rev());
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> (Vec<String>, String) {
        let (found, beside) = objects(line.as_bytes());
        let found = found.iter().map(|f| serde_json::to_string(f).unwrap()).collect();
        (found, String::from_utf8(beside).unwrap())
    }

    #[test]
    fn events_among_text_and_beside_each_other() {
        assert_eq!(shown(r#"{"type":"a"}"#), (vec![r#"{"type":"a"}"#.into()], String::new()));
        let (found, beside) = shown(r#"WARN {x} {"type":"a"}oops{"type":"b","n":{"m":1}} and {"no":1}"#);
        assert_eq!(found, [r#"{"type":"a"}"#, r#"{"type":"b","n":{"m":1}}"#]);
        assert_eq!(beside, r#"WARN {x} oops and {"no":1}"#);
        assert_eq!(shown("plain"), (vec![], "plain".into()));
    }

    #[test]
    fn a_character_cut_in_two_costs_no_event() {
        let of = |line: &[u8]| objects(line).0.iter().map(|f| f["t"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(of(br#"{"type":"r","t":"a\ud83d"}"#), ["a\u{fffd}"]);
        assert_eq!(
            of(br#"{"type":"r","t":"a\ud83d\ude00 \\\ud83d \\ud800 \ude00\n"}"#),
            ["a\u{1f600} \\\u{fffd} \\ud800 \u{fffd}\n"]
        );
        assert_eq!(of(b"{\"type\":\"r\",\"t\":\"a\xf0\x9f\"}"), ["a\u{fffd}"]);
        assert_eq!(shown(r#"{"type":"r","a":1,"t":"\ud83"#).0, [r#"{"type":"r","a":1}"#]);
        assert_eq!(shown(r"x\").1, r"x\");
    }

    #[test]
    fn a_value_that_is_nested_without_end_is_given_up_soon() {
        let deep = format!(r#"{{"type":"a"}}{}"#, r#"{"a":"#.repeat(200_000));
        let before = std::time::Instant::now();
        let (found, beside) = objects(deep.as_bytes());
        assert_eq!((found.len(), beside.len()), (1, 1_000_000));
        assert!(before.elapsed().as_secs() < 10, "{:?}", before.elapsed());
    }

    #[test]
    fn what_was_cut_off_keeps_what_came() {
        let whole = r#"{"type":"r","ok":false,"more":{"a":[1,{"b":"x, }\""},2],"c":3},"d":"e"}"#;
        for end in 0..whole.len() {
            for f in objects(&whole.as_bytes()[..end]).0 {
                assert_eq!(f["type"], "r", "{}", &whole[..end]);
            }
        }
        assert_eq!(shown(r#"{"type":"r","ok":false,"text":"ha"#).0, [r#"{"type":"r","ok":false}"#]);
        assert_eq!(shown(r#"{"type":"r","a":{"b":[1,2,"#).0, [r#"{"type":"r","a":{"b":[1,2]}}"#]);
        assert_eq!(shown(r#"{"type":"r"#).0, [""; 0]);
    }
}
