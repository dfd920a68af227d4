/* SPDX-License-Identifier: MIT */
/* Signals: a value that anybody changes by atomics, and sleepers that are woken when it is changed by a call of this
 * library. Kernels and copies may change it by plain stores too (hsa_amd_signal_value_pointer): so nobody sleeps long.
 * Memory of signals is used again, but never given back, since who has changed a value looks for sleepers after the
 * waiting thread may have destroyed the signal. */
#include "hsa_own.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 64, SIGNALS_AT_ONCE = 256 };

struct signal {
    amd_signal_t amd; /* first: what the handle points to, and kernels know */
    _Atomic uint32_t sleepers;
    struct signal *next; /* while it is free */
};

struct handler {
    struct handler *next;
    hsa_signal_t signal;
    hsa_signal_condition_t condition;
    int64_t compare;
    hsa_amd_signal_handler call;
    void *argument;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the two lists, and the thread's start */
static struct signal *free_signals;
static struct handler *handlers, **last_handler = &handlers;
static bool handler_thread_runs;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER; /* the list of handlers */
static _Atomic uint32_t events, events_sleepers;

static struct signal *signal_of(hsa_signal_t handle) { return (struct signal *)(uintptr_t)handle.handle; }

/* ---- sleep ---- */

static void futex_sleep(const void *word, uint32_t while_it_is, uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_it_is, &t, NULL, 0);
}

static void futex_wake(const void *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

uint32_t own_events(void) { return atomic_load(&events); }

void own_events_sleep(uint32_t seen, uint64_t ns)
{
    atomic_fetch_add(&events_sleepers, 1);
    if (atomic_load(&events) == seen)
        futex_sleep(&events, seen, ns);
    atomic_fetch_sub(&events_sleepers, 1);
}

void own_events_happened(void)
{
    atomic_fetch_add(&events, 1);
    if (atomic_load(&events_sleepers) != 0)
        futex_wake(&events);
}

/* The value comes first (its change is sequentially consistent): a sleeper that is not seen here sees the value. */
static void changed(struct signal *s)
{
    if (atomic_load(&s->sleepers) != 0)
        futex_wake((const void *)&s->amd.value);
    own_events_happened();
}

/* ---- wait ---- */

bool own_holds(hsa_signal_condition_t condition, int64_t value, int64_t compare)
{
    switch (condition) {
    case HSA_SIGNAL_CONDITION_EQ:
        return value == compare;
    case HSA_SIGNAL_CONDITION_NE:
        return value != compare;
    case HSA_SIGNAL_CONDITION_LT:
        return value < compare;
    case HSA_SIGNAL_CONDITION_GTE:
        return value >= compare;
    }
    return true;
}

int64_t own_signal_load(hsa_signal_t signal)
{
    return __atomic_load_n(&signal_of(signal)->amd.value, __ATOMIC_SEQ_CST);
}

/* The futex is the value's lower half: a change of the upper one alone is seen after the nap. */
static void sleep_on(struct signal *s, int64_t value, uint64_t ns)
{
    atomic_fetch_add(&s->sleepers, 1);
    if (__atomic_load_n(&s->amd.value, __ATOMIC_SEQ_CST) == value)
        futex_sleep((const void *)&s->amd.value, (uint32_t)value, ns);
    atomic_fetch_sub(&s->sleepers, 1);
}

int64_t own_signal_wait(hsa_signal_t signal, hsa_signal_condition_t condition, int64_t compare, uint64_t ns)
{
    uint64_t start = own_now();
    for (unsigned n = 0;; n++) {
        int64_t value = own_signal_load(signal);
        if (own_holds(condition, value, compare))
            return value;
        uint64_t waited = own_now() - start;
        if (waited >= ns)
            return value;
        if (n < SPINS)
            sched_yield();
        else
            sleep_on(signal_of(signal), value, ns - waited < MS ? ns - waited : MS);
    }
}

hsa_signal_value_t hsa_signal_wait_scacquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                             hsa_signal_value_t compare, uint64_t timeout, hsa_wait_state_t how)
{
    (void)how; /* two processors are too few for busy waiting */
    return own_signal_wait(signal, condition, compare, timeout);
}

hsa_signal_value_t hsa_signal_wait_relaxed(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare, uint64_t timeout, hsa_wait_state_t how)
{
    return hsa_signal_wait_scacquire(signal, condition, compare, timeout, how);
}

hsa_signal_value_t hsa_signal_wait_acquire(hsa_signal_t signal, hsa_signal_condition_t condition,
                                           hsa_signal_value_t compare, uint64_t timeout, hsa_wait_state_t how)
{
    return hsa_signal_wait_scacquire(signal, condition, compare, timeout, how);
}

