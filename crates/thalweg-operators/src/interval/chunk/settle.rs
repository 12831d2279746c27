//! What is asked of the rows of one key, where it is found without looking at all rows of each window.

use std::ops::Range;

use thalweg_core::Result;

use super::{
    super::{
        asked::{Asked, Looked},
        blocks,
        entry::{At, Entry},
        followed::{Stretch, follow, put_followed},
        kept::Kept,
        lines::Lines,
        past::Past,
    },
    Chunk, Settled, TOGETHER,
};

impl Chunk {
    /// Finds what is asked of the next rows of one key without looking at all rows of each window, if that pays; returns how many rows were
    /// looked at.
    pub(super) fn settle(
        &mut self,
        frame: usize,
        looked: &Looked,
        bases: &[Entry],
        asked: &Asked,
        lines: &Lines,
        (kept, past): (&Kept, &Past),
    ) -> Result<usize> {
        let key = bases[self.order[self.done] as usize].key;
        let same = self.order[self.done..].iter().take_while(|number| bases[**number as usize].key == key).count();
        let end = self.done + same;
        let (order, spans) = (&self.order[self.done..end], &self.spans[frame]);
        let (starts, ends) = (&spans.starts[self.done..end], &spans.ends[self.done..end]);
        // Where frames have a size and leave rows out, one may begin before the one before it.
        let first = starts.iter().copied().min().unwrap_or(0);
        let all = first..ends[same - 1].max(first);
        let overlapping = starts.iter().zip(ends).map(|(start, end)| end - start).sum();
        let blocks_pay = looked.has_blocks && blocks::pay(same, all.len(), overlapping);
        let anew = asked.cost_of_following(looked) * (all.len() + same);
        let unsure: Vec<usize> = (0..same).filter(|place| self.unsure[frame].has(order[*place] as usize)).collect();
        let can_follow =
            |call: &usize| asked.functions[*call].slide().is_some_and(|slide| !looked.has_past || slide.goes_on());
        let can_follow = self.unsure[frame].calls.iter().all(can_follow);
        let seen: usize = unsure.iter().map(|place| ends[*place] - starts[*place]).sum();
        let sure_pays = can_follow && !unsure.is_empty() && seen > 2 * (all.len() + unsure.len());
        let is_followed = self.stood[frame].get(self.done).is_some_and(|has_stood| *has_stood);
        let following_pays = looked.slides && overlapping > anew && !is_followed;
        self.settled[frame] = Settled { end, is_followed, ..Settled::default() };
        let lacks_own = looked.adds_own && !(self.done..end).all(|place| spans.owns(place));
        let goes_on = looked.goes_on && !all.is_empty();
        if lacks_own || all.len() > TOGETHER || !(blocks_pay || following_pays || sure_pays || goes_on) {
            return Ok(0);
        }
        self.search.visited += all.len() as u64;
        let windows = starts.iter().zip(ends).map(|(start, end)| start - all.start..end - all.start);
        let windows: Vec<_> = windows.collect();
        let line = lines.seen(key, frame);
        let mut rows: Vec<At> = line.rows()[all.clone()].iter().map(|entry| entry.at).collect();
        let hole = |place: usize| {
            (looked.hole.is_some() || looked.adds_own).then_some(())?;
            let hole = self.hole(looked, frame, self.done + place, line, &bases[order[place] as usize]);
            Some(hole.start - all.start..hole.end - all.start)
        };
        let lacks: Vec<Range<usize>> = (0..same).map_while(hole).collect();
        let own = looked.adds_own.then_some(rows.len());
        if own.is_some() {
            rows.extend(order.iter().map(|number| self.rows[*number as usize]));
        }
        if following_pays {
            let slides: Vec<_> = looked.calls.clone().filter(|call| asked.slide(looked, *call).is_some()).collect();
            let stretch = Stretch { rows: &rows, windows: &windows, own, lacks: &lacks, past_of: None };
            let results = follow(asked, (kept, past), &slides, stretch)?;
            self.settled[frame].is_followed = results.is_some();
            put_followed(&mut self.followed, order, results);
        }
        if sure_pays {
            let mut rows = rows[..all.len()].to_vec();
            let numbers: Vec<u32> = unsure.iter().map(|place| order[*place]).collect();
            rows.extend(numbers.iter().filter(|_| own.is_some()).map(|number| self.rows[*number as usize]));
            let windows: Vec<_> = unsure.iter().map(|place| windows[*place].clone()).collect();
            let lacks: Vec<_> = unsure.iter().filter_map(|place| lacks.get(*place).cloned()).collect();
            let past_of = looked.has_past.then_some(key);
            let stretch = Stretch { rows: &rows, windows: &windows, own, lacks: &lacks, past_of };
            let results = follow(asked, (kept, past), &self.unsure[frame].calls, stretch)?;
            self.settled[frame].is_sure = results.is_some();
            put_followed(&mut self.followed, &numbers, results);
        }
        if goes_on {
            // What is past need not be merged for each window then.
            let calls: Vec<_> = looked.calls.clone().filter(|call| asked.summed[*call].is_none()).collect();
            let stretch = Stretch { rows: &rows, windows: &windows, own, lacks: &lacks, past_of: Some(key) };
            let results = follow(asked, (kept, past), &calls, stretch)?;
            self.settled[frame].is_found = results.is_some();
            put_followed(&mut self.followed, order, results);
        }
        if blocks_pay && !self.settled[frame].is_found {
            let (rows, apart) = rows.split_at(all.len());
            let slides = |call: &usize| asked.slide(looked, *call).is_some();
            // A window with a hole is two; one that is empty is only where the row itself would stand.
            let parts = |(place, window): (usize, &Range<usize>)| {
                let hole = lacks.get(place).filter(|hole| !hole.is_empty()).cloned();
                let hole = hole.unwrap_or(window.end..window.end);
                [(window.start..hole.start, order[place]), (hole.end..window.end, order[place])]
            };
            let parts: Vec<_> =
                windows.iter().enumerate().flat_map(parts).filter(|(part, _)| !part.is_empty()).collect();
            for call in looked.calls.clone().filter(|call| asked.summed[*call].is_none() && !slides(call)) {
                let (function, accumulator) = (asked.functions[call].as_ref(), self.accumulators[call].as_mut());
                let values = asked.gathered(call, kept, rows)?;
                blocks::add(function, &values, rows.len(), parts.clone(), accumulator, bases.len())?;
                if own.is_some() {
                    let (arguments, filter) = asked.gathered(call, kept, apart)?;
                    accumulator.update(&arguments, filter.as_ref(), order, bases.len())?;
                }
            }
            self.settled[frame].is_found = true;
            self.merged[frame] += same;
        }
        Ok(all.len())
    }
}
