# Sluicegate's commands. Each installs what it needs on a Debian machine (as root, or with sudo)
# and says so; nothing else is asked of the machine.
#
#   make run      build, start the daemon with embedded defaults, run our initiator against it
#   make test     everything that must hold: format, lints, documentation, all tests
#   make bench    beside the kernel's own target, in a user-mode kernel
#   make bench-qos  what quality of service costs and gives, natively
#   make bench-qtcp what classes get of a congested link, by the kernel's congestion control
#   make fuzz     each fuzz target for FUZZ_SECONDS (60)
#   make deny     licences, banned and duplicate crates, sources
#   make install  binaries and systemd files, below PREFIX (/usr) and DESTDIR
#   make clean    remove build/

SHELL := /bin/bash
PREFIX ?= /usr
FUZZ_SECONDS ?= 60
# The daemon's source is in target/: cargo must never build there, whatever its configuration.
export CARGO_TARGET_DIR := $(CURDIR)/build

# What is installed: the release build, unless this names a folder with binaries that are built.
BINARIES ?= build/release

.PHONY: build run test bench bench-qos bench-qtcp fuzz deny install clean

build:
	.ci/setup build
	cargo build --release --workspace --exclude e2e --bins

run:
	.ci/setup build
	@echo "Building sluiced and sluice: 2 minutes on two free cores the first time, 0.6 GB in build/."
	cargo build --profile demo --package sluiced --package sluice --bins
	tests/demo.sh build/demo

test:
	.ci/test

bench: build
	.ci/setup test
	tests/bench/uml-vs-nvmet.sh build/release

bench-qos: build
	tests/bench/qos.sh build/release

bench-qtcp:
	.ci/setup bench-qtcp
	cargo build --release -p qtcp --features bpf --examples
	ulimit -n 4096 && build/release/examples/adapter
	tests/bench/qtcp-bases.sh build/release

fuzz:
	.ci/setup fuzz
	.ci/fuzz $(FUZZ_SECONDS)

deny:
	.ci/setup deny
	cargo deny --all-features check licenses bans sources

install: $(if $(filter file,$(origin BINARIES)),build)
	install -D -t $(DESTDIR)$(PREFIX)/bin $(BINARIES)/sluiced $(BINARIES)/sluice
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system systemd/sluiced.service
	install -D -m 644 systemd/sluicegate.sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/sluicegate.conf
	install -D -m 644 systemd/sluicegate.tmpfiles.conf $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/sluicegate.conf
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/udev/rules.d systemd/60-sluicegate.rules
	[ -e $(DESTDIR)/etc/sluicegate/sluicegate.toml ] || \
		install -D -m 644 -t $(DESTDIR)/etc/sluicegate systemd/sluicegate.toml

clean:
	rm -rf build
