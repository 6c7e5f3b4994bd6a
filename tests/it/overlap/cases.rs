//! Three-way merges of 64 named classes, the same for the same seed: everything that git's merge distinguishes.

use crate::support::Repo;
use crate::support::env::run;
use std::collections::BTreeMap;

/// A small generator (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(words: &str) -> Random {
        Random(words.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    /// Yes in so many of a hundred.
    pub fn percent(&mut self, n: usize) -> bool {
        self.below(100) < n
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

#[derive(Clone, PartialEq)]
enum Content {
    Bytes(Vec<u8>),
    /// A submodule's commit.
    Commit(String),
}

type Tree = BTreeMap<String, (&'static str, Content)>;
type Lines = Vec<String>;

const FILE: &str = "100644";
const EXEC: &str = "100755";
const LINK: &str = "120000";
const SUB: &str = "160000";
/// Those of the place where landing happens.
pub const ATTRIBUTES: &str =
    "*.union merge=union\n*.bin -text -diff merge=binary\n*.nomerge -merge\n*.custom merge=concat\n*.auto text=auto\n";

const WORDS: &[&str] = &[
    "alpha", "beta", "cache", "branch", "commit", "merge", "path", "state", "lock", "queue", "event", "store", "parse",
    "render", "token", "buffer", "offset", "limit", "retry", "error", "config", "remote", "fetch", "status", "blob",
];

fn line(r: &mut Random) -> String {
    let (a, b, c, n) = (*r.pick(WORDS), *r.pick(WORDS), *r.pick(WORDS), r.below(10_000));
    match r.below(10) {
        0 => String::new(),
        1 => "    }".into(),
        2 => format!("    return {a};"),
        3 | 4 => format!("    let {a}_{b} = {c}({n});"),
        5 => format!("    if {a}.{b}({n}) != {c} {{"),
        6 => format!("    // {a} {b} {c} {n}"),
        _ => format!("    {a}.{b}(&{c}, {n});"),
    }
}

fn code(r: &mut Random, lines: usize) -> Lines {
    let mut out = vec![format!("// module {}_{}", r.pick(WORDS), r.below(1_000_000))];
    while out.len() < lines {
        out.push(format!("fn {}_{}() {{", r.pick(WORDS), r.below(1_000_000)));
        for _ in 0..r.range(3, 14) {
            out.push(line(r));
        }
        out.extend(["}".into(), String::new()]);
    }
    out.truncate(lines.max(2));
    out
}

fn text(lines: &[String]) -> Vec<u8> {
    text_with(lines, "\n", true)
}

fn text_with(lines: &[String], eol: &str, last: bool) -> Vec<u8> {
    let mut s = lines.join(eol);
    if last && !lines.is_empty() {
        s.push_str(eol);
    }
    s.into_bytes()
}

/// One hunk: lines replaced, inserted or deleted.
fn edit(r: &mut Random, lines: &[String]) -> Lines {
    let mut out = lines.to_vec();
    let (at, n) = (r.below(out.len().max(1)), r.range(1, 6));
    let new: Lines = (0..r.range(1, 6)).map(|_| format!("{} // e{}", line(r), r.below(1_000_000))).collect();
    let end = (at + n).min(out.len());
    match r.below(20) {
        0..12 => drop(out.splice(at..end, new)),
        12..17 => drop(out.splice(at..at, new)),
        _ => {
            out.drain(at..end);
            if out.is_empty() {
                out = new;
            }
        }
    }
    out
}

/// About so many of a hundred lines replaced.
fn mutate(r: &mut Random, lines: &[String], percent: usize) -> Lines {
    let one =
        |l: &String| if r.percent(percent) { format!("{} // m{}", line(r), r.below(1_000_000)) } else { l.clone() };
    lines.iter().map(one).collect()
}

fn replaced(lines: &[String], at: usize, new: &str) -> Lines {
    let mut out = lines.to_vec();
    let at = at.min(out.len() - 1);
    out[at] = new.into();
    out
}

fn bytes(r: &mut Random, n: usize) -> Vec<u8> {
    b"\0PNG".iter().copied().chain((0..n).map(|_| r.next().to_le_bytes()[0])).collect()
}

fn hash(r: &mut Random) -> Content {
    Content::Commit((0..40).map(|_| char::from(*r.pick(b"0123456789abcdef"))).collect())
}

/// The three trees.
#[derive(Default)]
struct Case {
    base: Tree,
    ours: Tree,
    theirs: Tree,
}

fn put(side: &mut Tree, path: &str, lines: &[String]) {
    side.insert(path.into(), (FILE, Content::Bytes(text(lines))));
}

fn raw(side: &mut Tree, path: &str, mode: &'static str, bytes: impl Into<Vec<u8>>) {
    side.insert(path.into(), (mode, Content::Bytes(bytes.into())));
}

fn lines_of(side: &Tree, path: &str) -> Lines {
    match &side[path].1 {
        Content::Bytes(b) => String::from_utf8_lossy(b).lines().map(str::to_owned).collect(),
        Content::Commit(_) => Vec::new(),
    }
}

fn move_dir(side: &mut Tree, from: &str, to: &str) {
    let from = format!("{from}/");
    for p in side.keys().filter(|p| p.starts_with(&from)).cloned().collect::<Vec<_>>() {
        let file = side.remove(&p).unwrap();
        side.insert(format!("{to}/{}", &p[from.len()..]), file);
    }
}

impl Case {
    fn new(r: &mut Random) -> Case {
        let mut c = Case::default();
        for i in 0..r.range(4, 9) {
            let lines = r.range(10, 40);
            put(&mut c.base, &format!("lib/keep_{i}.rs"), &code(r, lines));
        }
        put(&mut c.base, "README.md", &code(r, 13));
        c
    }

    fn file(&mut self, r: &mut Random, path: &str, lines: usize) -> Lines {
        let lines = code(r, lines);
        put(&mut self.base, path, &lines);
        lines
    }

    fn dir(&mut self, r: &mut Random, dir: &str, n: usize) -> Vec<String> {
        let paths: Vec<String> = (0..n).map(|i| format!("{dir}/f{i}.rs")).collect();
        paths.iter().for_each(|p| drop(self.file(r, p, 30)));
        paths
    }

    /// Both sides from the base, ours with something elsewhere.
    fn fork(&mut self, r: &mut Random) {
        (self.ours, self.theirs) = (self.base.clone(), self.base.clone());
        if r.percent(50) {
            let mut lines = lines_of(&self.base, "lib/keep_0.rs");
            lines.push("// elsewhere".into());
            put(&mut self.ours, "lib/keep_0.rs", &lines);
        }
    }

    fn perhaps_swap(&mut self, r: &mut Random) {
        if r.percent(50) {
            std::mem::swap(&mut self.ours, &mut self.theirs);
        }
    }
}

/// All classes but `criss-cross`, which is a history and no three trees.
pub const CLASSES: &[&str] = &[
    "add-add",
    "attr-binary",
    "attr-custom-driver",
    "attr-text-auto",
    "attr-union",
    "attr-unset-merge",
    "binary-add-add",
    "binary-both-modify",
    "binary-one-side",
    "binary-rename-modify",
    "content-far-hunks",
    "content-insert-same-place",
    "content-moved-blocks",
    "content-near-hunks",
    "content-random-edits",
    "content-repetitive-text",
    "content-same-line",
    "crlf-both",
    "crlf-one-side",
    "delete-delete",
    "df-dir-to-file",
    "df-file-vs-dir-add",
    "df-modify-vs-dir",
    "df-rename-into",
    "dir-delete-plus-add",
    "dir-rename-both-differently",
    "dir-rename-into-target",
    "dir-rename-nested",
    "dir-rename-partial",
    "dir-rename-plus-add",
    "dir-rename-plus-modify",
    "dir-rename-split",
    "dir-rename-transitive",
    "mixed-random",
    "mode-add-add",
    "mode-delete",
    "mode-exec-both",
    "mode-exec-one-side",
    "modify-delete",
    "no-final-newline",
    "rename-add",
    "rename-basename-same",
    "rename-chain",
    "rename-delete",
    "rename-empty-file",
    "rename-many-candidates",
    "rename-modify",
    "rename-near-threshold",
    "rename-rename-1to1",
    "rename-rename-1to2",
    "rename-rename-2to1",
    "rename-swap",
    "rename-tiny-file",
    "submodule-add-add",
    "submodule-both",
    "submodule-one-or-delete",
    "submodule-vs-file",
    "symlink-modify-both",
    "symlink-one-side",
    "symlink-type-change",
    "symlink-vs-file-add",
    "unicode-paths",
    "whitespace-only",
];

const A: &str = "src/a.rs";
const B: &str = "src/b.rs";

#[allow(clippy::too_many_lines, reason = "a table")]
fn case(class: &str, r: &mut Random) -> Case {
    let mut c = Case::new(r);
    let (family, rest) = class.split_once('-').unwrap_or((class, ""));
    match (family, rest) {
        ("content" | "no" | "whitespace" | "crlf" | "modify" | "delete" | "unicode" | "attr", _) => {
            text_case(class, r, &mut c)
        }
        ("rename", _) => rename_case(rest, r, &mut c),
        ("dir", _) => dir_case(rest, r, &mut c),
        ("mode" | "symlink" | "submodule" | "binary" | "df", _) => kind_case(class, r, &mut c),
        ("add", _) => {
            c.fork(r);
            let n = r.range(3, 50);
            let lines = code(r, n);
            put(&mut c.ours, "src/new.rs", &lines);
            let other = match r.below(10) {
                0 | 1 => lines,
                2..=6 => edit(r, &lines),
                _ => code(r, 20),
            };
            put(&mut c.theirs, "src/new.rs", &other);
        }
        ("mixed", _) => mixed(r, &mut c),
        _ => panic!("no class {class}"),
    }
    c
}

fn text_case(class: &str, r: &mut Random, c: &mut Case) {
    let attr = match class {
        "attr-union" => Some("union"),
        "attr-binary" => Some("bin"),
        "attr-unset-merge" => Some("nomerge"),
        "attr-custom-driver" => Some("custom"),
        "attr-text-auto" => Some("auto"),
        _ => None,
    };
    if let Some(ending) = attr {
        let path = format!("data/list.{ending}");
        let lines = c.file(r, &path, 30);
        raw(&mut c.base, ".gitattributes", FILE, ATTRIBUTES);
        c.fork(r);
        put(&mut c.ours, &path, &edit(r, &lines));
        put(&mut c.theirs, &path, &edit(r, &lines));
        return;
    }
    let path = if class == "unicode-paths" { "src/günther ☃.rs" } else { A };
    let n = r.range(60, 90);
    let lines = match class {
        "content-repetitive-text" => {
            let pool = ["", "}", "    }", "    return x;", "{", "    a();"];
            (0..n).map(|_| (*r.pick(&pool)).to_owned()).collect()
        }
        _ => code(r, n),
    };
    put(&mut c.base, path, &lines);
    match class {
        "no-final-newline" => raw(&mut c.base, A, FILE, text_with(&lines, "\n", r.percent(50))),
        "crlf-both" => raw(&mut c.base, A, FILE, text_with(&lines, "\r\n", true)),
        _ => {}
    }
    c.fork(r);
    let (mut ours, mut theirs) = (lines.clone(), lines.clone());
    let at = r.range(5, 40);
    match class {
        "content-far-hunks" => {
            ours = replaced(&lines, r.below(25), "ours");
            theirs = replaced(&lines, r.range(40, 59), "theirs");
        }
        "content-near-hunks" => {
            ours = replaced(&lines, at, "ours");
            theirs = replaced(&lines, at + r.range(1, 5), "theirs");
        }
        "content-same-line" => {
            ours = replaced(&lines, at, "change X");
            theirs = replaced(&lines, at, if r.percent(30) { "change X" } else { "change Y" });
        }
        "content-insert-same-place" => {
            let a: Lines = (0..r.range(1, 5)).map(|_| line(r)).collect();
            let mut b = a[..r.below(a.len() + 1)].to_vec();
            b.extend((0..r.below(5)).map(|_| line(r)));
            ours.splice(at..at, a);
            theirs.splice(at..at, b);
        }
        "content-random-edits" | "content-repetitive-text" => {
            for side in [&mut ours, &mut theirs] {
                for _ in 0..r.range(1, 5) {
                    *side = edit(r, side);
                }
            }
        }
        "content-moved-blocks" => {
            let block: Lines = ours.drain(at..at + r.range(4, 15)).collect();
            let to = r.below(ours.len());
            ours.splice(to..to, block);
            theirs = edit(r, &lines);
            theirs = edit(r, &theirs);
        }
        "whitespace-only" => {
            ours = lines.iter().map(|l| l.replacen("    ", "\t", 1)).collect();
            theirs = if r.percent(70) { edit(r, &lines) } else { lines.iter().map(|l| format!("{l} ")).collect() };
        }
        "crlf-one-side" => {
            if r.percent(80) {
                theirs = edit(r, &lines);
            }
        }
        "no-final-newline" => {
            if r.percent(60) {
                ours.push("ours last".into());
            }
            theirs = replaced(&lines, lines.len() - r.range(1, 3), "theirs");
        }
        _ => (ours, theirs) = (edit(r, &lines), edit(r, &lines)),
    }
    let (mut o_eol, mut t_eol, mut last) = ("\n", "\n", (true, true));
    match class {
        "crlf-one-side" => o_eol = "\r\n",
        "crlf-both" => (o_eol, t_eol) = ("\r\n", "\r\n"),
        "no-final-newline" => last = (r.percent(50), r.percent(50)),
        _ => {}
    }
    raw(&mut c.ours, path, FILE, text_with(&ours, o_eol, last.0));
    raw(&mut c.theirs, path, FILE, text_with(&theirs, t_eol, last.1));
    match class {
        "modify-delete" => {
            c.theirs.remove(path);
            c.perhaps_swap(r);
        }
        "delete-delete" => {
            c.ours.remove(path);
            c.theirs.remove(path);
        }
        _ => {}
    }
}

fn rename_case(class: &str, r: &mut Random, c: &mut Case) {
    let n = if class == "near-threshold" { r.range(15, 90) } else { 60 };
    let lines = match class {
        "tiny-file" => (0..r.range(1, 4)).map(|_| line(r) + "x").collect(),
        "empty-file" => Vec::new(),
        _ => code(r, n),
    };
    let from = if class == "basename-same" { "src/old/util.rs" } else { A };
    put(&mut c.base, from, &lines);
    let second = code(r, 50);
    if matches!(class, "rename-2to1" | "swap" | "chain") {
        put(&mut c.base, B, &second);
    }
    if class == "many-candidates" {
        for i in 0..4 {
            put(&mut c.base, &format!("src/c{i}.rs"), &mutate(r, &lines, 10));
        }
    }
    c.fork(r);
    let (o, t) = (&mut c.ours, &mut c.theirs);
    match class {
        "modify" | "near-threshold" | "basename-same" => {
            let share = match class {
                "modify" => *r.pick(&[0, 0, 5, 20]),
                "basename-same" => 10,
                _ => r.range(30, 65),
            };
            o.remove(from);
            let to = if class == "basename-same" { "src/new/util.rs" } else { B };
            put(o, to, &mutate(r, &lines, share));
            if class == "basename-same" {
                put(o, "src/new/other.rs", &mutate(r, &lines, 5));
            }
            put(t, from, &edit(r, &lines));
        }
        "tiny-file" => {
            o.remove(A);
            let mut moved = lines.clone();
            moved.extend(r.percent(50).then(|| "y".to_owned()));
            put(o, B, &moved);
            put(t, A, &replaced(&lines, 0, "changed first"));
        }
        "empty-file" => {
            o.remove(A);
            put(o, "pkg/a.rs", &[]);
            if r.percent(50) {
                put(t, A, &["x = 1".into()]);
            } else {
                t.remove(A);
                put(t, "other/a.rs", &[]);
            }
        }
        "many-candidates" => {
            for i in 0..4 {
                let old = lines_of(&c.base, &format!("src/c{i}.rs"));
                o.remove(&format!("src/c{i}.rs"));
                let letter = *r.pick(&["x", "y", "z"]);
                put(o, &format!("dst/{letter}{i}.rs"), &mutate(r, &old, 10));
                if i % 2 == r.below(2) {
                    put(t, &format!("src/c{i}.rs"), &edit(r, &old));
                }
            }
        }
        "rename-1to1" | "rename-1to2" => {
            for (side, to) in [(o, "x"), (t, "y")] {
                side.remove(A);
                let to = if class == "rename-1to1" { B.to_owned() } else { format!("src/{to}.rs") };
                put(side, &to, &if r.percent(65) { edit(r, &lines) } else { lines.clone() });
            }
        }
        "rename-2to1" => {
            o.remove(A);
            put(o, "src/z.rs", &lines);
            t.remove(B);
            put(t, "src/z.rs", &if r.percent(50) { second } else { edit(r, &second) });
        }
        "delete" => {
            o.remove(A);
            put(o, B, &if r.percent(50) { edit(r, &lines) } else { lines });
            t.remove(A);
            c.perhaps_swap(r);
        }
        "add" => {
            o.remove(A);
            put(o, B, &lines);
            put(t, B, &code(r, 20));
            if r.percent(50) {
                put(t, A, &edit(r, &lines));
            }
        }
        "swap" => {
            put(o, A, &second);
            put(o, B, &lines);
            put(t, A, &edit(r, &lines));
        }
        "chain" => {
            o.remove(A);
            put(o, B, &lines);
            put(o, "src/c.rs", &second);
            put(t, A, &edit(r, &lines));
            put(t, B, &edit(r, &second));
        }
        _ => panic!("no class rename-{class}"),
    }
    if class == "modify" {
        c.perhaps_swap(r);
    }
}

fn dir_case(class: &str, r: &mut Random, c: &mut Case) {
    let top = if class == "rename-nested" { "old/sub" } else { "old" };
    let files = c.dir(r, top, 5);
    match class {
        "rename-into-target" => drop(c.dir(r, "new", 3)),
        "rename-nested" => drop(c.dir(r, "old/other", 3)),
        _ => {}
    }
    let moved = c.file(r, "src/z.rs", 50);
    c.fork(r);
    let added = code(r, 20);
    let (o, t) = (&mut c.ours, &mut c.theirs);
    match class {
        "rename-plus-add" => {
            move_dir(o, "old", "new");
            put(t, "old/added.rs", &added);
            c.perhaps_swap(r);
        }
        "rename-plus-modify" => {
            move_dir(o, "old", "new");
            for p in [r.below(5), r.below(5)].map(|i| &files[i]) {
                put(t, p, &edit(r, &lines_of(&c.base, p)));
            }
        }
        "rename-both-differently" => {
            move_dir(o, "old", "new1");
            move_dir(t, "old", "new2");
        }
        "rename-split" | "rename-partial" => {
            let k = r.range(1, 4);
            for (i, p) in files.iter().enumerate() {
                let to = match (class, i < k) {
                    (_, true) => "x",
                    ("rename-split", false) => "y",
                    _ => continue,
                };
                let file = o.remove(p).unwrap();
                o.insert(p.replace("old", to), file);
            }
            put(t, "old/added.rs", &added);
        }
        "rename-into-target" => {
            for p in &files {
                let file = o.remove(p).unwrap();
                o.insert(p.replace("old/", "new/m_"), file);
            }
            put(t, "old/added.rs", &added);
        }
        "rename-transitive" => {
            move_dir(o, "old", "new");
            t.remove("src/z.rs");
            put(t, "old/z.rs", &moved);
        }
        "rename-nested" => {
            move_dir(o, "old", "new");
            put(t, "old/sub/added.rs", &added);
            if r.percent(50) {
                move_dir(t, "old/other", "old/renamed");
            }
        }
        "delete-plus-add" => {
            files.iter().for_each(|p| drop(o.remove(p)));
            put(t, "old/added.rs", &added);
        }
        _ => panic!("no class dir-{class}"),
    }
}

#[allow(clippy::too_many_lines, reason = "a table")]
fn kind_case(class: &str, r: &mut Random, c: &mut Case) {
    let n = r.range(30, 40);
    let place = match class {
        "df-modify-vs-dir" => "thing",
        "df-dir-to-file" => "thing/x.rs",
        _ => A,
    };
    let lines = c.file(r, place, n);
    let picture = bytes(r, 4000);
    match class {
        "symlink-modify-both" | "symlink-one-side" => raw(&mut c.base, "link", LINK, "a"),
        "submodule-both" | "submodule-one-or-delete" => drop(c.base.insert("sub".into(), (SUB, hash(r)))),
        "binary-both-modify" | "binary-one-side" | "binary-rename-modify" => {
            raw(&mut c.base, "img.png", FILE, picture.clone())
        }
        _ => {}
    }
    c.fork(r);
    let (o, t) = (&mut c.ours, &mut c.theirs);
    let mut swap = false;
    match class {
        "mode-exec-one-side" => {
            raw(o, A, EXEC, text(&lines));
            if r.percent(70) {
                put(t, A, &edit(r, &lines));
            }
        }
        "mode-exec-both" => {
            raw(o, A, EXEC, text(&edit(r, &lines)));
            let mode = if r.percent(50) { EXEC } else { FILE };
            raw(t, A, mode, text(&edit(r, &lines)));
        }
        "mode-delete" => {
            raw(o, A, EXEC, text(&lines));
            t.remove(A);
        }
        "mode-add-add" => {
            raw(o, "run.sh", EXEC, text(&lines));
            raw(t, "run.sh", FILE, text(&lines));
        }
        "symlink-modify-both" => {
            raw(o, "link", LINK, "b");
            raw(t, "link", LINK, *r.pick(&["b", "c"]));
        }
        "symlink-one-side" => {
            raw(o, "link", LINK, "b");
            if r.percent(50) {
                t.remove("link");
            }
        }
        "symlink-type-change" => {
            raw(o, A, LINK, "target");
            if r.percent(70) {
                put(t, A, &edit(r, &lines));
            }
        }
        "symlink-vs-file-add" => {
            raw(o, "x", LINK, "target");
            put(t, "x", &code(r, 10));
            swap = true;
        }
        "binary-both-modify" => {
            let new = bytes(r, 4000);
            let other = if r.percent(20) { new.clone() } else { bytes(r, 4000) };
            raw(o, "img.png", FILE, new);
            raw(t, "img.png", FILE, other);
        }
        "binary-one-side" => {
            raw(o, "img.png", FILE, bytes(r, 4000));
            if r.percent(50) {
                t.remove("img.png");
                raw(t, "moved.png", FILE, picture);
            }
        }
        "binary-add-add" => {
            raw(o, "new.png", FILE, bytes(r, 4000));
            raw(t, "new.png", FILE, bytes(r, 4000));
        }
        "binary-rename-modify" => {
            o.remove("img.png");
            raw(o, "pic.png", FILE, picture.clone());
            let mut changed = picture;
            changed.splice(3000..3500, bytes(r, 500));
            raw(t, "img.png", FILE, changed);
        }
        "submodule-both" | "submodule-add-add" => {
            let new = hash(r);
            let other = if class == "submodule-both" && r.percent(30) { new.clone() } else { hash(r) };
            o.insert("sub".into(), (SUB, new));
            t.insert("sub".into(), (SUB, other));
        }
        "submodule-one-or-delete" => {
            o.insert("sub".into(), (SUB, hash(r)));
            if r.percent(60) {
                t.remove("sub");
            }
        }
        "submodule-vs-file" => {
            o.insert("sub".into(), (SUB, hash(r)));
            put(t, if r.percent(50) { "sub" } else { "sub/x.rs" }, &code(r, 10));
        }
        "df-file-vs-dir-add" => {
            put(o, "thing", &code(r, 10));
            put(t, "thing/x.rs", &code(r, 10));
            swap = true;
        }
        "df-modify-vs-dir" => {
            put(o, "thing", &edit(r, &lines));
            t.remove("thing");
            put(t, "thing/x.rs", &code(r, 10));
        }
        "df-dir-to-file" => {
            o.remove("thing/x.rs");
            put(o, "thing", &code(r, 10));
            if r.percent(70) {
                put(t, "thing/x.rs", &edit(r, &lines));
            }
        }
        "df-rename-into" => {
            o.remove(A);
            put(o, "src/b", &lines);
            put(t, "src/b/c.rs", &code(r, 10));
            if r.percent(50) {
                put(t, A, &edit(r, &lines));
            }
        }
        _ => panic!("no class {class}"),
    }
    if swap {
        c.perhaps_swap(r);
    }
}

/// Edits, deletions, renames and whole directories moved, on both sides.
fn mixed(r: &mut Random, c: &mut Case) {
    c.dir(r, "m", 8);
    c.fork(r);
    for side in [&mut c.ours, &mut c.theirs] {
        for _ in 0..r.range(2, 5) {
            let paths: Vec<String> = side.keys().filter(|p| p.starts_with('m')).cloned().collect();
            if paths.is_empty() {
                break;
            }
            let path = r.pick(&paths).clone();
            let lines = lines_of(side, &path);
            match r.below(100) {
                0..40 => put(side, &path, &edit(r, &lines)),
                40..55 => drop(side.remove(&path)),
                55..80 => {
                    side.remove(&path);
                    let to = format!("m/r{}.rs", r.below(5));
                    put(side, &to, &if r.percent(50) { edit(r, &lines) } else { lines });
                }
                80..90 => {
                    let to = format!("m/new{}.rs", r.below(3));
                    put(side, &to, &code(r, 15));
                }
                _ => move_dir(side, "m", ["m2", "m3"][r.below(2)]),
            }
        }
    }
}

/// What `git fast-import` is told.
#[derive(Default)]
struct Stream {
    out: Vec<u8>,
    mark: usize,
}

impl Stream {
    fn commit(&mut self, name: &str, parents: &[usize], tree: &Tree) -> usize {
        let mut entries = String::new();
        for (path, (mode, content)) in tree {
            match content {
                Content::Commit(id) => entries += &format!("M {mode} {id} {path}\n"),
                Content::Bytes(bytes) => {
                    self.mark += 1;
                    self.out.extend(format!("blob\nmark :{}\ndata {}\n", self.mark, bytes.len()).bytes());
                    self.out.extend(bytes);
                    self.out.push(b'\n');
                    entries += &format!("M {mode} :{} {path}\n", self.mark);
                }
            }
        }
        self.mark += 1;
        let who = "committer A <a@localhost> 1700000000 +0000\ndata 1\nx\n";
        self.out.extend(format!("commit {name}\nmark :{}\n{who}", self.mark).bytes());
        for (i, p) in parents.iter().enumerate() {
            self.out.extend(format!("{} :{p}\n", if i == 0 { "from" } else { "merge" }).bytes());
        }
        self.out.extend(format!("deleteall\n{entries}\n").bytes());
        self.mark
    }
}

/// Makes `count` cases of every class, as `refs/cases/<class>/<n>/{ours,theirs}`, and the attributes on main.
pub fn make(repo: &Repo<'_>, seed: usize, count: usize) {
    let mut s = Stream::default();
    for i in 0..count {
        for class in CLASSES {
            let mut r = Random::new(&format!("{seed}/{class}/{i}"));
            let c = case(class, &mut r);
            let name = |side: &str| format!("refs/cases/{class}/{i}/{side}");
            let base = s.commit(&name("base"), &[], &c.base);
            s.commit(&name("ours"), &[base], &c.ours);
            s.commit(&name("theirs"), &[base], &c.theirs);
        }
        criss_cross(&mut s, &mut Random::new(&format!("{seed}/criss-cross/{i}")), i);
    }
    let mut import = repo.env.command("git", repo.path());
    import.args(["fast-import", "--quiet", "--force", "--date-format=raw"]);
    run(import, &s.out).ok();
    repo.write(".gitattributes", ATTRIBUTES);
    repo.commit("attributes");
    repo.git(&["pack-refs", "--all"]);
}

/// Two merges of the same two commits, resolved alike or not, both edited further.
fn criss_cross(s: &mut Stream, r: &mut Random, i: usize) {
    let mut c = Case::new(r);
    let lines = c.file(r, A, 80);
    c.file(r, B, 40);
    let clash = r.percent(50);
    let (mut x, mut y) = (c.base.clone(), c.base.clone());
    put(&mut x, A, &replaced(&lines, 10, "X"));
    put(&mut y, A, &replaced(&lines, if clash { 10 } else { 40 }, "Y"));
    if r.percent(30) {
        let file = y.remove(B).unwrap();
        y.insert("src/c.rs".into(), file);
    }
    let both = if clash { replaced(&lines, 10, "X") } else { replaced(&replaced(&lines, 10, "X"), 40, "Y") };
    let mut ours = y.clone();
    put(&mut ours, A, &both);
    let mut theirs = ours.clone();
    if clash && r.percent(70) {
        put(&mut theirs, A, &replaced(&lines, 10, "Y"));
    }
    for side in [&mut ours, &mut theirs] {
        if r.percent(70) {
            let edited = edit(r, &lines_of(side, A));
            put(side, A, &edited);
        }
    }
    let name = |side: &str| format!("refs/cases/criss-cross/{i}/{side}");
    let base = s.commit(&name("base"), &[], &c.base);
    let (cx, cy) = (s.commit(&name("x"), &[base], &x), s.commit(&name("y"), &[base], &y));
    s.commit(&name("ours"), &[cx, cy], &ours);
    s.commit(&name("theirs"), &[cy, cx], &theirs);
}
