#!/bin/bash
# SPDX-License-Identifier: MIT
# SHMEM_TRACE and `isomer-info --trace`: who has only the time line of a sick job finds the culprit on it, by the arrows
# that end at the waits; on one node, and on two whose clocks differ by minutes. Files are bounded, and outlive their
# process. What streams run has lanes of its own. SHMEM_RANGES: a double of a profiler gets the names of calls, by NVTX
# and by rocTX.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
info=$(program isomer-info)
sick=$(program sick)
victim=$(program device_victim)
command -v python3 >/dev/null || skip "there is no python3"
cd "$work" || exit 1

# traced NAME COMMAND...: runs it with SHMEM_TRACE=trace
traced() {
    name=$1
    shift
    rm -rf trace
    SHMEM_TRACE=trace job 60 "$@"
}
# draws CONDITION...: isomer-info makes a picture, and a time line of which the conditions hold
draws() {
    cp err traced.err
    job 60 "$info" --trace trace
    expect_status 0 "$name, --trace"
    python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' trace/trace.svg 2>>err || fail "$name: trace.svg is no XML"
    python3 "$here/trace_check.py" trace/trace.json "$@" 2>>err || fail "$name: the time line"
}
prints() {
    grep -qE -e "$1" out || fail "$name: no line '$1'"
}

job 60 "$oshrun" -n 2 "$sick" late
[ ! -s err ] && [ ! -e trace ] || fail "without variables: something is printed or written"

# One node; then PEs 0 and 1 on one, 2 and 3 on another, over TCP; then with another clock there.
nodes() {
    start=("$oshrun" -n 4)
    two_nodes='SHMEM_NODE=n$((PMIX_RANK / 2)) exec "$@"'
    # shellcheck disable=SC2016
    [ "$1" != shifted ] || two_nodes='export SHMEM_NODE=n$((PMIX_RANK / 2)); [ $PMIX_RANK -lt 2 ] || shift=unshare; exec $shift ${shift:+--time --monotonic 1000} "$@"'
    [ "$1" = one ] || start=(env "SHMEM_TRANSPORT=ofi:tcp;ofi_rxm" SHMEM_NETWORK=lo "$oshrun" -n 4 sh -c "$two_nodes" sh)
}
for which in one two shifted; do
    if [ $which = shifted ] && ! unshare --time --monotonic 1000 true 2>/dev/null; then
        echo "two clocks: not here"
        break
    fi
    nodes $which
    traced "late, $which" "${start[@]}" "$sick" late
    if [ $which != one ] && [ "$status" -ne 0 ] && grep -qE "libfabric|Operation not|No such" err; then
        echo "two nodes: not here"
        break
    fi
    expect_status 0 "$name"
    draws "len([a for a in arrows if a[0].pe == 2 and a[0].name == a[1].name == 'shmem_barrier_all' and a[1].pe != 2]) == 15" \
        "all(a[1].end - a[1].begin > 50000 for a in arrows if a[0].pe == 2 and a[0].name == 'shmem_barrier_all')" \
        "max(c.end for c in calls) < 20e6" "sum(c.kind == 'barrier' for c in calls) == 20"
    prints "^  pe [013] was in shmem_barrier_all for 0\.[01][0-9]* s until shmem_barrier_all of pe 2$"
    traced "a late signal, $which" "${start[@]}" "$sick" signal
    draws "{a[1].pe for a in arrows if a[0].pe == 2 and a[0].name == 'shmem_uint64_atomic_set' and a[1].name == 'shmem_signal_wait_until'} >= {0, 1, 3}" \
        "all(a[0].pe == 2 for a in arrows if a[1].kind == 'wait_until')"
    prints "^  pe [013] was in shmem_signal_wait_until for .* s until shmem_uint64_atomic_set of pe 2$"
done

