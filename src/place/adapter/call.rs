//! A row and a task, made into a command.
//!
//! How the prompt travels, in this order: where a template mentions `prompt` or `prompt_file`, there and nowhere
//! else; otherwise as the row says, which for a command of the user's own is one last argument, as git appends the
//! file to an editor. An argument cannot begin with `-`, or the task `--help` would be an option: one space goes
//! before it. It cannot be longer than the kernel allows either, and then the command must name the file. A line for
//! the shell is run as it is written: the prompt is its standard input, its `$1` when it asks for that, and the file
//! in `AGENTS_PROMPT_FILE`.

use super::{Adapter, Error, Program, PromptBy, SessionBy};
use crate::model::agent::Permission;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Renders one template with these values; the error is for a person.
pub type Render<'a> = dyn Fn(&str, &BTreeMap<&'static str, String>) -> Result<String, String> + 'a;

/// What a command is made of beside the row.
#[derive(Debug, Clone)]
pub struct CallInput<'a> {
    /// The whole prompt, frame and all.
    pub prompt: &'a str,
    /// Where the caller keeps the same bytes.
    pub prompt_file: &'a Path,
    /// As asked for.
    pub model: Option<&'a str>,
    /// What it may do.
    pub permission: Permission,
    /// The id of the session: the one to go on with, or the one chosen for it.
    pub session: Option<&'a str>,
    /// Go on with the session, where the row can.
    pub resume: bool,
    /// US dollars this start may cost.
    pub cost_usd: Option<f64>,
    /// The agent's values for templates: name, branch, worktree and so on.
    pub values: &'a BTreeMap<&'static str, String>,
    /// This binary.
    pub self_exe: &'a Path,
}

/// What standard input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinBy {
    /// The null device: an open one keeps some assistants waiting for ever.
    Null,
    /// The prompt file, opened for reading.
    PromptFile,
}

/// A command to start, in the worktree. The prompt file must exist first: its path is in the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// On top of the agent's environment.
    pub env: Vec<(String, OsString)>,
    /// Its standard input.
    pub stdin: StdinBy,
}

/// Linux's MAX_ARG_STRLEN without the NUL; other systems limit the sum and are more generous with one.
const ARGUMENT: usize = (128 << 10) - 1;

/// The command of an unattended run.
///
/// # Errors
/// When the row cannot say what is asked for, a template fails, or the prompt does not fit where it must go.
pub fn call(row: &Adapter, input: &CallInput<'_>, render: &Render<'_>) -> Result<Call, Error> {
    let make = Maker::new(row, input, render)?;
    let mut stdin = StdinBy::Null;
    let argv = match &row.program {
        Program::Shell(line) => {
            stdin = StdinBy::PromptFile;
            if input.model.is_some() && !line.contains("AGENTS_MODEL") {
                return Err(Error::NoModel { name: row.name.clone() });
            }
            let mut argv: Vec<OsString> = ["/bin/sh", "-c", line, &row.name].map(OsString::from).into();
            if ["$1", "${1", "$@", "${@", "$*", "${*"].iter().any(|p| line.contains(p)) {
                argv.push(make.fits(input.prompt.into())?);
            }
            argv
        }
        Program::Argv(program) => {
            let resume = input.resume && row.can_resume();
            let mut pieces: Vec<&String> = if resume { &row.resume } else { program }.iter().collect();
            make.add_flags(&mut pieces)?;
            if input.cost_usd.is_some() {
                pieces.extend(&row.budget);
            }
            match &row.session {
                SessionBy::Chosen(args) if !resume => pieces.extend(args),
                _ => {}
            }
            pieces.extend(&row.args);
            let mut argv = make.render_all(&pieces)?;
            let told = pieces.iter().any(|p| mentions(p, "prompt") || mentions(p, "prompt_file"));
            match row.prompt {
                PromptBy::Argument if !told => argv.push(make.fits(as_argument(input.prompt))?),
                PromptBy::Stdin if !told => stdin = StdinBy::PromptFile,
                _ => {}
            }
            argv
        }
    };
    Ok(Call { argv, env: make.env()?, stdin })
}

/// The command a person sits down at: no prompt, and the terminal as standard input, whatever `stdin` says.
///
/// # Errors
/// As [`call`], and when the row has no such command.
pub fn interactive(row: &Adapter, input: &CallInput<'_>, render: &Render<'_>) -> Result<Call, Error> {
    if row.interactive.is_empty() {
        return Err(Error::NotInteractive { name: row.name.clone() });
    }
    let make = Maker::new(row, input, render)?;
    let mut pieces: Vec<&String> = row.interactive.iter().collect();
    if input.session.is_none() && pieces.iter().any(|p| mentions(p, "session")) {
        // Where there is nothing to go on with, it begins.
        pieces.truncate(1);
    }
    make.add_flags(&mut pieces)?;
    pieces.extend(&row.args);
    Ok(Call { argv: make.render_all(&pieces)?, env: make.env()?, stdin: StdinBy::Null })
}

