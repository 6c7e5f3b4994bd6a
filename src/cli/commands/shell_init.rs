//! `git agents shell-init`, and the command that explains why there is no `cd`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};

/// Print completion and the function 'agents' for your shell: 'agents cd NAME' goes there, the rest passes on
#[derive(Debug, clap::Args)]
#[command(
    after_help = r#"bash, zsh: eval "$(git agents shell-init bash)", in zsh after compinit. fish: git agents shell-init fish | source"#
)]
pub struct Args {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Print the completion of your shell alone, as a file of its own
#[derive(Debug, clap::Args)]
#[command(
    after_help = "bash: completions/git-agents of bash-completion. zsh: _git-agents on fpath. fish: completions/git-agents.fish"
)]
pub struct StubArgs {
    /// bash, zsh or fish
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// A process cannot move its shell
#[derive(Debug, clap::Args)]
pub struct CdArgs {
    #[arg(hide = true)]
    words: Vec<String>,
}

/// `builtin`, for zsh's `command` finds programs alone.
const POSIX: &str = r#"agents() {
    if [ "$1" = cd ]; then
        case "${2-}" in
            -) builtin cd - || return ;;
            '') __agents_dir=$(git rev-parse --path-format=absolute --git-common-dir) || return
                case "$__agents_dir" in
                    */.git) builtin cd -- "${__agents_dir%/.git}" || return ;;
                    *) builtin cd -- "$__agents_dir" || return ;;
                esac ;;
            *) __agents_dir=$(git agents path "$2") || return
                builtin cd -- "$__agents_dir" || return ;;
        esac
    else
        git agents "$@"
    fi
}
"#;

const FISH: &str = r#"function agents
    if test "$argv[1]" = cd
        switch "$argv[2]"
            case -
                cd -
            case ''
                set -l dir (git rev-parse --path-format=absolute --git-common-dir); or return
                cd (string replace -r '/\.git$' '' -- $dir)
            case '*'
                set -l dir (git agents path $argv[2]); or return
                cd $dir
        end
    else
        git agents $argv
    end
end
"#;

impl Shell {
    /// What calls `git-agents complete`.
    fn stub(self) -> &'static str {
        match self {
            Shell::Bash => include_str!("../stubs/git-agents.bash"),
            Shell::Zsh => include_str!("../stubs/_git-agents"),
            Shell::Fish => include_str!("../stubs/git-agents.fish"),
        }
    }
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let function = match args.shell {
        Shell::Bash | Shell::Zsh => POSIX,
        Shell::Fish => FISH,
    };
    s.ui.out(&format!("{function}\n{}", args.shell.stub()))?;
    Ok(code::DONE)
}

/// Prints the stub.
pub fn stub(s: &Session, args: &StubArgs) -> Result<i32, CliError> {
    s.ui.out(args.shell.stub())?;
    Ok(code::DONE)
}

/// Explains.
pub fn cd(_: &Session, _: &CdArgs) -> Result<i32, CliError> {
    Err(CliError::refused(
        "a program cannot change the directory of your shell",
        "eval \"$(git agents shell-init bash)\" gives you 'agents cd NAME'",
    ))
}
