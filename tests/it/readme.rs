//! The README says what is there.

use git_agents::config::table::table;

fn readme() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

/// The rows of the settings table, as they must be.
fn rows() -> String {
    table()
        .iter()
        .map(|s| {
            let star = if s.protected { " *" } else { "" };
            let file = s.file.map(|f| format!("`{f}`")).unwrap_or_default();
            let default = s.default.map(|d| format!("`{d}`")).unwrap_or_default();
            format!("| `{}`{star} | {file} | {default} | {} |\n", s.config, s.help)
        })
        .collect()
}

#[test]
fn every_setting_stands_in_the_readme() {
    let (text, rows) = (readme(), rows());
    assert!(text.contains(&rows), "the settings table of README.md should be:\n{rows}");
}

#[test]
fn the_example_of_a_project_file_is_one() {
    let text = readme();
    let example = text.split("```toml\n").find(|part| part.starts_with("base = ")).unwrap();
    let example = example.split("```").next().unwrap();
    git_agents::config::project::parse(example.as_bytes(), "README.md").unwrap();
}
