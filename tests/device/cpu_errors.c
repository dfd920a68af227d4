/* SPDX-License-Identifier: MIT */
/* Wrong uses that the CPU device alone notices, one a run, see wrong_use.h; cpu_errors.sh knows what each must say. */
#include "wrong_use.h"

enum { THREADS = 64 };

static uint64_t *word; /* symmetric, 0 */

struct poll_args {
    shmemd_t h;
    uint64_t *word;
    int32_t way;
};

enum { POLL_TEST, POLL_TWO_WORDS, POLL_LOCK, POLL_PAUSE };

/* For ever, as far as this PE's kernels are concerned. */
SHMEMD_KERNEL(poll_in_vain, struct poll_args, a)
{
    if (shmemd_thread_index() != 3)
        return;
    if (a.way == POLL_TEST)
        while (!shmemd_uint64_test(a.h, a.word, SHMEM_CMP_EQ, 1)) {
        }
    if (a.way == POLL_TWO_WORDS)
        while (shmemd_signal_fetch(a.h, a.word) != 1 && shmemd_signal_fetch(a.h, a.word + 1) != 1) {
        }
    if (a.way == POLL_LOCK)
        while (shmemd_uint64_atomic_compare_swap(a.h, a.word, 1, 1, shmemd_my_pe(a.h)) != 1) {
        }
    if (a.way == POLL_PAUSE)
        while (prim_load_relaxed_u64(a.word) != 1)
            shmemd_pause();
}

/* With SHMEM_TIMEOUT of less than it takes. */
static int poll_by(int way)
{
    struct poll_args a;
    memset(&a, 0, sizeof(a));
    a.word = word;
    a.way = way;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0)
        return 0;
    DEVICE_LAUNCH(poll_in_vain, 2, THREADS, a, NULL);
    usleep(1500000); /* the machine may be busy */
    shmem_uint64_atomic_set(word, 1, shmem_my_pe());
    return shmemx_stream_synchronize(NULL) == 0;
}
static int poll_test(void) { return poll_by(POLL_TEST); }
static int poll_two_words(void) { return poll_by(POLL_TWO_WORDS); }
static int poll_lock(void) { return poll_by(POLL_LOCK); }
static int poll_pause(void) { return poll_by(POLL_PAUSE); }
static int make_objects(void);
static int poll_abort(void)
{
    setenv("SHMEM_TIMEOUT", "0.2", 1);
    setenv("SHMEM_TIMEOUT_ABORT", "1", 1);
    shmem_init();
    if (shmemx_device_init() != 0 || make_objects() != 0)
        return 0;
    poll_by(POLL_TEST);
    return 0;
}

struct lane_args {
    shmemd_t h;
    uint64_t *word;
};

/* Block 0 of PE 0 waits in its barrier for PE 1, which comes when block 1 of PE 0 is on its way to the same lane. */
SHMEMD_KERNEL(meet_twice, struct lane_args, a)
{
    if (shmemd_my_pe(a.h) == 1)
        shmemd_uint64_wait_until_block(a.h, a.word, SHMEM_CMP_EQ, 1);
    else if (shmemd_block_index() == 1 && shmemd_thread_index() == 0)
        shmemd_uint64_p(a.h, a.word, 1, 1);
    (void)shmemd_barrier_block(shmemd_lane(a.h, 0));
}
static int lane_twice(void)
{
    struct lane_args a;
    shmemx_device_error_t error;
    memset(&a, 0, sizeof(a));
    a.word = word;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0)
        return 0;
    DEVICE_LAUNCH(meet_twice, shmem_my_pe() == 0 ? 2 : 1, THREADS, a, NULL);
    (void)shmemx_stream_synchronize(NULL); /* it says so too */
    if (shmem_my_pe() != 0)
        return 1;
    for (int i = 0; i < 10000 && shmemx_device_error(&error) == 0; i++)
        usleep(1000);
    return error.gave_up == 2;
}

/* A PE number that the team has not, by thread 3 of block 1; of groups by all. */
struct pe_args {
    shmemd_t h;
    uint64_t *word;
    int32_t call, pe;
};

enum {
    PE_PUT_BLOCK,
    PE_GET,
    PE_P,
    PE_G,
    PE_IPUT,
    PE_PUT_SIGNAL,
    PE_SIGNAL_OP,
    PE_PACKET,
    PE_ATOMIC_ADD,
    PE_ATOMIC_SWAP,
    PE_COMPARE_SWAP,
    PE_PTR,
    PE_QUIET
};

