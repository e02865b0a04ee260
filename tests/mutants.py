#!/usr/bin/env python3
"""Breaks the code in one place after the other, and prints which breaks no test notices.

cargo-mutants says what to break (`cargo mutants --list --json`). To build each mutant by itself would
take days, so one build holds all of them: each function that has mutants chooses at its beginning
between its own body and theirs, by the number in SLUICE_MUTANT. A first run of each test tells which
functions it reaches. A mutant is tried against the tests that reach it alone, the quickest first,
until one fails, ends by a signal or takes ten times as long as it should.

usage: mutants.py LIST TREE OUT CRATE...
  LIST    what cargo mutants lists
  TREE    a copy of the source, which is changed
  OUT     a folder: caught.txt, missed.txt, unreached.txt, unviable.txt and untried.txt are written there
  CRATE   the crates whose tests have to notice; the first is the one with the mutants

Unreached are mutants that no test reaches. Unviable ones do not compile. Untried are those of
constants, of functions that constants call, and of functions whose type is not written out: there no
number can choose.
"""

import collections
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import time

SWITCH = """
/// Says which mutant is tried.
#[allow(missing_docs, clippy::all, dead_code)]
pub mod mutant_switch {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    static CHOSEN: LazyLock<u32> = LazyLock::new(|| {
        std::env::var("SLUICE_MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(u32::MAX)
    });
    static SEEN: LazyLock<Option<std::path::PathBuf>> =
        LazyLock::new(|| std::env::var_os("SLUICE_REACHED").map(Into::into));
    static REACHED: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];
    #[inline]
    pub fn at() -> u32 { *CHOSEN }
    #[inline]
    pub fn reached(function: usize) -> bool {
        if SEEN.is_some() && !REACHED[function].swap(true, Relaxed) { record(function); }
        true
    }
    #[cold]
    fn record(function: usize) {
        use std::io::Write;
        let Some(path) = SEEN.as_ref() else { return };
        let mut file = std::fs::File::options().create(true).append(true).open(path).unwrap();
        writeln!(file, "{function}").unwrap();
    }
    const COUNT: usize = %d;
}
"""


def offsets(text):
    """Returns the offset at which each line begins."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def body_of(text, start, end):
    """Returns the offsets of a function's braces; None where it has no body or is read wrongly."""
    close = text.rfind("}", start, end)
    depth, i = 0, start
    while i < end:
        c = text[i]
        if text.startswith("//", i):
            i = text.find("\n", i)
            continue
        if c == '"':
            i = re.compile(r'"(?:\\.|[^"\\])*"', re.S).match(text, i).end()
            continue
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif c == "{" and depth == 0:
            return i, close
        i += 1
    return None


