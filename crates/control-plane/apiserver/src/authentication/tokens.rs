//! Static tokens, in the CSV format of kube-apiserver: `token,user,uid,"group,group"`.

use std::path::{Path, PathBuf};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use thiserror::Error;

use crate::access::Identity;

/// Tokens that do not change while the server runs.
#[derive(Default)]
pub struct StaticTokens(Vec<(String, Identity)>);

/// Error of a token file. Messages name the line but never quote the content.
#[derive(Debug, Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("token file {path}: cannot be read: {cause}; --token-auth-file takes a text file that this user can read")]
    Read { path: PathBuf, cause: std::io::Error },
    /// A line is not as it should be.
    #[error("token file {path}, line {line}: {why}; a line is: token,user,uid and, if there are any, groups in quotes")]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        why: &'static str,
    },
}

impl StaticTokens {
    /// Reads a file of tokens.
    pub fn load(path: &Path) -> Result<StaticTokens, TokenFileError> {
        let read = |cause| TokenFileError::Read { path: path.to_owned(), cause };
        StaticTokens::parse(&std::fs::read_to_string(path).map_err(read)?).map_err(|(line, why)| TokenFileError::Line {
            path: path.to_owned(),
            line,
            why,
        })
    }

    fn parse(text: &str) -> Result<StaticTokens, (usize, &'static str)> {
        let mut tokens = StaticTokens::default();
        for (at, line) in text.lines().enumerate() {
            if line.trim().is_empty() {
                continue;
            }
            let fields = split(line).ok_or((at + 1, "a quote is not closed"))?;
            let [token, user, uid, rest @ ..] = fields.as_slice() else {
                return Err((at + 1, "there are fewer than three fields"));
            };
            if token.is_empty() || user.is_empty() {
                return Err((at + 1, "token and user must not be empty"));
            }
            let groups = rest.first().map(String::as_str).unwrap_or_default();
            let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty()).map(str::to_owned);
            tokens.add(token, Identity { uid: uid.clone(), ..Identity::authenticated(user, groups) });
        }
        Ok(tokens)
    }

    pub fn add(&mut self, token: &str, identity: Identity) {
        self.0.push((token.to_owned(), identity));
    }

    /// The user of a token. Every token is compared, so that the duration reveals nothing.
    pub fn identify(&self, token: &str) -> Option<Identity> {
        let mut found = None;
        for (known, identity) in &self.0 {
            if verify_slices_are_equal(known.as_bytes(), token.as_bytes()).is_ok() {
                found = Some(identity);
            }
        }
        found.cloned()
    }
}

/// The fields of a line: commas separate, quotes hold together, a doubled quote is one.
fn split(line: &str) -> Option<Vec<String>> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        // There is always a last field: the list starts with one and only grows.
        let last = fields.last_mut()?;
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                last.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            other => last.push(other),
        }
    }
    (!is_quoted).then(|| fields.into_iter().map(|field| field.trim().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_gives_a_user_with_groups() {
        let tokens = StaticTokens::parse("secret,admin,7,\"system:masters,crew\"\n\nother,ann,8\n").unwrap_or_default();
        let admin = tokens.identify("secret").unwrap();
        assert_eq!((admin.user.as_str(), admin.uid.as_str()), ("admin", "7"));
        assert_eq!(admin.groups, ["system:masters", "crew", "system:authenticated"]);
        assert_eq!(tokens.identify("other").unwrap().groups, ["system:authenticated"]);
        assert_eq!(tokens.identify("secre"), None);
    }

    #[test]
    fn line_that_is_too_short_is_named_by_its_number_and_not_repeated() {
        let Err((line, why)) = StaticTokens::parse("a,b,c\nsecret,user") else { panic!("it was read") };
        assert_eq!((line, why), (2, "there are fewer than three fields"));
    }

    #[test]
    fn quote_that_is_not_closed_is_refused() {
        assert!(StaticTokens::parse("a,b,c,\"x").is_err());
    }
}
