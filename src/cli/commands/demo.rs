//! `git agents demo`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::git::command::Call;
use crate::model::text::shell_word;
use std::path::Path;

/// The whole journey on a throw-away repository with the built-in scripted assistant; needs nothing but git
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep the repository and say where it is
    #[arg(long)]
    keep: bool,
}

const TASKS: &str = "\
This is a small shop. Keep the style of what is there.

1. Greet customers by name
   WRITE: src/greeting.txt: Hello, {name}!\\nWelcome back.
   REPLACE: src/shop.txt: title = Shop => title = Shop of {name}
   SLEEP: 0.4
   COMMIT: Greet customers by name
   SAY: Customers are greeted by name; the title shows it too.
2. Give the shop a better title
   SLEEP: 0.2
   REPLACE: src/shop.txt: title = Shop => title = The Friendly Shop
   COMMIT: Give the shop a better title
   SAY: The title is friendlier now.
3. Write down the opening hours
   WRITE: docs/hours.txt: Mon-Fri 9-18\\nSat 10-14
   SLEEP: 0.6
   COMMIT: Write down the opening hours
   SAY: The opening hours are in docs/hours.txt.
";

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let dir = std::env::temp_dir().join(format!("git-agents-demo-{}", crate::runtime::clock::random_hex(6)));
    crate::runtime::files::ensure_private_dir(&dir)?;
    let result = journey(s, &dir);
    if args.keep {
        s.ui.say(&format!("kept: cd {}", shell_word(&dir.join("shop").to_string_lossy())));
        return result;
    }
    // Everything in it is ours, made a moment ago; nobody works there any more.
    use std::os::unix::fs::MetadataExt as _;
    let meta = std::fs::symlink_metadata(&dir).map_err(crate::runtime::files::because("read", &dir))?;
    crate::runtime::files::remove_tree(&dir, meta.dev())?;
    if result.is_ok() {
        s.ui.hint("'git agents demo --keep' leaves the repository to play with; in your own: git agents run 'what shall be done'");
    }
    result
}

fn journey(s: &Session, dir: &Path) -> Result<i32, CliError> {
    let shop = dir.join("shop");
    make(&shop)?;
    s.ui.say("a small repository, three tasks, three agents at the same time:");
    let list = dir.join("tasks.md");
    crate::runtime::files::write_atomic(&list, TASKS.as_bytes())?;
    let inner = Session { ui: s.ui.clone(), cwd: shop };
    // Two of the three cannot both land as they are: the report says so, and the demo has done what it came for.
    let run = super::run::demo(&inner, &list)?;
    Ok(if run == code::NO { code::DONE } else { run })
}

/// The throw-away repository.
fn make(shop: &Path) -> Result<(), CliError> {
    let files = [
        ("README.md", "# Shop\n\nA small shop.\n"),
        ("src/shop.txt", "title = Shop\nlanguage = en\n"),
        ("src/cart.txt", "items = 0\n"),
    ];
    for (name, text) in files {
        let path = shop.join(name);
        let parent = path.parent().unwrap_or(shop);
        std::fs::create_dir_all(parent).map_err(crate::runtime::files::because("create", parent))?;
        crate::runtime::files::write_atomic(&path, text.as_bytes())?;
    }
    let git = |args: &[&str]| -> Result<(), CliError> {
        Call::new(shop, args).env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").run()?;
        Ok(())
    };
    git(&["init", "--quiet", "--initial-branch=main", "."])?;
    // The demo's own identity, in its own repository: nothing of the user's is needed or touched.
    git(&["config", "user.name", "Demo"])?;
    git(&["config", "user.email", "demo@localhost"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "-m", "A small shop"])
}