class Part:
    """Holds the mutants of a crate, and the copy of its source that has all of them."""

    def __init__(self, mutants, tree):
        self.tree = pathlib.Path(tree)
        self.mutants = mutants
        self.state = {}
        self.constants = set()
        self.functions = collections.defaultdict(list)
        self.texts = {}
        for number, mutant in enumerate(mutants):
            file = mutant["file"]
            if file not in self.texts:
                self.texts[file] = (self.tree / file).read_text()
            if mutant["function"] is None:
                self.state[number] = "untried"
                continue
            span = mutant["function"]["span"]
            at = tuple((span[k]["line"], span[k]["column"]) for k in ("start", "end"))
            self.functions[file, at].append(number)
        self.names = list(self.functions)

    def write(self):
        """Writes the tree with all mutants that are still thought to compile."""
        self.regions = collections.defaultdict(list)
        by_file = collections.defaultdict(list)
        for index, (file, at) in enumerate(self.names):
            by_file[file].append((at, index))
        for file, functions in by_file.items():
            text = self.texts[file]
            starts = offsets(text)
            place = lambda line, column: starts[line - 1] + column - 1
            out, done, line = [], 0, 1

            def emit(piece):
                nonlocal line
                out.append(piece)
                line += piece.count("\n")

            for at, index in sorted(functions):
                start, end = place(*at[0]), place(*at[1])
                numbers = [n for n in self.functions[file, at] if n not in self.state]
                braces = body_of(text, start, end)
                if start < done or braces is None:
                    for n in numbers:
                        self.state[n] = "untried"
                    continue
                if not numbers:
                    continue
                opening, closing = braces
                head = text[done:opening]
                signature = text[start:opening]
                if re.search(r"\bconst\b(?=[\w\s]*\bfn\b)", signature):
                    name = re.search(r"\bfn\s+(\w+)", signature).group(1)
                    if name in self.constants:
                        for n in numbers:
                            self.state[n] = "untried"
                        continue
                    head = text[done:start] + re.sub(r"\bconst\s+(?=[\w\s]*\bfn\b)", "", signature, count=1)
                emit(head)
                first = line
                emit("{ let _ = crate::mutant_switch::reached(%d);\n" % index)
                emit("match crate::mutant_switch::at() {\n")
                for n in numbers:
                    span = self.mutants[n]["span"]
                    a = place(span["start"]["line"], span["start"]["column"])
                    b = place(span["end"]["line"], span["end"]["column"])
                    if self.mutants[n]["genre"] in ("StructField", "MatchArm"):
                        comma = re.compile(r"\s*,").match(text, b)
                        b = comma.end() if comma else b
                    begin = line
                    replaced = self.mutants[n]["replacement"]
                    emit("%d => {\n" % n + text[opening + 1:a] + " " + replaced + " " + text[b:closing] + "\n}\n")
                    self.regions[file].append((begin, line - 1, n))
                emit("_ => " + text[opening:closing + 1] + "}\n}")
                self.regions[file].append((first, line, [n for n in numbers]))
                done = closing + 1
            emit(text[done:])
            (self.tree / file).write_text("".join(out))

    def build(self, crate, source):
        """Builds the tests' crate; leaves out what does not compile until the rest does."""
        root = self.tree / source / "src/lib.rs"
        key = str(root.relative_to(self.tree))
        if key not in self.texts:
            self.texts[key] = root.read_text()
        self.texts[key] += SWITCH % len(self.names)
        root.write_text(self.texts[key])
        for round in range(40):
            self.write()
            if (errors := self.check(crate)) == 0:
                return
            print(f"  {errors} errors in round {round}", flush=True)
        sys.exit("mutants.py: the mutants do not compile together")

    def check(self, crate):
        """Compiles the copy, and notes the mutants that do not compile. Returns the number of errors."""
        run = cargo(self.tree, "check", "-p", crate, "--lib", "--message-format=json")
        errors = 0
        dropped = set()
        for line in run.stdout.splitlines():
            message = json.loads(line).get("message")
            if not isinstance(message, dict) or message["level"] != "error":
                continue
            if constant := re.search(r"cannot call non-const .*`(?:.*::)?(\w+)`", message["message"]):
                self.constants.add(constant.group(1))
                errors += 1
                continue
            spans = [s for s in message["spans"] if s["is_primary"]]
            if not spans:
                continue
            errors += 1
            hit = False
            for span in spans:
                for begin, end, what in self.regions[span["file_name"]]:
                    if begin <= span["line_start"] <= end and isinstance(what, int):
                        dropped.add(what)
                        self.state[what] = "unviable"
                        hit = True
            if not hit:
                # The function's own body, which does not compile as one of several.
                for span in spans:
                    for begin, end, what in self.regions[span["file_name"]]:
                        if begin <= span["line_start"] <= end:
                            hit = True
                            for n in what:
                                self.state.setdefault(n, "untried")
            if not hit:
                print(message["rendered"])
                sys.exit("mutants.py: this does not come of a mutant")
        if run.returncode and not errors:
            sys.exit(run.stderr)
        return errors


def cargo(tree, *arguments):
    """Runs cargo in a copy of the source, whose lints say nothing. Returns what it has printed."""
    environment = dict(os.environ, RUSTFLAGS="--cap-lints allow")
    return subprocess.run(["cargo", *arguments], cwd=tree, env=environment, capture_output=True, text=True)


