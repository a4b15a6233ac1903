//! Objects in the segment that ranks find by their names: channels, message passing buffers, and the notes that belong
//! to the names of channels.
//!
//! A [named](Named) object is a block of the heap. A rank that opens it [finds](find) it by its namespace, its name,
//! and whatever else distinguishes it, or [makes](find_or_make) it. Objects of one name pair up in the order of
//! opening. A [member](Members) that is no longer part of an object is **gone**, and the others are told. It is
//! **released** when nothing of it can touch the object's memory any more. The block is freed when every member is gone
//! and all that have opened it are released.
//!
//! All of this happens under the heap's lock, and a rank may die at any store. A rank that dies while it makes an
//! object leaves a block that no other rank can find. The block is freed with everything else that the rank held.

mod find;
mod members;
mod object;
mod ranks;
mod title;

pub(crate) use find::{find, find_or_make};
pub(crate) use members::{Leaving, Members};
pub(crate) use object::{Named, Object};
pub(crate) use ranks::RankSet;
pub(crate) use title::{NAME, Name, Title};
