//! [`ObjectUrl`]: parses `s3`, `gs` and `arn` URLs.
//!
//! Parts of it become parts of host names, so that each is checked against a narrow alphabet:
//! a bucket or region must not be able to lead anywhere else.

use percent_encoding::percent_decode_str;

use crate::FailureKind;

/// An object in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectUrl {
    /// `s3://…` and `arn:…:s3:…`.
    S3(S3Object),
    /// `gs://bucket/name`.
    Gs { bucket: String, key: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct S3Object {
    pub(crate) container: S3Container,
    pub(crate) key: String,
    pub(crate) version: Option<String>,
}

/// What holds an S3 object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum S3Container {
    Bucket {
        partition: Partition,
        /// The region that the URL names.
        region: Option<String>,
        bucket: String,
    },
    AccessPoint {
        partition: Partition,
        region: String,
        account: String,
        name: String,
    },
}

/// A separate AWS world with its own domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    name: &'static str,
    /// What the names of its endpoints end in.
    pub(crate) domain: &'static str,
    /// Used first when the region of a bucket is not given.
    pub(crate) region: &'static str,
}

const fn partition(name: &'static str, domain: &'static str, region: &'static str) -> Partition {
    Partition { name, domain, region }
}

const PARTITIONS: [Partition; 5] = [
    partition("aws", "amazonaws.com", "us-east-1"),
    partition("aws-cn", "amazonaws.com.cn", "cn-north-1"),
    partition("aws-us-gov", "amazonaws.com", "us-gov-west-1"),
    partition("aws-iso", "c2s.ic.gov", "us-iso-east-1"),
    partition("aws-iso-b", "sc2s.sgov.gov", "us-isob-east-1"),
];

const S3_FORMS: &str = "expected s3://bucket/key, optionally with ?versionId=";
const GS_FORMS: &str = "expected gs://bucket/object";
const ARN_FORMS: &str = "expected arn:partition:s3:::bucket/key or \
                         arn:partition:s3:region:account:accesspoint/name/object/key, optionally \
                         with ?versionId=";

// === impl ObjectUrl ===

impl ObjectUrl {
    /// Reads a URL, or returns `None` if it is of another scheme.
    pub(crate) fn parse(url: &str) -> Option<Result<Self, FailureKind>> {
        let (scheme, rest) = url.split_once(':')?;
        match scheme.to_ascii_lowercase().as_str() {
            "s3" => Some(parse_s3(rest)),
            "gs" => Some(parse_gs(rest)),
            "arn" => Some(parse_arn(rest)),
            _ => None,
        }
    }

    /// Whether `compression: gzip` may go with it. Compat: Ignition forbids it for S3.
    pub(crate) fn allows_gzip(&self) -> bool {
        matches!(self, Self::Gs { .. })
    }
}

fn parse_s3(rest: &str) -> Result<ObjectUrl, FailureKind> {
    let wanted = |what: &str| unusable(what, S3_FORMS);
    let (rest, version) = split_version(rest).map_err(wanted)?;
    let (bucket, key) = bucket_and_key(rest).map_err(wanted)?;
    Ok(ObjectUrl::S3(S3Object {
        container: S3Container::Bucket { partition: PARTITIONS[0], region: None, bucket },
        key,
        version,
    }))
}

fn parse_gs(rest: &str) -> Result<ObjectUrl, FailureKind> {
    let wanted = |what: &str| unusable(what, GS_FORMS);
    let (rest, _) = split_version(rest).map_err(wanted)?;
    let (bucket, key) = bucket_and_key(rest).map_err(wanted)?;
    Ok(ObjectUrl::Gs { bucket, key })
}

