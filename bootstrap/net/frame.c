/* SPDX-License-Identifier: MIT */
/* Frames with codes. A code is made of the head, of a digest of the payload, and of the number of the frame, whose
 * lowest bit tells the directions apart. */
#include "frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define MAGIC 0x464f5349u /* "ISOF" */

void iso_frame_store32(unsigned char bytes[4], uint32_t value)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

uint32_t iso_frame_load32(const unsigned char bytes[4])
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

void iso_frame_encode(const struct frame *frame, unsigned char head[FRAME_HEAD_BYTES])
{
    iso_frame_store32(head, MAGIC);
    iso_frame_store32(head + 4, frame->kind);
    iso_frame_store32(head + 8, frame->number);
    iso_frame_store32(head + 12, frame->len);
}

int iso_frame_decode(const unsigned char head[FRAME_HEAD_BYTES], struct frame *frame)
{
    frame->kind = iso_frame_load32(head + 4);
    frame->number = iso_frame_load32(head + 8);
    frame->len = iso_frame_load32(head + 12);
    return iso_frame_load32(head) == MAGIC ? 0 : -EPROTO;
}

void iso_frame_digest(const unsigned char secret[AUTH_BYTES], const void *payload, size_t len,
                      unsigned char digest[AUTH_BYTES])
{
    iso_auth_code(secret, payload, len, digest);
}

/* number: twice that of the frame on its way, and one more if the acceptor has sent it. */
static void make_code(const struct frame_socket *s, uint64_t number, const unsigned char head[FRAME_HEAD_BYTES],
                      const unsigned char digest[AUTH_BYTES], unsigned char code[AUTH_BYTES])
{
    unsigned char bytes[FRAME_HEAD_BYTES + AUTH_BYTES + 8];
    memcpy(bytes, head, FRAME_HEAD_BYTES);
    memcpy(bytes + FRAME_HEAD_BYTES, digest, AUTH_BYTES);
    iso_frame_store32(bytes + FRAME_HEAD_BYTES + AUTH_BYTES, (uint32_t)number);
    iso_frame_store32(bytes + FRAME_HEAD_BYTES + AUTH_BYTES + 4, (uint32_t)(number >> 32));
    iso_auth_code(s->key, bytes, sizeof bytes, code);
}

int iso_frame_send(struct frame_socket *s, const struct frame *frame, const void *payload, const unsigned char *digest,
                   int64_t deadline)
{
    unsigned char head[FRAME_HEAD_BYTES], own_digest[AUTH_BYTES], code[AUTH_BYTES];
    iso_frame_encode(frame, head);
    if (digest == NULL)
        iso_frame_digest(s->secret, payload, frame->len, own_digest);
    make_code(s, s->sent++ << 1 | s->accepted, head, digest != NULL ? digest : own_digest, code);
    struct iovec parts[] = {{head, sizeof head}, {(void *)(uintptr_t)payload, frame->len}, {code, sizeof code}};
    return iso_tcp_send_parts(s->fd, parts, 3, deadline);
}

/* Fills `part`, which begins `before` bytes behind the start of the frame. 1, 0, -errno. */
static int fill(struct frame_socket *s, size_t before, void *part, size_t len)
{
    while (s->got < before + len) {
        ptrdiff_t n = iso_tcp_receive(s->fd, (unsigned char *)part + (s->got - before), before + len - s->got);
        if (n <= 0)
            return (int)n;
        s->got += (size_t)n;
    }
    return 1;
}

int iso_frame_head(struct frame_socket *s, struct frame *frame)
{
    int rc = fill(s, 0, s->head, sizeof s->head);
    if (rc != 1)
        return rc;
    return iso_frame_decode(s->head, frame) == 0 ? 1 : -EPROTO;
}

int iso_frame_rest(struct frame_socket *s, void *payload)
{
    unsigned char digest[AUTH_BYTES], right[AUTH_BYTES];
    size_t len = iso_frame_load32(s->head + 12);
    int rc = fill(s, FRAME_HEAD_BYTES, payload, len);
    if (rc == 1)
        rc = fill(s, FRAME_HEAD_BYTES + len, s->code, sizeof s->code);
    if (rc != 1)
        return rc;
    iso_frame_digest(s->secret, payload, len, digest);
    make_code(s, s->received++ << 1 | !s->accepted, s->head, digest, right);
    s->got = 0;
    return iso_auth_is_equal(right, s->code) ? 1 : -EBADMSG;
}

int iso_frame_wait_head(struct frame_socket *s, struct frame *frame, int64_t deadline)
{
    int rc;
    while ((rc = iso_frame_head(s, frame)) == 0)
        if ((rc = iso_tcp_wait(s->fd, POLLIN, deadline)) != 0)
            return rc;
    return rc < 0 ? rc : 0;
}

int iso_frame_wait_rest(struct frame_socket *s, void *payload, int64_t deadline)
{
    int rc;
    while ((rc = iso_frame_rest(s, payload)) == 0)
        if ((rc = iso_tcp_wait(s->fd, POLLIN, deadline)) != 0)
            return rc;
    return rc < 0 ? rc : 0;
}
