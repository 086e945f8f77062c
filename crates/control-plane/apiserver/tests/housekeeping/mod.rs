//! Housekeeping as clients see it: tests neither start a task nor wait for one, except for the test of the background
//! task; `settle` returns when nothing is left to do.
mod background;
mod cluster;
mod creation;
mod definitions;
mod eviction;
mod garbage;
mod graph;
mod namespace;
mod time;
