/* SPDX-License-Identifier: MIT */
/* One call of a collective on a stream with what it finds and what it must leave: buffers of every kind of memory with
 * an image of what they must hold, the teams of a job, the call itself. Between two calls on the same buffers there is
 * no barrier: shmemx_coll.h says that none is needed.
 * SHMEM_TEST_LL128=1: skipped where stores of 128 bytes do not arrive whole. SHMEM_TEST_BYTES: the largest buffers of a
 * case, all blocks together (2 MiB; with SHMEM_TEST_FULL 64 MiB). */
#ifndef COLL_CASE_H
#define COLL_CASE_H

#include "coll_values.h"

#include <dlfcn.h>

/* ---- start ---- */

/* The first call finds out whether wide lines may be used. The same on all PEs. */
static inline bool coll_lacks_ll128(void)
{
    shmemx_coll_t q = shmemx_coll_of(SHMEMX_SYNC, SHMEM_TEAM_WORLD, NULL, NULL, 0, SHMEMX_UINT8);
    shmemx_stream_t stream;
    q.slot = 255;
    CHECK_OR_EXIT(shmemx_stream_create(&stream) == 0 && shmemx_coll_on_stream(&q, stream) == 0);
    CHECK_OR_EXIT(shmemx_stream_synchronize(stream) == 0 && shmemx_stream_destroy(stream) == 0);
    size_t len = shmemx_info_text(NULL, 0) + 256; /* numbers grow */
    char *text = (char *)malloc(len);
    CHECK_OR_EXIT(text != NULL);
    shmemx_info_text(text, len);
    bool lacks = shmem_n_pes() > 1 && strstr(text, "(stores of 128 bytes): they arrive whole") == NULL;
    free(text);
    return lacks;
}
#define COLL_INIT()                                                        \
    DEVICE_INIT();                                                         \
    if (device_flag("SHMEM_TEST_LL128") && coll_lacks_ll128()) {             \
        shmem_finalize();                                                  \
        return CHECK_SKIP("stores of 128 bytes do not arrive whole here"); \
    }

/* Engines are forced: they have to be told, too, where dest is. */
static inline int coll_forces_engines(void)
{
    const char *forced = getenv("SHMEM_COLL");
    return forced != NULL && strstr(forced, "=engines") != NULL;
}

