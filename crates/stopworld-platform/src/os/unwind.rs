//! The return addresses of the calling thread, without names.

use std::ffi::c_void;

unsafe extern "C" {
    // The standard library uses the same unwinder for panics.
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> i32, data: *mut c_void) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Continues the walk.
const NO_REASON: i32 = 0;
/// Ends the walk.
const END_OF_STACK: i32 = 5;

struct Frames<'a> {
    addresses: &'a mut [usize],
    found: usize,
}

extern "C" fn visit(context: *mut c_void, data: *mut c_void) -> i32 {
    // SAFETY: `return_addresses` passes its `Frames`, which no other reference is used for meanwhile.
    let frames = unsafe { &mut *data.cast::<Frames<'_>>() };
    // SAFETY: the context that the unwinder has passed.
    let address = unsafe { _Unwind_GetIP(context) };
    match frames.addresses.get_mut(frames.found) {
        Some(place) if address != 0 => {
            *place = address;
            frames.found += 1;
            NO_REASON
        }
        _ => END_OF_STACK,
    }
}

/// Writes the return addresses of the calling thread's frames to `addresses`, innermost first, and returns their number. Each address is
/// the one after the call. Does not call Rust's allocator, so that an allocator may use it.
///
/// Not async-signal-safe with a glibc older than 2.35, whose unwinder takes a lock of the dynamic loader.
pub fn return_addresses(addresses: &mut [usize]) -> usize {
    let mut frames = Frames { addresses, found: 0 };
    // SAFETY: `visit` gets `frames`, which outlives the call.
    unsafe { _Unwind_Backtrace(visit, (&raw mut frames).cast()) };
    frames.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn deeper(levels: usize, addresses: &mut [usize]) -> usize {
        if levels > 0 {
            return std::hint::black_box(deeper(levels - 1, addresses));
        }
        return_addresses(addresses)
    }

    #[test]
    fn each_frame_has_an_address_and_no_more_than_there_is_room_for() {
        let mut addresses = [0; 64];
        let few = deeper(0, &mut addresses);
        let more = deeper(5, &mut addresses);
        assert!(few > 2 && more == few + 5, "{few} and {more} frames");
        assert!(addresses[..more].iter().all(|address| *address != 0));
        assert_eq!(deeper(5, &mut addresses[..3]), 3);
    }
}
