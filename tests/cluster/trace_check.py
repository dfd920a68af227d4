#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""trace_check.py FILE [CONDITION ...]: checks a time line of `isomer-info --trace` against the format that Chrome documents
("Trace Event Format") and Perfetto reads: phases, types, times, boxes of a thread that lie in each other, boxes of a stream
that come one after the other, arrows with both ends inside of a box, and one to each box of a stream, from where the call
was enqueued. Then each condition, a Python expression, must hold of

    calls   the boxes: name, kind, pe, begin, end (microseconds), args
    arrows  pairs of boxes: what ended a wait, and the wait; what was enqueued, and the stream's call
    streams the boxes of a stream, by (pe, name of the stream)
    heap    bytes of the symmetric heap over time, by PE
    kernels waits of kernels, like boxes

Where Perfetto's trace processor is on PATH, or PERFETTO_UI is the folder of its page (`trace_processor.js`), it loads the
file too, and must count the same."""
import collections
import json
import os
import shutil
import subprocess
import sys

class Call(collections.namedtuple("Call", "name kind pe begin end args")):
    __hash__ = object.__hash__  # args are a dictionary
    __eq__ = object.__eq__


def number(event, key):
    value = event.get(key)
    assert isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0, (key, event)
    return value


def read(path):
    with open(path, encoding="ascii") as f:
        top = json.load(f)
    assert isinstance(top, dict) and isinstance(top["traceEvents"], list) and top["displayTimeUnit"] in ("ms", "ns"), top
    threads, ends, heap, halves, named = collections.defaultdict(list), {}, collections.defaultdict(list), {}, {}
    for e in top["traceEvents"]:
        assert isinstance(e["name"], str) and isinstance(e["pid"], int) and e["pid"] > 0, e
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name", "process_sort_index") and len(e["args"]) == 1, e
            named[e["pid"], e.get("tid")] = e["args"].get("name")
            continue
        time = number(e, "ts")
        if e["ph"] == "C":
            heap[e["pid"] - 1].append((time, number(e["args"], "bytes")))
            continue
        assert isinstance(e["tid"], int) and isinstance(e["cat"], str) and (e["pid"], e["tid"]) in named, e
        if e["ph"] == "X":
            call = Call(e["name"], e["cat"], e["pid"] - 1, time, round(time + number(e, "dur"), 3), e["args"])
            threads[e["tid"]].append(call)
        elif e["ph"] in "sf":
            assert (e["ph"], e["id"]) not in ends and (e["ph"] == "s" or e["bp"] == "e"), e
            ends[e["ph"], e["id"]] = (e["tid"], time)
        else:
            assert e["ph"] in "be" and (e["ph"], e["id"]) not in halves, e
            halves[e["ph"], e["id"]] = Call(e["name"], e["cat"], e["pid"] - 1, time, time, e.get("args"))
    streams = {(pid - 1, name): threads[tid] for (pid, tid), name in named.items() if tid and "stream" in name}
    return threads, ends, heap, halves, streams


def follow(streams, arrows):
    """A stream runs its calls in the order in which they were enqueued, each after that."""
    queued = {a[1]: a[0] for a in arrows if a[1].kind == "stream"}
    for calls in streams.values():
        assert all(c.kind == "stream" and c.args["queued"] >= 0 for c in calls), calls
        for before, after in zip(calls, calls[1:]):
            assert before.end <= after.begin + 0.0005, ("together", before, after)
        enqueued = [queued[c] for c in calls]
        assert all(q.name == c.name and q.begin <= c.begin + 0.0005 for q, c in zip(enqueued, calls)), (enqueued, calls)
        assert [q.begin for q in enqueued] == sorted(q.begin for q in enqueued), enqueued


def nest(threads):
    for calls in threads.values():
        calls.sort(key=lambda c: (c.begin, -c.end))
        around = []
        for c in calls:
            while around and around[-1].end <= c.begin:
                around.pop()
            assert not around or c.end <= around[-1].end + 0.0005, ("crosses", around[-1], c)
            around.append(c)


def box_at(calls, time):
    """The innermost one; waits inside of calls are not meant."""
    around = [c for c in calls if c.begin <= time + 0.0005 and time <= c.end + 0.0005 and c.kind != "wait"]
    assert around, ("no box", time)
    return min(around, key=lambda c: c.end - c.begin)


def count_by_perfetto(path, n_calls, n_arrows):
    tool = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if "PERFETTO_UI" in os.environ:
        tool = os.path.join(os.path.dirname(__file__), "trace_processor.js")
    if tool is None:
        return
    query = f"{path}.sql"
    with open(query, "w", encoding="ascii") as f:
        f.write("select (select count(*) from slice), (select count(*) from flow);\n")
    said = subprocess.run([tool, "-q", query, path], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert said == f"{n_calls},{n_arrows}", (said, n_calls, n_arrows)


def main():
    threads, ends, heap, halves, streams = read(sys.argv[1])
    nest(threads)
    numbers = {i for _, i in ends}
    assert len(ends) == 2 * len(numbers), "an arrow has one end"
    arrows = [tuple(box_at(threads[ends[p, i][0]], ends[p, i][1]) for p in "sf") for i in sorted(numbers)]
    follow(streams, arrows)
    for i in numbers:
        assert ends["s", i][1] <= ends["f", i][1] + 1000, "an arrow goes back by more than a millisecond"
    kernels = [b._replace(end=halves["e", i].end) for (p, i), b in halves.items() if p == "b"]
    assert 2 * len(kernels) == len(halves) and all(k.begin <= k.end for k in kernels), "a half of a kernel's wait"
    calls = [c for t in threads.values() for c in t]
    count_by_perfetto(sys.argv[1], len(calls) + len(kernels), len(arrows))
    names = {"calls": calls, "arrows": arrows, "streams": streams, "heap": heap, "kernels": kernels}
    for condition in sys.argv[2:]:
        if not eval(condition, dict(names)):  # pylint: disable=eval-used
            print(f"not so: {condition}", file=sys.stderr)
            for name, value in names.items():
                print(f"{name}: {str(value)[:2000]}", file=sys.stderr)
            sys.exit(1)


main()
