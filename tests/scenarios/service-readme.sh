#!/bin/bash
# The commands of README.md work as they are written, from the installed files to the host's disk. The files are those of
# `make install`, with the commands of docs/use/operating.md; tests/lab/packages tests the package.
# cpus: 1
. /run/scenarios/lib.sh
boot

# block LANGUAGE PATTERN [FILE]: prints the README's first block of code in that language with the pattern.
block() {
    awk -v want="$1" -v pattern="$2" '
        /^```/ { if (inside && text ~ pattern && !done) { printf "%s", text; done = 1 }
                 inside = ($0 == "```" want) && !inside; text = ""; next }
        inside { text = text $0 "\n" }' "/lab/${3:-README.md}"
}
# typed PATTERN [FILE]: runs that block's commands one by one, without sudo, which this machine does not have.
typed() {
    local command commands
    commands=$(block sh "$@")
    [ -n "$commands" ] || fail "no block has '$1'"
    while read -r command; do
        # `make install` has been done; the machine's kernel has everything built in.
        [[ ! $command =~ ^(make|modprobe) ]] || continue
        expect "README" bash -c "$command"
    done < <(sed 's/ *#.*//; s/^sudo //; s/SERVER/127.0.0.1/; s/10s$/1s/; s/^sluice top$/& --once/; /qos reserve/d' <<<"$commands")
}

step "the commands after the installation"
typed systemd-sysusers operating.md

step "the configuration, with the host's own name"
typed show-hostnqn
name=$(nvme show-hostnqn)
same "the name" "$name" "$(cat /etc/nvme/hostnqn)"
block toml listener | sed "s/nqn.2014-08.org.nvmexpress:uuid:[0-9a-f-]*/$name/" >$CONFIG
grep -q "$name" $CONFIG || fail "no host in the README's configuration: $(cat $CONFIG)"
typed "systemctl start"

step "the host has a disk"
typed "nvme connect"
d=$(disk nqn.2026-01.io.example:disks 1)
size_is "$d" $((10 << 30)) || fail "$d has another size: $(blockdev --getsize64 "$d")"
write_verify readme "$d" --rw=write --bs=64k --size=16m

step "a live change"
typed "sluice namespace add"
size_is "$(disk nqn.2026-01.io.example:disks 2)" $((4 << 30)) || fail "the host has no second disk"

step "tenants"
# This machine's disk is slower than the one of the example.
{ block toml listener && block toml 'class = "high"'; } |
    sed "s/nqn.2014-08.org.nvmexpress:uuid:[0-9a-f-]*/$name/; s/commands = 20000/commands = 100/" \
    >/tmp/tenants.toml
expect "check" sluiced --check --offline /tmp/tenants.toml
cp /tmp/tenants.toml $CONFIG
expect "reload" sluice reload
typed "sluice top"

step "what README says of drives is right too"
{
    block toml 'cores = ' | sed -n '1,/^$/p' | sed 's/\[2, 3\]/[0, 1]/'
    block toml listener | sed '/^\[target\]/d'
    block toml /dev/ng | sed '1,/^$/d'
} >/tmp/drives.toml
# The drives are not here.
expect "check" sluiced --check --offline /tmp/drives.toml
pass
