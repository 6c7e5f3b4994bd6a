//! From a syntax tree to definitions and uses. No recursion: the text may be hostile.

use super::grammar::Grammar;
use super::{Definition, Outline};
use tree_sitter::{Node, Parser};

/// The outline of `text`; `None` where the parser gives up.
pub(super) fn outline(grammar: &Grammar, text: &[u8]) -> Option<Outline> {
    let mut parser = Parser::new();
    parser.set_language(&(grammar.language)()).ok()?;
    let tree = parser.parse(text, None)?;
    let mut out = Outline::default();
    // The definitions we are in: where each ends, and its full name.
    let mut inside: Vec<(usize, String)> = Vec::new();
    let mut names: Vec<std::ops::Range<usize>> = Vec::new();
    let mut cursor = tree.walk();
    loop {
        let node = cursor.node();
        while inside.last().is_some_and(|(end, _)| node.start_byte() >= *end) {
            inside.pop();
        }
        if let Some((name, range)) = defined(grammar, node, text) {
            let outer = [inside.last().map(|(_, n)| n.clone()), receiver(node, text)].into_iter().flatten().next();
            let full = outer.map_or_else(|| name.clone(), |o| format!("{o}.{name}"));
            out.definitions.push(Definition {
                name: full.clone(),
                short: name.rsplit("::").next().unwrap_or(&name).to_owned(),
                lines: lines(node),
                signature: signature(grammar, node, text),
            });
            names.push(range);
            inside.push((node.end_byte(), full));
        } else if is_name(node) && !names.iter().rev().take(8).any(|r| r.contains(&node.start_byte())) {
            *out.uses.entry(text_of(node, text)).or_default() += 1;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return Some(out);
            }
        }
    }
}

fn is_name(node: Node<'_>) -> bool {
    node.child_count() == 0 && node.is_named() && (node.kind().ends_with("identifier") || node.kind() == "constant")
}

fn text_of(node: Node<'_>, text: &[u8]) -> String {
    String::from_utf8_lossy(&text[node.byte_range()]).into_owned()
}

/// From 1; one that ends at the beginning of a line does not reach into it.
fn lines(node: Node<'_>) -> (u32, u32) {
    let (start, end) = (node.start_position(), node.end_position());
    let last = if end.column == 0 && end.row > start.row { end.row - 1 } else { end.row };
    let from_one = |row: usize| u32::try_from(row + 1).unwrap_or(u32::MAX);
    (from_one(start.row), from_one(last))
}

/// The name that `node` defines, and where it stands; `None` where it defines nothing.
fn defined(grammar: &Grammar, node: Node<'_>, text: &[u8]) -> Option<(String, std::ops::Range<usize>)> {
    let kind = node.kind();
    if !node.is_named() || ![grammar.headed, grammar.whole, grammar.holders].iter().any(|k| k.contains(&kind)) {
        return None;
    }
    // `struct p x;` and `enum e f(void);` only use one; a variable defines something where it holds a function.
    if kind.ends_with("_specifier") && node.child_by_field_name("body").is_none() {
        return None;
    }
    if matches!(kind, "variable_declarator" | "public_field_definition" | "field_definition") {
        let value = node.child_by_field_name("value")?;
        if !matches!(value.kind(), "arrow_function" | "function_expression" | "class" | "generator_function") {
            return None;
        }
    }
    let field = if kind == "impl_item" { "type" } else { "name" };
    let mut name = node.child_by_field_name(field).or_else(|| node.child_by_field_name("property"));
    // In C the name is at the heart of the declarator.
    let mut declarator = node.child_by_field_name("declarator").filter(|_| name.is_none());
    while let Some(d) = declarator {
        let inner = d.child_by_field_name("declarator").or_else(|| {
            let wrapper =
                matches!(d.kind(), "parenthesized_declarator" | "reference_declarator" | "attributed_declarator");
            d.named_child(0).filter(|_| wrapper)
        });
        if inner.is_none() {
            name = Some(d);
        }
        declarator = inner;
    }
    let name = name?;
    let mut text = text_of(name, text);
    // `impl Trait for Type<T>`: the type alone.
    if let Some(at) = text.find('<').filter(|at| *at > 0 && kind != "function_definition") {
        text.truncate(at);
    }
    (!text.is_empty()).then(|| (text, name.byte_range()))
}

/// The type that a method of Go belongs to.
fn receiver(node: Node<'_>, text: &[u8]) -> Option<String> {
    let receiver = node.child_by_field_name("receiver").filter(|_| node.kind() == "method_declaration")?;
    let words = text_of(receiver, text);
    let word = words.trim_matches(['(', ')']).rsplit([' ', '*']).next()?.split('[').next()?.to_owned();
    (!word.is_empty()).then_some(word)
}

/// What users depend on.
fn signature(grammar: &Grammar, node: Node<'_>, text: &[u8]) -> Option<String> {
    if grammar.holders.contains(&node.kind()) {
        return None;
    }
    let body = if grammar.whole.contains(&node.kind()) {
        None
    } else {
        let value = node.child_by_field_name("value");
        let body = node.child_by_field_name("body").or_else(|| value?.child_by_field_name("body"));
        // In Ruby the parameters end the head, and a body may have no field of its own.
        body.map(|b| b.start_byte()).or_else(|| node.child_by_field_name("parameters").map(|p| p.end_byte()))
    };
    let end = body.unwrap_or(node.end_byte()).max(node.start_byte());
    let head = String::from_utf8_lossy(&text[node.start_byte()..end]).into_owned();
    Some(head.split_whitespace().collect::<Vec<_>>().join(" "))
}
