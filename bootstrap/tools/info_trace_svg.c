/* SPDX-License-Identifier: MIT */
/* The picture of a trace: a line for each thread and each stream of each PE with what it was in, arrows for the longest
 * waits, and the bytes between PEs as a matrix. The size is bounded: a line has at most two boxes for each pixel. */
#include "info_trace.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    LEFT = 190,
    WIDTH = 1100,
    TOP = 60,
    ROW = 26,
    BOX = 16,
    TICKS = 10,
    ARROWS_MOST = 200,
    CELLS_MOST = 32,
    CELL = 34
};

static const struct look {
    const char *kind, *color;
} looks[] = {{"put", "#2a78d6"},       {"get", "#1f9e89"},        {"p", "#2a78d6"},      {"g", "#1f9e89"},
             {"iput", "#2a78d6"},      {"iget", "#1f9e89"},       {"atomic", "#8a5cd0"}, {"put_signal", "#2a78d6"},
             {"signal", "#8a5cd0"},    {"wait_until", "#d98c1f"}, {"fence", "#8c8c8c"},  {"quiet", "#8c8c8c"},
             {"barrier", "#c8443c"},   {"collective", "#a83279"}, {"heap", "#6b6b2f"},   {"proxy", "#2f6b6b"},
             {"on_stream", "#4f7a28"}, {"wait", "#f0c987"},       {"kernel", "#7a4a12"}, {"stream", "#6fa33f"}};
enum { LOOKS = sizeof looks / sizeof looks[0] };

static const char *color_of(const char *kind)
{
    for (int i = 0; i < LOOKS; i++)
        if (strcmp(looks[i].kind, kind) == 0)
            return looks[i].color;
    return "#8c8c8c";
}

static double x_of(const struct trace *trace, int64_t ns)
{
    return LEFT + (trace->end_ns > 0 ? (double)ns / (double)trace->end_ns * WIDTH : 0);
}

static void write_svg_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        fputc(*text == '<' || *text == '&' || (unsigned char)*text < ' ' || (unsigned char)*text > '~' ? '?' : *text,
              out);
}

static void write_duration(FILE *out, double ns)
{
    if (ns < 1e3)
        fprintf(out, "%.0f ns", ns);
    else if (ns < 1e6)
        fprintf(out, "%.3g us", ns / 1e3);
    else if (ns < 1e9)
        fprintf(out, "%.3g ms", ns / 1e6);
    else
        fprintf(out, "%.4g s", ns / 1e9);
}

/* Calls first, then waits in front of them. */
static void draw_boxes(const struct trace *trace, FILE *out, size_t row, bool waits)
{
    const struct line *line = &trace->lines[row];
    double drawn = -1; /* up to here the row has boxes: one that ends before would not be seen */
    int y = TOP + (int)row * ROW + (waits ? BOX / 2 + 2 : 0);
    for (size_t i = 0; i < line->n; i++) {
        const struct mark *m = &line->marks[i];
        double x = x_of(trace, m->begin_ns), width = x_of(trace, m->end_ns) - x;
        if ((trace_kind(m->e.what) == TRACE_KIND_WAIT) != waits || x + (width > 0.5 ? width : 0.5) < drawn + 0.5)
            continue;
        fprintf(out, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"", x, y,
                width > 0.5 ? width : 0.5, waits ? BOX / 2 - 2 : BOX, color_of(m->kind));
        drawn = x + (width > 0.5 ? width : 0.5);
        if (width < 1) {
            fputs("/>\n", out);
            continue;
        }
        fputs("><title>", out);
        write_svg_text(out, m->name);
        fputs(waits ? ", waiting " : " ", out);
        write_duration(out, (double)(m->end_ns - m->begin_ns));
        if (m->e.bytes != 0)
            fprintf(out, ", %" PRIu64 " bytes", m->e.bytes);
        if (trace_pe(m->e.what) >= 0)
            fprintf(out, ", pe %d", trace_pe(m->e.what));
        if (m->how != NULL) {
            fputs(", ", out);
            write_svg_text(out, m->how);
        }
        if (line->stream >= 0) {
            fputs(", in the queue for ", out);
            write_duration(out, (double)(m->begin_ns - m->enqueued_ns));
        }
        fputs("</title></rect>\n", out);
    }
}

static void draw_arrows(const struct trace *trace, const struct arrows *arrows, FILE *out)
{
    for (size_t i = 0; i < arrows->n && i < ARROWS_MOST; i++) {
        const struct arrow *a = &arrows->of[i];
        bool waits = a->to_line->stream < 0;
        int from = TOP + (int)(a->from_line - trace->lines) * ROW + BOX / 2,
            to = TOP + (int)(a->to_line - trace->lines) * ROW + BOX / 2;
        fprintf(out, "<path class=\"arrow%s\" d=\"M%.1f %dL%.1f %d\" marker-end=\"url(#tip)\"><title>",
                waits ? "" : " queued", x_of(trace, a->from_ns), from,
                x_of(trace, waits ? a->to->end_ns : a->to->begin_ns), to);
        write_svg_text(out, a->from->name);
        fprintf(out, waits ? " of pe %d ends " : " of pe %d is run as ", a->from_line->head->pe);
        write_svg_text(out, a->to->name);
        fprintf(out, " of pe %d, after ", a->to_line->head->pe);
        write_duration(out, (double)info_trace_length(a));
        fputs("</title></path>\n", out);
    }
}

static void draw_axis(const struct trace *trace, FILE *out, int bottom)
{
    for (int i = 0; i <= TICKS; i++) {
        int64_t ns = trace->end_ns / TICKS * i;
        double x = x_of(trace, ns);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x,
                TOP - 6, bottom, x, TOP - 10);
        write_duration(out, (double)ns);
        fputs("</text>\n", out);
    }
}

