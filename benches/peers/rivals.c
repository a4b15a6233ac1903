/* The work of the `ratios` harness, done by an MPI.
 *
 *   rivals pingpong BATCHES TRIPS     8 bytes to and fro between two ranks, ns for one way
 *   rivals large BYTES BATCHES TRIPS  the sender rewrites all of its buffer, the receiver sums all of it
 *   rivals pairs BATCHES MILLIS       ranks 2i and 2i+1 ping-pong 8 bytes, all pairs at once
 *   rivals start                      nothing
 *
 * Rank 0 prints one line: the median batch in nanoseconds, then the raw cache-line ping-pong between
 * ranks 0 and 1 before and after it (0 where not taken). What arrives is checked: on a difference the
 * program says so and ends with status 1.
 *
 * ONCHIP_CPUS=a,b,... pins rank i to the i-th of them, modulo their number; unset, ranks stay free.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks;

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void wrong(const char *what, uint64_t got, uint64_t expected) {
    fprintf(stderr, "rank %d: %s: got %llu, expected %llu\n", rank, what, (unsigned long long)got,
            (unsigned long long)expected);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static void pin(void) {
    const char *list = getenv("ONCHIP_CPUS");
    int cpus[64], n = 0;
    for (char *end; list && *list && n < 64; list = *end == ',' ? end + 1 : end) {
        cpus[n++] = (int)strtol(list, &end, 10);
        if (end == list) wrong("ONCHIP_CPUS is not a list of numbers", 0, 0);
    }
    if (n == 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpus[rank % n], &set);
    if (sched_setaffinity(0, sizeof set, &set)) wrong("cannot pin to CPU", 0, cpus[rank % n]);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* One line each way, 128 bytes apart so that the adjacent-line prefetcher does not couple them. */
typedef struct {
    _Atomic uint64_t there;
    char pad[120];
    _Atomic uint64_t back;
    char pad2[120];
} Probe;

static Probe *probe_lines;
static uint64_t probe_sequence;

