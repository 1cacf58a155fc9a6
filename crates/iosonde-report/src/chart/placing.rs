//! Places labels inside a plot where they hide nothing, or as little as possible.

use super::svg::Frame;

/// The area for words, and the marks that they must not hide.
pub(super) struct Placing {
    room: Frame,
    /// Boxes of words already placed.
    words: Vec<Frame>,
    /// Boxes of the marks of points.
    marks: Vec<Frame>,
    /// Lines as straight segments.
    lines: Vec<Piece>,
}

/// A straight line segment: its two ends.
pub(super) type Piece = ((f64, f64), (f64, f64));

/// Cost of overlapping other words, and of overlapping a point.
const WORDS: f64 = 1000.0;
const MARK: f64 = 200.0;
/// Cost per pixel of hidden line.
const LINE: f64 = 4.0;
/// Cost per line that the leader of a call-out crosses.
const CROSSED: f64 = 6.0;
/// Cost per point that the leader touches, other than its own.
const TOUCHED: f64 = 40.0;
/// Pixels between candidate places of a call-out.
const STEP: f64 = 4.0;
/// Least pixels between a box and its point.
const NEAREST: f64 = 10.0;
/// Pixels kept free between words, and between words and points.
const SPACE: f64 = 2.0;

impl Placing {
    pub(super) fn new(room: Frame) -> Placing {
        Placing { room, words: Vec::new(), marks: Vec::new(), lines: Vec::new() }
    }

    /// Registers the mark of a point.
    pub(super) fn keep_mark(&mut self, (x, y): (f64, f64), radius: f64) {
        let side = 2.0 * radius;
        self.marks.push(Frame { left: x - radius, top: y - radius, width: side, height: side });
    }

    /// Registers a line through these places.
    pub(super) fn keep_line(&mut self, points: &[(f64, f64)]) {
        self.lines.extend(points.windows(2).map(|pair| (pair[0], pair[1])));
    }

    /// Takes the cheapest of some places, each with its own cost. With `free`, only a place that
    /// hides no words and no point qualifies. `None` if there is none.
    pub(super) fn take(
        &mut self,
        places: impl IntoIterator<Item = (Frame, f64)>,
        free: bool,
    ) -> Option<Frame> {
        let mut best: Option<(Frame, f64)> = None;
        for (frame, own) in places {
            // Hidden marks are costly to count; count them only if the place may still win.
            if !self.holds(&frame) || best.is_some_and(|(_, least)| own >= least) {
                continue;
            }
            let cost = own + self.hidden(&frame);
            if !(free && cost - own >= MARK) && best.is_none_or(|(_, least)| cost < least) {
                best = Some((frame, cost));
            }
        }
        let (frame, _) = best?;
        self.words.push(frame);
        Some(frame)
    }

    /// Takes a place for a call-out box of this size: near its target, but not on it.
    pub(super) fn take_near(
        &mut self,
        (width, height): (f64, f64),
        target: (f64, f64),
    ) -> Option<Frame> {
        let columns = ((self.room.width - width) / STEP).floor().max(0.0) as u32;
        let rows = ((self.room.height - height) / STEP).floor().max(0.0) as u32;
        let mut places = Vec::new();
        for column in 0..=columns {
            for row in 0..=rows {
                let left = self.room.left + f64::from(column) * STEP;
                let top = self.room.top + f64::from(row) * STEP;
                let frame = Frame { left, top, width, height };
                let end = nearest(&frame, target);
                let distance = (end.0 - target.0).hypot(end.1 - target.1);
                if distance >= NEAREST {
                    let crossed = self.lines.iter().filter(|l| cross(**l, (end, target))).count();
                    let leader = (end, target);
                    let under = self.words.iter().filter(|w| length_in(leader, w) > 0.0).count();
                    let foreign = self.marks.iter().filter(|mark| mark.centre() != target);
                    let touched = foreign.filter(|mark| length_in(leader, mark) > 0.0).count();
                    let cost = distance * 0.4
                        + crossed as f64 * CROSSED
                        + touched as f64 * TOUCHED
                        + under as f64 * WORDS;
                    places.push((frame, cost));
                }
            }
        }
        places.sort_by(|one, other| one.1.total_cmp(&other.1));
        let taken = self.take(places, false)?;
        // Later words must not hide the leader.
        self.keep_line(&[nearest(&taken, target), target]);
        Some(taken)
    }

    fn holds(&self, frame: &Frame) -> bool {
        let room = &self.room;
        frame.left >= room.left
            && frame.right() <= room.right()
            && frame.top >= room.top
            && frame.bottom() <= room.bottom()
    }

