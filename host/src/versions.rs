//! Checks versions, and reads and writes structures only within the size that their header gives (`.host.version`).

use crate::abi::{Header, MAJOR, MINOR};
use crate::failure::{Code, Failure, failure, is_null};

/// Structures that begin with a [`Header`] and are valid for any bytes after it.
///
/// # Safety
/// The type is `repr(C)`, the header is its first member, and all zeros is a valid value: numbers, pointers, and optional functions.
pub(crate) unsafe trait Headed: Copy {
    /// The name of the structure in the C header.
    const NAME: &'static str;
    /// The size of the structure in the first version with this major number.
    const SMALLEST: usize;
}

macro_rules! headed {
    ($($type:ident = $name:literal),*) => {$(
        // SAFETY: `abi` defines the structure as the trait requires.
        unsafe impl Headed for crate::abi::$type {
            const NAME: &'static str = $name;
            // This is the first version. When a structure grows, write its present size here.
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
                "{name} has version {major}.{minor}, this collector supports {MAJOR}.{MINOR}: compile the host with the header of version {MAJOR}"
            ),
        ));
    }
    if (size as usize) < T::SMALLEST {
        let smallest = T::SMALLEST;
        return Err(failure(
            Code::Version,
            format!(
                "{name} has size {size}, but at least {smallest} bytes are required since {MAJOR}.0: set its header with STOPWORLD_HEADER"
            ),
        ));
    }
    Ok(())
}

/// Copies a structure that the host has written. Members newer than the host's version are 0; members newer than this collector
/// are left out.
///
/// # Safety
/// `from` is null, or points to a header and the number of bytes that it gives.
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
    // SAFETY: both the source and the copy have at least `bytes` bytes.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (&raw mut copy).cast::<u8>(), bytes) };
    Ok(copy)
}

/// Fills a structure of the host with the value that `make` returns, up to the size in the structure's header. `make` receives that
/// header.
///
/// # Safety
/// `to` is null, or points to a header and the number of bytes that it gives.
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
