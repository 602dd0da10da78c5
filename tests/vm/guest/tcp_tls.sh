# Linux's own NVMe/TCP initiator over TLS 1.3 (tlshd, the kernel's TLS): keys of nvme-cli and ours, in both versions of identities;
# wrong and unknown keys and hosts without TLS are refused; the host reconnects to a killed server; keys are changed.
# devices: tcp
# tls: yes
# image: --size 256M --ns nvm:128M
# seconds: 900

modprobe virtio_net
modprobe nvme-tcp
modprobe tls
load_if_there crc32c_generic sha256_generic sha512_generic hmac aes_generic aesni_intel ghash_generic gcm
read -r port nqn < /share/tcp
read -r hostnqn key < /share/tls-keys
# With one I/O queue, which uses TLS as the admin queue does.
connect_options="--hostnqn $hostnqn --hostid 5d5f6b6e-1c4b-4c4a-9f7e-0123456789ab --nr-io-queues=1"
check "the guest has a network" network_up

# tlshd, the kernel's handshake service, finds keys where nvme-cli and `put` store them.
printf '%s\n' '[debug]' loglevel=1 tls=1 '[authenticate]' keyrings=.nvme > /etc/tlshd.conf
tlshd -s > /tmp/tlshd.log 2>&1 &
# A process that links the keyring may read its keys.
keyctl link %:.nvme @s

# by_nvme_cli KEY VERSION [SUBSYSTEM]: has nvme-cli derive what the kernel needs, and leave it in the keyring alone.
by_nvme_cli() {
    keyctl clear %:.nvme
    nvme check-tls-key --subsysnqn "${3:-$nqn}" --hostnqn "$hostnqn" --identity "$2" --insert --keydata "$1"
}

# by_us KEY FORM [SUBSYSTEM]: has our command derive it.
by_us() {
    local said
    said=$(byway key identity --host "$hostnqn" --subsystem "${3:-$nqn}" --identity "$2" --psk - <<< "$1")
    keyctl clear %:.nvme
    put "$(sed -n 1p <<< "$said")" "$(sed -n 2p <<< "$said")"
}

# put IDENTITY DIGITS: leaves a pre-shared key in the keyring.
put() {
    # shellcheck disable=SC2059
    printf "$(sed 's/../\\x&/g' <<< "$2")" | keyctl padd psk "$1" %:.nvme
}

# psk_of_nvme_cli KEY VERSION: what nvme-cli derives, in hexadecimal.
psk_of_nvme_cli() {
    by_nvme_cli "$1" "$2" > /dev/null
    keyctl pipe "$(keyctl rlist %:.nvme)" | od -An -v -tx1 | tr -d ' \n'
}

# came_by VERSION HASH: the kernel logs the key of the admin queue.
came_by() {
    keyctl rdescribe "$((16#$(cat "/sys/class/nvme/$(controller "$(serial)")/tls_key")))" |
        grep -F "NVMe$1R0$2 $hostnqn $nqn"
}

# Blocks of many sizes, as in-capsule data and by R2T, and fio's own verification.
written() {
    local bytes
    for bytes in 512 4K 16K 64K 1M; do
        reads_back "$bytes"
    done
    fio_verified "$block" --rw=randwrite --bsrange=512-1m --bs_unaligned=0 --blockalign=512 --iodepth=16 --size=16M
    nvme flush "$block"
}

# server_logs PATTERN: the server logged this lately.
server_logs() {
    host server-log | grep -E -- "$1"
}

# refused_for PATTERN OPTIONS...: connecting fails, and the server logs the reason.
refused_for() {
    refuses . connect "${@:2}"
    server_logs "$1"
    until_true 60 is_gone
}

# come VERSION HASH WAY KEY FORM: connects by a key derived this way, and writes.
come() {
    check "a key of SHA-$2, identity $1, $3" "$3" "$4" "$5"
    check "connect by it" connected --tls
    check "the kernel logs the key" came_by "$1" "$([ "$2" = 256 ] && echo 1 || echo 2)"
    check "what is written is read" written
    check "disconnect" disconnected
}

