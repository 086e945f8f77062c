//! Port owner: the process that listens on a port, for error messages; none if /proc does not show it.

use std::fs;

/// The process that listens on a port of this machine, with its name.
pub fn of(port: u16) -> Option<String> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let processes = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbered = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbered.into_iter().find_map(|process| {
        let open = fs::read_dir(format!("/proc/{process}/fd")).ok()?.filter_map(Result::ok);
        let mut links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.find(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))?;
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Some(format!("process {process} ({})", name.trim()))
    })
}

/// The sockets of a table of the kernel that listen on a port.
fn listening(table: &str, port: u16) -> Vec<String> {
    let end = format!(":{port:04X}");
    // Address, peer, state (0A listens), queues, timer, retransmits, user, timeout, inode.
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_it = words.get(1).is_some_and(|address| address.ends_with(&end)) && words.get(3) == Some(&"0A");
        is_it.then(|| words.get(9).map(|inode| (*inode).to_owned())).flatten()
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn owner_of_a_port_is_found() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = super::of(listener.local_addr().unwrap().port()).unwrap();
        assert!(found.starts_with(&format!("process {} (", std::process::id())), "{found}");
    }

    #[test]
    fn free_port_has_no_owner() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(
            super::listening("head\n 0: 0100007F:0050 00000000:0000 0A a b c 0 0 7 1\n", port),
            Vec::<String>::new()
        );
        assert_eq!(super::listening("head\n 0: 0100007F:0050 00000000:0000 0A a b c 0 0 7 1\n", 80), ["7"]);
    }
}
