// SPDX-License-Identifier: MIT
// Kernels that must not compile, one a case; the comment behind CASE is a part of the sentence that the compiler must
// give. Without a case the file compiles.
#include <shmem_device.hpp>

struct token {
    float of[3];
};

template <class G> SHMEMD_FN void put_by(shmemd_t h, G group, float *dest)
{
    shmemd::put(h, group, dest, dest + 8, 8, 0);
}
SHMEMD_GLOBAL void takes_one(shmemd_t h) { put_by(h, shmemd::block(), (float *)nullptr); }

SHMEMD_GLOBAL void refused(shmemd_t h, token *tokens, float *floats, const long *constants, long *longs, char *chars,
                           shmemd_half_t *halves, shmemd_complexf_t *complex, bool *bools, int *ints,
                           shmemd_double2_loc_t *located);
SHMEMD_GLOBAL void refused(shmemd_t h, token *tokens, float *floats, const long *constants, long *longs, char *chars,
                           shmemd_half_t *halves, shmemd_complexf_t *complex, bool *bools, int *ints,
                           shmemd_double2_loc_t *located)
{
    (void)tokens, (void)constants, (void)longs, (void)chars, (void)halves, (void)complex, (void)bools, (void)ints;
    (void)located;
    shmemd::put(h, floats, floats + 8, 8, 0);
#if CASE == 1 // is no type of shmem_types.h
    shmemd::put(h, tokens, tokens + 1, 1, 0);
#endif
#if CASE == 2 // is no type of shmem_types.h
    shmemd::broadcast(h, shmemd::block(), tokens, tokens + 1, 1, 0);
#endif
#if CASE == 3 // integers of 4 and 8 bytes, floats of 2, 4 and 8 bytes
    shmemd::atomic_add(h, chars, 1, 0);
#endif
#if CASE == 4 // integers of 4 and 8 bytes only
    shmemd::wait_until(h, chars, SHMEM_CMP_EQ, 1);
#endif
#if CASE == 5 // int32_t and int64_t only
    shmemd::atomic_or(h, floats, 1, 0);
#endif
#if CASE == 6 // of integers only
    shmemd::xor_reduce(h, shmemd::block(), halves, halves + 8, 8);
#endif
#if CASE == 7 // fp8 and complex have none in kernels
    shmemd::max_reduce(h, shmemd::block(), complex, complex + 8, 8);
#endif
#if CASE == 8 // fp8 has none in kernels
    shmemd::sum_reduce(h, shmemd::block(), bools, bools + 8, 8);
#endif
#if CASE == 9 // made by a block or a grid
    shmemd::alltoallv(h, shmemd::wave(), floats, nullptr, nullptr, floats + 8, nullptr, nullptr);
#endif
#if CASE == 10 // a collective takes shmemd::thread
    shmemd::sum_reduce(h, 5, floats, floats + 8, 8);
#endif
#if CASE == 11 // behind the handle
    shmemd::put(h, shmemd::grid(), floats, floats + 8, 8, 0);
#endif
#if CASE == 12 // a signal is a uint64_t
    shmemd::put_signal(h, floats, floats + 8, 8, ints, 1, SHMEM_SIGNAL_SET, 0);
#endif
#if CASE == 13 // cannot convert|no known conversion|incompatible|no matching function
    shmemd::put(h, floats, longs, 8, 0);
#endif
#if CASE == 14 // or is const
    shmemd::p(h, constants, 1, 0);
#endif
#if CASE == 15 // not of this type
    shmemd::atomic_swap(h, chars, 1, 0);
#endif
#if CASE == 16 // complex numbers and values with a location go by put and get
    shmemd::p(h, complex, *complex, 0);
#endif
#if CASE == 17 // complex numbers and values with a location go by put and get
    *located = shmemd::g(h, located, 0);
#endif
}

inline int launches(shmemd_t h)
{
    int rc = shmemd::launch(takes_one, 1, 64, 0, NULL, h);
#if CASE == 18 // takes another number of arguments
    rc += shmemd::launch(takes_one, 1, 64, 0, NULL, h, 5);
#endif
    return rc;
}
