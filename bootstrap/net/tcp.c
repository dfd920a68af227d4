/* SPDX-License-Identifier: MIT */
/* TCP with deadlines. Sockets of both families are treated alike behind struct tcp_address. */
#include "tcp.h"

#include "../clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RETRY_US_FIRST = 50, RETRY_US_LAST = 200000, ATTEMPT_S = 5 };
enum { SOON_NS = 200000 }; /* a peer that is about to listen, or to answer, takes less; to wake up takes about as long */

/* ---- addresses ---- */

bool iso_tcp_parse(const char *text, struct tcp_address *address)
{
    memset(address->bytes, 0, sizeof address->bytes);
    address->ipv6 = strchr(text, ':') != NULL;
    return inet_pton(address->ipv6 ? AF_INET6 : AF_INET, text, address->bytes) == 1;
}

void iso_tcp_name(const struct tcp_address *address, char name[TCP_NAME_BYTES])
{
    char text[INET6_ADDRSTRLEN] = "unknown";
    inet_ntop(address->ipv6 ? AF_INET6 : AF_INET, address->bytes, text, sizeof text);
    snprintf(name, TCP_NAME_BYTES, address->ipv6 ? "[%s]:%u" : "%s:%u", text, (unsigned)address->port);
}

bool iso_tcp_is_same(const struct tcp_address *a, const struct tcp_address *b)
{
    return a->port == b->port && a->ipv6 == b->ipv6 && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static socklen_t to_system(const struct tcp_address *address, struct sockaddr_storage *storage)
{
    memset(storage, 0, sizeof *storage);
    if (address->ipv6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)storage;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(address->port);
        memcpy(&in6->sin6_addr, address->bytes, sizeof in6->sin6_addr);
        return sizeof *in6;
    }
    struct sockaddr_in *in = (struct sockaddr_in *)storage;
    in->sin_family = AF_INET;
    in->sin_port = htons(address->port);
    memcpy(&in->sin_addr, address->bytes, sizeof in->sin_addr);
    return sizeof *in;
}

static struct tcp_address from_system(const struct sockaddr_storage *storage)
{
    struct tcp_address address = {.ipv6 = storage->ss_family == AF_INET6};
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)storage;
    const struct sockaddr_in *in = (const struct sockaddr_in *)storage;
    address.port = ntohs(address.ipv6 ? in6->sin6_port : in->sin_port);
    if (address.ipv6)
        memcpy(address.bytes, &in6->sin6_addr, sizeof in6->sin6_addr);
    else
        memcpy(address.bytes, &in->sin_addr, sizeof in->sin_addr);
    return address;
}

/* ---- connections ---- */

