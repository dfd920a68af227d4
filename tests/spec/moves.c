/* SPDX-License-Identifier: MIT */
/* Collectives that move data: broadcast, collect, fcollect, alltoall, alltoalls of every type and mem, on eight teams,
 * at lengths around the thresholds that implementations have. Every byte of dest is compared, behind its end too. */
#include "move_table.h"
#include "team_set.h"

enum { STREAM = 6 }; /* calls back to back, each with a dest of its own */
static const size_t most_bytes = ((size_t)1 << 20) + 3;

struct buffers {
    unsigned char *source;
    unsigned char *dest;
    size_t source_bytes;
    size_t dest_bytes;
};

/* One call: sizes are in elements; the round makes its data its own. */
struct call {
    const struct move *move;
    shmem_team_t team;
    const char *where;
    size_t n;
    unsigned round;
};

static void begin(struct buffers *buffers, const struct call *call, size_t dest_bytes)
{
    if (dest_bytes > buffers->dest_bytes) {
        fprintf(stderr, "moves: a dest of %zu bytes does not fit\n", dest_bytes);
        shmem_global_exit(CHECK_FAILED);
    }
    memset(buffers->dest, CHECK_POISON, dest_bytes + 64);
    shmem_team_sync(call->team);
}

static void end(struct buffers *buffers, const struct call *call, size_t dest_bytes, bool ok)
{
    char words[96];
    snprintf(words, sizeof(words), "%s, %zu elements, team %s", call->move->name, call->n, call->where);
    CHECK_NAMED(ok, words);
    CHECK_NAMED(check_all_bytes(buffers->dest + dest_bytes, CHECK_POISON, 64), words);
    shmem_team_sync(call->team); /* dest is used again */
}

static void broadcast(struct buffers *buffers, const struct call *call, int root)
{
    size_t len_bytes = call->n * call->move->size;
    int me = shmem_team_my_pe(call->team);
    begin(buffers, call, len_bytes);
    check_fill(buffers->source, len_bytes, me, 0, call->round);
    bool ok = call->move->broadcast(call->team, buffers->dest, buffers->source, call->n, root) == 0;
    ok = ok && check_filled(buffers->source, len_bytes, me, 0, call->round);
    memset(buffers->source, 0xee, len_bytes); /* may be used again */
    ok = ok && check_filled(buffers->dest, len_bytes, root, 0, call->round);
    end(buffers, call, len_bytes, ok);
}

static void fcollect(struct buffers *buffers, const struct call *call)
{
    size_t len_bytes = call->n * call->move->size;
    int me = shmem_team_my_pe(call->team);
    int n_pes = shmem_team_n_pes(call->team);
    begin(buffers, call, len_bytes * (size_t)n_pes);
    check_fill(buffers->source, len_bytes, me, 1, call->round);
    bool ok = call->move->fcollect(call->team, buffers->dest, buffers->source, call->n) == 0;
    memset(buffers->source, 0xee, len_bytes);
    for (int pe = 0; pe < n_pes; pe++)
        ok = ok && check_filled(buffers->dest + (size_t)pe * len_bytes, len_bytes, pe, 1, call->round);
    end(buffers, call, len_bytes * (size_t)n_pes, ok);
}

/* Lengths that differ: n, n + 1, none, 2n, ... by PE; all PEs of a round may give none. */
static size_t collect_count(const struct call *call, int pe)
{
    switch ((unsigned)pe + call->round) {
    default:
        return (call->n * (((unsigned)pe * 5 + call->round) % 4)) / 2 + (unsigned)pe % 2;
    case 3:
    case 4:
        return 0;
    }
}

static void collect(struct buffers *buffers, const struct call *call)
{
    int me = shmem_team_my_pe(call->team);
    int n_pes = shmem_team_n_pes(call->team);
    size_t size = call->move->size;
    size_t mine = collect_count(call, me) * size;
    size_t total = 0;
    for (int pe = 0; pe < n_pes; pe++)
        total += collect_count(call, pe) * size;
    begin(buffers, call, total);
    check_fill(buffers->source, mine, me, 2, call->round);
    bool ok = call->move->collect(call->team, buffers->dest, buffers->source, mine / size) == 0;
    memset(buffers->source, 0xee, mine);
    const unsigned char *at = buffers->dest;
    for (int pe = 0; pe < n_pes; pe++) {
        ok = ok && check_filled(at, collect_count(call, pe) * size, pe, 2, call->round);
        at += collect_count(call, pe) * size;
    }
    end(buffers, call, total, ok);
}

