/* SPDX-License-Identifier: MIT */
/* TCP with deadlines: every call ends by its deadline, whatever the other side does. All descriptors are non-blocking
 * and closed on exec. Deadlines are CLOCK_MONOTONIC nanoseconds. Used by boot_uid.c and by the channel. */
#ifndef ISO_WIRE_H
#define ISO_WIRE_H

#include "../uid.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_NAME_BYTES 64
#define WIRE_NEVER INT64_MAX

int64_t iso_wire_now(void);
int64_t iso_wire_deadline(double seconds); /* from now; 0: WIRE_NEVER */
int iso_wire_poll_ms(int64_t deadline);    /* for poll(2): rounded up, 0 when past, -1 for never */

/* Listens on the address and port of *uid; port 0: the system's choice, written back. Descriptor or -errno. */
int iso_wire_listen(struct uid *uid);
/* Next waiting connection and its "address:port"; -EAGAIN: none. Descriptor or -errno. */
int iso_wire_accept(int listener, char name[WIRE_NAME_BYTES]);
/* Tries again until somebody listens. Descriptor or -errno; -ETIMEDOUT with *last = the last attempt's -errno. */
int iso_wire_connect(const struct uid *uid, int64_t deadline, int *last);

/* As many descriptors as the hard limit allows: a large job needs more connections than the usual 1,024. Returns how
 * many that is. */
uint64_t iso_wire_raise_files(void);

/* 0 or -errno; -ETIMEDOUT past the deadline. */
int iso_wire_send(int fd, const void *bytes, size_t len, int64_t deadline);
/* What is there now, at most len > 0: number of bytes, 0 for nothing yet, -EPIPE at the end of the stream, -errno. */
ptrdiff_t iso_wire_recv_some(int fd, void *bytes, size_t len);
/* All `len` bytes: 0 or -errno; -ETIMEDOUT past the deadline, -EPIPE at the end of the stream. */
int iso_wire_recv(int fd, void *bytes, size_t len, int64_t deadline);

#endif
