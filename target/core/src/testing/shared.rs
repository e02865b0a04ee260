//! The state that all reactors of a simulated target share.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use arbitration::Class;
use fabric::controller::{Action, BackendId, Service};

use super::disk::Disk;
use super::rules::Rules;
use super::workload_table::WorkloadTable;
use crate::stats::counters::IoSnapshot;

/// The state that all reactors of a target share; `B` is the content of its devices.
#[derive(Debug)]
pub struct Shared<B> {
    /// The subsystems and controllers.
    pub service: RefCell<Service>,
    /// Actions of the service that are not executed yet.
    pub actions: RefCell<VecDeque<Action>>,
    /// The present settings.
    pub rules: RefCell<Arc<Rules>>,
    /// The devices.
    pub disks: RefCell<HashMap<BackendId, Arc<Disk<B>>>>,
    /// The statistics of all workloads.
    pub workloads: WorkloadTable,
}

impl<B> Shared<B> {
    /// Makes the state of a target with so many reactors.
    #[must_use]
    pub fn new(
        service: Service,
        rules: Rules,
        disks: HashMap<BackendId, Arc<Disk<B>>>,
        reactors: usize,
    ) -> Rc<Self> {
        Rc::new(Self {
            service: RefCell::new(service),
            actions: RefCell::default(),
            rules: RefCell::new(Arc::new(rules)),
            disks: RefCell::new(disks),
            workloads: WorkloadTable::new(reactors),
        })
    }

    /// Calls a function with the service, and keeps the service's actions.
    pub fn with_service<R>(&self, use_it: impl FnOnce(&mut Service) -> R) -> R {
        let mut service = self.service.borrow_mut();
        let answer = use_it(&mut service);
        while let Some(action) = service.poll_action() {
            self.actions.borrow_mut().push_back(action);
        }
        answer
    }

    /// Takes the next action that the service wants done.
    #[must_use]
    pub fn take_action(&self) -> Option<Action> {
        self.actions.borrow_mut().pop_front()
    }

    /// Changes the settings, which have another version then.
    pub fn change_rules(&self, change: impl FnOnce(&mut Rules)) {
        let mut rules = self.rules.borrow_mut();
        let rules = Arc::make_mut(&mut rules);
        rules.version += 1;
        change(rules);
    }

    /// Returns a device.
    #[must_use]
    pub fn disk(&self, id: BackendId) -> Option<Arc<Disk<B>>> {
        self.disks.borrow().get(&id).cloned()
    }

    /// Returns the statistics of a host's commands of a class to a namespace, of all reactors.
    #[must_use]
    pub fn workload(&self, host: &str, of: (u32, Class)) -> IoSnapshot {
        let mut sum = IoSnapshot::default();
        self.workloads.stats(host, of).iter().for_each(|stats| sum.merge(&stats.snapshot()));
        sum
    }
}
