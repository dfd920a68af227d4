/* SPDX-License-Identifier: MIT */
/* libFuzzer on a connection between two PEs: the input says what reaches one end of it: bytes of an honest other end,
 * whole, in pieces, changed, repeated, sent back, and noise. The handshake must not be complete before the other end has
 * proved itself, and frames that are taken must be what the other end sent, in its order. */
#include "../../bootstrap/net/handshake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes);

static const unsigned char secret[AUTH_BYTES] = "a secret of two";

enum { PAYLOAD_MOST = 128, WHOLE = FRAME_HEAD_BYTES + PAYLOAD_MOST + AUTH_BYTES, FRAMES_MOST = 64, KIND = 3 };

struct end {
    struct frame_socket socket;
    struct handshake handshake;
    int wire; /* our end of its connection */
};

/* One end is under test. Between it and the honest one all bytes pass through here. */
struct fuzz {
    const uint8_t *data;
    size_t left;
    struct end tested, honest;
    unsigned char payload[PAYLOAD_MOST]; /* of the frame that is arriving */
    unsigned char last[WHOLE], from_tested[WHOLE];
    size_t last_len, from_len;
    bool honest_ended, forged; /* what is being delivered is not what `honest` sent */
    bool disturbed;            /* bytes of another origin have reached the tested end */
    uint32_t sent, taken;      /* frames */
    int rc;                    /* of the tested end; < 0: it has ended */
};

static void require(bool true_now)
{
    if (!true_now)
        abort();
}

/* Repeatable, and of another value for each input: the fuzzer reads what is compared in one run and writes it into the
 * next, so it would learn the proofs. */
static uint64_t random_state;

static void seed_random(const uint8_t *data, size_t len)
{
    random_state = 0xcbf29ce484222325;
    for (size_t i = 0; i < len; i++)
        random_state = (random_state ^ data[i]) * 0x100000001b3;
}

ssize_t getrandom(void *bytes, size_t len, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < len; i++) {
        random_state = random_state * 6364136223846793005 + 1442695040888963407;
        ((unsigned char *)bytes)[i] = (unsigned char)(random_state >> 56);
    }
    return (ssize_t)len;
}

static unsigned take(struct fuzz *f)
{
    if (f->left == 0)
        return 0;
    f->left--;
    return *f->data++;
}

/* Frame `number` as the honest end sends it. */
static struct frame make_frame(uint32_t number, unsigned char payload[PAYLOAD_MOST])
{
    memset(payload, (int)(number * 7 + 1), PAYLOAD_MOST);
    return (struct frame){KIND, number, number * 37 % (PAYLOAD_MOST + 1)};
}

static bool is_done(const struct end *end) { return end->handshake.phase == PHASE_DONE; }

/* ---- the tested end, as a caller of the handshake has it ---- */

static int shake_hands(struct end *end)
{
    int rc = iso_handshake_receive(&end->handshake, &end->socket);
    if (rc == HANDSHAKE_HELLO) {
        struct hello hello = iso_handshake_said(&end->handshake);
        require(strnlen(hello.version, sizeof hello.version) < sizeof hello.version);
        for (const char *at = hello.version; *at != '\0'; at++)
            require(*at >= 32 && *at < 127);
        int answered = iso_handshake_answer(&end->handshake, &end->socket, secret);
        return answered < 0 ? answered : rc;
    }
    return rc;
}

static int read_frame(struct fuzz *f)
{
    unsigned char right[PAYLOAD_MOST];
    struct frame frame;
    int rc = iso_frame_head(&f->tested.socket, &frame);
    if (rc != 1)
        return rc;
    if (frame.len > PAYLOAD_MOST)
        return -EBADMSG;
    rc = iso_frame_rest(&f->tested.socket, f->payload);
    if (rc != 1)
        return rc;
    struct frame expected = make_frame(f->taken, right);
    require(f->taken < f->sent && frame.kind == KIND && frame.number == f->taken && frame.len == expected.len);
    require(memcmp(f->payload, right, frame.len) == 0);
    f->taken++;
    return 1;
}

