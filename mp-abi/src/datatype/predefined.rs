//! The types that MPI names, by the numbers of their handles.

use std::{
    borrow::Cow,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize},
    },
};

use super::{
    definition::{Datatype, Kind},
    pieces::Piece,
};
use crate::{attributes::Attributes, callbacks::Owner};

const fn named(
    name: &'static str,
    (size, extent, align): (i64, i64, i64),
    elements: i64,
    kind: Kind,
    pieces: &'static [Piece],
) -> Datatype {
    Datatype {
        size,
        lower: 0,
        extent,
        true_lower: 0,
        // Only the pair types have padding, and it is at their ends, or within them.
        true_extent: match pieces {
            [.., last] => last.offset + last.length,
            [] => 0,
        },
        align,
        set_bounds: (false, false),
        elements,
        kind,
        is_predefined: true,
        pieces: Cow::Borrowed(pieces),
        made: None,
        is_committed: AtomicBool::new(true),
        handles: AtomicUsize::new(0),
        attributes: Attributes::new(Owner::Datatype),
        name: Mutex::new(Cow::Borrowed(name)),
    }
}

macro_rules! types {
    (
        basic { $($number:literal $name:ident $size:literal $align:literal $kind:ident;)* }
        pairs { $($pair:literal $pair_name:ident $first:literal $place:literal $second:literal $extent:literal $pair_align:literal $pair_kind:ident;)* }
    ) => {
        const NUMBERS: &[usize] = &[$($number,)* $($pair,)*];
        static TYPES: [Datatype; NUMBERS.len()] = [
            $(named(
                stringify!($name),
                ($size, $size, $align),
                1,
                Kind::$kind,
                &[Piece::run(0, $size)],
            ),)*
            $(named(
                stringify!($pair_name),
                ($first + $second, $extent, $pair_align),
                2,
                Kind::$pair_kind,
                const {
                    match $first == $place {
                        true => &[Piece::run(0, $first + $second)],
                        false => &[Piece::run(0, $first), Piece::run($place, $second)] as &[_],
                    }
                },
            ),)*
        ];
    };
}

