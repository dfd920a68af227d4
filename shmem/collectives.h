/* SPDX-License-Identifier: MIT */
/* What coll/ gives to the rest of the library. */
#ifndef ISO_COLLECTIVES_H
#define ISO_COLLECTIVES_H

#include "team/team.h"

struct device;
struct env;

/* What the parts below call of coll/: in ISO->coll from iso_coll_start on. */
typedef void barrier_function(struct team *team, const char *call);
struct collectives {
    barrier_function *(*choose_barrier)(struct team *team); /* one of the algorithms of barrier.c */
    /* The state of collectives on streams. */
    struct {
        /* Makes what a call could not make while kernels run. 0, or -errno after a sentence. */
        int (*start)(struct device *device);
        void (*reset)(const struct team *team, int slot); /* slot memory is as new, on all members */
        bool (*has_pairs)(const struct team *team); /* this PE's streams may have sends or receives of the team */
        bool (*has_joint_pairs)(const struct team *team); /* and these do not end with it alone */
        void (*memory)(const struct team *team, size_t *stages, size_t *pairs); /* device memory of the team's calls */
        void (*forget_team)(const struct team *team);
        void (*forget_stream)(void *stream); /* before it is destroyed */
        /* Streams that wait without a kernel: past the deadline a record; *abort not 0, or the team broken: their end.
         * Waits of kernels of broken teams end, too. By the proxy. */
        void (*watch)(const uint64_t *abort);
        void (*stop)(struct device *device);
    } streams;
};

int iso_coll_start(void); /* selection table */
void iso_coll_stop(void); /* active sets */
/* 0, or -errno after a sentence: what the variables about collectives say. */
int iso_coll_check(const struct env *env);
size_t iso_coll_table_text(char *text, size_t bytes); /* printable selection table, like snprintf */
size_t iso_coll_streams_text(char *text, size_t bytes); /* the table of collectives on streams, likewise */

#endif
