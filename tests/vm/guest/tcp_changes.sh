# Configuration changes of our server while Linux is connected: its persistent discovery controller reports subsystems, ports and
# hosts by kernel events, as udev receives them, and nvme-cli connects to new ones; I/O controllers report namespaces and paths.
# seconds: 600

modprobe nvme-tcp
load_if_there crc32c_generic
nqn=nqn.2026-11.example:one
other=nqn.2026-11.example:other

served() {
    byway serve --ns blocks:64M --nqn "$nqn" --tcp 127.0.0.1 --tcp 127.0.0.2 --discovery 127.0.0.1 --control control > serving 2>&1 &
    echo $! > server
    until_true 60 grep -q listening serving
}
check "our target is served at two ports" served

# controllers NQN: how many of a subsystem are live.
controllers() {
    local path count=0
    for path in /sys/class/nvme/nvme*; do
        if grep -qsx "$1" "$path/subsysnqn" && grep -qsx live "$path/state"; then count=$((count + 1)); fi
    done
    echo "$count"
}

has_controllers() {
    [ "$(controllers "$1")" = "$2" ]
}

# has_all COUNT: so many controllers are there, live or not.
has_all() {
    [ "$(find /sys/class/nvme -mindepth 1 | wc -l)" = "$1" ]
}

# The command that udev runs in nvme-cli's service on an event of a discovery controller.
connect_all() {
    nvme connect-all -t tcp -a 127.0.0.1 -s 8009 --reconnect-delay=1 --ctrl-loss-tmo=20 --nr-io-queues=1 "$@"
}

python3 /share/uevents.py > events &
stays() {
    connect_all --persistent
    until_true 60 has_controllers "$nqn" 2
    until_true 60 has_controllers "$discovery" 1
    basename "$(dirname "$(grep -lx "$discovery" /sys/class/nvme/nvme*/subsysnqn)")" > discoverer
    by_address 127.0.0.1 > name
    namespace "$(cat name)" 1 > block
}
check "Linux connects to both, and stays at discovery" stays
discoverer=$(cat discoverer)

known() {
    nvme discover --device="$discoverer" -t tcp -a 127.0.0.1 -s 8009 > found
}

events() {
    grep -c "$1" events || true
}

has_events() {
    [ "$(events "$1")" -ge "$2" ] || { cat events; return 1; }
}

# linux_sees COMMAND...: a change reaches Linux as an event that the discovery log changed; then the log is read.
linux_sees() {
    local before
    before=$(events 'NVME_AEN=0x70f002')
    "$@"
    until_true 60 has_events 'NVME_AEN=0x70f002' $((before + 1))
    known
}

subsystem_added() {
    known
    fails grep -q "$other" found
    linux_sees byway subsystem add control "$other" --ns blocks:32M
    grep -q "$other" found
    connect_all --device="$discoverer"
    until_true 60 has_controllers "$other" 2
    has_controllers "$nqn" 2
}
check "an added subsystem is reported and connected" subsystem_added

port_added() {
    linux_sees byway port add control 127.0.0.3
    grep -q 'traddr: *127.0.0.3' found
    connect_all --device="$discoverer"
    until_true 60 has_controllers "$other" 3
    until_true 60 has_controllers "$nqn" 3
}
check "so is a port" port_added

namespace_changes() {
    local size
    byway ns add control blocks:16M --subsystem "$nqn"
    namespace "$(cat name)" 2 > added
    size=$(cat "/sys/block/$(cat added)/size")
    [ "$size" = 32768 ]
    fio_verified "/dev/$(cat added)" --rw=randwrite --bs=4k --iodepth=8 --size=4M
    byway ns remove control --ns 2 --subsystem "$nqn"
    until_true 60 test ! -e "/sys/block/$(cat added)"
    reads_back 1M
}
check "a namespace that is added is there by itself, and one that is removed is not" namespace_changes

paths_change() {
    until_true 60 path_is 127.0.0.1 optimized
    byway ana set control 1=inaccessible --subsystem "$nqn"
    until_true 60 path_is 127.0.0.1 inaccessible
    path_is 127.0.0.2 optimized
    reads_back 1M
    byway ana set control 2:1=non-optimized --subsystem "$nqn"
    until_true 60 path_is 127.0.0.2 non-optimized
    byway ana set control 1=optimized --subsystem "$nqn"
    until_true 60 path_is 127.0.0.1 optimized
    reads_back 1M
}
check "how ports serve a namespace is changed, and Linux goes by it" paths_change

host_sent_away() {
    linux_sees byway host allow control nqn.2026-11.example:unknown --subsystem "$other"
    fails grep -q "$other" found
    until_true 60 is_gone "$other"
    refuses . nvme connect -t tcp -a 127.0.0.1 -s 4420 -n "$other"
    has_controllers "$nqn" 3
    reads_back 1M
    linux_sees byway host allow-all control --subsystem "$other"
    grep -q "$other" found
    connect_all --device="$discoverer"
    until_true 60 has_controllers "$other" 3
}
check "a subsystem that the host may not connect to any more is gone there, and there again when it may" host_sent_away

port_removed() {
    linux_sees byway port remove control 3
    fails grep -q 'traddr: *127.0.0.3' found
    until_true 60 has_controllers "$nqn" 2
    reads_back 1M
    # Those of the port are looked for until Linux gives them up.
    until_true 60 has_all 5
}
check "a removed port is reported, and the others work on" port_removed

subsystem_removed() {
    linux_sees byway subsystem remove control "$other"
    fails grep -q "$other" found
    until_true 60 is_gone "$other"
    has_controllers "$nqn" 2
}
check "a removed subsystem is reported, and gone" subsystem_removed

# A host that reconnects may have missed an event: the kernel emits one itself.
killed() {
    local before
    before=$(events NVME_EVENT=rediscover)
    linux_sees byway port add control 127.0.0.3
    kill -KILL "$(cat server)"
    served
    until_true 60 has_events NVME_EVENT=rediscover $((before + 1))
    until_true 60 has_controllers "$nqn" 2
    known
    fails grep -q 'traddr: *127.0.0.3' found
    linux_sees byway subsystem add control "$other" --ns blocks:32M
    grep -q "$other" found
}
check "a server that was killed is discovered anew" killed

gone() {
    nvme disconnect -n "$nqn"
    nvme disconnect -n "$discovery"
    until_true 60 is_gone "nqn"
}
check "disconnect" gone
