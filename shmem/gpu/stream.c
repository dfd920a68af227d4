/* SPDX-License-Identifier: MIT */
/* Point-to-point, barrier and sync on streams: enqueued, never waited for. Payloads that a pointer reaches go by a copy
 * engine when they are large and by one block of a kernel when they are small; the rest goes by a kernel that uses the
 * ring. Everything that changes is in device memory, so a captured graph replays it without the host.
 * Called by users; the kernels are in device/rma_kernels.c. */
#include "../../bootstrap/log.h"
#include "../state/alloc.h"
#include "../team/slot.h"
#include "device.h"

#include <errno.h>

#define ENGINE_BYTES ((size_t)64 << 10) /* from here on a copy engine is as fast, and leaves the processors free */
#define WAVE 32u
#define BLOCK_MOST 256u

#define DECLARE(name) extern void name(void);
ISOD_STREAM_KERNELS(DECLARE)
#undef DECLARE

/* One call: waited it is for in messages, and where it goes. */
struct on_stream {
    const char *call;
    struct device *device;
    shmemx_stream_t stream;
    shmemd_t handle;
    int pe;       /* of the other side; -1: none */
    size_t bytes; /* that a kernel moves */
};

/* ---- checks: all of them say a sentence and make the call return nonzero ---- */

static bool begin_move(struct on_stream *s, const char *call, shmemx_stream_t stream)
{
    s->call = iso_call_name(call);
    s->stream = stream;
    s->pe = -1;
    s->bytes = 0;
    s->device = iso_device_running(call);
    return s->device != NULL;
}

static bool pe_is_valid(struct on_stream *s, int pe)
{
    s->pe = pe;
    if (pe >= 0 && pe < ISO->n_pes)
        return true;
    log_error("%s: pe %d is outside 0..%d", s->call, pe, ISO->n_pes - 1);
    return false;
}

/* A registered buffer is up to three segments, one behind the other. */
static bool is_in_buffer(const struct segment *first, const char *addr, size_t len)
{
    const struct segment *s = first;
    size_t done = 0;
    while (s != NULL && s->kind == SEGMENT_BUFFER && (s == first || s->first_bytes == 0)) {
        size_t there = (size_t)(s->base + s->limit - (addr + done));
        if (len - done <= there)
            return true;
        done += there;
        s = iso_segment_of(addr + done, 1);
    }
    return false;
}

static bool is_symmetric(const struct on_stream *s, const char *arg, const void *addr, size_t len)
{
    const struct segment *whole = iso_segment_of(addr, len), *part = iso_segment_of(addr, 1);
    if (part == NULL) {
        log_error("%s: %s %p is not symmetric: not in the device heap and no registered buffer", s->call, arg, addr);
        return false;
    }
    if (whole == NULL && !is_in_buffer(part, (const char *)addr, len)) {
        log_error("%s: %s %p with %zu bytes ends beyond the %s", s->call, arg, addr, len,
                  part->kind == SEGMENT_BUFFER ? "registered buffer" : "objects of its heap");
        return false;
    }
    return true;
}

/* PE `pe`'s copy of symmetric memory, for kernels and engines of this PE; NULL: by the ring. */
static char *near_of(const void *addr, size_t len, int pe)
{
    const struct segment *whole = iso_segment_of(addr, len);
    char *near = whole != NULL ? iso_handle_near(whole, pe) : NULL;
    return near != NULL ? near + ((const char *)addr - whole->base) : NULL;
}

/* A call on a member's memory of a team gives up by the team's deadline, and ends with the team. Another PE may have
 * memory of another team at that address. */
static bool take_handle(struct on_stream *s, const void *addr)
{
    const struct segment *part = iso_segment_of(addr, 1);
    struct alloc_object object = {0};
    s->handle = iso_handle_local();
    if (part->kind != SEGMENT_TEAM || !iso_alloc_find(part->alloc, (size_t)((const char *)addr - part->base), &object))
        return true;
    const struct team *team = iso_team_or_null((shmem_team_t)object.owner);
    bool is_own = s->pe < 0 || s->pe == ISO->my_pe;
    if (team == NULL && is_own)
        log_error("%s: %p is memory of a team that was destroyed", s->call, addr);
    if (team == NULL || (!is_own && iso_team_pe(team, s->pe) < 0))
        return !is_own;
    if (iso_slot_rc(&team->slot, s->call) != 0)
        return false;
    (void)iso_handle_of_member(team, s->stream, &s->handle);
    return true;
}

