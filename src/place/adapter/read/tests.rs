//! What the real programs printed, as a whole and in every broken way.

use super::*;
use proptest::prelude::*;

const CODEX: &str = include_str!("recorded/codex.jsonl");
const GEMINI: &str = include_str!("recorded/gemini.jsonl");

fn fixed() -> jiff::Zoned {
    "2026-11-30T17:38:14+00:00[UTC]".parse().unwrap()
}

fn read(format: Format, text: &str) -> Vec<Activity> {
    let mut reader = Reader { now: fixed, ..Reader::new(format) };
    let mut out: Vec<Activity> = text.lines().flat_map(|l| reader.line(l.as_bytes())).collect();
    out.extend(reader.end());
    out
}

/// Without what is neither progress nor an end.
fn telling(format: Format, text: &str) -> Vec<Activity> {
    read(format, text).into_iter().filter(|a| !matches!(a, Activity::Other { .. })).collect()
}

fn session(id: &str) -> Activity {
    Activity::Session { id: id.into() }
}

fn message(text: &str) -> Activity {
    Activity::Message { text: text.into() }
}

fn tool(name: &str, text: &str) -> Activity {
    Activity::Tool { name: name.into(), text: text.into() }
}

fn tokens(tokens: u64) -> Activity {
    Activity::Usage { cost_usd: None, tokens: Some(tokens) }
}

fn done() -> Activity {
    Activity::Finished { ok: true, text: None }
}

fn failed(text: &str) -> Activity {
    Activity::Finished { ok: false, text: Some(text.into()) }
}

fn limit(at: Option<&str>) -> Activity {
    Activity::RateLimit { resume_at: at.map(str::to_owned) }
}

#[test]
fn codex() {
    let command = r#"/bin/bash -lc "printf 'h\\n' > hello.txt && git add hello.txt && git commit -qm Hello""#;
    let expected = [
        session("01a22d85-ed46-7e00-b933-a5a0c413d4de"),
        tool("sh", command),
        message("all is done"),
        tokens(220),
        done(),
    ];
    assert_eq!(telling(Format::Codex, CODEX), expected);
}

#[test]
fn codex_in_trouble() {
    let seen = telling(Format::Codex, include_str!("recorded/codex-limit.jsonl"));
    assert_eq!(seen[1], limit(Some("2026-11-30T19:08:00Z")));
    assert!(
        matches!(&seen[2], Activity::Finished { ok: false, text: Some(t) } if t.contains("usage limit")),
        "{seen:?}"
    );

    let seen = telling(Format::Codex, include_str!("recorded/codex-refused.jsonl"));
    assert!(matches!(&seen[..], [_, Activity::Finished { ok: false, text: Some(t) }] if t.contains("401")), "{seen:?}");

    let seen = telling(Format::Codex, include_str!("recorded/codex-offline.jsonl"));
    assert!(matches!(&seen[..], [_, Activity::Retrying { .. }, Activity::Retrying { .. }]), "noise only: {seen:?}");

    // Neither came as far as a session.
    for text in [include_str!("recorded/codex-lost-session.jsonl"), include_str!("recorded/codex-bad-flag.jsonl")] {
        assert_eq!(telling(Format::Codex, text), []);
    }
    let declined =
        r#"{"type":"item.completed","item":{"type":"command_execution","command":"rm x","status":"declined"}}"#;
    assert_eq!(read(Format::Codex, declined), [Activity::Denied { what: "rm x".into() }]);
}

#[test]
fn gemini() {
    let command = r"printf 'h\n' > hello2.txt && git add hello2.txt && git commit -qm Hello2";
    let expected = [
        session("11111111-2222-4333-a444-555555555555"),
        tool("run_shell_command", command),
        message("all is done"),
        tokens(220),
        done(),
    ];
    assert_eq!(telling(Format::Gemini, GEMINI), expected);
}

