//! Objects that are ready to be protected, by any of the schemes.
//!
//! | file | what it is |
//! |---|---|
//! | `map` | [`Map`]: keys with values, of any plain types |
//! | `table` | [`Table`]: the hash table in it, for objects with other operations |
//! | `bytes` | [`Bytes`]: short strings of bytes, as keys and values |

mod bytes;
mod map;
mod table;

pub use bytes::{Bytes, TooLong};
pub use map::{Answer, Map, MapOp};
pub use table::{Entry, Full, Table};
