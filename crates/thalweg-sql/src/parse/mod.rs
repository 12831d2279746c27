//! Tokens → a statement. Queries and expressions are sqlparser's; the statements around them are read here.

mod emit;
mod frame;
mod last;
mod over;
mod reader;
mod table;

use sqlparser::{
    ast::{DataType as SqlType, Expr, Query},
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};
use thalweg_core::{Error, Result, connector::Options, error::Span};

use crate::{
    depth, diagnose,
    dialect::ThalwegDialect,
    refuse,
    script::{self, Words, is_word},
    session::ExplainFormat,
};
pub(crate) use emit::Emit;
pub(crate) use over::frame;
use reader::Reader;

/// How a query is explained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Explaining {
    /// How its plan is shown.
    pub format: ExplainFormat,
    /// Whether it is run, to be measured.
    pub runs: bool,
}

/// What a statement asks for.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    CreateTable(Box<CreateTable>),
    CreateView(Box<CreateView>),
    Drop {
        is_view: bool,
        name: Name,
        if_exists: bool,
    },
    Query(Box<Query>, Option<Emit>),
    Insert(Box<Insert>),
    Explain(Box<Kind>, Explaining),
    Set {
        key: String,
        value: String,
        at: Span,
    },
    /// All, or one.
    ShowSettings(Option<(String, Span)>),
    Reset(Option<(String, Span)>),
    ShowTables,
    ShowViews,
    ShowFunctions,
    ShowCreate {
        is_view: bool,
        name: Name,
    },
    Describe(Name),
}

/// The name of a table, a view or a column, and where it is written.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub text: String,
    pub at: Span,
}

/// `CREATE TABLE`.
#[derive(Clone, Debug)]
pub(crate) struct CreateTable {
    pub name: Name,
    pub exists: Exists,
    pub is_temporary: bool,
    pub columns: Vec<ColumnDeclaration>,
    pub watermark: Option<WatermarkDeclaration>,
    pub primary_key: Vec<Name>,
    pub comment: Option<String>,
    pub options: Options,
    pub option_places: OptionPlaces,
}

/// Where the options of a table stand.
#[derive(Clone, Debug)]
pub(crate) struct OptionPlaces {
    pub with: Span,
    /// Each option's key, and where key and value stand.
    pub entries: Vec<(String, Span, Span)>,
}

/// What to do if there is such a table or view already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exists {
    Refuse,
    Replace,
    Keep,
}

/// A column, physical or computed.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDeclaration {
    pub name: Name,
    pub kind: ColumnKind,
    pub comment: Option<String>,
}

/// How a column comes about.
#[derive(Clone, Debug)]
pub(crate) enum ColumnKind {
    Physical { sql_type: SqlType, is_nullable: bool, at: Span },
    Computed(Box<Written>),
}

/// An expression and its text.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub expression: Expr,
    pub text: String,
    pub at: Span,
}

/// `WATERMARK FOR column AS expression`.
#[derive(Clone, Debug)]
pub(crate) struct WatermarkDeclaration {
    pub column: Name,
    pub expression: Written,
}

/// `CREATE VIEW`.
#[derive(Clone, Debug)]
pub(crate) struct CreateView {
    pub name: Name,
    pub exists: Exists,
    pub is_temporary: bool,
    pub columns: Vec<Name>,
    pub comment: Option<String>,
    pub query: Box<Query>,
    pub text: String,
}

/// `INSERT INTO`.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub table: Name,
    pub columns: Vec<Name>,
    pub query: Box<Query>,
    pub emit: Option<Emit>,
}

