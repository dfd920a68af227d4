/* SPDX-License-Identifier: MIT */
/* shmemx_coll_on_host against the references of coll_values.h: all kinds, types and operators, sizes at and around what
 * a piece holds, odd ones and none; dest and source at any address, private on one member and symmetric on another; in
 * place; the world, teams made from lists and teams of one; wrong arguments, and ones that differ between members. No
 * device is started. SHMEM_TEST_NO_ATTACH=1: on odd PEs the kernel refuses to read other processes' memory, so all use
 * stages. SHMEM_TEST_TIMES=1 prints times beside those of shmem_float_sum_reduce and shmem_fcollectmem. */
#include "coll_values.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

enum { MEMBERS_MOST = 64, GUARD = 64, MOST_BYTES = 3 * 65536 };

/* A team and this PE's memory: two places, of which each member takes another one each time. */
struct host {
    shmem_team_t team;
    int world[MEMBERS_MOST]; /* of each member */
    int me, n;
    unsigned round;
    unsigned char *symmetric[2], *local[2], *of_library, *expected;
};

/* Room for `bytes` at an odd address, poisoned with its guards. */
static unsigned char *place(struct host *h, int which)
{
    bool symmetric = h->round % 2 == 0 || ((unsigned)h->me + h->round + (unsigned)which) % 3 == 0;
    unsigned char *at = (symmetric ? h->symmetric : h->local)[which];
    if (which == 1 && h->round % 4 == 0 && h->me % 2 == 1)
        at = h->of_library;
    memset(at, CHECK_POISON, MOST_BYTES);
    return at + GUARD + (h->round * 5 + (unsigned)h->me * 3) % 17;
}

static bool is_poison(const unsigned char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (at[i] != CHECK_POISON)
            return false;
    return true;
}

static void check_result(struct host *h, const char *call, const shmemx_coll_t *coll, const void *dest, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)dest;
    char words[128];
    snprintf(words, sizeof words, "%s of %zu of %s, op %d, on %d PEs", call, coll->nelems,
             values_types[coll->type].name, coll->op, h->n);
    CHECK_NAMED(memcmp(at, h->expected, bytes) == 0, words);
    CHECK_NAMED(is_poison(at + bytes, GUARD) && is_poison(at - GUARD, GUARD), words);
}

static shmemx_coll_t begin(struct host *h, int kind, size_t nelems, int type)
{
    h->round++;
    return shmemx_coll_of(kind, h->team, place(h, 0), place(h, 1), nelems, type);
}

/* All members learn that their calls differ: where pointers reach all, or where it is asked for. */
static bool compares(const struct host *h)
{
    bool all = true;
    for (int m = 0; m < h->n; m++)
        all = all && shmem_ptr(h->symmetric[0], h->world[m]) != NULL;
    return all || device_flag("SHMEM_DEBUG");
}

/* ---- moves, of bytes ---- */

static void test_fcollect(struct host *h, size_t bytes, bool in_place)
{
    shmemx_coll_t coll = begin(h, SHMEMX_FCOLLECT, bytes, SHMEMX_UINT8);
    if (in_place)
        coll.source = (unsigned char *)coll.dest + (size_t)h->me * bytes;
    values_bytes(h->world[h->me], h->round, 0, bytes, (unsigned char *)(uintptr_t)coll.source);
    for (int m = 0; m < h->n; m++)
        values_bytes(h->world[m], h->round, 0, bytes, h->expected + (size_t)m * bytes);
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    check_result(h, "fcollect", &coll, coll.dest, bytes * (size_t)h->n);
}

static void test_alltoall(struct host *h, size_t bytes)
{
    shmemx_coll_t coll = begin(h, SHMEMX_ALLTOALL, bytes, SHMEMX_UINT8);
    values_bytes(h->world[h->me], h->round, 0, bytes * (size_t)h->n, (unsigned char *)(uintptr_t)coll.source);
    for (int m = 0; m < h->n; m++)
        values_bytes(h->world[m], h->round, (size_t)h->me * bytes, bytes, h->expected + (size_t)m * bytes);
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    check_result(h, "alltoall", &coll, coll.dest, bytes * (size_t)h->n);
}

