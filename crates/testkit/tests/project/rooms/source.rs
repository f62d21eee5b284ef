//! Reads Rust source as far as the rules of the rooms need it: paths from the root of a crate, and methods of a type. Comments,
//! strings, attributes and items that are compiled only for tests are skipped.

use std::collections::BTreeMap;

use crate::rust::{comment_len, is_word_character, quote_len, string_len, word_len};

/// A word, `::`, `->`, `=>`, or any other single character.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    fn is_word(&self) -> bool {
        self.text.starts_with(is_word_character)
    }
}

fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let nothing = if first.is_whitespace() {
            Some(first.len_utf8())
        } else if rest.starts_with("r#") && rest[2..].starts_with(is_word_character) {
            Some(2)
        } else if first == '\'' {
            Some(quote_len(rest))
        } else {
            comment_len(rest).or_else(|| string_len(rest))
        };
        let len = nothing.unwrap_or_else(|| {
            if is_word_character(first) {
                word_len(rest)
            } else if ["::", "->", "=>"].iter().any(|pair| rest.starts_with(pair)) {
                2
            } else {
                first.len_utf8()
            }
        });
        let text = &rest[..len];
        if nothing.is_none() {
            found.push(Token { text, line });
        }
        line += text.matches('\n').count();
        at += len;
    }
    found
}

