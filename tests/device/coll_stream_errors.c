/* SPDX-License-Identifier: MIT */
/* One wrong use of a collective on a stream a run; coll_stream_errors.sh knows what each must print. */
#include "coll_case.h"
#include "wrong_use.h"

enum { BYTES = 65536 };

struct object {
    char *device; /* BYTES, symmetric */
    char *buffer; /* BYTES, registered */
    char *own;    /* BYTES of the device, which nobody else knows */
    uint64_t *words;
};
static struct object object;

static int objects(void)
{
    object.device = (char *)shmemx_malloc(BYTES, SHMEMX_DEVICE);
    object.words = (uint64_t *)shmemx_calloc(64, 8, SHMEMX_DEVICE);
    object.buffer = (char *)aligned_alloc(4096, 2 * BYTES);
    object.own = (char *)own_malloc(BYTES);
    return object.device == NULL || object.words == NULL || object.buffer == NULL || object.own == NULL;
}

/* A call that is right: what each case makes wrong. */
static shmemx_coll_t right(int kind)
{
    int n = shmem_n_pes(), me = shmem_my_pe();
    shmemx_coll_t q =
        shmemx_coll_of(kind, SHMEM_TEAM_WORLD, object.device, object.device + BYTES / 2, 16, SHMEMX_INT32);
    q.to = (me + 1) % n;
    q.from = (me + n - 1) % n;
    return q;
}
static int call(const shmemx_coll_t *q) { return shmemx_coll_on_stream(q, NULL); }

/* One member of the struct is another. */
#define WITH(name, kind, statement)    \
    static int name(void)              \
    {                                  \
        shmemx_coll_t q = right(kind); \
        statement;                     \
        return call(&q);               \
    }

static int coll_null(void) { return shmemx_coll_on_stream(NULL, NULL); }
WITH(kind_negative, SHMEMX_ALLREDUCE, q.kind = -1)
WITH(kind_large, SHMEMX_ALLREDUCE, q.kind = 12)
WITH(team_invalid, SHMEMX_ALLREDUCE, q.team = SHMEM_TEAM_INVALID)
WITH(slot_negative, SHMEMX_BARRIER, q.slot = -1)
WITH(slot_large, SHMEMX_ALLREDUCE, q.slot = 256)
WITH(type_negative, SHMEMX_FCOLLECT, q.type = -1)
WITH(type_large, SHMEMX_FCOLLECT, q.type = 17)
WITH(op_negative, SHMEMX_ALLREDUCE, q.op = -1)
WITH(op_large, SHMEMX_REDUCESCATTER, q.op = SHMEMX_SCALED_SUM + 1)
WITH(op_of_floats, SHMEMX_ALLREDUCE, q.type = SHMEMX_HALF; q.op = SHMEMX_XOR)
WITH(avg_of_integers, SHMEMX_ALLREDUCE, q.type = SHMEMX_INT32; q.op = SHMEMX_AVG)
WITH(scaled_complex, SHMEMX_REDUCESCATTER, q.type = SHMEMX_COMPLEXD; q.op = SHMEMX_SCALED_SUM)
WITH(op_of_complex, SHMEMX_REDUCESCATTER, q.type = SHMEMX_COMPLEXF; q.op = SHMEMX_MAX)
WITH(nelems_huge, SHMEMX_ALLTOALL, q.nelems = SIZE_MAX / 8)
static int nelems_wrap(void) /* their bytes are 8 again */
{
    double *d = (double *)(void *)object.device;
    return shmemx_double_fcollect_on_stream(SHMEM_TEAM_WORLD, d, d, ((size_t)1 << 61) + 1, NULL);
}
WITH(nelems_of_a_block, SHMEMX_FCOLLECT, q.nelems = (size_t)1 << 34)
WITH(root_large, SHMEMX_BROADCAST, q.root = 2)
WITH(root_negative, SHMEMX_BROADCAST, q.root = -1)
WITH(to_large, SHMEMX_PERMUTE, q.to = 5)
WITH(from_large, SHMEMX_PERMUTE, q.from = 6)
WITH(to_itself, SHMEMX_PERMUTE, q.to = shmem_my_pe())
WITH(dest_null, SHMEMX_FCOLLECT, q.dest = NULL)
WITH(source_null, SHMEMX_BROADCAST, q.source = NULL)
WITH(dest_odd, SHMEMX_ALLTOALL, q.dest = object.device + 2)
WITH(source_odd, SHMEMX_ALLREDUCE, q.source = object.device + 1025)
WITH(overlap, SHMEMX_ALLREDUCE, q.source = object.device + 16)
WITH(overlap_blocks, SHMEMX_ALLTOALL, q.source = object.device + 64)
WITH(in_place_alltoall, SHMEMX_ALLTOALL, q.source = object.device)

