/* SPDX-License-Identifier: MIT */
/* Start by a unique id over TCP: the program carries the id (torchrun's store, MPI, a file), or a script sets
 * SHMEM_UID, SHMEM_RANK and SHMEM_SIZE. A star: rank 0 is the hub inside its own collective calls, there is no thread.
 * Invariants: no call outlives its deadline; a stranger on the port costs a warning, never the job; a PE that is
 * missing or has died is named on every PE. The connections stay open until another id is used or the process exits. */
#include "uid_job.h"

#include "log.h"
#include "net/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double hub_lead_s = 2; /* others wait longer than rank 0, which knows who is missing */

/* ---- the other ranks ---- */

/* Says why a frame of rank 0 did not come, unless that has been done. */
static int fail_hub(struct uid_job *job, int rc)
{
    if (rc == 0 || job->broken)
        return rc;
    if (rc == -ETIMEDOUT)
        return iso_uid_job_fail(job, NULL, "pe 0 has not answered within %g s (SHMEM_BOOT_TIMEOUT)", job->timeout_s);
    if (rc == -EBADMSG)
        return iso_uid_job_fail(job, NULL, "a message of pe 0 is not from it, or was altered on its way");
    if (rc == -EPROTO)
        return iso_uid_job_fail(job, NULL, "pe 0 sent something else than expected: the PEs make different calls");
    return iso_uid_job_fail(job, NULL, "pe 0 has ended (%s)", iso_uid_job_describe(rc));
}

static double patience(const struct uid_job *job) { return job->timeout_s > 0 ? job->timeout_s + hub_lead_s : 0; }

static int fail_connect(struct uid_job *job, int rc, int last)
{
    const char *address = job->uid.address;
    unsigned port = job->uid.port;
    if (rc == -ETIMEDOUT)
        return iso_uid_job_fail(job, NULL, "pe 0 was not found at %s port %u within %g s (SHMEM_BOOT_TIMEOUT): %s",
                                address, port, job->timeout_s, strerror(-last));
    return iso_uid_job_fail(job, NULL, "pe 0 at %s port %u cannot be reached: %s", address, port, strerror(-rc));
}

static int say_hello(struct uid_job *job, struct uid_handshake *handshake, int64_t deadline)
{
    struct uid_hello hello = {.protocol = ISO_PROTOCOL, .rank = (uint32_t)job->rank, .size = (uint32_t)job->size};
    snprintf(hello.version, sizeof hello.version, "%s", ISO_VERSION);
    int rc = iso_auth_draw(hello.nonce);
    iso_uid_encode_hello(&hello, handshake->hello);
    return rc != 0 ? rc : iso_wire_send(job->links[0].fd, handshake->hello, sizeof handshake->hello, deadline);
}

/* 0, -EPROTO: no challenge, -EACCES: of somebody who does not know the secret, -errno. */
static int take_challenge(struct uid_job *job, struct uid_handshake *handshake, int64_t deadline)
{
    unsigned char head[UID_FRAME_BYTES], challenge[UID_CHALLENGE_BYTES], proof[UID_CODE_BYTES];
    struct uid_frame frame;
    int rc = iso_wire_recv(job->links[0].fd, head, sizeof head, deadline);
    if (rc == 0)
        rc = iso_uid_decode_frame(head, &frame);
    if (rc == 0 && frame.kind != UID_FRAME_CHALLENGE)
        rc = -EPROTO;
    if (rc == 0)
        rc = iso_wire_recv(job->links[0].fd, challenge, sizeof challenge, deadline);
    if (rc != 0)
        return rc;
    memcpy(handshake->nonce, challenge, sizeof handshake->nonce);
    iso_uid_prove(handshake, job->uid.secret, UID_PROOF_HUB, proof);
    return iso_auth_is_equal(proof, challenge + sizeof handshake->nonce) ? 0 : -EACCES;
}

