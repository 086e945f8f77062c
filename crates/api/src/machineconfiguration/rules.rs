//! CEL rules that several kinds of this group share.

use kube::core::Rule;

/// The text is a DNS name of lower-case labels.
pub(crate) fn dns_subdomain() -> Rule {
    Rule::new("!format.dns1123Subdomain().validate(self).hasValue()").message(
        "must be a DNS name: lower-case letters, digits, '-' and '.', starting and ending with a letter or digit",
    )
}

/// The image is named by digest.
pub(crate) fn image_digest() -> Rule {
    Rule::new("(self.split('@').size() == 2 && self.split('@')[1].matches('^sha256:[a-f0-9]{64}$'))")
        .message("must end with '@sha256:' and 64 hexadecimal digits")
}

/// The image name before the digest has a registry host with a dot.
pub(crate) fn image_name() -> Rule {
    Rule::new(
        r"(self.split('@')[0].matches('^([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))",
    )
    .message("must name the image as host[:port][/namespace]/name, without a scheme")
}

/// The same, where the host may also be `localhost`.
pub(crate) fn image_name_or_localhost() -> Rule {
    Rule::new(
        r"(self.split('@')[0].matches('^(localhost|([a-zA-Z0-9-]+\\.)+[a-zA-Z0-9-]+)(:[0-9]{2,5})?/([a-zA-Z0-9-_]{0,61}/)?[a-zA-Z0-9-_.]*?$'))",
    )
    .message("must name the image as host[:port][/namespace]/name, without a scheme; the host is 'localhost' or has a dot")
}

/// A number that only grows.
pub(crate) fn never_decreases() -> Rule {
    Rule::new("self >= oldSelf").message("must not decrease")
}
