//! The same list in TOML, for scripts.

use super::attrs::{Attrs, KEYS, unknown_key};
use super::{Mistake, RawItem, RawList, title_of};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Reads `[[task]]` tables with `prompt` and the keys of a brace group, and a `preamble` for all of them. A task's
/// number is its place. Mistakes are collected in the answer; what could be read is there beside them.
pub fn parse_toml(text: &str) -> RawList {
    let (table, errors) = DeTable::parse_recoverable(text);
    let lines = Lines::new(text);
    let mut out = RawList::default();
    for error in &errors {
        let line = lines.at(error.span().map_or(0, |s| s.start));
        out.mistakes.push(Mistake::new(line, error.message().trim().replace('\n', "; ")));
    }
    for (key, value) in table.get_ref() {
        let line = lines.at(key.span().start);
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("preamble", DeValue::String(s)) => out.preamble = s.trim().to_owned(),
            ("preamble", _) => out.mistakes.push(Mistake::new(line, "'preamble' is not a string")),
            ("task", DeValue::Array(tasks)) => {
                for (i, task) in tasks.iter().enumerate() {
                    one(&mut out, &lines, i as u32 + 1, task, errors.is_empty());
                }
            }
            ("task", _) => out.mistakes.push(Mistake::new(line, "'task' is not a list of tables; write '[[task]]'")),
            (other, _) => out.mistakes.push(Mistake::new(line, unknown_key(other, &["preamble", "task"]))),
        }
    }
    out
}

fn one(out: &mut RawList, lines: &Lines, number: u32, task: &Spanned<DeValue<'_>>, whole: bool) {
    let line = lines.at(task.span().start);
    let DeValue::Table(table) = task.get_ref() else {
        out.mistakes.push(Mistake::new(line, format!("task {number} is not a table")));
        return;
    };
    let mut attrs = Attrs::default();
    let mut prompt = None;
    for (key, value) in table {
        let at = lines.at(key.span().start);
        let key = key.get_ref().as_ref();
        let taken = match (key, value.get_ref()) {
            ("prompt", DeValue::String(s)) => {
                prompt = Some(s.trim_end().to_owned());
                Ok(())
            }
            ("prompt", _) => Err("'prompt' is not a string".to_owned()),
            (_, value) => match strings(value) {
                // What is no string is no surprise for a key that does not exist.
                _ if !KEYS.contains(&key) => Err(unknown_key(key, &[&["prompt"], KEYS].concat())),
                Some(values) => attrs.set(key, &values),
                None => Err(format!("'{key}' is neither a string nor a list of strings")),
            },
        };
        if let Err(message) = taken {
            out.mistakes.push(Mistake::new(at, message));
        }
    }
    let missing = prompt.is_none() && whole && !table.keys().any(|k| k.get_ref() == "prompt");
    if missing || prompt.as_ref().is_some_and(|p| p.trim().is_empty()) {
        out.mistakes.push(Mistake::new(line, format!("task {number} has no 'prompt'")));
    }
    let prompt = prompt.unwrap_or_default();
    out.items.push(RawItem { line, number, done: false, title: title_of(&prompt), prompt, attrs });
}

/// Strings, and numbers as they are written.
fn strings(value: &DeValue<'_>) -> Option<Vec<String>> {
    Some(match value {
        DeValue::String(s) => vec![s.to_string()],
        DeValue::Integer(n) => vec![n.as_str().to_owned()],
        DeValue::Float(n) => vec![n.as_str().to_owned()],
        DeValue::Array(all) => all.iter().map(|v| strings(v.get_ref())).collect::<Option<Vec<_>>>()?.concat(),
        _ => return None,
    })
}

/// Offsets of the lines' beginnings.
struct Lines(Vec<usize>);

