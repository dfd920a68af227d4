/* SPDX-License-Identifier: MIT */
/* What the report of a wait that lasts says: the call, the comparison, and the values as the program has them, signed
 * ones too. A second thread ends each wait when it has seen the report. And which waits stay silent: a PE that died
 * while it printed a report silences nobody. And how long the next wait spins, by what a yield has shown. */
#include "../../bootstrap/yield.h"
#include "../../shmem/node/wait.h"
#include "../check.h"

#include <pthread.h>
#include <sys/mman.h>

static struct {
    int heard; /* file that is stderr meanwhile */
    long *word;
    long ends_it;
} job;

static ssize_t read_report(char *text, size_t bytes)
{
    ssize_t n = pread(job.heard, text, bytes - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static void *end_wait(void *arg)
{
    char text[4096];
    while (read_report(text, sizeof(text)) <= 0 || strstr(text, " s\n") == NULL)
        usleep(1000);
    shmem_long_p(job.word, job.ends_it, 0);
    return arg;
}

/* The calls, on the word at job.word. */
static int *as_int(void) { return (int *)(void *)job.word; }
static uint64_t *as_unsigned(void) { return (uint64_t *)(void *)job.word; }
static void equal_int(void) { shmem_int_wait_until(as_int(), SHMEM_CMP_EQ, -5); }
static void not_short(void) { shmem_short_wait_until((short *)(void *)job.word, SHMEM_CMP_NE, -32768); }
static void above_long(void) { shmem_long_wait_until(job.word, SHMEM_CMP_GT, -1); }
static void below_any(void) { (void)shmem_long_wait_until_any(job.word, 1, NULL, SHMEM_CMP_LT, -3); }
static void least_all(void) { shmem_int_wait_until_all(as_int(), 1, NULL, SHMEM_CMP_GE, 0); }
static void most_unsigned(void) { shmem_uint64_wait_until(as_unsigned(), SHMEM_CMP_LE, 7); }
static void signal_equal(void) { (void)shmem_signal_wait_until(as_unsigned(), SHMEM_CMP_EQ, UINT64_MAX); }

struct wait_case {
    void (*call)(void);
    long before, after;
    const char *name, *values;
};
static const struct wait_case cases[] = {
    {equal_int, -7, -5, "shmem_int_wait_until", "expected == -5, seen -7, for"},
    {not_short, -32768, 1, "shmem_short_wait_until", "expected != -32768, seen -32768, for"},
    {above_long, INT64_MIN, 1, "shmem_long_wait_until", "expected > -1, seen -9223372036854775808, for"},
    {below_any, 0, -4, "shmem_long_wait_until_any", "expected < -3, seen 0, for"},
    {least_all, -1, 0, "shmem_int_wait_until_all", "expected >= 0, seen -1, for"},
    {most_unsigned, -1, 7, "shmem_uint64_wait_until", "expected <= 7, seen 18446744073709551615, for"},
    {signal_equal, 3, -1, "shmem_signal_wait_until", "expected == 18446744073709551615, seen 3, for"},
};

/* Of one case; how long it took until the report was there. */
static double check_report(const struct wait_case *c)
{
    double begun = (double)iso_clock_now_ns() / 1e9;
    char text[4096], line[256];
    pthread_t thread;
    int before = dup(STDERR_FILENO);
    job.heard = memfd_create("heard", 0);
    job.ends_it = c->after;
    *job.word = c->before;
    dup2(job.heard, STDERR_FILENO);
    CHECK_OR_EXIT(pthread_create(&thread, NULL, end_wait, NULL) == 0);
    c->call();
    pthread_join(thread, NULL);
    dup2(before, STDERR_FILENO);
    close(before);
    read_report(text, sizeof(text));
    close(job.heard);
    snprintf(line, sizeof(line), "pe 0 waits in %s for any PE: address %p, %s", c->name, (void *)job.word, c->values);
    if (!CHECK_NAMED(strstr(text, line) != NULL, line))
        fprintf(stderr, "seen: %s\n", text);
    return (double)iso_clock_now_ns() / 1e9 - begun;
}

/* Another PE of the node has claimed the report and does not end it. */
static void check_dead_claim(void)
{
    struct report_claim *claim = &ISO->control->claim;
    __atomic_store_n(&claim->begun_ns, iso_clock_now_ns(), __ATOMIC_RELAXED);
    CHECK_NAMED(check_report(&cases[0]) > 1.5, "the claim of a PE that may live is respected");
    CHECK_NAMED(check_report(&cases[0]) < 1.5, "the next report comes at once");
}

/* A report that began after the wait had been published, by another PE, tells of it. */
static void check_covered(void)
{
    struct wait wait = ISO_WAIT("covered", -1, job.word, 1);
    struct report_claim *claim = &ISO->control->claim;
    wait.since_ns = wait.shown_ns = iso_clock_now_ns();
    uint64_t later = wait.shown_ns + 1;
    __atomic_store_n(&claim->begun_ns, later, __ATOMIC_RELAXED);
    __atomic_store_n(&claim->done_ns, later, __ATOMIC_RELAXED);
    iso_report_wait(&wait, iso_clock_now_ns());
    CHECK(wait.reported);
    CHECK_EQ(__atomic_load_n(&claim->begun_ns, __ATOMIC_RELAXED), later);
}

/* ---- spinning ---- */

static _Thread_local long yielded = -1; /* what this thread's next yield shows; -1: the truth */

enum yielded __wrap_iso_yield(uint64_t *since_ns);
enum yielded __real_iso_yield(uint64_t *since_ns);
enum yielded __wrap_iso_yield(uint64_t *since_ns)
{
    if (yielded < 0)
        return __real_iso_yield(since_ns);
    shmem_long_p(job.word, 1, 0);
    return (enum yielded)yielded;
}

static void check_spin(void)
{
    static const struct {
        enum yielded shown;
        unsigned most; /* polls; 0: as many as at first */
    } steps[] = {{YIELDED_TURN, 64}, {YIELDED_SLEPT, 64}, {YIELDED_ALONE, 0}, {YIELDED_SLEPT, 0}, {YIELDED_TURN, 64}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        shmem_long_p(job.word, 0, 0);
        yielded = steps[i].shown;
        shmem_long_wait_until(job.word, SHMEM_CMP_EQ, 1);
        yielded = -1;
        CHECK_EQ(ISO->spin, steps[i].most != 0 ? steps[i].most : ISO->spin_most);
        CHECK_EQ(ISO->spin_alone, ISO->spin);
    }
}

int main(void)
{
    int provided;
    alarm(100); /* a report that does not come is a failure */
    setenv("SHMEM_TIMEOUT", "0.02", 1);
    setenv("SHMEM_SPIN", "500", 1); /* whatever the cores */
    if (shmem_init_thread(SHMEM_THREAD_MULTIPLE, &provided) != 0)
        return CHECK_FAILED;
    job.word = (long *)shmem_calloc(1, sizeof(*job.word));
    CHECK_OR_EXIT(job.word != NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        (void)check_report(&cases[i]);
    check_dead_claim();
    check_covered();
    check_spin();
    shmem_finalize();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
