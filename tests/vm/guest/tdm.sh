# Transparent DAX mappings across a power loss: programs' syncs are served by NVDIMMs, by a file on one and by the other's device
# node; the machine is killed meanwhile, and records that the disk did not get are written back.
# devices: nvdimm disk
# boots: 3
# seconds: 600

for name in nfit nd_pmem dax_pmem device_dax virtio_blk ext4; do modprobe $name; done
mkdir -p /mnt/dax /mnt/disk

# Each kind of memory has its own daemon, program and file.
declare -A region=([fsdax]='fsdax:/mnt/dax?size=128M' [devdax]=devdax:/dev/dax1.0)

# Nothing is written back unless it is requested.
echo 0 > /proc/sys/vm/dirty_writeback_centisecs
echo 360000 > /proc/sys/vm/dirty_expire_centisecs

# as_memory NUMBER MODE: a namespace on that NVDIMM, once Linux has found it.
as_memory() {
    until_true 60 test -e "/sys/bus/nd/devices/namespace$1.0"
    ndctl create-namespace -f -e "namespace$1.0" -m "$2"
}

# made: file systems on the first NVDIMM, for a region, and on the disk, for the programs' files.
made() {
    as_memory 0 fsdax
    as_memory 1 devdax
    until_true 60 test -b /dev/pmem0
    mkfs.ext4 -F -q -b 4096 /dev/pmem0
    mkfs.ext4 -F -q -b 4096 /dev/vda
}

mounted() {
    until_true 60 test -b /dev/pmem0
    until_true 60 test -c /dev/dax1.0
    mount -o dax=always /dev/pmem0 /mnt/dax
    mount /dev/vda /mnt/disk
}

# serves KIND: the daemon runs, and has written back the records of the log.
serves() {
    byway tdm serve --region "${region[$1]}" --log-size 4M --socket "/run/$1.sock" > "/tmp/$1.log" 2>&1 &
    echo $! > "/run/$1.pid"
    until_true 60 grep -q listening "/tmp/$1.log"
    cat "/tmp/$1.log"
}

# status KIND FIELD: a field of the daemon's report on the file.
status() {
    byway tdm status --once --json --socket "/run/$1.sock" | python3 -c "
import json, sys
files = [file for user in json.load(sys.stdin)['users'] for file in user['files'] if file['path'] == '/mnt/disk/$1']
print(files[0]['$2'] if files else '')"
}

is_absorbed() {
    [ "$(status "$1" level)" = ABSORB ]
}

# has_saved KIND SYNCS
has_saved() {
    [ "$(status "$1" saved_syncs)" -ge "$2" ]
}

# Acknowledged records of a kind. The shared folder may return no data of a file that is growing.
noted() {
    until wc -l < "/share/$1" 2> /dev/null; do sleep 0.1; done
}

# goes_on KIND: the program continues while its daemon is stopped. The daemon syncs nothing to the disk meanwhile.
goes_on() {
    local had
    kill -STOP "$(cat "/run/$1.pid")"
    had=$(noted "$1")
    until_true 60 has_noted "$1" $((had + 500))
}

has_noted() {
    [ "$(noted "$1")" -ge "$2" ]
}

# Records of a kind on the disk.
there() {
    python3 /share/records.py count "/mnt/disk/$1"
}

# Fewer records than acknowledged: those only in the kernel's page cache are lost.
is_cut_short() {
    [ "$(there "$1")" -lt "$(noted "$1")" ]
}

is_complete() {
    python3 /share/records.py check "/mnt/disk/$1" "/share/$1"
}

# finds_nothing KIND: the daemon starts, and has no records to write back.
finds_nothing() {
    serves "$1"
    fails grep "/mnt/disk/$1" "/tmp/$1.log"
}

if [ "$boot" = 1 ]; then
    check "NVDIMMs and a disk, with file systems" made
    check "these are mounted, the NVDIMM's past the page cache" mounted
    for kind in fsdax devdax; do
        check "$kind: the region keeps what was stored" says cpu_cache serves $kind
        byway tdm run --socket /run/$kind.sock -- python3 /share/records.py append /mnt/disk/$kind /share/$kind &
        check "$kind: the program's file is absorbed" until_true 120 is_absorbed $kind
        check "$kind: its syncs are answered by the region" until_true 120 has_saved $kind 1000
        figure "$kind: $(status $kind saved_syncs) of $(status $kind syncs) syncs saved"
    done
    for kind in fsdax devdax; do
        check "$kind: the program continues while the daemon is stopped" goes_on $kind
    done
    host kill-guest
fi
check "the file systems are there again" mounted
for kind in fsdax devdax; do
    if [ "$boot" = 2 ]; then
        check "$kind: records that were acknowledged are not on the disk" is_cut_short $kind
        figure "$kind: $(there $kind) of $(noted $kind) acknowledged records were on the disk"
        check "$kind: the daemon writes them back" says '[1-9][0-9]* records were written back' serves $kind
        figure "$kind: $(grep -o '[0-9]* records were written back' /tmp/$kind.log)"
    fi
    check "$kind: every acknowledged record is there" is_complete $kind
done
[ "$boot" != 2 ] || host kill-guest
for kind in fsdax devdax; do
    check "$kind: nothing is left to be written back" finds_nothing $kind
done
