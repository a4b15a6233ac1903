#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

static void handler(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
}

static void check_infos(void) {
    MPI_Info info, copy;
    char text[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY];
    int room, flag, number;
    CHECK(MPI_Info_create(&info) == MPI_SUCCESS);
    CHECK(MPI_Info_set(info, "host", "here") == MPI_SUCCESS);
    CHECK(MPI_Info_set(info, "file", "there") == MPI_SUCCESS);
    CHECK(MPI_Info_dup(info, &copy) == MPI_SUCCESS);
    CHECK(MPI_Info_delete(info, "host") == MPI_SUCCESS);
    CHECK(MPI_Info_get_nkeys(info, &number) == MPI_SUCCESS && number == 1);
    CHECK(MPI_Info_get_nkeys(copy, &number) == MPI_SUCCESS && number == 2);
    CHECK(MPI_Info_get_nthkey(copy, 1, key) == MPI_SUCCESS && strcmp(key, "file") == 0);
    room = 0;
    strcpy(text, "kept");
    CHECK(MPI_Info_get_string(copy, "host", &room, text, &flag) == MPI_SUCCESS);
    CHECK(flag && room == 5 && strcmp(text, "kept") == 0);
    room = 3;
    CHECK(MPI_Info_get_string(copy, "host", &room, text, &flag) == MPI_SUCCESS);
    CHECK(flag && room == 5 && strcmp(text, "he") == 0);
    CHECK(MPI_Info_get_string(copy, "none", &room, text, &flag) == MPI_SUCCESS && !flag && room == 5);
    CHECK(MPI_Info_get(copy, "host", 2, text, &flag) == MPI_SUCCESS && flag && strcmp(text, "he") == 0);
    CHECK(MPI_Info_get_valuelen(copy, "host", &number, &flag) == MPI_SUCCESS && flag && number == 4);
    CHECK(MPI_Info_fromint(MPI_Info_toint(copy)) == copy);
    CHECK(MPI_Info_f2c(MPI_Info_c2f(copy)) == copy);
    CHECK(MPI_Info_toint(MPI_INFO_ENV) == 0x131);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS && info == MPI_INFO_NULL);
    CHECK(MPI_Info_free(&copy) == MPI_SUCCESS);
    CHECK(MPI_Abi_get_info(&info) == MPI_SUCCESS);
    CHECK(MPI_Info_get(info, "mpi_aint_size", 8, text, &flag) == MPI_SUCCESS && strcmp(text, "8") == 0);
    CHECK(MPI_Info_free(&info) == MPI_SUCCESS);
}

static void check_errors(void) {
    char text[MPI_MAX_ERROR_STRING];
    int class, code, found, length;
    MPI_Errhandler errhandler;
    CHECK(MPI_Error_class(MPI_ERR_TAG, &class) == MPI_SUCCESS && class == MPI_ERR_TAG);
    CHECK(MPI_Error_string(MPI_ERR_TAG, text, &length) == MPI_SUCCESS);
    CHECK(strncmp(text, "MPI_ERR_TAG", 11) == 0 && (int)strlen(text) == length);
    CHECK(MPI_Add_error_class(&class) == MPI_SUCCESS && class > MPI_ERR_LASTCODE);
    CHECK(MPI_Add_error_code(class, &code) == MPI_SUCCESS && code > class);
    CHECK(MPI_Add_error_string(code, "much too hot") == MPI_SUCCESS);
    CHECK(MPI_Error_class(code, &found) == MPI_SUCCESS && found == class);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && strcmp(text, "much too hot") == 0);
    CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS && MPI_Remove_error_class(class) == MPI_SUCCESS);
    for (int round = 0; round < 2000; round++) {
        CHECK(MPI_Comm_create_errhandler(handler, &errhandler) == MPI_SUCCESS);
        CHECK(MPI_Errhandler_free(&errhandler) == MPI_SUCCESS && errhandler == MPI_ERRHANDLER_NULL);
    }
}

static void check_fortran(void) {
    MPI_Info info;
    int truth = 1, falsehood = 0, got_truth = 7, got_falsehood = 7, flag;
    MPI_Status status = {1, 2, 3, {4, 5, 6, 7, 8}}, copy;
    MPI_Fint numbers[MPI_F_STATUS_SIZE];
    CHECK(MPI_Abi_get_fortran_info(&info) == MPI_SUCCESS && info == MPI_INFO_NULL);
    CHECK(MPI_Abi_get_fortran_booleans(4, &got_truth, &got_falsehood, &flag) == MPI_SUCCESS && !flag);
    CHECK(MPI_Abi_set_fortran_booleans(4, &truth, &falsehood) == MPI_SUCCESS);
    CHECK(MPI_Abi_get_fortran_booleans(4, &got_truth, &got_falsehood, &flag) == MPI_SUCCESS);
    CHECK(flag && got_truth == 1 && got_falsehood == 0);
    CHECK(MPI_Status_c2f(&status, numbers) == MPI_SUCCESS && numbers[MPI_F_TAG] == 2);
    CHECK(MPI_Status_f2c(numbers, &copy) == MPI_SUCCESS && memcmp(&status, &copy, sizeof copy) == 0);
}

int main(int argc, char **argv) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int first, second, provided;
    void *memory;
    MPI_Aint address;

    CHECK(MPI_Initialized(&first) == MPI_SUCCESS && !first);
    CHECK(MPI_Get_version(&first, &second) == MPI_SUCCESS && first == 5 && second == 0);
    CHECK(MPI_Abi_get_version(&first, &second) == MPI_SUCCESS && first == 1 && second == 0);
    CHECK(MPI_Get_library_version(text, &first) == MPI_SUCCESS && strncmp(text, "Onchip ", 7) == 0);
    check_infos();
    check_errors();
    check_fortran();

    CHECK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) == MPI_SUCCESS);
    CHECK(provided == MPI_THREAD_FUNNELED && argc == 1);
    CHECK(MPI_Query_thread(&first) == MPI_SUCCESS && first == provided);
    CHECK(MPI_Is_thread_main(&first) == MPI_SUCCESS && first);
    CHECK(MPI_Initialized(&first) == MPI_SUCCESS && first && MPI_Finalized(&first) == MPI_SUCCESS && !first);
    CHECK(MPI_Get_processor_name(text, &first) == MPI_SUCCESS && first > 0 && (int)strlen(text) == first);
    CHECK(MPI_Pcontrol(1, 2.0, "three") == MPI_SUCCESS);
    double before = MPI_Wtime();
    CHECK(before > 0 && MPI_Wtime() >= before && MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
    CHECK(MPI_Get_address(text, &address) == MPI_SUCCESS && (char *)address == text);
    CHECK(MPI_Aint_diff(MPI_Aint_add(address, 9), address) == 9);
    CHECK(MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory) == MPI_SUCCESS && (intptr_t)memory % 64 == 0);
    memset(memory, 1, 1000);
    CHECK(MPI_Free_mem(memory) == MPI_SUCCESS);
    CHECK(MPI_Finalize() == MPI_SUCCESS);

    CHECK(MPI_Initialized(&first) == MPI_SUCCESS && first && MPI_Finalized(&first) == MPI_SUCCESS && first);
    check_infos();
    puts("good");
    return 0;
}
