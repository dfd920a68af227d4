/* SPDX-License-Identifier: MIT */
/* The handshake. A proof is a code of the secret over its purpose and over all that both ends have chosen, so that it is
 * of use neither on another connection nor at the other end. */
#include "handshake.h"

#include "../boot.h"
#include "../log.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { AT_NONCE = 8, AT_PROTOCOL = 24, AT_VERSION = 28, AT_PE = 44, AT_DETAIL = 48, AT_SERVICE = 52 };
enum { NONCE_AT = 8, PROOF_AT = 24 }; /* in a challenge */
enum purpose { PROOF_OF_ACCEPTOR = 'a', PROOF_OF_DIALER = 'd', KEY = 'k' };

enum { WARNINGS_MAX = 10 };
static unsigned warnings; /* of the process; atomic, relaxed: it orders nothing */

static const unsigned char magic[8] = {'I', 'S', 'O', 'M', 'E', 'R', '\r', '\n'};

struct hello iso_handshake_hello(enum handshake_service service, uint32_t pe, uint32_t detail)
{
    struct hello hello = {.protocol = ISO_PROTOCOL, .pe = pe, .detail = detail, .service = service};
    snprintf(hello.version, sizeof hello.version, "%s", ISO_VERSION);
    return hello;
}

bool iso_handshake_is_current(const struct hello *hello)
{
    return hello->protocol == ISO_PROTOCOL && strcmp(hello->version, ISO_VERSION) == 0;
}

struct hello iso_handshake_said(const struct handshake *h)
{
    struct hello hello = {.protocol = iso_frame_load32(h->hello + AT_PROTOCOL),
                          .pe = iso_frame_load32(h->hello + AT_PE),
                          .detail = iso_frame_load32(h->hello + AT_DETAIL),
                          .service = iso_frame_load32(h->hello + AT_SERVICE)};
    iso_log_clean(h->hello + AT_VERSION, HELLO_VERSION_BYTES - 1, hello.version, sizeof hello.version);
    return hello;
}

static void prove(const struct handshake *h, const unsigned char secret[AUTH_BYTES], enum purpose purpose,
                  unsigned char code[AUTH_BYTES])
{
    unsigned char bytes[1 + HELLO_BYTES + AUTH_BYTES];
    bytes[0] = (unsigned char)purpose;
    memcpy(bytes + 1, h->hello, HELLO_BYTES);
    memcpy(bytes + 1 + HELLO_BYTES, h->challenge + NONCE_AT, AUTH_BYTES);
    iso_auth_code(secret, bytes, sizeof bytes, code);
}

/* A few bytes of a handshake find room in the socket at once, or the other end does not read. */
static int send_now(const struct frame_socket *s, const void *bytes, size_t len)
{
    return iso_tcp_send(s->fd, bytes, len, iso_deadline_now());
}

static void begin_handshake(struct handshake *h, struct frame_socket *s, int fd, bool accepted)
{
    memset(h, 0, sizeof *h);
    memset(s, 0, sizeof *s);
    s->fd = fd;
    s->accepted = accepted;
    h->phase = accepted ? PHASE_HELLO : PHASE_CHALLENGE;
}

void iso_handshake_accept(struct handshake *h, struct frame_socket *s, int fd) { begin_handshake(h, s, fd, true); }

int iso_handshake_dial(struct handshake *h, struct frame_socket *s, int fd, const unsigned char secret[AUTH_BYTES],
                       const struct hello *hello)
{
    begin_handshake(h, s, fd, false);
    memcpy(s->secret, secret, AUTH_BYTES);
    memcpy(h->hello, magic, sizeof magic);
    iso_frame_store32(h->hello + AT_PROTOCOL, hello->protocol);
    memcpy(h->hello + AT_VERSION, hello->version, strnlen(hello->version, HELLO_VERSION_BYTES - 1));
    iso_frame_store32(h->hello + AT_PE, hello->pe);
    iso_frame_store32(h->hello + AT_DETAIL, hello->detail);
    iso_frame_store32(h->hello + AT_SERVICE, hello->service);
    int rc = iso_auth_draw(h->hello + AT_NONCE);
    return rc != 0 ? rc : send_now(s, h->hello, HELLO_BYTES);
}

