"""Numbered records at the end of a file: those whose sync was acknowledged are there, whatever became of the system.

    records.py append FILE JOURNAL
    records.py count FILE
    records.py check FILE JOURNAL

`append` goes on behind the records of the file, syncs each one (fdatasync) and then notes its number in JOURNAL, which is
elsewhere; it ends when it is killed. `count` says how many whole records are there, up to the first that is not. `check`
compares that with the last number that was noted.
"""

import os
import sys

RECORD_BYTES = 96


def record(number):
    """A line that no other number has."""
    return f"{number} ".encode().ljust(RECORD_BYTES - 1, b"%x" % (number % 16)) + b"\n"


def count(path):
    """Records from the file's beginning on, each the one that belongs there."""
    whole = 0
    with open(path, "rb") as records:
        while records.read(RECORD_BYTES) == record(whole):
            whole += 1
    return whole


def acknowledged(path):
    """How many were noted. A line that was cut off was not."""
    with open(path, "rb") as journal:
        whole = [line for line in journal if line.endswith(b"\n")]
    return int(whole[-1]) + 1 if whole else 0


def append(path, journal_path):
    records = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    journal = os.open(journal_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    number = count(path)
    while True:
        os.write(records, record(number))
        os.fdatasync(records)
        os.write(journal, b"%d\n" % number)
        number += 1


def check(path, journal_path):
    there, noted = count(path), acknowledged(journal_path)
    print(f"{noted} records were acknowledged, {there} are there")
    return 0 if 0 < noted <= there else 1


def main(words):
    match words:
        case ["append", path, journal]:
            return append(path, journal)
        case ["count", path]:
            print(count(path))
            return 0
        case ["check", path, journal]:
            return check(path, journal)
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
