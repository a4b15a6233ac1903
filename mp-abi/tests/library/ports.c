// Groups of ranks connect that have no communicator in common: by ports, by names, and by a socket.
#include <arpa/inet.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
    do                                                                        \
        if (!(condition)) {                                                   \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition);           \
            MPI_Abort(MPI_COMM_WORLD, 3);                                     \
        }                                                                     \
    while (0)
#define OK(call) CHECK((call) == MPI_SUCCESS)

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

// Each side sends its place in the world to the same place of the other side, as far as there is one.
static void use(MPI_Comm other) {
    int place, rank, size, theirs, got = -1;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &place));
    OK(MPI_Comm_rank(other, &rank));
    OK(MPI_Comm_size(other, &size));
    OK(MPI_Comm_remote_size(other, &theirs));
    if (rank < theirs) {
        OK(MPI_Sendrecv(&place, 1, MPI_INT, rank, 0, &got, 1, MPI_INT, rank, 0, other,
                        MPI_STATUS_IGNORE));
        CHECK(got >= 0 && got != place);
    }
    int one = 1, sum = 0;
    OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other));
    CHECK(sum == theirs);
}

// The even ranks accept, and the odd ones connect, twice by the same port. The first of the odd ones finds it by a name.
static void connect_halves(int rank) {
    MPI_Comm half, other;
    char port[MPI_MAX_PORT_NAME];
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name("halves", MPI_INFO_NULL, port));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int turn = 0; turn < 2; turn++) {
        if (rank % 2 == 0) {
            OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other));
        } else {
            if (rank == 1) OK(MPI_Lookup_name("halves", MPI_INFO_NULL, port));
            OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other));
        }
        use(other);
        OK(MPI_Comm_disconnect(&other));
        CHECK(other == MPI_COMM_NULL);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_Unpublish_name("halves", MPI_INFO_NULL, port));
        OK(MPI_Close_port(port));
    }
    OK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (rank % 2 == 1) {
        OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
        int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
        CHECK(class_of(code) == MPI_ERR_PORT && other == MPI_COMM_NULL);
    }
    OK(MPI_Comm_free(&half));
}

// Rank 0 accepts nobody, and closes its port while rank 1 waits for it.
static void give_up(int rank) {
    MPI_Comm other;
    MPI_Info info;
    char port[MPI_MAX_PORT_NAME];
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "timeout", "0.1"));
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
        // The first call is over. The second one comes.
        OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        usleep(50000);
        OK(MPI_Close_port(port));
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Send(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, 0, MPI_COMM_WORLD));
        // A call that was given up does not disturb the next one.
        OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        OK(MPI_Close_port(port));
    } else {
        OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(class_of(MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &other)) == MPI_ERR_PORT);
        OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
        CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)) ==
              MPI_ERR_PORT);
        OK(MPI_Recv(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(class_of(MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &other)) == MPI_ERR_PORT);
        OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
    }
    use(other);
    OK(MPI_Comm_free(&other));
    OK(MPI_Info_free(&info));
}

static void fail(void) {
    MPI_Comm other;
    char port[MPI_MAX_PORT_NAME], again[MPI_MAX_PORT_NAME];
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int turn = 0; turn < 3; turn++) {
        const char *bad[] = {"", "nonsense", "onchip:1.2:0:1"};
        CHECK(class_of(MPI_Comm_connect(bad[turn], MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)) ==
              MPI_ERR_PORT);
        CHECK(class_of(MPI_Comm_accept(bad[turn], MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)) ==
              MPI_ERR_PORT);
        CHECK(class_of(MPI_Close_port(bad[turn])) == MPI_ERR_PORT);
    }
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Open_port(MPI_INFO_NULL, again));
    CHECK(strcmp(port, again) != 0);
    OK(MPI_Close_port(again));
    CHECK(class_of(MPI_Close_port(again)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_accept(again, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)) ==
          MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other)) ==
          MPI_ERR_PORT);
    char name[32];
    int rank;
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    snprintf(name, sizeof name, "own %d", rank);
    CHECK(class_of(MPI_Lookup_name(name, MPI_INFO_NULL, again)) == MPI_ERR_NAME);
    CHECK(class_of(MPI_Unpublish_name(name, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    OK(MPI_Publish_name(name, MPI_INFO_NULL, port));
    CHECK(class_of(MPI_Publish_name(name, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
    OK(MPI_Lookup_name(name, MPI_INFO_NULL, again));
    CHECK(strcmp(port, again) == 0);
    OK(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
    OK(MPI_Close_port(port));
}

// The last two ranks have a socket.
static void join(int rank, int size) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int partner = rank == size - 1 ? size - 2 : size - 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (rank == size - 1) {
        CHECK(bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 1) == 0);
        CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
        OK(MPI_Send(&address.sin_port, 1, MPI_UINT16_T, partner, 0, MPI_COMM_WORLD));
        int from = fd;
        fd = accept(from, NULL, NULL);
        close(from);
    } else {
        OK(MPI_Recv(&address.sin_port, 1, MPI_UINT16_T, partner, 0, MPI_COMM_WORLD,
                    MPI_STATUS_IGNORE));
        CHECK(connect(fd, (struct sockaddr *)&address, length) == 0);
    }
    CHECK(fd >= 0);
    MPI_Comm other;
    OK(MPI_Comm_join(fd, &other));
    use(other);
    OK(MPI_Comm_disconnect(&other));
    // The socket is as before.
    int sent = rank, got = -1;
    CHECK(write(fd, &sent, sizeof sent) == sizeof sent && read(fd, &got, sizeof got) == sizeof got);
    CHECK(got == partner);
    close(fd);
}

// A process of another world is at the other end, as far as this one can see.
static void join_stranger(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    char stranger[80];
    memset(stranger, ' ', sizeof stranger);
    stranger[0] = '7';
    stranger[63] = stranger[79] = '\n';
    stranger[64] = '0';
    CHECK(write(ends[1], stranger, sizeof stranger) == sizeof stranger);
    MPI_Comm other;
    OK(MPI_Comm_join(ends[0], &other));
    CHECK(other == MPI_COMM_NULL);
    close(ends[1]);
    CHECK(class_of(MPI_Comm_join(ends[0], &other)) == MPI_ERR_OTHER);
    close(ends[0]);
}

int main(int argc, char **argv) {
    int rank, size;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    fail();
    join_stranger();
    if (size > 1) {
        connect_halves(rank);
        if (rank < 2) give_up(rank);
        if (rank >= size - 2) join(rank, size);
    }
    printf("good\n");
    return MPI_Finalize();
}
