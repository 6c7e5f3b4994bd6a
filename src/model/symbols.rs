//! What a text defines and what it uses: enough to see that two changes meet in one definition though their lines are
//! apart, or that one changes what the other begins to use.
//!
//! Eight languages are parsed; of the rest, the lines that git shows in hunk headers stand for the definitions they
//! begin. It is a warning's worth of knowledge: names are compared as text, no type or import is resolved.

#[cfg(feature = "symbols")]
mod grammar;
#[cfg(feature = "symbols")]
mod walk;

use std::collections::BTreeMap;

/// Larger texts are not looked into: they are generated or data, and parsing is what a person waits for.
const SIZE_MAX: usize = 1 << 20;

/// One definition in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// For people and for comparing: what it is inside of, then its own name; `Parser.parse`.
    pub name: String,
    /// Its own name alone.
    pub short: String,
    /// First and last line, from 1.
    pub lines: (u32, u32),
    /// What users of it depend on, white space folded; `None` where it has no users (a module, an `impl`).
    pub signature: Option<String>,
}

/// What is in one text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// In the order of their beginnings; a definition inside another follows it.
    pub definitions: Vec<Definition>,
    /// How often each name is used, its own definitions aside. Empty where the language is not parsed.
    pub uses: BTreeMap<String, u32>,
}

impl Outline {
    /// Of the text of `path`; `None` where nothing can be said of it (too large, binary, data).
    pub fn of(path: &[u8], text: &[u8]) -> Option<Outline> {
        if text.len() > SIZE_MAX || text.iter().take(8000).any(|b| *b == 0) {
            return None;
        }
        let extension = extension(path);
        #[cfg(feature = "symbols")]
        if let Some(g) = grammar::of(&extension) {
            return walk::outline(g, text);
        }
        (!is_data(&extension)).then(|| Outline { definitions: by_headers(text), uses: BTreeMap::new() })
    }

    /// The innermost definitions that `lines` (first and last of each range, from 1) touch, in their order.
    pub fn touched(&self, lines: &[(u32, u32)]) -> Vec<&Definition> {
        let end = self.definitions.iter().map(|d| d.lines.1).max().unwrap_or(0);
        let mut out = std::collections::BTreeSet::new();
        for &(first, last) in lines {
            for line in first..=last.min(end) {
                // Those inside follow those around them.
                out.extend(self.definitions.iter().rposition(|d| d.lines.0 <= line && line <= d.lines.1));
            }
        }
        out.into_iter().map(|i| &self.definitions[i]).collect()
    }

    /// The own names of definitions of `before` whose signature is another one here, or that are gone.
    pub fn changed_signatures(&self, before: &Outline) -> Vec<String> {
        let now =
            |name: &str| self.definitions.iter().filter(|d| d.name == name).map(|d| &d.signature).collect::<Vec<_>>();
        let then =
            |name: &str| before.definitions.iter().filter(|d| d.name == name).map(|d| &d.signature).collect::<Vec<_>>();
        let mut out: Vec<String> = before
            .definitions
            .iter()
            .filter(|d| d.signature.is_some() && now(&d.name) != then(&d.name))
            .map(|d| d.short.clone())
            .collect();
        out.sort();
        out.dedup();
        out
    }

    /// The names used more often here than in `before`, and not defined here.
    pub fn newly_used(&self, before: &Outline) -> Vec<&str> {
        self.uses
            .iter()
            .filter(|(name, n)| before.uses.get(*name).is_none_or(|b| b < *n))
            .filter(|(name, _)| !self.definitions.iter().any(|d| d.short == **name))
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// In lower case; empty where there is none.
fn extension(path: &[u8]) -> String {
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or_default();
    let at = name.iter().rposition(|b| *b == b'.').filter(|at| *at > 0);
    at.map(|at| String::from_utf8_lossy(&name[at + 1..]).to_ascii_lowercase()).unwrap_or_default()
}

/// Whether texts with this ending have no definitions that a hunk header would name.
fn is_data(extension: &str) -> bool {
    const DATA: [&str; 18] = [
        "", "csv", "htm", "html", "ini", "json", "lock", "log", "markdown", "md", "po", "rst", "svg", "toml", "txt",
        "xml", "yaml", "yml",
    ];
    DATA.contains(&extension)
}

/// A line that begins with a letter, `_` or `$` begins a definition: git's rule for hunk headers where no driver is set.
fn by_headers(text: &[u8]) -> Vec<Definition> {
    let mut out: Vec<Definition> = Vec::new();
    let mut last = 0;
    for (line, n) in text.split(|b| *b == b'\n').zip(1_u32..) {
        if line.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'$')) {
            if let Some(d) = out.last_mut() {
                d.lines.1 = n - 1;
            }
            let head = String::from_utf8_lossy(line.trim_ascii_end());
            let name: String = head.chars().take(80).collect();
            out.push(Definition { short: name.clone(), name, lines: (n, n), signature: None });
        }
        last = n;
    }
    if let Some(d) = out.last_mut() {
        d.lines.1 = last.max(d.lines.0);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, text: &str) -> Vec<(String, u32, u32)> {
        let o = Outline::of(path.as_bytes(), text.as_bytes()).unwrap();
        o.definitions.into_iter().map(|d| (d.name, d.lines.0, d.lines.1)).collect()
    }

    fn one(n: &str, a: u32, b: u32) -> (String, u32, u32) {
        (n.to_owned(), a, b)
    }

