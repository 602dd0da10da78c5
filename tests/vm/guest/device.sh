# Our device under a stock driver: what nvme-cli and the driver see of it, and commands of blocks by every backend.
# devices: byway
# quick: 7.2 6.12
# seconds: 900
# image: --size 512M --ns nvm:256M

modprobe nvme
serial=$(serial)
name=$(controller "$serial")
block=$(namespace "$name" 1)
controller=/dev/$name generic=/dev/${block/nvme/ng}
block=/dev/$block
random data 1M

sees() {
    nvme list | grep -q "$serial"
    nvme id-ctrl "$controller" | grep -i '^mn.*byway'
    nvme id-ns "$block" | grep '^nsze'
    nvme list-ns "$controller" | grep -c '0x' | grep -qx 1
    nvme list-subsys
    lspci -vv | grep -A30 'Non-Volatile' | grep -E 'MSI-X: Enable\+|Express'
    [ "$(cat "/sys/class/nvme/$name/state")" = live ]
}
check "nvme-cli lists it" sees

# Not effects-log: it maps the registers, which these kernels do not let a program do.
for log in smart-log error-log fw-log changed-ns-list-log supported-log-pages sanitize-log; do
    check "$log" nvme "$log" "$controller"
done

telemetry() {
    local file
    nvme telemetry-log "$controller" --output-file=theirs.bin
    byway telemetry-log "$controller" -o ours.bin
    for file in theirs.bin ours.bin; do
        tail -c +513 "$file" | grep '^{"version":.*"health":.*} *$'
    done
}
check "nvme-cli and the command read telemetry" telemetry

features() {
    local feature
    for feature in 1 2 4 5 6 7 8 9 0xa 0xb; do
        nvme get-feature "$controller" -n 1 -f "$feature" -H
    done
    nvme set-feature "$controller" -f 4 -V 0x155
    nvme get-feature "$controller" -f 4 | grep -i '0*155'
}
check "features are read and set" features

as_nvme_cli_says() {
    byway identify "$controller" controller --raw > ours
    nvme id-ctrl "$controller" -b > theirs
    same ours theirs
    byway identify "$generic" namespace --ns 1 --raw > ours
    nvme id-ns "$controller" -n 1 -b > theirs
    same ours theirs
    byway log "$controller" effects --raw > ours
    nvme get-log "$controller" -i 5 -l 4096 -b > theirs
    same ours theirs
    byway log "$generic" smart
    byway feature list "$controller"
    byway list
}
check "the command sees what nvme-cli sees" as_nvme_cli_says

blocks() {
    byway nvm write "$1" --offset 64K --file data
    byway nvm read "$1" --offset 64K --length 1M > back
    same data back
    byway nvm compare "$1" --offset 64K --file data
    byway nvm zero "$1" --offset 128K --length 64K
    byway nvm read "$1" --offset 128K --length 64K | cmp - <(head -c 65536 /dev/zero)
    byway nvm trim "$1" --offset 64K --length 64K
    byway nvm read "$1" --offset 64K --length 64K | cmp - <(head -c 65536 /dev/zero)
    byway nvm verify "$1" --length 1M
    byway nvm copy "$1" --offset 256K --length 64K --to 4M
    byway nvm flush "$1"
}
for uri in "$block?direct=1" "$block?backend=nvme_ioctl" "$generic"; do
    check "commands of blocks to $uri" blocks "$uri"
done

verified() {
    fio --name=v --filename="$block" --direct=1 --ioengine=io_uring --rw=randwrite --bsrange=512-128k --bs_unaligned=0 \
        --blockalign=512 --iodepth=32 --size=16M --verify=crc32c --verify_fatal=1 --do_verify=1
    fio --name=p --filename="$generic" --ioengine=io_uring_cmd --cmd_type=nvme --rw=randwrite --bs=4k --iodepth=64 --size=8M \
        --verify=crc32c --verify_fatal=1 --do_verify=1
}
check "fio verifies what it wrote" verified

resets() {
    local n
    fio --name=r --filename="$block" --direct=1 --ioengine=io_uring --rw=randrw --bs=4k --iodepth=8 --size=16M --time_based --runtime=10 &
    for n in 1 2 3 4 5; do
        nvme reset "$controller"
        sleep 1
    done
    wait $!
    [ "$(cat "/sys/class/nvme/$name/state")" = live ]
    blocks "$generic"
}
check "resets under load lose nothing" resets
