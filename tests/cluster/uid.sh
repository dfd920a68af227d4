# SPDX-License-Identifier: MIT
# Sourced after cluster.sh: jobs that a script starts by SHMEM_UID, SHMEM_RANK, SHMEM_SIZE.

# address:port:secret, with a port that nobody listens on now.
new_uid() {
    local port
    while :; do
        port=$((20000 + RANDOM % 12000))
        (: </dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    echo "127.0.0.1:$port:$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')"
}

# start_by_hand N UID PROGRAM...: a program text for `job`, which starts commands, not functions.
cat >"$work/start_by_hand" <<'S'
#!/bin/bash
size=$1
export SHMEM_SIZE=$1 SHMEM_UID=$2
shift 2
pids=
for ((rank = size - 1; rank >= 0; rank--)); do
    SHMEM_RANK=$rank "$@" &
    pids="$pids $!"
done
worst=0
for pid in $pids; do
    wait "$pid" || worst=$?
done
exit $worst
S
chmod +x "$work/start_by_hand"
PATH=$work:$PATH
