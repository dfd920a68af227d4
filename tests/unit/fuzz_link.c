/* SPDX-License-Identifier: MIT */
/* libFuzzer on a connection between two PEs: the input says what reaches one end of it, which is read as channel.c
 * reads: messages of an honest other end, whole, in pieces, changed, repeated, sent back, and noise. What is taken must
 * be what the other end meant, in its order, and nothing at all before both have proven themselves. */
#include "../../shmem/node/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static const unsigned char token_a[AUTH_BYTES] = "token of dialer", token_b[AUTH_BYTES] = "token of taker.";
static const struct link_tokens tokens = {token_a, token_b};

enum { MESSAGE = sizeof(struct link_message), MOST = 64 };

/* One end is under test. Between it and the honest one all bytes pass through here. */
struct fuzz {
    const uint8_t *data;
    size_t left;
    struct link *tested, *honest;
    int at_tested, at_honest; /* our ends of their connections */
    unsigned char last[MESSAGE], from_tested[MESSAGE];
    bool has_last, has_from;
    bool honest_ended, forged; /* what is being delivered is not what `honest` said */
    bool disturbed;            /* bytes of another origin have reached the tested end */
    uint32_t sent, took;       /* requests */
    int rc;                    /* of the tested end; < 0: it has ended */
};

static void require(bool true_now)
{
    if (!true_now)
        abort();
}

/* A run must be repeatable. */
ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    (void)flags;
    memset(bytes, 0x5a, len);
    return (ssize_t)len;
}

static unsigned take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->data++;
}

static void fill_body(uint32_t id, unsigned char body[CHANNEL_BODY_BYTES])
{
    memset(body, (int)(id * 7 + 1), CHANNEL_BODY_BYTES);
}

/* ---- the tested end, as channel.c has it ---- */

static int shake_hands(struct link *link)
{
    int rc = -EBADMSG;
    switch (link->state) {
    case LINK_AWAITS_HELLO:
        return link->in.kind == LINK_HELLO ? iso_link_challenge(link, tokens) : -EBADMSG;
    case LINK_AWAITS_CHALLENGE:
        return iso_link_prove(link, tokens);
    case LINK_AWAITS_PROOF:
        return iso_link_welcome(link, tokens);
    default:
        rc = link->in.kind == LINK_WELCOME ? 0 : -EBADMSG;
    }
    link->state = rc == 0 ? LINK_UP : link->state;
    return rc;
}

static void take_message(struct fuzz *f)
{
    unsigned char body[CHANNEL_BODY_BYTES];
    const struct link_message *m = &f->tested->in;
    fill_body(f->took, body);
    require(m->kind == LINK_REQUEST && m->id == f->took && m->value == (int32_t)f->took);
    require(memcmp(m->body, body, sizeof body) == 0);
    require(f->took < f->sent);
    f->took++;
}

static void read_tested(struct fuzz *f)
{
    int rc;
    while (f->rc >= 0 && (rc = iso_link_receive(f->tested)) != 0) {
        require(f->tested->filled < MESSAGE);
        if (rc == 1 && f->tested->state != LINK_UP)
            rc = shake_hands(f->tested);
        else if (rc == 1)
            take_message(f);
        f->rc = rc < 0 ? rc : 0;
        require(rc >= 0 || rc == -EBADMSG || rc == -EPIPE);
    }
    require(f->tested->state != LINK_UP || f->honest->state >= LINK_AWAITS_WELCOME);
}

/* What the tested end has sent goes to the honest one, which answers the handshake. */
static void read_honest(struct fuzz *f)
{
    if (f->honest_ended || recv(f->at_tested, f->from_tested, MESSAGE, MSG_DONTWAIT) != MESSAGE)
        return;
    f->has_from = true;
    require(send(f->at_honest, f->from_tested, MESSAGE, MSG_NOSIGNAL) == MESSAGE);
    int rc = iso_link_receive(f->honest);
    if (rc == 1 && f->honest->state != LINK_UP)
        rc = shake_hands(f->honest);
    f->honest_ended = rc < 0;
    require(rc >= 0 || f->disturbed);
}

