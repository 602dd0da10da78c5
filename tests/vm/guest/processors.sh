# A guest of 64 processors: the driver has a queue for each, and all of them carry verified I/O.
# devices: byway
# image: --size 512M --ns nvm:256M
# processors: 64
# translator: single
# append: lpj=8000000
# memory: 3G
# seconds: 1200

modprobe nvme
name=$(controller "$(serial)")
block=/dev/$(namespace "$name" 1)
check "64 processors are there" test "$(nproc)" = 64
check "64 queues and the admin queue" test "$(cat "/sys/class/nvme/$name/queue_count")" = 65

# How many queues have completed commands: the sum over processors of each queue's interrupts.
busy_queues() {
    awk -v "of=${name}q" '$NF ~ "^" of "[1-9]" {n = 0; for (i = 2; i <= 65; i++) n += $i; if (n > 0) busy++} END {print busy + 0}' /proc/interrupts
}

every_queue() {
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=8 --size=512k --offset_increment=1M --numjobs=64 --thread \
        --cpus_allowed=0-63 --cpus_allowed_policy=split
    [ "$(busy_queues)" = 64 ] || { cat /proc/interrupts; return 1; }
}
check "every queue carries what is written and verified" every_queue

after_reset() {
    nvme reset "/dev/$name"
    controller "$(serial)"
    [ "$(cat "/sys/class/nvme/$name/queue_count")" = 65 ]
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=2 --size=64k --offset_increment=1M --numjobs=64 --thread \
        --cpus_allowed=0-63 --cpus_allowed_policy=split
}
check "and after a reset" after_reset
