/* SPDX-License-Identifier: MIT */
/* No launcher: one PE. */
#include "boot.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool applies(const struct boot_attr *attr, const struct env *env, const char **why)
{
    (void)env;
    *why = attr->id ? "the program gave a unique id" : "no launcher, no SHMEM_UID";
    return attr->id == NULL;
}

static int open_single(struct boot *boot, const struct boot_attr *attr, const struct env *env)
{
    (void)attr;
    (void)env;
    boot->rank = 0;
    boot->size = 1;
    boot->priv = NULL;
    if (gethostname(boot->host, sizeof boot->host) != 0)
        snprintf(boot->host, sizeof boot->host, "localhost");
    boot->host[sizeof boot->host - 1] = '\0'; /* gethostname may leave it out where it truncates */
    snprintf(boot->launcher, sizeof boot->launcher, "none");
    return 0;
}

static int allgather(struct boot *boot, const void *mine, size_t len, void *all)
{
    (void)boot;
    if (len > 0)
        memmove(all, mine, len);
    return 0;
}

static int barrier(struct boot *boot)
{
    (void)boot;
    return 0;
}

static void abort_single(struct boot *boot, int status, const char *sentence)
{
    (void)boot;
    (void)status;
    (void)sentence; /* there is no other PE to end */
}

static void close_single(struct boot *boot) { (void)boot; }

const struct boot_ops iso_boot_single = {
    .name = "single",
    .applies = applies,
    .open = open_single,
    .allgather = allgather,
    .barrier = barrier,
    .abort = abort_single,
    .close = close_single,
};
