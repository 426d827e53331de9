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
    /// Returns the provider with this name, if its events have templates.
    pub fn named(name: &str) -> Option<Provider> {
        Some(match name {
            "Microsoft-Windows-DotNETRuntime" => Provider::Runtime,
            "Microsoft-Windows-DotNETRuntimePrivate" => Provider::Private,
            "Microsoft-Windows-DotNETRuntimeRundown" => Provider::Rundown,
            "Microsoft-DotNETCore-EventPipe" => Provider::EventPipe,
            _ => return None,
        })
    }
}
