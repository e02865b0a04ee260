//! Share of a device: Gimbal's f-Util, a tenant's throughput divided by its equal share of its throughput alone, on a
//! drive that collects garbage all the time.

use std::time::Duration;

use super::{Setting, bytes};
use crate::claim::{Bound, Claim, Unit};
use crate::model::Measured;

/// A small drive, which the warm-up fills and overwrites, so that its garbage is collected all the time. Its window
/// keeps the dies busy, but is below the tenants' outstanding commands, so that the target orders them. Its times are
/// set low, so that admission lets tenants reserve nearly all of it.
const DRIVE: &str = "[[namespace]]\ndevice = 'ssd'\nwindow = 32\nmean_time = '20 us'\nworst_time = '20 us'\n\
     parallelism = 8\n\
     ssd = { channels = 2, chips = 2, dies = 1, planes = 2, blocks = 64, pages = 8, spare = '28 %', \
     read = '300 us', write_buffer = '2 MiB' }\n";
/// Time in which the drive is written over.
const WARMUP: Duration = Duration::from_secs(3);
/// Part of its share that each tenant of a mix of its own reserves.
const RESERVED: f64 = 0.93;
/// Commands that a tenant which is alone has outstanding: as many as any has.
const DEEPEST: u32 = 254;

#[derive(Clone, Copy, Debug)]
struct Tenant {
    depth: u32,
    /// Least and greatest size in KiB.
    kib: (u32, u32),
    /// Reads, in per cent.
    reads: u32,
}

/// Measures the least f-Util of four tenants: of one mix at different depths, and of different mixes, each with a
/// reservation.
pub(super) fn measure(setting: &Setting) -> anyhow::Result<Vec<Claim>> {
    let mut random = setting.random();
    let depths = [32, 64, 128, 192].map(|least| random.u32(least..least + 62));
    let reads = random.u32(30..=70);
    let one = depths.map(|depth| Tenant { depth, kib: (4, 64), reads });
    let mut mixes = [(4, 90), (64, 90), (4, 10), (64, 10)].map(|(kib, reads)| ((kib, kib), reads));
    random.shuffle(&mut mixes);
    let mut different = one;
    for (tenant, (kib, reads)) in different.iter_mut().zip(mixes) {
        *tenant = Tenant { kib, reads, ..*tenant };
    }
    let [first, ..] = &one;
    let share = alone(setting, first)?;
    let one = least(setting, &one.map(|tenant| (tenant, share)), None)?;
    let shares = different.iter().map(|tenant| Ok((*tenant, alone(setting, tenant)?)));
    let different = least(setting, &shares.collect::<anyhow::Result<Vec<_>>>()?, Some(RESERVED))?;
    let claim = |what, ours| Claim::new(what, "", ours, Unit::Of(2, ""), Bound::AtLeast(0.9));
    Ok(vec![
        claim("least f-Util of four tenants of one mix", one),
        claim("least f-Util of four mixes with reservations", different),
    ])
}

/// Runs a scenario whose warm-up writes the drive over.
fn run(setting: &Setting, tables: &str) -> anyhow::Result<Measured> {
    let qos = "unit = 'bytes'\nurgent_share = '1 %'";
    setting.run(qos, &format!("{DRIVE}{tables}"), |plan| plan.warmup = WARMUP)
}

/// Computes a quarter of a tenant's throughput alone, in bytes per second.
fn alone(setting: &Setting, tenant: &Tenant) -> anyhow::Result<f64> {
    let tenant = Tenant { depth: DEEPEST, ..*tenant };
    let measured = run(setting, &tenant.text("tenant", ""))?;
    Ok(bytes(&measured, "tenant")? / f64::from(setting.seconds) / 4.0)
}

/// Computes the least f-Util of tenants with their shares. Each reserves this part of its share, where it is given.
fn least(
    setting: &Setting,
    tenants: &[(Tenant, f64)],
    reserved: Option<f64>,
) -> anyhow::Result<f64> {
    let mut tables = String::new();
    let names = || (1..).map(|number| format!("tenant-{number}"));
    for (name, (tenant, share)) in names().zip(tenants) {
        let mut session = String::new();
        if let Some(part) = reserved {
            let (bytes, kib, writes) = (share * part, tenant.kib.1, 100 - tenant.reads);
            session = format!("session = '{name}'");
            tables += &format!(
                "[[session]]\nname = '{name}'\nreserve = {{ bytes = '{bytes:.0} B', request_size = '{kib} KiB', \
                 writes = '{writes} %' }}\n"
            );
        }
        tables += &tenant.text(&name, &session);
    }
    let together = run(setting, &tables)?;
    let mut least = f64::INFINITY;
    for (name, (_, share)) in names().zip(tenants) {
        least = least.min(bytes(&together, &name)? / f64::from(setting.seconds) / share);
    }
    Ok(least)
}

impl Tenant {
    /// Writes the host, with a key of its session.
    fn text(&self, name: &str, session: &str) -> String {
        let Self { depth, kib: (least, most), reads } = self;
        format!(
            "[[host]]\nname = '{name}'\nqueues = 2\n{session}\n[[host.load]]\nprocess = 'closed'\n\
             depth = {depth}\nsize = {{ least = '{least} KiB', most = '{most} KiB' }}\nreads = '{reads} %'\n"
        )
    }
}