/* ---- what the input does ---- */

/* Bytes that the honest end did not make must not be what brings the tested one up. */
static void deliver(struct fuzz *f, const void *bytes, size_t len)
{
    bool up = f->tested->state == LINK_UP || f->rc < 0;
    if (f->rc >= 0 && send(f->at_tested, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
        read_tested(f);
    require(up || f->tested->state != LINK_UP || !f->forged);
}

/* The honest end's next message, not delivered yet: of the handshake if it has one, else a request. */
static bool next_message(struct fuzz *f)
{
    unsigned char body[CHANNEL_BODY_BYTES];
    read_honest(f);
    if (recv(f->at_honest, f->last, MESSAGE, MSG_DONTWAIT) == MESSAGE)
        return f->has_last = true;
    if (f->honest->state != LINK_UP || f->sent == MOST)
        return false;
    fill_body(f->sent, body);
    require(iso_link_send(f->honest, LINK_REQUEST, f->sent, (int32_t)f->sent, body) == 0);
    f->sent++;
    require(recv(f->at_honest, f->last, MESSAGE, MSG_DONTWAIT) == MESSAGE);
    return f->has_last = true;
}

/* During the handshake only kind and proof count. */
static bool differ(const struct fuzz *f, const unsigned char *before)
{
    const size_t proof = offsetof(struct link_message, body);
    if (f->honest->state == LINK_UP)
        return memcmp(before, f->last, MESSAGE) != 0;
    return memcmp(before, f->last, 8) != 0 || memcmp(before + proof, f->last + proof, AUTH_BYTES) != 0;
}

static void change(struct fuzz *f)
{
    unsigned char before[MESSAGE];
    memcpy(before, f->last, MESSAGE);
    for (unsigned n = take(f) % 4 + 1; n > 0; n--) {
        unsigned at = (take(f) << 8 | take(f)) % MESSAGE;
        f->last[at] = (unsigned char)take(f);
    }
    f->disturbed = true;
    f->forged = differ(f, before);
}

static void send_noise(struct fuzz *f)
{
    unsigned char noise[2 * MESSAGE] = {'I', 'S', 'O', 'C'};
    size_t right = take(f) % 2 ? 4 : 0, len = take(f);
    for (size_t i = right; i < len; i++)
        noise[i] = (unsigned char)take(f);
    f->disturbed = f->forged = true;
    deliver(f, noise, len);
}

static void send_in_pieces(struct fuzz *f)
{
    size_t at = 0;
    while (at < MESSAGE) {
        size_t n = take(f) + 1;
        n = n < MESSAGE - at ? n : MESSAGE - at;
        deliver(f, f->last + at, n);
        at += n;
    }
}

static void act(struct fuzz *f)
{
    unsigned what = take(f) % 8;
    f->forged = false;
    if (what < 4 && !next_message(f))
        return;
    f->disturbed |= what >= 4;
    if (what == 3)
        change(f);
    if (what == 5)
        read_honest(f);
    if (what == 2)
        send_in_pieces(f);
    else if (what < 4 || (what == 4 && f->has_last))
        deliver(f, f->last, MESSAGE);
    else if (what == 5 && f->has_from)
        deliver(f, f->from_tested, MESSAGE);
    else if (what == 6)
        send_noise(f);
}

/* ---- main ---- */

static struct link *make_end(bool dialer, const char *name, int *other)
{
    int fds[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    struct link *link = iso_link_new(fds[0], dialer, dialer ? 1 : -1, name);
    require(link != NULL);
    *other = fds[1];
    return link;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz f = {.data = data, .left = len_bytes};
    bool dialer = take(&f) & 1;
    f.tested = make_end(dialer, "tested", &f.at_tested);
    f.honest = make_end(!dialer, "honest", &f.at_honest);
    require(iso_link_hello(dialer ? f.tested : f.honest, 0) == 0);
    while (f.left > 0 && f.rc >= 0)
        act(&f);
    iso_link_free(f.tested);
    iso_link_free(f.honest);
    close(f.at_tested);
    close(f.at_honest);
    return 0;
}
