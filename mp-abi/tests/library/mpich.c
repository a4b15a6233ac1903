/* A program for MPICH's ABI. What it needs of that is declared here, so that it is built without MPICH. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Comm, Datatype, Op, Group, Request, Message, Errhandler, Info;
typedef intptr_t Aint;
typedef void *File;
typedef struct {
    int count_low, count_high_and_cancelled, source, tag, error;
} Status;

enum {
    WORLD = 0x44000000,
    SELF = 0x44000001,
    COMM_NULL = 0x04000000,
    GROUP_NULL = 0x08000000,
    GROUP_EMPTY = 0x48000000,
    REQUEST_NULL = 0x2c000000,
    MESSAGE_NULL = 0x2c000000,
    DATATYPE_NULL = 0x0c000000,
    OP_NULL = 0x18000000,
    INFO_NULL = 0x1c000000,
    ERRHANDLER_NULL = 0x14000000,
    ERRORS_ARE_FATAL = 0x54000000,
    ERRORS_RETURN = 0x54000001,
    KEYVAL_INVALID = 0x24000000,
    TAG_UB = 0x64400001,
    IO = 0x64400005,
    LASTUSEDCODE = 0x6440000b,
    CHAR = 0x4c000101,
    INT = 0x4c000405,
    DOUBLE = 0x4c00080b,
    TWO_INTS = 0x4c000816,
    SUM = 0x58000003,
    MAX = 0x58000001,
    MAXLOC = 0x5800000c,
    ANY_SOURCE = -2,
    PROC_NULL = -1,
    ANY_TAG = -1,
    UNDEFINED = -32766,
    LAST_CODE = 0x3fffffff,
    ERR_TAG = 4,
    ERR_RANK = 6,
    ERR_GROUP = 8,
    ERR_ARG = 12,
    ERR_NO_SUCH_FILE = 37,
    CREATE = 1,
    RDONLY = 2,
    RDWR = 8,
    DELETE_ON_CLOSE = 16,
    SEEK_FROM_HERE = 602,
    SEEK_TO_END = 604,
    ERR_TRUNCATE = 14,
    ERR_IN_STATUS = 17,
    ERR_REQUEST = 19,
    ERR_UNSUPPORTED_OPERATION = 44,
    T_ERR_NOT_INITIALIZED = 60,
    T_ERR_INVALID_INDEX = 62,
    T_ERR_INVALID_HANDLE = 64,
    T_ERR_INVALID_NAME = 73
};
/* Direct handles of pairs have the highest bit. */
#define SHORT_INT ((Datatype)0x8c000003)

#define IN_PLACE ((void *)-1)
#define STATUS_IGNORE ((Status *)1)

extern int *const MPI_UNWEIGHTED, *const MPI_WEIGHTS_EMPTY;
extern int *MPI_F_STATUS_IGNORE;
extern void *const MPI_T_PVAR_ALL_HANDLES;
typedef int Copy(int, int, void *, void *, void *, int *);
typedef int Delete(int, int, void *, void *);
typedef void Combine(void *, void *, int *, Datatype *);
typedef void Handle_error(int *, int *, ...);
Copy MPIR_Dup_fn;

