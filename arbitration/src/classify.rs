//! Stage S1: the class of a command (docs/research/sources.md, E6: every command and packet names its
//! class).
//!
//! The first of these that names a class decides: the command's own bits; its connection (the
//! priority class of Connect while CC.AMS is weighted round robin, else the DSCP that the host
//! connected with, else the listener's class); the policy of host, subsystem and namespace;
//! otherwise the class is Low.

use std::sync::Arc;

use units::{Class, Nanos};

use crate::limit::Limiter;
use crate::settings::ClassDscps;

/// The settings that may name the class of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionClass {
    /// CATTR bits 1:0 of the connection's Connect command.
    pub priority: u8,
    /// Whether CC.AMS is weighted round robin with urgent, so that `priority` counts.
    pub weighted: bool,
    /// The class that the host's DSCP stands for.
    pub dscp: Option<Class>,
    /// Class of the listener.
    pub listener: Option<Class>,
}

impl ConnectionClass {
    /// Returns the class of the connection, where it names one.
    #[must_use]
    pub fn named(&self) -> Option<Class> {
        if self.weighted {
            return Some(Class::of_connect(self.priority));
        }
        self.dscp.or(self.listener)
    }
}

/// The classes that policies give one host's commands to one namespace.
#[derive(Clone, Debug, Default)]
pub struct PolicyClass {
    /// Class of commands where neither the command nor its connection names one.
    pub class: Option<Class>,
    /// Highest class that the policy allows.
    pub max_class: Option<Class>,
    /// Limit on Urgent commands per second; those beyond it are High. Everything that the policy
    /// covers shares the limit.
    pub urgent: Option<Arc<Limiter>>,
}

impl PolicyClass {
    /// Returns the same classes, but none that is higher than `most`.
    #[must_use]
    pub fn at_most(self, most: Class) -> Self {
        let max_class = self.max_class.map_or(most, |policy| policy.min(most));
        Self { max_class: Some(max_class), ..self }
    }
}

/// Classifies the commands of one connection to one namespace.
#[derive(Clone, Debug, Default)]
pub struct Classifier {
    inherited: Class,
    max: Class,
    urgent: Option<Arc<Limiter>>,
}

impl Classifier {
    /// Creates a classifier from the settings of the connection and of the policies.
    #[must_use]
    pub fn new(connection: &ConnectionClass, policy: PolicyClass) -> Self {
        Self {
            inherited: connection.named().or(policy.class).unwrap_or_default(),
            max: policy.max_class.unwrap_or(Class::Urgent),
            urgent: policy.urgent.filter(|limit| limit.is_limited()),
        }
    }

    /// Returns the class of commands that name none, before the limit on the rate of Urgent.
    #[must_use]
    pub fn inherited(&self) -> Class {
        self.inherited.min(self.max)
    }

    /// Returns the class that a command or its connection asks for, where that is higher than the
    /// highest that is allowed; `named` is what [`Class::of_command`] says of the command.
    #[inline]
    #[must_use]
    pub fn lowered(&self, named: Option<Class>) -> Option<Class> {
        if self.max == Class::Urgent {
            return None;
        }
        let asked = named.unwrap_or(self.inherited);
        (asked > self.max).then_some(asked)
    }

    /// Returns the class of a command that arrives now; `named` is what [`Class::of_command`] says.
    #[inline]
    #[must_use]
    pub fn class(&self, now: Nanos, named: Option<Class>) -> Class {
        let class = named.unwrap_or(self.inherited).min(self.max);
        match &self.urgent {
            Some(limit) if class == Class::Urgent && limit.take(now, 1).is_err() => Class::High,
            _ => class,
        }
    }
}