static void draw_legend(FILE *out, int y)
{
    static const char *const shown[] = {"put",   "get",  "atomic",    "wait_until", "wait",  "barrier", "collective",
                                        "quiet", "heap", "on_stream", "stream",     "proxy", "kernel"};
    for (int i = 0; i < (int)(sizeof shown / sizeof shown[0]); i++)
        fprintf(out,
                "<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
                LEFT + i * 85, y, color_of(shown[i]), LEFT + i * 85 + 14, y + 9, shown[i]);
}

/* Of groups of PEs, where there are many. */
static uint64_t cell_of(const struct trace *trace, int row, int column, int group)
{
    uint64_t sum = 0;
    for (int pe = row * group; pe < (row + 1) * group && pe < trace->n_pes; pe++)
        for (int to = column * group; to < (column + 1) * group && to < trace->n_pes; to++)
            sum += trace->bytes[(size_t)pe * (size_t)trace->n_pes + (size_t)to];
    return sum;
}

static void write_bytes(FILE *out, uint64_t bytes)
{
    static const char units[] = " kMGTP";
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 999.5 && unit < 5; unit++)
        value /= 1000;
    fprintf(out, unit > 0 ? "%.3g%c" : "%.0f", value, units[unit]);
}

static void draw_matrix(const struct trace *trace, FILE *out, int y)
{
    int group = (trace->n_pes + CELLS_MOST - 1) / CELLS_MOST, n = (trace->n_pes + group - 1) / group;
    uint64_t most = 1;
    for (int i = 0; i < n * n; i++) {
        uint64_t bytes = cell_of(trace, i / n, i % n, group);
        most = bytes > most ? bytes : most;
    }
    fprintf(
        out,
        "<text x=\"%d\" y=\"%d\" class=\"head\">bytes of a PE's calls (row) to and from each PE (column)%s</text>\n",
        LEFT, y, group > 1 ? ", in groups" : "");
    for (int i = 0; i < n; i++)
        fprintf(out,
                "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%d</text><text x=\"%d\" y=\"%d\" "
                "text-anchor=\"end\">pe %d</text>\n",
                LEFT + i * CELL + CELL / 2, y + 18, i * group, LEFT - 6, y + 22 + i * CELL + CELL / 2 + 4, i * group);
    for (int i = 0; i < n * n; i++) {
        uint64_t bytes = cell_of(trace, i / n, i % n, group);
        double share = bytes > 0 ? 0.15 + 0.85 * log2((double)bytes + 1) / log2((double)most + 1) : 0;
        int x = LEFT + i % n * CELL, at = y + 22 + i / n * CELL;
        fprintf(out,
                "<g><title>pe %d, pe %d: %" PRIu64
                " bytes</title><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#2a78d6\" "
                "fill-opacity=\"%.2f\" class=\"cell\"/>",
                i / n * group, i % n * group, bytes, x, at, CELL - 1, CELL - 1, share);
        if (bytes > 0) {
            fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", x + CELL / 2, at + CELL / 2 + 4);
            write_bytes(out, bytes);
            fputs("</text>", out);
        }
        fputs("</g>\n", out);
    }
}

void info_trace_draw(const struct trace *trace, FILE *out)
{
    int bottom = TOP + (int)trace->n_lines * ROW;
    int cells = trace->bytes == NULL ? 0 : trace->n_pes < CELLS_MOST ? trace->n_pes : CELLS_MOST;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n"
            "<style>.page{fill:#fff}text{fill:#1c1c1c}.grid{stroke:#d8d8d8}.arrow{stroke:#555;fill:none;stroke-width:."
            "8}.queued{stroke-dasharray:2 2}.tip{fill:#555}"
            ".cell{stroke:#d8d8d8}.head{font-weight:bold}@media(prefers-color-scheme:dark){.page{fill:#16181c}text{"
            "fill:#e6e6e6}"
            ".grid,.cell{stroke:#3a3d44}.arrow{stroke:#bbb}.tip{fill:#bbb}}</style>\n"
            "<defs><marker id=\"tip\" markerWidth=\"7\" markerHeight=\"7\" refX=\"6\" refY=\"3\" orient=\"auto\"><path "
            "class=\"tip\" "
            "d=\"M0 0L6 3L0 6Z\"/></marker></defs>\n<rect class=\"page\" width=\"100%%\" height=\"100%%\"/>\n",
            LEFT + WIDTH + 40, bottom + 80 + cells * CELL);
    fprintf(out, "<text x=\"10\" y=\"20\" class=\"head\">job %08" PRIx32 ": %d PEs, ", trace->job, trace->n_pes);
    write_duration(out, (double)trace->end_ns);
    fputs("</text>\n", out);
    draw_axis(trace, out, bottom);
    for (size_t i = 0; i < trace->n_lines; i++) {
        const struct trace_head *h = trace->lines[i].head;
        fprintf(out, "<text x=\"10\" y=\"%d\">pe %d ", TOP + (int)i * ROW + 12, h->pe);
        if (trace->lines[i].stream > 0)
            fprintf(out, "stream %d", trace->lines[i].stream);
        else
            write_svg_text(out, trace->lines[i].stream == 0 ? "default stream" : h->label);
        fputs("</text>\n", out);
        draw_boxes(trace, out, i, false);
        draw_boxes(trace, out, i, true);
    }
    draw_arrows(trace, &trace->queued, out);
    draw_arrows(trace, &trace->waits, out);
    draw_legend(out, bottom + 10);
    if (trace->bytes != NULL)
        draw_matrix(trace, out, bottom + 50);
    fputs("</svg>\n", out);
}
