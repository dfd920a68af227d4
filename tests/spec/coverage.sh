#!/bin/sh
# SPDX-License-Identifier: MIT
# Looks at coverage.txt: every page of the specification has a program, every program is there and is run by ctest, every
# program of this folder is the test of some page. usage: coverage.sh [FOLDER WITH content/*.tex, if one is at hand]
set -u
cd "$(dirname "$0")" || exit 1
failed=0
complain() {
    echo "coverage: $*"
    failed=1
}
expected=128 # pages of 1.6

pages=$(grep -v '^#' coverage.txt | awk 'NF { print $1 }')
count=$(echo "$pages" | sort -u | wc -l)
[ "$count" -eq $expected ] || complain "pages, expected $expected, seen $count"
[ "$(echo "$pages" | wc -l)" -eq "$count" ] || complain "a page is listed twice"

while read -r page programs; do
    case $page in '' | '#'*) continue ;; esac
    case $programs in
    '') complain "$page has no test" ;;
    '- '*) continue ;;
    -) complain "$page has neither a test nor a reason" ;;
    esac
    for program in $programs; do
        [ -f "$program" ] || complain "$page is tested by $program, which does not exist"
        name=${program##*/}
        name=${name%.*}
        grep -q -w "$name" "$(dirname "$program")/CMakeLists.txt" || complain "$program is not in CMakeLists.txt"
    done
done <coverage.txt

for program in *.c *.cpp; do
    grep -q -w "$program" coverage.txt || complain "$program tests no page"
done

if [ $# -gt 0 ]; then
    for page in "$1"/content/*.tex; do
        echo "$pages" | grep -q -x "$(basename "$page")" || complain "$(basename "$page") is not listed"
    done
fi
[ $failed -eq 0 ] && echo "coverage: $count pages"
exit $failed
