//! Regions that a target is asked for.

use fabric::nvme::region::{GetRegion, RegionName, RegionRights, Survives};
use fabric::tcp::HostParams;

use super::target::{Behaviour, MOST_RESERVED, NQN, REGION, start_seen};
use crate::host::access::{Access, Transport};
use crate::pmem::grant::Granted;

fn wanted(name: &str, reservation: u32) -> GetRegion {
    let name = RegionName::from_text(name).unwrap();
    GetRegion { name, rights: RegionRights::ReadWrite, reservation }
}

fn access(address: &str) -> Access {
    Access {
        transport: Transport::Tcp,
        address: address.to_owned(),
        nqn: NQN.to_owned(),
        hostnqn: "nqn.host".to_owned(),
        tos: None,
        credentials: None,
    }
}

#[test]
fn a_region_is_held_as_long_as_the_work_and_then_given_back() {
    let (address, seen) = start_seen(Behaviour::default());
    let shut_down = || {
        let configurations = &seen.lock().unwrap().configurations;
        configurations.iter().any(|cc| cc >> 14 & 0b11 == 0b01)
    };
    let wanted = wanted(REGION, MOST_RESERVED);
    let granted = Granted::ask(&access(&address), HostParams::default(), &wanted).unwrap();
    let length = granted.hold(|grant| {
        assert!(!shut_down(), "the grant ends with the controller");
        assert_eq!((grant.rights, grant.survives), (wanted.rights, Survives::Exit));
        Ok(grant.length)
    });
    assert_eq!(length.unwrap(), 1 << 20);
    assert!(shut_down(), "the grant is given back");
    let seen = seen.lock().unwrap();
    assert_eq!(seen.regions, [wanted]);
    assert_eq!(seen.connects, [(0, 4, "nqn.host".to_owned())], "no I/O queue is needed");
}

#[test]
fn a_region_that_is_not_granted_is_an_error_that_says_what_to_try() {
    let (address, _) = start_seen(Behaviour::default());
    for (wanted, words) in [
        (wanted("other", 0), "this host is nqn.host; --rights read"),
        (wanted(REGION, MOST_RESERVED + 1), "give --reserve 1000 or less"),
    ] {
        let error = Granted::ask(&access(&address), HostParams::default(), &wanted).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn an_error_of_the_work_is_the_error() {
    let (address, _) = start_seen(Behaviour::default());
    let granted =
        Granted::ask(&access(&address), HostParams::default(), &wanted(REGION, 0)).unwrap();
    let error = granted.hold(|_| anyhow::bail!("no such luck") as anyhow::Result<()>);
    assert_eq!(error.unwrap_err().to_string(), "no such luck");
}