struct Maker<'a> {
    row: &'a Adapter,
    input: &'a CallInput<'a>,
    render: &'a Render<'a>,
    values: BTreeMap<&'static str, String>,
}

impl<'a> Maker<'a> {
    fn new(row: &'a Adapter, input: &'a CallInput<'a>, render: &'a Render<'a>) -> Result<Self, Error> {
        if input.prompt.contains('\0') {
            return Err(Error::Nul { name: row.name.clone(), what: "prompt" });
        }
        let mut values = input.values.clone();
        values.insert("prompt", input.prompt.to_owned());
        values.insert("model", input.model.unwrap_or_default().to_owned());
        values.insert("session", input.session.unwrap_or_default().to_owned());
        values.insert("cost", input.cost_usd.map(|c| format!("{c:.4}")).unwrap_or_default());
        values.insert("permission", permission(input.permission).to_owned());
        for (key, path) in [("prompt_file", input.prompt_file), ("exe", input.self_exe)] {
            match path.to_str() {
                Some(path) => values.insert(key, path.to_owned()),
                None => values.remove(key),
            };
        }
        Ok(Maker { row, input, render, values })
    }

    fn name(&self) -> String {
        self.row.name.clone()
    }

    /// The arguments for permission and model.
    fn add_flags(&self, pieces: &mut Vec<&'a String>) -> Result<(), Error> {
        pieces.extend(match self.input.permission {
            Permission::Edit => &self.row.permission.edit,
            Permission::Full => &self.row.permission.full,
        });
        if self.input.model.is_some() {
            let told = pieces.iter().chain(&self.row.args.iter().collect::<Vec<_>>()).any(|p| mentions(p, "model"));
            if self.row.model.is_empty() && !told {
                return Err(Error::NoModel { name: self.name() });
            }
            pieces.extend(&self.row.model);
        }
        Ok(())
    }

    fn render_all(&self, pieces: &[&String]) -> Result<Vec<OsString>, Error> {
        pieces.iter().map(|p| self.fits(self.piece(p)?)).collect()
    }

    fn piece(&self, template: &str) -> Result<OsString, Error> {
        if mentions(template, "session") && self.input.session.is_none() {
            return Err(Error::NoSession { name: self.name() });
        }
        // Alone in its element a path may hold any bytes, and a prompt is guarded.
        match template.trim().strip_prefix("{{").and_then(|t| t.strip_suffix("}}")).map(str::trim) {
            Some("prompt_file") => return Ok(self.input.prompt_file.into()),
            Some("exe") => return Ok(self.input.self_exe.into()),
            Some("prompt") => return Ok(as_argument(self.input.prompt)),
            _ => {}
        }
        for (key, what) in [("prompt_file", "prompt file"), ("exe", "program")] {
            if mentions(template, key) && !self.values.contains_key(key) {
                return Err(Error::Path { name: self.name(), what });
            }
        }
        (self.render)(template, &self.values).map(OsString::from).map_err(|why| Error::Template {
            name: self.name(),
            template: template.to_owned(),
            why,
        })
    }

    fn fits(&self, argument: OsString) -> Result<OsString, Error> {
        if argument.as_bytes().contains(&0) {
            return Err(Error::Nul { name: self.name(), what: "argument" });
        }
        if argument.len() > ARGUMENT {
            return Err(Error::TooLong { name: self.name(), len: self.input.prompt.len() });
        }
        Ok(argument)
    }

    fn env(&self) -> Result<Vec<(String, OsString)>, Error> {
        let mut env = Vec::new();
        for (key, template) in &self.row.env {
            env.push((key.clone(), self.fits(self.piece(template)?)?));
        }
        let mut own = |key: &str, value: OsString| env.push((key.to_owned(), value));
        own("AGENTS_PROMPT_FILE", self.input.prompt_file.into());
        own("AGENTS_PERMISSION", permission(self.input.permission).into());
        if let Some(model) = self.input.model {
            own("AGENTS_MODEL", model.into());
        }
        if let Some(session) = self.input.session {
            own("AGENTS_SESSION", session.into());
        }
        Ok(env)
    }
}

fn permission(p: Permission) -> &'static str {
    match p {
        Permission::Edit => "edit",
        Permission::Full => "full",
    }
}

fn as_argument(prompt: &str) -> OsString {
    if prompt.starts_with('-') { format!(" {prompt}").into() } else { prompt.into() }
}

