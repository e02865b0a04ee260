//! The part of HTTP that a metrics scraper needs: each connection carries one request and its
//! answer.

use crate::control::metrics::plain_text;

/// The longest request in bytes.
pub(super) const REQUEST_MAX: usize = 8 << 10;
/// The media type of OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of Prometheus' text format.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The form of the metrics in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Plain,
}

/// The meaning of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A request for the metrics; with `false`, only for the head of the answer.
    Metrics(Form, bool),
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
        (Some("/metrics"), "GET") => Asked::Metrics(form(request), true),
        (Some("/metrics"), "HEAD") => Asked::Metrics(form(request), false),
        (Some("/metrics"), _) => {
            refused("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "use GET\n")
        }
        _ => refused("404 Not Found", "", "the metrics are at /metrics\n"),
    }
}

/// Chooses the form by `Accept`. OpenMetrics is for clients that name it and do not prefer plain text.
fn form(request: &[u8]) -> Form {
    let text = String::from_utf8_lossy(request);
    let headers = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    let accept = headers.filter(|(name, _)| name.trim().eq_ignore_ascii_case("accept"));
    let (mut open, mut plain) = (0.0, 0.0);
    for range in accept.flat_map(|(_, ranges)| ranges.split(',')) {
        let mut words = range.split(';').map(str::trim);
        let kind = words.next().unwrap_or_default();
        let weight = words.find_map(|word| word.strip_prefix("q="));
        let weight = weight.map_or(1.0, |weight| weight.parse::<f64>().unwrap_or(0.0));
        if kind.eq_ignore_ascii_case("application/openmetrics-text") {
            open = f64::max(open, weight);
        } else if kind.eq_ignore_ascii_case("text/plain") {
            plain = f64::max(plain, weight);
        }
    }
    if open > 0.0 && open >= plain { Form::OpenMetrics } else { Form::Plain }
}

fn refused(status: &str, headers: &str, body: &str) -> Asked {
    Asked::Refused(answer(status, headers, "text/plain; charset=utf-8", body, true))
}

/// Returns the answer that carries the metrics.
pub(super) fn metrics(text: Result<String, std::fmt::Error>, form: Form, whole: bool) -> Vec<u8> {
    let vary = "Vary: Accept\r\n";
    match (text, form) {
        (Ok(text), Form::OpenMetrics) => answer("200 OK", vary, OPENMETRICS, &text, whole),
        (Ok(text), Form::Plain) => answer("200 OK", vary, PLAIN, &plain_text(&text), whole),
        (Err(_), _) => answer("500 Internal Server Error", "", "text/plain", "no metrics\n", whole),
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
        assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), "Metrics(Plain, true)");
        assert_eq!(status("GET /metrics?x=1 HTTP/1.0\r\n\r\n"), "Metrics(Plain, true)");
        assert_eq!(status("HEAD /metrics HTTP/1.1\n\n"), "Metrics(Plain, false)");
        assert_eq!(status("POST /metrics HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("hello\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics HTTP/2.0\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n"), "incomplete");
        assert_eq!(status(&"x".repeat(REQUEST_MAX)), "431");
    }

    #[test]
    fn openmetrics_is_for_clients_that_name_it() {
        let open = "application/openmetrics-text";
        for (accept, form) in [
            (String::new(), "Plain"),
            ("Accept: */*\r\n".to_owned(), "Plain"),
            ("Accept: text/plain\r\n".to_owned(), "Plain"),
            (format!("Accept: {open}\r\n"), "OpenMetrics"),
            (format!("Accept: {open};q=0\r\n"), "Plain"),
            (format!("accept: {open};version=1.0.0;q=0.6,text/plain;q=0.4\r\n"), "OpenMetrics"),
            (format!("Accept: {open};q=0.2, text/plain; version=0.0.4\r\n"), "Plain"),
        ] {
            let request = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{accept}\r\n");
            assert_eq!(status(&request), format!("Metrics({form}, true)"), "{accept}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
