//! What one line of an assistant's output means.

use crate::model::text::{clip_bytes, safe_line, safe_text};
use serde::{Deserialize, Serialize};

/// One thing an assistant said or did. All text in it is clean (see [`crate::model::text`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Activity {
    /// It printed something.
    Progress {
        /// One line.
        text: String,
    },
    /// The assistant's own words; the last one of a run is its claim.
    Message {
        /// Any number of lines.
        text: String,
    },
    /// It used a tool.
    Tool {
        /// Its name for it.
        name: String,
        /// What for: a command, a path.
        text: String,
    },
    /// It waits for a person.
    NeedsInput {
        /// The question.
        question: String,
    },
    /// The provider refuses for now.
    RateLimit {
        /// RFC 3339; `None` where it was not said.
        resume_at: Option<String>,
    },
    /// What the run has used so far, not since the last one.
    Usage {
        /// US dollars.
        cost_usd: Option<f64>,
        /// Of every kind.
        tokens: Option<u64>,
    },
    /// The id of its session.
    Session {
        /// As its resume takes it.
        id: String,
    },
    /// Its permissions kept it from something.
    Denied {
        /// From what.
        what: String,
    },
    /// It says it is done.
    Finished {
        /// Its own verdict.
        ok: bool,
        /// Its reason or last words.
        text: Option<String>,
    },
    /// It tries again to reach something: a sign of life, not of progress.
    Retrying {
        /// One line.
        text: String,
    },
    /// An event that this version does not know; neither progress nor silence.
    Other {
        /// The line, cut.
        text: String,
    },
}

/// How an assistant's output is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Text for people.
    Lines,
    /// Lines of `{"activity":{"kind":…}}`, and text for people between them.
    Scripted,
    /// The events of `codex exec --json`.
    Codex,
    /// The events of `gemini -o stream-json`.
    Gemini,
    /// The events of `claude --output-format stream-json`, which others follow.
    Claude,
    /// The events of `opencode run --format json`.
    Opencode,
    /// The events of `copilot --output-format json`.
    Copilot,
    /// The events of `goose run --output-format stream-json`.
    Goose,
}

/// The longest line that is kept as one, in bytes.
const LINE: usize = 4 << 10;
/// What no run can have cost.
const MOST_USD: f64 = 1e6;
/// What no run can have used.
pub(super) const MOST_TOKENS: u64 = 1_000_000_000_000_000;
/// The longest message.
const MESSAGE: usize = 64 << 10;

impl Format {
    /// Whether an event is one line, with a whole file in it now and then.
    pub fn has_events(self) -> bool {
        self != Format::Lines
    }

    /// Whether each start that comes as far as a session says so, a resumed one too.
    pub fn names_session(self) -> bool {
        matches!(self, Format::Codex | Format::Gemini | Format::Claude | Format::Opencode)
    }
}

/// The meaning of one line (without its end); `None` for a line with nothing to see in it.
pub(super) fn read_line(format: Format, line: &[u8]) -> Option<Activity> {
    let event = if format == Format::Scripted { event(line) } else { None };
    event.or_else(|| plain(line))
}

/// A line for people.
pub(super) fn plain(line: &[u8]) -> Option<Activity> {
    // A flood without a newline is looked at no further than it is kept.
    let text = safe_line(&line[..line.len().min(4 * LINE)]);
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let text = clip_bytes(text.to_owned(), LINE);
    Some(if is_retrying(&text) { Activity::Retrying { text } } else { Activity::Progress { text } })
}

/// Clients that never give up print these lines for ever; taken for progress, they would never be seen to stall.
pub(super) fn is_retrying(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["reconnecting", "retrying in ", "retrying after ", "retrying with "].iter().any(|noise| line.contains(noise))
}

fn event(line: &[u8]) -> Option<Activity> {
    let line = line.trim_ascii();
    if !line.starts_with(b"{") {
        return None;
    }
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line).ok()?;
    let value = object.remove("activity")?;
    Some(match serde_json::from_value::<Activity>(value) {
        Ok(activity) => activity.cleaned(),
        Err(_) => Activity::Other { text: clip_bytes(safe_line(line), LINE) },
    })
}

impl Activity {
    /// Whether it shows that work goes on. Noise does not, and neither does counting what was used.
    pub fn is_progress(&self) -> bool {
        use Activity::*;
        matches!(
            self,
            Progress { .. } | Message { .. } | Tool { .. } | Session { .. } | Finished { .. } | Denied { .. }
        )
    }

