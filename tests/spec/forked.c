/* SPDX-License-Identifier: MIT */
/* A child that a PE forks has no part in the job: whatever it calls is refused with a sentence and ends the child
 * alone, however it exits nothing happens to the job, and what it opens, under the numbers of its parent's descriptors,
 * is its own. `forked uid` makes a job of two PEs by itself, where no launcher stands between a PE and the others. */
#include "../check.h"

#include <fcntl.h>
#include <sys/resource.h>

static int *heap;
static long global = 5;

static void call_my_pe(void) { (void)shmem_my_pe(); }
static void call_put(void) { shmem_int_p(heap, 1, 0); }
static void call_put_global(void) { shmem_long_p(&global, 1, 0); }
static void call_barrier(void) { shmem_barrier_all(); }
static void call_wait(void) { shmem_int_wait_until(heap, SHMEM_CMP_EQ, 77); }
static void call_malloc(void) { (void)shmem_malloc(8); }
static void call_quiet(void) { shmem_quiet(); }
static void call_reduce(void) { (void)shmem_int_sum_reduce(SHMEM_TEAM_WORLD, heap + 1, heap, 1); }
static void call_team_sync(void) { (void)shmem_team_sync(SHMEM_TEAM_WORLD); }
static void call_lock(void) { shmem_set_lock(&global); }
static void call_register(void)
{
    static char bytes[100];
    (void)shmemx_buffer_register(bytes, sizeof(bytes), NULL);
}
static void call_init(void) { shmem_init(); }
static void call_init_thread(void)
{
    int provided;
    (void)shmem_init_thread(SHMEM_THREAD_SINGLE, &provided);
}
static void call_finalize(void) { shmem_finalize(); }
static void call_global_exit(void) { shmem_global_exit(9); }

struct call {
    const char *name;
    void (*run)(void);
};
static const struct call calls[] = {
    {"shmem_my_pe", call_my_pe},
    {"shmem_int_p", call_put},
    {"shmem_long_p", call_put_global},
    {"shmem_barrier_all", call_barrier},
    {"shmem_int_wait_until", call_wait},
    {"shmem_malloc", call_malloc},
    {"shmem_quiet", call_quiet},
    {"shmem_int_sum_reduce", call_reduce},
    {"shmem_team_sync", call_team_sync},
    {"shmem_set_lock", call_lock},
    {"shmemx_buffer_register", call_register},
    {"shmem_init", call_init},
    {"shmem_init_thread", call_init_thread},
    {"shmem_finalize", call_finalize},
    {"shmem_global_exit", call_global_exit},
};

/* Files under the numbers that were the parent's connections: what is sent there ends up nowhere. */
static void reuse_descriptors(void)
{
    for (int i = 0; i < 8; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            _exit(3);
}

static void child(const void *call)
{
    alarm(30); /* a hang is a failure */
    reuse_descriptors();
    ((const struct call *)call)->run();
    _exit(2); /* the call went through */
}

static void check_call(const struct call *call)
{
    char said[2048], begin[128];
    CHECK_EQ_NAMED(check_forked(child, call, said, sizeof(said)), 1, call->name);
    snprintf(begin, sizeof(begin), "%s: called in a forked child of a PE", call->name);
    if (!CHECK_NAMED(strstr(said, begin) != NULL && strchr(said, '\n') == said + strlen(said) - 1, call->name))
        fprintf(stderr, "expected one line with \"%s\", seen: %s\n", begin, said);
}

/* Exit handlers and destructors of the library run in it. */
static void check_exit(int wanted)
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        int initialized = 1;
        shmem_query_initialized(&initialized);
        exit(initialized ? 99 : wanted);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), wanted);
}

/* The library needs descriptors to give a child its own copy of the symmetric variables. */
static void check_without_descriptors(void)
{
    struct rlimit all, none;
    int status = 0, next = dup(STDERR_FILENO);
    bool symmetric = shmem_addr_accessible(&global, 0) != 0;
    close(next);
    getrlimit(RLIMIT_NOFILE, &all);
    none = all;
    none.rlim_cur = (rlim_t)next;
    fflush(NULL);
    setrlimit(RLIMIT_NOFILE, &none);
    pid_t pid = fork();
    if (pid == 0) {
        global = 6;
        _exit(0);
    }
    setrlimit(RLIMIT_NOFILE, &all);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), symmetric ? 125 : 0);
    CHECK_EQ(global, 5);
}

static int test(void)
{
    check_started();
    heap = (int *)shmem_calloc(2, sizeof(*heap));
    CHECK_OR_EXIT(heap != NULL);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (check_self.pe == (int)i % check_self.npes)
            check_call(&calls[i]);
        shmem_barrier_all();
    }
    check_exit(0);
    check_exit(4);
    check_without_descriptors();
    shmem_barrier_all();
    CHECK_EQ(*heap, 0);
    CHECK_EQ(global, 5);
    return CHECK_DONE();
}

/* ---- a job by unique id, in processes of this one, which is no PE ---- */

enum { RANKS = 2 };

/* A child of a process whose job has ended begins one of its own, which a clean exit ends. */
static int check_after_end(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        shmemx_uniqueid_t id;
        shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
        attr.size = 1;
        attr.id = &id;
        if (shmemx_get_uniqueid(&id) != 0 || shmemx_init_attr(&attr) != 0)
            exit(CHECK_FAILED);
        shmem_long_p(&global, 6, 0);
        exit(global == 6 ? CHECK_PASSED : CHECK_FAILED);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && global == 5 ? CHECK_PASSED : CHECK_FAILED;
}

static int run_rank(int rank, int ends[2])
{
    shmemx_uniqueid_t id;
    if (rank == 0 && (shmemx_get_uniqueid(&id) != 0 || write(ends[1], &id, sizeof(id)) != (ssize_t)sizeof(id)))
        return CHECK_FAILED;
    if (rank != 0)
        close(ends[1]); /* the end of the other's is the end of the pipe */
    if (rank != 0 && read(ends[0], &id, sizeof(id)) != (ssize_t)sizeof(id))
        return CHECK_FAILED;
    shmemx_init_attr_t attr = SHMEMX_INIT_ATTR;
    attr.rank = rank;
    attr.size = RANKS;
    attr.id = &id;
    int rc = shmemx_init_attr(&attr) == 0 ? test() : CHECK_FAILED;
    return rc == CHECK_PASSED ? check_after_end() : rc;
}

static int run_ranks(void)
{
    int ends[2], bad = 0;
    if (pipe(ends) != 0)
        return CHECK_FAILED;
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t pid = fork();
        if (pid == 0)
            exit(run_rank(rank, ends));
        bad |= pid < 0;
    }
    close(ends[0]);
    close(ends[1]);
    for (int i = 0, status; i < RANKS; i++)
        bad |= wait(&status) < 0 || status != 0;
    return bad ? CHECK_FAILED : CHECK_PASSED;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "uid") == 0)
        return run_ranks();
    shmem_init();
    return test();
}
