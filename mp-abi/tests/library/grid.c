/* Grids and attributes, with 6 ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static int copies, deletes;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *to, int *flag) {
    CHECK(comm == MPI_COMM_WORLD && key > 0 && *(int *)extra == 5);
    copies++;
    *(void **)to = (char *)value + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int key, void *value, void *extra) {
    CHECK(comm != MPI_COMM_NULL && key > 0 && value != NULL && *(int *)extra == 5);
    deletes++;
    return MPI_SUCCESS;
}

static int refuse(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value, (void)extra;
    return MPI_ERR_OTHER;
}

int main(int argc, char **argv) {
    int rank, size, flag, *number, dims[2] = {0, 0}, periods[2] = {0, 1}, place[2], from, to, kind;
    MPI_Comm grid, row, same;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    CHECK(size == 6);

    MPI_Dims_create(6, 2, dims);
    CHECK(dims[0] == 3 && dims[1] == 2);
    int sides[4] = {0, 7, 0, 0};
    MPI_Dims_create(7 * 5040, 4, sides);
    CHECK(sides[0] == 21 && sides[1] == 7 && sides[2] == 16 && sides[3] == 15);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    sides[0] = 4, sides[1] = sides[2] = sides[3] = 0;
    CHECK(MPI_Dims_create(6, 4, sides) == MPI_ERR_DIMS && sides[0] == 4 && !sides[1]);
    CHECK(MPI_Dims_create(0, 4, sides) == MPI_ERR_DIMS && MPI_Dims_create(6, 1, sides) == MPI_ERR_DIMS);
    CHECK(MPI_Dims_create(4, 1, sides) == MPI_SUCCESS && sides[0] == 4);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &grid);
    MPI_Topo_test(grid, &kind);
    CHECK(kind == MPI_CART);
    MPI_Topo_test(MPI_COMM_WORLD, &kind);
    CHECK(kind == MPI_UNDEFINED);
    MPI_Cart_get(grid, 2, dims, periods, place);
    CHECK(dims[0] == 3 && dims[1] == 2 && !periods[0] && periods[1]);
    CHECK(place[0] == rank / 2 && place[1] == rank % 2);
    MPI_Cart_coords(grid, 5, 2, place);
    CHECK(place[0] == 2 && place[1] == 1);
    place[1] = -1;
    MPI_Cart_rank(grid, place, &to);
    CHECK(to == 5);
    MPI_Cart_shift(grid, 0, 1, &from, &to);
    CHECK(from == (rank < 2 ? MPI_PROC_NULL : rank - 2) && to == (rank > 3 ? MPI_PROC_NULL : rank + 2));
    int sum = -1, keep[2] = {0, 1};
    MPI_Sendrecv(&rank, 1, MPI_INT, to, 0, &sum, 1, MPI_INT, from, 0, grid, MPI_STATUS_IGNORE);
    CHECK(sum == (from == MPI_PROC_NULL ? -1 : from));
    MPI_Cart_sub(grid, keep, &row);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, row);
    CHECK(sum == rank / 2 * 4 + 1);
    MPI_Cartdim_get(row, &kind);
    CHECK(kind == 1);
    MPI_Comm_dup(row, &same);
    MPI_Cartdim_get(same, &kind);
    CHECK(kind == 1);
    MPI_Comm_free(&same);
    MPI_Comm_free(&row);
    MPI_Comm_free(&grid);
    dims[0] = 2;
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    CHECK((grid == MPI_COMM_NULL) == (rank > 1));
    if (grid != MPI_COMM_NULL) MPI_Comm_free(&grid);

    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &number, &flag);
    CHECK(flag && *number >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &number, &flag);
    CHECK(flag && *number == 1);
    int key, stubborn, extra = 5;
    char values[4], *value;
    MPI_Comm_create_keyval(copy, forget, &key, &extra);
    MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag);
    CHECK(!flag);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, values);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, values + 1);
    CHECK(deletes == 1);
    MPI_Comm_dup(MPI_COMM_WORLD, &same);
    MPI_Comm_get_attr(same, key, &value, &flag);
    CHECK(flag && value == values + 2 && copies == 1);
    MPI_Comm_free(&same);
    CHECK(deletes == 2);
    MPI_Comm_create_keyval(MPI_COMM_DUP_FN, refuse, &stubborn, NULL);
    MPI_Comm_dup(MPI_COMM_SELF, &same);
    MPI_Comm_set_attr(same, stubborn, values);
    MPI_Comm_set_errhandler(same, MPI_ERRORS_RETURN);
    CHECK(MPI_Comm_delete_attr(same, stubborn) == MPI_ERR_OTHER);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    CHECK(deletes == 3);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, values);
    MPI_Comm_free_keyval(&key);
    CHECK(key == MPI_KEYVAL_INVALID);
    MPI_Finalize();
    CHECK(deletes == 4);
    printf("good\n");
    return 0;
}
