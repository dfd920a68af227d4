/* SPDX-License-Identifier: MIT */
/* Chooses the bootstrap of the job and forwards to it: one row of the table each, in order of precedence. */
#include "boot.h"
#include "env.h"

#include "log.h"
#include "net/interface.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct boot_ops *const table[] = {&iso_boot_uid_attributes, &iso_boot_pmix, &iso_boot_uid_environment,
                                               &iso_boot_single};
enum { TABLE_ROWS = sizeof table / sizeof table[0] };

static const struct boot_ops *choose_boot(const struct boot_attr *attr, const struct env *env)
{
    const char *why = "";
    for (int i = 0; i < TABLE_ROWS; i++) {
        if (*env->boot && strcmp(env->boot, table[i]->name) != 0)
            continue;
        if (table[i]->applies(attr, env, &why)) {
            log_debug("bootstrap %s: %s%s", table[i]->name, why, *env->boot ? " (SHMEM_BOOT is set)" : "");
            for (int k = 0; k < TABLE_ROWS; k++) { /* for users whose variables were not used */
                const char *other = "";
                if (k != i && table[k] != &iso_boot_single && table[k]->applies(attr, env, &other))
                    log_debug("bootstrap %s would apply too (%s) and is not used", table[k]->name, other);
            }
            return table[i];
        }
    }
    log_error("SHMEM_BOOT=%s asks for a bootstrap that does not apply: %s", env->boot, why);
    return NULL;
}

/* Not SLURM_NTASKS: a batch script, in which nothing was launched, has it too. */
const char *iso_boot_launched(long *processes)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        *processes = text ? strtol(text, NULL, 10) : 0;
        if (*processes > 1)
            return names[i];
    }
    return NULL;
}

/* Started N times by a launcher that offers no PMIx, every process would believe that it is PE 0 of 1. */
static int check_alone(const struct env *env)
{
    long n = 0;
    const char *variable = *env->boot ? NULL : iso_boot_launched(&n); /* set: the user asked for N jobs of one PE */
    if (!variable)
        return 0;
    log_error("the launcher started %ld processes (%s) but offers no PMIx (PMIX_NAMESPACE is not set); use a "
              "launcher with PMIx (oshrun, mpirun of Open MPI, srun --mpi=pmix), or SHMEM_UID, SHMEM_RANK and "
              "SHMEM_SIZE, or SHMEM_BOOT=single for %ld jobs of one PE",
              n, variable, n);
    return -EPROTO;
}

/* torchrun and similar launchers set rank and size, but nothing that connects the processes. Any program may have
 * variables of these names, so this is not an error. */
static void warn_of_ranks(void)
{
    const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE");
    long n = size ? strtol(size, NULL, 10) : 0, mine = rank && *rank ? strtol(rank, NULL, 10) : -1;
    if (n <= 1 || mine != 0)
        return; /* one process speaks */
    log_warn("RANK and WORLD_SIZE (torchrun) are set, but they do not connect the %ld processes: each is PE 0 of 1", n);
    log_warn("for one job of %ld PEs, by calls: shmemx_get_uniqueid on rank 0, send the id to all, then "
             "shmemx_init_attr with rank, size and id",
             n);
    log_warn("for one job of %ld PEs, by variables: SHMEM_RANK=$RANK SHMEM_SIZE=$WORLD_SIZE "
             "SHMEM_UID=address:port:secret (of rank 0's host, a free port, 32 hex digits; equal on all)",
             n);
    log_warn("for %ld jobs of one PE: SHMEM_BOOT=single", n);
}

void iso_boot_leave(struct boot *boot)
{
    if (boot->ops && boot->ops != &iso_boot_pmix)
        boot->ops->close(boot);
    memset(boot, 0, sizeof *boot);
}

int iso_boot_open(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    static const struct boot_attr none = {.id = NULL};
    attr = attr ? attr : &none;
    const struct boot_ops *chosen = choose_boot(attr, env);
    if (!chosen)
        return -EINVAL;
    if (chosen == &iso_boot_single && check_alone(env) != 0)
        return -EPROTO;
    if (chosen == &iso_boot_single && *env->boot == '\0' && !boot->ops)
        warn_of_ranks();
    if (boot->ops != chosen)
        iso_boot_leave(boot);
    int rc = chosen->open(boot, attr, env);
    boot->ops = rc == 0 ? chosen : NULL; /* an open that failed has freed what it had */
    if (rc != 0)
        return rc;
    log_debug("bootstrap %s: rank %d of %d on host %s, started by %s", chosen->name, boot->rank, boot->size, boot->host,
              boot->launcher);
    return 0;
}

int iso_boot_allgather(struct boot *boot, const void *mine, size_t len, void *all)
{
    return boot->ops->allgather(boot, mine, len, all);
}

int iso_boot_barrier(struct boot *boot) { return boot->ops->barrier(boot); }

void iso_boot_token(const struct boot *boot, int pe, unsigned char token[BOOT_TOKEN_BYTES])
{
    if (boot->ops->token != NULL)
        boot->ops->token(boot, pe, token);
}

int iso_boot_addresses(const struct boot *boot, const char *wanted, struct host_addresses *mine, const char **why)
{
    struct tcp_address first;
    int rc = iso_interface_find(mine, wanted, why);
    if (rc == 0 && *wanted == '\0' && boot != NULL && boot->ops != NULL && boot->ops->address != NULL &&
        boot->ops->address(boot, &first))
        iso_interface_prefer(mine, &first);
    return rc;
}

void iso_boot_abort(struct boot *boot, int status, const char *sentence)
{
    if (boot && boot->ops)
        boot->ops->abort(boot, status, sentence);
}

void iso_boot_close(struct boot *boot)
{
    if (!boot)
        return;
    iso_boot_leave(boot);
    iso_boot_pmix.close(boot); /* whether it is the one in use or not; does nothing where it was not opened */
}
