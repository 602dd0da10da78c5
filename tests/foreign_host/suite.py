#!/usr/bin/env python3
"""Checks an NVMe/TCP target as a host does that shares no code with it.

    suite.py ADDRESS PORT NQN DISCOVERY_PORT [CHECK...]

The subsystem has a namespace of 512-byte blocks and one of keys; what they hold is written over. One line a check: `ok` and
its name, or `not ok`, its name and why. The exit code is 1 where one failed.
"""

import sys

import admin  # noqa: F401
import data  # noqa: F401
import queues  # noqa: F401
from checks import ALL, Target


def run(target, one):
    try:
        one(target)
    except Exception as error:  # Whatever it is, the next check is run.
        print(f"not ok {one.__name__}: {type(error).__name__} {error}", flush=True)
        return False
    print(f"ok {one.__name__}", flush=True)
    return True


def main(host, port, nqn, discovery, *names):
    target = Target((host, int(port)), nqn, (host, int(discovery)))
    chosen = [one for one in ALL if not names or one.__name__ in names]
    passed = sum(run(target, one) for one in chosen)
    print(f"{passed} of {len(chosen)} passed", flush=True)
    return 0 if passed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
