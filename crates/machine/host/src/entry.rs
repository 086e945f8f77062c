//! What stands at a path, and who somebody is.

/// What stands at a path; links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Permissions with the special bits, without the kind.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The length of a regular file in bytes; 0 for everything else.
    pub size: u64,
}

/// What something at a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, with where it points.
    Link(String),
    /// A device, a socket, a pipe.
    Other,
}

/// How something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions with the special bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

impl Attributes {
    /// What belongs to root.
    pub const fn of_root(mode: u32) -> Self {
        Attributes { mode, uid: 0, gid: 0 }
    }
}

/// An account.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its first group.
    pub gid: u32,
    /// Its home.
    pub home: String,
    /// The hash of its password as it stands in the shadow file; `*` or one that begins with `!` lets nobody in.
    pub password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hash is a secret: it must not reach a log by way of a debug print.
        f.debug_struct("User").field("uid", &self.uid).field("gid", &self.gid).field("home", &self.home).finish()
    }
}
