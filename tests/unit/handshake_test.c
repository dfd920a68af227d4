/* SPDX-License-Identifier: MIT */
/* The handshake of two ends that know a secret, and frames over their connection: what arrives in pieces, what is
 * changed, repeated, left out, sent back or taken from elsewhere on its way, and an end that has another secret.
 * Whole jobs: uid_test.c and channel_test.c. */
#include "../check.h"

#include "../../bootstrap/boot.h"
#include "../../bootstrap/net/handshake.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAYLOAD = 100, WHOLE = FRAME_HEAD_BYTES + PAYLOAD + AUTH_BYTES };

static const unsigned char secret[AUTH_BYTES] = "a secret of two", other_secret[AUTH_BYTES] = "another secret";

/* Both ends of a connection, with a wire between that the test can touch. */
struct pair {
    struct frame_socket dialer, acceptor;
    struct handshake of_dialer, of_acceptor;
    int at_dialer, at_acceptor; /* the wire's ends */
};

static void start_pair(struct pair *p, const unsigned char *secret_of_dialer)
{
    const struct hello hello = iso_handshake_hello(HANDSHAKE_CHANNEL, 7, 9);
    int d[2], a[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, d), 0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, a), 0);
    p->at_dialer = d[1];
    p->at_acceptor = a[1];
    iso_handshake_accept(&p->of_acceptor, &p->acceptor, a[0]);
    CHECK_EQ(iso_handshake_dial(&p->of_dialer, &p->dialer, d[0], secret_of_dialer, &hello), 0);
}

static void free_pair(struct pair *p)
{
    close(p->dialer.fd);
    close(p->acceptor.fd);
    close(p->at_dialer);
    close(p->at_acceptor);
}

/* Takes `len` bytes from one side of the wire to the other, with the byte at `change` changed (-1: none). */
static void carry(int from, int to, size_t len, int change)
{
    unsigned char bytes[WHOLE];
    CHECK_EQ(recv(from, bytes, len, 0), (long long)len);
    if (change >= 0)
        bytes[change] ^= 1;
    CHECK_EQ(send(to, bytes, len, 0), (long long)len);
}

/* The whole handshake; byte `change` of all that travels is changed. The first error, 0 when both ends are done. */
static int shake(struct pair *p, int change)
{
    int of_hello = change < HELLO_BYTES ? change : -1, of_challenge = change - HELLO_BYTES, of_proof;
    of_proof = of_challenge - CHALLENGE_BYTES;
    of_challenge = of_challenge < CHALLENGE_BYTES ? of_challenge : -1;
    carry(p->at_dialer, p->at_acceptor, HELLO_BYTES, of_hello);
    int rc = iso_handshake_receive(&p->of_acceptor, &p->acceptor);
    if (rc != HANDSHAKE_HELLO)
        return rc;
    CHECK_EQ(iso_handshake_answer(&p->of_acceptor, &p->acceptor, secret), 0);
    carry(p->at_acceptor, p->at_dialer, CHALLENGE_BYTES, of_challenge);
    rc = iso_handshake_receive(&p->of_dialer, &p->dialer);
    if (rc != HANDSHAKE_DONE)
        return rc;
    carry(p->at_dialer, p->at_acceptor, AUTH_BYTES, of_proof);
    rc = iso_handshake_receive(&p->of_acceptor, &p->acceptor);
    return rc == HANDSHAKE_DONE ? 0 : rc;
}

