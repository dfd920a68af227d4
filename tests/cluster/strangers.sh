#!/bin/bash
# SPDX-License-Identifier: MIT
# Strangers beside a job over two nodes, and networks that are not ready: bad and silent connections, messages that no PE
# sends, a program without free descriptors, signals of PEs, what can be read on the wire. Root only.
# `strangers.sh BUILD-FOLDER`
. "$(dirname "$0")/cluster.sh"
. "$here/nodes.sh"
stranger=$(program strangers)
at_b=10.88.0.2

as_stranger() { # ACTION...: from the first node, without anything of the job but its port
    ISO_TEST_MARK=$mark timeout 40 ip netns exec $a "$stranger" "$@"
}

await() { # FILE
    for _ in $(seq 1500); do
        [ ! -e "$1" ] || return 0
        sleep 0.02
    done
}

# Where PE 1 listens: the channel, as PE 0 has seen it, and libfabric, with its provider.
find_ports() {
    channel=$(sed -n "s/.*channel: connected with pe 1 ($at_b:\([0-9]*\)).*/\1/p" "$work/err" | head -n 1)
    ip netns exec $b awk '$4 == "0A" { print $2 }' /proc/net/tcp >"$work/listeners"
    fabric= provider=$(sed -n "s/^\[pe 1\] debug: ofi: \(.*\) at $at_b:[0-9]*, .*/\1/p" "$work/err" | head -n 1)
    for hex in $(cut -d : -f 2 "$work/listeners"); do
        [ $((16#$hex)) = "$channel" ] || fabric=$((16#$hex))
    done
}

# served NAME [keep] -- COMMAND: PEs work with 120 descriptors each, and the function acts meanwhile.
served() {
    local name=$1 keep=$2 acts=$3
    rm -rf "$work/serve"
    mkdir "$work/serve"
    (
        await "$work/serve/begun"
        find_ports
        $acts >"$work/acts" 2>&1 || echo "the stranger fails: $(cat "$work/acts")" >"$work/serve/failed"
        touch "$work/serve/stop"
        wait
    ) &
    job 40 "$work/ofi_job" 1 sh -c 'ulimit -n 120; export SHMEM_LOG=debug; [ -z "$0" ] || SHMEM_NETWORK=$(hostname)
        export SHMEM_NETWORK; exec "$@"' "$network" "$stranger" serve "$work/serve" $keep
    wait
    expect_status 0 "$name"
    [ ! -e "$work/serve/failed" ] || fail "$name: $(cat "$work/serve/failed")"
    echo "$name: $took_ms ms"
}

long_messages() {
    for bytes in 8450 100000; do
        as_stranger long $at_b "$fabric" $bytes "$provider" || return
    done
}

visits() {
    as_stranger noise $at_b "$channel" 40 && long_messages || return
    as_stranger silent $at_b "$channel" 200 "$work/serve/stop" &
    sleep 1
}
network=named
served "strangers" "" visits
expect_lines 1 '^pe 1: .* open failed 0 of [0-9]+$' "silent connections take the program's descriptors"
expect_message '\[pe 1\].* by libfabric does not come from a PE of this job, and is dropped' "a message that no buffer holds"
expect_message '\[pe 1\].*a connection from .* was dropped' "bad connections"
lines=$(grep -c '^\[pe 1\] warning: .*connection' "$work/err")
[ "$lines" -le 11 ] || fail "strangers: they write $lines lines to the log"
! grep -q '^00000000:' "$work/listeners" || fail "SHMEM_NETWORK: a PE listens on all interfaces: $(cat "$work/listeners")"

one_silent() {
    as_stranger silent $at_b "$channel" 1 "$work/serve/stop" &
    sleep 0.5
}
network=
SHMEM_TRANSPORT='ofi:tcp;ofi_rxm' served "messages by tcp;ofi_rxm" "" long_messages
expect_message '\[pe 1\].* by libfabric does not come from a PE of this job, and is dropped' "messages by tcp;ofi_rxm"
served "a silent connection where no descriptor is left" keep one_silent
expect_message 'no file descriptors are left for connections of other nodes; raise ulimit -n' "no descriptor is left"

job 20 ip netns exec $b env SHMEM_NETWORK=$b "$build/bin/isomer-info" --doctor
expect_message "for other nodes a PE listens at $at_b alone" "the doctor"
job 20 ip netns exec $b "$build/bin/isomer-info" --doctor
expect_message "for other nodes a PE listens on all interfaces, and is called at $at_b" "the doctor"

for signal in 11 15; do
    job 20 "$work/ofi_job" 1 "$stranger" crash $signal
    expect_status $((128 + signal)) "a PE that ends by signal $signal"
    expect_message "pe 1 .*died" "a PE that ends by signal $signal"
done

# ---- what the wire tells ----

(as_stranger record $a "$work/wire" "$work/recorded" >"$work/recording") &
await "$work/recording"
sleep 0.2
job 20 "$work/ofi_job" 1 "$(program ofi_victim)" tokens
touch "$work/recorded"
wait
expect_status 0 "tokens"
expect_lines 4 '^token [0-9a-f]{32}$' "tokens"
od -An -v -tx1 "$work/wire" | tr -d ' \n' >"$work/hex"
grep -qF "$(printf %s $b | od -An -v -tx1 | tr -d ' \n')" "$work/hex" || fail "tokens: the packets of the start were not recorded"
for token in $(sed -n 's/^token //p' "$work/out"); do
    ! grep -qF "$token" "$work/hex" || fail "the token $token of a PE can be read on the wire"
done

# ---- networks that are not ready ----

for node in $a $b; do
    ip -n $node link set $node down
done
for node in $a $b; do
    ip -n $node link set $node up
done
SHMEM_BOOT_TIMEOUT=15 job 30 "$work/ofi_job" 2 "$(program launched)" ranks 4
expect_ranks 4 "a network that comes up during the start"
job 20 "$work/ofi_job" 1 sh -c '[ "$SHMEM_RANK" = 0 ] || export SHMEM_NETWORK=lo; exec "$@"' sh "$(program launched)" ranks 2
expect_error_status "a host with loopback alone"
expect_message "pe 1 on host $b has no address but loopback, which pe 0 on host $a cannot reach" "loopback"
expect_within_ms 8000 "a host with loopback alone"
sed -i 's/hostname $0; //' "$work/ofi_job" # one host name: the address of the other node is taken for one of this host
SHMEM_BOOT_TIMEOUT=2 SHMEM_NETWORK=lo job 20 "$work/ofi_job" 1 sh -c 'SHMEM_NODE=$SHMEM_RANK exec "$@"' sh \
    "$(program launched)" ranks 2
expect_error_status "a port that refuses"
expect_message 'cannot connect to pe [01] .* within SHMEM_BOOT_TIMEOUT' "a port that refuses"
finish
