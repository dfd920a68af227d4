/* SPDX-License-Identifier: MIT */
/* SipHash-2-4-128, as published: two rounds for every eight bytes, four for each half of the code. */
#include "auth.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static void rounds(struct sip *s, int n)
{
    for (int i = 0; i < n; i++) {
        s->v0 += s->v1;
        s->v2 += s->v3;
        s->v1 = rotate(s->v1, 13) ^ s->v0;
        s->v3 = rotate(s->v3, 16) ^ s->v2;
        s->v0 = rotate(s->v0, 32) + s->v3;
        s->v2 += s->v1;
        s->v3 = rotate(s->v3, 21) ^ s->v0;
        s->v1 = rotate(s->v1, 17) ^ s->v2;
        s->v2 = rotate(s->v2, 32);
    }
}

/* Little-endian, at most eight bytes. */
static uint64_t bytes_as_word(const unsigned char *bytes, size_t len)
{
    uint64_t word = 0;
    if (len != 0) /* no bytes may have no address */
        memcpy(&word, bytes, len);
    return le64toh(word);
}

static void absorb(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    rounds(s, 2);
    s->v0 ^= word;
}

static void put_half(struct sip *s, unsigned char *code)
{
    rounds(s, 4);
    uint64_t half = s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
    for (int i = 0; i < 8; i++)
        code[i] = (unsigned char)(half >> (8 * i));
}

void iso_auth_code(const unsigned char key[AUTH_BYTES], const void *bytes, size_t len, unsigned char code[AUTH_BYTES])
{
    const unsigned char *at = (const unsigned char *)bytes;
    uint64_t k0 = bytes_as_word(key, 8), k1 = bytes_as_word(key + 8, 8);
    struct sip s = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ 0xee, k0 ^ 0x6c7967656e657261u,
                    k1 ^ 0x7465646279746573u};
    for (size_t left = len; left >= 8; left -= 8, at += 8)
        absorb(&s, bytes_as_word(at, 8));
    absorb(&s, bytes_as_word(at, len % 8) | (uint64_t)len << 56);
    s.v2 ^= 0xee;
    put_half(&s, code);
    s.v1 ^= 0xdd;
    put_half(&s, code + 8);
}

bool iso_auth_is_equal(const unsigned char a[AUTH_BYTES], const unsigned char b[AUTH_BYTES])
{
    volatile unsigned char difference = 0;
    for (int i = 0; i < AUTH_BYTES; i++)
        difference = (unsigned char)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

int iso_auth_draw(unsigned char bytes[AUTH_BYTES])
{
    for (size_t got = 0; got < AUTH_BYTES;) {
        ssize_t n = getrandom(bytes + got, AUTH_BYTES - got, 0);
        if (n < 0 && errno != EINTR)
            return -errno;
        got += n > 0 ? (size_t)n : 0;
    }
    return 0;
}
