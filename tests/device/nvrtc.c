/* SPDX-License-Identifier: MIT */
/* A kernel that is compiled while the program runs, by NVRTC from a string that includes shmem_device.h, loaded as a
 * module and given a handle: each PE puts a block of numbers to the next one, behind a signal, and all run a reduction.
 * NVRTC and the driver are looked up at run time and declared here: the program builds for every device. It is skipped
 * where there is no NVRTC; where there is no device, the source is compiled all the same. */
#include "device_test.h"

#include <dlfcn.h>

enum { COUNT = 1000, THREADS = 128 };

/* nvrtc.h and cuda.h, what we need of them */
struct nvrtc {
    void *library;
    int (*create)(void **program, const char *source, const char *name, int headers, const char *const *texts,
                  const char *const *names);
    int (*compile)(void *program, int options, const char *const *option);
    int (*log_bytes)(void *program, size_t *bytes);
    int (*log)(void *program, char *text);
    int (*image_bytes)(void *program, size_t *bytes);
    int (*image)(void *program, char *image);
};
struct driver {
    int (*get_device)(int *device);
    int (*attribute)(int *value, int name, int device);
    int (*load)(void **module, const void *image);
    int (*function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                  unsigned shared_bytes, void *stream, void **args, void **extra);
};

static const char kernel_source[] =
    "#include <shmem_device.h>\n"
    "struct args { shmemd_t h; int *source, *dest, *sum; uint64_t *signal; int count; };\n"
    "SHMEMD_KERNEL(from_a_string, struct args, a)\n"
    "{\n"
    "    int me = shmemd_my_pe(a.h), n = shmemd_n_pes(a.h);\n"
    "    for (int i = (int)shmemd_thread_index(); i < a.count; i += (int)shmemd_block_size())\n"
    "        a.source[i] = 1000 * me + i;\n"
    "    shmemd_group_sync(shmemd_block());\n"
    "    shmemd_int_put_signal_block(a.h, a.dest, a.source, a.count, a.signal, 1, SHMEM_SIGNAL_ADD, (me + 1) % n);\n"
    "    shmemd_signal_wait_until_block(a.h, a.signal, SHMEM_CMP_GE, 1);\n"
    "    shmemd_int_sum_reduce_block(a.h, a.sum, a.source, a.count);\n"
    "}\n";
struct args {
    shmemd_t h;
    int *source, *dest, *sum;
    uint64_t *signal;
    int count;
};

/* ---- run-time libraries ---- */

/* A function by name into a pointer to function. */
static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool open_nvrtc(struct nvrtc *n)
{
    const char *names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"};
    n->library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && n->library == NULL; i++)
        n->library = dlopen(names[i], RTLD_NOW);
    return n->library != NULL && find(n->library, "nvrtcCreateProgram", &n->create) &&
           find(n->library, "nvrtcCompileProgram", &n->compile) &&
           find(n->library, "nvrtcGetProgramLogSize", &n->log_bytes) &&
           find(n->library, "nvrtcGetProgramLog", &n->log) && find(n->library, "nvrtcGetPTXSize", &n->image_bytes) &&
           find(n->library, "nvrtcGetPTX", &n->image);
}

static bool open_driver(struct driver *d)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    return library != NULL && find(library, "cuCtxGetDevice", &d->get_device) &&
           find(library, "cuDeviceGetAttribute", &d->attribute) && find(library, "cuModuleLoadData", &d->load) &&
           find(library, "cuModuleGetFunction", &d->function) && find(library, "cuLaunchKernel", &d->launch);
}

/* ---- compile ---- */

