/* SPDX-License-Identifier: MIT */
/* With SHMEMX_ERRORS_RETURN no call of shmemx.h and shmemx_coll.h ends the process. A job of one PE makes each of them
 * with a wrong argument, then in a job that is broken: all return an error whose text names the call, or says why the
 * job is broken, and no call takes long. launchers_none.sh looks that no call of the headers is missing here. */
#include <shmem.h>
#include <shmemx.h>
#include <shmemx_coll.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 4096, SKIP = 77, LONG_S = 5 };
static const char *const reason = "the program has had enough";
/* What the text has of a call: its own name, `reason`, or that it comes too late. */
static enum { WRONG, BROKEN, OVER } phase = WRONG;
static const char *const phases[] = {"", " in a broken job", " after shmemx_leave"};
static int failures;

static void never_runs(void) {}

static void judge(int line, const char *call, const char *name, bool refused, time_t begin)
{
    const char *word = phase == WRONG ? name : phase == BROKEN ? reason : "called after shmem_finalize";
    char text[512] = "";
    (void)shmemx_error_text(text, sizeof text);
    if (refused && strstr(text, word) != NULL && time(NULL) - begin <= LONG_S)
        return;
    fprintf(stderr, "calls_return.c:%d: %s%s: %s, %ld s, text \"%s\", expected \"%s\"\n", line, call,
            phases[phase], refused ? "refused" : "not refused", (long)(time(NULL) - begin), text,
            word);
    failures++;
}

