//! The library `libmpi_abi.so`: MPI's functions under their names in C.
