/* SPDX-License-Identifier: MIT */
/* One wrong call a run; errors.sh knows what each must print. usage: errors CASE; without: lists the cases.
 * The last PE makes the mistake, unless the case is one of all PEs. Reaching the end is a failure of the test. */
#include "../check.h"

struct wrong {
    const char *name;
    void (*call)(void);
    bool everybody;   /* collective calls */
    bool before_init; /* the library is not started */
};

static char *heap; /* 1000 bytes of the symmetric heap */

static int *heap_ints(void) { return (int *)(void *)heap; }
static long *heap_longs(void) { return (long *)(void *)heap; }
static uint64_t *heap_signals(void) { return (uint64_t *)(void *)(heap + 512); }

/* A handle of a team or context that was, and is no more. */
static shmem_team_t dead_team(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
    shmem_team_destroy(team);
    return team;
}
static shmem_ctx_t dead_ctx(void)
{
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_ctx_create(0, &ctx);
    shmem_ctx_destroy(ctx);
    return ctx;
}

static void pe_put(void) { shmem_int_put(heap_ints(), heap_ints() + 10, 1, 9); }
static void pe_negative(void) { shmem_long_p(heap_longs(), 1, -1); }
static void pe_get(void) { shmem_getmem(heap, heap + 100, 8, 4711); }
static void pe_g(void) { (void)shmem_double_g((const double *)(const void *)heap, 2); }
static void pe_iput(void) { shmem_int_iput(heap_ints(), heap_ints() + 20, 1, 1, 4, 9); }
static void pe_put_nbi(void) { shmem_put64_nbi(heap, heap + 64, 1, 9); }
static void pe_amo(void) { shmem_int_atomic_inc(heap_ints(), 9); }
static void pe_fetch(void) { (void)shmem_long_atomic_fetch(heap_longs(), -7); }
static void pe_signal(void) { shmem_putmem_signal(heap, heap + 100, 8, heap_signals(), 1, SHMEM_SIGNAL_SET, 9); }
static void pe_team_ctx(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_ctx_t ctx = SHMEM_CTX_INVALID;
    shmem_team_config_t config = {1};
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), &config, SHMEM_TEAM_NUM_CONTEXTS, &team);
    shmem_team_create_ctx(team, 0, &ctx);
    shmem_ctx_int_p(ctx, heap_ints(), 1, 5);
}

static void address_stack(void)
{
    int on_stack = 0;
    shmem_int_put(&on_stack, heap_ints(), 1, 0);
}
static void address_malloc(void)
{
    char *mine = (char *)calloc(1, 100);
    shmem_getmem(heap, mine, 8, 0);
}
static void address_null(void) { shmem_putmem(NULL, heap, 8, 0); }
static void address_amo(void)
{
    int on_stack = 0;
    shmem_int_atomic_add(&on_stack, 1, 0);
}
static void address_signal(void)
{
    uint64_t on_stack = 0;
    shmem_putmem_signal(heap, heap + 100, 8, &on_stack, 1, SHMEM_SIGNAL_ADD, 0);
}
static void address_lock(void)
{
    long on_stack = 0;
    shmem_set_lock(&on_stack);
}
static void address_reduce(void)
{
    int on_stack = 0;
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, &on_stack, heap_ints(), 1);
}
static void past_heap(void) { shmem_putmem(heap, heap, (size_t)1 << 50, 0); }
/* Sizes whose product wraps around to a small one, and strides that lead out. */
static void overflow_put(void) { shmem_long_put(heap_longs(), heap_longs() + 10, SIZE_MAX / 8 + 2, 0); }
static void overflow_get(void) { shmem_get128(heap, heap + 512, SIZE_MAX / 16 + 2, 0); }
static void overflow_iput(void) { shmem_long_iput(heap_longs(), heap_longs() + 10, PTRDIFF_MAX / 4, 1, 9, 0); }
static void overflow_ibget(void) { shmem_long_ibget(heap_longs(), heap_longs() + 10, 2, (ptrdiff_t)1 << 61, 2, 9, 0); }
static void past_strided(void) { shmem_int_iput(heap_ints(), heap_ints() + 20, (ptrdiff_t)1 << 45, 1, 4, 0); }
static void overflow_fcollect(void)
{
    shmem_long_fcollect(SHMEM_TEAM_WORLD, heap_longs(), heap_longs() + 10, SIZE_MAX / 8 + 2);
}
static void overflow_reduce(void)
{
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, heap_longs(), heap_longs() + 10, SIZE_MAX / 8 + 2);
}
static void past_object(void) { shmem_putmem(heap + 900, heap, 200, 0); }
static void past_object_get(void)
{
    char got[2000];
    shmem_getmem(got, heap, 2000, 0);
}
static void before_object(void) { shmem_putmem(heap - 40, heap, 8, 0); }
static void freed_object(void)
{
    shmem_free(heap);
    shmem_putmem(heap + 8, heap + 100, 8, 0);
}
static void misaligned_int(void) { shmem_int_atomic_inc((int *)(void *)(heap + 2), 0); }
static void misaligned_long(void) { (void)shmem_long_atomic_fetch_add((long *)(void *)(heap + 4), 1, 0); }
static void misaligned_signal(void) { shmem_signal_set((uint64_t *)(void *)(heap + 1), 1, 0); }