static bool find_any(uint32_t n, hsa_signal_t *signals, hsa_signal_condition_t *conditions, hsa_signal_value_t *values,
                     hsa_signal_value_t *value, uint32_t *which)
{
    for (*which = 0; *which < n; ++*which) {
        *value = signals[*which].handle != 0 ? own_signal_load(signals[*which]) : 0;
        if (signals[*which].handle != 0 && own_holds(conditions[*which], *value, values[*which]))
            return true;
    }
    return false;
}

uint32_t hsa_amd_signal_wait_any(uint32_t n, hsa_signal_t *signals, hsa_signal_condition_t *conditions,
                                 hsa_signal_value_t *values, uint64_t timeout, hsa_wait_state_t how,
                                 hsa_signal_value_t *satisfying)
{
    uint64_t start = own_now();
    hsa_signal_value_t value = 0;
    (void)how;
    for (uint32_t which, seen = own_events(); !find_any(n, signals, conditions, values, &value, &which);) {
        if (own_now() - start >= timeout)
            return UINT32_MAX;
        own_events_sleep(seen, MS);
        seen = own_events();
    }
    uint32_t which;
    if (!find_any(n, signals, conditions, values, &value, &which))
        return UINT32_MAX;
    if (satisfying != NULL)
        *satisfying = value;
    return which;
}

/* ---- changes: whatever order is asked for, they are sequentially consistent ---- */

#define LOAD(order) \
    hsa_signal_value_t hsa_signal_load_##order(hsa_signal_t signal) { return own_signal_load(signal); }
LOAD(relaxed)
LOAD(acquire)
LOAD(scacquire)

#define STORE(name)                                                               \
    void hsa_signal_##name(hsa_signal_t signal, hsa_signal_value_t value)         \
    {                                                                             \
        __atomic_store_n(&signal_of(signal)->amd.value, value, __ATOMIC_SEQ_CST); \
        changed(signal_of(signal));                                               \
    }
STORE(store_relaxed)
STORE(store_release)
STORE(store_screlease)
STORE(silent_store_relaxed)
STORE(silent_store_screlease)

#define CHANGE(name, order)                                                                  \
    void hsa_signal_##name##_##order(hsa_signal_t signal, hsa_signal_value_t value)          \
    {                                                                                        \
        (void)__atomic_fetch_##name(&signal_of(signal)->amd.value, value, __ATOMIC_SEQ_CST); \
        changed(signal_of(signal));                                                          \
    }
#define EXCHANGE(order)                                                                           \
    hsa_signal_value_t hsa_signal_exchange_##order(hsa_signal_t signal, hsa_signal_value_t value) \
    {                                                                                             \
        value = __atomic_exchange_n(&signal_of(signal)->amd.value, value, __ATOMIC_SEQ_CST);      \
        changed(signal_of(signal));                                                               \
        return value;                                                                             \
    }
#define CAS(order)                                                                                            \
    hsa_signal_value_t hsa_signal_cas_##order(hsa_signal_t signal, hsa_signal_value_t expected,               \
                                              hsa_signal_value_t value)                                       \
    {                                                                                                         \
        __atomic_compare_exchange_n(&signal_of(signal)->amd.value, &expected, value, false, __ATOMIC_SEQ_CST, \
                                    __ATOMIC_SEQ_CST);                                                        \
        changed(signal_of(signal));                                                                           \
        return expected;                                                                                      \
    }
#define __atomic_fetch_subtract __atomic_fetch_sub
#define CHANGES(order) \
    CHANGE(add, order) \
    CHANGE(subtract, order) CHANGE(and, order) CHANGE(or, order) CHANGE(xor, order) EXCHANGE(order) CAS(order)
CHANGES(relaxed)
CHANGES(acquire)
CHANGES(scacquire)
CHANGES(release)
CHANGES(screlease)
CHANGES(acq_rel)
CHANGES(scacq_screl)

void own_signal_subtract(hsa_signal_t signal, int64_t value) { hsa_signal_subtract_screlease(signal, value); }

void own_signal_times(hsa_signal_t signal, uint64_t start, uint64_t end)
{
    signal_of(signal)->amd.start_ts = start;
    signal_of(signal)->amd.end_ts = end;
}

/* ---- life ---- */

static bool get_more(void)
{
    struct signal *more = aligned_alloc(64, SIGNALS_AT_ONCE * sizeof(*more));
    if (more == NULL)
        return false;
    memset(more, 0, SIGNALS_AT_ONCE * sizeof(*more));
    for (int i = 0; i < SIGNALS_AT_ONCE; i++) {
        more[i].next = free_signals;
        free_signals = &more[i];
    }
    return true;
}

