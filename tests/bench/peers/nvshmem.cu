// SPDX-License-Identifier: MIT
// NVSHMEM baseline on the GPUs of one host: device primitives and on-stream collectives.
// usage: nvshmem NPES [device | most bytes] ; prints "nvshmem,METRIC,dtype,bytes,value,unit"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
#include <sys/wait.h>
#include <sys/mman.h>
#include <vector>
#include <algorithm>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <nvshmem.h>
#include <nvshmemx.h>
#define CK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); _exit(1);} } while (0)

__global__ void pingpong_signal(uint64_t *sig, char *buf, size_t n, int iters, int me) {
    int peer = 1 - me;
    for (int i = 1; i <= iters; i++) {
        if (me == 0) {
            nvshmemx_putmem_signal_block(buf, buf, n, sig, i, NVSHMEM_SIGNAL_SET, peer);
            if (threadIdx.x == 0) nvshmem_signal_wait_until(sig, NVSHMEM_CMP_GE, i);
            __syncthreads();
        } else {
            if (threadIdx.x == 0) nvshmem_signal_wait_until(sig, NVSHMEM_CMP_GE, i);
            __syncthreads();
            nvshmemx_putmem_signal_block(buf, buf, n, sig, i, NVSHMEM_SIGNAL_SET, peer);
        }
    }
}
__global__ void pingpong_p(uint64_t *flag, int iters, int me) {
    int peer = 1 - me;
    for (int i = 1; i <= iters; i++) {
        if (me == 0) { nvshmem_uint64_p(flag, i, peer); nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, i); }
        else { nvshmem_uint64_wait_until(flag, NVSHMEM_CMP_GE, i); nvshmem_uint64_p(flag, i, peer); }
    }
}
__global__ void fetch_add(uint64_t *v, int iters, int peer) { for (int i = 0; i < iters; i++) nvshmem_uint64_atomic_fetch_add(v, 1, peer); }
__global__ void put_bw(char *dst, const char *src, size_t n, int peer, int reps) {
    size_t per = n / gridDim.x;
    for (int r = 0; r < reps; r++) nvshmemx_putmem_nbi_block(dst + per * blockIdx.x, src + per * blockIdx.x, per, peer);
    nvshmem_quiet();
}
__global__ void get_bw(char *dst, const char *src, size_t n, int peer, int reps) {
    size_t per = n / gridDim.x;
    for (int r = 0; r < reps; r++) nvshmemx_getmem_nbi_block(dst + per * blockIdx.x, src + per * blockIdx.x, per, peer);
    nvshmem_quiet();
}
__global__ void barrier_loop(int iters) { for (int i = 0; i < iters; i++) nvshmemx_barrier_all_block(); }
__global__ void sync_loop(int iters) { for (int i = 0; i < iters; i++) nvshmemx_sync_all_block(); }

