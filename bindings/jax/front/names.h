/* names.h - all names that MPItrampoline asks a library for: 260 constants, 374 functions.
 *
 * MPItrampoline 5 (ABI 2.9), which jaxlib has in it, looks each of them up as MPIABI_NAME
 * (MPIXABI_NAME in FRONT_EXTENSIONS) when it loads the library, and ends the process if one is
 * missing. The names are those of MPI 3.1. Values are our own, as each library may choose them; XLA
 * compares them, and gives them back.
 *
 * Invariants
 *  1. A name stands in one list.
 *  2. What stands in FRONT_PROVIDED has a function of its own (front.h). Of all others, missing.c
 *     makes functions that return an error with their name.
 */
#ifndef TUTTI_JAX_NAMES_H
#define TUTTI_JAX_NAMES_H

/* clang-format off */

/* ------------------------------------------------------------------------------------ functions */

/* X(name): what programs under XLA call, and what they may want to ask. They return an int. */
#define FRONT_PROVIDED(X) \
    X(Init) X(Init_thread) X(Initialized) X(Finalize) X(Finalized) X(Query_thread) \
    X(Is_thread_main) X(Get_version) X(Get_library_version) X(Get_processor_name) X(Error_string) \
    X(Error_class) X(Comm_rank) X(Comm_size) X(Comm_split) X(Comm_dup) X(Comm_free) X(Type_size) \
    X(Barrier) X(Bcast) X(Allreduce) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) \
    X(Reduce_scatter) X(Reduce_scatter_block) X(Send) X(Recv) X(Isend) X(Irecv) X(Sendrecv) \
    X(Wait) X(Waitall) X(Get_count)