    #[test]
    fn other_languages_have_the_lines_of_gits_hunk_headers() {
        let text = "sub one {\n  1;\n}\n\nsub two {\n  2;\n}\n";
        assert_eq!(names("x.pl", text), [one("sub one {", 1, 4), one("sub two {", 5, 8)]);
        assert_eq!(Outline::of(b"README.md", b"a\n"), None);
        assert_eq!(Outline::of(b"x.rs", b"fn a\0() {}"), None);
    }

    #[cfg(feature = "symbols")]
    mod parsed {
        use super::*;

        #[test]
        fn each_language_names_its_definitions() {
            let rust = "struct P { a: u8 }\n\nimpl P {\n    fn parse(&self) -> u8 {\n        1\n    }\n}\n";
            assert_eq!(names("a.rs", rust), [one("P", 1, 1), one("P", 3, 7), one("P.parse", 4, 6)]);
            let python = "class P:\n    def parse(self):\n        return 1\n\n@deco\ndef top(a):\n    pass\n";
            assert_eq!(names("a.py", python), [one("P", 1, 3), one("P.parse", 2, 3), one("top", 6, 7)]);
            let js = "class P { parse() { return 1 } }\nconst f = (a) => a\nfunction g() {}\n";
            let expected = [one("P", 1, 1), one("P.parse", 1, 1), one("f", 2, 2), one("g", 3, 3)];
            assert_eq!(names("a.js", js), expected);
            assert_eq!(names("a.tsx", js), expected);
            let ts = "interface I { a: string }\nexport function g(a: I): void {}\ntype T = I\n";
            assert_eq!(names("a.ts", ts), [one("I", 1, 1), one("g", 2, 2), one("T", 3, 3)]);
            let go = "package a\n\ntype P struct{}\n\nfunc (p *P) Parse() int {\n\treturn 1\n}\n\nfunc top() {}\n";
            assert_eq!(names("a.go", go), [one("P", 3, 3), one("P.Parse", 5, 7), one("top", 9, 9)]);
            let java = "class P {\n  P() {}\n  int parse(int a) { return a; }\n}\n";
            assert_eq!(names("P.java", java), [one("P", 1, 4), one("P.P", 2, 2), one("P.parse", 3, 3)]);
            let c = "struct p { int a; };\nstatic int *parse(int a)\n{\n  return 0;\n}\n#define M(x) x\n";
            assert_eq!(names("a.c", c), [one("p", 1, 1), one("parse", 2, 5), one("M", 6, 6)]);
            let cpp = "namespace n {\nclass P {\n  int parse() { return 1; }\n};\n}\nint n::P::other() { return 2; }\n";
            let got = names("a.cpp", cpp);
            assert_eq!(got, [one("n", 1, 5), one("n.P", 2, 4), one("n.P.parse", 3, 3), one("n::P::other", 6, 6)]);
            let ruby = "module N\n  class P\n    def parse(a)\n      1\n    end\n    def self.make; end\n  end\nend\n";
            let got = names("a.rb", ruby);
            assert_eq!(got, [one("N", 1, 8), one("N.P", 2, 7), one("N.P.parse", 3, 5), one("N.P.make", 6, 6)]);
        }

        #[test]
        fn a_change_touches_the_innermost_definition() {
            let text = "impl P {\n    fn a() {\n        1;\n    }\n\n    fn b() {\n        2;\n    }\n}\n";
            let o = Outline::of(b"x.rs", text.as_bytes()).unwrap();
            let touched = |lines| o.touched(&[lines]).into_iter().map(|d| d.name.as_str()).collect::<Vec<_>>();
            assert_eq!(touched((3, 3)), ["P.a"]);
            assert_eq!(touched((5, 5)), ["P"]);
            assert_eq!(touched((3, 7)), ["P", "P.a", "P.b"]);
            assert_eq!(touched((40, 41)), [""; 0]);
        }

        #[test]
        fn a_signature_changes_with_its_parameters_and_not_with_its_body() {
            let of = |t: &str| Outline::of(b"x.rs", t.as_bytes()).unwrap();
            let before = of("fn a(x: u8) -> u8 {\n    x\n}\nstruct S { f: u8 }\n");
            assert_eq!(
                of("fn a(x:  u8)\n -> u8 {\n    x + 1\n}\nstruct S { f: u8 }\n").changed_signatures(&before),
                [""; 0]
            );
            assert_eq!(of("fn a(x: u16) -> u8 {\n    x\n}\nstruct S { f: u8 }\n").changed_signatures(&before), ["a"]);
            assert_eq!(of("fn a(x: u8) -> u8 {\n    x\n}\nstruct S { f: u16 }\n").changed_signatures(&before), ["S"]);
            assert_eq!(of("struct S { f: u8 }\n").changed_signatures(&before), ["a"], "gone");
        }

        #[test]
        fn a_name_is_newly_used_where_it_was_not_and_is_not_defined() {
            let of = |t: &str| Outline::of(b"x.py", t.as_bytes()).unwrap();
            let before = of("def f():\n    return old()\n");
            let after = of("def f():\n    return old() + parse(1)\ndef g():\n    return f()\n");
            assert_eq!(after.newly_used(&before), ["parse"]);
        }

        #[test]
        fn deep_or_broken_sources_do_no_harm() {
            let deep = "(".repeat(20_000);
            for path in ["a.rs", "a.py", "a.js", "a.ts", "a.tsx", "a.go", "a.java", "a.c", "a.cpp", "a.rb"] {
                let _ = Outline::of(path.as_bytes(), deep.as_bytes());
                let _ = Outline::of(path.as_bytes(), b"\xff\xfe fn x( class def }}}} {{{{ \"");
                assert!(Outline::of(path.as_bytes(), b"").unwrap().definitions.is_empty());
            }
        }
    }
}
