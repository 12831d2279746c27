//! The handle of a running query.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    thread,
    time::Duration,
};

use thalweg_core::{
    Batch, Error, Event, KeyGroup, KeyGroups, Port, Result,
    connector::{Host, Reader, Wake},
};
use thalweg_plan::{Settings, settings::Merge};

use crate::{
    adapt::{member::Member, planner::Planner, table::Table, tally::Tally, team::Team},
    align::{self, Alignment},
    backlog::Backlog,
    chain::Chain,
    clock::{Clock, Linger},
    deal::{Dealer, InTurn},
    exchange::Scatter,
    intake::{Inlet, Pipes},
    lull::Lull,
    metrics::{Counters, Metrics},
    nodes::Nodes,
    pipe::{CAPACITY, Place, Receiver, Sender, Wakes, Work, pipe},
    pool::{Pool, TaskRef},
    share::Share,
    simulation::Simulation,
    source::{SourceReader, SourceShape},
    task::{Intake, Out, Outlet, Shared, TURN, Task, Turns},
    topology::{KeyParts, SourceParts, Stage, StageInput, Topology},
};

/// A query that runs on its own workers. Dropped, it is given up: sinks leave nothing half done.
pub struct RunningQuery {
    shared: Arc<Shared>,
    results: Option<Receiver>,
    is_reported: bool,
    simulation: Option<Simulation>,
    // Last, so that the workers end after everything else was let go.
    pool: Option<Pool>,
}

/// A way to stop a query and to look at it, from any thread.
#[derive(Clone)]
pub struct Control(Arc<Shared>);

impl Control {
    /// Asks the sources to end. What is still open is not emitted; sinks complete what was.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// Asks the sources for a barrier: an epoch ends there, and what is to be done at barriers is done.
    pub fn request_barrier(&self) {
        self.0.request_barrier();
    }

    /// What the query has done so far.
    pub fn metrics(&self) -> Metrics {
        self.0.counters.snapshot()
    }

    /// Whether the query has ended.
    pub fn is_ended(&self) -> bool {
        self.0.is_ended()
    }
}

/// How many threads run a query's tasks: no more than there are processors, since others would interrupt these in the middle of their
/// turns.
fn workers(settings: &Settings) -> usize {
    let processors = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
    settings.parallelism.min(processors)
}

