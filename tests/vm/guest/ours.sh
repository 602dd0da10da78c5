# The conformance suite on our device under a stock driver, by every backend, polled where the driver has queues for that;
# and a namespace of keys by every backend that passes commands through.
# devices: byway
# image: --size 640M --ns nvm:256M --ns kv:128M
# seconds: 1500

modprobe nvme poll_queues=2
name=$(controller "$(serial)")
block=/dev/$(namespace "$name" 1)
generic=${block/nvme/ng}
keys=$(keys_node)

for options in backend=io_uring_cmd 'backend=io_uring_cmd&iopoll=1' 'backend=io_uring_cmd&fixed-buffers=64' \
    'backend=io_uring_cmd&sqpoll=2' backend=nvme_ioctl; do
    check "$options on the character device" conformance "$generic?$options"
done
for backend in io_uring libaio psync threads posix_aio; do
    check "$backend on the block device" conformance "$block?backend=$backend&direct=1"
done
check "io_uring that polls, on the block device" conformance "$block?backend=io_uring&direct=1&iopoll=1"
check "nvme_ioctl on the block device" conformance "$block?backend=nvme_ioctl"

for options in backend=io_uring_cmd 'backend=io_uring_cmd&iopoll=1' backend=nvme_ioctl 'backend=io_uring_cmd&transfer=piggyback-pt'; do
    check "keys by $options" conformance "$keys?$options" keys
done
