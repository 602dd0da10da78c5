# The command `byway` on the nodes of a stock driver: QEMU's own device, by every backend.
# devices: nvme
# quick: 7.2
# seconds: 900

modprobe nvme
name=$(controller other)
first=$(namespace "$name" 1)
second=$(namespace "$name" 2)
controller=/dev/$name block=/dev/$first generic=/dev/${first/nvme/ng}
block4k=/dev/$second generic4k=/dev/${second/nvme/ng}
random data 1M
random other 1M

nodes() {
    byway enum > nodes
    grep -qE "^$controller .*controller" nodes
    grep -qE "^$block .*block" nodes
    grep -qE "^$generic .*generic" nodes
}
check "enum finds the controller, and namespaces as block and character devices" nodes
check "list opens them all" says "$generic4k|4096" byway list
check "info of a controller" says 'QEMU NVMe Ctrl' byway info "$controller"
check "info of a namespace, which a ring serves" says 'io_uring_cmd' byway info "$generic"
check "info of a block device" says 'io_uring' byway info "$block"

as_nvme_cli_says() {
    byway identify "$controller" controller --raw > ours
    nvme id-ctrl "$controller" -b > theirs
    same ours theirs
    byway identify "$generic" namespace --ns 2 --raw > ours
    nvme id-ns "$controller" -n 2 -b > theirs
    same ours theirs
    byway identify "$generic" descriptors --raw > ours
    nvme ns-descs "$controller" -n 1 -b > theirs
    same ours theirs
    byway log "$controller" effects --raw > ours
    nvme get-log "$controller" -i 5 -l 4096 -b > theirs
    same ours theirs
    says 'temperature' byway log "$generic" smart
    says '' byway log "$block?backend=nvme_ioctl" error
}
check "identify and logs are nvme-cli's bytes" as_nvme_cli_says

features() {
    says 'Number of Queues' byway feature list "$controller"
    byway feature set "$controller" temperature-threshold --value 0x155
    says '0*155' nvme get-feature "$controller" -f 4
    says '341|0x155' byway feature get "$generic" temperature-threshold
    refuses 'feature|field|Field' byway feature get "$controller" 0xb0
}
check "features are read and set" features

# blocks URI: a round of every command of blocks.
blocks() {
    byway nvm write "$1" --offset 64K --file data
    byway nvm read "$1" --offset 64K --length 1M > back
    same data back
    byway nvm compare "$1" --offset 64K --file data
    if byway nvm compare "$1" --offset 64K --file other; then return 1; fi
    byway nvm zero "$1" --offset 128K --length 64K
    byway nvm read "$1" --offset 128K --length 64K | cmp - <(head -c 65536 /dev/zero)
    byway nvm trim "$1" --offset 0 --length 64K
    byway nvm copy "$1" --offset 256K --length 64K --to 4M
    byway nvm read "$1" --offset 4M --length 64K | cmp - <(tail -c +196609 data | head -c 65536)
    byway nvm flush "$1"
    refuses 'not within a namespace' byway nvm read "$1" --offset 1T --length 4K
}
for uri in "$block" "$block?backend=libaio&direct=1" "$block?backend=nvme_ioctl" "$generic?backend=nvme_ioctl" \
    "$generic" "$generic4k" "$block4k?direct=1"; do
    check "commands of blocks to $uri" blocks "$uri"
done

copies() {
    byway dd ./data "$generic" --bs 64K --depth 8
    byway dd "$block" ./copied --count 1M --bs 4K
    same data copied
    byway dd "$block" "$generic4k" --count 32M --verify --jobs 2
    byway dd "$generic4k?backend=nvme_ioctl" - --count 1M | cmp - data
    byway dd ./other "$block4k?direct=1" --seek 1M
    byway dd "$generic4k" - --skip 1M --count 1M | cmp - other
}
check "dd between nodes and files" copies

loads() {
    local uri
    for uri in "$block?direct=1" "$generic" "$block?backend=nvme_ioctl"; do
        byway perf "$uri" --rw randwrite --bs 4K --depth 16 --count 500 --verify --length 16M
        byway perf "$uri" --rw randrw --bs 16K --depth 4 --threads 2 --count 200 --length 64M
        byway perf "$uri" --rw trim --bs 64K --count 50
    done
    byway perf "$generic" --rw randread --depth 32 --count 2000 --parts 4 --wait event
}
check "loads are measured and verified" loads

raw() {
    byway pass admin "$controller" --opcode 6 --cdw10 1 --data-len 4096 --output raw1
    nvme id-ctrl "$controller" -b > theirs
    same raw1 theirs
    byway pass io "$generic" --opcode 1 --cdw10 100 --cdw12 7 --input <(head -c 4096 data)
    byway pass io "$block" --opcode 2 --cdw10 100 --cdw12 7 --data-len 4096 --parts 2 --output raw2
    cmp raw2 <(head -c 4096 data)
    refuses '0x2|opcode|Opcode' byway pass admin "$controller" --opcode 0xc7
    refuses '4096|length|bytes' byway pass io "$generic" --opcode 2 --cdw12 15 --data-len 4096
}
check "commands are passed as their bytes are" raw

formats() {
    byway format "$controller" --ns 1 --block-bytes 4096 --yes
    says '4096' byway info "$generic"
    [ "$(cat "/sys/block/$first/queue/logical_block_size")" = 4096 ]
    byway nvm write "$generic" --file data
    byway nvm read "$block" --length 1M | cmp - data
    byway format "$generic" --ns 1 --block-bytes 512 --yes
    [ "$(cat "/sys/block/$first/queue/logical_block_size")" = 512 ]
    blocks "$generic"
}
check "a format changes the size of blocks" formats

kept() {
    refuses 'no node|no NVMe' byway info "/dev/null?backend=nvme_ioctl"
    refuses 'character|ring' byway info "$block?backend=io_uring_cmd"
    refuses 'reading alone|denied|Denied|read-only' byway nvm write "$generic?readonly=1" --file data
    refuses 'poll' byway info "$generic?iopoll=1"
}
check "what cannot be is refused by a sentence" kept

# There is no IOMMU here.
address=$(basename "$(readlink -f "/sys/class/nvme/$name/device")")
check "a PCI device that nothing keeps to its memory is not driven" refuses 'no IOMMU.*intel_iommu=on' byway info "pci:$address"
