//! The part of HTTP that scrapers and probes need: each connection carries one request and its
//! answer.

use crate::control::metrics::plain_text;

/// The longest request in bytes.
pub(super) const REQUEST_MAX: usize = 8 << 10;
/// The media type of OpenMetrics text.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of Prometheus' text format.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The media type of other answers.
const TEXT: &str = "text/plain; charset=utf-8";

/// The form of the metrics in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus' text format 0.0.4.
    Plain,
}

/// The meaning of a request. The boolean is false if only the head of the answer is requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A request for the metrics.
    Metrics(Form, bool),
    /// A probe whether the daemon answers.
    Health(bool),
    /// A probe whether the target serves hosts.
    Readiness(bool),
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
    let path = target.split('?').next().unwrap_or_default();
    if !["/metrics", "/healthz", "/readyz"].contains(&path) {
        let there = "there is nothing here; there are /metrics, /healthz and /readyz\n";
        return refused("404 Not Found", "", there);
    }
    let whole = match *method {
        "GET" => true,
        "HEAD" => false,
        _ => return refused("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "use GET\n"),
    };
    match path {
        "/healthz" => Asked::Health(whole),
        "/readyz" => Asked::Readiness(whole),
        _ => Asked::Metrics(form(request), whole),
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
    Asked::Refused(answer(status, headers, TEXT, body, true))
}

/// Returns the answer to a probe whether the daemon answers.
pub(super) fn health(whole: bool) -> Vec<u8> {
    answer("200 OK", "", TEXT, "ok\n", whole)
}

/// Returns the answer to a probe whether the target serves hosts. `ready` has the reason if it does not, which becomes
/// one line.
pub(super) fn readiness(ready: &Result<(), String>, whole: bool) -> Vec<u8> {
    match ready {
        Ok(()) => answer("200 OK", "", TEXT, "ready\n", whole),
        Err(reason) => {
            let words: Vec<&str> = reason.split_whitespace().collect();
            answer("503 Service Unavailable", "", TEXT, &(words.join(" ") + "\n"), whole)
        }
    }
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
        assert_eq!(status("GET /healthz HTTP/1.1\r\n\r\n"), "Health(true)");
        assert_eq!(status("HEAD /readyz?x HTTP/1.1\r\n\r\n"), "Readiness(false)");
        assert_eq!(status("DELETE /readyz HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), "404");
        assert_eq!(status("hello\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics HTTP/2.0\r\n\r\n"), "400");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n"), "incomplete");
        assert_eq!(status(&"x".repeat(REQUEST_MAX)), "431");
    }

    #[test]
    fn unknown_path_is_answered_with_known_ones() {
        let Some(Asked::Refused(answer)) = read(b"GET /health HTTP/1.1\r\n\r\n") else {
            panic!("not refused");
        };
        let answer = String::from_utf8(answer).unwrap();
        for path in ["/metrics", "/healthz", "/readyz"] {
            assert!(answer.contains(path), "{answer}");
        }
    }

    #[test]
    fn reason_for_503_is_one_line() {
        let answer = readiness(&Err("closed:\r\n\n no device".into()), true);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nclosed: no device\n"), "{answer}");
        let head = readiness(&Err("closed".into()), false);
        assert!(head.ends_with(b"\r\n\r\n"), "no body for HEAD");
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