WITH(background_two, SHMEMX_ALLREDUCE, q.background = 2)
WITH(background_negative, SHMEMX_SYNC, q.background = -1)
WITH(engines_two, SHMEMX_FCOLLECT, q.engines = 2)
WITH(engines_reduce, SHMEMX_ALLREDUCE, q.engines = 1)
WITH(engines_own, SHMEMX_FCOLLECT, q.engines = 1; q.dest = object.buffer)
WITH(engines_proxy, SHMEMX_ALLTOALL, q.engines = 1)
#define WITH_SIGNALS(name, kind, statement)                                                                           \
    WITH(name, kind, q.engines = 1; q.signals = object.words; q.signal_value = object.words + 32; q.chunk_bytes = 64; \
         statement)
WITH_SIGNALS(signals_kind, SHMEMX_ALLTOALL, )
WITH_SIGNALS(signals_alone, SHMEMX_FCOLLECT, q.engines = 0)
WITH_SIGNALS(signals_odd, SHMEMX_FCOLLECT, q.signals = (uint64_t *)(void *)((char *)object.words + 4))
WITH_SIGNALS(signals_own, SHMEMX_FCOLLECT, q.signals = (uint64_t *)(void *)object.buffer)
WITH_SIGNALS(value_null, SHMEMX_FCOLLECT, q.signal_value = NULL)
WITH_SIGNALS(value_alone, SHMEMX_FCOLLECT, q.signals = NULL)
WITH_SIGNALS(chunk_zero, SHMEMX_FCOLLECT, q.chunk_bytes = 0)

WITH(blocks_null, SHMEMX_ALLTOALLV, )
static shmemx_blocks_t blocks(void)
{
    const shmemx_blocks_t v = {object.words, object.words + 2, object.words + 4, object.words + 6};
    return v;
}
#define WITH_BLOCKS(name, statement) \
    WITH(name, SHMEMX_ALLTOALLV, shmemx_blocks_t v = blocks(); q.blocks = &v; statement)
WITH_BLOCKS(v_bytes_null, v.bytes = NULL)
WITH_BLOCKS(v_source_null, v.source_offset = NULL)
WITH_BLOCKS(v_offset_odd, v.dest_offset = (const uint64_t *)(const void *)(object.device + 4))
WITH_BLOCKS(v_received_own, v.received = (uint64_t *)(void *)object.buffer)
WITH_BLOCKS(v_dest_own, q.dest = object.buffer)

/* Arrays of the host: of 2 members, and of 2 splits. */
static const size_t sizes[] = {64, 64}, others[] = {64, 32}, mirrored[] = {32, 64}, falling[] = {8, 4}, few[] = {4, 4};
static shmemx_host_blocks_t host_blocks(const size_t *send, const size_t *receive)
{
    const shmemx_host_blocks_t v = {send, NULL, receive, NULL};
    return v;
}
static shmemx_splits_t splits(size_t n)
{
    const shmemx_splits_t s = {n, few, NULL, NULL, NULL};
    return s;
}
#define WITH_HOST_BLOCKS(name, send, receive, statement)                                                       \
    WITH(name, SHMEMX_ALLTOALLV, shmemx_host_blocks_t v = host_blocks(send, receive); q.dest = object.buffer; \
         q.host_blocks = &v; statement)
