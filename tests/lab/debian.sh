# Functions of build-uml and build-root: messages, and the Debian mirror that this machine uses.
# shellcheck shell=bash
cache=${SLUICEGATE_CACHE:-$HOME/.cache/sluicegate}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "${0##*/}: $*" >&2; }
die() {
    say "$*"
    exit 1
}

# as_root COMMAND...: runs a command as root, by sudo where this user is another one.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "run as root: $*"
    fi
}

# mirror_of_this_machine: prints the address of the Debian mirror that apt is set up with.
# (No grep -q or head here: with pipefail their early end would fail the whole line.)
mirror_of_this_machine() {
    local mirror
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
        sed -n 's|/debian/*$|&|p' | sed -n 1p)
    [ -n "$mirror" ] || die "no Debian mirror in this machine's apt configuration (apt-get indextargets)"
    [ -r $keyring ] || die "no $keyring: apt-get install debian-archive-keyring"
    echo "$mirror"
}
