/* SPDX-License-Identifier: MIT */
/* The start by unique id: whole jobs whose PEs are threads of this process, with strangers on the port, PEs that
 * contradict each other, PEs that are missing or die, and a rank 0 that is none. What is printed is caught and searched
 * for the sentence that the user needs. The texts and messages alone: uid_text_test.c. */
#include "../check.h"

#include "../../bootstrap/boot.h"
#include "../../bootstrap/env.h"
#include "../../bootstrap/log.h"
#include "../../bootstrap/uid_job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { PES_MOST = 9, BLOCK_MOST = 300000 };

#define SECRET "000102030405060708090a0b0c0d0e0f"

/* ---- what is printed ---- */

static int caught = -1, real_stderr = -1;

static void catch_start(void)
{
    fflush(stderr);
    caught = memfd_create("caught", MFD_CLOEXEC);
    (void)fcntl(caught, F_SETFL, O_APPEND); /* threads write at once; a memfd does not lock its position */
    real_stderr = dup(STDERR_FILENO);
    dup2(caught, STDERR_FILENO);
}

/* What has been printed so far; the text is valid until the next call. */
static const char *catch_so_far(void)
{
    static char text[65536];
    ssize_t n = pread(caught, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* Ends catching; the text is valid until the next call. */
static const char *catch_end(void)
{
    fflush(stderr);
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    const char *text = catch_so_far();
    close(caught);
    return text;
}

static int count(const char *text, const char *sentence)
{
    int n = 0;
    for (; (text = strstr(text, sentence)) != NULL; text++)
        n++;
    return n;
}

/* `sentence` was printed at least `times` times. */
static void check_said(const char *text, const char *sentence, int times)
{
    if (!CHECK_NAMED(count(text, sentence) >= times, sentence))
        fprintf(stderr, "---- printed was:\n%s----\n", text);
}

/* ---- jobs of threads ---- */

struct pe {
    pthread_t thread;
    unsigned char id[ISO_UID_BYTES];
    int rank, size;
    double timeout;
    int delay_ms;
    int calls;         /* allgathers after open */
    int silent_before; /* this call is preceded by a long pause; -1: none */
    int reopen;        /* opens the same id again so often */
    int opened;        /* result of open */
    int result;        /* result of the last call */
    int failures;
};

static void sleep_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

/* Ends of handshakes in this process, so that a test can wait until a PE is in; see CMakeLists.txt. */
static int handshakes_done;
int __real_iso_handshake_receive(struct handshake *h, struct frame_socket *s);
int __wrap_iso_handshake_receive(struct handshake *h, struct frame_socket *s);
int __wrap_iso_handshake_receive(struct handshake *h, struct frame_socket *s)
{
    int rc = __real_iso_handshake_receive(h, s);
    if (rc == HANDSHAKE_DONE)
        __atomic_fetch_add(&handshakes_done, 1, __ATOMIC_RELEASE); /* pairs with await_handshakes */
    return rc;
}

/* The acceptor lets the PE in before it looks at another connection. */
static void await_handshakes(int n)
{
    while (__atomic_load_n(&handshakes_done, __ATOMIC_ACQUIRE) < n) /* pairs with __wrap_iso_handshake_receive */
        sleep_ms(1);
}

static size_t block_len(int call) { return call == 0 ? 0 : call % 7 == 3 ? BLOCK_MOST : (size_t)(call * 37 % 1000); }

static void run_calls(struct pe *pe, struct boot *boot)
{
    unsigned char *mine = (unsigned char *)malloc(BLOCK_MOST);
    unsigned char *all = (unsigned char *)malloc((size_t)BLOCK_MOST * (size_t)pe->size);
    for (int call = 0; call < pe->calls && pe->result == 0; call++) {
        size_t len = block_len(call);
        if (call == pe->silent_before)
            sleep_ms(1000);
        check_fill(mine, len, pe->rank, 0, (unsigned)call);
        pe->result = iso_boot_allgather(boot, mine, len, all);
        for (int r = 0; r < pe->size && pe->result == 0; r++)
            CHECK_FILLED(all + (size_t)r * len, len, r, 0, (unsigned)call);
        if (pe->result == 0 && call % 3 == 0)
            pe->result = iso_boot_barrier(boot);
    }
    if (pe->result != 0)
        CHECK(iso_boot_barrier(boot) != 0); /* a broken boot stays broken */
    free(mine);
    free(all);
}

static void *run_pe(void *argument)
{
    struct pe *pe = (struct pe *)argument;
    struct boot boot = {.ops = NULL};
    struct env env = {.boot = "", .uid = "", .boot_timeout = pe->timeout};
    struct boot_attr attr = {.id = pe->id, .rank = pe->rank, .size = pe->size};
    sleep_ms(pe->delay_ms);
    for (int i = 0; i <= pe->reopen && pe->result == 0; i++) {
        pe->opened = pe->result = iso_boot_open(&boot, &attr, &env);
        if (pe->opened != 0)
            CHECK(boot.ops == NULL);
        else {
            CHECK(boot.rank == pe->rank && boot.size == pe->size && *boot.host && *boot.launcher);
            run_calls(pe, &boot);
        }
    }
    iso_boot_close(&boot);
    CHECK(boot.ops == NULL);
    pe->failures = check_self.failures;
    return NULL;
}

static void set_pes(struct pe *pes, int first, int n, int size, const unsigned char *id)
{
    for (int i = 0; i < n; i++) {
        pes[i] = (struct pe){.rank = first + i, .size = size, .timeout = 20, .calls = 12, .silent_before = -1};
        memcpy(pes[i].id, id, ISO_UID_BYTES);
    }
}

static void begin_pes(struct pe *pes, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(pthread_create(&pes[i].thread, NULL, run_pe, &pes[i]), 0);
}

static void join_pes(struct pe *pes, int n)
{
    for (int i = 0; i < n; i++) {
        pthread_join(pes[i].thread, NULL);
        check_self.failures += pes[i].failures;
    }
}

static void check_all_good(const struct pe *pes, int n)
{
    for (int i = 0; i < n; i++)
        CHECK_EQ(pes[i].result, 0);
}

static void check_all_failed(const struct pe *pes, int n)
{
    for (int i = 0; i < n; i++)
        CHECK(pes[i].result != 0);
}

static double now_s(void) { return (double)iso_deadline_now() * 1e-9; }

static void test_jobs(void)
{
    static const int sizes[] = {1, 2, 3, 9};
    struct pe pes[PES_MOST];
    unsigned char id[ISO_UID_BYTES];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK_EQ(iso_boot_uid_create(id), 0);
        set_pes(pes, 0, sizes[i], sizes[i], id);
        for (int r = 0; r < sizes[i]; r++)
            pes[r].reopen = 2;
        pes[0].delay_ms = 50; /* nothing listens yet at the port of the id */
        begin_pes(pes, sizes[i]);
        join_pes(pes, sizes[i]);
        check_all_good(pes, sizes[i]);
    }
}

static void test_two_jobs_at_once(void)
{
    struct pe pes[6];
    unsigned char a[ISO_UID_BYTES], b[ISO_UID_BYTES];
    CHECK_EQ(iso_boot_uid_create(a), 0);
    CHECK_EQ(iso_boot_uid_create(b), 0);
    CHECK(memcmp(a, b, sizeof a) != 0);
    set_pes(pes, 0, 3, 3, a);
    set_pes(pes + 3, 0, 3, 3, b);
    begin_pes(pes, 6);
    join_pes(pes, 6);
    check_all_good(pes, 6);
}

static int listen_here(struct uid *uid)
{
    CHECK(iso_tcp_parse("127.0.0.1", &uid->address));
    return iso_tcp_listen(&uid->address);
}

/* The text of a script: no process has made the id, rank 0 binds the port itself, later than the others come. Twice on
 * the same port, since SO_REUSEADDR must get it past the first job's closed connections. */
static void test_script_text(void)
{
    struct uid probe = {.secret = {1}};
    int fd = listen_here(&probe);
    CHECK(fd >= 0 && probe.address.port != 0);
    close(fd);
    unsigned char id[ISO_UID_BYTES];
    iso_uid_format(&probe, id);
    for (int round = 0; round < 2; round++) {
        struct pe pes[3];
        set_pes(pes, 0, 3, 3, id);
        pes[0].delay_ms = 300;
        begin_pes(pes, 3);
        join_pes(pes, 3);
        check_all_good(pes, 3);
    }
}

/* ---- strangers and liars ---- */

static int connect_to(const unsigned char *id)
{
    struct uid uid;
    const char *why;
    int last;
    CHECK_EQ(iso_uid_parse(id, &uid, &why), 0);
    int fd = iso_tcp_connect(&uid.address, iso_deadline_in(5), &last);
    CHECK(fd >= 0);
    return fd;
}

static void write_to(int fd, const void *bytes, size_t len)
{
    (void)iso_tcp_send(fd, bytes, len, iso_deadline_in(5)); /* the other side may have closed it: that is the point */
}

/* One end of a connection that this test plays. */
struct end {
    struct uid uid;
    struct frame_socket socket;
    struct handshake handshake;
};

static void write_message(struct end *end, struct frame frame, const char *payload, bool alter)
{
    char bytes[1024] = {0}; /* frame.len may be longer than the payload */
    snprintf(bytes, sizeof bytes, "%s", payload);
    end->socket.key[15] ^= alter; /* which alters the code */
    CHECK_EQ(iso_frame_send(&end->socket, &frame, bytes, NULL, iso_deadline_in(5)), 0);
}

/* Reads a frame and its payload as text. */
static struct frame read_frame(struct end *end, char *text, size_t text_bytes)
{
    unsigned char payload[UID_SENTENCE_BYTES] = {0};
    struct frame frame = {.kind = 0};
    CHECK_EQ(iso_frame_wait_head(&end->socket, &frame, iso_deadline_in(10)), 0);
    CHECK_OR_EXIT(frame.len < sizeof payload);
    CHECK_EQ(iso_frame_wait_rest(&end->socket, payload, iso_deadline_in(10)), 0);
    iso_log_clean(payload, frame.len, text, text_bytes);
    return frame;
}

/* Waits for the next event of the handshake. */
static int shake_hands(struct end *end)
{
    int rc;
    while ((rc = iso_handshake_receive(&end->handshake, &end->socket)) == HANDSHAKE_NOTHING)
        CHECK_EQ(iso_tcp_wait(end->socket.fd, POLLIN, iso_deadline_in(10)), 0);
    return rc;
}

/* Says hello as this rank, and proves it. */
static struct end say_hello(const unsigned char *id, uint32_t rank, uint32_t size, uint32_t protocol,
                            const char *version)
{
    struct end end;
    const char *why;
    struct hello hello = {.protocol = protocol, .pe = rank, .detail = size, .service = HANDSHAKE_UID};
    CHECK_EQ(iso_uid_parse(id, &end.uid, &why), 0);
    snprintf(hello.version, sizeof hello.version, "%s", version);
    CHECK_EQ(iso_handshake_dial(&end.handshake, &end.socket, connect_to(id), end.uid.secret, &hello), 0);
    CHECK_EQ(shake_hands(&end), HANDSHAKE_DONE);
    return end;
}

static void test_strangers(void)
{
    enum { SILENT = 70 };
    struct pe pes[3];
    unsigned char id[ISO_UID_BYTES], noise[200];
    struct check_random random = check_random_stream(2);
    int silent[SILENT];
    CHECK_EQ(iso_boot_uid_create(id), 0);
    set_pes(pes, 0, 3, 3, id);
    catch_start();
    pes[0].timeout = 60;
    begin_pes(pes, 1);
    double start = now_s();
    for (int i = 0; i < SILENT; i++) /* more than rank 0 keeps at once */
        silent[i] = connect_to(id);
    for (int i = 0; i < 60; i++) {
        int fd = connect_to(id);
        check_random_fill(&random, noise, sizeof noise);
        write_to(fd, noise, check_random_below(&random, sizeof noise));
        close(fd);
    }
    int web = connect_to(id), partial = connect_to(id), wrong = connect_to(id), hasty = connect_to(id);
    write_to(web, "GET / HTTP/1.1\r\n", 16);
    write_to(partial, "ISOMER\r\nxyz", 11);
    memset(noise, 0x55, sizeof noise);
    memcpy(noise, "ISOMER\r\n", 8); /* the right magic, a wrong secret */
    write_to(wrong, noise, HELLO_BYTES);
    close(hasty);
    begin_pes(pes + 1, 2);
    join_pes(pes, 3);
    const char *text = catch_end();
    check_all_good(pes, 3);
    CHECK(now_s() - start < 30);
    check_said(text, "a connection from ", 3);
    check_said(text, "was dropped", 3);
    check_said(text, "no longer printed", 1); /* and a flood of them ends */
    CHECK(count(text, "was dropped") <= 12);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    close(web);
    close(partial);
    close(wrong);
}

/* One stranger of each kind alone, so that its warning is not lost in the flood. */
static void test_stranger_warnings(void)
{
    struct pe pes[2];
    struct end old;
    const unsigned char proof[AUTH_BYTES] = {0}; /* a guess */
    const struct hello hello = iso_handshake_hello(HANDSHAKE_UID, 1, 2);
    const struct hello channel = iso_handshake_hello(HANDSHAKE_CHANNEL, 1, 2);
    unsigned char id[ISO_UID_BYTES];
    CHECK_EQ(iso_boot_uid_create(id), 0);
    set_pes(pes, 0, 2, 2, id);
    catch_start();
    begin_pes(pes, 1);
    int web = connect_to(id), guessed = connect_to(id), silent = connect_to(id);
    write_to(web, "GET / HTTP/1.1\r\n", 16);
    CHECK_EQ(iso_handshake_dial(&old.handshake, &old.socket, guessed, proof, &hello), 0);
    write_to(guessed, proof, sizeof proof);
    CHECK_EQ(iso_handshake_dial(&old.handshake, &old.socket, connect_to(id), proof, &hello), 0);
    close(old.socket.fd);
    CHECK_EQ(iso_handshake_dial(&old.handshake, &old.socket, connect_to(id), proof, &channel), 0);
    while (strstr(catch_so_far(), "it was silent") == NULL) /* after 5 s */
        sleep_ms(10);
    begin_pes(pes + 1, 1);
    join_pes(pes, 2);
    const char *text = catch_end();
    check_all_good(pes, 2);
    check_said(text, "it is not a PE of this library", 1);
    check_said(text, "its secret is not the one of this job", 1);
    check_said(text, "it ended without a proof that it belongs to this job", 1);
    check_said(text, "its hello is for another PE or job", 1);
    check_said(text, "it was silent", 1);
    close(old.socket.fd);
    close(web);
    close(guessed);
    close(silent);
}

/* A hello that contradicts the job ends it on both ends, with the same sentence. */
static void test_contradictions(void)
{
    char newer[96], other[96];
    const struct {
        uint32_t rank, size, protocol;
        const char *version, *sentence;
    } cases[] = {{1, 3, ISO_PROTOCOL, ISO_VERSION, "two processes say that they are pe 1"},
                 {0, 3, ISO_PROTOCOL, ISO_VERSION, "two processes say that they are pe 0"},
                 {3, 3, ISO_PROTOCOL, ISO_VERSION, "pe 3, which is outside 0..2"},
                 {0xffffffffu, 3, ISO_PROTOCOL, ISO_VERSION, "outside 0..2"},
                 {2, 4, ISO_PROTOCOL, ISO_VERSION, "was told that the job has 4 PEs, pe 0 that it has 3"},
                 {2, 3, ISO_PROTOCOL + 1, ISO_VERSION, newer},
                 {2, 3, ISO_PROTOCOL, "77.1", other}};
    snprintf(newer, sizeof newer, "protocol %d, pe 0 version %s with protocol %d", ISO_PROTOCOL + 1, ISO_VERSION,
             ISO_PROTOCOL);
    snprintf(other, sizeof other, "version 77.1 with protocol %d, pe 0 version %s", ISO_PROTOCOL, ISO_VERSION);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pe pes[2];
        unsigned char id[ISO_UID_BYTES];
        char sentence[UID_SENTENCE_BYTES];
        CHECK_EQ(iso_boot_uid_create(id), 0);
        set_pes(pes, 0, 2, 3, id);
        catch_start();
        __atomic_store_n(&handshakes_done, 0, __ATOMIC_RELAXED); /* no thread is there yet */
        begin_pes(pes, 2);
        await_handshakes(2); /* at both ends: pe 1 is in */
        struct end end = say_hello(id, cases[i].rank, cases[i].size, cases[i].protocol, cases[i].version);
        CHECK_EQ(read_frame(&end, sentence, sizeof sentence).kind, UID_FAIL);
        close(end.socket.fd);
        join_pes(pes, 2);
        const char *text = catch_end();
        check_all_failed(pes, 2);
        check_said(sentence, cases[i].sentence, 1);
        check_said(text, cases[i].sentence, 2); /* pe 0, and pe 1 as told by it */
    }
}

