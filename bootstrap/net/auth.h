/* SPDX-License-Identifier: MIT */
/* Codes that only a holder of a 128-bit key can make: SipHash-2-4 with 128 bits of output (Aumasson and Bernstein,
 * 2012). Used by handshake.c for proofs and by frame.c for frames. */
#ifndef ISO_AUTH_H
#define ISO_AUTH_H

#include <stdbool.h>
#include <stddef.h>

#define AUTH_BYTES 16 /* of a key, and of a code */

void iso_auth_code(const unsigned char key[AUTH_BYTES], const void *bytes, size_t len, unsigned char code[AUTH_BYTES]);
/* Takes the same time wherever the first difference is. */
bool iso_auth_is_equal(const unsigned char a[AUTH_BYTES], const unsigned char b[AUTH_BYTES]);
/* A key, or a number that has never been used before. 0 or -errno. */
int iso_auth_draw(unsigned char bytes[AUTH_BYTES]);

#endif
