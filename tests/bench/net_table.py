#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""net_table.py LINES: of lines `boot,PEs,system,metric,value,unit`, a table. Values are medians over the boots; a ratio is
the median of the ratios within each boot, ours over the other's, its spread their least and most; `again` are the same
two of our own program run twice: what differs less than that means nothing. Below, every value of every boot."""
import csv, statistics, sys

# PEs, metric, what ours is compared with, the bar: at most ("<=") or at least (">=") so many times the other's. A string
# as other is another metric of our own; None: the bar is a value.
ROWS = []
for pes, atomics, together in (("1+1", 1.0, .6), ("2+2", .3, .3)):
    for metric in ("put+quiet 8 B", "get 8 B"):
        ROWS += [(pes, metric, "verbs", "<=", 1.1), (pes, metric, "oshmem", "<=", 1.0)]
    ROWS += [(pes, "fetch_add", "oshmem", "<=", atomics)]
    ROWS += [(pes, metric, "oshmem", "<=", together) for metric in ("barrier_all", "reduce 8 B")]
    ROWS += [(pes, metric, "oshmem", ">=", 1.0) for metric in ("put 64 KiB", "put 1 MiB", "put 4 MiB", "get 1 MiB")]
    ROWS += [(pes, "put_nbi 8 B stream", "=put 8 B stream", "<=", 1 / 3), (pes, "put_nbi 8 B stream", "oshmem", "", 0)]
    ROWS += [(pes, "put 8 B stream", "oshmem", "", 0)]
ROWS += [("2+2", "whole command", "oshmem", "<=", .3), ("2+2", "start to the end of shmem_init", "oshmem", "", 0)]
ROWS += [(pes, "resident at the end", None, "<=", 40) for pes in ("1+1", "2+2")]


def read(path):
    """{(PEs, system, metric): {boot: value}}, {metric: unit}"""
    values, units = {}, {}
    with open(path, newline="") as f:
        for boot, pes, system, metric, value, unit in csv.reader(f):
            if float(value) > 0:
                values.setdefault((pes, system, metric), {})[int(boot)] = float(value)
            units[metric] = unit
    return values, units


def ratios(mine, other):
    return [mine[b] / other[b] for b in sorted(mine) if b in other]


def median(values):
    return statistics.median(values) if values else float("nan")


def text_of(x):
    return f"{x:.3g}" if x < 1000 else f"{x:.0f}"


def range_of(values):
    return f"{min(values):.2f}..{max(values):.2f}" if values else "-"


def row(values, units, pes, metric, other, sign, bar):
    mine, again = values.get((pes, "isomer", metric), {}), values.get((pes, "again", metric), {})
    theirs, name = {}, other or ""
    if other and other[0] == "=":
        theirs, name = values.get((pes, "isomer", other[1:]), {}), other[1:]
    elif other:
        theirs = values.get((pes, other, metric)) or values.get(("1+1", other, metric), {}) if other == "verbs" else \
            values.get((pes, other, metric), {})
    got = ratios(mine, theirs) if other else list(mine.values())
    met = not got or not sign or (median(got) <= bar if sign == "<=" else median(got) >= bar)
    verdict = "" if not sign else "none" if not got else "met" if met else "MISSED"
    print(f"{pes:5}{metric:32}{units.get(metric, ''):>5}{text_of(median(mine.values())):>9}"
          f"{text_of(median(theirs.values())) if theirs else '-':>9}  {name:16}"
          f"{median(got) if other else float('nan'):6.2f}  {range_of(got) if other else '-':13}"
          f"{sign + f' {bar:.3g}' if sign else '':>8}  {verdict:7}{range_of(ratios(again, mine))}")
    return met


def main():
    values, units = read(sys.argv[1])
    boots = len({b for v in values.values() for b in v})
    print(f"medians of {boots} boots; ratio = isomer / other, of each boot, and its spread; perftest's latency of writes is "
          "half of a ping-pong\n")
    print(f"{'PEs':5}{'metric':32}{'unit':>5}{'isomer':>9}{'other':>9}  {'which':16}{'ratio':>6}  {'spread':13}{'bar':>8}  "
          f"{'':7}again")
    missed = sum(not row(values, units, *r) for r in ROWS)
    print(f"\n{missed} missed" if missed else "\nall met")
    print("\nwithout a library: perftest, bare verbs, mpirun of nothing; medians")
    for pes, system, metric in sorted(values):
        if system in ("perftest", "verbs", "launcher"):
            print(f"{pes:5}{system:10}{metric:32}{text_of(median(values[pes, system, metric].values())):>9} {units[metric]}")
    print("\nPEs,system,metric,unit: the value of each boot")
    for (pes, system, metric), by_boot in sorted(values.items()):
        print(f"{pes},{system},{metric},{units[metric]}: " + " ".join(text_of(by_boot[b]) for b in sorted(by_boot)))
    return 1 if missed else 0


sys.exit(main())
