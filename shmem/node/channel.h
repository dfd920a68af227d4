/* SPDX-License-Identifier: MIT */
/* TCP between PEs of different nodes: requests for the set-up of transports, and the death watch. Not a transport of
 * data. A connection is made by the first request to a PE and serves both directions. Its ends prove to each other that
 * they know both PEs' tokens (iso_boot_token; bootstrap/net/handshake.h); frames with codes follow. Strangers cost a few
 * descriptors for a quarter of a second and ten warnings, never the job.
 * A connection that ends without a good-bye is the death of the PE at its other end and ends the job.
 * A job on one node never opens the channel. Any thread of the PE may call; one at a time is inside.
 * Used by pe.c (start, end), wait.c by iso_wait_poll_peers, and transports. */
#ifndef ISO_CHANNEL_H
#define ISO_CHANNEL_H

#include "../../bootstrap/net/interface.h"
#include "../state/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_BODY_BYTES 128
#define CHANNEL_TOKEN_BYTES 16

/* Listens; *mine: where, to be told to all PEs. 0 or -errno after a sentence. */
int iso_channel_open(struct host_addresses *mine);
/* The addresses that `pe` has told all others, and its token: for each PE, this one too, before start. */
void iso_channel_know(int pe, const struct host_addresses *addresses, const unsigned char token[CHANNEL_TOKEN_BYTES]);
/* Connects the lowest PE of each node with that of the next one, so that the death of a node is noticed even if no PE
 * has used it. 0 or -errno after a sentence. */
int iso_channel_start(void);
void iso_channel_tell_left(uint32_t left_at); /* tells all that this PE is behind its last barrier, of that epoch */
void iso_channel_bye(void);                   /* tells all; from now on the end of a connection is not a death */
void iso_channel_close(void);                 /* frees; NULL-tolerant */

/* Makes the answer to the request of another PE: CHANNEL_BODY_BYTES each, zeroed beforehand. Called with the channel's
 * lock held, by any thread that makes progress: it may take locks of a transport, it must not ask. */
typedef void channel_handler(int pe, const void *request, void *answer);
void iso_channel_set_handler(channel_handler *handler);

/* One request to a PE of another node and its answer. Blocks, but answers other PEs meanwhile (by the handler, in this
 * very thread): call it without any lock that the handler takes. 0, or -errno after a sentence that names both ends. */
int iso_channel_ask(int pe, const void *request, void *answer);

/* For poll(2): readable when iso_channel_progress has something to do; -1: no channel. */
int iso_channel_fd(void);
/* Accepts, authenticates, answers, notices deaths (and ends the job then). Never blocks; returns at once when another
 * thread is inside or there is no channel. Must not be called with a lock that the handler takes. */
void iso_channel_progress(void);

/* Tells a PE of another node that the team of a slot is broken: CHANNEL_BODY_BYTES for above.hear_team_end there. Sent
 * as soon as there is a connection, by any thread that makes progress. Any thread, without a lock that the handler
 * takes. */
void iso_channel_tell_team_end(int pe, int slot, const void *end);

/* The job ends or is broken: told to all that are connected, as far as that is possible at once. */
void iso_channel_tell_exit(const struct end_cause *cause);

/* In a forked child: it must not keep connections of its parent open. */
void iso_channel_after_fork(void);

/* "10.0.0.1:4711": where `pe` listens; for sentences and tests. */
const char *iso_channel_text(int pe, char *text, size_t bytes);

#endif
