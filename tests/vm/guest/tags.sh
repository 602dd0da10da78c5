# More commands than the driver has tags, by io_uring: a command that the kernel defers is executed unchanged.
# devices: nvme

modprobe nvme io_queue_depth=16
name=$(controller other)
generic=/dev/$(namespace "$name" 1 | sed s/nvme/ng/)
for round in 1 2 3 4 5 6; do
    check "64 commands for 15 tags, written and read back: $round" byway perf "$generic" --rw randwrite --bs 512 --depth 64 \
        --count 1000 --length 16M --seed "$round" --verify
done
check "in one thread's ring" byway perf "$generic?one-thread=1" --rw randwrite --bs 512 --depth 64 --count 2000 --length 16M \
    --seed 7 --verify
check "of two threads" byway perf "$generic" --rw randwrite --bs 4K --depth 64 --threads 2 --count 1000 --length 16M --seed 8 --verify
check "reads and writes, with times of their own" byway perf "$generic" --rw randrw --bs 512 --depth 64 --count 1000 \
    --length 16M --seed 9 --timeout 20000 --verify
