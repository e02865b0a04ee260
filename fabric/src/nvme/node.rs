//! Credits of client nodes (docs/reference/conformance.md): the vendor-specific log page with a node's credits in each
//! session, and Report Backlog, the vendor-specific admin command with the node's demand.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Sqe, opcode};

/// Version of both layouts.
const VERSION: u16 = 1;
/// The most entries of one Report Backlog.
pub const REPORT_ENTRIES_MAX: usize = 84;
/// The most bytes of a session's name in the log page. A longer name is cut.
pub const SESSION_NAME_MAX: usize = 256;

/// Head of both: 32 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    /// Bytes 1:0: version of the layout, 1.
    version: U16,
    /// Bytes 3:2: bytes of an entry.
    entry_bytes: U16,
    /// Bytes 7:4: number of entries.
    count: U32,
    /// Bytes 11:8: time in ms for which the credits are valid (log page).
    valid_ms: U32,
    /// Bytes 15:12: time in ms after which the next report is wanted (log page).
    report_ms: U32,
    /// Bytes 31:16: zero.
    reserved: [u8; 16],
}

/// Entry of the log page: 352 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CreditEntry {
    /// Bytes 3:0: the namespace.
    nsid: U32,
    /// Bytes 7:4: operations; FFFFFFFFh: unlimited.
    operations: U32,
    /// Bytes 15:8: payload in KiB; FFFFFFFFFFFFFFFFh: unlimited.
    payload: U64,
    /// Bytes 63:16: rates per second, 0 unlimited: commands and bytes of all, of reads, of writes.
    rates: [U64; 6],
    /// Bytes 65:64: bytes of the name.
    name_bytes: U16,
    /// Bytes 95:66: zero.
    reserved: [u8; 30],
    /// Bytes 351:96: name of the session, UTF-8, padded with zeroes.
    name: [u8; SESSION_NAME_MAX],
}

/// Entry of Report Backlog: 48 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BacklogEntry {
    /// Bytes 3:0: the namespace.
    nsid: U32,
    /// Bytes 7:4: operations in flight.
    in_flight: U32,
    /// Bytes 11:8: operations that wait on the node.
    waiting: U32,
    /// Bytes 15:12: operations completed since the agent started, modulo 2^32.
    completed: U32,
    /// Bytes 23:16: KiB in flight.
    in_flight_kib: U64,
    /// Bytes 31:24: KiB that wait on the node.
    waiting_kib: U64,
    /// Bytes 39:32: KiB completed since the agent started.
    completed_kib: U64,
    /// Bytes 47:40: zero.
    reserved: U64,
}

const HEAD: usize = size_of::<Head>();
const CREDIT: usize = size_of::<CreditEntry>();
const BACKLOG: usize = size_of::<BacklogEntry>();

/// The most bytes of Report Backlog's data.
pub const REPORT_BYTES_MAX: usize = HEAD + REPORT_ENTRIES_MAX * BACKLOG;

/// Rates of one kind of commands, per second; `None`: unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeRates {
    /// Commands per second.
    pub iops: Option<u64>,
    /// Bytes per second.
    pub bandwidth: Option<u64>,
}

/// A node's credits at a namespace. Namespaces of one session share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceCredits {
    /// The namespace.
    pub nsid: u32,
    /// Name of the session.
    pub session: String,
    /// Operations that the node may have in flight; `None`: unlimited.
    pub operations: Option<u32>,
    /// KiB that they may move; `None`: unlimited.
    pub payload: Option<u64>,
    /// Rates of all commands, of reads, and of writes.
    pub rates: [NodeRates; 3],
}

/// The log page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreditPage {
    /// Time in ms for which the credits are valid after the page was read.
    pub valid_ms: u32,
    /// Time in ms after which the target wants the next report.
    pub report_ms: u32,
    /// The namespaces that the node sees.
    pub namespaces: Vec<NamespaceCredits>,
}

/// An amount of I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Operations.
    pub operations: u32,
    /// KiB that they move.
    pub kib: u64,
}

/// A node's demand at one namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamespaceBacklog {
    /// The namespace.
    pub nsid: u32,
    /// In flight.
    pub in_flight: Amount,
    /// Waiting on the node.
    pub waiting: Amount,
    /// Completed since the agent started.
    pub completed: Amount,
}

/// The reason for which data is no log page or report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadNodeData {
    /// The data ends before its last entry.
    #[error("{0} bytes, and the head asks for more")]
    Short(usize),
    /// Another version of the layout.
    #[error("version {0} of the layout, and version 1 is known")]
    Version(u16),
    /// Entries of another size.
    #[error("entries of {0} bytes")]
    EntrySize(u16),
    /// More entries than a report may have.
    #[error("{0} entries, and a report has 84 at most")]
    TooMany(u32),
}

fn head(entry_bytes: usize, count: usize) -> Head {
    let mut head = Head::new_zeroed();
    head.version = U16::new(VERSION);
    head.entry_bytes = U16::new(u16::try_from(entry_bytes).unwrap_or(u16::MAX));
    head.count = U32::new(u32::try_from(count).unwrap_or(u32::MAX));
    head
}

