//! Scripts of reads, seeks, limits, captures and faults on a read channel: the channel behaves like
//! a model, which is a slice and a position. The engine's tests play the same scripts from seeds.
//! They define the scripts and the comparison.
//!
//! The servers run in this process and use loopback, so a run depends slightly on when bytes
//! arrive.

#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/engine/tests/call/mod.rs"]
mod call;
#[path = "../../crates/engine/tests/it/read_model/drive.rs"]
mod drive;
#[path = "../../crates/engine/tests/it/read_model/model.rs"]
mod model;
#[path = "../../crates/engine/tests/it/read_model/script.rs"]
mod script;
#[path = "../../crates/engine/tests/it/read_model/stage.rs"]
mod stage;

use script::Script;
use stage::Stage;

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::new(Stage::new());
}

fuzz_target!(|bytes: &[u8]| {
    let script = Script::of(bytes);
    STAGE.with_borrow_mut(|stage| {
        if let Err(wrong) = stage.run(&script) {
            let (small, wrong_then) = stage.shrink(&script, wrong.clone());
            panic!("{wrong}\nsmaller: {wrong_then}\n{small:#?}");
        }
    });
});
