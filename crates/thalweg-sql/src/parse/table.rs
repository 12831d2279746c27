//! `CREATE TABLE`.

use sqlparser::{ast::DataType as SqlType, tokenizer::Token};
use thalweg_core::{Error, Result, connector::Options};

use super::{ColumnDeclaration, ColumnKind, CreateTable, Kind, OptionPlaces, WatermarkDeclaration, reader::Reader};
use crate::{
    refuse,
    script::{self, is_word},
    types,
};

impl Reader<'_> {
    pub(super) fn create_table(&mut self, replaces: bool, is_temporary: bool) -> Result<Kind> {
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
            option_places: OptionPlaces { with: self.here(), entries: Vec::new() },
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
        table.option_places.with = self.here();
        if self.accept("WITH") {
            table.options = self.options(&mut table.option_places)?;
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

    /// A primary key is a promise about the rows, which nobody checks; one that we should hold is refused.
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

    fn options(&mut self, places: &mut OptionPlaces) -> Result<Options> {
        self.expect(Token::LParen)?;
        let mut entries: Vec<(String, String)> = Vec::new();
        while self.peek().token != Token::RParen {
            let (key, at) = self.text()?;
            self.expect(Token::Eq)?;
            let (value, at_value) = self.text()?;
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(Error::query(format!("option '{key}' is given twice")).at(at));
            }
            places.entries.push((key.clone(), at, at_value));
            entries.push((key, value));
            if !self.parser.consume_token(&Token::Comma) {
                break;
            }
        }
        self.expect(Token::RParen)?;
        Ok(Options::new(entries))
    }
}