traced hot "$oshrun" -n 4 "$sick" hot
draws "sum(c.args['bytes'] for c in calls if c.kind == 'put' and c.args['pe'] == 1) == 5 * (4 * 1000 + 10)"
for cell in "pe 0, pe 1: 5050" "pe 2, pe 1: 5000" "pe 2, pe 3: 50" "pe 3, pe 3: 0"; do
    grep -q "<title>$cell bytes</title>" trace/trace.svg || fail "hot: the matrix has no cell '$cell'"
done
traced grows "$oshrun" -n 2 "$sick" grows
draws "[b for t, b in heap[1]] == sorted(b for t, b in heap[1]) and heap[1][-1][1] >= 6 << 20"

# Bounded: the newest stay. What is on the disk is all that there is.
SHMEM_TRACE_EVENTS=1k traced many "$oshrun" -n 2 "$sick" puts
draws "sum(c.pe == 0 for c in calls) == 1024" "[c.name for c in calls if c.pe == 0 and c.kind != 'wait'][-1] == 'shmem_barrier_all'"
prints "^job [0-9a-f]{8}: 2 PEs, 2048 events in 2 files, .*; [1-9][0-9]{3} older events are lost$"
[ "$(stat -c %s trace/isomer.0.0.trace)" -lt 100000 ] || fail "many: the file is large"
traced "a PE is killed" "$oshrun" -n 2 "$sick" killed
[ "$status" -ne 0 ] || fail "$name: status 0"
draws "sum(c.pe == 1 and c.kind == 'put' for c in calls) == 100"

# Kernels, what the proxy does for them, and streams.
SHMEM_FORCE_PROXY=1 traced "kernels" "$oshrun" -n 2 "$victim" busy 0 -1
draws "{'proxy'} <= {c.kind for c in calls}"
SHMEM_TIMEOUT=1 SHMEM_TIMEOUT_ABORT=1 traced "kernels wait" "$oshrun" -n 2 "$victim" barrier 900 1
draws "any(k.pe == 0 and 'barrier' in k.name and k.end - k.begin > 50000 for k in kernels)"

# What streams run, on a clock of their own with a seed: calls on three streams, of which the last ones are in the queue
# when the job ends; in a graph, which is one call each time; more than there are marks for; and what a killed PE has left.
for seed in 0 7; do
    SHMEM_SEED=$seed traced "streams, seed $seed" "$oshrun" -n 2 "$sick" streams
    expect_status 0 "$name"
    draws "[len(streams[pe, n]) for pe in (0, 1) for n in ('stream 1', 'stream 2', 'default stream')] == 2 * [12, 14, 5]" \
        "all([c.name for c in streams[pe, 'stream 1']][5:10] == 5 * ['shmemx_graph_launch'] for pe in (0, 1))" \
        "all('algorithm' in c.args and c.args['bytes'] == 1024 for pe in (0, 1) for c in streams[pe, 'stream 1'][:5])" \
        "all(c.args['pe'] == 1 - pe for pe in (0, 1) for c in streams[pe, 'stream 2'][:10])" \
        "all(c.args['bytes'] == (64, 1 << 18)[i % 2] for pe in (0, 1) for i, c in enumerate(streams[pe, 'stream 2'][:10]))" \
        "all(w.end - w.begin > 2e4 and p.args['queued'] > 9e4 for pe in (0, 1) for w, p in [streams[pe, 'stream 2'][10:12]])" \
        "all(p.begin >= s.begin for pe in (0, 1) for p, s in zip(streams[pe, 'stream 2'][11::2], streams[pe, 'stream 1'][10:]))"
    prints "^streams: 62 calls, 0 more had not ended, 0 have no times; clocks of devices to within 0\.[0-9]{6} s$"
    prints "^  pe [01], stream 2: busy for 0\.[0-9]* s with 14 calls; in its queue for .* s each, shmemx_putmem_on_stream for 0\.[1-9][0-9]* s$"
    grep -q 'class="arrow queued"' trace/trace.svg || fail "$name: trace.svg has no arrow from what was enqueued"