/* Of symmetric memory. */
static bool word_is_valid(const struct on_stream *s, const char *arg, const void *addr)
{
    const struct segment *segment = iso_segment_of(addr, 1);
    if (((uintptr_t)addr & 7) != 0) {
        log_error("%s: %s %p is not aligned to 8 bytes", s->call, arg, addr);
        return false;
    }
    if (segment->kind == SEGMENT_BUFFER && segment->on_device && !s->device->info->polls_foreign) {
        log_error(
            "%s: %s %p is in a registered buffer, where this device's polls may not see what peers store; use memory "
            "of shmemx_malloc",
            s->call, arg, addr);
        return false;
    }
    return true;
}

static bool op_is_valid(const struct on_stream *s, int sig_op)
{
    if (sig_op == SHMEM_SIGNAL_SET || sig_op == SHMEM_SIGNAL_ADD)
        return true;
    log_error("%s: sig_op is %d, allowed: SHMEM_SIGNAL_SET (%d) or SHMEM_SIGNAL_ADD (%d)", s->call, sig_op,
              SHMEM_SIGNAL_SET, SHMEM_SIGNAL_ADD);
    return false;
}

/* Kernels cannot load pageable memory of the host; asking the driver is slow, so only SHMEM_DEBUG does. */
static bool local_is_valid(const struct on_stream *s, const char *arg, const void *addr)
{
    struct gpu *gpu = s->device->gpu;
    if (addr == NULL) {
        log_error("%s: %s is a null pointer", s->call, arg);
        return false;
    }
    if (ISO_LIKELY(!ISO->debug) || iso_gpu_pointer_kind(gpu, addr) != GPU_POINTER_HOST ||
        iso_segment_of(addr, 1) != NULL)
        return true;
    log_error("%s: %s %p is memory of the host that is not pinned; device memory or pinned memory is needed", s->call,
              arg, addr);
    return false;
}

/* ---- enqueue: these return what the calls return, 0, or 1 after a sentence ---- */

/* The stream's work itself is the device's, of which no counter of the host knows. */
static void count(struct stream_span *span, const struct on_stream *s, size_t bytes)
{
    iso_device_trace_enter(span, PROFILE_STREAM, s->call, bytes, s->stream);
    span->host.pe = s->pe;
}

static int launch_move(const struct on_stream *s, gpu_kernel kernel, unsigned threads, const void *args, size_t bytes)
{
    struct gpu_launch l = {
        .kernel = kernel, .grid.x = 1, .block.x = threads, .args = args, .args_bytes = bytes, .early = true};
    struct stream_span span;
    count(&span, s, s->bytes);
    int rc = iso_gpu_launch(s->device->gpu, &l, s->stream);
    iso_device_trace_leave(&span);
    if (rc != 0)
        log_error("%s: %s", s->call, iso_gpu_error(s->device->gpu));
    return rc == 0 ? 0 : 1;
}

static int copy_on_stream(const struct on_stream *s, void *dest, const void *source, size_t bytes)
{
    struct stream_span span;
    count(&span, s, bytes);
    int rc = iso_gpu_copy(s->device->gpu, dest, source, bytes, s->stream);
    iso_device_trace_leave(&span);
    if (rc != 0)
        log_error("%s: %s", s->call, iso_gpu_error(s->device->gpu));
    return rc == 0 ? 0 : 1;
}

static int move_on_stream(struct on_stream *s, gpu_kernel kernel, const struct isod_stream_move *m)
{
    /* A thread has 16 bytes at a time, and more than one of them under way. */
    size_t wanted = (m->bytes / 32 + WAVE - 1) / WAVE * WAVE;
    size_t threads = ISO_MIN(ISO_MAX(wanted, (size_t)WAVE), (size_t)BLOCK_MOST);
    s->bytes = m->bytes;
    return launch_move(s, kernel, (unsigned)threads, m, sizeof *m);
}