/// Starts a topology.
///
/// Errors: what opening a source or making an operator gives; `Error::Query` if `'exchange.memory'` is too little for so many
/// instances; `Error::Environment` if there are no threads to be had.
pub fn start(topology: Topology) -> Result<RunningQuery> {
    let Topology { stages, settings, key_groups, on_barrier, is_timed, schedule, moves } = topology;
    let mut simulation = schedule.map(Simulation::new);
    let clock = simulation.as_ref().map(Simulation::clock).unwrap_or_default();
    let instances: Vec<usize> = stages.iter().map(|stage| stage.instances).collect();
    let counters = Arc::new(Counters::default());
    if is_timed {
        counters.time_nodes();
    }
    let has_teams = settings.adaptive || moves.is_some();
    let teams = if has_teams { teams(&stages, key_groups, &counters) } else { BTreeMap::new() };
    let planner = Planner::new(teams.values().cloned().collect(), &settings, moves, clock.clone());
    let shared = Arc::new(Shared::new(instances.iter().sum(), settings.memory_limit, counters, planner));
    let no_threads = |error: std::io::Error| Error::environment(format!("cannot start worker threads: {error}"));
    let workers = if simulation.is_some() { 0 } else { workers(&settings) };
    let pool = Pool::new(workers, Nodes::of_machine()).map_err(no_threads)?;
    let pairs = keyed_pairs(&stages);
    if pairs > 0 {
        // Before anything is opened.
        Share::new(&settings, pairs, 1)?;
    }
    let capacity = || simulation.as_mut().map_or(CAPACITY, Simulation::capacity);
    let mut wiring = Wiring::new(&stages, capacity);
    let results = wiring.results.take();
    let mut senders: Vec<String> = Vec::new();
    for stage in &stages {
        // An output of a split does nothing: its rows are the split's.
        let last = stage.operators.last().map(|parts| parts.label.clone());
        let before = || stage.inputs.first().map(|input| senders[input.stage].clone());
        senders.push(last.or_else(before).unwrap_or_default());
    }
    let mut tasks = Vec::new();
    let inputs_of: Vec<Vec<usize>> =
        stages.iter().map(|stage| stage.inputs.iter().map(|input| input.stage).collect()).collect();
    for (number, stage) in stages.into_iter().enumerate() {
        let Stage { instances, inputs, source, operators, mut sink, is_result } = stage;
        let mut source = source.map(|parts| Opener::new(parts, &settings, instances, &shared, clock.clone()));
        for instance in 0..instances {
            let place = pool.reserve(instance, instances);
            shared.register(place.clone());
            let Ends { inlets, pipes, divided, dealers, work } = wiring.take(number, instance, &place);
            let intake = match &mut source {
                Some(opener) => Intake::Source(opener.open(instance, &place)?, 0),
                None => {
                    let gather = |input: &StageInput| {
                        input.is_ordered.then(|| shared.counters.node(&format!("Gather of {}", senders[input.stage])))
                    };
                    let slack = slack(&settings, &clock);
                    Intake::Pipes(Pipes::new(inlets, inputs.iter().map(gather).collect(), settings.batch_rows, slack))
                }
            };
            let label = source.as_ref().map(|opener| &opener.shape.label).or(sink.as_ref().map(|(label, _)| label));
            let label = label.cloned().unwrap_or_default();
            let counters = operators.iter().map(|parts| shared.counters.node(&parts.label)).collect();
            let chain = Chain::new(
                operators.clone(),
                counters,
                inputs.len().max(1),
                settings.batch_rows,
                owned(key_groups, instance, inputs.iter().any(|input| input.keys.is_some()).then_some(instances)),
                on_barrier,
                settings.memory_limit,
            )?;
            let outlet = match sink.take() {
                Some((label, sink)) => Outlet::Sink { sink, label, is_dirty: false },
                None => {
                    let scatter = |Divided { to, port, parts, senders }| {
                        let share = Share::new(&settings, pairs, senders.len())?;
                        let linger = Linger { most: linger(&settings), clock: clock.clone() };
                        let tally = teams.get(&to).map(|team| Tally::new(Arc::clone(team)));
                        let scatter = Scatter::new(port, parts, key_groups, senders, share, linger, place.clone());
                        Ok(scatter.with_tally(tally).counted(Arc::clone(&shared.counters.exchanged)))
                    };
                    let exchanges = divided.into_iter().map(scatter).collect::<Result<_>>()?;
                    Outlet::Pipes { pipes, exchanges, dealers, is_result }
                }
            };
            let most = simulation.as_mut().map_or(TURN, Simulation::turn);
            let shared = Arc::clone(&shared);
            let team = teams.get(&number).cloned();
            let keys: Arc<[KeyParts]> = inputs.iter().filter_map(|input| input.keys.clone()).collect();
            let member = team.map(|team| Member::new(team, instance, keys, place.clone(), clock.clone()));
            let counters = shared.counters.timed_task(number, instance);
            let task = Task {
                label,
                counters,
                shared,
                intake,
                member,
                chain,
                outlet,
                arrived: 0,
                place: Place::Within,
                work,
                is_ending: false,
                most,
                delay: Linger { most: delay(&settings), clock: clock.clone() },
                idle_since: None,
                backlog: Backlog::default(),
                lull: Lull::default(),
                gives_way: false,
                stopping_since: None,
            };
            tasks.push((number, place, task));
        }
    }
    keep_step(&mut tasks, &inputs_of);
    for (_, place, task) in tasks {
        pool.start(&place, Box::new(task));
    }
    Ok(RunningQuery { shared, results, is_reported: false, simulation, pool: Some(pool) })
}

