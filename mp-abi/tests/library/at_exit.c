/* Messages, a collective operation and the end of MPI in a function that the C library calls at exit. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static MPI_Comm copy;

static void finalize(void) {
    int rank, size, sum, from;
    MPI_Comm_rank(copy, &rank);
    MPI_Comm_size(copy, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, copy);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 5, &from, 1, MPI_INT, (rank + size - 1) % size, 5, copy,
                 MPI_STATUS_IGNORE);
    MPI_Comm_free(&copy);
    MPI_Finalize();
    if (sum == size * (size - 1) / 2 && from == (rank + size - 1) % size) puts("good");
    fflush(stdout);
}

int main(int argc, char **argv) {
    int one = 1, sum;
    atexit(finalize);
    MPI_Init(&argc, &argv);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    return 0;
}
