# SPDX-License-Identifier: MIT
# Sourced in the guest: makes the nodes a and b. Each has its own network, processes, host name, shared memory and IPC;
# the RDMA devices rxea and rxeb sit on the two ends of a cable (ra, rb) in the initial namespace, since rdma_rxe of
# this kernel sends from there, and are seen by both nodes. TCP goes by a bridge, where jobs are started from:
# 10.8.0.0/24.
ulimit -l unlimited
hostname head
ip link set lo up
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
printf '127.0.0.1 localhost\n10.8.0.3 head\n10.8.0.1 a\n10.8.0.2 b\n' >/etc/hosts

guest_device() { # NODE ADDRESS
    ip link set "r$1" mtu 9000
    echo 1 >"/proc/sys/net/ipv4/conf/r$1/accept_local"
    echo 0 >"/proc/sys/net/ipv4/conf/r$1/rp_filter"
    ip addr add "10.7.0.$2/24" dev "r$1"
    ip link set "r$1" up
    rdma link add "rxe$1" type rxe netdev "r$1"
}

guest_node() { # NODE ADDRESS: a process holds its namespaces and collects its orphans
    ip netns add "$1"
    ip -n "$1" link set lo up
    ip link add "n$1" mtu 9000 netns "$1" type veth peer name "h$1" mtu 9000
    ip link set "h$1" master hub up
    ip -n "$1" addr add "10.8.0.$2/24" dev "n$1"
    ip -n "$1" link set "n$1" up
    ip netns exec "$1" unshare -u -m -i -p -f --mount-proc bash -c "
        hostname $1
        mount -t tmpfs shm /dev/shm
        touch /run/node.$1
        while :; do sleep 3600 & wait; done" </dev/null >/dev/null 2>&1 &
    disown # a bare "wait" is for jobs
    while [ ! -e "/run/node.$1" ]; do sleep 0.05; done
    pgrep -f "hostname $1" -P $! >"/run/node.$1"
}

ip link add ra type veth peer name rb
guest_device a 1
guest_device b 2
ip link add hub mtu 9000 type bridge
ip link set hub up
ip addr add 10.8.0.3/24 dev hub
guest_node a 1
guest_node b 2
