# Our initiator on two ports of one subsystem of Linux's own target (nvmet-tcp): it follows each port's ANA state of a namespace, uses
# the other port if one is removed or cut off, and writes delayed on an old connection are not executed later.
# seconds: 1200

modprobe veth
modprobe sch_netem
load_if_there crc32c_generic
nqn=nqn.2026-11.example:nvmet
subsystem=$nvmet/subsystems/$nqn
uri=tcp://10.9.1.2,10.9.2.2/$nqn
nvmet_within="nsenter --net=/run/netns/far"

# ana PORT NSID STATE: each namespace is its own ANA group.
ana() {
    echo "$3" > "$nvmet/ports/$1/ana_groups/$2/ana_state"
}

served() {
    local port
    nvmet_subsystem
    nvmet_namespace 1 64 1
    nvmet_namespace 2 64 2
    for port in 1 2; do
        far_port "$port"
        nvmet_port "$port" "10.9.$port.2"
        mkdir "$nvmet/ports/$port/ana_groups/2"
        ana "$port" "$port" optimized
        ana "$port" $((3 - port)) non-optimized
        nvmet_serve "$port"
    done
}
check "Linux serves a subsystem at two ports" served

discovered() {
    local port
    for port in 1 2; do says "10.9.$port.2.*$nqn" byway discover "tcp://10.9.$port.2:4420"; done
    until_true 60 reached_by_both
}

# An opened device uses the port that answers first.
reached_by_both() {
    byway info "$uri" > found
    grep -q 'path 10.9.1.2:4420: namespace 1 optimized, namespace 2 non-optimized' found &&
        grep -q 'path 10.9.2.2:4420: namespace 1 non-optimized, namespace 2 optimized' found
}
check "each port is discovered, with the ANA state of each namespace" discovered

# Linux does not compare ranges with a namespace's size: nvmet.sh says more.
suite() {
    conformance "$uri" --skip a_range_outside_the_namespace_is_refused --skip a_future_that_fails_gives_the_buffer_back
}
check "the suite over both" suite

# sent PORT: bytes sent to this port so far.
sent() {
    cat "/sys/class/net/near$1/statistics/tx_bytes"
}

# goes_by PORT: commands use this port, and not the other.
goes_by() {
    local before other
    before=$(sent "$1")
    other=$(sent $((3 - $1)))
    sleep 1
    [ "$(sent "$1")" -ge $((before + 100000)) ] && [ "$(sent $((3 - $1)))" -lt $((other + 20000)) ]
}

# If a check fails, its load must not run into the next.
ends_with_it() {
    trap 'touch enough; network 1 delay 0ms; network 2 delay 0ms; wait' EXIT
}

# while_compared NSID COMMAND...: runs the command while blocks of a namespace are written, and read back every few
# seconds.
while_compared() {
    rm -f enough
    compares "$1" > compared 2>&1 &
    ends_with_it
    "${@:2}"
    touch enough
    wait $! || { cat compared; return 1; }
}

compares() {
    while [ ! -e enough ]; do
        byway perf "$uri?ns=$1&keep-alive=2&timeout=60" --rw randwrite --bs 4K --depth 16 --length 16M --time 6 --verify || return 1
    done
}

states_change() {
    until_true 60 goes_by 1
    ana 1 1 inaccessible
    until_true 60 goes_by 2
    ana 1 1 optimized
    until_true 60 goes_by 1
    ana 2 1 optimized
    ana 1 1 non-optimized
    until_true 60 goes_by 2
    ana 2 1 change
    until_true 60 goes_by 1
    ana 2 1 persistent-loss
    ana 1 1 inaccessible
    sleep 3
    ana 1 1 optimized
    until_true 60 goes_by 1
    ana 2 1 non-optimized
}
check "states change under load, with a while in which no port serves it" while_compared 1 states_change

# taken_away PORT: the port loses the subsystem and gets it back; then the other port does.
taken_away() {
    local other=$((3 - $1))
    until_true 60 goes_by "$1"
    nvmet_withdraw "$1"
    until_true 60 goes_by "$other"
    nvmet_serve "$1"
    until_true 60 goes_by "$1"
    nvmet_withdraw "$other"
    sleep 1
    nvmet_serve "$other"
    sleep 1
    nvmet_withdraw "$1"
    until_true 60 goes_by "$other"
    nvmet_serve "$1"
    until_true 60 goes_by "$1"
}
check "the better port is taken away under load, then the other, and the better again" while_compared 1 taken_away 1
check "the same of the namespace that the other port serves best" while_compared 2 taken_away 2

# cut_off PORT: cuts the port off for longer than the keep alive time.
cut_off() {
    until_true 60 goes_by "$1"
    network "$1" loss 100%
    until_true 60 goes_by $((3 - $1))
    sleep 6
    network "$1" delay 0ms
    until_true 60 goes_by "$1"
}
check "the better port is cut off under load" while_compared 1 cut_off 1
check "the same of the namespace that the other port serves best" while_compared 2 cut_off 2

# Neither of the new controllers knows the old ones: the host has to wait for their keep alive time.
both_cut_off() {
    until_true 60 goes_by 1
    network 1 loss 100%
    network 2 loss 100%
    sleep 6
    network 2 delay 0ms
    until_true 60 goes_by 2
    network 1 delay 0ms
    until_true 60 goes_by 1
}
check "both are cut off under load" while_compared 1 both_cut_off

# The port reports that the lost controller has ended: the host does not wait for twice the keep alive time.
reported_by_the_other() {
    byway perf "$uri?ns=1&keep-alive=120&timeout=60" --rw randwrite --bs 4K --depth 16 --length 16M --time 15 --verify > compared 2>&1 &
    ends_with_it
    until_true 60 goes_by 1
    nvmet_withdraw 1
    until_true 30 goes_by 2
    nvmet_serve 1
    wait $! || { cat compared; return 1; }
}
check "the other port reports at once that the controller of a removed port has ended" reported_by_the_other

# written SEED: 8 MiB, in order.
written() {
    byway perf "$uri?ns=1&keep-alive=5&timeout=60" --rw write --bs 16K --depth 16 --length 8M --seed "$@" --verify
}

# Writes in flight to the first port arrive after the host has stopped waiting, and before their controller must have
# ended.
withheld_data() {
    network 1 delay 0ms
    written 7 --time 8 > compared 2>&1 &
    ends_with_it
    until_true 60 goes_by 1
    network 1 delay 7s
    wait $! || { cat compared; return 1; }
    written 8 --count 512
    sleep 15
    byway perf "$uri?ns=1" --rw read --bs 16K --length 8M --count 512 --seed 8 --verify
    network 1 delay 0ms
}
check "what a network withheld lands before what is newer, or never" withheld_data

gone() {
    nvmet_withdraw 1
    nvmet_withdraw 2
    refuses 'lost|refused|reach|connect|listens' byway perf "$uri?ctrl-loss-tmo=2&timeout=2" --rw randread --time 5
    nvmet_serve 1
    nvmet_serve 2
    byway info "$uri"
}
check "a subsystem that no port serves is reported" gone
