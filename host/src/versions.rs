//! Whether two sides understand each other, and reading no more of a structure than is there (`.host.version`).

use crate::abi::{Header, MAJOR, MINOR};
use crate::failure::{Code, Failure, failure, is_null};

/// Structures that begin with a [`Header`], of which any bytes are a value once the header has been looked at.
///
/// # Safety
/// `repr(C)`, the header first, and all zeros is a value: numbers, pointers, and optional functions.
pub(crate) unsafe trait Headed: Copy {
    /// What the header calls it.
    const NAME: &'static str;
    /// Its size in the first version of this major one.
    const SMALLEST: usize;
}

macro_rules! headed {
    ($($type:ident = $name:literal),*) => {$(
        // SAFETY: as the trait wants; see `abi`.
        unsafe impl Headed for crate::abi::$type {
            const NAME: &'static str = $name;
            // This is the first version: when one grows, its size of today comes here.
            const SMALLEST: usize = size_of::<crate::abi::$type>();
        }
    )*};
}

headed! {
    Host = "stopworld_host",
    Options = "stopworld_options",
    TypeDescription = "stopworld_type_description",
    Collection = "stopworld_collection",
    Statistics = "stopworld_statistics",
    EventDescription = "stopworld_event"
}

fn check<T: Headed>(header: Header) -> Result<(), Failure> {
    let Header { size, major, minor } = header;
    let name = T::NAME;
    if major != MAJOR {
        return Err(failure(
            Code::Version,
            format!(
                "{name} is of version {major}.{minor}, and this collector speaks {MAJOR}.{MINOR}: take the header of version {MAJOR}"
            ),
        ));
    }
    if (size as usize) < T::SMALLEST {
        let smallest = T::SMALLEST;
        return Err(failure(
            Code::Version,
            format!(
                "{name} says that it has {size} bytes, and in version {MAJOR}.0 it has {smallest}: set its header with STOPWORLD_HEADER"
            ),
        ));
    }
    Ok(())
}

/// A copy of what the host has written: what it does not know yet is 0, and what this collector does not know yet is left out.
///
/// # Safety
/// `from` is null, or points to as many bytes as the header there says, or at least to a header.
pub(crate) unsafe fn read<T: Headed>(from: *const T) -> Result<T, Failure> {
    if from.is_null() {
        return Err(is_null(T::NAME));
    }
    // SAFETY: the caller's promise.
    let header = unsafe { from.cast::<Header>().read_unaligned() };
    check::<T>(header)?;
    // SAFETY: the trait's promise.
    let mut copy = unsafe { std::mem::zeroed::<T>() };
    let bytes = size_of::<T>().min(header.size as usize);
    // SAFETY: so many bytes are there, and so many has the copy.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut copy).cast::<u8>(), bytes) };
    Ok(copy)
}

/// Fills a structure of the host's, as far as it has room, and keeps its header.
///
/// # Safety
/// `to` is null, or points to as many bytes as the header there says, or at least to a header.
pub(crate) unsafe fn write<T: Headed>(
    to: *mut T,
    make: impl FnOnce(Header) -> Result<T, Failure>,
) -> Result<(), Failure> {
    if to.is_null() {
        return Err(is_null(T::NAME));
    }
    // SAFETY: the caller's promise.
    let header = unsafe { to.cast::<Header>().read_unaligned() };
    check::<T>(header)?;
    let made = make(header)?;
    let bytes = size_of::<T>().min(header.size as usize);
    // SAFETY: as in `read`.
    unsafe { std::ptr::copy_nonoverlapping((&raw const made).cast::<u8>(), to.cast::<u8>(), bytes) };
    Ok(())
}
