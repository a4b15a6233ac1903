C     What a program in Fortran does with MPI, in the old form.
      program all
      implicit none
      include 'mpif.h'
      integer error, rank, size, other, i, place, done, count
      integer requests(2), status(MPI_STATUS_SIZE), places(2)
      integer statuses(MPI_STATUS_SIZE,2), pair, lengths(2), types(2)
      integer places1(2), extent, rows, grid, dims(2), coords(2), file
      integer operation, info, length, wide
      integer (kind=MPI_OFFSET_KIND) offset
      integer (kind=MPI_ADDRESS_KIND) lower, whole
      logical periods(2), flag
      double precision mine(3), got(3), total, time
      character*(MPI_MAX_PROCESSOR_NAME) name
      character*20 value
      external greatest
      time = MPI_WTIME()
      call MPI_INIT(error)
      if (error .ne. MPI_SUCCESS) stop 1
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, error)
C     Messages around a ring, completed in several ways.
      do 10 i = 1, 3
        mine(i) = 10*rank + i
 10   continue
      other = mod(rank + 1, size)
      call MPI_IRECV(got, 3, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 5,
     &  MPI_COMM_WORLD, requests(1), error)
      call MPI_ISEND(mine, 3, MPI_DOUBLE_PRECISION, other, 5,
     &  MPI_COMM_WORLD, requests(2), error)
      call MPI_WAITALL(2, requests, statuses, error)
      other = mod(rank + size - 1, size)
      if (got(3) .ne. 10*other + 3) stop 2
      if (statuses(MPI_SOURCE,1) .ne. other) stop 3
      call MPI_GET_COUNT(statuses(1,1), MPI_DOUBLE_PRECISION, count,
     &  error)
      if (count .ne. 3) stop 4
      if (requests(1) .ne. MPI_REQUEST_NULL) stop 5
      call MPI_IRECV(got, 1, MPI_DOUBLE_PRECISION, rank, 6,
     &  MPI_COMM_WORLD, requests(2), error)
      requests(1) = MPI_REQUEST_NULL
      call MPI_SEND(mine, 1, MPI_DOUBLE_PRECISION, rank, 6,
     &  MPI_COMM_WORLD, error)
      call MPI_WAITANY(2, requests, place, MPI_STATUS_IGNORE, error)
      if (place .ne. 2) stop 6
      call MPI_WAITANY(2, requests, place, status, error)
      if (place .ne. MPI_UNDEFINED) stop 7
      call MPI_ISEND(mine, 0, MPI_REAL, rank, 7, MPI_COMM_WORLD,
     &  requests(2), error)
      call MPI_RECV(mine, 0, MPI_REAL, rank, 7, MPI_COMM_WORLD, status,
     &  error)
      call MPI_WAITSOME(2, requests, done, places,
     &  MPI_STATUSES_IGNORE, error)
      if (done .ne. 1 .or. places(1) .ne. 2) stop 8
C     Reductions, also in place, and by a subroutine.
      total = rank
      call MPI_ALLREDUCE(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION,
     &  MPI_SUM, MPI_COMM_WORLD, error)
      if (total .ne. size*(size - 1)/2) stop 9
      call MPI_OP_CREATE(greatest, .true., operation, error)
      call MPI_ALLREDUCE(rank, i, 1, MPI_INTEGER, operation,
     &  MPI_COMM_WORLD, error)
      if (i .ne. size - 1) stop 10
      call MPI_OP_FREE(operation, error)
      if (operation .ne. MPI_OP_NULL) stop 11
C     Types: an integer and a double, as MPI-1 says it and since.
      lengths(1) = 1
      lengths(2) = 1
      places1(1) = 0
      places1(2) = 8
      types(1) = MPI_INTEGER
      types(2) = MPI_DOUBLE_PRECISION
      call MPI_TYPE_STRUCT(2, lengths, places1, types, pair, error)
      call MPI_TYPE_COMMIT(pair, error)
      call MPI_TYPE_EXTENT(pair, extent, error)
      call MPI_TYPE_GET_EXTENT(pair, lower, whole, error)
      if (extent .ne. 16 .or. lower .ne. 0 .or. whole .ne. 16) stop 12
      call MPI_TYPE_SIZE(pair, wide, error)
      if (wide .ne. 12) stop 13
      call MPI_TYPE_FREE(pair, error)
      if (pair .ne. MPI_DATATYPE_NULL) stop 14
C     Communicators.
      call MPI_COMM_SPLIT(MPI_COMM_WORLD, mod(rank, 2), rank, rows,
     &  error)
      call MPI_COMM_SIZE(rows, i, error)
      if (i .ne. (size + 1 - mod(rank, 2))/2) stop 15
      call MPI_COMM_FREE(rows, error)
      dims(1) = 0
      dims(2) = 1
      periods(1) = .true.
      periods(2) = .false.
      call MPI_DIMS_CREATE(size, 2, dims, error)
      call MPI_CART_CREATE(MPI_COMM_WORLD, 2, dims, periods, .false.,
     &  grid, error)
      call MPI_CART_GET(grid, 2, dims, periods, coords, error)
      if (.not. periods(1) .or. periods(2)) stop 16
      if (coords(1) .ne. rank) stop 17
      call MPI_COMM_FREE(grid, error)
C     Texts and files.
      call MPI_GET_PROCESSOR_NAME(name, length, error)
      if (name(length:length) .eq. ' ') stop 18
      if (name(length+1:) .ne. ' ') stop 19
      call MPI_INFO_CREATE(info, error)
      call MPI_INFO_SET(info, 'key ', 'a value  ', error)
      value = 'as it was'
      call MPI_INFO_GET(info, 'other', 20, value, flag, error)
      if (flag .or. value .ne. 'as it was') stop 20
      call MPI_INFO_GET(info, 'key', 20, value, flag, error)
      if (.not. flag .or. value .ne. 'a value') stop 21
      call MPI_INFO_FREE(info, error)
      call MPI_FILE_OPEN(MPI_COMM_WORLD, 'fortran.data  ',
     &  MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE,
     &  MPI_INFO_NULL, file, error)
      if (error .ne. MPI_SUCCESS) stop 22
      offset = 8*rank
      total = rank
      call MPI_FILE_WRITE_AT_ALL(file, offset, total, 1,
     &  MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, error)
      call MPI_FILE_SYNC(file, error)
      call MPI_BARRIER(MPI_COMM_WORLD, error)
      offset = 8*other
      call MPI_FILE_READ_AT(file, offset, total, 1,
     &  MPI_DOUBLE_PRECISION, status, error)
      if (total .ne. other) stop 23
      call MPI_FILE_CLOSE(file, error)
      if (MPI_WTIME() .lt. time) stop 24
      call MPI_FINALIZE(error)
      print '(a)', 'good'
      end

      subroutine greatest(from, to, count, datatype)
      include 'mpif.h'
      integer count, from(count), to(count), datatype, i
      if (datatype .ne. MPI_INTEGER) stop 25
      do 10 i = 1, count
        to(i) = max(from(i), to(i))
 10   continue
      end
