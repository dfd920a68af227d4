/* SPDX-License-Identifier: MIT */
/* Kernels that outlive PEs: `outlives PES [NODES [WORDS]]` forks a job on so many nodes, all of this host, in which
 * one PE after the other is killed, or two at once, until two are left. The kernels of the others go on
 * (shmemx_team_mask_deaths): all to all, with a signal behind the data, and each of the WORDS is looked at. With 0
 * nothing is sent, and all hear of a death all the same. A round does without the PEs that shmemd_pe_is_alive says are
 * dead. Then, with a dead member: a collective returns nonzero and nothing else ends by that; a handle of a team that
 * does not mask deaths has given up; a kernel that waits for no PE in particular waits until shmemx_leave. The parent
 * and the kernels share host memory, which needs the CPU device. */
#include <shmem.h>
#include <shmem_device.h>
#include <shmemx.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, THREADS = 96, ROUNDS = 40, SKIP = 77 };
#define LIMIT_S 60
#define NOTICE_S 3 /* from a death until all survivors' kernels know */

/* All words are atomic, relaxed: each stands for itself. */
static struct shared {
    shmemx_uniqueid_t id;
    uint64_t has_id, failed, last; /* last: the round after which kernels end; 0: none */
    uint64_t round[MOST], dead[MOST], done[MOST]; /* of each PE; dead: how many others its kernel knows to be dead */
} *shared;
static int self;

