//! Templates in values: `{{ name }}` and nothing that branches, repeats or reads.
//!
//! Strict: a name that does not exist is an error that lists the ones there are, never an empty string; an empty
//! string in a path or a command means another path or another command.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, filters};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The names in a setup command.
pub const NAMES: &[&str] = &["name", "slug", "id", "branch", "base", "repo", "worktree", "main", "batch"];

/// The names in the command that asks tests again: of these `tests` is a whole element.
pub const AGAIN_NAMES: &[&str] =
    &["name", "slug", "id", "branch", "base", "repo", "worktree", "main", "batch", "tests"];

/// Whether an element of a command stands for the names of tests.
pub fn is_tests(element: &str) -> bool {
    let inner = element.trim().strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    inner.is_some_and(|name| name.trim() == "tests")
}

/// The names in an assistant's command, arguments and variables.
pub const ASSISTANT_NAMES: &[&str] = &[
    "name",
    "slug",
    "id",
    "branch",
    "base",
    "repo",
    "worktree",
    "main",
    "prompt_file",
    "batch",
    "prompt",
    "model",
    "session",
    "permission",
    "exe",
];

/// The names that exist before the worktree does, for `worktree.dir`.
pub const DIR_NAMES: &[&str] = &["name", "slug", "id", "branch", "base", "repo", "main", "batch"];

/// The most bytes a template may make. A longer one is no path and no argument.
const LONGEST: usize = 256 * 1024;

/// Why a template cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// A name that does not exist.
    #[error("there is no '{name}' for '{template}'; there are {}", .known.join(", "))]
    Unknown {
        /// The name used.
        name: String,
        /// The template, fit to be shown.
        template: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// Blocks, comments or repetition.
    #[error("'{what}' in '{template}': only '{{{{ name }}}}' can be used")]
    Forbidden {
        /// The characters.
        what: &'static str,
        /// The template, fit to be shown.
        template: String,
    },
    /// Everything else that is wrong with it.
    #[error("'{template}' cannot be read: {reason}")]
    Syntax {
        /// The template, fit to be shown.
        template: String,
        /// What the engine says.
        reason: String,
    },
    /// The result is too long.
    #[error("'{template}' makes more than 64 KiB")]
    TooLong {
        /// The template, fit to be shown.
        template: String,
    },
}

/// `template` with `values` in place of their names.
pub fn render(template: &str, values: &BTreeMap<&'static str, String>) -> Result<String, Error> {
    let known: Vec<&'static str> = values.keys().copied().collect();
    evaluate(template, &known, values)
}

/// Whether `template` can be rendered once the `allowed` names have values; asked when plans are made.
pub fn check(template: &str, allowed: &[&'static str]) -> Result<(), Error> {
    let values = allowed.iter().map(|name| (*name, "x".to_owned())).collect();
    evaluate(template, allowed, &values).map(drop)
}

/// Whether `template` uses at least one of `names`.
pub(crate) fn uses_any(template: &str, names: &[&str]) -> bool {
    let mut env = environment();
    if env.add_template("", template).is_err() {
        return false;
    }
    env.get_template("").is_ok_and(|t| t.undeclared_variables(false).iter().any(|n| names.contains(&n.as_str())))
}

fn evaluate(template: &str, known: &[&'static str], values: &BTreeMap<&'static str, String>) -> Result<String, Error> {
    let shown = || super::value::shown(template);
    if let Some(what) = forbidden(template) {
        return Err(Error::Forbidden { what, template: shown() });
    }
    let syntax = |e: minijinja::Error| Error::Syntax {
        template: shown(),
        reason: super::value::shown(e.detail().unwrap_or("it is not a template")),
    };
    let mut env = environment();
    env.add_template("", template).map_err(syntax)?;
    let parsed = env.get_template("").map_err(syntax)?;
    let mut used: Vec<String> = parsed.undeclared_variables(false).into_iter().collect();
    used.sort();
    if let Some(name) = used.into_iter().find(|n| !known.contains(&n.as_str())) {
        return Err(Error::Unknown { name, template: shown(), known: known.to_vec() });
    }
    let context = minijinja::Value::from_pairs(values.iter().map(|(name, value)| (*name, value.as_str())));
    let mut out = Bounded(Vec::new());
    match parsed.render_captured_to(context, &mut out) {
        Err(_) if out.0.len() > LONGEST => Err(Error::TooLong { template: shown() }),
        Err(e) => Err(syntax(e)),
        Ok(_) => String::from_utf8(out.0)
            .map_err(|_| Error::Syntax { template: shown(), reason: "it does not make text".to_owned() }),
    }
}

/// No globals and no tests; only filters that shorten nothing and read nothing.
fn environment<'a>() -> Environment<'a> {
    let mut env = Environment::empty();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    // The default cuts the last newline off, and an argument is not ours to shorten.
    if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
        env.set_syntax(syntax);
    }
    env.add_filter("lower", filters::lower);
    env.add_filter("upper", filters::upper);
    env.add_filter("replace", filters::replace);
    env
}

/// The first thing that is more than an expression. Text in quotes inside an expression is data: `{{ '{%' }}` is how
/// an argument with these characters is written.
fn forbidden(template: &str) -> Option<&'static str> {
    let mut rest = template;
    loop {
        let at = rest.find('{')?;
        rest = &rest[at..];
        if rest.starts_with("{%") {
            return Some("{%");
        }
        if rest.starts_with("{#") {
            return Some("{#");
        }
        let Some(inside) = rest.strip_prefix("{{") else {
            rest = &rest[1..];
            continue;
        };
        let mut quote = None;
        let mut escaped = false;
        let mut end = inside.len();
        for (i, c) in inside.char_indices() {
            match (quote, c) {
                (Some(_), _) if escaped => escaped = false,
                (Some(_), '\\') => escaped = true,
                (Some(q), c) if q == c => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"') => quote = Some(c),
                // Repetition is the only operator that makes much out of little.
                (None, '*') => return Some("*"),
                (None, '}') if inside[i..].starts_with("}}") => {
                    end = i;
                    break;
                }
                (None, _) => {}
            }
        }
        rest = &inside[end..];
    }
}

