//! Who may ask, and what a browser may do with the answers.
//!
//! The console has no password: whoever reaches its address may read. So that a page of somebody else in the same browser may
//! not, three things hold. A request has to name the console by an address, by localhost, or by a name that the operator of
//! the console has given: a stranger's name that is made to lead here (DNS rebinding) is refused. A request for data that
//! the browser says comes from another site's page is refused. And no answer allows another origin anything (CORS).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Console;
use super::refusal::Refusal;

/// Where data are, as opposed to the page.
const DATA: &str = "/api/";

/// What every answer says: nothing but the page's own script and style may run, nobody may frame it, and no content is guessed.
const HEADERS: [(HeaderName, &str); 6] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Lets those requests through that may be answered, and says with each answer what may be done with it.
pub(super) async fn guard(State(console): State<Arc<Console>>, request: Request, next: Next) -> Response {
    let mut response = match check(request.uri(), request.headers(), &console.hosts) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn check(uri: &Uri, headers: &HeaderMap, names: &[String]) -> Result<(), Refusal> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let named = [text(header::HOST), uri.authority().map(|authority| authority.as_str())];
    if named.iter().all(Option::is_none) {
        return Err(Refusal::wrong("a Host header is needed"));
    }
    if let Some(stranger) = named.into_iter().flatten().find(|host| !is_served(host, names)) {
        let text = format!("{stranger} is no name of this console: give it with console_hosts if it should be one");
        return Err(Refusal { status: StatusCode::MISDIRECTED_REQUEST, text });
    }
    // Browsers say it themselves; what is no browser says nothing.
    let site = text(HeaderName::from_static("sec-fetch-site")).unwrap_or("none");
    if uri.path().starts_with(DATA) && !["same-origin", "none"].contains(&site) {
        let text = "another site's page may not ask".to_owned();
        return Err(Refusal { status: StatusCode::FORBIDDEN, text });
    }
    Ok(())
}

/// Whether the console goes by this host, which may have a port behind it.
fn is_served(host: &str, names: &[String]) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok()).map_or(host, |(name, _)| name),
    };
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    // Addresses cannot be made to lead elsewhere, and localhost never leaves the machine.
    name.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || names.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_given_names_are_served() {
        let names = ["console.example".to_owned()];
        for host in [
            "127.0.0.1:9405",
            "10.1.2.3",
            "[::1]:9405",
            "localhost:9405",
            "LOCALHOST.",
            "taffrail.localhost",
            "Console.Example:443",
        ] {
            assert!(is_served(host, &names), "{host}");
        }
        for host in ["evil.example:9405", "127.0.0.1.evil.example", "localhost.evil.example", "", "xlocalhost", "a:b"] {
            assert!(!is_served(host, &names), "{host}");
        }
        assert!(is_served("evil.example", &["*".to_owned()]), "whoever asks for it gets it");
    }

    #[test]
    fn pages_of_other_sites_get_no_data_but_may_link_to_the_page() {
        let status = |path: &str, host: Option<&str>, site: Option<&str>| {
            let mut headers = HeaderMap::new();
            let mut put = |name: &'static str, value: Option<&str>| {
                headers
                    .extend(value.map(|value| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())));
            };
            put("host", host);
            put("sec-fetch-site", site);
            check(&path.parse().unwrap(), &headers, &[]).map_err(|refusal| refusal.status)
        };
        let local = Some("127.0.0.1:9405");
        assert_eq!(status("/api/health", local, None), Ok(()), "curl says nothing of sites");
        assert_eq!(status("/api/health", local, Some("same-origin")), Ok(()));
        assert_eq!(status("/", local, Some("cross-site")), Ok(()), "a link");
        for site in ["cross-site", "same-site"] {
            assert_eq!(status("/api/messages", local, Some(site)), Err(StatusCode::FORBIDDEN));
        }
        assert_eq!(status("/", Some("rebound.example"), None), Err(StatusCode::MISDIRECTED_REQUEST));
        assert_eq!(status("http://rebound.example/", local, None), Err(StatusCode::MISDIRECTED_REQUEST));
        assert_eq!(status("/", None, None), Err(StatusCode::BAD_REQUEST));
    }
}
