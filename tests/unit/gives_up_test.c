/* SPDX-License-Identifier: MIT */
/* One member's wait in a collective gives up: the first one, or the second, ..., until a call passes unhurt. Whatever
 * the others have had from that member meanwhile, each of them gets right data or an error, and never 0 for data that
 * did not come. The link replaces the one place where the host waits and the one where kernels of the CPU device pause:
 * the victim gives up there. The others stand still until its call has ended, and go on with what it has sent.
 *   host      shmemx_coll_on_host, with errors that come back: every kind, lengths of every schedule
 *   typed     calls of shmem.h, by every algorithm: the victim ends there, others end or have right data
 *   stream    every kind by every algorithm, in kernels of the library; of splits, in a batch, and messages
 *   kernel    every call in kernels, for a block and a grid
 * Each on one node, on two virtual ones, and kernels by the proxy. A run takes some of the cases, SHMEM_TEST_FULL=1
 * all; SHMEM_TEST_SEED repeats one. usage: gives_up_test [PART] (of those in parts[], as far as it is given) */
#include "../../coll/host/coll.h"
#include "../../coll/select/select.h"
#include "../../coll/stream/coll_stream.h"
#include "../../shmem/node/wait.h"
#include "../check.h"

#include <shmem_device.h>

#include <sys/mman.h>
#include <sys/wait.h>

enum { PES = 4, MOST = 40000, SLOT = 3, IDLE = 150, PATIENCE_MS = 20000 };

/* Shared by all processes; atomic, relaxed but where it says more. */
static struct shared {
    shmemx_uniqueid_t id;
    int victim, at;         /* who gives up, at its which wait (host) or pause (kernels); 0: never */
    int arrived, round;     /* of synchronise() */
    int armed, hit, ended;  /* the call runs; the victim gives up; its call has ended */
    int waits;              /* of the victim, so far */
    int entered, failed, wrong;
    int waiting;            /* typed: members that have ended their call, or are gone */
    int jobs, hits;         /* how much was tested */
} *shared;
static int me;
static bool full;
static struct wait_id { /* the victim's last wait */
    const struct wait *wait;
    const void *addr;
    uint64_t expected;
} last;

