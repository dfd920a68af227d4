/* SPDX-License-Identifier: MIT */
/* The unique id and the messages of the rendezvous over it, as pure functions: everything that parses bytes from
 * outside is here, so that it can be tested and fuzzed without a socket. Used by boot_uid.c.
 *
 * Id: "address:port:secret" in ISO_UID_BYTES, padded with NUL; address is IPv4 or [IPv6], secret 32 hex digits.
 * Messages: a PE sends one hello and a proof, then frames; rank 0 sends frames only (uid_job.h shows the order).
 * Integers are little-endian. The layout of the hello, of the handshake and of a frame stays as it is in all versions:
 * they carry the news that versions differ. */
#ifndef ISO_UID_H
#define ISO_UID_H

#include "net/auth.h"
#include "boot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UID_SECRET_BYTES AUTH_BYTES
#define UID_CODE_BYTES AUTH_BYTES
#define UID_VERSION_BYTES 16
#define UID_HELLO_BYTES 60     /* magic 8, nonce 16, protocol 4, version 16, rank 4, size 4, reserved 8 */
#define UID_FRAME_BYTES 16     /* magic 4, kind 4, seq 4, len 4; payload and code follow */
#define UID_CHALLENGE_BYTES 32 /* nonce and proof of rank 0 */
#define UID_SENTENCE_BYTES 512
#define UID_DATA_BYTES_MAX 0x40000000u

struct uid {
    char address[46]; /* numeric, without brackets */
    bool ipv6;
    uint16_t port;
    unsigned char secret[UID_SECRET_BYTES];
};

struct uid_hello {
    unsigned char nonce[AUTH_BYTES]; /* new for each connection */
    uint32_t protocol;
    char version[UID_VERSION_BYTES]; /* NUL-terminated, printable */
    uint32_t rank;
    uint32_t size;
};

enum uid_verdict {
    UID_WELCOME,
    UID_INCOMPLETE,   /* right so far, more bytes are needed */
    UID_NOT_OURS,     /* wrong magic: another program */
    UID_WRONG_VERSION /* ours, but another library or protocol version: *hello is filled up to `version` */
};

enum uid_kind {
    UID_FRAME_WELCOME = 1, /* all PEs are in; no payload */
    UID_FRAME_DATA,        /* to rank 0: one block; from rank 0: the blocks of all ranks */
    UID_FRAME_FAIL,        /* the job cannot go on; payload: a sentence */
    UID_FRAME_CHALLENGE    /* the answer to a hello; the only one without a code */
};

struct uid_frame {
    uint32_t kind; /* enum uid_kind */
    uint32_t seq;  /* number of the collective call */
    uint32_t len;  /* of the payload that follows */
};

/* What both ends have said: proofs and keys are made of it. */
struct uid_handshake {
    unsigned char hello[UID_HELLO_BYTES];
    unsigned char nonce[AUTH_BYTES]; /* of rank 0 */
};
enum uid_purpose { UID_PROOF_HUB = 'h', UID_PROOF_PE = 'p', UID_KEY = 'k' };

/* One end of a connection after the handshake. */
struct uid_seal {
    unsigned char key[AUTH_BYTES];
    bool is_hub; /* rank 0's messages and the PE's are numbered apart */
    uint64_t sent, received;
};

/* 0, or -EINVAL and *why = what is wrong with the text. */
int iso_uid_parse(const unsigned char id[ISO_UID_BYTES], struct uid *uid, const char **why);
bool iso_uid_is_same(const struct uid *a, const struct uid *b);
void iso_uid_format(const struct uid *uid, unsigned char id[ISO_UID_BYTES]);

void iso_uid_encode_hello(const struct uid_hello *hello, unsigned char bytes[UID_HELLO_BYTES]);
/* Judges the first `len` bytes (<= UID_HELLO_BYTES) that a connection sent. Whether it is true only a proof can tell.
 */
enum uid_verdict iso_uid_judge_hello(const unsigned char *bytes, size_t len, struct uid_hello *hello);

/* What only somebody who knows the secret can make of this handshake. */
void iso_uid_prove(const struct uid_handshake *handshake, const unsigned char secret[UID_SECRET_BYTES],
                   enum uid_purpose purpose, unsigned char code[UID_CODE_BYTES]);
void iso_uid_start_seal(struct uid_seal *seal, const struct uid_handshake *handshake,
                        const unsigned char secret[UID_SECRET_BYTES], bool is_hub);
/* The code of the next message of this end; `digest` stands for the payload. */
void iso_uid_seal(struct uid_seal *seal, const unsigned char head[UID_FRAME_BYTES],
                  const unsigned char digest[UID_CODE_BYTES], unsigned char code[UID_CODE_BYTES]);
/* Is this the next message of the other end? */
bool iso_uid_is_sealed(struct uid_seal *seal, const unsigned char head[UID_FRAME_BYTES],
                       const unsigned char digest[UID_CODE_BYTES], const unsigned char code[UID_CODE_BYTES]);

void iso_uid_encode_frame(const struct uid_frame *frame, unsigned char bytes[UID_FRAME_BYTES]);
/* 0, or -EPROTO: not a frame, unknown kind, or a length that its kind cannot have. */
int iso_uid_decode_frame(const unsigned char bytes[UID_FRAME_BYTES], struct uid_frame *frame);

/* Makes text from outside fit to print: cuts it at the first NUL or at `len`, and control characters become '?'. */
void iso_uid_clean_text(const unsigned char *bytes, size_t len, char *text, size_t text_bytes);
/* "1, 3-5" from the ranks r < size with here[r] == false; "..." where it does not fit. */
void iso_uid_list_missing(const bool *here, int size, char *text, size_t text_bytes);

#endif
