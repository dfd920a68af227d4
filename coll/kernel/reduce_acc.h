/* SPDX-License-Identifier: MIT */
/* Accumulators of reductions for one way in which elements are kept in memory: a template.
 *   ISOD_T      an element in memory           ISOD_A   what it is combined in (the same, but float for short formats)
 *   ISOD_NAME   suffix of the stamped names    ISOD_ONE(op, x, y)   x op y, of type ISOD_A
 *   ISOD_UP(x), ISOD_DOWN(a)                   from ISOD_T to ISOD_A and back
 *   ISOD_ELEMS  of an accumulator: those of a unit, or of its first half, whose second half then becomes 0
 * Included by reduce_elem.h, and by reduce_any.h for formats that kernels of users do not reduce. */

struct ISOD_NAMED(isod_acc) {
    ISOD_A e[ISOD_ELEMS];
};

PRIM_FN struct ISOD_NAMED(isod_acc) ISOD_NAMED(isod_acc_of)(struct prim_vec16 v)
{
    struct ISOD_NAMED(isod_acc) a;
    ISOD_T e[ISOD_ELEMS];
    __builtin_memcpy(e, &v, sizeof(e));
    PRIM_UNROLL
    for (unsigned i = 0; i < ISOD_ELEMS; i++)
        a.e[i] = ISOD_UP(e[i]);
    return a;
}

PRIM_FN void ISOD_NAMED(isod_acc_add)(struct ISOD_NAMED(isod_acc) * a, struct prim_vec16 v, int op)
{
    struct ISOD_NAMED(isod_acc) b = ISOD_NAMED(isod_acc_of)(v);
    PRIM_UNROLL
    for (unsigned i = 0; i < ISOD_ELEMS; i++)
        a->e[i] = ISOD_ONE(op, a->e[i], b.e[i]);
}

PRIM_FN struct prim_vec16 ISOD_NAMED(isod_acc_vec)(const struct ISOD_NAMED(isod_acc) * a)
{
    struct prim_vec16 v = {{0, 0}};
    ISOD_T e[ISOD_ELEMS];
    PRIM_UNROLL
    for (unsigned i = 0; i < ISOD_ELEMS; i++)
        e[i] = ISOD_DOWN(a->e[i]);
    __builtin_memcpy(&v, e, sizeof(e));
    return v;
}

/* Member m joins, of n. */
PRIM_FN void ISOD_NAMED(isod_acc_join)(struct ISOD_NAMED(isod_acc) * a, struct prim_vec16 v, int32_t m, int32_t n,
                                       int op)
{
    if (m == 0)
        *a = ISOD_NAMED(isod_acc_of)(v);
    else if (m < n)
        ISOD_NAMED(isod_acc_add)(a, v, op);
}
/* Members first .. first + ISOD_BATCH - 1 join; v[k] is the unit of member first + k. */
PRIM_FN void ISOD_NAMED(isod_acc_batch)(struct ISOD_NAMED(isod_acc) * a, const struct prim_vec16 *v, int32_t first,
                                        int32_t n, int op)
{
    ISOD_NAMED(isod_acc_join)(a, v[0], first, n, op);
    ISOD_NAMED(isod_acc_join)(a, v[1], first + 1, n, op);
    ISOD_NAMED(isod_acc_join)(a, v[2], first + 2, n, op);
    ISOD_NAMED(isod_acc_join)(a, v[3], first + 3, n, op);
}
