# SPDX-License-Identifier: MIT
"""Reads the public headers as the C preprocessor expands them: a comment is the contract of the declarations that
follow it, up to the next comment. What comes out are pages; man.py and html.py write them."""
import re
import subprocess

HEADERS = ("shmem.h", "shmemx.h", "shmemx_launch.h", "shmemx_coll.h", "shmem_device.h", "shmem_device_coll.h",
           "shmem_device_local.h")
INCLUDED = dict(zip(HEADERS, ("shmem.h",) + 3 * ("shmemx.h",) + 3 * ("shmem_device.h",))) # by programs
INTROS = (("intro_shmem", "OpenSHMEM 1.6, host interface", HEADERS[:1]),
          ("intro_shmemx", "extensions to OpenSHMEM, host part and streams", HEADERS[1:4]),
          ("intro_shmemd", "OpenSHMEM inside kernels", HEADERS[4:] + ("shmem_device.hpp",)))
PUBLIC = re.compile(r"^(shmem|shmemx|shmemd)_(?!cpu_)\w+$|^(start_pes|_my_pe|_num_pes|sh(malloc|memalign|realloc|free))$")
CONSTANT = re.compile(r"^_?(SHMEMX?D?|ISOMER)_[A-Z0-9_]+$")
VALUE = re.compile(r'^[-({"\d]|^_?SHMEMX?_[A-Z_0-9]+$|^PRIM_|^extern ')
HELPERS = ("shmemx_coll_of", "shmemx_bytes_of", "SHMEMD_CHECK_PE", "SHMEM_NORETURN", "SHMEM_ACTIVE_SET")
# Types of which no other word of a declaration is made stand for all types of a family.
SAMPLES = ("double", "ulonglong", "longlong")
FORMS = r"_(?:group|wave|block|grid)"


class Item:
    """A declaration: text, and the name it declares (None: several constants, or nothing public)."""

    def __init__(self, kind, name, text):
        self.kind, self.name, self.text = kind, name, text


class Page:
    """A contract and what it covers. `calls`: {name: (family, type name or size or "", text)}."""

    def __init__(self, header, title, general, text):
        self.header, self.title, self.general, self.text = header, title, general, text
        self.calls, self.others, self.name = {}, [], None

    def families(self):
        return list(dict.fromkeys(c[0] for c in self.calls.values()))

    def names(self):
        """All names that lead here: families, calls, types and constants."""
        return list(dict.fromkeys(self.families() + list(self.calls) + [n for o in self.others for n in o.name]))


def preprocess(compiler, include):
    source = "".join('#include "%s"\n' % h for h in ("shmemx.h", "shmem_device.h"))
    command = [compiler, "-E", "-C", "-dD", "-std=gnu11", "-I", include, "-x", "c", "-"]
    text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    files, current = {h: [] for h in HEADERS}, None
    for line in text.splitlines(keepends=True):
        marker = re.match(r'# \d+ "(.*?)"', line)
        if marker:
            path = marker.group(1)
            current = files.get(path.rsplit("/", 1)[-1]) if path.startswith(include) else None
        elif current is not None:
            current.append(line)
    return {h: "".join(lines) for h, lines in files.items()}


def comment_text(comment):
    lines = comment[2:-2].rstrip().split("\n")
    return "\n".join([lines[0].strip()] + [re.sub(r"^\s*\*? ?", "", l).rstrip() for l in lines[1:]]).strip("\n")


def function_of(code):
    """The declaration of one public function, without its body, on one line; or None."""
    code = re.sub(r"/\*.*?\*/", " ", code, flags=re.S)
    code = re.sub(r"__attribute__\s*\(\(.*?\)\)|static inline|\bextern\b|__extension__", " ", code)
    code = re.sub(r"\s+", " ", code.split("{")[0]).strip().rstrip(";").strip()
    m = re.match(r"^([\w* ]+?[ *])(\w+)\s*\((.*)\)$", code)
    if not m or not PUBLIC.match(m.group(2)) or m.group(2) in HELPERS:
        return None
    result = re.sub(r"\s*\*\s*", " *", m.group(1)).replace("_Noreturn ", "").strip()
    arguments = re.sub(r"\s*\*\s*", " *", m.group(3)).replace("* const", "*const").replace("* *", "**")
    return Item("call", m.group(2), "%s%s%s(%s);" % (result, "" if result.endswith("*") else " ", m.group(2), arguments))


