#!/usr/bin/env bash
# test.sh [SUBJECT...]: tries what `make dist` made on bare Debian systems without a toolchain: commands, library, wheel.
# Subjects: reproducible, command, tdm, library, wheel, crates. As root; it changes nothing outside target/dist.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/dist/common.sh
. tools/tree.sh

DIST=$PWD/target/dist
WORK=$DIST/work/test
BARE=$DIST/work/bare.tar
passed=0
failed=0

# try NAME COMMAND...: one check, with its output where it fails.
try() {
    local name=$1
    shift
    if "$@" > "$WORK/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        tail -n 20 "$WORK/log"
    fi
}

# tree NAME: a bare system of that name with the packages in /dist.
tree() {
    bare_system "$BARE"
    unpack_system "$BARE" "$WORK/$1"
    mkdir "$WORK/$1/dist"
    cp "$DIST"/*.deb "$DIST"/*.whl "$WORK/$1/dist/"
}

# inside NAME COMMAND: a shell command in such a system, as root.
inside() {
    in_system "$WORK/$1" "$2"
}

APT="apt-get -qq -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root --no-install-recommends -y"
# Stores a pair in an image and reads it again: `$1` stands before the command.
KEPT='cd /tmp && rm -f d.img && $RUN byway create d.img --size 64M >/dev/null && $RUN byway kv put d.img 0041 hello && test "$($RUN byway kv get d.img 0041)" = hello'

# Packages made again are the same bytes.
reproducible() {
    (cd "$DIST" && sha256sum -- *.deb > "$WORK/sums")
    tools/dist/debs.sh && (cd "$DIST" && sha256sum -c "$WORK/sums")
}

commands() {
    tree command
    (cd "$WORK/command" && find . -xdev | sort) > "$WORK/before"
    try "command: apt installs byway and byway-lab" inside command "$APT update && $APT install /dist/byway_*.deb /dist/byway-lab_*.deb man-db strace"
    try "command: it runs, and says its version" inside command "byway --version | grep -qx 'byway $VERSION.*' && byway-lab --version"
    try "command: a pair is stored in an image and read" inside command "RUN=; $KEPT"
    try "command: man pages are found" inside command "rm -f /etc/dpkg/dpkg.cfg.d/docker; man -w byway byway-serve byway-kv-put byway-lab"
    try "command: completions are where shells look" inside command "test -s /usr/share/bash-completion/completions/byway -a -s /usr/share/zsh/vendor-completions/_byway -a -s /usr/share/fish/vendor_completions.d/byway.fish"
    try "command: its user and folders are there" inside command "id byway && test \"\$(stat -c %U:%a /var/lib/byway)\" = byway:750 -a \"\$(stat -c %U:%G:%a /etc/byway)\" = root:byway:750"
    try "command: the units are as systemd wants them" inside command "systemd-analyze verify --man=no /usr/lib/systemd/system/byway-serve@.service"
    try "command: a server of the unit's user ends in order, and needs no call that the unit filters" inside command "$(served)"
    try "command: apt removes and purges it, and images stay" inside command "$APT purge byway byway-lab && test -s /var/lib/byway/disk.img && ! command -v byway && ! ls /usr/lib/systemd/system/byway* /usr/share/man/man1/byway* 2>/dev/null"
}

# Shell functions for a bare system: which calls of the kernel a unit's filter lacks that are in strace's file /tmp/calls.
FILTER='
expand() { systemd-analyze syscall-filter "$1" | sed 1,2d | while read -r name _; do case $name in @*) expand "$name" ;; "#"* | "") ;; *) echo "$name" ;; esac; done; }
sets() { for set in $(sed -n "s/^SystemCallFilter=$2\(@.*\)/\1/p" "$1"); do expand "$set"; done; expand @default; }
lacks() {
    sets "$1" "" | sort -u > /tmp/allowed
    sets "$1" "~" | sort -u > /tmp/removed
    expand @default | sort -u > /tmp/default
    sed -E -n "s/^[0-9]+ +([a-z_0-9]+)\(.*/\1/p" /tmp/calls | sort -u > /tmp/used
    comm -23 /tmp/used /tmp/allowed
    comm -12 /tmp/used /tmp/removed | comm -23 - /tmp/default
}
'

# What byway-serve@.service does, without systemd: its user, its folders, an end by SIGTERM.
served() {
    echo "$FILTER"
    cat <<'END'
AS="setpriv --reuid=byway --regid=byway --init-groups --no-new-privs --bounding-set=-all --inh-caps=-all"
install -d -o byway -g byway -m 750 /run/byway-serve/disk
$AS byway create /var/lib/byway/disk.img --size 64M
$AS strace -D -f -qq -o /tmp/calls byway serve --control /run/byway-serve/disk/control.sock /var/lib/byway/disk.img --vfio-user /run/byway-serve/disk/vfio-user.sock --tcp 127.0.0.1:0 > /tmp/log 2>&1 &
until grep -q listening /tmp/log; do sleep 0.1; kill -0 $!; done
$AS byway subsystem list /run/byway-serve/disk/control.sock
$AS byway kv put vfio-user:/run/byway-serve/disk/vfio-user.sock 0041 hello
kill -TERM $!
wait $!
test "$($AS byway kv get /var/lib/byway/disk.img 0041)" = hello
lacks=$(lacks /usr/lib/systemd/system/byway-serve@.service)
echo "calls that the filter lacks: $lacks"
test -s /tmp/used -a -z "$lacks"
END
}

