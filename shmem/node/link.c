/* SPDX-License-Identifier: MIT */
/* One connection of the channel: sending, receiving, proving. Used by channel.c, under its lock. */
#include "link.h"

#include "../../bootstrap/net/wire.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x434f5349u /* "ISOC" */
#define SEND_S 5.0        /* a message fits the socket's buffer: to wait means that the other end reads no more */
#define HANDSHAKE_NS 10000000000u

struct link *iso_link_new(int fd, bool dialer, int pe, const char *name)
{
    struct link *link = (struct link *)calloc(1, sizeof *link);
    if (link == NULL) {
        close(fd);
        return NULL;
    }
    link->fd = fd;
    link->pe = pe;
    link->dialer = dialer;
    link->state = dialer ? LINK_CONNECTING : LINK_AWAITS_HELLO;
    link->deadline_ns = iso_wait_now_ns() + HANDSHAKE_NS;
    snprintf(link->name, sizeof link->name, "%s", name);
    return link;
}

void iso_link_free(struct link *link)
{
    if (link == NULL)
        return;
    if (link->fd >= 0)
        close(link->fd);
    free(link);
}

/* ---- messages ---- */

/* The dialer's messages and the acceptor's are numbered apart, or one could be sent back to where it came from. */
static void make_code(const struct link *link, const struct link_message *m, bool by_dialer, uint64_t number,
                      unsigned char code[AUTH_BYTES])
{
    unsigned char bytes[sizeof *m - AUTH_BYTES + sizeof number];
    number = number << 1 | by_dialer;
    memcpy(bytes, m, sizeof *m - AUTH_BYTES);
    memcpy(bytes + (sizeof *m - AUTH_BYTES), &number, sizeof number);
    iso_auth_code(link->key, bytes, sizeof bytes, code);
}

int iso_link_send(struct link *link, enum link_kind kind, uint32_t id, int32_t value, const void *body)
{
    struct link_message m;
    memset(&m, 0, sizeof m);
    m.magic = MAGIC;
    m.kind = kind;
    m.id = id;
    m.value = value;
    if (body != NULL)
        memcpy(m.body, body, sizeof m.body);
    if (kind >= LINK_WELCOME)
        make_code(link, &m, link->dialer, link->sent++, m.code);
    return iso_wire_send(link->fd, &m, sizeof m, iso_wire_deadline(SEND_S));
}

static int check(struct link *link)
{
    unsigned char code[AUTH_BYTES];
    const struct link_message *m = &link->in;
    if (m->magic != MAGIC)
        return -EBADMSG;
    if (link->state != LINK_UP && link->state != LINK_AWAITS_WELCOME)
        return m->kind < LINK_WELCOME ? 1 : -EBADMSG;
    make_code(link, m, !link->dialer, link->received++, code);
    return m->kind >= LINK_WELCOME && iso_auth_is_equal(code, m->code) ? 1 : -EBADMSG;
}

int iso_link_receive(struct link *link)
{
    ptrdiff_t n = iso_wire_recv_some(link->fd, (char *)&link->in + link->filled, sizeof link->in - link->filled);
    if (n <= 0)
        return (int)n;
    link->filled += (size_t)n;
    if (link->filled < sizeof link->in)
        return link->filled >= sizeof link->in.magic && link->in.magic != MAGIC ? -EBADMSG : 0;
    link->filled = 0;
    return check(link);
}

/* ---- proofs ---- */

/* What a token makes of both nonces, for one purpose. */
static void digest(const struct link *link, char purpose, const unsigned char *token, unsigned char code[AUTH_BYTES])
{
    unsigned char bytes[1 + sizeof link->nonces];
    bytes[0] = (unsigned char)purpose;
    memcpy(bytes + 1, link->nonces, sizeof link->nonces);
    iso_auth_code(token, bytes, sizeof bytes, code);
}

static void make_key(struct link *link, struct link_tokens tokens)
{
    unsigned char other[AUTH_BYTES];
    digest(link, 'k', tokens.dialer, link->key);
    digest(link, 'k', tokens.acceptor, other);
    for (int i = 0; i < AUTH_BYTES; i++)
        link->key[i] ^= other[i];
}

int iso_link_hello(struct link *link, int my_pe)
{
    unsigned char body[CHANNEL_BODY_BYTES] = {0};
    int rc = iso_auth_draw(link->nonces[0]);
    memcpy(body, link->nonces[0], AUTH_BYTES);
    link->state = LINK_AWAITS_CHALLENGE;
    return rc != 0 ? rc : iso_link_send(link, LINK_HELLO, (uint32_t)link->pe, my_pe, body);
}

int iso_link_challenge(struct link *link, struct link_tokens tokens)
{
    unsigned char body[CHANNEL_BODY_BYTES] = {0};
    int rc = iso_auth_draw(link->nonces[1]);
    memcpy(link->nonces[0], link->in.body, AUTH_BYTES);
    memcpy(body, link->nonces[1], AUTH_BYTES);
    digest(link, 'a', tokens.acceptor, body + AUTH_BYTES);
    link->state = LINK_AWAITS_PROOF;
    return rc != 0 ? rc : iso_link_send(link, LINK_CHALLENGE, 0, 0, body);
}

int iso_link_prove(struct link *link, struct link_tokens tokens)
{
    unsigned char body[CHANNEL_BODY_BYTES] = {0}, proof[AUTH_BYTES];
    if (link->in.kind != LINK_CHALLENGE)
        return -EBADMSG;
    memcpy(link->nonces[1], link->in.body, AUTH_BYTES);
    digest(link, 'a', tokens.acceptor, proof);
    if (!iso_auth_is_equal(proof, link->in.body + AUTH_BYTES))
        return -EBADMSG;
    digest(link, 'd', tokens.dialer, body);
    make_key(link, tokens);
    link->state = LINK_AWAITS_WELCOME;
    return iso_link_send(link, LINK_PROOF, 0, 0, body);
}

int iso_link_welcome(struct link *link, struct link_tokens tokens)
{
    unsigned char proof[AUTH_BYTES];
    digest(link, 'd', tokens.dialer, proof);
    if (link->in.kind != LINK_PROOF || !iso_auth_is_equal(proof, link->in.body))
        return -EBADMSG;
    make_key(link, tokens);
    link->state = LINK_UP;
    return iso_link_send(link, LINK_WELCOME, 0, 0, NULL);
}
