# SPDX-License-Identifier: MIT
"""The reference as one HTML file: every contract once, an anchor for every name, a search over all names."""
import json
import os
import re
from html import escape

import contracts
import man

STYLE = """
:root { --back: #fff; --text: #1b1f24; --quiet: #57606a; --line: #d8dee4; --code: #f4f6f8; --link: #0550ae; --mark: #fff3c4 }
@media (prefers-color-scheme: dark) {
  :root { --back: #14171a; --text: #dde2e8; --quiet: #97a1ac; --line: #30363d; --code: #1d2126; --link: #79b8ff; --mark: #4a3f12 } }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { margin: 0; background: var(--back); color: var(--text); font: 16px/1.5 system-ui, sans-serif; display: flex }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
nav { width: 20rem; flex: none; height: 100vh; position: sticky; top: 0; overflow-y: auto; padding: 1rem;
      border-right: 1px solid var(--line); font-size: .875rem }
nav ul { list-style: none; margin: 0; padding: 0 0 0 .75rem } nav summary { cursor: pointer; padding: .15rem 0 }
nav li { overflow-wrap: anywhere }
input { width: 100%; padding: .45rem .6rem; font: inherit; color: inherit; background: var(--code);
        border: 1px solid var(--line); border-radius: 4px }
#found { margin: .5rem 0; padding: 0 } #found .on { background: var(--mark) } #found:empty { display: none }
#tree { margin: .75rem 0 } p { overflow-wrap: anywhere }
main { flex: 1; min-width: 0; max-width: 62rem; padding: 1rem 2rem 60vh }
h1 { font-size: 1.6rem } h2 { font-size: 1.3rem; margin-top: 3rem; border-bottom: 1px solid var(--line) }
h3 { font-size: 1.05rem; margin: 2.2rem 0 .5rem; overflow-wrap: anywhere } h3 a { color: inherit }
:target { background: var(--mark) }
pre { background: var(--code); padding: .6rem .8rem; overflow-x: auto; border-radius: 4px; font-size: .8125rem; line-height: 1.45 }
.quiet, .names { color: var(--quiet); font-size: .875rem } .names code { margin-right: .75em; display: inline-block; max-width: 100%; overflow-wrap: anywhere }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", monospace } dt { margin-top: .8rem; overflow-wrap: anywhere } dd { margin-left: 1.5rem }
@media (max-width: 48rem) {
  body { display: block } nav { width: auto; height: auto; max-height: 15rem; position: static; border-right: 0; border-bottom: 1px solid var(--line) }
  main { padding: .5rem 1rem 40vh } dd { margin-left: 1rem } }
@media print { nav { display: none } }
"""

# Names that begin with what was typed come first, then those that contain it.
SCRIPT = """
const box = document.getElementById('search'), found = document.getElementById('found'), tree = document.getElementById('tree');
let at = 0;
function show() {
  const words = box.value.trim().toLowerCase().split(/\\s+/).filter(w => w);
  tree.hidden = words.length > 0;
  found.textContent = '';
  if (!words.length) return;
  const hits = names.filter(n => words.every(w => n.toLowerCase().includes(w)));
  hits.sort((a, b) => !a.toLowerCase().startsWith(words[0]) - !b.toLowerCase().startsWith(words[0]) || a.length - b.length || (a < b ? -1 : 1));
  at = Math.max(0, Math.min(at, hits.length - 1, 59));
  hits.slice(0, 60).forEach((n, i) => {
    const li = document.createElement('li'), a = document.createElement('a');
    a.href = '#' + n; a.textContent = n; a.className = i == at ? 'on' : ''; li.append(a); found.append(li);
  });
  const li = document.createElement('li');
  li.className = 'quiet';
  li.textContent = hits.length ? (hits.length > 60 ? 'and ' + (hits.length - 60) + ' more' : '') : 'no name has this';
  found.append(li);
}
function open_target() {
  const target = document.getElementById(location.hash.slice(1)), list = target && target.closest('details');
  if (list) { list.open = true; document.getElementById(list.dataset.of).scrollIntoView(); } // its contract
}
box.addEventListener('input', () => { at = 0; show(); });
box.addEventListener('keydown', e => {
  if (e.key == 'ArrowDown' || e.key == 'ArrowUp') { at += e.key == 'ArrowDown' ? 1 : -1; show(); e.preventDefault(); }
  if (e.key == 'Enter' && found.querySelector('.on')) location.hash = found.querySelector('.on').hash;
  if (e.key == 'Escape') { box.value = ''; show(); }
});
document.addEventListener('keydown', e => { if (e.key == '/' && document.activeElement != box) { box.focus(); e.preventDefault(); } });
addEventListener('hashchange', () => setTimeout(open_target));
addEventListener('load', () => setTimeout(open_target));
"""


