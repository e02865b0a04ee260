//! The credits of client nodes (docs/research/sources.md, D6, F5, F6): finds the sessions of a node's namespaces, and divides
//! them by `arbitration::nodes`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arbitration::credit::Caps;
use arbitration::limit::{Rate, Rates};
use arbitration::nodes::{NodeReport, NodeShare, NodeTable, REPORT, VALID};
use arbitration::session::Session;
use fabric::Nanos;
use fabric::controller::{Node, NodeCredits};
use fabric::nvme::node::{CreditPage, NamespaceBacklog, NamespaceCredits, NodeRates};
use sluice_core::Policies as _;

use super::shared::QosShared;
use super::snapshot::Asker;
use crate::sys::sync::lock;

/// The client nodes that report, and the sessions that are divided among them.
#[derive(Debug)]
pub(crate) struct Nodes {
    qos: Arc<QosShared>,
    table: Mutex<NodeTable>,
}

impl Nodes {
    /// Makes a table without nodes, over the sessions of `qos`.
    pub(crate) fn new(qos: Arc<QosShared>) -> Self {
        Self { qos, table: Mutex::default() }
    }

    /// Finds the session of a node's commands to a namespace. The path of the node's own I/O connections may have
    /// other policies by address: agents connect from the same machine.
    fn session(&self, node: &Node<'_>, nsid: u32) -> Arc<Session> {
        let own = self.qos.namespace(node.subsystem, nsid);
        let asker = Asker { host: node.host, address: node.address };
        self.qos.snapshot().resolve(&asker, node.subsystem, Some(nsid), own).tenant.session
    }
}

impl NodeCredits for Nodes {
    fn report(&self, now: Nanos, node: &Node<'_>, backlog: &[NamespaceBacklog]) {
        let mut sessions: HashMap<u32, (Arc<Session>, NodeReport)> = HashMap::new();
        for namespace in backlog {
            let session = self.session(node, namespace.nsid);
            let (_, report) = sessions
                .entry(session.serial())
                .or_insert_with(|| (session, NodeReport::default()));
            for (sum, of) in [
                (&mut report.in_flight, namespace.in_flight),
                (&mut report.waiting, namespace.waiting),
                (&mut report.completed, namespace.completed),
            ] {
                sum.operations = sum.operations.saturating_add(of.operations);
                sum.payload = sum.payload.saturating_add(of.kib);
            }
        }
        let mut table = lock(&self.table);
        for (session, report) in sessions.into_values() {
            table.report(now, &session, node.host, report);
        }
    }

    fn credits(
        &self,
        now: Nanos,
        node: &Node<'_>,
        nsids: &mut dyn Iterator<Item = u32>,
    ) -> CreditPage {
        let enabled = self.qos.snapshot().enabled();
        let mut table = lock(&self.table);
        let namespaces = nsids.map(|nsid| {
            let session = self.session(node, nsid);
            let share = match enabled {
                true => table.share(now, &session, node.host),
                false => NodeShare::default(),
            };
            namespace_credits(nsid, &session, &share)
        });
        let ms = |time: Nanos| u32::try_from(time.0 / 1_000_000).unwrap_or(u32::MAX);
        CreditPage { valid_ms: ms(VALID), report_ms: ms(REPORT), namespaces: namespaces.collect() }
    }
}

fn namespace_credits(nsid: u32, session: &Session, share: &NodeShare) -> NamespaceCredits {
    let Caps { operations, payload } = share.caps;
    let rates = |Rates { iops, bandwidth }: Rates| NodeRates {
        iops: iops.map(Rate::get),
        bandwidth: bandwidth.map(Rate::get),
    };
    NamespaceCredits {
        nsid,
        session: session.name().to_owned(),
        operations: Some(operations).filter(|most| *most != u32::MAX),
        payload: Some(payload).filter(|most| *most != u64::MAX),
        rates: share.rates.map(rates),
    }
}
