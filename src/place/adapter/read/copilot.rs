//! `copilot --output-format json` (1.0). The id of its session comes last.

use super::super::Activity;
use super::{Fields, Reader, is_refusal, object, subject, text};

impl Reader {
    pub(super) fn copilot(&mut self, e: &Fields) -> bool {
        let empty = Fields::new();
        let data = object(e, "data").unwrap_or(&empty);
        match text(e, "type") {
            "session.start" | "session.resume" => {
                self.say(Activity::Session { id: text(data, "sessionId").to_owned() });
            }
            "assistant.message" => {
                if !text(data, "content").trim().is_empty() {
                    self.say(Activity::Message { text: text(data, "content").to_owned() });
                }
            }
            "tool.execution_start" => {
                let (name, text) = (text(data, "toolName").to_owned(), subject(object(data, "arguments")));
                self.say(Activity::Tool { name, text });
            }
            "tool.execution_complete" => {
                let error = object(data, "error");
                let (code, words) = error.map_or(("", ""), |e| (text(e, "code"), text(e, "message")));
                if matches!(code, "denied" | "rejected") || is_refusal(words) {
                    self.say(Activity::Denied { what: words.to_owned() });
                }
            }
            "session.error" => self.error(text(data, "message")),
            "result" => {
                let code = e.get("exitCode").or_else(|| data.get("exitCode")).and_then(serde_json::Value::as_i64);
                if let Some(id) = e.get("sessionId").and_then(serde_json::Value::as_str) {
                    self.say(Activity::Session { id: id.to_owned() });
                }
                self.finished(code.unwrap_or(0) == 0, None);
            }
            kind => {
                let quiet = ["session.", "assistant.", "tool.", "user.", "system.", "hook.", "permission.", "model."];
                return quiet.iter().any(|q| kind.starts_with(q));
            }
        }
        true
    }
}
