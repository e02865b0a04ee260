//! Generic methods add, set and remove objects of every kind that has a name.

use serde_json::{Value, json};
use sluice_config::answer::{Changed, Name};
use sluice_config::fields::Fields;
use sluice_config::params::Settings;
use sluice_config::values::boolean;
use sluice_config::{Config, Verb, table};

use super::Control;
use super::parameters::{inconsistent, read};
use super::protocol::Failure;
use crate::control::objects::{Group, Listed, Named, Settable, Visitor, find, put};
use crate::control::store::{Live, ObjectId};
use crate::sys::words::list;

/// A call of a method, for the kind of object that it names.
#[derive(Debug)]
pub(super) struct ObjectCall<'a> {
    pub(super) control: &'a Control,
    pub(super) verb: Verb,
    pub(super) params: &'a Value,
}

impl Visitor for ObjectCall<'_> {
    type Output = Result<Value, Failure>;

    fn visit<T: Named + Listed>(self) -> Self::Output {
        let Self { control, verb, params } = self;
        let answer = match verb {
            Verb::Add => serde_json::to_value(control.add::<T>(params)?),
            Verb::Set => serde_json::to_value(control.set::<T>(params)?),
            Verb::Remove => serde_json::to_value(control.remove::<T>(params)?),
        };
        answer.map_err(|error| inconsistent(T::WORD, &error))
    }
}

impl Control {
    fn add<T: Named + Listed>(&self, params: &Value) -> Result<Changed<Settings>, Failure> {
        let mut live = self.live();
        let group = T::Group::of(live.current());
        let fresh = T::fresh(group);
        let object = read(params, |fields| T::read_onto(fields, &fresh))?;
        let name = object.id();
        if find::<T>(group, &name).is_some() {
            return Err(Failure::exists(format!("{} {name} exists already", T::WORD)));
        }
        may_be(&object, live.current(), None)?;
        let answer = table::show(&object);
        self.put(&mut live, name, Some(object))?;
        Ok(self.done(answer))
    }

    fn set<T: Named + Listed>(&self, params: &Value) -> Result<Changed<Settings>, Failure> {
        let mut live = self.live();
        // Keys that are not given stay as they are, so the name is needed before the rest can be
        // read.
        let only = params.get("name").map_or_else(|| json!({}), |name| json!({ "name": name }));
        let (name, _) = read_name::<T>(&only)?;
        let before = find::<T>(T::Group::of(live.current()), &name).cloned();
        let before = before.ok_or_else(|| missing::<T>(live.current(), &name))?;
        let (object, force) = read(params, |mut fields| {
            let force = read_force::<T>(&mut fields);
            Some((T::read_onto(fields, &before)?, force))
        })?;
        may_be(&object, live.current(), Some(&before))?;
        self.unless_lost(force, &before, Some(&object))?;
        let answer = table::show(&object);
        self.put(&mut live, name, Some(object))?;
        Ok(self.done(answer))
    }

    fn remove<T: Named + Listed>(&self, params: &Value) -> Result<Changed<Name>, Failure> {
        let (name, force) = read_name::<T>(params)?;
        let mut live = self.live();
        let config = live.current();
        let Some(object) = find::<T>(T::Group::of(config), &name) else {
            return Err(missing::<T>(config, &name));
        };
        let users = T::users(config, &name);
        if !users.is_empty() {
            return Err(Failure::invalid(format!(
                "{} {name} is named by {} {}; give them another one first",
                T::WORD,
                T::USERS,
                list(&users)
            )));
        }
        self.unless_lost(force, object, None)?;
        self.put::<T>(&mut live, name.clone(), None)?;
        Ok(self.done(Name { name }))
    }

    /// Refuses a change of an object by which hosts would lose something, unless it is
    /// forced.
    fn unless_lost<T: Named>(&self, force: bool, from: &T, to: Option<&T>) -> Result<(), Failure> {
        T::LOSS.map_or(Ok(()), |loss| self.unless_hurt(force, &loss(from, to)))
    }

    /// Stores an object and gives it to the target; `None` removes the object of that name.
    fn put<T: Named + Listed>(
        &self,
        live: &mut Live,
        name: String,
        object: Option<T>,
    ) -> Result<(), Failure> {
        self.change_group::<T::Group>(live, &ObjectId::of::<T>(name.clone()), |group| {
            put(T::list_mut(group), |known| known.is(&name), object);
            Ok(())
        })
    }

    /// Stores and makes a change of settings that the target takes as a whole.
    pub(super) fn change_group<G: Settable>(
        &self,
        live: &mut Live,
        object: &ObjectId,
        edit: impl FnOnce(&mut G) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut next = G::of(live.current()).clone();
        edit(&mut next)?;
        let set = |config: &mut Config| {
            G::of_mut(config).clone_from(&next);
            G::wrong(config).map_or(Ok(()), |reason| Err(Failure::invalid(reason)))
        };
        self.change(live, object, set, |engine| next.set(engine))
    }
}

/// Reads the parameters `name` and `force`, and no other.
fn read_name<T: Named + Listed>(params: &Value) -> Result<(String, bool), Failure> {
    read(params, |mut fields| {
        let name = T::read_name(&mut fields);
        let force = read_force::<T>(&mut fields);
        fields.finish();
        Some((name?, force))
    })
}

/// Takes the parameter `force`, which methods have that may take something from hosts.
fn read_force<T: Named>(fields: &mut Fields<'_>) -> bool {
    T::LOSS.is_some() && fields.value_or("force", false, boolean)
}

/// Checks that an object may be added, or take the place of `before`.
fn may_be<T: Named>(object: &T, config: &Config, before: Option<&T>) -> Result<(), Failure> {
    object.refused(config, before).map_or(Ok(()), |reason| Err(Failure::invalid(reason)))
}

/// Makes the failure of an object that does not exist.
fn missing<T: Named + Listed>(config: &Config, name: &str) -> Failure {
    let known = list(&T::known(T::Group::of(config)));
    Failure::not_found(format!("there is no {} {name}; there are: {known}", T::WORD))
}
