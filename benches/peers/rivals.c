/* The work of the `ratios` harness, done by an MPI.
 *
 *   rivals pingpong BATCHES TRIPS     8 bytes to and fro between two ranks, ns for one way
 *   rivals large BYTES BATCHES TRIPS  the sender rewrites all of its buffer, the receiver sums all of it
 *   rivals pairs BATCHES MILLIS       ranks 2i and 2i+1 ping-pong 8 bytes, all pairs at once
 *   rivals tagged BYTES BATCHES TRIPS 1
 *                                     stamped messages to and fro between two ranks, ns for one way
 *   rivals rate 8 BATCHES WINDOWS LENGTH
 *                                     8 bytes one way, LENGTH of them before each answer, ns for one
 *   rivals requests 8 BATCHES WINDOWS LENGTH
 *                                     the same by MPI_Isend, posted MPI_Irecv and MPI_Waitall
 *   rivals any 8 BATCHES WINDOWS LENGTH
 *                                     the same, the first 64 receives of each window by MPI_Waitany: ns for such a call
 *   rivals collective OPERATION BYTES BATCHES CALLS SINGLES
 *                                     by two ranks, ns for one: CALLS back to back by the slowest rank, then SINGLES
 *                                     that both begin at a moment: the longest stay of a rank, and from the last
 *                                     one in to the last one out
 *   rivals crowd OPERATION BYTES BATCHES MILLIS
 *                                     back to back as above, among ranks that share cores
 *   rivals start                      nothing
 *
 * Rank 0 prints one line: the median batch in nanoseconds (`collective`: two times more the middle of the singles),
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

/* Buffers that are used in turn, and the stamps on them, as in benches/ratios/party.rs and benches/src/content.rs. */
enum { TURNS = 4 };