#define WITH_SPLITS(name, kind, statement) WITH(name, kind, shmemx_splits_t s = splits(2); q.splits = &s; statement)
WITH_HOST_BLOCKS(host_blocks_kind, sizes, sizes, q.kind = SHMEMX_ALLTOALL)
WITH_HOST_BLOCKS(host_blocks_both, sizes, sizes, shmemx_blocks_t both = blocks(); q.blocks = &both)
WITH_HOST_BLOCKS(host_blocks_null, NULL, sizes, )
WITH_HOST_BLOCKS(host_blocks_dest, sizes, sizes, q.dest = NULL)
WITH_HOST_BLOCKS(host_blocks_itself, sizes, shmem_my_pe() == 0 ? mirrored : others, )
WITH_SPLITS(splits_kind, SHMEMX_ALLTOALL, )
WITH_SPLITS(splits_engines, SHMEMX_FCOLLECT, q.engines = 1)
WITH_SPLITS(splits_null, SHMEMX_REDUCESCATTER, s.nelems = NULL)
WITH_SPLITS(splits_fall, SHMEMX_FCOLLECT, s.offset = falling)
WITH_SPLITS(splits_long, SHMEMX_REDUCESCATTER, q.nelems = 7)
WITH(gather_root, SHMEMX_GATHER, q.root = 2)
WITH(scatter_null, SHMEMX_SCATTER, q.dest = NULL; q.source = NULL)
WITH(reduce_op, SHMEMX_REDUCE, q.op = SHMEMX_AVG)

/* Two rows of 64 floats. */
static shmemx_rms_norm_t norm(void)
{
    const shmemx_rms_norm_t v = {object.buffer, object.buffer + 4096, 64, 1e-6, SHMEMX_FLOAT, NULL, NULL, NULL};
    return v;
}
#define WITH_NORM(name, statement)                                                                       \
    WITH(name, SHMEMX_ALLREDUCE, shmemx_rms_norm_t v = norm(); q.type = SHMEMX_FLOAT; q.nelems = 128;    \
         q.rms_norm = &v; statement)
#define WITH_E4M3(name, statement) WITH_NORM(name, v.dest_type = SHMEMX_FLOAT8_E4M3; statement)
static float *floats(size_t at) { return (float *)(void *)(object.buffer + at); }
WITH_NORM(norm_kind, q.kind = SHMEMX_REDUCE)
WITH_NORM(norm_type, q.type = SHMEMX_DOUBLE)
WITH_NORM(norm_op, q.op = SHMEMX_MAX)
WITH_NORM(norm_hidden_zero, v.hidden = 0)
WITH_NORM(norm_hidden_odd, v.hidden = 60)
WITH_NORM(norm_hidden_large, v.hidden = 16392)
WITH_NORM(norm_rows, q.nelems = 100)
WITH_NORM(norm_eps, v.eps = -1)
WITH_NORM(norm_dest_type, v.dest_type = SHMEMX_HALF)
WITH_NORM(norm_scale_alone, v.scale = floats(8192))
WITH_E4M3(norm_no_scale, )
WITH_E4M3(norm_both_scales, v.scale = floats(8192); v.scales = floats(8196))
WITH_E4M3(norm_no_sum, v.scale = floats(8192))
WITH_E4M3(norm_scale_odd, v.sum = object.buffer + 16384; v.scale = (const float *)(const void *)(object.buffer + 8193))
WITH_E4M3(norm_in_place, v.sum = object.buffer + 16384; v.scale = floats(8192); q.source = q.dest)
WITH_NORM(norm_residual_null, v.residual = NULL)
WITH_NORM(norm_weight_odd, v.weight = object.buffer + 4104)
WITH_NORM(norm_source_odd, q.source = object.device + 2056)
WITH_NORM(norm_overlap, v.residual = object.device + 256)
static int norm_huge(void) /* rows * hidden wraps */
{
    shmemx_rms_norm_t v = norm();
    return shmemx_allreduce_rms_norm_on_stream(SHMEM_TEAM_WORLD, object.device, object.buffer, (size_t)1 << 59,
                                               SHMEMX_FLOAT, &v, NULL);
}