impl RunningQuery {
    /// The next rows of the result; waits for them. `None` when there are no more.
    ///
    /// Errors: what ended the query; once, then `None`.
    pub fn next_batch(&mut self) -> Option<Result<Batch>> {
        let mut must_look = false;
        while let Some(results) = &mut self.results {
            let looks = must_look || self.simulation.as_mut().is_none_or(Simulation::looks);
            if let Some(envelope) = looks.then(|| results.pop()).flatten() {
                if let Event::Batch(batch) = envelope.event {
                    return Some(Ok(batch));
                }
            } else if results.is_closed() {
                self.results = None;
            } else if self.simulation.is_some() {
                // Where no task can go on, they may all wait for who takes the rows.
                let is_stuck = !self.step();
                if is_stuck && looks {
                    return Some(Err(self.give_up()));
                }
                must_look = is_stuck;
            } else {
                // The sender unparks the thread that started the query; another one looks again soon.
                thread::park_timeout(Duration::from_millis(1));
            }
        }
        match self.wait_for_end() {
            Ok(()) => self.take_error().map(Err),
            Err(error) => Some(Err(error)),
        }
    }

    /// Waits until the query has ended, and says what it did. Rows of the result that were not taken are not wanted any more.
    ///
    /// Errors: what ended the query.
    pub fn wait(&mut self) -> Result<Metrics> {
        self.results = None;
        self.wait_for_end()?;
        match self.take_error() {
            Some(error) => Err(error),
            None => Ok(self.metrics()),
        }
    }

    /// A way to stop the query and to look at it, from any thread.
    pub fn control(&self) -> Control {
        Control(Arc::clone(&self.shared))
    }

    /// What the query has done so far.
    pub fn metrics(&self) -> Metrics {
        self.shared.counters.snapshot()
    }

    /// Asks the sources to end. What is still open is not emitted; sinks complete what was.
    pub fn stop(&self) {
        self.shared.stop();
    }

    fn wait_for_end(&mut self) -> Result<()> {
        while self.simulation.is_some() && !self.shared.is_ended() {
            if !self.step() {
                return Err(self.give_up());
            }
        }
        self.shared.wait();
        Ok(())
    }

    /// Lets a task of a simulation have a turn, if one can.
    fn step(&mut self) -> bool {
        match (&mut self.simulation, &self.pool) {
            (Some(simulation), Some(pool)) => simulation.step(pool, &self.shared),
            _ => false,
        }
    }

    /// Ends a simulation of which no task can go on.
    fn give_up(&mut self) -> Error {
        (self.results, self.simulation, self.pool) = (None, None, None);
        self.shared.give_up();
        Error::bug("no task is ready, none waits for a time, and the query has not ended")
    }

    fn take_error(&mut self) -> Option<Error> {
        if std::mem::replace(&mut self.is_reported, true) { None } else { self.shared.error.lock().clone() }
    }
}

impl Drop for RunningQuery {
    fn drop(&mut self) {
        self.results = None;
        if !self.shared.is_ended() {
            self.shared.fail(Error::query("the query was given up"));
        }
        // The workers finish their turns; tasks that did not end are dropped with their sinks and files.
        self.pool = None;
    }
}

/// How long rows may wait to fill a batch or a page.
fn linger(settings: &Settings) -> Duration {
    Duration::from_micros(settings.linger().0.max(0) as u64)
}

/// How long results may wait for others.
fn delay(settings: &Settings) -> Duration {
    Duration::from_micros(settings.target_delay.0.max(0) as u64)
}

/// How long rows that are put in order wait for an instance that says nothing, if not for ever.
fn slack(settings: &Settings, clock: &Clock) -> Option<Linger> {
    let most = Duration::from_micros(settings.merge_slack.0.max(0) as u64);
    (settings.merge == Merge::Slack).then(|| Linger { most, clock: clock.clone() })
}

