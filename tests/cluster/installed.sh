#!/bin/bash
# SPDX-License-Identifier: MIT
# The installed library as its users find it: oshcc, oshc++, pkg-config, a CMake package; programs without
# and with kernels; also after the folder moved.
. "$(dirname "$0")/cluster.sh"
command -v cmake >/dev/null || skip "cmake is not installed"
source=$here/launched.c
root=$work/prefix
unset CC CXX CFLAGS CXXFLAGS LDFLAGS

job 60 cmake --install "$build" --prefix "$root"
expect_status 0 "cmake --install"
[ "$status" -eq 0 ] || finish

# The prefix given here is not the configured one, so this folder has moved already; it moves once more, and what takes
# long to compile is looked at there alone.
check_wrappers() {
    job 60 "$root/bin/oshcc" -O1 "$source" -o "$work/by_oshcc"
    expect_status 0 "oshcc, $1"
    job 20 "$root/bin/oshrun" -n 2 "$work/by_oshcc" ranks 2
    expect_ranks 2 "program of oshcc, $1"
    job 60 "$root/bin/oshcc" -c "$source" -o "$work/by_oshcc.o"
    expect_status 0 "oshcc -c, $1"
    job 60 "$root/bin/oshcc" "$work/by_oshcc.o" -o "$work/from_object"
    expect_status 0 "oshcc with an object, $1"
    job 20 "$work/from_object" ranks 1
    expect_ranks 1 "program of an object, $1"
    printf '%s\n' '#include <shmem.h>' '#include <cstdio>' \
        'int main() { shmem_init(); std::printf("pe %d of %d ok\n", shmem_my_pe(), shmem_n_pes()); shmem_finalize(); }' \
        >"$work/plus.cc"
    job 60 "$root/bin/oshc++" "$work/plus.cc" -o "$work/by_oshcxx"
    expect_status 0 "oshc++, $1"
    job 20 "$root/bin/oshrun" -n 2 "$work/by_oshcxx"
    expect_ranks 2 "program of oshc++, $1"
    job 10 "$root/bin/oshcc" --showme "$source"
    expect_lines 1 "^cc .*-I$root/include .*-lisomer" "oshcc --showme, $1"
    CC=oshcc job 10 "$root/bin/oshcc" --showme -c "$source"
    expect_lines 1 "^cc .*-c $source\$" "oshcc as CC, $1"
    job 10 "$root/bin/isomer-info" --version
    expect_status 0 "isomer-info, $1"
}

# The version of the headers is that of the library, the tools, pkg-config and CMake.
check_version() {
    local version
    version=$(echo ISOMER_VERSION_STRING | cat "$root/include/shmem.h" - | cc -I"$root/include" -E -x c - | tail -n 1 | tr -d '"')
    job 10 "$root/bin/isomer-info" --version
    expect_lines 1 "^Isomer $version, OpenSHMEM 1\.6\$" "isomer-info --version"
    job 10 "$root/bin/oshrun" --version
    expect_lines 1 "^oshrun $version\$" "oshrun --version"
    [ -e "$root/$libdir/libisomer.so.$version" ] || fail "the library is not called libisomer.so.$version"
    grep -qx "Version: $version" "$root/$libdir/pkgconfig/isomer.pc" || fail "pkg-config has not version $version"
    grep -q "set(PACKAGE_VERSION \"$version\")" "$root/$libdir/cmake/isomer/isomer-config-version.cmake" ||
        fail "CMake has not version $version"
}

# Where the tree has a manual (python3): man pages, the HTML reference, completion.
check_manual() {
    [ -d "$build/manual" ] || return
    for file in man/man3/shmem_float_put.3 man/man7/isomer.7 man/man1/oshrun.1 doc/isomer/html/index.html \
        bash-completion/completions/oshrun zsh/site-functions/_isomer-info; do
        [ -s "$root/share/$file" ] || fail "share/$file was not installed"
    done
    command -v man >/dev/null || return
    MANPATH=$root/share/man MANWIDTH=200 job 20 man shmem_float_put
    expect_lines 1 "shmem_ctx_TYPENAME_put\\(" "man shmem_float_put"
}

