//! The map of slices as SVG.

use std::fmt::Write as _;

use sluice::wire::pb;

use super::map::{Legend, Use, mark};
use crate::text::safe;

/// Colours of owners. Neighbours differ in lightness as well, for those who do not tell them apart by hue.
const FILLS: [&str; 12] = [
    "#4477aa", "#ee8866", "#228833", "#cc99bb", "#ccbb44", "#66ccee", "#aa3377", "#bbcc33",
    "#332288", "#44bb99", "#882255", "#99ddff",
];
/// Side of a host. Unit: pixels.
const SIDE: usize = 26;
/// Height of a line of text.
const LINE: usize = 18;

/// The picture.
pub(super) fn svg(known: &pb::ListSlicesResponse, legend: &Legend) -> String {
    let layers = known.cubes.iter().map(|cube| cube.hosts.len() / 4).max().unwrap_or(0);
    let width = (20 + layers * (2 * SIDE + 14)).max(420);
    let owners = legend.owners().count();
    let height = 20 + known.cubes.len() * (2 * SIDE + 3 * LINE) + (owners + 1) * LINE;
    let mut svg = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">"
    );
    svg.push_str(
        "<defs><pattern id=\"leaves\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
         <rect width=\"3\" height=\"6\" fill=\"#ffffff\" fill-opacity=\"0.7\"/></pattern></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
    );
    let mut top = 10;
    for cube in &known.cubes {
        let title =
            format!("{} ({} {})", safe(&cube.id), safe(&cube.generation), safe(&cube.block));
        label(&mut svg, 10, top + LINE, &title);
        draw(&mut svg, cube, legend, top + 2 * LINE);
        top += 2 * SIDE + 3 * LINE;
    }
    for (workload, place) in legend.owners() {
        let fill = FILLS[place % FILLS.len()];
        let _ = writeln!(
            svg,
            "<rect x=\"10\" y=\"{top}\" width=\"12\" height=\"12\" fill=\"{fill}\"/>"
        );
        let shapes = legend.shapes(workload);
        label(
            &mut svg,
            28,
            top + 11,
            &format!("{} {}: {shapes}", Legend::letter(place), safe(workload)),
        );
        top += LINE;
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, cube: &pb::SliceCube, legend: &Legend, top: usize) {
    let layers = cube.hosts.len() / 4;
    for (number, host) in cube.hosts.iter().enumerate() {
        let (column, z) = (number / layers.max(1), number % layers.max(1));
        let x = 10 + z * (2 * SIDE + 14) + column / 2 * SIDE;
        let y = top + column % 2 * SIDE;
        let owner = legend.on(host);
        let fill = owner.map_or("#eeeeee", |(place, _)| FILLS[place % FILLS.len()]);
        let opacity = if matches!(owner, Some((_, Use::Held))) { "0.4" } else { "1" };
        let stroke = if mark(host) == ' ' { "#ffffff" } else { "#cc0000" };
        let frame = format!("x=\"{x}\" y=\"{y}\" width=\"{SIDE}\" height=\"{SIDE}\"");
        let _ = writeln!(
            svg,
            "<rect {frame} fill=\"{fill}\" fill-opacity=\"{opacity}\" stroke=\"{stroke}\"><title>{}</title></rect>",
            escaped(&host.node)
        );
        if matches!(owner, Some((_, Use::Leaves))) {
            let _ = writeln!(svg, "<rect {frame} fill=\"url(#leaves)\"/>");
        }
        let text: String = [owner.map(|(place, _)| Legend::letter(place)), Some(mark(host))]
            .into_iter()
            .flatten()
            .filter(|c| *c != ' ')
            .collect();
        label(svg, x + 6, y + 17, &text);
    }
}

fn label(svg: &mut String, x: usize, y: usize, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{}</text>", escaped(text));
}

/// Names come from outside.
fn escaped(text: &str) -> String {
    let text = safe(text).replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}
