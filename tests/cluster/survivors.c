/* SPDX-License-Identifier: MIT */
/* Processes that outlive a job: with SHMEMX_ERRORS_RETURN a PE is killed at a random time, the others get an error,
 * leave, and begin a new job with those that are left, in the same processes, by a new unique id. There is no launcher:
 * this process forks the PEs, kills, and has the store for ids in shared memory.
 * survivors kill ROUNDS PES in each round PES processes start, and one after the other is killed until 2 are left
 *     survivors leak TIMES PES     TIMES jobs one after the other in the same processes; nothing may be left of them
 *     survivors wrong 1 PES        wrong arguments come back
 *     survivors break 1 PES        shmemx_break ends a wait of another thread, and the others hear of it by the leave
 *     survivors team 1 PES         shmemx_team_break ends a team on all members, and no other one
 *     survivors streams 1 PES      the same of a team with calls on streams
 *     survivors first 1 PES        the same while the members make a slot or its stage together
 * ISO_NODES=PID:NIC,PID:NIC: processes take turns on nodes, each the namespaces of that process, with that NIC. */
#define _GNU_SOURCE /* setns */
#include <shmem.h>
#include <shmemx.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 16, WORDS = 300, LAST_STEPS = 20, LIVES = 128, SKIP = 77 };

/* One job: who is in it and its id. All words are atomic: release by the writer, acquire by the reader. */
struct life {
    int members[MOST], n; /* written before `open` */
    int open;
    shmemx_uniqueid_t id;
    int has_id;
    int working; /* members that have computed something */
    int left;    /* members that have left it */
    int victim;  /* that was killed; -1: none yet */
};

static struct shared {
    struct life lives[LIVES];
    int failed;
    uint64_t place;
} *shared;

