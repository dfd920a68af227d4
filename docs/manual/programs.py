# SPDX-License-Identifier: MIT
"""What the sources say of the tools' options and of the environment variables."""
import re

TOOLS = (("oshrun", "oshrun.c", "starts the PEs of a job"),
         ("isomer-info", "isomer_info.c", "what runs, the doctor, the variables and the tuner"))


def literals(text):
    """Adjacent C string literals as one text."""
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text)).encode().decode("unicode_escape")


def help_of(root, source):
    text = open("%s/bootstrap/tools/%s" % (root, source)).read()
    return literals(re.search(r"char help\[\] =\n(.*?\");\n", text, re.S).group(1))


def wrapper_of(root, name, language, variable, default):
    """The head comment of oshcc."""
    text = open(root + "/bootstrap/tools/oshcc.in").read()
    lines = re.search(r"MIT\n((?:#.*\n)+)", text).group(1)
    for key, value in (("NAME", name), ("LANGUAGE", language), ("VARIABLE", variable), ("DEFAULT", default)):
        lines = lines.replace("@OSHCC_%s@" % key, value)
    return re.sub(r"^# ?", "", lines, flags=re.M)


def tools(root):
    """(name, what it is, its help)"""
    out = [(name, said, help_of(root, source)) for name, source, said in TOOLS]
    for name, language, variable, default in (("oshcc", "C", "CC", "cc"), ("oshc++", "C++", "CXX", "c++")):
        out.append((name, "the %s compiler for OpenSHMEM programs" % language, wrapper_of(root, name, language, variable, default)))
    return out


def variables(root):
    """(name, kind, default, allowed, help) of each variable that users set."""
    text = open(root + "/bootstrap/env.h").read()
    table = re.search(r"define ISO_ENV_USER_TABLE\(X\)(.*?)\n\n", text, re.S).group(1).replace("\\\n", "\n")
    row = re.compile(r'X\((\w+), (\w+), (\w+), ("[^"]*"), ("[^"]*"),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)\)')
    return [("SHMEM_" + m[1], m[2], literals(m[3]), literals(m[4]), literals(m[5])) for m in row.findall(table)]


def rows(text):
    """Of each option in a help: (its names, the word for its value or "", the first line of what is said)."""
    found = re.findall(r"^  (--?[a-z][a-z-]*(?:, --?[a-z-]+)*)(?: ([A-Z][A-Z:,]*(?:\[=[A-Z]+\])?))? +(\S.*)$", text, re.M)
    return [(names.split(", "), value, said) for names, value, said in found]


def options(text):
    return [name for names, _, _ in rows(text) for name in names]


def valued(text):
    """The options that take a value."""
    return [name for names, value, _ in rows(text) if value for name in names]
