# Linux's own NVMe/TCP initiator on our device: it discovers, connects, writes and compares with and without digests, resets, and
# reconnects after its server was killed. Keys and values go through its character device.
# devices: tcp
# image: --size 512M --ns nvm:128M --ns kv:64M
# seconds: 600

modprobe virtio_net
modprobe nvme-tcp
load_if_there crc32c_generic
read -r port nqn < /share/tcp
check "the guest has a network" network_up

discovered() {
    nvme discover -t tcp -a 10.0.2.2 -s "$port" | tee found
    grep -q "$nqn" found
    grep -q 'trsvcid: *'"$port" found
}
check "it is discovered" discovered

written() {
    found
    nvme id-ctrl "$block" | grep -i '^mn.*byway'
    reads_back 1M
    fio_verified "$block" --rw=randwrite --bsrange=512-256k --bs_unaligned=0 --blockalign=512 --iodepth=32 --size=16M
    nvme flush "$block"
    byway nvm trim "$block" --offset 64K --length 64K
}
for options in "" "--hdr-digest" "--data-digest" "--hdr-digest --data-digest --nr-io-queues=1" "--disable-sqflow"; do
    # shellcheck disable=SC2086
    check "connect ${options:-with nothing more}" connected $options
    check "what is written is read ${options:-with nothing more}" written
    check "disconnect ${options:-with nothing more}" disconnected
done

in_connection

keys() {
    local generic
    generic=$(keys_node)
    printf 'the value of abcd' > value
    nvme io-passthru "$generic" --opcode=1 --namespace-id=2 --cdw2=0x64636261 --cdw10=17 --cdw11=4 --write -i value -l 17
    nvme io-passthru "$generic" --opcode=2 --namespace-id=2 --cdw2=0x64636261 --cdw10=64 --cdw11=4 --read -l 64 -b > back
    cmp -n 17 value back
    random large 1M
    byway kv put "$generic" large --file large
    byway kv get "$generic" large | cmp - large
    byway kv list "$generic" | grep large
}
check "keys and values through the character device" keys

resets() {
    local n
    fio --name=r --filename="$block" --direct=1 --ioengine="$engine" --rw=randrw --bs=4k --iodepth=8 --offset=64M --size=16M \
        --time_based --runtime=15 &
    for n in 1 2 3; do
        nvme reset "/dev/$name"
        sleep 2
    done
    wait $!
    is_live
}
check "resets under load" resets

# Numbered blocks begin with zeroes.
check "blocks are empty" byway nvm trim "$block" --offset 0 --length 32M
check "the server is killed in mid-I/O and serves again" server_away kill-server
check "disconnect" disconnected
