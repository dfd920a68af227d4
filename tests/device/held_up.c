/* SPDX-License-Identifier: MIT */
/* The proxy of PE 0 is held up while a kernel waits for a put by the ring. held_up.sh reads what is said meanwhile.
 * Either a child traces the thread for some seconds, and the put is done in the end. Or, with SHMEM_TEST_VENDOR=1 and
 * on GPUs, a call of the vendor's waits for kernels, so for ever, and SHMEM_TIMEOUT_ABORT ends the job. */
#include "device_test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELD_S = 6, SKIPPED = 1 };

struct put_args {
    shmemd_t h;
    uint64_t *dest, *go; /* symmetric */
};

SHMEMD_KERNEL(put_word, struct put_args, a)
{
    shmemd_uint64_wait_until(a.h, a.go, SHMEM_CMP_EQ, 1);
    shmemd_uint64_p(a.h, a.dest, 7, 1);
    shmemd_quiet(a.h);
}

/* 0: there is none. */
static pid_t thread_named(const char *name)
{
    char path[300], seen[32];
    pid_t found = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK_OR_EXIT(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL && found == 0;) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *file = task->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (file != NULL && fgets(seen, sizeof seen, file) != NULL && strncmp(seen, name, strlen(name)) == 0)
            found = (pid_t)atoi(task->d_name);
        if (file != NULL)
            fclose(file);
    }
    closedir(tasks);
    return found;
}

/* The child: nothing but system calls. */
static void hold(pid_t thread, int from_parent, int to_parent)
{
    static const char released[] = "held_up: released\n";
    char byte = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)!read(from_parent, &byte, 1); /* the parent has allowed it */
    bool holds = ptrace(PTRACE_SEIZE, thread, NULL, NULL) == 0 && ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 &&
                 waitpid(thread, NULL, __WALL) == thread;
    (void)!write(to_parent, holds ? "y" : "n", 1);
    if (!holds)
        _exit(1);
    sleep(HELD_S);
    (void)!write(2, released, sizeof released - 1);
    ptrace(PTRACE_DETACH, thread, NULL, NULL);
    _exit(0);
}

/* False: this machine lets no process trace another one. */
static bool begin_holding(pid_t *child)
{
    int to_child[2], to_parent[2];
    char holds = 'n';
    pid_t thread = thread_named("isomer-proxy");
    CHECK_OR_EXIT(thread != 0 && pipe(to_child) == 0 && pipe(to_parent) == 0);
    fflush(NULL);
    *child = fork();
    if (*child == 0)
        hold(thread, to_child[0], to_parent[1]);
    prctl(PR_SET_PTRACER, *child);
    CHECK_EQ(write(to_child[1], "g", 1), 1);
    CHECK_EQ(read(to_parent[0], &holds, 1), 1);
    return holds == 'y';
}

/* ---- the vendor's call ---- */

/* One that frees memory; and memory for it. */
static bool open_vendor(int (**give_back)(void *), void **memory)
{
    char text[200];
    int (*take)(void **, size_t) = NULL;
    shmemx_device_text(text, sizeof text);
    bool is_cuda = strncmp(text, "cuda", 4) == 0;
    if (!is_cuda && strncmp(text, "hip", 3) != 0)
        return false;
    void *library = is_cuda ? dlopen("libcuda.so.1", RTLD_NOW) : RTLD_DEFAULT;
    void *taker = dlsym(library, is_cuda ? "cuMemAlloc_v2" : "hipMalloc");
    void *giver = dlsym(library, is_cuda ? "cuMemFree_v2" : "hipFree");
    memcpy(&take, &taker, sizeof taker);
    memcpy(give_back, &giver, sizeof giver);
    return CHECK(taker != NULL && giver != NULL) && CHECK_EQ(take(memory, 4096), 0);
}

static int test_vendor(const struct put_args *args)
{
    struct put_args a = *args;
    const struct timespec half_a_second = {0, 500000000};
    int (*give_back)(void *) = NULL;
    void *memory = NULL;
    if (!open_vendor(&give_back, &memory))
        return CHECK_SKIP("the CPU has no such call");
    shmem_barrier_all();
    if (check_self.pe == 1) {
        nanosleep(&half_a_second, NULL); /* PE 0 is in the call then */
        shmem_uint64_p(a.go, 1, 0);
        sleep(30); /* and not in the barrier, whose report would end the job first */
    }
    if (check_self.pe == 0) {
        shmemx_stream_t stream = NULL;
        CHECK_EQ(shmemx_stream_create(&stream), 0);
        DEVICE_LAUNCH(put_word, 1, 1, a, stream);
        give_back(memory);
    }
    shmem_barrier_all();
    return CHECK_DONE();
}

static int test_main(void)
{
    CHECK_INIT();
    if (shmemx_device_init() != 0)
        return CHECK_SKIP("no device");
    CHECK_OR_EXIT(check_self.npes >= 2);
    struct put_args a;
    memset(&a, 0, sizeof a);
    a.dest = (uint64_t *)shmemx_calloc(2, sizeof(uint64_t), SHMEMX_DEVICE);
    a.go = a.dest + 1;
    int *told = (int *)shmem_calloc(1, sizeof(int));
    CHECK_OR_EXIT(a.dest != NULL && told != NULL && shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h) == 0);
    if (device_flag("SHMEM_TEST_VENDOR"))
        return test_vendor(&a);
    shmem_uint64_p(a.go, 1, check_self.pe);
    pid_t child = 0;
    if (check_self.pe == 0) {
        bool holds = begin_holding(&child);
        for (int pe = 0; pe < check_self.npes; pe++)
            shmem_int_p(told, holds ? 0 : SKIPPED, pe);
    }
    shmem_barrier_all();
    if (*told == SKIPPED)
        return CHECK_SKIP("a child may not trace its parent here");
    if (check_self.pe == 0) {
        DEVICE_RUN(put_word, 1, 1, a);
        CHECK_EQ(waitpid(child, NULL, 0), child);
    }
    shmem_barrier_all();
    if (check_self.pe == 1) {
        uint64_t seen = 0;
        device_read(&seen, a.dest, sizeof seen);
        CHECK_EQ(seen, 7);
    }
    shmem_barrier_all();
    shmem_free(told);
    shmemx_free(a.dest);
    return CHECK_DONE();
}
CHECK_MAIN(test_main)