impl Adapter {
    /// Whether it can be told which model to use: asked before anything starts.
    pub fn takes_model(&self) -> bool {
        match &self.program {
            Program::Shell(line) => line.contains("AGENTS_MODEL"),
            Program::Argv(argv) => {
                !self.model.is_empty() || argv.iter().chain(&self.args).any(|p| mentions(p, "model"))
            }
        }
    }
}

/// Whether `name` is a word within a tag of the template.
fn mentions(template: &str, name: &str) -> bool {
    let tags = template.split("{{").skip(1).map(|t| t.split("}}").next());
    let blocks = template.split("{%").skip(1).map(|t| t.split("%}").next());
    let word = |c: char| c.is_alphanumeric() || c == '_';
    tags.chain(blocks).flatten().any(|tag| tag.split(|c| !word(c)).any(|w| w == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::adapter::{Custom, resolve};
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStringExt as _;
    use std::path::PathBuf;

    fn render(template: &str, values: &BTreeMap<&'static str, String>) -> Result<String, String> {
        let mut env = minijinja::Environment::new();
        env.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
        env.render_str(template, values).map_err(|e| e.to_string())
    }

    fn custom(command: Program, args: &[&str]) -> Adapter {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        let custom = Custom { command: Some(command), args, ..Custom::default() };
        resolve("mine", &[("mine".to_owned(), custom)].into()).unwrap()
    }

    fn argv(pieces: &[&str]) -> Program {
        Program::Argv(pieces.iter().map(|p| (*p).to_owned()).collect())
    }

    struct Given {
        values: BTreeMap<&'static str, String>,
        file: PathBuf,
    }

    impl Given {
        fn new() -> Self {
            Given { values: [("name", "csv".to_owned())].into(), file: "/run/prompt".into() }
        }

        fn input<'a>(&'a self, prompt: &'a str) -> CallInput<'a> {
            CallInput {
                prompt,
                prompt_file: &self.file,
                model: None,
                permission: Permission::Edit,
                session: None,
                resume: false,
                cost_usd: None,
                values: &self.values,
                self_exe: Path::new("/bin/git-agents"),
            }
        }

        fn call(&self, row: &Adapter, prompt: &str) -> Result<Call, Error> {
            call(row, &self.input(prompt), &render)
        }
    }

    fn words(call: &Call) -> Vec<&str> {
        call.argv.iter().map(|a| a.to_str().unwrap()).collect()
    }

    #[test]
    fn the_prompt_goes_where_a_template_wants_it_or_last() {
        let g = Given::new();
        let made = |pieces: &[&str], args: &[&str]| g.call(&custom(argv(pieces), args), "do it").unwrap();
        let last = made(&["fake", "--as={{ name }}"], &["-v"]);
        assert_eq!(words(&last), ["fake", "--as=csv", "-v", "do it"]);
        assert_eq!(last.stdin, StdinBy::Null);
        assert!(last.env.contains(&("AGENTS_PROMPT_FILE".into(), "/run/prompt".into())));
        assert_eq!(words(&made(&["fake", "{{ prompt_file }}", "x"], &[])), ["fake", "/run/prompt", "x"]);
        assert_eq!(words(&made(&["fake", "-m={{prompt}}", "x"], &[])), ["fake", "-m=do it", "x"]);
        assert_eq!(words(&made(&["fake"], &["--file", "@{{ prompt_file }}"])), ["fake", "--file", "@/run/prompt"]);
        // Neither the word outside a tag nor a longer one within is a mention.
        assert_eq!(words(&made(&["prompt", "{{ name }}prompt_file"], &[])), ["prompt", "csvprompt_file", "do it"]);
    }

    #[test]
    fn a_prompt_is_never_an_option() {
        let g = Given::new();
        assert_eq!(words(&g.call(&custom(argv(&["fake"]), &[]), "--help").unwrap()), ["fake", " --help"]);
        assert_eq!(words(&g.call(&custom(argv(&["fake", "{{ prompt }}"]), &[]), "-x").unwrap()), ["fake", " -x"]);
    }

    #[test]
    fn a_line_for_the_shell_is_left_alone() {
        let g = Given::new();
        let c = g.call(&custom(Program::Shell("tee {{ name }} | llm".into()), &[]), "a").unwrap();
        assert_eq!(words(&c), ["/bin/sh", "-c", "tee {{ name }} | llm", "mine"]);
        assert_eq!(c.stdin, StdinBy::PromptFile);
        let c = g.call(&custom(Program::Shell("llm \"$1\"".into()), &[]), "-a").unwrap();
        assert_eq!(words(&c)[4], "-a");
    }

    #[test]
    fn what_cannot_be_an_argument_is_refused_and_a_file_takes_it() {
        let g = Given::new();
        let long = "x".repeat(ARGUMENT + 1);
        assert!(
            matches!(g.call(&custom(argv(&["f"]), &[]), &long), Err(Error::TooLong { len, .. }) if len == ARGUMENT + 1)
        );
        assert!(g.call(&custom(argv(&["f"]), &[]), &long[1..]).is_ok());
        assert!(g.call(&custom(argv(&["f", "{{ prompt_file }}"]), &[]), &long).is_ok());
        assert!(g.call(&custom(Program::Shell("cat".into()), &[]), &long).is_ok());
        assert!(matches!(g.call(&custom(argv(&["f"]), &[]), "a\0b"), Err(Error::Nul { .. })));
        let e = g.call(&custom(argv(&["f"]), &[]), &long).unwrap_err().to_string();
        assert!(e.contains("use '{{ prompt_file }}' in 'assistants.mine.command'"), "{e}");
    }

    #[test]
    fn an_unknown_value_names_the_template() {
        let e = Given::new().call(&custom(argv(&["f", "{{ nmae }}"]), &[]), "a").unwrap_err();
        assert!(matches!(e, Error::Template { template, .. } if template == "{{ nmae }}"));
    }

    #[test]
    fn the_scripted_one_is_this_binary_with_a_file_of_any_name() {
        let row = resolve("scripted", &BTreeMap::new()).unwrap();
        let mut g = Given::new();
        g.file = OsString::from_vec(b"/run/\xff".to_vec()).into();
        let c = g.call(&row, "SAY: x").unwrap();
        assert_eq!(c.argv[..2], ["/bin/git-agents", "scripted-assistant"]);
        assert_eq!(c.argv[2..], [g.file.clone().into_os_string()]);
        let inside = custom(argv(&["f", "@{{ prompt_file }}"]), &[]);
        assert!(matches!(g.call(&inside, "a"), Err(Error::Path { .. })));
    }

    #[test]
    fn a_row_says_permission_model_and_session_in_its_own_flags() {
        let flags = |f: &[&str]| f.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        let mut row = custom(argv(&["f", "-p"]), &["--extra"]);
        row.permission.full = flags(&["--yes"]);
        row.model = flags(&["--model", "{{ model }}"]);
        row.session = SessionBy::Chosen(flags(&["--id={{ session }}"]));
        row.resume = flags(&["f", "resume", "{{ session }}"]);
        row.interactive = flags(&["f", "{{ session }}"]);
        row.budget = flags(&["--max", "{{ cost }}"]);
        let g = Given::new();
        let input = CallInput { model: Some("m1"), permission: Permission::Full, session: Some("s1"), ..g.input("do") };
        let fresh = call(&row, &input, &render).unwrap();
        assert_eq!(words(&fresh), ["f", "-p", "--yes", "--model", "m1", "--id=s1", "--extra", "do"]);
        let again = call(&row, &CallInput { resume: true, ..input.clone() }, &render).unwrap();
        assert_eq!(words(&again), ["f", "resume", "s1", "--yes", "--model", "m1", "--extra", "do"]);
        let seat = interactive(&row, &CallInput { model: None, ..input.clone() }, &render).unwrap();
        assert_eq!(words(&seat), ["f", "s1", "--yes", "--extra"]);
        let seat = interactive(&row, &CallInput { model: None, session: None, ..input.clone() }, &render).unwrap();
        assert_eq!(words(&seat), ["f", "--yes", "--extra"], "nothing to go on with");
        let budget = call(&row, &CallInput { cost_usd: Some(0.5), ..input.clone() }, &render).unwrap();
        assert_eq!(words(&budget)[5..7], ["--max", "0.5000"]);
        let none = CallInput { session: None, resume: true, ..input };
        assert!(matches!(call(&row, &none, &render), Err(Error::NoSession { .. })));

        let plain = custom(argv(&["f"]), &[]);
        assert!(matches!(call(&plain, &none, &render), Err(Error::NoModel { .. })));
        assert!(matches!(interactive(&plain, &none, &render), Err(Error::NotInteractive { .. })));
    }

    proptest! {
        #[test]
        fn a_prompt_arrives_as_it_is_or_not_at_all(prompt in any::<String>(), lead in "[-{%} a]{0,4}") {
            let prompt = lead + &prompt;
            let g = Given::new();
            for row in [custom(argv(&["f"]), &[]), custom(argv(&["f", "{{ prompt }}"]), &[])] {
                match g.call(&row, &prompt) {
                    Ok(c) => {
                        let got = c.argv[1].to_str().unwrap();
                        let got = if prompt.starts_with('-') { got.strip_prefix(' ').unwrap() } else { got };
                        prop_assert_eq!(got, &prompt);
                        prop_assert_eq!(c.argv.len(), 2);
                    }
                    Err(e) => prop_assert!(prompt.contains('\0'), "{e}"),
                }
            }
        }
    }
}
