//! How is it drawn? Points, scales and labels to SVG, by itself: no font, no library, no network.
//!
//! Promises: pure, and the same text for the same data on every machine. A value outside its scale
//! is never moved to the edge; every text is escaped.
