/* SPDX-License-Identifier: MIT */
/* The PMIx client: mpirun, srun --mpi=pmix, prterun, oshrun.
 * An allgather is a put under a key of its own, a fence that collects data, and a look-up per peer. PMIx is opened once
 * per process and closed at exit (after a second PMIx_Init fences fail now and then), whatever the number of
 * shmem_init; MPI may use it too. No default event handler: it would receive nothing. */
#include "boot.h"

#include "log.h"

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

/* In front of every value, so that another build of the library is found before its bytes are misread. */
struct stamp {
    uint32_t protocol;
    uint32_t len; /* of what follows */
    char version[VERSION_BYTES];
};

/* One client per process, as PMIx itself: the only state of this file that does not hang off struct boot. */
static struct client {
    pmix_proc_t me;
    pid_t opened_by;  /* 0: not open. A forked child is no client and must not say good-bye for its parent */
    unsigned gathers; /* collective calls so far: the number in the next key, equal on all ranks */
    double patience;  /* seconds after which a fence is reported as slow; 0: never */
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

/* ---- open and close ---- */

static void finalize_client(void)
{
    if (client.opened_by != getpid())
        return;
    client.opened_by = 0;
    pmix_status_t rc = PMIx_Finalize(NULL, 0);
    if (rc != PMIX_SUCCESS)
        log_debug("PMIx_Finalize: %s", PMIx_Error_string(rc));
}

static int init_client(void)
{
    if (client.opened_by != 0)
        return 0;
    /* PMIx warns, once per process, when it was built without a compression library. */
    setenv("PMIX_MCA_pcompress_base_silence_warning", "1", 0);
    pmix_status_t rc = PMIx_Init(&client.me, NULL, 0);
    if (rc != PMIX_SUCCESS) {
        const char *space = getenv("PMIX_NAMESPACE");
        log_error("PMIx_Init: %s (%d): the environment names PMIx job \"%.64s\", but its server cannot be used; unset "
                  "PMIX_NAMESPACE (or set SHMEM_BOOT=single) if no launcher started this process",
                  PMIx_Error_string(rc), (int)rc, space ? space : "");
        return -ECONNREFUSED;
    }
    client.opened_by = getpid();
    return 0;
}

/* A value of the job (rank PMIX_RANK_WILDCARD) or of one process; NULL: the launcher does not give it. */
static pmix_value_t *get_info(pmix_rank_t rank, const char *key, pmix_data_type_t type)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&proc, client.me.nspace, rank);
    pmix_status_t rc = PMIx_Get(&proc, key, NULL, 0, &value);
    if (rc == PMIX_SUCCESS && value && value->type == type)
        return value;
    if (rc == PMIX_SUCCESS && value)
        PMIX_VALUE_RELEASE(value);
    return NULL;
}

static int read_size(struct boot *boot)
{
    pmix_value_t *value = get_info(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, PMIX_UINT32);
    uint32_t size = value ? value->data.uint32 : 0;
    if (value)
        PMIX_VALUE_RELEASE(value);
    if (size == 0 || size > INT32_MAX || client.me.rank >= size) {
        log_error("the launcher's PMIx gives job size %u and rank %u, expected a size above the rank", (unsigned)size,
                  (unsigned)client.me.rank);
        return -EPROTO;
    }
    boot->rank = (int)client.me.rank;
    boot->size = (int)size;
    return 0;
}

/* The launcher's name of the node: two nodes simulated on one machine have one gethostname. */
static void read_host(struct boot *boot)
{
    pmix_value_t *value = get_info(client.me.rank, PMIX_HOSTNAME, PMIX_STRING);
    if (value && value->data.string)
        snprintf(boot->host, sizeof boot->host, "%s", value->data.string);
    else if (gethostname(boot->host, sizeof boot->host) != 0)
        snprintf(boot->host, sizeof boot->host, "localhost");
    boot->host[sizeof boot->host - 1] = '\0';
    if (value)
        PMIX_VALUE_RELEASE(value);
}

