//! What a test looks like, language by language.

use super::{Case, Language, mask};
use crate::model::agent::fnv64;
use crate::model::text::clip_bytes;
use std::collections::HashMap;

/// Bytes of a name.
const LONGEST: usize = 300;
/// Letters and digits that make a body one that is told from others.
const TELLING: usize = 10;
/// Lines of a body that are looked at.
const BODY: usize = 400;
/// Bytes in which a declaration ends: whatever the text is, reading it stays quick.
const NEAR: usize = 4000;

/// A test that was found.
struct Found {
    name: String,
    /// Where its first line is told from: within it.
    at: usize,
    skipped: bool,
}

/// Text with its code.
struct Source<'a> {
    text: &'a str,
    code: String,
    /// Where the bracket that was opened somewhere is closed.
    closed: HashMap<usize, usize>,
}

/// The tests in `text`.
pub(super) fn cases(language: Language, text: &str) -> Vec<Case> {
    let code = mask::code(text, language);
    let s = Source { text, closed: brackets(&code), code };
    let found = match language {
        Language::Rust => s.rust(),
        Language::Python => s.python(),
        Language::JavaScript => s.calls(),
        Language::Go => s.go(),
        Language::Java => s.java(),
        Language::Ruby => s.ruby(),
        Language::Php => s.php(),
        Language::C => s.c(),
    };
    let case = |f: Found| Case { body: s.body(&f), name: clip_bytes(f.name, LONGEST), skipped: f.skipped };
    found.into_iter().filter(|f| !f.name.is_empty()).map(case).collect()
}

