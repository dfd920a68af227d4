#!/bin/bash
# SPDX-License-Identifier: MIT
# Two nodes as network namespaces of this host, with a cable (veth) between them, over libfabric: the specification's
# programs, kernels, hierarchical collectives, random traffic with each provider, lost and late packets, deaths, a cut
# cable, wrong settings. Some of it over 4 nodes and 16, at a hub. Root only. ISO_OFI_ONLY chooses jobs by their names.
# `ofi_native.sh BUILD-FOLDER`
. "$(dirname "$0")/cluster.sh"
. "$here/nodes.sh"
limit=120 # seconds of a program; alone the longest takes 11

chosen() { [[ $1 =~ ${ISO_OFI_ONLY-} ]]; }

right() { # NAME PER-NODE COMMAND...
    local name=$1
    chosen "$name" || return 0
    shift
    job $limit "$work/ofi_job" "$@"
    expect_status 0 "$name"
    echo "$name: $took_ms ms"
}

ends() { # NAME EXPRESSION PER-NODE COMMAND...: by itself, with a sentence
    local name=$1 sentence=$2
    chosen "$name" || return 0
    shift 2
    job $limit "$work/ofi_job" "$@"
    expect_error_status "$name"
    expect_message "$sentence" "$name"
    echo "$name: $took_ms ms"
}

# A PE says once why the job ends, whoever notices it: the channel, the provider, the node.
said_once() { # NAME
    local twice
    chosen "$1" || return 0
    twice=$(grep -o '^\[pe [0-9]*\] .*' "$work/err" | grep -v ': the job was broken [0-9]' | grep -v '\] warning: ' |
        cut -d ']' -f 1 | sort | uniq -d)
    [ -z "$twice" ] || fail "$1: says it twice: $twice"
}

# ---- what must work ----

grep -qs ACTIVE /sys/class/infiniband/*/ports/*/state ||
    SHMEM_TRANSPORT='' right "launched, without an RDMA port" 1 "$(program launched)" ranks 2
right "launched" 1 "$(program launched)" ranks 2
for name in setup symmetric_heap putget strided point_to_point locks moves reductions signals atomics globals; do
    right "spec_$name" 1 "$build/spec/spec_$name"
done
for name in contexts barriers hier; do
    right "spec_$name, 2 on each node" 2 "$build/spec/spec_$name"
done
export SHMEM_DEVICE_BLOCKS=8 SHMEM_TEST_CASES=3 SHMEM_TEST_ROUNDS=3 SHMEM_TEST_TURNS=2 SHMEM_TEST_REPLAYS=5
if [ -x "$build/device/device_litmus" ]; then
    right "device_heap" 1 "$build/device/device_heap"
    right "device_litmus" 1 "$build/device/device_litmus"
    [ ! -x "$build/device/device_matrix_rma" ] || right "device_matrix_rma" 1 "$build/device/device_matrix_rma"
fi
if [ -x "$build/device/device_coll_hier" ]; then
    SHMEM_VIRTUAL_NODES=0,0,1,1 SHMEM_TEST_CASES=25 right "device_coll_hier, 2 on each node" 2 "$build/device/device_coll_hier"
    SHMEM_VIRTUAL_NODES=0,0,0,1,1,1 SHMEM_TEST_CASES=10 right "device_coll_hier, 3 on each node" 3 "$build/device/device_coll_hier"
    right "device_coll_late_data" 1 "$build/device/device_coll_late_data"
    right "device_coll_late_data, 2 on each node" 2 "$build/device/device_coll_late_data"
    right "device_coll_on_host, 2 on each node" 2 "$build/device/device_coll_on_host"
fi
unset SHMEM_DEVICE_BLOCKS SHMEM_TEST_CASES SHMEM_TEST_ROUNDS SHMEM_TEST_TURNS SHMEM_TEST_REPLAYS
right "random traffic, tcp" 1 "$(program traffic)" 4000 4 2
right "random traffic, tcp, 2 on each node" 2 "$(program traffic)" 1000 2
right "idle PEs" 2 "$(program idle)" 3 500 50
SHMEM_TRANSPORT='ofi:tcp;ofi_rxm' right "idle PEs, tcp;ofi_rxm" 2 "$(program idle)" 3 500 50
for provider in 'tcp;ofi_rxm' sockets 'udp;ofi_rxd' net; do
    SHMEM_TRANSPORT="ofi:$provider" right "random traffic, $provider" 1 "$(program traffic)" 300 2 2