static void test_missing(void)
{
    struct pe pes[5];
    unsigned char id[ISO_UID_BYTES];
    CHECK_EQ(iso_boot_uid_create(id), 0);
    set_pes(pes, 0, 5, 6, id); /* 3 and 5 are not started: */
    pes[3].rank = 4;
    for (int i = 0; i < 4; i++)
        pes[i].timeout = 2;
    catch_start();
    double start = now_s();
    begin_pes(pes, 4);
    join_pes(pes, 4);
    const char *text = catch_end();
    check_all_failed(pes, 4);
    CHECK(now_s() - start < 8);
    check_said(text, "pe 3, 5 missing", 4);
}

/* No rank 0 at all; then one that listens and never answers. */
static void test_no_hub(void)
{
    struct pe pes[2];
    struct uid probe = {.secret = {1}};
    unsigned char id[ISO_UID_BYTES];
    int fd = listen_here(&probe);
    iso_uid_format(&probe, id);
    for (int listening = 1; listening >= 0; listening--) {
        if (!listening)
            close(fd);
        set_pes(pes, 1, 2, 3, id);
        pes[0].timeout = pes[1].timeout = 0.5;
        catch_start();
        begin_pes(pes, 2);
        join_pes(pes, 2);
        const char *text = catch_end();
        check_all_failed(pes, 2);
        check_said(text, listening ? "pe 0 has not answered within 0.5 s" : "pe 0 was not found at 127.0.0.1", 2);
    }
}

