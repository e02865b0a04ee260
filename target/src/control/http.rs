//! The part of HTTP that a metrics scraper needs: each connection carries one request and its
//! answer.

/// The longest request in bytes.
pub(super) const REQUEST_MAX: usize = 8 << 10;
/// The media type of OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The meaning of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A request for the metrics; with `false`, only for the head of the answer.
    Metrics(bool),
    /// A request for something else: the answer that refuses it.
    Refused(Vec<u8>),
}

/// Reads a request; `None` until the request has arrived completely.
pub(super) fn read(request: &[u8]) -> Option<Asked> {
    let ends = |end: &[u8]| request.windows(end.len()).any(|bytes| bytes == end);
    if !ends(b"\r\n\r\n") && !ends(b"\n\n") {
        let refusal =
            || refused("431 Request Header Fields Too Large", "", "the request is too long\n");
        return (request.len() >= REQUEST_MAX).then(refusal);
    }
    Some(meaning(request))
}

/// Returns the meaning of a complete request.
fn meaning(request: &[u8]) -> Asked {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default().trim_end_matches('\r');
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words.as_slice() else {
        return refused("400 Bad Request", "", "this is not an HTTP request\n");
    };
    if !version.starts_with("HTTP/1.") {
        return refused("400 Bad Request", "", "use HTTP/1.1 or HTTP/1.0\n");
    }
    match (target.split('?').next(), *method) {
        (Some("/metrics"), "GET") => Asked::Metrics(true),
        (Some("/metrics"), "HEAD") => Asked::Metrics(false),
        (Some("/metrics"), _) => {
            refused("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "use GET\n")
        }
        _ => refused("404 Not Found", "", "the metrics are at /metrics\n"),
    }
}

fn refused(status: &str, headers: &str, body: &str) -> Asked {
    Asked::Refused(answer(status, headers, "text/plain; charset=utf-8", body, true))
}

/// Returns the answer that carries the metrics.
pub(super) fn metrics(text: Result<String, std::fmt::Error>, whole: bool) -> Vec<u8> {
    match text {
        Ok(text) => answer("200 OK", "", OPENMETRICS, &text, whole),
        Err(_) => answer("500 Internal Server Error", "", "text/plain", "no metrics\n", whole),
    }
}

fn answer(status: &str, headers: &str, kind: &str, body: &str, whole: bool) -> Vec<u8> {
    let mut answer = format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    if whole {
        answer.push_str(body);
    }
    answer.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn status(request: &str) -> String {
        match read(request.as_bytes()) {
            Some(Asked::Refused(answer)) => String::from_utf8(answer).unwrap()[9..12].to_owned(),
            Some(other) => format!("{other:?}"),
            None => "incomplete".to_owned(),
        }
    }

    #[test]
    fn requests_are_answered_as_http_says() {
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "Metrics(true)");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), "Metrics(true)");
        assert_eq!(status("HEAD /metrics HTTP/1.1\n\n"), "Metrics(false)");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("hello\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics HTTP/2.0\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n"), "incomplete");
        assert_eq!(status(&"x".repeat(REQUEST_MAX)), "431");
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
