#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# First process of the guest. The host's / (through 9p, read-only) under a layer in memory becomes the guest's, so that
# what the host built runs at the same path; iso.share=FOLDER is writable, has the command and takes its status.
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in virtio_pci 9pnet_virtio 9p overlay veth bridge crc32_generic rdma_rxe rdma_ucm sch_netem virtio_rng; do
    $b modprobe $module || echo "no module $module"
done
for word in $($b cat /proc/cmdline); do
    case $word in iso.share=*) share=${word#iso.share=} ;; esac
done
options=trans=virtio,version=9p2000.L,msize=524288
$b mkdir -p /lower /upper
$b mount -t 9p -o ro,$options,cache=loose host /lower
$b mount -t tmpfs -o size=60% upper /upper
$b mkdir /upper/files /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /root
for kind in proc sysfs devtmpfs; do
    name=$kind
    [ $kind != sysfs ] || name=sys
    [ $kind != devtmpfs ] || name=dev
    $b mount -t $kind $kind /root/$name
done
$b mkdir -p /root/dev/pts /root/dev/shm "/root$share"
$b mount -t devpts devpts /root/dev/pts
$b mount -t tmpfs shm /root/dev/shm
$b mount -t tmpfs run /root/run
$b mount -t 9p -o $options,cache=none share "/root$share"

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
: >"/root$share/started"
$b stty -F /dev/ttyS1 raw -echo
$b chroot /root /bin/bash "$share/command" </dev/null >/dev/ttyS1 2>&1
echo $? >"/root$share/status"
$b sync
$b poweroff -f