static void alltoall(struct buffers *buffers, const struct call *call)
{
    size_t len_bytes = call->n * call->move->size;
    int me = shmem_team_my_pe(call->team);
    int n_pes = shmem_team_n_pes(call->team);
    begin(buffers, call, len_bytes * (size_t)n_pes);
    for (int pe = 0; pe < n_pes; pe++)
        check_fill(buffers->source + (size_t)pe * len_bytes, len_bytes, me, pe, call->round);
    bool ok = call->move->alltoall(call->team, buffers->dest, buffers->source, call->n) == 0;
    memset(buffers->source, 0xee, len_bytes * (size_t)n_pes);
    for (int pe = 0; pe < n_pes; pe++)
        ok = ok && check_filled(buffers->dest + (size_t)pe * len_bytes, len_bytes, pe, me, call->round);
    end(buffers, call, len_bytes * (size_t)n_pes, ok);
}

/* The elements of block k lie at (k * n + i) * stride. What lies between them in dest must stay. */
static void alltoalls(struct buffers *buffers, const struct call *call, size_t dst, size_t sst)
{
    size_t size = call->move->size;
    int me = shmem_team_my_pe(call->team);
    int n_pes = shmem_team_n_pes(call->team);
    size_t blocks = call->n * (size_t)n_pes;
    size_t dest_bytes = blocks * dst * size;
    unsigned char *element = (unsigned char *)malloc(call->n * size + 1);
    CHECK_OR_EXIT(element != NULL);
    begin(buffers, call, dest_bytes);
    memset(buffers->source, 0xdd, blocks * sst * size);
    for (int pe = 0; pe < n_pes; pe++) {
        check_fill(element, call->n * size, me, pe, call->round);
        for (size_t i = 0; i < call->n; i++)
            memcpy(buffers->source + ((size_t)pe * call->n + i) * sst * size, element + i * size, size);
    }
    bool ok =
        call->move->alltoalls(call->team, buffers->dest, buffers->source, (ptrdiff_t)dst, (ptrdiff_t)sst, call->n) == 0;
    memset(buffers->source, 0xee, blocks * sst * size);
    for (int pe = 0; pe < n_pes; pe++) {
        check_fill(element, call->n * size, pe, me, call->round);
        for (size_t i = 0; i < call->n; i++) {
            const unsigned char *at = buffers->dest + ((size_t)pe * call->n + i) * dst * size;
            ok = ok && memcmp(at, element + i * size, size) == 0;
            ok = ok && check_all_bytes(at + size, CHECK_POISON, (dst - 1) * size);
        }
    }
    free(element);
    end(buffers, call, dest_bytes, ok);
}

static void every_call(struct buffers *buffers, const struct call *call)
{
    int n_pes = shmem_team_n_pes(call->team);
    broadcast(buffers, call, (int)(call->round % (unsigned)n_pes));
    fcollect(buffers, call);
    collect(buffers, call);
    alltoall(buffers, call);
    if (call->n * call->move->size <= 5000) {
        alltoalls(buffers, call, 1, 1);
        alltoalls(buffers, call, 2, 3);
    }
}

/* The same buffers from a later address: elements need their own alignment, and mem none at all. */
static struct buffers shifted(const struct buffers *buffers, size_t by_bytes)
{
    struct buffers later = *buffers;
    later.source += by_bytes;
    later.dest += by_bytes;
    later.source_bytes -= by_bytes;
    later.dest_bytes -= by_bytes;
    return later;
}

/* All types, short. */
static void test_types(struct buffers *buffers, const struct team_set *set)
{
    const size_t counts[] = {0, 1, 3, 17};
    for (int t = 0; t < TEAMS; t++) {
        unsigned round = (unsigned)t; /* of the members: others are not here */
        for (int row = 0; row < MOVE_ROWS && set->teams[t] != SHMEM_TEAM_INVALID; row++) {
            for (int i = t % 2; i < 4 && check_has_case((unsigned)(row + t)); i += 2) {
                struct call call = {&move_table[row], set->teams[t], team_names[t], counts[i], round++};
                struct buffers later = shifted(buffers, move_table[row].size * (round % 5));
                every_call(&later, &call);
            }
        }
        shmem_barrier_all();
    }
}

/* mem at odd lengths, and around powers of two. */
static void test_lengths(struct buffers *buffers, const struct team_set *set)
{
    const size_t lengths[] = {2,    5,    7,    8,    9,    31,   47,   48,   49,    55,    56,    57,
                              63,   64,   65,   127,  511,  512,  513,  1000, 1023,  1024,  1025,  2047,
                              2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 16387, 65535, 65536, 65537};
    for (int t = 0; t < TEAMS; t++) {
        for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && set->teams[t] != SHMEM_TEAM_INVALID; i++) {
            struct call call = {&move_table[MOVE_MEM], set->teams[t], team_names[t], lengths[i], i};
            if (t != 0 && t != 3 && lengths[i] > 1000 && i % 3 != (unsigned)t % 3)
                continue; /* the long ones on all teams would take too much time */
            if (!check_has_case(i))
                continue;
            struct buffers later = shifted(buffers, (i + (unsigned)t) % 3 * 5); /* 0, 5 or 10 bytes */
            every_call(&later, &call);
        }
        shmem_barrier_all();
    }
}

