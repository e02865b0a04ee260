//! Finds circles of imports between the files of a crate.
//!
//! Imports are paths in `use` that begin with `crate`, `self`, `super` or a module beside or below,
//! and paths in code that begin with `crate::`, `super::`, `self::`, a module below (`check::across`),
//! or a module that the file imports. A name that another file only hands on (`pub use`, also by `*`)
//! counts for the file that defines it. Handing on is no import of its own, unless the file that does
//! it uses the name too.
//!
//! Not seen are the output of macros, methods (a call needs no import), and test code: files named
//! `tests` or `…_tests`, and everything behind the first `#[cfg(test)]` with a body.

#![expect(
    clippy::indexing_slicing,
    clippy::expect_used,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module: the segments of its path below the crate.
type Module = Vec<String>;

/// A path of an import, and whether it only hands the name on.
#[derive(Debug)]
struct Import {
    path: Vec<String>,
    /// The name that the importing file gives the import.
    name: String,
    hands_on: bool,
    /// Whether all names below the path are imported (`*`).
    all: bool,
}

/// The source files of a crate.
#[derive(Debug)]
pub(crate) struct Source {
    files: BTreeMap<Module, (PathBuf, String)>,
}

impl Source {
    /// Reads the files below a crate's `src`, whose root is `lib.rs`, or else `main.rs`.
    pub(crate) fn read(folder: &Path) -> Self {
        let root = if folder.join("lib.rs").exists() { "lib.rs" } else { "main.rs" };
        let mut files = BTreeMap::new();
        for path in e2e::files(folder).expect("a folder of source can be read") {
            let names = path.with_extension("");
            let mut module: Module =
                names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            // Folders named `tests` hold test code only.
            let is_test = module.iter().any(|name| name == "tests")
                || module.last().is_some_and(|name| name.ends_with("_tests"));
            if is_test || path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            if path == Path::new(root) || path.ends_with("mod.rs") {
                module.pop();
            }
            let text = fs::read_to_string(folder.join(&path)).expect("source is text");
            files.insert(module, (path, code(&text)));
        }
        Self { files }
    }

    /// Returns the circles: groups of files of which each imports, by some way, each other one.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let edges: BTreeMap<&Module, BTreeSet<&Module>> =
            self.files.keys().map(|module| (module, self.imported(module))).collect();
        let reached = |from: &Module| {
            let mut seen: BTreeSet<&Module> = BTreeSet::new();
            let mut ahead: Vec<&Module> = edges[from].iter().copied().collect();
            while let Some(next) = ahead.pop() {
                if seen.insert(next) {
                    ahead.extend(&edges[next]);
                }
            }
            seen
        };
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            edges.keys().map(|module| (*module, reached(module))).collect();
        let mut circles = BTreeSet::new();
        for (module, there) in &reached {
            let back = there.iter().filter(|other| reached[*other].contains(module));
            let circle: BTreeSet<String> = back.map(|module| self.name(module)).collect();
            if circle.len() > 1 {
                circles.insert(circle.into_iter().collect::<Vec<_>>());
            }
        }
        circles.into_iter().collect()
    }

    /// Returns the modules in other files that a file imports something of.
    fn imported(&self, module: &Module) -> BTreeSet<&Module> {
        let (_, text) = &self.files[module];
        let used = |import: &Import| !import.hands_on || uses(text, &import.name);
        let imports = imports(text);
        let named = paths(text).into_iter().map(|path| {
            let head = &path[0];
            let import = imports.iter().find(|import| import.name == *head);
            import.map_or_else(|| path.clone(), |import| [&import.path[..], &path[1..]].concat())
        });
        let imported = imports.iter().filter(|import| used(import));
        let all = imported.map(|import| import.path.clone()).chain(named);
        let found = all.filter_map(|path| self.resolve(module, &path, 0));
        found.filter(|other| *other != module).collect()
    }

    /// Returns the module that defines the item at a path in `module`.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<&Module> {
        let mut at = module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &path[1..]),
            "self" => rest = &path[1..],
            "super" => {}
            name => {
                let below = [&at[..], &[name.to_owned()]].concat();
                self.files.get(&below)?;
            }
        }
        while rest.first().is_some_and(|name| name == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        while let Some(name) = rest.first() {
            let below = [&at[..], std::slice::from_ref(name)].concat();
            if !self.files.contains_key(&below) {
                break;
            }
            (at, rest) = (below, &rest[1..]);
        }
        let (known, (_, text)) = self.files.get_key_value(&at)?;
        // A module whose file is elsewhere (`#[path]`) imports nothing of this crate.
        if rest.first().is_some_and(|name| text.contains(&format!("mod {name};"))) {
            return None;
        }
        let handed_on = rest.first().filter(|_| depth < 8).and_then(|name| {
            let imports = imports(text);
            let mut handed_on = imports.iter().filter(|import| import.hands_on);
            if let Some(import) = handed_on.clone().find(|import| import.name == *name) {
                let path = [&import.path[..], &rest[1..]].concat();
                return self.resolve(&at, &path, depth + 1);
            }
            let all = handed_on.by_ref().filter(|import| import.all && !defines(text, name));
            let mut found = all.filter_map(|import| {
                let path = [&import.path[..], rest].concat();
                self.resolve(&at, &path, depth + 1)
            });
            found.find(|module| defines(&self.files[*module].1, name))
        });
        handed_on.or(Some(known))
    }

    fn name(&self, module: &Module) -> String {
        self.files[module].0.to_string_lossy().into_owned()
    }
}

