//! What an agent changed, for git itself to show: two commits, of which one may be a snapshot that is only here.

use super::inventory::{Agent, Inventory, head_commit};
use super::overlap::{Look, Round};
use super::{Context, Error, Result, report};
use crate::git::command::Call;
use crate::git::status::Place;
use crate::git::worktree::Link;
use crate::model::agent::Oid;
use crate::model::overlap::{Side, SideKind};
use crate::model::text::safe_path;

/// Two commits to compare. What is not committed is in objects that go with this.
#[derive(Debug)]
pub struct Comparison<'c> {
    round: Round<'c>,
    from: Oid,
    to: Oid,
    /// What is not in it, for the one who looks.
    pub warnings: Vec<String>,
}

impl Comparison<'_> {
    /// `git diff` of the two as the user's own, with further arguments, in the terminal. Its exit code.
    pub fn show<A: AsRef<std::ffi::OsStr>>(&self, ctx: &Context, args: &[A]) -> Result<i32> {
        let mut call = Call::user_visible(&ctx.cwd, ["diff", &self.from.0, &self.to.0]).as_person();
        // Paths alone need not be there in this checkout.
        if args.first().is_some_and(|a| !a.as_ref().as_encoded_bytes().starts_with(b"-")) {
            call.arg("--");
        }
        for a in args {
            call.arg(a);
        }
        if let Some(program) = std::env::var_os("GIT_EXTERNAL_DIFF") {
            call = call.env("GIT_EXTERNAL_DIFF", program);
        }
        Ok(self.round.lend(call).in_terminal()?)
    }
}

/// `a` against where its work began or was last merged with its base; with `b`, `b` against `a`. As they are now, with
/// what is not committed.
pub fn compare<'c>(ctx: &'c Context, inv: &Inventory, a: &Agent, b: Option<&Agent>) -> Result<Comparison<'c>> {
    let round = Round::begin(ctx)?;
    let mut warnings = Vec::new();
    let mut now = |a: &Agent| -> Result<Oid> {
        let side = look(&round, inv, a);
        if side.unmerged {
            warnings
                .push(format!("'{}' is in the middle of a conflict: only what is committed is compared", a.reg.name));
        }
        for (path, why) in &side.doubtful {
            warnings.push(format!("'{}' of '{}' is left out: {why}", safe_path(path), a.reg.name));
        }
        let refused = |why| Error::refused(format!("'{}' cannot be compared: {why}", a.reg.name), "git agents status");
        side.commit.map_err(refused)
    };
    let (from, to) = match b {
        Some(b) => (now(a)?, now(b)?),
        None => {
            let to = now(a)?;
            let tip = a.tip.clone().unwrap_or_else(|| to.clone());
            (report::since(ctx, inv, a, &tip)?, to)
        }
    };
    Ok(Comparison { round, from, to, warnings })
}

fn look(round: &Round<'_>, inv: &Inventory, a: &Agent) -> Side {
    let entry = a.entry.as_ref().filter(|e| e.link() == Link::Good);
    let head = entry.and_then(|e| head_commit(inv, &e.head).1);
    let place = entry.map(|e| Place { worktree: &e.path, admin: &e.admin, head: head.as_ref() });
    let look = Look {
        name: a.reg.name.0.clone(),
        kind: SideKind::Agent,
        group: None,
        after: Vec::new(),
        tip: a.tip.clone(),
        place,
    };
    let unknown = || Side::unknown(&look.name, look.kind, None, "it was not read");
    round.sides(std::slice::from_ref(&look)).pop().unwrap_or_else(unknown)
}
