# A thousand resets of the controller and twenty of its PCI function while fio and numbered blocks are written: writing
# continues, and no acknowledged write is lost.
# devices: byway
# image: --size 512M --ns nvm:128M
# seconds: 1800

modprobe nvme
serial=$(serial)
name=$(controller "$serial")
block=/dev/$(namespace "$name" 1)
pci=$(readlink -f "/sys/class/nvme/$name/device")
queues=$(cat "/sys/class/nvme/$name/queue_count")

by_file() {
    echo 1 > "/sys/class/nvme/$name/reset_controller"
    until_true 60 is_live
}

begun=$SECONDS
check "a thousand resets of the controller under I/O" under_load 1000 by_file
figure "1,000 resets in $((SECONDS - begun)) s, $(wc -l < journal) writes"
check "ten more as nvme-cli asks for them" under_load 10 by_ioctl

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
check "the driver is unbound and bound again, the bus removes the device and finds it" bound_again
