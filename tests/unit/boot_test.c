/* SPDX-License-Identifier: MIT */
/* Which bootstrap is chosen and what is refused; then this program again, under every launcher that is here, as a job
 * that runs the collectives of the bootstrap over PMIx: `boot_test job` gathers and opens a second time, `boot_test
 * die` loses a PE on the way, `boot_test abort` ends by PMIx_Abort. Each case runs in a process of its own, since the
 * environment and PMIx cannot be undone. */
#include "../../bootstrap/env.h"
#include "../check.h"

#include "../../bootstrap/boot.h"
#include "../../bootstrap/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { BLOCK_MOST = 20000, JOB_PES = 3 };

static const unsigned char one_id[ISO_UID_BYTES] = "127.0.0.1:5:000102030405060708090a0b0c0d0e0f";

/* ---- the choice ---- */

struct choice {
    const char *what;
    const char *variables[4]; /* "NAME=value" */
    const unsigned char *id;  /* attributes of a job of one PE; NULL: none */
    int expected;             /* result of open */
    const char *launcher;     /* when it is 0 */
    const char *printed;      /* a part of what is printed, or NULL */
};

#define ID_TEXT "127.0.0.1:5:000102030405060708090a0b0c0d0e0f"
#define NO_SERVER "PMIX_SERVER_URI41=x.1;tcp4://127.0.0.1:9"

static const struct choice choices[] = {
    {"nothing set", {NULL}, NULL, 0, "none", NULL},
    {"mpirun without PMIx",
     {"OMPI_COMM_WORLD_SIZE=4"},
     NULL,
     -EPROTO,
     NULL,
     "started 4 processes (OMPI_COMM_WORLD_SIZE)"},
    {"hydra", {"PMI_SIZE=2"}, NULL, -EPROTO, NULL, "started 2 processes (PMI_SIZE)"},
    {"srun without PMIx",
     {"SLURM_STEP_NUM_TASKS=8"},
     NULL,
     -EPROTO,
     NULL,
     "started 8 processes (SLURM_STEP_NUM_TASKS)"},
    {"torchrun", {"RANK=0", "WORLD_SIZE=4"}, NULL, 0, "none", "each is PE 0 of 1"},
    {"a batch script", {"SLURM_NTASKS=8"}, NULL, 0, "none", NULL},
    {"a launcher of one", {"OMPI_COMM_WORLD_SIZE=1", "PMI_SIZE=1", "SLURM_STEP_NUM_TASKS=1"}, NULL, 0, "none", NULL},
    {"one-PE jobs on request", {"PMI_SIZE=4", "SHMEM_BOOT=single"}, NULL, 0, "none", NULL},
    {"pmix on request", {"SHMEM_BOOT=pmix"}, NULL, -EINVAL, NULL, "PMIX_NAMESPACE is not set"},
    {"uid on request", {"SHMEM_BOOT=uid"}, NULL, -EINVAL, NULL, "SHMEM_UID is not set"},
    {"single against attributes", {"SHMEM_BOOT=single"}, one_id, -EINVAL, NULL, "the program gave a unique id"},
    {"attributes", {NULL}, one_id, 0, "unique id", NULL},
    {"attributes before PMIx", {"PMIX_NAMESPACE=x", "SHMEM_LOG=debug"}, one_id, 0, "unique id", NULL},
    {"attributes before the environment", {"SHMEM_UID=x"}, one_id, 0, "unique id", NULL},
    {"attributes in a launcher without PMIx", {"PMI_SIZE=4"}, one_id, 0, "unique id", NULL},
    {"environment", {"SHMEM_UID=" ID_TEXT, "SHMEM_RANK=0", "SHMEM_SIZE=1"}, NULL, 0, "unique id", NULL},
    {"environment in a launcher without PMIx",
     {"SHMEM_UID=" ID_TEXT, "SHMEM_RANK=0", "SHMEM_SIZE=1", "PMI_SIZE=4"},
     NULL,
     0,
     "unique id",
     NULL},
    {"environment before PMIx on request",
     {"SHMEM_BOOT=uid", "PMIX_NAMESPACE=x", "SHMEM_UID=x"},
     NULL,
     -EINVAL,
     NULL,
     "SHMEM_RANK and SHMEM_SIZE"},
    {"PMIx before the environment",
     {"PMIX_NAMESPACE=x", "SHMEM_UID=" ID_TEXT, "SHMEM_LOG=debug"},
     NULL,
     -ECONNREFUSED,
     NULL,
     "bootstrap uid would apply too (SHMEM_UID is set)"},
    {"PMIx without rank", {"PMIX_NAMESPACE=job7"}, NULL, -ECONNREFUSED, NULL, "names PMIx job \"job7\""},
    {"PMIx without server",
     {"PMIX_NAMESPACE=job7", "PMIX_RANK=0", NO_SERVER},
     NULL,
     -ECONNREFUSED,
     NULL,
     "its server cannot be used"},
};

