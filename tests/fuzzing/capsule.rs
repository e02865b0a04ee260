//! `capsule`: hosts send arbitrary commands to a target's controllers, while connections end, time
//! passes and the configuration changes.
//!
//! The input is a list of steps: a byte that selects the step, then its parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fabric::Nanos;
use fabric::controller::{
    Action, BackendId, ConnectionId, ControllerId, Geometry, ListenerId, ListenerSpec, Namespace,
    NamespaceFeatures, Readiness, RegionGrants, RegionRefusal, RegionRequest, Reply, SecureChannel,
    Service, ServiceConfig, SmartCounters, SubsystemSpec, TransportType,
};
use fabric::dhchap::{RANDOM_BYTES, Random};
use fabric::host::commands;
use fabric::nvm::BlockFormat;
use fabric::nvme::region::{GetRegion, RegionGrant, RegionName, RegionRights, Survives};
use fabric::nvme::{SglDescriptor, Sqe, opcode};
use zerocopy::FromZeros as _;
use zerocopy::IntoBytes as _;

use super::input::{byte, bytes};

const HOSTS: [&str; 3] = ["nqn.2014-08.org.nvmexpress:uuid:a", "nqn.2014-08.b", "nqn.stranger"];
const SUBSYSTEMS: [&str; 4] =
    ["nqn.2026-01.a:one", "nqn.2026-01.a:two", "nqn.2014-08.org.nvmexpress.discovery", "nqn.none"];
const LISTENERS: u32 = 2;
/// Connections at one time.
const CONNECTIONS: usize = 8;
/// Controllers at one time.
const CONTROLLERS: u16 = 4;
/// Actions that any one step may cause.
const ACTIONS: usize = 256;

/// Runs one input.
pub fn run(mut data: &[u8]) {
    let config = ServiceConfig { max_controllers: CONTROLLERS, ..ServiceConfig::default() };
    let mut bench = Bench::new(config, (0..LISTENERS).map(listener));
    for (nqn, any) in SUBSYSTEMS.into_iter().zip([true, false]) {
        bench.service.add_subsystem(bench.now, subsystem(nqn, any)).expect("a subsystem");
        bench.service.add_namespace(bench.now, nqn, namespace(1)).expect("a namespace");
    }
    while !data.is_empty() {
        match byte(&mut data) & 7 {
            0 => bench.connect(&mut data),
            1..=3 => bench.command(&mut data),
            4 => bench.pass(&mut data, Duration::from_millis(100)),
            5 => bench.end(&mut data),
            6 => bench.change(&mut data),
            _ => bench.fabrics_on_io_queue(&mut data),
        }
        bench.act(ACTIONS);
        bench.check();
    }
}

pub(super) struct Bench {
    pub(super) service: Service,
    regions: Arc<Regions>,
    pub(super) now: Nanos,
    /// Open connections, whether connected to a controller or not.
    pub(super) open: Vec<ConnectionId>,
    last: u64,
    /// Numbers of commands that are completed later, by connection and identifier.
    pub(super) deferred: BTreeMap<(ConnectionId, u16), u32>,
    /// Pieces of an authentication's work that were done.
    done: u8,
    out: Vec<u8>,
}

impl Bench {
    pub(super) fn new(
        config: ServiceConfig,
        listeners: impl IntoIterator<Item = ListenerSpec>,
    ) -> Self {
        let mut service = Service::new(config).expect("limits that can be");
        let regions = Arc::new(Regions::default());
        service.set_region_grants(Arc::<Regions>::clone(&regions));
        let now = Nanos(1 << 40);
        for listener in listeners {
            service.add_listener(now, listener).expect("a listener");
        }
        let (open, deferred) = (Vec::new(), BTreeMap::new());
        Self { service, regions, now, open, last: 0, deferred, done: 0, out: Vec::new() }
    }

    /// Returns the open connection that `data` selects; `None` if none is open.
    pub(super) fn pick(&self, data: &mut &[u8]) -> Option<ConnectionId> {
        let index = usize::from(byte(data));
        self.open.get(index % self.open.len().max(1)).copied()
    }

    /// Opens a connection unless `most` are open.
    pub(super) fn open(&mut self, most: usize) -> Option<ConnectionId> {
        if self.open.len() >= most {
            return None;
        }
        self.last += 1;
        self.open.push(ConnectionId(self.last));
        self.open.last().copied()
    }

