/* SPDX-License-Identifier: MIT */
/* How the RDMA device reaches device memory, over doubles of libibverbs and of the device layer: which method is chosen
 * and kept, what each is asked for, what is said of those that do not work, and that no descriptor is left. */
#include "../../bootstrap/env.h"
#include "../check.h"

#if !__has_include(<infiniband/verbs.h>)
int main(void) { return CHECK_SKIP("no header infiniband/verbs.h on this machine"); }
#else

#include "../../device/gpu.h"
#include "../../shmem/transport/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

/* The machine: what works, and what was asked. */
static struct {
    bool exports, takes_dmabuf, takes_address;
    int exported, by_dmabuf, by_address, open_fd;
    struct ibv_mr mr;
} machine;

enum { BYTES = 70000, OFFSET = 4711 };
static const struct range range = {0x7f0000012345, 0x7f0000012345 + BYTES};

/* ---- the doubles ---- */

int __wrap_iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset);
const char *__wrap_iso_gpu_error(const struct gpu *gpu);
const struct gpu_info *__wrap_iso_gpu_describe(const struct gpu *gpu);

int __wrap_iso_gpu_export_dmabuf(struct gpu *gpu, char *at, size_t len, int *fd, uint64_t *offset)
{
    CHECK(gpu == NULL && (uint64_t)(uintptr_t)at == range.start && len == BYTES);
    machine.exported++;
    if (!machine.exports)
        return -ENOTSUP;
    *fd = machine.open_fd = memfd_create("dmabuf", MFD_CLOEXEC);
    *offset = OFFSET;
    return 0;
}

const char *__wrap_iso_gpu_error(const struct gpu *gpu)
{
    (void)gpu;
    return "the driver makes none";
}

const struct gpu_info *__wrap_iso_gpu_describe(const struct gpu *gpu)
{
    static const struct gpu_info info = {.orders_writes = false};
    (void)gpu;
    return &info;
}

static struct ibv_mr *reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access)
{
    CHECK(pd == NULL && offset == OFFSET && len == BYTES && iova == range.start && access == VERBS_EXPOSED);
    CHECK(fd == machine.open_fd && fcntl(fd, F_GETFD) >= 0);
    machine.by_dmabuf++;
    errno = EOPNOTSUPP;
    return machine.takes_dmabuf ? &machine.mr : NULL;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
    CHECK(pd == NULL && (uint64_t)(uintptr_t)at == range.start && len == BYTES && access == VERBS_EXPOSED);
    machine.by_address++;
    errno = EFAULT;
    return machine.takes_address ? &machine.mr : NULL;
}

/* ---- the ladder ---- */

static struct verbs *opened(const char *wish)
{
    struct verbs *v = (struct verbs *)calloc(1, sizeof *v);
    CHECK_OR_EXIT(v != NULL);
    memset(&machine, 0, sizeof machine);
    machine.open_fd = -1;
    ISO->env->device_rdma = wish;
    v->net.port = &iso_verbs_port;
    v->lib.reg_mr = reg_mr;
    v->lib.reg_dmabuf_mr = reg_dmabuf_mr;
    CHECK_EQ(iso_verbs_reach_start(v), 0);
    return v;
}

static struct ibv_mr *register_piece(struct verbs *v)
{
    struct ibv_mr *mr = iso_verbs_register_device(v, NULL, range);
    CHECK(machine.open_fd < 0 || fcntl(machine.open_fd, F_GETFD) < 0); /* closed */
    return mr;
}

static void says(struct verbs *v, const char *text)
{
    char said[512] = "";
    CHECK_EQ(iso_verbs_reach_text(v, said, sizeof said), strlen(text));
    CHECK_NAMED(strcmp(said, text) == 0, said);
    free(v);
}

static void test_choice(void)
{
    struct verbs *v = opened("");
    CHECK(v->reach.wish == VERBS_ANY_METHOD && !v->reach.flushes);
    machine.exports = machine.takes_dmabuf = machine.takes_address = true;
    CHECK(register_piece(v) == &machine.mr);
    CHECK(machine.by_dmabuf == 1 && machine.by_address == 0 && v->reach.flushes);
    says(v, "device memory by dma-buf");

    v = opened("");
    machine.takes_dmabuf = machine.takes_address = true;
    CHECK(register_piece(v) == &machine.mr && register_piece(v) == &machine.mr);
    CHECK(machine.exported == 1 && machine.by_dmabuf == 0 && machine.by_address == 2); /* chosen once */
    says(v, "device memory by peer memory (no dmabuf: the driver makes none)");

    v = opened("");
    machine.exports = machine.takes_address = true;
    CHECK(register_piece(v) == &machine.mr);
    says(v, "device memory by peer memory (no dmabuf: ibv_reg_dmabuf_mr: Operation not supported)");

    v = opened("");
    v->lib.reg_dmabuf_mr = NULL;
    machine.exports = true;
    CHECK(register_piece(v) == NULL && register_piece(v) == NULL);
    CHECK(machine.exported == 0 && machine.by_address == 1); /* staged is chosen once, too */
    says(v, "device memory staged by the host (no dmabuf: libibverbs has no ibv_reg_dmabuf_mr: it is older than 34; "
            "peer: ibv_reg_mr: Bad address)");
}

/* A later piece that cannot be registered is staged alone, and changes nothing for the others. */
static void test_piece_that_fails(void)
{
    struct verbs *v = opened("");
    machine.exports = machine.takes_dmabuf = machine.takes_address = true;
    CHECK(register_piece(v) == &machine.mr);
    machine.takes_dmabuf = false;
    CHECK(register_piece(v) == NULL);
    CHECK_EQ(machine.by_address, 0);
    machine.takes_dmabuf = true;
    CHECK(register_piece(v) == &machine.mr);
    says(v, "device memory by dma-buf");
}

static void test_wishes(void)
{
    struct verbs *v = opened("peer");
    machine.exports = machine.takes_dmabuf = machine.takes_address = true;
    CHECK(register_piece(v) == &machine.mr);
    CHECK(machine.exported == 0 && machine.by_address == 1);
    says(v, "device memory by peer memory (SHMEM_DEVICE_RDMA)");

    v = opened("staged");
    machine.exports = machine.takes_dmabuf = machine.takes_address = true;
    CHECK(register_piece(v) == NULL);
    CHECK(machine.exported == 0 && machine.by_address == 0);
    says(v, "device memory staged by the host (SHMEM_DEVICE_RDMA)");

    v = opened("dmabuf");
    says(v, "device memory not in use (SHMEM_DEVICE_RDMA)");

    v = opened("");
    ISO->env->device_rdma = "Staged";
    CHECK_EQ(iso_verbs_reach_start(v), -EINVAL);
    free(v);
}

int main(void)
{
    test_choice();
    test_piece_that_fails();
    test_wishes();
    return check_self.failures == 0 ? CHECK_PASSED : CHECK_FAILED;
}

#endif