static int new_socket(const struct tcp_address *address)
{
    int fd = socket(address->ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

static void tune_socket(int fd)
{
    int on = 1; /* both are improvements only: small messages go at once, a cut cable is noticed some day */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

int iso_tcp_reserve(struct tcp_address *address)
{
    struct sockaddr_storage storage;
    socklen_t len = to_system(address, &storage);
    int on = 1, fd = new_socket(address);
    if (fd < 0)
        return fd;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(fd, (const struct sockaddr *)&storage, len) != 0)
        goto fail;
    len = sizeof storage;
    if (getsockname(fd, (struct sockaddr *)&storage, &len) != 0)
        goto fail;
    address->port = from_system(&storage).port;
    return fd;
fail:;
    int error = errno;
    close(fd);
    return -error;
}

int iso_tcp_listen(struct tcp_address *address)
{
    int fd = iso_tcp_reserve(address);
    if (fd < 0 || listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

int iso_tcp_accept(int listener, char name[TCP_NAME_BYTES])
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;
    memset(&storage, 0, sizeof storage);
    int fd = accept4(listener, (struct sockaddr *)&storage, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    tune_socket(fd);
    struct tcp_address address = from_system(&storage);
    iso_tcp_name(&address, name);
    return fd;
}

int iso_tcp_connect_begin(const struct tcp_address *address)
{
    struct sockaddr_storage storage;
    socklen_t len = to_system(address, &storage);
    int fd = new_socket(address);
    if (fd < 0)
        return fd;
    tune_socket(fd);
    if (connect(fd, (const struct sockaddr *)&storage, len) == 0 || errno == EINPROGRESS || errno == EINTR)
        return fd;
    int error = errno;
    close(fd);
    return -error;
}

int iso_tcp_connect_end(int fd)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return -errno;
    if (error != 0)
        return -error;
    /* The system may have chosen a port of the ephemeral range at which no process listens as our own. TCP has
     * connected the socket with itself then. */
    struct sockaddr_storage mine, other;
    socklen_t mine_len = sizeof mine, other_len = sizeof other;
    memset(&mine, 0, sizeof mine);
    memset(&other, 0, sizeof other);
    bool itself = getsockname(fd, (struct sockaddr *)&mine, &mine_len) == 0 &&
                  getpeername(fd, (struct sockaddr *)&other, &other_len) == 0 && mine_len == other_len &&
                  memcmp(&mine, &other, mine_len) == 0;
    return itself ? -ECONNREFUSED : 0;
}

int iso_tcp_local(int fd, struct tcp_address *address)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;
    if (getsockname(fd, (struct sockaddr *)&storage, &len) != 0)
        return -errno;
    *address = from_system(&storage);
    return 0;
}

int iso_tcp_connect(const struct tcp_address *address, int64_t deadline, int *last)
{
    *last = -ETIMEDOUT;
    const uint64_t begin = iso_clock_now_ns();
    for (int wait_us = RETRY_US_FIRST;;) {
        int64_t attempt = iso_deadline_in(ATTEMPT_S);
        int fd = iso_tcp_connect_begin(address);
        int rc = fd < 0 ? fd : iso_tcp_wait(fd, POLLOUT, attempt < deadline ? attempt : deadline);
        if (rc == 0)
            rc = iso_tcp_connect_end(fd);
        if (rc == 0)
            return fd;
        if (fd >= 0)
            close(fd);
        /* Errors that pass when the other side has started, or its network has come up. */
        bool passes = rc == -ECONNREFUSED || rc == -ECONNRESET || rc == -ECONNABORTED || rc == -ETIMEDOUT ||
                      rc == -EHOSTUNREACH || rc == -ENETUNREACH || rc == -EAGAIN;
        if (!passes)
            return rc;
        *last = rc;
        int left = iso_deadline_poll_ms(deadline);
        if (left == 0)
            return -ETIMEDOUT;
        if (rc == -ECONNREFUSED && iso_clock_now_ns() - begin < SOON_NS) {
            sched_yield();
            continue;
        }
        long us = left > 0 && left < wait_us / 1000 ? left * 1000L : wait_us;
        (void)nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
        wait_us = wait_us * 2 > RETRY_US_LAST ? RETRY_US_LAST : wait_us * 2;
    }
}

int iso_tcp_limit_silence(int fd, double seconds)
{
    int on = 1, idle = (int)(seconds * 0.4), interval = (int)(seconds * 0.2), probes = 3;
    unsigned limit = (unsigned)(seconds * 1000);
    if (seconds <= 0 || seconds > 30000)
        return 0;
    idle = idle > 1 ? idle : 1;
    interval = interval > 1 ? interval : 1;
    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof limit) != 0)
        return -errno;
    return 0;
}

uint64_t iso_tcp_raise_files(void)
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

int iso_poll(struct pollfd *fds, unsigned n, int timeout_ms)
{
    const uint64_t begin = iso_clock_now_ns();
    int ready;
    while ((ready = poll(fds, n, 0)) == 0 && timeout_ms != 0 && iso_clock_now_ns() - begin < SOON_NS)
        sched_yield();
    return ready != 0 || timeout_ms == 0 ? ready : poll(fds, n, timeout_ms);
}

int iso_tcp_wait(int fd, short events, int64_t deadline)
{
    struct pollfd pollfd = {.fd = fd, .events = events};
    for (;;) {
        int n = iso_poll(&pollfd, 1, iso_deadline_poll_ms(deadline));
        if (n > 0)
            return 0;
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n == 0 && iso_deadline_poll_ms(deadline) == 0)
            return -ETIMEDOUT;
    }
}

int iso_tcp_send_parts(int fd, struct iovec *parts, int n, int64_t deadline)
{
    while (n > 0) {
        if (parts->iov_len == 0) {
            parts++;
            n--;
            continue;
        }
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            int rc = errno == EAGAIN || errno == EWOULDBLOCK ? iso_tcp_wait(fd, POLLOUT, deadline) : -errno;
            if (rc != 0)
                return rc;
        }
        for (int i = 0; i < n && sent > 0; i++) {
            size_t of_part = (size_t)sent < parts[i].iov_len ? (size_t)sent : parts[i].iov_len;
            parts[i].iov_base = (char *)parts[i].iov_base + of_part;
            parts[i].iov_len -= of_part;
            sent -= (ssize_t)of_part;
        }
    }
    return 0;
}

int iso_tcp_send(int fd, const void *bytes, size_t len, int64_t deadline)
{
    struct iovec part = {(void *)(uintptr_t)bytes, len};
    return iso_tcp_send_parts(fd, &part, 1, deadline);
}

ptrdiff_t iso_tcp_receive(int fd, void *bytes, size_t len)
{
    ssize_t n = recv(fd, bytes, len, 0);
    if (n > 0)
        return n;
    if (n == 0)
        return -EPIPE;
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -errno;
}
