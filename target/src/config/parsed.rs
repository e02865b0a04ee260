//! Listeners, subsystems and namespaces with the places that they were read at.

use super::fields::{At, List};
use super::model::{Listener, Namespace, Subsystem};

/// A listener and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedListener {
    pub(crate) listener: Listener,
    pub(crate) address: At<()>,
    pub(crate) subsystems: List<String>,
    pub(crate) link: Option<At<()>>,
}

/// A namespace and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedNamespace {
    pub(crate) namespace: Namespace,
    pub(crate) place: At<()>,
    pub(crate) nsid: Option<At<()>>,
    pub(crate) hosts: List<String>,
}

/// A subsystem and the places of its values.
#[derive(Debug)]
pub(crate) struct ParsedSubsystem {
    pub(crate) subsystem: Subsystem,
    pub(crate) nqn: At<()>,
    pub(crate) hosts: List<String>,
    pub(crate) namespaces: Vec<ParsedNamespace>,
    /// Whether all its namespaces could be read.
    pub(crate) whole: bool,
}

impl ParsedSubsystem {
    pub(crate) fn into_subsystem(self) -> Subsystem {
        let namespaces = self.namespaces.into_iter().map(|n| n.namespace).collect();
        Subsystem { namespaces, ..self.subsystem }
    }
}
