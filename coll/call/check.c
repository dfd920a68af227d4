/* SPDX-License-Identifier: MIT */
/* The checks of check.h. Called by coll_on_host.c and coll_stream.c. */
#include "check.h"
#include "../../bootstrap/log.h"
#include "../../shmem/team/agree.h"
#include "../stream/norm.h"
#include "lists.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>

bool iso_check_wrong(const struct coll_call *c, const char *format, ...)
{
    char text[384];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    log_error("%s%s%s: %s", c->api, c->name[0] != '\0' ? ", " : "", c->name, text);
    return false;
}

/* ---- the kind ---- */

static bool lists_fit(struct coll_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    if (coll->host_blocks != NULL) {
        c->kind = CALL_ALLTOALLV_HOST;
        if (coll->kind != SHMEMX_ALLTOALLV)
            return iso_check_wrong(c, "host_blocks is given; only SHMEMX_ALLTOALLV has blocks");
        if (coll->blocks != NULL)
            return iso_check_wrong(c, "blocks and host_blocks are given; one of them has to be a null pointer");
    }
    if (coll->rms_norm != NULL) {
        c->kind = CALL_ALLREDUCE_RMS_NORM;
        if (coll->kind != SHMEMX_ALLREDUCE || coll->splits != NULL)
            return iso_check_wrong(c, "rms_norm is given; only SHMEMX_ALLREDUCE takes it");
    }
    if (coll->splits == NULL)
        return true;
    c->kind = coll->kind == SHMEMX_FCOLLECT ? CALL_FCOLLECT_SPLITS : CALL_REDUCESCATTER_SPLITS;
    return coll->kind == SHMEMX_FCOLLECT || coll->kind == SHMEMX_REDUCESCATTER ||
           iso_check_wrong(c, "splits is given; only SHMEMX_FCOLLECT and SHMEMX_REDUCESCATTER take splits");
}

bool iso_check_kind(struct coll_call *c, const char *api, const shmemx_coll_t *coll)
{
    *c = (struct coll_call){.coll = coll, .api = api, .name = ""};
    if (coll == NULL)
        return iso_check_wrong(c, "coll is a null pointer");
    if (!check_range(c, "kind", coll->kind, CALL_USER_KINDS - 1))
        return false;
    c->kind = coll->kind;
    c->name = iso_call_kinds[coll->kind].name;
    if (!lists_fit(c))
        return false;
    c->is = iso_call_kinds[c->kind].is;
    c->team = iso_team_or_null(coll->team);
    return c->team != NULL || iso_check_wrong(c, "team is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID?)");
}

/* ---- numbers ---- */

static bool type_and_op_are_valid(const struct coll_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    if (!call_is(c, OF_TYPE))
        return true;
    if (!check_range(c, "type", coll->type, CALL_TYPES_END - 1))
        return false;
    if (!call_is(c, REDUCES))
        return true;
    if (!check_range(c, "op", coll->op, CALL_OPS_END - 1))
        return false;
    const struct call_op *op = &iso_call_ops[coll->op];
    enum call_number number = iso_call_types[coll->type].is;
    return (op->scaling != ISOD_SCALING_NONE ? number == REAL : number <= op->most) ||
           iso_check_wrong(c,
                           "op %s is not for type %s: integers and bool have sum to xor, real numbers sum, prod, min, "
                           "max, avg and scaled sum, complex ones sum and prod",
                           op->name, iso_call_types[coll->type].name);
}

static bool float_fits(const struct coll_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    if (coll->to_float == 0)
        return true;
    return (c->kind == CALL_REDUCESCATTER_SPLITS && (coll->type == SHMEMX_HALF || coll->type == SHMEMX_BFLOAT16) &&
            (coll->op == SHMEMX_SUM || coll->op == SHMEMX_AVG || coll->op == SHMEMX_SCALED_SUM)) ||
           iso_check_wrong(c,
                           "to_float is 1; only a reducescatter with splits of half or bfloat16 has it, by sum, avg or "
                           "scaled sum");
}

