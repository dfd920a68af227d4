/* SPDX-License-Identifier: MIT */
/* Every name that shmemx_coll.h stamps for a type and an operator, once each, against the reference; and the forms for
 * any type: they take the same way, so what is to be seen here is that a name means its type and its operator. */
#include "coll_case.h"

enum { NELEMS = 37 };

struct name {
    const char *name;
    int kind, type, op;
    int (*call)(shmem_team_t team, void *dest, const void *source, size_t nelems, shmemx_stream_t stream);
};

/* The way in which a type of C is kept, by its sign and its size. */
#define IS_FLOATING(T) ((T)0.5f != (T)0)
#define IS_SIGNED(T) ((T)(-1) < (T)1)
static int kept(bool floating, bool is_signed, size_t bytes)
{
    static const int integers[9] = {0, SHMEMX_UINT8, SHMEMX_UINT16, 0, SHMEMX_UINT32, 0, 0, 0, SHMEMX_UINT64};
    if (floating)
        return bytes == sizeof(float) ? SHMEMX_FLOAT : SHMEMX_DOUBLE;
    return integers[bytes] + (is_signed ? 1 : 0);
}

/* ---- adaptors of one signature ---- */

#define REDUCE_ADAPTOR(NAME, T, OP)                                                                           \
    static int call_##NAME##_##OP##_reduce(shmem_team_t team, void *dest, const void *source, size_t n,       \
                                           shmemx_stream_t stream)                                            \
    {                                                                                                         \
        return shmemx_##NAME##_##OP##_reduce_on_stream(team, (T *)dest, (const T *)source, n, stream);        \
    }                                                                                                         \
    static int call_##NAME##_##OP##_scatter(shmem_team_t team, void *dest, const void *source, size_t n,      \
                                            shmemx_stream_t stream)                                           \
    {                                                                                                         \
        return shmemx_##NAME##_##OP##_reducescatter_on_stream(team, (T *)dest, (const T *)source, n, stream); \
    }
#define MOVE_ADAPTOR(NAME, T, ...)                                                                      \
    static int call_##NAME##_fcollect(shmem_team_t team, void *dest, const void *source, size_t n,      \
                                      shmemx_stream_t stream)                                           \
    {                                                                                                   \
        return shmemx_##NAME##_fcollect_on_stream(team, (T *)dest, (const T *)source, n, stream);       \
    }                                                                                                   \
    static int call_##NAME##_alltoall(shmem_team_t team, void *dest, const void *source, size_t n,      \
                                      shmemx_stream_t stream)                                           \
    {                                                                                                   \
        return shmemx_##NAME##_alltoall_on_stream(team, (T *)dest, (const T *)source, n, stream);       \
    }                                                                                                   \
    static int call_##NAME##_broadcast(shmem_team_t team, void *dest, const void *source, size_t n,     \
                                       shmemx_stream_t stream)                                          \
    {                                                                                                   \
        return shmemx_##NAME##_broadcast_on_stream(team, (T *)dest, (const T *)source, n, 0, stream);   \
    }                                                                                                   \
    static int call_##NAME##_permute(shmem_team_t team, void *dest, const void *source, size_t n,       \
                                     shmemx_stream_t stream)                                            \
    {                                                                                                   \
        int me = shmem_team_my_pe(team), all = shmem_team_n_pes(team);                                  \
        return shmemx_##NAME##_permute_on_stream(team, (T *)dest, (const T *)source, n, (me + 1) % all, \
                                                 (me + all - 1) % all, stream);                         \
    }

#define ARITH_ADAPTORS(NAME, T, ...) \
    REDUCE_ADAPTOR(NAME, T, sum)     \
    REDUCE_ADAPTOR(NAME, T, prod)    \
    REDUCE_ADAPTOR(NAME, T, min)     \
    REDUCE_ADAPTOR(NAME, T, max)
/* and, or, xor are parts of words here, since alone they are tokens of C++. */
#define LOGIC_ADAPTOR(NAME, T, REDUCE, ID)                                                                 \
    static int call_##NAME##_##ID##_reduce(shmem_team_t team, void *dest, const void *source, size_t n,    \
                                           shmemx_stream_t stream)                                         \
    {                                                                                                      \
        return shmemx_##NAME##_##REDUCE##_on_stream(team, (T *)dest, (const T *)source, n, stream);        \
    }                                                                                                      \
    static int call_##NAME##_##ID##_scatter(shmem_team_t team, void *dest, const void *source, size_t n,   \
                                            shmemx_stream_t stream)                                        \
    {                                                                                                      \
        return shmemx_##NAME##_##REDUCE##scatter_on_stream(team, (T *)dest, (const T *)source, n, stream); \
    }
#define LOGIC_ADAPTORS(NAME, T, ...)      \
    LOGIC_ADAPTOR(NAME, T, and_reduce, 4) \
    LOGIC_ADAPTOR(NAME, T, or_reduce, 5)  \
    LOGIC_ADAPTOR(NAME, T, xor_reduce, 6)
