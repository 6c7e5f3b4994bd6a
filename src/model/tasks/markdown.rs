//! The numbered list.
//!
//! Which line begins an item follows CommonMark: `1.` or `1)` at column 0 to 3, and not so far in that it stands
//! inside the item above. All that stands below an item up to the next one is its prompt: nested lists, indented
//! lines, fenced code, and plain text at the margin too (a lazy continuation belongs to the item above). Headings at
//! the margin are labels for the reader and go to nobody. In fenced code nothing has a meaning.

use super::attrs::{self, Attrs};
use super::{Mistake, RawItem, RawList, title_of};

/// Reads a Markdown task list. Mistakes are collected in the answer; what could be read is there beside them.
pub fn parse_markdown(text: &str) -> RawList {
    let mut parser = Parser::default();
    for (i, line) in text.split('\n').enumerate() {
        parser.line(i + 1, line.strip_suffix('\r').unwrap_or(line));
    }
    parser.finish()
}

#[derive(Default)]
struct Parser<'a> {
    out: RawList,
    preamble: Vec<Line<'a>>,
    item: Option<Open<'a>>,
    fence: Option<Fence>,
    after_heading: bool,
}

/// The item that is being read.
struct Open<'a> {
    line: usize,
    number: u32,
    done: bool,
    /// The column where its own text begins: what is indented as far is inside.
    inside: usize,
    attrs: Option<(usize, Attrs)>,
    first: &'a str,
    body: Vec<Line<'a>>,
}

#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    /// In fenced code, whose indentation says nothing about the item's.
    code: bool,
}

pub(super) struct Fence {
    line: usize,
    mark: char,
    length: usize,
}

impl<'a> Parser<'a> {
    fn line(&mut self, number: usize, text: &'a str) {
        let (column, rest) = indentation(text, 0);
        if let Some(fence) = &self.fence {
            let marks = rest.chars().take_while(|c| *c == fence.mark).count();
            if marks >= fence.length && rest[marks..].trim().is_empty() {
                self.fence = None;
            }
            return self.push(Line { text, code: true });
        }
        if rest.trim().is_empty() {
            // The gap that a heading leaves is one gap.
            if !self.after_heading {
                self.push(Line { text: "", code: false });
            }
            return;
        }
        let margin = column <= 3 && self.item.as_ref().is_none_or(|item| column < item.inside);
        if margin && heading(rest) {
            self.after_heading = true;
            return;
        }
        self.after_heading = false;
        if margin && let Some((n, marker)) = item_marker(rest) {
            self.close();
            return self.open(number, n, column + marker, &rest[marker..]);
        }
        self.fence = fence(rest, number);
        if column > 0
            && let Some(item) = &mut self.item
            && let Some(("", members)) = attrs::split_group(rest)
        {
            return take_attrs(&mut self.out.mistakes, item, number, members);
        }
        if column > 0
            && self.fence.is_none()
            && rest.starts_with('{')
            && rest.trim_end().ends_with('}')
            && attrs::broken_group(rest)
            && self.item.as_ref().is_some_and(|item| !item.done)
        {
            self.out.mistakes.push(Mistake::new(number, attrs::BROKEN));
        }
        self.push(Line { text, code: false });
    }

    fn push(&mut self, line: Line<'a>) {
        match &mut self.item {
            Some(item) => item.body.push(line),
            None => self.preamble.push(line),
        }
    }

    fn open(&mut self, line: usize, number: u32, marker_end: usize, rest: &'a str) {
        let (column, text) = indentation(rest, marker_end);
        let inside = if text.is_empty() || column > marker_end + 4 { marker_end + 1 } else { column };
        let (done, text) = checkbox(text);
        let mut item = Open { line, number, done, inside, attrs: None, first: text, body: Vec::new() };
        self.fence = fence(text, line);
        if self.fence.is_none()
            && let Some((before, members)) = attrs::split_group(text)
        {
            item.first = before;
            if let Some((_, more)) = attrs::split_group(before)
                && more.iter().all(|(key, _)| attrs::KEYS.contains(key))
            {
                self.out.mistakes.push(Mistake::new(line, "two groups of attributes; write all in one"));
            }
            take_attrs(&mut self.out.mistakes, &mut item, line, members);
        } else if self.fence.is_none() && !done && attrs::broken_group(text) {
            self.out.mistakes.push(Mistake::new(line, attrs::BROKEN));
        }
        self.item = Some(item);
    }