static bool partners_are_valid(const struct coll_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    int n = c->team->n_pes, me = c->team->my_pe;
    if (call_is(c, ROOTED))
        return check_range(c, "root", coll->root, n - 1);
    if (coll->kind != SHMEMX_PERMUTE)
        return true;
    if (!check_range(c, "to", coll->to, n - 1) || !check_range(c, "from", coll->from, n - 1))
        return false;
    return (coll->to == me) == (coll->from == me) ||
           iso_check_wrong(c, "to is %d and from is %d on member %d; a member that sends to itself receives from itself",
                           coll->to, coll->from, me);
}

/* A member that is not the root has one buffer. */
static bool size_is_valid(struct coll_call *c)
{
    size_t n = (size_t)c->team->n_pes;
    if (!call_is(c, OF_TYPE))
        return true;
    c->elem_bytes = iso_call_types[c->coll->type].bytes;
    if (__builtin_mul_overflow(c->coll->nelems, c->elem_bytes, &c->block) ||
        __builtin_mul_overflow(c->block, n, &c->all) || c->all > PTRDIFF_MAX)
        return iso_check_wrong(c, "nelems %zu of %zu bytes for %zu members is more than an address space has",
                               c->coll->nelems, c->elem_bytes, n);
    c->dest_bytes = call_is(c, MANY_TO) ? c->all : c->coll->to_float ? c->coll->nelems * sizeof(float) : c->block;
    c->source_bytes = call_is(c, MANY_FROM) ? c->all : c->block;
    if (call_is(c, TO_ROOT | FROM_ROOT) && c->team->my_pe != c->coll->root)
        *(call_is(c, TO_ROOT) ? &c->dest_bytes : &c->source_bytes) = 0;
    return true;
}

static __attribute__((noinline)) bool lists_are_valid(struct coll_call *c)
{
    const shmemx_host_blocks_t *b = c->coll->host_blocks;
    int n = c->team->n_pes, me = c->team->my_pe;
    char sentence[256];
    const char *what = NULL;
    if (b != NULL)
        what = iso_list_check_blocks(b, n, sentence);
    if (c->coll->splits != NULL) {
        what = iso_list_check_splits(c->coll->splits, c->coll->nelems, sentence);
        c->dest_bytes = c->coll->splits->dests != NULL ? 0 : c->dest_bytes;
        c->source_bytes = c->coll->splits->sources != NULL ? 0 : c->source_bytes;
    }
    if (what != NULL)
        return iso_check_wrong(c, "%s", what);
    if (c->coll->kind == SHMEMX_ALLTOALLV && b == NULL)
        c->dest_bytes = c->source_bytes = 1; /* the lengths are known when the call runs */
    if (b == NULL)
        return true;
    c->dest_bytes = iso_list_extent(b->receive_bytes, b->receive_offset, n);
    c->source_bytes = iso_list_extent(b->send_bytes, b->send_offset, n);
    return b->send_bytes[me] == b->receive_bytes[me] ||
           iso_check_wrong(c, "host_blocks->send_bytes[%d] is %zu and receive_bytes[%d] is %zu on member %d itself", me,
                           b->send_bytes[me], me, b->receive_bytes[me], me);
}

/* ---- residual and norm ---- */

