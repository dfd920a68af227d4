// SPDX-License-Identifier: MIT
// Kernels of shmem_device.hpp: templates in namespaces with arguments of their own, one name for all types, groups as
// arguments, launches in one and more dimensions. The ring all-reduce of each type, a shuffle of tokens to experts, and
// every call once; values are small integers, so that every type holds them.
#include "device_test.h"

#include <shmem_device.hpp>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

enum { THREADS = 128, MOST = 500 };

// A type of the program that counts as a float.
struct metres {
    float value;
};
template <> struct shmemd::type<metres> : shmemd::counts_as<float> {
};

namespace one
{
// Values of any type, as numbers: the types of bits have their own conversions.
template <class T> SHMEMD_FN float number(T x) { return (float)x; }
template <class T> SHMEMD_FN void assign(T &x, float f) { x = (T)f; }
SHMEMD_FN float number(shmemd_half_t x) { return shmemd_half_to_float(x); }
SHMEMD_FN float number(shmemd_bfloat16_t x) { return shmemd_bfloat16_to_float(x); }
SHMEMD_FN float number(metres x) { return x.value; }
SHMEMD_FN void assign(shmemd_half_t &x, float f) { x = shmemd_half_from_float(f); }
SHMEMD_FN void assign(shmemd_bfloat16_t &x, float f) { x = shmemd_bfloat16_from_float(f); }
SHMEMD_FN void assign(metres &x, float f) { x.value = f; }

// Values go around the ring, each PE sees all of them: blocks of the grid take slices.
template <class T>
SHMEMD_GLOBAL void ring_pass(shmemd_t h, T *inbox, T *own, size_t n, unsigned long long *signals,
                             unsigned long long *wrong)
{
    const unsigned block = shmemd_block_index(), rank = shmemd::rank(shmemd::block()), size = shmemd_block_size();
    const shmemd_slice s = shmemd_slice_of_block(n);
    const int me = shmemd_my_pe(h), n_pes = shmemd_n_pes(h), right = (me + 1) % n_pes;
    for (size_t i = rank; i < s.count; i += size)
        assign(own[s.first + i], (float)(me + (int)((s.first + i) % 5)));
    shmemd::group_sync(shmemd::block());
    T *const slot = inbox + s.first;
    for (int round = 0; round < n_pes - 1; round++) { // round r lands in row r
        const T *from = round == 0 ? own + s.first : slot + (size_t)(round - 1) * n;
        shmemd::put_signal(h, shmemd::block(), slot + (size_t)round * n, from, s.count, signals + block, 1,
                           SHMEM_SIGNAL_ADD, right);
        shmemd::signal_wait_until(h, shmemd::block(), signals + block, SHMEM_CMP_GE, (uint64_t)round + 1);
    }
    // Row r holds what PE me - 1 - r has begun with.
    for (size_t i = rank; i < s.count; i += size)
        for (int round = 0; round < n_pes - 1; round++) {
            const int from = (me + n_pes - 1 - round) % n_pes;
            if (number(slot[(size_t)round * n + i]) != (float)(from + (int)((s.first + i) % 5)))
                shmemd::atomic_add(h, wrong, 1, me);
        }
}

namespace two
{
// Each call once, of a type that moves and sums.
template <class T> SHMEMD_GLOBAL void each_call(shmemd_t h, T *area, T *result, size_t n, int *wrong, int scale)
{
    const int me = shmemd_my_pe(h), n_pes = shmemd_n_pes(h), right = (me + 1) % n_pes, left = (me + n_pes - 1) % n_pes;
    const unsigned rank = shmemd_thread_index();
    int bad = 0;
    T *own = area, *in = area + MOST, *all = area + 2 * MOST;
    for (size_t i = rank; i < n; i += shmemd_block_size())
        assign(own[i], (float)(me * scale + (int)(i % 3)));
    if (shmemd_thread_index() == 0) {
        bad += shmemd::barrier(h, shmemd::thread());
        bad += shmemd::sync(h, shmemd::thread());
    }
    shmemd::group_sync(shmemd::block());
    bad += shmemd::barrier(h, shmemd::block());
    shmemd::put(h, shmemd::block(), in, own, n, right);
    bad += shmemd::barrier(h, shmemd::block());
    for (size_t i = rank; i < n; i += shmemd_block_size())
        bad += number(in[i]) != (float)(left * scale + (int)(i % 3));
    bad += shmemd::sync(h, shmemd::block());
    shmemd::get(h, shmemd::wave(), result, own, n, left); // each wave the whole of it
    bad += number(result[n - 1]) != (float)(left * scale + (int)((n - 1) % 3));
    shmemd::group_sync(shmemd::block());
    if (rank == 0) {
        shmemd::p(h, in, own[1], right);
        shmemd::fence(h);
        bad += number(shmemd::g(h, own + 2, left)) != (float)(left * scale + 2);
        shmemd::put_nbi(h, in + 1, own, 2, right);
        shmemd::iput(h, in + 8, own, 2, 1, 4, right);
        shmemd::get_nbi(h, result, own, 1, right);
        shmemd::quiet(h);
        bad += number(result[0]) != (float)(right * scale);
    }
    bad += shmemd::barrier(h, shmemd::block());
    bad += number(in[0]) != (float)(left * scale + 1) || number(in[2]) != (float)(left * scale + 1);
    bad += number(in[10]) != (float)(left * scale + 1) || number(in[14]) != (float)(left * scale);
    bad += shmemd::fcollect(h, shmemd::block(), all, own, 4);
    for (int pe = 0; pe < n_pes; pe++)
        bad += number(all[4 * pe + 1]) != (float)(pe * scale + 1);
    bad += shmemd::alltoall(h, shmemd::block(), in, all, 4);
    bad += number(in[4 * left + 1]) != (float)(me * scale + 1);
    bad += shmemd::broadcast(h, shmemd::block(), all, own, n, n_pes - 1);
    bad += number(all[n - 1]) != (float)((n_pes - 1) * scale + (int)((n - 1) % 3));
    bad += shmemd::permute(h, shmemd::block(), all, own, n, right, left);
    bad += number(all[0]) != (float)(left * scale);
    shmemd::group_sync(shmemd::block());
    SHMEMD_SHARED(size_t, numbers, 2 * 64); // two elements for each PE
    for (int pe = (int)rank; pe < n_pes; pe += (int)shmemd_block_size()) {
        numbers[pe] = 2;
        numbers[64 + pe] = 2 * (size_t)pe;
    }
    shmemd::group_sync(shmemd::block());
    bad += shmemd::alltoallv(h, shmemd::grid(), all, numbers, numbers + 64, own, numbers, numbers + 64);
    bad += number(all[2 * left + 1]) != (float)(left * scale + (2 * me + 1) % 3);
    shmemd::atomic_add(h, wrong, bad, me);
}
template <class T> SHMEMD_GLOBAL void sums(shmemd_t h, T *area, size_t n, int *wrong)
{
    const int me = shmemd_my_pe(h), n_pes = shmemd_n_pes(h);
    int bad = 0;
    for (size_t i = shmemd_thread_index(); i < n * (size_t)n_pes; i += shmemd_block_size())
        assign(area[i], (float)(me + 1));
    bad += shmemd::sum_reduce(h, shmemd::block(), area + n * n_pes, area, n);
    bad += number(area[n * n_pes]) != (float)(n_pes * (n_pes + 1) / 2);
    bad += shmemd::max_reduce(h, shmemd::grid(), area + n * n_pes, area, n);
    bad += number(area[n * n_pes]) != (float)n_pes;
    bad += shmemd::sum_reducescatter(h, shmemd::block(), area + n * n_pes, area, n);
    bad += number(area[n * n_pes + n - 1]) != (float)(n_pes * (n_pes + 1) / 2);
    shmemd::atomic_add(h, wrong, bad, me);
}
} // namespace two

// Atomics, waits and tests of a type that has them.
template <class T> SHMEMD_GLOBAL void counts(shmemd_t h, T *words, int *wrong)
{
    const int me = shmemd_my_pe(h), right = (me + 1) % shmemd_n_pes(h);
    int bad = 0;
    if (shmemd_thread_index() == 0) {
        shmemd::atomic_set(h, words, 5, right);
        shmemd::wait_until(h, words, SHMEM_CMP_EQ, 5);
        bad += shmemd::atomic_fetch_add(h, words + 1, 2, me) != 0;
        shmemd::atomic_inc(h, words + 1, me);
        bad += shmemd::atomic_compare_swap(h, words + 1, 3, 9, me) != 3;
        bad += shmemd::atomic_fetch(h, words + 1, me) != 9;
        bad += shmemd::atomic_swap(h, words + 1, 1, me) != 9;
        bad += shmemd::atomic_fetch_inc(h, words + 1, me) != 1;
        bad += !shmemd::test(h, words + 1, SHMEM_CMP_GT, 1);
        bad += shmemd::wait_until_for(h, words + 1, SHMEM_CMP_LT, 0, 1000) != 0;
        shmemd::flush(h);
        shmemd::pe_fence(h, right);
        shmemd::wait_until_all(h, words, 2, nullptr, SHMEM_CMP_GE, 2);
        bad += shmemd::wait_until_any(h, words, 2, nullptr, SHMEM_CMP_EQ, 2) != 1;
        const T wanted[2] = {5, 2};
        bad += !shmemd::test_all_vector(h, words, 2, nullptr, SHMEM_CMP_EQ, wanted);
        size_t which[2];
        bad += shmemd::wait_until_some(h, words, 2, which, nullptr, SHMEM_CMP_EQ, 5) != 1 || which[0] != 0;
        bad += shmemd::local_swap(words + 2, 4, SHMEMD_RELAXED, SHMEMD_SCOPE_DEVICE) != 0;
        bad += shmemd::local_load(words + 2, SHMEMD_RELAXED, SHMEMD_SCOPE_DEVICE) != 4;
    }
    shmemd::group_sync(shmemd::block());
    shmemd::wait_until(h, shmemd::block(), words, SHMEM_CMP_NE, 0);
    bad += shmemd::wait_until_for(h, shmemd::block(), words, SHMEM_CMP_NE, 0, 1000) != 1;
    const unsigned lane = shmemd::rank(shmemd::wave()), lanes = shmemd::size(shmemd::wave());
    bad += shmemd::shuffle_xor((T)lane, 1) != (T)(lane ^ 1);
    bad += shmemd::shuffle_up((T)lane, 2) != (T)(lane < 2 ? lane : lane - 2);
    bad += shmemd::shuffle_down((T)lane, 2) != (T)(lane + 2 < lanes ? lane + 2 : lane);
    bad += shmemd::ballot(lane == 3) != 8;
    bad += !shmemd::any(shmemd::block(), shmemd_thread_index() == 7) || shmemd::all(shmemd::wave(), lane != 1);
    shmemd::atomic_add(h, wrong, bad, me);
}
template <class T> SHMEMD_GLOBAL void bits(shmemd_t h, T *words, int *wrong)
{
    const int me = shmemd_my_pe(h);
    int bad = 0;
    if (shmemd_thread_index() == 0) {
        shmemd::atomic_or(h, words, 12, me);
        bad += shmemd::atomic_fetch_and(h, words, 6, me) != 12;
        bad += shmemd::atomic_fetch_xor(h, words, 5, me) != 4;
        bad += shmemd::atomic_fetch_or(h, words, 0, me) != 1;
        words[1] = (T)(1 + me);
    }
    bad += shmemd::or_reduce(h, shmemd::block(), words + 2, words + 1, 1);
    T all = 0;
    for (int pe = 0; pe < shmemd_n_pes(h); pe++)
        all = (T)(all | (T)(1 + pe));
    bad += words[2] != all;
    shmemd::atomic_add(h, wrong, bad, me);
}

// Types that only move.
template <class T> SHMEMD_GLOBAL void moves(shmemd_t h, T *area, size_t n)
{
    shmemd::put(h, shmemd::block(), area + n, area, n, (shmemd_my_pe(h) + 1) % shmemd_n_pes(h));
}
} // namespace one

