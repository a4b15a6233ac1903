// Starts further ranks, which are this program again with other arguments: spawn HOW CHILDREN.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
    do                                                                        \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);           \
            MPI_Abort(MPI_COMM_WORLD, 3);                                     \
        }                                                                     \
    while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

// Both sides send numbers across, merge, and part.
static void meet(MPI_Comm other, int is_child) {
    int rank, size, theirs, flag;
    OK(MPI_Comm_test_inter(other, &flag));
    CHECK(flag);
    OK(MPI_Comm_rank(other, &rank));
    OK(MPI_Comm_size(other, &size));
    OK(MPI_Comm_remote_size(other, &theirs));
    for (int to = 0; to < theirs; to++) {
        int mine[2] = {rank, is_child}, got[2] = {-1, -1};
        OK(MPI_Sendrecv(mine, 2, MPI_INT, to, 7, got, 2, MPI_INT, to, 7, other, MPI_STATUS_IGNORE));
        CHECK(got[0] == to && got[1] == !is_child);
    }
    // A message that is much longer than what a channel holds.
    const int length = 1 << 20;
    int *long_one = malloc(length * sizeof(int));
    if (rank == 0 && is_child) {
        for (int i = 0; i < length; i++) long_one[i] = 3 * i;
        OK(MPI_Send(long_one, length, MPI_INT, theirs - 1, 8, other));
    } else if (rank == size - 1 && !is_child) {
        MPI_Status status;
        OK(MPI_Recv(long_one, length, MPI_INT, MPI_ANY_SOURCE, 8, other, &status));
        CHECK(status.MPI_SOURCE == 0 && long_one[length - 1] == 3 * (length - 1));
    }
    free(long_one);
    MPI_Comm all;
    OK(MPI_Intercomm_merge(other, is_child, &all));
    int place, sum, expected = 0;
    OK(MPI_Comm_rank(all, &place));
    CHECK(place == rank + (is_child ? theirs : 0));
    OK(MPI_Allreduce(&place, &sum, 1, MPI_INT, MPI_SUM, all));
    for (int i = 0; i < size + theirs; i++) expected += i;
    CHECK(sum == expected);
    OK(MPI_Barrier(all));
    MPI_Comm copy;
    OK(MPI_Comm_dup(all, &copy));
    OK(MPI_Allreduce(&place, &sum, 1, MPI_INT, MPI_MAX, copy));
    CHECK(sum == size + theirs - 1);
    OK(MPI_Comm_free(&copy));
    OK(MPI_Comm_free(&all));
}

static void start(const char *program, char *how, int children, MPI_Comm *to) {
    char number[16];
    snprintf(number, sizeof number, "%d", children);
    char *arguments[] = {"child", how, number, NULL};
    int *codes = malloc(children * sizeof(int));
    memset(codes, 0xff, children * sizeof(int));
    OK(MPI_Comm_spawn(program, arguments, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, to, codes));
    for (int i = 0; i < children; i++) CHECK(codes[i] == MPI_SUCCESS);
    free(codes);
}

static void be_child(const char *program, char *how, int children) {
    MPI_Comm parent, again;
    OK(MPI_Comm_get_parent(&parent));
    OK(MPI_Comm_get_parent(&again));
    CHECK(parent != MPI_COMM_NULL && parent == again);
    int rank, size;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(size == children);
    if (strcmp(how, "killed") == 0) {
        // The parents wait for a message of this rank.
        if (rank == size - 1) abort();
        OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    meet(parent, 1);
    if (strcmp(how, "again") == 0) {
        MPI_Comm own;
        start(program, "once", 2, &own);
        meet(own, 0);
        OK(MPI_Comm_disconnect(&own));
    }
    OK(MPI_Comm_disconnect(&parent));
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    int sum;
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
}

// Two programs are started at once, which know which of them they are.
static void be_one_of(const char *name) {
    MPI_Comm parent;
    OK(MPI_Comm_get_parent(&parent));
    int rank, size, flag, *number;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
    CHECK(flag && size == 3 && *number == (rank > 0) && strcmp(name, rank > 0 ? "b" : "a") == 0);
    char folder[4096];
    CHECK(getcwd(folder, sizeof folder) != NULL);
    CHECK((strcmp(folder, "/") == 0) == (rank == 0));
    meet(parent, 1);
}

static void start_two(char *program) {
    MPI_Comm other;
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    OK(MPI_Info_create(&infos[0]));
    OK(MPI_Info_set(infos[0], "wdir", "/"));
    char *programs[2] = {program, program}, *a[] = {"one", "a", NULL}, *b[] = {"one", "b", NULL};
    char **arguments[2] = {a, b};
    int counts[2] = {1, 2}, codes[3];
    OK(MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_WORLD, &other,
                               codes));
    meet(other, 0);
    OK(MPI_Comm_free(&other));
    OK(MPI_Info_free(&infos[0]));
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void fail(char *program) {
    MPI_Comm other;
    int size, codes[3] = {0, 0, 0}, *universe, flag;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int code = MPI_Comm_spawn("/no/such/program", MPI_ARGV_NULL, 3, MPI_INFO_NULL, size - 1,
                              MPI_COMM_WORLD, &other, codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && other == MPI_COMM_NULL);
    for (int i = 0; i < 3; i++) CHECK(class_of(codes[i]) == MPI_ERR_SPAWN);
    code = MPI_Comm_spawn("no-such-program", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                          &other, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN);
    // There is a program, but not so much room.
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &universe, &flag));
    CHECK(flag && *universe > size);
    code = MPI_Comm_spawn(program, MPI_ARGV_NULL, *universe - size + 1, MPI_INFO_NULL, 0,
                          MPI_COMM_WORLD, &other, MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_SPAWN);
    code = MPI_Comm_spawn(program, MPI_ARGV_NULL, 0, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                          MPI_ERRCODES_IGNORE);
    CHECK(class_of(code) == MPI_ERR_ARG);
    // A program that ends without coming into the world.
    code = MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other,
                          codes);
    CHECK(class_of(code) == MPI_ERR_SPAWN && class_of(codes[0]) == MPI_ERR_SPAWN);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    CHECK(argc == 3 || (argc == 4 && strcmp(argv[1], "child") == 0));
    if (strcmp(argv[1], "child") == 0) {
        be_child(argv[0], argv[2], atoi(argv[3]));
        printf("child\n");
        return MPI_Finalize();
    }
    if (strcmp(argv[1], "one") == 0) {
        be_one_of(argv[2]);
        printf("child\n");
        return MPI_Finalize();
    }
    MPI_Comm other;
    OK(MPI_Comm_get_parent(&other));
    CHECK(other == MPI_COMM_NULL);
    if (strcmp(argv[1], "two") == 0) {
        start_two(argv[0]);
    } else if (strcmp(argv[1], "fail") == 0) {
        fail(argv[0]);
    } else {
        start(argv[0], argv[1], atoi(argv[2]), &other);
        if (strcmp(argv[1], "killed") == 0) {
            int rank, number;
            OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
            OK(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
            int code = MPI_Recv(&number, 1, MPI_INT, atoi(argv[2]) - 1, 7, other, MPI_STATUS_IGNORE);
            if (class_of(code) == MPI_ERR_PROC_ABORTED) printf("rank %d: lost\n", rank);
            return MPI_Finalize();
        }
        meet(other, 0);
        OK(MPI_Comm_disconnect(&other));
    }
    printf("parent\n");
    return MPI_Finalize();
}
