//! What is refused, with what is said.

use super::*;

#[test]
fn an_unknown_column_is_marked_and_the_nearest_is_named() {
    let shown = refusal_in(&mut session(), "SELECT origin,\n       dely FROM s");
    assert_eq!(
        shown,
        "column \"dely\" not found\n  2 |        dely FROM s\n    |        ^^^^\nhint: did you mean \"delay\"?"
    );
}
