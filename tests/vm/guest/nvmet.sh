# Our initiator on Linux's own NVMe/TCP target (nvmet-tcp): discovery, the conformance suite with and without digests, resets of the
# port under a load that is compared afterwards, and secrets on both sides.
# seconds: 900

load_if_there crc32c_generic hmac sha256_generic sha512_generic sha256 sha512 dh_generic
nqn=nqn.2026-11.example:nvmet
subsystem=$nvmet/subsystems/$nqn
uri=tcp://127.0.0.1/$nqn

served() {
    nvmet_subsystem
    nvmet_namespace 1 256
    nvmet_port 1 127.0.0.1
    nvmet_serve 1
}
check "Linux serves a subsystem" served
check "it is discovered" says "$nqn" byway discover tcp://127.0.0.1:4420
check "the controller reports its model" says Linux byway info "$uri"
# Linux does not check ranges against a namespace's size: the backing device does, and the status is not LBA Out of
# Range.
suite() {
    conformance "$1" --skip a_range_outside_the_namespace_is_refused --skip a_future_that_fails_gives_the_buffer_back
}
check "the suite" suite "$uri"
check "the suite, with header digests" suite "$uri?digests=header"
check "the suite, with both digests" suite "$uri?digests=both"

# compared OPTIONS BLOCK-SIZE DEPTH: what is written anywhere is read back.
compared() {
    byway perf "$uri?$1" --rw randwrite --bs "$2" --depth "$3" --length 32M --time 3 --verify
}
for digests in none both; do
    check "512 bytes are written and compared, digests $digests" compared digests=$digests 512 32
    check "1 MiB are written and compared, digests $digests" compared digests=$digests 1M 4
done

# A port that loses its subsystem ends its connections; one that has it again is connected to. A write whose answer was lost is not
# sent again: reads are what goes on.
cut() {
    local load n
    byway perf "$uri" --rw write --bs 64K --length 32M --count 512 --verify --seed 7
    byway perf "$uri?timeout=60" --rw randread --bs 64K --depth 16 --length 32M --time 20 --verify --seed 7 > loaded 2>&1 &
    load=$!
    for n in 1 2 3; do
        sleep 3
        nvmet_withdraw 1
        sleep 1
        nvmet_serve 1
    done
    wait "$load" || { cat loaded; return 1; }
    cat loaded
}
check "the port is taken away three times under load" cut

removed() {
    nvmet_withdraw 1
    refuses 'lost|refused|reach|connect' byway perf "$uri?ctrl-loss-tmo=2&timeout=2" --rw randread --time 5
    nvmet_serve 1
}
check "a subsystem that is not served is reported" removed

# secrets HASH GROUP: host and target must authenticate.
hostnqn=nqn.2026-11.example:host
host_folder=$nvmet/hosts/$hostnqn
allowed() {
    byway key new > secret
    byway key new > ctrl-secret
    mkdir "$host_folder"
    echo 0 > "$subsystem/attr_allow_any_host"
    ln -s "$host_folder" "$subsystem/allowed_hosts/"
    cat secret > "$host_folder/dhchap_key"
    cat ctrl-secret > "$host_folder/dhchap_ctrl_key"
    paste -d ' ' secret ctrl-secret > both
    paste -d ' ' ctrl-secret ctrl-secret > wrong
    paste -d ' ' secret secret > wrong-ctrl
}
check "the target asks for secrets" allowed
shown() {
    echo "hmac($1)" > "$host_folder/dhchap_hash"
    echo "$2" > "$host_folder/dhchap_dhgroup"
    byway perf "$uri?hostnqn=$hostnqn&dhchap-secret-file=both" --rw randwrite --length 8M --count 200 --verify
}
for suite in "sha256 null" "sha256 ffdhe2048" "sha384 ffdhe3072" "sha512 ffdhe4096" "sha256 ffdhe6144" "sha512 ffdhe8192"; do
    # shellcheck disable=SC2086
    check "both show who they are by $suite" shown $suite
done
check "a wrong secret of the host is reported" refuses . byway info "$uri?hostnqn=$hostnqn&dhchap-secret-file=wrong"
check "a wrong secret of the target is reported" refuses . byway info "$uri?hostnqn=$hostnqn&dhchap-secret-file=wrong-ctrl"
check "a host without its secret is refused" refuses . byway info "$uri?hostnqn=$hostnqn"
check "a host that is not allowed is refused" refuses . byway info "$uri?hostnqn=nqn.2026-11.example:other"
