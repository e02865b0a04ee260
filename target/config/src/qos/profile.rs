//! `[[profile]]`: limits that many sessions have by its name.

use crate::keys::PROFILE;

use super::super::fields::Fields;
use super::super::table::{self, Written, read_already};
use super::limits::{Limits, table_with_limits};
use super::session::Session;
use super::values;

/// `[[profile]]`: values of limits. Each session that names the profile has buckets of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// `name`: the profile's name.
    pub name: String,
    /// The limits.
    pub limits: Limits,
}

table_with_limits! { Profile, PROFILE;
    "name" => with(read_already, |profile, _| Written::same(profile.name.as_str())),
    ..limits,
}

/// Reads `[[profile]]`; a setting that is left out is as in `base`. `null` takes a setting back.
pub(crate) fn profile(mut fields: Fields<'_>, base: &Profile) -> Option<Profile> {
    let name = fields.require("name", "\"gold\"", values::profile_name);
    let mut profile = base.clone();
    table::read(&mut fields, &mut profile);
    fields.finish();
    profile.name = name?.value;
    Some(profile)
}

impl Session {
    /// Returns the session's limits, with its profile's in place of unset ones.
    pub fn limits_with(&self, profiles: &[Profile]) -> Limits {
        let named = profiles.iter().find(|profile| Some(&profile.name) == self.profile.as_ref());
        named.map_or(self.limits, |profile| self.limits.or(profile.limits))
    }
}
