//! Errors say whose fault it was, what happened, where, and what to do.

use std::fmt;

/// The result of everything in Thalweg that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The query's: its text, its options, or what it asks for.
    Query,
    /// A row's: it cannot be read, or a value in it cannot be computed with.
    Data,
    /// The environment's: disk, network, permissions, memory.
    Environment,
    /// Ours.
    Bug,
}

/// A place in the text of a query, lines and columns counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The line of the first character.
    pub line: usize,
    /// The column of the first character.
    pub column: usize,
    /// How many characters on that line are meant; at least one.
    pub width: usize,
}

/// What an error is about, where only who has the query's text can say at which place that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An expression, written as a person would write it.
    Expression(String),
    /// A column of the table that rows are written into.
    Target(String),
}

/// What went wrong, in words for the person who can mend it.
///
/// ```
/// use thalweg_core::Error;
/// let error = Error::query("column \"speed\" is STRING, expected a number").with_hint("cast it: CAST(speed AS DOUBLE)");
/// assert_eq!(error.to_string(), "column \"speed\" is STRING, expected a number");
/// ```
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    fault: Fault,
    message: String,
    hint: Option<String>,
    span: Option<Span>,
    subject: Option<Subject>,
    node: Option<String>,
}

impl Error {
    /// An error of the given fault; the message is lower case, without a full stop.
    pub fn new(fault: Fault, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { fault, message: message.into(), hint: None, span: None, subject: None, node: None }))
    }

    /// The query's fault.
    pub fn query(message: impl Into<String>) -> Self {
        Self::new(Fault::Query, message)
    }

    /// A row's fault.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Fault::Data, message)
    }

    /// The environment's fault.
    pub fn environment(message: impl Into<String>) -> Self {
        Self::new(Fault::Environment, message)
    }

    /// Our fault.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Fault::Bug, message)
    }

    /// Adds what the user can do about it.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The same error, said in other words.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Adds the place in the query's text, unless one is known already.
    pub fn at(mut self, span: Span) -> Self {
        self.0.span.get_or_insert(span);
        self
    }

    /// Sets the place in the query's text: a smaller one than was known.
    pub fn placed(mut self, span: Span) -> Self {
        self.0.span = Some(span);
        self
    }

    /// The same error without a place: it stands in text that nobody wrote.
    pub fn nowhere(mut self) -> Self {
        self.0.span = None;
        self
    }

    /// Adds what it is about, unless that is known already.
    pub fn about(mut self, subject: Subject) -> Self {
        self.0.subject.get_or_insert(subject);
        self
    }

    /// Adds to the message where it happened: ` in view "v"`.
    pub fn within(mut self, place: &str) -> Self {
        self.0.message += &format!(" in {place}");
        self
    }

    /// Adds the name of the plan's node in which it happened, unless one is known already.
    pub fn in_node(mut self, node: impl Into<String>) -> Self {
        self.0.node.get_or_insert_with(|| node.into());
        self
    }

    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        self.0.fault
    }

    /// What happened, without hint, place and node.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Where in the query's text.
    pub fn span(&self) -> Option<Span> {
        self.0.span
    }

    /// What it is about.
    pub fn subject(&self) -> Option<&Subject> {
        self.0.subject.as_ref()
    }

    /// In which node of the plan.
    pub fn node(&self) -> Option<&str> {
        self.0.node.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.node {
            Some(node) => write!(f, " (in {node})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl From<arrow_schema::ArrowError> for Error {
    /// Arrow's errors on data keep their text; the rest cannot happen on checked input and is ours.
    fn from(error: arrow_schema::ArrowError) -> Self {
        use arrow_schema::ArrowError::*;
        match error {
            ParseError(m) | CastError(m) | ComputeError(m) | ArithmeticOverflow(m) => Self::data(lower_first(&m)),
            DivideByZero => Self::data("division by zero"),
            IoError(m, _) => Self::environment(m),
            other => Self::bug(lower_first(&other.to_string())),
        }
    }
}

/// The text with its first letter in lower case, as our messages are.
pub fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) if !letters.as_str().starts_with(|c: char| c.is_uppercase()) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_string(),
    }
}
