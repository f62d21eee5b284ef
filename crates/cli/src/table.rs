//! A table for the terminal: a first column, and groups of columns, each with a title. A second run with other settings is
//! another group.

/// Columns that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The line above the columns.
    pub(crate) title: String,
    /// The heads of the columns.
    pub(crate) columns: Vec<String>,
}

/// Rows under groups of columns.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    corner: String,
    groups: Vec<Group>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; `corner` is the head of the first column.
    pub(crate) fn new(corner: &str, groups: Vec<Group>) -> Self {
        Self {
            corner: corner.to_owned(),
            groups,
            rows: Vec::new(),
        }
    }

    /// Adds a row of cells from left to right. Missing cells stay empty.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines of the table. The first column is flush left, the other columns are flush right.
    pub(crate) fn render(&self) -> String {
        self.render_within(usize::MAX)
    }

    /// The lines of the table within `columns` characters, if the cells after the first ones permit: a first cell that is too long has a line
    /// of its own, above its row.
    pub(crate) fn render_within(&self, columns: usize) -> String {
        let heads: Vec<&str> = std::iter::once(self.corner.as_str())
            .chain(
                self.groups
                    .iter()
                    .flat_map(|group| group.columns.iter().map(String::as_str)),
            )
            .collect();
        let mut widths: Vec<usize> = heads.iter().map(|head| head.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        // If a title is wider than its columns, the first of these columns becomes wider.
        let mut first = 1;
        for group in &self.groups {
            let last = first + group.columns.len();
            let taken = widths[first..last]
                .iter()
                .map(|width| width + 2)
                .sum::<usize>()
                .saturating_sub(2);
            if let Some(width) = widths.get_mut(first..last).and_then(<[usize]>::first_mut) {
                *width += group.title.chars().count().saturating_sub(taken);
            }
            first = last;
        }
        let rest: usize = widths.iter().skip(1).map(|width| width + 2).sum();
        let between_groups = 2 * self.groups.len().saturating_sub(1);
        let room = columns.saturating_sub(rest + between_groups);
        let is_long = |cell: &str| cell.chars().count() > room;
        let firsts = self.rows.iter().filter_map(|row| row.first());
        let short = firsts
            .filter(|cell| !is_long(cell))
            .map(|cell| cell.chars().count());
        widths[0] = short.chain([self.corner.chars().count()]).max().unwrap_or(0);
        let mut lines = vec![self.titles(&widths), self.line(&heads, &widths)];
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        lines.push("─".repeat(total(&widths) + between_groups));
        for row in &self.rows {
            let mut cells: Vec<&str> = row.iter().map(String::as_str).collect();
            if let Some(first) = cells.first_mut().filter(|first| is_long(first)) {
                lines.push(std::mem::take(first).to_owned());
            }
            lines.push(self.line(&cells, &widths));
        }
        lines.retain(|line| !line.is_empty());
        lines.join("\n")
    }

    fn titles(&self, widths: &[usize]) -> String {
        let mut line = " ".repeat(widths[0]);
        let mut first = 1;
        for (index, group) in self.groups.iter().enumerate() {
            let last = first + group.columns.len();
            let room = widths[first..last]
                .iter()
                .map(|width| width + 2)
                .sum::<usize>()
                .saturating_sub(2);
            line.push_str(if index == 0 { "  " } else { "    " });
            line.push_str(&format!("{:^room$}", group.title));
            first = last;
        }
        line.trim_end().to_owned()
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = format!("{:<width$}", cells.first().unwrap_or(&""), width = widths[0]);
        let mut column = 1;
        for (index, group) in self.groups.iter().enumerate() {
            for place in 0..group.columns.len() {
                line.push_str(if place == 0 && index > 0 { "    " } else { "  " });
                line.push_str(&format!(
                    "{:>width$}",
                    cells.get(column).unwrap_or(&""),
                    width = widths[column]
                ));
                column += 1;
            }
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(title: &str) -> Group {
        Group {
            title: title.to_owned(),
            columns: vec!["sent".to_owned(), "median".to_owned()],
        }
    }

    fn cells(row: &str) -> Vec<String> {
        row.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn groups_stand_side_by_side() {
        let mut table = Table::new("stream", vec![group("off"), group("on")]);
        table.row(cells("telemetry 1200 40ms 1201 4ms"));
        table.row(cells("chat 7 1s"));
        let expected = [
            "               off              on",
            "stream     sent  median    sent  median",
            "───────────────────────────────────────",
            "telemetry  1200    40ms    1201     4ms",
            "chat          7      1s",
        ];
        assert_eq!(table.render().lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_long_first_cell_has_a_line_of_its_own() {
        let mut table = Table::new("path", vec![group("")]);
        table.row(cells("[2001:db8::1]:9899 7 1s"));
        table.row(cells("wlan0 1200 40ms"));
        let expected = [
            "path   sent  median",
            "───────────────────",
            "[2001:db8::1]:9899",
            "          7      1s",
            "wlan0  1200    40ms",
        ];
        assert_eq!(table.render_within(31).lines().collect::<Vec<_>>(), expected);
        let whole = table.render_within(32);
        assert_eq!(whole, table.render());
        assert_eq!(whole.lines().count(), 4, "{whole}");
    }

    #[test]
    fn a_long_title_has_room() {
        let mut table = Table::new("stream", vec![group("everything as in RFC 9260")]);
        table.row(cells("chat 7 1s"));
        let widths: Vec<_> = table.render().lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [33, 33, 33, 33]);
    }
}