static void *memory(size_t bytes) {
    void *p = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (!p) wrong("bytes of memory", 0, bytes);
    memset(p, 0, bytes);
    return p;
}
static size_t stamp_step(size_t words) { return words / 4 ? words / 4 : 1; }
static void stamp(uint64_t *words, size_t n, uint64_t mark) {
    for (size_t i = 0; i < n; i += stamp_step(n)) words[i] = mark;
    words[n - 1] = mark;
}
static void check_stamp(const uint64_t *words, size_t n, uint64_t mark) {
    uint64_t differences = words[n - 1] ^ mark;
    for (size_t i = 0; i < n; i += stamp_step(n)) differences |= words[i] ^ mark;
    if (differences) wrong("bits of the stamp that differ", differences, 0);
}
static uint64_t bits(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

/* --- messages --- */

static void exchange_stamped(uint64_t **out, uint64_t **in, int bytes, uint64_t first, long trips) {
    size_t n = bytes / 8;
    for (long i = 0; i < trips; i++) {
        uint64_t number = first + i, *to = out[number % TURNS], *from = in[number % TURNS];
        if (rank == 0) {
            stamp(to, n, number);
            MPI_Send(to, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(from, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_stamp(from, n, ~number);
        } else {
            MPI_Recv(from, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            check_stamp(from, n, number);
            stamp(to, n, ~number);
            MPI_Send(to, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
    }
}

static double tagged(int bytes, int batches, long trips) {
    double took[64];
    if (bytes == 8) return pingpong(batches, trips);
    uint64_t *out[TURNS], *in[TURNS];
    for (int t = 0; t < TURNS; t++) {
        out[t] = memory(bytes);
        in[t] = memory(bytes);
    }
    exchange_large(out[0], in[0], bytes, 0, 2);
    exchange_stamped(out, in, bytes, 0, trips);
    for (int b = 0; b < batches; b++) {
        double start = now_ns();
        exchange_stamped(out, in, bytes, (uint64_t)(b + 1) * trips, trips);
        took[b] = (now_ns() - start) / (2.0 * trips);
    }
    exchange_large(out[0], in[0], bytes, 0, 2);
    for (int t = 0; t < TURNS; t++) {
        free(out[t]);
        free(in[t]);
    }
    return median(took, batches);
}

/* One way, so many before each answer; at rank 0, ns for one. */
static double windows(long count, int length, int immediate) {
    enum { MOST = 1024 };
    static uint64_t number, messages[MOST];
    MPI_Request requests[MOST];
    if (length > MOST) wrong("the length of a window", length, MOST);
    double start = now_ns();
    for (long w = 0; w < count; w++) {
        uint64_t answer;
        for (int i = 0; i < length; i++) {
            if (rank == 0) messages[i] = number + i;
            if (immediate && rank == 0)
                MPI_Isend(&messages[i], 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
            else if (immediate)
                MPI_Irecv(&messages[i], 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
            else if (rank == 0)
                MPI_Send(&messages[i], 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
            else
                MPI_Recv(&messages[i], 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (immediate) MPI_Waitall(length, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) {
            MPI_Recv(&answer, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (answer != ~number) wrong("the answer", answer, ~number);
        } else {
            for (int i = 0; i < length; i++)
                if (messages[i] != number + i) wrong("a message of the window", messages[i], number + i);
            answer = ~number;
            MPI_Send(&answer, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        number += length;
    }
    return (now_ns() - start) / ((double)count * length);
}

static double rate(int batches, long count, int length) {
    double took[64], tried[2][3];
    for (int t = -1; t < 3; t++)
        for (int immediate = 0; immediate < 2; immediate++) {
            double each = windows(count, length, immediate);
            if (t >= 0) tried[immediate][t] = each;
        }
    int immediate = median(tried[1], 3) < median(tried[0], 3);
    MPI_Bcast(&immediate, 1, MPI_INT, 0, MPI_COMM_WORLD);
    for (int b = 0; b < batches; b++) took[b] = windows(count, length, immediate);
    return median(took, batches);
}

/* Windows of requests that are all waited for together; `anys` of the receives one by one before that. At rank 0, ns for
 * a message, or for one of these waits. */
static double requested(long count, int length, int anys) {
    static uint64_t number;
    uint64_t *messages = memory(sizeof *messages * length);
    MPI_Request *requests = memory(sizeof *requests * length);
    double start = now_ns(), waited = 0;
    for (long w = 0; w < count; w++) {
        uint64_t answer;
        for (int i = 0; i < length; i++) {
            if (rank == 0) {
                messages[i] = number + i;
                MPI_Isend(&messages[i], 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
            } else {
                MPI_Irecv(&messages[i], 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[i]);
            }
        }
        if (rank == 1 && anys) {
            double begin = now_ns();
            for (int i = 0; i < anys; i++) {
                int done;
                MPI_Waitany(length, requests, &done, MPI_STATUS_IGNORE);
            }
            waited += now_ns() - begin;
        }
        MPI_Waitall(length, requests, MPI_STATUSES_IGNORE);
        if (rank == 0) {
            MPI_Recv(&answer, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (answer != ~number) wrong("the answer", answer, ~number);
        } else {
            for (int i = 0; i < length; i++)
                if (messages[i] != number + i) wrong("a message of the window", messages[i], number + i);
            answer = ~number;
            MPI_Send(&answer, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        }
        number += length;
    }
    double each = (now_ns() - start) / ((double)count * length);
    if (anys) {
        each = waited / ((double)count * anys);
        MPI_Bcast(&each, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    }
    free(messages);
    free(requests);
    return each;
}

static double requests(int batches, long count, int length, int anys) {
    double took[64];
    if (anys > length) anys = length;
    requested(count, length, anys);
    for (int b = 0; b < batches; b++) took[b] = requested(count, length, anys);
    return median(took, batches);
}

/* --- collective operations --- */

typedef enum { BARRIER, BROADCAST, REDUCE, ALL_REDUCE, SCAN, GATHER, SCATTER, ALL_GATHER, ALL_TO_ALL, OPERATIONS } Operation;
static const char *const operation_names[] = {"barrier", "broadcast", "reduce",     "all-reduce", "scan",
                                              "gather",  "scatter",   "all-gather", "all-to-all"};

static Operation operation_named(const char *name) {
    Operation o = 0;
    while (o < OPERATIONS && strcmp(name, operation_names[o])) o++;
    if (o == OPERATIONS) wrong("the operation is none of", o, OPERATIONS);
    return o;
}

/* What a rank gives, and where it gets what the others give; or both in one place, `in`, where an operation can do
 * that: the faster of the two is measured. */
typedef struct {
    Operation operation;
    int bytes, in_place;
    uint64_t *out[TURNS], *in[TURNS];
    size_t words;
    uint64_t number;
} Turns;

static Turns turns_open(Operation operation, int bytes) {
    Turns t = {.operation = operation, .bytes = bytes, .words = bytes / 8};
    for (int i = 0; i < TURNS; i++) {
        t.out[i] = memory((size_t)bytes * ranks + 8);
        t.in[i] = memory((size_t)bytes * ranks + 8);
    }
    return t;
}
static void turns_close(Turns *t) {
    for (int i = 0; i < TURNS; i++) {
        free(t->out[i]);
        free(t->in[i]);
    }
}

/* What rank `from` gives to rank `to` in this call; of vectors that are added, what it gives, and the sum of the first
 * so many ranks. */
static uint64_t block_mark(const Turns *t, int from, int to) { return (t->number * ranks + from) * ranks + to; }
static uint64_t vector_mark(const Turns *t, int from) { return bits((double)(t->number + from)); }
static uint64_t sum_mark(const Turns *t, uint64_t of) { return bits((double)(of * t->number + of * (of - 1) / 2)); }

static inline void prepare(Turns *t) {
    size_t n = t->words;
    int turn = ++t->number % TURNS;
    uint64_t *own = t->in_place ? t->in[turn] : t->out[turn];
    switch (t->operation) {
    case BROADCAST:
        if (rank == 0) stamp(t->in[turn], n, t->number);
        break;
    case REDUCE:
    case ALL_REDUCE:
    case SCAN: stamp(own, n, vector_mark(t, rank)); break;
    case GATHER:
        if (rank == 0 && t->in_place)
            stamp(own, n, block_mark(t, rank, 0));
        else
            stamp(t->out[turn], n, block_mark(t, rank, 0));
        break;
    case ALL_GATHER: stamp(t->in_place ? own + rank * n : own, n, block_mark(t, rank, 0)); break;
    case SCATTER:
        for (int r = 0; rank == 0 && r < ranks; r++) stamp(t->out[turn] + r * n, n, block_mark(t, 0, r));
        break;
    case ALL_TO_ALL:
        for (int r = 0; r < ranks; r++) stamp(own + r * n, n, block_mark(t, rank, r));
        break;
    default: break;
    }
}

static inline void call(Turns *t) {
    int turn = t->number % TURNS, bytes = t->bytes, n = (int)t->words;
    void *out = t->out[turn], *in = t->in[turn], *given = t->in_place ? MPI_IN_PLACE : out;
    switch (t->operation) {
    case BARRIER: MPI_Barrier(MPI_COMM_WORLD); break;
    case BROADCAST: MPI_Bcast(in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD); break;
    case REDUCE:
        if (rank && t->in_place) given = in;
        MPI_Reduce(given, rank ? NULL : in, n, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
    case ALL_REDUCE: MPI_Allreduce(given, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case SCAN: MPI_Scan(given, in, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD); break;
    case GATHER:
        if (rank) given = out;
        MPI_Gather(given, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        break;
    case SCATTER:
        if (rank == 0 && t->in_place) in = MPI_IN_PLACE;
        MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
        break;
    case ALL_GATHER: MPI_Allgather(given, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD); break;
    case ALL_TO_ALL: MPI_Alltoall(given, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD); break;
    default: break;
    }
}

static inline void check_call(const Turns *t) {
    size_t n = t->words;
    const uint64_t *in = t->in[t->number % TURNS], *out = t->out[t->number % TURNS];
    switch (t->operation) {
    case BROADCAST: check_stamp(in, n, t->number); break;
    case REDUCE:
        if (rank == 0) check_stamp(in, n, sum_mark(t, ranks));
        break;
    case ALL_REDUCE: check_stamp(in, n, sum_mark(t, ranks)); break;
    case SCAN: check_stamp(in, n, sum_mark(t, rank + 1)); break;
    case GATHER:
        for (int r = 0; rank == 0 && r < ranks; r++) check_stamp(in + r * n, n, block_mark(t, r, 0));
        break;
    case ALL_GATHER:
        for (int r = 0; r < ranks; r++) check_stamp(in + r * n, n, block_mark(t, r, 0));
        break;
    case SCATTER: check_stamp(rank == 0 && t->in_place ? out : in, n, block_mark(t, 0, rank)); break;
    case ALL_TO_ALL:
        for (int r = 0; r < ranks; r++) check_stamp(in + r * n, n, block_mark(t, r, rank));
        break;
    default: break;
    }
}

/* That nobody leaves a barrier before all have come: by the clock, and not timed. */
static void check_barriers(void) {
    enum { TIMES = 200 };
    double begun[TIMES], ended[TIMES], last[TIMES], first[TIMES];
    for (int i = 0; i < TIMES; i++) {
        begun[i] = now_ns();
        MPI_Barrier(MPI_COMM_WORLD);
        ended[i] = now_ns();
    }
    MPI_Allreduce(begun, last, TIMES, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(ended, first, TIMES, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    for (int i = 0; i < TIMES; i++)
        if (first[i] < last[i]) wrong("a rank left a barrier before all had come", (uint64_t)first[i], (uint64_t)last[i]);
}

/* Of the slowest rank, at all of them. */
static double back_to_back(Turns *t, long calls) {
    double took, slowest;
    MPI_Barrier(MPI_COMM_WORLD);
    took = now_ns();
    for (long i = 0; i < calls; i++) {
        prepare(t);
        call(t);
        check_call(t);
    }
    took = (now_ns() - took) / calls;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Whether one buffer or two is faster. (Between the stamps vectors are 0, whatever is added to them in place.) */
static void choose_place(Turns *t, long calls) {
    double tried[2][3];
    if (t->operation == BARRIER || t->operation == BROADCAST) return;
    for (int i = -1; i < 3; i++)
        for (t->in_place = 0; t->in_place < 2; t->in_place++) {
            double each = back_to_back(t, calls);
            if (i >= 0) tried[t->in_place][i] = each;
        }
    /* The slowest rank's times, and so the same choice at all of them. */
    t->in_place = median(tried[1], 3) < median(tried[0], 3);
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

static void collective(Operation operation, int bytes, int batches, long calls, long singles, double value[3]) {
    Turns t = turns_open(operation, bytes);
    double took[64], reading = reading_ns();
    if (operation == BARRIER) check_barriers();
    back_to_back(&t, calls);
    choose_place(&t, calls);
    for (int b = 0; b < batches; b++) took[b] = back_to_back(&t, calls);
    value[0] = median(took, batches);

    double *stamps = malloc(2 * singles * sizeof *stamps);
    double *all = rank ? NULL : malloc(2 * singles * ranks * sizeof *all);
    for (long i = -calls; i < singles; i++) {
        prepare(&t);
        start_together();
        double begin = now_ns();
        call(&t);
        double end = now_ns();
        check_call(&t);
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

static double crowd(Operation operation, int bytes, int batches, double millis) {
    Turns t = turns_open(operation, bytes);
    double took[64];
    if (operation == BARRIER) check_barriers();
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
            if (b == -1) choose_place(&t, calls);
        }
    }
    turns_close(&t);
    return median(took, batches);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double value[3] = {0}, before = 0, after = 0;
    if (strcmp(mode, "start") == 0 && argc == 2) {
        MPI_Finalize();
        return 0;
    }
    int is_collective = strcmp(mode, "collective") == 0 || strcmp(mode, "crowd") == 0;
    int batches = argc > 2 + is_collective ? atoi(argv[argc > 4 ? 3 + is_collective : 2]) : 0;
    if (batches < 1 || batches > 64) wrong("batches, 1 to 64", batches, 1);
    pin();
    int two = ranks == 2, values = 1;
    if (strcmp(mode, "pairs") == 0 && argc == 4) {
        value[0] = pairs(batches, atof(argv[3]));
    } else if (strcmp(mode, "crowd") == 0 && argc == 6) {
        value[0] = crowd(operation_named(argv[2]), atoi(argv[3]), batches, atof(argv[5]));
    } else if (two && ((strcmp(mode, "pingpong") == 0 && argc == 4) || (strcmp(mode, "large") == 0 && argc == 5))) {
        probe_open();
        before = probe();
        value[0] = argc == 4 ? pingpong(batches, atol(argv[3])) : large(atoi(argv[2]), batches, atol(argv[4]));
        after = probe();
    } else if (two && argc == 6 && (strcmp(mode, "tagged") == 0 || strcmp(mode, "rate") == 0)) {
        probe_open();
        before = probe();
        value[0] = mode[0] == 't' ? tagged(atoi(argv[2]), batches, atol(argv[4]))
                                  : rate(batches, atol(argv[4]), atoi(argv[5]));
        after = probe();
    } else if (two && argc == 6 && (strcmp(mode, "requests") == 0 || strcmp(mode, "any") == 0)) {
        probe_open();
        before = probe();
        value[0] = requests(batches, atol(argv[4]), atoi(argv[5]), mode[0] == 'a' ? 64 : 0);
        after = probe();
    } else if (two && strcmp(mode, "collective") == 0 && argc == 7) {
        values = 3;
        probe_open();
        before = probe();
        collective(operation_named(argv[2]), atoi(argv[3]), batches, atol(argv[5]), atol(argv[6]), value);
        after = probe();
    } else {
        wrong("the mode or its arguments", argc, 0);
    }
    for (int i = 0; rank == 0 && i < values; i++) printf("%.3f ", value[i]);
    if (rank == 0) printf("%.3f %.3f\n", before, after);
    MPI_Finalize();
    return 0;
}
