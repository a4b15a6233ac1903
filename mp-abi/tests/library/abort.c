#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    printf("before");
    MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
    printf("after");
    return 0;
}
