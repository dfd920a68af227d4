/* SPDX-License-Identifier: MIT */
/* Start, end and the questions a PE may ask: shmem_init, shmem_finalize (nested), shmem_query_initialized, shmem_my_pe,
 * shmem_n_pes, shmem_info_get_*, shmem_pe_accessible, shmem_addr_accessible, shmem_ptr, shmem_team_ptr, the constants
 * and the handles. */
#include "../check.h"

#include <limits.h>

/* Handles are usable in initializers of objects with static storage duration. */
static const shmem_team_t initial_world = SHMEM_TEAM_WORLD;
static const shmem_team_t initial_shared = SHMEM_TEAM_SHARED;
static const shmem_team_t initial_no_team = SHMEM_TEAM_INVALID;
static const shmem_ctx_t initial_default = SHMEM_CTX_DEFAULT;
static const shmem_ctx_t initial_no_ctx = SHMEM_CTX_INVALID;

static void test_numbers(void)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    CHECK(npes >= 1);
    CHECK(me >= 0 && me < npes);
    CHECK_EQ(shmem_team_my_pe(SHMEM_TEAM_WORLD), me);
    CHECK_EQ(shmem_team_n_pes(SHMEM_TEAM_WORLD), npes);

    /* Every number is taken exactly once. */
    int *taken = (int *)shmem_calloc((size_t)npes, sizeof(int));
    CHECK_OR_EXIT(taken != NULL);
    for (int pe = 0; pe < npes; pe++)
        shmem_int_atomic_inc(&taken[me], pe);
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        CHECK_EQ(taken[pe], 1);
    shmem_free(taken);
}

static void test_info(void)
{
    int major = -1;
    int minor = -1;
    char name[SHMEM_MAX_NAME_LEN + 8];
    shmem_info_get_version(&major, &minor);
    CHECK_EQ(major, SHMEM_MAJOR_VERSION);
    CHECK_EQ(minor, SHMEM_MINOR_VERSION);
    CHECK(SHMEM_MAX_NAME_LEN >= (int)sizeof(SHMEM_VENDOR_STRING));
    memset(name, CHECK_POISON, sizeof(name));
    shmem_info_get_name(name);
    CHECK(memchr(name, '\0', SHMEM_MAX_NAME_LEN) != NULL);
    CHECK(strcmp(name, SHMEM_VENDOR_STRING) == 0);
    CHECK(check_all_bytes(name + SHMEM_MAX_NAME_LEN, CHECK_POISON, 8));
    int patch = -1;
    CHECK(sscanf(ISOMER_VERSION_STRING, "%d.%d.%d", &major, &minor, &patch) == 3);
    CHECK_EQ(ISOMER_VERSION, 10000 * major + 100 * minor + patch);
}

static void test_constants(void)
{
    CHECK(SHMEM_THREAD_SINGLE < SHMEM_THREAD_FUNNELED);
    CHECK(SHMEM_THREAD_FUNNELED < SHMEM_THREAD_SERIALIZED);
    CHECK(SHMEM_THREAD_SERIALIZED < SHMEM_THREAD_MULTIPLE);

    /* Options are combined by OR, so each is a bit of its own. */
    const long options[] = {SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < i; j++)
            CHECK((options[i] & options[j]) == 0);
    CHECK((SHMEM_CTX_SERIALIZED | SHMEM_CTX_PRIVATE | SHMEM_CTX_NOSTORE) != 0);
    CHECK((SHMEM_MALLOC_ATOMICS_REMOTE & SHMEM_MALLOC_SIGNAL_REMOTE) == 0);
    CHECK(SHMEM_TEAM_NUM_CONTEXTS != 0);
    CHECK(SHMEM_CTX_SESSION_TOTAL_OPS != 0);
    CHECK(SHMEM_CTX_SESSION_BATCH != 0);

    /* Integer constant expressions, all different: they can label the cases of a switch. */
    int sum = 0;
    for (int i = 0; i < 2; i++) {
        switch (i == 0 ? SHMEM_SIGNAL_SET : SHMEM_SIGNAL_ADD) {
        case SHMEM_SIGNAL_SET:
            sum += 1;
            break;
        case SHMEM_SIGNAL_ADD:
            sum += 2;
            break;
        default:
            break;
        }
    }
    CHECK_EQ(sum, 3);
    switch (SHMEM_CMP_GE) {
    case SHMEM_CMP_EQ:
    case SHMEM_CMP_NE:
    case SHMEM_CMP_LT:
    case SHMEM_CMP_LE:
    case SHMEM_CMP_GT:
        CHECK(false);
        break;
    case SHMEM_CMP_GE:
        break;
    default:
        CHECK(false);
    }
}

