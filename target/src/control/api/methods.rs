//! Dispatch of a request to the function of its method.

use serde_json::{Map, Value, json};
use sluice_config::fields::Wrong;
use sluice_config::network::values::{name as link_name, reference as any_link};
use sluice_config::node::Node;
use sluice_config::pmem::values::name as region_name;
use sluice_config::qos::values::{CLASSES, profile_name, session_name};
use sluice_config::table::mismatch;
use sluice_config::{Call, Method, Params, Values, call, did_you_mean, endpoint, values};

use super::Control;
use super::object::ObjectCall;
use super::parameters::{inconsistent, read};
use super::protocol::{ErrorKind, Failure};
use crate::control::objects::visit;

impl Control {
    /// Calls a method by its name.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let method = Method::from_name(method).ok_or_else(|| unknown(method))?;
        let empty = json!({});
        let params = if params.is_null() { &empty } else { params };
        match method {
            Method::Status => checked::<call::Status>(params, |_| Ok(self.status())),
            Method::Connections => {
                checked::<call::Connections>(params, |_| Ok(self.engine().connections()))
            }
            Method::Statistics => {
                checked::<call::Statistics>(params, |asked| Ok(self.statistics(asked.buckets)))
            }
            Method::EventList => {
                checked::<call::EventList>(params, |asked| Ok(self.event_list(&asked)))
            }
            Method::TraceStart => {
                checked::<call::TraceStart>(params, |asked| self.trace_start(asked))
            }
            Method::TraceRead => {
                checked::<call::TraceRead>(params, |asked| self.trace_read(&asked))
            }
            Method::LogLevel => checked::<call::LogLevel>(params, |asked| self.log_level(asked)),
            Method::Reload => checked::<call::Reload>(params, |asked| self.reload_method(&asked)),
            Method::ConfigShow => checked::<call::ConfigShow>(params, |_| Ok(self.configuration())),
            Method::ConfigDiff => checked::<call::ConfigDiff>(params, |_| Ok(self.config_diff())),
            Method::ConfigRevert => answer::<call::ConfigRevert>(self.config_revert(params)),
            Method::ConfigApply => {
                checked::<call::ConfigApply>(params, |asked| self.config_apply(&asked))
            }
            Method::ConfigMerge => checked::<call::ConfigMerge>(params, |_| self.config_merge()),
            Method::Shutdown => checked::<call::Shutdown>(params, |asked| self.shutdown(&asked)),
            Method::SubsystemList => {
                checked::<call::SubsystemList>(params, |_| Ok(self.subsystem_list()))
            }
            Method::SubsystemAdd => answer::<call::SubsystemAdd>(self.subsystem_add(params)),
            Method::SubsystemRemove => {
                checked::<call::SubsystemRemove>(params, |asked| self.subsystem_remove(&asked))
            }
            Method::NamespaceList => {
                checked::<call::NamespaceList>(params, |asked| Ok(self.namespace_list(&asked)))
            }
            Method::NamespaceAdd => answer::<call::NamespaceAdd>(self.namespace_add(params)),
            Method::NamespaceRemove => {
                checked::<call::NamespaceRemove>(params, |asked| self.namespace_remove(&asked))
            }
            Method::NamespaceResize => {
                checked::<call::NamespaceResize>(params, |asked| self.namespace_resize(&asked))
            }
            Method::NamespaceRetry => {
                checked::<call::NamespaceRetry>(params, |asked| self.namespace_retry(&asked))
            }
            Method::ListenerList => {
                checked::<call::ListenerList>(params, |_| Ok(self.listener_list()))
            }
            Method::ListenerAdd => answer::<call::ListenerAdd>(self.listener_add(params)),
            Method::ListenerRemove => {
                checked::<call::ListenerRemove>(params, |asked| self.listener_remove(&asked))
            }
            Method::HostList => {
                checked::<call::HostList>(params, |asked| Ok(self.host_list(&asked)))
            }
            Method::HostAdd => answer::<call::HostAdd>(self.host_add(params)),
            Method::HostSet => answer::<call::HostSet>(self.host_set(params)),
            Method::HostRemove => {
                checked::<call::HostRemove>(params, |asked| self.host_remove(asked))
            }
            Method::HostAny => checked::<call::HostAny>(params, |asked| self.host_any(asked)),
            Method::HostKeys => {
                checked::<call::HostKeys>(params, |asked| Ok(self.host_keys(&asked)))
            }
            Method::QosShow => {
                checked::<call::QosShow>(params, |asked| Ok(self.qos_show(asked.buckets)))
            }
            Method::QosSet => answer::<call::QosSet>(self.qos_set(params)),
            Method::QosListener => {
                checked::<call::QosListener>(params, |asked| self.qos_listener(&asked))
            }
            Method::QosNamespace => {
                checked::<call::QosNamespace>(params, |asked| self.qos_namespace(asked))
            }
            Method::QosPolicy => answer::<call::QosPolicy>(self.qos_policy(params)),
            Method::SessionList => {
                checked::<call::SessionList>(params, |_| Ok(self.session_list()))
            }
            Method::SessionAdd => answer::<call::SessionAdd>(self.session_add(params)),
            Method::SessionSet => answer::<call::SessionSet>(self.session_set(params)),
            Method::SessionRemove => {
                checked::<call::SessionRemove>(params, |asked| self.session_remove(asked))
            }
            Method::SessionReserve => answer::<call::SessionReserve>(self.session_reserve(params)),
            Method::SessionRelease => {
                checked::<call::SessionRelease>(params, |asked| self.session_release(&asked))
            }
            Method::ProfileList => {
                checked::<call::ProfileList>(params, |_| Ok(self.profile_list()))
            }
            Method::NetworkShow => {
                checked::<call::NetworkShow>(params, |_| Ok(self.network_show()))
            }
            Method::NetworkSet => answer::<call::NetworkSet>(self.network_set(params)),
            Method::NetworkListener => {
                checked::<call::NetworkListener>(params, |asked| self.network_listener(&asked))
            }
            Method::PmemShow => checked::<call::PmemShow>(params, |_| Ok(self.pmem_show())),
            Method::PmemProfile => {
                checked::<call::PmemProfile>(params, |asked| self.pmem_profile(&asked))
            }
            other => self.object_method(other, params),
        }
    }

    /// Calls a generic method of a kind of object.
    fn object_method(&self, method: Method, params: &Value) -> Result<Value, Failure> {
        let found = method
            .object()
            .and_then(|(word, verb)| visit(word, ObjectCall { control: self, verb, params }));
        debug_assert!(found.is_some(), "nothing does {}", method.name());
        found.unwrap_or_else(|| Err(unknown(method.name())))
    }
}

