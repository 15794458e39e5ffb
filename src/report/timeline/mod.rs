//! Runs as bars over time: the layout is computed once, and drawn as text for a terminal or as SVG. It draws only the runs that
//! it is given.

pub(crate) mod layout;
pub(crate) mod svg;
mod text;

pub(crate) use layout::{GroupBy, Timeline};
pub(crate) use svg::timeline_svg;
pub(crate) use text::timeline_text;
