/* SPDX-License-Identifier: MIT */
/* The calls of ring.h in kernels that are compiled with SHMEMD_NO_RING: there is no way but pointers. An operation on
 * memory that no pointer reaches is not done. The handle gives up, and a word tells the host, which prints a sentence: a
 * record would cost each kernel the registers that this saves. Included by ring.h only. */
#ifndef ISO_NO_RING_H
#define ISO_NO_RING_H

/* By any thread; `pe`: of the world. Inlined, and two stores: a call would cost more registers than it has. The host
 * takes the word in look_at_records. */
PRIM_FN void isod_no_ring(struct isod_team *team, int32_t pe)
{
    prim_store_relaxed_u64(&team->status, 1);
    prim_store_relaxed_u64(&team->world->host->unreached, team->name | (uint32_t)pe);
}

PRIM_FN bool isod_ring_used(shmemd_t h)
{
    (void)h;
    return false;
}
PRIM_FN void isod_ring_put(shmemd_t h, struct prim_group g, struct isod_bytes b, int32_t pe)
{
    (void)g, (void)b;
    isod_no_ring(h.team, pe);
}
PRIM_FN void isod_ring_get(shmemd_t h, struct prim_group g, struct isod_bytes b, int32_t pe)
{
    (void)g, (void)b;
    isod_no_ring(h.team, pe);
}
PRIM_FN void isod_ring_put_words(shmemd_t h, void *dest, struct isod_words w, int32_t pe)
{
    (void)dest, (void)w;
    isod_no_ring(h.team, pe);
}
PRIM_FN uint64_t isod_ring_get_word(shmemd_t h, const void *source, uint32_t bytes, int32_t pe)
{
    (void)source, (void)bytes;
    isod_no_ring(h.team, pe);
    return 0;
}
PRIM_FN uint64_t isod_ring_amo(shmemd_t h, struct isod_word_op o, const void *addr, int32_t pe)
{
    (void)o, (void)addr;
    isod_no_ring(h.team, pe);
    return 0;
}
PRIM_FN void isod_ring_signal(struct isod_team *team, uint64_t *sig, uint64_t value, int op, int32_t pe)
{
    (void)sig, (void)value, (void)op;
    isod_no_ring(team, pe);
}
PRIM_FN bool isod_ring_flush(struct isod_team *team, uint32_t call)
{
    (void)team, (void)call;
    return true;
}
PRIM_FN void isod_ring_quiet_at(struct isod_team *team) { (void)team; }
PRIM_FN void isod_ring_quiet(shmemd_t h) { (void)h; }

#endif