int MPI_T_init_thread(int, int *), MPI_T_finalize(void), MPI_T_cvar_get_num(int *), MPI_Info_free(Info *);
int MPI_T_cvar_get_index(const char *, int *), MPI_T_cvar_handle_alloc(int, void *, void **, int *);
int MPI_T_cvar_get_info(int, char *, int *, int *, Datatype *, void **, char *, int *, int *, int *);
int MPI_T_cvar_read(void *, void *), MPI_T_cvar_handle_free(void **), MPI_T_pvar_get_index(const char *, int, int *);
int MPI_T_pvar_get_info(int, char *, int *, int *, int *, Datatype *, void **, char *, int *, int *, int *, int *, int *);
int MPI_T_pvar_session_create(void **), MPI_T_pvar_session_free(void **), MPI_T_pvar_handle_free(void *, void **);
int MPI_T_pvar_handle_alloc(void *, int, void *, void **, int *), MPI_T_pvar_start(void *, void *);
int MPI_T_pvar_stop(void *, void *), MPI_T_event_callback_get_info(void *, int, Info *);
int MPI_T_source_get_info(int, char *, int *, char *, int *, int *, long long *, long long *, Info *);
int MPI_T_event_get_info(int, char *, int *, int *, Datatype *, Aint *, int *, void **, Info *, char *, int *, int *);
int MPI_Init_thread(int *, char ***, int, int *), MPI_Query_thread(int *), MPI_Finalize(void);
int MPI_Comm_rank(Comm, int *), MPI_Comm_size(Comm, int *), MPI_Comm_free(Comm *), MPI_Comm_dup(Comm, Comm *);
int MPI_Comm_idup(Comm, Comm *, Request *), MPI_Comm_split(Comm, int, int, Comm *);
int MPI_Comm_compare(Comm, Comm, int *), MPI_Comm_group(Comm, Group *), MPI_Comm_create(Comm, Group, Comm *);
int MPI_Comm_split_type(Comm, int, int, Info, Comm *), MPI_Comm_c2f(Comm), MPI_Comm_toint(Comm);
Comm MPI_Comm_f2c(int);
int MPI_Group_free(Group *), MPI_Group_compare(Group, Group, int *), MPI_Group_incl(Group, int, const int *, Group *);
int MPI_Group_translate_ranks(Group, int, const int *, Group, int *), MPI_Group_rank(Group, int *);
int MPI_Send(const void *, int, Datatype, int, int, Comm), MPI_Recv(void *, int, Datatype, int, int, Comm, Status *);
int MPI_Isend(const void *, int, Datatype, int, int, Comm, Request *);
int MPI_Irecv(void *, int, Datatype, int, int, Comm, Request *), MPI_Probe(int, int, Comm, Status *);
int MPI_Send_init(const void *, int, Datatype, int, int, Comm, Request *), MPI_Startall(int, Request *);
int MPI_Recv_init(void *, int, Datatype, int, int, Comm, Request *), MPI_Request_free(Request *);
int MPI_Sendrecv(const void *, int, Datatype, int, int, void *, int, Datatype, int, int, Comm, Status *);
int MPI_Wait(Request *, Status *), MPI_Waitall(int, Request *, Status *), MPI_Test(Request *, int *, Status *);
int MPI_Waitany(int, Request *, int *, Status *), MPI_Waitsome(int, Request *, int *, int *, Status *);
int MPI_Cancel(Request *), MPI_Test_cancelled(const Status *, int *), MPI_Get_count(const Status *, Datatype, int *);
int MPI_Get_elements(const Status *, Datatype, int *), MPI_Status_set_cancelled(Status *, int);
int MPI_Status_set_elements(Status *, Datatype, int), MPI_Status_c2f(const Status *, int *);
int MPI_Mprobe(int, int, Comm, Message *, Status *), MPI_Mrecv(void *, int, Datatype, Message *, Status *);
int MPI_Allreduce(const void *, void *, int, Datatype, Op, Comm);
int MPI_Iallreduce(const void *, void *, int, Datatype, Op, Comm, Request *);
int MPI_Alltoallw(const void *, const int *, const int *, const Datatype *, void *, const int *, const int *, const Datatype *, Comm);
int MPI_Op_create(Combine *, int, Op *), MPI_Op_free(Op *);
int MPI_Type_contiguous(int, Datatype, Datatype *), MPI_Type_commit(Datatype *), MPI_Type_free(Datatype *);
int MPI_Type_dup(Datatype, Datatype *), MPI_Type_size(Datatype, int *);
int MPI_Type_create_subarray(int, const int *, const int *, const int *, int, Datatype, Datatype *);
int MPI_Type_create_darray(int, int, int, const int *, const int *, const int *, const int *, int, Datatype, Datatype *);
int MPI_Type_struct(int, const int *, const Aint *, const Datatype *, Datatype *), MPI_Type_extent(Datatype, Aint *);
int MPI_Type_get_envelope(Datatype, int *, int *, int *, int *), MPI_Address(const void *, Aint *);
int MPI_Type_get_contents(Datatype, int, int, int, int *, Aint *, Datatype *), MPI_Type_match_size(int, int, Datatype *);
int MPI_Comm_create_keyval(Copy *, Delete *, int *, void *), MPI_Comm_free_keyval(int *);
int MPI_Comm_set_attr(Comm, int, void *), MPI_Comm_get_attr(Comm, int, void *, int *), MPI_Comm_delete_attr(Comm, int);
int MPI_Type_create_keyval(Copy *, Delete *, int *, void *), MPI_Type_set_attr(Datatype, int, void *);
int MPI_Type_get_attr(Datatype, int, void *, int *), MPI_Type_free_keyval(int *);
int MPI_Comm_create_errhandler(Handle_error *, Errhandler *), MPI_Comm_set_errhandler(Comm, Errhandler);
int MPI_Comm_get_errhandler(Comm, Errhandler *), MPI_Errhandler_free(Errhandler *), MPI_Errhandler_set(Comm, Errhandler);
int MPI_Comm_call_errhandler(Comm, int), MPI_Error_class(int, int *), MPI_Add_error_class(int *);
int MPI_Add_error_code(int, int *), MPI_Error_string(int, char *, int *);
int MPI_Cart_create(Comm, int, const int *, const int *, int, Comm *), MPI_Cart_shift(Comm, int, int, int *, int *);
int MPI_Topo_test(Comm, int *), MPI_Barrier(Comm), MPI_Abi_get_version(int *, int *);
int MPI_Dist_graph_create_adjacent(Comm, int, const int *, const int *, int, const int *, const int *, Info, int, Comm *);
int MPI_Dist_graph_neighbors_count(Comm, int *, int *, int *);
int MPI_Dist_graph_neighbors(Comm, int, int *, int *, int, int *, int *);
typedef int Convert(void *, Datatype, int, void *, int64_t, void *);
int MPI_File_open(Comm, const char *, int, Info, File *), MPI_File_close(File *), MPI_File_get_amode(File, int *);
int MPI_File_write_at_all(File, int64_t, const void *, int, Datatype, Status *), MPI_File_c2f(File);
int MPI_File_read(File, void *, int, Datatype, Status *), MPI_File_read_at(File, int64_t, void *, int, Datatype, Status *);
int MPI_File_seek(File, int64_t, int), MPI_File_get_position(File, int64_t *), MPI_File_get_atomicity(File, int *);
int MPI_File_set_view(File, int64_t, Datatype, Datatype, const char *, Info);
int MPI_Register_datarep(const char *, Convert *, Convert *, int (*)(Datatype, Aint *, void *), void *);
int MPI_File_create_errhandler(void (*)(File *, int *, ...), Errhandler *), MPI_File_set_errhandler(File, Errhandler);
File MPI_File_f2c(int);

