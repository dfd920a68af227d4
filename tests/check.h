/* SPDX-License-Identifier: MIT */
/* What every test program over the public headers is written with: checks that say what was expected and what was
 * seen, random numbers that can be repeated, symmetric buffers between guard zones, and a main().
 *
 *     static int test_main(void)
 *     {
 *         CHECK_INIT();
 *         CHECK_EQ(shmem_n_pes(), shmem_team_n_pes(SHMEM_TEAM_WORLD));
 *         return CHECK_DONE();
 *     }
 *     CHECK_MAIN(test_main)
 *
 * A failed check prints one line and the program goes on, so that the other PEs are not left waiting; CHECK_DONE ends
 * with 0 or 1, CHECK_SKIP with 77. Built with ISO_PES_AS_THREADS, main() runs test_main in CHECK_PES threads, each of
 * them a PE: so a program keeps no mutable static state, unless globals are its subject (those are not built that way).
 * Built with CHECK_TWICE, a program is compiled once for both, and main() is in check_main.c, compiled for each.
 * Built with CHECK_ON_GLOBALS, check_alloc takes from a static array, so that a program about the heap becomes one
 * about global variables. Built with CHECK_FOREIGN, nothing of shmemx.h is used: the programs then run over other
 * OpenSHMEM libraries. */
#ifndef CHECK_H
#define CHECK_H

#include <shmem.h>
#ifndef CHECK_FOREIGN
#include <shmemx.h>
#endif

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#define CHECK_PER_THREAD thread_local
#else
#define CHECK_PER_THREAD _Thread_local
#endif

enum { CHECK_PASSED = 0, CHECK_FAILED = 1, CHECK_SKIPPED = 77, CHECK_MOST_LINES = 12 };

struct check {
    int pe;
    int npes;
    int failures;
    uint64_t seed; /* equal on all PEs */
};

static CHECK_PER_THREAD struct check check_self;

/* ---- checks ---- */

static inline bool check_failed_at(const char *file, int line)
{
    if (check_self.failures == 0)
        fprintf(stderr, "[pe %d] repeat with SHMEM_TEST_SEED=%llu\n", check_self.pe,
                (unsigned long long)check_self.seed);
    check_self.failures++;
    if (check_self.failures == CHECK_MOST_LINES)
        fprintf(stderr, "[pe %d] %s:%d: more failures follow, not printed\n", check_self.pe, file, line);
    return check_self.failures < CHECK_MOST_LINES;
}

static inline bool check_true(bool ok, const char *what, const char *file, int line)
{
    if (!ok && check_failed_at(file, line))
        fprintf(stderr, "[pe %d] %s:%d: %s, expected true, seen false\n", check_self.pe, file, line, what);
    return ok;
}

static inline bool check_equal(long long seen, long long expected, const char *what, const char *file, int line)
{
    if (seen != expected && check_failed_at(file, line))
        fprintf(stderr, "[pe %d] %s:%d: %s, expected %lld, seen %lld\n", check_self.pe, file, line, what, expected,
                seen);
    return seen == expected;
}

static inline bool check_bytes(const void *seen, const void *expected, size_t len_bytes, const char *what,
                               const char *file, int line)
{
    const unsigned char *s = (const unsigned char *)seen;
    const unsigned char *e = (const unsigned char *)expected;
    size_t i = 0;
    if (len_bytes == 0 || memcmp(s, e, len_bytes) == 0)
        return true;
    while (s[i] == e[i])
        i++;
    if (check_failed_at(file, line))
        fprintf(stderr, "[pe %d] %s:%d: %s, byte %zu of %zu, expected 0x%02x, seen 0x%02x\n", check_self.pe, file, line,
                what, i, len_bytes, e[i], s[i]);
    return false;
}

#define CHECK(cond) check_true((cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(seen, expected) check_equal((long long)(seen), (long long)(expected), #seen, __FILE__, __LINE__)
#define CHECK_BYTES(seen, expected, len_bytes) check_bytes(seen, expected, len_bytes, #seen, __FILE__, __LINE__)
/* The same with words of the caller's: which type, team, size. */
#define CHECK_NAMED(cond, what) check_true((cond), what, __FILE__, __LINE__)
#define CHECK_EQ_NAMED(seen, expected, what) \
    check_equal((long long)(seen), (long long)(expected), what, __FILE__, __LINE__)