hsa_status_t hsa_signal_create(hsa_signal_value_t value, uint32_t n, const hsa_agent_t *consumers, hsa_signal_t *signal)
{
    if (signal == NULL || (n > 0 && consumers == NULL))
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    pthread_mutex_lock(&lock);
    struct signal *s = free_signals != NULL || get_more() ? free_signals : NULL;
    if (s != NULL)
        free_signals = s->next;
    pthread_mutex_unlock(&lock);
    if (s == NULL)
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    memset(&s->amd, 0, sizeof(s->amd)); /* sleepers: who was woken from an earlier use may still be leaving */
    s->amd.kind = AMD_SIGNAL_KIND_USER;
    s->amd.value = value;
    signal->handle = (uintptr_t)s;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_create(hsa_signal_value_t value, uint32_t n, const hsa_agent_t *consumers,
                                   uint64_t attributes, hsa_signal_t *signal)
{
    if ((attributes & HSA_AMD_SIGNAL_IPC) != 0)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT; /* signals of this library are the process's own */
    return hsa_signal_create(value, n, consumers, signal);
}

hsa_status_t hsa_signal_destroy(hsa_signal_t signal)
{
    struct signal *s = signal_of(signal);
    if (s == NULL || s->amd.kind == AMD_SIGNAL_KIND_INVALID)
        return HSA_STATUS_ERROR_INVALID_SIGNAL;
    s->amd.kind = AMD_SIGNAL_KIND_INVALID;
    pthread_mutex_lock(&lock);
    s->next = free_signals;
    free_signals = s;
    pthread_mutex_unlock(&lock);
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_signal_value_pointer(hsa_signal_t signal, volatile hsa_signal_value_t **pointer)
{
    if (signal.handle == 0 || pointer == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *pointer = &signal_of(signal)->amd.value;
    return HSA_STATUS_SUCCESS;
}

/* ---- handlers ---- */

static bool is_ready(const struct handler *h, int64_t *value)
{
    *value = own_signal_load(h->signal);
    return own_holds(h->condition, *value, h->compare);
}

/* Takes the first whose condition holds off the list. Waits while that is empty. */
static struct handler *take_ready(int64_t *value)
{
    pthread_mutex_lock(&lock);
    while (handlers == NULL)
        pthread_cond_wait(&not_empty, &lock);
    struct handler **link = &handlers, *found;
    while ((found = *link) != NULL && !is_ready(found, value))
        link = &found->next;
    if (found != NULL) {
        *link = found->next;
        if (last_handler == &found->next)
            last_handler = link;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static void append(struct handler *h)
{
    pthread_mutex_lock(&lock);
    h->next = NULL;
    *last_handler = h;
    last_handler = &h->next;
    pthread_cond_signal(&not_empty);
    pthread_mutex_unlock(&lock);
}

static void *call_handlers(void *unused)
{
    (void)unused;
    for (;;) {
        uint32_t seen = own_events();
        int64_t value = 0;
        struct handler *h = take_ready(&value);
        if (h == NULL)
            own_events_sleep(seen, MS);
        else if (h->call(value, h->argument))
            append(h);
        else
            free(h);
    }
    return NULL;
}

static bool start_handler_thread(void)
{
    pthread_t thread;
    pthread_mutex_lock(&lock);
    if (!handler_thread_runs && pthread_create(&thread, NULL, call_handlers, NULL) == 0) {
        pthread_detach(thread);
        handler_thread_runs = true;
    }
    pthread_mutex_unlock(&lock);
    return handler_thread_runs;
}

hsa_status_t hsa_amd_signal_async_handler(hsa_signal_t signal, hsa_signal_condition_t condition,
                                          hsa_signal_value_t value, hsa_amd_signal_handler call, void *argument)
{
    if (signal.handle == 0 || call == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    struct handler *h = calloc(1, sizeof(*h));
    if (h == NULL || !start_handler_thread()) {
        free(h);
        return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
    }
    *h = (struct handler){NULL, signal, condition, value, call, argument};
    append(h);
    own_events_happened();
    return HSA_STATUS_SUCCESS;
}

/* ---- times ---- */

hsa_status_t hsa_amd_profiling_set_profiler_enabled(hsa_queue_t *queue, int enable)
{
    (void)enable; /* always */
    return queue != NULL ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_QUEUE;
}

hsa_status_t hsa_amd_profiling_async_copy_enable(bool enable)
{
    (void)enable;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_dispatch_time(hsa_agent_t agent, hsa_signal_t signal,
                                                 hsa_amd_profiling_dispatch_time_t *time)
{
    if (signal.handle == 0 || time == NULL || own_agent(agent) == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    time->start = signal_of(signal)->amd.start_ts;
    time->end = signal_of(signal)->amd.end_ts;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_get_async_copy_time(hsa_signal_t signal, hsa_amd_profiling_async_copy_time_t *time)
{
    if (signal.handle == 0 || time == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    time->start = signal_of(signal)->amd.start_ts;
    time->end = signal_of(signal)->amd.end_ts;
    return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_profiling_convert_tick_to_system_domain(hsa_agent_t agent, uint64_t tick, uint64_t *system_tick)
{
    if (system_tick == NULL || own_agent(agent) == NULL)
        return HSA_STATUS_ERROR_INVALID_ARGUMENT;
    *system_tick = tick;
    return HSA_STATUS_SUCCESS;
}
