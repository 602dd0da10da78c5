# Sourced before every test in its guest. A test is a row of checks; one that fails does not end it.
export PATH=/programs:$PATH HOME=/root TERM=dumb
discovery=nqn.2014-08.org.nvmexpress.discovery
nvmet=/sys/kernel/config/nvmet
cd /tmp
ln -sf /proc/self/fd /dev/fd
failures=0

# check NAME COMMAND...: the command succeeds.
check() {
    local about=$1 code
    shift
    (set -e; "$@") > /tmp/said 2>&1
    code=$?
    if [ "$code" = 0 ]; then
        echo "ok $about"
        return
    fi
    failures=$((failures + 1))
    tail -n 60 /tmp/said
    echo "FAILED $about (exit $code)"
    return 1
}

# refuses PATTERN COMMAND...: the command fails, and its output matches the pattern.
refuses() {
    local pattern=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "succeeded, and must not: $*"
        return 1
    fi
    grep -qE -- "$pattern" <<< "$said" || { echo "said: $said"; return 1; }
}

# fails COMMAND...: the command fails. (`! COMMAND` would not end a check if the command succeeds.)
fails() {
    if "$@"; then
        echo "succeeded, and must not: $*"
        return 1
    fi
}

# says PATTERN COMMAND...: the command succeeds, and its output matches the pattern.
says() {
    local pattern=$1 said
    shift
    said=$("$@" 2>&1) || { echo "failed: $said"; return 1; }
    grep -qE -- "$pattern" <<< "$said" || { echo "said: $said"; return 1; }
}

# same FILE FILE: their bytes are the same.
same() {
    cmp "$1" "$2"
}

# The name of the controller with this serial number, when it is ready: nvme0.
controller() {
    local path tries
    for tries in $(seq 600); do
        for path in /sys/class/nvme/nvme*; do
            if grep -qs "^$1 *$" "$path/serial" && [ "$(cat "$path/state")" = live ]; then
                basename "$path"
                return
            fi
        done
        sleep 0.1
    done
    echo "no controller $1" >&2
    return 1
}

# The name of namespace $2 of a controller, when its nodes are there: nvme0n1.
namespace() {
    local path tries
    for tries in $(seq 600); do
        for path in /sys/class/nvme/"$1"/"${1}"*n*; do
            path=$(basename "$path" | sed 's/c[0-9]*n/n/')
            if [ "$(cat "/sys/block/$path/nsid" 2>/dev/null)" = "$2" ] && [ -b "/dev/$path" ] && [ -c "/dev/${path/nvme/ng}" ]; then
                echo "$path"
                return
            fi
        done
        sleep 0.1
    done
    echo "controller $1 has no namespace $2" >&2
    return 1
}

# random FILE BYTES: a file of random bytes.
random() {
    head -c "$2" /dev/urandom > "$1"
}

# Sends a command to the host and waits until it is done: prints its output; succeeds if the host's command did.
host() {
    rm -f /share/answer
    echo "$*" > /share/ask.new
    mv /share/ask.new /share/ask
    until [ -e /share/answer ]; do sleep 0.1; done
    cat /share/answer
    grep -q "^$*: 0$" /share/answer
}

# The serial number of our device, whose driver is loaded, or of another controller that is there alone.
serial() {
    local tries
    for tries in $(seq 600); do
        if cat /sys/class/nvme/nvme*/serial 2>/dev/null | tr -d ' ' | grep -v '^other$' | head -n 1 | grep .; then return; fi
        sleep 0.1
    done
    echo "no controller" >&2
    return 1
}

# The character device of the first namespace of keys, when it is there.
keys_node() {
    local tries
    for tries in $(seq 100); do
        byway list 2>/dev/null | awk '$1 ~ /^\/dev\/ng/ && $4 == "kv" {print $1; exit}' | grep . && return
        sleep 0.2
    done
    echo "no namespace of keys" >&2
    return 1
}

# Gives the guest's network card the address that QEMU's network of one guest has for it.
network_up() {
    local link
    link=$(basename "$(dirname /sys/class/net/e*/address | head -n 1)")
    ip link set "$link" up
    ip addr add 10.0.2.15/24 dev "$link"
}

# far_port N: an address in a separate network, 10.9.N.2 in namespace `far`, behind a veth pair.
far_port() {
    [ -e /run/netns/far ] || ip netns add far
    ip link add "near$1" type veth peer name "far$1" netns far
    ip addr add "10.9.$1.1/24" dev "near$1"
    ip link set "near$1" up
    ip -n far addr add "10.9.$1.2/24" dev "far$1"
    ip -n far link set "far$1" up
}

