/* SPDX-License-Identifier: MIT */
/* The PMIx client: mpirun, srun --mpi=pmix, prterun, oshrun.
 * An allgather is a put, a fence that collects data, and a look-up per peer; of many PEs, rank 0 looks up all, and puts
 * a list of what it found, which the others look up behind a second fence. PMIx is opened once
 * per process and closed at exit (after a second PMIx_Init fences fail now and then), whatever the number of
 * shmem_init; MPI may use it too. No default event handler: it would receive nothing. */
#include "boot.h"
#include "env.h"

#include "library.h"
#include "log.h"
#include "thread.h"

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { VERSION_BYTES = 16 };

#define OSHRUN_JOB "oshrun-" /* how the names of its jobs begin */

/* Keys of gathers: a PE that enters gather k + 2 has left gather k + 1, so all have what they need of gather k. More
 * keys would make each start slower than the last, since PMIx moves all that a PE has ever put. */
enum { KEYS = 2 };
#define LIST_KEY "iso.list" /* written between the two fences of a gather, and read behind the second */

/* Up to so many PEs each one asks for the value of each other, which needs one fence only. */
enum { DIRECT_MOST = 16 };

/* In front of every value, so that another build of the library is found before its bytes are misread: the first three
 * fields never move. */
struct stamp {
    uint32_t protocol;
    uint32_t len; /* of what follows */
    char version[VERSION_BYTES];
    uint32_t gather; /* struct client.gathers: an older value is told from the one that is meant */
};

/* libpmix, loaded when a launcher that speaks PMIx has started this process: another process, and a program that embeds
 * the library, needs none. The process may use it too (MPI): the same file is the same library, so both are one client.
 * These functions are in every version from 4 on; what later headers have made functions of as well (the copies and ends
 * of values) is done here. */
#define PMIX_FUNCTIONS(X)      \
    X(init, PMIx_Init)         \
    X(finalize, PMIx_Finalize) \
    X(get, PMIx_Get)           \
    X(put, PMIx_Put)           \
    X(commit, PMIx_Commit)     \
    X(fence_nb, PMIx_Fence_nb) \
    X(abort, PMIx_Abort)       \
    X(error_string, PMIx_Error_string)

struct pmix_library {
    void *handle; /* NULL: not loaded */
#define X(field, name) __typeof__(&name) field;
    PMIX_FUNCTIONS(X)
#undef X
};

/* One client per process, as PMIx itself: the only state of this file that does not hang off struct boot. */
static struct client {
    struct pmix_library pmix;
    pmix_proc_t me;
    pid_t opened_by;  /* 0: not open. A forked child is no client and must not say good-bye for its parent */
    unsigned gathers; /* allgathers so far, equal on all ranks */
    double patience;  /* SHMEM_BOOT_TIMEOUT; 0: for ever */
    bool gives_up;    /* a fence that lasts longer is an error; else it is reported */
} client;

/* A fence under way: the callback comes from a thread of PMIx. */
struct fence {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool done;
    pmix_status_t status;
};

static bool applies(const struct boot_attr *attr, const struct env *env, const char **why)
{
    (void)env;
    /* Without a launcher PMIx_Init fails too, but takes 15 ms to find out. */
    bool set = getenv("PMIX_NAMESPACE") != NULL;
    *why = attr->id ? "the program gave a unique id" : set ? "PMIX_NAMESPACE is set" : "PMIX_NAMESPACE is not set";
    return set && !attr->id;
}

/* ---- values: what the macros of pmix.h do, of which later versions have made functions of libpmix ---- */