/* PTX of the kernel for this capability (90), malloc'ed; NULL with the compiler's words on stderr. */
static char *compile(const struct nvrtc *n, int capability)
{
    char include[1024], arch[64];
    const char *here = __FILE__, *folder = strstr(here, "tests/device/nvrtc.c");
    const char *options[] = {include, arch, "--std=c++17"};
    void *program = NULL;
    size_t bytes = 0;
    snprintf(include, sizeof include, "-I%.*sinclude", folder != NULL ? (int)(folder - here) : 0, here);
    snprintf(arch, sizeof arch, "--gpu-architecture=compute_%d", capability);
    if (n->create(&program, kernel_source, "from_a_string.cu", 0, NULL, NULL) != 0)
        return NULL;
    int rc = n->compile(program, 3, options);
    if (rc != 0 && n->log_bytes(program, &bytes) == 0) {
        char *text = (char *)calloc(bytes + 1, 1);
        n->log(program, text);
        fprintf(stderr, "NVRTC (%d):\n%s\n", rc, text);
        free(text);
    }
    if (rc != 0 || n->image_bytes(program, &bytes) != 0)
        return NULL;
    char *image = (char *)calloc(bytes + 1, 1);
    if (n->image(program, image) != 0) {
        free(image);
        return NULL;
    }
    return image;
}

/* ---- run ---- */

static void check_results(const struct args *a)
{
    int me = shmem_my_pe(), n = shmem_n_pes(), from = (me + n - 1) % n;
    int dest[COUNT], sum[COUNT];
    device_read(dest, a->dest, sizeof dest);
    device_read(sum, a->sum, sizeof sum);
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(dest[i], 1000 * from + i);
        CHECK_EQ(sum[i], 1000 * (n * (n - 1) / 2) + n * i);
    }
}

static int run(const struct nvrtc *n, const struct driver *d)
{
    int device = 0, major = 0, minor = 0;
    void *module = NULL, *function = NULL;
    struct args a;
    d->get_device(&device);
    d->attribute(&major, 75, device); /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR */
    d->attribute(&minor, 76, device);
    char *image = compile(n, 10 * major + minor);
    if (!CHECK(image != NULL) || !CHECK_EQ(d->load(&module, image), 0) ||
        !CHECK_EQ(d->function(&function, module, "from_a_string"), 0))
        return CHECK_DONE();
    free(image);
    CHECK_EQ(shmemx_device_handle(SHMEM_TEAM_WORLD, 0, &a.h), 0);
    a.source = (int *)shmemx_malloc(COUNT * sizeof(int), SHMEMX_DEVICE);
    a.dest = (int *)shmemx_malloc(COUNT * sizeof(int), SHMEMX_DEVICE);
    a.sum = (int *)shmemx_malloc(COUNT * sizeof(int), SHMEMX_DEVICE);
    a.signal = (uint64_t *)shmemx_calloc(1, sizeof(uint64_t), SHMEMX_DEVICE);
    a.count = COUNT;
    shmemx_stream_t stream;
    void *args[] = {&a};
    CHECK_EQ(shmemx_stream_create(&stream), 0);
    CHECK_EQ(d->launch(function, 1, 1, 1, THREADS, 1, 1, 0, stream, args, NULL), 0);
    CHECK_EQ(shmemx_stream_synchronize(stream), 0);
    check_results(&a);
    shmem_barrier_all();
    CHECK_EQ(shmemx_stream_destroy(stream), 0);
    shmemx_free(a.signal);
    shmemx_free(a.sum);
    shmemx_free(a.dest);
    shmemx_free(a.source);
    return CHECK_DONE();
}

static int test_main(void)
{
    struct nvrtc nvrtc;
    struct driver driver;
    if (!open_nvrtc(&nvrtc))
        return CHECK_SKIP("there is no NVRTC here");
    if (!open_driver(&driver)) {
        char *image = compile(&nvrtc, 90);
        bool compiled = image != NULL;
        free(image);
        return compiled ? CHECK_SKIP("there is no NVIDIA driver; the kernel was compiled") : CHECK_FAILED;
    }
    DEVICE_INIT();
    return run(&nvrtc, &driver);
}
CHECK_MAIN(test_main)
