//! The report as one page: no script, no request to anybody, light and dark, on a screen and on a phone.
//!
//! Only what stands in this program is written as it is ([`Page::raw`] takes nothing else); all other text is cleaned and
//! escaped on its way in. The policy in its head forbids the rest should that ever fail.

use super::words;
use crate::cli::ui::Label;
use crate::model::overlap::Level;
use crate::model::text::{one_line, safe_text};
use crate::model::units::count;
use crate::ops::report::{AgentReport, FileAnswer, Report, TestsCount, Verdict};
use std::fmt::Write as _;

const STYLE: &str = include_str!("report.css");
/// Items that are shown at once; the rest folds away.
const OPEN: usize = 12;
/// And of anything at all.
const MOST: usize = 500;

struct Page(String);

impl Page {
    /// What this program says itself.
    fn raw(&mut self, html: &'static str) -> &mut Page {
        self.0.push_str(html);
        self
    }

    /// What anybody may have said.
    fn text(&mut self, text: &str) -> &mut Page {
        for c in safe_text(text.as_bytes()).chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                c => self.0.push(c),
            }
        }
        self
    }

    fn number(&mut self, n: usize) -> &mut Page {
        let _ = write!(self.0, "{n}");
        self
    }

    fn code(&mut self, text: &str) -> &mut Page {
        self.raw("<code>").text(text).raw("</code>")
    }

    fn pill(&mut self, class: &'static str, text: &str) -> &mut Page {
        self.raw("<span class=\"pill ").raw(class).raw("\">").text(text).raw("</span>")
    }

    fn command(&mut self, command: &str) -> &mut Page {
        self.raw("<pre><code>").text(command).raw("</code></pre>\n")
    }

    /// A list of which the end is folded away.
    fn list<T>(&mut self, all: &[T], one: impl Fn(&mut Page, &T)) {
        let all = &all[..all.len().min(MOST)];
        let (first, rest) = all.split_at(all.len().min(OPEN));
        let items = |p: &mut Page, of: &[T]| {
            p.raw("<ul>");
            for i in of {
                p.raw("<li>");
                one(p, i);
                p.raw("</li>\n");
            }
            p.raw("</ul>\n");
        };
        items(self, first);
        if !rest.is_empty() {
            self.raw("<details><summary>and ").number(rest.len()).raw(" more</summary>");
            items(self, rest);
            self.raw("</details>\n");
        }
    }
}

/// The page, as of `at`.
pub(super) fn render(r: &Report, at: &str) -> String {
    let mut p = Page(String::with_capacity(32 << 10));
    p.raw("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n")
        .raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n")
        .raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n")
        .raw("<meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"color-scheme\" content=\"light dark\">\n")
        .raw("<title>")
        .text(&words::head(r))
        .raw("</title>\n<style>\n")
        .raw(STYLE)
        .raw("</style>\n</head>\n<body>\n<header>\n<h1>");
    match r.batch {
        Some(b) => p.raw("Batch ").text(&b.to_string()),
        None => p.raw("Report"),
    };
    p.raw("</h1>\n<p class=\"dim\">").text(&totals(r)).raw("</p>\n<div class=\"counts\">");
    for v in [Verdict::Ready, Verdict::Look, Verdict::Failed, Verdict::Nothing, Verdict::Skipped] {
        let n = r.agents.iter().filter(|a| a.verdict == v).count();
        if n > 0 {
            p.pill(class(v), &format!("{n} {}", v.word()));
        }
    }
    p.raw("</div>\n</header>\n<main>\n");
    summary(&mut p, r);
    rivals(&mut p, r);
    meetings(&mut p, r);
    order(&mut p, r);
    merged(&mut p, r);
    p.raw("<h2>Agents</h2>\n");
    for (n, a) in r.agents.iter().enumerate() {
        card(&mut p, n, a);
    }
    p.raw("</main>\n<footer>As of ").text(at).raw(", by <code>git agents report</code>. Whether branches merge may change whenever their base moves.</footer>\n</body>\n</html>\n");
    p.0
}

