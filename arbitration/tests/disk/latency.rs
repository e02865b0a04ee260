//! Reservations with an allowed latency, on a disk (docs/research/sources.md, F1: reservations in the tenant's
//! terms).

use super::*;

impl Source {
    /// Returns the number of commands that a tenant sends now while it keeps to its rate and burst:
    /// at random, up to the permitted number.
    pub(super) fn wanted_at_rate(
        &mut self,
        now: Nanos,
        random: &mut impl FnMut(u64) -> u64,
    ) -> usize {
        let terms = self.reserved.as_ref().unwrap().0.terms;
        let each = terms.period.0 / terms.budget.amount();
        let (tokens, since) = self.tokens;
        let most = u64::from(terms.burst) * each;
        let tokens = if self.sent == 0 { most } else { most.min(tokens + now.ns_since(since)) };
        let wanted = match random(6) {
            0 => tokens / each,
            1 => (tokens / each).min(1),
            _ => 0,
        };
        self.tokens = (tokens - wanted * each, now);
        usize::try_from(wanted).unwrap()
    }
}

fn paced() -> impl Strategy<Value = (Terms, Class)> {
    let terms = (1..10_u64, 2..60_u64, 1..6_u32).prop_map(|(operations, latency, burst)| Terms {
        latency: Some(Nanos(latency * 50 * MS)),
        burst,
        ..terms(operations, SECOND)
    });
    (terms, class())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Tenants that keep to their announced rate and burst have each command complete within the
    /// latency that the broker has admitted, under any load of others.
    #[test]
    fn f1_an_admitted_latency_is_kept_by_each_command(
        asked in prop::collection::vec(paced(), 1..5),
        others in prop::collection::vec(tenant(), 0..3),
        flood in (class(), 1..200_usize),
        setup in setup(),
    ) {
        let (mut already, mut sources) = (Vec::new(), Vec::new());
        for (terms, class) in asked {
            let mut source = Source::new(class, 0, Conduct::Paced);
            if reserve(&mut source, &mut already, &terms) {
                sources.push(source);
            }
        }
        sources.extend(admitted(others, &mut already));
        sources.push(Source::new(flood.0, flood.1, Conduct::AlwaysWorst));
        let bench = setup.run(sources);
        for source in bench.sources.iter().filter(|source| source.conduct == Conduct::Paced) {
            let (admitted, reserved) = source.reserved.as_ref().unwrap();
            let latency = admitted.terms.latency.unwrap().0;
            prop_assert!(
                source.longest <= latency,
                "{} ms, {:?}", source.longest / MS, admitted
            );
            let (promised, late) = reserved.late();
            prop_assert!(late == 0 && promised <= source.sent);
            let _ = reserved.due(bench.now);
            let (periods, kept) = reserved.kept();
            prop_assert_eq!(periods, kept);
        }
    }
}
