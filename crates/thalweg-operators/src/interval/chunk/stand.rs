//! What is found for the windows of some keys from what was found for those of earlier batches.

use std::ops::Range;

use arrow_array::{
    Array, ArrayRef, BooleanArray,
    builder::{ArrayBuilder, make_builder},
    cast::AsArray,
    types::UInt64Type,
};
use arrow_schema::DataType;
use thalweg_core::{Result, aggregate::Windows};

use super::{
    super::{
        asked::{Asked, Looked},
        entry::{At, Entry},
        followed::put_followed,
        kept::Kept,
        lines::Lines,
        standing::{Moves, Standing, Wanted},
    },
    Chunk, TURN,
};

/// The rows of a key in this chunk, for which windows of a frame are followed from batch to batch.
pub(super) struct Stands {
    frame: usize,
    key: u32,
    /// Where they are in the order of keys.
    places: Range<usize>,
    /// What is new, among that of all keys.
    new: Range<usize>,
    /// Whether all that they see is known then.
    is_told: bool,
    /// Over which rows what follows windows moves then.
    moves: Moves,
}

/// The arguments and the filter of an aggregate for some rows.
type Columns = (Vec<ArrayRef>, Option<BooleanArray>);

fn slice((arguments, filter): &Columns, rows: &Range<usize>) -> Columns {
    let column = |column: &ArrayRef| column.slice(rows.start, rows.len());
    (arguments.iter().map(column).collect(), filter.as_ref().map(|filter| filter.slice(rows.start, rows.len())))
}

/// What takes the results of a follower.
fn builder_of(asked: &Asked, call: usize, results: usize) -> Box<dyn ArrayBuilder> {
    let kind = if asked.follows_rows(call) { DataType::UInt64 } else { asked.functions[call].output() };
    make_builder(&kind, results)
}

impl Chunk {
    /// Says for which keys what follows the windows of a frame is asked, since it costs less to have what was found before than to begin anew,
    /// and tells it of new rows; returns how many.
    pub(super) fn stand(
        &mut self,
        (frame, looked): (usize, &Looked),
        (asked, kept): (&Asked, &Kept),
        lines: &mut Lines,
    ) -> Result<usize> {
        let (mut new, mut places) = (Vec::new(), Vec::new());
        let mut stands = Vec::new();
        let cost = asked.cost_of_following(looked);
        for (key, rows) in &self.keys {
            let spans = &self.spans[frame];
            let (starts, ends) = (&spans.starts[rows.clone()], &spans.ends[rows.clone()]);
            let first = starts.iter().copied().min().unwrap_or(0);
            let all = ends[ends.len() - 1].saturating_sub(first);
            let overlapping: usize = starts.iter().zip(ends).map(|(start, end)| end - start).sum();
            let anew = overlapping.min(cost * (all + rows.len()));
            let lacks_own = looked.adds_own && !rows.clone().all(|place| spans.owns(place));
            let told = new.len();
            if lacks_own || told >= TURN {
                continue;
            }
            let chosen = lines.follow(*key, frame, |line, standing| {
                let wanted = Wanted { starts, ends, anew, moves: looked.moves };
                if !Standing::choose(standing, frame, wanted, line.len()) {
                    return None;
                }
                let tells = (&mut new, &mut places);
                Some(standing.as_mut()?.tell(frame, (line, wanted), || asked.followers(looked), tells))
            });
            if let Some(moves) = chosen {
                let (is_told, moves) = (moves.is_some(), moves.unwrap_or_default());
                stands.push(Stands { frame, key: *key, places: rows.clone(), new: told..new.len(), is_told, moves });
            }
        }
        if stands.is_empty() {
            return Ok(0);
        }
        self.tell((frame, looked), &stands, &new, &places, (asked, kept), lines)?;
        stands.retain(|stands| stands.is_told);
        self.stood[frame].resize(self.order.len(), false);
        for Stands { places, .. } in &stands {
            self.stood[frame][places.clone()].fill(true);
        }
        self.stands.extend(stands);
        Ok(new.len())
    }

