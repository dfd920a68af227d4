# SPDX-License-Identifier: MIT
# Sourced in the guest: a private Slurm of the nodes a and b, each with a slurmd of its own, the controller beside them.
# Then ISO_LAUNCHER=srun. slurm_start returns 1 and sets `reason`; it is not stopped: the guest is.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=/tmp/guest_slurm
. "$here/slurm.sh"
mkdir -p "$work/slurm"
echo "CgroupPlugin=cgroup/v1" >"$work/slurm/cgroup.conf" # or it looks for control groups, which nothing here needs
slurm_nodes="a b"
slurm_patience=40
slurm_place() {
    case ${1-} in
    a) echo a 10.8.0.1 ;;
    b) echo b 10.8.0.2 ;;
    *) echo head 10.8.0.3 ;;
    esac
}
slurm_on() { "$NODE" "$@"; }
slurm_stop() { pkill -KILL -x 'munged|slurmctld|slurmd'; }