// Each with its size and alignment; a pair with the size of its first part, the place and the size of its second, its
// extent and its alignment. These are C's on all 64-bit machines with Linux.
types! {
    basic {
        0x201 MPI_AINT 8 8 I64;
        0x202 MPI_COUNT 8 8 I64;
        0x203 MPI_OFFSET 8 8 I64;
        0x207 MPI_PACKED 1 1 None;
        0x208 MPI_SHORT 2 2 I16;
        0x209 MPI_INT 4 4 I32;
        0x20a MPI_LONG 8 8 I64;
        0x20b MPI_LONG_LONG_INT 8 8 I64;
        0x20c MPI_UNSIGNED_SHORT 2 2 U16;
        0x20d MPI_UNSIGNED 4 4 U32;
        0x20e MPI_UNSIGNED_LONG 8 8 U64;
        0x20f MPI_UNSIGNED_LONG_LONG 8 8 U64;
        0x210 MPI_FLOAT 4 4 F32;
        0x212 MPI_C_COMPLEX 8 4 C32;
        0x213 MPI_CXX_FLOAT_COMPLEX 8 4 C32;
        0x214 MPI_DOUBLE 8 8 F64;
        0x216 MPI_C_DOUBLE_COMPLEX 16 8 C64;
        0x217 MPI_CXX_DOUBLE_COMPLEX 16 8 C64;
        0x218 MPI_LOGICAL 4 4 Logical32;
        0x219 MPI_INTEGER 4 4 I32;
        0x21a MPI_REAL 4 4 F32;
        0x21b MPI_COMPLEX 8 4 C32;
        0x21c MPI_DOUBLE_PRECISION 8 8 F64;
        0x21d MPI_DOUBLE_COMPLEX 16 8 C64;
        0x21e MPI_CHARACTER 1 1 None;
        0x220 MPI_LONG_DOUBLE 16 16 LongDouble;
        0x224 MPI_C_LONG_DOUBLE_COMPLEX 32 16 ComplexLongDouble;
        0x225 MPI_CXX_LONG_DOUBLE_COMPLEX 32 16 ComplexLongDouble;
        0x238 MPI_C_BOOL 1 1 Bool;
        0x239 MPI_CXX_BOOL 1 1 Bool;
        0x23c MPI_WCHAR 4 4 None;
        0x240 MPI_INT8_T 1 1 I8;
        0x241 MPI_UINT8_T 1 1 U8;
        0x243 MPI_CHAR 1 1 I8;
        0x244 MPI_SIGNED_CHAR 1 1 I8;
        0x245 MPI_UNSIGNED_CHAR 1 1 U8;
        0x247 MPI_BYTE 1 1 Byte;
        0x248 MPI_INT16_T 2 2 I16;
        0x249 MPI_UINT16_T 2 2 U16;
        // No constants of the standard: programs for MPICH have them.
        0x24a MPIX_C_FLOAT16 2 2 None;
        0x24b MPIX_BFLOAT16 2 2 None;
        0x250 MPI_INT32_T 4 4 I32;
        0x251 MPI_UINT32_T 4 4 U32;
        0x258 MPI_INT64_T 8 8 I64;
        0x259 MPI_UINT64_T 8 8 U64;
        0x2c0 MPI_LOGICAL1 1 1 Logical8;
        0x2c1 MPI_INTEGER1 1 1 I8;
        0x2c8 MPI_LOGICAL2 2 2 Logical16;
        0x2c9 MPI_INTEGER2 2 2 I16;
        0x2ca MPI_REAL2 2 2 None;
        0x2d0 MPI_LOGICAL4 4 4 Logical32;
        0x2d1 MPI_INTEGER4 4 4 I32;
        0x2d2 MPI_REAL4 4 4 F32;
        0x2d3 MPI_COMPLEX4 4 2 None;
        0x2d8 MPI_LOGICAL8 8 8 Logical64;
        0x2d9 MPI_INTEGER8 8 8 I64;
        0x2da MPI_REAL8 8 8 F64;
        0x2db MPI_COMPLEX8 8 4 C32;
        0x2e0 MPI_LOGICAL16 16 16 None;
        0x2e1 MPI_INTEGER16 16 16 I128;
        0x2e2 MPI_REAL16 16 16 None;
        0x2e3 MPI_COMPLEX16 16 8 C64;
        0x2eb MPI_COMPLEX32 32 16 None;
    }
    pairs {
        0x228 MPI_FLOAT_INT 4 4 4 8 4 F32Int;
        0x229 MPI_DOUBLE_INT 8 8 4 16 8 F64Int;
        0x22a MPI_LONG_INT 8 8 4 16 8 I64Int;
        0x22b MPI_2INT 4 4 4 8 4 IntInt;
        0x22c MPI_SHORT_INT 2 4 4 8 4 I16Int;
        0x22d MPI_LONG_DOUBLE_INT 16 16 4 32 16 LongDoubleInt;
        0x230 MPI_2REAL 4 4 4 8 4 F32F32;
        0x231 MPI_2DOUBLE_PRECISION 8 8 8 16 8 F64F64;
        0x232 MPI_2INTEGER 4 4 4 8 4 IntInt;
    }
}

const NONE: u8 = u8::MAX;
const FIRST: usize = 0x200;

/// For each number, the place of its type.
static PLACES: [u8; 0x100] = {
    let mut places = [NONE; 0x100];
    let mut place = 0;
    while place < NUMBERS.len() {
        places[NUMBERS[place] - FIRST] = place as u8;
        place += 1;
    }
    places
};

/// Returns the type with this handle.
#[inline]
pub(super) fn predefined(number: usize) -> Option<&'static Datatype> {
    let place = *PLACES.get(number.wrapping_sub(FIRST))?;
    TYPES.get(place as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_sizes_are_in_the_numbers() {
        for (number, datatype) in NUMBERS.iter().zip(&TYPES) {
            if number & 0xc0 != 0 {
                assert_eq!(datatype.size, 1 << (number >> 3 & 7), "{}", datatype.name());
            }
            assert!(std::ptr::eq(predefined(*number).unwrap(), datatype));
        }
        assert!(predefined(0x200).is_none() && predefined(0x1ff).is_none());
        assert!(predefined(0x300).is_none() && predefined(0).is_none());
    }

    #[test]
    fn pairs_are_c_structures() {
        #[repr(C)]
        struct ShortInt(i16, i32);
        #[repr(C)]
        struct DoubleInt(f64, i32);
        let [short, double] = [0x22c, 0x229].map(|number| predefined(number).unwrap());
        assert_eq!(short.extent as usize, size_of::<ShortInt>());
        assert_eq!(short.pieces[1].offset as usize, std::mem::offset_of!(ShortInt, 1));
        assert_eq!(double.extent as usize, size_of::<DoubleInt>());
        assert_eq!((short.size, double.size), (6, 12));
        assert_eq!((short.true_extent, double.true_extent), (8, 12));
    }
}
