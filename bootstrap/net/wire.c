/* SPDX-License-Identifier: MIT */
/* TCP with deadlines, for the rendezvous of boot_uid.c. No state, no messages: errors go back as -errno. */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
enum { RETRY_MS_FIRST = 2, RETRY_MS_LAST = 200, ATTEMPT_S = 5 };

int64_t iso_wire_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t iso_wire_deadline(double seconds)
{
    int64_t now = iso_wire_now();
    double ns = seconds * 1e9;
    return seconds <= 0 || ns >= (double)(INT64_MAX / 2) ? WIRE_NEVER : now + (int64_t)ns;
}

int iso_wire_poll_ms(int64_t deadline)
{
    if (deadline == WIRE_NEVER)
        return -1;
    int64_t left = deadline - iso_wire_now();
    if (left <= 0)
        return 0;
    int64_t ms = left / 1000000 + 1; /* rounded up, so that a poll that timed out is past its deadline */
    return ms > 1000000 ? 1000000 : (int)ms;
}

/* ---- addresses ---- */

static socklen_t fill_address(const struct uid *uid, struct sockaddr_storage *storage)
{
    memset(storage, 0, sizeof *storage);
    if (uid->ipv6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(uid->port);
        inet_pton(AF_INET6, uid->address, &in6->sin6_addr);
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)storage;
    in->sin_family = AF_INET;
    in->sin_port = htons(uid->port);
    inet_pton(AF_INET, uid->address, &in->sin_addr);
    return sizeof *in;
}

static uint16_t port_of(const struct sockaddr_storage *storage)
{
    return ntohs(storage->ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)storage)->sin6_port
                                                : ((const struct sockaddr_in *)storage)->sin_port);
}

static void name_address(const struct sockaddr_storage *storage, char name[WIRE_NAME_BYTES])
{
    char text[INET6_ADDRSTRLEN] = "unknown";
    bool ipv6 = storage->ss_family == AF_INET6;
    const void *address = ipv6 ? (const void *)&((const struct sockaddr_in6 *)storage)->sin6_addr
                               : (const void *)&((const struct sockaddr_in *)storage)->sin_addr;
    inet_ntop(storage->ss_family, address, text, sizeof text);
    snprintf(name, WIRE_NAME_BYTES, ipv6 ? "[%s]:%u" : "%s:%u", text, (unsigned)port_of(storage));
}

/* ---- connections ---- */

