//! Rules that the files of the project keep: its rooms, its words, its book, its lists.

mod book;
#[path = "../common/files.rs"]
mod files;
mod mutations;
mod publication;
mod rooms;
#[path = "../common/rust.rs"]
mod rust;
mod words;