static void clear_launchers(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "PMIX_NAMESPACE"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    for (const struct env_row *row = iso_env_rows; row->name; row++)
        unsetenv(row->name);
}

static int open_boot(struct boot *boot, const struct boot_attr *attr, struct env *env)
{
    char error[256] = "";
    enum log_level level = LOG_WARN;
    CHECK_EQ_NAMED(iso_env_read(env, error, sizeof error), 0, error);
    (void)iso_log_parse_level(env->log, &level);
    iso_log_set_level(level);
    return iso_boot_open(boot, attr, env);
}

static void use_alone(struct boot *boot, const char *launcher)
{
    char mine[] = "block", all[sizeof mine] = "";
    CHECK(boot->rank == 0 && boot->size == 1 && *boot->host != '\0');
    CHECK_NAMED(strcmp(boot->launcher, launcher) == 0, boot->launcher);
    CHECK_EQ(iso_boot_allgather(boot, mine, sizeof mine, all), 0);
    CHECK(strcmp(mine, all) == 0);
    CHECK_EQ(iso_boot_allgather(boot, NULL, 0, NULL), 0);
    CHECK_EQ(iso_boot_barrier(boot), 0);
}

static int try_choice(const struct choice *choice)
{
    struct boot boot = {.ops = NULL};
    struct boot_attr attr = {.id = choice->id, .rank = 0, .size = 1};
    struct env env;
    clear_launchers();
    for (int i = 0; i < 4 && choice->variables[i]; i++)
        putenv((char *)(uintptr_t)choice->variables[i]);
    CHECK_EQ_NAMED(open_boot(&boot, &attr, &env), choice->expected, choice->what);
    if (choice->expected == 0) {
        use_alone(&boot, choice->launcher);
        CHECK_EQ(iso_boot_open(&boot, &attr, &env), 0); /* still open: the same again */
        use_alone(&boot, choice->launcher);
    }
    iso_boot_close(&boot);
    iso_boot_close(&boot);
    iso_boot_close(NULL);
    CHECK(boot.ops == NULL);
    return check_self.failures;
}

/* In a child whose stderr is read. */
static void check_choice(const struct choice *choice)
{
    int ends[2], status = -1;
    static char text[65536];
    size_t got = 0;
    ssize_t n;
    CHECK_EQ(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        _exit(try_choice(choice) != 0);
    }
    close(ends[1]);
    while (got < sizeof text - 1 && (n = read(ends[0], text + got, sizeof text - 1 - got)) > 0)
        got += (size_t)n;
    text[got] = '\0';
    close(ends[0]);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    bool ok = CHECK_EQ_NAMED(status, 0, choice->what);
    if (choice->printed)
        ok = CHECK_NAMED(strstr(text, choice->printed) != NULL, choice->what) && ok;
    else
        ok = CHECK_NAMED(choice->expected != 0 || strstr(text, "warning") == NULL, choice->what) && ok;
    if (!ok)
        fprintf(stderr, "---- printed was:\n%s----\n", text);
}

/* ---- the job that a launcher runs ---- */

static void gather(struct boot *boot, unsigned call, size_t len)
{
    unsigned char *mine = (unsigned char *)malloc(BLOCK_MOST);
    unsigned char *all = (unsigned char *)malloc((size_t)BLOCK_MOST * (size_t)boot->size);
    check_fill(mine, len, boot->rank, 0, call);
    if (!CHECK_EQ(iso_boot_allgather(boot, mine, len, all), 0))
        exit(CHECK_FAILED);
    for (int r = 0; r < boot->size; r++)
        CHECK_FILLED(all + (size_t)r * len, len, r, 0, call);
    free(mine);
    free(all);
}

