#!/usr/bin/python3
"""A peer that has a key, shakes hands as it should, and then sends what it likes.

usage: tls-records.py ADDRESS PORT HOSTNQN SUBNQN KEY CASE...

openssl makes the handshake through a socket of this program, which takes over when it is done: the
kernel (kTLS) writes the records. Prints what became of each case's connection: "closed", "answered", or
"verified" where what was written was read again. Cases are a second apart, since the target logs one line a second
about an address. KEY is in the interchange format; its hash decides the cipher suite. Times are in seconds.
"""

import base64
import hmac
import os
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

TCP_ULP, SOL_TLS, TLS_TX, TLS_RX = 31, 282, 1, 2
TLS_SET_RECORD_TYPE, TLS_GET_RECORD_TYPE = 1, 2
ALERT, HANDSHAKE, DATA = 21, 22, 23
TIME = 10


class Suite:
    """A cipher suite: its number, hash and keys, and what the kernel calls its cipher."""

    def __init__(self, number, digest, size, key_size, kernel):
        self.number, self.hash, self.size = number, digest, size
        self.key_size, self.kernel = key_size, kernel

    def expand(self, secret, label, context, length):
        """HKDF-Expand-Label of RFC 8446, section 7.1, of one block."""
        label = b"tls13 " + label
        info = struct.pack(">HB", length, len(label)) + label + bytes([len(context)]) + context
        return hmac.new(secret, info + b"\x01", self.hash).digest()[:length]

    def extract(self, key):
        return hmac.new(bytes(self.size), key, self.hash).digest()

    def psk(self, key, host, subsystem):
        """Derives the identity and the key of TLS as the NVMe/TCP specification 1.1 does, section 3.6.1."""
        host, subsystem, number = host.encode(), subsystem.encode(), key.split(":")[1].encode()
        configured = base64.b64decode(key.split(":")[2])[:-4]
        retained = self.expand(self.extract(configured), b"HostNQN", host, self.size)
        names = host + b" " + subsystem
        digest = hmac.new(retained, names + b" NVMe-over-Fabrics", self.hash).digest()
        digest = base64.b64encode(digest)
        identity = b"NVMe1R%s %s %s" % (number, names, digest)
        tls = self.expand(self.extract(retained), b"nvme-tls-psk", number + b" " + digest, self.size)
        return identity.decode(), tls


# By the hash that a key in the interchange format names: TLS_AES_128_GCM_SHA256 and TLS_AES_256_GCM_SHA384.
SUITES = {"01": Suite(0x1301, "sha256", 32, 16, 51), "02": Suite(0x1302, "sha384", 48, 32, 52)}


def session(suite, key):
    """Makes a session of openssl's, which alone tells it the cipher suite of a key: SSL_SESSION in DER."""

    def tagged(tag, data):
        length = [len(data)] if len(data) < 128 else [0x81, len(data)]
        return bytes([tag, *length]) + data

    number, octets = (lambda data: tagged(2, data)), (lambda data: tagged(4, data))
    fields = number(b"\x01") + number(b"\x03\x04") + octets(struct.pack(">H", suite.number)) + octets(b"") + octets(key)
    name = "SSL SESSION PARAMETERS"
    text = base64.encodebytes(tagged(0x30, fields)).decode()
    return "-----BEGIN %s-----\n%s-----END %s-----\n" % (name, text, name)


def records(pending):
    """Takes the whole records out of the bytes that came."""
    whole = []
    while len(pending) >= 5:
        end = 5 + struct.unpack(">H", pending[3:5])[0]
        if len(pending) < end:
            break
        whole.append(bytes(pending[:end]))
        del pending[:end]
    return whole


def logged(log):
    """Waits until openssl has logged the secrets, which it does behind Finished."""
    text = ""
    for _ in range(TIME * 20):
        text += log.read()
        found = dict(re.findall(r"^(CLIENT|SERVER)_TRAFFIC_SECRET_0 \w+ (\w+)\n", text, re.MULTILINE))
        if len(found) == 2:
            return bytes.fromhex(found["CLIENT"]), bytes.fromhex(found["SERVER"])
        time.sleep(0.05)
    sys.exit("openssl has logged no key")


