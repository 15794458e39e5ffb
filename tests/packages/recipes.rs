//! recipes