/* The call is refused; `is_error` tells it by what it returns. STANDS: a name that stands for another call. */
#define STANDS(other, call, is_error, ...)                                                       \
    do {                                                                                         \
        time_t begin_ = time(NULL);                                                              \
        judge(__LINE__, #call, other, call(__VA_ARGS__) is_error, begin_);                       \
    } while (0)
#define FAILS(call, ...) STANDS(#call, call, != 0, __VA_ARGS__)
#define IS_NULL(call, ...) STANDS(#call, call, == NULL, __VA_ARGS__)
#define IS_NEGATIVE(call, ...) STANDS(#call, call, < 0, __VA_ARGS__)
#define IS_VOID(call, ...) (call(__VA_ARGS__), judge(__LINE__, #call, #call, true, time(NULL)))

struct objects {
    char *device, *host, *local, *team;
    shmemx_stream_t stream;
    shmemx_graph_t graph;
};

static void memory_calls(struct objects *o)
{
    shmemx_buffer_info_t info;
    shmemx_memory_stats_t stats;
    uint64_t offset;
    int outside = 0;
    IS_NULL(shmemx_malloc, 8, 7);
    IS_NULL(shmemx_calloc, 8, 8, 7);
    IS_NULL(shmemx_align, 3, 8, SHMEMX_HOST);
    IS_VOID(shmemx_free, o->host + 8);
    FAILS(shmemx_suspend, 2);
    FAILS(shmemx_resume);
    FAILS(shmemx_keep, o->host + 8);
    IS_NULL(shmemx_local_malloc, 8, 7);
    IS_VOID(shmemx_local_free, o->local + 8);
    IS_NULL(shmemx_team_malloc, SHMEM_TEAM_INVALID, 8, SHMEMX_HOST);
    FAILS(shmemx_team_free, SHMEM_TEAM_WORLD, o->team + 8);
    IS_NULL(shmemx_torch_malloc, 8, 99, o->stream);
    IS_VOID(shmemx_torch_free, &outside, 8, 99, o->stream);
    FAILS(shmemx_buffer_register, NULL, 8, &info);
    FAILS(shmemx_buffer_unregister, &outside);
    FAILS(shmemx_team_buffer_register, SHMEM_TEAM_INVALID, o->host, 8, &info);
    FAILS(shmemx_team_buffer_unregister, SHMEM_TEAM_INVALID, o->host);
    FAILS(shmemx_offset_of, &outside, &offset);
    IS_NULL(shmemx_at_offset, 99, 0);
    IS_NULL(shmemx_device_ptr, o->device, 99);
    FAILS(shmemx_address_info, o->host, NULL);
    FAILS(shmemx_memory_stats, SHMEM_TEAM_WORLD, 7, &stats);
    FAILS(shmemx_memory_stats, SHMEM_TEAM_WORLD, SHMEMX_HOST, NULL);
    FAILS(shmemx_rendezvous, SHMEM_TEAM_INVALID, o->device, 8);
}

static void team_calls(void)
{
    int pes[2] = {0, 0};
    shmem_team_t team;
    FAILS(shmemx_team_create, pes, 2, 1, &team);
    FAILS(shmemx_team_split_color, SHMEM_TEAM_WORLD, 0, 0, NULL);
    FAILS(shmemx_team_set_timeout, SHMEM_TEAM_WORLD, (double)NAN);
    FAILS(shmemx_team_mask_deaths, SHMEM_TEAM_WORLD, 2);
    FAILS(shmemx_team_break, SHMEM_TEAM_WORLD, "it takes too long");
}

static void device_calls(struct objects *o)
{
    shmemx_graph_t graph;
    uint64_t *word = (uint64_t *)(void *)o->device;
    const shmemx_launch_attr_t of_another_size = {1, {1, 1, 1}, {1, 1, 1}, 0, NULL, 0, NULL, 0};
    FAILS(shmemx_device_handle, SHMEM_TEAM_WORLD, 256, (struct shmemd_handle *)NULL);
    IS_NEGATIVE(shmemx_max_blocks, never_runs, 0, 0);
    if (phase != BROKEN) /* else it takes what was left */
        IS_NEGATIVE(shmemx_device_error, NULL);
    FAILS(shmemx_device_reset, SHMEM_TEAM_WORLD, 256);
    FAILS(shmemx_stream_create, NULL);
    IS_NEGATIVE(shmemx_max_grid, never_runs, 0, 0);
    FAILS(shmemx_module_write, NULL, "state", &graph, sizeof graph);
    FAILS(shmemx_library_write, NULL, "state", &graph, sizeof graph);
    FAILS(shmemx_launch, never_runs, 0, 1, 0, NULL, 0, o->stream);
    FAILS(shmemx_launch_attr, never_runs, &of_another_size, o->stream);
    FAILS(shmemx_launch_cooperative, never_runs, 0, 1, 0, NULL, 0, o->stream);
    FAILS(shmemx_graph_end, o->stream, &graph);
    FAILS(shmemx_graph_launch, NULL, o->stream);
    FAILS(shmemx_putmem_on_stream, o->device, o->device, 8, 99, o->stream);
    FAILS(shmemx_getmem_on_stream, o->device, o->device, 8, 99, o->stream);
    FAILS(shmemx_putmem_signal_on_stream, o->device, o->device, 8, word, 1, SHMEM_SIGNAL_SET, 99, o->stream);
    FAILS(shmemx_signal_op_on_stream, word, 1, 99, 0, o->stream);
    FAILS(shmemx_signal_wait_until_on_stream, word, 99, 1, o->stream);
    FAILS(shmemx_barrier_on_stream, SHMEM_TEAM_INVALID, o->stream);
    FAILS(shmemx_sync_on_stream, SHMEM_TEAM_INVALID, o->stream);
    if (phase != WRONG) { /* no argument of these is wrong */
        FAILS(shmemx_device_init);
        FAILS(shmemx_quiet_on_stream, o->stream);
        FAILS(shmemx_stream_synchronize, o->stream);
        FAILS(shmemx_stream_wait_stream, o->stream, o->stream);
        FAILS(shmemx_graph_begin, o->stream);
        FAILS(shmemx_coll_group_begin);
    }
}

static void collective_calls(struct objects *o)
{
    const shmem_team_t none = SHMEM_TEAM_INVALID, world = SHMEM_TEAM_WORLD;
    const size_t sizes[] = {4, 4};
    const shmemx_blocks_t blocks = {NULL, NULL, NULL, NULL};
    shmemx_rms_norm_t norm;
    memset(&norm, 0, sizeof norm);
    norm.hidden = 8; /* of a type that has no norm */
    const shmemx_host_blocks_t host_blocks = {NULL, NULL, NULL, NULL};
    const shmemx_splits_t splits = {2, sizes, NULL, NULL, NULL};
    shmemx_coll_t coll = shmemx_coll_of(99, world, o->device, o->device, 8, SHMEMX_UINT8);
    char *to = o->device, *from = o->device + BYTES / 2;
    FAILS(shmemx_coll_on_stream, NULL, o->stream);
    FAILS(shmemx_coll_on_host, &coll);
    FAILS(shmemx_send_on_stream, world, from, 8, 99, 0, o->stream);
    FAILS(shmemx_recv_on_stream, world, to, 8, 99, 0, o->stream);
    FAILS(shmemx_coll_group_end);
    FAILS(shmemx_slot_prepare, world, 256, 0);
    FAILS(shmemx_coll_tune, NULL, 1, 0);
#define NAMED(call, ...) STANDS("shmemx_", call, != 0, __VA_ARGS__)
    NAMED(shmemx_fcollectmem_on_stream, none, to, from, 8, o->stream);
    NAMED(shmemx_alltoallmem_on_stream, none, to, from, 8, o->stream);
    NAMED(shmemx_alltoallv_on_stream, none, to, from, &blocks, o->stream);
    NAMED(shmemx_alltoallv_host_on_stream, none, to, from, &host_blocks, o->stream);
    NAMED(shmemx_gathermem_on_stream, world, to, from, 8, 99, o->stream);
    NAMED(shmemx_scattermem_on_stream, world, to, from, 8, 99, o->stream);
    NAMED(shmemx_reduce_on_stream, world, to, from, 8, SHMEMX_UINT8, SHMEMX_SUM, 99, o->stream);
    NAMED(shmemx_fcollect_splits_on_stream, world, to, from, 4, SHMEMX_UINT8, &splits, o->stream);
    NAMED(shmemx_reducescatter_splits_on_stream, world, to, from, 4, SHMEMX_UINT8, SHMEMX_SUM, &splits, o->stream);
    NAMED(shmemx_broadcastmem_on_stream, world, to, from, 8, 99, o->stream);
    NAMED(shmemx_permutemem_on_stream, world, to, from, 8, 99, 0, o->stream);
    NAMED(shmemx_allreduce_on_stream, world, to, from, 8, SHMEMX_UINT8, 99, o->stream);
    NAMED(shmemx_allreduce_rms_norm_on_stream, world, to, from, 1, SHMEMX_UINT8, &norm, o->stream);
    NAMED(shmemx_reducescatter_on_stream, world, to, from, 8, 99, SHMEMX_SUM, o->stream);
}

/* Calls that describe work in a broken job, too. */
#define WORKS(condition) \
    ((condition) ? (void)0 : (void)(failures++, fprintf(stderr, "not%s: %s\n", phases[phase], #condition)))
static void calls_that_work(struct objects *o)
{
    char text[64];
    shmemx_device_error_t error;
    const size_t bytes = shmemx_bytes_of(2, 4);
    shmemx_coll_t coll = shmemx_coll_of(99, SHMEM_TEAM_WORLD, o->device, o->device, bytes, SHMEMX_UINT8);
    WORKS(shmemx_version() == ISOMER_VERSION);
    WORKS(shmemx_struct_bytes("shmemx_coll_t") == sizeof(shmemx_coll_t));
    WORKS(shmemx_slots() == 256);
    WORKS(shmemx_info_text(text, sizeof text) >= sizeof text);
    WORKS(shmemx_doctor_text(NULL, 0) > 0);
    WORKS(shmemx_job_text(NULL, SHMEMX_TEXT, NULL, 0) > 0);
    WORKS(shmemx_device_text(text, sizeof text) > 0);
    WORKS(shmemx_heap_is_valid() == 1);
    WORKS(shmemx_status(SHMEM_TEAM_WORLD, 0, &error) >= 0);
    WORKS(shmemx_device_error(&error) >= 0);
    WORKS(shmemx_set_error_handler(NULL, NULL) == 0);
    WORKS(shmemx_set_error_mode(SHMEMX_ERRORS_RETURN) == 0);
    WORKS(shmemx_coll_explain(&coll, text, sizeof text) == 0);
}

static void all_calls(struct objects *o)
{
    memory_calls(o);
    team_calls();
    device_calls(o);
    collective_calls(o);
    if (phase != OVER)
        calls_that_work(o);
}

/* An argument: device memory is lent back when the job breaks. */
int main(int argc, char **argv)
{
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    shmemx_uniqueid_t id;
    struct objects o;
    char text[128];
    if (shmemx_get_uniqueid(&id) != 0)
        return EXIT_FAILURE;
    attr.size = 1;
    attr.id = &id;
    attr.errors = SHMEMX_ERRORS_RETURN;
    FAILS(shmemx_get_uniqueid, NULL);
    FAILS(shmemx_init_attr, NULL);
    FAILS(shmemx_leave);
    FAILS(shmemx_set_error_mode, 7);
    FAILS(shmemx_break, reason);
    if (shmemx_init_attr(&attr) != 0 || shmemx_device_init() != 0)
        return EXIT_FAILURE;
    shmemx_device_text(text, sizeof text);
    if (strncmp(text, "cpu ", 4) != 0) { /* one PE of a GPU's launcher would do, but CI has none */
        printf("skipped: %s\n", text);
        return SKIP;
    }
    o.device = (char *)shmemx_malloc(BYTES, SHMEMX_DEVICE);
    o.host = (char *)shmemx_malloc(BYTES, SHMEMX_HOST);
    o.local = (char *)shmemx_local_malloc(BYTES, SHMEMX_HOST);
    o.team = (char *)shmemx_team_malloc(SHMEM_TEAM_WORLD, BYTES, SHMEMX_HOST);
    if (o.device == NULL || o.host == NULL || o.local == NULL || o.team == NULL ||
        shmemx_stream_create(&o.stream) != 0 || shmemx_graph_begin(o.stream) != 0 ||
        shmemx_graph_end(o.stream, &o.graph) != 0)
        return EXIT_FAILURE;
    (void)argv;
    all_calls(&o);
    if (argc > 1 && shmemx_suspend(0) != 0)
        failures++;
    shmemx_device_abort();
    if (shmemx_break(reason) != 0)
        failures++;
    phase = BROKEN;
    all_calls(&o);
    shmemx_device_abort();
    if (shmemx_graph_destroy(o.graph) != 0 || shmemx_stream_destroy(o.stream) != 0 || shmemx_leave() != 0) {
        fprintf(stderr, "calls_return.c: the broken job cannot be left\n");
        failures++;
    }
    phase = OVER;
    all_calls(&o);
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
