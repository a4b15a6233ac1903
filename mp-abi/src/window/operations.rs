//! What ranks do with each other's memory. All of it is done when a call returns.

use super::{Win, target::Elements};
use crate::{
    datatype::{Datatype, data::Data, vector::Vector},
    error::{Class, Error},
    op::{BAND, Kernel, LAND, NO_OP, REPLACE, find},
};

type Result<T> = std::result::Result<T, Error>;

/// What an accumulate makes of elements.
enum Change<'a> {
    Nothing,
    Replace,
    /// This is called with vectors of elements of the type.
    Combine(Kernel, &'a Datatype),
}

impl<'a> Change<'a> {
    /// Returns what the predefined operation of this number does with elements of a type.
    fn of(op: usize, datatype: &'a Datatype) -> Result<Self> {
        if datatype.size == 0 {
            return Ok(Self::Nothing);
        }
        let Some(basic) = datatype.basic() else {
            let text = "an accumulate is of elements of one predefined type";
            return Err(Error::new(Class::Type, text));
        };
        match op {
            NO_OP => Ok(Self::Nothing),
            REPLACE => Ok(Self::Replace),
            _ => match find(op, basic.kind) {
                Some(kernel) => Ok(Self::Combine(kernel, basic)),
                None => {
                    let text =
                        format!("the operation is not defined for {} in windows", basic.name());
                    Err(Error::new(Class::Op, text))
                }
            },
        }
    }
}

/// Returns an error if data of this rank and of the target differ in length.
#[inline]
fn check_lengths(own: Data<'_>, elements: Elements<'_>) -> Result<()> {
    match (own.bytes(), elements.bytes()) {
        (own, theirs) if own == theirs => Ok(()),
        (own, theirs) => {
            let text = format!("there are {own} bytes at the origin and {theirs} at the target");
            Err(Error::new(Class::Count, text))
        }
    }
}

/// Writes data to elements of a target.
#[inline]
pub(crate) fn put(from: Data<'_>, elements: Elements<'_>) -> Result<()> {
    check_lengths(from, elements)?;
    if elements.bytes() == 0 {
        return Ok(());
    }
    elements.write(&from.packed())
}

/// Reads elements of a target.
///
/// # Safety
/// As for [`Data::plain_mut`].
#[inline]
pub(crate) unsafe fn get(to: Data<'_>, elements: Elements<'_>) -> Result<()> {
    check_lengths(to, elements)?;
    if elements.bytes() == 0 {
        return Ok(());
    }
    match elements.here() {
        Some(data) => {
            to.copy_from(data);
            Ok(())
        }
        // SAFETY: the caller says so.
        None => unsafe { to.fill(|bytes| elements.read(bytes)) },
    }
}

impl Win {
    /// Changes elements of a target by an operation with data of this rank, which is not there if nothing changes. What
    /// they were before comes to `result`, if that is there. No other accumulate changes the rank's memory meanwhile.
    ///
    /// # Safety
    /// `result` is as for [`Data::plain_mut`].
    pub unsafe fn accumulate(
        &self,
        target: usize,
        elements: Elements<'_>,
        op: usize,
        own: Option<Data<'_>>,
        result: Option<Data<'_>>,
    ) -> Result<()> {
        if elements.bytes() == 0 && own.is_none_or(|own| own.bytes() == 0) {
            return result.map_or(Ok(()), |result| check_lengths(result, elements));
        }
        let change = Change::of(op, elements.datatype())?;
        let own = match (own, &change) {
            (Some(own), Change::Replace | Change::Combine(..)) => {
                check_lengths(own, elements)?;
                own.packed()
            }
            _ => Default::default(),
        };
        let _right = self.locks.change(target)?;
        if let Some(result) = result {
            // SAFETY: the caller says so.
            unsafe { get(result, elements)? };
        }
        match change {
            Change::Nothing => Ok(()),
            Change::Replace => elements.write(&own),
            Change::Combine(kernel, basic) => combine(kernel, basic, &own, elements),
        }
    }

    /// Replaces an element of a target if it has a value, and returns what it was.
    ///
    /// # Safety
    /// `result` is as for [`Data::plain_mut`].
    pub unsafe fn compare_and_swap(
        &self,
        target: usize,
        elements: Elements<'_>,
        [new, compare, result]: [Data<'_>; 3],
    ) -> Result<()> {
        let datatype = elements.datatype();
        let is_comparable = [BAND, LAND].into_iter().any(|op| find(op, datatype.kind).is_some());
        if !is_comparable {
            let text = format!("{} can't be compared and swapped", datatype.name());
            return Err(Error::new(Class::Type, text));
        }
        let mut old = vec![0; elements.bytes()];
        let _right = self.locks.change(target)?;
        elements.read(&mut old)?;
        if old == *compare.packed() {
            elements.write(&new.packed())?;
        }
        result.unpack(&old);
        Ok(())
    }
}

/// Combines data of this rank with elements of a target, which get the results.
fn combine(kernel: Kernel, basic: &Datatype, own: &[u8], elements: Elements<'_>) -> Result<()> {
    if let (Some(data), true) = (elements.here(), basic.is_dense()) {
        let mut rest = own;
        data.runs(|address, bytes| {
            let (now, later) = rest.split_at(bytes);
            let place = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: the run is data of the elements, which may be written to. It consists of whole elements of the
            // basic type, which has no gaps, and as much of the other data is there.
            unsafe { kernel(now.as_ptr(), place, bytes / basic.size as usize) };
            rest = later;
        });
        return Ok(());
    }
    let mut old = vec![0; elements.bytes()];
    elements.read(&mut old)?;
    let count = old.len().checked_div(basic.size as usize).unwrap_or(0);
    let [mut lower, mut upper] = [own, &old].map(|bytes| {
        let mut vector = Vector::new(count, basic);
        vector.data().unpack(bytes);
        vector
    });
    let (lower, upper) = (lower.data(), upper.data());
    // SAFETY: both are vectors of this many elements, which nobody else has.
    unsafe { kernel(lower.pointer().cast(), upper.pointer().cast(), count) };
    elements.write(&upper.packed())
}
