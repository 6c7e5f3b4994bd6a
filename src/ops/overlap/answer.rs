//! The public shape of `overlap --json`, and how it is asked for.

use super::Round;
use super::parties::{Compared, base_tip};
use crate::model::agent::Oid;
use crate::model::flags::{migration_number, regenerated_by};
use crate::model::meet::is_below;
use crate::model::overlap::{Kind, Level, Lines, Meeting, Pair, Side, SideKind};
use crate::model::task::short_ref;
use crate::ops::answer::JsonPath;
use crate::ops::inventory::Inventory;
use crate::ops::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A party.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct PartyAnswer {
    pub name: String,
    pub kind: SideKind,
    pub group: Option<String>,
    pub branch: Option<String>,
    pub tip: Option<Oid>,
    /// The tree that was compared.
    pub snapshot: Option<Oid>,
    pub dirty: bool,
    pub merge_base: Option<Oid>,
    pub paths: Option<usize>,
    /// Why it could not be read; it has no pair then, and is not free of overlap.
    pub unknown: Option<String>,
}

/// A path two parties meet on.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct PathAnswer {
    pub path: JsonPath,
    pub level: Level,
    pub kind: Option<Kind>,
    pub a_lines: Vec<Lines>,
    pub b_lines: Vec<Lines>,
    pub symbol: Option<String>,
    /// The path of `b`, where it is another one.
    pub other_path: Option<JsonPath>,
    /// What to do about it, where there is a known way.
    pub hint: Option<String>,
}

/// Two parties that meet, or of which it could not be told.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct PairAnswer {
    pub a: String,
    pub b: String,
    /// `null` where it is unknown, which is never "free".
    pub level: Option<Level>,
    pub paths: Vec<PathAnswer>,
    pub unknown: Option<String>,
}

/// A party against its base as that is now.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct WithBaseAnswer {
    pub agent: String,
    pub base: String,
    pub level: Option<Level>,
    pub paths: Vec<PathAnswer>,
    pub unknown: Option<String>,
}

/// One step of landing.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct StepAnswer {
    pub name: String,
    pub conflicts_with_landed: Vec<String>,
    pub instead_of: Vec<String>,
    pub stops: Vec<JsonPath>,
    pub unknown: Option<String>,
}

/// Names that some file systems cannot keep apart.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct WarningAnswer {
    pub a: String,
    pub b: String,
    pub paths: [JsonPath; 2],
}

/// `overlap --json`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "documented in the manual's table of overlap fields")]
pub struct Overlaps {
    pub version: u32,
    pub base: Option<String>,
    pub agents: Vec<PartyAnswer>,
    pub pairs: Vec<PairAnswer>,
    pub with_base: Vec<WithBaseAnswer>,
    pub order: Option<Vec<StepAnswer>>,
    pub warnings: Vec<WarningAnswer>,
    pub merged: Option<()>,
}

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Agents by name, or branches; all agents and changed checkouts where there are none.
    pub names: Vec<String>,
    /// Only these paths and what is below them.
    pub paths: Vec<Vec<u8>>,
    /// Remote-tracking branches that are ahead of the base take part.
    pub remotes: bool,
    /// The order of landing.
    pub order: bool,
}

/// Answers the question.
pub fn answer(ctx: &Context, inv: &Inventory, question: &Question) -> Result<Overlaps> {
    let round = Round::begin(ctx)?;
    let compared = Compared::read(ctx, inv, &round, question)?;
    compose(&round, inv, &compared, question)
}

