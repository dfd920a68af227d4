/* SPDX-License-Identifier: MIT */
/* Host memory lent back and taken again, without a device and beside one: nearly all of it is free meanwhile, addresses
 * are right afterwards, marked objects keep their contents, and calls of the host work. Lent objects are refused, and
 * loads of them fault. */
#include "device_test.h"

#include <errno.h>
#include <sys/mman.h>

enum { ROUNDS = 100, WORDS = 2000, BIG_BYTES = 1 << 20, OWN_BYTES = 1 << 20, TEAMS = 3 };

struct host_state {
    int me, n;
    bool far; /* PEs on several nodes: what the network has registered stays */
    shmem_team_t teams[TEAMS];
    char *big[2], *of_team, *own; /* [BIG_BYTES], [BIG_BYTES], [BIG_BYTES], [OWN_BYTES * (me + 1)] */
    uint64_t *counters, *of_own;  /* marked: [n], between the first two; [n], of this PE alone */
    uint64_t *dest, *source;      /* [WORDS * n], on both sides of the second */
};

static size_t own_bytes(const struct host_state *s) { return (size_t)OWN_BYTES * (size_t)(s->me + 1); }

static void host_state_make(struct host_state *s)
{
    memset(s, 0, sizeof *s);
    s->me = shmem_my_pe();
    s->n = shmem_n_pes();
    s->far = getenv("SHMEM_VIRTUAL_NODES") != NULL;
    s->big[0] = (char *)shmem_malloc(BIG_BYTES);
    s->counters = (uint64_t *)shmem_calloc((size_t)s->n, sizeof(uint64_t));
    s->dest = (uint64_t *)shmem_malloc((size_t)s->n * WORDS * sizeof(uint64_t));
    s->big[1] = (char *)shmem_malloc(BIG_BYTES);
    s->source = (uint64_t *)shmem_malloc((size_t)s->n * WORDS * sizeof(uint64_t));
    s->of_team = (char *)shmemx_team_malloc(SHMEM_TEAM_WORLD, BIG_BYTES, SHMEMX_HOST);
    s->own = (char *)shmemx_local_malloc(own_bytes(s), SHMEMX_HOST);
    s->of_own = (uint64_t *)shmemx_local_malloc((size_t)s->n * sizeof(uint64_t), SHMEMX_HOST);
    CHECK_OR_EXIT(s->big[0] != NULL && s->counters != NULL && s->big[1] != NULL && s->of_team != NULL &&
                  s->own != NULL && s->of_own != NULL && s->dest != NULL && s->source != NULL);
    CHECK_EQ(shmemx_keep(s->counters), 0);
    CHECK_EQ(shmemx_keep(s->of_own), 0);
    CHECK(shmemx_keep(s->counters + 1) != 0);
    CHECK(shmemx_keep(&s) != 0);
    for (int i = 0; i < TEAMS; i++)
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, s->n, NULL, 0, &s->teams[i]), 0);
}

static void fill_objects(const struct host_state *s, unsigned round)
{
    memset(s->big[0], (int)round, BIG_BYTES);
    memset(s->big[1], (int)round + 1, BIG_BYTES);
    memset(s->of_team, (int)round + 2, BIG_BYTES);
    memset(s->own, (int)round + 3, own_bytes(s));
}

static bool has(const char *bytes, size_t len, unsigned value)
{
    return (unsigned char)bytes[0] == (unsigned char)value && memcmp(bytes, bytes + 1, len - 1) == 0;
}

static void check_contents(const struct host_state *s, unsigned round)
{
    CHECK(has(s->big[0], BIG_BYTES, round));
    CHECK(has(s->big[1], BIG_BYTES, round + 1));
    CHECK(has(s->of_team, BIG_BYTES, round + 2));
    CHECK(has(s->own, own_bytes(s), round + 3));
}

static size_t stage_bytes(shmem_team_t team)
{
    shmemx_memory_stats_t stats;
    CHECK_EQ(shmemx_memory_stats(team, SHMEMX_HOST, &stats), 0);
    return stats.stage_bytes;
}

