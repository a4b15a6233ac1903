// Each rank passes numbers on, and all do something together. Then rank 1 ends as its argument says, and the others wait
// for it, or all come to the end.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void end(const char *how) {
    if (!strcmp(how, "killed")) raise(SIGKILL);
    if (!strcmp(how, "crashed")) raise(SIGSEGV);
    if (!strcmp(how, "exited")) _Exit(3);
    if (!strcmp(how, "aborted")) MPI_Abort(MPI_COMM_WORLD, 5);
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "";
    int rank, size, given[4], taken[4], back[12];
    MPI_Request requests[2];
    MPI_Win window;
    MPI_Comm turned;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    memset(given, 0, sizeof given);
    for (int round = 0; round < 3; round++) {
        MPI_Irecv(taken, 4, MPI_INT, last, 7, MPI_COMM_WORLD, &requests[0]);
        MPI_Send(given, 3, MPI_INT, next, 7, MPI_COMM_WORLD);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Irecv(taken, 4, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(given, 2, MPI_INT, next, 8, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Sendrecv(given, 1, MPI_INT, next, 9, taken, 4, MPI_INT, last, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);

    // In this communicator, the ranks are in the opposite order.
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
    MPI_Comm_set_name(turned, "turned \"round\"");
    MPI_Bcast(given, 4, MPI_INT, 0, turned);
    MPI_Allreduce(MPI_IN_PLACE, given, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Alltoall(back, 1, MPI_INT, back + size, 1, MPI_INT, MPI_COMM_WORLD);
    MPI_Gather(given, 2, MPI_INT, back, 2, MPI_INT, 1, MPI_COMM_WORLD);
    if (rank == 0) MPI_Send(given, 1, MPI_INT, 0, 1, turned);
    if (rank == size - 1) MPI_Recv(taken, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, turned, MPI_STATUS_IGNORE);

    MPI_Win_create(back, sizeof back, sizeof(int), MPI_INFO_NULL, turned, &window);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Put(given, 1, MPI_INT, 0, rank, 1, MPI_INT, window);
    MPI_Win_unlock(0, window);
    MPI_Win_free(&window);

    if (*how && rank == 1) end(how);
    if (*how) MPI_Recv(taken, 4, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
