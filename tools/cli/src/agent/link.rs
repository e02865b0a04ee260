//! The agent's association with a target: reports the node's backlog, and reads its credits.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use fabric::dhchap::Secret;
use fabric::host::authentication::Credentials;
use fabric::host::commands::log_page;
use fabric::nvme::identify::IDENTIFY_SIZE;
use fabric::nvme::log::lid;
use fabric::nvme::node::{CreditPage, NamespaceBacklog, REPORT_ENTRIES_MAX, report_backlog};
use fabric::nvme::{Sqe, Status};
use fabric::tcp::HostParams;

use super::sysfs::{Names, TargetPath};
use crate::host::access::Access;
use crate::host::connection::Reply;
use crate::host::controller::{Controller, check};

/// Entries of the page that one command reads.
const PART: usize =
    (IDENTIFY_SIZE - CreditPage::bytes_of(0)) / (CreditPage::bytes_of(1) - CreditPage::bytes_of(0));

/// An association that lasts as long as the target answers.
#[derive(Debug)]
pub(super) struct Link {
    controller: Controller,
}

/// The target offers no credits to nodes.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} has no log page of node credits: it is no Sluicegate target, or an older one; its hosts go on, bounded by the \
     target alone"
)]
pub(super) struct NoCredits(String);

impl Link {
    /// Connects to the target of a path, under the same name and with the same secrets as the kernel host.
    ///
    /// # Errors
    /// The target cannot be reached or refuses the host; [`NoCredits`].
    pub(super) fn connect(names: &Names, path: &TargetPath) -> anyhow::Result<Self> {
        let Names { nqn, hostnqn } = names;
        let [own, controller] = path
            .secrets
            .each_ref()
            .map(|text| text.as_ref().map(|text| text.parse::<Secret>()).transpose());
        let name = &path.name;
        let own = own.with_context(|| format!("the secret of {name} in sysfs"))?;
        let theirs = controller.with_context(|| format!("the controller's secret of {name}"))?;
        let access = Access {
            transport: path.transport,
            address: path.address.clone(),
            nqn: nqn.clone(),
            hostnqn: hostnqn.clone(),
            tos: None,
            credentials: own.map(|own| Arc::new(Credentials::new(own, theirs))),
        };
        let endpoint = access.endpoint();
        let controller = Controller::connect(access, HostParams::default(), 0, false)?;
        let mut new = Self { controller };
        let head = u32::try_from(CreditPage::bytes_of(0))?;
        let Reply { cqe, .. } = new.controller.command(read(0, head), head)?;
        let status = Status::from_bits(cqe.status().bits() & 0x7ff);
        if [Status::INVALID_LOG_PAGE, Status::INVALID_FIELD, Status::INVALID_OPCODE]
            .contains(&status)
        {
            return Err(NoCredits(format!("{nqn} at {endpoint}")).into());
        }
        check(&cqe)?;
        Ok(new)
    }

    /// Reports the node's backlog at the target's namespaces, and reads its credits.
    ///
    /// # Errors
    /// The target does not answer, or with something else.
    pub(super) fn exchange(&mut self, backlog: &[NamespaceBacklog]) -> anyhow::Result<CreditPage> {
        for part in backlog.chunks(REPORT_ENTRIES_MAX) {
            let (sqe, data) = report_backlog(part);
            let reply = self.controller.send(sqe, data)?;
            check(&reply.cqe).context("Report Backlog")?;
        }
        self.controller.keep_alive()?;
        read_page(&mut self.controller)
    }

    /// Shuts the controller down.
    pub(super) fn close(self) -> anyhow::Result<()> {
        self.controller.shutdown()
    }
}

/// Reads the page of node credits.
///
/// # Errors
/// The target does not answer, or with something else.
pub(super) fn read_page(controller: &mut Controller) -> anyhow::Result<CreditPage> {
    let mut page = read_part(controller, 0, CreditPage::bytes_of(PART))?;
    let wanted = CreditPage::bytes_of(CreditPage::count(&page)?.min(1 << 16));
    while page.len() < wanted {
        let more = read_part(controller, page.len(), wanted - page.len())?;
        if more.is_empty() {
            bail!("the page of node credits ends early");
        }
        page.extend(more);
    }
    Ok(CreditPage::parse(&page)?)
}

fn read_part(controller: &mut Controller, offset: usize, bytes: usize) -> anyhow::Result<Vec<u8>> {
    let bytes = u32::try_from(bytes.min(IDENTIFY_SIZE) / 4 * 4)?;
    let Reply { cqe, data } = controller.command(read(offset as u64, bytes), bytes)?;
    check(&cqe).context("Get Log Page, node credits")?;
    Ok(data)
}

fn read(offset: u64, bytes: u32) -> Sqe {
    log_page(lid::NODE_CREDITS, offset, bytes)
}
