//! Which columns fit into a line, and how wide each one is.

/// Columns of spaces between two columns of a table.
pub(crate) const GAP: usize = 1;

/// Minimum width of a flexible column.
const FLEXIBLE_MIN: usize = 24;

/// Needs of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    /// Width of the heading and of the longest value.
    pub(crate) width: usize,
    /// Columns with the highest rank are dropped first.
    pub(crate) rank: u8,
    /// True if the column may be narrower than its values, and takes what is left.
    pub(crate) is_flexible: bool,
}

impl Need {
    fn minimum(self) -> usize {
        if self.is_flexible {
            self.width.min(FLEXIBLE_MIN)
        } else {
            self.width
        }
    }
}

/// Column with a place in the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Number of the column among all of the table.
    pub(crate) column: usize,
    pub(crate) width: usize,
}

/// Chooses the columns by rank, as many as fit. The first always has a place.
pub(crate) fn by_rank(needs: &[Need], available: usize, rank_max: u8) -> Vec<Placed> {
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|column| needs.get(*column).map(|need| need.rank));
    let mut used = 0;
    let mut chosen = Vec::new();
    for column in order {
        let Some(need) = needs.get(column).filter(|need| need.rank <= rank_max) else {
            continue;
        };
        let more = need.minimum() + if chosen.is_empty() { 0 } else { GAP };
        if !chosen.is_empty() && used + more > available {
            continue;
        }
        used += more;
        chosen.push(column);
    }
    chosen.sort_unstable();
    widened(needs, chosen, available)
}

/// Takes the columns in their order from `first` on, as many as fit.
pub(crate) fn in_order(needs: &[Need], available: usize, first: usize) -> Vec<Placed> {
    let mut used = 0;
    let mut chosen = Vec::new();
    for (column, need) in needs.iter().enumerate().skip(first) {
        let more = need.minimum() + if chosen.is_empty() { 0 } else { GAP };
        if !chosen.is_empty() && used + more > available {
            break;
        }
        used += more;
        chosen.push(column);
    }
    widened(needs, chosen, available)
}

/// Gives flexible columns what the others have left.
fn widened(needs: &[Need], chosen: Vec<usize>, available: usize) -> Vec<Placed> {
    let need = |column: &usize| needs.get(*column).copied();
    let minimum: usize = chosen.iter().filter_map(need).map(Need::minimum).sum();
    let gaps = chosen.len().saturating_sub(1) * GAP;
    let mut left = available.saturating_sub(minimum + gaps);
    let placed = chosen.into_iter().filter_map(|column| {
        let need = need(&column)?;
        let more = (need.width - need.minimum()).min(left);
        left -= more;
        let width = (need.minimum() + more).min(available);
        Some(Placed { column, width })
    });
    placed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn need(width: usize, rank: u8) -> Need {
        Need {
            width,
            rank,
            is_flexible: false,
        }
    }

    fn placed(columns: &[Placed]) -> Vec<(usize, usize)> {
        columns
            .iter()
            .map(|placed| (placed.column, placed.width))
            .collect()
    }

    #[test]
    fn columns_of_the_highest_rank_are_dropped_first() {
        let needs = [need(5, 0), need(5, 3), need(5, 1), need(5, 9)];
        assert_eq!(placed(&by_rank(&needs, 17, 8)), [(0, 5), (1, 5), (2, 5)]);
        assert_eq!(placed(&by_rank(&needs, 16, 8)), [(0, 5), (2, 5)]);
        assert_eq!(placed(&by_rank(&needs, 3, 8)), [(0, 3)]);
    }

    #[test]
    fn flexible_columns_take_what_is_left() {
        let long = Need {
            width: 100,
            rank: 0,
            is_flexible: true,
        };
        assert_eq!(
            placed(&by_rank(&[need(5, 0), long], 40, 8)),
            [(0, 5), (1, 34)]
        );
        assert_eq!(
            placed(&by_rank(&[need(5, 0), long], 200, 8)),
            [(0, 5), (1, 100)]
        );
    }

    #[test]
    fn in_order_begins_where_it_is_told() {
        let needs = [need(5, 0), need(5, 9), need(5, 1)];
        assert_eq!(placed(&in_order(&needs, 11, 0)), [(0, 5), (1, 5)]);
        assert_eq!(placed(&in_order(&needs, 11, 1)), [(1, 5), (2, 5)]);
        assert_eq!(placed(&in_order(&needs, 11, 3)), []);
    }
}
