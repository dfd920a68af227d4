/* SPDX-License-Identifier: MIT */
/* Include template: every atomic operation on a word of type T that this CPU reaches, as function DIRECT(at, op), which
 * returns the old value. op.op is a constant where it is inlined. Included by amo.c and apply.c, once per size.
 * Set is a release, fetch an acquire, the rest are both. Each pairs with the others, with p, with signals, and with the
 * loads of wait and test: a PE that sees the value also sees the earlier stores of its writer. */

ISO_INLINE uint64_t DIRECT(T *at, struct amo op)
{
    T expected = (T)op.compare;
    switch (op.op) {
    case AMO_FETCH:
        return __atomic_load_n(at, __ATOMIC_ACQUIRE);
    case AMO_SET:
        __atomic_store_n(at, (T)op.operand, __ATOMIC_RELEASE);
        return 0;
    case AMO_SWAP:
        return __atomic_exchange_n(at, (T)op.operand, __ATOMIC_ACQ_REL);
    case AMO_CSWAP:
        __atomic_compare_exchange_n(at, &expected, (T)op.operand, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        return expected;
    case AMO_ADD:
        return __atomic_fetch_add(at, (T)op.operand, __ATOMIC_ACQ_REL);
    case AMO_AND:
        return __atomic_fetch_and(at, (T)op.operand, __ATOMIC_ACQ_REL);
    case AMO_OR:
        return __atomic_fetch_or(at, (T)op.operand, __ATOMIC_ACQ_REL);
    case AMO_XOR:
        return __atomic_fetch_xor(at, (T)op.operand, __ATOMIC_ACQ_REL);
    }
    return 0;
}

#undef T
#undef DIRECT
