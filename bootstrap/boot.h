/* SPDX-License-Identifier: MIT */
/* How the PEs of a job find each other: rank, size, host name, one allgather, one barrier, abort.
 * A bootstrap is one file and one row in boot.c. It stays open across shmem_finalize and a second shmem_init, until
 * the process exits (PMIx does not survive being closed and opened again), so open is idempotent.
 * One thread at a time may call. Every call returns 0, or -errno after one sentence by log_error. */
#ifndef ISO_BOOT_H
#define ISO_BOOT_H

#include <stdbool.h>
#include <stddef.h>

#define ISO_UID_BYTES 128
#define BOOT_TOKEN_BYTES 16

/* Compared in the first exchange of two PEs. Another version or protocol at the other end ends the job and prints both.
 */
#ifndef ISO_VERSION
#error "compile with -DISO_VERSION=\"x.y.z\", the one of shmem.h"
#endif
#ifndef ISO_PROTOCOL
#define ISO_PROTOCOL 9 /* of everything that PEs of different library builds exchange */
#endif

/* The arguments of shmemx_init_attr; id == NULL where shmem_init was called. */
struct boot_attr {
    const unsigned char *id; /* ISO_UID_BYTES */
    int rank;
    int size;
};

struct boot;
struct env;
struct host_addresses;
struct tcp_address;
struct boot_ops {
    const char *name; /* "pmix", "uid", "single" */
    /* Does this bootstrap apply? *why gets a short reason either way ("PMIX_NAMESPACE is set"). */
    bool (*applies)(const struct boot_attr *attr, const struct env *env, const char **why);
    /* Fills rank, size, host, launcher, priv. Also called on a boot of the same kind that is still open. */
    int (*open)(struct boot *boot, const struct boot_attr *attr, const struct env *env);
    /* all[r * len .. ] = what rank r gave; len is equal on all ranks. Collective; also a barrier. */
    int (*allgather)(struct boot *boot, const void *mine, size_t len, void *all);
    int (*barrier)(struct boot *boot);
    /* Ask the launcher to end the job; may return (the caller exits then). `sentence`: the cause, which this PE has
     * printed; NULL: the program asked for it (shmem_global_exit). */
    void (*abort)(struct boot *boot, int status, const char *sentence);
    void (*close)(struct boot *boot);
    /* A number that only the PEs of this start of the job know, another one for each PE, without a message. The same on
     * all PEs after the same collectives. NULL: the bootstrap knows no secret. */
    void (*token)(const struct boot *boot, int pe, unsigned char token[BOOT_TOKEN_BYTES]);
    /* The address of this host by which it has reached rank 0. False, or NULL: not known. */
    bool (*address)(const struct boot *boot, struct tcp_address *address);
};

struct boot {
    const struct boot_ops *ops; /* NULL: not open */
    int rank;
    int size;
    char host[256];    /* the launcher's name of this node, else gethostname() */
    char launcher[64]; /* for people: "mpirun (Open MPI 4.1.4)", "srun", "oshrun", "unique id", "none" */
    void *priv;
};

/* In order of precedence. */
extern const struct boot_ops iso_boot_uid_attributes, iso_boot_pmix, iso_boot_uid_environment, iso_boot_single;

/* `boot` is zeroed before the first call and kept until the process exits. Chooses attributes, PMIx, environment,
 * single, in this order, and opens. A launcher that says size > 1 while no bootstrap reaches it is an error with a
 * sentence. */
int iso_boot_open(struct boot *boot, const struct boot_attr *attr, const struct env *env);
/* The variable by which a launcher says that it has started several processes. NULL: none does. */
const char *iso_boot_launched(long *processes);
/* Collectives for the start of the job. A PE that is lost, or missing for SHMEM_BOOT_TIMEOUT over the unique id, is an
 * error that names it, and the boot is broken from then on. Not for use where PEs may arrive minutes apart. */
int iso_boot_allgather(struct boot *boot, const void *mine, size_t len, void *all);
int iso_boot_barrier(struct boot *boot);
/* Replaces the token, which all PEs have told each other, where the bootstrap makes one that does not travel. */
void iso_boot_token(const struct boot *boot, int pe, unsigned char token[BOOT_TOKEN_BYTES]);
/* As iso_interface_find. With an empty `wanted` the address by which this host has reached rank 0 comes first: others
 * may not be up yet. */
int iso_boot_addresses(const struct boot *boot, const char *wanted, struct host_addresses *mine, const char **why);
/* By shmem_finalize. 0, or -EPROTO after a sentence: MPI has made this process a job of its own (boot_pmix.c). */
int iso_boot_check(const struct boot *boot);
void iso_boot_abort(struct boot *boot, int status, const char *sentence);
/* Another bootstrap may follow in this process. PMIx stays open: it does not survive being opened a second time. */
void iso_boot_leave(struct boot *boot);
/* When the process exits, after the last call of anything else here; NULL-tolerant. In a forked child it does nothing
 * to the parent's membership of the job. */
void iso_boot_close(struct boot *boot);

/* uid_create.c: makes an id and reserves its port; a PE of this host must become rank 0 of it. Several ids at once are
 * fine. 0 or -errno. */
int iso_boot_uid_create(unsigned char id[ISO_UID_BYTES]);

#endif
