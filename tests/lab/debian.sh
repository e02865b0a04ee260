# Functions of build-uml, build-root and build-guest: messages, and packages from the Debian mirror that
# this machine uses.
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

# read_suite SUITE FOLDER: reads the package lists of a suite from the mirror that this machine uses, into
# a folder; the machine's own lists and sources stay as they are. Sets mirror, and apt to the options with
# which apt-get and apt-cache see that suite.
read_suite() {
    local suite=$1 folder=$2
    mirror=$(mirror_of_this_machine)
    mkdir -p "$folder"/{lists/partial,cache/archives/partial,etc}
    echo "deb [signed-by=$keyring] $mirror $suite main" >"$folder/etc/sources.list"
    touch "$folder/status"
    # shellcheck disable=SC2034
    apt=(-qq -o Dir::State="$folder" -o Dir::State::lists="$folder/lists"
        -o Dir::State::status="$folder/status" -o Dir::Cache="$folder/cache"
        -o Dir::Etc::sourcelist="$folder/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o APT::Sandbox::User=root)
    apt-get "${apt[@]}" update >&2 || die "cannot read $suite from $mirror"
}