SHMEMD_KERNEL(name_wrong_pe, struct pe_args, a)
{
    uint64_t value = 1;
    if (shmemd_block_index() != 1)
        return;
    if (a.call == PE_PUT_BLOCK)
        shmemd_putmem_block(a.h, a.word, &value, 8, a.pe);
    if (shmemd_thread_index() != 3)
        return;
    if (a.call == PE_GET)
        shmemd_uint64_get(a.h, &value, a.word, 1, a.pe);
    if (a.call == PE_P)
        shmemd_uint64_p(a.h, a.word, 1, a.pe);
    if (a.call == PE_G)
        (void)shmemd_uint64_g(a.h, a.word, a.pe);
    if (a.call == PE_IPUT)
        shmemd_iput64(a.h, a.word, &value, 1, 1, 1, a.pe);
    if (a.call == PE_PUT_SIGNAL)
        shmemd_putmem_signal_nbi(a.h, a.word, &value, 8, a.word + 1, 1, SHMEM_SIGNAL_SET, a.pe);
    if (a.call == PE_SIGNAL_OP)
        shmemd_signal_op(a.h, a.word, 1, SHMEM_SIGNAL_SET, a.pe);
    if (a.call == PE_PACKET)
        shmemd_put_packet(a.h, a.word, &value, 8, 1, a.pe);
    if (a.call == PE_ATOMIC_ADD)
        shmemd_uint64_atomic_add(a.h, a.word, 1, a.pe);
    if (a.call == PE_ATOMIC_SWAP)
        (void)shmemd_uint64_atomic_swap(a.h, a.word, 1, a.pe);
    if (a.call == PE_COMPARE_SWAP)
        (void)shmemd_uint64_atomic_compare_swap(a.h, a.word, 0, 1, a.pe);
    if (a.call == PE_PTR)
        *a.word = shmemd_ptr(a.h, a.word, a.pe) != NULL;
    if (a.call == PE_QUIET)
        shmemd_pe_quiet(a.h, &a.pe, 1);
}

static int run_wrong(shmemx_kernel_t kernel, int call, int pe)
{
    struct pe_args a;
    memset(&a, 0, sizeof(a));
    a.word = word;
    a.call = call;
    a.pe = pe;
    if (shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) != 0 ||
        shmemx_launch(kernel, 2, THREADS, 0, &a, sizeof(a), NULL) != 0)
        return 0;
    return shmemx_stream_synchronize(NULL) == 0 ? 0 : 1;
}
static int name_pe(int call, int pe) { return run_wrong(SHMEMX_KERNEL(name_wrong_pe), call, pe); }
static int pe_put_block(void) { return name_pe(PE_PUT_BLOCK, shmem_n_pes()); }
static int pe_get(void) { return name_pe(PE_GET, -1); }
static int pe_p(void) { return name_pe(PE_P, 1 << 30); }
static int pe_g(void) { return name_pe(PE_G, shmem_n_pes()); }
static int pe_iput(void) { return name_pe(PE_IPUT, -1); }
static int pe_put_signal(void) { return name_pe(PE_PUT_SIGNAL, 7); }
static int pe_signal_op(void) { return name_pe(PE_SIGNAL_OP, 7); }
static int pe_packet(void) { return name_pe(PE_PACKET, 7); }
static int pe_atomic_add(void) { return name_pe(PE_ATOMIC_ADD, 7); }
static int pe_atomic_swap(void) { return name_pe(PE_ATOMIC_SWAP, 7); }
static int pe_compare_swap(void) { return name_pe(PE_COMPARE_SWAP, 7); }
static int pe_ptr(void) { return name_pe(PE_PTR, -1); }
static int pe_quiet(void) { return name_pe(PE_QUIET, 7); }

/* Other arguments that no call takes, by the same thread. */
enum {
    ARG_NULL_SOURCE,
    ARG_NULL_WORD,
    ARG_NULL_REDUCED,
    ARG_ODD_P,
    ARG_ODD_ATOMIC,
    ARG_ODD_SIGNAL,
    ARG_ODD_AREA,
    ARG_CMP,
    ARG_CMP_OF_SET,
    ARG_SIGNAL_OP,
    ARG_NUMBER,
    ARG_NUMBER_REDUCED,
    ARG_STRIDE,
    ARG_EPOCH
};

