//! The numbers of cost centres and of their stacks, and those that every program has.

/// Numbers of centres fit into so many bits.
pub(super) const CENTRE_BITS: u32 = 20;

/// The number of a cost centre: from 1, one after the other, and the same in every world of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CentreId(pub(super) u32);

macro_rules! built_in {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal: $label:literal in $module:literal;)+) => {
        impl CentreId {
            $($(#[doc = $doc])+ pub const $name: CentreId = CentreId($number);)+

            /// The centres that every program has, by their numbers.
            pub const BUILT_IN: [CentreId; 7] = [$(CentreId::$name),+];
        }

        /// Their names, modules and places.
        pub(super) const BUILT_IN_TEXTS: [[&str; 3]; 7] = [$([$label, $module, BUILT_IN_PLACE]),+];
    };
}

const BUILT_IN_PLACE: &str = "<built-in>";

built_in! {
    /// The whole program: at the bottom of every stack.
    MAIN = 1: "MAIN" in "MAIN";
    /// What the runtime does for itself.
    SYSTEM = 2: "SYSTEM" in "SYSTEM";
    /// Collecting.
    GC = 3: "GC" in "GC";
    /// What profiling costs.
    OVERHEAD_OF = 4: "OVERHEAD_of" in "PROFILING";
    /// What nobody wants to know more about; also whatever found no room in the store.
    DONT_CARE = 5: "DONT_CARE" in "MAIN";
    /// What is pinned, for runtimes that can't tell who allocated it. Ours can: nothing is charged to it.
    PINNED = 6: "PINNED" in "SYSTEM";
    /// A thread that waits.
    IDLE = 7: "IDLE" in "IDLE";
}

impl CentreId {
    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The centre of this number; whether it exists, the store says. `None` for 0, which is nobody's.
    pub const fn from_raw(number: u32) -> Option<CentreId> {
        if number == 0 { None } else { Some(CentreId(number)) }
    }

    /// Whether every program has it.
    pub const fn is_built_in(self) -> bool {
        self.0 as usize <= CentreId::BUILT_IN.len()
    }
}

/// The number of a cost centre stack; 0 is the empty one, MAIN. The same in every world of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub(super) u32);

impl StackId {
    /// The empty stack: the program itself.
    pub const MAIN: StackId = StackId(0);
    /// The runtime's own work.
    pub const SYSTEM: StackId = StackId(CentreId::SYSTEM.0);
    /// A collection.
    pub const GC: StackId = StackId(CentreId::GC.0);
    /// A thread that waits.
    pub const IDLE: StackId = StackId(CentreId::IDLE.0);

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The stack of this number; whether it exists, the store says: one that does not looks like [`MAIN`](Self::MAIN).
    pub const fn from_raw(number: u32) -> StackId {
        StackId(number)
    }
}
