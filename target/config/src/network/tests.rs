//! Tests of the network's settings: their meaning, their defaults and their errors.

use std::time::Duration;

use arbitration::PerClass;

use super::super::testing::parse;
use super::super::tests::check_errors;
use super::{DEFAULT_LINK, Goal};

#[test]
fn the_settings_mean_what_they_say() {
    let text = r#"
[network]
writes = false
base = "dctcp"
capacity = "10 Gbit/s"
[network.classes]
high = { rate = "2.5 Gbit/s" }
medium = { latency = "2 ms" }
low = { share = 7 }
[[link]]
name = "east"
[[link]]
name = "west"
capacity = "200 Mbit/s"
classes = { high = { share = 9 }, low = "free" }
[[listener]]
address = "127.0.0.1:4420"
link = "west"
[[listener]]
address = "127.0.0.1:4421"
link = "default"
"#;
    let config = parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    let network = &config.network;
    assert_eq!((network.enabled, network.writes), (true, false));
    assert_eq!(network.base.as_deref(), Some("dctcp"));
    assert_eq!((&*network.link.name, network.link.capacity), (DEFAULT_LINK, Some(10_000_000_000)));
    let (high, medium) = (Goal::Rate(2_500_000_000), Goal::Latency(Duration::from_millis(2)));
    let goals = PerClass { urgent: Goal::Free, high, medium, low: Goal::Share(7) };
    assert_eq!(network.link.goals, goals);
    let [east, west] = &network.links[..] else { panic!() };
    assert_eq!((east.capacity, east.goals), (None, goals), "the classes are those of [network]");
    assert_eq!(west.capacity, Some(200_000_000));
    assert_eq!(west.goals, PerClass { high: Goal::Share(9), low: Goal::Free, ..goals });
    let links: Vec<Option<&str>> = config.listeners.iter().map(|l| l.link.as_deref()).collect();
    assert_eq!(links, [Some("west"), None]);
}

#[test]
fn e7_without_a_word_classes_share_three_to_two_to_one_and_urgent_is_free() {
    let network = parse("").unwrap().network;
    assert!(network.enabled && network.writes && network.base.is_none());
    assert_eq!(network.link.capacity, None);
    let (high, medium, low) = (Goal::Share(3), Goal::Share(2), Goal::Share(1));
    assert_eq!(network.link.goals, PerClass { urgent: Goal::Free, high, medium, low });
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let table = r#"
        [network]; capacity = "10 GB/s" => 2:12: write bits, not bytes: the same rate is "80 G
        [network]; capacity = 10 => 2:12: write "10 Gbit/s" or "10 Mbit/s"
        [network]; capacity = true => 2:12: "auto", or a number and its unit in quotes
        [network]; capacity = "0 bit/s" => 2:12: from "1 Mbit/s" to "10 Tbit/s"
        [network]; capacity = "Auto" => 2:12: 10 Gbit/s
        [network]; base = "DCTCP" => 2:8: tcp_available_congestion_control
        [network]; base = "a b" => 2:8: not the name of a congestion control
        [network]; ratio = 1 => 2:1: known here: enabled, writes, base, capacity, classes
        [network]; classes = [3, 2, 1] => 2:11: `classes` is a list, not a table
        [network.classes]; high = 3 => 2:8: { share = 3 }
        [network.classes]; high = "3" => 2:8: `high` is "3"
        [network.classes]; high = { share = 0 } => 2:8: `high` has a `share` that is 0
        [network.classes]; high = { share = 1001 } => 2:8: from 1 to 1000
        [network.classes]; high = { rate = "2 GiB/s" } => 2:8: "17179869184 bit/s"
        [network.classes]; high = { latency = "2 us" } => 2:8: from "50 us" to "1 s"
        [network.classes]; high = { latency = "2 s" } => 2:8: at most "1 s"
        [network.classes]; high = { shares = 2 } => 2:8: did you mean `share`?
        [network.classes]; high = { weight = 2 } => 2:8: write "free", { share = 3 }
        [network.classes]; high = {} => 2:8: is an empty table
        [network.classes]; high = { share = 2, rate = "1 Gbit/s" } => 2:8: more than one goal
        [network.classes]; top = "free" => 2:1: known here: urgent, high, medium, low
        [network]; capacity = "10 Gbit/s"; classes = { high = { rate = "8 Gbit/s" }, low = { rate = "4 Gbit/s" } }
            => 3:11: are 12 Gbit/s together, more than 10 Gbit/s;   3 |
        [network]; classes = { high = { rate = "8 Gbit/s" } }; [[link]]; name = "a"; capacity = "1 Gbit/s"
            => 5:12: lower them by 7 Gbit/s
        [network]; capacity = "8 Gbit/s"; classes = { high = { rate = "8 Gbit/s" } } => 3:11: leaves nothing to shares
        [[link]] => 1:1: add name = "east"
        [[link]]; name = "default" => 2:8: the name of the link of [network]
        [[link]]; name = "a b" => 2:8: letters, digits
        [[link]]; name = "a"; [[link]]; name = "a" => 4:8: a occurs twice
        [[link]]; name = "east"; $listener; link = "north" => 5:8: choose from default, east, or add a [[link]]
        $listener; link = "east" => 3:8: choose from default, or add
        [[link]]; name = "east"; $listener; link = "eats" => 5:8: did you mean "east"?
        "#;
    check_errors(table, &[("$listener", "[[listener]]; address = \"127.0.0.1:4420\"")], "");
}

#[test]
fn rates_alone_may_fill_a_link_and_classes_may_all_be_free() {
    let rates = "[network]\ncapacity = \"3 Gbit/s\"\nclasses = { high = { rate = \"2 Gbit/s\" }, \
                 medium = { rate = \"1 Gbit/s\" }, low = \"free\" }";
    parse(rates).unwrap_or_else(|errors| panic!("{errors}"));
    let free = "[network.classes]\nhigh = \"free\"\nmedium = \"free\"\nlow = \"free\"";
    parse(free).unwrap_or_else(|errors| panic!("{errors}"));
}
