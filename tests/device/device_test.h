/* SPDX-License-Identifier: MIT */
/* What every program of this folder is written with, besides ../check.h: start with a device or skip, areas of
 * symmetric memory with an image of what they must hold, teams with their handles, launches, and units: the threads,
 * waves or blocks that each make one call of a kernel.
 * A program is one .c in the common subset of C11, C++17, HIP and CUDA. Kernels check nothing: they leave what they saw
 * in device memory and the host compares. No mutable static state: PEs may be threads of one process.
 * Environment: SHMEM_TEST_FULL=1 the whole product instead of a selection; SHMEM_TEST_CASES at most that many cases of
 * a selection; SHMEM_TEST_ROUNDS rounds of each litmus test. */
#ifndef DEVICE_TESTS_H
#define DEVICE_TESTS_H

#include "../check.h"

#include <shmem_device.h>

/* ---- start ---- */

/* At the begin of test_main. Without a device on every PE the program is skipped. */
#define DEVICE_INIT()                                         \
    CHECK_INIT();                                             \
    if (shmemx_device_init() != 0) {                          \
        shmem_finalize();                                     \
        return CHECK_SKIP("there is no device for every PE"); \
    }

static inline long device_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text != NULL && *text != 0 ? strtol(text, NULL, 0) : otherwise;
}
static inline bool device_flag(const char *variable) { return device_number(variable, 0) != 0; }

/* ---- errors of kernels ---- */

enum { DEVICE_PATIENCE_S = 60 };

/* The oldest on the list; false: none came in time. */
static inline bool device_next_error(shmemx_device_error_t *error)
{
    time_t end = time(NULL) + DEVICE_PATIENCE_S;
    while (shmemx_device_error(error) == 0) {
        if (time(NULL) > end)
            return false;
        usleep(1000);
    }
    return true;
}

/* ---- host and device memory ---- */

/* Both for any memory of this PE's: host calls take device addresses. */
static inline void device_write(void *dest, const void *source, size_t bytes)
{
    if (bytes != 0)
        shmem_putmem(dest, source, bytes, shmem_my_pe());
    shmem_quiet();
}
static inline void device_read(void *dest, const void *source, size_t bytes)
{
    if (bytes != 0)
        shmem_getmem(dest, source, bytes, shmem_my_pe());
}

/* A symmetric object and what it must hold here: whatever nobody may write stays poison and guards the rest. */
enum { AREA_MARGIN = 128 }; /* poison in front of and behind what a case uses */
struct area {
    char *base; /* symmetric, aligned to 128 */
    unsigned char *image;
    unsigned char *seen;
    size_t room; /* bytes of all three, margins included */
    size_t used; /* of the case at hand, margins included */
};

static inline char *area_data(const struct area *a) { return a->base + AREA_MARGIN; }

/* Collective. kind: SHMEMX_HOST, SHMEMX_DEVICE. */
static inline void area_make(struct area *a, size_t bytes, int kind)
{
    a->room = a->used = bytes + 2 * AREA_MARGIN;
    a->base = (char *)shmemx_align(128, a->room, kind);
    a->image = (unsigned char *)malloc(a->room);
    a->seen = (unsigned char *)malloc(a->room);
    CHECK_OR_EXIT(a->base != NULL && a->image != NULL && a->seen != NULL);
}
static inline void area_drop(struct area *a)
{
    free(a->image);
    free(a->seen);
    shmemx_free(a->base);
}

static inline void area_upload(struct area *a) { device_write(a->base, a->image, a->used); }

/* Poison, for a case that uses `bytes`. */
static inline void area_poison(struct area *a, size_t bytes)
{
    a->used = bytes + 2 * AREA_MARGIN;
    CHECK_OR_EXIT(a->used <= a->room);
    memset(a->image, CHECK_POISON, a->used);
    area_upload(a);
}
/* What PE `from` has in it in round `round`: check_byte(from, from, round, i). */
static inline void area_fill(struct area *a, size_t bytes, int from, unsigned round)
{
    a->used = bytes + 2 * AREA_MARGIN;
    CHECK_OR_EXIT(a->used <= a->room);
    memset(a->image, CHECK_POISON, a->used);
    check_fill(a->image + AREA_MARGIN, bytes, from, from, round);
    area_upload(a);
}
/* From here on these bytes are expected. */
static inline void area_expect(struct area *a, size_t offset, const void *bytes, size_t len)
{
    CHECK_OR_EXIT(offset + len <= a->used - 2 * AREA_MARGIN);
    if (len != 0)
        memcpy(a->image + AREA_MARGIN + offset, bytes, len);
}
static inline void area_fetch(struct area *a) { device_read(a->seen, a->base, a->used); }
static inline bool area_check(struct area *a, const char *what)
{
    area_fetch(a);
    return CHECK_BYTES_NAMED(a->seen, a->image, a->used, what);
}