static void test_broadcast(struct host *h, size_t bytes, bool in_place)
{
    shmemx_coll_t coll = begin(h, SHMEMX_BROADCAST, bytes, SHMEMX_UINT8);
    coll.root = (int)(h->round % (unsigned)h->n);
    if (in_place)
        coll.source = coll.dest;
    if (h->me == coll.root)
        values_bytes(h->world[h->me], h->round, 0, bytes, (unsigned char *)(uintptr_t)coll.source);
    values_bytes(h->world[coll.root], h->round, 0, bytes, h->expected);
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    check_result(h, "broadcast", &coll, coll.dest, bytes);
}

static void test_permute(struct host *h, size_t bytes)
{
    shmemx_coll_t coll = begin(h, SHMEMX_PERMUTE, bytes, SHMEMX_UINT8);
    int by = (int)(h->round % (unsigned)h->n);
    coll.to = (h->me + by) % h->n;
    coll.from = (h->me + h->n - by) % h->n;
    values_bytes(h->world[h->me], h->round, 0, bytes, (unsigned char *)(uintptr_t)coll.source);
    values_bytes(h->world[coll.from], h->round, 0, bytes, h->expected);
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    check_result(h, "permute", &coll, coll.dest, bytes);
}

/* From member a to b: nothing, all, a part. */
static uint64_t block_bytes(const struct host *h, int a, int b, uint64_t most)
{
    uint64_t of[] = {0, most, most / 2, most / 3 + 1};
    return of[(unsigned)(a * 3 + b + (int)h->round) % 4];
}

/* Blocks lie in opposite order in source and in dest, most + 1 bytes apart. */
static void test_alltoallv(struct host *h, uint64_t most)
{
    uint64_t bytes[MEMBERS_MOST], from[MEMBERS_MOST], to[MEMBERS_MOST], received[MEMBERS_MOST];
    shmemx_coll_t coll = begin(h, SHMEMX_ALLTOALLV, 0, SHMEMX_UINT8);
    shmemx_blocks_t blocks = {bytes, from, to, h->me % 2 == 0 ? received : NULL};
    coll.blocks = &blocks;
    memset(h->expected, CHECK_POISON, (size_t)h->n * (most + 2));
    for (int m = 0; m < h->n; m++) {
        bytes[m] = block_bytes(h, h->me, m, most);
        from[m] = (uint64_t)(h->n - 1 - m) * (most + 2);
        to[m] = (uint64_t)h->me * (most + 2);
        received[m] = 77;
        values_bytes(h->world[h->me], h->round, (size_t)m, bytes[m],
                     (unsigned char *)(uintptr_t)coll.source + from[m]);
        values_bytes(h->world[m], h->round, (size_t)h->me, block_bytes(h, m, h->me, most),
                     h->expected + (uint64_t)m * (most + 2));
    }
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    check_result(h, "alltoallv", &coll, coll.dest, (size_t)h->n * (most + 2));
    for (int m = 0; m < h->n && blocks.received != NULL; m++)
        CHECK_EQ(received[m], block_bytes(h, m, h->me, most));
}

/* A third of the calls are in place at the root; the other side of the others is not looked at. */
static void test_gather(struct host *h, size_t bytes, bool scatters)
{
    shmemx_coll_t coll = begin(h, scatters ? SHMEMX_SCATTER : SHMEMX_GATHER, bytes, SHMEMX_UINT8);
    unsigned char *dest = (unsigned char *)coll.dest, *source = (unsigned char *)(uintptr_t)coll.source;
    size_t all = bytes * (size_t)h->n, own = bytes * (size_t)h->me;
    bool in_place = h->round % 3 == 0;
    coll.root = (int)(h->round % (unsigned)h->n);
    if (h->me != coll.root) {
        if (scatters)
            coll.source = h->round % 2 == 0 ? NULL : source;
        else
            coll.dest = h->round % 2 == 0 ? NULL : dest;
    } else if (in_place) {
        if (scatters)
            coll.dest = dest = source + own;
        else
            coll.source = source = dest + own;
    }
    if (!scatters || h->me == coll.root)
        values_bytes(h->world[h->me], h->round, 0, scatters ? all : bytes, source);
    for (int m = 0; m < h->n; m++)
        values_bytes(h->world[scatters ? coll.root : m], h->round, scatters ? (size_t)m * bytes : 0, bytes,
                     h->expected + (size_t)m * bytes);
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    if (scatters && h->me == coll.root && in_place)
        CHECK_NAMED(memcmp(source, h->expected, all) == 0, "scatter in place");
    else if (scatters)
        memmove(h->expected, h->expected + own, bytes);
    if (h->me == coll.root || scatters) {
        if (!scatters || h->me != coll.root || !in_place)
            check_result(h, scatters ? "scatter" : "gather", &coll, dest, scatters ? bytes : all);
    } else
        CHECK_NAMED(is_poison(dest, bytes), "gather, a member that is not the root");
}

