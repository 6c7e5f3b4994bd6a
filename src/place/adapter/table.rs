//! The assistants that are known, a row each.
//!
//! Flags drift faster than anything else here: what a row passes is looked for in the program's own `--help` before a
//! start. `edit` lets an assistant change files and run commands (a test, `git commit`) without asking; `full` is
//! all it can. Where an assistant knows nothing between "ask" and "all", the comment says what was chosen.

use super::{Adapter, Format, Login, Needs, PermissionArgs, Program, PromptBy, SessionBy, VerdictBy};

/// The names in the table.
pub const BUILT_IN: &[&str] =
    &["aider", "amp", "claude", "codex", "copilot", "cursor", "gemini", "goose", "opencode", "qwen", "scripted"];

/// Words of a command.
type Words = &'static [&'static str];

struct Row {
    program: Words,
    prompt: PromptBy,
    edit: Words,
    full: Words,
    model: Words,
    session: Session,
    resume: Words,
    interactive: Words,
    budget: Words,
    output: Format,
    verdict: VerdictBy,
    leftovers: Words,
    env: &'static [(&'static str, &'static str)],
    exits: &'static [(i32, &'static str)],
    hides_settings: bool,
    usage_of_session: bool,
    install: &'static str,
    help: &'static [Words],
    login: Option<Signs>,
}

enum Session {
    None,
    Chosen(Words),
    Reported,
}

struct Signs {
    env: Words,
    files: Words,
    status: Words,
    hint: &'static str,
}

const PLAIN: Row = Row {
    program: &[],
    prompt: PromptBy::Stdin,
    edit: &[],
    full: &[],
    model: &["--model", "{{ model }}"],
    session: Session::None,
    resume: &[],
    interactive: &[],
    budget: &[],
    output: Format::Lines,
    verdict: VerdictBy::Event,
    leftovers: &[],
    env: &[],
    exits: &[],
    hides_settings: false,
    usage_of_session: false,
    install: "",
    help: &[],
    login: None,
};

const SCRIPTED: Row = Row {
    program: &["{{ exe }}", "scripted-assistant", "{{ prompt_file }}"],
    prompt: PromptBy::File,
    model: &[],
    session: Session::Reported,
    resume: &["{{ exe }}", "scripted-assistant", "{{ prompt_file }}"],
    output: Format::Scripted,
    ..PLAIN
};

/// Its `--session-id` is refused when it exists, its `--resume` when it does not. As root it refuses `full`.
const CLAUDE: Row = Row {
    program: &["claude", "-p", "--verbose", "--output-format", "stream-json", "--disallowedTools=AskUserQuestion"],
    edit: &["--permission-mode", "acceptEdits", "--allowedTools=Bash"],
    full: &["--permission-mode", "bypassPermissions"],
    session: Session::Chosen(&["--session-id", "{{ session }}"]),
    resume: &[
        "claude",
        "-p",
        "--verbose",
        "--output-format",
        "stream-json",
        "--disallowedTools=AskUserQuestion",
        "--resume",
        "{{ session }}",
    ],
    interactive: &["claude", "--resume", "{{ session }}"],
    budget: &["--max-budget-usd", "{{ cost }}"],
    output: Format::Claude,
    install: "npm install -g @anthropic-ai/claude-code",
    help: &[&["--help"]],
    // On macOS it keeps the log-in in the keychain: no sign of it is certain but its own word.
    login: Some(Signs {
        env: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_USE_VERTEX",
        ],
        files: &[".claude/.credentials.json", ".claude/settings.json:apiKeyHelper", ".claude.json:oauthAccount"],
        status: &["auth", "status"],
        hint: "claude auth login",
    }),
    ..PLAIN
};

