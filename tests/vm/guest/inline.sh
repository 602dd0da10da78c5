# How payloads cross behind the stock driver and behind the patched one: as the kernel chooses, in commands
# (piggyback-pt), in the submission queue (inline). Checked by our device's ledger and the descriptors it received,
# once announcing SGLs and once not.
# devices: byway
# image: --size 512M --ns kv:128M --ns nvm:64M
# sgl: on off
# boots: 2
# module: linux-nvme-inline
# seconds: 1200

sgl=$([ "$boot" = 1 ] && echo on || echo off)

# Names of the nodes since the driver was last loaded.
find_nodes() {
    device=$(controller "$(tr -d ' ' < /sys/class/nvme/nvme*/serial)")
    keys='' blocks=''
    until [ -n "$keys" ] && [ -n "$blocks" ]; do
        byway list > listed 2>&1
        keys=$(awk '$1 ~ /^\/dev\/ng/ && $4 == "kv" {print $1}' listed)
        blocks=$(awk '$1 ~ /^\/dev\/ng/ && $4 == "nvm" {print $1}' listed)
        sleep 0.2
    done
}

# patched DEPTH BYTES: loads the patched driver with queues of so many slots, for payloads of so many bytes.
patched() {
    rmmod nvme
    insmod /share/nvme.ko io_queue_depth="$1" inline_bytes="$2"
    find_nodes
}

# The descriptor by which the stock kernel sends a small payload: for a user's command 7.2 sends the length if it can, 6.12
# sends pages if they suffice.
stock_descriptor() {
    if [ "$sgl" = on ] && [ "$kernel" != 6.12 ]; then echo sgl; else echo prp; fi
}

# descriptors METHOD SIZES: which came with values of these sizes, each once.
descriptors() {
    byway bench traffic "$keys" --json --count 20 --methods "$1" --sizes "$2" |
        sed 's/.*"descriptors":"\([^"]*\)".*/\1/' | sort -u
}

# The rows of this leg, which benches/traffic.sh takes from the log. Bytes are the same for every put; a large value in
# commands is some hundreds of them.
traffic() {
    byway bench traffic "$keys" --json --count 200 --sizes 8,11,32,64,128,256,512 --methods prp,piggyback-pt > rows
    byway bench traffic "$keys" --json --count 20 --sizes 4K,16K --methods prp,piggyback-pt >> rows
    sed "s/^{/traffic-row {\"kernel\":\"$kernel\",\"driver\":\"$1\",\"sgls\":\"$sgl\",/" rows
}

modprobe nvme
find_nodes
traffic stock
check "stock: $(stock_descriptor) for payloads" test "$(descriptors prp 8,512,4K)" = "$(stock_descriptor)"
check "stock: values in commands, and nothing else" test "$(descriptors piggyback-pt 8,11,12,100,1000)" = piggyback_pt

patched 1024 512
check "the patched driver finds that the device takes inline payloads" grep -q 'inline payloads of up to' <(dmesg)
traffic patched
check "patched: up to 512 bytes inline" test "$(descriptors prp 1,63,64,65,511,512)" = inline
check "patched: larger ones as before" test "$(descriptors prp 513,4K)" = "$(stock_descriptor)"
check "patched: values in commands, too" test "$(descriptors piggyback-pt 8,100)" = piggyback_pt

kept() {
    nvme set-feature "/dev/$device" -f 0xc0 -v 2
    nvme get-feature "/dev/$device" -f 0xc0 | grep -qi 'value:0*x*0*8'
    test "$(descriptors prp 64)" = inline
}
check "inline cannot be switched off under the driver" kept

off() {
    echo 0 > /sys/module/nvme/parameters/inline_bytes
    test "$(descriptors prp 64)" = "$(stock_descriptor)"
    echo 512 > /sys/module/nvme/parameters/inline_bytes
    test "$(descriptors prp 64)" = inline
}
check "the largest inline payload is set while the driver runs" off

# value_of BYTES: a stored value is read back.
value_of() {
    random value "$1"
    byway kv put "$keys" "key $1" --file value
    byway kv get "$keys" "key $1" > back
    same value back
}

# Queues that a few capsules fill, some, and many: payloads go inline where there is room and are mapped where not.
for queue in 16:7 64:31 1024:100; do
    depth=${queue#*:}
    patched "${queue%:*}" 4096
    for bytes in 512 1K 4K; do
        check "queues of ${queue%:*}, blocks of $bytes" byway perf "$blocks" --rw randwrite --bs "$bytes" --depth "$depth" \
            --batch 5 --count 200 --verify
    done
    check "queues of ${queue%:*}, payloads in 8 segments" byway perf "$blocks" --rw randwrite --bs 4K --parts 8 \
        --depth "$depth" --count 100 --verify
    check "queues of ${queue%:*}, by ioctl from 4 threads" byway perf "$blocks?backend=nvme_ioctl" --rw randwrite --bs 512 \
        --threads 4 --count 50 --verify
    for bytes in 1 64 65 4000; do
        check "queues of ${queue%:*}, a value of $bytes" value_of "$bytes"
        check "queues of ${queue%:*}, values of $bytes" byway perf "$keys" --rw put --value-bytes "$bytes" \
            --depth "$depth" --batch 7 --count 100
    done
    check "queues of ${queue%:*}, one payload at a time is inline" test "$(descriptors prp 64,448)" = inline
done

# Small values leave the ring in the middle of anything; what blocks follow goes inline where there is room and is mapped where not.
mixed() {
    byway perf "$keys" --rw put --value-bytes 200 --depth 24 --count 100
    byway perf "$blocks" --rw randwrite --bs 512 --depth 24 --count 300 --verify
}
patched 64 4096
for round in 1 2 3 4 5 6; do
    check "values and then blocks, some inline and some not: $round" mixed
done

# Resets the controller while payloads are in flight: each command fails or succeeds, and later ones work.
resets() {
    local tries
    (for tries in 1 2 3 4 5; do sleep 0.5; echo 1 > "/sys/class/nvme/$device/reset_controller"; done) &
    while kill -0 $! 2>/dev/null; do
        byway perf "$keys" --rw put --value-bytes 200 --depth 16 --count 50 > /dev/null 2>&1 || true
    done
    find_nodes
    byway perf "$blocks" --rw randwrite --bs 512 --depth 16 --count 200 --verify
    test "$(descriptors prp 64)" = inline
}
patched 64 4096
check "resets with payloads on their way" resets

# late SECONDS PATTERN: our device's disk stops for this long. A flush takes longer than the driver's timeout, 2
# seconds, and the driver logs that, while payloads cross in other queues and later in its own. Nothing is lost. (The
# kernel checks timeouts periodically: up to 4 seconds may pass before the first is found.)
late() {
    local running
    dmesg -C
    byway perf "$blocks" --rw randwrite --bs 512 --depth 24 --time "$(($1 + 3))" > perf 2>&1 &
    running=$!
    sleep 1
    host hold-syncs "$1"
    nvme flush "$blocks" > flushed 2>&1 || cat flushed
    wait $running || cat perf
    dmesg | tee kernel-said | grep -q "$2" || { cat kernel-said flushed; return 1; }
    find_nodes
    mixed
    test "$(descriptors prp 64)" = inline
}
echo 2 > /sys/module/nvme_core/parameters/io_timeout
patched 64 4096
check "a command whose time is over is aborted, with payloads behind it" late 8 'timeout, aborting'
check "a device that does not come to an end is reset, with payloads in its queues" late 16 'timeout, reset controller'