SHMEM_DEVICE_ARITH_TYPES(ARITH_ADAPTORS, )
SHMEM_LOGIC_TYPES(LOGIC_ADAPTORS, )
SHMEM_RMA_TYPES(MOVE_ADAPTOR, )
ARITH_ADAPTORS(half, void, )
ARITH_ADAPTORS(bfloat16, void, )
REDUCE_ADAPTOR(complexf, void, sum)
REDUCE_ADAPTOR(complexf, void, prod)
REDUCE_ADAPTOR(complexd, void, sum)
REDUCE_ADAPTOR(complexd, void, prod)

/* ---- all of them ---- */

#define SIMPLE_DTYPE(T) kept(IS_FLOATING(T), IS_SIGNED(T), sizeof(T))
#define TRY(s, NAME, WHAT, kind, type, op)                                                 \
    do {                                                                                   \
        const struct name name_ = {#NAME "_" #WHAT, kind, type, op, call_##NAME##_##WHAT}; \
        try_name(s, &name_);                                                               \
    } while (0);
#define TRY_REDUCE(s, NAME, ID, type, op)                 \
    TRY(s, NAME, ID##_reduce, SHMEMX_ALLREDUCE, type, op) \
    TRY(s, NAME, ID##_scatter, SHMEMX_REDUCESCATTER, type, op)
#define TRY_SUM_PROD(s, NAME, type)            \
    TRY_REDUCE(s, NAME, sum, type, SHMEMX_SUM) \
    TRY_REDUCE(s, NAME, prod, type, SHMEMX_PROD)
#define TRY_ARITH(s, NAME, type)               \
    TRY_SUM_PROD(s, NAME, type)                \
    TRY_REDUCE(s, NAME, min, type, SHMEMX_MIN) \
    TRY_REDUCE(s, NAME, max, type, SHMEMX_MAX)
#define TRY_ARITH_TYPE(NAME, T, s) TRY_ARITH(s, NAME, SIMPLE_DTYPE(T))
#define TRY_LOGIC_TYPE(NAME, T, s)                     \
    TRY_REDUCE(s, NAME, 4, SIMPLE_DTYPE(T), SHMEMX_AND) \
    TRY_REDUCE(s, NAME, 5, SIMPLE_DTYPE(T), SHMEMX_OR)  \
    TRY_REDUCE(s, NAME, 6, SIMPLE_DTYPE(T), SHMEMX_XOR)
/* As so many bytes; long double has 16. */
#define TRY_MOVE_TYPE(NAME, T, s)                                  \
    TRY(s, NAME, fcollect, SHMEMX_FCOLLECT, moved(sizeof(T)), 0)   \
    TRY(s, NAME, alltoall, SHMEMX_ALLTOALL, moved(sizeof(T)), 0)   \
    TRY(s, NAME, broadcast, SHMEMX_BROADCAST, moved(sizeof(T)), 0) \
    TRY(s, NAME, permute, SHMEMX_PERMUTE, moved(sizeof(T)), 0)

static int moved(size_t bytes) { return bytes == 16 ? SHMEMX_COMPLEXD : kept(false, false, bytes); }

struct names {
    struct coll_state coll;
    struct coll_team teams[TEAMS];
    unsigned calls;
};

static void try_name(struct names *s, const struct name *name)
{
    struct coll_case c;
    memset(&c, 0, sizeof(c));
    c.kind = name->kind;
    c.type = name->type;
    c.op = name->op;
    c.nelems = NELEMS;
    c.team = &s->teams[s->calls % 3 == 0 ? TEAM_PARITY : TEAM_WORLD];
    c.from = (c.team->me + c.team->n - 1) % c.team->n;
    c.round = ++s->calls;
    coll_prepare_all(&s->coll, &c);
    CHECK_EQ_NAMED(
        name->call(c.team->team, buffer_data(&s->coll.dest), buffer_data(&s->coll.source), NELEMS, s->coll.stream), 0,
        name->name);
    CHECK_EQ_NAMED(shmemx_stream_synchronize(s->coll.stream), 0, name->name);
    coll_check_all(&s->coll, &c, name->name);
}

static void try_all(struct names *s)
{
    SHMEM_DEVICE_ARITH_TYPES(TRY_ARITH_TYPE, s)
    SHMEM_LOGIC_TYPES(TRY_LOGIC_TYPE, s)
    SHMEM_RMA_TYPES(TRY_MOVE_TYPE, s)
    TRY_ARITH(s, half, SHMEMX_HALF)
    TRY_ARITH(s, bfloat16, SHMEMX_BFLOAT16)
    TRY_SUM_PROD(s, complexf, SHMEMX_COMPLEXF)
    TRY_SUM_PROD(s, complexd, SHMEMX_COMPLEXD)
}

static int test_main(void)
{
    DEVICE_INIT();
    struct names s;
    memset(&s, 0, sizeof(s));
    coll_teams_make(s.teams);
    coll_state_make(&s.coll);
    try_all(&s);
    coll_state_drop(&s.coll);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