/* What a PE in place of rank 1 does after its handshake; the job must end at once, naming it. */
enum deed {
    DEED_CLOSE,
    DEED_HALF,
    DEED_NOISE,
    DEED_SENTENCE,
    DEED_OTHER_CALL,
    DEED_OTHER_LEN,
    DEED_ALTERED,
    DEED_SILENT,
    DEED_LATER
};

static void do_deed(struct end *end, enum deed deed)
{
    struct frame frame = {.kind = UID_DATA, .number = 1, .len = 0};
    frame.number += deed == DEED_OTHER_CALL;
    frame.len += deed == DEED_OTHER_LEN ? 1000 : deed == DEED_SENTENCE ? 9 : 0;
    if (deed == DEED_SENTENCE)
        frame.kind = UID_FAIL;
    if (deed == DEED_NOISE)
        write_to(end->socket.fd, "no message at all", 17);
    else if (deed == DEED_HALF)
        write_to(end->socket.fd, "ISOF\2\0\0\0\1\0", 10);
    else if (deed != DEED_CLOSE && deed != DEED_SILENT)
        write_message(end, frame, deed == DEED_SENTENCE ? "I give up" : "", deed == DEED_ALTERED);
    if (deed == DEED_LATER)
        sleep_ms(200); /* it is among those who have given their block; pe 2 comes later still */
    if (deed == DEED_CLOSE || deed == DEED_HALF || deed == DEED_LATER)
        shutdown(end->socket.fd, SHUT_RDWR);
}

