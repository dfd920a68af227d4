/* SPDX-License-Identifier: MIT */
/* The doctor's lines about environment variables: values that are not allowed, by the functions that refuse them when
 * a program starts, and names that are not known. Called by info.c and, for names, by init.c. */
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/net/interface.h"
#include "../collectives.h"
#include "../gpu/device.h"
#include "info.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEVICES "/sys/class/infiniband/"

enum { FINE, WARNING, PROBLEM };

/* ---- values: 0, or -errno after a sentence ---- */

static int check_network(const struct env *env)
{
    struct host_addresses unused;
    const char *why;
    int rc = env->network[0] != '\0' ? iso_interface_find(&unused, env->network, &why) : 0;
    if (rc != 0)
        log_error("SHMEM_NETWORK is \"%.64s\": %s", env->network, why);
    return rc;
}

static int check_nic(const struct env *env)
{
    for (const char *at = env->nic; *at != '\0'; at += *at == ',') {
        char path[128];
        int len = (int)strcspn(at, ":,");
        snprintf(path, sizeof path, DEVICES "%.*s", len, at);
        if (len == 0 || access(path, F_OK) != 0) {
            log_error("SHMEM_NIC is \"%s\", and this host has no RDMA device \"%.*s\"", env->nic, len, at);
            return -ENODEV;
        }
        at += strcspn(at, ",");
    }
    return 0;
}

static int check_device(const struct env *env)
{
    struct gpu *gpu = NULL;
    char why[256] = "";
    if (env->device[0] == '\0' || ISO->device != NULL)
        return 0;
    int rc = iso_gpu_open(&gpu, 0, env->device, why, sizeof why);
    if (rc != 0)
        log_error("%s", why);
    else
        iso_gpu_close(gpu);
    return rc;
}

typedef int check(const struct env *env);

/* ---- names ---- */

static void describe_stranger(const struct env_stranger *stranger, char sentence[256])
{
    snprintf(sentence, 256, "environment variable %s is not known; the most similar one is %s", stranger->name,
             stranger->nearest);
}

/* Programs and other libraries have variables of their own: names unlike ours share one line. */
void iso_variables_warn(void)
{
    struct env_stranger stranger;
    char sentence[256], others[512] = "";
    size_t used = 0;
    for (size_t at = 0; ISO->my_pe == 0 && iso_env_next_stranger(&at, &stranger);) {
        describe_stranger(&stranger, sentence);
        if (stranger.is_near)
            log_warn("%s", sentence);
        else if (used < sizeof others)
            used += (size_t)snprintf(others + used, sizeof others - used, "%s%s", used > 0 ? ", " : "", stranger.name);
    }
    if (used > 0)
        log_warn("environment variable%s %s %s not known and not used; isomer-info --variables prints those that are",
                 strchr(others, ',') != NULL ? "s" : "", others, strchr(others, ',') != NULL ? "are" : "is");
}

void iso_variables_examine(struct env *env, void (*find)(void *doctor, int severity, const char *sentence),
                           void *doctor)
{
    static check *const checks[] = {iso_coll_check, check_network, check_nic, check_device};
    const char *prefix = "shmem_init: ";
    struct env_stranger stranger;
    char sentence[512];
    int wrong = 0;
    bool read = iso_env_read(env, sentence, sizeof sentence) == 0;
    if (!read) {
        memset(env, 0, sizeof *env);
        find(doctor, PROBLEM, sentence);
    }

    for (size_t i = 0; read && i < sizeof checks / sizeof checks[0]; i++) {
        sentence[0] = '\0';
        iso_log_divert(sentence, sizeof sentence);
        int rc = checks[i](env);
        iso_log_divert(NULL, 0);
        if (rc != 0)
            find(doctor, PROBLEM, sentence + (strncmp(sentence, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0));
        wrong += rc != 0;
    }
    if (read && wrong == 0)
        find(doctor, FINE, "all environment variables have values that are allowed");

    for (size_t at = 0; iso_env_next_stranger(&at, &stranger);) {
        describe_stranger(&stranger, sentence);
        find(doctor, WARNING, sentence);
    }
}
