#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds the fuzzers of this folder as OSS-Fuzz asks for it: by $CC and $CXX with $CFLAGS and $CXXFLAGS, linked with
# $LIB_FUZZING_ENGINE, into $OUT, with their seeds. Without these variables: by clang, into ./build/fuzzers, to run here:
#   tests/unit/oss_fuzz.sh && SHMEM_DATA_SEGMENT=0 build/fuzzers/fuzz_env -max_total_time=600
# The sources that fuzzers reach are instrumented (bootstrap/ and the allocator); the rest comes from a plain library.
cd "$(dirname "$0")/../.."
: "${CC:=clang}" "${CXX:=clang++}" "${CFLAGS:=-O1 -g1 -fsanitize=address,undefined,fuzzer-no-link}"
: "${OUT:=$PWD/build/fuzzers}" "${CXXFLAGS:=$CFLAGS}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}" "${WORK:=$OUT/work}"
mkdir -p "$OUT" "$WORK/objects"
[ -f "$WORK/build/lib/libisomer.a" ] || {
    cmake -S . -B "$WORK/build" -G Ninja -DGPU=cpu -DISO_TESTS=OFF -DISO_BITCODE=OFF -DCMAKE_C_COMPILER="$CC"
    ninja -C "$WORK/build" isomer_static
}
version=$(sed -n 's/^#define ISOMER_VERSION_STRING \(.*\)$/\1/p' include/shmem.h)
compile() { # SOURCE OBJECT
    # shellcheck disable=SC2046,SC2086
    "$CC" $CFLAGS -std=gnu11 -D_GNU_SOURCE -DISO_CHECKS=1 -DISO_GPU='"cpu"' -DISO_VERSION="$version" \
        -DISO_PMIX_FOLDER='"/nowhere"' -Iinclude $(pkg-config --cflags pmix) -c "$1" -o "$2"
}
alloc=$(find shmem -name alloc.c)
for source in $(find bootstrap -name '*.c' ! -path '*/tools/*') $alloc; do
    compile "$source" "$WORK/objects/$(basename "$source" .c).o"
done
rm -f "$WORK/libfuzzed.a"
ar rcs "$WORK/libfuzzed.a" "$WORK"/objects/*.o
for source in tests/unit/fuzz_*.c; do
    name=$(basename "$source" .c)
    compile "$source" "$WORK/$name.o"
    # shellcheck disable=SC2086
    "$CXX" $CXXFLAGS "$WORK/$name.o" "$WORK/libfuzzed.a" "$WORK/build/lib/libisomer.a" $LIB_FUZZING_ENGINE -lpthread -ldl -lm \
        -o "$OUT/$name"
    if [ -d "tests/unit/seeds/$name" ] && command -v zip >/dev/null; then
        zip -qj "$OUT/${name}_seed_corpus.zip" tests/unit/seeds/"$name"/*
    fi
done