/* X(name): these return an int, which is always an error. */
#define FRONT_MISSING(X) \
    X(Abort) X(Accumulate) X(Add_error_class) X(Add_error_code) X(Add_error_string) X(Alloc_mem) \
    X(Alltoallw) X(Bsend) X(Bsend_init) X(Buffer_attach) X(Buffer_detach) X(Cancel) \
    X(Cart_coords) X(Cart_create) X(Cart_get) X(Cart_map) X(Cart_rank) X(Cart_shift) X(Cart_sub) \
    X(Cartdim_get) X(Close_port) X(Comm_accept) X(Comm_call_errhandler) X(Comm_compare) \
    X(Comm_connect) X(Comm_create) X(Comm_create_errhandler) X(Comm_create_group) \
    X(Comm_create_keyval) X(Comm_delete_attr) X(Comm_disconnect) X(Comm_dup_with_info) \
    X(Comm_free_keyval) X(Comm_get_attr) X(Comm_get_errhandler) X(Comm_get_info) X(Comm_get_name) \
    X(Comm_get_parent) X(Comm_group) X(Comm_idup) X(Comm_join) X(Comm_remote_group) \
    X(Comm_remote_size) X(Comm_set_attr) X(Comm_set_errhandler) X(Comm_set_info) X(Comm_set_name) \
    X(Comm_spawn) X(Comm_spawn_multiple) X(Comm_split_type) X(Comm_test_inter) \
    X(Compare_and_swap) X(Dims_create) X(Dist_graph_create) X(Dist_graph_create_adjacent) \
    X(Dist_graph_neighbors) X(Dist_graph_neighbors_count) X(Errhandler_free) X(Exscan) \
    X(Fetch_and_op) X(File_call_errhandler) X(File_close) X(File_create_errhandler) \
    X(File_delete) X(File_get_amode) X(File_get_atomicity) X(File_get_byte_offset) \
    X(File_get_errhandler) X(File_get_group) X(File_get_info) X(File_get_position) \
    X(File_get_position_shared) X(File_get_size) X(File_get_type_extent) X(File_get_view) \
    X(File_iread) X(File_iread_all) X(File_iread_at) X(File_iread_at_all) X(File_iread_shared) \
    X(File_iwrite) X(File_iwrite_all) X(File_iwrite_at) X(File_iwrite_at_all) \
    X(File_iwrite_shared) X(File_open) X(File_preallocate) X(File_read) X(File_read_all) \
    X(File_read_all_begin) X(File_read_all_end) X(File_read_at) X(File_read_at_all) \
    X(File_read_at_all_begin) X(File_read_at_all_end) X(File_read_ordered) \
    X(File_read_ordered_begin) X(File_read_ordered_end) X(File_read_shared) X(File_seek) \
    X(File_seek_shared) X(File_set_atomicity) X(File_set_errhandler) X(File_set_info) \
    X(File_set_size) X(File_set_view) X(File_sync) X(File_write) X(File_write_all) \
    X(File_write_all_begin) X(File_write_all_end) X(File_write_at) X(File_write_at_all) \
    X(File_write_at_all_begin) X(File_write_at_all_end) X(File_write_ordered) \
    X(File_write_ordered_begin) X(File_write_ordered_end) X(File_write_shared) X(Free_mem) \
    X(Gather) X(Gatherv) X(Get) X(Get_accumulate) X(Get_address) X(Get_elements) \
    X(Get_elements_x) X(Graph_create) X(Graph_get) X(Graph_map) X(Graph_neighbors) \
    X(Graph_neighbors_count) X(Graphdims_get) X(Grequest_complete) X(Grequest_start) \
    X(Group_compare) X(Group_difference) X(Group_excl) X(Group_free) X(Group_incl) \
    X(Group_intersection) X(Group_range_excl) X(Group_range_incl) X(Group_rank) X(Group_size) \
    X(Group_translate_ranks) X(Group_union) X(Iallgather) X(Iallgatherv) X(Iallreduce) \
    X(Ialltoall) X(Ialltoallv) X(Ialltoallw) X(Ibarrier) X(Ibcast) X(Ibsend) X(Iexscan) \
    X(Igather) X(Igatherv) X(Improbe) X(Imrecv) X(Ineighbor_allgather) X(Ineighbor_allgatherv) \
    X(Ineighbor_alltoall) X(Ineighbor_alltoallv) X(Ineighbor_alltoallw) X(Info_create) \
    X(Info_delete) X(Info_dup) X(Info_free) X(Info_get) X(Info_get_nkeys) X(Info_get_nthkey) \
    X(Info_get_valuelen) X(Info_set) X(Intercomm_create) X(Intercomm_merge) X(Iprobe) X(Ireduce) \
    X(Ireduce_scatter) X(Ireduce_scatter_block) X(Irsend) X(Iscan) X(Iscatter) X(Iscatterv) \
    X(Issend) X(Lookup_name) X(Mprobe) X(Mrecv) X(Neighbor_allgather) X(Neighbor_allgatherv) \
    X(Neighbor_alltoall) X(Neighbor_alltoallv) X(Neighbor_alltoallw) X(Op_commutative) \
    X(Op_create) X(Op_free) X(Open_port) X(Pack) X(Pack_external) X(Pack_external_size) \
    X(Pack_size) X(Probe) X(Publish_name) X(Put) X(Raccumulate) X(Recv_init) X(Reduce) \
    X(Reduce_local) X(Register_datarep) X(Request_free) X(Request_get_status) X(Rget) \
    X(Rget_accumulate) X(Rput) X(Rsend) X(Rsend_init) X(Scan) X(Scatter) X(Scatterv) X(Send_init) \
    X(Sendrecv_replace) X(Ssend) X(Ssend_init) X(Start) X(Startall) X(Status_c2f) X(Status_f2c) \
    X(Status_set_cancelled) X(Status_set_elements) X(Status_set_elements_x) X(Test) \
    X(Test_cancelled) X(Testall) X(Testany) X(Testsome) X(Topo_test) X(Type_commit) \
    X(Type_contiguous) X(Type_create_darray) X(Type_create_f90_complex) \
    X(Type_create_f90_integer) X(Type_create_f90_real) X(Type_create_hindexed) \
    X(Type_create_hindexed_block) X(Type_create_hvector) X(Type_create_indexed_block) \
    X(Type_create_keyval) X(Type_create_resized) X(Type_create_struct) X(Type_create_subarray) \
    X(Type_delete_attr) X(Type_dup) X(Type_free) X(Type_free_keyval) X(Type_get_attr) \
    X(Type_get_contents) X(Type_get_envelope) X(Type_get_extent) X(Type_get_extent_x) \
    X(Type_get_name) X(Type_get_true_extent) X(Type_get_true_extent_x) X(Type_indexed) \
    X(Type_match_size) X(Type_set_attr) X(Type_set_name) X(Type_size_x) X(Type_struct) \
    X(Type_vector) X(Unpack) X(Unpack_external) X(Unpublish_name) X(Waitany) X(Waitsome) \
    X(Win_allocate) X(Win_allocate_shared) X(Win_attach) X(Win_call_errhandler) X(Win_complete) \
    X(Win_create) X(Win_create_dynamic) X(Win_create_errhandler) X(Win_create_keyval) \
    X(Win_delete_attr) X(Win_detach) X(Win_fence) X(Win_flush) X(Win_flush_all) \
    X(Win_flush_local) X(Win_flush_local_all) X(Win_free) X(Win_free_keyval) X(Win_get_attr) \
    X(Win_get_errhandler) X(Win_get_group) X(Win_get_info) X(Win_get_name) X(Win_lock) \
    X(Win_lock_all) X(Win_post) X(Win_set_attr) X(Win_set_errhandler) X(Win_set_info) \
    X(Win_set_name) X(Win_shared_query) X(Win_start) X(Win_sync) X(Win_test) X(Win_unlock) \
    X(Win_unlock_all) X(Win_wait)