    /// Asks what follows windows for the results of some of those that wait for it; returns over how many rows it has moved.
    pub(super) fn ask_next(
        &mut self,
        bases: &[Entry],
        (asked, kept): (&Asked, &Kept),
        lines: &mut Lines,
    ) -> Result<usize> {
        let Some(Stands { frame, .. }) = self.stands.front() else { return Ok(0) };
        let (frame, mut moved) = (*frame, 0);
        let looked = &asked.frames[frame];
        let few = self.stands.iter().take_while(|stands| {
            moved += stands.places.len() + stands.moves.rows;
            stands.frame == frame && moved <= TURN
        });
        let few = few.count();
        if few > 0 {
            let some: Vec<Stands> = self.stands.drain(..few).collect();
            self.ask((frame, looked), bases, &some, (asked, kept), lines)?;
            return Ok(some.iter().map(|stands| stands.places.len() + stands.moves.rows).sum());
        }
        // The next one alone moves over very many.
        let Some(mut next) = self.stands.pop_front() else { return Ok(0) };
        let (place, spans) = (next.places.start, &self.spans[frame]);
        let window = spans.starts[place]..spans.ends[place].max(spans.starts[place]);
        if let Some(step) = next.moves.step(&window, TURN / 2) {
            self.pass((frame, looked), next.key, &step, asked, lines)?;
            next.moves.from = step;
            self.stands.push_front(next);
            return Ok(TURN);
        }
        let first = Stands { places: place..place + 1, new: 0..0, moves: next.moves.clone(), ..next };
        self.ask((frame, looked), bases, &[first], (asked, kept), lines)?;
        let one = Wanted { starts: &[window.start], ends: &[window.end], anew: 0, moves: looked.moves };
        let moved = one.moved(&mut next.moves.from);
        next.places.start += 1;
        let spans = &self.spans[frame];
        let (starts, ends) = (&spans.starts[next.places.clone()], &spans.ends[next.places.clone()]);
        let rest = Wanted { starts, ends, anew: 0, moves: looked.moves };
        next.moves = Moves { rows: rest.moved(&mut window.clone()), from: window };
        if !next.places.is_empty() {
            self.stands.push_front(next);
        }
        Ok(1 + moved)
    }

    /// Has what follows the windows of a key move to this one, of which nobody wants to know what is in it.
    fn pass(
        &self,
        (frame, looked): (usize, &Looked),
        key: u32,
        window: &Range<usize>,
        asked: &Asked,
        lines: &mut Lines,
    ) -> Result<()> {
        let calls = Self::following(asked, looked);
        let windows = Windows {
            arguments: &[],
            filter: None,
            windows: std::slice::from_ref(window),
            own: None,
            lacks: &[],
            before: &[],
        };
        lines.follow(key, frame, |_, standing| {
            Standing::follow(standing, frame, |number, follower| {
                let mut found = builder_of(asked, calls[number], 1);
                // What a part of a window comes to may be no number although the window itself comes to one.
                let _ = follower.results(&windows, found.as_mut());
                Ok(())
            })
        })
    }

    /// The aggregates that follow the windows of a frame.
    fn following(asked: &Asked, looked: &Looked) -> Vec<usize> {
        looked.calls.clone().filter(|call| asked.slide(looked, *call).is_some()).collect()
    }

    /// Their arguments for some rows.
    fn columns(asked: &Asked, kept: &Kept, calls: &[usize], rows: &[At]) -> Result<Vec<Columns>> {
        let mut columns: Vec<Columns> = Vec::with_capacity(calls.len());
        for (number, call) in calls.iter().enumerate() {
            // Several are often asked of one column.
            let same = calls[..number].iter().position(|other| asked.takes_the_same(*call, *other));
            columns.push(same.map_or_else(|| asked.gathered(*call, kept, rows), |same| Ok(columns[same].clone()))?);
        }
        Ok(columns)
    }

