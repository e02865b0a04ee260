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

/// Calls a method and writes its answer. A row of a method with `(asked)` gets its parameters checked, in their type;
/// other methods check theirs.
macro_rules! dispatch {
    (
        ($method:ident, $params:ident), $other:ident => $rest:expr;
        $($name:ident $(($asked:pat_param))? => $result:expr,)*
    ) => {
        match $method {
            $(Method::$name => dispatch!(@row $name $params $(($asked))? $result),)*
            $other => $rest,
        }
    };
    (@row $name:ident $params:ident ($asked:pat_param) $result:expr) => {
        checked::<call::$name>($params, |$asked| $result)
    };
    (@row $name:ident $params:ident $result:expr) => {
        answer::<call::$name>($result)
    };
}

impl Control {
    /// Calls a method by its name.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        let method = Method::from_name(method).ok_or_else(|| unknown(method))?;
        let empty = json!({});
        let params = if params.is_null() { &empty } else { params };
        dispatch! {
            (method, params), other => self.object_method(other, params);
            Status(_) => Ok(self.status()),
            Connections(_) => Ok(self.engine().connections()),
            Statistics(asked) => Ok(self.statistics(asked.buckets)),
            EventList(asked) => Ok(self.event_list(&asked)),
            TraceStart(asked) => self.trace_start(asked),
            TraceRead(asked) => self.trace_read(&asked),
            LogLevel(asked) => self.log_level(asked),
            Reload(asked) => self.reload_method(&asked),
            ConfigShow(_) => Ok(self.configuration()),
            ConfigDiff(_) => Ok(self.config_diff()),
            ConfigRevert => self.config_revert(params),
            ConfigApply(asked) => self.config_apply(&asked),
            ConfigMerge(_) => self.config_merge(),
            Shutdown(asked) => self.shutdown(&asked),
            SubsystemList(_) => Ok(self.subsystem_list()),
            SubsystemAdd => self.subsystem_add(params),
            SubsystemRemove(asked) => self.subsystem_remove(&asked),
            NamespaceList(asked) => Ok(self.namespace_list(&asked)),
            NamespaceAdd => self.namespace_add(params),
            NamespaceRemove(asked) => self.namespace_remove(&asked),
            NamespaceResize(asked) => self.namespace_resize(&asked),
            NamespaceRetry(asked) => self.namespace_retry(&asked),
            ListenerList(_) => Ok(self.listener_list()),
            ListenerAdd => self.listener_add(params),
            ListenerRemove(asked) => self.listener_remove(&asked),
            HostList(asked) => Ok(self.host_list(&asked)),
            HostAdd => self.host_add(params),
            HostSet => self.host_set(params),
            HostRemove(asked) => self.host_remove(asked),
            HostAny(asked) => self.host_any(asked),
            HostKeys(asked) => Ok(self.host_keys(&asked)),
            QosShow(asked) => Ok(self.qos_show(asked.buckets)),
            QosSet => self.qos_set(params),
            QosListener(asked) => self.qos_listener(&asked),
            QosNamespace(asked) => self.qos_namespace(asked),
            QosPolicy => self.qos_policy(params),
            SessionList(_) => Ok(self.session_list()),
            SessionAdd => self.session_add(params),
            SessionSet => self.session_set(params),
            SessionRemove(asked) => self.session_remove(asked),
            SessionReserve => self.session_reserve(params),
            SessionRelease(asked) => self.session_release(&asked),
            ProfileList(_) => Ok(self.profile_list()),
            NetworkShow(_) => Ok(self.network_show()),
            NetworkSet => self.network_set(params),
            NetworkListener(asked) => self.network_listener(&asked),
            PmemShow(_) => Ok(self.pmem_show()),
            PmemProfile(asked) => self.pmem_profile(&asked),
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
