#!/bin/bash
# SPDX-License-Identifier: MIT
# Runs in the guest, sourced by guest_tests.sh: what must end with a sentence when a job over two nodes is set up
# wrongly, or may not lock memory, or uses a key that no PE gave. "${nic[@]}" VALUE COMMAND... starts it with that
# SHMEM_NIC, in which NIC stands for the device of the node.
nic=("$LAUNCH" 1 sh -c 'value=$1; shift; SHMEM_NIC=$(echo "$value" | sed "s/NIC/rxe$(hostname)/") exec "$@"' sh)

victim=$build/bin/verbs_victim
ends "SHMEM_NIC names no device" 30 'SHMEM_NIC: nosuch\): there is no such device; this host has rxea, rxeb' "${nic[@]}" nosuch "$victim"
! full || ends "SHMEM_NIC names no port" 30 'SHMEM_NIC: rxe[ab]\): rxe[ab] port 7 does not exist' "${nic[@]}" NIC:7 "$victim"
! full || ends "SHMEM_NIC names no GID" 30 'SHMEM_NIC: rxe[ab]\): rxe[ab] port 1 has no GID' "${nic[@]}" NIC:1:99 "$victim"
! full || ends "SHMEM_NIC is no name" 30 'SHMEM_NIC is "rxea:x", allowed: device' "${nic[@]}" rxea:x "$victim"
right "SHMEM_NIC has two values, one for each PE of the node" 30 "${nic[@]}" NIC,nosuch "$victim"
ip link set ra down
ends "a port is down" 30 'SHMEM_NIC: rxea\): rxea port 1 is not active' "${nic[@]}" NIC "$victim"
tells "the doctor: no port is up" 30 "warning: RDMA devices: rxea port 1 DOWN" "$NODE" a "$build/bin/isomer-info" --doctor
ip link set ra up
chmod 600 /dev/infiniband/uverbs0
tells "the doctor: a device file of root's" 30 "warning: /dev/infiniband/uverbs0 cannot be read and written by this user" \
    setpriv --reuid 65534 --clear-groups "$build/bin/isomer-info" --doctor
chmod 666 /dev/infiniband/uverbs0
ends "no memory may be locked" 30 'limit of locked memory is 64 KiB \(raise it: ulimit -l' "${nic[@]}" NIC "$victim" locked 64
ends "the heap may not be locked" 30 'cannot register memory .* limit of locked memory there is 2048 KiB \(raise it' \
    "${nic[@]}" NIC "$victim" locked 2048
export SHMEM_DEVICE_RDMA=dmabuf
ends "the CPU device has no dma-bufs" 30 'SHMEM_DEVICE_RDMA is "dmabuf", but rxe[ab] of pe .* no dma-buf' \
    "${nic[@]}" NIC "$build/bin/verbs_methods" peer
! full || SHMEM_DEVICE_RDMA=dma ends "a method that does not exist" 30 'SHMEM_DEVICE_RDMA is "dma", allowed is dmabuf, peer' \
    "${nic[@]}" NIC "$victim"
unset SHMEM_DEVICE_RDMA
ends "a key that no PE gave" 30 'put of 8 bytes .* to pe 1 .*the key does not fit' "${nic[@]}" NIC "$victim" key
! full || ends "two kinds of network" 30 'pe 0 \(host a\) uses rxea port 1, which is InfiniBand, and pe 1 .*Ethernet.* SHMEM_NIC' \
    "${nic[@]}" NIC "$victim" layers
ends "a connection that is there" 30 'connecting pe 0 .* to pe 1 .* failed there: Operation already in progress' \
    "${nic[@]}" NIC "$victim" twice
ends "a PE of the other node has left" 30 'pe 1 has left the job, by shmem_finalize or a start that failed, while this PE waits in shmem_barrier_all' \
    "$LAUNCH" 1 "$build/bin/waits" left barrier
! full || ends "a PE of the other node has left, the heap" 30 'pe 1 has left the job, by shmem_finalize or a start that failed, while this PE waits in shmem_malloc' \
    "$LAUNCH" 1 "$build/bin/waits" left malloc
right "PEs of both nodes leave at different times" 60 "$LAUNCH" 2 "$build/bin/waits" sessions $(full && echo 4 || echo 2)
