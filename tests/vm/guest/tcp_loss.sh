# A network that loses, delays, reorders and is cut, between our target and both initiators, ours and Linux's: data is
# read back, and an unreachable peer is waited for.
# seconds: 900

modprobe nvme-tcp
modprobe veth
modprobe sch_netem
load_if_there crc32c_generic
nqn=nqn.2026-11.example:far
uri=tcp://10.9.0.2/$nqn

# The target is in its own network namespace, behind a veth pair.
served() {
    far_port 0
    byway create far.img --size 256M --ns nvm:64M --ns kv:64M
    ip netns exec far byway serve far.img --tcp 10.9.0.2 --nqn "$nqn" > serving 2>&1 &
    until_true 60 grep -q listening serving
}
check "our target is served behind a network" served

compared() {
    byway perf "$uri?ns=1&digests=$1" --rw randwrite --bs 4K --depth 16 --length 8M --count 300 --verify
    byway perf "$uri?ns=1&digests=$1" --rw randwrite --bs 256K --depth 2 --length 8M --count 10 --verify
    byway perf "$uri?ns=2&digests=$1" --rw putget --fill --keys 100 --value-bytes 500 --depth 8 --count 300
}

# troubled SETTINGS...: blocks and keys, with and without digests.
troubled() {
    network 0 "$@"
    compared none
    compared both
}
check "a network that does nothing wrong" troubled delay 0ms
check "a network that loses two packets in a hundred" troubled loss 2%
check "a network that delays by 5 ms, and reorders" troubled delay 5ms reorder 25% 50%
check "a network that sends packets twice and damages some" troubled duplicate 1% corrupt 1%

# cut SECONDS: the network drops everything for this long, three times, while blocks are read and compared. A write
# whose answer was lost is not sent again.
cut() {
    local load n
    network 0 delay 0ms
    byway perf "$uri?ns=1" --rw write --bs 64K --length 8M --count 128 --verify --seed 7
    byway perf "$uri?ns=1&keep-alive=2&timeout=60" --rw randread --bs 64K --depth 16 --length 8M --time 30 --verify --seed 7 > loaded 2>&1 &
    load=$!
    for n in 1 2 3; do
        sleep 3
        network 0 loss 100%
        sleep "$1"
        network 0 delay 0ms
    done
    wait "$load" || { cat loaded; return 1; }
    cat loaded
}
check "it is cut for a second" cut 1
check "it is cut for longer than the keep alive time" cut 5

lost() {
    local load
    byway perf "$uri?ns=1&keep-alive=2&timeout=2&ctrl-loss-tmo=4" --rw randread --time 60 > loaded 2>&1 &
    load=$!
    sleep 3
    network 0 loss 100%
    fails wait "$load"
    cat loaded
    network 0 delay 0ms
    compared none
}
check "a device that stays away is given up, and is there again" lost

address=10.9.0.2 port=4420
in_connection --keep-alive-tmo=2 --nr-io-queues=1

loses_nothing() {
    network 0 "$@"
    fio_verified "$block" --rw=randwrite --bsrange=4k-64k --blockalign=4k --iodepth=16 --size=8M
}
check "Linux, a network that loses" loses_nothing loss 2%
check "Linux, one that delays and reorders" loses_nothing delay 5ms reorder 25% 50%

cut_once() {
    network 0 loss 100%
    sleep 6
    network 0 delay 0ms
    until_true 60 is_live
}

cut_under_load() {
    network 0 delay 0ms
    byway nvm trim "$block" --offset 0 --length 32M
    load_options="--rate_iops=200"
    under_load 2 cut_once
}
check "Linux, one that is cut twice for longer than the keep alive time" cut_under_load
