/* The stencil of examples/stencil, done by MPI processes: algorithm 1 of Buono et al. with MPI_Isend and MPI_Irecv.
 *
 *   stencil FILE SIZE STEPS RUNS [OUT]
 *                       ns for all steps on the matrix of doubles in FILE, by the slowest rank, the median of so many
 *                       runs; what comes of it goes to OUT
 *
 * Prints one line: the figure, then two zeros, since no raw ping-pong is taken. On errors it ends with status 1.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, NORTHWARD, SOUTHWARD };

static int rank, ranks;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A step of a row, in the order of examples/stencil's arithmetic, zeros beyond its ends. */
static void row(const double *above, const double *own, const double *below, double *restrict out, long n) {
    out[0] = (own[0] + above[0] + below[0] + 0.0 + own[1]) / 5.0;
    for (long j = 1; j < n - 1; j++) out[j] = (own[j] + above[j] + below[j] + own[j - 1] + own[j + 1]) / 5.0;
    out[n - 1] = (own[n - 1] + above[n - 1] + below[n - 1] + own[n - 2] + 0.0) / 5.0;
}

static void rows(const double *from, double *to, long first, long last, long n) {
    for (long i = first; i <= last; i++) row(from + (i - 1) * n, from + i * n, from + (i + 1) * n, to + i * n, n);
}

/* Blocks of `mine` rows, from row 1: row 0 and row `mine` + 1 are the neighbours', or zeros. */
static void step(double *from, double *to, long mine, long n) {
    int north = rank ? rank - 1 : MPI_PROC_NULL, south = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Request pending[4];
    MPI_Irecv(from, n, MPI_DOUBLE, north, SOUTHWARD, MPI_COMM_WORLD, &pending[0]);
    MPI_Irecv(from + (mine + 1) * n, n, MPI_DOUBLE, south, NORTHWARD, MPI_COMM_WORLD, &pending[1]);
    MPI_Isend(from + n, n, MPI_DOUBLE, north, NORTHWARD, MPI_COMM_WORLD, &pending[2]);
    MPI_Isend(from + mine * n, n, MPI_DOUBLE, south, SOUTHWARD, MPI_COMM_WORLD, &pending[3]);
    rows(from, to, 2, mine - 1, n);
    MPI_Waitall(4, pending, MPI_STATUSES_IGNORE);
    rows(from, to, 1, 1, n);
    if (mine > 1) rows(from, to, mine, mine, n);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5 && argc != 6) fail("expected FILE SIZE STEPS RUNS [OUT]");
    long n = atol(argv[2]), steps = atol(argv[3]), runs = atol(argv[4]);
    if (n < 2 || n < ranks || steps < 1 || runs < 1 || runs > MOST) fail("no such work");

    long begin = rank * n / ranks, mine = (rank + 1) * n / ranks - begin;
    size_t bytes = mine * n * sizeof(double), all = (mine + 2) * n * sizeof(double);
    double *first = malloc(bytes), *a = malloc(all), *b = malloc(all), took[MOST];
    int in = open(argv[1], O_RDONLY);
    if (!first || !a || !b) fail("no memory");
    if (in < 0 || pread(in, first, bytes, begin * n * sizeof(double)) != (ssize_t)bytes) fail("cannot read the matrix");
    close(in);
    double *last = a;
    for (int r = 0; r < runs; r++) {
        double *from = a, *to = b;
        memset(a, 0, all);
        memset(b, 0, all);
        memcpy(a + n, first, bytes);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns();
        for (long s = 0; s < steps; s++) {
            step(from, to, mine, n);
            double *swap = from;
            from = to;
            to = swap;
        }
        double mine_ns = now_ns() - start;
        MPI_Allreduce(&mine_ns, &took[r], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        last = from;
    }
    if (argc == 6) {
        int out = open(argv[5], O_WRONLY | O_CREAT, 0600);
        if (out < 0 || pwrite(out, last + n, bytes, begin * n * sizeof(double)) != (ssize_t)bytes || close(out))
            fail("cannot write");
    }
    qsort(took, runs, sizeof *took, by_value);
    if (rank == 0) printf("%.3f 0 0\n", (took[(runs - 1) / 2] + took[runs / 2]) / 2);
    MPI_Finalize();
    return 0;
}