/// Checks the parameters of a method, calls it, and writes the answer.
fn checked<M: Call<Params: Params>>(
    params: &Value,
    act: impl FnOnce(M::Params) -> Result<M::Answer, Failure>,
) -> Result<Value, Failure> {
    answer::<M>(check(params).and_then(act))
}

/// Writes the answer of a method.
fn answer<M: Call>(answer: Result<M::Answer, Failure>) -> Result<Value, Failure> {
    serde_json::to_value(answer?).map_err(|error| inconsistent(M::METHOD.name(), &error))
}

/// Checks all parameters by their keys, and takes them.
fn check<P: Params>(params: &Value) -> Result<P, Failure> {
    let read = read(params, |mut fields| {
        let mut read = Map::new();
        let mut missing = false;
        for key in P::KEYS {
            let take = |node: &Node| plain(&key.values, node);
            let value = match key.example {
                Some(example) => fields.require(key.name, example, take),
                None => fields.get(key.name, take),
            };
            missing |= value.is_none() && key.example.is_some();
            read.extend(value.map(|at| (key.name.to_owned(), at.value)));
        }
        fields.finish();
        (!missing).then_some(read)
    })?;
    serde_json::from_value(Value::Object(read)).map_err(|error| inconsistent("parameters", &error))
}

/// Checks a value, and brings it into one form: sizes in bytes, addresses as the system writes
/// them.
fn plain(values: &Values, node: &Node) -> Result<Value, Wrong> {
    Ok(match *values {
        Values::Boolean => json!(values::boolean(node)?),
        Values::Number { min, max } => {
            json!(values::integer::<u64>(min.into(), max.into())(node)?)
        }
        Values::Count { min, max } => json!(values::count(min, max)(node)?),
        Values::Size { min, max } => json!(values::size_within(min, max)(node)?),
        Values::Nqn => json!(values::nqn(node)?),
        Values::Address => json!(values::address(node)?),
        Values::Endpoint => json!(endpoint::name(node)?.to_string()),
        Values::Class => {
            let class = values::nullable(values::choice(&CLASSES))(node)?;
            json!(class.map(arbitration::Class::name))
        }
        Values::Networks => {
            let sources = values::nullable(values::sources)(node)?;
            json!(sources.map(|sources| sources.texts().collect::<Vec<_>>()))
        }
        Values::Session => json!(session_name(node)?),
        Values::Profile => json!(profile_name(node)?),
        Values::Link => json!(link_name(node)?),
        Values::AnyLink => json!(any_link(node)?),
        Values::Region => json!(region_name(node)?),
        Values::Text(_) => json!(values::text(node)?),
        Values::Time { .. }
        | Values::Share { .. }
        | Values::Words(_)
        | Values::Path
        | Values::Nqns
        | Values::Nsids
        | Values::Group
        | Values::Keyring
        | Values::Bandwidth(_)
        | Values::Other(_) => mismatch(values)?,
    })
}

/// Makes the failure of a request for a method that does not exist.
fn unknown(method: &str) -> Failure {
    let names: Vec<&'static str> = Method::ALL.iter().map(|method| method.name()).collect();
    let method = sluice_config::fields::quoted(method);
    let message = match did_you_mean(&method, &names) {
        Some(name) => format!("there is no method \"{method}\"; did you mean \"{name}\"?"),
        None => format!("there is no method \"{method}\"; there are {}", names.join(", ")),
    };
    Failure::new(ErrorKind::UnknownMethod, message)
}
