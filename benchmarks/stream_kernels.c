/* Read, copy and triad rates of memory, in B/s: the independent side of calibrate_vs_stream.py.
 *
 *   stream_kernels WORKING_SET_BYTES ROUNDS
 *
 * The working set is three arrays of doubles. Bytes are those that the program names: N, 2 N and 3 N per element
 * of 8 bytes; a line that is read only to be overwritten (write-allocate) is not counted.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* One thread is timed by its processor time, which other programs hardly lengthen; several by the wall clock. */
static double now(void)
{
    struct timespec t;
    if (omp_get_max_threads() > 1)
        return omp_get_wtime();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static double read_all(const double *a, size_t n)
{
    double sum = 0;
#pragma omp parallel for simd reduction(+ : sum) schedule(static)
    for (size_t i = 0; i < n; i++)
        sum += a[i];
    return sum;
}

static void copy(double *restrict to, const double *restrict from, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

static void triad(double *restrict to, const double *restrict x, const double *restrict y, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++)
        to[i] = x[i] + 3.0 * y[i];
}

static double rate(double best, double bytes, double seconds)
{
    return bytes / seconds > best ? bytes / seconds : best;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t n = strtoull(argv[1], NULL, 10) / 3 / sizeof(double);
    int rounds = atoi(argv[2]);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c)
        return 1;
    /* Touched in parallel, so that each page lies near the thread that uses it. */
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        a[i] = 1.0 / (i + 1);
        b[i] = 2.0;
        c[i] = 0.5;
    }
    double best[3] = {0, 0, 0}, sum = 0;
    for (int round = 0; round < rounds; round++) {
        double start = now();
        sum += read_all(a, n);
        best[0] = rate(best[0], 8.0 * n, now() - start);
        start = now();
        copy(c, a, n);
        best[1] = rate(best[1], 16.0 * n, now() - start);
        start = now();
        triad(a, b, c, n);
        best[2] = rate(best[2], 24.0 * n, now() - start);
    }
    /* Shown so that the compiler has to compute it. */
    fprintf(stderr, "sum %g\n", sum);
    printf("read %.6g\ncopy %.6g\ntriad %.6g\n", best[0], best[1], best[2]);
    return 0;
}
