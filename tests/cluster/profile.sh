#!/bin/bash
# SPDX-License-Identifier: MIT
# SHMEM_PROFILE: whoever has only the page of a sick job finds the name of the culprit on it; on one node and on two. Its
# counts are compared in tests/unit/profile_test.c. SHMEM_LOG=info tells what the start has taken. Without variables
# nothing is printed, and a variable that is set on one PE alone is refused.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
sick=$(program sick)
cd "$work" || exit 1

# page TEXT PATTERN: the page of the job has a line
page() {
    [ "$status" -eq 0 ] || fail "$1: status $status"
    grep -qE -e "$2" "$work/err" || fail "$1: no line '$2'"
}

# counted ILLNESS PATTERN: a job whose page has such a line. On a busy machine other PEs may be late, too, and looks that
# find for whom a wait is are rare: three jobs may try.
counted() {
    local i
    for ((i = 0; i < 3; i++)); do
        SHMEM_PROFILE=1 job 60 "${start[@]}" "$sick" "$1"
        ! grep -qE -e "$2" "$work/err" || break
    done
}

job 60 "$oshrun" -n 4 "$sick" late
[ ! -s "$work/err" ] || fail "without SHMEM_PROFILE: something is printed"
[ ! -e isomer-profile.json ] || fail "without SHMEM_PROFILE: a file is written"

# One node; then PEs 0 and 1 on one, 2 and 3 on another, over TCP.
two_nodes='SHMEM_NODE=n$((PMIX_RANK / 2)) exec "$@"'
for nodes in 1 2; do
    start=("$oshrun" -n 4)
    if [ $nodes -eq 2 ]; then
        start=(env "SHMEM_TRANSPORT=ofi:tcp;ofi_rxm" SHMEM_NETWORK=lo "$oshrun" -n 4 sh -c "$two_nodes" sh)
    fi
    counted late "^imbalance: pe 2 came last: it waited "
    if [ $nodes -eq 2 ] && [ "$status" -ne 0 ] && grep -qE "libfabric|Operation not|No such" "$work/err"; then
        echo "two nodes: not here"
        break
    fi
    page "late, $nodes nodes" "^---- SHMEM_PROFILE: 4 PEs, $nodes node"
    page "late, $nodes nodes" "^imbalance: pe 2 came last: it waited "
    [ -s isomer-profile.json ] || fail "late, $nodes nodes: there is no isomer-profile.json"
    python3 -c 'import json, sys; d = json.load(open("isomer-profile.json")); sys.exit(len(d["pes"]) != 4)' ||
        fail "late, $nodes nodes: isomer-profile.json is no JSON of 4 PEs"
    rm -f isomer-profile.json
    SHMEM_PROFILE=hot.json job 60 "${start[@]}" "$sick" hot
    page "hot, $nodes nodes" "^hot: pe 1 is the other side of [0-9]+ % of the bytes"
    [ -s hot.json ] || fail "hot, $nodes nodes: there is no hot.json"
    counted signal "^imbalance: pe 2 came last: it waited "
    page "a late signal, $nodes nodes" "^imbalance: pe 2 came last: it waited "
    SHMEM_PROFILE=1 job 60 "${start[@]}" "$sick" grows
    page "heap, $nodes nodes" "^symmetric heap: at most 6[0-9]{6} bytes in use at once"
done
start=("$oshrun" -n 4)
for illness in late signal; do
    counted $illness "^(barrier|wait_until) .* pe [013] for pe 2$"
    page "for whom, $illness" "^(barrier|wait_until) .* pe [013] for pe 2$"
done
SHMEM_PROFILE=/nowhere/file job 60 "$oshrun" -n 2 "$sick"
page "no such folder" "SHMEM_PROFILE: cannot write /nowhere/file: No such file or directory"
SHMEM_PROFILE=0 job 60 "$oshrun" -n 2 "$sick"
[ ! -s "$work/err" ] || fail "SHMEM_PROFILE=0: something is printed"

# shellcheck disable=SC2016
job 60 "$oshrun" -n 2 sh -c '[ $PMIX_RANK -eq 0 ] || export SHMEM_PROFILE=1; exec "$@"' sh "$sick"
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] || fail "SHMEM_PROFILE of one PE: status $status"
grep -q "SHMEM_PROFILE is set on pe 1 and empty on this PE; set it for all PEs or for none" "$work/err" ||
    fail "SHMEM_PROFILE of one PE: no sentence"

