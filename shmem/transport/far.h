/* SPDX-License-Identifier: MIT */
/* Access to what no pointer reaches: device memory, staged edges of buffers, PEs of other nodes. */
#ifndef ISO_FAR_H
#define ISO_FAR_H

#include "../memory/segment.h"

#include <sys/uio.h>

enum amo_op { AMO_FETCH, AMO_SET, AMO_SWAP, AMO_CSWAP, AMO_ADD, AMO_AND, AMO_OR, AMO_XOR };

struct amo {
    enum amo_op op;
    unsigned bytes; /* 4 or 8 */
    uint64_t operand;
    uint64_t compare;
    bool fetches; /* the old value is wanted */
};

/* Blocking: the source may be reused on return; delivery by fence and quiet of `ctx`. len > 0. The place is as
 * iso_place gave it (segment == NULL: split at the pieces of the buffer); the local side is any memory, of the device
 * too. */
void iso_far_put(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call);
void iso_far_get(struct ctx *ctx, struct place from, void *dest, size_t len, const char *call);
/* The old value, when op.fetches. */
uint64_t iso_far_amo(struct ctx *ctx, struct place at, struct amo op, const char *call);
/* An 8-byte write (or add) at `at` after all earlier far puts of ctx to the same PE. */
void iso_far_signal(struct ctx *ctx, struct place at, uint64_t value, int sig_op, const char *call);
/* Whole words of 1, 2, 4 or 8 bytes, aligned, without a CPU pointer: for p and g, and waits and tests on device memory.
 */
uint64_t iso_far_load(struct ctx *ctx, struct place at, unsigned bytes, const char *call);
void iso_far_store(struct ctx *ctx, struct place at, uint64_t value, unsigned bytes, const char *call);
/* Is this local argument symmetric device memory? Then iso_far_put and _get move it, for every kind of other side. */
bool iso_far_is_local_slow(const void *addr);
ISO_INLINE bool iso_far_is_local(const void *addr) { return ISO_UNLIKELY(ISO->careful) && iso_far_is_local_slow(addr); }
/* The source, or dest, is busy until quiet (or until a later blocking put, or get, of ctx with the same PE). */
void iso_far_put_nbi(struct ctx *ctx, struct place to, const void *source, size_t len, const char *call);
void iso_far_get_nbi(struct ctx *ctx, struct place from, void *dest, size_t len, const char *call);
/* fetch: host memory of op.bytes, written by quiet at the latest. */
void iso_far_amo_nbi(struct ctx *ctx, struct place at, struct amo op, void *fetch, const char *call);
/* Data, then its signal; neither place has a CPU pointer. */
struct far_message {
    struct place to, at;
    const void *source;
    size_t len; /* > 0 */
    uint64_t signal;
    int sig_op;
    bool nbi;
    const char *call;
};
void iso_far_put_signal(struct ctx *ctx, const struct far_message *message);
/* n words of 8 bytes to host memory, each of which arrives whole, in any order among themselves and after all earlier
 * far puts of ctx to the same PE. They may be reused on return. */
void iso_far_put_words(struct ctx *ctx, struct place to, const uint64_t *words, size_t n, const char *call);
void iso_far_fence(struct ctx *ctx);
void iso_far_quiet(struct ctx *ctx);
void iso_far_pe_quiet(struct ctx *ctx, int pe); /* towards one PE of the world */
/* By waits, which may be for what this PE itself has under way. True: something came or was completed. */
bool iso_transport_progress(void);
/* A test has failed, which is a poll of a loop in the program: it makes progress as a wait does, since the answer may
 * depend on what this PE has under way, and with more PEs than cores it leaves the core to the PE that it tests for. */
void iso_transport_polled(void);
/* Sleeps for so long, or until something comes from another node: by waits that have lasted. False: did not sleep. */
bool iso_transport_rest(uint64_t ns);

/* Private memory of another PE of this node, read by the kernel: n ranges (less than 2 GiB together, or one) at its own
 * addresses, one behind the other to `into`. The PE has called iso_far_allow_reads before. 0, or -errno: the kernel does
 * not allow it, or there is no memory. */
int iso_far_read_private(int pe, const struct iovec *ranges, int n, void *into);
void iso_far_allow_reads(void);

#endif
