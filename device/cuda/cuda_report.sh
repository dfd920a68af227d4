#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs the compiler, whose last argument is the object. What it says goes to OBJECT.report, and to the terminal when it
# fails.
# usage: cuda_report.sh COMPILER ARGUMENT... OBJECT
for object; do :; done
"$@" >"$object.report" 2>&1 && exit
status=$?
cat "$object.report" >&2
exit $status
