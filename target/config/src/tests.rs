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

/// Cases: a wrong text, the place of the error, and words of its message and remedy.
#[test]
fn errors_name_the_place_and_the_remedy() {
    const H: &str = "nqn.2026-01.io.x:h";
    let namespace = |lines: &str| with_namespace(lines);
    let host = |lines: &str| {
        let subsystem = "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\n[[subsystem.host]]\n";
        format!("{subsystem}nqn = \"{H}\"\n{lines}\n")
    };
    let cases: Vec<(String, (usize, usize), &str)> = vec![
        ("[target]\ncoers = [0]".into(), (2, 1), "did you mean `cores`?"),
        ("[target]\ncores = [0, 9]".into(), (2, 13), "choose from the CPUs that are online: 0-3"),
        ("[target]\ncores = [1, 1]".into(), (2, 13), "names CPU 1 twice"),
        ("[target]\ncores = []".into(), (1, 1), "cores = [0]"),
        ("[target]\ncores = \"all\"".into(), (2, 9), "write cores = [ … ]"),
        (format!("[target]\ncores = [{}]", "0, ".repeat(65)), (1, 1), "name at most 64"),
        (
            "[target]\nin_capsule_data = \"4 KiB\"\nrdma_in_capsule_data = \"8 KiB\"".into(),
            (3, 24),
            "write no more than in_capsule_data",
        ),
        ("[target]\nrdma_in_capsule_data = \"1000 B\"".into(), (2, 24), "write 992"),
        ("[[listener]]\naddress = \"[::1]:4420\"\ntransport = \"udp\"".into(), (3, 13), "\"rdma\""),
        (
            "[[listener]]\naddress = \"[::]:1\"\ntransport = \"rdma\"\ntls = \"required\"".into(),
            (4, 7),
            "TLS is for TCP",
        ),
        ("[[listener]]\naddress = \"[::]:1\"\ntls = true".into(), (3, 7), "\"allowed\""),
        ("[target]\npoll = \"sometimes\"".into(), (2, 8), "\"adaptive\", \"always\", \"never\""),
        ("[target]\nclock = \"tsc\"".into(), (2, 9), "\"auto\", \"monotonic\""),
        ("[target]\nkeyring = true".into(), (2, 11), "the name of a keyring: \".nvme\""),
        ("[target]\nkeyring = \"\"".into(), (2, 11), "write \".nvme\""),
        ("[target]\nkeyring = \"%:.nvme\"".into(), (2, 11), "write \".nvme\""),
        ("[target]\npoll_time = 50".into(), (2, 13), "write \"50 s\" or \"50 ms\""),
        ("[target]\nqueue_depth = 1".into(), (2, 15), "from 2 to 1024"),
        ("[target]\nadmin_queue_depth = 31".into(), (2, 21), "from 32 to 4096"),
        ("[target]\nadmin_queue_depth = 4097".into(), (2, 21), "from 32 to 4096"),
        ("[target]\nretry_delays = \"1 s\"".into(), (2, 16), "[\"5 s\", \"30 s\", \"150 s\"]"),
        ("[target]\nretry_delays = [\"1 s\", \"2 s\"]".into(), (2, 16), "three times"),
        ("[target]\nretry_delays = [\"1 s\", \"2 s\", \"301 s\"]".into(), (2, 16), "\"5 min\""),
        ("[target]\nretry_delays = [\"150 ms\", \"2 s\", \"3 s\"]".into(), (2, 16), "tenths"),
        ("[target]\nretry_delays = [\"2 s\", \"1 s\", \"3 s\"]".into(), (2, 16), "none shorter"),
        ("[target]\nretry_delays = [\"0 ns\", \"1 s\", \"3 s\"]".into(), (2, 16), "\"100 ms\""),
        ("[target]\nmax_transfer = \"100 KiB\"".into(), (2, 16), "write \"128 KiB\""),
        ("[target]\nmax_transfer = \"32 MiB\"".into(), (2, 16), "from \"4 KiB\" to \"16 MiB\""),
        ("[target]\nin_capsule_data = \"1000 B\"".into(), (2, 19), "write 992"),
        ("[target]\nio_memory = \"1 MiB\"".into(), (2, 13), "too small for transfers of 1 MiB"),
        ("[target]\ncontrol = \"x.sock\"".into(), (2, 11), "begins with /"),
        ("[target]\ndrain_time = \"10 s".into(), (2, 19), "expected `\"`"),
        ("target = 1".into(), (1, 10), "[target] is a number, not a table"),
        ("[[listener]]".into(), (1, 1), "add address = \"0.0.0.0:4420\""),
        ("[[listener]]\naddress = \"localhost:1\"".into(), (2, 11), "an IP address and a port"),
        ("[[listener]]\naddress = \"[::]:0\"".into(), (2, 11), "port 0"),
        ("[[listener]]\naddress = \"[fe80::1]:1\"".into(), (2, 11), "\"[fe80::1%eth0]:1\""),
        ("[[listener]]\naddress = \"[::1%lo]:1\"".into(), (2, 11), "write \"[::1]:1\""),
        ("[[listener]]\naddress = \"[fe80::1%]:1\"".into(), (2, 11), "an IP address and a port"),
        (
            "[[listener]]\naddress = \"0.0.0.0:1\"\n[[listener]]\naddress = \"127.0.0.1:1\"".into(),
            (4, 11),
            "collides with listener 0.0.0.0:1",
        ),
        (
            "[[listener]]\naddress = \"[::]:1\"\nsubsystems = [\"nqn.2026-01.io.x:b\"]".into(),
            (3, 15),
            "names a subsystem that does not exist",
        ),
        ("[listener]\naddress = \"[::]:1\"".into(), (1, 2), "write [[listener]]"),
        ("[[subsystem]]\nnqn = \"disk\"".into(), (2, 7), "does not begin with \"nqn.\""),
        (format!("[[subsystem]]\nnqn = \"{DISCOVERY_NQN}\""), (2, 7), "discovery"),
        (
            "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\nserial = \"S\"\n\
             [[subsystem]]\nnqn = \"nqn.2026-01.io.x:b\"\nserial = \"S\""
                .into(),
            (6, 10),
            "subsystems nqn.2026-01.io.x:a and nqn.2026-01.io.x:b would have the same serial number",
        ),
        (
            // The serial number that follows from the NQN of the other.
            "[[subsystem]]\nnqn = \"nqn.2026-01.io.x:a\"\nserial = \"a4ee351875d65f1fb69b\"\n\
             [[subsystem]]\nnqn = \"nqn.2026-01.io.sluicegate:disk1\""
                .into(),
            (5, 7),
            "nqn.2026-01.io.x:a and nqn.2026-01.io.sluicegate:disk1 would have the same serial",
        ),
        (namespace("backend = \"null\""), (3, 1), "add size = \"4 GiB\""),
        (namespace("backend = \"disk\""), (4, 11), "\"null\", \"memory\", \"file\""),
        (namespace("backend = \"null\"\nsize = \"5000 B\""), (5, 8), "4096 or 8192"),
        (
            namespace("backend = \"null\"\nsize = \"4 GiB\"\nblock_size = 520"),
            (6, 14),
            "512 or 4096",
        ),
        (namespace("backend = \"null\"\nsize = \"4G\""), (5, 8), "4 GiB"),
        (
            namespace("backend = \"null\"\nsise = \"4 GiB\"\nsize = \"4 KiB\""),
            (5, 1),
            "mean `size`?",
        ),
        (namespace("backend = \"memory\"\nsize = \"4 KiB\"\npath = \"/x\""), (6, 1), "\"file\""),
        (namespace("backend = \"nvme\"\ndevice = \"/dev/nvme0n1\""), (5, 10), "/dev/ng0n1"),
        (namespace("backend = \"null\"\nsize = \"4 KiB\"\nnsid = 0"), (6, 8), "from 1 to"),
        (namespace("backend = \"null\"\nsize = \"4 KiB\"\nuuid = \"1\""), (6, 8), "not a UUID"),
        (
            namespace("backend = \"null\"\nsize = \"4 KiB\"\nhosts = [\"nqn.2026-01.io.x:h\"]"),
            (6, 10),
            "never sees the namespace",
        ),
        (host("addresses = [\"192.0.2.7/24\"]"), (5, 13), "which has bits beyond its prefix"),
        (host("addresses = [\"192.0.2\"]"), (5, 13), "names \"192.0.2\", which is no IP address"),
        (host("addresses = [7]"), (5, 13), "names a number"),
        (host("addresses = []"), (5, 13), "1 to 256 addresses"),
        (host("addresses = \"192.0.2.7\""), (5, 13), "is a string, not a list"),
        (host("adresses = [\"192.0.2.7\"]"), (5, 1), "did you mean `addresses`?"),
        (
            host("")
                .replace("[[subsystem.host]]", &format!("hosts = [\"{H}\"]\n[[subsystem.host]]")),
            (5, 7),
            "host nqn.2026-01.io.x:h occurs twice",
        ),
        (
            "[[policy]]\naddresses = [\"10.0.0.0/8\", \"192.0.2.7\"]\nclass = \"low\"\n\
             [[policy]]\naddresses = [\"10.0.0.0/8\"]\nclass = \"high\"\n"
                .to_owned(),
            (4, 1),
            "any host from 10.0.0.0/8",
        ),
        (
            namespace("backend = \"null\"\nsize = \"4 KiB\"\nnsid = 1")
                + &namespace("backend = \"null\"\nsize = \"4 KiB\""),
            (8, 7),
            "subsystem nqn.2026-01.io.x:a occurs twice",
        ),
        (
            namespace("backend = \"file\"\npath = \"/x\"")
                + "[[subsystem.namespace]]\nbackend = \"block\"\npath = \"/x\"",
            (6, 1),
            "two namespaces have /x, and one writes to it",
        ),
        (
            namespace("backend = \"file\"\npath = \"/x\"")
                + "[[subsystem.namespace]]\nread_only = true\nbackend = \"file\"\npath = \"//x/.\"",
            (6, 1),
            "two namespaces have //x/., which /x is too, and one writes to it",
        ),
        (
            namespace("backend = \"file\"\npath = \"/a/x\"\nread_only = true")
                + "[[subsystem.namespace]]\nbackend = \"file\"\npath = \"/a/b/../x\"",
            (7, 1),
            "two namespaces have /a/b/../x, which /a/x is too, and one writes to it",
        ),
        (
            "[target]\nstate = \"/a/state\"\n".to_owned()
                + &namespace("backend = \"file\"\npath = \"/a/../a/state\"\nread_only = true"),
            (5, 1),
            "/a/../a/state is the state file",
        ),
        (
            namespace("backend = \"file\"\npath = \"/x\"\ncreate = true"),
            (6, 10),
            "`create` is set, and `size` is not",
        ),
        (
            namespace(
                "backend = \"file\"\npath = \"/x\"\nread_only = true\nsize = \"4 KiB\"\ncreate = true",
            ),
            (3, 1),
            "`create` is set, and so is `read_only`",
        ),
        (
            namespace("backend = \"null\"\nsize = \"4 KiB\"\nnsid = 7")
                + "[[subsystem.namespace]]\nbackend = \"null\"\nsize = \"4 KiB\"\nnsid = 7",
            (10, 8),
            "nsid 7 occurs twice",
        ),
    ];
    for (text, place, words) in cases {
        let errors = parse(&text).expect_err(&text);
        let first = &errors.errors[0];
        assert_eq!((first.line, first.column), place, "{text}\n{errors}");
        assert!(errors.to_string().contains(words), "{text}\n{errors}");
        let line = text.lines().nth(first.line - 1).unwrap();
        assert_eq!(first.text, line);
    }
}

