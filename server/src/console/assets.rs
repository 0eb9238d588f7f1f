//! The files of the page, which are in the binary.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use taffrail_core::record::crc32c;

use super::refusal::Refusal;

/// The page itself.
pub(super) const PAGE: &str = "index.html";

/// A file: its name, its media type, its text.
struct Asset {
    name: &'static str,
    media_type: &'static str,
    text: &'static str,
}

macro_rules! assets {
    ($($name:literal $media_type:literal,)*) => {
        &[$(Asset { name: $name, media_type: $media_type, text: include_str!(concat!("assets/", $name)) },)*]
    };
}

const ASSETS: &[Asset] = assets! {
    "index.html" "text/html; charset=utf-8",
    "style.css" "text/css; charset=utf-8",
    "icon.svg" "image/svg+xml",
    "app.js" "text/javascript; charset=utf-8",
    "brokers.js" "text/javascript; charset=utf-8",
    "dom.js" "text/javascript; charset=utf-8",
    "format.js" "text/javascript; charset=utf-8",
    "groups.js" "text/javascript; charset=utf-8",
    "health.js" "text/javascript; charset=utf-8",
    "messages.js" "text/javascript; charset=utf-8",
    "rows.js" "text/javascript; charset=utf-8",
    "topics.js" "text/javascript; charset=utf-8",
};

/// A file, or that the browser has it already.
pub(super) fn answer(name: &str, headers: &HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return nothing();
    };
    // Another release has other files under the same names, so browsers keep them and ask whether they still hold.
    let tag = format!("\"{:08x}\"", crc32c(asset.text.as_bytes()));
    let is_known = headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let body = if is_known { Body::empty() } else { Body::from(asset.text) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let out = response.headers_mut();
    out.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    out.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    out.extend(HeaderValue::from_str(&tag).map(|tag| (header::ETAG, tag)));
    response
}

/// What is answered where there is no file.
pub(super) fn nothing() -> Response {
    Refusal::missing("there is nothing here; the page is at the address without a path").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_sent_once_and_then_only_confirmed() {
        let first = answer("app.js", &HeaderMap::new());
        assert_eq!(
            (first.status(), &first.headers()[header::CONTENT_TYPE]),
            (StatusCode::OK, &"text/javascript; charset=utf-8".parse().unwrap())
        );
        let known = HeaderMap::from_iter([(header::IF_NONE_MATCH, first.headers()[header::ETAG].clone())]);
        assert_eq!(answer("app.js", &known).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(answer("style.css", &known).status(), StatusCode::OK, "another file has another tag");
        for missing in ["", "mod.rs", "../mod.rs", "%2e%2e"] {
            assert_eq!(answer(missing, &HeaderMap::new()).status(), StatusCode::NOT_FOUND);
        }
    }

    #[test]
    fn the_page_names_only_files_that_are_here_and_runs_nothing_that_the_policy_forbids() {
        for asset in ASSETS {
            assert!(
                !asset.text.contains("://") || asset.text.replace("http://www.w3.org/", "").find("://").is_none(),
                "{} leads elsewhere",
                asset.name
            );
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=\"", "onclick="]
            {
                assert!(!asset.text.contains(forbidden), "{} has {forbidden}", asset.name);
            }
            for import in asset.text.split("from \"./").skip(1) {
                let name = import.split('"').next().unwrap();
                assert!(ASSETS.iter().any(|asset| asset.name == name), "{} imports {name}", asset.name);
            }
        }
    }
}
