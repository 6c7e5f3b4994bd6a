//! A model server on loopback for real assistants. What it answers is a function of the conversation it is sent: the
//! newest message of the user that holds directives says what to do, a step for each result of a tool so far.
//!
//! | directive | answers with |
//! | --- | --- |
//! | `RUN: command` | a call of the shell |
//! | `CALL: tool {…}` | a call of this tool |
//! | `FILE: path: text` | words of an editor that offers no tools: the whole file |
//! | `STATUS: 429 3600` | that HTTP status, with a limit that ends in so many seconds |
//! | `SKILL: name` | what the skill's text, as the assistant was given it, says: its shell commands one after another, a list in |
//! |  | them replaced by the numbered one below this line; a skill whose text is not there yet is asked for first |
//! | `SAY: text` | the last message (else `done`) |

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Answers until the test ends.
#[derive(Debug)]
pub struct Model {
    port: u16,
    seen: Arc<Mutex<Vec<Value>>>,
}

impl Model {
    pub fn start() -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&log);
                // Who goes away in the middle of an answer is no failure of the server.
                std::thread::spawn(move || serve(stream, &log));
            }
        });
        Model { port, seen }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The texts of the user in the last request that holds `text`.
    pub fn conversation(&self, text: &str) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let texts = |body: &Value| turns(body).into_iter().flatten().collect::<Vec<_>>();
        seen.iter().rev().map(texts).find(|t| t.iter().any(|t| t.contains(text))).unwrap_or_default()
    }
}

