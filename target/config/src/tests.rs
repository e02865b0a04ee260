//! Tests of the configuration file: meaning, defaults, errors, and random texts.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::testing::{configs, machine, parse};
use super::*;

const GOOD: &str = include_str!("../../../systemd/sluicegate.toml");

/// Makes a configuration around the lines of one namespace.
fn with_namespace(lines: &str) -> String {
    format!("[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\n[[subsystem.namespace]]\n{lines}\n")
}

#[test]
fn the_embedded_and_the_example_configuration_are_right() {
    let embedded = Config::parse_for(EMBEDDED, Path::new("e"), &machine()).unwrap();
    assert_eq!(embedded.listeners[0].address.to_string(), "127.0.0.1:4420");
    assert_eq!(embedded.subsystems[0].namespaces.len(), 2);
    let example = parse(GOOD).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(!example.subsystems.is_empty());
}

#[test]
fn what_is_left_out_is_given_and_stays_the_same() {
    let text = with_namespace("backend = \"null\"\nsize = \"8 KiB\"\nnsid = 1")
        + "[[subsystem.namespace]]\nbackend = \"memory\"\nsize = \"4 GiB\"\n";
    let config = parse(&text).unwrap();
    let namespaces = &config.subsystems[0].namespaces;
    assert_eq!(namespaces[1].nsid, Some(2));
    assert_eq!((namespaces[1].uuid, namespaces[1].nguid), (None, None), "the daemon chooses them");
    assert_eq!(namespaces[1].backend, Backend::Memory { size: 4 << 30, block_size: 4096 });
    assert_eq!(config.subsystems[0].serial, None);
    assert_eq!(config.target.cores, vec![0]);
    assert_eq!(parse(&text), Ok(config));
}

#[test]
fn auto_chooses_cores_of_the_machine() {
    let config = parse("[target]\ncores = \"auto\"").unwrap();
    assert_eq!(config.target.cores, [2, 3]);
    assert_eq!(config.target.cores_reason.as_deref(), Some("half of the 4 usable cores"));
}

#[test]
fn the_documentation_names_every_setting_and_its_example_is_right() {
    let docs = include_str!("../../../docs/reference/configuration.md");
    let example = docs.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
    parse(example.unwrap()).unwrap_or_else(|errors| panic!("{errors}"));
    for (table, title) in [
        ("[target]\nx = 1", "## `[target]`"),
        ("[qos]\nx = 1", "## `[qos]`"),
        ("[network]\nx = 1", "## `[network]`"),
        ("[[link]]\nx = 1", "## `[[link]]`"),
        ("[pmem]\nx = 1", "## `[pmem]`"),
        ("[[region]]\nx = 1", "## `[[region]]`"),
        ("[network]\nclasses = { x = 1 }", "## `classes`"),
        ("[[session]]\nx = 1", "## `[[session]]`"),
        ("[[session]]\nreserve = { x = 1 }", "## `reserve`"),
        ("[[policy]]\nx = 1", "## `[[policy]]`"),
        ("[[listener]]\nx = 1", "## `[[listener]]`"),
        ("[[subsystem]]\nx = 1", "## `[[subsystem]]`"),
        ("[[subsystem]]\n[[subsystem.host]]\nx = 1", "## `[[subsystem.host]]`"),
        ("[[subsystem]]\n[[subsystem.namespace]]\nx = 1", "## `[[subsystem.namespace]]`"),
    ] {
        let errors = parse(table).unwrap_err();
        let unknown = errors.errors.iter().find(|e| e.message.contains("unknown key")).unwrap();
        let known = unknown.remedy.rsplit(": ").next().unwrap();
        let chapter = docs.split(title).nth(1).unwrap().split("\n## ").next().unwrap();
        let rows = chapter.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let documented: BTreeSet<&str> = rows.collect();
        let mut known: BTreeSet<&str> = known.split(", ").collect();
        if title == "## `[[subsystem]]`" {
            // They have chapters of their own.
            known.remove("host");
            known.remove("namespace");
        }
        assert!(known.is_subset(&documented), "{title}: {known:?} {documented:?}");
    }
}