/* X(name): from a handle of Fortran, and to one. They return a handle, or an int: always none. */
#define FRONT_FROM_FORTRAN(X) \
    X(Comm_f2c) X(Errhandler_f2c) X(File_f2c) X(Group_f2c) X(Info_f2c) X(Message_f2c) X(Op_f2c) \
    X(Request_f2c) X(Type_f2c) X(Win_f2c)

#define FRONT_TO_FORTRAN(X) \
    X(Comm_c2f) X(Errhandler_c2f) X(File_c2f) X(Group_c2f) X(Info_c2f) X(Message_c2f) X(Op_c2f) \
    X(Request_c2f) X(Type_c2f) X(Win_c2f)

/* X(name): as MPIXABI_name; they say 0: no memory of devices. */
#define FRONT_EXTENSIONS(X) \
    X(Query_cuda_support) X(Query_hip_support) X(Query_ze_support)

/* X(name, type): functions of other types, which front.h declares. */
#define FRONT_OTHERS(X) X(Aint_add, intptr_t) X(Aint_diff, intptr_t) X(Wtime, double) X(Wtick, double)

/* ------------------------------------------------------------------------------------ constants */

/* X(name): classes of errors, numbered from 1. */
#define FRONT_ERRORS(X) \
    X(ERR_ACCESS) X(ERR_AMODE) X(ERR_ARG) X(ERR_ASSERT) X(ERR_BAD_FILE) X(ERR_BUFFER) X(ERR_COMM) \
    X(ERR_CONVERSION) X(ERR_COUNT) X(ERR_DIMS) X(ERR_DISP) X(ERR_DUP_DATAREP) X(ERR_FILE) \
    X(ERR_FILE_EXISTS) X(ERR_FILE_IN_USE) X(ERR_GROUP) X(ERR_INFO) X(ERR_INFO_KEY) \
    X(ERR_INFO_NOKEY) X(ERR_INFO_VALUE) X(ERR_INTERN) X(ERR_IN_STATUS) X(ERR_IO) X(ERR_KEYVAL) \
    X(ERR_LOCKTYPE) X(ERR_NAME) X(ERR_NOT_SAME) X(ERR_NO_MEM) X(ERR_NO_SPACE) X(ERR_NO_SUCH_FILE) \
    X(ERR_OP) X(ERR_OTHER) X(ERR_PENDING) X(ERR_PORT) X(ERR_QUOTA) X(ERR_RANK) X(ERR_READ_ONLY) \
    X(ERR_REQUEST) X(ERR_RMA_ATTACH) X(ERR_RMA_CONFLICT) X(ERR_RMA_FLAVOR) X(ERR_RMA_RANGE) \
    X(ERR_RMA_SHARED) X(ERR_RMA_SYNC) X(ERR_ROOT) X(ERR_SERVICE) X(ERR_SIZE) X(ERR_SPAWN) \
    X(ERR_TAG) X(ERR_TOPOLOGY) X(ERR_TRUNCATE) X(ERR_TYPE) X(ERR_UNKNOWN) \
    X(ERR_UNSUPPORTED_DATAREP) X(ERR_UNSUPPORTED_OPERATION) X(ERR_WIN)