static void team_destroyed(void) { shmem_team_sync(dead_team()); }
static void team_garbage(void) { shmem_int_sum_reduce((shmem_team_t)(uintptr_t)0x12345, heap_ints(), heap_ints(), 1); }
static void ctx_invalid(void) { shmem_ctx_int_p(SHMEM_CTX_INVALID, heap_ints(), 1, 0); }
static void ctx_destroyed(void) { shmem_ctx_putmem(dead_ctx(), heap, heap + 100, 8, 0); }
static void ctx_garbage(void) { shmem_ctx_quiet((shmem_ctx_t)(uintptr_t)0x54321); }

static void before_init_barrier(void) { shmem_barrier_all(); }
static void before_init_malloc(void) { (void)shmem_malloc(8); }
static void before_init_my_pe(void) { (void)shmem_my_pe(); }
static void before_init_finalize(void) { shmem_finalize(); }
static void before_init_put(void)
{
    static int global;
    shmem_int_p(&global, 1, 0);
}
static void after_finalize_barrier(void)
{
    shmem_finalize();
    shmem_barrier_all();
}
static void after_finalize_put(void)
{
    shmem_finalize();
    shmem_int_p(heap_ints(), 1, 0);
}
static void after_finalize_free(void)
{
    shmem_finalize();
    shmem_free(heap);
}

static void root_range(void) { shmem_int_broadcast(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 20, 4, 9); }
static void root_negative(void) { shmem_broadcastmem(SHMEM_TEAM_WORLD, heap, heap + 100, 4, -1); }
static void set_size(void) { shmem_barrier(0, 0, 9, heap_longs()); }
static void set_start(void) { shmem_barrier(-1, 0, 2, heap_longs()); }
static void set_stride(void) { shmem_fcollect32(heap, heap + 100, 1, 0, 7, 2, heap_longs() + 50); }
static void sync_null(void) { shmem_barrier(0, 0, shmem_n_pes(), NULL); }
static void free_stack(void)
{
    int on_stack = 0;
    shmem_free(&on_stack);
}
static void free_twice(void)
{
    shmem_free(heap);
    shmem_free(heap);
}
static void free_inside(void) { shmem_free(heap + 16); }
static void compare_unknown(void) { shmem_int_wait_until(heap_ints(), 99, 1); }
static void signal_unknown(void) { shmem_putmem_signal(heap, heap + 100, 8, heap_signals(), 1, 99, 0); }
static void stride_zero(void) { shmem_int_iput(heap_ints(), heap_ints() + 20, 0, 1, 4, 0); }
static void stride_block(void) { shmem_int_ibput(heap_ints(), heap_ints() + 20, 2, 5, 3, 2, 0); }