/* Packed, or in opposite order and 3 bytes apart. `wrong`: member 0 expects one byte less of the others. */
static void test_host_blocks(struct host *h, size_t most, bool packed, bool wrong)
{
    size_t sent[MEMBERS_MOST], from[MEMBERS_MOST], comes[MEMBERS_MOST], to[MEMBERS_MOST], at[2] = {0, 0};
    shmemx_coll_t coll = begin(h, SHMEMX_ALLTOALLV, 0, SHMEMX_UINT8);
    shmemx_host_blocks_t blocks = {sent, packed ? NULL : from, comes, packed ? NULL : to};
    coll.host_blocks = &blocks;
    memset(h->expected, CHECK_POISON, (size_t)h->n * (most + 4)); /* a third of 0 is 1 here */
    for (int i = 0; i < h->n; i++) {
        int m = packed ? i : h->n - 1 - i;
        bool less = wrong && h->me == 0 && m != 0;
        sent[m] = wrong ? most : block_bytes(h, h->me, m, most);
        comes[m] = (wrong ? most : block_bytes(h, m, h->me, most)) - (less ? 1 : 0);
        from[m] = at[0];
        to[m] = at[1];
        at[0] += sent[m] + (packed ? 0 : 3);
        at[1] += comes[m] + (packed ? 0 : 3);
        values_bytes(h->world[h->me], h->round, (size_t)m, sent[m],
                     (unsigned char *)(uintptr_t)coll.source + from[m]);
        values_bytes(h->world[m], h->round, (size_t)h->me, comes[m], h->expected + to[m]);
    }
    CHECK_EQ(shmemx_coll_on_host(&coll) != 0, wrong && h->n > 1 && (h->me == 0 || compares(h)));
    check_result(h, "alltoallv of host blocks", &coll, coll.dest, at[1]);
}

/* Splits of 0 to `most` elements, with and without gaps, of all kinds of types. */
enum { SPLITS_MOST = 700 };
static size_t fill_splits(struct host *h, size_t nelems, size_t most, bool packed, size_t *sizes, size_t *offset)
{
    size_t at = 0, n = 0;
    for (; n < SPLITS_MOST && at <= nelems; n++) {
        uint64_t word = values_word(0, h->round, n);
        offset[n] = at;
        sizes[n] = word % 5 == 0 ? 0 : (size_t)(word / 8 % (most + 1));
        sizes[n] = sizes[n] < nelems - at ? sizes[n] : nelems - at;
        at += sizes[n] + (packed ? 0 : (size_t)(word >> 40) % 3);
    }
    return n;
}
static void test_splits(struct host *h, size_t nelems, size_t most, int type, int op)
{
    size_t sizes[SPLITS_MOST], offset[SPLITS_MOST], n = (size_t)h->n, me = (size_t)h->me;
    const struct values_type *t = &values_types[type];
    bool reduces = op >= 0, packed = h->round % 2 == 0;
    shmemx_coll_t coll = begin(h, reduces ? SHMEMX_REDUCESCATTER : SHMEMX_FCOLLECT, nelems, type);
    shmemx_splits_t splits = {fill_splits(h, nelems, most, packed, sizes, offset), sizes, packed ? NULL : offset, NULL,
                              NULL};
    unsigned char *source = (unsigned char *)(uintptr_t)coll.source;
    size_t bytes = nelems * t->bytes, to = reduces ? bytes : bytes * n;
    coll.splits = &splits;
    coll.op = reduces ? op : 0;
    coll.scale = VALUES_SCALE;
    memset(h->expected, CHECK_POISON, to);
    if (reduces)
        values_make(t, op, h->world[h->me], h->round, 0, nelems * n, source);
    else
        values_bytes(h->world[h->me], h->round, 0, bytes, source);
    for (size_t i = 0; i < splits.n; i++) {
        if (reduces)
            values_reduce(type, op, h->world, h->n, h->round, offset[i] * n + me * sizes[i], sizes[i],
                          h->expected + offset[i] * t->bytes);
        for (size_t m = 0; m < n && !reduces; m++)
            values_bytes(h->world[m], h->round, offset[i] * t->bytes, sizes[i] * t->bytes,
                         h->expected + (offset[i] * n + m * sizes[i]) * t->bytes);
    }
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    check_result(h, reduces ? "reducescatter of splits" : "fcollect of splits", &coll, coll.dest, to);
}