static __attribute__((noinline)) bool norm_is_valid(struct coll_call *c)
{
    const shmemx_coll_t *coll = c->coll;
    const shmemx_rms_norm_t *norm = coll->rms_norm;
    bool short_dest = norm->dest_type == SHMEMX_FLOAT8_E4M3;
    bool has_norm = coll->type == SHMEMX_FLOAT || coll->type == SHMEMX_HALF || coll->type == SHMEMX_BFLOAT16;
    if (!has_norm || coll->op != SHMEMX_SUM)
        return iso_check_wrong(c, "with rms_norm type is %s and op %s; allowed are SHMEMX_FLOAT, SHMEMX_HALF and "
                                  "SHMEMX_BFLOAT16 with SHMEMX_SUM", iso_call_types[coll->type].name,
                               iso_call_ops[coll->op].name);
    if (norm->hidden == 0 || norm->hidden > ISOD_NORM_HIDDEN || norm->hidden % 8 != 0)
        return iso_check_wrong(c, "rms_norm->hidden is %zu; it has to be a multiple of 8, 8..%d", norm->hidden,
                               ISOD_NORM_HIDDEN);
    if (coll->nelems % norm->hidden != 0)
        return iso_check_wrong(c, "nelems %zu is no multiple of rms_norm->hidden, %zu", coll->nelems, norm->hidden);
    if (!(norm->eps >= 0 && norm->eps <= FLT_MAX))
        return iso_check_wrong(c, "rms_norm->eps is %g; it has to be a number from 0 on", norm->eps);
    if (!short_dest && norm->dest_type != coll->type)
        return iso_check_wrong(c, "rms_norm->dest_type is %d; it has to be type, %d (%s), or SHMEMX_FLOAT8_E4M3, %d",
                               norm->dest_type, coll->type, iso_call_types[coll->type].name, SHMEMX_FLOAT8_E4M3);
    if ((norm->scale != NULL) + (norm->scales != NULL) != (short_dest ? 1 : 0))
        return iso_check_wrong(
            c, "rms_norm->scale is %p and rms_norm->scales %p; %s", (const void *)norm->scale, (void *)norm->scales,
            short_dest ? "for SHMEMX_FLOAT8_E4M3 one of them is given, and the other is a null pointer"
                       : "both are null pointers unless dest_type is SHMEMX_FLOAT8_E4M3");
    return norm->sum != NULL || !short_dest || coll->nelems == 0 ||
           iso_check_wrong(c, "rms_norm->sum is a null pointer; with SHMEMX_FLOAT8_E4M3 it is where the sums go, "
                              "memory of %zu bytes, which may be source", c->dest_bytes);
}

bool iso_check_numbers(struct coll_call *c)
{
    bool listed = c->coll->kind == SHMEMX_ALLTOALLV || c->coll->splits != NULL;
    return check_range(c, "background", c->coll->background, 1) && check_range(c, "to_float", c->coll->to_float, 1) &&
           type_and_op_are_valid(c) && float_fits(c) && partners_are_valid(c) && size_is_valid(c) &&
           (!listed || lists_are_valid(c)) && (c->coll->rms_norm == NULL || norm_is_valid(c));
}

/* ---- memory ---- */

bool iso_check_pointer(const struct coll_call *c, const char *arg, const void *addr, size_t alignment,
                       check_pointer_fn *place)
{
    return addr != NULL ? place(c, arg, addr, alignment) : iso_check_wrong(c, "%s is a null pointer", arg);
}

/* The overlaps that are allowed. */
static bool is_in_place(const struct coll_call *c)
{
    const char *dest = (const char *)c->coll->dest, *source = (const char *)c->coll->source;
    size_t own = (size_t)c->team->my_pe * c->block;
    switch (c->kind) {
    case SHMEMX_REDUCESCATTER:
    case SHMEMX_SCATTER:
        return dest == source + own;
    case SHMEMX_FCOLLECT:
    case SHMEMX_GATHER:
        return source == dest + own;
    case SHMEMX_ALLREDUCE:
    case SHMEMX_BROADCAST:
    case SHMEMX_REDUCE:
        return dest == source;
    case SHMEMX_PERMUTE:
        return dest == source && c->coll->to == c->team->my_pe;
    default:
        return false;
    }
}

static __attribute__((noinline)) bool blocks_are_valid(const struct coll_call *c, check_pointer_fn *place)
{
    const shmemx_blocks_t *b = c->coll->blocks;
    if (b == NULL)
        return iso_check_wrong(c, "blocks is a null pointer");
    return iso_check_pointer(c, "blocks->bytes", b->bytes, 8, place) &&
           iso_check_pointer(c, "blocks->source_offset", b->source_offset, 8, place) &&
           iso_check_pointer(c, "blocks->dest_offset", b->dest_offset, 8, place) &&
           (b->received == NULL || place(c, "blocks->received", b->received, 8));
}

static __attribute__((noinline)) bool splits_are_valid(const struct coll_call *c, size_t alignment, size_t of_dest,
                                                       check_pointer_fn *place)
{
    const shmemx_splits_t *s = c->coll->splits;
    for (size_t i = 0; i < s->n; i++)
        if (s->nelems[i] > 0 &&
            ((s->dests != NULL && !iso_check_pointer(c, "a dest of splits->dests", s->dests[i], of_dest, place)) ||
             (s->sources != NULL &&
              !iso_check_pointer(c, "a source of splits->sources", s->sources[i], alignment, place))))
            return false;
    return true;
}

