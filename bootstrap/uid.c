/* SPDX-License-Identifier: MIT */
/* The unique id and the messages of the rendezvous: parsing and encoding, no I/O. Callers: boot_uid.c, tests, fuzzers.
 */
#include "uid.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static const unsigned char hello_magic[8] = {'I', 'S', 'O', 'M', 'E', 'R', '\r', '\n'};
#define FRAME_MAGIC 0x464f5349u /* "ISOF" */

enum { AT_NONCE = 8, AT_PROTOCOL = 24, AT_VERSION = 28, AT_RANK = 44, AT_SIZE = 48 };

static void store32(unsigned char *bytes, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

static uint32_t load32(const unsigned char *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

/* ---- the id ---- */

/* -1: not a hex digit. By hand: isxdigit follows the locale. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool parse_secret(const char *text, unsigned char secret[UID_SECRET_BYTES])
{
    if (strlen(text) != 2 * UID_SECRET_BYTES)
        return false;
    for (int i = 0; i < UID_SECRET_BYTES; i++) {
        int high = hex_value(text[2 * i]), low = hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        secret[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* Returns what follows the address and its colon, or NULL. */
static const char *parse_address(const char *text, struct uid *uid)
{
    uid->ipv6 = *text == '[';
    const char *start = text + uid->ipv6;
    const char *end = strchr(start, uid->ipv6 ? ']' : ':');
    if (!end || (size_t)(end - start) >= sizeof uid->address)
        return NULL;
    memcpy(uid->address, start, (size_t)(end - start));
    uid->address[end - start] = '\0';
    struct in6_addr scratch; /* large enough for both families */
    if (inet_pton(uid->ipv6 ? AF_INET6 : AF_INET, uid->address, &scratch) != 1)
        return NULL;
    end += uid->ipv6;
    return *end == ':' ? end + 1 : NULL;
}

/* 1..65535; returns what follows the port and its colon, or NULL. */
static const char *parse_port(const char *text, uint16_t *port)
{
    unsigned value = 0;
    int digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 6; text++, digits++)
        value = value * 10 + (unsigned)(*text - '0');
    if (value == 0 || value > 65535 || *text != ':')
        return NULL;
    *port = (uint16_t)value;
    return text + 1;
}

int iso_uid_parse(const unsigned char id[ISO_UID_BYTES], struct uid *uid, const char **why)
{
    memset(uid, 0, sizeof *uid);
    const char *text = (const char *)id;
    *why = "it is not a text of less than 128 bytes";
    if (!memchr(id, 0, ISO_UID_BYTES) || *text == '\0')
        return -EINVAL;
    *why = "it does not begin with a numeric address, a.b.c.d or [IPv6], and a colon";
    if (!(text = parse_address(text, uid)))
        return -EINVAL;
    *why = "its port is not in 1..65535, or no colon follows";
    if (!(text = parse_port(text, &uid->port)))
        return -EINVAL;
    *why = "its secret is not 32 hexadecimal digits";
    if (!parse_secret(text, uid->secret))
        return -EINVAL;
    *why = "";
    return 0;
}

bool iso_uid_is_same(const struct uid *a, const struct uid *b)
{
    return a->port == b->port && a->ipv6 == b->ipv6 && strcmp(a->address, b->address) == 0 &&
           memcmp(a->secret, b->secret, sizeof a->secret) == 0;
}

void iso_uid_format(const struct uid *uid, unsigned char id[ISO_UID_BYTES])
{
    char *text = (char *)id;
    memset(id, 0, ISO_UID_BYTES);
    int n = snprintf(text, ISO_UID_BYTES, uid->ipv6 ? "[%s]:%u:" : "%s:%u:", uid->address, (unsigned)uid->port);
    for (int i = 0; i < UID_SECRET_BYTES; i++)
        n += snprintf(text + n, ISO_UID_BYTES - (size_t)n, "%02x", uid->secret[i]);
}

/* ---- messages ---- */

void iso_uid_encode_hello(const struct uid_hello *hello, unsigned char bytes[UID_HELLO_BYTES])
{
    memset(bytes, 0, UID_HELLO_BYTES);
    memcpy(bytes, hello_magic, sizeof hello_magic);
    memcpy(bytes + AT_NONCE, hello->nonce, sizeof hello->nonce);
    store32(bytes + AT_PROTOCOL, hello->protocol);
    memcpy(bytes + AT_VERSION, hello->version, strnlen(hello->version, UID_VERSION_BYTES - 1));
    store32(bytes + AT_RANK, hello->rank);
    store32(bytes + AT_SIZE, hello->size);
}

enum uid_verdict iso_uid_judge_hello(const unsigned char *bytes, size_t len, struct uid_hello *hello)
{
    memset(hello, 0, sizeof *hello);
    if (memcmp(bytes, hello_magic, len < sizeof hello_magic ? len : sizeof hello_magic) != 0)
        return UID_NOT_OURS; /* known at the first wrong byte: an HTTP client is not waited for */
    if (len < UID_HELLO_BYTES)
        return UID_INCOMPLETE;
    memcpy(hello->nonce, bytes + AT_NONCE, sizeof hello->nonce);
    hello->protocol = load32(bytes + AT_PROTOCOL);
    iso_uid_clean_text(bytes + AT_VERSION, UID_VERSION_BYTES - 1, hello->version, sizeof hello->version);
    if (hello->protocol != ISO_PROTOCOL || strcmp(hello->version, ISO_VERSION) != 0)
        return UID_WRONG_VERSION;
    hello->rank = load32(bytes + AT_RANK);
    hello->size = load32(bytes + AT_SIZE);
    return UID_WELCOME;
}

void iso_uid_encode_frame(const struct uid_frame *frame, unsigned char bytes[UID_FRAME_BYTES])
{
    store32(bytes, FRAME_MAGIC);
    store32(bytes + 4, frame->kind);
    store32(bytes + 8, frame->seq);
    store32(bytes + 12, frame->len);
}

int iso_uid_decode_frame(const unsigned char bytes[UID_FRAME_BYTES], struct uid_frame *frame)
{
    frame->kind = load32(bytes + 4);
    frame->seq = load32(bytes + 8);
    frame->len = load32(bytes + 12);
    if (load32(bytes) != FRAME_MAGIC)
        return -EPROTO;
    switch (frame->kind) {
    case UID_FRAME_WELCOME:
        return frame->len == 0 ? 0 : -EPROTO;
    case UID_FRAME_DATA:
        return frame->len <= UID_DATA_BYTES_MAX ? 0 : -EPROTO;
    case UID_FRAME_FAIL:
        return frame->len < UID_SENTENCE_BYTES ? 0 : -EPROTO;
    case UID_FRAME_CHALLENGE:
        return frame->len == UID_CHALLENGE_BYTES ? 0 : -EPROTO;
    default:
        return -EPROTO;
    }
}

/* ---- proofs and codes ---- */

void iso_uid_prove(const struct uid_handshake *handshake, const unsigned char secret[UID_SECRET_BYTES],
                   enum uid_purpose purpose, unsigned char code[UID_CODE_BYTES])
{
    unsigned char bytes[1 + sizeof handshake->hello + sizeof handshake->nonce];
    bytes[0] = (unsigned char)purpose;
    memcpy(bytes + 1, handshake->hello, sizeof handshake->hello);
    memcpy(bytes + 1 + sizeof handshake->hello, handshake->nonce, sizeof handshake->nonce);
    iso_auth_code(secret, bytes, sizeof bytes, code);
}

void iso_uid_start_seal(struct uid_seal *seal, const struct uid_handshake *handshake,
                        const unsigned char secret[UID_SECRET_BYTES], bool is_hub)
{
    memset(seal, 0, sizeof *seal);
    seal->is_hub = is_hub;
    iso_uid_prove(handshake, secret, UID_KEY, seal->key);
}

static void make_code(const struct uid_seal *seal, uint64_t number, const unsigned char *head,
                      const unsigned char *digest, unsigned char code[UID_CODE_BYTES])
{
    unsigned char bytes[UID_FRAME_BYTES + UID_CODE_BYTES + 8];
    memcpy(bytes, head, UID_FRAME_BYTES);
    memcpy(bytes + UID_FRAME_BYTES, digest, UID_CODE_BYTES);
    store32(bytes + UID_FRAME_BYTES + UID_CODE_BYTES, (uint32_t)number);
    store32(bytes + UID_FRAME_BYTES + UID_CODE_BYTES + 4, (uint32_t)(number >> 32));
    iso_auth_code(seal->key, bytes, sizeof bytes, code);
}

void iso_uid_seal(struct uid_seal *seal, const unsigned char head[UID_FRAME_BYTES],
                  const unsigned char digest[UID_CODE_BYTES], unsigned char code[UID_CODE_BYTES])
{
    make_code(seal, seal->sent++ << 1 | seal->is_hub, head, digest, code);
}

bool iso_uid_is_sealed(struct uid_seal *seal, const unsigned char head[UID_FRAME_BYTES],
                       const unsigned char digest[UID_CODE_BYTES], const unsigned char code[UID_CODE_BYTES])
{
    unsigned char right[UID_CODE_BYTES];
    make_code(seal, seal->received++ << 1 | !seal->is_hub, head, digest, right);
    return iso_auth_is_equal(right, code);
}

/* ---- text ---- */

void iso_uid_clean_text(const unsigned char *bytes, size_t len, char *text, size_t text_bytes)
{
    size_t n = 0;
    for (; n < len && n + 1 < text_bytes && bytes[n] != 0; n++)
        text[n] = bytes[n] < 32 || bytes[n] > 126 ? '?' : (char)bytes[n];
    text[n] = '\0';
}

void iso_uid_list_missing(const bool *here, int size, char *text, size_t text_bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (int r = 0; r < size; r++) {
        if (here[r])
            continue;
        int last = r;
        while (last + 1 < size && !here[last + 1])
            last++;
        if (n + 32 > text_bytes) {
            snprintf(text + n, text_bytes - n, ", ...");
            return;
        }
        n += (size_t)snprintf(text + n, text_bytes - n, last == r ? "%s%d" : "%s%d-%d", n > 0 ? ", " : "", r, last);
        r = last;
    }
}