# Identities of version 0 do not name the derivation, and until summer 2025 libnvme's differed from the
# specification's.
come 1 256 by_nvme_cli "$key" 1
come 0 256 by_us "$key" 0
come 1 256 by_us "$key" 1
if [ "$(psk_of_nvme_cli "$key" 0)" = "$(byway key identity --host "$hostnqn" --subsystem "$nqn" --identity 0 --psk - <<< "$key" | sed -n 2p)" ]; then
    come 0 256 by_nvme_cli "$key" 0
else
    figure "nvme-cli derives keys as libnvme did until 2025"
    check "nvme-cli leaves a key of version 0" by_nvme_cli "$key" 0
    check "it differs from the specification's key, and is refused" refused_for 'the TLS key of "NVMe0R01 .*" is another here' --tls
fi

# has KEY: the host's key from now on.
has() {
    echo "$hostnqn $1" > /share/tls-keys
    host renew-keys
}

# GnuTLS before 3.8.11 binds every key by SHA-256, which no other implementation accepts for a key of SHA-384.
long=$(nvme gen-tls-key --subsysnqn "$nqn" --hostnqn "$hostnqn" --identity 1 --hmac 2 | grep -m 1 '^NVMeTLSkey')
check "nvme-cli makes a key of SHA-384" [ -n "$long" ]
check "it is the host's" has "$long"
if grep -q gnutls_psk_allocate_client_credentials2 /usr/sbin/tlshd; then
    come 1 384 by_nvme_cli "$long" 1
    come 0 384 by_us "$long" 0
else
    figure "tlshd's GnuTLS has no keys of SHA-384"
    for form in 0 1; do
        check "a key of SHA-384 is derived, identity $form" by_us "$long" "$form"
        check "GnuTLS binds it by SHA-256, and is refused with the reason" refused_for "NVMe${form}R02 .*bound by a hash of 32 bytes" --tls
    done
fi

fresh=$(nvme gen-tls-key --subsysnqn "$nqn" --hostnqn "$hostnqn" --identity 1 --hmac 1 | grep -m 1 '^NVMeTLSkey')
check "nvme-cli makes a key of SHA-256" [ -n "$fresh" ]
check "it is the host's" has "$fresh"
check "nvme-cli leaves it to the kernel" by_nvme_cli "$fresh" 1
check "connect by nvme-cli's own key, with digests" connected --tls --hdr-digest --data-digest
check "what is written is read, with digests" written
check "disconnect" disconnected

check "the host has its old key" by_us "$key" 1
check "its identity is unknown now" refused_for 'no host has the TLS identity "NVMe1R01' --tls
check "the same of version 0" by_us "$key" 0
check "its key differs now" refused_for 'the TLS key of "NVMe0R01 .*" is another here' --tls
check "a host in the clear is refused" refused_for 'in the clear, and TLS is required'

discovered() {
    nvme discover -t tcp -a 10.0.2.2 -s "$1" --hostnqn "$hostnqn" "${@:2}" | tee found
    grep -q "$nqn" found
    grep -q 'treq: *required' found
    grep -q 'sectype: *tls13' found
}
check "the host has a key for discovery" by_us "$fresh" 1 "$discovery"
check "it is discovered by TLS" discovered "$port" --tls
check "it is discovered without TLS at the discovery-only port" discovered "$(cat /share/discovery)"
check "it is not discovered without TLS where TLS is required" refuses . discovered "$port"

check "the host has its key" by_us "$fresh" 1
check "TLS is allowed" host use-tls allowed
check "connect in the clear" connected
check "what is written is read in the clear" written
check "disconnect" disconnected
check "connect by TLS where it is allowed" connected --tls
check "the kernel logs the key" came_by 1 1
check "disconnect" disconnected
check "TLS is required" host use-tls required

in_connection --tls
reset() {
    nvme reset "/dev/$name"
    until_true 60 is_live
    came_by 1 1
    written
}
check "the host uses TLS again after a reset" reset

killed() {
    reads_back 1M
    host kill-server
    sleep 2
    host start-server
    until_true 120 is_live
    came_by 1 1
    is_there_still
}
check "the host reconnects to a killed server by TLS" killed

# A connection keeps its key; the next one uses the new key.
check "the host has another key at the server" has "$key"
check "the existing connection works on" written
check "disconnect" disconnected
come 1 256 by_us "$key" 1
[ "$failures" = 0 ] || tail -n 40 /tmp/tlshd.log
