# The server of our device is killed, or stopped cleanly, while a guest writes: acknowledged writes are kept when the
# device is back. QEMU 11 does not reconnect to a server, and aborts when it unplugs a device whose server has ended:
# the guest's driver is unbound from the old device, and the new one is plugged in behind another port.
# devices: byway
# image: --size 512M --ns nvm:128M
# ports: 5
# boots: 2
# idle: poll sleep
# seconds: 900

modprobe nvme
serial=$(serial)

is_gone() {
    ! grep -qs "^$serial *$" /sys/class/nvme/nvme*/serial
}

# The driver is unbound from the device, and finds the next once there is a server.
plugged_again() {
    echo 1 > "$(readlink -f "/sys/class/nvme/$name/device")/remove"
    until_true 120 is_gone
    host start-server
    host plug
    find_block
}

find_block() {
    name=$(controller "$serial")
    block=/dev/$(namespace "$name" 1)
}

lines() {
    if [ -e "$1" ]; then wc -l < "$1"; else echo 0; fi
}

has_grown_to() {
    [ "$(lines /share/journal)" -ge "$1" ]
}

# ends_in_io HOW: the server ends while blocks are written; numbered blocks are compared afterwards.
ends_in_io() {
    local writer
    find_block
    rm -f "wrote-$1"
    numbered write "$block" /share/journal 300 16 > "wrote-$1" &
    writer=$!
    until_true 60 has_grown_to $(($(lines /share/journal) + 200))
    host "$1"
    # A cleanly closed image is sound as it is; after a kill it is once it has been opened.
    if [ "$1" = stop-server ]; then host check-image; fi
    plugged_again
    wait "$writer"
    cat "wrote-$1"
    grep -q 'Errno' "wrote-$1"
    numbered check "$block" /share/journal
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=32 --offset=64M --size=4M
}
check "killed" ends_in_io kill-server
check "killed once more" ends_in_io kill-server
check "stopped in order" ends_in_io stop-server
figure "$(wc -l < /share/journal) writes acknowledged by now"

idle() {
    find_block
    host stop-server
    host check-image
    plugged_again
    numbered check "$block" /share/journal
}
check "stopped while nothing is asked for" idle
