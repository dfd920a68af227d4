/* SPDX-License-Identifier: MIT */
/* What coll/ gives to the rest of the library. */
#ifndef ISO_COLLECTIVES_H
#define ISO_COLLECTIVES_H

#include "team.h"

struct device;
struct env;

/* host_algorithm.c: one of the algorithms of barrier.c. */
void (*iso_coll_choose_barrier(struct team *team))(struct team *team, const char *call);
int iso_coll_start(void); /* selection table */
void iso_coll_stop(void); /* active sets */
/* 0, or -errno after a sentence: what the variables about collectives say. */
int iso_coll_check(const struct env *env);
size_t iso_coll_table_text(char *text, size_t bytes); /* printable selection table, like snprintf */
/* Collectives on streams: their table, likewise; what is made when the device starts, since a call would wait for
 * kernels that run (0, or -errno after a sentence); and what they keep goes with a team, and with the device. */
size_t iso_coll_streams_text(char *text, size_t bytes);
int iso_coll_streams_start(struct device *device);
void iso_coll_streams_forget_team(const struct team *team);
void iso_coll_streams_reset(const struct team *team, int slot); /* slot memory is as new, on all members */
/* Streams that wait without a kernel: past the deadline a record; *abort not 0: their end. By the proxy. */
void iso_coll_streams_watch(const uint64_t *abort);
void iso_coll_streams_stop(struct device *device);
void iso_coll_streams_forget(void); /* tables and all slots: the next call begins anew */

#endif
