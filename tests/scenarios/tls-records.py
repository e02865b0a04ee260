#!/usr/bin/python3
"""A peer that has a key, shakes hands as it should, and then sends what it likes.

usage: tls-records.py ADDRESS PORT HOSTNQN SUBNQN KEY CASE

openssl makes the handshake through a socket of this program, which takes over when it is done: the
kernel (kTLS) writes the records. Prints what became of the connection: "closed" or "answered".
KEY is in the interchange format, for SHA-256. Times are in seconds.
"""

import base64
import hmac
import re
import select
import socket
import struct
import subprocess
import sys
import tempfile
import time

TCP_ULP, SOL_TLS, TLS_TX, TLS_SET_RECORD_TYPE = 31, 282, 1, 1
ALERT, HANDSHAKE, DATA = 21, 22, 23
TIME = 10


def expand(secret, label, context, length):
    """HKDF-Expand-Label of RFC 8446, section 7.1, of one block of SHA-256."""
    label = b"tls13 " + label
    info = struct.pack(">HB", length, len(label)) + label + bytes([len(context)]) + context
    return hmac.new(secret, info + b"\x01", "sha256").digest()[:length]


def extract(key):
    return hmac.new(bytes(32), key, "sha256").digest()


def psk(key, host, subsystem):
    """Derives the identity and the key of TLS as the NVMe/TCP specification 1.1 does, section 3.6.1."""
    host, subsystem = host.encode(), subsystem.encode()
    configured = base64.b64decode(key.split(":")[2])[:-4]
    retained = expand(extract(configured), b"HostNQN", host, 32)
    names = host + b" " + subsystem
    digest = hmac.new(retained, names + b" NVMe-over-Fabrics", "sha256").digest()
    digest = base64.b64encode(digest)
    identity = b"NVMe1R01 " + names + b" " + digest
    return identity.decode(), expand(extract(retained), b"nvme-tls-psk", b"01 " + digest, 32)


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
    """Waits until openssl has logged the secret, which it does behind Finished."""
    text = ""
    for _ in range(TIME * 20):
        text += log.read()
        found = re.search(r"^CLIENT_TRAFFIC_SECRET_0 \w+ (\w+)\n", text, re.MULTILINE)
        if found:
            return bytes.fromhex(found[1])
        time.sleep(0.05)
    sys.exit("openssl has logged no key")


def shake(target, identity, key):
    """Has openssl shake hands with the target. Returns the secret by which the client sends."""
    inside = socket.create_server(("127.0.0.1", 0))
    with tempfile.NamedTemporaryFile("r") as log:
        command = ["openssl", "s_client", "-connect", "127.0.0.1:%d" % inside.getsockname()[1]]
        command += ["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-psk", key.hex()]
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
        self.secret = shake(self.socket, *psk(key, *names))
        self.kernel = False

    def raw(self, data):
        """Sends bytes as they are."""
        self.socket.sendall(data)

    def record(self, kind, data):
        """Sends a record."""
        if not self.kernel:
            key, iv = expand(self.secret, b"key", b"", 16), expand(self.secret, b"iv", b"", 12)
            info = struct.pack("=HH", 0x0304, 51) + iv[4:] + key + iv[:4] + bytes(8)
            self.socket.setsockopt(socket.IPPROTO_TCP, TCP_ULP, b"tls")
            self.socket.setsockopt(SOL_TLS, TLS_TX, info)
            self.kernel = True
        self.socket.sendmsg([data], [(SOL_TLS, TLS_SET_RECORD_TYPE, bytes([kind]))])

    def outcome(self):
        """Waits for the end of the connection, or an answer."""
        try:
            return "answered" if self.socket.recv(65536) else "closed"
        except ConnectionResetError:
            return "closed"


# The first PDU of a host: ICReq (NVMe/TCP specification, section 3.6.2.2).
ICREQ = struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120)


def empty(peer):
    # What a record has behind its data is its type, and then zeroes, which do not count.
    for _ in range(5000):
        peer.record(0, bytes([DATA]))
    peer.record(DATA, ICREQ)


CASES = {
    "data": lambda peer: peer.record(DATA, ICREQ),
    "empty": empty,
    "key-update": lambda peer: peer.record(HANDSHAKE, bytes([24, 0, 0, 1, 0])),
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

address, port, host, subsystem, key, case = sys.argv[1:]
peer = Peer((address, int(port)), (host, subsystem), key)
CASES[case](peer)
print(peer.outcome())
