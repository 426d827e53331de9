//! A heap for the comparison with other readers of heap snapshots.

use heap_snapshot::{Builder, Graph, Label, RootGroup, RootKind};

/// A heap of random references, also to the objects that roots refer to.
pub fn random_heap() -> Graph {
    const OBJECTS: u32 = 3000;
    const ROOTS: u32 = 10;
    let mut builder = Builder::default();
    let mut state = 1_u64;
    let mut random = |below: u32| {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % below
    };
    for object in 0..OBJECTS {
        let kind = random(3);
        let size = if kind == 2 { 2048 } else { 32 + 16 * u64::from(kind) };
        builder
            .object(0x7f00_0000_0000 + 4096 * u64::from(object), ["leaf", "pair", "array"][kind as usize], size)
            .unwrap();
        for reference in 0..[0, 2, 100][kind as usize].min(1 + random(100)) {
            builder.reference(Label::Offset(8 * reference), random(OBJECTS));
        }
    }
    for root in 0..ROOTS {
        let kind = [RootKind::Stack, RootKind::Handle, RootKind::Static, RootKind::Other][root as usize % 4];
        let thread = (kind == RootKind::Stack).then(|| "main".to_owned());
        builder.root(RootGroup { kind, thread }, 0x7ffd_0000_0000 + u64::from(root), root);
    }
    builder.finish().0
}