static int self = -1; /* the number of this process */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int get(const int *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void set(int *word, int value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static void add(int *word) { __atomic_fetch_add(word, 1, __ATOMIC_ACQ_REL); }

static void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void fail(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "survivors: process %d: %s\n", self, text);
    set(&shared->failed, 1);
}

static void nap(void)
{
    const struct timespec t = {0, 500000};
    nanosleep(&t, NULL);
}

/* ---- one job ---- */

struct work {
    int rank, n;
    shmemx_stream_t stream;
    int64_t *dest, *source; /* device memory */
    int64_t *ring;          /* of a team, GATHERED of them and a word for signals */
};

/* 0: right; 1: a call has returned an error; 2: a call returned 0 with a wrong result. */
static int compute(struct work *w, int step)
{
    shmemx_coll_t c;
    memset(&c, 0, sizeof c);
    c.kind = SHMEMX_ALLREDUCE;
    c.team = SHMEM_TEAM_WORLD;
    c.slot = step % 2;
    c.type = SHMEMX_INT64;
    c.op = SHMEMX_SUM;
    c.dest = w->dest;
    c.source = w->source;
    c.nelems = WORDS;
    for (int i = 0; i < WORDS; i++) {
        w->source[i] = w->rank + 3 * step + i;
        w->dest[i] = -1;
    }
    if (shmemx_coll_on_stream(&c, w->stream) != 0 || shmemx_stream_synchronize(w->stream) != 0)
        return 1;
    for (int i = 0; i < WORDS; i++)
        if (w->dest[i] != w->n * (3 * (int64_t)step + i) + w->n * (w->n - 1) / 2) {
            fail("step %d of %d PEs: word %d is %lld", step, w->n, i, (long long)w->dest[i]);
            return 2;
        }
    return 0;
}

/* Calls with waits on the host. */
static int exchange(struct work *w, int step)
{
    int pes[MOST];
    shmem_team_t team;
    void *object = shmemx_malloc(1000, step % 2 ? SHMEMX_HOST : SHMEMX_DEVICE);
    if (object == NULL)
        return 1;
    shmemx_free(object);
    for (int i = 0; i < w->n; i++)
        pes[i] = w->n - 1 - i;
    return step > 8 ? 0 : shmemx_team_create(pes, w->n, (uint64_t)step + 1, &team);
}

static int end_work(struct work *w, int rc)
{
    if (w->stream != NULL && shmemx_stream_destroy(w->stream) != 0)
        fail("PE %d: a stream cannot be destroyed", w->rank);
    return rc;
}

static int begin_work(struct work *w)
{
    char text[128];
    if (shmemx_device_init() != 0)
        return 1;
    shmemx_device_text(text, sizeof text);
    if (strncmp(text, "cpu ", 4) != 0) { /* the program reads device memory */
        printf("skipped: %s\n", text);
        exit(SKIP);
    }
    w->dest = (int64_t *)shmemx_malloc(WORDS * sizeof *w->dest, SHMEMX_DEVICE);
    w->source = w->dest != NULL ? (int64_t *)shmemx_malloc(WORDS * sizeof *w->source, SHMEMX_DEVICE) : NULL;
    return w->source == NULL || shmemx_stream_create(&w->stream) != 0;
}

static int start(struct life *life, int rank)
{
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    if (rank == 0) {
        if (shmemx_get_uniqueid(&life->id) != 0)
            fail("no id");
        set(&life->has_id, 1);
    }
    if (shmemx_set_error_mode(SHMEMX_ERRORS_RETURN) != 0)
        fail("the mode cannot be set");
    while (get(&life->has_id) == 0 && get(&life->left) == 0)
        nap(); /* the one that makes it may have been killed: then somebody gives up, or the parent says so */
    if (get(&life->has_id) == 0)
        return 1;
    attr.rank = rank;
    attr.size = life->n;
    attr.id = &life->id;
    attr.requested = SHMEM_THREAD_SERIALIZED;
    return shmemx_init_attr(&attr);
}

/* Until an error, or for so many steps. 0: all was right; 1: an error came back; 2: wrong. */
static int live(struct life *life, int rank, int steps)
{
    struct work w = {rank, life->n, NULL, NULL, NULL, NULL};
    int rc = begin_work(&w);
    for (int step = 0; rc == 0 && (steps == 0 || step < steps) && get(&shared->failed) == 0; step++) {
        rc = compute(&w, step);
        if (rc == 0 && step == 0)
            add(&life->working);
        if (rc == 0 && step % 4 == 1)
            rc = exchange(&w, step) != 0;
    }
    return end_work(&w, rc);
}

/* Every survivor gets the same dead PE, and the sentence that names it. */
static void expect_victim(const struct life *life, int rank, const char *text)
{
    shmemx_device_error_t error;
    int victim;
    char name[32];
    while ((victim = get(&life->victim)) < 0 && get(&shared->failed) == 0)
        nap();
    snprintf(name, sizeof name, "pe %d ", victim);
    if (shmemx_status(SHMEM_TEAM_WORLD, 0, &error) < 0 || error.broken_by != victim || strstr(text, name) == NULL)
        fail("PE %d: PE %d was killed; shmemx_status says PE %d, and the text is \"%s\"", rank, victim, error.broken_by,
             text);
}

static void expect_error(const struct life *life, int rank)
{
    char text[512] = "";
    shmemx_device_error_t error;
    double begin = seconds();
    if (shmemx_error_text(text, sizeof text) == 0 || text[0] == '\0')
        fail("PE %d: an error without a text", rank);
    if (shmemx_malloc(8, SHMEMX_HOST) != NULL || shmemx_stream_synchronize(NULL) == 0)
        fail("PE %d: a call of a broken job succeeds", rank);
    if (shmemx_status(SHMEM_TEAM_WORLD, 0, &error) < 0)
        fail("PE %d: shmemx_status has no answer in a broken job", rank);
    if (seconds() - begin > 1)
        fail("PE %d: calls of a broken job took %.1f s", rank, seconds() - begin);
    (void)shmemx_error_text(text, sizeof text);
    expect_victim(life, rank, text);
}

static void leave(struct life *life, int rank)
{
    double begin = seconds();
    if (shmemx_leave() != 0)
        fail("PE %d cannot leave", rank);
    if (seconds() - begin > 5)
        fail("PE %d left in %.1f s", rank, seconds() - begin);
    add(&life->left);
}

static int rank_in(const struct life *life)
{
    for (int i = 0; i < life->n; i++)
        if (life->members[i] == self)
            return i;
    return -1;
}

/* Lives one after the other, as the parent opens them. A life of n PEs ends by an error, the last one after some steps.
 * */
static int survive(int last_n)
{
    for (struct life *life = shared->lives; get(&shared->failed) == 0; life++) {
        while (get(&life->open) == 0 && get(&shared->failed) == 0)
            nap();
        int rank = rank_in(life), last = life->n <= last_n;
        if (get(&shared->failed) != 0 || rank < 0)
            break;
        if (start(life, rank) != 0) {
            add(&life->left);
            if (last)
                fail("the last job does not start");
            continue;
        }
        int rc = live(life, rank, last ? LAST_STEPS : 0);
        if (rc == 1 && last)
            fail("an error in the last job");
        if (rc == 1 && !last)
            expect_error(life, rank);
        if (last) { /* all have computed, before one leaves */
            while (get(&life->working) < life->n && get(&shared->failed) == 0)
                nap();
            add(&life->has_id);
            while (get(&life->has_id) < 1 + life->n && get(&shared->failed) == 0)
                nap();
        }
        leave(life, rank);
        if (last)
            break;
    }
    return get(&shared->failed);
}

/* ---- the parent: kills ---- */

static pid_t pids[MOST];

static bool enter(int pid, const char *space)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, space);
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -1 : setns(fd, 0);
    if (fd >= 0)
        close(fd);
    if (rc != 0)
        fail("%s cannot be entered", path);
    return rc == 0;
}

/* fork of process i on its node. A namespace of processes is for the children of the one that enters it. */
static pid_t fork_on_node(int i)
{
    static const char *const spaces[] = {"net", "uts", "ipc", "mnt"};
    int nodes[MOST], n = 0;
    char nics[MOST][32];
    for (const char *at = getenv("ISO_NODES"); at != NULL && n < MOST; at = strchr(at, ','), n++) {
        at += *at == ',';
        if (sscanf(at, "%d:%31[^,]", &nodes[n], nics[n]) != 2) {
            fail("ISO_NODES is not PID:NIC,..");
            return -1;
        }
    }
    if (n > 0 && !enter(nodes[i % n], "pid"))
        return -1;
    pid_t pid = fork();
    if (pid == 0 && n > 0) {
        char path[64];
        setenv("SHMEM_NIC", nics[i % n], 1);
        snprintf(path, sizeof path, "/proc/%d/root", nodes[i % n]);
        int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++)
            if (!enter(nodes[i % n], spaces[k]))
                _exit(1);
        if (root < 0 || fchdir(root) != 0 || chroot(".") != 0) {
            fail("%s cannot become the root", path);
            _exit(1);
        }
    }
    return pid;
}

static void open_life(struct life *life, const int *members, int n)
{
    memset(life, 0, sizeof *life);
    memcpy(life->members, members, sizeof *members * (size_t)n);
    life->n = n;
    life->victim = -1;
    set(&life->open, 1);
}

