//! An interconnect by an installed MPI library, which is loaded at run time.
//!
//! The library must have the standard ABI of MPI 5.0, so that handles, constants and the status have the same form in
//! every library. Nothing is linked with it.

mod functions;

use std::{
    ffi::{CStr, OsStr, OsString, c_char, c_int},
    mem::ManuallyDrop,
    path::PathBuf,
    ptr::null_mut,
    sync::OnceLock,
};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use self::functions::{
    ANY_SOURCE, ANY_TAG, BYTE, COMM_NULL, COMM_SELF, COMM_WORLD, Count, ERRORS_RETURN, Functions,
    Handle, MAX_ERROR_STRING, MAX_LIBRARY_VERSION_STRING, SUCCESS, Status, THREAD_SERIALIZED,
    UINT64_T,
};
use crate::{
    error::{Error, Result},
    interconnect::{Arrived, Bytes, Interconnect, check, check_lengths},
};

/// The variable that names the MPI library.
const VARIABLE: &str = "ONCHIP_MPI";
/// The names by which a library is looked for, where the system's loader looks, if the variable is not set.
const NAMES: [&str; 3] = ["libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so"];
/// What Onchip's own library calls itself.
const OWN: &[u8] = b"Onchip ";

/// Whether this process has an engine, or had one.
static STARTED: OnceLock<()> = OnceLock::new();

/// A node of an MPI program: the process that `mpiexec` has started on it.
///
/// ```no_run
/// use mp_nodes::{Engine, Interconnect};
///
/// let mut engine = Engine::start()?;
/// println!("node {} of {}", engine.node(), engine.nodes());
/// engine.end()?;
/// # Ok::<(), mp_nodes::Error>(())
/// ```
#[derive(Debug)]
pub struct Engine {
    mpi: Functions,
    version: String,
    /// A duplicate of `MPI_COMM_WORLD`.
    comm: Handle,
    node: usize,
    nodes: usize,
    /// The requests of sends that have not ended, with their bytes.
    sends: Vec<(Handle, Bytes)>,
    /// The number of messages that were sent to each node.
    sent: Vec<u64>,
    /// The number of messages that were received.
    received: u64,
    /// The message that was probed last, with its handle.
    arrived: Option<(Arrived, Handle)>,
}

impl Engine {
    /// Loads the MPI library that the variable `ONCHIP_MPI` names, or else the one that the system's loader finds by the
    /// name `libmpi_abi.so.1`, `libmpi_abi.so.0` or `libmpi_abi.so`, and calls its `MPI_Init_thread`. A process can do
    /// this once, even if it fails. The thread that does it must also call [`end`](Interconnect::end).
    ///
    /// # Errors
    /// [`NoLibrary`](Error::NoLibrary), [`OtherAbi`](Error::OtherAbi), [`OwnLibrary`](Error::OwnLibrary);
    /// [`InUse`](Error::InUse) if this process has called `MPI_Init` before; [`Engine`](Error::Engine).
    pub fn start() -> Result<Box<Self>> {
        let (library, path) = load(std::env::var_os(VARIABLE))?;
        // SAFETY: an MPI library has these functions with these arguments. A library of another kind that exports all of
        // their names can't be told from one. The library is not unloaded: see below.
        let found = unsafe { Functions::find(&library) };
        // MPI libraries have threads and handlers of their own, and are not made to be unloaded.
        std::mem::forget(library);
        let other = |reason| Error::OtherAbi { path: path.clone(), reason };
        let mpi = found.map_err(|name| other(format!("it has no function {name}")))?;
        let version = version(&mpi);
        if version.as_bytes().starts_with(OWN) {
            return Err(Error::OwnLibrary { path });
        }
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: the function may be called before `MPI_Init`, and writes two numbers.
        let told = unsafe { (mpi.abi_get_version)(&raw mut major, &raw mut minor) };
        if told != SUCCESS || major < 1 {
            return Err(other(format!("{version:?} has an ABI of its own")));
        }
        let mut initialized = 0;
        // SAFETY: the function may be called before `MPI_Init`, and writes a number.
        unsafe { (mpi.initialized)(&raw mut initialized) };
        if STARTED.set(()).is_err() || initialized != 0 {
            return Err(Error::InUse);
        }
        let mut engine = Self {
            mpi,
            version,
            comm: COMM_NULL,
            node: 0,
            nodes: 0,
            sends: Vec::new(),
            sent: Vec::new(),
            received: 0,
            arrived: None,
        };
        engine.init()?;
        Ok(Box::new(engine))
    }

