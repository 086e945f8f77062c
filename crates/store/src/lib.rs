//! Objects by key and revision: durable, cached in memory, watched.
