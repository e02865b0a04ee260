"""Hosts that write blocks which name their host, disk, address and sequence number, and check each read against what
was acknowledged.

A disk gets an identity of 16 bytes in its block 0 from the host that first sees it, so that the target's own
identifiers play no part. A read must return the last acknowledged write of a block, or a write that was sent later
and whose outcome is not known. `World.fail` collects what is wrong; nothing is raised across threads.
"""

import errno
import fcntl
import mmap
import os
import random
import re
import struct
import threading
import time
import zlib

BLOCK = 4096
ZEROES = bytes(BLOCK)
HEADER = struct.Struct("<8sI16sQQI")
MAGIC = b"SLGOPER1"
BLKZEROOUT = 0x127F
# Times after the end of an interruption, in seconds, within which a host must be connected again, and within which
# its kernel may still report the interruption.
RECOVERY = 20


def block_of(host, disk, lba, sequence):
    """Returns the block that a host writes; all of its bytes depend on all arguments."""
    head = HEADER.pack(MAGIC, host, disk, lba, sequence, 0)[:-4]
    head += struct.pack("<I", zlib.crc32(head))
    return (head * (BLOCK // len(head) + 1))[:BLOCK]


def origin_of(block):
    """Returns host, disk, address and sequence number of a block; None for a block of zeroes; raises ValueError for
    one that no host wrote, or that is a mixture."""
    if block == ZEROES:
        return None
    magic, host, disk, lba, sequence, _ = HEADER.unpack_from(block)
    if magic != MAGIC:
        raise ValueError(f"no host wrote it: it begins with {block[:16].hex()}")
    if block != block_of(host, disk, lba, sequence):
        raise ValueError(f"a mixture, which begins as block {lba} of host {host}, write {sequence}")
    return host, disk, lba, sequence


class Windows:
    """Times in which the operator itself interrupts something."""

    def __init__(self):
        self.spans = []

    def open(self):
        span = [time.monotonic(), None]
        self.spans.append(span)
        return span

    @staticmethod
    def close(span):
        span[1] = time.monotonic()

    def overlap(self, begin, end, grace):
        return any(first <= end and (last is None or begin <= last + grace) for first, last in self.spans)


class Book:
    """What a host knows of one disk: acknowledged writes, and writes whose outcome is not known."""

    def __init__(self, host, disk):
        self.host, self.disk = host, disk
        self.lock = threading.Lock()
        self.kept = {}  # address: sequence number; 0 or missing: zeroes
        self.unsure = {}  # address: sequence numbers
        self.busy = set()
        self.sequence = 0
        self.device = None

    def name(self):
        return f"disk {self.disk.hex()[:8]} of host {self.host}"

    def take(self, lba, count):
        """Takes blocks for a command unless another one has them."""
        wanted = range(lba, lba + count)
        with self.lock:
            if any(one in self.busy for one in wanted):
                return False
            self.busy.update(wanted)
            return True

    def give_back(self, lba, count):
        with self.lock:
            self.busy.difference_update(range(lba, lba + count))

    def begin(self, lba, count, zeroes):
        """Notes a write that is about to be sent, and returns its sequence number."""
        with self.lock:
            self.sequence += 1
            sequence = 0 if zeroes else self.sequence
            for one in range(lba, lba + count):
                self.unsure.setdefault(one, set()).add(sequence)
            return sequence

    def acknowledge(self, lba, count, sequence):
        with self.lock:
            for one in range(lba, lba + count):
                self.kept[one] = sequence
                self.unsure.pop(one, None)

    def wrong(self, lba, block):
        """Compares a block that was read; returns what is wrong with it, or None."""
        try:
            origin = origin_of(block)
        except ValueError as error:
            return f"block {lba} of {self.name()}: {error}"
        found = 0
        if origin is not None:
            host, disk, address, found = origin
            if (host, disk, address) != (self.host, self.disk, lba):
                return f"block {lba} of {self.name()} is block {address} of disk {disk.hex()[:8]} of host {host}"
        with self.lock:
            kept, unsure = self.kept.get(lba, 0), self.unsure.get(lba, set())
            if found == kept:
                return None
            if found in unsure:
                # It was carried out: nothing may undo it.
                self.kept[lba] = found
                unsure.discard(found)
                return None
            return (f"block {lba} of {self.name()}: write {kept} was acknowledged, and write {found} was read"
                    f" (not known: {sorted(unsure)})")


class Device:
    """A disk as the host's kernel has it, from its appearance to its end."""

    def __init__(self, world, host, name, nsid):
        self.world, self.host, self.name, self.nsid = world, host, name, nsid
        self.fd = self.book = None
        self.is_gone = False
        self.is_doomed = False  # the operator takes the disk away by force
        self.working = 0
        self.lock = threading.Lock()
        self.since = time.monotonic()

    def start(self):
        self.working = 1
        threading.Thread(target=self.adopt, daemon=True).start()

    def size(self):
        return os.lseek(self.fd, 0, os.SEEK_END) // BLOCK

    def is_excused(self, begin, error):
        """Says whether a command that began then may have failed with this error now."""
        now = time.monotonic()
        if self.is_doomed or self.world.disk_windows(self.host, self.nsid).overlap(begin, now, RECOVERY):
            return True
        full = self.world.full_windows(self.host, self.nsid)
        return error.errno == errno.ENOSPC and full is not None and full.overlap(begin, now, RECOVERY)

    def failed(self, what, begin, error):
        """Notes a command that failed; returns whether the device is still worth trying."""
        if not self.is_excused(begin, error):
            # The kernel forgets the disk of a host at once; this thread reads of it later.
            self.world.fail(f"host {self.host}: {what} of {self.name} (NSID {self.nsid}) failed after"
                            f" {time.monotonic() - begin:.1f} s: {error}")
            return False
        self.world.count("errors that the operator caused")
        return error.errno == errno.ENOSPC or not self.is_doomed

    def adopt(self):
        """Opens the disk, finds out which one it is, checks all that it should hold, and starts the writers."""
        begin = time.monotonic()
        try:
            self.fd = os.open(f"/dev/{self.name}", os.O_RDWR | os.O_DIRECT)
            buffer = mmap.mmap(-1, BLOCK)
            os.preadv(self.fd, [buffer], 0)
            self.book = self.host_book(bytes(buffer))
            if self.book is None:
                self.leave()
                return
            if 0 not in self.book.kept:
                self.book.begin(0, 1, False)
                buffer[:] = block_of(self.book.host, self.book.disk, 0, self.book.sequence)
                os.pwritev(self.fd, [buffer], 0)
                self.book.acknowledge(0, 1, self.book.sequence)
            self.verify()
        except OSError as error:
            self.failed("the first look", begin, error)
            self.leave()
            return
        for number in range(2):
            with self.lock:
                self.working += 1
            threading.Thread(target=self.work, args=(number,), daemon=True).start()
        self.leave()

    def leave(self):
        """Ends one thread of the device; the last one closes it."""
        with self.lock:
            self.working -= 1
            if self.working == 0 and self.fd is not None:
                os.close(self.fd)
                if self.book is not None and self.book.device is self:
                    self.book.device = None

    def host_book(self, block):
        """Returns the book of the disk with this first block; None after a failure."""
        books = self.world.books[self.host]
        try:
            origin = origin_of(block)
        except ValueError as error:
            return self.world.fail(f"host {self.host}: the first block of {self.name}: {error}")
        if origin is None:
            # A disk whose first write failed is new once more.
            for book in books.values():
                if not book.kept and book.device is None:
                    book.device = self
                    return book
            if not self.world.is_new_disk_expected(self.host):
                return self.world.fail(f"host {self.host}: {self.name} (NSID {self.nsid}) is empty, and no new disk"
                                       " was added")
            disk = self.world.random.randbytes(16)
            books[disk] = Book(self.host, disk)
        else:
            disk = origin[1]
            if origin[0] != self.host or disk not in books:
                return self.world.fail(f"host {self.host} has the disk {disk.hex()[:8]} of host {origin[0]} as"
                                       f" {self.name}")
        book = books[disk]
        # The kernel removes the earlier device first; its last thread may still have to read of that.
        end = time.monotonic() + 60
        while book.device is not None and time.monotonic() < end:
            if not book.device.is_doomed and not book.device.is_gone:
                return self.world.fail(f"host {self.host} has {book.name()} twice: {book.device.name}, {self.name}")
            time.sleep(0.5)
        book.device = self
        return book

    def verify(self):
        """Reads all blocks that were ever written, below the present size."""
        size = self.size()
        with self.book.lock:
            known = sorted(lba for lba in set(self.book.kept) | set(self.book.unsure) if lba < size)
        while known and not self.world.is_over:
            first = known.pop(0)
            count = 1
            while known and known[0] == first + count and count < 64:
                known.pop(0)
                count += 1
            while not self.book.take(first, count):
                time.sleep(0.5)
            try:
                self.read(first, count)
            finally:
                self.book.give_back(first, count)

    def read(self, lba, count):
        buffer = mmap.mmap(-1, count * BLOCK)
        done = os.preadv(self.fd, [buffer], lba * BLOCK)
        for number in range(done // BLOCK):
            block = buffer[number * BLOCK:(number + 1) * BLOCK]
            if wrong := self.book.wrong(lba + number, block):
                self.world.fail(f"{wrong}; read from {self.name}")

    def write(self, lba, count, zeroes=False):
        sequence = self.book.begin(lba, count, zeroes)
        if zeroes:
            fcntl.ioctl(self.fd, BLKZEROOUT, struct.pack("<QQ", lba * BLOCK, count * BLOCK))
            done = count
        else:
            buffer = mmap.mmap(-1, count * BLOCK)
            for number in range(count):
                buffer.write(block_of(self.book.host, self.book.disk, lba + number, sequence))
            done = os.pwritev(self.fd, [buffer], lba * BLOCK) // BLOCK
        self.book.acknowledge(lba, done, sequence)

    def work(self, number):
        """One writer: commands one after the other until the device goes or the run ends."""
        choose = random.Random(f"{self.world.seed} {self.book.disk.hex()} {number} {self.since}")
        while not self.world.is_over and not self.is_gone:
            time.sleep(0 if choose.random() < 0.3 else choose.random() * self.world.pause)
            begin, size = time.monotonic(), self.size()
            count = choose.choice((1, 1, 1, 1, 2, 4, 16, 256))
            lba = choose.randrange(1, 64) if choose.random() < 0.6 else choose.randrange(1, max(2, size))
            count = min(count, size - lba)
            if count < 1 or not self.book.take(lba, count):
                continue
            what = choose.choices(("write", "read", "flush", "zeroes"), (50, 40, 4, 6))[0]
            try:
                if what == "read":
                    self.read(lba, count)
                elif what == "flush":
                    os.fdatasync(self.fd)
                else:
                    self.write(lba, count, what == "zeroes")
                self.world.count(f"commands of host {self.host}", f"{what}: {count} blocks", begin)
            except OSError as error:
                if not self.failed(f"{what} of {count} blocks at {lba}", begin, error):
                    break
            finally:
                self.book.give_back(lba, count)
        self.leave()


class World:
    """The hosts of this machine, their disks, and what went wrong."""

    def __init__(self, seed, hosts, pause):
        self.seed, self.pause = seed, pause
        self.random = random.Random(f"{seed} identities")
        self.hosts = hosts  # number: NQN
        self.books = {host: {} for host in hosts}
        self.new_disks = dict.fromkeys(hosts, 0)
        self.host_windows = {host: Windows() for host in hosts}
        self.windows_of_disks = {}
        self.taken_away = set()  # (host, NSID)
        self.stores = {}  # (host, NSID): windows in which its file system is full
        self.devices = {}
        self.past = []
        self.host_of_controller = {}
        self.failures = []
        self.is_over = self.is_blind = False
        self.counts, self.slowest = {}, {}
        self.lock = threading.Lock()
        self.kernel = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.kernel, 0, os.SEEK_END)

    def fail(self, what):
        if len(self.failures) < 20:
            self.failures.append(f"{time.monotonic():.1f} s: {what}")

    def count(self, what, command=None, begin=None):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
            if begin is not None:
                took = time.monotonic() - begin
                if took > self.slowest.get(what, (0, ""))[0]:
                    self.slowest[what] = (took, command)

    def disk_windows(self, host, nsid):
        return self.windows_of_disks.setdefault((host, nsid), Windows())

    def full_windows(self, host, nsid):
        return self.stores.get((host, nsid))

    def is_interrupted(self, host, begin, end):
        """Says whether the operator has interrupted a host's connection in that time."""
        return self.host_windows[host].overlap(begin, end, RECOVERY)

    def is_new_disk_expected(self, host):
        with self.lock:
            self.new_disks[host] -= 1
            return self.new_disks[host] >= 0

    def live_devices(self, host, nsid):
        return [one for one in self.devices.values() if (one.host, one.nsid) == (host, nsid) and not one.is_gone]

    def controllers(self):
        """Returns names, hosts and states of the hosts' controllers."""
        found = []
        for name in sorted(os.listdir("/sys/class/nvme")):
            nqn = read(f"/sys/class/nvme/{name}/hostnqn")
            for host, own in self.hosts.items():
                if nqn == own:
                    self.host_of_controller[name] = host
                    found.append((name, host, read(f"/sys/class/nvme/{name}/state")))
        return found

    def look(self):
        """Finds disks that came and went, hosts that are not connected, and messages of the kernel."""
        seen, live = set(), set()
        for name, host, state in self.controllers():
            if state == "live":
                live.add(host)
            for path in os.listdir(f"/sys/class/nvme/{name}"):
                # With multipath the controller has hidden paths, nvme0c1n2, and the disk is nvme0n2.
                if not (found := re.fullmatch(r"(nvme\d+)(?:c\d+)?(n\d+)", path)):
                    continue
                disk = found[1] + found[2]
                number, nsid = read(f"/sys/block/{disk}/diskseq"), read(f"/sys/class/nvme/{name}/{path}/nsid")
                key = (disk, number)
                if not number or not nsid or (key not in self.devices and read(f"/sys/block/{disk}/size") in ("", "0")):
                    continue
                seen.add(key)
                if key not in self.devices and os.path.exists(f"/dev/{disk}"):
                    self.devices[key] = Device(self, host, disk, int(nsid))
                    # A host that has connected a moment ago may see a disk that the operator has just taken away.
                    self.devices[key].is_doomed = (host, int(nsid)) in self.taken_away
                    self.devices[key].start()
                elif key in self.devices and self.devices[key].host != host:
                    self.fail(f"host {host} has {disk} (NSID {nsid}), which is a disk of host {self.devices[key].host}")
        for key, device in list(self.devices.items()):
            if key not in seen and not device.is_gone:
                device.is_gone = True
                if not device.is_doomed and not self.is_blind:
                    self.fail(f"host {device.host} has lost {device.name} (NSID {device.nsid})")
        now = time.monotonic()
        for host in self.hosts:
            if host not in live and not self.is_blind and not self.is_interrupted(host, now, now):
                self.fail(f"host {host} is not connected")
        self.read_kernel()

    def read_kernel(self):
        while True:
            try:
                line = os.read(self.kernel, 8192).decode(errors="replace")
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue
            head, _, text = line.partition(";")
            text = text.split("\n")[0]
            if wrong := self.kernel_says(int(head.split(",")[2]) / 1e6, text):
                self.fail(f"the kernel said, {wrong}: {text}")

    def kernel_says(self, when, text):
        """Returns why a message of the kernel should not be there, or None."""
        # A fault of Linux's own host: a work queue of nvme that reclaims memory flushes one that does not. The kernel
        # warns once that this may deadlock under memory pressure, whichever target the host has, in two lines whose
        # order depends on its version. The one without WARNING names the queues.
        if "is flushing !WQ_MEM_RECLAIM" in text:
            return None if "workqueue: WQ_MEM_RECLAIM nvme-" in text else "of itself"
        if re.search(r"WARNING: .*\bcheck_flush_dependency\b", text):
            return None
        if re.search(r"\bBUG\b|WARNING|Oops|blocked for more than|EXT4-fs error|[Rr]emounting", text):
            return "of itself"
        if self.is_blind:
            return None
        if disk := re.search(r"\b(nvme\d+)(?:c\d+)?(n\d+)\b", text):
            if re.search(r"error|beyond end|Cmd\(", text):
                begin, end = when - 1, when + 1
                for device in self.devices.values():
                    if device.name != disk[1] + disk[2]:
                        continue
                    if device.is_doomed or self.disk_windows(device.host, device.nsid).overlap(begin, end, RECOVERY):
                        return None
                    full = self.full_windows(device.host, device.nsid)
                    if full is not None and full.overlap(begin, end, RECOVERY) and \
                            re.search(r"space allocation|Capacity|Cmd\(", text):
                        return None
                return "although nothing took the disk away"
        if controller := re.search(r"\bnvme (nvme\d+): ", text):
            host = self.host_of_controller.get(controller[1])
            if host is not None and re.search(
                    r"time.?out|reset|error recovery|[Rr]econnect|fail|keep-alive|Removing|error", text):
                if not self.is_interrupted(host, when - 1, when + 1):
                    return "although nothing interrupted the host"
        return None


def read(path):
    """Returns the text of a file of the kernel; nothing where it is not there. `open` takes twice as many calls."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(fd, 1 << 16).decode().strip()
    except OSError:
        return ""
    finally:
        os.close(fd)
