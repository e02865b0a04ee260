//! Tests of the credits of client nodes: the log page, Report Backlog, and the controllers that have them.

use std::sync::{Arc, Mutex};

use super::*;
use crate::nvme::log::lid;
use crate::nvme::node::{Amount, CreditPage, NamespaceBacklog, NamespaceCredits, report_backlog};

/// The nodes that reported, with their reports. Each namespace has as many operations as its NSID says.
#[derive(Debug, Default)]
struct Reports(Mutex<Vec<(String, String, Vec<NamespaceBacklog>)>>);

impl NodeCredits for Reports {
    fn report(&self, _: Nanos, node: &Node<'_>, backlog: &[NamespaceBacklog]) {
        let report = (node.host.to_owned(), node.subsystem.to_owned(), backlog.to_vec());
        self.0.lock().unwrap().push(report);
    }

    fn credits(
        &self,
        _: Nanos,
        node: &Node<'_>,
        nsids: &mut dyn Iterator<Item = u32>,
    ) -> CreditPage {
        let namespaces = nsids.map(|nsid| NamespaceCredits {
            nsid,
            session: node.host.to_owned(),
            operations: Some(nsid),
            payload: None,
            rates: Default::default(),
        });
        CreditPage { valid_ms: 2000, report_ms: 250, namespaces: namespaces.collect() }
    }
}

fn with_credits() -> (Bench, Arc<Reports>) {
    let (mut bench, reports) = (Bench::new(), Arc::new(Reports::default()));
    bench.service.set_node_credits(Arc::clone(&reports) as Arc<_>);
    (bench, reports)
}

fn backlog(nsid: u32) -> NamespaceBacklog {
    let amount = |operations| Amount { operations, kib: 4 };
    NamespaceBacklog { nsid, in_flight: amount(1), waiting: amount(2), completed: amount(3) }
}

#[test]
fn d6_page_has_the_namespaces_that_the_host_sees() {
    let (mut bench, _) = with_credits();
    let (admin, _) = Connect::admin(OTHER).enabled(&mut bench);
    let nsid = bench.service.add_namespace(bench.now, OTHER, namespace(1)).unwrap();
    let bytes = u32::try_from(CreditPage::bytes_of(1)).unwrap();
    bench.ok(admin, &log(lid::NODE_CREDITS, bytes, 0, true));
    let page = CreditPage::parse(&bench.out).unwrap();
    let [one] = &page.namespaces[..] else { panic!("{page:?}") };
    assert_eq!((one.nsid, one.operations, one.session.as_str()), (nsid, Some(nsid), HOST));
    bench.ok(admin, &log(lid::SUPPORTED, 1024, 0, true));
    assert_eq!(bench.out[usize::from(lid::NODE_CREDITS) * 4], 1);
}

#[test]
fn f6_report_counts_for_namespaces_that_the_host_sees() {
    let (mut bench, reports) = with_credits();
    let (admin, _) = Connect::admin(OTHER).enabled(&mut bench);
    let nsid = bench.service.add_namespace(bench.now, OTHER, namespace(1)).unwrap();
    let (sqe, data) = report_backlog(&[backlog(nsid), backlog(nsid + 1)]);
    assert_eq!(bench.admin_with(admin, &sqe, &data), Reply::OK);
    let told = reports.0.lock().unwrap().clone();
    assert_eq!(told, [(HOST.to_owned(), OTHER.to_owned(), vec![backlog(nsid)])]);
    let mut wrong = data.clone();
    wrong[0] = 9;
    let refused = status_code(Status::INVALID_FIELD.dnr());
    assert_eq!(code(bench.admin_with(admin, &sqe, &wrong)), refused);
    assert_eq!(code(bench.admin_with(admin, &Sqe { nsid: U32::new(1), ..sqe }, &data)), refused);
}

#[test]
fn discovery_controller_has_no_node_credits() {
    let (mut bench, _) = with_credits();
    let discovery = bench.discovery(0, HOST);
    let (sqe, data) = report_backlog(&[backlog(1)]);
    let reply = bench.admin_with(discovery, &sqe, &data);
    assert_eq!(code(reply), status_code(Status::INVALID_OPCODE.dnr()));
    bench.fails(discovery, &log(lid::NODE_CREDITS, 32, 0, true), Status::INVALID_LOG_PAGE.dnr());
}