done
shim=$build/tests/cluster/shim # it makes the provider promise and do less; its words say what
ISO_OFI_REAL=$(ldconfig -p | awk '/libfabric\.so\.1 / { print $NF; exit }')
export ISO_OFI_REAL
for words in again,reorder,tiny,local,keys again,reorder,nic,local,keys again,reorder,norma,nofd,small,local; do
    [ -e "$shim/libfabric.so.1" ] || break
    export ISO_OFI_SHIM=$words LD_LIBRARY_PATH=$shim${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    right "random traffic, a provider with $words" 1 "$(program traffic)" 500 2 2
    if [[ $words == *nic* && -x $build/device/device_litmus ]]; then # device memory by RMA
        export SHMEM_DEVICE_BLOCKS=8 SHMEM_TEST_CASES=3 SHMEM_TEST_ROUNDS=3
        for words in nic nic,hmem,again,reorder,local,keys; do
            export ISO_OFI_SHIM=$words
            right "device_litmus, a provider with $words" 1 "$build/device/device_litmus"
            SHMEM_SEED=11 right "device_litmus, flushed, a provider with $words" 1 "$build/device/device_litmus"
            [ ! -x "$build/device/device_matrix_rma" ] ||
                right "device_matrix_rma, a provider with $words" 1 "$build/device/device_matrix_rma"
        done
        SHMEM_DEVICE_RDMA=staged right "device_litmus, staged, a provider with $words" 1 "$build/device/device_litmus"
        unset SHMEM_DEVICE_BLOCKS SHMEM_TEST_CASES SHMEM_TEST_ROUNDS
    fi
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH#"$shim"}
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH#:}
done
SHMEM_TEST_FAULT=stray ends "a stray put is found" "memory here is not what its writer wrote" \
    1 "$(program traffic)" 200 1
if command -v tc >/dev/null && tc -n $a qdisc add dev $a root netem delay 1ms reorder 50% loss 0.5% 2>"$work/tc"; then
    right "random traffic, packets are lost and late" 1 "$(program traffic)" 100 2
    tc -n $a qdisc del dev $a root
else
    echo "lost and late packets: skipped: $(head -n 1 "$work/tc" 2>/dev/null)"
fi

# ---- more nodes ----

if add_wide 16 2>"$work/wide"; then
    export OFI_NODES=4
    right "launched, 4 nodes of 2" 2 "$(program launched)" ranks 8
    right "spec_contexts, 4 nodes" 1 "$build/spec/spec_contexts"
    right "random traffic, 4 nodes" 1 "$(program traffic)" 200 2
    right "random traffic, 4 nodes of 2" 2 "$(program traffic)" 60 2
    if [ -x "$build/device/device_coll_hier" ]; then
        SHMEM_VIRTUAL_NODES=0,0,1,1,2,2,3,3 SHMEM_DEVICE_BLOCKS=8 SHMEM_TEST_CASES=4 \
            right "device_coll_hier, 4 nodes of 2" 2 "$build/device/device_coll_hier"
    fi
    OFI_NODES=16 right "launched, 16 nodes" 1 "$(program launched)" ranks 16
    unset OFI_NODES
else
    echo "more nodes: skipped: $(head -n 1 "$work/wide")"
fi

# ---- what must fail, with a sentence ----

victim=$(program fault_victim)
for round in 1 2; do
    ends "kill -9 of PE $((round % 2))" "pe $((round % 2)) .*died" 1 "$victim" $RANDOM $((RANDOM % 500)) $((round % 2))
    said_once "kill -9 of PE $((round % 2))"
done
ends "kill -9 of PE 1 of 4" "pe 1 .*died" 2 "$victim" $RANDOM $((RANDOM % 500)) 1
said_once "kill -9 of PE 1 of 4"
if chosen "PEs that outlive a job"; then # a process holds the namespaces of each node
    pids=
    for node in $a $b; do
        ISO_TEST_MARK=$mark ip netns exec $node unshare -u sh -c 'hostname $0; exec sleep 300' $node &
        pids="$pids $!"
    done
    sleep 0.5
    # shellcheck disable=SC2086
    set -- $pids
    job $limit env "ISO_NODES=$1:none,$2:none" SHMEM_TRANSPORT=ofi ISO_FAULT_SEED="${ISO_FAULT_SEED:-3}" \
        "$(program survivors)" kill 1 4
    expect_status 0 "PEs that outlive a job"
    died=$(grep -v ': the job was broken' "$work/err" | grep -E '^\[pe [0-9]+\] .*(died|taken for dead| failed: )')
    [ "$(echo "$died" | wc -l)" -le 5 ] || fail "PEs that outlive a job: 3 and then 2 survivors say more than once who died: $died"
    echo "PEs that outlive a job: $took_ms ms"
    # shellcheck disable=SC2086
    kill $pids
    wait
fi
if chosen "the cable is cut"; then
    (
        sleep 3
        ip -n $b link set $b down
    ) &
    SHMEM_NODE_TIMEOUT=2 ends "the cable is cut" \
        "pe [01] on $a|pe [01] on $b is taken for dead.*SHMEM_NODE_TIMEOUT|to pe [01] \(host $a|to pe [01] \(host $b" \
        1 "$victim" 5 3600000 1
    expect_within_ms 20000 "the cable is cut"
    said_once "the cable is cut"
    wait
    ip -n $b link set $b up
fi
victim=$(program ofi_victim)
ends "a key that no PE gave" "a put of 65536 bytes from pe 0 \(host $a, .*to pe 1 \(host $b\) failed" 1 "$victim" key
ends "an address without a segment" \
    "an operation at address 0x1000 from pe 0 \(host $a, .*to pe 1 \(host $b\) was refused: there is no segment" \
    1 "$victim" address
ends "a message is lost" "message [0-9]+ of pe 0 \(host $a\) has come where pe 1 \(host $b\) expects" 1 "$victim" lost
for what in key address lost broken; do
    right "the same where errors return: $what" 1 "$victim" $what returns
    said_once "the same where errors return: $what"
done
right "a message of a stranger" 1 "$victim" stranger
! chosen "a message of a stranger" || expect_message "does not come from a PE of this job, and is dropped" "a stranger"
SHMEM_TRANSPORT=ofi:nosuch ends "no such provider" 'libfabric has no provider nosuch .* on host' 1 "$(program launched)" ranks 2
SHMEM_TRANSPORT=nosuch ends "no such network" 'SHMEM_TRANSPORT is "nosuch"; allowed: verbs, ofi' 1 "$(program launched)" ranks 2
ends "two networks" 'SHMEM_TRANSPORT is "[^"]*" here and something else on pe [01]; it must be equal' \
    1 sh -c '[ "$SHMEM_RANK" = 0 ] || SHMEM_TRANSPORT=ofi:sockets; exec "$@"' sh "$(program launched)" ranks 2
finish
