//! What all forms of a report say in the same words.

use crate::cli::ui::Label;
use crate::model::overlap::Level;
use crate::model::text::{one_line, safe_line};
use crate::model::units::{count, format_duration};
use crate::ops::answer::JsonPath;
use crate::ops::merged::Merged;
use crate::ops::report::{AgentReport, Report, TestsCount, TestsReport, Verdict};

/// The first line.
pub(super) fn head(r: &Report) -> String {
    let ready = r.agents.iter().filter(|a| a.verdict == Verdict::Ready).count();
    let of = format!("{ready} of {} ready", count(r.agents.len(), "agent"));
    r.batch.map_or_else(|| of.clone(), |b| format!("batch {b}: {of}"))
}

/// What a verdict is to the eye.
pub(super) fn label(v: Verdict) -> Label {
    match v {
        Verdict::Ready => Label::Good,
        Verdict::Look | Verdict::Nothing | Verdict::Skipped => Label::Warn,
        Verdict::Failed => Label::Bad,
    }
}

/// Lines added and removed.
pub(super) fn lines(a: &AgentReport) -> (usize, usize) {
    (a.files.iter().filter_map(|f| f.added).sum(), a.files.iter().filter_map(|f| f.removed).sum())
}

/// Commits, files, time and cost.
pub(super) fn facts(a: &AgentReport) -> Vec<String> {
    let (added, removed) = lines(a);
    let mut out =
        vec![count(a.commits.len(), "commit"), format!("{} +{added} -{removed}", count(a.files.len(), "file"))];
    out.extend(a.duration_s.map(format_duration));
    out.extend((a.attempts > 1).then(|| count(a.attempts as usize, "attempt")));
    out.extend(a.cost_usd.map(|c| format!("{c:.2} USD")));
    out.extend(a.tokens.map(tokens));
    out
}

/// `950 tokens`, `1.2k tokens`, `3.4M tokens`.
pub(super) fn tokens(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} tokens"),
        1_000..1_000_000 => format!("{:.1}k tokens", n as f64 / 1e3),
        _ => format!("{:.1}M tokens", n as f64 / 1e6),
    }
}

/// What became of test cases; `None` where nothing did.
pub(super) fn cases(a: &AgentReport) -> Option<String> {
    let cases = |t: &Option<TestsCount>| t.as_ref().map_or(0, |t| t.cases);
    let (removed, skipped) = (cases(&a.tests_removed), cases(&a.tests_skipped));
    let mut changed = Vec::new();
    if let Some(t) = a.tests_added.as_ref().filter(|t| t.cases > 0) {
        let languages: Vec<String> = t.by_language.iter().map(|(l, n)| format!("{l} {n}")).collect();
        changed.push(format!("+{} ({})", t.cases, languages.join(", ")));
    }
    changed.extend((removed > 0).then(|| format!("-{removed}")));
    let mut out: Vec<String> = (!changed.is_empty()).then(|| changed.join(" ")).into_iter().collect();
    out.extend((skipped > 0).then(|| format!("{skipped} switched off")));
    (!out.is_empty()).then(|| out.join(", "))
}

/// What the test command says.
pub(super) fn verdict(t: &TestsReport) -> (Label, String) {
    let command = format!("'{}'", one_line(&t.command, 80));
    let also = |mut parts: Vec<String>| {
        parts.extend((!t.fixed.is_empty()).then(|| format!("{} fixed", t.fixed.len())));
        parts.extend((!t.still_failing.is_empty()).then(|| format!("{} failed before too", t.still_failing.len())));
        parts.extend((!t.flaky.is_empty()).then(|| format!("{} flaky", t.flaky.len())));
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        // How it is known matters where something is wrong.
        let method = match (t.now, t.method) {
            ("pass", _) => "",
            (_, "names") => " (by test names)",
            _ => " (by exit code)",
        };
        format!("{parts}{method}")
    };
    let newly = (!t.newly_failing.is_empty()).then(|| format!("{} newly failing", t.newly_failing.len()));
    match (t.now, t.baseline) {
        ("pass", "fail") => (Label::Good, format!("passes {command}, which fails on its base{}", also(Vec::new()))),
        ("pass", _) => (Label::Good, format!("passes {command}{}", also(Vec::new()))),
        ("fail", "fail") => {
            let label = if newly.is_some() { Label::Bad } else { Label::Warn };
            (label, format!("fails {command}, as its base does{}", also(newly.into_iter().collect())))
        }
        ("fail", _) => (Label::Bad, format!("fails {command}{}", also(newly.into_iter().collect()))),
        ("flaky", _) => (Label::Warn, format!("{command} fails, and passes when asked again{}", also(Vec::new()))),
        _ => (Label::Warn, format!("whether it passes {command} is unknown")),
    }
}

