#!/bin/bash
# native-test.sh FOLDER PROGRAM TEST: runs one test of a test program of this repository, which starts the daemon
# and its load as processes of its own, on virtual time (e2e::on_virtual_time).
# time: virtual
mkdir /run/test
mount --bind "$1" /run/test
. /run/scenarios/lib.sh
boot
step "$3"
export SLUICEGATE_BINARIES=/run/bin LAB_TIME RUST_BACKTRACE=0
"/run/test/$2" --exact "$3" --include-ignored --nocapture --test-threads=1 >/tmp/output 2>&1 ||
    fail "$(cat /tmp/output)"
cat /tmp/output
# A name that no test has would pass.
grep -q '^test result: ok. 1 passed' /tmp/output || fail "no test $3"
cp /tmp/output /run/figures/
pass
