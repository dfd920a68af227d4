#!/bin/bash
# SPDX-License-Identifier: MIT
# The sources as a folder of another project, and where something that they need is missing. Only configured: the library
# compiles there as it does here.
. "$(dirname "$0")/cluster.sh"
for tool in cmake ninja; do
    command -v $tool >/dev/null || skip "$tool is not installed"
done
sources=$(cd "$here/../.." && pwd)
unset CC CXX CFLAGS CXXFLAGS LDFLAGS CMAKE_GENERATOR
project=$work/project
mkdir "$project"
cat >"$project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(user C)
enable_testing()
option(BUILD_TESTING "of the user's own tests" ON)
add_subdirectory($sources isomer)
add_executable(shared_user $here/launched.c)
target_link_libraries(shared_user isomer::isomer)
add_executable(static_user $here/launched.c)
target_link_libraries(static_user isomer::static)
isomer_kernel_objects(kernels $here/installed_kernels.c)
add_executable(kernel_user $here/installed_main.c \${kernels})
target_link_libraries(kernel_user isomer::isomer)
file(WRITE \${CMAKE_BINARY_DIR}/told "\${ISOMER_GPU} \${ISOMER_OSHRUN} \${CMAKE_BUILD_TYPE}.")
CMAKE

job 60 cmake -S "$project" -B "$work/below" -G Ninja -DGPU=cpu
expect_status 0 "add_subdirectory"
[ "$(cat "$work/below/told")" = "cpu $work/below/isomer/bin/oshrun ." ] ||
    fail "add_subdirectory: the project is told $(cat "$work/below/told")"
job 60 ninja -C "$work/below" -t targets all
expect_lines 0 '_test:|check_main|08_ring_allreduce:' "add_subdirectory: tests and examples"
job 60 ninja -C "$work/below" CMakeFiles/shared_user.dir"$here"/launched.c.o CMakeFiles/kernel_user.dir"$here"/installed_kernels.c.o
expect_status 0 "add_subdirectory: a user's objects"
for name in shared_user:isomer/lib/libisomer.so static_user:isomer/lib/libisomer.a kernel_user:isomer/lib/libisomer.so; do
    job 60 ninja -C "$work/below" -t commands "${name%:*}"
    expect_lines 1 "-o ${name%:*} .*${name#*:}" "add_subdirectory: $name"
done
job 60 ctest --test-dir "$work/below" -N
expect_lines 1 '^Total Tests: 0$' "add_subdirectory: tests"

# By itself the project has tests, unless BUILD_TESTING says no.
job 60 cmake -S "$sources" -B "$work/without" -G Ninja -DGPU=cpu -DBUILD_TESTING=OFF
expect_status 0 "BUILD_TESTING=OFF"
grep -qx 'ISO_TESTS:BOOL=OFF' "$work/without/CMakeCache.txt" || fail "BUILD_TESTING=OFF: tests are built"
grep -qx 'ISO_TESTS:BOOL=ON' "$build/CMakeCache.txt" || fail "the build of these tests has no tests"

# What is missing is named with its package.
PKG_CONFIG_LIBDIR=$work/nothing PKG_CONFIG_PATH='' job 60 cmake -S "$sources" -B "$work/no_pmix" -G Ninja -DGPU=cpu
expect_error_status "no PMIx"
expect_message 'PMIx .*\(Debian: libpmix-dev\)' "no PMIx"
job 60 cmake -S "$sources" -B "$work/no_pkg_config" -G Ninja -DGPU=cpu -DPKG_CONFIG_EXECUTABLE="$work/nothing"
expect_error_status "no pkg-config"
expect_message 'needs pkg-config \(Debian: pkg-config\)' "no pkg-config"
finish
