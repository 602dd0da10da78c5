# The cases of blktests' nvme group that a target of another machine can be asked, by what each shows; their numbers are beside them.
# tcp.sh has 010, 014 and 022, tcp_auth.sh 041 to 045.
# devices: tcp
# image: --size 512M --ns nvm:128M --ns nvm:64M
# seconds: 900

modprobe virtio_net
modprobe nvme-tcp
modprobe ext4
load_if_there crc32c_generic
read -r port nqn < /share/tcp
check "the guest has a network" network_up

# A discovery controller outlives its keep alive time when its host says nothing else.
keeps_alive() {
    nvme connect -t tcp -a 10.0.2.2 -s "$port" -n "$discovery" --keep-alive-tmo=2
    until_true 60 grep -qs "$discovery" /sys/class/nvme/nvme*/subsysnqn
    dmesg -C
    sleep 8
    grep -qs live /sys/class/nvme/nvme*/state
    fails grep -iE 'keep.alive|reconnect|failed' <(dmesg)
    nvme disconnect -n "$discovery"
    until_true 60 is_gone "$discovery"
}
check "003: a discovery controller is kept alive" keeps_alive

in_connection
names_of_a_namespace() {
    nvme ns-descs "/dev/$name" -n 1 | tee said
    grep -qi 'uuid' said
    nvme id-ns "$block" | grep -q 'nsze'
    [ -n "$(cat "/sys/block/$(cat block)/wwid")" ]
}
check "004, 026: a namespace has names that stay" names_of_a_namespace

resets_of_a_device() {
    local n
    for n in 1 2 3; do nvme reset "/dev/$name"; done
    until_true 60 is_live
}
check "005: the controller is reset" resets_of_a_device

holds_a_file_system() {
    mkfs.ext4 -q "$block"
    mkdir -p there
    mount "$block" there
    fio_verified there/file --rw=randrw --bs=4k --size=16M --iodepth=8
    umount there
    fsck.ext4 -fn "$block"
}
check "012: a file system is made on it and used" holds_a_file_system

refused_beyond() {
    local last
    last=$(blockdev --getsz "$block")
    refuses . nvme read "$block" --start-block="$last" --block-count=0 --data-size=512 --data=back
    nvme read "$block" --start-block=$((last - 1)) --block-count=0 --data-size=512 --data=back
}
check "018: what is beyond its end is refused, and not its last block" refused_beyond

discards() {
    random data 1M
    dd if=data of="$block" bs=64k oflag=direct status=none
    blkdiscard -o 65536 -l 65536 "$block"
    dd if="$block" bs=64k skip=1 count=1 iflag=direct status=none | cmp - <(head -c 65536 /dev/zero)
    dd if="$block" bs=64k count=1 iflag=direct status=none | cmp - <(head -c 65536 data)
}
check "019: what is discarded reads as zeroes, and its neighbours stay" discards

lists_itself() {
    says "${block#/dev/}" nvme list
    says live nvme list-subsys "$block"
    says 'critical_warning' nvme smart-log "/dev/$name"
    says 'ACS|acs' nvme effects-log "/dev/$name" --csi=0
    says 'nn ' nvme id-ctrl "/dev/$name"
}
check "021, 023, 025, 028: nvme-cli lists it, its health and its effects" lists_itself

scanned() {
    nvme ns-rescan "/dev/$name"
    namespace "$name" 2
}
check "027: a scan finds its namespaces" scanned

passed_through() {
    random data 4096
    nvme write "$block" --start-block=8 --block-count=7 --data-size=4096 --data=data
    nvme read "$block" --start-block=8 --block-count=7 --data-size=4096 --data=back
    same data back
    random large 128K
    nvme write "$block" --start-block=1024 --block-count=255 --data-size=131072 --data=large
    nvme read "$block" --start-block=1024 --block-count=255 --data-size=131072 --data=back
    same large back
}
check "029: reads and writes by pass-through" passed_through

loaded() {
    fio --name=l --filename="$block" --direct=1 --ioengine="$engine" --rw=randrw --bs=4k --iodepth=16 --size=32M --time_based --runtime="$1"
}

gone_under_load() {
    loaded 20 > fio.said 2>&1 &
    sleep 3
    nvme reset "/dev/$name"
    sleep 3
    nvme disconnect -n "$nqn"
    # Its I/O fails, and ends.
    fails wait $!
    until_true 60 is_gone
}
check "040: it is reset and disconnected under load" gone_under_load

connects_and_leaves() {
    local n
    for n in $(seq 10); do
        connect --nr-io-queues=1
        disconnected
    done
}
check "031: it is left right behind its connect, ten times" connects_and_leaves

by_queues() {
    local options=$1 wanted=$2
    # shellcheck disable=SC2086
    connected $options
    [ "$(cat "/sys/class/nvme/$(cat name)/queue_count")" = "$wanted" ]
    fio_verified "$block" --rw=randwrite --bs=4k --size=8M --iodepth=8
    disconnected
}
check "047: by write queues" by_queues "--nr-io-queues=1 --nr-write-queues=1" 3
check "047: by write queues and poll queues" by_queues "--nr-io-queues=1 --nr-write-queues=1 --nr-poll-queues=1" 4

in_connection
reserved() {
    nvme resv-register "$block" --nrkey=0x1234 --rrega=0
    nvme resv-acquire "$block" --crkey=0x1234 --rtype=1 --racqa=0
    nvme resv-report "$block" --eds -o json | tee report
    grep -q '"rtype":1' <(tr -d ' \n' < report)
    dd if=/dev/zero of="$block" bs=4k count=1 oflag=direct status=none
    refuses . nvme resv-acquire "$block" --crkey=0x9999 --rtype=2 --racqa=0
    nvme resv-release "$block" --crkey=0x1234 --rtype=1 --rrela=0
    nvme resv-register "$block" --crkey=0x1234 --rrega=1
    nvme resv-report "$block" --eds -o json | tee report
    grep -q '"regctl":0' <(tr -d ' \n' < report)
}
check "054: reservations are taken, kept to and given back" reserved

check "blocks are empty" byway nvm trim "$block" --offset 0 --length 32M
check "060: the server ends and serves again under load" server_away stop-server
check "060: the server is killed and serves again under load" server_away kill-server

past_the_timeout() {
    disconnected
    connected --ctrl-loss-tmo=3
    loaded 60 > fio.said 2>&1 &
    sleep 3
    host kill-server
    fails wait $!
    until_true 60 is_gone
    host start-server
    connected
    fio_verified "$block" --rw=randwrite --bs=4k --size=8M --iodepth=8
}
check "061: a server that stays away past the loss timeout is given up, and connected to again" past_the_timeout
check "disconnect" disconnected
