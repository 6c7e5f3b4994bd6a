//! Entries put into a JSON file of somebody else's, and taken out again, with every other byte left as it is.
//!
//! Works on text that a parser has accepted. An entry goes to the front of its list, with all that is new before what was
//! there, so that taking it out is cutting exactly that.

use std::ops::Range;

/// Why a text cannot be edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No JSON.
    #[error("it is not JSON: {0}")]
    Syntax(String),
    /// Of another shape.
    #[error("'{0}' is not {1}")]
    Shape(String, &'static str),
}

/// One member or element.
struct Item<'t> {
    /// The key, decoded; `None` in a list.
    key: Option<String>,
    /// With its key.
    whole: Range<usize>,
    value: &'t str,
    value_at: usize,
}

/// Puts `entry` (JSON in one line) to the front of the list at `path`, making what is missing on the way.
///
/// # Errors
/// Where the text is no JSON object, or something on the way is of another shape.
pub fn insert(text: &str, path: &[&str], entry: &str) -> Result<String, Error> {
    let start = root(text)?;
    let unit = indent_unit(text);
    let mut at = start;
    for (depth, key) in path.iter().enumerate() {
        match items(text, at, path, depth)?.into_iter().find(|i| i.key.as_deref() == Some(key)) {
            Some(item) => at = item.value_at,
            None => {
                let inner = made(&path[depth + 1..], entry, &unit, depth + 2);
                let member = format!("{}: {inner}", serde_json::Value::from(*key));
                return Ok(put(text, at, &member, &unit, depth + 1));
            }
        }
    }
    if !text[at..].starts_with('[') {
        return Err(Error::Shape(path.join("."), "a list"));
    }
    Ok(put(text, at, entry, &unit, path.len() + 1))
}

/// Takes every element of the list at `path` out for which `is_ours` holds, and what holds nothing after that.
/// `None` where there is none.
///
/// # Errors
/// Where the text is no JSON object, or something on the way is of another shape.
pub fn remove(
    text: &str,
    path: &[&str],
    is_ours: &dyn Fn(&serde_json::Value) -> bool,
) -> Result<Option<String>, Error> {
    let mut out = text.to_owned();
    let mut taken = false;
    while let Some(next) = remove_one(&out, path, is_ours)? {
        (out, taken) = (next, true);
    }
    Ok(taken.then_some(out))
}

fn remove_one(
    text: &str,
    path: &[&str],
    is_ours: &dyn Fn(&serde_json::Value) -> bool,
) -> Result<Option<String>, Error> {
    // Containers from the outside in, with what is to be cut from each.
    let mut at = root(text)?;
    let mut cuts: Vec<(usize, Range<usize>, usize)> = Vec::new();
    for (depth, key) in path.iter().enumerate() {
        let all = items(text, at, path, depth)?;
        let count = all.len();
        let Some(item) = all.into_iter().find(|i| i.key.as_deref() == Some(key)) else { return Ok(None) };
        cuts.push((at, item.whole, count));
        at = item.value_at;
    }
    if !text[at..].starts_with('[') {
        return Err(Error::Shape(path.join("."), "a list"));
    }
    let all = items(text, at, path, path.len())?;
    let count = all.len();
    let ours = |i: &&Item<'_>| serde_json::from_str(i.value).is_ok_and(|v| is_ours(&v));
    let Some(item) = all.iter().find(ours) else { return Ok(None) };
    cuts.push((at, item.whole.clone(), count));
    // A container with nothing else in it goes with its last entry; the outermost stays.
    let (open, whole, count) = loop {
        let cut = cuts.pop().unwrap_or((0, 0..0, 0));
        if cut.2 > 1 || cuts.is_empty() {
            break cut;
        }
    };
    let rest = &text[whole.end..];
    let comma = rest.trim_start().starts_with(',').then(|| rest.find(',').map_or(0, |c| c + 1));
    let range = match comma {
        // From the end of what is before it: what `put` put there.
        Some(comma) => before(text, open, whole.start)..whole.end + comma,
        None if count > 1 => text[..whole.start].rfind(',').unwrap_or(whole.start)..whole.end,
        None => open + 1..skip_space(text.as_bytes(), whole.end),
    };
    Ok(Some(format!("{}{}", &text[..range.start], &text[range.end..])))
}

