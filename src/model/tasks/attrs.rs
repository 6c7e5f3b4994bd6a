//! What a task may ask for beside its prompt, and the brace group it is written in.

use super::super::agent::Permission;
use super::super::units::{Limit, parse_cost};
use super::name::check_name;

/// Every key, in the order of the manual.
pub const KEYS: &[&str] =
    &["name", "assistant", "model", "base", "after", "isolation", "permission", "test", "time", "cost", "files"];
/// `claude*N` for more is a slip.
const MOST_ASSISTANTS: usize = 20;
/// A group is looked for in the last part of a line only, so that a hostile line costs little.
const LONGEST_GROUP: usize = 4096;

/// What a task asks for; what is absent is for flags and settings to say.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Attrs {
    /// The name, checked.
    pub name: Option<String>,
    /// One for each agent wanted: `claude,codex` and `claude*2` are two. After [`super::resolve`] at most one.
    pub assistant: Vec<String>,
    /// The assistant's own word for a model.
    pub model: Option<String>,
    /// A revision.
    pub base: Option<String>,
    /// Numbers and names, as written.
    pub after: Vec<String>,
    /// What it may do without asking.
    pub permission: Option<Permission>,
    /// The command that tests it: a line for the shell, the user's own word.
    pub test: Option<String>,
    /// Seconds; 0 is "no limit", asked for by `time=none`.
    pub time_s: Option<u64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Patterns of the paths where it should stay.
    pub files: Vec<String>,
}

impl Attrs {
    /// Takes one `key=value`. TOML gives lists as several values, the brace group always gives one.
    pub(super) fn set(&mut self, key: &str, values: &[String]) -> Result<(), String> {
        let one = || match values {
            [value] if !value.trim().is_empty() => Ok(value.trim().to_owned()),
            [_] | [] => Err(format!("'{key}' needs a value")),
            _ => Err(format!("'{key}' takes one value")),
        };
        match key {
            "name" => {
                let name = one()?;
                check_name(&name)?;
                self.name = Some(name);
            }
            "assistant" => self.assistant = parse_assistants(&values.join(","))?,
            "model" => self.model = Some(word(key, one()?)?),
            "base" => self.base = Some(word(key, one()?)?),
            "after" => {
                let after: Vec<String> = split(values, |c| c == ',').collect();
                if after.is_empty() {
                    return Err("'after' needs a number or a name".to_owned());
                }
                self.after = after;
            }
            "isolation" => match one()?.as_str() {
                "worktree" => {}
                other => return Err(format!("isolation '{other}' is not supported by this version; 'worktree' is")),
            },
            "permission" => self.permission = Some(one()?.parse()?),
            "test" => self.test = Some(one()?),
            "time" => self.time_s = Some(one()?.parse::<Limit>()?.0.unwrap_or(0)),
            "cost" => self.cost_usd = Some(parse_cost(&one()?)?),
            "files" => {
                let files: Vec<String> = split(values, char::is_whitespace).collect();
                if files.is_empty() {
                    return Err("'files' needs a pattern".to_owned());
                }
                files.iter().try_for_each(|p| check_pattern(p))?;
                self.files = files;
            }
            _ => return Err(unknown_key(key, KEYS)),
        }
        Ok(())
    }
}

fn split(values: &[String], at: impl Fn(char) -> bool + Copy) -> impl Iterator<Item = String> {
    values.iter().flat_map(move |v| v.split(at)).map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned)
}

/// A value that ends up as an argument of a program: no option, nothing a terminal would obey.
fn word(key: &str, value: String) -> Result<String, String> {
    if value.starts_with('-') || value.len() > 200 || value.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err(format!("'{}' cannot be a {key}", value.escape_debug()));
    }
    Ok(value)
}

fn check_pattern(pattern: &str) -> Result<(), String> {
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err(format!("'{pattern}' leads out of the repository; 'files' are paths inside"));
    }
    globset::Glob::new(pattern).map(|_| ()).map_err(|e| format!("'{pattern}' is not a pattern: {}", e.kind()))
}