/* ---- put, get, signal ---- */

SHMEM_API(shmemx_putmem_on_stream, pshmemx_putmem_on_stream);
int pshmemx_putmem_on_stream(void *dest, const void *source, size_t bytes, int pe, shmemx_stream_t stream)
{
    struct on_stream s;
    if (!begin_move(&s, __func__, stream) || !pe_is_valid(&s, pe))
        return 1;
    if (bytes == 0)
        return 0;
    if (!is_symmetric(&s, "dest", dest, bytes) || !local_is_valid(&s, "source", source) || !take_handle(&s, dest))
        return 1;
    char *to = near_of(dest, bytes, pe);
    if (to != NULL && bytes >= ENGINE_BYTES)
        return copy_on_stream(&s, to, source, bytes);
    struct isod_stream_move m = {.h = s.handle, .dest = dest, .source = source, .bytes = bytes, .pe = pe};
    return move_on_stream(&s, isod_put_kernel, &m);
}

SHMEM_API(shmemx_getmem_on_stream, pshmemx_getmem_on_stream);
int pshmemx_getmem_on_stream(void *dest, const void *source, size_t bytes, int pe, shmemx_stream_t stream)
{
    struct on_stream s;
    if (!begin_move(&s, __func__, stream) || !pe_is_valid(&s, pe))
        return 1;
    if (bytes == 0)
        return 0;
    if (!is_symmetric(&s, "source", source, bytes) || !local_is_valid(&s, "dest", dest) || !take_handle(&s, source))
        return 1;
    char *from = near_of(source, bytes, pe);
    if (from != NULL && bytes >= ENGINE_BYTES)
        return copy_on_stream(&s, dest, from, bytes);
    struct isod_stream_move m = {.h = s.handle, .dest = dest, .source = source, .bytes = bytes, .pe = pe};
    return move_on_stream(&s, isod_get_kernel, &m);
}

static int signal_at(const struct on_stream *s, struct isod_stream_move *m)
{
    m->bytes = 0;
    return launch_move(s, isod_signal_kernel, 1, m, sizeof *m);
}

SHMEM_API(shmemx_putmem_signal_on_stream, pshmemx_putmem_signal_on_stream);
int pshmemx_putmem_signal_on_stream(void *dest, const void *source, size_t bytes, uint64_t *sig_addr, uint64_t signal,
                                    int sig_op, int pe, shmemx_stream_t stream)
{
    struct on_stream s;
    if (!begin_move(&s, __func__, stream) || !pe_is_valid(&s, pe) || !op_is_valid(&s, sig_op) ||
        !is_symmetric(&s, "sig_addr", sig_addr, 8) || !word_is_valid(&s, "sig_addr", sig_addr) ||
        !take_handle(&s, sig_addr))
        return 1;
    if (bytes != 0 && (!is_symmetric(&s, "dest", dest, bytes) || !local_is_valid(&s, "source", source)))
        return 1;
    struct isod_stream_move m = {s.handle, dest, source, bytes, sig_addr, signal, sig_op, pe};
    if (bytes == 0)
        return signal_at(&s, &m);
    char *to = near_of(dest, bytes, pe);
    if (to == NULL || bytes < ENGINE_BYTES)
        return move_on_stream(&s, isod_put_signal_kernel, &m);
    /* The engine's copy is complete, and visible at the target, before the next in the stream begins. */
    return copy_on_stream(&s, (void *)(uintptr_t)to, source, bytes) != 0 ? 1 : signal_at(&s, &m);
}

SHMEM_API(shmemx_signal_op_on_stream, pshmemx_signal_op_on_stream);
int pshmemx_signal_op_on_stream(uint64_t *sig_addr, uint64_t signal, int sig_op, int pe, shmemx_stream_t stream)
{
    struct on_stream s;
    if (!begin_move(&s, __func__, stream) || !pe_is_valid(&s, pe) || !op_is_valid(&s, sig_op) ||
        !is_symmetric(&s, "sig_addr", sig_addr, 8) || !word_is_valid(&s, "sig_addr", sig_addr) ||
        !take_handle(&s, sig_addr))
        return 1;
    struct isod_stream_move m = {s.handle, NULL, NULL, 0, sig_addr, signal, sig_op, pe};
    return signal_at(&s, &m);
}

