/* Files: what ranks that are processes write and read, by one thread each, or by several. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

enum { THREADS = 3, ROWS = 6, COLUMNS = 5 };

static int rank, size, errors, last;
static MPI_File handled;

static void count_error(MPI_File *file, int *code, ...) {
    CHECK(*file == handled);
    errors++;
    last = *code;
    *code = MPI_SUCCESS;
}

/* Handlers of files, and what the functions return then. */
static void handlers(const char *name) {
    MPI_Errhandler mine, got;
    MPI_File file = MPI_FILE_NULL;
    MPI_File_create_errhandler(count_error, &mine);
    MPI_File_set_errhandler(MPI_FILE_NULL, mine);
    handled = MPI_FILE_NULL;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file) == MPI_SUCCESS);
    CHECK(errors == 1 && last == MPI_ERR_NO_SUCH_FILE && file == MPI_FILE_NULL);
    CHECK(MPI_File_delete(name, MPI_INFO_NULL) == MPI_SUCCESS && errors == 2);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS && errors == 3 && last == MPI_ERR_FILE);

    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                  MPI_INFO_NULL, &file);
    MPI_File_get_errhandler(file, &got);
    CHECK(got == mine);
    MPI_Errhandler_free(&got);
    handled = MPI_File_fromint(MPI_File_toint(file));
    CHECK(handled == file);
    CHECK(MPI_File_call_errhandler(file, 4711) == MPI_SUCCESS && errors == 4 && last == 4711);
    CHECK(MPI_File_seek(file, 0, 12345) == MPI_SUCCESS && errors == 5 && last == MPI_ERR_ARG);
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    MPI_Errhandler_free(&mine);
    CHECK(MPI_File_seek(file, 0, 12345) == MPI_ERR_ARG && errors == 5);
    MPI_File_close(&file);
    CHECK(file == MPI_FILE_NULL);
}

/* Each rank has some columns of a matrix, and all ranks read the rows. */
static void columns(MPI_Comm comm, const char *name) {
    int sizes[2] = {ROWS, COLUMNS * size}, parts[2] = {ROWS, COLUMNS}, starts[2] = {0, COLUMNS * rank};
    int own[ROWS][COLUMNS], *row = malloc(sizes[1] * sizeof *row), count;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Datatype part, etype, filetype;
    MPI_Offset displacement, bytes;
    MPI_Request request;
    MPI_Status status;
    MPI_File file;
    MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &part);
    MPI_Type_commit(&part);
    CHECK(MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                        &file) == MPI_SUCCESS);
    CHECK(MPI_File_set_view(file, 100, MPI_INT, part, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_get_view(file, &displacement, &etype, &filetype, representation);
    CHECK(displacement == 100 && etype == MPI_INT && !strcmp(representation, "native"));
    MPI_Type_free(&filetype);
    MPI_Type_free(&part);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) own[i][j] = i * sizes[1] + COLUMNS * rank + j;
    CHECK(MPI_File_iwrite_all(file, own, ROWS * COLUMNS, MPI_INT, &request) == MPI_SUCCESS);
    MPI_Wait(&request, &status);
    MPI_Get_count(&status, MPI_INT, &count);
    CHECK(count == ROWS * COLUMNS);
    MPI_Barrier(comm);
    MPI_File_set_view(file, 100, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    MPI_File_get_size(file, &bytes);
    CHECK(bytes == (MPI_Offset)(100 + ROWS * sizes[1] * sizeof(int)));
    for (int i = 0; i < ROWS; i++) {
        MPI_File_read_at_all_c(file, i * sizes[1], row, sizes[1], MPI_INT, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == sizes[1]);
        for (int j = 0; j < sizes[1]; j++) CHECK(row[j] == i * sizes[1] + j);
    }

    /* In turn, as often as there are rows. */
    MPI_Barrier(comm);
    for (int i = 0; i < ROWS; i++) CHECK(MPI_File_write_shared(file, &rank, 1, MPI_INT, &status) == MPI_SUCCESS);
    MPI_File_seek_shared(file, 0, MPI_SEEK_CUR);
    MPI_File_get_position_shared(file, &displacement);
    CHECK(displacement == ROWS * size);
    MPI_Barrier(comm);
    int *turns = calloc(size, sizeof *turns);
    for (int i = 0; i < ROWS; i++) {
        MPI_File_read_at(file, i * size, row, size, MPI_INT, MPI_STATUS_IGNORE);
        for (int j = 0; j < size; j++) turns[row[j]]++;
    }
    for (int j = 0; j < size; j++) CHECK(turns[j] == ROWS);
    MPI_File_write_ordered(file, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_Barrier(comm);
    MPI_File_read_at(file, ROWS * size, row, size, MPI_INT, MPI_STATUS_IGNORE);
    for (int j = 0; j < size; j++) CHECK(row[j] == j);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS);
    free(turns);
    free(row);
}

static MPI_Comm comms[THREADS];
static char *base;

static void *of_thread(void *number) {
    long thread = (long)number;
    char name[4096];
    snprintf(name, sizeof name, "%s-%ld", base, thread);
    for (int round = 0; round < 5; round++) columns(comms[thread], name);
    return NULL;
}

int main(int argc, char **argv) {
    int provided;
    pthread_t all[THREADS];
    CHECK(argc == 2);
    base = argv[1];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    handlers(base);
    columns(MPI_COMM_WORLD, base);
    for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (long i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, of_thread, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    MPI_Finalize();
    printf("good\n");
    return 0;
}
