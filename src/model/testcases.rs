//! Test cases in source text, by what each language's runners take for one, and what a branch does to them.
//!
//! Read from the text alone, nothing is compiled and nothing run: comments and strings are blanked first (`mask`), then
//! each language's own marks are looked for (`languages`). A case that is made at run time (a loop around `it`, a macro of
//! the project's own) is not seen; the same way of looking on both sides keeps the difference honest.

mod languages;
mod mask;

use std::collections::{BTreeSet, HashMap};

/// A language whose tests are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Language {
    Rust,
    Python,
    JavaScript,
    Go,
    /// And Kotlin.
    Java,
    Ruby,
    Php,
    /// And C++.
    C,
}

impl Language {
    /// The language of a file that may hold tests, by its name.
    pub fn of(path: &str) -> Option<Language> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (stem, ext) = name.rsplit_once('.')?;
        let below = |dir: &str| path.split('/').rev().skip(1).any(|d| d == dir);
        Some(match ext {
            "rs" => Language::Rust,
            "py" if stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests" => Language::Python,
            "js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts"
                if stem.ends_with(".test") || stem.ends_with(".spec") || below("__tests__") =>
            {
                Language::JavaScript
            }
            "go" if stem.ends_with("_test") => Language::Go,
            "java" | "kt" => Language::Java,
            "rb" if stem.ends_with("_spec") || stem.ends_with("_test") || stem.starts_with("test_") => Language::Ruby,
            "php" if stem.ends_with("Test") || below("tests") => Language::Php,
            "c" | "cc" | "cpp" | "cxx" | "h" | "hh" | "hpp" => Language::C,
            _ => return None,
        })
    }

    /// As people write it.
    pub fn word(self) -> &'static str {
        match self {
            Language::Rust => "Rust",
            Language::Python => "Python",
            Language::JavaScript => "JavaScript",
            Language::Go => "Go",
            Language::Java => "Java",
            Language::Ruby => "Ruby",
            Language::Php => "PHP",
            Language::C => "C++",
        }
    }
}

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// As the language writes it.
    pub name: String,
    /// Never run as it stands: marked so, or its first statement says so.
    pub skipped: bool,
    /// Tells its body from others; `None` where there is too little of it.
    body: Option<u64>,
}

/// The tests in `text`, in order.
pub fn cases(language: Language, text: &str) -> Vec<Case> {
    languages::cases(language, text)
}

/// The tests of one file on both sides.
#[derive(Debug, Clone)]
pub struct File {
    /// Where, for people and for the order.
    pub path: String,
    /// Its language.
    pub language: Language,
    /// Whether the file is there before and after.
    pub there: (bool, bool),
    /// Before.
    pub before: Vec<Case>,
    /// After.
    pub after: Vec<Case>,
}

/// A test somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// In which of the files.
    pub file: usize,
    /// As the language writes it.
    pub name: String,
}

/// What became of the tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// There now and not before.
    pub added: Vec<Named>,
    /// There before and not now.
    pub removed: Vec<Named>,
    /// Skipped now and not before; new ones that are skipped are among them.
    pub skipped: Vec<Named>,
}

/// What a branch did to the tests of the files it changed. One that has moved to another file, with its file, or has
/// another name for the same body, is neither added nor removed.
pub fn difference(files: &[File]) -> Difference {
    let all = |side: fn(&File) -> &Vec<Case>| -> Vec<(usize, &Case)> {
        files.iter().enumerate().flat_map(|(i, f)| side(f).iter().map(move |c| (i, c))).collect()
    };
    let (before, after) = (all(|f| &f.before), all(|f| &f.after));
    let mut out = Difference::default();
    let mut pairs = Pairs { old: (0..before.len()).collect(), new: (0..after.len()).collect(), found: Vec::new() };
    let language = |file: usize| files[file].language;
    pairs.by(&before, &after, |(f, c)| Some((*f, c.name.clone(), 0, language(*f))));
    pairs.by(&before, &after, |(f, c)| Some((0, c.name.clone(), c.body?, language(*f))));
    pairs.by(&before, &after, |(f, c)| Some((0, String::new(), c.body?, language(*f))));
    // A file that went and one that came: moved, and worked on.
    pairs.by(&before, &after, |(f, c)| {
        let moved = files[*f].there != (true, true);
        moved.then(|| (0, c.name.clone(), 0, language(*f)))
    });
    let named = |(file, case): &(usize, &Case)| Named { file: *file, name: case.name.clone() };
    let newly: BTreeSet<usize> =
        pairs.found.iter().filter(|(o, n)| !before[*o].1.skipped && after[*n].1.skipped).map(|(_, n)| *n).collect();
    for (i, a) in after.iter().enumerate() {
        let is_new = pairs.new.contains(&i);
        if is_new {
            out.added.push(named(a));
        }
        if newly.contains(&i) || is_new && a.1.skipped {
            out.skipped.push(named(a));
        }
    }
    out.removed = pairs.old.iter().map(|i| named(&before[*i])).collect();
    out
}