static cudaStream_t st;
template <class F> static double us_of(F f, int iters) {   // whole-launch time / iters
    cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
    std::vector<double> t;
    for (int r = 0; r < 8; r++) {
        nvshmem_barrier_all(); CK(cudaDeviceSynchronize());
        CK(cudaEventRecord(a, st)); f(); CK(cudaEventRecord(b, st)); CK(cudaStreamSynchronize(st));
        float ms; CK(cudaEventElapsedTime(&ms, a, b)); if (r) t.push_back(ms * 1e3 / iters);
    }
    std::sort(t.begin(), t.end()); return t[t.size() / 2];
}
template <class F> static double us_graph(F f, int iters) {   // captured once, replayed: what a serving engine does
    cudaGraph_t g; cudaGraphExec_t e; cudaEvent_t a, b; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&b));
    nvshmem_barrier_all();
    for (int i = 0; i < 3; i++) f();
    CK(cudaStreamSynchronize(st)); nvshmem_barrier_all();
    CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < iters; i++) f();
    CK(cudaStreamEndCapture(st, &g)); CK(cudaGraphInstantiate(&e, g, 0));
    std::vector<double> t;
    for (int r = 0; r < 12; r++) {
        nvshmem_barrier_all(); CK(cudaDeviceSynchronize());
        CK(cudaEventRecord(a, st)); CK(cudaGraphLaunch(e, st)); CK(cudaEventRecord(b, st)); CK(cudaStreamSynchronize(st));
        float ms; CK(cudaEventElapsedTime(&ms, a, b)); if (r) t.push_back(ms * 1e3 / iters);
    }
    CK(cudaGraphExecDestroy(e)); CK(cudaGraphDestroy(g));
    std::sort(t.begin(), t.end()); return t[t.size() / 2];
}
static int run(int me, int n, volatile char *shared, bool device_only, size_t most) {
    CK(cudaSetDevice(me));
    setenv("NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME", "lo", 0);
    setenv("NVSHMEM_SYMMETRIC_SIZE", "2G", 0);
    nvshmemx_init_attr_t attr = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    if (me == 0) { nvshmemx_get_uniqueid(&id); memcpy((void *)(shared + 64), &id, sizeof id); __sync_synchronize(); shared[0] = 1; }
    else { while (!shared[0]) usleep(100); memcpy(&id, (void *)(shared + 64), sizeof id); }
    nvshmemx_set_attr_uniqueid_args(me, n, &id, &attr);
    if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attr)) { fprintf(stderr, "init failed\n"); return 1; }
    CK(cudaStreamCreate(&st));
    size_t big = 256u << 20;
    char *src = (char *)nvshmem_malloc(big), *dst = (char *)nvshmem_malloc(big);
    uint64_t *sig = (uint64_t *)nvshmem_calloc(8, 8);
    auto out = [&](const char *m, const char *ty, size_t b, double v, const char *u) { if (me == 0) { printf("nvshmem,%s,%s,%zu,%.3f,%s\n", m, ty, b, v, u); fflush(stdout); } };
    const int it = 1000;
    size_t pn[] = {8, 1024, 65536};
    for (size_t b : pn) {
        double v = us_of([&] { if (me < 2) { CK(cudaMemsetAsync(sig, 0, 64, st)); } }, 1); (void)v;
        nvshmem_barrier_all(); CK(cudaMemset(sig, 0, 64)); nvshmem_barrier_all();
        // one shot, no repetition (flags are monotonic)
        cudaEvent_t a, c; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&c)); float ms = 0;
        if (me < 2) { pingpong_signal<<<1, 256, 0, st>>>(sig, dst, b, it, me); CK(cudaStreamSynchronize(st)); }
        nvshmem_barrier_all(); CK(cudaMemset(sig, 0, 64)); nvshmem_barrier_all();
        if (me < 2) { CK(cudaEventRecord(a, st)); pingpong_signal<<<1, 256, 0, st>>>(sig, dst, b, it, me); CK(cudaEventRecord(c, st)); CK(cudaStreamSynchronize(st)); CK(cudaEventElapsedTime(&ms, a, c)); }
        out("device_put_signal_block_half_rtt", "u8", b, ms * 1e3 / it / 2, "us"); nvshmem_barrier_all();
    }
    for (int rep = 0; rep < 2; rep++) {
        CK(cudaMemset(sig, 0, 64)); nvshmem_barrier_all(); cudaEvent_t a, c; CK(cudaEventCreate(&a)); CK(cudaEventCreate(&c)); float ms = 0;
        if (me < 2) { CK(cudaEventRecord(a, st)); pingpong_p<<<1, 1, 0, st>>>(sig, it, me); CK(cudaEventRecord(c, st)); CK(cudaStreamSynchronize(st)); CK(cudaEventElapsedTime(&ms, a, c)); }
        if (rep) out("device_p_half_rtt", "u64", 8, ms * 1e3 / it / 2, "us"); nvshmem_barrier_all();
    }
    { double v = us_of([&] { if (me == 0) fetch_add<<<1, 1, 0, st>>>(sig + 4, it, 1); }, it); out("device_fetch_add", "u64", 8, v, "us"); }
    for (size_t b = 4096; b <= big; b *= 4) {
        int reps = b < (16u << 20) ? 20 : 4, grid = b >= (1u << 20) ? 64 : (b >= 65536 ? 16 : 1);
        double v = us_of([&] { if (me == 0) put_bw<<<grid, 1024, 0, st>>>(dst, src, b, 1, reps); }, reps); out("device_put_block_bw", "u8", b, b / v / 1e3, "GB/s");
        v = us_of([&] { if (me == 0) get_bw<<<grid, 1024, 0, st>>>(dst, src, b, 1, reps); }, reps); out("device_get_block_bw", "u8", b, b / v / 1e3, "GB/s");
    }
    out("device_barrier_all_block", "", 0, us_of([&] { barrier_loop<<<1, 128, 0, st>>>(it); }, it), "us");
    out("device_sync_all_block", "", 0, us_of([&] { sync_loop<<<1, 128, 0, st>>>(it); }, it), "us");
    { auto f = [&] { nvshmemx_barrier_all_on_stream(st); }; out("stream_barrier_all", "", 0, us_of([&] { for (int i = 0; i < 50; i++) f(); }, 50), "us"); if (getenv("PEERS_GRAPHS")) out("graph_stream_barrier_all", "", 0, us_graph(f, 50), "us"); }
    bool graphs = getenv("PEERS_GRAPHS") != nullptr;
    if (device_only) { nvshmem_finalize(); return 0; }
    size_t sz[] = {1024, 8192, 65536, 262144, 524288, 1u << 20, 2u << 20, 4u << 20, 16u << 20, 32u << 20, 64u << 20, 256u << 20};
    for (size_t b : sz) {
        if (b > most) break;
        int k = b <= (4u << 20) ? 50 : 8;
        { auto f = [&] { nvshmemx_bfloat16_sum_reduce_on_stream(NVSHMEM_TEAM_WORLD, (__nv_bfloat16 *)dst, (__nv_bfloat16 *)src, b / 2, st); }; out("stream_allreduce", "bf16", b, us_of([&] { for (int i = 0; i < k; i++) f(); }, k), "us"); if (graphs) out("graph_stream_allreduce", "bf16", b, us_graph(f, k), "us"); }
        { auto f = [&] { nvshmemx_bfloat16_fcollect_on_stream(NVSHMEM_TEAM_WORLD, (__nv_bfloat16 *)dst, (__nv_bfloat16 *)src, b / 2 / n, st); }; out("stream_allgather", "bf16", b, us_of([&] { for (int i = 0; i < k; i++) f(); }, k), "us"); if (graphs) out("graph_stream_allgather", "bf16", b, us_graph(f, k), "us"); }
        { auto f = [&] { nvshmemx_bfloat16_sum_reducescatter_on_stream(NVSHMEM_TEAM_WORLD, (__nv_bfloat16 *)dst, (__nv_bfloat16 *)src, b / 2 / n, st); }; out("stream_reducescatter", "bf16", b, us_of([&] { for (int i = 0; i < k; i++) f(); }, k), "us"); if (graphs) out("graph_stream_reducescatter", "bf16", b, us_graph(f, k), "us"); }
        { auto f = [&] { nvshmemx_bfloat16_alltoall_on_stream(NVSHMEM_TEAM_WORLD, (__nv_bfloat16 *)dst, (__nv_bfloat16 *)src, b / 2 / n, st); }; out("stream_alltoall", "bf16", b, us_of([&] { for (int i = 0; i < k; i++) f(); }, k), "us"); if (graphs) out("graph_stream_alltoall", "bf16", b, us_graph(f, k), "us"); }
        { auto f = [&] { nvshmemx_bfloat16_broadcast_on_stream(NVSHMEM_TEAM_WORLD, (__nv_bfloat16 *)dst, (__nv_bfloat16 *)src, b / 2, 0, st); }; out("stream_broadcast", "bf16", b, us_of([&] { for (int i = 0; i < k; i++) f(); }, k), "us"); if (graphs) out("graph_stream_broadcast", "bf16", b, us_graph(f, k), "us"); }
    }
    nvshmem_free(src); nvshmem_free(dst); nvshmem_free(sig);
    nvshmem_finalize();
    return 0;
}
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 2;
    bool device_only = argc > 2 && strcmp(argv[2], "device") == 0;
    size_t most = argc > 2 && !device_only ? strtoull(argv[2], NULL, 10) : 256u << 20;
    volatile char *shared = (volatile char *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    std::vector<pid_t> kids;
    for (int i = 0; i < n; i++) { pid_t p = fork(); if (!p) _exit(run(i, n, shared, device_only, most)); kids.push_back(p); }
    int bad = 0; for (pid_t p : kids) { int s; waitpid(p, &s, 0); bad |= s; }
    return bad != 0;
}