/* For people only. The name of the job comes first: variables of an outer launcher are inherited. */
static void name_launcher(struct boot *boot)
{
    static const struct {
        const char *variable, *name;
    } known[] = {
        {"PRTE_LAUNCHED", "prterun"}, {"OMPI_COMM_WORLD_SIZE", "mpirun (Open MPI)"}, {"SLURM_STEP_ID", "srun"}};
    const char *name = "a PMIx launcher", *version = getenv("PMIX_VERSION");
    if (strncmp(client.me.nspace, "oshrun", 6) == 0)
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

static int open_pmix(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    (void)attr;
    client.patience = env->boot_timeout;
    int rc = init_client();
    if (rc == 0)
        rc = read_size(boot);
    if (rc != 0)
        return rc;
    iso_log_set_pe(boot->rank);
    read_host(boot);
    name_launcher(boot);
    return 0;
}

static void close_pmix(struct boot *boot)
{
    (void)boot;
    finalize_client();
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

/* Waits for the callback without end: the launcher ends the job when a process dies. Says once that it takes long. */
static pmix_status_t await_fence(struct fence *fence, int size)
{
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += (time_t)client.patience;
    bool warn = client.patience > 0;
    pthread_mutex_lock(&fence->lock);
    while (!fence->done) {
        if (!warn)
            pthread_cond_wait(&fence->ended, &fence->lock);
        else if (pthread_cond_timedwait(&fence->ended, &fence->lock, &limit) == ETIMEDOUT) {
            warn = false;
            log_warn("bootstrap: not all of the %d PEs have arrived after %g s (SHMEM_BOOT_TIMEOUT); still waiting",
                     size, client.patience);
        }
    }
    pthread_mutex_unlock(&fence->lock);
    return fence->status;
}

static pmix_status_t run_fence(const pmix_info_t *info, size_t n_info, int size)
{
    struct fence fence = {.done = false};
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&fence.lock, NULL);
    pthread_cond_init(&fence.ended, &clock);
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, client.me.nspace, PMIX_RANK_WILDCARD);
    pmix_status_t rc = PMIx_Fence_nb(&all, 1, info, n_info, fence_ended, &fence);
    if (rc == PMIX_SUCCESS)
        rc = await_fence(&fence, size);
    else if (rc == PMIX_OPERATION_SUCCEEDED)
        rc = PMIX_SUCCESS; /* done at once, no callback follows */
    pthread_cond_destroy(&fence.ended);
    pthread_mutex_destroy(&fence.lock);
    pthread_condattr_destroy(&clock);
    return rc;
}

/* 0, or -errno with a sentence. PMIx does not say which PE is gone; a gather names those whose value is missing. */
static int check_fence(pmix_status_t rc, int size)
{
    if (rc == PMIX_SUCCESS)
        return 0;
    log_error("bootstrap: the fence of the launcher over %d PEs ended with %s (%d)%s", size, PMIx_Error_string(rc),
              (int)rc, rc == PMIX_ERR_PARTIAL_SUCCESS ? ": at least one PE has died" : "");
    return -ECONNABORTED;
}

static int barrier(struct boot *boot)
{
    return boot->size == 1 ? 0 : check_fence(run_fence(NULL, 0, boot->size), boot->size);
}

static int publish(const char *key, const void *mine, size_t len)
{
    unsigned char *bytes = (unsigned char *)malloc(sizeof(struct stamp) + len);
    if (!bytes) {
        log_error("bootstrap: no memory for a message of %zu bytes", len);
        return -ENOMEM;
    }
    struct stamp stamp = {.protocol = ISO_PROTOCOL, .len = (uint32_t)len};
    snprintf(stamp.version, sizeof stamp.version, "%s", ISO_VERSION);
    memcpy(bytes, &stamp, sizeof stamp);
    if (len > 0)
        memcpy(bytes + sizeof stamp, mine, len);
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)bytes;
    value.data.bo.size = sizeof stamp + len;
    pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, key, &value); /* copies */
    free(bytes);
    if (rc == PMIX_SUCCESS)
        rc = PMIx_Commit();
    if (rc == PMIX_SUCCESS)
        return 0;
    log_error("bootstrap: PMIx_Put of %zu bytes: %s (%d)", len, PMIx_Error_string(rc), (int)rc);
    return -EIO;
}

