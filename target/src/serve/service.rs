//! The service (subsystems and their controllers) behind one lock. An action of the service goes to
//! the reactor of its connection, the work of an authentication to its thread.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{Action, HostChange, Service};
use sluice_core::Key;

use super::authentication::WorkQueue;
use super::reactor::mailbox::{Mailbox, Message};
use crate::sys::sync::lock;

/// The service, as all threads share it.
#[derive(Debug)]
pub(crate) struct SharedService {
    service: Mutex<Service>,
    /// The work of authentications.
    work: WorkQueue,
    /// Wakes the timer thread when a deadline may have moved.
    timer: Condvar,
    /// Wakes the thread that stores which hosts use subsystems.
    hosts: Condvar,
}

impl SharedService {
    /// Shares a service.
    pub(crate) fn new(service: Service) -> Self {
        Self {
            service: Mutex::new(service),
            work: WorkQueue::default(),
            timer: Condvar::new(),
            hosts: Condvar::new(),
        }
    }

    /// Returns the work of authentications that waits.
    pub(crate) fn work(&self) -> &WorkQueue {
        &self.work
    }

    /// Calls `use_it` with the service, then posts the service's actions.
    pub(crate) fn with<R>(
        &self,
        mailboxes: &[Mailbox],
        use_it: impl FnOnce(&mut Service) -> R,
    ) -> R {
        let mut service = lock(&self.service);
        let answer = use_it(&mut service);
        route(&mut service, mailboxes, &self.work);
        self.tell_of_unsaved(&service);
        drop(service);
        self.timer.notify_one();
        answer
    }

    /// Runs the timers that are due at `due`, which is at most `now`, and waits until another is or
    /// may be, `longest` at the longest.
    pub(crate) fn tick(
        &self,
        mailboxes: &[Mailbox],
        (now, due): (Nanos, Nanos),
        longest: Duration,
    ) {
        let mut service = lock(&self.service);
        let next = service.tick(due);
        route(&mut service, mailboxes, &self.work);
        self.tell_of_unsaved(&service);
        let wait = next.map_or(longest, |at| at.since(now));
        let wait = wait.clamp(Duration::from_millis(1), longest);
        drop(self.timer.wait_timeout(service, wait).unwrap_or_else(PoisonError::into_inner));
    }
}

impl SharedService {
    /// Wakes the thread that stores which hosts use subsystems, where there is something to store.
    fn tell_of_unsaved(&self, service: &Service) {
        if service.has_unsaved_hosts() {
            self.hosts.notify_one();
        }
    }

    /// Waits until there may be something to store of the hosts that use subsystems, `longest` at the
    /// longest. Returns it.
    pub(crate) fn unsaved_hosts(&self, longest: Duration) -> Vec<HostChange> {
        let mut service = lock(&self.service);
        if !service.has_unsaved_hosts() {
            let waited = self.hosts.wait_timeout(service, longest);
            service = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        service.unsaved_hosts()
    }
}

/// Posts the service's actions.
fn route(service: &mut Service, mailboxes: &[Mailbox], work: &WorkQueue) {
    while let Some(action) = service.poll_action() {
        let connection = match action {
            Action::Complete { connection, .. }
            | Action::Close { connection, .. }
            | Action::Abort { connection, .. } => connection,
            Action::Authenticate { connection } => {
                let asked = service.authentication_work(connection);
                if asked.is_some_and(|asked| !work.put(connection, asked)) {
                    service.authentication_worked(connection, None);
                }
                continue;
            }
            // I/O queues see the new version in the state that they share with their controller.
            Action::TableChanged { .. } => continue,
        };
        let (reactor, _) = Key::of(connection);
        if let Some(mailbox) = mailboxes.get(reactor) {
            mailbox.post(Message::Act(action));
        }
    }
}