/* 0..below - 1, from a state that PEs have alike. */
static inline uint64_t coll_random(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

/* ---- memory ---- */

/* HEAP, REGISTERED: symmetric. HOST: the heap of shmem_malloc, which only kernels of the CPU device load. OWN: nobody
 * else knows it. */
enum memory { MEMORY_HEAP, MEMORY_REGISTERED, MEMORY_HOST, MEMORY_OWN, MEMORIES };
#define MEMORY_NAMES "heap", "registered", "host heap", "own"
static inline bool memory_is_symmetric(int memory) { return memory != MEMORY_OWN; }
/* Pointers reach all of it; of a registered buffer of the host that is so page by page. */
static inline bool memory_is_near(int memory) { return memory == MEMORY_HEAP || memory == MEMORY_HOST; }

static inline bool device_is_cpu(void)
{
    char text[64];
    (void)shmemx_device_text(text, sizeof(text));
    return strncmp(text, "cpu", 3) == 0;
}

/* Device memory that is not symmetric, by the vendor's allocator where the program is linked with one. Whole pages. */
static inline void *own_malloc(size_t bytes)
{
    static const char *const names[] = {"cudaMalloc", "hipMalloc"};
    void *memory = NULL;
    for (size_t i = 0; i < 2 && !device_is_cpu(); i++) {
        void *symbol = dlsym(RTLD_DEFAULT, names[i]);
        int (*vendor)(void **, size_t);
        memcpy(&vendor, &symbol, sizeof(vendor));
        if (symbol != NULL && vendor(&memory, bytes) == 0)
            return memory;
    }
    return device_is_cpu() ? aligned_alloc(4096, bytes) : NULL;
}
/* That of a GPU goes with the process. */
static inline void own_free(void *memory)
{
    if (device_is_cpu())
        free(memory);
}

/* One buffer in each kind of memory, of which a case uses one; its image is on the host. */
struct buffer {
    char *base[MEMORIES]; /* aligned to 128; NULL: not on this device */
    char *now;            /* that of the case at hand */
    int memory;
    unsigned char *image, *seen;
    size_t room, used; /* margins included */
    char *through;     /* device heap: by it the host reads and writes a GPU's own memory; NULL: not needed */
};

/* Collective. */
static inline void buffer_make(struct buffer *b, size_t bytes)
{
    bool cpu = device_is_cpu();
    memset(b, 0, sizeof(*b));
    b->room = (bytes + 2 * AREA_MARGIN + 4095) / 4096 * 4096;
    b->base[MEMORY_HEAP] = (char *)shmemx_align(128, b->room, SHMEMX_DEVICE);
    b->base[MEMORY_REGISTERED] = (char *)own_malloc(b->room);
    b->base[MEMORY_HOST] = cpu ? (char *)shmem_align(128, b->room) : NULL;
    b->base[MEMORY_OWN] = (char *)own_malloc(b->room);
    b->through = cpu ? NULL : (char *)shmemx_align(128, b->room, SHMEMX_DEVICE);
    b->image = (unsigned char *)malloc(b->room);
    b->seen = (unsigned char *)malloc(b->room);
    CHECK_OR_EXIT(b->base[MEMORY_HEAP] != NULL && b->base[MEMORY_OWN] != NULL && b->image != NULL && b->seen != NULL);
    CHECK_OR_EXIT(shmemx_buffer_register(b->base[MEMORY_REGISTERED], b->room, NULL) == 0);
}
static inline void buffer_drop(struct buffer *b)
{
    CHECK_EQ(shmemx_buffer_unregister(b->base[MEMORY_REGISTERED]), 0);
    shmemx_free(b->through);
    own_free(b->base[MEMORY_REGISTERED]);
    own_free(b->base[MEMORY_OWN]);
    shmem_free(b->base[MEMORY_HOST]);
    shmemx_free(b->base[MEMORY_HEAP]);
    free(b->image);
    free(b->seen);
}

static inline char *buffer_data(const struct buffer *b) { return b->now + AREA_MARGIN; }
static inline unsigned char *buffer_image(const struct buffer *b) { return b->image + AREA_MARGIN; }

/* The next case has `bytes` of it, poisoned so far. */
static inline void buffer_begin(struct buffer *b, int memory, size_t bytes)
{
    b->memory = b->base[memory] != NULL ? memory : MEMORY_HEAP;
    b->now = b->base[b->memory];
    b->used = bytes + 2 * AREA_MARGIN;
    CHECK_OR_EXIT(b->used <= b->room);
    memset(b->image, CHECK_POISON, b->used);
}
static inline void buffer_upload(struct buffer *b)
{
    if (b->memory != MEMORY_OWN)
        device_write(b->now, b->image, b->used);
    else if (b->through == NULL)
        memcpy(b->now, b->image, b->used);
    else {
        device_write(b->through, b->image, b->used);
        shmem_getmem(b->now, b->through, b->used, shmem_my_pe());
    }
}
static inline bool buffer_check(struct buffer *b, const char *what)
{
    if (b->memory != MEMORY_OWN)
        device_read(b->seen, b->now, b->used);
    else if (b->through == NULL)
        memcpy(b->seen, b->now, b->used);
    else {
        device_write(b->through, b->now, b->used);
        device_read(b->seen, b->through, b->used);
    }
    return CHECK_BYTES_NAMED(b->seen, b->image, b->used, what);
}

/* ---- teams: each divides the world, so that every PE is in one of its parts ---- */

enum { TEAM_WORLD, TEAM_PARITY, TEAM_REST, TEAMS, MOST_PES = 64 };
#define TEAM_NAMES "world", "parity", "all but the last"

struct coll_team {
    shmem_team_t team;
    int me, n;
    int world[MOST_PES];
};

/* Collective over the world. */
static inline void coll_teams_make(struct coll_team *teams)
{
    int n = shmem_n_pes();
    shmem_team_t rest = SHMEM_TEAM_INVALID, last = SHMEM_TEAM_INVALID;
    if (n > 1)
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, n - 1, NULL, 0, &rest);
    shmem_team_split_strided(SHMEM_TEAM_WORLD, n - 1, 1, 1, NULL, 0, &last);
    CHECK_OR_EXIT(n <= MOST_PES);
    teams[TEAM_WORLD].team = SHMEM_TEAM_WORLD;
    teams[TEAM_PARITY].team = device_team_of_parity();
    teams[TEAM_REST].team = shmem_my_pe() == n - 1 ? last : rest;
    for (int i = 0; i < TEAMS; i++) {
        teams[i].me = shmem_team_my_pe(teams[i].team);
        teams[i].n = shmem_team_n_pes(teams[i].team);
        for (int pe = 0; pe < teams[i].n; pe++)
            teams[i].world[pe] = shmem_team_translate_pe(teams[i].team, pe, SHMEM_TEAM_WORLD);
    }
}