#[test]
fn all_errors_are_named_at_once_in_the_order_of_the_file() {
    let text = "[target]\npol = 1\nqueue_depth = 0\n[[listener]]\nadress = 1\n[extra]\n";
    let errors = parse(text).unwrap_err();
    let lines: Vec<usize> = errors.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 6], "{errors}");
}

/// Cases: a text with one slip, and words of the one error that it may bring.
#[test]
fn one_slip_is_one_error() {
    let nqn = "nqn.2026-01.io.x:a";
    let host = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6";
    let short = "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec";
    let disk = |lines: &str| with_namespace(lines);
    let with_one = |lines: &str| disk("backend = \"memory\"\nsize = \"1 MiB\"") + lines;
    for (text, words) in [
        ("[target]\ncores = [-1]".to_owned(), "an entry of `cores` is -1"),
        ("[target]\ncores = [\"0\"]".into(), "an entry of `cores` is a string"),
        ("[target]\ncores = [-1, 2]".into(), "an entry of `cores` is -1"),
        ("[target]\nio_memory = \"1 MiB\"\nmax_transfer = \"64 kib\"".into(), "max_transfer"),
        ("[target]\nmax_transfer = \"16 MiB\"\nio_memory = \"1 GB/s\"".into(), "io_memory"),
        (disk("size = \"4 GiB\"\nblock_size = 512"), "has no `backend`"),
        (disk("backend = \"disk\"\npath = \"/x\""), "`backend` is \"disk\""),
        (disk("backend = \"null\"\nsize = \"4608 B\"\nblock_size = \"half\""), "`block_size`"),
        (disk("backend = \"pmem\"\nsize = \"1 GiB\""), "has no `path`"),
        (disk("backend = \"pmem\"\npath = \"/x\"\ndirect = true"), "`direct` belongs to"),
        (disk("backend = \"pmem\"\npath = \"/x\"\ndevice = \"/x\""), "a DAX device is `path`"),
        (disk("backend = \"pmem\"\npath = \"/x\"\nchannels = 3"), "`channels` belongs to"),
        (
            disk("backend = \"pmem\"\npath = \"/x\"\nsize = \"4608 B\""),
            "not a multiple of block_size",
        ),
        (disk("backend = \"pmem\"\npath = \"/x\"\ncreate = true"), "`size` is not"),
        (disk("backend = \"pmem\"\npath = \"/x\"\nblock_size = 1024"), "`block_size`"),
        (disk("backend = \"memory\"\nsize = \"1 MiB\"\npath = \"/x\""), "and \"pmem\""),
        (
            disk("backend = \"file\"\npath = \"/x\"\nsize = \"4608 B\"\nblock_size = 7"),
            "`block_size`",
        ),
        (
            format!("[[subsystem]]\nnqn = \"{nqn}\"\nhosts = [\"{short}\"]\n")
                + "[[subsystem.namespace]]\nbackend = \"null\"\nsize = \"4 KiB\"\n"
                + &format!("hosts = [\"{host}\"]"),
            "no whole UUID",
        ),
        (
            format!("[[listener]]\naddress = \"0.0.0.0:1\"\nsubsystems = [\"{nqn}\"]\n")
                + "[[subsystem]]\nnqn = \"nqn.2026-1.io.x:a\"",
            "a date of the form yyyy-mm",
        ),
        (
            format!("[[session]]\nname = \"{nqn}/1\"\nreserve = {{ commands = 5 }}\n")
                + &disk("backend = \"null\"\nsize = \"4 G\""),
            "not a size",
        ),
        (
            format!("[[policy]]\nsubsystem = \"{nqn}\"\nnsid = 1\nclass = \"low\"\n")
                + &disk("backend = \"null\"\nsize = \"4 G\""),
            "not a size",
        ),
        (
            with_one(&format!("[[policy]]\nsubsystem = \"{nqn}\"\nnsid = 0\nclass = \"low\"")),
            "`nsid` is 0",
        ),
        (
            with_one("[[policy]]\nsubsystem = \"disk\"\nnsid = 1\nclass = \"low\""),
            "`subsystem` is \"disk\"",
        ),
        (
            with_one("[[policy]]\nclass = \"low\"\n[[policy]]\nhost = \"h\"\nclass = \"high\""),
            "`host` is \"h\"",
        ),
        (
            with_one(&format!("[[session]]\nname = \"{nqn}/1\""))
                + "\nreserve = { time = \"2 s\", period = \"5\" }",
            "`period` is \"5\"",
        ),
    ] {
        let errors = parse(&text).expect_err(&text);
        assert_eq!(errors.errors.len(), 1, "{text}\n{errors}");
        assert!(errors.to_string().contains(words), "{text}\n{errors}");
    }
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
    let words = [
        "[target]\n",
        "[[listener]]\n",
        "[[subsystem]]\n",
        "[[subsystem.namespace]]\n",
        "[qos]\n",
        "[[session]]\n",
        "[[policy]]\n",
        "[network]\n",
        "[[link]]\n",
        "[network.classes]\n",
        "[pmem]\n",
        "[[region]]\n",
        "reserve = ",
        "limit = ",
        "create = ",
        "period = ",
        "capacity = ",
        "\"10 Gbit/s\"",
        "classes = ",
        "high = ",
        "{ share = 3 }",
        "{ rate = \"2 Gbit/s\" }",
        "{ latency = \"2 ms\" }",
        "\"free\"",
        "link = ",
        "\"default\"",
        "name = ",
        "parent = ",
        "\"gold\"",
        "window = ",
        "latency_target = ",
        "\"adaptive\"",
        "\"5 ms\"",
        "weights = [3, 2, 1]",
        "operations = ",
        "credit_share = ",
        "commands = ",
        "reserve = ",
        "\"50 %\"",
        "class = ",
        "\"high\"",
        "cores = ",
        "poll = ",
        "io_memory = ",
        "address = ",
        "nqn = ",
        "backend = ",
        "size = ",
        "nsid = ",
        "hosts = ",
        "uuid = ",
        "path = ",
        "\"4 GiB\"",
        "\"memory\"",
        "\"file\"",
        "\"nvme\"",
        "\"0.0.0.0:4420\"",
        "\"nqn.2026-01.io.x:a\"",
        "[0, 1]",
        "[",
        "]",
        "{",
        "}",
        "\n",
        "\n",
        "=",
        "\"",
        "'''",
        "0x7fffffffffffffffffffffff",
        "-1",
        "1.5",
        "true",
        "1979-05-27",
        ".",
        "\\u",
    ];
    prop_oneof![
        8 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
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
