/* SPDX-License-Identifier: MIT */
/* One TCP connection between two PEs: messages of one size, each with a code that only its two ends can make, and the
 * handshake in which they find out that the other is who it says it is. No policy: channel.c decides what follows.
 *   dialer                                 acceptor
 *   HELLO  pe, nonce a              ->
 *                                   <-     CHALLENGE  nonce b, proof by the acceptor's token over both nonces
 *   PROOF  by the dialer's token    ->
 *                                   <-     WELCOME, the first message with a code
 * invariant: codes count messages, so none can be left out, repeated or sent back. */
#ifndef ISO_LINK_H
#define ISO_LINK_H

#include "../../bootstrap/net/auth.h"
#include "channel.h"

enum link_kind {
    LINK_HELLO = 1,
    LINK_CHALLENGE,
    LINK_PROOF,
    LINK_WELCOME,
    LINK_REQUEST,
    LINK_ANSWER,
    LINK_BYE,
    LINK_EXIT,
    LINK_LEFT
};

struct link_message {
    uint32_t magic;
    uint32_t kind;
    uint32_t id; /* HELLO: the PE that is meant; REQUEST, ANSWER: number of the request; LEFT: last step of the world */
    int32_t value; /* HELLO: the PE that dials; EXIT: status */
    unsigned char body[CHANNEL_BODY_BYTES];
    unsigned char code[AUTH_BYTES]; /* of all before it and the number of the message; zero during the handshake */
};

enum link_state {
    LINK_CONNECTING,
    LINK_AWAITS_HELLO,
    LINK_AWAITS_CHALLENGE,
    LINK_AWAITS_PROOF,
    LINK_AWAITS_WELCOME,
    LINK_UP
};

struct link {
    struct link *next;
    int fd;
    int pe; /* at the other end; -1: has not said yet */
    enum link_state state;
    bool dialer;
    bool gone; /* said good-bye */
    char name[64];
    uint64_t deadline_ns;                /* of the handshake */
    unsigned char nonces[2][AUTH_BYTES]; /* of the dialer, of the acceptor */
    unsigned char key[AUTH_BYTES];
    uint64_t sent, received; /* messages with a code */
    size_t filled;
    struct link_message in;
};

/* Takes the descriptor. NULL: no memory, and it is closed. */
struct link *iso_link_new(int fd, bool dialer, int pe, const char *name);
void iso_link_free(struct link *link); /* NULL-tolerant */

/* 0 or -errno; `body` NULL: zeroes, else CHANNEL_BODY_BYTES. */
int iso_link_send(struct link *link, enum link_kind kind, uint32_t id, int32_t value, const void *body);
/* 1: link->in is a message, checked; 0: nothing yet; -EPIPE: the end; -EBADMSG: not from the other end; -errno. */
int iso_link_receive(struct link *link);

/* The steps of the handshake, over the tokens of both ends. 0, -EBADMSG, -errno. */
struct link_tokens {
    const unsigned char *dialer, *acceptor;
};
int iso_link_hello(struct link *link, int my_pe);
int iso_link_challenge(struct link *link, struct link_tokens tokens); /* acceptor, upon HELLO */
int iso_link_prove(struct link *link, struct link_tokens tokens);     /* dialer, upon CHALLENGE */
int iso_link_welcome(struct link *link, struct link_tokens tokens);   /* acceptor, upon PROOF */

#endif
