//! The native protocol server: accept, frame, dispatch, shed load.
#![forbid(unsafe_code)]
