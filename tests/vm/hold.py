"""hold.py PROCESS THREAD SECONDS: stops one thread of a process for this long, as a slow disk would; the others run on. Prints a line
once the thread is stopped."""
import ctypes
import os
import pathlib
import sys
import time

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(ctypes.c_long(request), ctypes.c_long(thread), None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of {thread}")


def thread_of(process, name):
    for path in pathlib.Path(f"/proc/{process}/task").iterdir():
        if (path / "comm").read_text().strip() == name:
            return int(path.name)
    sys.exit(f"process {process} has no thread {name}")


def main():
    process, name, seconds = sys.argv[1:]
    thread = thread_of(process, name)
    ptrace(SEIZE, thread)
    ptrace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    print("held", flush=True)
    time.sleep(float(seconds))
    ptrace(DETACH, thread)


main()
