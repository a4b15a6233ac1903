//! What data looks like in a file.

use std::{
    ffi::{c_int, c_void},
    ptr::without_provenance_mut,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    callbacks::callbacks,
    constants::{MPI_MAX_DATAREP_STRING, MPI_SUCCESS},
    datatype::{
        TypeRef,
        data::Data,
        external::{self, EXTERNAL32},
    },
    error::{Class, Error},
    types::{
        Count, DatarepConversionFunction, DatarepExtentFunction, Handle,
        LargeDatarepConversionFunction,
    },
};

type Result<T> = std::result::Result<T, Error>;

/// A representation of data.
#[derive(Clone, Debug)]
pub(crate) enum Representation {
    /// Data in files and in memory has the same bytes. This has two names.
    Same(&'static str),
    External,
    /// The program's functions convert it.
    Program(Arc<Registered>),
}

/// A representation that the program has registered.
#[derive(Debug)]
pub(crate) struct Registered {
    pub name: Vec<u8>,
    /// Converts what was read.
    pub read: Option<Conversion>,
    /// Converts what is to be written.
    pub write: Option<Conversion>,
    pub extent: Option<DatarepExtentFunction>,
    pub extra: *mut c_void,
}

// SAFETY: the library only hands the pointer back to the program's functions.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

/// A function of the program that converts data, of two forms.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Conversion {
    Int(DatarepConversionFunction),
    Large(LargeDatarepConversionFunction),
}

/// The program's representations, which remain for ever.
static REGISTERED: Mutex<Vec<Arc<Registered>>> = Mutex::new(Vec::new());

fn registered() -> MutexGuard<'static, Vec<Arc<Registered>>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a representation of the program.
pub(crate) fn register(new: Registered) -> Result<()> {
    if new.name.len() >= MPI_MAX_DATAREP_STRING as usize {
        let text = format!("the name of the representation has {} characters", new.name.len());
        return Err(Error::new(Class::Arg, text));
    }
    if new.extent.is_none() {
        return Err(Error::new(Class::Arg, "the function for extents is a null pointer"));
    }
    if Representation::find(&new.name).is_ok() {
        let text = format!("there is a representation \"{}\" already", new.name.escape_ascii());
        return Err(Error::new(Class::DupDatarep, text));
    }
    registered().push(Arc::new(new));
    Ok(())
}

impl Representation {
    pub const NATIVE: Self = Self::Same("native");

    /// Returns the representation of this name.
    pub fn find(name: &[u8]) -> Result<Self> {
        match name {
            b"native" => return Ok(Self::NATIVE),
            b"internal" => return Ok(Self::Same("internal")),
            EXTERNAL32 => return Ok(Self::External),
            _ => {}
        }
        let found = registered().iter().find(|one| one.name == name).cloned();
        found.map(Self::Program).ok_or_else(|| {
            let text = format!("there is no representation \"{}\"", name.escape_ascii());
            Error::new(Class::UnsupportedDatarep, text)
        })
    }

    pub fn name(&self) -> &[u8] {
        match self {
            Self::Same(name) => name.as_bytes(),
            Self::External => EXTERNAL32,
            Self::Program(registered) => &registered.name,
        }
    }

    /// Returns whether data in files and in memory has the same bytes.
    pub fn is_same(&self) -> bool {
        match self {
            Self::Same(_) => true,
            Self::External => false,
            Self::Program(registered) => registered.read.is_none() && registered.write.is_none(),
        }
    }

    /// Returns how many bytes an element has in a file.
    pub fn size(&self, of: &TypeRef) -> Result<i64> {
        match self {
            Self::External => Ok(external::size(of)),
            Self::Program(registered) if !self.is_same() => registered.size(of),
            _ => Ok(of.size),
        }
    }

    /// Returns how far an element is from the next one in a file.
    pub fn extent(&self, of: &TypeRef) -> Result<i64> {
        let size = self.size(of)?;
        match of.is_dense() {
            true => Ok(size),
            false if size == of.size => Ok(of.extent),
            false => {
                let text = "gaps between numbers that are wider or narrower in the file";
                Err(Error::new(Class::UnsupportedDatarep, text))
            }
        }
    }