def shake(target, suite, identity, key):
    """Has openssl shake hands with the target. Returns the secrets by which both send."""
    inside = socket.create_server(("127.0.0.1", 0))
    with tempfile.NamedTemporaryFile("r") as log, tempfile.NamedTemporaryFile("w") as saved:
        saved.write(session(suite, key))
        saved.flush()
        command = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % inside.getsockname()[1]]
        command += ["-tls1_3", "-psk_session", saved.name]
        command += ["-psk_identity", identity, "-keylogfile", log.name, "-quiet"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        client = subprocess.Popen(command, stdin=subprocess.PIPE, **quiet)
        try:
            peer, _ = inside.accept()
            pending = bytearray()
            while True:
                ready, _, _ = select.select([peer, target], [], [], TIME)
                if not ready:
                    sys.exit("the handshake has stopped")
                for one in ready:
                    came = one.recv(65536)
                    if not came:
                        sys.exit("the handshake has failed")
                    if one is target:
                        peer.sendall(came)
                        continue
                    pending += came
                    for record in records(pending):
                        target.sendall(record)
                        if record[0] == DATA:  # its only one that is encrypted: Finished
                            return logged(log)
        finally:
            client.kill()
            client.wait()


class Peer:
    """The client's end of a connection over TLS."""

    def __init__(self, address, names, key):
        self.socket = socket.create_connection(address, TIME)
        self.names = names
        self.suite = SUITES[key.split(":")[1]]
        secrets = shake(self.socket, self.suite, *self.suite.psk(key, *names))
        self.secrets = dict(zip((TLS_TX, TLS_RX), secrets))
        self.kernel = False
        self.came, self.updates, self.asked = bytearray(), 0, False
        # Requests for a KeyUpdate, where one that is still to be answered counts for all that follow it.
        self.requests = 0

    def raw(self, data):
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def record(self, kind, data):
        """Sends a record."""
        if not self.kernel:
            self.socket.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
            self.kernel = True
            self.use(TLS_TX)
            self.use(TLS_RX)
        sent = 0
        while sent < len(data):
            sent += self.socket.sendmsg([data[sent:]], [(SOL_TLS, TLS_SET_RECORD_TYPE, bytes([kind]))])

    def use(self, way):
        """Has the kernel use the secret of one way from the next record on."""
        suite, secret = self.suite, self.secrets[way]
        key, iv = suite.expand(secret, b"key", b"", suite.key_size), suite.expand(secret, b"iv", b"", 12)
        info = struct.pack("=HH", 0x0304, suite.kernel) + iv[4:] + key + iv[:4] + bytes(8)
        self.socket.setsockopt(SOL_TLS, way, info)

    def follow(self, way):
        """Goes on with the secret that follows (RFC 8446, section 7.2)."""
        self.secrets[way] = self.suite.expand(self.secrets[way], b"traffic upd", b"", self.suite.size)
        self.use(way)

    def update(self, requested):
        """Sends a KeyUpdate, and then with the next key."""
        self.record(HANDSHAKE, bytes([24, 0, 0, 1, requested]))
        self.follow(TLS_TX)
        self.requests += bool(requested) and not self.asked
        self.asked |= bool(requested)

    def receive(self):
        """Receives one record or more. Returns false at the end of the connection."""
        data, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(1))
        kinds = [body[0] for level, kind, body in control if (level, kind) == (SOL_TLS, TLS_GET_RECORD_TYPE)]
        if kinds == [HANDSHAKE]:
            assert data == bytes([24, 0, 0, 1, 0]), data
            assert self.asked, "a KeyUpdate for which nobody has asked"
            self.follow(TLS_RX)
            self.asked, self.updates = False, self.updates + 1
        elif data:
            assert kinds == [DATA], kinds
            assert not self.asked, "data came before the KeyUpdate that it asked for"
            self.came += data
        return bool(data)

    def take(self, count):
        """Waits for so many bytes and takes them."""
        while len(self.came) < count:
            assert self.receive(), "it was closed"
        taken = bytes(self.came[:count])
        del self.came[:count]
        return taken

    def outcome(self):
        """Waits for the end of the connection, or an answer."""
        try:
            while not self.came:
                if not self.receive():
                    return "closed"
            return "answered"
        except (ConnectionResetError, BrokenPipeError):
            return "closed"


# The first PDU of a host: ICReq (NVMe/TCP specification, section 3.6.2.2).
ICREQ = struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120)


def empty(peer):
    # What a record has behind its data is its type, and then zeroes, which do not count.
    for _ in range(5000):
        peer.record(0, bytes([DATA]))
    peer.record(DATA, ICREQ)


# PDUs (section 3.6.2), opcodes, and the descriptors for data in a capsule and data that is asked for.
COMMAND, RESPONSE, H2C, C2H, R2T = 4, 5, 6, 7, 9
WRITE, READ, FABRICS = 1, 2, 0x7F
IN_CAPSULE, ASKED_FOR = 1, 0x5A


