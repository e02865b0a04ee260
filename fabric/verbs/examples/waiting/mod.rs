//! Waiting for events of a device or the connection manager, for the examples.

use fabric_verbs::{Event, EventChannel};

/// Waits until there is something to take, for 20 s at the most.
pub(crate) fn wait(fd: &impl std::os::fd::AsFd) {
    let mut fds = [libc::pollfd {
        fd: std::os::fd::AsRawFd::as_raw_fd(&fd.as_fd()),
        events: libc::POLLIN,
        revents: 0,
    }];
    // SAFETY: the array lives during the call.
    let answer = unsafe { libc::poll(fds.as_mut_ptr(), 1, 20_000) };
    assert_eq!(answer, 1, "nothing has come for 20 s");
}

/// Waits for the connection manager's next event.
pub(crate) fn next_event(channel: &EventChannel) -> Event {
    loop {
        if let Some(event) = channel.next().unwrap() {
            return event;
        }
        wait(channel);
    }
}
