//! `git agents doctor`.

use crate::cli::Session;
use crate::cli::error::{CliError, code};
use crate::cli::ui::Label;
use crate::model::text::safe_line;
use crate::ops::doctor::{Finding, Severity, diagnose};
use crate::ops::executable;

/// What is wrong in the set-up and in the state: exit 1 where there is a problem
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Mend what is safe to mend; the rest is said with its command
    #[arg(long)]
    fix: bool,
    /// Take what git runs or trusts now as it shall be, after it changed while agents worked
    #[arg(long)]
    accept: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(s: &Session, args: &Args) -> Result<i32, CliError> {
    let ctx = s.context()?;
    if args.accept {
        for name in executable::accept(&ctx)? {
            s.ui.say(&format!("accepted: {}", safe_line(name.as_bytes())));
        }
    }
    let mut found = diagnose(&ctx, args.fix)?;
    found.findings.extend(crate::cli::equipment::findings());
    let bad = found.findings.iter().any(|f| f.severity == Severity::Problem);
    if args.json {
        s.ui.json(&found)?;
    } else {
        let mut text: String = found.mended.iter().map(|f| line(s, "mended", Label::Good, f)).collect();
        for f in &found.findings {
            let (word, label) = match f.severity {
                Severity::Problem => ("problem", Label::Bad),
                Severity::Note => ("note", Label::Dim),
            };
            text.push_str(&line(s, word, label, f));
            if let Some(mend) = &f.mend {
                text.push_str(&format!("  mend: {}\n", safe_line(mend.as_bytes())));
            }
        }
        if text.is_empty() {
            text.push_str("nothing is wrong\n");
        }
        s.ui.page(&text)?;
    }
    Ok(if bad { code::NO } else { code::DONE })
}

fn line(s: &Session, word: &str, label: Label, f: &Finding) -> String {
    format!("{} {}: {}\n", s.ui.paint(label, word), f.about, safe_line(f.what.as_bytes()))
}