static int rank, size;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("rank %d, line %d: %s\n", rank, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)
#define GOOD(call) CHECK((call) == 0)

static void check_messages(void) {
    int here = rank, there = -5, count, left = (rank + size - 1) % size, right = (rank + 1) % size, flag;
    Status status = {9, 9, 9, 9, 77}, statuses[20];
    Request requests[20];
    GOOD(MPI_Sendrecv(&here, 1, INT, right, 7, &there, 1, INT, ANY_SOURCE, ANY_TAG, WORLD, &status));
    CHECK(there == left && status.source == left && status.tag == 7 && status.error == 77);
    CHECK(status.count_low == 4 && status.count_high_and_cancelled == 0);
    GOOD(MPI_Get_count(&status, INT, &count));
    CHECK(count == 1);
    GOOD(MPI_Recv(&there, 1, INT, PROC_NULL, ANY_TAG, WORLD, &status));
    CHECK(status.source == PROC_NULL && status.tag == ANY_TAG && status.count_low == 0);
    GOOD(MPI_Send(&here, 1, INT, PROC_NULL, 3, WORLD));
    int values[20], came[20];
    for (int i = 0; i < 10; i++) {
        values[i] = 100 * rank + i;
        GOOD(MPI_Irecv(&came[i], 1, INT, left, i, WORLD, &requests[2 * i]));
        GOOD(MPI_Isend(&values[i], 1, INT, right, i, WORLD, &requests[2 * i + 1]));
    }
    for (int i = 0; i < 20; i++) statuses[i].error = 55;
    GOOD(MPI_Waitall(20, requests, statuses));
    for (int i = 0; i < 10; i++) {
        CHECK(came[i] == 100 * left + i && statuses[2 * i].source == left && statuses[2 * i].tag == i);
        CHECK(requests[2 * i] == REQUEST_NULL && requests[2 * i + 1] == REQUEST_NULL);
    }
    GOOD(MPI_Waitall(20, requests, STATUS_IGNORE));
    GOOD(MPI_Wait(&requests[0], &status));
    CHECK(status.source == ANY_SOURCE && status.tag == ANY_TAG);
    GOOD(MPI_Irecv(&came[0], 1, INT, left, 99, WORLD, &requests[0]));
    CHECK(requests[0] != REQUEST_NULL);
    GOOD(MPI_Test(&requests[0], &flag, STATUS_IGNORE));
    CHECK(!flag && requests[0] != REQUEST_NULL);
    GOOD(MPI_Cancel(&requests[0]));
    GOOD(MPI_Wait(&requests[0], &status));
    GOOD(MPI_Test_cancelled(&status, &flag));
    CHECK(flag && (status.count_high_and_cancelled & 1) && requests[0] == REQUEST_NULL);
    GOOD(MPI_Send_init(&here, 1, INT, right, 4, WORLD, &requests[0]));
    GOOD(MPI_Recv_init(&there, 1, INT, left, 4, WORLD, &requests[1]));
    int before = requests[1];
    for (int i = 0; i < 3; i++) {
        int done, places[2], at = 0;
        GOOD(MPI_Startall(2, requests));
        while (at < 2) {
            GOOD(MPI_Waitsome(2, requests, &done, places, statuses));
            CHECK(done > 0);
            at += done;
        }
        GOOD(MPI_Waitany(2, requests, &done, &status));
        CHECK(there == left && done == UNDEFINED && requests[1] == before);
    }
    GOOD(MPI_Request_free(&requests[0]));
    GOOD(MPI_Request_free(&requests[1]));
    CHECK(requests[0] == REQUEST_NULL && requests[1] == REQUEST_NULL);
    Message message;
    GOOD(MPI_Isend(&here, 1, INT, right, 5, WORLD, &requests[0]));
    GOOD(MPI_Mprobe(left, 5, WORLD, &message, &status));
    CHECK(message != MESSAGE_NULL && status.source == left);
    GOOD(MPI_Mrecv(&there, 1, INT, &message, STATUS_IGNORE));
    CHECK(message == MESSAGE_NULL && there == left);
    GOOD(MPI_Wait(&requests[0], STATUS_IGNORE));
    GOOD(MPI_Status_set_cancelled(&status, 0));
    GOOD(MPI_Status_set_elements(&status, INT, 3));
    GOOD(MPI_Get_elements(&status, INT, &count));
    CHECK(count == 3 && status.count_low == 12 && status.source == left);
    int fortran[5];
    GOOD(MPI_Status_c2f(&status, fortran));
    CHECK(fortran[2] == left && fortran[3] == 5);
}

