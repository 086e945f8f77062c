//! Mappings: parts of the address space, as /proc/self/maps lists them.

use std::fs;
use std::io;

/// One line of `/proc/self/maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: usize,
    /// Length in bytes.
    pub length: usize,
    /// What may be done with it, as in `r-xp`.
    pub permissions: String,
    /// Where in its file it begins.
    pub offset: u64,
    /// The device that its file is on, as in `fd:00`.
    pub device: String,
    /// The number of its file; 0 where there is none.
    pub inode: u64,
}

impl Mapping {
    /// All of this process.
    ///
    /// # Errors
    ///
    /// If /proc/self/maps cannot be read.
    pub fn of_this_process() -> io::Result<Vec<Mapping>> {
        Ok(fs::read_to_string("/proc/self/maps")?.lines().filter_map(Mapping::parse).collect())
    }

    /// Parses a line of `/proc/self/maps`; `None` if it is malformed.
    pub fn parse(line: &str) -> Option<Mapping> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let permissions = words.next()?.to_owned();
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let device = words.next()?.to_owned();
        let inode = words.next()?.parse().ok()?;
        Some(Mapping { start, length: end.checked_sub(start)?, permissions, offset, device, inode })
    }

    /// The code mapping that contains an address, and the constants at the beginning of the same file if they are right before it:
    /// they are read-only, so their pages have the file's content.
    ///
    /// Read-only mappings after the code are left out: constants that hold addresses are relocated at the start, so they differ from
    /// the file. So are other mappings of the same file: a debugger or backtrace maps it too, and unmaps it again.
    pub fn around(all: &[Mapping], address: usize) -> Vec<Mapping> {
        let is_code = |it: &&Mapping| it.permissions == "r-xp" && it.inode != 0 && it.has(address);
        let Some(code) = all.iter().find(is_code) else { return Vec::new() };
        let is_before = |it: &&Mapping| {
            let is_same_file = (&it.device, it.inode) == (&code.device, code.inode);
            is_same_file && it.permissions == "r--p" && it.offset == 0 && it.start + it.length == code.start
        };
        all.iter().find(is_before).into_iter().chain([code]).cloned().collect()
    }

    fn has(&self, address: usize) -> bool {
        address.checked_sub(self.start).is_some_and(|offset| offset < self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::Mapping;

    const CODE: &str = "55f0c0e2f000-55f0c3827000 r-xp 00dac000 fd:00 5646377     /usr/bin/seaworthy";

    #[test]
    fn line_of_maps_is_parsed() {
        let mapping = Mapping::parse(CODE).unwrap();
        assert_eq!(mapping.start, 0x55f0_c0e2_f000);
        assert_eq!(mapping.length, 0x29f_8000);
        assert_eq!((mapping.permissions.as_str(), mapping.inode), ("r-xp", 5_646_377));
        assert_eq!((mapping.offset, mapping.device.as_str()), (0xdac_000, "fd:00"));
    }

    /// The first addresses of the mappings that are released.
    fn around(text: &str, address: usize) -> Vec<usize> {
        let all: Vec<Mapping> = text.lines().filter_map(Mapping::parse).collect();
        Mapping::around(&all, address).iter().map(|mapping| mapping.start).collect()
    }

    #[test]
    fn only_the_programs_own_code_and_the_constants_right_before_it_count() {
        let all = format!(
            "55f0c0083000-55f0c0e2f000 r--p 00000000 fd:00 5646377     /usr/bin/seaworthy\n\
             {CODE}\n\
             55f0c3827000-55f0c3927000 r--p 037a4000 fd:00 5646377     /usr/bin/seaworthy\n\
             7f0000000000-7f0000100000 r--p 00000000 fd:00 5646377     /usr/bin/seaworthy\n\
             7f0000200000-7f0000300000 r--p 00000000 fd:00 77          /etc/ld.so.cache\n\
             7f0000300000-7f0000400000 r-xp 00001000 fd:00 78          /usr/lib/libnss_files.so\n\
             7ffd4e5f9000-7ffd4e5fb000 r-xp 00000000 00:00 0           [vdso]\n"
        );
        assert_eq!(around(&all, 0x55f0_c100_0000), [0x55f0_c008_3000, 0x55f0_c0e2_f000]);
        for (what, other) in [("r-xp", "rwxp"), ("r-xp", "r-xs"), ("r-xp", "r--p"), ("5646377 ", "0 ")] {
            assert_eq!(around(&CODE.replace(what, other), 0x55f0_c100_0000), [0; 0], "{other}");
        }
        // What lies right before the code and is of another file is not the program's.
        let other = all.replacen("5646377", "77", 1);
        assert_eq!(around(&other, 0x55f0_c100_0000), [0x55f0_c0e2_f000]);
        assert_eq!(around(&all, 0x7ffd_4e5f_9000), [0; 0]);
        assert_eq!(around(&all, 0x1000), [0; 0]);
    }

    #[test]
    fn malformed_lines_are_skipped() {
        for line in ["", "x", "1-2", "2-1 r-xp 0 0:0 1", "1-2 r-xp 0 0:0 many"] {
            assert_eq!(Mapping::parse(line), None, "{line}");
        }
    }
}
