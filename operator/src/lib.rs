//! resources and reconcilers.
