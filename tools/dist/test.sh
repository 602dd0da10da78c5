#!/usr/bin/env bash
# test.sh [SUBJECT...]: tries what `make dist` made on bare Debian systems without a toolchain, and the statically linked command without
# any system. Subjects: command, tdm, library, wheel, aarch64, static, oci, crates, reproducible. As root; it changes nothing outside
# target/dist.
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
    cp "$DIST"/*.deb "$DIST"/*.whl "$DIST"/*.tar.gz "$WORK/$1/dist/"
}

# inside NAME COMMAND: a shell command in such a system, as root.
inside() {
    in_system "$WORK/$1" "$2"
}

# within NAME PROGRAM [WORD]...: a program in a folder without a shell, as root.
within() {
    program_in_system "$WORK/$1" "${@:2}"
}

# served_by LOG COMMAND...: starts a server in the background, and waits until it listens: its process is $server, its address $uri.
served_by() {
    local log=$1
    shift
    "$@" > "$log" 2>&1 &
    server=$!
    until grep -q 'listening at' "$log"; do
        kill -0 "$server" || { cat "$log"; return 1; }
        sleep 0.1
    done
    uri=$(sed -n 's/.*listening at \(tcp:[^ ,]*\).*/\1/p' "$log")
    # A server at all addresses is asked at this machine's own.
    uri=${uri/0.0.0.0/127.0.0.1}
}

APT="apt-get -qq -o Dpkg::Use-Pty=0 -o APT::Sandbox::User=root --no-install-recommends -y"
# Stores a pair in an image and reads it again: `$1` stands before the command.
KEPT='cd /tmp && rm -f d.img && $RUN byway create d.img --size 64M >/dev/null && $RUN byway kv put d.img 0041 hello && test "$($RUN byway kv get d.img 0041)" = hello'

