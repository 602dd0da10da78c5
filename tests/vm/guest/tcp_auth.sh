# Linux's own NVMe/TCP initiator shows who it is and sees who we are (DH-HMAC-CHAP), in every group and by every hash; wrong secrets
# on either side are refused; a server that was killed is shown it anew.
# devices: tcp
# secrets: yes
# image: --size 128M --ns nvm:64M
# seconds: 900

modprobe virtio_net
modprobe nvme-tcp
# What authentication is computed by, where the kernel has it as modules: it is asked for by names that no dependency tells.
for module in hmac sha256_generic sha512_generic sha256 sha512 dh_generic; do modprobe "$module" 2> /dev/null; done
read -r port nqn < /share/tcp
read -r hostnqn secret ctrl_secret < /share/secrets
check "the guest has a network" network_up

# connect OPTIONS...: with one I/O queue, which shows who it is as the admin queue does.
connect() {
    nvme connect -t tcp -a 10.0.2.2 -s "$port" -n "$nqn" --hostnqn "$hostnqn" \
        --hostid 5d5f6b6e-1c4b-4c4a-9f7e-0123456789ab --nr-io-queues=1 --reconnect-delay=1 --ctrl-loss-tmo=300 "$@"
}

connected() {
    connect "$@"
    name=$(controller "$(serial)")
    namespace "$name" 1 > block
}

written() {
    local block
    block=/dev/$(cat block)
    random data 1M
    byway nvm write "$block?direct=1" --offset 64K --file data
    byway nvm read "$block?direct=1" --offset 64K --length 1M | cmp - data
}

disconnected() {
    nvme disconnect -n "$nqn"
    until_true 60 is_gone
}

is_gone() {
    ! grep -qs "$nqn" /sys/class/nvme/nvme*/subsysnqn
}

# What the kernel says of an authentication.
told_of() {
    dmesg | grep -E "authenticated with hash .*$2.* dhgroup $1\$"
    dmesg | grep "controller authenticated"
}
for suite in "null sha256" "ffdhe2048 sha256" "ffdhe3072 sha384" "ffdhe4096 sha512" "ffdhe6144 sha256" "ffdhe8192 sha512"; do
    check "serve by $suite" host use-suite "$suite"
    dmesg -C
    check "connect by $suite" connected --dhchap-secret "$secret" --dhchap-ctrl-secret "$ctrl_secret"
    # shellcheck disable=SC2086
    check "the kernel says so by $suite" told_of $suite
    check "what is written is read by $suite" written
    check "disconnect by $suite" disconnected
done

check "serve by ffdhe2048 sha256" host use-suite "ffdhe2048 sha256"
check "connect one way" connected --dhchap-secret "$secret"
check "what is written is read one way" written
check "disconnect one way" disconnected

check "a wrong secret of the host is refused" refuses . connect --dhchap-secret "$ctrl_secret"
check "a wrong secret of the device is refused" refuses . connect --dhchap-secret "$secret" --dhchap-ctrl-secret "$secret"
check "a host without its secret is refused" refuses . connect
check "none of them is there" until_true 60 is_gone

check "connect" connected --dhchap-secret "$secret" --dhchap-ctrl-secret "$ctrl_secret"
name=$(controller "$(serial)")
reset() {
    nvme reset "/dev/$name"
    written
}
check "a reset shows anew who it is" reset

is_live() {
    [ "$(cat "/sys/class/nvme/$name/state")" = live ]
}

killed() {
    host kill-server
    sleep 2
    host start-server
    until_true 120 is_live
    byway nvm read "/dev/$(cat block)?direct=1" --offset 64K --length 1M | cmp - data
}
check "a server that was killed is shown anew who it is" killed
check "disconnect" disconnected