/// Checks the error of each wrong text. A row of the table is `text => line:column: words`, with the error's place and
/// with words of its message or remedy; the rest from the arrow on may have a line of its own. `; ` stands for the end
/// of a line, and `$name` for one of `parts`. Each text gets the lines of `end`.
pub(crate) fn check_errors(table: &str, parts: &[(&str, &str)], end: &str) {
    let rows: Vec<&str> = table.trim().lines().map(str::trim).collect();
    for row in rows.join("\n").replace("\n=>", " =>").lines() {
        let (text, refusal) = row.split_once(" => ").unwrap();
        let (place, words) = refusal.split_once(": ").unwrap();
        let named = |text: String, (name, part): &(&str, &str)| text.replace(name, part);
        let text = parts.iter().fold(text.to_owned(), named).replace("; ", "\n") + "\n" + end;
        let errors = parse(&text).expect_err(row);
        let [error] = &errors.errors[..] else { panic!("{row}\n{errors}") };
        assert_eq!(format!("{}:{}", error.line, error.column), place, "{row}\n{errors}");
        assert_eq!(Some(error.text.as_str()), text.lines().nth(error.line - 1), "{row}");
        assert!(errors.to_string().replace('\n', "; ").contains(words), "{row}\n{errors}");
    }
}

/// Parts of wrong texts.
const PARTS: &[(&str, &str)] = &[
    ("$host", "$subsystem; [[subsystem.host]]; nqn = \"nqn.2026-01.io.x:h\""),
    ("$disk", "$subsystem; $next"),
    ("$next", "[[subsystem.namespace]]"),
    ("$subsystem", "[[subsystem]]; nqn = \"nqn.2026-01.io.x:a\""),
    ("$null", "backend = \"null\"; size = \"4 KiB\""),
    ("$memory", "backend = \"memory\"; size = \"1 MiB\""),
    ("$file", "backend = \"file\"; path = \"/x\""),
    ("$pmem", "backend = \"pmem\"; path = \"/x\""),
    ("$policy", "[[policy]]; addresses = [\"10.0.0.0/8\""),
    ("$short", "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec"),
];