fn class(v: Verdict) -> &'static str {
    match v {
        Verdict::Ready => "good",
        Verdict::Look => "warn",
        Verdict::Failed => "bad",
        Verdict::Nothing | Verdict::Skipped => "none",
    }
}

fn of_label(l: Label) -> &'static str {
    match l {
        Label::Good => "good",
        Label::Warn => "warn",
        Label::Bad => "bad",
        Label::Dim | Label::Strong => "none",
    }
}

fn totals(r: &Report) -> String {
    let mut out = vec![count(r.agents.len(), "agent")];
    out.extend(r.base.as_deref().map(|b| format!("base {b}")));
    let costs: Vec<f64> = r.agents.iter().filter_map(|a| a.cost_usd).collect();
    if !costs.is_empty() {
        let unknown = r.agents.iter().filter(|a| a.cost_usd.is_none() && a.attempts > 0).count();
        let but = if unknown > 0 { format!(" ({unknown} unknown)") } else { String::new() };
        out.push(format!("{:.2} USD{but}", costs.iter().sum::<f64>()));
    }
    let tokens: u64 = r.agents.iter().filter_map(|a| a.tokens).fold(0, u64::saturating_add);
    out.extend((tokens > 0).then(|| words::tokens(tokens)));
    out.join(" · ")
}

fn link(p: &mut Page, r: &Report, name: &str) {
    match r.agents.iter().position(|a| a.name.0 == name) {
        Some(n) => p.raw("<a href=\"#a").number(n + 1).raw("\"><bdi>").text(name).raw("</bdi></a>"),
        None => p.raw("<bdi>").text(name).raw("</bdi>"),
    };
}

fn summary(p: &mut Page, r: &Report) {
    p.raw("<section class=\"panel\">\n<ul class=\"list\">\n");
    // What can be landed first, then what wants an eye.
    let rank = |v: Verdict| [Verdict::Ready, Verdict::Look, Verdict::Failed].iter().position(|x| *x == v).unwrap_or(3);
    let mut all: Vec<&AgentReport> = r.agents.iter().collect();
    all.sort_by_key(|a| rank(a.verdict));
    for a in all {
        let (added, removed) = words::lines(a);
        p.raw("<li><span>").pill(class(a.verdict), a.verdict.word()).raw("</span><span>");
        link(p, r, &a.name.0);
        p.raw(" <bdi>").text(&one_line(&a.title, 120)).raw("</bdi></span><span class=\"num\">");
        if !a.files.is_empty() {
            p.raw("+").number(added).raw(" −").number(removed);
        }
        p.raw("</span>");
        let why: Vec<&str> = a.reasons.iter().chain(a.flags.iter().map(|f| &f.text)).map(String::as_str).collect();
        if let Some(first) = why.first() {
            let more = if why.len() > 1 { format!(" (and {} more)", why.len() - 1) } else { String::new() };
            p.raw("<span class=\"why\">").text(&one_line(first, 160)).text(&more).raw("</span>");
        }
        p.raw("</li>\n");
    }
    p.raw("</ul>\n</section>\n");
    if let Some(land) = &r.land {
        p.raw("<section class=\"panel commands\">\n<h3>Land all that is ready</h3>").command(land);
        if let Some(push) = &r.push {
            p.raw("<h3>Or publish it</h3>").command(push);
        }
        p.raw("</section>\n");
    }
}