/// It has no flag of the sandbox in `resume`, so that is said by `-c`, for both alike. The sandbox keeps it from
/// committing in a linked worktree unless the four folders that a commit writes are named one by one; it keeps it from
/// all sockets too: `args = ["-c", "sandbox_workspace_write.network_access=true"]` lets tests have them.
/// Without network it never ends.
const CODEX: Row = Row {
    program: &["codex", "exec", "--json", "--skip-git-repo-check", "-"],
    edit: &["-c", "sandbox_mode=\"workspace-write\"", "-c", "sandbox_workspace_write.writable_roots={{ writable }}"],
    full: &["--dangerously-bypass-approvals-and-sandbox"],
    session: Session::Reported,
    resume: &["codex", "exec", "resume", "--json", "--skip-git-repo-check", "{{ session }}", "-"],
    interactive: &["codex", "resume", "{{ session }}"],
    output: Format::Codex,
    usage_of_session: true,
    install: "npm install -g @openai/codex",
    help: &[&["exec", "--help"], &["exec", "resume", "--help"]],
    login: Some(Signs {
        env: &["OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_HOME"],
        // A provider of the user's own needs none.
        files: &[".codex/auth.json", ".codex/config.toml:model_provider"],
        status: &["login", "status"],
        hint: "codex login",
    }),
    ..PLAIN
};

/// Each new worktree is an untrusted folder to it. Its shell hides the user's git settings, hooks and all, from git. In
/// its mode of edits alone it has no shell at all, so `edit` allows that beside. Its exit code after an error of
/// the service is the remainder of the HTTP status.
const GEMINI: Row = Row {
    program: &["gemini", "-o", "stream-json", "--skip-trust"],
    edit: &["--approval-mode", "auto_edit", "--allowed-tools", "run_shell_command"],
    full: &["--approval-mode", "yolo"],
    session: Session::Chosen(&["--session-id", "{{ session }}"]),
    resume: &["gemini", "-o", "stream-json", "--skip-trust", "--resume", "{{ session }}"],
    interactive: &["gemini", "--skip-trust", "--resume", "{{ session }}"],
    output: Format::Gemini,
    exits: &[
        (41, "it is not logged in"),
        (42, "it did not accept what it was asked"),
        (53, "it reached its limit of turns"),
        (55, "it does not trust the folder"),
    ],
    hides_settings: true,
    install: "npm install -g @google/gemini-cli",
    help: &[&["--help"]],
    login: Some(Signs {
        env: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_GENAI_USE_GCA",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_CLOUD_PROJECT",
            "CLOUD_SHELL",
        ],
        files: &[
            ".gemini/oauth_creds.json",
            ".gemini/gemini-credentials.json",
            ".gemini/google_accounts.json",
            ".gemini/settings.json:vertex-ai",
            ".gemini/.env",
            ".env",
        ],
        status: &[],
        hint: "'gemini' once by hand logs in, or set GEMINI_API_KEY",
    }),
    ..PLAIN
};

/// A fork of gemini's: the same flags, the events of claude. `edit` does not keep its edits within the worktree.
const QWEN: Row = Row {
    program: &["qwen", "-o", "stream-json"],
    edit: &["--approval-mode", "auto-edit", "--allowed-tools", "run_shell_command"],
    full: &["--approval-mode", "yolo"],
    session: Session::Chosen(&["--session-id", "{{ session }}"]),
    resume: &["qwen", "-o", "stream-json", "--resume", "{{ session }}"],
    interactive: &["qwen", "--resume", "{{ session }}"],
    output: Format::Claude,
    install: "npm install -g @qwen-code/qwen-code",
    help: &[&["--help"]],
    ..PLAIN
};

/// It allows shell and edits in its directory unless its settings say otherwise, and rejects by itself what it would
/// ask. Cut off from the network it is silent for minutes.
const OPENCODE: Row = Row {
    program: &["opencode", "run", "--format", "json"],
    full: &["--auto"],
    session: Session::Reported,
    resume: &["opencode", "run", "--format", "json", "--session", "{{ session }}"],
    interactive: &["opencode", "--session", "{{ session }}"],
    output: Format::Opencode,
    env: &[("OPENCODE_DISABLE_AUTOUPDATE", "1")],
    install: "npm install -g opencode-ai",
    help: &[&["run", "--help"]],
    ..PLAIN
};

/// With a `-p` it does not read its standard input. What it may not do it refuses by itself.
const COPILOT: Row = Row {
    program: &["copilot", "--output-format", "json", "--no-ask-user", "--no-auto-update"],
    edit: &["--allow-tool=shell", "--allow-tool=write"],
    full: &["--allow-all"],
    session: Session::Chosen(&["--session-id", "{{ session }}"]),
    resume: &["copilot", "--output-format", "json", "--no-ask-user", "--no-auto-update", "--resume={{ session }}"],
    interactive: &["copilot", "--resume={{ session }}"],
    output: Format::Copilot,
    install: "npm install -g @github/copilot",
    help: &[&["--help"]],
    ..PLAIN
};