static Datatype pair;

static void add(void *in, void *inout, int *length, Datatype *datatype) {
    int bytes;
    CHECK(*datatype == pair);
    GOOD(MPI_Type_size(*datatype, &bytes));
    CHECK(bytes == 16);
    for (int i = 0; i < 2 * *length; i++) ((double *)inout)[i] += ((double *)in)[i];
}

static void check_collectives(void) {
    double values[2] = {1, rank}, sums[2] = {0, 0};
    int both[2] = {rank == 1 ? 9 : 5, rank}, most;
    Op op;
    Request request;
    GOOD(MPI_Allreduce(IN_PLACE, values, 2, DOUBLE, SUM, WORLD));
    CHECK(values[0] == size && values[1] == size * (size - 1) / 2);
    GOOD(MPI_Allreduce(&rank, &most, 1, INT, MAX, WORLD));
    CHECK(most == size - 1);
    GOOD(MPI_Allreduce(IN_PLACE, both, 1, TWO_INTS, MAXLOC, WORLD));
    CHECK(both[1] == (size > 1 ? 1 : 0));
    GOOD(MPI_Type_contiguous(2, DOUBLE, &pair));
    GOOD(MPI_Type_commit(&pair));
    GOOD(MPI_Op_create(add, 1, &op));
    CHECK(op != OP_NULL);
    values[0] = 1, values[1] = 2;
    GOOD(MPI_Allreduce(values, sums, 1, pair, op, WORLD));
    CHECK(sums[0] == size && sums[1] == 2 * size);
    GOOD(MPI_Iallreduce(values, sums, 1, pair, op, WORLD, &request));
    GOOD(MPI_Wait(&request, STATUS_IGNORE));
    CHECK(sums[0] == size && sums[1] == 2 * size);
    GOOD(MPI_Op_free(&op));
    CHECK(op == OP_NULL);
    GOOD(MPI_Type_free(&pair));
    CHECK(pair == DATATYPE_NULL);
    int *counts = malloc(5 * size * sizeof(int)), *places = counts + size, *from = places + size, *to = from + size;
    Datatype *types = to + size;
    for (int i = 0; i < size; i++) {
        counts[i] = 1, places[i] = 4 * i, from[i] = 10 * rank + i, types[i] = i % 2 ? INT : 0x4c000406;
    }
    GOOD(MPI_Alltoallw(from, counts, places, types, to, counts, places, types, WORLD));
    for (int i = 0; i < size; i++) CHECK(to[i] == 10 * i + rank);
    free(counts);
}

static int copied, deleted;
static Comm of;

static int copy(int comm, int key, void *extra, void *value, void *to, int *flag) {
    CHECK(comm == of && key != KEYVAL_INVALID && extra == &copied);
    *(void **)to = (char *)value + 1;
    *flag = 1;
    copied++;
    return 0;
}

static int delete(int comm, int key, void *value, void *extra) {
    CHECK(key != KEYVAL_INVALID && extra == &copied && value != NULL);
    (void)comm;
    deleted++;
    return deleted == 3 ? 1234567 : 0;
}

