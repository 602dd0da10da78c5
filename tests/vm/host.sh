# Sourced by run.sh: what the host does for a guest while it runs. A guest asks by a word in share/ask, and goes on when
# the answer is in share/answer.

guest=''
server=''
# PID of the running hold.py, which stops a thread of the server; or of the last one.
holder=''
# The group and the hash that hosts authenticate by, once a guest has asked for some.
suite=''
# Whether hosts may come in the clear where they have keys for TLS, once a guest has said so.
policy=''
# The port that our device was plugged in behind last.
plugged=1

# Runs the guest's command, if there is one. The answer is its output, and then the exit code.
answer_guest() {
    local asked
    [ -e "$work/share/ask" ] || return 0
    asked=$(cat "$work/share/ask")
    rm "$work/share/ask"
    do_for_guest "$asked" > "$work/share/answer.new" 2>&1
    echo "$asked: $?" >> "$work/share/answer.new"
    mv "$work/share/answer.new" "$work/share/answer"
}

do_for_guest() {
    case $1 in
        kill-guest)
            echo "GUEST-KILLED as it asked for" >> "$log"
            kill -KILL "$guest"
            ;;
        kill-server) end_under_guest KILL ;;
        stop-server) end_under_guest TERM ;;
        start-server) start_server ;;
        'use-suite '*) suite=${1#* }; start_server ;;
        'use-tls '*) policy=${1#* }; start_server ;;
        renew-keys) renew_keys ;;
        server-log) tail -n 8 "$work/server.log" ;;
        'hold-syncs '*) hold_syncs "${1#* }" ;;
        unplug) monitor '{"execute":"device_del","arguments":{"id":"byway'"$plugged"'"}}' ;;
        plug) plug ;;
        check-image) "target/$profile/byway" check "$work/byway.img" ;;
        queue-threads) queue_threads ;;
        image-bytes) echo $(($(stat -c '%b * %B' "$work/byway.img"))) ;;
        *) echo "the host does not know how to $1"; return 1 ;;
    esac
}

# Serves our device; returns once it is served. A killed server leaves its socket file behind.
start_server() {
    local tries
    [ -z "$server" ] || end_server TERM
    : > "$work/server.said"
    # shellcheck disable=SC2046
    "target/$profile/byway" serve "$work/byway.img" $(front) $(asking) $(encrypting) \
        $(served_with --sgl "$(of_boot sgl)") $(served_with --idle "$(of_boot idle)") $(served_with --threads "$(of_boot threads)") \
        > "$work/server.said" 2>> "$work/server.log" &
    server=$!
    for tries in $(seq 1200); do
        if grep -q listening "$work/server.said"; then
            sed -n 's|.*tcp://127.0.0.1:\([0-9]*\)/\([^,]*\).*|\1 \2|p' "$work/server.said" > "$work/share/tcp"
            sed -n 's|.*tcp://127.0.0.1:\([0-9]*\) for discovery.*|\1|p' "$work/server.said" > "$work/share/discovery"
            return
        fi
        sleep 0.05
    done
    echo "the server did not begin: $(tail -n 3 "$work/server.log")"
    return 1
}

# Where it is served. A port that was found once is taken again.
front() {
    case $(header devices) in
        *tcp*) echo "--tcp 127.0.0.1:$(cut -d' ' -f1 "$work/share/tcp" 2> /dev/null || true)" | sed 's/:$/:0/' ;;
        *) echo "--vfio-user $work/byway.sock" ;;
    esac
}

# What hosts authenticate by, where the test has secrets: the guest finds its own, and the device's, in share/secrets.
asking() {
    [ -n "$(header secrets)" ] || return 0
    [ -e "$work/share/secrets" ] ||
        echo "nqn.2026-11.org.example:guest $("target/$profile/byway" key new) $("target/$profile/byway" key new --hash sha512)" \
            > "$work/share/secrets"
    echo "--dhchap-secrets $work/share/secrets ${suite:+--dhchap-group ${suite% *} --dhchap-hash ${suite#* }}"
}

