//! Sizes, kinds, reallocation, free.

use std::collections::HashSet;
use std::ffi::CStr;
use std::ptr::{self, null_mut};

use rstest::rstest;

use super::*;

/// bdwgc's own test requires the sizes of 7, 15 and 0 bytes.
#[rstest]
#[case(0, 16)]
#[case(1, 8)]
#[case(7, 8)]
#[case(8, 8)]
#[case(9, 16)]
#[case(15, 16)]
#[case(16, 16)]
#[case(17, 24)]
#[case(24, 24)]
#[case(25, 32)]
#[case(100, 104)]
fn the_size_of_a_small_object(#[case] bytes: usize, #[case] size: usize) {
    let _alone = alone();
    // SAFETY: objects of this size.
    unsafe {
        for object in [GC_malloc(bytes), GC_malloc_atomic(bytes)] {
            assert_eq!(GC_size(object), size);
            assert!((object as usize).is_multiple_of(16));
            assert_eq!(GC_base(object.byte_add(bytes.saturating_sub(1))), object);
        }
    }
}

#[test]
fn objects_are_zeroed_have_at_least_their_size_and_know_their_kind() {
    let _alone = alone();
    for bytes in [1, 16, 40, 127, 500, 2048, 5000, 8168, 8169, 100_000] {
        // SAFETY: objects of this size.
        unsafe {
            // A cell that was used before.
            let before = GC_malloc(bytes);
            ptr::write_bytes(before.cast::<u8>(), 0xaa, bytes);
            GC_free(before);
            let (normal, atomic, root) = (GC_malloc(bytes), GC_malloc_atomic(bytes), GC_malloc_uncollectable(bytes));
            for (object, kind) in [(normal, 1), (atomic, 0), (root, 2)] {
                let mut size = 0;
                assert_eq!(GC_get_kind_and_size(object, &mut size), kind);
                assert!(size >= bytes && GC_size(object) == size);
                assert_eq!(GC_is_heap_ptr(object), 1);
            }
            for object in [normal, root] {
                assert!((0..bytes).all(|at| *object.cast::<u8>().add(at) == 0), "{bytes} bytes");
            }
            [normal, atomic, root].into_iter().for_each(|object| GC_free(object));
            assert_eq!(GC_base(root), null_mut(), "it was freed");
        }
    }
    let local = 0_u8;
    // SAFETY: any address is allowed.
    unsafe {
        let address = (&raw const local).cast_mut().cast();
        assert_eq!((GC_base(address), GC_size(address), GC_is_heap_ptr(address)), (null_mut(), 0, 0));
    }
}

#[test]
fn reallocation_keeps_content_and_kind() {
    let _alone = alone();
    for start in [1, 24, 40, 3000, 20_000] {
        // SAFETY: objects of these sizes.
        unsafe {
            for (mut object, kind) in
                [(GC_malloc(start), 1), (GC_malloc_atomic(start), 0), (GC_malloc_uncollectable(start), 2)]
            {
                let mut size = start;
                for byte in 0..start {
                    object.cast::<u8>().add(byte).write(byte as u8);
                }
                for next in [start + 1, start * 3, start * 2, start / 2 + 1, 100_000, start] {
                    object = GC_realloc(object, next);
                    let kept = size.min(next).min(start / 2 + 1);
                    assert!((0..kept).all(|byte| *object.cast::<u8>().add(byte) == byte as u8), "{start} to {next}");
                    assert_eq!(GC_get_kind_and_size(object, null_mut()), kind);
                    if kind != 0 && next > size {
                        assert!((size..next).all(|byte| *object.cast::<u8>().add(byte) == 0), "{size} to {next}");
                    }
                    size = next;
                }
                collect();
                assert_eq!(GC_realloc(object, 0), null_mut());
                assert_eq!(GC_base(object), null_mut());
            }
        }
    }
    // SAFETY: null is allowed.
    unsafe {
        GC_free(null_mut());
        let object = GC_realloc(null_mut(), 100);
        assert!(GC_size(object) >= 100);
    }
}

#[test]
fn strings_are_copied() {
    let _alone = alone();
    // SAFETY: texts that end in 0, and results of that kind.
    unsafe {
        let copy = GC_strdup(c"hello".as_ptr());
        assert_eq!(CStr::from_ptr(copy), c"hello");
        assert_eq!(CStr::from_ptr(GC_strndup(copy, 3)), c"hel");
        assert_eq!(CStr::from_ptr(GC_strndup(copy, 30)), c"hello");
        assert_eq!(GC_get_kind_and_size(copy.cast(), null_mut()), 0, "a text has no pointers");
        assert!(GC_strdup(ptr::null()).is_null());
    }
}

#[rstest]
fn aligned_objects_stay_alive(#[values(8, 16, 64, 4096)] align: usize) {
    let _alone = alone();
    // SAFETY: an object of this size.
    unsafe {
        let object = GC_memalign(align, 100);
        assert!((object as usize).is_multiple_of(align));
        object.cast::<usize>().write(0x1234);
        collect();
        assert_eq!(object.cast::<usize>().read(), 0x1234);
        assert!(!GC_base(object).is_null());
        let mut place = null_mut();
        assert_eq!(GC_posix_memalign(&mut place, align, 100), 0);
        assert!((place as usize).is_multiple_of(align));
        assert_ne!(GC_posix_memalign(&mut place, align + 1, 100), 0);
    }
}

/// All elements of a list stay alive as long as its head is reachable, and are distinct.
#[test]
fn lists_of_objects() {
    let _alone = alone();
    let mut seen = HashSet::new();
    // SAFETY: lists of objects of at least one word.
    unsafe {
        for bytes in [16, 48, 2000] {
            for _ in 0..50 {
                let (many, mut generic) = (GC_malloc_many(bytes), null_mut());
                GC_generic_malloc_many(bytes, 1, &mut generic);
                collect();
                for mut object in [many, generic] {
                    let mut count = 0;
                    while !object.is_null() {
                        assert!(GC_size(object) >= bytes && seen.insert(object as usize) || bytes != 16);
                        assert!((1..bytes / 8).all(|word| *object.cast::<usize>().add(word) == 0));
                        object = object.cast::<Pointer>().read();
                        count += 1;
                    }
                    assert!(count >= (4096 / bytes).max(1), "{count} of {bytes} bytes");
                }
                seen.clear();
            }
        }
    }
}
