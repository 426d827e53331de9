//! The providers whose events are known.

/// Who fires an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// `Microsoft-Windows-DotNETRuntime`.
    Runtime,
    /// `Microsoft-Windows-DotNETRuntimePrivate`.
    Private,
    /// `Microsoft-Windows-DotNETRuntimeRundown`: what was so when the trace ended.
    Rundown,
    /// `Microsoft-DotNETCore-EventPipe`: the pipe about itself.
    EventPipe,
}

impl Provider {
    /// The provider of this name, if its events are known here.
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
