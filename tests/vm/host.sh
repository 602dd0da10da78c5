# Sourced by run.sh: what the host does for a guest while it runs. A guest asks by a word in share/ask, and goes on when
# the answer is in share/answer.

guest=''

# Does what the guest asks for, if it does.
answer_guest() {
    local asked
    [ -e "$work/share/ask" ] || return 0
    asked=$(cat "$work/share/ask")
    rm "$work/share/ask"
    case $asked in
        kill-guest)
            kill -KILL "$guest"
            echo "GUEST-KILLED as it asked for" >> "$logs/vm-$test-$kernel.log"
            ;;
        *) echo "nobody knows how to do this" > "$work/share/answer.new" ;;
    esac
    mv "$work/share/answer.new" "$work/share/answer" 2>/dev/null
}

# Ends whatever was started for a test.
stop_host() {
    [ -z "$guest" ] || kill -KILL "$guest" 2>/dev/null
    guest=''
}

# What is looked at when the guest is gone.
after_guest() {
    :
}
