//! Tokens → a statement. Queries and expressions are sqlparser's; the statements around them are read here.

use sqlparser::{
    ast::{DataType as SqlType, Expr, Ident, Query},
    parser::{Parser, ParserError},
    tokenizer::{Token, TokenWithSpan},
};
use thalweg_core::{Error, Result, connector::Options, error::Span};

use crate::{
    diagnose,
    dialect::ThalwegDialect,
    refuse,
    script::{self, Words, is_word},
    session::ExplainFormat,
    types,
};

/// What a statement asks for.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    CreateTable(Box<CreateTable>),
    CreateView(Box<CreateView>),
    Drop { is_view: bool, name: Name, if_exists: bool },
    Query(Box<Query>),
    Insert(Box<Insert>),
    Explain(Box<Kind>, ExplainFormat),
    Set { key: String, value: String, at: Span },
    ShowSettings,
    Reset(Option<(String, Span)>),
    ShowTables,
    ShowViews,
    ShowFunctions,
    ShowCreate { is_view: bool, name: Name },
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
    pub query: Box<Query>,
    pub text: String,
}

/// `INSERT INTO`.
#[derive(Clone, Debug)]
pub(crate) struct Insert {
    pub table: Name,
    pub columns: Vec<Name>,
    pub query: Box<Query>,
}

