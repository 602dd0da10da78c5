# Sourced before every test in its guest. A test is a row of checks; one that fails does not end it.
export PATH=/programs:$PATH HOME=/root TERM=dumb
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

# refuses PATTERN COMMAND...: the command fails, and says so.
refuses() {
    local pattern=$1 said
    shift
    if said=$("$@" 2>&1); then
        echo "succeeded, and must not: $*"
        return 1
    fi
    grep -qE -- "$pattern" <<< "$said" || { echo "said: $said"; return 1; }
}

# says PATTERN COMMAND...: the command succeeds, and says so.
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
    echo "there is no controller $1" >&2
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
    echo "there is no namespace $2 of $1" >&2
    return 1
}

# random FILE BYTES: a file of bytes that nothing else has.
random() {
    head -c "$2" /dev/urandom > "$1"
}

# Asks the host to do something, and waits until it is done: what it said, and whether it could.
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
    echo "there is no controller" >&2
    return 1
}

# The character device of the first namespace of keys, when it is there.
keys_node() {
    local tries
    for tries in $(seq 100); do
        byway list 2>/dev/null | awk '$1 ~ /^\/dev\/ng/ && $4 == "kv" {print $1; exit}' | grep . && return
        sleep 0.2
    done
    echo "there is no namespace of keys" >&2
    return 1
}

# Gives the guest's network card the address that QEMU's network of one guest has for it.
network_up() {
    local link
    link=$(basename "$(dirname /sys/class/net/e*/address | head -n 1)")
    ip link set "$link" up
    ip addr add 10.0.2.15/24 dev "$link"
}

# until_true SECONDS COMMAND...: waits for it to succeed.
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || { echo "not yet, after all that time: $*" >&2; return 1; }
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

# What fio loads with under resets: README.md says why it is not io_uring on Linux 6.12.
engine=io_uring
case $(uname -r) in 6.12.*) engine=libaio ;; esac

# Loads $block until /tmp/enough is there: a fio behind the numbered blocks, again and again, with $load_options.
loads() {
    # shellcheck disable=SC2086
    while [ ! -e enough ]; do
        fio --name=r --filename="$block" --direct=1 --ioengine="$engine" --rw=randrw --bs=4k --iodepth=16 --offset=64M \
            --size=32M --time_based --runtime=10 ${load_options:-} || return 1
    done
}

# Whether the driver of controller $name has it.
is_live() {
    [ "$(cat "/sys/class/nvme/$name/state")" = live ]
}

# Bytes of the journal.
journaled() {
    stat -c %s journal 2> /dev/null || echo 0
}

# grown BYTES: more was acknowledged since the journal had so many.
grown() {
    [ "$(journaled)" -gt "$1" ]
}

# under_load COUNT COMMAND...: the command again and again while $block is loaded, each behind writes that were acknowledged since
# the last; nothing of them is lost.
under_load() {
    local count=$1 fio writer had ended=0
    shift
    had=$(journaled)
    rm -f enough
    loads &
    fio=$!
    python3 /share/numbered.py write "$block" journal 3000 8 > wrote &
    writer=$!
    # It reads what was written before, and only then can it be told to stop.
    until_true 60 grown "$had"
    again "$count" "$@" > resets
    touch enough
    # Whatever ended early: nothing of this load runs into the next.
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

# again COUNT COMMAND...: up to the first that fails.
again() {
    local n=0
    while [ "$n" -lt "$1" ] && "${@:2}"; do
        n=$((n + 1))
    done
    echo "$n resets"
}

# A reset of the controller, as nvme-cli asks for it.
by_ioctl() {
    nvme reset "/dev/$name"
    until_true 60 is_live
}

# One of its PCI function.
function_reset() {
    echo flr > "/sys/class/nvme/$name/device/reset_method"
    echo 1 > "/sys/class/nvme/$name/device/reset"
    until_true 60 is_live
}

# tells WORDS: a figure for the table at the end.
tells() {
    echo "TELLS $*"
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
