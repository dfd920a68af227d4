/* SPDX-License-Identifier: MIT */
/* What shmem/ has of coll/ (struct collectives): start and stop, and what streams, slots and teams of a device that end
 * mean for collectives on streams. Above all other files of coll/. Called by init.c, and by shmem/gpu through
 * ISO->coll. */
#include "../shmem/collectives.h"
#include "../bootstrap/env.h"
#include "../bootstrap/log.h"
#include "host/coll.h"
#include "select/select.h"
#include "stream/coll_stream.h"

#include <errno.h>
#include <stdio.h>

int iso_coll_check(const struct env *env)
{
    struct select_rows none = {.n = 0};
    int rc = iso_select_forced(env->coll, NULL, &none);
    if (rc != 0 || env->coll_table[0] == '\0')
        return rc;

    /* The file of tuned rows has to exist; its content is for the device to judge. */
    FILE *file = fopen(env->coll_table, "re");
    if (file == NULL) {
        rc = -errno;
        log_error("SHMEM_COLL_TABLE: %s: %m", env->coll_table);
        return rc;
    }
    fclose(file);
    return 0;
}

static barrier_function *choose_barrier(struct team *team)
{
    return iso_host_choose(COLL_BARRIER, team, NULL)->barrier;
}

static const struct collectives collectives = {
    choose_barrier,
    {iso_coll_streams_start, iso_coll_streams_reset, iso_pairs_has_team, iso_pairs_are_joint, iso_coll_streams_memory,
     iso_coll_streams_forget_team, iso_coll_streams_forget_stream, iso_coll_streams_watch, iso_coll_streams_stop},
};

int iso_coll_start(void)
{
    struct select_table *t = iso_host_table_open(ISO->env->coll);
    int status = t != NULL ? iso_active_set_start() : -EINVAL;
    if (status != 0)
        iso_select_close(t);
    else
        ISO->select = t;
    ISO->coll = &collectives;
    return status;
}

void iso_coll_stop(void)
{
    iso_group_stop();
    iso_active_set_stop();
    iso_select_close((struct select_table *)ISO->select);
    ISO->select = NULL;
}