/* Nowhere to write the answer. */
static void null_ctx(void) { shmem_ctx_create(0, NULL); }
static void null_team_ctx(void) { shmem_team_create_ctx(SHMEM_TEAM_WORLD, 0, NULL); }
static void null_no_team_ctx(void) { shmem_team_create_ctx(SHMEM_TEAM_INVALID, 0, NULL); }
static void null_ctx_team(void) { shmem_ctx_get_team(SHMEM_CTX_DEFAULT, NULL); }
static void null_config(void) { shmem_team_get_config(SHMEM_TEAM_WORLD, SHMEM_TEAM_NUM_CONTEXTS, NULL); }
static void null_split(void) { shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, 1, NULL, 0, NULL); }
static void null_split_x(void)
{
    shmem_team_t team;
    shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, NULL, NULL, 0, &team);
}
static void null_split_y(void)
{
    shmem_team_t team;
    shmem_team_split_2d(SHMEM_TEAM_WORLD, 1, NULL, 0, &team, NULL, 0, NULL);
}
static void null_thread(void) { shmem_query_thread(NULL); }
static void null_initialized(void) { shmem_query_initialized(NULL); }
static void null_major(void)
{
    int minor;
    shmem_info_get_version(NULL, &minor);
}
static void null_minor(void)
{
    int major;
    shmem_info_get_version(&major, NULL);
}
static void null_name(void) { shmem_info_get_name(NULL); }
static void null_fetch(void) { shmem_long_atomic_fetch_add_nbi(NULL, heap_longs(), 1, 0); }
static void null_indices(void) { shmem_long_test_some(heap_longs(), 4, NULL, NULL, SHMEM_CMP_EQ, 0); }
static void null_pes(void) { shmem_pe_quiet(NULL, 2); }

/* The end of the buffer wraps around to its begin, or before. */
static void wrap_buffer(void)
{
    if (shmemx_buffer_register(malloc(10), SIZE_MAX, NULL) != 0)
        shmem_global_exit(1);
}
static void wrap_buffer_least(void)
{
    char *at = (char *)malloc(10);
    if (shmemx_buffer_register(at, SIZE_MAX - (uintptr_t)at + 1, NULL) != 0)
        shmem_global_exit(1);
}
static void wrap_lock(void) { shmem_set_lock((long *)(UINTPTR_MAX - 7)); }
static void wrap_put(void) { shmem_putmem(heap + 8, heap, SIZE_MAX - 3, 0); }
static void wrap_wait(void)
{
    shmem_long_wait_until_all(heap_longs(), SIZE_MAX / 8 + 2, NULL, SHMEM_CMP_EQ, 0);
}
static void wrap_alltoalls(void)
{
    shmem_long_alltoalls(SHMEM_TEAM_WORLD, heap_longs(), heap_longs() + 64, (ptrdiff_t)1 << 61, 1, 2);
}

/* PE 0 and the others disagree. */
static bool other(void) { return shmem_my_pe() != 0; }
static void mismatch_size(void)
{
    shmem_int_sum_reduce(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 50, other() ? 4 : 5);
}
static void mismatch_root(void)
{
    shmem_int_broadcast(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 50, 4, other() ? 1 : 0);
}
static void mismatch_call(void)
{
    if (other())
        shmem_int_fcollect(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 50, 4);
    else
        shmem_int_alltoall(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 50, 4);
}
static void mismatch_operator(void)
{
    if (other())
        shmem_int_max_reduce(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 50, 4);
    else
        shmem_int_min_reduce(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 50, 4);
}
static void mismatch_team(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, other() ? shmem_n_pes() : 1, NULL, 0, &team);
}
static void mismatch_dest(void)
{
    shmem_int_fcollect(SHMEM_TEAM_WORLD, heap_ints() + (other() ? 8 : 0), heap_ints() + 50, 4);
}
static void mismatch_agreement(void) /* one of them is inside of what the library itself exchanges */
{
    if (other())
        shmemx_device_init();
    else
        shmem_barrier_all();
}
static void overlap_fcollect(void)
{
    shmem_int_fcollect(SHMEM_TEAM_WORLD, heap_ints(), heap_ints() + 1, 4);
}
static void mismatch_finalize(void)
{
    if (other())
        shmem_finalize();
    else
        shmem_barrier_all();
}
/* Data of the program that nobody can write is in no shared memory. */
static const int constants[4] = {1, 2, 3, 4};
static void address_const(void)
{
    int to[4];
    shmem_int_get(to, constants, 4, 0);
}

