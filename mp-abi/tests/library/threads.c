/* Threads that call MPI: one at a time, or all at once, on 1 rank and more. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                    \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

enum { THREADS = 4, WAITING = 6, LONG = 200000, ROUNDS = 20 };

static int rank, size;

static void in_threads(void *(*code)(void *), int threads) {
    pthread_t all[WAITING];
    for (long i = 0; i < threads; i++) pthread_create(&all[i], NULL, code, (void *)i);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
}

/* One at a time: a thread begins what another one waits for. */

static MPI_Request request;
static int *message;

static void *begin_sending(void *unused) {
    message = malloc(LONG * sizeof(int));
    for (int i = 0; i < LONG; i++) message[i] = rank + i;
    MPI_Isend(message, LONG, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, &request);
    return unused;
}

static void *receive(void *unused) {
    int *got = malloc(LONG * sizeof(int));
    /* This goes on with the send that a thread has begun which is gone. */
    MPI_Recv(got, LONG, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < LONG; i++) CHECK(got[i] == (rank + size - 1) % size + i);
    free(got);
    return unused;
}

static void *complete(void *unused) {
    int main_thread = 1, sum;
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    free(message);
    MPI_Is_thread_main(&main_thread);
    CHECK(!main_thread);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    CHECK(MPI_Comm_rank(MPI_COMM_NULL, &sum) == MPI_ERR_COMM);
    return unused;
}

static void one_at_a_time(void) {
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 2) begin_sending(NULL);
        else in_threads(begin_sending, 1);
        if (round % 3) receive(NULL);
        else in_threads(receive, 1);
        in_threads(complete, 1);
    }
}

/* All at once. */

static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/* A thread that waits sleeps until the message comes, as no other thread calls, and does not look again and again. The
   message before it does not matter. */
static void alone(int probes) {
    int word = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        usleep(300000);
        for (int i = 1; i < 2 * size - 1; i++)
            MPI_Send(&i, 1, MPI_INT, (i + 1) / 2, 30 + i % 2, MPI_COMM_WORLD);
    } else {
        MPI_Status status;
        long before = sleeps();
        if (probes) {
            MPI_Probe(probes == 1 ? 0 : MPI_ANY_SOURCE, 30, MPI_COMM_WORLD, &status);
            CHECK(sleeps() - before < 50);
            CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 30);
        }
        MPI_Recv(&word, 1, MPI_INT, 0, 30, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(sleeps() - before < 50);
        CHECK(word == 2 * rank);
        MPI_Recv(&word, 1, MPI_INT, 0, 31, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(word == 2 * rank - 1);
    }
}