static void open_job(struct boot *boot)
{
    struct boot_attr attr = {.id = NULL};
    struct env env;
    if (!CHECK_EQ(open_boot(boot, &attr, &env), 0))
        exit(CHECK_FAILED);
    check_self.pe = boot->rank;
    CHECK_EQ(boot->size, JOB_PES);
    CHECK(boot->rank >= 0 && boot->rank < boot->size && *boot->host != '\0' && *boot->launcher != '\0');
}

static int run_job(void)
{
    static const size_t lengths[] = {1, 0, 100, BLOCK_MOST};
    struct boot boot = {.ops = NULL};
    open_job(&boot);
    for (unsigned i = 0; i < 4; i++)
        gather(&boot, i, lengths[i]);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(iso_boot_barrier(&boot), 0);
    open_job(&boot); /* the second shmem_init */
    gather(&boot, 4, 77);
    pid_t pid = fork();
    if (pid == 0) { /* a child that ends must not say good-bye to the launcher for its parent */
        iso_boot_close(&boot);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
    struct env env;
    CHECK_EQ(open_boot(&boot, &(struct boot_attr){.id = one_id, .rank = 0, .size = 1}, &env), 0);
    use_alone(&boot, "unique id");
    open_job(&boot); /* back to PMIx, which stayed open */
    gather(&boot, 5, 78);
    if (boot.rank == 0)
        printf("job of %d on %s by %s\n", boot.size, boot.host, boot.launcher);
    iso_boot_close(&boot);
    return check_self.failures != 0;
}

static int run_dying_job(void)
{
    struct boot boot = {.ops = NULL};
    open_job(&boot);
    gather(&boot, 0, 10);
    if (boot.rank == 1)
        raise(SIGKILL);
    char mine = 0, all[JOB_PES];
    CHECK(iso_boot_allgather(&boot, &mine, 1, all) != 0); /* unless the launcher kills us first */
    return 9;
}

static int run_aborting_job(void)
{
    struct boot boot = {.ops = NULL};
    open_job(&boot);
    gather(&boot, 0, 10);
    if (boot.rank == 1) {
        iso_boot_abort(&boot, 23, "because");
        _exit(23);
    }
    sleep(20); /* the launcher must end this */
    return 0;
}

/* ---- the launchers that are here ---- */

static bool is_in_path(const char *program)
{
    char command[512];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return system(command) == 0;
}

static int launch(const char *launcher, const char *self, const char *mode, const char *extra)
{
    char command[2048];
    snprintf(command, sizeof command, "%s timeout 60 %s -n %d '%s' %s </dev/null", extra, launcher, JOB_PES, self,
             mode);
    fflush(stdout);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void test_launcher(const char *launcher, const char *self)
{
    printf("under %s\n", launcher);
    CHECK_EQ_NAMED(launch(launcher, self, "job", ""), 0, launcher);
    CHECK_EQ_NAMED(launch(launcher, self, "abort", ""), 23, launcher);
    /* its own lines are no part of this test */
    int died = launch(launcher, self, "die", "exec 2>/dev/null;");
    CHECK_NAMED(died == 137 || died == 9, launcher);
}

static void test_launchers(const char *self)
{
    char oshrun[1024];
    const char *slash = strrchr(self, '/');
    snprintf(oshrun, sizeof oshrun, "%.*s/oshrun", slash ? (int)(slash - self) : 1, slash ? self : ".");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    bool mpirun = is_in_path("mpirun");
    if (access(oshrun, X_OK) == 0)
        test_launcher(oshrun, self);
    else
        fprintf(stderr, "no oshrun beside this program: not tried\n");
    if (mpirun)
        test_launcher("mpirun --oversubscribe", self);
    else
        fprintf(stderr, "no mpirun here: not tried\n");
}

int main(int argc, char **argv)
{
    alarm(200); /* a hang is a failure */
    if (argc > 1 && strcmp(argv[1], "job") == 0)
        return run_job();
    if (argc > 1 && strcmp(argv[1], "die") == 0)
        return run_dying_job();
    if (argc > 1 && strcmp(argv[1], "abort") == 0)
        return run_aborting_job();
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        check_choice(&choices[i]);
    clear_launchers();
    test_launchers(argv[0]);
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