    /// Tells of new rows.
    fn tell(
        &self,
        (frame, looked): (usize, &Looked),
        stands: &[Stands],
        new: &[At],
        places: &[usize],
        (asked, kept): (&Asked, &Kept),
        lines: &mut Lines,
    ) -> Result<()> {
        if new.is_empty() {
            return Ok(());
        }
        let columns = Self::columns(asked, kept, &Self::following(asked, looked), new)?;
        stands.iter().filter(|stands| !stands.new.is_empty()).try_for_each(|Stands { key, new, .. }| {
            lines.follow(*key, frame, |_, standing| {
                Standing::follow(standing, frame, |number, follower| {
                    let (arguments, filter) = slice(&columns[number], new);
                    follower.insert(&arguments, filter.as_ref(), &places[new.clone()])
                })
            })
        })
    }

    /// Asks for the results of windows.
    fn ask(
        &mut self,
        (frame, looked): (usize, &Looked),
        bases: &[Entry],
        stands: &[Stands],
        (asked, kept): (&Asked, &Kept),
        lines: &mut Lines,
    ) -> Result<()> {
        let calls = Self::following(asked, looked);
        let asking: Vec<u32> = stands.iter().flat_map(|stands| &self.order[stands.places.clone()]).copied().collect();
        let mut found: Vec<_> = calls.iter().map(|call| builder_of(asked, *call, asking.len())).collect();
        let mut picked: Vec<Vec<Option<At>>> = vec![Vec::new(); calls.len()];
        let own = match looked.adds_own {
            true => {
                let own: Vec<At> = asking.iter().map(|number| self.rows[*number as usize]).collect();
                Self::columns(asked, kept, &calls, &own)?
            }
            false => vec![(Vec::new(), None); calls.len()],
        };
        let (mut windows, mut lacks, mut asked_before) = (Vec::new(), Vec::new(), 0);
        for Stands { key, places, .. } in stands {
            let line = lines.seen(*key, frame);
            let spans = &self.spans[frame];
            windows.clear();
            windows.extend(places.clone().map(|place| spans.starts[place]..spans.ends[place]));
            lacks.clear();
            if looked.hole.is_some() || looked.adds_own {
                let base = |place: usize| &bases[self.order[place] as usize];
                lacks.extend(places.clone().map(|place| self.hole(looked, frame, place, line, base(place))));
            }
            let of_key = asked_before..asked_before + places.len();
            asked_before = of_key.end;
            lines.follow(*key, frame, |rows, standing| {
                Standing::follow(standing, frame, |number, follower| {
                    let own = if looked.adds_own { slice(&own[number], &of_key) } else { Columns::default() };
                    let windows = Windows {
                        arguments: &own.0,
                        filter: own.1.as_ref(),
                        windows: &windows,
                        own: looked.adds_own.then_some(rows.len()),
                        lacks: &lacks,
                        before: &[],
                    };
                    follower.results(&windows, found[number].as_mut())?;
                    if asked.follows_rows(calls[number]) {
                        let own = |number: usize| self.rows[self.order[places.start + number] as usize];
                        let at = |row: usize| rows.get(row).map_or_else(|| own(row - rows.len()), |entry| entry.at);
                        let numbers = found[number].finish();
                        let numbers = numbers.as_primitive::<UInt64Type>().iter();
                        picked[number].extend(numbers.map(|row| row.map(|row| at(row as usize))));
                    }
                    Ok(())
                })
            })?;
        }
        let results = calls.into_iter().zip(found).zip(picked).map(|((call, mut found), picked)| {
            let value = || asked.layout.calls[call].0[0];
            let results = match asked.follows_rows(call) {
                true => kept.gather_some(value(), &picked, &asked.functions[call].output())?,
                false => found.finish(),
            };
            Ok((call, results))
        });
        put_followed(&mut self.followed, &asking, Some(results.collect::<Result<_>>()?));
        Ok(())
    }
}
