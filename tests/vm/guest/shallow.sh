# A driver with queues of eight, and many times as many commands in flight: the kernel's workers restart them, and commands that
# they would misread are sent by a system call.
# devices: byway
# image: --size 512M --ns nvm:128M --ns kv:128M
# seconds: 600

modprobe nvme io_queue_depth=8
block=$(namespace "$(controller "$(serial)")" 1)
generic=/dev/${block/nvme/ng}
keys=$(keys_node)

for n in 1 2 3; do
    check "blocks, 3 threads with 60 each, round $n" byway perf "$generic" --rw randwrite --bs 512 --depth 60 --threads 3 \
        --count 1000 --verify --seed $n
done
check "blocks read and written" byway perf "$generic" --rw randrw --bs 4K --depth 60 --threads 3 --count 500
for bytes in 65 4000; do
    check "values of $bytes bytes" byway perf "$keys" --rw putget --fill --keys 300 --value-bytes $bytes --depth 60 --threads 3 --count 500
done
check "by calls" byway perf "$generic?backend=nvme_ioctl" --rw randwrite --bs 512 --threads 4 --count 200 --verify
