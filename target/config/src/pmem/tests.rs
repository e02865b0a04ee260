//! Tests of `[pmem]` and `[[region]]`: their meaning, their defaults and their errors.

use std::time::Duration;

use super::super::testing::parse;
use super::super::tests::check_errors;
use super::super::{Config, clash, clash_of_listeners};
use super::{Pmem, PmemConfig, RegionConfig};

const HOST: &str = "nqn.2026-01.io.x:h";

#[test]
fn the_settings_mean_what_they_say() {
    let text = format!(
        "[pmem]\naddress = \"10.0.0.1:4430\"\ncapacity = 1570000\nclient_capacity = 400000\n\
         deviation = 100\nperiod = \"500 ms\"\ninterval = \"2 ms\"\nbatch = 64\nclients = 2\nio_size = \"8 KiB\"\n\
         [[region]]\nname = \"log\"\npath = \"/dev/dax0.0\"\nsize = \"1 GiB\"\nhosts = [\"{HOST}\"]\n\
         reserve = 100000\nlimit = 200000\n\
         [[region]]\nname = \"A-z_0.9\"\nsize = \"4 KiB\"\nread_only = true\n"
    );
    let pmem = parse(&text).unwrap_or_else(|errors| panic!("{errors}")).pmem;
    let general = Pmem {
        address: Some("10.0.0.1:4430".parse().unwrap()),
        capacity: Some(1_570_000),
        client_capacity: Some(400_000),
        deviation: Some(100),
        period: Duration::from_millis(500),
        interval: Duration::from_millis(2),
        batch: 64,
        clients: 2,
        io_size: Some(8192),
    };
    assert_eq!(pmem.general, general);
    let log = RegionConfig {
        name: "log".into(),
        path: Some("/dev/dax0.0".into()),
        size: Some(1 << 30),
        create: false,
        hosts: vec![HOST.into()],
        read_only: false,
        reserve: 100_000,
        limit: Some(200_000),
    };
    let memory = RegionConfig {
        name: "A-z_0.9".into(),
        size: Some(4096),
        read_only: true,
        ..RegionConfig::default()
    };
    assert_eq!(pmem.regions, [log, memory]);
}

