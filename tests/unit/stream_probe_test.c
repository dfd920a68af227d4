/* SPDX-License-Identifier: MIT */
/* Calls of the library to the device are counted while the first collective on a stream is made, which probes wide
 * lines, and while that of another slot is, which does not: streams are made, and memory is given back, by neither,
 * since on a GPU that may wait for kernels that run. The link replaces what is counted. And it has copies by engines
 * lost between two PEs: then no PE uses them. */
#include "../../shmem/gpu/device.h"
#include "../check.h"

#include <errno.h>

struct counts {
    int streams, destroyed, allocs, frees;
};
static _Thread_local struct counts now; /* of this PE's thread */

int __real_iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream);
int __real_iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream);
int __real_iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr);
void __real_iso_gpu_free(struct gpu *gpu, void *ptr);
int __wrap_iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream);
int __wrap_iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream);
int __wrap_iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr);
void __wrap_iso_gpu_free(struct gpu *gpu, void *ptr);

int __wrap_iso_gpu_stream_create(struct gpu *gpu, bool high_priority, gpu_stream *stream)
{
    now.streams++;
    return __real_iso_gpu_stream_create(gpu, high_priority, stream);
}
int __wrap_iso_gpu_stream_destroy(struct gpu *gpu, gpu_stream stream)
{
    now.destroyed++;
    return __real_iso_gpu_stream_destroy(gpu, stream);
}
int __wrap_iso_gpu_alloc(struct gpu *gpu, size_t len, void **ptr)
{
    now.allocs++;
    return __real_iso_gpu_alloc(gpu, len, ptr);
}
void __wrap_iso_gpu_free(struct gpu *gpu, void *ptr)
{
    now.frees += ptr != NULL;
    __real_iso_gpu_free(gpu, ptr);
}

/* Of the last PE, to any other one. */
int __wrap_iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len);
int __wrap_iso_gpu_try_engines(struct gpu *gpu, char *theirs, char *ours, size_t len)
{
    for (size_t i = 0; i < len; i++)
        CHECK_OR_EXIT(theirs[i] == 0); /* no slot is there, and no other PE tries here */
    memset(theirs, 1 + ISO->my_pe, len);
    memset(ours, 1, len);
    for (size_t i = 0; i < len; i++)
        CHECK_OR_EXIT(theirs[i] == 1 + ISO->my_pe);
    memset(theirs, 0, len);
    (void)gpu;
    return ISO->my_pe == ISO->n_pes - 1 ? -EIO : 0;
}

/* A call that asks for engines is refused on all PEs, with the reason; without, it runs. */
static void test_lost_engines(shmemx_stream_t stream)
{
    enum { N = 2048 };
    char said[1024];
    int me = check_self.pe, npes = check_self.npes;
    long *memory = (long *)shmemx_calloc((size_t)(npes + 1) * N, sizeof(long), SHMEMX_DEVICE),
         *source = memory + npes * N;
    shmemx_coll_t coll;
    CHECK_OR_EXIT(memory != NULL);
    for (int i = 0; i < N; i++)
        source[i] = me * 1000L + i;
    memset(&coll, 0, sizeof coll);
    coll.kind = SHMEMX_FCOLLECT;
    coll.team = SHMEM_TEAM_WORLD;
    coll.dest = memory;
    coll.source = source;
    coll.nelems = N;
    coll.type = SHMEMX_INT64;
    coll.same_place = 1;
    coll.engines = 1;
    CHECK(shmemx_coll_on_stream(&coll, stream) != 0);
    CHECK(shmemx_error_text(said, sizeof said) > 0 && strstr(said, "copy engines cannot do this: ") != NULL);
    CHECK_NAMED(strstr(said, me == npes - 1 ? "between pe" : "another PE of this job has lost") != NULL, said);
    coll.engines = 0;
    CHECK_EQ(shmemx_coll_on_stream(&coll, stream), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    for (int i = 0; i < npes * N; i++)
        CHECK_OR_EXIT(memory[i] == i / N * 1000L + i % N);
}

static bool is_known(void)
{
    size_t len = shmemx_info_text(NULL, 0) + 256;
    char *text = (char *)malloc(len);
    CHECK_OR_EXIT(text != NULL);
    shmemx_info_text(text, len);
    bool known = strstr(text, "LL128 (stores of 128 bytes): they ") != NULL;
    free(text);
    return known;
}

static struct counts first_call(int slot, shmemx_stream_t stream)
{
    shmemx_coll_t coll;
    memset(&coll, 0, sizeof coll);
    coll.kind = SHMEMX_SYNC;
    coll.team = SHMEM_TEAM_WORLD;
    coll.slot = slot;
    memset(&now, 0, sizeof now);
    CHECK_EQ(shmemx_coll_on_stream(&coll, stream), 0);
    struct counts made = now;
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    return made;
}

static int test_main(void)
{
    shmemx_stream_t stream;
    CHECK_INIT();
    if (shmemx_device_init() != 0)
        CHECK_SKIP("no device");
    CHECK_OR_EXIT(shmemx_stream_create(&stream) == 0);
    CHECK(!is_known());
    struct counts probing = first_call(0, stream);
    CHECK(is_known());
    struct counts other = first_call(1, stream);
    CHECK_EQ(probing.streams, 0);
    CHECK_EQ(probing.destroyed, 0);
    CHECK_EQ(probing.frees, 0);
    CHECK_EQ(probing.allocs, other.allocs);
    CHECK_EQ(other.streams, 0);
    CHECK_EQ(other.frees, 0);
    if (check_self.npes > 1)
        test_lost_engines(stream);
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