/// Reads the head, and as many entries as it announces.
fn entries<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    data: &[u8],
) -> Result<(Head, &[T]), BadNodeData> {
    let short = || BadNodeData::Short(data.len());
    let (head, rest) = Head::read_from_prefix(data).map_err(|_| short())?;
    if head.version.get() != VERSION {
        return Err(BadNodeData::Version(head.version.get()));
    }
    if usize::from(head.entry_bytes.get()) != size_of::<T>() {
        return Err(BadNodeData::EntrySize(head.entry_bytes.get()));
    }
    let count = usize::try_from(head.count.get()).map_err(|_| short())?;
    let (entries, _) = <[T]>::ref_from_prefix_with_elems(rest, count).map_err(|_| short())?;
    Ok((head, entries))
}

impl CreditPage {
    /// Returns the bytes of a page of so many namespaces.
    #[must_use]
    pub const fn bytes_of(namespaces: usize) -> usize {
        HEAD + namespaces * CREDIT
    }

    /// Writes the page.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut head = head(CREDIT, self.namespaces.len());
        (head.valid_ms, head.report_ms) = (U32::new(self.valid_ms), U32::new(self.report_ms));
        let mut page = head.as_bytes().to_vec();
        for namespace in &self.namespaces {
            page.extend_from_slice(namespace.entry().as_bytes());
        }
        page
    }

    /// Reads a page.
    ///
    /// # Errors
    /// The data is no page of this version, or ends early. [`Self::bytes_of`] the number of entries in
    /// [`Self::count`] says how much to read.
    pub fn parse(data: &[u8]) -> Result<Self, BadNodeData> {
        let (head, entries) = entries::<CreditEntry>(data)?;
        Ok(Self {
            valid_ms: head.valid_ms.get(),
            report_ms: head.report_ms.get(),
            namespaces: entries.iter().map(NamespaceCredits::of_entry).collect(),
        })
    }

    /// Reads the number of entries from the head of a page.
    ///
    /// # Errors
    /// The data is no head of this version.
    pub fn count(data: &[u8]) -> Result<usize, BadNodeData> {
        let (head, _) = Head::read_from_prefix(data).map_err(|_| BadNodeData::Short(data.len()))?;
        match head.version.get() {
            VERSION => Ok(usize::try_from(head.count.get()).unwrap_or(usize::MAX)),
            other => Err(BadNodeData::Version(other)),
        }
    }
}

impl NamespaceCredits {
    fn entry(&self) -> CreditEntry {
        let mut entry = CreditEntry::new_zeroed();
        entry.nsid = U32::new(self.nsid);
        entry.operations = U32::new(self.operations.unwrap_or(u32::MAX));
        entry.payload = U64::new(self.payload.unwrap_or(u64::MAX));
        let rates = self.rates.iter().flat_map(|rates| [rates.iops, rates.bandwidth]);
        for (to, rate) in entry.rates.iter_mut().zip(rates) {
            *to = U64::new(rate.unwrap_or(0));
        }
        // A name that is cut ends before a character, not in it.
        let cut = self.session.floor_char_boundary(SESSION_NAME_MAX);
        let name = self.session.as_bytes().get(..cut).unwrap_or_default();
        for (to, byte) in entry.name.iter_mut().zip(name) {
            *to = *byte;
        }
        entry.name_bytes = U16::new(u16::try_from(name.len()).unwrap_or(0));
        entry
    }

    fn of_entry(entry: &CreditEntry) -> Self {
        let [all_iops, all, read_iops, reads, write_iops, writes] =
            entry.rates.map(|rate| Some(rate.get()).filter(|rate| *rate != 0));
        let rates = |iops, bandwidth| NodeRates { iops, bandwidth };
        let name = entry.name.get(..usize::from(entry.name_bytes.get())).unwrap_or(&entry.name);
        Self {
            nsid: entry.nsid.get(),
            session: String::from_utf8_lossy(name).into_owned(),
            operations: Some(entry.operations.get()).filter(|most| *most != u32::MAX),
            payload: Some(entry.payload.get()).filter(|most| *most != u64::MAX),
            rates: [rates(all_iops, all), rates(read_iops, reads), rates(write_iops, writes)],
        }
    }
}

/// Makes Report Backlog of the first [`REPORT_ENTRIES_MAX`] of these namespaces, and its data.
#[must_use]
pub fn report_backlog(namespaces: &[NamespaceBacklog]) -> (Sqe, Vec<u8>) {
    let namespaces = namespaces.get(..REPORT_ENTRIES_MAX).unwrap_or(namespaces);
    let mut data = head(BACKLOG, namespaces.len()).as_bytes().to_vec();
    for namespace in namespaces {
        let NamespaceBacklog { nsid, in_flight, waiting, completed } = *namespace;
        let entry = BacklogEntry {
            nsid: U32::new(nsid),
            in_flight: U32::new(in_flight.operations),
            waiting: U32::new(waiting.operations),
            completed: U32::new(completed.operations),
            in_flight_kib: U64::new(in_flight.kib),
            waiting_kib: U64::new(waiting.kib),
            completed_kib: U64::new(completed.kib),
            reserved: U64::ZERO,
        };
        data.extend_from_slice(entry.as_bytes());
    }
    let dwords = u32::try_from(data.len() / 4).unwrap_or(u32::MAX);
    let sqe =
        Sqe { opcode: opcode::admin::REPORT_BACKLOG, cdw10: U32::new(dwords), ..Sqe::default() };
    (sqe, data)
}