/* Checks what a rank sent and copies it out. */
static int unpack(const pmix_byte_object_t *object, int rank, size_t len, unsigned char *out)
{
    struct stamp stamp = {.protocol = 0};
    if (object->size >= sizeof stamp)
        memcpy(&stamp, object->bytes, sizeof stamp);
    stamp.version[VERSION_BYTES - 1] = '\0';
    if (stamp.protocol != ISO_PROTOCOL || strncmp(stamp.version, ISO_VERSION, VERSION_BYTES - 1) != 0) {
        log_error("bootstrap: pe %d runs library version %s with protocol %u, this PE %s with protocol %u", rank,
                  *stamp.version ? stamp.version : "unknown", (unsigned)stamp.protocol, ISO_VERSION,
                  (unsigned)ISO_PROTOCOL);
        return -EPROTO;
    }
    if (stamp.len != len || object->size != sizeof stamp + len) {
        log_error("bootstrap: pe %d sent %u bytes where this PE sent %zu", rank, (unsigned)stamp.len, len);
        return -EPROTO;
    }
    if (len > 0)
        memcpy(out, object->bytes + sizeof stamp, len);
    return 0;
}

/* The fence brought the data here: PMIX_OPTIONAL looks no further. Servers that leave it on their side are asked a
 * second time, with PMIX_IMMEDIATE, since a plain look-up waits for ever for a PE that never put its value. */
static pmix_status_t look_up(const pmix_proc_t *peer, const char *key, pmix_value_t **value)
{
    static const char *const hints[] = {PMIX_OPTIONAL, PMIX_IMMEDIATE};
    pmix_status_t rc = PMIX_ERR_NOT_FOUND;
    for (int i = 0; i < 2 && rc != PMIX_SUCCESS; i++) {
        bool yes = true;
        pmix_info_t hint;
        PMIX_INFO_LOAD(&hint, hints[i], &yes, PMIX_BOOL);
        rc = PMIx_Get(peer, key, &hint, 1, value);
    }
    return rc;
}

static int fetch(int rank, const char *key, size_t len, unsigned char *out)
{
    pmix_proc_t peer;
    pmix_value_t *value = NULL;
    PMIX_LOAD_PROCID(&peer, client.me.nspace, (pmix_rank_t)rank);
    pmix_status_t rc = look_up(&peer, key, &value);
    if (rc != PMIX_SUCCESS || !value || value->type != PMIX_BYTE_OBJECT) {
        log_error("bootstrap: nothing came from pe %d, it has probably died (PMIx_Get: %s)", rank,
                  PMIx_Error_string(rc));
        if (value)
            PMIX_VALUE_RELEASE(value);
        return -ECONNABORTED;
    }
    int result = unpack(&value->data.bo, rank, len, out);
    PMIX_VALUE_RELEASE(value);
    return result;
}

static int allgather(struct boot *boot, const void *mine, size_t len, void *all)
{
    unsigned char *out = (unsigned char *)all;
    if (len > 0)
        memmove(out + (size_t)boot->rank * len, mine, len);
    if (boot->size == 1)
        return 0;
    char key[32];
    snprintf(key, sizeof key, "iso.%u", client.gathers++);
    int rc = publish(key, mine, len);
    if (rc != 0)
        return rc;
    bool yes = true;
    pmix_info_t collect;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    int fence_rc = check_fence(run_fence(&collect, 1, boot->size), boot->size);
    /* Also after a failed fence: it tells which PEs did not make it. */
    for (int r = 0; r < boot->size; r++)
        if (r != boot->rank && fetch(r, key, len, out + (size_t)r * len) != 0)
            rc = -ECONNABORTED;
    return fence_rc != 0 ? fence_rc : rc;
}

static void abort_pmix(struct boot *boot, int status, const char *sentence)
{
    (void)boot;
    pmix_status_t rc = PMIx_Abort(status, sentence ? sentence : "", NULL, 0);
    if (rc != PMIX_SUCCESS)
        log_debug("PMIx_Abort: %s", PMIx_Error_string(rc));
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