static void test_handles(void)
{
    CHECK(initial_world == SHMEM_TEAM_WORLD);
    CHECK(initial_shared == SHMEM_TEAM_SHARED);
    CHECK(initial_no_team == SHMEM_TEAM_INVALID);
    CHECK(initial_default == SHMEM_CTX_DEFAULT);
    CHECK(initial_no_ctx == SHMEM_CTX_INVALID);
    CHECK(SHMEM_TEAM_WORLD != SHMEM_TEAM_INVALID);
    CHECK(SHMEM_TEAM_SHARED != SHMEM_TEAM_INVALID);
    CHECK(SHMEM_CTX_DEFAULT != SHMEM_CTX_INVALID);
    CHECK(shmem_team_n_pes(initial_shared) >= 1);
    CHECK(shmem_team_my_pe(initial_shared) >= 0);
}

static void test_accessible(void)
{
    int npes = shmem_n_pes();
    char on_stack = 0;
    char *private_heap = (char *)malloc(16);
    char *symmetric = (char *)shmem_malloc(1000);
    CHECK_OR_EXIT(symmetric != NULL && private_heap != NULL);
    for (int pe = 0; pe < npes; pe++) {
        CHECK_EQ(shmem_pe_accessible(pe), 1);
        CHECK_EQ(shmem_addr_accessible(symmetric, pe), 1);
        CHECK_EQ(shmem_addr_accessible(symmetric + 999, pe), 1);
        CHECK_EQ(shmem_addr_accessible(&on_stack, pe), 0);
        CHECK_EQ(shmem_addr_accessible(private_heap, pe), 0);
        CHECK_EQ(shmem_addr_accessible(NULL, pe), 0);
    }
    CHECK_EQ(shmem_pe_accessible(-1), 0);
    CHECK_EQ(shmem_pe_accessible(npes), 0);
    CHECK_EQ(shmem_pe_accessible(INT_MAX), 0);
    CHECK_EQ(shmem_addr_accessible(symmetric, -1), 0);
    CHECK_EQ(shmem_addr_accessible(symmetric, npes), 0);
    shmem_free(symmetric);
    free(private_heap);
}

/* All PEs of SHMEM_TEAM_SHARED have a pointer to all objects of all its PEs; loads and stores through it work. */
static void test_ptr(void)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    long *slots = (long *)shmem_malloc((size_t)npes * sizeof(long));
    CHECK_OR_EXIT(slots != NULL);
    for (int pe = 0; pe < npes; pe++)
        slots[pe] = -1;
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++) {
        bool shared = shmem_team_translate_pe(SHMEM_TEAM_WORLD, pe, SHMEM_TEAM_SHARED) >= 0;
        long *there = (long *)shmem_ptr(slots, pe);
        if (shared)
            CHECK(there != NULL);
        if (there != NULL)
            there[me] = 1000L * me + pe;
        else
            shmem_long_p(&slots[me], 1000L * me + pe, pe);
    }
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++) {
        CHECK_EQ(slots[pe], 1000L * pe + me);
        const long *there = (const long *)shmem_ptr(slots, pe);
        if (there != NULL)
            CHECK_EQ(there[me], 1000L * me + pe);
    }
    shmem_barrier_all();
    CHECK(shmem_ptr(slots, me) != NULL);
    *(long *)shmem_ptr(slots, me) = 77;
    CHECK_EQ(slots[0], 77);
    shmem_barrier_all();
    shmem_free(slots);
}

