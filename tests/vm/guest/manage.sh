# Namespaces of our device by nvme-cli: found by the firmware, formatted, sanitized, made, attached, detached, deleted, while
# the stock driver follows.
# devices: byway
# image: --size 512M --ns nvm:128M
# seconds: 600

modprobe nvme
serial=$(serial)
name=$(controller "$serial")
first=$(namespace "$name" 1)
controller=/dev/$name block=/dev/$first
random data 1M

# SeaBIOS has a driver of its own, and looks for the order of a disk once it has identified its namespace.
firmware() {
    local address
    address=$(basename "$(readlink -f "/sys/class/nvme/$name/device")")
    echo "$address is behind $(basename "$(readlink -f "/sys/class/nvme/$name/device/..")")"
    grep -aE 'Searching bootorder for: .*pci-bridge.*/\*@0$' /share/firmware.log
}
check "the firmware made queues and identified the namespace before" firmware
[ -s /tmp/said ] && grep -a Searching /tmp/said | head -n 3

# blocks NAMESPACE: whether it stores.
blocks() {
    byway nvm write "/dev/$1?direct=1" --offset 64K --file data
    byway nvm read "/dev/${1/nvme/ng}" --offset 64K --length 1M | cmp - data
}

# is_zero NAMESPACE: whether nothing of the data is left.
is_zero() {
    byway nvm read "/dev/$1?direct=1" --offset 64K --length 1M | cmp - <(head -c 1M /dev/zero)
}

# in_blocks_of NAMESPACE BYTES
in_blocks_of() {
    [ "$(cat "/sys/block/$1/queue/logical_block_size")" = "$2" ]
}

formats() {
    local bytes ses
    for bytes in 4096 512; do
        for ses in 0 1; do
            blocks "$first"
            nvme format "$block" --block-size="$bytes" --ses="$ses" --force
            until_true 20 in_blocks_of "$first" "$bytes"
            is_zero "$first"
        done
    done
    blocks "$first"
    [ "$(blockdev --getsize64 "$block")" = 134217728 ]
}
check "a format forgets, and changes the size of blocks" formats

is_sanitized() {
    nvme get-log "$controller" -i 0x81 -l 512 -b > sanitized
    # Most recently: completed without an error (Base 2.1, log 81h, bytes 3:2).
    [ $(($(od -An -tu2 -j2 -N2 sanitized) & 7)) = 1 ]
}

# sanitize ACTION OPTIONS...
sanitize() {
    blocks "$first"
    nvme sanitize "$controller" --sanact="$@"
    until_true 120 is_sanitized
    nvme sanitize-log "$controller"
    is_zero "$first"
    blocks "$first"
}
check "a sanitize by block erase forgets" sanitize 2
check "a sanitize by overwriting forgets" sanitize 3 --owpass=1 --ovrpat=0x5a5a5a5a
check "what the device cannot do is refused" refuses 'FIELD|field|Field' nvme sanitize "$controller" --sanact=4

is_gone() {
    ! grep -qsx "$1" /sys/class/nvme/"$name"/"$name"*n*/nsid /sys/block/nvme*n*/nsid
}

# made OPTIONS...: makes a namespace and prints its number.
made() {
    local said
    said=$(nvme create-ns "$controller" "$@" 2>&1)
    echo "$said" >&2
    sed -n 's/.*nsid:\([0-9]*\).*/\1/p' <<< "$said"
}

namespaces() {
    local id cntlid second
    cntlid=$(nvme id-ctrl "$controller" | sed -n 's/^cntlid *: *//p')
    id=$(made --nsze=131072 --ncap=131072 --flbas=0)
    [ "$id" = 2 ]
    nvme list-ns "$controller" --all | grep -q ":0x$id\$"
    is_gone "$id"
    nvme attach-ns "$controller" -n "$id" -c "$cntlid"
    # No scan is requested: the device sends the driver an event.
    second=$(namespace "$name" "$id")
    [ "$(blockdev --getsize64 "/dev/$second")" = 67108864 ]
    blocks "$second"
    nvme detach-ns "$controller" -n "$id" -c "$cntlid"
    until_true 20 is_gone "$id"
    nvme attach-ns "$controller" -n "$id" -c "$cntlid"
    second=$(namespace "$name" "$id")
    byway nvm read "/dev/$second?direct=1" --offset 64K --length 1M | cmp - data
    nvme delete-ns "$controller" -n "$id"
    until_true 20 is_gone "$id"
    blocks "$first"
}
check "namespaces are made, attached, detached and deleted, and the driver follows" namespaces

refused() {
    refuses 'INSUFFICIENT|nsufficient|capacity' nvme create-ns "$controller" --nsze=99999999 --ncap=99999999 --flbas=0
    refuses 'INVALID|nvalid' nvme attach-ns "$controller" -n 9 -c 0
    refuses 'INVALID|nvalid' nvme delete-ns "$controller" -n 9
    refuses 'ATTACHED|ttached' nvme attach-ns "$controller" -n 1 -c "$(nvme id-ctrl "$controller" | sed -n 's/^cntlid *: *//p')"
}
check "what cannot be is refused by its status" refused

logs() {
    # The first error of those above, and the writes that were counted.
    nvme error-log "$controller" -e 4 | grep -m1 'error_count'
    nvme smart-log "$controller" -o normal | grep -iE 'data units written'
    nvme get-log "$controller" -i 4 -l 4096 -b | cmp -n 4096 - /dev/zero
}
check "the logs report it, and no change of namespaces is left unread" logs
