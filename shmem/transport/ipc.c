/* SPDX-License-Identifier: MIT */
/* Peers of this node. Nearly all their memory is mapped and never comes here. The edges of registered buffers (pages
 * shared with other data) do: the kernel copies them between address spaces (process_vm_writev, process_vm_readv). The
 * copy is done when the call returns, so fence and quiet have nothing to do. */
#include "transport.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

static bool ipc_reaches(const struct peer *peer, const char **why)
{
    *why = peer->local ? "same node: by pointer" : "this build has no transport between nodes";
    return peer->local;
}

_Noreturn ISO_COLD static void ipc_refuse(const char *what, const struct place *at, int error)
{
    errno = error;
    __extension__ iso_fatal(
        what,
        "copying to or from pe %d (pid %d) by cross-memory attach failed: %m; page-align the buffer, or "
        "allow ptrace between processes of one user",
        at->pe, ISO->peers[at->pe].pid);
}

static void ipc_put(struct ctx *ctx, struct place to, const struct far_local *source)
{
    struct iovec here = {source->addr, source->len};
    struct iovec there = {to.segment->peers[to.pe].base + iso_place_offset(to), source->len};
    (void)ctx;
    if (process_vm_writev(ISO->peers[to.pe].pid, &here, 1, &there, 1, 0) != (ssize_t)source->len)
        ipc_refuse("put", &to, errno);
}

static void ipc_get(struct ctx *ctx, struct place from, const struct far_local *dest)
{
    struct iovec here = {dest->addr, dest->len};
    struct iovec there = {from.segment->peers[from.pe].base + iso_place_offset(from), dest->len};
    (void)ctx;
    if (process_vm_readv(ISO->peers[from.pe].pid, &here, 1, &there, 1, 0) != (ssize_t)dest->len)
        ipc_refuse("get", &from, errno);
}

void iso_far_allow_reads(void)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* still only processes of our own user */
}

int iso_far_read_private(int pe, const struct iovec *ranges, int n, void *into)
{
    const struct peer *peer = &ISO->peers[pe];
    struct iovec there = ranges[0], here = {into, 0};
    if (peer->threaded) {
        char *to = (char *)into;
        for (int i = 0; i < n; to += ranges[i++].iov_len)
            memcpy(to, ranges[i].iov_base, ranges[i].iov_len);
        return 0;
    }
    if (peer->pid <= 0)
        return -ESRCH;
    for (int i = 0; i < n; i++)
        here.iov_len += ranges[i].iov_len;
    while (here.iov_len > 0) { /* one call moves less than 2 GiB */
        ssize_t moved = process_vm_readv(peer->pid, &here, 1, n == 1 ? &there : ranges, (unsigned long)n, 0);
        if (moved <= 0 || (n > 1 && (size_t)moved != here.iov_len))
            return moved < 0 ? -errno : -EFAULT;
        here = (struct iovec){(char *)here.iov_base + moved, here.iov_len - (size_t)moved};
        there = (struct iovec){(char *)there.iov_base + moved, here.iov_len};
    }
    return 0;
}

const struct transport_ops iso_transport_ipc = {
    .name = "ipc",
    .by_pointer = true,
    .reaches = ipc_reaches,
    .put = ipc_put,
    .get = ipc_get,
};