/* Strings and byte objects are all that is asked for and has memory of its own. */
static void release(pmix_value_t *value)
{
    if (value == NULL)
        return;
    if (value->type == PMIX_STRING)
        free(value->data.string);
    else if (value->type == PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
    free(value);
}

/* A wish that is true or false, or a scope. */
static pmix_info_t wish(const char *key, pmix_data_type_t type, int value)
{
    pmix_info_t info;
    memset(&info, 0, sizeof info);
    snprintf(info.key, sizeof info.key, "%s", key);
    info.value.type = type;
    if (type == PMIX_BOOL)
        info.value.data.flag = value != 0;
    else
        info.value.data.scope = (pmix_scope_t)value;
    return info;
}

/* ---- open and close ---- */

/* A program that a PE starts, by system() for instance, inherits the environment, and with it the PE's place in the
 * job. PMIx would take it for that PE, and all would wait for ever. So a PE leaves its process in MARK. */
#define MARK "ISOMER_PE" /* NAMESPACE.RANK:PID */

static int check_place(void)
{
    const char *mark = getenv(MARK), *space = getenv("PMIX_NAMESPACE"), *rank = getenv("PMIX_RANK");
    char place[PMIX_MAX_NSLEN + 16];
    int len = snprintf(place, sizeof place, "%s.%s:", space ? space : "", rank ? rank : "");
    if (mark == NULL || strncmp(mark, place, (size_t)len) != 0 || atoi(mark + len) == (int)getpid())
        return 0;
    log_error("shmem_init: pe %s (pid %s) of this job has started this process, which cannot be that PE as well; start "
              "its program by oshrun, or set SHMEM_BOOT=single for it",
              rank, mark + len);
    return -EBUSY;
}

static int init_client(void)
{
    static const struct library_function functions[] = {
#define X(field, name) {#name, offsetof(struct pmix_library, field)},
        PMIX_FUNCTIONS(X)
#undef X
        {NULL, 0}};
    static const struct library_needs needs = {
        "libpmix.so.2", ISO_PMIX_FOLDER, "a launcher started this process by PMIx (PMIX_NAMESPACE is set)",
        "the package libpmix2, or start the job by a unique id", "PMIx 4 or later", functions};
    if (client.opened_by != 0)
        return 0;
    int loaded = check_place();
    if (loaded == 0 && client.pmix.handle == NULL)
        loaded = iso_library_open(&needs, &client.pmix);
    if (loaded != 0)
        return loaded;
    /* PMIx warns, once per process, when it was built without a compression library. */
    setenv("PMIX_MCA_pcompress_base_silence_warning", "1", 0);
    pmix_status_t rc = client.pmix.init(&client.me, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        const char *space = getenv("PMIX_NAMESPACE");
        log_error("PMIx_Init: %s (%d): the environment names PMIx job \"%.64s\", but its server cannot be used; unset "
                  "PMIX_NAMESPACE (or set SHMEM_BOOT=single) if no launcher started this process",
                  client.pmix.error_string(rc), (int)rc, space ? space : "");
        return -ECONNREFUSED;
    }
    client.opened_by = getpid();
    char mark[PMIX_MAX_NSLEN + 32];
    snprintf(mark, sizeof mark, "%s.%u:%d", client.me.nspace, (unsigned)client.me.rank, (int)getpid());
    setenv(MARK, mark, 1);
    return 0;
}

/* PMIx 5 makes PMIX_LOAD_PROCID a function of the library, which is not linked. */
static pmix_proc_t proc_of(pmix_rank_t rank)
{
    pmix_proc_t proc = client.me;
    proc.rank = rank;
    return proc;
}

/* A value of the job (rank PMIX_RANK_WILDCARD) or of one process; NULL: the launcher does not give it. */
static pmix_value_t *get_info(pmix_rank_t rank, const char *key, pmix_data_type_t type)
{
    pmix_proc_t proc = proc_of(rank);
    pmix_value_t *value = NULL;
    pmix_status_t rc = client.pmix.get(&proc, key, NULL, 0, &value);
    if (rc == PMIX_SUCCESS && value && value->type == type)
        return value;
    if (rc == PMIX_SUCCESS && value)
        release(value);
    return NULL;
}

static int read_size(struct boot *boot)
{
    pmix_value_t *value = get_info(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, PMIX_UINT32);
    uint32_t size = value ? value->data.uint32 : 0;
    release(value);
    if (size == 0 || size > INT32_MAX || client.me.rank >= size) {
        log_error("the launcher's PMIx gives job size %u and rank %u, expected a size above the rank", (unsigned)size,
                  (unsigned)client.me.rank);
        return -EPROTO;
    }
    boot->rank = (int)client.me.rank;
    boot->size = (int)size;
    return 0;
}

/* For people only. The name of the job comes first: variables of an outer launcher are inherited. */
static void name_launcher(struct boot *boot)
{
    static const struct {
        const char *variable, *name;
    } known[] = {
        {"PRTE_LAUNCHED", "prterun"}, {"OMPI_COMM_WORLD_SIZE", "mpirun (Open MPI)"}, {"SLURM_STEP_ID", "srun"}};
    const char *name = "a PMIx launcher", *version = getenv("PMIX_VERSION");
    if (strncmp(client.me.nspace, OSHRUN_JOB, strlen(OSHRUN_JOB)) == 0)
        name = "oshrun";
    else if (strncmp(client.me.nspace, "slurm.pmix", 10) == 0)
        name = "srun";
    else if (strncmp(client.me.nspace, "prterun", 7) == 0)
        name = "prterun";
    else
        for (size_t i = sizeof known / sizeof known[0]; i-- > 0;)
            if (getenv(known[i].variable))
                name = known[i].name;
    snprintf(boot->launcher, sizeof boot->launcher, "%s%s%.20s", name, version ? ", PMIx " : "",
             version ? version : "");
}

/* The value that the launcher has set, even if the program has changed its environment since. */
static void read_initial(const char *name, char *value, size_t bytes)
{
    FILE *file = fopen("/proc/self/environ", "re");
    char *entry = NULL;
    size_t room = 0, len = strlen(name);
    value[0] = '\0';
    while (file && !*value && getdelim(&entry, &room, '\0', file) > 0)
        if (strncmp(entry, name, len) == 0 && entry[len] == '=')
            snprintf(value, bytes, "%s", entry + len + 1);
    free(entry);
    if (file)
        fclose(file);
}

/* MPI_Init of an MPI that does not know oshrun makes the process a job of its own, and PMIx then tells us of that one.
 * Another launcher inside oshrun's PE starts its processes with a name of its own. */
static int check_job(const struct boot *boot)
{
    char given[PMIX_MAX_NSLEN + 1], npes[16];
    if (boot->size > 1 || !getenv("OSHRUN_NPES"))
        return 0;
    read_initial("PMIX_NAMESPACE", given, sizeof given);
    read_initial("OSHRUN_NPES", npes, sizeof npes);
    bool by_oshrun = strncmp(given, OSHRUN_JOB, strlen(OSHRUN_JOB)) == 0;
    if (!by_oshrun || strcmp(given, client.me.nspace) == 0 || atoi(npes) <= 1)
        return 0;
    log_error(
        "shmem_init: oshrun started %s PEs, but MPI_Init has made this process an MPI job of 1: MPI does not know "
        "oshrun; start programs that use MPI by mpirun",
        npes);
    return -EPROTO;
}

/* MPI_Init after shmem_init is noticed at the end only. Open MPI names its own job in PMIX_NAMESPACE, and
 * unsets it in MPI_Finalize, where another variable of its start stays. The program itself may unset both. */
int iso_boot_check(const struct boot *boot)
{
    const char *now = getenv("PMIX_NAMESPACE");
    char given[16];
    if (boot->ops != &iso_boot_pmix || boot->size == 1 || (now && strcmp(now, client.me.nspace) == 0))
        return 0;
    read_initial("OMPI_MCA_orte_launch", given, sizeof given);
    if (!now && (*given || !getenv("OMPI_MCA_orte_launch")))
        return 0;
    log_error("shmem_finalize: MPI_Init has made this process an MPI job of 1, but %s started %d PEs: MPI does not "
              "know this launcher; start programs that use MPI by mpirun",
              boot->launcher, boot->size);
    return -EPROTO;
}

static int open_pmix(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    (void)attr;
    const char *patience = getenv("SHMEM_BOOT_TIMEOUT");
    client.patience = env->boot_timeout;
    client.gives_up = patience != NULL && *patience != '\0';
    int rc = init_client();
    if (rc == 0)
        rc = read_size(boot);
    if (rc == 0)
        rc = check_job(boot);
    if (rc != 0)
        return rc;
    iso_log_set_pe(boot->rank);
    /* The launcher's name of the node: two nodes simulated on one machine have one gethostname. */
    pmix_value_t *value = get_info(client.me.rank, PMIX_HOSTNAME, PMIX_STRING);
    if (value && value->data.string)
        snprintf(boot->host, sizeof boot->host, "%s", value->data.string);
    else if (gethostname(boot->host, sizeof boot->host) != 0)
        snprintf(boot->host, sizeof boot->host, "localhost");
    boot->host[sizeof boot->host - 1] = '\0';
    release(value);
    name_launcher(boot);
    return 0;
}

static void *finalize_client(void *unused)
{
    (void)unused;
    pmix_status_t rc = client.pmix.finalize(NULL, 0);
    if (rc != PMIX_SUCCESS)
        log_debug("PMIx_Finalize: %s", client.pmix.error_string(rc));
    return NULL;
}

/* PMIx waits for an answer without end, also where the program has closed its descriptors. */
static void close_pmix(struct boot *boot)
{
    (void)boot;
    pthread_t thread;
    struct timespec limit;
    if (client.opened_by != getpid())
        return;
    client.opened_by = 0;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += (time_t)client.patience + 1;
    if (client.patience == 0 || iso_thread_start(&thread, "isomer-finalize", finalize_client, NULL) != 0)
        (void)finalize_client(NULL);
    else if (pthread_timedjoin_np(thread, NULL, &limit) != 0)
        log_error(
            "PMIx_Finalize has not ended within %g s (SHMEM_BOOT_TIMEOUT): the program may have closed descriptors "
            "that are not its own",
            client.patience);
}

/* ---- collectives ---- */

static void fence_ended(pmix_status_t status, void *data)
{
    struct fence *fence = (struct fence *)data;
    pthread_mutex_lock(&fence->lock);
    fence->status = status;
    fence->done = true;
    pthread_cond_signal(&fence->ended);
    pthread_mutex_unlock(&fence->lock);
}

/* 0, or -errno with a sentence: PMIx does not say which PE is gone; a gather names those whose value is missing. The
 * launcher ends the job when a process dies. So a PE that has not come reads its input, for instance, and the wait has
 * no end unless the user has set one. A fence that is given up stays, since its callback may still come. */
static int run_fence(const pmix_info_t *info, size_t n_info, int size)
{
    struct fence *fence = (struct fence *)calloc(1, sizeof *fence);
    struct timespec limit;
    pthread_condattr_t clock;
    if (fence == NULL) {
        log_error("bootstrap: no memory for a fence");
        return -ENOMEM;
    }
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&fence->lock, NULL);
    pthread_cond_init(&fence->ended, &clock);
    pthread_condattr_destroy(&clock);
    pmix_proc_t all = proc_of(PMIX_RANK_WILDCARD);
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += (time_t)client.patience;
    limit.tv_nsec += (long)((client.patience - (double)(time_t)client.patience) * 1e9);
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    pmix_status_t rc = client.pmix.fence_nb(&all, 1, info, n_info, fence_ended, fence);
    pthread_mutex_lock(&fence->lock);
    for (bool timed = client.patience > 0; rc == PMIX_SUCCESS && !fence->done;) {
        if (!timed) {
            pthread_cond_wait(&fence->ended, &fence->lock);
        } else if (pthread_cond_timedwait(&fence->ended, &fence->lock, &limit) == ETIMEDOUT && !fence->done) {
            if (client.gives_up) {
                pthread_mutex_unlock(&fence->lock);
                log_error("bootstrap: not all of the %d PEs have arrived within %g s (SHMEM_BOOT_TIMEOUT)", size,
                          client.patience);
                return -ETIMEDOUT;
            }
            timed = false;
            log_warn("bootstrap: not all of the %d PEs have arrived after %g s; still waiting, since SHMEM_BOOT_TIMEOUT "
                     "is not set",
                     size, client.patience);
        }
    }
    pthread_mutex_unlock(&fence->lock);
    if (rc == PMIX_SUCCESS)
        rc = fence->status;
    else if (rc == PMIX_OPERATION_SUCCEEDED)
        rc = PMIX_SUCCESS; /* done at once, no callback follows */
    pthread_cond_destroy(&fence->ended);
    pthread_mutex_destroy(&fence->lock);
    free(fence);
    if (rc == PMIX_SUCCESS)
        return 0;
    log_error("bootstrap: the fence of the launcher over %d PEs ended with %s (%d)%s", size,
              client.pmix.error_string(rc), (int)rc,
              rc == PMIX_ERR_PARTIAL_SUCCESS ? ": at least one PE has died" : "");
    return -ECONNABORTED;
}