    /// Returns elements as they are in a file.
    ///
    /// # Safety
    /// The handle is that of the elements' type.
    pub unsafe fn encode(&self, data: Data<'_>, datatype: Handle) -> Result<Vec<u8>> {
        // SAFETY: the caller says so.
        let of = unsafe { TypeRef::keep(datatype)? };
        let program = match self {
            Self::External => return external::encode(&of, &data.packed()),
            Self::Program(registered) => registered.write.map(|write| (write, registered)),
            Self::Same(_) => None,
        };
        let Some((write, registered)) = program else { return Ok(data.packed().into_owned()) };
        let bytes = usize::try_from(self.size(&of)?).unwrap_or(0).saturating_mul(data.count());
        let mut encoded = vec![0; bytes];
        // SAFETY: there is room for the elements as they are in the file.
        unsafe { write.call((data, datatype), encoded.as_mut_ptr(), registered.extra)? };
        Ok(encoded)
    }

    /// Takes elements over that have this form in a file. Returns the number of bytes that they have in memory: only
    /// whole elements of the program's representations are taken over.
    ///
    /// # Safety
    /// The handle is that of the elements' type, and they may be written to.
    pub unsafe fn decode(
        &self,
        encoded: &mut [u8],
        data: Data<'_>,
        datatype: Handle,
    ) -> Result<usize> {
        // SAFETY: the caller says so.
        let of = unsafe { TypeRef::keep(datatype)? };
        let program = match self {
            Self::Program(registered) => registered.read.map(|read| (read, registered)),
            _ => None,
        };
        let Some((read, registered)) = program else {
            let native = match self {
                Self::External => &external::decode(&of, encoded)?,
                _ => &*encoded,
            };
            data.unpack(native);
            return Ok(native.len());
        };
        let size = usize::try_from(self.size(&of)?).unwrap_or(0);
        let count = encoded.len().checked_div(size).unwrap_or(0);
        // SAFETY: the caller says so of all elements, and these are the first of them, which are in the copy of the file.
        unsafe {
            let whole = data.part(0, count);
            read.call((whole, datatype), encoded.as_mut_ptr(), registered.extra)?;
            Ok(whole.bytes())
        }
    }
}

impl Conversion {
    /// Converts elements.
    ///
    /// # Safety
    /// The handle is that of the elements' type. There is as much room at `file` as they have in a file, and what is
    /// converted to may be written to.
    unsafe fn call(
        self,
        (data, datatype): (Data<'_>, Handle),
        file: *mut u8,
        extra: *mut c_void,
    ) -> Result<()> {
        let (count, user, file) = (data.count(), data.pointer(), file.cast());
        // SAFETY: in both cases: the program has given this function to convert data. It gets the data's address, type
        // and number, and the address of what the file has.
        let code = match self {
            Self::Int(function) => {
                let count = c_int::try_from(count).map_err(|_| {
                    Error::new(Class::Count, format!("{count} elements are too many to convert"))
                })?;
                // SAFETY: see above.
                unsafe { callbacks().convert(function, (user, file), (datatype, count), 0, extra) }
            }
            // SAFETY: see above.
            Self::Large(function) => unsafe {
                let count = count as Count;
                callbacks().convert_many(function, (user, file), (datatype, count), 0, extra)
            },
        };
        converted(code)
    }
}

fn converted(code: c_int) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        _ => {
            let text = format!("the program's function for the representation returned {code}");
            Err(Error::new(Class::Conversion, text))
        }
    }
}

impl Registered {
    /// Returns how many bytes an element has in a file: those of its basic elements.
    fn size(&self, of: &TypeRef) -> Result<i64> {
        if let &TypeRef::Predefined(_, number) = of
            && let Some(extent) = self.extent
        {
            let mut bytes = 0;
            let of = without_provenance_mut(number);
            // SAFETY: the program has given this function to tell extents.
            converted(unsafe { callbacks().extent(extent, of, &mut bytes, self.extra) })?;
            return match bytes as i64 {
                bytes @ 0.. => Ok(bytes),
                bytes => {
                    let text = format!("the program says that a type has {bytes} bytes in a file");
                    Err(Error::new(Class::Conversion, text))
                }
            };
        }
        of.parts().try_fold(0i64, |sum, (part, count)| {
            Ok(sum.saturating_add(self.size(part)?.saturating_mul(count)))
        })
    }
}
