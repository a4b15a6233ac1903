/* Variables of tools, before MPI, with it, and after it. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)
#define GOOD(call) CHECK((call) == MPI_SUCCESS)

static int rank, size, is_multiple;
static MPI_T_pvar_session session;

static int control(const char *name) {
    int index;
    GOOD(MPI_T_cvar_get_index(name, &index));
    return index;
}

static MPI_T_cvar_handle open_control(const char *name, void *object, int count) {
    MPI_T_cvar_handle handle;
    int elements;
    GOOD(MPI_T_cvar_handle_alloc(control(name), object, &handle, &elements));
    CHECK(elements == count && handle != MPI_T_CVAR_HANDLE_NULL);
    return handle;
}

static MPI_T_pvar_handle open_variable(const char *name, int class) {
    MPI_T_pvar_handle handle;
    int index, count;
    GOOD(MPI_T_pvar_get_index(name, class, &index));
    GOOD(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    CHECK(count == 1);
    return handle;
}

/* Nothing can be asked before a tool has begun. */
static void check_closed(void) {
    int number;
    MPI_Count time;
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_pvar_session_create(&session) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_category_changed(&number) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_source_get_timestamp(0, &time) == MPI_T_ERR_NOT_INITIALIZED);
    CHECK(MPI_T_event_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
}

/* The settings that the environment has, which nobody can change any more. */
static void check_environment(void) {
    int verbosity, bind, scope, policy = -1, length = 9;
    char name[9], file[4096] = "";
    MPI_Datatype type;
    MPI_T_enum names;
    MPI_T_cvar_handle handle;
    GOOD(MPI_T_cvar_get_info(control("ONCHIP_WAIT"), NULL, NULL, &verbosity, &type, &names, NULL, NULL, &bind, &scope));
    CHECK(verbosity == MPI_T_VERBOSITY_USER_BASIC && type == MPI_INT);
    CHECK(bind == MPI_T_BIND_NO_OBJECT && scope == MPI_T_SCOPE_READONLY);
    handle = open_control("ONCHIP_WAIT", NULL, 1);
    GOOD(MPI_T_cvar_read(handle, &policy));
    CHECK(policy == 2);
    GOOD(MPI_T_enum_get_item(names, policy, &policy, name, &length));
    CHECK(policy == 2 && length == 5 && !strcmp(name, "park"));
    CHECK(MPI_T_cvar_write(handle, &policy) == MPI_T_ERR_CVAR_SET_NEVER);
    GOOD(MPI_T_cvar_handle_free(&handle));
    CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
    CHECK(MPI_T_cvar_handle_free(&handle) == MPI_T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_cvar_read(handle, &policy) == MPI_T_ERR_INVALID_HANDLE);
    handle = open_control("ONCHIP_CALIBRATION", NULL, 4096);
    GOOD(MPI_T_cvar_read(handle, file));
    CHECK(!strcmp(file, "/nowhere/costs.json"));
    CHECK(MPI_T_cvar_write(handle, file) == MPI_T_ERR_CVAR_SET_NEVER);
    GOOD(MPI_T_cvar_handle_free(&handle));
}

/* A limit that counts: with it, a message comes as an envelope. */
static void check_limit(MPI_T_cvar_handle limit) {
    MPI_T_pvar_handle handles[3];
    const char *names[3] = {"unexpected_messages", "unexpected_bytes", "most_unexpected_bytes"};
    int classes[3] = {MPI_T_PVAR_CLASS_LEVEL, MPI_T_PVAR_CLASS_LEVEL, MPI_T_PVAR_CLASS_GENERIC};
    unsigned long now[3], bytes = 0;
    char *data = calloc(1, 100000);
    for (int i = 0; i < 3; i++) handles[i] = open_variable(names[i], classes[i]);
    for (int round = 0; round < 2; round++) {
        GOOD(MPI_T_cvar_read(limit, &bytes));
        CHECK(bytes == (round == 0 ? 1000 : 10000000));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) {
            MPI_Request sent;
            MPI_Isend(data, 100000, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &sent);
            MPI_Send(data, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
            MPI_Wait(&sent, MPI_STATUS_IGNORE);
        } else if (rank == 0) {
            MPI_Recv(data, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < 3; i++) GOOD(MPI_T_pvar_read(session, handles[i], &now[i]));
            CHECK(now[0] == 1 && now[1] == (round == 0 ? 0 : 100000) && now[2] == now[1]);
            MPI_Recv(data, 100000, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int i = 0; i < 3; i++) GOOD(MPI_T_pvar_read(session, handles[i], &now[i]));
            CHECK(now[0] == 0 && now[1] == 0 && now[2] == (round == 0 ? 0 : 100000));
        }
        bytes = 10000000;
        GOOD(MPI_T_cvar_write(limit, &bytes));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    for (int i = 0; i < 3; i++) GOOD(MPI_T_pvar_handle_free(session, &handles[i]));
    free(data);
}

/* The ranks of a communicator compare their calls, or don't. */
static void check_comparison(void) {
    MPI_Comm comm;
    MPI_T_cvar_handle check;
    int value, sum, code;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    check = open_control("ONCHIP_CHECK", &comm, 1);
    for (value = 0; value < 2; value++) {
        int is_on = -1;
        GOOD(MPI_T_cvar_write(check, &value));
        GOOD(MPI_T_cvar_read(check, &is_on));
        CHECK(is_on == value);
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size * (size - 1) / 2);
    }
    value = 2;
    CHECK(MPI_T_cvar_write(check, &value) == MPI_T_ERR_INVALID);
    code = rank == 0 ? MPI_Barrier(comm) : MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(code != MPI_SUCCESS);
    GOOD(MPI_T_cvar_handle_free(&check));
    CHECK(MPI_T_cvar_handle_alloc(control("ONCHIP_CHECK"), NULL, &check, &value) == MPI_T_ERR_INVALID_HANDLE);
    MPI_Comm_free(&comm);
}

