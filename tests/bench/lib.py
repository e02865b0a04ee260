"""What the benchmarks in python share: requests to a daemon, and medians."""

import json
import os
import socket
import statistics


class Control:
    """A connection to a daemon's control socket."""

    def __init__(self, path):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self.lines = connection.makefile("rw")

    def call(self, method, **params):
        """Calls a method and returns its result; an error ends the benchmark."""
        self.lines.write(json.dumps({"id": 1, "method": method, "params": params}) + "\n")
        self.lines.flush()
        answer = json.loads(self.lines.readline())
        assert "result" in answer, answer
        return answer["result"]

    def changes(self):
        """Returns the histogram of CPU time for changes, in ns, of the turns of the only reactor. Its
        buckets are pairs: the end of a bucket, and the number of turns in it."""
        (reactor,) = self.call("statistics", buckets=True)["reactors"]
        histogram = reactor["changes_ns"]
        flat = histogram["buckets"]
        return {**histogram, "buckets": sorted(zip(flat[::2], flat[1::2]))}


def cpu_ns(process):
    """Returns the CPU time of all threads of a process in ns."""
    threads = os.listdir(f"/proc/{process}/task")
    return sum(int(open(f"/proc/{process}/task/{t}/schedstat").read().split()[0]) for t in threads)


def pairs(ratios):
    """Returns the median of the ratios of pairs, and each of them, as text."""
    return f"{statistics.median(ratios):.3f} ({' '.join(f'{ratio:.3f}' for ratio in ratios)})"
