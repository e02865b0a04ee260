//! Tests of command lines, and of the requests that they make.

use std::collections::BTreeSet;

use serde_json::json;
use sluice_config::Method;

use super::args::Command;
use super::region_args::PmemAction;
use super::request::Request;
use crate::testing::parse_all;

/// Parses a line without the program's name.
fn parse(line: &str) -> Result<Command, clap::Error> {
    parse_all(&format!("sluice {line}")).map(|cli| match cli.command {
        crate::Command::Control(command) => command,
        other => panic!("{line}: {other:?}"),
    })
}

#[test]
fn lines_that_ask_for_nothing_or_for_two_things_are_refused() {
    for line in [
        "qos set",
        "qos policy --host h",
        "qos policy --host h --class low --remove",
        "qos policy --nsid 1 --class low",
        "qos reserve g",
        "qos reserve g --commands 1 --bytes 1MiB",
        "qos set --dscp top=1",
        "qos network class high",
        "qos network class high --share 3 --free",
        "qos network class top --free",
        "qos network --enabled off class high --free",
        "qos link set east",
        "namespace add q",
        "namespace add q --backend tape",
        "region add",
        "region set log",
        "region set log --force",
        "region set log --path /x",
        "region set log --no-hosts --host h",
        "host set q h",
        "host set q h --force",
        "host set q h --any-address --address 192.0.2.1",
        "host set q h --all-namespaces --namespaces 1",
        "host add q h --namespaces one",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
}

/// Command lines, and the methods and parameters of their requests.
const REQUESTS: &str = r#"
connections => connections
subsystem list => subsystem.list
namespace list => namespace.list
listener list => listener.list
host list q => host.list {"subsystem": "q"}
host add q h => host.add {"subsystem": "q", "host": "h"}
host add q h --address 192.0.2.0/24 --force
    => host.add {"subsystem": "q", "host": "h", "addresses": ["192.0.2.0/24"], "force": true}
host set q h --address 192.0.2.1 => host.set {"subsystem": "q", "host": "h", "addresses": ["192.0.2.1"]}
host set q h --any-address => host.set {"subsystem": "q", "host": "h", "addresses": null}
host add q h --namespaces 1,3 --read-only on --max-class medium
    => host.add {"subsystem": "q", "host": "h", "namespaces": [1, 3], "read_only": true, "max_class": "medium"}
host set q h --all-namespaces --read-only off --max-class none --force
    => host.set {"subsystem": "q", "host": "h", "namespaces": null, "read_only": false, "max_class": null, "force": true}
host key list => host.keys
qos session list => session.list
qos session remove g => session.remove {"name": "g"}
qos session add g --operations 50% => session.add {"name": "g", "credit_share": "50%"}
status => status
config => config.show
config show => config.show
config diff => config.diff
config revert => config.revert
config revert namespace q 3 --force => config.revert {"object": "namespace q 3", "force": true}
config save => config.merge
apply f --force => config.apply {"text": "", "force": true}
shutdown --now => shutdown {"now": true}
namespace add q --backend memory --size 4GiB --read-only
    => namespace.add {"subsystem": "q", "backend": "memory", "size": "4GiB", "read_only": true}
namespace add q --backend file --path /x --buffered --host h
    => namespace.add {"subsystem": "q", "backend": "file", "path": "/x", "direct": false, "hosts": ["h"]}
namespace add q --backend null --size 8KiB --nsid 3 --class low --nguid 00000000000000000000000000000001
    => namespace.add {"subsystem": "q", "backend": "null", "size": "8KiB", "nsid": 3, "class": "low", "nguid": "00000000000000000000000000000001"}
subsystem add q --host h --host i --serial 12
    => subsystem.add {"nqn": "q", "hosts": ["h", "i"], "serial": "12"}
listener add a --subsystem q --subsystem r => listener.add {"address": "a", "subsystems": ["q", "r"]}
qos policy --subsystem q --nsid 1 --urgent-iops 5
    => qos.policy {"subsystem": "q", "nsid": 1, "urgent_iops": 5}
statistics => statistics
events => event.list
trace => trace.start
trace --host h --class high --namespace q/3 --slower-than 1ms --follow --perfetto f
    => trace.start {"host": "h", "class": "high", "subsystem": "q", "nsid": 3, "slower_than_ns": 1000000}
log level => log.level
log level debug => log.level {"level": "debug"}
events --follow --since 10min => event.list
reload => reload
reload --check --force => reload {"check": true, "force": true}
subsystem remove q --force => subsystem.remove {"nqn": "q", "force": true}
namespace remove q 1 --force => namespace.remove {"subsystem": "q", "nsid": 1, "force": true}
namespace resize q 1 4KiB --force
    => namespace.resize {"subsystem": "q", "nsid": 1, "size": "4KiB", "force": true}
namespace add q --backend block --path /x --force
    => namespace.add {"subsystem": "q", "backend": "block", "path": "/x", "force": true}
namespace retry => namespace.retry
namespace retry q 2 => namespace.retry {"subsystem": "q", "nsid": 2}
listener remove a --force => listener.remove {"address": "a", "force": true}
host remove q h --force => host.remove {"subsystem": "q", "host": "h", "force": true}
host any q off --force => host.any {"subsystem": "q", "allow": false, "force": true}
namespace resize q 1 => namespace.resize {"subsystem": "q", "nsid": 1}
host any q off => host.any {"subsystem": "q", "allow": false}
subsystem add q --any-host --require-authentication
    => subsystem.add {"nqn": "q", "allow_any_host": true, "require_authentication": true}
listener add a --discovery-only => listener.add {"address": "a", "discovery_only": true}
listener add a --class high --require-authentication --link east
    => listener.add {"address": "a", "class": "high", "require_authentication": true, "link": "east"}
qos show => qos.show
qos set --weights 5,3,1 --window adaptive --enabled off --dscp urgent=46,low=0
    => qos.set {"weights": [5, 3, 1], "window": "adaptive", "enabled": false, "dscp": {"urgent": 46, "low": 0}}
qos set --window 16 --burst 8 => qos.set {"window": 16, "burst": 8}
qos listener a none => qos.listener {"address": "a", "class": null}
qos namespace q 1 low => qos.namespace {"subsystem": "q", "nsid": 1, "class": "low"}
qos policy --host h --max-class medium --session 7
    => qos.policy {"host": "h", "max_class": "medium", "session": "7"}
qos policy --host h --remove => qos.policy {"host": "h"}
qos session set g --iops 20k --bandwidth 100 --payload-share none --parent t --queue 9 --weight 300
    => session.set {"name": "g", "iops": "20k", "bandwidth": "100", "payload_share": null, "parent": "t", "queue": 9, "weight": 300}
qos reserve g --bytes 1MiB --period 1s --namespace q/1
    => session.reserve {"session": "g", "bytes": "1MiB", "period": "1s", "namespace": "q/1"}
qos reserve g --commands 5k --latency 20ms --burst 8 --namespace q/1
    => session.reserve {"session": "g", "commands": "5k", "latency": "20ms", "burst": 8, "namespace": "q/1"}
qos release g => session.release {"session": "g"}
qos network => network.show
qos network show => network.show
qos network --enabled false --writes on --capacity 10Gbit/s --base dctcp
    => network.set {"enabled": false, "writes": true, "capacity": "10Gbit/s", "base": "dctcp"}
qos network class high --share 3 => network.set {"classes": {"high": {"share": 3}}}
qos network class low --latency 2ms => network.set {"classes": {"low": {"latency": "2ms"}}}
qos link list => network.show
qos link add east => link.add {"name": "east"}
qos link set east --capacity auto => link.set {"name": "east", "capacity": "auto"}
qos link class east low --rate 1Gbit/s
    => link.set {"name": "east", "classes": {"low": {"rate": "1Gbit/s"}}}
qos link class east urgent --free => link.set {"name": "east", "classes": {"urgent": "free"}}
qos link listener a:1 default => network.listener {"address": "a:1", "link": "default"}
qos link remove east => link.remove {"name": "east"}
qos profile list => profile.list
qos profile add gold --read-iops 20k --write-bandwidth 200MiB --burst 10s
    => profile.add {"name": "gold", "read_iops": "20k", "write_bandwidth": "200MiB", "burst": "10s"}
qos profile set gold --iops 9k --read-iops none
    => profile.set {"name": "gold", "iops": "9k", "read_iops": null}
qos profile set gold --iops-per-gib 30 --bandwidth-per-gib 1MiB/s
    => profile.set {"name": "gold", "iops_per_gib": 30, "bandwidth_per_gib": "1MiB/s"}
qos profile remove gold => profile.remove {"name": "gold"}
qos session set g --profile gold => session.set {"name": "g", "profile": "gold"}
region list => pmem.show
region add log --path /dev/dax0.0 --size 1GiB --host h --host i --reserve 5 --limit 9
    => region.add {"name": "log", "path": "/dev/dax0.0", "size": "1GiB", "hosts": ["h", "i"], "reserve": 5, "limit": 9}
region add log --path /x --size 4096 --create
    => region.add {"name": "log", "path": "/x", "size": "4096", "create": true}
region add 7 --read-only => region.add {"name": "7", "read_only": true}
region set log --size 4GiB --limit none --force
    => region.set {"name": "log", "size": "4GiB", "limit": null, "force": true}
region set log --no-hosts => region.set {"name": "log", "hosts": []}
region set log --host h => region.set {"name": "log", "hosts": ["h"]}
region remove log => region.remove {"name": "log"}
region remove log --force => region.remove {"name": "log", "force": true}
"#;

#[test]
fn lines_make_requests() {
    let mut asked = BTreeSet::new();
    for row in REQUESTS.replace("\n    =>", " =>").lines().filter(|row| !row.is_empty()) {
        let (line, request) = row.split_once(" => ").unwrap();
        let (method, params) = request.split_once(' ').unwrap_or((request, "{}"));
        let method = Method::from_name(method).unwrap();
        let params = serde_json::from_str(params).unwrap();
        assert_eq!(parse(line).unwrap().request(), Request { method, params }, "{line}");
        asked.insert(method);
    }
    let request = PmemAction::Profile { periods: 4 }.request();
    assert_eq!(request, Request { method: Method::PmemProfile, params: json!({"periods": 4}) });
    asked.insert(request.method);
    // `sluice trace` begins with `trace.start`.
    asked.insert(Method::TraceRead);
    let missing: Vec<_> = Method::ALL.iter().filter(|method| !asked.contains(method)).collect();
    assert!(missing.is_empty(), "no line asks for {missing:?}");
}
