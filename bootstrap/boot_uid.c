/* SPDX-License-Identifier: MIT */
/* Start by a unique id over TCP: the program carries the id (torchrun's store, MPI, a file), or a script sets
 * SHMEM_UID, SHMEM_RANK and SHMEM_SIZE. This file has the life of the job; its two sides are uid_hub.c (rank 0) and
 * uid_member.c. The connections stay open until another id is used or the process exits. */
#include "env.h"
#include "uid_job.h"

#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- open and close ---- */

static void free_job(struct uid_job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->n_sockets; i++)
        if (job->sockets[i].fd >= 0)
            close(job->sockets[i].fd);
    free(job->sockets);
    free(job);
}

static struct uid_job *new_job(const struct uid *uid, int rank, int size, double timeout_s)
{
    struct uid_job *job = (struct uid_job *)calloc(1, sizeof *job);
    int n = rank == 0 ? size : 1;
    struct frame_socket *sockets = (struct frame_socket *)calloc((size_t)n, sizeof *sockets);
    if (!job || !sockets) {
        log_error("bootstrap: no memory for %d connections", size);
        free(job);
        free(sockets);
        return NULL;
    }
    *job = (struct uid_job){
        .uid = *uid, .rank = rank, .size = size, .timeout_s = timeout_s, .n_sockets = n, .sockets = sockets};
    for (int i = 0; i < n; i++)
        sockets[i].fd = -1;
    return job;
}

/* Rank 0 needs a connection to each PE: said before there is a size that no memory suffices for. */
static int check_files(const struct uid *uid, int size)
{
    enum { OWN_FILES = 32 };
    char text[UID_SENTENCE_BYTES];
    uint64_t allowed = iso_tcp_raise_files();
    if (allowed >= (uint64_t)size + OWN_FILES)
        return 0;
    snprintf(text, sizeof text, "pe 0 of a job of %d PEs needs about %lld open files, allowed are %llu: raise ulimit -n",
             size, (long long)size + OWN_FILES, (unsigned long long)allowed);
    log_error("bootstrap: %s", text);
    iso_uid_hub_refuse(uid, size, text);
    return -EMFILE;
}

/* The same job as before is kept, since its listener is gone; another one replaces it. */
static int open_job(struct boot *boot, const struct uid *uid, int rank, int size, double timeout_s)
{
    struct uid_job *job = (struct uid_job *)boot->priv;
    if (job && !job->broken && iso_uid_is_same(&job->uid, uid) && job->rank == rank && job->size == size) {
        job->timeout_s = timeout_s;
        return 0;
    }
    free_job(job);
    boot->priv = NULL;
    iso_log_set_pe(rank);
    if (rank == 0 && check_files(uid, size) != 0)
        return -EMFILE;
    job = new_job(uid, rank, size, timeout_s);
    int rc = !job ? -ENOMEM : size == 1 ? 0 : rank == 0 ? iso_uid_hub_open(job) : iso_uid_member_open(job);
    iso_uid_release(uid); /* rank 0 has listened: the port was never free */
    if (rc != 0) {
        free_job(job);
        return rc;
    }
    boot->rank = rank;
    boot->size = size;
    if (gethostname(boot->host, sizeof boot->host) != 0)
        snprintf(boot->host, sizeof boot->host, "localhost");
    boot->host[sizeof boot->host - 1] = '\0'; /* gethostname may leave it out where it truncates */
    snprintf(boot->launcher, sizeof boot->launcher, "unique id");
    boot->priv = job;
    return 0;
}

static int check_ranks(int64_t rank, int64_t size, const char *where)
{
    if (size >= 1 && size <= INT32_MAX && rank >= 0 && rank < size)
        return 0;
    log_error("%s: rank is %lld and size is %lld, allowed is a size of at least 1 and a rank in 0..size-1", where,
              (long long)rank, (long long)size);
    return -EINVAL;
}

static int open_attributes(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    struct uid uid;
    const char *why;
    int rc = check_ranks(attr->rank, attr->size, "shmemx_init_attr");
    if (rc != 0)
        return rc;
    if ((rc = iso_uid_parse(attr->id, &uid, &why)) != 0) {
        log_error("shmemx_init_attr: the unique id is not one of shmemx_get_uniqueid: %s", why);
        return rc;
    }
    return open_job(boot, &uid, attr->rank, attr->size, env->boot_timeout);
}

