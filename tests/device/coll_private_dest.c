/* SPDX-License-Identifier: MIT */
/* A buffer that no peer touches lies in the device heap on one member and in private memory on the others: dest of
 * reducescatter, source of fcollect, alltoall, alltoallv and permute. shmemx_coll.h allows it, and the members have to
 * choose the same schedule all the same: when they did not, dests were wrong and the next call never ended. */
#include "coll_case.h"

enum { MOST_WORDS = 24000, CALLS = 3 };

struct places {
    uint64_t *heap[2], *own[2]; /* dest, source: device heap; nobody else knows */
    uint64_t *words;            /* alltoallv: bytes, source and dest offsets */
    uint64_t *host;
    shmemx_blocks_t blocks;
    shmemx_stream_t stream;
};

static uint64_t word_of(int pe, int call, uint64_t i)
{
    return device_mix((uint32_t)(pe * 64 + call), (uint32_t)i) | (uint64_t)1 << (pe % 32 + 20);
}

/* What member m of the world sends to this PE, or all of them combined. */
static uint64_t expected(const shmemx_coll_t *q, int call, uint64_t i)
{
    int n = shmem_n_pes(), me = shmem_my_pe(), from = (int)(i / q->nelems);
    uint64_t at = i % q->nelems, most = 0;
    switch (q->kind) {
    case SHMEMX_FCOLLECT:
        return word_of(from, call, at);
    case SHMEMX_PERMUTE:
        return word_of(q->from, call, at);
    case SHMEMX_REDUCESCATTER:
        for (int m = 0; m < n; m++) {
            uint64_t word = word_of(m, call, (uint64_t)me * q->nelems + at);
            most = word > most ? word : most;
        }
        return most;
    default:
        return word_of(from, call, (uint64_t)me * q->nelems + at);
    }
}

static void write_words(struct places *p, uint64_t *to, bool own, uint64_t words)
{
    if (own && device_is_cpu()) {
        memcpy(to, p->host, words * 8);
        return;
    }
    device_write(own ? p->heap[0] : to, p->host, words * 8); /* no call uses that one when the source is private */
    if (own)
        shmem_getmem(to, p->heap[0], words * 8, shmem_my_pe());
}
static void read_words(struct places *p, uint64_t *from, bool own, uint64_t words)
{
    if (own && device_is_cpu()) {
        memcpy(p->host, from, words * 8);
        return;
    }
    if (own)
        device_write(p->heap[1], from, words * 8);
    device_read(p->host, own ? p->heap[1] : from, words * 8);
}

static void one_call(struct places *p, int kind, uint64_t words, int private_from, int call)
{
    static const char *const names[] = {KIND_NAMES};
    uint64_t n = (uint64_t)shmem_n_pes(), me = (uint64_t)shmem_my_pe(), bad = 0;
    bool own = (int)me >= private_from, scatters = kind == SHMEMX_REDUCESCATTER;
    bool own_dest = own && scatters, own_source = own && !scatters;
    uint64_t sources = kind == SHMEMX_FCOLLECT || kind == SHMEMX_PERMUTE ? 1 : n;
    uint64_t dests = scatters || kind == SHMEMX_PERMUTE ? 1 : n;
    uint64_t *dest = own_dest ? p->own[0] : p->heap[0], *source = own_source ? p->own[1] : p->heap[1];
    shmemx_coll_t q = shmemx_coll_of(kind, SHMEM_TEAM_WORLD, dest, source, words, SHMEMX_UINT64);
    q.op = SHMEMX_MAX; /* which only kernels for any operator have */
    q.to = (int)((me + 1) % n);
    q.from = (int)((me + n - 1) % n);
    q.blocks = kind == SHMEMX_ALLTOALLV ? &p->blocks : NULL;
    for (uint64_t m = 0; m < n; m++) {
        p->host[m] = words * 8;
        p->host[n + m] = m * words * 8;
        p->host[2 * n + m] = me * words * 8;
    }
    device_write(p->words, p->host, 3 * n * 8);
    for (uint64_t i = 0; i < sources * words; i++)
        p->host[i] = word_of((int)me, call, i);
    write_words(p, source, own_source, sources * words);
    shmem_barrier_all();
    CHECK_OR_EXIT(shmemx_coll_on_stream(&q, p->stream) == 0);
    CHECK_EQ(shmemx_stream_synchronize(p->stream), 0);
    read_words(p, dest, own_dest, dests * words);
    for (uint64_t i = 0; i < dests * words; i++)
        bad += p->host[i] != expected(&q, call, i);
    char what[160];
    snprintf(what, sizeof what, "%s of %llu words, private on members from %d on, call %d: wrong words", names[kind],
             (unsigned long long)words, private_from, call);
    CHECK_EQ_NAMED(bad, 0, what);
    shmem_barrier_all();
}

static int test_main(void)
{
    static const int kinds[] = {SHMEMX_REDUCESCATTER, SHMEMX_FCOLLECT, SHMEMX_ALLTOALL, SHMEMX_ALLTOALLV,
                                SHMEMX_PERMUTE};
    static const uint64_t sizes[] = {1, 700, 1025, MOST_WORDS};
    DEVICE_INIT();
    struct places p;
    size_t bytes = (size_t)MOST_WORDS * 8 * (size_t)shmem_n_pes();
    int call = 0;
    memset(&p, 0, sizeof p);
    for (int i = 0; i < 2; i++) {
        p.heap[i] = (uint64_t *)shmemx_malloc(bytes, SHMEMX_DEVICE);
        p.own[i] = (uint64_t *)own_malloc((bytes + 4095) / 4096 * 4096);
        CHECK_OR_EXIT(p.heap[i] != NULL && p.own[i] != NULL);
    }
    p.words = (uint64_t *)shmemx_malloc(3 * 8 * (size_t)shmem_n_pes(), SHMEMX_DEVICE);
    p.host = (uint64_t *)malloc(bytes);
    CHECK_OR_EXIT(p.words != NULL && p.host != NULL && shmemx_stream_create(&p.stream) == 0);
    p.blocks.bytes = p.words;
    p.blocks.source_offset = p.words + shmem_n_pes();
    p.blocks.dest_offset = p.words + 2 * shmem_n_pes();
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int i = 0; i < CALLS; i++)
                one_call(&p, kinds[k], sizes[s], i == 2 ? 0 : shmem_n_pes() - 1 - i, ++call);
    CHECK_EQ(shmemx_stream_destroy(p.stream), 0);
    shmem_barrier_all();
    shmemx_free(p.words);
    for (int i = 1; i >= 0; i--) {
        own_free(p.own[i]);
        shmemx_free(p.heap[i]);
    }
    free(p.host);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