/// Returns the text without comments, texts in quotes, and test code at its end.
fn code(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let unquoted: Vec<&str> = line.split('"').step_by(2).collect();
        code.push_str(&unquoted.join("\"\""));
        code.push('\n');
    }
    let body = code.match_indices("#[cfg(test)]").find(|(start, _)| {
        let rest = &code[*start..];
        rest.find('{').is_some_and(|open| rest.find(';').is_none_or(|end| open < end))
    });
    match body {
        Some((start, _)) => code[..start].to_owned(),
        None => code,
    }
}

/// Returns whether a name occurs outside a `use`.
fn uses(text: &str, name: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    without_imports(text).split(|c| !word(c)).any(|found| found == name)
}

/// Returns the imports of a file.
fn imports(text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("use ") {
        let before = text[..start].lines().next_back().unwrap_or_default();
        let before = if text[..start].ends_with('\n') { "" } else { before.trim() };
        let public = before.starts_with("pub");
        if !(before.is_empty() || public && !before.contains(' ')) {
            continue;
        }
        let tree = text[start + 4..].split(';').next().unwrap_or_default();
        let tree: String = tree.split_whitespace().collect::<Vec<_>>().join(" ");
        leaves(&tree, &[], public, &mut found);
    }
    found
}

/// Returns the paths in code, outside `use`, that begin with a name in lower case.
fn paths(text: &str) -> Vec<Vec<String>> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let code = without_imports(text);
    let mut found = Vec::new();
    for (start, _) in code.match_indices("::") {
        let before = code[..start].trim_end_matches(word);
        let head = &code[before.len()..start];
        let begins = !before.ends_with("::") && !before.ends_with('.');
        if begins && head.starts_with(|c: char| c.is_lowercase()) {
            let path = &code[before.len()..];
            let end = path.find(|c: char| !word(c) && c != ':').unwrap_or(path.len());
            let path = path[..end].split("::").filter(|name| !name.is_empty());
            found.push(path.map(str::to_owned).collect());
        }
    }
    found
}