    /// The same with text that is fit for a terminal and of bounded length.
    #[must_use]
    pub fn cleaned(self) -> Activity {
        use Activity::*;
        let line = |s: String| clip_bytes(safe_line(s.as_bytes()), LINE);
        let text = |s: String| clip_bytes(safe_text(s.as_bytes()), MESSAGE);
        match self {
            Progress { text } => Progress { text: line(text) },
            Message { text: t } => Message { text: text(t) },
            Tool { name, text } => Tool { name: line(name), text: line(text) },
            NeedsInput { question } => NeedsInput { question: text(question) },
            RateLimit { resume_at } => {
                let at = resume_at.and_then(|t| t.parse::<jiff::Timestamp>().ok());
                RateLimit { resume_at: at.map(|t| t.to_string()) }
            }
            Usage { cost_usd, tokens } => Usage {
                cost_usd: cost_usd.filter(|c| (0.0..=MOST_USD).contains(c)),
                tokens: tokens.filter(|t| *t <= MOST_TOKENS),
            },
            Session { id } => Session { id: line(id) },
            Denied { what } => Denied { what: line(what) },
            Finished { ok, text: t } => Finished { ok, text: t.map(text) },
            Retrying { text } => Retrying { text: line(text) },
            Other { text } => Other { text: line(text) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn progress(text: &str) -> Option<Activity> {
        Some(Activity::Progress { text: text.to_owned() })
    }

    #[test]
    fn text_is_progress_and_clean() {
        assert_eq!(read_line(Format::Lines, b"  \x1b[31mred\x1b[0m \xff"), progress("red \u{fffd}"));
        assert_eq!(read_line(Format::Lines, b" \x1b[2K\t"), None);
        let Some(Activity::Progress { text }) = read_line(Format::Lines, &[b'x'; 9000]) else { panic!() };
        assert_eq!(text.len(), LINE);
    }

    #[test]
    fn reconnecting_is_no_progress() {
        let a = read_line(Format::Lines, b"ERROR: Reconnecting... 3/5").unwrap();
        assert!(!a.is_progress() && matches!(a, Activity::Retrying { .. }));
        assert!(read_line(Format::Lines, b"retry logic added").unwrap().is_progress());
    }

    #[test]
    fn events_are_read_in_the_scripted_format_only() {
        let line = br#"{"activity":{"kind":"needs-input","question":"which?\u001b[2J"}}"#;
        assert_eq!(read_line(Format::Scripted, line), Some(Activity::NeedsInput { question: "which?".into() }));
        assert!(matches!(read_line(Format::Lines, line), Some(Activity::Progress { .. })));
        assert_eq!(read_line(Format::Scripted, b"{not json"), progress("{not json"));
        assert_eq!(read_line(Format::Scripted, br#"{"a":1}"#), progress(r#"{"a":1}"#));
        let later = br#"{"activity":{"kind":"teleported"}}"#;
        assert!(matches!(read_line(Format::Scripted, later), Some(Activity::Other { .. })));
    }

    #[test]
    fn a_reset_time_that_is_none_is_left_out() {
        let read = |at: &str| {
            let line = format!(r#"{{"activity":{{"kind":"rate-limit","resume_at":"{at}"}}}}"#);
            read_line(Format::Scripted, line.as_bytes())
        };
        assert_eq!(read("soon"), Some(Activity::RateLimit { resume_at: None }));
        assert_eq!(
            read("2026-01-01T01:00:00+01:00"),
            Some(Activity::RateLimit { resume_at: Some("2026-01-01T00:00:00Z".into()) })
        );
    }

    #[test]
    fn the_words_are_those_of_the_contract() {
        let json = serde_json::to_string(&Activity::Usage { cost_usd: Some(0.5), tokens: None }).unwrap();
        assert_eq!(json, r#"{"kind":"usage","cost_usd":0.5,"tokens":null}"#);
    }

    proptest! {
        #[test]
        fn any_line_is_read_and_safe(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for format in [Format::Lines, Format::Scripted] {
                if let Some(a) = read_line(format, &bytes) {
                    let json = serde_json::to_string(&a).unwrap();
                    prop_assert!(!json.contains("\\u00") && !json.contains('\u{7f}'), "{json}");
                }
            }
        }
    }
}
