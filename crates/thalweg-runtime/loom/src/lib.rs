//! Does a task ever sleep while something waits for it? All interleavings of senders and a worker, with up to three switches that
//! nobody had to make, say no.
#![cfg(all(loom, test))]

#[path = "../../src/alarm.rs"]
mod alarm;

use std::sync::atomic::Ordering::{Acquire, Release};

use loom::{
    sync::{Arc, Condvar, Mutex, atomic::AtomicUsize},
    thread,
};

use alarm::Alarm;

/// A task, what waits for it, and a queue that it is in or not.
struct Model {
    alarm: Alarm,
    /// How many things each sender has put in, as a pipe counts them: a plain store, and a plain load at the other end.
    there: Vec<AtomicUsize>,
    queue: Mutex<usize>,
    changed: Condvar,
}

impl Model {
    fn send(&self, sender: usize, count: usize) {
        self.there[sender].store(count, Release);
        if self.alarm.wake() {
            self.enqueue();
        }
    }

    fn enqueue(&self) {
        let mut queue = self.queue.lock().unwrap();
        *queue += 1;
        assert_eq!(*queue, 1, "a task is in the queue once");
        self.changed.notify_one();
    }

    /// Runs the task until it has found so much. If a wake-up is lost, this waits for ever, which the model reports.
    fn work(&self, expected: usize) {
        loop {
            let mut queue = self.queue.lock().unwrap();
            while *queue == 0 {
                queue = self.changed.wait(queue).unwrap();
            }
            *queue -= 1;
            drop(queue);
            self.alarm.run();
            if self.there.iter().map(|there| there.load(Acquire)).sum::<usize>() == expected {
                return;
            }
            if !self.alarm.sleep() {
                self.enqueue();
            }
        }
    }
}

fn check(senders: usize, each: usize) {
    let mut builder = loom::model::Builder::new();
    // More switches between threads that could go on find nothing more, and take minutes.
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let there = (0..senders).map(|_| AtomicUsize::new(0)).collect();
        let model = Arc::new(Model { alarm: Alarm::awake(), there, queue: Mutex::new(1), changed: Condvar::new() });
        for sender in 0..senders {
            let model = Arc::clone(&model);
            thread::spawn(move || (1..=each).for_each(|count| model.send(sender, count)));
        }
        model.work(senders * each);
    });
}

#[test]
fn no_wake_up_is_lost_with_one_sender() {
    check(1, 2);
}

#[test]
fn no_wake_up_is_lost_with_two_senders() {
    check(2, 1);
}