# The keys by which hosts come by TLS, where the test has them: the guest finds its own in share/tls-keys, and may write another there.
encrypting() {
    case $(header tls) in
        '') return ;;
        # Authentications make them.
        made) echo "--tls allowed --discovery 127.0.0.1:0"; return ;;
    esac
    [ -e "$work/share/tls-keys" ] ||
        echo "nqn.2026-11.org.example:guest $("target/$profile/byway" key new --tls)" > "$work/share/tls-keys"
    echo "--tls-keys $work/share/tls-keys ${policy:+--tls $policy} --discovery 127.0.0.1:0"
}

# Has the server read its files of keys anew.
renew_keys() {
    local before tries
    before=$(grep -c 'read anew' "$work/server.log")
    kill -HUP "$server"
    for tries in $(seq 100); do
        [ "$(grep -c 'read anew' "$work/server.log")" = "$before" ] || return 0
        sleep 0.05
    done
    tail -n 3 "$work/server.log"
    return 1
}

# An option of the server, where its value is not empty.
served_with() {
    [ -z "$2" ] || echo "$1 $2"
}

# A header's word for this boot, or its one for all.
of_boot() {
    header "$1" | cut -d' ' -f"$boot"
}

# Ends the server by a signal, and waits for its exit code.
end_server() {
    local code
    [ -n "$server" ] || return 0
    kill -"$1" "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    code=$?
    echo "server ended by $1: $code" >> "$work/server.log"
    server=''
    # A killed server has no other exit code.
    [ "$code" = 0 ] || [ "$1$code" = KILL137 ]
}

# Ends the server while the guest uses it. QEMU 11 aborts when a server ends with unread messages. Doorbells written
# into memory send no messages; with doorbells as messages, the guest's processors wait until the messages are read.
end_under_guest() {
    local code
    if [ "$(of_boot idle)" = poll ]; then end_server "$1"; return; fi
    monitor '{"execute":"stop"}'
    until_said STOP
    sleep 0.2
    end_server "$1"
    code=$?
    monitor '{"execute":"cont"}'
    return "$code"
}

# Plugs our device in behind the next port. What is in the last one may be there still: QEMU 11 aborts when it unplugs a
# device whose server has gone.
plug() {
    plugged=$((plugged + 1))
    monitor '{"execute":"device_add","arguments":'"$(byway_device)"'}'
    sleep 0.5
    ! tail -c "+$((said + 1))" "$work/monitor.said" | grep '"error": .*[Dd]evice'
}

# For this many seconds no sync of the server ends; the rest of it runs on. Stopping the whole server would stop the
# guest's processors with it.
hold_syncs() {
    local tries
    # The previous hold may have begun late: a thread waiting for its disk stops only once the disk has answered.
    [ -z "$holder" ] || wait "$holder"
    python3 tests/vm/hold.py "$server" byway-sync "$1" > "$work/held" 2>&1 &
    holder=$!
    for tries in $(seq 100); do
        if grep -q held "$work/held"; then return; fi
        sleep 0.05
    done
    cat "$work/held"
    return 1
}

# For how long each thread ran that shares the server's queues with the one that answers messages, in nanoseconds, and how often it
# was given a processor: a line a thread.
queue_threads() {
    local task
    for task in "/proc/$server/task"/*; do
        if [ "$(cat "$task/comm")" = byway-queues ]; then cut -d' ' -f1,3 "$task/schedstat"; fi
    done
}

# Sends a command to QEMU.
monitor() {
    said=$(wc -c < "$work/monitor.said")
    printf '%s\n' '{"execute":"qmp_capabilities"}' "$1" 1<> "$work/monitor.in"
}

# Waits for an event after the last command.
until_said() {
    local tries
    for tries in $(seq 100); do
        if tail -c "+$((said + 1))" "$work/monitor.said" | grep -q "\"event\": \"$1\""; then return; fi
        sleep 0.1
    done
    echo "QEMU does not say $1"
    return 1
}

# Ends whatever was started for a test.
stop_host() {
    [ -z "$guest" ] || kill -KILL "$guest" 2>/dev/null
    guest=''
    end_server TERM
}

# What is looked at when the guest is gone: an image that was served is sound.
after_guest() {
    [ -e "$work/byway.img" ] || return 0
    "target/$profile/byway" check "$work/byway.img"
}