/// `claude,codex` and `claude*2`, one name for each agent.
pub fn parse_assistants(text: &str) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (name, times) = part.split_once('*').unwrap_or((part, "1"));
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 60 || !name.chars().all(plain) || name.starts_with(['-', '.']) {
            return Err(format!("'{}' is not the name of an assistant", part.escape_debug()));
        }
        let times = times.parse::<usize>().ok().filter(|n| (1..=MOST_ASSISTANTS).contains(n));
        let times = times.ok_or_else(|| {
            format!("'{}' is not a number of assistants from 1 to {MOST_ASSISTANTS}", part.escape_debug())
        })?;
        all.extend(std::iter::repeat_n(name.to_owned(), times));
    }
    if all.len() > MOST_ASSISTANTS { Err(format!("a task has at most {MOST_ASSISTANTS} assistants")) } else { Ok(all) }
}

/// Words of other tools for our keys, which no likeness of letters would find.
const ALSO: &[(&str, &str)] = &[
    ("agent", "assistant"),
    ("assistants", "assistant"),
    ("tool", "assistant"),
    ("cli", "assistant"),
    ("timeout", "time"),
    ("limit", "time"),
    ("budget", "cost"),
    ("tests", "test"),
    ("depends", "after"),
    ("depends-on", "after"),
    ("depends_on", "after"),
    ("needs", "after"),
    ("deps", "after"),
    ("from", "base"),
    ("branch", "name"),
    ("id", "name"),
    ("paths", "files"),
    ("scope", "files"),
    ("permissions", "permission"),
    ("mode", "permission"),
];

/// An error with the nearest of `known`, or all of them.
pub(super) fn unknown_key(key: &str, known: &[&str]) -> String {
    let folded = key.to_lowercase();
    let also = ALSO.iter().find(|(other, ours)| *other == folded && known.contains(ours)).map(|(_, ours)| *ours);
    let near =
        known.iter().map(|k| (strsim::damerau_levenshtein(&folded, k), *k)).filter(|(d, k)| d * 2 < k.len()).min();
    let key = key.escape_debug();
    match also.or(near.map(|(_, k)| k)) {
        Some(k) => format!("unknown attribute '{key}'; did you mean '{k}'?"),
        None => format!("unknown attribute '{key}'; there are {}; text in braces goes in backquotes", known.join(", ")),
    }
}

/// The brace group at the end of `line`: what stands before it, and its members. `None` when there is none, which
/// is also said of braces that are code or text: a member without `=`, a brace in the middle of a word, `{a == b}`.
pub(super) fn split_group(line: &str) -> Option<(&str, Vec<(&str, String)>)> {
    let line = line.trim_end();
    if !line.ends_with('}') {
        return None;
    }
    let from = line.len().saturating_sub(LONGEST_GROUP);
    line.bytes().enumerate().skip(from).filter(|(_, b)| *b == b'{').find_map(|(i, _)| {
        let before = &line[..i];
        if !before.is_empty() && !before.ends_with(char::is_whitespace) {
            return None;
        }
        members(&line[i + 1..]).map(|m| (before.trim_end(), m))
    })
}

/// Whether the line ends with a brace group that was meant as attributes, for it begins with a key of ours, and cannot
/// be read as such: left as text it would be ignored in silence.
pub(super) fn broken_group(line: &str) -> bool {
    let line = line.trim_end();
    let from = line.len().saturating_sub(LONGEST_GROUP);
    let mut at = line.bytes().enumerate().skip(from).filter(|(_, b)| *b == b'{').map(|(i, _)| i);
    at.any(|i| {
        let (before, group) = (&line[..i], &line[i + 1..]);
        let begins = before.is_empty() || before.ends_with(char::is_whitespace);
        let key = group.trim_start().split('=').next().unwrap_or_default();
        let value = group.trim_start().get(key.len() + 1..).unwrap_or_default();
        begins && KEYS.contains(&key) && !value.starts_with(['=', '>']) && ends_there(group)
    })
}

