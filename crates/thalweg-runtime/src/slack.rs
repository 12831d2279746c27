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
    /// Whether it was told of a sender that it is not waited for.
    is_told: Vec<bool>,
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
    pub fn new(senders: usize, most: Linger) -> Self {
        Self { most, since: vec![None; senders], is_told: vec![false; senders] }
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

    /// Says that a sender is not waited for.
    pub fn tell(&mut self, sender: usize, gather: &str) {
        let silence = format!(
            "{gather}: instance {sender} has said nothing for {:?} while rows waited for it: they go on until it does",
            self.most.most
        );
        // The first time tells that the order of rows may now depend on the clock.
        match std::mem::replace(&mut self.is_told[sender], true) {
            false => tracing::warn!("{silence}"),
            true => tracing::info!("{silence}"),
        }
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
        let mut slack = Slack::new(3, Linger { most: Duration::from_millis(10), clock: clock.clone() });
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
}
