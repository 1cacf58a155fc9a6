//! Weighted least squares with few unknowns.

/// The coefficients that minimize the weighted sum of squares of `y - row · coefficients`, over
/// `(row, y, weight)`; `None` if the rows do not determine them, or something is not finite.
///
/// Normal equations, solved by elimination with pivots: enough for two or three unknowns of about
/// the same scale. Scale the columns otherwise.
pub fn solve<const K: usize>(rows: &[([f64; K], f64, f64)]) -> Option<[f64; K]> {
    let mut matrix = [[0.0; K]; K];
    let mut right = [0.0; K];
    for (row, y, weight) in rows {
        for i in 0..K {
            right[i] += weight * row[i] * y;
            for j in 0..K {
                matrix[i][j] += weight * row[i] * row[j];
            }
        }
    }
    eliminate(matrix, right)
}

fn eliminate<const K: usize>(mut matrix: [[f64; K]; K], mut right: [f64; K]) -> Option<[f64; K]> {
    let diagonal: [f64; K] = std::array::from_fn(|at| matrix[at][at]);
    for column in 0..K {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..K).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        // If other columns explain a column, its remainder is a rounding error.
        if size(&pivot) <= 1e-12 * diagonal[column] {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in column + 1..K {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            for (own, above) in matrix[row].iter_mut().zip(above).skip(column) {
                *own -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    let mut solution = [0.0; K];
    for row in (0..K).rev() {
        let known: f64 = (row + 1..K).map(|at| matrix[row][at] * solution[at]).sum();
        solution[row] = (right[row] - known) / matrix[row][row];
    }
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_parabola_through_three_points() {
        let rows = [-1.0f64, 2.0, 5.0].map(|x| ([1.0, x, x * x], 3.0 - x + 2.0 * x * x, 1.0));
        let [a, b, c] = solve(&rows).unwrap();
        assert!((a - 3.0).abs() < 1e-9 && (b + 1.0).abs() < 1e-9 && (c - 2.0).abs() < 1e-9);
    }

    #[test]
    fn weights_count() {
        // A mean of 1 and 4 with weights 2 and 1.
        assert_eq!(solve(&[([1.0], 1.0, 2.0), ([1.0], 4.0, 1.0)]), Some([2.0]));
    }

    #[test]
    fn what_is_not_determined_has_no_solution() {
        assert_eq!(solve(&[([1.0, 2.0], 1.0, 1.0), ([2.0, 4.0], 1.0, 1.0)]), None);
        assert_eq!(solve::<2>(&[]), None);
        assert_eq!(solve(&[([1.0], f64::NAN, 1.0)]), None);
    }
}