/// Two that meet.
pub(super) struct Meeting {
    /// `None`: it could not be told.
    pub(super) level: Option<Level>,
    pub(super) a: String,
    pub(super) b: String,
    /// Where, or why nobody knows.
    pub(super) place: String,
}

/// Each pair once, worst first.
pub(super) fn meetings(r: &Report) -> Vec<Meeting> {
    let mut out = Vec::new();
    for (i, a) in r.agents.iter().enumerate() {
        for w in &a.conflicts.with_agents {
            if r.agents.iter().position(|b| b.name == w.agent).is_some_and(|o| o < i) {
                continue;
            }
            let place = match (&w.level, &w.unknown) {
                (Some(_), _) => paths(&w.paths),
                (None, why) => safe_line(why.as_deref().unwrap_or("not judged").as_bytes()),
            };
            out.push(Meeting { level: w.level, a: a.name.0.clone(), b: w.agent.0.clone(), place });
        }
    }
    out.sort_by(|x, y| (std::cmp::Reverse(x.level), &x.a, &x.b).cmp(&(std::cmp::Reverse(y.level), &y.a, &y.b)));
    out
}

/// The first three of them.
pub(super) fn paths(all: &[JsonPath]) -> String {
    let shown: Vec<String> = all.iter().take(3).map(JsonPath::shown).collect();
    let more = if all.len() > 3 { format!(" and {} more", all.len() - 3) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}

/// What the test command says of the merged result; `None` where nobody asked it.
pub(super) fn merged(m: &Merged) -> Option<(Label, String)> {
    let t = m.tests.as_ref()?;
    let command = format!("'{}'", one_line(&t.command, 80));
    let why = t.reason.as_deref().map(|r| format!(": {}", safe_line(r.as_bytes()))).unwrap_or_default();
    Some(match (t.passed, &t.breaks_after) {
        (Some(true), _) => (Label::Good, format!("merges clean, passes {command} ({})", format_duration(t.duration_s))),
        (Some(false), Some(name)) if t.base_passed == Some(false) => {
            (Label::Bad, format!("merges clean, breaks more of {command} after '{name}'; it fails on '{}' too", m.base))
        }
        (Some(false), None) if t.base_passed == Some(false) => {
            (Label::Bad, format!("{command} fails on '{}' alone already{why}", m.base))
        }
        (Some(false), Some(name)) => (Label::Bad, format!("merges clean, breaks {command} after '{name}'{why}")),
        (Some(false), None) => (Label::Bad, format!("merges clean, breaks {command}{why}")),
        (None, _) => (Label::Warn, format!("merges clean, whether it passes {command} is unknown{why}")),
    })
}

/// The names of what landed, or `nothing`.
pub(super) fn landed(m: &Merged) -> String {
    let names: Vec<&str> = m.landed.iter().map(|n| n.0.as_str()).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Those that work on the same task, group by group.
pub(super) fn rivals(r: &Report) -> Vec<Vec<&AgentReport>> {
    let mut out: Vec<Vec<&AgentReport>> = Vec::new();
    for a in r.agents.iter().filter(|a| a.group.is_some()) {
        match out.iter_mut().find(|g| g[0].group == a.group) {
            Some(group) => group.push(a),
            None => out.push(vec![a]),
        }
    }
    out.retain(|g| g.len() > 1);
    out
}

/// What rivals are compared by, one line each: what it is, and what each of them has.
pub(super) fn compared(group: &[&AgentReport]) -> Vec<(&'static str, Vec<String>)> {
    type Of = fn(&AgentReport) -> String;
    let rows: [(&'static str, Of); 9] = [
        ("assistant", |a| a.assistant.as_deref().map(|x| one_line(x, 40)).unwrap_or_default()),
        ("verdict", |a| a.verdict.word().to_owned()),
        ("changes", |a| {
            let (added, removed) = lines(a);
            format!("{} +{added} -{removed}", count(a.files.len(), "file"))
        }),
        ("tests", |a| {
            let now = a.tests.as_ref().map(|t| match t.newly_failing.len() {
                0 => t.now.to_owned(),
                n => format!("{}, {n} newly failing", t.now),
            });
            let now = now.or_else(|| a.earlier_tests.as_ref().map(|t| format!("{} at an earlier commit", t.now)));
            now.into_iter().chain(cases(a)).collect::<Vec<_>>().join("; ")
        }),
        ("flags", |a| a.flags.iter().map(|f| f.kind).collect::<Vec<_>>().join(", ")),
        ("time", |a| a.duration_s.map(format_duration).unwrap_or_default()),
        ("cost", |a| a.cost_usd.map(|c| format!("{c:.2} USD")).unwrap_or_default()),
        ("tokens", |a| a.tokens.map(tokens).unwrap_or_default()),
        ("attempts", |a| if a.attempts > 0 { a.attempts.to_string() } else { String::new() }),
    ];
    // One attempt each is what is expected.
    let rows = rows.into_iter().filter(|(what, _)| *what != "attempts" || group.iter().any(|a| a.attempts > 1));
    let rows = rows.map(|(what, of)| (what, group.iter().map(|a| of(a)).collect::<Vec<String>>()));
    rows.filter(|(_, cells)| cells.iter().any(|c| !c.is_empty())).collect()
}

/// The address of the running app, where it is one that may be opened.
pub(super) fn href(a: &AgentReport) -> Option<&str> {
    let href = a.url.as_ref()?.get("href")?.as_str()?;
    let safe = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#[]@!$&()*+,;=%".contains(c);
    let web = href.starts_with("http://") || href.starts_with("https://");
    (web && href.chars().all(safe)).then_some(href)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(baseline: &'static str, now: &'static str, newly: &[&str]) -> TestsReport {
        TestsReport {
            command: "make test".into(),
            baseline,
            now,
            newly_failing: newly.iter().map(|n| (*n).to_owned()).collect(),
            still_failing: Vec::new(),
            fixed: Vec::new(),
            flaky: Vec::new(),
            left_behind: Vec::new(),
            tree: None,
            method: "names",
            reason: None,
            log: None,
            duration_s: 3,
        }
    }

    #[test]
    fn what_the_test_command_says_is_said_beside_its_base() {
        for (t, label, words) in [
            (tests("pass", "pass", &[]), Label::Good, "passes 'make test'"),
            (tests("fail", "pass", &[]), Label::Good, "passes 'make test', which fails on its base"),
            (tests("pass", "fail", &["a", "b"]), Label::Bad, "fails 'make test': 2 newly failing"),
            (tests("fail", "fail", &[]), Label::Warn, "fails 'make test', as its base does"),
            (tests("fail", "fail", &["a"]), Label::Bad, "fails 'make test', as its base does: 1 newly failing"),
            (tests("pass", "flaky", &[]), Label::Warn, "'make test' fails, and passes when asked again"),
            (tests("unknown", "unknown", &[]), Label::Warn, "whether it passes 'make test' is unknown"),
        ] {
            let (got, said) = verdict(&t);
            assert!(got == label && said.trim_end_matches(" (by test names)") == words, "{said}");
        }
        let mut t = tests("fail", "pass", &[]);
        (t.fixed, t.still_failing) = (vec!["x".into()], vec!["y".into()]);
        assert_eq!(verdict(&t).1, "passes 'make test', which fails on its base: 1 fixed, 1 failed before too");
    }

    #[test]
    fn tokens_are_counted_for_people() {
        assert_eq!([950, 1_200, 3_400_000].map(tokens), ["950 tokens", "1.2k tokens", "3.4M tokens"]);
    }
}
