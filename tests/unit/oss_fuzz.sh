#!/bin/bash -eu
# SPDX-License-Identifier: MIT
# Builds the fuzzers of this folder as OSS-Fuzz asks for it: by $CC and $CXX with $CFLAGS and $CXXFLAGS, linked with
# $LIB_FUZZING_ENGINE, into $OUT, with their seeds. Without these variables: by clang, into ./fuzzers, to run here:
#   tests/unit/oss_fuzz.sh && SHMEM_DATA_SEGMENT=0 fuzzers/fuzz_env -max_total_time=600
cd "$(dirname "$0")/../.."
: "${CC:=clang}" "${CXX:=clang++}" "${CFLAGS:=-O1 -g1 -fsanitize=address,undefined,fuzzer-no-link}" "${OUT:=$PWD/fuzzers}"
: "${CXXFLAGS:=$CFLAGS}" "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}" "${WORK:=$OUT/work}"
mkdir -p "$OUT" "$WORK"
cmake -S . -B "$WORK/build" -G Ninja -DGPU=cpu -DISO_TESTS=OFF -DISO_BITCODE=OFF -DCMAKE_BUILD_TYPE=None \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_C_FLAGS="$CFLAGS"
ninja -C "$WORK/build" isomer_static
for source in tests/unit/fuzz_*.c; do
    name=$(basename "$source" .c)
    # shellcheck disable=SC2086
    "$CC" $CFLAGS -std=gnu11 -D_GNU_SOURCE -Iinclude -c "$source" -o "$WORK/$name.o"
    # shellcheck disable=SC2086
    "$CXX" $CXXFLAGS "$WORK/$name.o" "$WORK/build/lib/libisomer.a" $LIB_FUZZING_ENGINE -lpthread -ldl -lm -o "$OUT/$name"
    if [ -d "tests/unit/seeds/$name" ] && command -v zip >/dev/null; then
        zip -qj "$OUT/${name}_seed_corpus.zip" tests/unit/seeds/"$name"/*
    fi
    # The library's constructor must leave the fuzzer's own counters where they are.
    printf '[libfuzzer]\nmax_len = 65536\n' >"$OUT/$name.options"
done
