/* SPDX-License-Identifier: MIT */
/* What host calls refuse to do with device memory ends the job with a sentence that names call and argument. Each case
 * is a child of its own, a job of one PE. */
#include "../check.h"


static char *device; /* 4096 bytes of the device heap, in the child */

static long *words(void) { return (long *)(void *)device; }

static void no_device(void) {}
static void reduce(void) { shmem_long_sum_reduce(SHMEM_TEAM_WORLD, words(), words() + 8, 4); }
static void broadcast(void)
{
    void *host = shmem_malloc(8);
    shmem_broadcastmem(SHMEM_TEAM_WORLD, host, device, 8, 0);
}
static void lock(void) { shmem_set_lock(words()); }
static void resize(void) { device = (char *)shmem_realloc(device, 8192); }
static void kind(void) { device = (char *)shmemx_malloc(8, 9); }
static void inside(void) { shmemx_free(device + 64); }
static void twice(void)
{
    shmemx_free(device);
    shmem_free(device);
}
static void past(void) { shmem_putmem(device, device, (size_t)1 << 40, 0); }
static void beyond(void) { shmem_putmem(device + ((size_t)1 << 20), "x", 1, 0); }
static void fetched(void)
{
    long *host = (long *)shmem_malloc(8);
    shmem_long_atomic_fetch_add_nbi(words(), host, 1, 0);
}
static void lent_put_to(void)
{
    shmemx_suspend(0);
    shmem_putmem(device, "x", 1, 0);
}
static void lent_put_from(void)
{
    void *host = shmem_malloc(8);
    shmemx_suspend(1);
    shmem_putmem(host, device, 8, 0);
}
static void lent_get(void)
{
    long *host = (long *)shmem_malloc(64);
    shmemx_suspend(1);
    shmem_long_iget(words(), host, 2, 1, 4, 0);
}
static void lent_fetch(void)
{
    long *host = (long *)shmem_malloc(8);
    shmemx_suspend(1);
    shmem_long_atomic_fetch_nbi(words(), host, 0);
}
static void lent_test(void)
{
    shmemx_suspend(0);
    (void)shmem_long_test(words(), SHMEM_CMP_EQ, 0);
}
static void lent_host(void)
{
    long *host = (long *)shmem_malloc(64);
    shmemx_suspend(0);
    shmem_long_p(host, 1, 0);
}
static void lent_sum(void)
{
    long *host = (long *)shmemx_team_malloc(SHMEM_TEAM_WORLD, 64, SHMEMX_HOST);
    shmemx_suspend(0);
    shmem_long_sum_reduce(SHMEM_TEAM_WORLD, host, host + 4, 4);
}
static void lent_resize(void)
{
    void *host = shmem_malloc(64);
    shmemx_suspend(0);
    host = shmem_realloc(host, 128);
}
static void misaligned(void) { (void)shmem_signal_fetch((const uint64_t *)(const void *)(device + 4)); }
static void registered(void)
{
    if (shmemx_buffer_register(device, 100, NULL) != 0)
        _exit(CHECK_FAILED);
}

struct wrong {
    void (*call)(void);
    const char *name;
    const char *word; /* that its sentence has too */
};
static const struct wrong cases[] = {
    {reduce, "shmem_long_sum_reduce: dest ", "is device memory"},
    {broadcast, "shmem_broadcastmem: source ", "is device memory"},
    {lock, "shmem_set_lock: lock ", "is device memory"},
    {resize, "shmem_realloc: ptr ", "is device memory"},
    {kind, "shmemx_malloc: kind is 9", "SHMEMX_DEVICE (1)"},
    {inside, "shmemx_free: ptr ", "64 bytes inside the object of 4096 bytes"},
    {twice, "shmem_free: ptr ", "is not an object of the device heap"},
    {past, "shmem_putmem: dest ", "ends beyond the device segment"},
    {beyond, "shmem_putmem: dest ", "beyond its objects"},
    {fetched, "shmem_long_atomic_fetch_add_nbi: fetch ", "must be memory of the host"},
    {lent_put_to, "shmem_putmem: dest ", "is lent back; call shmemx_resume"},
    {lent_put_from, "shmem_putmem: source ", "is lent back; call shmemx_resume"},
    {lent_get, "shmem_long_iget: dest ", "is lent back; call shmemx_resume"},
    {lent_fetch, "shmem_long_atomic_fetch_nbi: fetch ", "must be memory of the host"},
    {lent_test, "shmem_long_test: ivar ", "is lent back; call shmemx_resume"},
    {lent_host, "shmem_long_p: dest ", "is lent back; call shmemx_resume"},
    {lent_sum, "shmem_long_sum_reduce: dest ", "is lent back; call shmemx_resume"},
    {lent_resize, "shmem_realloc: ptr ", "is lent back; call shmemx_resume"},
    {misaligned, "shmem_signal_fetch: sig_addr ", "not aligned to 8 bytes"},
    {registered, "shmemx_buffer_register: pe 0 has addr ", "symmetric already"},
};

/* Only the child's end is a return. */
static void child(const void *call)
{
    shmem_init();
    if (shmemx_device_init() != 0)
        _exit(CHECK_SKIPPED);
    device = (char *)shmemx_malloc(4096, SHMEMX_DEVICE);
    (*(void (*const *)(void))call)();
    shmem_finalize();
    _exit(CHECK_PASSED);
}

int main(void)
{
    char said[4096];
    void (*first)(void) = no_device;
    int status = check_forked(child, &first, said, sizeof(said));
    if (status == CHECK_SKIPPED)
        return CHECK_SKIP(said);
    CHECK_EQ(status, CHECK_PASSED);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        status = check_forked(child, &cases[i].call, said, sizeof(said));
        CHECK_EQ_NAMED(status, 1, cases[i].name);
        if (!CHECK_NAMED(strstr(said, cases[i].name) != NULL && strstr(said, cases[i].word) != NULL, cases[i].name))
            fprintf(stderr, "expected \"%s\", seen: %s\n", cases[i].word, said);
    }
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}