    fn init(&mut self) -> Result<()> {
        let mpi = self.mpi;
        let (mut level, mut comm, mut node, mut nodes) = (0, COMM_NULL, 0, 0);
        // SAFETY: `MPI_Init_thread` is called once, and takes null pointers for the arguments of `main`. The other calls
        // have valid communicators, and places for what they write.
        unsafe {
            self.call("MPI_Init_thread", || {
                (mpi.init_thread)(null_mut(), null_mut(), THREAD_SERIALIZED, &raw mut level)
            })?;
            // Errors of calls without a communicator go to that of the process alone.
            for predefined in [COMM_SELF, COMM_WORLD] {
                self.call("MPI_Comm_set_errhandler", || {
                    (mpi.comm_set_errhandler)(predefined, ERRORS_RETURN)
                })?;
            }
            self.call("MPI_Comm_dup", || (mpi.comm_dup)(COMM_WORLD, &raw mut comm))?;
            self.call("MPI_Comm_set_errhandler", || {
                (mpi.comm_set_errhandler)(comm, ERRORS_RETURN)
            })?;
            self.call("MPI_Comm_rank", || (mpi.comm_rank)(comm, &raw mut node))?;
            self.call("MPI_Comm_size", || (mpi.comm_size)(comm, &raw mut nodes))?;
        }
        if level < THREAD_SERIALIZED {
            let text = format!("{} offers threads of level {level} only", self.version);
            return Err(Error::Engine { call: "MPI_Init_thread", text });
        }
        (self.comm, self.node, self.nodes) = (comm, node as usize, nodes as usize);
        self.sent = vec![0; self.nodes];
        Ok(())
    }

    /// Returns what the MPI library says of its name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the error for a code that a function has returned.
    fn call(&self, call: &'static str, function: impl FnOnce() -> c_int) -> Result<()> {
        let code = function();
        if code == SUCCESS {
            return Ok(());
        }
        let text = text::<MAX_ERROR_STRING>(|text, len| {
            // SAFETY: the buffer is as long as the standard says.
            unsafe { (self.mpi.error_string)(code, text, len) }
        });
        Err(Error::Engine { call, text: text.unwrap_or_else(|| format!("error code {code}")) })
    }

    /// Takes what has arrived, and throws it away.
    fn discard(&mut self) -> Result<()> {
        while let Some(arrived) = self.probe()? {
            self.receive_into(&mut vec![0; arrived.len])?;
        }
        Ok(())
    }

    /// Returns the words of all nodes, which give as many each. Calls `meanwhile` until they are there.
    fn gather(
        &mut self,
        own: &[u64],
        mut meanwhile: impl FnMut(&mut Self) -> Result<()>,
    ) -> Result<Vec<u64>> {
        let (mpi, comm, mut request) = (self.mpi, self.comm, 0);
        let mut gathering = Gathering { own: own.to_vec(), all: vec![0; own.len() * self.nodes] };
        let (from, to) = (gathering.own.as_ptr().cast(), gathering.all.as_mut_ptr().cast());
        let (count, request) = (own.len() as Count, std::ptr::from_mut(&mut request));
        self.call("MPI_Iallgather_c", || {
            // SAFETY: there is room for this many words of each node, and all nodes give as many. The buffers are kept,
            // at their addresses, until the request has ended, and else for ever.
            unsafe { (mpi.iallgather)(from, count, UINT64_T, to, count, UINT64_T, comm, request) }
        })?;
        let mut gathering = ManuallyDrop::new(gathering);
        loop {
            let mut done = 0;
            // SAFETY: the request was begun above, and has not ended.
            self.call("MPI_Test", || unsafe { (mpi.test)(request, &raw mut done, null_mut()) })?;
            if done != 0 {
                // The library does not use the buffers any more.
                let all = std::mem::take(&mut gathering.all);
                ManuallyDrop::into_inner(gathering);
                return Ok(all);
            }
            meanwhile(self)?;
        }
    }
}

/// The buffers of an operation that gathers.
struct Gathering {
    own: Vec<u64>,
    all: Vec<u64>,
}

impl Interconnect for Engine {
    fn node(&self) -> usize {
        self.node
    }

    fn nodes(&self) -> usize {
        self.nodes
    }

    fn send(&mut self, to: usize, tag: u32, bytes: Bytes) -> Result<()> {
        check(to, self.nodes, tag)?;
        let (mpi, comm, mut request) = (self.mpi, self.comm, 0);
        let message: &[u8] = (*bytes).as_ref();
        let (first, len) = (message.as_ptr().cast(), message.len() as Count);
        let begun = self.call("MPI_Isend_c", || {
            // SAFETY: the bytes are kept, at this address, until the request has ended.
            unsafe {
                (mpi.isend)(first, len, BYTE, to as c_int, tag as c_int, comm, &raw mut request)
            }
        });
        match begun {
            Ok(()) => {
                self.sends.push((request, bytes));
                self.sent[to] += 1;
            }
            // Nobody knows whether the library reads them.
            Err(_) => std::mem::forget(bytes),
        }
        begun
    }

    fn progress(&mut self) -> Result<usize> {
        let mut at = 0;
        while let Some((request, _)) = self.sends.get_mut(at) {
            let (mpi, request, mut done) = (self.mpi, &raw mut *request, 0);
            // SAFETY: the request is one that `send` began, and has not ended.
            let code = unsafe { (mpi.test)(request, &raw mut done, null_mut()) };
            match code == SUCCESS && done == 0 {
                true => at += 1,
                false => {
                    let (_, bytes) = self.sends.swap_remove(at);
                    if let Err(error) = self.call("MPI_Test", || code) {
                        // The library may still read them.
                        std::mem::forget(bytes);
                        return Err(error);
                    }
                }
            }
        }
        Ok(self.sends.len())
    }

