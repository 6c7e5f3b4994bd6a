//! The report as text, Markdown, JSON and a page: what others chose stays text in all of them.

use crate::support::{Env, Repo};
use serde_json::Value;

/// What tries to be more than text in a page, in Markdown or in a terminal.
const HOSTILE: &str =
    "<script>pwned=1</script><img src=x onerror=pwned=1> \"'`*_[l](javascript:pwned) | @team &amp; \\e[31m";

/// A batch of everything that a report can say, said by somebody hostile.
fn hostile_batch(repo: &Repo<'_>) {
    let list = format!(
        "\
1. Title {HOSTILE} {{name=first}}
   RUN: mkdir -p 'a<i>'; echo x >'a<i>/q\"`|&.txt'; seq 1 200 >long.txt
   RUN: echo x >{long}.txt
   WRITE: a.test.js: it('</code><script>pwned=1</script>`|', () => {{}})\\nit.skip('<b>', () => {{}})
   WRITE: package-lock.json: x
   REPLACE: src/a.txt: line 5 => first
   COMMIT: Subject {HOSTILE}
   USAGE: 1.5 12000
   SAY: {HOSTILE}\\n# heading\\n- item\\n```\\n> quote
2. Second {{name=second}}
   REPLACE: src/a.txt: line 5 => second
   COMMIT: second
   WRITE: '<img src=x>.txt: left
   FAIL: <script>pwned=1</script>
3. Rivals <b> {{name=rival assistant=\"scripted*2\"}}
   WRITE: rival.txt: x
   COMMIT: rival
",
        long = "averylongnamewithoutanyplacetobreak".repeat(5)
    );
    repo.agents_input(&["run", "-q", "-a", "scripted", "--retries", "0"], list).code(1);
}

/// The tags of a page with their attributes.
fn tags(html: &str) -> Vec<(String, Vec<(String, String)>)> {
    let mut out = Vec::new();
    let (head, body) = html.split_once("<style>").unwrap();
    let text = head.to_owned() + body.split_once("</style>").unwrap().1;
    for part in text.split('<').skip(1) {
        let (tag, _) = part.split_once('>').unwrap_or_else(|| panic!("a tag that does not end: {part}"));
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = Vec::new();
        while let Some((key, more)) = rest.trim_start().split_once("=\"") {
            let (value, more) = more.split_once('"').unwrap();
            attributes.push((key.to_owned(), value.to_owned()));
            rest = more;
        }
        out.push((name.to_owned(), attributes));
    }
    out
}

#[test]
fn a_page_that_somebody_hostile_filled_runs_nothing_and_loads_nothing() {
    let env = Env::new();
    let repo = env.repo("x");
    hostile_batch(&repo);
    repo.agents(&["report", "-o", "../r.html"]).ok();
    let html = repo.read("../r.html");
    let known = "!doctype html head meta title style body header main footer section article div span p h1 h2 h3 a bdi b code pre \
                 ul ol li dl dt dd blockquote details summary svg rect";
    for (name, attributes) in tags(&html) {
        let name = name.trim_start_matches('/').trim_end_matches('/');
        assert!(known.split(' ').any(|k| k == name), "<{name}>");
        for (key, value) in attributes {
            let known = "lang charset http-equiv content name class id href rel dir viewBox preserveAspectRatio aria-hidden height width x";
            assert!(known.split(' ').any(|k| k == key), "<{name} {key}>");
            assert!(key != "href" || value.starts_with("#a"), "<{name} {key}={value}>");
        }
    }
    assert!(html.contains("content=\"default-src 'none'; style-src 'unsafe-inline';"));
    for words in ["&lt;script&gt;pwned=1&lt;/script&gt;", "Rivals", "Meeting each other", "tests-skipped", "1.50 USD"] {
        assert!(html.contains(words), "{words}");
    }
    assert!(!html.contains("url(") && !html.contains("@import") && !html.contains('\u{1b}'));
    fits_a_phone(&env, &html);
}

/// Shown in Chromium, 390 pixels wide: nothing scrolls sideways, nothing ran, nothing was asked for.
fn fits_a_phone(env: &Env, html: &str) {
    let inner = html.replace('&', "&amp;").replace('"', "&quot;");
    let page = format!(
        "<!doctype html><body><iframe id=f width=390 height=800 style='border:0' srcdoc=\"{inner}\"></iframe><script>\
         f.onload = () => {{ const w = f.contentWindow, d = w.document; document.body.id = 'w' + \
         (d.documentElement.scrollWidth - d.documentElement.clientWidth) + '-' + d.querySelectorAll('article').length + '-' + String(w.pwned) + '-' + \
         w.performance.getEntriesByType('resource').length }}</script>"
    );
    let file = env.root().join("phone.html");
    std::fs::write(&file, page).unwrap();
    let profile = env.root().join("profile");
    let mut command = env.command("chromium", env.root());
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=2000"]);
    command.arg(format!("--user-data-dir={}", profile.display())).arg("--dump-dom").arg(&file);
    match command.output() {
        Err(e) => {
            assert!(std::env::var_os("CI").is_none(), "chromium: {e}");
            eprintln!("not looked at: chromium: {e}");
        }
        Ok(out) => {
            let dom = String::from_utf8_lossy(&out.stdout).into_owned();
            let said = dom.split("<body id=\"").nth(1).and_then(|d| d.split('"').next()).unwrap_or("nothing");
            assert_eq!(said, "w0-4-undefined-0", "{}", String::from_utf8_lossy(&out.stderr));
        }
    }
}

/// A line without its spans of code: as many backticks as began one end it.
fn without_code(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find('`') {
        let run = rest[at..].len() - rest[at..].trim_start_matches('`').len();
        let fence = &rest[at..at + run];
        out.push_str(&rest[..at]);
        rest = &rest[at + run..];
        let ends = rest
            .match_indices('`')
            .map(|(i, _)| i)
            .find(|i| rest[*i..].starts_with(fence) && !rest[i + run..].starts_with('`') && !rest[..*i].ends_with('`'));
        match ends.filter(|_| !out.ends_with('\\')) {
            Some(end) => rest = &rest[end + run..],
            None => out.push_str(fence),
        }
    }
    out + rest
}

#[test]
fn markdown_stays_what_it_is_whatever_is_in_it() {
    let env = Env::new();
    let repo = env.repo("x");
    hostile_batch(&repo);
    let text = repo.agents(&["report", "--format", "markdown"]).ok().stdout;
    assert!(text.starts_with("# batch 1: "), "{text}");
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.starts_with("```");
        let line = line.strip_prefix("> ").unwrap_or(line);
        // Outside code nothing of theirs is a mark.
        let text = if fenced { String::new() } else { without_code(line) };
        for mark in ["<script", "<img", "<b>", "[l]", "@team", "*_", "`"] {
            let found = text.match_indices(mark).find(|(at, _)| !text[..*at].ends_with('\\'));
            assert!(found.is_none() || line.starts_with("```"), "{mark} in {line}");
        }
        // A row of the table has its cells.
        if line.starts_with("| 1 |") {
            let bars = line.match_indices('|').filter(|(at, _)| !line[..*at].ends_with('\\')).count();
            assert_eq!(bars, 6, "{line}");
        }
    }
    assert!(!fenced && text.contains("> \\# heading\n> \\- item\n> \\`\\`\\`\n> \\> quote\n"), "{text}");
    assert!(text.contains("| | `rival-1` | `rival-2` |"), "{text}");
}

#[test]
fn the_form_follows_the_name_of_the_file_unless_said() {
    let env = Env::new();
    let repo = env.repo("x");
    repo.agents(&["run", "-q", "-a", "scripted", "WRITE: a.txt: a"]).ok();
    for (args, begins) in [
        (&["-o", "../r.md"][..], "# batch 1: 1 of 1 agent ready"),
        (&["-o", "../r.html"], "<!doctype html>"),
        (&["-o", "../r.HTML"], "<!doctype html>"),
        (&["-o", "../r.json"], "{\n  \"version\": 1,"),
        (&["-o", "../r.txt"], "batch 1: 1 of 1 agent ready"),
        (&["-o", "../r"], "batch 1: 1 of 1 agent ready"),
        (&["-o", "../r.txt", "--format", "html"], "<!doctype html>"),
        (&["-o", "../r.html", "--json"], "{\n  \"version\": 1,"),
    ] {
        assert_eq!(repo.agents(&[&["report"], args].concat()).ok().stdout, "");
        assert!(repo.read(args[1]).starts_with(begins), "{args:?}: {}", repo.read(args[1]));
    }
    for (format, begins) in
        [("text", "batch 1"), ("markdown", "# batch 1"), ("md", "# batch 1"), ("json", "{\"version\":1")]
    {
        assert!(repo.agents(&["report", "--format", format]).ok().stdout.starts_with(begins), "{format}");
    }
    assert!(repo.agents(&["report", "--format", "pdf"]).code(129).stderr.contains("markdown"));
}

#[test]
fn rivals_stand_side_by_side() {
    let env = Env::new();
    let repo = env.repo("x");
    let list = "\
1. Search the archive {name=search assistant=\"scripted*2\"}
   RUN: case $AGENTS_NAME in search-1) seq 1 9 >s.txt;; *) seq 1 20 >s.txt; touch Cargo.lock;; esac
   COMMIT: search
   USAGE: 0.5 2000
2. Another {name=other}
   WRITE: o.txt: x
";
    repo.agents_input(&["run", "-q", "-a", "scripted"], list).ok();
    let text = repo.agents(&["report"]).ok().stdout;
    let at = text.find("rivals for: Search the archive\n").unwrap_or_else(|| panic!("{text}"));
    let rows: Vec<Vec<&str>> = text[at..]
        .lines()
        .skip(1)
        .take(5)
        .map(|l| l.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["search-1", "search-2"], "{text}");
    assert_eq!(rows[1], ["assistant", "scripted", "scripted"]);
    assert_eq!(rows[2], ["verdict", "ready", "look"]);
    assert_eq!(rows[3], ["changes", "1 file +9 -0", "2 files +20 -0"]);
    assert_eq!(rows[4], ["flags", "-", "lock-file"]);
    let shown: Value = repo.agents(&["report", "--json"]).ok().json();
    let group = |n: usize| shown["agents"][n]["group"].clone();
    assert!(group(0).is_string() && group(0) == group(1) && group(2).is_null(), "{shown:#}");
    // One alone has no rival.
    assert!(!repo.agents(&["report", "search-1", "other"]).ok().stdout.contains("rivals for"));
}