/* A rank that comes late makes others wait. */
static void check_waits(void) {
    MPI_T_pvar_handle waits = open_variable("message_waits", MPI_T_PVAR_CLASS_COUNTER);
    MPI_T_pvar_handle seconds = open_variable("message_wait_time", MPI_T_PVAR_CLASS_TIMER);
    unsigned long number = 7;
    double time = 7, began;
    GOOD(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    MPI_Barrier(MPI_COMM_WORLD);
    began = MPI_Wtime();
    if (rank == 1) {
        usleep(100000);
        MPI_Send(&rank, 1, MPI_INT, 0, 3, MPI_COMM_WORLD);
    } else if (rank == 0) {
        int from;
        MPI_Recv(&from, 1, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        began = MPI_Wtime() - began;
        GOOD(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
        GOOD(MPI_T_pvar_read(session, waits, &number));
        GOOD(MPI_T_pvar_readreset(session, seconds, &time));
        CHECK(number > 0 && time > 0.04 && time < began + 0.5);
        GOOD(MPI_T_pvar_read(session, seconds, &time));
        CHECK(time == 0);
    }
    GOOD(MPI_T_pvar_handle_free(session, &waits));
    GOOD(MPI_T_pvar_handle_free(session, &seconds));
}

static void check_memory(void) {
    MPI_T_pvar_handle used = open_variable("memory_in_use", MPI_T_PVAR_CLASS_LEVEL);
    MPI_T_pvar_handle touched = open_variable("memory_touched", MPI_T_PVAR_CLASS_GENERIC);
    MPI_T_pvar_handle crowded = open_variable("crowded", MPI_T_PVAR_CLASS_STATE);
    unsigned long bytes[2];
    int state = -1;
    GOOD(MPI_T_pvar_read(session, used, &bytes[0]));
    GOOD(MPI_T_pvar_read(session, touched, &bytes[1]));
    GOOD(MPI_T_pvar_read(session, crowded, &state));
    CHECK(bytes[0] > 0 && bytes[0] <= bytes[1] && (state == 0 || state == 1));
}

/* Another thread may read what is of the process, and what is of the rank if it may call MPI. */
static void *read_elsewhere(void *limit) {
    unsigned long bytes;
    int number;
    GOOD(MPI_T_cvar_get_num(&number));
    CHECK(MPI_T_cvar_read(*(MPI_T_cvar_handle *)limit, &bytes) == (is_multiple ? MPI_SUCCESS : MPI_T_ERR_NOT_ACCESSIBLE));
    return NULL;
}

int main(int argc, char **argv) {
    unsigned long bytes = 1000, before = 0;
    int provided;
    pthread_t thread;
    MPI_T_cvar_handle limit;
    is_multiple = argc > 1 && !strcmp(argv[1], "multiple");
    check_closed();
    GOOD(MPI_T_init_thread(MPI_THREAD_FUNNELED, &provided));
    CHECK(provided == MPI_THREAD_FUNNELED);
    GOOD(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    GOOD(MPI_T_pvar_session_create(&session));
    check_environment();
    limit = open_control("ONCHIP_UNEXPECTED", NULL, 1);
    CHECK(MPI_T_cvar_read(limit, &before) == MPI_T_ERR_NOT_ACCESSIBLE);
    GOOD(MPI_T_cvar_write(limit, &bytes));
    GOOD(MPI_T_cvar_read(limit, &before));
    CHECK(before == 1000);

    MPI_Init_thread(&argc, &argv, is_multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check_environment();
    if (size > 1) {
        check_limit(limit);
        check_comparison();
        check_waits();
    }
    check_memory();
    CHECK(!pthread_create(&thread, NULL, read_elsewhere, &limit) && !pthread_join(thread, NULL));
    MPI_Finalize();

    CHECK(MPI_T_cvar_read(limit, &bytes) == MPI_T_ERR_NOT_ACCESSIBLE);
    CHECK(MPI_T_cvar_write(limit, &bytes) == MPI_T_ERR_CVAR_SET_NOT_NOW);
    GOOD(MPI_T_finalize());
    check_environment();
    GOOD(MPI_T_pvar_session_free(&session));
    GOOD(MPI_T_finalize());
    check_closed();
    puts("good");
    return 0;
}
