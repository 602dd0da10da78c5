# fio writes to our device and verifies: in order and at random, blocks of 512 bytes to 1 MiB, trimmed ones, 1 to 256 under way,
# four jobs, by each of its engines.
# devices: byway
# image: --size 768M --ns nvm:512M
# seconds: 900

modprobe nvme
name=$(controller "$(serial)")
block=/dev/$(namespace "$name" 1)
generic=${block/nvme/ng}

check "in order, 64 KiB" fio_verified "$block" --rw=write --bs=64k --iodepth=8 --size=48M
check "in order, 512 bytes" fio_verified "$block" --rw=write --bs=512 --iodepth=32 --size=2M
for depth in 1 2 8 32 128 256; do
    check "at random, $depth under way" fio_verified "$block" --rw=randwrite --bs=4k --iodepth=$depth --size=8M
done
check "512 bytes to 1 MiB" fio_verified "$block" --rw=randwrite --bsrange=512-1M --bs_unaligned=0 --blockalign=512 \
    --iodepth=16 --size=96M
check "sizes of its own for reads, writes" fio_verified "$block" --rw=randrw --bssplit=512/20:4k/50:64k/20:1M/10 \
    --blockalign=512 --iodepth=64 --size=64M
check "four jobs" fio_verified "$block" --rw=randwrite --bs=4k --iodepth=64 --size=8M --numjobs=4 --offset_increment=32M
check "four jobs, 512 bytes to 1 MiB" fio_verified "$block" --rw=randwrite --bsrange=512-1M --bs_unaligned=0 \
    --blockalign=512 --iodepth=8 --size=24M --numjobs=4 --offset_increment=64M
check "trimmed and written again" fio_verified "$block" --rw=randtrimwrite --bs=4k --iodepth=1 --size=4M

trimmed() {
    fio_verified "$block" --rw=write --bs=64k --iodepth=8 --size=16M
    fio --name=t --filename="$block" --direct=1 --ioengine=libaio --rw=randtrim --bs=16k --iodepth=32 --size=8M
    cmp -n 8388608 "$block" /dev/zero
    # Its neighbours are as they were.
    fio_verified "$block" --rw=read --bs=64k --iodepth=8 --offset=8M --size=8M --verify_only
}
check "what was trimmed is zeroes, what was not is there" trimmed

check "libaio" fio_verified "$block" --ioengine=libaio --rw=randwrite --bs=4k --iodepth=64 --size=8M
check "pvsync2" fio_verified "$block" --ioengine=pvsync2 --rw=randwrite --bs=16k --size=8M
check "io_uring with buffers and files that the kernel knows" fio_verified "$block" --fixedbufs --registerfiles \
    --rw=randwrite --bs=4k --iodepth=64 --size=8M
check "io_uring through the page cache, synced" fio_verified "$block" --direct=0 --fsync=64 --rw=randwrite --bs=4k \
    --iodepth=32 --size=8M
for bs in 512 4k 128k; do
    check "commands that a ring carries, $bs" fio_verified "$generic" --ioengine=io_uring_cmd --cmd_type=nvme --direct=0 \
        --rw=randwrite --bs=$bs --iodepth=64 --size=$([ $bs = 512 ] && echo 1M || echo 16M)
done
