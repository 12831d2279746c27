//! Streams put together in Rust: one is looked at, one counted per account, and one averaged per minute.

use std::time::Duration;

use thalweg::{Engine, Result, topology::Window};

fn main() -> Result<()> {
    let mut engine = Engine::new();
    engine.sql(
        "CREATE TABLE trades (
             ts TIMESTAMP, symbol STRING, account BIGINT, price DOUBLE, WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
         ) WITH (
             'connector' = 'generator', 'number-of-rows' = '1000', 'fields.ts.step' = '1 s',
             'fields.symbol.kind' = 'choice', 'fields.symbol.values' = 'ACME,OMNI',
             'fields.account.kind' = 'random', 'fields.account.min' = '1', 'fields.account.max' = '5',
             'fields.price.kind' = 'random', 'fields.price.min' = '900', 'fields.price.max' = '1001'
         );
         CREATE TABLE acme (
             ts TIMESTAMP, symbol STRING, account BIGINT, price DOUBLE, nth BIGINT
         ) WITH ('connector' = 'blackhole')",
    )?;
    let topology = engine.topology();
    let trades = topology.table("trades");
    let split = trades.split(["price > 1000", "symbol = 'ACME'"]); // two streams, and a third for the rest
    let large = |price: f64| println!("large: {price}");
    split[0].notify_rows(move |row| row.get("price").map(large)).discard();
    let counted = split[1].key_by(["account"]).stateful_map(
        ["nth"],
        || 0_i64,
        |nth, _| {
            *nth += 1;
            Ok(*nth)
        },
    );
    counted.into("acme");
    let minute = Window::tumble(Duration::from_secs(60));
    let means = trades.key_by(["symbol"]).window(minute).aggregate(["avg(price) AS mean"]);
    for batch in means.start()? {
        println!("{:?}", batch?); // All three run.
    }
    Ok(())
}
