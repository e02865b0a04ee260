#!/usr/bin/env bash
# tls.sh: measures in a user-mode kernel what TLS and proofs cost the daemon: CPU time for a connection,
# plain, over TLS and with DH-HMAC-CHAP, and I/O over TLS beside plain TCP, in turns.
#
# usage: tls.sh BINARIES [ROUNDS] [SECONDS]     (BINARIES: the folder with sluiced and sluice)
set -euo pipefail
binaries=$(realpath "${1:?usage: tls.sh BINARIES [ROUNDS] [SECONDS]}")
rounds=${2:-5} seconds=${3:-2}
# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/uml.sh"
tools=$("$(dirname "$0")/../lab/build-tlstools")
export UML_CPUS=${UML_CPUS:-1}
inside "$binaries" bench-tls tcp $((120 + rounds * (90 + seconds * 16))) \
    inside-tls.sh "$tools/sid/bin" "$rounds" "$seconds"