static void await(const int *word, int value, double limit, const char *what)
{
    double begin = seconds();
    while (get(word) < value && get(&shared->failed) == 0) {
        if (seconds() - begin > limit)
            fail("%s: %d of %d after %.0f s", what, get(word), value, limit);
        nap();
    }
}

static int run_round(int n)
{
    int members[MOST], skipped = 0;
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < n; i++) {
        members[i] = i;
        pids[i] = fork_on_node(i);
        if (pids[i] == 0) {
            self = i;
            _exit(survive(2)); /* nothing of the library is left */
        }
    }
    struct life *life = shared->lives;
    for (; n > 2 && get(&shared->failed) == 0; n--, life++) {
        open_life(life, members, n);
        if (rand() % 4 != 0) /* else at any time of the start */
            await(&life->working, n, 20, "PEs that compute");
        usleep((useconds_t)(rand() % 100000));
        int victim = rand() % n, who = members[victim];
        kill(pids[who], SIGKILL);
        set(&life->victim, victim);
        waitpid(pids[who], NULL, 0);
        members[victim] = members[n - 1];
        pids[who] = -1;
        if (victim == 0 && get(&life->has_id) == 0)
            set(&life->left, 1), await(&life->left, n, 20, "survivors that have left");
        else
            await(&life->left, n - 1, 20, "survivors that have left");
    }
    if (get(&shared->failed) == 0)
        open_life(life, members, n);
    for (int i = 0, status; i < MOST; i++) {
        if (pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i]) {
            skipped |= WIFEXITED(status) && WEXITSTATUS(status) == SKIP;
            if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != SKIP))
                fail("process %d ended with wait status %#x", i, (unsigned)status);
        }
        pids[i] = -1;
    }
    return skipped ? SKIP : get(&shared->failed);
}

/* ---- leaks ---- */

struct footprint {
    long files, threads, mappings, kib;
};

