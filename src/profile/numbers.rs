//! The numbers of cost centres and of their stacks, and the built-in centres.

/// The number of bits of a centre's number.
pub(super) const CENTRE_BITS: u32 = 20;

/// The number of a cost centre. Numbers are consecutive from 1, and the same in every world of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CentreId(pub(super) u32);

macro_rules! built_in {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal: $label:literal in $module:literal;)+) => {
        impl CentreId {
            $($(#[doc = $doc])+ pub const $name: CentreId = CentreId($number);)+

            /// The built-in centres, by their numbers.
            pub const BUILT_IN: [CentreId; 7] = [$(CentreId::$name),+];
        }

        /// The names, modules and places of the built-in centres.
        pub(super) const BUILT_IN_TEXTS: [[&str; 3]; 7] = [$([$label, $module, BUILT_IN_PLACE]),+];
    };
}

const BUILT_IN_PLACE: &str = "<built-in>";

built_in! {
    /// The whole program: the bottom of every stack.
    MAIN = 1: "MAIN" in "MAIN";
    /// The runtime's own work.
    SYSTEM = 2: "SYSTEM" in "SYSTEM";
    /// Garbage collection.
    GC = 3: "GC" in "GC";
    /// The cost of profiling.
    OVERHEAD_OF = 4: "OVERHEAD_of" in "PROFILING";
    /// Costs that need no detail, and the costs of every centre that did not fit into the store.
    DONT_CARE = 5: "DONT_CARE" in "MAIN";
    /// Pinned objects, for runtimes that cannot attribute them to a stack. This library can, and charges nothing to this centre.
    PINNED = 6: "PINNED" in "SYSTEM";
    /// A waiting thread.
    IDLE = 7: "IDLE" in "IDLE";
}

impl CentreId {
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the centre with this number, without checking that it exists. `None` for 0, which is no centre.
    pub const fn from_raw(number: u32) -> Option<CentreId> {
        if number == 0 { None } else { Some(CentreId(number)) }
    }

    /// Whether this is one of the built-in centres.
    pub const fn is_built_in(self) -> bool {
        self.0 as usize <= CentreId::BUILT_IN.len()
    }
}

/// The number of a cost centre stack; 0 is the empty stack, MAIN. The same in every world of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(super) u32);

impl StackId {
    /// The empty stack: the program itself.
    pub const MAIN: StackId = StackId(0);
    /// The runtime's own work.
    pub const SYSTEM: StackId = StackId(CentreId::SYSTEM.0);
    /// A collection.
    pub const GC: StackId = StackId(CentreId::GC.0);
    /// A waiting thread.
    pub const IDLE: StackId = StackId(CentreId::IDLE.0);

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Returns the stack with this number, without checking that it exists. A stack that does not exist looks like
    /// [`MAIN`](Self::MAIN).
    pub const fn from_raw(number: u32) -> StackId {
        StackId(number)
    }
}