    fn probe(&mut self) -> Result<Option<Arrived>> {
        if self.arrived.is_none() {
            let (mpi, comm) = (self.mpi, self.comm);
            let (mut found, mut message, mut len) = (0, 0, 0);
            let mut status = Status::default();
            self.call("MPI_Improbe", || {
                let (found, message, status) = (&raw mut found, &raw mut message, &raw mut status);
                // SAFETY: the communicator is valid, and there are places for what the function writes.
                unsafe { (mpi.improbe)(ANY_SOURCE, ANY_TAG, comm, found, message, status) }
            })?;
            if found == 0 {
                return Ok(None);
            }
            // SAFETY: the status is that of a message.
            self.call("MPI_Get_count_c", || unsafe {
                (mpi.get_count)(&raw const status, BYTE, &raw mut len)
            })?;
            let (from, tag, len) = (status.source as usize, status.tag as u32, len as usize);
            self.arrived = Some((Arrived { from, tag, len }, message));
        }
        Ok(self.arrived.map(|(arrived, _)| arrived))
    }

    fn receive_into(&mut self, buffer: &mut [u8]) -> Result<()> {
        let (Arrived { len, .. }, mut message) = self.arrived.ok_or(Error::NothingArrived)?;
        if len != buffer.len() {
            return Err(Error::WrongLength { len, buffer: buffer.len() });
        }
        self.arrived = None;
        let (mpi, first) = (self.mpi, buffer.as_mut_ptr().cast());
        self.call("MPI_Mrecv_c", || {
            // SAFETY: the message was probed and not received, and the buffer has its length.
            unsafe { (mpi.mrecv)(first, len as Count, BYTE, &raw mut message, null_mut()) }
        })?;
        self.received += 1;
        Ok(())
    }

    fn all_gather(&mut self, words: &[u64]) -> Result<Vec<u64>> {
        let progress = |engine: &mut Self| engine.progress().map(drop);
        let lengths = self.gather(&[words.len() as u64], progress)?;
        check_lengths(self.node, &lengths)?;
        self.gather(words, progress)
    }

    fn abort(&mut self, status: i32) -> Result<()> {
        // SAFETY: the communicator is valid.
        self.call("MPI_Abort", || unsafe { (self.mpi.abort)(self.comm, status) })
    }

    fn end(mut self: Box<Self>) -> Result<()> {
        // Every message must be received before the end. A long one is sent only when its receiver takes it.
        let sent = self.sent.clone();
        let sent = self.gather(&sent, |engine| engine.progress().and_then(|_| engine.discard()))?;
        let expected: u64 = sent.iter().skip(self.node).step_by(self.nodes).sum();
        while self.progress()? > 0 || self.received < expected {
            self.discard()?;
        }
        // SAFETY: no request is pending, and no message is probed and not received.
        self.call("MPI_Finalize", || unsafe { (self.mpi.finalize)() })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // The library may still read the bytes of sends that have not ended.
        self.sends.drain(..).for_each(|(_, bytes)| std::mem::forget(bytes));
    }
}

/// Loads a library, and returns its path, as far as that is known.
fn load(named: Option<OsString>) -> Result<(Library, PathBuf)> {
    let open = |name: &OsStr| {
        // SAFETY: loading runs the initialization of the library, which the user has chosen or installed. Parts of MPI
        // libraries are loaded later, and need the names of the first one.
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_GLOBAL) }
    };
    if let Some(path) = named {
        let failed = |error: libloading::Error| Error::NoLibrary {
            path: PathBuf::from(&path),
            reason: reason(&error),
        };
        return open(&path).map(|library| (library, PathBuf::from(&path))).map_err(failed);
    }
    let mut reasons = Vec::new();
    for name in NAMES {
        match open(OsStr::new(name)) {
            Ok(library) => return Ok((library, PathBuf::from(name))),
            Err(error) => reasons.push(reason(&error)),
        }
    }
    Err(Error::NoLibrary { path: PathBuf::from(NAMES[0]), reason: reasons.join("; ") })
}

/// Returns what the loader says.
fn reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

/// Returns what the library says of its name and version, on one line.
fn version(mpi: &Functions) -> String {
    let version = text::<MAX_LIBRARY_VERSION_STRING>(|text, len| {
        // SAFETY: the function may be called before `MPI_Init`, and the buffer is as long as the standard says.
        unsafe { (mpi.get_library_version)(text, len) }
    });
    version.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

/// Returns a text that a function writes into a buffer of this length, if it succeeds.
fn text<const LEN: usize>(write: impl FnOnce(*mut c_char, *mut c_int) -> c_int) -> Option<String> {
    let (mut text, mut len) = (vec![0u8; LEN + 1], 0);
    let code = write(text.as_mut_ptr().cast(), &raw mut len);
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    (code == SUCCESS).then(|| text.to_string_lossy().into_owned())
}