def type_of(code):
    bare = re.sub(r"/\*.*?\*/", " ", code, flags=re.S)
    body = code.strip("\n")
    if re.match(r"\s*enum\b", bare):
        return Item("constants", re.findall(r"\bSHMEM\w+", bare), body)
    m = re.match(r"\s*typedef\b.*?(?:\(\*(\w+)\)\s*\([^;]*|(\w+)\s*);\s*$", bare, re.S)
    name = m and (m.group(1) or m.group(2)) or (re.match(r"\s*struct (\w+) \{", bare) or [None, None])[1]
    return Item("type", [name], body) if name and PUBLIC.match(name) else None


def pieces(text):
    """Comments, macros and declarations of one file: (kind, text, lines since the one before)."""
    at, lines = 0, 1
    space = re.compile(r"\s+")
    while at < len(text):
        m = space.match(text, at)
        if m:
            lines += m.group().count("\n")
            at = m.end()
            continue
        begin, depth = at, 0
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            yield "comment", text[begin:at], lines
            lines = 0
            continue
        if text[at] == "#":
            at = text.find("\n", at)
            yield "macro", text[begin:at], lines
            lines = 0
            continue
        while True:
            if text.startswith("/*", at):
                at = text.index("*/", at) + 2
                continue
            c = text[at]
            depth += (c in "{(") - (c in "})")
            at += 1
            if depth == 0 and (c == ";" or (c == "}" and re.search(r"\)\s*\{", text[begin:at]))):
                break
        yield "code", text[begin:at], lines
        lines = 0


def macro_of(text, used, known):
    m = re.match(r"#define (\w+)(\([^)]*\))? ?(.*)", text)
    if not m or not CONSTANT.match(m.group(1)) or m.group(1) in HELPERS or m.group(1).startswith("SHMEMX_OP_"):
        return None
    name, arguments, value = m.groups()
    if name in known:
        return None
    if arguments and (used.get(name, 0) or not re.match(r"SHMEM[XD]_", name)):
        return None
    if not arguments and not VALUE.match(value):
        return None
    if re.match(r"PRIM_|extern |\(\(shmemx_kernel_t", value):
        value = "" # a body says nothing to a user
    return Item("macro", [name], "#define %s%s %s" % (name, arguments or "", value))


def stamps(text, known):
    """Whether a macro declares functions, itself or by another one."""
    m = re.match(r"#define (\w+)\(.*?\) (.*)", text)
    if m and (re.search(r"\bshmem[xd]?_\w* ?##", m.group(2)) or any(w in known for w in re.findall(r"\w+", m.group(2)))):
        known.add(m.group(1))
    return bool(m) and m.group(1) in known


def read_header(header, text, used, pages):
    """Appends the pages of a file. Returns its head comment."""
    parts, known, head = list(pieces(text)), set(), None
    for kind, body, _ in parts * 2: # a macro may stand before the one that it uses
        if kind == "macro":
            stamps(body, known)
    page, title, general, last = Page(header, "", "", ""), "", "", None
    whole = page
    for i, (kind, body, lines) in enumerate(parts):
        if kind == "comment":
            said = comment_text(body)
            if said.startswith("SPDX"):
                continue
            if last and not lines:
                last.text += " " + body
                continue
            if head is None:
                head = said
                continue
            section = re.match(r"---- (.*?) ----\n?(.*)", said, re.S)
            if section:
                title, general = section.group(1), section.group(2).strip("\n")
                page = Page(header, title, "", general or title[0].upper() + title[1:] + ".")
                pages.append(page)
                whole = page
            elif is_contract(said, parts[i + 1:], used, known):
                page = Page(header, title, general, said)
                pages.append(page)
            last = None
            continue
        constants = page.others and not page.calls and page.others[-1].kind == "macro" and "(" not in page.others[0].text.split()[1]
        if kind == "macro" and lines > 1 and constants:
            page = whole # the contract of some constants ends at an empty line
        last = macro_of(body, used, known) if kind == "macro" else function_of(body) or type_of(body)
        if last and last.kind == "call":
            page.calls[last.name] = last
        elif last:
            page.others.append(last)
    return head


def is_contract(said, rest, used, known):
    """A comment of the header's inside stands before what is not public."""
    if re.search(r"\bshmem[xd]?_NAME_", said):
        return True
    for kind, body, _ in rest:
        if kind == "comment":
            continue
        if kind == "macro" and "SHMEM_ACTIVE_SET " in body:
            continue
        if kind == "macro":
            return bool(macro_of(body, used, known)) or stamps(body, known) or "define" not in body
        return bool(function_of(body) or type_of(body)) or body.startswith("struct shmem")
    return False