    /// Makes a new connection, with the command that comes first: Connect as a rule.
    fn connect(&mut self, data: &mut &[u8]) {
        let Some(connection) = self.open(CONNECTIONS) else { return };
        let (who, queue, bend) = (byte(data), byte(data), byte(data));
        let listener = ListenerId(u32::from(who >> 4 & 1));
        let kato_ms = u32::from(queue >> 3) * 1000;
        let connect = commands::connect(u16::from(queue & 7), 31, kato_ms, None);
        let mut sqe = Sqe { flags: 0x40, ..connect };
        let cntlid = if queue & 7 == 0 { 0xffff } else { u16::from(bend >> 5) };
        let (nqn, host) = (pick_name(&SUBSYSTEMS, who), pick_name(&HOSTS, who >> 2));
        let mut block = commands::connect_data([7; 16], cntlid, nqn, host);
        if bend & 1 == 1 {
            let entry = bytes(data, 64);
            put(sqe.as_mut_bytes(), 0, entry);
        }
        if bend & 2 == 2 {
            let at = usize::from(byte(data)) * 4;
            put(&mut block, at, bytes(data, 8));
        }
        let length = if bend & 4 == 4 { usize::from(byte(data)) * 4 } else { block.len() };
        let block = block.get(..length.min(block.len())).unwrap_or_default();
        match self.service.connect(self.now, connection, listener, &sqe, block) {
            Ok(connected) => {
                assert!(connected.entries >= 2, "a queue of {} entries", connected.entries);
                let queue = self.service.queue_of(connection);
                assert_eq!(queue, Some((connected.controller, connected.qid)));
            }
            Err(rejected) => {
                assert!(!rejected.status.is_success(), "rejected with success");
                assert_eq!(self.service.queue_of(connection), None, "rejected, yet connected");
            }
        }
    }

    /// Makes an admin command: a whole entry of the input, or a common one with some bytes changed.
    fn command(&mut self, data: &mut &[u8]) {
        let Some(connection) = self.pick(data) else { return };
        let mut sqe = Sqe::new_zeroed();
        let kind = byte(data);
        if kind & 0x80 == 0 {
            put(sqe.as_mut_bytes(), 0, bytes(data, 64));
        } else {
            // Opcode, NSID, CDW10 and CDW11; FCTYPE is in the NSID's place.
            sqe.opcode = if kind & 0x40 == 0 { byte(data) } else { 0x7f };
            sqe.cid.set(u16::from(kind & 0x3f));
            sqe.nsid.set(u32::from(byte(data)));
            let fields = bytes(data, 12);
            if sqe.opcode == opcode::admin::GET_REGION {
                bend_get_region(&mut sqe, fields);
            } else {
                put(sqe.as_mut_bytes(), 40, fields);
            }
        }
        let key = (connection, sqe.cid.get());
        // A transport does the same when a command arrives: an event request gives way to it.
        if self.service.withdraw_event_request(key.0, key.1) {
            let deferred = self.deferred.get_mut(&key).expect("a request that was deferred");
            *deferred = deferred.checked_sub(1).expect("a request that still waits");
        }
        let length = self.service.data_length(connection, &sqe);
        let want = usize::try_from(length.host_to_controller).expect("a length");
        assert!(want <= 4096, "an admin command that brings {want} bytes");
        let mut block = bytes(data, want).to_vec();
        block.resize(want, 0);
        let smart = SmartCounters::default();
        let mut out = std::mem::take(&mut self.out);
        let reply = self.service.admin(self.now, connection, &sqe, &block, &smart, &mut out);
        let most = usize::try_from(length.controller_to_host).expect("a length");
        match reply {
            Reply::Done { status, .. } => {
                let most = if status.is_success() { most } else { 0 };
                assert!(out.len() <= most, "{} bytes of {most}: {sqe:?}", out.len());
            }
            Reply::Deferred => {
                *self.deferred.entry(key).or_default() += 1;
            }
        }
        self.out = out;
    }

    fn fabrics_on_io_queue(&mut self, data: &mut &[u8]) {
        let Some(connection) = self.pick(data) else { return };
        let mut sqe = Sqe::new_zeroed();
        sqe.opcode = 0x7f;
        sqe.nsid.set(u32::from(byte(data)));
        put(sqe.as_mut_bytes(), 40, bytes(data, 8));
        let reply =
            self.service.fabrics_on_io_queue(self.now, connection, &sqe, &[], &mut self.out);
        assert!(matches!(reply, Reply::Done { .. }), "a deferred command on an I/O queue");
    }

