//! Which requests are answered: those of the server's own page, at the URL with the token.
//!
//! The server listens at 127.0.0.1, so other machines cannot reach it. Other users of this machine can, and so can any web page that is open in
//! the browser. They lack the token, 128 random bits in the path, which is compared in constant time. Further checks do not depend on the token:
//!
//! * **Host** must be the server's own address: a name that was made to resolve to 127.0.0.1 (DNS rebinding) is refused with 421.
//! * **Origin**, which a browser sends with each request of a script that is not a plain read, must be the server's own. Actions are POST, and need
//!   it.
//! * **Sec-Fetch-Site**: requests that the browser marks as caused by another site are refused, except opening the page itself.
//!
//! There are no CORS headers, so a script of another origin cannot read any answer.

use std::io;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri};
use stopworld_platform::os::thread;
use subtle::ConstantTimeEq;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// What a request must have.
#[derive(Debug)]
pub(crate) struct Access {
    token: String,
    /// What a browser sends as `Host`. The first is in the URL.
    hosts: Vec<String>,
}

/// Why a request is refused. Answers contain no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is for another host.
    Host,
    /// It is from another origin.
    Origin,
    /// It lacks the token.
    Token,
}

impl Refusal {
    /// Returns the status and the text of the answer.
    pub(crate) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Refusal::Host => (StatusCode::MISDIRECTED_REQUEST, "open the URL as `stopworld watch` printed it\n"),
            Refusal::Origin => (StatusCode::FORBIDDEN, "this request is from another site\n"),
            Refusal::Token => (StatusCode::FORBIDDEN, "this URL lacks the token that `stopworld watch` printed\n"),
        }
    }
}

impl Access {
    /// Makes a new token for a server at this port.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(port: u16) -> io::Result<Access> {
        const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];
        let mut hosts = Vec::from(NAMES.map(|name| format!("{name}:{port}")));
        // A browser leaves out the standard port.
        if port == 80 {
            hosts.extend(NAMES.map(str::to_owned));
        }
        Ok(Access { token: random_hex()?, hosts })
    }

    /// Returns the URL of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/{}/", self.hosts[0], self.token)
    }

    /// Checks a request.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = only(headers, &HOST).filter(|host| self.hosts.iter().any(|own| own == host));
        let host = host.filter(|host| uri.authority().is_none_or(|authority| authority.as_str() == *host));
        let host = host.ok_or(Refusal::Host)?;
        let is_read = method == Method::GET;
        if headers.contains_key(ORIGIN) {
            let origin = only(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
            if origin != Some(host) {
                return Err(Refusal::Origin);
            }
        } else if !is_read {
            return Err(Refusal::Origin);
        }
        // Opening the page from a link elsewhere reveals nothing: it cannot be framed, and the other site cannot read it.
        let opens_page = is_read && only(headers, &MODE) == Some("navigate");
        if headers.contains_key(SITE) && !opens_page && !matches!(only(headers, &SITE), Some("same-origin" | "none")) {
            return Err(Refusal::Origin);
        }
        let token = uri.path().split('/').nth(1).unwrap_or_default();
        if bool::from(token.as_bytes().ct_eq(self.token.as_bytes())) { Ok(()) } else { Err(Refusal::Token) }
    }
}

/// Returns the value of a header that occurs once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