impl Source<'_> {
    /// Each line's code with where it begins.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines_from(0)
    }

    fn lines_from(&self, begin: usize) -> impl Iterator<Item = (usize, &str)> {
        self.code[begin..].split_inclusive('\n').scan(begin, |at, line| {
            let begin = *at;
            *at += line.len();
            Some((begin, line.trim_end()))
        })
    }

    /// Behind the bracket that closes the one at `at`.
    fn past(&self, at: usize) -> usize {
        self.closed.get(&at).map_or(self.code.len(), |n| n + 1)
    }

    /// The code at `at`, as far as a declaration goes.
    fn near(&self, at: usize) -> &str {
        let rest = &self.code[at..];
        &rest[..rest.floor_char_boundary(NEAR)]
    }

    /// Behind the blanks at `at`.
    fn next(&self, at: usize) -> usize {
        at + (self.code[at..].len() - self.code[at..].trim_start().len())
    }

    /// What is indented below the line at `at`, brackets that stand alone left out.
    fn below(&self, at: usize) -> impl Iterator<Item = (usize, &str)> {
        let begin = self.code[..at].rfind('\n').map_or(0, |n| n + 1);
        let depth = indent(&self.code[begin..]);
        let rest = self.lines_from(begin).skip(1).filter(|(_, l)| !matches!(l.trim(), "" | "{"));
        rest.take_while(move |(_, l)| indent(l) > depth)
    }

    /// The statement a body begins with: behind the bracket of its first line, or the line below.
    fn first_statement(&self, at: usize) -> &str {
        let line = self.code[at..].lines().next().unwrap_or_default();
        match line.rsplit_once('{').map(|(_, rest)| rest.trim()) {
            Some(rest) if !rest.is_empty() && rest != "}" => rest,
            _ => self.below(at).next().map_or("", |(_, l)| l.trim()),
        }
    }

    /// A digest of a test's body, its own name left out.
    fn body(&self, f: &Found) -> Option<u64> {
        let begin = self.code[..f.at].rfind('\n').map_or(0, |n| n + 1);
        let first = self.text[begin..].lines().next().unwrap_or_default().replacen(&f.name, "", 1);
        let mut body = String::new();
        for (at, line) in self.below(f.at).take(BODY) {
            body.push_str(self.text[at..at + line.len()].trim());
            body.push('\n');
        }
        let telling = |s: &str| s.chars().filter(|c| c.is_alphanumeric()).count();
        if telling(&body) < TELLING {
            // All of it in one line, behind a bracket.
            body = first.split_once('{').map(|(_, rest)| rest.trim().to_owned()).unwrap_or_default() + &body;
        }
        (telling(&body) >= TELLING).then(|| fnv64(body.as_bytes()))
    }

    /// Attributes, then `fn name`.
    fn rust(&self) -> Vec<Found> {
        const TESTS: [&str; 5] = ["test", "rstest", "test_case", "quickcheck", "wasm_bindgen_test"];
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(n) = self.code[at..].find("#[") {
            at += n;
            let (mut test, mut skipped) = (false, false);
            while self.code[at..].starts_with("#[") {
                let inner = &self.code[at + 2..];
                let path = inner.trim_start();
                let path = &path[..path.find(|c: char| !is_word(c) && c != ':').unwrap_or(path.len())];
                test |= TESTS.contains(&path.rsplit("::").next().unwrap_or(path));
                skipped |= path == "ignore";
                at = self.next(self.past(at + 1));
            }
            if !test {
                continue;
            }
            let rest = self.near(at);
            let Some(n) = rest.find("fn ").filter(|n| !rest[..*n].contains([';', '{', '}'])) else { continue };
            let (name, begin) = word(rest, n + 3);
            out.push(Found { name: name.to_owned(), at: at + begin, skipped });
        }
        out
    }

    /// `def test…`, decorators above it, classes around it.
    fn python(&self) -> Vec<Found> {
        let skips = |l: &str| {
            ["pytest.mark.skip", "unittest.skip", "skip"].iter().any(|m| l == *m || l.starts_with(&format!("{m}(")))
        };
        let mut out = Vec::new();
        let mut decorated = false;
        let mut all = false;
        let mut classes: Vec<(usize, bool)> = Vec::new();
        for (at, line) in self.lines().filter(|(_, l)| !l.trim().is_empty()) {
            let (depth, l) = (indent(line), line.trim());
            classes.retain(|(d, _)| *d < depth);
            if let Some(d) = l.strip_prefix('@') {
                decorated |= skips(d);
                continue;
            }
            if depth == 0 && l.strip_prefix("pytestmark").is_some_and(|r| skips(r.trim_start_matches([' ', '=']))) {
                all = true;
            }
            let def = l.strip_prefix("async ").map_or(l, str::trim_start).strip_prefix("def ");
            if l.starts_with("class ") {
                classes.push((depth, decorated));
            } else if let Some(name) = def.map(|d| word(d, 0).0).filter(|n| n.starts_with("test")) {
                let first = self.first_statement(at);
                let says =
                    ["pytest.skip(", "self.skipTest(", "raise unittest.SkipTest"].iter().any(|s| first.starts_with(s));
                let skipped = decorated || says || classes.iter().any(|(_, s)| *s);
                out.push(Found { name: name.to_owned(), at, skipped });
            }
            // A decorator may go on over several lines: only what can end it does.
            if l.starts_with("class ") || def.is_some() {
                decorated = false;
            }
        }
        out.iter_mut().for_each(|f| f.skipped |= all);
        out
    }

    /// `it('…', …)` and `test('…', …)` with what may stand between; `.only` skips the rest of the file.
    fn calls(&self) -> Vec<Found> {
        let mut found: Vec<(Found, bool)> = Vec::new();
        let (mut skipped, mut only) = (Vec::new(), Vec::new());
        for (at, head) in words(&self.code) {
            let (suite, off, alone) = match head {
                "it" | "test" => (false, false, false),
                "xit" | "xtest" => (false, true, false),
                "fit" => (false, false, true),
                "describe" | "context" => (true, false, false),
                "xdescribe" | "xcontext" => (true, true, false),
                "fdescribe" => (true, false, true),
                _ => continue,
            };
            if at > 0 && matches!(self.code.as_bytes()[at - 1], b'.' | b'$') {
                continue;
            }
            let Some(call) = self.call(at + head.len(), suite, off, alone) else { continue };
            let range = (at, call.end);
            if call.only {
                only.push(range);
            }
            if call.suite {
                skipped.extend(call.skipped.then_some(range));
            } else {
                found.push((Found { name: call.name, at, skipped: call.skipped }, call.only));
            }
        }
        let within = |ranges: &[(usize, usize)], at: usize| ranges.iter().any(|(a, b)| (*a..*b).contains(&at));
        for (f, _) in &mut found {
            f.skipped |= within(&skipped, f.at) || !only.is_empty() && !within(&only, f.at);
        }
        found.into_iter().map(|(f, _)| f).collect()
    }

    /// The call behind the word that ends at `at`: modifiers, a table, then a title.
    fn call(&self, mut at: usize, mut suite: bool, mut skipped: bool, mut only: bool) -> Option<CallTo> {
        let code = &self.code;
        loop {
            let rest = &code[at..];
            if let Some(dot) = rest.strip_prefix('.') {
                let (name, begin) = word(dot, 0);
                let behind = at + 1 + begin + name.len();
                match name {
                    "skip" | "todo" | "fixme" => skipped = true,
                    "only" => only = true,
                    "describe" => suite = true,
                    "each" | "for" => {
                        at = behind;
                        // The table, in brackets or as a template.
                        at = match code.as_bytes().get(at)? {
                            b'(' => self.past(at),
                            b'`' => at + 2 + self.near(at + 1).find('`')?,
                            _ => return None,
                        };
                        continue;
                    }
                    "concurrent" | "sequential" | "failing" | "fails" | "parallel" | "serial" => {}
                    _ => return None,
                }
                at = behind;
                continue;
            }
            rest.strip_prefix('(')?;
            let quote = self.next(at + 1);
            let open = code[quote..].chars().next().filter(|c| matches!(c, '\'' | '"' | '`'))?;
            let close = quote + 1 + self.near(quote + 1).find(open)?;
            return Some(CallTo {
                name: self.text[quote + 1..close].to_owned(),
                suite,
                skipped,
                only,
                end: self.past(at),
            });
        }
    }

    /// `func TestX(`
    fn go(&self) -> Vec<Found> {
        let one = |(at, line): (usize, &str)| {
            let (name, _) = word(line.strip_prefix("func ")?, 0);
            let rest = ["Test", "Fuzz"].iter().find_map(|p| name.strip_prefix(p))?;
            let counts = name != "TestMain" && !rest.starts_with(|c: char| c.is_lowercase());
            let first = self.first_statement(at);
            let skipped = first.split_once(".Skip").is_some_and(|(who, call)| {
                who.chars().all(is_word) && ["(", "f(", "Now("].iter().any(|c| call.starts_with(c))
            });
            counts.then(|| Found { name: name.to_owned(), at, skipped })
        };
        self.lines().filter_map(one).collect()
    }

    /// Annotations, then a method or a class; Kotlin's `fun` too.
    fn java(&self) -> Vec<Found> {
        const TESTS: [&str; 5] = ["Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "TestTemplate"];
        let mut out: Vec<Found> = Vec::new();
        let mut off: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        while let Some(n) = self.code[at..].find('@') {
            at += n;
            let (mut test, mut skipped) = (false, false);
            while self.code[at..].starts_with('@') {
                let (path, begin) = word(&self.code[at..], 1);
                test |= TESTS.contains(&path);
                skipped |= matches!(path, "Disabled" | "Ignore" | "Ignored");
                at += begin + path.len();
                // `@org.junit.Test`
                if path.is_empty() || self.code[at..].starts_with('.') {
                    at += usize::from(self.code[at..].starts_with('.'));
                    let last =
                        self.code[at..].find(|c: char| !is_word(c) && c != '.').map_or(self.code.len(), |n| at + n);
                    let name = self.code[at..last].rsplit('.').next().unwrap_or_default();
                    test |= TESTS.contains(&name);
                    skipped |= matches!(name, "Disabled" | "Ignore" | "Ignored");
                    at = last;
                }
                if self.code[at..].starts_with('(') {
                    at = self.past(at);
                }
                at = self.next(at);
            }
            let Some(head) = self.near(at).find(['{', ';', '=']).map(|n| at + n) else { continue };
            let declared = &self.code[at..head];
            if words(declared).any(|(_, w)| w == "class") {
                if skipped {
                    off.push((at, self.past(head)));
                }
                continue;
            }
            if !test {
                continue;
            }
            let text = &self.text[at..head];
            let ticked = declared.find("fun `").and_then(|n| text[n + 5..].split('`').next());
            let plain = declared.split('(').next().and_then(|d| d.split_whitespace().next_back()).unwrap_or_default();
            let name = ticked.unwrap_or(plain).to_owned();
            let at = at + text.find(&name).unwrap_or(0);
            out.push(Found { name, at, skipped });
        }
        out.iter_mut().for_each(|f| f.skipped |= off.iter().any(|(a, b)| (*a..*b).contains(&f.at)));
        out
    }

    /// `it '…' do`, `test '…' do` and `def test_…`.
    fn ruby(&self) -> Vec<Found> {
        let mut out = Vec::new();
        let mut groups: Vec<usize> = Vec::new();
        for (at, line) in self.lines().filter(|(_, l)| !l.trim().is_empty()) {
            let (depth, l) = (indent(line), line.trim());
            groups.retain(|d| *d < depth || l == "end" && *d == depth);
            let (head, _) = word(l, 0);
            let off = matches!(head, "xit" | "xspecify" | "xexample" | "pending" | "skip");
            match head {
                "xdescribe" | "xcontext" => groups.push(depth),
                "def" => {
                    let (name, _) = word(l, 4.min(l.len()));
                    if name.starts_with("test_") {
                        let skipped = word(self.first_statement(at), 0).0 == "skip" || !groups.is_empty();
                        out.push(Found { name: name.to_owned(), at, skipped });
                    }
                }
                "it" | "specify" | "example" | "test" | "xit" | "xspecify" | "xexample" | "pending" | "skip" => {
                    let begin = at + (line.len() - line.trim_start().len()) + head.len();
                    let rest = &self.code[begin..at + line.len()];
                    let Some(open) =
                        rest.find(['"', '\'']).filter(|n| rest[..*n].chars().all(|c| c == ' ' || c == '('))
                    else {
                        continue;
                    };
                    let quote = &rest[open..=open];
                    let Some(close) = rest[open + 1..].find(quote) else { continue };
                    // `skip 'why'` is a statement, with a block it is an example.
                    if matches!(head, "pending" | "skip") && !rest.ends_with(" do") {
                        continue;
                    }
                    let tail = &rest[open + 1 + close..];
                    let meta = tail.contains("skip: ") || tail.contains(":skip");
                    let first = word(self.first_statement(at), 0).0 == "skip";
                    let name = self.text[begin + open + 1..begin + open + 1 + close].to_owned();
                    out.push(Found { name, at, skipped: off || meta || first || !groups.is_empty() });
                }
                _ => {}
            }
        }
        out
    }

    /// `function testX(`, one with `@test` or `#[Test]` above it, and `it('…', …)`.
    fn php(&self) -> Vec<Found> {
        let lines: Vec<&str> = self.text.split_inclusive('\n').collect();
        let mut out = Vec::new();
        for (n, (at, line)) in self.lines().enumerate() {
            let Some(f) = line.find("function ") else { continue };
            let (name, _) = word(line, f + 9);
            let above = lines[..n].iter().rev().take(60).map(|l| l.trim());
            let mut above = above.take_while(|l| l.starts_with(['*', '#']) || l.starts_with("/*"));
            let marked = above
                .any(|l| l.starts_with("#[Test") || l.split_whitespace().any(|w| w == "@test") && !l.starts_with('#'));
            if !name.is_empty() && (name.starts_with("test") || marked) {
                let first = self.first_statement(at);
                let skipped = ["$this->markTestSkipped(", "self::markTestSkipped(", "$this->markTestIncomplete("]
                    .iter()
                    .any(|s| first.starts_with(s));
                out.push(Found { name: name.to_owned(), at, skipped });
            }
        }
        for mut f in self.calls() {
            let end = self.near(f.at).find('(').map_or(f.at, |n| self.past(f.at + n));
            f.skipped |= self.code[end..].trim_start().starts_with("->skip(");
            // A method of that name is called on something.
            if !self.code[..f.at].ends_with("->") && !self.code[..f.at].ends_with("::") {
                out.push(f);
            }
        }
        out.sort_by_key(|f| f.at);
        out
    }

    /// The macros of GoogleTest, Catch2, doctest and Boost.
    fn c(&self) -> Vec<Found> {
        const TESTS: [&str; 9] = [
            "TEST",
            "TEST_F",
            "TEST_P",
            "TYPED_TEST",
            "TYPED_TEST_P",
            "TEST_CASE",
            "TEST_CASE_METHOD",
            "SCENARIO",
            "BOOST_AUTO_TEST_CASE",
        ];
        let one = |(at, line): (usize, &str)| {
            let l = line.trim_start();
            let (head, _) = word(l, 0);
            let open = at + (line.len() - l.len()) + head.len();
            if !TESTS.contains(&head) || !self.code[open..].starts_with('(') {
                return None;
            }
            let end = self.past(open);
            let inner = self.text[open + 1..end].strip_suffix(')').filter(|i| i.len() < NEAR).unwrap_or_default();
            let (name, tags) = match inner.split_once('"') {
                Some((_, rest)) => rest.split_once('"').unwrap_or((rest, "")),
                None => (inner, ""),
            };
            let parts: Vec<&str> = name.split(',').map(str::trim).collect();
            let name = if inner.contains('"') { name.to_owned() } else { parts.join(".") };
            let hidden = ["[.", "[!hide]", "skip()", "disabled()"].iter().any(|t| tags.contains(t));
            let says = self.first_statement(at);
            let says = says.starts_with("GTEST_SKIP(") || says.starts_with("SKIP(");
            Some(Found { skipped: hidden || says || parts.iter().any(|p| p.starts_with("DISABLED_")), name, at })
        };
        self.lines().filter_map(one).collect()
    }
}