static void probe_open(void) {
    MPI_Win window;
    void *base;
    MPI_Win_allocate_shared(rank == 0 ? 4096 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Aint size;
    int unit;
    MPI_Win_shared_query(window, 0, &size, &unit, &base);
    probe_lines = (Probe *)(((uintptr_t)base + 127) & ~(uintptr_t)127);
    if (rank == 0) memset(probe_lines, 0, sizeof *probe_lines);
    MPI_Barrier(MPI_COMM_WORLD);
}

static double probe(void) {
    enum { CHUNKS = 9, TRIPS = 500 };
    double took[CHUNKS];
    MPI_Barrier(MPI_COMM_WORLD);
    for (int c = 0; c < CHUNKS; c++) {
        double start = now_ns();
        for (int i = 0; i < TRIPS; i++) {
            uint64_t s = ++probe_sequence;
            if (rank == 0) {
                atomic_store_explicit(&probe_lines->there, s, memory_order_release);
                while (atomic_load_explicit(&probe_lines->back, memory_order_acquire) != s) {}
            } else {
                while (atomic_load_explicit(&probe_lines->there, memory_order_acquire) != s) {}
                atomic_store_explicit(&probe_lines->back, s, memory_order_release);
            }
        }
        took[c] = (now_ns() - start) / (2.0 * TRIPS);
    }
    return median(took, CHUNKS);
}

static void exchange(int peer, uint64_t first, long trips) {
    for (long i = 0; i < trips; i++) {
        uint64_t sent = first + i, got = 0;
        if (rank % 2 == 0) {
            MPI_Send(&sent, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
            MPI_Recv(&got, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (got != ~sent) wrong("the answer", got, ~sent);
        } else {
            MPI_Recv(&got, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (got != sent) wrong("the message", got, sent);
            got = ~got;
            MPI_Send(&got, 8, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        }
    }
}

static double pingpong(int batches, long trips) {
    double took[64];
    exchange(!rank, 0, trips);
    for (int b = 0; b < batches; b++) {
        double start = now_ns();
        exchange(!rank, (uint64_t)b * trips, trips);
        took[b] = (now_ns() - start) / (2.0 * trips);
    }
    return median(took, batches);
}

/* The same content and the same sums as in benches/src/content.rs. */
static void fill(uint64_t *words, size_t n, uint64_t seed) {
    for (size_t i = 0; i < n; i++) words[i] = seed + i;
}
static void check(const uint64_t *words, size_t n, uint64_t seed) {
    uint64_t sum = 0, m = n;
    for (size_t i = 0; i < n; i++) sum += words[i];
    uint64_t expected = m * seed + (m % 2 ? m * ((m - 1) / 2) : (m / 2) * (m - 1));
    if (sum != expected) wrong("the sum", sum, expected);
}

static void exchange_large(uint64_t *out, uint64_t *in, int bytes, uint64_t first, long trips) {
    size_t n = bytes / 8;
    for (long i = 0; i < trips; i++) {
        uint64_t seed = first + i;
        if (rank == 0) {
            fill(out, n, seed);
            MPI_Send(out, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(in, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(in, n, ~seed);
        } else {
            MPI_Recv(in, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check(in, n, seed);
            fill(out, n, ~seed);
            MPI_Send(out, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static double large(int bytes, int batches, long trips) {
    uint64_t *out = aligned_alloc(4096, (bytes + 4095) & ~4095);
    uint64_t *in = aligned_alloc(4096, (bytes + 4095) & ~4095);
    double took[64];
    exchange_large(out, in, bytes, 0, trips);
    for (int b = 0; b < batches; b++) {
        double start = now_ns();
        exchange_large(out, in, bytes, (uint64_t)b * trips, trips);
        took[b] = (now_ns() - start) / (2.0 * trips);
    }
    free(out);
    free(in);
    return median(took, batches);
}

static double pairs(int batches, double millis) {
    double took[64], mine, slowest;
    long trips = 4;
    int peer = rank ^ 1;
    /* Libraries differ by a factor of a thousand here: the pilot finds how many trips fill the time. */
    MPI_Barrier(MPI_COMM_WORLD);
    mine = now_ns();
    exchange(peer, 0, trips);
    mine = (now_ns() - mine) / trips;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    trips = (long)(millis * 1e6 / slowest);
    if (trips < 4) trips = 4;
    if (trips > 100000) trips = 100000;
    for (int b = -1; b < batches; b++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double start = now_ns(), end, first, last;
        exchange(peer, (uint64_t)(b + 1) * trips, trips);
        end = now_ns();
        MPI_Allreduce(&start, &first, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
        MPI_Allreduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        /* The pilot is short: the warm-up batch corrects its estimate. */
        if (b >= 0) {
            took[b] = (last - first) / (2.0 * trips);
        } else {
            double scale = millis * 1e6 / (last - first);
            trips = (long)(trips * (scale > 100 ? 100 : scale));
            if (trips < 4) trips = 4;
        }
    }
    return median(took, batches);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int batches = argc > 2 ? atoi(argv[argc > 4 ? 3 : 2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double value = 0, before = 0, after = 0;
    if (strcmp(mode, "start") == 0 && argc == 2) {
        MPI_Finalize();
        return 0;
    }
    if (batches < 1 || batches > 64) wrong("batches, 1 to 64", batches, 1);
    pin();
    if (strcmp(mode, "pairs") == 0 && argc == 4) {
        value = pairs(batches, atof(argv[3]));
    } else if (ranks == 2 && ((strcmp(mode, "pingpong") == 0 && argc == 4) || (strcmp(mode, "large") == 0 && argc == 5))) {
        probe_open();
        before = probe();
        value = argc == 4 ? pingpong(batches, atol(argv[3])) : large(atoi(argv[2]), batches, atol(argv[4]));
        after = probe();
    } else {
        wrong("the mode or its arguments", argc, 0);
    }
    if (rank == 0) printf("%.3f %.3f %.3f\n", value, before, after);
    MPI_Finalize();
    return 0;
}
