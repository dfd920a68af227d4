/* SPDX-License-Identifier: MIT */
/* Fence and quiet, for every file that issues operations. */
#ifndef ISO_ORDER_H
#define ISO_ORDER_H

#include "far.h"

/* A PE that acquires a store after the fence (wait_until, test, fetch) also sees the stores before the fence.
 * glibc's memcpy ends its non-temporal copies with sfence, so a release fence is enough on x86. */
ISO_INLINE void iso_fence(struct ctx *ctx)
{
#ifndef __SANITIZE_THREAD__ /* TSan does not model fences; there every flag is itself a release store */
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
    if (ISO_UNLIKELY(iso_ctx_is_dirty(ctx)))
        iso_far_fence(ctx);
}

/* All earlier operations of ctx are complete and visible, also before this PE's later loads: a full fence. */
ISO_INLINE void iso_quiet(struct ctx *ctx)
{
#ifndef __SANITIZE_THREAD__
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
    if (ISO_UNLIKELY(iso_ctx_is_dirty(ctx)))
        iso_far_quiet(ctx);
}
/* Waits until the proxy (proxy.c) has completed what kernels of this PE have posted to their rings so far. Only kernels
 * that have ended are covered: their entries are visible here since the host knows of their end. */
ISO_INLINE void iso_drain_rings(const char *call)
{
    const uint64_t *used = __atomic_load_n(&ISO->ring_used, __ATOMIC_ACQUIRE); /* pairs with iso_proxy_start */
    if (ISO_UNLIKELY(used != NULL) && __atomic_load_n(used, __ATOMIC_RELAXED) != 0)
        ISO->above.drain_rings(call);
}
/* The rings of kernels, and every context of this PE that is not private to another thread: allocation, finalize. */
void iso_quiet_all(const char *call);

#endif