fn text_at<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// The number of tokens from the bracket at the start of `tokens` to its closing bracket.
fn bracketed_len(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The number of tokens of an attribute at the start of `tokens`.
fn attribute_len(tokens: &[Token<'_>]) -> Option<usize> {
    let bracket = match (text_at(tokens, 0), text_at(tokens, 1), text_at(tokens, 2)) {
        ("#", "[", _) => 1,
        ("#", "!", "[") => 2,
        _ => return None,
    };
    Some(bracket + bracketed_len(&tokens[bracket..]))
}

/// Whether an attribute says that the next item is compiled only for tests or fuzzing.
fn is_for_tests(attribute: &[Token<'_>]) -> bool {
    let contains = |word| attribute.iter().any(|token| token.text == word);
    text_at(attribute, 2) == "cfg" && contains("test") && !contains("not")
}

/// The number of tokens of the item, statement or field at the start of `tokens`.
fn item_len(tokens: &[Token<'_>]) -> usize {
    let mut at = 0;
    while let Some(len) = attribute_len(&tokens[at..]) {
        at += len;
    }
    let (mut angles, mut imports) = (0_usize, false);
    while at < tokens.len() {
        match tokens[at].text {
            "use" => imports = true,
            "<" => angles += 1,
            ">" => angles = angles.saturating_sub(1),
            ";" => return at + 1,
            "," if angles == 0 => return at + 1,
            "}" => return at,
            "{" if !imports => return at + bracketed_len(&tokens[at..]),
            "(" | "[" | "{" => {
                at += bracketed_len(&tokens[at..]);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

/// The tokens that the product has, and the modules with their own files that only tests have.
fn product_code(source: &str) -> (Vec<Token<'_>>, Vec<&str>) {
    let all = tokens(source);
    let (mut kept, mut test_modules) = (Vec::new(), Vec::new());
    let mut at = 0;
    while at < all.len() {
        let Some(len) = attribute_len(&all[at..]) else {
            kept.push(all[at]);
            at += 1;
            continue;
        };
        let for_tests = is_for_tests(&all[at..at + len]);
        at += len;
        if for_tests {
            let item = &all[at..at + item_len(&all[at..])];
            if let [.., before, name, end] = item
                && (before.text, end.text) == ("mod", ";")
            {
                test_modules.push(name.text);
            }
            at += item.len();
        }
    }
    (kept, test_modules)
}

/// The modules with their own files that this file declares only for tests or fuzzing.
pub(crate) fn test_modules(source: &str) -> Vec<&str> {
    product_code(source).1
}

/// A path that code names, from the root of its crate, without `crate`; empty for the root itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Import {
    pub(crate) line: usize,
    pub(crate) path: String,
    /// The name that a `use` gives to the path; `*` for all names below it. `None` outside of a `use`.
    pub(crate) name: Option<String>,
    /// A `pub use`, with any visibility.
    pub(crate) is_reexport: bool,
}

/// Reads the paths of one file.
struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// The module of the next token.
    module: Vec<&'a str>,
    /// Names that other paths may begin with, with their paths from the root: child modules, and imports that were read before.
    scope: BTreeMap<&'a str, Vec<&'a str>>,
    /// Whether paths that begin with a name of the scope are read.
    follows_names: bool,
    /// The tree that is read belongs to a re-export.
    in_reexport: bool,
    found: Vec<Import>,
}

/// The paths in a file of this module that begin with `crate`, `super` or `self`: of `use`, and of other code.
pub(crate) fn imports<'a>(module: &[&'a str], source: &'a str) -> Vec<Import> {
    Reader::new(module, source, false).read()
}

/// Like [`imports`], and also the paths that begin with a child module or with a name that the file has imported.
pub(crate) fn references<'a>(module: &[&'a str], source: &'a str) -> Vec<Import> {
    Reader::new(module, source, true).read()
}

/// How often a word occurs in the code of the product.
pub(crate) fn occurrences(word: &str, source: &str) -> usize {
    let code = product_code(source).0;
    code.iter().filter(|token| token.text == word).count()
}

impl<'a> Reader<'a> {
    fn new(module: &[&'a str], source: &'a str, follows_names: bool) -> Self {
        let tokens = product_code(source).0;
        let children = tokens.windows(3).filter_map(|three| {
            let [declares, name, end] = [0, 1, 2].map(|at| three[at].text);
            ((declares, end) == ("mod", ";")).then(|| (name, [module, &[name]].concat()))
        });
        Self {
            scope: children.collect(),
            tokens,
            at: 0,
            module: module.to_vec(),
            follows_names,
            in_reexport: false,
            found: Vec::new(),
        }
    }

    /// The text of the token this many tokens later.
    fn text(&self, later: usize) -> &'a str {
        text_at(&self.tokens, self.at + later)
    }

    fn read(mut self) -> Vec<Import> {
        // One entry per open brace: whether it is a module's.
        let mut braces = Vec::new();
        while self.at < self.tokens.len() {
            match (self.text(0), self.text(1), self.text(2)) {
                ("mod", name, "{") => {
                    self.module.push(name);
                    braces.push(true);
                    self.at += 2;
                }
                ("{", ..) => braces.push(false),
                ("}", ..) => {
                    let ends_module = braces.pop() == Some(true);
                    self.module.truncate(self.module.len() - usize::from(ends_module));
                }
                // The path in `pub(in path)` names a module above, and imports nothing.
                ("pub", "(", _) => {
                    self.at += 1 + bracketed_len(&self.tokens[self.at + 1..]);
                    self.in_reexport = self.text(0) == "use";
                    continue;
                }
                ("pub", "use", _) => self.in_reexport = true,
                // `use<'a>` is a bound, no import.
                ("use", next, _) if next != "<" => {
                    self.at += 1;
                    self.tree(Vec::new());
                    self.in_reexport = false;
                    continue;
                }
                ("crate" | "super" | "self", "::", _) => {
                    self.path();
                    continue;
                }
                (name, "::", _) if self.follows_names && self.scope.contains_key(name) => {
                    let is_first = self.at == 0 || self.tokens[self.at - 1].text != "::";
                    if is_first {
                        self.path();
                        continue;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        self.found
    }

    /// The tree of a `use` after this path.
    fn tree(&mut self, mut path: Vec<&'a str>) {
        loop {
            let Some(token) = self.tokens.get(self.at).copied() else {
                return;
            };
            self.at += 1;
            match token.text {
                // The path names another crate.
                "::" => path.push(""),
                "*" => return self.note(token.line, &path, Some("*")),
                "{" => {
                    while !matches!(self.text(0), "}" | "") {
                        self.tree(path.clone());
                        self.at += usize::from(self.text(0) == ",");
                    }
                    self.at += 1;
                    return;
                }
                word => {
                    assert!(token.is_word(), "line {}: {word:?} in a path", token.line);
                    path.push(word);
                    if self.text(0) == "::" {
                        self.at += 1;
                        continue;
                    }
                    let mut name = match (word, path.len()) {
                        ("self", at @ 2..) => path[at - 2],
                        _ => word,
                    };
                    if self.text(0) == "as" {
                        name = self.text(1);
                        self.at += 2;
                    }
                    return self.note(token.line, &path, Some(name));
                }
            }
        }
    }

    /// A path in code outside of a `use`.
    fn path(&mut self) {
        let mut token = self.tokens[self.at];
        let mut path = vec![token.text];
        while self.text(1) == "::" && self.tokens.get(self.at + 2).is_some_and(Token::is_word) {
            self.at += 2;
            token = self.tokens[self.at];
            path.push(token.text);
        }
        self.at += 1;
        self.note(token.line, &path, None);
    }

    fn note(&mut self, line: usize, path: &[&'a str], name: Option<&'a str>) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let (mut absolute, rest) = match *first {
            "crate" => (Vec::new(), rest),
            "super" | "self" => (self.module.clone(), path),
            name => match self.scope.get(name) {
                Some(known) if self.follows_names => (known.clone(), rest),
                _ => return,
            },
        };
        for segment in rest {
            match *segment {
                "crate" | "self" => {}
                "super" => drop(absolute.pop()),
                name => absolute.push(name),
            }
        }
        let path = absolute.join("::");
        if let Some(name) = name.filter(|name| *name != "*") {
            self.scope.insert(name, absolute);
        }
        self.found.push(Import {
            line,
            path,
            name: name.map(str::to_owned),
            is_reexport: self.in_reexport,
        });
    }
}

/// The number of functions of the blocks `impl TYPE { … }`, the type with or without a path before it.
pub(crate) fn methods(type_name: &str, source: &str) -> usize {
    method_names(type_name, source).len()
}

/// The names of these functions.
pub(crate) fn method_names<'a>(type_name: &str, source: &'a str) -> Vec<&'a str> {
    let code = product_code(source).0;
    let mut found = Vec::new();
    for at in 0..code.len() {
        if text_at(&code, at) != "impl" {
            continue;
        }
        let mut name = at + 1;
        while text_at(&code, name + 1) == "::" {
            name += 2;
        }
        if [text_at(&code, name), text_at(&code, name + 1)] != [type_name, "{"] {
            continue;
        }
        let block = &code[name + 1..];
        let block = &block[1..bracketed_len(block) - 1];
        let mut inside = 0;
        while inside < block.len() {
            match block[inside].text {
                "{" | "(" | "[" => inside += bracketed_len(&block[inside..]),
                word => {
                    let name = block.get(inside + 1).filter(|name| name.is_word());
                    found.extend(name.filter(|_| word == "fn").map(|name| name.text));
                    inside += 1;
                }
            }
        }
    }
    found
}

/// A struct with its public fields.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a str,
    pub(crate) fields: Vec<Field<'a>>,
}

pub(crate) struct Field<'a> {
    pub(crate) name: &'a str,
    /// The words of its type.
    pub(crate) types: Vec<&'a str>,
    /// Whether the field is in the part `experiments { … }` of the macro `settings!`.
    pub(crate) for_experiments: bool,
}

/// The public structs of a file, plain ones and those of the macro `settings!`.
pub(crate) fn groups(source: &str) -> Vec<Group<'_>> {
    let code = product_code(source).0;
    let mut found = Vec::new();
    for at in 0..code.len() {
        let words = [0, 1, 2, 3].map(|later| text_at(&code, at + later));
        let ["pub", "struct", name, "{"] = words else {
            continue;
        };
        let end = at + 3 + bracketed_len(&code[at + 3..]);
        let mut fields = public_fields(&code[at + 4..end - 1], false);
        if [text_at(&code, end), text_at(&code, end + 1)] == ["experiments", "{"] {
            let len = bracketed_len(&code[end + 1..]);
            fields.extend(public_fields(&code[end + 2..end + len], true));
        }
        found.push(Group { name, fields });
    }
    found
}

fn public_fields<'a>(mut block: &[Token<'a>], for_experiments: bool) -> Vec<Field<'a>> {
    let mut fields = Vec::new();
    while !block.is_empty() {
        let (item, rest) = block.split_at(item_len(block).max(1));
        block = rest;
        if let [public, name, colon, types @ ..] = item
            && (public.text, colon.text) == ("pub", ":")
        {
            let types = types.iter().filter(|token| token.is_word());
            fields.push(Field {
                name: name.text,
                types: types.map(|token| token.text).collect(),
                for_experiments,
            });
        }
    }
    fields
}