static void check_attributes(void) {
    int key, always, flag, *number;
    char *value, here;
    Comm dup;
    GOOD(MPI_Comm_get_attr(WORLD, TAG_UB, &number, &flag));
    CHECK(flag && *number >= 32767);
    GOOD(MPI_Comm_get_attr(WORLD, IO, &number, &flag));
    CHECK(flag && *number == ANY_SOURCE);
    GOOD(MPI_Comm_get_attr(WORLD, LASTUSEDCODE, &number, &flag));
    CHECK(flag && *number >= LAST_CODE);
    GOOD(MPI_Comm_create_keyval(copy, delete, &key, &copied));
    GOOD(MPI_Comm_create_keyval(MPIR_Dup_fn, NULL, &always, NULL));
    CHECK(key != KEYVAL_INVALID && key != always);
    GOOD(MPI_Comm_dup(WORLD, &of));
    GOOD(MPI_Comm_set_attr(of, key, &here));
    GOOD(MPI_Comm_set_attr(of, always, &here));
    GOOD(MPI_Comm_dup(of, &dup));
    GOOD(MPI_Comm_get_attr(dup, key, &value, &flag));
    CHECK(flag && value == &here + 1 && copied == 1);
    GOOD(MPI_Comm_get_attr(dup, always, &value, &flag));
    CHECK(flag && value == &here);
    GOOD(MPI_Comm_delete_attr(dup, key));
    CHECK(deleted == 1);
    GOOD(MPI_Comm_free(&dup));
    CHECK(dup == COMM_NULL && deleted == 1);
    GOOD(MPI_Comm_set_attr(of, key, &here));
    CHECK(deleted == 2);
    GOOD(MPI_Errhandler_set(of, ERRORS_RETURN));
    GOOD(MPI_Comm_set_errhandler(WORLD, ERRORS_RETURN));
    CHECK(MPI_Comm_delete_attr(of, key) == 1234567);
    GOOD(MPI_Comm_delete_attr(of, key));
    GOOD(MPI_Comm_free(&of));
    GOOD(MPI_Comm_free_keyval(&key));
    GOOD(MPI_Comm_free_keyval(&always));
    CHECK(key == KEYVAL_INVALID);
    GOOD(MPI_Type_create_keyval(copy, delete, &key, &copied));
    Datatype one, other;
    GOOD(MPI_Type_contiguous(3, INT, &one));
    of = one;
    GOOD(MPI_Type_set_attr(one, key, &here));
    GOOD(MPI_Type_dup(one, &other));
    GOOD(MPI_Type_get_attr(other, key, &value, &flag));
    CHECK(flag && value == &here + 1 && other != one);
    GOOD(MPI_Type_free(&one));
    GOOD(MPI_Type_free(&other));
    GOOD(MPI_Type_free_keyval(&key));
}

static int class_of(int code) {
    int class;
    GOOD(MPI_Error_class(code, &class));
    return class;
}

static int handled, other_code;
static Comm failing;

static void handle_error(int *comm, int *code, ...) {
    CHECK(*comm == failing);
    handled = *code;
    if (other_code) *code = other_code;
}

static void check_errors(void) {
    Errhandler handler, got;
    int class, code, length;
    char text[512];
    GOOD(MPI_Comm_create_errhandler(handle_error, &handler));
    GOOD(MPI_Comm_dup(WORLD, &failing));
    GOOD(MPI_Comm_set_errhandler(failing, handler));
    GOOD(MPI_Comm_get_errhandler(failing, &got));
    CHECK(got == handler);
    GOOD(MPI_Errhandler_free(&got));
    CHECK(got == ERRHANDLER_NULL);
    CHECK(class_of(MPI_Send(&code, 1, INT, size, 0, failing)) == ERR_RANK && class_of(handled) == ERR_RANK);
    CHECK(class_of(MPI_Send(&code, 1, INT, -4, 0, failing)) == ERR_RANK);
    CHECK(class_of(MPI_Send(&code, 1, INT, 0, -5, failing)) == ERR_TAG && class_of(handled) == ERR_TAG);
    GOOD(MPI_Errhandler_free(&handler));
    CHECK(class_of(MPI_Send(&code, 1, INT, size, 0, failing)) == ERR_RANK && class_of(handled) == ERR_RANK);
    other_code = 4242;
    CHECK(MPI_Send(&code, 1, INT, size, 0, failing) == 4242 && class_of(handled) == ERR_RANK);
    other_code = 0;
    GOOD(MPI_Comm_call_errhandler(failing, ERR_TRUNCATE));
    CHECK(handled == ERR_TRUNCATE);
    GOOD(MPI_Comm_set_errhandler(failing, ERRORS_ARE_FATAL));
    GOOD(MPI_Comm_get_errhandler(failing, &got));
    CHECK(got == ERRORS_ARE_FATAL);
    GOOD(MPI_Comm_set_errhandler(failing, ERRORS_RETURN));
    int values[4] = {1, 2, 3, 4}, few[2], more[4];
    Status statuses[3] = {{0}};
    Request requests[3];
    GOOD(MPI_Irecv(few, 2, INT, rank, 1, failing, &requests[0]));
    GOOD(MPI_Irecv(more, 4, INT, rank, 2, failing, &requests[1]));
    GOOD(MPI_Send(values, 4, INT, rank, 2, failing));
    GOOD(MPI_Isend(values, 4, INT, rank, 1, failing, &requests[2]));
    CHECK(class_of(MPI_Waitall(3, requests, statuses)) == ERR_IN_STATUS);
    CHECK(class_of(statuses[0].error) == ERR_TRUNCATE && statuses[1].error == 0 && few[1] == 2 && more[3] == 4);
    GOOD(MPI_Comm_free(&failing));
    GOOD(MPI_Add_error_class(&class));
    CHECK(class > LAST_CODE);
    GOOD(MPI_Add_error_code(class, &code));
    int found;
    GOOD(MPI_Error_class(code, &found));
    CHECK(found == class && code > class);
    GOOD(MPI_Error_class(ERR_GROUP, &found));
    CHECK(found == ERR_GROUP);
    GOOD(MPI_Error_string(ERR_REQUEST, text, &length));
    CHECK(strncmp(text, "MPI_ERR_REQUEST", 15) == 0 && (int)strlen(text) == length);
    }

