//! Upright bars on a floor with names along two sides, in oblique projection. Each row is drawn the
//! same distance further up and to the right than the one before it, so heights are comparable.

use super::axis::{Axis, Tick};
use super::curves::{Drawn, segments};
use super::palette::{GRID, PAPER, Style, shaded, style};
use super::plot::{self, Measured};
use super::svg::{Anchor, Frame, Svg, Type, datum, short};

/// Bars on a floor; its columns are the names of the x axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Towers {
    /// Heading of the row names.
    pub title: String,
    /// Names of the rows, front to back.
    pub rows: Vec<String>,
    pub towers: Vec<Tower>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Tower {
    /// Index of its name on the x axis.
    pub column: usize,
    /// Index of its row; 0 is the front.
    pub row: usize,
    /// Height; a failed bar is a cross on the floor.
    pub value: Measured,
    /// Tooltip text.
    pub hover: String,
}

/// Offset of each row from the row in front of it, pixels to the right and up.
const BACK: (f64, f64) = (20.0, 17.0);
/// Share of its floor field that a bar covers, in both directions.
const COVERED: f64 = 0.6;
/// Largest width of a bar, pixels: a wider one hides those behind it.
const WIDEST: f64 = 64.0;
/// Pixels between the floor and the names of its rows.
const LABEL_GAP: f64 = 8.0;
/// Share of white in the colour of a bar's top.
const TOP: f64 = 0.45;
/// Share of black in the colour of a bar's side.
const SIDE: f64 = 0.25;

impl Towers {
    /// The front of the floor with the wall above it, where the scale is.
    pub(super) fn field(&self, plot: Frame) -> Frame {
        let (right, up) = self.depth();
        let widest = self.rows.iter().map(|name| Type::TICK.width(name)).fold(0.0, f64::max);
        let labels = widest.max(Type::TICK.width(&self.title)) + LABEL_GAP;
        plot.within(0.0, right + labels, up, 0.0)
    }

    /// Offset of the back of the floor from its front.
    fn depth(&self) -> (f64, f64) {
        let rows = self.rows.len() as f64;
        (rows * BACK.0, rows * BACK.1)
    }

    pub(super) fn draw(
        &self,
        svg: &mut Svg,
        field: Frame,
        (x, y): (&Axis, &Axis),
        y_ticks: &[Tick],
    ) -> Drawn {
        self.draw_room(svg, field, y_ticks);
        self.draw_rows(svg, field);
        // Bars further back are drawn first; within a row, from left to right.
        let mut all: Vec<&Tower> = self.towers.iter().collect();
        all.sort_by_key(|tower| (usize::MAX - tower.row, tower.column));
        for tower in all {
            self.draw_tower(svg, field, (x, y), tower)?;
        }
        Ok(())
    }

    /// Draws the floor, and the lines of the scale along the left and the back wall.
    fn draw_room(&self, svg: &mut Svg, field: Frame, y_ticks: &[Tick]) {
        let (right, up) = self.depth();
        let mut d = outline(&[
            (field.left, field.bottom()),
            (field.right(), field.bottom()),
            (field.right() + right, field.bottom() - up),
            (field.left + right, field.bottom() - up),
        ]);
        for (place, _) in y_ticks {
            let level = field.y(*place);
            d += &segments(&[
                (field.left, level),
                (field.left + right, level - up),
                (field.right() + right, level - up),
            ]);
        }
        svg.path("", &d, &format!("fill=\"none\" stroke=\"{GRID}\""), "");
    }

    fn draw_rows(&self, svg: &mut Svg, field: Frame) {
        let at = |row: f64| {
            let (x, y) = (field.right() + row * BACK.0, field.bottom() - row * BACK.1);
            (x + LABEL_GAP, y + Type::TICK.size * 0.36)
        };
        for (row, name) in self.rows.iter().enumerate() {
            svg.inside(at(row as f64 + 0.5), Anchor::Start, Type::TICK, name);
        }
        let above = at(self.rows.len() as f64 + 0.5);
        svg.inside((above.0 - BACK.0, above.1), Anchor::Start, Type::TICK, &self.title);
    }

    fn draw_tower(
        &self,
        svg: &mut Svg,
        field: Frame,
        (x, y): (&Axis, &Axis),
        tower: &Tower,
    ) -> Drawn {
        let before = (1.0 - COVERED) / 2.0;
        let (column, row) = (tower.column as f64, tower.row as f64);
        let cell = field.width / x.name_count().unwrap_or(1).max(1) as f64;
        let width = (cell * COVERED).min(WIDEST);
        let left = field.x(x.place(column + 0.5)?) - width / 2.0 + (row + before) * BACK.0;
        let right = left + width;
        let foot = field.bottom() - (row + before) * BACK.1;
        let name = self.rows.get(tower.row).map_or("", String::as_str);
        let datum = datum(&x.formatted(column + 0.5), None, name);
        let look = style(tower.row);
        let Some(value) = tower.value.number() else {
            let middle = ((left + right + COVERED * BACK.0) / 2.0, foot - COVERED * BACK.1 / 2.0);
            plot::mark(svg, "data point", middle, (look, tower.value), &datum, &tower.hover);
            return Ok(());
        };
        let top = foot - field.height * y.place(value)?;
        let (back, up) = (COVERED * BACK.0, COVERED * BACK.1);
        let faces = [
            [(left, foot), (right, foot), (right, top), (left, top)],
            [(left, top), (right, top), (right + back, top - up), (left + back, top - up)],
            [(right, foot), (right + back, foot - up), (right + back, top - up), (right, top)],
        ];
        let colours = colours(look, tower.value);
        let datum = format!("{datum} data-v=\"{}\"", short(value));
        for (number, (face, fill)) in faces.iter().zip(&colours).enumerate() {
            let paint = format!("fill=\"{fill}\" stroke=\"{}\" stroke-width=\"0.8\"", look.ink);
            let datum = if number == 0 { datum.as_str() } else { "" };
            svg.path("data", &outline(face), &format!("{paint}{datum}"), &tower.hover);
        }
        Ok(())
    }
}

/// Colours of the front, top and side; a low-confidence bar is white.
fn colours(look: Style, value: Measured) -> [String; 3] {
    match value {
        Measured::LowConfidence(_) => [PAPER; 3].map(str::to_owned),
        _ => [
            look.colour.to_owned(),
            shaded(look.colour, 255.0, TOP),
            shaded(look.colour, 0.0, SIDE),
        ],
    }
}

fn outline(corners: &[(f64, f64)]) -> String {
    segments(corners) + "Z"
}
