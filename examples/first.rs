//! Counts words as they come: the smallest program there is.

fn main() -> Result<(), thalweg::Error> {
    let mut engine = thalweg::Engine::new();
    for batch in
        engine.sql("SELECT word, count(*) AS n FROM (VALUES ('to'), ('be'), ('to')) AS t (word) GROUP BY word")?
    {
        println!("{:?}", batch?);
    }
    Ok(())
}
