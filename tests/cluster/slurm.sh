# SPDX-License-Identifier: MIT
# Sourced: a private Slurm of two virtual nodes n1, n2 on this machine, with its own munge, in $work/slurm.
# slurm_start returns 1 and sets `reason` where that cannot work; slurm_stop, run at exit, ends everything.
# Who has other nodes (guest_slurm.sh) defines these three anew:
slurm_nodes="n1 n2"
slurm_place() { echo "$(hostname) 127.0.0.1"; } # NODE, or nothing for the controller: host name and address
slurm_on() { shift && "$@"; }                   # NODE COMMAND...

# Below the ports that the system gives to clients: one of those may be taken by somebody who does not listen.
free_port() {
    local port
    while :; do
        port=$((10000 + RANDOM % 20000))
        (: </dev/tcp/127.0.0.1/$port) 2>/dev/null || break
    done
    echo $port
}

slurm_pids() {
    cat "$work"/slurm/*.pid 2>/dev/null
}

slurm_stop() {
    local pids pid tries
    pids=$(slurm_pids)
    [ -z "$pids" ] && return
    kill -TERM $pids 2>/dev/null
    for tries in $(seq 50); do
        kill -0 $pids 2>/dev/null || break
        sleep 0.1
    done
    for pid in $pids; do
        kill -KILL "$pid" 2>/dev/null
    done
}

slurm_config() {
    local place node
    read -ra place <<<"$(slurm_place)"
    cat <<CONF
ClusterName=isotest
SlurmctldHost=${place[0]}(${place[1]})
AuthType=auth/munge
AuthInfo=socket=$work/slurm/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/slurm/state
SlurmdSpoolDir=$work/slurm/spool-%n
SlurmctldPidFile=$work/slurm/ctld.pid
SlurmdPidFile=$work/slurm/d-%n.pid
SlurmctldLogFile=$work/slurm/ctld.log
SlurmdLogFile=$work/slurm/d-%n.log
SlurmctldPort=$(free_port)
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
TmpFS=$work/slurm/tmp-%n
SlurmdParameters=config_overrides
PartitionName=p Nodes=${slurm_nodes/ /,} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
CONF
    for node in $slurm_nodes; do
        read -ra place <<<"$(slurm_place $node)"
        echo "NodeName=$node NodeHostname=${place[0]} NodeAddr=${place[1]} Port=$(free_port) CPUs=64 RealMemory=1000 State=UNKNOWN"
    done
}

munge_start() {
    (umask 077 && dd if=/dev/urandom of="$work/slurm/munge.key" bs=128 count=1 2>/dev/null)
    munged --force --socket="$work/slurm/munge.sock" --key-file="$work/slurm/munge.key" \
        --pid-file="$work/slurm/munged.pid" --log-file="$work/slurm/munged.log" \
        --seed-file="$work/slurm/munge.seed" >"$work/slurm/munged.out" 2>&1
}

nodes_are_up() {
    [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" -eq 2 ]
}

# 0, or 1 and `reason`.
slurm_start() {
    local tool node begun
    reason="Slurm is started by root only"
    [ "$(id -u)" -eq 0 ] || return 1
    for tool in munged slurmctld slurmd srun sinfo; do
        reason="$tool is not installed (packages slurm-wlm and munge)"
        command -v $tool >/dev/null || return 1
    done
    chmod 755 "$work" # munge refuses a socket in a folder that others cannot reach
    mkdir -p "$work/slurm/state"
    for node in $slurm_nodes; do
        mkdir -p "$work/slurm/spool-$node" "$work/slurm/tmp-$node"
    done
    at_exit=slurm_stop
    export SLURM_CONF=$work/slurm/slurm.conf
    slurm_config >"$SLURM_CONF"
    munge_start && slurmctld -f "$SLURM_CONF"
    for node in $slurm_nodes; do
        slurm_on "$node" slurmd -f "$SLURM_CONF" -N "$node"
    done
    begun=$SECONDS # sinfo alone may take seconds when nobody answers
    until nodes_are_up || [ $((SECONDS - begun)) -ge "${slurm_patience:-20}" ]; do
        sleep 0.1
    done
    reason="the Slurm nodes do not come up: $(tail -qn 2 "$work"/slurm/*.log "$work"/slurm/munged.out | tr '\n' ' ')"
    nodes_are_up || return 1
    reason="this Slurm has no PMIx plugin"
    srun --mpi=list 2>&1 | grep -q pmix
}