static void test_ptr_of_private(void)
{
    long on_stack = 0;
    CHECK(shmem_ptr(&on_stack, shmem_my_pe()) == NULL);
    CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, &on_stack, shmem_my_pe()) == NULL);
}

static void test_team_ptr(void)
{
    int npes = shmem_n_pes();
    int *object = (int *)shmem_malloc(sizeof(int));
    shmem_team_t odd = SHMEM_TEAM_INVALID;
    CHECK_OR_EXIT(object != NULL);
    *object = shmem_my_pe();
    shmem_barrier_all();
    for (int pe = 0; pe < npes; pe++)
        CHECK(shmem_team_ptr(SHMEM_TEAM_WORLD, object, pe) == shmem_ptr(object, pe));
    CHECK(shmem_team_ptr(SHMEM_TEAM_INVALID, object, 0) == NULL);
    for (int pe = 0; pe < shmem_team_n_pes(SHMEM_TEAM_SHARED); pe++) {
        int in_world = shmem_team_translate_pe(SHMEM_TEAM_SHARED, pe, SHMEM_TEAM_WORLD);
        const int *there = (const int *)shmem_team_ptr(SHMEM_TEAM_SHARED, object, pe);
        CHECK(there != NULL);
        CHECK(there == shmem_ptr(object, in_world));
        CHECK_EQ(*there, in_world);
    }
    if (npes > 1) {
        CHECK_EQ(shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, npes / 2, NULL, 0, &odd), 0);
        for (int pe = 0; odd != SHMEM_TEAM_INVALID && pe < npes / 2; pe++)
            CHECK(shmem_team_ptr(odd, object, pe) == shmem_ptr(object, 2 * pe + 1));
        shmem_team_destroy(odd);
    }
    shmem_barrier_all();
    shmem_free(object);
}

/* Only the last shmem_finalize ends anything; the others are barriers that complete what is under way. */
static void test_nested(void)
{
    int me = shmem_my_pe();
    int npes = shmem_n_pes();
    int state = 0;
    long *cell = (long *)shmem_calloc(1, sizeof(long));
    CHECK_OR_EXIT(cell != NULL);
    shmem_init();
    int provided = -1;
    CHECK_EQ(shmem_init_thread(SHMEM_THREAD_SINGLE, &provided), 0);
    CHECK(provided >= SHMEM_THREAD_SINGLE && provided <= SHMEM_THREAD_MULTIPLE);
    CHECK_EQ(shmem_my_pe(), me);
    CHECK_EQ(shmem_n_pes(), npes);
    for (int round = 1; round <= 2; round++) {
        shmem_long_p(cell, 100L * round + me, (me + 1) % npes);
        shmem_finalize();
        CHECK_EQ(*cell, 100L * round + (me + npes - 1) % npes);
        shmem_query_initialized(&state);
        CHECK(state != 0);
        shmem_barrier_all();
    }
    shmem_free(cell);
}

static int test_main(void)
{
    int state = -1;
    shmem_query_initialized(&state);
    CHECK_EQ(state, 0);
    CHECK_INIT();
    shmem_query_initialized(&state);
    CHECK(state != 0);
    test_numbers();
    test_info();
    test_constants();
    test_handles();
    test_accessible();
    test_ptr();
    test_ptr_of_private();
    test_team_ptr();
    test_nested();
    int failed = CHECK_DONE();
    shmem_query_initialized(&state);
    CHECK_EQ(state, 0);
    return failed != CHECK_PASSED || check_self.failures != 0 ? CHECK_FAILED : CHECK_PASSED;
}
CHECK_MAIN(test_main)
