//! From items to tasks: names, groups, and what comes after what.

use super::name::{Used, check_name, from_title, with_suffix};
use super::{Known, MOST_PROMPT, MOST_TASKS, Mistake, RawItem, RawList, TaskList, TaskSpec};
use crate::model::agent::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Tries for a free name; more means that `taken` says yes to everything.
const MOST_TRIES: usize = 1000;

/// Gives every task its name, makes one task for each assistant, and finds what `after` means. The list's own
/// mistakes come back with those found here, sorted by line.
pub fn resolve(raw: RawList, known: &Known<'_>) -> Result<TaskList, Vec<Mistake>> {
    let mut r = Resolver { mistakes: raw.mistakes, items: raw.items, tasks: Vec::new(), of_item: Vec::new() };
    if r.items.is_empty() && r.mistakes.is_empty() {
        r.say(1, "there is no task; tasks are numbered, '1. …'");
    }
    r.numbers();
    r.drafts(&raw.preamble, known);
    if r.tasks.len() > MOST_TASKS {
        r.say(1, format!("{} tasks are more than the {MOST_TASKS} of a list", r.tasks.len()));
    } else {
        r.names(known);
        r.order();
    }
    if !r.mistakes.is_empty() {
        r.mistakes.sort();
        r.mistakes.dedup();
        return Err(r.mistakes);
    }
    let done = r.items.iter().filter(|i| i.done).count();
    Ok(TaskList { tasks: r.tasks, done })
}

struct Resolver {
    mistakes: Vec<Mistake>,
    items: Vec<RawItem>,
    tasks: Vec<TaskSpec>,
    /// Item by item: the range of its tasks, empty for one that is done.
    of_item: Vec<std::ops::Range<usize>>,
}

/// What one entry of `after` means.
enum Target {
    Task(usize),
    Done,
    Group(usize),
    Several,
    Unknown,
}

impl Resolver {
    fn say(&mut self, line: usize, message: impl Into<String>) {
        self.mistakes.push(Mistake::new(line, message));
    }

    fn numbers(&mut self) {
        let mut first = BTreeMap::new();
        for item in &self.items {
            if let Some(line) = first.insert(item.number, item.line) {
                first.insert(item.number, line);
                let message = format!("number {} is in line {line} already; each number names one task", item.number);
                self.mistakes.push(Mistake::new(item.line, message));
            }
        }
    }

    /// The name an item would have if it were alone in the world.
    fn wish(item: &RawItem) -> String {
        item.attrs.name.clone().unwrap_or_else(|| from_title(&item.title, item.number))
    }

    fn drafts(&mut self, preamble: &str, known: &Known<'_>) {
        for item in &self.items {
            let start = self.tasks.len();
            if !item.done {
                let prompt =
                    if preamble.is_empty() { item.prompt.clone() } else { format!("{preamble}\n\n{}", item.prompt) };
                if prompt.len() > MOST_PROMPT {
                    let message =
                        format!("the prompt of task {} is longer than {} KiB", item.number, MOST_PROMPT >> 10);
                    self.mistakes.push(Mistake::new(item.line, message));
                }
                let assistants = if item.attrs.assistant.is_empty() { known.assistants } else { &item.attrs.assistant };
                let wish = Self::wish(item);
                let base = if item.attrs.name.is_some() { wish.clone() } else { with_room(&wish, assistants) };
                for i in 0..assistants.len().max(1) {
                    let mut attrs = item.attrs.clone();
                    attrs.assistant = assistants.get(i).cloned().into_iter().collect();
                    self.tasks.push(TaskSpec {
                        line: item.line,
                        number: item.number,
                        title: item.title.clone(),
                        prompt: prompt.clone(),
                        name: Name(format!("{base}{}", member(assistants, i))),
                        attrs,
                        group: (assistants.len() > 1).then(|| base.clone()),
                        after: Vec::new(),
                        started: None,
                    });
                    if self.tasks.len() > 2 * MOST_TASKS {
                        break;
                    }
                }
            }
            self.of_item.push(start..self.tasks.len());
        }
    }