    /// Lets as many `steps` pass as the next byte says.
    pub(super) fn pass(&mut self, data: &mut &[u8], step: Duration) {
        self.now = self.now + step * u32::from(byte(data));
        if let Some(next) = self.service.tick(self.now) {
            assert!(next >= self.now, "a timer that is due stays so");
        }
    }

    pub(super) fn end(&mut self, data: &mut &[u8]) {
        let Some(connection) = self.pick(data) else { return };
        self.close(connection);
    }

    /// Ends a connection, and forgets the commands that it waits for.
    pub(super) fn close(&mut self, connection: ConnectionId) {
        self.open.retain(|c| *c != connection);
        self.deferred.retain(|(c, _), _| *c != connection);
        self.service.disconnected(self.now, connection);
        assert_eq!(self.service.queue_of(connection), None, "connected after its end");
    }

    fn change(&mut self, data: &mut &[u8]) {
        let (what, tag) = (byte(data), byte(data));
        let nqn = pick_name(&SUBSYSTEMS, tag);
        let host = pick_name(&HOSTS, tag >> 2);
        let nsid = u32::from(tag >> 4);
        let now = self.now;
        // Some of these changes are impossible, which is the answer then.
        let service = &mut self.service;
        let _ = match what % 10 {
            0 => service.add_namespace(now, nqn, namespace(tag)).map(drop),
            1 => service.remove_namespace(now, nqn, nsid).map(drop),
            2 => service.resize_namespace(now, nqn, nsid, u64::from(tag) << 8).map(drop),
            3 => service.add_host(now, nqn, host),
            4 => service.remove_host(now, nqn, host),
            5 => service.set_allow_any_host(now, nqn, tag & 0x80 != 0),
            6 => service.add_subsystem(now, subsystem(nqn, tag & 0x80 != 0)),
            7 => service.remove_subsystem(now, nqn).map(drop),
            8 => service.add_listener(now, listener(u32::from(tag & 1))),
            _ => service.remove_listener(now, ListenerId(u32::from(tag & 1))).map(drop),
        };
    }

    /// Carries out the service's actions, `most` at the most, until there are no more.
    pub(super) fn act(&mut self, most: usize) {
        let mut count = 0;
        while let Some(action) = self.service.poll_action() {
            count += 1;
            assert!(count <= most, "more than {most} actions for one step");
            match action {
                Action::Complete { connection, cid, .. } => {
                    let deferred = self.deferred.get_mut(&(connection, cid));
                    let left = deferred.expect("a completion that nobody waits for");
                    *left = left.checked_sub(1).expect("a second completion");
                }
                Action::Close { connection, .. } => self.close(connection),
                Action::Authenticate { connection } => {
                    let work = self.service.authentication_work(connection);
                    self.done = self.done.wrapping_add(u8::from(work.is_some()));
                    let random = Random::new([self.done; RANDOM_BYTES]);
                    let worked = work.map(|work| work.run(&random));
                    self.service.authentication_worked(connection, worked);
                }
                Action::Abort { ticket, cid, .. } => self.service.abort_done(ticket, cid & 1 == 1),
                Action::TableChanged { controller } => {
                    self.service.namespaces(controller).iter().for_each(drop);
                }
            }
        }
    }

    /// Checks the bounds of memory, and that grants of regions end with their controllers.
    fn check(&self) {
        assert_eq!(self.done, 0, "no host has a secret");
        let regions = self.regions.state();
        assert_eq!(regions.strays, 0, "an end that was told twice, or of no grant");
        let there = |id: &ControllerId| self.service.controllers().any(|c| c.id == *id);
        assert!(regions.held.iter().all(there), "a grant outlives its controller");
        drop(regions);
        let controllers = self.service.controllers().count();
        assert!(controllers <= usize::from(CONTROLLERS), "{controllers} controllers");
        let waiting = |id: ConnectionId| {
            let mine = self.deferred.iter().filter(|((c, _), _)| *c == id);
            mine.map(|(_, count)| usize::try_from(*count).expect("a count")).sum::<usize>()
        };
        // Four event requests, and Abort commands, of which a few may be under way.
        let most = 4 + 8;
        let open = self.open.iter().map(|id| waiting(*id));
        assert!(open.max().unwrap_or(0) <= most, "a connection's commands wait without end");
    }
}

/// A server of regions, whose answer to a request is the reservation's: grants and all refusals.
#[derive(Debug, Default)]
struct Regions(Mutex<Grants>);