/// Whether the brace that was opened before `text` is closed by its last character, or never.
fn ends_there(text: &str) -> bool {
    let mut depth = 1usize;
    for (i, b) in text.bytes().enumerate() {
        match b {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1 == text.len();
        }
    }
    true
}

/// What is said of a [`broken_group`].
pub(super) const BROKEN: &str =
    "these attributes cannot be read; write {key=value key=\"a value\"}, or put braces that are text in backquotes";

/// Members up to a `}` that ends the text.
fn members(text: &str) -> Option<Vec<(&str, String)>> {
    let mut rest = text.trim_start();
    let mut out = Vec::new();
    while rest != "}" {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))?;
        let (key, after) = rest.split_at(end);
        let after = after.strip_prefix('=')?;
        if !key.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        let (value, after) = value(after)?;
        out.push((key, value));
        rest = after.trim_start();
        if rest.len() == after.len() && rest != "}" {
            return None;
        }
    }
    (!out.is_empty()).then_some(out)
}

/// One value and what follows it. Bare values have none of the characters that code has after a `=`.
fn value(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let Some(quote) = quote else {
        let end = text.find(|c: char| c.is_whitespace() || c == '}')?;
        let bare = &text[..end];
        let code = bare.contains(['"', '\'', '{', '(', ')', '<', '>', '=', ';', '`']);
        return (!code).then(|| (bare.to_owned(), &text[end..]));
    };
    let mut out = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' if quote == '"' && text[i + 2..].starts_with(['"', '\\']) => out.push(chars.next()?.1),
            c if c == quote => return Some((out, &text[i + 2..])),
            c => out.push(c),
        }
    }
    None
}

