//! Small tenant beside floods: Daredevil and blk-switch keep a tenant with one command at a time apart from 1 to 32
//! tenants that fill all queues.

use super::{Antagonist, DRIVE, Setting, percentile, texts, time_of, used};
use crate::claim::{Bound, Claim};

/// Measures the latency of an Urgent tenant at depth 1, and how busy the device is.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Vec<Claim>> {
    let mut random = setting.random();
    let count = random.usize(1..=32);
    let flood = Antagonist::draw(&mut random, true);
    let floods = vec![flood; count];
    // A write counts as 1.25 commands: the device holds 9 to 12, which keeps its 8 servers busy with few that wait.
    let small = format!(
        "{DRIVE}window = 12\n[[host]]\nname = 'small'\nclass = 'urgent'\n[[host.load]]\nprocess = 'closed'\n\
         depth = 1\n"
    );
    let all = small.clone() + &texts(&floods, || "class = 'low'".to_owned());
    let alone = setting.run("", &small, |_| ())?;
    let beside = setting.run("", &all, |_| ())?;
    let without = Setting { qos: false, ..*setting }.run("", &all, |_| ())?;
    // Times of the drive are spread by an eighth.
    let writes = flood.reads < 100;
    let longest = (time_of(writes, flood.kib) + time_of(writes, 4) / 8.0) / 1e3;
    let waits =
        (percentile(&beside, "small", 99.0)? - percentile(&alone, "small", 99.0)?) / longest;
    let kept = used(&beside)? / used(&without)?;
    Ok(vec![
        Claim::times(
            "p99 at depth 1 beyond alone, in foreign commands",
            "",
            waits,
            Bound::AtMost(1.1),
        ),
        Claim::percent("work of the device, of that without QoS", "", kept, Bound::AtLeast(0.97)),
    ])
}