/* X(name, value): of the type int. */
#define FRONT_INTS(X) \
    X(ANY_SOURCE, -1) X(ANY_TAG, -1) X(PROC_NULL, -2) X(ROOT, -3) X(CART, 1) X(DIST_GRAPH, 3) \
    X(GRAPH, 2) X(CONGRUENT, 2) X(IDENT, 1) X(SIMILAR, 3) X(UNEQUAL, 4) X(BSEND_OVERHEAD, 0) \
    X(KEYVAL_INVALID, -1) X(UNDEFINED, -32766) X(APPNUM, 2) X(HOST, 3) X(IO, 4) \
    X(LASTUSEDCODE, 5) X(TAG_UB, 1) X(UNIVERSE_SIZE, 6) X(WIN_BASE, 7) X(WIN_CREATE_FLAVOR, 8) \
    X(WIN_DISP_UNIT, 9) X(WIN_MODEL, 10) X(WIN_SIZE, 11) X(WTIME_IS_GLOBAL, 12) \
    X(COMBINER_CONTIGUOUS, 1) X(COMBINER_DARRAY, 2) X(COMBINER_DUP, 3) X(COMBINER_F90_COMPLEX, 4) \
    X(COMBINER_F90_INTEGER, 5) X(COMBINER_F90_REAL, 6) X(COMBINER_HINDEXED, 7) \
    X(COMBINER_HINDEXED_BLOCK, 8) X(COMBINER_HVECTOR, 9) X(COMBINER_INDEXED, 10) \
    X(COMBINER_INDEXED_BLOCK, 11) X(COMBINER_NAMED, 12) X(COMBINER_RESIZED, 13) \
    X(COMBINER_STRUCT, 14) X(COMBINER_SUBARRAY, 15) X(COMBINER_VECTOR, 16) X(COMM_TYPE_SHARED, 1) \
    X(DISTRIBUTE_BLOCK, 1) X(DISTRIBUTE_CYCLIC, 2) X(DISTRIBUTE_DFLT_DARG, -49767) \
    X(DISTRIBUTE_NONE, 3) X(SUCCESS, 0) X(LOCK_EXCLUSIVE, 1) X(LOCK_SHARED, 2) X(MODE_APPEND, 1) \
    X(MODE_CREATE, 2) X(MODE_DELETE_ON_CLOSE, 4) X(MODE_EXCL, 8) X(MODE_NOCHECK, 16) \
    X(MODE_NOPRECEDE, 32) X(MODE_NOPUT, 64) X(MODE_NOSTORE, 128) X(MODE_NOSUCCEED, 256) \
    X(MODE_RDONLY, 512) X(MODE_RDWR, 1024) X(MODE_SEQUENTIAL, 2048) X(MODE_UNIQUE_OPEN, 4096) \
    X(MODE_WRONLY, 8192) X(ORDER_C, 1) X(ORDER_FORTRAN, 2) X(SEEK_CUR, 2) X(SEEK_END, 3) \
    X(SEEK_SET, 1) X(THREAD_FUNNELED, 1) X(THREAD_MULTIPLE, 3) X(THREAD_SERIALIZED, 2) \
    X(THREAD_SINGLE, 0) X(TYPECLASS_COMPLEX, 3) X(TYPECLASS_INTEGER, 2) X(TYPECLASS_REAL, 1) \
    X(WIN_FLAVOR_ALLOCATE, 1) X(WIN_FLAVOR_CREATE, 2) X(WIN_FLAVOR_DYNAMIC, 3) \
    X(WIN_FLAVOR_SHARED, 4) X(WIN_SEPARATE, 1) X(WIN_UNIFIED, 2)