/// Reads one statement.
///
/// Errors: `Error::Query` with the place, for what cannot be read and for what is refused by its first words.
pub(crate) fn statement(words: &Words) -> Result<Kind> {
    let parser = Parser::new(&ThalwegDialect).with_tokens_with_locations(words.tokens.to_vec());
    let mut reader = Reader { parser, words };
    let kind = reader.statement()?;
    let next = reader.peek();
    match next.token {
        Token::EOF => Ok(kind),
        _ => Err(refuse::clause(words).unwrap_or_else(|| {
            const CLAUSES: [&str; 8] = ["FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "WITH"];
            let hint = diagnose::near(&next.token.to_string(), CLAUSES.into_iter());
            Error::query(format!("unexpected {} after the end of the statement", diagnose::quoted(&next.token)))
                .with_hint(hint.unwrap_or_else(|| "statements are separated by semicolons".to_string()))
                .at(script::span(next.span))
        })),
    }
}

struct Reader<'a> {
    parser: Parser<'a>,
    words: &'a Words,
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
            return Ok(Kind::Query(self.query()?));
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

    fn create_table(&mut self, replaces: bool, is_temporary: bool) -> Result<Kind> {
        let exists = self.exists(replaces)?;
        let mut table = CreateTable {
            name: self.table_name()?,
            exists,
            is_temporary,
            columns: Vec::new(),
            watermark: None,
            primary_key: Vec::new(),
            comment: None,
            options: Options::default(),
        };
        if self.parser.consume_token(&Token::LParen) {
            loop {
                self.table_element(&mut table)?;
                if !self.parser.consume_token(&Token::Comma) {
                    break;
                }
            }
            self.expect(Token::RParen)?;
        }
        if self.accept("COMMENT") {
            table.comment = Some(self.text()?.0);
        }
        if self.accept("WITH") {
            table.options = self.options()?;
            return Ok(Kind::CreateTable(Box::new(table)));
        }
        if let Some(refusal) = refuse::table_clause(&self.peek(), self.here()) {
            return Err(refusal);
        }
        if self.is_end() {
            let message = format!("table {:?} has no WITH ('connector' = …)", table.name.text);
            let hint = "say where its rows are: WITH ('connector' = 'file', 'path' = …, 'format' = 'csv')";
            return Err(Error::query(message).with_hint(hint).at(table.name.at));
        }
        self.expected("WITH ('connector' = …)")
    }

    fn table_element(&mut self, table: &mut CreateTable) -> Result<()> {
        let next = self.parser.peek_nth_token(1);
        if is_word(&self.peek(), "WATERMARK") && is_word(&next, "FOR") {
            let at = self.here();
            self.accept_all(&["WATERMARK", "FOR"]);
            if table.watermark.is_some() {
                return Err(Error::query("a table has at most one WATERMARK").at(at));
            }
            let column = self.name()?;
            self.expect_word("AS")?;
            table.watermark = Some(WatermarkDeclaration { column, expression: self.written()? });
            return Ok(());
        }
        if is_word(&self.peek(), "CONSTRAINT") {
            self.accept("CONSTRAINT");
            self.name()?;
        }
        if is_word(&self.peek(), "PRIMARY") && is_word(&self.parser.peek_nth_token(1), "KEY") {
            self.accept_all(&["PRIMARY", "KEY"]);
            self.expect(Token::LParen)?;
            table.primary_key = self.names()?;
            return self.not_enforced();
        }
        if let Some(refusal) = refuse::table_element(&self.peek(), &self.parser.peek_nth_token(1), self.here()) {
            return Err(refusal);
        }
        let column = self.column(table)?;
        table.columns.push(column);
        Ok(())
    }

    fn column(&mut self, table: &mut CreateTable) -> Result<ColumnDeclaration> {
        let name = self.name()?;
        if self.accept("AS") {
            let kind = ColumnKind::Computed(Box::new(self.written()?));
            let comment = if self.accept("COMMENT") { Some(self.text()?.0) } else { None };
            return Ok(ColumnDeclaration { name, kind, comment });
        }
        let at = self.here();
        let sql_type = self.sql_type()?;
        let (mut is_nullable, mut comment) = (true, None);
        loop {
            let next = self.peek();
            if self.accept_all(&["NOT", "NULL"]) {
                is_nullable = false;
            } else if self.accept("NULL") {
                is_nullable = true;
            } else if self.accept_all(&["PRIMARY", "KEY"]) {
                self.not_enforced()?;
                table.primary_key = vec![name.clone()];
                is_nullable = false;
            } else if self.accept("COMMENT") {
                comment = Some(self.text()?.0);
            } else if let Some(refusal) = refuse::column_clause(&next, script::span(next.span)) {
                return Err(refusal);
            } else {
                break;
            }
        }
        Ok(ColumnDeclaration { name, kind: ColumnKind::Physical { sql_type, is_nullable, at }, comment })
    }

    /// A primary key is a promise about the rows that nobody here relies on yet; one that we should hold is refused.
    fn not_enforced(&mut self) -> Result<()> {
        let at = self.here();
        if self.accept_all(&["NOT", "ENFORCED"]) {
            return Ok(());
        }
        Err(Error::query("a primary key cannot be enforced on a stream")
            .with_hint("write PRIMARY KEY … NOT ENFORCED, or leave it out")
            .at(at))
    }

    fn sql_type(&mut self) -> Result<SqlType> {
        let next = self.peek();
        for nested in ["ROW", "MAP", "MULTISET", "ARRAY", "STRUCT", "RAW", "VARIANT"] {
            if is_word(&next, nested) {
                return Err(types::nested(nested).at(self.here()));
            }
        }
        if !matches!(next.token, Token::Word(_)) {
            return self.expected("a type");
        }
        let read = self.parser.parse_data_type();
        self.checked(read)
    }

    fn options(&mut self) -> Result<Options> {
        self.expect(Token::LParen)?;
        let mut entries: Vec<(String, String)> = Vec::new();
        while self.peek().token != Token::RParen {
            let (key, at) = self.text()?;
            self.expect(Token::Eq)?;
            let (value, _) = self.text()?;
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(Error::query(format!("option '{key}' is given twice")).at(at));
            }
            entries.push((key, value));
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect(Token::RParen)?;
        Ok(Options::new(entries))
    }

    fn create_view(&mut self, replaces: bool, is_temporary: bool) -> Result<Kind> {
        let exists = self.exists(replaces)?;
        let name = self.table_name()?;
        let columns = if self.parser.consume_token(&Token::LParen) { self.names()? } else { Vec::new() };
        if self.accept("COMMENT") {
            self.text()?;
        }
        self.expect_word("AS")?;
        let from = self.parser.index();
        let query = self.query()?;
        let text = self.words.text_of(from, self.parser.index()).to_string();
        Ok(Kind::CreateView(Box::new(CreateView { name, exists, is_temporary, columns, query, text })))
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
        Ok(Kind::Insert(Box::new(Insert { table, columns, query: self.query()? })))
    }

    fn explain(&mut self) -> Result<Kind> {
        let mut format = ExplainFormat::Text;
        let is_query = ["SELECT", "WITH", "VALUES"].iter().any(|w| is_word(&self.parser.peek_nth_token(1), w));
        if self.accept_all(&["PLAN", "FOR"]) {
        } else if self.peek().token == Token::LParen && !is_query {
            self.expect(Token::LParen)?;
            self.expect_word("FORMAT")?;
            let name = self.name()?;
            format = match name.text.to_ascii_uppercase().as_str() {
                "TEXT" => ExplainFormat::Text,
                "JSON" => ExplainFormat::Json,
                "DOT" => ExplainFormat::Dot,
                _ => {
                    let message = format!("unknown format {:?} of EXPLAIN", name.text);
                    return Err(Error::query(message).with_hint("the formats are TEXT, JSON and DOT").at(name.at));
                }
            };
            self.expect(Token::RParen)?;
        }
        let at = self.here();
        match self.statement()? {
            kind @ (Kind::Query(_) | Kind::Insert(_)) => Ok(Kind::Explain(Box::new(kind), format)),
            _ => Err(Error::query("only SELECT and INSERT have a plan to explain").at(at)),
        }
    }

    fn set(&mut self) -> Result<Kind> {
        if self.is_end() {
            return Ok(Kind::ShowSettings);
        }
        let (key, at) = self.key()?;
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

    fn written(&mut self) -> Result<Written> {
        let (from, at) = (self.parser.index(), self.here());
        let read = self.parser.parse_expr();
        let expression = self.checked(read)?;
        Ok(Written { expression, text: self.words.text_of(from, self.parser.index()).to_string(), at })
    }

    /// A table's name: there is one catalog and one database, so names have one part.
    fn table_name(&mut self) -> Result<Name> {
        let name = self.name()?;
        if self.peek().token == Token::Period {
            return Err(Error::query("names of tables have one part: there are no catalogs and databases")
                .with_hint("leave out what stands before the last dot")
                .at(name.at));
        }
        Ok(name)
    }

    /// Names up to the closing parenthesis.
    fn names(&mut self) -> Result<Vec<Name>> {
        let mut names = vec![self.name()?];
        while self.parser.consume_token(&Token::Comma) {
            names.push(self.name()?);
        }
        self.expect(Token::RParen)?;
        Ok(names)
    }

    fn name(&mut self) -> Result<Name> {
        let next = self.peek();
        if !matches!(next.token, Token::Word(_)) {
            return self.expected("a name");
        }
        let read = self.parser.parse_identifier();
        let Ident { value, .. } = self.checked(read)?;
        Ok(Name { text: value, at: script::span(next.span) })
    }

    fn text(&mut self) -> Result<(String, Span)> {
        let next = self.peek();
        match next.token {
            Token::SingleQuotedString(text) => {
                self.parser.next_token();
                Ok((text, script::span(next.span)))
            }
            _ => self.expected("a text in single quotes"),
        }
    }

    fn accept(&mut self, word: &str) -> bool {
        let is_next = is_word(&self.peek(), word);
        if is_next {
            self.parser.next_token();
        }
        is_next
    }

    fn accept_all(&mut self, words: &[&str]) -> bool {
        let are_next = words.iter().enumerate().all(|(i, word)| is_word(&self.parser.peek_nth_token(i), word));
        if are_next {
            words.iter().for_each(|_| drop(self.parser.next_token()));
        }
        are_next
    }

    fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.accept(word) { Ok(()) } else { self.expected(word) }
    }

    fn expect(&mut self, token: Token) -> Result<()> {
        if self.parser.consume_token(&token) { Ok(()) } else { self.expected(&token.to_string()) }
    }

    fn expected<T>(&self, what: &str) -> Result<T> {
        let found = diagnose::quoted(&self.peek().token);
        Err(Error::query(format!("expected {what}, found {found}")).at(self.here()))
    }

    fn peek(&self) -> TokenWithSpan {
        self.parser.peek_token()
    }

    fn here(&self) -> Span {
        let next = self.peek();
        if next.token == Token::EOF { self.words.end() } else { script::span(next.span) }
    }

    fn is_end(&self) -> bool {
        self.peek().token == Token::EOF
    }

    fn checked<T>(&self, read: Result<T, ParserError>) -> Result<T> {
        read.map_err(|error| refuse::clause(self.words).unwrap_or_else(|| diagnose::syntax(&error, self.words)))
    }
}
