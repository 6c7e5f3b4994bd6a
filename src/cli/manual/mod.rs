//! The manual: a page for the whole and one a command. Synopsis and options come from the command line itself, settings
//! from their table, so that they cannot disagree; the rest is prose in `man/src`. `man/man1` holds what this makes,
//! which a test keeps up to date (`git agents manual --install man`).

mod plain;
mod roff;

use crate::config::table::table;
use clap::{Arg, ArgAction, Command, CommandFactory as _};
use roff::Roff;
use std::ffi::OsString;

/// The first line of every page, by which one of ours is known.
pub(super) const MARK: &str = ".\\\" Made by git agents.";

macro_rules! prose {
    ($($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../man/src/", $name, ".txt")))),*]
    };
}

/// What people wrote, by command.
const PROSE: &[(&str, &str)] = prose![
    "adopt" "attach" "check" "clean" "demo" "diff" "doctor" "exec" "history" "hooks" "init" "land" "logs" "manual" "new" "overlap" "path"
    "push" "report" "restore" "retry" "rm" "run" "send" "shell-init" "show" "skills" "status" "stop" "sync" "trust" "wait"
];
const WHOLE: &str = include_str!("../../../man/src/git-agents.txt");

/// The names of all pages, the whole first.
pub(super) fn names() -> Vec<String> {
    let commands = PROSE.iter().map(|(name, _)| format!("git-agents-{name}"));
    std::iter::once("git-agents".to_owned()).chain(commands).collect()
}

/// A page as roff; `None` where there is no such one.
pub(super) fn page(name: &str) -> Option<String> {
    let mut root = super::Cli::command();
    root.build();
    if name == "git-agents" {
        return Some(whole(&root));
    }
    let (command, prose) = PROSE.iter().find(|(n, _)| name.strip_prefix("git-agents-") == Some(n))?;
    Some(of_command(root.find_subcommand(command)?, prose))
}

/// A page for those who read it without man; `None` where there is no such one.
pub(super) fn text(name: &str) -> Option<String> {
    page(name).map(|roff| plain::text(&roff))
}

/// The name of the page that `--help` among `args` asks for; `None` where it was `-h`, or the command has no page.
pub(super) fn asked(args: &[OsString]) -> Option<String> {
    // clap answers either flag before it says whose it was; this time it goes on.
    let mut root = super::Cli::command().ignore_errors(true).mut_arg("manual", |a| a.action(ArgAction::SetTrue));
    let found = root.try_get_matches_from_mut(args).ok()?;
    let command = found.subcommand_name().map(|c| format!("git-agents-{c}"));
    let name = command.unwrap_or_else(|| "git-agents".to_owned());
    (found.get_flag("manual") && names().contains(&name)).then_some(name)
}

fn of_command(command: &Command, prose: &str) -> String {
    let mut out = Roff::page(&format!("git-agents-{}", command.get_name()), &brief(command));
    out.section("SYNOPSIS");
    let parts: Vec<&Command> = command.get_subcommands().collect();
    let all = if parts.is_empty() { vec![command] } else { parts };
    for (i, part) in all.iter().enumerate() {
        out.synopsis(&usage(part), i > 0);
    }
    let (description, rest) = prose.split_once("\n== ").unwrap_or((prose, ""));
    out.section("DESCRIPTION");
    out.prose(description);
    let shown = |c: &Command| c.get_arguments().any(is_own);
    if all.iter().any(|c| shown(c)) {
        out.section("OPTIONS");
    }
    for part in &all {
        if all.len() > 1 {
            out.subsection(&format!("{} {}", command.get_name(), part.get_name()));
            out.prose(&about(part));
        }
        part.get_arguments().filter(|a| is_own(a)).for_each(|a| option(&mut out, a));
    }
    for section in rest.split("\n== ").filter(|s| !s.is_empty()) {
        let (head, body) = section.split_once('\n').unwrap_or((section, ""));
        out.section(head);
        out.prose(body);
        if head == "EXIT STATUS" {
            out.item("128", "It could not be done.");
            out.item("129", "Wrong usage.");
        }
    }
    out.section("SEE ALSO");
    out.prose("`git-agents`(1), which has the options that go with every command, the settings and the files.");
    out.finish()
}

fn whole(root: &Command) -> String {
    let mut out = Roff::page("git-agents", "several AI coding assistants on one repository at once");
    for section in WHOLE.split("\n== ").flat_map(|s| s.strip_prefix("== ").or(Some(s))).filter(|s| !s.is_empty()) {
        let (head, body) = section.split_once('\n').unwrap_or((section, ""));
        out.section(head);
        let (before, marked) = format!("\n{body}").split_once("\n@").map_or_else(
            || (body.to_owned(), String::new()),
            |(before, marked)| (before.to_owned(), marked.to_owned()),
        );
        out.prose(&before);
        let (what, after) = marked.split_once('\n').unwrap_or((&marked, ""));
        match what {
            "options" => root.get_arguments().for_each(|a| option(&mut out, a)),
            "commands" => {
                for (name, _) in PROSE {
                    if let Some(c) = root.find_subcommand(name) {
                        out.item_of(&format!("git-agents-{name}"), &about(c));
                    }
                }
            }
            "settings" => table().iter().for_each(|doc| {
                let file = doc.file.map(|f| format!(", `{f}` in the file")).unwrap_or_default();
                let own = if doc.protected { ", from your own configuration alone" } else { "" };
                let default = doc.default.map(|d| format!(" The default is `{d}`.")).unwrap_or_default();
                let text = format!("{}.{default} (`{}`{file}{own})", sentence(doc.help), doc.env);
                out.item(&format!("`{}`", doc.config), &text);
            }),
            _ => {}
        }
        out.prose(after);
    }
    out.finish()
}

/// What a command does, in one sentence.
fn about(command: &Command) -> String {
    let text = command.get_about().map(ToString::to_string).unwrap_or_default();
    format!("{}.", text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The same for the list of all manuals: short, without a capital.
fn brief(command: &Command) -> String {
    let text = about(command);
    let text = text.split([':', ';']).next().unwrap_or(&text).trim_end_matches('.');
    let mut chars = text.chars();
    chars.next().map(|c| c.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// Options of its own: those that go with every command are on the page of the whole.
fn is_own(arg: &Arg) -> bool {
    !arg.is_hide_set() && !arg.is_global_set() && arg.get_id() != "help"
}

fn usage(command: &Command) -> String {
    let text = command.clone().render_usage().to_string();
    let text = text.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
    // As git's own pages write them.
    text.replace("[OPTIONS]", "[options]")
}

fn option(out: &mut Roff, arg: &Arg) {
    let mut names: Vec<String> = Vec::new();
    names.extend(arg.get_short().map(|s| format!("`-{s}`")));
    names.extend(arg.get_long().map(|l| format!("`--{l}`")));
    let takes =
        !matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count | ArgAction::HelpLong | ArgAction::HelpShort);
    let values: Vec<String> = match takes {
        true => arg.get_value_names().unwrap_or_default().iter().map(|v| format!("<{v}>")).collect(),
        false => Vec::new(),
    };
    let mut term = names.join(", ");
    if !values.is_empty() {
        let optional = arg.get_num_args().is_some_and(|n| n.min_values() == 0) && !arg.is_positional();
        let value = values.join(" ");
        let gap = if term.is_empty() { "" } else { " " };
        term.push_str(&if optional { format!("{gap}[{value}]") } else { format!("{gap}{value}") });
    }
    let mut text = arg.get_help().map(ToString::to_string).unwrap_or_default();
    text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if takes {
        let possible: Vec<String> = arg.get_possible_values().iter().map(|v| format!("`{}`", v.get_name())).collect();
        if !possible.is_empty() {
            text.push_str(&format!(": {}", possible.join(", ")));
        }
        let default: Vec<String> =
            arg.get_default_values().iter().map(|v| format!("`{}`", v.to_string_lossy())).collect();
        if !default.is_empty() {
            text.push_str(&format!(" (without it {})", default.join(", ")));
        }
    }
    out.item(&term, &format!("{text}."));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_and_every_page_its_sections() {
        let root = super::super::Cli::command();
        let visible = root.get_subcommands().filter(|c| !c.is_hide_set());
        for c in visible {
            assert!(PROSE.iter().any(|(n, _)| *n == c.get_name()), "man/src/{}.txt is missing", c.get_name());
        }
        for name in names() {
            let page = page(&name).unwrap();
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "\"EXIT STATUS\""] {
                assert!(page.contains(&format!("\n.SH {section}\n")), "{name} has no {section}");
            }
        }
    }

    #[test]
    fn the_whole_names_every_setting_and_every_key_of_the_file() {
        let page = page("git-agents").unwrap().replace("\\-", "-");
        for doc in table() {
            assert!(page.contains(doc.config) && page.contains(doc.env), "{}", doc.config);
        }
        for key in crate::config::file_keys().filter(|k| k.contains('.')) {
            assert!(page.contains(key), "git-agents(1) does not say what '{key}' is");
        }
    }

    /// As a shell would, as far as examples need it.
    fn words(line: &str) -> Vec<String> {
        let (mut out, mut word, mut quote) = (Vec::new(), String::new(), None);
        for c in line.chars() {
            match (quote, c) {
                (None, '\'' | '"') => quote = Some(c),
                (Some(q), c) if q == c => quote = None,
                (None, ' ') => out.push(std::mem::take(&mut word)),
                _ => word.push(c),
            }
        }
        out.push(word);
        out
    }

    #[test]
    fn every_example_is_a_command_that_there_is() {
        use clap::Parser as _;
        let mut seen = 0;
        for (name, prose) in PROSE.iter().chain([&("git-agents", WHOLE)]) {
            let examples = prose.split("== EXAMPLES\n").nth(1).unwrap().split("\n== ").next().unwrap();
            for line in examples.lines().filter_map(|l| l.strip_prefix("- `git agents")) {
                let line = line.split("` ::").next().unwrap().split(" && ").next().unwrap();
                let line = line.split(" | ").next().unwrap();
                let parsed = super::super::Cli::try_parse_from(words(&format!("git-agents{line}")));
                assert!(parsed.is_ok(), "{name}: 'git agents{line}': {}", parsed.unwrap_err());
                seen += 1;
            }
        }
        assert!(seen > 50, "{seen}");
    }
}
