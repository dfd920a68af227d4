# SPDX-License-Identifier: MIT
# Sourced after cluster.sh: two nodes as network namespaces of this host, with a cable (veth) between them, and
# libfabric. Offers the names of the nodes, which are those of their ends of the cable, too: $a is 10.88.0.1, $b is
# 10.88.0.2; more nodes at a hub, add_wide; and "$work/ofi_job". Skips where there is no root, no namespace or no
# libfabric.
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" = 0 ] || skip "only root makes network namespaces"
command -v ip >/dev/null || skip "no ip (package iproute2)"
ldconfig -p | grep -q 'libfabric\.so\.1 ' || skip "no libfabric.so.1 (package libfabric1)"
a=iso$$a b=iso$$b # of the nodes, their namespaces and the ends of the cable
reason=$(ip netns add $a 2>&1) || skip "no network namespace can be made: $reason"
hub=iso$$h n_wide=0
wide() { # NUMBER: the name of that node at the hub
    echo "iso$$n$1"
}
remove_nodes() {
    local node
    ip netns del $a
    for node in $b $([ $n_wide = 0 ] || echo $hub $(for ((i = 1; i <= n_wide; i++)); do wide $i; done)); do
        ip netns del $node 2>/dev/null
    done
}
at_exit=remove_nodes
reason=$( (ip netns add $b && ip link add $a netns $a type veth peer name $b netns $b) 2>&1) ||
    skip "no cable between two network namespaces can be made: $reason"
for node in $a $b; do
    ip -n $node link set lo up
    ip -n $node addr add 10.88.0.$([ $node = $a ] && echo 1 || echo 2)/24 dev $node
    ip -n $node link set $node up
done
for node in $a $b; do # a cable takes a moment until it carries
    for _ in $(seq 100); do
        ! ip -n $node link show $node | grep -q 'state UP' || break
        sleep 0.05
    done
done

# More nodes, each with a cable to a hub, which answers for all of them and passes packets on.
add_wide() { # HOW-MANY
    local node
    n_wide=$1
    ip netns add $hub || return
    ip -n $hub link set lo up
    ip netns exec $hub sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 1 >/proc/sys/net/ipv4/conf/default/proxy_arp
        echo 0 >/proc/sys/net/ipv4/neigh/default/proxy_delay'
    for ((i = 1; i <= n_wide; i++)); do
        node=$(wide $i)
        ip netns add $node && ip link add $node netns $node type veth peer name $node netns $hub || return
        ip -n $node -batch - <<S || return
link set lo up
addr add 10.88.1.$i/24 dev $node
link set $node up
S
        ip -n $hub -batch - <<S || return
link set $node up
route add 10.88.1.$i/32 dev $node
S
    done
}

# ofi_job PER-NODE PROGRAM...: by unique id, the PEs of the first node first; each node has its own host name. OFI_NODES:
# so many nodes at the hub, instead of the two with a cable.
cat >"$work/ofi_job" <<S
#!/bin/bash
per_node=\$1 pids= worst=0 nodes="$a $b" root=10.88.0.1
shift
if [ -n "\${OFI_NODES-}" ]; then
    nodes=\$(seq -f "iso$$n%.0f" \$OFI_NODES) root=10.88.1.1
fi
set -- \$nodes -- "\$@"
nodes=()
while [ "\$1" != -- ]; do
    nodes+=("\$1")
    shift
done
shift
export SHMEM_SIZE=\$((\${#nodes[@]} * per_node)) SHMEM_TRANSPORT=\${SHMEM_TRANSPORT-ofi}
export SHMEM_UID=\$root:\$((20000 + RANDOM % 12000)):\$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
for ((rank = 0; rank < SHMEM_SIZE; rank++)); do
    node=\${nodes[rank / per_node]}
    SHMEM_RANK=\$rank ip netns exec \$node unshare -u sh -c 'hostname \$0; exec "\$@"' \$node "\$@" &
    pids="\$pids \$!"
done
for pid in \$pids; do
    wait "\$pid" || worst=\$?
done
exit \$worst
S
chmod +x "$work/ofi_job"