struct bench {
    shmemd_t h;
    char *area;
    int *wrong;
    unsigned long long *signals;
};

static void finish(const struct bench *b, const char *what)
{
    int wrong = -1;
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    device_read(&wrong, b->wrong, sizeof wrong);
    if (!CHECK_EQ(wrong, 0))
        printf("typed_kernels: %s\n", what);
    shmem_barrier_all();
}

template <class T> static void test_type(const struct bench *b, const char *what)
{
    T *area = (T *)b->area;
    unsigned long long zero[8] = {0};
    device_write(b->signals, zero, sizeof zero);
    shmem_barrier_all();
    const shmemd::dim grid(2, 2);
    CHECK_EQ(shmemd::launch(one::ring_pass<T>, grid, shmemd::dim(32, 4), 0, NULL, b->h, area + MOST, area, MOST,
                            b->signals, b->signals + 4),
             0);
    unsigned long long wrong = 1;
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    device_read(&wrong, b->signals + 4, sizeof wrong);
    CHECK_EQ(wrong, 0);
    shmem_barrier_all();
    CHECK_EQ(shmemd::launch(one::two::each_call<T>, 1, THREADS, 0, NULL, b->h, area, area + 4 * MOST, 100, b->wrong, 3),
             0);
    finish(b, what);
    CHECK_EQ(shmemd::launch_cooperative(one::two::sums<T>, 1, THREADS, 0, NULL, b->h, area, 10, b->wrong), 0);
    finish(b, what);
}
template <class T> static void test_words(const struct bench *b, const char *what)
{
    const T zero[4] = {0};
    device_write(b->area, zero, sizeof zero);
    shmem_barrier_all();
    CHECK_EQ(shmemd::launch(one::counts<T>, 1, THREADS, 0, NULL, b->h, (T *)b->area, b->wrong), 0);
    finish(b, what);
}
template <class T> static void test_bits(const struct bench *b, const char *what)
{
    const T zero[4] = {0};
    device_write(b->area, zero, sizeof zero);
    shmem_barrier_all();
    CHECK_EQ(shmemd::launch(one::bits<T>, 1, THREADS, 0, NULL, b->h, (T *)b->area, b->wrong), 0);
    finish(b, what);
}
template <class T> static void test_moves(const struct bench *b)
{
    unsigned char seen[2 * 64], sent[2 * 64];
    const size_t bytes = 32 * sizeof(T);
    memset(sent, shmem_my_pe() + 1, sizeof sent);
    device_write(b->area, sent, bytes);
    shmem_barrier_all();
    CHECK_EQ(shmemd::launch(one::moves<T>, 1, 64, 0, NULL, b->h, (T *)b->area, 32), 0);
    CHECK_EQ(shmemx_stream_synchronize(NULL), 0);
    shmem_barrier_all();
    device_read(seen, b->area + bytes, bytes);
    CHECK_EQ(seen[bytes - 1], (shmem_my_pe() + shmem_n_pes() - 1) % shmem_n_pes() + 1);
    shmem_barrier_all();
}