fn rivals(p: &mut Page, r: &Report) {
    for group in words::rivals(r) {
        p.raw("<h2>Rivals <span class=\"title dim\"><bdi>").text(&one_line(&group[0].title, 120));
        p.raw("</bdi></span></h2>\n<div class=\"rivals\">\n");
        let rows = words::compared(&group);
        for (n, a) in group.iter().enumerate() {
            p.raw("<div class=\"panel\"><div>");
            link(p, r, &a.name.0);
            p.raw("</div>\n<dl>");
            for (what, cells) in &rows {
                p.raw("<dt>").raw(what).raw("</dt><dd>");
                match (*what, cells[n].as_str()) {
                    ("verdict", v) => p.pill(class(a.verdict), v),
                    (_, "") => p.raw("<span class=\"dim\">–</span>"),
                    (_, cell) => p.text(cell),
                };
                p.raw("</dd>\n");
            }
            p.raw("</dl></div>\n");
        }
        p.raw("</div>\n");
    }
}

fn meetings(p: &mut Page, r: &Report) {
    let all = words::meetings(r);
    if all.is_empty() {
        return;
    }
    p.raw("<h2>Meeting each other</h2>\n<section class=\"panel\">\n<ul class=\"list\">\n");
    for m in all.iter().take(MOST) {
        let (class, word) = match m.level {
            Some(Level::Conflict) => ("bad", Level::Conflict.word()),
            Some(Level::Symbol | Level::Near) => ("warn", m.level.map_or("", |l| l.word())),
            Some(l) => ("none", l.word()),
            None => ("warn", "unknown"),
        };
        p.raw("<li><span>").pill(class, word).raw("</span><span>");
        link(p, r, &m.a);
        p.raw(" and ");
        link(p, r, &m.b);
        p.raw("</span><span></span><span class=\"why\">").text(&m.place).raw("</span></li>\n");
    }
    p.raw("</ul>\n</section>\n");
}

fn order(p: &mut Page, r: &Report) {
    if r.order.len() < 2 {
        return;
    }
    p.raw("<h2>Land in this order</h2>\n<section class=\"panel\">\n<ol>\n");
    for o in &r.order {
        p.raw("<li>");
        link(p, r, &o.name.0);
        let notes = [(&o.conflicts_with_landed, " will stop on "), (&o.instead_of, " instead of ")];
        for (names, words) in notes.into_iter().filter(|(n, _)| !n.is_empty()) {
            p.raw("<span class=\"dim\">").raw(words);
            for (i, n) in names.iter().enumerate() {
                p.raw(if i > 0 { ", " } else { "" });
                link(p, r, &n.0);
            }
            p.raw("</span>");
        }
        if let Some(why) = &o.not_yet {
            p.raw("<span class=\"dim\"> not as it is: ").text(why).raw("</span>");
        }
        p.raw("</li>\n");
    }
    p.raw("</ol>\n</section>\n");
}

fn merged(p: &mut Page, r: &Report) {
    let Some(m) = &r.merged else { return };
    p.raw("<h2>Merged on ").code(&m.base).raw("</h2>\n<section class=\"panel\">\n");
    if let Some((label, said)) = words::merged(m) {
        p.raw("<p class=\"note ").raw(of_label(label)).raw("\">").text(&said).raw("</p>\n");
    }
    p.raw("<p>").text(&words::landed(m)).raw("</p>\n");
    if let Some(failing) = m.tests.as_ref().map(|t| &t.newly_failing).filter(|f| !f.is_empty()) {
        p.raw("<h3>Newly failing</h3>\n");
        p.list(failing, |p, n| {
            p.code(n);
        });
    }
    if !m.left_out.is_empty() {
        p.raw("<h3>Left out</h3>\n");
        p.list(&m.left_out, |p, l| {
            p.raw("<bdi>").text(&l.name.0).raw("</bdi>: ").text(&l.reason);
            if !l.paths.is_empty() {
                p.raw(" in ").code(&words::paths(&l.paths));
            }
        });
    }
    p.raw("</section>\n");
}

