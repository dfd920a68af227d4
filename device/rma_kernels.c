/* SPDX-License-Identifier: MIT */
/* Operations on streams as kernels: what a copy engine does not do better (small payloads, signals, waits), and what
 * goes by the ring. All state is in device memory, so a graph replays them without the host. A kernel's end makes its
 * stores visible to whatever comes later in the stream. They are launched early, so each begins by waiting for what is
 * before it. Launched by shmem/gpu/stream.c. Includes: include/. */
#include "../include/shmem_device.h"

PRIM_KERNEL(isod_put_kernel, struct isod_stream_move, a)
{
    prim_stream_wait();
    isod_put(a.h, prim_group_block(), isod_bytes_of(a.dest, a.source, a.bytes), a.pe);
    prim_stream_pass();
}

PRIM_KERNEL(isod_put_signal_kernel, struct isod_stream_move, a)
{
    prim_stream_wait();
    isod_put_signal(a.h, prim_group_block(), isod_bytes_of(a.dest, a.source, a.bytes),
                    isod_signal_of(a.sig_addr, a.signal, a.sig_op), a.pe);
    prim_stream_pass();
}

PRIM_KERNEL(isod_get_kernel, struct isod_stream_move, a)
{
    prim_stream_wait();
    isod_get(a.h, prim_group_block(), isod_bytes_of(a.dest, a.source, a.bytes), a.pe);
    prim_stream_pass();
}

/* One thread. Behind the copies and kernels that stand before it in the stream; the fence orders what those stored. */
PRIM_KERNEL(isod_signal_kernel, struct isod_stream_move, a)
{
    prim_stream_wait();
    isod_fence(a.h, prim_group_thread()); /* pairs with the acquire of who waits for the signal */
    isod_signal_send(a.h, isod_signal_of(a.sig_addr, a.signal, a.sig_op), a.pe);
    prim_stream_pass();
}

/* One thread. */
PRIM_KERNEL(isod_wait_kernel, struct isod_stream_wait, a)
{
    prim_stream_wait();
    if (!isod_is_dead(a.h))
        (void)isod_wait(a.h, isod_until_of(ISOD_U64, a.sig_addr, a.cmp, a.value),
                        isod_who(ISOD_CALL_ON_STREAM_WAIT, -1), (uint64_t *)0);
    prim_stream_pass();
}

/* One thread. */
PRIM_KERNEL(isod_quiet_kernel, struct isod_stream_sync, a)
{
    prim_stream_wait();
    isod_quiet(a.h, prim_group_thread());
    prim_stream_pass();
}

PRIM_KERNEL(isod_barrier_kernel, struct isod_stream_sync, a)
{
    prim_stream_wait();
    (void)isod_barrier_block(a.h);
    prim_stream_pass();
}

PRIM_KERNEL(isod_sync_kernel, struct isod_stream_sync, a)
{
    prim_stream_wait();
    (void)isod_sync_block(a.h);
    prim_stream_pass();
}
