//! What the real programs printed, as a whole and in every broken way.

use super::*;
use proptest::prelude::*;

const CODEX: &str = include_str!("recorded/codex.jsonl");
const CLAUDE: &str = include_str!("recorded/claude.jsonl");
const OPENCODE: &str = include_str!("recorded/opencode.jsonl");
/// What lost or cut lines are tried on.
const WHOLE: [(Format, &str); 4] =
    [(Format::Codex, CODEX), (Format::Gemini, GEMINI), (Format::Claude, CLAUDE), (Format::Opencode, OPENCODE)];
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
    assert_eq!(seen[1], limit(Some("2026-11-30T19:09:00Z")));
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

#[test]
fn figures_that_nobody_can_have_used_are_unknown_and_add_up_to_no_panic() {
    let seen = telling(
        Format::Claude,
        r#"{"type":"result","subtype":"success","is_error":false,"result":"r","total_cost_usd":1e308,"usage":{"input_tokens":99999999999999999999,"output_tokens":7}}"#,
    );
    assert_eq!(seen[0], tokens(7), "{seen:?}");
    let most = u64::MAX;
    let codex = format!(r#"{{"type":"turn.completed","usage":{{"input_tokens":{most},"output_tokens":{most}}}}}"#);
    assert_eq!(telling(Format::Codex, &codex)[0], tokens(0));
    let step = format!(r#"{{"type":"step_finish","part":{{"cost":1e308,"tokens":{{"input":{most},"output":3}}}}}}"#);
    assert_eq!(telling(Format::Opencode, &format!("{step}\n{step}")).last(), Some(&tokens(6)));
}

#[test]
fn claude_and_those_that_follow_it() {
    let command = r"printf 'hello\n' >hello && git add hello && git commit -qm Hello";
    let expected = [
        session("72f4c884-4cf7-4222-a4a1-5847b318b851"),
        tool("Bash", command),
        message("hello says hello"),
        Activity::Usage { cost_usd: Some(0.0015), tokens: Some(220) },
        Activity::Finished { ok: true, text: Some("hello says hello".into()) },
    ];
    assert_eq!(telling(Format::Claude, CLAUDE), expected);

    let seen = telling(Format::Claude, include_str!("recorded/claude-refused.jsonl"));
    let [Activity::Usage { .. }, Activity::Finished { ok: false, text: Some(words) }] = &seen[..] else {
        panic!("a subtype that says success: {seen:?}")
    };
    assert!(words.starts_with("There's an issue"), "{words}");

    let seen = telling(Format::Claude, include_str!("recorded/qwen.jsonl"));
    let expected =
        [message("all is done"), tokens(220), Activity::Finished { ok: true, text: Some("all is done".into()) }];
    assert_eq!(seen[2..], expected);
    // A second refusal is in the result only.
    let seen = telling(Format::Claude, include_str!("recorded/qwen-denied.jsonl"));
    let denied: Vec<_> = seen.iter().filter(|a| matches!(a, Activity::Denied { .. })).collect();
    assert!(
        matches!(denied[..], [Activity::Denied { what }] if what.contains("run_shell_command")),
        "told once: {seen:?}"
    );

    let lines = r#"
        {"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"error_status":429,"error":"rate_limit"}
        {"type":"result","subtype":"success","is_error":true,"result":"API Error: Request rejected (429) · try again later."}"#;
    let words = "API Error: Request rejected (429) · try again later.";
    let retrying = Activity::Retrying { text: "retrying after rate_limit".into() };
    assert_eq!(telling(Format::Claude, lines), [retrying, limit(None), failed(words)]);

    let lines = r#"
        {"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1796070000}}
        {"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1796070000}}
        {"type":"control_request","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"rm x"}}}
        {"type":"tool_call","subtype":"started","tool_call":{"shellToolCall":{"args":{"command":"ls"}}}}
        {"type":"result","subtype":"success","is_error":false,"result":"[API Error: Connection error.]"}
        {"type":"result","subtype":"error_max_turns","is_error":true}"#;
    let expected = [
        limit(Some("2026-11-30T20:20:00Z")),
        Activity::NeedsInput { question: "Bash: rm x".into() },
        tool("shell", "ls"),
        failed("[API Error: Connection error.]"),
        failed("error_max_turns"),
    ];
    assert_eq!(telling(Format::Claude, lines), expected);
}

#[test]
fn opencode() {
    let seen = telling(Format::Opencode, OPENCODE);
    assert!(
        matches!(&seen[..2], [Activity::Session { id }, Activity::Tool { name, .. }] if id.starts_with("ses_") && name == "bash")
    );
    assert_eq!(seen[2..3], [tokens(110)]);
    assert_eq!(seen[4..], [message("all is done"), tokens(220), done()], "steps add up");
    let seen = telling(Format::Opencode, include_str!("recorded/opencode-denied.jsonl"));
    assert!(matches!(&seen[1], Activity::Denied { what } if what.contains("rejected permission")), "{seen:?}");
    assert_eq!(seen[2], failed("Cannot connect to API: Unable to connect. Is the computer able to access the url?"));
}

#[test]
fn copilot() {
    let seen = telling(Format::Copilot, include_str!("recorded/copilot.jsonl"));
    assert!(
        matches!(&seen[0], Activity::Tool { name, text } if name == "bash" && text.contains("git commit")),
        "{seen:?}"
    );
    assert_eq!(seen[1..], [message("all is done"), session("41111111-2222-4333-a444-555555555555"), done()]);
    let seen = telling(Format::Copilot, include_str!("recorded/copilot-denied.jsonl"));
    assert!(matches!(&seen[1], Activity::Denied { what } if what.starts_with("Permission denied")), "{seen:?}");
}

#[test]
fn goose() {
    // Of its source, not recorded.
    let lines = r#"
        {"type":"message","message":{"id":"1","role":"assistant","content":[{"type":"text","text":"All is "}]}}
        {"type":"message","message":{"id":"1","role":"assistant","content":[{"type":"text","text":"done"}]}}
        {"type":"message","message":{"role":"assistant","content":[{"type":"toolRequest","id":"t","toolCall":{"status":"success","value":{"name":"developer__shell","arguments":{"command":"ls"}}}}]}}
        {"type":"notification","extension_id":"x"}
        {"type":"complete","total_tokens":7}"#;
    assert_eq!(
        telling(Format::Goose, lines),
        [message("All is done"), tool("developer__shell", "ls"), tokens(7), done()]
    );
    assert_eq!(
        telling(Format::Goose, r#"{"type":"error","error":"429 slow down"}"#),
        [limit(None), failed("429 slow down")]
    );
}

/// `text` with `noise` before, behind and between its events, on their lines and on lines of its own.
fn interleaved(text: &str, noise: &str) -> String {
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        out.push_str(&match i % 3 {
            0 => format!("{noise}{line}\n"),
            1 => format!("{line}{noise}\n{noise}\n"),
            _ => line.to_owned(),
        });
    }
    out
}

#[test]
fn noise_loses_no_event() {
    for (format, text) in WHOLE {
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
        for (format, text) in WHOLE {
            let mut cut = cut.min(text.len());
            while !text.is_char_boundary(cut) { cut -= 1; }
            let lines = text[..cut].matches('\n').count();
            let before: String = text.lines().take(lines).map(|l| format!("{l}\n")).collect();
            let (seen, before) = (telling(format, &text[..cut]), telling(format, &before));
            prop_assert!(seen.len() >= before.len() && seen[..before.len()] == before[..], "{seen:?} {before:?}");
        }
    }
}