static void check_types(void) {
    int sizes[2] = {4, 6}, parts[2] = {2, 3}, starts[2] = {1, 2}, numbers[4], integers[20], ways[2] = {121, 123};
    int arguments[2] = {-49767, -49767}, processes[2] = {size, 1}, bytes;
    Datatype type, inner[3];
    Aint addresses[3], extent;
    GOOD(MPI_Type_create_subarray(2, sizes, parts, starts, 56, INT, &type));
    GOOD(MPI_Type_get_envelope(type, &numbers[0], &numbers[1], &numbers[2], &numbers[3]));
    CHECK(numbers[0] == 8 && numbers[1] == 0 && numbers[2] == 1 && numbers[3] == 13);
    GOOD(MPI_Type_get_contents(type, 8, 0, 1, integers, addresses, inner));
    CHECK(integers[0] == 2 && integers[1] == 4 && integers[7] == 56 && inner[0] == INT);
    GOOD(MPI_Type_free(&type));
    sizes[0] = 4 * size;
    GOOD(MPI_Type_create_darray(size, rank, 2, sizes, ways, arguments, processes, 57, DOUBLE, &type));
    GOOD(MPI_Type_get_envelope(type, &numbers[0], &numbers[1], &numbers[2], &numbers[3]));
    CHECK(numbers[0] == 12 && numbers[3] == 14);
    GOOD(MPI_Type_get_contents(type, 12, 0, 1, integers, addresses, inner));
    CHECK(integers[0] == size && integers[5] == 121 && integers[6] == 123 && integers[7] == -49767);
    CHECK(integers[9] == size && integers[11] == 57 && inner[0] == DOUBLE);
    GOOD(MPI_Type_size(type, &bytes));
    CHECK(bytes == 4 * 6 * 8);
    GOOD(MPI_Type_free(&type));
    Datatype twice, twos[2] = {CHAR, SHORT_INT}, all;
    GOOD(MPI_Type_contiguous(2, INT, &twice));
    twos[1] = twice;
    int lengths[2] = {1, 1};
    Aint at[2] = {0, 8}, base;
    GOOD(MPI_Type_struct(2, lengths, at, twos, &all));
    GOOD(MPI_Type_extent(all, &extent));
    CHECK(extent == 16);
    GOOD(MPI_Type_get_contents(all, 3, 2, 2, integers, addresses, inner));
    CHECK(inner[0] == CHAR && inner[1] == twice && addresses[1] == 8);
    GOOD(MPI_Type_free(&twice));
    GOOD(MPI_Type_size(inner[1], &bytes));
    CHECK(bytes == 8);
    GOOD(MPI_Type_free(&inner[1]));
    GOOD(MPI_Type_free(&all));
    GOOD(MPI_Type_match_size(2, 8, &type));
    GOOD(MPI_Type_size(type, &bytes));
    CHECK(bytes == 8);
    GOOD(MPI_Type_size(SHORT_INT, &bytes));
    CHECK(bytes == 6);
    GOOD(MPI_Address(&bytes, &base));
    CHECK(base == (Aint)&bytes);
}

