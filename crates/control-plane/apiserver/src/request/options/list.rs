//! Options of list, watch and deletecollection.

use seaworthy_schema::Cause;

use crate::response::status::Failure;
use crate::selector::{FieldSelector, LabelSelector};

use super::{Query, invalid};

/// `resourceVersionMatch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevisionMatch {
    /// The state at exactly that revision.
    Exact,
    /// That revision or a newer one.
    NotOlderThan,
}

/// Options of a list or watch.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// The requested revision.
    pub revision: Option<u64>,
    pub revision_match: Option<RevisionMatch>,
    /// None for all objects.
    pub limit: Option<usize>,
    /// The token of an earlier page.
    pub continue_token: Option<String>,
    /// Seconds until a watch ends by itself.
    pub timeout_seconds: Option<u64>,
    /// Whether the client understands bookmarks.
    pub bookmarks: bool,
    /// `sendInitialEvents`: whether a watch begins with the present state.
    pub initial_events: Option<bool>,
}

impl ListOptions {
    /// Parses and validates the options of a list or watch.
    pub fn read(query: &Query, is_watch: bool) -> Result<ListOptions, Failure> {
        let selector = |error: crate::SelectorError| Failure::bad_request(error.to_string());
        let limit = query.number("limit")?.unwrap_or(0);
        let timeout = query.number("timeoutSeconds")?;
        let version = query.get("resourceVersion").unwrap_or_default();
        let continue_token = query.get("continue").filter(|token| !token.is_empty()).map(str::to_owned);
        let initial_events = query.flag("sendInitialEvents");
        let match_word = query.get("resourceVersionMatch").unwrap_or_default();

        let causes = validate(match_word, version, initial_events, is_watch, continue_token.is_some());
        if !causes.is_empty() {
            return Err(invalid("ListOptions", causes));
        }
        let revision = match version {
            "" => None,
            digits => Some(digits.parse().map_err(|_| {
                let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
                let why = if is_number { "value out of range" } else { "invalid syntax" };
                let why =
                    format!("resourceVersion: Invalid value: {digits:?}: strconv.ParseUint: parsing {digits:?}: {why}");
                match is_watch {
                    // Compat: the real server answers 500.
                    true => Failure::unexplained(why),
                    false => Failure::bad_request(format!("invalid resource version: {why}")),
                }
            })?),
        };
        Ok(ListOptions {
            labels: LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).map_err(selector)?,
            fields: FieldSelector::parse(query.get("fieldSelector").unwrap_or_default()).map_err(selector)?,
            revision,
            revision_match: match match_word {
                "Exact" => Some(RevisionMatch::Exact),
                "NotOlderThan" => Some(RevisionMatch::NotOlderThan),
                _ => None,
            },
            limit: usize::try_from(limit).ok().filter(|limit| *limit > 0),
            continue_token,
            timeout_seconds: timeout.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0),
            bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            initial_events,
        })
    }
}

const NOT_CONTINUED: &str = "resourceVersionMatch is forbidden when continue is provided";

/// Invalid combinations, in the order in which kube-apiserver checks them.
fn validate(
    match_word: &str,
    version: &str,
    initial_events: Option<bool>,
    is_watch: bool,
    is_continued: bool,
) -> Vec<Cause> {
    const FIELD: &str = "resourceVersionMatch";
    let mut causes = Vec::new();
    if is_watch {
        if !match_word.is_empty() && initial_events.is_none() {
            causes.push(Cause::forbidden(
                FIELD,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if initial_events.is_some() && match_word != "NotOlderThan" {
            causes.push(Cause::forbidden(
                FIELD,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            ));
            if !match_word.is_empty() {
                causes.push(Cause::not_supported(FIELD, match_word, &["NotOlderThan"]));
            }
        }
        if is_continued {
            causes.push(Cause::forbidden(FIELD, NOT_CONTINUED));
        }
        return causes;
    }
    if initial_events.is_some() {
        causes.push(Cause::forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"));
    }
    if match_word.is_empty() {
        return causes;
    }
    if version.is_empty() {
        causes.push(Cause::forbidden(FIELD, "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    }
    if is_continued {
        causes.push(Cause::forbidden(FIELD, NOT_CONTINUED));
    }
    match match_word {
        "Exact" if version == "0" => {
            causes
                .push(Cause::forbidden(FIELD, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""));
        }
        "Exact" | "NotOlderThan" => {}
        other => causes.push(Cause::not_supported(FIELD, other, &["Exact", "NotOlderThan", ""])),
    }
    causes
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn read(query: &str, is_watch: bool) -> Result<ListOptions, Failure> {
        ListOptions::read(&Query::parse(Some(query)), is_watch)
    }

    #[rstest]
    #[case("resourceVersionMatch=Exact", false, 422)]
    #[case("resourceVersionMatch=Exact&resourceVersion=0", false, 422)]
    #[case("resourceVersionMatch=Nearly&resourceVersion=4", false, 422)]
    #[case("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", false, 422)]
    #[case("resourceVersionMatch=NotOlderThan", true, 422)]
    #[case("sendInitialEvents=true", true, 422)]
    #[case("timeoutSeconds=soon", true, 400)]
    #[case("labelSelector=a+in+b", true, 400)]
    #[case("resourceVersion=new", false, 400)]
    #[case("resourceVersion=new", true, 500)]
    fn combination_without_a_meaning_is_refused(#[case] query: &str, #[case] is_watch: bool, #[case] code: u16) {
        assert_eq!(read(query, is_watch).unwrap_err().code, code);
    }

    #[test]
    fn no_limit_and_a_limit_of_nothing_are_the_same() {
        assert_eq!(read("limit=0", false).unwrap().limit, None);
        assert_eq!(read("limit=2", false).unwrap().limit, Some(2));
        assert_eq!(read("", false).unwrap().limit, None);
    }

    #[test]
    fn streaming_list_names_what_it_needs() {
        let query = "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
        let options = read(query, true).unwrap();
        assert_eq!((options.initial_events, options.bookmarks), (Some(true), true));
    }
}
