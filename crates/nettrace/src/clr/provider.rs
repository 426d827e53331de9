//! The providers whose events have templates.

/// The provider of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `Microsoft-Windows-DotNETRuntime`.
    Runtime,
    /// `Microsoft-Windows-DotNETRuntimePrivate`.
    Private,
    /// `Microsoft-Windows-DotNETRuntimeRundown`: the state at the end of a trace.
    Rundown,
    /// `Microsoft-DotNETCore-EventPipe`: events of the EventPipe itself.
    EventPipe,
}

impl Provider {
    /// All of them.
    pub const ALL: [Provider; 4] = [Provider::Runtime, Provider::Private, Provider::Rundown, Provider::EventPipe];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Provider::Runtime => "Microsoft-Windows-DotNETRuntime",
            Provider::Private => "Microsoft-Windows-DotNETRuntimePrivate",
            Provider::Rundown => "Microsoft-Windows-DotNETRuntimeRundown",
            Provider::EventPipe => "Microsoft-DotNETCore-EventPipe",
        }
    }

    /// Returns the provider with this name, if its events have templates.
    pub fn named(name: &str) -> Option<Provider> {
        Provider::ALL.into_iter().find(|provider| provider.name() == name)
    }
}
