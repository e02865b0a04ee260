# Sluicegate's commands. Each installs what it needs on a Debian machine (as root, or with sudo)
# and says so; nothing else is asked of the machine. `make help` prints these lines:
#
#   make            build everything, in build/release
#   make run        build, start the daemon with embedded defaults, put load on it and read back
#   make test       run all tests: format, lints, documentation, unit and end-to-end tests; ONLY=TEXT, RUNS=N
#   make check      run format, lints and unit tests of the crates that changed
#   make test-long  run what takes hours: full figures, long simulations, mutants, fuzzing, kernels, NVDIMM
#   make bench      count instructions beside the kernel's own target, in a guest of QEMU's
#   make bench-rdma  measure NVMe/RDMA beside the kernel's own target, in a user-mode kernel
#   make bench-pmem  measure persistent memory by one-sided RDMA, NVMe/RDMA and NVMe/TCP, likewise
#   make bench-qos  measure what quality of service costs and gives, natively
#   make bench-hosts measure with hosts of two kinds: those that batch commands, and those that do not
#   make bench-versus  measure rates and CPU time beside another build of the daemon, in OTHER
#   make bench-hostile  measure how long innocent hosts wait beside hostile ones
#   make bench-churn  measure I/O while ten thousand namespaces come and go
#   make bench-qtcp measure what classes get of a congested link, by the kernel's congestion control
#   make bench-ns3  measure the simulated network of `sluice sim` beside ns-3, which Debian has
#   make stock      show the daemon on the kernels of Debian 12 and 13, with an NVMe drive of QEMU's
#   make nvdimm     show persistent memory on an NVDIMM of QEMU's: DAX, and power cuts under writes
#   make interleavings  check the protocols between reactors by atomics, in every order of steps
#   make simulate   run whole targets on simulated time, from fresh seeds, for HOURS (1)
#   make mutants    break the code on purpose, print what no test notices; PARTS, SHARD, FILES, AGAIN
#   make fuzz       run each fuzz target for FUZZ_SECONDS (60)
#   make site       render the documents as a site with a search, in build/book
#   make deny       check licences, banned and duplicate crates, and sources
#   make install    install binaries, systemd's files and documents, below DESTDIR and PREFIX (/usr)
#   make deb        build the Debian packages sluicegate and sluicegate-sim, in build/deb
#   make uninstall  remove what make install put there; configuration and state stay
#   make clean      remove build/

SHELL := /bin/bash
PREFIX ?= /usr
FUZZ_SECONDS ?= 60
HOURS ?= 1
# The daemon's source is in target/: cargo must never build there, whatever its configuration.
export CARGO_TARGET_DIR := $(CURDIR)/build

# The folder of the binaries that are installed.
BINARIES ?= build/release

.PHONY: build help run test check test-long bench bench-rdma bench-pmem bench-qos bench-hosts bench-versus bench-hostile bench-churn bench-qtcp bench-ns3 stock nvdimm interleavings simulate mutants fuzz site deny install deb uninstall clean

# What a whole build has beside the default: RDMA, and where its bindings find libclang.
WHOLE = env $$(.ci/libclang) cargo
FEATURES := $(shell cat .ci/features)

build:
	.ci/setup build
	$(WHOLE) build --release --workspace --exclude e2e --exclude bottleneck --bins $(FEATURES)

help:
	@sed -n 's/^#   make/make/p' Makefile

run:
	.ci/setup run
	@echo "Building sluiced and sluice: 2 minutes on two free cores the first time, 0.6 GB in build/."
	cargo build --profile demo --package sluiced --package sluice --bins
	tests/demo.sh build/demo

test:
	.ci/setup test
	.ci/test $(if $(ONLY),--only "$(ONLY)") $(if $(RUNS),--runs $(RUNS))

check:
	.ci/setup check
	.ci/test check

test-long:
	.ci/setup long
	.ci/test long

bench: build
	.ci/setup nvdimm
	tests/bench/nvmet.sh build/release

bench-rdma: build
	.ci/setup test
	tests/bench/rdma.sh build/release 7

bench-pmem: build
	.ci/setup test
	tests/bench/pmem.sh build/release 7

bench-qos: build
	tests/bench/qos.sh build/release

bench-hosts: build
	tests/bench/hosts.sh build/release

bench-versus: build
	tests/bench/versus.sh build/release "$(OTHER)"

bench-hostile: build
	ulimit -n 8192 && cargo test --release -p e2e --test hostile -- --ignored --nocapture

bench-churn: build
	tests/bench/churn.sh build/release
	tests/bench/removal.sh build/release

bench-qtcp:
	.ci/setup bench-qtcp
	cargo build --release -p qtcp -p bottleneck --features bottleneck/bpf --bins --examples
	ulimit -n 4096 && build/release/examples/adapter
	tests/bench/qtcp-bases.sh build/release

bench-ns3:
	.ci/setup bench-ns3
	tests/bench/ns3.sh

stock:
	.ci/setup nvdimm
	$(WHOLE) build -p sluiced -p sluice --features sluiced/rdma,sluice/rdma --bins
	tests/lab/stock build/debug

nvdimm: build
	.ci/setup nvdimm
	tests/lab/nvdimm build/release

# The feature has the dependencies compiled again, which takes longer than the models: nothing is optimized.
UNOPTIMIZED := $(foreach package,'"*"' arbitration units,--config profile.dev.package.$(package).opt-level=0)
interleavings:
	.ci/setup test
	cargo test -p arbitration --lib --features interleavings $(UNOPTIMIZED) interleavings

