/* The work of the `ratios` harness, done by OpenMP threads.
 *
 *   openmp barrier BATCHES CALLS      two threads, back to back, by the slower one, ns for one
 *   openmp crowd THREADS BATCHES MILLIS
 *                                     the same by threads that share cores
 *   openmp stencil FILE SIZE STEPS RUNS THREADS [OUT]
 *                                     ns for all steps on the matrix of doubles in FILE, the median of so many runs;
 *                                     what comes of it goes to OUT
 *
 * Prints one line: the figure (the median batch), then the raw cache-line ping-pong between the two threads before and
 * after it (0 where not taken). On wrong results it ends with status 1.
 *
 * ONCHIP_CPUS=a,b pins two threads to one each; unset, threads stay free.
 */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "openmp: %s\n", what);
    exit(1);
}

/* The calling thread of a team of two. */
static void pin(int thread) {
    const char *list = getenv("ONCHIP_CPUS");
    int cpus[2];
    if (!list) return;
    if (sscanf(list, "%d,%d", &cpus[0], &cpus[1]) != 2) fail("ONCHIP_CPUS is not two numbers");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[thread], &set);
    if (sched_setaffinity(0, sizeof set, &set)) fail("cannot pin to a CPU");
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* A line of its own for each, 128 bytes apart because of the adjacent-line prefetcher. */
typedef struct {
    _Alignas(128) _Atomic uint64_t value;
} Line;

/* By a team of two; thread 0 has the figure. */
static double probe(int thread) {
    enum { CHUNKS = 9, TRIPS = 500 };
    static Line there, back;
    static uint64_t base;
    double took[CHUNKS];
    uint64_t s = base;
    for (int c = 0; c < CHUNKS; c++) {
        double start = now_ns();
        for (int i = 0; i < TRIPS; i++) {
            s++;
            if (thread == 0) {
                atomic_store_explicit(&there.value, s, memory_order_release);
                while (atomic_load_explicit(&back.value, memory_order_acquire) != s) {}
            } else {
                while (atomic_load_explicit(&there.value, memory_order_acquire) != s) {}
                atomic_store_explicit(&back.value, s, memory_order_release);
            }
        }
        took[c] = (now_ns() - start) / (2.0 * TRIPS);
    }
#pragma omp barrier
#pragma omp master
    base = s;
#pragma omp barrier
    return median(took, CHUNKS);
}

enum { MOST = 64 };
static Line come[MOST];

/* By a team: that nobody goes on before all have come. */
static void check_barriers(int thread, int threads) {
    for (uint64_t time = 1; time <= 200; time++) {
        atomic_store_explicit(&come[thread].value, time, memory_order_relaxed);
#pragma omp barrier
        for (int t = 0; t < threads; t++)
            if (atomic_load_explicit(&come[t].value, memory_order_relaxed) < time) fail("a barrier that is none");
    }
}

/* By a team: of the slowest thread, ns for one, at all of them. */
static double barriers(int thread, int threads, long calls) {
    static double took[MOST];
    double slowest = 0;
#pragma omp barrier
    double start = now_ns();
    for (long i = 0; i < calls; i++) {
#pragma omp barrier
    }
    took[thread] = (now_ns() - start) / calls;
#pragma omp barrier
    for (int t = 0; t < threads; t++)
        if (took[t] > slowest) slowest = took[t];
#pragma omp barrier
    return slowest;
}

static double two_barriers(int batches, long calls, double probes[2]) {
    double took[MOST];
#pragma omp parallel num_threads(2)
    {
        int thread = omp_get_thread_num();
        if (omp_get_num_threads() != 2) fail("no two threads");
        pin(thread);
        double before = probe(thread);
        check_barriers(thread, 2);
        for (int b = -1; b < batches; b++) {
            double each = barriers(thread, 2, calls);
            if (thread == 0 && b >= 0) took[b] = each;
        }
        double after = probe(thread);
        if (thread == 0) {
            probes[0] = before;
            probes[1] = after;
        }
    }
    return median(took, batches);
}