/// The key groups that are an instance's: its share, if rows are divided by them among so many instances, and otherwise all.
fn owned(groups: KeyGroups, instance: usize, instances: Option<usize>) -> Vec<KeyGroup> {
    let Some(instances) = instances else { return groups.iter().collect() };
    Table::even(groups, instances).of(instance)
}

/// Sources whose rows meet where somebody looks for rows that belong to others keep step.
fn keep_step(tasks: &mut [(usize, TaskRef, Task)], inputs_of: &[Vec<usize>]) {
    // Of each stage which stages its rows come through, itself included; these are before it.
    let mut before: Vec<BTreeSet<usize>> = Vec::new();
    for (stage, inputs) in inputs_of.iter().enumerate() {
        let all = inputs.iter().flat_map(|input| before[*input].clone());
        before.push(all.chain([stage]).collect());
    }
    let mut met: Vec<BTreeSet<usize>> = Vec::new();
    for (stage, _, _) in tasks.iter().filter(|(_, _, task)| task.chain.searches()) {
        let (mut together, others): (Vec<_>, Vec<_>) =
            met.drain(..).partition(|some| !some.is_disjoint(&before[*stage]));
        together.push(before[*stage].clone());
        met = others;
        met.push(together.into_iter().flatten().collect());
    }
    for stages in met {
        let alignment = Arc::<Alignment>::default();
        for (stage, place, task) in tasks.iter_mut() {
            if let Intake::Source(reader, _) = &mut task.intake
                && stages.contains(stage)
            {
                reader.keep_step(align::Step::join(&alignment, place.clone()));
            }
        }
    }
}

/// The teams of stages whose instances divide rows by keys, by the stages' numbers.
fn teams(stages: &[Stage], groups: KeyGroups, counters: &Arc<Counters>) -> BTreeMap<usize, Arc<Team>> {
    let team = |(number, stage): (usize, &Stage)| {
        let keys = stage.inputs.iter().find_map(|input| input.keys.as_ref()).filter(|_| stage.instances > 1)?;
        // Rows of another order would have to be waited for at a barrier, and one that all instances get has no owner.
        assert!(
            stage.inputs.iter().all(|input| input.keys.is_some() && !input.is_ordered),
            "all is divided as it comes"
        );
        let may_share = |input: &StageInput| input.keys.as_ref().is_some_and(|keys| keys.sharing.is_some());
        let team = Team::new(keys.label.clone(), groups, stage.instances, Arc::clone(counters));
        Some((number, Arc::new(team.sharing(stage.inputs.iter().all(may_share)))))
    };
    stages.iter().enumerate().filter_map(team).collect()
}

/// How many pairs of a sender and a receiver there are between which rows are divided by keys.
fn keyed_pairs(stages: &[Stage]) -> usize {
    let keyed = |stage: &Stage| {
        let senders =
            stage.inputs.iter().filter(|input| input.keys.is_some()).map(|input| stages[input.stage].instances);
        senders.sum::<usize>() * stage.instances
    };
    stages.iter().map(keyed).sum()
}

/// Whether the instances of a stage have shares of the rows of the same senders.
fn shares_rows(stages: &[Stage], stage: usize) -> bool {
    let mut inputs = stages[stage].inputs.iter();
    inputs.any(|input| input.keys.is_some() || input.is_dealt || (input.is_forward && shares_rows(stages, input.stage)))
}

/// Whether the instances of a stage have turns.
fn has_turns(stages: &[Stage], stage: usize) -> bool {
    let mut inputs = stages[stage].inputs.iter();
    inputs.any(|input| input.is_dealt || (input.is_forward && has_turns(stages, input.stage)))
}

/// Whether somebody combines what all instances of a stage say of time, be it behind others that hear it from them one to one.
fn is_combined(stages: &[Stage], stage: usize) -> bool {
    let takers = stages.iter().enumerate().flat_map(|(taker, stage)| stage.inputs.iter().map(move |i| (taker, i)));
    let mut takers = takers.filter(|(_, input)| input.stage == stage);
    let takes_whole = |input: &StageInput| !(input.is_forward || input.is_dealt || input.is_in_turn);
    takers.any(|(taker, input)| takes_whole(input) || (input.is_forward && is_combined(stages, taker)))
}

