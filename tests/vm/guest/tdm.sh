# Transparent DAX mappings over a loss of power: a program's syncs are answered by an NVDIMM, the machine is gone in the midst of
# them, and what the disk below did not get is written back.
# devices: nvdimm disk
# boots: 3
# seconds: 600

for name in nfit nd_pmem dax_pmem virtio_blk ext4; do modprobe $name; done
mkdir -p /mnt/dax /mnt/disk
socket=/run/byway-tdm.sock
records=/mnt/disk/records

# Nothing is written back below unless somebody asks for it.
echo 0 > /proc/sys/vm/dirty_writeback_centisecs
echo 360000 > /proc/sys/vm/dirty_expire_centisecs

# made: a file system on the NVDIMM, for the region, and one on the disk, for the program's file.
made() {
    until_true 60 test -e /sys/bus/nd/devices/namespace0.0
    ndctl create-namespace -f -e namespace0.0 -m fsdax
    until_true 60 test -b /dev/pmem0
    mkfs.ext4 -F -q -b 4096 /dev/pmem0
    mkfs.ext4 -F -q -b 4096 /dev/vda
}

mounted() {
    until_true 60 test -b /dev/pmem0
    mount -o dax=always /dev/pmem0 /mnt/dax
    mount /dev/vda /mnt/disk
}

# serves: the daemon is there, and has written back what there was.
serves() {
    byway tdm serve --region 'fsdax:/mnt/dax?size=128M' --log-size 4M --socket $socket > /tmp/serve.log 2>&1 &
    until_true 60 grep -q listening /tmp/serve.log
    cat /tmp/serve.log
}

# status FIELD: what the daemon tells of the file.
status() {
    byway tdm status --once --json --socket $socket | python3 -c "
import json, sys
files = [file for user in json.load(sys.stdin)['users'] for file in user['files'] if file['path'] == '$records']
print(files[0]['$1'] if files else '')"
}

is_absorbed() {
    [ "$(status level)" = ABSORB ]
}

has_saved() {
    [ "$(status saved_syncs)" -ge "$1" ]
}

# Records that are there.
there() {
    python3 /share/records.py count $records
}

# There are fewer than were acknowledged: what the kernel had of them in its cache is gone.
is_cut_short() {
    [ "$(there)" -lt "$(wc -l < /share/journal)" ]
}

is_complete() {
    python3 /share/records.py check $records /share/journal
}

# finds_nothing: the daemon starts, and has nothing to do for the file.
finds_nothing() {
    serves
    fails grep $records /tmp/serve.log
}

if [ "$boot" = 1 ]; then
    check "an NVDIMM and a disk with file systems" made
    check "they are mounted, the NVDIMM's past the page cache" mounted
    check "the daemon's region keeps what was stored" says cpu_cache serves
    byway tdm run --socket $socket -- python3 /share/records.py append $records /share/journal &
    check "the program's file is absorbed" until_true 120 is_absorbed
    check "its syncs are answered by the region" until_true 120 has_saved 2000
    tells "$(status saved_syncs) of $(status syncs) syncs saved"
    host kill-guest
fi
check "both file systems are there again" mounted
if [ "$boot" = 2 ]; then
    check "records that were acknowledged are not on the disk" is_cut_short
    tells "$(there) of $(wc -l < /share/journal) acknowledged records were on the disk"
    check "the daemon writes them back" says 'records: [1-9][0-9]* records were written back' serves
    check "every acknowledged record is there" is_complete
    tells "$(grep -o '[0-9]* records were written back' /tmp/serve.log)"
    host kill-guest
fi
check "what was written back has outlived another loss of power" is_complete
check "nothing is left to be written back" finds_nothing
