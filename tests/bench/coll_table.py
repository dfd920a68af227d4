# SPDX-License-Identifier: MIT
"""The table and the pictures of coll_run. usage: coll_table.py FOLDER PES

Reads FOLDER/isomer.csv, nvshmem.csv, torch.csv (absent ones are left out) and prints for each collective and size: ours in
a graph and launched plainly, the best peer, their ratio, and the bar where there is one. Writes FOLDER/KIND.svg: bytes
against us and against GB/s. Ends with 1 when a result was wrong."""
import csv, math, os, sys

KINDS = ["allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "permute", "barrier", "sync"]
# Other operators, blocks of an element more, memory that is not symmetric.
OTHER_ROWS = ["allreduce_max", "allreduce_min", "allreduce_prod", "reducescatter_max", "reducescatter_prod",
              "allgather_odd", "alltoall_odd", "reducescatter_odd", "broadcast_odd",
              "allreduce_own", "allgather_own", "reducescatter_own", "alltoall_own", "broadcast_own"]
KIB, MIB = 1 << 10, 1 << 20
# Ours over the best peer of the same run, at most: up to so many bytes, by kind.
ALLREDUCE = [(KIB, .66), (8 * KIB, .72), (64 * KIB, .90), (512 * KIB, .94), (256 * MIB, .96)]
OTHERS = [(64 * KIB, .6), (MIB, .8)]
BARS = {"allreduce": ALLREDUCE, "allgather": OTHERS, "alltoall": OTHERS, "broadcast": OTHERS,
        "reducescatter": OTHERS + [(256 * MIB, .95)], "barrier": [(0, .53)]}


def rows_of(path):
    if not os.path.exists(path):
        return []
    with open(path, newline="") as f:
        return [r for r in csv.reader(f) if len(r) >= 5]


def read(folder):
    """{kind: {bytes: us}} of ours by way, {kind: {bytes: {peer: us}}}, names of algorithms, wrong results."""
    ours, peers, algorithms, wrong = {"graph": {}, "plain": {}}, {}, {}, []
    for r in rows_of(os.path.join(folder, "isomer.csv")):
        kind, size, us, way, bad = r[1], int(r[3]), float(r[4]), r[5], int(r[6])
        if kind in ("barrier", "sync"):  # peers' rows say 0 bytes
            size = 0
        ours[way].setdefault(kind, {})[size] = us
        algorithms[kind, size] = ",".join(r[7:])
        if bad:
            wrong.append(f"{kind} {size}")
    for name in ("nvshmem.csv", "torch.csv"):
        for r in rows_of(os.path.join(folder, name)):
            system, kind = r[0], r[1].removeprefix("graph_").removeprefix("stream_").removesuffix("_all")
            if kind in KINDS + OTHER_ROWS and (system != "nvshmem" or r[1].startswith("graph_")):
                peers.setdefault(kind, {}).setdefault(int(r[3]), {})[system] = float(r[4])
                if system == "nccl":  # its other ways are for memory of theirs
                    peers.setdefault(kind + "_own", {}).setdefault(int(r[3]), {})[system] = float(r[4])
    return ours, peers, algorithms, wrong


def bar_of(kind, size):
    for most, ratio in BARS.get(kind, []):
        if size <= most:
            return ratio
    return None


def print_table(pes, ours, peers, algorithms):
    print(f"{pes} PEs, bf16, NVLink multicast off for all; us of a call, in a graph unless it says plain")
    print(f"{'kind':18}{'bytes':>11}{'isomer':>10}{'plain':>10}{'best peer':>11}  {'ratio':>6}{'bar':>6}  verdict  algorithm")
    for kind in KINDS + OTHER_ROWS:
        for size, us in sorted(ours["graph"].get(kind, {}).items()):
            best = min(peers.get(kind, {}).get(size, {}).items(), key=lambda p: p[1], default=None)
            bar, ratio = bar_of(kind, size), us / best[1] if best else None
            verdict = "" if ratio is None or bar is None else "ok" if ratio <= bar else "MISS"
            print(f"{kind:18}{size:11}{us:10.2f}{ours['plain'][kind].get(size, math.nan):10.2f}"
                  f"{best[1] if best else math.nan:11.2f}  {ratio or math.nan:6.2f}{bar or math.nan:6.2f}  {verdict:7}  "
                  f"{algorithms[kind, size].split(':')[0]}{' | ' + best[0] if best else ''}")


# ---- pictures: two logarithmic panels, one line a system ----

COLOURS = ["#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#7f7f7f", "#bcbd22"]
WIDTH, HEIGHT, LEFT, TOP = 420, 300, 60, 40


def panel(x0, title, lines, value):
    points = [(s, value(s, us)) for _, data in lines for s, us in data.items() if s > 0]
    if not points:
        return []
    lo_x, hi_x = (math.log2(f(p[0] for p in points)) for f in (min, max))
    lo_y, hi_y = (math.log10(f(p[1] for p in points)) for f in (min, max))
    span_x, span_y = max(hi_x - lo_x, 1), max(hi_y - lo_y, .3)
    x = lambda s: x0 + LEFT + (math.log2(s) - lo_x) / span_x * (WIDTH - LEFT - 10)
    y = lambda v: TOP + HEIGHT - (math.log10(v) - lo_y) / span_y * HEIGHT
    out = [f'<text x="{x0 + LEFT}" y="{TOP - 12}" font-size="13">{title}</text>',
           f'<rect x="{x0 + LEFT}" y="{TOP}" width="{WIDTH - LEFT - 10}" height="{HEIGHT}" fill="none" stroke="#ccc"/>']
    last = -math.inf
    for s in sorted({p[0] for p in points}):
        if x(s) - last < 26:
            continue  # no room for its label
        last = x(s)
        label = f"{s // MIB}M" if s >= MIB else f"{s // KIB}K" if s >= KIB else str(s)
        out.append(f'<text x="{x(s):.0f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{label}</text>')
    for e in range(math.floor(lo_y), math.ceil(hi_y) + 1):
        for m in (1, 2, 5):
            v = m * 10.0 ** e
            if lo_y - 1e-9 <= math.log10(v) <= lo_y + span_y:
                out.append(f'<line x1="{x0 + LEFT}" x2="{x0 + WIDTH - 10}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#eee"/>'
                           f'<text x="{x0 + LEFT - 4}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    for i, (_, data) in enumerate(lines):
        path = " ".join(f"{x(s):.1f},{y(value(s, us)):.1f}" for s, us in sorted(data.items()) if s > 0)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="{2.5 if i == 0 else 1.3}"/>')
    return out


def draw(folder, pes, kind, ours, peers):
    systems = sorted({name for by_size in peers.get(kind, {}).values() for name in by_size})
    lines = [("isomer", ours["graph"][kind])]
    lines += [(name, {s: p[name] for s, p in peers[kind].items() if name in p}) for name in systems]
    body = panel(0, f"{kind}, us of a call, {pes} PEs", lines, lambda s, us: us)
    body += panel(WIDTH, "GB/s: bytes of the message over time", lines, lambda s, us: s / us / 1e3)
    for i, (name, _) in enumerate(lines):
        body.append(f'<text x="{LEFT + i * 120}" y="{TOP + HEIGHT + 40}" fill="{COLOURS[i % len(COLOURS)]}">{name}</text>')
    with open(os.path.join(folder, kind + ".svg"), "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{TOP + HEIGHT + 60}" '
                f'font-family="sans-serif" font-size="10"><rect width="100%" height="100%" fill="white"/>{"".join(body)}</svg>\n')


def main():
    folder, pes = sys.argv[1], int(sys.argv[2])
    ours, peers, algorithms, wrong = read(folder)
    if not ours["graph"]:
        sys.exit(f"coll_table.py: {folder}/isomer.csv has no measurement")
    print_table(pes, ours, peers, algorithms)
    for kind in KINDS:
        if len(ours["graph"].get(kind, {})) > 1:
            draw(folder, pes, kind, ours, peers)
    if wrong:
        sys.exit("wrong data: " + ", ".join(wrong))


main()