# network N SETTINGS...: netem settings for both directions to such a port.
network() {
    tc qdisc replace dev "near$1" root netem "${@:2}"
    tc -n far qdisc replace dev "far$1" root netem "${@:2}"
}

# load_if_there MODULE...: loads those that the kernel has as modules. The kernel's cryptography requests some by
# names that no module dependency lists.
load_if_there() {
    local module
    for module in "$@"; do modprobe "$module" 2> /dev/null; done
}

# connect OPTIONS...: connects Linux's own NVMe/TCP initiator to subsystem $nqn, at $port of $address or of the host's
# loopback as the guest sees it, with $connect_options. Later options override earlier ones.
connect() {
    # shellcheck disable=SC2086
    nvme connect -t tcp -a "${address:-10.0.2.2}" -s "$port" -n "$nqn" --reconnect-delay=1 --ctrl-loss-tmo=300 \
        ${connect_options:-} "$@"
}

# connected OPTIONS...: connects, and waits for the controller and its first namespace; `found` then has their names.
connected() {
    connect "$@"
    controller "$(serial)" > name
    namespace "$(cat name)" 1 > block
    found
}

# Sets $name and $block to the controller that was connected to last, and to the node of its first namespace.
found() {
    name=$(cat name)
    block=/dev/$(cat block)
}

# in_connection OPTIONS...: checks that connecting works, and sets the names.
in_connection() {
    check "connect" connected "$@"
    found
}

disconnected() {
    nvme disconnect -n "$nqn"
    until_true 60 is_gone
}

# is_gone [NQN]: $nqn, or the given subsystem, has no controller.
is_gone() {
    ! grep -qs "${1:-$nqn}" /sys/class/nvme/nvme*/subsysnqn
}

# by_address ADDRESS: the controller of $nqn that is connected to this address.
by_address() {
    local path
    for path in /sys/class/nvme/nvme*; do
        if grep -qsx "$nqn" "$path/subsysnqn" && grep -qs "traddr=$1," "$path/address"; then
            basename "$path"
            return
        fi
    done
    return 1
}

# path_is ADDRESS STATE: the ANA state of the first namespace by this address, as Linux sees it.
path_is() {
    grep -qsx "$2" /sys/class/nvme/"$(by_address "$1")"/nvme*c*n1/ana_state
}

# reads_back BYTES: writes bytes and reads the same back.
reads_back() {
    found
    random data "$1"
    byway nvm write "$block?direct=1" --offset 64K --file data
    is_there_still
}

# The bytes last written so are still there.
is_there_still() {
    found
    byway nvm read "$block?direct=1" --offset 64K --length "$(stat -c %s data)" | cmp - data
}

# Linux's own target, with subsystem $nqn for every host.
nvmet_subsystem() {
    modprobe null_blk nr_devices=0
    modprobe nvmet
    modprobe nvmet-tcp
    mount -t configfs none /sys/kernel/config
    mkdir "$subsystem"
    echo 1 > "$subsystem/attr_allow_any_host"
}

# nvmet_namespace NSID MIB [GROUP]: a namespace of it, blocks in memory, in an ANA group.
nvmet_namespace() {
    local blocks=/sys/kernel/config/nullb/nullb$1 setting
    mkdir "$blocks" "$subsystem/namespaces/$1"
    for setting in "size=$2" blocksize=512 memory_backed=1 discard=1 power=1; do
        echo "${setting#*=}" > "$blocks/${setting%=*}"
    done
    echo -n "/dev/nullb$1" > "$subsystem/namespaces/$1/device_path"
    echo "${3:-1}" > "$subsystem/namespaces/$1/ana_grpid"
    echo 1 > "$subsystem/namespaces/$1/enable"
}

# nvmet_port N ADDRESS: a port that serves nothing yet.
nvmet_port() {
    mkdir "$nvmet/ports/$1"
    echo tcp > "$nvmet/ports/$1/addr_trtype"
    echo ipv4 > "$nvmet/ports/$1/addr_adrfam"
    echo "$2" > "$nvmet/ports/$1/addr_traddr"
    echo 4420 > "$nvmet/ports/$1/addr_trsvcid"
}

# Serves the subsystem at port N. It listens in the network namespace of the caller.
nvmet_serve() {
    ${nvmet_within:-} ln -s "$subsystem" "$nvmet/ports/$1/subsystems/"
}