/// Takes at most [`LONGEST`] bytes.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(&bytes[..bytes.len().min(LONGEST + 1)]);
        if self.0.len() > LONGEST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values() -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("slug", "csv-export".to_owned()),
            ("repo", "shop".to_owned()),
            ("main", "<&'{{ repo }}".to_owned()),
        ])
    }

    #[test]
    fn names_are_replaced_and_nothing_else() {
        assert_eq!(render("../{{ repo }}.agents/{{ slug }}", &values()).unwrap(), "../shop.agents/csv-export");
        assert_eq!(render("{{slug|replace('-', '_')|upper}}\n", &values()).unwrap(), "CSV_EXPORT\n");
        assert_eq!(render("plain $HOME {x} }}", &values()).unwrap(), "plain $HOME {x} }}");
        assert_eq!(render("{{ '{%' }}", &values()).unwrap(), "{%");
    }

    #[test]
    fn values_are_neither_escaped_nor_read_as_templates() {
        assert_eq!(render("{{ main }}", &values()).unwrap(), "<&'{{ repo }}");
    }

    #[test]
    fn an_unknown_name_lists_the_ones_there_are() {
        let e = render("{{ repo }}/{{ slag }}", &values()).unwrap_err();
        assert_eq!(e.to_string(), "there is no 'slag' for '{{ repo }}/{{ slag }}'; there are main, repo, slug");
        let e = check("{{ worktree }}", DIR_NAMES).unwrap_err();
        assert!(e.to_string().starts_with("there is no 'worktree'"), "{e}");
        assert!(check("{{ range(3) }}", NAMES).is_err());
        assert!(check("{{ slug.path }}", NAMES).is_err());
        assert!(check("{{ slug|safe }}", NAMES).is_err());
    }

    #[test]
    fn nothing_that_branches_repeats_or_never_ends() {
        for (template, what) in [
            ("{% for i in slug %}x{% endfor %}", "{%"),
            ("{{ slug }}{% if slug %}", "{%"),
            ("{# hidden #}", "{#"),
            ("{{ 'x' * 1000000000 }}", "*"),
            ("{{ '*' ~ slug ** 2 }}", "*"),
            ("{{{% x", "{%"),
        ] {
            match check(template, NAMES) {
                Err(Error::Forbidden { what: found, .. }) => assert_eq!(found, what, "{template}"),
                // The engine's own refusal is as good, as long as it is one.
                other => assert!(matches!(other, Err(Error::Syntax { .. })), "{template}: {other:?}"),
            }
        }
        assert_eq!(check("{{ '{%*' }}{{ slug }}", NAMES), Ok(()));
        assert!(matches!(check("{{ slug", NAMES), Err(Error::Syntax { .. })));
        assert!(matches!(render(&"{{ repo }}".repeat(80_000), &values()), Err(Error::TooLong { .. })));
    }

    #[test]
    fn a_directory_that_is_the_same_for_all_is_noticed() {
        assert!(uses_any("x/{{ slug|upper }}", &["slug"]));
        assert!(!uses_any("x/slug/{{ repo }}", &["slug"]));
    }

    proptest! {
        #[test]
        fn any_text_is_rendered_or_refused(template in "([{}%#*'\" a-z|.()\\[\\]]|slug){0,30}") {
            if check(&template, NAMES).is_ok() && !template.contains("{{") {
                prop_assert_eq!(render(&template, &values()).unwrap(), template);
            }
        }
    }
}