#[test]
fn the_pieces_of_a_message_are_one() {
    let piece = |t: &str| format!(r#"{{"type":"message","role":"assistant","content":"{t}","delta":true}}"#);
    let text = [piece("Which "), piece("one?\\nNEEDS-"), "a warning".into(), piece("INPUT: a or b?")].join("\n");
    let expected = [message("Which one?\nNEEDS-INPUT: a or b?"), Activity::NeedsInput { question: "a or b?".into() }];
    let all = telling(Format::Gemini, &format!("{text}\n{}", GEMINI.lines().last().unwrap()));
    assert_eq!((&all[..2], all.len()), (&expected[..], 4), "asked, though the end came with it");
}

#[test]
fn gemini_in_trouble() {
    let seen = telling(Format::Gemini, include_str!("recorded/gemini-limit.jsonl"));
    assert_eq!(seen[2], limit(None));
    assert!(
        matches!(&seen[3], Activity::Finished { ok: false, text: Some(t) } if t.contains("daily quota")),
        "{seen:?}"
    );

    let seen = telling(Format::Gemini, include_str!("recorded/gemini-offline.jsonl"));
    assert!(seen[1..].iter().all(|a| matches!(a, Activity::Retrying { .. })) && seen.len() > 1, "{seen:?}");

    assert!(telling(Format::Gemini, include_str!("recorded/gemini-no-login.jsonl")).is_empty());
    let seen = telling(Format::Gemini, include_str!("recorded/gemini-denied.jsonl"));
    let denied: Vec<_> = seen.iter().filter(|a| matches!(a, Activity::Denied { .. })).collect();
    assert_eq!(denied.len(), 2, "outside the worktree, and a tool that was not offered: {seen:?}");
}

/// `text` with `noise` before, behind and between its events, on their lines and on lines of its own.
fn interleaved(text: &str, noise: &str) -> String {
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        out.push_str(&match i % 3 {
            0 => format!("{noise}{line}\n"),
            1 => format!("{line}{noise}\n{noise}\n"),
            _ => format!("{line}"),
        });
    }
    out
}

#[test]
fn noise_loses_no_event() {
    for (format, text) in [(Format::Codex, CODEX), (Format::Gemini, GEMINI)] {
        let events: String = text.lines().filter(|l| l.starts_with('{')).map(|l| format!("{l}\n")).collect();
        for noise in ["WARN x", "{not json", "{\"", "}", "\u{1b}[31m", "{\"type\":\"later\",\"a\":[1]}", "[{\"x\":1}]"]
        {
            assert_eq!(telling(format, &interleaved(&events, noise)), telling(format, &events), "{format:?} {noise}");
        }
    }
}

#[test]
fn an_end_that_was_cut_off_is_still_one() {
    for (format, text) in [(Format::Codex, CODEX), (Format::Gemini, GEMINI)] {
        let whole = text.trim_end();
        let last = whole.lines().last().unwrap();
        let needed = last.find("\"usage\"").or_else(|| last.find("\"stats\"")).unwrap();
        for cut in 1..=last.len() - needed {
            let seen = telling(format, &whole[..whole.len() - cut]);
            assert!(seen.contains(&done()), "{format:?} without the last {cut} bytes: {seen:?}");
        }
    }
    let cut = r#"{"type":"turn.failed","error":{"mess"#;
    let error = r#"{"type":"error","message":"unexpected status 401"}"#;
    assert_eq!(telling(Format::Codex, &format!("{error}\n{cut}")), [failed("unexpected status 401")]);
    assert_eq!(telling(Format::Codex, &format!("{error}\n{cut}age\":\"x\",")), [failed("x")]);
}

const FORMATS: [Format; 8] = [
    Format::Lines,
    Format::Scripted,
    Format::Codex,
    Format::Gemini,
    Format::Claude,
    Format::Opencode,
    Format::Copilot,
    Format::Goose,
];

proptest! {
    #[test]
    fn any_bytes_are_read_and_safe(lines in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..4)) {
        for format in FORMATS {
            let mut reader = Reader::new(format);
            let mut seen: Vec<Activity> = lines.iter().flat_map(|l| reader.line(l)).collect();
            seen.extend(reader.end());
            let json = serde_json::to_string(&seen).unwrap();
            prop_assert!(!json.contains("\\u00") && !json.contains('\u{7f}'), "{json}");
        }
    }

    #[test]
    fn cut_anywhere_nothing_before_is_lost(cut in 0usize..4000) {
        for (format, text) in [(Format::Codex, CODEX), (Format::Gemini, GEMINI)] {
            let mut cut = cut.min(text.len());
            while !text.is_char_boundary(cut) { cut -= 1; }
            let lines = text[..cut].matches('\n').count();
            let before: String = text.lines().take(lines).map(|l| format!("{l}\n")).collect();
            let (seen, before) = (telling(format, &text[..cut]), telling(format, &before));
            prop_assert!(seen.len() >= before.len() && seen[..before.len()] == before[..], "{seen:?} {before:?}");
        }
    }
}