/// Returns the text without its `use` statements.
fn without_imports(text: &str) -> String {
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let start = line.trim_start();
        inside |=
            start.starts_with("use ") || (start.starts_with("pub") && start.contains(" use "));
        let counts = !inside;
        inside &= !line.contains(';');
        counts
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns whether a file defines a name among its own items.
fn defines(text: &str, name: &str) -> bool {
    let kinds = ["fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod"];
    text.lines().any(|line| {
        let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        let kind = words.by_ref().find(|word| kinds.contains(word));
        kind.is_some() && words.by_ref().find(|word| !kinds.contains(word)) == Some(name)
    })
}

/// Collects the paths of a tree such as `a::{b, c::d as e}`.
fn leaves(tree: &str, before: &[String], hands_on: bool, found: &mut Vec<Import>) {
    let tree = tree.trim();
    if let Some((head, rest)) = tree.split_once('{') {
        let head = head.split("::").map(str::trim).filter(|name| !name.is_empty());
        let before: Vec<String> = before.iter().cloned().chain(head.map(str::to_owned)).collect();
        let (mut depth, mut start) = (0, 0);
        let inside = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
        for (at, c) in inside.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    leaves(&inside[start..at], &before, hands_on, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        leaves(&inside[start..], &before, hands_on, found);
        return;
    }
    let (path, renamed) = tree.split_once(" as ").unwrap_or((tree, ""));
    let all = path.ends_with('*');
    let path = path.split("::").map(str::trim).filter(|name| !name.is_empty() && *name != "*");
    let mut path: Vec<String> = before.iter().cloned().chain(path.map(str::to_owned)).collect();
    if tree.is_empty() {
        return;
    }
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let last = path.last().cloned().unwrap_or_default();
    let name = if renamed.is_empty() { last } else { renamed.trim().to_owned() };
    let name = if all { String::new() } else { name };
    found.push(Import { path, name, hands_on, all });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a crate of files with these texts.
    fn source(files: &[(&str, &str)]) -> Source {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            // A statement on each line, as rustfmt writes them.
            fs::write(path, text.replace("; ", ";\n")).expect("a file");
        }
        Source::read(folder.path())
    }

    #[test]
    fn a_circle_is_found_whichever_way_it_is_written() {
        for (a, b) in [
            ("use crate::b::B;", "use super::a::A;"),
            ("use crate::{b::{self, B}, c};", "fn f() { crate::a::g() }"),
            ("pub(crate) use crate::b::B;\nfn f(_: B) {}", "use crate::a;"),
            ("use crate::c::{self, D};\nfn f() { c::g() }", "use crate::a::A;"),
        ] {
            let source = source(&[
                ("lib.rs", "mod a; mod b; mod c;"),
                ("a.rs", a),
                ("b.rs", b),
                ("c.rs", "pub use crate::b::g;"),
            ]);
            assert_eq!(source.circles(), [["a.rs", "b.rs"]], "{a} {b}");
        }
    }

    #[test]
    fn file_and_child_that_use_each_other_are_a_circle() {
        for text in [
            "mod low; use low::Low; pub struct M(Low);",
            "mod low; pub struct M; fn f() { low::make(); }",
            "mod low; pub struct M; fn f() { self::low::make(); }",
        ] {
            let low = "use super::M; pub struct Low; pub fn make() {}";
            let source = source(&[("lib.rs", "mod m;"), ("m/mod.rs", text), ("m/low.rs", low)]);
            assert_eq!(source.circles(), [["m/low.rs", "m/mod.rs"]], "{text}");
        }
    }

    #[test]
    fn other_names_make_no_circle() {
        let test = "#[cfg(test)]\nmod tests {\n use crate::a::A;\n}\n";
        let not_code: &str = &format!("// use crate::a::A;\nconst T: &str = \"crate::a\";\n{test}");
        for (case, files) in [
            (
                "a name that is handed on counts for the file that defines it",
                &[
                    ("lib.rs", "mod m; mod user;"),
                    ("m/mod.rs", "mod low; mod high; pub use low::Low; pub use high::high;"),
                    ("m/low.rs", "pub struct Low;"),
                    ("m/high.rs", "use super::Low; use crate::user::U;"),
                    ("user.rs", "use crate::m::Low; pub struct U;"),
                ][..],
            ),
            (
                "so does a name that is handed on by a star",
                &[
                    ("lib.rs", "mod m; mod user;"),
                    ("m/mod.rs", "mod low; mod high; pub use low::*; pub use high::high;"),
                    ("m/low.rs", "pub struct Low;"),
                    ("m/high.rs", "use super::Low; pub fn high() {}"),
                    ("user.rs", "use crate::m::Low; fn f() { crate::m::high() }"),
                ],
            ),
            (
                "a module whose file is elsewhere imports nothing",
                &[
                    ("lib.rs", "mod a; #[path = \"../b.rs\"] mod b; fn f() { a::g() }"),
                    ("a.rs", "use crate::b::B; pub fn g() {}"),
                ],
            ),
            (
                "comments, texts and tests import nothing",
                &[("lib.rs", "mod a; mod b;"), ("a.rs", "use crate::b::B;"), ("b.rs", not_code)],
            ),
        ] {
            assert_eq!(source(files).circles(), Vec::<Vec<String>>::new(), "{case}");
        }
    }
}