/// The functions outside of tests: their names, the lines where they begin, and how many lines they have.
pub(crate) fn functions(source: &str) -> Vec<(&str, usize, usize)> {
    let (code, _) = product_code(source);
    let mut found = Vec::new();
    for (at, token) in code.iter().enumerate() {
        let name = code
            .get(at + 1)
            .filter(|name| token.text == "fn" && name.is_word());
        let Some(name) = name else { continue };
        let mut body = at + 2;
        while !["{", ";", ""].contains(&text_at(&code, body)) {
            let opens = ["(", "["].contains(&text_at(&code, body));
            body += if opens { bracketed_len(&code[body..]) } else { 1 };
        }
        if text_at(&code, body) == "{" {
            let last = code[body + bracketed_len(&code[body..]) - 1].line;
            found.push((name.text, token.line, last - token.line + 1));
        }
    }
    found
}

/// The number of fields of a structure with named fields; `None` if the source does not define it.
pub(crate) fn field_count(name: &str, source: &str) -> Option<usize> {
    let (code, _) = product_code(source);
    let is_it = |at: &usize| text_at(&code, *at) == "struct" && text_at(&code, *at + 1) == name;
    let at = (0..code.len()).find(is_it)?;
    let block = &code[at + 2..];
    let (mut count, mut inner) = (0, 1);
    while inner + 1 < bracketed_len(block) {
        let text = text_at(block, inner);
        if ["(", "[", "{"].contains(&text) {
            inner += bracketed_len(&block[inner..]);
        } else {
            count += usize::from(text == ":");
            inner += 1;
        }
    }
    Some(count)
}
