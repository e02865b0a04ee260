//! Tests against daemons that answer, refuse or hang, and against other programs.

use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixListener;
use std::time::Instant;

use nix::sys::socket::Backlog;

use super::*;

/// A time within which everything happens that should.
const LONG: Duration = Duration::from_secs(60);
/// A time-out that a silent daemon exceeds.
const SHORT: Duration = Duration::from_millis(200);

fn ask(path: &Path, method: Method, patience: Duration) -> Result<Value, Failure> {
    Connection::open(path, patience)?.call(method, &json!({}))
}

/// Serves one client with `serve`, which gets the request and the stream. Its result is kept until the folder is
/// dropped.
fn serving<T: Send + 'static>(
    serve: impl FnOnce(Value, UnixStream) -> T + Send + 'static,
) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        serve(serde_json::from_str(&line).unwrap(), stream)
    });
    (folder, path)
}

/// Answers one client's line with what `answer` makes of it, and ends the connection.
fn daemon(answer: impl FnOnce(Value) -> String + Send + 'static) -> (tempfile::TempDir, PathBuf) {
    serving(|request, mut stream| stream.write_all(answer(request).as_bytes()).unwrap())
}

#[test]
fn a_large_answer_comes_whole() {
    let rows: Vec<u64> = (0..100_000).collect();
    let (_folder, path) = daemon(|request| {
        let rows: Vec<u64> = (0..100_000).collect();
        json!({ "id": request["id"], "result": [request["method"], rows] }).to_string() + "\n"
    });
    assert_eq!(ask(&path, Method::Status, LONG).unwrap(), json!(["status", rows]));
}

#[test]
fn refusals_keep_their_kind() {
    let error = json!({"id": 1, "error": {"kind": "not_found", "message": "no such"}});
    let (_folder, path) = daemon(move |_| error.to_string() + "\n");
    assert_eq!(ask(&path, Method::Status, LONG), Err(Failure::new("not_found", "no such")));
}

#[test]
fn an_end_amid_an_answer_is_told_and_what_it_may_mean() {
    for (method, warned) in
        [(Method::NamespaceRemove, true), (Method::QosShow, false), (Method::Status, false)]
    {
        let (_folder, path) = daemon(|_| "{\"id\":1".into());
        let failure = ask(&path, method, LONG).unwrap_err();
        assert_eq!(failure.kind, NO_DAEMON);
        assert!(failure.message.contains("ended the connection"), "{failure}");
        assert_eq!(failure.message.contains("may take effect anyway"), warned, "{failure}");
    }
}

#[test]
fn a_program_that_answers_something_else_is_called_no_daemon() {
    for answer in [
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "-ERR unknown command",
        "{\"jsonrpc\":\"2.0\",\"result\":{}}\n",
        "{\"id\":1,\"error\":\"what?\"}\n",
        "[]\n",
    ] {
        let (_folder, path) = daemon(move |_| answer.into());
        let failure = ask(&path, Method::Status, LONG).unwrap_err();
        assert_eq!(failure.kind, NO_DAEMON, "{answer:?}");
        assert!(failure.message.contains("is not sluiced"), "{failure}");
        let pid = format!("process {}", std::process::id());
        assert!(failure.message.contains(&pid), "{failure}");
    }
}

#[test]
fn a_daemon_that_accepts_and_never_answers_is_given_up() {
    let (_folder, path) = serving(|_, stream| {
        std::thread::sleep(LONG);
        drop(stream);
    });
    let begun = Instant::now();
    let failure = ask(&path, Method::NamespaceRemove, SHORT).unwrap_err();
    assert!(begun.elapsed() >= SHORT && begun.elapsed() < LONG / 2);
    assert_eq!(failure.kind, NO_DAEMON);
    assert!(failure.message.contains("does not answer within 200ms"), "{failure}");
    assert!(failure.message.contains("--timeout") && failure.message.contains("take effect"));
}

#[test]
fn signs_of_life_keep_a_long_change_waiting() {
    let patience = Duration::from_secs(2);
    let (_folder, path) = serving(move |_, mut stream| {
        for _ in 0..6 {
            std::thread::sleep(patience / 4);
            stream.write_all(b" ").unwrap();
        }
        stream.write_all(b"{\"id\":1,\"result\":7}\n").unwrap();
    });
    let begun = Instant::now();
    assert_eq!(ask(&path, Method::SubsystemRemove, patience).unwrap(), json!(7));
    assert!(begun.elapsed() > patience, "it took longer than the time-out");
}

#[test]
fn a_daemon_that_accepts_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let stream = |flags| socket::socket(AddressFamily::Unix, SockType::Stream, flags, None);
    let listener = stream(SockFlag::empty()).unwrap();
    let address = UnixAddr::new(&path).unwrap();
    socket::bind(listener.as_raw_fd(), &address).unwrap();
    socket::listen(&listener, Backlog::new(1).unwrap()).unwrap();
    // More than wait for it already.
    let mut waiting = Vec::new();
    loop {
        let client = stream(SockFlag::SOCK_NONBLOCK).unwrap();
        let full = socket::connect(client.as_raw_fd(), &address).is_err();
        waiting.push(client);
        if full {
            break;
        }
    }
    let failure = ask(&path, Method::Status, SHORT).unwrap_err();
    assert_eq!(failure.kind, NO_DAEMON);
    assert!(failure.message.contains("accepts no connection within 200ms"), "{failure}");
}

#[test]
fn a_daemon_that_takes_no_request_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    let _listener = UnixListener::bind(&path).unwrap();
    let large = json!({ "hosts": "h".repeat(4 << 20) });
    let failure =
        Connection::open(&path, SHORT).unwrap().call(Method::HostAdd, &large).unwrap_err();
    assert!(failure.message.contains("does not answer within"), "{failure}");
}

#[test]
fn a_daemon_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("control.sock");
    for dead in [false, true] {
        if dead {
            drop(UnixListener::bind(&path).unwrap());
        }
        let failure = ask(&path, Method::Status, LONG).unwrap_err();
        assert_eq!(failure.kind, NO_DAEMON);
        let text = failure.message;
        assert!(text.contains("not running") && text.contains("--socket"), "{text}");
    }
}