def sort_families(pages, types):
    """Gives each call its family: its name without type, size, context and group."""
    every = {n for p in pages for n in p.calls}
    typed = re.compile(r"^(shmem[xd]?)_(ctx_)?(%s)_(.+)$" % "|".join(sorted(types, key=len, reverse=True)))
    sized = re.compile(r"^(shmem[xd]?)_(ctx_)?([a-z]+?)(8|16|32|64|128|mem)((?:_.*)?)$")
    for page in pages:
        for name, item in page.calls.items():
            family, which = name, ""
            m = typed.match(name)
            if m:
                family, which = "%s_%s%s" % (m.group(1), m.group(2) or "", m.group(4)), m.group(3)
            elif sized.match(name):
                m = sized.match(name)
                family, which = "%s_%s%s%s" % (m.group(1), m.group(2) or "", m.group(3), m.group(5)), m.group(4)
            if family.startswith("shmem_ctx_") and (which or family.replace("ctx_", "") in every):
                family = family.replace("ctx_", "")
            short = re.sub(FORMS + "$", "", family)
            plain = re.sub(FORMS + "$", "", name)
            pair = name.startswith("shmemd_") and {plain + "_block", plain + "_grid"} <= every
            if short != family and (plain in every or pair) and "_" in short:
                family = short
            page.calls[name] = (family, which, item.text)
    for page in pages: # putmem alone is no family
        sizes = {}
        for name, call in page.calls.items():
            sizes.setdefault(call[0], []).append(name)
        for family, names in sizes.items():
            if len(names) == 1 and family not in every:
                page.calls[names[0]] = (names[0], "", page.calls[names[0]][2])


def pattern(name, which, text, types):
    """A stamped declaration with its type or size as a word."""
    if which in types:
        text = text.replace("_%s_" % which, "_TYPENAME_", 1)
        return re.sub(r"\b%s\b" % re.escape(types[which]), "TYPE", text)
    if which and which != "mem":
        return text.replace(name, name.replace(which, "SIZE", 1), 1)
    return text


def synopsis(page, types):
    """The declarations of a page, one for all types of a family; and {families: type names}, {families: sizes}."""
    lines, seen, kinds, sizes = [], set(), {}, {}
    for name, (family, which, text) in page.calls.items():
        if which in types:
            kinds.setdefault(family, []).append(which)
        elif which and which != "mem":
            sizes.setdefault(family, []).append(which)
    for name, (family, which, text) in page.calls.items():
        if which in types:
            sample = next((s for s in SAMPLES if s in kinds[family]), kinds[family][0])
            if which != sample:
                continue
        line = pattern(name, which, text, types)
        if line not in seen:
            seen.add(line)
            lines.append(line)

    def together(table):
        out = {}
        for family, values in table.items():
            out.setdefault(tuple(dict.fromkeys(values)), []).append(family)
        return out
    return lines, together(kinds), together(sizes)


def type_table(include):
    text = open(include + "/shmem_types.h").read()
    rows = re.findall(r"X\((\w+), (.+?), AMO_\w+, RED_", text)
    return {n: {"SHMEM_COMPLEX(float)": "float _Complex", "SHMEM_COMPLEX(double)": "double _Complex"}.get(t, t) for n, t in rows}


def generic_names(include):
    return set(re.findall(r"#define (shmem_\w+)\(", open(include + "/shmem_generic.h").read()))


def read(compiler, include):
    """(pages, head comments by header)."""
    files, pages, heads = preprocess(compiler, include), [], {}
    used = {}
    for header in HEADERS:
        code = re.sub(r"/\*.*?\*/", "", open("%s/%s" % (include, header)).read(), flags=re.S)
        for define, word in re.findall(r"(#define )?(\bSHMEM[XD]\w+)", code):
            used[word] = used.get(word, 0) + (not define)
    for header in HEADERS:
        heads[header] = read_header(header, files[header], used, pages)
    lines = open(include + "/shmem_device.hpp").read().split("\n\n")[0].split("\n") # its calls are those of the C headers
    heads["shmem_device.hpp"] = "\n".join(re.sub("^// ?|#.*", "", l) for l in lines[1:]).strip("\n")
    pages = [p for p in pages if p.calls or p.others]
    sort_families(pages, type_table(include))
    taken = set()
    for page in pages:
        page.name = next(n for n in page.names() if n not in taken)
        taken.update(page.names())
    return pages, heads