SHMEM_METRICS=$work/metrics SHMEM_METRICS_SECONDS=0.1 job 60 "$oshrun" -n 3 "$sick" late
[ "$status" -eq 0 ] && [ ! -s "$work/err" ] || fail "SHMEM_METRICS: status $status, or something is printed"
for pe in 0 1 2; do
    [ "$(grep -c "^isomer_calls_total{pe=\"$pe\",call=\"barrier\"} 5$" "metrics.$pe.prom")" -eq 1 ] || fail "metrics of pe $pe"
    [ "$(wc -l <"metrics.$pe.prom")" -lt 170 ] || fail "metrics of pe $pe are long"
    [ "$(grep -c "^isomer_team_calls_total{pe=\"$pe\",team=\"world\"} 5$" "metrics.$pe.prom")" -eq 1 ] || fail "metrics of pe $pe by team"
    grep -q "^isomer_heap_most_bytes{pe=\"$pe\"} [1-9]" "metrics.$pe.prom" || fail "the heap of pe $pe"
    grep -q "^isomer_network_posts_total{pe=\"$pe\"} 0$" "metrics.$pe.prom" || fail "the network of pe $pe"
done

mkdir taken.0.prom
SHMEM_METRICS=$work/taken job 60 "$oshrun" -n 1 "$sick"
page "a file that cannot be written" "SHMEM_METRICS: cannot write $work/taken.0.prom: Is a directory"
[ -z "$(find . -name 'taken.0.prom.*')" ] || fail "a file that cannot be written leaves another one"

SHMEM_LOG=info job 60 "$oshrun" -n 3 "$sick"
page "SHMEM_LOG=info" "^\[pe 0\] info: started in [0-9.]+ s: bootstrap [0-9.]+, exchange [0-9.]+, mapping [0-9.]+, network [0-9.]+, teams [0-9.]+$"
[ "$(grep -c 'started in' "$work/err")" -eq 1 ] || fail "SHMEM_LOG=info: more than one line"
! grep -q 'started in 0\.[0-4]' "$work/err" || ! grep -q 'usual is' "$work/err" || fail "SHMEM_LOG=info: a quick start is unusual"
# shellcheck disable=SC2016
late_start='[ $PMIX_RANK -ne 2 ] || sleep 1.3; exec "$@"'
SHMEM_LOG=info job 60 "$oshrun" -n 3 sh -c "$late_start" sh "$sick"
page "a late start" "info: the start's (bootstrap|exchange) took [12]\.[0-9]+ s, usual is 0\.6 s or less: pe 2 on .* came to shmem_init [12]\.[0-9]+ s after this PE"
job 60 "$oshrun" -n 3 sh -c "$late_start" sh "$(program isomer-info)" --doctor start
expect_lines 1 "^warning: the start's (bootstrap|exchange) took [12]\.[0-9]+ s, .*: pe 2 on .* came to shmem_init" "--doctor start"
job 60 "$oshrun" -n 3 "$(program isomer-info)" --doctor start
expect_message "^(ok: the start took [0-9.]+ s, no phase of it longer than 0\.|warning: the start's .* usual is 0\.6 s)" "--doctor start"

# counted NAME CALLS PROGRAM...: a program with kernels, where it is built; each of the calls is in its JSON
counted() {
    local name=$1 calls=$2
    shift 2
    [ -x "$1" ] || return 0
    SHMEM_PROFILE=device.json SHMEM_DEVICE_BLOCKS=8 SHMEM_TEST_CASES=3 SHMEM_TEST_ROUNDS=3 SHMEM_TEST_REPLAYS=20 \
        job 120 "$oshrun" -n 2 "$@"
    expect_status 0 "$name"
    python3 -c 'import json, sys
calls = json.load(open("device.json"))["pes"][0]["calls"]
sys.exit(any(calls[name]["count"] == 0 for name in sys.argv[1:]))' $calls || fail "$name: $calls are not all counted"
}
SHMEM_FORCE_PROXY=1 counted "kernels" "launch proxy" "$build/device/device_litmus"
counted "collectives on streams" "on_stream" "$build/device/device_coll_batch"
counted "sends" "on_stream" "$build/device/device_coll_pairs"
counted "graphs" "on_stream graph_launch" "$build/device/device_coll_stream_graph"
finish
