//! The beginning and the end, and what programs ask about the library and the machine.

#![expect(clippy::missing_safety_doc, reason = "said once for all, in `calls`")]

use std::{
    ffi::{c_char, c_int, c_void},
    sync::{Mutex, PoisonError},
};

use nix::libc;

use crate::{
    constants::*,
    errhandler::returns_without_object,
    error::{Class, Error},
    info::Info,
    life::{begin_world, end_world},
    program::{plainly, put, put_text},
    state,
    types::{Aint, Count, Handle},
    window::allocated,
};

/// `MPI_Init`. The arguments stay as they are.
pub unsafe fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    plainly("MPI_Init", || begin_world(MPI_THREAD_SINGLE))
}

/// `MPI_Init_thread`.
pub unsafe fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    plainly("MPI_Init_thread", || {
        begin_world(required)?;
        // SAFETY: the program gives a place for the number.
        unsafe { put(provided, state::thread_level()) }
    })
}

/// `MPI_Initialized`.
pub unsafe fn initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a place for the flag.
    plainly("MPI_Initialized", || unsafe { put(flag, state::is_initialized().into()) })
}

/// `MPI_Finalize`.
pub unsafe fn finalize() -> c_int {
    // The objects are gone when the end has failed.
    let returns = returns_without_object();
    match end_world() {
        Err(error) if returns => error.code(),
        ended => plainly("MPI_Finalize", || ended),
    }
}

/// `MPI_Finalized`.
pub unsafe fn finalized(flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a place for the flag.
    plainly("MPI_Finalized", || unsafe { put(flag, state::is_finalized().into()) })
}

/// `MPI_Abort`. It ends the ranks of all communicators.
pub unsafe fn abort(_comm: Handle, code: c_int) -> c_int {
    state::abort(code, &format!("MPI_Abort was called with the code {code}"))
}

/// `MPI_Get_version`.
pub unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the program gives places for the numbers.
    plainly("MPI_Get_version", || unsafe {
        put(version, MPI_VERSION)?;
        put(subversion, MPI_SUBVERSION)
    })
}

/// `MPI_Get_library_version`.
pub unsafe fn get_library_version(version: *mut c_char, length: *mut c_int) -> c_int {
    let text = concat!("Onchip ", env!("CARGO_PKG_VERSION"), ", message passing on one machine");
    // SAFETY: the program gives as much room as the standard says, and a place for the length.
    plainly("MPI_Get_library_version", || unsafe {
        put_text(version, MPI_MAX_LIBRARY_VERSION_STRING, length, text.as_bytes())
    })
}

/// `MPI_Get_processor_name`: the machine's name.
pub unsafe fn get_processor_name(name: *mut c_char, length: *mut c_int) -> c_int {
    plainly("MPI_Get_processor_name", || {
        let host = nix::unistd::gethostname();
        let host = host.map_err(|error| Error::new(Class::Other, error.to_string()))?;
        // SAFETY: the program gives as much room as the standard says, and a place for the length.
        unsafe { put_text(name, MPI_MAX_PROCESSOR_NAME, length, host.as_encoded_bytes()) }
    })
}

/// Returns a time in seconds.
fn seconds(time: libc::timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Returns the time since the machine was started.
fn time() -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the function writes to `time`. This clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time
}

/// Returns the time of [`wtime`] in nanoseconds.
pub(crate) fn nanoseconds() -> Count {
    let time = time();
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// `MPI_Wtime`: the time since the machine was started, the same for all ranks.
pub unsafe fn wtime() -> f64 {
    seconds(time())
}

/// `MPI_Wtick`.
pub unsafe fn wtick() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as in `time`.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &mut time) };
    seconds(time)
}

/// `MPI_Pcontrol`, which does nothing. It is there for libraries that come before this one.
pub unsafe fn pcontrol(_level: c_int) -> c_int {
    MPI_SUCCESS
}

/// `MPI_Query_thread`.
pub unsafe fn query_thread(provided: *mut c_int) -> c_int {
    plainly("MPI_Query_thread", || {
        state::rank()?;
        // SAFETY: the program gives a place for the number.
        unsafe { put(provided, state::thread_level()) }
    })
}

/// `MPI_Is_thread_main`.
pub unsafe fn is_thread_main(flag: *mut c_int) -> c_int {
    // SAFETY: the program gives a place for the flag.
    plainly("MPI_Is_thread_main", || unsafe { put(flag, state::is_main_thread().into()) })
}

/// `MPI_Get_address`.
pub unsafe fn get_address(location: *const c_void, address: *mut Aint) -> c_int {
    // SAFETY: the program gives a place for the address.
    plainly("MPI_Get_address", || unsafe { put(address, location.expose_provenance() as Aint) })
}

/// `MPI_Aint_add`.
pub unsafe fn aint_add(base: Aint, displacement: Aint) -> Aint {
    base.wrapping_add(displacement)
}