static void test_moves(struct host *h)
{
    static const size_t sizes[] = {0,    1,    3,    55,   57,    1000,  8159,  8160,
                                   8161, 8191, 8192, 8193, 16384, 16385, 16387, 30001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!check_has_case((unsigned)i))
            continue;
        for (int in_place = 0; in_place < 2; in_place++) {
            test_fcollect(h, sizes[i], in_place != 0);
            test_broadcast(h, sizes[i], in_place != 0);
        }
        test_alltoall(h, sizes[i]);
        test_permute(h, sizes[i]);
        test_alltoallv(h, sizes[i]);
        for (int k = 0; k < 6; k++)
            test_gather(h, sizes[i], k % 2 == 0);
        test_host_blocks(h, sizes[i], true, false);
        test_host_blocks(h, sizes[i], false, false);
        for (int k = 0; k < 4; k++)
            test_splits(h, sizes[i] / 4, k < 2 ? 30 : 3000, k % 2 == 0 ? SHMEMX_INT32 : SHMEMX_HALF, -1);
    }
    test_host_blocks(h, 20000, false, true);
}

/* ---- reductions ---- */

/* Half of the calls are in place. */
static void test_reduce(struct host *h, int kind, size_t nelems, int type, int op)
{
    const struct values_type *t = &values_types[type];
    shmemx_coll_t coll = begin(h, kind, nelems, type);
    double factor = VALUES_SCALE;
    bool scatters = kind == SHMEMX_REDUCESCATTER, in_place = h->round / 2 % 2 == 0, at_root = kind == SHMEMX_REDUCE;
    size_t bytes = nelems * t->bytes, own = scatters ? (size_t)h->me : 0;
    size_t all = scatters ? nelems * (size_t)h->n : nelems;
    if (in_place && scatters)
        coll.dest = (unsigned char *)(uintptr_t)coll.source + own * bytes;
    else if (in_place)
        coll.source = coll.dest;
    coll.op = op;
    coll.root = at_root ? (int)(h->round % (unsigned)h->n) : 0;
    at_root = at_root && h->me != coll.root;
    if (at_root && in_place)
        coll.dest = NULL;
    coll.scale = h->round % 2 == 0 ? VALUES_SCALE : -1;
    coll.scale_from = h->round % 2 == 0 ? NULL : &factor;
    values_make(t, op, h->world[h->me], h->round, 0, all, (unsigned char *)(uintptr_t)coll.source);
    values_reduce(type, op, h->world, h->n, h->round, own * nelems, nelems, h->expected);
    CHECK_EQ(shmemx_coll_on_host(&coll), 0);
    if (at_root)
        CHECK_NAMED(coll.dest == NULL || is_poison((unsigned char *)coll.dest, bytes), "reduce, not the root");
    else if (!in_place || !scatters)
        check_result(h, scatters ? "reducescatter" : "allreduce", &coll, coll.dest, bytes);
    else
        CHECK_NAMED(memcmp(coll.dest, h->expected, bytes) == 0, "reducescatter in place");
}

