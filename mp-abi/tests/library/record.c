// Each rank passes a number on, and all meet.
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, size, given, taken;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    given = rank;
    for (int round = 0; round < 3; round++) {
        MPI_Irecv(&taken, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &request);
        MPI_Send(&given, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        given = taken;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return given != (rank + size - 3 % size) % size;
}
