//! The objects of a line that is more, or less, than one.

use super::Fields;
use bstr::ByteSlice as _;
use serde_json::Value;

/// Beginnings of objects in a line that turn out to be none: who prints more (a value that is nested without end, each
/// level read anew to the limit of depth) keeps the supervisor from everything else.
const FALSE_STARTS: usize = 200;

/// The objects with a `type` in `line`, and the text beside them.
///
/// An object that was cut off is completed as far as it came, so that its first fields are not lost with its last.
pub(super) fn objects(line: &[u8]) -> (Vec<Fields>, Vec<u8>) {
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