SHMEMD_KERNEL(give_wrong_argument, struct pe_args, a)
{
    uint64_t *odd = (uint64_t *)(void *)((char *)a.word + 4), *none = NULL;
    if (shmemd_block_index() != 1)
        return;
    if (a.call == ARG_NULL_REDUCED)
        (void)shmemd_uint64_sum_reduce_block(a.h, none, a.word, 1);
    if (a.call == ARG_NUMBER_REDUCED)
        (void)shmemd_uint64_sum_reduce_block(a.h, a.word, a.word, (size_t)-1);
    if (shmemd_thread_index() != 3)
        return;
    if (a.call == ARG_NULL_SOURCE)
        shmemd_putmem_nbi(a.h, a.word, none, 8, a.pe);
    if (a.call == ARG_NULL_WORD)
        shmemd_uint64_wait_until(a.h, none, SHMEM_CMP_EQ, 0);
    if (a.call == ARG_ODD_P)
        shmemd_uint64_p(a.h, odd, 1, a.pe);
    if (a.call == ARG_ODD_ATOMIC)
        (void)shmemd_uint64_atomic_fetch_add(a.h, odd, 1, a.pe);
    if (a.call == ARG_ODD_SIGNAL)
        shmemd_putmem_signal(a.h, a.word, a.word + 1, 0, odd, 1, SHMEM_SIGNAL_SET, a.pe);
    if (a.call == ARG_ODD_AREA)
        (void)shmemd_get_packet(a.h, a.word, odd, 8, 1);
    if (a.call == ARG_CMP)
        (void)shmemd_signal_wait_until(a.h, a.word, 7, 1);
    if (a.call == ARG_CMP_OF_SET)
        (void)shmemd_uint64_wait_until_any(a.h, a.word, 2, NULL, 0, 1);
    if (a.call == ARG_SIGNAL_OP)
        shmemd_signal_op(a.h, a.word, 1, 3, a.pe);
    if (a.call == ARG_NUMBER)
        shmemd_uint64_put(a.h, a.word, a.word, (size_t)-1, a.pe);
    if (a.call == ARG_STRIDE)
        shmemd_uint64_iput(a.h, a.word, a.word + 1, 1, 0, 1, a.pe);
    if (a.call == ARG_EPOCH)
        shmemd_put_packet(a.h, a.word, a.word, 8, 0, a.pe);
}
static int give(int call) { return run_wrong(SHMEMX_KERNEL(give_wrong_argument), call, 0); }
static int null_source(void) { return give(ARG_NULL_SOURCE); }
static int null_word(void) { return give(ARG_NULL_WORD); }
static int null_reduced(void) { return give(ARG_NULL_REDUCED); }
static int odd_p(void) { return give(ARG_ODD_P); }
static int odd_atomic(void) { return give(ARG_ODD_ATOMIC); }
static int odd_signal(void) { return give(ARG_ODD_SIGNAL); }
static int odd_area(void) { return give(ARG_ODD_AREA); }
static int wrong_cmp(void) { return give(ARG_CMP); }
static int wrong_cmp_of_set(void) { return give(ARG_CMP_OF_SET); }
static int wrong_signal_op(void) { return give(ARG_SIGNAL_OP); }
static int wrong_number(void) { return give(ARG_NUMBER); }
static int wrong_number_reduced(void) { return give(ARG_NUMBER_REDUCED); }
static int wrong_stride(void) { return give(ARG_STRIDE); }
static int wrong_epoch(void) { return give(ARG_EPOCH); }

/* Memory that is not there, by thread 3 of block 1: the program ends by a signal. */
enum { FAULT_BEYOND, FAULT_LOAD, FAULT_NO_ADDRESS, FAULT_STACK };

static int fill_stack(volatile char *above, int depth)
{
    volatile char room[2000];
    room[0] = (char)(above[0] + 1);
    return depth == 0 ? room[0] : fill_stack(room, depth - 1) + room[0];
}

