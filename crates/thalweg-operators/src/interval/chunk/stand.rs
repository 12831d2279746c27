//! What is found for the windows of some keys from what was found for those of earlier batches.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, BooleanArray, builder::make_builder};
use thalweg_core::{Result, aggregate::Windows};

use super::{
    super::{
        asked::{Asked, Looked},
        entry::{At, Entry},
        followed::put_followed,
        kept::Kept,
        lines::Lines,
        standing::{Standing, Wanted},
    },
    Chunk, TURN,
};

/// The rows of a key in this chunk, for which windows are followed from batch to batch.
struct Stands {
    key: u32,
    /// Where they are in the order of keys.
    places: Range<usize>,
    /// What is new, among that of all keys.
    new: Range<usize>,
    /// Whether all that they see is known then.
    is_told: bool,
}

/// The arguments and the filter of an aggregate for some rows.
type Columns = (Vec<ArrayRef>, Option<BooleanArray>);

fn slice((arguments, filter): &Columns, rows: &Range<usize>) -> Columns {
    let column = |column: &ArrayRef| column.slice(rows.start, rows.len());
    (arguments.iter().map(column).collect(), filter.as_ref().map(|filter| filter.slice(rows.start, rows.len())))
}

impl Chunk {
    /// Finds what follows the windows of a frame, key by key, where it costs less to have what was found before than to begin anew; returns
    /// how many rows were looked at.
    pub(super) fn stand(
        &mut self,
        (frame, looked): (usize, &Looked),
        bases: &[Entry],
        (asked, kept): (&Asked, &Kept),
        lines: &mut Lines,
    ) -> Result<usize> {
        let (mut new, mut places) = (Vec::new(), Vec::new());
        let (mut stands, mut visited) = (Vec::new(), 0);
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
            let told_and_moved = lines.follow(*key, frame, |line, standing| {
                let wanted = Wanted { starts, ends, anew, moves: looked.moves };
                let moved = Standing::choose(standing, frame, wanted, line.len())?;
                let is_told = standing.as_mut()?.tell(frame, line, || asked.followers(looked), (&mut new, &mut places));
                Some((is_told, moved))
            });
            if let Some((is_told, moved)) = told_and_moved {
                visited += if is_told { rows.len() + moved } else { 0 };
                stands.push(Stands { key: *key, places: rows.clone(), new: told..new.len(), is_told });
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
        if !stands.is_empty() {
            self.ask((frame, looked), bases, &stands, (asked, kept), lines)?;
        }
        Ok(new.len() + visited)
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
        let mut found: Vec<_> =
            calls.iter().map(|call| make_builder(&asked.functions[*call].output(), asking.len())).collect();
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
                    follower.results(&windows, found[number].as_mut())
                })
            })?;
        }
        let results = calls.into_iter().zip(found.iter_mut().map(|found| found.finish())).collect();
        put_followed(&mut self.followed, &asking, Some(results));
        Ok(())
    }
}