static void test_reductions(struct host *h)
{
    static const size_t sizes[] = {0, 1, 7, 129, 1023, 2049};
    for (int type = 0; type < VALUES_TYPES; type++)
        for (int op = 0; op < VALUES_OPS; op++) {
            if (!check_has_case((unsigned)(type + op)))
                continue;
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && values_has_op(type, op); i++) {
                test_reduce(h, SHMEMX_ALLREDUCE, sizes[i], type, op);
                test_reduce(h, SHMEMX_REDUCESCATTER, sizes[i], type, op);
                test_reduce(h, SHMEMX_REDUCE, sizes[i], type, op);
                test_splits(h, sizes[i], i % 2 == 0 ? 20 : 2000, type, op);
            }
            if (values_has_op(type, op) && (type + op) % 4 == 0) {
                test_reduce(h, SHMEMX_ALLREDUCE, 150001 / values_types[type].bytes, type, op);
                test_reduce(h, SHMEMX_REDUCE, 150001 / values_types[type].bytes, type, op);
                test_splits(h, 30000 / values_types[type].bytes, 100, type, op);
            }
            if (values_has_op(type, op) && (type + op) % 4 == 1)
                test_reduce(h, SHMEMX_REDUCESCATTER, 35001 / values_types[type].bytes, type, op);
        }
}

/* ---- barriers ---- */

static void test_barriers(struct host *h)
{
    uint64_t *word = (uint64_t *)(void *)h->symmetric[0];
    shmemx_coll_t coll = shmemx_coll_of(SHMEMX_SYNC, h->team, NULL, NULL, 0, 0);
    for (uint64_t i = 1; i <= 20; i++) {
        coll.kind = SHMEMX_SYNC;
        *word = 0;
        CHECK_EQ(shmemx_coll_on_host(&coll), 0);
        shmem_uint64_put_nbi(word, &i, 1, h->world[(h->me + 1) % h->n]);
        coll.kind = SHMEMX_BARRIER;
        CHECK_EQ(shmemx_coll_on_host(&coll), 0);
        CHECK_EQ(*word, i);
    }
}

/* ---- what is refused: by each member alone, with nothing done ---- */

static void test_refused(struct host *h)
{
    static unsigned char room[64];
    static uint64_t word;
    shmemx_coll_t good = shmemx_coll_of(SHMEMX_ALLREDUCE, h->team, room, room + 32, 1, SHMEMX_FLOAT), coll;
    CHECK(shmemx_coll_on_host(NULL) != 0);
#define REFUSED(change)                     \
    do {                                    \
        coll = good;                        \
        change;                             \
        CHECK(shmemx_coll_on_host(&coll) != 0); \
    } while (0)
    REFUSED(coll.kind = -1);
    REFUSED(coll.kind = SHMEMX_REDUCE + 1);
    REFUSED(coll.team = SHMEM_TEAM_INVALID);
    REFUSED(coll.type = SHMEMX_BOOL + 1);
    REFUSED(coll.op = SHMEMX_AND; coll.type = SHMEMX_FLOAT8_E5M2);
    REFUSED(coll.op = SHMEMX_AVG; coll.type = SHMEMX_BOOL);
    REFUSED(coll.op = SHMEMX_SCALED_SUM + 1);
    REFUSED(coll.op = SHMEMX_AND);
    REFUSED(coll.op = SHMEMX_AVG; coll.type = SHMEMX_INT32);
    REFUSED(coll.op = SHMEMX_MAX; coll.type = SHMEMX_COMPLEXF);
    REFUSED(coll.dest = NULL);
    REFUSED(coll.source = NULL);
    REFUSED(coll.source = room + 1);
    REFUSED(coll.nelems = (size_t)-1);
    REFUSED(coll.engines = 1);
    REFUSED(coll.background = 2);
    REFUSED(coll.signals = &word);
    REFUSED(coll.chunk_bytes = 8);
    REFUSED(coll.kind = SHMEMX_BROADCAST; coll.root = h->n);
    REFUSED(coll.kind = SHMEMX_PERMUTE; coll.to = -1);
    REFUSED(coll.kind = SHMEMX_ALLTOALLV);
    const size_t four[MEMBERS_MOST] = {4, 4, 4, 4, 4}, falling[] = {8, 4};
    shmemx_host_blocks_t blocks = {four, NULL, NULL, NULL};
    shmemx_splits_t splits = {2, four, falling, NULL, NULL}, no_sizes = {2, NULL, NULL, NULL, NULL};
    REFUSED(coll.host_blocks = &blocks);
    REFUSED(coll.kind = SHMEMX_ALLTOALLV; coll.host_blocks = &blocks);
    REFUSED(coll.splits = &splits);
    REFUSED(coll.kind = SHMEMX_FCOLLECT; coll.nelems = 100; coll.splits = &splits);
    REFUSED(coll.kind = SHMEMX_REDUCESCATTER; coll.splits = &no_sizes);
    REFUSED(coll.kind = SHMEMX_GATHER; coll.root = h->n);
    REFUSED(coll.kind = SHMEMX_REDUCE; coll.root = h->me; coll.dest = NULL);
    REFUSED(coll.kind = SHMEMX_SCATTER; coll.root = h->me; coll.source = NULL);
    if (h->n > 1)
        REFUSED(coll.kind = SHMEMX_PERMUTE; coll.to = h->me; coll.from = (h->me + 1) % h->n);
#undef REFUSED
}