/* X(name, dtype, elements, kind): a value of this type is that many elements of the dtype. Kinds:
 * NUMBER, which Tutti reduces; COMPLEX, two elements that belong together; BYTES, never reduced. */
#define FRONT_TYPES(X) \
    X(FLOAT, TUTTI_FLOAT32, 1, NUMBER) X(REAL, TUTTI_FLOAT32, 1, NUMBER) \
    X(REAL4, TUTTI_FLOAT32, 1, NUMBER) X(DOUBLE, TUTTI_FLOAT64, 1, NUMBER) \
    X(DOUBLE_PRECISION, TUTTI_FLOAT64, 1, NUMBER) X(REAL8, TUTTI_FLOAT64, 1, NUMBER) \
    X(INT16_T, TUTTI_INT16, 1, NUMBER) X(INTEGER2, TUTTI_INT16, 1, NUMBER) \
    X(SHORT, TUTTI_INT16, 1, NUMBER) X(INT, TUTTI_INT32, 1, NUMBER) \
    X(INT32_T, TUTTI_INT32, 1, NUMBER) X(INTEGER, TUTTI_INT32, 1, NUMBER) \
    X(INTEGER4, TUTTI_INT32, 1, NUMBER) X(LOGICAL, TUTTI_INT32, 1, NUMBER) \
    X(WCHAR, TUTTI_INT32, 1, NUMBER) X(AINT, TUTTI_INT64, 1, NUMBER) \
    X(COUNT, TUTTI_INT64, 1, NUMBER) X(INT64_T, TUTTI_INT64, 1, NUMBER) \
    X(INTEGER8, TUTTI_INT64, 1, NUMBER) X(LONG, TUTTI_INT64, 1, NUMBER) \
    X(LONG_LONG, TUTTI_INT64, 1, NUMBER) X(LONG_LONG_INT, TUTTI_INT64, 1, NUMBER) \
    X(OFFSET, TUTTI_INT64, 1, NUMBER) X(CHAR, TUTTI_INT8, 1, NUMBER) \
    X(INT8_T, TUTTI_INT8, 1, NUMBER) X(INTEGER1, TUTTI_INT8, 1, NUMBER) \
    X(SIGNED_CHAR, TUTTI_INT8, 1, NUMBER) X(UINT16_T, TUTTI_UINT16, 1, NUMBER) \
    X(UNSIGNED_SHORT, TUTTI_UINT16, 1, NUMBER) X(UINT32_T, TUTTI_UINT32, 1, NUMBER) \
    X(UNSIGNED, TUTTI_UINT32, 1, NUMBER) X(UINT64_T, TUTTI_UINT64, 1, NUMBER) \
    X(UNSIGNED_LONG, TUTTI_UINT64, 1, NUMBER) X(UNSIGNED_LONG_LONG, TUTTI_UINT64, 1, NUMBER) \
    X(BYTE, TUTTI_UINT8, 1, NUMBER) X(CHARACTER, TUTTI_UINT8, 1, NUMBER) \
    X(CXX_BOOL, TUTTI_UINT8, 1, NUMBER) X(C_BOOL, TUTTI_UINT8, 1, NUMBER) \
    X(PACKED, TUTTI_UINT8, 1, NUMBER) X(UINT8_T, TUTTI_UINT8, 1, NUMBER) \
    X(UNSIGNED_CHAR, TUTTI_UINT8, 1, NUMBER) X(COMPLEX, TUTTI_FLOAT32, 2, COMPLEX) \
    X(COMPLEX8, TUTTI_FLOAT32, 2, COMPLEX) X(CXX_FLOAT_COMPLEX, TUTTI_FLOAT32, 2, COMPLEX) \
    X(C_COMPLEX, TUTTI_FLOAT32, 2, COMPLEX) X(C_FLOAT_COMPLEX, TUTTI_FLOAT32, 2, COMPLEX) \
    X(COMPLEX16, TUTTI_FLOAT64, 2, COMPLEX) X(CXX_DOUBLE_COMPLEX, TUTTI_FLOAT64, 2, COMPLEX) \
    X(C_DOUBLE_COMPLEX, TUTTI_FLOAT64, 2, COMPLEX) X(DOUBLE_COMPLEX, TUTTI_FLOAT64, 2, COMPLEX) \
    X(2DOUBLE_PRECISION, TUTTI_UINT8, 16, BYTES) X(2INT, TUTTI_UINT8, 8, BYTES) \
    X(2INTEGER, TUTTI_UINT8, 8, BYTES) X(2REAL, TUTTI_UINT8, 8, BYTES) \
    X(COMPLEX32, TUTTI_UINT8, 32, BYTES) X(CXX_LONG_DOUBLE_COMPLEX, TUTTI_UINT8, 32, BYTES) \
    X(C_LONG_DOUBLE_COMPLEX, TUTTI_UINT8, 32, BYTES) X(DOUBLE_INT, TUTTI_UINT8, 16, BYTES) \
    X(FLOAT_INT, TUTTI_UINT8, 8, BYTES) X(LONG_DOUBLE, TUTTI_UINT8, 16, BYTES) \
    X(LONG_DOUBLE_INT, TUTTI_UINT8, 32, BYTES) X(LONG_INT, TUTTI_UINT8, 16, BYTES) \
    X(REAL16, TUTTI_UINT8, 16, BYTES) X(SHORT_INT, TUTTI_UINT8, 8, BYTES)

