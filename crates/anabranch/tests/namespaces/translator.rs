//! Address translators.
