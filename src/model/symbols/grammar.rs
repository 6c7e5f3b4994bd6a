//! The languages that are parsed, as data: which nodes define something.

/// A language.
#[derive(Debug)]
pub(super) struct Grammar {
    /// Its parser.
    pub(super) language: fn() -> tree_sitter::Language,
    /// Nodes that define something whose users depend on all before its body.
    pub(super) headed: &'static [&'static str],
    /// Nodes that define something whose users depend on all of it: a record, an alias, a macro.
    pub(super) whole: &'static [&'static str],
    /// Nodes that only hold definitions.
    pub(super) holders: &'static [&'static str],
}

/// The language of files with this ending.
pub(super) fn of(extension: &str) -> Option<&'static Grammar> {
    Some(match extension {
        "rs" => &RUST,
        "py" | "pyi" => &PYTHON,
        "js" | "jsx" | "mjs" | "cjs" => &JAVASCRIPT,
        "ts" | "mts" | "cts" => &TYPESCRIPT,
        "tsx" => &TSX,
        "go" => &GO,
        "java" => &JAVA,
        "c" => &C,
        // A header may be either; the grammar of C++ reads both.
        "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => &CPP,
        "rb" | "rake" => &RUBY,
        _ => return None,
    })
}

static RUST: Grammar = Grammar {
    language: || tree_sitter_rust::LANGUAGE.into(),
    headed: &["function_item", "function_signature_item", "trait_item"],
    whole: &["struct_item", "enum_item", "union_item", "type_item", "const_item", "static_item", "macro_definition"],
    holders: &["impl_item", "mod_item"],
};

static PYTHON: Grammar = Grammar {
    language: || tree_sitter_python::LANGUAGE.into(),
    headed: &["function_definition", "class_definition"],
    whole: &[],
    holders: &[],
};

const SCRIPT_HEADED: &[&str] = &[
    "function_declaration",
    "generator_function_declaration",
    "class_declaration",
    "abstract_class_declaration",
    "method_definition",
    "variable_declarator",
    "public_field_definition",
    "field_definition",
];

static JAVASCRIPT: Grammar =
    Grammar { language: || tree_sitter_javascript::LANGUAGE.into(), headed: SCRIPT_HEADED, whole: &[], holders: &[] };

static TYPESCRIPT: Grammar = Grammar {
    language: || tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
    headed: SCRIPT_HEADED,
    whole: &["interface_declaration", "type_alias_declaration", "enum_declaration"],
    holders: &["internal_module"],
};

static TSX: Grammar = Grammar {
    language: || tree_sitter_typescript::LANGUAGE_TSX.into(),
    headed: SCRIPT_HEADED,
    whole: &["interface_declaration", "type_alias_declaration", "enum_declaration"],
    holders: &["internal_module"],
};

static GO: Grammar = Grammar {
    language: || tree_sitter_go::LANGUAGE.into(),
    headed: &["function_declaration", "method_declaration"],
    whole: &["type_spec", "type_alias"],
    holders: &[],
};

static JAVA: Grammar = Grammar {
    language: || tree_sitter_java::LANGUAGE.into(),
    headed: &[
        "class_declaration",
        "interface_declaration",
        "record_declaration",
        "annotation_type_declaration",
        "method_declaration",
        "constructor_declaration",
    ],
    whole: &["enum_declaration"],
    holders: &[],
};

static C: Grammar = Grammar {
    language: || tree_sitter_c::LANGUAGE.into(),
    headed: &["function_definition"],
    whole: &["struct_specifier", "union_specifier", "enum_specifier", "type_definition", "preproc_function_def"],
    holders: &[],
};

static CPP: Grammar = Grammar {
    language: || tree_sitter_cpp::LANGUAGE.into(),
    headed: &["function_definition", "class_specifier"],
    whole: &[
        "struct_specifier",
        "union_specifier",
        "enum_specifier",
        "type_definition",
        "alias_declaration",
        "preproc_function_def",
    ],
    holders: &["namespace_definition"],
};

static RUBY: Grammar = Grammar {
    language: || tree_sitter_ruby::LANGUAGE.into(),
    headed: &["method", "singleton_method", "class"],
    whole: &[],
    holders: &["module"],
};
