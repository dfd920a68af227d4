#!/bin/bash
# SPDX-License-Identifier: MIT
# Real verbs without the hardware: two nodes with a Soft-RoCE device each, in a small machine under emulation (guest.sh).
# The programs of tests/spec and random traffic over both nodes, then deaths and broken links. ISO_GUEST_LIMIT (seconds)
# bounds it all; ISO_GUEST_FULL=1 and ISO_GUEST_ONLY choose (guest_tests.sh). `soft_roce.sh BUILD-FOLDER`
. "$(dirname "$0")/cluster.sh"
command -v qemu-system-x86_64 >/dev/null || skip "no qemu-system-x86_64 (package qemu-system-x86)"
command -v rdma >/dev/null || skip "no rdma (package iproute2)"
ls /usr/lib/*/libibverbs/librxe-rdmav*.so >/dev/null 2>&1 || skip "no librxe (package ibverbs-providers)"
[ "$(uname -m)" = x86_64 ] || skip "the guest is an x86_64 one"
guest=$build/guest
reason=$("$here/guest_prepare.sh" "$guest" 2>&1) || skip "${reason#skipped: }"
LIMIT=${ISO_GUEST_LIMIT:-1700} "$here/guest.sh" "$guest" "export ISO_BUILD='$build' ISO_GUEST_FULL='${ISO_GUEST_FULL-}' \
    ISO_GUEST_ONLY='${ISO_GUEST_ONLY-}'; bash '$here/guest_tests.sh'"
status=$?
[ $status -eq 0 ] || failures=1
finish
