// Errors come to the handler of the right object, with the right class and with what was wrong. The argument is what the
// ranks do. Each says what is not as it should be.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size, bad;

static void expect(int error, int class, const char *facts, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int found, length;
    MPI_Error_class(error, &found);
    MPI_Error_string(error, text, &length);
    if (found != class || !strstr(text, facts)) {
        printf("rank %d: %s: class %d instead of %d: %s\n", rank, what, found, class, text);
        bad++;
    }
}

static int refuse(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_ERR_INTERN;
}

static void attributes(void) {
    MPI_Comm comm;
    int key;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, NULL);
    MPI_Comm_set_attr(comm, key, NULL);
    expect(MPI_Comm_free(&comm), MPI_ERR_INTERN, "MPI_Comm_free", "free with a function that refuses");
    expect(MPI_Comm_disconnect(&comm), MPI_ERR_INTERN, "attribute", "disconnect with a function that refuses");
}

static void facts(void) {
    int number = 0;
    expect(MPI_Send(&number, 1, MPI_INT, size, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Send", "send to nobody");
    expect(MPI_Bcast(&number, -3, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "-3", "broadcast of a negative count");
    // What another error was about is not told.
    expect(MPI_ERR_TAG, MPI_ERR_TAG, "the tag is not valid", "a class without an error");
}

// Messages to this rank itself.
static void buffers(void) {
    enum { MOST = 1000 };
    static char buffer[MOST + MPI_BSEND_OVERHEAD], sent[2 * sizeof buffer], received[sizeof sent];
    MPI_Comm comm;
    MPI_Request request;
    void *place;
    int length;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    expect(MPI_Bsend(sent, 1, MPI_CHAR, 0, 0, comm), MPI_ERR_BUFFER, "MPI_Bsend", "send without a buffer");
    expect(MPI_Bsend(sent, 1, MPI_CHAR, MPI_PROC_NULL, 0, comm), MPI_SUCCESS, "", "send to nobody without a buffer");
    MPI_Buffer_attach(buffer, sizeof buffer);
    expect(MPI_Bsend(sent, sizeof sent, MPI_CHAR, 0, 0, comm), MPI_ERR_BUFFER, "", "send of too much");
    expect(MPI_Ibsend(sent, sizeof sent, MPI_CHAR, 0, 0, comm, &request), MPI_ERR_BUFFER, "", "begin to send too much");
    expect(MPI_Bsend(sent, MOST, MPI_CHAR, 0, 1, comm), MPI_SUCCESS, "", "send of what fits");
    MPI_Recv(received, sizeof received, MPI_CHAR, 0, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&place, &length);
    MPI_Comm_attach_buffer(comm, MPI_BUFFER_AUTOMATIC, 0);
    expect(MPI_Bsend(sent, sizeof sent, MPI_CHAR, 0, 1, comm), MPI_SUCCESS, "", "send with an automatic buffer");
    MPI_Recv(received, sizeof received, MPI_CHAR, 0, 1, comm, MPI_STATUS_IGNORE);
    MPI_Comm_detach_buffer(comm, &place, &length);
    MPI_Comm_free(&comm);
}

// The last rank ends all in the middle of a barrier, and the others go on.
static void aborted(void) {
    if (rank == size - 1) {
        usleep(100000);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    expect(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED, "MPI_Barrier", "barrier with one that aborts");
    expect(MPI_Finalize(), MPI_ERR_PROC_ABORTED, "", "end after one has aborted");
    printf("%s\n", bad ? "bad" : "good");
    exit(0);
}

// Rank 1 does not do what the others do.
static void different(const char *what) {
    int odd = rank == 1, vector[8] = {0}, all[8], counts[8], places[8], error = MPI_SUCCESS;
    for (int each = 0; each < 8; each++) counts[each] = 1, places[each] = each;
    if (!strcmp(what, "scan-op")) error = MPI_Scan(vector, all, 1, MPI_INT, odd ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
    if (!strcmp(what, "scan-count")) error = MPI_Scan(vector, all, 1 + odd, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(what, "exscan-op")) error = MPI_Exscan(vector, all, 1, MPI_INT, odd ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
    if (!strcmp(what, "scan-barrier"))
        error = odd ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Scan(vector, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (!strcmp(what, "gatherv-barrier"))
        error = odd ? MPI_Barrier(MPI_COMM_WORLD)
                    : MPI_Gatherv(vector, 1, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "reduce-op"))
        error = MPI_Reduce(vector, all, 1, MPI_INT, odd ? MPI_SUM : MPI_MAX, 0, MPI_COMM_WORLD);
    if (!strcmp(what, "pairs-root"))
        error = MPI_Reduce(vector, all, 1, MPI_2INT, MPI_MAXLOC, odd, MPI_COMM_WORLD);
    MPI_Request request = MPI_REQUEST_NULL;
    if (!strcmp(what, "iscan-op"))
        MPI_Iscan(vector, all, 1, MPI_INT, odd ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD, &request);
    if (!strcmp(what, "iscan-count"))
        MPI_Iscan(vector, all, 1 + odd, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (!strcmp(what, "iexscan-iscan")) {
        if (odd)
            MPI_Iscan(vector, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        else
            MPI_Iexscan(vector, all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    }
    if (!strcmp(what, "ireduce-op"))
        MPI_Ireduce(vector, all, 1, MPI_INT, odd ? MPI_BAND : MPI_BOR, 0, MPI_COMM_WORLD, &request);
    if (what[0] == 'i')
        error = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (!strcmp(what, "gatherv")) {
        error = MPI_Gatherv(vector, 1 + odd, MPI_INT, all, counts, places, MPI_INT, 0, MPI_COMM_WORLD);
    }
    if (!strcmp(what, "scatterv")) {
        counts[1] = 0;
        error = MPI_Scatterv(vector, counts, places, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    expect(error, MPI_ERR_NOT_SAME, "MPI_", what);
    // Calls that differ leave the communicator useless.
    printf("%s\n", bad ? "bad" : "good");
    fflush(stdout);
    MPI_Finalize();
    exit(0);
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    MPI_Init(&count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!strcmp(what, "aborted")) aborted();
    if (!strcmp(what, "fatal")) MPI_Send(NULL, -1, MPI_INT, 0, 0, (MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL), MPI_COMM_WORLD));
    if (*what) different(what);
    facts();
    buffers();
    attributes();
    printf("%s\n", bad ? "bad" : "good");
    MPI_Finalize();
    return 0;
}
