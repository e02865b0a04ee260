//! The command lines in the documents for operators are parsed by the definition of the command line.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// The documents with command lines, and folders of such.
const DOCUMENTS: [&str; 4] =
    ["README.md", "docs/use", "docs/reference/control.md", "docs/reference/configuration.md"];

/// Reads the documents: their names and their texts.
fn documents() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for name in DOCUMENTS {
        let path = root.join(name);
        if path.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            paths.push(path);
        }
    }
    let read =
        |path: std::path::PathBuf| (path.display().to_string(), fs::read_to_string(&path).unwrap());
    paths.into_iter().map(read).collect()
}

/// Returns the lines of blocks of code, with continued lines as one, and their numbers.
fn code(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut fenced, mut open) = (Vec::<(usize, String)>::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let Some(line) = line.strip_prefix("    ").or(fenced.then_some(line)) else {
            open = false;
            continue;
        };
        let (part, continues) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| open) {
            Some((_, last)) => last.push_str(part.trim_start()),
            None => lines.push((number + 1, part.to_owned())),
        }
        open = continues;
    }
    lines
}

/// Splits a line into words as a shell does, until a redirection, a pipe, another command or a comment.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '>' | '<' | '&' | ';') => break,
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Returns the command lines of `sluice` in a line of code.
fn command_lines(line: &str) -> Vec<Vec<String>> {
    let line = line.trim_start().trim_start_matches("$ ");
    let mut found = Vec::new();
    for part in line.split("&&") {
        let mut words = words(part);
        while let Some(first) = words.first() {
            match first.as_str() {
                "sudo" => drop(words.remove(0)),
                "podman" if words.get(1).is_some_and(|word| word == "exec") => {
                    drop(words.drain(..3))
                }
                _ => break,
            }
        }
        if words.first().is_some_and(|first| first == "sluice") {
            found.push(words);
        }
    }
    found
}

#[test]
fn command_lines_of_documents_are_parsed() {
    let (mut parsed, mut wrong) = (0, Vec::new());
    for (name, text) in documents() {
        for (number, line) in code(&text) {
            for words in command_lines(&line) {
                let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
                match crate::parse(&words) {
                    Ok(_) => parsed += 1,
                    Err(error) => wrong.push(format!("{name}:{number}: {line}\n{error}")),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 100, "{parsed} command lines");
}

#[test]
fn lines_are_split_as_shell_does() {
    let of = |line: &str| {
        command_lines(line).into_iter().map(|words| words.join("|")).collect::<Vec<_>>()
    };
    assert_eq!(of("$ sudo sluice a --size \"4 GiB\"   # why"), ["sluice|a|--size|4 GiB"]);
    assert_eq!(of("sluice a >x && sudo sluice b"), ["sluice|a", "sluice|b"]);
    assert_eq!(of("podman exec sluiced sluice status"), ["sluice|status"]);
    assert_eq!(of("sluice events --json | jq -r '.x'"), ["sluice|events|--json"]);
    assert!(of("sluice: namespace 3 is in use").is_empty());
    let text = "a\n    sluice x \\\n        --y\n```\nsluice z\n```\n";
    let lines: Vec<String> = code(text).into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["sluice x --y", "sluice z"]);
}
