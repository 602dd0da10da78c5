# Sourced by the scripts here: what a machine must have beside a Rust toolchain.

# need NAME FILE-OR-COMMAND: have it, or install Debian's package NAME if we may. Fails with one sentence.
need() {
    have "$2" && return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing $1" >&2
        apt_get install -y -qq "$1" >/dev/null && have "$2" && return 0
    fi
    echo "$1 is missing: install it (on Debian: apt-get install $1)" >&2
    return 1
}

have() {
    case $1 in
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# What builds everything: a Rust toolchain, and a C compiler that links. Fails with one sentence.
need_compilers() {
    have cargo || { echo "a Rust toolchain is missing: see https://rustup.rs" >&2; return 1; }
    need gcc cc && need libc6-dev /usr/include/stdio.h
}

# A fresh machine has no package lists: fetch them when an install fails without.
apt_get() {
    DEBIAN_FRONTEND=noninteractive apt-get "$@" 2>/dev/null ||
        { apt-get update -qq >/dev/null 2>&1 && DEBIAN_FRONTEND=noninteractive apt-get "$@"; }
}

# The mirror of Debian that this machine's apt uses.
mirror() {
    if [ -n "${BYWAY_VM_MIRROR:-}" ]; then echo "$BYWAY_VM_MIRROR"; return; fi
    apt-get indextargets --format '$(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's,^main \(.*/debian\)/*$,\1,p' | sed -n 1p
}