/// Compat: Ignition `internal/resource`: six fields; the last is `bucket/key` or
/// `accesspoint/name/object/key`. Its key is taken literally, without percent-decoding.
fn parse_arn(rest: &str) -> Result<ObjectUrl, FailureKind> {
    let wanted = |what: &str| unusable(what, ARN_FORMS);
    let (rest, version) = split_version(rest).map_err(wanted)?;
    let fields: Vec<&str> = rest.splitn(5, ':').collect();
    let [name, service, region, account, resource] = fields[..] else {
        return Err(wanted("it has too few fields"));
    };
    if service != "s3" {
        return Err(wanted("it does not name an s3 object"));
    }
    let partition = *PARTITIONS
        .iter()
        .find(|partition| partition.name == name)
        .ok_or_else(|| wanted("its partition is unknown"))?;
    if !region.is_empty() && !is_region(region) {
        return Err(wanted("its region is invalid"));
    }
    let (first, rest) = resource.split_once('/').ok_or_else(|| wanted("it names no object"))?;
    if first != "accesspoint" {
        let region = (!region.is_empty()).then(|| region.to_owned());
        return Ok(ObjectUrl::S3(S3Object {
            container: S3Container::Bucket { partition, region, bucket: bucket(first).map_err(wanted)? },
            key: key(rest).map_err(wanted)?,
            version,
        }));
    }
    let (point, object) = rest.split_once('/').ok_or_else(|| wanted("it names no object"))?;
    let object = object.strip_prefix("object/").ok_or_else(|| wanted("its access point is not followed by object/"))?;
    if region.is_empty() {
        return Err(wanted("access points of several regions are not supported; name one with a region"));
    }
    if account.len() != 12 || !account.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wanted("its account is not twelve digits"));
    }
    let is_point = (3..=50).contains(&point.len())
        && !point.starts_with('-')
        && !point.ends_with('-')
        && point.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_point {
        return Err(wanted("its access point name is invalid"));
    }
    Ok(ObjectUrl::S3(S3Object {
        container: S3Container::AccessPoint {
            partition,
            region: region.to_owned(),
            account: account.to_owned(),
            name: point.to_owned(),
        },
        key: key(object).map_err(wanted)?,
        version,
    }))
}

/// Takes off fragment and query; of the query only `versionId` has a meaning.
fn split_version(rest: &str) -> Result<(&str, Option<String>), &'static str> {
    let rest = rest.split('#').next().unwrap_or(rest);
    let Some((rest, query)) = rest.split_once('?') else {
        return Ok((rest, None));
    };
    let mut parameters = query.split('&').filter_map(|one| one.split_once('='));
    match parameters.find(|(name, _)| *name == "versionId") {
        None => Ok((rest, None)),
        Some((_, "")) => Err("its versionId is empty"),
        Some((_, version)) => {
            let version = decode(version).ok_or("its versionId is not text")?;
            Ok((rest, Some(version)))
        }
    }
}

fn bucket_and_key(rest: &str) -> Result<(String, String), &'static str> {
    let rest = rest.strip_prefix("//").ok_or("it has no bucket")?;
    let (name, path) = rest.split_once('/').ok_or("it names no object")?;
    let path = decode(path).ok_or("its key is not text")?;
    // As for Ignition, further slashes between bucket and key do not count.
    Ok((bucket(name)?, key(path.trim_start_matches('/'))?))
}

/// Wider than what may be created today (older buckets have capitals and underscores), narrower
/// than what could change a URL.
fn bucket(name: &str) -> Result<String, &'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_bucket = (3..=222).contains(&name.len())
        && name.split('.').all(|label| !label.is_empty() && label.bytes().all(is_plain));
    is_bucket.then(|| name.to_owned()).ok_or("its bucket name is invalid")
}

/// A key that survives the way through an HTTP path: the client drops empty segments at the end
/// and cannot send dots between slashes.
fn key(key: &str) -> Result<String, &'static str> {
    if key.is_empty() {
        return Err("it names no object");
    }
    let is_segment =
        |segment: &str| !matches!(segment, "" | "." | "..") && !segment.chars().any(|c| c.is_ascii_control());
    key.split('/')
        .all(is_segment)
        .then(|| key.to_owned())
        .ok_or("its key has an empty, dotted or unprintable part, which cannot be requested")
}