/* ---- a call ---- */

enum { KINDS = SHMEMX_PERMUTE + 1 };
#define KIND_NAMES "allreduce", "reducescatter", "fcollect", "alltoall", "alltoallv", "broadcast", "permute"
enum engines { ENGINES_NO, ENGINES_YES, ENGINES_SIGNAL, ENGINES };

struct coll_case {
    int kind, type, op;
    size_t nelems;
    const struct coll_team *team;
    int dest_memory, source_memory;
    size_t dest_shift, source_shift; /* bytes, from an address that is a multiple of 128 */
    bool in_place;
    int engines, slot, root, to, from;
    unsigned round;
};

struct coll_state {
    struct buffer dest, source;
    struct area words;   /* of alltoallv: bytes, source and dest offsets, received; n each */
    struct area signals; /* of fcollect by engines */
    uint64_t *signal_value;
    double *scale;
    shmemx_blocks_t blocks;
    shmemx_stream_t stream;
    unsigned round;
};

enum { MOST_SIGNALS = 4 * MOST_PES };

static inline size_t coll_needs(void)
{
    return (size_t)device_number("SHMEM_TEST_BYTES", device_flag("SHMEM_TEST_FULL") ? 64 << 20 : 2 << 20);
}

/* Collective. */
static inline void coll_state_make(struct coll_state *s)
{
    memset(s, 0, sizeof(*s));
    buffer_make(&s->dest, coll_needs() + 256);
    buffer_make(&s->source, coll_needs() + 256);
    area_make(&s->words, 4 * MOST_PES * 8, SHMEMX_DEVICE);
    area_make(&s->signals, MOST_SIGNALS * 8, SHMEMX_DEVICE);
    s->signal_value = (uint64_t *)shmemx_calloc(1, 8, SHMEMX_DEVICE);
    s->scale = (double *)shmemx_malloc(8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(s->scale != NULL);
    double scale = VALUES_SCALE;
    device_write(s->scale, &scale, 8);
    CHECK_OR_EXIT(s->signal_value != NULL && shmemx_stream_create(&s->stream) == 0);
}
static inline void coll_state_drop(struct coll_state *s)
{
    CHECK_EQ(shmemx_stream_destroy(s->stream), 0);
    shmem_barrier_all();
    shmemx_free(s->scale);
    shmemx_free(s->signal_value);
    area_drop(&s->signals);
    area_drop(&s->words);
    buffer_drop(&s->source);
    buffer_drop(&s->dest);
}

static inline size_t coll_unit(const struct coll_case *c) { return c->nelems * values_types[c->type].bytes; }
static inline bool coll_reduces(int kind) { return kind == SHMEMX_ALLREDUCE || kind == SHMEMX_REDUCESCATTER; }

/* alltoallv: what member `from` sends to member `to`, at most nelems bytes, sometimes nothing; with gaps between. */
static inline size_t coll_v_bytes(const struct coll_case *c, int from, int to)
{
    uint64_t word = values_word(c->team->world[from], c->round, 100000 + (uint64_t)c->team->world[to]);
    return word % 4 == 0 ? 0 : word / 4 % 3 == 0 ? c->nelems : (size_t)(word / 16 % (c->nelems + 1));
}
static inline size_t coll_v_gap(const struct coll_case *c) { return c->nelems % 3 == 0 ? 0 : 16 + c->nelems % 7; }
/* Where the block to `to` begins in from's source; where that of `from` begins in to's dest. */
static inline size_t coll_v_source(const struct coll_case *c, int from, int to)
{
    size_t at = 0;
    for (int m = 0; m < to; m++)
        at += coll_v_bytes(c, from, m) + coll_v_gap(c);
    return at;
}
static inline size_t coll_v_dest(const struct coll_case *c, int from, int to)
{
    size_t at = 0;
    for (int m = 0; m < from; m++)
        at += coll_v_bytes(c, m, to) + coll_v_gap(c);
    return at;
}

static inline size_t coll_source_bytes(const struct coll_case *c)
{
    size_t n = (size_t)c->team->n;
    if (c->kind == SHMEMX_ALLTOALLV)
        return n * (coll_unit(c) + coll_v_gap(c));
    return coll_unit(c) * (c->kind == SHMEMX_REDUCESCATTER || c->kind == SHMEMX_ALLTOALL ? n : 1);
}
static inline size_t coll_dest_bytes(const struct coll_case *c)
{
    size_t n = (size_t)c->team->n;
    if (c->kind == SHMEMX_ALLTOALLV)
        return n * (coll_unit(c) + coll_v_gap(c));
    return coll_unit(c) * (c->kind == SHMEMX_FCOLLECT || c->kind == SHMEMX_ALLTOALL ? n : 1);
}

/* ---- images ---- */

/* What PE `pe` of the world has at byte `at` of its source. */
static inline void coll_source_of(const struct coll_case *c, int pe, size_t at, size_t len, unsigned char *out)
{
    const struct values_type *t = &values_types[c->type];
    if (coll_reduces(c->kind))
        values_make(t, c->op, pe, c->round, at / t->bytes, len / t->bytes, out);
    else
        values_bytes(pe, c->round, at, len, out);
}

/* In place: the buffer that holds both, and where in it the smaller one begins. */
static inline bool coll_holder_is_dest(const struct coll_case *c) { return c->kind != SHMEMX_REDUCESCATTER; }
static inline size_t coll_inner_at(const struct coll_case *c)
{
    return c->kind == SHMEMX_FCOLLECT || c->kind == SHMEMX_REDUCESCATTER ? (size_t)c->team->me * coll_unit(c) : 0;
}
/* Images of both before the call, and their upload. */
static inline void coll_prepare(struct coll_state *s, const struct coll_case *c)
{
    size_t source_bytes = coll_source_bytes(c), at = c->source_shift;
    buffer_begin(&s->dest, c->dest_memory, coll_dest_bytes(c) + c->dest_shift);
    buffer_begin(&s->source, c->source_memory, source_bytes + c->source_shift);
    struct buffer *source = &s->source;
    if (c->in_place && coll_holder_is_dest(c)) {
        source = &s->dest;
        at = c->dest_shift + coll_inner_at(c);
    }
    coll_source_of(c, c->team->world[c->team->me], 0, source_bytes, buffer_image(source) + at);
    buffer_upload(&s->source);
    buffer_upload(&s->dest);
}

static inline void coll_expect_blocks(const struct coll_case *c, unsigned char *dest)
{
    size_t unit = coll_unit(c);
    int me = c->team->me;
    for (int m = 0; m < c->team->n; m++) {
        int pe = c->team->world[m];
        if (c->kind == SHMEMX_FCOLLECT)
            coll_source_of(c, pe, 0, unit, dest + (size_t)m * unit);
        else if (c->kind == SHMEMX_ALLTOALL)
            coll_source_of(c, pe, (size_t)me * unit, unit, dest + (size_t)m * unit);
        else
            coll_source_of(c, pe, coll_v_source(c, m, me), coll_v_bytes(c, m, me), dest + coll_v_dest(c, m, me));
    }
}
/* Into the image of dest, or of source where dest is a part of that. */
static inline void coll_expect(struct coll_state *s, const struct coll_case *c)
{
    bool inside = c->in_place && !coll_holder_is_dest(c);
    unsigned char *dest =
        inside ? buffer_image(&s->source) + c->source_shift + coll_inner_at(c) : buffer_image(&s->dest) + c->dest_shift;
    if (coll_reduces(c->kind))
        values_reduce(c->type, c->op, c->team->world, c->team->n, c->round,
                      c->kind == SHMEMX_ALLREDUCE ? 0 : (size_t)c->team->me * c->nelems, c->nelems, dest);
    else if (c->kind == SHMEMX_BROADCAST)
        coll_source_of(c, c->team->world[c->root], 0, coll_unit(c), dest);
    else if (c->kind == SHMEMX_PERMUTE)
        coll_source_of(c, c->team->world[c->from], 0, coll_unit(c), dest);
    else
        coll_expect_blocks(c, dest);
}

/* ---- what a call has besides dest and source ---- */

static inline void coll_put_word(struct area *a, size_t i, uint64_t value) { area_expect(a, i * 8, &value, 8); }

static inline void coll_prepare_blocks(struct coll_state *s, const struct coll_case *c)
{
    size_t n = (size_t)c->team->n;
    const uint64_t *words = (const uint64_t *)(const void *)area_data(&s->words);
    area_poison(&s->words, 4 * n * 8);
    for (int m = 0; m < c->team->n; m++) {
        coll_put_word(&s->words, (size_t)m, coll_v_bytes(c, c->team->me, m));
        coll_put_word(&s->words, n + (size_t)m, coll_v_source(c, c->team->me, m));
        coll_put_word(&s->words, 2 * n + (size_t)m, coll_v_dest(c, c->team->me, m));
    }
    area_upload(&s->words);
    s->blocks.bytes = words;
    s->blocks.source_offset = words + n;
    s->blocks.dest_offset = words + 2 * n;
    s->blocks.received = c->nelems % 5 == 0 ? NULL : (uint64_t *)(void *)(area_data(&s->words) + 3 * n * 8);
}
static inline void coll_check_blocks(struct coll_state *s, const struct coll_case *c, const char *what)
{
    size_t n = (size_t)c->team->n;
    for (int m = 0; m < c->team->n && s->blocks.received != NULL; m++)
        coll_put_word(&s->words, 3 * n + (size_t)m, coll_v_bytes(c, m, c->team->me));
    area_check(&s->words, what);
}

static inline size_t coll_chunk_bytes(const struct coll_case *c) { return coll_unit(c) / 3 / 16 * 16 + 48; }
static inline size_t coll_signals(const struct coll_case *c)
{
    return (size_t)c->team->n * ((coll_unit(c) + coll_chunk_bytes(c) - 1) / coll_chunk_bytes(c));
}
static inline void coll_prepare_signals(struct coll_state *s, const struct coll_case *c)
{
    uint64_t value = 1000 + c->round;
    area_poison(&s->signals, coll_signals(c) * 8);
    device_write(s->signal_value, &value, 8);
}
static inline void coll_check_signals(struct coll_state *s, const struct coll_case *c, const char *what)
{
    for (size_t i = 0; i < coll_signals(c); i++)
        coll_put_word(&s->signals, i, 1000 + c->round);
    area_check(&s->signals, what);
}

/* ---- the call ---- */

static inline shmemx_coll_t coll_request(struct coll_state *s, const struct coll_case *c)
{
    shmemx_coll_t q = shmemx_coll_of(c->kind, c->team->team, buffer_data(&s->dest) + c->dest_shift,
                                     buffer_data(&s->source) + c->source_shift, c->nelems, c->type);
    if (c->in_place && coll_holder_is_dest(c))
        q.source = (char *)q.dest + coll_inner_at(c);
    else if (c->in_place)
        q.dest = buffer_data(&s->source) + c->source_shift + coll_inner_at(c);
    q.op = c->op;
    q.scale = c->round % 2 != 0 ? VALUES_SCALE : (double)NAN; /* or from memory */
    q.scale_from = c->round % 2 != 0 ? NULL : s->scale;
    q.root = c->root;
    q.to = c->to;
    q.from = c->from;
    q.slot = c->slot;
    q.engines = c->engines != ENGINES_NO;
    q.same_place = coll_forces_engines();
    q.stage_bytes = (size_t)device_number("SHMEM_TEST_STAGE", 0);
    if (c->kind == SHMEMX_ALLTOALLV)
        q.blocks = &s->blocks;
    if (c->engines == ENGINES_SIGNAL) {
        q.signals = (uint64_t *)(void *)area_data(&s->signals);
        q.signal_value = s->signal_value;
        q.chunk_bytes = coll_chunk_bytes(c);
    }
    return q;
}

static inline void coll_prepare_all(struct coll_state *s, const struct coll_case *c)
{
    coll_prepare(s, c);
    if (c->kind == SHMEMX_ALLTOALLV)
        coll_prepare_blocks(s, c);
    if (c->engines == ENGINES_SIGNAL)
        coll_prepare_signals(s, c);
}
static inline void coll_check_all(struct coll_state *s, const struct coll_case *c, const char *what)
{
    coll_expect(s, c);
    buffer_check(&s->dest, what);
    buffer_check(&s->source, what);
    if (c->kind == SHMEMX_ALLTOALLV)
        coll_check_blocks(s, c, what);
    if (c->engines == ENGINES_SIGNAL)
        coll_check_signals(s, c, what);
}

/* ---- teams that span nodes ---- */

/* As the library is told: a number for each PE, as often as needed from the begin. */
static inline long coll_node_of(int pe)
{
    const char *text = getenv("SHMEM_VIRTUAL_NODES");
    long numbers[MOST_PES], n = 0;
    for (char *end = (char *)(uintptr_t)text; end != NULL && *end != '\0' && n < MOST_PES; end += *end == ',')
        numbers[n++] = strtol(end, &end, 10);
    return n > 0 ? numbers[pe % n] : 0;
}

/* Several nodes, and several members on one of them. */
static inline bool coll_spans_nodes(const struct coll_team *team)
{
    bool several = false, shared = false;
    for (int m = 1; m < team->n; m++) {
        several = several || coll_node_of(team->world[m]) != coll_node_of(team->world[0]);
        for (int other = 0; other < m; other++)
            shared = shared || coll_node_of(team->world[m]) == coll_node_of(team->world[other]);
    }
    return several && shared;
}

/* What the members of m's node have, if m is the first of them there, as elements. false: m is not. */
static inline bool coll_part_of_node(const struct coll_case *c, int m, size_t first, size_t n, unsigned char *out)
{
    int members[MOST_PES], some = 0;
    for (int other = 0; other < c->team->n; other++)
        if (coll_node_of(c->team->world[other]) == coll_node_of(c->team->world[m]))
            members[some++] = c->team->world[other];
    if (members[0] != c->team->world[m])
        return false;
    values_reduce(c->type, values_folded(c->op), members, some, c->round, first, n, out);
    return true;
}

/* A node's members are combined first, then the nodes' parts. */
static inline void coll_reduce_by_nodes(const struct coll_case *c, size_t first, size_t n, unsigned char *out)
{
    const struct values_type *t = &values_types[c->type];
    unsigned char part[VALUES_CHUNK * 8];
    union values_chunk whole, next;
    size_t most = VALUES_CHUNK / t->parts;
    for (size_t at = 0; at < n; at += most) {
        size_t some = n - at < most ? n - at : most;
        for (int m = 0; m < c->team->n; m++) {
            if (!coll_part_of_node(c, m, first + at, some, part))
                continue;
            values_decode(t, part, some * t->parts, m == 0 ? &whole : &next);
            if (m > 0)
                values_fold(t, values_folded(c->op), &whole, &next, some * t->parts);
        }
        values_scale(t, c->op, c->team->n, &whole, some);
        values_encode(t, &whole, some * t->parts, out + at * t->bytes);
    }
}

#endif