static void test_long(struct buffers *buffers, const struct team_set *set)
{
    struct call call = {&move_table[MOVE_MEM], SHMEM_TEAM_WORLD, "world", most_bytes, 1};
#ifdef CHECK_ON_GLOBALS
    call.n = 300001;
#endif
    (void)set;
    broadcast(buffers, &call, shmem_n_pes() - 1);
    fcollect(buffers, &call);
    alltoall(buffers, &call);
    call.n = call.n / 2 - 5;
    collect(buffers, &call);
}

static void test_roots(struct buffers *buffers, const struct team_set *set)
{
    for (int t = 0; t < TEAMS; t++) {
        for (int root = 0; set->teams[t] != SHMEM_TEAM_INVALID && root < shmem_team_n_pes(set->teams[t]); root++) {
            struct call call = {&move_table[MOVE_MEM], set->teams[t], team_names[t], 1000, (unsigned)root};
            broadcast(buffers, &call, root);
            call.n = 20000;
            broadcast(buffers, &call, root);
        }
        shmem_barrier_all();
    }
}

/* No synchronisation between the calls: only the source is used again, at once, each call has its own dest. A PE may be
 * late into any of them. */
static void test_back_to_back(struct buffers *buffers, const struct team_set *set, size_t len_bytes)
{
    const struct move *mem = &move_table[MOVE_MEM];
    struct check_random random = check_random_stream(700 + (uint64_t)shmem_my_pe());
    for (int t = 0; t < TEAMS; t++) {
        shmem_team_t team = set->teams[t];
        for (unsigned round = 0; team != SHMEM_TEAM_INVALID && round < 4; round++) {
            int me = shmem_team_my_pe(team);
            int n_pes = shmem_team_n_pes(team);
            size_t area = len_bytes * (size_t)n_pes;
            memset(buffers->dest, CHECK_POISON, area * STREAM);
            shmem_team_sync(team);
            for (unsigned i = 0; i < STREAM; i++) {
                unsigned char *dest = buffers->dest + i * area;
                if (check_random_below(&random, 4) == 0)
                    check_pause();
                for (int pe = 0; pe < n_pes; pe++)
                    check_fill(buffers->source + (size_t)pe * len_bytes, len_bytes, me, pe, i + round);
                switch ((i + round) % 4) {
                case 0:
                    CHECK_EQ(mem->fcollect(team, dest, buffers->source, len_bytes), 0);
                    break;
                case 1:
                    CHECK_EQ(mem->alltoall(team, dest, buffers->source, len_bytes), 0);
                    break;
                case 2:
                    CHECK_EQ(mem->broadcast(team, dest, buffers->source, len_bytes, (int)i % n_pes), 0);
                    break;
                default:
                    CHECK_EQ(mem->collect(team, dest, buffers->source, me % 2 ? 0 : len_bytes), 0);
                }
            }
            for (unsigned i = 0; i < STREAM; i++) {
                const unsigned char *at = buffers->dest + i * area;
                unsigned kind = (i + round) % 4;
                if (kind == 2)
                    CHECK_FILLED(at, len_bytes, (int)i % n_pes, 0, i + round);
                for (int pe = 0; kind != 2 && pe < n_pes; pe++) {
                    if (kind == 3 && pe % 2)
                        continue;
                    CHECK_NAMED(check_filled(at, len_bytes, pe, kind == 1 ? me : 0, i + round), team_names[t]);
                    at += len_bytes;
                }
            }
            shmem_team_sync(team);
        }
        shmem_barrier_all();
    }
}

static int test_main(void)
{
    CHECK_INIT();
    size_t npes = (size_t)shmem_n_pes();
    struct buffers buffers;
#ifdef CHECK_ON_GLOBALS
    buffers.dest_bytes = 301000 * npes;
#else
    buffers.dest_bytes = most_bytes * npes;
#endif
    if (buffers.dest_bytes < 70000 * npes * STREAM)
        buffers.dest_bytes = 70000 * npes * STREAM;
    buffers.source_bytes = buffers.dest_bytes;
    buffers.source = (unsigned char *)check_alloc(buffers.source_bytes);
    buffers.dest = (unsigned char *)check_alloc(buffers.dest_bytes + 64);
    struct team_set set = team_set_make();
    test_types(&buffers, &set);
    test_lengths(&buffers, &set);
    test_roots(&buffers, &set);
    test_long(&buffers, &set);
    const size_t lengths[] = {1, 8, 50, 3000, 70000};
    for (int i = 0; i < 5; i++)
        test_back_to_back(&buffers, &set, lengths[i]);
    team_set_destroy(&set);
    check_free(buffers.dest);
    check_free(buffers.source);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