#[test]
fn without_a_word_nothing_is_served_and_nobody_has_a_right() {
    assert_eq!(parse("").unwrap().pmem, PmemConfig::default());
    let text = "[pmem]\naddress = \"10.0.0.1:1\"\ncapacity = 20000\n[[region]]\nname = \"r\"\npath = \"/r\"";
    let PmemConfig { general, regions } = parse(text).unwrap().pmem;
    assert_eq!(
        (general.period, general.interval),
        (Duration::from_secs(1), Duration::from_millis(1))
    );
    assert_eq!((general.batch, general.clients, general.bytes_of_io()), (1000, 64, 4096));
    assert_eq!(general.capacity_of_client(), 20_000, "C_L is C_G");
    assert_eq!(general.deviation_of_capacity(), 200, "a hundredth");
    let [region] = &regions[..] else { panic!("{regions:?}") };
    assert!(region.hosts.is_empty() && !region.create && !region.read_only);
    assert_eq!((region.size, region.reserve, region.limit), (None, 0, None));
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let disk = "[[subsystem]]; nqn = \"nqn.2026-01.io.x:a\"; [[subsystem.namespace]]; \
                backend = \"pmem\"; path = \"/d/../r\"";
    let table = r#"
        [pmem]; address = "10.0.0.1:1" => 2:11: capacity = 1000000
        [pmem]; address = "0.0.0.0:1"; capacity = 5 => 2:11: that the RDMA device has
        [pmem]; address = "10.0.0.1" => 2:11: not an IP address and a port
        [pmem]; address = "10.0.0.1:1"; capacity = 0 => 3:12: from 1 to 1000000000
        [pmem]; capacity = 5; client_capacity = 6 => 3:19: write at most 5
        [pmem]; capacity = 5; deviation = 6 => 3:13: more than `capacity`, which is 5
        [pmem]; period = "9 ms" => 2:10: from "10 ms" to "1 min"
        [pmem]; period = "2 min" => 2:10: at most "1 min"
        [pmem]; interval = "500 us" => 2:12: from "1 ms"
        [pmem]; interval = "2 s" => 2:12: longer than `period`, which is 1 s
        [pmem]; period = "10 ms"; interval = "11 ms" => 3:12: a shorter interval
        [pmem]; capacity = 2000000; period = "1 min" => 3:10: more than 67108863 in a period
        [pmem]; capacity = 68000000 => 2:12: a smaller client_capacity
        [pmem]; batch = 1000001 => 2:9: from 1 to 1000000
        [pmem]; clients = 4097 => 2:11: from 1 to 4096
        [pmem]; clint = 1 => 2:1: did you mean `clients`?
        [pmem]; address = "10.0.0.1:4420"; capacity = 5; [[listener]]; address = "0.0.0.0:4420"; transport = "rdma"
            => 2:11: collides with listener rdma:0.0.0.0:4420
        [[region]]; size = "4 KiB" => 1:1: add name = "log"
        [[region]]; name = "a b"; size = "4 KiB" => 2:8: 1 to 16 letters, digits and -_.
        [[region]]; name = "a2345678901234567"; size = "4 KiB" => 2:8: 1 to 16 letters
        [[region]]; name = ""; size = "4 KiB" => 2:8: not the name of a region
        $region => 1:1: neither a `path` nor a `size`
        $region; size = "5000 B" => 3:8: not whole pages
        $region; size = "4095 B" => 3:8: from "4 KiB" to "1 EiB"
        $region; size = "5 TiB" => 3:8: too large for memory
        $region; path = "r" => 3:8: begins with /
        $region; size = "1 MiB"; create = true => 4:10: `create` is set, and `path` is not
        $region; path = "/r"; create = true => 4:10: `create` is set, and `size` is not
        $region; path = "/r"; size = "4 KiB"; create = true; read_only = true
            => 5:10: `create` is set, and so is `read_only`
        $region; size = "1 MiB"; limit = 0 => 4:9: from 1 to 1000000000
        $region; size = "1 MiB"; reserve = 9; limit = 8 => 5:9: write a limit of 9 or more
        $region; size = "1 MiB"; hosts = ["h"] => 4:10: an entry of `hosts` is "h", which does not begin
        $region; size = "1 MiB"; hosts = "nqn.2026-01.io.x:h" => 4:9: is a string, not a list
        $region; size = "1 MiB"; hosts = ["nqn.2026-01.io.x:h", "nqn.2026-01.io.x:h"] => 4:32: occurs twice
        $region; size = "1 MiB"; sise = 1 => 4:1: did you mean `size`?
        $region; size = "1 MiB"; $region; size = "1 MiB" => 5:8: region r occurs twice
        [pmem]; capacity = 500; client_capacity = 400; $region; size = "1 MiB"; reserve = 401
            => 7:11: one client can do 400 I/Os per second
        $region; path = "/r"; [[region]]; name = "s"; path = "//r"; read_only = true
            => 6:8: region r has /r too, and one writes to it
        $region; path = "/r"; $disk => 3:8: namespace 1 of nqn.2026-01.io.x:a has /r too
        $region; path = "/r"; read_only = true; $disk => 3:8: set read_only = true on all of them
        $region; path = "/r"; $disk; read_only = true => 3:8: and one writes to it
        $region; path = "/r"; read_only = 1; [[region]]; name = "s"; path = "/r"; read_only = true
            => 4:13: true or false
        [target]; state = "/r/."; $region; path = "/r" => 5:8: the state file of
        "#;
    check_errors(table, &[("$region", "[[region]]; name = \"r\""), ("$disk", disk)], "");
}

#[test]
fn what_is_only_read_may_be_shared() {
    let region =
        |name: &str| format!("[[region]]\nname = \"{name}\"\npath = \"/r\"\nread_only = true\n");
    let disk = "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\n[[subsystem.namespace]]\n\
                backend = \"pmem\"\npath = \"/r\"\nread_only = true\n";
    let config = parse(&(region("a") + &region("b") + disk)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(clash(&config), None);
    let mut other = config.clone();
    other.pmem.regions[0].read_only = false;
    assert!(clash(&other).unwrap().contains("region a and region b would have /r"));
    other.pmem.regions.pop();
    assert!(clash(&other).unwrap().contains("region a and namespace 1 of nqn.2026-01.io.x:a"));
}

#[test]
fn a_listener_may_have_the_port_that_regions_have_over_another_transport() {
    let text = |transport: &str| {
        format!(
            "[pmem]\naddress = \"10.0.0.1:4420\"\ncapacity = 5\n[[listener]]\n\
             address = \"10.0.0.1:4420\"\ntransport = \"{transport}\""
        )
    };
    let config = parse(&text("tcp")).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(clash_of_listeners(&config), None);
    let mut other: Config = config;
    other.listeners[0].transport = super::super::Transport::Rdma;
    assert!(clash_of_listeners(&other).unwrap().contains("`address` of [pmem]"));
}
