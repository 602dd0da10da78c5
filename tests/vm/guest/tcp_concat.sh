# Linux's own NVMe/TCP initiator authenticates, and connects by the TLS key that this made (secure channel concatenation): also after a
# reset and after the server was killed.
# devices: tcp
# kernels: 7.2
# secrets: yes
# tls: made
# image: --size 128M --ns nvm:64M
# seconds: 900

modprobe virtio_net
modprobe nvme-tcp
modprobe tls
load_if_there hmac sha256_generic sha512_generic sha256 sha512 dh_generic aes_generic aesni_intel ghash_generic gcm
read -r port nqn < /share/tcp
read -r hostnqn secret ctrl_secret < /share/secrets
connect_options="--hostnqn $hostnqn --hostid 5d5f6b6e-1c4b-4c4a-9f7e-0123456789ab --nr-io-queues=1"
check "the guest has a network" network_up
printf '%s\n' '[debug]' loglevel=1 tls=1 '[authenticate]' keyrings=.nvme > /etc/tlshd.conf
tlshd -s > /tmp/tlshd.log 2>&1 &
keyctl link %:.nvme @s

# The kernel logs the key of the admin queue: a generated one.
came() {
    keyctl rdescribe "$((16#$(cat "/sys/class/nvme/$(controller "$(serial)")/tls_key")))" |
        grep -F "NVMe1G01 $hostnqn $nqn"
}

for suite in "ffdhe2048 sha256" "ffdhe3072 sha256"; do
    check "serve by $suite" host use-suite "$suite"
    check "connect by $suite" connected --dhchap-secret "$secret" --concat
    check "the kernel logs the key by $suite" came
    check "what is written is read by $suite" reads_back 1M
    check "disconnect by $suite" disconnected
done
check "serve without a group, which makes no key" host use-suite "null sha256"
check "connecting is refused" refuses . connect --dhchap-secret "$secret" --concat
check "and no controller is left" until_true 60 is_gone

check "serve by ffdhe2048 sha256" host use-suite "ffdhe2048 sha256"
check "a wrong secret is refused" refuses . connect --dhchap-secret "$ctrl_secret" --concat
check "and no controller is left" until_true 60 is_gone
check "connect in the clear, where it is allowed" connected --dhchap-secret "$secret"
check "what is written is read in the clear" reads_back 1M
check "disconnect" disconnected

in_connection --dhchap-secret "$secret" --concat
reset() {
    nvme reset "/dev/$name"
    until_true 60 is_live
    came
    reads_back 1M
}
check "the host uses TLS again after a reset" reset

killed() {
    host kill-server
    sleep 2
    host start-server
    until_true 120 is_live
    came
    is_there_still
}
check "the host reconnects to a killed server that has no key" killed
check "disconnect" disconnected
[ "$failures" = 0 ] || tail -n 40 /tmp/tlshd.log
