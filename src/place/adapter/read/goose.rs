//! `goose run --output-format stream-json`: messages whose pieces are shared by their id.

use super::super::Activity;
use super::{Fields, Reader, list, number, object, subject, text};
use serde_json::Value;

impl Reader {
    pub(super) fn goose(&mut self, e: &Fields) -> bool {
        match text(e, "type") {
            "message" => {
                let Some(message) = object(e, "message").filter(|m| text(m, "role") == "assistant") else {
                    return true;
                };
                for part in list(message, "content") {
                    match text(part, "type") {
                        "text" => self.piece(text(part, "text")),
                        "toolRequest" => {
                            self.flush();
                            let call = object(part, "toolCall").map(|c| object(c, "value").unwrap_or(c));
                            let name = call.map_or("", |c| text(c, "name")).to_owned();
                            let text = subject(call.and_then(|c| object(c, "arguments")));
                            self.say(Activity::Tool { name, text });
                        }
                        _ => {}
                    }
                }
            }
            "notification" => {}
            "error" => {
                self.flush();
                self.finished(false, e.get("error").and_then(Value::as_str));
            }
            "complete" => {
                self.flush();
                if let Some(tokens) = number(e, "total_tokens") {
                    self.say(Activity::Usage { cost_usd: None, tokens: Some(tokens) });
                }
                self.finished(true, None);
            }
            _ => return false,
        }
        true
    }
}
