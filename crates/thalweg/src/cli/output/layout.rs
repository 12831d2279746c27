//! How the columns of a table stand: names, values and what is drawn between them.

use arrow_schema::DataType;
use unicode_width::UnicodeWidthStr;

const NULL: &str = "NULL";
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// How wide the rule above a record is, right of the names.
const RECORD_RULE: usize = 30;

/// The values of a column as text; null is none.
pub type Texts = Vec<Option<String>>;

/// How columns stand.
pub struct Layout {
    /// The columns.
    pub columns: Vec<Column>,
    /// Whether what is no value may be told by its colour.
    pub has_colour: bool,
}

/// One column: its name, and how wide it has become.
pub struct Column {
    name: String,
    is_number: bool,
    width: usize,
}

impl Column {
    /// A column that is as wide as its name.
    pub fn new(name: &str, data_type: &DataType) -> Self {
        let name = printable(name);
        Self { width: name.width(), name, is_number: data_type.is_numeric() }
    }
}

impl Layout {
    /// Makes room for values.
    pub fn widen(&mut self, columns: &[Texts]) {
        for (column, texts) in self.columns.iter_mut().zip(columns) {
            let widest = texts.iter().map(|text| text.as_deref().unwrap_or(NULL).width()).max();
            column.width = column.width.max(widest.unwrap_or(0));
        }
    }

    /// How wide a line is, at least.
    pub fn width(&self) -> usize {
        self.columns.iter().map(|column| column.width + 3).sum::<usize>().saturating_sub(2)
    }

    /// The names of the columns, and a rule.
    pub fn header(&self, out: &mut String) {
        self.line(out, |_, column| self.painted(BOLD, &column.name), |_, column| column.name.width());
        let rules: Vec<_> = self.columns.iter().map(|column| "─".repeat(column.width + 2)).collect();
        *out += &self.painted(DIM, &rules.join("┼"));
        out.push('\n');
    }

    /// A row on a line.
    pub fn row(&self, columns: &[Texts], row: usize, out: &mut String) {
        let text = |i: usize| columns[i][row].as_deref();
        self.line(out, |i, _| self.value(text(i)), |i, _| text(i).unwrap_or(NULL).width());
    }

    /// A row with each value on a line.
    pub fn record(&self, columns: &[Texts], row: usize, number: u64, out: &mut String) {
        let title = format!("─ row {number} ");
        let names = self.columns.iter().map(|column| column.name.width()).max().unwrap_or(0).max(title.width());
        let rule = "─".repeat(names + 2 - title.width());
        *out += &self.painted(DIM, &format!("{title}{rule}┬{}", "─".repeat(RECORD_RULE)));
        out.push('\n');
        for (column, texts) in self.columns.iter().zip(columns) {
            let blanks = " ".repeat(names - column.name.width());
            let (name, bar) = (self.painted(BOLD, &column.name), self.painted(DIM, "│"));
            *out += &format!(" {name}{blanks} {bar} {}\n", self.value(texts[row].as_deref()));
        }
    }

    /// A line of the table, from what stands in each column and how wide that is.
    fn line(&self, out: &mut String, text: impl Fn(usize, &Column) -> String, width: impl Fn(usize, &Column) -> usize) {
        let last = self.columns.len().saturating_sub(1);
        for (i, column) in self.columns.iter().enumerate() {
            let blanks = " ".repeat(column.width - width(i, column));
            let text = text(i, column);
            match column.is_number {
                true => *out += &format!(" {blanks}{text}"),
                false if i == last => *out += &format!(" {text}"),
                false => *out += &format!(" {text}{blanks}"),
            }
            match i == last {
                true => out.push('\n'),
                false => *out += &format!(" {}", self.painted(DIM, "│")),
            }
        }
    }

    fn value(&self, text: Option<&str>) -> String {
        text.map_or_else(|| self.painted(DIM, NULL), str::to_string)
    }

    fn painted(&self, style: &str, text: &str) -> String {
        if self.has_colour { format!("{style}{text}{PLAIN}") } else { text.to_string() }
    }
}

/// The text with escapes for what would break the table or speak to the terminal.
pub fn printable(text: &str) -> String {
    if !text.contains(char::is_control) {
        return text.to_string();
    }
    let shown = |letter: char| if letter.is_control() { letter.escape_default().to_string() } else { letter.into() };
    text.chars().map(shown).collect()
}
