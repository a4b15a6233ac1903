/* Memory that processes access in each other: of the program, of MPI_Alloc_mem, and of windows. With an argument, rank 1
 * is killed with a lock, and the others get errors. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH 5000

static int rank, size, bad;

static void check(int holds, const char *what)
{
    if (!holds) {
        printf("rank %d: %s\n", rank, what);
        bad = 1;
    }
}

/* Each rank's memory is filled with its number by the rank before it, and then added to by all. */
static void use(MPI_Win window, int *memory, const char *kind)
{
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    static int numbers[LENGTH], got[LENGTH];
    MPI_Datatype every_second;
    int place, holds = 1;

    MPI_Type_vector(LENGTH / 2, 1, 2, MPI_INT, &every_second);
    MPI_Type_commit(&every_second);
    for (place = 0; place < LENGTH; place++) {
        numbers[place] = rank * LENGTH + place;
        memory[place] = -1;
    }
    MPI_Win_fence(0, window);
    MPI_Put(numbers, 1, every_second, next, 0, 1, every_second, window);
    MPI_Win_fence(0, window);
    for (place = 0; place < LENGTH; place++)
        holds = holds && memory[place] == (place % 2 ? -1 : before * LENGTH + place);
    check(holds, kind);
    MPI_Get(got, LENGTH, MPI_INT, next, 0, LENGTH, MPI_INT, window);
    MPI_Win_fence(0, window);
    for (place = 0; place < LENGTH; place++)
        holds = holds && got[place] == (place % 2 ? -1 : numbers[place]);
    check(holds, "what was read");
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    memset(memory, 0, LENGTH * sizeof(int));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < 30; round++) {
        int target = (rank + round) % size, one = 1, old, kind = MPI_LOCK_EXCLUSIVE;
        MPI_Win_lock(kind, target, 0, window);
        MPI_Get(&old, 1, MPI_INT, target, 0, 1, MPI_INT, window);
        MPI_Win_flush(target, window);
        old++;
        MPI_Put(&old, 1, MPI_INT, target, 0, 1, MPI_INT, window);
        MPI_Win_unlock(target, window);
        MPI_Win_lock_all(0, window);
        MPI_Accumulate(&one, 1, MPI_INT, target, 1, 1, MPI_INT, MPI_SUM, window);
        MPI_Fetch_and_op(&one, &old, MPI_INT, target, 2, MPI_SUM, window);
        MPI_Win_unlock_all(window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    check(memory[0] == 30 && memory[1] == 30 && memory[2] == 30, "what was added");
    MPI_Type_free(&every_second);
}

static void end_with_a_lock(void)
{
    MPI_Win window;
    int *memory, code;

    MPI_Win_allocate(64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1)
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        raise(SIGKILL);
    code = MPI_Win_lock(rank == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, 0, 0, window);
    printf("rank %d: %s\n", rank, code == MPI_ERR_PROC_ABORTED ? "lost" : "has the lock");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    MPI_Win window;
    int *memory, *own;
    MPI_Aint place, *places;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1) {
        end_with_a_lock();
        return 0;
    }

    own = malloc(LENGTH * sizeof(int));
    MPI_Win_create(own, LENGTH * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    use(window, own, "memory of the program");
    MPI_Win_free(&window);

    MPI_Alloc_mem(LENGTH * sizeof(int), MPI_INFO_NULL, &memory);
    MPI_Win_create(memory, LENGTH * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    use(window, memory, "memory of MPI_Alloc_mem");
    MPI_Win_free(&window);
    MPI_Free_mem(memory);

    MPI_Win_allocate(LENGTH * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    use(window, memory, "memory of a window");
    MPI_Win_free(&window);

    /* In a dynamic window, displacements are addresses. */
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_attach(window, own, LENGTH * sizeof(int));
    places = malloc(size * sizeof *places);
    MPI_Get_address(own, &place);
    MPI_Allgather(&place, 1, MPI_AINT, places, 1, MPI_AINT, MPI_COMM_WORLD);
    memset(own, 0, LENGTH * sizeof(int));
    MPI_Win_fence(0, window);
    for (int target = 0; target < size; target++) {
        int number = rank + 1;
        MPI_Accumulate(&number, 1, MPI_INT, target, places[target], 1, MPI_INT, MPI_SUM, window);
    }
    MPI_Win_fence(0, window);
    check(own[0] == size * (size + 1) / 2, "memory that is attached");
    MPI_Win_detach(window, own);
    MPI_Win_free(&window);

    free(places);
    free(own);
    MPI_Finalize();
    if (!bad)
        printf("good\n");
    return bad;
}
