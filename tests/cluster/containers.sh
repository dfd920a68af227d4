#!/bin/bash
# SPDX-License-Identifier: MIT
# PEs in PID namespaces of their own, as in containers: memory of the library is shared, what is slower says so, and so
# does the doctor.
. "$(dirname "$0")/cluster.sh"
oshrun=$(program oshrun)
info=$(program isomer-info)
calls=$(program device_coll_on_host)
alone="unshare --pid --fork --mount-proc"
$alone true 2>/dev/null || skip "unshare --pid is not allowed"

job 60 "$oshrun" -n 2 $alone "$calls"
expect_status 0 "collectives of the host"
expect_message "^\[pe [01]\] warning: .*private memory of pe [01] cannot be read: it is in another PID namespace" "long blocks"
[ "$(grep -c "cannot be read" "$work/err")" -le 2 ] || fail "more than one sentence of a PE"
job 60 "$oshrun" -n 2 "$calls"
expect_status 0 "collectives of the host in one namespace"
expect_no_message "PID namespace" "long blocks in one namespace"

job 20 "$oshrun" -n 2 $alone "$info" --doctor start
expect_status 0 "the doctor of two containers"
expect_lines 1 "^warning: pe 1 of this node is in another PID namespace: .*" "the doctor of two containers"
job 20 "$oshrun" -n 2 "$info" --doctor start
expect_lines 1 "^ok: the PEs of this node see each other's processes .*" "the doctor of one namespace"
job 20 $alone "$info" --doctor
expect_lines 1 "^ok: this is a container with a PID namespace of its own: .*" "the doctor in a container"
finish