/// Without `--force` it edits, and refuses each command its settings do not allow. It has been seen not to exit.
const CURSOR: Row = Row {
    program: &["cursor-agent", "-p", "--output-format", "stream-json", "--trust"],
    full: &["--force"],
    session: Session::Reported,
    resume: &["cursor-agent", "-p", "--output-format", "stream-json", "--trust", "--resume", "{{ session }}"],
    interactive: &["cursor-agent", "--resume", "{{ session }}"],
    output: Format::Claude,
    install: "the vendor's installer",
    help: &[&["--help"]],
    ..PLAIN
};

const AMP: Row = Row {
    program: &["amp", "--execute", "--stream-json"],
    full: &["--dangerously-allow-all"],
    model: &[],
    session: Session::Reported,
    resume: &["amp", "threads", "continue", "{{ session }}", "--execute", "--stream-json"],
    interactive: &["amp", "threads", "continue", "{{ session }}"],
    output: Format::Claude,
    install: "npm install -g @ampcode/cli",
    help: &[&["--help"]],
    ..PLAIN
};

/// It knows "ask" and "all", by a variable; asked for with nobody there, it would wait.
const GOOSE: Row = Row {
    program: &["goose", "run", "-i", "{{ prompt_file }}", "--output-format", "stream-json"],
    prompt: PromptBy::File,
    session: Session::Chosen(&["--name", "{{ session }}"]),
    resume: &[
        "goose",
        "run",
        "-i",
        "{{ prompt_file }}",
        "--output-format",
        "stream-json",
        "--resume",
        "--name",
        "{{ session }}",
    ],
    interactive: &["goose", "session", "--resume", "--name", "{{ session }}"],
    output: Format::Goose,
    env: &[("GOOSE_MODE", "auto")],
    install: "the vendor's installer",
    help: &[&["run", "--help"]],
    ..PLAIN
};

/// It prints text for people, commits by itself, and goes on with nothing: each start is a new one.
const AIDER: Row = Row {
    program: &[
        "aider",
        "--message-file",
        "{{ prompt_file }}",
        "--yes-always",
        "--no-stream",
        "--no-pretty",
        "--no-gitignore",
        "--no-check-update",
        "--no-show-release-notes",
    ],
    prompt: PromptBy::File,
    interactive: &["aider"],
    verdict: VerdictBy::ExitCode,
    leftovers: &[".aider*", ".aider*/**"],
    install: "python -m pip install aider-chat",
    help: &[&["--help"]],
    ..PLAIN
};

fn row(name: &str) -> Option<&'static Row> {
    Some(match name {
        "aider" => &AIDER,
        "amp" => &AMP,
        "claude" => &CLAUDE,
        "codex" => &CODEX,
        "copilot" => &COPILOT,
        "cursor" => &CURSOR,
        "gemini" => &GEMINI,
        "goose" => &GOOSE,
        "opencode" => &OPENCODE,
        "qwen" => &QWEN,
        "scripted" => &SCRIPTED,
        _ => return None,
    })
}

/// A row of the table as it is.
pub fn built_in(name: &str) -> Option<Adapter> {
    let row = row(name)?;
    let words = |words: Words| words.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    let login = row.login.as_ref().map(|l| Login {
        env: words(l.env),
        files: words(l.files),
        status: words(l.status),
        hint: l.hint.to_owned(),
    });
    Some(Adapter {
        name: name.to_owned(),
        program: Program::Argv(words(row.program)),
        prompt: row.prompt,
        permission: PermissionArgs { edit: words(row.edit), full: words(row.full) },
        model: words(row.model),
        session: match row.session {
            Session::None => SessionBy::None,
            Session::Chosen(args) => SessionBy::Chosen(words(args)),
            Session::Reported => SessionBy::Reported,
        },
        resume: words(row.resume),
        interactive: words(row.interactive),
        budget: words(row.budget),
        output: row.output,
        leftovers: words(row.leftovers),
        verdict: row.verdict,
        args: Vec::new(),
        env: row.env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        exits: row.exits.iter().map(|(code, w)| (*code, (*w).to_owned())).collect(),
        hides_settings: row.hides_settings,
        usage_of_session: row.usage_of_session,
        needs: Needs { install: row.install.to_owned(), help: row.help.iter().map(|h| words(h)).collect(), login },
    })
}
