/* Messages whose sender writes them anew each time, beside messages that stay as they are, as in Intel's benchmarks.
 *
 *   INSTALL/bin/mpicc -O2 mp-abi/suite/rewritten.c -o /tmp/rewritten
 *   mp-abi/suite/imb --install INSTALL /tmp/rewritten
 *
 * INSTALL is what `cargo run --release -p mp-abi --example install -- INSTALL` has written. The output is of the form of
 * Intel's benchmarks. The time is that of an iteration: one message there and one back, or one each way at the same time,
 * together with the writing of what is sent.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORTEST = 16 << 10, LONGEST = 4 << 20, ROUNDS = 5 };

static char *sent, *received;
static int me;

/* One iteration, in which what is sent is written first if `value` is not negative. */
static void iterate(int both, int bytes, int value) {
    int other = 1 - me;
    if (both) {
        if (value >= 0) memset(sent, value, bytes);
        MPI_Sendrecv(sent, bytes, MPI_CHAR, other, 0, received, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        return;
    }
    if (me == 1) MPI_Recv(received, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (value >= 0) memset(sent, value, bytes);
    MPI_Send(sent, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD);
    if (me == 0) MPI_Recv(received, bytes, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Returns the best time of several rounds, in microseconds for one iteration. */
static double measure(int both, int bytes, int rewrite, int iterations) {
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        for (int i = 0; i < iterations; i++) iterate(both, bytes, rewrite ? i & 127 : -1);
        double each = (MPI_Wtime() - began) / iterations * 1e6;
        if (each < best) best = each;
    }
    return best;
}

int main(int argc, char **argv) {
    static const char *names[] = {"PingPong_kept", "PingPong_rewritten", "Sendrecv_kept", "Sendrecv_rewritten"};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    sent = calloc(LONGEST, 1);
    received = calloc(LONGEST, 1);
    for (int kind = 0; kind < 4; kind++) {
        if (me == 0) printf("# Benchmarking %s\n# #processes = 2\n#bytes #repetitions t[usec]\n", names[kind]);
        for (int bytes = SHORTEST; bytes <= LONGEST; bytes *= 2) {
            int iterations = (64 << 20) / bytes < 500 ? (64 << 20) / bytes : 500;
            double each = measure(kind / 2, bytes, kind % 2, iterations);
            if (me == 0) printf("%d %d %.2f\n", bytes, iterations, each);
        }
    }
    MPI_Finalize();
    return 0;
}
