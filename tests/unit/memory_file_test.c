/* SPDX-License-Identifier: MIT */
/* Where the system forbids what a start needs (memory files by seccomp, large files by ulimit -f, /proc), a sentence
 * names the cause and the remedy, and no signal ends the process. Each case is this program anew, under the limit. */
#include "../../include/shmemx.h"
#include "../check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "said.h"

#define MIB ((size_t)1 << 20)

static int global; /* symmetric, where the program's variables could be moved */

/* ---- the limits, of this process and those that it becomes ---- */

static int forbid_memfd(void)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_memfd_create, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) | prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static int limit_files(size_t bytes)
{
    struct rlimit limit = {bytes, bytes};
    return setrlimit(RLIMIT_FSIZE, &limit);
}
static int limit_files_to_1(void) { return limit_files(1 * MIB); }
static int limit_files_to_300(void) { return limit_files(300 * MIB); }

static int hide_proc(void)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return -1;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) | mount("none", "/proc", "tmpfs", 0, NULL);
}

static int no_limit(void) { return 0; }

/* ---- what is tried under them ---- */

static int start(void)
{
    static char text[32768];
    shmem_init();
    shmemx_info_text(text, sizeof text);
    const char *why = strstr(text, "global variables are not symmetric: ");
    fprintf(stderr, "variables: %d %.200s\n", shmem_addr_accessible(&global, 0), why != NULL ? why : "");
    shmem_finalize();
    return 0;
}

/* None of these calls can be done; each returns. */
static int take_memory(void)
{
    shmemx_stream_t stream;
    shmem_init();
    void *pages = mmap(NULL, 400 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(pages != MAP_FAILED && shmemx_buffer_register(pages, 400 * MIB, NULL) != 0);
    if (shmemx_device_init() == 0) {
        CHECK_EQ(shmemx_stream_create(&stream), 0);
        CHECK(shmemx_malloc(400 * MIB, SHMEMX_DEVICE) == NULL);
        CHECK_EQ(shmemx_stream_destroy(stream), 0);
    }
    shmem_finalize();
    return check_self.failures != 0;
}

static int doctor(void)
{
    static char text[16384];
    shmemx_doctor_text(text, sizeof text);
    fputs(text, stderr);
    return 0;
}

static int register_pages(void)
{
    shmem_init();
    void *pages = mmap(NULL, 1 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && shmemx_buffer_register(pages, 1 * MIB, NULL) != 0);
    shmem_finalize();
    return check_self.failures != 0;
}

/* ---- the cases ---- */

static const struct limited {
    const char *name;
    int (*limit)(void);
    int (*run)(void);
    int status;
    const char *says[3];
} cases[] = {
    {"no limit", no_limit, start, 0, {"variables: 1"}},
    {"memfd_create forbidden", forbid_memfd, start, 1,
     {"shmem_init: a heap of", "memfd_create failed: Operation not permitted; allow it in the seccomp rules"}},
    {"the doctor then", forbid_memfd, doctor, 0, {"problem: memory cannot be shared", "memfd_create failed: Operation"}},
    {"files of 1 MiB", limit_files_to_1, start, 1,
     {"shmem_init: a heap of", "at most 1048576 bytes", "raise ulimit -f"}},
    {"the doctor with them", limit_files_to_1, doctor, 0, {"problem: memory cannot be shared", "raise ulimit -f"}},
    {"files of 300 MiB", limit_files_to_300, take_memory, 0,
     {"shmemx_buffer_register: sharing 419430400 bytes", "at most 314572800 bytes", "raise ulimit -f"}},
    {"no /proc", hide_proc, start, 0, {"variables: 0", "not symmetric: /proc/self/maps cannot be read"}},
    {"the cause then", hide_proc, register_pages, 0,
     {"cannot be registered: /proc/self/maps cannot be read", "mount /proc"}},
};

static void run_case(const struct limited *c, const char *program)
{
    struct said said;
    char number[12];
    int status = 0;
    snprintf(number, sizeof number, "%d", (int)(c - cases));
    listen(&said);
    pid_t child = fork();
    if (child == 0) {
        if (c->limit() != 0)
            _exit(77);
        execl(program, program, number, (char *)NULL);
        _exit(127);
    }
    waitpid(child, &status, 0);
    const char *text = heard(&said);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        fprintf(stderr, "left out: %s (not allowed here)\n", c->name);
        return;
    }
    CHECK_NAMED(WIFEXITED(status) && WEXITSTATUS(status) == c->status, c->name);
    for (int i = 0; i < 3 && c->says[i] != NULL; i++)
        if (!CHECK_NAMED(strstr(text, c->says[i]) != NULL, c->says[i]))
            fprintf(stderr, "%s; seen: %s\n", c->name, text);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return cases[atoi(argv[1])].run();
    setenv("SHMEM_SYMMETRIC_SIZE", "16m", 1); /* 144 MiB beside it */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(&cases[i], argv[0]);
    return check_self.failures != 0;
}