fn serve(stream: TcpStream, log: &Mutex<Vec<Value>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let (mut length, mut chunked) = (0, false);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        match header.split_once(':') {
            Some(("content-length", n)) => length = n.trim().parse().ok()?,
            Some(("transfer-encoding", how)) => chunked = how.contains("chunked"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    while chunked {
        let mut size = String::new();
        reader.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk).ok()?;
        body.extend_from_slice(&chunk[..size]);
        chunked = size > 0;
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = path.split('?').next()?.to_owned() + if path.contains("alt=sse") { "/stream" } else { "" };
    if path.ends_with("/count_tokens") {
        return send(stream, 200, "application/json", r#"{"input_tokens":100}"#);
    }
    if path.ends_with("/models") {
        return send(
            stream,
            200,
            "application/json",
            &json!({ "object": "list", "data": [], "models": [] }).to_string(),
        );
    }
    log.lock().unwrap().push(body.clone());
    match decide(&body) {
        Answer::Status(code, seconds) => {
            send(stream, code, "application/json", &refusal(code, seconds, &path).to_string())
        }
        answer => {
            let events = if path.contains("/responses") {
                responses(&answer)
            } else if path.contains("/chat/completions") {
                completions(&answer)
            } else if path.contains("/messages") {
                messages(&answer)
            } else {
                gemini(&answer)
            };
            let stream_wanted = path.contains("stream") || body["stream"] == true;
            if !stream_wanted {
                let mut whole = events[0].clone();
                // One that does not stream reads the same words under another name.
                if let Some(choice) = whole["choices"].get_mut(0) {
                    choice["message"] = choice["delta"].take();
                    choice["finish_reason"] = "stop".into();
                }
                return send(stream, 200, "application/json", &whole.to_string());
            }
            let mut text = String::new();
            for e in &events {
                if let Some(kind) = e["type"].as_str() {
                    text.push_str(&format!("event: {kind}\n"));
                }
                text.push_str(&format!("data: {e}\n\n"));
            }
            if path.contains("/chat/completions") {
                text.push_str("data: [DONE]\n\n");
            }
            send(stream, 200, "text/event-stream", &text)
        }
    }
}

fn send(mut stream: TcpStream, code: u16, kind: &str, body: &str) -> Option<()> {
    let head = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()
}

enum Answer {
    Call(String, Value),
    Say(String),
    Status(u16, i64),
}

/// The conversation: what the user said, `None` for the result of a tool.
fn turns(body: &Value) -> Vec<Option<String>> {
    let text = |content: &Value| match content {
        Value::String(s) => s.clone(),
        other => {
            let parts = other.as_array().into_iter().flatten();
            parts.filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    };
    let mut out = Vec::new();
    for item in body["input"].as_array().into_iter().flatten() {
        let kind = item["type"].as_str().unwrap_or("message");
        if kind.ends_with("_output") {
            out.push(None);
        } else if kind == "message" && item["role"] == "user" {
            out.push(Some(text(&item["content"])));
        }
    }
    for message in body["messages"].as_array().into_iter().flatten() {
        let parts = message["content"].as_array().into_iter().flatten();
        let results = parts.filter(|p| p["type"] == "tool_result").count();
        out.extend(std::iter::repeat_n(None, results));
        match message["role"].as_str() {
            Some("user") => out.push(Some(text(&message["content"]))),
            Some("tool") => out.push(None),
            _ => {}
        }
    }
    for content in body["contents"].as_array().into_iter().flatten() {
        for part in content["parts"].as_array().into_iter().flatten() {
            if part.get("functionResponse").is_some() {
                out.push(None);
            } else if content["role"] == "user"
                && let Some(text) = part["text"].as_str()
            {
                out.push(Some(text.to_owned()));
            }
        }
    }
    out
}

fn decide(body: &Value) -> Answer {
    let (mut steps, mut done, mut last) = (Vec::new(), 0, "done".to_owned());
    let mut list = String::new();
    for turn in turns(body) {
        let Some(text) = turn else {
            done += 1;
            continue;
        };
        let found: Vec<(String, String)> = text
            .lines()
            .filter_map(|l| l.trim().split_once(": "))
            .filter(|(word, _)| ["RUN", "CALL", "STATUS", "SKILL", "SAY", "FILE"].contains(word))
            .map(|(word, rest)| (word.to_owned(), rest.to_owned()))
            .collect();
        if !found.is_empty() {
            list = text.rfind("\n1. ").map(|at| format!("{}\n", text[at..].trim())).unwrap_or_default();
            last = found.iter().rev().find(|(w, _)| w == "SAY").map_or("done".to_owned(), |(_, t)| t.clone());
            (steps, done) = (found.into_iter().filter(|(w, _)| w != "SAY").collect::<Vec<_>>(), 0);
        }
    }
    if let Some((_, name)) = steps.first().filter(|(word, _)| word == "SKILL") {
        let steps = skill(body, name, &list);
        // A skill that had to be asked for took a step itself.
        return match steps.get(done) {
            Some((tool, arguments)) if tool != "RUN" => {
                Answer::Call(tool.clone(), serde_json::from_str(arguments).unwrap())
            }
            Some((_, command)) => in_shell(body, command),
            None => Answer::Say(last),
        };
    }
    let Some((word, rest)) = steps.get(done) else { return Answer::Say(last) };
    match word.as_str() {
        "STATUS" => {
            let (code, seconds) = rest.split_once(' ').unwrap_or((rest, "0"));
            Answer::Status(code.parse().unwrap(), seconds.parse().unwrap())
        }
        "FILE" => {
            let (path, text) = rest.split_once(": ").unwrap();
            Answer::Say(format!("So be it.\n\n{path}\n```\n{text}\n```\n"))
        }
        "CALL" => {
            let (tool, arguments) = rest.split_once(' ').unwrap();
            Answer::Call(tool.to_owned(), serde_json::from_str(arguments).unwrap())
        }
        _ => in_shell(body, rest),
    }
}

fn in_shell(body: &Value, command: &str) -> Answer {
    match shell(body) {
        Some((tool, argument)) => Answer::Call(tool, json!({ argument: command, "description": "as asked" })),
        None => Answer::Say("there is no shell".to_owned()),
    }
}

/// What following a skill comes to.
fn skill(body: &Value, name: &str, list: &str) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    strings(body, &mut texts);
    let is_text = |t: &&str| t.contains("```sh\n") && t.contains("git agents");
    let parts =
        body["contents"].as_array().into_iter().flatten().flat_map(|c| c["parts"].as_array().into_iter().flatten());
    let asked = parts.into_iter().any(|p| p["functionCall"]["name"] == "activate_skill");
    let Some(text) = texts.iter().copied().find(is_text) else {
        return vec![("activate_skill".to_owned(), json!({ "name": name }).to_string())];
    };
    let blocks = text.split("```sh\n").skip(1).filter_map(|b| b.split("```").next());
    let commands = blocks.map(|b| match (b.find("<<'TASKS'\n"), b.rfind("TASKS")) {
        (Some(from), Some(to)) => format!("{}{list}{}", &b[..from + 10], &b[to..]),
        _ => b.to_owned(),
    });
    let commands = commands.map(|c| ("RUN".to_owned(), c.trim_end().to_owned()));
    asked.then(|| ("activate_skill".to_owned(), "{}".to_owned())).into_iter().chain(commands).collect()
}

fn strings<'v>(value: &'v Value, out: &mut Vec<&'v str>) {
    match value {
        Value::String(s) => out.push(s),
        Value::Array(all) => all.iter().for_each(|v| strings(v, out)),
        Value::Object(all) => all.values().for_each(|v| strings(v, out)),
        _ => {}
    }
}

/// The shell that it offers, and how it calls the command.
fn shell(body: &Value) -> Option<(String, String)> {
    let tools = body["tools"].as_array()?.iter();
    let declared = tools.flat_map(|t| match t["functionDeclarations"].as_array() {
        Some(all) => all.clone(),
        None => vec![t.get("function").unwrap_or(t).clone()],
    });
    let names = ["exec_command", "run_shell_command", "bash", "Bash", "shell"];
    let tool = declared.into_iter().find(|t| t["name"].as_str().is_some_and(|n| names.contains(&n)))?;
    let kinds = ["parameters", "parametersJsonSchema", "input_schema"];
    let parameters = kinds.into_iter().find_map(|k| tool.get(k))?;
    let argument = ["cmd", "command"].into_iter().find(|a| parameters["properties"].get(*a).is_some())?;
    Some((tool["name"].as_str()?.to_owned(), argument.to_owned()))
}

fn refusal(code: u16, seconds: i64, path: &str) -> Value {
    let at = jiff::Timestamp::now().as_second() + seconds;
    if code == 429 && path.contains("/responses") {
        json!({ "error": { "type": "usage_limit_reached", "message": "limit", "plan_type": "plus", "resets_at": at, "resets_in_seconds": seconds } })
    } else if code == 429 {
        json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota.", "details": [
            { "@type": "type.googleapis.com/google.rpc.QuotaFailure",
              "violations": [{ "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "20" }] } ] } })
    } else {
        json!({ "error": { "message": "refused as asked", "type": "test", "code": code } })
    }
}

fn responses(answer: &Answer) -> Vec<Value> {
    let id = jiff::Timestamp::now().as_nanosecond();
    let item = match answer {
        Answer::Call(tool, arguments) => {
            json!({ "type": "function_call", "id": format!("f{id}"), "call_id": format!("c{id}"),
            "name": tool, "arguments": arguments.to_string(), "status": "completed" })
        }
        Answer::Say(text) => {
            json!({ "type": "message", "id": format!("m{id}"), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
        }
        Answer::Status(..) => unreachable!(),
    };
    let usage = json!({ "input_tokens": 100, "input_tokens_details": { "cached_tokens": 0 }, "output_tokens": 10,
        "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 110 });
    let whole = json!({ "id": format!("r{id}"), "object": "response", "status": "completed", "output": [item], "usage": usage });
    vec![
        json!({ "type": "response.created", "response": { "id": format!("r{id}"), "object": "response", "status": "in_progress", "output": [] } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": whole }),
    ]
}

fn gemini(answer: &Answer) -> Vec<Value> {
    let part = match answer {
        Answer::Call(tool, arguments) => json!({ "functionCall": { "name": tool, "args": arguments } }),
        Answer::Say(text) => json!({ "text": text }),
        Answer::Status(..) => unreachable!(),
    };
    vec![
        json!({ "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110 }, "modelVersion": "test" }),
    ]
}

fn completions(answer: &Answer) -> Vec<Value> {
    let id = jiff::Timestamp::now().as_nanosecond();
    let (delta, reason) = match answer {
        Answer::Call(tool, arguments) => (
            json!({ "role": "assistant", "tool_calls": [{ "index": 0, "id": format!("c{id}"), "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() } }] }),
            "tool_calls",
        ),
        Answer::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Answer::Status(..) => unreachable!(),
    };
    let usage = json!({ "prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110 });
    let chunk = |choices: Value, usage: Value| {
        json!({ "id": format!("x{id}"), "object": "chat.completion.chunk",
        "created": 1, "model": "test", "choices": choices, "usage": usage })
    };
    vec![
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null),
        chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), usage),
    ]
}

fn messages(answer: &Answer) -> Vec<Value> {
    let id = jiff::Timestamp::now().as_nanosecond();
    let usage = json!({ "input_tokens": 100, "output_tokens": 10 });
    let (empty, delta, reason) = match answer {
        Answer::Call(tool, arguments) => (
            json!({ "type": "tool_use", "id": format!("t{id}"), "name": tool, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }),
            "tool_use",
        ),
        Answer::Say(text) => {
            (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": text }), "end_turn")
        }
        Answer::Status(..) => unreachable!(),
    };
    let message = json!({ "id": format!("m{id}"), "type": "message", "role": "assistant", "model": "test", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": empty }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null }, "usage": usage }),
        json!({ "type": "message_stop" }),
    ]
}
