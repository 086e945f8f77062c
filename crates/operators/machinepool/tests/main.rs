//! Machine pools on our API server or on kube-apiserver: one server for management, one as the workload cluster.
#![allow(clippy::unwrap_used)]

mod api;
mod comparison;
mod connections;
mod installation;
mod life;
mod paths;
mod player;
mod providers;
mod rights;
mod scenarios;
mod world;
