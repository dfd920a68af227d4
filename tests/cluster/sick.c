/* SPDX-License-Identifier: MIT */
/* A job that is sick, by the name of its illness; sick.sh, profile.sh and jobs.sh look at it from outside. `sick`:
 * nothing but a start and an end. PEs that come to the end print "pe R of N ok". The rows at the end say what each one
 * does. */
#include <shmem.h>
#include <shmemx.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LATE_US = 100000, ROUNDS = 5, BYTES = 1 << 20 };

static struct {
    int pe, n;
    char *block;      /* [BYTES], symmetric, zeroed */
    long *locks;      /* [2] */
    uint64_t *signal; /* zeroed */
    const char *file;
} self;

/* Arithmetic, not sleep: as a PE that has more to do. */
static void work(double seconds)
{
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9 < seconds);
}

static void be_late(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        usleep(self.pe == 2 ? LATE_US : 0);
        shmem_barrier_all();
    }
}

static void be_uneven(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        usleep(self.pe == 1 ? 3 * LATE_US : LATE_US);
        shmem_barrier_all();
    }
}

static void be_hot(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        shmem_putmem(self.block, self.block + BYTES / 2, 10, (self.pe + 1) % self.n);
        shmem_putmem(self.block + 1000 * self.pe, self.block + BYTES / 2, 1000, 1);
    }
}

static void signal_late(void)
{
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (self.pe != 2) {
            shmem_signal_wait_until(self.signal, SHMEM_CMP_GE, round);
            continue;
        }
        usleep(LATE_US);
        for (int pe = 0; pe < self.n; pe++)
            shmem_uint64_atomic_set(self.signal, round, pe);
    }
}

static void grow(void)
{
    for (int i = 0; i < ROUNDS; i++)
        if (shmem_malloc(BYTES) == NULL)
            shmem_global_exit(1);
}

static void differ(void)
{
    long *cells = (long *)(void *)self.block;
    for (int i = 0; i < 3; i++)
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, cells, cells + 2048, 4);
    if (self.pe == self.n - 1)
        shmem_team_sync(SHMEM_TEAM_WORLD);
    else
        shmem_long_sum_reduce(SHMEM_TEAM_WORLD, cells, cells + 2048, 1024);
    shmem_barrier_all();
    shmem_barrier_all();
    sleep(60);
}

static void take_wrong_root(void)
{
    shmem_broadcastmem(SHMEM_TEAM_WORLD, self.block, self.block + BYTES / 2, 4096, self.pe == 2 ? 2 : 0);
    shmem_barrier_all();
    sleep(60);
}

static void await_file(void)
{
    while (self.pe == 0 && access(self.file, F_OK) != 0)
        continue;
    shmem_barrier_all();
}

static void stop(void)
{
    if (self.pe == 1)
        raise(SIGSTOP);
    shmem_barrier_all();
}

static void cross_locks(void)
{
    if (self.pe < 2) {
        shmem_set_lock(&self.locks[self.pe]);
        usleep(300000);
        shmem_set_lock(&self.locks[1 - self.pe]);
    }
    shmem_barrier_all();
}

static void lose_signal(void)
{
    if (self.pe == 1)
        shmem_signal_wait_until(self.signal, SHMEM_CMP_EQ, 7);
    shmem_barrier_all();
}

/* Until it is killed, or has sent enough. */
static void send_far(void)
{
    int far = (self.pe + self.n / 2) % self.n;
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 20; k++)
            shmem_putmem_nbi(self.block + 64 * k, self.block + BYTES / 2, 64, far);
        shmem_quiet();
    }
}

static void die_with_node(void)
{
    for (int i = 0; i < 200 && self.pe < self.n / 2; i++) {
        shmem_barrier_all();
        usleep(50000);
    }
    shmem_barrier_all();
    work(0.2);
    raise(SIGKILL); /* PEs of the upper half: one node of two */
}

static void part(void)
{
    long *cells = (long *)(void *)self.block;
    shmem_barrier_all();
    if (self.pe == self.n - 1) {
        shmem_team_sync(SHMEM_TEAM_WORLD);
        shmem_signal_wait_until(self.signal, SHMEM_CMP_EQ, 7);
    }
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, cells, cells + 2048, 1024);
    shmem_barrier_all();
}