static uint64_t look(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static void tell(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void nap(void)
{
    const struct timespec t = {0, 500000};
    nanosleep(&t, NULL);
}
static void expect(bool is_so, const char *what, long long value)
{
    if (is_so)
        return;
    fprintf(stderr, "outlives: process %d: %s: %lld\n", self, what, value);
    tell(&shared->failed, 1);
}
static void expect_0(long long seen, const char *what) { expect(seen == 0, what, seen); }

/* ---- kernels ---- */

struct serve_args {
    shmemd_t h;
    uint64_t *data;   /* symmetric: [2 banks][n][words], by sender; a round's bank is its parity */
    uint64_t *source; /* [words] */
    uint64_t words;
    uint64_t *signal; /* symmetric: [n], by sender: the round */
    uint64_t *counter; /* symmetric */
    uint64_t *round, *dead, *last, *wrong; /* host memory; wrong: a number for what was wrong first */
    uint64_t from, to; /* rounds; to 0: until *last */
};

SHMEMD_FN void say(uint64_t *wrong, uint64_t what)
{
    if (*wrong == 0)
        *wrong = what;
}

/* Data to and from all that live. Called by all threads of the block. */
SHMEMD_FN void serve_round(struct serve_args a, uint64_t round, int *lives)
{
    const int n = shmemd_n_pes(a.h), me = shmemd_my_pe(a.h);
    const unsigned rank = shmemd_thread_index(), size = shmemd_block_size();
    const uint64_t words = a.words;
    uint64_t *bank = a.data + (round & 1) * (uint64_t)n * words;
    if (rank == 0)
        for (int pe = 0; pe < n; pe++)
            lives[pe] = shmemd_pe_is_alive(a.h, pe);
    for (unsigned i = rank; i < words; i += size)
        a.source[i] = round * 1000000 + (uint64_t)me * 10000 + i;
    shmemd_group_sync(shmemd_block());
    for (int pe = 0; pe < n; pe++)
        if (pe != me && lives[pe] && words != 0)
            shmemd_uint64_put_signal_block(a.h, bank + (uint64_t)me * words, a.source, words, a.signal + me, round,
                                           SHMEM_SIGNAL_SET, pe);
    if (words == 0) /* all have time to hear of a death */
        (void)shmemd_uint64_wait_until_for_block(a.h, a.counter, SHMEM_CMP_EQ, ~(uint64_t)0, 1000000);
    for (int pe = 0; pe < n; pe++) {
        if (pe == me || !lives[pe] || words == 0)
            continue;
        if (shmemd_pe_signal_wait_until_block(a.h, a.signal + pe, SHMEM_CMP_GE, round, pe) != 0) {
            if (rank == 0 && shmemd_pe_is_alive(a.h, pe) != 0)
                say(a.wrong, 1);
            continue;
        }
        for (unsigned i = rank; i < words; i += size)
            if (bank[(uint64_t)pe * words + i] != round * 1000000 + (uint64_t)pe * 10000 + i)
                say(a.wrong, 2);
    }
    shmemd_group_sync(shmemd_block());
    if (rank != 0)
        return;
    uint64_t dead = 0;
    for (int pe = 0; pe < n; pe++)
        dead += lives[pe] == 0;
    if (lives[me] != 1)
        say(a.wrong, 3);
    *(volatile uint64_t *)a.dead = dead;
    *(volatile uint64_t *)a.round = round;
}

SHMEMD_KERNEL(serve, struct serve_args, a)
{
    SHMEMD_SHARED(int, lives, MOST);
    SHMEMD_SHARED(uint64_t, goes_on, 1);
    for (uint64_t round = a.from;; round++) {
        serve_round(a, round, lives);
        if (shmemd_thread_index() == 0) {
            const uint64_t last = a.to != 0 ? a.to : *(volatile uint64_t *)a.last;
            goes_on[0] = shmemd_status(a.h) == 0 && (last == 0 || round < last);
        }
        shmemd_group_sync(shmemd_block());
        if (!goes_on[0])
            break;
        shmemd_group_sync(shmemd_block());
    }
    if (shmemd_thread_index() == 0 && shmemd_status(a.h) != 0)
        say(a.wrong, 4);
    /* With dead members. By one PE to each dead one, and by all to the next that lives. */
    const int n = shmemd_n_pes(a.h), me = shmemd_my_pe(a.h);
    if (shmemd_barrier_block(a.h) == 0 || shmemd_uint64_sum_reduce_block(a.h, a.data, a.source, 1) == 0)
        say(a.wrong, 5);
    if (shmemd_thread_index() == 0) {
        for (int pe = 0; pe < n; pe++) {
            if (shmemd_pe_is_alive(a.h, pe))
                continue;
            shmemd_uint64_p(a.h, a.counter, 1, pe);
            (void)shmemd_uint64_atomic_fetch_add(a.h, a.counter, 1, pe);
            (void)shmemd_uint64_g(a.h, a.counter, pe);
            shmemd_signal_op(a.h, a.counter, 1, SHMEM_SIGNAL_ADD, pe);
            if (shmemd_pe_signal_wait_until(a.h, a.signal + pe, SHMEM_CMP_EQ, ~(uint64_t)0, pe) == 0)
                say(a.wrong, 6);
        }
        shmemd_quiet(a.h);
        int next = (me + 1) % n;
        while (!shmemd_pe_is_alive(a.h, next))
            next = (next + 1) % n;
        (void)shmemd_uint64_atomic_fetch_add(a.h, a.counter, 1, next);
        shmemd_uint64_wait_until(a.h, a.counter, SHMEM_CMP_EQ, 1); /* names no PE, and goes on */
        if (shmemd_uint64_wait_until_for(a.h, a.counter, SHMEM_CMP_EQ, 2, 1000000) != 0 || shmemd_status(a.h) != 0)
            say(a.wrong, 7);
    }
    shmemd_group_sync(shmemd_block());
    for (uint64_t i = 1; i <= ROUNDS; i++)
        serve_round(a, *a.last + i, lives);
}

struct plain_args {
    shmemd_t h, masked;
    uint64_t *word, *wrong;
};
/* Ends when the first PE has died. */
SHMEMD_KERNEL(give_up, struct plain_args, a)
{
    (void)shmemd_signal_wait_until_block(a.h, a.word, SHMEM_CMP_EQ, 4711);
    if (shmemd_status(a.h) == 0 || shmemd_barrier_block(a.h) == 0)
        say(a.wrong, 8);
}
/* Ends when this PE leaves. */
SHMEMD_KERNEL(wait_on, struct plain_args, a)
{
    (void)shmemd_signal_wait_until_block(a.masked, a.word, SHMEM_CMP_EQ, 4711);
    if (shmemd_status(a.masked) == 0)
        say(a.wrong, 9);
}

/* ---- a PE ---- */

static bool start(int rank, int n, int nodes)
{
    char node[16];
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    if (rank == 0) {
        expect_0(shmemx_get_uniqueid(&shared->id), "shmemx_get_uniqueid");
        tell(&shared->has_id, 1);
    }
    while (look(&shared->has_id) == 0)
        nap();
    snprintf(node, sizeof node, "n%d", rank * nodes / n);
    if (nodes > 1)
        setenv("SHMEM_NODE", node, 1);
    expect_0(shmemx_set_error_mode(SHMEMX_ERRORS_RETURN), "shmemx_set_error_mode");
    attr.rank = rank;
    attr.size = n;
    attr.id = &shared->id;
    return shmemx_init_attr(&attr) == 0 && shmemx_device_init() == 0;
}

static void *make(size_t words)
{
    void *object = shmemx_calloc(words, sizeof(uint64_t), SHMEMX_DEVICE);
    expect(object != NULL, "shmemx_calloc", (long long)words);
    return object;
}

static int run_pe(int rank, int n, int nodes, size_t words)
{
    static uint64_t wrong, wrong_plain, wrong_wait;
    char text[128];
    int pes[MOST];
    shmem_team_t team = SHMEM_TEAM_INVALID;
    shmemx_stream_t stream = NULL, other = NULL;
    struct serve_args a;
    struct plain_args p;
    memset(&a, 0, sizeof a);
    memset(&p, 0, sizeof p);
    if (!start(rank, n, nodes)) {
        expect(false, "the job does not start", rank);
        return 1;
    }
    shmemx_device_text(text, sizeof text);
    if (strncmp(text, "cpu ", 4) != 0) {
        printf("skipped: %s\n", text);
        return SKIP;
    }
    for (int i = 0; i < n; i++)
        pes[i] = i;
    expect_0(shmemx_team_create(pes, n, 1, &team), "shmemx_team_create");
    expect_0(shmemx_device_handle(team, 0, &a.h), "shmemx_device_handle");
    expect_0(shmemx_team_mask_deaths(team, 1), "of a handle that there is");
    expect_0(shmemx_device_handle(team, 1, &p.masked), "a later handle");
    expect_0(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &p.h), "a handle that masks nothing");
    expect_0(shmemx_stream_create(&stream) | shmemx_stream_create(&other), "shmemx_stream_create");
    a.data = (uint64_t *)make(2 * (size_t)n * words + 1);
    a.source = (uint64_t *)make(words + 1);
    a.signal = (uint64_t *)make((size_t)n);
    a.words = words;
    a.counter = (uint64_t *)make(1);
    p.word = (uint64_t *)make(1);
    a.round = &shared->round[rank];
    a.dead = &shared->dead[rank];
    a.last = &shared->last;
    a.wrong = &wrong;
    a.from = 1;
    shmem_barrier_all();
    if (look(&shared->failed) == 0) {
        expect_0(shmemx_launch(SHMEMX_KERNEL(serve), 1, THREADS, 0, &a, sizeof a, stream), "shmemx_launch");
        p.wrong = &wrong_plain;
        expect_0(shmemx_launch(SHMEMX_KERNEL(give_up), 1, THREADS, 0, &p, sizeof p, other), "shmemx_launch");
        p.wrong = &wrong_wait;
        expect_0(shmemx_launch(SHMEMX_KERNEL(wait_on), 1, THREADS, 0, &p, sizeof p, NULL), "shmemx_launch");
        expect(shmemx_stream_synchronize(other) != 0, "a kernel gave up, and synchronize returned", 0);
        expect(shmemx_stream_synchronize(stream) != 0, "the job is broken, and synchronize returned", 0);
    }
    expect_0(shmemx_stream_destroy(stream) | shmemx_stream_destroy(other), "shmemx_stream_destroy");
    tell(&shared->done[rank], 1);
    for (int pe = 0; pe < n; pe++) /* a PE that leaves is gone, too */
        while (look(&shared->done[pe]) == 0 && look(&shared->failed) == 0)
            nap();
    expect_0(shmemx_leave(), "shmemx_leave");
    expect_0((long long)wrong, "what the service found");
    expect_0((long long)wrong_plain, "what the kernel that gives up found");
    expect_0((long long)wrong_wait, "what the kernel that waits for the end found");
    return look(&shared->failed) != 0;
}

/* ---- the parent ---- */

static pid_t pids[MOST];

/* False: it was too long. */
static bool await(int n, const uint64_t *words, uint64_t value, double limit, const char *what)
{
    double begin = seconds();
    for (int pe = 0; pe < n; pe++)
        while (pids[pe] > 0 && look(&words[pe]) < value && look(&shared->failed) == 0) {
            expect(seconds() - begin < limit, what, pe);
            siginfo_t end;
            memset(&end, 0, sizeof end);
            if (waitid(P_PID, (id_t)pids[pe], &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != 0)
                return false; /* it skips, or has failed */
            nap();
        }
    return look(&shared->failed) == 0;
}

static uint64_t largest_round(int n)
{
    uint64_t round = 0;
    for (int pe = 0; pe < n; pe++)
        if (pids[pe] > 0 && look(&shared->round[pe]) > round)
            round = look(&shared->round[pe]);
    return round;
}

static void kill_most(int n)
{
    if (!await(n, shared->round, ROUNDS, LIMIT_S, "rounds before the first death, of PE"))
        return;
    for (uint64_t dead = 1; dead + 2 <= (uint64_t)n; dead++) {
        int victim = rand() % n;
        while (pids[victim] < 0)
            victim = (victim + 1) % n;
        usleep((useconds_t)(rand() % 20000));
        kill(pids[victim], SIGKILL);
        waitpid(pids[victim], NULL, 0);
        pids[victim] = -1;
        tell(&shared->done[victim], 1);
        if (dead + 3 <= (uint64_t)n && rand() % 2 == 0)
            continue;
        if (!await(n, shared->dead, dead, NOTICE_S, "a death is not noticed by PE") ||
            !await(n, shared->round, largest_round(n) + ROUNDS, LIMIT_S, "rounds after a death, of PE"))
            return;
    }
    tell(&shared->last, largest_round(n) + ROUNDS);
    (void)await(n, shared->done, 1, LIMIT_S, "the service does not end, of PE");
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 3, nodes = argc > 2 ? atoi(argv[2]) : 1, skipped = 0;
    size_t words = argc > 3 ? (size_t)atoi(argv[3]) : 700;
    unsigned seed = getenv("ISO_FAULT_SEED") != NULL ? (unsigned)atoi(getenv("ISO_FAULT_SEED")) : (unsigned)getpid();
    if (n < 3 || n > MOST || nodes < 1 || nodes > n) {
        fprintf(stderr, "usage: outlives PES [NODES [WORDS]], 3..%d, 1..PES\n", MOST);
        return 2;
    }
    shared = (struct shared *)mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    srand(seed);
    self = -1;
    for (int i = 0; i < n; i++)
        if ((pids[i] = fork()) == 0) {
            self = i;
            _exit(run_pe(i, n, nodes, words));
        }
    kill_most(n);
    for (int i = 0, status; i < n; i++) {
        if (look(&shared->failed) != 0 && pids[i] > 0)
            kill(pids[i], SIGKILL);
        if (pids[i] <= 0 || waitpid(pids[i], &status, 0) != pids[i])
            continue;
        skipped |= WIFEXITED(status) && WEXITSTATUS(status) == SKIP;
        expect(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || skipped), "a PE's wait status", status);
    }
    if (look(&shared->failed) != 0)
        fprintf(stderr, "outlives: ISO_FAULT_SEED=%u repeats the sequence\n", seed);
    return look(&shared->failed) != 0 ? 1 : skipped ? SKIP : 0;
}
