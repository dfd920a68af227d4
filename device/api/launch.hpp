// SPDX-License-Identifier: MIT
// Launches of kernels with arguments of their own. Included by shmem_device.hpp, in host code. Where a kernel is a
// plain function (PRIM_CALLS_GLOBAL) what is launched is entry, whose one struct has the function and its arguments.
#ifndef ISO_LAUNCH_HPP
#define ISO_LAUNCH_HPP

#include "../../include/shmemx_launch.h"

#include <stdint.h>

namespace shmemd
{

// A grid or a block: of numbers, or of a dim3 of the vendor.
struct dim {
    unsigned x, y, z;
    dim(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
    template <class D> dim(const D &d, decltype(&D::x) = nullptr) : x(d.x), y(d.y), z(d.z) {}
};

namespace launching
{
inline shmemx_launch_attr_t attr_of(dim grid, dim block, size_t shared_bytes, bool cooperative)
{
    shmemx_launch_attr_t attr = SHMEMX_LAUNCH_ATTR;
    attr.grid.x = grid.x, attr.grid.y = grid.y, attr.grid.z = grid.z;
    attr.block.x = block.x, attr.block.y = block.y, attr.block.z = block.z;
    attr.shared_bytes = shared_bytes;
    attr.cooperative = cooperative;
    return attr;
}

#ifdef PRIM_CALLS_GLOBAL
template <class... P> struct values {
};
template <class F, class... R> struct values<F, R...> {
    F first;
    values<R...> rest;
};
template <class... P> struct bundle {
    void (*kernel)(P...);
    values<P...> arguments;
};
inline void fill(values<> *) {}
template <class F, class... R> void fill(values<F, R...> *v, F first, R... rest)
{
    v->first = first;
    fill(&v->rest, rest...);
}
template <class K, class... D> void call(K kernel, const values<> &, const D &...done) { kernel(done...); }
template <class K, class F, class... R, class... D> void call(K kernel, const values<F, R...> &v, const D &...done)
{
    call(kernel, v.rest, done..., v.first);
}
template <class... P> size_t entry(const void *args)
{
    const bundle<P...> *b = static_cast<const bundle<P...> *>(args);
    if (b != nullptr)
        call(b->kernel, b->arguments);
    return sizeof(bundle<P...>);
}
template <class... P> shmemx_kernel_t kernel_of(void (*)(P...))
{
    return reinterpret_cast<shmemx_kernel_t>(&entry<P...>);
}
template <class... P> int start(void (*kernel)(P...), shmemx_launch_attr_t attr, shmemx_stream_t stream, P... arguments)
{
    bundle<P...> b = bundle<P...>();
    b.kernel = kernel;
    fill(&b.arguments, arguments...);
    attr.args = &b;
    attr.args_bytes = sizeof b;
    return shmemx_launch_attr(kernel_of(kernel), &attr, stream);
}
#else
template <class... P> shmemx_kernel_t kernel_of(void (*kernel)(P...))
{
    return reinterpret_cast<shmemx_kernel_t>(kernel);
}
template <class... P> int start(void (*kernel)(P...), shmemx_launch_attr_t attr, shmemx_stream_t stream, P... arguments)
{
    void *const list[] = {const_cast<void *>(static_cast<const volatile void *>(&arguments))..., nullptr};
    attr.arguments = list;
    return shmemx_launch_attr(kernel_of(kernel), &attr, stream);
}
#endif
} // namespace launching

// Launches kernel(arguments...), which are converted to its parameters and copied. Returns as shmemx_launch_attr.
template <class... P, class... A>
int launch(void (*kernel)(P...), dim grid, dim block, size_t shared_bytes, shmemx_stream_t stream, A... arguments)
{
    static_assert(sizeof...(P) == sizeof...(A), "shmemd::launch: the kernel takes another number of arguments");
    return launching::start<P...>(kernel, launching::attr_of(grid, block, shared_bytes, false), stream, arguments...);
}
// The same for blocks that wait for one another: see shmemx_launch_cooperative.
template <class... P, class... A>
int launch_cooperative(void (*kernel)(P...), dim grid, dim block, size_t shared_bytes, shmemx_stream_t stream,
                       A... arguments)
{
    static_assert(sizeof...(P) == sizeof...(A),
                  "shmemd::launch_cooperative: the kernel takes another number of arguments");
    return launching::start<P...>(kernel, launching::attr_of(grid, block, shared_bytes, true), stream, arguments...);
}
// shmemx_max_blocks and shmemx_max_grid of such a kernel.
template <class... P> int max_blocks(void (*kernel)(P...), int block_threads, size_t shared_bytes)
{
    return shmemx_max_blocks(launching::kernel_of(kernel), block_threads, shared_bytes);
}
template <class... P> int max_grid(void (*kernel)(P...), int block_threads, size_t shared_bytes)
{
    return shmemx_max_grid(launching::kernel_of(kernel), block_threads, shared_bytes);
}

} // namespace shmemd

#endif