static int get(const int *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void set(int *word, int value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static int add(int *word) { return __atomic_add_fetch(word, 1, __ATOMIC_ACQ_REL); }

/* All processes. Not by the library, whose waits are the subject. */
static void synchronise(void)
{
    int round = get(&shared->round);
    if (add(&shared->arrived) == PES) {
        set(&shared->arrived, 0);
        set(&shared->round, round + 1);
    }
    for (int i = 0; get(&shared->round) == round && get(&shared->failed) == 0; i++) {
        usleep(100);
        if (i > PATIENCE_MS * 5) {
            fprintf(stderr, "[pe %d] another process does not come\n", me);
            set(&shared->failed, 1);
        }
    }
    if (get(&shared->failed) != 0)
        _exit(CHECK_FAILED);
}

/* The same choice on all members. */
static struct check_random choices;
static bool chosen(unsigned of) { return full || check_random_below(&choices, of) == 0; }

/* ---- waits that give up ---- */

int __real_iso_wait_slow(struct wait *wait, uint64_t seen);
int __wrap_iso_wait_slow(struct wait *wait, uint64_t seen);
void __real_shmemd_cpu_pause(void);
void __wrap_shmemd_cpu_pause(void);

/* The others see little of what comes while the victim looks often; then nothing, until its call has ended. true:
 * nothing more will come. */
static int idle;
static bool stand_still(void)
{
    for (int i = 0; get(&shared->hit) != 0 && get(&shared->ended) == 0 && i < PATIENCE_MS * 5; i++)
        usleep(200);
    usleep(30);
    idle = get(&shared->hit) != 0 ? __atomic_add_fetch(&idle, 1, __ATOMIC_RELAXED) : 0;
    return idle > IDLE;
}

int __wrap_iso_wait_slow(struct wait *wait, uint64_t seen)
{
    if (get(&shared->armed) == 0)
        return __real_iso_wait_slow(wait, seen);
    if (me != shared->victim) {
        if (stand_still())
            iso_job_mark(shared->victim, "nothing more comes");
        return __real_iso_wait_slow(wait, seen);
    }
    if (last.wait != wait || last.addr != wait->addr || last.expected != wait->expected) {
        last = (struct wait_id){wait, wait->addr, wait->expected};
        if (add(&shared->waits) == shared->at) {
            set(&shared->hit, 1);
            iso_job_mark(-1, "a wait of the test gives up");
        }
    }
    return __real_iso_wait_slow(wait, seen);
}

void __wrap_shmemd_cpu_pause(void)
{
    if (get(&shared->armed) != 0 && me != shared->victim && stand_still())
        shmemx_device_abort();
    if (get(&shared->armed) != 0 && me == shared->victim && add(&shared->waits) == shared->at) {
        set(&shared->hit, 1);
        shmemx_device_abort();
    }
    __real_shmemd_cpu_pause();
}

/* ---- calls ---- */

struct call {
    int kind;
    size_t nelems; /* of int32_t */
    const char *forced; /* an algorithm */
};
enum { SCAN = SHMEMX_REDUCE + 1, COLLECT, ALLTOALLS }; /* of shmem.h alone */
static const char *const kinds[] = {"ALLREDUCE", "REDUCESCATTER", "FCOLLECT", "ALLTOALL", "ALLTOALLV",
                                    "BROADCAST", "PERMUTE",       "BARRIER",  "SYNC",     "GATHER",
                                    "SCATTER",   "REDUCE",        "scan",     "collect",  "alltoalls"};

static int32_t *dest, *source; /* [PES * MOST] */
static unsigned round_of;      /* of the calls: no two have the same data */

static int32_t value(int pe, size_t i) { return (int32_t)(i * 7 + (size_t)pe * 100003 + round_of * 31); }
static int root(void) { return (int)(round_of % PES); }

static const char splits[] = "splits", in_pieces[] = "splits of a third and the rest";
static size_t third(const struct call *c) { return c->nelems / 3; }

/* Where word i of block b lies in memory of all blocks: one behind the other, or so split by split. */
static size_t place_of(const struct call *c, int b, size_t i)
{
    size_t first = c->forced == in_pieces ? third(c) : c->nelems;
    return i < first ? (size_t)b * first + i : PES * first + (size_t)b * (c->nelems - first) + (i - first);
}

/* Word i of block b; a call with `all` has a block for each member. */
static int32_t expected(const struct call *c, int b, size_t i)
{
    int32_t sum = 0;
    int kind = c->kind;
    size_t of_mine = place_of(c, me, i);
    switch (kind) {
    case SHMEMX_FCOLLECT:
    case SHMEMX_GATHER:
    case COLLECT:
        return value(b, i);
    case SHMEMX_ALLTOALL:
    case SHMEMX_ALLTOALLV:
    case ALLTOALLS:
        return value(b, of_mine);
    case SHMEMX_BROADCAST:
        return value(root(), i);
    case SHMEMX_SCATTER:
        return value(root(), of_mine);
    case SHMEMX_PERMUTE:
        return value((me + PES - 1) % PES, i);
    default:
        for (int pe = 0; pe < (kind == SCAN ? me + 1 : PES); pe++)
            sum += value(pe, kind == SHMEMX_REDUCESCATTER ? of_mine : i);
        return sum;
    }
}
static bool gets(int kind) { return (kind != SHMEMX_GATHER && kind != SHMEMX_REDUCE) || me == root(); }
static int blocks(int kind)
{
    bool many = kind == SHMEMX_FCOLLECT || kind == SHMEMX_GATHER || kind == SHMEMX_ALLTOALL ||
                kind == SHMEMX_ALLTOALLV || kind == COLLECT || kind == ALLTOALLS;
    return kind == SHMEMX_BARRIER || kind == SHMEMX_SYNC ? 0 : many ? PES : 1;
}

/* Before all call; a source is ready when its owner calls. */
static void spoil(void)
{
    for (size_t i = 0; i < (size_t)PES * MOST; i++)
        source[i] = dest[i] = -1;
}
static void fill(void)
{
    for (size_t i = 0; i < (size_t)PES * MOST; i++)
        source[i] = value(me, i);
}

/* rc is what the call has returned: 0 is for right data, and for members that have all come. */
static void judge(const struct call *c, const char *what, int rc)
{
    size_t wrong = 0;
    for (int b = 0; rc == 0 && gets(c->kind) && b < blocks(c->kind); b++)
        for (size_t i = 0; i < c->nelems; i++)
            wrong += dest[blocks(c->kind) > 1 ? place_of(c, b, i) : i] != expected(c, b, i);
    if (rc == 0 && blocks(c->kind) == 0 && get(&shared->entered) < PES)
        wrong = 1;
    if (wrong == 0)
        return;
    fprintf(stderr, "[pe %d] %s, %s of %zu elements by %s: pe %d gave up at %d, this one returned 0 with %zu wrong\n",
            me, what, kinds[c->kind], c->nelems, c->forced != NULL ? c->forced : "the usual", shared->victim,
            shared->at, wrong);
    set(&shared->wrong, 1);
}

/* `call` returns what the collective has. Its victim gives up at wait `at`. false: it passed unhurt. */
typedef int call_fn(const struct call *c);
static bool hurt(const struct call *c, const char *what, call_fn *call, int at)
{
    struct check_random random = {choices.state + round_of * 977u + (unsigned)at};
    int late = (int)check_random_below(&random, 2 * PES);
    round_of++;
    spoil();
    if (me == 0) {
        shared->victim = (int)(round_of % PES);
        shared->at = at;
        shared->hit = shared->ended = shared->waits = shared->entered = 0;
        add(&shared->hits);
    }
    memset(&last, 0, sizeof last);
    idle = 0;
    synchronise();
    if (late >= PES) /* the one that a victim in a ring waits for */
        late = (shared->victim + PES - 1) % PES;
    set(&shared->armed, 1);
    bool waits = me == late && me != shared->victim;
    for (int i = 0; i < 30 && waits && get(&shared->ended) == 0; i++)
        usleep(200);
    if (waits && blocks(c->kind) == 0 && get(&shared->hit) != 0)
        usleep(20000); /* who goes on without this member does so now */
    fill();
    add(&shared->entered);
    int rc = call(c);
    if (me == shared->victim)
        set(&shared->ended, 1);
    judge(c, what, rc);
    synchronise();
    bool hit = get(&shared->hit) != 0;
    set(&shared->armed, 0);
    synchronise();
    return hit;
}

/* ---- jobs ---- */

static void begin_job(bool device)
{
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    if (me == 0 && shmemx_get_uniqueid(&shared->id) != 0)
        set(&shared->failed, 1);
    add(&shared->jobs);
    synchronise();
    attr.rank = me;
    attr.size = PES;
    attr.id = &shared->id;
    attr.errors = SHMEMX_ERRORS_RETURN;
    attr.requested = SHMEM_THREAD_MULTIPLE;
    if (shmemx_init_attr(&attr) != 0 || (device && shmemx_device_init() != 0))
        set(&shared->failed, 1);
    size_t bytes = (size_t)PES * MOST * sizeof *dest;
    if (get(&shared->failed) == 0) {
        dest = (int32_t *)(device ? shmemx_malloc(bytes, SHMEMX_DEVICE) : shmem_malloc(bytes));
        source = (int32_t *)(device ? shmemx_malloc(bytes, SHMEMX_DEVICE) : shmem_malloc(bytes));
    }
    synchronise();
}
static void end_job(void)
{
    synchronise();
    if (shmemx_leave() != 0)
        set(&shared->failed, 1);
    synchronise();
}

static shmemx_coll_t coll_of(const struct call *c)
{
    shmemx_coll_t q = shmemx_coll_of(c->kind, SHMEM_TEAM_WORLD, dest, source, c->nelems, SHMEMX_INT32);
    q.root = root();
    q.to = (me + 1) % PES;
    q.from = (me + PES - 1) % PES;
    return q;
}

/* ---- host ---- */

static int call_host(const struct call *c)
{
    shmemx_coll_t q = coll_of(c);
    size_t bytes[PES];
    shmemx_host_blocks_t b = {bytes, NULL, bytes, NULL};
    for (int m = 0; m < PES; m++)
        bytes[m] = c->nelems * sizeof *dest;
    shmemx_splits_t whole = {1, &c->nelems, NULL, NULL, NULL};
    if (c->kind == SHMEMX_ALLTOALLV)
        q.host_blocks = &b;
    if (c->forced == splits)
        q.splits = &whole;
    return shmemx_coll_on_host(&q);
}

/* In one stage, in shares of stages, in several of these, read where they lie; and packed. */
static const size_t host_lengths[] = {2, 1000, 5000, 9000, MOST, MOST};
enum { LENGTHS = sizeof host_lengths / sizeof host_lengths[0] };

static void test_host(const char *what)
{
    begin_job(false);
    for (int kind = 0; kind <= SHMEMX_REDUCE; kind++)
        for (int length = 0; length < LENGTHS; length++) {
            struct call c = {kind, host_lengths[length], length == LENGTHS - 1 ? splits : NULL};
            if ((length > 0 && blocks(kind) == 0) ||
                (c.forced != NULL && kind != SHMEMX_FCOLLECT && kind != SHMEMX_REDUCESCATTER) ||
                !chosen(kind == SHMEMX_ALLREDUCE && length == 1 ? 1 : 12))
                continue;
            for (int at = 1; hurt(&c, what, call_host, at); at += full ? 1 : 1 + (int)check_random_below(&choices, 2)) {
                end_job();
                begin_job(false);
            }
        }
    end_job();
}
static void test_barriers(const char *what)
{
    static const char *const names[] = {"dissemination", "hier", "central"}; /* where it does not fit, the usual one */
    for (int i = 0; i < 6; i++) {
        struct call c = {i % 2 ? SHMEMX_SYNC : SHMEMX_BARRIER, 0, names[i / 2]};
        char text[64];
        snprintf(text, sizeof text, "host.barrier=%s", names[i / 2]);
        setenv("SHMEM_COLL", text, 1);
        begin_job(false);
        for (int at = 1; hurt(&c, what, call_host, at); at++) {
            end_job();
            begin_job(false);
        }
        end_job();
    }
    unsetenv("SHMEM_COLL");
}

/* ---- calls of shmem.h: an error ends the process ---- */

static int call_typed(const struct call *c)
{
    switch (c->kind) {
    case SHMEMX_BROADCAST:
        return shmem_int32_broadcast(SHMEM_TEAM_WORLD, dest, source, c->nelems, root());
    case SHMEMX_FCOLLECT:
        return shmem_int32_fcollect(SHMEM_TEAM_WORLD, dest, source, c->nelems);
    case SHMEMX_ALLTOALL:
        return shmem_int32_alltoall(SHMEM_TEAM_WORLD, dest, source, c->nelems);
    case SHMEMX_ALLREDUCE:
        return shmem_int32_sum_reduce(SHMEM_TEAM_WORLD, dest, source, c->nelems);
    case SCAN:
        return shmem_int32_sum_inscan(SHMEM_TEAM_WORLD, dest, source, c->nelems);
    case COLLECT:
        return shmem_int32_collect(SHMEM_TEAM_WORLD, dest, source, c->nelems);
    case ALLTOALLS:
        return shmem_int32_alltoalls(SHMEM_TEAM_WORLD, dest, source, 1, 1, c->nelems);
    default:
        return shmem_team_sync(SHMEM_TEAM_WORLD);
    }
}

/* One member; stays until all have ended their calls, since whoever leaves ends the others. */
static void be_typed(const struct call *c, const char *what)
{
    begin_job(false);
    (void)shmemx_set_error_mode(SHMEMX_ERRORS_ABORT);
    round_of++;
    spoil();
    set(&shared->armed, 1);
    synchronise();
    fill();
    add(&shared->entered);
    int rc = call_typed(c);
    judge(c, what, rc);
    if (me == shared->victim)
        set(&shared->ended, 1);
    for (int done = add(&shared->waiting), i = 0; done < PES && get(&shared->waiting) < PES && i < 5000; i++)
        usleep(200);
    _exit(0);
}

/* false: the victim passed unhurt. */
static bool typed_once(const struct call *c, const char *what, int at)
{
    pid_t pids[PES];
    shared->victim = at % PES;
    shared->at = at;
    shared->hit = shared->ended = shared->waits = shared->entered = shared->armed = shared->waiting = 0;
    shared->arrived = 0;
    shared->hits++;
    for (me = 0; me < PES; me++)
        if ((pids[me] = fork()) == 0)
            be_typed(c, what);
    for (int left = PES, status; left > 0; left--) {
        pid_t pid = wait(&status);
        if (pid == pids[shared->victim])
            set(&shared->ended, 1);
        add(&shared->waiting);
    }
    return get(&shared->hit) != 0;
}

static void test_typed(const char *what)
{
    static const int kind_of[COLL_OPS] = {SHMEMX_SYNC,     SHMEMX_BROADCAST, COLLECT,          SHMEMX_FCOLLECT,
                                          SHMEMX_ALLTOALL, ALLTOALLS,        SHMEMX_ALLREDUCE, SCAN};
    const struct select_plane *plane = &iso_select_host;
    for (int i = 0; i < plane->n_algorithms; i++) {
        const struct select_algorithm *a = &plane->algorithms[i];
        struct call c = {kind_of[a->kind], 1500, a->name};
        char text[80];
        if (!chosen(20))
            continue;
        snprintf(text, sizeof text, "host.%s=%s", plane->kinds[a->kind], a->name);
        setenv("SHMEM_COLL", text, 1);
        for (int at = 1; typed_once(&c, what, at) && (full || at < 3); at++)
            continue;
    }
    unsetenv("SHMEM_COLL");
}

/* ---- streams ---- */

static int call_stream(const struct call *c)
{
    shmemx_coll_t q = coll_of(c);
    size_t bytes[PES];
    shmemx_host_blocks_t b = {bytes, NULL, bytes, NULL};
    for (int m = 0; m < PES; m++)
        bytes[m] = c->nelems * sizeof *dest;
    if (c->kind == SHMEMX_ALLTOALLV)
        q.host_blocks = &b;
    q.slot = SLOT;
    q.engines = c->forced != NULL && strcmp(c->forced, "engines") == 0;
    int rc = shmemx_coll_on_stream(&q, NULL);
    return shmemx_stream_synchronize(NULL) | rc;
}

/* A call in pieces; two calls in a batch, merged where their blocks are short, the second with dest behind that of the
 * first; or a message round the ring, which is a permute. */
static const char in_batch[] = "a batch", messages[] = "messages";

static int call_otherwise(const struct call *c)
{
    shmemx_coll_t q = coll_of(c);
    size_t pieces[3] = {third(c), 0, 0}, words = (size_t)PES * c->nelems;
    int rc = 0;
    q.slot = SLOT;
    if (c->forced == in_pieces) {
        pieces[1] = c->nelems - pieces[0];
        shmemx_splits_t s = {3, pieces, NULL, NULL, NULL};
        q.splits = &s;
        rc = shmemx_coll_on_stream(&q, NULL);
    } else if (c->forced == messages) {
        rc = shmemx_coll_group_begin();
        rc |= shmemx_recv_on_stream(SHMEM_TEAM_WORLD, dest, c->nelems * sizeof *dest, q.from, 1, NULL);
        rc |= shmemx_send_on_stream(SHMEM_TEAM_WORLD, source, c->nelems * sizeof *dest, q.to, 1, NULL);
        rc |= shmemx_coll_group_end();
    } else {
        rc = shmemx_coll_group_begin();
        rc |= shmemx_coll_on_stream(&q, NULL);
        q.dest = dest + words;
        rc |= shmemx_coll_on_stream(&q, NULL);
        rc |= shmemx_coll_group_end();
    }
    rc |= shmemx_stream_synchronize(NULL);
    if (c->forced == in_batch && rc == 0 && memcmp(dest, dest + words, words * sizeof *dest) != 0) {
        fprintf(stderr, "[pe %d] the second call of a batch returned 0 with wrong data\n", me);
        set(&shared->wrong, 1);
    }
    return rc;
}

/* By pauses: so many points of the call, which took `waits` of them unhurt. */
static void hurt_often(const struct call *c, const char *what, call_fn *call)
{
    int points = full ? 16 : 3;
    (void)hurt(c, what, call, 0); /* the first call of a slot agrees about much */
    (void)hurt(c, what, call, 0);
    int waits = get(&shared->waits);
    for (int i = 0; i < points; i++) {
        int step = waits / points + 1, at = 1 + i * step + (int)check_random_below(&choices, (size_t)step);
        if (!hurt(c, what, call, at))
            continue;
        shmemx_device_abort();
        synchronise();
        if (shmemx_device_reset(SHMEM_TEAM_WORLD, SLOT) != 0)
            set(&shared->failed, 1);
        synchronise();
    }
}

static void test_stream(const char *what)
{
    static const size_t lengths[] = {2, 1500, 8000};
    const struct select_plane *plane = &iso_select_stream;
    for (int i = 0; i < plane->n_algorithms; i++) {
        const struct select_algorithm *a = &plane->algorithms[i];
        struct call c = {a->kind == CALL_ALLTOALLV_HOST ? SHMEMX_ALLTOALLV : a->kind, 0, a->name};
        char text[80];
        if (c.kind > SHMEMX_REDUCE || a->kind == SHMEMX_ALLTOALLV || (a->engines && strchr(what, ',') != NULL))
            continue; /* blocks in memory of the device; engines, which need pointers to all */
        if (!chosen(20))
            continue;
        snprintf(text, sizeof text, "stream.%s=%s", plane->kinds[a->kind], a->name);
        setenv("SHMEM_COLL", text, 1);
        begin_job(true);
        for (int length = 0; length < 3; length++) {
            c.nelems = lengths[length];
            if (full || length == 1)
                hurt_often(&c, what, call_stream);
        }
        end_job();
    }
    unsetenv("SHMEM_COLL");
}

static void test_otherwise(const char *what)
{
    static const struct call calls[] = {
        {SHMEMX_FCOLLECT, 1500, in_pieces}, {SHMEMX_REDUCESCATTER, 1500, in_pieces}, {SHMEMX_FCOLLECT, 2, in_batch},
        {SHMEMX_FCOLLECT, 500, in_batch},   {SHMEMX_FCOLLECT, 3000, in_batch},       {SHMEMX_ALLTOALL, 2, in_batch},
        {SHMEMX_ALLTOALL, 500, in_batch},   {SHMEMX_PERMUTE, 2, messages},           {SHMEMX_PERMUTE, 3000, messages},
        {SHMEMX_PERMUTE, MOST, messages},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (!chosen(8))
            continue;
        begin_job(true);
        hurt_often(&calls[i], what, call_otherwise);
        end_job();
    }
}

/* ---- kernels ---- */

struct kernel_args {
    shmemd_t h;
    int32_t *dest, *source;
    size_t nelems;
    int kind, grid, root, to, from;
    int *rc;
};

SHMEMD_KERNEL(call_in_kernel, struct kernel_args, a)
{
#define BOTH(name, ...) a.grid ? shmemd_##name##_grid(a.h, ##__VA_ARGS__) : shmemd_##name##_block(a.h, ##__VA_ARGS__)
    int rc = 0;
    if (a.kind == SHMEMX_ALLREDUCE)
        rc = BOTH(int32_sum_reduce, a.dest, a.source, a.nelems);
    else if (a.kind == SHMEMX_REDUCESCATTER)
        rc = BOTH(int32_sum_reducescatter, a.dest, a.source, a.nelems);
    else if (a.kind == SHMEMX_FCOLLECT)
        rc = BOTH(int32_fcollect, a.dest, a.source, a.nelems);
    else if (a.kind == SHMEMX_ALLTOALL)
        rc = BOTH(int32_alltoall, a.dest, a.source, a.nelems);
    else if (a.kind == SHMEMX_BROADCAST)
        rc = BOTH(int32_broadcast, a.dest, a.source, a.nelems, a.root);
    else if (a.kind == SHMEMX_PERMUTE)
        rc = BOTH(int32_permute, a.dest, a.source, a.nelems, a.to, a.from);
    else if (a.kind == SHMEMX_BARRIER)
        rc = BOTH(barrier);
    else
        rc = BOTH(sync);
    if (rc != 0)
        *a.rc = rc; /* by any thread */
#undef BOTH
}

static shmemd_t handle;
static int call_kernel(const struct call *c)
{
    int rc = 0, grid = strcmp(c->forced, "a grid") == 0;
    struct kernel_args a = {handle, dest,   source,         c->nelems, c->kind,
                            grid,   root(), (me + 1) % PES, (me + PES - 1) % PES, &rc};
    int launched = shmemx_launch(SHMEMX_KERNEL(call_in_kernel), grid ? 2 : 1, 32, 0, &a, sizeof a, NULL);
    int done = shmemx_stream_synchronize(NULL);
    return launched | done | rc;
}

static void test_kernel(const char *what)
{
    static const int in_kernels[] = {SHMEMX_ALLREDUCE, SHMEMX_REDUCESCATTER, SHMEMX_FCOLLECT, SHMEMX_ALLTOALL,
                                     SHMEMX_BROADCAST, SHMEMX_PERMUTE,       SHMEMX_BARRIER,  SHMEMX_SYNC};
    static const size_t lengths[] = {2, 1500, 8000};
    begin_job(true);
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, SLOT, &handle) != 0)
        set(&shared->failed, 1);
    synchronise();
    for (int i = 0; i < 8 * 3 * 2; i++) {
        struct call c = {in_kernels[i / 6], lengths[i / 2 % 3], i % 2 ? "a grid" : "a block"};
        if (chosen(12))
            hurt_often(&c, what, call_kernel);
    }
    end_job();
}

