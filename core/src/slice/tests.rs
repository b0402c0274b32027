mod cases;
mod fixture;
mod moves;
mod properties;
mod trees;
