// Ranks do one thing for as long as nobody is killed. Rank 1 says its process, and one that gets an error says its
// class, if errors return.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 16 };

static int rank, size;
static const char *what;

// Says the process once, when the rank does what it is to be killed in, or is about to.
static void ready(void) {
    static int said;
    if (!said && rank == 1) {
        printf("process %ld\n", (long)getpid());
        fflush(stdout);
    }
    said = 1;
}

static int receive(void) {
    int number;
    ready();
    return MPI_Recv(&number, 1, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Rank 1 sends nothing and gets nothing, and no rank sends to itself. So the others' wait for all messages can't end well.
static int complete_all(void) {
    MPI_Request *requests = malloc(2 * (size_t)size * sizeof *requests);
    MPI_Status *statuses = malloc(2 * (size_t)size * sizeof *statuses);
    int *numbers = malloc((size_t)size * sizeof *numbers), error, kind, count = 0, bad = 0;
    for (int from = 0; from < size; from++)
        MPI_Irecv(&numbers[from], 1, MPI_INT, from, 1 + (rank == 1), MPI_COMM_WORLD, &requests[count++]);
    for (int to = 0; to < size; to++)
        if (rank != 1 && to != rank) MPI_Isend(&rank, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[count++]);
    // A send that begins after the kill would fail, too.
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    error = MPI_Waitall(count, requests, statuses);
    MPI_Error_class(error, &kind);
    if (kind != MPI_ERR_IN_STATUS) return error;
    for (int place = 0; place < count; place++) {
        int from_lost = place == 1, from_itself = place == rank;
        MPI_Error_class(statuses[place].MPI_ERROR, &kind);
        if (from_lost) error = statuses[place].MPI_ERROR;
        else bad += kind != (from_itself ? MPI_ERR_PENDING : MPI_SUCCESS);
        bad += (requests[place] == MPI_REQUEST_NULL) == from_itself;
    }
    return bad == 0 ? error : MPI_ERR_OTHER;
}

// Sums of all lengths are made.
static int reduce(void) {
    static int from[COUNT], to[COUNT];
    int error = MPI_SUCCESS;
    for (int round = 0; error == MPI_SUCCESS; round++) {
        if (round == 3) ready();
        error = MPI_Allreduce(from, to, round % COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    return error;
}

static int window(int (*then)(MPI_Win, int *)) {
    MPI_Win win;
    int *memory;
    MPI_Win_allocate(COUNT * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    if (what[0] == '+') MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    return then(win, memory);
}

// Rank 1 keeps a lock that the others wait for.
static int keep(MPI_Win win, int *memory) {
    int error;
    (void)memory;
    if (rank == 1) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    ready();
    if (rank == 1) for (;;) pause();
    error = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    return error == MPI_SUCCESS ? MPI_Barrier(MPI_COMM_WORLD) : error;
}

// All put and fetch under locks. Rank 1 may have one when it is killed, or wait for one, or neither.
static int lock(MPI_Win win, int *memory) {
    int one = 1, before, error = MPI_SUCCESS;
    for (int round = 0; error == MPI_SUCCESS; round++) {
        if (round == 3) ready();
        error = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, round % size, 0, win);
        if (error == MPI_SUCCESS)
            error = MPI_Put(memory, round % 1000, MPI_INT, round % size, 0, round % 1000, MPI_INT, win);
        if (error == MPI_SUCCESS) error = MPI_Win_unlock(round % size, win);
        if (error == MPI_SUCCESS) error = MPI_Win_lock_all(0, win);
        if (error == MPI_SUCCESS) error = MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 0, MPI_SUM, win);
        if (error == MPI_SUCCESS) error = MPI_Win_unlock_all(win);
    }
    return error;
}

// All write a megabyte each, again and again.
static int write_file(const char *name) {
    static char text[COUNT * 16];
    int error;
    MPI_File file;
    error = MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE,
                          MPI_INFO_NULL, &file);
    if (what[0] == '+') MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
    else MPI_File_set_errhandler(file, MPI_ERRORS_ARE_FATAL);
    for (int round = 0; error == MPI_SUCCESS; round++) {
        if (round == 3) ready();
        error = MPI_File_write_at_all(file, (MPI_Offset)rank * sizeof text, text, (int)sizeof text, MPI_BYTE,
                                      MPI_STATUS_IGNORE);
        if (error == MPI_SUCCESS) error = MPI_Barrier(MPI_COMM_WORLD);
    }
    return error;
}

// Programs are started one after the other, with this rank as one of the parents.
static int start(const char *program) {
    char *arguments[] = {"child", NULL};
    int error = MPI_SUCCESS;
    MPI_Comm children;
    for (int round = 0; error == MPI_SUCCESS; round++) {
        if (round == 1) ready();
        error = MPI_Comm_spawn(program, arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        if (error == MPI_SUCCESS) {
            if (what[0] == '+') MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN);
            error = MPI_Comm_disconnect(&children);
        }
    }
    return error;
}

// The others make no call for a while, and rank 1 makes none.
static int compute(void) {
    volatile double sum = 0;
    ready();
    for (long i = 1; i < 50000000 || rank == 1; i++) sum += 1.0 / (double)i;
    return MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **words) {
    int error, class;
    MPI_Comm parent;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    what = words[1];
    if (!strcmp(what, "child")) {
        MPI_Comm_get_parent(&parent);
        MPI_Comm_disconnect(&parent);
        return MPI_Finalize();
    }
    if (what[0] == '+') MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Barrier(MPI_COMM_WORLD);
    const char *name = what + (what[0] == '+');
    if (!strcmp(name, "receive")) error = receive();
    else if (!strcmp(name, "waitall")) error = complete_all();
    else if (!strcmp(name, "reduce")) error = reduce();
    else if (!strcmp(name, "keep")) error = window(keep);
    else if (!strcmp(name, "lock")) error = window(lock);
    else if (!strcmp(name, "write")) error = write_file(words[2]);
    else if (!strcmp(name, "spawn")) error = start(words[0]);
    else error = compute();
    MPI_Error_class(error, &class);
    char text[MPI_MAX_ERROR_STRING];
    MPI_Error_string(error, text, &count);
    printf("rank %d: %s\n", rank, class == MPI_ERR_PROC_ABORTED ? "lost" : text);
    fflush(stdout);
    return 1;
}
