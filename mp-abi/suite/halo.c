/* Messages between neighbours in a ring, in the ways in which programs exchange the edges of their parts. Prints rows like
 * those of IMB, so that `imb` compares libraries with it:
 *
 *   P=peers-work/mpich
 *   cc -O2 mp-abi/suite/halo.c -I $P/include $P/lib/libmpi.so.12 -Wl,--allow-shlib-undefined -o /tmp/halo
 *   mp-abi/suite/imb --install /tmp/onchip /tmp/halo
 *
 * A figure is the median over batches of the time of the slowest rank for one exchange, in microseconds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { LONGEST = 65536, BATCHES = 15, BATCH = 1000 };

static char sent[2 * LONGEST], received[2 * LONGEST];
static int left, right;

/* Posts two receives before it sends two messages. */
static void begin(int bytes, MPI_Request requests[4]) {
    MPI_Irecv(received, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(received + bytes, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Isend(sent, bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[2]);
    MPI_Isend(sent + bytes, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[3]);
}

/* All requests are waited for together. */
static void posted(int bytes) {
    MPI_Request requests[4];
    begin(bytes, requests);
    MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}

/* The same in one direction. */
static void posted_one(int bytes) {
    MPI_Request requests[2];
    MPI_Irecv(received, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

/* Each request is waited for by itself. */
static void one_by_one(int bytes) {
    MPI_Request requests[4];
    begin(bytes, requests);
    for (int request = 0; request < 4; request++)
        MPI_Wait(&requests[request], MPI_STATUS_IGNORE);
}

/* Only the sends are nonblocking. */
static void received_at_once(int bytes) {
    MPI_Request requests[2];
    MPI_Isend(sent, bytes, MPI_BYTE, right, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent + bytes, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv(received, bytes, MPI_BYTE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Recv(received + bytes, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static const struct {
    const char *name;
    void (*exchange)(int);
} ways[] = {
    {"Posted", posted},
    {"PostedOne", posted_one},
    {"OneByOne", one_by_one},
    {"ReceivedAtOnce", received_at_once},
};

static int compare(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    int rank, ranks;
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    left = (rank + ranks - 1) % ranks;
    right = (rank + 1) % ranks;
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++) {
        if (rank == 0)
            printf("# Benchmarking %s\n# #processes = %d\n#bytes #repetitions t[usec]\n", ways[way].name, ranks);
        for (int bytes = 0; bytes <= LONGEST; bytes = bytes ? 4 * bytes : 4) {
            double batches[BATCHES];
            int turns = bytes > 4096 ? BATCH / 10 : BATCH;
            for (int batch = -1; batch < BATCHES; batch++) {
                MPI_Barrier(MPI_COMM_WORLD);
                double time = MPI_Wtime();
                for (int turn = 0; turn < turns; turn++)
                    ways[way].exchange(bytes);
                time = (MPI_Wtime() - time) / turns * 1e6;
                MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
                if (batch >= 0)
                    batches[batch] = time;
            }
            qsort(batches, BATCHES, sizeof *batches, compare);
            if (rank == 0)
                printf("%d %d %.3f\n", bytes, turns, batches[BATCHES / 2]);
        }
    }
    MPI_Finalize();
    return 0;
}