/// What a call of `it`, `test` or `describe` says.
struct CallTo {
    name: String,
    suite: bool,
    skipped: bool,
    only: bool,
    end: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word of `text` that begins at `at` (blanks before it left out), and where it begins.
fn word(text: &str, at: usize) -> (&str, usize) {
    let rest = text.get(at..).unwrap_or_default();
    let begin = at + (rest.len() - rest.trim_start().len());
    let rest = text.get(begin..).unwrap_or_default();
    (&rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())], begin)
}

/// All words of `text` with where they begin.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split(|c| !is_word(c)).filter_map(move |w| {
        let begin = w.as_ptr() as usize - text.as_ptr() as usize;
        at = begin.max(at);
        (!w.is_empty()).then_some((begin, w))
    })
}

fn indent(line: &str) -> usize {
    let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
    line[..blank].chars().map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// Where the brackets of `code` are closed. All kinds are one: what does not fit is not code that runs.
fn brackets(code: &str) -> HashMap<usize, usize> {
    let (mut open, mut out) = (Vec::new(), HashMap::new());
    for (i, b) in code.bytes().enumerate() {
        match b {
            b'(' | b'[' | b'{' => open.push(i),
            b')' | b']' | b'}' => drop(open.pop().map(|o| out.insert(o, i))),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The names; skipped ones in brackets.
    fn shown(path: &str, text: &str) -> String {
        let language = Language::of(path).unwrap();
        let one = |c: Case| if c.skipped { format!("({})", c.name) } else { c.name };
        cases(language, text).into_iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_language_has_its_own_marks() {
        for (path, text, names) in [
            (
                "a.rs",
                "#[test]\nfn a() {}\n#[tokio::test(flavor = \"x\")]\n#[ignore = \"why\"]\npub async fn b() {}\n\
                 #[cfg(test)]\nmod t { #[test] #[ignore] fn c() {} }\n// #[test] fn d() {}\nconst T: &str = \"#[test]\\nfn e() {}\";\n\
                 #[derive(Debug)]\nstruct S;\n#[rstest]\n#[case(1)]\nfn f(#[case] x: u8) {}\n#[test]\n",
                "a (b) (c) f",
            ),
            (
                "test_a.py",
                "import pytest\n\ndef helper(): pass\ndef test_a():\n    assert 1\n@pytest.mark.skip(reason='x')\ndef test_b():\n    pass\n\
                 @pytest.mark.skipif(WIN, reason='x')\ndef test_c():\n    '''def test_no(): x'''\n\n@unittest.skip('x')\nclass TestD:\n    \
                 async def test_d(self):\n        pass\n\nclass TestE:\n    def test_e(self):\n        self.skipTest('x')\n    # def test_f\n",
                "test_a (test_b) test_c (test_d) (test_e)",
            ),
            ("test_b.py", "pytestmark = pytest.mark.skip\ndef test_a():\n    pass\n", "(test_a)"),
            (
                "a.test.ts",
                "describe('x', () => {\n  it('one', () => {})\n  it.skip(\"two\", f)\n  test.each([[1], [2]])('three %s', f)\n  xit('four', f)\n  \
                 test.each`\n a | b\n`('five', f)\n  it.todo('six')\n  // it('no')\n  expect(it.test('no'))\n})\n\
                 describe.skip('y', () => { it('seven', () => { x(')') }) })\ntest(`eight ${1}`, f)\ntest.beforeEach('no', f)\nlist.it('no')\n",
                "one (two) three %s (four) five (six) (seven) eight ${1}",
            ),
            ("b.spec.js", "it('a', f)\nit.only('b', f)\ndescribe('c', () => { it('d', f) })\n", "(a) b (d)"),
            ("c.spec.js", "describe.only('c', () => { it('d', f) })\nit('e', f)\n", "d (e)"),
            (
                "a_test.go",
                "func TestA(t *testing.T) {\n\tt.Run(\"x\", f)\n}\nfunc TestB(t *testing.T) {\n\tt.Skip(\"x\")\n}\nfunc TestMain(m *testing.M) {}\n\
                 func Testify(t *testing.T) {}\nfunc TestC(t *testing.T) { t.SkipNow() }\nfunc TestD(t *testing.T) {\n\tif x {\n\t\tt.Skip()\n\t}\n}\n\
                 func FuzzE(f *testing.F) {}\n/* func TestF(t) */\n",
                "TestA (TestB) (TestC) TestD FuzzE",
            ),
            (
                "ATest.java",
                "class ATest {\n  @Test\n  void a() {}\n  @Test @Disabled(\"x\")\n  public void b() throws X {}\n  @ParameterizedTest(name = \"@Test\")\n  \
                 @ValueSource(ints = {1})\n  void c(int x) {}\n  @Override\n  public void d() {}\n  @org.junit.Test\n  public void e() {}\n}\n\
                 @Disabled\nclass BTest { @Test void f() {} }\n",
                "a (b) c e (f)",
            ),
            (
                "ATest.kt",
                "class ATest {\n  @Test\n  fun `adds two`() {}\n  @Ignore @Test fun b() = x()\n}\n",
                "adds two (b)",
            ),
            (
                "a_spec.rb",
                "describe 'x' do\n  it 'one' do\n  end\n  xit(\"two\") do\n  end\n  it 'three', skip: true do\n  end\n  it 'four' do\n    skip 'x'\n  end\n\
                 end\nxdescribe 'y' do\n  it 'five' do\n  end\nend\n# it 'no' do\nit 'six' do\nend\n",
                "one (two) (three) (four) (five) six",
            ),
            (
                "test_a.rb",
                "class A\n  def test_a\n    assert x\n  end\n  def test_b\n    skip\n  end\n  def helper; end\nend\n",
                "test_a (test_b)",
            ),
            (
                "tests/ATest.php",
                "<?php\nclass ATest {\n  public function testA(): void\n  {\n    $x = 1;\n  }\n  public function testB() {\n    $this->markTestSkipped('x');\n  }\n  \
                 /**\n   * @test\n   */\n  public function it_works() {}\n  #[Test]\n  public function another() {}\n  private function helper() {}\n}\n",
                "testA (testB) it_works another",
            ),
            (
                "tests/B.php",
                "<?php\nit('adds', function () {});\ntest('more', fn () => 1)->skip();\n$this->it('no');\n",
                "adds (more)",
            ),
            (
                "a.cc",
                "#define TEST(a, b) x\nTEST(Suite, Works) {\n}\nTEST_F(Suite, DISABLED_Off) {}\nTEST(Suite, Skips) {\n  GTEST_SKIP() << 1;\n}\n\
                 TEST_CASE(\"adds, well\", \"[math]\") {}\nTEST_CASE(\"hidden\", \"[.slow]\") {}\n  // TEST(No, No)\n",
                "Suite.Works (Suite.DISABLED_Off) (Suite.Skips) adds, well (hidden)",
            ),
        ] {
            assert_eq!(shown(path, text), names, "{path}");
        }
    }

    #[test]
    fn a_body_is_told_from_others_only_where_there_is_something_of_it() {
        let body = |text: &str| cases(Language::Go, text)[0].body;
        assert_eq!(body("func TestA(t *testing.T) {\n}\n"), None);
        let long = "func TestA(t *testing.T) {\n\tassert(t, value(1), 17)\n}\n";
        assert!(body(long).is_some());
        assert_eq!(body(long), body(&long.replace("TestA", "TestB").replace('\t', "        ")));
        assert_ne!(body(long), body(&long.replace("17", "18")));
        let line = "func TestA(t *testing.T) { assert(t, value(1), 17) }\n";
        assert!(body(line).is_some() && body(line) != body(&line.replace("17", "18")));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(#\\[test\\]|fn |it\\(|'|\"|`|\\.each|@Test|class |def test|TEST\\(|é|\\{|\\}|\\)|\\[| |\n|function |@|xdescribe)*") {
            for path in ["a.rs", "test_a.py", "a.test.js", "a_test.go", "a.java", "a_spec.rb", "aTest.php", "a.c"] {
                let _ = cases(Language::of(path).unwrap(), &text);
            }
        }
    }
}