    fn close(&mut self) {
        let Some(item) = self.item.take() else { return };
        let mut lines: Vec<String> = vec![item.first.trim_end().to_owned()];
        lines.extend(dedent(&item.body));
        let prompt = block(&lines);
        if prompt.is_empty() && !item.done {
            self.out.mistakes.push(Mistake::new(item.line, format!("task {} has no text", item.number)));
        }
        self.out.items.push(RawItem {
            line: item.line,
            number: item.number,
            done: item.done,
            title: title_of(&prompt),
            prompt,
            attrs: item.attrs.map(|(_, attrs)| attrs).unwrap_or_default(),
        });
    }

    fn finish(mut self) -> RawList {
        self.close();
        if let Some(fence) = &self.fence {
            self.out.mistakes.push(Mistake::new(fence.line, "this code block is never closed"));
        }
        let lines: Vec<String> = self.preamble.iter().map(|l| l.text.to_owned()).collect();
        self.out.preamble = block(&lines);
        self.out
    }
}

/// Lines as one text, without blank ones at either end.
fn block(lines: &[String]) -> String {
    let first = lines.iter().position(|l| !l.trim().is_empty()).unwrap_or(lines.len());
    lines[first..].join("\n").trim_end().to_owned()
}

/// A done item is not started, so nothing about it can be wrong; its name is still something to come after.
fn take_attrs(mistakes: &mut Vec<Mistake>, item: &mut Open<'_>, line: usize, members: Vec<(&str, String)>) {
    let (attrs, wrong) = attrs::apply(members);
    if let Some((first, _)) = &item.attrs {
        if !item.done {
            mistakes
                .push(Mistake::new(line, format!("task {} has its attributes in line {first} already", item.number)));
        }
        return;
    }
    if !item.done {
        mistakes.extend(wrong.into_iter().map(|message| Mistake::new(line, message)));
    }
    item.attrs = Some((line, attrs));
}

/// The column of the first character that is no blank, tabs to the next multiple of four, and the text from there.
fn indentation(text: &str, from: usize) -> (usize, &str) {
    let mut column = from;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => return (column, &text[i..]),
        }
    }
    (column, "")
}

