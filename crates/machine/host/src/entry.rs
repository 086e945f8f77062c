//! Directory entries with their attributes, and accounts.

/// The entry at a path; links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// Permissions with the special bits, without the file type.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// The length of a regular file in bytes; 0 for everything else.
    pub size: u64,
}

/// The type of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    Directory,
    /// A symbolic link, with its target.
    Link(String),
    /// A device, a socket, a pipe.
    Other,
}

/// Mode and owner of an entry that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions with the special bits.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

impl Attributes {
    /// Attributes of a file of root.
    pub const fn of_root(mode: u32) -> Self {
        Attributes { mode, uid: 0, gid: 0 }
    }
}

/// An account.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    pub home: String,
    /// The password hash of the shadow file; `*` or one that begins with `!` allows no login.
    pub password: String,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A hash is a secret: it must not reach a log by way of a debug print.
        f.debug_struct("User").field("uid", &self.uid).field("gid", &self.gid).field("home", &self.home).finish()
    }
}