/// Sets all members of a group; every mistake is said.
pub(super) fn apply(members: Vec<(&str, String)>) -> (Attrs, Vec<String>) {
    let mut attrs = Attrs::default();
    let mut wrong = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    let several = members.len() > 1;
    for (key, value) in members {
        if seen.contains(&key) {
            wrong.push(format!("'{key}' is given twice"));
        } else if several && value.ends_with(',') {
            wrong.push(format!("'{key}={value}' ends with a comma; attributes are separated by spaces"));
        } else if let Err(e) = attrs.set(key, &[value]) {
            wrong.push(e);
        }
        seen.push(key);
    }
    (attrs, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(line: &str) -> Result<Attrs, String> {
        let (_, members) = split_group(line).ok_or("text")?;
        let (attrs, wrong) = apply(members);
        if wrong.is_empty() { Ok(attrs) } else { Err(wrong.join("\n")) }
    }

    #[test]
    fn a_group_with_everything() {
        let (before, _) = split_group("Fix /deals/{id} {name=x}  ").unwrap();
        assert_eq!(before, "Fix /deals/{id}");
        let attrs = group(
            r#"x {name=a/b assistant=claude*2,codex model="opus" base=release/2 after=1,b isolation=worktree permission=full test='make check' time=1h30m cost=2.5 files="src/{a,b}/** 'x'" }"#,
        );
        assert_eq!(
            attrs.unwrap(),
            Attrs {
                name: Some("a/b".into()),
                assistant: ["claude", "claude", "codex"].map(String::from).into(),
                model: Some("opus".into()),
                base: Some("release/2".into()),
                after: ["1", "b"].map(String::from).into(),
                permission: Some(Permission::Full),
                test: Some("make check".into()),
                time_s: Some(5400),
                cost_usd: Some(2.5),
                files: ["src/{a,b}/**", "'x'"].map(String::from).into(),
            }
        );
        assert_eq!(group("{time=none}").unwrap().time_s, Some(0));
        assert_eq!(group(r#"x {model="a\"b\\c"}"#).unwrap().model.unwrap(), r#"a"b\c"#);
        assert_eq!(group("x {model='a\\b'}").unwrap().model.unwrap(), "a\\b");
    }

    #[test]
    fn braces_that_are_code_stay_text() {
        for line in [
            "/deals/{id}",
            "use {}",
            "use { }",
            "{a, b}",
            "{ name: x }",
            "f() { return x; }",
            "{a == b}",
            "{a==b}",
            "{a => b}",
            "{x=>1}",
            "{x=1;}",
            "{name=x} is nice",
            "${name=x}",
            "a{name=x}",
            "{{name=x}}",
            "{name=x}.",
            "`{name=x}`",
            "{name = x}",
            "{x=f(x)}",
            "{x=\"x}",
            "{x=1 y}",
            "{=x}",
            "{1=x}",
            "}",
            "{",
            "<A b={name=x}/>",
            "{data-x='1'}>",
            "{name=x}}",
            "{name=x} and {b}",
            "{name==x}",
            "{name=>x}",
            "{id}",
        ] {
            assert_eq!(group(line), Err("text".to_owned()), "{line}");
            assert!(!broken_group(line), "{line}");
        }
    }

    #[test]
    fn a_slip_in_a_group_was_taken_for_text() {
        for line in [
            "x {name=\"unclosed}",
            "{name='x}",
            "{name=f(x)}",
            "{name=x\"y\"}",
            "{name=x wait}",
            "{name=\"a\"model=b}",
            "{name={x}}",
            "x {model=opus",
            "{id} and { after=1 base }",
        ] {
            assert!(split_group(line).is_none() && broken_group(line), "{line}");
        }
        assert!(!broken_group("x {name=a model=b}y"));
    }

    #[test]
    fn mistakes_in_a_group() {
        for (line, wanted) in [
            ("{asistant=claude}", "did you mean 'assistant'?"),
            ("{timeout=5m}", "did you mean 'time'?"),
            ("{Name=x}", "did you mean 'name'?"),
            ("{depends=1}", "did you mean 'after'?"),
            ("{colour=red}", "there are name, assistant"),
            ("{test=''}", "'test' needs a value"),
            ("{isolation=container}", "'worktree' is"),
            ("{name=x name=y}", "'name' is given twice"),
            ("{name=x, model=y}", "separated by spaces"),
            ("{name=}", "'name' needs a value"),
            ("{name=12}", "a number alone"),
            ("{after=,}", "'after' needs"),
            ("{permission=root}", "'root' is not a permission"),
            ("{time=5}", "has no unit"),
            ("{cost=-1}", "US dollars"),
            ("{files=../x}", "out of the repository"),
            ("{files=/etc}", "out of the repository"),
            ("{files='src/[a'}", "is not a pattern"),
            ("{model=--dangerous}", "cannot be a model"),
            ("{base=-x}", "cannot be a base"),
            ("{assistant=claude*0}", "from 1 to 20"),
            ("{assistant=claude*21}", "from 1 to 20"),
            ("{assistant=claude*20,codex}", "at most 20"),
            ("{assistant=claude,,codex}", "is not the name of an assistant"),
            ("{assistant='rm -rf'}", "is not the name of an assistant"),
        ] {
            let got = group(line).unwrap_err();
            assert!(got.contains(wanted), "{line}: {got}");
        }
        assert_eq!(group("{nam=x time=5 model=--x}").unwrap_err().lines().count(), 3, "all at once");
    }

    #[test]
    fn a_hostile_line_is_cheap() {
        let line = format!("{}x}}", "{a=\" ".repeat(200_000));
        assert!(split_group(&line).is_none());
    }

    proptest! {
        #[test]
        fn any_line_is_answered(line in "[ {}=\"'\\\\a-c,;é*]{0,40}") {
            let _ = group(&line);
        }

        #[test]
        fn quoted_values_round_trip(value in "[^\\p{C}\\s]{1,30}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let line = format!("x {{k=\"{}\"}}", quoted);
            let (before, members) = split_group(&line).unwrap();
            prop_assert_eq!((before, members), ("x", vec![("k", value)]));
        }
    }
}
