# Two ports of one subsystem, and Linux's own multipath over them: it follows each port's ANA state of a namespace, and uses the
# other port if one is cut off.
# seconds: 900

modprobe nvme-tcp
modprobe veth
modprobe sch_netem
load_if_there crc32c_generic
nqn=nqn.2026-11.example:far

# The target is in its own network namespace, behind two veth pairs, one for each port.
served() {
    far_port 1
    far_port 2
    byway create far.img --size 256M --ns nvm:128M
    ip netns exec far byway serve far.img --tcp 10.9.1.2 --tcp 10.9.2.2 --ana 2=non-optimized --nqn "$nqn" > serving 2>&1 &
    until_true 60 grep -q 'listening.*10.9.2.2' serving
}
check "our target is served at two ports" served

discovered() {
    nvme discover -t tcp -a 10.9.1.2 -s 4420 | tee found
    grep -q 'traddr: *10.9.1.2' found
    grep -q 'traddr: *10.9.2.2' found
}
check "both are discovered at one of them" discovered

# by_port N: the controller connected by port N.
by_port() {
    by_address "10.9.$1.2"
}

# state N STATE: the ANA state of the namespace by port N, as Linux sees it.
state() {
    path_is "10.9.$1.2" "$2"
}

# live N: the controller of port N is.
live() {
    [ "$(cat "/sys/class/nvme/$(by_port "$1")/state")" = live ]
}

connected() {
    nvme connect-all -t tcp -a 10.9.1.2 -s 4420 --reconnect-delay=1 --ctrl-loss-tmo=300 --keep-alive-tmo=2 --nr-io-queues=2
    until_true 60 live 1
    until_true 60 live 2
    until_true 60 state 1 optimized
    until_true 60 state 2 non-optimized
    nvme list-subsys
    until_true 60 has_block
    ls /dev/nvme*n1 > block
    by_port 1 > name
}

# One device of both: their own are hidden.
has_block() {
    [ "$(find /dev -name 'nvme*n1' | wc -l)" = 1 ]
}
check "both are connected to, and are two paths of one device" connected
block=$(cat block)
name=$(cat name)

# written_by N: number of writes by port N so far.
written_by() {
    awk '{print $5}' /sys/class/nvme/"$(by_port "$1")"/nvme*c*n1/stat
}

# goes_by N OTHER: I/O uses only port N. It uses other blocks than the verified loads.
goes_by() {
    local before other
    before=$(written_by "$1")
    other=$(written_by "$2")
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=16 --offset=100M --size=4M
    echo "$(written_by "$1") of $before, $(written_by "$2") of $other"
    [ "$(written_by "$1")" -ge $((before + 1000)) ]
    [ "$(written_by "$2")" = "$other" ]
}
check "it goes by the port that serves it best" goes_by 1 2

# cut_off N...: cuts these ports off for longer than the keep alive time.
cut_off() {
    local n
    for n in "$@"; do network "$n" loss 100%; done
    sleep 6
    for n in "$@"; do network "$n" delay 0ms; done
    until_true 60 live 1
    until_true 60 live 2
    until_true 60 state 1 optimized
}

begin_again() {
    byway nvm trim "$block" --offset 0 --length 32M
}
load_options="--rate_iops=200"
check "blocks not written yet" begin_again
check "the better one is cut off under load, twice" under_load 2 cut_off 1
check "the other one is" under_load 2 cut_off 2
check "both are at once" under_load 1 cut_off 1 2

goes_on() {
    network 1 loss 100%
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=16 --offset=100M --size=4M
    fails live 1
    goes_by 2 1
    network 1 delay 0ms
    until_true 60 live 1
    until_true 60 state 1 optimized
    goes_by 1 2
}
check "it goes by the other as long as one is away, and back" goes_on

resets() {
    nvme reset "/dev/$(by_port 1)"
    nvme reset "/dev/$(by_port 2)"
    until_true 60 live 1
    until_true 60 live 2
    until_true 60 state 2 non-optimized
}
check "resets of either under load" under_load 3 resets

in_turn() {
    echo round-robin > /sys/class/nvme-subsystem/nvme-subsys*/iopolicy
    fio_verified "$block" --rw=randwrite --bsrange=4k-64k --blockalign=4k --iodepth=16 --offset=100M --size=8M
}
check "where paths are taken in turn" in_turn

gone() {
    disconnected
    # shellcheck disable=SC2046
    kill $(ip netns pids far)
    until_true 60 byway check far.img
}
check "disconnect, and nothing is wrong with the image" gone