/* Calls that go by stages, on each team, in the given memory. */
static void check_calls(const struct host_state *s, uint64_t *dest, uint64_t *source, unsigned round)
{
    for (int t = 0; t < TEAMS; t++) {
        for (size_t i = 0; i < (size_t)s->n * WORDS; i++)
            source[i] = (uint64_t)s->me * 1000000 + i + round;
        shmem_barrier_all();
        CHECK_EQ(shmem_uint64_alltoall(s->teams[t], dest, source, WORDS), 0);
        for (int pe = 0; pe < s->n; pe++)
            for (size_t i = 0; i < WORDS; i += 97)
                CHECK_EQ(dest[(size_t)pe * WORDS + i], (uint64_t)pe * 1000000 + (size_t)s->me * WORDS + i + round);
        shmem_barrier_all();
        CHECK_EQ(shmem_uint64_sum_reduce(s->teams[t], dest, source, WORDS), 0);
        for (size_t i = 0; i < WORDS; i += 97)
            CHECK_EQ(dest[i], (uint64_t)s->n * (uint64_t)(s->n - 1) / 2 * 1000000 + (uint64_t)s->n * (i + round));
        shmem_barrier_all();
        shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, s->teams[t], dest, source, 3, SHMEMX_UINT64);
        CHECK_EQ(shmemx_coll_on_host(&c), 0);
        for (size_t i = 0; i < 3; i++)
            CHECK_EQ(dest[i], (uint64_t)s->n * (uint64_t)(s->n - 1) / 2 * 1000000 + (uint64_t)s->n * (i + round));
        shmem_barrier_all();
        CHECK(s->n == 1 || stage_bytes(s->teams[t]) > 0);
    }
}

static void count_up(const struct host_state *s, unsigned round)
{
    for (int pe = 0; pe < s->n; pe++)
        shmem_uint64_atomic_add(&s->counters[s->me], 1, pe);
    s->of_own[s->me]++;
    shmem_barrier_all();
    for (int pe = 0; pe < s->n; pe++)
        CHECK_EQ(shmem_uint64_g(&s->counters[pe], s->me), round);
    CHECK_EQ(s->of_own[s->me], round);
}

static size_t held(void)
{
    shmemx_memory_stats_t stats;
    CHECK_EQ(shmemx_memory_stats(SHMEM_TEAM_WORLD, SHMEMX_HOST, &stats), 0);
    return stats.held_bytes;
}

/* No other PE is in a call that uses stages. */
static void check_given_back(const struct host_state *s, size_t before, int keep)
{
    for (int t = 0; t < TEAMS && !s->far; t++)
        CHECK_EQ(stage_bytes(s->teams[t]), 0);
    size_t now = held(), objects = 3 * (size_t)BIG_BYTES + own_bytes(s);
    if (!s->far && !CHECK(keep ? now >= objects : now * 20 <= before))
        fprintf(stderr, "keep %d: %zu bytes were held before, %zu now\n", keep, before, now);
}

/* A system call says what a load would end in. */
static bool faults(const char *bytes)
{
    int ends[2];
    CHECK_OR_EXIT(pipe(ends) == 0);
    ssize_t written = write(ends[1], bytes, 1);
    bool is_fault = written < 0 && errno == EFAULT;
    close(ends[0]);
    close(ends[1]);
    return is_fault;
}

static void check_lent(const struct host_state *s)
{
    char *const lent[] = {s->big[0], s->big[1], s->of_team, s->own};
    shmemx_address_info_t info;
    CHECK(shmemx_suspend(0) != 0);
    for (int i = 0; i < 4; i++) {
        CHECK(s->far || faults(lent[i] + BIG_BYTES / 4));
        CHECK_EQ(shmemx_address_info(lent[i] + 7, &info), 0);
        CHECK(info.object == lent[i]);
        CHECK(i == 3 || shmem_ptr(lent[i], (s->me + 1) % s->n) == NULL); /* a place of a peer's own object */
    }
    CHECK(shmem_addr_accessible(s->counters, s->me));
    CHECK(!shmem_addr_accessible(s->big[0], s->me));
    for (int i = 0; i < 4; i++)
        CHECK(shmemx_keep(lent[i]) != 0);
}

enum { MAPPINGS = 140000 }; /* the system's usual limit, vm.max_map_count, is 65530 */
#ifdef ISO_PES_AS_THREADS
enum { ALONE = false };
#else
enum { ALONE = true };
#endif

