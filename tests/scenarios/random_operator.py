#!/usr/bin/env python3
"""An operator who changes a target at random, and slips now and then, under four hosts with verified I/O.

usage: random_operator.py SEED SECONDS WITHOUT HOSTNQN...

Runs in the machine that operator.sh has set up. All choices follow from SEED. WITHOUT names actions that are left out,
separated by commas, to find out which ones a failure needs; `reuse` among them leaves out NSIDs that another disk had.
Where OTHER has the programs of another build, restarts change to it and back, as docs/use/operating.md says.
Prints each action with its time. What is wrong is printed last, and then `END fail` or `END pass`.
"""

import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
import traceback

from verified_io import BLOCK, RECOVERY, World, ZEROES, Windows, origin_of, read

MIB = 1 << 20
CONFIG, CONTROL, STATE = "/run/operator.toml", "/run/sg.sock", "/tmp/state"
STATE_FILE = f"{STATE}/sg.redb"
OWN, OTHER = "/run/bin", "/run/other"  # folders with the programs of the build under test, and of another one
TARGET = "nsenter", "--net=/run/netns/target"
NQN = "nqn.2026-01.io.sluicegate:"
# Two hosts share a subsystem.
SUBSYSTEM = {1: NQN + "t1", 2: NQN + "t1", 3: NQN + "t2", 4: NQN + "t3"}
STORES = "/tmp/a", "/tmp/b"
STORE_MIB = 190
KEEP_ALIVE = 5  # of the hosts, in seconds
REFUSAL = "was written by a later sluiced"
# Exit statuses of sluice.
DONE, FAILED, NOT_FOUND, EXISTS, INVALID, REFUSED = 0, 1, 3, 4, 5, 6


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


class Wrong(Exception):
    """What the target did is not what it should do."""


class Disk:
    """A file or device that is a disk of one host, served or not."""

    def __init__(self, host, path, mib, backend="file"):
        self.host, self.path, self.mib, self.backend = host, path, mib, backend
        self.nqn = SUBSYSTEM[host]
        self.nsid = None
        self.store = os.path.dirname(path) if backend == "file" else None
        self.is_held = False  # an action that is not over yet keeps others away
        self.is_of_file = False  # the configuration file has it

    def __str__(self):
        return f"{os.path.basename(self.path)} of host {self.host}"