/* The last bytes of dest are behind the end of what is registered. */
static int half_symmetric(void)
{
    shmemx_coll_t q = right(SHMEMX_FCOLLECT);
    if (shmemx_buffer_register(object.buffer, BYTES, NULL) != 0)
        return 0;
    q.dest = object.buffer + BYTES - 64;
    return call(&q);
}
/* They are neighbours here, and need not be on other members. */
static int two_buffers(void)
{
    shmemx_coll_t q = right(SHMEMX_FCOLLECT);
    if (shmemx_buffer_register(object.buffer, BYTES, NULL) != 0 ||
        shmemx_buffer_register(object.buffer + BYTES, BYTES, NULL) != 0)
        return 0;
    q.dest = object.buffer + BYTES - 64;
    return call(&q);
}
static int before_device(void)
{
    shmemx_coll_t q = shmemx_coll_of(SHMEMX_SYNC, SHMEM_TEAM_WORLD, NULL, NULL, 0, 0);
    return call(&q);
}
static int captured(void)
{
    shmemx_stream_t stream;
    shmemx_coll_t q = right(SHMEMX_ALLREDUCE);
    q.slot = 99;
    if (shmemx_stream_create(&stream) != 0 || shmemx_graph_begin(stream) != 0)
        return 0;
    return shmemx_coll_on_stream(&q, stream);
}
static int explained(void)
{
    char text[200];
    shmemx_coll_t q = right(SHMEMX_BROADCAST);
    q.root = 77;
    return shmemx_coll_explain(&q, text, sizeof(text)) == 0 && text[0] == 0;
}
/* With a variable that is wrong, which the first call finds out. */
static int one_call(void)
{
    shmemx_coll_t q = right(SHMEMX_ALLREDUCE);
    return call(&q);
}
static int forced_kind(void) { return one_call(); }
static int forced_name(void) { return one_call(); }
static int forced_blocks(void) { return one_call(); }
static int forced_threads(void) { return one_call(); }
static int table_missing(void) { return one_call(); }
static int table_line(void) { return one_call(); }

/* SHMEM_DEBUG: one member's call is another one. The first call makes the slot. */
static bool other(void) { return shmem_my_pe() != 0; }
static int differ(const shmemx_coll_t *q)
{
    shmemx_coll_t first = right(SHMEMX_SYNC);
    if (call(&first) != 0 || shmemx_stream_synchronize(NULL) != 0)
        return 0;
    if (call(q) == 0)
        (void)shmemx_stream_synchronize(NULL);
    shmem_barrier_all(); /* the member that calls later finds the difference, and ends the job */
    return 0;
}
#define DIFFER(name, kind, statement)  \
    static int name(void)              \
    {                                  \
        shmemx_coll_t q = right(kind); \
        if (other())                   \
            statement;                 \
        return differ(&q);             \
    }
DIFFER(differ_nelems, SHMEMX_ALLREDUCE, q.nelems = 32)
DIFFER(differ_nothing, SHMEMX_FCOLLECT, q.nelems = 0)
DIFFER(differ_type, SHMEMX_ALLREDUCE, q.type = SHMEMX_FLOAT)
DIFFER(differ_op, SHMEMX_REDUCESCATTER, q.op = SHMEMX_MAX)
DIFFER(differ_root, SHMEMX_BROADCAST, q.root = 1)
DIFFER(differ_kind, SHMEMX_FCOLLECT, q.kind = SHMEMX_ALLTOALL)
DIFFER(differ_engines, SHMEMX_FCOLLECT, q.engines = 1)
DIFFER(differ_same_place, SHMEMX_FCOLLECT, q.same_place = 1)
DIFFER(differ_background, SHMEMX_ALLREDUCE, q.background = 1)
DIFFER(differ_stage, SHMEMX_ALLREDUCE, q.stage_bytes = 1 << 20)
/* Kernels find dest anywhere; copy engines need it at one place. */
static int differ_dest(void)
{
    shmemx_coll_t q = right(SHMEMX_FCOLLECT);
    q.engines = 1;
    q.dest = object.device + (other() ? 4096 : 0);
    return differ(&q);
}
DIFFER(differ_symmetric, SHMEMX_ALLTOALL, q.dest = object.own)
DIFFER(differ_partner, SHMEMX_PERMUTE, q.to = q.from = shmem_my_pe())
DIFFER(differ_reduce_root, SHMEMX_REDUCE, q.root = 1)
static int differ_norms(bool both)
{
    shmemx_rms_norm_t v = norm();
    shmemx_coll_t q = right(SHMEMX_ALLREDUCE);
    v.hidden = other() ? 32 : 64;
    q.type = SHMEMX_FLOAT;
    q.nelems = 128;
    q.rms_norm = both || other() ? &v : NULL;
    return differ(&q);
}
static int differ_norm(void) { return differ_norms(false); }
static int differ_hidden(void) { return differ_norms(true); }
static int differ_splits(void)
{
    const shmemx_splits_t s = splits(2), one = splits(1);
    shmemx_coll_t q = right(SHMEMX_FCOLLECT);
    q.splits = other() ? &one : &s;
    return differ(&q);
}
static int differ_host_blocks(void) /* pe 0 expects 32 bytes of pe 1, which sends 64 */
{
    const shmemx_host_blocks_t v = host_blocks(sizes, sizes), less = host_blocks(sizes, others);
    shmemx_coll_t q = right(SHMEMX_ALLTOALLV);
    q.host_blocks = other() ? &v : &less;
    return differ(&q);
}
static int differ_slot(void)
{
    shmemx_coll_t q = right(SHMEMX_SYNC);
    q.slot = other() ? 3 : 2;
    (void)call(&q);
    return 0;
}
static int differ_batch(void) /* one member lets one kernel do both calls */
{
    shmemx_coll_t q = right(SHMEMX_SYNC);
    if (call(&q) != 0 || (!other() && shmemx_coll_group_begin() != 0))
        return 0;
    q = right(SHMEMX_FCOLLECT);
    (void)call(&q);
    (void)call(&q);
    if (!other())
        (void)shmemx_coll_group_end();
    shmem_barrier_all();
    return 0;
}
static int open_batch(void)
{
    shmemx_coll_t q = right(SHMEMX_SYNC);
    if (shmemx_coll_group_begin() != 0 || call(&q) != 0)
        return 0;
    shmem_finalize();
    exit(1);
}
static int differ_late(void) /* one member is far ahead, and finds it when it comes to its next call */
{
    shmemx_coll_t q = right(SHMEMX_FCOLLECT);
    for (int i = 0; i < 40; i++) {
        q.nelems = i == 30 && other() ? 8 : 16;
        if (i == 20 && other())
            usleep(300000);
        if (call(&q) != 0)
            return 0;
    }
    (void)shmemx_stream_synchronize(NULL);
    return 0;
}