SHMEMD_KERNEL(touch_nothing, struct pe_args, a)
{
    const volatile uint64_t *pages = (const uint64_t *)(uintptr_t)(a.call == FAULT_LOAD ? 64 : 0x7777777777777770);
    volatile char first[1] = {0};
    if (shmemd_block_index() != 1 || shmemd_thread_index() != 3)
        return;
    if (a.call == FAULT_BEYOND)
        shmemd_uint64_p(a.h, a.word + (1 << 25), 1, a.pe);
    else
        a.word[0] = a.call == FAULT_STACK ? (uint64_t)fill_stack(first, 1000) : pages[0];
}
static int touch(int call) { return run_wrong(SHMEMX_KERNEL(touch_nothing), call, 0); }
/* By the copy engine: a source behind all objects. */
static int fault_copy(void)
{
    enum { COPIED = 4 << 20 };
    char *dest = (char *)shmemx_malloc(COPIED, SHMEMX_DEVICE);
    if (dest == NULL || shmemx_putmem_on_stream(dest, (char *)word + ((size_t)1 << 28), COPIED, shmem_my_pe(), NULL) != 0)
        return 0;
    return shmemx_stream_synchronize(NULL) == 0;
}
static int fault_beyond(void) { return touch(FAULT_BEYOND); }
static int fault_load(void) { return touch(FAULT_LOAD); }
static int fault_no_address(void) { return touch(FAULT_NO_ADDRESS); }
static int fault_stack(void) { return touch(FAULT_STACK); }

/* The sizes of a kernel's struct and of what is launched with it. */
static int launch_of(size_t bytes)
{
    static struct {
        struct pe_args a;
        char more[8];
    } room;
    return shmemx_launch(SHMEMX_KERNEL(name_wrong_pe), 1, THREADS, 0, &room, bytes, NULL);
}
static int launch_short(void) { return launch_of(sizeof(shmemd_t)); }
static int launch_long(void) { return launch_of(sizeof(struct pe_args) + 8); }

/* X(case, what has been called before, everybody) */
#define CASES(X)                           \
    X(poll_test, WITH_DEVICE, true)        \
    X(poll_two_words, WITH_DEVICE, true)   \
    X(poll_lock, WITH_DEVICE, true)        \
    X(poll_pause, WITH_DEVICE, true)       \
    X(poll_abort, BEFORE_INIT, true)       \
    X(lane_twice, WITH_DEVICE, true)       \
    X(pe_put_block, WITH_DEVICE, true)     \
    X(pe_get, WITH_DEVICE, true)           \
    X(pe_p, WITH_DEVICE, true)             \
    X(pe_g, WITH_DEVICE, true)             \
    X(pe_iput, WITH_DEVICE, true)          \
    X(pe_put_signal, WITH_DEVICE, true)    \
    X(pe_signal_op, WITH_DEVICE, true)     \
    X(pe_packet, WITH_DEVICE, true)        \
    X(pe_atomic_add, WITH_DEVICE, true)    \
    X(pe_atomic_swap, WITH_DEVICE, true)   \
    X(pe_compare_swap, WITH_DEVICE, true)  \
    X(pe_ptr, WITH_DEVICE, true)           \
    X(pe_quiet, WITH_DEVICE, true)         \
    X(null_source, WITH_DEVICE, true)      \
    X(null_word, WITH_DEVICE, true)        \
    X(null_reduced, WITH_DEVICE, true)     \
    X(odd_p, WITH_DEVICE, true)            \
    X(odd_atomic, WITH_DEVICE, true)       \
    X(odd_signal, WITH_DEVICE, true)       \
    X(odd_area, WITH_DEVICE, true)         \
    X(wrong_cmp, WITH_DEVICE, true)        \
    X(wrong_cmp_of_set, WITH_DEVICE, true) \
    X(wrong_signal_op, WITH_DEVICE, true)  \
    X(wrong_number, WITH_DEVICE, true)     \
    X(wrong_number_reduced, WITH_DEVICE, true)     \
    X(wrong_stride, WITH_DEVICE, true)     \
    X(wrong_epoch, WITH_DEVICE, true)      \
    X(fault_beyond, WITH_DEVICE, true)     \
    X(fault_load, WITH_DEVICE, true)       \
    X(fault_no_address, WITH_DEVICE, true) \
    X(fault_stack, WITH_DEVICE, true)      \
    X(fault_copy, WITH_DEVICE, true)       \
    X(launch_short, WITH_DEVICE, false)    \
    X(launch_long, WITH_DEVICE, false)

static const struct wrong cases[] = {CASES(WRONG_ROW){NULL, NULL, 0, false}};

static int make_objects(void)
{
    word = (uint64_t *)shmemx_calloc(2, 8, SHMEMX_DEVICE);
    return word == NULL;
}

int main(int argc, char **argv) { return wrong_main(argc, argv, cases, make_objects); }
