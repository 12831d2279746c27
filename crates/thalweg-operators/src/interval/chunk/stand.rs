//! What is found for the windows of a key from what was found for those of earlier batches.

use std::ops::Range;

use arrow_array::ArrayRef;
use thalweg_core::{Result, aggregate::Windows};

use super::{
    super::{
        asked::{Asked, Looked},
        entry::{At, Entry},
        kept::Kept,
        lines::Lines,
        standing::Standing,
    },
    Chunk,
};

/// The results of some aggregates for some rows, unless there are rows yet of which what follows windows does not know, and how many rows
/// were looked at.
pub(super) struct Stood {
    pub results: Option<Vec<(usize, ArrayRef)>>,
    pub visited: usize,
}

impl Chunk {
    /// The results for some rows of one key, in the order of keys, of all that follows the windows of a frame; `None` if it costs less to
    /// begin anew, which looks at so many rows.
    pub(super) fn stand(
        &self,
        (frame, looked): (usize, &Looked),
        bases: &[Entry],
        places: Range<usize>,
        anew: usize,
        (asked, kept): (&Asked, &Kept),
        lines: &mut Lines,
    ) -> Result<Option<Stood>> {
        let key = bases[self.order[places.start] as usize].key;
        let stands = lines.follow(key, frame, |rows, standing| {
            Standing::choose(standing, frame, places.len(), anew, rows.len())
        });
        if !stands {
            return Ok(None);
        }
        let line = lines.seen(key, frame);
        let hole = |place: usize| {
            (looked.hole.is_some() || looked.adds_own).then_some(())?;
            Some(self.hole(looked, frame, place, line, &bases[self.order[place] as usize]))
        };
        let lacks: Vec<Range<usize>> = places.clone().map_while(hole).collect();
        let spans = &self.spans[frame];
        let ends = spans.starts[places.clone()].iter().zip(&spans.ends[places.clone()]);
        let windows: Vec<Range<usize>> = ends.map(|(start, end)| *start..*end).collect();
        let own: Vec<At> = self.order[places].iter().map(|number| self.rows[*number as usize]).collect();
        let calls: Vec<usize> = looked.calls.clone().filter(|call| asked.slide(looked, *call).is_some()).collect();
        let mut visited = windows.len();
        lines.follow(key, frame, |rows, standing| {
            let begin = || asked.followers(looked);
            let told = standing.get_or_insert_default().told(frame, rows, begin, |followers, new, places| {
                visited += new.len();
                for (call, follower) in calls.iter().zip(followers) {
                    let (arguments, filter) = asked.gathered(*call, kept, new)?;
                    follower.insert(&arguments, filter.as_ref(), places)?;
                }
                Ok(())
            })?;
            let Some(followers) = told else { return Ok(Some(Stood { results: None, visited })) };
            let results = calls.iter().zip(followers).map(|(call, follower)| {
                let (arguments, filter) = match looked.adds_own {
                    true => asked.gathered(*call, kept, &own)?,
                    false => (Vec::new(), None),
                };
                let windows = Windows {
                    arguments: &arguments,
                    filter: filter.as_ref(),
                    windows: &windows,
                    own: looked.adds_own.then_some(rows.len()),
                    lacks: &lacks,
                    before: &[],
                };
                Ok((*call, follower.results(&windows)?))
            });
            let results = Some(results.collect::<Result<_>>()?);
            Ok(Some(Stood { results, visited }))
        })
    }
}
