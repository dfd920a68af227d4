#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs in the guest, started by soft_roce.sh: one line for each job over the nodes a and b. Ends with 0 if all were
# right. ISO_GUEST_FULL=1: what takes longer too (guest_full.sh). ISO_GUEST_ONLY: only jobs whose names match this
# expression.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$ISO_BUILD
failures=0
seconds=300 # at most, of a program: beside other tests it takes ten times as long as alone
cases=6    # of a program of kernels
victims='.*victim|traf.*' # programs that `ends` starts; pgrep takes 15 characters
export ISO_LAUNCHER=uid
[ -n "${ISO_GUEST_FULL-}" ] || export SHMEM_TEST_FEW=8 # long programs of spec/ do an eighth
full() { [ -n "${ISO_GUEST_FULL-}" ]; }

uptime_s() { cut -d ' ' -f 1 /proc/uptime; }

chosen() { [[ $1 =~ ${ISO_GUEST_ONLY-} ]]; }

verdict() { # NAME WRONG START
    echo "$([ -z "$2" ] && echo "ok     " || echo "FAILED ") $1 ($(uptime_s), since $3 s)${2:+: $2}"
    [ -z "$2" ] && return
    failures=$((failures + 1))
    head -n 20 /tmp/job.out | sed 's/^/    /'
    dmesg | grep -a 'segfault\|trap' | tail -n 3 | sed 's/^/    /' # the library, and where in it
}

# tells NAME SECONDS TEXT COMMAND...: it ends with 0 in that time, and TEXT is in its output
tells() {
    local name=$1 limit=$2 text=$3 start wrong='' status
    chosen "$name" || return 0
    shift 3
    start=$(uptime_s)
    timeout -k 5 "$limit" "$@" >/tmp/job.out 2>&1
    status=$?
    [ $status -eq 0 ] || wrong="status $status"
    [ -z "$text" ] || grep -qF -- "$text" /tmp/job.out || wrong="${wrong:+$wrong; }it does not say '$text'"
    verdict "$name" "$wrong" "$start"
}

# right NAME SECONDS COMMAND...: it ends with 0 in that time
right() { tells "$1" "$2" "" "${@:3}"; }

# ends NAME SECONDS EXPRESSION COMMAND...: it fails, by itself in that time, with a sentence that matches
ends() {
    local name=$1 limit=$2 sentence=$3 start wrong='' status
    chosen "$name" || return 0
    shift 3
    start=$(uptime_s)
    timeout -k 5 "$limit" "$@" >/tmp/job.out 2>&1
    status=$?
    case $status in
    0) wrong="ended with 0" ;;
    124 | 137) ! pgrep -x "$victims" >/dev/null || wrong="hangs" ;;
    esac
    [ $status -ne 124 ] || wrong="hangs"
    grep -qE "$sentence" /tmp/job.out || wrong="${wrong:+$wrong; }no sentence matches '$sentence'"
    sleep 1
    ! pgrep -x "$victims" >/dev/null || wrong="${wrong:+$wrong; }processes are left"
    pkill -KILL -x "$victims"
    verdict "$name" "$wrong" "$start"
}

spec() { # PER-NODE PROGRAM...
    local per_node=$1 name
    shift
    for name in "$@"; do
        right "spec_$name, $per_node on each node" $seconds "$LAUNCH" "$per_node" "$build/spec/spec_$name"
    done
}

device() { # PER-NODE PROGRAM...: kernels on the CPU device, whose remote peers are reached through the proxy
    local per_node=$1 name
    shift
    export SHMEM_DEVICE_BLOCKS=8 SHMEM_TEST_CASES=$cases SHMEM_TEST_ROUNDS=$cases SHMEM_TEST_TURNS=2 SHMEM_TEST_REPLAYS=5
    for name in "$@"; do
        right "device_$name, $per_node on each node" $seconds "$LAUNCH" "$per_node" "$build/device/device_$name"
    done
    unset SHMEM_DEVICE_BLOCKS SHMEM_TEST_CASES SHMEM_TEST_ROUNDS SHMEM_TEST_TURNS SHMEM_TEST_REPLAYS
}

# later SECONDS COMMAND...: so long after the job of fault_victim has its two processes
later() {
    (
        for _ in $(seq 60); do
            [ "$(pgrep -cx fault_victim)" -lt 2 ] || break
            sleep 0.2
        done
        sleep "$1"
        shift
        "$@"
    ) &
}