#define CASES(X)                            \
    X(coll_null, WITH_DEVICE, true)         \
    X(kind_negative, WITH_DEVICE, true)     \
    X(kind_large, WITH_DEVICE, true)        \
    X(team_invalid, WITH_DEVICE, true)      \
    X(slot_negative, WITH_DEVICE, true)     \
    X(slot_large, WITH_DEVICE, true)        \
    X(type_negative, WITH_DEVICE, true)     \
    X(type_large, WITH_DEVICE, true)        \
    X(op_negative, WITH_DEVICE, true)       \
    X(op_large, WITH_DEVICE, true)          \
    X(op_of_floats, WITH_DEVICE, true)      \
    X(avg_of_integers, WITH_DEVICE, true)   \
    X(scaled_complex, WITH_DEVICE, true)    \
    X(op_of_complex, WITH_DEVICE, true)     \
    X(nelems_huge, WITH_DEVICE, true)       \
    X(nelems_wrap, WITH_DEVICE, true)       \
    X(nelems_of_a_block, WITH_DEVICE, true) \
    X(root_large, WITH_DEVICE, true)        \
    X(root_negative, WITH_DEVICE, true)     \
    X(to_large, WITH_DEVICE, true)          \
    X(from_large, WITH_DEVICE, true)        \
    X(to_itself, WITH_DEVICE, true)         \
    X(dest_null, WITH_DEVICE, true)         \
    X(source_null, WITH_DEVICE, true)       \
    X(dest_odd, WITH_DEVICE, true)          \
    X(source_odd, WITH_DEVICE, true)        \
    X(overlap, WITH_DEVICE, true)           \
    X(overlap_blocks, WITH_DEVICE, true)    \
    X(in_place_alltoall, WITH_DEVICE, true) \
    X(background_two, WITH_DEVICE, true)    \
    X(background_negative, WITH_DEVICE, true) \
    X(engines_two, WITH_DEVICE, true)       \
    X(engines_reduce, WITH_DEVICE, true)    \
    X(engines_own, WITH_DEVICE, true)       \
    X(engines_proxy, WITH_DEVICE, true)     \
    X(signals_kind, WITH_DEVICE, true)      \
    X(signals_alone, WITH_DEVICE, true)     \
    X(signals_odd, WITH_DEVICE, true)       \
    X(signals_own, WITH_DEVICE, true)       \
    X(value_null, WITH_DEVICE, true)        \
    X(value_alone, WITH_DEVICE, true)       \
    X(chunk_zero, WITH_DEVICE, true)        \
    X(blocks_null, WITH_DEVICE, true)       \
    X(v_bytes_null, WITH_DEVICE, true)      \
    X(v_source_null, WITH_DEVICE, true)     \
    X(v_offset_odd, WITH_DEVICE, true)      \
    X(v_received_own, WITH_DEVICE, true)    \
    X(v_dest_own, WITH_DEVICE, true)        \
    X(host_blocks_kind, WITH_DEVICE, true)  \
    X(host_blocks_both, WITH_DEVICE, true)  \
    X(host_blocks_null, WITH_DEVICE, true)  \
    X(host_blocks_dest, WITH_DEVICE, true)  \
    X(host_blocks_itself, WITH_DEVICE, true)\
    X(splits_kind, WITH_DEVICE, true)       \
    X(splits_engines, WITH_DEVICE, true)    \
    X(splits_null, WITH_DEVICE, true)       \
    X(splits_fall, WITH_DEVICE, true)       \
    X(splits_long, WITH_DEVICE, true)       \
    X(gather_root, WITH_DEVICE, true)       \
    X(scatter_null, WITH_DEVICE, true)      \
    X(reduce_op, WITH_DEVICE, true)         \
    X(norm_kind, WITH_DEVICE, true)         \
    X(norm_type, WITH_DEVICE, true)         \
    X(norm_op, WITH_DEVICE, true)           \
    X(norm_hidden_zero, WITH_DEVICE, true)  \
    X(norm_hidden_odd, WITH_DEVICE, true)   \
    X(norm_hidden_large, WITH_DEVICE, true) \
    X(norm_rows, WITH_DEVICE, true)         \
    X(norm_eps, WITH_DEVICE, true)          \
    X(norm_dest_type, WITH_DEVICE, true)    \
    X(norm_scale_alone, WITH_DEVICE, true)  \
    X(norm_no_scale, WITH_DEVICE, true)     \
    X(norm_both_scales, WITH_DEVICE, true)  \
    X(norm_no_sum, WITH_DEVICE, true)       \
    X(norm_scale_odd, WITH_DEVICE, true)    \
    X(norm_in_place, WITH_DEVICE, true)     \
    X(norm_residual_null, WITH_DEVICE, true)\
    X(norm_weight_odd, WITH_DEVICE, true)   \
    X(norm_source_odd, WITH_DEVICE, true)   \
    X(norm_overlap, WITH_DEVICE, true)      \
    X(norm_huge, WITH_DEVICE, true)         \
    X(differ_norm, WITH_DEVICE, true)       \
    X(differ_hidden, WITH_DEVICE, true)     \
    X(differ_reduce_root, WITH_DEVICE, true)\
    X(differ_splits, WITH_DEVICE, true)     \
    X(differ_host_blocks, WITH_DEVICE, true)\
    X(half_symmetric, WITH_DEVICE, true)    \
    X(two_buffers, WITH_DEVICE, true)       \
    X(before_device, BEFORE_DEVICE, true)   \
    X(captured, WITH_DEVICE, true)          \
    X(explained, WITH_DEVICE, false)        \
    X(differ_nelems, WITH_DEVICE, true)     \
    X(differ_nothing, WITH_DEVICE, true)    \
    X(differ_type, WITH_DEVICE, true)       \
    X(differ_op, WITH_DEVICE, true)         \
    X(differ_root, WITH_DEVICE, true)       \
    X(differ_kind, WITH_DEVICE, true)       \
    X(differ_engines, WITH_DEVICE, true)    \
    X(differ_same_place, WITH_DEVICE, true) \
    X(differ_background, WITH_DEVICE, true) \
    X(differ_stage, WITH_DEVICE, true)      \
    X(differ_dest, WITH_DEVICE, true)       \
    X(differ_symmetric, WITH_DEVICE, true)  \
    X(differ_partner, WITH_DEVICE, true)    \
    X(differ_slot, WITH_DEVICE, true)       \
    X(differ_batch, WITH_DEVICE, true)      \
    X(open_batch, WITH_DEVICE, true)        \
    X(differ_late, WITH_DEVICE, true)       \
    X(forced_kind, WITH_DEVICE, true)       \
    X(forced_name, WITH_DEVICE, true)       \
    X(forced_blocks, WITH_DEVICE, true)     \
    X(forced_threads, WITH_DEVICE, true)    \
    X(table_missing, WITH_DEVICE, true)     \
    X(table_line, WITH_DEVICE, true)

static const struct wrong cases[] = {CASES(WRONG_ROW){NULL, NULL, 0, false}};

int main(int argc, char **argv) { return wrong_main(argc, argv, cases, objects); }