static int barrier(struct boot *boot) { return boot->size == 1 ? 0 : run_fence(NULL, 0, boot->size); }

/* `bytes` behind a stamp. */
static int publish_values(const char *key, const void *bytes, size_t len)
{
    unsigned char *stamped = (unsigned char *)malloc(sizeof(struct stamp) + len);
    if (!stamped) {
        log_error("bootstrap: no memory for a message of %zu bytes", len);
        return -ENOMEM;
    }
    struct stamp stamp = {.protocol = ISO_PROTOCOL, .len = (uint32_t)len, .gather = client.gathers};
    snprintf(stamp.version, sizeof stamp.version, "%s", ISO_VERSION);
    memcpy(stamped, &stamp, sizeof stamp);
    if (len > 0)
        memcpy(stamped + sizeof stamp, bytes, len);
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)stamped;
    value.data.bo.size = sizeof stamp + len;
    pmix_status_t rc = client.pmix.put(PMIX_GLOBAL, key, &value); /* copies */
    free(stamped);
    if (rc == PMIX_SUCCESS)
        rc = client.pmix.commit();
    if (rc == PMIX_SUCCESS)
        return 0;
    log_error("bootstrap: PMIx_Put of %zu bytes: %s (%d)", len, client.pmix.error_string(rc), (int)rc);
    return -EIO;
}