/* One argument differs on one member, also so much that members take other schedules or send nothing: an error of all
 * members, whose sentence names both calls and the argument. Then the members are in step. */
struct call_args {
    int kind, root;
    size_t nelems;
    int type, op;
    double scale;
};
enum { KIND_A = SHMEMX_ALLREDUCE, F = SHMEMX_FLOAT, SCALED = SHMEMX_SCALED_SUM };
static const struct mismatch {
    const char *field;
    struct call_args most, one;
    const char *text; /* of the one */
} mismatches[] = {
    {"kind", {KIND_A, 0, 4, F, SCALED, 2}, {SHMEMX_REDUCESCATTER, 0, 4, F, SCALED, 2}, "SHMEMX_REDUCESCATTER(4 of"},
    {"type", {KIND_A, 0, 4, F, SHMEMX_SUM, 1}, {KIND_A, 0, 4, SHMEMX_INT64, SHMEMX_SUM, 1}, "(4 of SHMEMX_INT64, "},
    {"op", {KIND_A, 0, 4, F, SHMEMX_SUM, 1}, {KIND_A, 0, 4, F, SHMEMX_MAX, 1}, "SHMEMX_MAX"},
    {"scale", {KIND_A, 0, 4, F, SCALED, 2}, {KIND_A, 0, 4, F, SCALED, 3}, "SHMEMX_SCALED_SUM by 3"},
    {"nelems", {KIND_A, 0, 10, F, SHMEMX_SUM, 1}, {KIND_A, 0, 12, F, SHMEMX_SUM, 1}, "(12 of"},
    {"nelems", {KIND_A, 0, 1, F, SHMEMX_SUM, 1}, {KIND_A, 0, 40000, F, SHMEMX_SUM, 1}, "(40000 of"},
    {"nelems", {KIND_A, 0, 30000, F, SHMEMX_SUM, 1}, {KIND_A, 0, 1000, F, SHMEMX_SUM, 1}, "(1000 of"},
    {"nelems", {KIND_A, 0, 40000, F, SHMEMX_SUM, 1}, {KIND_A, 0, 30000, F, SHMEMX_SUM, 1}, "(30000 of"},
    {"nelems", {SHMEMX_BROADCAST, 0, 4, F, 0, 1}, {SHMEMX_BROADCAST, 0, 30000, F, 0, 1}, "(30000 of"},
    {"nelems", {SHMEMX_FCOLLECT, 0, 4, F, 0, 1}, {SHMEMX_FCOLLECT, 0, 8, F, 0, 1}, "(8 of"},
    {"nelems", {SHMEMX_ALLTOALL, 0, 5000, F, 0, 1}, {SHMEMX_ALLTOALL, 0, 8, F, 0, 1}, "(8 of"},
    {"root", {SHMEMX_BROADCAST, 0, 4, F, 0, 1}, {SHMEMX_BROADCAST, 1, 4, F, 0, 1}, "root 1"},
    {"root", {SHMEMX_REDUCE, 0, 4, F, SHMEMX_SUM, 1}, {SHMEMX_REDUCE, 1, 4, F, SHMEMX_SUM, 1}, "root 1"},
    {"root", {SHMEMX_GATHER, 1, 5000, F, 0, 1}, {SHMEMX_GATHER, 0, 5000, F, 0, 1}, "root 0"},
    {"kind", {SHMEMX_BROADCAST, 0, 4, F, 0, 1}, {KIND_A, 0, 4, F, SHMEMX_SUM, 1}, "SHMEMX_ALLREDUCE("},
    {"kind", {SHMEMX_ALLTOALL, 0, 4500, F, 0, 1}, {KIND_A, 0, 4, F, SHMEMX_SUM, 1}, "SHMEMX_ALLREDUCE("},
    {"kind", {KIND_A, 0, 4, F, SHMEMX_SUM, 1}, {SHMEMX_SYNC, 0, 0, F, 0, 1}, "SHMEMX_SYNC"},
    {"kind", {SHMEMX_BARRIER, 0, 0, F, 0, 1}, {SHMEMX_FCOLLECT, 0, 9, F, 0, 1}, "SHMEMX_FCOLLECT(9 of"}};

