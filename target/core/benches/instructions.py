#!/usr/bin/env python3
"""Prints the cost of a command in the core and the transport, in instructions, by callgrind: without system calls and
without devices. Needs valgrind.

usage: instructions.py            print the tables
       instructions.py --write    write them into docs/internals/costs.md
       instructions.py --check    fail if a command costs more than docs/internals/costs.md says
"""

import json
import os
import platform
import re
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
PAGE = os.path.join(ROOT, "docs/internals/costs.md")
BEGIN, END = "<!-- target/core/benches/instructions.py --write -->", "<!-- end -->"
# Commands that are counted, of each load.
COMMANDS = 320
DEVICES, OPERATIONS = ["memory", "queued"], ["read", "write"]
QUEUES = [("tcp", 1), ("rdma", 1), ("tcp", 32), ("rdma", 32)]
# Growth that is no fault: of the same compiler, and of another one.
GROWTH, OTHER_COMPILER = 1.03, 1.25
# Parts of the target, by the sources of their instructions; the first that fits.
PARTS = [
    ("transport", r"^fabric/"),
    ("S1, arrival", r"^target/core/src/queue/(arrival|flow_cache|admission)|^arbitration/src/classify"),
    ("memory", r"^target/core/src/(memory/|queue/fetch)|^arbitration/src/memory"),
    ("S2 to S5", r"^arbitration/|^target/core/src/(queue/dispatch|reactor/stages)"),
    ("S6", r"^qtcp/|^target/core/src/network/"),
    ("statistics", r"^target/core/src/stats/"),
    ("queues and reactor", r"^target/core/src/(queue|reactor|machine)/"),
    ("simulated machine", r"^target/core/(src/testing|benches)/"),
    ("libraries", r""),
]


def build():
    """Builds the benchmark. Returns its path."""
    environment = {**os.environ, "CARGO_PROFILE_BENCH_DEBUG": "line-tables-only"}
    command = ["cargo", "bench", "-q", "-p", "sluice-core", "--features", "testing", "--bench", "command", "--no-run",
               "--message-format=json"]
    built = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    messages = [json.loads(line) for line in built.splitlines() if line.startswith("{")]
    found = [message["executable"] for message in messages
             if message.get("executable") and message["target"]["name"] == "command"]
    return found[-1]


def count(bench, load):
    """Returns the instructions of one command of a load, by part."""
    with tempfile.NamedTemporaryFile() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out.name}", "--compress-pos=no",
                   "--toggle-collect=*Rig*::counted_turn", "--zero-before=*Scene::measure", bench,
                   *map(str, load), str(COMMANDS)]
        # The C library copies by the widest instructions that the processor has: by AVX2 here, on all processors.
        environment = {**os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-ERMS,-FSRM"}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ran.returncode != 0:
            sys.exit(ran.stdout + ran.stderr)
        return by_part(out.name)


def by_part(path):
    """Returns the instructions of one command in a file of callgrind, by part. A line of a library that is compiled into
    a function belongs to the part whose line comes before it."""
    names, parts = {}, dict.fromkeys([name for name, _ in PARTS], 0)
    # The part of the present line's file, and the part that the line counts for.
    own, part, is_call = "libraries", "libraries", False
    with open(path) as file:
        for line in file:
            if found := re.match(r"(c?f[lie])=\((\d+)\)(?: (.*))?$", line):
                kind, number, name = found.groups()
                if name:
                    names[number] = part_of(name.strip())
                if not kind.startswith("c"):
                    own = names[number]
                    part = own if own != "libraries" else part
            elif line.startswith("fn="):
                part = own
            elif line.startswith("calls="):
                is_call = True
            elif found := re.match(r"\+?\d+ (\d+)", line):
                if not is_call:
                    parts[part] += int(found[1])
                is_call = False
    return {name: round(instructions / COMMANDS) for name, instructions in parts.items()}


def part_of(path):
    """Returns the part that a source file belongs to."""
    path = os.path.relpath(path, ROOT) if os.path.isabs(path) else path
    return next(name for name, pattern in PARTS if re.search(pattern, path))


def compiler():
    return subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]


def loads():
    return [(transport, device, operation, 4096, depth)
            for device in DEVICES for operation in OPERATIONS for transport, depth in QUEUES]


def tables(counted):
    """Returns both tables: the whole cost of a command, and its parts."""
    lines = [f"Instructions of a command of 4 KiB, counted in a build of rustc {compiler()}:", ""]
    lines += ["| command | TCP, depth 1 | RDMA, depth 1 | TCP, depth 32 | RDMA, depth 32 |", "|---|---:|---:|---:|---:|"]
    for at in range(0, len(counted), len(QUEUES)):
        _, device, operation, *_ = loads()[at]
        cells = " | ".join(str(sum(parts.values())) for parts in counted[at:at + len(QUEUES)])
        lines.append(f"| {device}, {operation} | {cells} |")
    shown = [(load, parts) for load, parts in zip(loads(), counted) if (load[0], load[4]) == ("tcp", 32)]
    heads = [f"{device}, {operation}" for (_, device, operation, *_), _ in shown]
    lines += ["", "The same by part, over TCP at depth 32:", "", f"| part | {' | '.join(heads)} |",
              "|---|" + "---:|" * len(heads)]
    for name, _ in PARTS:
        lines.append(f"| {name} | {' | '.join(str(parts[name]) for _, parts in shown)} |")
    return lines


def page():
    """Returns the page's text before the tables, the tables, and the text after them."""
    with open(PAGE) as file:
        before, rest = file.read().split(BEGIN)
    return before, *rest.split(END)


def known():
    """Returns the compiler and the costs that the page says."""
    _, text, _ = page()
    version = re.search(r"rustc ([0-9.]+[0-9a-z.-]*)", text)[1].rstrip(":")
    rows = re.findall(r"^\| (?:memory|queued), (?:read|write) \|([ \d|]+)\|$", text, re.M)
    return version, [int(cell) for row in rows for cell in row.split("|")]


def check(counted):
    """Compares costs with the page's. Returns the exit status."""
    version, before = known()
    most = GROWTH if version == compiler() else OTHER_COMPILER
    grown = [(load, old, sum(parts.values())) for load, old, parts in zip(loads(), before, counted, strict=True)
             if sum(parts.values()) > old * most]
    for (transport, device, operation, _, depth), old, new in grown:
        print(f"{device}, {operation} over {transport} at depth {depth}: {new} instructions, {old} before")
    if grown:
        print(f"A command costs more than {round(most * 100 - 100)} % more than {os.path.relpath(PAGE, ROOT)} says. If that "
              f"is meant, run target/core/benches/instructions.py --write, and say why in the commit.")
        print("\n".join(tables(counted)))
    return 1 if grown else 0


def main():
    if platform.machine() != "x86_64" or " avx2 " not in open("/proc/cpuinfo").read():
        print("other processors have other instructions: nothing is counted")
        return 0
    bench = build()
    counted = [count(bench, load) for load in loads()]
    if "--check" in sys.argv:
        return check(counted)
    text = "\n".join(tables(counted))
    if "--write" in sys.argv:
        before, _, after = page()
        with open(PAGE, "w") as file:
            file.write(f"{before}{BEGIN}\n{text}\n{END}{after}")
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
