"""A disk for the scripts in this folder: a loop device over a file in memory, or in a given folder."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECTOR = 512
MEMORY = "/dev/shm"

# A script that is ended by `timeout` or `kill` then detaches its devices, too.
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, **options)


class Disk:
    """A loop device, which is detached when the `with` block ends. It can hold ext4, mounted at `place`.

    In another folder than MEMORY it uses direct I/O, so it is as slow as the disk below."""

    def __init__(self, mebibytes=1024, within=MEMORY):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=within, prefix="iosonde-bench-"))
        # For programs that run as another user.
        self.folder.chmod(0o755)
        self.image = self.folder / "image"
        run("truncate", "-s", f"{mebibytes}M", self.image)
        self.in_memory = str(within) == MEMORY
        self.is_filled = False
        direct = "off" if self.in_memory else "on"
        made = run("losetup", "--show", "-f", f"--direct-io={direct}", self.image,
                   capture_output=True, text=True)
        self.device = made.stdout.strip()
        self.name = pathlib.Path(self.device).name
        self.place = self.folder / "mount"
        self.place.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.place.is_mount():
            self.unmount()
        run("losetup", "-d", self.device)
        shutil.rmtree(self.folder)

    def fill(self):
        """Writes random bytes to all of it."""
        size = self.image.stat().st_size
        with open(self.image, "r+b") as image:
            for _ in range(size >> 20):
                image.write(os.urandom(1 << 20))
            os.fsync(image.fileno())
        self.is_filled = True

    def erase(self):
        """Discards a disk in memory. A file on a disk is filled instead, once: reads of unwritten
        ranges would not reach the disk."""
        if self.in_memory:
            run("blkdiscard", "-f", self.device, stderr=subprocess.DEVNULL)
        elif not self.is_filled:
            self.fill()

    def format(self):
        """Makes ext4 without lazy initialisation, so that no work is left for the background."""
        self.erase()
        options = "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
        run("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", options, self.device)

    def mount(self):
        # ext4 would read its bitmaps in the background, in part before a profile begins.
        run("mount", "-o", "noatime,no_prefetch_block_bitmaps", self.device, self.place)

    def unmount(self):
        # The kernel releases the files of an io_uring some time after its process has ended.
        for _ in range(100):
            if subprocess.run(["umount", self.place], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.02)
        run("umount", self.place)

    def counters(self):
        """Bytes read, bytes written, writes and flushes, by the kernel's counters."""
        path = pathlib.Path("/sys/block", self.name, "stat")
        words = [int(word) for word in path.read_text().split()]
        return [words[2] * SECTOR, words[6] * SECTOR, words[4], words[15]]
