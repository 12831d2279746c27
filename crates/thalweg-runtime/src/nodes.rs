//! NUMA nodes: memory is near some processors and far from others, so a worker stays with those of one node, and with it the tasks
//! whose states it has touched.

use std::{io, path::Path};

/// The processors that this process may use, node by node; all in one where the machine does not say more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes(Vec<Vec<usize>>);

impl Nodes {
    /// Those of this machine.
    pub fn of_machine() -> Self {
        Self::read(Path::new("/sys/devices/system/node"), &system::allowed())
    }

    /// All processors in one node.
    pub fn one() -> Self {
        Self(vec![Vec::new()])
    }

    /// So many, all with the processors that the first threads of a test may use.
    #[cfg(test)]
    pub fn made_up(count: usize) -> Self {
        Self(vec![system::allowed()[..1].to_vec(); count])
    }

    /// Those that a folder names, as Linux does, as far as they are allowed.
    fn read(folder: &Path, allowed: &[usize]) -> Self {
        let Ok(entries) = folder.read_dir() else { return Self::one() };
        let number = |name: &str| name.strip_prefix("node")?.parse::<usize>().ok();
        let mut folders: Vec<_> =
            entries.flatten().filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path()))).collect();
        folders.sort();
        let processors = |folder: &Path| {
            let listed = listed(&std::fs::read_to_string(folder.join("cpulist")).ok()?)?;
            Some(listed.into_iter().filter(|processor| allowed.contains(processor)).collect::<Vec<_>>())
        };
        let nodes: Option<Vec<_>> = folders.iter().map(|(_, folder)| processors(folder)).collect();
        let mut nodes = nodes.unwrap_or_default();
        // Some have memory alone.
        nodes.retain(|processors| !processors.is_empty());
        if nodes.len() > 1 { Self(nodes) } else { Self::one() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The node of one of so many workers or instances: each node has as many of them as it has of the processors, and neighbours are
    /// together.
    pub fn of(&self, number: usize, all: usize) -> usize {
        let sizes = self.0.iter().map(|processors| processors.len().max(1));
        let place = number * sizes.clone().sum::<usize>() / all.max(1);
        let ends = sizes.scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        ends.take_while(|end| *end <= place).count().min(self.count() - 1)
    }

    /// Keeps the calling thread on the processors of a node, if there are several.
    ///
    /// Errors: what the system says.
    pub fn stay(&self, node: usize) -> io::Result<()> {
        if self.count() > 1 { system::stay(&self.0[node]) } else { Ok(()) }
    }
}

/// Numbers as Linux lists them: `0-3,8,10-11`.
fn listed(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        numbers.extend(from.parse().ok()?..=to.parse::<usize>().ok()?);
    }
    Some(numbers)
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    /// The processors that the calling thread may use.
    pub fn allowed() -> Vec<usize> {
        let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|processor| set.is_set(*processor)).collect()
    }

    pub fn stay(processors: &[usize]) -> io::Result<()> {
        let mut set = CpuSet::new();
        processors.iter().for_each(|processor| set.set(*processor));
        Ok(sched_setaffinity(None, &set)?)
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    pub fn allowed() -> Vec<usize> {
        Vec::new()
    }

    pub fn stay(_: &[usize]) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(listed("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(listed("\n"), Some(vec![]), "a node of memory alone");
        assert_eq!(listed("0-x"), None);
    }

    #[test]
    fn a_folder_tells_the_nodes_and_what_is_not_allowed_is_left_out() {
        let folder = std::env::temp_dir().join(format!("thalweg-nodes-{}", std::process::id()));
        let lists = [("node0", "0-3\n"), ("node1", "4-7\n"), ("node10", "\n"), ("possible", "0-1\n")];
        for (name, list) in lists {
            std::fs::create_dir_all(folder.join(name)).unwrap();
            std::fs::write(folder.join(name).join("cpulist"), list).unwrap();
        }
        let read = |allowed: &[usize]| Nodes::read(&folder, allowed);
        let found = [read(&[0, 1, 2, 3, 4, 5, 6, 7]), read(&[1, 4, 5]), read(&[4, 5])];
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found[0], Nodes(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]));
        assert_eq!(found[1], Nodes(vec![vec![1], vec![4, 5]]));
        assert_eq!(found[2], Nodes::one());
        assert_eq!(read(&[0]), Nodes::one(), "there is no such folder");
    }

    #[test]
    fn nodes_have_their_share_and_neighbours_are_together() {
        let shares = |nodes: &Nodes, all: usize| (0..all).map(|number| nodes.of(number, all)).collect::<Vec<_>>();
        let two = Nodes(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]);
        assert_eq!(shares(&two, 1), [0]);
        assert_eq!(shares(&two, 2), [0, 1]);
        assert_eq!(shares(&two, 5), [0, 0, 0, 1, 1]);
        assert_eq!(shares(&Nodes(vec![vec![0], vec![1, 2, 3]]), 8), [0, 0, 1, 1, 1, 1, 1, 1]);
        assert_eq!(shares(&Nodes::one(), 3), [0, 0, 0]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_stays_where_it_is_told_to() {
        let allowed = system::allowed();
        let (first, last) = (allowed[0], allowed[allowed.len() - 1]);
        let nodes = Nodes(vec![vec![first], vec![last]]);
        let stays = move |node| {
            nodes.stay(node).unwrap();
            system::allowed()
        };
        let stays_of = |node| {
            std::thread::spawn({
                let stays = stays.clone();
                move || stays(node)
            })
            .join()
            .unwrap()
        };
        assert_eq!((stays_of(0), stays_of(1)), (vec![first], vec![last]));
        assert_eq!(system::allowed(), allowed, "other threads go where they went");
    }
}
