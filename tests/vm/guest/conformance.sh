# The conformance suite on the nodes of a stock driver: QEMU's own device and null_blk, by every backend.
# devices: nvme
# kernels: 6.12 7.2
# quick: 7.2
# seconds: 1200

modprobe nvme poll_queues=2
modprobe null_blk nr_devices=1 memory_backed=1 bs=512 gb=1
name=$(controller other)
block=$(namespace "$name" 1)
generic=/dev/${block/nvme/ng}
block=/dev/$block

check "io_uring_cmd" conformance "$generic?backend=io_uring_cmd"
check "nvme_ioctl on a block device" conformance "$block?backend=nvme_ioctl"
check "io_uring on a namespace" conformance "$block?backend=io_uring&direct=1"
check "libaio on a namespace" conformance "$block?backend=libaio&direct=1"
check "io_uring_cmd that polls" conformance "$generic?backend=io_uring_cmd&iopoll=1"
check "io_uring on a block device without NVMe" conformance "/dev/nullb0?backend=io_uring&direct=1"
[ "$set" = quick ] && return

check "io_uring that polls" conformance "$block?backend=io_uring&direct=1&iopoll=1"
check "io_uring with a thread of the kernel" conformance "$block?backend=io_uring&direct=1&sqpoll=2"
check "io_uring with buffers that the kernel knows" conformance "$block?backend=io_uring&direct=1&fixed-buffers=64"
check "io_uring through the page cache" conformance "$block?backend=io_uring"
check "io_uring_cmd with buffers that the kernel knows" conformance "$generic?backend=io_uring_cmd&fixed-buffers=64"
check "io_uring_cmd with a thread of the kernel" conformance "$generic?backend=io_uring_cmd&sqpoll=2"
check "io_uring_cmd of one thread" conformance "$generic?backend=io_uring_cmd&one-thread=1"
check "nvme_ioctl on a character device" conformance "$generic?backend=nvme_ioctl"
check "libaio on a block device without NVMe" conformance "/dev/nullb0?backend=libaio&direct=1"
for backend in psync threads posix_aio; do
    check "$backend on a namespace" conformance "$block?backend=$backend&direct=1"
done
