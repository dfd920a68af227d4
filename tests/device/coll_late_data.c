/* SPDX-License-Identifier: MIT */
/* Collectives into registered buffers whose ends share their pages with other data, so that no pointer of a peer
 * reaches them: data goes by the ring and flags by pointer. Each call's dest is looked at by the same kernel, or by the
 * next one of the stream, and poisoned again: data that lands behind the end of its call is found at once. */
#include "coll_case.h"

enum { THREADS = 32, MOST = 6000, BEFORE = 24, ROUNDS = 200 };

struct late_args {
    shmemd_t h;
    unsigned char *dest;
    unsigned char *source;
    uint64_t *blocks;   /* alltoallv: bytes, source and dest offsets, received; n each */
    uint64_t *received; /* symmetric, in the buffer as well */
    uint64_t *wrong;    /* bytes that were not what they should be */
    uint64_t bytes, first, rounds;
    int32_t kind, me, n;
};

SHMEMD_FN unsigned char late_byte(int32_t pe, uint64_t round, uint64_t i)
{
    return (unsigned char)(form_mix((uint32_t)pe * 8191 + (uint32_t)round, (uint32_t)i) | 1); /* never 0 */
}
SHMEMD_FN uint64_t late_source_bytes(struct late_args a)
{
    bool all = a.kind == SHMEMX_ALLTOALL || a.kind == SHMEMX_ALLTOALLV;
    return a.bytes * (all ? (uint64_t)a.n : 1);
}
SHMEMD_FN uint64_t late_dest_bytes(struct late_args a)
{
    return a.bytes * (a.kind == SHMEMX_PERMUTE ? 1 : (uint64_t)a.n);
}
SHMEMD_FN unsigned char late_expected(struct late_args a, uint64_t round, uint64_t i)
{
    int32_t from = a.kind == SHMEMX_PERMUTE ? (a.me + a.n - 1) % a.n : (int32_t)(i / a.bytes);
    bool of_me = a.kind == SHMEMX_ALLTOALL || a.kind == SHMEMX_ALLTOALLV;
    return late_byte(from, round, (of_me ? (uint64_t)a.me * a.bytes : 0) + i % a.bytes);
}

SHMEMD_FN void late_make(struct late_args a, uint64_t round)
{
    uint64_t rank = shmemd_thread_index(), size = shmemd_block_size();
    for (uint64_t i = rank; i < late_source_bytes(a); i += size)
        a.source[i] = late_byte(a.me, round, i);
    for (uint64_t m = rank; m < (uint64_t)a.n; m += size) {
        a.blocks[m] = a.bytes;
        a.blocks[(uint64_t)a.n + m] = m * a.bytes;
        a.blocks[2 * (uint64_t)a.n + m] = (uint64_t)a.me * a.bytes;
    }
}
/* Zero is what nobody sends. */
SHMEMD_FN void late_look(struct late_args a, uint64_t round)
{
    uint64_t rank = shmemd_thread_index(), size = shmemd_block_size(), wrong = 0;
    for (uint64_t i = rank; i < late_dest_bytes(a); i += size) {
        wrong += a.dest[i] != late_expected(a, round, i);
        a.dest[i] = 0;
    }
    for (uint64_t m = rank; m < (uint64_t)a.n && a.kind == SHMEMX_ALLTOALLV; m += size) {
        wrong += a.received[m] != a.bytes;
        a.received[m] = 0;
    }
    if (wrong != 0)
        (void)prim_fetch_add_u64(a.wrong, wrong);
    shmemd_group_sync(shmemd_block());
}

SHMEMD_KERNEL(late_fill, struct late_args, a) { late_make(a, a.first); }
SHMEMD_KERNEL(late_check, struct late_args, a) { late_look(a, a.first); }

/* A kernel for each kind: one with all of them needs more registers than a GPU has. */
#define LATE_CALLS(name, call)                                                \
    SHMEMD_KERNEL(name, struct late_args, a)                                  \
    {                                                                         \
        for (uint64_t round = a.first; round < a.first + a.rounds; round++) { \
            late_make(a, round);                                              \
            if ((call) != 0 && shmemd_thread_index() == 0)                    \
                (void)prim_fetch_add_u64(a.wrong, 1);                         \
            late_look(a, round);                                              \
        }                                                                     \
    }
LATE_CALLS(late_fcollect, shmemd_fcollectmem_block(a.h, a.dest, a.source, a.bytes))
LATE_CALLS(late_alltoall, shmemd_alltoallmem_block(a.h, a.dest, a.source, a.bytes))
LATE_CALLS(late_permute,
           shmemd_permutemem_block(a.h, a.dest, a.source, a.bytes, (a.me + 1) % a.n, (a.me + a.n - 1) % a.n))

