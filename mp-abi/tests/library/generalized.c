#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)
#define GOOD(call) CHECK((call) == MPI_SUCCESS)

/* What the functions of a request have seen, and what they return. */
struct seen {
    int asked, freed, cancelled, code;
};

static int query(void *extra, MPI_Status *status) {
    struct seen *seen = extra;
    seen->asked++;
    GOOD(MPI_Status_set_elements(status, MPI_INT, 5));
    GOOD(MPI_Status_set_cancelled(status, seen->cancelled));
    status->MPI_SOURCE = 3;
    status->MPI_TAG = MPI_ANY_TAG;
    return seen->code;
}

static int release(void *extra) {
    ((struct seen *)extra)->freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int is_complete) {
    CHECK(!is_complete);
    ((struct seen *)extra)->cancelled = 1;
    return MPI_SUCCESS;
}

static MPI_Request start(struct seen *seen) {
    MPI_Request request;
    GOOD(MPI_Grequest_start(query, release, cancel, seen, &request));
    return request;
}

static void check_one(void) {
    struct seen seen = {0};
    MPI_Request request = start(&seen);
    MPI_Status status;
    int flag, count;
    GOOD(MPI_Test(&request, &flag, &status));
    CHECK(!flag && seen.asked == 0);
    GOOD(MPI_Cancel(&request));
    CHECK(seen.cancelled == 1);
    GOOD(MPI_Grequest_complete(request));
    GOOD(MPI_Request_get_status(request, &flag, &status));
    CHECK(flag && seen.asked == 1 && seen.freed == 0);
    GOOD(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL && seen.asked == 2 && seen.freed == 1);
    GOOD(MPI_Get_count(&status, MPI_INT, &count));
    GOOD(MPI_Test_cancelled(&status, &flag));
    CHECK(count == 5 && flag && status.MPI_SOURCE == 3 && status.MPI_TAG == MPI_ANY_TAG);
    CHECK(MPI_Grequest_complete(request) == MPI_ERR_REQUEST);
}

static void check_several(void) {
    struct seen seen = {0};
    int number = 0, seven = 7, index;
    MPI_Request requests[2] = {start(&seen), MPI_REQUEST_NULL};
    GOOD(MPI_Irecv(&number, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]));
    GOOD(MPI_Send(&seven, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
    GOOD(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
    CHECK(index == 1 && number == 7);
    GOOD(MPI_Grequest_complete(requests[0]));
    seen.code = 987654;
    CHECK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE) == 987654);
    CHECK(index == 0 && seen.freed == 1 && requests[0] == MPI_REQUEST_NULL);
    for (int later = 0; later < 2; later++) {
        MPI_Request request = start(&seen), copy = request;
        if (!later) GOOD(MPI_Grequest_complete(request));
        GOOD(MPI_Request_free(&request));
        if (later) {
            CHECK(seen.freed == 2);
            GOOD(MPI_Grequest_complete(copy));
        }
        CHECK(seen.freed == 2 + later);
    }
}

int main(int argc, char **argv) {
    int provided;
    GOOD(MPI_Init_thread(&argc, &argv, argc > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided));
    GOOD(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    GOOD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    check_one();
    check_several();
    GOOD(MPI_Finalize());
    puts("good");
    return 0;
}