static void check_communicators(void) {
    Comm comm, other;
    Group all, some;
    Request request;
    int result, ranks[3] = {0, PROC_NULL, size - 1}, told[3], source, dest, dims[1] = {size}, no[1] = {0}, counts[3];
    GOOD(MPI_Comm_compare(WORLD, WORLD, &result));
    CHECK(result == 0);
    GOOD(MPI_Comm_idup(WORLD, &comm, &request));
    GOOD(MPI_Wait(&request, STATUS_IGNORE));
    GOOD(MPI_Comm_compare(WORLD, comm, &result));
    CHECK(result == 1 && comm != COMM_NULL && MPI_Comm_f2c(MPI_Comm_c2f(comm)) == comm && MPI_Comm_toint(comm) == comm);
    GOOD(MPI_Barrier(comm));
    GOOD(MPI_Comm_free(&comm));
    GOOD(MPI_Comm_split(WORLD, rank == 0 ? UNDEFINED : 1, 0, &comm));
    CHECK((comm == COMM_NULL) == (rank == 0));
    if (comm != COMM_NULL) GOOD(MPI_Comm_free(&comm));
    GOOD(MPI_Comm_split_type(WORLD, 1, 0, INFO_NULL, &comm));
    GOOD(MPI_Comm_size(comm, &result));
    CHECK(result == size);
    GOOD(MPI_Comm_group(comm, &all));
    GOOD(MPI_Comm_free(&comm));
    GOOD(MPI_Group_incl(all, 1, &ranks[2], &some));
    GOOD(MPI_Group_translate_ranks(all, 3, ranks, some, told));
    CHECK(told[0] == (size == 1 ? 0 : UNDEFINED) && told[1] == PROC_NULL && told[2] == 0);
    GOOD(MPI_Group_compare(all, some, &result));
    CHECK(result == (size == 1 ? 0 : 3));
    GOOD(MPI_Group_rank(some, &result));
    CHECK(result == (rank == size - 1 ? 0 : UNDEFINED));
    GOOD(MPI_Comm_create(WORLD, some, &other));
    CHECK((other == COMM_NULL) == (rank != size - 1));
    if (other != COMM_NULL) GOOD(MPI_Comm_free(&other));
    GOOD(MPI_Group_free(&some));
    GOOD(MPI_Group_incl(all, 0, ranks, &some));
    CHECK(some == GROUP_EMPTY);
    GOOD(MPI_Group_free(&all));
    CHECK(all == GROUP_NULL);
    GOOD(MPI_Cart_create(WORLD, 1, dims, no, 0, &comm));
    GOOD(MPI_Cart_shift(comm, 0, 1, &source, &dest));
    CHECK(source == (rank ? rank - 1 : PROC_NULL) && dest == (rank < size - 1 ? rank + 1 : PROC_NULL));
    GOOD(MPI_Topo_test(comm, &result));
    CHECK(result == 2);
    GOOD(MPI_Comm_free(&comm));
    GOOD(MPI_Topo_test(WORLD, &result));
    CHECK(result == UNDEFINED);
    GOOD(MPI_Dist_graph_create_adjacent(WORLD, 1, &rank, MPI_UNWEIGHTED, 1, &rank, MPI_UNWEIGHTED, INFO_NULL, 0, &comm));
    GOOD(MPI_Dist_graph_neighbors_count(comm, &counts[0], &counts[1], &counts[2]));
    CHECK(counts[0] == 1 && counts[1] == 1 && counts[2] == 0);
    GOOD(MPI_Dist_graph_neighbors(comm, 1, &source, MPI_UNWEIGHTED, 1, &dest, MPI_UNWEIGHTED));
    CHECK(source == rank && dest == rank);
    GOOD(MPI_Topo_test(comm, &result));
    CHECK(result == 3);
    GOOD(MPI_Comm_free(&comm));
    GOOD(MPI_Dist_graph_create_adjacent(WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY, INFO_NULL, 0, &comm));
    GOOD(MPI_Dist_graph_neighbors_count(comm, &counts[0], &counts[1], &counts[2]));
    CHECK(counts[0] == 0 && counts[2] == 1);
    GOOD(MPI_Comm_free(&comm));
}

static int failed_file;

static void handle_file_error(void **file, int *code, ...) {
    failed_file = class_of(*code) + (*file == NULL ? 100 : 0);
}

/* Turns the bytes of numbers round. */
static int turn(void *user, Datatype datatype, int count, void *file, int64_t position, void *extra) {
    CHECK(datatype == INT && position == 0 && extra == &failed_file);
    for (int i = 0; i < 4 * count; i++) ((char *)file)[i] = ((char *)user)[i ^ 3];
    return 0;
}

static int turn_back(void *user, Datatype datatype, int count, void *file, int64_t position, void *extra) {
    return turn(file, datatype, count, user, position, extra);
}

static int width(Datatype datatype, Aint *extent, void *extra) {
    CHECK(datatype == INT && extra == &failed_file);
    *extent = 4;
    return 0;
}

static void check_files(const char *name) {
    int numbers[2] = {rank, 0x01020304}, got[2] = {-1, -1}, mode, flag, count;
    int64_t at;
    File file, other;
    Status status;
    Errhandler handler;
    CHECK(class_of(MPI_File_open(WORLD, "/nowhere/at/all", RDONLY, INFO_NULL, &file)) == ERR_NO_SUCH_FILE);
    GOOD(MPI_File_open(WORLD, name, CREATE | RDWR | DELETE_ON_CLOSE, INFO_NULL, &file));
    CHECK(file != NULL && MPI_File_f2c(MPI_File_c2f(file)) == file);
    GOOD(MPI_File_get_amode(file, &mode));
    CHECK(mode == (CREATE | RDWR | DELETE_ON_CLOSE));
    GOOD(MPI_File_write_at_all(file, 8 * rank, numbers, 2, INT, &status));
    GOOD(MPI_Get_count(&status, INT, &count));
    CHECK(count == 2);
    GOOD(MPI_Barrier(WORLD));
    GOOD(MPI_File_seek(file, -8, SEEK_TO_END));
    GOOD(MPI_File_get_position(file, &at));
    CHECK(at == 8 * size - 8);
    GOOD(MPI_File_read(file, got, 1, INT, STATUS_IGNORE));
    GOOD(MPI_File_seek(file, -4, SEEK_FROM_HERE));
    GOOD(MPI_File_read(file, got, 2, INT, &status));
    CHECK(got[0] == size - 1 && got[1] == numbers[1]);
    GOOD(MPI_Register_datarep("turned", turn_back, turn, width, &failed_file));
    GOOD(MPI_File_set_view(file, 0, INT, INT, "turned", INFO_NULL));
    GOOD(MPI_File_read_at(file, 2 * rank + 1, got, 1, INT, STATUS_IGNORE));
    CHECK(got[0] == 0x04030201);
    GOOD(MPI_File_create_errhandler(handle_file_error, &handler));
    GOOD(MPI_File_set_errhandler(file, handler));
    CHECK(class_of(MPI_File_seek(file, 0, 601)) == ERR_ARG && failed_file == ERR_ARG);
    GOOD(MPI_File_set_errhandler(NULL, handler));
    GOOD(MPI_Errhandler_free(&handler));
    CHECK(class_of(MPI_File_open(SELF, "/nowhere/at/all", RDONLY, INFO_NULL, &other)) == ERR_NO_SUCH_FILE);
    CHECK(failed_file == 100 + ERR_NO_SUCH_FILE);
    GOOD(MPI_File_get_atomicity(file, &flag));
    GOOD(MPI_File_close(&file));
    CHECK(file == NULL);
}