/// `# Title`, at most six.
fn heading(text: &str) -> bool {
    let rest = text.trim_start_matches('#');
    (1..=6).contains(&(text.len() - rest.len())) && (rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// The number of `12.` or `12)`, and the marker's length.
fn item_marker(text: &str) -> Option<(u32, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &text[digits..];
    // Nine digits are CommonMark's limit, and fit.
    let number = text[..digits].parse().ok().filter(|_| digits <= 9)?;
    let after = rest.strip_prefix(['.', ')'])?;
    (after.is_empty() || after.starts_with([' ', '\t'])).then_some((number, digits + 1))
}

/// Whether the item is done, and its text without the box.
fn checkbox(text: &str) -> (bool, &str) {
    for (mark, done) in [("[ ]", false), ("[x]", true), ("[X]", true)] {
        if let Some(rest) = text.strip_prefix(mark)
            && (rest.is_empty() || rest.starts_with([' ', '\t']))
        {
            return (done, rest.trim_start());
        }
    }
    (false, text)
}

/// The fence that opens here, behind the markers of nested lists too. Inline code of three backquotes is none.
pub(super) fn fence(text: &str, line: usize) -> Option<Fence> {
    let mut text = text;
    loop {
        let marker = match text.as_bytes().first()? {
            b'-' | b'*' | b'+' => Some(1),
            _ => item_marker(text).map(|(_, length)| length),
        };
        match marker.map(|n| &text[n..]) {
            Some(rest) if rest.starts_with([' ', '\t']) => text = rest.trim_start(),
            _ => break,
        }
    }
    let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.chars().take_while(|c| *c == mark).count();
    (length >= 3 && (mark == '~' || !text[length..].contains('`'))).then_some(Fence { line, mark, length })
}

/// The lines without the indentation they have in common. Lines at the margin and code do not count for what is
/// common, and lose what they have of it.
fn dedent(lines: &[Line<'_>]) -> Vec<String> {
    fn columns<'a>(line: &Line<'a>) -> (usize, &'a str) {
        indentation(line.text, 0)
    }
    let common = lines.iter().filter(|l| !l.code).map(columns).filter(|(c, rest)| *c > 0 && !rest.is_empty());
    let common = common.map(|(c, _)| c).min().unwrap_or(0);
    lines.iter().map(|l| outdent(l.text, common)).collect()
}

/// At most `columns` of leading blanks less; what is left of a tab becomes spaces.
fn outdent(text: &str, columns: usize) -> String {
    let mut column = 0;
    for (i, b) in text.bytes().enumerate() {
        if column >= columns {
            return format!("{}{}", " ".repeat(column - columns), &text[i..]);
        }
        match b {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => return text[i..].to_owned(),
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Number, title and prompt of every item, without any mistake.
    fn items(text: &str) -> Vec<(u32, String, String)> {
        let list = parse_markdown(text);
        assert_eq!(list.mistakes, [], "{text}");
        list.items.into_iter().map(|i| (i.number, i.title, i.prompt)).collect()
    }

    fn prompts(text: &str) -> Vec<String> {
        items(text).into_iter().map(|i| i.2).collect()
    }

    fn mistakes(text: &str) -> Vec<(usize, String)> {
        parse_markdown(text).mistakes.into_iter().map(|m| (m.line, m.message)).collect()
    }

    #[test]
    fn the_manuals_example() {
        let text = "Use the style of the existing controllers.\n\n# Nightly\n1. Add CSV export to the brand list\n\
            2. Fix the pagination bug of /deals/{id} {assistant=codex base=release/2}\n   - page 2 repeats the last row\n\
            3. Strengthen the tests {name=campaign-tests after=1 files=\"src/campaign/** tests/**\"}\n4. [x] already done\n";
        let list = parse_markdown(text);
        assert_eq!(list.mistakes, []);
        assert_eq!(list.preamble, "Use the style of the existing controllers.");
        let seen: Vec<_> = list.items.iter().map(|i| (i.line, i.number, i.done, i.title.as_str())).collect();
        assert_eq!(
            seen,
            [
                (4, 1, false, "Add CSV export to the brand list"),
                (5, 2, false, "Fix the pagination bug of /deals/{id}"),
                (7, 3, false, "Strengthen the tests"),
                (8, 4, true, "already done"),
            ]
        );
        assert_eq!(list.items[1].prompt, "Fix the pagination bug of /deals/{id}\n- page 2 repeats the last row");
        assert_eq!(list.items[1].attrs.base.as_deref(), Some("release/2"));
        assert_eq!(list.items[2].attrs.files, ["src/campaign/**", "tests/**"]);
    }

    #[test]
    fn items_at_columns_0_to_3_with_either_mark() {
        assert_eq!(prompts("1. a\n 2) b\n   12. c"), ["a", "b", "c"]);
        assert_eq!(prompts("   1. a\n"), ["a"]);
        assert_eq!(prompts("7. a\n    8. nested\n\t9. too"), ["a\n8. nested\n9. too"]);
        assert_eq!(prompts("1. a\n   2. inside, as in CommonMark\n2. b"), ["a\n2. inside, as in CommonMark", "b"]);
        assert_eq!(prompts("1.\ta\n2.\tb"), ["a", "b"]);
        assert_eq!(prompts("1. 1.5 is\n2.no item\n1234567890. neither"), ["1.5 is\n2.no item\n1234567890. neither"]);
        assert_eq!(prompts("1.\n   the text comes below\n2. b"), ["the text comes below", "b"]);
    }

    #[test]
    fn text_at_the_margin_belongs_to_the_item_above() {
        assert_eq!(prompts("1. a\nlazy\n\nplain\n2. b"), ["a\nlazy\n\nplain", "b"]);
    }

    #[test]
    fn headings_are_labels_at_the_margin_only() {
        let list = parse_markdown("# A\n\none\n\n## B\n\ntwo\n1. a\n# C\n   # inside\n#tag\n2. b\n######\n");
        assert_eq!(list.preamble, "one\n\ntwo");
        assert_eq!(list.items[0].prompt, "a\n# inside\n#tag");
        assert_eq!(list.items[1].prompt, "b");
    }

    #[test]
    fn fenced_code_may_contain_anything() {
        let code =
            "1. a\n   ```sh\n   # no heading\n1. no item\n   {name=x}\n   ```\n2. b\n   ~~~~\n   ~~~\n3. no\n   ~~~~";
        assert_eq!(prompts(code), ["a\n```sh\n# no heading\n1. no item\n{name=x}\n```", "b\n~~~~\n~~~\n3. no\n~~~~"]);
        assert_eq!(prompts("1. a\n   - ```\n     2. no\n     ```\n2. b"), ["a\n- ```\n  2. no\n  ```", "b"]);
        assert_eq!(prompts("```\n1. no\n```\n1. ```inline``` code\n2. b"), ["```inline``` code", "b"]);
        assert_eq!(items("1. ```\n   2. no\n   ```\n2. b")[0].1, "2. no");
    }

    #[test]
    fn a_fence_left_open_is_a_mistake_and_not_the_end_of_the_list() {
        assert_eq!(mistakes("1. a\n   ```\n2. b\n"), [(2, "this code block is never closed".to_owned())]);
    }

    #[test]
    fn bodies_lose_their_common_indentation() {
        assert_eq!(prompts("1. a\n     - b\n       - c\n\n     d"), ["a\n- b\n  - c\n\nd"]);
        assert_eq!(prompts("1. a\n\t- b\n\t\tc"), ["a\n- b\n\tc"]);
        assert_eq!(prompts("1. a\n   ```\n code\n   \tmake\n   ```"), ["a\n```\ncode\n\tmake\n```"]);
    }

    #[test]
    fn boxes() {
        let list = parse_markdown("1. [ ] a\n2. [X] b {time=5}\n3. [x]\n4. [y] d\n5. [x](link) e");
        assert_eq!(list.mistakes, [], "nothing is wrong with what is done");
        let seen: Vec<_> = list.items.iter().map(|i| (i.done, i.title.as_str())).collect();
        assert_eq!(seen, [(false, "a"), (true, "b"), (true, ""), (false, "[y] d"), (false, "[x](link) e")]);
    }

    #[test]
    fn attributes_on_a_line_of_their_own() {
        let list = parse_markdown("1. a\n   more\n   {name=x}\n   {id}\n2. b {model=m}\n");
        assert_eq!(list.items[0].prompt, "a\nmore\n{id}");
        assert_eq!(list.items[0].attrs.name.as_deref(), Some("x"));
        assert_eq!(prompts("1. a\n   text {name=x}\n{name=y}"), ["a\ntext {name=x}\n{name=y}"]);
        assert_eq!(
            mistakes("1. a {name=x}\n   {model=y}"),
            [(2, "task 1 has its attributes in line 1 already".to_owned())]
        );
        assert_eq!(mistakes("1. a {name=x} {model=y}"), [(1, "two groups of attributes; write all in one".to_owned())]);
    }

    #[test]
    fn line_ends_of_other_systems() {
        assert_eq!(prompts("1. a\r\n   b {name=x}\r\n\r\n2. c {name=y}\r\n"), ["a\nb {name=x}", "c"]);
    }

    #[test]
    fn all_mistakes_at_once() {
        let got: Vec<_> =
            mistakes("1. a {nam=x}\n2.\n3. c {time=5 cost=x}").into_iter().map(|(line, _)| line).collect();
        assert_eq!(got, [1, 2, 3, 3]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([ \t#1-3.)x\\[\\]{}=a`~\"\r-]|\n){0,120}") {
            let list = parse_markdown(&text);
            prop_assert!(list.items.iter().all(|i| !i.prompt.ends_with('\n')));
        }

        #[test]
        fn a_rendered_list_round_trips(
            tasks in proptest::collection::vec(("[A-Za-z][a-z{} ]{0,20}[a-z]", "([a-z-][a-z #{}.=0-9-]{0,12}[a-z]\n( {0,4}[a-z0-9.)#-]{1,9}[a-z]\n|\n){0,4}[a-z])?", any::<bool>()), 1..6),
        ) {
            let mut text = String::new();
            for (i, (title, body, named)) in tasks.iter().enumerate() {
                let group = if *named { format!(" {{name=n{i}}}") } else { String::new() };
                text.push_str(&format!("{}. {title}{group}\n", i + 10));
                body.split('\n').for_each(|l| text.push_str(&format!("    {l}\n")));
            }
            let list = parse_markdown(&text);
            prop_assert_eq!(&list.mistakes, &[]);
            prop_assert_eq!(list.items.len(), tasks.len());
            for (i, (item, (title, body, named))) in list.items.iter().zip(&tasks).enumerate() {
                let wanted = if body.is_empty() { title.clone() } else { format!("{title}\n{body}") };
                prop_assert_eq!(&item.prompt, &wanted);
                prop_assert_eq!(item.number as usize, i + 10);
                prop_assert_eq!(item.attrs.name.clone(), named.then(|| format!("n{i}")));
            }
        }
    }
}
