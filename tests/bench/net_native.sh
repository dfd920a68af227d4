#!/bin/bash
# SPDX-License-Identifier: MIT
# Started by net_run -t, as root: net_native.sh PROGRAMS TURN. Two nodes are network namespaces of this host with a cable
# (veth) between them; PROGRAMS has isomer, fabric and, if there is one, oshmem. All go by tcp: Isomer and fabric over
# libfabric, oshmem over UCX. Lines of `PEs,system,metric,value,unit`, in turn, in odd TURNs the other way round; `again`
# is isomer once more.
set -u
programs=$1 turn=$2
work=$(mktemp -d)
a=net$$a b=net$$b
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMIX_MCA_pcompress_base_silence_warning=1

remove_nodes() {
    ip netns del $a
    ip netns del $b
    rm -rf "$work"
} 2>/dev/null
trap remove_nodes EXIT
trap 'exit 1' INT TERM HUP
ip netns add $a && ip netns add $b && ip link add $a netns $a type veth peer name $b netns $b || exit 77
for node in $a $b; do
    ip -n $node link set lo up
    ip -n $node addr add 10.91.0.$([ $node = $a ] && echo 1 || echo 2)/24 dev $node
    ip -n $node link set $node up
done
for node in $a $b; do # a cable takes a moment until it carries
    while ! ip -n $node link show $node | grep -q 'state UP'; do sleep 0.05; done
done

# mpirun's agent: its words are a command line for a shell. UCX tells nodes apart by their IPC namespace.
cat >"$work/on" <<'S'
#!/bin/bash
node=$1
shift
exec ip netns exec "$node" unshare -u -i sh -c 'hostname "$0"; export UCX_NET_DEVICES=$0; eval "$1"' "$node" "$*"
S
chmod +x "$work/on"

# job PER-NODE SYSTEM [start]: one run, its lines; with `start`, the time of the whole command too
job() {
    local per_node=$1 system=$2 program=$2 begin=$EPOCHREALTIME status words=()
    [ "$system" != again ] || program=isomer
    if [ "$system" = oshmem ]; then
        words=(--mca pml ucx --mca spml ucx --mca opal_common_ucx_opal_mem_hooks 0 --mca opal_common_ucx_tls any
            --mca opal_common_ucx_devices any -x UCX_TLS=tcp,self,sm)
    fi
    ip netns exec $a timeout -k 5 90 mpirun --mca plm rsh --mca plm_rsh_agent "$work/on" \
        --mca oob_tcp_if_include 10.91.0.0/24 --mca btl_tcp_if_include 10.91.0.0/24 --mca btl ^openib \
        --mca mpi_yield_when_idle 1 --bind-to none --host "$a:$per_node,$b:$per_node" --map-by slot \
        -np $((2 * per_node)) -x SHMEM_TRANSPORT=ofi -x SHMEM_SYMMETRIC_SIZE=64M "${words[@]}" \
        "$programs/$program" "$system" ${3-} </dev/null >"$work/out" 2>"$work/err"
    status=$?
    sed -n "s/^net,/$per_node+$per_node,/p" "$work/out"
    [ $status -eq 0 ] || echo "net_native: failed: $system at $per_node+$per_node: status $status: $(tail -n 1 "$work/err")"
    [ -z "${3-}" ] || [ $status -ne 0 ] || echo "$per_node+$per_node,$system,whole command,$(bc <<<"$EPOCHREALTIME - $begin"),s"
}

jobs() { # PER-NODE [start]
    local systems=(isomer oshmem again) i
    [ -x "$programs/oshmem" ] || systems=(isomer again)
    for ((i = 0; i < ${#systems[@]}; i++)); do
        job "$1" "${systems[turn % 2 ? ${#systems[@]} - 1 - i : i]}" "${@:2}"
    done
}

# The provider (its name from libfabric 1.18 on: tcp) and TCP without a runtime
bare() {
    local server
    ip netns exec $a timeout -k 5 60 "$programs/fabric" net 10.91.0.1 18515 &
    server=$!
    ip netns exec $b timeout -k 5 60 "$programs/fabric" net 10.91.0.2 18515 10.91.0.1 | sed -n "s/^net,/1+1,/p"
    wait $server || echo "net_native: failed: fabric"
}

bare
jobs 1
jobs 2
jobs 2 start
job 2 launcher start