/// Where the white space before `at` begins, at the earliest behind the bracket at `open`.
fn before(text: &str, open: usize, at: usize) -> usize {
    text[open + 1..at].trim_end().len() + open + 1
}

/// Where the object of the whole text begins.
fn root(text: &str) -> Result<usize, Error> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|e| Error::Syntax(e.to_string()))?;
    if !value.is_object() {
        return Err(Error::Shape("the file".into(), "an object"));
    }
    Ok(text.find('{').unwrap_or(0))
}

/// The items of the container whose bracket is at `open`.
fn items<'t>(text: &'t str, open: usize, path: &[&str], depth: usize) -> Result<Vec<Item<'t>>, Error> {
    let bytes = text.as_bytes();
    let is_list = bytes[open] == b'[';
    if (is_list && depth < path.len()) || (!is_list && bytes[open] != b'{') {
        let name = if depth == 0 { "the file".to_owned() } else { path[..depth].join(".") };
        return Err(Error::Shape(name, "an object"));
    }
    let mut out = Vec::new();
    let mut at = skip_space(bytes, open + 1);
    while bytes.get(at).is_some_and(|b| !matches!(b, b'}' | b']')) {
        let from = at;
        let mut key = None;
        if !is_list {
            let end = end_of(bytes, at);
            key = serde_json::from_str(&text[at..end]).ok();
            at = skip_space(bytes, skip_space(bytes, end) + 1);
        }
        let end = end_of(bytes, at);
        out.push(Item { key, whole: from..end, value: &text[at..end], value_at: at });
        at = skip_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = skip_space(bytes, at + 1);
        }
    }
    Ok(out)
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|b| b.is_ascii_whitespace()) {
        at += 1;
    }
    at
}

/// The end of the value at `at`, in text that a parser accepted.
fn end_of(bytes: &[u8], at: usize) -> usize {
    let (mut i, mut depth, mut in_string) = (at, 0usize, false);
    while let Some(b) = bytes.get(i) {
        match b {
            b'\\' if in_string => i += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string && depth == 0 => return i,
            b'}' | b']' if !in_string => depth -= 1,
            b',' | b':' if !in_string && depth == 0 => return i,
            b if b.is_ascii_whitespace() && !in_string && depth == 0 => return i,
            _ => {}
        }
        i += 1;
        if depth == 0 && !in_string && matches!(b, b'"' | b'}' | b']') {
            return i;
        }
    }
    i
}

/// What one step of indentation is in this text.
fn indent_unit(text: &str) -> String {
    let first = text.lines().skip(1).find(|l| !l.trim().is_empty());
    let space = first.map(|l| l[..l.len() - l.trim_start().len()].to_owned()).filter(|s| !s.is_empty());
    space.unwrap_or_else(|| "  ".to_owned())
}

/// `entry` inside of the containers of `path`, of which the last is a list; `depth` is that of what is in the outermost.
fn made(path: &[&str], entry: &str, unit: &str, depth: usize) -> String {
    let (inner, brackets) = match path.split_first() {
        None => (entry.to_owned(), ['[', ']']),
        Some((key, rest)) => {
            let key = serde_json::Value::from(*key);
            (format!("{key}: {}", made(rest, entry, unit, depth + 1)), ['{', '}'])
        }
    };
    let [open, close] = brackets;
    format!("{open}\n{}{inner}\n{}{close}", unit.repeat(depth), unit.repeat(depth - 1))
}