impl Lines {
    fn new(text: &str) -> Lines {
        Lines(std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1)).collect())
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|start| *start <= offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::agent::Permission;
    use proptest::prelude::*;

    #[test]
    fn the_same_keys() {
        let list = parse_toml(
            "preamble = \"Be brief.\"\n\n[[task]]\nprompt = \"\"\"\nAdd it {name=text}\nsoon\n\"\"\"\nname = \"x\"\nassistant = [\"claude\", \"codex*2\"]\n\
             cost = 2.5\npermission = \"full\"\ntime = \"2h\"\n\n[[task]]\nprompt = \"b\"\nafter = [1, \"x\"]\nfiles = [\"a b\", \"c\"]\n[[task]]\nprompt = 'c'\nafter = 2\ncost = 3",
        );
        assert_eq!(list.mistakes, []);
        assert_eq!(list.preamble, "Be brief.");
        let [a, b, c] = &list.items[..] else { panic!("{list:?}") };
        assert_eq!((a.line, a.number, a.title.as_str()), (3, 1, "Add it {name=text}"));
        assert_eq!(a.prompt, "Add it {name=text}\nsoon");
        assert_eq!(a.attrs.assistant, ["claude", "codex", "codex"]);
        assert_eq!(
            (a.attrs.cost_usd, a.attrs.permission, a.attrs.time_s),
            (Some(2.5), Some(Permission::Full), Some(7200))
        );
        assert_eq!((b.line, &b.attrs.after[..]), (14, &["1".to_owned(), "x".to_owned()][..]));
        assert_eq!(b.attrs.files, ["a", "b", "c"]);
        assert_eq!((c.attrs.after[0].as_str(), c.attrs.cost_usd), ("2", Some(3.0)));
    }

    #[test]
    fn mistakes_have_their_lines() {
        let list = parse_toml(
            "preambel = 'x'\n[[task]]\nprompt = 'a'\nasistant = 'x'\ntime = 15\nmodel = true\ntest = ['a', 'b']\n[[task]]\nname = 'y'\n[[task]]\nprompt = ' '\n[[task]]\nprompt = 1\n",
        );
        let mut all = list.mistakes;
        all.sort();
        let got: Vec<_> = all.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(got.join("\n"), @r"
        line 1: unknown attribute 'preambel'; did you mean 'preamble'?
        line 4: unknown attribute 'asistant'; did you mean 'assistant'?
        line 5: '15' has no unit; write '15s' or '15m'
        line 6: 'model' is neither a string nor a list of strings
        line 7: 'test' takes one value
        line 8: task 2 has no 'prompt'
        line 10: task 3 has no 'prompt'
        line 13: 'prompt' is not a string
        ");
    }

    #[test]
    fn broken_toml_is_said_with_its_line() {
        let list = parse_toml("[[task]]\nprompt = \"a\"\n[[task]]\nprompt = \"b\nname = 3 3\n");
        assert_eq!(list.mistakes.iter().map(|m| m.line).min(), Some(4), "{:?}", list.mistakes);
        assert_eq!(parse_toml("task = 'x'").mistakes[0].line, 1);
        assert_eq!(parse_toml("task = ['x']").mistakes[0].message, "task 1 is not a table");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\[\\[task\\]\\]\n|prompt = |name|after|=|\"|'''|\\[|\\]|\\{|1|\n|a|é| ){0,40}") {
            parse_toml(&text);
        }

        #[test]
        fn what_a_serializer_writes_round_trips(prompts in proptest::collection::vec("[a-z\"'\\\\\n{}=é]{0,30}[a-z]", 1..5)) {
            let tasks: Vec<_> = prompts.iter().map(|p| ::toml::Table::from_iter([("prompt".to_owned(), p.clone().into())])).collect();
            let text = ::toml::to_string(&::toml::Table::from_iter([("task".to_owned(), tasks.into())])).unwrap();
            let list = parse_toml(&text);
            prop_assert_eq!(list.mistakes, []);
            prop_assert_eq!(list.items.into_iter().map(|i| i.prompt).collect::<Vec<_>>(), prompts);
        }
    }
}