/* ---- */

struct part {
    const char *what, *nodes, *proxy;
    void (*test)(const char *what);
    bool typed; /* the parent has processes of its own for each call */
};
static const struct part parts[] = {
    {"host", "", "0", test_host, false},
    {"host barriers", "", "0", test_barriers, false},
    {"host, two nodes", "0,0,1,1", "0", test_host, false},
    {"host barriers, two nodes", "0,0,1,1", "0", test_barriers, false},
    {"typed", "", "0", test_typed, true},
    {"typed, two nodes", "0,0,1,1", "0", test_typed, true},
    {"stream", "", "0", test_stream, false},
    {"stream, two nodes", "0,0,1,1", "0", test_stream, false},
    {"stream, proxy", "", "1", test_stream, false},
    {"otherwise", "", "0", test_otherwise, false},
    {"otherwise, two nodes", "0,0,1,1", "0", test_otherwise, false},
    {"otherwise, proxy", "", "1", test_otherwise, false},
    {"kernel", "", "0", test_kernel, false},
    {"kernel, two nodes", "0,0,1,1", "0", test_kernel, false},
    {"kernel, proxy", "", "1", test_kernel, false},
};

static void run_part(const struct part *p)
{
    pid_t pids[PES];
    setenv("SHMEM_VIRTUAL_NODES", p->nodes, 1);
    if (p->nodes[0] == '\0')
        unsetenv("SHMEM_VIRTUAL_NODES");
    setenv("SHMEM_FORCE_PROXY", p->proxy, 1);
    if (p->typed) {
        p->test(p->what);
        return;
    }
    shared->arrived = shared->armed = 0;
    for (me = 0; me < PES; me++)
        if ((pids[me] = fork()) == 0) {
            p->test(p->what);
            _exit(0);
        }
    for (int i = 0, status; i < PES; i++)
        if (waitpid(pids[i], &status, 0) != pids[i] || status != 0)
            set(&shared->failed, 1);
}

int main(int argc, char **argv)
{
    const char *seed = getenv("SHMEM_TEST_SEED");
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return CHECK_FAILED;
    full = getenv("SHMEM_TEST_FULL") != NULL;
    choices.state = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    printf("repeat with SHMEM_TEST_SEED=%llu\n", (unsigned long long)choices.state);
    fflush(stdout);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && shared->failed == 0; i++) {
        int jobs = shared->jobs, hits = shared->hits;
        if (argc > 1 ? strncmp(parts[i].what, argv[1], strlen(argv[1])) != 0 : !chosen(2))
            continue;
        (void)check_random_next(&choices);
        run_part(&parts[i]);
        printf("%s: %d jobs, %d calls\n", parts[i].what, (shared->jobs - jobs) / PES, shared->hits - hits);
        fflush(stdout);
    }
    return shared->failed != 0 || shared->wrong != 0 ? CHECK_FAILED : CHECK_PASSED;
}
