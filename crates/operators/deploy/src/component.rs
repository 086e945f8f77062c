//! Components: the programs of Seaworthy that run in a cluster.

/// A program of Seaworthy with rights and pods of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// Renders, rolls out, drains.
    Controllers,
    /// Gives new machines their configuration.
    Server,
    /// Brings its machine to its configuration.
    Daemon,
}

impl Component {
    pub const ALL: [Component; 3] = [Component::Controllers, Component::Server, Component::Daemon];

    /// The subcommand that runs it.
    pub fn command(self) -> &'static str {
        match self {
            Component::Controllers => "controllers",
            Component::Server => "server",
            Component::Daemon => "daemon",
        }
    }

    /// The name of its objects in the cluster.
    pub fn name(self) -> &'static str {
        match self {
            Component::Controllers => "seaworthy-controllers",
            Component::Server => "seaworthy-server",
            Component::Daemon => "seaworthy-daemon",
        }
    }

    /// Its user name for the API server. Daemons act as their nodes, so they have none of their own.
    pub fn user(self, namespace: &str) -> Option<String> {
        (self != Component::Daemon).then(|| format!("system:serviceaccount:{namespace}:{}", self.name()))
    }
}

impl std::str::FromStr for Component {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Component::ALL.into_iter().find(|component| component.command() == text);
        found.ok_or_else(|| {
            let accepted = Component::ALL.map(Component::command).join(", ");
            format!("there is no component {text:?}; expected one of {accepted}")
        })
    }
}
