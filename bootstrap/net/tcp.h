/* SPDX-License-Identifier: MIT */
/* TCP: addresses, listening, connecting, bytes. Every call that waits ends by its deadline (deadline.h), whatever the
 * other end does. All descriptors are non-blocking and closed on exec; errors are -errno. No messages, no state.
 * Used by the unique id, by handshake.c and frame.c, and by the channel between nodes. */
#ifndef ISO_TCP_H
#define ISO_TCP_H

#include "deadline.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#define TCP_NAME_BYTES 64

struct tcp_address {
    uint16_t port; /* in host order */
    bool ipv6;
    uint8_t bytes[16]; /* in network order; of IPv4 the first four, zeros follow */
};

/* The numeric address in `text`, which has no port: a.b.c.d or IPv6 without brackets. address->port stays as it is. */
bool iso_tcp_parse(const char *text, struct tcp_address *address);
/* "10.0.0.1:4711" or "[fd00::1]:4711" */
void iso_tcp_name(const struct tcp_address *address, char name[TCP_NAME_BYTES]);
bool iso_tcp_is_same(const struct tcp_address *a, const struct tcp_address *b);

/* Takes *address; port 0: the system chooses one, which is written back. Nothing listens there: connections are refused,
 * no other program gets the port, and iso_tcp_listen of the same address still works, in any process. Descriptor or
 * -errno. */
int iso_tcp_reserve(struct tcp_address *address);
/* Listens on *address; port 0 as above. Descriptor or -errno. */
int iso_tcp_listen(struct tcp_address *address);
/* The next waiting connection and its "address:port". Descriptor or -errno; -EAGAIN: no connection waits. */
int iso_tcp_accept(int listener, char name[TCP_NAME_BYTES]);

/* Begins to connect: a descriptor or -errno. It becomes writable when iso_tcp_connect_end can tell the result. */
int iso_tcp_connect_begin(const struct tcp_address *address);
int iso_tcp_connect_end(int fd); /* 0 or -errno; never closes fd */
int iso_tcp_local(int fd, struct tcp_address *address); /* this end of a connection; 0 or -errno */
/* Connects, and tries again until the other side listens. Descriptor or -errno; -ETIMEDOUT with *last = -errno of the
 * last attempt. */
int iso_tcp_connect(const struct tcp_address *address, int64_t deadline, int *last);

/* The kernel ends this connection after `seconds` of silence: an idle one by probes, another one when its bytes are not
 * acknowledged. 0: never. 0 or -errno. */
int iso_tcp_limit_silence(int fd, double seconds);

/* As many descriptors as the hard limit allows: a large job needs more connections than the usual 1,024. Returns how
 * many that is. */
uint64_t iso_tcp_raise_files(void);

struct pollfd;
/* poll(2) for what a peer does next that starts at the same time: it looks for a while before it sleeps. */
int iso_poll(struct pollfd *fds, unsigned n, int timeout_ms);
/* Until `events` of poll(2) or an error, which the next call reports. 0 or -errno; -ETIMEDOUT past the deadline. */
int iso_tcp_wait(int fd, short events, int64_t deadline);
/* All bytes of all parts, whose descriptions it changes. 0 or -errno; -ETIMEDOUT past the deadline. */
int iso_tcp_send_parts(int fd, struct iovec *parts, int n, int64_t deadline);
int iso_tcp_send(int fd, const void *bytes, size_t len, int64_t deadline); /* one part */
/* Takes the bytes that have arrived, at most len > 0. Their number; 0: nothing yet; -EPIPE: the end of the stream;
 * -errno. */
ptrdiff_t iso_tcp_receive(int fd, void *bytes, size_t len);

#endif