class Operator:
    """The operator's knowledge, and the actions."""

    def __init__(self, seed, seconds, without, hosts):
        self.without = without
        self.random = random.Random(seed)
        self.is_real = os.environ.get("LAB_TIME") != "virtual"
        self.world = World(seed, hosts, 6.0)
        self.end = time.monotonic() + seconds
        self.begin = time.monotonic()
        self.daemon, self.starts, self.build = None, 0, OWN
        self.text = None  # the configuration file
        self.earlier = None  # the build whose format of the state file is the earlier one, if there are two
        self.copy = None  # of the state file, from before the last upgrade
        self.before_upgrade = None  # what was served then
        self.is_changed = True  # whether the disks are others than at the last upgrade
        # A start may make a change that was refused: it could neither be stored nor undone.
        self.may_come_back = False
        self.disks, self.later = [], []
        self.held = set()  # stores, hosts and the state that an action keeps others away from
        self.done = {}
        self.made = 0
        self.had = {host: set() for host in hosts}  # NSIDs
        for host in hosts:
            self.new_file(host, 8)
            self.disks[-1].is_of_file = True
            device = Disk(host, f"/dev/device{host}", 32, "block")
            device.is_of_file = True
            self.disks.append(device)

    # --- reporting ---

    def say(self, text):
        print(f"{time.monotonic() - self.begin:8.1f} s  {text}", flush=True)

    def check(self, is_right, what):
        if not is_right:
            raise Wrong(what)

    # --- the daemon ---

    def first_configuration(self):
        """Returns the configuration file that the target has at first."""
        lines = ["[target]", "cores = [%s]" % ", ".join(map(str, range(os.cpu_count() or 1)))]
        if self.is_real:
            lines += ['poll = "never"']
        else:
            lines += ['clock = "monotonic"', 'poll = "never"']
        lines += [f'control = "{CONTROL}"', f'state = "{STATE_FILE}"']
        for host in self.world.hosts:
            lines += ["[[listener]]", f'address = "10.1.{host}.1:4420"']
        for host, nqn in self.world.hosts.items():
            lines += ["[[session]]", f'name = "host{host}"']
        for host in (2, 4):
            lines += ["[[policy]]", f'host = "{self.world.hosts[host]}"', f'session = "host{host}"']
        for nqn in dict.fromkeys(SUBSYSTEM.values()):
            own = [host for host in self.world.hosts if SUBSYSTEM[host] == nqn]
            names = ", ".join(f'"{self.world.hosts[host]}"' for host in own)
            lines += ["[[subsystem]]", f'nqn = "{nqn}"', f"hosts = [{names}]"]
            for number, disk in enumerate(one for one in self.disks if one.is_of_file and one.nqn == nqn):
                disk.nsid = number + 1
                self.had[disk.host].add(disk.nsid)
                lines += ["[[subsystem.namespace]]", f"nsid = {disk.nsid}", f'backend = "{disk.backend}"',
                          f'path = "{disk.path}"', "block_size = 4096", f'hosts = ["{self.world.hosts[disk.host]}"]']
        return "\n".join([*lines, ""])

    def configuration(self, without=None, moved=None, extra=""):
        """Returns the configuration file, without one disk, or with another path for one."""
        tables = re.split(r"(?m)^(?=\[)", self.text)
        if disk := without or moved:
            line = f'path = "{disk.path}"\n'
            own = [number for number, table in enumerate(tables) if line in table]
            self.check(len(own) == 1, f"the file has {disk} {len(own)} times: {self.text}")
            tables[own[0]] = tables[own[0]].replace(line, f'path = "{disk.path}.other"\n') if moved else ""
        if without:
            # A limit of a disk that the file does not have is refused as an error of the file.
            limit = f'[[session]]\nname = "{without.nqn}/{without.nsid}"\n'
            tables = [table for table in tables if not table.startswith(limit)]
        return "".join([*tables, extra, "\n"])

    def write(self, text):
        with open(CONFIG, "w") as file:
            file.write(text)

    def log(self):
        return read(f"/run/sluiced-{self.starts}.log")

    def spawn(self):
        self.starts += 1
        with open(f"/run/sluiced-{self.starts}.log", "w") as log:
            self.daemon = subprocess.Popen([*TARGET, f"{self.build}/sluiced", "--config", CONFIG], stdout=log,
                                           stderr=subprocess.STDOUT, start_new_session=True)

    def is_served(self):
        """Starts the daemon, and says whether it serves or has ended."""
        self.spawn()
        end = time.monotonic() + 30
        while "sluiced: serving " not in self.log():
            if self.daemon.poll() is not None:
                return False
            self.check(time.monotonic() < end, f"sluiced neither serves nor ends: {self.log()[-1500:]}")
            time.sleep(0.1)
        return True

    def start(self):
        self.check(self.is_served(), f"sluiced ended: {self.log()[-1500:]}")

    def stop(self, how):
        """Ends the daemon by a signal or by sluice, and checks its exit status."""
        if how == "shutdown":
            self.sluice("shutdown")
        else:
            self.daemon.send_signal(how)
        try:
            status = self.daemon.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise Wrong(f"sluiced does not end after {how}") from None
        want = {"shutdown": 150, signal.SIGTERM: 0, signal.SIGKILL: -9}[how]
        self.check(status == want, f"sluiced ended with {status} after {how}, and not with {want}")

    def check_daemon(self):
        self.check(self.daemon.poll() is None, f"sluiced ended with {self.daemon.returncode}: {self.log()[-1500:]}")
        self.check("panicked" not in self.log(), "sluiced panicked: " + self.log()[-3000:])

    def sluice(self, *words, may_fail=()):
        """Runs sluice; returns whether the change was made, and what sluice printed."""
        try:
            ran = subprocess.run([f"{self.build}/sluice", *words], capture_output=True, text=True, timeout=120,
                                 env={"SLUICEGATE_CONTROL": CONTROL, "NO_COLOR": "1"})
        except subprocess.TimeoutExpired:
            raise Wrong(f"sluice {' '.join(words)} does not end") from None
        out = (ran.stdout + ran.stderr).strip()
        if ran.returncode == FAILED and "state" in self.held:
            self.say(f"    sluice {' '.join(words)}: {out}")
            self.may_come_back |= "the next start may make the change" in out
            return False, out  # the change cannot be stored
        if ran.returncode == INVALID and "is not available" in out and words[1] == "resize":
            return False, out  # its file came back a moment ago
        self.check(ran.returncode in (DONE, *may_fail), f"sluice {' '.join(words)}: status {ran.returncode}: {out}")
        self.is_changed |= ran.returncode == DONE and words[0] == "namespace" and words[1] in ("add", "remove", "resize")
        return ran.returncode == DONE, out

    def refused(self, *words):
        """Runs sluice, which must refuse the change because a host uses something."""
        made, out = self.sluice(*words, may_fail=(REFUSED,))
        self.check(not made, f"sluice {' '.join(words)} was not refused: {out}")

    # --- the machine ---

    def run(self, *words):
        ran = subprocess.run(words, capture_output=True, text=True)
        self.check(ran.returncode == 0, f"{' '.join(words)}: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def connect(self, host):
        self.run("nvme", "connect", "-t", "tcp", "-a", f"10.1.{host}.1", "-s", "4420", "-n", SUBSYSTEM[host],
                 "-q", self.world.hosts[host], "-I", self.world.hosts[host][-36:], "--reconnect-delay=1", "-k", str(KEEP_ALIVE))

    def new_file(self, host, mib):
        room = [store for store in STORES if store not in self.held and
                sum(disk.mib for disk in self.disks if disk.store == store) + mib <= STORE_MIB]
        if not room:
            return None
        self.made += 1
        path = f"{self.random.choice(room)}/disk{self.made}"
        with open(path, "w") as file:
            file.truncate(mib * MIB)
        self.disks.append(Disk(host, path, mib))
        self.world.new_disks[host] += 1
        return self.disks[-1]

    def after(self, least, most, undo):
        """Has something done later, and says when."""
        seconds = round(self.random.uniform(least, most), 1)
        self.later.append((time.monotonic() + seconds, undo))
        return seconds

    def served(self, **wanted):
        """Returns the disks that are served, that nothing holds, and that have these attributes."""
        return [disk for disk in self.disks if disk.nsid and not disk.is_held and disk.store not in self.held and
                all(getattr(disk, name) == value for name, value in wanted.items())]

    def kept(self):
        """Returns the disks that are not served."""
        return [disk for disk in self.disks if not disk.nsid and not disk.is_held and disk.store not in self.held]

    # --- actions: each says what it does, and returns False where it has nothing to act on ---

    def add(self):
        host = self.random.choice(list(self.world.hosts))
        if len([disk for disk in self.disks if disk.host == host]) >= 5:
            return False
        disk = self.new_file(host, self.random.choice((4, 8, 16)))
        if disk is None:
            return False
        self.say(f"adds {disk}")
        return self.attach(disk, self.random.choice((None, None, self.free_nsid(host))))

    def free_nsid(self, host):
        """Returns an NSID that the host has had and that is free, or one that no host has had. The hosts of this machine
        have one kernel, which knows the disks of a subsystem by their NSIDs, whichever host has them."""
        used = {disk.nsid for disk in self.disks if disk.nqn == SUBSYSTEM[host]}
        again = self.had[host] - used if "reuse" not in self.without else set()
        return min(again) if again else max(set().union(*self.had.values())) + 1

    def attach(self, disk, nsid=None):
        words = ["namespace", "add", disk.nqn, "--backend", disk.backend, "--path", disk.path, "--block-size", "4096",
                 "--host", self.world.hosts[disk.host], "--json"]
        # Before the host may see it, under whichever NSID.
        self.world.taken_away = {one for one in self.world.taken_away if one[0] != disk.host}
        words += ["--nsid", str(nsid)] if nsid else []
        may_exist = (EXISTS,) if self.may_come_back else ()
        made, out = self.sluice(*words, may_fail=may_exist)
        if nsid and "exists already" in out:
            # A start has made the change that could neither be stored nor undone.
            self.sluice("namespace", "remove", "--force", disk.nqn, str(nsid))
            made, out = self.sluice(*words)
        if made:
            disk.nsid = json.loads(out)["nsid"]
            self.had[disk.host].add(disk.nsid)
            self.say(f"    it has NSID {disk.nsid}")
        return None

    def attach_again(self):
        disk = self.random.choice(self.kept() or [None])
        if disk is None:
            return False
        nsid = self.random.choice((None, self.free_nsid(disk.host)))
        self.say(f"adds {disk} again")
        return self.attach(disk, nsid)

    def take_away(self, disk):
        """Removes a namespace by force. Its host has errors until its kernel has dropped the disk."""
        window, nsid = self.world.disk_windows(disk.host, disk.nsid), disk.nsid
        span = window.open()
        self.world.taken_away.add((disk.host, nsid))
        for device in self.world.live_devices(disk.host, nsid):
            device.is_doomed = True
        made, _ = self.sluice("namespace", "remove", "--force", disk.nqn, str(nsid))
        if not made:
            self.world.taken_away.discard((disk.host, nsid))
            for device in self.world.live_devices(disk.host, nsid):
                device.is_doomed = False
            Windows.close(span)
            return False
        disk.nsid = None
        self.later.append((time.monotonic() + 30, lambda: Windows.close(span)))
        return True

    def remove(self):
        disk = self.random.choice(self.served() or [None])
        if disk is None or len(self.served(host=disk.host)) < 2:
            return False
        self.say(f"removes {disk}, NSID {disk.nsid}, by force")
        self.take_away(disk)
        return None

    def swap(self):
        """Gives the NSID of a disk that is in use to another one, perhaps while the host has no network."""
        old = self.random.choice(self.served() or [None])
        if old is None or "reuse" in self.without:
            return False
        nsid = old.nsid
        other = self.random.choice([disk for disk in self.kept() if disk.host == old.host] or [None])
        if other is None:
            other = self.new_file(old.host, self.random.choice((4, 8, 16)))
        if other is None:
            return False
        is_cut = self.random.random() < 0.5 and old.host not in self.held
        self.say(f"puts {other} in the place of {old}, NSID {nsid}{', which has no network' * is_cut}")
        if is_cut:
            self.cut(old.host, 5, 40)
            time.sleep(self.random.uniform(0, 10))
        if self.take_away(old):
            self.attach(other, nsid)
        return None

    def grow(self):
        disk = self.random.choice(self.served(backend="file") or [None])
        if disk is None or sum(one.mib for one in self.disks if one.store == disk.store) + 4 > STORE_MIB:
            return False
        self.say(f"resizes {disk} from {disk.mib} MiB to {disk.mib + 4} MiB")
        made, _ = self.sluice("namespace", "resize", disk.nqn, str(disk.nsid), f"{disk.mib + 4} MiB")
        if made:
            disk.mib += 4
        return None

    def shrink(self):
        """Makes a disk smaller by force, and as large as before later."""
        disk = self.random.choice(self.served(backend="file") or [None])
        if disk is None:
            return False
        span = self.world.disk_windows(disk.host, disk.nsid).open()
        made, _ = self.sluice("namespace", "resize", "--force", disk.nqn, str(disk.nsid), f"{disk.mib // 2} MiB")
        if not made:
            Windows.close(span)
            return None
        disk.is_held = True

        def undo():
            made, _ = self.sluice("namespace", "resize", disk.nqn, str(disk.nsid), f"{disk.mib} MiB")
            if not made:
                self.after(5, 10, undo)
                return
            self.say(f"{disk} has {disk.mib} MiB again")
            disk.is_held = False
            self.later.append((time.monotonic() + 10, lambda: Windows.close(span)))
        seconds = self.after(2, 40, undo)
        self.say(f"resizes {disk} from {disk.mib} MiB to the half, by force, for {seconds} s")
        return None

    def limit(self):
        disk = self.random.choice(self.served() or [None])
        names = [f"host{self.random.choice((2, 4))}", self.random.choice(list(SUBSYSTEM.values()))]
        if disk:
            names += [f"{disk.nqn}/{disk.nsid}"] * 2
        name = self.random.choice(names)
        words = []
        if self.random.random() < 0.7:
            kib = int(2 ** self.random.uniform(8, 20))
            words += ["--bandwidth", "none" if self.random.random() < 0.25 else f"{kib} KiB"]
        if not words or self.random.random() < 0.3:
            iops = int(2 ** self.random.uniform(1, 13))
            words += ["--iops", "none" if self.random.random() < 0.25 else str(iops)]
        made, out = self.sluice("qos", "session", "set", name, *words, may_fail=(INVALID,))
        self.say(f"limits {name}: {' '.join(words)}{'' if made else ': refused'}")
        self.check(made or "state" in self.held or "set " in out, f"no remedy: {out}")
        return None

    def order(self):
        words = self.random.choice((
            ["--weights", ",".join(str(self.random.randrange(1, 9)) for _ in range(3))],
            ["--window", self.random.choice(("off", "adaptive", "1", "8", "128"))],
            ["--enabled", self.random.choice(("on", "off"))],
        ))
        self.say(f"sets {' '.join(words)}")
        self.sluice("qos", "set", *words)
        return None

    def slip(self):
        """Asks for something that takes data from hosts, without force."""
        disk = self.random.choice(self.served() or [None])
        if disk is None or not self.world.live_devices(disk.host, disk.nsid):
            return False
        host, nsid = self.world.hosts[disk.host], str(disk.nsid)
        words = self.random.choice((
            ["namespace", "remove", disk.nqn, nsid],
            ["namespace", "resize", disk.nqn, nsid, "2 MiB"],
            ["subsystem", "remove", disk.nqn],
            ["listener", "remove", f"10.1.{disk.host}.1:4420"],
            ["host", "remove", disk.nqn, host],
            ["host", "set", disk.nqn, host, "--read-only", "on"],
            ["host", "set", disk.nqn, host, "--namespaces", "199"],
        ))
        self.say(f"tries sluice {' '.join(words)}")
        self.refused(*words)
        return None

    def slip_in_file(self):
        """Reads a configuration file again that is wrong, or takes a disk from a host."""
        disk = self.random.choice([disk for disk in self.served(is_of_file=True)
                                   if self.world.live_devices(disk.host, disk.nsid)] or [None])
        kind = self.random.choice(("damaged", "unknown key", "without", "another path"))
        if kind in ("without", "another path"):
            # Once the disk was removed and added again, the file's entry no longer counts.
            if disk is None or disk in self.taken:
                return False
            self.write(self.configuration(**{"without" if kind == "without" else "moved": disk}))
            self.say(f"reads a file {kind} for {disk}")
            try:
                self.refused("reload")
            finally:
                self.write(self.configuration())
            return None
        self.write(self.configuration(extra="[[subsystem" if kind == "damaged" else "[target.other]\nkey = 1"))
        self.say(f"reads a file that is wrong: {kind}")
        made, out = self.sluice("reload", may_fail=(FAILED, INVALID))
        self.write(self.configuration())
        self.check(not made, f"a wrong file was taken: {out}")
        return None

    def reload(self):
        if self.random.random() < 0.5:
            self.say("reads the file again")
            self.sluice("reload")
        else:
            self.say("sends SIGHUP")
            self.daemon.send_signal(signal.SIGHUP)
        return None

    def retry(self):
        self.say("asks for devices to be tried again")
        self.sluice("namespace", "retry")
        return None

    def look(self):
        what = self.random.choice((["status"], ["host", "list"], ["connections"], ["statistics"], ["qos", "show"],
                                   ["namespace", "list"], ["config"]))
        self.sluice(*what, may_fail=(8,))
        return None

    def restart(self):
        how = self.random.choice((signal.SIGTERM, signal.SIGKILL, signal.SIGKILL, "shutdown"))
        pause = self.random.choice((0, 0, 2, 10, 30))
        is_wrong = self.random.random() < 0.2
        if os.path.exists(f"{OTHER}/sluiced") and self.random.random() < 0.5:
            return self.change_build(how, pause)
        self.say(f"ends the daemon by {how}, and starts it after {pause} s{', at first with a wrong file' * is_wrong}")
        with self.interruption():
            self.stop(how)
            self.down(pause, is_wrong)
        return None

    @contextlib.contextmanager
    def interruption(self):
        """Interrupts all hosts."""
        spans = [window.open() for window in self.world.host_windows.values()]
        try:
            yield
        finally:
            for span in spans:
                Windows.close(span)

    def down(self, pause, is_wrong=False):
        time.sleep(pause)
        if is_wrong:
            self.write(self.configuration(extra="[[subsystem"))
            self.spawn()
            status = self.daemon.wait(timeout=30)
            self.write(self.configuration())
            self.check(status == 78, f"sluiced ended with {status} and not with 78, for a wrong file")
        self.start()

    # --- another build ---

    def start_with_earlier_state(self):
        """Starts the daemon for the first time, with a state file that a daemon of an earlier format has written."""
        files = sorted(glob.glob("/run/formats/*.redb"))[:-1]
        kept = random.Random(f"{self.world.seed} state").choice(files)
        self.say(f"upgrades from {kept}")
        shutil.copyfile(kept, STATE_FILE)
        self.start()
        self.find_copy(read_bytes(kept))
        # A subsystem that was added live.
        self.check('"nqn.2026-01.io.x:t"' in self.sluice("config")[1], f"a live change is lost: {self.log()}")

    def find_earlier_build(self):
        """Finds out whether one of two builds refuses the state file of the other one."""
        own = CONFIG + ".probe"
        for writer, reader in ((OWN, OTHER), (OTHER, OWN)):
            with open(own, "w") as file:
                file.write(re.sub(r"(?s)\[\[.*", "", self.text).replace(STATE_FILE, f"/tmp/probe{writer[5:]}.redb")
                           + '[[listener]]\naddress = "127.0.0.1:4420"\n')
            for build in (writer, reader):
                daemon = subprocess.Popen([*TARGET, f"{build}/sluiced", "--config", own], stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT, text=True)
                said = ""
                while (line := daemon.stdout.readline()) and "sluiced: serving " not in line:
                    said += line
                daemon.send_signal(signal.SIGTERM)
                said += daemon.communicate()[0]
                if daemon.returncode == 0:
                    continue
                self.check(build == reader and REFUSAL in said, f"{build} ends with {daemon.returncode}: {said}")
                self.check(self.earlier is None, "each build refuses the state of the other one")
                self.earlier = build
        self.say(f"the earlier format of the state file is that of {self.earlier or 'none of the two builds'}")

    def other_build(self):
        return OTHER if self.build == OWN else OWN

    def running(self):
        """Returns what the target serves: the configuration, its disks by subsystem and NSID, and sessions' limits."""
        text = self.sluice("config")[1] + "\n"
        config = tomllib.loads(text)
        disks = {(subsystem["nqn"], disk["nsid"]): (disk["uuid"], disk.get("path"), disk.get("hosts"))
                 for subsystem in config["subsystem"] for disk in subsystem.get("namespace", [])}
        # An earlier build shows the limits of removed disks, which a later one drops.
        is_here = lambda name: "/" not in name or tuple(name.rsplit("/", 1)) in {(nqn, str(nsid)) for nqn, nsid in disks}
        limits = {one["name"]: (one.get("bandwidth"), one.get("iops"))
                  for one in config.get("session", []) if is_here(one["name"])}
        return text, disks, limits

    def check_running(self, before, what):
        """Compares disks with their identities, and limits, with those before a change of the build."""
        after = self.running()
        for name, old, new in ("disk", before[1], after[1]), ("limit", before[2], after[2]):
            for key in sorted(old.keys() | new.keys(), key=str):
                self.check(old.get(key) == new.get(key),
                           f"{what}: the {name} {key} was {old.get(key)}, and is {new.get(key)}")

    def change_build(self, how, pause):
        """Changes to another build. After an upgrade the operator goes back at once now and then."""
        if self.earlier is None:
            return self.replace_build(how, pause)
        if self.build != self.earlier:
            return self.downgrade(how, pause)
        self.upgrade(how, pause)
        if self.random.random() < 0.5:
            self.pause(self.random.uniform(8, 25))
            self.downgrade(how, pause)
        return None

    def replace_build(self, how, pause):
        """Starts another build, which knows the state file and all that is in it."""
        self.say(f"ends the daemon by {how}, and starts {self.other_build()} after {pause} s")
        before = self.running()
        with self.interruption():
            self.stop(how)
            time.sleep(pause)
            self.build = self.other_build()
            self.start()
        self.check_running(before, "another build")

    def upgrade(self, how, pause):
        """Starts the later build, which keeps a copy of the state file."""
        self.say(f"upgrades: ends the daemon by {how}, and starts {self.other_build()} after {pause} s")
        before = self.running()
        with self.interruption():
            self.stop(how)
            time.sleep(pause)
            state = read_bytes(STATE_FILE)
            self.build = self.other_build()
            self.start()
        self.find_copy(state)
        self.before_upgrade, self.is_changed = before, False
        self.check_running(before, "an upgrade")

    def find_copy(self, state):
        """Finds the copy that the daemon has kept of a state file of an earlier format."""
        copies = [name for name in glob.glob(STATE_FILE + ".format-*") if read_bytes(name) == state]
        self.copy = copies[0] if copies else None
        if "state" not in self.held:
            self.check(self.copy, f"no copy of the state file was kept: {os.listdir(STATE)}")
            self.check(self.copy in self.log(), f"the log does not name {self.copy}: {self.log()}")

    def downgrade(self, how, pause):
        """Starts the earlier build. It gets the state file of the later one first, which it must refuse."""
        # The hosts must know the namespaces of now. A host without network counts as connected for a while.
        self.pause(3 * KEEP_ALIVE)
        lost = [host for one in json.loads(self.sluice("host", "list", "--json")[1]) for host in one.get("lost", [])]
        if lost or "state" in self.held or self.world.failures:
            return None
        before = self.running()
        is_undoing = self.held or any(disk.is_held for disk in self.disks)
        is_broken = self.copy and self.before_upgrade and not is_undoing and self.random.random() < 0.5
        self.say(f"downgrades: ends the daemon by {how}, and starts {self.other_build()} after {pause} s")
        with self.interruption():
            self.stop(how)
            state = read_bytes(STATE_FILE)
            self.build = self.other_build()
            if self.is_served():
                self.check(not self.is_changed, "the state file of a later sluiced is not refused")
                self.say("    the later build has changed nothing")
                self.check_running(before, "a downgrade")
                return None
            self.check(self.daemon.returncode == FAILED and REFUSAL in self.log(), f"sluiced ended: {self.log()}")
            self.check(read_bytes(STATE_FILE) == state, "the state file of a later sluiced is not left as it is")
            if is_broken:
                self.restore_copy(pause)
            else:
                self.leave_state(before[0], pause)
                self.check_running(before, "a downgrade")
        return None

    def leave_state(self, running, pause):
        """Goes back without a state file, to the configuration that ran."""
        self.say("    it gets the configuration that ran")
        os.rename(STATE_FILE, STATE_FILE + ".later")
        self.text, self.taken = running, set()
        for disk in self.disks:
            disk.is_of_file = disk.nsid is not None
        self.write(self.configuration())
        self.run(*TARGET, f"{self.build}/sluiced", "--check", "--offline", CONFIG)
        time.sleep(pause)
        self.start()

    def restore_copy(self, pause):
        """Goes back to the copy from before the upgrade, as if the later build did not run: disconnects the hosts, and
        types the command of the message. The disks are those of then."""
        self.say("    it gets the copy of the state file, after the hosts were disconnected")
        self.world.is_blind = True
        for device in self.world.devices.values():
            device.is_doomed = True
        for name, _, _ in self.world.controllers():
            self.run("nvme", "disconnect", "-d", name)
        remedy = re.search(r"mv (\S+) \S+ && cp -p (\S+) \1", self.log())
        self.check(remedy and remedy[2] == self.copy, f"the message does not name {self.copy}: {self.log()}")
        self.run("sh", "-c", remedy[0])
        time.sleep(pause)
        self.start()
        self.check_running(self.before_upgrade, "a downgrade to the copy")
        nsids = {path: nsid for (_, nsid), (_, path, _) in self.before_upgrade[1].items()}
        for disk in self.disks:
            disk.nsid = nsids.get(disk.path)
        self.taken = {disk for disk in self.disks if disk.is_of_file}
        self.world.taken_away.clear()
        for host in self.world.hosts:
            self.connect(host)
        self.world.is_blind = False

    def outage(self):
        """Starts the daemon while a file system is not mounted."""
        store = self.random.choice(STORES)
        if store in self.held or any(disk.is_held for disk in self.disks if disk.store == store):
            return False
        self.held.add(store)
        seconds = self.random.choice((5, 30, 100))
        self.say(f"kills the daemon, and starts it without the file system {store} for {seconds} s")
        # Each store has a place of its own: two may be away at one time, and `mount --move` moves the latest mount.
        aside = f"/tmp/aside/{os.path.basename(store)}"

        def undo():
            self.say(f"mounts {store} again")
            self.run("mount", "--move", aside, store)
            self.held.discard(store)
        with self.interruption():
            self.stop(signal.SIGKILL)
            os.makedirs(aside, exist_ok=True)
            self.run("mount", "--move", store, aside)
            self.start()
        self.after(seconds, seconds, undo)
        return None

    def unplug(self):
        """Takes a device away, and brings it back."""
        disk = self.random.choice(self.served(backend="block") or [None])
        if disk is None:
            return False
        power = f"/sys/kernel/config/nullb/{os.path.basename(disk.path)}/power"
        disk.is_held = True

        def set_power(value):
            with open(power, "w") as file:
                file.write(value)

        def undo():
            set_power("1")
            self.say(f"{disk} is plugged in again")
            disk.is_held = False
        set_power("0")
        self.say(f"unplugs {disk} for {self.after(1, 100, undo)} s")
        return None

    def rename(self):
        """Renames the file of a disk, and back. A daemon that starts meanwhile does not find it."""
        disk = self.random.choice(self.served(backend="file") or [None])
        if disk is None:
            return False
        disk.is_held = True
        os.rename(disk.path, disk.path + ".aside")

        def undo():
            os.rename(disk.path + ".aside", disk.path)
            self.say(f"{disk} has its name again")
            disk.is_held = False
        self.say(f"renames the file of {disk} for {self.after(1, 100, undo)} s")
        return None

    def fill(self):
        """Fills the file system of some disks: writes to blocks without space fail, and nothing else does."""
        store = self.random.choice(STORES)
        if store in self.held:
            return False
        self.held.add(store)
        window = Windows()
        span = window.open()
        for disk in self.disks:
            if disk.store == store and disk.nsid:
                self.world.stores[disk.host, disk.nsid] = window
        free = os.statvfs(store)
        subprocess.run(["fallocate", "-l", str(free.f_bavail * free.f_bsize), f"{store}/filling"], capture_output=True)
        with open(f"{store}/filling.rest", "wb") as rest:
            try:
                while True:
                    rest.write(ZEROES * 16)
                    rest.flush()
            except OSError:
                pass
            try:
                rest.truncate(rest.tell())
            except OSError:
                pass

        def undo():
            for name in ("filling", "filling.rest"):
                if os.path.exists(f"{store}/{name}"):
                    os.unlink(f"{store}/{name}")
            self.say(f"{store} has space again")
            self.held.discard(store)
            Windows.close(span)
        self.say(f"fills the file system {store} for {self.after(2, 40, undo)} s")
        return None

    def fill_state(self):
        """Fills the file system of the state: changes are refused, and hosts notice nothing."""
        if "state" in self.held:
            return False
        self.held.add("state")
        try:
            with open(f"{STATE}/filling", "wb", buffering=0) as file:
                while True:
                    file.write(ZEROES)
        except OSError:
            pass

        def undo():
            os.unlink(f"{STATE}/filling")
            self.say("the state has space again")
            self.held.discard("state")
        self.say(f"fills the file system of the state for {self.after(2, 40, undo)} s")
        return None

    def cut(self, host, least, most):
        span = self.world.host_windows[host].open()
        self.held.add(host)
        self.run("ip", "link", "set", f"host{host}", "down")

        def undo():
            self.run("ip", "link", "set", f"host{host}", "up")
            self.say(f"host {host} has its network again")
            self.held.discard(host)
            Windows.close(span)
        return self.after(least, most, undo)

    def cut_network(self):
        host = self.random.choice(list(self.world.hosts))
        if host in self.held:
            return False
        self.say(f"cuts the network of host {host} for {self.cut(host, 1, 60)} s")
        return None

    ACTIONS = ((add, 8), (attach_again, 10), (remove, 5), (swap, 6), (grow, 5), (shrink, 4), (limit, 16), (order, 4),
               (slip, 12), (slip_in_file, 6), (reload, 4), (retry, 2), (look, 4), (restart, 6), (outage, 3),
               (unplug, 5), (rename, 5), (fill, 3), (fill_state, 2), (cut_network, 6))

    # --- the run ---

    def prepare(self):
        self.taken = set()
        self.text = self.first_configuration()
        self.write(self.configuration())
        if os.path.exists(f"{OTHER}/sluiced"):
            self.find_earlier_build()
        else:
            self.say("there is no other build: no upgrades but the first one")
        self.start_with_earlier_state()
        for host in self.world.hosts:
            self.world.new_disks[host] += 1  # its device
            span = self.world.host_windows[host].open()
            self.connect(host)
            Windows.close(span)
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while not self.world.is_over:
            try:
                self.world.look()
            except Exception as error:  # a thread's failure would be silent
                self.world.fail(f"the look at the hosts: {error!r}")
            time.sleep(2)

    def pause(self, seconds):
        """Lets time pass, and has done meanwhile what is to be done later."""
        end = time.monotonic() + seconds
        while not self.world.failures:
            now = time.monotonic()
            due = [one for one in self.later if one[0] <= now]
            for one in due:
                self.later.remove(one)
                one[1]()
            self.check_daemon()
            if now >= end:
                return
            following = min([end, *(when for when, _ in self.later)])
            time.sleep(max(0.05, min(1.0, following - now)))

    def operate(self):
        methods, weights = zip(*self.ACTIONS)
        self.pause(3)
        while time.monotonic() < self.end and not self.world.failures:
            method = self.random.choices(methods, weights)[0]
            before = {disk for disk in self.disks if disk.is_of_file and disk.nsid}
            if method.__name__ not in self.without and method(self) is not False:
                self.done[method.__name__] = self.done.get(method.__name__, 0) + 1
                self.taken |= {disk for disk in before if not disk.nsid}
                self.pause(self.random.uniform(1, 7))

    def finish(self):
        """Undoes what is not undone yet, lets the hosts end their commands, and checks all disks."""
        self.say("ends")
        while self.later and not self.world.failures:
            self.pause(1)
        names = [one["name"] for one in json.loads(self.sluice("qos", "show", "--json")[1])["sessions"]]
        for name in names:
            if name != "root":
                self.sluice("qos", "session", "set", name, "--bandwidth", "none", "--iops", "none")
        self.pause(RECOVERY)
        end = time.monotonic() + RECOVERY
        while not self.world.failures and (missing := self.missing()):
            self.check(time.monotonic() < end, missing)
            self.pause(1)
        if self.world.failures:
            return
        # The longest retry delay is 150 s.
        self.world.is_over = True
        self.wait_for_writers(240)
        self.world.look()
        for name, host, state in self.world.controllers():
            self.check(state == "live", f"the controller of host {host} is {state}")
        self.world.is_blind = True
        for name, _, _ in self.world.controllers():
            self.run("nvme", "disconnect", "-d", name)
        self.stop(signal.SIGTERM)
        self.check_disks()

    def missing(self):
        """Returns what a host does not have, or None."""
        live = {host for _, host, state in self.world.controllers() if state == "live"}
        for host in self.world.hosts:
            if host not in live:
                return f"host {host} is not connected"
        for disk in self.disks:
            if disk.nsid and not any(not device.is_doomed and device.book for device in
                                     self.world.live_devices(disk.host, disk.nsid)):
                return f"host {disk.host} does not have {disk}, NSID {disk.nsid}"
        return None

    def wait_for_writers(self, seconds):
        end = time.monotonic() + seconds
        while any(device.working for device in self.world.devices.values()):
            busy = [device for device in self.world.devices.values() if device.working]
            self.check(time.monotonic() < end, "commands do not end: " + ", ".join(
                f"{device.working} of {device.name} of host {device.host}, NSID {device.nsid}" for device in busy))
            time.sleep(0.5)

    def check_disks(self):
        """Compares each file and device with what its host knows, past the target."""
        blocks, missing = 0, {(host, disk) for host, books in self.world.books.items() for disk in books}
        for disk in self.disks:
            fd = os.open(disk.path, os.O_RDONLY)
            first = os.pread(fd, BLOCK, 0)
            origin = origin_of(first)
            if origin is None:
                os.close(fd)
                continue  # no host has seen it
            self.check(origin[0] == disk.host and (disk.host, origin[1]) in missing,
                       f"{disk} is disk {origin[1].hex()[:8]} of host {origin[0]}, which is elsewhere, too")
            missing.discard((disk.host, origin[1]))
            book = self.world.books[disk.host][origin[1]]
            for start in range(0, os.lseek(fd, 0, os.SEEK_END), MIB):
                data = os.pread(fd, MIB, start)
                for offset in range(0, len(data), BLOCK):
                    lba, block = (start + offset) // BLOCK, data[offset:offset + BLOCK]
                    if block == ZEROES and not book.kept.get(lba):
                        continue
                    blocks += 1
                    if wrong := book.wrong(lba, block):
                        self.world.fail(f"{wrong}; in {disk.path}")
            os.close(fd)
        for host, one in missing:
            if self.world.books[host][one].kept:
                self.world.fail(f"disk {one.hex()[:8]} of host {host} is nowhere")
        self.say(f"{blocks} blocks of {len(self.disks)} disks are as they should be" if not self.world.failures
                 else "the disks are wrong")

    def report(self):
        print("actions: " + ", ".join(f"{name} {count}" for name, count in sorted(self.done.items())))
        for what, count in sorted(self.world.counts.items()):
            took, command = self.world.slowest.get(what, (0, ""))
            print(f"    {what:<34} {count:>8}" + (f"   slowest {took:.1f} s ({command})" if command else ""))


def main():
    seed, seconds, without, *nqns = sys.argv[1:]
    operator = Operator(int(seed), float(seconds), set(without.split(",")), dict(enumerate(nqns, 1)))
    print(f"seed {seed}, {seconds} s", flush=True)
    wrong = []
    try:
        operator.prepare()
        operator.operate()
        if not operator.world.failures:
            operator.finish()
    except Wrong as error:
        wrong = [f"{time.monotonic():.1f} s: {error}"]
    except Exception:
        # Not raised: threads would keep this process.
        wrong = [f"{time.monotonic():.1f} s: {traceback.format_exc()}"]
    wrong = operator.world.failures + wrong
    operator.report()
    for one in wrong:
        print(f"WRONG (seed {seed}): {one}", flush=True)
    print("END " + ("fail" if wrong else "pass"), flush=True)
    # Threads may wait for commands that never end, and this process with them.
    os._exit(0)


if __name__ == "__main__":
    main()
