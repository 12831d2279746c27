//! A simulation of more cores than there are: how long they would take for tasks whose CPU time was measured.
//!
//! A task's work is cut into steps, which it does one after the other. A step begins when those who send have done the same step;
//! of all steps that can begin, a free core takes the earliest, and of these the one farthest from the sources, as the engine's
//! workers do. That is list scheduling (Graham, "Bounds on Multiprocessing Timing Anomalies"). What is left out: caches and
//! bandwidth that cores share, waking and waiting, and pipes that are full.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::tasks::Stage;

/// Into how many steps the work of each task is cut.
const STEPS: usize = 64;

/// How long so many cores take, in the unit of the tasks' work.
pub fn makespan(stages: &[Stage], cores: usize) -> f64 {
    let mut state = State::new(stages);
    let (mut free, mut now) = (cores, 0.0);
    // What runs, by when it ends: bits of positive numbers compare as the numbers do.
    let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    loop {
        while free > 0
            && let Some(task) = state.next()
        {
            state.tasks[task].is_running = true;
            let end: f64 = now + state.tasks[task].work / STEPS as f64;
            running.push(Reverse((end.to_bits(), task)));
            free -= 1;
        }
        let Some(Reverse((end, task))) = running.pop() else { return now };
        now = f64::from_bits(end);
        free += 1;
        state.finish(task);
    }
}

struct Task {
    stage: usize,
    instance: usize,
    work: f64,
    /// Steps that are done.
    done: usize,
    is_running: bool,
}

struct State<'a> {
    stages: &'a [Stage],
    tasks: Vec<Task>,
    /// The number of each stage's first task.
    first: Vec<usize>,
    /// Steps that all instances of a stage have done.
    done: Vec<usize>,
}

impl<'a> State<'a> {
    fn new(stages: &'a [Stage]) -> Self {
        let (mut tasks, mut first) = (Vec::new(), Vec::new());
        for (number, stage) in stages.iter().enumerate() {
            first.push(tasks.len());
            let task = |(instance, work): (usize, &f64)| Task {
                stage: number,
                instance,
                work: *work,
                done: 0,
                is_running: false,
            };
            tasks.extend(stage.instances.iter().enumerate().map(task));
        }
        Self { stages, tasks, first, done: vec![0; stages.len()] }
    }

    /// Which task has the earliest step that can begin, and is farthest from the sources.
    fn next(&self) -> Option<usize> {
        let ready = (0..self.tasks.len()).filter(|task| self.is_ready(&self.tasks[*task]));
        ready.min_by_key(|task| (self.tasks[*task].done, Reverse(self.tasks[*task].stage)))
    }

    fn is_ready(&self, task: &Task) -> bool {
        let has_sent = |input: &crate::tasks::Input| match input.is_forward {
            true => self.tasks[self.first[input.from] + task.instance].done > task.done,
            false => self.done[input.from] > task.done,
        };
        !task.is_running && task.done < STEPS && self.stages[task.stage].inputs.iter().all(has_sent)
    }

    fn finish(&mut self, task: usize) {
        let Task { done, is_running, stage, .. } = &mut self.tasks[task];
        (*done, *is_running) = (*done + 1, false);
        let stage = *stage;
        let mine = self.tasks[self.first[stage]..].iter().take(self.stages[stage].instances.len());
        self.done[stage] = mine.map(|task| task.done).min().unwrap_or(STEPS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tasks::Input;

    fn stage(instances: &[f64], inputs: &[(usize, bool)]) -> Stage {
        let input = |(from, is_forward): &(usize, bool)| Input { from: *from, is_forward: *is_forward };
        Stage { instances: instances.to_vec(), inputs: inputs.iter().map(input).collect() }
    }

    #[test]
    fn one_core_takes_all_work_and_many_take_the_busiest_task_and_what_fills_the_pipeline() {
        let stages = [stage(&[6.4, 6.4], &[]), stage(&[12.8], &[(0, false)])];
        assert!((makespan(&stages, 1) - 25.6).abs() < 1e-6);
        // The second stage waits for a step of the first, 0.1, and then never again.
        assert!((makespan(&stages, 64) - 12.9).abs() < 1e-6);
        let two = makespan(&stages, 2);
        assert!((12.8..13.2).contains(&two), "{two}");
    }

    #[test]
    fn who_is_connected_one_to_one_waits_for_one() {
        let forward = [stage(&[6.4, 64.0], &[]), stage(&[6.4, 0.0], &[(0, true)])];
        let all = [stage(&[6.4, 64.0], &[]), stage(&[64.0, 0.0], &[(0, false)])];
        assert!((makespan(&forward, 9) - 64.0).abs() < 1e-6);
        assert!((makespan(&all, 9) - 65.0).abs() < 1e-6);
    }
}