int iso_handshake_answer(struct handshake *h, struct frame_socket *s, const unsigned char secret[AUTH_BYTES])
{
    memcpy(s->secret, secret, AUTH_BYTES);
    memcpy(h->challenge, magic, sizeof magic);
    int rc = iso_auth_draw(h->challenge + NONCE_AT);
    prove(h, secret, PROOF_OF_ACCEPTOR, h->challenge + PROOF_AT);
    h->phase = PHASE_PROOF;
    return rc != 0 ? rc : send_now(s, h->challenge, CHALLENGE_BYTES);
}

/* The other end's proof: 0 or -EACCES. From here on both ends have the key of the connection. */
static int check_proof(const struct handshake *h, struct frame_socket *s, enum purpose purpose,
                       const unsigned char proof[AUTH_BYTES])
{
    unsigned char right[AUTH_BYTES];
    prove(h, s->secret, purpose, right);
    prove(h, s->secret, KEY, s->key);
    return iso_auth_is_equal(right, proof) ? 0 : -EACCES;
}

int iso_handshake_receive(struct handshake *h, struct frame_socket *s)
{
    unsigned char *const awaited[] = {h->hello, h->challenge, h->proof};
    static const unsigned sizes[] = {HELLO_BYTES, CHALLENGE_BYTES, AUTH_BYTES};
    assert(h->phase < PHASE_DONE);
    unsigned char *to = awaited[h->phase];
    while (h->got < sizes[h->phase]) {
        ptrdiff_t n = iso_tcp_receive(s->fd, to + h->got, sizes[h->phase] - h->got);
        if (n <= 0)
            return n < 0 ? (int)n : HANDSHAKE_NOTHING;
        h->got += (unsigned)n;
        /* known at the first wrong byte: an HTTP client is not waited for */
        if (h->phase != PHASE_PROOF && memcmp(to, magic, h->got < sizeof magic ? h->got : sizeof magic) != 0)
            return -EPROTO;
    }
    int rc;
    h->got = 0; /* the awaited bytes are complete */
    switch (h->phase) {
    case PHASE_HELLO:
        return HANDSHAKE_HELLO;
    case PHASE_CHALLENGE:
        if ((rc = check_proof(h, s, PROOF_OF_ACCEPTOR, h->challenge + PROOF_AT)) != 0)
            return rc;
        prove(h, s->secret, PROOF_OF_DIALER, h->proof);
        if ((rc = send_now(s, h->proof, AUTH_BYTES)) != 0)
            return rc;
        break;
    default:
        if ((rc = check_proof(h, s, PROOF_OF_DIALER, h->proof)) != 0)
            return rc;
    }
    h->phase = PHASE_DONE;
    return HANDSHAKE_DONE;
}

const char *iso_handshake_why(const struct handshake *h, int rc)
{
    switch (rc) {
    case -EPROTO:
        return "it is not a PE of this library";
    case -EBADMSG:
        return "its hello is for another PE or job";
    case -EACCES:
        return "its secret is not the one of this job";
    case -ETIMEDOUT:
        return "it was silent";
    case -EPIPE:
    case -ECONNRESET:
        return h->phase == PHASE_HELLO ? "it ended before its hello was complete"
                                       : "it ended without a proof that it belongs to this job (another secret?)";
    default:
        return strerror(-rc);
    }
}

void iso_handshake_warn_dropped(const char *name, const char *why)
{
    if (__atomic_load_n(&warnings, __ATOMIC_RELAXED) > WARNINGS_MAX)
        return;
    unsigned before = __atomic_fetch_add(&warnings, 1, __ATOMIC_RELAXED);
    if (before < WARNINGS_MAX)
        log_warn("a connection from %s was dropped: %s", name, why);
    else if (before == WARNINGS_MAX)
        log_warn("more connections were dropped, no longer printed");
}

void iso_handshake_forget_dropped(void) { __atomic_store_n(&warnings, 0, __ATOMIC_RELAXED); }
