/* Sessions: several, one after the other and at once, before the world, with it, and without it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

static int called;

static void count_errors(MPI_Session *session, int *code, ...) {
    CHECK(*session != MPI_SESSION_NULL && *code == MPI_ERR_ARG);
    called++;
}

static MPI_Comm of_set(MPI_Session session, const char *set, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, set, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

static void use(MPI_Comm comm) {
    int rank, size, sum, from = -1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 7, &from, 1, MPI_INT, (rank + size - 1) % size, 7, comm,
                 MPI_STATUS_IGNORE);
    CHECK(from == (rank + size - 1) % size);
}

/* The even ranks and the odd ones. */
static void use_both(MPI_Session session) {
    MPI_Group all, groups[2];
    MPI_Comm inter;
    int rank, size, mine, got = -1;
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    MPI_Group_rank(all, &rank);
    MPI_Group_size(all, &size);
    if (size < 2) {
        MPI_Group_free(&all);
        return;
    }
    for (int odd = 0; odd < 2; odd++) {
        int range[1][3] = {{odd, odd + (size - 1 - odd) / 2 * 2, 2}};
        MPI_Group_range_incl(all, 1, range, &groups[odd]);
    }
    MPI_Intercomm_create_from_groups(groups[rank % 2], 0, groups[1 - rank % 2], 0, "even and odd", MPI_INFO_NULL,
                                     MPI_ERRORS_ARE_FATAL, &inter);
    mine = rank;
    MPI_Bcast(rank == 0 ? &mine : &got, 1, MPI_INT, rank == 0 ? MPI_ROOT : rank % 2 ? 0 : MPI_PROC_NULL, inter);
    CHECK(got == (rank % 2 ? 0 : -1));
    MPI_Comm_free(&inter);
    for (int odd = 0; odd < 2; odd++) MPI_Group_free(&groups[odd]);
    MPI_Group_free(&all);
}

static void run(int round) {
    MPI_Session session, other;
    MPI_Errhandler errhandler, same;
    MPI_Info info;
    MPI_Group group;
    char name[64], value[MPI_MAX_INFO_VAL], buffer[100];
    void *detached;
    int count, length, flag, size, world_size, code;
    MPI_Session_create_errhandler(count_errors, &errhandler);
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_FUNNELED");
    CHECK(MPI_Session_init(info, errhandler, &session) == MPI_SUCCESS);
    MPI_Info_free(&info);
    CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other) == MPI_SUCCESS && other != session);
    MPI_Session_get_info(session, &info);
    MPI_Info_get(info, "thread_level", MPI_MAX_INFO_VAL - 1, value, &flag);
    CHECK(flag && !strcmp(value, "MPI_THREAD_FUNNELED"));
    MPI_Info_free(&info);

    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
    CHECK(count == 2);
    for (int place = 0; place < count; place++) {
        length = 0;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, place, &length, NULL);
        CHECK(length == (place ? 11 : 12));
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, place, &length, name);
        CHECK(!strcmp(name, place ? "mpi://SELF" : "mpi://WORLD"));
        MPI_Session_get_pset_info(session, name, &info);
        MPI_Info_get(info, "mpi_size", MPI_MAX_INFO_VAL - 1, value, &flag);
        MPI_Info_free(&info);
        MPI_Group_from_session_pset(session, name, &group);
        MPI_Group_size(group, &size);
        CHECK(flag && atoi(value) == size && (!place || size == 1));
        if (!place) world_size = size;
        MPI_Group_free(&group);
    }

    called = 0;
    CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 2, &length, name) == MPI_ERR_ARG);
    CHECK(MPI_Group_from_session_pset(session, "mpi://NONE", &group) == MPI_ERR_ARG && called == 2);
    CHECK(MPI_Session_call_errhandler(session, MPI_ERR_ARG) == MPI_SUCCESS && called == 3);
    MPI_Session_get_errhandler(session, &same);
    CHECK(same == errhandler);
    MPI_Errhandler_free(&same);
    MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN);
    code = MPI_Session_get_pset_info(session, "mpi://NONE", &info);
    CHECK(code == MPI_ERR_ARG && called == 3);
    MPI_Errhandler_free(&errhandler);

    CHECK(MPI_Session_attach_buffer(session, buffer, sizeof buffer) == MPI_SUCCESS);
    CHECK(MPI_Session_attach_buffer(session, buffer, sizeof buffer) == MPI_ERR_BUFFER);
    MPI_Session_flush_buffer(session);
    CHECK(MPI_Session_detach_buffer(session, &detached, &length) == MPI_SUCCESS);
    CHECK(detached == buffer && length == sizeof buffer);

    /* Ranks use no, one or several sessions, and communicators of them together. */
    MPI_Comm all = of_set(session, "mpi://WORLD", "all"), self = of_set(other, "MPI://self", "self");
    MPI_Comm again = of_set(other, "mpi://WORLD", "again");
    MPI_Comm_size(all, &size);
    CHECK(size == world_size);
    MPI_Comm_size(self, &size);
    CHECK(size == 1);
    MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
    CHECK(MPI_Send(&size, 1, MPI_INT, 5, 0, self) == MPI_ERR_RANK);
    use(all);
    use(self);
    use(again);
    use_both(session);
    MPI_Comm_attach_buffer(all, MPI_BUFFER_AUTOMATIC, 0);
    int rank, got = -1;
    MPI_Comm_rank(all, &rank);
    MPI_Request requests[2];
    MPI_Irecv(&got, 1, MPI_INT, (rank + 1) % world_size, 1, all, &requests[0]);
    MPI_Bsend(&rank, 1, MPI_INT, (rank + world_size - 1) % world_size, 1, all);
    MPI_Comm_iflush_buffer(all, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(got == (rank + 1) % world_size);
    MPI_Comm_detach_buffer(all, &detached, &length);
    CHECK(detached == MPI_BUFFER_AUTOMATIC);
    MPI_Comm_free(&again);
    MPI_Comm_free(&self);
    /* A rank may have more sessions than others. */
    for (int extra = 0; extra < rank % 3 + round; extra++) {
        MPI_Session more;
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &more);
        self = of_set(more, "mpi://SELF", "more");
        use(self);
        MPI_Comm_free(&self);
        MPI_Session_finalize(&more);
    }
    MPI_Comm_free(&all);
    MPI_Session_finalize(&other);
    MPI_Session_finalize(&session);
    CHECK(session == MPI_SESSION_NULL);
}

int main(int argc, char **argv) {
    int flag, world = argc > 1 && !strcmp(argv[1], "world");
    MPI_Session early = MPI_SESSION_NULL;
    for (int round = 0; round < 2; round++) run(round);
    if (world) {
        MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &early);
        MPI_Initialized(&flag);
        CHECK(!flag);
        MPI_Init(&argc, &argv);
        run(2);
        use(MPI_COMM_WORLD);
        MPI_Finalize();
        MPI_Comm late = of_set(early, "mpi://WORLD", "late");
        use(late);
        MPI_Comm_free(&late);
        MPI_Session_finalize(&early);
        run(3);
        MPI_Finalized(&flag);
        CHECK(flag);
    } else {
        MPI_Initialized(&flag);
        CHECK(!flag);
    }
    puts("good");
    return 0;
}
