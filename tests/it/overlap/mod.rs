//! Overlap, asked of the library in a process with an environment of its own: settings and attributes of a user count.

mod agreement;
mod cases;
mod pairs;
mod snapshots;

use crate::support::{Env, Repo};
use git_agents::git::status::Place;
use git_agents::git::{refs, worktree};
use git_agents::model::agent::Oid;
use git_agents::model::overlap::{Pair, SideKind};
use git_agents::ops::Context;
use git_agents::ops::overlap::{Look, Round};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is asked; see [`answer_in_a_process_of_its_own`].
pub struct Ask<'a> {
    pub env: &'a Env,
    pub dir: PathBuf,
    /// Sides: name, tip (empty for none), worktree (empty for none), group.
    pub sides: Vec<(String, String, PathBuf, String)>,
    pub base: String,
    pub order: bool,
    /// So many edits, each followed by a look at that side alone, and by one at everything.
    pub saves: usize,
    /// Without a folder of ours in the repository nothing is cached.
    pub variables: Vec<(&'static str, String)>,
}

impl<'a> Ask<'a> {
    pub fn new(repo: &Repo<'a>) -> Ask<'a> {
        let base = repo.tip("refs/heads/main");
        Ask { env: repo.env, dir: repo.path().into(), sides: vec![], base, order: false, saves: 0, variables: vec![] }
    }

    /// A branch by its tip.
    pub fn branch(mut self, repo: &Repo<'_>, name: &str) -> Ask<'a> {
        self.sides.push((name.to_owned(), repo.tip(name), PathBuf::new(), String::new()));
        self
    }

    /// A worktree with what is in it.
    pub fn place(mut self, name: &str, at: &Path) -> Ask<'a> {
        self.sides.push((name.to_owned(), String::new(), at.to_owned(), String::new()));
        self
    }

    pub fn run(&self) -> Value {
        let mut command = self.env.command(std::env::current_exe().unwrap(), &self.dir);
        for (k, v) in &self.variables {
            command.env(k, v);
        }
        answer(command, self)
    }
}

fn answer(mut command: Command, ask: &Ask<'_>) -> Value {
    let dir = tempfile::tempdir_in(ask.env.root()).unwrap();
    let side = |s: &(String, String, PathBuf, String)| json!([s.0, s.1, s.2, s.3]);
    let sides: Vec<Value> = ask.sides.iter().map(side).collect();
    std::fs::write(
        dir.path().join("ask"),
        json!({"sides": sides, "base": ask.base, "order": ask.order, "saves": ask.saves}).to_string(),
    )
    .unwrap();
    command.args(["--exact", "overlap::answer_in_a_process_of_its_own", "--ignored", "--nocapture"]);
    command.env("AGENTS_TEST_ASK", dir.path());
    crate::support::env::run(command, b"").ok();
    serde_json::from_slice(&std::fs::read(dir.path().join("answer")).unwrap()).unwrap()
}

/// Name, group, tip, and a worktree with its admin directory and commit.
type Found = (String, String, Option<Oid>, Option<(PathBuf, PathBuf, Option<Oid>)>);

#[test]
#[ignore = "the other end of `Ask`"]
fn answer_in_a_process_of_its_own() {
    let Some(dir) = std::env::var_os("AGENTS_TEST_ASK").map(PathBuf::from) else { return };
    let ask: Value = serde_json::from_slice(&std::fs::read(dir.join("ask")).unwrap()).unwrap();
    let ctx = Context::open(&std::env::current_dir().unwrap()).unwrap();
    let repo = ctx.repo();
    let entries = worktree::list(repo).unwrap();
    let found: Vec<Found> = ask["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| {
            let text = |i: usize| s[i].as_str().unwrap().to_owned();
            let place = (!text(2).is_empty()).then(|| {
                let path = PathBuf::from(text(2));
                let (admin, head) = match entries.iter().find(|e| e.path == path) {
                    Some(e) => (e.admin.clone(), e.head.clone()),
                    None => (repo.common_dir.clone(), worktree::head(repo, &repo.common_dir)),
                };
                let head = match head {
                    worktree::Head::Branch(b) => refs::read(repo, &b).unwrap(),
                    worktree::Head::Detached(id) => Some(id),
                    worktree::Head::Unknown => None,
                };
                (path, admin, head)
            });
            (text(0), text(3), Oid::parse(&text(1)), place)
        })
        .collect();
    let looks: Vec<Look<'_>> = found
        .iter()
        .map(|(name, group, tip, place)| Look {
            name: name.clone(),
            kind: SideKind::Agent,
            group: (!group.is_empty()).then(|| group.clone()),
            after: Vec::new(),
            tip: tip.clone().or_else(|| place.as_ref().and_then(|p| p.2.clone())),
            place: place.as_ref().map(|(w, a, h)| Place { worktree: w, admin: a, head: h.as_ref() }),
        })
        .collect();
    let round = Round::begin(&ctx).unwrap();
    let base = Oid::parse(ask["base"].as_str().unwrap()).unwrap();
    let mut sides = round.sides(&looks);
    let pairs = round.verdicts(&base, &sides);
    let mut r = cases::Random::new(&format!("saves in {} worktrees at {base}", looks.len()));
    for n in 0..usize::try_from(ask["saves"].as_u64().unwrap()).unwrap() {
        let i = r.below(looks.len());
        pairs::edit(looks[i].place.as_ref().unwrap().worktree, &mut r, &format!("save-{n}"));
        sides[i] = round.sides(&looks[i..=i]).remove(0);
        let anew = Round::begin(&ctx).unwrap();
        let found = anew.verdicts(&base, &anew.sides(&looks));
        assert_eq!(round.verdicts(&base, &sides), found, "after save {n}, in {i}");
    }
    let steps = if ask["order"] == true { round.order(&base, &sides, &pairs.pairs, &|_| 0) } else { Vec::new() };
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    let pair = |p: &Pair| {
        let meetings: Vec<Value> = p
            .meetings
            .iter()
            .map(|m| {
                json!({"path": text(&m.path), "level": m.level, "kind": m.kind, "a_lines": m.a_lines, "b_lines": m.b_lines})
            })
            .collect();
        let twins: Vec<Value> = p.twins.iter().map(|(a, b)| json!([text(a), text(b)])).collect();
        let (a, b) = (&sides[p.a].name, &sides[p.b].name);
        json!({"a": a, "b": b, "level": p.level, "unknown": p.unknown, "meetings": meetings, "twins": twins})
    };
    let answer = json!({
        "sides": sides.iter().zip(&pairs.sides).map(|(s, f)| json!({
            "name": s.name, "dirty": s.dirty, "unmerged": s.unmerged, "commit": s.commit.as_ref().ok(), "tip": s.tip,
            "doubtful": s.doubtful.iter().map(|(p, w)| (text(p), json!(w))).collect::<serde_json::Map<_, _>>(),
            "tree": f.tree, "merge_base": f.merge_base, "paths": f.paths, "unknown": f.unknown,
        })).collect::<Vec<_>>(),
        "pairs": pairs.pairs.iter().map(pair).collect::<Vec<_>>(),
        "with_base": round.with_base(&base, &sides).iter().map(pair).collect::<Vec<_>>(),
        "order": steps.iter().map(|s| json!({
            "name": sides[s.side].name, "unknown": s.unknown,
            "stops": s.stops.iter().map(|p| text(p)).collect::<Vec<_>>(),
            "with": s.conflicts_with_landed.iter().map(|i| &sides[*i].name).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    });
    drop(round);
    std::fs::write(dir.join("answer"), answer.to_string()).unwrap();
}

/// The pair of two names, whichever way round it is listed; null where it is not.
pub fn pair(answer: &Value, a: &str, b: &str) -> Value {
    let found = answer["pairs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|p| (p["a"] == a && p["b"] == b) || (p["a"] == b && p["b"] == a));
    found.cloned().unwrap_or(Value::Null)
}

/// The level of a pair, `none` where it is not listed, `unknown` where it is.
pub fn level(answer: &Value, a: &str, b: &str) -> String {
    let p = pair(answer, a, b);
    if p["unknown"].is_string() {
        return "unknown".into();
    }
    p["level"].as_str().unwrap_or("none").to_owned()
}

/// The conflicted paths of a pair.
pub fn stops(pair: &Value) -> Vec<String> {
    let all = pair["meetings"].as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter(|m| m["level"] == "conflict").map(|m| m["path"].as_str().unwrap().to_owned()).collect()
}