/* X(name, op): NULL where Tutti has no such operation. */
#define FRONT_OPS(X) \
    X(BAND, TUTTI_BAND) X(BOR, TUTTI_BOR) X(BXOR, TUTTI_BXOR) X(LAND, TUTTI_LAND) \
    X(LOR, TUTTI_LOR) X(LXOR, TUTTI_LXOR) X(MAX, TUTTI_MAX) X(MIN, TUTTI_MIN) X(PROD, TUTTI_PROD) \
    X(SUM, TUTTI_SUM) X(MAXLOC, NULL) X(MINLOC, NULL) X(NO_OP, NULL) X(REPLACE, NULL)

/* X(name, value): other handles. */
#define FRONT_HANDLES(X) \
    X(COMM_NULL, 0) X(COMM_WORLD, FRONT_WORLD) X(COMM_SELF, FRONT_SELF) \
    X(DATATYPE_NULL, FRONT_TYPE_NULL) X(OP_NULL, FRONT_OP_NULL) X(REQUEST_NULL, 0) \
    X(ERRHANDLER_NULL, 0) X(ERRORS_ARE_FATAL, 1) X(ERRORS_RETURN, 2) X(FILE_NULL, 0) \
    X(GROUP_NULL, 0) X(GROUP_EMPTY, 1) X(INFO_NULL, 0) X(INFO_ENV, 1) X(MESSAGE_NULL, 0) \
    X(MESSAGE_NO_PROC, 1) X(WIN_NULL, 0)

/* X(name): pointers, to data or to functions, that are NULL. */
#define FRONT_NULLS(X) \
    X(ARGV_NULL) X(ARGVS_NULL) X(ERRCODES_IGNORE) X(COMM_DUP_FN) X(COMM_NULL_COPY_FN) \
    X(COMM_NULL_DELETE_FN) X(DUP_FN) X(NULL_COPY_FN) X(CONVERSION_FN_NULL) X(NULL_DELETE_FN) \
    X(F_STATUS_IGNORE) X(F_STATUSES_IGNORE) X(STATUS_IGNORE) X(STATUSES_IGNORE) X(TYPE_DUP_FN) \
    X(TYPE_NULL_COPY_FN) X(TYPE_NULL_DELETE_FN) X(WIN_DUP_FN) X(WIN_NULL_COPY_FN) \
    X(WIN_NULL_DELETE_FN)

/* X(name): pointers that stand for something, and to nothing that may be read. */
#define FRONT_MARKS(X) X(IN_PLACE) X(BOTTOM) X(UNWEIGHTED) X(WEIGHTS_EMPTY)

/* clang-format on */

#endif
