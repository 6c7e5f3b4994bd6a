//! `opencode run --format json`. Each step tells what it alone has used, and there is no last word: an error is one.

use super::super::Activity;
use super::{Fields, Reader, is_refusal, number, object, subject, text};
use serde_json::Value;

impl Reader {
    pub(super) fn opencode(&mut self, e: &Fields) -> bool {
        let part = object(e, "part");
        match (text(e, "type"), part) {
            ("step_start", _) => self.say(Activity::Session { id: text(e, "sessionID").to_owned() }),
            ("text", Some(part)) => self.say(Activity::Message { text: text(part, "text").to_owned() }),
            ("reasoning", _) => {}
            ("tool_use", Some(part)) => {
                let state = object(part, "state");
                let what = subject(state.and_then(|s| object(s, "input")));
                self.say(Activity::Tool { name: text(part, "tool").to_owned(), text: what });
                let error = state.map_or("", |s| text(s, "error"));
                if is_refusal(error) {
                    self.say(Activity::Denied { what: error.to_owned() });
                }
            }
            ("step_finish", Some(part)) => {
                let tokens = object(part, "tokens");
                let cache = tokens.and_then(|t| object(t, "cache"));
                let count = |of: Option<&Fields>, key| of.and_then(|t| number(t, key)).unwrap_or(0);
                let used = count(tokens, "input") + count(tokens, "output") + count(tokens, "reasoning");
                self.used.1 = self.used.1.saturating_add(used + count(cache, "read") + count(cache, "write"));
                // It writes 0 for what it does not know.
                if let Some(cost) = part.get("cost").and_then(Value::as_f64).filter(|c| *c > 0.0) {
                    self.used.0 = Some(self.used.0.unwrap_or(0.0) + cost);
                }
                self.say(Activity::Usage { cost_usd: self.used.0, tokens: Some(self.used.1) });
                if text(part, "reason") == "stop" {
                    self.finished(true, None);
                }
            }
            ("error", _) => {
                let error = object(e, "error");
                let data = error.and_then(|e| object(e, "data"));
                let words = data.map(|d| text(d, "message")).filter(|m| !m.is_empty());
                self.finished(false, words.or_else(|| error.map(|e| text(e, "name"))));
            }
            _ => return false,
        }
        true
    }
}
