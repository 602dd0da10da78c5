# A thousand resets of the controller and twenty of its PCI function while fio and numbered blocks are written: all goes on,
# and nothing that was acknowledged is lost.
# devices: byway
# image: --size 512M --ns nvm:128M
# seconds: 1800

modprobe nvme
serial=$(serial)
name=$(controller "$serial")
block=/dev/$(namespace "$name" 1)
pci=$(readlink -f "/sys/class/nvme/$name/device")
queues=$(cat "/sys/class/nvme/$name/queue_count")

# Linux 6.12 was seen to give fio EAGAIN over io_uring in the middle of these resets, which is no NVMe status; neither 7.2 does, nor
# 6.12 over libaio. That 6.12 does not begin a read or write again that may not wait is our guess, and not proved.
engine=io_uring
case $(uname -r) in 6.12.*) engine=libaio ;; esac

# Loads until /tmp/enough is there: a fio behind the numbered blocks, again and again.
loads() {
    while [ ! -e enough ]; do
        fio --name=r --filename="$block" --direct=1 --ioengine="$engine" --rw=randrw --bs=4k --iodepth=16 --offset=64M \
            --size=32M --time_based --runtime=10 || return 1
    done
}

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

# under_load COUNT COMMAND...: the command again and again, each behind writes that were acknowledged since the last.
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

by_ioctl() {
    nvme reset "/dev/$name"
    until_true 60 is_live
}

by_file() {
    echo 1 > "/sys/class/nvme/$name/reset_controller"
    until_true 60 is_live
}

begun=$SECONDS
check "a thousand resets of the controller under I/O" under_load 1000 by_file
tells "1,000 resets in $((SECONDS - begun)) s, $(wc -l < journal) writes"
check "ten more as nvme-cli asks for them" under_load 10 by_ioctl

function_reset() {
    echo flr > "$pci/reset_method"
    echo 1 > "$pci/reset"
    until_true 60 is_live
}
check "twenty resets of the function under I/O" under_load 20 function_reset

as_before() {
    nvme id-ctrl "/dev/$name" > /dev/null
    nvme list-subsys
    cat "/sys/class/nvme/$name/queue_count"
    [ "$(cat "/sys/class/nvme/$name/queue_count")" = "$queues" ]
    nvme smart-log "/dev/$name" | grep -E 'critical_warning[[:space:]]*: 0'
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=32 --offset=64M --size=8M
}
check "the subsystem is as it was before" as_before

bound_again() {
    local address
    address=$(basename "$pci")
    echo "$address" > /sys/bus/pci/drivers/nvme/unbind
    until_true 20 test ! -e "/sys/class/nvme/$name"
    echo "$address" > /sys/bus/pci/drivers/nvme/bind
    name=$(controller "$serial")
    block=/dev/$(namespace "$name" 1)
    numbered check "$block" journal
    echo 1 > "$pci/remove"
    until_true 20 test ! -e "$pci"
    echo 1 > /sys/bus/pci/rescan
    name=$(controller "$serial")
    numbered check "/dev/$(namespace "$name" 1)" journal
}
check "the driver lets go of it and takes it again, the bus loses it and finds it" bound_again