enum norm_use { NORM_READ, NORM_WRITTEN, NORM_SHARED }; /* the last: of rows, which may be each other's whole memory */
struct norm_range {
    const char *name;
    const void *at;
    size_t bytes;
    enum norm_use use;
    size_t alignment;
};
static bool ranges_are_apart(const struct coll_call *c, const struct norm_range *a, const struct norm_range *b)
{
    uintptr_t one = (uintptr_t)a->at, two = (uintptr_t)b->at;
    bool is_one = a->use == NORM_SHARED && b->use == NORM_SHARED && one == two && a->bytes == b->bytes;
    return (a->use == NORM_READ && b->use == NORM_READ) || is_one || one >= two + b->bytes || two >= one + a->bytes ||
           iso_check_wrong(c, "%s %p (%zu bytes) and %s %p (%zu bytes) overlap", a->name, a->at, a->bytes, b->name,
                           b->at, b->bytes);
}
static __attribute__((noinline)) bool norm_memory_is_valid(const struct coll_call *c, check_pointer_fn *place)
{
    const shmemx_rms_norm_t *norm = c->coll->rms_norm;
    size_t rows = c->coll->nelems / norm->hidden, bytes = rows * norm->hidden * iso_call_types[norm->dest_type].bytes;
    const struct norm_range ranges[] = {
        {"dest", c->coll->dest, bytes, NORM_SHARED, bytes < c->block ? 8 : 16},
        {"source", c->coll->source, c->block, NORM_SHARED, 16},
        {"rms_norm->sum", call_dest(c), c->block, NORM_SHARED, 16},
        {"rms_norm->residual", norm->residual, c->block, NORM_WRITTEN, 16},
        {"rms_norm->weight", norm->weight, norm->hidden * c->elem_bytes, NORM_READ, 16},
        {"rms_norm->scale", norm->scale, norm->scale != NULL ? sizeof(float) : 0, NORM_READ, 4},
        {"rms_norm->scales", norm->scales, norm->scales != NULL ? rows * sizeof(float) : 0, NORM_WRITTEN, 4},
    };
    enum { RANGES = sizeof ranges / sizeof ranges[0] };
    if (c->block == 0)
        return true;
    for (int i = 0; i < RANGES; i++)
        if (ranges[i].bytes != 0 && !iso_check_pointer(c, ranges[i].name, ranges[i].at, ranges[i].alignment, place))
            return false;
    for (int i = 0; i < RANGES; i++)
        for (int k = 0; k < i; k++)
            if (!ranges_are_apart(c, &ranges[k], &ranges[i]))
                return false;
    return true;
}

bool iso_check_memory(const struct coll_call *c, check_pointer_fn *place)
{
    const shmemx_coll_t *coll = c->coll;
    size_t alignment = call_is(c, OF_TYPE) ? iso_call_types[coll->type].alignment : 1;
    size_t of_dest = coll->to_float != 0 ? sizeof(float) : alignment;
    uintptr_t to = (uintptr_t)coll->dest, from = (uintptr_t)coll->source;
    if (coll->rms_norm != NULL)
        return norm_memory_is_valid(c, place);
    if (c->kind == SHMEMX_ALLTOALLV && !blocks_are_valid(c, place))
        return false;
    if ((c->dest_bytes > 0 && !iso_check_pointer(c, "dest", coll->dest, of_dest, place)) ||
        (c->source_bytes > 0 && !iso_check_pointer(c, "source", coll->source, alignment, place)) ||
        (coll->splits != NULL && !splits_are_valid(c, alignment, of_dest, place)))
        return false;
    if (call_is(c, REDUCES) && coll->op == SHMEMX_SCALED_SUM && coll->scale_from != NULL &&
        !place(c, "scale_from", coll->scale_from, 8))
        return false;
    return to >= from + c->source_bytes || from >= to + c->dest_bytes || c->dest_bytes == 0 || c->source_bytes == 0 ||
           !call_is(c, OF_TYPE) || is_in_place(c) ||
           iso_check_wrong(c, "dest %p (%zu bytes) and source %p (%zu bytes) overlap", coll->dest, c->dest_bytes,
                           coll->source, c->source_bytes);
}