/// Returns the bytes of a Report Backlog's data: CDW10 has the number of dwords.
#[must_use]
pub fn report_bytes(sqe: &Sqe) -> u32 {
    let most = u32::try_from(REPORT_BYTES_MAX).unwrap_or(u32::MAX);
    sqe.cdw10.get().saturating_mul(4).min(most)
}

/// Reads the data of Report Backlog.
///
/// # Errors
/// The data is no report of this version, or ends early.
pub fn parse_report(data: &[u8]) -> Result<Vec<NamespaceBacklog>, BadNodeData> {
    let (head, entries) = entries::<BacklogEntry>(data)?;
    if entries.len() > REPORT_ENTRIES_MAX {
        return Err(BadNodeData::TooMany(head.count.get()));
    }
    let amount =
        |operations: U32, kib: U64| Amount { operations: operations.get(), kib: kib.get() };
    let read = |entry: &BacklogEntry| NamespaceBacklog {
        nsid: entry.nsid.get(),
        in_flight: amount(entry.in_flight, entry.in_flight_kib),
        waiting: amount(entry.waiting, entry.waiting_kib),
        completed: amount(entry.completed, entry.completed_kib),
    };
    Ok(entries.iter().map(read).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate() -> impl Strategy<Value = Option<u64>> {
        prop::option::of(1..=u64::MAX)
    }

    prop_compose! {
        fn credits()(
            nsid: u32,
            session in "[a-z./é]{0,40}",
            operations in prop::option::of(0..u32::MAX),
            payload in prop::option::of(0..u64::MAX),
            rates in prop::array::uniform6(rate()),
        ) -> NamespaceCredits {
            let [a, b, c, d, e, f] = rates;
            let of = |iops, bandwidth| NodeRates { iops, bandwidth };
            let rates = [of(a, b), of(c, d), of(e, f)];
            NamespaceCredits { nsid, session, operations, payload, rates }
        }
    }

    proptest! {
        #[test]
        fn d6_page_reads_as_written(
            valid_ms: u32,
            report_ms: u32,
            namespaces in prop::collection::vec(credits(), 0..5),
            cut in 0usize..200,
        ) {
            let page = CreditPage { valid_ms, report_ms, namespaces };
            let data = page.emit();
            prop_assert_eq!(data.len(), CreditPage::bytes_of(page.namespaces.len()));
            prop_assert_eq!(CreditPage::count(&data), Ok(page.namespaces.len()));
            let short = data.len().saturating_sub(cut);
            let read = CreditPage::parse(&data[..short]);
            prop_assert_eq!(read, if cut == 0 { Ok(page) } else { Err(BadNodeData::Short(short)) });
        }

        #[test]
        fn f6_report_reads_as_written(
            entries in prop::collection::vec((any::<u32>(), any::<[u32; 3]>(), any::<[u64; 3]>()), 0..200)
        ) {
            let all: Vec<NamespaceBacklog> = entries
                .into_iter()
                .map(|(nsid, [a, b, c], [d, e, f])| {
                    let [in_flight, waiting, completed] = [(a, d), (b, e), (c, f)]
                        .map(|(operations, kib)| Amount { operations, kib });
                    NamespaceBacklog { nsid, in_flight, waiting, completed }
                })
                .collect();
            let (sqe, data) = report_backlog(&all);
            prop_assert_eq!(report_bytes(&sqe) as usize, data.len());
            prop_assert_eq!(parse_report(&data).unwrap(), &all[..all.len().min(REPORT_ENTRIES_MAX)]);
        }

        #[test]
        fn f6_any_bytes_are_no_panic(data in prop::collection::vec(any::<u8>(), 0..500)) {
            let _ = (parse_report(&data), CreditPage::parse(&data), CreditPage::count(&data));
        }
    }

    #[test]
    fn sizes_are_as_documented() {
        assert_eq!((HEAD, CREDIT, BACKLOG, REPORT_BYTES_MAX), (32, 352, 48, 4064));
    }

    #[test]
    fn long_name_is_cut_before_a_character() {
        let session = format!("{}é", "x".repeat(SESSION_NAME_MAX - 1));
        let entry = NamespaceCredits {
            nsid: 1,
            session,
            operations: None,
            payload: None,
            rates: Default::default(),
        };
        let read = NamespaceCredits::of_entry(&entry.entry());
        assert_eq!(read.session, "x".repeat(SESSION_NAME_MAX - 1));
    }
}
