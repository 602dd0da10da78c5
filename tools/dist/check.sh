#!/usr/bin/env bash
# check.sh: what is wrong with the packaging that shows without a release build: packages of crates, units, maintainer scripts, the
# image of a container.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dist/common.sh

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
failed=0

# check NAME COMMAND...: says what failed, and goes on.
check() {
    local name=$1
    shift
    "$@" > "$WORK/log" 2>&1 || { echo "packaging: $name failed" >&2; tail -n 20 "$WORK/log" >&2; failed=1; }
}

# Units as they are, but for the command, which is not installed here. No less of a sandbox than today's.
units() {
    local unit most
    for unit in packaging/systemd/*.service; do
        sed -e "s,^ExecStart=/usr/bin/byway,ExecStart=/bin/true," "$unit" > "$WORK/$(basename "$unit")"
        systemd-analyze verify --man=no "$WORK/$(basename "$unit")" || return
        case $unit in *serve@*) most=20 ;; *) most=35 ;; esac
        systemd-analyze security --offline=true --threshold="$most" "$unit" || return
    done
}

scripts() {
    local script
    for script in packaging/debian/*.{postinst,prerm,postrm}; do
        sh -n "$script" || return
    done
}

# A list of files for each package of the control file, and no other.
lists() {
    diff <(sed -n 's/^Package: //p' packaging/debian/control | sort) <(cd packaging/debian && printf '%s\n' *.install | sed 's/\.install$//' | sort)
}

versions() {
    head -n 1 packaging/debian/changelog | grep -F "($VERSION)" || { echo "packaging/debian/changelog is not of $VERSION"; return 1; }
}

# The scripts are as bash wants them.
syntax() {
    local script
    for script in tools/dist.sh tools/dist/*.sh; do
        bash -n "$script" || return
    done
}

# The Containerfile, with any file as the program: made twice it is the same bytes, and its user is one of the image.
image() {
    local context=$WORK/context user
    mkdir -p "$context/empty" "$context/rootfs/usr/bin"
    cp -r packaging/oci/rootfs/. "$context/rootfs/"
    cp /bin/true "$context/rootfs/usr/bin/byway"
    tools/dist/oci.py packaging/oci/Containerfile "$context" test "$WORK/first.tar" || return
    tools/dist/oci.py packaging/oci/Containerfile "$context" test "$WORK/second.tar" || return
    cmp "$WORK/first.tar" "$WORK/second.tar" || return
    tar -tf "$WORK/first.tar" | grep -qx oci-layout || return
    user=$(sed -n 's/^USER //p' packaging/oci/Containerfile)
    grep -q "^byway:x:$user:" packaging/oci/rootfs/etc/passwd || { echo "$user is not byway in packaging/oci/rootfs/etc/passwd"; return 1; }
}

check "cargo package" tools/crates.py package --no-verify --allow-dirty
check "lists of files" lists
check "maintainer scripts" scripts
check "syntax of tools/dist" syntax
check "image of a container" image
check "version of the changelog" versions
if need systemd systemd-analyze; then check "systemd units" units; else echo "packaging: systemd-analyze is missing" >> "${BYWAY_SKIPS:-/dev/null}"; fi
exit "$failed"