/// Reads one statement.
///
/// Errors: `Error::Query` with the place, for what cannot be read and for what is refused by its first words.
pub(crate) fn statement(words: &Words) -> Result<Kind> {
    let (tokens, emit) = emit::taken(&words.tokens)?;
    let words = &words.with_tokens(last::rewritten(over::rewritten(tokens)?)?);
    let parser = Parser::new(&ThalwegDialect).with_tokens_with_locations(words.tokens.to_vec());
    let mut reader = Reader { parser, words };
    let kind = reader.statement()?;
    let next = reader.peek();
    match next.token {
        Token::EOF => match emit {
            None => Ok(kind),
            Some(emit) => emit::behind(kind, emit),
        },
        _ if depth::ends_too_deep(words, &next) => Err(diagnose::too_deep(script::span(next.span))),
        _ => Err(refuse::clause(words).unwrap_or_else(|| {
            const CLAUSES: [&str; 8] = ["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "WITH"];
            let is_clause = |token: &TokenWithSpan| CLAUSES.iter().any(|clause| is_word(token, clause));
            let near = |token: &TokenWithSpan| {
                diagnose::near(&token.token.to_string(), CLAUSES.into_iter().chain(["WINDOW"]))
            };
            // A clause that is misspelt was read as a name: SELECT v FORM t.
            let here = words.tokens.iter().position(|token| token.span == next.span).unwrap_or_default();
            let last = words.tokens[..here].last();
            if let Some(filter) = last.filter(|last| is_word(last, "FILTER") && next.token == Token::LParen) {
                return Error::query("FILTER stands behind OVER")
                    .with_hint("write it before: sum(v) FILTER (WHERE v > 0) OVER w")
                    .at(script::span(filter.span));
            }
            if let Some(number) = last.filter(|last| matches!(last.token, Token::Number(..)))
                && let Some(unit) = frame::interval_unit(&next)
            {
                return Error::query(format!("units like {} belong to ROWS_RANGE", diagnose::quoted(&next.token)))
                    .with_hint(format!("write a span of time as an interval: INTERVAL '{}' {unit}", number.token))
                    .at(script::span(next.span));
            }
            let misspelt = last.filter(|token| !is_clause(token)).and_then(|token| Some((token, near(token)?)));
            if let Some((token, hint)) = misspelt {
                return Error::query(format!("unexpected {}", diagnose::quoted(&token.token)))
                    .with_hint(hint)
                    .at(script::span(token.span));
            }
            if let Some(window) = words.tokens[..here].iter().rposition(|token| is_word(token, "WINDOW"))
                && ["WHERE", "GROUP", "HAVING", "FROM"].iter().any(|clause| is_word(&next, clause))
                && is_word(&words.tokens[(window + 2).min(here)], "AS")
            {
                return Error::query(format!("WINDOW stands behind {}", next.token))
                    .with_hint("the clauses are SELECT … FROM … WHERE … GROUP BY … HAVING … WINDOW … QUALIFY … ORDER BY … LIMIT …")
                    .at(script::span(words.tokens[window].span));
            }
            if is_clause(&next) {
                return Error::query(format!(
                    "{} stands here without what belongs to it",
                    diagnose::quoted(&next.token)
                ))
                .with_hint("write the rest of the clause, or leave it out")
                .at(script::span(next.span));
            }
            let hint = near(&next);
            Error::query(format!("unexpected {} after the end of the statement", diagnose::quoted(&next.token)))
                .with_hint(hint.unwrap_or_else(|| "statements are separated by semicolons".to_string()))
                .at(script::span(next.span))
        })),
    }
}

impl Reader<'_> {
    fn statement(&mut self) -> Result<Kind> {
        if self.accept("CREATE") {
            return self.create();
        }
        if self.accept("DROP") {
            return self.drop();
        }
        if self.accept("INSERT") {
            return self.insert();
        }
        if self.accept("EXPLAIN") {
            return self.explain();
        }
        if self.accept("SET") {
            return self.set();
        }
        if self.accept("RESET") {
            let key = if self.is_end() { None } else { Some(self.key()?) };
            return Ok(Kind::Reset(key));
        }
        if self.accept("SHOW") {
            return self.show();
        }
        if self.accept("DESCRIBE") || self.accept("DESC") {
            self.accept("TABLE");
            return Ok(Kind::Describe(self.table_name()?));
        }
        let next = self.peek();
        let is_query = ["SELECT", "WITH", "VALUES"].iter().any(|first| is_word(&next, first));
        if is_query || next.token == Token::LParen {
            return Ok(Kind::Query(self.query()?, None));
        }
        Err(refuse::statement(self.words).unwrap_or_else(|| {
            const FIRST: [&str; 10] =
                ["SELECT", "INSERT", "CREATE", "DROP", "DESCRIBE", "SHOW", "EXPLAIN", "SET", "RESET", "WITH"];
            let hint = diagnose::near(&next.token.to_string(), FIRST.into_iter());
            Error::query(format!("{} does not begin a statement", diagnose::quoted(&next.token)))
                .with_hint(hint.unwrap_or_else(|| diagnose::known("first words", FIRST.into_iter())))
                .at(script::span(next.span))
        }))
    }

    fn create(&mut self) -> Result<Kind> {
        let replaces = self.accept_all(&["OR", "REPLACE"]);
        let is_temporary = self.accept("TEMPORARY") || self.accept("TEMP");
        if self.accept("TABLE") {
            return self.create_table(replaces, is_temporary);
        }
        if self.accept("VIEW") {
            return self.create_view(replaces, is_temporary);
        }
        match refuse::statement(self.words) {
            Some(refusal) => Err(refusal),
            None => self.expected("TABLE or VIEW after CREATE"),
        }
    }

    fn exists(&mut self, replaces: bool) -> Result<Exists> {
        let at = self.here();
        let keeps = self.accept_all(&["IF", "NOT", "EXISTS"]);
        match (replaces, keeps) {
            (true, true) => Err(Error::query("OR REPLACE and IF NOT EXISTS exclude each other").at(at)),
            (true, false) => Ok(Exists::Replace),
            (false, true) => Ok(Exists::Keep),
            (false, false) => Ok(Exists::Refuse),
        }
    }

    fn create_view(&mut self, replaces: bool, is_temporary: bool) -> Result<Kind> {
        let exists = self.exists(replaces)?;
        let name = self.table_name()?;
        let columns = if self.parser.consume_token(&Token::LParen) { self.names()? } else { Vec::new() };
        let comment = if self.accept("COMMENT") { Some(self.text()?.0) } else { None };
        self.expect_word("AS")?;
        let from = self.parser.index();
        let query = self.query()?;
        let text = self.words.text_of(from, self.parser.index()).to_string();
        Ok(Kind::CreateView(Box::new(CreateView { name, exists, is_temporary, columns, comment, query, text })))
    }

    fn drop(&mut self) -> Result<Kind> {
        self.accept("TEMPORARY");
        let is_view = self.accept("VIEW");
        if !is_view && !self.accept("TABLE") {
            return self.expected("TABLE or VIEW after DROP");
        }
        let if_exists = self.accept_all(&["IF", "EXISTS"]);
        Ok(Kind::Drop { is_view, name: self.table_name()?, if_exists })
    }

    fn insert(&mut self) -> Result<Kind> {
        if is_word(&self.peek(), "OVERWRITE") {
            return Err(Error::query("INSERT OVERWRITE is not there: a stream is only ever added to")
                .with_hint("write INSERT INTO")
                .at(self.here()));
        }
        self.expect_word("INTO")?;
        self.accept("TABLE");
        let table = self.table_name()?;
        // A parenthesis holds columns, unless a query stands in it.
        let behind = self.parser.peek_nth_token(1);
        let is_query = ["SELECT", "WITH", "VALUES"].iter().any(|first| is_word(&behind, first));
        let has_columns = self.peek().token == Token::LParen && !is_query && behind.token != Token::LParen;
        let columns = if has_columns && self.parser.consume_token(&Token::LParen) { self.names()? } else { Vec::new() };
        Ok(Kind::Insert(Box::new(Insert { table, columns, query: self.query()?, emit: None })))
    }

    fn explain_format(&mut self) -> Result<ExplainFormat> {
        self.expect_word("FORMAT")?;
        let name = self.name()?;
        match name.text.to_ascii_uppercase().as_str() {
            "TEXT" => Ok(ExplainFormat::Text),
            "JSON" => Ok(ExplainFormat::Json),
            "DOT" => Ok(ExplainFormat::Dot),
            _ => {
                let message = format!("unknown format {:?} of EXPLAIN", name.text);
                Err(Error::query(message).with_hint("the formats are TEXT, JSON and DOT").at(name.at))
            }
        }
    }

    fn explain(&mut self) -> Result<Kind> {
        let (mut runs, mut format) = (self.accept("ANALYZE"), ExplainFormat::Text);
        let is_query = ["SELECT", "WITH", "VALUES"].iter().any(|w| is_word(&self.parser.peek_nth_token(1), w));
        if self.accept_all(&["PLAN", "FOR"]) {
        } else if self.peek().token == Token::LParen && !is_query {
            self.expect(Token::LParen)?;
            loop {
                if self.accept("ANALYZE") {
                    runs = true;
                } else {
                    format = self.explain_format()?;
                }
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            self.expect(Token::RParen)?;
        }
        let at = self.here();
        match self.statement()? {
            kind @ (Kind::Query(..) | Kind::Insert(_)) => {
                Ok(Kind::Explain(Box::new(kind), Explaining { format, runs }))
            }
            _ => Err(Error::query("only SELECT and INSERT have a plan to explain").at(at)),
        }
    }

    fn set(&mut self) -> Result<Kind> {
        if self.is_end() {
            return Ok(Kind::ShowSettings(None));
        }
        let (key, at) = self.key()?;
        if self.is_end() {
            return Ok(Kind::ShowSettings(Some((key, at))));
        }
        if !self.parser.consume_token(&Token::Eq) {
            self.expect_word("TO")?;
        }
        let value = self.peek();
        let text = match &value.token {
            Token::SingleQuotedString(text) => text.clone(),
            Token::Number(number, _) => number.clone(),
            Token::Word(word) => word.value.clone(),
            _ => return self.expected("a value in quotes"),
        };
        self.parser.next_token();
        Ok(Kind::Set { key, value: text, at })
    }

    /// `'key'`, or bare words with dots between them.
    fn key(&mut self) -> Result<(String, Span)> {
        if matches!(self.peek().token, Token::SingleQuotedString(_)) {
            return self.text();
        }
        let Name { mut text, at } = self.name()?;
        while self.parser.consume_token(&Token::Period) {
            text = format!("{text}.{}", self.name()?.text);
        }
        Ok((text, at))
    }

    fn show(&mut self) -> Result<Kind> {
        if self.accept("TABLES") {
            return Ok(Kind::ShowTables);
        }
        if self.accept("VIEWS") {
            return Ok(Kind::ShowViews);
        }
        if self.accept("FUNCTIONS") {
            return Ok(Kind::ShowFunctions);
        }
        if self.accept("CREATE") {
            let is_view = self.accept("VIEW");
            if !is_view {
                self.expect_word("TABLE")?;
            }
            return Ok(Kind::ShowCreate { is_view, name: self.table_name()? });
        }
        self.expected("TABLES, VIEWS, FUNCTIONS, CREATE TABLE or CREATE VIEW after SHOW")
    }

    fn query(&mut self) -> Result<Box<Query>> {
        let next = self.peek();
        if !["SELECT", "WITH", "VALUES"].iter().any(|w| is_word(&next, w)) && next.token != Token::LParen {
            return self.expected("a query");
        }
        let read = self.parser.parse_query();
        self.checked(read)
    }
}
