#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes the manual from the public headers, bootstrap/env.h and the tools' help: man pages, an HTML reference, and
completion of the tools' options by shells.
usage: manual.py ROOT COMPILER VERSION OUT"""
import re
import shutil
import sys

import completion
import contracts
import html_page
import man
import programs


def main(root, compiler, version, out):
    include = root + "/include"
    pages, heads = contracts.read(compiler, include)
    types, generic = contracts.type_table(include), contracts.generic_names(include)
    variables, tools = programs.variables(root), programs.tools(root)
    month = re.search(r"^## %s, (\d+-\d+)" % re.escape(version), open(root + "/CHANGELOG.md").read(), re.M)
    for folder in ("/man", "/html", "/shell"):
        shutil.rmtree(out + folder, ignore_errors=True)
    writer = man.Man(out + "/man", version, month.group(1) + "-01" if month else "")
    writer.calls(pages, types, generic)
    for name, said, headers in contracts.INTROS:
        writer.intro(name, said, [heads[h] for h in headers], [p for p in pages if p.header in headers])
    writer.variables(variables)
    for tool in tools:
        writer.tool(*tool)
    html_page.write(out + "/html", version, (pages, heads, types, generic, variables, tools))
    completion.write(out + "/shell", tools, variables)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
