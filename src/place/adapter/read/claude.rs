//! The `stream-json` of `claude`, and of those that follow it: qwen, cursor, amp.
//!
//! `is_error` of the result counts, its `subtype` says "success" beside a failed log-in.

use super::super::Activity;
use super::{Fields, Reader, is_refusal, list, number, object, subject, text};
use serde_json::Value;

impl Reader {
    pub(super) fn claude(&mut self, e: &Fields) -> bool {
        match (text(e, "type"), text(e, "subtype")) {
            ("system", "init" | "session_start") => {
                self.say(Activity::Session { id: text(e, "session_id").to_owned() })
            }
            ("system", "api_retry") => {
                let text = format!("retrying after {}", text(e, "error"));
                self.say(Activity::Retrying { text });
            }
            ("system" | "thinking" | "stream_event", _) => {}
            ("assistant", _) => self.claude_words(e),
            ("user", _) => self.claude_results(e),
            ("tool_call", "started") => self.cursor_tool(e),
            ("tool_call", _) => {}
            ("rate_limit_event", _) => {
                // Also sent as a warning long before.
                let info = object(e, "rate_limit_info").filter(|i| text(i, "status") == "rejected");
                if let Some(info) = info {
                    let at = number(info, "resetsAt").and_then(|s| i64::try_from(s).ok());
                    let at = at.and_then(|s| jiff::Timestamp::from_second(s).ok());
                    self.say(Activity::RateLimit { resume_at: at.map(|t| t.to_string()) });
                }
            }
            ("control_request", _) => {
                let request = object(e, "request");
                let what = request.map_or("", |r| text(r, "tool_name"));
                let question = format!("{what}: {}", subject(request.and_then(|r| object(r, "input"))));
                self.say(Activity::NeedsInput { question });
            }
            ("error", _) => {
                let message = object(e, "error").map_or_else(|| text(e, "message"), |e| text(e, "message"));
                self.error(message);
            }
            ("result", subtype) => {
                // Most were told when they happened.
                let told = std::mem::take(&mut self.denied);
                for denied in list(e, "permission_denials").skip(told) {
                    let what = format!("{} {}", text(denied, "tool_name"), subject(object(denied, "tool_input")));
                    self.say(Activity::Denied { what: what.trim().to_owned() });
                }
                let cost = e.get("total_cost_usd").and_then(Value::as_f64);
                let tokens = object(e, "usage").map(tokens);
                if cost.is_some() || tokens.is_some() {
                    self.say(Activity::Usage { cost_usd: cost, tokens });
                }
                let failed = e.get("is_error").and_then(Value::as_bool).unwrap_or(subtype != "success");
                let error = object(e, "error").map(|e| text(e, "message")).filter(|m| !m.is_empty());
                let words = error
                    .or_else(|| e.get("result").and_then(Value::as_str))
                    .or_else(|| e.get("error").and_then(Value::as_str));
                let words = words.filter(|w| !w.is_empty()).or((failed && subtype != "success").then_some(subtype));
                // qwen ends well when its service was out of reach.
                let failed = failed || words.is_some_and(|w| w.starts_with("[API Error"));
                self.finished(!failed, words);
            }
            _ => return false,
        }
        true
    }

    fn claude_words(&mut self, e: &Fields) {
        let Some(message) = object(e, "message") else { return };
        if e.contains_key("error") {
            // Its own, in the model's name.
            let words: Vec<&str> = list(message, "content").map(|b| text(b, "text")).collect();
            return self.error(&words.join(" "));
        }
        if let Some(words) = message.get("content").and_then(Value::as_str) {
            return self.say(Activity::Message { text: words.to_owned() });
        }
        for block in list(message, "content") {
            match text(block, "type") {
                "text" => self.say(Activity::Message { text: text(block, "text").to_owned() }),
                "tool_use" => {
                    let (name, text) = (text(block, "name").to_owned(), subject(object(block, "input")));
                    self.say(Activity::Tool { name, text });
                }
                _ => {}
            }
        }
    }

    fn claude_results(&mut self, e: &Fields) {
        let blocks = object(e, "message").into_iter().flat_map(|m| list(m, "content"));
        for block in blocks.filter(|b| b.get("is_error") == Some(&true.into())) {
            let content = block.get("content");
            let words = content.and_then(Value::as_str).map(str::to_owned);
            let words =
                words.or_else(|| content?.as_array()?.iter().find_map(|c| Some(c["text"].as_str()?.to_owned())));
            if let Some(what) = words.filter(|w| is_refusal(w)) {
                self.denied += 1;
                self.say(Activity::Denied { what });
            }
        }
    }

    /// `{"tool_call":{"shellToolCall":{"args":{"command":…}}}}`
    fn cursor_tool(&mut self, e: &Fields) {
        let Some((name, call)) = object(e, "tool_call").and_then(|t| t.iter().next()) else { return };
        let name = name.strip_suffix("ToolCall").unwrap_or(name).to_owned();
        self.say(Activity::Tool { name, text: subject(call.get("args").and_then(Value::as_object)) });
    }
}

fn tokens(usage: &Fields) -> u64 {
    ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"]
        .iter()
        .filter_map(|k| number(usage, k))
        .sum()
}