/* Tools: numbers, handles that are addresses here, too, and what a variable is of. */
static void check_tools(void) {
    int number, verbosity, bind, scope, class, read_only, value = -1, index = -1, order, length = 0;
    long long ticks;
    Datatype type = 0;
    Comm comm = SELF;
    Info info = INFO_NULL;
    void *names, *handle = NULL, *session = NULL;
    CHECK(MPI_T_cvar_get_num(&number) == T_ERR_NOT_INITIALIZED);
    GOOD(MPI_T_init_thread(3, &number));
    CHECK(number == 3);
    GOOD(MPI_T_cvar_get_index("ONCHIP_CHECK", &index));
    GOOD(MPI_T_cvar_get_info(index, NULL, &length, &verbosity, &type, &names, NULL, NULL, &bind, &scope));
    CHECK(length == 13 && verbosity == 222 && type == INT && names && bind == 9701 && scope == 60442);
    CHECK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &number) == T_ERR_INVALID_HANDLE);
    GOOD(MPI_T_cvar_handle_alloc(index, &comm, &handle, &number));
    GOOD(MPI_T_cvar_read(handle, &value));
    CHECK(number == 1 && value == 0);
    comm = COMM_NULL;
    GOOD(MPI_T_cvar_handle_free(&handle));
    CHECK(!handle && MPI_T_cvar_handle_alloc(index, &comm, &handle, &number) == T_ERR_INVALID_HANDLE);
    CHECK(MPI_T_pvar_get_index("flag_wait_time", 240, &index) == T_ERR_INVALID_NAME);
    GOOD(MPI_T_pvar_get_index("flag_wait_time", 248, &index));
    GOOD(MPI_T_pvar_get_info(index, NULL, NULL, &verbosity, &class, &type, &names, NULL, NULL, &bind, &read_only, NULL,
                             NULL));
    CHECK(verbosity == 224 && class == 248 && type == DOUBLE && !names && bind == 9700 && !read_only);
    GOOD(MPI_T_pvar_session_create(&session));
    GOOD(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &number));
    GOOD(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    GOOD(MPI_T_pvar_stop(session, handle));
    CHECK(MPI_T_pvar_handle_free(session, &session) == T_ERR_INVALID_HANDLE);
    GOOD(MPI_T_pvar_session_free(&session));
    GOOD(MPI_T_source_get_info(0, NULL, NULL, NULL, NULL, &order, &ticks, NULL, &info));
    CHECK(order == 0 && ticks == 1000000000 && info != INFO_NULL);
    GOOD(MPI_Info_free(&info));
    CHECK(MPI_T_event_get_info(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == T_ERR_INVALID_INDEX);
    CHECK(MPI_T_event_callback_get_info(handle, 3, &info) == T_ERR_INVALID_HANDLE);
    GOOD(MPI_T_finalize());
}

int main(int argc, char **argv) {
    int provided, level, wanted = argc > 1 ? atoi(argv[1]) : 0;
    GOOD(MPI_Abi_get_version(&provided, &level));
    CHECK(provided == -1 && level == -1);
    GOOD(MPI_Init_thread(&argc, &argv, wanted, &provided));
    GOOD(MPI_Query_thread(&level));
    CHECK(level == provided && provided >= wanted && provided <= 3);
    GOOD(MPI_Comm_rank(WORLD, &rank));
    GOOD(MPI_Comm_size(WORLD, &size));
    check_messages();
    check_collectives();
    check_attributes();
    check_errors();
    check_types();
    check_communicators();
    check_tools();
    if (argc > 2) check_files(argv[2]);
    GOOD(MPI_Finalize());
    puts("good");
    return 0;
}