# ---- what must work ----

ISO_LAUNCHER=mpirun right "mpirun, 1 on each node" 60 "$LAUNCH" 1 "$build/bin/launched" ranks 2
! full || ISO_LAUNCHER=oshrun right "oshrun --hosts, 2 on each node" 60 "$LAUNCH" 2 "$build/bin/launched" ranks 4
! full || ISO_LAUNCHER=mpirun ISO_MAP=node right "mpirun, 2 on each node, round robin" 60 "$LAUNCH" 2 "$build/bin/launched" ranks 4
if full && chosen srun; then
    . "$here/guest_slurm.sh"
    if slurm_start; then
        ISO_LAUNCHER=srun right "srun, 1 on each node" 60 "$LAUNCH" 1 "$build/bin/launched" ranks 2
        ISO_LAUNCHER=srun right "srun, 2 on each node" 60 "$LAUNCH" 2 "$build/bin/launched" ranks 4
    else
        echo "skipped srun: $reason"
    fi
    slurm_stop
fi
spec 1 putget signals
spec 2 contexts
! full || spec 1 reductions setup barriers reinit teams threads symmetric_heap contexts strided point_to_point programs
! full || spec 2 hier point_to_point barriers programs
device 1 litmus
! full || device 1 matrix_rma handles matrix_wait heap matrix_moves matrix_reduce
! full || SHMEM_VIRTUAL_NODES=0,0,1,1 device 2 coll_hier
# All of these by peer memory, as the CPU device allows it; dma-bufs and reads that flush have doubles.
! full || right "device memory by peer memory" 60 "$LAUNCH" 1 "$build/bin/verbs_methods" peer
right "device memory by peer memory, flushed" 60 "$LAUNCH" 1 "$build/bin/verbs_methods" peer flushes
! full || right "device memory by dma-buf" 60 "$LAUNCH" 1 "$build/bin/verbs_methods" dmabuf
right "device memory by dma-buf, flushed" 60 "$LAUNCH" 1 "$build/bin/verbs_methods" dmabuf flushes
! full || SHMEM_SEED=11 device 1 litmus # with a seed, writes are flushed
tells "isomer-info: how device memory is reached" 30 "device memory by peer memory (no dmabuf: memory of the CPU device" \
    "$LAUNCH" 1 "$build/bin/isomer-info" --device
tells "the doctor: which ports there are" 30 "ok: RDMA devices: rxea port 1 ACTIVE (Ethernet), rxeb port 1 ACTIVE (Ethernet)" \
    "$NODE" a "$build/bin/isomer-info" --doctor
export SHMEM_DEVICE_RDMA=staged
right "device memory staged" 60 "$LAUNCH" 1 "$build/bin/verbs_methods" staged
! full || device 1 litmus matrix_rma
unset SHMEM_DEVICE_RDMA
for shape in "3 3" "4 2 9000"; do
    # shellcheck disable=SC2086
    SHMEM_TRANSPORT=verbs right "kernels that outlive PEs, $shape" 90 "$NODE" a "$build/bin/outlives" $shape
done
right "calls to the device, counted" 60 "$LAUNCH" 1 "$build/bin/counts"
right "small puts that join, counted" 60 "$LAUNCH" 1 "$build/bin/joins"
right "pages that are given back while a peer asks for their key" 60 "$LAUNCH" 1 "$build/bin/verbs_punch" /run/verbs_punch
! full || right "threads that connect at once, 1 on each node" 60 "$LAUNCH" 1 "$build/bin/connects"
right "threads that connect at once, 2 on each node" 90 "$LAUNCH" 2 "$build/bin/connects"
! full || right "random traffic, 1 on each node" 90 "$LAUNCH" 1 "$build/bin/traffic" $(full && echo 10000 || echo 2000) 4
right "random traffic, 2 on each node" 90 "$LAUNCH" 2 "$build/bin/traffic" $(full && echo 2000 || echo 500) 2
right "random traffic, 2 threads in 1 on each node" 60 "$LAUNCH" 1 "$build/bin/traffic" 1500 2 2
! full || SHMEM_TEST_FAULT=stray ends "random traffic finds a stray put" 60 "memory here is not what its writer wrote" \
    "$LAUNCH" 1 "$build/bin/traffic" 200 1