# Packages made again of the same commit are the same bytes. Programs are not compiled again.
reproducible() {
    (cd "$DIST" && sha256sum -- *.deb *.whl *-static.tar.gz *-oci.tar > "$WORK/sums")
    tools/dist/debs.sh && tools/dist/wheels.sh && tools/dist/oci.sh && (cd "$DIST" && sha256sum -c "$WORK/sums")
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

# A system of the other kind of machine, in which no maintainer script has run, and QEMU to run single programs of it.
foreign_tree() {
    need qemu-user-static qemu-aarch64-static && need mmdebstrap mmdebstrap || return
    mmdebstrap --quiet --variant=extract --architectures=arm64 --include=python3.11,python3-pip-whl bookworm "$WORK/aarch64" "$(mirror)" || return
    mkdir -p "$WORK/aarch64"/{dist,dev,proc,run,tmp} && cp "$DIST"/*aarch64.whl "$WORK/aarch64/dist/" && cp "$(command -v qemu-aarch64-static)" "$WORK/aarch64/qemu"
}

emulated() {
    within aarch64 /qemu "$@"
}

aarch64() {
    rm -rf "$WORK/aarch64"
    try "aarch64: there is an arm64 system, and QEMU" foreign_tree
    try "aarch64: pip installs the wheel" emulated /usr/bin/python3.11 -c "
import glob, runpy, sys
sys.path.insert(0, glob.glob('/usr/share/python-wheels/pip-*.whl')[0])
sys.argv = ['pip', 'install', '-q', '--no-index', '--prefix', '/venv', *glob.glob('/dist/*.whl')]
runpy.run_module('pip', run_name='__main__')"
    try "aarch64: the module stores a pair and reads it" emulated /usr/bin/python3.11 -c "
import glob, sys
sys.path[:0] = glob.glob('/venv/**/*-packages', recursive=True)
import byway
with byway.open('embedded-ram:64M', transfer='inline') as device:
    device.kv[b'0041'] = b'LATIN CAPITAL LETTER A'
    assert device.kv[b'0041'] == b'LATIN CAPITAL LETTER A'"
    try "aarch64: the command stores a pair in an image and reads it" emulated_pair
    try "aarch64: auditwheel finds the wheel fit for its tag" audit aarch64
}

emulated_pair() {
    local byway
    byway=$(cd "$WORK/aarch64" && find venv -path '*/bin/byway')
    emulated "/$byway" --version | grep "^byway $VERSION" && emulated "/$byway" create /tmp/d.img --size 64M &&
        emulated "/$byway" kv put /tmp/d.img 0041 hello && test "$(emulated "/$byway" kv get /tmp/d.img 0041)" = hello
}

static_command() {
    tree static
    try "static: it is unpacked below /usr/local, and says its version" inside static "PATH=/usr/local/bin:\$PATH; tar -xf /dist/byway-*-static.tar.gz -C /usr/local --strip-components=1 && byway --version | grep -qx 'byway $VERSION.*'"
    try "static: it names no loader and no library" is_static "$WORK/static/usr/local/bin/byway"
    try "static: a pair is stored in an image and read" inside static "PATH=/usr/local/bin:\$PATH; RUN=; $KEPT"
    try "static: man pages and completions are there" inside static "cd /usr/local/share && test -s man/man1/byway-kv-put.1 -a -s bash-completion/completions/byway -a -s zsh/site-functions/_byway -a -s fish/vendor_completions.d/byway.fish -a -s doc/byway/LICENSE"
    try "static: it says that it has no TLS, and no library of byway tdm run" inside static "PATH=/usr/local/bin:\$PATH; $(refusals)"
    try "static: its daemon serves dd under the library of byway-tdm" inside static "$APT update && $APT install /dist/byway_*.deb /dist/byway-tdm_*.deb
$(static_daemon)"
    mkdir -p "$WORK/empty"/{dev,proc,run,tmp}
    cp "$WORK/static/usr/local/bin/byway" "$WORK/empty/byway"
    try "static: in an empty tree it serves a pair over TCP, and gets it" served_alone
}

is_static() {
    readelf -lWd "$1" && ! readelf -lWd "$1" | grep -E 'INTERP|NEEDED'
}

refusals() {
    cat <<'END'
cd /tmp
refused() { if "$@" > said 2>&1; then return 1; fi; cat said; }
byway key new --tls > key
chmod 600 key
refused byway kv get 'tcp://127.0.0.1:1/nqn.2026-11.example:disk?tls-key-file=key' 0041
grep 'linked statically, and cannot load' said
refused byway tdm run -- true
grep 'statically linked byway comes without' said
END
}

static_daemon() {
    cat <<'END'
mkdir -p /srv/data
/usr/local/bin/byway tdm serve --socket /run/byway-tdm.sock --region 'emu:static?size=64M' --emulate-persistence > /tmp/log 2>&1 &
until grep -q 'listening at /run/byway-tdm.sock' /tmp/log; do sleep 0.1; kill -0 $!; done
/usr/bin/byway tdm run -- dd if=/usr/bin/byway of=/srv/data/copy bs=4k count=256 oflag=sync status=none 2> /tmp/notes
test ! -s /tmp/notes
/usr/local/bin/byway tdm status --once | grep -E '^[1-9][0-9]* more files? that no program has open'
kill -TERM $!
wait $!
cmp -n 1048576 /usr/bin/byway /srv/data/copy
END
}

# innermost PROCESS: the last of those that it has begun, each by the one before: the first process of its namespace, as in a container.
innermost() {
    local process=$1 child
    while child=$(pgrep -P "$process"); do process=$child; done
    echo "$process"
}

served_alone() {
    local server uri
    within empty /byway create /tmp/d.img --size 64M && within empty /byway kv put /tmp/d.img 0041 hello || return
    served_by "$WORK/served" within empty /byway serve /tmp/d.img --tcp 127.0.0.1:0 || return
    test "$(within empty /byway kv get "$uri" 0041)" = hello || return
    kill -TERM "$(innermost "$server")" && wait "$server" && within empty /byway check /tmp/d.img
}

have_runtime() {
    need umoci umoci && need runc runc && need jq jq
}

# contained NAME [WORD]...: a container of the image, on this machine's network, whose program gets these arguments (none has a blank), or
# else its own.
contained() {
    local name=$1
    shift
    cp -r --reflink=auto "$WORK/bundle" "$WORK/$name"
    jq '.process.terminal = false | .linux.namespaces |= map(select(.type != "network"))
        | .mounts |= map(select(.destination != "/var/lib/byway")) + [{destination: "/var/lib/byway", type: "none", source: $volume, options: ["bind", "rw"]}]
        | if $words == "" then . else .process.args = [.process.args[0]] + ($words | split(" ")) end' \
        --arg volume "$WORK/volume" --arg words "$*" "$WORK/bundle/config.json" > "$WORK/$name/config.json"
    runc --root "$WORK/runc" run --bundle "$WORK/$name" "byway-$name"
}

oci() {
    try "oci: umoci, runc and jq are there" have_runtime
    mkdir "$WORK/layout" && tar -xf "$DIST"/byway-*-oci.tar -C "$WORK/layout"
    try "oci: umoci unpacks it" umoci unpack --image "$WORK/layout:$VERSION" "$WORK/bundle"
    install -d -o 65532 -g 65532 "$WORK/volume"
    try "oci: its program says its version" contained version --version
    try "oci: it makes an image in its volume" contained create create disk.img --size 64M
    try "oci: that file is the user's" test "$(stat -c %u:%g "$WORK/volume/disk.img")" = 65532:65532
    try "oci: by its own arguments it serves a pair, is healthy, and ends by its signal" served_contained
}

image_config() {
    local blobs=$WORK/layout/blobs manifest
    manifest=$(jq -r '.manifests[0].digest' "$WORK/layout/index.json" | tr : /)
    cat "$blobs/$(jq -r .config.digest "$blobs/$manifest" | tr : /)"
}

served_contained() {
    local server uri health
    contained put kv put disk.img 0041 hello && served_by "$WORK/served" contained serve || return
    test "$(contained get kv get "$uri" 0041)" = hello || return
    # What Docker asks, behind the word CMD and the program.
    mapfile -t health < <(image_config | jq -r '.config.Healthcheck.Test[2:][]')
    contained health "${health[@]}" || return
    runc --root "$WORK/runc" kill byway-serve TERM && wait "$server"
}

crates() {
    try "crates: spec, queue and codec are usable alone" tools/dist/alone.sh "$DIST/crates"
}

[ "$(id -u)" = 0 ] || { echo "test.sh: root alone may make systems to try packages on" >&2; exit 1; }
# Servers that a failed check leaves.
trap 'for job in $(jobs -p); do kill -KILL "$(innermost "$job")" || true; done' EXIT
mkdir -p "$WORK"
subjects=("$@")
[ $# -gt 0 ] || subjects=(command tdm library wheel aarch64 static oci crates reproducible)
for subject in "${subjects[@]}"; do
    case $subject in
        reproducible) try "packages: made again they are the same bytes" reproducible ;;
        command) commands ;;
        static) static_command ;;
        tdm | library | wheel | aarch64 | oci | crates) "$subject" ;;
        *) echo "test.sh: no $subject; see its first lines" >&2; exit 2 ;;
    esac
done
rm -rf "$WORK"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
