/* SPDX-License-Identifier: MIT */
/* Peers of this node. Nearly all their memory is mapped and never comes here. The edges of registered buffers (pages
 * shared with other data) do: the kernel copies them between address spaces (process_vm_writev, process_vm_readv). The
 * copy is done when the call returns, so fence and quiet have nothing to do. */
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

static void put(struct ctx *ctx, struct place to, const struct far_local *source)
{
    struct iovec here = {source->addr, source->len};
    struct iovec there = {to.segment->peers[to.pe].base + to.offset, source->len};
    (void)ctx;
    if (process_vm_writev(ISO->peers[to.pe].pid, &here, 1, &there, 1, 0) != (ssize_t)source->len)
        refuse("put", &to, errno);
}

static void get(struct ctx *ctx, struct place from, const struct far_local *dest)
{
    struct iovec here = {dest->addr, dest->len};
    struct iovec there = {from.segment->peers[from.pe].base + from.offset, dest->len};
    (void)ctx;
    if (process_vm_readv(ISO->peers[from.pe].pid, &here, 1, &there, 1, 0) != (ssize_t)dest->len)
        refuse("get", &from, errno);
}

const struct transport_ops iso_transport_ipc = {
    .name = "ipc",
    .by_pointer = true,
    .reaches = reaches,
    .put = put,
    .get = get,
};
