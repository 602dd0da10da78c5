# Our device over vfio-user beside QEMU's own in the same guest, by turns: 4 KiB at random, one and 32 under way, medians
# of five. A measurement: it passes when it was made.
# devices: nvme byway
# kernels: 7.2
# image: --size 512M --ns nvm:256M
# boots: 2
# idle: sleep poll
# seconds: 900

modprobe nvme
idle=$([ "$boot" = 1 ] && echo sleep || echo poll)
ours=/dev/$(namespace "$(controller "$(serial)")" 1)
theirs=/dev/$(namespace "$(controller other)" 1)
rounds=5

# iops DEVICE LOAD DEPTH: of two seconds behind half of one.
iops() {
    fio --name=s --filename="$1" --direct=1 --ioengine=io_uring --rw="$2" --bs=4k --iodepth="$3" --size=128M --time_based \
        --ramp_time=500ms --runtime=2 --norandommap --minimal --terse-version=3 > terse || return 1
    # Of terse output, version 3: reads a second, and writes.
    cut -d';' -f"$([ "$2" = randread ] && echo 8 || echo 49)" terse
}

median() {
    sort -n | sed -n "$(((rounds + 1) / 2))p"
}

filled() {
    for device in "$ours" "$theirs"; do
        fio --name=f --filename="$device" --direct=1 --ioengine=io_uring --rw=write --bs=128k --iodepth=4 --size=128M
    done
}
check "both are filled" filled

# measure LOAD DEPTH: one row.
measure() {
    local round
    rm -f ours theirs
    for round in $(seq "$rounds"); do
        iops "$ours" "$1" "$2" >> ours
        iops "$theirs" "$1" "$2" >> theirs
    done
    awk -v "kernel=$kernel" -v "idle=$idle" -v "load=$1" -v "depth=$2" -v "ours=$(median < ours)" \
        -v "theirs=$(median < theirs)" 'BEGIN {printf "{\"kernel\":\"%s\",\"idle\":\"%s\",\"load\":\"%s\",\"block_bytes\":4096,\"depth\":%d,\"rounds\":5,\"ours_iops\":%d,\"qemu_iops\":%d,\"ratio\":%.3f}\n", kernel, idle, load, depth, ours, theirs, ours / theirs}' |
        tee -a /share/figures.json > row
    ratio=$(sed 's/.*"ratio":\([0-9.]*\)}/\1/' row)
    [ -n "$ratio" ]
}
for load in randread randwrite; do
    for depth in 1 32; do
        check "$load, $depth under way" measure "$load" "$depth"
        cat row
        figure "$idle $load QD$depth $(sed 's/.*"ratio":\([0-9.]*\)}/\1/' row)"
    done
done
