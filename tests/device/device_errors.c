/* SPDX-License-Identifier: MIT */
/* One wrong use of a device a run, see wrong_use.h; device_errors.sh knows what each must print. */
#include "wrong_use.h"

enum { THREADS = 64 };

struct object {
    char *device, *host; /* 4096 symmetric bytes each */
};
static struct object object;

static uint64_t *device_word(void) { return (uint64_t *)(void *)object.device; }
static int refused(const void *result) { return result == NULL; }

static int slot_with(int slot)
{
    shmemd_t h;
    return shmemx_device_handle(SHMEM_TEAM_WORLD, slot, &h);
}
static int slot_negative(void) { return slot_with(-1); }
static int slot_large(void) { return slot_with(256); }
static int handle_null(void) { return shmemx_device_handle(SHMEM_TEAM_WORLD, 0, NULL); }
static int handle_no_team(void)
{
    shmemd_t h;
    return shmemx_device_handle(SHMEM_TEAM_INVALID, 0, &h);
}
static int handle_early(void)
{
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmemd_t h;
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, shmem_n_pes(), NULL, 0, &team);
    return shmemx_device_handle(team, 0, &h);
}
static int handle_captured(void)
{
    shmemx_stream_t stream;
    if (shmemx_stream_create(&stream) != 0 || shmemx_graph_begin(stream) != 0)
        return 0;
    return slot_with(5);
}
static int reset_unknown(void) { return shmemx_device_reset(SHMEM_TEAM_WORLD, 77); }
static int reset_slot(void) { return shmemx_device_reset(SHMEM_TEAM_WORLD, 1000); }

static int init_early(void) { return shmemx_device_init(); }
static int malloc_early(void) { return refused(shmemx_malloc(64, SHMEMX_DEVICE)); }
static int malloc_kind(void) { return refused(shmemx_malloc(64, 7)); }
static int malloc_huge(void) { return refused(shmemx_malloc((size_t)1 << 50, SHMEMX_DEVICE)); }
static int calloc_overflow(void) { return refused(shmemx_calloc(SIZE_MAX / 4, 8, SHMEMX_DEVICE)); }
static int align_odd(void) { return refused(shmemx_align(48, 64, SHMEMX_DEVICE)); }
static int realloc_device(void) { return refused(shmem_realloc(object.device, 10000)); }
static int free_inside(void)
{
    shmemx_free(object.device + 64);
    return 0;
}
static int free_twice(void)
{
    shmemx_free(object.device);
    shmemx_free(object.device);
    return 0;
}

static int host_broadcast(void) { return shmem_broadcastmem(SHMEM_TEAM_WORLD, object.device, object.host, 8, 0); }
static int host_fcollect(void) { return shmem_fcollectmem(SHMEM_TEAM_WORLD, object.host, object.device, 8); }
static int host_reduce(void) { return shmem_uint64_sum_reduce(SHMEM_TEAM_WORLD, device_word(), device_word() + 1, 1); }
static int host_lock(void)
{
    shmem_set_lock((long *)(void *)object.device);
    return 0;
}
static int host_put_far(void)
{
    shmem_putmem(object.device + ((size_t)1 << 45), object.host, 8, 0);
    return 0;
}

struct kernel_args {
    shmemd_t h;
    int32_t root;
};
SHMEMD_KERNEL(meet, struct kernel_args, a) { (void)shmemd_barrier_block(a.h); }
SHMEMD_KERNEL(sync_far, struct kernel_args, a) { (void)shmemd_barrier_block(shmemd_lane(a.h, 77)); }
SHMEMD_KERNEL(hear, struct kernel_args, a)
{
    (void)shmemd_broadcastmem_block(a.h, (char *)a.h.heap, (const char *)a.h.heap, 0, a.root);
}

/* What the proxy says comes a little later; it must come. */
static int run_wrong(shmemx_kernel_t kernel, unsigned blocks, int root)
{
    struct kernel_args a;
    shmemx_device_error_t error;
    memset(&a, 0, sizeof(a));
    a.root = root;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0 ||
        shmemx_launch(kernel, blocks, THREADS, 0, &a, sizeof(a), NULL) != 0)
        return 0;
    shmemx_stream_synchronize(NULL);
    for (int i = 0; i < 10000 && shmemx_device_error(&error) == 0; i++)
        usleep(1000);
    return error.gave_up == 2;
}
static int kernel_blocks(void) { return run_wrong(SHMEMX_KERNEL(meet), 3, 0); } /* with SHMEM_DEVICE_BLOCKS=2 */
static int kernel_lane(void) { return run_wrong(SHMEMX_KERNEL(sync_far), 1, 0); }
static int kernel_root(void) { return run_wrong(SHMEMX_KERNEL(hear), 1, 9); }

