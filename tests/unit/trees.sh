#!/bin/bash
# SPDX-License-Identifier: MIT
# ../tree.sh on trees that somebody else has configured: another name of the compiler, another compiler, another
# generator, another folder; no option that was asked for may get lost without a sentence. On a project of one file.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset CC CFLAGS NINJA_STATUS CMAKE_GENERATOR
failures=0

fail() {
    echo "FAILED: $*"
    sed 's/^/    /' out
    failures=$((failures + 1))
}
said() { grep -qE -- "$1" out || fail "$2: nothing says '$1'"; }
silent() { ! grep -qE -- "$1" out || fail "$2: something says '$1'"; }
has() { grep -qx -- "$2" "$1/CMakeCache.txt" || fail "$3: $2 is not in the cache of $1"; }

# In a shell of its own, since it may stop.
configure() {
    (
        say() { echo "trees: $*"; }
        stop() { say "$*" && exit 1; }
        # shellcheck source=../tree.sh
        . "$here/tree.sh"
        configure_tree "$1" "$1/log" "${@:2}" && build_tree "$1" "$1/log" 1
    ) >out 2>&1
}
by_hand() { cmake -S . "$@" >by_hand.log 2>&1 || fail "cmake -S . $*: $(cat by_hand.log)"; }

mkdir "$folder/project" && cd "$folder/project" || exit 1
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(one C)
option(WANTED "" OFF)
option(REFUSED "" OFF)
set(REFUSED OFF CACHE BOOL "" FORCE)
add_executable(one one.c)
CMAKE
echo 'int main(void) { return 0; }' >one.c

# The order of the README: first by no name (cc), then by gcc; and the other way round.
configure a && configure a CMAKE_C_COMPILER=gcc WANTED=ON || fail "cc, then gcc"
has a WANTED:BOOL=ON "cc, then gcc"
silent afresh "cc, then gcc"
said 'building a: [01] steps, log a/log$' "cc, then gcc"
configure b CMAKE_C_COMPILER=gcc WANTED=ON && configure b || fail "gcc, then cc"
has b WANTED:BOOL=ON "gcc, then cc"
said 'building b: 0 steps' "gcc, then cc"

# A tree of the user's own; its options stay where nothing else is asked for.
by_hand -B c -G Ninja -DCMAKE_C_COMPILER="$(command -v cc)" -DOTHER=1
configure c CMAKE_C_COMPILER=gcc WANTED=ON || fail "a user's tree"
has c WANTED:BOOL=ON "a user's tree"
has c OTHER:UNINITIALIZED=1 "a user's tree"
by_hand -B d -G 'Unix Makefiles'
configure d WANTED=ON || fail "a tree for make"
has d WANTED:BOOL=ON "a tree for make"
said 'd is configured afresh .*: it was configured for Unix Makefiles, not Ninja' "a tree for make"
said 'building d: 2 steps, log d/log$' "a tree for make"

if command -v clang >/dev/null; then
    by_hand -B e -G Ninja -DCMAKE_C_COMPILER=clang
    configure e CMAKE_C_COMPILER=gcc WANTED=ON || fail "clang, then gcc"
    has e WANTED:BOOL=ON "clang, then gcc"
    said 'e is configured afresh .*: it was configured with the compiler .*clang, not gcc' "clang, then gcc"
fi

# A tree that was copied, and one whose compiler is gone.
cp -r a f
configure f WANTED=ON || fail "a copied tree"
said 'f is configured afresh .*: it was made elsewhere' "a copied tree"
sed -i 's/^\(CMAKE_C_COMPILER:[A-Z]*\)=.*/\1=\/missing\/gcc/' a/CMakeCache.txt
configure a WANTED=ON || fail "a compiler that is gone"
said 'a is configured afresh .*: its compiler /missing/gcc does not work here' "a compiler that is gone"

# What CMake does not take is noticed, and so is a build that fails.
configure b REFUSED=ON WANTED=ON && fail "a dropped option: no error"
said "b was to be configured with REFUSED=ON, but its CMakeCache.txt has 'OFF'" "a dropped option"
echo 'int main(void) { return missing; }' >one.c
configure b && fail "a build that fails: no error"
said 'building b failed, see b/log' "a build that fails"
[ $failures -eq 0 ] && echo passed
[ $failures -eq 0 ]
