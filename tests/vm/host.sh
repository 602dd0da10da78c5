# Sourced by run.sh: what the host does for a guest while it runs. A guest asks by a word in share/ask, and goes on when
# the answer is in share/answer.

guest=''
server=''

# Does what the guest asks for, if it does.
answer_guest() {
    local asked
    [ -e "$work/share/ask" ] || return 0
    asked=$(cat "$work/share/ask")
    rm "$work/share/ask"
    case $asked in
        kill-guest)
            echo "GUEST-KILLED as it asked for" >> "$log"
            kill -KILL "$guest"
            return
            ;;
        kill-server) end_server KILL ;;
        stop-server) end_server TERM ;;
        start-server) start_server ;;
        unplug) monitor '{"execute":"device_del","arguments":{"id":"byway"}}' ;;
        plug) monitor '{"execute":"device_add","arguments":'"$(byway_device)"'}' ;;
        *) false ;;
    esac
    echo "$asked: $?" > "$work/share/answer.new"
    mv "$work/share/answer.new" "$work/share/answer"
}

# Serves our device, and returns when it does. The header's "sgl" has a word for each boot, or one for all.
start_server() {
    local socket=$work/byway.sock tries sgl
    end_server TERM
    sgl=$(header sgl | cut -d' ' -f"$boot")
    rm -f "$socket"
    "target/$profile/byway" serve "$work/byway.img" --vfio-user "$socket" ${sgl:+--sgl "$sgl"} >> "$work/server.log" 2>&1 &
    server=$!
    for tries in $(seq 200); do
        [ -S "$socket" ] && return
        sleep 0.05
    done
    echo "the server did not begin: $(cat "$work/server.log")"
    return 1
}

# Ends it by a signal, and waits for its end.
end_server() {
    [ -n "$server" ] || return 0
    kill -"$1" "$server" 2>/dev/null
    wait "$server" 2>/dev/null
    echo "server ended by $1: $?" >> "$work/server.log"
    server=''
}

# Has QEMU do something.
monitor() {
    printf '%s\n' '{"execute":"qmp_capabilities"}' "$1" > "$work/monitor.in"
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