simulate:
	.ci/setup build
	SIMULATE_SECONDS=$$(($(HOURS) * 3600)) \
		cargo test --release -p sluice-world --test histories fresh -- --nocapture

mutants:
	.ci/setup mutants
	SHARD="$(SHARD)" FILES="$(FILES)" AGAIN="$(AGAIN)" tests/mutants.sh $(PARTS)

fuzz:
	.ci/setup fuzz
	.ci/fuzz $(FUZZ_SECONDS)

site:
	.ci/setup site
	mdbook build docs
	@echo "Open build/book/index.html."

deny:
	.ci/setup deny
	cargo deny --all-features check licenses bans sources

# Files below PREFIX. uninstall removes them.
INSTALLED := bin/sluiced bin/sluice bin/sluice-sim share/man/man5/sluicegate.toml.5 share/man/man8/sluiced.8 \
	share/bash-completion/completions/sluice.bash share/zsh/site-functions/_sluice \
	share/fish/vendor_completions.d/sluice.fish \
	share/doc/sluicegate/sluicegate.rules.yml share/doc/sluicegate/sluicegate.dashboard.json \
	$(patsubst docs/%,share/doc/sluicegate/%,$(wildcard docs/use/*.md docs/reference/*.md))
# Files of systemd and udev, below SYSTEM. uninstall removes them, too.
INSTALLED_SYSTEM := systemd/system/sluiced.service systemd/system/sluice-agent.service sysusers.d/sluicegate.conf \
	tmpfiles.d/sluicegate.conf sysctl.d/60-sluicegate.conf modules-load.d/sluicegate.conf \
	udev/rules.d/60-sluicegate.rules
at = $(DESTDIR)$(PREFIX)
# systemd and udev read no files below another prefix than these two. /etc stays the operator's.
SYSTEM = $(if $(filter /usr /usr/local,$(PREFIX)),$(PREFIX),/usr/local)/lib
system_at = $(DESTDIR)$(SYSTEM)
# The paths of installed files in systemd's files. Other paths below /usr are those of other packages.
PATHS = s|/usr/bin/sluice|$(PREFIX)/bin/sluice|g; s|/usr/share/doc/sluicegate|$(PREFIX)/share/doc/sluicegate|g

# With sudo, what its user has built is installed: root need not have a compiler.
install: $(if $(or $(SUDO_USER),$(filter-out file,$(origin BINARIES))),,build)
	@case "$(PREFIX)/" in /home/* | /root/* | /run/user/* | /tmp/* | /var/tmp/*) \
		echo "PREFIX=$(PREFIX): the service sees no programs there (ProtectHome, PrivateTmp): choose /usr/local or /opt/NAME" >&2; \
		exit 1 ;; esac
	@[ -x $(BINARIES)/sluiced ] || { echo "no $(BINARIES)/sluiced: run make first" >&2; exit 1; }
	install -D -t $(at)/bin $(BINARIES)/sluiced $(BINARIES)/sluice $(BINARIES)/sluice-sim
	$(BINARIES)/sluice manual $(at)/share
	mkdir -p $(at)/share/man/man8
	$(BINARIES)/sluiced --manual >$(at)/share/man/man8/sluiced.8
	install -D -m 644 -t $(at)/share/doc/sluicegate/use docs/use/*.md
	install -D -m 644 -t $(at)/share/doc/sluicegate/reference docs/reference/*.md
	install -D -m 644 -t $(at)/share/doc/sluicegate systemd/sluicegate.rules.yml systemd/sluicegate.dashboard.json
	install -D -m 644 -t $(system_at)/systemd/system systemd/sluiced.service systemd/sluice-agent.service
	sed -i '$(PATHS)' $(system_at)/systemd/system/sluiced.service $(system_at)/systemd/system/sluice-agent.service
	install -D -m 644 systemd/sluicegate.sysusers.conf $(system_at)/sysusers.d/sluicegate.conf
	install -D -m 644 systemd/sluicegate.tmpfiles.conf $(system_at)/tmpfiles.d/sluicegate.conf
	install -D -m 644 systemd/60-sluicegate.sysctl.conf $(system_at)/sysctl.d/60-sluicegate.conf
	sed -i '$(PATHS)' $(system_at)/sysctl.d/60-sluicegate.conf
	install -D -m 644 systemd/sluicegate.modules-load.conf $(system_at)/modules-load.d/sluicegate.conf
	install -D -m 644 -t $(system_at)/udev/rules.d systemd/60-sluicegate.rules
	[ -e $(DESTDIR)/etc/sluicegate/sluicegate.toml ] || { \
		install -D -m 644 -t $(DESTDIR)/etc/sluicegate systemd/sluicegate.toml && \
		sed -i '$(PATHS)' $(DESTDIR)/etc/sluicegate/sluicegate.toml; }

deb: $(if $(filter-out file,$(origin BINARIES)),,build)
	.ci/setup deb
	systemd/debian/build $(BINARIES) build/deb

uninstall:
	rm -f $(at)/share/man/man1/sluice.1 $(at)/share/man/man1/sluice-*.1
	rm -f $(addprefix $(at)/,$(INSTALLED)) $(addprefix $(system_at)/,$(INSTALLED_SYSTEM))
	-rmdir $(at)/share/doc/sluicegate/use $(at)/share/doc/sluicegate/reference $(at)/share/doc/sluicegate
	@echo "$(DESTDIR)/etc/sluicegate and /var/lib/sluicegate are kept"

clean:
	rm -rf build
