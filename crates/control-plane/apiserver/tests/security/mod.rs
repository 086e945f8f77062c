//! Authentication, authorisation and secrecy, tested through the server's requests.
mod authentication;
mod certificates;
mod definitions;
mod escalation;
mod harness;
mod impersonation;
mod policies;
mod rights;
mod secrecy;