static void read_tested(struct fuzz *f)
{
    int rc = 1;
    while (rc > 0)
        rc = is_done(&f->tested) ? read_frame(f) : shake_hands(&f->tested);
    f->rc = rc;
    require(rc == 0 || rc == -EBADMSG || rc == -EPROTO || rc == -EACCES || rc == -EPIPE);
    require(f->tested.socket.got <= WHOLE);
    if (is_done(&f->tested))
        require(f->tested.socket.accepted ? is_done(&f->honest) : f->honest.handshake.phase >= PHASE_PROOF);
}

/* What the tested end has sent goes to the honest one, which answers the handshake. */
static void read_honest(struct fuzz *f)
{
    ssize_t n = f->honest_ended ? -1 : recv(f->tested.wire, f->from_tested, WHOLE, MSG_DONTWAIT);
    if (n <= 0)
        return;
    f->from_len = (size_t)n;
    require(send(f->honest.wire, f->from_tested, f->from_len, MSG_NOSIGNAL) == n);
    int rc = is_done(&f->honest) ? 0 : shake_hands(&f->honest);
    f->honest_ended = rc < 0;
    require(rc >= 0 || f->disturbed);
}

/* ---- what the input does ---- */

/* Bytes that the honest end did not make must not be what completes the handshake. */
static void deliver(struct fuzz *f, const void *bytes, size_t len)
{
    bool done = is_done(&f->tested) || f->rc < 0;
    if (f->rc >= 0 && send(f->tested.wire, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len)
        read_tested(f);
    require(done || !is_done(&f->tested) || !f->forged);
}

/* The honest end's next bytes, not delivered yet: of the handshake if it has any, else a frame. */
static bool next_message(struct fuzz *f)
{
    unsigned char payload[PAYLOAD_MOST];
    read_honest(f);
    ssize_t n = recv(f->honest.wire, f->last, WHOLE, MSG_DONTWAIT);
    if (n <= 0) {
        if (!is_done(&f->honest) || f->sent == FRAMES_MOST)
            return false;
        struct frame frame = make_frame(f->sent++, payload);
        require(iso_frame_send(&f->honest.socket, &frame, payload, NULL, iso_deadline_now()) == 0);
        n = recv(f->honest.wire, f->last, WHOLE, MSG_DONTWAIT);
        require(n > 0);
    }
    f->last_len = (size_t)n;
    return true;
}

static void change(struct fuzz *f)
{
    unsigned char before[WHOLE];
    memcpy(before, f->last, f->last_len);
    for (unsigned n = take(f) % 4 + 1; n > 0; n--) {
        unsigned at = (take(f) << 8 | take(f)) % (unsigned)f->last_len;
        f->last[at] = (unsigned char)take(f);
    }
    f->disturbed = true;
    f->forged = memcmp(before, f->last, f->last_len) != 0;
}

static void send_noise(struct fuzz *f)
{
    unsigned char noise[2 * WHOLE] = {'I', 'S', 'O', 'M', 'E', 'R', '\r', '\n'};
    size_t right = take(f) % 2 ? 8 : 0, len = take(f);
    for (size_t i = right; i < len; i++)
        noise[i] = (unsigned char)take(f);
    f->disturbed = f->forged = true;
    deliver(f, noise, len);
}

static void send_in_pieces(struct fuzz *f)
{
    size_t at = 0;
    while (at < f->last_len) {
        size_t n = take(f) + 1;
        n = n < f->last_len - at ? n : f->last_len - at;
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
    else if (what <= 4)
        deliver(f, f->last, f->last_len);
    else if (what == 5)
        deliver(f, f->from_tested, f->from_len);
    else if (what == 6)
        send_noise(f);
}

/* ---- main ---- */

static void start_end(struct end *end, bool accepts)
{
    int fds[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    end->wire = fds[1];
    const struct hello hello = iso_handshake_hello(HANDSHAKE_CHANNEL, 1, 0);
    if (accepts)
        iso_handshake_accept(&end->handshake, &end->socket, fds[0]);
    else
        require(iso_handshake_dial(&end->handshake, &end->socket, fds[0], secret, &hello) == 0);
}

static void stop_end(const struct end *end)
{
    close(end->socket.fd);
    close(end->wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz f = {.data = data, .left = len_bytes};
    seed_random(data, len_bytes);
    bool dialer = take(&f) & 1;
    start_end(&f.tested, !dialer);
    start_end(&f.honest, dialer);
    while (f.left > 0 && f.rc >= 0)
        act(&f);
    stop_end(&f.tested);
    stop_end(&f.honest);
    return 0;
}
