# Linux's own NVMe/TCP initiator and our target authenticate each other (DH-HMAC-CHAP), by every group and hash; wrong secrets
# on either side are refused; the host authenticates again to a server that was killed.
# devices: tcp
# secrets: yes
# image: --size 128M --ns nvm:64M
# seconds: 900

modprobe virtio_net
modprobe nvme-tcp
load_if_there hmac sha256_generic sha512_generic sha256 sha512 dh_generic
read -r port nqn < /share/tcp
read -r hostnqn secret ctrl_secret < /share/secrets
# With one I/O queue, which authenticates as the admin queue does.
connect_options="--hostnqn $hostnqn --hostid 5d5f6b6e-1c4b-4c4a-9f7e-0123456789ab --nr-io-queues=1"
check "the guest has a network" network_up

# The kernel's log of an authentication.
kernel_logs_authentication() {
    dmesg | grep -E "authenticated with hash .*$2.* dhgroup $1\$"
    dmesg | grep "controller authenticated"
}
for suite in "null sha256" "ffdhe2048 sha256" "ffdhe3072 sha384" "ffdhe4096 sha512" "ffdhe6144 sha256" "ffdhe8192 sha512"; do
    check "serve by $suite" host use-suite "$suite"
    dmesg -C
    check "connect by $suite" connected --dhchap-secret "$secret" --dhchap-ctrl-secret "$ctrl_secret"
    # shellcheck disable=SC2086
    check "the kernel logs the authentication by $suite" kernel_logs_authentication $suite
    check "what is written is read by $suite" reads_back 1M
    check "disconnect by $suite" disconnected
done

check "serve by ffdhe2048 sha256" host use-suite "ffdhe2048 sha256"
check "connect one way" connected --dhchap-secret "$secret"
check "what is written is read one way" reads_back 1M
check "disconnect one way" disconnected

check "a wrong secret of the host is refused" refuses . connect --dhchap-secret "$ctrl_secret"
check "a wrong secret of the device is refused" refuses . connect --dhchap-secret "$secret" --dhchap-ctrl-secret "$secret"
check "a host without its secret is refused" refuses . connect
check "no controller is left" until_true 60 is_gone

in_connection --dhchap-secret "$secret" --dhchap-ctrl-secret "$ctrl_secret"
reset() {
    nvme reset "/dev/$name"
    reads_back 1M
}
check "the host authenticates again after a reset" reset

killed() {
    host kill-server
    sleep 2
    host start-server
    until_true 120 is_live
    is_there_still
}
check "the host authenticates again to a killed server" killed
check "disconnect" disconnected
