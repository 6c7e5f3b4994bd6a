//! `gemini -o stream-json` (0.61). The assistant's words come in pieces.

use super::super::Activity;
use super::{Fields, Reader, is_refusal, number, object, subject, text};

impl Reader {
    pub(super) fn gemini(&mut self, e: &Fields) -> bool {
        let kind = text(e, "type");
        if kind != "message" || text(e, "role") != "assistant" {
            self.flush();
        }
        match kind {
            "init" => self.say(Activity::Session { id: text(e, "session_id").to_owned() }),
            "message" if text(e, "role") == "assistant" => {
                self.piece(text(e, "content"));
                if e.get("delta") != Some(&true.into()) {
                    self.flush();
                }
            }
            "message" => {}
            "tool_use" => {
                let (name, text) = (text(e, "tool_name").to_owned(), subject(object(e, "parameters")));
                self.say(Activity::Tool { name, text });
            }
            "tool_result" => {
                let error = object(e, "error");
                // A tool that its approval mode forbids is not offered to the model at all.
                let kind = error.map_or("", |e| text(e, "type"));
                let refused = matches!(kind, "policy_violation" | "tool_not_registered" | "permission_denied");
                let words = error.map_or_else(|| text(e, "output"), |e| text(e, "message"));
                if text(e, "status") == "error" && (refused || is_refusal(words)) {
                    self.say(Activity::Denied { what: words.to_owned() });
                }
            }
            "error" => self.error(text(e, "message")),
            "result" => {
                if let Some(tokens) = object(e, "stats").and_then(|s| number(s, "total_tokens")) {
                    self.say(Activity::Usage { cost_usd: None, tokens: Some(tokens) });
                }
                self.finished(text(e, "status") == "success", object(e, "error").map(|e| text(e, "message")));
            }
            _ => return false,
        }
        true
    }
}