/* Objects may be freed, and others come to their places. */
static void check_new(struct host_state *s, unsigned round)
{
    size_t bytes = (size_t)s->n * WORDS * sizeof(uint64_t);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = page * MAPPINGS;
    char *taken = (char *)mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK_OR_EXIT(taken != MAP_FAILED);
    size_t i = 0;
    while (ALONE && round == 1 && i < MAPPINGS && mprotect(taken + i * page, page, PROT_READ) == 0)
        i += 2; /* until the process gets no more mappings */
    if (i >= MAPPINGS)
        fprintf(stderr, "not tried: a process without room for mappings, since vm.max_map_count allows %d\n", MAPPINGS);
    shmem_free(s->big[1]);
    shmemx_local_free(s->own);
    CHECK_EQ(munmap(taken, len), 0);
    uint64_t *dest = (uint64_t *)shmem_malloc(bytes);
    uint64_t *source = (uint64_t *)shmemx_team_malloc(SHMEM_TEAM_WORLD, bytes, SHMEMX_HOST);
    s->big[1] = (char *)shmem_calloc(1, BIG_BYTES);
    s->own = (char *)shmemx_local_malloc(own_bytes(s), SHMEMX_HOST);
    CHECK_OR_EXIT(dest != NULL && source != NULL && s->big[1] != NULL && s->own != NULL);
    CHECK(has(s->big[1], BIG_BYTES, 0));
    memset(s->own, 1, own_bytes(s));
    check_calls(s, dest, source, round);
    shmem_free(dest);
    CHECK_EQ(shmemx_team_free(SHMEM_TEAM_WORLD, source), 0);
}

struct kernel_args {
    shmemd_t h;
    uint64_t *of_team;
};
SHMEMD_KERNEL(pass_on, struct kernel_args, a)
{
    int me = shmemd_my_pe(a.h), next = (me + 1) % shmemd_n_pes(a.h);
    if (shmemd_thread_index() != 0)
        return;
    shmemd_uint64_p(a.h, a.of_team, 7 + (uint64_t)me, next);
    shmemd_uint64_p(a.h, a.of_team + 1, shmemd_ptr(a.h, a.of_team, me) != NULL, me);
    shmemd_quiet(a.h);
}
/* A device that has started meanwhile: its kernels know what was lent then. */
static void check_kernel(const struct host_state *s)
{
    struct kernel_args a;
    char text[200];
    shmemx_device_text(text, sizeof text);
    memset(&a, 0, sizeof a);
    a.of_team = (uint64_t *)(void *)s->of_team;
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h), 0);
    shmem_barrier_all();
    DEVICE_LAUNCH(pass_on, 1, 64, a, NULL);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    shmem_barrier_all();
    CHECK_EQ(a.of_team[0], 7 + (uint64_t)((s->me + s->n - 1) % s->n));
    CHECK_EQ(a.of_team[1], strncmp(text, "cpu", 3) == 0); /* the others have no pointers to memory of the host */
}

static int test_main(void)
{
    struct host_state s;
    bool has_device = false;
    CHECK_INIT();
    host_state_make(&s);
    unsigned rounds = (unsigned)device_number("SHMEM_TEST_ROUNDS", ROUNDS);
    for (unsigned round = 1; round <= rounds; round++) {
        int keep = round % 4 == 0;
        fill_objects(&s, round);
        if (round % 10 < 4)
            check_calls(&s, s.dest, s.source, round);
        count_up(&s, round);
        if (round % 4 == 1)
            if (mlock(s.big[0], BIG_BYTES) != 0 && round == 1) /* goes, too */
                fprintf(stderr, "not tried: locked memory: %s\n", strerror(errno));
        shmem_barrier_all();
        size_t before = held();
        CHECK_EQ(shmemx_suspend(keep), 0);
        check_given_back(&s, before, keep);
        shmem_barrier_all();
        if (!keep)
            check_lent(&s);
        if (!keep && round % 10 < 4)
            check_new(&s, round);
        bool starts = !keep && !has_device && round >= rounds - rounds / 8 && !s.far; /* between nodes a device keeps it */
        has_device = has_device || (starts && shmemx_device_init() == 0);
        CHECK_EQ(shmemx_resume(), 0);
        if (starts && has_device)
            check_kernel(&s);
        if (keep)
            check_contents(&s, round);
        CHECK(shmemx_heap_is_valid());
    }
    fill_objects(&s, 0);
    check_calls(&s, s.dest, s.source, 0);
    count_up(&s, rounds + 1);
    shmem_barrier_all();
    CHECK_EQ(shmemx_suspend(0), 0);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