static double crowd(int threads, int batches, double millis) {
    double took[MOST];
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num();
        if (omp_get_num_threads() != threads) fail("fewer threads than asked for");
        check_barriers(thread, threads);
        /* How many fill the time differs by a factor of thousands. */
        long calls = 4;
        for (int b = -2; b < batches; b++) {
            double each = barriers(thread, threads, calls);
            if (b >= 0) {
                if (thread == 0) took[b] = each;
            } else {
                calls = (long)(millis * 1e6 / each);
                if (calls < 4) calls = 4;
                if (calls > 100000) calls = 100000;
            }
        }
    }
    return median(took, batches);
}

/* A step, in the order of examples/stencil's arithmetic, zeros around. */
static void row(const double *above, const double *own, const double *below, double *restrict out, long n) {
    out[0] = (own[0] + above[0] + below[0] + 0.0 + own[1]) / 5.0;
    for (long j = 1; j < n - 1; j++) out[j] = (own[j] + above[j] + below[j] + own[j - 1] + own[j + 1]) / 5.0;
    out[n - 1] = (own[n - 1] + above[n - 1] + below[n - 1] + own[n - 2] + 0.0) / 5.0;
}

static double stencil(const char *file, long n, int steps, int runs, int threads, const char *out, double probes[2]) {
    size_t bytes = (size_t)n * n * sizeof(double);
    double *first = malloc(bytes), *a = malloc(bytes), *b = malloc(bytes), *zeros = calloc(n, sizeof(double)), took[MOST];
    FILE *in = fopen(file, "rb");
    if (n < 2 || steps < 1 || !first || !a || !b || !zeros) fail("no such matrix");
    if (!in || fread(first, 1, bytes, in) != bytes) fail("cannot read the matrix");
    fclose(in);
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num();
        if (omp_get_num_threads() != threads) fail("fewer threads than asked for");
        double before = 0, after = 0;
        if (threads == 2) {
            pin(thread);
            before = probe(thread);
        }
        for (int r = 0; r < runs; r++) {
            /* Each thread has touched what it will write. */
#pragma omp for schedule(static)
            for (long i = 0; i < n; i++) {
                memcpy(a + i * n, first + i * n, n * sizeof(double));
                memcpy(b + i * n, first + i * n, n * sizeof(double));
            }
            double *from = a, *to = b, start = now_ns();
            for (int s = 0; s < steps; s++) {
#pragma omp for schedule(static)
                for (long i = 0; i < n; i++) {
                    const double *own = from + i * n;
                    row(i ? own - n : zeros, own, i < n - 1 ? own + n : zeros, to + i * n, n);
                }
                double *swap = from;
                from = to;
                to = swap;
            }
            if (thread == 0) took[r] = now_ns() - start;
        }
        if (threads == 2) after = probe(thread);
        if (thread == 0) {
            probes[0] = before;
            probes[1] = after;
        }
    }
    if (out) {
        FILE *file = fopen(out, "wb");
        if (!file || fwrite(steps % 2 ? b : a, 1, bytes, file) != bytes || fclose(file)) fail("cannot write");
    }
    free(first);
    free(a);
    free(b);
    free(zeros);
    return median(took, runs);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    double value, probes[2] = {0};
    omp_set_dynamic(0);
    if (strcmp(mode, "barrier") == 0 && argc == 4 && atoi(argv[2]) > 0 && atoi(argv[2]) <= MOST) {
        value = two_barriers(atoi(argv[2]), atol(argv[3]), probes);
    } else if (strcmp(mode, "crowd") == 0 && argc == 5 && atoi(argv[2]) > 0 && atoi(argv[2]) <= MOST &&
               atoi(argv[3]) > 0 && atoi(argv[3]) <= MOST) {
        value = crowd(atoi(argv[2]), atoi(argv[3]), atof(argv[4]));
    } else if (strcmp(mode, "stencil") == 0 && (argc == 7 || argc == 8) && atoi(argv[5]) > 0 &&
               atoi(argv[5]) <= MOST && atoi(argv[6]) > 0) {
        value = stencil(argv[2], atol(argv[3]), atoi(argv[4]), atoi(argv[5]), atoi(argv[6]), argc > 7 ? argv[7] : NULL,
                        probes);
    } else {
        fail("the mode or its arguments");
    }
    printf("%.3f %.3f %.3f\n", value, probes[0], probes[1]);
    return 0;
}