static void put_to_next(int n)
{
    for (int i = 0; i < n; i++)
        shmem_putmem(self.block, self.block + BYTES / 2, 8, (self.pe + 1) % self.n);
}

static void put_many(void)
{
    put_to_next(2000);
    shmem_barrier_all();
}

static void be_killed(void)
{
    put_to_next(100);
    if (self.pe == self.n - 1)
        raise(SIGKILL);
    shmem_barrier_all();
}

static void put_wrongly(void)
{
    shmem_barrier_all();
    if (self.pe == self.n - 1)
        shmem_putmem(self.block, self.block + BYTES / 2, 8, 99);
    shmem_barrier_all();
}

enum { QUEUED = 3000, ENGINE_BYTES = 1 << 18 };
static struct {
    char *block;           /* [4 * ENGINE_BYTES], symmetric: source, sums, and for puts in two streams */
    uint64_t *signals;     /* [2], symmetric, zeroed */
    shmemx_stream_t on[3]; /* [2]: the default stream */
} device;

static void need(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "[pe %d] sick: %s has failed\n", self.pe, what);
    shmem_global_exit(1);
}

static void start_device(void)
{
    if (shmemx_device_init() != 0) {
        fprintf(stderr, "sick: there is no device\n");
        shmem_global_exit(77);
    }
    device.block = (char *)shmemx_malloc(4 * ENGINE_BYTES, SHMEMX_DEVICE);
    device.signals = (uint64_t *)shmemx_malloc(2 * sizeof *device.signals, SHMEMX_DEVICE);
    need(device.block != NULL && device.signals != NULL, "shmemx_malloc");
    for (int i = 0; i < 2; i++)
        need(shmemx_stream_create(&device.on[i]) == 0, "shmemx_stream_create");
}

static void put_on_stream(size_t bytes, shmemx_stream_t stream)
{
    char *dest = device.block + (stream == device.on[0] ? 2 : 3) * ENGINE_BYTES;
    need(shmemx_putmem_on_stream(dest, device.block, bytes, (self.pe + 1) % self.n, stream) == 0,
         "shmemx_putmem_on_stream");
}

static void await_on_stream(uint64_t *signal, uint64_t value, shmemx_stream_t stream)
{
    need(shmemx_signal_wait_until_on_stream(signal, SHMEM_CMP_GE, value, stream) == 0,
         "shmemx_signal_wait_until_on_stream");
}

static void signal_on_stream(uint64_t *signal, uint64_t value, shmemx_stream_t stream)
{
    need(shmemx_signal_op_on_stream(signal, value, SHMEM_SIGNAL_SET, self.pe, stream) == 0,
         "shmemx_signal_op_on_stream");
}

static void reduce_on_stream(shmemx_stream_t stream)
{
    const shmemx_coll_t sum = {.kind = SHMEMX_ALLREDUCE,
                               .team = SHMEM_TEAM_WORLD,
                               .dest = device.block + ENGINE_BYTES,
                               .source = device.block + ENGINE_BYTES,
                               .type = SHMEMX_FLOAT,
                               .op = SHMEMX_SUM,
                               .nelems = 256};
    need(shmemx_coll_on_stream(&sum, stream) == 0, "shmemx_coll_on_stream");
}

static void use_streams(void)
{
    shmemx_graph_t graph;
    start_device();
    for (int i = 0; i < ROUNDS; i++) {
        reduce_on_stream(device.on[0]);
        put_on_stream(64, device.on[1]);
        put_on_stream(ENGINE_BYTES, device.on[1]);
        need(shmemx_sync_on_stream(SHMEM_TEAM_WORLD, device.on[2]) == 0, "shmemx_sync_on_stream");
        usleep(2000);
    }
    need(shmemx_stream_synchronize(device.on[0]) == 0, "shmemx_stream_synchronize");
    need(shmemx_graph_begin(device.on[0]) == 0, "shmemx_graph_begin");
    reduce_on_stream(device.on[0]);
    put_on_stream(64, device.on[0]);
    need(shmemx_graph_end(device.on[0], &graph) == 0, "shmemx_graph_end");
    for (int i = 0; i < ROUNDS; i++)
        need(shmemx_graph_launch(graph, device.on[0]) == 0, "shmemx_graph_launch");

    /* What is behind the wait is in the queue for LATE_US; the end of the job finds the last put unfinished. */
    await_on_stream(&device.signals[0], 1, device.on[1]);
    put_on_stream(64, device.on[1]);
    usleep(LATE_US);
    signal_on_stream(&device.signals[0], 1, device.on[0]);
    await_on_stream(&device.signals[1], 1, device.on[1]);
    put_on_stream(64, device.on[1]);
    signal_on_stream(&device.signals[1], 1, device.on[0]);
}

