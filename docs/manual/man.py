# SPDX-License-Identifier: MIT
"""Man pages of what contracts.py and programs.py have read."""
import os
import re

import contracts


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join("\\&" + l if l[:1] in ".'" else l for l in text.split("\n"))


def blocks(text):
    """Paragraphs and tables of a comment: ("text" or "table", lines joined)."""
    out, kind = [], None
    for line in text.split("\n"):
        if not line:
            kind = None
            continue
        table = line.startswith("  ") or re.search(r"\S {2,}\S", line)
        begins = re.match(r"^[\w][\w, ]{0,40}: ", line) and out and out[-1][1].endswith((".", ";"))
        now = "table" if table else "text"
        if now == kind and not (begins and now == "text"):
            out[-1][1] += ("\n" if table else " ") + line
        else:
            out.append([now, line])
        kind = now
    return [tuple(b) for b in out]


def body(text):
    """A comment as roff."""
    out = []
    for kind, lines in blocks(text):
        out += [".PP"] + ([escape(lines)] if kind == "text" else [".nf", ".ft CW", escape(lines), ".ft R", ".fi"])
    return out[1:] if out and out[0] == ".PP" and out[1] != ".nf" else out


def first_sentence(text, otherwise):
    first = re.match(r"[^\n]*?[^.]\.(?=\s|$)", text.replace("\n", " "))
    said = first.group().rstrip(".") if first else otherwise
    return otherwise if len(said) > 100 or re.match(r"[\w, ]+: |Deprecated", said) else said


def short_title(page):
    return re.sub(r" *\((the build's|sections? )[^)]*\)", "", page.title).split(":")[0].split(";")[0] or "OpenSHMEM"


def types_said(page, types):
    """Sentences on the words TYPENAME and SIZE of a synopsis."""
    _, kinds, sizes = contracts.synopsis(page, types)
    families = page.families()
    out = []
    for word, table in (("TYPENAME", kinds), ("SIZE", sizes)):
        for values, names in table.items():
            where = "" if len(table) == 1 and len(names) == len(families) else " in %s" % ", ".join(names)
            if word == "TYPENAME":
                plain = [v if types[v] == v else "%s (%s)" % (v, types[v]) for v in values]
                out.append("TYPENAME and its TYPE%s: %s." % (where, ", ".join(plain)))
            else:
                out.append("SIZE%s in bits: %s." % (where, ", ".join(values)))
    return out


class Man:
    def __init__(self, folder, version, date):
        self.folder, self.version, self.date = folder, version, date

    def write(self, name, section, lines):
        folder = "%s/man%d" % (self.folder, section)
        os.makedirs(folder, exist_ok=True)
        with open("%s/%s.%d" % (folder, name, section), "w") as f:
            f.write("\n".join(lines) + "\n")

    def head(self, name, section):
        return ['.\\" SPDX-License-Identifier: MIT', '.TH %s %d "%s" "Isomer %s" "Isomer\'s manual"' % (name, section, self.date, self.version), ".ad l"]

    def link(self, name, section, target):
        """Not a page that says .so: a symbolic link takes no block of the disk, and there are thousands."""
        os.symlink("%s.%d" % (target, section), "%s/man%d/%s.%d" % (self.folder, section, name, section))

    def call(self, page, types, generic, beside):
        said = first_sentence(page.text, short_title(page))
        named = page.families() or page.names()
        lines = self.head(page.name, 3)
        lines += [".SH NAME", escape(", ".join(named)) + " \\- " + escape(said), ".SH SYNOPSIS", ".nf"]
        lines += [".B #include <%s>" % contracts.INCLUDED[page.header], ""]
        for item in page.others:
            lines += [escape(item.text), ""]
        lines += [escape(l) for l in contracts.synopsis(page, types)[0]] + [".fi"]
        names = [f for f in page.families() if f in generic]
        if names:
            lines += [".PP", escape("C11 and C++ choose by the type of the first pointer: %s." % ", ".join(names))]
        for sentence in types_said(page, types):
            lines += [".PP", escape(sentence)]
        lines += [".SH DESCRIPTION"] + body(page.text)
        if page.general:
            lines += [".SH %s" % escape(page.title.upper()).replace('"', "")] + body(page.general)
        lines += [".SH SEE ALSO"] + see(page, beside)
        self.write(page.name, 3, lines)
        for name in page.names():
            if name != page.name and name not in self.taken:
                self.link(name, 3, page.name)
        self.taken.update(page.names())

    def calls(self, pages, types, generic):
        self.taken = {p.name for p in pages}
        for page in pages:
            self.call(page, types, generic, [p for p in pages if p.title == page.title and p.header == page.header])

    def intro(self, name, said, heads, pages):
        lines = self.head(name, 7) + [".SH NAME", "%s \\- %s" % (name, escape(said)), ".SH DESCRIPTION"]
        lines += body("\n\n".join(heads))
        lines += [".SH PAGES"]
        title = None
        for page in pages:
            if page.title != title:
                title = page.title
                lines += [".SS %s" % escape(title[:1].upper() + title[1:]).replace('"', "")]
            lines += [".TP", ".BR %s (3)" % escape(page.name), escape(first_sentence(page.text, short_title(page)))]
        lines += [".SH SEE ALSO", ".BR intro_shmem (7),", ".BR intro_shmemx (7),", ".BR intro_shmemd (7),", ".BR isomer (7)"]
        self.write(name, 7, lines)

    def variables(self, rows):
        lines = self.head("isomer", 7)
        lines += [".SH NAME", "isomer \\- symmetric memory for PEs on CPUs and GPUs; its environment variables"]
        lines += [".SH DESCRIPTION", escape("Each variable is read once, at the start of a job. An empty value counts as unset."
                                            " isomer-info --variables prints the same list.")]
        lines += [".SH ENVIRONMENT"]
        for name, kind, default, allowed, said in rows:
            lines += [".TP", ".B %s" % name, escape(said[:1].upper() + said[1:] + ".")]
            lines += [".br", escape("Kind: %s. Default: %s.%s" % (kind, default or "empty", " Allowed: %s." % allowed if allowed else ""))]
        lines += [".SH SEE ALSO", ".BR isomer\\-info (1),", ".BR oshrun (1),", ".BR intro_shmem (7)"]
        self.write("isomer", 7, lines)
        for row in rows:
            self.link(row[0], 7, "isomer")

    def tool(self, name, said, text):
        lines = self.head(name, 1) + [".SH NAME", "%s \\- %s" % (escape(name), escape(said))]
        lines += [".SH DESCRIPTION", ".nf", ".ft CW", escape(text.rstrip()), ".ft R", ".fi"]
        lines += [".SH SEE ALSO"] + [".BR %s (1)," % escape(n) for n in ("oshrun", "isomer-info", "oshcc") if n != name]
        self.write(name, 1, lines + [".BR isomer (7),", ".BR intro_shmem (7)"])


def see(page, beside):
    intro = {"shmem.h": "intro_shmem"}.get(page.header, "intro_shmemd" if "device" in page.header else "intro_shmemx")
    names = [p.name for p in beside if p is not page]
    return [".BR %s (3)," % escape(n) for n in names] + [".BR %s (7)," % intro, ".BR isomer (7)"]