static void test_known_codes(void)
{
    /* of no bytes and of one byte 0, under the key 00 01 .. 0f: from the authors' list */
    static const unsigned char none[] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                         0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    static const unsigned char one[] = {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                        0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
    unsigned char key[AUTH_BYTES], code[AUTH_BYTES], zero = 0;
    for (int i = 0; i < AUTH_BYTES; i++)
        key[i] = (unsigned char)i;
    iso_auth_code(key, NULL, 0, code);
    CHECK_BYTES(code, none, sizeof none);
    iso_auth_code(key, &zero, 1, code);
    CHECK_BYTES(code, one, sizeof one);
}

/* ---- the handshake ---- */

static void test_handshake(void)
{
    struct pair p, q;
    start_pair(&p, secret);
    CHECK_EQ(shake(&p, -1), 0);
    struct hello said = iso_handshake_said(&p.of_acceptor);
    CHECK(said.pe == 7 && said.detail == 9 && said.service == HANDSHAKE_CHANNEL && iso_handshake_is_current(&said));
    CHECK_BYTES(p.dialer.key, p.acceptor.key, AUTH_BYTES);
    CHECK(memmem(p.of_dialer.hello, sizeof p.of_dialer.hello, secret, sizeof secret) == NULL);
    start_pair(&q, secret);
    CHECK_EQ(shake(&q, -1), 0);
    CHECK(memcmp(p.dialer.key, q.dialer.key, AUTH_BYTES) != 0); /* each connection has a key of its own, */
    CHECK(memcmp(p.of_dialer.hello, q.of_dialer.hello, HELLO_BYTES) != 0);
    CHECK(memcmp(p.of_acceptor.challenge + 8, q.of_acceptor.challenge + 8, AUTH_BYTES) != 0); /* nonces at both ends, */
    free_pair(&q);
    start_pair(&q, secret); /* and the bytes of an earlier dialer are of no use */
    CHECK_EQ(send(q.at_acceptor, p.of_dialer.hello, HELLO_BYTES, 0), HELLO_BYTES);
    CHECK_EQ(iso_handshake_receive(&q.of_acceptor, &q.acceptor), HANDSHAKE_HELLO);
    CHECK_EQ(iso_handshake_answer(&q.of_acceptor, &q.acceptor, secret), 0);
    CHECK_EQ(send(q.at_acceptor, p.of_dialer.proof, AUTH_BYTES, 0), AUTH_BYTES);
    CHECK_EQ(iso_handshake_receive(&q.of_acceptor, &q.acceptor), -EACCES);
    free_pair(&p);
    free_pair(&q);
}

/* Byte by byte: nothing is believed before its last byte, and nothing blocks. */
static void test_pieces(void)
{
    struct pair p;
    start_pair(&p, secret);
    for (int i = 1; i <= HELLO_BYTES; i++) {
        carry(p.at_dialer, p.at_acceptor, 1, -1);
        CHECK_EQ(iso_handshake_receive(&p.of_acceptor, &p.acceptor),
                 i == HELLO_BYTES ? HANDSHAKE_HELLO : HANDSHAKE_NOTHING);
    }
    CHECK_EQ(iso_handshake_answer(&p.of_acceptor, &p.acceptor, secret), 0);
    for (int i = 1; i <= CHALLENGE_BYTES; i++) {
        carry(p.at_acceptor, p.at_dialer, 1, -1);
        CHECK_EQ(iso_handshake_receive(&p.of_dialer, &p.dialer),
                 i == CHALLENGE_BYTES ? HANDSHAKE_DONE : HANDSHAKE_NOTHING);
    }
    for (int i = 1; i <= AUTH_BYTES; i++) {
        carry(p.at_dialer, p.at_acceptor, 1, -1);
        CHECK_EQ(iso_handshake_receive(&p.of_acceptor, &p.acceptor),
                 i == AUTH_BYTES ? HANDSHAKE_DONE : HANDSHAKE_NOTHING);
    }
    free_pair(&p);
}

/* The proofs depend on every byte that both ends have said. */
static void test_changes(void)
{
    enum { ALL = HELLO_BYTES + CHALLENGE_BYTES + AUTH_BYTES, MAGIC = 8 };
    for (int change = 0; change < ALL; change++) {
        struct pair p;
        bool of_magic = change < MAGIC || (change >= HELLO_BYTES && change < HELLO_BYTES + MAGIC);
        start_pair(&p, secret);
        CHECK_EQ(shake(&p, change), of_magic ? -EPROTO : -EACCES);
        free_pair(&p);
    }
}

static void test_other_secret(void)
{
    struct pair p;
    unsigned char guess[AUTH_BYTES] = {0};
    start_pair(&p, other_secret);
    CHECK_EQ(shake(&p, -1), -EACCES); /* the dialer does not believe, and tells nothing */
    CHECK_EQ(recv(p.at_dialer, guess, sizeof guess, MSG_DONTWAIT), -1);
    CHECK_EQ(send(p.at_acceptor, guess, sizeof guess, 0), (long long)sizeof guess);
    CHECK_EQ(iso_handshake_receive(&p.of_acceptor, &p.acceptor), -EACCES); /* nor does the acceptor */
    CHECK(p.of_acceptor.phase == PHASE_PROOF && p.of_dialer.phase == PHASE_CHALLENGE);
    free_pair(&p);
}

/* Its own hello, sent back to it, convinces no dialer; nor does its own challenge an acceptor. */
static void test_reflection(void)
{
    struct pair p;
    unsigned char bytes[HELLO_BYTES];
    start_pair(&p, secret);
    CHECK_EQ(recv(p.at_dialer, bytes, sizeof bytes, MSG_PEEK), (long long)sizeof bytes);
    CHECK_EQ(send(p.at_dialer, bytes, CHALLENGE_BYTES, 0), (long long)CHALLENGE_BYTES);
    CHECK_EQ(iso_handshake_receive(&p.of_dialer, &p.dialer), -EACCES);
    carry(p.at_dialer, p.at_acceptor, HELLO_BYTES, -1);
    CHECK_EQ(iso_handshake_receive(&p.of_acceptor, &p.acceptor), HANDSHAKE_HELLO);
    CHECK_EQ(iso_handshake_answer(&p.of_acceptor, &p.acceptor, secret), 0);
    CHECK_EQ(send(p.at_acceptor, p.of_acceptor.challenge + 24, AUTH_BYTES, 0), (long long)AUTH_BYTES);
    CHECK_EQ(iso_handshake_receive(&p.of_acceptor, &p.acceptor), -EACCES);
    free_pair(&p);
}

static void test_strangers(void)
{
    struct pair p;
    start_pair(&p, secret);
    CHECK_EQ(send(p.at_acceptor, "G", 1, 0), 1); /* known at the first byte */
    CHECK_EQ(iso_handshake_receive(&p.of_acceptor, &p.acceptor), -EPROTO);
    shutdown(p.at_dialer, SHUT_RDWR);
    CHECK_EQ(iso_handshake_receive(&p.of_dialer, &p.dialer), -EPIPE);
    free_pair(&p);
}

static void test_versions(void)
{
    static const struct {
        uint32_t protocol;
        const char *version, *seen;
    } cases[] = {{ISO_PROTOCOL + 1, ISO_VERSION, ISO_VERSION}, {ISO_PROTOCOL, "9.8\033", "9.8?"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair p;
        struct hello hello = {.protocol = cases[i].protocol, .pe = 1};
        start_pair(&p, secret);
        snprintf(hello.version, sizeof hello.version, "%s", cases[i].version);
        int fd = p.dialer.fd;
        carry(p.at_dialer, p.at_dialer, HELLO_BYTES, -1); /* away with the first one */
        CHECK_EQ(recv(fd, &(char[HELLO_BYTES]){0}, HELLO_BYTES, 0), HELLO_BYTES);
        CHECK_EQ(iso_handshake_dial(&p.of_dialer, &p.dialer, fd, secret, &hello), 0);
        CHECK_EQ(shake(&p, -1), 0); /* versions are for the caller to judge, once the proof is there */
        struct hello said = iso_handshake_said(&p.of_acceptor);
        CHECK(!iso_handshake_is_current(&said) && said.protocol == cases[i].protocol);
        CHECK_NAMED(strcmp(said.version, cases[i].seen) == 0, said.version);
        free_pair(&p);
    }
}

/* ---- frames ---- */

static void test_heads(void)
{
    unsigned char bytes[FRAME_HEAD_BYTES] = {0};
    struct frame sent = {.kind = 2, .number = 0x01020304, .len = 0xfffffffe}, got;
    CHECK_EQ(iso_frame_decode(bytes, &got), -EPROTO);
    iso_frame_encode(&sent, bytes);
    CHECK_EQ(iso_frame_decode(bytes, &got), 0);
    CHECK(got.kind == sent.kind && got.number == sent.number && got.len == sent.len);
}

/* What the acceptor makes of the bytes on its side of the wire: 1, 0 or -errno. */
static int receive(struct frame_socket *s, struct frame *frame, unsigned char payload[PAYLOAD])
{
    int rc = iso_frame_head(s, frame);
    if (rc != 1)
        return rc;
    return frame->len <= PAYLOAD ? iso_frame_rest(s, payload) : -EMSGSIZE;
}

static void send_one(struct frame_socket *s, uint32_t number, int fill)
{
    unsigned char payload[PAYLOAD];
    const struct frame frame = {.kind = 3, .number = number, .len = PAYLOAD};
    memset(payload, fill, sizeof payload);
    CHECK_EQ(iso_frame_send(s, &frame, payload, NULL, iso_deadline_in(5)), 0);
}

static void test_frames(void)
{
    struct pair p;
    struct frame frame;
    unsigned char payload[PAYLOAD];
    start_pair(&p, secret);
    CHECK_EQ(shake(&p, -1), 0);
    for (int round = 0; round < 3; round++) {
        send_one(&p.dialer, (uint32_t)round, round + 1);
        for (int i = 1; i <= WHOLE; i++) { /* byte by byte */
            carry(p.at_dialer, p.at_acceptor, 1, -1);
            CHECK_EQ(receive(&p.acceptor, &frame, payload), i == WHOLE);
        }
        CHECK(frame.kind == 3 && frame.number == (uint32_t)round && frame.len == PAYLOAD && payload[7] == round + 1);
        send_one(&p.acceptor, (uint32_t)round, round + 9);
        carry(p.at_acceptor, p.at_dialer, WHOLE, -1);
        CHECK_EQ(receive(&p.dialer, &frame, payload), 1);
        CHECK(frame.number == (uint32_t)round && payload[PAYLOAD - 1] == round + 9);
    }
    CHECK(p.dialer.sent == 3 && p.dialer.received == 3 && p.acceptor.sent == 3 && p.acceptor.received == 3);
    free_pair(&p);
}

/* A frame without payload, and a digest that was made once for several receivers. */
static void test_digest(void)
{
    struct pair p;
    struct frame frame = {.kind = 1};
    unsigned char payload[PAYLOAD] = "x", digest[AUTH_BYTES];
    start_pair(&p, secret);
    CHECK_EQ(shake(&p, -1), 0);
    CHECK_EQ(iso_frame_send(&p.acceptor, &frame, NULL, NULL, iso_deadline_in(5)), 0);
    carry(p.at_acceptor, p.at_dialer, FRAME_HEAD_BYTES + AUTH_BYTES, -1);
    CHECK_EQ(receive(&p.dialer, &frame, payload), 1);
    CHECK(frame.kind == 1 && frame.len == 0);
    iso_frame_digest(secret, payload, PAYLOAD, digest);
    frame.len = PAYLOAD;
    for (int right = 1; right >= 0; right--) {
        digest[0] ^= !right;
        CHECK_EQ(iso_frame_send(&p.acceptor, &frame, payload, digest, iso_deadline_in(5)), 0);
        carry(p.at_acceptor, p.at_dialer, WHOLE, -1);
        CHECK_EQ(receive(&p.dialer, &frame, payload), right ? 1 : -EBADMSG);
    }
    free_pair(&p);
}

/* Every byte of a frame counts. A longer or shorter length than was sent is a frame that never ends, or a wrong code. */
static void test_changed_frames(void)
{
    enum { AT_LEN = 12 };
    for (int change = 0; change < WHOLE; change++) {
        struct pair p;
        struct frame frame;
        unsigned char payload[PAYLOAD];
        start_pair(&p, secret);
        CHECK_EQ(shake(&p, -1), 0);
        send_one(&p.dialer, 0, 5);
        carry(p.at_dialer, p.at_acceptor, WHOLE, change);
        int rc = receive(&p.acceptor, &frame, payload);
        if (change >= AT_LEN && change < FRAME_HEAD_BYTES)
            CHECK(rc == -EMSGSIZE || rc == -EBADMSG || rc == 0);
        else
            CHECK_EQ(rc, change < 4 ? -EPROTO : -EBADMSG);
        free_pair(&p);
    }
}

enum harm { REPEATED, LEFT_OUT, SWAPPED, SENT_BACK, OF_ANOTHER, GARBAGE, HARMS };

/* What the end makes of the frame that was tampered with. */
static int do_harm(struct pair *p, struct pair *another, enum harm how)
{
    struct frame frame;
    unsigned char payload[PAYLOAD], first[WHOLE], second[WHOLE];
    send_one(&p->dialer, 0, 1);
    send_one(&p->dialer, 1, 2);
    send_one(&another->dialer, 0, 1);
    CHECK_EQ(recv(p->at_dialer, first, WHOLE, 0), WHOLE);
    CHECK_EQ(recv(p->at_dialer, second, WHOLE, 0), WHOLE);
    if (how == OF_ANOTHER)
        CHECK_EQ(recv(another->at_dialer, first, WHOLE, 0), WHOLE);
    if (how == GARBAGE)
        memset(first, 'x', sizeof first);
    if (how == SENT_BACK) {
        CHECK_EQ(send(p->at_dialer, first, WHOLE, 0), WHOLE);
        return receive(&p->dialer, &frame, payload);
    }
    CHECK_EQ(send(p->at_acceptor, how == LEFT_OUT || how == SWAPPED ? second : first, WHOLE, 0), WHOLE);
    int rc = receive(&p->acceptor, &frame, payload);
    if (how != REPEATED)
        return rc;
    CHECK_EQ(rc, 1);
    CHECK_EQ(send(p->at_acceptor, first, WHOLE, 0), WHOLE);
    return receive(&p->acceptor, &frame, payload);
}

static void test_harm(void)
{
    for (int how = 0; how < HARMS; how++) {
        struct pair p, another;
        start_pair(&p, secret);
        start_pair(&another, secret);
        CHECK_EQ(shake(&p, -1), 0);
        CHECK_EQ(shake(&another, -1), 0);
        CHECK_EQ_NAMED(do_harm(&p, &another, (enum harm)how), how == GARBAGE ? -EPROTO : -EBADMSG,
                       "a frame that was tampered with");
        free_pair(&p);
        free_pair(&another);
    }
}

int main(void)
{
    test_known_codes();
    test_handshake();
    test_pieces();
    test_changes();
    test_other_secret();
    test_reflection();
    test_strangers();
    test_versions();
    test_heads();
    test_frames();
    test_digest();
    test_changed_frames();
    test_harm();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
