"""Prints the kernel's events of NVMe devices, as udev receives them: one line each, in the kernel's format.

    uevents.py
"""

import socket

NETLINK_KOBJECT_UEVENT = 15
FROM_THE_KERNEL = 1

with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_KOBJECT_UEVENT) as kernel:
    kernel.bind((0, FROM_THE_KERNEL))
    while True:
        words = kernel.recv(65536).decode(errors="replace").strip("\0").split("\0")
        if "SUBSYSTEM=nvme" in words:
            print(*words, flush=True)