static long entries_of(const char *path)
{
    DIR *dir = opendir(path);
    long n = 0;
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static struct footprint footprint(void)
{
    struct footprint f = {entries_of("/proc/self/fd"), entries_of("/proc/self/task"), 0, 0};
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re"), *statm = fopen("/proc/self/statm", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        f.mappings++;
    if (statm == NULL || fscanf(statm, "%*s %ld", &f.kib) != 1)
        fail("no /proc/self/statm");
    f.kib *= sysconf(_SC_PAGESIZE) / 1024;
    if (maps != NULL)
        fclose(maps);
    if (statm != NULL)
        fclose(statm);
    return f;
}

/* All members compute, then all leave, or one leaves and the others find out. */
static int leak(int times, int n)
{
    enum { WARM = 10 };
    struct footprint first = {0, 0, 0, 0}, now = first;
    for (int i = 0; i < times && get(&shared->failed) == 0; i++) {
        struct life *life = &shared->lives[i];
        while (get(&life->open) == 0)
            nap();
        int rank = rank_in(life), alone = i % 2 == 1 && rank == 0;
        if (start(life, rank) != 0 || live(life, rank, 3) != 0)
            fail("time %d: an error", i);
        add(&life->has_id);
        while (get(&life->has_id) < 1 + n && get(&shared->failed) == 0)
            nap();
        if (i % 2 == 1 && !alone) {
            struct work w = {rank, n, NULL, NULL, NULL, NULL};
            if (begin_work(&w) == 0 && compute(&w, 0) == 0)
                fail("time %d: a job without PE 0 computes", i);
            (void)end_work(&w, 0);
        }
        leave(life, rank);
        while (get(&life->left) < n && get(&shared->failed) == 0)
            nap();
        now = footprint();
        if (i == WARM)
            first = now;
    }
    if (now.files > first.files || now.threads > first.threads || now.mappings > first.mappings + 4 ||
        now.kib > first.kib + 2048)
        fail("after %d jobs: %ld files, %ld threads, %ld mappings, %ld KiB; after %d: %ld, %ld, %ld, %ld", times,
             now.files, now.threads, now.mappings, now.kib, (int)WARM, first.files, first.threads, first.mappings,
             first.kib);
    return get(&shared->failed);
}

/* ---- wrong arguments ---- */

#define EXPECT(condition, word)                                                 \
    do {                                                                        \
        char text_[512] = "";                                                   \
        if (!(condition))                                                       \
            fail("line %d: %s", __LINE__, #condition);                          \
        shmemx_error_text(text_, sizeof text_);                                 \
        if (strstr(text_, word) == NULL || strstr(text_, "pshmem") != NULL)     \
            fail("line %d: the text is \"%s\" without %s", __LINE__, text_, word); \
    } while (0)

static int wrong(struct life *life)
{
    int rank = rank_in(life), pes[MOST] = {0, 0};
    struct work w = {rank, life->n, NULL, NULL, NULL, NULL};
    shmem_team_t team;
    shmemx_coll_t c;
    char small[4];
    memset(&c, 0, sizeof c);
    EXPECT(shmemx_leave() != 0, "not running");
    EXPECT(shmemx_set_error_mode(2) != 0, "mode is 2");
    if (start(life, rank) != 0 || begin_work(&w) != 0)
        fail("the job does not start");
    EXPECT(shmemx_malloc(8, 7) == NULL, "kind is 7");
    EXPECT((shmemx_free((char *)w.dest + 8), 1), "inside the object");
    EXPECT((shmemx_free(&w), 1), "is not in the");
    EXPECT(shmemx_buffer_register(NULL, 8, NULL) != 0, "shmemx_buffer_register: ");
    EXPECT(shmemx_buffer_register(NULL, SIZE_MAX, NULL) != 0, "shmemx_buffer_register: ");
    EXPECT(shmemx_buffer_unregister(&w) != 0, "shmemx_buffer_unregister: ");
    EXPECT(shmemx_device_error(NULL) < 0, "error is a null pointer");
    EXPECT(shmemx_device_reset(SHMEM_TEAM_INVALID, 0) != 0, "not a team");
    EXPECT(shmemx_device_reset(SHMEM_TEAM_WORLD, 256) != 0, "slot is 256");
    EXPECT(shmemx_status(SHMEM_TEAM_INVALID, 0, NULL) < 0, "not a team");
    EXPECT(shmemx_status(SHMEM_TEAM_WORLD, -1, NULL) < 0, "slot is -1");
    EXPECT(shmemx_team_create(pes, 2, 1, &team) != 0, "both 0");
    EXPECT(shmemx_team_split_color(SHMEM_TEAM_WORLD, 0, 0, NULL) != 0, "team is a null pointer");
    EXPECT(shmemx_team_split_color((shmem_team_t)(uintptr_t)4711, 0, 0, &team) != 0, "is not a team of this PE");
    EXPECT(shmemx_team_split_color(SHMEM_TEAM_INVALID, 0, 0, &team) != 0, "parent is SHMEM_TEAM_INVALID");
    EXPECT(shmemx_team_malloc(SHMEM_TEAM_INVALID, 8, SHMEMX_HOST) == NULL, "shmemx_team_malloc: team ");
    EXPECT(shmemx_team_free(SHMEM_TEAM_INVALID, NULL) != 0, "shmemx_team_free: team ");
    EXPECT(shmemx_team_set_timeout(SHMEM_TEAM_INVALID, 1) != 0, "shmemx_team_set_timeout: team ");
    EXPECT(shmemx_team_mask_deaths(SHMEM_TEAM_INVALID, 1) != 0, "shmemx_team_mask_deaths: team ");
    EXPECT(shmemx_team_mask_deaths(SHMEM_TEAM_WORLD, 2) != 0, "masks is 2; allowed: 0, 1");
    EXPECT(shmemx_slot_prepare(SHMEM_TEAM_INVALID, 0, 0) != 0, "shmemx_slot_prepare: team ");
    EXPECT(shmemx_rendezvous(SHMEM_TEAM_INVALID, NULL, 0) != 0, "shmemx_rendezvous: team ");
    EXPECT(shmemx_barrier_on_stream(SHMEM_TEAM_INVALID, w.stream) != 0, "shmemx_barrier_on_stream: team ");
    EXPECT(shmemx_device_handle(SHMEM_TEAM_INVALID, 0, NULL) != 0, "shmemx_device_handle: team ");
    EXPECT(shmemx_coll_on_stream(NULL, w.stream) != 0, "coll is a null pointer");
    EXPECT(shmemx_coll_on_stream(&c, w.stream) != 0, "team is not a team");
    EXPECT(shmemx_putmem_on_stream(w.dest, w.source, 8, 99, w.stream) != 0, "pe 99 is outside 0..");
    EXPECT(shmemx_stream_create(NULL) != 0, "stream is a null pointer");
    if (shmemx_error_text(small, sizeof small) < sizeof small || strlen(small) != sizeof small - 1)
        fail("a small buffer for the text");
    if (shmemx_status(SHMEM_TEAM_WORLD, 0, NULL) != 0 || compute(&w, 1) != 0)
        fail("the job does not work after wrong calls");
    add(&life->has_id);
    while (get(&life->has_id) < 1 + life->n && get(&shared->failed) == 0)
        nap();
    (void)end_work(&w, 0);
    leave(life, rank);
    EXPECT(shmemx_malloc(8, SHMEMX_HOST) == NULL, "after shmem_finalize");
    EXPECT(shmemx_stream_create(&w.stream) != 0, "after shmem_finalize");
    EXPECT(shmemx_leave() != 0, "not running");
    return get(&shared->failed);
}

/* ---- a job that its own program breaks ---- */

static void *break_soon(void *unused)
{
    for (int i = 0; i < 100; i++)
        nap();
    if (shmemx_break("enough is enough") != 0)
        fail("shmemx_break is refused");
    return unused;
}

static int broken(struct life *life)
{
    int rank = rank_in(life);
    int64_t mine = rank, sum = 0;
    pthread_t thread;
    EXPECT(shmemx_break("x") != 0, "shmemx_break: called before shmem_init");
    if (start(life, rank) != 0)
        fail("the job does not start");
    EXPECT(shmemx_break(NULL) != 0, "why is a null pointer");
    shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, SHMEM_TEAM_WORLD, &sum, &mine, 1, SHMEMX_INT64);
    if (shmemx_coll_on_host(&c) != 0 || sum != life->n * (life->n - 1) / 2)
        fail("the sum is %lld", (long long)sum);
    bool stays_away = rank == life->n - 1;
    while (stays_away && get(&life->left) < life->n - 1)
        nap();
    if (rank == 0 && pthread_create(&thread, NULL, break_soon, NULL) != 0)
        fail("no thread");
    EXPECT(stays_away || shmemx_coll_on_host(&c) != 0, rank == 0 ? "enough is enough" : "");
    if (rank == 0 && pthread_join(thread, NULL) != 0)
        fail("no end of the thread");
    EXPECT(shmemx_malloc(8, SHMEMX_HOST) == NULL, rank == 0 ? "enough is enough" : "");
    if (shmemx_break("again") != 0)
        fail("a broken job cannot be broken");
    leave(life, rank);
    return get(&shared->failed);
}

/* ---- a team that its own program breaks ---- */

static int naps_before_break = 100;

static void *break_team_soon(void *team)
{
    for (int i = 0; i < naps_before_break; i++)
        nap();
    if (shmemx_team_break((shmem_team_t)team, "enough is enough") != 0)
        fail("shmemx_team_break is refused");
    return NULL;
}

enum { SUMMED = 30000 }; /* members read each other's memory: pull.h */

static int sum_in(shmem_team_t team, const struct life *life, int rank, int64_t from)
{
    static int64_t mine[SUMMED], sum[SUMMED];
    int rc = 0;
    for (size_t length = 1; length <= SUMMED && rc == 0; length = length < SUMMED ? SUMMED : SUMMED + 1) {
        for (size_t i = 0; i < length; i++)
            mine[i] = from + (int64_t)i + rank;
        shmemx_coll_t c = shmemx_coll_of(SHMEMX_ALLREDUCE, team, sum, mine, length, SHMEMX_INT64);
        rc = shmemx_coll_on_host(&c);
        for (size_t i = 0; i < length && rc == 0; i++)
            if (sum[i] != (from + (int64_t)i) * life->n + life->n * (life->n - 1) / 2) {
                fail("element %zu of a sum is %lld", i, (long long)sum[i]);
                break;
            }
    }
    return rc;
}

static int team_broken(struct life *life)
{
    static const char why[] = "this team was broken by pe 0: enough is enough";
    int rank = rank_in(life), pes[MOST];
    shmem_team_t broken = SHMEM_TEAM_INVALID, whole = SHMEM_TEAM_INVALID, again = SHMEM_TEAM_INVALID;
    int64_t from = 0;
    pthread_t thread;
    for (int i = 0; i < life->n; i++)
        pes[i] = i;
    if (start(life, rank) != 0)
        fail("the job does not start");
    if (shmemx_team_create(pes, life->n, 7, &broken) != 0 || shmemx_team_create(pes, life->n, 8, &whole) != 0)
        fail("no teams");
    EXPECT(shmemx_team_break(whole, NULL) != 0, "why is a null pointer");
    EXPECT(shmemx_team_break(SHMEM_TEAM_WORLD, "x") != 0, "shmemx_break breaks the job");
    if (sum_in(broken, life, rank, 0) != 0 || sum_in(whole, life, rank, 0) != 0)
        fail("a team does not work");
    bool is_late = rank == life->n - 1;
    if (rank == 0 && pthread_create(&thread, NULL, break_team_soon, (void *)broken) != 0)
        fail("no thread");
    while (is_late && get(&life->working) < life->n - 1 && get(&shared->failed) == 0)
        nap();
    EXPECT(sum_in(broken, life, rank, 0) != 0, why);
    add(&life->working);
    if (rank == 0 && pthread_join(thread, NULL) != 0)
        fail("no end of the thread");
    EXPECT(shmemx_team_malloc(broken, 8, SHMEMX_HOST) == NULL, why);
    EXPECT(shmemx_status(broken, 0, NULL) == 1, why);
    if (shmemx_team_break(broken, "again") != 0 || shmemx_status(whole, 0, NULL) != 0)
        fail("a broken team cannot be broken, or another one is broken");
    if (sum_in(whole, life, rank, 0) != 0 || shmemx_team_malloc(whole, 8, SHMEMX_HOST) == NULL)
        fail("the other team does not go on");
    shmem_team_destroy(broken);
    if (shmemx_team_create(pes, life->n, 7, &again) != 0 || sum_in(again, life, rank, 0) != 0)
        fail("there is no new team of the same members");
    if (rank == 0 && pthread_create(&thread, NULL, break_team_soon, (void *)again) != 0)
        fail("no thread");
    while (sum_in(again, life, rank, from) == 0) /* in the midst of calls: those that succeed are right */
        from++;
    EXPECT(sum_in(again, life, rank, 0) != 0, why);
    if (rank == 0 && pthread_join(thread, NULL) != 0)
        fail("no end of the thread");
    if (shmemx_team_create(pes, life->n, 9, &again) != 0 || sum_in(again, life, rank, 0) != 0)
        fail("there is no third team of the same members");
    if (rank == 0) /* the others are in shmem_team_destroy, which hears of it */
        (void)break_team_soon((void *)again);
    shmem_team_destroy(again);
    if (sum_in(whole, life, rank, 1) != 0)
        fail("the other team does not go on");
    add(&life->has_id);
    while (get(&life->has_id) < 1 + life->n && get(&shared->failed) == 0)
        nap();
    leave(life, rank);
    return get(&shared->failed);
}

/* ---- a broken team with calls on streams ---- */

/* An all-reduce, an all-gather, a barrier, messages around a ring, a put with a signal around it. */
enum { CALLS = 5, GATHERED = 20000, BYTES = GATHERED * 8 };

static int pass_on(shmem_team_t team, const struct work *w, shmemx_stream_t stream)
{
    int rc = shmemx_send_on_stream(team, w->source, BYTES, (w->rank + 1) % w->n, 5, stream);
    return shmemx_recv_on_stream(team, w->dest, BYTES, (w->rank + w->n - 1) % w->n, 5, stream) != 0 || rc != 0;
}

static int enqueue(shmem_team_t team, const struct work *w, int i, shmemx_stream_t stream)
{
    if (i == 3) {
        int rc = shmemx_coll_group_begin();
        rc = pass_on(team, w, stream) != 0 || rc != 0;
        return shmemx_coll_group_end() != 0 || rc != 0;
    }
    shmemx_coll_t c = shmemx_coll_of(i == 0 ? SHMEMX_ALLREDUCE : SHMEMX_FCOLLECT, team, w->dest, w->source, GATHERED,
                                     SHMEMX_INT64);
    c.slot = i;
    if (i == 4) {
        uint64_t *word = (uint64_t *)(void *)(w->ring + GATHERED);
        int to = (w->rank + 1) % w->n;
        return shmemx_putmem_signal_on_stream(w->ring, w->source, BYTES, word, 1, SHMEM_SIGNAL_SET, to, stream) != 0 ||
               shmemx_signal_wait_until_on_stream(word, SHMEM_CMP_EQ, 1, stream) != 0 ||
               shmemx_getmem_on_stream(w->dest, w->ring, BYTES, w->rank, stream) != 0 ||
               shmemx_signal_op_on_stream(word, 0, SHMEM_SIGNAL_SET, w->rank, stream) != 0;
    }
    return i == 2 ? shmemx_barrier_on_stream(team, stream) : shmemx_coll_on_stream(&c, stream);
}

static void fill_source(struct work *w)
{
    for (int k = 0; k < GATHERED; k++)
        w->source[k] = k + w->rank;
}

static void check_dest(const struct work *w, int i)
{
    for (int64_t k = 0; k < (i == 1 ? w->n * GATHERED : i == 2 ? 0 : GATHERED); k++)
        if (w->dest[k] != (i == 0   ? k * w->n + w->n * (w->n - 1) / 2
                           : i == 1 ? k % GATHERED + k / GATHERED
                                    : k + (w->rank + w->n - 1) % w->n)) {
            fail("element %d of call %d is %lld", (int)k, i, (long long)w->dest[k]);
            break;
        }
}

static void check_calls(shmem_team_t team, struct work *w)
{
    for (int i = 0; i < CALLS; i++) {
        fill_source(w);
        if (enqueue(team, w, i, w->stream) != 0 || shmemx_stream_synchronize(w->stream) != 0)
            fail("call %d of a team that is not broken fails", i);
        check_dest(w, i);
        if (shmemx_barrier_on_stream(team, w->stream) != 0 || shmemx_stream_synchronize(w->stream) != 0)
            fail("a barrier fails");
    }
}

/* Two teams without a common member have memory at one place. The end of one of them is not that of the other. */
static void put_beside_broken(const struct work *w, const int *pes)
{
    shmem_team_t half = SHMEM_TEAM_INVALID;
    bool is_front = w->rank < 2;
    uint64_t *word = NULL, place = 0;
    if (shmemx_team_create(is_front ? pes : pes + 2, is_front ? 2 : w->n - 2, 11, &half) == 0)
        word = (uint64_t *)shmemx_team_malloc(half, 2 * sizeof *word, SHMEMX_DEVICE);
    if (word == NULL || shmemx_offset_of(word, &place) != 0)
        fail("no memory of half of the PEs");
    if (w->rank == 2)
        __atomic_store_n(&shared->place, place, __ATOMIC_RELAXED);
    shmem_signal_set(word, 0, w->rank);
    shmem_barrier_all();
    if (w->rank == 0) {
        if (place != __atomic_load_n(&shared->place, __ATOMIC_RELAXED))
            fail("the places differ, so nothing is tested");
        if (shmemx_team_break(half, "enough is enough") != 0 || shmemx_status(half, 0, NULL) != 1)
            fail("half of the PEs is not broken");
        EXPECT(shmemx_signal_op_on_stream(word, 1, SHMEM_SIGNAL_SET, 1, w->stream) != 0, "enough is enough");
        if (shmemx_putmem_signal_on_stream(word + 1, w->source, 8, word, 5, SHMEM_SIGNAL_SET, 2, w->stream) != 0 ||
            shmemx_stream_synchronize(w->stream) != 0)
            fail("a put to a member of the other team fails");
    }
    if (w->rank == 2 && (shmemx_signal_wait_until_on_stream(word, SHMEM_CMP_EQ, 5, w->stream) != 0 ||
                         shmemx_stream_synchronize(w->stream) != 0))
        fail("a wait of the other team fails");
    shmem_barrier_all();
    if (is_front)
        shmem_team_destroy(half);
    if (w->rank == 0)
        EXPECT(shmemx_signal_wait_until_on_stream(word, SHMEM_CMP_EQ, 1, w->stream) != 0, "that was destroyed");
    if (w->rank == 0 && (shmemx_signal_op_on_stream(word, 6, SHMEM_SIGNAL_SET, 2, w->stream) != 0 ||
                         shmemx_stream_synchronize(w->stream) != 0))
        fail("a signal to a member of the other team fails");
    if (w->rank == 2 && (shmemx_signal_wait_until_on_stream(word, SHMEM_CMP_EQ, 6, w->stream) != 0 ||
                         shmemx_stream_synchronize(w->stream) != 0))
        fail("the second wait of the other team fails");
}

static void break_batches(struct work *w, const int *pes, shmem_team_t whole, const char *why)
{
    shmem_team_t joint = SHMEM_TEAM_INVALID, late = SHMEM_TEAM_INVALID;
    if (shmemx_team_create(pes, w->n, 9, &joint) != 0 || shmemx_coll_group_begin() != 0 ||
        pass_on(whole, w, w->stream) != 0 || pass_on(joint, w, w->stream) != 0 || shmemx_coll_group_end() != 0)
        fail("a batch of two teams fails");
    EXPECT(shmemx_team_break(joint, "x") != 0, "in one batch");
    EXPECT(shmemx_team_break(whole, "x") != 0, "in one batch");
    check_calls(joint, w);

    /* Of a team that is broken before the end of the batch, nothing is launched that would not end with it. */
    if (shmemx_team_create(pes, w->n, 10, &late) != 0 || shmemx_coll_group_begin() != 0 ||
        pass_on(joint, w, w->stream) != 0 || pass_on(late, w, w->stream) != 0 || shmem_team_sync(whole) != 0)
        fail("a batch of two teams fails");
    if (w->rank == 0 && shmemx_team_break(late, "enough is enough") != 0)
        fail("shmemx_team_break is refused");
    while (shmemx_status(late, 0, NULL) == 0 && get(&shared->failed) == 0)
        nap();
    EXPECT(shmemx_coll_group_end() != 0, why);
    check_calls(joint, w);
    shmem_team_destroy(late);
}

static int streams_broken(struct life *life)
{
    static const char why[] = "this team was broken by pe 0: enough is enough";
    int rank = rank_in(life), pes[MOST];
    struct work w = {rank, life->n, NULL, NULL, NULL, NULL};
    shmem_team_t broken = SHMEM_TEAM_INVALID, whole = SHMEM_TEAM_INVALID;
    shmemx_stream_t streams[CALLS];
    pthread_t thread;
    for (int i = 0; i < life->n; i++)
        pes[i] = i;
    if (start(life, rank) != 0 || shmemx_device_init() != 0)
        fail("the job does not start");
    if (shmemx_team_create(pes, life->n, 7, &broken) != 0 || shmemx_team_create(pes, life->n, 8, &whole) != 0)
        fail("no teams");
    w.dest = (int64_t *)shmemx_malloc((size_t)life->n * GATHERED * 8, SHMEMX_DEVICE);
    w.source = (int64_t *)shmemx_malloc(GATHERED * 8, SHMEMX_DEVICE);
    for (int i = 0; i < CALLS; i++)
        if (shmemx_stream_create(&streams[i]) != 0)
            fail("no streams");
    int64_t *ring = (int64_t *)shmemx_team_malloc(whole, BYTES + 8, SHMEMX_DEVICE);
    int64_t *lost = (int64_t *)shmemx_team_malloc(broken, BYTES + 8, SHMEMX_DEVICE);
    if (ring == NULL || lost == NULL)
        fail("no memory of teams");
    w.stream = streams[0];
    w.ring = lost;
    check_calls(broken, &w);
    w.ring = ring;
    check_calls(whole, &w);
    w.ring = lost;
    bool is_late = rank == life->n - 1;
    for (int i = 0; i < CALLS && !is_late; i++)
        if (enqueue(broken, &w, i, streams[i]) != 0)
            fail("call %d is not taken", i);
    if (rank == 0 && pthread_create(&thread, NULL, break_team_soon, (void *)broken) != 0)
        fail("no thread");
    while (is_late && get(&life->working) < life->n - 1 && get(&shared->failed) == 0)
        nap();
    for (int i = 0; i < CALLS && !is_late; i++) /* each ends, and tells of it */
        EXPECT(shmemx_stream_synchronize(streams[i]) != 0, why);
    add(&life->working);
    for (int i = 0; i < CALLS; i++)
        EXPECT(enqueue(broken, &w, i, streams[i]) != 0, why);
    if (rank == 0)
        EXPECT(shmemx_status(broken, 0, NULL) == 1, why);
    else
        shmem_team_destroy(broken);
    for (int i = 0; i < CALLS; i++) /* from here on the end is known */
        if (shmemx_stream_synchronize(streams[i]) != 0)
            fail("a stream fails again");
    if (shmemx_status(whole, 0, NULL) != 0)
        fail("another team is broken, too");
    w.ring = ring;
    check_calls(whole, &w);
    if (rank == 0 && pthread_join(thread, NULL) != 0)
        fail("no end of the thread");
    if (rank == 0)
        shmem_team_destroy(broken);
    check_calls(whole, &w);
    if (life->n > 2)
        put_beside_broken(&w, pes);
    break_batches(&w, pes, whole, why);
    add(&life->has_id);
    while (get(&life->has_id) < 1 + life->n && get(&shared->failed) == 0)
        nap();
    leave(life, rank);
    return get(&shared->failed);
}

/* ---- a team that is broken while its members make a slot or its stage ---- */

enum { FIRSTS = 4, MIDST = 70, SLOTS = 60 }; /* an all-reduce, an all-gather by a stage, a barrier, a preparation */

static int first_call(shmem_team_t team, const struct work *w, int i, int slot)
{
    shmemx_coll_t c = shmemx_coll_of(i == 0 ? SHMEMX_ALLREDUCE : SHMEMX_FCOLLECT, team, w->dest, w->source, GATHERED,
                                     SHMEMX_INT64);
    c.slot = slot;
    c.stage_bytes = i == 1 ? (size_t)4 << 20 : 0;
    return i == 3   ? shmemx_slot_prepare(team, SLOTS + slot, 1)
           : i == 2 ? shmemx_barrier_on_stream(team, w->stream)
                    : shmemx_coll_on_stream(&c, w->stream);
}

/* The end is known, so streams do not fail; and first calls of another team are right. */
static void go_on(shmem_team_t broken, shmem_team_t whole, struct work *w, int slot, const char *why)
{
    EXPECT(shmemx_status(broken, 0, NULL) == 1, why);
    if (shmemx_stream_synchronize(w->stream) != 0 || shmemx_status(whole, 0, NULL) != 0)
        fail("a stream or another team fails, too");
    for (int i = 0; i < 2; i++) {
        fill_source(w);
        if (first_call(whole, w, i, slot) != 0 || shmemx_stream_synchronize(w->stream) != 0)
            fail("a first call of another team fails");
        check_dest(w, i);
        if (shmemx_barrier_on_stream(whole, w->stream) != 0 || shmemx_stream_synchronize(w->stream) != 0)
            fail("a barrier fails");
    }
    shmem_team_destroy(broken);
}

static void miss_first_call(struct life *life, shmem_team_t whole, struct work *w, const int *pes, int turn)
{
    char why[64];
    int i = turn / 2, breaker = turn % 2 == 0 ? 0 : w->n - 1, absent = w->n - 1 - breaker;
    shmem_team_t broken = SHMEM_TEAM_INVALID;
    pthread_t thread;
    snprintf(why, sizeof why, "this team was broken by pe %d: enough is enough", breaker);
    if (shmemx_team_create(pes, w->n, 10 + (uint64_t)turn, &broken) != 0 ||
        (i == 1 && shmemx_slot_prepare(broken, 0, 1) != 0)) /* then its stage */
        fail("no team");
    if (w->rank == breaker && pthread_create(&thread, NULL, break_team_soon, (void *)broken) != 0)
        fail("no thread");
    while (w->rank == absent && get(&life->working) < (turn + 1) * (w->n - 1) && get(&shared->failed) == 0)
        nap();
    EXPECT(first_call(broken, w, i, 0) != 0, why);
    if (w->rank != absent)
        add(&life->working);
    if (w->rank == breaker && pthread_join(thread, NULL) != 0)
        fail("no end of the thread");
    EXPECT(first_call(broken, w, i, 0) != 0, why);
    go_on(broken, whole, w, turn, why);
}

static int first_broken(struct life *life)
{
    static const char why[] = "this team was broken by pe 0: enough is enough";
    int rank = rank_in(life), pes[MOST];
    struct work w = {rank, life->n, NULL, NULL, NULL, NULL};
    shmem_team_t whole = SHMEM_TEAM_INVALID, broken = SHMEM_TEAM_INVALID;
    pthread_t thread;
    for (int i = 0; i < life->n; i++)
        pes[i] = i;
    setenv("SHMEM_DEVICE_BLOCKS", "1", 1); /* memory for many slots */
    if (start(life, rank) != 0 || shmemx_device_init() != 0 || shmemx_stream_create(&w.stream) != 0 ||
        shmemx_team_create(pes, life->n, 7, &whole) != 0)
        fail("the job does not start");
    w.dest = (int64_t *)shmemx_malloc((size_t)life->n * GATHERED * 8, SHMEMX_DEVICE);
    w.source = (int64_t *)shmemx_malloc(GATHERED * 8, SHMEMX_DEVICE);
    for (int turn = 0; turn < 2 * FIRSTS; turn++)
        miss_first_call(life, whole, &w, pes, turn);
    for (int round = 0; round < MIDST; round++) { /* in the midst of first calls */
        naps_before_break = rand() % 4;
        if (shmemx_team_create(pes, life->n, 100 + (uint64_t)round, &broken) != 0)
            fail("no team");
        if (rank == 0 && pthread_create(&thread, NULL, break_team_soon, (void *)broken) != 0)
            fail("no thread");
        for (int i = 0; first_call(broken, &w, i % FIRSTS, i / FIRSTS % SLOTS) == 0; i++)
            continue;
        EXPECT(first_call(broken, &w, 0, 0) != 0, why);
        if (rank == 0 && pthread_join(thread, NULL) != 0)
            fail("no end of the thread");
        go_on(broken, whole, &w, 2 * FIRSTS + round, why);
    }
    if (end_work(&w, 0) == 0)
        shmem_finalize();
    return get(&shared->failed);
}

/* ---- all ---- */

static int run_all(const char *what, int times, int n)
{
    int members[MOST], bad = 0;
    for (int i = 0; i < n; i++)
        members[i] = i;
    for (int i = 0; i < (times > 0 ? times : 1); i++)
        open_life(&shared->lives[i], members, n);
    for (int i = 0; i < n; i++)
        if ((pids[i] = fork_on_node(i)) == 0) {
            self = i;
            _exit(strcmp(what, "leak") == 0    ? leak(times, n)
                  : strcmp(what, "break") == 0 ? broken(shared->lives)
                  : strcmp(what, "team") == 0  ? team_broken(shared->lives)
                  : strcmp(what, "streams") == 0 ? streams_broken(shared->lives)
                  : strcmp(what, "first") == 0 ? first_broken(shared->lives)
                                                 : wrong(shared->lives));
        }
    for (int i = 0, status; i < n; i++) {
        if (waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status))
            fail("process %d was killed", i);
        else if (WEXITSTATUS(status) != 0)
            bad = WEXITSTATUS(status);
    }
    return get(&shared->failed) ? 1 : bad;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "kill";
    int times = argc > 2 ? atoi(argv[2]) : 5, n = argc > 3 ? atoi(argv[3]) : 4, rc = 0;
    unsigned seed = getenv("ISO_FAULT_SEED") != NULL ? (unsigned)atoi(getenv("ISO_FAULT_SEED")) : (unsigned)getpid();
    if (n < 2 || n > MOST || (strcmp(what, "leak") == 0 && times >= LIVES)) {
        fprintf(stderr, "usage: survivors kill|leak|wrong|break|team|streams|first TIMES PES\n");
        return 2;
    }
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    if (strcmp(what, "kill") == 0 && getenv("ISO_SURVIVORS") != NULL)
        times = atoi(getenv("ISO_SURVIVORS"));
    setenv("SHMEM_BOOT_TIMEOUT", "5", 0); /* a PE that was killed before it came is missed so long */
    srand(seed);
    if (strcmp(what, "kill") != 0)
        return run_all(what, times, n);
    for (int i = 0; i < times && rc == 0; i++)
        rc = run_round(n);
    if (rc != 0 && rc != SKIP)
        fprintf(stderr, "survivors: ISO_FAULT_SEED=%u repeats the sequence\n", seed);
    return rc;
}