    /// Explicit names first, as they cannot give way; then the others, in the order of the list.
    fn names(&mut self, known: &Known<'_>) {
        for task in &mut self.tasks {
            task.started = (known.started)(task);
        }
        let mut used = Used::default();
        for explicit in [true, false] {
            for i in 0..self.items.len() {
                if self.of_item[i].is_empty() || self.items[i].attrs.name.is_some() != explicit {
                    continue;
                }
                self.name_item(i, explicit, known, &mut used);
            }
        }
        for task in &mut self.tasks {
            if let Some(name) = &task.started {
                task.name = name.clone();
            }
        }
    }

    fn name_item(&mut self, item: usize, explicit: bool, known: &Known<'_>, used: &mut Used) {
        let range = self.of_item[item].clone();
        let tasks = &mut self.tasks[range];
        let base = tasks[0].group.clone().unwrap_or_else(|| tasks[0].name.0.clone());
        let suffixes: Vec<String> = tasks.iter().map(|t| t.name.0[base.len()..].to_owned()).collect();
        // What is there already keeps its name, whatever that is; only what will be made needs a free one.
        let new: Vec<usize> = (0..tasks.len()).filter(|i| tasks[*i].started.is_none()).collect();
        if new.is_empty() {
            return;
        }
        let line = tasks[0].line;
        let mut wrong = None;
        for n in 1..=MOST_TRIES {
            let base = if n == 1 { base.clone() } else { with_suffix(&base, &format!("-{n}")) };
            let names: Vec<String> = new.iter().map(|i| format!("{base}{}", suffixes[*i])).collect();
            let all = || names.iter().chain(std::iter::once(&base));
            wrong = if let Some(name) = all().find(|name| used.clashes(name)) {
                Some(format!("name '{name}' cannot stand beside another of this list"))
            } else if let Some(name) = names.iter().find(|name| (known.taken)(name)) {
                Some(format!("name '{name}' is taken"))
            } else {
                names.iter().find_map(|name| check_name(name).err())
            };
            if wrong.is_none() {
                all().for_each(|name| used.add(name));
                for (i, name) in new.iter().zip(names) {
                    tasks[*i].name = Name(name);
                }
                tasks.iter_mut().filter(|t| t.group.is_some()).for_each(|t| t.group = Some(base.clone()));
                return;
            }
            if explicit {
                // Said once; those that follow are compared with it all the same.
                all().for_each(|name| used.add(name));
                break;
            }
        }
        self.mistakes.extend(wrong.map(|message| Mistake::new(line, message)));
    }

    fn order(&mut self) {
        for i in 0..self.items.len() {
            let range = self.of_item[i].clone();
            if range.is_empty() {
                continue;
            }
            let (number, line) = (self.items[i].number, self.items[i].line);
            let mut after = BTreeSet::new();
            for wanted in self.items[i].attrs.after.clone() {
                let shown = wanted.escape_debug();
                match self.target(&wanted) {
                    Target::Task(t) if range.contains(&t) => self.say(line, format!("task {number} waits for itself")),
                    Target::Task(t) => drop(after.insert(t)),
                    Target::Done => {}
                    Target::Group(g) if g == i => self.say(line, format!("task {number} waits for itself")),
                    Target::Group(g) => {
                        let members: Vec<_> =
                            self.tasks[self.of_item[g].clone()].iter().map(|t| t.name.0.as_str()).collect();
                        let members = members.join("', '");
                        self.say(line, format!("'after={shown}' means several agents; name one: '{members}'"));
                    }
                    Target::Several => {
                        self.say(line, format!("'after={shown}' can mean several tasks; give the number"))
                    }
                    Target::Unknown => self.say(line, format!("'after={shown}' is no task of this list")),
                }
            }
            for t in range {
                self.tasks[t].after = after.iter().copied().collect();
            }
        }
        self.cycles();
    }

