#!/bin/bash
# SPDX-License-Identifier: MIT
# guest_prepare.sh FOLDER: makes FOLDER/vmlinux and FOLDER/initrd of Debian's kernel, whose packages it downloads there;
# nothing is installed, and nothing done where they are newer than the scripts. Ends with 77 and a sentence where it
# cannot.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/packages"
cd "$1"
exec 9>lock # of guest.sh
flock 9
if [ -s vmlinux ] && [ -s initrd ] && [ initrd -nt "$here/guest_init.sh" ] && [ initrd -nt "$here/guest_prepare.sh" ]; then
    exit 0
fi

cannot() {
    echo "skipped: $*"
    exit 77
}

for tool in apt-get apt-cache dpkg-deb xz; do
    command -v $tool >/dev/null || cannot "no $tool here, which takes a kernel for the guest from Debian's packages"
done
[ "$(uname -m)" = x86_64 ] || cannot "the guest is an x86_64 one"

kernel_package() { apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1; }
download() { (cd packages && apt-get -q download "$(kernel_package)" busybox-static) >download.log 2>&1; }

if [ ! -s packages/done ]; then
    rm -f packages/*
    download || { apt-get update >/dev/null 2>&1 && download; } ||
        cannot "apt-get cannot download linux-image-amd64 and busybox-static: $(tail -n 1 download.log)"
    kernel_package >packages/done
fi
version=$(sed 's/^linux-image-//' packages/done)

rm -rf kernel root
mkdir -p kernel root/bin root/proc root/sys root/dev root/root
dpkg-deb --fsys-tarfile packages/busybox-static_*.deb | tar x -C root ./bin/busybox
modules="./lib/modules/$version/kernel"
dpkg-deb --fsys-tarfile packages/linux-image-*.deb | tar x -C kernel --wildcards "./boot/vmlinuz-$version" \
    "./lib/modules/$version/modules.*" "$modules/drivers/infiniband/core/*" "$modules/drivers/infiniband/sw/rxe/*" \
    "$modules/drivers/virtio/*" "$modules/drivers/net/veth.ko" "$modules/net/bridge/bridge.ko" \
    "$modules/net/802/*" "$modules/net/llc/*" "$modules/net/9p/*" "$modules/fs/9p/*" \
    "$modules/fs/netfs/*" "$modules/fs/fscache/*" "$modules/fs/overlayfs/*" "$modules/fs/configfs/*" \
    "$modules/net/ipv4/udp_tunnel.ko" "$modules/net/ipv6/ip6_udp_tunnel.ko" "$modules/net/sched/sch_netem.ko" \
    "$modules/drivers/char/hw_random/*" "$modules/crypto/crc32*" "$modules/arch/x86/crypto/crc32*"
mv kernel/lib root/
root/bin/busybox depmod -b root "$version"
cp "$here/guest_init.sh" root/init
chmod 755 root/init
(cd root && find . | ./bin/busybox cpio -o -H newc 2>/dev/null) >initrd

# The kernel without its compression: seconds less for every start.
image="kernel/boot/vmlinuz-$version"
offset=$(LC_ALL=C grep -abo -m 1 -P '\xfd7zXZ\x00' "$image" | head -n 1 | cut -d : -f 1)
[ -n "$offset" ] || cannot "the kernel $version is not compressed by xz"
tail -c +$((offset + 1)) "$image" | xz -dc --single-stream >vmlinux.new 2>/dev/null || true
[ "$(head -c 4 vmlinux.new | tail -c 3)" = ELF ] || cannot "no ELF file came out of the kernel $version"
mv vmlinux.new vmlinux
rm -rf kernel root
