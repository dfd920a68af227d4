#!/bin/sh
# SPDX-License-Identifier: MIT
# Compile checks of the public headers with one compiler, with all warnings as errors: each header alone and twice;
# programs that must compile do, as each language version (uses.c, with hostile macros of the user's); two translation
# units link; what must not compile does not (refused.c).
# usage: headers.sh COMPILER INCLUDE_DIR       (C++ where the compiler's name contains ++)
set -u
compiler=$1
include=$2
here=$(dirname "$0")
command -v "$compiler" >/dev/null || { echo "skipped: $compiler is not installed"; exit 77; }
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
failed=0
checks=0
warnings="-Wall -Wextra -Wpedantic -Wshadow -Werror"
case $compiler in
*++*)
    language=c++
    standards="c++11 c++20"
    ;;
*)
    language=c
    standards="c11 c17"
    warnings="$warnings -Wc++-compat"
    ;;
esac

# compiles WHAT STANDARD ARGS...: expected to succeed.
compiles() {
    what=$1
    standard=$2
    shift 2
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    "$compiler" -x $language -std="$standard" $warnings -I"$include" "$@" 2>"$dir/errors" && return 0
    echo "headers: $what does not compile with $compiler -std=$standard:"
    head -n 10 "$dir/errors"
    failed=1
    return 1
}

headers=$(cd "$include" && find . -name '*.h' | sed 's,^\./,,' | sort)
[ -n "$headers" ] || { echo "headers: no header in $include"; exit 1; }

standard=${standards%% *}
for header in $headers; do
    # shmem_generic.h is the second half of shmem.h and has no meaning alone.
    [ "$header" = shmem_generic.h ] && continue
    # (A unit of macros only would be empty.)
    printf '#include <%s>\n#include <%s>\nextern int alone;\n' "$header" "$header" >"$dir/alone"
    compiles "$header alone" "$standard" -fsyntax-only "$dir/alone"
done
for version in $standards; do
    compiles "uses.c" "$version" -fsyntax-only "$here/uses.c"
    compiles "uses.c without generics" "$version" -fsyntax-only -DSHMEM_NO_GENERIC "$here/uses.c"
done

# Two translation units, headers in opposite orders, one program; nothing of the library is needed to link it.
for unit in one two; do
    order=$headers
    [ $unit = two ] && order=$(printf '%s\n' "$headers" | sort -r)
    for header in $order; do
        [ "$header" = shmem_generic.h ] || printf '#include <%s>\n' "$header"
    done >"$dir/$unit"
done
printf 'int main(void) { return SHMEM_MAJOR_VERSION - 1; }\n' >>"$dir/one"
printf 'extern int one_more;\nint one_more = SHMEM_MINOR_VERSION;\n' >>"$dir/two"
compiles "the first of two units" "$standard" -c "$dir/one" -o "$dir/one.o"
compiles "the second of two units" "$standard" -c "$dir/two" -o "$dir/two.o"
if ! "$compiler" "$dir/one.o" "$dir/two.o" -o "$dir/both" 2>"$dir/errors" || ! "$dir/both"; then
    echo "headers: two translation units do not make one program:"
    head -n 10 "$dir/errors"
    failed=1
fi

# Refused: without its cases the file compiles, and with all of them each has an error of its own. Case n is lines
# n * 1000 and after of a file "case".
compiles "refused.c without a case" "$standard" -fsyntax-only "$here/refused.c"
sed 's/^#if CASE == \([0-9]*\).*/#line \1000 "case"\n#if 1/; s/^#endif/#line 1 "other"/' "$here/refused.c" |
    sed '/^#if 1$/d' >"$dir/all"
# shellcheck disable=SC2086
"$compiler" -x $language -std="$standard" $warnings -I"$include" -fsyntax-only "$dir/all" >"$dir/errors" 2>&1
if grep '^other:.*error' "$dir/errors"; then
    echo "headers: refused.c has an error outside of its cases with $compiler"
    failed=1
fi
for number in $(sed -n 's/^#if CASE == \([0-9]*\).*/\1/p' "$here/refused.c"); do
    checks=$((checks + 1))
    if ! grep -q "^case:$number[0-9][0-9][0-9]:" "$dir/errors"; then # gcc may name a macro first, and then this line
        echo "headers: case $number of refused.c compiles with $compiler: $(grep "^#if CASE == $number " "$here/refused.c")"
        failed=1
    fi
done
echo "$checks checks with $compiler"
exit $failed
