/* The work of the `ratios` harness, done by an MPI.
 *
 *   rivals pingpong BATCHES TRIPS     8 bytes to and fro between two ranks, ns for one way
 *   rivals large BYTES BATCHES TRIPS  the sender rewrites all of its buffer, the receiver sums all of it
 *   rivals pairs BATCHES MILLIS       ranks 2i and 2i+1 ping-pong 8 bytes, all pairs at once
 *   rivals broadcast BYTES BATCHES CALLS SINGLES
 *                                     rank 0's buffer to rank 1, ns for one: CALLS back to back by the slowest
 *                                     rank, then SINGLES that both begin at a moment: the longest stay of a rank,
 *                                     and from the last one in to the last one out
 *   rivals crowd BYTES BATCHES MILLIS back to back as above, among ranks that share cores
 *   rivals start                      nothing
 *
 * Rank 0 prints one line: the median batch in nanoseconds (`broadcast`: two times more the middle of the singles),
 * then the raw cache-line ping-pong between ranks 0 and 1 before and after it (0 where not taken). What arrives
 * is checked: on a difference the program says so and ends with status 1.
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
    struct {
        _Atomic uint64_t start;
        char pad[120];
    } proposed[2][2];
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

/* Buffers that broadcasts take in turn, and the stamps on them, as in benches/ratios/rows/broadcast.rs and
 * benches/src/content.rs. */
enum { TURNS = 4 };

typedef struct {
    uint64_t *buffers[TURNS];
    size_t words;
    uint64_t number;
} Turns;

static Turns turns_open(int bytes) {
    Turns t = {.words = bytes / 8};
    for (int i = 0; i < TURNS; i++) {
        t.buffers[i] = aligned_alloc(4096, (bytes + 4095) & ~4095);
        memset(t.buffers[i], 0, bytes);
    }
    return t;
}
static void turns_close(Turns *t) {
    for (int i = 0; i < TURNS; i++) free(t->buffers[i]);
}
static uint64_t *next_buffer(Turns *t) {
    uint64_t *words = t->buffers[++t->number % TURNS];
    if (rank == 0) {
        size_t step = t->words / 4 ? t->words / 4 : 1;
        for (size_t i = 0; i < t->words; i += step) words[i] = t->number;
        words[t->words - 1] = t->number;
    }
    return words;
}
static void check_buffer(const Turns *t, const uint64_t *words) {
    size_t step = t->words / 4 ? t->words / 4 : 1;
    uint64_t differences = words[t->words - 1] ^ t->number;
    for (size_t i = 0; i < t->words; i += step) differences |= words[i] ^ t->number;
    if (differences) wrong("bits of the stamp that differ", differences, 0);
}