fn card(p: &mut Page, n: usize, a: &AgentReport) {
    p.raw("<article class=\"panel\" id=\"a").number(n + 1).raw("\">\n<h2>");
    if let Some(number) = a.number {
        p.raw("<span class=\"dim\">").text(&number.to_string()).raw(".</span> ");
    }
    p.raw("<bdi>").text(&a.name.0).raw("</bdi> ").pill(class(a.verdict), a.verdict.word());
    p.raw("</h2>\n<p><bdi>").text(&one_line(&a.title, 200)).raw("</bdi></p>\n<div class=\"facts\">");
    for fact in a.assistant.iter().map(|x| one_line(x, 40)).chain(words::facts(a)) {
        p.raw("<span>").text(&fact).raw("</span>");
    }
    p.raw("<span><code>").text(&a.branch).raw("</code> on <code>").text(&a.base).raw("</code></span></div>\n");
    for reason in &a.reasons {
        p.raw("<p class=\"note ").raw(if a.verdict == Verdict::Ready { "none" } else { class(a.verdict) });
        p.raw("\">").text(reason).raw("</p>\n");
    }
    for f in &a.flags {
        p.raw("<p class=\"note warn\"><b>").text(f.kind).raw("</b> ").text(&f.text).raw("</p>\n");
    }
    if let Some(t) = &a.earlier_tests {
        let said = format!("tests of an earlier commit: {}", words::verdict(t).1);
        p.raw("<p class=\"note warn\">").text(&said).raw("</p>\n");
    }
    if let Some(t) = &a.tests {
        let (label, said) = words::verdict(t);
        p.raw("<p class=\"note ").raw(of_label(label)).raw("\">").text(&said).raw("</p>\n");
        if let Some(reason) = t.reason.as_deref().filter(|_| t.now != "pass") {
            p.raw("<p class=\"dim\">").text(reason).raw("</p>\n");
        }
        for (what, names) in [
            ("Newly failing", &t.newly_failing),
            ("Still failing", &t.still_failing),
            ("Flaky", &t.flaky),
            ("Fixed", &t.fixed),
            ("Left by the tests", &t.left_behind),
        ] {
            if !names.is_empty() {
                p.raw("<h3>").raw(what).raw("</h3>\n");
                p.list(names, |p, n| {
                    p.code(n);
                });
            }
        }
    }
    if let Some(url) = words::href(a) {
        p.raw("<p><a rel=\"noopener noreferrer\" href=\"").text(url).raw("\">").text(url).raw("</a></p>\n");
    }
    if let Some(claim) = a.claim.as_deref().map(str::trim).filter(|c| !c.is_empty()) {
        p.raw("<h3>It says</h3>\n<blockquote dir=\"auto\">").text(claim).raw("</blockquote>\n");
    }
    files(p, &a.files);
    tests(p, a);
    if !a.left_over.is_empty() {
        p.raw("<h3>Not committed</h3>\n");
        p.list(&a.left_over, |p, f| {
            p.code(&f.shown());
        });
    }
    if !a.commits.is_empty() {
        p.raw("<details><summary>").text(&count(a.commits.len(), "commit")).raw("</summary>\n");
        p.list(&a.commits, |p, c| {
            p.code(c.id.short()).raw(" <bdi>").text(&c.subject).raw("</bdi>");
        });
        p.raw("</details>\n");
    }
    let take = a.commands.take.as_ref();
    let take = take.filter(|_| !a.commits.is_empty() && matches!(a.verdict, Verdict::Ready | Verdict::Look));
    p.raw("<div class=\"commands\">\n<h3>Look</h3>").command(&a.commands.look);
    if let Some(take) = take {
        p.raw("<h3>Take</h3>").command(take);
    }
    p.raw("<h3>Drop</h3>").command(&a.commands.drop).raw("</div>\n</article>\n");
}

/// What became of test cases, by name.
fn tests(p: &mut Page, a: &AgentReport) {
    let Some(said) = words::cases(a) else { return };
    p.raw("<details><summary>test cases: ").text(&said).raw("</summary>\n");
    for (what, found) in [("Added", &a.tests_added), ("Removed", &a.tests_removed), ("Switched off", &a.tests_skipped)]
    {
        if let Some(TestsCount { names, .. }) = found.as_ref().filter(|t| t.cases > 0) {
            p.raw("<h3>").raw(what).raw("</h3>\n");
            p.list(names, |p, n| {
                p.code(n);
            });
        }
    }
    p.raw("</details>\n");
}