/* Checks the stamp of `size` bytes that `rank` published. */
static int check_stamp(const unsigned char *bytes, size_t size, int rank)
{
    struct stamp stamp = {.protocol = 0};
    if (size >= sizeof stamp)
        memcpy(&stamp, bytes, sizeof stamp);
    stamp.version[VERSION_BYTES - 1] = '\0';
    if (stamp.protocol != ISO_PROTOCOL || strncmp(stamp.version, ISO_VERSION, VERSION_BYTES - 1) != 0) {
        log_error("bootstrap: pe %d runs library version %s with protocol %u, this PE %s with protocol %u", rank,
                  *stamp.version ? stamp.version : "unknown", (unsigned)stamp.protocol, ISO_VERSION,
                  (unsigned)ISO_PROTOCOL);
        return -EPROTO;
    }
    if (stamp.len == size - sizeof stamp)
        return 0;
    log_error("bootstrap: pe %d has published %u bytes and %zu have come", rank, (unsigned)stamp.len,
              size - sizeof stamp);
    return -EPROTO;
}

/* Checks what a rank sent and copies it out. size 0: nothing has come. */
static int unpack(const unsigned char *bytes, size_t size, int rank, size_t len, unsigned char *out)
{
    if (size == 0) {
        log_error("bootstrap: nothing came from pe %d, it has probably died", rank);
        return -ECONNABORTED;
    }
    int rc = check_stamp(bytes, size, rank);
    if (rc != 0)
        return rc;
    if (size != sizeof(struct stamp) + len) {
        log_error("bootstrap: pe %d sent %zu bytes where this PE sent %zu", rank, size - sizeof(struct stamp), len);
        return -EPROTO;
    }
    if (len > 0)
        memcpy(out, bytes + sizeof(struct stamp), len);
    return 0;
}