static void test_mismatch(struct host *h)
{
    CHECK_EQ(shmemx_set_error_mode(SHMEMX_ERRORS_RETURN), 0);
    for (size_t i = 0; i < sizeof mismatches / sizeof mismatches[0] && h->n > 1; i++) {
        const struct mismatch *m = &mismatches[i];
        const struct call_args *a = h->me == (int)i % h->n ? &m->one : &m->most;
        char text[512], start[96];
        shmemx_coll_t coll = begin(h, a->kind, a->nelems, a->type);
        coll.op = a->op;
        coll.root = a->root;
        coll.scale = a->scale;
        CHECK(shmemx_coll_on_host(&coll) != 0);
        shmemx_error_text(text, sizeof text);
        snprintf(start, sizeof start, "shmemx_coll_on_host: collective mismatch of %s: pe %d calls SHMEMX_", m->field,
                 check_self.pe);
        CHECK_NAMED(strstr(text, start) != NULL && strstr(text, m->text) != NULL, text);
        CHECK_NAMED(coll.kind != KIND_A || is_poison((unsigned char *)coll.dest, 64), text);
        test_fcollect(h, 100, false);
    }
    shmemx_coll_t beside = begin(h, SHMEMX_SYNC, 0, SHMEMX_UINT8);
    char text[512] = "";
    beside.background = h->me == 0;
    CHECK_EQ(shmemx_coll_on_host(&beside) != 0, h->n > 1);
    shmemx_error_text(text, sizeof text);
    CHECK_NAMED(h->n == 1 || (strstr(text, "mismatch of background: ") && strstr(text, "SHMEMX_SYNC(background)")),
                text);
    /* A permute to the next member, and of member 0 to itself: it and its neighbours differ, the others do not. */
    shmemx_coll_t permute = begin(h, SHMEMX_PERMUTE, 4, SHMEMX_UINT8);
    int next = (h->me + 1) % h->n, previous = (h->me + h->n - 1) % h->n;
    permute.to = h->me == 0 ? 0 : next;
    permute.from = h->me == 0 ? 0 : previous;
    CHECK_EQ(shmemx_coll_on_host(&permute) != 0, h->n > 1 && (h->me == 0 || next == 0 || previous == 0));
    CHECK_EQ(shmemx_set_error_mode(SHMEMX_ERRORS_ABORT), 0);
    test_fcollect(h, 100, false);
}