#define CHECK_BYTES_NAMED(seen, expected, len_bytes, what) \
    check_bytes(seen, expected, len_bytes, what, __FILE__, __LINE__)

/* Where going on makes no sense (no memory): ends the whole job. */
#define CHECK_OR_EXIT(cond)                  \
    do {                                     \
        if (!CHECK(cond))                    \
            shmem_global_exit(CHECK_FAILED); \
    } while (0)

/* In loops around calls that do not block: more PEs than cores would each spin out their time slice. */
static inline void check_pause(void) { (void)sched_yield(); }

/* ---- random numbers (splitmix64) ---- */

struct check_random {
    uint64_t state;
};

static inline uint64_t check_random_next(struct check_random *random)
{
    uint64_t z = (random->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 .. below - 1 */
static inline size_t check_random_below(struct check_random *random, size_t below)
{
    return (size_t)(check_random_next(random) % below);
}

/* The same sequence on all PEs for equal `stream`; take another stream (say, 1000 + pe) for one of a PE's own. */
static inline struct check_random check_random_stream(uint64_t stream)
{
    struct check_random random = {check_self.seed ^ (stream * 0xd1342543de82ef95u)};
    (void)check_random_next(&random);
    return random;
}

static inline void check_random_fill(struct check_random *random, void *buffer, size_t len_bytes)
{
    unsigned char *p = (unsigned char *)buffer;
    for (size_t i = 0; i < len_bytes; i++)
        p[i] = (unsigned char)(check_random_next(random) >> 32);
}

/* Thread sanitizer looks at each access, which is slow byte by byte. Patterns are made in a piece of 2 KiB of which it
 * is not told, and memcpy and memcmp tell it of the buffer. */
#ifdef __SANITIZE_THREAD__
#define CHECK_UNSEEN __attribute__((no_sanitize("thread")))
#else
#define CHECK_UNSEEN
#endif
/* Byte i of what `from` sends to `to` in round `round`: both sides can compute it. */
CHECK_UNSEEN static inline unsigned char check_byte(int from, int to, unsigned round, size_t i)
{
    return (unsigned char)(i * 31u + (unsigned)from * 67u + (unsigned)to * 101u + round * 13u + (i >> 8) * 7u);
}

#define CHECK_PIECE 2048u
CHECK_UNSEEN static inline void check_piece(unsigned char *piece, size_t at, size_t n, int from, int to,
                                            unsigned round)
{
    for (size_t i = 0; i < n; i++)
        piece[i] = check_byte(from, to, round, at + i);
}
static inline void check_fill(void *buffer, size_t len_bytes, int from, int to, unsigned round)
{
    unsigned char piece[CHECK_PIECE];
    for (size_t at = 0, n; at < len_bytes; at += n) {
        n = len_bytes - at < CHECK_PIECE ? len_bytes - at : CHECK_PIECE;
        check_piece(piece, at, n, from, to, round);
        memcpy((char *)buffer + at, piece, n);
    }
}
static inline bool check_filled(const void *buffer, size_t len_bytes, int from, int to, unsigned round)
{
    unsigned char piece[CHECK_PIECE];
    for (size_t at = 0, n; at < len_bytes; at += n) {
        n = len_bytes - at < CHECK_PIECE ? len_bytes - at : CHECK_PIECE;
        check_piece(piece, at, n, from, to, round);
        if (memcmp((const char *)buffer + at, piece, n) != 0)
            return false;
    }
    return true;
}
#define CHECK_FILLED(buffer, len_bytes, from, to, round) CHECK(check_filled(buffer, len_bytes, from, to, round))

/* ---- guarded symmetric buffers: 64 bytes of head (the length), 64 of guard, the data, 64 of guard ---- */

enum { CHECK_ZONE = 64, CHECK_POISON = 0xa5, CHECK_GUARD = 0x5c };

static inline size_t check_length(const void *data)
{
    size_t len_bytes;
    memcpy(&len_bytes, (const char *)data - 2 * CHECK_ZONE, sizeof(len_bytes));
    return len_bytes;
}

static inline void check_poison(void *data) { memset(data, CHECK_POISON, check_length(data)); }

static inline bool check_all_bytes(const void *data, unsigned char value, size_t len_bytes)
{
    const unsigned char *p = (const unsigned char *)data;
    for (size_t i = 0; i < len_bytes; i++)
        if (p[i] != value)
            return false;
    return true;
}

static inline bool check_guards(const void *data)
{
    return check_all_bytes((const char *)data - CHECK_ZONE, CHECK_GUARD, CHECK_ZONE) &&
           check_all_bytes((const char *)data + check_length(data), CHECK_GUARD, CHECK_ZONE);
}
#define CHECK_GUARDS(data) CHECK(check_guards(data))

#ifdef CHECK_ON_GLOBALS /* the same program over a static array instead of the heap */
enum { CHECK_STATIC_BYTES = 24 << 20 };
static _Alignas(64) char check_static[CHECK_STATIC_BYTES];
static size_t check_static_used;

static inline void *check_take(size_t len_bytes)
{
    char *base = check_static + check_static_used;
    if (len_bytes > CHECK_STATIC_BYTES - check_static_used)
        return NULL;
    check_static_used += (len_bytes + 63) / 64 * 64;
    return base;
}
static inline void check_give(void *base) { check_static_used = (size_t)((char *)base - check_static); }
#else
static inline void *check_take(size_t len_bytes) { return shmem_align(64, len_bytes); }
static inline void check_give(void *base) { shmem_free(base); }
#endif

/* Collective over the world. The data is poisoned on every PE before any PE returns. */
static inline void *check_alloc(size_t len_bytes)
{
    char *base = (char *)check_take(len_bytes + 3 * CHECK_ZONE);
    CHECK_OR_EXIT(base != NULL);
    memcpy(base, &len_bytes, sizeof(len_bytes));
    memset(base + CHECK_ZONE, CHECK_GUARD, CHECK_ZONE);
    memset(base + 2 * CHECK_ZONE + len_bytes, CHECK_GUARD, CHECK_ZONE);
    check_poison(base + 2 * CHECK_ZONE);
    shmem_barrier_all();
    return base + 2 * CHECK_ZONE;
}

/* Collective over the world, in the reverse order of check_alloc. Looks at the guards a last time. */
static inline void check_free(void *data)
{
    shmem_barrier_all();
    CHECK_GUARDS(data);
    check_give((char *)data - 2 * CHECK_ZONE);
}

#ifdef CHECK_FOREIGN
#define CHECK_HEAP() ((void)0)
#else
#define CHECK_HEAP() CHECK(shmemx_heap_is_valid() == 1)
#endif

/* SHMEM_TEST_FEW=8: long programs do an eighth of their rounds and cases, others every time. For networks that are
 * emulated and for thread sanitizer, where each takes long. */
static inline int check_few(void)
{
    const char *text = getenv("SHMEM_TEST_FEW");
    int few = text != NULL ? atoi(text) : 1;
    return few > 1 ? few : 1;
}

/* So many times, or that part of them, at least once. */
static inline int check_times(int times) { return check_few() > times ? 1 : times / check_few(); }

/* Whether a case is in that part, on all PEs alike; numbers that follow each other take turns. */
static inline bool check_has_case(unsigned number)
{
    return (number + check_self.seed) % (uint64_t)check_few() == 0;
}

/* ---- processes ---- */

/* The kernel of the machine sends SIGKILL then, so it comes at any instruction. */
static inline void check_die_after(long milliseconds)
{
    struct sigevent event;
    struct itimerspec when;
    timer_t timer;
    memset(&event, 0, sizeof(event));
    memset(&when, 0, sizeof(when));
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    when.it_value.tv_sec = milliseconds / 1000;
    when.it_value.tv_nsec = milliseconds % 1000 * 1000000 + 1;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 || timer_settime(timer, 0, &when, NULL) != 0) {
        perror("timer");
        exit(2);
    }
}

/* The exit status of a forked child that makes body(what), which does not return; -1: it was killed. said: what it wrote
 * to stderr. */
static inline int check_forked(void (*body)(const void *what), const void *what, char *said, size_t bytes)
{
    int ends[2], status = 0;
    size_t len = 0;
    if (pipe(ends) != 0)
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        body(what);
    }
    close(ends[1]);
    for (ssize_t n; len < bytes - 1 && (n = read(ends[0], said + len, bytes - 1 - len)) > 0;)
        len += (size_t)n;
    said[len] = '\0';
    close(ends[0]);
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- start and end ---- */

/* PE 0 chooses, everybody else gets it: a seed that differs between PEs would not repeat anything. */
static inline void check_agree_on_seed(void)
{
    const char *text = getenv("SHMEM_TEST_SEED");
    uint64_t *seed = (uint64_t *)shmem_malloc(sizeof(*seed));
    if (seed == NULL) {
        fprintf(stderr, "[pe %d] check.h: shmem_malloc of 8 bytes failed\n", check_self.pe);
        shmem_global_exit(CHECK_FAILED);
    }
    *seed = text != NULL ? strtoull(text, NULL, 0) : (uint64_t)time(NULL) * 1000003u + (uint64_t)getpid();
    shmem_barrier_all();
    shmem_getmem(&check_self.seed, seed, sizeof(*seed), 0);
    shmem_free(seed);
    if (check_self.pe == 0)
        printf("seed %llu, %d PEs\n", (unsigned long long)check_self.seed, check_self.npes);
}

static inline void check_started(void)
{
    check_self.failures = 0;
    check_self.pe = shmem_my_pe();
    check_self.npes = shmem_n_pes();
    check_agree_on_seed();
}

static inline int check_done(void)
{
    shmem_barrier_all();
    shmem_finalize();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
#define CHECK_DONE() check_done()

static inline int check_skip(const char *reason)
{
    fprintf(stderr, "skipped: %s\n", reason);
    return CHECK_SKIPPED;
}
/* `return CHECK_SKIP("why");` before CHECK_INIT or after shmem_finalize, on all PEs alike. */
#define CHECK_SKIP(reason) check_skip(reason)

#ifdef CHECK_TWICE

extern const bool check_pes_are_threads;
void check_enter(void);
int check_program(void);
#define CHECK_PES_ARE_THREADS check_pes_are_threads
#define CHECK_MAIN(body) \
    int check_program(void) { return body(); }

#elif !defined(ISO_PES_AS_THREADS)

#define CHECK_PES_ARE_THREADS false
static inline void check_enter(void) { shmem_init(); }
static inline int check_run(int (*body)(void)) { return body(); }

#else /* the PEs are threads of this process */

#include <pthread.h>

#define CHECK_PES_ARE_THREADS true
#define check_run check_run_threads

struct check_thread {
    pthread_t thread;
    int rank;
    int status;
    int (*body)(void);
};

static int check_threads = 2;
static shmemx_uniqueid_t check_id;
static pthread_barrier_t check_id_made;
static CHECK_PER_THREAD int check_rank;

/* The id is made by the thread that becomes rank 0, because that is where its state lives. */
static inline void check_enter(void)
{
    int failed = check_rank == 0 ? shmemx_get_uniqueid(&check_id) : 0;
    pthread_barrier_wait(&check_id_made);
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    attr.rank = check_rank;
    attr.size = check_threads;
    attr.id = &check_id;
    attr.requested = SHMEM_THREAD_MULTIPLE;
    if (failed != 0 || shmemx_init_attr(&attr) != 0) {
        fprintf(stderr, "check.h: the start of rank %d failed\n", check_rank);
        exit(CHECK_FAILED);
    }
}

static void *check_thread_main(void *argument)
{
    struct check_thread *self = (struct check_thread *)argument;
    check_rank = self->rank;
    self->status = self->body();
    return NULL;
}

static inline int check_run_threads(int (*body)(void))
{
    enum { MOST = 64 };
    struct check_thread threads[MOST];
    const char *text = getenv("CHECK_PES");
    int status = CHECK_PASSED;
    check_threads = text != NULL ? atoi(text) : 2;
    if (check_threads < 1 || check_threads > MOST) {
        fprintf(stderr, "check.h: CHECK_PES is outside 1..%d\n", MOST);
        return CHECK_FAILED;
    }
    pthread_barrier_init(&check_id_made, NULL, (unsigned)check_threads);
    for (int i = 0; i < check_threads; i++) {
        threads[i].rank = i;
        threads[i].body = body;
        threads[i].status = CHECK_FAILED;
        if (pthread_create(&threads[i].thread, NULL, check_thread_main, &threads[i]) != 0)
            return CHECK_FAILED;
    }
    for (int i = 0; i < check_threads; i++) {
        pthread_join(threads[i].thread, NULL);
        if (threads[i].status != CHECK_PASSED && status != CHECK_FAILED)
            status = threads[i].status;
    }
    return status;
}

#endif

static inline void check_init(void)
{
    check_enter();
    check_started();
}
#define CHECK_INIT() check_init()

#ifndef CHECK_MAIN
#define CHECK_MAIN(body) \
    int main(void) { return check_run(body); }
#endif

#endif