class Html:
    def __init__(self, known):
        self.known, self.out = known, []

    def linked(self, text, own=()):
        """Text with links from names to their places."""
        def place(m):
            name = m.group()
            return '<a href="#%s">%s</a>' % (name, name) if name in self.known and name not in own else name
        return re.sub(r"\b_?[A-Za-z]\w+", place, escape(text, quote=False))

    def prose(self, text, own=()):
        for kind, lines in man.blocks(text):
            said = self.linked(lines, own)
            said = said if kind == "table" else re.sub(r"`([^`]+)`", r"<code>\1</code>", said)
            self.out.append("<pre>%s</pre>" % said if kind == "table" else "<p>%s</p>" % said)

    def page(self, page, types, generic):
        own = set(page.names())
        named = page.families() or page.names()
        self.out.append('<h3 id="%s"><a href="#%s">%s</a></h3>' % (page.name, page.name, escape(", ".join(named))))
        lines = [item.text for item in page.others] + contracts.synopsis(page, types)[0]
        self.out.append("<pre>%s</pre>" % self.linked("\n".join(lines), own))
        self.prose(page.text, own)
        names = [f for f in page.families() if f in generic]
        notes = ["C11 and C++ choose by the type of the first pointer: %s." % ", ".join(names)] if names else []
        for said in notes + man.types_said(page, types):
            self.out.append('<p class="quiet">%s</p>' % escape(said))
        rest = [n for n in page.names() if n != page.name and n not in self.placed]
        self.placed.update(rest)
        if rest:
            said = "".join('<code id="%s">%s</code> ' % (n, n) for n in rest)
            self.out.append('<details class="names" data-of="%s"><summary>All %d names</summary>%s</details>' % (
                page.name, len(rest) + 1, said))

    def calls(self, pages, types, generic, heads):
        self.placed = {p.name for p in pages}
        for intro, said, headers in contracts.INTROS:
            self.out.append('<h2 id="%s">%s</h2>' % (intro, capital(said)))
            for header in headers:
                self.prose(heads[header])
            title = None
            for page in (p for p in pages if p.header in headers):
                if page.title != title:
                    title = page.title
                    self.out.append('<h2 id="%s">%s</h2>' % (place_of(page), capital(title)))
                    if page.general:
                        self.prose(page.general)
                self.page(page, types, generic)

    def variables(self, rows):
        self.out.append('<h2 id="variables">Environment variables</h2>\n<dl>')
        for name, kind, default, allowed, said in rows:
            limits = "%s; default %s%s" % (kind, default or "empty", "; allowed: " + allowed if allowed else "")
            self.out.append('<dt id="%s"><code>%s</code> <span class="quiet">%s</span></dt><dd>%s</dd>' % (
                name, name, escape(limits), self.linked(said[:1].upper() + said[1:] + ".", {name})))
        self.out.append("</dl>")

    def tools(self, tools):
        self.out.append('<h2 id="tools">Tools</h2>')
        for name, said, text in tools:
            self.out.append('<h3 id="%s"><a href="#%s">%s</a></h3><p>%s</p><pre>%s</pre>' % (
                name, name, name, capital(said) + ".", self.linked(text)))


def capital(text):
    return escape(text[:1].upper() + text[1:])


def place_of(page):
    return re.sub(r"[^a-z0-9]+", "-", (page.header.split(".")[0] + " " + page.title.split(":")[0]).lower()).strip("-")


def tree(pages):
    out = ['<ul id="tree"><li><a href="#tools">Tools</a></li><li><a href="#variables">Environment variables</a></li>']
    for intro, said, headers in contracts.INTROS:
        out.append('<li><details open><summary>%s</summary><ul><li><a href="#%s">In general</a></li>' % (capital(said), intro))
        title = None
        for page in (p for p in pages if p.header in headers):
            if page.title != title:
                out.append("</ul></details></li>" if title else "")
                title = page.title
                short = man.short_title(page)
                out.append('<li><details><summary>%s</summary><ul><li><a href="#%s">In general</a></li>' % (capital(short), place_of(page)))
            out += ['<li><a href="#%s">%s</a></li>' % (f, f) for f in page.families() or page.names()[:1]]
        out.append("</ul></details></li></ul></details></li>")
    return "\n".join(out) + "</ul>"


def write(folder, version, manual):
    """manual: pages, heads, types, generic, rows of variables, tools."""
    pages, heads, types, generic, rows, tools = manual
    known = {n for p in pages for n in p.names()} | {r[0] for r in rows} | {t[0] for t in tools}
    html = Html(known)
    html.tools(tools)
    html.variables(rows)
    html.calls(pages, types, generic, heads)
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/index.html", "w") as f:
        f.write('<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Isomer %s</title>\n'
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>%s</style></head><body>\n' % (version, STYLE))
        f.write('<nav><input id="search" type="search" placeholder="Search names (/)" aria-label="Search names">\n'
                '<ul id="found"></ul>\n%s</nav>\n<main><h1>Isomer %s</h1>\n' % (tree(pages), version))
        f.write("\n".join(html.out))
        f.write("\n</main>\n<script>const names = %s;%s</script></body></html>\n" % (json.dumps(sorted(known)), SCRIPT))