/* ---- teams and handles ---- */

struct device_team {
    shmem_team_t team;
    int me, n;
    int slot;
    shmemd_t handle;
};

static inline void device_team_open(struct device_team *t, shmem_team_t team, int slot)
{
    t->team = team;
    t->slot = slot;
    t->me = shmem_team_my_pe(team);
    t->n = shmem_team_n_pes(team);
    CHECK_OR_EXIT(shmemx_device_handle(team, slot, &t->handle) == 0);
}
/* Of the PEs with this PE's parity. Collective over the world. */
static inline shmem_team_t device_team_of_parity(void)
{
    shmem_team_t even = SHMEM_TEAM_INVALID, odd = SHMEM_TEAM_INVALID;
    int n = shmem_n_pes();
    shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 2, (n + 1) / 2, NULL, 0, &even);
    if (n > 1)
        shmem_team_split_strided(SHMEM_TEAM_WORLD, 1, 2, n / 2, NULL, 0, &odd);
    return shmem_my_pe() % 2 == 0 ? even : odd;
}
static inline int device_world_pe(const struct device_team *t, int pe)
{
    return shmem_team_translate_pe(t->team, pe, SHMEM_TEAM_WORLD);
}

/* ---- launches ---- */

/* Enqueues; the host waits by shmemx_stream_synchronize. */
static inline void device_launch(shmemx_kernel_t kernel, unsigned blocks, unsigned threads, const void *args,
                                 size_t args_bytes, shmemx_stream_t stream)
{
    CHECK_OR_EXIT(shmemx_launch(kernel, blocks, threads, 0, args, args_bytes, stream) == 0);
}
static inline void device_run(shmemx_kernel_t kernel, unsigned blocks, unsigned threads, const void *args,
                              size_t args_bytes)
{
    device_launch(kernel, blocks, threads, args, args_bytes, NULL);
    CHECK_OR_EXIT(shmemx_stream_synchronize(NULL) == 0);
}
/* DEVICE_RUN(put_int, 2, 64, args): args is the kernel's struct. */
#define DEVICE_RUN(kernel, blocks, threads, args) \
    device_run(SHMEMX_KERNEL(kernel), blocks, threads, &(args), sizeof(args))
#define DEVICE_LAUNCH(kernel, blocks, threads, args, stream) \
    device_launch(SHMEMX_KERNEL(kernel), blocks, threads, &(args), sizeof(args), stream)

/* ---- in kernels: units ---- */

enum form { FORM_THREAD, FORM_WAVE, FORM_BLOCK, FORM_COUNT };
#define FORM_NAMES "thread", "wave", "block"

SHMEMD_FN shmemd_group_t form_group(int form)
{
    return form == FORM_THREAD ? shmemd_thread() : form == FORM_WAVE ? shmemd_wave() : shmemd_block();
}
/* The call of that name which a thread, a wave or a block makes. */
#define BY_FORM(form, NAME, ...)                               \
    ((form) == FORM_THREAD ? shmemd_##NAME(__VA_ARGS__)        \
     : (form) == FORM_WAVE ? shmemd_##NAME##_wave(__VA_ARGS__) \
                           : shmemd_##NAME##_block(__VA_ARGS__))
/* The number of the calling unit in the grid, all threads of the unit get the same. */
SHMEMD_FN int32_t form_unit(int form)
{
    uint32_t thread = (uint32_t)shmemd_block_index() * (uint32_t)shmemd_block_size() + (uint32_t)shmemd_thread_index();
    uint32_t wave = (uint32_t)shmemd_group_size(shmemd_wave());
    return (int32_t)(form == FORM_THREAD ? thread : form == FORM_WAVE ? thread / wave : (uint32_t)shmemd_block_index());
}

/* About as many nanoseconds as a poll takes, `turns` times: puts PEs, blocks and threads out of step. */
SHMEMD_FN void form_dawdle(uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++)
        prim_pause();
}
/* A number that looks random: in kernels, and on the host. */
#define DEVICE_MIX(a, b)                            \
    uint32_t x = (a)*0x9e3779b1u ^ (b)*0x85ebca6bu; \
    x = (x ^ x >> 15) * 0x2c1b3c6du;                \
    return x ^ x >> 13;
SHMEMD_FN uint32_t form_mix(uint32_t a, uint32_t b) { DEVICE_MIX(a, b) }
static inline uint32_t device_mix(uint32_t a, uint32_t b) { DEVICE_MIX(a, b) }

#endif