static int open_environment(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    (void)attr;
    struct uid uid;
    const char *why = "it is not a text of less than 128 bytes";
    unsigned char id[ISO_UID_BYTES] = {0};
    int rc = check_ranks(env->rank, env->size, "SHMEM_UID is set, but with SHMEM_RANK and SHMEM_SIZE");
    if (rc != 0)
        return rc;
    size_t len = strlen(env->uid);
    if (len < sizeof id)
        memcpy(id, env->uid, len);
    if (len >= sizeof id || iso_uid_parse(id, &uid, &why) != 0) {
        log_error("SHMEM_UID is not address:port:secret: %s", why);
        return -EINVAL;
    }
    return open_job(boot, &uid, (int)env->rank, (int)env->size, env->boot_timeout);
}

static bool attributes_apply(const struct boot_attr *attr, const struct env *env, const char **why)
{
    (void)env;
    *why = attr->id ? "the program gave a unique id" : "the program gave no unique id";
    return attr->id != NULL;
}

static bool environment_applies(const struct boot_attr *attr, const struct env *env, const char **why)
{
    *why = attr->id ? "the program gave a unique id" : *env->uid ? "SHMEM_UID is set" : "SHMEM_UID is not set";
    return !attr->id && *env->uid;
}

static void close_uid(struct boot *boot)
{
    free_job((struct uid_job *)boot->priv);
    boot->priv = NULL;
}

/* ---- what the connections tell ---- */

/* `calls` makes the tokens of each start of a job other ones. */
static void make_token(const struct boot *boot, int pe, unsigned char token[BOOT_TOKEN_BYTES])
{
    const struct uid_job *job = (const struct uid_job *)boot->priv;
    unsigned char bytes[9] = {'t'};
    _Static_assert(BOOT_TOKEN_BYTES == AUTH_BYTES, "a token is a code");
    iso_frame_store32(bytes + 1, (uint32_t)pe);
    iso_frame_store32(bytes + 5, job->calls);
    iso_auth_code(job->uid.secret, bytes, sizeof bytes, token);
}

static bool local_address(const struct boot *boot, struct tcp_address *address)
{
    const struct uid_job *job = (const struct uid_job *)boot->priv;
    if (job->rank == 0)
        *address = job->uid.address;
    return job->size > 1 && (job->rank == 0 || iso_tcp_local(job->sockets[0].fd, address) == 0);
}

/* ---- collectives ---- */

static int allgather(struct boot *boot, const void *mine, size_t len, void *all)
{
    struct uid_job *job = (struct uid_job *)boot->priv;
    unsigned char *out = (unsigned char *)all;
    if (job->broken)
        return -ECONNABORTED;
    if (len > UID_DATA_BYTES_MAX / (size_t)job->size) {
        log_error("bootstrap: %zu bytes from each of %d PEs are too many, allowed are %u in all", len, job->size,
                  UID_DATA_BYTES_MAX);
        return -EMSGSIZE;
    }
    if (len > 0 && (job->rank == 0 || job->size == 1))
        memmove(out, mine, len);
    if (job->size == 1)
        return 0;
    job->calls++;
    return job->rank == 0 ? iso_uid_hub_allgather(job, len, out) : iso_uid_member_allgather(job, mine, len, out);
}

static int barrier(struct boot *boot)
{
    unsigned char nothing[1] = {0};
    return allgather(boot, nothing, 0, nothing);
}

/* The others read it in their next collective call; the closing of this PE's other sockets ends them sooner. */
static void abort_uid(struct boot *boot, int status, const char *sentence)
{
    struct uid_job *job = (struct uid_job *)boot->priv;
    char text[UID_SENTENCE_BYTES - 64];
    snprintf(text, sizeof text, "status %d: %s", status, sentence ? sentence : "shmem_global_exit");
    iso_uid_job_tell_all(job, text);
    job->broken = true;
}

/* X(name, applies, open): the id is an argument of shmemx_init_attr, or a variable of the environment. */
#define UID_BOOT(name_, applies_, open_)  \
    const struct boot_ops name_ = {       \
        .name = "uid",                    \
        .applies = applies_,              \
        .open = open_,                    \
        .allgather = allgather,           \
        .barrier = barrier,               \
        .abort = abort_uid,               \
        .close = close_uid,               \
        .token = make_token,              \
        .address = local_address,         \
    };
UID_BOOT(iso_boot_uid_attributes, attributes_apply, open_attributes)
UID_BOOT(iso_boot_uid_environment, environment_applies, open_environment)