/// Returns 128 random bits, as text.
pub(crate) fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    thread::random(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, Request};
    use rstest::rstest;

    use super::*;

    const TOKEN: &str = "00112233445566778899aabbccddeeff";

    fn check(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        check_at(4000, method, uri, headers)
    }

    fn check_at(port: u16, method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let access = Access { token: TOKEN.into(), ..Access::new(port).expect("random numbers") };
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_str(value).expect("a header"));
        }
        let request = request.body(()).expect("a request");
        access.check(request.method(), request.uri(), request.headers())
    }

    const OWN: (&str, &str) = ("host", "127.0.0.1:4000");
    const OWN_ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:4000");

    #[rstest]
    #[case::the_page("GET", &[OWN])]
    #[case::by_name("GET", &[("host", "localhost:4000")])]
    #[case::a_bookmark("GET", &[OWN, ("sec-fetch-site", "none"), ("sec-fetch-mode", "navigate")])]
    #[case::a_link_elsewhere("GET", &[OWN, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")])]
    #[case::the_stream("GET", &[OWN, ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors")])]
    #[case::an_action("POST", &[OWN, OWN_ORIGIN, ("sec-fetch-site", "same-origin")])]
    fn requests_of_the_page_pass(#[case] method: &str, #[case] headers: &[(&str, &str)]) {
        assert_eq!(check(method, &format!("/{TOKEN}/x"), headers), Ok(()));
    }

    /// A browser leaves out port 80, in `Host` and in `Origin`.
    #[rstest]
    #[case(80, "127.0.0.1", "http://127.0.0.1", Ok(()))]
    #[case(80, "localhost", "http://localhost", Ok(()))]
    #[case(80, "127.0.0.1:80", "http://127.0.0.1:80", Ok(()))]
    #[case(80, "evil.example", "http://evil.example", Err(Refusal::Host))]
    #[case(80, "127.0.0.1", "http://localhost", Err(Refusal::Origin))]
    #[case(8080, "127.0.0.1", "http://127.0.0.1", Err(Refusal::Host))]
    fn the_standard_port_may_be_left_out(
        #[case] port: u16,
        #[case] host: &str,
        #[case] origin: &str,
        #[case] expected: Result<(), Refusal>,
    ) {
        let headers = [("host", host), ("origin", origin)];
        assert_eq!(check_at(port, "POST", &format!("/{TOKEN}/collect"), &headers), expected);
    }

    #[rstest]
    #[case::no_host("GET", &[], Refusal::Host)]
    #[case::rebound("GET", &[("host", "evil.example:4000")], Refusal::Host)]
    #[case::another_port("GET", &[("host", "127.0.0.1:4001")], Refusal::Host)]
    #[case::no_port("GET", &[("host", "127.0.0.1")], Refusal::Host)]
    #[case::two_hosts("GET", &[OWN, ("host", "evil.example")], Refusal::Host)]
    #[case::another_origin("GET", &[OWN, ("origin", "http://evil.example")], Refusal::Origin)]
    #[case::another_local_server("GET", &[OWN, ("origin", "http://127.0.0.1:8080")], Refusal::Origin)]
    #[case::no_origin_of_its_own("GET", &[OWN, ("origin", "null")], Refusal::Origin)]
    #[case::secure("GET", &[OWN, ("origin", "https://127.0.0.1:4000")], Refusal::Origin)]
    #[case::the_other_name("GET", &[OWN, ("origin", "http://localhost:4000")], Refusal::Origin)]
    #[case::an_image("GET", &[OWN, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], Refusal::Origin)]
    #[case::a_form("POST", &[OWN, OWN_ORIGIN, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], Refusal::Origin)]
    #[case::an_action_without_origin("POST", &[OWN], Refusal::Origin)]
    fn other_requests_are_refused_even_with_the_token(
        #[case] method: &str,
        #[case] headers: &[(&str, &str)],
        #[case] refusal: Refusal,
    ) {
        assert_eq!(check(method, &format!("/{TOKEN}/"), headers), Err(refusal));
    }

    #[rstest]
    #[case("/")]
    #[case("/events")]
    #[case("//")]
    #[case("/00112233445566778899aabbccddeefe/")]
    #[case("/00112233445566778899aabbccddeef/")]
    #[case("/00112233445566778899AABBCCDDEEFF/")]
    #[case("/x/00112233445566778899aabbccddeeff/")]
    #[case("/?00112233445566778899aabbccddeeff")]
    fn a_path_without_the_token_is_refused(#[case] path: &str) {
        assert_eq!(check("GET", path, &[OWN]), Err(Refusal::Token));
        assert_eq!(check("GET", &format!("http://evil.example{path}"), &[OWN]), Err(Refusal::Host));
    }

    #[test]
    fn each_server_has_a_token_of_its_own() {
        let tokens: std::collections::BTreeSet<String> =
            (0..100).map(|_| Access::new(1).expect("random numbers").token).collect();
        assert_eq!(tokens.len(), 100);
        assert!(tokens.iter().all(|token| token.len() == 32));
    }
}
