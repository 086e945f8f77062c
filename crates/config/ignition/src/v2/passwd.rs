//! Up-conversion of users and groups from spec 2.x to spec 3.0.

use std::collections::HashSet;

use super::up::UpConversion;
use super::{USER_ZEROES, unset_zeroes};
use crate::node::{Map, Node, quote};
use crate::problem::PathRef;
use crate::version::Version;

impl<'t> UpConversion<'_> {
    pub(super) fn passwd(&mut self, mut section: Node<'t>) -> Node<'t> {
        let place = PathRef::ROOT.key("passwd");
        if let Some(users) = section.take("users") {
            let origin = users.origin;
            let user = self.merge_core_users(users.into_list(), &place.key("users"));
            section.set("users", Node::list_at(user.into_iter().collect(), origin));
        }
        section.list_of_mut("groups").iter_mut().for_each(|group| unset_zeroes(group, &["passwordHash", "system"]));
        section
    }

    /// All entries of `core` become the last one, with the keys of all.
    fn merge_core_users(&mut self, users: Vec<Node<'t>>, place: &PathRef<'_>) -> Option<Node<'t>> {
        for (index, user) in users.iter().enumerate() {
            if user.text_of("name") != "core" {
                let message = format!(
                    "unexpected user {}: only the core user is supported in a 2.x config",
                    quote(user.text_of("name"))
                );
                let here = place.index(index);
                self.report.error(&here.key("name"), user.get("name").unwrap_or(user), "v2-user", message);
            }
            if let Some(create) = user.get("create") {
                self.report.warn(
                    &place.index(index).key("create"),
                    create,
                    "v2-dropped",
                    "create is dropped: version 3 has no such field",
                );
            }
        }
        let mut users = users.into_iter().enumerate().rev();
        let (_, mut user) = users.next()?;
        let keys = user.take("sshAuthorizedKeys");
        let mut origin = keys.as_ref().map(|keys| keys.origin);
        let mut keys = keys.map(Node::into_list).unwrap_or_default();
        for (index, mut earlier) in users {
            let more = earlier.take("sshAuthorizedKeys");
            origin = origin.or(more.as_ref().map(|more| more.origin));
            keys.extend(more.map(Node::into_list).unwrap_or_default());
            let lost: Vec<&str> = earlier
                .as_map()
                .into_iter()
                .flat_map(Map::iter)
                .map(|(key, _)| key)
                .filter(|key| *key != "name")
                .collect();
            if !lost.is_empty() {
                let message = format!(
                    "core is defined several times: {} of this one is dropped, its SSH keys are kept",
                    lost.join(", ")
                );
                self.report.warn(&place.index(index), &earlier, "v2-dropped", message);
            }
        }
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(key.as_str().unwrap_or_default().to_owned()));
        let map = user.as_map_mut()?;
        if let Some(origin) = origin {
            map.set("sshAuthorizedKeys", Node::list_at(keys, origin));
        }
        map.remove("create");
        unset_zeroes(&mut user, &USER_ZEROES);
        if self.version == Version::V2_0 {
            // 2.0.0 does not distinguish an empty hash from none.
            unset_zeroes(&mut user, &["passwordHash"]);
        }
        Some(user)
    }
}