/* So does one that waits for a lock of a window. */
static void locked(void) {
    int *word;
    MPI_Win window;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &word, &window);
    *word = 0;
    for (int all = 0; all < 2; all++) {
        if (rank == 0) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            usleep(300000);
            *word += 1;
            MPI_Win_unlock(0, window);
        } else {
            int seen = -1;
            long before = sleeps();
            if (all) MPI_Win_lock_all(0, window);
            else MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
            MPI_Get(&seen, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
            if (all) MPI_Win_unlock_all(window);
            else MPI_Win_unlock(0, window);
            CHECK(sleeps() - before < 50);
            CHECK(seen == 1 + all);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
}

static MPI_Win window;

static void *wait_for_one(void *number) {
    int word[2] = {-1, -1}, tag = 42 + (int)(long)number, index;
    MPI_Request requests[2];
    long before = sleeps();
    switch (tag % WAITING) {
    case 0: {
        MPI_Message found;
        MPI_Status status;
        int count;
        MPI_Mprobe(0, tag, MPI_COMM_WORLD, &found, &status);
        MPI_Get_count(&status, MPI_INT, &count);
        CHECK(count == 1 && status.MPI_SOURCE == 0 && status.MPI_TAG == tag);
        MPI_Mrecv(word, count, MPI_INT, &found, &status);
        break;
    }
    case 1:
        MPI_Irecv(word, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        break;
    case 2:
        MPI_Irecv(&word[1], 1, MPI_INT, 0, 39, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(word, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        CHECK(index == 0);
        MPI_Cancel(&requests[1]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        break;
    case 3: {
        MPI_Status status;
        MPI_Probe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
        CHECK(sleeps() - before < 100);
        CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == tag);
        MPI_Recv(word, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        break;
    }
    case 4:
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        MPI_Get(word, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Win_unlock(0, window);
        break;
    default:
        MPI_Recv_init(word, 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[0]);
        MPI_Start(&requests[0]);
        MPI_Irecv(&word[1], 1, MPI_INT, 0, tag, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        CHECK(word[1] == 2 * tag);
        MPI_Request_free(&requests[0]);
    }
    CHECK(sleeps() - before < 100);
    CHECK(word[0] == tag);
    return NULL;
}

/* Several threads that wait sleep, too, whichever of what they wait for comes first. */
static void together(void) {
    int *locked;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &locked, &window);
    for (int first = 0; first < WAITING; first++) {
        if (rank == 0) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank > 0) {
            in_threads(wait_for_one, WAITING);
            continue;
        }
        usleep(300000);
        for (int i = 0; i < WAITING; i++) {
            int tag = 42 + (first + i) % WAITING, twice = 2 * tag;
            if (tag % WAITING == 4) {
                *locked = tag;
                MPI_Win_unlock(0, window);
            }
            for (int to = 1; to < size && tag % WAITING != 4; to++) {
                MPI_Send(&tag, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
                if (tag % WAITING == 5) MPI_Send(&twice, 1, MPI_INT, to, tag, MPI_COMM_WORLD);
            }
            usleep(10000);
        }
    }
    MPI_Win_free(&window);
}

/* A thread waits for the last rank, and another one for what the first sends then. Either may be the one that sleeps for
   both. */
static void *for_last(void *number) {
    for (int round = 0; round < 10 * ROUNDS; round++) {
        if (number) {
            MPI_Recv(NULL, 0, MPI_INT, rank, 51, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            if (round % size == rank) usleep(4000);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Send(NULL, 0, MPI_INT, rank, 51, MPI_COMM_WORLD);
        }
    }
    return NULL;
}

static MPI_Comm comms[THREADS];
static int compares;

/* Half of the threads wait for what the others send, on the same rank. */
static void *to_itself(void *number) {
    long me = (long)number;
    for (int round = 0; round < ROUNDS; round++) {
        int text[3000], other = me / 2;
        MPI_Status status;
        if (me % 2) {
            memset(text, 0, sizeof text);
            switch (round % 4) {
            case 0: MPI_Recv(text, 3000, MPI_INT, rank, other, MPI_COMM_WORLD, &status); break;
            case 1: {
                MPI_Message found;
                int count;
                MPI_Mprobe(rank, other, MPI_COMM_WORLD, &found, &status);
                MPI_Get_count(&status, MPI_INT, &count);
                CHECK(count == 3000);
                MPI_Mrecv(text, 3000, MPI_INT, &found, &status);
                break;
            }
            case 2:
                MPI_Probe(rank, other, MPI_COMM_WORLD, &status);
                MPI_Recv(text, 3000, MPI_INT, rank, other, MPI_COMM_WORLD, &status);
                break;
            default: {
                MPI_Request one;
                int index;
                MPI_Irecv(text, 3000, MPI_INT, rank, other, MPI_COMM_WORLD, &one);
                MPI_Waitany(1, &one, &index, &status);
            }
            }
            CHECK(text[2999] == round && status.MPI_SOURCE == rank);
        } else {
            for (int i = 0; i < 3000; i++) text[i] = round;
            if (round % 3) MPI_Send(text, 3000, MPI_INT, rank, other, MPI_COMM_WORLD);
            else MPI_Ssend(text, 3000, MPI_INT, rank, other, MPI_COMM_WORLD);
        }
    }
    return NULL;
}

/* Each thread has a communicator, in another order on each rank, because nothing orders the threads. */
static void *apart(void *number) {
    MPI_Comm comm = comms[(long)number];
    int *data = malloc(LONG * sizeof(int)), *got = malloc(LONG * sizeof(int));
    for (int round = 0; round < ROUNDS; round++) {
        int length = round % 4 ? 100 : LONG, sum, mine = rank + round, all[64], flags = 3 << rank % 2, common;
        MPI_Comm copy, half;
        MPI_Request begun;
        for (int i = 0; i < length; i++) data[i] = rank + i;
        MPI_Sendrecv(data, length, MPI_INT, (rank + 1) % size, 2, got, length, MPI_INT, (rank + size - 1) % size, 2, comm,
                     MPI_STATUS_IGNORE);
        CHECK(got[length - 1] == (rank + size - 1) % size + length - 1);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK(sum == size * (size - 1) / 2 + size * round);
        /* A nonblocking operation comes before a blocking one or after it, if the ranks don't compare their calls. */
        int begins = compares || rank % 2;
        if (begins) MPI_Iallreduce(&flags, &common, 1, MPI_INT, MPI_BAND, comm, &begun);
        MPI_Barrier(comm);
        if (!begins) MPI_Iallreduce(&flags, &common, 1, MPI_INT, MPI_BAND, comm, &begun);
        MPI_Wait(&begun, MPI_STATUS_IGNORE);
        CHECK(common == (size > 1 ? 2 : 3));
        MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, comm);
        CHECK(all[size - 1] == size - 1 + round);
        MPI_Bcast(got, length, MPI_INT, round % size, comm);
        if (round % 5 == 0) {
            MPI_Comm_dup(comm, &copy);
            MPI_Comm_split(copy, rank % 2, -rank, &half);
            MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_MAX, half);
            MPI_Comm_free(&half);
            MPI_Reduce(&mine, &sum, 1, MPI_INT, MPI_MIN, 0, copy);
            CHECK(rank || sum == round);
            MPI_Comm_free(&copy);
        }
    }
    free(data);
    free(got);
    return NULL;
}

/* A thread waits until its buffered messages are sent, and another one makes that happen. */
static void *buffered(void *number) {
    long me = (long)number;
    int length = LONG, *data = malloc(length * sizeof(int)), word = 0;
    if (me == 0) {
        char *buffer = malloc(8 * (length * sizeof(int) + MPI_BSEND_OVERHEAD));
        void *detached;
        int size_of_it;
        MPI_Buffer_attach(buffer, 8 * (length * sizeof(int) + MPI_BSEND_OVERHEAD));
        for (int i = 0; i < length; i++) data[i] = i;
        for (int i = 0; i < 8; i++) MPI_Bsend(data, length, MPI_INT, (rank + 1) % size, 20, MPI_COMM_WORLD);
        MPI_Buffer_detach(&detached, &size_of_it);
        CHECK(detached == buffer);
        free(buffer);
    } else {
        /* The others receive only then. */
        MPI_Sendrecv(&word, 1, MPI_INT, (rank + size - 1) % size, 21, &word, 1, MPI_INT, (rank + 1) % size, 21,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < 8; i++) {
            data[length - 1] = 0;
            MPI_Recv(data, length, MPI_INT, (rank + size - 1) % size, 20, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(data[length - 1] == length - 1);
        }
    }
    free(data);
    return NULL;
}

/* Threads exchange messages with threads of all ranks, in one communicator. */
static void *with_all(void *number) {
    long me = (long)number;
    for (int round = 0; round < ROUNDS; round++) {
        for (int distance = 0; distance < size; distance++) {
            int to = (rank + distance) % size, from = (rank + size - distance) % size, length = round % 7 ? 10 : 20000;
            int *data = malloc(2 * length * sizeof(int));
            MPI_Request both[2];
            for (int i = 0; i < length; i++) data[i] = rank * 1000 + me;
            MPI_Irecv(data + length, length, MPI_INT, from, me, MPI_COMM_WORLD, &both[0]);
            MPI_Isend(data, length, MPI_INT, to, me, MPI_COMM_WORLD, &both[1]);
            MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
            CHECK(data[2 * length - 1] == from * 1000 + me);
            free(data);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    int provided, wanted = argc > 1 && !strcmp(argv[1], "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    CHECK(provided == wanted);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const char *check = getenv("ONCHIP_CHECK");
    compares = !check || strcmp(check, "0");
    one_at_a_time();
    if (wanted == MPI_THREAD_MULTIPLE) {
        for (int probes = 0; probes < 3; probes++) alone(probes);
        locked();
        together();
        in_threads(for_last, 2);
        in_threads(to_itself, THREADS);
        for (int i = 0; i < THREADS; i++) MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
        in_threads(apart, THREADS);
        in_threads(with_all, THREADS);
        in_threads(buffered, 2);
        for (int i = 0; i < THREADS; i++) MPI_Comm_free(&comms[i]);
    }
    MPI_Finalize();
    puts("good");
    return 0;
}