# Stops serving it, and ends the controllers of that port.
nvmet_withdraw() {
    rm "$nvmet/ports/$1/subsystems/$nqn"
}

# until_true SECONDS COMMAND...: waits for it to succeed.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "still failing after the timeout: $*" >&2; return 1; }
        sleep 0.2
    done
}

# Blocks with numbers: numbered.py.
numbered() {
    python3 /share/numbered.py "$@"
}

# fio_verified FILE OPTIONS...: fio writes and compares what it reads with what it wrote.
fio_verified() {
    local file=$1
    shift
    fio --name=v --filename="$file" --direct=1 --ioengine=io_uring --verify=crc32c --verify_fatal=1 --do_verify=1 \
        --group_reporting "$@"
}

# The fio engine for loads under resets; README.md says why it is not io_uring on Linux 6.12.
engine=io_uring
case $(uname -r) in 6.12.*) engine=libaio ;; esac

# Loads $block until /tmp/enough exists: fio runs behind the numbered blocks, repeatedly, with $load_options.
loads() {
    # shellcheck disable=SC2086
    while [ ! -e enough ]; do
        fio --name=r --filename="$block" --direct=1 --ioengine="$engine" --rw=randrw --bs=4k --iodepth=16 --offset=64M \
            --size=32M --time_based --runtime=10 ${load_options:-} || return 1
    done
}

# Whether controller $name is live.
is_live() {
    [ "$(cat "/sys/class/nvme/$name/state")" = live ]
}

# Bytes of the journal.
journaled() {
    stat -c %s journal 2> /dev/null || echo 0
}

# grown BYTES: the journal has grown beyond this size.
grown() {
    [ "$(journaled)" -gt "$1" ]
}

# under_load COUNT COMMAND...: runs the command repeatedly while $block is loaded, each time after newly acknowledged
# writes; no acknowledged write is lost.
under_load() {
    local count=$1 fio writer had ended=0
    shift
    had=$(journaled)
    rm -f enough
    loads &
    fio=$!
    python3 /share/numbered.py write "$block" journal 3000 8 > wrote &
    writer=$!
    # The writer first reads the earlier blocks, and can be stopped only after that.
    until_true 60 grown "$had"
    again "$count" "$@" > resets
    touch enough
    # If either ended early: stop both, so that the load does not run into the next check.
    kill "$writer" || ended=1
    wait "$writer" || ended=1
    wait "$fio" || ended=1
    cat wrote resets
    [ "$ended" = 0 ]
    grep -q 'no failure' wrote
    grep -qx "$count resets" resets
    is_live
    numbered check "$block" journal
}

# server_away HOW: kills or stops the server while numbered blocks are written to $block, and starts it again: writing
# continues, and acknowledged writes are kept.
server_away() {
    local writer had
    had=$(journaled)
    python3 /share/numbered.py write "$block" journal 300 8 > wrote &
    writer=$!
    until_true 60 grown "$had"
    host "$1"
    sleep 3
    had=$(journaled)
    host start-server
    until_true 120 grown "$((had + 2000))"
    is_live
    kill "$writer"
    wait "$writer"
    cat wrote
    grep -q 'no failure' wrote
    numbered check "$block" journal
}

# again COUNT COMMAND...: repeats the command until it fails.
again() {
    local n=0
    while [ "$n" -lt "$1" ] && "${@:2}"; do
        n=$((n + 1))
    done
    echo "$n resets"
}

# Resets the controller, as nvme-cli requests it.
by_ioctl() {
    nvme reset "/dev/$name"
    until_true 60 is_live
}

# Resets its PCI function.
function_reset() {
    echo flr > "/sys/class/nvme/$name/device/reset_method"
    echo 1 > "/sys/class/nvme/$name/device/reset"
    until_true 60 is_live
}

# figure WORDS: adds a figure to the table at the end.
figure() {
    echo "FIGURE $*"
}

# The conformance suite over a device, one test after the other: its counts, and what failed.
conformance() {
    local uri=$1
    shift
    BYWAY_CONFORMANCE_DEVICE=$uri RUST_BACKTRACE=0 command conformance --test-threads=1 "$@"
}

verdict() {
    if dmesg | grep -A 25 -E 'BUG:|Oops|WARNING:|DMAR:.*fault'; then
        echo "FAILED: the kernel complains"
        failures=$((failures + 1))
    fi
    exit "$((failures > 0))"
}