/// The answer of a round about those who were compared.
pub(super) fn compose(round: &Round<'_>, inv: &Inventory, c: &Compared, question: &Question) -> Result<Overlaps> {
    let mut out = Overlaps {
        version: 1,
        base: c.base.as_ref().map(|(name, _)| short_ref(name).to_owned()),
        agents: Vec::new(),
        pairs: Vec::new(),
        with_base: Vec::new(),
        order: question.order.then(Vec::new),
        warnings: Vec::new(),
        merged: None,
    };
    let Some(base) = c.base_commit() else { return Ok(out) };
    let name = |i: usize| c.sides[i].name.clone();
    let found = round.verdicts(base, &c.sides);
    let named = |i: usize| question.names.contains(&c.sides[i].name);
    let asked = |p: &Pair| match question.names.len() {
        0 => true,
        1 => named(p.a) || named(p.b),
        _ => named(p.a) && named(p.b),
    };
    for p in found.pairs.iter().filter(|p| asked(p)) {
        for (x, y) in &p.twins {
            let paths = [JsonPath::from(x.as_slice()), JsonPath::from(y.as_slice())];
            out.warnings.push(WarningAnswer { a: name(p.a), b: name(p.b), paths });
        }
        let (level, paths) = narrowed(p, &question.paths);
        if level != Some(Level::None) {
            out.pairs.push(PairAnswer { a: name(p.a), b: name(p.b), level, paths, unknown: p.unknown.clone() });
        }
    }
    for (base_name, members) in by_base(c) {
        let Some(tip) = base_tip(inv, &base_name) else {
            let unknown = Some(format!("'{}' is gone", short_ref(&base_name)));
            out.with_base.extend(members.iter().map(|i| WithBaseAnswer {
                agent: name(*i),
                base: short_ref(&base_name).to_owned(),
                level: None,
                paths: Vec::new(),
                unknown: unknown.clone(),
            }));
            continue;
        };
        let sides: Vec<Side> = members.iter().map(|i| c.sides[*i].clone()).collect();
        for (i, p) in members.iter().zip(round.with_base(&tip, &sides)) {
            if question.names.is_empty() || named(*i) {
                let (level, paths) = narrowed(&p, &question.paths);
                out.with_base.push(WithBaseAnswer {
                    agent: name(*i),
                    base: short_ref(&base_name).to_owned(),
                    level,
                    paths,
                    unknown: p.unknown,
                });
            }
        }
    }
    if let Some(order) = &mut out.order {
        // Who has changed nothing has nothing to land.
        let works = |i: usize| found.sides[i].paths != Some(0) || !c.sides[i].doubtful.is_empty();
        let is_agent =
            |i: &usize| c.sides[*i].kind == SideKind::Agent && works(*i) && (question.names.len() < 2 || named(*i));
        let members: Vec<usize> = (0..c.sides.len()).filter(is_agent).collect();
        let sides: Vec<Side> = members.iter().map(|i| c.sides[*i].clone()).collect();
        let place = |i: usize| members.iter().position(|m| *m == i);
        let pairs: Vec<Pair> =
            found.pairs.iter().filter_map(|p| Some(Pair { a: place(p.a)?, b: place(p.b)?, ..p.clone() })).collect();
        let names = |of: Vec<usize>| of.into_iter().map(|i| sides[i].name.clone()).collect();
        for step in round.order(base, &sides, &pairs, &|_| 0) {
            order.push(StepAnswer {
                name: sides[step.side].name.clone(),
                conflicts_with_landed: names(step.conflicts_with_landed),
                instead_of: names(step.instead_of),
                stops: step.stops.iter().map(|p| JsonPath::from(p.as_slice())).collect(),
                unknown: step.unknown,
            });
        }
    }
    let met = || out.pairs.iter().flat_map(|p| &p.paths).chain(out.with_base.iter().flat_map(|w| &w.paths));
    let generated = round.generated(base, &met().map(|p| p.path.raw()).collect());
    let paths = out.pairs.iter_mut().flat_map(|p| &mut p.paths);
    for p in paths.chain(out.with_base.iter_mut().flat_map(|w| &mut w.paths)) {
        if p.hint.is_none() && generated.contains(&p.path.raw()) {
            p.hint = Some("a generated file: after merging, what makes it makes it again".to_owned());
        }
    }
    for ((p, side), facts) in c.parties.iter().zip(&c.sides).zip(found.sides) {
        out.agents.push(PartyAnswer {
            name: p.name.clone(),
            kind: p.kind,
            group: p.group.clone(),
            branch: p.branch.clone(),
            tip: side.tip.clone().or_else(|| p.tip.clone()),
            snapshot: facts.tree,
            dirty: side.dirty,
            merge_base: facts.merge_base,
            paths: facts.paths,
            unknown: facts.unknown.or_else(|| {
                side.unmerged
                    .then(|| "it is in the middle of resolving conflicts: compared by its last commit".to_owned())
            }),
        });
    }
    Ok(out)
}

/// Sides by the base they land on; a checkout of the base itself lands nowhere.
fn by_base(c: &Compared) -> BTreeMap<String, Vec<usize>> {
    let mut out: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, p) in c.parties.iter().enumerate() {
        if let Some(base) = p.base.as_ref().filter(|b| Some(short_ref(b)) != p.branch.as_deref()) {
            out.entry(base.clone()).or_default().push(i);
        }
    }
    out
}

/// Level and meetings of a pair on some paths alone.
fn narrowed(p: &Pair, paths: &[Vec<u8>]) -> (Option<Level>, Vec<PathAnswer>) {
    let below = |path: &[u8]| paths.is_empty() || paths.iter().any(|dir| is_below(path, dir));
    let at = |m: &&Meeting| below(&m.path) || m.other.as_deref().is_some_and(below);
    let there: Vec<&Meeting> = p.meetings.iter().filter(at).collect();
    let worst = there.iter().map(|m| m.level).max().unwrap_or(Level::None);
    let doubted = p.unknown.is_some() && (p.doubts.is_empty() || p.doubts.iter().any(|d| below(d)));
    let level = (!doubted || worst == Level::Conflict).then_some(worst);
    (level, there.into_iter().map(PathAnswer::from).collect())
}

impl From<&Meeting> for PathAnswer {
    fn from(m: &Meeting) -> PathAnswer {
        PathAnswer {
            path: JsonPath::from(m.path.as_slice()),
            level: m.level,
            kind: m.kind,
            a_lines: m.a_lines.clone(),
            b_lines: m.b_lines.clone(),
            symbol: m.symbol.clone(),
            other_path: m.other.as_deref().map(JsonPath::from),
            hint: hint(m),
        }
    }
}

/// What to do about a meeting, where there is a known way.
fn hint(m: &Meeting) -> Option<String> {
    if let Some(command) = regenerated_by(&m.path) {
        return Some(format!("a lock file: after merging, '{command}' writes it again"));
    }
    if m.endings {
        return Some("one side changes line endings only".to_owned());
    }
    let (_, number) = migration_number(&m.path)?;
    m.other.as_ref().filter(|_| m.symbol.is_none())?;
    Some(format!("both are migration number {number}: one has to get another"))
}
