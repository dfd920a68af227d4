#!/bin/bash
# SPDX-License-Identifier: MIT
# guest.sh FOLDER COMMAND: boots a small machine (QEMU, kernel and initrd in FOLDER), runs the shell command in it and
# ends with its status; 125 if the machine does not come up or runs out of time. One machine at a time per FOLDER.
#   LIMIT=240  seconds for it all       GUEST_CPUS=1  GUEST_MB=2048
# One processor, since two that wait for each other need both of the host's at the same moment: under load messages took
# milliseconds, and the retransmission timer of the RDMA device fired without a loss. Speed is measured with two.
# In the command: $NODE NODE COMMAND... (guest_on.sh), $LAUNCH PER_NODE PROGRAM... (guest_launch.sh), $SHARE (a folder
# that is the same inside and outside).
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=$(cd "$1" && pwd)
exec 9>"$folder/lock"
flock 9
share=$folder/share
mkdir -p "$share"
machine=
trap '[ -z "$machine" ] || kill -KILL $machine 2>/dev/null' EXIT
trap 'exit 125' INT TERM HUP

# Always by emulation: /dev/kvm may be there and not be able to run a kernel. Without the fast string instructions, which
# the emulation does byte by byte: RDMA devices write aligned words whole. Programs lie at the same addresses each time
# (norandmaps): what is emulated once is kept by its address, so a job of two PEs starts in a third of the time.
boot() {
    rm -f "$share"/started "$share"/status
    qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-erms,-fsrm -M q35 -smp "${GUEST_CPUS:-1}" -m "${GUEST_MB:-2048}" \
        -nodefaults -no-user-config -display none -no-reboot -kernel "$folder/vmlinux" -initrd "$folder/initrd" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on no_timer_check nmi_watchdog=0 \
nowatchdog norandmaps iso.share=$share" -serial "file:$folder/console" -serial stdio -device virtio-rng-pci \
        -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -fsdev local,id=share,path="$share",security_model=none \
        -device virtio-9p-pci,fsdev=share,mount_tag=share </dev/null 9>&- &
    machine=$!
}

# Waits at most $1 seconds until the machine ended or the file $2 is there.
wait_for() {
    local until=$((SECONDS + $1))
    while [ $SECONDS -lt $until ] && [ ! -e "$2" ] && kill -0 $machine 2>/dev/null; do sleep 0.1; done
    [ -e "$2" ]
}

{
    echo "export NODE='$here/guest_on.sh' LAUNCH='$here/guest_launch.sh' SHARE='$share'"
    echo "cd '$PWD'"
    echo ". '$here/guest_nodes.sh'"
    echo "$2"
} >"$share/command"
for try in 1 2 3; do
    boot
    wait_for 60 "$share/started" && break
    echo "guest.sh: the machine does not come up (try $try): $(tail -n 1 "$folder/console")" >&2
    kill -KILL $machine 2>/dev/null
    wait $machine 2>/dev/null
done
if ! wait_for "${LIMIT:-240}" "$share/status"; then
    echo "guest.sh: no status of the command after ${LIMIT:-240} s or the machine ended; its console:" >&2
    tail -n 20 "$folder/console" >&2
    exit 125
fi
wait_for 5 /nonexistent
kill -KILL $machine 2>/dev/null
status=$(cat "$share/status")
exit "${status:-125}"