# Two of four PEs are killed, one after the other; the others leave and begin again with new queue pairs.
ISO_NODES="$(cat /run/node.a):rxea,$(cat /run/node.b):rxeb" ISO_FAULT_SEED=${ISO_FAULT_SEED:-3} \
    SHMEM_BOOT_TIMEOUT=15 right "PEs that outlive a job" 200 "$build/bin/survivors" kill $(full && echo 2 || echo 1) 4

# ---- what must fail, with a sentence ----

for round in $(full && seq 3 || seq 1); do
    ends "kill -9 of PE $((round % 2)), number $round" 30 "pe $((round % 2)) .*died" \
        "$LAUNCH" 1 "$build/bin/fault_victim" $RANDOM $((RANDOM % 1000)) $((round % 2))
done

export SHMEM_NIC_TIMEOUT=0.1 SHMEM_NODE_TIMEOUT=4
# 4 s by SHMEM_NIC_TIMEOUT, but the guest's kernel may run nothing else for seconds while the link goes down under
# traffic: what its devices repeat then takes the one processor.
if chosen "the cable of the RDMA devices is pulled"; then
    later 4 ip link set ra down
    ends "the cable of the RDMA devices is pulled" 60 "to pe [01] \(host [ab], rxe[ab] .*failed: .*(link|node)" \
        "$LAUNCH" 1 "$build/bin/fault_victim" 5 3600000 1
    ip link set ra up
fi
if chosen "the other cable is pulled"; then
    later 4 "$NODE" b ip link set nb down
    ends "the other cable is pulled" 30 "pe [01] on [ab] is taken for dead.*SHMEM_NODE_TIMEOUT" \
        "$LAUNCH" 1 "$build/bin/fault_victim" 5 3600000 1
    "$NODE" b ip link set nb up
fi
unset SHMEM_NODE_TIMEOUT
. "$here/verbs_faults.sh"

# ---- what the devices repair ----

tc qdisc add dev ra root netem loss 0.5%
right "random traffic, a packet in 200 is lost" 90 "$LAUNCH" 1 "$build/bin/traffic" $(full && echo 1000 || echo 500) 2
tc qdisc change dev ra root netem delay 200us reorder 99%
! full || right "random traffic, a packet in 100 is late" 90 "$LAUNCH" 1 "$build/bin/traffic" 1000 2
tc qdisc change dev ra root netem delay 1ms reorder 50%
! full || SHMEM_NIC_TIMEOUT=0.02 right "random traffic, every second packet is late" 90 "$LAUNCH" 1 "$build/bin/traffic" 300 2
tc qdisc del dev ra root
unset SHMEM_NIC_TIMEOUT

# ---- by libfabric: the same devices; TCP, and UDP below a provider, on a network that delays, loses and reorders ----

export ISO_NET=head SHMEM_TRANSPORT='ofi:verbs;ofi_rxm'
! full || right "spec_putget by verbs;ofi_rxm, 1 on each node" $seconds "$LAUNCH" 1 "$build/spec/spec_putget"
! full || right "spec_barriers by verbs;ofi_rxm, 1 on each node" $seconds "$LAUNCH" 1 "$build/spec/spec_barriers"
right "random traffic by verbs;ofi_rxm, 1 on each node" 90 "$LAUNCH" 1 "$build/bin/traffic" $(full && echo 1000 || echo 300) 2
unset ISO_NET
"$NODE" a tc qdisc add dev na root netem delay 1ms loss 1% reorder 25%
export SHMEM_TRANSPORT='ofi:tcp;ofi_rxm'
right "random traffic by tcp;ofi_rxm, late, lost and reordered" 90 "$LAUNCH" 1 "$build/bin/traffic" $(full && echo 300 || echo 150) 2
export SHMEM_TRANSPORT='ofi:udp;ofi_rxd'
right "random traffic by udp;ofi_rxd, late, lost and reordered" 90 "$LAUNCH" 1 "$build/bin/traffic" $(full && echo 100 || echo 15) 2
unset SHMEM_TRANSPORT
"$NODE" a tc qdisc del dev na root

[ -z "${ISO_GUEST_FULL-}" ] || . "$here/guest_full.sh"

echo "$failures failures"
[ $failures -eq 0 ]