def binaries(tree, crates):
    """Builds the tests of the crates. Returns each binary with the folder that its tests run in."""
    found = []
    for crate in crates:
        run = cargo(tree, "test", "-p", crate, "--lib", "--tests", "--no-run", "--message-format=json")
        if run.returncode:
            sys.exit(run.stderr)
        for line in run.stdout.splitlines():
            message = json.loads(line)
            if message.get("executable") and message["profile"]["test"]:
                found.append((message["executable"], os.path.dirname(message["manifest_path"])))
    return found


def limits():
    """Bounds the memory of a test, which a mutant may take without end."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(binary, folder, names, patience, **variables):
    """Runs some tests of a binary. Returns whether all of them pass in time."""
    environment = dict(os.environ, PROPTEST_MAX_SHRINK_ITERS="0", PROPTEST_DISABLE_FAILURE_PERSISTENCE="1",
                       RUST_BACKTRACE="0", **variables)
    try:
        status = subprocess.run([binary, "--exact", "--test-threads=1", *names], cwd=folder, env=environment,
                                timeout=patience, preexec_fn=limits,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
    except subprocess.TimeoutExpired:
        return False
    return status == 0


def tests_of(binary, folder):
    """Returns the names of a binary's tests, but for those that are ignored."""
    listed = subprocess.run([binary, "--list", "--format", "terse"], cwd=folder, capture_output=True, text=True)
    ignored = subprocess.run([binary, "--list", "--format", "terse", "--ignored"], cwd=folder,
                             capture_output=True, text=True).stdout.splitlines()
    return [line[:-6] for line in listed.stdout.splitlines()
            if line.endswith(": test") and line not in ignored]


def main():
    """Builds all mutants of a part, tries each, and writes and prints the outcome."""
    listing, tree, out, *crates = sys.argv[1:]
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    mutants = json.loads(pathlib.Path(listing).read_text())
    package = json.loads(cargo(tree, "metadata", "--no-deps", "--format-version=1").stdout)
    source = next(os.path.dirname(p["manifest_path"]) for p in package["packages"] if p["name"] == crates[0])
    part = Part(mutants, tree)
    began = time.monotonic()
    part.build(crates[0], os.path.relpath(source, os.path.realpath(tree)))
    built = binaries(tree, crates)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)

    reached = collections.defaultdict(list)
    seen = out / "reached"
    for stage, (binary, folder) in enumerate(built):
        for test in tests_of(binary, folder):
            seen.unlink(missing_ok=True)
            began = time.monotonic()
            if not run(binary, folder, [test], 600, SLUICE_REACHED=str(seen.resolve())):
                sys.exit(f"mutants.py: {test} fails without a mutant")
            took = time.monotonic() - began
            if seen.exists():
                for line in set(seen.read_text().split()):
                    reached[int(line)].append((took, stage, test))
    seen.unlink(missing_ok=True)
    print(f"{sum(map(len, reached.values()))} pairs of a function and a test", flush=True)

    for index, name in enumerate(part.names):
        tests = sorted(reached[index])
        # Quick ones in one go, slow ones by themselves.
        groups = collections.defaultdict(list)
        for took, stage, test in tests:
            groups[(0, stage) if took < 0.1 else (1, took, stage, test)].append((took, stage, test))
        for n in part.functions[name]:
            if n in part.state:
                continue
            part.state[n] = "missed" if groups else "unreached"
            for _, group in sorted(groups.items()):
                took = sum(t for t, _, _ in group)
                binary, folder = built[group[0][1]]
                if not run(binary, folder, [t for _, _, t in group], 20 + 10 * took, SLUICE_MUTANT=str(n)):
                    part.state[n] = "caught"
                    break
            if part.state[n] in ("missed", "unreached"):
                print(part.state[n] + ":", mutants[n]["name"], flush=True)

    lists = collections.defaultdict(list)
    for n, mutant in enumerate(mutants):
        lists[part.state[n]].append(mutant["name"])
    for name in ("caught", "missed", "unreached", "unviable", "untried"):
        (out / f"{name}.txt").write_text("".join(line + "\n" for line in lists[name]))
        print(name, len(lists[name]))


main()
