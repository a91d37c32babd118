//! Every byte of every file flipped: a miss, never wrong bytes, never a crash.