/* ---- times ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

enum { TIMES = 200 };
static void print_times(struct host *h, size_t bytes)
{
    float *dest = (float *)(void *)h->symmetric[0], *source = (float *)(void *)h->symmetric[1];
    shmemx_coll_t sum = shmemx_coll_of(SHMEMX_ALLREDUCE, h->team, h->local[0], h->local[1], bytes / 4, SHMEMX_FLOAT);
    shmemx_coll_t all = shmemx_coll_of(SHMEMX_FCOLLECT, h->team, h->local[0], h->local[1], bytes, SHMEMX_UINT8);
    double at[5];
    memset(source, 0, bytes);
    memset(h->local[1], 0, bytes);
    at[0] = seconds();
    for (int i = 0; i < TIMES; i++)
        shmem_float_sum_reduce(h->team, dest, source, bytes / 4);
    at[1] = seconds();
    for (int i = 0; i < TIMES; i++)
        (void)shmemx_coll_on_host(&sum);
    at[2] = seconds();
    for (int i = 0; i < TIMES; i++)
        shmem_fcollectmem(h->team, dest, source, bytes);
    at[3] = seconds();
    for (int i = 0; i < TIMES; i++)
        (void)shmemx_coll_on_host(&all);
    at[4] = seconds();
    if (h->me == 0)
        printf(
            "%7zu bytes on %d PEs: sum %8.2f us, on_host %8.2f us (%.2f); fcollect %8.2f us, on_host %8.2f us (%.2f)\n",
            bytes, h->n, (at[1] - at[0]) * 1e6 / TIMES, (at[2] - at[1]) * 1e6 / TIMES,
            (at[2] - at[1]) / (at[1] - at[0]), (at[3] - at[2]) * 1e6 / TIMES, (at[4] - at[3]) * 1e6 / TIMES,
            (at[4] - at[3]) / (at[3] - at[2]));
}

/* ---- teams ---- */

static void test_team(struct host *h, shmem_team_t team)
{
    h->team = team;
    h->me = shmem_team_my_pe(team);
    h->n = shmem_team_n_pes(team);
    h->round = 0;
    for (int m = 0; m < h->n; m++)
        h->world[m] = shmem_team_translate_pe(team, m, SHMEM_TEAM_WORLD);
    test_moves(h);
    test_reductions(h);
    test_barriers(h);
    test_refused(h);
    if (compares(h))
        test_mismatch(h);
}

/* process_vm_readv fails from here on, as in a container that forbids it. */
static void forbid_attach(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), 0);
}

/* The even PEs and the odd ones at the same time, each in descending order. */
static shmem_team_t make_team(void)
{
    int pes[MEMBERS_MOST], n = 0;
    shmem_team_t team = SHMEM_TEAM_INVALID;
    for (int pe = check_self.npes - 1; pe >= 0; pe--)
        if (pe % 2 == check_self.pe % 2)
            pes[n++] = pe;
    CHECK_EQ(shmemx_team_create(pes, n, 5, &team), 0);
    CHECK_OR_EXIT(team != SHMEM_TEAM_INVALID);
    return team;
}

static int test_main(void)
{
    struct host h;
    CHECK_INIT();
    CHECK_OR_EXIT(check_self.npes <= 5); /* MOST_BYTES */
    if (device_flag("SHMEM_TEST_NO_ATTACH") && check_self.pe % 2 == 1)
        forbid_attach();
    for (int i = 0; i < 2; i++) {
        h.symmetric[i] = (unsigned char *)shmem_malloc(MOST_BYTES);
        h.local[i] = (unsigned char *)malloc(MOST_BYTES);
        CHECK_OR_EXIT(h.symmetric[i] != NULL && h.local[i] != NULL);
    }
    void *before = shmemx_local_malloc(5000 * ((size_t)check_self.pe + 1), SHMEMX_HOST); /* another place on each PE */
    h.of_library = (unsigned char *)shmemx_local_malloc(MOST_BYTES, SHMEMX_HOST);
    CHECK_OR_EXIT(before != NULL && h.of_library != NULL);
    h.expected = (unsigned char *)malloc(MOST_BYTES);
    CHECK_OR_EXIT(h.expected != NULL);
    test_team(&h, SHMEM_TEAM_WORLD);
    if (device_flag("SHMEM_TEST_TIMES"))
        for (size_t bytes = 8; bytes <= 32768; bytes *= 8)
            print_times(&h, bytes);
    shmem_barrier_all();
    shmem_team_t team = make_team();
    test_team(&h, team);
    shmem_team_destroy(team);
    shmem_barrier_all();
    for (int i = 0; i < 2; i++) {
        shmem_free(h.symmetric[i]);
        free(h.local[i]);
    }
    shmemx_local_free(h.of_library);
    shmemx_local_free(before);
    free(h.expected);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
