//! How long rows that are put in order wait for a sender that says nothing.
//!
//! Only where nothing is left to be read is it looked at who is waited for. So a task that was kept from its work for long takes what has
//! come meanwhile first, and nobody seems silent who is not.

use std::time::Instant;

use crate::clock::Linger;

/// Since when rows wait for each of some senders.
pub struct Slack {
    most: Linger,
    since: Vec<Option<Instant>>,
    /// What puts rows in order, as logs name it.
    gather: String,
    /// How often rows went on without each sender.
    silences: Vec<u64>,
}

/// Whom rows have waited for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// For these long enough.
    pub enough: Vec<usize>,
    /// Then for the first of the others, too.
    pub due: Option<Instant>,
}

impl Slack {
    /// Nobody is waited for yet.
    pub fn new(senders: usize, most: Linger, gather: &str) -> Self {
        Self { most, since: vec![None; senders], gather: gather.to_string(), silences: vec![0; senders] }
    }

    /// A sender has said something: rows that still wait for it begin to do so now.
    pub fn hear(&mut self, sender: usize) {
        self.since[sender] = None;
    }

    /// Nothing is there to be read, and rows wait for these senders.
    pub fn wait(&mut self, awaited: &[usize]) -> Waited {
        let now = self.most.clock.now();
        let mut waited = Waited::default();
        for (sender, since) in self.since.iter_mut().enumerate() {
            if !awaited.contains(&sender) {
                *since = None;
                continue;
            }
            let due = *since.get_or_insert(now) + self.most.most;
            if due > now {
                waited.due = Some(waited.due.map_or(due, |first| first.min(due)));
                continue;
            }
            *since = None;
            waited.enough.push(sender);
        }
        waited
    }

    /// A sender is not waited for.
    pub fn pass_over(&mut self, sender: usize) {
        let silence = format!(
            "{}: instance {sender} has said nothing for {:?} while rows waited for it: they go on until it does",
            self.gather, self.most.most
        );
        // The first time tells that the order of rows may now depend on the clock; how often it does is told in the end.
        match self.count(sender) {
            1 => tracing::warn!("{silence}"),
            _ => tracing::debug!("{silence}"),
        }
    }

    /// Rows go on without a sender; returns how often they have, without any.
    fn count(&mut self, sender: usize) -> u64 {
        self.silences[sender] += 1;
        self.silences.iter().sum()
    }

    /// How often rows went on without somebody, if they did more than once.
    fn sum(&self) -> Option<String> {
        let times: u64 = self.silences.iter().sum();
        let (silent, all) = (self.silences.iter().filter(|times| **times > 0).count(), self.silences.len());
        (times > 1).then(|| {
            format!("{}: rows went on {times} times without waiting, for {silent} of {all} instances", self.gather)
        })
    }
}

impl Drop for Slack {
    fn drop(&mut self) {
        self.sum().into_iter().for_each(|sum| tracing::warn!("{sum}"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_sender_is_waited_for_as_long_as_it_says_nothing_and_no_longer_than_the_slack() {
        let clock = Clock::simulated();
        let began = clock.now();
        let at = |ms: u64| began + Duration::from_millis(ms);
        let mut slack = Slack::new(3, Linger { most: Duration::from_millis(10), clock: clock.clone() }, "Gather");
        let none = |due: u64| Waited { enough: vec![], due: Some(at(due)) };
        assert_eq!(slack.wait(&[]), Waited::default());
        clock.move_to(at(100));
        assert_eq!(slack.wait(&[1]), none(110), "before, nothing waited for it");
        clock.move_to(at(104));
        assert_eq!(slack.wait(&[0, 1]), none(110));
        slack.hear(1);
        assert_eq!(slack.wait(&[0, 1]), none(114));
        clock.move_to(at(114));
        assert_eq!(slack.wait(&[0, 1]), Waited { enough: vec![0, 1], due: None });
        // Whom rows do not wait for any more, and then do again, has as long as before.
        assert_eq!(slack.wait(&[2]), none(124));
        clock.move_to(at(120));
        slack.wait(&[]);
        assert_eq!(slack.wait(&[2]), none(130));
    }

    #[test]
    fn what_went_on_without_several_instances_is_told_once_and_summed_in_the_end() {
        let linger = Linger { most: Duration::from_millis(10), clock: Clock::simulated() };
        let mut slack = Slack::new(3, linger, "Gather before Sink 4");
        assert_eq!(slack.count(2), 1, "this is told");
        assert_eq!(slack.sum(), None, "nothing is to be added");
        assert_eq!((slack.count(0), slack.count(2)), (2, 3), "these are not");
        let sum = "Gather before Sink 4: rows went on 3 times without waiting, for 2 of 3 instances";
        assert_eq!(slack.sum().as_deref(), Some(sum));
    }
}