SHMEM_API(shmemx_signal_wait_until_on_stream, pshmemx_signal_wait_until_on_stream);
int pshmemx_signal_wait_until_on_stream(uint64_t *sig_addr, int cmp, uint64_t cmp_value, shmemx_stream_t stream)
{
    struct on_stream s;
    if (!begin_move(&s, __func__, stream) || !is_symmetric(&s, "sig_addr", sig_addr, 8) ||
        !word_is_valid(&s, "sig_addr", sig_addr) || !take_handle(&s, sig_addr))
        return 1;
    if (cmp < SHMEM_CMP_EQ || cmp > SHMEM_CMP_GE) {
        log_error("%s: cmp is %d, allowed: SHMEM_CMP_EQ (%d) .. SHMEM_CMP_GE (%d)", s.call, cmp, SHMEM_CMP_EQ,
                  SHMEM_CMP_GE);
        return 1;
    }
    const char *at = near_of(sig_addr, 8, ISO->my_pe);
    if (at == NULL || !iso_segment_of(sig_addr, 1)->on_device) { /* the CPU device could, and would hide the error */
        log_error("%s: sig_addr %p is memory of the host, which kernels do not poll; use memory of shmemx_malloc",
                  s.call, (void *)sig_addr);
        return 1;
    }
    struct isod_stream_wait w = {s.handle, (const uint64_t *)(const void *)at, cmp_value, cmp, 0};
    return launch_move(&s, isod_wait_kernel, 1, &w, sizeof w);
}

/* ---- quiet, barrier, sync ---- */

SHMEM_API(shmemx_quiet_on_stream, pshmemx_quiet_on_stream);
int pshmemx_quiet_on_stream(shmemx_stream_t stream)
{
    struct on_stream s;
    if (!begin_move(&s, __func__, stream))
        return 1;
    struct isod_stream_sync m = {iso_handle_local()};
    return launch_move(&s, isod_quiet_kernel, 1, &m, sizeof m);
}

/* The team's own handle, made by the first of its calls: collective, and not during a capture. */
static int synchronise_stream(const char *call, gpu_kernel kernel, shmem_team_t handle, shmemx_stream_t stream)
{
    struct on_stream s;
    struct isod_stream_sync m;
    if (!begin_move(&s, call, stream))
        return 1;
    struct team *team = iso_team_or_null(handle);
    if (team == NULL) {
        log_error("%s: team is SHMEM_TEAM_INVALID, or was destroyed", s.call);
        return 1;
    }
    if (iso_slot_rc(&team->slot, call) != 0)
        return 1;
    if (!iso_handle_is_open(team, ISO_SLOT_ON_STREAM) &&
        (s.device->captures != 0 || iso_gpu_stream_is_capturing(s.device->gpu, stream))) {
        log_error("%s: the first of these calls on a team makes its handle, which a capture does not allow; call "
                  "%s once before",
                  s.call, s.call);
        return 1;
    }
    if (iso_handle_open(team, ISO_SLOT_ON_STREAM, &m.h, call) != 0)
        return 1;
    return launch_move(&s, kernel, team->n_pes <= (int)WAVE ? WAVE : 2 * WAVE, &m, sizeof m);
}

SHMEM_API(shmemx_barrier_on_stream, pshmemx_barrier_on_stream);
int pshmemx_barrier_on_stream(shmem_team_t team, shmemx_stream_t stream)
{
    return synchronise_stream(__func__, isod_barrier_kernel, team, stream);
}

SHMEM_API(shmemx_sync_on_stream, pshmemx_sync_on_stream);
int pshmemx_sync_on_stream(shmem_team_t team, shmemx_stream_t stream)
{
    return synchronise_stream(__func__, isod_sync_kernel, team, stream);
}