    fn hidden(&self, frame: &Frame) -> f64 {
        let wide = frame.within(-SPACE, -SPACE, -SPACE, -SPACE);
        let words = self.words.iter().filter(|other| other.meets(&wide)).count();
        let marks = self.marks.iter().filter(|mark| mark.meets(&wide)).count();
        let lines: f64 = self.lines.iter().map(|line| length_in(*line, frame)).sum();
        words as f64 * WORDS + marks as f64 * MARK + lines * LINE
    }
}

/// The place on a frame nearest to another place.
pub(super) fn nearest(frame: &Frame, (x, y): (f64, f64)) -> (f64, f64) {
    (x.clamp(frame.left, frame.right()), y.clamp(frame.top, frame.bottom()))
}

/// Pixels of a line that lie in a frame (Liang and Barsky, 1984).
fn length_in(((x0, y0), (x1, y1)): Piece, frame: &Frame) -> f64 {
    let (dx, dy) = (x1 - x0, y1 - y0);
    let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
    for (step, room) in [
        (-dx, x0 - frame.left),
        (dx, frame.right() - x0),
        (-dy, y0 - frame.top),
        (dy, frame.bottom() - y0),
    ] {
        if step == 0.0 {
            if room < 0.0 {
                return 0.0;
            }
        } else if step < 0.0 {
            enters = enters.max(room / step);
        } else {
            leaves = leaves.min(room / step);
        }
    }
    (leaves - enters).max(0.0) * dx.hypot(dy)
}

/// Whether two lines cross.
fn cross((a, b): Piece, (c, d): Piece) -> bool {
    let side = |(px, py): (f64, f64), (qx, qy): (f64, f64), (rx, ry): (f64, f64)| {
        (qx - px) * (ry - py) - (qy - py) * (rx - px)
    };
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn frame(left: f64, top: f64, width: f64, height: f64) -> Frame {
        Frame { left, top, width, height }
    }

    #[test]
    fn lines_are_cut_at_the_frame() {
        let square = frame(0.0, 0.0, 10.0, 10.0);
        assert_eq!(length_in(((-5.0, 5.0), (15.0, 5.0)), &square), 10.0);
        assert_eq!(length_in(((2.0, 2.0), (2.0, 6.0)), &square), 4.0);
        assert_eq!(length_in(((11.0, 0.0), (11.0, 10.0)), &square), 0.0);
        assert!((length_in(((-5.0, -5.0), (15.0, 15.0)), &square) - 200f64.sqrt()).abs() < 1e-9);
        assert!(cross(((0.0, 0.0), (2.0, 2.0)), ((0.0, 2.0), (2.0, 0.0))));
        assert!(!cross(((0.0, 0.0), (2.0, 2.0)), ((3.0, 2.0), (5.0, 0.0))));
    }

    #[test]
    fn the_free_place_is_taken_and_a_hidden_one_only_where_nothing_else_is() {
        let mut placing = Placing::new(frame(0.0, 0.0, 100.0, 50.0));
        placing.keep_mark((20.0, 20.0), 4.0);
        let (on, beside) = (frame(15.0, 15.0, 20.0, 10.0), frame(60.0, 15.0, 20.0, 10.0));
        let outside = frame(90.0, 15.0, 20.0, 10.0);
        assert_eq!(placing.take([(outside, 0.0), (on, 0.0), (beside, 5.0)], false), Some(beside));
        assert_eq!(placing.take([(on, 0.0)], true), None);
        assert_eq!(placing.take([(on, 0.0)], false), Some(on));
        assert_eq!(placing.take([(outside, 0.0)], false), None);
    }

    #[test]
    fn call_outs_about_one_place_keep_apart_from_it_and_from_each_other() {
        let mut placing = Placing::new(frame(0.0, 0.0, 300.0, 150.0));
        let target = (150.0, 70.0);
        placing.keep_mark(target, 4.0);
        placing.keep_line(&[(0.0, 140.0), target, (300.0, 60.0)]);
        let boxes: Vec<Frame> =
            (0..4).map(|_| placing.take_near((80.0, 20.0), target).unwrap()).collect();
        for (index, one) in boxes.iter().enumerate() {
            let (x, y) = nearest(one, target);
            assert!((x - target.0).hypot(y - target.1) >= NEAREST);
            assert!(boxes[..index].iter().all(|other| !one.meets(other)));
        }
        assert_eq!(placing.take_near((400.0, 20.0), target), None);
    }
}
