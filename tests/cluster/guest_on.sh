#!/bin/bash
# SPDX-License-Identifier: MIT
# guest_on.sh NODE COMMAND...: runs it on a node of the guest. As mpirun's agent the words are a command line for a shell
# (ISO_AGENT=1). ISO_NET=head: in the network of the RDMA devices' cable, for what connects by their addresses.
node=$1
shift
[ -z "${ISO_AGENT-}" ] || set -- sh -c "$*"
exec nsenter -t "$(cat "/run/node.$node")" -u -m -i -p $([ "${ISO_NET-}" = head ] || printf -- -n) -r --wd="$PWD" "$@"
