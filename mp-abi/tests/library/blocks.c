#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The greatest length of a block. */
enum { MOST = 100000, RANKS = 3, FORMS = 3 };

static const char *const names[] = {
    "gatherv", "scatterv", "allgatherv", "alltoallv", "alltoallw", "neighbours", "own gatherv", "groups",
};
enum { CALLS = sizeof names / sizeof *names };

static int rank, size;
static char from[RANKS * MOST], to[RANKS * MOST];
static int sent_counts[RANKS], places[RANKS], starts[RANKS];
static MPI_Datatype types[RANKS];

static int wait_for(int code, MPI_Request *request, int is_persistent) {
    if (code == MPI_SUCCESS && is_persistent)
        code = MPI_Start(request);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(request, MPI_STATUS_IGNORE);
    if (*request != MPI_REQUEST_NULL)
        MPI_Request_free(request);
    return code;
}

#define ALL(...) __VA_ARGS__
#define THREE(blocking, nonblocking, persistent, arguments) \
    switch (form) { \
    case 0: return blocking(arguments, comm); \
    case 1: return wait_for(nonblocking(arguments, comm, &request), &request, 0); \
    default: return wait_for(persistent(arguments, comm, MPI_INFO_NULL, &request), &request, 1); \
    }

/* Rank 0 receives blocks in places of `room` bytes, or the last rank of a scatterv. */
static int call(int which, int form, MPI_Comm comm, int length, int room) {
    MPI_Request request = MPI_REQUEST_NULL;
    int is_root = rank == 0, own = is_root && which == 0 ? room : length;
    for (int i = 0; i < size; i++) {
        sent_counts[i] = length;
        places[i] = is_root ? room : length;
        starts[i] = i * MOST;
    }
    /* The own block fits. */
    if (is_root && (which == 2 || which == 3 || which == 4))
        places[0] = length;
    memset(from, 'a' + rank, sizeof from);
    memset(to, '.', sizeof to);
    switch (which) {
    case 0:
    case 6:
        THREE(MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init,
              ALL(from, own, MPI_BYTE, to, places, starts, MPI_BYTE, 0))
    case 1:
        own = rank == size - 1 ? room : length;
        THREE(MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init,
              ALL(from, sent_counts, starts, MPI_BYTE, to, own, MPI_BYTE, 0))
    case 2:
        THREE(MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init,
              ALL(from, length, MPI_BYTE, to, places, starts, MPI_BYTE))
    case 3:
        THREE(MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init,
              ALL(from, sent_counts, starts, MPI_BYTE, to, places, starts, MPI_BYTE))
    case 4:
        THREE(MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init,
              ALL(from, sent_counts, starts, types, to, places, starts, types))
    case 5:
        THREE(MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, MPI_Neighbor_allgatherv_init,
              ALL(from, length, MPI_BYTE, to, places, starts, MPI_BYTE))
    default:
        THREE(MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init,
              ALL(from, length, MPI_BYTE, to, places, starts, MPI_BYTE, is_root ? MPI_ROOT : 0))
    }
}

/* Makes a communicator for one call, because ranks that disagree can't go on with theirs. */
static MPI_Comm made_for(int which, MPI_Comm groups) {
    MPI_Comm comm;
    int periodic = 1;
    if (which == 5)
        MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &comm);
    else
        MPI_Comm_dup(which == 7 ? groups : MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return comm;
}

static void check(int which, int form, MPI_Comm groups, int length, int room) {
    MPI_Comm comm = made_for(which, groups);
    int receiver = which == 1 ? size - 1 : 0;
    /* Calls that fit come first, so that the lines between the ranks are not new. */
    for (int before = length % 3 * 40; before > 0; before--)
        if (call(which, form, comm, length, length) != MPI_SUCCESS) {
            printf("rank %d: %s, form %d: %d bytes do not fit\n", rank, names[which], form, length);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    int class = 0, code = call(which, form, comm, length, room);
    if (code != MPI_SUCCESS)
        MPI_Error_class(code, &class);
    if (rank == receiver && class != MPI_ERR_TRUNCATE) {
        printf("rank %d: %s, form %d: %d bytes in %d: class %d\n", rank, names[which], form, length, room, class);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    static const int lengths[][2] = {
        {8, 4}, {57, 56}, {200, 56}, {201, 199}, {3000, 2990}, {3001, 1000}, {100000, 99999}, {99999, 3000},
    };
    MPI_Comm half, groups;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < size; i++)
        types[i] = MPI_BYTE;
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank > 0 ? 0 : 1, 3, &groups);
    for (int which = 0; which < CALLS; which++)
        /* A root whose own block does not fit prepares nothing, and the others would wait for it. */
        for (int form = 0; form < (which == 6 ? 2 : FORMS); form++)
            for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
                check(which, form, groups, lengths[i][0], lengths[i][1]);
    MPI_Finalize();
    puts("good");
    return 0;
}