static int shake_hands(struct uid_job *job, int64_t deadline)
{
    struct uid_handshake handshake;
    unsigned char proof[UID_CODE_BYTES];
    int rc = say_hello(job, &handshake, deadline);
    if (rc == 0)
        rc = take_challenge(job, &handshake, deadline);
    if (rc != 0)
        return rc;
    iso_uid_start_seal(&job->links[0].seal, &handshake, job->uid.secret, false);
    job->links[0].is_sealed = true;
    iso_uid_prove(&handshake, job->uid.secret, UID_PROOF_PE, proof);
    return iso_wire_send(job->links[0].fd, proof, sizeof proof, deadline);
}

static int join(struct uid_job *job)
{
    int last;
    int fd = iso_wire_connect(&job->uid, iso_wire_deadline(job->timeout_s), &last);
    if (fd < 0)
        return fail_connect(job, fd, last);
    job->links[0].fd = fd;
    int64_t deadline = iso_wire_deadline(patience(job));
    int rc = shake_hands(job, deadline);
    if (rc == -EACCES)
        return iso_uid_job_fail(job, NULL, "the process at %s port %u is not pe 0 of this job: it has another secret",
                                job->uid.address, (unsigned)job->uid.port);
    if (rc == 0)
        rc = iso_uid_job_receive(job, (struct uid_frame){.kind = UID_FRAME_WELCOME}, NULL, deadline);
    if (rc == -EPIPE || rc == -ECONNRESET)
        return iso_uid_job_fail(job, NULL,
                                "%s port %u closed the connection without an answer: the process there is not pe 0 of "
                                "this job (another secret?), or has ended",
                                job->uid.address, (unsigned)job->uid.port);
    return fail_hub(job, rc);
}

/* ---- open and close ---- */

static void free_job(struct uid_job *job)
{
    if (!job)
        return;
    for (int i = 0; i < job->n_links; i++)
        if (job->links[i].fd >= 0)
            close(job->links[i].fd);
    if (job->listener >= 0)
        close(job->listener);
    free(job->links);
    free(job);
}

static struct uid_job *new_job(const struct uid *uid, int rank, int size, double timeout_s)
{
    struct uid_job *job = (struct uid_job *)calloc(1, sizeof *job);
    struct uid_link *links = (struct uid_link *)calloc(rank == 0 ? (size_t)size : 1, sizeof *links);
    if (!job || !links) {
        log_error("bootstrap: no memory for %d connections", size);
        free(job);
        free(links);
        return NULL;
    }
    *job = (struct uid_job){.uid = *uid, .rank = rank, .size = size, .timeout_s = timeout_s, .listener = -1};
    job->links = links;
    job->n_links = rank == 0 ? size : 1;
    for (int i = 0; i < job->n_links; i++)
        links[i].fd = -1;
    return job;
}

static void describe_boot(struct boot *boot, const struct uid_job *job)
{
    boot->rank = job->rank;
    boot->size = job->size;
    if (gethostname(boot->host, sizeof boot->host) != 0)
        snprintf(boot->host, sizeof boot->host, "localhost");
    boot->host[sizeof boot->host - 1] = '\0'; /* gethostname may leave it out where it truncates */
    snprintf(boot->launcher, sizeof boot->launcher, "unique id");
}

/* Rank 0 needs a connection to each PE: said before they come, and before there is a size that no memory suffices for.
 */