/* X(case, everybody, before_init) */
#define CASES(X)                           \
    X(pe_put, false, false)                \
    X(pe_negative, false, false)           \
    X(pe_get, false, false)                \
    X(pe_g, false, false)                  \
    X(pe_iput, false, false)               \
    X(pe_put_nbi, false, false)            \
    X(pe_amo, false, false)                \
    X(pe_fetch, false, false)              \
    X(pe_signal, false, false)             \
    X(pe_team_ctx, true, false)            \
    X(address_stack, false, false)         \
    X(address_malloc, false, false)        \
    X(address_null, false, false)          \
    X(address_amo, false, false)           \
    X(address_signal, false, false)        \
    X(address_lock, false, false)          \
    X(address_reduce, true, false)         \
    X(past_heap, false, false)             \
    X(overflow_put, false, false)          \
    X(overflow_get, false, false)          \
    X(overflow_iput, false, false)         \
    X(overflow_ibget, false, false)        \
    X(past_strided, false, false)          \
    X(overflow_fcollect, true, false)      \
    X(overflow_reduce, true, false)        \
    X(past_object, false, false)           \
    X(past_object_get, false, false)       \
    X(before_object, false, false)         \
    X(freed_object, true, false)           \
    X(misaligned_int, false, false)        \
    X(misaligned_long, false, false)       \
    X(misaligned_signal, false, false)     \
    X(team_destroyed, true, false)         \
    X(team_garbage, true, false)           \
    X(ctx_invalid, false, false)           \
    X(ctx_destroyed, false, false)         \
    X(ctx_garbage, false, false)           \
    X(before_init_barrier, true, true)     \
    X(before_init_malloc, true, true)      \
    X(before_init_my_pe, true, true)       \
    X(before_init_finalize, true, true)    \
    X(before_init_put, true, true)         \
    X(after_finalize_barrier, true, false) \
    X(after_finalize_put, true, false)     \
    X(after_finalize_free, true, false)    \
    X(root_range, true, false)             \
    X(root_negative, true, false)          \
    X(set_size, true, false)               \
    X(set_start, true, false)              \
    X(set_stride, true, false)             \
    X(sync_null, true, false)              \
    X(free_stack, true, false)             \
    X(free_twice, true, false)             \
    X(free_inside, true, false)            \
    X(compare_unknown, false, false)       \
    X(signal_unknown, false, false)        \
    X(stride_zero, false, false)           \
    X(stride_block, false, false)          \
    X(null_ctx, false, false)              \
    X(null_team_ctx, false, false)         \
    X(null_no_team_ctx, false, false)      \
    X(null_ctx_team, false, false)         \
    X(null_config, false, false)           \
    X(null_split, true, false)             \
    X(null_split_x, true, false)           \
    X(null_split_y, true, false)           \
    X(null_thread, false, false)           \
    X(null_initialized, true, true)        \
    X(null_major, true, true)              \
    X(null_minor, false, false)            \
    X(null_name, true, true)               \
    X(null_fetch, false, false)            \
    X(null_indices, false, false)          \
    X(null_pes, false, false)              \
    X(wrap_buffer, true, false)            \
    X(wrap_buffer_least, true, false)      \
    X(wrap_lock, false, false)             \
    X(wrap_put, false, false)              \
    X(wrap_wait, false, false)             \
    X(wrap_alltoalls, true, false)         \
    X(mismatch_size, true, false)          \
    X(mismatch_root, true, false)          \
    X(mismatch_call, true, false)          \
    X(mismatch_operator, true, false)      \
    X(mismatch_team, true, false)          \
    X(mismatch_dest, true, false)          \
    X(mismatch_agreement, true, false)     \
    X(overlap_fcollect, true, false)       \
    X(mismatch_finalize, true, false)      \
    X(address_const, false, false)

#define ROW(name, everybody, before_init) {#name, name, everybody, before_init},
static const struct wrong cases[] = {CASES(ROW){NULL, NULL, false, false}};

int main(int argc, char **argv)
{
    const struct wrong *wrong = cases;
    while (wrong->name != NULL && (argc < 2 || strcmp(wrong->name, argv[1]) != 0))
        wrong++;
    if (wrong->name == NULL) {
        for (wrong = cases; wrong->name != NULL; wrong++)
            printf("%s\n", wrong->name); /* errors.sh looks that it has them all */
        return 2;
    }
    if (wrong->before_init) {
        wrong->call();
    } else {
        shmem_init();
        heap = (char *)shmem_malloc(1000);
        if (wrong->everybody || shmem_my_pe() == shmem_n_pes() - 1)
            wrong->call();
        /* The others wait for the one that will not come: the end of the job must reach them here. */
        shmem_barrier_all();
        shmem_finalize();
    }
    printf("the call went through\n");
    return 0;
}
