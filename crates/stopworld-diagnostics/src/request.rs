//! The parser of CollectTracing, the command by which a client requests events.
//!
//! The command has six versions, which added fields at the beginning, in the middle, or at the end:
//!
//! | version | u32 kind | u32 MB | u32 format | rundown | stacks | providers | tail |
//! |---|---|---|---|---|---|---|---|
//! | 1 | | ✓ | ✓ | | | P | |
//! | 2 | | ✓ | ✓ | bool | | P | |
//! | 3 | | ✓ | ✓ | bool | bool | P | |
//! | 4 | | ✓ | ✓ | u64 keywords | bool | P | |
//! | 5, 6 | ✓ | ✓ | ✓ | u64 keywords | bool | P + filter | 6: u32 buffering |
//!
//! P is an array of {u64 keywords, u32 level, string name, string arguments}; the filter adds {bool only, array of u32 event ids}.
//! Bytes after the last field are ignored, as in the .NET runtime.
//!
//! The collector takes no stacks, and its rundown consists only of its version and settings; so the parser ignores the
//! requested stacks and rundown keywords. A session that requests *blocking* instead of losing events loses them nevertheless:
//! no client may make a collection wait.

use super::message::{Payload, Refusal};

/// The largest number of providers, as in the .NET runtime.
const MOST_PROVIDERS: usize = 1000;
/// The smallest size of a provider, in bytes.
const PROVIDER_BYTES: usize = 8 + 4 + 4 + 4;
/// The highest level.
const HIGHEST: u32 = 5;

/// The key of a provider's argument that selects a world.
pub(crate) const WORLD_KEY: &str = "StopworldWorld";

/// The kinds of a session. Only streams are supported.
const STREAM: u32 = 0;
const USER_EVENTS: u32 = 1;
/// The formats of a stream.
const NETPERF: u32 = 0;
const NETTRACE: u32 = 1;

/// A request for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collect {
    /// The size of the buffer for events that the client has not read yet.
    pub(crate) megabytes: u32,
    /// Whether the client requests a rundown.
    pub(crate) rundown: bool,
    pub(crate) providers: Vec<RequestedProvider>,
}

/// The events that are requested of one provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestedProvider {
    pub(crate) name: String,
    pub(crate) keywords: u64,
    pub(crate) level: u32,
    pub(crate) arguments: String,
    filter: Filter,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Filter {
    Only(Vec<u32>),
    AllBut(Vec<u32>),
}

impl RequestedProvider {
    /// Returns whether an event of this provider is requested: its level is not above the requested one, it has a requested
    /// keyword or no keyword at all, and the filter accepts it.
    pub(crate) fn wants(&self, event: u32, keywords: u64, level: u8) -> bool {
        let passes = match &self.filter {
            Filter::Only(ids) => ids.contains(&event),
            Filter::AllBut(ids) => !ids.contains(&event),
        };
        passes && u32::from(level) <= self.level && (keywords == 0 || keywords & self.keywords != 0)
    }
}

impl Collect {
    /// Parses the payload of this version, which counts from 1.
    ///
    /// # Errors
    /// If the payload is invalid, or requests something that this runtime does not support.
    pub(crate) fn parse(version: u8, bytes: &[u8]) -> Result<Collect, Refusal> {
        let mut payload = Payload::of(bytes);
        if version >= 5 {
            match payload.u32()? {
                STREAM => {}
                USER_EVENTS => return Err(Refusal::NotSupported),
                _ => return Err(Refusal::BadEncoding),
            }
        }
        let (megabytes, format) = (payload.u32()?, payload.u32()?);
        let (rundown, _stacks) = match version {
            1 => (true, true),
            2 => (payload.bool()?, true),
            3 => (payload.bool()?, payload.bool()?),
            _ => (payload.u64()? != 0, payload.bool()?),
        };
        let count = payload.count(PROVIDER_BYTES, MOST_PROVIDERS)?;
        let providers: Vec<RequestedProvider> =
            (0..count).map(|_| provider(&mut payload, version)).collect::<Result<_, _>>()?;
        if version >= 6 && payload.u32()? > 1 {
            return Err(Refusal::BadEncoding);
        }
        match format {
            NETTRACE if count > 0 && megabytes > 0 => Ok(Collect { megabytes, rundown, providers }),
            NETPERF if count > 0 && megabytes > 0 => Err(Refusal::NotSupported),
            _ => Err(Refusal::BadEncoding),
        }
    }

    /// Returns the number of the only world whose events are requested; `None` for all worlds.
    pub(crate) fn world(&self) -> Option<u64> {
        self.providers.iter().find_map(|provider| argument(&provider.arguments, WORLD_KEY)?.parse().ok())
    }

    /// Returns whether the request includes this event.
    pub(crate) fn wants(&self, provider: &str, event: u32, keywords: u64, level: u8) -> bool {
        self.providers.iter().any(|wanted| wanted.name == provider && wanted.wants(event, keywords, level))
    }
}

fn provider(payload: &mut Payload<'_>, version: u8) -> Result<RequestedProvider, Refusal> {
    let (keywords, level) = (payload.u64()?, payload.u32()?);
    let (name, arguments) = (payload.string()?, payload.string()?);
    let filter = match version {
        5.. => {
            let only = payload.bool()?;
            let count = payload.count(4, usize::MAX)?;
            let ids = (0..count).map(|_| payload.u32()).collect::<Result<Vec<_>, _>>()?;
            if only { Filter::Only(ids) } else { Filter::AllBut(ids) }
        }
        _ => Filter::AllBut(Vec::new()),
    };
    if level > HIGHEST || name.is_empty() {
        return Err(Refusal::BadEncoding);
    }
    Ok(RequestedProvider { name, keywords, level, arguments, filter })
}

