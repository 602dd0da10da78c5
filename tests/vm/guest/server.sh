# The server of our device is killed, and stopped in order, while a guest writes: what was acknowledged is there when the
# device has been plugged in again. QEMU does not connect to a server anew, so that unplugging is what a guest recovers by.
# devices: byway
# image: --size 512M --ns nvm:128M
# boots: 2
# idle: poll sleep
# seconds: 900

modprobe nvme
serial=$(serial)

is_gone() {
    ! grep -qs "^$serial *$" /sys/class/nvme/nvme*/serial
}

is_there() {
    host plug > /dev/null
    for tries in $(seq 30); do
        is_gone || return 0
        sleep 0.1
    done
    return 1
}

# The driver lets go of the device, and finds it once there is a server.
plugged_again() {
    host unplug
    until_true 120 is_gone
    host start-server
    until_true 60 is_there
    name=$(controller "$serial")
    block=/dev/$(namespace "$name" 1)
}

# ends_in_io HOW: the server ends while blocks are written, and again numbered ones are compared.
ends_in_io() {
    local writer
    name=$(controller "$serial")
    block=/dev/$(namespace "$name" 1)
    rm -f "wrote-$1"
    numbered write "$block" journal 300 16 > "wrote-$1" &
    writer=$!
    sleep 4
    host "$1"
    # An image that was closed in order is sound as it is; a killed one is once it has been opened.
    if [ "$1" = stop-server ]; then host check-image; fi
    plugged_again
    wait "$writer"
    cat "wrote-$1"
    grep -q 'Errno' "wrote-$1"
    numbered check "$block" journal
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=32 --offset=64M --size=4M
}
check "killed" ends_in_io kill-server
check "killed once more" ends_in_io kill-server
check "stopped in order" ends_in_io stop-server
tells "$(wc -l < journal) writes acknowledged by 3 servers"

idle() {
    host stop-server
    host check-image
    plugged_again
    numbered check "$block" journal
    [ "$(byway log smart "$block" | wc -l)" -gt 5 ]
}
check "stopped while nothing is asked for" idle