tdm() {
    tree tdm
    try "tdm: apt installs byway-tdm" inside tdm "$APT update && $APT install /dist/byway_*.deb /dist/byway-tdm_*.deb strace"
    try "tdm: its unit is as systemd wants it" inside tdm "systemd-analyze verify --man=no /usr/lib/systemd/system/byway-tdm.service"
    try "tdm: synchronous writes of dd are served, with the unit's rights and calls" inside tdm "$(served_writes)"
    try "tdm: a changed setting outlives removal, and not a purge" inside tdm "echo '# mine' >> /etc/byway/tdm.env && $APT remove byway-tdm && test -f /etc/byway/tdm.env && $APT purge byway-tdm && test ! -e /etc/byway/tdm.env"
}

served_writes() {
    echo "$FILTER"
    cat <<'END'
. /etc/byway/tdm.env
caps=$(sed -n 's/^CapabilityBoundingSet=//p' /usr/lib/systemd/system/byway-tdm.service | tr 'A-Z ' 'a-z,' | sed -e 's/cap_/+/g')
setpriv --no-new-privs --bounding-set="-all,$caps" strace -D -f -qq -o /tmp/calls byway tdm serve $BYWAY_TDM_SERVE > /tmp/log 2>&1 &
until grep -q 'listening at /run/byway-tdm.sock' /tmp/log; do sleep 0.1; kill -0 $!; done
mkdir -p /srv/data && chown games /srv/data
setpriv --reuid=games --regid=games --clear-groups byway tdm run -- dd if=/usr/bin/byway of=/srv/data/copy bs=4k count=256 oflag=sync status=none 2> /tmp/notes
! grep . /tmp/notes
kill -TERM $!
wait $!
cmp -n 1048576 /usr/bin/byway /srv/data/copy
lacks=$(lacks /usr/lib/systemd/system/byway-tdm.service)
echo "calls that the filter lacks: $lacks"
test -s /tmp/used -a -z "$lacks"
END
}

library() {
    tree library
    awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md > "$WORK/library/dist/readme.c"
    try "library: apt installs libbyway-dev, and a compiler" inside library "$APT update && $APT install /dist/libbyway0_*.deb /dist/libbyway-dev_*.deb gcc pkg-config man-db"
    try "library: the README's program in C is linked to libbyway.so.0, and runs" inside library \
        "cd /tmp && gcc -Wall -Werror /dist/readme.c -o shared \$(pkg-config --cflags --libs byway) && ldd shared | grep -q libbyway.so.0 && ./shared"
    try "library: it is linked to libbyway.a, and runs" inside library \
        "cd /tmp && gcc /dist/readme.c -o static -Wl,-Bstatic -lbyway -Wl,-Bdynamic \$(pkg-config --libs --static byway | sed 's/-lbyway//') && ! ldd static | grep libbyway && ./static"
    try "library: man pages of functions are found" inside library "man -w byway_kv_put 3 byway"
    try "library: apt purges it" inside library "$APT purge libbyway0 libbyway-dev && ! ls /usr/lib/*/libbyway* /usr/include/byway.h 2>/dev/null"
}

wheel() {
    tree wheel
    try "wheel: pip installs it" inside wheel "$APT update && $APT install python3-venv && python3 -m venv /venv && /venv/bin/pip install -q --no-index /dist/byway-*x86_64.whl"
    try "wheel: the README's program in Python runs" inside wheel "cat > /tmp/p.py <<'END' && cd /tmp && /venv/bin/python p.py
$(awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' README.md)
END"
    try "wheel: the command is the program itself" inside wheel "PATH=/venv/bin:\$PATH; test \"\$(head -c 4 /venv/bin/byway | tail -c 3)\" = ELF && byway --version && RUN= && $KEPT"
    try "wheel: the command finds the library of byway tdm" inside wheel "PATH=/venv/bin:\$PATH; byway tdm run -- true 2>&1 | grep -v 'no daemon\|runs unserved' | { ! grep . ; }"
    try "wheel: pip removes it" inside wheel "/venv/bin/pip uninstall -qy byway && test ! -e /venv/bin/byway -a ! -e /venv/lib/byway"
    try "wheel: auditwheel finds it fit for its tag" audit x86_64
}

# audit MACHINE: auditwheel's own view of a wheel agrees with its name.
audit() {
    local file
    file=$(echo "$DIST"/byway-*"$1".whl)
    target/dist-python/bin/auditwheel show "$file"
    target/dist-python/bin/auditwheel show "$file" | tr '\n' ' ' | grep -q "constrains the platform tag to \"$(sed 's/.*abi3-\(.*\)\.whl/\1/' <<< "$file")\""
}

crates() {
    try "crates: spec, queue and codec are usable alone" tools/dist/alone.sh "$DIST/crates"
}

[ "$(id -u)" = 0 ] || { echo "test.sh: root alone may make systems to try packages on" >&2; exit 1; }
mkdir -p "$WORK"
subjects=("$@")
[ $# -gt 0 ] || subjects=(command tdm library wheel crates reproducible)
for subject in "${subjects[@]}"; do
    case $subject in
        reproducible) try "debs: made again they are the same bytes" reproducible ;;
        command) commands ;;
        tdm | library | wheel | crates) "$subject" ;;
        *) echo "test.sh: no $subject; see its first lines" >&2; exit 2 ;;
    esac
done
rm -rf "$WORK"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
