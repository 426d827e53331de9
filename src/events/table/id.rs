//! Event ids: the number of an event in the table, and the bit that enables it.

/// A group of events whose enabled bits share a word. Checking whether an event is enabled is one load of its group's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Group {
    /// Worlds, threads, and how they are stopped.
    World,
    /// The phases of a collection. A few events per collection.
    Collection,
    /// The heap between collections: segments, allocation ticks, large objects, handles and finalizers.
    Memory,
    /// One event per object or reference. These events are a separate group because they are recorded without the firing thread's id,
    /// which would take a system call.
    Object,
    /// One event per block, per scanned root or piece of a large one, or per refill of an allocation cache.
    Block,
    /// Names, messages and markers of the program.
    User,
    /// Heap dumps, censuses and the profiler's ticks.
    Profile,
}

/// Number of [`Group`]s.
pub const GROUPS: usize = 7;

impl Group {
    /// Every group, in the order of the words.
    pub const ALL: [Group; GROUPS] =
        [Group::World, Group::Collection, Group::Memory, Group::Object, Group::Block, Group::User, Group::Profile];
}

macro_rules! event_ids {
    ({$(
        $(#[doc = $doc:literal])+
        $name:ident / $fire:ident in $group:ident $row:tt
    )+}) => {
        /// Every event, in the order of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum EventId {$(
            $(#[doc = $doc])+
            $name,
        )+}

        /// The events, in the order of the table.
        const IDS: &[EventId] = &[$(EventId::$name),+];

        const GROUP_OF: [Group; IDS.len()] = [$(Group::$group),+];
    };
}

for_each_event!(event_ids);

impl EventId {
    /// Number of events.
    pub const COUNT: usize = IDS.len();

    /// Returns every event, in the order of the table.
    pub fn all() -> impl ExactSizeIterator<Item = EventId> {
        IDS.iter().copied()
    }

    /// Returns the event with this number, if there is one: the inverse of `id as usize`.
    pub fn from_index(index: usize) -> Option<EventId> {
        IDS.get(index).copied()
    }

    /// Returns the group whose word holds the event's enabled bit.
    pub const fn group(self) -> Group {
        GROUP_OF[self as usize]
    }

    /// Returns the event's bit in its group's word. Bits are assigned in the order of the table.
    pub const fn mask(self) -> u32 {
        MASKS[self as usize]
    }
}

/// Returns the event with a number that a host received.
impl TryFrom<u32> for EventId {
    type Error = u32;

    fn try_from(number: u32) -> Result<EventId, u32> {
        EventId::from_index(number as usize).ok_or(number)
    }
}

const MASKS: [u32; EventId::COUNT] = {
    let mut masks = [0; EventId::COUNT];
    let mut next = [1_u32; GROUPS];
    let mut index = 0;
    while index < EventId::COUNT {
        let group = GROUP_OF[index] as usize;
        masks[index] = next[group];
        // A group of more than 31 events does not compile: add a group instead.
        next[group] *= 2;
        index += 1;
    }
    masks
};