done
traced "a long queue" "$oshrun" -n 2 "$sick" queue
draws "all(len(streams[pe, 'stream 1']) == 2048 and len(streams[pe, 'stream 2']) == 1 for pe in (0, 1))"
prints "^streams: 4098 calls, 0 more had not ended, 1908 have no times; "
traced "a stream hangs" "$oshrun" -n 2 "$sick" hangs
[ "$status" -ne 0 ] || fail "$name: status 0"
draws "len(streams) == 2 and all([c.name for c in s] == ['shmemx_putmem_on_stream', 'SHMEMX_ALLREDUCE'] for s in streams.values())"
prints "^streams: 4 calls, 6 more had not ended, 0 have no times; "
prints "^  pe [01], stream 2: shmemx_signal_wait_until_on_stream had not ended, 0\.[1-9][0-9]* s after it was enqueued$"

# ---- a second job in the same folder: the first one may still write to its files ----
traced "the first job" "$oshrun" -n 2 "$sick"
cp trace/isomer.0.0.trace was && ln trace/isomer.0.0.trace first
SHMEM_TRACE_EVENTS=1k SHMEM_TRACE=trace job 60 "$oshrun" -n 2 "$sick"
expect_status 0 "the second job"
cmp was first || fail "the second job writes to a file of the first one"
draws

# ---- what is set wrongly ----
SHMEM_TRACE_EVENTS=5 traced "few events" "$oshrun" -n 2 "$sick"
[ "$status" -ne 0 ] && grep -q "SHMEM_TRACE_EVENTS is 5; allowed: 1024..16777216" err || fail "$name: no sentence"
for case in "/nowhere/trace cannot be made or used: No such file" "/dev/null cannot be made or used: Not a directory"; do
    SHMEM_TRACE=${case%% *} job 60 "$oshrun" -n 2 "$sick"
    [ "$status" -ne 0 ] && grep -q "SHMEM_TRACE: the folder $case" err || fail "no folder: no sentence: $case"
done
# shellcheck disable=SC2016
job 60 "$oshrun" -n 2 sh -c '[ $PMIX_RANK -eq 0 ] || export SHMEM_TRACE=trace; exec "$@"' sh "$sick"
[ "$status" -ne 0 ] && grep -q "SHMEM_TRACE is set on pe 1 and empty on this PE; set it for all PEs or for none" err ||
    fail "one PE traces: no sentence"
job 60 "$info" --trace "$work/tmp"
expect_status 1 "no file"
expect_message "there is no file of SHMEM_TRACE in " "no file"
mkdir -p spoilt && head -c 30000 /dev/urandom >spoilt/isomer.0.0.trace
job 60 "$info" --trace spoilt
expect_status 1 "a spoilt file"
expect_message "isomer.0.0.trace is no file of SHMEM_TRACE of this version" "a spoilt file"

# ---- ranges ----
tool=$(find "$build" -name "ranges_tool.so" | head -1)
ranges() {
    expect_status 0 "$1"
    for pe in 0 1; do
        grep -qx shmem_barrier_all "ranges.$pe" && grep -qx shmem_putmem "ranges.$pe" || fail "$1: no names"
        [ "$(tail -1 "ranges.$pe")" = "open 0 0" ] || fail "$1: ranges are open"
    done
    rm -f ranges.?
}
if [ -n "$tool" ]; then
    export RANGES_OUT=$work/ranges
    NVTX_INJECTION64_PATH=$tool job 60 "$oshrun" -n 2 "$sick" puts
    ranges NVTX
    SHMEM_RANGES=$tool job 60 "$oshrun" -n 2 "$sick" puts
    ranges rocTX
    SHMEM_RANGES=0 NVTX_INJECTION64_PATH=$tool job 60 "$oshrun" -n 2 "$sick" puts
    [ ! -e ranges.0 ] || fail "SHMEM_RANGES=0: the tool was loaded"
    SHMEM_RANGES=1 job 60 "$oshrun" -n 2 "$sick"
    grep -q 'SHMEM_RANGES is "1", and no tool takes ranges' err || fail "SHMEM_RANGES=1: no sentence"
fi

finish