/* Of this gather, or of another build of the library, which check_stamp reports. */
static bool is_current(const pmix_value_t *value)
{
    struct stamp stamp;
    if (value->type != PMIX_BYTE_OBJECT)
        return false;
    if (value->data.bo.size < sizeof stamp)
        return true;
    memcpy(&stamp, value->data.bo.bytes, sizeof stamp);
    return stamp.protocol != ISO_PROTOCOL || stamp.gather == client.gathers;
}

/* The value that `rank` has published under `key` in this gather, for the caller to release. NULL: there is none.
 * Several ways to ask, until one gives a value of this gather. The fence brought the data here: PMIX_OPTIONAL looks no
 * further. Servers that leave it on their side are asked with PMIX_IMMEDIATE, since a plain look-up waits for ever for
 * a PE that never put its value. Where the key was in use before, PMIx may have kept the old value. It should look
 * again because of PMIX_GET_REFRESH_CACHE, but 4.2.2 obeys that in the first place only, and then finds the old value
 * all the same. It does look again because of the scope, since the value that it has kept is not in the table of that
 * scope. */
static pmix_value_t *fetch(int rank, const char *key)
{
    enum { OPTIONAL, REFRESH, SCOPE, WAYS };
    pmix_info_t hints[WAYS][2];
    pmix_proc_t peer = proc_of((pmix_rank_t)rank);
    hints[OPTIONAL][0] = wish(PMIX_OPTIONAL, PMIX_BOOL, true);
    hints[REFRESH][0] = wish(PMIX_GET_REFRESH_CACHE, PMIX_BOOL, true);
    hints[REFRESH][1] = wish(PMIX_IMMEDIATE, PMIX_BOOL, true);
    hints[SCOPE][0] = wish(PMIX_DATA_SCOPE, PMIX_SCOPE, PMIX_REMOTE);
    hints[SCOPE][1] = wish(PMIX_IMMEDIATE, PMIX_BOOL, true);
    for (int way = 0; way < WAYS; way++) {
        pmix_value_t *value = NULL;
        pmix_status_t rc = client.pmix.get(&peer, key, hints[way], way == OPTIONAL ? 1 : 2, &value);
        if (rc == PMIX_SUCCESS && value && is_current(value))
            return value;
        if (way > OPTIONAL)
            log_debug("PMIx_Get of pe %u: %s", (unsigned)rank, client.pmix.error_string(rc));
        release(value);
    }
    return NULL;
}

