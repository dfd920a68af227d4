/* SPDX-License-Identifier: MIT */
/* How both ends of a new connection prove to each other that they know a secret, without sending it; then frames
 * (frame.h) go over it. One state machine for both ends; no call blocks.
 *   dialer                                           acceptor
 *   hello: nonce, version, which PE, what for   ->
 *                                               <-   challenge: another nonce, proof over both
 *   proof over both                             ->
 *                                               <-   the first frame, when the layer above likes
 * invariant: before iso_handshake_receive returns HANDSHAKE_DONE the other end has proved nothing. The layout of the
 * hello never changes: it carries the message that versions differ.
 * A caller that accepts gives each connection a deadline, limits how many wait, and drops the oldest first: then silent
 * and slow strangers block no PE. Used by uid_*.c and by the channel between nodes. */
#ifndef ISO_HANDSHAKE_H
#define ISO_HANDSHAKE_H

#include "frame.h"

#define HELLO_BYTES 60 /* magic 8, nonce 16, protocol 4, version 16, pe 4, detail 4, service 4, reserved 4 */
#define HELLO_VERSION_BYTES 16
#define CHALLENGE_BYTES 40 /* magic 8, nonce 16, proof 16 */

enum handshake_service { HANDSHAKE_UID = 1, HANDSHAKE_CHANNEL };

struct hello {
    uint32_t protocol;
    char version[HELLO_VERSION_BYTES]; /* NUL-terminated, printable */
    uint32_t pe;                       /* that dials */
    uint32_t detail;                   /* of the unique id: the size of the job; of the channel: the PE that is meant */
    uint32_t service;                  /* enum handshake_service */
};

enum handshake_phase { PHASE_HELLO, PHASE_CHALLENGE, PHASE_PROOF, PHASE_DONE }; /* what is awaited */

struct handshake {
    enum handshake_phase phase;
    unsigned got; /* bytes of what is awaited */
    unsigned char hello[HELLO_BYTES], challenge[CHALLENGE_BYTES], proof[AUTH_BYTES];
};

enum handshake_event { HANDSHAKE_NOTHING, HANDSHAKE_HELLO, HANDSHAKE_DONE };

/* Makes a hello of this library. */
struct hello iso_handshake_hello(enum handshake_service service, uint32_t pe, uint32_t detail);
/* Is it from a library of the same version and protocol as this one? */
bool iso_handshake_is_current(const struct hello *hello);

/* Begins at the dialer, whose connection is complete and which knows the secret; sends the hello. 0 or -errno. */
int iso_handshake_dial(struct handshake *h, struct frame_socket *s, int fd, const unsigned char secret[AUTH_BYTES],
                       const struct hello *hello);
/* Begins at the acceptor. */
void iso_handshake_accept(struct handshake *h, struct frame_socket *s, int fd);

/* Takes what has arrived. HANDSHAKE_NOTHING: more is needed; HANDSHAKE_HELLO: the acceptor has a hello, which is not
 * proved, and answers or drops the connection; HANDSHAKE_DONE: both ends have proved themselves as far as this end can
 * know, and frames may be sent. -EPROTO: not a PE of this library, known at the first wrong byte; -EACCES: the other
 * end has another secret; -EPIPE: the end of the stream; -errno. */
int iso_handshake_receive(struct handshake *h, struct frame_socket *s);
/* At the acceptor, once, after HANDSHAKE_HELLO. 0 or -errno. */
int iso_handshake_answer(struct handshake *h, struct frame_socket *s, const unsigned char secret[AUTH_BYTES]);

/* The hello that the other end has sent, or this end itself. */
struct hello iso_handshake_said(const struct handshake *h);
/* "its secret is not the one of this job": why a handshake ended with this result; for printing behind a colon. A
 * caller adds -ETIMEDOUT, and -EBADMSG for a hello that it refuses. */
const char *iso_handshake_why(const struct handshake *h, int rc);

/* Warns that a stranger's connection was dropped. All who accept connections share a count, so that strangers write at
 * most ten lines and one more to the log of a PE. */
void iso_handshake_warn_dropped(const char *name, const char *why);
/* Rank 0 begins to wait for the PEs of another job. */
void iso_handshake_forget_dropped(void);

#endif