/// Each file with a bar: its share of the largest change, green and red.
fn files(p: &mut Page, all: &[FileAnswer]) {
    if all.is_empty() {
        return;
    }
    let size = |f: &FileAnswer| f.added.unwrap_or(0) + f.removed.unwrap_or(0);
    let largest = all.iter().map(size).max().unwrap_or(0).max(1);
    let rows = |p: &mut Page, of: &[FileAnswer]| {
        p.raw("<div class=\"files\">\n");
        for f in of {
            p.code(&f.path.shown()).raw("<span class=\"num\">");
            match (f.added, f.removed) {
                (Some(x), Some(y)) => p.raw("+").number(x).raw(" −").number(y),
                _ => p.raw("binary"),
            };
            // The square root: one large file must not make the others vanish.
            let whole = ((size(f) as f64 / largest as f64).sqrt() * 100.0).ceil() as usize;
            let green = whole * f.added.unwrap_or(0) / size(f).max(1);
            p.raw("</span><svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
            p.raw("<rect class=\"add\" height=\"8\" width=\"").number(green);
            p.raw("\"/><rect class=\"del\" height=\"8\" x=\"").number(green).raw("\" width=\"").number(whole - green);
            p.raw("\"/></svg>\n");
        }
        p.raw("</div>\n");
    };
    p.raw("<h3>Files</h3>\n");
    let all = &all[..all.len().min(MOST)];
    let (first, rest) = all.split_at(all.len().min(OPEN));
    rows(p, first);
    if !rest.is_empty() {
        p.raw("<details><summary>and ").number(rest.len()).raw(" more</summary>");
        rows(p, rest);
        p.raw("</details>\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A colour's share of light, as WCAG has it.
    fn light(hex: &str) -> f64 {
        let part = |i: usize| f64::from(u8::from_str_radix(&hex[i..i + 2], 16).unwrap()) / 255.0;
        let line = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
        0.2126 * line(part(1)) + 0.7152 * line(part(3)) + 0.0722 * line(part(5))
    }

    #[test]
    fn every_text_can_be_read_in_both_themes() {
        let (light_part, dark_part) = STYLE.split_once("prefers-color-scheme: dark").unwrap();
        for theme in [light_part, dark_part] {
            let value = |name: &str| {
                let begin = theme.find(&format!("--{name}: ")).unwrap_or_else(|| panic!("--{name}")) + name.len() + 4;
                light(&theme[begin..begin + 7])
            };
            let ratio = |a: &str, b: &str| {
                let (a, b) = (value(a), value(b));
                (a.max(b) + 0.05) / (a.min(b) + 0.05)
            };
            for (text, ground) in [
                ("text", "page"),
                ("text", "card"),
                ("text", "code"),
                ("dim", "page"),
                ("dim", "card"),
                ("link", "page"),
                ("link", "card"),
                ("good", "good-bg"),
                ("warn", "warn-bg"),
                ("bad", "bad-bg"),
                ("none", "none-bg"),
            ] {
                assert!(ratio(text, ground) >= 4.5, "{text} on {ground}: {:.2}", ratio(text, ground));
            }
            for bar in ["add", "del"] {
                assert!(ratio(bar, "code") >= 3.0, "{bar}: {:.2}", ratio(bar, "code"));
            }
        }
    }

    #[test]
    fn what_others_say_is_text() {
        let mut p = Page(String::new());
        p.text("<script>\"&'</script>\u{202e}\u{1b}[31m").code("</code>");
        assert_eq!(p.0, "&lt;script&gt;&quot;&amp;&#39;&lt;/script&gt;<code>&lt;/code&gt;</code>");
    }
}