static int check_files(int size)
{
    enum { OWN_FILES = 32 };
    uint64_t allowed = iso_wire_raise_files();
    if (allowed >= (uint64_t)size + OWN_FILES)
        return 0;
    log_error("bootstrap: pe 0 of a job of %d PEs needs about %lld open files, allowed are %llu: raise ulimit -n", size,
              (long long)size + OWN_FILES, (unsigned long long)allowed);
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
    if (rank == 0 && check_files(size) != 0)
        return -EMFILE;
    job = new_job(uid, rank, size, timeout_s);
    int rc = !job ? -ENOMEM : size == 1 ? 0 : rank == 0 ? iso_door_open(job) : join(job);
    if (rc != 0) {
        free_job(job);
        return rc;
    }
    describe_boot(boot, job);
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

/* ---- collectives ---- */

static int fail_altered(struct uid_job *job, int rank)
{
    return iso_uid_job_fail(job, NULL, "a message of pe %d is not from it, or was altered on its way", rank);
}

/* A PE said a sentence instead of its block: it gives up the job. */
static int relay_sentence(struct uid_job *job, int rank, uint32_t len)
{
    struct uid_link *link = &job->links[rank];
    unsigned char text[UID_SENTENCE_BYTES], digest[UID_CODE_BYTES];
    char sentence[UID_SENTENCE_BYTES - 64] = "it gave no reason";
    int64_t deadline = iso_wire_deadline(1);
    if (iso_wire_recv(link->fd, text, len, deadline) == 0 &&
        iso_wire_recv(link->fd, link->code, sizeof link->code, deadline) == 0) {
        iso_uid_job_digest(job, text, len, digest);
        if (!iso_uid_is_sealed(&link->seal, link->head, digest, link->code))
            return fail_altered(job, rank);
        iso_uid_clean_text(text, len, sentence, sizeof sentence);
    }
    return iso_uid_job_fail(job, NULL, "pe %d has ended the job: %s", rank, sentence);
}

static int check_head(struct uid_job *job, int rank, size_t len)
{
    struct uid_frame frame;
    if (iso_uid_decode_frame(job->links[rank].head, &frame) != 0)
        return iso_uid_job_fail(job, NULL, "pe %d sent something that is no message", rank);
    if (frame.kind == UID_FRAME_FAIL)
        return relay_sentence(job, rank, frame.len);
    if (frame.kind != UID_FRAME_DATA || frame.seq != job->seq || frame.len != len)
        return iso_uid_job_fail(job, NULL,
                                "pe %d sent %u bytes in call %u where pe 0 sent %zu in call %u: the PEs make different "
                                "calls",
                                rank, frame.len, frame.seq, len, job->seq);
    return 0;
}

static int check_block(struct uid_job *job, int rank, const unsigned char *block, size_t len)
{
    struct uid_link *link = &job->links[rank];
    unsigned char digest[UID_CODE_BYTES];
    iso_uid_job_digest(job, block, len, digest);
    return iso_uid_is_sealed(&link->seal, link->head, digest, link->code) ? 0 : fail_altered(job, rank);
}

static bool has_block(const struct uid_link *link, size_t len)
{
    return link->got == UID_FRAME_BYTES + len + UID_CODE_BYTES;
}

/* Reads what is there of the message of `rank`: head, payload to its place in `all`, code. */
static int hear_block(struct uid_job *job, int rank, size_t len, unsigned char *all)
{
    struct uid_link *link = &job->links[rank];
    unsigned char *block = all + (size_t)rank * len;
    unsigned char *const parts[3] = {link->head, block, link->code};
    const size_t sizes[3] = {UID_FRAME_BYTES, len, UID_CODE_BYTES};
    size_t before = 0;
    int part = 0;
    while (link->got >= before + sizes[part])
        before += sizes[part++];
    ptrdiff_t n = iso_wire_recv_some(link->fd, parts[part] + (link->got - before), before + sizes[part] - link->got);
    if (n < 0)
        return iso_uid_job_fail(job, NULL, "pe %d has ended (%s)", rank, iso_uid_job_describe((int)n));
    link->got += (size_t)n;
    if (part == 0 && link->got == UID_FRAME_BYTES)
        return check_head(job, rank, len);
    return has_block(link, len) ? check_block(job, rank, block, len) : 0;
}

static int fail_late(struct uid_job *job, size_t len)
{
    bool *here = (bool *)calloc((size_t)job->size, sizeof *here);
    for (int r = 0; here && r < job->size; r++)
        here[r] = r == 0 || has_block(&job->links[r], len);
    int rc = iso_uid_job_fail_missing(job, here);
    free(here);
    return rc;
}

/* One round of poll. Of those who have given their block only the end of the stream is of interest. */
static int gather_once(struct uid_job *job, size_t len, unsigned char *all, struct pollfd *polls, int64_t deadline)
{
    int missing = 0;
    for (int r = 1; r < job->size; r++) {
        bool done = has_block(&job->links[r], len);
        polls[r] = (struct pollfd){.fd = job->links[r].fd, .events = (short)(done ? POLLRDHUP : POLLIN)};
        missing += !done;
    }
    if (missing == 0)
        return 0;
    int ready = poll(polls + 1, (nfds_t)job->size - 1, iso_wire_poll_ms(deadline));
    if (ready < 0 && errno != EINTR)
        return iso_uid_job_fail(job, NULL, "poll: %s", strerror(errno));
    if (ready == 0 && iso_wire_poll_ms(deadline) == 0)
        return fail_late(job, len);
    for (int r = 1; r < job->size && ready > 0; r++) {
        if (!polls[r].revents)
            continue;
        int rc = has_block(&job->links[r], len) ? iso_uid_job_fail(job, NULL, "pe %d has ended", r)
                                                : hear_block(job, r, len, all);
        if (rc != 0)
            return rc;
    }
    return 1;
}

static int gather(struct uid_job *job, size_t len, unsigned char *all, int64_t deadline)
{
    struct pollfd *polls = (struct pollfd *)calloc((size_t)job->size, sizeof *polls);
    if (!polls)
        return iso_uid_job_fail(job, NULL, "no memory for %d connections", job->size);
    for (int r = 1; r < job->size; r++)
        job->links[r].got = 0;
    int rc;
    do
        rc = gather_once(job, len, all, polls, deadline);
    while (rc > 0);
    free(polls);
    return rc;
}

static int allgather_hub(struct uid_job *job, size_t len, unsigned char *all)
{
    int64_t deadline = iso_wire_deadline(job->timeout_s);
    struct uid_frame frame = {.kind = UID_FRAME_DATA, .seq = job->seq, .len = (uint32_t)(len * (size_t)job->size)};
    unsigned char digest[UID_CODE_BYTES];
    int rc = gather(job, len, all, deadline);
    if (rc == 0)
        iso_uid_job_digest(job, all, frame.len, digest);
    for (int r = 1; r < job->size && rc == 0; r++) {
        rc = iso_uid_job_send(&job->links[r], &frame, all, digest, deadline);
        if (rc != 0)
            return iso_uid_job_fail(job, NULL, "pe %d cannot be reached: %s", r, iso_uid_job_describe(rc));
    }
    return rc;
}

static int allgather_other(struct uid_job *job, const void *mine, size_t len, unsigned char *all)
{
    int64_t deadline = iso_wire_deadline(patience(job));
    struct uid_frame frame = {.kind = UID_FRAME_DATA, .seq = job->seq, .len = (uint32_t)len};
    unsigned char digest[UID_CODE_BYTES];
    iso_uid_job_digest(job, mine, len, digest);
    int rc = iso_uid_job_send(&job->links[0], &frame, mine, digest, deadline);
    frame.len = (uint32_t)(len * (size_t)job->size);
    /* Also where sending failed: rank 0 may have left a sentence that says why. */
    if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
        rc = iso_uid_job_receive(job, frame, all, deadline);
    return fail_hub(job, rc);
}

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
    job->seq++;
    return job->rank == 0 ? allgather_hub(job, len, out) : allgather_other(job, mine, len, out);
}

static int barrier(struct boot *boot)
{
    unsigned char nothing[1] = {0};
    return allgather(boot, nothing, 0, nothing);
}

/* The others read it in their next collective call; what ends them sooner is the closing of our other sockets. */
static void abort_uid(struct boot *boot, int status, const char *sentence)
{
    struct uid_job *job = (struct uid_job *)boot->priv;
    char text[UID_SENTENCE_BYTES - 64];
    snprintf(text, sizeof text, "status %d: %s", status, sentence ? sentence : "shmem_global_exit");
    iso_uid_job_tell_all(job, text);
    job->broken = true;
}

const struct boot_ops iso_boot_uid_attributes = {
    .name = "uid",
    .applies = attributes_apply,
    .open = open_attributes,
    .allgather = allgather,
    .barrier = barrier,
    .abort = abort_uid,
    .close = close_uid,
};

const struct boot_ops iso_boot_uid_environment = {
    .name = "uid",
    .applies = environment_applies,
    .open = open_environment,
    .allgather = allgather,
    .barrier = barrier,
    .abort = abort_uid,
    .close = close_uid,
};