/// Returns the value of a key in `key=value;key=value`, where either may be in double quotes.
pub(crate) fn argument(arguments: &str, key: &str) -> Option<String> {
    let mut rest = arguments;
    while !rest.is_empty() {
        let (name, behind) = word(rest, '=');
        let (value, next) = word(behind, ';');
        if name == key {
            return Some(value);
        }
        rest = next;
    }
    None
}

/// Splits off a word that ends at this character outside quotes. Returns the word and the rest of the text after it.
fn word(text: &str, end: char) -> (String, &str) {
    let (mut word, mut quoted) = (String::new(), false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            letter if letter == end && !quoted => return (word, &text[at + letter.len_utf8()..]),
            letter => word.push(letter),
        }
    }
    (word, "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::message::put_string;
    use super::*;

    const RUNTIME: &str = "Microsoft-Windows-DotNETRuntime";

    fn body(version: u8, megabytes: u32, format: u32, level: u32, name: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        if version >= 5 {
            bytes.extend(0u32.to_le_bytes());
        }
        bytes.extend(megabytes.to_le_bytes());
        bytes.extend(format.to_le_bytes());
        match version {
            1 => {}
            2 => bytes.push(1),
            3 => bytes.extend([1, 1]),
            _ => bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 1]),
        }
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(level.to_le_bytes());
        put_string(&mut bytes, name);
        bytes.extend([0; 4]);
        if version >= 5 {
            bytes.extend([1, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]);
        }
        if version >= 6 {
            bytes.extend([1, 0, 0, 0]);
        }
        bytes
    }

    #[rstest]
    fn each_version_is_read(#[values(1, 2, 3, 4, 5, 6)] version: u8) {
        let bytes = body(version, 256, 1, 4, RUNTIME);
        let collect = Collect::parse(version, &bytes).unwrap();
        assert_eq!((collect.megabytes, collect.providers.len()), (256, 1));
        assert!(collect.wants(RUNTIME, 1, 1, 4) && !collect.wants(RUNTIME, 1, 1, 5));
        assert!(!collect.wants(RUNTIME, 1, 2, 4) && !collect.wants("Another", 1, 1, 4));
        assert_eq!(collect.wants(RUNTIME, 3, 1, 4), version < 5);
        for cut in 0..bytes.len() {
            assert_eq!(Collect::parse(version, &bytes[..cut]), Err(Refusal::BadEncoding), "{cut} bytes");
        }
        assert!(
            Collect::parse(version, &[&bytes[..], &[7; 9]].concat()).is_ok(),
            "bytes after the last field are ignored"
        );
    }

    #[rstest]
    #[case(body(2, 0, 1, 4, RUNTIME), Refusal::BadEncoding)]
    #[case(body(2, 16, 9, 4, RUNTIME), Refusal::BadEncoding)]
    #[case(body(2, 16, 1, 9, RUNTIME), Refusal::BadEncoding)]
    #[case(body(2, 16, 1, 4, ""), Refusal::BadEncoding)]
    #[case(body(2, 16, 0, 4, RUNTIME), Refusal::NotSupported)]
    fn invalid_requests_are_refused(#[case] bytes: Vec<u8>, #[case] refusal: Refusal) {
        assert_eq!(Collect::parse(2, &bytes), Err(refusal));
    }

    #[test]
    fn an_empty_filter_accepts_all_events_or_none() {
        let with =
            |filter| RequestedProvider { name: "p".into(), keywords: 1, level: 4, arguments: String::new(), filter };
        assert!(with(Filter::AllBut(Vec::new())).wants(1, 1, 4));
        assert!(!with(Filter::Only(Vec::new())).wants(1, 1, 4));
        assert!(!with(Filter::AllBut(vec![1])).wants(1, 1, 4));
        assert!(with(Filter::Only(vec![1])).wants(1, 0, 0), "an event without keywords matches every keyword");
    }

    #[rstest]
    #[case("EventCounterIntervalSec=1", Some("1"))]
    #[case("SessionId=\"a;b=c\";EventCounterIntervalSec=0.5", Some("0.5"))]
    #[case("\"EventCounterIntervalSec\"=\"2\";x=y", Some("2"))]
    #[case("XEventCounterIntervalSec=1;;=;a", None)]
    #[case("", None)]
    fn arguments_are_keys_and_values(#[case] arguments: &str, #[case] value: Option<&str>) {
        assert_eq!(argument(arguments, "EventCounterIntervalSec").as_deref(), value);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(version in 1u8..=6, bytes: Vec<u8>, text: String) {
            let _ = Collect::parse(version, &bytes);
            let _ = argument(&text, "k");
        }

        #[test]
        fn any_changed_byte_is_read_or_refused(version in 1u8..=6, at: prop::sample::Index, value: u8) {
            let mut bytes = body(version, 256, 1, 4, RUNTIME);
            let at = at.index(bytes.len());
            bytes[at] = value;
            let _ = Collect::parse(version, &bytes);
        }
    }
}
