/* SPDX-License-Identifier: MIT */
/* 03_heat picture.pgm: the picture is the temperature of a plate whose rim is kept as it is; the heat equation on it,
 * u += 0.2 (north + south + west + east - 4 u). Each PE has a strip of rows; a strip's first and last row go to the
 * neighbours by put-with-signal as soon as they are computed. PE 0 repeats all of it alone and compares bit by bit.
 * HEAT_STEPS (400) and HEAT_SCALE (12: a pixel is 12 x 12 cells) choose the size. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t above_sent, below_sent; /* symmetric: the step whose row the neighbour has put here */
static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static void need(int condition, const char *what)
{
    if (!condition)
        fprintf(stderr, "03_heat: needs %s\n", what), shmem_global_exit(EXIT_FAILURE);
}
static int option(const char *name, int fallback) { return getenv(name) ? atoi(getenv(name)) : fallback; }
/* The whole plate in degrees 0..100, or NULL. A PGM picture in its text form: P2 width height largest pixels... */
static double *read_plate(const char *path, int scale, int *nx, int *ny)
{
    int width, height, largest, pixel;
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "P2 %4d %4d %5d", &width, &height, &largest) != 3 || width < 1 || height < 1 ||
        largest < 1 || scale < 1 || scale > 20)
        return NULL;
    *nx = width * scale, *ny = height * scale;
    double *plate = (double *)malloc((size_t)*nx * (size_t)*ny * sizeof *plate);
    for (int p = 0; plate && p < width * height; p++) {
        if (fscanf(file, "%d", &pixel) != 1)
            return NULL;
        for (int i = 0; i < scale * scale; i++) {
            int x = p % width * scale + i % scale, y = p / width * scale + i / scale;
            plate[(size_t)y * (size_t)*nx + (size_t)x] = 100.0 * pixel / largest;
        }
    }
    fclose(file);
    return plate;
}
static void update_rows(double *next, const double *old, size_t nx, int from, int to)
{
    for (int y = from; y < to; y++) {
        const double *here = old + (size_t)y * nx, *north = here - nx, *south = here + nx;
        double *out = next + (size_t)y * nx;
        for (size_t x = 1; x + 1 < nx; x++)
            out[x] = here[x] + 0.2 * (north[x] + south[x] + here[x - 1] + here[x + 1] - 4.0 * here[x]);
    }
}
static int first_row(int pe, int ny) { return (int)((long)pe * ny / shmem_n_pes()); }
/* PE 0 computes everything again, from `plate`, and compares it with the strips of all PEs. */
static int differs_from_serial(double *plate, double *strip, size_t nx, int ny, int steps, double *seconds)
{
    size_t row_bytes = nx * sizeof(double), wrong = 0;
    double *serial[2] = {plate, (double *)malloc((size_t)ny * row_bytes)}, *row = (double *)malloc(row_bytes);
    need(serial[1] && row, "memory for the serial run");
    memcpy(serial[1], plate, (size_t)ny * row_bytes);
    *seconds = -now();
    for (int step = 1; step <= steps; step++)
        update_rows(serial[step % 2], serial[(step - 1) % 2], nx, 1, ny - 1);
    *seconds += now();
    for (int pe = 0; pe < shmem_n_pes(); pe++)
        for (int y = first_row(pe, ny); y < first_row(pe + 1, ny); y++) {
            shmem_getmem(row, strip + (size_t)(y - first_row(pe, ny) + 1) * nx, row_bytes, pe);
            wrong += memcmp(row, serial[steps % 2] + (size_t)y * nx, row_bytes) != 0;
        }
    return wrong != 0;
}

int main(int argc, char **argv)
{
    shmem_init();
    int me = shmem_my_pe(), npes = shmem_n_pes(), steps = option("HEAT_STEPS", 400), width = 0, ny = 0, wrong = 0;
    double *plate = argc == 2 ? read_plate(argv[1], option("HEAT_SCALE", 12), &width, &ny) : NULL;
    need(plate && ny >= 2 * npes && steps > 0, "a text PGM picture with at least 2 rows for each PE");
    /* Local row 0 and row `rows + 1` are the neighbours'; the strips of even and of odd steps take turns. */
    size_t nx = (size_t)width, row_bytes = nx * sizeof(double);
    int first = first_row(me, ny), rows = first_row(me + 1, ny) - first;
    size_t below_in_above = (size_t)(first - first_row(me > 0 ? me - 1 : 0, ny) + 1) * nx;
    size_t room = (size_t)(ny / npes + 3) * nx; /* the same on all PEs: their strips differ by one row */
    double *strips = (double *)shmem_malloc(2 * room * sizeof(double)), *strip[2] = {strips, strips + room};
    need(strips != NULL, "more symmetric memory");
    for (int y = 0; y <= rows + 1; y++)
        for (int k = 0; k < 2 && first + y > 0 && first + y <= ny; k++)
            memcpy(strip[k] + (size_t)y * nx, plate + (size_t)(first + y - 1) * nx, row_bytes);
    shmem_barrier_all();
    double start = now(), alone = 0, work = 1e-6 * (double)nx * ny;
    for (int step = 1; step <= steps; step++) {
        double *old = strip[(step - 1) % 2], *next = strip[step % 2];
        if (me > 0) { /* the neighbour's row of the step before is here, and it has read what this step overwrites */
            shmem_signal_wait_until(&above_sent, SHMEM_CMP_GE, (uint64_t)step - 1);
            update_rows(next, old, nx, 1, 2);
            shmem_putmem_signal(next + below_in_above, next + nx, row_bytes, &below_sent, (uint64_t)step,
                                SHMEM_SIGNAL_SET, me - 1);
        }
        if (me < npes - 1) {
            shmem_signal_wait_until(&below_sent, SHMEM_CMP_GE, (uint64_t)step - 1);
            update_rows(next, old, nx, rows, rows + 1);
            shmem_putmem_signal(next, next + (size_t)rows * nx, row_bytes, &above_sent, (uint64_t)step,
                                SHMEM_SIGNAL_SET, me + 1);
        }
        update_rows(next, old, nx, 2, rows);
        if (me == 0 && (step % ((steps + 9) / 10) == 0 || step == steps))
            printf("step %d of %d, %.0f million cells a second\n", step, steps, work * step / (now() - start));
    }
    shmem_barrier_all();
    double together = now() - start;
    if (me == 0) {
        wrong = differs_from_serial(plate, strip[steps % 2], nx, ny, steps, &alone);
        printf("%d x %d cells, %d steps: %.0f million cells a second on %d PEs, %.0f alone; %s the serial run\n", width,
               ny, steps, work * steps / together, npes, work * steps / alone, wrong ? "UNLIKE" : "bit-identical to");
    }
    shmem_finalize();
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
