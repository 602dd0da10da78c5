# A guest is killed while it writes: the server serves the next one, which finds all acknowledged writes.
# devices: byway
# image: --size 512M --ns nvm:128M
# server: kept
# boots: 3
# seconds: 300

modprobe nvme
serial=$(serial)
name=$(controller "$serial")
block=/dev/$(namespace "$name" 1)

# Acknowledgements are written to the host, which outlives the guest.
if [ "$boot" != 1 ]; then
    check "what was acknowledged to the last guest is there" numbered check "$block" /share/journal
    check "and the device as good as new" fio_verified "$block" --rw=randwrite --bs=4k --iodepth=32 --offset=64M --size=8M
fi
[ "$boot" != 3 ] || return 0
numbered write "$block" /share/journal 300 16 &
fio --name=load --filename="$block" --direct=1 --ioengine=io_uring --rw=randrw --bs=4k --iodepth=64 --offset=64M --size=32M \
    --time_based --runtime=300 > /dev/null 2>&1 &
written() {
    [ "$(wc -l < /share/journal)" -ge $((boot * 300)) ]
}
check "it writes" until_true 120 written
host kill-guest
