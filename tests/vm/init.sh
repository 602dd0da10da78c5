#!/bin/sh
# Process 1 of every guest: mounts the guest's root, runs the test in it, reports the verdict, powers off.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe 9pnet_virtio
modprobe 9p
modprobe overlay
# The root comes from the harness and is only read; what a test writes to it stays in the guest's memory.
mkdir -p /below /above /r
mount -t tmpfs above /above
mkdir /above/upper /above/work
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro root /below
mount -t overlay -o lowerdir=/below,upperdir=/above/upper,workdir=/above/work root /r
for folder in proc sys dev; do
    mount -o rbind /$folder /r/$folder
done
mkdir -p /r/dev/shm /r/share /r/programs /r/lib/modules
mount -t tmpfs shm /r/dev/shm
mount -t tmpfs run /r/run
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share /r/share
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro programs /r/programs
mount -o bind /lib/modules /r/lib/modules
ip link set lo up
chroot /r /bin/bash /share/run.sh </dev/null
echo "GUEST-EXIT $?"
poweroff -f