static void test_deeds(void)
{
    static const struct {
        enum deed deed;
        int size; /* 4: pe 3 never comes */
        const char *sentence;
    } cases[] = {{DEED_CLOSE, 3, "pe 1 has ended"},
                 {DEED_HALF, 3, "pe 1 has ended"},
                 {DEED_NOISE, 3, "pe 1 sent bytes that are not a message"},
                 {DEED_SENTENCE, 3, "pe 1 has ended the job: I give up"},
                 {DEED_OTHER_CALL, 3, "pe 1 sent 0 bytes in call 2 where pe 0 sent 0 in call 1"},
                 {DEED_OTHER_LEN, 3, "pe 1 sent 1000 bytes in call 1 where pe 0 sent 0 in call 1"},
                 {DEED_ALTERED, 3, "a message of pe 1 is not from it, or was altered"},
                 {DEED_SILENT, 3, "pe 1 missing"},
                 {DEED_LATER, 3, "pe 1 has ended"},
                 {DEED_CLOSE, 4, "pe 1 has ended before all 4 PEs had arrived"},
                 {DEED_HALF, 4, "pe 1 has ended before all 4 PEs had arrived"},
                 {DEED_SENTENCE, 4, "pe 1 has ended the job: I give up"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pe pes[3];
        unsigned char id[ISO_UID_BYTES];
        CHECK_EQ(iso_boot_uid_create(id), 0);
        set_pes(pes, 0, 3, cases[i].size, id);
        pes[1] = pes[2];
        __atomic_store_n(&handshakes_done, 0, __ATOMIC_RELAXED); /* no thread is there yet */
        if (cases[i].deed == DEED_SILENT)
            pes[0].timeout = pes[1].timeout = 2;
        if (cases[i].deed == DEED_LATER)
            pes[1].silent_before = 0;
        catch_start();
        double start = now_s();
        begin_pes(pes, 2);
        struct end end = say_hello(id, 1, (uint32_t)cases[i].size, ISO_PROTOCOL, ISO_VERSION);
        await_handshakes(4); /* of two members, at both ends */
        do_deed(&end, cases[i].deed);
        if (cases[i].size == 4)
            shutdown(end.socket.fd, SHUT_WR);
        join_pes(pes, 2);
        close(end.socket.fd);
        const char *text = catch_end();
        CHECK((pes[0].opened == 0) == (cases[i].size == 3) && pes[1].opened == 0);
        check_all_failed(pes, 2);
        check_said(text, cases[i].sentence, 2);
        CHECK(now_s() - start < 15); /* of 20 */
    }
}

/* A process in place of rank 0 that closes, answers nonsense, does not know the secret, or says why. */
enum hub {
    HUB_CLOSES,
    HUB_NOISE,
    HUB_UNPROVEN,
    HUB_OTHER_SECRET,
    HUB_SENTENCE,
    HUB_LONG_SENTENCE,
    HUB_ALTERED,
    HUB_ENDS
};

static void play_hub(struct end *end, int fd, enum hub hub)
{
    unsigned char wrong[AUTH_BYTES] = {3};
    iso_handshake_accept(&end->handshake, &end->socket, fd);
    CHECK_EQ(shake_hands(end), HANDSHAKE_HELLO);
    CHECK(memmem(end->handshake.hello, HELLO_BYTES, end->uid.secret, AUTH_BYTES) == NULL);
    if (hub == HUB_NOISE)
        write_to(fd, "HTTP/1.1 400 Bad Request\r\n", 26);
    if (hub == HUB_UNPROVEN)
        write_to(fd, "ISOMER\r\nno\033no", 13);
    if (hub < HUB_OTHER_SECRET)
        return;
    CHECK_EQ(iso_handshake_answer(&end->handshake, &end->socket, hub == HUB_OTHER_SECRET ? wrong : end->uid.secret), 0);
    if (hub == HUB_OTHER_SECRET)
        return;
    CHECK_EQ(shake_hands(end), HANDSHAKE_DONE);
    if (hub == HUB_LONG_SENTENCE)
        write_to(fd, "ISOF\3\0\0\0\0\0\0\0\377\377\0\0", 16);
    else if (hub == HUB_SENTENCE)
        write_message(end, (struct frame){.kind = UID_FAIL, .len = 5}, "no\033no", false);
    else if (hub == HUB_ALTERED)
        write_message(end, (struct frame){.kind = UID_DATA, .number = 1}, "", true);
}

static void test_false_hubs(void)
{
    static const char *const sentences[] = {
        [HUB_CLOSES] = "closed the connection without an answer",
        [HUB_NOISE] = "is not pe 0 of this job: it is not a PE of this library",
        [HUB_UNPROVEN] = "closed the connection without an answer",
        [HUB_OTHER_SECRET] = "is not pe 0 of this job: its secret is not the one of this job",
        [HUB_SENTENCE] = "pe 0 says: no?no",
        [HUB_LONG_SENTENCE] = "something else than expected",
        [HUB_ALTERED] = "a message of pe 0 is not from it, or was altered",
        [HUB_ENDS] = "pe 0 has ended",
    };
    for (int hub = HUB_CLOSES; hub <= HUB_ENDS; hub++) {
        struct pe pe;
        struct end end = {.uid = {.secret = {9, 8, 7}}};
        unsigned char id[ISO_UID_BYTES];
        char name[TCP_NAME_BYTES];
        int fd, listener = listen_here(&end.uid);
        iso_uid_format(&end.uid, id);
        set_pes(&pe, 1, 1, 2, id);
        pe.timeout = 3;
        catch_start();
        begin_pes(&pe, 1);
        while ((fd = iso_tcp_accept(listener, name)) < 0)
            sleep_ms(1);
        play_hub(&end, fd, (enum hub)hub);
        close(fd);
        join_pes(&pe, 1);
        close(listener);
        const char *text = catch_end();
        check_all_failed(&pe, 1);
        check_said(text, sentences[hub], 1);
    }
}

/* ---- addresses ---- */

static bool create_on(const char *address, unsigned char id[ISO_UID_BYTES])
{
    setenv("SHMEM_UID_ADDRESS", address, 1);
    catch_start();
    int rc = iso_boot_uid_create(id);
    const char *text = catch_end();
    if (rc != 0)
        check_said(text, "SHMEM_UID_ADDRESS", 1);
    unsetenv("SHMEM_UID_ADDRESS");
    return rc == 0;
}

static void test_addresses(void)
{
    unsigned char id[ISO_UID_BYTES];
    CHECK(create_on("127.0.0.1", id) && strncmp((const char *)id, "127.0.0.1:", 10) == 0);
    CHECK(create_on("lo", id) && strncmp((const char *)id, "127.0.0.1:", 10) == 0);
    CHECK(!create_on("no such thing", id));
    CHECK(!create_on("203.0.113.77", id)); /* not of this machine */
    CHECK(!create_on("1234567890123456789012345678901234567890123456789012345678901234567890", id));
    if (!create_on("::1", id)) {
        fprintf(stderr, "no IPv6 here: not tried\n");
        return;
    }
    struct pe pes[3];
    CHECK(strncmp((const char *)id, "[::1]:", 6) == 0);
    set_pes(pes, 0, 3, 3, id);
    begin_pes(pes, 3);
    join_pes(pes, 3);
    check_all_good(pes, 3);
}

/* ---- attributes and variables that are wrong ---- */

static int open_with(const struct boot_attr *attr, struct env *env)
{
    struct boot boot = {.ops = NULL};
    int rc = iso_boot_open(&boot, attr, env);
    iso_boot_close(&boot);
    return rc;
}

static void test_wrong_arguments(void)
{
    static const unsigned char empty[ISO_UID_BYTES] = {0};
    struct env env = {.boot = "", .uid = "", .rank = -1, .size = -1, .boot_timeout = 1};
    catch_start();
    CHECK_EQ(open_with(&(struct boot_attr){.id = empty, .rank = 0, .size = 1}, &env), -EINVAL);
    CHECK_EQ(open_with(&(struct boot_attr){.id = empty, .rank = 1, .size = 1}, &env), -EINVAL);
    CHECK_EQ(open_with(&(struct boot_attr){.id = empty, .rank = -1, .size = 1}, &env), -EINVAL);
    CHECK_EQ(open_with(&(struct boot_attr){.id = empty, .rank = 0, .size = 0}, &env), -EINVAL);
    env.uid = "127.0.0.1:5:" SECRET;
    CHECK_EQ(open_with(NULL, &env), -EINVAL); /* no SHMEM_RANK and SHMEM_SIZE */
    env.rank = 0;
    env.size = 1;
    CHECK_EQ(open_with(NULL, &env), 0);
    env.uid = "nonsense";
    CHECK_EQ(open_with(NULL, &env), -EINVAL);
    const char *text = catch_end();
    check_said(text, "not one of shmemx_get_uniqueid", 1);
    check_said(text, "shmemx_init_attr: rank is 1 and size is 1", 1);
    check_said(text, "SHMEM_UID is set, but with SHMEM_RANK and SHMEM_SIZE: rank is -1 and size is -1", 1);
    check_said(text, "SHMEM_UID is not address:port:secret", 1);
}

int main(void)
{
    unsetenv("PMIX_NAMESPACE");
    check_self.seed = 1;
    alarm(120); /* a hang is a failure */
    test_jobs();
    test_two_jobs_at_once();
    test_script_text();
    test_strangers();
    test_stranger_warnings();
    test_contradictions();
    test_missing();
    test_no_hub();
    test_deeds();
    test_false_hubs();
    test_addresses();
    test_wrong_arguments();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