class Queue(Peer):
    """A queue of a host, which has one command under way."""

    def __init__(self, number, controller=0xFFFF):
        super().__init__((address, int(port)), (host, subsystem), key)
        self.record(DATA, ICREQ)
        assert self.take(128)[0] == 1, "no ICResp"
        names = subsystem.encode().ljust(256, b"\0") + host.encode().ljust(256, b"\0")
        data = bytes(range(1, 17)) + struct.pack("<H", controller) + bytes(238) + names + bytes(256)
        fields = struct.pack("<HHHBxI", 0, number, 31, 0, 0)
        self.controller, _ = self.run(FABRICS, 1, fields, data, inside=True)

    def pdu(self, kind, header, data=b"", flags=0):
        length = 8 + len(header)
        return struct.pack("<BBBBI", kind, flags, length, length if data else 0, length + len(data)) + header + data

    def run(self, opcode, word1, fields, data=b"", inside=False, length=0, meanwhile=None):
        """Runs a command. Returns the first word of its result, and the data that it reads."""
        count = len(data) or length
        descriptor = struct.pack("<QI3xB", 0, count, IN_CAPSULE if inside else ASKED_FOR)
        command = struct.pack("<BBHI", opcode, 0x40, 7, word1) + bytes(16) + descriptor + fields.ljust(24, b"\0")
        self.record(DATA, self.pdu(COMMAND, command, data if inside else b""))
        read = bytearray()
        while True:
            kind, flags, header, _, whole = struct.unpack("<BBBBI", self.take(8))
            rest = self.take(header - 8)
            body = self.take(whole - header)
            if kind == RESPONSE:
                result, status = struct.unpack("<I10xH", rest)
                assert status >> 1 == 0, "status %#x" % (status >> 1)
                return result & 0xFFFF, bytes(read)
            if kind == C2H:
                read += body
                if flags & 8:
                    return 0, bytes(read)
                continue
            assert kind == R2T, kind
            tag, start, size = struct.unpack("<2xHII4x", rest)
            pdu = self.pdu(H2C, struct.pack("<HHII4x", 7, tag, start, size), data[start : start + size], 4)
            middle = len(pdu) // 2
            self.record(DATA, pdu[:middle])
            if meanwhile:
                meanwhile()
            self.record(DATA, pdu[middle:])


def enabled():
    """Returns an admin queue whose controller is enabled."""
    admin = Queue(0)
    admin.run(FABRICS, 0, struct.pack("<BxxxIQ", 0, 0x14, 0x460001))
    for _ in range(TIME * 20):
        status, _ = admin.run(FABRICS, 4, struct.pack("<BxxxI", 0, 0x1C))
        if status & 1:
            return admin
        time.sleep(0.05)
    sys.exit("the controller is not ready")


def changing_keys():
    """Writes and reads with keys that change in the middle of data and between commands."""
    admin = enabled()
    queue = Queue(1, admin.controller)
    for turn, requested in enumerate([0, 0, 1, 1, 0, 1]):
        data, blocks = os.urandom(65536), struct.pack("<QI", turn * 16, 15)
        queue.run(WRITE, 1, blocks, data, meanwhile=lambda: queue.update(requested))
        queue.update(requested)
        if requested and turn == 5:
            queue.update(requested)  # one answer is for both
        _, read = queue.run(READ, 1, blocks, length=65536)
        assert read == data, "other data was read in turn %d" % turn
        admin.update(requested)
        admin.run(FABRICS, 4, struct.pack("<BxxxI", 0, 0x1C))
    # Two for each of three turns at least: a write whose data is asked for in parts has more.
    assert queue.requests >= 6 and admin.requests == 3, (queue.requests, admin.requests)
    assert (queue.updates, admin.updates) == (queue.requests, admin.requests), (queue.updates, queue.requests)
    return "verified"


def endless(peer):
    try:
        for _ in range(200):
            peer.update(1)
    except (ConnectionResetError, BrokenPipeError):
        pass


def key_update(peer):
    peer.update(0)
    peer.record(DATA, ICREQ)


CASES = {
    "data": lambda peer: peer.record(DATA, ICREQ),
    "empty": empty,
    "key-update": key_update,
    "wrong-key-update": lambda peer: peer.record(HANDSHAKE, bytes([24, 0, 0, 1, 2])),
    "wrong-key": lambda peer: peer.record(HANDSHAKE, bytes([24, 0, 0, 1, 0])) or peer.record(DATA, ICREQ),
    "endless": endless,
    "ticket": lambda peer: peer.record(HANDSHAKE, bytes([4, 0, 0, 5]) + b"hello"),
    "alert": lambda peer: peer.record(ALERT, bytes([2, 80])),
    "close": lambda peer: peer.record(ALERT, bytes([1, 0])),
    "short-alert": lambda peer: peer.record(ALERT, bytes([2])),
    "unknown": lambda peer: peer.record(99, b"hello"),
    "no-type": lambda peer: peer.record(0, bytes(8)),
    "bad-tag": lambda peer: peer.raw(bytes([DATA, 3, 3, 0, 64]) + bytes(64)),
    "too-long": lambda peer: peer.raw(bytes([DATA, 3, 3, 255, 255]) + bytes(64)),
    "no-tls": lambda peer: peer.raw(b"GET / HTTP/1.0\r\n\r\n"),
}

address, port, host, subsystem, key = sys.argv[1:6]
for number, case in enumerate(sys.argv[6:]):
    time.sleep(1 if number else 0)
    if case == "changing-keys":
        print(case, changing_keys(), flush=True)
        continue
    peer = Peer((address, int(port)), (host, subsystem), key)
    CASES[case](peer)
    print(case, peer.outcome(), flush=True)