/// The pipes of a task.
#[derive(Default)]
struct Ends {
    /// Those that end at it.
    inlets: Vec<Inlet>,
    /// Those that begin at it and take all rows of an output.
    pipes: Vec<Out>,
    /// Those that begin at it and share the rows of an output.
    divided: Vec<Divided>,
    /// Those that begin at it and to which its batches are dealt.
    dealers: Vec<Dealer>,
    /// Whether it has something to do, for those at their other ends.
    work: Arc<Work>,
}

/// The pipes that share the rows of one output, by receiver.
struct Divided {
    /// The stage of the receivers.
    to: usize,
    port: Port,
    parts: KeyParts,
    senders: Vec<Sender>,
}

/// The pipes between all instances of all stages, to be handed to their two ends.
struct Wiring {
    ends: HashMap<(usize, usize), Ends>,
    results: Option<Receiver>,
}

impl Wiring {
    fn new(stages: &[Stage], mut capacity: impl FnMut() -> usize) -> Self {
        let mut wiring = Self { ends: HashMap::new(), results: None };
        for (to, stage) in stages.iter().enumerate() {
            for (port, from) in stage.inputs.iter().enumerate() {
                let is_of_team = shares_rows(stages, from.stage);
                let instances = stages[from.stage].instances;
                assert!(!from.is_forward || instances == stage.instances, "one to one");
                assert!(!from.is_dealt || instances == 1, "one deals");
                assert!(!from.is_in_turn || has_turns(stages, from.stage), "there are turns");
                let turns = match () {
                    () if from.is_in_turn => Turns::End,
                    () if from.is_forward && has_turns(stages, from.stage) => Turns::Stay,
                    () => Turns::None,
                };
                let mut lanes = Vec::new();
                for sender in 0..instances {
                    let mut senders = Vec::new();
                    for instance in (0..stage.instances).filter(|instance| !from.is_forward || *instance == sender) {
                        let (tx, receiver) = pipe(capacity());
                        senders.push(tx);
                        lanes.push(receiver);
                        if turns != Turns::End || lanes.len() == instances {
                            let receiver = InTurn::new(std::mem::take(&mut lanes));
                            wiring.ends(to, instance).inlets.push(Inlet { port, receiver, is_of_team });
                        }
                    }
                    let ends = wiring.ends(from.stage, sender);
                    match &from.keys {
                        Some(parts) => {
                            ends.divided.push(Divided { to, port: from.port, parts: parts.clone(), senders })
                        }
                        None if from.is_dealt => {
                            ends.dealers.push(Dealer::new(from.port, senders, is_combined(stages, to)))
                        }
                        None => ends.pipes.extend(senders.into_iter().map(|tx| Out::new(from.port, tx, turns))),
                    }
                }
            }
        }
        if let Some(stage) = stages.iter().position(|stage| stage.is_result) {
            let (tx, rx) = pipe(capacity());
            rx.set_waker(Wakes::Thread(thread::current()));
            wiring.ends(stage, 0).pipes.push(Out::new(0, tx, Turns::None));
            wiring.results = Some(rx);
        }
        wiring
    }

    fn ends(&mut self, stage: usize, instance: usize) -> &mut Ends {
        self.ends.entry((stage, instance)).or_default()
    }

    fn take(&mut self, stage: usize, instance: usize, place: &TaskRef) -> Ends {
        let mut ends = self.ends.remove(&(stage, instance)).unwrap_or_default();
        ends.inlets.iter().for_each(|inlet| inlet.receiver.set_waker(|| Wakes::Task(place.clone())));
        let divided = ends.divided.iter().flat_map(|divided| &divided.senders);
        let dealt = ends.dealers.iter().flat_map(Dealer::senders);
        let all: Vec<_> = ends.pipes.iter().map(Out::sender).chain(divided).chain(dealt).collect();
        all.iter().for_each(|sender| sender.set_waker(Wakes::Task(place.clone())));
        ends.work = Work::of(all.into_iter(), ends.inlets.iter().flat_map(|inlet| inlet.receiver.lanes()));
        ends
    }
}

