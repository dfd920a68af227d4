/* SPDX-License-Identifier: MIT */
/* Frames over a TCP connection whose ends have proved to each other that they know a secret (handshake.h): a head, a
 * payload, and a code that only the two ends can make.
 * invariant: codes count the frames of each direction and depend on the connection, so no frame can be added, changed,
 * left out, repeated, sent back, or taken from another connection. Payloads are not encrypted.
 * Integers travel as little-endian. Used by uid_*.c and by the channel between nodes. */
#ifndef ISO_FRAME_H
#define ISO_FRAME_H

#include "auth.h"
#include "tcp.h"

#define FRAME_HEAD_BYTES 16 /* magic 4, kind 4, number 4, len 4; payload and code follow */

struct frame {
    uint32_t kind;   /* the layer above knows which there are, and what len each may have */
    uint32_t number; /* for the layer above */
    uint32_t len;    /* of the payload */
};

/* One end of a connection. */
struct frame_socket {
    int fd;                           /* -1: closed */
    bool accepted;                    /* this end accepted the connection, the other one dialed */
    unsigned char secret[AUTH_BYTES]; /* what both ends know */
    unsigned char key[AUTH_BYTES];    /* of this connection; made by the handshake */
    uint64_t sent, received;          /* whole frames */
    size_t got;                       /* bytes of the frame that is arriving */
    unsigned char head[FRAME_HEAD_BYTES], code[AUTH_BYTES];
};

void iso_frame_encode(const struct frame *frame, unsigned char head[FRAME_HEAD_BYTES]);
/* 0, or -EPROTO: not the head of a frame. */
int iso_frame_decode(const unsigned char head[FRAME_HEAD_BYTES], struct frame *frame);

/* Stands for a payload in the codes of all connections with this secret: made once for many receivers. */
void iso_frame_digest(const unsigned char secret[AUTH_BYTES], const void *payload, size_t len,
                      unsigned char digest[AUTH_BYTES]);
/* `digest` is of the payload; NULL: it is made here. 0 or -errno; -ETIMEDOUT past the deadline. */
int iso_frame_send(struct frame_socket *s, const struct frame *frame, const void *payload, const unsigned char *digest,
                   int64_t deadline);

/* A frame is received in two parts: when the head is there, the caller judges it and provides room for frame->len bytes
 * of payload, always the same until the rest is there. Both calls take what has arrived and never block.
 * 1: the part is complete; 0: not yet; -EPROTO: not the head of a frame; -EBADMSG: the code is wrong; -EPIPE: the end
 * of the stream; -errno. */
int iso_frame_head(struct frame_socket *s, struct frame *frame);
int iso_frame_rest(struct frame_socket *s, void *payload);
/* The same, but they wait. 0; -ETIMEDOUT past the deadline; -errno as above. */
int iso_frame_wait_head(struct frame_socket *s, struct frame *frame, int64_t deadline);
int iso_frame_wait_rest(struct frame_socket *s, void *payload, int64_t deadline);

/* Integers of heads and of the handshake. */
void iso_frame_store32(unsigned char bytes[4], uint32_t value);
uint32_t iso_frame_load32(const unsigned char bytes[4]);

#endif