static int fetch_all(const struct boot *boot, const char *key, size_t len, unsigned char *out)
{
    int rc = 0;
    for (int r = 0; r < boot->size; r++) {
        if (r == boot->rank)
            continue;
        pmix_value_t *value = fetch(r, key);
        const unsigned char *bytes = value ? (const unsigned char *)value->data.bo.bytes : NULL;
        if (unpack(bytes, value ? value->data.bo.size : 0, r, len, out + (size_t)r * len) != 0)
            rc = -ECONNABORTED;
        release(value);
    }
    return rc;
}

static int collect_values(int size)
{
    pmix_info_t info = wish(PMIX_COLLECT_DATA, PMIX_BOOL, true);
    return run_fence(&info, 1, size);
}

/* ---- one list for all, made by rank 0: for each rank a number of bytes and what the rank has published ---- */

/* A value that has not come counts 0 bytes, which every rank reports. */
static int publish_list(const struct boot *boot, const char *key, size_t len)
{
    size_t most = sizeof(struct stamp) + len, used = 0;
    unsigned char *list = (unsigned char *)malloc((size_t)boot->size * (sizeof(uint32_t) + most));
    if (!list) {
        log_error("bootstrap: no memory for the messages of %d PEs", boot->size);
        return -ENOMEM;
    }
    for (int r = 0; r < boot->size; r++) {
        pmix_value_t *value = fetch(r, key);
        size_t size = value ? value->data.bo.size : 0;
        uint32_t kept = (uint32_t)(size < most ? size : most); /* a longer one is refused for its length */
        memcpy(list + used, &kept, sizeof kept);
        if (kept > 0)
            memcpy(list + used + sizeof kept, value->data.bo.bytes, kept);
        used += sizeof kept + kept;
        release(value);
    }
    int rc = publish_values(LIST_KEY, list, used);
    free(list);
    return rc;
}