#[derive(Debug, Default)]
struct Grants {
    held: BTreeSet<ControllerId>,
    /// Ends of controllers that had no grants.
    strays: usize,
}

impl Regions {
    fn state(&self) -> MutexGuard<'_, Grants> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegionGrants for Regions {
    fn grant(&self, asked: &RegionRequest<'_>) -> Result<RegionGrant, RegionRefusal> {
        match asked.reservation & 3 {
            1 => return Err(RegionRefusal::NotGranted),
            2 => return Err(RegionRefusal::Reservation { fits: asked.reservation }),
            3 => return Err(RegionRefusal::NoRoom),
            _ => {}
        }
        self.state().held.insert(asked.controller);
        Ok(RegionGrant {
            rights: asked.rights,
            address: ([10, 0, 0, 1], 4430).into(),
            secret: u128::from(asked.controller.0),
            length: 1 << 30,
            reservation: asked.reservation,
            limit: 0,
            survives: Survives::Nothing,
        })
    }

    fn controller_ended(&self, controller: ControllerId) {
        let mut state = self.state();
        state.strays += usize::from(!state.held.remove(&controller));
    }
}

/// Makes a Get Region, which is right where all of `fields` is 0: they change bits of the name's first
/// bytes, of the reservation and of the rights.
fn bend_get_region(sqe: &mut Sqe, fields: &[u8]) {
    let name = RegionName::from_text("log").expect("a name");
    let right = GetRegion { name, rights: RegionRights::ReadWrite, reservation: 0 }.sqe();
    let [mut cdw10, mut cdw14, mut cdw15] = [right.cdw10, right.cdw14, right.cdw15];
    let dwords = [&mut cdw10, &mut cdw14, &mut cdw15];
    for (dword, bits) in dwords.into_iter().zip(fields.chunks(4)) {
        for (to, from) in dword.as_mut_bytes().iter_mut().zip(bits) {
            *to ^= from;
        }
    }
    let sgl = SglDescriptor::transport(128);
    *sqe = Sqe { cid: sqe.cid, nsid: sqe.nsid, cdw10, cdw14, cdw15, sgl, ..right };
}

/// Writes `what` into `block` at `at`, as far as there is room.
fn put(block: &mut [u8], at: usize, what: &[u8]) {
    for (to, from) in block.iter_mut().skip(at).zip(what) {
        *to = *from;
    }
}

fn pick_name<'a>(names: &[&'a str], tag: u8) -> &'a str {
    names.get(usize::from(tag & 3) % names.len()).copied().unwrap_or_default()
}

pub(super) fn listener(id: u32) -> ListenerSpec {
    ListenerSpec {
        id: ListenerId(id),
        name: id.to_string(),
        transport: TransportType::Tcp,
        address: ([10, 0, 0, 1], if id == 1 { 8009 } else { 4420 }).into(),
        advertise: None,
        discovery_only: id == 1,
        subsystems: None,
        secure_channel: SecureChannel::Off,
        require_authentication: false,
    }
}

pub(super) fn subsystem(nqn: &str, any: bool) -> SubsystemSpec {
    SubsystemSpec {
        nqn: nqn.to_owned(),
        // The end of the NQN, as long as a serial number may be.
        serial: nqn.get(nqn.len().saturating_sub(20)..).unwrap_or_default().to_owned(),
        model: "Fuzz".to_owned(),
        allow_any_host: any,
        hosts: vec![HOSTS.first().copied().unwrap_or_default().into()],
        require_authentication: false,
    }
}

fn namespace(tag: u8) -> Namespace {
    Namespace {
        nsid: u32::from(tag >> 4),
        uuid: [tag.max(1); 16],
        nguid: [tag; 16],
        geometry: Geometry { format: BlockFormat::BYTES_4096, blocks: 1000 },
        features: NamespaceFeatures::all(),
        preferred: None,
        used: None,
        hosts: (tag & 8 != 0).then(|| vec![HOSTS.map(str::to_owned)[0].clone()]),
        backend: BackendId(u64::from(tag)),
        readiness: match tag % 8 {
            5 => Readiness::NotReady { geometry_known: true, since: Nanos::ZERO },
            6 => Readiness::NotReady { geometry_known: false, since: Nanos::ZERO },
            _ => Readiness::Ready,
        },
        replaces: tag % 8 == 7,
        identify: None,
        device: None,
    }
}
