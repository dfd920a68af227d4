/* SPDX-License-Identifier: MIT */
/* Moves of a block by data that carries its epoch, LL or LL128: a template.
 *   ISOD_NAME     suffix of the stamped names, ll or ll128
 *   ISOD_LL(what) isod_ll_what or isod_ll128_what: the functions that send and receive
 * All here: at most inbox_bytes, in a staged epoch that has begun behind a sync. Calls on streams make rounds of these.
 * Stamped by move_device.h and by ll128_device.h. */

PRIM_FN void ISOD_NAMED(isod_exchange)(struct isod_coll *c, const struct isod_move *w)
{
    ISOD_LL(send)(c, w->source, w->source_stride, w->bytes);
    isod_exchange_copy_own(c, w);
    ISOD_LL(receive)(c, w->dest, w->dest_stride, w->bytes);
}

/* The flags, here and in permute, are for the rule of staged epochs. */
PRIM_FN void ISOD_NAMED(isod_broadcast)(struct isod_coll *c, const struct isod_move *w)
{
    if (c->h.my_pe == w->from) {
        ISOD_LL(send)(c, w->source, 0, w->bytes);
        isod_coll_copy_own(w->dest, w->source, w->bytes);
    } else {
        isod_flags_send_near(c);
        ISOD_LL(receive_one)(c, w->from, w->dest, w->bytes);
    }
    isod_flags_wait(c, w->from, ISOD_ARRIVAL);
}

PRIM_FN void ISOD_NAMED(isod_permute)(struct isod_coll *c, const struct isod_move *w)
{
    if (w->to != c->h.my_pe)
        ISOD_LL(send_one)(c, w->to, w->source, w->bytes);
    isod_flags_send_near(c);
    if (w->from != c->h.my_pe)
        ISOD_LL(receive_one)(c, w->from, w->dest, w->bytes);
    else
        isod_coll_copy_own(w->dest, w->source, w->bytes);
    isod_flags_wait(c, w->from, ISOD_ARRIVAL);
}

#undef ISOD_NAME
#undef ISOD_LL