/// Who is whose successor, and who has none yet.
struct Pairs {
    old: BTreeSet<usize>,
    new: BTreeSet<usize>,
    found: Vec<(usize, usize)>,
}

type Key = (usize, String, u64, Language);

impl Pairs {
    /// Pairs those left with the same key, in order.
    fn by(
        &mut self,
        before: &[(usize, &Case)],
        after: &[(usize, &Case)],
        key: impl Fn(&(usize, &Case)) -> Option<Key>,
    ) {
        let mut waiting: HashMap<Key, Vec<usize>> = HashMap::new();
        for o in self.old.iter().rev() {
            if let Some(k) = key(&before[*o]) {
                waiting.entry(k).or_default().push(*o);
            }
        }
        for n in self.new.clone() {
            let Some(o) = key(&after[n]).and_then(|k| waiting.get_mut(&k)?.pop()) else { continue };
            self.old.remove(&o);
            self.new.remove(&n);
            self.found.push((o, n));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, before: Option<&str>, after: Option<&str>) -> File {
        let language = Language::of(path).unwrap();
        let read = |t: Option<&str>| t.map(|t| cases(language, t)).unwrap_or_default();
        File {
            path: path.into(),
            language,
            there: (before.is_some(), after.is_some()),
            before: read(before),
            after: read(after),
        }
    }

    fn names(of: &[Named]) -> Vec<&str> {
        of.iter().map(|n| n.name.as_str()).collect()
    }

    fn rust(name: &str, what: &str) -> String {
        format!("#[test]\nfn {name}() {{\n    assert_eq!(value_of({what}), 17);\n}}\n")
    }

    #[test]
    fn the_name_tells_whether_a_file_may_hold_tests() {
        for (path, language) in [
            ("src/lib.rs", Some(Language::Rust)),
            ("pkg/test_a.py", Some(Language::Python)),
            ("pkg/latest.py", None),
            ("web/a.test.tsx", Some(Language::JavaScript)),
            ("web/__tests__/a.js", Some(Language::JavaScript)),
            ("web/a.js", None),
            ("a_test.go", Some(Language::Go)),
            ("a.go", None),
            ("src/A.kt", Some(Language::Java)),
            ("spec/a_spec.rb", Some(Language::Ruby)),
            ("tests/Unit/ATest.php", Some(Language::Php)),
            ("src/A.php", None),
            ("t/a.cc", Some(Language::C)),
            ("README", None),
        ] {
            assert_eq!(Language::of(path), language, "{path}");
        }
    }

    #[test]
    fn what_came_went_and_was_switched_off() {
        let before = format!("{}{}{}", rust("stays", "a"), rust("goes", "b"), rust("sleeps", "c"));
        let after = format!("{}#[ignore]\n{}{}", rust("stays", "a2"), rust("sleeps", "c"), rust("comes", "d"));
        let d = difference(&[file("src/a.rs", Some(&before), Some(&after))]);
        assert_eq!(names(&d.added), ["comes"]);
        assert_eq!(names(&d.removed), ["goes"]);
        assert_eq!(names(&d.skipped), ["sleeps"]);
        let d = difference(&[file("src/a.rs", Some(&after), Some(&after))]);
        assert_eq!(d, Difference::default(), "what was skipped before is no news");
        let new = difference(&[file("src/b.rs", None, Some(&format!("#[ignore]\n{}", rust("x", "y"))))]);
        assert_eq!((names(&new.added), names(&new.skipped)), (vec!["x"], vec!["x"]));
    }

    #[test]
    fn one_that_moved_or_has_another_name_is_the_same() {
        let a = format!("{}{}", rust("one", "a"), rust("two", "b"));
        // Into another file, under another name.
        let d = difference(&[
            file("src/a.rs", Some(&a), Some(&rust("one", "a"))),
            file("src/b.rs", Some(""), Some(&rust("second", "b"))),
        ]);
        assert_eq!(d, Difference::default());
        // With its file, and worked on.
        let d = difference(&[
            file("src/a.rs", Some(&a), None),
            file("src/c.rs", None, Some(&format!("{}{}", rust("one", "x"), rust("two", "y")))),
        ]);
        assert_eq!(d, Difference::default());
        // The same name elsewhere, for something else, is no move.
        let d = difference(&[
            file("src/a.rs", Some(&a), Some(&rust("one", "a"))),
            file("src/b.rs", Some(""), Some("#[test]\nfn two() {}\n")),
        ]);
        assert_eq!((names(&d.added), names(&d.removed)), (vec!["two"], vec!["two"]));
        // Two alike of which one goes.
        let twice = format!("mod a {{\n{}}}\nmod b {{\n{}}}\n", rust("same", "a"), rust("same", "a"));
        let d = difference(&[file("src/a.rs", Some(&twice), Some(&rust("same", "a")))]);
        assert_eq!(names(&d.removed), ["same"]);
    }
}