static int new_socket(const struct uid *uid)
{
    int fd = socket(uid->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static void tune(int fd)
{
    int on = 1; /* both are improvements only: small messages go at once, a cut cable is noticed some day */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

int iso_wire_listen(struct uid *uid)
{
    struct sockaddr_storage storage;
    socklen_t len = fill_address(uid, &storage);
    int on = 1, fd = new_socket(uid);
    if (fd < 0)
        return fd;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&storage, len) != 0 || listen(fd, SOMAXCONN) != 0)
        goto fail;
    len = sizeof storage;
    if (getsockname(fd, (struct sockaddr *)&storage, &len) != 0)
        goto fail;
    uid->port = port_of(&storage);
    return fd;
fail:;
    int error = errno;
    close(fd);
    return -error;
}

int iso_wire_accept(int listener, char name[WIRE_NAME_BYTES])
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;
    memset(&storage, 0, sizeof storage);
    int fd = accept4(listener, (struct sockaddr *)&storage, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    tune(fd);
    name_address(&storage, name);
    return fd;
}

/* Nobody listens on a port of the ephemeral range: the system may choose it as our own, and TCP then connects the
 * socket with itself. */
static bool is_connected_to_itself(int fd)
{
    struct sockaddr_storage mine, other;
    socklen_t mine_len = sizeof mine, other_len = sizeof other;
    memset(&mine, 0, sizeof mine);
    memset(&other, 0, sizeof other);
    return getsockname(fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_len) == 0 && mine_len == other_len &&
           memcmp(&mine, &other, mine_len) == 0;
}

static int await_connected(int fd, int64_t deadline)
{
    struct pollfd pollfd = {.fd = fd, .events = POLLOUT};
    int n;
    do
        n = poll(&pollfd, 1, iso_wire_poll_ms(deadline));
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? -errno : -ETIMEDOUT;
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return -errno;
    if (error != 0)
        return -error;
    return is_connected_to_itself(fd) ? -ECONNREFUSED : 0;
}

static int connect_once(const struct uid *uid, int64_t deadline)
{
    struct sockaddr_storage storage;
    socklen_t len = fill_address(uid, &storage);
    int fd = new_socket(uid);
    if (fd < 0)
        return fd;
    int rc = connect(fd, (const struct sockaddr *)&storage, len) == 0 ? 0 : -errno;
    if (rc == 0 || rc == -EINPROGRESS || rc == -EINTR)
        rc = await_connected(fd, deadline);
    if (rc != 0) {
        close(fd);
        return rc;
    }
    tune(fd);
    return fd;
}

/* Errors that pass when the other side has started, or its network has come up. */
static bool is_worth_retrying(int error)
{
    return error == -ECONNREFUSED || error == -ECONNRESET || error == -ECONNABORTED || error == -ETIMEDOUT ||
           error == -EHOSTUNREACH || error == -ENETUNREACH || error == -EAGAIN;
}

static void pause_ms(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

int iso_wire_connect(const struct uid *uid, int64_t deadline, int *last)
{
    *last = -ETIMEDOUT;
    for (int wait_ms = RETRY_MS_FIRST;; wait_ms = wait_ms * 2 > RETRY_MS_LAST ? RETRY_MS_LAST : wait_ms * 2) {
        int64_t attempt = iso_wire_deadline(ATTEMPT_S);
        int fd = connect_once(uid, attempt < deadline ? attempt : deadline);
        if (fd >= 0 || !is_worth_retrying(fd))
            return fd;
        *last = fd;
        int left = iso_wire_poll_ms(deadline);
        if (left == 0)
            return -ETIMEDOUT;
        pause_ms(left > 0 && left < wait_ms ? left : wait_ms);
    }
}

uint64_t iso_wire_raise_files(void)
{
    struct rlimit limit, higher;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return UINT64_MAX;
    const rlim_t most = (rlim_t)1 << 20;
    higher = limit;
    higher.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
    if (higher.rlim_cur > limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &higher) == 0)
        limit = higher;
    return limit.rlim_cur;
}

/* ---- bytes ---- */

/* 0 when `events` (or an error, which the next call reports) have come. */
static int await_events(int fd, short events, int64_t deadline)
{
    struct pollfd pollfd = {.fd = fd, .events = events};
    for (;;) {
        int n = poll(&pollfd, 1, iso_wire_poll_ms(deadline));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 && iso_wire_poll_ms(deadline) == 0)
            return -ETIMEDOUT;
    }
}

int iso_wire_send(int fd, const void *bytes, size_t len, int64_t deadline)
{
    const char *at = (const char *)bytes;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            continue;
        }
        int rc = n < 0 && errno == EINTR                            ? 0
                 : n < 0 && errno != EAGAIN && errno != EWOULDBLOCK ? -errno
                                                                    : await_events(fd, POLLOUT, deadline);
        if (rc != 0)
            return rc;
    }
    return 0;
}

ptrdiff_t iso_wire_recv_some(int fd, void *bytes, size_t len)
{
    ssize_t n = recv(fd, bytes, len, 0);
    if (n > 0)
        return n;
    if (n == 0)
        return -EPIPE;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}

int iso_wire_recv(int fd, void *bytes, size_t len, int64_t deadline)
{
    char *at = (char *)bytes;
    while (len > 0) {
        ptrdiff_t n = iso_wire_recv_some(fd, at, len);
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            continue;
        }
        int rc = n < 0 ? (int)n : await_events(fd, POLLIN, deadline);
        if (rc != 0)
            return rc;
    }
    return 0;
}
