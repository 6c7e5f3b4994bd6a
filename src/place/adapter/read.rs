//! From what an assistant prints to [`Activity`]: one small reader a format.
//!
//! Output and error output come through one pipe, so a line may hold a warning before its event, two events, or the
//! half of one that a kill cut off. Whatever of it can be read is read; text between events is kept as what it is, and
//! an event that is not known is neither progress nor silence. Nothing that is printed is an error here.

mod claude;
mod codex;
mod copilot;
mod gemini;
mod goose;
mod limit;
mod opencode;
mod salvage;

use super::activity::{Activity, Format, is_retrying, plain, read_line};
use crate::model::text::{clip_bytes, safe_line};
use serde_json::Value;

/// An event: the fields of its object.
type Fields = serde_json::Map<String, Value>;

/// Reads the lines of one run.
#[derive(Debug)]
pub struct Reader {
    format: Format,
    now: fn() -> jiff::Zoned,
    /// Pieces of a message that has not ended.
    message: String,
    /// What single steps have used, where only those are told.
    used: (Option<f64>, u64),
    /// Refusals that were told when they happened.
    denied: usize,
    /// An error that was said before the end: the reason where the end names none.
    trouble: Option<String>,
    out: Vec<Activity>,
}

impl Reader {
    /// For one run of an assistant with this format.
    pub fn new(format: Format) -> Reader {
        Reader {
            format,
            now: jiff::Zoned::now,
            message: String::new(),
            used: (None, 0),
            denied: 0,
            trouble: None,
            out: Vec::new(),
        }
    }

    /// The meaning of one line, without its end.
    pub fn line(&mut self, line: &[u8]) -> Vec<Activity> {
        if matches!(self.format, Format::Lines | Format::Scripted) {
            return with_questions(read_line(self.format, line));
        }
        let (events, text) = salvage::objects(line);
        for event in &events {
            self.event(event);
        }
        if events.is_empty() {
            self.text(&text);
        }
        with_questions(std::mem::take(&mut self.out).into_iter().map(Activity::cleaned))
    }

    /// What is left when there are no more lines.
    pub fn end(&mut self) -> Vec<Activity> {
        self.flush();
        with_questions(std::mem::take(&mut self.out).into_iter().map(Activity::cleaned))
    }

    fn event(&mut self, event: &Fields) {
        let known = match self.format {
            Format::Codex => self.codex(event),
            Format::Gemini => self.gemini(event),
            Format::Claude => self.claude(event),
            Format::Opencode => self.opencode(event),
            Format::Copilot => self.copilot(event),
            Format::Goose => self.goose(event),
            Format::Lines | Format::Scripted => true,
        };
        if !known {
            let text = serde_json::to_string(event).unwrap_or_default();
            self.say(Activity::Other { text });
        }
    }

    /// A line for people between the events: never progress, for clients that are cut off print such for ever.
    fn text(&mut self, line: &[u8]) {
        let Some(Activity::Progress { text } | Activity::Retrying { text }) = plain(line) else { return };
        let retrying = is_retrying(&text);
        self.say(if retrying { Activity::Retrying { text } } else { Activity::Other { text } });
    }

    fn say(&mut self, activity: Activity) {
        self.out.push(activity);
    }

    fn piece(&mut self, text: &str) {
        self.message.push_str(text);
        if self.message.len() > 64 << 10 {
            self.flush();
        }
    }

    /// The message that came in pieces has ended.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.message);
        if !text.trim().is_empty() {
            self.say(Activity::Message { text });
        }
    }

    /// An error that need not be the end.
    fn error(&mut self, text: &str) {
        if is_retrying(text) {
            return self.say(Activity::Retrying { text: text.to_owned() });
        }
        self.trouble = Some(text.to_owned());
        self.say(Activity::Other { text: text.to_owned() });
    }

    fn finished(&mut self, ok: bool, text: Option<&str>) {
        let reason = text.map(str::to_owned).filter(|t| !t.trim().is_empty());
        let reason = if ok { reason } else { reason.or_else(|| self.trouble.take()) };
        if let (false, Some(reason)) = (ok, &reason)
            && limit::is_one(reason)
        {
            let resume_at = limit::reset(reason, &(self.now)());
            self.say(Activity::RateLimit { resume_at });
        }
        self.say(Activity::Finished { ok, text: reason });
    }
}

/// Any assistant can ask a person: see the frame of its prompt.
fn with_questions(activities: impl IntoIterator<Item = Activity>) -> Vec<Activity> {
    let mut out = Vec::new();
    for activity in activities {
        let question = match &activity {
            Activity::Message { text } | Activity::Progress { text } => super::frame::question(text),
            _ => None,
        };
        out.push(activity);
        out.extend(question.map(|question| Activity::NeedsInput { question }));
    }
    out
}

fn text<'a>(fields: &'a Fields, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn object<'a>(fields: &'a Fields, key: &str) -> Option<&'a Fields> {
    fields.get(key).and_then(Value::as_object)
}

/// A count. What nobody can have used is none: it would be added to others.
fn number(fields: &Fields, key: &str) -> Option<u64> {
    let number = fields.get(key).and_then(|v| v.as_u64().or_else(|| v.as_f64().map(|f| f.max(0.0) as u64)));
    number.filter(|n| *n <= super::activity::MOST_TOKENS)
}

fn list<'a>(fields: &'a Fields, key: &str) -> impl Iterator<Item = &'a Fields> {
    fields.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_object)
}

/// What a tool is used for: of its arguments the one that says most.
fn subject(arguments: Option<&Fields>) -> String {
    const KEYS: &[&str] = &[
        "command",
        "cmd",
        "file_path",
        "filePath",
        "path",
        "absolute_path",
        "url",
        "pattern",
        "query",
        "description",
        "prompt",
    ];
    let Some(arguments) = arguments else { return String::new() };
    let found = KEYS.iter().find_map(|k| arguments.get(*k).and_then(Value::as_str));
    let found = found.or_else(|| arguments.values().find_map(Value::as_str));
    clip_bytes(safe_line(found.unwrap_or_default().as_bytes()), 1 << 10)
}

/// Words by which permissions refuse, whoever says them.
fn is_refusal(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "denied by policy",
        "permission denied by",
        "requested permissions",
        "haven't granted",
        "not granted",
        "rejected permission",
        "rejected by user",
        "user rejected",
        "user refused",
        "requires approval",
        "permission was declined",
        "permission denied because",
        "outside the allowed",
        "resolves outside",
        "permission to use this",
    ];
    let text = text.to_ascii_lowercase();
    WORDS.iter().any(|w| text.contains(w))
}

#[cfg(test)]
mod tests;