/// Opens the partitions of a source for its instances.
struct Opener {
    table: String,
    source: Box<dyn thalweg_core::connector::Source>,
    shape: Arc<SourceShape>,
    instances: usize,
    workers: usize,
    shared: Arc<Shared>,
}

impl Opener {
    fn new(parts: SourceParts, settings: &Settings, instances: usize, shared: &Arc<Shared>, clock: Clock) -> Self {
        let duration = |micros: i64| Duration::from_micros(micros.max(0) as u64);
        let shape = SourceShape {
            label: parts.label,
            computed: parts.computed,
            watermark: parts.watermark,
            skips_bad_rows: parts.skips_bad_rows,
            batch_rows: settings.batch_rows,
            linger: linger(settings),
            idle: settings.watermark_idle.map(|idle| duration(idle.0)),
            clock,
        };
        Self {
            table: parts.table,
            source: parts.source,
            shape: Arc::new(shape),
            instances,
            workers: workers(settings),
            shared: Arc::clone(shared),
        }
    }

    /// Every so-manieth partition is this instance's.
    fn open(&mut self, instance: usize, place: &TaskRef) -> Result<SourceReader> {
        let names = self.source.partitions();
        // Few partitions leave threads over: a reader may decode ahead on those that would otherwise have nothing to read.
        let threads = (self.workers / names.len().max(1)).max(1);
        let mut partitions: Vec<(u32, String, Box<dyn Reader>)> = Vec::new();
        for number in (instance..names.len()).step_by(self.instances) {
            let task = place.clone();
            let wake: Wake = Arc::new(move || task.wake());
            let host = Host { wake, threads };
            let reader = self.source.open(number, host).map_err(|error| error.in_node(&self.shape.label))?;
            partitions.push((number as u32, format!("{}/{}", self.table, names[number]), reader));
        }
        Ok(SourceReader::new(partitions, Arc::clone(&self.shape), Arc::clone(&self.shared.counters)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::StageInput;

    #[test]
    fn who_takes_rows_one_to_one_shares_them_as_their_senders_do() {
        let stage = |inputs: Vec<StageInput>| Stage {
            instances: 2,
            inputs,
            source: None,
            operators: Vec::new(),
            sink: None,
            is_result: false,
        };
        let keys = || Some(KeyParts { label: String::new(), keys: Vec::new(), sharing: None });
        let keyed = |stage| StageInput {
            stage,
            port: 0,
            keys: keys(),
            is_forward: false,
            is_dealt: false,
            is_in_turn: false,
            is_ordered: false,
        };
        let forward = |stage| StageInput {
            stage,
            port: 0,
            keys: None,
            is_forward: true,
            is_dealt: false,
            is_in_turn: false,
            is_ordered: false,
        };
        let gather = |stage| StageInput {
            stage,
            port: 0,
            keys: None,
            is_forward: false,
            is_dealt: false,
            is_in_turn: false,
            is_ordered: true,
        };
        let stages =
            [vec![], vec![forward(0)], vec![keyed(1)], vec![forward(2)], vec![forward(3)], vec![gather(4)]].map(stage);
        let shared: Vec<_> = (0..stages.len()).map(|number| shares_rows(&stages, number)).collect();
        assert_eq!(shared, [false, false, true, true, true, false]);
        // Each instance has the pipe of its number, and is waited for with the others.
        let mut wiring = Wiring::new(&stages, || CAPACITY);
        for instance in 0..2 {
            let inlets = &wiring.ends(4, instance).inlets;
            assert_eq!(inlets.iter().map(|inlet| inlet.is_of_team).collect::<Vec<_>>(), [true]);
            assert_eq!(wiring.ends(3, instance).pipes.len(), 1);
            assert_eq!(wiring.ends(5, instance).inlets.len(), 2);
        }
    }
}