static void fill_queue(void)
{
    start_device();
    await_on_stream(&device.signals[0], 1, device.on[1]);
    for (int i = 0; i < QUEUED; i++)
        put_on_stream(64, device.on[1]);
    signal_on_stream(&device.signals[0], 1, device.on[0]);
    need(shmemx_stream_synchronize(device.on[1]) == 0, "shmemx_stream_synchronize");
    put_on_stream(64, device.on[0]);
}

static void hang_on_stream(void)
{
    start_device();
    put_on_stream(64, device.on[0]);
    need(shmemx_stream_synchronize(device.on[0]) == 0, "shmemx_stream_synchronize");
    await_on_stream(&device.signals[0], 1, device.on[1]);
    put_on_stream(64, device.on[1]);
    usleep(LATE_US);
    reduce_on_stream(device.on[0]);
    need(shmemx_stream_synchronize(device.on[0]) == 0, "shmemx_stream_synchronize");
    put_on_stream(64, device.on[0]);
    shmem_barrier_all();
    raise(SIGKILL);
}

static const struct illness {
    const char *name;
    void (*run)(void);
} illnesses[] = {
    {"late", be_late},           /* PE 2 comes late to each barrier */
    {"uneven", be_uneven},       /* PE 1 works three times as long as the others */
    {"hot", be_hot},             /* all put to PE 1 */
    {"signal", signal_late},     /* PE 2 signals late */
    {"grows", grow},             /* all allocate, and free nothing */
    {"differs", differ},         /* the last PE makes another collective than the others do; all wait */
    {"root", take_wrong_root},   /* PE 2 names another root than the others do; all wait */
    {"file", await_file},        /* PE 0 is in user code until argv[2] is there, the others wait */
    {"stop", stop},              /* PE 1 stops itself, the others wait */
    {"locks", cross_locks},      /* PE 0 and 1 each wait for the lock that the other one holds */
    {"lost", lose_signal},       /* PE 1 waits for a signal that no PE sends */
    {"far", send_far},           /* small puts to the other half of the PEs, 20 between two quiets */
    {"puts", put_many},          /* 2000 small puts to the next PE */
    {"killed", be_killed},       /* the last PE, by SIGKILL behind 100 puts; the others wait */
    {"apart", part},             /* as differs, and the last PE waits for a signal that no PE sends */
    {"wrong", put_wrongly},      /* the last PE puts to PE 99 */
    {"streams", use_streams},    /* calls on three streams, a graph, and what waits in a stream */
    {"queue", fill_queue},       /* QUEUED puts behind a wait in a stream */
    {"hangs", hang_on_stream},   /* killed, while a stream waits for a signal that no PE sends */
    {"node", die_with_node},     /* the upper half of the PEs, which is a node, dies */
};

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    size_t n = sizeof illnesses / sizeof illnesses[0], i = 0;
    while (i < n && strcmp(illnesses[i].name, name) != 0)
        i++;
    if (argc > 1 && i == n) {
        fprintf(stderr, "sick: there is no illness \"%s\"\n", name);
        return 2;
    }
    shmem_init();
    self.pe = shmem_my_pe();
    self.n = shmem_n_pes();
    self.block = (char *)shmem_calloc(1, BYTES);
    self.locks = (long *)shmem_calloc(2, sizeof *self.locks);
    self.signal = (uint64_t *)shmem_calloc(1, sizeof *self.signal);
    self.file = argc > 2 ? argv[2] : "";
    if (self.block == NULL || self.locks == NULL || self.signal == NULL)
        shmem_global_exit(1);
    if (argc > 1)
        illnesses[i].run();
    printf("pe %d of %d ok\n", self.pe, self.n);
    fflush(stdout);
    shmem_finalize();
    return EXIT_SUCCESS;
}
