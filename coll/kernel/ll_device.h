/* SPDX-License-Identifier: MIT */
/* LL of a session: at most inbox_bytes per sender that arrive with their epoch, no fence; staged epochs of direct teams
 * only. Unit u travels in LL words 2u and 2u + 1. Includes: session_device.h, units_device.h. */
#ifndef ISO_LL_DEVICE_H
#define ISO_LL_DEVICE_H

#include "session_device.h"
#include "units_device.h"

PRIM_FN struct prim_ll *isod_ll(const struct isod_coll *c, char *memory, int32_t sender)
{
    return (struct prim_ll *)(void *)(memory + c->inbox_at + (uint64_t)sender * 2 * c->inbox_bytes);
}

/* Both LL words, however short the unit is: the receiver need not ask, and has all its looks under way at once. */
PRIM_FN void isod_ll_store(struct isod_coll *c, struct prim_ll *line, struct prim_vec16 v)
{
    prim_store_ll(line, (uint32_t)v.word[0], (uint32_t)(v.word[0] >> 32), (uint32_t)c->epoch);
    prim_store_ll(line + 1, (uint32_t)v.word[1], (uint32_t)(v.word[1] >> 32), (uint32_t)c->epoch);
}
PRIM_FN struct prim_ll *isod_ll_there(const struct isod_coll *c, int32_t to, uint64_t unit)
{
    return isod_ll(c, isod_coll_memory(c, to), c->h.my_pe) + 2 * unit;
}

/* A unit to all other members. */
PRIM_FN void isod_unit_send_all(struct isod_coll *c, uint64_t unit, struct prim_vec16 v)
{
    for (uint32_t i = 1; i <= isod_coll_others(c); i++)
        isod_ll_store(c, isod_ll_there(c, isod_coll_other(c, i), unit), v);
}

/* To each other member m a whole unit of its own, at source + m * stride. */
PRIM_FN void isod_unit_send_each(struct isod_coll *c, const char *source, uint64_t stride, uint64_t unit)
{
    for (uint32_t i = 1; i <= isod_coll_others(c); i += ISOD_BATCH) {
        struct prim_vec16 v[ISOD_BATCH];
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (i + k <= isod_coll_others(c))
                v[k] = prim_load16(source + (uint64_t)(uint32_t)isod_coll_other(c, i + k) * stride + unit * 16);
        PRIM_UNROLL
        for (uint32_t k = 0; k < ISOD_BATCH; k++)
            if (i + k <= isod_coll_others(c))
                isod_ll_store(c, isod_ll_there(c, isod_coll_other(c, i + k), unit), v[k]);
    }
}

/* source + m * stride, `bytes` of it, to each other member m. Whole aligned units are loaded several at once; others
 * one by one, since the code for those is long. */
PRIM_FN void isod_ll_send(struct isod_coll *c, const char *source, uint64_t stride, uint64_t bytes)
{
    uint64_t whole = (stride & 15) == 0 ? isod_whole_bytes(source, bytes) : 0, u = c->rank;
    for (; u < whole / 16; u += c->size) {
        if (stride == 0)
            isod_unit_send_all(c, u, prim_load16(source + u * 16));
        else
            isod_unit_send_each(c, source, stride, u);
    }
    for (; u < isod_units(bytes); u += c->size) {
        for (uint32_t i = 1; i <= isod_coll_others(c); i++) {
            int32_t m = isod_coll_other(c, i);
            const char *from = source + (uint64_t)(uint32_t)m * stride + u * 16;
            isod_ll_store(c, isod_ll_there(c, m, u), isod_unit_load_odd(from, bytes - u * 16));
        }
    }
}

PRIM_FN void isod_ll_send_one(struct isod_coll *c, int32_t to, const char *source, uint64_t bytes)
{
    for (uint64_t u = c->rank; u < isod_units(bytes); u += c->size)
        isod_ll_store(c, isod_ll_there(c, to, u), isod_unit_load(source + u * 16, bytes - u * 16));
}

/* One look at a unit; true: it is there. */
PRIM_FN bool isod_unit_look(const struct prim_ll *line, uint32_t epoch, struct prim_vec16 *v)
{
    struct prim_ll a = prim_load_ll(line), b = prim_load_ll(line + 1);
    v->word[0] = a.data0 | (uint64_t)a.data1 << 32;
    v->word[1] = b.data0 | (uint64_t)b.data1 << 32;
    return a.epoch0 == epoch && a.epoch1 == epoch && b.epoch0 == epoch && b.epoch1 == epoch;
}

/* v[k] becomes unit u of member first + k, k < count <= ISOD_BATCH (of this member: stays as it is). All are looked at
 * before any is waited for. By the calling thread alone. */
PRIM_FN void isod_units_wait(struct isod_coll *c, int32_t first, int32_t count, uint64_t u, struct prim_vec16 *v)
{
    struct isod_waiting w = {0, 0};
    const struct prim_ll *lines = isod_ll(c, c->here, first) + 2 * u;
    uint64_t sender = c->inbox_bytes / 8; /* LL words of one */
    for (;;) {
        int32_t missing = -1;
        PRIM_UNROLL
        for (int32_t k = 0; k < ISOD_BATCH; k++)
            if (k < count && first + k < c->h.n_pes && first + k != c->h.my_pe &&
                !isod_unit_look(lines + (uint64_t)k * sender, (uint32_t)c->epoch, &v[k]))
                missing = k;
        if (missing < 0 || c->failed)
            return;
        isod_coll_pause(c, &w, first + missing, lines + (uint64_t)missing * sender);
    }
}

/* The data of each other member m goes to dest + m * stride. */
PRIM_FN void isod_ll_receive(struct isod_coll *c, char *dest, uint64_t stride, uint64_t bytes)
{
    for (uint64_t u = c->rank; u < isod_units(bytes); u += c->size) {
        for (int32_t first = 0; first < c->h.n_pes; first += ISOD_BATCH) {
            struct prim_vec16 v[ISOD_BATCH];
            isod_units_wait(c, first, ISOD_BATCH, u, v);
            PRIM_UNROLL
            for (int32_t k = 0; k < ISOD_BATCH && !c->failed; k++)
                if (first + k < c->h.n_pes && first + k != c->h.my_pe)
                    isod_unit_store(dest + (uint64_t)(first + k) * stride + u * 16, v[k], bytes - u * 16);
        }
    }
}
PRIM_FN void isod_ll_receive_one(struct isod_coll *c, int32_t from, char *dest, uint64_t bytes)
{
    for (uint64_t u = c->rank; u < isod_units(bytes) && !c->failed; u += c->size) {
        struct prim_vec16 v[ISOD_BATCH];
        isod_units_wait(c, from, 1, u, v);
        if (!c->failed)
            isod_unit_store(dest + u * 16, v[0], bytes - u * 16);
    }
}

#endif
