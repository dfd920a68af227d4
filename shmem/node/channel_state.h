/* SPDX-License-Identifier: MIT */
/* The state of channel.c, for it and for its tests. Invariant: guarded by channel.lock. */
#ifndef ISO_CHANNEL_STATE_H
#define ISO_CHANNEL_STATE_H

#include "../../bootstrap/net/handshake.h"
#include "channel.h"

/* frame.number: of REQUEST and ANSWER the number of the request, of LEFT the last epoch of the world, of TEAM_END the
 * index of a slot, of GONE the PE. REQUEST, ANSWER and TEAM_END have CHANNEL_BODY_BYTES of payload, EXIT a struct
 * end_cause, the others none. */
enum channel_kind {
    CHANNEL_WELCOME = 1, /* the acceptor's first frame */
    CHANNEL_REQUEST,
    CHANNEL_ANSWER,
    CHANNEL_GOODBYE,
    CHANNEL_EXIT,
    CHANNEL_LEFT,
    CHANNEL_TEAM_END,
    CHANNEL_GONE /* behind EXIT */
};

enum link_state { LINK_CONNECTING, LINK_HANDSHAKE, LINK_AWAITS_WELCOME, LINK_UP };

/* One connection. */
struct link {
    struct link *next;
    struct frame_socket socket;
    int pe; /* at the other end; -1: has not said yet */
    enum link_state state;
    bool gone; /* the other end has said good-bye */
    char name[TCP_NAME_BYTES];
    int64_t deadline; /* until it is up */
    union {
        struct handshake handshake; /* CONNECTING, HANDSHAKE */
        unsigned char body[CHANNEL_BODY_BYTES];
        struct end_cause cause;
    } in;
};

#include <pthread.h>

struct wait;

/* Another PE, as this one reaches it. */
struct channel_target {
    struct host_addresses addresses;
    unsigned char token[CHANNEL_TOKEN_BYTES];
    struct link *up;     /* NULL: not connected */
    struct link *dialed; /* under way; becomes `up` */
    int attempt;         /* the address to try next */
    int error;           /* of the last attempt */
    int64_t give_up;     /* 0: no connection is wanted */
    int64_t retry;
    bool refused; /* all attempts since `retry`: nothing listens there */
    bool gone;    /* all that are connected have been told so */
};

/* A request of this PE, or the end of a team: that one is freed when it has been sent. */
struct channel_request {
    struct channel_request *next;
    int pe;
    uint32_t number;
    bool sent, done;
    int rc;
    const void *body;
    void *answer; /* NULL: the end of a team */
    int event; /* an eventfd: `done` was set, perhaps by another thread */
};

/* Another PE's request that came before there was a handler. */
struct early_request {
    struct early_request *next;
    struct link *link; /* NULL: it has ended */
    uint32_t number;
    unsigned char body[CHANNEL_BODY_BYTES];
};

struct channel {
    pthread_mutex_t lock; /* recursive: the end of the job may begin under it */
    bool inside;          /* guards against a handler that calls back */
    bool closing;         /* the end of a connection is no longer a death */
    int epoll, listener;
    struct host_addresses mine;
    bool started;             /* all of `targets` is known */
    bool complete;            /* the start is over: no stranger ends the job from here on */
    int n_told;               /* of ISO->n_gone, those that all have been told of */
    int next_in_ring;         /* since then: the PE that this one calls; -1: none */
    bool has_rested;          /* the listener, for want of descriptors: said once */
    int64_t listen_again;     /* 0: it is not resting */
    struct channel_target *targets; /* [n_pes] */
    struct link *links;       /* up */
    struct link *pending;     /* not up yet */
    struct link *closed;      /* freed when progress ends: a caller may still look at them */
    struct channel_request *requests; /* not done yet */
    struct early_request *early;
    uint32_t next_number;
    channel_handler *handler;
};

#endif
