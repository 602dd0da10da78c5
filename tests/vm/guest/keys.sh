# A namespace of keys behind a stock driver: by nvme-cli's pass-through, by our backends, by the library's calls.
# devices: byway
# quick: 6.12
# seconds: 900
# image: --size 512M --ns kv:128M --ns nvm:128M

modprobe nvme
name=$(controller "$(serial)")
controller=/dev/$name
# The driver looks at namespaces beside each other: which of them has the first node changes from boot to boot.
generic=$(keys_node)
ls -l /dev/ng* /dev/nvme*
check "the driver makes a character device for it" test -c "$generic"

# A key of four bytes is in command dword 2; its length in the low byte of dword 11; the value's in dword 10.
by_nvme_cli() {
    printf 'the value of abcd' > value
    nvme io-passthru "$generic" --opcode=1 --namespace-id=1 --cdw2=0x64636261 --cdw10=17 --cdw11=4 --write -i value -l 17
    nvme io-passthru "$generic" --opcode=0x14 --namespace-id=1 --cdw2=0x64636261 --cdw11=4
    nvme io-passthru "$generic" --opcode=2 --namespace-id=1 --cdw2=0x64636261 --cdw10=64 --cdw11=4 --read -l 64 -b > back
    cmp -n 17 value back
    nvme io-passthru "$generic" --opcode=6 --namespace-id=1 --cdw10=4096 --read -l 4096 -b > listed
    grep -qa abcd listed
    nvme io-passthru "$generic" --opcode=0x10 --namespace-id=1 --cdw2=0x64636261 --cdw11=4
    if nvme io-passthru "$generic" --opcode=0x14 --namespace-id=1 --cdw2=0x64636261 --cdw11=4; then return 1; fi
}
check "store, exist, retrieve, list, delete by nvme-cli" by_nvme_cli

# every_call URI
every_call() {
    local n size
    n=0
    for size in 0 1 5 11 12 35 64 127 4095 4096 4097 20000 70000; do
        random value$n $size
        byway kv put "$1" "key-$n" --file value$n
        n=$((n + 1))
    done
    for n in $(seq 0 12); do
        byway kv get "$1" "key-$n" | cmp - value$n
        byway kv exists "$1" "key-$n"
    done
    byway kv list "$1" | grep -c key- | grep -qx 13
    for n in $(seq 0 12); do
        byway kv delete "$1" "key-$n"
    done
    if byway kv exists "$1" key-3; then return 1; fi
    byway perf "$1" --rw putget --keys 200 --fill --count 500 --depth 8 --value-bytes 100 
}
for uri in "$generic?backend=io_uring_cmd" "$generic?backend=nvme_ioctl"; do
    check "every call by $uri" every_call "$uri"
done
