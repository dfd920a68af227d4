/* SPDX-License-Identifier: MIT */
/* Peers of this node. Nearly everything of theirs is mapped and never comes here; what does are the edges of registered
 * buffers (pages shared with other data), which the kernel copies from address space to address space
 * (process_vm_writev, process_vm_readv: done when the call returns, so fence and quiet have nothing to do). */
#include "transport.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

static bool reaches(const struct peer *peer, const char **why)
{
    *why = peer->local ? "same node: by pointer" : "this build has no transport between nodes";
    return peer->local;
}

_Noreturn ISO_COLD static void refuse(const char *what, const struct place *at, int error)
{
    errno = error;
    __extension__ iso_fatal(
        what,
        "copying to or from pe %d (pid %d) by cross-memory attach failed: %m; page-align the buffer, or "
        "allow ptrace between processes of one user",
        at->pe, ISO->peers[at->pe].pid);
}

static void put(struct ctx *ctx, struct place to, const void *source, size_t len)
{
    struct iovec here = {(void *)(uintptr_t)source, len}, there = {to.segment->peers[to.pe].base + to.offset, len};
    (void)ctx;
    if (process_vm_writev(ISO->peers[to.pe].pid, &here, 1, &there, 1, 0) != (ssize_t)len)
        refuse("put", &to, errno);
}

static void get(struct ctx *ctx, void *dest, struct place from, size_t len)
{
    struct iovec here = {dest, len}, there = {from.segment->peers[from.pe].base + from.offset, len};
    (void)ctx;
    if (process_vm_readv(ISO->peers[from.pe].pid, &here, 1, &there, 1, 0) != (ssize_t)len)
        refuse("get", &from, errno);
}

const struct transport_ops iso_transport_ipc = {
    .name = "ipc",
    .by_pointer = true,
    .reaches = reaches,
    .put = put,
    .get = get,
};