/* Each rank asks for one value where it would ask for as many as there are ranks. */
static int gather_by_list(const struct boot *boot, const char *key, size_t len, unsigned char *out)
{
    int rc = boot->rank == 0 ? publish_list(boot, key, len) : 0;
    int fence_rc = collect_values(boot->size);
    if (rc != 0 || fence_rc != 0)
        return rc != 0 ? rc : fence_rc;
    pmix_value_t *value = fetch(0, LIST_KEY);
    const unsigned char *list = value ? (const unsigned char *)value->data.bo.bytes : NULL;
    size_t bytes = value ? value->data.bo.size : 0, at = sizeof(struct stamp);
    if (bytes == 0)
        rc = unpack(NULL, 0, 0, 0, NULL);
    else
        rc = check_stamp(list, bytes, 0);
    bool readable = rc == 0;
    for (int r = 0; readable && r < boot->size; r++) {
        uint32_t size = 0;
        if (bytes - at >= sizeof size)
            memcpy(&size, list + at, sizeof size);
        at += bytes - at >= sizeof size ? sizeof size : 0;
        size = size <= bytes - at ? size : 0;
        if (r != boot->rank && unpack(list + at, size, r, len, out + (size_t)r * len) != 0)
            rc = -ECONNABORTED;
        at += size;
    }
    release(value);
    return rc;
}

static int allgather(struct boot *boot, const void *mine, size_t len, void *all)
{
    unsigned char *out = (unsigned char *)all;
    if (len > 0)
        memmove(out + (size_t)boot->rank * len, mine, len);
    if (boot->size == 1)
        return 0;
    char key[32];
    snprintf(key, sizeof key, "iso.%u", client.gathers % KEYS);
    int rc = publish_values(key, mine, len);
    if (rc != 0)
        return rc;
    int fence_rc = collect_values(boot->size);
    if (fence_rc == 0 && boot->size > DIRECT_MOST)
        rc = gather_by_list(boot, key, len, out);
    else
        rc = fetch_all(boot, key, len, out); /* also after a failed fence: it tells which PEs did not make it */
    client.gathers++;
    return fence_rc != 0 ? fence_rc : rc;
}

static void abort_pmix(struct boot *boot, int status, const char *sentence)
{
    (void)boot;
    pmix_status_t rc = client.pmix.abort(status, sentence ? "" : "shmem_global_exit", NULL, 0); /* launchers print it */
    if (rc != PMIX_SUCCESS)
        log_debug("PMIx_Abort: %s", client.pmix.error_string(rc));
}

const struct boot_ops iso_boot_pmix = {
    .name = "pmix",
    .applies = applies,
    .open = open_pmix,
    .allgather = allgather,
    .barrier = barrier,
    .abort = abort_pmix,
    .close = close_pmix,
};