static int test_main(void)
{
    DEVICE_INIT();
    struct bench b;
    CHECK_OR_EXIT(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &b.h) == 0);
    b.area = (char *)shmemx_calloc((size_t)(shmem_n_pes() + 5) * MOST, 16, SHMEMX_DEVICE);
    b.wrong = (int *)shmemx_calloc(1, sizeof(int), SHMEMX_DEVICE);
    b.signals = (unsigned long long *)shmemx_calloc(8, 8, SHMEMX_DEVICE);
    CHECK_OR_EXIT(b.area != NULL && b.wrong != NULL && b.signals != NULL);
    test_type<float>(&b, "float");
    test_type<double>(&b, "double");
    test_type<signed char>(&b, "signed char");
    test_type<unsigned long long>(&b, "unsigned long long");
    test_type<shmemd_half_t>(&b, "shmemd_half_t");
    test_type<shmemd_bfloat16_t>(&b, "shmemd_bfloat16_t");
    test_type<metres>(&b, "metres");
#ifdef __CUDACC__
    test_type<__half>(&b, "__half");
    test_type<__nv_bfloat16>(&b, "__nv_bfloat16");
    test_moves<__nv_fp8_e4m3>(&b);
#endif
    test_words<int>(&b, "int");
    test_words<unsigned>(&b, "unsigned");
    test_words<long long>(&b, "long long");
    test_words<unsigned long long>(&b, "unsigned long long");
    test_words<size_t>(&b, "size_t");
    test_bits<uint32_t>(&b, "uint32_t");
    test_bits<int64_t>(&b, "int64_t");
    test_bits<unsigned long long>(&b, "unsigned long long");
    test_moves<bool>(&b);
    shmemx_free(b.signals);
    shmemx_free(b.wrong);
    shmemx_free(b.area);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