    /// A number as written, a name as given, or the name as it would be: the reader of the list does not know that
    /// `csv-export` became `csv-export-2` because there was one.
    fn target(&self, wanted: &str) -> Target {
        let item = |i: usize| match self.of_item[i].len() {
            0 => Target::Done,
            1 => Target::Task(self.of_item[i].start),
            _ => Target::Group(i),
        };
        if wanted.bytes().all(|b| b.is_ascii_digit()) {
            let number = wanted.parse::<u32>().ok();
            return self.items.iter().position(|i| Some(i.number) == number).map_or(Target::Unknown, item);
        }
        if let Some(t) = self.tasks.iter().position(|t| t.name.0 == wanted) {
            return Target::Task(t);
        }
        let mut wishes = (0..self.items.len()).filter(|i| {
            Self::wish(&self.items[*i]) == wanted
                || self.tasks[self.of_item[*i].clone()].first().is_some_and(|t| t.group.as_deref() == Some(wanted))
        });
        match (wishes.next(), wishes.next()) {
            (Some(i), None) => item(i),
            (Some(_), Some(_)) => Target::Several,
            (None, _) => Target::Unknown,
        }
    }

    /// Every task that waits for itself through others is in one message, with the way around.
    fn cycles(&mut self) {
        let mut open: Vec<bool> = vec![true; self.tasks.len()];
        // What waits for nothing that is open is no part of a cycle.
        loop {
            let free: Vec<usize> =
                (0..open.len()).filter(|t| open[*t] && !self.tasks[*t].after.iter().any(|a| open[*a])).collect();
            if free.is_empty() {
                break;
            }
            free.into_iter().for_each(|t| open[t] = false);
        }
        while let Some(start) = open.iter().position(|o| *o) {
            // From anywhere open, going on leads into a cycle.
            let mut way: Vec<usize> = Vec::new();
            let mut at = start;
            let cycle = loop {
                if let Some(i) = way.iter().position(|t| *t == at) {
                    break Some(way.split_off(i));
                }
                way.push(at);
                match self.tasks[at].after.iter().find(|a| open[**a]) {
                    Some(next) => at = *next,
                    None => break None,
                }
            };
            for t in way {
                open[t] = false;
            }
            let Some(mut cycle) = cycle else { continue };
            cycle.iter().for_each(|t| open[*t] = false);
            let first = cycle.iter().enumerate().min_by_key(|(_, t)| **t).map_or(0, |(i, _)| i);
            cycle.rotate_left(first);
            let mut numbers: Vec<String> = cycle.iter().map(|t| self.tasks[*t].number.to_string()).collect();
            numbers.push(numbers[0].clone());
            let message = format!("tasks wait for each other: {}", numbers.join(" after "));
            self.say(self.tasks[cycle[0]].line, message);
        }
    }
}

/// What distinguishes member `i` of a group: the assistant, a count where that is not enough, nothing for one alone.
fn member(assistants: &[String], i: usize) -> String {
    if assistants.len() < 2 {
        return String::new();
    }
    let name = &assistants[i];
    let count = 1 + assistants[..i].iter().filter(|a| *a == name).count();
    match (assistants.iter().all(|a| a == name), assistants.iter().filter(|a| *a == name).count() > 1) {
        (true, _) => format!("-{count}"),
        (false, true) => format!("-{}-{count}", safe(name)),
        (false, false) => format!("-{}", safe(name)),
    }
}

fn safe(assistant: &str) -> String {
    assistant.to_ascii_lowercase().replace(['.', '_'], "-")
}

/// A derived name, shortened so that the longest member's suffix fits too.
fn with_room(wish: &str, assistants: &[String]) -> String {
    let longest = (0..assistants.len()).map(|i| member(assistants, i).len()).max().unwrap_or(0);
    let mut name = with_suffix(wish, &"x".repeat(longest));
    name.truncate(name.len() - longest);
    name
}
