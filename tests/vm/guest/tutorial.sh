# The guest's half of docs/tutorials/serve-to-qemu.md: its commands, as they stand there.
# devices: byway
# image: --size 512M --ns nvm:256M --ns kv

modprobe nvme
modprobe ext4
# The page's names are those of a guest with one drive.
controller "$(serial)" > /dev/null

drive_is_there() {
    nvme list
    lsblk /dev/nvme0n1
}
check "the drive is there" drive_is_there

file_system() {
    mkfs.ext4 -q /dev/nvme0n1
    mount /dev/nvme0n1 /mnt
    echo 'from the guest' > /mnt/greeting
    umount /mnt
}
check "a file system on the namespace of blocks" file_system

keys() {
    byway kv put /dev/ng0n2 greeting 'from the host'
    byway kv get /dev/ng0n2 greeting
    byway kv put /dev/ng0n2 answer 'from the guest'
    byway kv get /dev/ng0n2 answer | grep -qx 'from the guest'
}
check "keys and values" keys