/* Of the slowest rank, at all of them. */
static double back_to_back(Turns *t, long calls) {
    double took, slowest;
    int bytes = (int)(t->words * 8);
    MPI_Barrier(MPI_COMM_WORLD);
    took = now_ns();
    for (long i = 0; i < calls; i++) {
        uint64_t *words = next_buffer(t);
        MPI_Bcast(words, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        check_buffer(t, words);
    }
    took = (now_ns() - took) / calls;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* The mean of the middle half, as in benches/src/collective.rs. */
static double middle(double *v, int n) {
    double sum = 0;
    int quarter = n / 4;
    qsort(v, n, sizeof *v, by_value);
    for (int i = quarter; i < n - quarter; i++) sum += v[i];
    return sum / (n - 2 * quarter);
}

/* What reading the clock takes, as in benches/src/clock.rs. */
static double reading_ns(void) {
    double least = 1e9;
    for (int t = 0; t < 9; t++) {
        double start = now_ns(), end = start;
        for (int i = 0; i < 1000; i++) end = now_ns();
        if ((end - start) / 1000 < least) least = (end - start) / 1000;
    }
    return least;
}

/* Two ranks begin at a moment that they have agreed on, as Onchip's ranks do in this row: after a barrier one of them
 * is always the first, and which one decides what is then measured. */
static void start_together(void) {
    static uint64_t at;
    static int turn;
    MPI_Barrier(MPI_COMM_WORLD);
    if (ranks != 2) return;
    turn ^= 1; /* A rank may be one start ahead of the other, and not two. */
    uint64_t mine = (uint64_t)now_ns() + 1000, theirs;
    atomic_store_explicit(&probe_lines->proposed[turn][rank].start, mine, memory_order_release);
    do theirs = atomic_load_explicit(&probe_lines->proposed[turn][1 - rank].start, memory_order_acquire);
    while (theirs <= at);
    at = mine > theirs ? mine : theirs;
    while (now_ns() < at) {}
}

static void broadcast(int bytes, int batches, long calls, long singles, double value[3]) {
    Turns t = turns_open(bytes);
    double took[64], reading = reading_ns();
    back_to_back(&t, calls);
    for (int b = 0; b < batches; b++) took[b] = back_to_back(&t, calls);
    value[0] = median(took, batches);

    double *stamps = malloc(2 * singles * sizeof *stamps);
    double *all = rank ? NULL : malloc(2 * singles * ranks * sizeof *all);
    for (long i = -calls; i < singles; i++) {
        uint64_t *words = next_buffer(&t);
        start_together();
        double begin = now_ns();
        MPI_Bcast(words, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        double end = now_ns();
        check_buffer(&t, words);
        if (i >= 0) {
            stamps[2 * i] = begin;
            stamps[2 * i + 1] = end - reading;
        }
    }
    MPI_Gather(stamps, 2 * singles, MPI_DOUBLE, all, 2 * singles, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        double *longest = malloc(singles * sizeof *longest), *last = malloc(singles * sizeof *last);
        for (long i = 0; i < singles; i++) {
            double stay = 0, in = 0, out = 0;
            for (int r = 0; r < ranks; r++) {
                double *at = all + 2 * (r * singles + i);
                if (at[1] - at[0] > stay) stay = at[1] - at[0];
                if (at[0] > in) in = at[0];
                if (at[1] > out) out = at[1];
            }
            longest[i] = stay;
            last[i] = out - in;
        }
        value[1] = middle(longest, singles);
        value[2] = middle(last, singles);
        free(longest);
        free(last);
    }
    free(stamps);
    free(all);
    turns_close(&t);
}

static double crowd(int bytes, int batches, double millis) {
    Turns t = turns_open(bytes);
    double took[64];
    /* As in `pairs`. */
    long calls = 4;
    for (int b = -2; b < batches; b++) {
        double each = back_to_back(&t, calls);
        if (b >= 0) {
            took[b] = each;
        } else {
            calls = (long)(millis * 1e6 / each);
            if (calls < 4) calls = 4;
            if (calls > 100000) calls = 100000;
        }
    }
    turns_close(&t);
    return median(took, batches);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int batches = argc > 2 ? atoi(argv[argc > 4 ? 3 : 2]) : 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double value[3] = {0}, before = 0, after = 0;
    if (strcmp(mode, "start") == 0 && argc == 2) {
        MPI_Finalize();
        return 0;
    }
    if (batches < 1 || batches > 64) wrong("batches, 1 to 64", batches, 1);
    pin();
    int two = ranks == 2, values = 1;
    if (strcmp(mode, "pairs") == 0 && argc == 4) {
        value[0] = pairs(batches, atof(argv[3]));
    } else if (strcmp(mode, "crowd") == 0 && argc == 5) {
        value[0] = crowd(atoi(argv[2]), batches, atof(argv[4]));
    } else if (two && ((strcmp(mode, "pingpong") == 0 && argc == 4) || (strcmp(mode, "large") == 0 && argc == 5))) {
        probe_open();
        before = probe();
        value[0] = argc == 4 ? pingpong(batches, atol(argv[3])) : large(atoi(argv[2]), batches, atol(argv[4]));
        after = probe();
    } else if (two && strcmp(mode, "broadcast") == 0 && argc == 6) {
        values = 3;
        probe_open();
        before = probe();
        broadcast(atoi(argv[2]), batches, atol(argv[4]), atol(argv[5]), value);
        after = probe();
    } else {
        wrong("the mode or its arguments", argc, 0);
    }
    for (int i = 0; rank == 0 && i < values; i++) printf("%.3f ", value[i]);
    if (rank == 0) printf("%.3f %.3f\n", before, after);
    MPI_Finalize();
    return 0;
}