static int launch_threads(void)
{
    struct kernel_args a;
    memset(&a, 0, sizeof(a));
    return shmemx_launch(SHMEMX_KERNEL(meet), 1, 2048, 0, &a, sizeof(a), NULL);
}
static int launch_blocks(void)
{
    struct kernel_args a;
    memset(&a, 0, sizeof(a));
    return shmemx_launch(SHMEMX_KERNEL(meet), 0, 64, 0, &a, sizeof(a), NULL);
}
static int launch_null(void) { return shmemx_launch(NULL, 1, 64, 0, &object, sizeof(object), NULL); }
static int launch_early(void)
{
    struct kernel_args a;
    memset(&a, 0, sizeof(a));
    return shmemx_launch(SHMEMX_KERNEL(meet), 1, 64, 0, &a, sizeof(a), NULL);
}
static int max_blocks_early(void) { return shmemx_max_blocks(SHMEMX_KERNEL(meet), 64, 0) < 0; }
static int graph_end(void)
{
    shmemx_graph_t graph;
    return shmemx_graph_end(NULL, &graph);
}

static int stream_pe(void) { return shmemx_putmem_on_stream(object.device, object.device + 64, 8, 9, NULL); }
static int stream_address(void)
{
    int on_stack = 0;
    return shmemx_putmem_on_stream(&on_stack, object.device, 4, 0, NULL);
}
static int stream_op(void) { return shmemx_signal_op_on_stream(device_word(), 1, 99, 0, NULL); }
static int stream_odd(void)
{
    return shmemx_signal_op_on_stream((uint64_t *)(void *)(object.device + 4), 1, 1, 0, NULL);
}
static int stream_wait_host(void)
{
    uint64_t *word = (uint64_t *)shmem_calloc(1, 8);
    return word != NULL && shmemx_signal_wait_until_on_stream(word, SHMEM_CMP_EQ, 0, NULL);
}
static int stream_cmp(void) { return shmemx_signal_wait_until_on_stream(device_word(), 99, 1, NULL); }

/* X(case, what has been called before, everybody) */
#define CASES(X)                              \
    X(init_early, BEFORE_INIT, true)          \
    X(slot_negative, WITH_DEVICE, true)       \
    X(slot_large, WITH_DEVICE, true)          \
    X(handle_null, WITH_DEVICE, true)         \
    X(handle_no_team, WITH_DEVICE, true)      \
    X(handle_early, BEFORE_DEVICE, true)      \
    X(handle_captured, WITH_DEVICE, true)     \
    X(reset_unknown, WITH_DEVICE, true)       \
    X(reset_slot, WITH_DEVICE, true)          \
    X(malloc_early, BEFORE_INIT, true)        \
    X(malloc_kind, WITH_DEVICE, true)         \
    X(malloc_huge, WITH_DEVICE, true)         \
    X(calloc_overflow, WITH_DEVICE, true)     \
    X(align_odd, WITH_DEVICE, true)           \
    X(realloc_device, WITH_DEVICE, true)      \
    X(free_inside, WITH_DEVICE, true)         \
    X(free_twice, WITH_DEVICE, true)          \
    X(host_broadcast, WITH_DEVICE, true)      \
    X(host_fcollect, WITH_DEVICE, true)       \
    X(host_reduce, WITH_DEVICE, true)         \
    X(host_lock, WITH_DEVICE, false)          \
    X(host_put_far, WITH_DEVICE, false)       \
    X(kernel_blocks, WITH_DEVICE, true)       \
    X(kernel_lane, WITH_DEVICE, true)         \
    X(kernel_root, WITH_DEVICE, true)         \
    X(launch_threads, WITH_DEVICE, false)     \
    X(launch_blocks, WITH_DEVICE, false)      \
    X(launch_null, WITH_DEVICE, false)        \
    X(launch_early, BEFORE_DEVICE, false)     \
    X(max_blocks_early, BEFORE_DEVICE, false) \
    X(graph_end, WITH_DEVICE, false)          \
    X(stream_pe, WITH_DEVICE, false)          \
    X(stream_address, WITH_DEVICE, false)     \
    X(stream_op, WITH_DEVICE, false)          \
    X(stream_odd, WITH_DEVICE, false)         \
    X(stream_cmp, WITH_DEVICE, false)         \
    X(stream_wait_host, WITH_DEVICE, true)

static const struct wrong cases[] = {CASES(WRONG_ROW){NULL, NULL, 0, false}};

static int make_objects(void)
{
    object.device = (char *)shmemx_malloc(4096, SHMEMX_DEVICE);
    object.host = (char *)shmem_malloc(4096);
    return object.device == NULL || object.host == NULL;
}

int main(int argc, char **argv) { return wrong_main(argc, argv, cases, make_objects); }
