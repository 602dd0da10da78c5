# Local memory and programs (command sets 3 and 4) behind a stock driver: nvme-cli's pass-through on their generic devices.
# devices: byway
# image: --size 256M --ns nvm:64M
# seconds: 300

modprobe nvme
name=$(controller "$(serial)")
controller=/dev/$name
block=/dev/$(namespace "$name" 1)

# le BYTES NUMBER: a number, its lowest byte first.
le() {
    local rest=$2 bytes=
    for _ in $(seq "$1"); do
        bytes+=$(printf '\\x%02x' $((rest & 255)))
        rest=$((rest >> 8))
    done
    printf "$bytes"
}

# page FILE: what comes in, and zeroes up to 4096 bytes.
page() {
    cat - /dev/zero | head -c 4096 > "$1"
}

# generic NSID: the generic device of a namespace, when it is there.
generic() {
    local node tries
    for tries in $(seq 100); do
        for node in /dev/ng*n*; do
            if nvme get-ns-id "$node" 2> /dev/null | grep -qE "[:x ]$1\$"; then
                echo "$node"
                return
            fi
        done
        sleep 0.2
    done
    echo "namespace $1 has no generic device" >&2
    return 1
}

# create CSI BYTES NSID: makes a namespace, which gets this number, and attaches it.
create() {
    le 8 "$2" | page structure
    nvme admin-passthru "$controller" --opcode=0x0d --cdw11=$(($1 << 24)) --write -i structure -l 4096
    { le 2 1; le 2 "$(cat "/sys/class/nvme/$name/cntlid")"; } | page list
    nvme admin-passthru "$controller" --opcode=0x15 --namespace-id="$3" --write -i list -l 4096
    generic "$3"
}
check "a namespace of local memory gets a generic device" create 3 1048576 2
check "a namespace of programs gets a generic device" create 4 0 3
memory=$(generic 2) programs=$(generic 3)
ls -l /dev/ng* /dev/nvme*

# as_memory OPTIONS...: an I/O command to the memory. as_program, manage: the same of programs, and of their management.
as_memory() {
    nvme io-passthru "$memory" --namespace-id=2 "$@"
}
as_program() {
    nvme io-passthru "$programs" --namespace-id=3 "$@"
}
manage() {
    nvme admin-passthru "$controller" --namespace-id=3 "$@"
}

is_written_and_filled() {
    printf '123456789abc' > text
    as_memory --opcode=5 --cdw10=4096 --cdw12=12 --write -i text -l 12
    as_memory --opcode=0 --cdw10=4104 --cdw12=4
    as_memory --opcode=2 --cdw10=4096 --cdw12=12 --read -l 12 -b > back
    printf '12345678\0\0\0\0' | cmp - back
    printf '123456789\0\0\0' > text
    as_memory --opcode=5 --cdw10=0 --cdw12=12 --write -i text -l 12
    refuses 'nvalid' nvme io-passthru "$memory" --namespace-id=2 --opcode=2 --cdw10=2 --cdw12=4 --read -l 4 -b
}
check "Memory Write, Memory Fill, Memory Read" is_written_and_filled

is_copied() {
    random data 512
    dd if=data of="$block" bs=512 seek=9 oflag=direct
    { le 4 1; le 4 0; le 8 9; le 2 0; head -c 14 /dev/zero; } > source
    as_memory --opcode=1 --cdw2=512 --cdw10=8192 --cdw12=$((2 << 8)) --write -i source -l 32
    { le 4 2; le 4 0; le 8 8192; le 4 512; head -c 12 /dev/zero; } > source
    as_memory --opcode=1 --cdw2=512 --cdw10=65536 --cdw12=$((4 << 8)) --write -i source -l 32
    as_memory --opcode=2 --cdw10=65536 --cdw12=512 --read -l 512 -b > back
    same data back
}
check "Memory Copy from blocks and from memory" is_copied

# load INDEX FILE FIRST BYTES: loads a piece of a program in eBPF.
load() {
    tail -c +$(($3 + 1)) "$2" | head -c "$4" > piece
    manage --opcode=0x85 --cdw10=$(($1 | 0xc0 << 16)) --cdw11="$(stat -c %s "$2")" --cdw14="$4" --cdw15="$3" --write -i piece -l "$4"
}

activate() {
    manage --opcode=0x88 --cdw10=$(($1 | 1 << 16))
}

runs() {
    # r0 = r3; r0 += r4; exit
    printf '\xbf\x30\0\0\0\0\0\0\x0f\x40\0\0\0\0\0\0\x95\0\0\0\0\0\0\0' > sum
    load 5 sum 0 8
    load 5 sum 8 16
    refuses 'ctivated|198' nvme io-passthru "$programs" --namespace-id=3 --opcode=1 --cdw2=5
    activate 5
    says '0000002a|0x2a' as_program --opcode=1 --cdw2=5 --cdw10=40 --cdw12=2
}
check "Load Program in two pieces, Program Activation, Execute Program" runs

runs_over_a_set() {
    { le 4 2; le 4 9; le 8 0; head -c 16 /dev/zero; } > range
    says '00000001|0x1' manage --opcode=0x89 --cdw11=1 --write -i range -l 32
    activate 2
    says 'e3069283' as_program --opcode=1 --cdw2=$((1 << 16 | 2))
}
check "CRC-32C over a Memory Range Set" runs_over_a_set

ends_with_a_reset() {
    # goto -1
    printf '\x05\0\xff\xff\0\0\0\0' > endless
    load 6 endless 0 8
    activate 6
    as_program --opcode=1 --cdw2=6 --timeout=120000 > endless.said 2>&1 &
    sleep 1
    dd if="$block" of=/dev/null bs=4k count=100 iflag=direct
    as_memory --opcode=2 --cdw10=0 --cdw12=12 --read -l 12 -b | cmp - text
    refuses 'n Use|199' nvme admin-passthru "$controller" --namespace-id=3 --opcode=0x88 --cdw10=6
    kill -0 $!
    nvme reset "$controller"
    fails wait $!
    until_true 30 manage --opcode=0x88 --cdw10=6
    dd if="$block" of=/dev/null bs=4k count=100 iflag=direct
}
check "a program that loops delays no other command, and ends with a reset" ends_with_a_reset

says_what_it_has() {
    byway list
    nvme get-log "$controller" -i 5 -l 4096 --csi=4 -b > effects
    # Execute Program, I/O opcode 1, is supported.
    [ $(($(od -An -tu4 -j1028 -N4 effects) & 1)) = 1 ]
}
check "the effects log of command set 4 has Execute Program" says_what_it_has
