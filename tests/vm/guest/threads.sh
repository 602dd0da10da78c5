# Three threads serve our device to a driver with four queues: data is read back whichever thread has the queue, also between
# commands that need the whole device, and resets.
# devices: byway
# image: --size 768M --ns nvm:256M --ns nvm:64M --ns kv:64M
# processors: 4
# threads: 3
# idle: poll sleep
# boots: 2
# seconds: 900

modprobe nvme
serial=$(serial)
name=$(controller "$serial")
block=/dev/$(namespace "$name" 1)
other=/dev/$(namespace "$name" 2)
keys=$(keys_node)
# A job on each processor, so on each queue, behind the numbered blocks.
jobs="--numjobs=4 --thread --size=4M --offset=64M --offset_increment=16M --cpus_allowed=0-3 --cpus_allowed_policy=split"
# The journal of acknowledged writes ends with its guest: only the image is left of the previous boot.
check "it begins with unwritten blocks" nvme format "$block" --ses=1 --force
check "a queue for each processor and the admin queue" test "$(cat "/sys/class/nvme/$name/queue_count")" = 5

# Run time and number of wake-ups of the two threads that have queues 1 and 4, and 2, when these are busy.
ran() {
    host queue-threads | grep -v :
}

# Whether both threads served in a round of reads. An idle thread wakes ten times a second and takes less than a
# thousandth of a processor; a busy one wakes for each doorbell or stays awake.
both_serve() {
    local before begun
    before=$(ran)
    begun=$(date +%s%N)
    # shellcheck disable=SC2086
    fio --name=l --filename="$block" --direct=1 --ioengine=io_uring --rw=randread --bs=4k --iodepth=32 --time_based \
        --runtime=4 $jobs > /dev/null
    paste -d ' ' <(echo "$before") <(ran) | awk -v "elapsed=$(($(date +%s%N) - begun))" '
        {ran = $3 - $1; runs = $4 - $2; print "ran " runs " times in " elapsed / 1e9 " s, for " ran / 1e6 " ms"}
        runs > 12 * elapsed / 1e9 || ran > elapsed / 100 {served++}
        END {exit (served != 2)}'
}
check "the other two threads have queues" until_true 180 both_serve
cat /tmp/said

for bytes in 512-64k 512-1M; do
    check "blocks of $bytes" fio_verified "$block" --rw=randwrite --bsrange=$bytes --bs_unaligned=0 --blockalign=512 --iodepth=8 $jobs
done
check "trimmed and written again" fio_verified "$block" --rw=randtrimwrite --bs=4k --iodepth=1 $jobs --size=1M
check "keys by four" byway perf "$keys" --rw putget --fill --keys 300 --value-bytes 500 --depth 8 --threads 4 --count 500

# beside COMMAND...: runs the command while blocks are verified on every queue and keys are stored.
beside() {
    local blocks values
    # shellcheck disable=SC2086
    fio_verified "$block" --rw=randwrite --bs=4k --iodepth=16 --loops=2 $jobs > blocks 2>&1 &
    blocks=$!
    byway perf "$keys" --rw putget --fill --keys 300 --value-bytes 500 --depth 8 --threads 2 --count 500 > values 2>&1 &
    values=$!
    "$@"
    wait $blocks || { cat blocks; return 1; }
    wait $values || { cat values; return 1; }
}

admin_commands() {
    local n
    for n in $(seq 10); do
        nvme smart-log "/dev/$name" > /dev/null
        nvme id-ctrl "/dev/$name" > /dev/null
        nvme get-feature "/dev/$name" -f 7
        nvme flush "$block"
    done
    byway kv list "$keys" > listed
    [ "$(wc -l < listed)" -ge 1 ]
}
check "admin commands, flushes and a list beside them" beside admin_commands

formats() {
    local n
    for n in 1 2 3; do
        byway nvm write "$other?direct=1" --file /share/lib.sh
        nvme format "$other" --ses=1 --force
        byway nvm read "$other?direct=1" --length 4096 | cmp - <(head -c 4096 /dev/zero)
    done
}
check "formats of another namespace beside them" beside formats

load_options=$jobs
check "ten resets of the controller under I/O" under_load 10 by_ioctl
check "five resets of the function under I/O" under_load 5 function_reset
check "its threads serve as before" until_true 180 both_serve
