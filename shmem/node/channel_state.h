/* SPDX-License-Identifier: MIT */
/* The connections of this PE to PEs of other nodes, as the files channel*.c share them: channel.c has the life of it
 * all and what is heard, channel_call.c calls other PEs, channel_ask.c carries requests and answers, channel_end.c the
 * ends of connections, channel_ring.c the watch over nodes that nobody talks to. Invariant: guarded by channel.lock. */
#ifndef ISO_CHANNEL_STATE_H
#define ISO_CHANNEL_STATE_H

#include "link.h"

/* Another PE, as this one reaches it. */
struct target {
    struct channel_address address;
    unsigned char token[CHANNEL_TOKEN_BYTES];
    struct link *up;     /* NULL: not connected */
    struct link *dialed; /* under way; becomes `up` */
    int attempt;         /* the address to try next */
    int error;           /* of the last attempt */
    uint64_t give_up_ns; /* 0: nobody wants it */
    uint64_t retry_ns;
};

struct ask {
    struct ask *next;
    int pe;
    uint32_t id;
    bool sent, done;
    int rc;
    const void *request;
    void *answer;
    int event; /* an eventfd: `done` was set, perhaps by another thread */
};

/* A request that came before there was a handler. */
struct parked {
    struct parked *next;
    struct link *link;
    uint32_t id;
    unsigned char body[CHANNEL_BODY_BYTES];
};

struct channel {
    pthread_mutex_t lock; /* recursive: the end of the job may begin under it */
    bool inside;          /* guards against a handler that calls back */
    bool parting;         /* the end of a connection is no death any more */
    int epoll, listener;
    struct channel_address mine;
    bool started;           /* all of `targets` is known */
    struct target *targets; /* [n_pes] */
    struct link *links;     /* up */
    struct link *young;     /* not up yet */
    struct link *dead;      /* freed at the end of a step: somebody may still look at them */
    struct ask *asks;       /* not done yet */
    struct parked *parked;
    uint32_t next_id;
    channel_handler *handler;
};

/* ---- channel.c ---- */

/* The epoll set has it from now on; `what` is &channel.listener or a link. 0 or -errno. */
int iso_channel_watch(struct channel *c, int fd, uint32_t events, void *what);
/* A silent host is noticed after SHMEM_NODE_TIMEOUT: idle connections by probes, others by what is not acknowledged. */
void iso_channel_watch_silence(int fd);
void iso_channel_add(struct channel *c, struct link *link); /* to the young ones */
void iso_channel_remove(struct channel *c, const struct link *link);
/* No descriptor is left. Strangers may have them: who has said nothing for longest has to go, and calls again if it is
 * a PE. False: there is none. */
bool iso_channel_make_room(struct channel *c);
void iso_channel_step(struct channel *c); /* all there is to do now, with the lock; nothing blocks */
/* One round of a wait, without the lock: until something comes, `event` (-1: none) too, or some milliseconds. */
void iso_channel_rest(struct channel *c, int event, const struct wait *wait);
void iso_channel_describe(int pe, char *text, size_t bytes); /* "pe 3 on b (node x)" */

/* ---- channel_call.c ---- */

/* Somebody needs a connection to the PE, within SHMEM_BOOT_TIMEOUT from now. */
void iso_channel_call_want(struct target *t, uint64_t now);
/* The next attempt, if one is due; after the last one the PE's requests have failed, with a sentence. */
void iso_channel_call_pursue(struct channel *c, int pe, uint64_t now);
void iso_channel_call_connected(struct channel *c, struct link *link); /* a dialed link is, or has failed */
void iso_channel_call_fail(struct channel *c, struct link *link, int rc);

/* ---- channel_ask.c ---- */

void iso_channel_ask_send(struct channel *c, uint64_t now); /* what is not sent yet, to all that are connected */
void iso_channel_ask_take(struct channel *c, const struct link *link);   /* link->in is an answer */
void iso_channel_ask_answer(struct channel *c, struct link *link);       /* link->in is a request */
void iso_channel_ask_answer_parked(struct channel *c);                   /* there is a handler now */
void iso_channel_ask_fail(struct channel *c, int pe, int rc);            /* all to this PE */
void iso_channel_ask_forget(struct channel *c, const struct link *link); /* whom it asked needs no answer */
void iso_channel_ask_free(struct channel *c);

/* ---- channel_end.c ---- */

/* By what happened to it: a death ends the job, an attempt is repeated, a stranger is turned away. */
void iso_channel_end(struct channel *c, struct link *link, int rc);
void iso_channel_end_now(struct channel *c, struct link *link); /* closes it, whatever it is */
void iso_channel_end_bury(struct channel *c);                   /* nobody looks at the dead any more */

/* ---- channel_ring.c ---- */

/* The lowest PE of each node is connected with that of the next one. 0 or -errno after a sentence. */
int iso_channel_ring_close(struct channel *c);

#endif