/// Returns the class that a DSCP stands for; `None` for best effort and for a DSCP of no class.
#[must_use]
pub fn class_of_dscp(dscps: &ClassDscps, dscp: u8) -> Option<Class> {
    if dscp == 0 {
        return None;
    }
    dscps.iter().find(|(_, of_class)| **of_class == dscp).map(|(class, _)| class)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit::Rate;
    use crate::settings::default_dscps;

    const NOW: Nanos = Nanos(1_000_000_000);

    fn connection(
        weighted: Option<u8>,
        dscp: Option<Class>,
        listener: Option<Class>,
    ) -> ConnectionClass {
        ConnectionClass {
            priority: weighted.unwrap_or(0),
            weighted: weighted.is_some(),
            dscp,
            listener,
        }
    }

    #[test]
    fn e6_every_step_of_inheritance() {
        use Class::{High, Low, Medium, Urgent};
        // command, priority class under WRR, DSCP, listener, policy, cap -> class
        let table = [
            (None, None, None, None, None, None, Low),
            (None, None, None, None, Some(Medium), None, Medium),
            (None, None, None, Some(High), Some(Medium), None, High),
            (None, None, Some(Medium), Some(High), Some(Urgent), None, Medium),
            (None, Some(0), Some(Medium), Some(High), None, None, Urgent),
            (None, Some(1), Some(Medium), None, None, None, High),
            (None, Some(2), None, Some(Urgent), None, None, Medium),
            (None, Some(3), Some(Urgent), Some(High), Some(High), None, Low),
            (Some(Medium), Some(0), Some(Urgent), Some(High), Some(High), None, Medium),
            (Some(Urgent), None, None, None, None, None, Urgent),
            (Some(Urgent), None, None, None, None, Some(High), High),
            (None, Some(0), None, None, None, Some(Low), Low),
            (None, None, Some(Urgent), None, None, Some(Medium), Medium),
            (Some(Medium), None, None, None, Some(Urgent), Some(High), Medium),
        ];
        for (command, priority, dscp, listener, class, max_class, expected) in table {
            let policy = PolicyClass { class, max_class, urgent: None };
            let classifier = Classifier::new(&connection(priority, dscp, listener), policy);
            let case = (command, priority, dscp, listener, class, max_class);
            assert_eq!(classifier.class(NOW, command), expected, "{case:?}");
        }
    }

    #[test]
    fn urgent_above_its_rate_is_high() {
        let limit = Arc::new(Limiter::new(Rate::per_second(100)));
        let policy = PolicyClass { urgent: Some(limit), ..PolicyClass::default() };
        let classifier = Classifier::new(&ConnectionClass::default(), policy);
        let mut urgent = 0;
        for step in 0..10_000 {
            match classifier.class(NOW.after(step * 1_000_000), Some(Class::Urgent)) {
                Class::Urgent => urgent += 1,
                other => assert_eq!(other, Class::High),
            }
        }
        assert!((980..=1020).contains(&urgent), "100 per second in 10 s: {urgent}");
        assert_eq!(classifier.class(NOW, Some(Class::Medium)), Class::Medium);
    }

    fn class() -> impl Strategy<Value = Option<Class>> {
        proptest::option::of(proptest::sample::select(Class::ALL.to_vec()))
    }

    proptest! {
        #[test]
        fn class_is_bounded_by_policy_and_host(
            (command, policy_class, max_class) in (class(), class(), class()),
            (priority, dscp, listener) in (proptest::option::of(0u8..4), class(), class()),
            most in class(),
        ) {
            let policy = PolicyClass { class: policy_class, max_class, urgent: None };
            let connection = connection(priority, dscp, listener);
            let free = PolicyClass { max_class: None, ..policy.clone() };
            let free = Classifier::new(&connection, free);
            let policy = most.map_or(policy.clone(), |most| policy.at_most(most));
            let bound = Classifier::new(&connection, policy);
            let highest = [max_class, most].into_iter().flatten().min().unwrap_or(Class::Urgent);
            let (asked, got) = (free.class(NOW, command), bound.class(NOW, command));
            prop_assert_eq!(got, asked.min(highest));
            prop_assert!(bound.inherited() <= highest);
            prop_assert_eq!(bound.lowered(command), (got != asked).then_some(asked));
        }
    }

    #[test]
    fn dscps_stand_for_classes() {
        let of = |dscp| class_of_dscp(&default_dscps(), dscp);
        let classes = [Class::Urgent, Class::High, Class::Medium, Class::Low].map(Some);
        assert_eq!([46, 34, 18, 8].map(of), classes);
        assert_eq!([0, 48].map(of), [None, None], "network control is no class of ours");
    }
}
