/* The work of the `ratios` harness, done by processes that share a robust mutex of the system's.
 *
 *   mutex CLIENTS EVERY WARM_UP_US WINDOW_US WINDOWS
 *
 * Each client adds 1 to a number while it has the mutex, again and again, and counts what it gets done in windows of
 * time that are the same for all. Prints one line: how often all together did so in a second, by the median window,
 * and two zeros, since no raw ping-pong is taken. On wrong results it ends with status 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CLIENTS = 64, MOST_WINDOWS = 64 };

/* Later than all clients need to begin. */
static const uint64_t AHEAD_NS = 2000000;

typedef struct {
    _Alignas(128) pthread_mutex_t mutex;
    _Alignas(128) uint64_t count;
    struct {
        _Alignas(128) uint64_t windows[MOST_WINDOWS];
        uint64_t all;
    } clients[MOST_CLIENTS];
} Shared;

static void fail(const char *what) {
    fprintf(stderr, "mutex: %s\n", what);
    exit(1);
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static Shared *shared(void) {
    Shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    if (shared == MAP_FAILED) fail("no shared memory");
    if (pthread_mutexattr_init(&kind) || pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED)
        || pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST)
        || pthread_mutex_init(&shared->mutex, &kind))
        fail("no robust mutex");
    return shared;
}

static void run(Shared *shared, int me, uint64_t begin, const uint64_t plan[4]) {
    uint64_t every = plan[0], first = begin + 1000 * plan[1], window_ns = 1000 * plan[2];
    while (now_ns() < begin) {}
    for (;;) {
        for (uint64_t i = 0; i < every; i++) {
            if (pthread_mutex_lock(&shared->mutex)) fail("the mutex can't be taken");
            shared->count++;
            if (pthread_mutex_unlock(&shared->mutex)) fail("the mutex can't be given up");
        }
        shared->clients[me].all += every;
        uint64_t now = now_ns();
        if (now < first) continue;
        uint64_t window = (now - first) / window_ns;
        if (window >= plan[3]) return;
        shared->clients[me].windows[window] += every;
    }
}

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 6) fail("expected CLIENTS EVERY WARM_UP_US WINDOW_US WINDOWS");
    int clients = atoi(argv[1]);
    uint64_t plan[4];
    for (int i = 0; i < 4; i++) plan[i] = strtoull(argv[2 + i], NULL, 10);
    if (clients < 1 || clients > MOST_CLIENTS || !plan[0] || !plan[2]) fail("no such plan");
    if (plan[3] < 1 || plan[3] > MOST_WINDOWS) fail("no such number of windows");

    Shared *all = shared();
    uint64_t begin = now_ns() + AHEAD_NS;
    for (int me = 0; me < clients; me++) {
        pid_t child = fork();
        if (child < 0) fail("a client can't be started");
        if (child == 0) {
            run(all, me, begin, plan);
            _exit(0);
        }
    }
    for (int me = 0; me < clients; me++) {
        int status;
        if (wait(&status) < 0 || status) fail("a client failed");
    }
    uint64_t done = 0, windows[MOST_WINDOWS] = {0};
    for (int me = 0; me < clients; me++) {
        done += all->clients[me].all;
        for (uint64_t i = 0; i < plan[3]; i++) windows[i] += all->clients[me].windows[i];
    }
    if (done != all->count) fail("operations were lost");
    qsort(windows, plan[3], sizeof *windows, by_value);
    double middle = (windows[(plan[3] - 1) / 2] + windows[plan[3] / 2]) / 2.0;
    printf("%.1f 0 0\n", middle * 1e6 / plan[2]);
    return 0;
}