pub(crate) fn is_region(region: &str) -> bool {
    (1..=32).contains(&region.len())
        && region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn decode(text: &str) -> Option<String> {
    let decoded = percent_decode_str(text).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

fn unusable(what: &str, forms: &str) -> FailureKind {
    FailureKind::Url { reason: format!("{what}; {forms}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn s3(url: &str) -> S3Object {
        match ObjectUrl::parse(url) {
            Some(Ok(ObjectUrl::S3(object))) => object,
            other => panic!("{url}: {other:?}"),
        }
    }

    #[rstest]
    #[case("s3://bucket/key", "key", None)]
    #[case("s3://bucket/a/b%20c", "a/b c", None)]
    #[case("S3://bucket//key?versionId=v%2F1", "key", Some("v/1"))]
    #[case("s3://bucket/key?x=1&versionId=2#f", "key", Some("2"))]
    #[case("arn:aws:s3:::bucket/a/b%20c?versionId=3", "a/b%20c", Some("3"))]
    #[case("arn:aws:s3:::bucket/a:b", "a:b", None)]
    fn bucket_key_and_version_are_found(#[case] url: &str, #[case] key: &str, #[case] version: Option<&str>) {
        let object = s3(url);
        let S3Container::Bucket { bucket, region, .. } = object.container else {
            panic!("{object:?}");
        };
        assert_eq!((bucket.as_str(), region), ("bucket", None));
        assert_eq!((object.key.as_str(), object.version.as_deref()), (key, version));
    }

    #[test]
    fn partition_and_region_of_an_arn_are_kept() {
        let S3Container::Bucket { partition, region, .. } =
            s3("arn:aws-cn:s3:cn-northwest-1:123456789012:bucket/key").container
        else {
            panic!();
        };
        assert_eq!(partition.domain, "amazonaws.com.cn");
        assert_eq!(region.as_deref(), Some("cn-northwest-1"));
    }

    #[test]
    fn access_points_are_found() {
        let object = s3("arn:aws:s3:eu-west-1:123456789012:accesspoint/my-point/object/a/b?versionId=1");
        assert_eq!((object.key.as_str(), object.version.as_deref()), ("a/b", Some("1")));
        let S3Container::AccessPoint { region, account, name, .. } = object.container else {
            panic!("{object:?}");
        };
        assert_eq!((region.as_str(), account.as_str()), ("eu-west-1", "123456789012"));
        assert_eq!(name, "my-point");
    }

    #[test]
    fn gs_urls_are_read_and_may_be_packed() {
        let object = ObjectUrl::parse("gs://bucket/a/b%20c").unwrap().unwrap();
        assert!(object.allows_gzip());
        let (bucket, key) = ("bucket".to_owned(), "a/b c".to_owned());
        assert_eq!(object, ObjectUrl::Gs { bucket, key });
        let object = ObjectUrl::parse("s3://bucket/key").unwrap().unwrap();
        assert!(!object.allows_gzip());
    }

    #[rstest]
    #[case("s3:bucket/key")]
    #[case("s3://bucket")]
    #[case("s3://bucket/")]
    #[case("s3:///key")]
    #[case("s3://user@evil/key")]
    #[case("s3://evil:80/key")]
    #[case("s3://bucket/../key")]
    #[case("s3://bucket/%2e%2e/key")]
    #[case("s3://bucket/a//b")]
    #[case("s3://bucket/dir/")]
    #[case("s3://bucket/a%0ab")]
    #[case("s3://bucket/%ff")]
    #[case("s3://bucket/key?versionId=")]
    #[case("s3://b..c/key")]
    #[case("gs://bucket")]
    #[case("arn:aws:s3:::bucket")]
    #[case("arn:aws:s3")]
    #[case("arn:aws:ec2:::bucket/key")]
    #[case("arn:mars:s3:::bucket/key")]
    #[case("arn:aws:s3:evil.test/#:1:bucket/key")]
    #[case("arn:aws:s3:evil.test:123456789012:accesspoint/point/object/k")]
    #[case("arn:aws:s3::123456789012:accesspoint/m.mrap/object/k")]
    #[case("arn:aws:s3:eu-west-1:evil:accesspoint/point/object/k")]
    #[case("arn:aws:s3:eu-west-1:123456789012:accesspoint/evil.test/object/k")]
    #[case("arn:aws:s3:eu-west-1:123456789012:accesspoint/point/k")]
    #[case("arn:aws:s3:eu-west-1:123456789012:accesspoint/point/object/")]
    fn other_forms_are_refused_with_the_accepted_ones(#[case] url: &str) {
        let failure = ObjectUrl::parse(url).unwrap().unwrap_err().to_string();
        assert!(failure.contains("expected "), "{failure}");
    }

    proptest! {
        #[test]
        fn any_url_text_is_read_or_refused(text in "(s3|gs|arn):.{0,40}") {
            let _ = ObjectUrl::parse(&text);
        }
    }
}
