//! `codex exec --json` (0.171).
//!
//! Its errors come twice, alone and in the turn's failure; one that says "Reconnecting" comes for ever.

use super::super::Activity;
use super::{Fields, Reader, number, object, subject, text};

impl Reader {
    pub(super) fn codex(&mut self, e: &Fields) -> bool {
        let item = object(e, "item");
        match text(e, "type") {
            "thread.started" => self.say(Activity::Session { id: text(e, "thread_id").to_owned() }),
            "turn.started" | "item.updated" => {}
            "item.started" => return item.is_some_and(|i| self.codex_item(i, true)),
            "item.completed" => return item.is_some_and(|i| self.codex_item(i, false)),
            "turn.completed" => {
                if let Some(usage) = object(e, "usage") {
                    let used = |key| number(usage, key).unwrap_or(0);
                    let tokens = Some(used("input_tokens") + used("output_tokens"));
                    self.say(Activity::Usage { cost_usd: None, tokens });
                }
                self.finished(true, None);
            }
            "turn.failed" => self.finished(false, object(e, "error").map(|e| text(e, "message"))),
            "error" => self.error(text(e, "message")),
            _ => return false,
        }
        true
    }

    fn codex_item(&mut self, item: &Fields, begins: bool) -> bool {
        let tool = |name: &str, text: String| Activity::Tool { name: name.to_owned(), text };
        match (text(item, "type"), begins) {
            ("agent_message", false) => self.say(Activity::Message { text: text(item, "text").to_owned() }),
            ("reasoning", false) => self.say(Activity::Progress { text: text(item, "text").to_owned() }),
            ("command_execution", true) => self.say(tool("sh", text(item, "command").to_owned())),
            ("command_execution", false) => {
                let failed = item.get("exit_code").and_then(serde_json::Value::as_i64).is_some_and(|c| c != 0);
                // The sandbox refuses through the file system, and says so in what the command printed only.
                let sandbox = failed && text(item, "aggregated_output").contains("Read-only file system");
                if text(item, "status") == "declined" || sandbox {
                    self.say(Activity::Denied { what: text(item, "command").to_owned() });
                }
            }
            ("file_change", false) => {
                let paths: Vec<&str> = super::list(item, "changes").map(|c| text(c, "path")).collect();
                let paths = paths.join(" ");
                let refused = text(item, "status") == "declined";
                self.say(if refused { Activity::Denied { what: paths } } else { tool("edit", paths) });
            }
            ("mcp_tool_call", true) => self.say(tool(text(item, "tool"), subject(object(item, "arguments")))),
            ("web_search", _) => self.say(tool("web_search", text(item, "query").to_owned())),
            ("error", false) => self.say(Activity::Other { text: text(item, "message").to_owned() }),
            ("todo_list" | "collab_tool_call" | "mcp_tool_call" | "file_change" | "agent_message" | "reasoning", _) => {
            }
            _ => return false,
        }
        true
    }
}
