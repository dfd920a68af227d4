/* SPDX-License-Identifier: MIT */
/* The text of a unique id, as pure functions: tested and fuzzed without a socket. Used by uid_*.c and boot_uid.c.
 * An id is "address:port:secret" in ISO_UID_BYTES, padded with NUL; address is IPv4 or [IPv6], secret 32 hex digits. */
#ifndef ISO_UID_H
#define ISO_UID_H

#include "boot.h"
#include "net/auth.h"
#include "net/tcp.h"

struct uid {
    struct tcp_address address; /* where rank 0 listens */
    unsigned char secret[AUTH_BYTES];
};

/* 0, or -EINVAL and *why = what is wrong with the text. */
int iso_uid_parse(const unsigned char id[ISO_UID_BYTES], struct uid *uid, const char **why);
bool iso_uid_is_same(const struct uid *a, const struct uid *b);
void iso_uid_format(const struct uid *uid, unsigned char id[ISO_UID_BYTES]);

/* "1, 3-5" from the ranks r < size with here[r] == false; "..." where it does not fit. */
void iso_uid_list_missing(const bool *here, int size, char *text, size_t text_bytes);

#endif