static void in_kernel(const struct late_args *a, shmemx_stream_t stream)
{
    if (a->kind == SHMEMX_FCOLLECT)
        DEVICE_LAUNCH(late_fcollect, 1, THREADS, *a, stream);
    else if (a->kind == SHMEMX_ALLTOALL)
        DEVICE_LAUNCH(late_alltoall, 1, THREADS, *a, stream);
    else
        DEVICE_LAUNCH(late_permute, 1, THREADS, *a, stream);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
}

static void on_stream(const struct late_args *a, shmemx_stream_t stream)
{
    shmemx_coll_t q = shmemx_coll_of(a->kind, SHMEM_TEAM_WORLD, a->dest, a->source, a->bytes, SHMEMX_UINT8);
    shmemx_blocks_t blocks = {a->blocks, a->blocks + a->n, a->blocks + 2 * a->n, a->received};
    struct late_args at = *a;
    q.to = (a->me + 1) % a->n;
    q.from = (a->me + a->n - 1) % a->n;
    q.blocks = a->kind == SHMEMX_ALLTOALLV ? &blocks : NULL;
    for (uint64_t round = 0; round < a->rounds; round++) {
        at.first = a->first + round;
        DEVICE_LAUNCH(late_fill, 1, THREADS, at, stream);
        CHECK_OR_EXIT(shmemx_coll_on_stream(&q, stream) == 0);
        DEVICE_LAUNCH(late_check, 1, THREADS, at, stream);
    }
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
}

static void check_none_wrong(const struct late_args *a, const char *where)
{
    static const char *const names[] = {KIND_NAMES};
    uint64_t wrong, none = 0;
    char what[160];
    device_read(&wrong, a->wrong, 8);
    snprintf(what, sizeof what, "%s %s of %llu bytes: bytes that were not there at its end", names[a->kind], where,
             (unsigned long long)a->bytes);
    CHECK_EQ_NAMED(wrong, 0, what);
    device_write(a->wrong, &none, 8);
    shmem_barrier_all();
}

/* At the begin of the buffer, and well inside of it. */
static void test_place(struct late_args *a, unsigned char *dest, shmemx_stream_t stream)
{
    static const int kinds[] = {SHMEMX_FCOLLECT, SHMEMX_ALLTOALL, SHMEMX_ALLTOALLV, SHMEMX_PERMUTE};
    static const uint64_t sizes[] = {1601, MOST};
    a->dest = dest;
    for (int k = 0; k < 4; k++)
        for (int s = 0; s < 2; s++) {
            a->kind = kinds[k];
            a->bytes = sizes[s];
            a->rounds = (uint64_t)device_number("SHMEM_TEST_REPLAYS", ROUNDS);
            on_stream(a, stream);
            check_none_wrong(a, "on a stream");
            a->first += a->rounds;
            if (a->kind == SHMEMX_ALLTOALLV)
                continue;
            in_kernel(a, stream);
            check_none_wrong(a, "in a kernel");
            a->first += a->rounds;
        }
}

static int test_main(void)
{
    DEVICE_INIT();
    struct late_args a;
    shmemx_stream_t stream;
    uint64_t n = (uint64_t)shmem_n_pes(), received = (n * MOST + 7) / 8 * 8, room = received + n * 8 + 5;
    size_t pages = (2 * room + 3 * 4096) / 4096 * 4096;
    memset(&a, 0, sizeof a);
    char *memory = (char *)own_malloc(pages);
    CHECK_OR_EXIT(memory != NULL && shmemx_stream_create(&stream) == 0);
    unsigned char *buffer = (unsigned char *)memory + BEFORE + 8 * shmem_my_pe();
    if (device_is_cpu())
        memset(memory, 0, pages);
    CHECK_OR_EXIT(shmemx_buffer_register(buffer, 2 * room + 4096, NULL) == 0);
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    a.source = (unsigned char *)shmemx_malloc(n * MOST, SHMEMX_DEVICE);
    a.blocks = (uint64_t *)shmemx_calloc(3 * n, 8, SHMEMX_DEVICE);
    a.wrong = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(a.source != NULL && a.blocks != NULL && a.wrong != NULL);
    a.me = shmem_my_pe();
    a.n = shmem_n_pes();
    a.received = (uint64_t *)(void *)(buffer + received);
    test_place(&a, buffer, stream);
    test_place(&a, buffer + (room + 4096) / 8 * 8, stream);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    CHECK_EQ(shmemx_buffer_unregister(buffer), 0);
    shmemx_free(a.wrong);
    shmemx_free(a.blocks);
    shmemx_free(a.source);
    own_free(memory);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
