#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""net_table.py LINES [tcp]: of lines `boot,PEs,system,metric,value,unit`, a table. Ours of a boot is the mean of its two runs.
Values are medians over the boots; a ratio is the median of the ratios within each boot, ours over the other's, its spread
their least and most; `again` are least and most of the second run over the first: what differs less than that means
nothing. Below, every value of every boot."""
import csv, statistics, sys

# PEs, metric, what ours is compared with, the bar: at most ("<=") or at least (">=") so many times the other's; "":
# none. "=METRIC": another metric of our own; "~METRIC": another of bare verbs, the same traffic without a runtime, at
# 2+2 by two pairs at once that do not wait for one another; None: the bar is a value.
WHOLE, REST = "whole command", "whole command without mpirun"
ROWS = []
for pes, atomics, together in (("1+1", 1.0, .6), ("2+2", .3, .3)):
    for metric in ("put+quiet 8 B", "get 8 B"):
        ROWS += [(pes, metric, "verbs", "<=", 1.1), (pes, metric, "oshmem", "<=", 1.0)]
    ROWS += [(pes, "fetch_add", "oshmem", "<=", atomics), (pes, "fetch_add", "~message and answer", "", 0)]
    for metric in ("barrier_all", "reduce 8 B"):
        ROWS += [(pes, metric, "oshmem", "<=", together), (pes, metric, "~flags both ways", "", 0)]
    ROWS += [(pes, metric, "oshmem", ">=", 1.0) for metric in ("put 64 KiB", "put 1 MiB", "put 4 MiB", "get 1 MiB")]
    ROWS += [(pes, "put_nbi 8 B stream", "=put 8 B stream", "<=", 1 / 3), (pes, "put_nbi 8 B stream", "oshmem", "", 0)]
    ROWS += [(pes, "put 8 B stream", "oshmem", "", 0)]
ROWS += [("2+2", WHOLE, "oshmem", "<=", .3), ("2+2", REST, "oshmem", "", 0), ("2+2", "start to the end of shmem_init", "oshmem", "", 0)]
ROWS += [(pes, "resident at the end", None, "<=", 40) for pes in ("1+1", "2+2")]

TCP = []  # over tcp, on one host, where bare verbs do not exist
for pes in ("1+1", "2+2"):
    TCP += [(pes, metric, "oshmem", "<=", .8) for metric in ("put+quiet 8 B", "get 8 B", "fetch_add")]
    TCP += [(pes, metric, "oshmem", "<=" if pes == "2+2" else "", .5) for metric in ("barrier_all", "reduce 8 B")]
    TCP += [(pes, metric, "oshmem", ">=", 1.0) for metric in ("put 64 KiB", "put 1 MiB", "put 4 MiB", "get 1 MiB")]
    TCP += [(pes, "put_nbi 8 B stream", "oshmem", "<=", .1), (pes, "put 8 B stream", "oshmem", "", 0)]
    TCP += [(pes, "finalize", "oshmem", "", 0), (pes, "resident at the end", "oshmem", "", 0)]
    TCP += [(pes, "put_signal ping-pong", "oshmem", "<=", .8)]
TCP += [("1+1", "put_signal ping-pong", "fabric", "<=", 1.2)]
TCP += [("1+1", metric, "fabric", "", 0) for metric in ("put+quiet 8 B", "get 8 B", "put 1 MiB")]
TCP += [("1+1", metric, "tcp", ">=", .9) for metric in ("put 64 KiB", "put 1 MiB", "put 4 MiB")]
TCP += [("2+2", metric, "oshmem", "<=", .3) for metric in (WHOLE, REST)]
TCP += [("2+2", "start to the end of shmem_init", "oshmem", "", 0)]


def read(path):
    """{(PEs, system, metric): {boot: value}}, {metric: unit}"""
    values, units = {}, {}
    with open(path, newline="") as f:
        for boot, pes, system, metric, value, unit in csv.reader(f):
            if float(value) > 0:
                values.setdefault((pes, system, metric), {})[int(boot)] = float(value)
            units[metric] = unit
    return values, units


def derive(values, units):
    """`both`: the mean of our two runs; and start-up without what mpirun takes to start nothing."""
    for (pes, system, metric), by_boot in list(values.items()):
        if system == "isomer":
            again = values.get((pes, "again", metric), by_boot)
            values[pes, "both", metric] = {b: (v + again.get(b, v)) / 2 for b, v in by_boot.items()}
    nothing = values.get(("2+2", "launcher", WHOLE), {})
    for system in ("both", "isomer", "again", "oshmem"):
        whole = values.get(("2+2", system, WHOLE), {})
        values["2+2", system, REST] = {b: max(v - nothing[b], .01) for b, v in whole.items() if b in nothing}
    units[REST] = units.get(WHOLE, "s")


def ratios(mine, other):
    return [mine[b] / other[b] for b in sorted(mine) if b in other]


def median(values):
    return statistics.median(values) if values else float("nan")


def text_of(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def range_of(values):
    return f"{min(values):.2f}..{max(values):.2f}" if values else "-"


def row(values, units, pes, metric, other, sign, bar):
    mine, first, again = (values.get((pes, system, metric), {}) for system in ("both", "isomer", "again"))
    theirs, name = {}, other or ""
    if other and other[0] == "=":
        theirs, name = values.get((pes, "both", other[1:]), {}), other[1:]
    elif other and other[0] == "~":
        theirs, name = values.get((pes, "verbs", other[1:]), {}), other[1:]
    elif other:
        theirs = values.get((pes, other, metric)) or values.get(("1+1", other, metric), {}) if other == "verbs" else \
            values.get((pes, other, metric), {})
    got = ratios(mine, theirs) if other else list(mine.values())
    met = not got or not sign or (median(got) <= bar if sign == "<=" else median(got) >= bar)
    verdict = "" if not sign else "none" if not got else "met" if met else "MISSED"
    print(f"{pes:5}{metric:32}{units.get(metric, ''):>5}{text_of(median(mine.values())):>9}"
          f"{text_of(median(theirs.values())) if theirs else '-':>9}  {name:19}"
          f"{f'{median(got):.2f}' if other else '':>6}  {range_of(got) if other else '-':13}"
          f"{sign + f' {bar:.3g}' if sign else '':>8}  {verdict:7}{range_of(ratios(again, first))}")
    return met


def main():
    values, units = read(sys.argv[1])
    derive(values, units)
    boots = len({b for v in values.values() for b in v})
    print(f"medians of {boots} boots; ratio = isomer / other within a boot, and its spread; perftest's latency of writes is "
          "half of a ping-pong\n")
    print(f"{'PEs':5}{'metric':32}{'unit':>5}{'isomer':>9}{'other':>9}  {'which':19}{'ratio':>6}  {'spread':13}{'bar':>8}  "
          f"{'':7}again")
    missed = sum(not row(values, units, *r) for r in (TCP if "tcp" in sys.argv[2:] else ROWS))
    print(f"\n{missed} missed" if missed else "\nall met")
    print("\nwithout a library: perftest, bare verbs, a bare provider, bare TCP, mpirun of nothing; medians")
    for pes, system, metric in sorted(values):
        if system in ("perftest", "verbs", "fabric", "tcp", "launcher"):
            print(f"{pes:5}{system:10}{metric:32}{text_of(median(values[pes, system, metric].values())):>9} {units[metric]}")
    print("\nPEs,system,metric,unit: the value of each boot")
    for (pes, system, metric), by_boot in sorted(values.items()):
        if system == "both" or metric == REST:
            continue
        print(f"{pes},{system},{metric},{units[metric]}: " + " ".join(text_of(by_boot[b]) for b in sorted(by_boot)))
    return 1 if missed else 0


sys.exit(main())