/// `item` as the first one of the container whose bracket is at `open`.
fn put(text: &str, open: usize, item: &str, unit: &str, depth: usize) -> String {
    let (before, after) = text.split_at(open + 1);
    let (begin, step) = (unit.repeat(depth), unit.repeat(depth - 1));
    match after.trim_start() {
        rest if rest.starts_with(['}', ']']) => format!("{before}\n{begin}{item}\n{step}{rest}"),
        _ => format!("{before}\n{begin}{item},{after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATH: [&str; 2] = ["hooks", "PreToolUse"];
    const ENTRY: &str = r#"{"ours": [1, "}\"]"]}"#;

    fn ours(v: &serde_json::Value) -> bool {
        v.get("ours").is_some()
    }

    fn there_and_back(text: &str) -> String {
        let with = insert(text, &PATH, ENTRY).unwrap();
        let value: serde_json::Value = serde_json::from_str(&with).unwrap();
        assert!(ours(&value["hooks"]["PreToolUse"][0]), "{with}");
        assert_eq!(remove(&with, &PATH, &ours).unwrap().as_deref(), Some(text), "{with}");
        with
    }

    #[test]
    fn what_goes_in_comes_out_and_every_other_byte_stays() {
        assert_eq!(
            there_and_back("{}\n"),
            "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\"ours\": [1, \"}\\\"]\"]}\n    ]\n  }\n}\n"
        );
        there_and_back("{\"a\":1}");
        there_and_back("\u{20}{ \"a\" : [ 1 , {} ],\n\t\"hooks\" : { \"Stop\": [] } }\n\n");
        there_and_back("{\n    \"hooks\": {\n        \"PreToolUse\": [{\"x\": \"]\"}]\n    },\n    \"b\": null\n}");
        there_and_back("{\"hooks\":{\"PreToolUse\":[1,2]},\"ho\\u006fks2\":{}}");
    }

    #[test]
    fn an_entry_that_was_moved_is_found_and_the_rest_keeps_its_commas() {
        let text = "{\"hooks\": {\"PreToolUse\": [ 1, {\"ours\": 1}, 2, {\"ours\": 2} ]}}";
        let out = remove(text, &PATH, &ours).unwrap().unwrap();
        assert_eq!(out, "{\"hooks\": {\"PreToolUse\": [ 1, 2 ]}}");
        assert_eq!(remove(&out, &PATH, &ours), Ok(None));
        assert_eq!(remove("{}", &PATH, &ours), Ok(None));
    }

    #[test]
    fn what_is_no_such_file_is_an_error() {
        assert!(matches!(insert("{,}", &PATH, "1"), Err(Error::Syntax(_))));
        assert!(matches!(insert("// x\n{}", &PATH, "1"), Err(Error::Syntax(_))));
        let shape = |text| insert(text, &PATH, "1").unwrap_err().to_string();
        assert_eq!(shape("[]"), "'the file' is not an object");
        assert_eq!(shape("{\"hooks\": 1}"), "'hooks' is not an object");
        assert_eq!(shape("{\"hooks\": {\"PreToolUse\": {}}}"), "'hooks.PreToolUse' is not a list");
        assert!(remove("{\"hooks\": []}", &PATH, &ours).is_err());
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<i32>().prop_map(serde_json::Value::from),
            "[ -~\"\\\\{}\\[\\],:]{0,8}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4).prop_map(serde_json::Value::from),
                proptest::collection::btree_map("[a-z\"{:,]{1,4}", inner, 1..4)
                    .prop_map(|m| serde_json::Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_file_comes_back(value in json(), hooks in json(), pretty: bool) {
            let mut top = serde_json::Map::new();
            top.insert("x".into(), value);
            if hooks.is_object() {
                top.insert("hooks".into(), hooks);
            }
            let text = if pretty { serde_json::to_string_pretty(&top) } else { serde_json::to_string(&top) }.unwrap();
            there_and_back(&text);
        }
    }
}