#[test]
fn errors_name_the_place_and_the_remedy() {
    let table = r#"
        [target]; coers = [0] => 2:1: did you mean `cores`?
        [target]; cores = [0, 9] => 2:13: choose from the CPUs that are online: 0-3
        [target]; cores = [1, 1] => 2:13: names CPU 1 twice
        [target]; cores = [] => 1:1: cores = [0]
        [target]; cores = "all" => 2:9: write cores = [ … ]
        [target]; in_capsule_data = "4 KiB"; rdma_in_capsule_data = "8 KiB" => 3:24: write no more than in_capsule_data
        [target]; rdma_in_capsule_data = "1000 B" => 2:24: write 992
        [[listener]]; address = "[::1]:4420"; transport = "udp" => 3:13: "rdma"
        [[listener]]; address = "[::]:1"; transport = "rdma"; tls = "required" => 4:7: TLS is for TCP
        [[listener]]; address = "[::]:1"; tls = true => 3:7: "allowed"
        [target]; poll = "sometimes" => 2:8: "adaptive", "always", "never"
        [target]; clock = "tsc" => 2:9: "auto", "monotonic"
        [target]; keyring = true => 2:11: the name of a keyring: ".nvme"
        [target]; keyring = "" => 2:11: write ".nvme"
        [target]; keyring = "%:.nvme" => 2:11: write ".nvme"
        [target]; poll_time = 50 => 2:13: write "50 s" or "50 ms"
        [target]; queue_depth = 1 => 2:15: from 2 to 1024
        [target]; admin_queue_depth = 31 => 2:21: from 32 to 4096
        [target]; admin_queue_depth = 4097 => 2:21: from 32 to 4096
        [target]; retry_delays = "1 s" => 2:16: ["5 s", "30 s", "150 s"]
        [target]; retry_delays = ["1 s", "2 s"] => 2:16: three times
        [target]; retry_delays = ["1 s", "2 s", "301 s"] => 2:16: "5 min"
        [target]; retry_delays = ["150 ms", "2 s", "3 s"] => 2:16: tenths
        [target]; retry_delays = ["2 s", "1 s", "3 s"] => 2:16: none shorter
        [target]; retry_delays = ["0 ns", "1 s", "3 s"] => 2:16: "100 ms"
        [target]; max_transfer = "100 KiB" => 2:16: write "128 KiB"
        [target]; max_transfer = "32 MiB" => 2:16: from "4 KiB" to "16 MiB"
        [target]; in_capsule_data = "1000 B" => 2:19: write 992
        [target]; io_memory = "1 MiB" => 2:13: too small for transfers of 1 MiB
        [target]; control = "x.sock" => 2:11: begins with /
        [target]; drain_time = "10 s => 2:19: expected `"`
        target = 1 => 1:10: [target] is a number, not a table
        [[listener]] => 1:1: add address = "0.0.0.0:4420"
        [[listener]]; address = "localhost:1" => 2:11: an IP address and a port
        [[listener]]; address = "[::]:0" => 2:11: port 0
        [[listener]]; address = "[fe80::1]:1" => 2:11: "[fe80::1%eth0]:1"
        [[listener]]; address = "[::1%lo]:1" => 2:11: write "[::1]:1"
        [[listener]]; address = "[fe80::1%]:1" => 2:11: an IP address and a port
        [[listener]]; address = "0.0.0.0:1"; [[listener]]; address = "127.0.0.1:1"
            => 4:11: collides with listener 0.0.0.0:1
        [[listener]]; address = "[::]:1"; subsystems = ["nqn.2026-01.io.x:b"]
            => 3:15: names a subsystem that does not exist
        [listener]; address = "[::]:1" => 1:2: write [[listener]]
        [[subsystem]]; nqn = "disk" => 2:7: does not begin with "nqn."
        [[subsystem]]; nqn = "nqn.2014-08.org.nvmexpress.discovery" => 2:7: discovery
        $subsystem; serial = "S"; [[subsystem]]; nqn = "nqn.2026-01.io.x:b"; serial = "S"
            => 6:10: subsystems nqn.2026-01.io.x:a and nqn.2026-01.io.x:b would have the same serial number
        $subsystem; serial = "a4ee351875d65f1fb69b"; [[subsystem]]; nqn = "nqn.2026-01.io.sluicegate:disk1"
            => 5:7: nqn.2026-01.io.x:a and nqn.2026-01.io.sluicegate:disk1 would have the same serial
        $disk; backend = "null" => 3:1: add size = "4 GiB"
        $disk; backend = "disk" => 4:11: "null", "memory", "file"
        $disk; backend = "null"; size = "5000 B" => 5:8: 4096 or 8192
        $disk; backend = "null"; size = "4 GiB"; block_size = 520 => 6:14: 512 or 4096
        $disk; backend = "null"; size = "4G" => 5:8: 4 GiB
        $disk; backend = "null"; sise = "4 GiB"; size = "4 KiB" => 5:1: mean `size`?
        $disk; backend = "memory"; size = "4 KiB"; path = "/x" => 6:1: "file"
        $disk; backend = "nvme"; device = "/dev/nvme0n1" => 5:10: /dev/ng0n1
        $disk; $null; nsid = 0 => 6:8: from 1 to
        $disk; $null; uuid = "1" => 6:8: not a UUID
        $disk; $null; hosts = ["nqn.2026-01.io.x:h"] => 6:10: never sees the namespace
        $host; addresses = ["192.0.2.7/24"] => 5:13: which has bits beyond its prefix
        $host; addresses = ["192.0.2"] => 5:13: names "192.0.2", which is no IP address
        $host; addresses = [7] => 5:13: names a number
        $host; addresses = [] => 5:13: 1 to 256 addresses
        $host; addresses = "192.0.2.7" => 5:13: is a string, not a list
        $host; adresses = ["192.0.2.7"] => 5:1: did you mean `addresses`?
        $subsystem; hosts = ["nqn.2026-01.io.x:h"]; [[subsystem.host]]; nqn = "nqn.2026-01.io.x:h"
            => 5:7: host nqn.2026-01.io.x:h occurs twice
        $policy, "192.0.2.7"]; class = "low"; $policy]; class = "high" => 4:1: any host from 10.0.0.0/8
        $disk; $null; nsid = 1; $disk; $null => 8:7: subsystem nqn.2026-01.io.x:a occurs twice
        $disk; $file; $next; backend = "block"; path = "/x"
            => 6:1: two namespaces have /x, and one writes to it
        $disk; $file; $next; read_only = true; backend = "file"; path = "//x/."
            => 6:1: two namespaces have //x/., which /x is too, and one writes to it
        $disk; backend = "file"; path = "/a/x"; read_only = true; $next; backend = "file"; path = "/a/b/../x"
            => 7:1: two namespaces have /a/b/../x, which /a/x is too, and one writes to it
        [target]; state = "/a/state"; $disk; backend = "file"; path = "/a/../a/state"; read_only = true
            => 5:1: /a/../a/state is the state file
        $disk; $file; create = true => 6:10: `create` is set, and `size` is not
        $disk; $file; read_only = true; size = "4 KiB"; create = true => 3:1: `create` is set, and so is `read_only`
        $disk; $null; nsid = 7; $next; $null; nsid = 7 => 10:8: nsid 7 occurs twice
        "#;
    check_errors(table, PARTS, "");
    // Each of the CPUs is wrong, too.
    let errors = parse(&format!("[target]\ncores = [{}]", "0, ".repeat(65))).unwrap_err();
    assert_eq!((errors.errors[0].line, errors.errors[0].column), (1, 1), "{errors}");
    assert!(errors.to_string().contains("name at most 64"), "{errors}");
}

#[test]
fn all_errors_are_named_at_once_in_the_order_of_the_file() {
    let text = "[target]\npol = 1\nqueue_depth = 0\n[[listener]]\nadress = 1\n[extra]\n";
    let errors = parse(text).unwrap_err();
    let lines: Vec<usize> = errors.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 6], "{errors}");
}

/// Checks that a slip does not bring other errors.
#[test]
fn one_slip_is_one_error() {
    let table = r#"
        [target]; cores = [-1] => 2:10: an entry of `cores` is -1
        [target]; cores = ["0"] => 2:10: an entry of `cores` is a string
        [target]; cores = [-1, 2] => 2:10: an entry of `cores` is -1
        [target]; io_memory = "1 MiB"; max_transfer = "64 kib" => 3:16: max_transfer
        [target]; max_transfer = "16 MiB"; io_memory = "1 GB/s" => 3:13: io_memory
        $disk; size = "4 GiB"; block_size = 512 => 3:1: has no `backend`
        $disk; backend = "disk"; path = "/x" => 4:11: `backend` is "disk"
        $disk; backend = "null"; size = "4608 B"; block_size = "half" => 6:14: `block_size`
        $disk; backend = "pmem"; size = "1 GiB" => 3:1: has no `path`
        $disk; $pmem; direct = true => 6:1: `direct` belongs to
        $disk; $pmem; device = "/x" => 6:1: a DAX device is `path`
        $disk; $pmem; channels = 3 => 6:1: `channels` belongs to
        $disk; $pmem; size = "4608 B" => 6:8: not a multiple of block_size
        $disk; $pmem; create = true => 6:10: `size` is not
        $disk; $pmem; block_size = 1024 => 6:14: `block_size`
        $disk; $memory; path = "/x" => 6:1: and "pmem"
        $disk; $file; size = "4608 B"; block_size = 7 => 7:14: `block_size`
        $subsystem; hosts = ["$short"]; $next; $null; hosts = ["$short-11d0-a765-00a0c91e6bf6"]
            => 3:10: no whole UUID
        [[listener]]; address = "[::]:1"; subsystems = ["nqn.2026-01.io.x:a"]; [[subsystem]]; nqn = "nqn.2026-1.io.x:a"
            => 5:7: a date of the form yyyy-mm
        [[session]]; name = "nqn.2026-01.io.x:a/1"; reserve = { commands = 5 }; $disk; backend = "null"; size = "4 G"
            => 8:8: not a size
        [[policy]]; subsystem = "nqn.2026-01.io.x:a"; nsid = 1; class = "low"; $disk; backend = "null"; size = "4 G"
            => 9:8: not a size
        $disk; $memory; [[policy]]; subsystem = "nqn.2026-01.io.x:a"; nsid = 0; class = "low" => 8:8: `nsid` is 0
        $disk; $memory; [[policy]]; subsystem = "disk"; nsid = 1; class = "low" => 7:13: `subsystem` is "disk"
        $disk; $memory; [[policy]]; class = "low"; [[policy]]; host = "h"; class = "high" => 9:8: `host` is "h"
        $disk; $memory; [[session]]; name = "nqn.2026-01.io.x:a/1"; reserve = { time = "2 s", period = "5" }
            => 8:36: `period` is "5"
        "#;
    check_errors(table, PARTS, "");
}

#[test]
fn sizes_end_where_a_backend_does() {
    for (backend, size, most) in [
        ("backend = \"null\"", "8000 PiB", "1 EiB"),
        ("backend = \"file\"\npath = \"/x\"", "8000 PiB", "1 EiB"),
        ("backend = \"memory\"", "5 TiB", "4 TiB"),
    ] {
        let errors = parse(&with_namespace(&format!("{backend}\nsize = \"{size}\""))).unwrap_err();
        let wanted = format!("write a size from \"4 KiB\" to \"{most}\"");
        assert!(errors.to_string().contains(&wanted), "{errors}");
        parse(&with_namespace(&format!("{backend}\nsize = \"{most}\""))).unwrap();
    }
}

#[test]
fn regions_and_links_are_as_many_as_metrics_can_hold() {
    for (table, lines, words) in [
        ("region", "size = \"4 KiB\"\n", "more than 256 regions"),
        ("link", "", "more than 256 links"),
    ] {
        let many = |count: usize| -> String {
            (0..count).map(|n| format!("[[{table}]]\nname = \"x{n}\"\n{lines}")).collect()
        };
        parse(&many(256)).unwrap_or_else(|errors| panic!("{errors}"));
        let errors = parse(&many(257)).unwrap_err();
        assert!(errors.to_string().contains(words), "{errors}");
    }
}

#[test]
fn a_file_that_is_not_there_or_not_text_is_explained() {
    let errors =
        Config::load(Path::new("/nonexistent/x.toml"), |error, _| error.to_string()).unwrap_err();
    assert!(errors.to_string().contains("/nonexistent/x.toml: cannot read"), "{errors}");
    let bytes = b"[target]\n# \xff";
    let errors = Config::parse_bytes(bytes, Path::new("x"), &Machine::present()).unwrap_err();
    assert_eq!((errors.errors[0].line, errors.errors[0].column), (2, 3));
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    for text in ["[".repeat(100_000), format!("a = {}", "[".repeat(100_000))] {
        assert!(parse(&text).is_err());
    }
    assert!(parse(&format!("a{} = 1", ".a".repeat(50_000))).is_err());
}

/// Makes words that occur in configurations, so that random texts get far.
fn snippet() -> impl Strategy<Value = String> {
    let tables = "[target] [[listener]] [[subsystem]] [[subsystem.namespace]] [qos] [[session]] [[policy]] \
                  [network] [[link]] [network.classes] [pmem] [[region]]";
    let keys = "reserve limit create period capacity classes high link name parent window latency_target operations \
                credit_share commands reserve class cores poll io_memory address nqn backend size nsid hosts uuid path";
    let values = r#""10 Gbit/s"|{ share = 3 }|{ rate = "2 Gbit/s" }|{ latency = "2 ms" }|"free"|"default"|"gold"
        |"adaptive"|"5 ms"|weights = [3, 2, 1]|"50 %"|"high"|"4 GiB"|"memory"|"file"|"nvme"|"0.0.0.0:4420"
        |"nqn.2026-01.io.x:a"|[0, 1]|[|]|{|}|=|"|'''|0x7fffffffffffffffffffffff|-1|1.5|true|1979-05-27|.|\u"#;
    let tables = tables.split_whitespace().map(|table| format!("{table}\n"));
    let keys = keys.split_whitespace().map(|key| format!("{key} = "));
    let values = values.split('|').map(|value| value.trim().to_owned());
    let ends = ["\n", "\n"].map(str::to_owned);
    let words: Vec<String> = tables.chain(keys).chain(values).chain(ends).collect();
    prop_oneof![
        8 => proptest::sample::select(words),
        1 => "\\PC{0,8}",
    ]
}

proptest! {
    #[test]
    fn any_bytes_are_answered_with_places(bytes: Vec<u8>) {
        let machine = Machine::present();
        if let Err(errors) = Config::parse_bytes(&bytes, Path::new("x"), &machine) {
            prop_assert!(errors.errors.iter().all(|e| e.line > 0 && e.column > 0 && e.width > 0));
            prop_assert!(!errors.to_string().is_empty());
        }
    }

    #[test]
    fn any_words_are_answered_with_places(words in proptest::collection::vec(snippet(), 0..60)) {
        let text = words.concat();
        if let Err(errors) = parse(&text) {
            prop_assert!(!errors.errors.is_empty());
            for error in &errors.errors {
                prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
                prop_assert!(error.column >= 1 && !error.message.is_empty());
            }
        }
    }

    #[test]
    fn a_rendered_configuration_is_the_same(config in configs()) {
        let text = render(&config);
        let again = parse(&text).map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        prop_assert_eq!(&again, &config);
        prop_assert_eq!(render(&again), text);
    }
}

/// The keys that the rendering of an empty file has. A downgrade hands the rendered configuration to an earlier daemon.
const RENDERED: &str = "cores poll poll_time clock io_memory max_transfer in_capsule_data rdma_in_capsule_data \
                        queue_depth admin_queue_depth max_queues max_connections max_discovery max_waiting \
                        discovery_keep_alive retry_delays reconnect_time require_authentication control drain_time \
                        enabled weights unit burst urgent_share window credits payload queue wrr mark dscp enabled \
                        writes base capacity classes period interval batch clients";

#[test]
fn earlier_daemons_know_all_rendered_defaults() {
    let rendered = render(&parse("").unwrap());
    let keys = rendered.lines().filter_map(|line| Some(line.split_once(" = ")?.0));
    let keys: Vec<&str> = keys.collect();
    let known: Vec<&str> = RENDERED.split_whitespace().collect();
    assert_eq!(
        keys, known,
        "an earlier daemon refuses a key that it does not know: make the setting an Option that is not rendered \
         where it is not set"
    );
}
