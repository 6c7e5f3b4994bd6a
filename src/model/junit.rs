//! Which tests failed, read from a JUnit XML file.
//!
//! A scanner for the few elements that count, not an XML reader: nothing is fetched, no entity but the five of XML and
//! numbers is known, nothing is nested in memory, and whatever the bytes are, it ends after one pass over them.

use super::text::clip_bytes;
use super::verdict::MOST;
use std::collections::BTreeSet;

/// Bytes of a name.
const LONGEST: usize = 300;

/// The tests that failed by one file: class and name. Of more than are kept, one more than that.
pub fn failing(xml: &str) -> BTreeSet<String> {
    let mut failing = BTreeSet::new();
    let mut case: Option<String> = None;
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        // What is between these is text, whatever it looks like.
        let skipped =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")].iter().find(|(open, _)| rest.starts_with(open));
        if let Some((open, close)) = skipped {
            rest = rest[open.len()..].split_once(close).map_or("", |(_, after)| after);
            continue;
        }
        let Some(end) = end_of_tag(rest) else { break };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        let closed = tag.ends_with('/');
        let name = tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or_default();
        match name {
            "testcase" => case = (!closed).then(|| title(tag)).filter(|title| !title.is_empty()),
            // One that failed first and passed then has another name (`flakyFailure`).
            "failure" | "error" => {
                if let Some(title) = case.take().filter(|_| failing.len() <= MOST) {
                    failing.insert(title);
                }
            }
            "" if tag.starts_with("/testcase") => case = None,
            _ => {}
        }
    }
    failing
}

/// The place of the `>` that ends the tag at the start; one in quotes does not.
fn end_of_tag(text: &str) -> Option<usize> {
    let mut quote = None;
    for (i, b) in text.bytes().enumerate() {
        match (quote, b) {
            (None, b'>') => return Some(i),
            (None, b'"' | b'\'') => quote = Some(b),
            (Some(q), b) if q == b => quote = None,
            _ => {}
        }
    }
    None
}

fn title(tag: &str) -> String {
    let class = attribute(tag, "classname").unwrap_or_default();
    let name = attribute(tag, "name").unwrap_or_default();
    clip_bytes(format!("{class} {name}").trim().to_owned(), LONGEST)
}

/// The value of an attribute of a tag.
fn attribute(tag: &str, wanted: &str) -> Option<String> {
    let mut rest = tag.split_once(char::is_whitespace)?.1;
    loop {
        let (name, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| ['"', '\''].contains(c))?;
        let (value, after) = after[1..].split_once(quote)?;
        if name.trim() == wanted {
            return Some(unescaped(value));
        }
        rest = after;
    }
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        // The longest is `&#1114111;`.
        let entity = after.bytes().take(10).position(|b| b == b';').map(|end| &after[..end]);
        let known = entity.and_then(|e| match e {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => {
                let number = e.strip_prefix('#')?;
                let code = match number.strip_prefix('x') {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                char::from_u32(code)
            }
        });
        match (known, entity) {
            (Some(c), Some(e)) => {
                out.push(c);
                rest = &after[e.len() + 1..];
            }
            _ => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(xml: &str) -> Vec<String> {
        failing(xml).into_iter().collect()
    }

    #[test]
    fn failures_and_errors_are_named_by_class_and_name() {
        let xml = r#"<?xml version="1.0"?><testsuites><testsuite name="s" failures="1">
            <testcase classname="a.B" name="fine" time="0.1"/>
            <testcase name='x &gt; "y" &amp; &#233;&#xe9; &unknown; &' classname="a.B"><failure message="a > b">no</failure></testcase>
            <testcase classname="" name="boom"><error/></testcase>
            <testcase classname="a.B" name="later"><skipped/></testcase>
            <testcase classname="a.B" name="shaky"><flakyFailure/></testcase>
            <testcase classname="a.B" name="text"><system-out><![CDATA[<failure/>]]></system-out><!-- <failure/> --></testcase>
            </testsuite></testsuites>"#;
        assert_eq!(names(xml), ["a.B x > \"y\" & éé &unknown; &", "boom"]);
    }

    #[test]
    fn hostile_bytes_come_to_an_end_and_nothing_is_expanded() {
        let bomb = "<!DOCTYPE x [<!ENTITY a \"&b;&b;\"><!ENTITY b SYSTEM \"file:///etc/passwd\">]><testcase name=\"&a;\"><failure/></testcase>";
        assert_eq!(names(bomb), ["&a;"]);
        for odd in [
            "<",
            "<testcase",
            "<testcase name=\"",
            "<testcase name>",
            "<![CDATA[",
            "<!--",
            "<?",
            "<testcase name=é/>",
            "&#x110000;",
            "<testcase name=\"&#xd800;é\"><error",
        ] {
            let _ = failing(odd);
        }
        assert!(failing("<failure/></testcase><failure/>").is_empty());
        let deep = "<testsuite>".repeat(200_000) + "<testcase name='n'><failure/>";
        assert_eq!(names(&deep), ["n"]);
        let many: String = (0..5000).map(|i| format!("<testcase name='t{i}'><failure/></testcase>")).collect();
        assert_eq!(failing(&many).len(), MOST + 1);
        let long = format!("<testcase name='{}'><failure/>", "é".repeat(1000));
        assert!(names(&long)[0].len() <= LONGEST);
    }
}