/// `MPI_Aint_diff`.
pub unsafe fn aint_diff(address: Aint, base: Aint) -> Aint {
    address.wrapping_sub(base)
}

/// `MPI_Alloc_mem`. The memory begins at a cache line.
pub unsafe fn alloc_mem(size: Aint, _info: Handle, address: *mut c_void) -> c_int {
    plainly("MPI_Alloc_mem", || {
        let size = usize::try_from(size)
            .map_err(|_| Error::new(Class::Arg, format!("the size is negative: {size}")))?;
        let memory = allocated::allocate(size)?;
        // SAFETY: the program gives a place for the address.
        unsafe { put(address.cast(), memory) }
    })
}

/// `MPI_Free_mem`.
pub unsafe fn free_mem(memory: *mut c_void) -> c_int {
    plainly("MPI_Free_mem", || allocated::free(memory.addr()))
}

/// `MPI_Abi_get_version`.
pub unsafe fn abi_get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the program gives places for the numbers.
    plainly("MPI_Abi_get_version", || unsafe {
        put(version, MPI_ABI_VERSION)?;
        put(subversion, MPI_ABI_SUBVERSION)
    })
}

/// `MPI_Abi_get_info`.
pub unsafe fn abi_get_info(info: *mut Handle) -> c_int {
    let sizes = [
        ("mpi_aint_size", size_of::<Aint>()),
        ("mpi_count_size", size_of::<crate::types::Count>()),
        ("mpi_offset_size", size_of::<crate::types::Offset>()),
    ];
    let made = Info::new(sizes.map(|(key, size)| (key, size.to_string())));
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_Abi_get_info", || unsafe { put(info, made.into_handle()) })
}

/// What a library for Fortran has said about its compiler.
struct Fortran {
    info: Option<Info>,
    /// The bytes of `.TRUE.` and of `.FALSE.`.
    booleans: Option<[Vec<u8>; 2]>,
}

static FORTRAN: Mutex<Fortran> = Mutex::new(Fortran { info: None, booleans: None });

fn fortran() -> std::sync::MutexGuard<'static, Fortran> {
    FORTRAN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_before() -> Error {
    Error::new(Class::Abi, "it was set before, and can be set only once")
}

/// `MPI_Abi_get_fortran_info`.
pub unsafe fn abi_get_fortran_info(info: *mut Handle) -> c_int {
    let known = fortran().info.clone();
    // SAFETY: the program gives a place for the handle.
    plainly("MPI_Abi_get_fortran_info", || unsafe {
        put(info, known.map_or(MPI_INFO_NULL, Info::into_handle))
    })
}

/// `MPI_Abi_set_fortran_info`.
pub unsafe fn abi_set_fortran_info(info: Handle) -> c_int {
    plainly("MPI_Abi_set_fortran_info", || {
        // SAFETY: the program gives a valid handle.
        let info = unsafe { Info::look(info)? }.clone();
        let Fortran { info: known @ None, .. } = &mut *fortran() else { return Err(set_before()) };
        *known = Some(info);
        Ok(())
    })
}

/// `MPI_Abi_get_fortran_booleans`.
pub unsafe fn abi_get_fortran_booleans(
    size: c_int,
    truth: *mut c_void,
    falsehood: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    plainly("MPI_Abi_get_fortran_booleans", || {
        let fortran = fortran();
        // SAFETY: the program gives a place for the flag.
        unsafe { put(is_set, fortran.booleans.is_some().into())? };
        let Some(booleans) = &fortran.booleans else { return Ok(()) };
        for (bytes, to) in booleans.iter().zip([truth, falsehood]) {
            if to.is_null() || size as usize != bytes.len() {
                let text = format!("a logical has {} bytes, and not {size}", bytes.len());
                return Err(Error::new(Class::Arg, text));
            }
            // SAFETY: the program gives room for as many bytes as it says.
            unsafe { to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        }
        Ok(())
    })
}

/// `MPI_Abi_set_fortran_booleans`.
pub unsafe fn abi_set_fortran_booleans(
    size: c_int,
    truth: *mut c_void,
    falsehood: *mut c_void,
) -> c_int {
    plainly("MPI_Abi_set_fortran_booleans", || {
        let size = match usize::try_from(size) {
            Ok(size @ 1..) if !truth.is_null() && !falsehood.is_null() => size,
            _ => return Err(Error::new(Class::Arg, "there are no bytes of the two values")),
        };
        // SAFETY: the program gives as many bytes as it says.
        let bytes = [truth, falsehood]
            .map(|from| unsafe { std::slice::from_raw_parts(from.cast::<u8>(), size) }.to_vec());
        let Fortran { booleans: known @ None, .. } = &mut *fortran() else {
            return Err(set_before());
        };
        *known = Some(bytes);
        Ok(())
    })
}