# One sentence instead of a program that crashes when it loads libpmix.
check_static() {
    job 60 "$root/bin/oshcc" -static "$source" -o "$work/by_static"
    expect_error_status "oshcc -static"
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail "oshcc -static: more than one line"
    expect_message "^oshcc: -static is not possible.* isomer::static" "oshcc -static"
}

# What a program of any framework gets with the library: nothing but libc and the vendor's runtime.
check_needed() {
    local needed
    needed=$(readelf -d "$root/$libdir/libisomer.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vE '^(libc|libm|libdl|libpthread|librt|ld-linux[-a-z0-9_]*)\.so|^lib(cudart|cuda|amdhip64|hsa-runtime64)\.so')
    [ -z "$needed" ] || fail "libisomer.so is linked with $needed"
}

# A program under AddressSanitizer: libpmix's leaks are left out, and its own are not.
check_leaks() {
    printf '%s\n' '#include <shmem.h>' '#include <stdlib.h>' 'void *volatile lost;' \
        'int main(int argc, char **argv)' '{' '    (void)argv;' '    shmem_init();' \
        '    lost = argc > 1 ? malloc(777) : NULL;' '    lost = shmem_malloc(100);' '    shmem_barrier_all();' \
        '    shmem_free(lost);' '    lost = NULL;' '    shmem_finalize();' '    return 0;' '}' >"$work/leaks.c"
    if ! CC=gcc "$root/bin/oshcc" -fsanitize=address "$work/leaks.c" -o "$work/leaks" 2>/dev/null; then
        echo "installed: no AddressSanitizer here, leaks are not looked at" >&2
        return
    fi
    ASAN_OPTIONS=detect_leaks=1 job 40 "$root/bin/oshrun" -n 2 "$work/leaks"
    expect_status 0 "a program under LeakSanitizer"
    grep -q "leak of" "$work/err" && fail "LeakSanitizer: $(grep -m 1 -A 3 "leak of" "$work/err")"
    ASAN_OPTIONS=detect_leaks=1 job 40 "$root/bin/oshrun" -n 2 "$work/leaks" leak
    [ "$status" -ne 0 ] || fail "LeakSanitizer: a program that leaks ended with 0"
    expect_message "leak of 777 byte" "a program that leaks"
}

# A program that loads the library, and lets go of it, more than once; then it ends by exit().
check_plugin() {
    printf '%s\n' '#include <dlfcn.h>' '#include <stdio.h>' 'int main(int argc, char **argv)' '{' \
        '    static const char *const calls[] = {"shmem_init", "shmem_barrier_all", "shmem_finalize"};' \
        '    for (int round = 0; round < 2 && argc > 1; round++) {' \
        '        void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);' \
        '        for (int i = 0; library && i < 3; i++)' '            ((void (*)(void))dlsym(library, calls[i]))();' \
        '        printf("round %d: %d\\n", round, library ? dlclose(library) : 1);' '    }' '    return 0;' '}' >"$work/plugin.c"
    job 60 cc "$work/plugin.c" -o "$work/plugin" -ldl
    expect_status 0 "a program that loads the library"
    job 20 "$root/bin/oshrun" -n 2 "$work/plugin" "$root/$libdir/libisomer.so"
    expect_status 0 "a program that loads the library twice"
    expect_lines 4 '^round [01]: 0$' "a program that loads the library twice"
}

# The flavour's compiler for kernels, the host's for the rest: `kernels` is the command of the first.
check_kernels() {
    job 120 $kernels -c "$here/installed_kernels.c" -o "$work/kernels.o"
    expect_status 0 "a kernel, $1"
    job 60 "$root/bin/oshcc" "$here/installed_main.c" "$work/kernels.o" -o "$work/with_kernels"
    expect_status 0 "oshcc with kernels, $1"
    job 60 "$root/bin/oshrun" -n 2 "$work/with_kernels"
    expect_ranks 2 "program with kernels, $1"
}

check_pkg_config() {
    command -v pkg-config >/dev/null || return
    local flags
    flags=$(PKG_CONFIG_PATH=$root/$libdir/pkgconfig pkg-config --cflags --libs isomer)
    ! echo "$flags" | grep -q -- -Wl || fail "pkg-config, $1: an option that nvcc does not know: $flags"
    job 60 cc "$source" -o "$work/by_pkg_config" $flags -Wl,-rpath,"$root/$libdir"
    expect_status 0 "pkg-config, $1"
    job 20 "$work/by_pkg_config" ranks 1
    expect_ranks 1 "program of pkg-config, $1"
    kernels="$(PKG_CONFIG_PATH=$root/$libdir/pkgconfig pkg-config --variable=kernels isomer) -I$root/include"
    check_kernels "pkg-config, $1"
}

# The prefix that build systems take for NVSHMEM's.
check_nvshmem_home() {
    local home=$root/$libdir/isomer/nvshmem
    command -v c++ >/dev/null || return
    printf '%s\n' '#include <nvshmem.h>' '#include <nvshmemx.h>' '#include <cstdio>' 'int main()' '{' '    nvshmem_init();' \
        '    std::printf("pe %d of %d ok\n", nvshmem_my_pe(), nvshmem_n_pes());' '    nvshmem_finalize();' '}' >"$work/ring.cc"
    for libraries in -lnvshmem "-lnvshmem_host -lnvshmem_device"; do
        job 100 c++ -std=c++17 -pthread -I"$home/include" "$work/ring.cc" -o "$work/ring" -L"$home/lib" $libraries \
            -Wl,-rpath,"$home/lib"
        expect_status 0 "NVSHMEM's prefix, $libraries, $1"
        job 20 "$root/bin/oshrun" -n 2 "$work/ring"
        expect_ranks 2 "NVSHMEM's prefix, $libraries, $1"
    done
}

check_cmake() {
    rm -rf "$work/project" && mkdir "$work/project"
    cat >"$work/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.18)
project(user C)
find_package(isomer 0.1 REQUIRED)
add_executable(shared_user $source)
target_link_libraries(shared_user isomer::isomer)
add_executable(static_user $source)
target_link_libraries(static_user isomer::static)
isomer_kernel_objects(kernels $here/installed_kernels.c)
add_executable(kernel_user $here/installed_main.c \${kernels})
target_link_libraries(kernel_user isomer::isomer)
add_executable(kernel_static_user $here/installed_main.c \${kernels})
target_link_libraries(kernel_static_user isomer::static)
CMAKE
    job 60 cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$root"
    expect_status 0 "find_package(isomer), $1"
    job 200 cmake --build "$work/project/build"
    expect_status 0 "CMake build, $1"
    for name in shared_user static_user; do
        job 20 "$root/bin/oshrun" -n 2 "$work/project/build/$name" ranks 2
        expect_ranks 2 "$name of CMake, $1"
    done
    for name in kernel_user kernel_static_user; do
        job 60 "$root/bin/oshrun" -n 2 "$work/project/build/$name"
        expect_ranks 2 "$name of CMake, $1"
    done
}

libdir=$(cd "$root" && dirname "$(find . -name 'libisomer.a' | head -1)")
libdir=${libdir#./}
check_version
check_wrappers "installed"
check_manual
check_static
check_needed
check_leaks
mv "$root" "$work/moved" && root=$work/moved
check_wrappers "moved"
kernels=$("$root/bin/oshcc" --showme:kernels)
check_kernels "moved"
check_pkg_config "moved"
check_cmake "moved"
check_nvshmem_home "moved"
finish
